//! Reads the fields of one frame as they arrive, never past its end: how produce requests are parsed, whose size the
//! budget does not limit. Input is untrusted.

use weir_budget::ChunkChain;

use super::receive::{ReceiveError, Receiver, SMALL_BYTES};

/// Longest string that a streamed request may carry, in bytes; Kafka's topic names end at 249.
const MAX_STRING_BYTES: usize = 512;

/// Why a streamed request cannot be read on; the connection ends.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameError {
    /// The socket ended or failed.
    #[error(transparent)]
    Receive(#[from] ReceiveError),
    /// The bytes are not a request of the announced version.
    #[error("malformed request: {what} {value} at {remaining} bytes before the end of the frame")]
    Malformed {
        /// Which field.
        what: &'static str,
        /// The value found.
        value: i64,
        /// Bytes of the frame after the field.
        remaining: usize,
    },
}

/// The rest of a frame that is still on its way.
#[derive(Debug)]
pub(crate) struct Frame<'a> {
    receiver: &'a mut Receiver,
    remaining: usize,
}

impl<'a> Frame<'a> {
    /// The next `remaining` bytes of `receiver` are one frame.
    pub(crate) fn new(receiver: &'a mut Receiver, remaining: usize) -> Self {
        Frame { receiver, remaining }
    }

    /// The receiver below, for what does not read.
    pub(crate) fn receiver(&mut self) -> &mut Receiver {
        self.receiver
    }

    fn malformed(&self, what: &'static str, value: i64) -> FrameError {
        FrameError::Malformed { what, value, remaining: self.remaining }
    }

    fn claim(&mut self, what: &'static str, count: usize) -> Result<(), FrameError> {
        match self.remaining.checked_sub(count) {
            Some(rest) => {
                self.remaining = rest;
                Ok(())
            }
            None => Err(self.malformed(what, count as i64)),
        }
    }

