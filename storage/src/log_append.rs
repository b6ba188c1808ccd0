//! Appends: producer check, offsets, roll, one `pwritev`, indexes.
//!
//! A failed or short write is cut off again, so that no torn batch stays behind. After a failure of the disk the log
//! is read-only: reads go on, appends are refused with the reason, and each `probe_interval_ms` one append tries
//! again, first cutting what the failed write may have left.

use std::fs::File;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_protocol::records::{BatchHeader, HEADER_SIZE_BYTES, TimestampType};

use crate::config::LogConfig;
use crate::control::{ControlMarker, MARKER_WINDOW_BYTES};
use crate::disk::Disk;
use crate::error::StorageError;
use crate::file_handles::{Access, FileHandle};
use crate::log::{Log, ReadOnly, Writer, count};
use crate::offset_index::INDEX_SUFFIX;
use crate::offsets::LogStartOffset;
use crate::producer_snapshot;
use crate::producer_state::{AppendOrigin, Check};
use crate::recent::RecentBatch;
use crate::segment::{IndexBuilder, LOG_SUFFIX, Segment};
use crate::time_index::TIME_INDEX_SUFFIX;
use crate::transaction_index;

/// Slices that one system call takes: 1 MiB of 16 KiB chunks, and little enough for the stack.
const SLICES_PER_WRITE: usize = 64;

/// What an append needs to know besides the batch.
#[derive(Debug, Clone, Copy)]
pub struct AppendOptions {
    /// The epoch of the leader, stamped into the batch.
    pub leader_epoch: i32,
    /// Who appends.
    pub origin: AppendOrigin,
    /// The wall clock, ms.
    pub now_ms: i64,
}

/// The body of a batch that is nowhere in memory: it is written and then checked where it lies.
pub trait UnreadBody {
    /// Writes the body to `file` from `position` on, and checks it there. The header is written after it, so that a
    /// crash leaves no batch that was not checked; what the body proves wrong in it is set right here.
    ///
    /// # Errors
    /// Whatever it is, nothing of the batch stays in the log.
    fn write_to(
        &mut self,
        file: &File,
        position: u64,
        header: &mut BatchHeader,
    ) -> Result<(), UnreadBodyError>;
}

/// Why an [`UnreadBody`] is not appended.
#[derive(Debug)]
pub enum UnreadBodyError {
    /// The file cannot be written or read.
    File(io::Error),
    /// The body does not come or is not valid; who gave it knows why.
    Refused,
}

/// Where the bytes of a body are.
enum Body<'a, 'b> {
    Slices(&'a [IoSlice<'b>]),
    Unread(&'a mut dyn UnreadBody),
}

/// What an append did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppendInfo {
    /// The offset of the first record.
    pub first_offset: i64,
    /// The offset of the last record.
    pub last_offset: i64,
    /// The append time when the batch carries it (`message.timestamp.type=LogAppendTime`), else -1.
    pub log_append_time_ms: i64,
    /// The log start offset.
    pub log_start_offset: LogStartOffset,
    /// The batch was appended before; the offsets are those of then, nothing was written.
    pub duplicate: bool,
    /// `flush.messages` is reached: [`Log::flush_to`] must be called before the append is acknowledged.
    pub needs_flush: bool,
}

