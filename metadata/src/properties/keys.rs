//! Typed keys of the broker properties that code reads: `config.get(keys::NUM_PARTITIONS)`.
//!
//! A key is checked against the table by a test: name, type and, unless it is an `Option`, a default.

use std::marker::PhantomData;

use super::value::{FromValue, PropertyType};

/// The name of a broker property and the Rust type of its value.
pub struct Key<T> {
    /// The name.
    pub name: &'static str,
    kind: PhantomData<fn() -> T>,
}

impl<T> Clone for Key<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Key<T> {}

impl<T: FromValue> Key<T> {
    const fn new(name: &'static str) -> Self {
        Self { name, kind: PhantomData }
    }
}

/// A key's name, the table types it reads and whether it may have no value.
pub(super) type KeyRow = (&'static str, &'static [PropertyType], bool);

macro_rules! keys {
    ($($key:ident: $type:ty = $name:literal;)*) => {
        $(
            #[doc = concat!("`", $name, "`")]
            pub const $key: Key<$type> = Key::new($name);
        )*
        /// All keys, for the test that compares them with the table.
        #[cfg_attr(not(test), expect(dead_code, reason = "read by a test only"))]
        pub(super) const ALL: &[KeyRow] = &[
            $(($name, <$type as FromValue>::TYPES, <$type as FromValue>::NULLABLE)),*
        ];
    };
}

