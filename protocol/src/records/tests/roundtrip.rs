//! What was built is read back the same, in every codec and however the body is split.

use super::*;

#[test]
fn every_codec_round_trips_over_any_split() {
    let mut rng = Rng::fresh();
    let mut scratch = Scratch::new(Scratch::USUAL_RETAIN_BYTES);
    for round in 0..60 {
        let codec = Codec::ALL[round % 5];
        let base_offset = rng.below(1 << 40) as i64;
        let records = random_records(&mut rng, base_offset);
        let batch = build(codec, &records);
        let (header, body) = parts(&batch);
        assert_eq!(header.size_bytes(), batch.len());
        assert_eq!(header.last_offset(), records.last().unwrap().offset);
        for _ in 0..2 {
            let body = split(&mut rng, body);
            assert_eq!(read_all(&header, &body).unwrap(), records, "{codec}");
            let summary = validate(&header, &body, &log_options(), &mut scratch).unwrap();
            let newest = records.iter().map(|record| record.timestamp).max().unwrap();
            let first_newest = records.iter().find(|record| record.timestamp == newest).unwrap();
            assert_eq!(summary.codec, codec);
            assert_eq!(summary.record_count as usize, records.len());
            assert_eq!(summary.max_timestamp, newest);
            assert_eq!(base_offset + i64::from(summary.offset_delta_of_max_timestamp), first_newest.offset);
            assert!(!summary.max_timestamp_differs);

            let target = records[rng.below(records.len())].timestamp + rng.below(3) as i64 - 1;
            let from = base_offset + rng.below(records.len()) as i64;
            let expected = records.iter().find(|record| record.timestamp >= target && record.offset >= from);
            let limits = InflateLimits::default();
            let found =
                find_offset_by_timestamp(&header, &body, target, from, &limits, &mut scratch).unwrap();
            assert_eq!(found.map(|found| found.offset), expected.map(|record| record.offset));
            assert_eq!(found.map(|found| found.timestamp), expected.map(|record| record.timestamp));
            let found =
                find_offset_of_max_timestamp(&header, &body, 0, &limits, &mut scratch).unwrap().unwrap();
            assert_eq!((found.offset, found.timestamp), (first_newest.offset, newest));
            assert!(scratch.held_bytes() <= Scratch::USUAL_RETAIN_BYTES);
        }
    }
}

#[test]
fn a_client_batch_validates_while_it_arrives() {
    let mut rng = Rng::fresh();
    for codec in Codec::ALL {
        let records = random_records(&mut rng, 0);
        let batch = build(codec, &records);
        let (header, body) = parts(&batch);
        let whole = check(&batch, &ValidateOptions::default()).unwrap();
        let body = split(&mut rng, body);
        let mut validator = BatchValidator::new(&header, &ValidateOptions::default()).unwrap();
        for slice in &body {
            validator.update(slice);
            assert!(!validator.has_failed());
        }
        assert_eq!(validator.finish(&body, &mut Scratch::new(0)).unwrap(), whole);
    }
}

#[test]
fn the_same_calls_build_the_same_bytes_in_every_codec() {
    let records = random_records(&mut Rng::seeded(7), 3);
    for codec in Codec::ALL {
        assert_eq!(build(codec, &records), build(codec, &records));
    }
}

#[test]
fn recompression_keeps_the_records_and_makes_a_valid_header() {
    let mut rng = Rng::fresh();
    let mut scratch = Scratch::new(0);
    for from in Codec::ALL {
        for to in Codec::ALL {
            let records = random_records(&mut rng, 1000);
            let batch = build(from, &records);
            let (header, body) = parts(&batch);
            let body = split(&mut rng, body);
            let mut out = Vec::new();
            let mut sink = |bytes: &[u8]| {
                out.extend_from_slice(bytes);
                Ok::<_, BatchError>(())
            };
            let limits = InflateLimits::default();
            let again = recompress(&header, &body, to.into(), &limits, &mut scratch, &mut sink).unwrap();
            assert_eq!(again.compression(), Ok(to));
            assert_eq!(again.body_size_bytes(), out.len());
            let body = [IoSlice::new(&out)];
            validate(&again, &body, &log_options(), &mut scratch).unwrap();
            assert_eq!(read_all(&again, &body).unwrap(), records, "{from} to {to}");
            // These give in pieces what they give at once.
            if matches!(to, Codec::None | Codec::Snappy | Codec::Lz4) {
                assert!(out == build(to, &records)[HEADER_SIZE_BYTES..], "{from} to {to}");
            }
        }
    }
}

#[test]
fn a_sink_that_refuses_ends_the_recompression_with_its_own_error() {
    #[derive(Debug, PartialEq)]
    enum Mine {
        Full,
        Batch,
    }
    impl From<BatchError> for Mine {
        fn from(_: BatchError) -> Self {
            Self::Batch
        }
    }
    let batch = build(Codec::None, &random_records(&mut Rng::seeded(3), 0));
    let (header, body) = parts(&batch);
    for codec in Codec::ALL {
        let result = recompress(
            &header,
            &[IoSlice::new(body)],
            codec.into(),
            &InflateLimits::default(),
            &mut Scratch::new(0),
            &mut |_| Err(Mine::Full),
        );
        assert_eq!(result, Err(Mine::Full));
    }
}

