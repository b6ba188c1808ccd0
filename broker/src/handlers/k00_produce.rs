//! Produce, streamed: the unit of admission is a batch, not a request.
//!
//! Method: the request is parsed as it arrives. Each partition's batch is resolved and checked against its topic's
//! limit before its body is read. If it lies whole in the read window, it is used in place. If it is large, uncompressed,
//! and has arrived, it goes from the socket into the log and is checked there. Else its size is leased, and it is read
//! into a chain of chunks while its CRC and records are checked. The log gets the client's own bytes; the memory is free
//! again before the next batch is looked at. Whatever cannot be appended is read past, and its partition alone gets the
//! error.
//!
//! The answers are encoded as they come about, under a lease that follows their bytes.
//!
//! Invariant: nothing is held while a lease is waited for, except at most one read window and the answers so far.

use std::io::IoSlice;
use std::sync::Arc;

use weir_budget::{Budget, BudgetError, ChunkChain, Holder, Lease};
use weir_metadata::properties::{CompressionType, TimestampType, keys};
use weir_protocol::messages::k00_produce::{BatchIndexAndErrorMessage, PartitionProduceResponse};
use weir_protocol::messages::{ApiKey, ErrorCode};
use weir_protocol::records::{
    BatchError, BatchErrorKind, BatchHeader, BatchSummary, BatchValidator, Codec, Compression,
    HEADER_SIZE_BYTES, InflateLimits, Origin, Rewrite, Scratch, TimestampType as RecordTimestampType,
    ValidateOptions, compressor_memory_bytes, crc_of, max_working_memory_bytes, recompress,
    working_memory_bytes,
};
use weir_protocol::wire::{
    EncodeError, Sink, Uuid, put_array_len, put_empty_tags, put_i32, put_string, put_uuid,
};
use weir_storage::{AppendInfo, AppendOrigin, StorageError};

use crate::broker::Broker;
use crate::connection::ConnectionError;
use crate::metrics::Traffic;
use crate::net::frame::Frame;
use crate::net::receive::ReceiveError;
use crate::net::registry::{ConnectionState, Holding};
use crate::net::splice::Pipe;
use crate::request::{Growing, Reply, ReplyHead};
use crate::topics::{Partition, Topic, TopicSettings};
use crate::unread_batch::{Refusal, UnreadBatch};

/// Produce requests are not throttled: they wait for memory instead.
const THROTTLE_TIME_MS: i32 = 0;
/// Memory of receiving a batch beside its bytes: the future and what it checks with, on the heap meanwhile.
const RECEIVING_BYTES: u64 = 3072;
/// First version whose clients may send zstd (KIP-110).
const FIRST_ZSTD: i16 = 7;
/// The property behind most batches that are too large.
const MAX_MESSAGE_BYTES: &str = "max.message.bytes";
/// From this size on a batch that has arrived goes from the socket to the log without being read: below, the system calls
/// cost what the copy does.
const UNREAD_BYTES: usize = 128 * 1024;
/// Bytes of the body shown to the codec to tell what inflating it will take.
const CODEC_PREFIX_BYTES: usize = 64;

