//! One segment of a log: the `.log` file and its indexes, known by the offset that it begins with.
//!
//! Only whole batches count: `size_bytes` moves after a batch is completely written, and nothing behind it is ever
//! shown. An index entry is a hint. [`Segment::find`] checks that a batch begins at the position of an entry and does
//! not end behind the offset that the entry claims; if not, it says so and the caller has the indexes rebuilt. (A JVM
//! replica indexes several batches at once by the position of the first and the offset of the last.)

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use weir_protocol::records::BatchHeader;

use crate::file_handles::{Access, FileHandle, HandleSlot};
use crate::index_file::Place;
use crate::offset_index::{OffsetIndex, OffsetPosition};
use crate::scan::{SCAN_WINDOW_BYTES, ScanError, Scanner, StoredBatch};
use crate::segment_quota::Counted;
use crate::time_index::{TimeIndex, TimestampOffset};

/// The suffix of the file's name.
pub const LOG_SUFFIX: &str = ".log";

/// A walk from an index entry that is longer than this did not meet the entries that should be there.
pub(crate) const LONGEST_WALK_BYTES: u64 = 1 << 20;

/// The result of looking for an offset in a segment.
#[derive(Debug)]
pub(crate) enum Find {
    /// The first batch that ends at or after the offset.
    Found(StoredBatch),
    /// The offset should lie here, but the next one that exists is `next`.
    Hole { next: i64 },
    /// The segment ends before the offset; `next_offset` is the one after its last record.
    PastEnd { next_offset: i64 },
}

/// Why an offset could not be looked for.
#[derive(Debug)]
pub(crate) enum FindError {
    Io(io::Error),
    /// The index is missing or leads astray.
    BadIndex(String),
    /// There is no batch where one should be.
    Bad {
        position: u64,
        /// The first offset that is missing.
        offset: i64,
        reason: String,
    },
}

impl From<io::Error> for FindError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::BadIndex("it is missing".to_owned()),
            // Cut behind our back, or built anew at this moment.
            io::ErrorKind::UnexpectedEof => Self::BadIndex("it is shorter than it was".to_owned()),
            _ => Self::Io(error),
        }
    }
}

/// How a segment ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SegmentEnd {
    /// The offset after the last record.
    pub(crate) next_offset: i64,
    /// The largest timestamp from the last index entry on.
    pub(crate) largest: TimestampOffset,
    /// The leader epoch of the last batch, -1 for none.
    pub(crate) last_epoch: i32,
}

/// One segment.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) base_offset: i64,
    size: AtomicU64,
    slot: Arc<HandleSlot>,
    pub(crate) offset_index: OffsetIndex,
    pub(crate) time_index: TimeIndex,
    /// The largest timestamp, once it is known.
    max_timestamp: Mutex<Option<TimestampOffset>>,
    /// How often the indexes were rebuilt; the lock keeps two from doing it at once.
    rebuilt: Mutex<u32>,
    #[expect(dead_code, reason = "held for its drop")]
    counted: Counted,
}

impl Segment {
    /// Makes the files of a segment that begins with `place.base_offset`. Leftover bytes of such files are cut off.
    pub(crate) fn create(place: Place<'_>, counted: Counted) -> io::Result<Self> {
        let segment = Self {
            base_offset: place.base_offset,
            size: AtomicU64::new(0),
            slot: Arc::default(),
            offset_index: OffsetIndex::empty(),
            time_index: TimeIndex::empty(),
            max_timestamp: Mutex::new(Some(TimestampOffset { timestamp: -1, offset: -1 })),
            rebuilt: Mutex::new(0),
            counted,
        };
        let handle = segment.handle(place, Access::Write)?;
        if handle.file().metadata()?.len() > 0 {
            place.handles.disk().set_length(handle.file(), handle.path(), 0)?;
        }
        segment.offset_index.0.flush_tail(place)?;
        segment.time_index.0.flush_tail(place)?;
        Ok(segment)
    }

    /// A segment whose files are there, `size` bytes of it valid.
    pub(crate) fn existing(base_offset: i64, size: u64, counted: Counted) -> Self {
        Self {
            base_offset,
            size: AtomicU64::new(size),
            slot: Arc::default(),
            offset_index: OffsetIndex::existing(),
            time_index: TimeIndex::existing(),
            max_timestamp: Mutex::new(None),
            rebuilt: Mutex::new(0),
            counted,
        }
    }

