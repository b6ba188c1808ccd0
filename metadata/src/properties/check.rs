//! Checks of a whole configuration: what does not fit together, what is not served, and what deserves a note.

use super::broker_config::{BrokerConfig, Note, NoteLevel, note, parse_ip_overrides};
use super::keys;
use super::listeners::split_host_port;
use crate::MetadataError;

/// Looks at properties that need more than their own row.
pub(super) fn check(config: &BrokerConfig, errors: &mut Vec<MetadataError>, notes: &mut Vec<Note>) {
    not_served(config, errors);
    zookeeper(config, errors, notes);
    quorum_of_one(config, errors);
    consistency(config, errors);
    directories(config, errors, notes);
    replication(config, notes);
    receive_window(config, notes);
    for listener in &config.listeners().controller {
        notes.push(note(
            NoteLevel::Info,
            "controller.listener.names",
            format!("the listener {listener} is not opened: the controller is in this process"),
        ));
    }
    if config.get(keys::LOG_CLEANUP_POLICY).iter().any(|policy| policy == "compact") {
        notes.push(note(
            NoteLevel::Warning,
            "log.cleanup.policy",
            "compact is accepted, and topics keep every record until log compaction is served".to_owned(),
        ));
    }
}

fn not_served(config: &BrokerConfig, errors: &mut Vec<MetadataError>) {
    let mut refuse = |name: &str, what: &str, remedy: &str| {
        errors.push(MetadataError::NotServed {
            name: name.to_owned(),
            what: what.to_owned(),
            remedy: remedy.to_owned(),
        });
    };
    let roles = config.get(keys::PROCESS_ROLES);
    let has = |role: &str| roles.iter().any(|given| given == role);
    if has("broker") && !has("controller") {
        refuse(
            "process.roles",
            "a broker beside controllers of their own",
            "joining a controller quorum is not served yet; write process.roles=broker,controller or leave it out",
        );
    }
    if has("controller") && !has("broker") {
        refuse(
            "process.roles",
            "a controller alone",
            "this server is broker and controller; write process.roles=broker,controller or leave it out",
        );
    }
    if config.get(keys::REMOTE_LOG_STORAGE_SYSTEM_ENABLE) {
        refuse("remote.log.storage.system.enable", "remote log storage", "it is not served yet; write false");
    }
    if !config.get(keys::CONFIG_PROVIDERS).is_empty() {
        refuse(
            "config.providers",
            "values from elsewhere",
            "write the values themselves, or pass them with --override",
        );
    }
    if !config.get(keys::AUTHORIZER_CLASS_NAME).is_empty() {
        refuse(
            "authorizer.class.name",
            "authorization",
            "it is not served yet, and starting without it would let everybody in; remove the property if that is meant",
        );
    }
}

/// The file that Kafka 3.9 ships names a ZooKeeper on this machine, which this server takes the place of. An ensemble of
/// other machines has topics that would not be found here.
fn zookeeper(config: &BrokerConfig, errors: &mut Vec<MetadataError>, notes: &mut Vec<Note>) {
    const NAME: &str = keys::ZOOKEEPER_CONNECT.name;
    let connect = config.get(keys::ZOOKEEPER_CONNECT).unwrap_or_default();
    let servers = connect.split('/').next().unwrap_or_default();
    let is_here = |server: &str| {
        let host = split_host_port(server).map_or_else(|| server.to_owned(), |(host, _)| host);
        host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    };
    if connect.is_empty() {
    } else if servers.split(',').all(|server| is_here(server.trim())) {
        let text = "no ZooKeeper is asked: this server keeps its own KRaft metadata log, and topics that are in a ZooKeeper \
                    are not known to it";
        notes.push(note(NoteLevel::Warning, NAME, text.to_owned()));
    } else {
        errors.push(MetadataError::NotServed {
            name: NAME.to_owned(),
            what: "a ZooKeeper ensemble".to_owned(),
            remedy: "this server keeps its own KRaft metadata log; remove the property, and migrate a ZooKeeper cluster \
                     with Kafka 3.9 first"
                .to_owned(),
        });
    }
}

