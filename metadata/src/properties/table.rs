//! The property table: rows of `table/*.txt`, read once. A row that does not parse is our bug and fails the tests.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::value::{PropertyType, Range, Value};

/// What a property belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// A broker: `server.properties` and broker resources.
    Broker,
    /// A topic.
    Topic,
    /// A group.
    Group,
    /// A client-metrics subscription.
    ClientMetrics,
}

/// How a property may change while the server runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Only by a restart.
    ReadOnly,
    /// For one broker.
    PerBroker,
    /// For one broker or for all.
    ClusterWide,
    /// Topic, group and client-metrics configs.
    Any,
}

/// Kafka's importance of a property.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Importance {
    High,
    Medium,
    Low,
}

/// What weir does with a property.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handling {
    /// What Kafka does with it.
    Served,
    /// Accepted; what the row says does its work.
    Replaced,
    /// Accepted; what it is for is not served yet.
    Later,
    /// Accepted without effect.
    Nothing,
}

/// One row of the table.
#[derive(Debug)]
pub struct Property {
    /// Kafka's name.
    pub name: &'static str,
    /// What it belongs to.
    pub scope: Scope,
    /// Its type.
    pub kind: PropertyType,
    /// Its default as text, `None` for no value.
    pub default: Option<&'static str>,
    /// The values it takes.
    pub range: Range,
    /// How it may change.
    pub change: Change,
    /// Its importance.
    pub importance: Importance,
    /// Not shown in descriptions unless set.
    pub internal: bool,
    /// Known to Kafka 3.9 and gone in 4.0.
    pub only_before_4: bool,
    /// Not known to Kafka 3.9.
    pub since_4: bool,
    /// Dynamic in Kafka; here only a restart changes it.
    pub by_restart: bool,
    /// weir's own, unknown to Kafka.
    pub own: bool,
    /// What weir does with it.
    pub handling: Handling,
    /// For a topic config: the broker properties that give its default, strongest first.
    pub broker_names: Vec<&'static str>,
    /// For a served property what it means, for the others what became of it.
    pub text: &'static str,
    /// What it costs in memory.
    pub memory: Option<&'static str>,
}

impl Property {
    /// Parses and checks a value of this property.
    ///
    /// # Errors
    /// [`MetadataError::InvalidValue`](crate::MetadataError::InvalidValue).
    pub fn parse(&self, text: &str) -> Result<Value, crate::MetadataError> {
        Value::parse(self.name, self.kind, &self.range, text)
    }

    /// Whether only a restart changes it here.
    pub fn is_read_only(&self) -> bool {
        self.change == Change::ReadOnly || self.by_restart
    }

    /// The default as a value.
    pub fn default_value(&self) -> Option<Value> {
        // The tests parse every default without its range; Kafka has defaults outside their own range.
        self.default.and_then(|text| Value::parse(self.name, self.kind, &Range::Any, text).ok())
    }
}

struct Table {
    rows: Vec<Property>,
    by_name: HashMap<(Scope, &'static str), usize>,
}

const FILES: [(Scope, bool, &str); 5] = [
    (Scope::Broker, false, include_str!("table/broker.txt")),
    (Scope::Broker, true, include_str!("table/weir.txt")),
    (Scope::Topic, false, include_str!("table/topic.txt")),
    (Scope::Group, false, include_str!("table/group.txt")),
    (Scope::ClientMetrics, false, include_str!("table/client_metrics.txt")),
];

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let mut rows = Vec::new();
    for (scope, own, text) in FILES {
        for line in text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
            rows.push(row(scope, own, line).unwrap_or_else(|| panic!("property table row: {line}")));
        }
    }
    let by_name = rows.iter().enumerate().map(|(index, row)| ((row.scope, row.name), index)).collect();
    Table { rows, by_name }
});

/// All rows, in the order of the table.
pub fn properties() -> &'static [Property] {
    &TABLE.rows
}

