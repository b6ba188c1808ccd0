//! A file of fixed-size entries in growing order: what the offset index and the time index have in common.
//!
//! New entries gather in a short tail in memory and go to the file in groups, so that an append costs no system call
//! for its index and no index costs more memory than its tail. Nothing is mapped. A lookup narrows down with reads of
//! one entry and then takes one block. Entries are hints for the caller to check; nothing here trusts them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::file_handles::{Access, FileHandle, FileHandles, HandleSlot};

/// Entries that gather before they are written.
const TAIL_ENTRIES: usize = 16;
/// Bytes that the last step of a lookup reads.
const BLOCK_BYTES: usize = 4096;

/// Where the files of a segment are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) handles: &'a FileHandles,
    pub(crate) dir: &'a Path,
    pub(crate) base_offset: i64,
}

impl Place<'_> {
    pub(crate) fn path(&self, suffix: &str) -> PathBuf {
        self.dir.join(format!("{:020}{suffix}", self.base_offset))
    }
}

/// An index with entries of `N` bytes.
#[derive(Debug)]
pub(crate) struct IndexFile<const N: usize> {
    slot: Arc<HandleSlot>,
    suffix: &'static str,
    state: Mutex<State<N>>,
}

#[derive(Debug)]
struct State<const N: usize> {
    /// False until the length of the file is known.
    loaded: bool,
    /// The file is longer than its entries (a JVM broker preallocates it).
    needs_trim: bool,
    /// Something was written since the last sync.
    unsynced: bool,
    in_file: u32,
    tail: Vec<[u8; N]>,
    /// The last entry, once it is known: an index that gets no new entry is asked for it with each batch.
    last: Option<[u8; N]>,
}

impl<const N: usize> IndexFile<N> {
    /// The index of a segment that exists; its file is looked at on first use.
    pub(crate) fn existing(suffix: &'static str) -> Self {
        Self::with_state(suffix, false)
    }

    /// The index of a segment that is being made: no entries, whatever a leftover file holds.
    pub(crate) fn empty(suffix: &'static str) -> Self {
        Self::with_state(suffix, true)
    }

    fn with_state(suffix: &'static str, fresh: bool) -> Self {
        let state = State {
            loaded: fresh,
            needs_trim: fresh,
            unsynced: false,
            in_file: 0,
            tail: Vec::new(),
            last: None,
        };
        Self { slot: Arc::default(), suffix, state: Mutex::new(state) }
    }

    fn handle(&self, place: Place<'_>, access: Access) -> io::Result<Arc<FileHandle>> {
        place.handles.get(&self.slot, access, || place.path(self.suffix))
    }

    fn read_slot(&self, place: Place<'_>, handle: &FileHandle, slot: u32) -> io::Result<[u8; N]> {
        let mut entry = [0; N];
        let position = u64::from(slot) * N as u64;
        let count = place.handles.disk().read_at(handle.file(), handle.path(), &mut entry, position)?;
        if count < N { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(entry) }
    }

    /// Finds out how many entries the file holds: whole ones, without zeros at the end.
    fn load(&self, place: Place<'_>, state: &mut State<N>) -> io::Result<()> {
        if state.loaded {
            return Ok(());
        }
        let handle = self.handle(place, Access::Read)?;
        let length = handle.file().metadata()?.len();
        let mut count = u32::try_from(length / N as u64).unwrap_or(u32::MAX);
        if count > 0 && self.read_slot(place, &handle, count - 1)? == [0; N] {
            // Zeros are not entries (slot 0 of a time index may be all zero, but then it is the only one).
            let (mut low, mut high) = (0, count - 1);
            while low < high {
                let middle = low + (high - low) / 2;
                if self.read_slot(place, &handle, middle)? == [0; N] {
                    high = middle;
                } else {
                    low = middle + 1;
                }
            }
            count = low;
        }
        state.in_file = count;
        state.needs_trim = u64::from(count) * N as u64 != length;
        state.loaded = true;
        Ok(())
    }

