//! What every handler can reach: budgets, topics, the metadata image, the controller, limits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use weir_budget::ChunkPool;
use weir_metadata::image::MetadataImage;
use weir_metadata::properties::{BrokerConfig, keys};
use weir_protocol::records::InflateLimits;
use weir_protocol::wire::Uuid;
use weir_storage::{Log, LogManager, StorageError};

use crate::complaints::{Complaints, LimitComplaints};
use crate::directories::Assignment;
use crate::executor::Executor;
use crate::failure::Failure;
use crate::fetch_sessions::FetchSessions;
use crate::groups::Groups;
use crate::metrics::Metrics;
use crate::net::registry::Registry;
use crate::plan::{Budgets, Layout};
use crate::producer_ids::ProducerIds;
use crate::quorum::ControllerHandle;
use crate::topics::{Partition, Topics};

/// A listener as clients know it.
#[derive(Clone, Debug)]
pub(crate) struct AdvertisedListener {
    /// Its name.
    pub(crate) name: String,
    /// The host that clients are told.
    pub(crate) host: String,
    /// The port that clients are told.
    pub(crate) port: u16,
}

/// The shared state of a running server.
pub(crate) struct Broker {
    pub(crate) config: ArcSwap<BrokerConfig>,
    pub(crate) layout: Layout,
    pub(crate) budgets: Budgets,
    pub(crate) pool: ChunkPool,
    pub(crate) window_pool: ChunkPool,
    pub(crate) registry: Arc<Registry>,
    pub(crate) executor: Executor,
    pub(crate) topics: Topics,
    pub(crate) fetch_sessions: FetchSessions,
    pub(crate) controller: ControllerHandle,
    pub(crate) broker_epoch: i64,
    pub(crate) producer_ids: ProducerIds,
    pub(crate) groups: Groups,
    pub(crate) logs: LogManager,
    pub(crate) metadata_log: Arc<Log>,
    pub(crate) metadata_epoch: i32,
    /// As the quorum names it from kraft.version 1 on.
    pub(crate) voter_directory_id: Uuid,
    pub(crate) metrics: Metrics,
    pub(crate) complaints: Complaints,
    pub(crate) storage_complaints: Complaints,
    /// What the group coordinator tells, which members can cause at will.
    pub(crate) group_complaints: Complaints,
    pub(crate) limit_complaints: LimitComplaints,
    /// What is said of topics that come and go and of configs that change.
    pub(crate) change_notes: Complaints,
    pub(crate) cluster_id: String,
    pub(crate) node_id: i32,
    pub(crate) rack: Option<String>,
    pub(crate) listeners: Vec<AdvertisedListener>,
    pub(crate) inflate_limits: InflateLimits,
    pub(crate) socket_request_max_bytes: i32,
    pub(crate) fetch_max_bytes: i32,
    pub(crate) image: ArcSwap<MetadataImage>,
    /// How often `image` was replaced.
    pub(crate) image_changes: AtomicU64,
    /// Held while the server follows the metadata.
    pub(crate) following: Mutex<()>,
    /// Some partition's log could not be opened.
    pub(crate) lacks_logs: AtomicBool,
    /// Partitions whose directory the metadata does not know yet.
    pub(crate) to_assign: Mutex<Vec<Assignment>>,
    pub(crate) random: AtomicU64,
    pub(crate) started: Instant,
    /// Held while a round of the work on the logs runs; true once there are to be no more.
    pub(crate) rounds: Mutex<bool>,
    /// Set once a part of the server is gone.
    pub(crate) failure: Arc<Failure>,
}

impl Broker {
    /// Bytes of chunks and read windows that wait to be used again.
    pub(crate) fn idle_chunk_bytes(&self) -> u64 {
        self.pool.idle_bytes() + self.window_pool.idle_bytes()
    }

    /// The metadata as of now; immutable.
    pub(crate) fn image(&self) -> Arc<MetadataImage> {
        self.image.load_full()
    }

    /// The wall clock in milliseconds since 1970.
    pub(crate) fn now_ms(&self) -> i64 {
        now_ms()
    }

    /// The name of the listener with this index, for the log.
    pub(crate) fn listener_name(&self, index: usize) -> &str {
        self.listeners.get(index).map_or("", |listener| listener.name.as_str())
    }

    /// Host and port that a client of the listener with this index is told.
    pub(crate) fn advertised(&self, index: usize) -> (String, i32) {
        match self.listeners.get(index) {
            Some(listener) => (listener.host.clone(), i32::from(listener.port)),
            None => (String::new(), -1),
        }
    }

    /// A number that nobody can guess cheaply, for session ids.
    pub(crate) fn random_i32(&self) -> i32 {
        // SplitMix64 (Steele et al., 2014) over a counter with a random start.
        let mut z = self.random.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) as i32
    }

    /// Notes that the limit of `property`, one of `metrics::LIMITS`, refused or ended something: counted always, and said
    /// in the log a few times a second. `what` says what was refused, with the limit's value.
    pub(crate) fn limit_reached(&self, property: &'static str, what: &dyn std::fmt::Display) {
        self.metrics.limit_reached(property);
        if let Some(unsaid) = self.limit_complaints.allow(property) {
            tracing::warn!(property, unsaid, "limit reached: {what}");
        }
    }

    /// How often each limit was reached.
    pub(crate) fn limits_reached(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let put_off = self.logs.shared().segments.put_off();
        self.metrics.limits_reached().map(move |(property, count)| match property {
            // Rolls that were put off are counted by the logs themselves.
            _ if property == keys::MAX_SEGMENTS.name => (property, count + put_off),
            _ => (property, count),
        })
    }

    /// Whether a metadata request may create topics.
    pub(crate) fn auto_creates_topics(&self) -> bool {
        self.config.load().get(keys::AUTO_CREATE_TOPICS_ENABLE)
    }

    /// Notes that a batch could not be appended; what a client causes is not worth a line.
    pub(crate) fn note_append_failure(&self, partition: &Partition, error: &StorageError) {
        self.note_storage_failure("append", partition, error);
    }

    /// Notes that a read failed for a reason that is not the client's.
    pub(crate) fn note_read_failure(&self, partition: &Partition, error: &StorageError) {
        self.note_storage_failure("read", partition, error);
    }

    fn note_storage_failure(&self, action: &str, partition: &Partition, error: &StorageError) {
        let limit = match error {
            StorageError::TooManyProducerIds { .. } => Some(keys::MAX_PRODUCER_IDS.name),
            StorageError::TooManySegments { .. } => Some(keys::MAX_SEGMENTS.name),
            _ => None,
        };
        if let Some(property) = limit {
            self.limit_reached(property, error);
            return;
        }
        let ours = error.is_disk_failure()
            || matches!(error, StorageError::CorruptBatch { .. } | StorageError::SegmentGap { .. });
        if ours && let Some(unsaid) = self.storage_complaints.allow() {
            tracing::error!(
                topic = &*partition.topic,
                partition = partition.index,
                unsaid,
                "cannot {action}: {error}"
            );
        }
    }
}

/// The wall clock in milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}
