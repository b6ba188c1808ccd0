//! The values of the direct pool in the order of time, whatever the order of the files; only those since the last start of
//! each process.

use std::collections::{BTreeMap, HashMap};

use crate::evidence::{Metric, Point, as_bytes, date_ms};
use crate::findings::{Facts, Proof, Text, exact};

/// Starts that are nearer are one: exporters round.
const SAME_START_MS: i64 = 2_000;

/// What the order of the scrapes rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// There is nothing to order.
    #[default]
    Single,
    /// All values are of one file.
    File,
    /// The samples' own times.
    Stamps,
    /// Times in the names of the files.
    Names,
    /// When the files were written.
    FileTimes,
    /// Not known: files without times, or with equal ones.
    Unknown,
}

impl Order {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::File => "place_in_file",
            Self::Stamps => "timestamps",
            Self::Names => "file_names",
            Self::FileTimes => "file_times",
            Self::Unknown => "unknown",
        }
    }
}

/// One value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct At {
    pub(super) value: u64,
    pub(super) file: usize,
    pub(super) line: u64,
    time_ms: Option<i64>,
    start_ms: Option<i64>,
}

/// One figure of one process over time.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Course {
    /// The labels that tell processes apart; mostly empty.
    pub(super) target: String,
    /// The values, the oldest first.
    pub(super) values: Vec<At>,
}

impl Course {
    /// The largest value, the latest of equal ones.
    pub(super) fn max(values: &[At]) -> Option<&At> {
        values.iter().max_by_key(|at| at.value)
    }

    /// The largest value of the earlier half and of the later one, which has the middle.
    pub(super) fn halves(&self) -> Option<(&At, &At)> {
        let (earlier, later) = self.values.split_at_checked(self.values.len() / 2)?;
        Some((Self::max(earlier)?, Self::max(later)?))
    }
}

/// Values of the direct pool over time.
#[derive(Debug, Default)]
pub(super) struct Scrapes {
    /// Bytes, by process.
    pub(super) used: Vec<Course>,
    /// Buffers, by process.
    pub(super) count: Vec<Course>,
    /// What the order rests on.
    pub(super) order: Order,
    /// Values that are no number of bytes.
    pub(super) unusable: u64,
    /// Values before the last start of their process.
    pub(super) before_start: u64,
}

impl Scrapes {
    /// Puts the values of all files in order.
    pub(super) fn of(facts: &Facts<'_>, file_times: &[Option<i64>]) -> Self {
        let mut scrapes = Self::default();
        let judged = [Metric::BufferPoolUsed, Metric::BufferPoolCount];
        let has_pool =
            |points: &BTreeMap<Metric, Vec<Point>>| judged.iter().any(|metric| points.contains_key(metric));
        let mut files: Vec<usize> = Vec::new();
        let mut all_stamped = true;
        for found in facts.evidence.metrics.iter().filter(|found| has_pool(&found.value.points)) {
            if !files.contains(&found.file) {
                files.push(found.file);
            }
            let mut points = judged.iter().filter_map(|metric| found.value.points.get(metric)).flatten();
            all_stamped &= points.all(|point| point.at_ms.is_some());
        }
        // One clock for all files: values of different clocks cannot be put in order.
        let named: Option<HashMap<usize, i64>> =
            files.iter().map(|file| Some((*file, time_of_name(facts, *file)?))).collect();
        let written: Option<HashMap<usize, i64>> =
            files.iter().map(|file| Some((*file, (*file_times.get(*file)?)?))).collect();
        let distinct = |times: &HashMap<usize, i64>| {
            let mut all: Vec<_> = times.values().collect();
            all.sort_unstable();
            all.dedup();
            all.len() == times.len()
        };
        let (order, times) = match (files.len(), named, written) {
            (0, ..) => (Order::Single, None),
            _ if all_stamped => (Order::Stamps, None),
            (1, ..) => (Order::File, None),
            (_, Some(named), _) if distinct(&named) => (Order::Names, Some(named)),
            (_, _, Some(written)) if distinct(&written) => (Order::FileTimes, Some(written)),
            _ => (Order::Unknown, None),
        };
        scrapes.order = order;
        scrapes.used = scrapes.courses(facts, Metric::BufferPoolUsed, times.as_ref());
        scrapes.count = scrapes.courses(facts, Metric::BufferPoolCount, times.as_ref());
        if scrapes.values() < 2 {
            scrapes.order = Order::Single;
        }
        scrapes
    }

