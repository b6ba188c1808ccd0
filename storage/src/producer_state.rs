//! What a log remembers of idempotent and transactional producers: last sequences, open and aborted transactions.
//!
//! Checks come first ([`ProducerState::check`] changes nothing), then the batch is written, then
//! [`ProducerState::apply`] takes it over. Recovery applies without checking: what is on disk has been accepted
//! before. Method and rules are those of KIP-98, KIP-360 and Kafka 4.x: a producer that is not known may begin with
//! any sequence.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use weir_protocol::records::{BatchHeader, increment_sequence};

use crate::control::{ControlMarker, MarkerType};
use crate::error::StorageError;
use crate::producer_snapshot::SnapshotEntry;
use crate::topic_partition::TopicPartition;
use crate::transaction_index::AbortedTxn;

/// How many of its last batches a producer may send again.
pub(crate) const BATCHES_TO_RETAIN: usize = 5;

/// So long a producer is remembered after a start at least: it may send its last batch again, whose records may be of any time.
const RETRY_MS: i64 = 10 * 60 * 1000;

/// When a producer was seen last whose last batch has this timestamp: nobody knows any more, and a client may have chosen it.
pub(crate) fn seen_before_start(timestamp: i64, now_ms: i64, expiration_ms: i64) -> i64 {
    let at_least = now_ms.saturating_sub(expiration_ms).saturating_add(RETRY_MS.min(expiration_ms));
    timestamp.min(now_ms).max(at_least)
}

/// How many producer ids all logs of a process remember, and how many they may.
#[derive(Debug)]
pub struct ProducerIdQuota {
    limit: usize,
    used: AtomicUsize,
}

impl ProducerIdQuota {
    /// At most `limit` producer ids over all logs that share this quota.
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, used: AtomicUsize::new(0) })
    }

    /// The limit.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Producer ids that are remembered now.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    fn is_full(&self) -> bool {
        self.used() >= self.limit
    }

    fn add(&self, count: usize) {
        self.used.fetch_add(count, Ordering::Relaxed);
    }

    fn remove(&self, count: usize) {
        self.used.fetch_sub(count, Ordering::Relaxed);
    }
}

/// Who appends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppendOrigin {
    /// A producer: everything is checked.
    Client,
    /// A coordinator of this broker: no sequences, epochs only.
    Coordinator,
    /// A leader elsewhere, or the log itself during recovery: nothing is checked.
    Replication,
}

/// One appended batch of a producer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BatchMetadata {
    /// Sequence of its last record.
    pub last_sequence: i32,
    /// Offset of its last record.
    pub last_offset: i64,
    /// Last offset minus first offset.
    pub offset_delta: i32,
    /// Largest timestamp.
    pub timestamp: i64,
}

impl BatchMetadata {
    /// Sequence of its first record.
    pub fn first_sequence(&self) -> i32 {
        increment_sequence(self.last_sequence, -self.offset_delta)
    }

    /// Offset of its first record.
    pub fn first_offset(&self) -> i64 {
        self.last_offset - i64::from(self.offset_delta)
    }
}

/// What is remembered of one producer id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProducerEntry {
    /// Its epoch, -1 when only a marker without one was seen.
    pub(crate) producer_epoch: i16,
    /// Epoch of the coordinator of its last marker, -1 for none.
    pub(crate) coordinator_epoch: i32,
    /// Timestamp of its last batch or marker.
    pub(crate) last_timestamp: i64,
    /// When that was appended by this process; else its timestamp, which a client may have chosen. Producers are
    /// forgotten by it: one that writes records of last year is not silent.
    pub(crate) last_seen_ms: i64,
    /// First offset of its open transaction.
    pub(crate) current_txn_first_offset: Option<i64>,
    batches: [BatchMetadata; BATCHES_TO_RETAIN],
    batch_count: u8,
}

impl ProducerEntry {
    fn empty() -> Self {
        Self {
            producer_epoch: -1,
            coordinator_epoch: -1,
            last_timestamp: -1,
            last_seen_ms: -1,
            current_txn_first_offset: None,
            batches: Default::default(),
            batch_count: 0,
        }
    }

    /// Its last batches, oldest first, at most [`BATCHES_TO_RETAIN`].
    pub(crate) fn batches(&self) -> &[BatchMetadata] {
        self.batches.get(..usize::from(self.batch_count)).unwrap_or_default()
    }

    /// Sequence of the last record, -1 for none.
    pub(crate) fn last_sequence(&self) -> i32 {
        self.batches().last().map_or(-1, |batch| batch.last_sequence)
    }

