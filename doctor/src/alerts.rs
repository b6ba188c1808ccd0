//! Recommended Prometheus alert rules: the direct pool at 70, 80 and 90 % of its limit, its growth, and silence.
//!
//! Metrics are spelt as the evidence spells them, else as the JMX exporter does. Nothing of the evidence but names and
//! numbers gets into the file, and names only if PromQL takes them.

use std::fmt::Write as _;

use crate::evidence::Metric;
use crate::findings::{Facts, Language, LimitReason, Text, exact, human, text};

/// The JMX exporter's own name of the pool's bytes.
const USED: &str = "jvm_buffer_pool_used_bytes{pool=\"direct\"}";
/// The JMX exporter's own name of the heap's limit.
const HEAP_MAX: &str = "jvm_memory_max_bytes{area=\"heap\"}";
/// First JDK whose temporary buffers are in no pool.
const UNCOUNTED_FROM_JDK: u32 = 24;

/// Where the limit in the rules comes from.
enum Limit {
    /// A number of bytes, and the words for its source.
    Bytes(u64, Text),
    /// A metric, because nobody named a number: without a flag the limit is the heap's.
    Metric(String),
}

/// The rules of a file. `limit_bytes` is used where the evidence does not say the limit.
pub fn rules(facts: &Facts<'_>, limit_bytes: Option<u64>, language: Language) -> String {
    let (used, is_default) = selector(facts, Metric::BufferPoolUsed, USED);
    let limit = limit(facts, limit_bytes);
    let mut out = String::new();
    comments(&mut out, facts, &limit, is_default, language);
    // What is left of a series' labels on both sides of a division must be the same.
    let share = match &limit {
        Limit::Bytes(bytes, _) => format!("{used} / {bytes}"),
        Limit::Metric(heap) => format!("{used} / on (job, instance) group_left () {heap}"),
    };
    let full = match &limit {
        Limit::Bytes(bytes, _) => format!("predict_linear({used}[6h], 86400) > {bytes}"),
        Limit::Metric(heap) => {
            format!("predict_linear({used}[6h], 86400) > on (job, instance) group_left () {heap}")
        }
    };
    out.push_str("groups:\n  - name: weir-kafka-direct-memory\n    rules:\n");
    for (percent, minutes, severity) in [(70, 30, "info"), (80, 10, "warning"), (90, 2, "critical")] {
        let summary = text!(
            "Direct memory of {{{{ $labels.instance }}}} is above {percent} % of its limit",
            "{{{{ $labels.instance }}}} 的直接内存超过其上限的 {percent} %"
        );
        let description = text!(
            "{{{{ $value | humanizePercentage }}}} are taken. What threads keep is never given back: take a heap dump before a \
             restart (jcmd PID GC.heap_dump FILE) and read it with weir doctor FILE.",
            "已占用 {{{{ $value | humanizePercentage }}}}。线程保留的缓冲区从不归还：重启之前先做堆转储（jcmd PID GC.heap_dump FILE），\
             再用 weir doctor FILE 分析。"
        );
        rule(
            &mut out,
            language,
            &Rule {
                name: &format!("KafkaDirectMemoryAbove{percent}Percent"),
                expression: &format!("{share} > 0.{}", percent / 10),
                minutes,
                severity,
                summary,
                description,
            },
        );
    }
    rule(
        &mut out,
        language,
        &Rule {
            name: "KafkaDirectMemoryGrows",
            // Only where a good part is taken already: a pool that fills after a start grows as well.
            expression: &format!("{full}\nand {share} > 0.5\nand deriv({used}[1h]) > 0"),
            minutes: 60,
            severity: "warning",
            summary: text!(
                "Direct memory of {{{{ $labels.instance }}}} is on its way to its limit within a day",
                "{{{{ $labels.instance }}}} 的直接内存按此趋势一天内将达到上限"
            ),
            description: text!(
                "At the pace of the last 6 hours it comes to {{{{ $value | humanize1024 }}}}B in 24 hours.",
                "按最近 6 小时的速度，24 小时后将达到 {{{{ $value | humanize1024 }}}}B。"
            ),
        },
    );
    rule(
        &mut out,
        language,
        &Rule {
            name: "KafkaDirectMemoryUnknown",
            expression: &format!("absent({used})"),
            minutes: 15,
            severity: "warning",
            summary: text!(
                "No broker reports its direct memory: the rules above see nothing",
                "没有任何 Broker 上报直接内存：以上规则看不到数据"
            ),
            description: text!(
                "Either no broker is scraped, or its exporter spells the metric in another way.",
                "要么没有抓取任何 Broker，要么其导出器使用了别的指标名。"
            ),
        },
    );
    out
}

