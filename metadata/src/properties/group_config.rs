//! The configuration of a group: its overrides over the broker's `group.*` values.

use super::ConfigMap;
use super::broker_config::BrokerConfig;
use super::table::{Property, Scope, lookup};
use super::value::{FromValue, PropertyType, Value};

/// Group configs in effect, read by name.
#[derive(Debug, Clone)]
pub struct GroupConfig {
    broker: BrokerConfig,
    overrides: ConfigMap,
}

impl GroupConfig {
    /// Puts the overrides of a group over the broker's values.
    pub fn resolve(broker: &BrokerConfig, overrides: &ConfigMap) -> Self {
        Self { broker: broker.clone(), overrides: overrides.clone() }
    }

    /// The value of a group config such as `consumer.session.timeout.ms`, `None` for a name or type that it has not.
    pub fn get<T: FromValue>(&self, name: &str) -> Option<T> {
        let row = lookup(Scope::Group, name)?;
        T::from_value(group_value(&self.broker, &self.overrides, row).as_ref())
    }
}

/// The broker property that gives the default of a group config.
pub(super) fn broker_property(row: &Property) -> Option<&'static Property> {
    match row.name {
        // The first of the broker's assignors is the default.
        "streams.assignor.name" => lookup(Scope::Broker, "group.streams.assignors"),
        name => lookup(Scope::Broker, &format!("group.{name}")),
    }
}

/// The value of a group config: override, else the broker's value, else the default.
pub(super) fn group_value(broker: &BrokerConfig, overrides: &ConfigMap, row: &Property) -> Option<Value> {
    let own = overrides.get(row.name).and_then(|text| row.parse(text).ok());
    let of_broker = || match broker.value(broker_property(row)?.name)? {
        Value::List(list) if row.kind != PropertyType::List => list.first().cloned().map(Value::String),
        value => Some(value.clone()),
    };
    own.or_else(of_broker).or_else(|| row.default_value())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::properties::PropertySet;

    #[test]
    fn the_broker_gives_the_default_of_a_group() {
        let set = PropertySet::parse(b"group.consumer.session.timeout.ms=50000").unwrap();
        let broker = BrokerConfig::from_properties(&set).unwrap().config;
        let config = GroupConfig::resolve(&broker, &ConfigMap::new());
        assert_eq!(config.get::<i32>("consumer.session.timeout.ms"), Some(50_000));
        assert_eq!(config.get::<String>("share.auto.offset.reset").as_deref(), Some("latest"));
        let own = ConfigMap::from(vec![("consumer.session.timeout.ms".to_owned(), "46000".to_owned())]);
        assert_eq!(
            GroupConfig::resolve(&broker, &own).get::<i32>("consumer.session.timeout.ms"),
            Some(46_000)
        );
        assert_eq!(config.get::<i32>("nosuch"), None);
    }
}
