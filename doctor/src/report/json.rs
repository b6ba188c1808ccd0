//! The account as JSON. The schema is documented in `docs/doctor.md`; fields are added, never renamed.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Value, json};

use crate::account::{Account, Class, Holds, Line, Reconciled, Sum};
use crate::heap::{Allocation, Books, Heap, Held, Pool};
use crate::language::Language;

fn sum(sum: Sum) -> Value {
    json!({"bytes": sum.bytes, "capacity_bytes": sum.capacity_bytes, "buffers": sum.count})
}

/// Where the JVM counts an allocation, by its name in JSON.
pub(crate) fn books(books: Books) -> &'static str {
    match books {
        Books::Direct => "direct",
        Books::Mapped => "mapped",
        Books::None => "none",
    }
}

fn pool(reconciled: &Reconciled) -> Value {
    let counted = reconciled.counted.map(|Pool { used_bytes, capacity_bytes, count }| {
        json!({"bytes": used_bytes, "capacity_bytes": capacity_bytes, "buffers": count})
    });
    let difference = reconciled.difference().map(|(bytes, capacity, buffers)| {
        let number = |value: i128| i64::try_from(value).unwrap_or(i64::MAX);
        json!({"bytes": number(bytes), "capacity_bytes": number(capacity), "buffers": number(buffers)})
    });
    json!({
        "found": sum(reconciled.found),
        "counted_by_jvm": counted,
        "difference": difference,
        "exact": reconciled.is_exact(),
    })
}

fn allocation(heap: &Heap, allocation: &Allocation) -> Value {
    let name = |thread: Option<usize>| thread.and_then(|index| heap.threads.get(index)?.name.as_deref());
    let mut value = json!({
        "object": format!("{:#x}", allocation.id),
        "class": allocation.class.as_str(),
        "kind": Class::of(allocation).name(),
        "books": books(allocation.books),
        "bytes": allocation.bytes,
        "capacity_bytes": allocation.capacity,
        "limit_bytes": allocation.limit,
        "position_bytes": allocation.position,
        "views": allocation.views,
    });
    let mut put = |key: &str, content: Value| {
        if let Some(object) = value.as_object_mut() {
            object.insert(key.into(), content);
        }
    };
    match &allocation.held {
        Held::Cached(thread) => put("thread", name(*thread).into()),
        Held::InFlight(thread, frame) => {
            put("thread", name(*thread).into());
            put("frame", frame.as_str().into());
        }
        Held::Objects(holder) => {
            put("owner", holder.owner.as_str().into());
        }
        Held::Garbage | Held::Unknown => {}
    }
    if let Some(file) = &allocation.file {
        put("file", file.as_str().into());
    }
    value
}

/// The account of one dump as JSON, what is said in it in a language. Written allocation by allocation: there may be many.
#[derive(Debug, Clone, Copy)]
pub struct Json<'a> {
    /// The dump's heap.
    pub heap: &'a Heap,
    /// Its account.
    pub account: &'a Account,
    /// The language of texts.
    pub language: Language,
}

impl Serialize for Json<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { heap, account, language } = *self;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("allocations", &Allocations(heap))?;
        for (key, value) in sums(heap, account, language).as_object().into_iter().flatten() {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

struct Allocations<'a>(&'a Heap);

impl Serialize for Allocations<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.allocations.iter().map(|each| allocation(self.0, each)))
    }
}

/// The same as a value, for accounts that are not large.
pub fn json(heap: &Heap, account: &Account, language: Language) -> Value {
    serde_json::to_value(Json { heap, account, language }).unwrap_or_default()
}

