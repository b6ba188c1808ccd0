//! Property files as Kafka and its distributions ship and write them: taken as they are, or refused with the property
//! that asks for something this server does not serve.

use weir_metadata::properties::{BrokerConfig, Loaded, NoteLevel, PropertySet, StartErrors, keys};

fn load(text: &str) -> Result<Loaded, StartErrors> {
    BrokerConfig::from_properties(&PropertySet::parse(text.as_bytes()).unwrap())
}

fn refusals(text: &str) -> Vec<String> {
    load(text).unwrap_err().0.iter().map(ToString::to_string).collect()
}

fn warned(loaded: &Loaded) -> Vec<&str> {
    let warnings = loaded.notes.iter().filter(|note| note.level == NoteLevel::Warning);
    warnings.map(|note| note.property.as_str()).collect()
}

/// What `config/kraft/server.properties` of 3.9 and `config/server.properties` of 4.x set.
const KAFKAS_OWN: &str = "process.roles=broker,controller\nnode.id=1\n\
    listeners=PLAINTEXT://:9092,CONTROLLER://:9093\ninter.broker.listener.name=PLAINTEXT\n\
    advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\ncontroller.listener.names=CONTROLLER\n\
    listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL\n\
    num.network.threads=3\nnum.io.threads=8\nsocket.send.buffer.bytes=102400\nsocket.receive.buffer.bytes=102400\n\
    socket.request.max.bytes=104857600\nlog.dirs=/tmp/kraft-combined-logs\nnum.partitions=1\n\
    num.recovery.threads.per.data.dir=1\noffsets.topic.replication.factor=1\n\
    share.coordinator.state.topic.replication.factor=1\nshare.coordinator.state.topic.min.isr=1\n\
    transaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\nlog.retention.hours=168\n\
    log.segment.bytes=1073741824\nlog.retention.check.interval.ms=300000\n";

#[test]
fn the_files_that_kafka_ships_are_taken_without_a_warning() {
    for quorum in
        ["controller.quorum.voters=1@localhost:9093", "controller.quorum.bootstrap.servers=localhost:9093"]
    {
        let loaded = load(&format!("{KAFKAS_OWN}{quorum}\n")).unwrap();
        assert!(loaded.notes.iter().all(|note| note.level == NoteLevel::Info), "{:?}", loaded.notes);
        assert_eq!(loaded.config.listeners().bind.len(), 1);
        assert_eq!(loaded.config.log_dirs(), ["/tmp/kraft-combined-logs"]);
        let threads = loaded.notes.iter().find(|note| note.property == "num.io.threads").unwrap();
        assert!(threads.text.contains("worker threads"), "what replaces it: {threads}");
    }
}

#[test]
fn the_file_of_a_broker_with_zookeeper_that_kafka_3_9_ships_is_taken_with_one_warning() {
    let loaded = load(
        "broker.id=0\nnum.network.threads=3\nnum.io.threads=8\nsocket.send.buffer.bytes=102400\n\
         socket.receive.buffer.bytes=102400\nsocket.request.max.bytes=104857600\nlog.dirs=/tmp/kafka-logs\n\
         num.partitions=1\nnum.recovery.threads.per.data.dir=1\noffsets.topic.replication.factor=1\n\
         transaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\nlog.retention.hours=168\n\
         log.retention.check.interval.ms=300000\nzookeeper.connect=localhost:2181\n\
         zookeeper.connection.timeout.ms=18000\ngroup.initial.rebalance.delay.ms=0\n",
    )
    .unwrap();
    assert_eq!(warned(&loaded), ["zookeeper.connect"]);
    assert_eq!((loaded.config.node_id(), loaded.config.listeners().bind[0].port), (0, 9092));
}

