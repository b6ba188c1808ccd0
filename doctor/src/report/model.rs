//! Sections of sentences, tables and charts, in both languages: what text and HTML both write, so that they cannot say
//! different things; and the account of a dump as such sections. A number is a number here; how it is written is the writer's.

use crate::account::{Account, Class, Conclusion, Group, Holds, Reconciled, Spread};
use crate::heap::{Allocation, Books, Heap, Held};
use crate::language::{Text, text};

use super::format::{bytes, moment, signed, size};

/// Groups that are listed for each row of other lists: of a broker there are some dozens, of names that are made up as many
/// as somebody likes.
const GROUPS_PER_ROW: usize = 4;
/// Groups that are drawn.
const BARS: usize = 40;

/// How a sentence is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Good,
    Warning,
}

/// A sentence.
#[derive(Debug, Clone)]
pub(crate) struct Note {
    pub(crate) tone: Tone,
    pub(crate) text: Text,
}

/// What stands in a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Words,
    Count,
    /// Exact, the readable size beside it.
    Bytes,
    /// One of several sizes beside each other, which a narrow page shows in one unit.
    Sizes,
    /// Exact; the readable size only where there is room.
    Exact,
    Share,
}

/// A cell of a table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell {
    Nothing,
    Text(Text),
    /// A part of what the row above is about.
    Part(Text),
    Count(u64),
    Of(u64, u64),
    Bytes(u64),
    Difference(i128),
    /// 0 to 1.
    Share(f64),
}

/// A table: one column of words, then figures.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    pub(crate) heads: Vec<(Kind, Text)>,
    pub(crate) rows: Vec<Vec<Cell>>,
    /// Rows that were left out.
    pub(crate) more: u64,
}

/// Something that holds buffers, and the way down to the largest.
#[derive(Debug, Clone)]
pub(crate) struct Way {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) buffers: u64,
    pub(crate) path: Vec<String>,
    /// Whether the path begins at a root.
    pub(crate) complete: bool,
}

/// A part of what fills direct memory.
#[derive(Debug, Clone)]
pub(crate) struct Segment {
    /// Class of its colour.
    pub(crate) kind: &'static str,
    pub(crate) label: Text,
    pub(crate) bytes: u64,
}

/// A bar of several parts.
#[derive(Debug, Clone)]
pub(crate) struct Bar {
    pub(crate) label: Text,
    pub(crate) segments: Vec<Segment>,
}

/// Something to draw.
#[derive(Debug, Clone)]
pub(crate) enum Chart {
    /// What fills the limit, if there is one.
    Limit { bars: Vec<Bar>, limit: Option<u64> },
    /// Bytes by group of threads.
    Groups(Vec<(Text, Spread)>),
    /// Bytes of two moments beside each other.
    Pairs(Vec<(Text, u64, u64)>),
}

/// A piece of a section.
#[derive(Debug, Clone)]
pub(crate) enum Block {
    Note(Note),
    Table(Table),
    /// A table of details, where there is room.
    Details(Table),
    Chart(Chart),
    Ways(Vec<Way>, u64),
    /// What a dump proves, under these heads where there are columns.
    Judged([Text; 3], Vec<Judged>),
    /// Values that differ: a name, before, after.
    Differ([Text; 3], Vec<[Text; 3]>),
}

/// Something that is judged by a word.
#[derive(Debug, Clone)]
pub(crate) struct Judged {
    pub(crate) tone: Tone,
    pub(crate) word: Text,
    pub(crate) what: Text,
    /// Empty where nothing is to be added.
    pub(crate) why: Text,
}

/// A section of the account.
#[derive(Debug, Clone)]
pub(crate) struct Section {
    /// Its name in a page's links.
    pub(crate) id: &'static str,
    pub(crate) title: Text,
    pub(crate) blocks: Vec<Block>,
}

/// The account of a dump. What comes from the dump is as it stands there; writers make it harmless.
#[derive(Debug, Clone)]
pub(crate) struct Sections {
    pub(crate) path: String,
    pub(crate) head: Vec<Note>,
    pub(crate) sections: Vec<Section>,
}

fn plain(text: Text) -> Note {
    Note { tone: Tone::Plain, text }
}

fn good(text: Text) -> Note {
    Note { tone: Tone::Good, text }
}

fn warning(text: Text) -> Note {
    Note { tone: Tone::Warning, text }
}