    fn push(&mut self, batch: BatchMetadata) {
        if usize::from(self.batch_count) == BATCHES_TO_RETAIN {
            self.batches.rotate_left(1);
            self.batch_count -= 1;
        }
        self.batches[usize::from(self.batch_count)] = batch;
        self.batch_count += 1;
    }

    fn set_epoch(&mut self, epoch: i16) {
        if self.producer_epoch != epoch {
            self.batch_count = 0;
            self.producer_epoch = epoch;
        }
    }
}

/// One line of DescribeProducers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActiveProducer {
    /// The producer id.
    pub producer_id: i64,
    /// Its epoch.
    pub producer_epoch: i16,
    /// Its last sequence, -1 for none.
    pub last_sequence: i32,
    /// Timestamp of its last batch.
    pub last_timestamp: i64,
    /// Epoch of its coordinator, -1 for none.
    pub coordinator_epoch: i32,
    /// First offset of its open transaction, -1 for none.
    pub current_txn_start_offset: i64,
}

/// What a check says about a batch that may be appended or is known already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Check {
    Accept,
    Duplicate(BatchMetadata),
}

/// A finished transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CompletedTxn {
    pub(crate) producer_id: i64,
    pub(crate) first_offset: i64,
    pub(crate) last_offset: i64,
    pub(crate) aborted: bool,
}

/// The producers of one log.
#[derive(Debug)]
pub(crate) struct ProducerState {
    quota: Arc<ProducerIdQuota>,
    /// Boxed: the table has a few places at least, and two tables are there while it grows.
    producers: HashMap<i64, Box<ProducerEntry>>,
    /// First offset to producer id of open transactions.
    ongoing: BTreeMap<i64, i64>,
    /// First to last offset of transactions that ended at or above the high watermark.
    unreplicated: BTreeMap<i64, i64>,
    /// The state stands for everything below this offset.
    map_end_offset: i64,
}

impl ProducerState {
    pub(crate) fn new(quota: Arc<ProducerIdQuota>) -> Self {
        Self {
            quota,
            producers: HashMap::new(),
            ongoing: BTreeMap::new(),
            unreplicated: BTreeMap::new(),
            map_end_offset: 0,
        }
    }

    pub(crate) fn clear(&mut self, end_offset: i64) {
        self.quota.remove(self.producers.len());
        self.producers = HashMap::new();
        self.ongoing.clear();
        self.unreplicated.clear();
        self.map_end_offset = end_offset;
    }

    pub(crate) fn map_end_offset(&self) -> i64 {
        self.map_end_offset
    }

    pub(crate) fn set_map_end_offset(&mut self, offset: i64) {
        self.map_end_offset = offset;
    }

    pub(crate) fn len(&self) -> usize {
        self.producers.len()
    }

    #[cfg(test)]
    pub(crate) fn get(&self, producer_id: i64) -> Option<&ProducerEntry> {
        self.producers.get(&producer_id).map(|entry| &**entry)
    }

    /// May the batch be appended? Duplicates are recognised among the last five batches of the producer.
    pub(crate) fn check(
        &self,
        name: &TopicPartition,
        header: &BatchHeader,
        marker: Option<&ControlMarker>,
        origin: AppendOrigin,
    ) -> Result<Check, StorageError> {
        if !header.has_producer_id() || origin == AppendOrigin::Replication {
            return Ok(Check::Accept);
        }
        let producer_id = header.producer_id;
        let entry = self.producers.get(&producer_id);
        if let (AppendOrigin::Client, Some(entry)) = (origin, entry)
            && header.producer_epoch == entry.producer_epoch
        {
            let (first, last) = (header.base_sequence, header.last_sequence());
            let same =
                |batch: &&BatchMetadata| batch.first_sequence() == first && batch.last_sequence == last;
            if let Some(batch) = entry.batches().iter().find(same) {
                return Ok(Check::Duplicate(*batch));
            }
        }
        let Some(entry) = entry else {
            if self.quota.is_full() {
                return Err(StorageError::TooManyProducerIds {
                    topic_partition: name.clone(),
                    limit: self.quota.limit(),
                });
            }
            return Ok(Check::Accept);
        };
        if header.producer_epoch < entry.producer_epoch {
            return Err(StorageError::InvalidProducerEpoch {
                topic_partition: name.clone(),
                producer_id,
                epoch: header.producer_epoch,
                last_epoch: entry.producer_epoch,
            });
        }
        if let Some(marker) = marker {
            if marker.coordinator_epoch < entry.coordinator_epoch {
                return Err(StorageError::TransactionCoordinatorFenced {
                    topic_partition: name.clone(),
                    producer_id,
                    epoch: marker.coordinator_epoch,
                    last_epoch: entry.coordinator_epoch,
                });
            }
            return Ok(Check::Accept);
        }
        if origin == AppendOrigin::Client {
            self.check_sequence(name, header, entry)?;
        }
        if entry.current_txn_first_offset.is_some() && !header.is_transactional() && !header.is_control() {
            return Err(StorageError::InvalidTxnState { topic_partition: name.clone(), producer_id });
        }
        Ok(Check::Accept)
    }