fn limit(facts: &Facts<'_>, given: Option<u64>) -> Limit {
    if let Some(limit) = &facts.limit {
        let from = match limit.value.1 {
            LimitReason::Flag => text!("set by -XX:MaxDirectMemorySize", "由 -XX:MaxDirectMemorySize 设定"),
            LimitReason::Heap => text!(
                "that of the heap, since -XX:MaxDirectMemorySize is not set",
                "未设置 -XX:MaxDirectMemorySize，因此等于堆的上限"
            ),
            LimitReason::Message => text!("named by a failure's message or a dump", "来自报错信息或堆转储"),
        };
        return Limit::Bytes(limit.value.0.max(1), from);
    }
    match given {
        Some(bytes) => Limit::Bytes(bytes.max(1), text!("given with --limit", "由 --limit 指定")),
        // Some exporters have a series for each part of the heap, -1 for those without a limit of their own.
        None => Limit::Metric(format!(
            "sum by (job, instance) ({} > 0)",
            selector(facts, Metric::HeapMax, HEAP_MAX).0
        )),
    }
}

/// The metric as the last exporter spells it, if PromQL takes that, else `otherwise`; and whether it is the latter.
fn selector(facts: &Facts<'_>, metric: Metric, otherwise: &str) -> (String, bool) {
    let spelt = facts.evidence.metrics.iter().rev().find_map(|found| found.value.selectors.get(&metric));
    match spelt.filter(|spelt| is_promql(spelt)) {
        Some(spelt) => (spelt.clone(), false),
        None => (otherwise.to_owned(), true),
    }
}

/// Whether a selector is a name of the classic character set, with labels that need no escapes, in printable characters.
fn is_promql(selector: &str) -> bool {
    let (name, labels) = selector.split_once('{').unwrap_or((selector, ""));
    let is_name = |text: &str| {
        text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && !text.starts_with(|c: char| c.is_ascii_digit())
    };
    let metric_name = name.replace(':', "_");
    let labels = labels.strip_suffix('}').unwrap_or(labels);
    let is_label = |pair: &str| {
        let Some((key, value)) = pair.split_once('=') else { return false };
        let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-. :/".contains(c);
        !key.is_empty() && is_name(key) && value.is_some_and(|value| value.chars().all(plain))
    };
    !name.is_empty()
        && name.len() <= 200
        && is_name(&metric_name)
        && (labels.is_empty() || labels.split(',').all(is_label))
}

fn comments(out: &mut String, facts: &Facts<'_>, limit: &Limit, is_default: bool, language: Language) {
    let mut say = |text: Text| {
        for line in text.get(language).lines() {
            let _ = writeln!(out, "# {line}");
        }
    };
    say(text!(
        "Direct memory of a JVM Kafka broker, written by weir doctor --alerts. Check with: promtool check rules FILE",
        "JVM Kafka Broker 的直接内存告警，由 weir doctor --alerts 生成。检查方法：promtool check rules FILE"
    ));
    match limit {
        Limit::Bytes(bytes, from) => {
            let (number, size) = (exact(*bytes), human(*bytes));
            let (en, zh) = (&from.en, &from.zh);
            say(text!(
                "The limit is {number} bytes = {size}, {en}. Change it here when it changes there; brokers with other limits \
                 need rules of their own.",
                "上限为 {number} 字节 = {size}，{zh}。若该设置变更，请同步修改；上限不同的 Broker 需要各自的规则。"
            ));
        }
        Limit::Metric(_) => say(text!(
            "The limit is not known: without -XX:MaxDirectMemorySize it is that of the heap, and that is what the rules use.\n\
             With the flag, give evidence that names it (VM.flags, VM.command_line) or --limit SIZE and write the file anew.",
            "上限未知：未设置 -XX:MaxDirectMemorySize 时它等于堆的上限，规则即以此为准。\n\
             若设置了该参数，请提供写明它的证据（VM.flags、VM.command_line）或 --limit SIZE，并重新生成本文件。"
        )),
    }
    if is_default {
        say(text!(
            "The metrics have the names of the JMX exporter (and of client_java); the evidence has no other spelling.",
            "指标名采用 JMX exporter（及 client_java）的写法；证据中没有别的写法。"
        ));
    }
    if facts.java.as_ref().is_none_or(|java| java.value >= UNCOUNTED_FROM_JDK) {
        say(text!(
            "On JDK {UNCOUNTED_FROM_JDK} and later the temporary buffers of I/O are in no pool: watch the memory of the \
             process beside these rules.",
            "在 JDK {UNCOUNTED_FROM_JDK} 及以后，I/O 临时缓冲区不在任何池中：除这些规则外还要监控进程内存。"
        ));
    }
    say(text!(
        "Prometheus reads no logs: for \"Cannot reserve N bytes of direct buffer memory\" set an alert where the logs are kept.",
        "Prometheus 不读日志：请在日志系统中对 “Cannot reserve N bytes of direct buffer memory” 设置告警。"
    ));
}

