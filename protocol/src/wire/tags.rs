//! Tagged fields (KIP-482): the tail of every struct in a flexible version.

use super::sink::put_uvarint;
use super::{Counter, DecodeError, EncodeError, Reader, Sink};

/// Most tagged fields that one struct may have, as in Kafka 4.4.
const MAX_TAGS: usize = 10_000;

/// A tagged field that this version of ours does not know, kept as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawTag {
    /// The tag's number.
    pub tag: u32,
    /// Its value, not decoded.
    pub data: Vec<u8>,
}

/// The unknown tagged fields of one struct in ascending order of their tags; written back as they came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnknownTags(Option<Box<[RawTag]>>);

impl UnknownTags {
    /// None.
    pub const NONE: Self = Self(None);

    /// The tags, ascending.
    #[must_use]
    pub fn as_slice(&self) -> &[RawTag] {
        self.0.as_deref().unwrap_or_default()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Refuses to drop tags where a version cannot carry them.
    ///
    /// # Errors
    /// [`EncodeError::FieldNotInVersion`] if there are any.
    pub fn check_empty(&self, field: &'static str, version: i16) -> Result<(), EncodeError> {
        super::check_default(self.is_empty(), field, version)
    }
}

impl FromIterator<RawTag> for UnknownTags {
    /// Sorts by tag; of equal tags the last stays.
    fn from_iter<I: IntoIterator<Item = RawTag>>(tags: I) -> Self {
        let map: std::collections::BTreeMap<u32, Vec<u8>> =
            tags.into_iter().map(|t| (t.tag, t.data)).collect();
        if map.is_empty() {
            return Self(None);
        }
        Self(Some(map.into_iter().map(|(tag, data)| RawTag { tag, data }).collect()))
    }
}

impl<'a> Reader<'a> {
    /// Reads a tag section. `known` reads the value of a tag it knows and returns true, or returns false without
    /// reading; then the value is kept as raw bytes. Inside `known` the reader ends where the value ends.
    ///
    /// # Errors
    /// Tags that repeat or descend, a declared size beyond the frame or different from what `known` read.
    pub fn tags(
        &mut self,
        known: &mut dyn FnMut(&mut Reader<'a>, u32) -> Result<bool, DecodeError>,
    ) -> Result<UnknownTags, DecodeError> {
        let count = self.uvarint()? as usize;
        if count > MAX_TAGS {
            return Err(DecodeError::BadLength { at: self.position(), length: count as i64 });
        }
        // A tag takes two bytes at least: its number and its size.
        self.check_count(count, 2)?;
        let mut previous = None;
        let mut unknown: Vec<RawTag> = Vec::new();
        for done in 0..count {
            let at = self.position();
            let tag = self.uvarint()?;
            if let Some(previous) = previous.filter(|p| *p >= tag) {
                return Err(DecodeError::TagOrder { at, tag, previous });
            }
            previous = Some(tag);
            let size = self.uvarint()? as usize;
            let wrong_size = DecodeError::TagSize { at: self.position(), tag, declared: size };
            let Some(outer) = self.enter(size) else { return Err(wrong_size) };
            let is_known = known(self, tag).map_err(|error| match error {
                DecodeError::Truncated { .. } => wrong_size.clone(),
                error => error,
            })?;
            if is_known {
                if self.remaining() > 0 {
                    return Err(wrong_size);
                }
            } else {
                self.reserve_one(&mut unknown, count - done)?;
                let data = self.owned_bytes(size)?;
                unknown.push(RawTag { tag, data });
            }
            self.leave(outer);
        }
        if unknown.is_empty() {
            return Ok(UnknownTags(None));
        }
        self.shrink(&mut unknown);
        Ok(UnknownTags(Some(unknown.into_boxed_slice())))
    }

    /// Reads a tag section of a struct without known tags.
    ///
    /// # Errors
    /// As [`Reader::tags`].
    pub fn unknown_tags(&mut self) -> Result<UnknownTags, DecodeError> {
        self.tags(&mut |_, _| Ok(false))
    }
}

/// A tagged field that may be written.
pub struct KnownTag<'a> {
    /// Its number; a slice of these is ascending.
    pub tag: u32,
    /// Whether it is written: it is part of the version and does not have its default value.
    pub present: bool,
    /// Writes the value. Called twice: for its size, then for its bytes.
    pub write: &'a dyn Fn(&mut dyn Sink) -> Result<(), EncodeError>,
}

/// Writes an empty tag section (one zero byte).
pub fn put_empty_tags(w: &mut dyn Sink) {
    w.put(&[0]);
}

/// Writes a tag section: the present ones of `known` and all of `unknown`, in ascending order.
///
/// # Errors
/// What a value's writer returns, or [`EncodeError::TagConflict`].
pub fn put_tags(w: &mut dyn Sink, unknown: &UnknownTags, known: &[KnownTag<'_>]) -> Result<(), EncodeError> {
    let mut raw = unknown.as_slice();
    let count = raw.len() + known.iter().filter(|k| k.present).count();
    put_uvarint(w, count as u32);
    for field in known {
        let below = raw.iter().take_while(|r| r.tag < field.tag).count();
        raw = put_raw(w, raw, below);
        if let Some(first) = raw.first().filter(|r| r.tag == field.tag) {
            return Err(EncodeError::TagConflict { tag: first.tag });
        }
        if field.present {
            let mut size = Counter::default();
            (field.write)(&mut size)?;
            put_uvarint(w, field.tag);
            put_uvarint(w, size.0 as u32);
            (field.write)(w)?;
        }
    }
    put_raw(w, raw, raw.len());
    Ok(())
}

/// Writes the first `count` of `raw` and returns the rest.
fn put_raw<'r>(w: &mut dyn Sink, raw: &'r [RawTag], count: usize) -> &'r [RawTag] {
    let (now, later) = raw.split_at(count);
    for tag in now {
        put_uvarint(w, tag.tag);
        put_uvarint(w, tag.data.len() as u32);
        w.put(&tag.data);
    }
    later
}
