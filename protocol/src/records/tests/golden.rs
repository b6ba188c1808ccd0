//! Batches that Kafka's own Java classes wrote (`tests/golden/records/Golden.java`, kafka-clients 4.1.0).

use super::*;

macro_rules! golden {
    ($name:literal) => {
        include_bytes!(concat!("../../../tests/golden/records/", $name, ".batch"))
    };
}

/// The records that `Golden.java` writes, from the same formula.
fn golden_records() -> Vec<Owned> {
    let record = |i: i64, timestamp: i64, key: Option<&str>, value: Option<&[u8]>| Owned {
        offset: 1000 + i,
        timestamp: 1_700_000_000_000 + timestamp,
        key: key.map(|key| key.as_bytes().to_vec()),
        value: value.map(<[u8]>::to_vec),
        headers: Vec::new(),
    };
    let mut records = vec![
        record(0, 0, Some("first"), Some(b"value-0")),
        record(1, -1, None, Some(b"no key")),
        record(2, 5, Some("tombstone"), None),
    ];
    records[0].headers = vec![
        (b"k".to_vec(), Some(b"1".to_vec())),
        (b"k".to_vec(), Some(b"2".to_vec())),
        (b"n".to_vec(), None),
        (Vec::new(), Some(Vec::new())),
    ];
    for i in 3..120_i64 {
        let value: Vec<u8> = (0..(i * 37) % 700)
            .map(|j| (i64::from(b'a') + (i + j) % 11 + if j % 13 == 0 { i % 5 } else { 0 }) as u8)
            .collect();
        records.push(record(i, i * 7, Some(&format!("key-{i}")), Some(&value)));
    }
    records
}

#[test]
fn kafkas_batches_of_every_codec_read_as_written() {
    let mut rng = Rng::fresh();
    let files: [(Codec, &[u8]); 5] = [
        (Codec::None, golden!("none")),
        (Codec::Gzip, golden!("gzip")),
        (Codec::Snappy, golden!("snappy")),
        (Codec::Lz4, golden!("lz4")),
        (Codec::Zstd, golden!("zstd")),
    ];
    for (codec, batch) in files {
        let (header, body) = parts(batch);
        assert_eq!(header.compression(), Ok(codec));
        assert_eq!((header.base_offset, header.partition_leader_epoch), (1000, 5));
        assert_eq!((header.producer_id, header.producer_epoch, header.base_sequence), (4711, 3, 17));
        assert_eq!(header.last_sequence(), 17 + 119);
        let body = split(&mut rng, body);
        let summary = validate(&header, &body, &log_options(), &mut Scratch::new(0)).unwrap();
        assert!(!summary.max_timestamp_differs);
        assert_eq!(read_all(&header, &body).unwrap(), golden_records(), "{codec}");
        // As a client would send it.
        let produced = BatchHeader { base_offset: 0, ..header };
        validate(&produced, &body, &ValidateOptions::default(), &mut Scratch::new(0)).unwrap();
    }
}

#[test]
fn the_builder_writes_kafkas_bytes() {
    let mut builder =
        BatchBuilder::new(Codec::None).base_offset(1000).partition_leader_epoch(5).producer(4711, 3, 17);
    append_all(&mut builder, &golden_records());
    assert_eq!(builder.build().unwrap(), golden!("none"));

    let mut builder = BatchBuilder::new(Codec::None).producer(99, 1, 0).transactional();
    builder.append(12, Some(b"k"), Some(b"v"), &[]).unwrap();
    assert_eq!(builder.build().unwrap(), golden!("transactional"));

    let mut builder = BatchBuilder::new(Codec::None)
        .base_offset(42)
        .partition_leader_epoch(7)
        .producer(99, 1, NO_SEQUENCE)
        .transactional();
    let marker = EndTxnMarker { coordinator_epoch: 13 };
    builder.append_control(1_700_000_000_000, ControlRecordType::Commit, &marker.value()).unwrap();
    assert_eq!(builder.build().unwrap(), golden!("commit"));

    let mut builder = BatchBuilder::new(Codec::None).base_offset(500).log_append_time(1_800_000_000_000);
    builder.append(1_700_000_000_000, Some(b"a"), Some(b"1"), &[]).unwrap();
    builder.append(1_700_000_000_001, Some(b"b"), Some(b"2"), &[]).unwrap();
    let (ours, body) =
        builder.build().map(|batch| (parts(&batch).0, batch[HEADER_SIZE_BYTES..].to_vec())).unwrap();
    let (theirs, their_body) = parts(golden!("append-time"));
    assert_eq!(body, their_body);
    assert_eq!(ours, theirs);
}

#[test]
fn kafkas_empty_batch_is_valid_in_a_log() {
    let batch = golden!("empty");
    let (header, _) = parts(batch);
    assert_eq!((header.base_offset, header.last_offset(), header.record_count), (70, 79, 0));
    let summary = check(batch, &log_options()).unwrap();
    assert_eq!(summary.max_timestamp, 1_700_000_000_000);
}
