//! Builds batches for records of our own: metadata log, `__consumer_offsets`, markers, tests, load.
//!
//! Deterministic: the same calls give the same bytes. Records are held uncompressed until [`BatchBuilder::build`].

use super::crc::Crc32c;
use super::deflate::Compressor;
use super::header::{
    BatchHeader, HEADER_SIZE_BYTES, LOG_OVERHEAD_BYTES, MAX_BATCH_LENGTH, NO_TIMESTAMP, TimestampType,
};
use super::varint::{size_of_i32, size_of_i64, write_i32, write_i64};
use super::{BatchError, Codec, Compression, ControlRecordType};

/// A batch in the making.
#[derive(Debug, Clone)]
pub struct BatchBuilder {
    header: BatchHeader,
    compression: Compression,
    append_time_ms: Option<i64>,
    records: Vec<u8>,
    next_offset_delta: i32,
}

impl BatchBuilder {
    /// An empty batch at offset 0, without leader epoch and producer.
    #[must_use]
    pub fn new(compression: impl Into<Compression>) -> Self {
        let compression = compression.into();
        let mut header = BatchHeader::default();
        header.set_compression(compression.codec);
        Self { header, compression, append_time_ms: None, records: Vec::new(), next_offset_delta: 0 }
    }

    /// Offset of the first record.
    #[must_use]
    pub fn base_offset(mut self, base_offset: i64) -> Self {
        self.header.base_offset = base_offset;
        self
    }

    /// Epoch of the leader that appends it.
    #[must_use]
    pub fn partition_leader_epoch(mut self, epoch: i32) -> Self {
        self.header.partition_leader_epoch = epoch;
        self
    }

    /// Idempotent producer: its id, epoch and the sequence of the first record.
    #[must_use]
    pub fn producer(mut self, producer_id: i64, producer_epoch: i16, base_sequence: i32) -> Self {
        self.header.producer_id = producer_id;
        self.header.producer_epoch = producer_epoch;
        self.header.base_sequence = base_sequence;
        self
    }

    /// Part of a transaction.
    #[must_use]
    pub fn transactional(mut self) -> Self {
        self.header.set_transactional(true);
        self
    }

    /// A control batch: all records must be control records.
    #[must_use]
    pub fn control(mut self) -> Self {
        self.header.set_control(true);
        self
    }

    /// Timestamp type LogAppendTime with this append time.
    #[must_use]
    pub fn log_append_time(mut self, now_ms: i64) -> Self {
        self.header.set_timestamp_type(TimestampType::LogAppendTime);
        self.append_time_ms = Some(now_ms);
        self
    }

    /// Records so far.
    #[must_use]
    pub fn record_count(&self) -> usize {
        self.header.record_count as usize
    }

    /// Size that the batch would have without compression, in bytes.
    #[must_use]
    pub fn uncompressed_size_bytes(&self) -> usize {
        HEADER_SIZE_BYTES + self.records.len()
    }

    /// Appends a record at the next offset.
    ///
    /// # Errors
    /// [`BatchError::BatchTooLarge`] if the batch would pass 2 GiB, with the builder unchanged.
    pub fn append(
        &mut self,
        timestamp_ms: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[(&[u8], Option<&[u8]>)],
    ) -> Result<&mut Self, BatchError> {
        self.append_at(self.next_offset_delta, timestamp_ms, key, value, headers)
    }

