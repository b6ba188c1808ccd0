//! Listeners: where the server listens, what clients are told, and which security protocol each listener speaks.

use std::collections::BTreeMap;
use std::fmt;

use super::file::PropertySet;
use crate::MetadataError;

/// Kafka's security protocols with their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecurityProtocol {
    /// Neither encryption nor authentication.
    Plaintext,
    /// TLS.
    Ssl,
    /// SASL in plain text.
    SaslPlaintext,
    /// SASL over TLS.
    SaslSsl,
}

impl SecurityProtocol {
    /// The number in registrations.
    pub fn id(self) -> i16 {
        match self {
            Self::Plaintext => 0,
            Self::Ssl => 1,
            Self::SaslPlaintext => 2,
            Self::SaslSsl => 3,
        }
    }

    /// Kafka's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plaintext => "PLAINTEXT",
            Self::Ssl => "SSL",
            Self::SaslPlaintext => "SASL_PLAINTEXT",
            Self::SaslSsl => "SASL_SSL",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        [Self::Plaintext, Self::Ssl, Self::SaslPlaintext, Self::SaslSsl]
            .into_iter()
            .find(|protocol| protocol.name().eq_ignore_ascii_case(name))
    }
}

/// One `NAME://host:port`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    /// Its name in upper case.
    pub name: String,
    /// Host name or address without brackets. Empty: every interface when listening, and the machine's own host name
    /// when advertised.
    pub host: String,
    /// 0: any free port when listening, and that port when advertised.
    pub port: u16,
    /// What it speaks.
    pub security_protocol: SecurityProtocol,
}

impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, host, port, .. } = self;
        if host.contains(':') {
            write!(f, "{name}://[{host}]:{port}")
        } else {
            write!(f, "{name}://{host}:{port}")
        }
    }
}

impl Listener {
    /// Whether it stands for every interface.
    pub fn is_wildcard(&self) -> bool {
        matches!(self.host.as_str(), "" | "0.0.0.0" | "::")
    }
}

/// The listeners of a broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listeners {
    /// Where to listen, controller listeners left out.
    pub bind: Vec<Listener>,
    /// What clients are told, one per listener of `bind` that clients may know.
    pub advertised: Vec<Listener>,
    /// Listeners that are meant for controllers: accepted and not opened.
    pub controller: Vec<Listener>,
    /// The listener of `advertised` that brokers use among themselves.
    pub inter_broker: String,
}

/// What the listener properties say, before they are put together.
pub(super) struct ListenerProperties<'a> {
    pub(super) listeners: &'a [String],
    pub(super) advertised: Option<&'a [String]>,
    pub(super) protocol_map: &'a str,
    pub(super) controller_names: &'a [String],
    pub(super) inter_broker_name: Option<&'a str>,
    pub(super) inter_broker_protocol: &'a str,
    /// As written, to see what was given and what is a default.
    pub(super) written: &'a PropertySet,
}