/// What a line of the account is.
pub(crate) fn label(class: Class, books: Books) -> Text {
    match (class, books) {
        (Class::Cached, Books::Direct) => {
            text!("kept by threads for their next I/O", "线程为下次 I/O 保留（缓存）")
        }
        (Class::Cached, _) => {
            text!("kept by threads, in no pool of the JVM", "线程保留，不计入 JVM 的任何池")
        }
        (Class::InFlight, Books::Direct) => text!("in I/O calls that are under way", "正在进行的 I/O 调用"),
        (Class::InFlight, _) => {
            text!("in I/O calls, in no pool of the JVM", "正在进行的 I/O 调用，不计入 JVM 的任何池")
        }
        (Class::Held, _) => text!("held by objects", "由对象持有"),
        (Class::Garbage, _) => text!("garbage, until its cleaner runs", "垃圾，待 Cleaner 释放"),
        (Class::Unknown, _) => text!("no holder found", "未找到持有者"),
        (Class::Mapped, _) => text!("mapped files", "映射文件（mmap）"),
        (Class::Image, _) => text!("the JDK's own image", "JDK 自身的模块映像"),
        (Class::Foreign, Books::Direct) => {
            text!("memory segments of automatic arenas", "自动 arena 的内存段")
        }
        (Class::Foreign, _) => text!("other native memory, memory segments", "其他堆外内存、内存段"),
    }
}

fn counted(value: u64, one: &str, many: &str, zh: &str) -> Text {
    let count = bytes(value);
    let of = if value == 1 { one } else { many };
    text!("{count} {of}", "{count} {zh}")
}

fn buffers(value: u64) -> Text {
    counted(value, "buffer", "buffers", "个缓冲区")
}

fn sized(value: u64) -> Text {
    let (exact, readable) = (bytes(value), size(value));
    text!("{exact} ({readable})", "{exact}（{readable}）")
}

/// What a name stands for that the dump does not have.
fn thread_name(heap: &Heap, index: Option<usize>) -> Text {
    match index.and_then(|index| heap.threads.get(index)) {
        Some(thread) => Text::verbatim(thread.name.as_deref().unwrap_or(&thread.class)),
        None => text!("a thread that the dump does not have", "转储中没有的线程"),
    }
}

impl Sections {
    /// The account with at most so many rows of lists that have no natural end.
    pub(crate) fn of(heap: &Heap, account: &Account, rows: usize) -> Self {
        let sections = [
            memory(heap, account),
            groups(account, rows * GROUPS_PER_ROW),
            owners(account, rows),
            largest(heap, account, rows),
            files(heap, rows),
            proofs(account),
        ];
        Self {
            path: heap.condition.path.display().to_string(),
            head: head(heap),
            sections: sections.into_iter().flatten().collect(),
        }
    }
}

