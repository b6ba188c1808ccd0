//! The settings of one log. Defaults and meanings are those of Kafka's topic configurations.

/// Settings of one log. Shared by the partitions of a topic (`Arc<LogConfig>`) and replaced as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogConfig {
    /// `segment.bytes`: a segment is rolled before it would exceed this. At most `i32::MAX`.
    pub segment_bytes: u32,
    /// `segment.ms`: a segment is rolled when it is this old, measured by the timestamps of its batches.
    pub segment_ms: i64,
    /// `segment.jitter.ms`: the most that is taken off `segment_ms`, at random per segment.
    pub segment_jitter_ms: i64,
    /// `segment.index.bytes`: an index that reaches this size rolls the segment.
    pub segment_index_bytes: u32,
    /// `index.interval.bytes`: an index entry each time that more than this was appended.
    pub index_interval_bytes: u32,
    /// `retention.bytes`, -1 for no limit.
    pub retention_bytes: i64,
    /// `retention.ms`, -1 for no limit.
    pub retention_ms: i64,
    /// `cleanup.policy` contains `delete`: retention applies.
    pub delete: bool,
    /// `cleanup.policy` contains `compact`: offsets may have gaps.
    pub compact: bool,
    /// `flush.messages`: a flush is asked for after so many records.
    pub flush_messages: i64,
    /// `flush.ms`: a flush is due this long after the last one.
    pub flush_ms: i64,
    /// `file.delete.delay.ms`: how long the directory of a deleted partition stays on disk.
    pub file_delete_delay_ms: i64,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            segment_bytes: 1 << 30,
            segment_ms: 7 * 24 * 60 * 60 * 1000,
            segment_jitter_ms: 0,
            segment_index_bytes: 10 * 1024 * 1024,
            index_interval_bytes: 4096,
            retention_bytes: -1,
            retention_ms: 7 * 24 * 60 * 60 * 1000,
            delete: true,
            compact: false,
            flush_messages: i64::MAX,
            flush_ms: i64::MAX,
            file_delete_delay_ms: 60_000,
        }
    }
}