/// Reads one produce request and appends its batches. `None`: the client wants no answer (acks=0).
pub(crate) async fn stream(
    broker: &Arc<Broker>,
    mut frame: Frame<'_>,
) -> Result<Option<Reply>, ConnectionError> {
    let connection = Arc::clone(&frame.receiver().state);
    let _key = frame.i16("api key").await?;
    let version = frame.i16("api version").await?;
    let correlation_id = frame.i32("correlation id").await?;
    // Not held: it may be long.
    frame.skip_string("client id", false).await?;
    let flexible = ApiKey::Produce.is_flexible(version);
    frame.skip_tags(flexible).await?;
    let transactional = frame.skip_string("transactional id", flexible).await?;
    let acks = frame.i16("acks").await?;
    let _timeout_ms = frame.i32("timeout").await?;

    let head = ReplyHead { api: ApiKey::Produce, version, correlation_id, connection: connection.id };
    let mut answers = Answers { replies: &broker.budgets.replies, version, bytes: None, first_error: None };
    let mut owes_progress = None;
    let topic_count = frame.array_length("number of topics", flexible).await?;
    if acks != 0 {
        answers.bytes = Some(Growing::new(head));
        answers.put(|w| put_array_len(w, flexible, Some(topic_count))).await?;
    }
    for _ in 0..topic_count {
        let topic = if version >= 13 {
            let id = Uuid(frame.uuid("topic id").await?);
            answers.write(|w| put_uuid(w, id)).await?;
            broker.topics.by_id(id).ok_or(ErrorCode::UNKNOWN_TOPIC_ID)
        } else {
            let name = frame.string("topic name", flexible).await?.unwrap_or_default();
            answers.put(|w| put_string(w, flexible, &name)).await?;
            broker.topics.by_name(&name).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
        };
        let partition_count = frame.array_length("number of partitions", flexible).await?;
        answers.put(|w| put_array_len(w, flexible, Some(partition_count))).await?;
        for _ in 0..partition_count {
            if answers.is_leased() && owes_progress.is_none() {
                owes_progress = Some(connection.holds(Holding::Answers));
            }
            let index = frame.i32("partition index").await?;
            let length = frame.bytes_length("records", flexible).await?;
            let target = Target { topic: &topic, index, version, acks, transactional };
            let answer = match length {
                None => Answer::error(ErrorCode::INVALID_RECORD, "the partition's records are null"),
                Some(length) => one_batch(broker, &mut frame, &target, length).await?,
            };
            frame.skip_tags(flexible).await?;
            note_too_large(broker, &connection, &answer);
            answers.push(index, answer).await?;
            connection.progressed_if_holding();
        }
        frame.skip_tags(flexible).await?;
        answers.end_of_fields(flexible).await?;
    }
    frame.skip_tags(flexible).await?;
    frame.finish()?;
    connection.active();

    answers.write(|w| put_i32(w, THROTTLE_TIME_MS)).await?;
    answers.end_of_fields(flexible).await?;
    match (answers.bytes, answers.first_error) {
        (Some(bytes), _) => Ok(Some(bytes.finish())),
        // Without an answer the only way to tell the client of an error is to end the connection, as Kafka does.
        (None, Some(error)) => Err(ConnectionError::Unacknowledged(error)),
        (None, None) => Ok(None),
    }
}

/// Says and counts that a limit refused a batch.
fn note_too_large(broker: &Broker, connection: &ConnectionState, answer: &Answer) {
    if let (ErrorCode::MESSAGE_TOO_LARGE, Some(message)) = (answer.error_code, &answer.message) {
        let (peer, id) = (connection.peer, connection.id);
        broker.limit_reached(answer.limit, &format_args!("refused of {peer}, connection {id}: {message}"));
    }
}

struct Target<'a> {
    topic: &'a Result<Arc<Topic>, ErrorCode>,
    index: i32,
    version: i16,
    acks: i16,
    /// The request carries a transactional id.
    transactional: bool,
}

impl Target<'_> {
    fn traffic(&self) -> Option<&Traffic> {
        self.topic.as_ref().ok().map(|topic| &*topic.traffic)
    }
}

