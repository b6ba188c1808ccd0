//! The plan as text that fits a terminal, and as JSON.

use serde_json::{Value, json as value};

use super::{JvmPlan, JvmTerm, TLS_CONNECTION_BYTES};
use crate::evidence::Problem;
use crate::findings::{exact, human, rows};
use crate::language::{Language, Text, text as say};
use crate::report::{Layout, text_columns};

/// A plan, and what the settings that it was made of leave open.
#[derive(Debug, Clone, Copy)]
struct Shown<'p> {
    plan: &'p JvmPlan,
    breaking: &'p [usize],
}

/// The plan as JSON; the schema is documented in `docs/doctor.md`.
pub fn json(plan: &JvmPlan, problems: &[Problem], language: Language) -> Value {
    let breaking = plan.breaking();
    let terms = plan.terms.iter().enumerate().map(|(index, term)| {
        value!({
            "role": term.role.to_string(),
            "listener": term.listener,
            "threads": term.threads,
            "each_bytes": term.each_bytes,
            "peak_bytes": term.peak_bytes(),
            "kept_bytes": term.kept_bytes(),
            "threads_from": term.threads_from.get(language),
            "size_from": term.size_from.get(language),
            "depends_on_plugin": term.depends_on_plugin,
            "breaks_limit": breaking.contains(&index),
        })
    });
    let problems =
        problems.iter().map(|problem| value!({ "line": problem.line, "text": problem.text.get(language) }));
    value!({
        "limit_bytes": plan.limit_bytes,
        "limit_from": if plan.limit_is_flag { "-XX:MaxDirectMemorySize" } else { "-Xmx" },
        "peak_bytes": plan.peak_bytes(),
        "kept_bytes": plan.kept_bytes(),
        "excess_bytes": plan.excess_bytes(),
        "fits": plan.excess_bytes() == 0,
        "fitting_socket_request_max_bytes": plan.fitting_request_bytes(),
        "tls_listeners": plan.tls_listeners,
        "tls_connection_bytes": TLS_CONNECTION_BYTES,
        "terms": terms.collect::<Vec<_>>(),
        "problems": problems.collect::<Vec<_>>(),
    })
}

/// The plan for a terminal. `peers` as in the inputs; `has_file`: whether there were settings at all.
pub fn text(plan: &JvmPlan, problems: &[Problem], peers: u64, has_file: bool, layout: Layout) -> String {
    let mut out = String::new();
    let mut line = |indent: usize, text: &Text| rows(&mut out, layout, indent, &layout.say(text));
    line(
        0,
        &say!(
            "Direct memory of a JVM broker, each thread with its largest transfer",
            "JVM Broker 的直接内存：每个线程都在进行其最大的传输"
        ),
    );
    if !has_file {
        line(
            0,
            &say!(
                "Without a server.properties: Kafka's defaults",
                "未给出 server.properties：采用 Kafka 默认值"
            ),
        );
    }
    out.push('\n');
    let breaking = plan.breaking();
    let shown = Shown { plan, breaking: &breaking };
    shown.terms(&mut out, layout);
    out.push('\n');
    shown.sums(&mut out, layout);
    out.push('\n');
    shown.verdict(&mut out, layout);
    let mut line = |text: &Text| rows(&mut out, layout, 0, &layout.say(text));
    if !plan.tls_listeners.is_empty() {
        let (listeners, each) = (plan.tls_listeners.join(", "), exact(TLS_CONNECTION_BYTES));
        line(&say!(
            "TLS ({listeners}): each connection that is sent file data keeps {each} bytes more; they are not in the sum.",
            "TLS（{listeners}）：每个发送过文件数据的连接另外保留 {each} 字节，未计入总和。"
        ));
    }
    if plan.terms.iter().any(|term| term.depends_on_plugin) {
        line(&say!(
            "Tiered storage: whether the readers' buffers are direct depends on the plugin; its own memory is not in the sum.",
            "分层存储：读取线程的缓冲区是否为直接内存取决于插件；插件自身的内存未计入总和。"
        ));
    }
    if peers == 0 {
        line(&say!(
            "Replica fetchers are not in the sum: say with --peers how many brokers this one replicates from.",
            "总和未计入副本拉取线程：请用 --peers 指定本 Broker 从多少个 Broker 拉取副本。"
        ));
    }
    line(&say!(
        "From JDK 24 on these bytes are outside the limit and come on top of it.",
        "从 JDK 24 起，这些字节不受上限约束，而是额外占用。"
    ));
    for problem in problems {
        let (at, what) = (problem.line, &problem.text);
        match at {
            0 => line(what),
            _ => line(&say!("line {at}: {what}", "第 {at} 行：{what}"; what)),
        }
    }
    out
}

