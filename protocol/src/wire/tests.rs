//! What the primitive encodings accept, refuse and cost.

use super::*;

fn reader(bytes: &[u8]) -> Reader<'_> {
    Reader::new(bytes, 1 << 20)
}

#[test]
fn varints_come_back_at_every_length() {
    for shift in 0..64 {
        for value in [1u64 << shift, (1 << shift) - 1, (1u64 << shift).wrapping_neg()] {
            let mut bytes = Vec::new();
            put_uvarlong(&mut bytes, value);
            assert_eq!(reader(&bytes).uvarlong(), Ok(value));
            bytes.clear();
            put_varlong(&mut bytes, value as i64);
            assert_eq!(reader(&bytes).varlong(), Ok(value as i64));
            bytes.clear();
            put_uvarint(&mut bytes, value as u32);
            assert_eq!(bytes.len(), uvarint_len(value as u32));
            assert_eq!(reader(&bytes).uvarint(), Ok(value as u32));
            bytes.clear();
            put_varint(&mut bytes, value as i32);
            assert_eq!(reader(&bytes).varint(), Ok(value as i32));
        }
    }
}

#[test]
fn varints_that_are_too_long_or_too_wide_are_refused() {
    let bad5 = Err(DecodeError::BadVarint { at: 0, max_bytes: 5 });
    assert_eq!(reader(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x00]).uvarint(), bad5, "no end in five bytes");
    assert_eq!(reader(&[0xff, 0xff, 0xff, 0xff, 0x1f]).uvarint(), bad5, "33 bits");
    assert_eq!(reader(&[0xff, 0xff, 0xff, 0xff, 0x0f]).uvarint(), Ok(u32::MAX));
    assert_eq!(
        reader(&[0x81, 0x80, 0x00]).uvarint(),
        Ok(1),
        "padding within five bytes is Kafka's custom too"
    );
    let mut ten = [0xff; 10];
    assert_eq!(reader(&ten).uvarlong(), Err(DecodeError::BadVarint { at: 0, max_bytes: 10 }));
    ten[9] = 0x02;
    assert_eq!(reader(&ten).uvarlong(), Err(DecodeError::BadVarint { at: 0, max_bytes: 10 }));
    ten[9] = 0x01;
    assert_eq!(reader(&ten).uvarlong(), Ok(u64::MAX));
    assert!(matches!(reader(&[0x80]).uvarint(), Err(DecodeError::Truncated { .. })));
}

#[test]
fn lengths_are_checked_before_anything_is_built() {
    // Classic: -2 is no null; a length beyond the frame; one above Kafka's limit.
    assert_eq!(
        reader(&[0xff, 0xfe]).nullable_string(false, true),
        Err(DecodeError::BadLength { at: 0, length: -2 })
    );
    assert!(matches!(reader(&[0, 3, b'a']).string(false), Err(DecodeError::Truncated { needed: 3, .. })));
    assert_eq!(reader(&[0xff, 0xff]).string(false), Err(DecodeError::UnexpectedNull { at: 0 }));
    assert_eq!(reader(&[0xff, 0xff]).nullable_string(false, true), Ok(None));
    // Compact.
    assert_eq!(reader(&[0]).nullable_string(true, true), Ok(None));
    assert_eq!(reader(&[0]).nullable_string(true, false), Err(DecodeError::UnexpectedNull { at: 0 }));
    assert!(matches!(reader(&[0x81, 0x80, 0x02]).string(true), Err(DecodeError::StringTooLong { .. })));
    assert!(matches!(
        reader(&[0xff, 0xff, 0xff, 0xff, 0x0f]).nullable_bytes(true, true),
        Err(DecodeError::BadLength { length: 0xffff_fffe, .. })
    ));
    assert!(matches!(reader(&[0x7f, 0xff, 0xff, 0xff]).bytes(false), Err(DecodeError::Truncated { .. })));
}

#[test]
fn a_list_of_two_billion_in_twenty_bytes_costs_nothing() {
    let mut frame = vec![0x7f, 0xff, 0xff, 0xff];
    frame.extend([0; 16]);
    let mut r = Reader::new(&frame, 0);
    assert!(matches!(r.array(false, 0, 4, |r, _| r.i32()), Err(DecodeError::Truncated { .. })));
    assert_eq!(r.peak_charged(), 0);
}

