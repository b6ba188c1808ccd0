//! The leader epochs of a log that is opened: from their checkpoint, or from the batches when that is damaged.

use std::sync::Arc;

use crate::error::StorageError;
use crate::file_handles::Access;
use crate::leader_epoch::LeaderEpochs;
use crate::log::count;
use crate::recovery::Loader;
use crate::scan::{SCAN_WINDOW_BYTES, ScanError, Scanner};
use crate::segment::Segment;

impl Loader<'_> {
    pub(crate) fn load_epochs(&self, segments: &[Arc<Segment>]) -> Result<LeaderEpochs, StorageError> {
        let reason = match LeaderEpochs::read(self.shared.handles.disk(), &self.options.dir) {
            Ok(Some(epochs)) => return Ok(epochs),
            Ok(None) if segments.iter().all(|segment| segment.size_bytes() == 0) => {
                return Ok(LeaderEpochs::default());
            }
            Ok(None) => "it is missing".to_owned(),
            Err(StorageError::CorruptFile { reason, .. }) => reason,
            Err(error) => return Err(error),
        };
        tracing::warn!(partition = %self.name(), reason, "rebuilding the leader epochs from the log");
        count(&self.shared.counters.files_rebuilt, 1);
        let mut epochs = LeaderEpochs::default();
        for (index, segment) in segments.iter().enumerate() {
            self.epochs_of(segment, segments.get(index + 1), &mut epochs)?;
        }
        Ok(epochs)
    }

    /// Epochs never fall, so a segment whose first batch has the epoch of the next segment's first batch has no other.
    fn epochs_of(
        &self,
        segment: &Segment,
        next: Option<&Arc<Segment>>,
        epochs: &mut LeaderEpochs,
    ) -> Result<(), StorageError> {
        let first = self.first_epoch(segment)?;
        let Some((first_epoch, first_offset)) = first else { return Ok(()) };
        if epochs.latest().is_none_or(|latest| first_epoch > latest.epoch) {
            epochs.assign(first_epoch, first_offset);
        }
        if let Some(next) = next
            && self.first_epoch(next)?.is_some_and(|(epoch, _)| epoch == first_epoch)
        {
            return Ok(());
        }
        let place = self.place(segment.base_offset);
        let mut window = vec![0; SCAN_WINDOW_BYTES];
        if let Ok(end) = segment.find_end(place, segment.size_bytes(), self.is_contiguous(), &mut window)
            && end.last_epoch == first_epoch
        {
            return Ok(());
        }
        let handle = segment
            .handle(place, Access::Read)
            .map_err(|error| self.io("open", segment.base_offset, error))?;
        let disk = self.shared.handles.disk();
        let mut scanner = Scanner::new(disk, &handle, &mut window, 0, segment.size_bytes());
        loop {
            match scanner.next_batch() {
                Ok(Some(batch)) => {
                    let epoch = batch.header.partition_leader_epoch;
                    if epochs.latest().is_none_or(|latest| epoch > latest.epoch) {
                        epochs.assign(epoch, batch.header.base_offset);
                    }
                }
                // What comes behind a damaged batch is for the check of the tail, or for the reads, to say.
                Ok(None) | Err(ScanError::Bad { .. }) => return Ok(()),
                Err(ScanError::Io(error)) => return Err(self.io("read", segment.base_offset, error)),
            }
        }
    }

    fn first_epoch(&self, segment: &Segment) -> Result<Option<(i32, i64)>, StorageError> {
        let place = self.place(segment.base_offset);
        let mut window = [0; 256];
        let handle = segment
            .handle(place, Access::Read)
            .map_err(|error| self.io("open", segment.base_offset, error))?;
        let disk = self.shared.handles.disk();
        let mut scanner = Scanner::new(disk, &handle, &mut window, 0, segment.size_bytes());
        match scanner.next_batch() {
            Ok(batch) => Ok(batch.map(|b| (b.header.partition_leader_epoch, b.header.base_offset))),
            Err(ScanError::Bad { .. }) => Ok(None),
            Err(ScanError::Io(error)) => Err(self.io("read", segment.base_offset, error)),
        }
    }
}
