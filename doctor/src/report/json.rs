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