impl Log {
    /// Appends a batch as its leader: checks the producer, assigns the offsets from the log end on, stamps the leader
    /// epoch. The rest of `header` and all of `body` go to the file as they are, so they must have been validated;
    /// for LogAppendTime the caller has stamped the header.
    ///
    /// # Errors
    /// Sequence and epoch errors of idempotent producers; [`StorageError::TooManyProducerIds`];
    /// [`StorageError::BatchTooLarge`]; [`StorageError::ReadOnly`] and [`StorageError::Io`] when the disk refuses;
    /// [`StorageError::Closed`]. The log is unchanged then.
    pub fn append_as_leader(
        &self,
        header: &BatchHeader,
        body: &[IoSlice<'_>],
        options: &AppendOptions,
    ) -> Result<AppendInfo, StorageError> {
        self.check_length(header, body)?;
        let marker = marker_of(header, body);
        self.append_next(header, Body::Slices(body), marker.as_ref(), options)
    }

    /// As [`Self::append_as_leader`], for a body that is checked in the log; never a control batch.
    ///
    /// # Errors
    /// As there, and [`StorageError::BodyRefused`].
    pub fn append_unread(
        &self,
        header: &BatchHeader,
        body: &mut dyn UnreadBody,
        options: &AppendOptions,
    ) -> Result<AppendInfo, StorageError> {
        self.append_next(header, Body::Unread(body), None, options)
    }

    fn append_next(
        &self,
        header: &BatchHeader,
        body: Body<'_, '_>,
        marker: Option<&ControlMarker>,
        options: &AppendOptions,
    ) -> Result<AppendInfo, StorageError> {
        let config = self.config();
        let size_bytes = self.check_header(header, options.origin, &config)?;
        let mut writer = self.writer.lock();
        self.ensure_writable(&mut writer, options.now_ms)?;
        let check = match writer.producers.check(&self.topic_partition, header, marker, options.origin) {
            Err(StorageError::TooManyProducerIds { .. }) => {
                self.expire_producers_locked(&mut writer, options.now_ms);
                writer.producers.check(&self.topic_partition, header, marker, options.origin)?
            }
            other => other?,
        };
        if let Check::Duplicate(batch) = check {
            return Ok(AppendInfo {
                first_offset: batch.first_offset(),
                last_offset: batch.last_offset,
                log_append_time_ms: batch.timestamp,
                log_start_offset: self.log_start_offset(),
                duplicate: true,
                needs_flush: self.is_flush_needed(&config),
            });
        }
        let mut header = *header;
        header.base_offset = self.log_end.load(Ordering::Relaxed);
        header.partition_leader_epoch = options.leader_epoch;
        self.append_locked(&mut writer, header, body, size_bytes, marker, options.now_ms, &config)
    }

    /// Appends a batch whose offsets and epoch are final: for replication and for the metadata log. The producer is
    /// not checked, but remembered.
    ///
    /// # Errors
    /// [`StorageError::UnexpectedOffset`] unless the batch begins at the log end (or behind it, when the log may have
    /// gaps); else as [`Self::append_as_leader`].
    pub fn append_as_is(
        &self,
        header: &BatchHeader,
        body: &[IoSlice<'_>],
        now_ms: i64,
    ) -> Result<AppendInfo, StorageError> {
        let config = self.config();
        self.check_length(header, body)?;
        let size_bytes = self.check_header(header, AppendOrigin::Replication, &config)?;
        let marker = marker_of(header, body);
        let mut writer = self.writer.lock();
        self.ensure_writable(&mut writer, now_ms)?;
        let expected = self.log_end.load(Ordering::Relaxed);
        if header.base_offset < expected || (header.base_offset > expected && self.is_contiguous()) {
            return Err(StorageError::UnexpectedOffset {
                topic_partition: self.topic_partition.clone(),
                offset: header.base_offset,
                expected,
            });
        }
        let body = Body::Slices(body);
        self.append_locked(&mut writer, *header, body, size_bytes, marker.as_ref(), now_ms, &config)
    }

    fn invalid(&self, reason: String) -> StorageError {
        StorageError::InvalidBatch { topic_partition: self.topic_partition.clone(), reason }
    }

    fn check_length(&self, header: &BatchHeader, body: &[IoSlice<'_>]) -> Result<(), StorageError> {
        let (claimed, bytes) = (header.body_size_bytes(), body.iter().map(|slice| slice.len()).sum());
        if claimed == bytes {
            return Ok(());
        }
        Err(self.invalid(format!("the header claims a body of {claimed} bytes, it has {bytes}")))
    }

    fn check_header(
        &self,
        header: &BatchHeader,
        origin: AppendOrigin,
        config: &LogConfig,
    ) -> Result<u64, StorageError> {
        if header.last_offset_delta < 0 {
            return Err(self.invalid(format!("its last offset delta is {}", header.last_offset_delta)));
        }
        if header.has_producer_id()
            && (header.producer_epoch < 0 || (origin == AppendOrigin::Client && header.base_sequence < 0))
        {
            return Err(self.invalid(format!(
                "producer {} comes with epoch {} and sequence {}",
                header.producer_id, header.producer_epoch, header.base_sequence
            )));
        }
        let size_bytes = header.size_bytes() as u64;
        let limit_bytes = u64::from(config.segment_bytes);
        if size_bytes > limit_bytes {
            return Err(StorageError::BatchTooLarge {
                topic_partition: self.topic_partition.clone(),
                size_bytes,
                limit_bytes,
            });
        }
        Ok(size_bytes)
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one append, passed through once")]
    fn append_locked(
        &self,
        writer: &mut Writer,
        mut header: BatchHeader,
        body: Body<'_, '_>,
        size_bytes: u64,
        marker: Option<&ControlMarker>,
        now_ms: i64,
        config: &LogConfig,
    ) -> Result<AppendInfo, StorageError> {
        let first_offset = header.base_offset;
        let Some(next_offset) = first_offset
            .checked_add(i64::from(header.last_offset_delta))
            .and_then(|last| last.checked_add(1))
        else {
            return Err(self.invalid(format!("its offsets exceed {}", i64::MAX)));
        };
        let last_offset = next_offset - 1;
        let fits = self.fits_active(&writer.active, size_bytes, last_offset);
        let rolls = !fits
            || (self.should_roll(writer, config, size_bytes, header.max_timestamp, now_ms)
                && !self.puts_roll_off(now_ms));
        if rolls {
            if writer.active.size_bytes() > 0 && self.shared.segments.is_full() {
                return Err(StorageError::TooManySegments {
                    topic_partition: self.topic_partition.clone(),
                    limit: self.shared.segments.limit(),
                });
            }
            self.roll_locked(writer, first_offset, now_ms, config)
                .map_err(|error| self.note_failure(writer, "roll", error, now_ms))?;
        }
        let segment = Arc::clone(&writer.active);
        let position = segment.size_bytes();
        self.write_batch(writer, &segment, &mut header, body, position, config)
            .map_err(|error| self.note_failure(writer, "append", error, now_ms))?;
        let header = &header;

        segment.set_size_bytes(position + size_bytes);
        writer.touched = true;
        if position == 0 {
            writer.first_timestamp = Some(header.max_timestamp);
        }
        self.recent.lock().push(RecentBatch {
            base_offset: first_offset,
            last_offset,
            position: position as u32,
            size_bytes: size_bytes as u32,
        });
        let place = self.place(segment.base_offset);
        let indexed =
            writer.index.add(&segment, place, header, position, size_bytes, config.index_interval_bytes);
        segment.set_max_timestamp(writer.index.largest);
        let was_read_only = writer.read_only.take().is_some();
        if let Some(completed) = writer.producers.apply(header, marker, now_ms)
            && let Some(aborted) = writer.producers.complete(&completed)
        {
            self.may_have_aborted.store(true, Ordering::Release);
            if let Err(error) = transaction_index::append(place, &aborted) {
                self.note_failure(writer, "index an aborted transaction of", error, now_ms);
            }
        }
        if header.partition_leader_epoch > writer.current_epoch
            && let Err(error) = self.assign_epoch(writer, header.partition_leader_epoch, first_offset)
        {
            // The batch is in the log and carries its epoch; the checkpoint is written again at the next chance.
            tracing::warn!(partition = %self.topic_partition, %error, "cannot write the leader epoch checkpoint");
        }
        self.log_end.store(next_offset, Ordering::Release);
        self.high_watermark.store(next_offset, Ordering::Release);
        writer.producers.on_high_watermark(next_offset);
        let unstable = writer.producers.first_unstable_offset().unwrap_or(i64::MAX);
        self.first_unstable.store(unstable, Ordering::Release);
        self.last_append_ms.store(now_ms, Ordering::Relaxed);
        if let Err(error) = indexed {
            // The batch stands; its index entry is still in memory and is written by the next successful append.
            let error = self.io_error("index", segment.base_offset, error);
            self.note_failure(writer, "index", error, now_ms);
        }
        if was_read_only && writer.read_only.is_none() {
            self.take_writes_again(writer);
        }
        let append_time = header.timestamp_type() == TimestampType::LogAppendTime;
        Ok(AppendInfo {
            first_offset,
            last_offset,
            log_append_time_ms: if append_time { header.max_timestamp } else { -1 },
            log_start_offset: self.log_start_offset(),
            duplicate: false,
            needs_flush: self.is_flush_needed(config),
        })
    }

    /// Whether as many records as `flush.messages` are not synced yet.
    fn is_flush_needed(&self, config: &LogConfig) -> bool {
        let unflushed = self.log_end.load(Ordering::Relaxed) - self.recovery_point.load(Ordering::Relaxed);
        unflushed > 0 && unflushed >= config.flush_messages
    }

    fn write_batch(
        &self,
        writer: &mut Writer,
        segment: &Segment,
        header: &mut BatchHeader,
        body: Body<'_, '_>,
        position: u64,
        config: &LogConfig,
    ) -> Result<(), StorageError> {
        let disk = self.shared.handles.disk();
        let handle = segment
            .handle(self.place(segment.base_offset), Access::Write)
            .map_err(|error| self.io_error("open", segment.base_offset, error))?;
        if writer.torn {
            self.cut_behind_end(writer)?;
        }
        let end = position + header.size_bytes() as u64;
        let most = u64::from(config.segment_bytes);
        writer.room.make(disk, (handle.file(), handle.path()), (position, end), most);
        let written = match body {
            Body::Slices(body) => {
                write_all(disk, &handle, &header.to_bytes(), body, position).map_err(UnreadBodyError::File)
            }
            Body::Unread(body) => write_unread(disk, &handle, header, body, position),
        };
        written.map_err(|error| {
            // Nothing torn may stay: a later, shorter batch would not cover it.
            writer.torn = disk.set_length(handle.file(), handle.path(), position).is_err();
            writer.room.forget();
            match error {
                UnreadBodyError::File(error) => self.io_error("append to", segment.base_offset, error),
                UnreadBodyError::Refused => {
                    StorageError::BodyRefused { topic_partition: self.topic_partition.clone() }
                }
            }
        })
    }

    /// Cuts off what lies behind the active segment's size: the rest of a write that failed, and room. That room
    /// cannot be cut off is no error.
    pub(crate) fn cut_behind_end(&self, writer: &mut Writer) -> Result<(), StorageError> {
        if !writer.torn && !writer.room.is_made() {
            return Ok(());
        }
        let active = &writer.active;
        let cut = active.handle(self.place(active.base_offset), Access::Write).and_then(|handle| {
            let (disk, size) = (self.shared.handles.disk(), active.size_bytes());
            if !writer.torn && handle.file().metadata()?.len() < size {
                // Not the file that it was: it must not grow by zeros.
                return Ok(());
            }
            disk.set_length(handle.file(), handle.path(), size)
        });
        match cut {
            Err(error) if writer.torn => {
                Err(self.io_error("cut a torn write off", active.base_offset, error))
            }
            _ => {
                writer.torn = false;
                writer.room.forget();
                Ok(())
            }
        }
    }

    /// Refuses appends to a closed log, and to a read-only one unless it is time to try again.
    pub(crate) fn ensure_writable(&self, writer: &mut Writer, now_ms: i64) -> Result<(), StorageError> {
        if writer.closed {
            return Err(StorageError::Closed { topic_partition: self.topic_partition.clone() });
        }
        if let Some(reason) = self.log_dir.offline_reason() {
            return Err(StorageError::ReadOnly {
                topic_partition: self.topic_partition.clone(),
                reason: reason.into(),
            });
        }
        let Some(read_only) = &mut writer.read_only else { return Ok(()) };
        let waited = now_ms.saturating_sub(read_only.last_probe_ms);
        if (0..self.shared.probe_interval_ms).contains(&waited) {
            return Err(StorageError::ReadOnly {
                topic_partition: self.topic_partition.clone(),
                reason: Arc::clone(&read_only.reason),
            });
        }
        read_only.last_probe_ms = now_ms;
        if read_only.rewrite_unflushed {
            self.rewrite_unflushed(writer)?;
        }
        // What an earlier failure left unwritten comes first; if that fails again, so does the append.
        let place = self.place(writer.active.base_offset);
        let flushed = writer.active.offset_index.0.flush_tail(place);
        flushed
            .and_then(|()| writer.active.time_index.0.flush_tail(place))
            .map_err(|error| self.io_error("index", place.base_offset, error))
    }

    /// Tries a write on a read-only log without waiting for an append: cuts torn bytes off, writes what is held back.
    /// Returns true when the log takes writes.
    pub fn probe(&self, now_ms: i64) -> bool {
        let mut writer = self.writer.lock();
        if writer.closed || writer.read_only.is_none() {
            return !writer.closed;
        }
        let segment = Arc::clone(&writer.active);
        let place = self.place(segment.base_offset);
        let outcome = self.ensure_writable(&mut writer, now_ms).and_then(|()| {
            let disk = self.shared.handles.disk();
            let position = segment.size_bytes();
            segment
                .handle(place, Access::Write)
                .and_then(|handle| {
                    // A byte behind the last batch, taken back at once: it needs space and a writable disk.
                    disk.write_all_at(handle.file(), handle.path(), &[0], position)?;
                    disk.set_length(handle.file(), handle.path(), position)
                })
                .map_err(|error| self.io_error("write to", segment.base_offset, error))
        });
        match outcome {
            Ok(()) => {
                writer.torn = false;
                writer.room.forget();
                self.take_writes_again(&mut writer);
                true
            }
            Err(error) => {
                writer.torn = true;
                tracing::debug!(partition = %self.topic_partition, %error, "still read-only");
                false
            }
        }
    }

    /// Ends the time in which the log is read-only.
    pub(crate) fn take_writes_again(&self, writer: &mut Writer) {
        writer.read_only = None;
        self.is_read_only.store(false, Ordering::Release);
        count(&self.shared.counters.recovered_from_read_only, 1);
        tracing::info!(partition = %self.topic_partition, "the log takes writes again");
    }

    /// Makes the log read-only after a failure of the disk; hands the error through.
    pub(crate) fn note_failure(
        &self,
        writer: &mut Writer,
        what: &str,
        error: StorageError,
        now_ms: i64,
    ) -> StorageError {
        if !error.is_disk_failure() {
            return error;
        }
        count(&self.shared.counters.failed_appends, 1);
        match &mut writer.read_only {
            Some(read_only) => read_only.last_probe_ms = now_ms,
            None => {
                tracing::error!(partition = %self.topic_partition, %error, "cannot {what} the log, it is read-only now");
                count(&self.shared.counters.went_read_only, 1);
                writer.read_only = Some(ReadOnly {
                    reason: error.to_string().into(),
                    last_probe_ms: now_ms,
                    rewrite_unflushed: false,
                });
                self.is_read_only.store(true, Ordering::Release);
            }
        }
        error
    }

    /// Whether positions and offsets of a batch can be expressed in the active segment.
    fn fits_active(&self, segment: &Segment, size_bytes: u64, last_offset: i64) -> bool {
        const MOST: i64 = i32::MAX as i64;
        segment.size_bytes() + size_bytes <= MOST as u64 && last_offset - segment.base_offset <= MOST
    }

    /// Whether there are so many segments that this log appends on although its settings ask for a new one.
    fn puts_roll_off(&self, now_ms: i64) -> bool {
        let quota = &self.shared.segments;
        if !quota.is_full() {
            return false;
        }
        if quota.note_put_off(now_ms) {
            tracing::warn!(
                partition = %self.topic_partition,
                "segments grow beyond segment.bytes and segment.ms: max.segments = {} is reached",
                quota.limit()
            );
        }
        true
    }

    fn should_roll(
        &self,
        writer: &mut Writer,
        config: &LogConfig,
        size_bytes: u64,
        max_timestamp: i64,
        now_ms: i64,
    ) -> bool {
        let segment = &writer.active;
        let size = segment.size_bytes();
        if size == 0 {
            return false;
        }
        if size + size_bytes > u64::from(config.segment_bytes) {
            return true;
        }
        let first_timestamp = match writer.first_timestamp {
            Some(timestamp) => timestamp,
            None => {
                let timestamp = self.first_timestamp_of(segment);
                writer.first_timestamp = Some(timestamp);
                timestamp
            }
        };
        let waited = if first_timestamp >= 0 {
            max_timestamp.saturating_sub(first_timestamp)
        } else {
            now_ms.saturating_sub(writer.segment_created_ms)
        };
        if waited > config.segment_ms.saturating_sub(writer.jitter_ms) {
            return true;
        }
        // An index is asked only when the segment is large enough for it to be full.
        let interval = u64::from(config.index_interval_bytes).max(1);
        let fullest = (size / interval + 1) * 12;
        if fullest < u64::from(config.segment_index_bytes) {
            return false;
        }
        let place = self.place(segment.base_offset);
        let entries = |count: io::Result<u32>| u64::from(count.unwrap_or(0));
        let most = u64::from(config.segment_index_bytes);
        entries(segment.offset_index.0.entries(place)) >= most / 8
            || entries(segment.time_index.0.entries(place)) + 1 >= most / 12
    }

    /// Timestamp of the first batch of a segment, -1 when it has none.
    fn first_timestamp_of(&self, segment: &Segment) -> i64 {
        let mut window = [0; 256];
        let place = self.place(segment.base_offset);
        let Ok(handle) = segment.handle(place, Access::Read) else { return -1 };
        let disk = self.shared.handles.disk();
        let mut scanner = crate::scan::Scanner::new(disk, &handle, &mut window, 0, segment.size_bytes());
        scanner.next_batch().ok().flatten().map_or(-1, |batch| batch.header.max_timestamp)
    }

    /// Seals the active segment and begins a new one at `base_offset`.
    pub(crate) fn roll_locked(
        &self,
        writer: &mut Writer,
        base_offset: i64,
        now_ms: i64,
        config: &LogConfig,
    ) -> Result<(), StorageError> {
        let old = Arc::clone(&writer.active);
        self.cut_behind_end(writer)?;
        old.seal(self.place(old.base_offset))
            .map_err(|error| self.io_error("seal", old.base_offset, error))?;
        writer.producers.set_map_end_offset(base_offset);
        self.take_snapshot(writer)?;
        let place = self.place(base_offset);
        let segment = Segment::create(place, self.shared.segments.segment()).map_err(|error| {
            // The log may go on in the old one: an empty segment amid its records would hide them after a start.
            if base_offset != old.base_offset {
                for suffix in [LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX] {
                    // What stays is set aside by the start.
                    let _ = self.shared.handles.disk().remove_file(&place.path(suffix));
                }
            }
            self.io_error("create", base_offset, error)
        })?;
        let segment = Arc::new(segment);
        {
            let mut segments = self.segments.write();
            if old.size_bytes() == 0 {
                segments.pop();
            }
            segments.push(Arc::clone(&segment));
        }
        if old.size_bytes() == 0 && old.base_offset != base_offset {
            self.delete_segment_files(&old)?;
        }
        self.recent.lock().clear();
        writer.active = segment;
        writer.index = IndexBuilder::new();
        writer.first_timestamp = None;
        writer.segment_created_ms = now_ms;
        writer.jitter_ms = jitter(config, base_offset, &self.topic_partition);
        count(&self.shared.counters.segments_rolled, 1);
        self.dir_unsynced.store(true, Ordering::Relaxed);
        self.flush_due.store(true, Ordering::Release);
        Ok(())
    }

    /// Rolls the active segment if it holds anything.
    ///
    /// # Errors
    /// [`StorageError::Io`] and [`StorageError::ReadOnly`], [`StorageError::Closed`].
    pub fn roll(&self, now_ms: i64) -> Result<(), StorageError> {
        let config = self.config();
        let mut writer = self.writer.lock();
        self.ensure_writable(&mut writer, now_ms)?;
        if writer.active.size_bytes() > 0 {
            let base_offset = self.log_end.load(Ordering::Relaxed);
            self.roll_locked(&mut writer, base_offset, now_ms, &config)
                .map_err(|error| self.note_failure(&mut writer, "roll", error, now_ms))?;
        }
        Ok(())
    }

    /// Writes the snapshot of the producers as of the end of their state, unless there is one.
    pub(crate) fn take_snapshot(&self, writer: &mut Writer) -> Result<(), StorageError> {
        let offset = writer.producers.map_end_offset();
        if writer.snapshots.last().is_some_and(|last| *last >= offset) {
            return Ok(());
        }
        let entries = writer.producers.snapshot_entries();
        producer_snapshot::write(self.shared.handles.disk(), &self.dir, offset, &entries)?;
        writer.snapshots.push(offset);
        Ok(())
    }
}

/// The marker in a control batch, found in the first bytes of its body.
fn marker_of(header: &BatchHeader, body: &[IoSlice<'_>]) -> Option<ControlMarker> {
    if !header.is_control() || !header.has_producer_id() {
        return None;
    }
    let bytes: Vec<u8> =
        body.iter().flat_map(|slice| slice.iter().copied()).take(MARKER_WINDOW_BYTES).collect();
    ControlMarker::parse(&bytes, header.base_timestamp)
}

/// Has the body written, and writes the header before it.
fn write_unread(
    disk: &Disk,
    handle: &FileHandle,
    header: &mut BatchHeader,
    body: &mut dyn UnreadBody,
    position: u64,
) -> Result<(), UnreadBodyError> {
    disk.before_write(handle.path(), header.body_size_bytes()).map_err(UnreadBodyError::File)?;
    body.write_to(handle.file(), position + HEADER_SIZE_BYTES as u64, header)?;
    disk.write_all_at(handle.file(), handle.path(), &header.to_bytes(), position)
        .map_err(UnreadBodyError::File)
}

/// Writes header and body with as few system calls as the slices allow, going on after short writes.
fn write_all(
    disk: &Disk,
    handle: &FileHandle,
    header: &[u8; HEADER_SIZE_BYTES],
    body: &[IoSlice<'_>],
    mut position: u64,
) -> io::Result<()> {
    let mut next = 0;
    let mut skip = 0;
    let part = |index: usize| -> Option<&[u8]> {
        if index == 0 { Some(&header[..]) } else { body.get(index - 1).map(|slice| &**slice) }
    };
    loop {
        let mut slices = [IoSlice::new(&[]); SLICES_PER_WRITE];
        let mut used = 0;
        for (slot, index) in slices.iter_mut().zip(next..) {
            let Some(bytes) = part(index) else { break };
            let bytes = if index == next { bytes.get(skip..).unwrap_or_default() } else { bytes };
            *slot = IoSlice::new(bytes);
            used += 1;
        }
        let slices = slices.get(..used).unwrap_or_default();
        let wanted: usize = slices.iter().map(|slice| slice.len()).sum();
        if wanted == 0 {
            return Ok(());
        }
        let mut written = disk.write_vectored_at(handle.file(), handle.path(), slices, position)?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        position += written as u64;
        while let Some(bytes) = part(next) {
            let left = bytes.len() - skip;
            if written < left {
                skip += written;
                break;
            }
            written -= left;
            next += 1;
            skip = 0;
        }
    }
}

/// How much earlier than `segment.ms` a segment rolls: spread evenly over the partitions and segments, and the same
/// each time that it is asked, so that no random number is needed.
pub(crate) fn jitter(
    config: &LogConfig,
    base_offset: i64,
    name: &crate::topic_partition::TopicPartition,
) -> i64 {
    use std::hash::{Hash, Hasher};
    let most = config.segment_jitter_ms.min(config.segment_ms);
    if most <= 0 {
        return 0;
    }
    let mut hasher = std::hash::DefaultHasher::new();
    (name, base_offset).hash(&mut hasher);
    (hasher.finish() % most as u64) as i64
}
