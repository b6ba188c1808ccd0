//! How a log is opened: leftovers, segments, the check of the unflushed tail, epochs, producers.
//!
//! After a clean stop nothing is checked but what costs a few reads: that the index of the active segment leads to its
//! end, and that no segment ends before the next one begins. After a crash everything from the recovery point on is
//! read: CRC, magic, offsets that grow without gap or overlap; the first batch that fails ends the log there. The time
//! is that of the unflushed tail. Whatever else is damaged (indexes, snapshots, epochs) is rebuilt with a warning.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use crate::error::{IoContext, StorageError};
use crate::file_handles::Access;
use crate::index_file::Place;
use crate::leader_epoch::LeaderEpochs;
use crate::log::{Damage, Log, LogOptions, LogShared, Turns, Writer, count};
use crate::log_append::jitter;
use crate::log_dir::LogDir;
use crate::partition_metadata;
use crate::producer_loader::ProducerLoader;
use crate::producer_state::ProducerState;
use crate::recent::RecentBatches;
use crate::recovery_files::{self, Files};
use crate::room::{self, Room};
use crate::scan::{LOOKUP_WINDOW_BYTES, SCAN_WINDOW_BYTES};
use crate::segment::{FindError, IndexBuilder, LOG_SUFFIX, Segment, SegmentEnd};
use crate::topic_partition::TopicPartition;
use crate::transaction_index::{self, AbortedTxn};

impl Log {
    /// Opens the log in `options.dir`, or makes it. Memory while it runs: a window of 64 KiB.
    ///
    /// # Errors
    /// [`StorageError::TopicIdMismatch`] when the directory belongs to another topic id; [`StorageError::Io`]. What is
    /// damaged is repaired or cut off, never an error.
    pub fn open(
        shared: Arc<LogShared>,
        log_dir: Arc<LogDir>,
        options: LogOptions,
    ) -> Result<Arc<Self>, StorageError> {
        let loader = Loader { shared: &shared, options: &options };
        let mut loaded = loader.load()?;
        let active = match loaded.segments.last() {
            Some(active) => Arc::clone(active),
            None => unreachable!("a loaded log has an active segment"),
        };
        loaded.segments.shrink_to_fit();
        loaded.snapshots.shrink_to_fit();
        let jitter_ms = jitter(&options.config, active.base_offset, &options.topic_partition);
        let first_base = loaded.segments.first().map_or(0, |segment| segment.base_offset);
        log_dir.set_log_start(
            &options.topic_partition,
            (loaded.log_start > first_base).then_some(loaded.log_start),
        );
        loaded.producers.on_high_watermark(loaded.log_end);
        let first_unstable = loaded.producers.first_unstable_offset().unwrap_or(i64::MAX);
        let writer = Writer {
            active,
            snapshots: loaded.snapshots,
            index: loaded.index,
            first_timestamp: None,
            segment_created_ms: options.now_ms,
            jitter_ms,
            current_epoch: loaded.epochs.latest().map_or(-1, |entry| entry.epoch),
            read_only: None,
            torn: false,
            room: Room::new(&shared.room),
            closed: false,
            touched: loaded.touched,
            producers: loaded.producers,
        };
        Ok(Arc::new(Self {
            shared: Arc::clone(&shared),
            log_dir,
            topic_id: options.topic_id,
            compacted: AtomicBool::new(options.compacted || options.config.compact),
            config: RwLock::new(options.config),
            topic_partition: options.topic_partition,
            dir: options.dir,
            segments: RwLock::new(loaded.segments),
            removals: AtomicU64::new(0),
            writer: Mutex::new(writer),
            epochs: Mutex::new(loaded.epochs),
            recent: Mutex::new(RecentBatches::default()),
            has_damage: AtomicBool::new(!loaded.damages.is_empty()),
            damages: Mutex::new(loaded.damages),
            doomed: Mutex::default(),
            named_gaps: Mutex::new(Vec::new()),
            flush_turns: Turns::default(),
            log_start: AtomicI64::new(loaded.log_start),
            log_end: AtomicI64::new(loaded.log_end),
            high_watermark: AtomicI64::new(loaded.log_end),
            first_unstable: AtomicI64::new(first_unstable),
            may_have_aborted: AtomicBool::new(loaded.may_have_aborted),
            recovery_point: AtomicI64::new(loaded.recovery_point),
            last_flush_ms: AtomicI64::new(options.now_ms),
            last_append_ms: AtomicI64::new(options.now_ms),
            // What a crash left unflushed is flushed soon, or a server that crashes again and again would check it anew
            // each time.
            flush_due: AtomicBool::new(loaded.recovery_point < loaded.log_end),
            dir_unsynced: AtomicBool::new(loaded.touched),
            parent_unsynced: AtomicBool::new(loaded.is_new),
            removing: Mutex::default(),
            out_of_service: AtomicBool::new(false),
            is_read_only: AtomicBool::new(false),
            counted: shared.segments.log(),
        }))
    }
}

