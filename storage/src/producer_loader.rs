//! Brings the producers of a log up to an offset: the last good snapshot, then the headers of the batches behind it.

use std::path::Path;
use std::sync::Arc;

use crate::control::{ControlMarker, MARKER_WINDOW_BYTES};
use crate::error::{IoContext, StorageError};
use crate::file_handles::{Access, FileHandles};
use crate::index_file::Place;
use crate::log::{StorageCounters, count};
use crate::producer_snapshot;
use crate::producer_state::{ProducerState, seen_before_start};
use crate::scan::{LOOKUP_WINDOW_BYTES, SCAN_WINDOW_BYTES, ScanError, Scanner};
use crate::segment::{Find, LOG_SUFFIX, Segment};
use crate::transaction_index::AbortedTxn;

/// What a load needs to know of a log.
pub(crate) struct ProducerLoader<'a> {
    pub(crate) handles: &'a FileHandles,
    pub(crate) counters: &'a StorageCounters,
    pub(crate) dir: &'a Path,
    pub(crate) segments: &'a [Arc<Segment>],
    pub(crate) now_ms: i64,
    pub(crate) expiration_ms: i64,
}

impl ProducerLoader<'_> {
    /// Loads the last snapshot that is not above `end` and `latest_snapshot`, replays what follows up to `end`, and
    /// reports each aborted transaction with the base offset of the segment that holds its marker. Damaged snapshots
    /// are removed with a warning.
    ///
    /// Batches below the log start count as long as their segment is there: DeleteRecords takes records away, and a
    /// producer whose last batch it took goes on with the next sequence all the same.
    pub(crate) fn load(
        &self,
        state: &mut ProducerState,
        snapshots: &mut Vec<i64>,
        end: i64,
        latest_snapshot: i64,
        on_aborted: &mut dyn FnMut(i64, AbortedTxn),
    ) -> Result<(), StorageError> {
        let disk = self.handles.disk();
        let start = self.segments.first().map_or(0, |segment| segment.base_offset);
        let mut from = start;
        state.clear(start);
        while let Some(offset) = snapshots.iter().copied().rfind(|offset| *offset <= end.min(latest_snapshot))
        {
            match producer_snapshot::read(disk, self.dir, offset) {
                Ok(entries) => {
                    state.load(offset, &entries, self.now_ms, self.expiration_ms);
                    from = offset.max(start);
                    break;
                }
                Err(StorageError::CorruptFile { path, reason }) => {
                    tracing::warn!(path = %path.display(), reason, "ignoring a producer snapshot");
                    count(&self.counters.files_rebuilt, 1);
                    disk.remove_file(&path).context("remove", &path)?;
                    snapshots.retain(|other| *other != offset);
                }
                Err(error) => return Err(error),
            }
        }
        if from < end {
            self.replay(state, from, end, on_aborted)?;
        }
        state.set_map_end_offset(end);
        Ok(())
    }

    fn replay(
        &self,
        state: &mut ProducerState,
        from: i64,
        end: i64,
        on_aborted: &mut dyn FnMut(i64, AbortedTxn),
    ) -> Result<(), StorageError> {
        let disk = self.handles.disk();
        let mut window = vec![0; SCAN_WINDOW_BYTES];
        let first = self.segments.partition_point(|segment| segment.base_offset <= from).saturating_sub(1);
        for segment in self.segments.get(first..).unwrap_or_default() {
            if segment.base_offset >= end {
                break;
            }
            let place = Place { handles: self.handles, dir: self.dir, base_offset: segment.base_offset };
            let size = segment.size_bytes();
            let mut small = [0; LOOKUP_WINDOW_BYTES];
            let start = if from <= segment.base_offset || size == 0 {
                0
            } else {
                match segment.find(place, from, size, false, &mut small) {
                    Ok(Find::Found(batch)) => batch.position,
                    Ok(Find::PastEnd { .. }) => continue,
                    _ => 0,
                }
            };
            let failed = |error: std::io::Error| StorageError::Io {
                action: "read",
                path: place.path(LOG_SUFFIX),
                source: error,
            };
            let handle = segment.handle(place, Access::Read).map_err(failed)?;
            let mut scanner = Scanner::new(disk, &handle, &mut window, start, size);
            loop {
                let batch = match scanner.next_batch() {
                    Ok(Some(batch)) => batch,
                    Ok(None) => break,
                    Err(ScanError::Io(error)) => return Err(failed(error)),
                    Err(ScanError::Bad { position, reason }) => {
                        tracing::warn!(
                            path = %place.path(LOG_SUFFIX).display(),
                            position,
                            reason,
                            "producers of damaged batches are not known"
                        );
                        let Some(behind) = segment.batch_behind(place, position, size).map_err(failed)?
                        else {
                            break;
                        };
                        scanner = Scanner::new(disk, &handle, &mut window, behind.position, size);
                        continue;
                    }
                };
                if batch.header.base_offset >= end {
                    return Ok(());
                }
                if batch.header.last_offset() < from || !batch.header.has_producer_id() {
                    continue;
                }
                let mut body = [0; MARKER_WINDOW_BYTES];
                let marker = if batch.header.is_control() {
                    let body = scanner.body_prefix(&batch, &mut body).map_err(failed)?;
                    ControlMarker::parse(body, batch.header.base_timestamp)
                } else {
                    None
                };
                let seen_ms = seen_before_start(batch.header.max_timestamp, self.now_ms, self.expiration_ms);
                if let Some(completed) = state.apply(&batch.header, marker.as_ref(), seen_ms)
                    && let Some(aborted) = state.complete(&completed)
                {
                    on_aborted(segment.base_offset, aborted);
                }
            }
        }
        Ok(())
    }
}
