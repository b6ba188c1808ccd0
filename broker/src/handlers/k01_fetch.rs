//! Fetch: a plan of heads and file ranges; record bytes never enter this process.
//!
//! Method: the partitions of the session (or of the request) are asked for file ranges until the bytes run out; if
//! that is less than the client's minimum, the request parks with its partitions watched and nothing else held, and
//! asks again when one of them grows. Invariant: heads are built under a lease of the `fetch` share; a request that
//! finds no memory to park is answered at once with what there is.

use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_budget::{Holder, Lease};
use weir_protocol::messages::k01_fetch::{FetchRequest, FetchResponse};
use weir_protocol::messages::{ApiKey, ErrorCode};
use weir_protocol::wire::{
    EncodeError, put_array_len, put_bytes_len, put_empty_tags, put_i16, put_i32, put_i64, put_string,
    put_uuid,
};
use weir_storage::{FileRange, Isolation};

use crate::broker::Broker;
use crate::connection::ConnectionError;
use crate::errors::storage_code;
use crate::fetch_sessions::{Cached, Context, SessionError, SessionRequest, TopicKey, Wanted};
use crate::request::{Reply, ReplyHead, Request};
use crate::topics::{Partition, Watch};

/// Clients read from this broker, there is no other one.
const NO_PREFERRED_REPLICA: i32 = -1;
/// Memory of one partition in a reply: its place in the plan and its encoded head.
const ANSWER_BYTES: u64 = 256;
/// Most partitions in one reply of an incremental session; the others follow in the next ones.
const MAX_INCREMENTAL_ANSWERS: usize = 1000;
/// Memory of a parked request: its future, timer and watch.
const PARKED_BYTES: u64 = 2048;
/// Memory of a parked request for each partition that it watches.
const PARKED_PARTITION_BYTES: u64 = 32;
/// The same without a session: what it wants is its own, too.
const PARKED_WANTED_BYTES: u64 = 192;

/// Answers one fetch request.
pub(crate) async fn handle(mut request: Request) -> Result<Option<Reply>, ConnectionError> {
    let broker = Arc::clone(&request.broker);
    let fetch = request.decode(FetchRequest::decode)?;
    let terms = Terms {
        version: request.version,
        read_committed: fetch.isolation_level == 1,
        min_bytes: fetch.min_bytes.max(0) as u64,
        max_bytes: fetch.max_bytes.min(broker.fetch_max_bytes).max(0) as u64,
        deadline: Instant::now() + Duration::from_millis(fetch.max_wait_ms.max(0) as u64),
    };
    let session = session_request(&broker, fetch, request.version);
    let context = match broker.fetch_sessions.begin(session, Instant::now(), || broker.random_i32()) {
        Ok(context) => context,
        Err(error) => return refuse(&request, error).await,
    };
    request.park();
    let head = request.head();
    let holder = Holder::new("fetch", head.connection);
    let mut watch: Option<(Watch, Lease)> = None;
    let mut may_park = true;
    loop {
        let lease = broker.budgets.fetch.lease(plan_bytes(&context), holder).await?;
        let plan = Plan::make(&broker, &context, &terms);
        if plan.is_due(&terms) || !may_park || Instant::now() >= terms.deadline {
            broker.metrics.fetched(plan.record_bytes);
            return Ok(Some(plan.into_reply(&context, &terms, head, lease)?));
        }
        drop((plan, lease));
        match &watch {
            // Registered first, then asked once more: what is appended in between is not missed.
            None => match broker.budgets.fetch.try_lease(parked_bytes(&context), holder) {
                Ok(parked) => watch = Some((watch_all(&broker, &context), parked)),
                Err(_) => may_park = false,
            },
            Some((watch, _)) => {
                let rest = terms.deadline.saturating_duration_since(Instant::now());
                // A time-out ends the wait like a change does: the plan is made once more.
                let _changed = tokio::time::timeout(rest, watch.changed()).await;
            }
        }
    }
}

