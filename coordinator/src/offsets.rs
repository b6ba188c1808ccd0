//! The committed offsets of one group, with the bytes that they take counted as they come and go.

use std::collections::BTreeMap;
use std::sync::Arc;

/// One committed offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedOffset {
    /// The offset.
    pub offset: i64,
    /// Leader epoch of the last consumed record, -1 if unknown.
    pub leader_epoch: i32,
    /// When it was committed, in milliseconds since the epoch.
    pub commit_timestamp_ms: i64,
    /// When it goes, in milliseconds since the epoch; -1 if `offsets.retention.minutes` decides.
    pub expire_timestamp_ms: i64,
    /// The client's own note.
    pub metadata: Box<str>,
}

/// What one offset is charged with besides its metadata: key and value in a half filled B-tree, one small allocation.
const OFFSET_CHARGE_BYTES: usize = 2 * (size_of::<CommittedOffset>() + size_of::<i32>()) + 16;
/// What one topic is charged with besides its name.
const TOPIC_CHARGE_BYTES: usize = 96;

impl CommittedOffset {
    /// What this offset is charged with.
    pub(crate) fn charge_bytes(&self) -> usize {
        OFFSET_CHARGE_BYTES + self.metadata.len()
    }
}

/// What a topic's entry is charged with.
pub(crate) fn topic_charge_bytes(topic: &str) -> usize {
    TOPIC_CHARGE_BYTES + topic.len()
}

/// Offsets by topic and partition.
#[derive(Debug, Default)]
pub(crate) struct GroupOffsets {
    topics: BTreeMap<Arc<str>, BTreeMap<i32, CommittedOffset>>,
    count: usize,
    bytes: usize,
}

impl GroupOffsets {
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn get(&self, topic: &str, partition: i32) -> Option<&CommittedOffset> {
        self.topics.get(topic)?.get(&partition)
    }

    /// The topic's name as it is stored, so that its bytes are shared.
    pub(crate) fn topic_name(&self, topic: &str) -> Option<Arc<str>> {
        self.topics.get_key_value(topic).map(|(name, _)| Arc::clone(name))
    }

    pub(crate) fn topics(&self) -> impl Iterator<Item = &Arc<str>> {
        self.topics.keys()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, i32, &CommittedOffset)> {
        self.topics.iter().flat_map(|(topic, partitions)| {
            partitions.iter().map(move |(partition, offset)| (topic, *partition, offset))
        })
    }

    pub(crate) fn partitions(&self, topic: &str) -> impl Iterator<Item = (i32, &CommittedOffset)> {
        self.topics.get(topic).into_iter().flatten().map(|(partition, offset)| (*partition, offset))
    }

    pub(crate) fn put(&mut self, topic: &Arc<str>, partition: i32, offset: CommittedOffset) {
        if !self.topics.contains_key(topic) {
            self.bytes += topic_charge_bytes(topic);
        }
        self.bytes += offset.charge_bytes();
        match self.topics.entry(Arc::clone(topic)).or_default().insert(partition, offset) {
            Some(previous) => self.bytes -= previous.charge_bytes(),
            None => self.count += 1,
        }
    }

    pub(crate) fn remove(&mut self, topic: &str, partition: i32) -> bool {
        let Some(partitions) = self.topics.get_mut(topic) else { return false };
        let Some(previous) = partitions.remove(&partition) else { return false };
        self.bytes -= previous.charge_bytes();
        self.count -= 1;
        if partitions.is_empty() {
            self.topics.remove(topic);
            self.bytes -= topic_charge_bytes(topic);
        }
        true
    }

    /// The bytes counted anew, to test the running count against.
    pub(crate) fn recount_bytes(&self) -> usize {
        let topics: usize = self.topics.keys().map(|topic| topic_charge_bytes(topic)).sum();
        topics + self.iter().map(|(_, _, offset)| offset.charge_bytes()).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offset(offset: i64, metadata: &str) -> CommittedOffset {
        CommittedOffset {
            offset,
            leader_epoch: -1,
            commit_timestamp_ms: 0,
            expire_timestamp_ms: -1,
            metadata: metadata.into(),
        }
    }

    #[test]
    fn count_and_bytes_follow_every_change() {
        let mut offsets = GroupOffsets::default();
        let orders: Arc<str> = Arc::from("orders");
        offsets.put(&orders, 0, offset(5, "note"));
        offsets.put(&orders, 1, offset(6, ""));
        offsets.put(&orders, 0, offset(7, "a longer note"));
        assert_eq!(offsets.count(), 2);
        assert_eq!(offsets.bytes(), offsets.recount_bytes());
        assert_eq!(offsets.get("orders", 0).map(|found| found.offset), Some(7));
        assert!(!offsets.remove("orders", 2));
        assert!(!offsets.remove("other", 0));
        assert!(offsets.remove("orders", 0));
        assert_eq!(offsets.bytes(), offsets.recount_bytes());
        assert!(offsets.remove("orders", 1));
        assert!(offsets.is_empty());
        assert_eq!(offsets.bytes(), 0);
    }
}