    /// Values of the pool's bytes.
    pub(super) fn values(&self) -> u64 {
        self.used.iter().map(|course| course.values.len() as u64).sum()
    }

    fn courses(
        &mut self,
        facts: &Facts<'_>,
        metric: Metric,
        times: Option<&HashMap<usize, i64>>,
    ) -> Vec<Course> {
        let mut courses: BTreeMap<&str, Vec<At>> = BTreeMap::new();
        for found in &facts.evidence.metrics {
            let points = found.value.points.get(&metric).map_or(&[][..], Vec::as_slice);
            let starts = found.value.points.get(&Metric::ProcessStart).map_or(&[][..], Vec::as_slice);
            let mut starts_of: HashMap<&str, Vec<f64>> = HashMap::new();
            for start in starts {
                starts_of.entry(&start.target).or_default().push(start.value);
            }
            let mut values_of: HashMap<&str, usize> = HashMap::new();
            for point in points {
                *values_of.entry(&point.target).or_default() += 1;
            }
            let mut seen: HashMap<&str, usize> = HashMap::new();
            for point in points {
                let target = point.target.as_str();
                let starts = starts_of.get(target).map_or(&[][..], Vec::as_slice);
                let index = seen.entry(target).or_default();
                let start = match starts.len() {
                    1 => starts.first(),
                    // A start belongs to a value only where each scrape has both.
                    count if values_of.get(target) == Some(&count) => starts.get(*index),
                    _ => None,
                };
                *index += 1;
                let Some(value) = as_bytes(point.value) else {
                    self.unusable += 1;
                    continue;
                };
                let time_ms = if self.order == Order::Stamps {
                    point.at_ms
                } else {
                    times.and_then(|times| times.get(&found.file).copied())
                };
                courses.entry(&point.target).or_default().push(At {
                    value,
                    file: found.file,
                    line: point.line,
                    time_ms,
                    start_ms: start.and_then(|start| start_ms(*start)),
                });
            }
        }
        courses
            .into_iter()
            .map(|(target, mut values)| {
                // Stable: what has the same time stays in the order of its file.
                values.sort_by_key(|at| at.time_ms);
                let started = values.iter().filter_map(|at| at.start_ms).max();
                let all = values.len();
                values.retain(|at| match (at.start_ms, started) {
                    (Some(start), Some(last)) => last.saturating_sub(start) <= SAME_START_MS,
                    _ => true,
                });
                self.before_start += (all - values.len()) as u64;
                Course { target: target.to_owned(), values }
            })
            .filter(|course| !course.values.is_empty())
            .collect()
    }
}

/// The place of a value.
pub(super) fn proof(facts: &Facts<'_>, at: &At, says: fn(String) -> Text) -> Proof {
    facts.proof(at.file, at.line, says(exact(at.value)))
}

/// Seconds or milliseconds since 1970.
fn start_ms(value: f64) -> Option<i64> {
    let ms = if value < 1e11 { value * 1000.0 } else { value };
    (ms > 0.0 && ms < 1e15).then_some(ms as i64)
}