/// What the request says apart from its partitions.
struct Terms {
    version: i16,
    read_committed: bool,
    min_bytes: u64,
    max_bytes: u64,
    deadline: Instant,
}

fn session_request(broker: &Broker, fetch: FetchRequest, version: i16) -> SessionRequest {
    let uses_topic_ids = version >= 13;
    let key = |name: String, id| match uses_topic_ids {
        true => TopicKey::Id(id),
        false => TopicKey::Name(
            broker.topics.by_name(&name).map_or_else(|| Arc::from(name), |t| Arc::clone(&t.name)),
        ),
    };
    let mut wanted = Vec::with_capacity(fetch.topics.iter().map(|topic| topic.partitions.len()).sum());
    for topic in fetch.topics {
        let key = key(topic.topic, topic.topic_id);
        wanted.extend(topic.partitions.iter().map(|partition| Wanted {
            topic: key.clone(),
            partition: partition.partition,
            current_leader_epoch: partition.current_leader_epoch,
            fetch_offset: partition.fetch_offset,
            last_fetched_epoch: partition.last_fetched_epoch,
            max_bytes: partition.partition_max_bytes,
        }));
    }
    let mut forgotten = Vec::new();
    for topic in fetch.forgotten_topics_data {
        let key = key(topic.topic, topic.topic_id);
        forgotten.extend(topic.partitions.iter().map(|partition| (key.clone(), *partition)));
    }
    let (session_id, epoch) = if version >= 7 { (fetch.session_id, fetch.session_epoch) } else { (0, -1) };
    SessionRequest { session_id, epoch, uses_topic_ids, wanted, forgotten }
}

async fn refuse(request: &Request, error: SessionError) -> Result<Option<Reply>, ConnectionError> {
    let error_code = match error {
        SessionError::NotFound => ErrorCode::FETCH_SESSION_ID_NOT_FOUND,
        SessionError::InvalidEpoch => ErrorCode::INVALID_FETCH_SESSION_EPOCH,
        SessionError::TopicIdMode => ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR,
    };
    let response = FetchResponse { error_code, ..FetchResponse::default() };
    Ok(Some(request.reply(|w| response.encode(w, request.version)).await?))
}

fn plan_bytes(context: &Context) -> u64 {
    let count = context.session().lock().len();
    let most = match context {
        Context::Incremental(_) => count.min(MAX_INCREMENTAL_ANSWERS),
        _ => count,
    };
    (most as u64 + 2) * ANSWER_BYTES
}

fn parked_bytes(context: &Context) -> u64 {
    let each = match context {
        Context::Sessionless(_) => PARKED_PARTITION_BYTES + PARKED_WANTED_BYTES,
        _ => PARKED_PARTITION_BYTES,
    };
    PARKED_BYTES + context.session().lock().len() as u64 * each
}