/// All but the allocations.
fn sums(heap: &Heap, account: &Account, language: Language) -> Value {
    let condition = &heap.condition;
    let lines = account.lines.iter().map(|Line { class, books: of, sum: total }| {
        let mut line = sum(*total);
        if let Some(line) = line.as_object_mut() {
            line.insert("kind".into(), class.name().into());
            line.insert("books".into(), books(*of).into());
        }
        line
    });
    let groups = account.groups.iter().map(|group| {
        let spread = group.spread;
        json!({
            "name": group.name(),
            "role": group.role.to_string(),
            "listener": group.listener,
            "threads": group.threads,
            "threads_with_cache": group.with_cache,
            "threads_with_bytes": spread.count,
            "buffers": group.buffers,
            "min_bytes": spread.min,
            "p50_bytes": spread.p50,
            "p95_bytes": spread.p95,
            "max_bytes": spread.max,
            "sum_bytes": spread.sum,
            "counted_bytes": group.counted_bytes,
            "share": group.share,
        })
    });
    let threads = account.threads.iter().map(|used| {
        let thread = used.thread.and_then(|index| heap.threads.get(index));
        json!({
            "name": thread.and_then(|thread| thread.name.as_deref()),
            "class": thread.map(|thread| thread.class.as_str()),
            "group": account.groups.get(used.group).map(crate::account::Group::name),
            "cached_bytes": used.cached_bytes,
            "cached_buffers": used.cached_buffers,
            "in_flight_bytes": used.in_flight_bytes,
            "in_flight_buffers": used.in_flight_buffers,
            "in_flight_frame": used.frame,
            "counted_bytes": used.counted_bytes,
        })
    });
    let owners = account.owners.iter().map(|owner| {
        json!({
            "name": owner.name,
            "kind": owner.class.name(),
            "bytes": owner.sum.bytes,
            "buffers": owner.sum.count,
            "largest_bytes": owner.largest_bytes,
            "path": owner.path,
            "path_complete": owner.complete,
        })
    });
    let conclusions = account.conclusions.iter().map(|conclusion| {
        json!({
            "id": conclusion.id,
            "what": conclusion.what.get(language),
            "holds": conclusion.holds.name(),
            "why": conclusion.why.get(language),
        })
    });
    let statics = &heap.statics;
    json!({
        "file": condition.path.display().to_string(),
        "dump": {
            "stored_bytes": condition.stored_bytes,
            "size_bytes": condition.size_bytes,
            "gzip_members": condition.gzip_members,
            "format": format!("1.0.{}", condition.version),
            "id_bytes": condition.id_bytes,
            "time_ms": condition.time_ms,
            "complete": condition.is_complete(),
            "truncated_bytes": condition.truncated,
            "end_missing": condition.end_missing,
            "problems": condition.problems.iter().map(|problem| json!({"at": problem.at, "what": problem.what.get(language)})).collect::<Vec<_>>(),
            "more_problems": condition.more_problems,
            "gzip_problem": condition.gzip_problem.as_ref().map(|problem| problem.get(language)),
            "stacks_missing": condition.stacks_missing,
            "overflow": condition.overflow,
            "names_redacted": condition.names_redacted,
            "numbers_redacted": condition.numbers_redacted,
            "passes": condition.passes,
            "bytes_read": condition.bytes_read,
        },
        "objects": heap.objects,
        "classes": heap.classes,
        "threads": {
            "platform": heap.threads.len(),
            "virtual": heap.virtual_threads,
            "with_cache": heap.threads.iter().filter(|thread| thread.caches > 0).count(),
        },
        "direct": pool(&account.direct),
        "mapped": pool(&account.mapped),
        "limit_bytes": account.limit_bytes,
        "left_bytes": account.left_bytes,
        "max_cached_buffer_bytes": statics.max_cached_buffer_bytes.filter(|size| *size != i64::MAX as u64),
        "page_aligned": statics.page_aligned,
        "cleaner_list": statics.cleaner_list.map(|(buffers, bytes)| json!({"buffers": buffers, "bytes": bytes})),
        "netty": statics.netty.iter().map(|(used, limit)| json!({"used_bytes": used, "limit_bytes": limit})).collect::<Vec<_>>(),
        "uncounted_temporary": sum(account.uncounted_temporary),
        "whole_bytes": account.whole_bytes,
        "views": heap.views,
        "lost_views": heap.lost_views,
        "caches": {"found": heap.caches, "lost": heap.lost_caches, "torn": heap.torn_caches},
        "unheld": {"bytes": heap.unheld.bytes, "buffers": heap.unheld.count},
        "lines": lines.collect::<Vec<_>>(),
        "groups": groups.collect::<Vec<_>>(),
        "thread_buffers": threads.collect::<Vec<_>>(),
        "owners": owners.collect::<Vec<_>>(),
        "conclusions": conclusions.collect::<Vec<_>>(),
        "conclusive": account.conclusions.iter().all(|conclusion| conclusion.holds == Holds::Yes),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::compare::{Side, compare, comparison_json};
    use crate::findings::{Dump, Facts, diagnose};
    use crate::jvm_plan::{JvmInputs, jvm_plan};
    use crate::report::html::tests::{heap, texts};
    use crate::verify::{Options, verify};

    const DOCS: &str = include_str!("../../../docs/doctor.md");

    /// A part of the documentation, by its title.
    fn section(title: &str) -> &'static str {
        let rest = DOCS.split_once(&format!("\n## {title}\n")).unwrap_or_else(|| panic!("no {title}")).1;
        rest.split("\n## ").next().unwrap()
    }

    /// What stands in backticks.
    fn words(text: &str) -> BTreeSet<&str> {
        text.split('`').skip(1).step_by(2).collect()
    }

    fn keys(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(object) => {
                for (key, value) in object {
                    found.insert(key.clone());
                    // Its keys are names of figures, one check has these and another those.
                    if key != "numbers" {
                        keys(value, found);
                    }
                }
            }
            Value::Array(values) => values.iter().for_each(|value| keys(value, found)),
            _ => {}
        }
    }

    fn documented(value: &Value, parts: &[&str]) {
        let mut found = BTreeSet::new();
        keys(value, &mut found);
        let known: BTreeSet<&str> = parts.iter().flat_map(|part| words(section(part))).collect();
        let unknown: Vec<_> = found.iter().filter(|key| !known.contains(key.as_str())).collect();
        assert_eq!(unknown, Vec::<&String>::new(), "in {parts:?}");
    }

    /// The names in the first column of the part's tables.
    fn rows(part: &str) -> BTreeSet<&'static str> {
        let rows = section(part).lines().filter(|line| line.starts_with("| `"));
        rows.flat_map(|line| words(line.split('|').nth(1).unwrap_or_default())).collect()
    }

    fn names(value: &Value) -> BTreeSet<&str> {
        value.as_object().unwrap().keys().map(String::as_str).collect()
    }

    #[test]
    fn every_field_is_documented_and_every_documented_field_is_there() {
        let (mut heap, evidence) = (heap(), texts());
        heap.condition.problems.push(crate::hprof::Problem { at: 7, what: crate::language::text!("x", "x") });
        heap.statics.cleaner_list = Some((7, 5));
        let account = Account::of(&heap);
        let report = json(&heap, &account, Language::English);
        documented(&report, &["JSON", "What is counted"]);
        assert_eq!(rows("JSON").difference(&names(&report)).collect::<Vec<_>>(), Vec::<&&str>::new());
        let dumps = [Dump { path: &heap.condition.path, heap: &heap, account: &account }];
        for finding in diagnose(&evidence, &dumps) {
            documented(&finding.to_json(Language::English), &["JSON"]);
        }
        let side = || Side::of(&evidence, &dumps);
        let comparison = comparison_json(&compare(&side(), &side()), Language::Chinese);
        documented(&comparison, &["Comparing"]);
        let (missing, there) = (rows("Comparing"), names(&comparison));
        let missing = missing.difference(&there).collect::<Vec<_>>();
        assert_eq!(missing, [&"after_files", &"before_files"], "which the command adds");
        let verification = verify(&Facts::of(&evidence, &dumps), &Options::default());
        documented(&verification.to_json(Language::English), &["Verifying a cure"]);
        let settings = &evidence.server_properties.last().unwrap().value;
        let inputs = JvmInputs {
            properties: settings,
            heap_bytes: 1 << 30,
            direct_bytes: None,
            peers: 1,
            max_cached_buffer_bytes: None,
        };
        let problems = &evidence.files[1].problems;
        documented(&crate::jvm_plan::json(&jvm_plan(&inputs), problems, Language::English), &["Planning"]);
    }

    #[test]
    fn numbers_are_exact_however_large() {
        let mut heap = heap();
        heap.allocations.truncate(1);
        let bytes = (1_u64 << 53) + 1;
        heap.allocations[0].bytes = bytes;
        heap.allocations[0].capacity = bytes;
        let text = json(&heap, &Account::of(&heap), Language::English).to_string();
        assert!(
            text.contains(&format!("\"bytes\":{bytes}")) && text.contains(&format!("\"sum_bytes\":{bytes}"))
        );
    }
}
