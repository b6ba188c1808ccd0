//! The configuration of a broker: typed access to static and dynamic properties, and the start-up notes.
//!
//! A `BrokerConfig` is immutable and cheap to clone. A dynamic change makes a new one with [`BrokerConfig::with_dynamic`].

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::check;
use super::file::PropertySet;
use super::keys::{self, Key};
use super::listeners::{ListenerProperties, Listeners, split_host_port};
use super::suggest::nearest;
use super::table::{Handling, Property, Scope, index_of, lookup, properties};
use super::value::{FromValue, Value};
use super::{ConfigMap, TopicConfig};
use crate::MetadataError;

/// How much a note matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoteLevel {
    /// Good to know.
    Info,
    /// Probably not what was meant.
    Warning,
}

/// Something to say about a property at start-up that is no error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// How much it matters.
    pub level: NoteLevel,
    /// The property as it was written.
    pub property: String,
    /// What to say.
    pub text: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.property, self.text)
    }
}

/// Every reason why the properties do not make a server, so that one look mends all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartErrors(pub Vec<MetadataError>);

impl fmt::Display for StartErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for StartErrors {}

/// A configuration and the notes to print with it.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The configuration.
    pub config: BrokerConfig,
    /// The notes, in the order of the properties.
    pub notes: Vec<Note>,
}

/// The properties of a broker: dynamic over dynamic default over static over default.
#[derive(Debug, Clone)]
pub struct BrokerConfig {
    inner: Arc<Inner>,
}

/// What the memory plan of a running server has room for: no later change of a config may ask for more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ceilings {
    /// Connections.
    pub connections: u64,
    /// Bytes of one batch.
    pub batch_bytes: u64,
}

impl Default for Ceilings {
    /// No bound.
    fn default() -> Self {
        Self { connections: u64::MAX, batch_bytes: u64::MAX }
    }
}

#[derive(Debug, Clone)]
struct Inner {
    ceilings: Ceilings,
    written: PropertySet,
    dynamic: ConfigMap,
    dynamic_default: ConfigMap,
    /// What stands in place of a table's default, by table index.
    derived: BTreeMap<usize, Value>,
    /// Effective values by table index.
    values: Vec<Option<Value>>,
    listeners: Listeners,
}

/// Families of properties whose members are not in the table: how their names begin, and what became of them.
const FAMILIES: [(&str, &str); 11] = [
    ("rsm.config.", "remote log storage is not served yet"),
    ("rlmm.config.", "remote log storage is not served yet"),
    ("config.providers.", "values are taken as written; config providers are not served"),
    ("quota.", "client quotas are not served yet"),
    ("client.quota.callback.", "Java plug-ins are not loaded"),
    ("confluent.", "belongs to Confluent's server and has no effect"),
    ("strimzi.", "belongs to Strimzi's plug-ins, which are not loaded"),
    ("oauth.", "SASL listeners are not served yet"),
    ("super.users", "authorization is not served yet"),
    ("allow.everyone.if.no.acl.found", "authorization is not served yet: everybody is let in"),
    ("ldap.", "authorization is not served yet"),
];

impl BrokerConfig {
    /// The configuration of a start without a file.
    ///
    /// # Errors
    /// None in practice: a test holds the embedded settings to the table.
    pub fn embedded() -> Result<Loaded, StartErrors> {
        Self::from_properties(&PropertySet::embedded())
    }