#[test]
fn a_production_file_of_three_nodes_starts_one_and_says_what_one_cannot_keep() {
    let loaded = load(&format!(
        "{KAFKAS_OWN}log.dirs=/data/1,/data/2,/data/3\ndefault.replication.factor=3\nmin.insync.replicas=2\n\
         offsets.topic.replication.factor=3\ntransaction.state.log.replication.factor=3\n\
         transaction.state.log.min.isr=2\nunclean.leader.election.enable=false\nauto.create.topics.enable=false\n\
         num.replica.fetchers=4\nreplica.lag.time.max.ms=30000\nqueued.max.requests=500\nbroker.rack=a\n\
         log.cleaner.threads=2\nlog.cleaner.dedupe.buffer.size=134217728\nmetadata.log.dir=/metadata\n\
         listeners=INTERNAL://0.0.0.0:9094,EXTERNAL://0.0.0.0:9092,CONTROLLER://:9093\n\
         advertised.listeners=INTERNAL://10.0.0.5:9094,EXTERNAL://kafka.example:9092\n\
         listener.security.protocol.map=INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT\n\
         inter.broker.listener.name=INTERNAL\n"
    ))
    .unwrap();
    // The file gives some properties twice, which is worth a word too.
    for property in ["default.replication.factor", "offsets.topic.replication.factor", "min.insync.replicas"]
    {
        let notes: Vec<_> = loaded.notes.iter().filter(|note| note.property == property).collect();
        assert!(notes.iter().any(|note| note.text.contains("cannot be kept by a single node")), "{notes:?}");
    }
    for property in ["num.replica.fetchers", "queued.max.requests", "log.cleaner.threads"] {
        assert!(loaded.notes.iter().any(|note| note.property == property), "{property}");
    }
    let config = loaded.config;
    assert_eq!(config.default_replication_factor(), 1);
    assert_eq!(config.topic_defaults().effective_min_insync_replicas(1), 1);
    assert_eq!((config.log_dirs().len(), config.metadata_log_dir().as_str()), (3, "/metadata"));
    let names: Vec<_> = config.listeners().advertised.iter().map(|listener| listener.name.as_str()).collect();
    assert_eq!((names, config.listeners().inter_broker.as_str()), (vec!["INTERNAL", "EXTERNAL"], "INTERNAL"));
    assert!(!config.get(keys::AUTO_CREATE_TOPICS_ENABLE));
}

#[test]
fn what_distributions_add_is_told_apart_from_a_slip_of_the_pen() {
    let loaded = load(
        "node.id=1\nconfluent.metadata.topic.replication.factor=3\nconfluent.license=x\n\
         metric.reporters=io.confluent.metrics.reporter.ConfluentMetricsReporter\n\
         strimzi.authorization.kafka.cluster-name=c\nsuper.users=User:admin\nallow.everyone.if.no.acl.found=true\n\
         rsm.config.bucket=b\nnum.partition=3\n",
    )
    .unwrap();
    assert_eq!(warned(&loaded), ["num.partition"]);
    let text = |name: &str| loaded.notes.iter().find(|note| note.property == name).unwrap().text.clone();
    assert!(text("confluent.license").contains("Confluent"));
    assert!(text("allow.everyone.if.no.acl.found").contains("everybody is let in"));
    assert!(text("num.partition").contains("did you mean num.partitions?"));
}

#[test]
fn what_is_not_served_yet_is_refused_by_its_property_all_of_it_at_once() {
    // As an operator for Kubernetes writes it.
    let operators = refusals(
        "node.id=0\nprocess.roles=broker\nconfig.providers=env\n\
         listeners=REPLICATION-9091://0.0.0.0:9091,PLAIN-9092://0.0.0.0:9092\n\
         advertised.listeners=REPLICATION-9091://b0.svc:9091,PLAIN-9092://b0.svc:9092\n\
         listener.security.protocol.map=CONTROLPLANE-9090:SSL,REPLICATION-9091:SSL,PLAIN-9092:PLAINTEXT\n\
         controller.listener.names=CONTROLPLANE-9090\ncontroller.quorum.voters=3@c3:9090,4@c4:9090,5@c5:9090\n\
         inter.broker.listener.name=REPLICATION-9091\n\
         authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n",
    );
    for part in [
        "listeners asks for SSL on the listener REPLICATION-9091",
        "process.roles asks for a broker beside controllers",
        "config.providers asks for",
        "controller.quorum.voters asks for a quorum of 3",
        "authorizer.class.name asks for authorization",
    ] {
        assert!(operators.iter().any(|error| error.starts_with(part)), "{part}: {operators:#?}");
    }
    // As images for containers write it from their environment.
    let images = refusals(
        "node.id=0\nprocess.roles=controller,broker\nlisteners=CLIENT://:9092,INTERNAL://:9094,CONTROLLER://:9093\n\
         advertised.listeners=CLIENT://kafka:9092,INTERNAL://kafka:9094\ncontroller.listener.names=CONTROLLER\n\
         listener.security.protocol.map=CLIENT:SASL_PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT\n\
         inter.broker.listener.name=INTERNAL\nsasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512\n\
         listener.name.client.scram-sha-256.sasl.jaas.config=x\ncontroller.quorum.voters=0@localhost:9093\n",
    );
    assert_eq!(images.len(), 1, "{images:#?}");
    assert!(images[0].starts_with("listeners asks for SASL_PLAINTEXT on the listener CLIENT"), "{images:#?}");
    assert!(images[0].contains("listener.security.protocol.map"), "what to write instead: {images:#?}");
    let ancient = refusals("broker.id=0\nzookeeper.connect=zk1:2181,zk2:2181\nlog.dirs=/tmp/kafka-logs\n");
    assert!(ancient[0].starts_with("zookeeper.connect asks for a ZooKeeper ensemble"), "{ancient:#?}");
}
