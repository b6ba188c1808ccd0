//! The frame around a record of `__cluster_metadata` and `__remote_log_metadata`: uvarints of frame version, type
//! and version, then the record.

use super::{DecodeError, Reader, Sink, put_uvarint};

/// Reads a frame's three numbers and returns type and version of the record. Input is untrusted.
///
/// # Errors
/// Another frame version than `frame_version`; a type or version above 2^15-1.
pub fn read_record_frame(r: &mut Reader<'_>, frame_version: u32) -> Result<(i16, i16), DecodeError> {
    let found = r.uvarint()?;
    if found != frame_version {
        return Err(DecodeError::UnknownType { what: "record frame version", value: i64::from(found) });
    }
    let mut number = |what| {
        let value = r.uvarint()?;
        i16::try_from(value).map_err(|_| DecodeError::UnknownType { what, value: i64::from(value) })
    };
    Ok((number("record type")?, number("record version")?))
}

/// Writes a frame's three numbers. `key` and `version` are not negative.
pub fn put_record_frame(w: &mut dyn Sink, frame_version: u32, key: i16, version: i16) {
    put_uvarint(w, frame_version);
    put_uvarint(w, key.unsigned_abs().into());
    put_uvarint(w, version.unsigned_abs().into());
}
