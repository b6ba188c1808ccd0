//! The account as text that fits a terminal.

use std::fmt::Write;

use crate::account::{Account, Class, Holds, Reconciled};
use crate::heap::{Books, Heap, Held};

use super::format::{Style, bytes, moment, signed, size, table, unit};

/// Rows of lists that have no natural end.
const ROWS: usize = 10;

fn label(class: Class, books: Books) -> &'static str {
    match (class, books) {
        (Class::Cached, Books::Direct) => "kept by threads for their next I/O",
        (Class::Cached, _) => "kept by threads, in no pool of the JVM",
        (Class::InFlight, Books::Direct) => "in I/O calls that are under way",
        (Class::InFlight, _) => "in I/O calls, in no pool of the JVM",
        (Class::Held, _) => "held by objects",
        (Class::Garbage, _) => "garbage, until its cleaner runs",
        (Class::Unknown, _) => "no holder found",
        (Class::Mapped, _) => "mapped files",
        (Class::Image, _) => "the JDK's own image",
        (Class::Foreign, _) => "other native memory",
    }
}

fn share(part: u64, whole: u64) -> String {
    if whole == 0 { String::new() } else { format!("{:.1} %", part as f64 * 100.0 / whole as f64) }
}

fn count(value: u64, one: &str, many: &str) -> String {
    format!("{} {}", bytes(value), if value == 1 { one } else { many })
}

/// The account of one dump as text. What comes from the dump cannot command the terminal.
pub fn text(heap: &Heap, account: &Account, style: Style) -> String {
    let mut out = String::new();
    head(&mut out, heap, style);
    pools(&mut out, heap, account, style);
    groups(&mut out, account, style);
    owners(&mut out, account, style);
    largest(&mut out, heap, account, style);
    files(&mut out, heap, style);
    conclusions(&mut out, account, style);
    out
}

fn head(out: &mut String, heap: &Heap, style: Style) {
    let condition = &heap.condition;
    let path: String = condition
        .path
        .display()
        .to_string()
        .chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect();
    let _ = writeln!(out, "{}", style.title(&path));
    let packed = match condition.gzip_members {
        0 => String::new(),
        members => format!(
            ", from {} of gzip in {}",
            size(condition.stored_bytes),
            count(members as u64, "member", "members")
        ),
    };
    let _ = writeln!(
        out,
        "  heap dump of {} ({} bytes){packed}, taken {}",
        size(condition.size_bytes),
        bytes(condition.size_bytes),
        moment(condition.time_ms)
    );
    let virtual_threads = match heap.virtual_threads {
        0 => String::new(),
        threads => format!(", {}", count(threads, "virtual thread", "virtual threads")),
    };
    let _ = writeln!(
        out,
        "  {}, {}, {}{virtual_threads}",
        count(heap.objects, "object", "objects"),
        count(heap.classes as u64, "class", "classes"),
        count(heap.threads.len() as u64, "thread", "threads"),
    );
    let mut warn = |text: String| {
        let _ = writeln!(out, "  {}", style.warning(&text));
    };
    if let Some(missing) = condition.truncated {
        warn(format!("the dump is cut off: {} bytes or more are missing at its end", bytes(missing)));
    } else if condition.end_missing {
        warn("the record that ends a dump is missing: its writer was interrupted".into());
    }
    if let Some(problem) = &condition.gzip_problem {
        warn(problem.en.clone());
    }
    for problem in condition.problems.iter().take(5) {
        warn(format!("at byte {}: {}", bytes(problem.at), problem.what));
    }
    let more = condition.more_problems + condition.problems.len().saturating_sub(5) as u64;
    if more > 0 {
        warn(format!("{} more", count(more, "problem", "problems")));
    }
    if condition.names_redacted {
        warn("redacted: the threads have no names".into());
    }
    if condition.numbers_redacted {
        warn("redacted: all numbers are 0, so no size can be told".into());
    }
    if condition.overflow {
        warn("too many objects of interest: the account is not complete".into());
    }
}