    /// The entry in `slot`, `None` behind the last.
    pub(crate) fn entry(&self, place: Place<'_>, slot: u32) -> io::Result<Option<[u8; N]>> {
        let in_file = {
            let mut state = self.state.lock();
            self.load(place, &mut state)?;
            if slot >= state.in_file {
                return Ok(state.tail.get((slot - state.in_file) as usize).copied());
            }
            state.in_file
        };
        debug_assert!(slot < in_file);
        self.read_slot(place, &*self.handle(place, Access::Read)?, slot).map(Some)
    }

    /// True when the file is longer than its entries: zeros, or a part of an entry, follow.
    pub(crate) fn has_rest(&self, place: Place<'_>) -> io::Result<bool> {
        let mut state = self.state.lock();
        self.load(place, &mut state)?;
        Ok(state.needs_trim)
    }

    /// The number of entries. [`io::ErrorKind::NotFound`] when the file is missing.
    pub(crate) fn entries(&self, place: Place<'_>) -> io::Result<u32> {
        let mut state = self.state.lock();
        self.load(place, &mut state)?;
        Ok(state.in_file + state.tail.len() as u32)
    }

    /// The last entry.
    pub(crate) fn last(&self, place: Place<'_>) -> io::Result<Option<[u8; N]>> {
        let in_file = {
            let mut state = self.state.lock();
            self.load(place, &mut state)?;
            if let Some(last) = state.tail.last().or(state.last.as_ref()) {
                return Ok(Some(*last));
            }
            state.in_file
        };
        let Some(slot) = in_file.checked_sub(1) else { return Ok(None) };
        let last = self.read_slot(place, &*self.handle(place, Access::Read)?, slot)?;
        let mut state = self.state.lock();
        if state.in_file == in_file {
            state.last = Some(last);
        }
        Ok(Some(last))
    }

    /// Adds an entry; every [`TAIL_ENTRIES`]th writes the tail.
    pub(crate) fn append(&self, place: Place<'_>, entry: [u8; N]) -> io::Result<()> {
        let mut state = self.state.lock();
        self.load(place, &mut state)?;
        state.tail.push(entry);
        if state.tail.len() >= TAIL_ENTRIES { self.write_tail(place, &mut state) } else { Ok(()) }
    }

    /// Writes what is only in memory.
    pub(crate) fn flush_tail(&self, place: Place<'_>) -> io::Result<()> {
        let mut state = self.state.lock();
        if state.tail.is_empty() && !state.needs_trim {
            return Ok(());
        }
        self.write_tail(place, &mut state)
    }

    fn write_tail(&self, place: Place<'_>, state: &mut State<N>) -> io::Result<()> {
        let handle = self.handle(place, Access::Write)?;
        let disk = place.handles.disk();
        let position = u64::from(state.in_file) * N as u64;
        if state.needs_trim {
            // Cutting a file to the length that it has costs a write all the same.
            if handle.file().metadata()?.len() != position {
                disk.set_length(handle.file(), handle.path(), position)?;
                state.unsynced = true;
            }
            state.needs_trim = false;
        }
        if !state.tail.is_empty() {
            disk.write_all_at(handle.file(), handle.path(), state.tail.as_flattened(), position)?;
            state.in_file += state.tail.len() as u32;
            state.last = state.tail.last().copied();
            state.tail.clear();
            state.unsynced = true;
        }
        Ok(())
    }

    /// Writes and syncs what is not on the disk.
    pub(crate) fn sync(&self, place: Place<'_>) -> io::Result<()> {
        let mut state = self.state.lock();
        self.write_tail_if_needed(place, &mut state)?;
        if state.unsynced {
            let handle = self.handle(place, Access::Write)?;
            place.handles.disk().sync_data(handle.file(), handle.path())?;
            state.unsynced = false;
        }
        Ok(())
    }

