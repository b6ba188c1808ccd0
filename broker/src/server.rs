//! Starts and stops a server: the order in which things are locked, read, opened and, at the end, closed.
//!
//! Invariants: every lock is taken before a byte is read or written; a start that is refused for what it finds leaves the
//! directories as they were; nothing is served before the metadata, the logs and the listeners' ports are known; the
//! clean-shutdown marker is written last.

use std::collections::{HashMap, HashSet};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use weir_budget::{BudgetError, ChunkPool, PlanError};
use weir_coordinator::{GroupConfig, Limits};
use weir_metadata::controller::{
    BrokerRegistration, activation_records, bootstrap_records, unsupported_features,
};
use weir_metadata::image::MetadataImage;
use weir_metadata::metadata_version;
use weir_metadata::properties::{BrokerConfig, Ceilings, FromValue, Key, Listener, TopicConfig, keys};
use weir_protocol::records::{Codec, InflateLimits, max_working_memory_bytes};
use weir_protocol::wire::Uuid;
use weir_storage::disk::Disk;
use weir_storage::{Claim, LogConfig, LogManager, LogManagerConfig, LogTopics, StorageError, TopicPartition};

use crate::background;
use crate::broker::{AdvertisedListener, Broker, now_ms};
use crate::complaints::{Complaints, LimitComplaints};
use crate::directories::{self, Identity, Settled};
use crate::executor::Executor;
use crate::fetch_sessions::FetchSessions;
use crate::groups::Groups;
use crate::http;
use crate::metrics::Metrics;
use crate::net::listener::{SocketOptions, accept_all, bind};
use crate::net::receive::WINDOW_BYTES;
use crate::net::registry::{ConnectionLimits, Registry};
use crate::plan::{Layout, PlanInputs};
use crate::producer_ids::ProducerIds;
use crate::publisher::{ServerPublisher, log_config};
use crate::quorum::{
    self, ControllerError, MetadataLog, MetadataLogError, OpenOptions, SnapshotPolicy, Voter,
};
use crate::topics::Topics;

/// Zstd windows are accepted up to this exponent where the receive share can hold them.
const MAX_ZSTD_WINDOW_LOG: u32 = 27;
/// The window that every server must accept: level 9 of zstd uses it.
const MIN_ZSTD_WINDOW_LOG: u32 = 22;
/// Longest wait for connections to end at a stop.
const STOP_PATIENCE: Duration = Duration::from_secs(5);
/// How often a start that takes long says how far it is.
const PROGRESS_EVERY: Duration = Duration::from_secs(5);
/// Descriptors kept for what is neither a connection nor a segment.
const RESERVED_DESCRIPTORS: u64 = 256;
/// Fewest files of logs that may be open at once.
const MIN_FILES: u64 = 64;
/// Most connections that the kernel is asked to hold where the operator does not say how many.
const MAX_BACKLOG: i64 = 1024;
/// With fewer descriptors than this there is no start.
const MIN_DESCRIPTORS: u64 = 160;

/// Why a server does not start or stop as it should.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The memory plan does not fit.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The table of shares is wrong: our fault.
    #[error("budgets: {0}")]
    Budgets(#[from] BudgetError),
    /// A directory of `log.dirs` or `metadata.log.dir` cannot be locked.
    #[error("log.dirs: {0}")]
    LogDirs(StorageError),
    /// The logs cannot be read or closed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The metadata log cannot be used.
    #[error("{0}")]
    Metadata(String),
    /// The directory belongs to another node, another cluster, or newer software.
    #[error("{0}")]
    Identity(String),
    /// What is on the disk is more than a limit allows.
    #[error(
        "the metadata log has {count} {what}, and {property} = {limit}: set {property} to {count} or more, and raise \
         memory.budget.bytes where the plan then does not fit"
    )]
    Limit {
        /// Of what there is too much.
        what: &'static str,
        /// How much there is.
        count: u64,
        /// The property to raise.
        property: &'static str,
        /// Its value.
        limit: u64,
    },
    /// The process may not open enough files.
    #[error("the limit on open descriptors is {limit}, at least {least} are needed: raise it (ulimit -n)")]
    TooFewDescriptors {
        /// The limit in force.
        limit: u64,
        /// The smallest one that will do.
        least: u64,
    },
    /// A listener cannot be opened.
    #[error("cannot listen on {listener}: {error}")]
    Listener {
        /// Which one.
        listener: Listener,
        /// What the system says.
        error: std::io::Error,
    },
    /// The HTTP side cannot be opened.
    #[error(
        "cannot listen on http.listener = {address}: {error}; name another address, or leave the property empty for none"
    )]
    HttpListener {
        /// Host and port.
        address: String,
        /// What the system says.
        error: std::io::Error,
    },
    /// Something else that the system refused.
    #[error("{what}: {error}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system says.
        error: std::io::Error,
    },
}