fn pools(out: &mut String, heap: &Heap, account: &Account, style: Style) {
    let _ = writeln!(out, "\n{}", style.title("Native memory"));
    let row = |name: &str, value: u64, buffers: Option<u64>, part: String| {
        vec![name.to_string(), bytes(value), size(value), buffers.map(bytes).unwrap_or_default(), part]
    };
    let mut rows = Vec::new();
    for pool in [Books::Direct, Books::None, Books::Mapped] {
        for line in account.lines.iter().filter(|line| line.books == pool) {
            let of_whole = pool == Books::Direct
                || matches!(line.class, Class::Cached | Class::InFlight | Class::Foreign);
            let part = if of_whole { share(line.sum.bytes, account.whole_bytes) } else { String::new() };
            rows.push(row(label(line.class, pool), line.sum.bytes, Some(line.sum.count), part));
        }
    }
    if heap.views > 0 {
        rows.push(row("views of the above (slices, duplicates)", 0, Some(heap.views), String::new()));
    }
    if rows.is_empty() {
        let _ = writeln!(out, "  none that this dump knows of");
    } else {
        out.push_str(&table(style, &["", "bytes", "", "buffers", "share"], &rows));
    }

    let reconciled = |out: &mut String, name: &str, source: &str, pool: &Reconciled| {
        let Some(counted) = pool.counted else { return };
        let _ = write!(
            out,
            "  {name}: {} bytes ({}) in {}, by {source}: ",
            bytes(counted.used_bytes),
            size(counted.used_bytes),
            count(counted.count, "buffer", "buffers"),
        );
        let verdict = match pool.difference() {
            Some((0, _, 0)) => style.good("the same as found"),
            Some((difference, _, buffers)) => style.warning(&format!(
                "{} bytes and {} buffers against what was found",
                signed(difference),
                signed(buffers)
            )),
            None => String::new(),
        };
        let _ = writeln!(out, "{verdict}");
    };
    reconciled(out, "pool \"direct\"", "java.nio.Bits", &account.direct);
    if let (Some(limit), Some(left)) = (account.limit_bytes, account.left_bytes) {
        let _ = writeln!(
            out,
            "    its limit {} ({}), left {} ({})",
            bytes(limit),
            size(limit),
            bytes(left),
            size(left)
        );
    }
    reconciled(out, "pool \"mapped\"", "FileChannelImpl", &account.mapped);
    if account.uncounted_temporary.bytes > 0 {
        let _ = writeln!(
            out,
            "  {}",
            style.warning(&format!(
                "{} bytes ({}) of temporary buffers are in no pool: neither metric nor limit sees them",
                bytes(account.uncounted_temporary.bytes),
                size(account.uncounted_temporary.bytes)
            ))
        );
    }
    match heap.statics.max_cached_buffer_bytes {
        Some(limit) if limit == i64::MAX as u64 => {
            let _ = writeln!(out, "  jdk.nio.maxCachedBufferSize: none, threads keep buffers of any size");
        }
        Some(limit) => {
            let _ = writeln!(out, "  jdk.nio.maxCachedBufferSize: {} ({})", bytes(limit), size(limit));
        }
        None => {}
    }
    for (used, limit) in &heap.statics.netty {
        let show = |value: &Option<u64>| {
            value.map_or_else(|| "unknown".into(), |value| format!("{} ({})", bytes(value), size(value)))
        };
        let _ = writeln!(out, "  Netty's own counter: {}, its limit {}", show(used), show(limit));
    }
}

fn groups(out: &mut String, account: &Account, style: Style) {
    let shown = || account.groups.iter().filter(|group| group.buffers > 0);
    let (name, unit) = unit(shown().map(|group| group.spread.max).max().unwrap_or(0));
    let scaled = |value: u64| format!("{:.2}", value as f64 / unit as f64);
    let rows: Vec<Vec<String>> = shown()
        .map(|group| {
            let spread = group.spread;
            vec![
                group.name(),
                format!("{} of {}", bytes(spread.count), bytes(group.threads)),
                scaled(spread.min),
                scaled(spread.p50),
                scaled(spread.p95),
                scaled(spread.max),
                scaled(spread.sum),
                bytes(spread.sum),
                format!("{:.1} %", group.share * 100.0),
            ]
        })
        .collect();
    let idle: Vec<_> = account.groups.iter().filter(|group| group.with_cache > group.spread.count).collect();
    if rows.is_empty() && idle.is_empty() {
        return;
    }
    let _ =
        writeln!(out, "\n{}", style.title(&format!("Threads and their temporary buffers, {name} a thread")));
    if !rows.is_empty() {
        let heads = ["", "threads", "min", "P50", "P95", "max", &format!("sum {name}"), "sum bytes", "share"];
        out.push_str(&table(style, &heads, &rows));
    }
    for group in idle {
        let more = group.with_cache - group.spread.count;
        let _ = writeln!(
            out,
            "  {}: {} more asked for a buffer once and {} none now",
            group.name(),
            bytes(more),
            if more == 1 { "has" } else { "have" }
        );
    }
}