fn head(heap: &Heap) -> Vec<Note> {
    let condition = &heap.condition;
    let packed = match condition.gzip_members {
        0 => Text::verbatim(""),
        members => text!(
            ", from {stored} of gzip in {members}",
            "，由 {stored} 的 gzip 解压（{members}）",
            stored = size(condition.stored_bytes),
            members = counted(members as u64, "member", "members", "个成员")
        ),
    };
    let virtual_threads = match heap.virtual_threads {
        0 => Text::verbatim(""),
        threads => {
            let threads = counted(threads, "virtual thread", "virtual threads", "个虚拟线程");
            text!(", {threads}", "，{threads}"; threads)
        }
    };
    let objects = counted(heap.objects, "object", "objects", "个对象");
    let classes = counted(heap.classes as u64, "class", "classes", "个类");
    let threads = counted(heap.threads.len() as u64, "thread", "threads", "个线程");
    let mut notes = vec![
        plain(text!(
            "heap dump of {size} ({exact} bytes){packed}, taken {moment}",
            "堆转储 {size}（{exact} 字节）{packed}，生成于 {moment}",
            size = size(condition.size_bytes),
            exact = bytes(condition.size_bytes),
            moment = moment(condition.time_ms);
            packed
        )),
        plain(text!(
            "{objects}, {classes}, {threads}{virtual_threads}",
            "{objects}，{classes}，{threads}{virtual_threads}";
            objects, classes, threads, virtual_threads
        )),
    ];
    let mut warn = |text: Text| notes.push(warning(text));
    if let Some(missing) = condition.truncated {
        let missing = bytes(missing);
        warn(text!(
            "the dump is cut off: {missing} bytes or more are missing at its end",
            "转储被截断：末尾至少缺少 {missing} 字节"
        ));
    } else if condition.end_missing {
        warn(text!(
            "the record that ends a dump is missing: its writer was interrupted",
            "缺少转储的结束记录：写入时被中断"
        ));
    }
    condition.gzip_problem.iter().for_each(|problem| warn(problem.clone()));
    for problem in condition.problems.iter().take(5) {
        let what = &problem.what;
        warn(text!("at byte {at}: {what}", "第 {at} 字节处：{what}", at = bytes(problem.at); what));
    }
    let more = condition.more_problems + condition.problems.len().saturating_sub(5) as u64;
    if more > 0 {
        let problems = counted(more, "problem", "problems", "个问题");
        warn(text!("{problems} more", "另有 {problems}"; problems));
    }
    if heap.torn_caches > 0 {
        let caches = counted(heap.torn_caches, "cache", "caches", "个缓存");
        warn(text!(
            "{caches} of temporary buffers count themselves another number of buffers than was found in them",
            "{caches}自身的计数与在其中找到的缓冲区数不一致"; caches
        ));
    }
    if heap.lost_views > 0 {
        let views = counted(heap.lost_views, "view", "views", "个视图");
        warn(text!(
            "{views} of buffers that the dump does not have, counted as nothing",
            "{views}所属的缓冲区不在转储中，不计入"; views
        ));
    }
    if condition.names_redacted {
        warn(text!("redacted: the threads have no names", "已脱敏：线程没有名字"));
    }
    if condition.numbers_redacted {
        warn(text!(
            "redacted: all numbers are 0, so no size can be told",
            "已脱敏：所有数字均为 0，无法得知任何大小"
        ));
    }
    if condition.overflow {
        warn(text!(
            "too many objects of interest: the account is not complete",
            "需要关注的对象过多：清单不完整"
        ));
    }
    notes
}

/// Whether a line is part of the whole of which shares are.
fn of_whole(class: Class, books: Books) -> bool {
    books == Books::Direct || matches!(class, Class::Cached | Class::InFlight | Class::Foreign)
}

