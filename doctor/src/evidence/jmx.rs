//! JMX as text: Kafka's JmxTool (`original` columns and `properties`) and jmxterm's listings.

use super::Parser;
use super::lines::{Line, Problems, excerpt};
use super::metrics::{Metric, Metrics, classify, squash};

const MAX_COLUMNS: usize = 10_000;

/// Takes lines of JMX text.
#[derive(Debug, Default)]
pub(crate) struct JmxParser {
    found: Metrics,
    columns: Option<Vec<Option<(Metric, String)>>>,
    bean: String,
}

/// Whether a line belongs to JMX text.
pub(crate) fn is_jmx(text: &str) -> bool {
    let text = text.trim();
    text.starts_with("\"time\",\"")
        || text.starts_with("#mbean = ")
        || bean_and_value(text).is_some_and(|(bean, _)| is_bean(bean))
}

/// `domain:key=value,...:Attribute`
fn is_bean(text: &str) -> bool {
    let Some((domain, rest)) = text.split_once(':') else { return false };
    let legal = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    !domain.is_empty() && domain.chars().all(legal) && rest.contains("type=") && rest.contains(':')
}

/// Cuts `bean:Attribute=value`.
fn bean_and_value(text: &str) -> Option<(&str, &str)> {
    let (bean, value) = text.rsplit_once('=')?;
    bean.contains(':').then_some((bean.trim(), value.trim().trim_end_matches(';')))
}

/// What an attribute of a bean means.
fn meaning(bean_attribute: &str) -> Option<(Metric, String)> {
    let (bean, _) = bean_attribute.rsplit_once(':')?;
    // Listener and processor tell beans of one kind apart.
    let part = |key: &str| {
        bean.split([',', ':'])
            .find_map(|pair| pair.split_once('=').filter(|(known, _)| *known == key))
            .map(|(_, value)| value)
    };
    let name = part("name");
    classify(&squash(&without_parts(bean_attribute)), |key| if key == "name" { name } else { part(key) })
}

/// The bean without the keys that only tell beans apart.
fn without_parts(bean_attribute: &str) -> String {
    let Some((bean, attribute)) = bean_attribute.rsplit_once(':') else { return bean_attribute.to_owned() };
    let kept: Vec<_> = bean
        .split(',')
        .filter(|pair| {
            !["processor=", "networkProcessor=", "listener=", "topic="]
                .iter()
                .any(|key| pair.starts_with(key))
        })
        .collect();
    format!("{}:{attribute}", kept.join(","))
}

impl JmxParser {
    fn record(
        &mut self,
        meaning: Option<(Metric, String)>,
        value: &str,
        line: Line<'_>,
        problems: &mut Problems,
    ) {
        self.found.samples += 1;
        let Some((metric, part)) = meaning else { return };
        match value.trim().trim_matches('"').parse::<f64>() {
            Ok(value) => {
                self.found.record(metric, &part, value, line.number);
            }
            Err(_) => problems.add(line.number, format!("{:?} is no number", excerpt(value))),
        }
    }
}

impl Parser for JmxParser {
    type Output = Metrics;

    fn line(&mut self, line: Line<'_>, problems: &mut Problems) {
        let text = line.text.trim();
        if text.is_empty() {
            return;
        }
        if text.starts_with("\"time\",") {
            let columns = cells(text).into_iter().map(|name| meaning(&name)).collect();
            self.columns = Some(columns);
        } else if let Some(bean) = text.strip_prefix("#mbean = ") {
            self.bean = bean.trim_end_matches(':').to_owned();
        } else if text.starts_with('#') {
        } else if let Some((bean, value)) = bean_and_value(text).filter(|(bean, _)| is_bean(bean)) {
            self.record(meaning(bean), value, line, problems);
        } else if let (Some((attribute, value)), false) = (text.split_once('='), self.bean.is_empty()) {
            let meaning = meaning(&format!("{}:{}", self.bean, attribute.trim()));
            self.record(meaning, value.trim().trim_end_matches(';'), line, problems);
        } else if let Some(columns) = self.columns.take() {
            let cells = cells(text);
            if cells.len() == columns.len() && cells.first().is_some_and(|time| time.parse::<u64>().is_ok()) {
                for (meaning, value) in columns.iter().zip(&cells) {
                    if meaning.is_some() {
                        self.record(meaning.clone(), value, line, problems);
                    }
                }
            } else {
                problems.add(line.number, format!("{} cells under {} columns", cells.len(), columns.len()));
            }
            self.columns = Some(columns);
        } else if !text.starts_with("time=") {
            problems.add(line.number, format!("no attribute of a bean: {:?}", excerpt(text)));
        }
    }