keys! {
    AUTHORIZER_CLASS_NAME: String = "authorizer.class.name";
    AUTO_CREATE_TOPICS_ENABLE: bool = "auto.create.topics.enable";
    BROKER_ID: i32 = "broker.id";
    BROKER_RACK: Option<String> = "broker.rack";
    CONFIG_PROVIDERS: Vec<String> = "config.providers";
    CONNECTIONS_MAX_IDLE_MS: i64 = "connections.max.idle.ms";
    CONTROLLER_QUORUM_BOOTSTRAP_SERVERS: Vec<String> = "controller.quorum.bootstrap.servers";
    CONTROLLER_QUORUM_VOTERS: Vec<String> = "controller.quorum.voters";
    DEFAULT_REPLICATION_FACTOR: i32 = "default.replication.factor";
    DELETE_TOPIC_ENABLE: bool = "delete.topic.enable";
    FETCH_MAX_BYTES: i32 = "fetch.max.bytes";
    GROUP_INITIAL_REBALANCE_DELAY_MS: i32 = "group.initial.rebalance.delay.ms";
    GROUP_MAX_SESSION_TIMEOUT_MS: i32 = "group.max.session.timeout.ms";
    GROUP_MAX_SIZE: i32 = "group.max.size";
    GROUP_MIN_SESSION_TIMEOUT_MS: i32 = "group.min.session.timeout.ms";
    HTTP_LISTENER: String = "http.listener";
    LOG_CLEANUP_POLICY: Vec<String> = "log.cleanup.policy";
    LOG_DIR: Vec<String> = "log.dir";
    LOG_DIRS_AUTO_FORMAT: bool = "log.dirs.auto.format";
    LOG_DIRS: Option<Vec<String>> = "log.dirs";
    LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS: i32 = "log.flush.offset.checkpoint.interval.ms";
    LOG_INITIAL_TASK_DELAY_MS: i64 = "log.initial.task.delay.ms";
    LOG_RETENTION_CHECK_INTERVAL_MS: i64 = "log.retention.check.interval.ms";
    LOG_RETENTION_HOURS: i32 = "log.retention.hours";
    LOG_RETENTION_MINUTES: Option<i32> = "log.retention.minutes";
    LOG_RETENTION_MS: Option<i64> = "log.retention.ms";
    MAX_CONNECTIONS: i32 = "max.connections";
    MAX_CONNECTIONS_PER_IP: i32 = "max.connections.per.ip";
    MAX_CONNECTIONS_PER_IP_OVERRIDES: String = "max.connections.per.ip.overrides";
    MAX_CONNECTION_CREATION_RATE: i32 = "max.connection.creation.rate";
    MAX_FETCH_SESSION_PARTITIONS: i32 = "max.fetch.session.partitions";
    MAX_GROUPS: i32 = "max.groups";
    MAX_GROUP_MEMBERS: i32 = "max.group.members";
    MAX_GROUP_OFFSETS: i32 = "max.group.offsets";
    MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS: i32 = "max.incremental.fetch.session.cache.slots";
    MAX_METADATA_BYTES: i64 = "max.metadata.bytes";
    MAX_METRIC_PARTITIONS: i32 = "max.metric.partitions";
    MAX_PARTITIONS: i32 = "max.partitions";
    MAX_PRODUCER_IDS: i32 = "max.producer.ids";
    MAX_REQUEST_PARTITION_SIZE_LIMIT: i32 = "max.request.partition.size.limit";
    MAX_SEGMENTS: i32 = "max.segments";
    MAX_WAITING_REQUESTS: i32 = "max.waiting.requests";
    MEMORY_BUDGET_BYTES: i64 = "memory.budget.bytes";
    MESSAGE_MAX_BYTES: i32 = "message.max.bytes";
    METADATA_LOG_DIR: Option<String> = "metadata.log.dir";
    METADATA_LOG_MAX_RECORD_BYTES_BETWEEN_SNAPSHOTS: i64 = "metadata.log.max.record.bytes.between.snapshots";
    METADATA_LOG_MAX_SNAPSHOT_INTERVAL_MS: i64 = "metadata.log.max.snapshot.interval.ms";
    METADATA_LOG_SEGMENT_BYTES: i32 = "metadata.log.segment.bytes";
    METADATA_LOG_SEGMENT_MS: i64 = "metadata.log.segment.ms";
    MIN_INSYNC_REPLICAS: i32 = "min.insync.replicas";
    NODE_ID: i32 = "node.id";
    NUM_PARTITIONS: i32 = "num.partitions";
    OFFSETS_RETENTION_CHECK_INTERVAL_MS: i64 = "offsets.retention.check.interval.ms";
    OFFSETS_RETENTION_MINUTES: i32 = "offsets.retention.minutes";
    OFFSETS_TOPIC_NUM_PARTITIONS: i32 = "offsets.topic.num.partitions";
    OFFSETS_TOPIC_REPLICATION_FACTOR: i16 = "offsets.topic.replication.factor";
    OFFSETS_TOPIC_SEGMENT_BYTES: i32 = "offsets.topic.segment.bytes";
    OFFSET_METADATA_MAX_BYTES: i32 = "offset.metadata.max.bytes";
    PROCESS_ROLES: Vec<String> = "process.roles";
    PRODUCER_ID_EXPIRATION_MS: i32 = "producer.id.expiration.ms";
    RECEIVE_STALL_TIMEOUT_MS: i64 = "receive.stall.timeout.ms";
    REMOTE_LOG_STORAGE_SYSTEM_ENABLE: bool = "remote.log.storage.system.enable";
    SCRUB_BYTES_PER_SECOND: i64 = "scrub.bytes.per.second";
    SOCKET_LISTEN_BACKLOG_SIZE: i32 = "socket.listen.backlog.size";
    SOCKET_RECEIVE_BUFFER_BYTES: i32 = "socket.receive.buffer.bytes";
    SOCKET_REQUEST_MAX_BYTES: i32 = "socket.request.max.bytes";
    SOCKET_SEND_BUFFER_BYTES: i32 = "socket.send.buffer.bytes";
    ZOOKEEPER_CONNECT: Option<String> = "zookeeper.connect";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::properties::{Scope, lookup};

    #[test]
    fn every_key_fits_its_row() {
        for (name, types, nullable) in ALL {
            let row = lookup(Scope::Broker, name).unwrap_or_else(|| panic!("{name} is not in the table"));
            assert!(types.contains(&row.kind), "{name} is {:?}", row.kind);
            assert!(*nullable || row.default.is_some(), "{name} has no default");
        }
    }
}
