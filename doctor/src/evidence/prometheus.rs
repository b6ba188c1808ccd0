//! Prometheus and OpenMetrics text: one scrape, or several one after another.

use super::Parser;
use super::lines::{Line, Problems, excerpt};
use super::metrics::{Metrics, classify, squash};
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
}

/// Reads `name{label="value",...} value [timestamp]`.
pub(crate) fn sample(text: &str) -> Option<Sample<'_>> {
    let text = text.trim();
    let legal = |c: char| c.is_ascii_alphanumeric() || "_:.".contains(c);
    let end = text.find(|c: char| !legal(c))?;
    let (name, mut rest) = text.split_at(end);
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    let mut labels = Vec::new();
    if let Some(inside) = rest.trim_start().strip_prefix('{') {
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
                labels.push((key.trim(), value));
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
    match words.next() {
        Some(word) if !(word == "#" || word.parse::<f64>().is_ok()) => None,
        _ => Some(Sample { name, labels, value }),
    }
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
            // jmx_exporter without rules puts the bean's name into a label.
            for key in ["name", "attribute"] {
                if let Some(value) = label(key) {
                    if let Some(stem) = name.strip_suffix("value").filter(|_| key == "name") {
                        name.truncate(stem.len());
                    }
                    name.push_str(&squash(value));
                }
            }
        }
        if let Some((metric, part)) = classify(&name, label)
            && !self.found.record(metric, &part, sample.value, line.number)
            && !std::mem::replace(&mut self.full, true)
        {
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
        assert_eq!(sample("up 1 # {trace=\"1\"} 2").unwrap().value, 1.0);
        assert!(sample("x NaN").unwrap().value.is_nan());
        for text in ["", "x", "1 2", "x{ 1", "x{a=\"} 1", "x one", "ERROR it 5", "x 1 INFO", "[a] 5"] {
            assert!(sample(text).is_none(), "{text}");
        }
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