fn quorum_of_one(config: &BrokerConfig, errors: &mut Vec<MetadataError>) {
    let voters = config.get(keys::CONTROLLER_QUORUM_VOTERS);
    let bootstrap = config.get(keys::CONTROLLER_QUORUM_BOOTSTRAP_SERVERS);
    for (name, count) in [
        (keys::CONTROLLER_QUORUM_VOTERS.name, voters.len()),
        (keys::CONTROLLER_QUORUM_BOOTSTRAP_SERVERS.name, bootstrap.len()),
    ] {
        if count > 1 {
            errors.push(MetadataError::NotServed {
                name: name.to_owned(),
                what: format!("a quorum of {count} controllers"),
                remedy: "this server is a quorum of one; name only this node or leave it out".to_owned(),
            });
        }
    }
    if let [voter] = voters.as_slice() {
        let id = voter.split_once('@').and_then(|(id, _)| id.trim().parse::<i32>().ok());
        match id {
            Some(id) if id == config.node_id() => {}
            Some(id) => errors.push(MetadataError::Conflict(format!(
                "controller.quorum.voters names the controller {id}, and node.id is {}; this server must be its own controller",
                config.node_id()
            ))),
            None => errors.push(MetadataError::InvalidValue {
                name: keys::CONTROLLER_QUORUM_VOTERS.name.to_owned(),
                value: voter.clone(),
                reason: "expected id@host:port".to_owned(),
            }),
        }
    }
    let broker_id = config.get(keys::BROKER_ID);
    if config.written().get(keys::BROKER_ID.name).is_some()
        && broker_id != config.node_id()
        && !errors.iter().any(is_about_the_id)
    {
        errors.push(MetadataError::Conflict(format!(
            "node.id={} and broker.id={broker_id} name the same thing and must be equal",
            config.node_id()
        )));
    }
}

/// Whether an error is about the value of `node.id` or of its older name.
pub(super) fn is_about_the_id(error: &MetadataError) -> bool {
    matches!(error, MetadataError::InvalidValue { name, .. }
        if name == keys::NODE_ID.name || name == keys::BROKER_ID.name)
}

fn consistency(config: &BrokerConfig, errors: &mut Vec<MetadataError>) {
    let mut at_least_or_minus_one = |name: &str, value: Option<i64>, unit: &str| {
        if value == Some(0) {
            errors.push(MetadataError::InvalidValue {
                name: name.to_owned(),
                value: "0".to_owned(),
                reason: format!("value must be -1 for no limit, or at least 1 {unit}"),
            });
        }
    };
    at_least_or_minus_one(keys::LOG_RETENTION_MS.name, config.get(keys::LOG_RETENTION_MS), "ms");
    at_least_or_minus_one(
        keys::LOG_RETENTION_MINUTES.name,
        config.get(keys::LOG_RETENTION_MINUTES).map(i64::from),
        "minute",
    );
    at_least_or_minus_one(
        keys::LOG_RETENTION_HOURS.name,
        Some(config.get(keys::LOG_RETENTION_HOURS).into()),
        "hour",
    );
    let (min, max) =
        (config.get(keys::GROUP_MIN_SESSION_TIMEOUT_MS), config.get(keys::GROUP_MAX_SESSION_TIMEOUT_MS));
    if min > max {
        errors.push(MetadataError::Conflict(format!(
            "group.min.session.timeout.ms={min} is more than group.max.session.timeout.ms={max}"
        )));
    }
    let overrides = config.get(keys::MAX_CONNECTIONS_PER_IP_OVERRIDES);
    if parse_ip_overrides(&overrides).is_none() {
        errors.push(MetadataError::InvalidValue {
            name: keys::MAX_CONNECTIONS_PER_IP_OVERRIDES.name.to_owned(),
            value: overrides,
            reason: "expected address:count,address:count".to_owned(),
        });
    }
    let http = config.get(keys::HTTP_LISTENER);
    match split_host_port(&http) {
        None if !http.is_empty() => errors.push(MetadataError::InvalidValue {
            name: keys::HTTP_LISTENER.name.to_owned(),
            value: http,
            reason: "expected host:port, or nothing for no listener".to_owned(),
        }),
        Some((host, port)) if port != 0 => {
            if let Some(listener) =
                config.listeners().bind.iter().find(|listener| listener.port == port && listener.host == host)
            {
                errors.push(MetadataError::Conflict(format!(
                    "http.listener and the listener {} have the same address, port {port}",
                    listener.name
                )));
            }
        }
        _ => {}
    }
}

