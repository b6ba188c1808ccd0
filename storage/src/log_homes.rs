//! Which log directory a partition lies in.
//!
//! Invariant: a log that lies in a directory which cannot be used now does not begin anew in another one.

use std::collections::HashSet;
use std::sync::Arc;

use weir_protocol::wire::Uuid;

use crate::checkpoint::REPLICATION_OFFSET_CHECKPOINT;
use crate::error::{IoContext, StorageError};
use crate::log::LogOptions;
use crate::log_dir::LogDir;
use crate::log_manager::{Claim, LogManager, LogTopics, StartSummary};
use crate::partition_metadata;
use crate::topic_partition::{DirName, TopicPartition, parse_dir_name};

impl LogManager {
    /// The directory with this `directory.id`, if it can be used.
    pub fn dir_with_id(&self, id: Uuid) -> Option<&Arc<LogDir>> {
        self.partition_dirs().find(|dir| dir.is_online() && dir.id() == Some(id))
    }

    /// Calls `found` with each partition's directory that is in `dir`.
    ///
    /// # Errors
    /// [`StorageError::Io`] when the directory cannot be listed.
    pub fn list(&self, dir: &LogDir, mut found: impl FnMut(TopicPartition)) -> Result<(), StorageError> {
        for (name, is_dir) in dir.disk().list(dir.path()).context("list", dir.path())? {
            if let DirName::Partition(partition) = parse_dir_name(&name)
                && is_dir
            {
                found(partition);
            }
        }
        Ok(())
    }

    /// Whether the directory of `name` in `dir` can be that of the topic with this id: its `partition.metadata` names no
    /// other.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    pub fn belongs_to(
        &self,
        dir: &LogDir,
        name: &TopicPartition,
        topic_id: Uuid,
    ) -> Result<bool, StorageError> {
        let path = dir.path().join(name.dir_name());
        Ok(partition_metadata::read(dir.disk(), &path)?.is_none_or(|found| found == topic_id))
    }

    /// True when the directory of `name` in `dir` is a copy: it belongs into another directory, and is there.
    pub(crate) fn is_copy(&self, dir: &LogDir, name: &TopicPartition, home: Option<Uuid>) -> bool {
        home.filter(|home| dir.id() != Some(*home))
            .and_then(|home| self.dir_with_id(home))
            .is_some_and(|home| home.path().join(name.dir_name()).is_dir())
    }

    /// Notes the partitions whose directory was removed behind our back: the checkpoint knows records of theirs, and not
    /// of a deleted predecessor, after which a crash came before the new one had a directory.
    pub(crate) fn note_gone(
        &self,
        topics: &dyn LogTopics,
        jobs: &[(Arc<LogDir>, LogOptions)],
        summary: &mut StartSummary,
    ) {
        let found: HashSet<&TopicPartition> =
            jobs.iter().map(|(_, options)| &options.topic_partition).collect();
        for dir in self.partition_dirs().filter(|dir| dir.is_online()) {
            for (name, high_watermark) in dir.read_checkpoint(REPLICATION_OFFSET_CHECKPOINT) {
                if high_watermark > 0
                    && !found.contains(&name)
                    && matches!(topics.claim(&name), Claim::Open { .. })
                    && !self.waits_for_removal(dir, &name)
                {
                    summary.gone.push((name, high_watermark));
                }
            }
        }
    }

    /// The directory for a new log: the one that it belongs into, the one that has a directory of its name already, left
    /// by an attempt that failed, or the one that holds the fewest.
    pub(crate) fn home_of(
        &self,
        name: &TopicPartition,
        home: Option<Uuid>,
    ) -> Result<Arc<LogDir>, StorageError> {
        // One that vanished a moment ago, before the periodic look: what is made in its place would be lost.
        self.partition_dirs().for_each(|dir| dir.look_for_it());
        if let Some(directory) = home {
            let offline = || StorageError::HomeOffline { topic_partition: name.clone(), directory };
            return self.dir_with_id(directory).cloned().ok_or_else(offline);
        }
        let dir_name = name.dir_name();
        let found = self.partition_dirs().find(|dir| dir.is_online() && dir.path().join(&dir_name).is_dir());
        found.map_or_else(|| self.emptiest_dir(), |dir| Ok(Arc::clone(dir)))
    }

    fn emptiest_dir(&self) -> Result<Arc<LogDir>, StorageError> {
        let online: Vec<&Arc<LogDir>> = self.partition_dirs().filter(|dir| dir.is_online()).collect();
        if let [only] = online.as_slice() {
            return Ok(Arc::clone(only));
        }
        let mut counts = vec![0usize; online.len()];
        for log in self.logs.read().values() {
            if let Some(index) = online.iter().position(|dir| Arc::ptr_eq(dir, log.log_dir()))
                && let Some(count) = counts.get_mut(index)
            {
                *count += 1;
            }
        }
        let emptiest = counts.iter().enumerate().min_by_key(|(_, count)| **count).map(|(index, _)| index);
        emptiest
            .and_then(|index| online.get(index))
            .map(|dir| Arc::clone(dir))
            .ok_or_else(|| StorageError::NoLogDir { reason: "all of log.dirs are offline".to_owned() })
    }
}