impl From<MetadataLogError> for ServerError {
    fn from(error: MetadataLogError) -> Self {
        ServerError::Metadata(error.to_string())
    }
}

impl From<ControllerError> for ServerError {
    fn from(error: ControllerError) -> Self {
        ServerError::Metadata(error.to_string())
    }
}

/// The memory plan of a server with this configuration.
///
/// # Errors
/// When it does not fit in `memory.budget.bytes`; the error names the property to change.
pub fn plan_of(config: &BrokerConfig) -> Result<Layout, PlanError> {
    let message_max_bytes = config.get(keys::MESSAGE_MAX_BYTES).max(0) as u64;
    let limits = InflateLimits { max_zstd_window_log: MIN_ZSTD_WINDOW_LOG, ..InflateLimits::default() };
    Layout::new(&PlanInputs {
        budget_bytes: config.memory_budget_bytes(),
        max_connections: written_connections(config),
        max_partitions: written(config, keys::MAX_PARTITIONS),
        max_segments: written(config, keys::MAX_SEGMENTS),
        max_metadata_bytes: written(config, keys::MAX_METADATA_BYTES),
        max_producer_ids: written(config, keys::MAX_PRODUCER_IDS),
        max_session_partitions: written(config, keys::MAX_FETCH_SESSION_PARTITIONS),
        max_waiting_requests: written(config, keys::MAX_WAITING_REQUESTS),
        message_max_bytes,
        decompression_bytes: max_working_memory_bytes(Codec::Zstd, message_max_bytes as usize, &limits)
            as u64,
        processors: std::thread::available_parallelism().map_or(1, |count| count.get() as u64),
    })
}

/// The largest batch that a share of this size can hold.
fn largest_batch(share_bytes: u64) -> u64 {
    let mut bytes = share_bytes;
    loop {
        let lease = weir_budget::ChunkChain::lease_bytes(usize::try_from(bytes).unwrap_or(usize::MAX));
        match lease.saturating_sub(share_bytes) {
            0 => return bytes,
            over => bytes = bytes.saturating_sub(over),
        }
    }
}

/// The directories to lock, and the one among them that is for the metadata log alone.
fn directories(config: &BrokerConfig) -> (Vec<PathBuf>, Option<PathBuf>) {
    let mut paths: Vec<PathBuf> = config.log_dirs().into_iter().map(PathBuf::from).collect();
    let metadata = PathBuf::from(config.metadata_log_dir());
    if paths.contains(&metadata) {
        return (paths, None);
    }
    paths.push(metadata.clone());
    (paths, Some(metadata))
}

/// A limit that is set in the properties.
fn written<T: FromValue + Into<i64>>(config: &BrokerConfig, key: Key<T>) -> Option<u64> {
    let set = config.written().get(key.name).is_some();
    set.then(|| config.get(key).into()).and_then(|value| u64::try_from(value).ok())
}

/// `max.connections` where it is set. Kafka's default, which says "no limit", counts as not set.
fn written_connections(config: &BrokerConfig) -> Option<u64> {
    written(config, keys::MAX_CONNECTIONS).filter(|count| *count < i32::MAX as u64)
}

/// Says so where the process is ended before it can reach its bound.
fn warn_of_too_large_a_budget(budget_bytes: u64) {
    if let Some(limit) = crate::machine::memory_limit().filter(|limit| limit.bytes < budget_bytes) {
        tracing::warn!(
            property = keys::MEMORY_BUDGET_BYTES.name,
            budget_bytes,
            limit_bytes = limit.bytes,
            "the budget is more than the memory of {}: the system may end this process before the bound holds",
            limit.of
        );
    }
}