    /// Appends a record at `base_offset + offset_delta`, for batches with gaps as compaction leaves them.
    ///
    /// # Errors
    /// As [`Self::append`]; [`BatchError::OffsetDelta`] if the delta is below the next one.
    pub fn append_at(
        &mut self,
        offset_delta: i32,
        timestamp_ms: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[(&[u8], Option<&[u8]>)],
    ) -> Result<&mut Self, BatchError> {
        let index = self.header.record_count as u32;
        if offset_delta < self.next_offset_delta || offset_delta == i32::MAX {
            return Err(BatchError::OffsetDelta {
                index,
                found: offset_delta,
                expected: self.next_offset_delta,
            });
        }
        let base_timestamp = if index == 0 { timestamp_ms } else { self.header.base_timestamp };
        let timestamp_delta = timestamp_ms.wrapping_sub(base_timestamp);
        let size = 1
            + size_of_i64(timestamp_delta)
            + size_of_i32(offset_delta)
            + nullable_size(key)
            + nullable_size(value)
            + size_of_i32(headers.len() as i32)
            + headers
                .iter()
                .map(|(key, value)| nullable_size(Some(key)) + nullable_size(*value))
                .sum::<usize>();
        let limit = (MAX_BATCH_LENGTH as usize) + LOG_OVERHEAD_BYTES;
        if size.saturating_add(self.uncompressed_size_bytes() + 5) > limit {
            return Err(BatchError::BatchTooLarge { limit: limit as u64 });
        }
        let out = &mut self.records;
        out.reserve(size + 5);
        write_i32(out, size as i32);
        out.push(0);
        write_i64(out, timestamp_delta);
        write_i32(out, offset_delta);
        write_nullable(out, key);
        write_nullable(out, value);
        write_i32(out, headers.len() as i32);
        for (key, value) in headers {
            write_nullable(out, Some(key));
            write_nullable(out, *value);
        }
        self.header.base_timestamp = base_timestamp;
        self.header.max_timestamp =
            if index == 0 { timestamp_ms } else { self.header.max_timestamp.max(timestamp_ms) };
        self.header.record_count += 1;
        self.header.last_offset_delta = offset_delta;
        self.next_offset_delta = offset_delta + 1;
        Ok(self)
    }

    /// Appends a control record; the batch becomes a control batch.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub fn append_control(
        &mut self,
        timestamp_ms: i64,
        kind: ControlRecordType,
        value: &[u8],
    ) -> Result<&mut Self, BatchError> {
        self.header.set_control(true);
        self.append(timestamp_ms, Some(&kind.key()), Some(value), &[])
    }

    /// The whole batch, header and body, ready to be appended or sent. Without records it is an empty batch, which
    /// only a log may hold.
    ///
    /// # Errors
    /// [`BatchError::BatchTooLarge`] if compression makes it pass 2 GiB; [`BatchError::Compress`] without memory.
    pub fn build(&self) -> Result<Vec<u8>, BatchError> {
        let mut header = self.header;
        if let Some(append_time_ms) = self.append_time_ms {
            header.max_timestamp = append_time_ms;
        }
        if header.record_count == 0 {
            header.last_offset_delta = 0;
            header.base_timestamp = NO_TIMESTAMP;
        }
        let mut batch = vec![0; HEADER_SIZE_BYTES];
        if self.compression.codec == Codec::None || self.records.is_empty() {
            batch.reserve_exact(self.records.len());
            batch.extend_from_slice(&self.records);
        } else {
            let mut sink = |bytes: &[u8]| {
                batch.extend_from_slice(bytes);
                Ok::<_, BatchError>(())
            };
            let mut compressor = Compressor::new(self.compression)?;
            compressor.write(&self.records, &mut sink)?;
            compressor.finish(&mut sink)?;
        }
        header.batch_length = i32::try_from(batch.len() - LOG_OVERHEAD_BYTES)
            .ok()
            .filter(|length| *length <= MAX_BATCH_LENGTH)
            .ok_or(BatchError::BatchTooLarge { limit: MAX_BATCH_LENGTH as u64 })?;
        let mut crc = Crc32c::new();
        crc.update(&header.crc_covered_bytes());
        crc.update(batch.get(HEADER_SIZE_BYTES..).unwrap_or_default());
        header.crc = crc.value();
        if let Some(front) = batch.first_chunk_mut() {
            header.write(front);
        }
        Ok(batch)
    }
}

fn nullable_size(bytes: Option<&[u8]>) -> usize {
    bytes.map_or(1, |bytes| size_of_i32(bytes.len() as i32) + bytes.len())
}

fn write_nullable(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        None => write_i32(out, -1),
        Some(bytes) => {
            write_i32(out, bytes.len() as i32);
            out.extend_from_slice(bytes);
        }
    }
}
