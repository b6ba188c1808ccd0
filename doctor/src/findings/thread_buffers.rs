//! The threads' temporary buffers are what fills direct memory: who has how much, what gives the sizes, what each cure frees.

use super::{
    CAP_BYTES, Dump, Facts, Finding, Proof, Remedy, Severity, TRANSFER_BYTES, Text, decode_size, exact,
    human, text,
};
use crate::account::{Account, Class};
use crate::evidence::ThreadRole;
use crate::heap::{Books, Heap, Held};

/// Groups that are written out.
const GROUPS: usize = 8;
/// A network thread sees the request's header before the batch that the handler writes: that much larger.
const HEADER_BYTES: std::ops::RangeInclusive<u64> = 32..=512;

pub(super) fn find(facts: &Facts<'_>) -> Vec<Finding> {
    facts.dumps.iter().filter_map(|dump| finding(facts, dump)).collect()
}

/// What threads keep, and what they use in calls that are under way, which they keep afterwards.
pub(super) fn kept_or_used(account: &Account) -> u64 {
    account.sum(Class::Cached).bytes.saturating_add(account.sum(Class::InFlight).bytes)
}

/// What a cap on kept buffers would give back.
pub(super) fn above(heap: &Heap, cap: u64) -> u64 {
    heap.allocations
        .iter()
        .filter(|allocation| matches!(allocation.held, Held::Cached(_)) && allocation.books != Books::Mapped)
        .filter(|allocation| allocation.capacity > cap)
        .map(|allocation| allocation.bytes)
        .sum()
}

fn finding(facts: &Facts<'_>, dump: &Dump<'_>) -> Option<Finding> {
    let Account { whole_bytes, limit_bytes, .. } = *dump.account;
    let in_flight = dump.account.sum(Class::InFlight);
    let mut cached = dump.account.sum(Class::Cached);
    cached.bytes = kept_or_used(dump.account);
    cached.count += in_flight.count;
    if cached.bytes == 0 || cached.bytes < whole_bytes / 2 {
        return None;
    }
    // What counts is how near the limit the kept buffers alone come; a healthy broker keeps little.
    let limit = limit_bytes.or(facts.limit.as_ref().map(|limit| limit.value.0));
    if limit.is_some_and(|limit| cached.bytes < limit / 100) {
        return None;
    }
    let share = limit.map(|limit| u128::from(cached.bytes) * 100 / u128::from(limit.max(1)));
    let severity = match share {
        Some(50..70) => Severity::Warning,
        Some(70..) => Severity::Critical,
        _ => Severity::Note,
    };
    let percent = u128::from(cached.bytes) * 100 / u128::from(whole_bytes.max(1));
    let (bytes, size, count) = (exact(cached.bytes), human(cached.bytes), exact(cached.count));
    let mut evidence: Vec<Proof> = Vec::new();
    // Groups that matter; the first one always does.
    let least = dump.account.groups.first().map_or(0, |group| group.spread.sum / 100).max(1);
    for group in dump.account.groups.iter().filter(|group| group.spread.sum >= least).take(GROUPS) {
        let says = {
            let label = group.label();
            text!(
                "{label}: {count} of {threads} threads, {sum} bytes ({size}), the largest {max}",
                "{label}：{threads} 个线程中的 {count} 个，共 {sum} 字节（{size}），最大 {max}",
                count = group.spread.count,
                threads = group.threads,
                sum = exact(group.spread.sum),
                size = human(group.spread.sum),
                max = exact(group.spread.max);
                label
            )
        };
        evidence.push(dump.proof(says));
    }
    let explained = explain(facts, dump, &mut evidence);
    let uncounted = dump.account.uncounted_temporary.bytes;
    let books = if uncounted > 0 {
        let uncounted = exact(uncounted);
        text!(
            " {uncounted} bytes of it are in no pool and under no limit (JDK 24 and later).",
            "其中 {uncounted} 字节不在任何池中，也不受任何上限约束（JDK 24 及以后）。"
        )
    } else {
        text!("", "")
    };
    let under_way = match in_flight.bytes {
        0 => text!("", ""),
        bytes => text!(
            " {bytes} bytes of it are in calls under way, and kept afterwards.",
            "其中 {bytes} 字节正在传输中，之后同样会被保留。",
            bytes = exact(bytes)
        ),
    };
    let all: Vec<Text> = [under_way, books].into_iter().chain(explained).collect();
    let more = Text::join(&all, "", "");
    Some(Finding {
        id: "thread-buffers",
        severity,
        title: text!(
            "Threads keep {size} ({bytes} bytes) of direct memory in {count} buffers, {percent} % of what is held",
            "线程在 {count} 个缓冲区中保留了 {size}（{bytes} 字节）直接内存，占 {percent} %"
        ),
        cause: text!(
            "Each thread keeps the largest temporary buffer that it ever needed for reading or writing a heap buffer; no \
             collection frees it while the thread lives.{more}",
            "每个线程都会保留它读写堆缓冲区时用过的最大临时缓冲区；线程存活期间任何回收都不会释放它。{more}"; more
        ),
        evidence,
        remedies: remedies(facts, dump.heap, dump.account),
    })
}

