//! Topics and partitions, by id and by name.

use std::sync::Arc;

use weir_protocol::messages::{PartitionChangeRecord, PartitionRecord, RemoveTopicRecord, TopicRecord};
use weir_protocol::wire::{UnknownTags, Uuid};

use super::memory;

/// The leader of a partition without one.
pub const NO_LEADER: i32 = -1;

/// The leader in a change that leaves it as it is.
pub(crate) const NO_LEADER_CHANGE: i32 = -2;

/// Directory ids with a meaning of their own.
pub mod directory_id {
    use weir_protocol::wire::Uuid;

    /// Not known yet, before directories had ids.
    pub const MIGRATING: Uuid = Uuid::from_halves(0, 0);
    /// To be chosen by the broker.
    pub const UNASSIGNED: Uuid = Uuid::from_halves(0, 1);
    /// The directory is gone.
    pub const LOST: Uuid = Uuid::from_halves(0, 2);

    /// Whether an id has a meaning of its own: every id up to 99 is Kafka's.
    pub fn is_reserved(id: Uuid) -> bool {
        id.0[..15] == [0; 15] && id.0[15] < 100
    }
}

/// Numbers of the recovery state of a leader.
pub type LeaderRecoveryState = i8;

/// A partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// Its index.
    pub partition_id: i32,
    /// Replicas, the preferred leader first.
    pub replicas: Box<[i32]>,
    /// In-sync replicas.
    pub isr: Box<[i32]>,
    /// Replicas on their way out.
    pub removing_replicas: Box<[i32]>,
    /// Replicas on their way in.
    pub adding_replicas: Box<[i32]>,
    /// The directory of each replica.
    pub directories: Box<[Uuid]>,
    /// Replicas that may lead though they are not in sync (KIP-966).
    pub eligible_leader_replicas: Box<[i32]>,
    /// The last known ones of them.
    pub last_known_elr: Box<[i32]>,
    /// The leader, [`NO_LEADER`] for none.
    pub leader: i32,
    /// Grows when the leader changes.
    pub leader_epoch: i32,
    /// Grows with every change.
    pub partition_epoch: i32,
    /// 1 after an unclean election until the leader has recovered.
    pub leader_recovery_state: LeaderRecoveryState,
    unknown_tags: UnknownTags,
}

impl Partition {
    fn from_record(record: &PartitionRecord) -> Self {
        let boxed = |list: &[i32]| list.to_vec().into_boxed_slice();
        Self {
            partition_id: record.partition_id,
            replicas: boxed(&record.replicas),
            isr: boxed(&record.isr),
            removing_replicas: boxed(&record.removing_replicas),
            adding_replicas: boxed(&record.adding_replicas),
            directories: record.directories.clone().into_boxed_slice(),
            eligible_leader_replicas: boxed(record.eligible_leader_replicas.as_deref().unwrap_or_default()),
            last_known_elr: boxed(record.last_known_elr.as_deref().unwrap_or_default()),
            leader: record.leader,
            leader_epoch: record.leader_epoch,
            partition_epoch: record.partition_epoch,
            leader_recovery_state: record.leader_recovery_state,
            unknown_tags: record.unknown_tags.clone(),
        }
    }

    /// The record that gives this partition.
    pub(crate) fn to_record(&self, topic_id: Uuid) -> PartitionRecord {
        let optional = |list: &[i32]| (!list.is_empty()).then(|| list.to_vec());
        PartitionRecord {
            partition_id: self.partition_id,
            topic_id,
            replicas: self.replicas.to_vec(),
            isr: self.isr.to_vec(),
            removing_replicas: self.removing_replicas.to_vec(),
            adding_replicas: self.adding_replicas.to_vec(),
            leader: self.leader,
            leader_recovery_state: self.leader_recovery_state,
            leader_epoch: self.leader_epoch,
            partition_epoch: self.partition_epoch,
            directories: self.directories.to_vec(),
            eligible_leader_replicas: optional(&self.eligible_leader_replicas),
            last_known_elr: optional(&self.last_known_elr),
            unknown_tags: self.unknown_tags.clone(),
        }
    }