fn directories(config: &BrokerConfig, errors: &mut Vec<MetadataError>, notes: &mut Vec<Note>) {
    let dirs = config.log_dirs();
    if [keys::LOG_DIR.name, keys::LOG_DIRS.name].iter().all(|name| config.written().get(name).is_some()) {
        let text = format!("without effect: {} is written too, and counts", keys::LOG_DIRS.name);
        notes.push(note(NoteLevel::Warning, keys::LOG_DIR.name, text));
    }
    if config.get(keys::LOG_DIRS).is_some_and(|dirs| dirs.is_empty()) {
        errors.push(MetadataError::InvalidValue {
            name: keys::LOG_DIRS.name.to_owned(),
            value: String::new(),
            reason: "at least one directory must be named".to_owned(),
        });
        return;
    }
    for (index, dir) in dirs.iter().enumerate() {
        if dir.is_empty() || dirs.iter().take(index).any(|other| other == dir) {
            errors.push(MetadataError::InvalidValue {
                name: keys::LOG_DIRS.name.to_owned(),
                value: dirs.join(","),
                reason: "each directory must be named once, and none may be empty".to_owned(),
            });
            return;
        }
    }
}

/// Written counts that one node cannot meet.
fn replication(config: &BrokerConfig, notes: &mut Vec<Note>) {
    let mut too_many = |name: &str, value: i64| {
        if value > 1 && config.written().get(name).is_some() {
            notes.push(note(
                NoteLevel::Warning,
                name,
                format!("{value} replicas cannot be kept by a single node; 1 is used"),
            ));
        }
    };
    too_many(keys::DEFAULT_REPLICATION_FACTOR.name, config.get(keys::DEFAULT_REPLICATION_FACTOR).into());
    too_many(
        keys::OFFSETS_TOPIC_REPLICATION_FACTOR.name,
        config.get(keys::OFFSETS_TOPIC_REPLICATION_FACTOR).into(),
    );
    let min_insync = config.get(keys::MIN_INSYNC_REPLICAS);
    if min_insync > 1 && config.written().get(keys::MIN_INSYNC_REPLICAS.name).is_some() {
        notes.push(note(
            NoteLevel::Warning,
            keys::MIN_INSYNC_REPLICAS.name,
            format!("{min_insync} replicas cannot be kept by a single node; acks=all is answered when the one has the records"),
        ));
    }
}

/// A window that is fixed below what one batch of the usual largest size takes.
fn receive_window(config: &BrokerConfig, notes: &mut Vec<Note>) {
    const NAME: &str = keys::SOCKET_RECEIVE_BUFFER_BYTES.name;
    let bytes = config.get(keys::SOCKET_RECEIVE_BUFFER_BYTES);
    if (1..1 << 20).contains(&bytes) && config.written().get(NAME).is_some() {
        notes.push(note(
            NoteLevel::Info,
            NAME,
            format!(
                "{bytes} fixes the receive window of every connection; without it the system grows the window under \
                 load, and large batches take less CPU"
            ),
        ));
    }
}

#[cfg(test)]
mod tests {
    use crate::properties::{BrokerConfig, PropertySet};

    fn fails(text: &str, part: &str) {
        let set = PropertySet::parse(text.as_bytes()).unwrap();
        let errors = BrokerConfig::from_properties(&set).unwrap_err().to_string();
        assert!(errors.contains(part), "{text}: {errors}");
    }