/// The row of a name.
pub fn lookup(scope: Scope, name: &str) -> Option<&'static Property> {
    index_of(scope, name).and_then(|index| TABLE.rows.get(index))
}

/// The index of a name in [`properties`].
pub(super) fn index_of(scope: Scope, name: &str) -> Option<usize> {
    TABLE.by_name.get(&(scope, name)).copied()
}

fn row(scope: Scope, own: bool, line: &'static str) -> Option<Property> {
    let mut columns = line.split(" | ").map(str::trim);
    let name = columns.next()?;
    let kind = match columns.next()? {
        "boolean" => PropertyType::Boolean,
        "int" => PropertyType::Int,
        "long" => PropertyType::Long,
        "short" => PropertyType::Short,
        "double" => PropertyType::Double,
        "string" => PropertyType::String,
        "list" => PropertyType::List,
        "class" => PropertyType::Class,
        "password" => PropertyType::Password,
        _ => return None,
    };
    let default = match columns.next()? {
        "-" => None,
        "\"\"" => Some(""),
        text => Some(text),
    };
    let range = Range::parse(columns.next()?)?;
    let mut flags = columns.next()?.split(' ');
    let change = match flags.next()? {
        "ro" => Change::ReadOnly,
        "broker" => Change::PerBroker,
        "cluster" => Change::ClusterWide,
        "any" => Change::Any,
        _ => return None,
    };
    let importance = match flags.next()? {
        "high" | "h" => Importance::High,
        "medium" | "m" => Importance::Medium,
        "low" | "l" => Importance::Low,
        _ => return None,
    };
    let marks: Vec<_> = flags.collect();
    if marks.iter().any(|mark| !["internal", "3.9", "4.x", "restart"].contains(mark)) {
        return None;
    }
    let handling = match columns.next()? {
        "served" => Handling::Served,
        "replaced" => Handling::Replaced,
        "later" => Handling::Later,
        "nothing" => Handling::Nothing,
        _ => return None,
    };
    let broker_names = match scope {
        Scope::Topic => columns.next()?.split(' ').filter(|name| *name != "-").collect(),
        _ => Vec::new(),
    };
    let text = columns.next()?;
    let memory = columns.next();
    Some(Property {
        name,
        scope,
        kind,
        default,
        range,
        change,
        importance,
        internal: marks.contains(&"internal"),
        only_before_4: marks.contains(&"3.9"),
        since_4: marks.contains(&"4.x"),
        by_restart: marks.contains(&"restart"),
        own,
        handling,
        broker_names,
        text,
        memory,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_parses_and_names_are_unique() {
        assert_eq!(TABLE.rows.len(), TABLE.by_name.len());
        let count = |scope, own| TABLE.rows.iter().filter(|row| row.scope == scope && row.own == own).count();
        assert_eq!(count(Scope::Broker, false), 425);
        assert_eq!(count(Scope::Topic, false), 41);
        assert_eq!(count(Scope::Group, false), 27);
        assert_eq!(count(Scope::ClientMetrics, false), 3);
        assert!(count(Scope::Broker, true) > 5);
    }

    #[test]
    fn every_default_has_the_type_of_its_property() {
        for row in properties() {
            assert_eq!(row.default.is_some(), row.default_value().is_some(), "{}", row.name);
            assert!(!row.text.is_empty(), "{}", row.name);
            assert!(row.text.len() < 160, "{} is one line", row.name);
        }
    }

    #[test]
    fn defaults_lie_in_their_ranges() {
        for row in properties() {
            if let Some(default) = row.default {
                assert!(row.parse(default).is_ok(), "{} = {default}", row.name);
            }
        }
    }

    #[test]
    fn topic_configs_name_broker_properties_that_exist() {
        for row in properties() {
            for name in &row.broker_names {
                assert!(lookup(Scope::Broker, name).is_some(), "{} <- {name}", row.name);
            }
        }
    }
}
