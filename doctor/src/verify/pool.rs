//! The direct pool: under its limit, not growing, in a bounded number of buffers.

use super::series::{At, Course, Order, Scrapes, proof};
use super::{Check, Outcome};
use crate::findings::{Facts, Proof, Text, exact, text};

/// The levels of the recommended alerts, in percent of the limit.
const LEVELS: [(u64, &str); 3] =
    [(70, "direct-pool-below-70"), (80, "direct-pool-below-80"), (90, "direct-pool-below-90")];
/// Fewer values say nothing of growth.
const LEAST_VALUES: usize = 3;
/// Growth that is noise.
const LEAST_TOLERANCE: u64 = 1 << 20;
/// Buffers more that are noise.
const LEAST_BUFFERS: u64 = 16;

/// A limit in bytes and where it is written.
pub(super) type Limit = (u64, Vec<Proof>);

/// A value of the pool's bytes, as it is cited.
fn used(value: String) -> Text {
    text!("direct pool = {value} bytes", "直接内存池 = {value} 字节")
}

/// A number of buffers, as it is cited.
fn buffers(value: String) -> Text {
    text!("direct buffers = {value}", "直接缓冲区 = {value} 个")
}

/// What the values leave open.
fn remarks(scrapes: &Scrapes) -> Text {
    let mut all = text!("", "");
    let mut add = |text: Text| {
        all.en.push_str(&text.en);
        all.zh.push_str(&text.zh);
    };
    if scrapes.unusable > 0 {
        let count = exact(scrapes.unusable);
        let values = if scrapes.unusable == 1 { "value is" } else { "values are" };
        add(text!("; {count} {values} no number of bytes", "；{count} 个值不是有效的字节数"));
    }
    if scrapes.before_start > 0 {
        let count = exact(scrapes.before_start);
        let values = if scrapes.before_start == 1 { "value" } else { "values" };
        add(text!(
            "; {count} {values} from before the last start left out",
            "；最近一次启动之前的 {count} 个值不计"
        ));
    }
    all
}

/// Whose values, where there are several processes.
fn whose(course: &Course) -> String {
    if course.target.is_empty() { String::new() } else { format!(" ({})", course.target) }
}

pub(super) fn levels(facts: &Facts<'_>, scrapes: &Scrapes, limit: Option<&Limit>) -> Vec<Check> {
    // Dumps count as scrapes: their pool is the JVM's own count.
    let of_dumps = facts.dumps.iter().filter_map(|dump| {
        let pool = dump.account.direct.counted?;
        let says =
            text!("java.nio.Bits: {used} bytes", "java.nio.Bits：{used} 字节", used = exact(pool.used_bytes));
        Some((pool.used_bytes, dump.proof(says), String::new()))
    });
    let of_scrapes = scrapes.used.iter().filter_map(|course| {
        let at = Course::max(&course.values)?;
        Some((at.value, proof(facts, at, used), whose(course)))
    });
    let highest = of_scrapes.chain(of_dumps).max_by_key(|(value, ..)| *value);
    let values =
        scrapes.values() + facts.dumps.iter().filter(|d| d.account.direct.counted.is_some()).count() as u64;
    let check = |(percent, id): (u64, &'static str)| {
        let criterion = text!(
            "the direct pool stays under {percent} % of its limit",
            "直接内存池始终低于其上限的 {percent} %"
        );
        let remarks = remarks(scrapes);
        let (en, zh) = (&remarks.en, &remarks.zh);
        let Some((used, place, whose)) = &highest else {
            let lacks = text!(
                "no metric of the direct pool and no dump{en}",
                "没有直接内存池的指标，也没有堆转储{zh}"
            );
            return Check::not_judged(id, criterion, lacks);
        };
        let Some((limit, proofs)) = limit else {
            let lacks = text!(
                "the limit is not known: give VM.flags, VM.command_line, a dump, or --limit",
                "上限未知：请提供 VM.flags、VM.command_line、堆转储，或用 --limit 指定"
            );
            return Check::not_judged(id, criterion, lacks).cite([place]);
        };
        // In 128 bits, so that no size overflows.
        let holds = u128::from(*used) * 100 < u128::from(*limit) * u128::from(percent);
        let reached = u128::from(*used) * 100 / u128::from((*limit).max(1));
        let noun = if values == 1 { "value" } else { "values" };
        let (used_text, limit_text, count) = (exact(*used), exact(*limit), exact(values));
        let says = text!(
            "the highest of {count} {noun} is {used_text} of {limit_text} bytes, {reached} %{whose}{en}",
            "{count} 个值中最大为 {used_text} 字节，是上限 {limit_text} 字节的 {reached} %{whose}{zh}"
        );
        Check::judged(id, criterion, holds, says)
            .number("used_bytes", *used)
            .number("limit_bytes", *limit)
            .number("values", values)
            .cite([place])
            .cite(proofs)
    };
    LEVELS.into_iter().map(check).collect()
}

