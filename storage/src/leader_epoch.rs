//! Which leader epoch began at which offset: `leader-epoch-checkpoint` and its copy in memory.
//!
//! Epochs and start offsets both grow. The file is a convenience: every batch carries its epoch, so a file that is
//! missing or garbled is rebuilt from the log (see `recovery.rs`).

use std::fmt::Write as _;
use std::path::Path;

use crate::checkpoint::parse_lines;
use crate::disk::Disk;
use crate::error::{IoContext, StorageError};

/// The name of the file in a partition's directory.
pub const LEADER_EPOCH_CHECKPOINT: &str = "leader-epoch-checkpoint";

/// The largest file that is read, bytes.
const LIMIT_BYTES: u64 = 8 << 20;

/// One leader epoch and the first offset that was written in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochEntry {
    /// The epoch, from 0.
    pub epoch: i32,
    /// Its first offset.
    pub start_offset: i64,
}

/// The epochs of a log, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeaderEpochs {
    entries: Vec<EpochEntry>,
    dirty: bool,
    /// The last entry is not in the file. That alone is worth a write only once the epoch has a batch: after a crash
    /// every partition gets an epoch, and a stop should not replace as many files.
    is_last_unwritten: bool,
    /// A file that can be read is there, if an older one.
    has_file: bool,
    /// The last entry of the file, where the file is ahead by just that one: every start forgets an epoch without a batch
    /// and begins it again, which should not cost a write.
    taken_back: Option<EpochEntry>,
}

impl LeaderEpochs {
    /// The entries, oldest first.
    pub fn entries(&self) -> &[EpochEntry] {
        &self.entries
    }

    /// The newest epoch.
    pub fn latest(&self) -> Option<EpochEntry> {
        self.entries.last().copied()
    }

    /// The oldest epoch.
    pub fn earliest(&self) -> Option<EpochEntry> {
        self.entries.first().copied()
    }

    /// Notes that `epoch` was seen at `start_offset`. Entries that contradict it (a later epoch, or a later or equal
    /// start) go. Returns true when something changed. Negative values are ignored: such a batch has no epoch.
    pub fn assign(&mut self, epoch: i32, start_offset: i64) -> bool {
        if epoch < 0 || start_offset < 0 {
            return false;
        }
        if let Some(latest) = self.latest()
            && latest.epoch == epoch
            && start_offset >= latest.start_offset
        {
            return false;
        }
        while let Some(last) = self.entries.last()
            && (last.epoch >= epoch || last.start_offset >= start_offset)
        {
            self.pop();
        }
        let entry = EpochEntry { epoch, start_offset };
        self.entries.push(entry);
        if self.taken_back.take() == Some(entry) {
            self.dirty = false;
            return true;
        }
        self.dirty |= self.is_last_unwritten;
        self.is_last_unwritten = true;
        true
    }

    fn pop(&mut self) {
        let popped = self.entries.pop();
        if !std::mem::take(&mut self.is_last_unwritten) {
            self.taken_back = popped.filter(|_| !self.dirty && self.has_file);
            self.dirty = true;
        }
    }

    /// Forgets epochs that start at `end_offset` or later.
    pub fn truncate_from_end(&mut self, end_offset: i64) {
        while let Some(last) = self.entries.last()
            && last.start_offset >= end_offset
        {
            self.pop();
        }
    }

    /// Forgets epochs that ended before `start_offset`; the one that was in force there begins there now.
    pub fn truncate_from_start(&mut self, start_offset: i64) {
        let older = self.entries.partition_point(|entry| entry.start_offset <= start_offset);
        if older == 0 {
            return;
        }
        self.taken_back = None;
        self.entries.drain(..older - 1);
        if let Some(first) = self.entries.first_mut()
            && first.start_offset != start_offset
        {
            first.start_offset = start_offset;
            self.dirty = true;
        }
        self.dirty |= older > 1;
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.dirty |= !self.entries.is_empty();
        self.is_last_unwritten = false;
        self.taken_back = None;
        self.entries.clear();
    }

    /// The epoch that was in force at `offset`.
    pub fn epoch_for_offset(&self, offset: i64) -> Option<i32> {
        let after = self.entries.partition_point(|entry| entry.start_offset <= offset);
        after.checked_sub(1).and_then(|index| self.entries.get(index)).map(|entry| entry.epoch)
    }

    /// The end offset of `epoch` as OffsetForLeaderEpoch answers it: the epoch that the answer is about (the largest
    /// not above the one asked for) and the offset at which the next one begins. The current epoch ends at
    /// `log_end_offset`. `None` for an epoch above all known ones, or -1.
    pub fn end_offset_for(&self, epoch: i32, log_end_offset: i64) -> Option<(i32, i64)> {
        if epoch == -1 {
            return None;
        }
        let latest = self.latest()?;
        if latest.epoch == epoch {
            return Some((epoch, log_end_offset));
        }
        let higher = self.entries.partition_point(|entry| entry.epoch <= epoch);
        let next = self.entries.get(higher)?;
        let found = higher
            .checked_sub(1)
            .and_then(|index| self.entries.get(index))
            .map_or(epoch, |entry| entry.epoch);
        Some((found, next.start_offset))
    }