/// Sizes that follow from a request or a setting.
fn explain(facts: &Facts<'_>, dump: &Dump<'_>, evidence: &mut Vec<Proof>) -> Vec<Text> {
    let mut texts: Vec<Text> = Vec::new();
    let buffers = |role: ThreadRole| -> Vec<(u64, &str)> {
        let mut found: Vec<_> = dump
            .heap
            .allocations
            .iter()
            .filter_map(|allocation| {
                let (Held::Cached(Some(thread)) | Held::InFlight(Some(thread), _)) = allocation.held else {
                    return None;
                };
                let name = dump.heap.threads.get(thread)?.name.as_deref()?;
                (ThreadRole::of_name(name) == role).then_some((allocation.capacity, name))
            })
            .collect();
        found.sort_unstable_by(|one, other| other.cmp(one));
        found
    };
    let network = buffers(ThreadRole::Network);
    // The first bytes of another protocol, taken for the size of a request.
    let foreign = |(size, name): &(u64, &str)| Some((*size, name.to_string(), decode_size(*size)?));
    if let Some((size, name, what)) = network.iter().find_map(foreign) {
        let bytes = exact(size);
        evidence.push(dump.proof(text!("{name}: {bytes} bytes", "{name}：{bytes} 字节")));
        let same = network.iter().filter(|(size, _)| decode_size(*size).as_ref() == Some(&what)).count();
        let hex = format!("0x{size:08x}");
        texts.push(text!(
            " {same} of the buffers of network threads have the size of {what} ({hex}), so somebody speaks another \
             protocol to a plaintext port and socket.request.max.bytes lets it reserve that much.",
            "网络线程有 {same} 个缓冲区的大小其实是 {what}（{hex}）：有人用别的协议连接明文端口，而 socket.request.max.bytes 允许照此申请内存。";
            what
        ));
    }
    let handlers = buffers(ThreadRole::RequestHandler);
    // The largest request that a handler wrote, seen by the network thread that received it.
    let twice = network.iter().find_map(|(size, network)| {
        let seen = |(batch, _): &&(u64, &str)| {
            *batch >= CAP_BYTES && size.checked_sub(*batch).is_some_and(|more| HEADER_BYTES.contains(&more))
        };
        let (batch, handler) = *handlers.iter().find(seen)?;
        Some((*size, *network, batch, handler))
    });
    if let Some((size, network, batch, handler)) = twice {
        evidence.push(dump.proof(text!(
            "{network}: {size} bytes; {handler}: {batch} bytes",
            "{network}：{size} 字节；{handler}：{batch} 字节",
            size = exact(size),
            batch = exact(batch)
        )));
        let (header, size, batch) = (size - batch, exact(size), exact(batch));
        texts.push(text!(
            " One produce request is there twice: {size} bytes where it was received, {batch} where its batch was written, \
             {header} bytes of header apart.",
            "同一个生产请求出现两次：接收处 {size} 字节，写入其批次处 {batch} 字节，相差 {header} 字节的头部。"
        ));
    }
    let fetch =
        facts.settings().map_or(57_671_680, |settings| settings.value.number("fetch.max.bytes").value);
    let fetch = u64::try_from(fetch).unwrap_or(0);
    let readers = buffers(ThreadRole::RemoteLogReader);
    // The first batch is held apart, so a read of a full fetch is smaller by it.
    let full = readers.iter().filter(|(size, _)| (fetch - fetch / 20..=fetch).contains(size)).count();
    if full > 0 && full * 2 >= readers.len() {
        let (all, limit) = (readers.len(), exact(fetch));
        texts.push(text!(
            " {full} of {all} buffers of remote-log readers have the size of a whole fetch: fetch.max.bytes={limit} less the \
             first batch.",
            "远程日志读取线程的 {all} 个缓冲区中有 {full} 个等于一次完整拉取：fetch.max.bytes={limit} 减去第一个批次。"
        ));
    }
    texts
}