fn owners(out: &mut String, account: &Account, style: Style) {
    let mut owners =
        account.owners.iter().filter(|owner| owner.class != Class::Mapped && owner.class != Class::Image);
    let shown: Vec<_> = owners.by_ref().take(ROWS).collect();
    if shown.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{}", style.title("Held by objects"));
    for owner in shown {
        let _ = writeln!(
            out,
            "  {}: {} bytes ({}) in {}",
            Style::fit(&owner.name, style.width.saturating_sub(48).max(20)),
            bytes(owner.sum.bytes),
            size(owner.sum.bytes),
            count(owner.sum.count, "buffer", "buffers")
        );
        let mut line = String::from("     ");
        for (place, step) in owner.path.iter().enumerate() {
            let step = Style::fit(step, style.width.saturating_sub(10).max(20));
            let arrow = if place == 0 && owner.complete { "" } else { "→ " };
            if line.chars().count() + step.chars().count() + 3 > style.width && line.trim() != "" {
                let _ = writeln!(out, "{line}");
                line = String::from("     ");
            }
            let _ = write!(line, " {arrow}{step}");
        }
        if line.trim() != "" {
            let _ = writeln!(out, "{line}");
        }
    }
    let left = owners.count();
    if left > 0 {
        let _ = writeln!(out, "  and {} more (--format json has them all)", bytes(left as u64));
    }
}

fn largest(out: &mut String, heap: &Heap, account: &Account, style: Style) {
    let rows: Vec<Vec<String>> = account
        .largest
        .iter()
        .filter_map(|index| heap.allocations.get(*index))
        .take(ROWS)
        .map(|allocation| {
            let thread = |thread: &Option<usize>| {
                let thread = thread.and_then(|index| heap.threads.get(index));
                thread.map_or("a thread that the dump does not have", |thread| {
                    thread.name.as_deref().unwrap_or(&thread.class)
                })
            };
            let who = match &allocation.held {
                Held::Cached(index) => thread(index).to_string(),
                Held::InFlight(index, frame) => format!("{} in {frame}", thread(index)),
                Held::Objects(holder) => holder.owner.clone(),
                Held::Garbage => "garbage".into(),
                Held::Unknown => "no holder found".into(),
            };
            let last = match allocation.held {
                Held::Cached(_) => size(allocation.limit),
                _ => String::new(),
            };
            vec![who, bytes(allocation.capacity), size(allocation.capacity), last]
        })
        .collect();
    if rows.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{}", style.title("Largest buffers"));
    out.push_str(&table(style, &["", "bytes", "", "last use"], &rows));
}

fn files(out: &mut String, heap: &Heap, style: Style) {
    let mut maps: Vec<_> =
        heap.allocations.iter().filter(|allocation| allocation.books == Books::Mapped).collect();
    if maps.is_empty() {
        return;
    }
    maps.sort_by_key(|map| std::cmp::Reverse(map.bytes));
    let _ = writeln!(out, "\n{}", style.title("Mapped files"));
    let rows: Vec<Vec<String>> = maps
        .iter()
        .take(ROWS)
        .map(|map| {
            let holder = match &map.held {
                Held::Objects(holder) => holder.owner.as_str(),
                _ => "garbage or unknown",
            };
            let name = map.file.clone().unwrap_or_else(|| format!("held by {holder}"));
            vec![name, bytes(map.bytes), size(map.bytes)]
        })
        .collect();
    out.push_str(&table(style, &["", "bytes", ""], &rows));
    if maps.len() > ROWS {
        let left = maps.len() - ROWS;
        let _ = writeln!(out, "  and {} more (--format json has them all)", bytes(left as u64));
    }
}

fn conclusions(out: &mut String, account: &Account, style: Style) {
    if account.conclusions.iter().all(|conclusion| conclusion.holds == Holds::Yes) {
        return;
    }
    let _ = writeln!(out, "\n{}", style.title("What this dump proves"));
    for conclusion in &account.conclusions {
        let mark = match conclusion.holds {
            Holds::Yes => style.good("yes     "),
            Holds::AtLeast => style.warning("at least"),
            Holds::No => style.warning("no      "),
        };
        let _ = writeln!(out, "  {mark}  {}", conclusion.what);
        let _ = writeln!(out, "            {}", conclusion.why);
    }
}