    fn check_sequence(
        &self,
        name: &TopicPartition,
        header: &BatchHeader,
        entry: &ProducerEntry,
    ) -> Result<(), StorageError> {
        let first = header.base_sequence;
        let last = entry.last_sequence();
        let fits = if header.producer_epoch != entry.producer_epoch {
            // A new epoch starts anew, unless there was none.
            first == 0 || entry.producer_epoch == -1
        } else {
            // Without an epoch nothing is known: retention took all the producer's batches.
            entry.producer_epoch == -1
                || i64::from(first) == i64::from(last) + 1
                || (first == 0 && last == i32::MAX)
        };
        if fits {
            return Ok(());
        }
        Err(StorageError::OutOfOrderSequence {
            topic_partition: name.clone(),
            producer_id: header.producer_id,
            epoch: header.producer_epoch,
            sequence: first,
            last_sequence: last,
        })
    }

    /// Takes over a batch that is in the log: `header` with its final offsets, `marker` if it is a control batch with
    /// a transaction marker; `seen_ms` is when it was appended. Returns the transaction that it ended, if any; the
    /// caller then calls [`Self::complete`].
    pub(crate) fn apply(
        &mut self,
        header: &BatchHeader,
        marker: Option<&ControlMarker>,
        seen_ms: i64,
    ) -> Option<CompletedTxn> {
        let mut completed = None;
        if header.has_producer_id() && (marker.is_some() || !header.is_control()) {
            let quota = &self.quota;
            let entry = self.producers.entry(header.producer_id).or_insert_with(|| {
                quota.add(1);
                Box::new(ProducerEntry::empty())
            });
            entry.last_seen_ms = seen_ms;
            entry.set_epoch(header.producer_epoch);
            if let Some(marker) = marker {
                completed = entry.current_txn_first_offset.take().map(|first_offset| CompletedTxn {
                    producer_id: header.producer_id,
                    first_offset,
                    last_offset: header.base_offset,
                    aborted: marker.kind == MarkerType::Abort,
                });
                entry.coordinator_epoch = marker.coordinator_epoch;
                entry.last_timestamp = marker.timestamp;
            } else {
                entry.push(BatchMetadata {
                    last_sequence: header.last_sequence(),
                    last_offset: header.last_offset(),
                    offset_delta: header.last_offset_delta,
                    timestamp: header.max_timestamp,
                });
                entry.last_timestamp = header.max_timestamp;
                if header.is_transactional() && entry.current_txn_first_offset.is_none() {
                    entry.current_txn_first_offset = Some(header.base_offset);
                    self.ongoing.insert(header.base_offset, header.producer_id);
                }
            }
        }
        self.map_end_offset = header.next_offset();
        completed
    }

    /// The first offset that is not stable once `txn` has ended: of another open transaction, or the one after it.
    fn last_stable_offset(&self, txn: &CompletedTxn) -> i64 {
        self.ongoing
            .iter()
            .find(|(_, producer_id)| **producer_id != txn.producer_id)
            .map_or(txn.last_offset + 1, |(first_offset, _)| *first_offset)
    }

    /// Ends a transaction; returns what the transaction index has to remember when it was aborted.
    pub(crate) fn complete(&mut self, txn: &CompletedTxn) -> Option<AbortedTxn> {
        let last_stable_offset = self.last_stable_offset(txn);
        self.ongoing.remove(&txn.first_offset);
        self.unreplicated.insert(txn.first_offset, txn.last_offset);
        txn.aborted.then_some(AbortedTxn {
            producer_id: txn.producer_id,
            first_offset: txn.first_offset,
            last_offset: txn.last_offset,
            last_stable_offset,
        })
    }

    /// Ended transactions below the high watermark no longer hold back the last stable offset.
    pub(crate) fn on_high_watermark(&mut self, high_watermark: i64) {
        if !self.unreplicated.is_empty() {
            self.unreplicated.retain(|_, last_offset| *last_offset >= high_watermark);
        }
    }

    /// The first offset of a transaction that is open, or ended above the high watermark.
    pub(crate) fn first_unstable_offset(&self) -> Option<i64> {
        let ongoing = self.ongoing.keys().next();
        let unreplicated = self.unreplicated.keys().next();
        ongoing.into_iter().chain(unreplicated).min().copied()
    }

