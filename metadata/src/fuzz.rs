//! Entries for fuzzing: every decoder of bytes from outside, and replay. They must return for any input.

use crate::image::{MetadataDelta, MetadataImage, MetadataReplay};
use crate::properties::{BrokerConfig, PropertySet};
use crate::record_frame::VersionedRecord;

const BUDGET_BYTES: usize = 1 << 20;

/// A record's value: what decodes must encode to something that decodes to the same.
pub fn fuzz_metadata_record(data: &[u8]) {
    let Ok(record) = VersionedRecord::decode(data, BUDGET_BYTES) else { return };
    let bytes = record.to_bytes().expect("what decodes encodes");
    let again = VersionedRecord::decode(&bytes, BUDGET_BYTES).expect("what we encode decodes");
    assert_eq!(again.to_bytes().as_ref(), Ok(&bytes), "encoding is a fixed point");
}

/// A log: values, each behind two bytes of length, replayed as far as they fit. Then the image must survive its
/// own snapshot.
pub fn fuzz_metadata_replay(data: &[u8]) {
    let mut replay = MetadataReplay::default();
    let mut rest = data;
    let mut offset = 0;
    while let [high, low, tail @ ..] = rest {
        let length = usize::from(u16::from_be_bytes([*high, *low])).min(tail.len());
        let (value, tail) = tail.split_at(length);
        rest = tail;
        let Ok(record) = VersionedRecord::decode(value, BUDGET_BYTES) else { continue };
        // A record that does not fit is refused; one that fits moves the offset.
        if replay.apply(&record.record, offset).is_ok() {
            offset += 1;
        }
    }
    let image = replay.image();
    let records = image.snapshot_records().map(Ok);
    let again = MetadataImage::from_snapshot(records, image.provenance()).expect("a snapshot fits");
    // Levels that cannot carry a field lose it, and NaN is not equal to itself: compare what was written.
    let written = |image: &MetadataImage| -> Vec<Vec<u8>> {
        image.snapshot_records().filter_map(|record| record.to_bytes().ok()).collect()
    };
    assert_eq!(written(&again), written(image));
    let delta = MetadataDelta::between(image, &MetadataImage::empty());
    assert_eq!(delta.topics_deleted.len(), image.topics().len());
}

/// A properties file.
pub fn fuzz_properties(data: &[u8]) {
    if let Ok(set) = PropertySet::parse(data)
        && let Err(errors) = BrokerConfig::from_properties(&set)
    {
        assert!(!errors.to_string().is_empty());
    }
}