#[test]
fn a_list_is_charged_as_it_grows_and_in_full_at_the_end() {
    let mut frame = Vec::new();
    put_array_len(&mut frame, true, Some(1000)).unwrap();
    frame.resize(frame.len() + 4000, 7);
    let mut r = Reader::new(&frame, 8192);
    assert_eq!(r.array(true, 0, 4, |r, _| r.i32()).map(|l| l.len()), Ok(1000));
    assert_eq!(r.charged(), 4000);
    assert!(r.peak_charged() <= 8192);
    r.finish().unwrap();
    let limit = r.peak_charged() - 1;
    let short = Reader::new(&frame, limit).array(true, 0, 4, |r, _| r.i32());
    assert_eq!(short, Err(DecodeError::OverBudget { needed: limit + 1, limit }));
    assert!(short.unwrap_err().is_retriable());
}

#[test]
fn text_that_is_not_utf8_is_replaced_and_charged_as_replaced() {
    let compact = [5, b'a', 0xff, 0xc3, b'b'];
    let mut r = Reader::new(&compact, 64);
    assert_eq!(r.string(true).as_deref(), Ok("a\u{fffd}\u{fffd}b"));
    assert_eq!(r.charged(), 8);
    // 20,000 bad bytes would become 60,000 good ones, more than a string may have.
    let mut long = Vec::new();
    put_i16(&mut long, 20_000);
    long.resize(20_002, 0xff);
    assert!(matches!(reader(&long).string(false), Err(DecodeError::StringTooLong { length: 60_000, .. })));
}

#[test]
fn tags_must_ascend_and_fill_their_size() {
    let known = |r: &mut Reader<'_>, tag: u32| if tag == 1 { r.i32().map(|_| true) } else { Ok(false) };
    let good = [2, 0, 1, 9, 1, 4, 0, 0, 0, 1];
    let mut r = reader(&good);
    let unknown = r.tags(&mut { known }).unwrap();
    assert_eq!(unknown.as_slice(), [RawTag { tag: 0, data: vec![9] }]);
    r.finish().unwrap();
    let twice = [2, 0, 0, 0, 0];
    assert_eq!(reader(&twice).unknown_tags(), Err(DecodeError::TagOrder { at: 3, tag: 0, previous: 0 }));
    let descending = [2, 5, 0, 4, 0];
    assert_eq!(reader(&descending).unknown_tags(), Err(DecodeError::TagOrder { at: 3, tag: 4, previous: 5 }));
    let too_large = [1, 1, 5, 0, 0, 0, 1, 0];
    assert_eq!(
        reader(&too_large).tags(&mut { known }),
        Err(DecodeError::TagSize { at: 3, tag: 1, declared: 5 })
    );
    let too_small = [1, 1, 3, 0, 0, 0, 1];
    assert_eq!(
        reader(&too_small).tags(&mut { known }),
        Err(DecodeError::TagSize { at: 3, tag: 1, declared: 3 })
    );
    let beyond = [1, 1, 100, 0];
    assert_eq!(
        reader(&beyond).tags(&mut { known }),
        Err(DecodeError::TagSize { at: 3, tag: 1, declared: 100 })
    );
    let many = [0xff, 0xff, 0xff, 0xff, 0x0f];
    assert!(matches!(reader(&many).unknown_tags(), Err(DecodeError::BadLength { .. })));
    assert!(matches!(reader(&[9, 0, 0]).unknown_tags(), Err(DecodeError::Truncated { .. })));
}

#[test]
fn unknown_tags_are_written_between_known_ones_in_order() {
    let unknown: UnknownTags =
        [RawTag { tag: 7, data: vec![1] }, RawTag { tag: 1, data: vec![] }].into_iter().collect();
    let write = |w: &mut dyn Sink| {
        put_i8(w, 5);
        Ok(())
    };
    let known = |tag, present| KnownTag { tag, present, write: &write };
    let mut bytes = Vec::new();
    put_tags(&mut bytes, &unknown, &[known(0, true), known(2, false), known(3, true)]).unwrap();
    assert_eq!(bytes, [4, 0, 1, 5, 1, 0, 3, 1, 5, 7, 1, 1]);
    let clash = put_tags(&mut bytes, &unknown, &[known(1, false)]);
    assert_eq!(clash, Err(EncodeError::TagConflict { tag: 1 }));
}

#[test]
fn trailing_bytes_and_overlong_strings_are_errors() {
    let mut r = reader(&[1, 2]);
    r.bool().unwrap();
    assert_eq!(r.finish(), Err(DecodeError::TrailingBytes { at: 1, count: 1 }));
    let long = "x".repeat(MAX_STRING_BYTES + 1);
    for flexible in [false, true] {
        let result = put_string(&mut Counter::default(), flexible, &long);
        assert_eq!(result, Err(EncodeError::TooLong { length: 32768, limit: 32767 }));
    }
}
