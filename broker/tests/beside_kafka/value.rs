//! Any answer as a tree of names and texts, made from its `Debug` form, and the differences of two trees.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::IoSlice;

use weir_protocol::records::{BatchHeader, InflateLimits, RecordCursor, Scratch, TimestampType};

/// A value of an answer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Value {
    /// A number, a name, or a string with its quotes; `null` for what is absent.
    Text(String),
    /// A list.
    List(Vec<Value>),
    /// A struct's fields.
    Struct(Vec<(String, Value)>),
}

/// Ids, and the names that they count as.
#[derive(Debug, Clone, Default)]
pub(crate) struct Aliases(HashMap<String, String>);

impl Aliases {
    pub(crate) fn add(&mut self, id: String, alias: String) {
        self.0.insert(id, alias);
    }

    pub(crate) fn knows(&self, id: &str) -> bool {
        self.0.contains_key(id)
    }
}

/// What is looked for within strings; shorter ids are whole values.
const SHORTEST_ID_BYTES: usize = 20;

/// Two answers that differ at a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Difference {
    /// Field names from the answer's root, `[]` for each list.
    pub(crate) path: String,
    /// The same with the places in the lists.
    pub(crate) place: String,
    /// What Kafka has there.
    pub(crate) kafka: String,
    /// What weir has there.
    pub(crate) weir: String,
}

impl Value {
    /// The tree of something that derives `Debug`.
    pub(crate) fn of(value: &impl std::fmt::Debug) -> Value {
        let text = format!("{value:?}");
        let mut parser = Parser { text: text.as_bytes(), at: 0 };
        let value = parser.value();
        assert_eq!(parser.at, text.len(), "{text}");
        value
    }

    /// Does something to every value at a path, such as `topics[].partitions`.
    pub(crate) fn at(&mut self, path: &str, change: &mut dyn FnMut(&mut Value)) {
        if path.is_empty() {
            return change(self);
        }
        match self {
            Value::List(values) => {
                if let Some(rest) = path.strip_prefix("[]") {
                    let rest = rest.strip_prefix('.').unwrap_or(rest);
                    values.iter_mut().for_each(|value| value.at(rest, change));
                }
            }
            Value::Struct(fields) => {
                let end = path.find(['.', '[']).unwrap_or(path.len());
                let (name, rest) = path.split_at(end);
                let rest = rest.strip_prefix('.').unwrap_or(rest);
                for (_, value) in fields.iter_mut().filter(|(field, _)| field == name || name == "*") {
                    value.at(rest, change);
                }
            }
            Value::Text(_) => {}
        }
    }

    /// Replaces what has a name: whole values, and parts of strings.
    pub(crate) fn replace(&mut self, aliases: &Aliases) {
        match self {
            Value::Text(text) => {
                if let Some(alias) = aliases.0.get(text.trim_matches('"')) {
                    *text = alias.clone();
                } else if text.starts_with('"') && text.len() > SHORTEST_ID_BYTES {
                    *text = without_times(text);
                    for (id, alias) in aliases.0.iter().filter(|(id, _)| id.len() >= SHORTEST_ID_BYTES) {
                        if text.contains(id.as_str()) {
                            *text = text.replace(id.as_str(), alias);
                        }
                    }
                }
            }
            Value::List(values) => values.iter_mut().for_each(|value| value.replace(aliases)),
            Value::Struct(fields) => fields.iter_mut().for_each(|(_, value)| value.replace(aliases)),
        }
    }

    /// Leaves only whether there is something: a number that is not 0 or -1, a text that is not empty.
    pub(crate) fn mask(&mut self) {
        if let Value::Text(text) = self
            && !["null", "-1", "0", "\"\""].contains(&text.as_str())
        {
            *text = "<some>".to_string();
        }
    }

    /// A list of bytes, if it is one.
    pub(crate) fn bytes(&self) -> Option<Vec<u8>> {
        let Value::List(values) = self else { return None };
        let byte = |value: &Value| match value {
            Value::Text(text) => text.parse().ok(),
            _ => None,
        };
        values.iter().map(byte).collect()
    }

    fn field(&self, name: &str) -> Option<&Value> {
        let Value::Struct(fields) = self else { return None };
        fields.iter().find(|(field, _)| field == name).map(|(_, value)| value)
    }

