//! Gives the records of a validated batch the offset deltas 0, 1, 2…, as their bytes stream by.
//!
//! Method: of each record the part up to its offset delta is gathered (at most [`HEAD_BYTES`]) and written anew; what
//! follows goes through as it is. Nothing else is kept.

use super::varint::{VarintError, read_i32, read_i64, size_of_i32, write_i32};
use super::{BatchError, Field, RecordFault};

/// Length, attributes, timestamp delta and offset delta in their longest form.
const HEAD_BYTES: usize = 5 + 1 + 10 + 5;

/// Where the stream stands.
#[derive(Debug, Default)]
pub(super) struct Renumber {
    next: i32,
    head: Vec<u8>,
    /// Bytes of the record behind its offset delta that are still to come.
    rest: u64,
}

/// What a gathered head says.
struct Head {
    length: i32,
    length_bytes: usize,
    offset_at: usize,
    bytes: usize,
}

fn parse(head: &[u8]) -> Result<Head, VarintError> {
    let mut at = 0;
    let length = read_i32(head, &mut at)?;
    let length_bytes = at;
    at += 1;
    read_i64(head, &mut at)?;
    let offset_at = at;
    read_i32(head, &mut at)?;
    Ok(Head { length, length_bytes, offset_at, bytes: at })
}

impl Renumber {
    /// Takes the next bytes of the records, in any split, and gives `out` what stands in their place.
    pub(super) fn feed<E: From<BatchError>>(
        &mut self,
        mut piece: &[u8],
        out: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some((first, after)) = piece.split_first() {
            if self.rest > 0 {
                let (through, after) = piece.split_at(piece.len().min(self.rest as usize));
                out(through)?;
                self.rest -= through.len() as u64;
                piece = after;
                continue;
            }
            self.head.push(*first);
            piece = after;
            match parse(&self.head) {
                Ok(head) => self.write_head(&head, out)?,
                Err(VarintError::Incomplete) if self.head.len() < HEAD_BYTES => {}
                Err(_) => return Err(self.fault().into()),
            }
        }
        Ok(())
    }

    fn write_head<E: From<BatchError>>(
        &mut self,
        head: &Head,
        out: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let old_bytes = (head.bytes - head.offset_at) as i32;
        let length =
            head.length.checked_sub(old_bytes).and_then(|n| n.checked_add(size_of_i32(self.next) as i32));
        let rest = i64::from(head.length) - (head.bytes - head.length_bytes) as i64;
        let (Some(length), Ok(rest)) = (length, u64::try_from(rest)) else { return Err(self.fault().into()) };
        let mut new = Vec::with_capacity(HEAD_BYTES);
        write_i32(&mut new, length);
        new.extend_from_slice(self.head.get(head.length_bytes..head.offset_at).unwrap_or_default());
        write_i32(&mut new, self.next);
        out(&new)?;
        self.rest = rest;
        self.next = self.next.saturating_add(1);
        self.head.clear();
        Ok(())
    }

    /// Whether the stream may end here.
    pub(super) fn is_between_records(&self) -> bool {
        self.rest == 0 && self.head.is_empty()
    }

    /// Validation lets no such record through.
    pub(super) fn fault(&self) -> BatchError {
        let fault = RecordFault::Varint { field: Field::Offset };
        BatchError::Record { index: u32::try_from(self.next).unwrap_or(0), fault }
    }
}
