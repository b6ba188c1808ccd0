//! Prometheus and OpenMetrics text: one scrape, or several one after another.

use super::Parser;
use super::lines::{Line, Problems, excerpt};
use super::metrics::{Metrics, Point, classify, squash};
use crate::language::text;

/// Most labels that are looked at in one sample.
const MAX_LABELS: usize = 64;

/// Takes lines of Prometheus text.
#[derive(Debug, Default)]
pub(crate) struct PrometheusParser {
    found: Metrics,
    full: bool,
}

/// One sample: name, labels and value.
#[derive(Debug, PartialEq)]
pub(crate) struct Sample<'a> {
    pub(crate) name: &'a str,
    pub(crate) labels: Vec<(&'a str, String)>,
    pub(crate) value: f64,
    /// Milliseconds since 1970.
    pub(crate) at_ms: Option<i64>,
}

/// Labels that say which figure it is; all others say whose.
const TELLING_LABELS: [&str; 8] =
    ["pool", "id", "name", "attribute", "type", "area", "jvm_buffer_pool_name", "jvm.buffer.pool.name"];

impl Sample<'_> {
    /// The labels that tell figures apart, or those that tell processes apart, as Prometheus writes them.
    fn labels(&self, telling: bool) -> String {
        let mut text = String::new();
        for (key, value) in self.labels.iter().filter(|(key, _)| TELLING_LABELS.contains(key) == telling) {
            if !text.is_empty() {
                text.push(',');
            }
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let quote = if key.contains('.') { "\"" } else { "" };
            text.push_str(&format!("{quote}{key}{quote}=\"{value}\""));
        }
        text
    }

    /// How Prometheus selects this figure of every process.
    fn selector(&self) -> String {
        let labels = self.labels(true);
        match (self.name.contains('.'), labels.is_empty()) {
            (false, true) => self.name.to_owned(),
            (false, false) => format!("{}{{{labels}}}", self.name),
            // A name with dots stands inside of the braces, in quotes.
            (true, true) => format!("{{\"{}\"}}", self.name),
            (true, false) => format!("{{\"{}\",{labels}}}", self.name),
        }
    }
}

/// A timestamp: Prometheus writes milliseconds, OpenMetrics seconds.
fn time_ms(stamp: f64) -> Option<i64> {
    const SECONDS_BELOW: f64 = 1e11;
    let ms = if stamp < SECONDS_BELOW { stamp * 1000.0 } else { stamp };
    (ms > 0.0 && ms < 1e15).then_some(ms as i64)
}

/// Reads `name{label="value",...} value [timestamp]`, or `{"name","label"="value",...} value` for names with dots.
pub(crate) fn sample(text: &str) -> Option<Sample<'_>> {
    let text = text.trim();
    let legal = |c: char| c.is_ascii_alphanumeric() || "_:.".contains(c);
    let end = text.find(|c: char| !legal(c))?;
    let (mut name, mut rest) = text.split_at(end);
    let dotted = rest.strip_prefix("{\"").filter(|_| name.is_empty()).and_then(|rest| rest.split_once('"'));
    let mut inside = None;
    if let Some((inner, after)) = dotted {
        let after = after.trim_start();
        if !inner.chars().all(legal) || !after.starts_with([',', '}']) {
            return None;
        }
        name = inner;
        inside = Some(after);
    }
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    let mut labels = Vec::new();
    if let Some(inside) = inside.or_else(|| rest.trim_start().strip_prefix('{')) {
        rest = inside;
        loop {
            rest = rest.trim_start_matches([' ', ',']);
            if let Some(after) = rest.strip_prefix('}') {
                rest = after;
                break;
            }
            let (key, after) = rest.split_once('=')?;
            let after = after.trim_start().strip_prefix('"')?;
            let (value, after) = quoted(after)?;
            if labels.len() < MAX_LABELS {
                labels.push((key.trim().trim_matches('"'), value));
            }
            rest = after;
        }
    }
    let mut words = rest.split_whitespace();
    let value = words.next()?;
    let value = match value {
        "+Inf" => f64::INFINITY,
        "-Inf" => f64::NEG_INFINITY,
        _ if value.starts_with(|c: char| c.is_ascii_digit() || "+-.N".contains(c)) => value.parse().ok()?,
        _ => return None,
    };
    // What follows may be a timestamp or an exemplar, nothing else.
    let at_ms = match words.next() {
        None | Some("#") => None,
        Some(word) => time_ms(word.parse().ok()?),
    };
    Some(Sample { name, labels, value, at_ms })
}

