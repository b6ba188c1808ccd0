//! A large batch that has arrived and that nobody has read: it goes from the socket into the log, and is checked there.
//!
//! Of its bytes only a window at a time comes into the process, behind the copy that the file system makes of them anyway.
//! It is in the log's file before it is known to be valid, but no part of the log until then, and cut off if it is not.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use tokio::net::TcpStream;
use weir_protocol::records::{BatchError, BatchHeader, BatchSummary, BatchValidator, Crc32c, Scratch};
use weir_storage::{UnreadBody, UnreadBodyError};

use crate::net::splice::{Pipe, SpliceError};

/// The body of such a batch, once.
pub(crate) struct UnreadBatch<'a, S> {
    /// Its beginning, which the receiver has read with the header.
    pub(crate) buffered: &'a [u8],
    /// Where the rest is.
    pub(crate) socket: &'a TcpStream,
    /// Bytes of the body.
    pub(crate) body_bytes: usize,
    /// For reading it back.
    pub(crate) window: &'a mut [u8],
    /// Both are used up by the write.
    pub(crate) tools: Option<(Pipe, BatchValidator)>,
    /// Sets in the header what the broker decides inside the CRC; whether it did.
    pub(crate) stamp: S,
    /// Bytes that are no longer in the socket.
    pub(crate) taken: usize,
    /// What came of it, once it was looked at.
    pub(crate) outcome: Option<Result<BatchSummary, Refusal>>,
}

/// Why the body was not appended.
pub(crate) enum Refusal {
    /// It is not valid.
    Invalid(BatchError),
    /// The socket failed.
    Socket(io::Error),
}

impl<S> UnreadBatch<'_, S> {
    /// Hands the body as it is in the file to `see`, a window at a time.
    fn read_back(&mut self, file: &File, position: u64, mut see: impl FnMut(&[u8])) -> io::Result<()> {
        let mut done = 0;
        while done < self.body_bytes {
            let length = self.window.len().min(self.body_bytes - done);
            let piece = &mut self.window[..length];
            file.read_exact_at(piece, position + done as u64)?;
            see(piece);
            done += length;
        }
        Ok(())
    }

    fn refused(&mut self, refusal: Refusal) -> UnreadBodyError {
        self.outcome = Some(Err(refusal));
        UnreadBodyError::Refused
    }
}