    /// Bytes of whole batches.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.size.load(Ordering::Acquire)
    }

    pub(crate) fn set_size_bytes(&self, size: u64) {
        self.size.store(size, Ordering::Release);
    }

    /// The open `.log` file. A reader takes it as it is; it may be longer than [`Self::size_bytes`].
    pub(crate) fn handle(&self, place: Place<'_>, access: Access) -> io::Result<Arc<FileHandle>> {
        place.handles.get(&self.slot, access, || place.path(LOG_SUFFIX))
    }

    /// Closes all files.
    pub(crate) fn close_handles(&self) {
        self.slot.close();
        self.offset_index.0.close();
        self.time_index.0.close();
    }

    /// Looks for the first batch whose last offset is at least `target`, in the first `end` bytes.
    ///
    /// With `contiguous` a jump in the offsets is a hole; without (a compacted log) it is normal.
    pub(crate) fn find(
        &self,
        place: Place<'_>,
        target: i64,
        end: u64,
        contiguous: bool,
        window: &mut [u8],
    ) -> Result<Find, FindError> {
        if end == 0 {
            return Ok(Find::PastEnd { next_offset: self.base_offset });
        }
        let hint = self.offset_index.lookup(place, target)?;
        let start = hint.map_or(0, |hint| u64::from(hint.position));
        if start >= end {
            return Err(FindError::BadIndex(format!("it points to byte {start} of {end}")));
        }
        let handle = self.handle(place, Access::Read).map_err(FindError::Io)?;
        let mut scanner = Scanner::new(place.handles.disk(), &handle, window, start, end);
        let mut expected = if hint.is_some() { None } else { Some(self.base_offset) };
        let mut next_offset = self.base_offset;
        loop {
            let is_hinted = hint.is_some() && scanner.position() == start;
            let batch = match scanner.next_batch() {
                Ok(Some(batch)) => batch,
                Ok(None) => return Ok(Find::PastEnd { next_offset }),
                Err(ScanError::Io(error)) => return Err(FindError::Io(error)),
                Err(ScanError::Bad { reason, .. }) if is_hinted => {
                    return Err(FindError::BadIndex(format!("no batch begins at byte {start}: {reason}")));
                }
                Err(ScanError::Bad { position, reason }) => {
                    return Err(FindError::Bad { position, offset: next_offset, reason });
                }
            };
            let (base, last) = (batch.header.base_offset, batch.header.last_offset());
            if let Some(hint) = hint.filter(|_| is_hinted)
                && last > hint.offset
            {
                return Err(FindError::BadIndex(format!(
                    "the batch at byte {start} ends with offset {last}, behind {}",
                    hint.offset
                )));
            }
            if let Some(expected) = expected.filter(|_| contiguous && batch.is_v2()) {
                if base < expected {
                    let reason = format!("offsets go back from {expected} to {base}");
                    return Err(FindError::Bad { position: batch.position, offset: expected, reason });
                }
                if base > expected && target < base {
                    return Ok(Find::Hole { next: base });
                }
            }
            if last >= target {
                return Ok(Find::Found(batch));
            }
            if batch.position - start > LONGEST_WALK_BYTES && *self.rebuilt.lock() == 0 {
                return Err(FindError::BadIndex(format!(
                    "it has no entry between bytes {start} and {}",
                    batch.position
                )));
            }
            next_offset = last + 1;
            expected = Some(next_offset);
        }
    }

    /// How the segment ends, found from the last index entry on.
    pub(crate) fn find_end(
        &self,
        place: Place<'_>,
        end: u64,
        contiguous: bool,
        window: &mut [u8],
    ) -> Result<SegmentEnd, FindError> {
        let mut largest = TimestampOffset { timestamp: -1, offset: -1 };
        let mut last_epoch = -1;
        if end == 0 {
            return Ok(SegmentEnd { next_offset: self.base_offset, largest, last_epoch });
        }
        let hint = self.offset_index.lookup(place, i64::MAX)?;
        let start = hint.map_or(0, |hint| u64::from(hint.position));
        if start >= end {
            return Err(FindError::BadIndex(format!("it points to byte {start} of {end}")));
        }
        let handle = self.handle(place, Access::Read).map_err(FindError::Io)?;
        let mut scanner = Scanner::new(place.handles.disk(), &handle, window, start, end);
        let mut next_offset = if hint.is_some() { None } else { Some(self.base_offset) };
        loop {
            let is_first = scanner.position() == start;
            let batch = match scanner.next_batch() {
                Ok(Some(batch)) => batch,
                Ok(None) => {
                    let next_offset = next_offset.unwrap_or(self.base_offset);
                    return Ok(SegmentEnd { next_offset, largest, last_epoch });
                }
                Err(ScanError::Io(error)) => return Err(FindError::Io(error)),
                Err(ScanError::Bad { reason, .. }) if is_first && hint.is_some() => {
                    return Err(FindError::BadIndex(format!("no batch begins at byte {start}: {reason}")));
                }
                Err(ScanError::Bad { position, reason }) => {
                    let offset = next_offset.unwrap_or(self.base_offset);
                    return Err(FindError::Bad { position, offset, reason });
                }
            };
            let last = batch.header.last_offset();
            if let Some(hint) = hint.filter(|_| is_first)
                && last > hint.offset
            {
                return Err(FindError::BadIndex(format!(
                    "the batch at byte {start} ends with offset {last}, behind {}",
                    hint.offset
                )));
            }
            if let Some(expected) = next_offset
                && batch.is_v2()
                && (batch.header.base_offset < expected
                    || (contiguous && batch.header.base_offset != expected))
            {
                let reason = format!("offset {expected} should follow, not {}", batch.header.base_offset);
                return Err(FindError::Bad { position: batch.position, offset: expected, reason });
            }
            if batch.header.max_timestamp > largest.timestamp {
                largest = TimestampOffset { timestamp: batch.header.max_timestamp, offset: last };
            }
            last_epoch = batch.header.partition_leader_epoch;
            next_offset = Some(last + 1);
        }
    }

    /// Builds both indexes anew from the batches in the first `end` bytes. `seen` is what [`Self::rebuild_count`] said
    /// before the damage was met; when somebody else has rebuilt since, nothing is done.
    pub(crate) fn rebuild_indexes(
        &self,
        place: Place<'_>,
        end: u64,
        interval_bytes: u32,
        seen: u32,
    ) -> Result<(), FindError> {
        let mut rebuilt = self.rebuilt.lock();
        if *rebuilt != seen || self.has_ended() {
            return Ok(());
        }
        let mut window = vec![0; SCAN_WINDOW_BYTES];
        let handle = self.handle(place, Access::Read).map_err(FindError::Io)?;
        // A look first: the entries behind a damaged batch cannot be found again, so the old ones must stay, unless
        // none of them leads to a batch: then the segment is as good as cut at the damage.
        let end = match self.walk(place, &handle, &mut window, end, |_| Ok(())) {
            Ok(()) => end,
            Err(FindError::Bad { position, .. }) if self.batch_behind(place, position, end)?.is_none() => {
                position
            }
            Err(error) => return Err(error),
        };
        self.offset_index.0.truncate(place, 0)?;
        self.time_index.0.truncate(place, 0)?;
        let mut builder = IndexBuilder::new();
        self.walk(place, &handle, &mut window, end, |batch| {
            builder.add(self, place, &batch.header, batch.position, batch.size_bytes, interval_bytes)
        })?;
        self.time_index.maybe_append(place, builder.largest)?;
        self.offset_index.0.flush_tail(place)?;
        self.time_index.0.flush_tail(place)?;
        *self.max_timestamp.lock() = Some(builder.largest);
        *rebuilt += 1;
        Ok(())
    }

    /// Closes all files for good, and lets the indexes not be rebuilt any more: the files are removed, or the directory
    /// is renamed, and another log may have one of its name before those who still hold this segment let it go.
    pub(crate) fn end(&self) {
        // First, so that a rebuild under way meets a missing file and ends soon.
        self.slot.retire();
        self.offset_index.0.retire();
        self.time_index.0.retire();
        drop(self.rebuilt.lock());
    }

    /// True once the files go.
    pub(crate) fn has_ended(&self) -> bool {
        self.slot.is_retired()
    }

    /// How often the indexes were rebuilt.
    pub(crate) fn rebuild_count(&self) -> u32 {
        *self.rebuilt.lock()
    }

    fn walk(
        &self,
        place: Place<'_>,
        handle: &FileHandle,
        window: &mut [u8],
        end: u64,
        mut visit: impl FnMut(&StoredBatch) -> io::Result<()>,
    ) -> Result<(), FindError> {
        let mut scanner = Scanner::new(place.handles.disk(), handle, window, 0, end);
        let mut offset = self.base_offset;
        loop {
            match scanner.next_batch() {
                Ok(Some(batch)) => {
                    offset = batch.header.next_offset();
                    visit(&batch).map_err(FindError::Io)?;
                }
                Ok(None) => return Ok(()),
                Err(ScanError::Io(error)) => return Err(FindError::Io(error)),
                Err(ScanError::Bad { position, reason }) => {
                    return Err(FindError::Bad { position, offset, reason });
                }
            }
        }
    }

    /// The first batch behind `position` that an index entry names and that is where the entry says.
    pub(crate) fn batch_behind(
        &self,
        place: Place<'_>,
        position: u64,
        size: u64,
    ) -> io::Result<Option<StoredBatch>> {
        let handle = self.handle(place, Access::Read)?;
        let mut found = None;
        let mut window = [0; 256];
        let walked = self.offset_index.0.for_each(place, |_, bytes| {
            let entry = OffsetPosition::decode(bytes, self.base_offset);
            let start = u64::from(entry.position);
            if start <= position || start >= size {
                return true;
            }
            let mut scanner = Scanner::new(place.handles.disk(), &handle, &mut window, start, size);
            if let Ok(Some(batch)) = scanner.next_batch()
                && batch.header.last_offset() <= entry.offset
            {
                found = Some(batch);
                return false;
            }
            true
        });
        match walked {
            Ok(()) => Ok(found),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The largest timestamp as known in memory.
    pub(crate) fn known_max_timestamp(&self) -> Option<TimestampOffset> {
        *self.max_timestamp.lock()
    }

    pub(crate) fn set_max_timestamp(&self, largest: TimestampOffset) {
        *self.max_timestamp.lock() = Some(largest);
    }

    /// The largest timestamp of a sealed segment: what its time index ends with, checked against the batch that it
    /// names and against the batches at the end of the segment.
    pub(crate) fn max_timestamp(
        &self,
        place: Place<'_>,
        contiguous: bool,
        window: &mut [u8],
    ) -> Result<TimestampOffset, FindError> {
        if let Some(known) = self.known_max_timestamp() {
            return Ok(known);
        }
        let size = self.size_bytes();
        let last = self.time_index.last(place)?.unwrap_or(TimestampOffset { timestamp: -1, offset: -1 });
        if last.timestamp >= 0 {
            self.check_time_entry(place, last, size, contiguous, window)?;
        }
        let end = self.find_end(place, size, contiguous, window)?;
        if end.largest.timestamp > last.timestamp {
            return Err(FindError::BadIndex(format!(
                "its time index ends with timestamp {}, offset {} has {}",
                last.timestamp, end.largest.offset, end.largest.timestamp
            )));
        }
        *self.max_timestamp.lock() = Some(last);
        Ok(last)
    }

    /// The batch that an entry of the time index names must have its timestamp.
    pub(crate) fn check_time_entry(
        &self,
        place: Place<'_>,
        entry: TimestampOffset,
        end: u64,
        contiguous: bool,
        window: &mut [u8],
    ) -> Result<StoredBatch, FindError> {
        if let Find::Found(batch) = self.find(place, entry.offset, end, contiguous, window)?
            && batch.header.base_offset <= entry.offset
            && batch.header.max_timestamp == entry.timestamp
        {
            return Ok(batch);
        }
        Err(FindError::BadIndex(format!(
            "its time index claims timestamp {} for offset {}, which has another one",
            entry.timestamp, entry.offset
        )))
    }

    /// Writes what belongs to the end of a segment: the last entry of the time index, the rest of both indexes.
    pub(crate) fn seal(&self, place: Place<'_>) -> io::Result<()> {
        if let Some(largest) = self.known_max_timestamp() {
            self.time_index.maybe_append(place, largest)?;
        }
        self.offset_index.0.flush_tail(place)?;
        self.time_index.0.flush_tail(place)
    }

    /// Bytes on the heap, estimated.
    pub(crate) fn memory_bytes(&self) -> usize {
        std::mem::size_of::<Self>()
            + 16
            + std::mem::size_of::<HandleSlot>()
            + 16
            + self.offset_index.0.memory_bytes()
            + self.time_index.0.memory_bytes()
    }
}

/// Decides which batches get an index entry.
#[derive(Debug)]
pub(crate) struct IndexBuilder {
    /// Bytes since the last entry.
    pub(crate) bytes_since_entry: u64,
    /// The largest timestamp so far.
    pub(crate) largest: TimestampOffset,
}

impl IndexBuilder {
    pub(crate) fn new() -> Self {
        Self { bytes_since_entry: 0, largest: TimestampOffset { timestamp: -1, offset: -1 } }
    }

    /// Notes a batch that was added at `position`.
    pub(crate) fn add(
        &mut self,
        segment: &Segment,
        place: Place<'_>,
        header: &BatchHeader,
        position: u64,
        size_bytes: u64,
        interval_bytes: u32,
    ) -> io::Result<()> {
        let last_offset = header.last_offset();
        if header.max_timestamp > self.largest.timestamp {
            self.largest = TimestampOffset { timestamp: header.max_timestamp, offset: last_offset };
        }
        let due = self.bytes_since_entry > u64::from(interval_bytes);
        self.bytes_since_entry += size_bytes;
        if due {
            self.bytes_since_entry = size_bytes;
            let entry = OffsetPosition { offset: last_offset, position: position as u32 };
            if let Some(bytes) = entry.encode(place.base_offset) {
                segment.offset_index.0.append(place, bytes)?;
            }
            segment.time_index.maybe_append(place, self.largest)?;
        }
        Ok(())
    }
}