    fn write_tail_if_needed(&self, place: Place<'_>, state: &mut State<N>) -> io::Result<()> {
        if state.tail.is_empty() && !state.needs_trim { Ok(()) } else { self.write_tail(place, state) }
    }

    /// Keeps the first `entries` entries. When it fails, the entries are gone from memory all the same, and the file
    /// is cut by the next write.
    pub(crate) fn truncate(&self, place: Place<'_>, entries: u32) -> io::Result<()> {
        let mut state = self.state.lock();
        if !state.loaded && entries > 0 {
            self.load(place, &mut state)?;
        }
        if state.loaded && entries >= state.in_file {
            let keep = (entries - state.in_file) as usize;
            state.tail.truncate(keep);
            return Ok(());
        }
        state.tail.clear();
        state.last = None;
        state.loaded = true;
        state.in_file = entries;
        state.needs_trim = true;
        self.write_tail(place, &mut state)
    }

    /// Forgets what is known about the file, so that the next use looks at it again; what was only in memory is lost.
    #[cfg(test)]
    pub(crate) fn forget(&self) {
        let mut state = self.state.lock();
        *state = State {
            loaded: false,
            needs_trim: false,
            unsynced: false,
            in_file: 0,
            tail: Vec::new(),
            last: None,
        };
        self.slot.close();
    }

    /// The last entry for which `at_most` holds, with its slot. Entries for which it holds come first.
    pub(crate) fn last_where(
        &self,
        place: Place<'_>,
        at_most: impl Fn(&[u8; N]) -> bool,
    ) -> io::Result<Option<(u32, [u8; N])>> {
        let in_file = {
            let mut state = self.state.lock();
            self.load(place, &mut state)?;
            let matching = state.tail.partition_point(&at_most);
            if let Some(index) = matching.checked_sub(1)
                && let Some(entry) = state.tail.get(index)
            {
                return Ok(Some((state.in_file + index as u32, *entry)));
            }
            state.in_file
        };
        if in_file == 0 {
            return Ok(None);
        }
        let handle = self.handle(place, Access::Read)?;
        let block_entries = (BLOCK_BYTES / N) as u32;
        let (mut low, mut high) = (0u32, in_file);
        while high - low > block_entries {
            let middle = low + (high - low) / 2;
            if at_most(&self.read_slot(place, &handle, middle)?) {
                low = middle;
            } else {
                high = middle;
            }
        }
        let mut block = [0u8; BLOCK_BYTES];
        let bytes = block.get_mut(..(high - low) as usize * N).unwrap_or_default();
        let position = u64::from(low) * N as u64;
        let count = place.handles.disk().read_at(handle.file(), handle.path(), bytes, position)?;
        let (entries, _) = bytes.get(..count).unwrap_or_default().as_chunks::<N>();
        let matching = entries.partition_point(&at_most);
        Ok(matching.checked_sub(1).and_then(|index| Some((low + index as u32, *entries.get(index)?))))
    }