impl Listeners {
    /// Puts the listener properties together and checks them as Kafka does.
    pub(super) fn resolve(properties: &ListenerProperties<'_>) -> Result<Self, Vec<MetadataError>> {
        let mut errors = Vec::new();
        let controller_names: Vec<String> =
            properties.controller_names.iter().map(|name| name.to_ascii_uppercase()).collect();
        let mut map = match protocol_map(properties.protocol_map) {
            Ok(map) => map,
            Err(error) => return Err(vec![error]),
        };
        if properties.written.get("listener.security.protocol.map").is_none() {
            // Kafka gives controller listeners PLAINTEXT as long as the map itself is not written.
            for name in &controller_names {
                map.entry(name.clone()).or_insert(SecurityProtocol::Plaintext);
            }
        }
        let mut parse = |property: &str, texts: &[String]| -> Vec<Listener> {
            let mut listeners: Vec<Listener> = Vec::new();
            for text in texts {
                match listener(property, text, &map) {
                    Ok(listener) if listeners.iter().any(|other| other.name == listener.name) => {
                        errors.push(conflict(format!(
                            "{property}: each listener must have a different name, {} is twice",
                            listener.name
                        )))
                    }
                    Ok(listener) => listeners.push(listener),
                    Err(error) => errors.push(error),
                }
            }
            listeners
        };
        let all = parse("listeners", properties.listeners);
        let advertised = properties.advertised.map(|texts| parse("advertised.listeners", texts));
        if !errors.is_empty() {
            return Err(errors);
        }
        if all.is_empty() {
            errors.push(conflict("listeners must name at least one listener".to_owned()));
        }
        same_ports(&all, &mut errors);
        let is_controller = |listener: &Listener| controller_names.contains(&listener.name);
        let (controller, bind): (Vec<_>, Vec<_>) = all.into_iter().partition(is_controller);
        if bind.is_empty() && errors.is_empty() {
            errors.push(conflict(
                "listeners must name at least one listener that is not in controller.listener.names"
                    .to_owned(),
            ));
        }
        for listener in &bind {
            if listener.security_protocol != SecurityProtocol::Plaintext {
                errors.push(MetadataError::NotServed {
                    name: "listeners".to_owned(),
                    what: format!("{} on the listener {}", listener.security_protocol.name(), listener.name),
                    remedy: "only PLAINTEXT listeners are served yet; remove the listener or map it to PLAINTEXT in \
                             listener.security.protocol.map"
                        .to_owned(),
                });
            }
        }
        let explicit = advertised.is_some();
        let advertised: Vec<Listener> = advertised
            .unwrap_or_else(|| bind.clone())
            .into_iter()
            .filter(|listener| !is_controller(listener))
            .collect();
        for listener in &advertised {
            if !bind.iter().any(|bound| bound.name == listener.name) {
                errors.push(conflict(format!(
                    "advertised.listeners names {}, which is not one of listeners",
                    listener.name
                )));
            }
            if listener.host == "0.0.0.0" || listener.host == "::" {
                let given = if explicit {
                    "advertised.listeners"
                } else {
                    "listeners, without advertised.listeners,"
                };
                errors.push(conflict(format!(
                    "{given} tells clients {listener}, an address that they cannot route to; set advertised.listeners"
                )));
            }
        }
        let inter_broker = match properties.inter_broker_name {
            Some(name) => {
                if properties.written.get("security.inter.broker.protocol").is_some() {
                    errors.push(conflict(
                        "only one of inter.broker.listener.name and security.inter.broker.protocol should be set"
                            .to_owned(),
                    ));
                }
                name.to_ascii_uppercase()
            }
            None => properties.inter_broker_protocol.to_ascii_uppercase(),
        };
        let inter_broker = if advertised.iter().any(|listener| listener.name == inter_broker) {
            inter_broker
        } else if properties.inter_broker_name.is_none()
            && properties.written.get("security.inter.broker.protocol").is_none()
            && advertised.len() == 1
        {
            // One listener of another name: there is nothing to choose.
            advertised.first().map(|listener| listener.name.clone()).unwrap_or_default()
        } else {
            errors.push(conflict(format!(
                "the inter-broker listener {inter_broker} must be one of advertised.listeners; set \
                 inter.broker.listener.name"
            )));
            inter_broker
        };
        if errors.is_empty() { Ok(Self { bind, advertised, controller, inter_broker }) } else { Err(errors) }
    }
}

fn conflict(text: String) -> MetadataError {
    MetadataError::Conflict(text)
}

fn same_ports(listeners: &[Listener], errors: &mut Vec<MetadataError>) {
    for (index, listener) in listeners.iter().enumerate() {
        for other in listeners.iter().skip(index + 1) {
            let same_place = listener.host == other.host || (listener.is_wildcard() && other.is_wildcard());
            if listener.port != 0 && listener.port == other.port && same_place {
                errors.push(conflict(format!(
                    "listeners {} and {} have the same address, port {}",
                    listener.name, other.name, listener.port
                )));
            }
        }
    }
}

fn protocol_map(text: &str) -> Result<BTreeMap<String, SecurityProtocol>, MetadataError> {
    let invalid = |value: &str, reason: String| MetadataError::InvalidValue {
        name: "listener.security.protocol.map".to_owned(),
        value: value.to_owned(),
        reason,
    };
    let mut map = BTreeMap::new();
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let (name, protocol) = pair.rsplit_once(':').ok_or_else(|| {
            invalid(pair, "expected pairs of NAME:PROTOCOL with commas between them".to_owned())
        })?;
        let known = SecurityProtocol::parse(protocol.trim()).ok_or_else(|| {
            invalid(
                pair,
                format!(
                    "no security protocol with name {protocol}; PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"
                ),
            )
        })?;
        if map.insert(name.trim().to_ascii_uppercase(), known).is_some() {
            return Err(invalid(pair, format!("the listener {name} is mapped twice")));
        }
    }
    Ok(map)
}

fn listener(
    property: &str,
    text: &str,
    map: &BTreeMap<String, SecurityProtocol>,
) -> Result<Listener, MetadataError> {
    let invalid = |reason: String| MetadataError::InvalidValue {
        name: property.to_owned(),
        value: text.to_owned(),
        reason,
    };
    let (name, address) =
        text.split_once("://").ok_or_else(|| invalid("expected NAME://host:port".to_owned()))?;
    let name = name.trim().to_ascii_uppercase();
    if name.is_empty() {
        return Err(invalid("expected NAME://host:port".to_owned()));
    }
    let (host, port) = split_host_port(address)
        .ok_or_else(|| invalid("expected NAME://host:port, the port from 0 to 65535".to_owned()))?;
    let security_protocol = *map.get(&name).ok_or_else(|| {
        invalid(format!(
            "no security protocol defined for listener {name}; add it to listener.security.protocol.map"
        ))
    })?;
    Ok(Listener { name, host, port, security_protocol })
}