/// The largest zstd window that one batch can have in the receive share.
fn inflate_limits(receive_bytes: u64, message_max_bytes: u64) -> InflateLimits {
    let mut limits = InflateLimits::default();
    limits.max_zstd_window_log = (MIN_ZSTD_WINDOW_LOG..=MAX_ZSTD_WINDOW_LOG)
        .rev()
        .find(|log| {
            let tried = InflateLimits { max_zstd_window_log: *log, ..limits };
            let work = max_working_memory_bytes(Codec::Zstd, message_max_bytes as usize, &tried) as u64;
            weir_budget::ChunkChain::lease_bytes(message_max_bytes as usize) + work <= receive_bytes / 2
        })
        .unwrap_or(MIN_ZSTD_WINDOW_LOG);
    limits
}

/// A running server.
pub struct Server {
    broker: Arc<Broker>,
    tasks: Vec<JoinHandle<()>>,
    http_address: Option<SocketAddr>,
    controller: std::thread::JoinHandle<()>,
    addresses: Vec<SocketAddr>,
}

impl Server {
    /// Starts a server: returns when it accepts connections.
    ///
    /// # Errors
    /// Whatever keeps it from serving, with the property or file to look at.
    pub async fn start(config: BrokerConfig) -> Result<Server, ServerError> {
        let began = Instant::now();
        let mut layout = plan_of(&config)?;
        tracing::info!("memory plan:\n{}", layout.plan);
        warn_of_too_large_a_budget(config.memory_budget_bytes());
        let budgets = layout.budgets()?;
        let connections_are_set = written_connections(&config).is_some();
        let descriptors =
            Descriptors::share(raise_descriptor_limit(), layout.counts.connections, connections_are_set)?;
        layout.counts.connections = descriptors.connections;
        let limits = layout.limits().map(|(name, limit)| (name, i64::try_from(limit).unwrap_or(i64::MAX)));
        // Clients that all come back at once overrun Kafka's default of 50 in less than a millisecond.
        let backlog = i64::try_from(layout.counts.connections).unwrap_or(MAX_BACKLOG).clamp(50, MAX_BACKLOG);
        let config =
            config.with_defaults(&limits).with_defaults(&[(keys::SOCKET_LISTEN_BACKLOG_SIZE.name, backlog)]);
        let config = config.with_ceilings(Ceilings {
            connections: layout.counts.connections,
            batch_bytes: largest_batch(budgets.receive.limit()),
        });
        let (paths, metadata_dir) = directories(&config);
        directories::refuse_doubtful_first_start(&paths, &config)?;
        let logs = LogManager::lock(
            &Disk::new(),
            &paths,
            &LogManagerConfig { metadata_dir, ..log_manager_config(&config, &layout, &descriptors) },
        )
        .map_err(ServerError::LogDirs)?;
        let options = SocketOptions {
            backlog: config.get(keys::SOCKET_LISTEN_BACKLOG_SIZE),
            send_buffer_bytes: config.get(keys::SOCKET_SEND_BUFFER_BYTES),
            receive_buffer_bytes: config.get(keys::SOCKET_RECEIVE_BUFFER_BYTES),
        };
        // Before a new directory is formatted: a start that cannot listen leaves none behind.
        let (sockets, listeners) = bind_listeners(&config, options).await?;
        let http_socket = http::open(config.http_listener()).await?;
        let identity = directories::identify(&logs, &config)?;
        let was_clean = logs.dirs().iter().filter(|dir| dir.is_online()).all(|dir| dir.had_clean_shutdown());
        let mut metadata_log = open_metadata_log(&logs, &config, &identity, was_clean)?;
        check_fits(&layout, metadata_log.image())?;
        // From here on the directories are this server's.
        logs.begin_writing()?;
        lead(&mut metadata_log, &logs, &config)?;
        let settled = directories::settle(&logs, metadata_log.image(), &identity, config.node_id())?;
        let broker_epoch = register(&mut metadata_log, &config, &settled, &listeners, was_clean)?;
        let image = metadata_log.image().clone();
        load_logs(&logs, &config, &image, metadata_log.take_removed_topics())?;

        let (controller_handle, queue) = quorum::channel();
        let message_max_bytes = config.get(keys::MESSAGE_MAX_BYTES).max(0) as u64;
        let registry = Registry::new(connection_limits(&config, &layout));
        let connections = Arc::clone(&registry);
        let executor = Executor::start(move || connections.close_all())
            .map_err(|error| ServerError::System { what: "cannot start the connections' threads", error })?;
        let broker = Arc::new(Broker {
            to_assign: parking_lot::Mutex::default(),
            registry,
            executor,
            fetch_sessions: FetchSessions::new(
                config.get(keys::MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS).max(0) as usize,
                layout.counts.session_partitions as usize,
            ),
            groups: Groups::new(
                group_config(&config),
                group_limits(&config, budgets.groups.limit()),
                budgets.groups.clone(),
            ),
            inflate_limits: inflate_limits(budgets.receive.limit(), message_max_bytes),
            socket_request_max_bytes: config.get(keys::SOCKET_REQUEST_MAX_BYTES),
            fetch_max_bytes: config.get(keys::FETCH_MAX_BYTES),
            cluster_id: identity.cluster_id,
            node_id: config.node_id(),
            rack: config.get(keys::BROKER_RACK),
            listeners: listeners
                .iter()
                .map(|l| AdvertisedListener { name: l.name.clone(), host: l.host.clone(), port: l.port })
                .collect(),
            config: ArcSwap::from_pointee(config.clone()),
            layout,
            budgets,
            pool: ChunkPool::new(),
            window_pool: ChunkPool::of(WINDOW_BYTES),
            topics: Topics::default(),
            controller: controller_handle,
            broker_epoch,
            producer_ids: ProducerIds::default(),
            logs,
            metadata_log: Arc::clone(metadata_log.log()),
            metadata_epoch: metadata_log.epoch(),
            voter_directory_id: metadata_log.voter_directory_id(),
            metrics: Metrics::default(),
            complaints: Complaints::new(),
            storage_complaints: Complaints::new(),
            group_complaints: Complaints::new(),
            limit_complaints: LimitComplaints::default(),
            change_notes: Complaints::new(),
            image: ArcSwap::from_pointee(MetadataImage::empty()),
            image_changes: AtomicU64::new(0),
            following: parking_lot::Mutex::default(),
            lacks_logs: AtomicBool::new(false),
            random: AtomicU64::new(uuid::Uuid::new_v4().as_u64_pair().0),
            started: began,
            rounds: parking_lot::Mutex::default(),
            failure: Arc::default(),
        });
        broker.follow(&MetadataImage::empty(), &image);
        let policy = SnapshotPolicy {
            max_bytes: config.get(keys::METADATA_LOG_MAX_RECORD_BYTES_BETWEEN_SNAPSHOTS).max(1) as u64,
            max_interval: match config.get(keys::METADATA_LOG_MAX_SNAPSHOT_INTERVAL_MS) {
                interval_ms if interval_ms > 0 => Some(Duration::from_millis(interval_ms as u64)),
                _ => None,
            },
        };
        let publisher = ServerPublisher(Arc::clone(&broker));
        let controller = std::thread::Builder::new()
            .name("weir-controller".to_string())
            .spawn(move || quorum::run(metadata_log, queue, publisher, policy))
            .map_err(|error| ServerError::System { what: "cannot start the controller's thread", error })?;
        let http_address = http_socket.as_ref().and_then(|socket| socket.local_addr().ok());
        let mut tasks = background::start(&broker);
        let addresses = sockets.iter().filter_map(|socket| socket.local_addr().ok()).collect();
        if let Some(socket) = http_socket {
            tracing::info!(address = %display_address(&socket), "serving /, /metrics, /memory and /health");
            tasks.push(broker.failure.watch("http.listener", http::serve(Arc::clone(&broker), socket)));
        }
        for (index, socket) in sockets.into_iter().enumerate() {
            let listener = &broker.listeners[index];
            tracing::info!(
                listener = listener.name,
                address = %display_address(&socket),
                // Where clients go after their first answer: the usual reason why they get no second one.
                advertised = format!("{}:{}", listener.host, listener.port),
                "listening"
            );
            let accepting = accept_all(Arc::clone(&broker), socket, index, options);
            tasks.push(broker.failure.watch("a listener", accepting));
        }
        tracing::info!(
            cluster = broker.cluster_id,
            node = broker.node_id,
            log_dirs = config.log_dirs().join(","),
            partitions = broker.logs.log_count(),
            milliseconds = began.elapsed().as_millis() as u64,
            "started",
        );
        Ok(Server { broker, tasks, http_address, controller, addresses })
    }