    /// Forgets producers without an open transaction that have been silent for `expiration_ms`.
    pub(crate) fn remove_expired(&mut self, now_ms: i64, expiration_ms: i64) -> usize {
        let before = self.producers.len();
        self.producers.retain(|_, entry| {
            entry.current_txn_first_offset.is_some()
                || now_ms.saturating_sub(entry.last_seen_ms) < expiration_ms
        });
        let removed = before - self.producers.len();
        self.quota.remove(removed);
        if removed > 0 {
            self.producers.shrink_to(self.producers.len() * 2);
        }
        removed
    }

    /// The lines of DescribeProducers, by producer id.
    pub(crate) fn active_producers(&self, most: usize) -> Vec<ActiveProducer> {
        let mut active: Vec<ActiveProducer> = self
            .producers
            .iter()
            .take(most)
            .map(|(producer_id, entry)| ActiveProducer {
                producer_id: *producer_id,
                producer_epoch: entry.producer_epoch,
                last_sequence: entry.last_sequence(),
                last_timestamp: entry.last_timestamp,
                coordinator_epoch: entry.coordinator_epoch,
                current_txn_start_offset: entry.current_txn_first_offset.unwrap_or(-1),
            })
            .collect();
        active.sort_unstable_by_key(|producer| producer.producer_id);
        active
    }

    /// The entries of a snapshot, by producer id.
    pub(crate) fn snapshot_entries(&self) -> Vec<SnapshotEntry> {
        let mut entries: Vec<SnapshotEntry> = self
            .producers
            .iter()
            .map(|(producer_id, entry)| {
                let last = entry.batches().last();
                SnapshotEntry {
                    producer_id: *producer_id,
                    producer_epoch: entry.producer_epoch,
                    last_sequence: last.map_or(-1, |batch| batch.last_sequence),
                    last_offset: last.map_or(-1, |batch| batch.last_offset),
                    offset_delta: last.map_or(0, |batch| batch.offset_delta),
                    timestamp: entry.last_timestamp,
                    coordinator_epoch: entry.coordinator_epoch,
                    current_txn_first_offset: entry.current_txn_first_offset.unwrap_or(-1),
                }
            })
            .collect();
        entries.sort_unstable_by_key(|entry| entry.producer_id);
        entries
    }

    /// Becomes what a snapshot at `offset` says. Producers whose last batch has a timestamp long ago are left out where
    /// there is no room for them.
    pub(crate) fn load(&mut self, offset: i64, entries: &[SnapshotEntry], now_ms: i64, expiration_ms: i64) {
        self.clear(offset);
        for loaded in entries {
            let has_txn = loaded.current_txn_first_offset >= 0;
            if !has_txn
                && now_ms.saturating_sub(loaded.timestamp) >= expiration_ms
                && self.quota.used() + self.producers.len() >= self.quota.limit()
            {
                continue;
            }
            let mut entry = Box::new(ProducerEntry::empty());
            entry.last_seen_ms = seen_before_start(loaded.timestamp, now_ms, expiration_ms);
            entry.producer_epoch = loaded.producer_epoch;
            entry.coordinator_epoch = loaded.coordinator_epoch;
            entry.last_timestamp = loaded.timestamp;
            entry.current_txn_first_offset = has_txn.then_some(loaded.current_txn_first_offset);
            if loaded.last_offset >= 0 {
                entry.push(BatchMetadata {
                    last_sequence: loaded.last_sequence,
                    last_offset: loaded.last_offset,
                    offset_delta: loaded.offset_delta,
                    timestamp: loaded.timestamp,
                });
            }
            if has_txn {
                self.ongoing.insert(loaded.current_txn_first_offset, loaded.producer_id);
            }
            self.producers.insert(loaded.producer_id, entry);
        }
        self.quota.add(self.producers.len());
    }

    /// Bytes on the heap, estimated.
    pub(crate) fn memory_bytes(&self) -> usize {
        const PLACE: usize = std::mem::size_of::<(i64, Box<ProducerEntry>)>() + 1;
        const ENTRY: usize = std::mem::size_of::<ProducerEntry>() + 16;
        self.producers.capacity() * PLACE * 8 / 7
            + self.producers.len() * ENTRY
            + (self.ongoing.len() + self.unreplicated.len()) * 32
    }
}

impl Drop for ProducerState {
    fn drop(&mut self) {
        self.quota.remove(self.producers.len());
    }
}

#[cfg(test)]
#[path = "producer_state_tests.rs"]
mod tests;
