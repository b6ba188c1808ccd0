//! Room on the disk ahead of the log's end: blocks that are allocated before they are written to. An append into them
//! costs the file system a fifth to a third less than one that has each block reserved for itself.
//!
//! Method: a segment that has grown to some size gets as much room again, up to a limit, whenever it has used up what
//! it had; `fallocate` with `FALLOC_FL_KEEP_SIZE`, so that the file's length tells no lie. All logs together get so much
//! and no more, and none of it where the file system is rather full. Room is an offer: where there is none, for whatever
//! reason, appends go on as they would without. The log gives back what is left when it rolls, when it is closed, when
//! nothing was appended for a while, and at the start after a crash.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::disk::Disk;

/// A segment smaller than this gets no room.
const SMALLEST_SEGMENT_BYTES: u64 = 1 << 20;

/// The most room that one log gets at a time.
const MOST_BYTES: u64 = 16 << 20;

/// What stays free of a file system, whatever the logs ask for.
const KEPT_FREE_BYTES: u64 = 4 << 30;

/// A file has more blocks than its bytes need by so much: somebody made room behind its end. File systems count a few
/// blocks of their own.
const NOTABLE_BYTES: u64 = SMALLEST_SEGMENT_BYTES / 2;

/// The room of all logs of a process.
#[derive(Debug)]
pub struct RoomQuota {
    limit_bytes: u64,
    used_bytes: AtomicU64,
}

impl RoomQuota {
    /// At most `limit_bytes` over all logs that share this quota.
    pub fn new(limit_bytes: u64) -> Arc<Self> {
        Arc::new(Self { limit_bytes, used_bytes: AtomicU64::new(0) })
    }

    /// Bytes that logs have, or had and have written to since.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }

    fn take(&self, bytes: u64) -> bool {
        let fits = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= self.limit_bytes);
        self.used_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
    }
}

/// The room of one log, in its active segment.
#[derive(Debug)]
pub(crate) struct Room {
    quota: Arc<RoomQuota>,
    /// Of the quota.
    taken_bytes: u64,
    /// Where it ends in the file; what lies ahead of it is asked for only when the log gets there.
    end: u64,
}

impl Room {
    pub(crate) fn new(quota: &Arc<RoomQuota>) -> Self {
        Self { quota: Arc::clone(quota), taken_bytes: 0, end: 0 }
    }

    /// Called before the bytes from `position` to `end` are written to a segment that may grow to `most`.
    pub(crate) fn make(
        &mut self,
        disk: &Disk,
        (file, path): (&File, &Path),
        (position, end): (u64, u64),
        most: u64,
    ) {
        if end <= self.end || position < SMALLEST_SEGMENT_BYTES {
            return;
        }
        self.forget();
        // Also where nothing comes of it: it is not tried again at each append.
        self.end = end.saturating_add(position.min(MOST_BYTES)).min(most.max(end));
        let bytes = self.end - position;
        if is_rather_full(file) || !self.quota.take(bytes) {
            return;
        }
        match disk.allocate(file, path, position, bytes) {
            Ok(()) => self.taken_bytes = bytes,
            Err(error) => {
                self.quota.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
                tracing::debug!(path = %path.display(), %error, "no room ahead of the log's end");
            }
        }
    }

    /// Whether the file may have blocks behind its end.
    pub(crate) fn is_made(&self) -> bool {
        self.taken_bytes > 0
    }

    /// The blocks behind the file's end are gone, or are to be forgotten.
    pub(crate) fn forget(&mut self) {
        self.quota.used_bytes.fetch_sub(self.taken_bytes, Ordering::Relaxed);
        (self.taken_bytes, self.end) = (0, 0);
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.forget();
    }
}

/// Whether a file of `size` bytes has room behind its end, as a crash leaves it.
pub(crate) fn is_left_in(file: &File, size: u64) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.blocks() * 512 > size + NOTABLE_BYTES)
}

fn is_rather_full(file: &File) -> bool {
    rustix::fs::fstatvfs(file).map_or(true, |space| space.f_bavail * space.f_frsize < KEPT_FREE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_room_of_all_logs_is_limited_and_comes_back() {
        let quota = RoomQuota::new(3 << 20);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let file = File::create(&path).unwrap();
        file.set_len(SMALLEST_SEGMENT_BYTES).unwrap();
        let (disk, mib) = (Disk::new(), 1 << 20);
        let mut room = Room::new(&quota);
        room.make(&disk, (&file, &path), (mib - 1, mib), 10 * mib);
        assert_eq!(quota.used_bytes(), 0, "the segment is too small");
        if is_rather_full(&file) {
            return;
        }
        room.make(&disk, (&file, &path), (mib, mib + 10), 10 * mib);
        assert_eq!(quota.used_bytes(), mib + 10);
        let mut other = Room::new(&quota);
        other.make(&disk, (&file, &path), (2 * mib, 2 * mib + 10), 10 * mib);
        assert!(!other.is_made(), "the quota is used up");
        other.make(&disk, (&file, &path), (2 * mib, 2 * mib + 10), 2 * mib + 20);
        assert!(!other.is_made(), "it was refused a moment ago");
        drop(other);
        drop(room);
        assert_eq!(quota.used_bytes(), 0);
    }
}