/// Reads the `length` bytes of one partition and appends them; what is wrong with them goes into the answer.
async fn one_batch(
    broker: &Arc<Broker>,
    frame: &mut Frame<'_>,
    target: &Target<'_>,
    length: usize,
) -> Result<Answer, ConnectionError> {
    frame.receiver().note_batch(length);
    let admitted = admit(frame, target, length).await?;
    let (topic, partition, header) = match admitted {
        Ok(admitted) => admitted,
        Err(answer) => {
            frame.skip(length).await?;
            broker.metrics.failed_produce(target.traffic(), length);
            return Ok(answer);
        }
    };
    let log = Arc::clone(&partition);
    let work = Work::new(broker, &topic, partition, header);
    let arrived = work.is_in_place().then(|| frame.arrived(length)).flatten();
    if let Some(bytes) = arrived {
        let answer = work.append_arrived(&bytes[HEADER_SIZE_BYTES..]);
        frame.take_arrived(length);
        return Ok(answer.in_log(&log));
    }
    if length >= UNREAD_BYTES
        && work.is_in_place()
        && frame.has_arrived(length)
        && let Some((mut window, _lease)) = frame.receiver().spare_window()
        && let Ok(pipe) = Pipe::take()
    {
        let (left, answer) = work.append_unread(frame, &mut window, pipe)?;
        frame.skip(left).await?;
        return Ok(answer.in_log(&log));
    }
    let prefix_bytes = work.prefix_bytes().min(length);
    let shown = frame.peek("records", prefix_bytes).await?;
    let needs = work.needs(shown.get(HEADER_SIZE_BYTES..).unwrap_or_default());
    let refused = match needs {
        Ok(needs) => match lease(broker, frame, needs).await {
            // From here on what it takes lies under the lease.
            Ok(lease) => {
                let answer = Box::pin(receive_batch(frame, work, needs, lease)).await?;
                return Ok(answer.in_log(&log));
            }
            Err(error) => work.without_room(&error),
        },
        Err(error) => Answer::refused(&error),
    };
    frame.skip(length).await?;
    broker.metrics.failed_produce(target.traffic(), length);
    Ok(refused.in_log(&log))
}

/// Waits for the memory of a batch. No batch is held meanwhile.
async fn lease(broker: &Broker, frame: &mut Frame<'_>, needs: Needs) -> Result<Lease, BudgetError> {
    let state = &frame.receiver().state;
    let _not_the_peers_fault = state.waits_for_memory();
    broker.budgets.receive.lease(needs.bytes(), Holder::new("produce batch", state.id)).await
}

/// Receives a batch for which there is memory, and appends it.
async fn receive_batch(
    frame: &mut Frame<'_>,
    work: Work<'_>,
    needs: Needs,
    mut lease: Lease,
) -> Result<Answer, ConnectionError> {
    let work_lease = lease.split(lease.bytes() - needs.chain_bytes);
    let receive = lease.budget().limit();
    let _room = work.broker.pool.beside(needs.beside_chunks(), receive);
    let _owes_progress = frame.receiver().state.holds(Holding::Receive);
    frame.skip(HEADER_SIZE_BYTES).await?;
    let mut chain = ChunkChain::new(&work.broker.pool, lease, work.body_bytes());
    let options = work.options();
    let mut validator = match BatchValidator::new(&work.header, &options) {
        Ok(validator) => validator,
        Err(error) => {
            work.note_refused(&error);
            frame.skip(work.body_bytes()).await?;
            return Ok(Answer::refused(&error));
        }
    };
    let mut checked = 0;
    frame
        .read_chain(&mut chain, |chain| {
            for slice in chain.slices(checked) {
                validator.update(&slice);
            }
            checked = chain.len();
        })
        .await?;
    Ok(work.finish(validator, &options, &chain.slices(0), Some((work_lease, needs.recode_capacity))))
}

/// Memory of a batch that is received.
#[derive(Clone, Copy)]
struct Needs {
    chain_bytes: u64,
    inflate_bytes: u64,
    recode_bytes: u64,
    recode_capacity: usize,
}

impl Needs {
    fn bytes(&self) -> u64 {
        self.chain_bytes + self.inflate_bytes + self.recode_bytes + RECEIVING_BYTES
    }

    /// What of it is not in chunks.
    fn beside_chunks(&self) -> u64 {
        let recoded = if self.recode_bytes > 0 { ChunkChain::lease_bytes(self.recode_capacity) } else { 0 };
        (self.bytes() - self.chain_bytes).saturating_sub(recoded)
    }
}