/// The text up to the closing quote, unescaped, and what follows.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((index, c)) = characters.next() {
        match c {
            '"' => return Some((value, text.get(index + 1..)?)),
            '\\' => match characters.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            _ => value.push(c),
        }
    }
    None
}

impl Parser for PrometheusParser {
    type Output = Metrics;

    fn line(&mut self, line: Line<'_>, problems: &mut Problems) {
        let text = line.text.trim();
        if text.is_empty() || text.starts_with('#') {
            return;
        }
        let Some(sample) = sample(text) else {
            problems.add(
                line.number,
                text!("no sample of a metric: {seen:?}", "不是指标样本：{seen:?}", seen = excerpt(text)),
            );
            return;
        };
        self.found.samples += 1;
        let label = |key: &str| {
            sample.labels.iter().find(|(known, _)| *known == key).map(|(_, value)| value.as_str())
        };
        if matches!(sample.name, "jvm_info" | "jvm_runtime_info" | "jvm_info_total")
            && self.found.java_version.is_none()
        {
            self.found.java_version = label("version").map(|version| (excerpt(version), line.number));
        }
        let mut name = squash(sample.name);
        if !name.starts_with("javanio") && !name.starts_with("jvm") {
            // jmx_exporter without rules puts the bean's name into a label, behind the attribute's.
            if let Some(value) = label("name") {
                let attribute = sample.name.rsplit_once('_').map_or(String::new(), |(_, last)| squash(last));
                if attribute == "value" || attribute.ends_with("rate") || attribute == "count" {
                    name.truncate(name.len() - attribute.len());
                    name.push_str(&squash(value));
                    name.push_str(&attribute);
                } else {
                    name.push_str(&squash(value));
                }
            }
            if let Some(value) = label("attribute") {
                name.push_str(&squash(value));
            }
        }
        let Some((metric, part)) = classify(&name, label) else { return };
        self.found.spelt(metric, &part, || sample.selector());
        let target = sample.labels(false);
        let point = Point { value: sample.value, line: line.number, at_ms: sample.at_ms, target };
        if !self.found.observe(metric, &part, point) && !std::mem::replace(&mut self.full, true) {
            problems
                .add(line.number, text!("too many series; the rest is left out", "时间序列过多；其余略去"));
        }
    }

