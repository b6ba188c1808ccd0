//! JMX as text: the four formats of Kafka's JmxTool (a table, or lines with `=`, comma or tab) and jmxterm's listings.

use super::Parser;
use super::lines::{Line, Problems, excerpt};
use super::metrics::{Metric, Metrics, Point, classify, squash};
use crate::language::text;

const MAX_COLUMNS: usize = 10_000;

/// A column of JmxTool's table.
#[derive(Debug)]
struct Column {
    meaning: Option<(Metric, String)>,
    /// Cells that its value takes: a bean's own name has commas, and nothing quotes them.
    cells: usize,
}

impl Column {
    fn of(name: &str) -> Self {
        let own_name = name.strip_suffix(":ObjectName");
        Self { meaning: meaning(name), cells: own_name.map_or(1, |bean| bean.matches(',').count() + 1) }
    }
}

/// Takes lines of JMX text.
#[derive(Debug, Default)]
pub(crate) struct JmxParser {
    found: Metrics,
    columns: Option<Vec<Column>>,
    bean: String,
}

/// Whether a line belongs to JMX text.
pub(crate) fn is_jmx(text: &str) -> bool {
    let text = text.trim();
    text.starts_with("\"time\",\"") || text.starts_with("#mbean = ") || attribute(text).is_some()
}

/// Cuts `domain:key=value,...:Attribute` from its value, which follows `=`, a comma or a tab.
fn attribute(text: &str) -> Option<(&str, &str)> {
    let (domain, rest) = text.split_once(':')?;
    let legal = |c: char| c.is_ascii_alphanumeric() || "._- ".contains(c);
    let (keys, rest) = rest.split_once(':')?;
    let end = rest.find(|c: char| !legal(c))?;
    if domain.is_empty() || !domain.chars().all(legal) || !format!(",{keys}").contains(",type=") || end == 0 {
        return None;
    }
    let value = rest.get(end..)?.strip_prefix(['=', ',', '\t'])?;
    let name = text.get(..domain.len() + keys.len() + 2 + end)?;
    Some((name.trim_end(), value.trim().trim_end_matches(';').trim_matches('"')))
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
        at_ms: Option<i64>,
        line: Line<'_>,
        problems: &mut Problems,
    ) {
        self.found.samples += 1;
        let Some((metric, part)) = meaning else { return };
        match value.trim().trim_matches('"').parse::<f64>() {
            Ok(value) => {
                let point = Point { value, line: line.number, at_ms, target: String::new() };
                self.found.observe(metric, &part, point);
            }
            Err(_) => problems
                .add(line.number, text!("{seen:?} is no number", "{seen:?} 不是数字", seen = excerpt(value))),
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
            self.columns = Some(cells(text).iter().map(|name| Column::of(name)).collect());
        } else if let Some(bean) = text.strip_prefix("#mbean = ") {
            self.bean = bean.trim_end_matches(':').to_owned();
        } else if text.starts_with('#') {
        } else if let Some((attribute, value)) = attribute(text) {
            self.record(meaning(attribute), value, None, line, problems);
        } else if let (Some((attribute, value)), false) = (text.split_once('='), self.bean.is_empty()) {
            let meaning = meaning(&format!("{}:{}", self.bean, attribute.trim()));
            self.record(meaning, value.trim().trim_end_matches(';'), None, line, problems);
        } else if let Some(columns) = self.columns.take() {
            let cells = cells(text);
            let wanted: usize = columns.iter().map(|column| column.cells).sum();
            let is_plain = cells.len() == columns.len();
            let time = cells.first().and_then(|time| time.parse::<u64>().ok());
            if let Some(time) = time.filter(|_| is_plain || cells.len() == wanted) {
                let at_ms = i64::try_from(time).ok();
                let mut at = 0;
                for column in &columns {
                    if column.meaning.is_some() {
                        let value = cells.get(at).map_or("", String::as_str);
                        self.record(column.meaning.clone(), value, at_ms, line, problems);
                    }
                    at += if is_plain { 1 } else { column.cells };
                }
            } else {
                problems.add(
                    line.number,
                    text!(
                        "{cells} cells under {columns} columns",
                        "{columns} 列之下有 {cells} 个值",
                        cells = cells.len(),
                        columns = columns.len()
                    ),
                );
            }
            self.columns = Some(columns);
        } else if !(text.starts_with("time") || text.starts_with("Trying to connect to JMX")) {
            problems.add(
                line.number,
                text!(
                    "no attribute of a bean: {seen:?}",
                    "不是 MBean 的属性：{seen:?}",
                    seen = excerpt(text)
                ),
            );
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

    /// The four formats that JmxTool writes, with the order of keys that it has.
    #[test]
    fn every_format_of_jmxtool_is_read() {
        let table = "\"time\",\"java.nio:name=direct,type=BufferPool:Count\",\"java.nio:name=direct,type=BufferPool:Name\",\
                     \"java.nio:name=direct,type=BufferPool:ObjectName\",\"java.nio:name=direct,type=BufferPool:MemoryUsed\"\n\
                     1796043884893,12,direct,java.nio:type=BufferPool,name=direct,42833\n";
        let rows = |separator: &str, quote: &str| {
            let row = |name: &str, value: &str| {
                format!("java.nio:name=direct,type=BufferPool:{name}{separator}{quote}{value}{quote}\n")
            };
            format!(
                "Trying to connect to JMX url: service:jmx:rmi:///jndi/rmi://127.0.0.1:1/jmxrmi\ntime{separator}1\n"
            ) + &row("Count", "12")
                + &row("ObjectName", "java.nio:type=BufferPool,name=direct")
                + &row("MemoryUsed", "42833")
        };
        for text in [table.to_owned(), rows("=", ""), rows(",", "\""), rows("\t", "")] {
            let (found, problems) = read(&text);
            assert_eq!(problems, 0, "{text}");
            assert_eq!(found.get(Metric::BufferPoolUsed, "direct").unwrap().last.0, 42_833.0, "{text}");
            assert_eq!(found.get(Metric::BufferPoolCount, "direct").unwrap().last.0, 12.0, "{text}");
        }
    }

    #[test]
    fn jmx_text_is_told_from_properties() {
        assert!(is_jmx("java.nio:type=BufferPool,name=direct:MemoryUsed=1"));
        assert!(!is_jmx("listener.security.protocol.map=A:PLAINTEXT"));
        assert!(!is_jmx("advertised.listeners=PLAINTEXT://h:9092"));
    }
}