    /// Checks and resolves the settings of a file and its overrides.
    ///
    /// # Errors
    /// Every wrong value, conflict and thing that is not served, all of them.
    pub fn from_properties(written: &PropertySet) -> Result<Loaded, StartErrors> {
        let given = written;
        let written = &with_both_ids(given);
        let mut errors = Vec::new();
        // Of an id that stands under its other name too one error is enough.
        let mut copied_errors = Vec::new();
        let mut notes = Vec::new();
        for (name, line) in written.repeated() {
            notes.push(note(
                NoteLevel::Warning,
                name,
                format!("given again on line {line}; the last value counts"),
            ));
        }
        let mut values: Vec<Option<Value>> = properties().iter().map(Property::default_value).collect();
        for (name, setting) in written.iter() {
            match index_of(Scope::Broker, name) {
                Some(index) => match properties()[index].parse(&setting.value) {
                    Ok(value) => values[index] = Some(value),
                    Err(error) if given.get(name).is_none() => copied_errors.push(error),
                    Err(error) => errors.push(error),
                },
                None => notes.push(unknown(name)),
            }
        }
        if !errors.iter().any(check::is_about_the_id) {
            errors.append(&mut copied_errors);
        }
        let get =
            |name: &str| index_of(Scope::Broker, name).and_then(|index| values.get(index).cloned().flatten());
        let list = |name: &str| match get(name) {
            Some(Value::List(list)) => Some(list),
            _ => None,
        };
        let text = |name: &str| match get(name) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        };
        let listeners = Listeners::resolve(&ListenerProperties {
            listeners: &list("listeners").unwrap_or_default(),
            advertised: list("advertised.listeners").filter(|list| !list.is_empty()).as_deref(),
            protocol_map: &text("listener.security.protocol.map").unwrap_or_default(),
            controller_names: &list("controller.listener.names").unwrap_or_default(),
            inter_broker_name: text("inter.broker.listener.name").filter(|name| !name.is_empty()).as_deref(),
            inter_broker_protocol: &text("security.inter.broker.protocol").unwrap_or_default(),
            written,
        });
        let is_broker = list("process.roles")
            .is_none_or(|roles| roles.is_empty() || roles.iter().any(|role| role == "broker"));
        let listeners = match listeners {
            Ok(listeners) => listeners,
            Err(more) => {
                // The file of a controller lacks what a broker must have; what is wrong is its role.
                if is_broker {
                    errors.extend(more);
                }
                // Never served: `errors` is not empty. It lets the other checks run.
                Listeners {
                    bind: vec![],
                    advertised: vec![],
                    controller: vec![],
                    inter_broker: String::new(),
                }
            }
        };
        let config = Self {
            inner: Arc::new(Inner {
                ceilings: Ceilings::default(),
                written: written.clone(),
                dynamic: ConfigMap::new(),
                dynamic_default: ConfigMap::new(),
                derived: BTreeMap::new(),
                values,
                listeners,
            }),
        };
        check::check(&config, &mut errors, &mut notes);
        for (name, _) in written.iter() {
            if let Some(row) = lookup(Scope::Broker, name)
                && row.handling != Handling::Served
                && !notes.iter().any(|note| note.property == name)
            {
                notes.push(note(NoteLevel::Info, name, row.text.to_owned()));
            }
        }
        if errors.is_empty() {
            notes.sort_by(|a, b| b.level.cmp(&a.level).then_with(|| a.property.cmp(&b.property)));
            Ok(Loaded { config, notes })
        } else {
            Err(StartErrors(errors))
        }
    }

    /// The same static properties under other dynamic ones: `dynamic_default` for all brokers, `dynamic` for this one,
    /// as the metadata image has them. A dynamic value that is wrong or that only a restart can change is left out,
    /// with a note: the log may have been written by another version.
    pub fn with_dynamic(&self, dynamic_default: &ConfigMap, dynamic: &ConfigMap) -> (Self, Vec<Note>) {
        let mut notes = Vec::new();
        let mut values: Vec<Option<Value>> = self.static_values();
        for layer in [dynamic_default, dynamic] {
            for (name, text) in layer {
                let Some(index) = index_of(Scope::Broker, name) else { continue };
                let row = &properties()[index];
                if row.is_read_only() {
                    notes.push(note(NoteLevel::Warning, name, "only a restart can change it".to_owned()));
                    continue;
                }
                match row.parse(text) {
                    Ok(value) => values[index] = Some(value),
                    Err(error) => notes.push(note(NoteLevel::Warning, name, error.to_string())),
                }
            }
        }
        let config = Self {
            inner: Arc::new(Inner {
                ceilings: self.inner.ceilings,
                written: self.inner.written.clone(),
                dynamic: dynamic.clone(),
                dynamic_default: dynamic_default.clone(),
                derived: self.inner.derived.clone(),
                values,
                listeners: self.inner.listeners.clone(),
            }),
        };
        (config, notes)
    }

    /// The same properties, but those of `defaults` that are not written have the value given there instead of the
    /// table's default: limits that follow from the memory budget. To be called before anything dynamic is known.
    /// Names that the table does not have, and values that do not fit their row, change nothing.
    pub fn with_defaults(&self, defaults: &[(&str, i64)]) -> Self {
        let mut derived = self.inner.derived.clone();
        for (name, number) in defaults {
            let Some(index) = index_of(Scope::Broker, name) else { continue };
            let is_written = self.inner.written.get(name).is_some();
            if let Ok(value) = properties()[index].parse(&number.to_string())
                && !is_written
            {
                derived.insert(index, value);
            }
        }
        let mut values = self.inner.values.clone();
        for (index, value) in &derived {
            values[*index] = Some(value.clone());
        }
        Self { inner: Arc::new(Inner { derived, values, ..(*self.inner).clone() }) }
    }

    /// The same properties on a server whose memory plan has room for this much.
    pub fn with_ceilings(&self, ceilings: Ceilings) -> Self {
        Self { inner: Arc::new(Inner { ceilings, ..(*self.inner).clone() }) }
    }

    /// What the memory plan has room for.
    pub fn ceilings(&self) -> Ceilings {
        self.inner.ceilings
    }

    /// The default of the property in this row of the table, as it stands on this server.
    pub(super) fn default_of(&self, row: &Property) -> Option<Value> {
        let index = index_of(row.scope, row.name)?;
        self.inner.derived.get(&index).cloned().or_else(|| row.default_value())
    }

    fn static_values(&self) -> Vec<Option<Value>> {
        let parsed = |row: &Property| match self.inner.written.get(row.name) {
            Some(setting) if row.scope == Scope::Broker => row.parse(&setting.value).ok(),
            _ => self.default_of(row),
        };
        properties().iter().map(parsed).collect()
    }

    /// The effective value of a key.
    ///
    /// # Panics
    /// When the key does not fit the table, which a test excludes.
    pub fn get<T: FromValue>(&self, key: Key<T>) -> T {
        T::from_value(self.value(key.name)).unwrap_or_else(|| panic!("{} does not fit its row", key.name))
    }

    /// The effective value of a broker property, `None` when it has none or is not known.
    pub fn value(&self, name: &str) -> Option<&Value> {
        index_of(Scope::Broker, name).and_then(|index| self.inner.values.get(index)).and_then(Option::as_ref)
    }

    /// The settings as they were written.
    pub fn written(&self) -> &PropertySet {
        &self.inner.written
    }

    /// The dynamic configs of this broker.
    pub fn dynamic(&self) -> &ConfigMap {
        &self.inner.dynamic
    }

    /// The dynamic configs of all brokers.
    pub fn dynamic_default(&self) -> &ConfigMap {
        &self.inner.dynamic_default
    }

    /// The listeners.
    pub fn listeners(&self) -> &Listeners {
        &self.inner.listeners
    }

    /// Id of this node.
    pub fn node_id(&self) -> i32 {
        self.get(keys::NODE_ID)
    }

    /// `memory.budget.bytes`.
    pub fn memory_budget_bytes(&self) -> u64 {
        u64::try_from(self.get(keys::MEMORY_BUDGET_BYTES)).unwrap_or(0)
    }

    /// The log directories, in order.
    pub fn log_dirs(&self) -> Vec<String> {
        self.get(keys::LOG_DIRS).filter(|dirs| !dirs.is_empty()).unwrap_or_else(|| self.get(keys::LOG_DIR))
    }

    /// The directory of the metadata log.
    pub fn metadata_log_dir(&self) -> String {
        let own = self.get(keys::METADATA_LOG_DIR).filter(|dir| !dir.is_empty());
        own.or_else(|| self.log_dirs().into_iter().next()).unwrap_or_default()
    }

    /// Where the properties say that the one controller of a dynamic quorum is reached: listener, host and port. `None`
    /// where they name a static quorum (`controller.quorum.voters`), or none at all.
    pub fn dynamic_quorum(&self) -> Option<(&str, String, u16)> {
        let servers = self.get(keys::CONTROLLER_QUORUM_BOOTSTRAP_SERVERS);
        let is_static = !self.get(keys::CONTROLLER_QUORUM_VOTERS).is_empty();
        let [server] = servers.as_slice() else { return None };
        let listener = self.listeners().controller.first().filter(|_| !is_static)?;
        let (host, port) = split_host_port(server)?;
        Some((listener.name.as_str(), host, port))
    }

    /// Host and port of `http.listener`, `None` for no listener.
    pub fn http_listener(&self) -> Option<(String, u16)> {
        split_host_port(&self.get(keys::HTTP_LISTENER))
    }

    /// Exceptions to `max.connections.per.ip` by host or address.
    pub fn max_connections_per_ip_overrides(&self) -> BTreeMap<String, i32> {
        parse_ip_overrides(&self.get(keys::MAX_CONNECTIONS_PER_IP_OVERRIDES)).unwrap_or_default()
    }

    /// Replicas of a new topic without a count: one node has one.
    pub fn default_replication_factor(&self) -> i16 {
        1
    }

    /// The configuration of a topic without overrides.
    pub fn topic_defaults(&self) -> TopicConfig {
        TopicConfig::resolve(self, &ConfigMap::new())
    }
}

