//! One partition's log in Kafka's own files, and the log directories that hold them.
//!
//! Synchronous code, called by the broker from its threads. Start at [`LogManager`] (all logs of all directories) or
//! [`Log`] (one partition); [`LogDir`] is a locked directory. Files are Kafka's byte for byte, so a directory written
//! by one can be opened by the other. Formats live in the file of their name: `offset_index.rs`, `time_index.rs`,
//! `transaction_index.rs`, `producer_snapshot.rs`, `leader_epoch.rs`, `partition_metadata.rs`, `checkpoint.rs`.
//!
//! Invariants: no file is written outside of [`disk`]; nothing is allocated by a length that a file claims; memory
//! grows only with counts (segments, producer ids), and `memory_bytes` functions say how much; what is damaged and
//! can be found again in the log is rebuilt with a warning and counted in [`StorageCounters`]; what cannot is an
//! explicit error.

pub mod checkpoint;
mod config;
mod control;
pub mod disk;
mod error;
pub mod faults;
mod file_handles;
pub mod fuzz;
mod index_file;
pub mod leader_epoch;
mod log;
mod log_append;
pub mod log_dir;
mod log_flush;
mod log_homes;
mod log_maintenance;
mod log_manager;
mod log_read;
mod log_time;
mod log_truncate;
pub mod offset_index;
mod offsets;
pub mod partition_metadata;
mod producer_loader;
pub mod producer_snapshot;
mod producer_state;
mod recent;
mod recovery;
mod recovery_epochs;
mod recovery_files;
mod recovery_tail;
mod room;
mod scan;
mod scrub;
mod segment;
mod segment_quota;
pub mod time_index;
mod topic_partition;
pub mod transaction_index;

pub use config::LogConfig;
pub use error::StorageError;
pub use file_handles::{FileHandle, FileHandles};
pub use log::{Damage, FlushTimes, Log, LogOptions, LogShared, StorageCounters};
pub use log_append::{AppendInfo, AppendOptions, UnreadBody, UnreadBodyError};
pub use log_dir::{LogDir, MetaProperties};
pub use log_maintenance::{MovedLogStart, Retained};
pub use log_manager::{Claim, LogManager, LogManagerConfig, LogTopics, StartSummary};
pub use log_read::{FileRange, Isolation, LogRead};
pub use log_time::{BatchRange, in_memory};
pub use offsets::{HighWatermark, LastStableOffset, LogEndOffset, LogStartOffset, RecoveryPoint};
pub use producer_state::{ActiveProducer, AppendOrigin, BatchMetadata, ProducerIdQuota};
pub use room::RoomQuota;
pub use scrub::{ScrubReport, Scrubber};
pub use segment::LOG_SUFFIX;
pub use segment_quota::SegmentQuota;
pub use topic_partition::{DirName, TopicPartition, parse_dir_name};
