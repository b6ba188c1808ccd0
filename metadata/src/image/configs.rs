//! Overrides by resource type and name.

use weir_protocol::messages::ConfigRecord;

use super::memory;
use crate::properties::ConfigMap;

/// Numbers of Kafka's resource types that have configs in the metadata log.
pub mod resource_type {
    /// A topic.
    pub const TOPIC: i8 = 2;
    /// A broker; the empty name stands for all brokers.
    pub const BROKER: i8 = 4;
    /// A broker's loggers: not in the log.
    pub const BROKER_LOGGER: i8 = 8;
    /// A client-metrics subscription.
    pub const CLIENT_METRICS: i8 = 16;
    /// A group.
    pub const GROUP: i8 = 32;
}

/// Overrides of all resources.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConfigsImage {
    resources: imbl::OrdMap<i8, imbl::OrdMap<String, ConfigMap>>,
    bytes: usize,
}

impl ConfigsImage {
    /// The overrides of a resource, `None` when it has none.
    pub fn get(&self, resource_type: i8, name: &str) -> Option<&ConfigMap> {
        self.resources.get(&resource_type)?.get(name)
    }

    /// The overrides of a resource, empty when it has none.
    pub fn of(&self, resource_type: i8, name: &str) -> ConfigMap {
        self.get(resource_type, name).cloned().unwrap_or_default()
    }

    /// The overrides of a topic, empty when it has none.
    pub fn topic(&self, name: &str) -> ConfigMap {
        self.of(resource_type::TOPIC, name)
    }

    /// The dynamic configs of a broker, empty when it has none.
    pub fn broker(&self, id: i32) -> ConfigMap {
        self.of(resource_type::BROKER, &id.to_string())
    }

    /// The dynamic configs of all brokers.
    pub fn broker_default(&self) -> ConfigMap {
        self.of(resource_type::BROKER, "")
    }

    /// All resources of a type with their overrides, by name.
    pub fn resources(&self, resource_type: i8) -> impl Iterator<Item = (&str, &ConfigMap)> {
        let names = self.resources.get(&resource_type).into_iter();
        names.flatten().map(|(name, configs)| (name.as_str(), configs))
    }

    pub(super) fn by_type(&self) -> &imbl::OrdMap<i8, imbl::OrdMap<String, ConfigMap>> {
        &self.resources
    }

    pub(super) fn apply(&mut self, record: &ConfigRecord) {
        let mut configs = self.of(record.resource_type, &record.resource_name);
        if configs.is_empty() {
            self.bytes += resource_bytes(&record.resource_name);
        }
        let old = match &record.value {
            Some(value) => {
                self.bytes += config_bytes(&record.name, value);
                configs.insert(record.name.clone(), value.clone())
            }
            None => configs.remove(&record.name),
        };
        self.bytes -= old.map_or(0, |old| config_bytes(&record.name, &old));
        self.put(record.resource_type, &record.resource_name, configs);
    }

    pub(super) fn remove(&mut self, resource_type: i8, name: &str) {
        if let Some(configs) = self.get(resource_type, name) {
            self.bytes -= configs.iter().map(|(name, value)| config_bytes(name, value)).sum::<usize>();
            self.put(resource_type, name, ConfigMap::new());
        }
    }

    /// Replaces the overrides of a resource; without any it is gone.
    fn put(&mut self, resource_type: i8, name: &str, configs: ConfigMap) {
        let names = self.resources.entry(resource_type).or_default();
        if configs.is_empty() {
            names.remove(name);
            self.bytes -= resource_bytes(name);
        } else {
            names.insert(name.to_owned(), configs);
        }
        if names.is_empty() {
            self.resources.remove(&resource_type);
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes
    }
}

/// Bytes of a resource with overrides, without them.
fn resource_bytes(name: &str) -> usize {
    let text = size_of::<String>();
    memory::heap(name.len()) + memory::map_entry(text, size_of::<ConfigMap>()) + memory::map_base(text, text)
}

/// Bytes of one override.
fn config_bytes(name: &str, value: &str) -> usize {
    let text = size_of::<String>();
    memory::map_entry(text, text) + memory::heap(name.len()) + memory::heap(value.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(name: &str, key: &str, value: Option<&str>) -> ConfigRecord {
        ConfigRecord {
            resource_type: resource_type::TOPIC,
            resource_name: name.to_owned(),
            name: key.to_owned(),
            value: value.map(str::to_owned),
            ..ConfigRecord::default()
        }
    }

    #[test]
    fn a_resource_without_overrides_is_gone_and_costs_nothing() {
        let mut configs = ConfigsImage::default();
        configs.apply(&record("t", "retention.ms", Some("5")));
        configs.apply(&record("t", "segment.ms", Some("6")));
        configs.apply(&record("t", "segment.ms", Some("60000000")));
        assert_eq!(configs.topic("t").len(), 2);
        assert!(configs.memory_bytes() > 100);
        configs.apply(&record("t", "retention.ms", None));
        configs.apply(&record("t", "segment.ms", None));
        configs.apply(&record("u", "nothing.to.delete", None));
        assert_eq!(configs, ConfigsImage::default());
        configs.apply(&record("t", "retention.ms", Some("5")));
        configs.remove(resource_type::TOPIC, "t");
        configs.remove(resource_type::TOPIC, "t");
        assert_eq!(configs.memory_bytes(), 0);
    }
}