fn remedies(facts: &Facts<'_>, heap: &Heap, account: &Account) -> Vec<Remedy> {
    let mut remedies = Vec::new();
    let above = above(heap, CAP_BYTES);
    if above > 0 {
        let cap = CAP_BYTES;
        remedies.push(
            Remedy::new(
                text!(
                    "start the broker with -Djdk.nio.maxCachedBufferSize={cap}: every buffer above it is freed after its transfer",
                    "以 -Djdk.nio.maxCachedBufferSize={cap} 启动：超过它的缓冲区用完即释放"
                ),
                true,
            )
            .frees(Some(above))
            .caution(text!(
                "bounds what is kept, not the peak of transfers under way, and costs an allocation for each large transfer; write \
                 plain digits, 1m is silently ignored",
                "只限制保留量，不限制传输中的峰值；每次大传输都要重新分配；必须写纯数字，写成 1m 会被静默忽略"
            )),
        );
    }
    // What the buffers of some roles exceed a smaller transfer by.
    let beyond = |roles: &[ThreadRole]| -> u64 {
        let of_role = |thread: usize| {
            let name = heap.threads.get(thread).and_then(|thread| thread.name.as_deref());
            name.is_some_and(|name| roles.contains(&ThreadRole::of_name(name)))
        };
        let cached = heap.allocations.iter().filter(|allocation| match allocation.held {
            Held::Cached(Some(thread)) => of_role(thread),
            _ => false,
        });
        cached.map(|allocation| allocation.capacity.saturating_sub(TRANSFER_BYTES)).sum()
    };
    let size = TRANSFER_BYTES;
    let reads = beyond(&[ThreadRole::RemoteLogReader]);
    if reads > 0 {
        remedies.push(
            Remedy::new(
                text!(
                    "lower fetch.max.bytes to {size}: a remote read is never larger than that",
                    "把 fetch.max.bytes 降到 {size}：远程读取不会超过它"
                ),
                true,
            )
            .frees(Some(reads))
            .caution(text!(
                "a first batch that is larger still comes whole; consumers of tiered data need more fetches",
                "首个批次若更大仍会整批返回；读取分层数据的消费者要用更多次拉取"
            )),
        );
    }
    let requests = beyond(&[ThreadRole::Network, ThreadRole::RequestHandler]);
    if requests > 0 {
        remedies.push(
            Remedy::new(
                text!(
                    "lower socket.request.max.bytes to {size}: no thread receives or writes more at once",
                    "把 socket.request.max.bytes 降到 {size}：任何线程一次收写都不会超过它"
                ),
                true,
            )
            .frees(Some(requests))
            .caution(text!(
                "larger requests are refused then: lower max.request.size of the producers first",
                "更大的请求会被拒绝：请先降低生产者的 max.request.size"
            )),
        );
    }
    for group in
        account.groups.iter().filter(|group| group.spread.count > 1 && group.spread.sum >= CAP_BYTES).take(3)
    {
        let property = match group.role {
            ThreadRole::Network => "num.network.threads",
            ThreadRole::RequestHandler => "num.io.threads",
            ThreadRole::ReplicaFetcher => "num.replica.fetchers",
            ThreadRole::RemoteLogReader => "remote.log.reader.threads",
            ThreadRole::LogCleaner => "log.cleaner.threads",
            ThreadRole::Raft | ThreadRole::Other => continue,
        };
        let (name, threads) = (group.label(), group.threads);
        // Which threads end is not ours to choose, so the share of the mean is what can be promised.
        let half = group.spread.sum / 2;
        // The other pools are resized while the broker runs; that of readers only in later releases.
        let is_fixed = group.role == ThreadRole::RemoteLogReader;
        let remedy = Remedy::new(
            text!(
                "halve {property} ({name}: {threads} threads now): the ended threads give back what they keep",
                "把 {property} 减半（{name}：现有 {threads} 个线程）：结束的线程会归还其保留的内存"; name
            ),
            is_fixed,
        )
        .frees(Some(half));
        remedies.push(match is_fixed {
            true => remedy.caution(text!(
                "later releases of Kafka 4 change it while the broker runs; fewer remote reads go on at once",
                "Kafka 4 的较新版本可在运行中修改；同时进行的远程读取会变少"
            )),
            false => remedy.caution(text!(
                "the threads that stay keep theirs, and grow to the largest transfer again",
                "留下的线程仍保留各自的缓冲区，并会再次涨到最大传输量"
            )),
        });
    }
    remedies.extend(fewer_listeners(facts, account));
    remedies
}

