//! Replay with transactions (KIP-868): records between Begin and End count together, or not at all after Abort.

use super::{MetadataImage, Provenance};
use crate::MetadataError;
use crate::record_frame::MetadataRecord;

/// Applies the records of the log and holds an open transaction back.
#[derive(Debug, Clone, Default)]
pub struct MetadataReplay {
    working: MetadataImage,
    /// The image before an open transaction, and the transaction's first offset.
    open: Option<(MetadataImage, i64)>,
}

impl MetadataReplay {
    /// Replay that goes on from `image`.
    pub fn new(image: MetadataImage) -> Self {
        Self { working: image, open: None }
    }

    /// The committed image: without the records of an open transaction.
    pub fn image(&self) -> &MetadataImage {
        self.open.as_ref().map_or(&self.working, |(before, _)| before)
    }

    /// Offset of the last record applied, those of an open transaction included; -1 for none.
    pub fn last_offset(&self) -> i64 {
        self.working.last_offset()
    }

    /// First offset of the open transaction. On activation a controller aborts it.
    pub fn open_transaction(&self) -> Option<i64> {
        self.open.as_ref().map(|(_, offset)| *offset)
    }

    /// Applies the record at `offset`.
    ///
    /// # Errors
    /// [`MetadataError::Replay`] when it does not fit: a second Begin, an End or Abort without a Begin, or as
    /// [`MetadataImage::apply`].
    pub fn apply(&mut self, record: &MetadataRecord, offset: i64) -> Result<(), MetadataError> {
        let misfit =
            |reason: &str| MetadataError::Replay { record: record.name(), offset, reason: reason.to_owned() };
        match record {
            MetadataRecord::BeginTransaction(_) => {
                if self.open.is_some() {
                    return Err(misfit("a transaction is open"));
                }
                self.open = Some((self.working.clone(), offset));
            }
            MetadataRecord::EndTransaction(_) => {
                self.open.take().ok_or_else(|| misfit("no transaction is open"))?;
            }
            MetadataRecord::AbortTransaction(_) => {
                let (before, _) = self.open.take().ok_or_else(|| misfit("no transaction is open"))?;
                let provenance = self.working.provenance();
                self.working = before;
                self.working.provenance = provenance;
            }
            _ => {}
        }
        self.working.apply(record, offset)
    }

    /// Moves on past the control records up to `offset`.
    pub fn skip_to(&mut self, offset: i64) {
        self.working.skip_to(offset);
    }

    /// Notes epoch and time of the batch whose records were applied last.
    pub fn set_batch(&mut self, epoch: i32, log_time_ms: i64) {
        self.working.set_batch(epoch, log_time_ms);
    }

    /// Where the last applied record stands in the log.
    pub fn provenance(&self) -> Provenance {
        self.working.provenance()
    }
}