/// What can be decided before the body is read.
async fn admit(
    frame: &mut Frame<'_>,
    target: &Target<'_>,
    length: usize,
) -> Result<Result<(Arc<Topic>, Arc<Partition>, BatchHeader), Answer>, ConnectionError> {
    let refuse = |code, message: String| Ok(Err(Answer::error(code, message)));
    let topic = match target.topic {
        Ok(topic) => topic,
        Err(code) => return Ok(Err(Answer::code(*code))),
    };
    let partition = match topic.served(target.index) {
        Ok(partition) => partition,
        Err(code) => return Ok(Err(Answer::code(code))),
    };
    if !matches!(target.acks, -1..=1) {
        return refuse(ErrorCode::INVALID_REQUIRED_ACKS, format!("acks is {}, not -1, 0 or 1", target.acks));
    }
    if topic.internal {
        return refuse(ErrorCode::INVALID_TOPIC_EXCEPTION, format!("topic {} is internal", topic.name));
    }
    if target.transactional {
        return refuse(ErrorCode::INVALID_REQUEST, "transactions are not served".to_string());
    }
    let limit = topic.settings.load().config.max_message_bytes;
    if length > limit.max(0) as usize {
        let text =
            format!("a batch of {length} bytes exceeds max.message.bytes = {limit} of topic {}", topic.name);
        return refuse(ErrorCode::MESSAGE_TOO_LARGE, text);
    }
    if length < HEADER_SIZE_BYTES {
        return refuse(
            ErrorCode::INVALID_RECORD,
            format!("{length} bytes are not one record batch of magic 2"),
        );
    }
    let mut bytes = [0; HEADER_SIZE_BYTES];
    bytes.copy_from_slice(frame.peek("record batch", HEADER_SIZE_BYTES).await?);
    let header = match BatchHeader::parse(&bytes) {
        Ok(header) => header,
        Err(error) => return Ok(Err(Answer::refused(&error))),
    };
    if header.size_bytes() != length {
        let text = format!(
            "exactly one batch per partition: it has {} bytes, the field {length}",
            header.size_bytes()
        );
        return refuse(ErrorCode::INVALID_RECORD, text);
    }
    if header.is_transactional() {
        // Without a transactional id nobody may write it.
        return refuse(
            ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "a transactional batch without a transactional id".to_string(),
        );
    }
    if target.version < FIRST_ZSTD && header.compression() == Ok(Codec::Zstd) {
        return refuse(
            ErrorCode::UNSUPPORTED_COMPRESSION_TYPE,
            format!("zstd needs version {FIRST_ZSTD} of Produce, not {}", target.version),
        );
    }
    Ok(Ok((Arc::clone(topic), partition, header)))
}

/// The codec to store in, where the topic does not keep the producer's.
fn recoding(wanted: CompressionType, codec: Codec) -> Option<Compression> {
    let (to, level) = match wanted {
        CompressionType::Producer => return None,
        CompressionType::Uncompressed => (Codec::None, None),
        CompressionType::Gzip(level) => (Codec::Gzip, Some(level)),
        CompressionType::Snappy => (Codec::Snappy, None),
        CompressionType::Lz4(level) => (Codec::Lz4, Some(level)),
        CompressionType::Zstd(level) => (Codec::Zstd, Some(level)),
    };
    (to != codec).then_some(Compression { codec: to, level })
}

/// A batch that was admitted.
struct Work<'a> {
    broker: &'a Arc<Broker>,
    partition: Arc<Partition>,
    settings: Arc<TopicSettings>,
    header: BatchHeader,
    now_ms: i64,
}

impl<'a> Work<'a> {
    fn new(broker: &'a Arc<Broker>, topic: &Topic, partition: Arc<Partition>, header: BatchHeader) -> Self {
        Work { broker, partition, settings: topic.settings.load_full(), header, now_ms: broker.now_ms() }
    }

    fn codec(&self) -> Codec {
        self.header.compression().unwrap_or(Codec::None)
    }

    fn recode(&self) -> Option<Compression> {
        recoding(self.settings.config.compression_type, self.codec())
    }

    fn body_bytes(&self) -> usize {
        self.header.body_size_bytes()
    }

    fn limits(&self) -> InflateLimits {
        InflateLimits {
            max_inflated_bytes: self.settings.config.max_decompressed_message_bytes.max(0) as u64,
            ..self.broker.inflate_limits
        }
    }

    fn options(&self) -> ValidateOptions {
        let config = &self.settings.config;
        ValidateOptions {
            origin: Origin::Client,
            key_required: config.compact,
            timestamp_type: match config.message_timestamp_type {
                TimestampType::CreateTime => RecordTimestampType::CreateTime,
                TimestampType::LogAppendTime => RecordTimestampType::LogAppendTime,
            },
            now_ms: self.now_ms,
            timestamp_before_max_ms: config.message_timestamp_before_max_ms,
            timestamp_after_max_ms: config.message_timestamp_after_max_ms,
            limits: self.limits(),
        }
    }

