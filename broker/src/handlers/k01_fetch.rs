//! Fetch: a plan of heads and file ranges; record bytes never enter this process.
//!
//! Method: the partitions of the session (or of the request) are asked for file ranges until the bytes run out; if
//! that is less than the client's minimum, the request waits with its partitions watched and asks again when one of them
//! grows. Invariants: heads are built under a lease of the `fetch` share, and whoever holds one waits for its peer only;
//! a request that waits for data or for that share holds a lease of the `waiting` term, which is never waited for: where
//! `max.waiting.requests` wait already, the answer is what there is, with a throttle time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_budget::{BudgetError, Holder, Lease};
use weir_metadata::properties::keys;
use weir_protocol::messages::k01_fetch::{FetchRequest, FetchResponse, FetchResponseEpochEndOffset};
use weir_protocol::messages::{ApiKey, ErrorCode};
use weir_protocol::wire::{
    EncodeError, put_array_len, put_bytes_len, put_empty_tags, put_i16, put_i32, put_i64, put_string,
    put_uuid, put_uvarint,
};
use weir_storage::transaction_index::AbortedTxn;
use weir_storage::{FileRange, Isolation};

use crate::broker::Broker;
use crate::connection::ConnectionError;
use crate::errors::storage_code;
use crate::fetch_sessions::{Cached, Context, SessionError, SessionRequest, TopicKey, Wanted};
use crate::metrics::{Metrics, Traffic};
use crate::net::registry::Holding;
use crate::plan::WAITING_BYTES;
use crate::request::{Reply, ReplyHead, Request, lease_patiently};
use crate::topics::{Partition, Watch};

/// Most bytes of records in one reply, whatever client and broker allow: with its heads it must have a size.
const MOST_RECORD_BYTES: i32 = i32::MAX - (512 << 20);

/// Clients read from this broker, there is no other one.
const NO_PREFERRED_REPLICA: i32 = -1;
/// Tag of a partition's diverging epoch.
const DIVERGING_EPOCH_TAG: u32 = 0;
/// Most bytes of one partition's head as it is encoded, its part of the topic's without the name included.
const HEAD_BYTES: usize = 96;
/// Memory of one partition in a reply: its place in the plan, its encoded head and its file range.
const ANSWER_BYTES: usize = size_of::<Answer>() + HEAD_BYTES + size_of::<(usize, FileRange)>();
/// Memory of a reply beside its partitions: its fields, a name that the moving start makes it repeat, and the future
/// that sends it.
const REPLY_BYTES: usize = 1280;
/// Memory of an aborted transaction in a reply: as it was read, and encoded.
const ABORTED_BYTES: usize = 64;
/// Most partitions in one reply of an incremental session; the others follow in the next ones.
const MAX_INCREMENTAL_ANSWERS: usize = 1000;
/// Partitions of such a reply for which there is room from the beginning.
const FEW_ANSWERS: usize = 16;
/// Longest name of a topic.
const MAX_NAME_BYTES: usize = 249;
/// Memory of a waiting request for each partition that it watches: two lists that double as they grow.
const WATCH_BYTES: usize = 4 * size_of::<usize>();
/// Plans up to this size do not wait for larger ones.
const SMALL_PLAN_BYTES: u64 = 16 * 1024;
/// Throttle time of an answer that should have waited.
const THROTTLE: Duration = Duration::from_millis(500);

