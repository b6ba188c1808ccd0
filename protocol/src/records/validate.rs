//! What a batch must be before it is appended: what Kafka's log validator checks for magic 2, in one walk.
//!
//! The work can be done while the bytes arrive ([`BatchValidator`]) or afterwards ([`validate`]). An uncompressed
//! body is checked and summed in the same pass; a compressed one is summed as it arrives and inflated at the end,
//! through a fixed window.

use std::io::IoSlice;
use std::ops::ControlFlow;

use super::crc::Crc32c;
use super::header::{BatchHeader, NO_TIMESTAMP, TimestampType};
use super::inflate::Source;
use super::scratch::Scratch;
use super::walk::{RecordMeta, Visitor, Walk};
use super::{BatchError, Codec, InflateLimits, RecordError, RefusedBecause};

/// How many refused records of one batch are listed; all are counted.
pub const MAX_RECORD_ERRORS: usize = 16;

/// Who wrote the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Origin {
    /// A producer: base offset 0, offset deltas 0, 1, 2…, no control batch, sequences where there is a producer id,
    /// no broker-set attribute, and the topic's rules on keys and timestamps. Other offset deltas of a compressed batch
    /// are told ([`BatchSummary::offset_deltas_differ`]): some clients do not set them, and Kafka writes such a batch
    /// anew. Those of an uncompressed one Kafka stores as they are, which readers then stumble over; here it is refused.
    #[default]
    Client,
    /// A coordinator of this broker: as [`Self::Client`] but control batches are allowed and the topic's rules on
    /// timestamps do not apply.
    Coordinator,
    /// A log or another replica: offset deltas grow and may have gaps (compaction), the batch may be empty, the
    /// topic's rules do not apply.
    Log,
}

/// What to check besides the format itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValidateOptions {
    /// Who wrote the batch.
    pub origin: Origin,
    /// Compacted topic: every record must have a key.
    pub key_required: bool,
    /// The topic's `message.timestamp.type`; under [`TimestampType::LogAppendTime`] record timestamps are not checked.
    pub timestamp_type: TimestampType,
    /// The broker's clock, ms since the epoch.
    pub now_ms: i64,
    /// `message.timestamp.before.max.ms`: how much older than `now_ms` a record may be.
    pub timestamp_before_max_ms: i64,
    /// `message.timestamp.after.max.ms`: how much newer than `now_ms` a record may be.
    pub timestamp_after_max_ms: i64,
    /// What a compressed batch may cost.
    pub limits: InflateLimits,
}

impl Default for ValidateOptions {
    /// From a client, no key required, CreateTime, any timestamp.
    fn default() -> Self {
        Self {
            origin: Origin::Client,
            key_required: false,
            timestamp_type: TimestampType::CreateTime,
            now_ms: 0,
            timestamp_before_max_ms: i64::MAX,
            timestamp_after_max_ms: i64::MAX,
            limits: InflateLimits::default(),
        }
    }
}

/// What a valid batch contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchSummary {
    /// The body's codec.
    pub codec: Codec,
    /// Records in it.
    pub record_count: u32,
    /// Bytes of all records, inflated.
    pub records_size_bytes: u64,
    /// Largest record timestamp ([`NO_TIMESTAMP`] if there is none); under LogAppendTime the header's.
    pub max_timestamp: i64,
    /// Offset delta of the first record that has it. Time indexes use the batch's last offset instead (as Kafka 4.x:
    /// an index entry must not be lower than any offset with that timestamp in the batch).
    pub offset_delta_of_max_timestamp: i32,
    /// Whether the header says another `max_timestamp`: it must then be corrected before the append
    /// ([`BatchHeader::correct_max_timestamp`]), as Kafka does.
    pub max_timestamp_differs: bool,
    /// A compressed batch of a client whose offset deltas are not 0, 1, 2…: they must be set anew before the append
    /// ([`Rewrite::renumbers`](super::Rewrite::renumbers)).
    pub offset_deltas_differ: bool,
}