    /// Whether it can be used where it lies.
    fn is_in_place(&self) -> bool {
        self.codec() == Codec::None && self.recode().is_none()
    }

    /// Appends a batch whose body lies in the read window.
    fn append_arrived(&self, body: &[u8]) -> Answer {
        let options = self.options();
        let mut validator = match BatchValidator::new(&self.header, &options) {
            Ok(validator) => validator,
            Err(error) => {
                self.note_refused(&error);
                return Answer::refused(&error);
            }
        };
        validator.update(body);
        self.finish(validator, &options, &[IoSlice::new(body)], None)
    }

    /// Bytes of the batch that [`Work::needs`] must see.
    fn prefix_bytes(&self) -> usize {
        match self.codec() {
            // Snappy's need follows from all of its block headers, the others' from the first bytes.
            Codec::None | Codec::Snappy => HEADER_SIZE_BYTES,
            _ => HEADER_SIZE_BYTES + CODEC_PREFIX_BYTES,
        }
    }

    /// The memory of receiving it; `prefix` is the beginning of its body. An error where its header already tells that
    /// it cannot be taken.
    fn needs(&self, prefix: &[u8]) -> Result<Needs, BatchError> {
        BatchValidator::new(&self.header, &self.options())?;
        let (codec, limits, body_bytes) = (self.codec(), self.limits(), self.body_bytes());
        let inflate_bytes = match codec {
            Codec::None => 0,
            Codec::Snappy => max_working_memory_bytes(codec, body_bytes, &limits),
            _ => working_memory_bytes(&self.header, &[IoSlice::new(prefix)], &limits)
                .unwrap_or_else(|_| max_working_memory_bytes(codec, body_bytes, &limits)),
        };
        let recode = self.recode();
        let recode_capacity = recode.map_or(0, |_| self.settings.config.max_message_bytes.max(0) as usize);
        let recode_bytes = recode
            .map_or(0, |to| compressor_memory_bytes(to) as u64 + ChunkChain::lease_bytes(recode_capacity));
        Ok(Needs {
            chain_bytes: ChunkChain::lease_bytes(body_bytes),
            inflate_bytes: inflate_bytes as u64,
            recode_bytes,
            recode_capacity,
        })
    }

    /// The answer for a batch that no wait makes room for: what it takes, the room, and what would admit it.
    fn without_room(&self, error: &BudgetError) -> Answer {
        let BudgetError::NeverFits { bytes, limit, .. } = error else {
            return Answer::error(ErrorCode::MESSAGE_TOO_LARGE, error);
        };
        let message = format!(
            "a batch of {} bytes takes {bytes} bytes of memory in {} ({}), and memory.budget.bytes = {} has room for \
             {limit}; message.max.bytes = {bytes} at a start makes room for it, with a larger budget where it then does \
             not fit",
            self.header.size_bytes(),
            self.partition.topic,
            match self.recode() {
                Some(to) => format!(
                    "from {} to compression.type {} of up to max.message.bytes",
                    self.codec(),
                    to.codec
                ),
                None => format!("compressed with {}", self.codec()),
            },
            self.broker.config.load().memory_budget_bytes(),
        );
        Answer {
            limit: keys::MEMORY_BUDGET_BYTES.name,
            ..Answer::error(ErrorCode::MESSAGE_TOO_LARGE, message)
        }
    }

    fn note_refused(&self, error: &BatchError) {
        let metrics = &self.broker.metrics;
        metrics.failed_produce(Some(&self.partition.traffic), self.header.size_bytes());
        match error.kind() {
            BatchErrorKind::Corrupt => metrics.invalid_crc.inc(),
            BatchErrorKind::UnsupportedMagic => metrics.invalid_magic.inc(),
            _ => {}
        }
    }