fn memory(heap: &Heap, account: &Account) -> Option<Section> {
    let mut rows = Vec::new();
    for pool in [Books::Direct, Books::None, Books::Mapped] {
        for line in account.lines.iter().filter(|line| line.books == pool) {
            let whole = account.whole_bytes;
            let share = match of_whole(line.class, pool) && whole > 0 {
                true => Cell::Share(line.sum.bytes as f64 / whole as f64),
                false => Cell::Nothing,
            };
            rows.push(vec![
                Cell::Text(label(line.class, pool)),
                Cell::Bytes(line.sum.bytes),
                Cell::Count(line.sum.count),
                share,
            ]);
        }
    }
    if heap.views > 0 {
        let views = text!("views of the above (slices, duplicates)", "以上缓冲区的视图（slice、duplicate）");
        rows.push(vec![Cell::Text(views), Cell::Bytes(0), Cell::Count(heap.views), Cell::Nothing]);
    }
    let mut blocks = Vec::new();
    blocks.extend(limit_chart(account).map(Block::Chart));
    if rows.is_empty() {
        blocks.push(Block::Note(plain(text!("none that this dump knows of", "转储中没有记录"))));
    } else {
        let heads = vec![
            (Kind::Words, Text::verbatim("")),
            (Kind::Bytes, text!("bytes", "字节")),
            (Kind::Count, text!("buffers", "缓冲区")),
            (Kind::Share, text!("share", "占比")),
        ];
        blocks.push(Block::Table(Table { heads, rows, more: 0 }));
    }
    let direct = text!("pool \"direct\"", "直接内存池（direct）");
    let mapped = text!("pool \"mapped\"", "映射内存池（mapped）");
    let pools = [(&direct, "java.nio.Bits", &account.direct), (&mapped, "FileChannelImpl", &account.mapped)];
    let compared: Vec<_> = pools.iter().filter_map(|(name, _, pool)| difference(name, pool)).collect();
    if !compared.is_empty() {
        let heads = vec![
            (Kind::Words, text!("found beside counted", "清单与 JVM 计数对照")),
            (Kind::Bytes, text!("found", "清单合计")),
            (Kind::Bytes, text!("counted by the JVM", "JVM 计数")),
            (Kind::Bytes, text!("difference", "差额")),
            (Kind::Count, text!("buffers found", "清单缓冲区")),
            (Kind::Count, text!("counted", "JVM 计数")),
            (Kind::Count, text!("difference", "差额")),
        ];
        blocks.push(Block::Details(Table { heads, rows: compared, more: 0 }));
    }
    for (name, source, pool) in pools {
        blocks.extend(reconciled(name, source, pool).map(Block::Note));
        if pool == &account.direct
            && source == "java.nio.Bits"
            && let (Some(limit), Some(left)) = (account.limit_bytes, account.left_bytes)
        {
            let (limit, left) = (sized(limit), sized(left));
            blocks.push(Block::Note(plain(text!(
                "its limit {limit}, left {left}",
                "其上限 {limit}，剩余 {left}";
                limit, left
            ))));
        }
    }
    let mut note = |note: Note| blocks.push(Block::Note(note));
    if account.uncounted_temporary.bytes > 0 {
        note(warning(text!(
            "{bytes} bytes ({size}) of temporary buffers are in no pool: neither metric nor limit sees them",
            "{bytes} 字节（{size}）的临时缓冲区不在任何池中：指标和上限都看不到它们",
            bytes = bytes(account.uncounted_temporary.bytes),
            size = size(account.uncounted_temporary.bytes)
        )));
    }
    let unheld = heap.unheld;
    if unheld.count > 0 {
        let (buffers, size) = (buffers(unheld.count), sized(unheld.bytes));
        note(plain(text!(
            "not counted: {buffers} of {size} without a cleaner that nothing holds, given back already or known to nobody",
            "未计入：{buffers}共 {size}，既无 Cleaner 也无持有者，已归还或无人知晓";
            buffers, size
        )));
    }
    match heap.statics.max_cached_buffer_bytes {
        Some(limit) if limit == i64::MAX as u64 => note(plain(text!(
            "jdk.nio.maxCachedBufferSize: none, threads keep buffers of any size",
            "jdk.nio.maxCachedBufferSize：未设置，线程会保留任意大小的缓冲区"
        ))),
        Some(limit) => {
            let limit = sized(limit);
            note(plain(text!(
                "jdk.nio.maxCachedBufferSize: {limit}",
                "jdk.nio.maxCachedBufferSize：上限 {limit}";
                limit
            )));
        }
        None => {}
    }
    for (used, limit) in &heap.statics.netty {
        let show = |value: &Option<u64>| value.map_or_else(|| text!("unknown", "未知"), sized);
        let (used, limit) = (show(used), show(limit));
        note(plain(text!(
            "Netty's own counter: {used}, its limit {limit}",
            "Netty 自己的计数：{used}，其上限 {limit}";
            used, limit
        )));
    }
    Some(Section { id: "memory", title: text!("Native memory", "堆外内存"), blocks })
}

/// What is found and what the JVM counted, as a row.
fn difference(name: &Text, pool: &Reconciled) -> Option<Vec<Cell>> {
    let counted = pool.counted?;
    let (bytes, _, buffers) = pool.difference()?;
    Some(vec![
        Cell::Text(name.clone()),
        Cell::Bytes(pool.found.bytes),
        Cell::Bytes(counted.used_bytes),
        Cell::Difference(bytes),
        Cell::Count(pool.found.count),
        Cell::Count(counted.count),
        Cell::Difference(buffers),
    ])
}

/// The same as a sentence.
fn reconciled(name: &Text, source: &str, pool: &Reconciled) -> Option<Note> {
    let counted = pool.counted?;
    let (difference, _, more) = pool.difference()?;
    let same = difference == 0 && more == 0;
    let verdict = match same {
        true => text!("the same as found", "与清单一致"),
        false => text!(
            "{difference} bytes and {more} buffers against what was found",
            "与清单相差 {difference} 字节、{more} 个缓冲区",
            difference = signed(difference),
            more = signed(more)
        ),
    };
    let buffers = buffers(counted.count);
    let text = text!(
        "{name}: {bytes} bytes ({size}) in {buffers}, by {source}: {verdict}",
        "{name}：{source} 计 {buffers}，{bytes} 字节（{size}）：{verdict}",
        bytes = bytes(counted.used_bytes),
        size = size(counted.used_bytes);
        name, buffers, verdict
    );
    Some(if same { good(text) } else { warning(text) })
}