    /// The addresses that the server listens on, in the order of `listeners`; ports asked for as 0 are the real ones.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The address of `http.listener`, if there is one.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http_address
    }

    /// Every budget of the memory plan as it is now, parents first.
    pub fn budgets(&self) -> Vec<weir_budget::BudgetReport> {
        self.broker.budgets.root.report(0)
    }

    /// Waits until a part of the server has failed without which it must not go on, by a fault of ours, and says which.
    /// Whoever runs the server then stops it.
    pub async fn failed(&self) -> &'static str {
        self.broker.failure.wait().await
    }

    /// Stops the server cleanly: no more requests, all logs closed, the marker written.
    ///
    /// # Errors
    /// When a log could not be closed; the next start then checks it.
    pub async fn stop(self) -> Result<(), ServerError> {
        for task in &self.tasks {
            task.abort();
        }
        let broker = &self.broker;
        // First, so that waiting members are told to look for another coordinator and nothing is written for them.
        broker.groups.stop(broker);
        broker.registry.close_all();
        let deadline = Instant::now() + STOP_PATIENCE;
        while broker.registry.count() > 0 && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        broker.executor.stop();
        let (id, epoch) = (broker.node_id, broker.broker_epoch);
        let shut_down =
            broker.controller.run(move |controller| controller.shut_down_broker(id, epoch).into()).await;
        if let Ok(Err(error)) = shut_down.map_err(|error| tracing::warn!("the controller is gone: {error}")) {
            tracing::warn!("the controlled shutdown is not in the metadata log: {error}");
        }
        broker.controller.stop().await;
        // The thread answers the stop as its last act.
        let _ = self.controller.join();
        *broker.rounds.lock() = true;
        let metadata_closed = broker.metadata_log.close(now_ms(), true);
        if let Err(error) = &metadata_closed {
            // Its directory is not clean; the logs of the others are closed all the same.
            broker.metadata_log.log_dir().mark_offline(format!("the metadata log is not closed: {error}"));
        }
        broker.logs.close(broker.broker_epoch, now_ms())?;
        metadata_closed?;
        tracing::info!("stopped");
        Ok(())
    }
}