impl Shown<'_> {
    /// Whose threads, with the listener.
    fn name(&self, term: &JvmTerm, layout: Layout) -> String {
        let role = term.role.label();
        let name = match &term.listener {
            Some(listener) => say!("{role} ({listener})", "{role}（{listener}）"; role),
            None => role,
        };
        layout.say(&name)
    }

    fn terms(&self, out: &mut String, layout: Layout) {
        let names: Vec<_> = self.plan.terms.iter().map(|term| self.name(term, layout)).collect();
        let width = names.iter().map(|name| text_columns(name)).max().unwrap_or(0);
        let figures = |term: &JvmTerm| {
            let peak = term.peak_bytes();
            format!(
                "{:>5} × {:>13} = {:>16} = {:>10}",
                exact(term.threads),
                exact(term.each_bytes),
                exact(peak),
                human(peak)
            )
        };
        let widest = self.plan.terms.iter().map(|term| text_columns(&figures(term))).max().unwrap_or(0);
        let beside = width + widest + 4 <= layout.width;
        for (index, (term, name)) in self.plan.terms.iter().zip(&names).enumerate() {
            let mark = if self.breaking.contains(&index) { '!' } else { ' ' };
            let figures = figures(term);
            if beside {
                let space = " ".repeat(width - text_columns(name));
                out.push_str(&format!("{mark} {name}{space}  {figures}\n"));
            } else {
                rows(out, layout, 0, &format!("{mark} {name}"));
                let figures: Vec<_> = figures.split_whitespace().collect();
                rows(out, layout, 4, &figures.join(" "));
            }
            let (threads, size) = (&term.threads_from, &term.size_from);
            let from = say!("{threads}, {size}", "{threads}，{size}"; threads, size);
            rows(out, layout, 4, &layout.say(&from));
        }
    }

    fn sums(&self, out: &mut String, layout: Layout) {
        let plan = self.plan;
        let limit = match plan.limit_is_flag {
            true => Text::verbatim("-XX:MaxDirectMemorySize"),
            false => say!(
                "-Xmx, because -XX:MaxDirectMemorySize is not set",
                "-Xmx，因为未设置 -XX:MaxDirectMemorySize"
            ),
        };
        let sum = say!("all at once", "同时进行");
        let kept = say!("what stays in the threads' caches afterwards", "之后留在线程缓存中的部分");
        let all = [
            (say!("sum", "总和"), plan.peak_bytes(), sum),
            (say!("limit", "上限"), plan.limit_bytes, limit),
            (say!("kept", "保留"), plan.kept_bytes(), kept),
        ];
        for (label, bytes, why) in all {
            let label = label.get(layout.language);
            let space = " ".repeat(7_usize.saturating_sub(text_columns(label)));
            let figures = format!("{label}{space}{} = {}", exact(bytes), human(bytes));
            let why = why.get(layout.language);
            let space = " ".repeat(44_usize.saturating_sub(text_columns(&figures)));
            let beside = format!("{figures}{space} {why}");
            if text_columns(&beside) + 2 <= layout.width {
                out.push_str(&format!("  {beside}\n"));
            } else {
                rows(out, layout, 2, &figures);
                rows(out, layout, 4, why);
            }
        }
    }

    fn verdict(&self, out: &mut String, layout: Layout) {
        let plan = self.plan;
        let mut line = |text: &Text| rows(out, layout, 0, text.get(layout.language));
        if plan.excess_bytes() == 0 {
            let left = exact(plan.limit_bytes.saturating_sub(plan.peak_bytes()));
            line(&say!("It fits: {left} bytes are left.", "可以容纳：还剩 {left} 字节。"));
            return;
        }
        let terms = self.breaking.iter().filter_map(|index| plan.terms.get(*index));
        let terms: Vec<_> = terms.map(|term| Text::verbatim(self.name(term, layout))).collect();
        let (terms, excess) = (Text::join(&terms, ", ", "、"), exact(plan.excess_bytes()));
        line(&say!(
            "It does not fit: {excess} bytes too much. What breaks the limit: {terms}.",
            "超出上限 {excess} 字节。超限的项：{terms}。"; terms
        ));
        let bounded = plan.terms.iter().any(|term| term.least_request_bytes.is_some());
        match plan.fitting_request_bytes() {
            Some(bytes) => line(&say!(
                "With socket.request.max.bytes={bytes} it fits.",
                "设 socket.request.max.bytes={bytes} 即可容纳。"
            )),
            None if bounded => line(&say!(
                "No socket.request.max.bytes that serves makes it fit: it takes fewer threads, a smaller fetch.max.bytes or \
                 message.max.bytes, or a higher limit.",
                "没有可用的 socket.request.max.bytes 能使其容纳：需要减少线程、降低 fetch.max.bytes 或 message.max.bytes，或提高上限。"
            )),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::ServerProperties;
    use crate::jvm_plan::{JvmInputs, jvm_plan};

    fn plan(text: &str) -> (JvmPlan, Vec<Problem>) {
        let (settings, problems) = ServerProperties::parse(text.as_bytes());
        let inputs = JvmInputs {
            properties: &settings,
            heap_bytes: 1 << 30,
            direct_bytes: None,
            peers: 2,
            max_cached_buffer_bytes: None,
        };
        (jvm_plan(&inputs), problems)
    }

    fn wide(language: Language) -> Layout {
        Layout { width: 140, colour: false, language }
    }

    #[test]
    fn the_text_names_the_terms_that_break_the_limit_and_what_fits() {
        let (broken, problems) = plan("num.network.threads=80\nnum.partitions=x\n");
        let shown = text(&broken, &problems, 2, true, wide(Language::English));
        assert!(
            shown.contains(
                "! network threads (PLAINTEXT)     80 ×   104,857,600 =    8,388,608,000 =   7.81 GiB"
            ),
            "{shown}"
        );
        assert!(
            shown.contains("It does not fit")
                && shown.contains("breaks the limit: network threads (PLAINTEXT).")
        );
        assert!(shown.contains("-Xmx, because") && shown.contains("line 2: "), "{shown}");
        let shown = text(&broken, &problems, 2, true, wide(Language::Chinese));
        assert!(
            shown.contains("超限的项：网络线程（PLAINTEXT）。") && shown.contains("第 2 行："),
            "{shown}"
        );
        let (fits, problems) = plan("");
        let shown = text(&fits, &problems, 0, false, wide(Language::English));
        assert!(
            shown.contains("It fits") && shown.contains("--peers") && shown.contains("Kafka's defaults"),
            "{shown}"
        );
    }

    #[test]
    fn it_fits_every_terminal_and_commands_none() {
        let hostile = "listeners=A\u{1b}[2J\u{202e}B://:1,一个很长的监听器名称用来占满一整行的宽度://:2\nnum.network.threads=80\n\
                       remote.log.storage.system.enable=true\nnum.io.threads=\u{1b}[31m\nprocess.roles=broker\n";
        let (broken, problems) = plan(hostile);
        for language in [Language::English, Language::Chinese] {
            for width in [40, 60, 80, 100, 140] {
                let shown = text(&broken, &problems, 0, true, Layout { width, colour: false, language });
                for row in shown.lines() {
                    assert!(text_columns(row) <= width, "{width}: {row}");
                }
                assert!(!shown.contains(['\u{1b}', '\u{202e}']), "{shown}");
            }
        }
    }

    /// A published re-check of these readers gave 5.77 GiB, which are GB.
    #[test]
    fn sums_are_exact_bytes_beside_one_binary_unit() {
        let (readers, _) = plan("remote.log.storage.system.enable=true\nremote.log.reader.threads=100\n");
        let shown = text(&readers, &[], 2, true, wide(Language::English));
        assert!(shown.contains("100 ×    57,671,680 =    5,767,168,000 =   5.37 GiB"), "{shown}");
    }

    #[test]
    fn json_says_the_same() {
        let (broken, problems) = plan("num.network.threads=80\n");
        let value = json(&broken, &problems, Language::English);
        assert_eq!(value["fits"], false);
        assert_eq!(value["terms"][0]["breaks_limit"], true);
        assert_eq!(value["terms"][0]["peak_bytes"], 8_388_608_000u64);
        assert_eq!(value["excess_bytes"].as_u64(), Some(broken.excess_bytes()));
    }
}
