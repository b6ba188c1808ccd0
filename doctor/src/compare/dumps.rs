//! The accounts of two dumps: kinds, groups, threads, owners, mapped files.

use std::collections::{BTreeMap, BTreeSet};

use super::{Comparison, Gap, Group, Holder, Kind, Pair, Side, Thread, lacking};
use crate::account::{Class, Holds};
use crate::findings::{Dump, text};
use crate::heap::{Allocation, Books, Held};

/// What mapped files are called whose name the dump does not have.
const NAMELESS: &str = "?";

pub(super) fn compare(before: &Side<'_>, after: &Side<'_>, comparison: &mut Comparison) {
    let what = text!(
        "kinds, groups, threads, owners and mapped files (they take a heap dump)",
        "类别、线程组、线程、持有者与映射文件（需要堆转储）"
    );
    let (Some(one), Some(other)) = (before.dump(), after.dump()) else {
        let why = lacking(before.dump().is_some(), after.dump().is_some()).unwrap_or_else(|| text!("", ""));
        comparison.gaps.push(Gap { what, why });
        return;
    };
    let dumps = [one, other];
    kinds(dumps, comparison);
    groups(dumps, comparison);
    threads(dumps, comparison);
    owners(dumps, comparison);
    files(dumps, comparison);
    doubts(dumps, comparison);
}

