//! Zigzag varints over slices, as records use them. Rejects what does not end within 5 (10) bytes and what carries
//! bits beyond its type; accepts padded encodings within that length, as Kafka does.

/// Why a varint could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VarintError {
    /// The slice ends inside the varint; more bytes may complete it.
    Incomplete,
    /// No more bytes could make it valid.
    Invalid,
}

/// Most bytes of a 32-bit varint.
pub(super) const MAX_VARINT_BYTES: usize = 5;
/// Most bytes of a 64-bit varint.
pub(super) const MAX_VARLONG_BYTES: usize = 10;

#[inline(always)]
pub(super) fn unzigzag32(raw: u32) -> i32 {
    (raw >> 1) as i32 ^ -((raw & 1) as i32)
}

#[inline(always)]
pub(super) fn unzigzag64(raw: u64) -> i64 {
    (raw >> 1) as i64 ^ -((raw & 1) as i64)
}

/// Reads an `i32` at `*at` and moves `*at` behind it.
#[inline(always)]
pub(super) fn read_i32(bytes: &[u8], at: &mut usize) -> Result<i32, VarintError> {
    match bytes.get(*at) {
        Some(&first) if first < 0x80 => {
            *at += 1;
            Ok(unzigzag32(u32::from(first)))
        }
        Some(&first) => match bytes.get(*at + 1) {
            Some(&second) if second < 0x80 => {
                *at += 2;
                Ok(unzigzag32(u32::from(first & 0x7f) | u32::from(second) << 7))
            }
            _ => read_i32_long(bytes, at),
        },
        None => Err(VarintError::Incomplete),
    }
}

#[inline(never)]
fn read_i32_long(bytes: &[u8], at: &mut usize) -> Result<i32, VarintError> {
    let mut raw = 0_u64;
    for (i, &byte) in bytes.get(*at..).unwrap_or_default().iter().take(MAX_VARINT_BYTES).enumerate() {
        raw |= u64::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            *at += i + 1;
            return u32::try_from(raw).map(unzigzag32).map_err(|_| VarintError::Invalid);
        }
    }
    Err(if bytes.len() - *at < MAX_VARINT_BYTES { VarintError::Incomplete } else { VarintError::Invalid })
}

/// Reads an `i64` at `*at` and moves `*at` behind it.
#[inline(always)]
pub(super) fn read_i64(bytes: &[u8], at: &mut usize) -> Result<i64, VarintError> {
    match bytes.get(*at) {
        Some(&first) if first < 0x80 => {
            *at += 1;
            Ok(unzigzag64(u64::from(first)))
        }
        Some(&first) => match bytes.get(*at + 1) {
            Some(&second) if second < 0x80 => {
                *at += 2;
                Ok(unzigzag64(u64::from(first & 0x7f) | u64::from(second) << 7))
            }
            _ => read_i64_long(bytes, at),
        },
        None => Err(VarintError::Incomplete),
    }
}

#[inline(never)]
fn read_i64_long(bytes: &[u8], at: &mut usize) -> Result<i64, VarintError> {
    let mut raw = 0_u64;
    for (i, &byte) in bytes.get(*at..).unwrap_or_default().iter().take(MAX_VARLONG_BYTES).enumerate() {
        if i == MAX_VARLONG_BYTES - 1 && byte > 1 {
            return Err(VarintError::Invalid);
        }
        raw |= u64::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            *at += i + 1;
            return Ok(unzigzag64(raw));
        }
    }
    Err(if bytes.len() - *at < MAX_VARLONG_BYTES { VarintError::Incomplete } else { VarintError::Invalid })
}

/// Appends an `i32`.
pub(super) fn write_i32(out: &mut Vec<u8>, value: i32) {
    write_u64(out, u64::from(((value << 1) ^ (value >> 31)) as u32));
}

/// Appends an `i64`.
pub(super) fn write_i64(out: &mut Vec<u8>, value: i64) {
    write_u64(out, ((value << 1) ^ (value >> 63)) as u64);
}

fn write_u64(out: &mut Vec<u8>, mut raw: u64) {
    while raw >= 0x80 {
        out.push(raw as u8 | 0x80);
        raw >>= 7;
    }
    out.push(raw as u8);
}

/// Encoded size of an `i32`, in bytes.
pub(super) fn size_of_i32(value: i32) -> usize {
    size_of_u64(u64::from(((value << 1) ^ (value >> 31)) as u32))
}

/// Encoded size of an `i64`, in bytes.
pub(super) fn size_of_i64(value: i64) -> usize {
    size_of_u64(((value << 1) ^ (value >> 63)) as u64)
}

fn size_of_u64(raw: u64) -> usize {
    (70 - (raw | 1).leading_zeros() as usize) / 7
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_width_round_trips_and_sizes_agree() {
        let mut values = vec![0_i64, -1, 1, i64::MAX, i64::MIN];
        for shift in 0..63 {
            for d in [-1, 0, 1] {
                values.push((1_i64 << shift).wrapping_add(d));
                values.push((1_i64 << shift).wrapping_neg().wrapping_add(d));
            }
        }
        for value in values {
            let mut out = Vec::new();
            write_i64(&mut out, value);
            assert_eq!(out.len(), size_of_i64(value), "{value}");
            let mut at = 0;
            assert_eq!(read_i64(&out, &mut at), Ok(value));
            assert_eq!(at, out.len());
            for cut in 0..out.len() {
                assert_eq!(read_i64(&out[..cut], &mut 0), Err(VarintError::Incomplete));
            }
            if let Ok(value) = i32::try_from(value) {
                let mut out = Vec::new();
                write_i32(&mut out, value);
                assert_eq!(out.len(), size_of_i32(value), "{value}");
                let mut at = 0;
                assert_eq!(read_i32(&out, &mut at), Ok(value));
                assert_eq!(at, out.len());
            }
        }
    }

    #[test]
    fn unterminated_and_overlong_are_invalid_but_padding_is_not() {
        assert_eq!(read_i32(&[0xff; 5], &mut 0), Err(VarintError::Invalid));
        assert_eq!(read_i32(&[0xff, 0xff, 0xff, 0xff, 0x10], &mut 0), Err(VarintError::Invalid));
        assert_eq!(read_i32(&[0xff, 0xff, 0xff, 0xff, 0x0f], &mut 0), Ok(i32::MIN));
        assert_eq!(read_i32(&[0x82, 0x80, 0x00], &mut 0), Ok(1));
        assert_eq!(read_i64(&[0xff; 10], &mut 0), Err(VarintError::Invalid));
        assert_eq!(
            read_i64(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02], &mut 0),
            Err(VarintError::Invalid)
        );
        assert_eq!(read_i64(&[0xff; 4], &mut 0), Err(VarintError::Incomplete));
        assert_eq!(read_i32(&[], &mut 0), Err(VarintError::Incomplete));
    }
}
