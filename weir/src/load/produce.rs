//! Produce requests that send one batch again and again from one copy in memory.

use tokio::io::AsyncWriteExt;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use weir_protocol::messages::k00_produce::ProduceResponse;
use weir_protocol::messages::{ApiKey, ErrorCode};
use weir_protocol::records::{BatchBuilder, Codec};
use weir_protocol::wire::{
    Counter, EncodeError, Sink, put_array_len, put_bytes_len, put_empty_tags, put_i16, put_i32,
    put_nullable_string, put_string,
};

use super::LoadError;
use super::client::{Client, Head, read_answer};

/// The version that is sent: flexible, topics by name.
const VERSION: i16 = 9;
/// An answer names one partition.
const MAX_ANSWER_BYTES: u32 = 64 * 1024;
/// Up to this size a batch is sent in one write with what stands before it.
const SMALL_BATCH_BYTES: usize = 16 * 1024;

/// The same batch for the partitions 0 to `partitions` - 1 of a topic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Produce<'a> {
    /// The topic.
    pub(crate) topic: &'a str,
    /// Number of partitions.
    pub(crate) partitions: i32,
    /// -1, 0 or 1.
    pub(crate) acks: i16,
    /// A whole batch with its header.
    pub(crate) batch: &'a [u8],
}

impl Produce<'_> {
    fn put_start(&self, w: &mut dyn Sink) -> Result<(), EncodeError> {
        put_nullable_string(w, true, None)?;
        put_i16(w, self.acks);
        put_i32(w, 30_000);
        put_array_len(w, true, Some(1))?;
        put_string(w, true, self.topic)?;
        put_array_len(w, true, Some(self.partitions as usize))
    }

    fn put_partition(&self, w: &mut dyn Sink, index: i32) -> Result<(), EncodeError> {
        put_i32(w, index);
        put_bytes_len(w, true, Some(self.batch.len()))
    }

    /// What stands behind a batch of the partition `index`.
    fn put_end(&self, w: &mut dyn Sink, index: i32) {
        put_empty_tags(w);
        if index == self.partitions - 1 {
            // Of the topic and of the request.
            put_empty_tags(w);
            put_empty_tags(w);
        }
    }

    /// Bytes of the request's body.
    pub(crate) fn body_bytes(&self) -> Result<usize, LoadError> {
        let mut count = Counter::default();
        self.put_start(&mut count)?;
        for index in 0..self.partitions {
            self.put_partition(&mut count, index)?;
            count.0 += self.batch.len();
            self.put_end(&mut count, index);
        }
        Ok(count.0)
    }

    /// Sends the request and reads its answer; the first error in it is an error.
    pub(crate) async fn send(&self, client: &mut Client) -> Result<(), LoadError> {
        let mut pending = client.head.next(ApiKey::Produce, VERSION, self.body_bytes()?)?;
        self.put_start(&mut pending)?;
        for index in 0..self.partitions {
            self.put_partition(&mut pending, index)?;
            if self.batch.len() <= SMALL_BATCH_BYTES {
                pending.extend_from_slice(self.batch);
            } else {
                client.stream.write_all(&pending).await?;
                client.stream.write_all(self.batch).await?;
                pending.clear();
            }
            self.put_end(&mut pending, index);
        }
        client.stream.write_all(&pending).await?;
        first_error(client.answer(ApiKey::Produce, VERSION, ProduceResponse::decode).await?)
    }
}

/// The first error in an answer, if there is one.
fn first_error(answer: ProduceResponse) -> Result<(), LoadError> {
    for topic in answer.responses {
        for partition in topic.partition_responses {
            if partition.error_code != ErrorCode::NONE {
                return Err(LoadError::Answer {
                    api: ApiKey::Produce,
                    what: format!("{}-{}", topic.name, partition.index),
                    code: partition.error_code,
                    message: partition.error_message,
                });
            }
        }
    }
    Ok(())
}

/// One end of a connection on which several produce requests are under way: it sends.
pub(crate) struct ProduceWriter {
    stream: OwnedWriteHalf,
    head: Head,
}

/// The other end: it reads the answers, which come in the order of the requests.
pub(crate) struct AnswerReader {
    stream: OwnedReadHalf,
    correlation_id: i32,
}

/// Splits a connection whose requests are all answered.
pub(crate) fn pipeline(client: Client) -> (ProduceWriter, AnswerReader) {
    let (reader, writer) = client.stream.into_split();
    let correlation_id = client.head.correlation_id;
    (ProduceWriter { stream: writer, head: client.head }, AnswerReader { stream: reader, correlation_id })
}

/// Puts a connection together again on which nothing is under way.
pub(crate) fn unpipeline(writer: ProduceWriter, reader: AnswerReader) -> Result<Client, LoadError> {
    let stream = writer.stream.reunite(reader.stream).map_err(std::io::Error::other)?;
    Ok(Client::from_parts(stream, writer.head))
}

impl ProduceWriter {
    /// Sends one batch for one partition. With acks = 0 there is no answer.
    pub(crate) async fn send(
        &mut self,
        (topic, partition): (&str, i32),
        acks: i16,
        batch: &[u8],
    ) -> Result<(), LoadError> {
        let request = Produce { topic, partitions: 1, acks, batch };
        let mut count = Counter::default();
        request.put_start(&mut count)?;
        request.put_partition(&mut count, partition)?;
        request.put_end(&mut count, 0);
        let mut start = self.head.next(ApiKey::Produce, VERSION, count.0 + batch.len())?;
        request.put_start(&mut start)?;
        request.put_partition(&mut start, partition)?;
        let mut end = Vec::with_capacity(3);
        request.put_end(&mut end, 0);
        if batch.len() <= SMALL_BATCH_BYTES {
            start.extend_from_slice(batch);
            start.extend_from_slice(&end);
            self.stream.write_all(&start).await?;
        } else {
            self.stream.write_all(&start).await?;
            self.stream.write_all(batch).await?;
            self.stream.write_all(&end).await?;
        }
        Ok(())
    }
}

impl AnswerReader {
    /// Reads the next answer; the first error in it is an error.
    pub(crate) async fn next(&mut self) -> Result<(), LoadError> {
        self.correlation_id = self.correlation_id.wrapping_add(1);
        let (id, what) = (self.correlation_id, (ApiKey::Produce, VERSION));
        first_error(read_answer(&mut self.stream, id, what, MAX_ANSWER_BYTES, ProduceResponse::decode).await?)
    }
}

/// An uncompressed batch of nearly `bytes` bytes, never more, with records of 1 KiB.
pub(crate) fn batch_of(bytes: usize, now_ms: i64) -> Result<Vec<u8>, LoadError> {
    const VALUE: [u8; 1000] = [b'w'; 1000];
    /// The most that a record of such a value takes with its lengths.
    const RECORD_BYTES: usize = 1020;
    const HEADER_BYTES: usize = weir_protocol::records::HEADER_SIZE_BYTES;
    let mut builder = BatchBuilder::new(Codec::None);
    for _ in 0..bytes.saturating_sub(HEADER_BYTES) / RECORD_BYTES {
        builder.append(now_ms, None, Some(&VALUE), &[])?;
    }
    Ok(builder.build()?)
}