    /// Applies a change: what it does not name stays; a named leader raises the leader epoch, even the same one; every
    /// change raises the partition epoch.
    fn change(&mut self, record: &PartitionChangeRecord) {
        let boxed = |list: &Vec<i32>| list.clone().into_boxed_slice();
        let before = (self.replicas.clone(), self.directories.clone());
        if let Some(replicas) = &record.replicas {
            self.replicas = boxed(replicas);
        }
        if let Some(directories) = &record.directories {
            self.directories = directories.clone().into_boxed_slice();
        } else if record.replicas.is_some() && !before.1.is_empty() {
            let directory = |replica: &i32| {
                let index = before.0.iter().position(|old| old == replica);
                index.and_then(|index| before.1.get(index)).copied().unwrap_or(directory_id::UNASSIGNED)
            };
            self.directories = self.replicas.iter().map(directory).collect();
        }
        if let Some(isr) = &record.isr {
            self.isr = boxed(isr);
        }
        if let Some(removing) = &record.removing_replicas {
            self.removing_replicas = boxed(removing);
        }
        if let Some(adding) = &record.adding_replicas {
            self.adding_replicas = boxed(adding);
        }
        if let Some(eligible) = &record.eligible_leader_replicas {
            self.eligible_leader_replicas = boxed(eligible);
        }
        if let Some(last_known) = &record.last_known_elr {
            self.last_known_elr = boxed(last_known);
        }
        if record.leader != NO_LEADER_CHANGE {
            self.leader = record.leader;
            self.leader_epoch = self.leader_epoch.saturating_add(1);
        }
        if record.leader_recovery_state != -1 {
            self.leader_recovery_state = record.leader_recovery_state;
        }
        self.partition_epoch = self.partition_epoch.saturating_add(1);
    }

    /// The directory in which a broker keeps it; `None` when it is not known or not chosen yet.
    pub fn directory_of(&self, broker_id: i32) -> Option<Uuid> {
        let index = self.replicas.iter().position(|id| *id == broker_id)?;
        let directory = *self.directories.get(index)?;
        (directory != directory_id::MIGRATING && directory != directory_id::UNASSIGNED).then_some(directory)
    }

    /// Whether the preferred replica leads.
    pub fn has_preferred_leader(&self) -> bool {
        self.replicas.first() == Some(&self.leader)
    }

    /// Whether replicas are being added or removed.
    pub fn is_reassigning(&self) -> bool {
        !self.adding_replicas.is_empty() || !self.removing_replicas.is_empty()
    }

    fn memory_bytes(&self) -> usize {
        let lists = [
            &self.replicas,
            &self.isr,
            &self.removing_replicas,
            &self.adding_replicas,
            &self.eligible_leader_replicas,
            &self.last_known_elr,
        ];
        let tags: usize =
            self.unknown_tags.as_slice().iter().map(|tag| 48 + memory::heap(tag.data.len())).sum();
        // The vector of partitions doubles as it grows.
        2 * size_of::<Self>()
            + lists.iter().map(|list| memory::heap(list.len() * 4)).sum::<usize>()
            + memory::heap(self.directories.len() * 16)
            + tags
    }
}

/// A topic and its partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicImage {
    name: Arc<str>,
    id: Uuid,
    /// Ascending by index, normally without a gap.
    partitions: Vec<Partition>,
    unknown_tags: UnknownTags,
}

impl TopicImage {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its name, shared.
    pub fn shared_name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    /// Its id.
    pub fn id(&self) -> Uuid {
        self.id
    }

    /// Its partitions, ascending by index.
    pub fn partitions(&self) -> &[Partition] {
        &self.partitions
    }

    /// The partition of an index.
    pub fn partition(&self, partition_id: i32) -> Option<&Partition> {
        self.position(partition_id).ok().and_then(|index| self.partitions.get(index))
    }

    pub(super) fn topic_record(&self) -> TopicRecord {
        TopicRecord {
            name: self.name.to_string(),
            topic_id: self.id,
            unknown_tags: self.unknown_tags.clone(),
        }
    }