/// Why a course over time cannot be judged.
fn too_short(scrapes: &Scrapes, longest: usize) -> Option<Text> {
    let remarks = remarks(scrapes);
    let (en, zh) = (&remarks.en, &remarks.zh);
    if scrapes.order == Order::Unknown {
        return Some(text!(
            "the order of the files in time is not known: give samples with timestamps, or names with a time{en}",
            "无法确定文件的时间顺序：请给样本带上时间戳，或在文件名中写明时间{zh}"
        ));
    }
    let noun = if longest == 1 { "value" } else { "values" };
    (longest < LEAST_VALUES).then(|| {
        text!(
            "{longest} {noun} of one process; it takes {LEAST_VALUES} at least{en}",
            "同一进程只有 {longest} 个值；至少需要 {LEAST_VALUES} 个{zh}"
        )
    })
}

/// One course that was judged: its ends, and by how much it grew beyond what is allowed.
struct Grown<'c> {
    course: &'c Course,
    earlier: &'c At,
    later: &'c At,
    allowed: u64,
}

impl Grown<'_> {
    fn growth(&self) -> i128 {
        i128::from(self.later.value) - i128::from(self.earlier.value)
    }

    fn excess(&self) -> i128 {
        self.growth() - i128::from(self.allowed)
    }
}

fn worst<'c>(courses: &'c [Course], allowed: impl Fn(u64) -> u64) -> Option<Grown<'c>> {
    let judged = courses.iter().filter(|course| course.values.len() >= LEAST_VALUES).filter_map(|course| {
        let (earlier, later) = course.halves()?;
        Some(Grown { course, earlier, later, allowed: allowed(earlier.value) })
    });
    judged.max_by_key(Grown::excess)
}

/// A figure that must not grow.
struct Figure<'c> {
    id: &'static str,
    criterion: Text,
    courses: &'c [Course],
    /// What is counted, and how one value is cited.
    unit: Text,
    says: fn(String) -> Text,
    /// The names of the earlier, the later and the allowed value.
    numbers: [&'static str; 3],
    /// What is said behind the judgement.
    remarks: Text,
}

impl Figure<'_> {
    /// The check of the course that grew furthest beyond what is allowed from its earlier value on.
    fn check(self, facts: &Facts<'_>, scrapes: &Scrapes, allowed: impl Fn(u64) -> u64) -> Check {
        let Self { id, criterion, courses, unit, says, numbers, remarks } = self;
        let longest = courses.iter().map(|course| course.values.len()).max().unwrap_or(0);
        if let Some(lacks) = too_short(scrapes, longest) {
            return Check::not_judged(id, criterion, lacks);
        }
        let Some(worst) = worst(courses, allowed) else {
            return Check::new(id, criterion, Outcome::NotJudged, self::remarks(scrapes));
        };
        let (growth, allowed) = (crate::report::signed(worst.growth()), exact(worst.allowed));
        let (earlier, later) = (exact(worst.earlier.value), exact(worst.later.value));
        let (count, whose) = (worst.course.values.len(), whose(worst.course));
        let judgement = text!(
            "{earlier} to {later} {unit} over {count} values: {growth}, {allowed} are allowed{whose}{remarks}",
            "{count} 个值：由 {earlier} 变为 {later} {unit}，变化 {growth}，允许 {allowed}{whose}{remarks}";
            unit, remarks
        );
        Check::judged(id, criterion, worst.excess() <= 0, judgement)
            .number(numbers[0], worst.earlier.value)
            .number(numbers[1], worst.later.value)
            .number(numbers[2], worst.allowed)
            .number("values", count as u64)
            .cite(&[proof(facts, worst.earlier, says), proof(facts, worst.later, says)])
    }
}

pub(super) fn growth(
    facts: &Facts<'_>,
    scrapes: &Scrapes,
    limit: Option<&Limit>,
    tolerance: Option<u64>,
) -> Check {
    let figure = Figure {
        id: "direct-pool-growth",
        criterion: text!(
            "the direct pool does not grow: the later half of the values is no higher than the earlier one",
            "直接内存池不增长：后半段的最大值不高于前半段"
        ),
        courses: &scrapes.used,
        unit: text!("bytes", "字节"),
        says: used,
        numbers: ["earlier_bytes", "later_bytes", "allowed_bytes"],
        remarks: remarks(scrapes),
    };
    figure.check(facts, scrapes, |earlier| {
        tolerance.unwrap_or_else(|| limit.map_or(earlier / 20, |(limit, _)| limit / 100).max(LEAST_TOLERANCE))
    })
}

pub(super) fn count(facts: &Facts<'_>, scrapes: &Scrapes) -> Check {
    let figure = Figure {
        id: "direct-buffer-count",
        criterion: text!(
            "the number of direct buffers is bounded: the later half of the values is no higher than the earlier one",
            "直接缓冲区的数量有界：后半段的最大值不高于前半段"
        ),
        courses: &scrapes.count,
        unit: text!("buffers", "个缓冲区"),
        says: buffers,
        numbers: ["earlier_buffers", "later_buffers", "allowed_buffers"],
        remarks: text!("", ""),
    };
    figure.check(facts, scrapes, |earlier| (earlier / 10).max(LEAST_BUFFERS))
}
