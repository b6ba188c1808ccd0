//! Kafka's `server.properties`, read leniently: one damaged value costs itself only. Defaults come from the property table.

use std::collections::BTreeMap;

use weir_metadata::properties::{
    Origin, PropertySet, PropertyType, Scope, SecurityProtocol, Value, lookup, nearest,
};

use super::Parser;
use super::lines::{Line, Problems, excerpt};
use super::properties_text::{Entry, PropertiesText, Room};
use crate::language::text;

/// A number and where it was said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Number {
    /// The value.
    pub value: i64,
    /// Its line; `None` for a default or an override.
    pub line: Option<u64>,
    /// Whether it is the default.
    pub is_default: bool,
}

/// A listener as a network-thread pool: what it speaks decides what its threads keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerListener {
    /// Its name in upper case.
    pub name: String,
    /// What it speaks; `None` when the map does not say.
    pub protocol: Option<SecurityProtocol>,
    /// Whether it serves controllers.
    pub is_controller: bool,
    /// Its line.
    pub line: Option<u64>,
}

/// The settings of a JVM broker.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerProperties {
    /// As written.
    pub settings: PropertySet,
}

impl ServerProperties {
    /// Reads a file; what is wrong in it is said in the problems.
    pub fn parse(bytes: &[u8]) -> (Self, Vec<super::Problem>) {
        super::parse_text::<ServerPropertiesParser>(bytes)
    }

    /// The line of a setting.
    pub fn line(&self, name: &str) -> Option<u64> {
        match self.settings.get(name)?.origin {
            Origin::File(line) => Some(line as u64),
            Origin::Override | Origin::Embedded => None,
        }
    }

    /// The text of a setting as written.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.settings.get(name).map(|setting| setting.value.trim())
    }

    /// A whole number of the table; its default where it is not written or not readable.
    pub fn number(&self, name: &str) -> Number {
        let row = lookup(Scope::Broker, name);
        let as_number = |value: Value| match value {
            Value::Int(value) => Some(i64::from(value)),
            Value::Short(value) => Some(i64::from(value)),
            Value::Long(value) => Some(value),
            _ => None,
        };
        let written = row.zip(self.settings.get(name)).and_then(|(row, setting)| {
            Value::parse(row.name, row.kind, &weir_metadata::properties::Range::Any, &setting.value).ok()
        });
        match written.and_then(as_number) {
            Some(value) => Number { value, line: self.line(name), is_default: false },
            None => {
                let value =
                    row.and_then(weir_metadata::properties::Property::default_value).and_then(as_number);
                Number { value: value.unwrap_or(0), line: None, is_default: true }
            }
        }
    }

    /// Whether a switch is on.
    pub fn is_on(&self, name: &str) -> bool {
        let text = self.text(name).or_else(|| lookup(Scope::Broker, name)?.default);
        text.is_some_and(|text| text.eq_ignore_ascii_case("true"))
    }

    /// Whether the file describes a KRaft node.
    pub fn is_kraft(&self) -> bool {
        self.text("process.roles").is_some_and(|roles| !roles.is_empty())
    }

    /// The listeners; Kafka's default is one PLAINTEXT listener.
    pub fn listeners(&self) -> Vec<BrokerListener> {
        let text = self.text("listeners").filter(|text| !text.is_empty()).unwrap_or("PLAINTEXT://:9092");
        let names = |name: &str| -> Vec<String> {
            let text = self.text(name).unwrap_or_default();
            text.split(',')
                .map(|part| part.trim().to_ascii_uppercase())
                .filter(|part| !part.is_empty())
                .collect()
        };
        let controllers = names("controller.listener.names");
        let map: BTreeMap<String, String> = names("listener.security.protocol.map")
            .iter()
            .filter_map(|pair| pair.rsplit_once(':'))
            .map(|(name, protocol)| (name.trim().to_owned(), protocol.trim().to_owned()))
            .collect();
        let line = self.line("listeners");
        text.split(',')
            .filter_map(|part| part.trim().split_once("://"))
            .map(|(name, _)| {
                let name = name.trim().to_ascii_uppercase();
                let is_controller = controllers.contains(&name);
                let spoken = map.get(&name).cloned().unwrap_or_else(|| name.clone());
                let protocol = protocol(&spoken)
                    .or((is_controller && map.is_empty()).then_some(SecurityProtocol::Plaintext));
                BrokerListener { name, protocol, is_controller, line }
            })
            .collect()
    }

    /// A number that may be set for one listener, `listener.name.<name>.<property>`.
    pub fn listener_number(&self, listener: &str, name: &str) -> Number {
        let own = format!("listener.name.{}.{name}", listener.to_ascii_lowercase());
        match self.settings.get(&own).and_then(|setting| setting.value.trim().parse().ok()) {
            Some(value) => Number { value, line: self.line(&own), is_default: false },
            None => self.number(name),
        }
    }

    fn check(&self, problems: &mut Problems) {
        for (name, setting) in self.settings.iter() {
            let Origin::File(line) = setting.origin else { continue };
            let line = line as u64;
            let Some(row) = lookup(Scope::Broker, name) else {
                if let Some(meant) = nearest(Scope::Broker, name) {
                    problems.add(
                        line,
                        text!(
                            "{name} is no property of Kafka; {meant} is the nearest",
                            "{name} 不是 Kafka 的配置项；最接近的是 {meant}",
                            name = excerpt(name)
                        ),
                    );
                }
                continue;
            };
            if let Err(error) = row.parse(&setting.value) {
                problems.add(line, text!("{error}", "配置值无效：{error}"));
            } else if matches!(row.kind, PropertyType::Int | PropertyType::Long | PropertyType::Short)
                && setting.value.trim().ends_with(|c: char| c.is_ascii_alphabetic())
            {
                problems.add(
                    line,
                    text!(
                        "{name}={value}: Kafka takes no units",
                        "{name}={value}：Kafka 的配置值不带单位",
                        value = excerpt(&setting.value)
                    ),
                );
            }
        }
    }
}