    /// By what the elements of a list are told apart; `None` if only by their order.
    fn keys(values: &[Value]) -> Option<Vec<String>> {
        let mut keys = BTreeSet::new();
        let key = |value: &Value| match (value.field("name")?, value.field("value")) {
            // Configs; other lists have an order that means something.
            (Value::Text(name), Some(_)) => Some(name.trim_matches('"').to_string()),
            _ => None,
        };
        let all: Vec<String> = values.iter().map(key).collect::<Option<_>>()?;
        all.iter().all(|key| keys.insert(key.clone())).then_some(all)
    }

    fn show(&self) -> String {
        match self {
            Value::Text(text) => text.clone(),
            Value::List(values) => {
                format!("[{}]", values.iter().map(Value::show).collect::<Vec<_>>().join(", "))
            }
            Value::Struct(fields) => {
                let fields = fields.iter().map(|(name, value)| format!("{name}: {}", value.show()));
                format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
            }
        }
    }
}

/// A message in which every number that is long enough for a time is one.
fn without_times(text: &str) -> String {
    let mut out = String::new();
    let mut digits = String::new();
    for c in text.chars().chain(['\0']) {
        if c.is_ascii_digit() {
            digits.push(c);
            continue;
        }
        out.push_str(if digits.len() == 13 { "<time>" } else { &digits });
        digits.clear();
        out.push(c);
    }
    out.pop();
    out
}

/// What differs between two answers.
pub(crate) fn differences(kafka: &Value, weir: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    compare("", "", kafka, weir, &mut found);
    found
}

fn compare(path: &str, place: &str, kafka: &Value, weir: &Value, found: &mut Vec<Difference>) {
    let mut differ = |path: &str, place: &str, kafka: String, weir: String| {
        found.push(Difference { path: path.to_string(), place: place.to_string(), kafka, weir });
    };
    match (kafka, weir) {
        (Value::Struct(kafkas), Value::Struct(weirs)) if kafkas.len() == weirs.len() => {
            for ((name, kafka), (_, weir)) in kafkas.iter().zip(weirs) {
                let inner =
                    |path: &str| if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                compare(&inner(path), &inner(place), kafka, weir, found);
            }
        }
        (Value::List(kafkas), Value::List(weirs)) => {
            if let (false, false, Some(kafka_keys), Some(weir_keys)) =
                (kafkas.is_empty(), weirs.is_empty(), Value::keys(kafkas), Value::keys(weirs))
            {
                let kafkas: BTreeMap<_, _> = kafka_keys.iter().zip(kafkas).collect();
                let weirs: BTreeMap<_, _> = weir_keys.iter().zip(weirs).collect();
                for key in kafkas.keys().chain(weirs.keys()).collect::<BTreeSet<_>>() {
                    let (path, place) = (format!("{path}[]"), format!("{place}[{key}]"));
                    match (kafkas.get(key), weirs.get(key)) {
                        (Some(kafka), Some(weir)) => compare(&path, &place, kafka, weir, found),
                        (kafka, weir) => found.push(Difference {
                            path: format!("{path}!"),
                            place,
                            kafka: kafka.map_or("absent".to_string(), |value| value.show()),
                            weir: weir.map_or("absent".to_string(), |value| value.show()),
                        }),
                    }
                }
            } else if kafkas.len() == weirs.len() {
                for (index, (kafka, weir)) in kafkas.iter().zip(weirs).enumerate() {
                    compare(&format!("{path}[]"), &format!("{place}[{index}]"), kafka, weir, found);
                }
            } else {
                differ(path, place, only_in(kafkas, weirs), only_in(weirs, kafkas));
            }
        }
        (kafka, weir) if kafka == weir => {}
        (kafka, weir) => differ(path, place, kafka.show(), weir.show()),
    }
}

/// What a list has more than another one of another length.
fn only_in(values: &[Value], others: &[Value]) -> String {
    let mut others: Vec<&Value> = others.iter().collect();
    let mut only = Vec::new();
    for value in values {
        match others.iter().position(|other| *other == value) {
            Some(at) => drop(others.swap_remove(at)),
            None => only.push(value.show()),
        }
    }
    format!("{} elements, only here: [{}]", values.len(), only.join(", "))
}