/// Answers one fetch request.
pub(crate) async fn handle(mut request: Request) -> Result<Option<Reply>, ConnectionError> {
    let broker = Arc::clone(&request.broker);
    let fetch = request.decode(FetchRequest::decode)?;
    let max_bytes = fetch.max_bytes.min(broker.fetch_max_bytes).clamp(0, MOST_RECORD_BYTES) as u64;
    let terms = Terms {
        version: request.version,
        read_committed: fetch.isolation_level == 1,
        // More than there may be in a reply is never there.
        min_bytes: (fetch.min_bytes.max(0) as u64).min(max_bytes),
        max_bytes,
        deadline: Instant::now() + Duration::from_millis(fetch.max_wait_ms.max(0) as u64),
    };
    let partitions: usize = fetch.topics.iter().map(|topic| topic.partitions.len()).sum();
    let forgotten: usize = fetch.forgotten_topics_data.iter().map(|topic| topic.partitions.len()).sum();
    let forgotten_bytes = forgotten.saturating_mul(size_of::<(TopicKey, i32)>());
    // As they are decoded, as a session has them, and while these are sorted.
    let wanted_bytes = partitions.saturating_mul(size_of::<Wanted>() + 2 * size_of::<Cached>());
    request.lease_more(wanted_bytes.saturating_add(forgotten_bytes)).await?;
    let session = session_request(&broker, fetch, request.version);
    let context = match broker.fetch_sessions.begin(session, Instant::now(), || broker.random_i32()) {
        Ok((context, limit)) => {
            note_limit(&request, limit);
            context
        }
        Err(error) => {
            note_limit(&request, (error == SessionError::Full).then_some("max.fetch.session.partitions"));
            return refuse(&request, error).await;
        }
    };
    let needs = Needs::of(&context);
    let share = match needs.holding() {
        Holding::LargeFetch => &broker.budgets.large_fetch,
        _ => &broker.budgets.fetch,
    };
    let head = request.head();
    let holder = Holder::new("fetch", head.connection);
    let (mut watch, mut waiting): (Option<Watch>, Option<Lease>) = (None, None);
    loop {
        let lease = match share.try_lease(needs.plan_bytes, holder) {
            Ok(lease) => lease,
            Err(BudgetError::Exhausted { .. }) => {
                if waiting.is_none() {
                    waiting = may_wait(&request, needs);
                }
                match (&waiting, &context) {
                    (Some(_), _) => {
                        request.park();
                        let began = Instant::now();
                        let lease = share.lease(needs.plan_bytes, holder).await?;
                        request.connection.waited(began);
                        lease
                    }
                    (None, Context::Incremental(_)) => return nothing_new(&request, &context, &terms).await,
                    // All partitions must be named. What it wants lies under the request's lease meanwhile.
                    _ => lease_patiently(share, needs.plan_bytes, holder).await?,
                }
            }
            Err(error) => return Err(error.into()),
        };
        request.park();
        let plan = Plan::make(&broker, &context, &terms);
        let is_due = plan.is_due(&terms) || Instant::now() >= terms.deadline;
        if !is_due && waiting.is_none() {
            waiting = may_wait(&request, needs);
        }
        if is_due || waiting.is_none() {
            plan.count(&broker.metrics);
            let throttle = if is_due { Duration::ZERO } else { terms.throttle() };
            return Ok(Some(plan.into_reply(&context, &terms, throttle, head, (lease, needs.holding()))?));
        }
        drop((plan, lease));
        match &watch {
            // Registered first, then asked once more: what is appended in between is not missed.
            None => watch = Some(watch_all(&broker, &context)),
            Some(watch) => {
                let rest = terms.deadline.saturating_duration_since(Instant::now());
                let began = Instant::now();
                // A time-out ends the wait like a change does: the plan is made once more.
                let waiting = broker.metrics.waiting_fetch();
                if tokio::time::timeout(rest, watch.changed()).await.is_err() {
                    broker.metrics.expired_fetches.inc();
                }
                drop(waiting);
                request.connection.waited(began);
            }
        }
        if watch.as_ref().is_some_and(Watch::is_stale) {
            // The next plan may find new partitions of the same names, which are to be watched then.
            watch = None;
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

impl Terms {
    /// How long the client is asked to stay away where it may not wait here.
    fn throttle(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now()).min(THROTTLE)
    }
}

/// Memory of a request in its two states.
#[derive(Clone, Copy)]
struct Needs {
    /// While the reply is made and sent.
    plan_bytes: u64,
    /// While it waits.
    waiting_bytes: u64,
}

impl Needs {
    fn holding(self) -> Holding {
        if self.plan_bytes > SMALL_PLAN_BYTES { Holding::LargeFetch } else { Holding::Fetch }
    }

    fn of(context: &Context) -> Needs {
        let session = context.session().lock();
        let (count, names) = (session.len(), session.name_bytes());
        let (most, own) = match context {
            Context::Incremental(_) => (count.min(MAX_INCREMENTAL_ANSWERS), 0),
            Context::Full(_) => (count, 0),
            // What it wants is its own.
            Context::Sessionless(_) => (count, count * size_of::<Cached>() + names),
        };
        // Beside a reply in the making the few answers that it began with.
        let answers = (most + FEW_ANSWERS) * ANSWER_BYTES + names.min(most * MAX_NAME_BYTES);
        Needs {
            plan_bytes: (REPLY_BYTES + answers + own) as u64,
            waiting_bytes: (WAITING_BYTES as usize).max(count * WATCH_BYTES + own) as u64,
        }
    }
}

/// Leave to wait, unless as many wait as may.
fn may_wait(request: &Request, needs: Needs) -> Option<Lease> {
    let waiting = &request.broker.budgets.waiting;
    let holder = Holder::new("waiting fetch", request.connection.id);
    // Those that take the place of several leave a quarter to those that take one.
    let is_large = needs.waiting_bytes > WAITING_BYTES;
    let has_room = !is_large || waiting.used() + needs.waiting_bytes <= waiting.limit() / 4 * 3;
    let lease = has_room.then(|| waiting.try_lease(needs.waiting_bytes, holder).ok()).flatten();
    if lease.is_none() {
        let (peer, used, limit) = (request.connection.peer, waiting.used(), waiting.limit());
        let wanted = needs.waiting_bytes;
        let what =
            format_args!("a fetch of {peer} may not wait: {wanted} bytes, {used} of {limit} are taken");
        request.broker.limit_reached(keys::MAX_WAITING_REQUESTS.name, &what);
    }
    lease
}

fn note_limit(request: &Request, property: Option<&'static str>) {
    let Some(property) = property else { return };
    let (broker, peer) = (&request.broker, request.connection.peer);
    let (slots, partitions) = broker.fetch_sessions.limits();
    let limit = if property == keys::MAX_FETCH_SESSION_PARTITIONS.name { partitions } else { slots };
    broker.limit_reached(property, &format_args!("{peer} gets no fetch session: {property} = {limit}"));
}

/// The answer of a session about which nothing can be found out now.
async fn nothing_new(
    request: &Request,
    context: &Context,
    terms: &Terms,
) -> Result<Option<Reply>, ConnectionError> {
    let response = FetchResponse {
        throttle_time_ms: terms.throttle().as_millis() as i32,
        session_id: context.session_id(),
        ..FetchResponse::default()
    };
    Ok(Some(request.reply(|w| response.encode(w, request.version)).await?))
}

fn session_request(broker: &Broker, fetch: FetchRequest, version: i16) -> SessionRequest {
    let uses_topic_ids = version >= 13;
    let mut own_names = 0;
    let mut key = |name: String, id| match (uses_topic_ids, broker.topics.by_name(&name)) {
        (true, _) => TopicKey::Id(id),
        (false, Some(topic)) => TopicKey::Name(Arc::clone(&topic.name)),
        (false, None) => {
            own_names += 1;
            TopicKey::Name(Arc::from(name))
        }
    };
    let mut wanted = Vec::with_capacity(fetch.topics.iter().map(|topic| topic.partitions.len()).sum());
    for topic in fetch.topics {
        let key = key(topic.topic, topic.topic_id);
        wanted.extend(topic.partitions.iter().map(|partition| Wanted {
            topic: key.clone(),
            partition: partition.partition,
            current_leader_epoch: partition.current_leader_epoch,
            fetch_offset: partition.fetch_offset,
            last_fetched_epoch: if version >= 12 { partition.last_fetched_epoch } else { -1 },
            max_bytes: partition.partition_max_bytes,
        }));
    }
    let count = fetch.forgotten_topics_data.iter().map(|topic| topic.partitions.len()).sum();
    let mut forgotten = Vec::with_capacity(count);
    for topic in fetch.forgotten_topics_data {
        let key = key(topic.topic, topic.topic_id);
        forgotten.extend(topic.partitions.iter().map(|partition| (key.clone(), *partition)));
    }
    let (session_id, epoch) = if version >= 7 { (fetch.session_id, fetch.session_epoch) } else { (0, -1) };
    SessionRequest { session_id, epoch, uses_topic_ids, wanted, forgotten, own_names }
}

async fn refuse(request: &Request, error: SessionError) -> Result<Option<Reply>, ConnectionError> {
    let error_code = match error {
        SessionError::NotFound | SessionError::Full => ErrorCode::FETCH_SESSION_ID_NOT_FOUND,
        SessionError::InvalidEpoch => ErrorCode::INVALID_FETCH_SESSION_EPOCH,
        SessionError::TopicIdMode => ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR,
    };
    let response = FetchResponse { error_code, ..FetchResponse::default() };
    Ok(Some(request.reply(|w| response.encode(w, request.version)).await?))
}

fn find(broker: &Broker, wanted: &Wanted) -> Result<Arc<Partition>, ErrorCode> {
    let (topic, unknown) = match &wanted.topic {
        TopicKey::Id(id) => (broker.topics.by_id(*id), ErrorCode::UNKNOWN_TOPIC_ID),
        TopicKey::Name(name) => (broker.topics.by_name(name), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
    };
    topic.ok_or(unknown)?.served(wanted.partition)
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
    /// Where the client's log and this one part, if the client names an epoch that says so (KIP-595).
    diverging: Option<(i32, i64)>,
    records: Option<FileRange>,
    /// That of the topic, if there is one.
    traffic: Option<Arc<Traffic>>,
    /// What was aborted among the records; rarely anything.
    aborted: Option<Box<Aborted>>,
}

/// Aborted transactions, with the memory that they take.
struct Aborted {
    transactions: Vec<AbortedTxn>,
    lease: Option<Lease>,
}

impl Aborted {
    /// `None` where there is no memory for them.
    fn lease(broker: &Broker, transactions: Vec<AbortedTxn>) -> Option<Self> {
        let bytes = (size_of::<Self>() + transactions.len() * ABORTED_BYTES) as u64;
        let lease = broker.budgets.fetch.try_lease(bytes, Holder::new("aborted transactions", 0)).ok()?;
        Some(Aborted { transactions, lease: Some(lease) })
    }
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
            diverging: None,
            records: None,
            traffic: None,
            aborted: None,
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
            traffic: Some(Arc::clone(&partition.traffic)),
            ..Answer::error(wanted, ErrorCode::NONE)
        }
    }
}

/// Where the log that the client has read parts from this one, by the epoch of the last record that it read.
fn diverging(wanted: &Wanted, partition: &Partition) -> Result<Option<(i32, i64)>, ErrorCode> {
    if wanted.last_fetched_epoch < 0 {
        return Ok(None);
    }
    match partition.log.end_offset_for_epoch(wanted.last_fetched_epoch) {
        None => Err(ErrorCode::OFFSET_OUT_OF_RANGE),
        // Where the logs parted is of no use to a reader whose next record is gone.
        Some(_) if wanted.fetch_offset < partition.log.log_start_offset().get() => {
            Err(ErrorCode::OFFSET_OUT_OF_RANGE)
        }
        Some((epoch, end_offset))
            if epoch < wanted.last_fetched_epoch || end_offset < wanted.fetch_offset =>
        {
            Ok(Some((epoch, end_offset)))
        }
        Some(_) => Ok(None),
    }
}

/// What a reply would hold if it were sent now.
struct Plan {
    answers: Vec<Answer>,
    record_bytes: u64,
    /// Something that the client should hear of at once: an error, or that nothing is asked for.
    is_urgent: bool,
}

impl Plan {
    fn make(broker: &Broker, context: &Context, terms: &Terms) -> Plan {
        let incremental = matches!(context, Context::Incremental(_));
        let mut session = context.session().lock();
        let most = if incremental { session.len().min(MAX_INCREMENTAL_ANSWERS) } else { session.len() };
        let first = if incremental { most.min(FEW_ANSWERS) } else { most };
        let is_urgent = session.len() == 0;
        let mut plan = Plan { answers: Vec::with_capacity(first), record_bytes: 0, is_urgent };
        let (mut last, mut last_told) = (None, 0);
        for (position, cached) in session.visit() {
            if plan.answers.len() >= most {
                // Those behind must have their turn too, where none of these has data.
                last = last.or(Some(last_told));
                break;
            }
            let answer = plan.ask(broker, cached, terms);
            plan.is_urgent |= answer.error_code != ErrorCode::NONE || answer.diverging.is_some();
            plan.record_bytes += answer.record_bytes();
            if answer.records.is_some() {
                last = Some(position);
            }
            let said = (answer.high_watermark, answer.log_start_offset);
            if incremental
                && answer.records.is_none()
                && cached.told == Some(said)
                && answer.error_code == ErrorCode::NONE
                && answer.diverging.is_none()
            {
                continue;
            }
            if plan.answers.len() == plan.answers.capacity() {
                plan.answers.reserve_exact(most - plan.answers.len());
            }
            plan.answers.push(answer);
            last_told = position;
        }
        if let Some(position) = last {
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
        match diverging(wanted, &partition) {
            Ok(None) => {}
            Ok(diverging) => return Answer { diverging, ..Answer::of(wanted, &partition) },
            Err(code) => return Answer::error(wanted, code),
        }
        let left = terms.max_bytes.saturating_sub(self.record_bytes);
        let first = self.record_bytes == 0;
        if left == 0 && !first {
            return Answer::of(wanted, &partition);
        }
        let max_bytes = (wanted.max_bytes.max(0) as u64).min(left) as u32;
        let isolation = if terms.read_committed { Isolation::Committed } else { Isolation::HighWatermark };
        match partition.log.read(wanted.fetch_offset, max_bytes, first, isolation) {
            Ok(read) => {
                let aborted = match read.aborted {
                    none if none.is_empty() => None,
                    some => match Aborted::lease(broker, some) {
                        Some(aborted) => Some(Box::new(aborted)),
                        // Records without what was aborted among them must not go out; the client asks again.
                        None => return Answer::of(wanted, &partition),
                    },
                };
                Answer {
                    high_watermark: read.high_watermark.get(),
                    last_stable_offset: read.last_stable_offset.get(),
                    log_start_offset: read.log_start_offset.get(),
                    records: read.range.filter(|range| range.length > 0),
                    aborted,
                    traffic: Some(Arc::clone(&partition.traffic)),
                    ..Answer::error(wanted, ErrorCode::NONE)
                }
            }
            Err(error) => {
                broker.note_read_failure(&partition, &error);
                Answer::error(wanted, storage_code(&error))
            }
        }
    }

    /// Counts what is going to be sent.
    fn count(&self, metrics: &Metrics) {
        for answer in &self.answers {
            let failed = answer.error_code != ErrorCode::NONE;
            metrics.fetched(answer.traffic.as_deref(), answer.record_bytes(), failed);
        }
    }

    fn first_error(&self) -> Option<i16> {
        self.answers.iter().map(|answer| answer.error_code.0).find(|code| *code != ErrorCode::NONE.0)
    }

    fn is_due(&self, terms: &Terms) -> bool {
        self.is_urgent || self.record_bytes >= terms.min_bytes
    }

    /// Encodes the heads, notes what the session was told, and joins the file ranges.
    fn into_reply(
        mut self,
        context: &Context,
        terms: &Terms,
        throttle: Duration,
        head: ReplyHead,
        (mut lease, holding): (Lease, Holding),
    ) -> Result<Reply, ConnectionError> {
        if !matches!(context, Context::Sessionless(_)) {
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
        for aborted in self.answers.iter_mut().filter_map(|answer| answer.aborted.as_mut()?.lease.take()) {
            lease.absorb(aborted);
        }
        let first_error = self.first_error();
        let record_bytes = self.record_bytes as usize;
        let names: usize =
            self.by_topic().filter_map(<[Answer]>::first).map(|answer| answer.topic.name_bytes()).sum();
        let ranges = self.answers.iter().filter(|answer| answer.records.is_some()).count();
        let mut bytes = Vec::with_capacity(64 + self.answers.len() * HEAD_BYTES + names);
        head.put(&mut bytes, 0);
        let mut files = Vec::with_capacity(ranges);
        put_i32(&mut bytes, throttle.as_millis() as i32);
        self.encode(&mut bytes, &mut files, terms, context.session_id())?;
        let frame_bytes = (bytes.len() - 4 + record_bytes) as i32;
        bytes[..4].copy_from_slice(&frame_bytes.to_be_bytes());
        lease.shrink_to(
            (REPLY_BYTES + bytes.capacity() + files.capacity() * size_of::<(usize, FileRange)>()) as u64,
        );
        Ok(Reply::with_files(bytes, files, (Some(lease), holding), first_error))
    }

    /// The answers of one topic after the other.
    fn by_topic(&self) -> impl Iterator<Item = &[Answer]> {
        self.answers.chunk_by(|a, b| a.topic == b.topic)
    }

    /// Writes the body behind the throttle time without the records, and notes before which byte each file range belongs.
    fn encode(
        mut self,
        bytes: &mut Vec<u8>,
        files: &mut Vec<(usize, FileRange)>,
        terms: &Terms,
        session_id: i32,
    ) -> Result<(), EncodeError> {
        let flexible = ApiKey::Fetch.is_flexible(terms.version);
        if terms.version >= 7 {
            put_i16(bytes, ErrorCode::NONE.0);
            put_i32(bytes, session_id);
        }
        let topics = self.by_topic().count();
        put_array_len(bytes, flexible, Some(topics))?;
        for answers in self.answers.chunk_by_mut(|a, b| a.topic == b.topic) {
            match answers.first().map(|answer| &answer.topic) {
                Some(TopicKey::Id(id)) => put_uuid(bytes, *id),
                Some(TopicKey::Name(name)) => put_string(bytes, flexible, name)?,
                None => continue,
            }
            put_array_len(bytes, flexible, Some(answers.len()))?;
            for answer in answers {
                answer.encode(bytes, files, terms.version, flexible, terms.read_committed)?;
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
        &mut self,
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
        // A reader of uncommitted records is told nothing about them. Where there was nothing to read from, Kafka has an
        // empty list.
        let unknown = matches!(
            self.error_code,
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
                | ErrorCode::UNKNOWN_TOPIC_ID
                | ErrorCode::INCONSISTENT_TOPIC_ID
        );
        let has_list = unknown || (read_committed && self.error_code == ErrorCode::NONE);
        let aborted = self.aborted.as_ref().map_or(&[][..], |aborted| &aborted.transactions);
        put_array_len(bytes, flexible, has_list.then_some(aborted.len()))?;
        for aborted in aborted {
            put_i64(bytes, aborted.producer_id);
            put_i64(bytes, aborted.first_offset);
            if flexible {
                put_empty_tags(bytes);
            }
        }
        if version >= 11 {
            put_i32(bytes, NO_PREFERRED_REPLICA);
        }
        put_bytes_len(bytes, flexible, Some(self.record_bytes() as usize))?;
        files.extend(self.records.take().map(|range| (bytes.len(), range)));
        if let Some((epoch, end_offset)) = self.diverging {
            let tag = FetchResponseEpochEndOffset { epoch, end_offset, ..Default::default() };
            let length = tag.encoded_len(version)?;
            put_uvarint(bytes, 1);
            put_uvarint(bytes, DIVERGING_EPOCH_TAG);
            put_uvarint(bytes, length as u32);
            tag.encode(bytes, version)?;
        } else if flexible {
            put_empty_tags(bytes);
        }
        Ok(())
    }
}