    fn finish(self, _: &mut Problems) -> Metrics {
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::metrics::Metric;
    use crate::evidence::parse_text;

    #[test]
    fn samples_with_labels_escapes_timestamps_and_exemplars_are_read() {
        let read = sample(r#"a_b{x="1\"2\\",y="z, }",} 1.5E3 1700000000000"#).unwrap();
        assert_eq!(read.labels, [("x", "1\"2\\".to_owned()), ("y", "z, }".to_owned())]);
        assert_eq!(read.value, 1500.0);
        assert_eq!(read.at_ms, Some(1_700_000_000_000));
        assert_eq!(sample("x 1 1700000000.123").unwrap().at_ms, Some(1_700_000_000_123));
        for stamp in ["-5", "0", "NaN", "1e308", "+Inf"] {
            assert_eq!(sample(&format!("x 1 {stamp}")).unwrap().at_ms, None, "{stamp}");
        }
        assert_eq!(sample("up 1 # {trace=\"1\"} 2").unwrap().value, 1.0);
        let dotted =
            sample(r#"{"jvm.buffer.memory.used","jvm.buffer.pool.name"="direct"} 5 1700000000"#).unwrap();
        assert_eq!((dotted.name, dotted.value), ("jvm.buffer.memory.used", 5.0));
        assert_eq!(dotted.labels, [("jvm.buffer.pool.name", "direct".to_owned())]);
        assert_eq!(dotted.selector(), r#"{"jvm.buffer.memory.used","jvm.buffer.pool.name"="direct"}"#);
        assert_eq!(sample(r#"{"a.b"} 7"#).map(|read| (read.name, read.value)), Some(("a.b", 7.0)));
        for text in [r#"{"a.b" 7"#, r#"{"a b"} 7"#, r#"{""} 7"#, r#"{"a": 1}"#, r#"{"a","b"} 7"#] {
            assert!(sample(text).is_none(), "{text}");
        }
        assert!(sample("x NaN").unwrap().value.is_nan());
        for text in ["", "x", "1 2", "x{ 1", "x{a=\"} 1", "x one", "ERROR it 5", "x 1 INFO", "[a] 5"] {
            assert!(sample(text).is_none(), "{text}");
        }
    }

    #[test]
    fn values_over_time_are_told_apart_by_process_and_spelt_as_prometheus_selects_them() {
        let text = "jvm_buffer_pool_used_bytes{pool=\"direct\",instance=\"a:1\"} 5 1700000000000\n\
                    jvm_buffer_pool_used_bytes{pool=\"direct\",instance=\"b\\\"\"} 6\n\
                    java_nio_direct_count 3\nprocess_start_time_seconds 1.7E9\njvm_memory_max_bytes{area=\"heap\"} 9\n";
        let (found, _) = parse_text::<PrometheusParser>(text.as_bytes());
        let used = &found.points[&Metric::BufferPoolUsed];
        assert_eq!((used[0].target.as_str(), used[0].at_ms), ("instance=\"a:1\"", Some(1_700_000_000_000)));
        assert_eq!((used[1].target.as_str(), used[1].at_ms), ("instance=\"b\\\"\"", None));
        assert_eq!(found.selectors[&Metric::BufferPoolUsed], "jvm_buffer_pool_used_bytes{pool=\"direct\"}");
        assert_eq!(found.selectors[&Metric::BufferPoolCount], "java_nio_direct_count");
        assert_eq!(found.selectors[&Metric::HeapMax], "jvm_memory_max_bytes{area=\"heap\"}");
        assert_eq!(found.points[&Metric::ProcessStart][0].value, 1.7e9);
    }

    #[test]
    fn figures_of_several_exporters_are_found() {
        let text = "# HELP jvm_info VM\n# TYPE jvm_info gauge\njvm_info{runtime=\"OpenJDK\",version=\"17.0.7+7\"} 1\n\
                    jvm_buffer_pool_used_bytes{pool=\"direct\"} 1.7134924451E10\n\
                    kafka_network_SocketServer_Value{name=\"MemoryPoolAvailable\",} 9.223372036854776E18\n\
                    kafka_network_socketserver_memorypoolused 0\nbroken\nfoo 1\n\
                    process_resident_memory_bytes 3.0E10\n";
        let (found, problems) = parse_text::<PrometheusParser>(text.as_bytes());
        assert_eq!(found.get(Metric::BufferPoolUsed, "direct").unwrap().last, (17_134_924_451.0, 4));
        assert_eq!(found.get(Metric::MemoryPoolAvailable, "").unwrap().last.1, 5);
        assert_eq!(found.get(Metric::MemoryPoolUsed, "").unwrap().last, (0.0, 6));
        assert_eq!(found.get(Metric::ResidentMemory, "").unwrap().last, (3.0e10, 9));
        assert_eq!(found.java_version, Some(("17.0.7+7".to_owned(), 3)));
        assert_eq!(found.samples, 6);
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].line, 7);
    }
}