fn protocol(name: &str) -> Option<SecurityProtocol> {
    [
        SecurityProtocol::Plaintext,
        SecurityProtocol::Ssl,
        SecurityProtocol::SaslPlaintext,
        SecurityProtocol::SaslSsl,
    ]
    .into_iter()
    .find(|protocol| protocol.name().eq_ignore_ascii_case(name))
}

/// Whether a setting names a property that only a broker has.
pub(crate) fn is_broker_setting(name: &str) -> bool {
    name.starts_with("listener.name.") || lookup(Scope::Broker, name).is_some()
}

/// Takes lines of `server.properties`.
#[derive(Debug, Default)]
pub(crate) struct ServerPropertiesParser {
    text: PropertiesText,
    found: ServerProperties,
    room: Room,
}

impl ServerPropertiesParser {
    fn insert(&mut self, entry: Option<Entry>, problems: &mut Problems) {
        let Some(entry) = entry else { return };
        if !self.room.take(&entry.name, &entry.value, entry.line, problems) {
            return;
        }
        let line = usize::try_from(entry.line).unwrap_or(usize::MAX);
        if let Some(before) = self.found.settings.get(&entry.name) {
            let first = match before.origin {
                Origin::File(line) => text!("line {line}", "第 {line} 行"),
                _ => text!("before", "前文"),
            };
            let name = excerpt(&entry.name);
            problems.add(entry.line, text!("{name} is set twice, first in {first}; the last one wins", "{name} 重复设置，首次在 {first}；以最后一次为准"; first));
        }
        self.found.settings.insert(&entry.name, &entry.value, Origin::File(line));
    }
}

impl Parser for ServerPropertiesParser {
    type Output = ServerProperties;

    fn line(&mut self, line: Line<'_>, problems: &mut Problems) {
        let entry = self.text.line(line, problems);
        self.insert(entry, problems);
    }

    fn finish(mut self, problems: &mut Problems) -> ServerProperties {
        let entry = self.text.finish(problems);
        self.insert(entry, problems);
        self.found.check(problems);
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_kafkas_defaults_and_their_lines() {
        let (found, problems) = ServerProperties::parse(
            b"num.network.threads=80\nsocket.request.max.bytes=oops\nlistener.name.internal.num.network.threads=5\n",
        );
        assert_eq!(
            found.number("num.network.threads"),
            Number { value: 80, line: Some(1), is_default: false }
        );
        assert_eq!(found.number("socket.request.max.bytes").value, 104_857_600);
        assert!(found.number("fetch.max.bytes").is_default);
        assert_eq!(found.listener_number("INTERNAL", "num.network.threads").value, 5);
        assert_eq!(found.listener_number("OTHER", "num.network.threads").value, 80);
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].line, 2);
    }

    #[test]
    fn listeners_speak_what_the_map_says() {
        let text = b"listeners=INTERNAL://:9092, EXTERNAL://:9093,CONTROLLER://:9094\n\
                     controller.listener.names=CONTROLLER\n\
                     listener.security.protocol.map=INTERNAL:SASL_PLAINTEXT,EXTERNAL:SSL,CONTROLLER:PLAINTEXT\n";
        let (found, problems) = ServerProperties::parse(text);
        assert_eq!(problems, []);
        let listeners: Vec<_> = found
            .listeners()
            .into_iter()
            .map(|found| (found.name, found.protocol, found.is_controller))
            .collect();
        assert_eq!(
            listeners,
            [
                ("INTERNAL".to_owned(), Some(SecurityProtocol::SaslPlaintext), false),
                ("EXTERNAL".to_owned(), Some(SecurityProtocol::Ssl), false),
                ("CONTROLLER".to_owned(), Some(SecurityProtocol::Plaintext), true),
            ]
        );
        let (default, _) = ServerProperties::parse(b"");
        assert_eq!(default.listeners()[0].protocol, Some(SecurityProtocol::Plaintext));
    }

    #[test]
    fn misspelt_repeated_and_unitful_settings_are_named() {
        let text = b"queued.max.request.byte=1\nnum.io.threads=8\nnum.io.threads=9\nmessage.max.bytes=1MiB\nrsm.x.y=1\n";
        let (found, problems) = ServerProperties::parse(text);
        assert_eq!(found.number("num.io.threads").value, 9);
        let texts: Vec<_> =
            problems.iter().map(|problem| format!("{}: {}", problem.line, problem.text)).collect();
        assert_eq!(texts.len(), 3, "{texts:?}");
        assert!(texts.iter().any(|text| text.contains("queued.max.request.bytes is the nearest")));
        assert!(texts.iter().any(|text| text.contains("first in line 2")));
        assert!(texts.iter().any(|text| text.contains("takes no units")));
    }
}