/// Validates a batch that is in memory. Input is untrusted. Allocates nothing for an uncompressed batch; for a
/// compressed one `scratch` grows by at most [`working_memory_bytes`](super::working_memory_bytes).
///
/// # Errors
/// The first thing that is wrong, where a CRC mismatch outranks everything in the body: what a damaged batch says is
/// not its sender's fault.
pub fn validate(
    header: &BatchHeader,
    body: &[IoSlice<'_>],
    options: &ValidateOptions,
    scratch: &mut Scratch,
) -> Result<BatchSummary, BatchError> {
    let mut validator = BatchValidator::new(header, options)?;
    for slice in body {
        validator.update(slice);
    }
    validator.finish(body, scratch)
}

/// Validation of one batch while its body arrives.
#[derive(Debug)]
pub struct BatchValidator {
    header: BatchHeader,
    codec: Codec,
    limits: InflateLimits,
    crc: Crc32c,
    walk: Walk,
    checks: Checks,
    /// The first error of the walk, held back until the CRC is known to be right.
    failed: Option<BatchError>,
    body_bytes: u64,
}

impl BatchValidator {
    /// Checks the header; the body follows.
    ///
    /// # Errors
    /// What is wrong with the header. Most of these hold only if the CRC is right, which cannot be known yet; they
    /// cost the sender nothing but this batch either way.
    pub fn new(header: &BatchHeader, options: &ValidateOptions) -> Result<Self, BatchError> {
        let codec = header.compression()?;
        check_header(header, options.origin)?;
        let mut crc = Crc32c::new();
        crc.update(&header.crc_covered_bytes());
        Ok(Self {
            header: *header,
            codec,
            limits: options.limits,
            crc,
            walk: Walk::new(header.record_count as u32),
            checks: Checks::new(header, options),
            failed: None,
            body_bytes: 0,
        })
    }

    /// Takes the next bytes of the body, in any split.
    pub fn update(&mut self, bytes: &[u8]) {
        self.crc.update(bytes);
        self.body_bytes += bytes.len() as u64;
        if self.codec == Codec::None
            && self.failed.is_none()
            && let Err(error) = self.walk.feed(bytes, &mut self.checks)
        {
            self.failed = Some(error);
        }
    }

    /// Whether the bytes so far already show that the batch is not valid (or damaged on its way).
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Ends the validation. `body` is read only if it is compressed; it must hold the bytes given to `update`.
    ///
    /// # Errors
    /// As [`validate`].
    pub fn finish(mut self, body: &[IoSlice<'_>], scratch: &mut Scratch) -> Result<BatchSummary, BatchError> {
        let expected = self.header.body_size_bytes() as u64;
        if self.body_bytes != expected {
            return Err(BatchError::BodyLength { found: self.body_bytes, expected });
        }
        let computed = self.crc.value();
        if computed != self.header.crc {
            return Err(BatchError::Crc { stored: self.header.crc, computed });
        }
        if let Some(error) = self.failed {
            return Err(error);
        }
        let mut records_size_bytes = self.body_bytes;
        let body_codec = self.header.body_codec()?;
        if body_codec != Codec::None {
            let mut source = Source::new(body_codec, body, &self.limits, scratch)?;
            loop {
                let piece = source.fill()?;
                if piece.is_empty() {
                    break;
                }
                let length = piece.len();
                self.walk.feed(piece, &mut self.checks)?;
                source.consume(length);
            }
            records_size_bytes = source.inflated_bytes();
        }
        self.walk.finish()?;
        self.checks.finish()?;
        Ok(self.checks.summary(&self.header, self.codec, records_size_bytes))
    }
}

fn check_header(header: &BatchHeader, origin: Origin) -> Result<(), BatchError> {
    let refuse = |what, value| Err(BatchError::HeaderField { what, value });
    if header.record_count < 0 {
        return refuse("record count is negative", i64::from(header.record_count));
    }
    if header.last_offset_delta < 0 {
        return refuse("last offset delta is negative", i64::from(header.last_offset_delta));
    }
    if origin == Origin::Log {
        if header.base_offset < 0 {
            return refuse("base offset is negative", header.base_offset);
        }
        if header.base_offset.checked_add(i64::from(header.last_offset_delta)).is_none() {
            return refuse("last offset overflows, base offset", header.base_offset);
        }
        if i64::from(header.record_count) > i64::from(header.last_offset_delta) + 1 {
            return Err(BatchError::OffsetRange {
                last_offset_delta: header.last_offset_delta,
                record_count: header.record_count,
            });
        }
        return Ok(());
    }
    if header.base_offset != 0 {
        return refuse("base offset of a produced batch must be 0", header.base_offset);
    }
    if header.record_count == 0 {
        return refuse("record count of a produced batch must be positive", 0);
    }
    if header.last_offset_delta != header.record_count - 1 {
        return Err(BatchError::OffsetRange {
            last_offset_delta: header.last_offset_delta,
            record_count: header.record_count,
        });
    }
    if header.has_producer_id() && header.base_sequence < 0 && !header.is_control() {
        return refuse(
            "base sequence of a batch with a producer id must not be negative",
            header.base_sequence.into(),
        );
    }
    if header.has_producer_id() && header.producer_epoch < 0 {
        return refuse(
            "producer epoch of a batch with a producer id must not be negative",
            header.producer_epoch.into(),
        );
    }
    if origin == Origin::Client {
        if header.is_control() {
            return refuse(
                "clients are not allowed to write control batches, attributes",
                header.attributes.into(),
            );
        }
        if header.is_transactional() && !header.has_producer_id() {
            return refuse("a transactional batch needs a producer id", header.producer_id);
        }
        if header.timestamp_type() == TimestampType::LogAppendTime || header.delete_horizon().is_some() {
            return refuse(
                "only brokers set timestamp type and delete horizon, attributes",
                header.attributes.into(),
            );
        }
    }
    Ok(())
}

/// Earliest and latest accepted timestamp. `i64::MAX`, Kafka's default, means no limit.
fn accepted_range(now_ms: i64, before_max_ms: i64, after_max_ms: i64) -> (i64, i64) {
    let earliest = if before_max_ms == i64::MAX { i64::MIN } else { now_ms.saturating_sub(before_max_ms) };
    (earliest, now_ms.saturating_add(after_max_ms))
}

/// The checks per record; a few compares each, no allocation unless a record is refused.
#[derive(Debug)]
struct Checks {
    consecutive: bool,
    /// Consecutive, but another delta is no error.
    tolerant: bool,
    offset_deltas_differ: bool,
    last_offset_delta: i32,
    /// Consecutive: the delta expected next. Otherwise: the smallest legal one.
    next_offset_delta: i64,
    key_required: bool,
    base_timestamp: i64,
    /// Timestamp deltas in here need no closer look.
    delta_range: std::ops::RangeInclusive<i64>,
    now_ms: i64,
    /// None: timestamps are not limited, only their sums must not overflow.
    timestamp_limits_ms: Option<(i64, i64)>,
    max_delta: i64,
    max_delta_at: i32,
    errors: Vec<RecordError>,
    error_count: u32,
}

impl Checks {
    fn new(header: &BatchHeader, options: &ValidateOptions) -> Self {
        let limited = options.origin == Origin::Client && options.timestamp_type == TimestampType::CreateTime;
        let (earliest, latest) = if limited {
            accepted_range(options.now_ms, options.timestamp_before_max_ms, options.timestamp_after_max_ms)
        } else {
            (i64::MIN, i64::MAX)
        };
        // Saturation keeps base + delta inside of i64 for every delta in the range.
        let base = header.base_timestamp;
        let delta_range = earliest.saturating_sub(base)..=latest.saturating_sub(base);
        Self {
            consecutive: options.origin != Origin::Log,
            tolerant: options.origin == Origin::Client
                && header.body_codec().is_ok_and(|codec| codec != Codec::None),
            offset_deltas_differ: false,
            last_offset_delta: header.last_offset_delta,
            next_offset_delta: 0,
            key_required: options.key_required && options.origin != Origin::Log,
            base_timestamp: base,
            delta_range,
            now_ms: options.now_ms,
            timestamp_limits_ms: limited
                .then_some((options.timestamp_before_max_ms, options.timestamp_after_max_ms)),
            max_delta: i64::MIN,
            max_delta_at: -1,
            errors: Vec::new(),
            error_count: 0,
        }
    }

    #[cold]
    fn bad_offset(&self, meta: RecordMeta) -> BatchError {
        BatchError::OffsetDelta {
            index: meta.index,
            found: meta.offset_delta,
            expected: i32::try_from(self.next_offset_delta).unwrap_or(i32::MAX).min(self.last_offset_delta),
        }
    }

    #[cold]
    fn odd_timestamp(&mut self, meta: RecordMeta) -> Result<(), BatchError> {
        let Some(timestamp) = self.base_timestamp.checked_add(meta.timestamp_delta) else {
            let fault = super::RecordFault::Overflow { field: super::Field::Timestamp };
            return Err(BatchError::Record { index: meta.index, fault });
        };
        if let Some((before, after)) = self.timestamp_limits_ms
            && timestamp != NO_TIMESTAMP
        {
            let (earliest, latest) = accepted_range(self.now_ms, before, after);
            if !(earliest..=latest).contains(&timestamp) {
                self.refuse(meta, RefusedBecause::TimestampOutOfRange { timestamp, earliest, latest });
            }
        }
        Ok(())
    }

    #[cold]
    fn refuse(&mut self, meta: RecordMeta, fault: RefusedBecause) {
        self.error_count += 1;
        if self.errors.len() < MAX_RECORD_ERRORS {
            self.errors.push(RecordError { batch_index: meta.index as i32, fault });
        }
    }

    fn finish(&mut self) -> Result<(), BatchError> {
        if self.error_count == 0 {
            return Ok(());
        }
        Err(BatchError::RecordsRefused { errors: std::mem::take(&mut self.errors), total: self.error_count })
    }

    fn summary(&self, header: &BatchHeader, codec: Codec, records_size_bytes: u64) -> BatchSummary {
        let append_time = header.timestamp_type() == TimestampType::LogAppendTime;
        let (max_timestamp, offset_delta_of_max_timestamp) = if append_time {
            (header.max_timestamp, 0)
        } else if self.max_delta_at < 0 {
            // An empty batch keeps the maximum that it had with records.
            (header.max_timestamp, header.last_offset_delta)
        } else {
            // Times below "none" count as none, as in Kafka.
            let largest = self.base_timestamp.saturating_add(self.max_delta);
            (largest.max(NO_TIMESTAMP), self.max_delta_at)
        };
        BatchSummary {
            codec,
            record_count: header.record_count as u32,
            records_size_bytes,
            max_timestamp,
            offset_delta_of_max_timestamp,
            max_timestamp_differs: max_timestamp != header.max_timestamp,
            offset_deltas_differ: self.offset_deltas_differ,
        }
    }
}

impl Visitor for Checks {
    #[inline(always)]
    fn record(&mut self, meta: RecordMeta) -> Result<ControlFlow<()>, BatchError> {
        let delta = i64::from(meta.offset_delta);
        let fits = if self.consecutive {
            delta == self.next_offset_delta
        } else {
            delta >= self.next_offset_delta && meta.offset_delta <= self.last_offset_delta
        };
        if !fits {
            if !self.tolerant {
                return Err(self.bad_offset(meta));
            }
            self.offset_deltas_differ = true;
        }
        self.next_offset_delta = if self.tolerant { self.next_offset_delta } else { delta } + 1;
        if self.key_required && !meta.has_key {
            // As in Kafka, a record without key is not looked at further.
            self.refuse(meta, RefusedBecause::MissingKey);
        } else if !self.delta_range.contains(&meta.timestamp_delta) {
            self.odd_timestamp(meta)?;
        }
        if meta.timestamp_delta > self.max_delta || self.max_delta_at < 0 {
            self.max_delta = meta.timestamp_delta;
            self.max_delta_at = if self.tolerant { meta.index as i32 } else { meta.offset_delta };
        }
        Ok(ControlFlow::Continue(()))
    }
}