    fn position(&self, partition_id: i32) -> Result<usize, usize> {
        // Without gaps the index is the position.
        match usize::try_from(partition_id) {
            Ok(index)
                if self.partitions.get(index).is_some_and(|found| found.partition_id == partition_id) =>
            {
                Ok(index)
            }
            _ => self.partitions.binary_search_by_key(&partition_id, |partition| partition.partition_id),
        }
    }

    /// Bytes of the topic without its partitions.
    fn own_bytes(&self) -> usize {
        let entry = memory::map_entry(16, 8) + memory::map_entry(16, 16);
        let collision = if has_collision_chars(&self.name) {
            memory::map_entry(24, 16) + memory::heap(self.name.len())
        } else {
            0
        };
        entry + collision + memory::heap(size_of::<Self>() + 16) + memory::heap(self.name.len() + 16)
    }

    fn memory_bytes(&self) -> usize {
        self.own_bytes() + self.partitions.iter().map(Partition::memory_bytes).sum::<usize>()
    }
}

/// All topics.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TopicsImage {
    by_id: imbl::OrdMap<Uuid, Arc<TopicImage>>,
    ids: imbl::OrdMap<Arc<str>, Uuid>,
    /// Names with `.` or `_`, by the name with every `.` as `_`: two such names would share their metrics.
    collisions: imbl::OrdMap<String, Arc<str>>,
    partition_count: usize,
    bytes: usize,
}

impl TopicsImage {
    /// The topic of a name.
    pub fn by_name(&self, name: &str) -> Option<&Arc<TopicImage>> {
        self.ids.get(name).and_then(|id| self.by_id.get(id))
    }

    /// The topic of an id.
    pub fn by_id(&self, id: Uuid) -> Option<&Arc<TopicImage>> {
        self.by_id.get(&id)
    }

    /// A partition.
    pub fn partition(&self, id: Uuid, partition_id: i32) -> Option<&Partition> {
        self.by_id.get(&id).and_then(|topic| topic.partition(partition_id))
    }

