//! Damaged, dishonest and oversize batches: each is a clear error of the right kind, and costs no more than allowed.

use zstd::zstd_safe::{CCtx, CParameter};

use super::*;

#[test]
fn any_flipped_bit_is_noticed() {
    for codec in Codec::ALL {
        let records = random_records(&mut Rng::seeded(21), 0);
        let batch = build(codec, &records[..records.len().min(20)]);
        for at in 0..batch.len().min(3000) {
            // Base offset and leader epoch lie outside of the CRC.
            if at < 8 || (12..16).contains(&at) {
                continue;
            }
            let mut damaged = batch.clone();
            damaged[at] ^= 1 << (at % 8);
            let (front, body) = damaged.split_first_chunk().unwrap();
            let verdict = BatchHeader::parse(front).and_then(|header| {
                validate(&header, &[IoSlice::new(body)], &log_options(), &mut Scratch::new(0))
            });
            assert!(verdict.is_err(), "{codec}, byte {at}");
        }
    }
}

#[test]
fn damage_outranks_what_the_damaged_bytes_say() {
    let mut batch = build(Codec::None, &random_records(&mut Rng::seeded(22), 0));
    batch[HEADER_SIZE_BYTES] = 1;
    let error = check(&batch, &ValidateOptions::default()).unwrap_err();
    assert!(matches!(error, BatchError::Crc { .. }));
    assert!(error.is_retriable());
    seal(&mut batch);
    let error = check(&batch, &ValidateOptions::default()).unwrap_err();
    assert_eq!(error.kind(), BatchErrorKind::InvalidRecord);
    assert!(!error.is_retriable());
}

#[test]
fn whole_and_bytewise_walks_say_the_same_of_any_bytes() {
    let mut rng = Rng::fresh();
    let body_of = |records: &[Owned]| build(Codec::None, records)[HEADER_SIZE_BYTES..].to_vec();
    let (mut errors, mut valid) = (0, 0);
    for _ in 0..3000 {
        let mut records = random_records(&mut rng, 0);
        records.truncate(4);
        for record in &mut records {
            if let Some(value) = &mut record.value {
                value.truncate(30);
            }
        }
        let mut body = body_of(&records);
        for _ in 0..rng.below(3) {
            let at = rng.below(body.len());
            match rng.below(3) {
                0 => body[at] ^= 1 << rng.below(8),
                1 => body[at] = [0, 1, 0x80, 0xff][rng.below(4)],
                _ => body.truncate(at.max(1)),
            }
        }
        let batch = around(Codec::None, records.len() as i32, &body);
        let (header, body) = parts(&batch);
        let options = ValidateOptions::default();
        let whole = validate(&header, &[IoSlice::new(body)], &options, &mut Scratch::new(0));
        let bytes: Vec<_> = body.chunks(1).map(IoSlice::new).collect();
        for slices in [bytes, split(&mut rng, body), split(&mut rng, body)] {
            let other = validate(&header, &slices, &options, &mut Scratch::new(0));
            match (&whole, &other) {
                (Err(BatchError::TrailingBytes { .. }), Err(BatchError::TrailingBytes { .. })) => {}
                _ => assert_eq!(whole, other, "{body:02x?}"),
            }
        }
        if whole.is_ok() { valid += 1 } else { errors += 1 }
    }
    assert!(errors > 500 && valid > 500, "{errors} errors, {valid} valid");
}

/// One record around these bytes: length, then attributes and what follows.
fn record(bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![(bytes.len() * 2) as u8];
    out.extend_from_slice(bytes);
    out
}