    /// Reads all entries in order, in blocks, while `visit` returns true.
    pub(crate) fn for_each(
        &self,
        place: Place<'_>,
        mut visit: impl FnMut(u32, &[u8; N]) -> bool,
    ) -> io::Result<()> {
        let (in_file, tail) = {
            let mut state = self.state.lock();
            self.load(place, &mut state)?;
            (state.in_file, state.tail.clone())
        };
        let mut slot = 0u32;
        if in_file > 0 {
            let handle = self.handle(place, Access::Read)?;
            let mut block = [0u8; BLOCK_BYTES];
            while slot < in_file {
                let wanted = ((in_file - slot) as usize).min(BLOCK_BYTES / N) * N;
                let bytes = block.get_mut(..wanted).unwrap_or_default();
                let position = u64::from(slot) * N as u64;
                let count = place.handles.disk().read_at(handle.file(), handle.path(), bytes, position)?;
                let (entries, _) = bytes.get(..count).unwrap_or_default().as_chunks::<N>();
                if entries.is_empty() {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                for entry in entries {
                    if !visit(slot, entry) {
                        return Ok(());
                    }
                    slot += 1;
                }
            }
        }
        for entry in &tail {
            if !visit(slot, entry) {
                break;
            }
            slot += 1;
        }
        Ok(())
    }

    /// Closes the file for good; what is only in memory stays there.
    pub(crate) fn retire(&self) {
        self.slot.retire();
    }

    /// Closes the file and gives the tail's memory back if it is empty.
    pub(crate) fn close(&self) {
        self.slot.close();
        let mut state = self.state.lock();
        if state.tail.is_empty() {
            state.tail = Vec::new();
        }
    }

    /// Bytes on the heap.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.state.lock().tail.capacity() * N + std::mem::size_of::<HandleSlot>() + 16
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Disk;

    fn number(entry: &[u8; 8]) -> u64 {
        u64::from_be_bytes(*entry)
    }

    #[test]
    fn lookups_agree_with_a_linear_search_at_every_size() {
        let dir = tempfile::tempdir().unwrap();
        let handles = FileHandles::new(Disk::new(), 16);
        let place = Place { handles: &handles, dir: dir.path(), base_offset: 0 };
        let index = IndexFile::<8>::empty(".index");
        let mut all = Vec::new();
        for n in 0..3000u64 {
            let value = 1 + n * 3;
            index.append(place, value.to_be_bytes()).unwrap();
            all.push(value);
            if n < 100 || n % 97 == 0 {
                for target in [0, 1, 2, value / 2, value - 1, value, value + 1] {
                    let expected = all.iter().rposition(|v| *v <= target);
                    let found = index.last_where(place, |entry| number(entry) <= target).unwrap();
                    assert_eq!(found.map(|(slot, _)| slot as usize), expected, "target {target} of {n}");
                }
            }
        }
        assert_eq!(index.entries(place).unwrap(), 3000);
        index.flush_tail(place).unwrap();
        index.forget();
        assert_eq!(index.entries(place).unwrap(), 3000);
        let mut seen = 0;
        index
            .for_each(place, |slot, entry| {
                assert_eq!(number(entry), 1 + u64::from(slot) * 3);
                seen += 1;
                true
            })
            .unwrap();
        assert_eq!(seen, 3000);
    }

    #[test]
    fn a_preallocated_file_counts_its_entries_and_is_trimmed_by_the_next_write() {
        let dir = tempfile::tempdir().unwrap();
        let handles = FileHandles::new(Disk::new(), 16);
        let place = Place { handles: &handles, dir: dir.path(), base_offset: 0 };
        for entries in [0u64, 1, 2, 700] {
            let mut bytes: Vec<u8> = (1..=entries).flat_map(u64::to_be_bytes).collect();
            bytes.resize(10_000, 0);
            std::fs::write(place.path(".index"), &bytes).unwrap();
            let index = IndexFile::<8>::existing(".index");
            assert_eq!(u64::from(index.entries(place).unwrap()), entries);
            index.append(place, (entries + 1).to_be_bytes()).unwrap();
            index.flush_tail(place).unwrap();
            assert_eq!(std::fs::metadata(place.path(".index")).unwrap().len(), (entries + 1) * 8);
        }
    }

    #[test]
    fn truncation_reaches_into_the_tail_and_into_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let handles = FileHandles::new(Disk::new(), 16);
        let place = Place { handles: &handles, dir: dir.path(), base_offset: 7 };
        let index = IndexFile::<8>::empty(".index");
        for n in 1..=40u64 {
            index.append(place, n.to_be_bytes()).unwrap();
        }
        for keep in [40u32, 36, 32, 10, 0] {
            index.truncate(place, keep).unwrap();
            assert_eq!(index.entries(place).unwrap(), keep);
            assert_eq!(index.last(place).unwrap().map(|e| number(&e)), (keep > 0).then_some(u64::from(keep)));
        }
    }
}
