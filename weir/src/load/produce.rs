//! Produce requests that send one batch again and again from one copy in memory.

use tokio::io::AsyncWriteExt;
use weir_protocol::messages::k00_produce::ProduceResponse;
use weir_protocol::messages::{ApiKey, ErrorCode};
use weir_protocol::records::{BatchBuilder, Codec};
use weir_protocol::wire::{
    Counter, EncodeError, Sink, put_array_len, put_bytes_len, put_empty_tags, put_i16, put_i32,
    put_nullable_string, put_string,
};

use super::LoadError;
use super::client::Client;

/// The version that is sent: flexible, topics by name.
const VERSION: i16 = 9;
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
        let mut pending = client.head(ApiKey::Produce, VERSION, self.body_bytes()?)?;
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
        let answer = client.answer(ApiKey::Produce, VERSION, ProduceResponse::decode).await?;
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