    /// Bytes on the heap.
    pub fn memory_bytes(&self) -> usize {
        self.entries.capacity() * std::mem::size_of::<EpochEntry>()
    }

    /// Reads the content of a file. Input is untrusted.
    ///
    /// # Errors
    /// [`StorageError::CorruptFile`] when it is garbled or the entries do not grow.
    pub fn parse(bytes: &[u8], path: &Path) -> Result<Self, StorageError> {
        let mut entries: Vec<EpochEntry> = Vec::new();
        parse_lines(bytes, |line| {
            let mut words = line.split_ascii_whitespace();
            let epoch = words.next()?.parse().ok().filter(|epoch: &i32| *epoch >= 0)?;
            let start_offset = words.next()?.parse().ok().filter(|offset: &i64| *offset >= 0)?;
            if words.next().is_some() {
                return None;
            }
            if entries.last().is_some_and(|last| last.epoch >= epoch || last.start_offset >= start_offset) {
                return None;
            }
            entries.push(EpochEntry { epoch, start_offset });
            Some(())
        })
        .map_err(|reason| StorageError::corrupt(path, reason))?;
        Ok(Self { entries, has_file: true, ..Self::default() })
    }

    /// The content of the file.
    pub fn format(&self) -> Vec<u8> {
        let mut text = format!("0\n{}\n", self.entries.len());
        for entry in &self.entries {
            let _ = writeln!(text, "{} {}", entry.epoch, entry.start_offset);
        }
        text.into_bytes()
    }

    /// Reads the file of the partition in `dir`; `None` when it is missing or empty.
    pub(crate) fn read(disk: &Disk, dir: &Path) -> Result<Option<Self>, StorageError> {
        let path = dir.join(LEADER_EPOCH_CHECKPOINT);
        match disk.read_small(&path, LIMIT_BYTES) {
            Ok(None) => Ok(None),
            Ok(Some(bytes)) if bytes.is_empty() => Ok(None),
            Ok(Some(bytes)) => Self::parse(&bytes, &path).map(Some),
            Err(error) if error.kind() == std::io::ErrorKind::FileTooLarge => {
                Err(StorageError::corrupt(&path, format!("it is larger than {LIMIT_BYTES} bytes")))
            }
            Err(error) => Err(error).context("read", &path),
        }
    }

    /// Writes the file if it is behind: of a log that ends at `log_end`. Not synced: what a power cut takes is rebuilt
    /// from the batches.
    pub(crate) fn write_if_behind(
        &mut self,
        disk: &Disk,
        dir: &Path,
        log_end: i64,
    ) -> Result<(), StorageError> {
        let has_batch = self.latest().is_some_and(|latest| latest.start_offset < log_end);
        if self.dirty || (self.is_last_unwritten && (has_batch || !self.has_file)) {
            let path = dir.join(LEADER_EPOCH_CHECKPOINT);
            disk.replace(&path, &self.format(), false).context("write", &path)?;
            (self.dirty, self.is_last_unwritten, self.has_file) = (false, false, true);
            self.taken_back = None;
        }
        Ok(())
    }