/// `broker.id` is the older name of `node.id`: where one is written the other has its value, as in Kafka.
fn with_both_ids(written: &PropertySet) -> PropertySet {
    let mut both = written.clone();
    let (node, broker) = (keys::NODE_ID.name, keys::BROKER_ID.name);
    match (written.get(node), written.get(broker)) {
        (Some(id), None) => both.insert(broker, &id.value, id.origin),
        (None, Some(id)) => both.insert(node, &id.value, id.origin),
        _ => {}
    }
    both
}

/// `host:count,...`
pub(super) fn parse_ip_overrides(text: &str) -> Option<BTreeMap<String, i32>> {
    text.split(',')
        .map(str::trim)
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (host, count) = pair.rsplit_once(':')?;
            let count: i32 = count.trim().parse().ok()?;
            (!host.trim().is_empty() && count >= 0).then(|| (host.trim().to_owned(), count))
        })
        .collect()
}

pub(super) fn note(level: NoteLevel, property: &str, text: String) -> Note {
    Note { level, property: property.to_owned(), text }
}

/// What to say about a name that the table does not have.
fn unknown(name: &str) -> Note {
    if let Some((_, text)) = FAMILIES.iter().find(|(family, _)| name.starts_with(family)) {
        return note(NoteLevel::Info, name, (*text).to_owned());
    }
    if let Some(base) =
        name.strip_prefix("listener.name.").and_then(|rest| rest.split_once('.')).map(|(_, base)| base)
    {
        // `listener.name.<name>.<property>`, with the SASL mechanism between them for some properties.
        let known = lookup(Scope::Broker, base)
            .or_else(|| base.split_once('.').and_then(|(_, base)| lookup(Scope::Broker, base)));
        return match known {
            Some(row) if row.handling == Handling::Served => note(
                NoteLevel::Warning,
                name,
                format!("has no effect: {} applies to all listeners; set it without the prefix", row.name),
            ),
            Some(row) => note(NoteLevel::Info, name, row.text.to_owned()),
            None => note(NoteLevel::Warning, name, format!("has no effect: {base} is not a known property")),
        };
    }
    if let Some(row) = lookup(Scope::Topic, name) {
        let remedy = match row.broker_names.first() {
            Some(broker) => format!("the broker property is {broker}"),
            None => "set it on topics".to_owned(),
        };
        return note(NoteLevel::Warning, name, format!("a topic config, without effect here; {remedy}"));
    }
    let meant =
        nearest(Scope::Broker, name).map(|near| format!("; did you mean {near}?")).unwrap_or_default();
    note(NoteLevel::Warning, name, format!("not a known property, without effect{meant}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str) -> Result<Loaded, StartErrors> {
        BrokerConfig::from_properties(&PropertySet::parse(text.as_bytes()).unwrap())
    }

    #[test]
    fn embedded_defaults_make_a_server_on_the_loopback_address() {
        let loaded = BrokerConfig::embedded().unwrap();
        assert!(loaded.notes.is_empty(), "of what nobody set: {:?}", loaded.notes);
        let config = loaded.config;
        assert_eq!(config.listeners().bind[0].host, "127.0.0.1");
        assert_eq!(config.log_dirs(), ["./weir-data"]);
        assert_eq!(config.metadata_log_dir(), "./weir-data");
        assert_eq!(config.memory_budget_bytes(), 256 << 20);
        assert_eq!(config.http_listener(), Some(("127.0.0.1".to_owned(), 9404)));
        assert!(config.get(keys::AUTO_CREATE_TOPICS_ENABLE));
        assert_eq!(config.get(keys::NUM_PARTITIONS), 1);
    }

    #[test]
    fn every_wrong_value_is_reported_at_once() {
        let errors = load("num.partitions=0\nlog.retention.ms=x\nmemory.budget.bytes=1m").unwrap_err();
        assert_eq!(errors.0.len(), 3, "{errors}");
        assert!(errors.to_string().contains("write 1MiB"));
    }

    #[test]
    fn unknown_properties_warn_with_the_nearest_name() {
        let loaded = load("num.partition=3\nretention.ms=5\nrsm.config.bucket=b\nlistener.name.plaintext.ssl.keystore.type=PEM\nlistener.name.plaintext.max.connections=5").unwrap();
        let text =
            |name: &str| loaded.notes.iter().find(|note| note.property == name).map(|note| note.text.clone());
        assert!(text("num.partition").unwrap().contains("did you mean num.partitions?"));
        assert!(text("retention.ms").unwrap().contains("the broker property is log.retention.ms"));
        assert!(text("rsm.config.bucket").unwrap().contains("remote log storage"));
        assert!(text("listener.name.plaintext.ssl.keystore.type").unwrap().contains("TLS"));
        assert!(text("listener.name.plaintext.max.connections").unwrap().contains("all listeners"));
    }

    #[test]
    fn dynamic_values_win_over_static_ones_and_broken_ones_are_left_out() {
        let config = load("message.max.bytes=1000\nbroker.id=4").unwrap().config;
        assert_eq!(config.node_id(), 4);
        let defaults = ConfigMap::from(vec![("message.max.bytes".to_owned(), "2000".to_owned())]);
        let own = ConfigMap::from(vec![
            ("message.max.bytes".to_owned(), "3000".to_owned()),
            ("max.connections".to_owned(), "many".to_owned()),
            ("num.partitions".to_owned(), "7".to_owned()),
        ]);
        let (changed, notes) = config.with_dynamic(&defaults, &own);
        assert_eq!(changed.get(keys::MESSAGE_MAX_BYTES), 3000);
        assert_eq!(changed.get(keys::NUM_PARTITIONS), 1);
        assert_eq!(changed.node_id(), 4);
        assert_eq!(notes.len(), 2, "{notes:?}");
        let (changed, _) = changed.with_dynamic(&defaults, &ConfigMap::new());
        assert_eq!(changed.get(keys::MESSAGE_MAX_BYTES), 2000);
        let (changed, _) = changed.with_dynamic(&ConfigMap::new(), &ConfigMap::new());
        assert_eq!(changed.get(keys::MESSAGE_MAX_BYTES), 1000);
    }

    #[test]
    fn a_default_that_follows_from_the_budget_gives_way_to_what_is_written() {
        let config = load("max.groups=7").unwrap().config;
        let config = config.with_defaults(&[("max.groups", 1), ("max.partitions", 3), ("nonsense", 4)]);
        assert_eq!((config.get(keys::MAX_GROUPS), config.get(keys::MAX_PARTITIONS)), (7, 3));
        let (changed, _) = config.with_dynamic(&ConfigMap::new(), &ConfigMap::new());
        assert_eq!(changed.get(keys::MAX_PARTITIONS), 3);
        let wanted = crate::properties::Describe::default();
        let described = crate::properties::describe_broker(&changed, &wanted);
        let row = described.iter().find(|entry| entry.name == "max.partitions").unwrap();
        assert_eq!(row.value.as_deref(), Some("3"));
        assert_eq!(row.source, crate::properties::ConfigSource::Default);
    }
}