fn display_address(socket: &TcpListener) -> String {
    socket.local_addr().map_or_else(|error| error.to_string(), |address| address.to_string())
}

/// Raises this process's soft limit on descriptors to the hard one and returns it.
pub fn raise_descriptor_limit() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // What cannot be raised stays as it is; the plan of open files follows the figure that is in force.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    getrlimit(Resource::Nofile).current.unwrap_or(1 << 20)
}

/// How the process's descriptors are shared out, so that connections never take the ones that logs need.
struct Descriptors {
    files: u64,
    connections: u64,
}

impl Descriptors {
    /// `set`: whether the operator asked for this many connections.
    fn share(limit: u64, max_connections: u64, set: bool) -> Result<Self, ServerError> {
        if limit < MIN_DESCRIPTORS {
            return Err(ServerError::TooFewDescriptors { limit, least: MIN_DESCRIPTORS });
        }
        let reserved = RESERVED_DESCRIPTORS.min(limit / 4);
        let files = limit.saturating_sub(reserved + max_connections).max(limit / 4).clamp(MIN_FILES, 4096);
        let connections = max_connections.min(limit - reserved - files);
        if connections < max_connections {
            tracing::warn!(
                connections,
                wanted = max_connections,
                limit,
                "the limit on descriptors (ulimit -n) allows fewer connections than {}",
                if set { "max.connections" } else { "the memory plan" }
            );
        }
        Ok(Self { files, connections })
    }
}