#[test]
fn headers_keep_their_order_and_repeated_keys() {
    let mut builder = BatchBuilder::new(Codec::None);
    let headers: &[(&[u8], Option<&[u8]>)] =
        &[(b"k", Some(b"1")), (b"k", Some(b"2")), (b"", None), (b"k", Some(b""))];
    builder.append(1, None, None, headers).unwrap();
    let batch = builder.build().unwrap();
    let (header, body) = parts(&batch);
    let body = [IoSlice::new(body)];
    let mut scratch = Scratch::new(0);
    let mut cursor =
        RecordCursor::new(&header, &body, 1000, &InflateLimits::default(), &mut scratch).unwrap();
    let view = cursor.next_record().unwrap().unwrap();
    assert_eq!(view.headers.len(), 4);
    let read: Vec<_> = view.headers.map(|header| (header.key, header.value)).collect();
    assert_eq!(read, headers);
}

#[test]
fn append_time_holds_for_every_record() {
    for codec in Codec::ALL {
        let mut builder = BatchBuilder::new(codec).base_offset(10).log_append_time(5000);
        append_all(&mut builder, &random_records(&mut Rng::seeded(4), 10));
        let batch = builder.build().unwrap();
        let (header, body) = parts(&batch);
        let body = [IoSlice::new(body)];
        let read = read_all(&header, &body).unwrap();
        assert!(read.iter().all(|record| record.timestamp == 5000));
        let (limits, mut scratch) = (InflateLimits::default(), Scratch::new(0));
        let found = find_offset_by_timestamp(&header, &body, 5000, 0, &limits, &mut scratch).unwrap();
        assert_eq!(found, Some(TimestampedOffset { offset: 10, timestamp: 5000 }));
        assert_eq!(find_offset_by_timestamp(&header, &body, 5001, 0, &limits, &mut scratch), Ok(None));
        let newest = find_offset_of_max_timestamp(&header, &body, 0, &limits, &mut scratch).unwrap();
        assert_eq!(
            newest.map(|found| found.offset),
            Some(10),
            "the first of equals, as Apache Kafka 4.4.0 answers"
        );
        assert_eq!(check(&batch, &log_options()).unwrap().max_timestamp, 5000);
    }
}

#[test]
fn a_stamped_client_batch_is_valid_in_the_log() {
    let batch = build(Codec::Lz4, &random_records(&mut Rng::seeded(5), 0));
    let (mut header, body) = parts(&batch);
    let body = [IoSlice::new(body)];
    validate(&header, &body, &ValidateOptions::default(), &mut Scratch::new(0)).unwrap();
    header.base_offset = 77;
    header.partition_leader_epoch = 5;
    header.stamp_log_append_time(1_800_000_000_000);
    let summary = validate(&header, &body, &log_options(), &mut Scratch::new(0)).unwrap();
    assert_eq!(summary.max_timestamp, 1_800_000_000_000);
}

#[test]
fn batches_with_gaps_and_empty_batches_are_valid_in_a_log_only() {
    let mut builder = BatchBuilder::new(Codec::Zstd).base_offset(100);
    builder.append_at(2, 1, Some(b"a"), None, &[]).unwrap();
    builder.append_at(7, 2, Some(b"b"), None, &[]).unwrap();
    assert!(matches!(
        builder.append_at(7, 2, None, None, &[]),
        Err(BatchError::OffsetDelta { expected: 8, .. })
    ));
    let batch = builder.build().unwrap();
    check(&batch, &log_options()).unwrap();
    let (header, body) = parts(&batch);
    let offsets: Vec<_> =
        read_all(&header, &[IoSlice::new(body)]).unwrap().iter().map(|record| record.offset).collect();
    assert_eq!(offsets, [102, 107]);
    assert!(check(&batch, &ValidateOptions::default()).is_err());

    let empty = BatchBuilder::new(Codec::Gzip).base_offset(100).producer(1, 0, 5).build().unwrap();
    assert_eq!(empty.len(), HEADER_SIZE_BYTES);
    assert_eq!(check(&empty, &log_options()).unwrap().record_count, 0);
    let (header, body) = parts(&empty);
    let body = [IoSlice::new(body)];
    assert_eq!(read_all(&header, &body).unwrap(), []);
    let (limits, mut scratch) = (InflateLimits::default(), Scratch::new(0));
    assert_eq!(working_memory_bytes(&header, &body, &limits), Ok(0));
    assert_eq!(find_offset_of_max_timestamp(&header, &body, 0, &limits, &mut scratch), Ok(None));
    let mut nothing = |bytes: &[u8]| panic!("{} bytes of body", bytes.len());
    let again =
        recompress::<BatchError>(&header, &body, Codec::Lz4.into(), &limits, &mut scratch, &mut nothing)
            .unwrap();
    assert_eq!(again.size_bytes(), HEADER_SIZE_BYTES);
    validate(&again, &[], &log_options(), &mut scratch).unwrap();
}

#[test]
fn control_batches_round_trip() {
    let mut builder = BatchBuilder::new(Codec::None).producer(9, 1, NO_SEQUENCE).transactional();
    let marker = EndTxnMarker { coordinator_epoch: 3 };
    builder.append_control(1, ControlRecordType::Commit, &marker.value()).unwrap();
    let batch = builder.build().unwrap();
    let (header, body) = parts(&batch);
    assert!(header.is_control() && header.is_transactional());
    let read = read_all(&header, &[IoSlice::new(body)]).unwrap();
    assert_eq!(ControlRecordType::parse_key(read[0].key.as_deref().unwrap()), Ok(ControlRecordType::Commit));
    assert_eq!(EndTxnMarker::parse(read[0].value.as_deref().unwrap()), Ok(marker));
    let coordinator = ValidateOptions { origin: Origin::Coordinator, ..ValidateOptions::default() };
    check(&batch, &coordinator).unwrap();
    assert_eq!(check(&batch, &ValidateOptions::default()).unwrap_err().kind(), BatchErrorKind::InvalidRecord);
}