/// Batches of records as values: their headers without the CRC, and the records where they can be read.
pub(crate) fn batches(mut bytes: &[u8]) -> Value {
    let mut values = Vec::new();
    while let Some(Ok(header)) = BatchHeader::parse_prefix(bytes) {
        if header.size_bytes() > bytes.len() {
            break;
        }
        let (batch, rest) = bytes.split_at(header.size_bytes());
        bytes = rest;
        let body = [IoSlice::new(&batch[batch.len() - header.body_size_bytes()..])];
        let mut scratch = Scratch::default();
        let mut records = Vec::new();
        // Two servers do not append at the same time.
        let append_time = header.timestamp_type() == TimestampType::LogAppendTime;
        if let Ok(mut cursor) =
            RecordCursor::new(&header, &body, 1 << 20, &InflateLimits::default(), &mut scratch)
        {
            while let Ok(Some(record)) = cursor.next_record() {
                let timestamp = if append_time { -1 } else { record.timestamp };
                let fields = (record.offset, timestamp, record.sequence, record.key, record.value);
                records.push(Value::Text(format!("{fields:?} {:?}", record.headers.collect::<Vec<_>>())));
            }
        }
        let field = |name: &str, value: String| (name.to_string(), Value::Text(value));
        values.push(Value::Struct(vec![
            field("base_offset", header.base_offset.to_string()),
            field("partition_leader_epoch", header.partition_leader_epoch.to_string()),
            field("codec", format!("{:?}", header.compression())),
            field("timestamp_type", format!("{:?}", header.timestamp_type())),
            field("base_timestamp", header.base_timestamp.to_string()),
            field(
                "max_timestamp",
                if append_time { String::new() } else { header.max_timestamp.to_string() },
            ),
            field("last_offset", header.last_offset().to_string()),
            field("producer_id", header.producer_id.to_string()),
            field("producer_epoch", header.producer_epoch.to_string()),
            field("base_sequence", header.base_sequence.to_string()),
            ("records".to_string(), Value::List(records)),
        ]));
    }
    if !bytes.is_empty() {
        values.push(Value::Text(format!("{} bytes of a batch", bytes.len())));
    }
    Value::List(values)
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
}

impl Parser<'_> {
    fn peek(&self) -> u8 {
        self.text.get(self.at).copied().unwrap_or(0)
    }

    fn skip(&mut self, text: &str) -> bool {
        assert!(self.at < self.text.len(), "cannot read {}", String::from_utf8_lossy(self.text));
        let is_there = self.text[self.at..].starts_with(text.as_bytes());
        self.at += if is_there { text.len() } else { 0 };
        is_there
    }

    fn word(&mut self, ends: &[u8]) -> String {
        let from = self.at;
        while self.at < self.text.len() && !ends.contains(&self.peek()) {
            self.at += 1;
        }
        String::from_utf8_lossy(&self.text[from..self.at]).into_owned()
    }

    fn list(&mut self, end: &str) -> Vec<Value> {
        let mut values = Vec::new();
        while !self.skip(end) {
            values.push(self.value());
            self.skip(", ");
        }
        values
    }

    fn value(&mut self) -> Value {
        match self.peek() {
            b'"' => {
                let from = self.at;
                self.at += 1;
                while self.peek() != b'"' {
                    self.at += if self.peek() == b'\\' { 2 } else { 1 };
                }
                self.at += 1;
                Value::Text(String::from_utf8_lossy(&self.text[from..self.at]).into_owned())
            }
            b'[' => {
                self.at += 1;
                Value::List(self.list("]"))
            }
            _ => {
                let word = self.word(b" {(,)}]");
                if self.skip(" { ") {
                    let mut fields = Vec::new();
                    while !self.skip(" }") {
                        let name = self.word(b":");
                        self.at += 2;
                        let value = self.value();
                        // Without tags that nobody knows, as in every answer of both.
                        if !(name == "unknown_tags" && value == Value::Text("null".to_string())) {
                            fields.push((name, value));
                        }
                        self.skip(", ");
                    }
                    Value::Struct(fields)
                } else if self.skip("(") {
                    let mut values = self.list(")");
                    if values.len() == 1 { values.remove(0) } else { Value::List(values) }
                } else if word == "None" {
                    Value::Text("null".to_string())
                } else if self.text[self.at..].starts_with(b" }") {
                    Value::Text(word)
                } else {
                    // "error code 7" is one text.
                    Value::Text(word + &self.word(b",)}]"))
                }
            }
        }
    }
}