    async fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], FrameError> {
        self.claim(what, N)?;
        self.receiver.ensure(N).await?;
        let mut out = [0; N];
        out.copy_from_slice(&self.receiver.available()[..N]);
        self.receiver.consume(N);
        Ok(out)
    }

    /// A 16-bit integer.
    pub(crate) async fn i16(&mut self, what: &'static str) -> Result<i16, FrameError> {
        Ok(i16::from_be_bytes(self.array(what).await?))
    }

    /// A 32-bit integer.
    pub(crate) async fn i32(&mut self, what: &'static str) -> Result<i32, FrameError> {
        Ok(i32::from_be_bytes(self.array(what).await?))
    }

    /// The 16 bytes of a topic id.
    pub(crate) async fn uuid(&mut self, what: &'static str) -> Result<[u8; 16], FrameError> {
        self.array(what).await
    }

    async fn uvarint(&mut self, what: &'static str) -> Result<u32, FrameError> {
        let mut value = 0_u32;
        for shift in (0..35).step_by(7) {
            let [byte] = self.array(what).await?;
            if shift == 28 && byte > 0x0f {
                break;
            }
            value |= u32::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(self.malformed(what, i64::from(value)))
    }

    /// The length of an array or of bytes, `None` for null; never more than the frame has left.
    async fn length(
        &mut self,
        what: &'static str,
        flexible: bool,
        width: Width,
    ) -> Result<Option<usize>, FrameError> {
        let length = if flexible {
            i64::from(self.uvarint(what).await?) - 1
        } else {
            match width {
                Width::Short => i64::from(self.i16(what).await?),
                Width::Int => i64::from(self.i32(what).await?),
            }
        };
        match usize::try_from(length) {
            Ok(length) if length <= self.remaining => Ok(Some(length)),
            Err(_) if length == -1 => Ok(None),
            _ => Err(self.malformed(what, length)),
        }
    }

    /// Number of elements of an array; a null array reads as empty.
    pub(crate) async fn array_length(
        &mut self,
        what: &'static str,
        flexible: bool,
    ) -> Result<usize, FrameError> {
        Ok(self.length(what, flexible, Width::Int).await?.unwrap_or(0))
    }

    /// Number of bytes that follow, `None` for null.
    pub(crate) async fn bytes_length(
        &mut self,
        what: &'static str,
        flexible: bool,
    ) -> Result<Option<usize>, FrameError> {
        self.length(what, flexible, Width::Int).await
    }

    /// A string of at most [`MAX_STRING_BYTES`] bytes, `None` for null.
    pub(crate) async fn string(
        &mut self,
        what: &'static str,
        flexible: bool,
    ) -> Result<Option<String>, FrameError> {
        let Some(length) = self.length(what, flexible, Width::Short).await? else { return Ok(None) };
        if length > MAX_STRING_BYTES {
            return Err(self.malformed(what, length as i64));
        }
        self.claim(what, length)?;
        self.receiver.ensure(length).await?;
        let text = String::from_utf8_lossy(&self.receiver.available()[..length]).into_owned();
        self.receiver.consume(length);
        Ok(Some(text))
    }

    /// Reads past a string of any length without holding it; whether there is one.
    pub(crate) async fn skip_string(
        &mut self,
        what: &'static str,
        flexible: bool,
    ) -> Result<bool, FrameError> {
        let length = self.length(what, flexible, Width::Short).await?;
        self.skip(length.unwrap_or(0)).await?;
        Ok(length.is_some())
    }

    /// Reads past a section of tagged fields. No produce version has a tag that a broker needs.
    pub(crate) async fn skip_tags(&mut self, flexible: bool) -> Result<(), FrameError> {
        if !flexible {
            return Ok(());
        }
        let count = self.uvarint("number of tagged fields").await?;
        let mut previous = None;
        for _ in 0..count {
            let tag = self.uvarint("tag").await?;
            if previous.is_some_and(|previous| tag <= previous) {
                return Err(self.malformed("unordered tag", i64::from(tag)));
            }
            previous = Some(tag);
            let size = self.uvarint("size of tagged field").await? as usize;
            self.skip(size).await?;
        }
        Ok(())
    }

    /// Waits until `count` bytes (at most [`SMALL_BYTES`]) of the frame are there and shows them unread.
    pub(crate) async fn peek(&mut self, what: &'static str, count: usize) -> Result<&[u8], FrameError> {
        debug_assert!(count <= SMALL_BYTES);
        if count > self.remaining {
            return Err(self.malformed(what, count as i64));
        }
        self.receiver.ensure(count).await?;
        Ok(&self.receiver.available()[..count])
    }

    /// The next `count` bytes if they have all arrived already.
    pub(crate) fn arrived(&self, count: usize) -> Option<&[u8]> {
        self.receiver.available().get(..count).filter(|_| count <= self.remaining)
    }

    /// Whether the next `count` bytes, all of the frame, have arrived at least at the socket.
    pub(crate) fn has_arrived(&self, count: usize) -> bool {
        count <= self.remaining && self.receiver.has_arrived(count)
    }

    /// Counts what was taken: all that the receiver's buffer holds, and `behind` bytes of the socket behind it.
    pub(crate) fn take_unread(&mut self, behind: usize) {
        self.take_arrived(self.receiver.available().len());
        self.remaining -= behind;
    }

    /// Takes `count` bytes that [`Frame::arrived`] has shown.
    pub(crate) fn take_arrived(&mut self, count: usize) {
        self.remaining -= count;
        self.receiver.consume(count);
    }

    /// Fills `chain`, whose bytes must lie within the frame.
    pub(crate) async fn read_chain(
        &mut self,
        chain: &mut ChunkChain,
        on_bytes: impl FnMut(&ChunkChain),
    ) -> Result<(), FrameError> {
        self.claim("records", chain.missing())?;
        Ok(self.receiver.read_chain(chain, on_bytes).await?)
    }

    /// Reads past `count` bytes without holding them.
    pub(crate) async fn skip(&mut self, count: usize) -> Result<(), FrameError> {
        self.claim("bytes to skip", count)?;
        Ok(self.receiver.skip(count).await?)
    }

    /// Fails when bytes are left: the peer counts fields differently.
    pub(crate) fn finish(&self) -> Result<(), FrameError> {
        if self.remaining > 0 {
            return Err(self.malformed("trailing bytes", self.remaining as i64));
        }
        Ok(())
    }
}

#[derive(Clone, Copy)]
enum Width {
    Short,
    Int,
}