    #[test]
    fn what_is_not_served_refuses_the_start_and_says_what_to_write() {
        fails("zookeeper.connect=localhost:2181,z2:2181/kafka", "remove the property");
        fails("zookeeper.connect=10.0.0.1", "remove the property");
        fails("process.roles=broker", "process.roles=broker,controller");
        fails("process.roles=controller", "process.roles=broker,controller");
        fails("remote.log.storage.system.enable=true", "not served yet");
        fails("config.providers=file", "--override");
        fails(
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "let everybody in",
        );
        fails("controller.quorum.voters=1@a:1,2@b:1,3@c:1", "a quorum of 3 controllers");
        fails("node.id=1\ncontroller.quorum.voters=2@a:1", "names the controller 2");
    }

    #[test]
    fn what_does_not_fit_together_is_named() {
        fails("node.id=1\nbroker.id=2", "must be equal");
        fails("broker.id=-1", "invalid value -1 for node.id: value must be at least 0");
        fails("log.retention.ms=0", "at least 1 ms");
        fails("group.min.session.timeout.ms=10\ngroup.max.session.timeout.ms=5", "is more than");
        fails("max.connections.per.ip.overrides=nonsense", "address:count");
        fails("http.listener=9404", "expected host:port");
        fails("listeners=PLAINTEXT://127.0.0.1:9404", "the same address");
        fails("log.dirs=/a,/b,/a", "named once");
        fails("log.dirs=", "empty value for log.dirs: at least one directory");
    }

    #[test]
    fn one_fault_is_one_line() {
        for (text, error) in [
            ("node.id=x", "invalid value x for node.id: not a number of type INT"),
            ("broker.id=x", "invalid value x for broker.id: not a number of type INT"),
            ("node.id=-1", "invalid value -1 for node.id: value must be at least 0"),
            ("node.id=1\nbroker.id=x", "invalid value x for broker.id: not a number of type INT"),
            (
                "process.roles=controller\nlisteners=CONTROLLER://:9093\ncontroller.listener.names=CONTROLLER",
                "process.roles asks for a controller alone; this server is broker and controller; write \
                 process.roles=broker,controller or leave it out",
            ),
        ] {
            let set = PropertySet::parse(text.as_bytes()).unwrap();
            assert_eq!(BrokerConfig::from_properties(&set).unwrap_err().to_string(), error);
        }
    }

    #[test]
    fn replicas_that_one_node_cannot_keep_are_noted() {
        let set = PropertySet::parse(
            b"default.replication.factor=3\noffsets.topic.replication.factor=3\nmin.insync.replicas=2",
        )
        .unwrap();
        let notes = BrokerConfig::from_properties(&set).unwrap().notes;
        assert_eq!(notes.iter().filter(|note| note.text.contains("1 is used")).count(), 2);
        assert!(notes.iter().any(|note| note.property == "min.insync.replicas"));
    }

    #[test]
    fn a_zookeeper_of_this_machine_is_what_this_server_takes_the_place_of() {
        for connect in ["localhost:2181", "127.0.0.1:2181,[::1]:2182/kafka", "localhost"] {
            let set = PropertySet::parse(format!("zookeeper.connect={connect}").as_bytes()).unwrap();
            let notes = BrokerConfig::from_properties(&set).unwrap().notes;
            assert!(
                notes.iter().any(|note| note.text.contains("no ZooKeeper is asked")),
                "{connect}: {notes:?}"
            );
        }
    }

    #[test]
    fn of_two_names_of_the_directories_the_one_that_counts_is_told() {
        let set = PropertySet::parse(b"log.dir=/a\nlog.dirs=/b").unwrap();
        let loaded = BrokerConfig::from_properties(&set).unwrap();
        assert_eq!(loaded.config.log_dirs(), ["/b"]);
        assert!(loaded.notes.iter().any(|note| note.property == "log.dir"), "{:?}", loaded.notes);
    }

    #[test]
    fn a_receive_window_that_is_fixed_small_is_noted() {
        let noted = |value: &str| {
            let text = format!("socket.receive.buffer.bytes={value}");
            let set = PropertySet::parse(text.as_bytes()).unwrap();
            let notes = BrokerConfig::from_properties(&set).unwrap().notes;
            notes.iter().any(|note| note.property == "socket.receive.buffer.bytes")
        };
        assert!(noted("102400"));
        assert!(!noted("-1"));
        assert!(!noted("4194304"));
    }
}