/// A time in a file's name, such as `scrape-20261130-115723.prom` or `2026-11-30T11:57:23`.
fn time_of_name(facts: &Facts<'_>, file: usize) -> Option<i64> {
    let name = facts.evidence.path(file).file_name()?.to_str()?;
    let digits: Vec<(usize, &str)> = name
        .split(|c: char| !c.is_ascii_digit())
        .scan(0, |at, piece| {
            let start = *at;
            *at += piece.len() + 1;
            Some((start, piece))
        })
        .filter(|(_, piece)| !piece.is_empty())
        .collect();
    let whole: String = digits.iter().map(|(_, piece)| *piece).collect();
    // Seconds or milliseconds since 1970, alone.
    if let Some((_, stamp)) = digits.iter().find(|(_, piece)| matches!(piece.len(), 10 | 13)) {
        let number: i64 = stamp.parse().ok()?;
        return Some(if stamp.len() == 10 { number.saturating_mul(1000) } else { number });
    }
    let start = whole.find("20")?;
    let stamp = whole.get(start..start + 14)?;
    let part = |from: usize, to: usize| stamp.get(from..to).unwrap_or_default();
    date_ms(&format!(
        "{}-{}-{} {}:{}:{}",
        part(0, 4),
        part(4, 6),
        part(6, 8),
        part(8, 10),
        part(10, 12),
        part(12, 14)
    ))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::evidence::Evidence;

    const USED: &str = "jvm_buffer_pool_used_bytes{pool=\"direct\"}";

    fn values(files: &[(&str, String)], times: &[Option<i64>]) -> (Vec<u64>, Order) {
        let mut evidence = Evidence::default();
        for (name, text) in files {
            evidence.read(Path::new(name), text.as_bytes());
        }
        let scrapes = Scrapes::of(&Facts::of(&evidence, &[]), times);
        let values = scrapes.used.first().map(|course| course.values.iter().map(|at| at.value).collect());
        (values.unwrap_or_default(), scrapes.order)
    }

    fn scrape(value: u64) -> String {
        format!("{USED} {value}\n")
    }

    #[test]
    fn files_in_any_order_are_ordered_by_stamps_names_or_times() {
        let stamped = |value, at| format!("{USED} {value} {at}\n");
        let files = [("b", stamped(3, 1_700_000_003_000_i64)), ("a", stamped(1, 1_700_000_001_000))];
        assert_eq!(values(&files, &[Some(1), Some(2)]), (vec![1, 3], Order::Stamps));
        let files = [("m-20261130-115725.prom", scrape(2)), ("m-20261130-115723.prom", scrape(1))];
        assert_eq!(values(&files, &[Some(1), Some(2)]), (vec![1, 2], Order::Names));
        let files = [("m-1796039845", scrape(2)), ("m-1796039843", scrape(1))];
        assert_eq!(values(&files, &[]), (vec![1, 2], Order::Names));
        let files = [("b", scrape(2)), ("a", scrape(1))];
        assert_eq!(values(&files, &[Some(9), Some(4)]), (vec![1, 2], Order::FileTimes));
        assert_eq!(values(&files, &[Some(9), Some(9)]).1, Order::Unknown);
        assert_eq!(values(&files, &[None, Some(9)]).1, Order::Unknown);
        assert_eq!(values(&[("b", scrape(5) + &scrape(4))], &[]), (vec![5, 4], Order::File));
        assert_eq!(values(&[("b", scrape(5))], &[]).1, Order::Single);
        assert_eq!(values(&[], &[]), (vec![], Order::Single));
    }

    #[test]
    fn only_values_since_the_last_start_count() {
        let with_start = |value, start: &str| format!("{USED} {value}\nprocess_start_time_seconds {start}\n");
        let files = [("2", with_start(9, "1.7E9")), ("1", with_start(1, "1.700005E9"))];
        assert_eq!(values(&files, &[Some(1), Some(2)]).0, [1]);
        let one = with_start(9, "1.7E9") + &with_start(1, "1.700005E9") + &with_start(2, "1.700005E9");
        assert_eq!(values(&[("one", one)], &[]).0, [1, 2]);
        // Which start belongs to which value is not known here.
        assert_eq!(
            values(&[("x", scrape(1) + &with_start(9, "1.7E9") + &with_start(2, "1.8E9"))], &[]).0.len(),
            3
        );
    }

    #[test]
    fn hostile_values_and_clocks_are_counted_or_left_out() {
        let text = ["NaN", "+Inf", "-Inf", "-5", "1e308", "7 -1", "8 1e300", "9 NaN"]
            .map(|value| format!("{USED} {value}\n"))
            .concat();
        let mut evidence = Evidence::default();
        evidence.read(Path::new("x"), text.as_bytes());
        let scrapes = Scrapes::of(&Facts::of(&evidence, &[]), &[]);
        assert_eq!(scrapes.unusable, 4);
        let seen: Vec<_> = scrapes.used[0].values.iter().map(|at| at.value).collect();
        assert_eq!(seen, [u64::MAX, 7, 8, 9]);
        // A clock that runs backwards within a file is put right.
        let text = format!("{USED} 2 1700000002000\n{USED} 1 1700000001000\n{USED} 3 1700000003000\n");
        assert_eq!(values(&[("x", text)], &[]), (vec![1, 2, 3], Order::Stamps));
    }

    #[test]
    fn processes_are_kept_apart() {
        let text = "jvm_buffer_pool_used_bytes{pool=\"direct\",instance=\"a\"} 1\n\
                    jvm_buffer_pool_used_bytes{pool=\"direct\",instance=\"b\"} 9\n";
        let mut evidence = Evidence::default();
        evidence.read(Path::new("x"), text.as_bytes());
        let scrapes = Scrapes::of(&Facts::of(&evidence, &[]), &[]);
        assert_eq!(scrapes.used.len(), 2);
        assert_eq!(scrapes.used[1].target, "instance=\"b\"");
    }
}