    /// Writes the file if there is none that can be read. An older one will do until the next flush: the check after a
    /// crash finds the epochs of all batches that were not flushed, and an epoch without a batch is forgotten by every
    /// start. So a start of thousands of partitions does not rewrite as many files.
    pub(crate) fn write_if_missing(&mut self, disk: &Disk, dir: &Path) -> Result<(), StorageError> {
        if self.has_file { Ok(()) } else { self.write_if_behind(disk, dir, 0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epochs(pairs: &[(i32, i64)]) -> LeaderEpochs {
        let mut epochs = LeaderEpochs::default();
        for (epoch, start) in pairs {
            assert!(epochs.assign(*epoch, *start));
        }
        epochs
    }

    fn pairs(epochs: &LeaderEpochs) -> Vec<(i32, i64)> {
        epochs.entries().iter().map(|entry| (entry.epoch, entry.start_offset)).collect()
    }

    #[test]
    fn the_file_reads_back_as_written() {
        let written = epochs(&[(0, 0), (3, 100), (4, 250)]);
        assert_eq!(written.format(), b"0\n3\n0 0\n3 100\n4 250\n");
        assert_eq!(pairs(&LeaderEpochs::parse(&written.format(), Path::new("x")).unwrap()), pairs(&written));
        for garbled in
            [&b"0\n2\n1 5\n1 9\n"[..], b"0\n2\n1 5\n2 5\n", b"0\n1\n-1 5\n", b"0\n1\n1\n", b"1\n0\n"]
        {
            LeaderEpochs::parse(garbled, Path::new("x")).unwrap_err();
        }
    }

    #[test]
    fn a_new_epoch_removes_what_contradicts_it() {
        let mut known = epochs(&[(1, 10), (2, 20), (3, 30)]);
        assert!(!known.assign(3, 35));
        assert!(known.assign(4, 20));
        assert_eq!(pairs(&known), [(1, 10), (4, 20)]);
        assert!(!known.assign(-1, 50));
    }

    #[test]
    fn the_file_is_written_for_epochs_with_batches_and_for_the_first_one() {
        let (dir, disk) = (tempfile::tempdir().unwrap(), Disk::new());
        let in_file = || std::fs::read(dir.path().join(LEADER_EPOCH_CHECKPOINT)).unwrap();
        let mut known = epochs(&[(0, 0)]);
        known.write_if_behind(&disk, dir.path(), 0).unwrap();
        assert_eq!(in_file(), b"0\n1\n0 0\n");
        known.assign(3, 100);
        known.write_if_behind(&disk, dir.path(), 100).unwrap();
        assert_eq!(in_file(), b"0\n1\n0 0\n", "nothing was written in epoch 3 yet");
        known.assign(5, 100);
        known.write_if_behind(&disk, dir.path(), 100).unwrap();
        assert_eq!(in_file(), b"0\n1\n0 0\n");
        known.assign(6, 120);
        known.write_if_behind(&disk, dir.path(), 120).unwrap();
        assert_eq!(in_file(), b"0\n3\n0 0\n5 100\n6 120\n", "epoch 5 has batches");
        let mut read = LeaderEpochs::read(&disk, dir.path()).unwrap().unwrap();
        assert_eq!(pairs(&read), [(0, 0), (5, 100), (6, 120)]);
        read.truncate_from_end(100);
        read.write_if_behind(&disk, dir.path(), 100).unwrap();
        assert_eq!(in_file(), b"0\n1\n0 0\n", "what the file holds and is not so goes at once");
        read.assign(6, 100);
        read.truncate_from_start(50);
        read.write_if_behind(&disk, dir.path(), 101).unwrap();
        assert_eq!(in_file(), b"0\n2\n0 50\n6 100\n");
        read.clear();
        read.write_if_behind(&disk, dir.path(), 101).unwrap();
        assert_eq!(in_file(), b"0\n0\n");
    }

    #[test]
    fn truncation_from_both_ends_keeps_the_epoch_in_force() {
        let mut known = epochs(&[(1, 10), (2, 20), (3, 30)]);
        known.truncate_from_end(30);
        assert_eq!(pairs(&known), [(1, 10), (2, 20)]);
        known.truncate_from_start(15);
        assert_eq!(pairs(&known), [(1, 15), (2, 20)]);
        known.truncate_from_start(20);
        assert_eq!(pairs(&known), [(2, 20)]);
        known.truncate_from_start(5);
        assert_eq!(pairs(&known), [(2, 20)]);
    }

    #[test]
    fn end_offsets_are_answered_as_kafka_does() {
        let known = epochs(&[(2, 20), (4, 40), (5, 50)]);
        assert_eq!(known.end_offset_for(5, 77), Some((5, 77)));
        assert_eq!(known.end_offset_for(4, 77), Some((4, 50)));
        assert_eq!(known.end_offset_for(3, 77), Some((2, 40)));
        assert_eq!(known.end_offset_for(1, 77), Some((1, 20)));
        assert_eq!(known.end_offset_for(6, 77), None);
        assert_eq!(known.end_offset_for(-1, 77), None);
        assert_eq!(LeaderEpochs::default().end_offset_for(0, 77), None);
        assert_eq!(known.epoch_for_offset(39), Some(2));
        assert_eq!(known.epoch_for_offset(19), None);
    }

    #[test]
    fn an_epoch_that_a_start_takes_back_and_begins_again_is_not_written_again() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::new();
        let path = dir.path().join(LEADER_EPOCH_CHECKPOINT);
        let begun = |entries: &[(i32, i64)], again: &[(i32, i64)], take_back_from: i64| {
            std::fs::write(&path, epochs(entries).format()).unwrap();
            let mut read = LeaderEpochs::read(&disk, dir.path()).unwrap().unwrap();
            std::fs::remove_file(&path).unwrap();
            read.truncate_from_end(take_back_from);
            for (epoch, start) in again {
                read.assign(*epoch, *start);
            }
            read.write_if_behind(&disk, dir.path(), 1000).unwrap();
            let written = std::fs::read(&path).ok();
            let expected = read.format();
            (written.is_some(), written.is_none_or(|written| written == expected))
        };
        assert_eq!(begun(&[(0, 0)], &[(0, 0)], 0), (false, true));
        assert_eq!(begun(&[(0, 0), (2, 50)], &[(2, 50)], 50), (false, true));
        // Whatever differs from the file is written, and whole.
        assert_eq!(begun(&[(0, 0), (2, 50)], &[(3, 50)], 50), (true, true));
        assert_eq!(begun(&[(0, 0), (2, 50)], &[(2, 50), (3, 60)], 50), (true, true));
        assert_eq!(begun(&[(0, 0), (2, 50)], &[], 50), (true, true));
        assert_eq!(begun(&[(0, 0), (2, 50), (3, 60)], &[(3, 60)], 50), (true, true));
        assert_eq!(begun(&[(0, 0), (2, 50), (3, 60)], &[(2, 50)], 50), (true, true));
        assert_eq!(begun(&[(0, 0), (2, 50), (3, 60)], &[(2, 50), (3, 60)], 50), (true, true));
    }
}