fn limit_chart(account: &Account) -> Option<Chart> {
    let segments = |pool: Books| -> Vec<Segment> {
        let lines = account.lines.iter().filter(|line| line.books == pool && of_whole(line.class, pool));
        lines
            .filter(|line| line.sum.bytes > 0)
            .map(|line| Segment {
                kind: line.class.name(),
                label: label(line.class, pool),
                bytes: line.sum.bytes,
            })
            .collect()
    };
    let mut direct = segments(Books::Direct);
    let missing = account.direct.difference().map_or(0, |(bytes, _, _)| bytes);
    if let Some(bytes) = u64::try_from(missing).ok().filter(|bytes| *bytes > 0) {
        let label = text!("counted by the JVM, not found", "JVM 已计数但转储中没有");
        direct.push(Segment { kind: "missing", label, bytes });
    }
    let used: u64 = direct.iter().map(|segment| segment.bytes).sum();
    if let Some(left) = account.limit_bytes.and_then(|limit| limit.checked_sub(used)).filter(|left| *left > 0)
    {
        direct.push(Segment {
            kind: "left",
            label: text!("left below the limit", "距上限剩余"),
            bytes: left,
        });
    }
    // What would not be seen beside the pool stands in the table alone.
    let mut others = segments(Books::None);
    let beside = account.limit_bytes.unwrap_or(0).max(used);
    if others.iter().map(|segment| segment.bytes).sum::<u64>() < beside / 1_000 {
        others.clear();
    }
    let bars = [
        (text!("in the pool \"direct\"", "计入直接内存池"), direct),
        (text!("in no pool and under no limit", "不计入任何池，也不受上限约束"), others),
    ];
    let bars: Vec<_> = bars
        .into_iter()
        .filter(|(_, segments)| !segments.is_empty())
        .map(|(label, segments)| Bar { label, segments })
        .collect();
    (!bars.is_empty()).then_some(Chart::Limit { bars, limit: account.limit_bytes.filter(|limit| *limit > 0) })
}

fn groups(account: &Account, limit: usize) -> Option<Section> {
    let mut all = account.groups.iter().filter(|group| group.buffers > 0);
    let shown: Vec<&Group> = all.by_ref().take(limit).collect();
    let left = all.count() as u64;
    let rows: Vec<_> = shown
        .iter()
        .map(|group| {
            let Spread { count, min, p50, p95, max, sum } = group.spread;
            vec![
                Cell::Text(group.label()),
                Cell::Of(count, group.threads),
                Cell::Bytes(min),
                Cell::Bytes(p50),
                Cell::Bytes(p95),
                Cell::Bytes(max),
                Cell::Bytes(sum),
                Cell::Share(group.share),
            ]
        })
        .collect();
    let mut blocks = Vec::new();
    if !rows.is_empty() {
        let bars = shown.iter().take(BARS).map(|group| (group.label(), group.spread)).collect();
        blocks.push(Block::Chart(Chart::Groups(bars)));
        let heads = vec![
            (Kind::Words, Text::verbatim("")),
            (Kind::Count, text!("threads", "线程数")),
            (Kind::Sizes, text!("min", "最小")),
            (Kind::Sizes, Text::verbatim("P50")),
            (Kind::Sizes, Text::verbatim("P95")),
            (Kind::Sizes, text!("max", "最大")),
            (Kind::Bytes, text!("sum", "合计")),
            (Kind::Share, text!("share", "占比")),
        ];
        blocks.push(Block::Table(Table { heads, rows, more: left }));
    }
    for group in account.groups.iter().filter(|group| group.with_cache > group.spread.count).take(limit) {
        let more = group.with_cache - group.spread.count;
        let (name, count) = (group.label(), bytes(more));
        let have = if more == 1 { "has" } else { "have" };
        blocks.push(Block::Note(plain(text!(
            "{name}: {count} more asked for a buffer once and {have} none now",
            "{name}：另有 {count} 个线程曾申请过缓冲区，现已没有";
            name
        ))));
    }
    let title = text!("Threads and their temporary buffers", "线程及其临时缓冲区");
    (!blocks.is_empty()).then_some(Section { id: "threads", title, blocks })
}