#[test]
fn malformed_records_are_named() {
    use Field::*;
    let cases: Vec<(Vec<u8>, RecordFault)> = vec![
        (vec![0x01], RecordFault::NegativeLength { field: Length, length: -1 }),
        (vec![0xff, 0xff, 0xff, 0xff, 0xff], RecordFault::Varint { field: Length }),
        (vec![0x80, 0x01, 0, 0], RecordFault::PastBatch { size_bytes: 64 }),
        (record(&[]), RecordFault::PastEnd { field: Attributes, needed: 1, left: 0 }),
        (record(&[0]), RecordFault::PastEnd { field: Timestamp, needed: 1, left: 0 }),
        (record(&[0, 0, 0]), RecordFault::PastEnd { field: KeyLength, needed: 1, left: 0 }),
        (record(&[0, 0, 0, 3, 1, 0]), RecordFault::NegativeLength { field: KeyLength, length: -2 }),
        (record(&[0, 0, 0, 1, 3, 0]), RecordFault::NegativeLength { field: ValueLength, length: -2 }),
        (record(&[0, 0, 0, 8, 1, 0]), RecordFault::PastEnd { field: Key, needed: 4, left: 2 }),
        (record(&[0, 0, 0, 1, 8, 0]), RecordFault::PastEnd { field: Value, needed: 4, left: 1 }),
        (record(&[0, 0, 0, 1, 1, 1]), RecordFault::NegativeLength { field: HeaderCount, length: -1 }),
        (record(&[0, 0, 0, 1, 1, 4]), RecordFault::PastEnd { field: HeaderCount, needed: 4, left: 0 }),
        (
            record(&[0, 0, 0, 1, 1, 2, 1, 1]),
            RecordFault::NegativeLength { field: HeaderKeyLength, length: -1 },
        ),
        (record(&[0, 0, 0, 1, 1, 2, 4, 1]), RecordFault::PastEnd { field: HeaderKey, needed: 2, left: 1 }),
        (record(&[0, 0, 0, 1, 1, 0, 0]), RecordFault::Leftover { left: 1 }),
        (
            record(&[0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0]),
            RecordFault::Varint { field: Timestamp },
        ),
    ];
    for (body, fault) in cases {
        let batch = around(Codec::None, 1, &body);
        let expected = BatchError::Record { index: 0, fault };
        assert_eq!(check(&batch, &ValidateOptions::default()), Err(expected.clone()), "{body:02x?}");
        let (header, body) = parts(&batch);
        let bytes: Vec<_> = body.chunks(1).map(IoSlice::new).collect();
        assert_eq!(validate(&header, &bytes, &log_options(), &mut Scratch::new(0)), Err(expected.clone()));
        assert_eq!(read_all(&header, &bytes), Err(expected));
    }
}

#[test]
fn counts_and_trailing_bytes_must_agree_with_the_header() {
    let records = record(&[0, 0, 0, 1, 1, 0]);
    for codec in Codec::ALL {
        let body = |bytes: &[u8]| {
            let batch = around(Codec::None, 1, bytes);
            let (header, body) = parts(&batch);
            let mut out = Vec::new();
            let mut sink = |bytes: &[u8]| {
                out.extend_from_slice(bytes);
                Ok::<_, BatchError>(())
            };
            let limits = InflateLimits::default();
            recompress(
                &header,
                &[IoSlice::new(body)],
                codec.into(),
                &limits,
                &mut Scratch::new(0),
                &mut sink,
            )
            .unwrap();
            out
        };
        let good = around(codec, 1, &body(&records));
        check(&good, &ValidateOptions::default()).unwrap();
        let fewer = around(codec, 2, &body(&records));
        let error = check(&fewer, &ValidateOptions::default()).unwrap_err();
        assert_eq!(error, BatchError::RecordCount { found: 1, expected: 2 });
        let longer = around(codec, 1, &body(&[&records[..], &[0, 0]].concat()));
        let error = check(&longer, &ValidateOptions::default()).unwrap_err();
        assert_eq!(error, BatchError::TrailingBytes { count: 2 }, "{codec}");
        if codec != Codec::None {
            let behind = around(codec, 1, &[&body(&records)[..], &[9; 7]].concat());
            let error = check(&behind, &ValidateOptions::default()).unwrap_err();
            assert!(matches!(error, BatchError::Decompress { .. }), "{codec}: {error}");
            let whole = body(&records);
            for cut in 0..whole.len() {
                let error = check(&around(codec, 1, &whole[..cut]), &ValidateOptions::default()).unwrap_err();
                assert_eq!(error.kind(), BatchErrorKind::InvalidRecord, "{codec} cut at {cut}");
            }
        }
    }
    let (header, body) = (parts(&around(Codec::None, 1, &records)).0, &records[1..]);
    let error = validate(&header, &[IoSlice::new(body)], &log_options(), &mut Scratch::new(0)).unwrap_err();
    assert_eq!(error, BatchError::BodyLength { found: 6, expected: 7 });
}