    /// Ends the validation and appends. `work_lease` covers inflating and recoding, and the capacity of the latter.
    fn finish(
        &self,
        validator: BatchValidator,
        options: &ValidateOptions,
        body: &[IoSlice<'_>],
        work_lease: Option<(Lease, usize)>,
    ) -> Answer {
        let mut scratch = Scratch::new(0);
        let summary = match validator.finish(body, &mut scratch) {
            Ok(summary) => summary,
            Err(error) => {
                self.note_refused(&error);
                return Answer::refused(&error);
            }
        };
        match (self.recode(), work_lease) {
            (Some(to), Some((lease, capacity))) => {
                self.append_recoded(options, body, &summary, to, lease, capacity)
            }
            (None, Some((lease, _))) if summary.offset_deltas_differ => {
                self.append_renumbered(options, body, &summary, lease)
            }
            _ => self.append(self.stamped(options, &summary), body, &summary, true),
        }
    }

    /// Appends a batch whose body lies in the socket, as far as it is not in the receiver's buffer. With the answer
    /// returns how many bytes of the batch are still to be read past.
    fn append_unread(
        &self,
        frame: &mut Frame<'_>,
        window: &mut [u8],
        pipe: Pipe,
    ) -> Result<(usize, Answer), ConnectionError> {
        let (length, options) = (self.header.size_bytes(), self.options());
        let validator = match BatchValidator::new(&self.header, &options) {
            Ok(validator) => validator,
            Err(error) => {
                self.note_refused(&error);
                return Ok((length, Answer::refused(&error)));
            }
        };
        let receiver = frame.receiver();
        let mut body = UnreadBatch {
            buffered: &receiver.available()[HEADER_SIZE_BYTES..],
            socket: &receiver.stream,
            body_bytes: self.body_bytes(),
            window,
            tools: Some((pipe, validator)),
            stamp: |header: &mut BatchHeader, summary: &BatchSummary| stamp(header, &options, summary),
            taken: 0,
            outcome: None,
        };
        let appended = self.partition.append_unread(&self.header, &mut body, self.now_ms);
        let (began, taken, outcome) = (body.tools.is_none(), body.taken, body.outcome);
        let mut left = length;
        if began {
            left -= frame.receiver().available().len() + taken;
            frame.take_unread(taken);
            self.broker.metrics.unread_batches.inc();
        }
        let record_count = match outcome {
            Some(Err(Refusal::Socket(error))) => return Err(ReceiveError::Io(error).into()),
            Some(Err(Refusal::Invalid(error))) => {
                self.note_refused(&error);
                return Ok((left, Answer::refused(&error)));
            }
            Some(Ok(summary)) => summary.record_count,
            // A duplicate, or nothing was appended.
            None => self.header.record_count as u32,
        };
        Ok((left, self.answer(appended, record_count, length)))
    }

    /// The header with what the broker decides inside the CRC, and whether that changed it.
    fn stamped(&self, options: &ValidateOptions, summary: &BatchSummary) -> (BatchHeader, bool) {
        let mut header = self.header;
        let changed = stamp(&mut header, options, summary);
        (header, changed)
    }

    fn append(
        &self,
        (mut header, changed): (BatchHeader, bool),
        body: &[IoSlice<'_>],
        summary: &BatchSummary,
        crc_follows_body: bool,
    ) -> Answer {
        if changed && crc_follows_body {
            header.crc = crc_of(&header, body);
        }
        let appended = self.partition.append(&header, body, AppendOrigin::Client, self.now_ms);
        self.answer(appended, summary.record_count, header.size_bytes())
    }

    /// The answer to what the log did with a valid batch, which is on the disk then if it must be.
    fn answer(
        &self,
        appended: Result<AppendInfo, StorageError>,
        record_count: u32,
        size_bytes: usize,
    ) -> Answer {
        let synced = appended.and_then(|appended| {
            self.partition.sync_if_needed(&appended, self.now_ms)?;
            Ok(appended)
        });
        match synced {
            Ok(appended) => {
                let traffic = &self.partition.traffic;
                self.broker.metrics.produced(traffic, record_count, size_bytes);
                Answer {
                    base_offset: appended.first_offset,
                    log_append_time_ms: appended.log_append_time_ms,
                    log_start_offset: appended.log_start_offset.get(),
                    ..Answer::code(ErrorCode::NONE)
                }
            }
            Err(error) => {
                let metrics = &self.broker.metrics;
                metrics.failed_produce(Some(&self.partition.traffic), size_bytes);
                if matches!(error, StorageError::OutOfOrderSequence { .. }) {
                    metrics.invalid_sequence.inc();
                }
                let code = crate::errors::storage_code(&error);
                self.broker.note_append_failure(&self.partition, &error);
                Answer::error(code, error)
            }
        }
    }

    /// Some clients leave the offset deltas of compressed batches to the broker. How much memory that takes is known
    /// too late to be waited for: the batch is held already.
    fn append_renumbered(
        &self,
        options: &ValidateOptions,
        body: &[IoSlice<'_>],
        summary: &BatchSummary,
        inflate_lease: Lease,
    ) -> Answer {
        let to = Compression::from(self.codec());
        let capacity = self.settings.config.max_message_bytes.max(0) as usize;
        let compressor_bytes = compressor_memory_bytes(to) as u64;
        let bytes = compressor_bytes + ChunkChain::lease_bytes(capacity);
        let holder = Holder::new("renumbered batch", 0);
        let receive = &self.broker.budgets.receive;
        let answer = match receive.try_lease(bytes, holder) {
            Ok(lease) => {
                let _room = self.broker.pool.beside(compressor_bytes, receive.limit());
                self.append_recoded(options, body, summary, to, lease, capacity)
            }
            Err(error @ BudgetError::NeverFits { .. }) => self.without_room(&error),
            Err(error) => Answer::error(ErrorCode::REQUEST_TIMED_OUT, error),
        };
        drop(inflate_lease);
        answer
    }

    fn append_recoded(
        &self,
        options: &ValidateOptions,
        body: &[IoSlice<'_>],
        summary: &BatchSummary,
        to: Compression,
        mut lease: Lease,
        capacity: usize,
    ) -> Answer {
        let out_lease = lease.split(ChunkChain::lease_bytes(capacity));
        let mut out = ChunkChain::new(&self.broker.pool, out_lease, capacity);
        let (header, _) = self.stamped(options, summary);
        let mut scratch = Scratch::new(0);
        let rewrite = Rewrite { to, renumbers: summary.offset_deltas_differ };
        let mut sink = |bytes: &[u8]| match out.extend(bytes) {
            taken if taken == bytes.len() => Ok(()),
            _ => Err(BatchError::BatchTooLarge { limit: capacity as u64 }),
        };
        let recoded = recompress(&header, body, rewrite, &options.limits, &mut scratch, &mut sink);
        match recoded {
            Ok(header) => self.append((header, false), &out.slices(0), summary, false),
            Err(error) => {
                self.note_refused(&error);
                Answer::refused(&error)
            }
        }
    }
}

/// Sets what the broker decides inside the CRC: the append time, or a maximum timestamp that the client got wrong.
fn stamp(header: &mut BatchHeader, options: &ValidateOptions, summary: &BatchSummary) -> bool {
    if options.timestamp_type == RecordTimestampType::LogAppendTime {
        header.stamp_log_append_time(options.now_ms);
    } else if summary.max_timestamp_differs {
        header.correct_max_timestamp(summary.max_timestamp);
    } else {
        return false;
    }
    true
}

/// What one partition is told.
#[derive(Debug)]
struct Answer {
    error_code: ErrorCode,
    base_offset: i64,
    log_append_time_ms: i64,
    log_start_offset: i64,
    message: Option<String>,
    /// The property behind MESSAGE_TOO_LARGE.
    limit: &'static str,
    record_errors: Vec<BatchIndexAndErrorMessage>,
}

impl Answer {
    fn code(error_code: ErrorCode) -> Self {
        Answer {
            error_code,
            base_offset: -1,
            log_append_time_ms: -1,
            log_start_offset: -1,
            message: None,
            limit: MAX_MESSAGE_BYTES,
            record_errors: Vec::new(),
        }
    }

    fn error(error_code: ErrorCode, message: impl ToString) -> Self {
        Answer { message: Some(message.to_string()), ..Answer::code(error_code) }
    }

    /// A refusal after the log was looked at tells where it begins, except for what Kafka counts as damaged or too
    /// large.
    fn in_log(self, partition: &Partition) -> Self {
        match self.error_code {
            ErrorCode::NONE
            | ErrorCode::CORRUPT_MESSAGE
            | ErrorCode::MESSAGE_TOO_LARGE
            | ErrorCode::RECORD_LIST_TOO_LARGE
            | ErrorCode::KAFKA_STORAGE_ERROR
            | ErrorCode::NOT_LEADER_OR_FOLLOWER => self,
            _ => Answer { log_start_offset: partition.log.log_start_offset().get(), ..self },
        }
    }

    fn refused(error: &BatchError) -> Self {
        let code = match error.kind() {
            BatchErrorKind::Corrupt => ErrorCode::CORRUPT_MESSAGE,
            // A magic that never was is damage; the old ones are meant.
            BatchErrorKind::UnsupportedMagic if !matches!(error, BatchError::Magic { found: 0 | 1 }) => {
                ErrorCode::CORRUPT_MESSAGE
            }
            BatchErrorKind::InvalidRecord | BatchErrorKind::UnsupportedMagic => ErrorCode::INVALID_RECORD,
            BatchErrorKind::InvalidTimestamp => ErrorCode::INVALID_TIMESTAMP,
            BatchErrorKind::UnsupportedCompression => ErrorCode::UNSUPPORTED_COMPRESSION_TYPE,
            BatchErrorKind::TooLarge => ErrorCode::MESSAGE_TOO_LARGE,
            BatchErrorKind::Internal => ErrorCode::UNKNOWN_SERVER_ERROR,
        };
        let record_errors = match error {
            BatchError::RecordsRefused { errors, .. } => errors
                .iter()
                .map(|refused| BatchIndexAndErrorMessage {
                    batch_index: refused.batch_index,
                    batch_index_error_message: Some(refused.fault.to_string()),
                    ..BatchIndexAndErrorMessage::default()
                })
                .collect(),
            _ => Vec::new(),
        };
        Answer { record_errors, ..Answer::error(code, error) }
    }
}

/// The answers of a request, in its order.
struct Answers<'a> {
    replies: &'a Budget,
    version: i16,
    /// `None` where the client wants none.
    bytes: Option<Growing>,
    first_error: Option<ErrorCode>,
}

impl Answers<'_> {
    fn is_leased(&self) -> bool {
        self.bytes.as_ref().is_some_and(Growing::is_leased)
    }

    /// Waits for memory where it must: no batch is held here, but the answers so far are, so the wait is limited, and
    /// requests that fill the share with answers end instead of waiting for each other.
    async fn put(
        &mut self,
        encode: impl Fn(&mut dyn Sink) -> Result<(), EncodeError>,
    ) -> Result<(), ConnectionError> {
        match &mut self.bytes {
            Some(bytes) => bytes.put(self.replies, encode).await,
            None => Ok(()),
        }
    }

    /// As [`Answers::put`], for what always can be encoded.
    async fn write(&mut self, encode: impl Fn(&mut dyn Sink)) -> Result<(), ConnectionError> {
        self.put(|w| {
            encode(w);
            Ok(())
        })
        .await
    }

    async fn end_of_fields(&mut self, flexible: bool) -> Result<(), ConnectionError> {
        if flexible { self.write(|w| put_empty_tags(w)).await } else { Ok(()) }
    }

    async fn push(&mut self, index: i32, answer: Answer) -> Result<(), ConnectionError> {
        if answer.error_code != ErrorCode::NONE {
            self.first_error.get_or_insert(answer.error_code);
        }
        let version = self.version;
        let response = PartitionProduceResponse {
            index,
            error_code: answer.error_code,
            base_offset: answer.base_offset,
            log_append_time_ms: answer.log_append_time_ms,
            log_start_offset: answer.log_start_offset,
            record_errors: answer.record_errors,
            error_message: answer.message,
            ..PartitionProduceResponse::default()
        };
        self.put(|w| response.encode(w, version)).await
    }
}