fn log_manager_config(config: &BrokerConfig, layout: &Layout, descriptors: &Descriptors) -> LogManagerConfig {
    LogManagerConfig {
        max_open_files: descriptors.files.min(layout.counts.open_files.max(MIN_FILES)) as usize,
        max_segments: layout.counts.segments as usize,
        max_pending_deletes: layout.counts.partitions as usize,
        max_producer_ids: layout.counts.producer_ids as usize,
        producer_id_expiration_ms: i64::from(config.get(keys::PRODUCER_ID_EXPIRATION_MS)),
        ..LogManagerConfig::default()
    }
}

/// Refuses to start with more than the plan has room for.
fn check_fits(layout: &Layout, image: &MetadataImage) -> Result<(), ServerError> {
    let counts = &layout.counts;
    let partitions = image.topics().partition_count() as u64;
    let bytes = image.memory_bytes() as u64;
    for (what, count, property, limit) in [
        ("partitions", partitions, keys::MAX_PARTITIONS.name, counts.partitions),
        ("bytes of topics and configs", bytes, keys::MAX_METADATA_BYTES.name, counts.metadata_bytes),
    ] {
        if count > limit {
            return Err(ServerError::Limit { what, count, property, limit });
        }
    }
    Ok(())
}

/// A random id, for topics and directories.
pub(crate) fn random_uuid() -> Uuid {
    loop {
        let id = Uuid(*uuid::Uuid::new_v4().as_bytes());
        // Kafka never makes an id whose text could be taken for an option of its tools.
        if !id.to_string().starts_with('-') {
            return id;
        }
    }
}

fn open_metadata_log(
    logs: &LogManager,
    config: &BrokerConfig,
    identity: &Identity,
    was_clean: bool,
) -> Result<MetadataLog, ServerError> {
    let dir = directories::metadata_dir(logs, config);
    let options = OpenOptions {
        node_id: config.node_id(),
        config: Arc::new(LogConfig {
            segment_bytes: config.get(keys::METADATA_LOG_SEGMENT_BYTES).max(0) as u32,
            segment_ms: config.get(keys::METADATA_LOG_SEGMENT_MS),
            // Only what a snapshot has made superfluous is deleted, by the log start.
            retention_bytes: -1,
            retention_ms: -1,
            ..LogConfig::default()
        }),
        clean: was_clean,
        now_ms: now_ms(),
    };
    let log = MetadataLog::open(Arc::clone(logs.shared()), Arc::clone(dir), &options)?;
    if identity.is_new {
        tracing::info!(cluster = identity.cluster_id, dir = %dir.path().display(), "formatted a new log directory");
    }
    match unsupported_features(log.image()).filter(|_| !log.image().is_empty()) {
        Some(reason) => {
            let is_unused = log.image().topics().is_empty();
            let instead = "; it has no topic yet: an empty directory in its place is formatted by the start";
            Err(ServerError::Identity(format!(
                "the metadata log in {}: {reason}{}",
                dir.path().display(),
                if is_unused { instead } else { "" }
            )))
        }
        None => Ok(log),
    }
}

/// Takes the lead of the quorum of one.
fn lead(log: &mut MetadataLog, logs: &LogManager, config: &BrokerConfig) -> Result<(), ServerError> {
    let node_id = config.node_id();
    let voter = config.dynamic_quorum().map(|(listener, host, port)| Voter {
        node_id,
        directory_id: directories::metadata_dir(logs, config).id().unwrap_or_default(),
        listener: listener.to_owned(),
        host,
        port,
    });
    log.lead(node_id, voter.as_ref(), now_ms())?;
    let records = activation_records(log.replay(), &bootstrap_records(metadata_version::DEFAULT_LEVEL, &[]));
    log.append(&records, now_ms())?;
    Ok(())
}