#[test]
fn a_client_may_not_send_what_only_a_broker_writes() {
    let good = BatchHeader { record_count: 1, last_offset_delta: 0, ..BatchHeader::default() };
    let body = record(&[0, 0, 0, 1, 1, 0]);
    let verdict = |header: BatchHeader| {
        let mut batch = header.to_bytes().to_vec();
        batch.extend_from_slice(&body);
        seal(&mut batch);
        check(&batch, &ValidateOptions::default()).map_err(|error| error.kind())
    };
    assert!(verdict(good).is_ok());
    let control = 0x20;
    let invalid = [
        BatchHeader { base_offset: 1, ..good },
        BatchHeader { base_offset: -1, ..good },
        BatchHeader { record_count: 0, ..good },
        BatchHeader { record_count: -1, ..good },
        BatchHeader { record_count: i32::MIN, ..good },
        BatchHeader { record_count: 2, ..good },
        BatchHeader { last_offset_delta: 1, ..good },
        BatchHeader { last_offset_delta: -1, ..good },
        BatchHeader { attributes: control, ..good },
        BatchHeader { attributes: 0x08, ..good },
        BatchHeader { attributes: 0x40, ..good },
        BatchHeader { attributes: 0x10, ..good },
        BatchHeader { producer_id: 5, producer_epoch: 0, base_sequence: -1, ..good },
        BatchHeader { producer_id: 5, producer_epoch: -1, base_sequence: 0, ..good },
    ];
    for header in invalid {
        assert_eq!(verdict(header), Err(BatchErrorKind::InvalidRecord), "{header:?}");
    }
    for id in 5..8 {
        assert_eq!(
            verdict(BatchHeader { attributes: id, ..good }),
            Err(BatchErrorKind::UnsupportedCompression)
        );
    }
    assert!(
        verdict(BatchHeader {
            producer_id: 5,
            producer_epoch: 0,
            base_sequence: i32::MAX,
            attributes: 0x10,
            ..good
        })
        .is_ok()
    );
}

#[test]
fn offset_deltas_of_a_client_are_consecutive() {
    for deltas in [[0_u8, 2 * 2], [2, 2 * 2], [0, 0], [0, 1]] {
        let body = [record(&[0, 0, deltas[0], 1, 1, 0]), record(&[0, 0, deltas[1], 1, 1, 0])].concat();
        let error = check(&around(Codec::None, 2, &body), &ValidateOptions::default()).unwrap_err();
        assert!(matches!(error, BatchError::OffsetDelta { .. }), "{deltas:?}");
    }
}

#[test]
fn odd_offset_deltas_of_a_compressed_batch_are_told_and_set_anew() {
    let mut rng = Rng::fresh();
    let long = [0x80 | 0x08, 0x80, 0x80, 0x01];
    let records = |deltas: &[&[u8]]| {
        let record_of = |delta: &&[u8]| record(&[&[0, 0], *delta, &[6, b'k', b'e', b'y', 1, 0]].concat());
        deltas.iter().map(record_of).collect::<Vec<_>>().concat()
    };
    for deltas in
        [&[&[0_u8][..], &[0], &[0]][..], &[&[4], &[2], &[0]], &[&long, &[1], &long], &[&[0], &[8], &[9]]]
    {
        let plain = around(Codec::None, deltas.len() as i32, &records(deltas));
        let (header, body) = parts(&plain);
        for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
            let limits = InflateLimits::default();
            let mut scratch = Scratch::new(0);
            let mut packed = Vec::new();
            let mut sink = |bytes: &[u8]| {
                packed.extend_from_slice(bytes);
                Ok::<_, BatchError>(())
            };
            let packed_header =
                recompress(&header, &[IoSlice::new(body)], codec.into(), &limits, &mut scratch, &mut sink)
                    .unwrap();
            let summary =
                validate(&packed_header, &[IoSlice::new(&packed)], &ValidateOptions::default(), &mut scratch)
                    .unwrap();
            assert!(summary.offset_deltas_differ, "{codec} {deltas:?}");
            assert_eq!(summary.offset_delta_of_max_timestamp, 0);
            let mut out = Vec::new();
            let mut sink = |bytes: &[u8]| {
                out.extend_from_slice(bytes);
                Ok::<_, BatchError>(())
            };
            let pieces = split(&mut rng, &packed);
            let rewrite = Rewrite { to: codec.into(), renumbers: true };
            let anew =
                recompress(&packed_header, &pieces, rewrite, &limits, &mut scratch, &mut sink).unwrap();
            let out = [IoSlice::new(&out)];
            let summary = validate(&anew, &out, &ValidateOptions::default(), &mut scratch).unwrap();
            assert!(!summary.offset_deltas_differ);
            let read = read_all(&anew, &out).unwrap();
            assert_eq!(read.iter().map(|record| record.offset).collect::<Vec<_>>(), [0, 1, 2]);
            assert!(read.iter().all(|record| record.key.as_deref() == Some(b"key")), "{read:?}");
        }
    }
}