fn owners(account: &Account, rows: usize) -> Option<Section> {
    let mut owners =
        account.owners.iter().filter(|owner| owner.class != Class::Mapped && owner.class != Class::Image);
    let shown: Vec<_> = owners
        .by_ref()
        .take(rows)
        .map(|owner| Way {
            name: owner.name.clone(),
            bytes: owner.sum.bytes,
            buffers: owner.sum.count,
            path: owner.path.clone(),
            complete: owner.complete,
        })
        .collect();
    let blocks = vec![Block::Ways(shown.clone(), owners.count() as u64)];
    let title = text!("Held by objects", "由对象持有");
    (!shown.is_empty()).then_some(Section { id: "owners", title, blocks })
}

fn largest(heap: &Heap, account: &Account, rows: usize) -> Option<Section> {
    let cells = |allocation: &Allocation| {
        let who = match &allocation.held {
            Held::Cached(index) => thread_name(heap, *index),
            Held::InFlight(index, frame) => {
                let name = thread_name(heap, *index);
                text!("{name} in {frame}", "{name}，正在 {frame}"; name)
            }
            Held::Objects(holder) => Text::verbatim(holder.owner.as_str()),
            Held::Garbage => text!("garbage", "垃圾"),
            Held::Unknown => text!("no holder found", "未找到持有者"),
        };
        let last = match allocation.held {
            Held::Cached(_) => Cell::Text(Text::verbatim(size(allocation.limit))),
            _ => Cell::Nothing,
        };
        vec![Cell::Text(who), Cell::Bytes(allocation.capacity), last]
    };
    let all = account.largest.iter().filter_map(|index| heap.allocations.get(*index));
    let rows: Vec<_> = all.take(rows).map(cells).collect();
    if rows.is_empty() {
        return None;
    }
    let heads = vec![
        (Kind::Words, Text::verbatim("")),
        (Kind::Bytes, text!("bytes", "字节")),
        (Kind::Count, text!("last use", "上次使用")),
    ];
    let more = account.largest.len().saturating_sub(rows.len()) as u64;
    let blocks = vec![Block::Table(Table { heads, rows, more })];
    Some(Section { id: "largest", title: text!("Largest buffers", "最大的缓冲区"), blocks })
}

fn files(heap: &Heap, rows: usize) -> Option<Section> {
    let mut maps: Vec<_> =
        heap.allocations.iter().filter(|allocation| allocation.books == Books::Mapped).collect();
    maps.sort_by_key(|map| std::cmp::Reverse(map.bytes));
    let cells = |map: &&Allocation| {
        let name = match (&map.file, &map.held) {
            (Some(file), _) => Text::verbatim(file.as_str()),
            (None, Held::Objects(holder)) => {
                let owner = &holder.owner;
                text!("held by {owner}", "由 {owner} 持有")
            }
            (None, _) => text!("held by garbage or unknown", "由垃圾或未知对象持有"),
        };
        vec![Cell::Text(name), Cell::Bytes(map.bytes)]
    };
    let shown: Vec<_> = maps.iter().take(rows).map(cells).collect();
    if shown.is_empty() {
        return None;
    }
    let heads = vec![(Kind::Words, Text::verbatim("")), (Kind::Bytes, text!("bytes", "字节"))];
    let more = maps.len().saturating_sub(shown.len()) as u64;
    let blocks = vec![Block::Table(Table { heads, rows: shown, more })];
    Some(Section { id: "files", title: text!("Mapped files", "映射文件"), blocks })
}

fn proofs(account: &Account) -> Option<Section> {
    let judged = |conclusion: &Conclusion| {
        let (tone, word) = match conclusion.holds {
            Holds::Yes => (Tone::Good, text!("yes", "能")),
            Holds::AtLeast => (Tone::Warning, text!("at least", "至少")),
            Holds::No => (Tone::Warning, text!("no", "不能")),
        };
        Judged { tone, word, what: conclusion.what.clone(), why: conclusion.why.clone() }
    };
    let proofs: Vec<_> = account.conclusions.iter().map(judged).collect();
    let title = text!("What this dump proves", "此转储能证明什么");
    let heads = [text!("what", "内容"), text!("proved", "能否证明"), text!("why", "依据")];
    (!proofs.is_empty()).then_some(Section {
        id: "proofs",
        title,
        blocks: vec![Block::Judged(heads, proofs)],
    })
}

/// What a list says that does not show all.
pub(crate) fn more(count: u64) -> Text {
    let count = bytes(count);
    text!("and {count} more (--format json has them all)", "另有 {count} 项（--format json 列出全部）")
}
