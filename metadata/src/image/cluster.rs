//! Brokers and controllers as they registered.

use std::sync::Arc;

use weir_protocol::messages::{
    BrokerRegistrationChangeRecord, RegisterBrokerRecord, RegisterControllerRecord, UnregisterBrokerRecord,
};

use super::{Partition, memory};

/// Registrations by id.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ClusterImage {
    brokers: imbl::OrdMap<i32, Arc<RegisterBrokerRecord>>,
    controllers: imbl::OrdMap<i32, Arc<RegisterControllerRecord>>,
}

impl ClusterImage {
    /// Brokers by id: registration, epoch, endpoints, fencing.
    pub fn brokers(&self) -> &imbl::OrdMap<i32, Arc<RegisterBrokerRecord>> {
        &self.brokers
    }

    /// Controllers by id.
    pub fn controllers(&self) -> &imbl::OrdMap<i32, Arc<RegisterControllerRecord>> {
        &self.controllers
    }

    /// The registration of a broker.
    pub fn broker(&self, id: i32) -> Option<&RegisterBrokerRecord> {
        self.brokers.get(&id).map(Arc::as_ref)
    }

    /// Whether a broker may lead: registered, not fenced, not shutting down.
    pub fn is_active(&self, id: i32) -> bool {
        self.broker(id).is_some_and(|broker| !broker.fenced && !broker.in_controlled_shutdown)
    }

    /// Whether a broker has the directory in which it keeps `partition` (KIP-858). One whose directory is not known, or
    /// that named none, counts as having it.
    pub fn has_directory(&self, id: i32, partition: &Partition) -> bool {
        match (self.broker(id), partition.directory_of(id)) {
            (Some(broker), Some(directory)) => {
                broker.log_dirs.is_empty() || broker.log_dirs.contains(&directory)
            }
            _ => true,
        }
    }

    /// Whether a broker may lead `partition` as far as it is concerned: it is active and has the directory.
    pub fn serves(&self, id: i32, partition: &Partition) -> bool {
        self.is_active(id) && self.has_directory(id, partition)
    }

    pub(super) fn register_broker(&mut self, record: &RegisterBrokerRecord) {
        let mut record = record.clone();
        // Kafka writes them in any order.
        record.features.sort_by(|a, b| a.name.cmp(&b.name));
        self.brokers.insert(record.broker_id, Arc::new(record));
    }

    pub(super) fn unregister_broker(&mut self, record: &UnregisterBrokerRecord) -> Result<(), String> {
        self.checked(record.broker_id, record.broker_epoch)?;
        self.brokers.remove(&record.broker_id);
        Ok(())
    }

    pub(super) fn set_fenced(&mut self, id: i32, epoch: i64, fenced: bool) -> Result<(), String> {
        self.checked(id, epoch)?.fenced = fenced;
        Ok(())
    }

    pub(super) fn change_registration(
        &mut self,
        record: &BrokerRegistrationChangeRecord,
    ) -> Result<(), String> {
        let broker = self.checked(record.broker_id, record.broker_epoch)?;
        match record.fenced {
            0 => {}
            1 => broker.fenced = true,
            -1 => broker.fenced = false,
            other => return Err(format!("fencing change {other}, known are -1, 0 and 1")),
        }
        match record.in_controlled_shutdown {
            0 => {}
            1 => broker.in_controlled_shutdown = true,
            other => return Err(format!("controlled shutdown change {other}, known are 0 and 1")),
        }
        if !record.log_dirs.is_empty() {
            broker.log_dirs.clone_from(&record.log_dirs);
        }
        if record.cordoned_log_dirs.is_some() {
            broker.cordoned_log_dirs.clone_from(&record.cordoned_log_dirs);
        }
        Ok(())
    }

    pub(super) fn register_controller(&mut self, record: &RegisterControllerRecord) {
        let mut record = record.clone();
        record.features.sort_by(|a, b| a.name.cmp(&b.name));
        self.controllers.insert(record.controller_id, Arc::new(record));
    }

    pub(super) fn unregister_controller(&mut self, id: i32) {
        self.controllers.remove(&id);
    }

    fn checked(&mut self, id: i32, epoch: i64) -> Result<&mut RegisterBrokerRecord, String> {
        let broker = self.brokers.get_mut(&id).ok_or_else(|| format!("broker {id} is not registered"))?;
        if broker.broker_epoch != epoch {
            return Err(format!("broker {id} has epoch {}, the record has {epoch}", broker.broker_epoch));
        }
        Ok(Arc::make_mut(broker))
    }

    pub(super) fn memory_bytes(&self) -> usize {
        // A handful of entries with bounded texts: summed when asked.
        let entry = memory::map_entry(4, 8) + memory::heap(size_of::<RegisterBrokerRecord>());
        let lists = |endpoints: usize, features: usize, dirs: usize| {
            memory::heap(endpoints * 160) + memory::heap(features * 96) + memory::heap(dirs * 16)
        };
        let brokers: usize = self
            .brokers
            .values()
            .map(|broker| {
                entry + lists(broker.end_points.len(), broker.features.len(), broker.log_dirs.len())
            })
            .sum();
        let controllers: usize = self
            .controllers
            .values()
            .map(|controller| entry + lists(controller.end_points.len(), controller.features.len(), 0))
            .sum();
        brokers + controllers
    }
}