#[test]
fn keyless_records_of_a_compacted_topic_are_listed_up_to_a_bound() {
    let mut builder = BatchBuilder::new(Codec::Lz4);
    for i in 0..100 {
        let key: Option<&[u8]> = (i % 2 == 0).then_some(b"key");
        builder.append(1, key, None, &[]).unwrap();
    }
    let options = ValidateOptions { key_required: true, ..ValidateOptions::default() };
    let error = check(&builder.build().unwrap(), &options).unwrap_err();
    assert_eq!(error.kind(), BatchErrorKind::InvalidRecord);
    let BatchError::RecordsRefused { errors, total } = error else { panic!("{error}") };
    assert_eq!((errors.len(), total), (MAX_RECORD_ERRORS, 50));
    assert_eq!(errors[1], RecordError { batch_index: 3, fault: RefusedBecause::MissingKey });
}

#[test]
fn timestamps_are_checked_against_the_topics_range() {
    let verdict = |timestamp: i64, options: &ValidateOptions| {
        let mut builder = BatchBuilder::new(Codec::None);
        builder.append(timestamp, None, None, &[]).unwrap();
        check(&builder.build().unwrap(), options).map_err(|error| error.kind())
    };
    let options = ValidateOptions {
        now_ms: 1_000_000,
        timestamp_before_max_ms: 1000,
        timestamp_after_max_ms: 500,
        ..ValidateOptions::default()
    };
    for good in [999_000, 1_000_000, 1_000_500, NO_TIMESTAMP] {
        assert!(verdict(good, &options).is_ok(), "{good}");
    }
    for bad in [998_999, 1_000_501, 0, -2, i64::MAX, i64::MIN] {
        assert_eq!(verdict(bad, &options), Err(BatchErrorKind::InvalidTimestamp), "{bad}");
    }
    let any = ValidateOptions { timestamp_type: TimestampType::LogAppendTime, ..options };
    assert!(verdict(0, &any).is_ok());
    let defaults = ValidateOptions { now_ms: 1_000_000, ..ValidateOptions::default() };
    for good in [i64::MAX, i64::MIN, 0, -2] {
        assert!(verdict(good, &defaults).is_ok(), "{good}");
    }
    // Base plus delta beyond an i64 is no timestamp at all.
    let mut batch = around(Codec::None, 1, &record(&[0, 4, 0, 1, 1, 0]));
    batch[27..35].copy_from_slice(&i64::MAX.to_be_bytes());
    seal(&mut batch);
    let error = check(&batch, &defaults).unwrap_err();
    assert_eq!(
        error,
        BatchError::Record { index: 0, fault: RecordFault::Overflow { field: Field::Timestamp } }
    );
}

#[test]
fn a_wrong_max_timestamp_is_reported_and_corrected() {
    let mut builder = BatchBuilder::new(Codec::None);
    builder.append(50, None, None, &[]).unwrap();
    builder.append(40, None, None, &[]).unwrap();
    let mut batch = builder.build().unwrap();
    batch[35..43].copy_from_slice(&7_i64.to_be_bytes());
    seal(&mut batch);
    let summary = check(&batch, &ValidateOptions::default()).unwrap();
    assert!(summary.max_timestamp_differs);
    assert_eq!((summary.max_timestamp, summary.offset_delta_of_max_timestamp), (50, 0));
    let (mut header, body) = parts(&batch);
    header.correct_max_timestamp(summary.max_timestamp);
    let summary = validate(&header, &[IoSlice::new(body)], &log_options(), &mut Scratch::new(0)).unwrap();
    assert!(!summary.max_timestamp_differs);
}