struct Rule<'r> {
    name: &'r str,
    expression: &'r str,
    minutes: u32,
    severity: &'r str,
    summary: Text,
    description: Text,
}

fn rule(out: &mut String, language: Language, rule: &Rule<'_>) {
    let _ = writeln!(out, "      - alert: {}", rule.name);
    // A block, so that nothing in it needs quotes.
    let _ = writeln!(out, "        expr: |-");
    for line in rule.expression.lines() {
        let _ = writeln!(out, "          {line}");
    }
    let _ = writeln!(out, "        for: {}m", rule.minutes);
    let _ = writeln!(out, "        labels:\n          severity: {}", rule.severity);
    let _ = writeln!(out, "        annotations:");
    for (key, text) in [("summary", &rule.summary), ("description", &rule.description)] {
        let _ = writeln!(out, "          {key}: '{}'", text.get(language).replace('\'', "''"));
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::evidence::Evidence;

    fn of(texts: &[&str], limit: Option<u64>) -> String {
        let mut evidence = Evidence::default();
        for text in texts {
            evidence.read(Path::new("x"), text.as_bytes());
        }
        let facts = Facts::of(&evidence, &[]);
        let text = rules(&facts, limit, Language::English);
        let chinese = rules(&facts, limit, Language::Chinese);
        for text in [&text, &chinese] {
            assert_eq!(text.matches("- alert: ").count(), 5, "{text}");
            assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text}");
        }
        assert_eq!(text.matches("expr:").count(), chinese.matches("expr:").count());
        text
    }

    #[test]
    fn the_spelling_is_that_of_the_evidence() {
        let text = of(
            &[
                "java_nio_BufferPool_MemoryUsed{name=\"direct\",instance=\"b:1\"} 5\n",
                "-XX:MaxDirectMemorySize=2147483648\n",
            ],
            None,
        );
        assert!(
            text.contains("java_nio_BufferPool_MemoryUsed{name=\"direct\"} / 2147483648 > 0.7"),
            "{text}"
        );
        assert!(text.contains("2,147,483,648 bytes = 2.00 GiB, set by -XX:MaxDirectMemorySize"), "{text}");
        assert!(!text.contains("b:1") && !text.contains("names of the JMX exporter"), "{text}");
    }

    #[test]
    fn without_evidence_the_names_are_the_exporters_and_the_limit_is_the_heap() {
        let text = of(&[], None);
        assert!(
            text.contains(&format!(
                "{USED} / on (job, instance) group_left () sum by (job, instance) ({HEAP_MAX} > 0) > 0.9"
            )),
            "{text}"
        );
        assert!(
            text.contains("The limit is not known") && text.contains("names of the JMX exporter"),
            "{text}"
        );
        let text = of(&[], Some(1 << 30));
        assert!(text.contains("/ 1073741824 > 0.8") && text.contains("given with --limit"), "{text}");
    }

    #[test]
    fn names_that_promql_does_not_take_stay_out() {
        for text in [
            "jvm.buffer.memory.used{jvm.buffer.pool.name=\"direct\"} 5\n",
            "jvm_buffer_memory_used_bytes{id=\"direct\",name=\"a'b\\\"} 1 or vector(1\"} 5\n",
        ] {
            let text = of(&[text], None);
            assert!(text.contains(USED) && !text.contains("vector"), "{text}");
        }
        for (selector, is) in [
            ("a:b_1", true),
            ("a{b=\"c\",d=\"e\"}", true),
            ("1a", false),
            ("", false),
            ("a{b}", false),
            ("a{b=\"c\\\"\"}", false),
        ] {
            assert_eq!(is_promql(selector), is, "{selector}");
        }
    }
}
