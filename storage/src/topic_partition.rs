//! The name of a partition and the names that its directory can carry (`topic-0`, `topic-0.<uuid>-delete`, ...).
//!
//! Directory names come from the file system and are untrusted: what does not parse is not a partition.

use std::fmt;
use std::sync::Arc;

/// The longest file name that the usual file systems take, in bytes.
const MAX_FILE_NAME_BYTES: usize = 255;

/// A topic's name and a partition number. Cheap to clone: the name is shared.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicPartition {
    topic: Arc<str>,
    partition: i32,
}

impl TopicPartition {
    /// Names partition `partition` of `topic`.
    pub fn new(topic: impl Into<Arc<str>>, partition: i32) -> Self {
        Self { topic: topic.into(), partition }
    }

    /// The topic's name.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// The topic's name, shared.
    pub fn topic_shared(&self) -> &Arc<str> {
        &self.topic
    }

    /// The partition number, from 0.
    pub fn partition(&self) -> i32 {
        self.partition
    }

    /// The name of the partition's directory: `<topic>-<partition>`.
    pub fn dir_name(&self) -> String {
        format!("{}-{}", self.topic, self.partition)
    }

    /// The name of the directory while its files wait for their removal:
    /// `<topic>-<partition>.<unique>-delete`, the topic cut so that the name stays within 255 bytes.
    pub fn delete_dir_name(&self, unique: &[u8; 16]) -> String {
        self.suffixed(unique, DELETE_SUFFIX)
    }

    /// The name of a directory that no topic claims: `<topic>-<partition>.<unique>-stray`.
    pub fn stray_dir_name(&self, unique: &[u8; 16]) -> String {
        self.suffixed(unique, STRAY_SUFFIX)
    }

    fn suffixed(&self, unique: &[u8; 16], suffix: &str) -> String {
        let hex: String = unique.iter().map(|byte| format!("{byte:02x}")).collect();
        let tail = format!("-{}.{hex}{suffix}", self.partition);
        let room = MAX_FILE_NAME_BYTES.saturating_sub(tail.len());
        let mut end = room.min(self.topic.len());
        while !self.topic.is_char_boundary(end) {
            end -= 1;
        }
        format!("{}{tail}", self.topic.get(..end).unwrap_or_default())
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

impl fmt::Debug for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

pub(crate) const DELETE_SUFFIX: &str = "-delete";
pub(crate) const STRAY_SUFFIX: &str = "-stray";
pub(crate) const FUTURE_SUFFIX: &str = "-future";

/// What the name of a directory below a log directory says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DirName {
    /// A partition that is in use.
    Partition(TopicPartition),
    /// A partition whose files wait for their removal.
    Delete,
    /// A partition that no topic claimed.
    Stray,
    /// A replica that was on its way to this directory.
    Future,
    /// Not a partition.
    Other,
}

/// Reads a directory name. Input is untrusted; a topic must be a legal topic name.
pub fn parse_dir_name(name: &str) -> DirName {
    if let Some((head, tail)) = name.rsplit_once('.')
        && !head.is_empty()
    {
        for (suffix, kind) in [
            (DELETE_SUFFIX, DirName::Delete),
            (STRAY_SUFFIX, DirName::Stray),
            (FUTURE_SUFFIX, DirName::Future),
        ] {
            if tail.ends_with(suffix) && tail.len() > suffix.len() && parse_plain(head).is_some() {
                return kind;
            }
        }
    }
    parse_plain(name).map_or(DirName::Other, DirName::Partition)
}

fn parse_plain(name: &str) -> Option<TopicPartition> {
    let (topic, partition) = name.rsplit_once('-')?;
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if topic.is_empty() || topic.len() > 249 || topic == "." || topic == ".." || !topic.chars().all(legal) {
        return None;
    }
    if partition.is_empty() || !partition.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some(TopicPartition::new(topic, partition.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_names_are_read_as_kafka_writes_them() {
        let orders = TopicPartition::new("my-orders.v1", 12);
        assert_eq!(orders.dir_name(), "my-orders.v1-12");
        assert_eq!(parse_dir_name("my-orders.v1-12"), DirName::Partition(orders.clone()));
        assert_eq!(parse_dir_name(&orders.delete_dir_name(&[0xab; 16])), DirName::Delete);
        assert_eq!(parse_dir_name(&orders.stray_dir_name(&[1; 16])), DirName::Stray);
        assert_eq!(parse_dir_name("t-0.0123-future"), DirName::Future);
        for other in ["", "topic", "-1", "t-", "t--1", "t-x", "t-99999999999", "a b-0", "..-0", "é-0"] {
            let parsed = parse_dir_name(other);
            if other == "t--1" {
                assert_eq!(parsed, DirName::Partition(TopicPartition::new("t-", 1)));
            } else {
                assert_eq!(parsed, DirName::Other, "{other}");
            }
        }
    }

    #[test]
    fn a_delete_name_never_exceeds_what_a_file_system_takes() {
        let long = TopicPartition::new("x".repeat(249), 123_456);
        let name = long.delete_dir_name(&[7; 16]);
        assert_eq!(name.len(), 255);
        assert_eq!(parse_dir_name(&name), DirName::Delete);
    }
}