struct Loaded {
    segments: Vec<Arc<Segment>>,
    snapshots: Vec<i64>,
    epochs: LeaderEpochs,
    producers: ProducerState,
    index: IndexBuilder,
    log_start: i64,
    log_end: i64,
    recovery_point: i64,
    touched: bool,
    is_new: bool,
    may_have_aborted: bool,
    damages: Vec<Damage>,
}

/// What the steps of a start share.
pub(crate) struct Loader<'a> {
    pub(crate) shared: &'a LogShared,
    pub(crate) options: &'a LogOptions,
}

impl<'a> Loader<'a> {
    pub(crate) fn place(&self, base_offset: i64) -> Place<'a> {
        Place { handles: &self.shared.handles, dir: &self.options.dir, base_offset }
    }

    pub(crate) fn name(&self) -> &TopicPartition {
        &self.options.topic_partition
    }

    pub(crate) fn is_contiguous(&self) -> bool {
        !self.options.compacted && !self.options.config.compact
    }

    pub(crate) fn io(&self, action: &'static str, base_offset: i64, source: std::io::Error) -> StorageError {
        StorageError::Io { action, path: self.place(base_offset).path(LOG_SUFFIX), source }
    }

    fn load(&self) -> Result<Loaded, StorageError> {
        let disk = self.shared.handles.disk();
        let dir = &self.options.dir;
        let listed = disk.list(dir);
        let is_new = matches!(&listed, Err(error) if error.kind() == std::io::ErrorKind::NotFound);
        let files = if is_new {
            // Without those above it, which may be a disk that is gone.
            disk.create_dir(dir).context("create", dir)?;
            Files::default()
        } else {
            recovery_files::take_stock(disk, dir, listed.context("list", dir)?)?
        };
        let is_new = is_new || files.segments.is_empty();
        if let Some(topic_id) = self.options.topic_id {
            partition_metadata::ensure(disk, dir, topic_id, is_new)?;
        }
        let mut segments = Vec::with_capacity(files.segments.len().max(1));
        for base_offset in &files.segments {
            let path = self.place(*base_offset).path(LOG_SUFFIX);
            let length = disk.length(&path).context("look at", &path)?;
            segments.push(Arc::new(Segment::existing(*base_offset, length, self.shared.segments.segment())));
        }
        let mut window = vec![0; LOOKUP_WINDOW_BYTES];
        self.set_given_up_rolls_aside(&mut segments, &mut window)?;
        let mut snapshots = files.snapshots;
        let mut epochs = self.load_epochs(&segments)?;
        let mut touched = is_new;
        let mut clean = self.options.clean;
        let mut recovery_point = self.options.recovery_point.max(0);
        let mut damages = Vec::new();

        let mut end = None;
        if clean && let Some(active) = segments.last() {
            match self.find_end(active, &mut window) {
                Ok(found) => {
                    if recovery_point > found.next_offset {
                        count(&self.shared.counters.gaps_found, 1);
                        tracing::error!(
                            partition = %self.name(),
                            expected_end = recovery_point,
                            found_end = found.next_offset,
                            "records at the end of the log are missing"
                        );
                    }
                    end = Some((found.next_offset, self.resume_index(active, found)?));
                }
                Err(FindError::Io(error)) => return Err(self.io("read", active.base_offset, error)),
                Err(error) => {
                    tracing::warn!(
                        partition = %self.name(),
                        ?error,
                        "the active segment does not end as a clean stop leaves it, checking it"
                    );
                    clean = false;
                    recovery_point = recovery_point.max(active.base_offset);
                }
            }
        }
        let flushed = if clean {
            segments.len().saturating_sub(1)
        } else {
            segments.partition_point(|segment| segment.base_offset <= recovery_point).saturating_sub(1)
        };
        self.look_for_gaps(&segments, flushed, &mut window)?;
        let mut checked_from = i64::MAX;
        if !clean && !segments.is_empty() {
            count(&self.shared.counters.logs_recovered, 1);
            window.resize(SCAN_WINDOW_BYTES, 0);
            checked_from = segments.get(flushed).map_or(0, |segment| segment.base_offset).max(recovery_point);
            end = Some(self.check_tail(
                &mut segments,
                flushed,
                recovery_point,
                &mut epochs,
                &mut damages,
                &mut window,
            )?);
            touched = true;
            if let Some(active) = segments.last() {
                self.cut_room(active);
            }
        }
        drop(window);

        let checkpointed_start = self.options.log_start_offset.max(0);
        let mut start_floor = checkpointed_start;
        if let Some((log_end, _)) = end
            && checkpointed_start > log_end
        {
            if clean {
                tracing::warn!(
                    partition = %self.name(),
                    checkpointed_start,
                    log_end,
                    "the checkpointed log start lies behind the log end, ignoring it"
                );
                count(&self.shared.counters.files_rebuilt, 1);
                start_floor = 0;
            } else {
                tracing::warn!(
                    partition = %self.name(),
                    checkpointed_start,
                    log_end,
                    "all records of the log were deleted before the crash, removing its segments"
                );
                for segment in segments.drain(..) {
                    recovery_files::set_aside(disk, self.place(segment.base_offset))?;
                }
                epochs.clear();
                end = None;
            }
        }
        if segments.is_empty() {
            let base_offset = start_floor;
            let segment = Segment::create(self.place(base_offset), self.shared.segments.segment())
                .map_err(|error| self.io("create", base_offset, error))?;
            segments.push(Arc::new(segment));
            end = Some((base_offset, IndexBuilder::new()));
            touched = true;
        }
        let (log_end, index) = end.unwrap_or((start_floor, IndexBuilder::new()));
        if let Some(active) = segments.last() {
            active.set_max_timestamp(index.largest);
        }
        let first_base = segments.first().map_or(0, |segment| segment.base_offset);
        let log_start = start_floor.max(first_base).min(log_end);
        epochs.truncate_from_end(log_end);
        epochs.truncate_from_start(log_start);
        epochs.write_if_missing(disk, dir)?;

        recovery_files::remove_snapshots_above(disk, dir, &mut snapshots, log_end)?;
        let mut producers = ProducerState::new(Arc::clone(&self.shared.producer_ids));
        let found_aborted =
            self.load_producers(&mut producers, &mut snapshots, &segments, log_end, checked_from)?;
        recovery_files::remove_stray_snapshots(disk, dir, &mut snapshots, &segments)?;
        for segment in &segments {
            segment.close_handles();
        }
        Ok(Loaded {
            segments,
            snapshots,
            epochs,
            producers,
            index,
            log_start,
            log_end,
            recovery_point: if clean { log_end } else { recovery_point.min(log_end) },
            touched,
            is_new,
            may_have_aborted: files.has_transactions || found_aborted,
            damages,
        })
    }

    /// Gives back the room ahead of the log's end that a crash has left. It does no harm where it stays.
    fn cut_room(&self, active: &Segment) {
        let size = active.size_bytes();
        let cut = active.handle(self.place(active.base_offset), Access::Write).and_then(|handle| {
            if !room::is_left_in(handle.file(), size) {
                return Ok(());
            }
            self.shared.handles.disk().set_length(handle.file(), handle.path(), size)
        });
        if let Err(error) = cut {
            tracing::debug!(partition = %self.name(), %error, "the room ahead of the log's end stays");
        }
    }

    /// A roll that failed may have left the empty file of the segment that it was to begin, and the log went on in the
    /// one before it: such a file lies amid the records of that one, and would hide those behind its base offset.
    fn set_given_up_rolls_aside(
        &self,
        segments: &mut Vec<Arc<Segment>>,
        window: &mut [u8],
    ) -> Result<(), StorageError> {
        let mut index = 1;
        while let Some(segment) = segments.get(index).cloned() {
            let before = segments.get(index - 1).filter(|_| segment.size_bytes() == 0);
            let end = match before.map(|before| self.find_end(before, window)) {
                Some(Ok(end)) => end.next_offset,
                Some(Err(FindError::Io(error))) => return Err(self.io("read", segment.base_offset, error)),
                _ => segment.base_offset,
            };
            if end <= segment.base_offset {
                index += 1;
                continue;
            }
            tracing::warn!(
                partition = %self.name(),
                segment = segment.base_offset,
                end_before = end,
                "setting an empty segment aside that lies amid the records of the one before it"
            );
            recovery_files::set_aside(self.shared.handles.disk(), self.place(segment.base_offset))?;
            segments.remove(index);
        }
        Ok(())
    }

    /// [`Segment::find_end`], with an index that leads astray rebuilt once.
    fn find_end(&self, segment: &Segment, window: &mut [u8]) -> Result<SegmentEnd, FindError> {
        let place = self.place(segment.base_offset);
        let size = segment.size_bytes();
        match segment.find_end(place, size, self.is_contiguous(), window) {
            Err(FindError::BadIndex(reason)) => {
                count(&self.shared.counters.index_rebuilds, 1);
                tracing::warn!(
                    partition = %self.name(),
                    segment = segment.base_offset,
                    reason,
                    "an index is missing or leads astray, rebuilding it from the log"
                );
                let interval = self.options.config.index_interval_bytes;
                segment.rebuild_indexes(place, size, interval, segment.rebuild_count())?;
                segment.find_end(place, size, self.is_contiguous(), window)
            }
            other => other,
        }
    }

    /// What the writer must know to go on with the indexes of a segment that ends as `end` says.
    fn resume_index(&self, segment: &Segment, end: SegmentEnd) -> Result<IndexBuilder, StorageError> {
        let place = self.place(segment.base_offset);
        let size = segment.size_bytes();
        let mut index = IndexBuilder::new();
        index.largest = end.largest;
        if size == 0 {
            return Ok(index);
        }
        let last = match segment.time_index.last(place) {
            Ok(last) => last,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let interval = self.options.config.index_interval_bytes;
                match segment.rebuild_indexes(place, size, interval, segment.rebuild_count()) {
                    Ok(()) => segment.known_max_timestamp(),
                    Err(error) => {
                        tracing::warn!(partition = %self.name(), ?error, "the time index cannot be rebuilt");
                        None
                    }
                }
            }
            Err(error) => return Err(self.io("read the time index of", segment.base_offset, error)),
        };
        if let Some(last) = last
            && last.timestamp > index.largest.timestamp
        {
            index.largest = last;
        }
        let entry = segment.offset_index.lookup(place, i64::MAX).ok().flatten();
        index.bytes_since_entry = size - entry.map_or(0, |entry| u64::from(entry.position)).min(size);
        Ok(index)
    }

    /// Every sealed segment that needs no check must end where the next one begins.
    fn look_for_gaps(
        &self,
        segments: &[Arc<Segment>],
        flushed: usize,
        window: &mut [u8],
    ) -> Result<(), StorageError> {
        if !self.is_contiguous() {
            return Ok(());
        }
        for pair in segments.get(..=flushed).unwrap_or_default().windows(2) {
            let [segment, next] = pair else { continue };
            let found = match self.find_end(segment, window) {
                Ok(end) if end.next_offset == next.base_offset => {
                    segment.close_handles();
                    continue;
                }
                Ok(end) => format!("it ends at offset {}", end.next_offset),
                Err(FindError::Io(error)) => return Err(self.io("read", segment.base_offset, error)),
                Err(FindError::BadIndex(reason) | FindError::Bad { reason, .. }) => reason,
            };
            segment.close_handles();
            count(&self.shared.counters.gaps_found, 1);
            tracing::error!(
                partition = %self.name(),
                path = %self.place(segment.base_offset).path(LOG_SUFFIX).display(),
                next_segment = next.base_offset,
                found,
                "a segment ends before the next one begins: records are missing"
            );
        }
        Ok(())
    }

    /// Loads the producers and, for segments that were checked, writes the transaction index anew from `checked_from`.
    /// Returns whether those hold an aborted transaction.
    fn load_producers(
        &self,
        producers: &mut ProducerState,
        snapshots: &mut Vec<i64>,
        segments: &[Arc<Segment>],
        log_end: i64,
        checked_from: i64,
    ) -> Result<bool, StorageError> {
        let loader = ProducerLoader {
            handles: &self.shared.handles,
            counters: &self.shared.counters,
            dir: &self.options.dir,
            segments,
            now_ms: self.options.now_ms,
            expiration_ms: self.shared.producer_id_expiration_ms.load(Ordering::Relaxed),
        };
        let first_checked =
            segments.partition_point(|segment| segment.base_offset <= checked_from).saturating_sub(1);
        let checked = match segments.get(first_checked) {
            Some(_) if checked_from == i64::MAX => &[][..],
            Some(_) => segments.get(first_checked..).unwrap_or_default(),
            None => &[],
        };
        // An index of aborted transactions that reaches below the checked part is kept as far as it can be read; if it
        // cannot, the replay must begin with its segment.
        let mut kept: Vec<(i64, Vec<AbortedTxn>)> = Vec::new();
        let mut latest_snapshot = i64::MAX;
        let mut from = checked_from;
        for segment in checked {
            match transaction_index::read(self.place(segment.base_offset)) {
                Ok(mut entries) => {
                    entries.retain(|entry| entry.last_offset < from);
                    kept.push((segment.base_offset, entries));
                }
                Err(StorageError::CorruptFile { reason, .. }) => {
                    tracing::warn!(
                        partition = %self.name(),
                        segment = segment.base_offset,
                        reason,
                        "rebuilding the transaction index from the log"
                    );
                    count(&self.shared.counters.files_rebuilt, 1);
                    from = from.min(segment.base_offset);
                    kept.push((segment.base_offset, Vec::new()));
                }
                Err(error) => return Err(error),
            }
        }
        if !checked.is_empty() {
            latest_snapshot = from;
        }
        let before: Vec<usize> = kept.iter().map(|(_, entries)| entries.len()).collect();
        let had_file: Vec<bool> = checked
            .iter()
            .map(|segment| self.place(segment.base_offset).path(transaction_index::TXN_INDEX_SUFFIX).exists())
            .collect();
        loader.load(producers, snapshots, log_end, latest_snapshot, &mut |base, txn| {
            if txn.last_offset >= from
                && let Some((_, entries)) = kept.iter_mut().find(|(other, _)| *other == base)
            {
                entries.push(txn);
            }
        })?;
        for (index, (base, entries)) in kept.iter().enumerate() {
            let changed = before.get(index) != Some(&entries.len()) || had_file.get(index) == Some(&true);
            if changed {
                transaction_index::replace(self.place(*base), entries)?;
            }
        }
        Ok(kept.iter().any(|(_, entries)| !entries.is_empty()))
    }
}
