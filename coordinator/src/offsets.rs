//! The committed offsets of one group, with the bytes that they take counted as they come and go.

use std::sync::Arc;

use crate::charge;

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

/// One partition's offset as it is stored.
pub(crate) type Entry = (i32, CommittedOffset);
/// One topic's offsets as they are stored.
pub(crate) type Topic = (Arc<str>, Vec<Entry>);

impl CommittedOffset {
    /// What this offset is charged with.
    pub(crate) fn charge_bytes(&self) -> usize {
        let metadata = if self.metadata.is_empty() { 0 } else { charge::block(self.metadata.len()) };
        charge::vector_entry(size_of::<Entry>()) + metadata
    }
}

/// What a topic's entry is charged with.
pub(crate) fn topic_charge_bytes(topic: &str) -> usize {
    charge::vector_entry(size_of::<Topic>()) + charge::shared(topic.len()) + charge::block(0)
}

/// Offsets by topic and partition: sorted vectors, because most groups have few topics, and a tree's first node alone
/// takes as much as a dozen offsets.
#[derive(Debug, Default)]
pub(crate) struct GroupOffsets {
    topics: Vec<Topic>,
    count: usize,
    bytes: usize,
}

/// Inserts into a sorted vector that grows by an eighth instead of doubling.
fn insert<T>(list: &mut Vec<T>, at: usize, item: T) {
    if list.len() == list.capacity() {
        list.reserve_exact(1 + list.len() / 8);
    }
    list.insert(at, item);
}

/// Removes from a sorted vector and gives memory back once it is less than three quarters full.
fn remove<T>(list: &mut Vec<T>, at: usize) -> T {
    let item = list.remove(at);
    if list.len() < list.capacity() / 4 * 3 {
        list.shrink_to(list.len() + list.len() / 8);
    }
    item
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

    fn find_topic(&self, topic: &str) -> Result<usize, usize> {
        self.topics.binary_search_by(|(name, _)| (**name).cmp(topic))
    }

    fn topic(&self, topic: &str) -> Option<&Topic> {
        self.find_topic(topic).ok().and_then(|at| self.topics.get(at))
    }

    pub(crate) fn get(&self, topic: &str, partition: i32) -> Option<&CommittedOffset> {
        let (_, partitions) = self.topic(topic)?;
        let at = partitions.binary_search_by_key(&partition, |(index, _)| *index).ok()?;
        partitions.get(at).map(|(_, offset)| offset)
    }

    /// The topic's name as it is stored, so that its bytes are shared.
    pub(crate) fn topic_name(&self, topic: &str) -> Option<Arc<str>> {
        self.topic(topic).map(|(name, _)| Arc::clone(name))
    }

    pub(crate) fn has_topic(&self, topic: &str) -> bool {
        self.find_topic(topic).is_ok()
    }

    pub(crate) fn topics(&self) -> impl Iterator<Item = &Arc<str>> {
        self.topics.iter().map(|(topic, _)| topic)
    }

    pub(crate) fn by_topic(&self) -> &[Topic] {
        &self.topics
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, i32, &CommittedOffset)> {
        self.topics.iter().flat_map(|(topic, partitions)| {
            partitions.iter().map(move |(index, offset)| (topic, *index, offset))
        })
    }

    pub(crate) fn partitions(&self, topic: &str) -> impl Iterator<Item = (i32, &CommittedOffset)> {
        let partitions = self.topic(topic).map_or(&[][..], |(_, partitions)| partitions);
        partitions.iter().map(|(index, offset)| (*index, offset))
    }

    pub(crate) fn put(&mut self, topic: &Arc<str>, partition: i32, offset: CommittedOffset) {
        let at = match self.find_topic(topic) {
            Ok(at) => at,
            Err(at) => {
                insert(&mut self.topics, at, (Arc::clone(topic), Vec::new()));
                self.bytes += topic_charge_bytes(topic);
                at
            }
        };
        let Some((_, partitions)) = self.topics.get_mut(at) else { return };
        self.bytes += offset.charge_bytes();
        match partitions.binary_search_by_key(&partition, |(index, _)| *index) {
            Ok(at) => {
                if let Some((_, previous)) = partitions.get_mut(at) {
                    self.bytes -= previous.charge_bytes();
                    *previous = offset;
                }
            }
            Err(at) => {
                insert(partitions, at, (partition, offset));
                self.count += 1;
            }
        }
    }

    pub(crate) fn remove(&mut self, topic: &str, partition: i32) -> bool {
        let Ok(topic_at) = self.find_topic(topic) else { return false };
        let Some((_, partitions)) = self.topics.get_mut(topic_at) else { return false };
        let Ok(at) = partitions.binary_search_by_key(&partition, |(index, _)| *index) else { return false };
        let (_, previous) = remove(partitions, at);
        self.bytes -= previous.charge_bytes();
        self.count -= 1;
        if partitions.is_empty() {
            remove(&mut self.topics, topic_at);
            self.bytes -= topic_charge_bytes(topic);
        }
        true
    }

    /// The bytes counted anew, to test the running count against.
    pub(crate) fn recount_bytes(&self) -> usize {
        let topics: usize = self.topics().map(|topic| topic_charge_bytes(topic)).sum();
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