impl<S: FnMut(&mut BatchHeader, &BatchSummary) -> bool> UnreadBody for UnreadBatch<'_, S> {
    fn write_to(
        &mut self,
        file: &File,
        position: u64,
        header: &mut BatchHeader,
    ) -> Result<(), UnreadBodyError> {
        let Some((pipe, mut validator)) = self.tools.take() else {
            let again = io::Error::other("a body is written once");
            return Err(UnreadBodyError::File(again));
        };
        file.write_all_at(self.buffered, position).map_err(UnreadBodyError::File)?;
        let (at, count) = (position + self.buffered.len() as u64, self.body_bytes - self.buffered.len());
        match pipe.move_to_file(self.socket, file, at, count, self.window, &mut self.taken) {
            Ok(()) => {}
            Err(SpliceError::File(error)) => return Err(UnreadBodyError::File(error)),
            Err(SpliceError::Socket(error)) => return Err(self.refused(Refusal::Socket(error))),
        }
        self.read_back(file, position, |piece| validator.update(piece)).map_err(UnreadBodyError::File)?;
        let summary = match validator.finish(&[], &mut Scratch::new(0)) {
            Ok(summary) => summary,
            Err(error) => return Err(self.refused(Refusal::Invalid(error))),
        };
        if (self.stamp)(header, &summary) {
            let mut crc = Crc32c::new();
            crc.update(&header.crc_covered_bytes());
            self.read_back(file, position, |piece| crc.update(piece)).map_err(UnreadBodyError::File)?;
            header.crc = crc.value();
        }
        self.outcome = Some(Ok(summary));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{IoSlice, Write};

    use weir_protocol::records::{BatchBuilder, Codec, HEADER_SIZE_BYTES, ValidateOptions, crc_of};

    use super::*;
    use crate::net::receive::tests::wait_for_unread;

    /// A batch as a client sends it.
    fn batch() -> (BatchHeader, Vec<u8>) {
        let mut builder = BatchBuilder::new(Codec::None);
        for n in 0..300 {
            builder.append(1000 + n, None, Some(&[n as u8; 100]), &[]).unwrap();
        }
        let bytes = builder.build().unwrap();
        let (header, body) = bytes.split_first_chunk::<HEADER_SIZE_BYTES>().unwrap();
        (BatchHeader::parse(header).unwrap(), body.to_vec())
    }

    type Written =
        (BatchHeader, Vec<u8>, usize, Result<(), UnreadBodyError>, Option<Result<BatchSummary, Refusal>>);

    /// Has `body` written, `buffered` bytes of it from the buffer and the rest as far as it was sent from a socket.
    async fn write(claimed: &BatchHeader, body: &[u8], buffered: usize, sent: usize) -> Written {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut peer = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (socket, _) = listener.accept().await.unwrap();
        peer.write_all(&body[buffered..sent]).unwrap();
        peer.write_all(b"next").unwrap();
        wait_for_unread(&socket, (sent - buffered + 4) as u64);
        let file = tempfile::tempfile().unwrap();
        let validator = BatchValidator::new(claimed, &ValidateOptions::default()).unwrap();
        let mut unread = UnreadBatch {
            buffered: &body[..buffered],
            socket: &socket,
            body_bytes: body.len(),
            window: &mut [0; 999],
            tools: Some((Pipe::take().unwrap(), validator)),
            stamp: |header: &mut BatchHeader, summary: &BatchSummary| {
                if summary.max_timestamp_differs {
                    header.correct_max_timestamp(summary.max_timestamp);
                }
                summary.max_timestamp_differs
            },
            taken: 0,
            outcome: None,
        };
        let mut header = *claimed;
        let result = unread.write_to(&file, 7, &mut header);
        let (taken, outcome) = (unread.taken, unread.outcome);
        let mut written = vec![0; file.metadata().unwrap().len().saturating_sub(7) as usize];
        file.read_exact_at(&mut written, 7).unwrap();
        if result.is_ok() {
            let mut rest = [0; 5];
            assert_eq!(socket.try_read(&mut rest).unwrap(), 4, "{rest:?}");
            assert_eq!(&rest[..4], b"next", "what follows was touched");
        }
        (header, written, taken, result, outcome)
    }

    #[tokio::test]
    async fn what_is_in_the_buffer_and_what_is_in_the_socket_become_one_body_in_the_file() {
        let (header, body) = batch();
        for buffered in [0, 1, 963, body.len() - 1, body.len()] {
            let (after, written, taken, result, outcome) = write(&header, &body, buffered, body.len()).await;
            result.unwrap();
            assert!(written == body && taken == body.len() - buffered && after == header);
            assert!(matches!(outcome, Some(Ok(summary)) if summary.record_count == 300));
        }
    }

    #[tokio::test]
    async fn a_header_that_the_body_proves_wrong_is_set_right_with_its_crc() {
        let (right, body) = batch();
        let mut claimed = right;
        claimed.max_timestamp += 5;
        claimed.crc = crc_of(&claimed, &[IoSlice::new(&body)]);
        let (after, .., result, _) = write(&claimed, &body, 10, body.len()).await;
        result.unwrap();
        assert_eq!(after, right);
    }

    #[tokio::test]
    async fn a_body_that_is_not_valid_is_taken_and_refused() {
        let (header, mut body) = batch();
        let last = body.len() - 1;
        body[last] ^= 1;
        let (_, _, taken, result, outcome) = write(&header, &body, 10, body.len()).await;
        assert!(matches!(result, Err(UnreadBodyError::Refused)) && taken == body.len() - 10);
        assert!(matches!(outcome, Some(Err(Refusal::Invalid(BatchError::Crc { .. })))));
        // The pipe is used again, and is empty.
        let (header, body) = batch();
        assert!(write(&header, &body, 0, body.len()).await.3.is_ok());
    }

    #[tokio::test]
    async fn a_socket_that_has_less_than_it_said_is_no_fault_of_the_file() {
        let (header, body) = batch();
        let (_, _, taken, result, outcome) = write(&header, &body, 10, body.len() - 100).await;
        assert!(matches!(result, Err(UnreadBodyError::Refused)) && taken == body.len() - 110 + 4);
        assert!(matches!(outcome, Some(Err(Refusal::Socket(_)))));
    }
}