    /// All topics, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<TopicImage>> {
        self.ids.values().filter_map(|id| self.by_id.get(id))
    }

    /// All topics whose names are `from` or behind it, by name.
    pub fn iter_from(&self, from: &str) -> impl Iterator<Item = &Arc<TopicImage>> {
        let from: Arc<str> = from.into();
        self.ids.range(from..).filter_map(|(_, id)| self.by_id.get(id))
    }

    /// Number of topics.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Number of partitions of all topics.
    pub fn partition_count(&self) -> usize {
        self.partition_count
    }

    /// A topic whose name differs from `name` only in `.` and `_`.
    pub fn colliding_with(&self, name: &str) -> Option<&str> {
        if !has_collision_chars(name) {
            return None;
        }
        self.collisions.get(&unify_collision_chars(name)).map(Arc::as_ref)
    }

    pub(super) fn ids_map(&self) -> &imbl::OrdMap<Uuid, Arc<TopicImage>> {
        &self.by_id
    }

    pub(super) fn add_topic(&mut self, record: &TopicRecord) -> Result<(), String> {
        if let Some(topic) = self.by_id.get(&record.topic_id) {
            return Err(format!("the id {} is that of topic {}", record.topic_id, topic.name));
        }
        if self.ids.contains_key(record.name.as_str()) {
            return Err(format!("there is a topic {} already", record.name));
        }
        let name: Arc<str> = record.name.as_str().into();
        let topic = TopicImage {
            name: Arc::clone(&name),
            id: record.topic_id,
            partitions: Vec::new(),
            unknown_tags: record.unknown_tags.clone(),
        };
        self.bytes += topic.memory_bytes();
        if has_collision_chars(&name) {
            self.collisions.insert(unify_collision_chars(&name), Arc::clone(&name));
        }
        self.ids.insert(name, record.topic_id);
        self.by_id.insert(record.topic_id, Arc::new(topic));
        Ok(())
    }

    pub(super) fn add_partition(&mut self, record: &PartitionRecord) -> Result<(), String> {
        let topic = self.topic_mut(record.topic_id)?;
        if record.partition_id < 0 {
            return Err(format!("partition {} of topic {}", record.partition_id, topic.name));
        }
        let partition = Partition::from_record(record);
        let bytes = partition.memory_bytes();
        match topic.position(record.partition_id) {
            // Kafka takes a second PartitionRecord as the new state of the partition.
            Ok(index) => {
                let old = std::mem::replace(&mut topic.partitions[index], partition);
                self.bytes -= old.memory_bytes();
            }
            Err(index) => {
                if topic.partitions.len() < 2 {
                    // Most topics have few partitions: no spare room.
                    topic.partitions.reserve_exact(1);
                }
                topic.partitions.insert(index, partition);
                self.partition_count += 1;
            }
        }
        self.bytes += bytes;
        Ok(())
    }

    pub(super) fn change_partition(&mut self, record: &PartitionChangeRecord) -> Result<(), String> {
        let topic = self.topic_mut(record.topic_id)?;
        let position = topic.position(record.partition_id);
        let Some(partition) = position.ok().and_then(|index| topic.partitions.get_mut(index)) else {
            return Err(format!("topic {} has no partition {}", topic.name, record.partition_id));
        };
        let before = partition.memory_bytes();
        partition.change(record);
        let after = partition.memory_bytes();
        self.bytes = self.bytes - before + after;
        Ok(())
    }

    /// Removes a topic and gives its name.
    pub(super) fn remove_topic(&mut self, record: &RemoveTopicRecord) -> Result<Arc<str>, String> {
        let topic = self
            .by_id
            .remove(&record.topic_id)
            .ok_or_else(|| format!("there is no topic {}", record.topic_id))?;
        self.bytes -= topic.memory_bytes();
        self.partition_count -= topic.partitions.len();
        self.ids.remove(&topic.name);
        if has_collision_chars(&topic.name) {
            let unified = unify_collision_chars(&topic.name);
            if self.collisions.get(&unified) == Some(&topic.name) {
                self.collisions.remove(&unified);
            }
        }
        Ok(Arc::clone(&topic.name))
    }

    /// Forgets the eligible leader replicas of a topic, or of all for the empty name.
    pub(super) fn clear_elr(&mut self, name: &str) -> Result<(), String> {
        let ids: Vec<Uuid> = if name.is_empty() {
            self.by_id.keys().copied().collect()
        } else {
            vec![*self.ids.get(name).ok_or_else(|| format!("there is no topic {name}"))?]
        };
        for id in ids {
            let has_elr = |partition: &Partition| {
                !partition.eligible_leader_replicas.is_empty() || !partition.last_known_elr.is_empty()
            };
            if !self.by_id.get(&id).is_some_and(|topic| topic.partitions.iter().any(has_elr)) {
                continue;
            }
            let topic = self.topic_mut(id)?;
            let before = topic.memory_bytes();
            for partition in &mut topic.partitions {
                partition.eligible_leader_replicas = Box::default();
                partition.last_known_elr = Box::default();
            }
            let after = topic.memory_bytes();
            self.bytes = self.bytes - before + after;
        }
        Ok(())
    }

    fn topic_mut(&mut self, id: Uuid) -> Result<&mut TopicImage, String> {
        self.by_id.get_mut(&id).map(Arc::make_mut).ok_or_else(|| format!("there is no topic {id}"))
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes
    }

    /// The estimate counted anew, to hold the running one against.
    #[cfg(test)]
    pub(super) fn recount(&self) -> (usize, usize) {
        let partitions = self.by_id.values().map(|topic| topic.partitions.len()).sum();
        (self.by_id.values().map(|topic| topic.memory_bytes()).sum(), partitions)
    }
}

pub(crate) fn has_collision_chars(name: &str) -> bool {
    name.contains(['.', '_'])
}

pub(crate) fn unify_collision_chars(name: &str) -> String {
    name.replace('.', "_")
}