/// `host:port`, `[v6]:port`, `v6:port` or `:port`.
pub(super) fn split_host_port(address: &str) -> Option<(String, u16)> {
    let (host, port) = address.trim().rsplit_once(':')?;
    let port = port.parse().ok()?;
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']')?,
        None => host,
    };
    let legal = |c: char| c.is_ascii_alphanumeric() || "-%._:".contains(c);
    host.chars().all(legal).then(|| (host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(text: &str) -> Result<Listeners, Vec<String>> {
        let set = PropertySet::parse(text.as_bytes()).unwrap();
        crate::properties::BrokerConfig::from_properties(&set)
            .map(|loaded| loaded.config.listeners().clone())
            .map_err(|errors| errors.0.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_combined_nodes_file_opens_its_broker_listeners_only() {
        let listeners = resolve(
            "process.roles=broker,controller\nnode.id=1\nlisteners=PLAINTEXT://:9092,CONTROLLER://:9093\n\
             inter.broker.listener.name=PLAINTEXT\nadvertised.listeners=PLAINTEXT://kafka.example:9092,CONTROLLER://localhost:9093\n\
             controller.listener.names=CONTROLLER\n\
             listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL\ncontroller.quorum.voters=1@localhost:9093",
        )
        .unwrap();
        assert_eq!(listeners.bind.len(), 1);
        assert_eq!(listeners.bind[0].host, "");
        assert_eq!(listeners.advertised.len(), 1);
        assert_eq!(listeners.advertised[0].host, "kafka.example");
        assert_eq!(listeners.controller[0].port, 9093);
        assert_eq!(listeners.inter_broker, "PLAINTEXT");
    }

    #[test]
    fn several_listeners_ipv6_and_port_0() {
        let listeners = resolve(
            "listeners=IN://[::1]:0,OUT://:9094\nadvertised.listeners=in://[fe80::1]:19092,OUT://h:9094\n\
             listener.security.protocol.map=in:plaintext,OUT:PLAINTEXT\ninter.broker.listener.name=in",
        )
        .unwrap();
        assert_eq!((listeners.bind[0].host.as_str(), listeners.bind[0].port), ("::1", 0));
        assert_eq!((listeners.advertised[0].host.as_str(), listeners.advertised[0].port), ("fe80::1", 19092));
        assert_eq!(listeners.inter_broker, "IN");
    }

    #[test]
    fn controller_listeners_need_no_map_entry() {
        let listeners =
            resolve("listeners=PLAINTEXT://:9092,CTL://:9093\ncontroller.listener.names=CTL").unwrap();
        assert_eq!(listeners.controller[0].name, "CTL");
    }

    #[test]
    fn what_cannot_work_is_said() {
        let fails = |text: &str, part: &str| {
            let errors = resolve(text).unwrap_err();
            assert!(errors.iter().any(|error| error.contains(part)), "{text}: {errors:?}");
        };
        fails("listeners=SSL://:9092", "SSL on the listener SSL");
        fails(
            "listeners=SASL_PLAINTEXT://:9092\nsecurity.inter.broker.protocol=SASL_PLAINTEXT",
            "SASL_PLAINTEXT",
        );
        fails("listeners=PLAINTEXT://:9092,PLAINTEXT://:9093", "different name");
        fails("listeners=FOO://:9092", "no security protocol defined for listener FOO");
        fails("listeners=PLAINTEXT://:99999", "port from 0 to 65535");
        fails("listeners=localhost:9092", "expected NAME://host:port");
        fails("listeners=PLAINTEXT://0.0.0.0:9092", "cannot route to");
        fails(
            "listeners=PLAINTEXT://[::]:9092",
            "PLAINTEXT://[::]:9092, an address that they cannot route to",
        );
        fails(
            "listeners=PLAINTEXT://:9092\nadvertised.listeners=OTHER://h:1\nlistener.security.protocol.map=PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT",
            "not one of listeners",
        );
        fails(
            "listeners=A://:1,B://:1\nlistener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT\ninter.broker.listener.name=A",
            "same address",
        );
        fails(
            "listeners=CONTROLLER://:9093\ncontroller.listener.names=CONTROLLER",
            "at least one listener that is not",
        );
        fails("listener.security.protocol.map=PLAINTEXT:NONE", "no security protocol with name NONE");
        fails(
            "listeners=A://:1,B://:2\nlistener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT",
            "inter-broker listener PLAINTEXT",
        );
    }
}
