//! The records of one command as they gather, with the limits that hold for it: count, bytes, partitions, memory.

use std::cell::RefCell;

use super::{ApiError, ControllerResult, LimitReached};
use crate::image::MetadataImage;
use crate::properties::{BrokerConfig, keys};
use crate::record_frame::{MetadataRecord, VersionedRecord};

/// Most records that one request may ask for, as in Kafka.
pub const MAX_RECORDS_PER_USER_OP: usize = 10_000;

/// Most bytes of records in one batch: below Kafka's 8 MiB by the frame around each of 10,000 records.
const MAX_BATCH_BYTES: usize = (8 << 20) - (64 << 10) - MAX_RECORDS_PER_USER_OP * 32;

/// Gathers the records of accepted items.
pub(super) struct Batch<'a> {
    config: &'a BrokerConfig,
    level: i16,
    working: MetadataImage,
    records: Vec<VersionedRecord>,
    bytes: usize,
    limits: RefCell<Vec<LimitReached>>,
}

impl<'a> Batch<'a> {
    pub(super) fn new(image: &MetadataImage, config: &'a BrokerConfig) -> Self {
        let level = image.features().metadata_version();
        Self {
            config,
            level,
            working: image.clone(),
            records: Vec::new(),
            bytes: 0,
            limits: RefCell::default(),
        }
    }

    /// The image with the records of the items accepted so far.
    pub(super) fn image(&self) -> &MetadataImage {
        &self.working
    }

    /// Refuses an item that needs `partitions` more partitions and a record for each, before they are made.
    pub(super) fn check_partitions(&self, partitions: usize) -> Result<(), ApiError> {
        let limit = usize::try_from(self.config.get(keys::MAX_PARTITIONS)).unwrap_or(0);
        let used = self.working.topics().partition_count();
        if partitions > limit.saturating_sub(used) {
            return Err(self.limit(keys::MAX_PARTITIONS.name, format!(
                "Unable to create {partitions} partition(s): this broker has {used} of at most max.partitions={limit}."
            )));
        }
        self.check_count(partitions)
    }

    fn check_count(&self, more: usize) -> Result<(), ApiError> {
        if self.records.len().saturating_add(more) > MAX_RECORDS_PER_USER_OP {
            return Err(ApiError::policy_violation(format!(
                "Unable to perform excessively large batch operation: more than {MAX_RECORDS_PER_USER_OP} records."
            )));
        }
        Ok(())
    }

    /// Takes all records of an item, or none of them with the limit that they break.
    pub(super) fn accept(&mut self, records: Vec<MetadataRecord>) -> Result<(), ApiError> {
        self.check_count(records.len())?;
        let mut image = self.working.clone();
        let mut bytes = self.bytes;
        let mut versioned = Vec::with_capacity(records.len());
        for record in records {
            let offset = image.last_offset().saturating_add(1);
            let record = record.at_level(self.level);
            let mut counter = weir_protocol::wire::Counter(0);
            record.encode(&mut counter).map_err(internal)?;
            bytes = bytes.saturating_add(counter.0);
            image.apply(&record.record, offset).map_err(internal)?;
            versioned.push(record);
        }
        if bytes > MAX_BATCH_BYTES {
            return Err(ApiError::policy_violation(format!(
                "Unable to perform excessively large batch operation: {bytes} bytes of records, at most {MAX_BATCH_BYTES}."
            )));
        }
        let limit = usize::try_from(self.config.get(keys::MAX_METADATA_BYTES)).unwrap_or(usize::MAX);
        let (before, after) = (self.working.memory_bytes(), image.memory_bytes());
        // What makes the metadata smaller is taken even above the limit.
        if after > limit && after > before {
            return Err(self.limit(
                keys::MAX_METADATA_BYTES.name,
                format!("Unable to hold {after} bytes of metadata: at most max.metadata.bytes={limit}."),
            ));
        }
        self.working = image;
        self.bytes = bytes;
        self.records.append(&mut versioned);
        Ok(())
    }

    /// A refusal by the limit that `property` sets.
    fn limit(&self, property: &'static str, message: String) -> ApiError {
        let mut limits = self.limits.borrow_mut();
        if !limits.iter().any(|reached| reached.property == property) {
            limits.push(LimitReached { property, message: message.clone() });
        }
        ApiError::policy_violation(message)
    }

    /// The result of the command: its records, unless it only asked whether it could be carried out.
    pub(super) fn finish<R>(self, reply: R, validate_only: bool) -> ControllerResult<R> {
        let records = if validate_only { Vec::new() } else { self.records };
        ControllerResult { limits: self.limits.into_inner(), ..ControllerResult::atomic(records, reply) }
    }
}

/// A record of ours that does not encode or apply: our bug, answered instead of ending the broker.
fn internal(error: crate::MetadataError) -> ApiError {
    ApiError::new(weir_protocol::messages::ErrorCode::UNKNOWN_SERVER_ERROR, error.to_string())
}