/// What a damaged or redacted dump proves less of.
fn doubts(dumps: [&Dump<'_>; 2], comparison: &mut Comparison) {
    for (name, dump) in ["BEFORE", "AFTER"].into_iter().zip(dumps) {
        for conclusion in &dump.account.conclusions {
            let id = conclusion.id;
            if matches!(id, "pool" | "sum" | "in_flight") || conclusion.holds == Holds::Yes {
                continue;
            }
            let what = match conclusion.holds {
                Holds::AtLeast => {
                    text!("{name}: numbers are at least these [{id}]", "{name}：数字为下限 [{id}]")
                }
                _ => text!("{name}: not known [{id}]", "{name}：未知 [{id}]"),
            };
            comparison.gaps.push(Gap { what, why: conclusion.why.clone() });
        }
    }
}

fn kinds(dumps: [&Dump<'_>; 2], comparison: &mut Comparison) {
    let mut kinds: BTreeMap<(Class, Books), (Pair, Pair)> = BTreeMap::new();
    for (side, dump) in dumps.into_iter().enumerate() {
        for line in &dump.account.lines {
            let (bytes, buffers) = kinds.entry((line.class, line.books)).or_default();
            bytes.add(side, line.sum.bytes);
            buffers.add(side, line.sum.count);
        }
    }
    comparison.kinds = kinds
        .into_iter()
        .map(|((class, books), (bytes, buffers))| Kind { class, books, bytes, buffers })
        .collect();
    comparison.kinds.sort_by_key(|kind| std::cmp::Reverse(kind.bytes.size()));
}

fn groups(dumps: [&Dump<'_>; 2], comparison: &mut Comparison) {
    let mut groups: BTreeMap<String, Group> = BTreeMap::new();
    for (side, dump) in dumps.into_iter().enumerate() {
        for found in &dump.account.groups {
            let label = found.label();
            let group = groups.entry(label.en.clone()).or_insert_with(|| Group {
                label,
                threads: Pair::default(),
                threads_with_bytes: Pair::default(),
                buffers: Pair::default(),
                sum_bytes: Pair::default(),
                max_bytes: Pair::default(),
            });
            group.threads.add(side, found.threads);
            group.threads_with_bytes.add(side, found.spread.count);
            group.buffers.add(side, found.buffers);
            group.sum_bytes.add(side, found.spread.sum);
            group.max_bytes.most(side, found.spread.max);
        }
    }
    comparison.groups = groups.into_values().collect();
    comparison
        .groups
        .sort_by_key(|group| std::cmp::Reverse((group.sum_bytes.size(), group.max_bytes.size())));
}

fn threads(dumps: [&Dump<'_>; 2], comparison: &mut Comparison) {
    let mut threads: BTreeMap<String, Thread> = BTreeMap::new();
    for (side, dump) in dumps.into_iter().enumerate() {
        for used in &dump.account.threads {
            let thread = used.thread.and_then(|index| dump.heap.threads.get(index));
            let Some(name) = thread.and_then(|thread| thread.name.clone()) else { continue };
            let thread = threads.entry(name.clone()).or_insert_with(|| Thread {
                name,
                cached_bytes: Pair::default(),
                in_flight_bytes: Pair::default(),
                buffers: Pair::default(),
            });
            thread.cached_bytes.add(side, used.cached_bytes);
            thread.in_flight_bytes.add(side, used.in_flight_bytes);
            thread.buffers.add(side, (used.cached_buffers.len() + used.in_flight_buffers.len()) as u64);
        }
    }
    comparison.threads = threads.into_values().collect();
    comparison.threads.sort_by_key(|thread| std::cmp::Reverse(thread.bytes().size()));
}

fn owners(dumps: [&Dump<'_>; 2], comparison: &mut Comparison) {
    let mut owners: BTreeMap<(&str, Class), (Pair, Pair)> = BTreeMap::new();
    for (side, dump) in dumps.into_iter().enumerate() {
        for owner in dump.account.owners.iter().filter(|owner| owner.class != Class::Mapped) {
            let (bytes, buffers) = owners.entry((&owner.name, owner.class)).or_default();
            bytes.add(side, owner.sum.bytes);
            buffers.add(side, owner.sum.count);
        }
    }
    comparison.owners = holders(owners);
}

/// The last two parts of a path: partition and file, which stay when a log directory moves.
fn tail(path: &str) -> &str {
    let cut = path.rmatch_indices(['/', '\\']).nth(1).map(|(at, _)| at + 1);
    cut.and_then(|at| path.get(at..)).unwrap_or(path)
}

/// What each mapped file is called.
fn file_names<'h>(dump: &Dump<'h>) -> Vec<(&'h str, &'h Allocation)> {
    let maps = dump.heap.allocations.iter().filter(|one| Class::of(one) == Class::Mapped);
    let named = maps.map(|map| match (&map.file, &map.held) {
        (Some(file), _) => (file.as_str(), map),
        (None, Held::Objects(holder)) => (holder.owner.as_str(), map),
        _ => (NAMELESS, map),
    });
    named.collect()
}

/// Whether some file has the same tail as another one.
fn is_ambiguous(files: &[(&str, &Allocation)]) -> bool {
    let paths: BTreeSet<&str> = files.iter().map(|(path, _)| *path).collect();
    let tails: BTreeSet<&str> = paths.iter().map(|path| tail(path)).collect();
    tails.len() < paths.len()
}

fn files(dumps: [&Dump<'_>; 2], comparison: &mut Comparison) {
    let sides = dumps.map(file_names);
    let whole = sides.iter().any(|files| is_ambiguous(files));
    let mut files: BTreeMap<(&str, Class), (Pair, Pair)> = BTreeMap::new();
    for (side, maps) in sides.iter().enumerate() {
        for (path, map) in maps {
            let name = if whole { path } else { tail(path) };
            let (bytes, buffers) = files.entry((name, Class::Mapped)).or_default();
            bytes.add(side, map.bytes);
            buffers.add(side, 1);
        }
    }
    comparison.mapped_files = holders(files);
}

fn holders(found: BTreeMap<(&str, Class), (Pair, Pair)>) -> Vec<Holder> {
    let mut holders: Vec<_> = found
        .into_iter()
        .map(|((name, class), (bytes, buffers))| Holder { name: name.to_owned(), class, bytes, buffers })
        .collect();
    holders.sort_by_key(|holder| std::cmp::Reverse((holder.bytes.size(), holder.buffers.size())));
    holders
}
