//! Settings that are really in force: the cap of cached buffers with its traps of spelling and unit, what it lets the
//! threads keep, and explicit collections.

use super::Check;
use super::pool::Limit;
use crate::evidence::excerpt;
use crate::findings::{Facts, cached_buffer_traps, exact, text};
use crate::jvm_plan::{JvmInputs, jvm_plan};

const NAME: &str = "jdk.nio.maxCachedBufferSize";
/// What the threads may keep at most, in percent of the limit: the first level of the alerts.
const KEPT_PERCENT: u64 = 70;

pub(super) fn cached_buffer(facts: &Facts<'_>) -> Check {
    let id = "cached-buffer-setting";
    let criterion =
        text!("{NAME} is in force: spelt right, plain digits", "{NAME} 生效：名称正确、纯十进制数字");
    let traps = cached_buffer_traps(facts);
    let in_force =
        facts.dumps.iter().rev().find_map(|dump| Some((dump, dump.heap.statics.max_cached_buffer_bytes?)));
    let from_dump = in_force.map(|(dump, bytes)| {
        (bytes, dump.proof(format!("sun.nio.ch.Util.MAX_CACHED_BUFFER_SIZE = {bytes}")))
    });
    let set = facts.max_cached_buffer();
    let written = facts.system_properties(|name| name == NAME);
    let place = from_dump.as_ref().map(|(_, proof)| proof.clone());
    let places: Vec<_> = place.into_iter().chain(written.iter().map(|(_, _, proof)| proof.clone())).collect();
    if let Some(bytes) = set {
        let size = exact(bytes);
        let says = text!("it is {size} bytes", "其值为 {size} 字节");
        return Check::judged(id, criterion, true, says).number("cap_bytes", bytes).cite(&places);
    }
    if let Some((name, value, proof)) = traps.first() {
        let (name, value) = (excerpt(name), excerpt(value));
        let says = text!(
            "-D{name}={value} is ignored by the JDK without a word",
            "-D{name}={value} 被 JDK 静默忽略"
        );
        return Check::judged(id, criterion, false, says).cite([proof]).cite(&places);
    }
    let seen_all = !facts.evidence.system_properties.is_empty() || !facts.evidence.command_lines.is_empty();
    if from_dump.is_some() || seen_all {
        let says = text!(
            "it is not set: every thread keeps its largest buffer",
            "未设置：每个线程都保留其最大的缓冲区"
        );
        let sources = facts.evidence.system_properties.iter().map(|found| found.file);
        let sources = sources.chain(facts.evidence.command_lines.iter().map(|found| found.file));
        let sources: Vec<_> =
            sources.map(|file| facts.proof(file, 0, text!("{NAME} is not there", "没有 {NAME}"))).collect();
        return Check::judged(id, criterion, false, says).cite(&places).cite(&sources);
    }
    let lacks = text!(
        "no VM.system_properties, no VM.command_line and no dump",
        "没有 VM.system_properties、VM.command_line 或堆转储"
    );
    Check::not_judged(id, criterion, lacks)
}

pub(super) fn kept(facts: &Facts<'_>, limit: Option<&Limit>) -> Check {
    let id = "kept-fits-limit";
    let criterion = text!(
        "what all threads may keep with these settings stays under {KEPT_PERCENT} % of the limit",
        "按当前设置，所有线程可能保留的总量低于上限的 {KEPT_PERCENT} %"
    );
    let Some(settings) = facts.settings() else {
        let lacks = text!("no server.properties", "没有 server.properties");
        return Check::not_judged(id, criterion, lacks);
    };
    let Some((limit, proofs)) = limit else {
        return Check::not_judged(id, criterion, text!("the limit is not known", "上限未知"));
    };
    let plan = jvm_plan(&JvmInputs {
        properties: &settings.value,
        heap_bytes: *limit,
        direct_bytes: Some(*limit),
        peers: 0,
        max_cached_buffer_bytes: facts.max_cached_buffer(),
    });
    let (kept, peak) = (plan.kept_bytes(), plan.peak_bytes());
    let holds = u128::from(kept) * 100 < u128::from(*limit) * u128::from(KEPT_PERCENT);
    let threads: u64 = plan.terms.iter().map(|term| term.threads).sum();
    let (kept_text, peak_text, limit_text, threads_text) =
        (exact(kept), exact(peak), exact(*limit), exact(threads));
    let says = text!(
        "{threads_text} threads may keep {kept_text} bytes, the limit is {limit_text}; if all transfer their largest at \
         once, they need {peak_text}",
        "{threads_text} 个线程最多可保留 {kept_text} 字节，上限为 {limit_text} 字节；若同时进行各自最大的传输，则需要 {peak_text} 字节"
    );
    Check::judged(id, criterion, holds, says)
        .number("kept_bytes", kept)
        .number("peak_bytes", peak)
        .number("limit_bytes", *limit)
        .number("threads", threads)
        .cite(&[
            facts.setting_proof(settings, "num.network.threads"),
            facts.setting_proof(settings, "socket.request.max.bytes"),
        ])
        .cite(proofs)
}

pub(super) fn explicit_gc(facts: &Facts<'_>) -> Check {
    let id = "explicit-gc-allowed";
    let criterion = text!(
        "-XX:+DisableExplicitGC is not set: a failing reservation may ask for a collection",
        "未设置 -XX:+DisableExplicitGC：申请失败时可以请求回收"
    );
    if let Some(proof) = facts.switched_on("DisableExplicitGC") {
        let says = text!("it is set", "已设置");
        return Check::judged(id, criterion, false, says).cite([&proof]);
    }
    let flags = facts.evidence.vm_flags.iter().map(|found| found.file);
    let files: Vec<_> = flags.chain(facts.evidence.command_lines.iter().map(|found| found.file)).collect();
    if files.is_empty() {
        return Check::not_judged(
            id,
            criterion,
            text!("no VM.flags and no VM.command_line", "没有 VM.flags 或 VM.command_line"),
        );
    }
    let places: Vec<_> = files
        .into_iter()
        .map(|file| facts.proof(file, 0, text!("DisableExplicitGC is not on", "未启用 DisableExplicitGC")))
        .collect();
    Check::judged(id, criterion, true, text!("it is not set", "未设置")).cite(&places)
}