    fn finish(self, _: &mut Problems) -> Metrics {
        self.found
    }
}

/// Cells with commas between them; quotes keep commas.
fn cells(text: &str) -> Vec<String> {
    let mut cells = Vec::new();
    let mut cell = String::new();
    let mut inside = false;
    for c in text.chars() {
        match c {
            '"' => inside = !inside,
            ',' if !inside => {
                if cells.len() >= MAX_COLUMNS {
                    return cells;
                }
                cells.push(std::mem::take(&mut cell));
            }
            _ => cell.push(c),
        }
    }
    cells.push(cell);
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::parse_text;

    fn read(text: &str) -> (Metrics, usize) {
        let (found, problems) = parse_text::<JmxParser>(text.as_bytes());
        (found, problems.len())
    }

    #[test]
    fn columns_of_jmxtool_are_a_series() {
        let (found, problems) = read(
            "\"time\",\"java.nio:type=BufferPool,name=direct:Count\",\"java.nio:type=BufferPool,name=direct:MemoryUsed\"\n\
             1700000000000,3,100\n1700000001000,4,300\nx\n1700000002000,2,200\n",
        );
        let used = found.get(Metric::BufferPoolUsed, "direct").unwrap();
        assert_eq!((used.first, used.last, used.max, used.samples), ((100.0, 2), (200.0, 5), (300.0, 3), 3));
        assert_eq!(found.get(Metric::BufferPoolCount, "direct").unwrap().last.0, 2.0);
        assert_eq!(problems, 1);
    }

    #[test]
    fn properties_and_listings_say_the_same() {
        let properties = "java.nio:type=BufferPool,name=direct:MemoryUsed=17134924451\n\
                          kafka.network:type=SocketServer,name=MemoryPoolAvailable:Value=9223372036854775807\n\
                          kafka.network:type=RequestChannel,name=ResponseQueueSize,processor=2:Value=7\n";
        let listing = "#mbean = java.nio:type=BufferPool,name=direct:\nMemoryUsed = 17134924451;\nName = direct;\n\n\
                       #mbean = kafka.network:type=SocketServer,name=MemoryPoolAvailable:\nValue = 9223372036854775807;\n\
                       #mbean = kafka.network:type=RequestChannel,name=ResponseQueueSize,processor=2:\nValue = 7;\n";
        for text in [properties, listing] {
            let (found, problems) = read(text);
            assert_eq!(problems, 0, "{text}");
            assert_eq!(found.get(Metric::BufferPoolUsed, "direct").unwrap().last.0, 17_134_924_451.0);
            assert!(found.get(Metric::MemoryPoolAvailable, "").unwrap().last.0 >= i64::MAX as f64);
            assert_eq!(found.get(Metric::ResponseQueueSize, "2").unwrap().last.0, 7.0);
        }
    }

    #[test]
    fn jmx_text_is_told_from_properties() {
        assert!(is_jmx("java.nio:type=BufferPool,name=direct:MemoryUsed=1"));
        assert!(!is_jmx("listener.security.protocol.map=A:PLAINTEXT"));
        assert!(!is_jmx("advertised.listeners=PLAINTEXT://h:9092"));
    }
}