#[test]
fn bombs_are_cut_off_at_the_limit() {
    let mut builder = BatchBuilder::new(Codec::None);
    builder.append(1, None, Some(&vec![0; 20_000_000]), &[]).unwrap();
    let plain = builder.build().unwrap();
    let (header, body) = parts(&plain);
    let mut scratch = Scratch::new(0);
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let mut bomb = Vec::new();
        let mut sink = |bytes: &[u8]| {
            bomb.extend_from_slice(bytes);
            Ok::<_, BatchError>(())
        };
        let roomy = InflateLimits::default();
        let header =
            recompress(&header, &[IoSlice::new(body)], codec.into(), &roomy, &mut scratch, &mut sink)
                .unwrap();
        if codec == Codec::Zstd {
            assert!(bomb.len() < 2000, "{}", bomb.len());
        }
        let bomb: Vec<_> = bomb.chunks(100).map(IoSlice::new).collect();
        let options = ValidateOptions::default();
        assert_eq!(
            validate(&header, &bomb, &options, &mut scratch).unwrap().records_size_bytes,
            body.len() as u64
        );
        let tight = InflateLimits { max_inflated_bytes: 1 << 20, ..roomy };
        let options = ValidateOptions { limits: tight, ..options };
        let error = validate(&header, &bomb, &options, &mut scratch).unwrap_err();
        assert_eq!(error, BatchError::InflatedTooLarge { limit: 1 << 20 });
        assert_eq!(error.kind(), BatchErrorKind::TooLarge);
        // A reader refuses the record by its length, before it holds a byte of it.
        let mut cursor = RecordCursor::new(&header, &bomb, 1 << 20, &roomy, &mut scratch).unwrap();
        let error = cursor.next_record().unwrap_err();
        assert!(matches!(error, BatchError::RecordTooLarge { index: 0, limit: 1_048_576, .. }), "{error}");
        assert_eq!(cursor.next_record(), Ok(None));
    }
}

#[test]
fn a_zstd_window_above_the_limit_is_refused_before_it_is_allocated() {
    let frame = |window_log: u32| {
        let mut context = CCtx::create();
        context.set_parameter(CParameter::WindowLog(window_log)).unwrap();
        let mut out = vec![0; 1 << 12];
        let mut to = zstd::zstd_safe::OutBuffer::around(&mut out[..]);
        let record = record(&[0, 0, 0, 1, 1, 0]);
        let mut from = zstd::zstd_safe::InBuffer::around(&record);
        context.compress_stream(&mut to, &mut from).unwrap();
        context.end_stream(&mut to).unwrap();
        let length = to.pos();
        out.truncate(length);
        out
    };
    let batch = around(Codec::Zstd, 1, &frame(24));
    let (header, body) = parts(&batch);
    let expected =
        BatchError::DecompressMemory { codec: Codec::Zstd, what: "window", needed: 1 << 24, limit: 1 << 23 };
    assert_eq!(check(&batch, &ValidateOptions::default()), Err(expected.clone()));
    assert_eq!(
        working_memory_bytes(&header, &[IoSlice::new(body)], &InflateLimits::default()),
        Err(expected)
    );
    let wide = InflateLimits { max_zstd_window_log: 24, ..InflateLimits::default() };
    check(&batch, &ValidateOptions { limits: wide, ..ValidateOptions::default() }).unwrap();
    // A second frame must make do with what the first one was granted.
    let joined = around(Codec::Zstd, 1, &[frame(17), frame(22)].concat());
    let error = check(&joined, &ValidateOptions::default()).unwrap_err();
    assert!(matches!(error, BatchError::Decompress { codec: Codec::Zstd, .. }), "{error}");
    let joined = around(Codec::Zstd, 1, &[frame(17), frame(17)].concat());
    assert_eq!(check(&joined, &ValidateOptions::default()), Err(BatchError::TrailingBytes { count: 7 }));
}

#[test]
fn lz4_frames_that_kafka_cannot_read_are_refused() {
    use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
    use std::io::Write;
    let records = record(&[0, 0, 0, 1, 1, 0]);
    let frame = |info: FrameInfo| {
        let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
        encoder.write_all(&records).unwrap();
        encoder.finish().unwrap()
    };
    for size in [BlockSize::Max64KB, BlockSize::Max256KB, BlockSize::Max1MB, BlockSize::Max4MB] {
        for checksums in [false, true] {
            let info =
                FrameInfo::new().block_size(size).block_checksums(checksums).content_checksum(checksums);
            let good = frame(info.content_size(checksums.then_some(records.len() as u64)));
            check(&around(Codec::Lz4, 1, &good), &ValidateOptions::default()).unwrap();
            for at in 0..good.len() {
                let mut damaged = good.clone();
                damaged[at] ^= 0x10;
                assert!(
                    !checksums
                        || check(&around(Codec::Lz4, 1, &damaged), &ValidateOptions::default()).is_err()
                );
            }
        }
    }
    let linked = frame(FrameInfo::new().block_mode(BlockMode::Linked));
    let error = check(&around(Codec::Lz4, 1, &linked), &ValidateOptions::default()).unwrap_err();
    assert!(error.to_string().contains("depend on each other"), "{error}");
}