async fn bind_listeners(
    config: &BrokerConfig,
    options: SocketOptions,
) -> Result<(Vec<TcpListener>, Vec<Listener>), ServerError> {
    let listeners = config.listeners();
    let mut sockets = Vec::new();
    let mut known = Vec::new();
    for listener in &listeners.bind {
        let fail = |error| ServerError::Listener { listener: listener.clone(), error };
        let socket = bind(&listener.host, listener.port, options).await.map_err(fail)?;
        let port = socket.local_addr().map_err(fail)?.port();
        let advertised = listeners.advertised.iter().find(|other| other.name == listener.name);
        let mut told = advertised.unwrap_or(listener).clone();
        if told.port == 0 {
            told.port = port;
        }
        if told.is_wildcard() {
            told.host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        }
        sockets.push(socket);
        known.push(told);
    }
    Ok((sockets, known))
}

/// Registers this start of the broker and takes up its partitions. Returns the broker epoch.
fn register(
    log: &mut MetadataLog,
    config: &BrokerConfig,
    settled: &Settled,
    listeners: &[Listener],
    was_clean: bool,
) -> Result<i64, ServerError> {
    use weir_metadata::controller::Controller;
    let registration = BrokerRegistration {
        broker_id: config.node_id(),
        incarnation_id: random_uuid(),
        listeners: listeners.to_vec(),
        rack: config.get(keys::BROKER_RACK),
        log_dirs: settled.directories.clone(),
    };
    let fail = |error: weir_metadata::controller::ApiError| ServerError::Metadata(error.to_string());
    let image = log.image().clone();
    let registered = Controller::new(&image, config).register_broker(&registration).map_err(fail)?;
    log.append(&registered.records, now_ms())?;
    let epoch = registered.reply;
    for moved in settled.moved.chunks(weir_metadata::controller::MAX_RECORDS_PER_USER_OP) {
        let image = log.image().clone();
        let assigned = Controller::new(&image, config)
            .assign_directories(config.node_id(), epoch, moved)
            .map_err(fail)?;
        log.append(&assigned.records, now_ms())?;
    }
    let image = log.image().clone();
    let unfenced =
        Controller::new(&image, config).unfence_broker(config.node_id(), epoch, !was_clean).map_err(fail)?;
    for records in unfenced.records.chunks(weir_metadata::controller::MAX_RECORDS_PER_USER_OP) {
        log.append(records, now_ms())?;
    }
    Ok(epoch)
}

/// Which partitions there are, as the metadata says.
struct Claims<'a> {
    config: &'a BrokerConfig,
    image: &'a MetadataImage,
    removed_topics: HashSet<Uuid>,
}

impl LogTopics for Claims<'_> {
    fn claim(&self, name: &TopicPartition) -> Claim {
        if name.topic() == quorum::TOPIC {
            return Claim::Ignore;
        }
        match self.image.topics().by_name(name.topic()) {
            Some(topic) if topic.partition(name.partition()).is_some() => Claim::Open {
                config: Arc::new(log_config(&TopicConfig::resolve(
                    self.config,
                    &self.image.configs().topic(name.topic()),
                ))),
                topic_id: Some(topic.id()),
            },
            _ => Claim::Stray,
        }
    }

    fn was_deleted(&self, topic_id: Uuid) -> bool {
        self.removed_topics.contains(&topic_id)
    }

    fn home(&self, name: &TopicPartition) -> Option<Uuid> {
        let topic = self.image.topics().by_name(name.topic())?;
        topic.partition(name.partition())?.directory_of(self.config.node_id())
    }
}