fn find(broker: &Broker, wanted: &Wanted) -> Result<Arc<Partition>, ErrorCode> {
    let (topic, unknown) = match &wanted.topic {
        TopicKey::Id(id) => (broker.topics.by_id(*id), ErrorCode::UNKNOWN_TOPIC_ID),
        TopicKey::Name(name) => (broker.topics.by_name(name), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
    };
    topic.ok_or(unknown)?.partition(wanted.partition).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
}

fn watch_all(broker: &Broker, context: &Context) -> Watch {
    let mut watch = Watch::default();
    for (_, cached) in context.session().lock().visit() {
        if let Ok(partition) = find(broker, &cached.wanted) {
            watch.add(partition);
        }
    }
    watch
}

/// One partition of a reply.
struct Answer {
    topic: TopicKey,
    partition: i32,
    error_code: ErrorCode,
    high_watermark: i64,
    last_stable_offset: i64,
    log_start_offset: i64,
    records: Option<FileRange>,
}

impl Answer {
    fn error(wanted: &Wanted, error_code: ErrorCode) -> Self {
        Answer {
            topic: wanted.topic.clone(),
            partition: wanted.partition,
            error_code,
            high_watermark: -1,
            last_stable_offset: -1,
            log_start_offset: -1,
            records: None,
        }
    }

    fn record_bytes(&self) -> u64 {
        self.records.as_ref().map_or(0, |range| u64::from(range.length))
    }

    /// Where the partition stands, without records.
    fn of(wanted: &Wanted, partition: &Partition) -> Self {
        Answer {
            high_watermark: partition.log.high_watermark().get(),
            last_stable_offset: partition.log.last_stable_offset().get(),
            log_start_offset: partition.log.log_start_offset().get(),
            ..Answer::error(wanted, ErrorCode::NONE)
        }
    }
}

/// What a reply would hold if it were sent now.
struct Plan {
    answers: Vec<Answer>,
    record_bytes: u64,
    failed: bool,
}

impl Plan {
    fn make(broker: &Broker, context: &Context, terms: &Terms) -> Plan {
        let incremental = matches!(context, Context::Incremental(_));
        let mut plan = Plan { answers: Vec::new(), record_bytes: 0, failed: false };
        let mut session = context.session().lock();
        let mut last_with_data = None;
        for (position, cached) in session.visit() {
            if incremental && plan.answers.len() >= MAX_INCREMENTAL_ANSWERS {
                break;
            }
            let answer = plan.ask(broker, cached, terms);
            plan.failed |= answer.error_code != ErrorCode::NONE;
            plan.record_bytes += answer.record_bytes();
            if answer.records.is_some() {
                last_with_data = Some(position);
            }
            let said = (answer.high_watermark, answer.log_start_offset);
            if incremental
                && answer.records.is_none()
                && cached.told == Some(said)
                && answer.error_code == ErrorCode::NONE
            {
                continue;
            }
            plan.answers.push(answer);
        }
        if let Some(position) = last_with_data {
            session.rotate_after(position);
        }
        plan
    }

    fn ask(&self, broker: &Broker, cached: &Cached, terms: &Terms) -> Answer {
        let wanted = &cached.wanted;
        let partition = match find(broker, wanted) {
            Ok(partition) => partition,
            Err(code) => return Answer::error(wanted, code),
        };
        match wanted.current_leader_epoch {
            epoch if epoch < 0 || epoch == partition.leader_epoch() => {}
            epoch if epoch < partition.leader_epoch() => {
                return Answer::error(wanted, ErrorCode::FENCED_LEADER_EPOCH);
            }
            _ => return Answer::error(wanted, ErrorCode::UNKNOWN_LEADER_EPOCH),
        }
        let left = terms.max_bytes.saturating_sub(self.record_bytes);
        let first = self.record_bytes == 0;
        if left == 0 && !first {
            return Answer::of(wanted, &partition);
        }
        let max_bytes = (wanted.max_bytes.max(0) as u64).min(left) as u32;
        let isolation = if terms.read_committed { Isolation::Committed } else { Isolation::HighWatermark };
        match partition.log.read(wanted.fetch_offset, max_bytes, first, isolation) {
            Ok(read) => Answer {
                high_watermark: read.high_watermark.get(),
                last_stable_offset: read.last_stable_offset.get(),
                log_start_offset: read.log_start_offset.get(),
                records: read.range.filter(|range| range.length > 0),
                ..Answer::error(wanted, ErrorCode::NONE)
            },
            Err(error) => {
                broker.note_read_failure(&partition, &error);
                Answer { error_code: storage_code(&error), ..Answer::of(wanted, &partition) }
            }
        }
    }

    fn first_error(&self) -> Option<i16> {
        self.answers.iter().map(|answer| answer.error_code.0).find(|code| *code != ErrorCode::NONE.0)
    }

    fn is_due(&self, terms: &Terms) -> bool {
        self.failed || self.record_bytes >= terms.min_bytes
    }

    /// Encodes the heads, notes what the session was told, and joins the file ranges.
    fn into_reply(
        self,
        context: &Context,
        terms: &Terms,
        head: ReplyHead,
        mut lease: Lease,
    ) -> Result<Reply, ConnectionError> {
        {
            let mut session = context.session().lock();
            for answer in &self.answers {
                // A partition in error is told again once it is well.
                let told = match answer.error_code {
                    ErrorCode::NONE => Some((answer.high_watermark, answer.log_start_offset)),
                    _ => None,
                };
                session.tell(&answer.topic, answer.partition, told);
            }
        }
        let first_error = self.first_error();
        let record_bytes = self.record_bytes as usize;
        let mut bytes = Vec::with_capacity(128 + self.answers.len() * 96);
        head.put(&mut bytes, 0);
        let mut files = Vec::with_capacity(self.answers.len());
        self.encode(&mut bytes, &mut files, terms.version, terms.read_committed, context.session_id())?;
        let frame_bytes = (bytes.len() - 4 + record_bytes) as i32;
        bytes[..4].copy_from_slice(&frame_bytes.to_be_bytes());
        lease.shrink_to((bytes.capacity() + files.capacity() * size_of::<(usize, FileRange)>()) as u64);
        Ok(Reply::with_files(bytes, files, Some(lease), first_error))
    }

    /// Writes the body without the records, and notes before which byte each file range belongs.
    fn encode(
        self,
        bytes: &mut Vec<u8>,
        files: &mut Vec<(usize, FileRange)>,
        version: i16,
        read_committed: bool,
        session_id: i32,
    ) -> Result<(), EncodeError> {
        let flexible = ApiKey::Fetch.is_flexible(version);
        put_i32(bytes, 0);
        if version >= 7 {
            put_i16(bytes, ErrorCode::NONE.0);
            put_i32(bytes, session_id);
        }
        let lengths: Vec<usize> =
            self.answers.chunk_by(|a, b| a.topic == b.topic).map(<[Answer]>::len).collect();
        put_array_len(bytes, flexible, Some(lengths.len()))?;
        let mut answers = self.answers.into_iter();
        for length in lengths {
            for (position, answer) in answers.by_ref().take(length).enumerate() {
                if position == 0 {
                    match &answer.topic {
                        TopicKey::Id(id) => put_uuid(bytes, *id),
                        TopicKey::Name(name) => put_string(bytes, flexible, name)?,
                    }
                    put_array_len(bytes, flexible, Some(length))?;
                }
                answer.encode(bytes, files, version, flexible, read_committed)?;
            }
            if flexible {
                put_empty_tags(bytes);
            }
        }
        if flexible {
            put_empty_tags(bytes);
        }
        Ok(())
    }
}

impl Answer {
    fn encode(
        self,
        bytes: &mut Vec<u8>,
        files: &mut Vec<(usize, FileRange)>,
        version: i16,
        flexible: bool,
        read_committed: bool,
    ) -> Result<(), EncodeError> {
        put_i32(bytes, self.partition);
        put_i16(bytes, self.error_code.0);
        put_i64(bytes, self.high_watermark);
        put_i64(bytes, self.last_stable_offset);
        if version >= 5 {
            put_i64(bytes, self.log_start_offset);
        }
        // Aborted transactions: none exist; a reader of uncommitted data is told nothing about them.
        put_array_len(bytes, flexible, read_committed.then_some(0))?;
        if version >= 11 {
            put_i32(bytes, NO_PREFERRED_REPLICA);
        }
        put_bytes_len(bytes, flexible, Some(self.record_bytes() as usize))?;
        files.extend(self.records.map(|range| (bytes.len(), range)));
        if flexible {
            put_empty_tags(bytes);
        }
        Ok(())
    }
}