/// Each listener has network threads of its own: without the one that keeps least, its threads are gone.
fn fewer_listeners(facts: &Facts<'_>, account: &Account) -> Option<Remedy> {
    let is_controller = |name: &str| {
        let listeners = facts.settings().map(|settings| settings.value.listeners()).unwrap_or_default();
        listeners.iter().any(|listener| listener.is_controller && listener.name.eq_ignore_ascii_case(name))
    };
    let kept: Vec<_> = account
        .groups
        .iter()
        .filter(|group| group.role == ThreadRole::Network && group.spread.sum >= CAP_BYTES)
        .filter_map(|group| Some((group, group.listener.as_deref()?)))
        .filter(|(_, listener)| !is_controller(listener))
        .collect();
    if kept.len() < 2 {
        return None;
    }
    let (group, listener) = kept.into_iter().min_by_key(|(group, _)| group.spread.sum)?;
    let threads = group.threads;
    let remedy = Remedy::new(
        text!(
            "do without the listener {listener}: its {threads} network threads are then gone",
            "取消监听器 {listener}：它的 {threads} 个网络线程随之消失"
        ),
        true,
    );
    Some(remedy.frees(Some(group.spread.sum)).caution(text!(
        "its clients must move to another listener first; the threads of that one see their requests then",
        "须先把它的客户端迁到其他监听器；之后由那里的线程处理这些请求"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::tests::{buffer, findings_of_dump, thread};

    fn heap(threads: &[(&str, u64)], limit: u64) -> Heap {
        let mut heap = Heap::default();
        for (name, bytes) in threads {
            heap.threads.push(thread(name));
            let index = heap.threads.len() - 1;
            heap.allocations.push(buffer(*bytes, Held::Cached(Some(index)), Books::Direct));
        }
        heap.statics.max_direct_bytes = Some(limit);
        heap
    }

    fn one(heap: &Heap, texts: &[&str]) -> Option<Finding> {
        findings_of_dump(heap, texts).into_iter().find(|finding| finding.id == "thread-buffers")
    }

    const NETWORK: &str = "data-plane-kafka-network-thread-1-ListenerName(SASL)-SASL_PLAINTEXT-";

    #[test]
    fn kept_buffers_are_named_by_group_with_what_each_cure_frees() {
        let names: Vec<_> = (0..4).map(|index| format!("{NETWORK}{index}")).collect();
        let mut threads: Vec<_> = names.iter().map(|name| (name.as_str(), 79_159_409)).collect();
        threads.push(("data-plane-kafka-request-handler-0", 79_159_345));
        threads.push(("main", 8192));
        let found = one(&heap(&threads, 512 << 20), &[]).unwrap();
        assert_eq!(found.severity, Severity::Critical);
        assert!(found.evidence[0].says.en.contains(
            "network SASL: 4 of 4 threads, 316,637,636 bytes (301.97 MiB), the largest 79,159,409"
        ));
        assert!(found.cause.en.contains("64 bytes of header apart"), "{found:?}");
        assert_eq!(found.remedies[0].frees_bytes, Some(4 * 79_159_409 + 79_159_345));
        let lower = found
            .remedies
            .iter()
            .find(|remedy| remedy.action.en.contains("socket.request.max.bytes"))
            .unwrap();
        assert_eq!(lower.frees_bytes, Some(4 * (79_159_409 - (16 << 20)) + 79_159_345 - (16 << 20)));
        assert!(found.remedies.iter().any(|remedy| remedy.frees_bytes == Some(2 * 79_159_409)));
        assert!(
            !found.remedies.iter().any(|remedy| remedy.action.en.contains("listener")),
            "there is but one"
        );
    }

    #[test]
    fn calls_under_way_count_and_are_told_apart() {
        let mut heap = heap(&[("data-plane-kafka-request-handler-0", 8_388_608)], 512 << 20);
        heap.threads.push(thread(&format!("{NETWORK}0")));
        heap.allocations.push(buffer(
            300 << 20,
            Held::InFlight(Some(1), "IOUtil.read".into()),
            Books::Direct,
        ));
        let found = one(&heap, &[]).unwrap();
        assert!(
            found.title.en.contains("(322,961,408 bytes) of direct memory in 2 buffers, 100 %"),
            "{found:?}"
        );
        assert_eq!(found.severity, Severity::Warning);
        assert!(found.cause.en.contains("314,572,800 bytes of it are in calls under way"), "{found:?}");
        assert_eq!(found.remedies[0].frees_bytes, Some(8_388_608), "a cap does not bound what is under way");
    }

    #[test]
    fn sizes_of_another_protocol_are_named() {
        let names: Vec<_> = (0..5).map(|index| format!("{NETWORK}{index}")).collect();
        let threads: Vec<_> = names.iter().map(|name| (name.as_str(), 369_295_617)).collect();
        let found = one(&heap(&threads, 2 << 30), &[]).unwrap();
        let says = "5 of the buffers of network threads have the size of a TLS ClientHello (0x16030101)";
        assert!(found.cause.en.contains(says), "{found:?}");
    }

    #[test]
    fn a_listener_less_frees_what_its_threads_keep() {
        let internal = NETWORK.replace("(SASL)", "(INTERNAL)");
        let names = [format!("{NETWORK}0"), format!("{NETWORK}1"), format!("{internal}2")];
        let sizes = [79_159_409, 79_159_409, 50_000_000];
        let threads: Vec<_> = names.iter().map(String::as_str).zip(sizes).collect();
        let found = one(&heap(&threads, 256 << 20), &[]).unwrap();
        let fewer = |found: &Finding| {
            let fewer = |remedy: &&Remedy| remedy.action.en.contains("do without the listener INTERNAL");
            found.remedies.iter().find(fewer).map(|remedy| (remedy.frees_bytes, remedy.needs_restart))
        };
        assert_eq!(fewer(&found), Some((Some(50_000_000), true)), "{found:?}");
        let controller = "listeners=SASL://:1,INTERNAL://:2\ncontroller.listener.names=INTERNAL\n";
        assert_eq!(fewer(&one(&heap(&threads, 256 << 20), &[controller]).unwrap()), None);
    }

    #[test]
    fn readers_of_whole_fetches_are_explained_by_the_setting() {
        let names: Vec<_> = (0..10).map(|index| format!("remote-log-reader{index}")).collect();
        let threads: Vec<_> = names.iter().map(|name| (name.as_str(), 57_669_856)).collect();
        let found = one(&heap(&threads, 1 << 30), &[]).unwrap();
        assert!(found.cause.en.contains("10 of 10 buffers of remote-log readers"), "{found:?}");
        let halve = found.remedies.iter().find(|remedy| remedy.action.en.contains("reader.threads")).unwrap();
        assert!(halve.needs_restart, "Kafka 3.9 does not change it while it runs: {halve:?}");
        let lower =
            found.remedies.iter().find(|remedy| remedy.action.en.contains("fetch.max.bytes")).unwrap();
        assert_eq!(lower.frees_bytes, Some(10 * (57_669_856 - (16 << 20))));
        let other = one(&heap(&threads, 1 << 30), &["fetch.max.bytes=104857600\n"]).unwrap();
        assert!(!other.cause.en.contains("remote-log readers"), "{other:?}");
    }

    #[test]
    fn little_is_a_note_and_held_memory_is_another_matter() {
        let small = heap(&[("main", 8192), ("other", 100)], 100_000);
        assert_eq!(one(&small, &[]).unwrap().severity, Severity::Note);
        assert!(one(&heap(&[("main", 8192)], 1 << 30), &[]).is_none());
        let mut held = heap(&[("main", 8192)], 1 << 30);
        held.allocations.push(buffer(900 << 20, Held::Garbage, Books::Direct));
        assert!(one(&held, &[]).is_none());
    }
}