fn load_logs(
    logs: &LogManager,
    config: &BrokerConfig,
    image: &MetadataImage,
    removed_topics: HashSet<Uuid>,
) -> Result<(), ServerError> {
    let claims = Claims { config, image, removed_topics };
    let said = parking_lot::Mutex::new(Instant::now());
    let tell = |opened: usize, all: usize| {
        let mut said = said.lock();
        if said.elapsed() >= PROGRESS_EVERY {
            *said = Instant::now();
            let checked_bytes = logs.counters().recovery_bytes.load(Ordering::Relaxed);
            tracing::info!(opened, all, checked_bytes, "opening logs");
        }
    };
    let summary = logs.load(&claims, now_ms(), &tell)?;
    for stray in &summary.strays {
        tracing::warn!(path = %stray.display(), "no topic claims this directory: it is kept aside");
    }
    for (partition, error) in &summary.failed {
        tracing::error!(%partition, "cannot open a log: {error}");
    }
    for (partition, high_watermark) in &summary.gone {
        tracing::error!(
            %partition,
            high_watermark,
            "the partition's directory is gone, and its records with it: it begins anew, empty"
        );
    }
    let counters = logs.counters();
    let recovered = counters.logs_recovered.load(Ordering::Relaxed);
    if recovered > 0 {
        tracing::info!(
            logs = recovered,
            checked_bytes = counters.recovery_bytes.load(Ordering::Relaxed),
            cut_bytes = counters.truncated_bytes.load(Ordering::Relaxed),
            "recovered after a stop that was not clean"
        );
    }
    Ok(())
}

/// The limits of connections as the properties have them now, within what the plan charges.
pub(crate) fn connection_limits(config: &BrokerConfig, layout: &Layout) -> ConnectionLimits {
    let planned = u32::try_from(layout.counts.connections).unwrap_or(u32::MAX);
    let wanted = u32::try_from(config.get(keys::MAX_CONNECTIONS)).unwrap_or(0);
    if wanted > planned && config.value(keys::MAX_CONNECTIONS.name).is_some() && wanted < i32::MAX as u32 {
        tracing::warn!(
            property = keys::MAX_CONNECTIONS.name,
            "{wanted} connections are more than this start has memory and descriptors for: {planned} hold"
        );
    }
    let mut overrides = HashMap::new();
    for (host, count) in config.max_connections_per_ip_overrides() {
        let count = u32::try_from(count).unwrap_or(0);
        match (host.as_str(), 0).to_socket_addrs() {
            Ok(addresses) => overrides.extend(addresses.map(|it| (it.ip().to_canonical(), count))),
            Err(error) => tracing::warn!(
                property = keys::MAX_CONNECTIONS_PER_IP_OVERRIDES.name,
                "{host} has no address: {error}"
            ),
        }
    }
    ConnectionLimits {
        in_all: wanted.min(planned),
        per_address: u32::try_from(config.get(keys::MAX_CONNECTIONS_PER_IP)).unwrap_or(0),
        overrides,
        rate: u32::try_from(config.get(keys::MAX_CONNECTION_CREATION_RATE)).unwrap_or(0),
    }
}

fn group_config(config: &BrokerConfig) -> GroupConfig {
    /// What a batch and the framing of its records may take beside keys and values.
    const BATCH_OVERHEAD_BYTES: usize = 16 * 1024;
    GroupConfig {
        min_session_timeout_ms: config.get(keys::GROUP_MIN_SESSION_TIMEOUT_MS),
        max_session_timeout_ms: config.get(keys::GROUP_MAX_SESSION_TIMEOUT_MS),
        initial_rebalance_delay_ms: config.get(keys::GROUP_INITIAL_REBALANCE_DELAY_MS),
        group_max_size: config.get(keys::GROUP_MAX_SIZE).max(0) as usize,
        offset_metadata_max_bytes: config.get(keys::OFFSET_METADATA_MAX_BYTES).max(0) as usize,
        offsets_retention_ms: i64::from(config.get(keys::OFFSETS_RETENTION_MINUTES)) * 60_000,
        offsets_retention_check_interval_ms: config.get(keys::OFFSETS_RETENTION_CHECK_INTERVAL_MS),
        max_append_bytes: (config.get(keys::MESSAGE_MAX_BYTES).max(0) as usize)
            .saturating_sub(BATCH_OVERHEAD_BYTES),
        ..GroupConfig::default()
    }
}

fn group_limits(config: &BrokerConfig, share_bytes: u64) -> Limits {
    Limits {
        groups: config.get(keys::MAX_GROUPS).max(0) as usize,
        members: config.get(keys::MAX_GROUP_MEMBERS).max(0) as usize,
        offsets: config.get(keys::MAX_GROUP_OFFSETS).max(0) as usize,
        member_bytes: (share_bytes / 4).min(1 << 20) as usize,
        state_bytes: share_bytes as usize,
        ..Limits::default()
    }
}
