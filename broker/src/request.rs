//! A control request while it is handled, and its reply.
//!
//! Method: frame and decoded values live under one lease, taken whole before the frame is received. A reply's size is
//! counted before it is encoded, and leased when it exceeds what every connection may hold; one that follows from the
//! server's state part by part is never held as a whole, but encoded window by window while it is sent. Invariants: a
//! handler that parks (a long poll, a join) first gives its request's lease back; what others still work on when the
//! connection goes has its lease with it ([`Shared`], [`Request::command`], [`Request::block`]).

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use weir_budget::{Budget, BudgetError, Holder, Lease};
use weir_metadata::controller::{Controller, ControllerResult};
use weir_protocol::messages::{ApiKey, ErrorCode};
use weir_protocol::wire::{Counter, DecodeError, EncodeError, Reader, Sink, put_i32};
use weir_storage::FileRange;

use crate::broker::Broker;
use crate::connection::ConnectionError;
use crate::net::receive::{Receiver, SMALL_BYTES};
use crate::net::registry::{ConnectionState, Holding};
use crate::net::send::{send_bytes, send_file, try_send};
use crate::quorum::ControllerError;

/// A handler's future, on the heap while it runs.
const FUTURE_BYTES: u64 = 2048;
/// Bytes of a reply that may gather while its request is still being received: a part of every connection's charge.
pub(crate) const FREE_REPLY_BYTES: usize = 256;
/// The future of a reply that is being sent, on the heap meanwhile.
const SEND_BYTES: u64 = 768;

/// What decoding a frame of up to [`SMALL_BYTES`] bytes may allocate.
const SMALL_DECODE_BYTES: u64 = 15 * 1024;
/// What handling a request may take beside its decoded values without a lease of its own.
const SMALL_WORK_BYTES: usize = 8 * 1024;
/// What decoding may allocate for each byte of a larger frame; more is leased where an API needs it.
const DECODE_FACTOR: u64 = 6;

/// Bytes to lease for a frame and what is decoded from it.
pub(crate) fn lease_bytes(api: ApiKey, frame_bytes: usize) -> u64 {
    let factor = match api {
        // Nearly all of a large one is what members say in bytes.
        ApiKey::JoinGroup | ApiKey::SyncGroup => 1,
        _ => DECODE_FACTOR,
    };
    if frame_bytes <= SMALL_BYTES {
        SMALL_BYTES as u64 + SMALL_DECODE_BYTES + FUTURE_BYTES
    } else {
        (frame_bytes as u64).saturating_mul(1 + factor) + SMALL_DECODE_BYTES + FUTURE_BYTES
    }
}

/// A decoded request that others than its connection's task use too, with the lease that covers it: whoever is last
/// gives it back.
pub(crate) struct Shared<T>(Arc<(T, Lease)>);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Shared(Arc::clone(&self.0))
    }
}

impl<T> std::ops::Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.0
    }
}

/// What a request holds, also on behalf of work for it that goes on when its connection is gone: given back when both are
/// done.
#[derive(Debug)]
struct Held {
    #[expect(dead_code, reason = "held for its drop")]
    lease: Lease,
    #[expect(dead_code, reason = "held for its drop")]
    work: Option<Lease>,
    #[expect(dead_code, reason = "held for its drop")]
    before: Option<Arc<Held>>,
}

/// Runs `work` on a thread that may block. `held` is dropped after it and after its result, where nobody takes that.
async fn block_holding<R: Send + 'static>(
    held: impl Send + 'static,
    work: impl FnOnce() -> R + Send + 'static,
) -> Result<R, ConnectionError> {
    let done = tokio::task::spawn_blocking(move || (work(), held)).await;
    // A panic in there ends this connection, as it would have without the thread.
    done.map(|(result, _held)| result).map_err(|error| std::io::Error::other(error).into())
}

/// One request whose frame has arrived.
pub(crate) struct Request {
    /// The server.
    pub(crate) broker: Arc<Broker>,
    /// The connection that it came by.
    pub(crate) connection: Arc<ConnectionState>,
    /// What is asked.
    pub(crate) api: ApiKey,
    /// Version of the request and of its reply.
    pub(crate) version: i16,
    /// Echoed in the reply.
    pub(crate) correlation_id: i32,
    /// The client's name for itself, until the request is parked; empty if it gave none.
    pub(crate) client_id: String,
    body: Vec<u8>,
    lease: Lease,
    /// Bytes of `lease` that the decoded values left.
    spare: usize,
    /// Bytes of `lease` that work beside the decoded values took of what they left.
    taken: usize,
    work: Option<Lease>,
    /// What it shares with work that was begun for it.
    held: Option<Arc<Held>>,
}

impl Request {
    /// A request with the bytes after its header; `lease` covers them and what is decoded from them.
    pub(crate) fn new(
        broker: Arc<Broker>,
        connection: Arc<ConnectionState>,
        (api, version, correlation_id, client_id): (ApiKey, i16, i32, String),
        body: Vec<u8>,
        lease: Lease,
    ) -> Self {
        Request {
            broker,
            connection,
            api,
            version,
            correlation_id,
            client_id,
            body,
            lease,
            spare: 0,
            taken: 0,
            work: None,
            held: None,
        }
    }

    /// Decodes the body, once: the frame's bytes are dropped. Leases more where the values need it and there is room.
    /// Bytes behind the message are passed over, as in Kafka: librdkafka sends some in Metadata requests of version 13.
    pub(crate) fn decode<T>(
        &mut self,
        decode: fn(&mut Reader<'_>, i16) -> Result<T, DecodeError>,
    ) -> Result<T, ConnectionError> {
        let body = std::mem::take(&mut self.body);
        loop {
            let limit = (self.lease.bytes().saturating_sub(FUTURE_BYTES) as usize).saturating_sub(body.len());
            let mut reader = Reader::new(&body, limit);
            // What may follow the last field is passed over, as Kafka does: librdkafka's request for the metadata of all
            // topics ends with three bytes too many.
            match decode(&mut reader, self.version) {
                Ok(value) => {
                    // The frame is gone with this function.
                    self.spare = (limit + body.len()).saturating_sub(reader.charged());
                    return Ok(value);
                }
                Err(DecodeError::OverBudget { needed, limit }) => {
                    let more = (needed.max(limit.saturating_mul(2)) - limit) as u64;
                    self.lease.try_grow(more)?;
                }
                Err(error) => {
                    return Err(ConnectionError::Decode { api: self.api, version: self.version, error });
                }
            }
        }
    }

    /// Lets others use the decoded request beyond the life of this one. Its part of the lease goes with it; what the work
    /// took stays here, for its results outlive the shared value.
    pub(crate) fn share<T>(&mut self, value: T) -> Shared<T> {
        let stays = (self.taken as u64).saturating_add(FUTURE_BYTES);
        let lease = self.lease.split(self.lease.bytes().saturating_sub(stays));
        self.spare = 0;
        Shared(Arc::new((value, lease)))
    }

    /// Before a wait that no other request should wait for too: moves what the request holds to the share of those that
    /// wait, which is never waited for. False where there is no room; then it must not wait. To be asked once.
    pub(crate) fn may_wait(&mut self) -> bool {
        let bytes = self.lease.bytes().saturating_sub(self.spare as u64);
        let holder = Holder::new(self.api.name(), self.connection.id);
        let Ok(lease) = self.broker.budgets.waiting.try_lease(bytes, holder) else { return false };
        self.lease = lease;
        self.spare = 0;
        true
    }

    /// Lets the controller decide for this request. The memory that was leased for that, and for its reply, is held until
    /// the controller is done, also when the connection goes before.
    pub(crate) async fn command<R: Send + 'static>(
        &mut self,
        decide: impl FnOnce(Controller<'_>) -> ControllerResult<R> + Send + 'static,
    ) -> Result<R, ControllerError> {
        let held = self.hold();
        self.broker.controller.run_holding(held, decide).await
    }

    /// Runs work for this request that blocks, on a thread for such. As with [`Request::command`] the memory that was
    /// leased for it is held until it is done.
    pub(crate) async fn block<R: Send + 'static>(
        &mut self,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> Result<R, ConnectionError> {
        block_holding(self.hold(), work).await
    }

    fn hold(&mut self) -> Arc<Held> {
        let lease = self.lease.split(self.lease.bytes());
        let held = Arc::new(Held { lease, work: self.work.take(), before: self.held.take() });
        self.held = Some(Arc::clone(&held));
        held
    }

    /// Gives the request's memory back before a wait. The decoded value must be gone or leased otherwise by then.
    pub(crate) fn park(&mut self) {
        self.client_id = String::new();
        self.lease.shrink_to(0);
        self.spare = 0;
        self.taken = 0;
        self.work = None;
        self.held = None;
    }

    /// Leases memory for work beside the request's own lease, from a share of its own: those who hold it wait for
    /// replies' memory at most, so that requests which all have their own lease cannot keep each other from going on.
    pub(crate) async fn lease_work(&self, bytes: u64) -> Result<Lease, ConnectionError> {
        let holder = Holder::new(self.api.name(), self.connection.id);
        Ok(lease_patiently(&self.broker.budgets.work, bytes, holder).await?)
    }

    /// Leases memory for a reply of so many bytes.
    pub(crate) async fn lease_reply(&self, bytes: u64) -> Result<Lease, ConnectionError> {
        let holder = Holder::new("reply", self.connection.id);
        Ok(lease_patiently(&self.broker.budgets.replies, bytes, holder).await?)
    }

    /// As [`Request::lease_work`], where it is more than a request may take without a lease of its own.
    pub(crate) async fn lease_some(&self, bytes: usize) -> Result<Option<Lease>, ConnectionError> {
        if bytes <= SMALL_WORK_BYTES { Ok(None) } else { self.lease_work(bytes as u64).await.map(Some) }
    }

    /// Leases memory for work that follows from the request, until it is answered or parked: what its own lease has left,
    /// and more where that is not enough.
    pub(crate) async fn lease_more(&mut self, bytes: usize) -> Result<(), ConnectionError> {
        let more = bytes.saturating_sub(self.spare);
        self.taken += bytes - more;
        self.spare -= bytes - more;
        if more == 0 {
            return Ok(());
        }
        let more = self.lease_work(more as u64).await?;
        match &mut self.work {
            Some(work) => work.absorb(more),
            none => *none = Some(more),
        }
        Ok(())
    }

    /// Encodes a reply under a lease.
    pub(crate) async fn reply(
        &self,
        encode: impl Fn(&mut dyn Sink) -> Result<(), EncodeError>,
    ) -> Result<Reply, ConnectionError> {
        Reply::encode(&self.broker.budgets.replies, self.head(), encode).await
    }

    /// As [`Request::reply`], but never waits: where there is no memory now, says how much the reply takes, so that
    /// what it is made from can be dropped before the wait.
    pub(crate) fn try_reply(
        &self,
        encode: impl Fn(&mut dyn Sink) -> Result<(), EncodeError>,
    ) -> Result<Tried, ConnectionError> {
        let head = self.head();
        let size = head.size_bytes() + count(&encode)?;
        let lease = if size <= SMALL_BYTES {
            None
        } else {
            let needed = size as u64 + SEND_BYTES;
            match self.broker.budgets.replies.try_lease(needed, Holder::new("reply", head.connection)) {
                Ok(lease) => Some(lease),
                Err(_) => return Ok(Tried::Needs(needed)),
            }
        };
        Ok(Tried::Reply(Reply::write(head, lease, size, &encode)?))
    }

    /// Encodes a reply under a lease that is there already; `None` if it is larger than the lease.
    pub(crate) fn reply_under(
        &self,
        lease: Lease,
        encode: impl Fn(&mut dyn Sink) -> Result<(), EncodeError>,
    ) -> Result<Option<Reply>, ConnectionError> {
        let head = self.head();
        let size = head.size_bytes() + count(&encode)?;
        if size as u64 > lease.bytes() {
            return Ok(None);
        }
        Reply::write(head, Some(lease), size, &encode).map(Some)
    }

    /// Encodes a reply straight from state that others change meanwhile, so that no copy of it is held: counted, leased
    /// with some room, written; once more if it has outgrown the lease. `body` may differ from call to call; `front`
    /// writes what stands before it and depends on what `body` returned.
    pub(crate) async fn reply_of_state<T>(
        &self,
        body: impl Fn(&mut dyn Sink) -> Result<T, EncodeError>,
        front: impl Fn(&mut dyn Sink, T) -> Result<(), EncodeError>,
    ) -> Result<Reply, ConnectionError> {
        let mut counter = Counter::default();
        body(&mut counter)?;
        let mut needed = counter.0;
        loop {
            let mut state = self.state_reply(needed).await?;
            let told = body(&mut state.sink)?;
            match state.finish(self.head(), |w| front(w, told))? {
                Ok(reply) => return Ok(reply),
                Err(outgrown) => needed = outgrown,
            }
        }
    }

    /// As [`Request::reply_of_state`], item by item, between which others get their turn: a request may name what is
    /// large very often. Ends with the first item that makes the reply larger than any may be.
    pub(crate) async fn reply_of_items(
        &self,
        items: usize,
        encode: impl Fn(Part, &mut dyn Sink) -> Result<(), EncodeError>,
    ) -> Result<Reply, ConnectionError> {
        let most = self.broker.budgets.replies.limit();
        let mut counter = Bounded::new(Vec::new(), 0);
        put_items(items, &encode, &mut counter, most).await?;
        let mut needed = counter.wanted;
        loop {
            let mut state = self.state_reply(needed).await?;
            put_items(items, &encode, &mut state.sink, most).await?;
            match state.finish(self.head(), |_| Ok(()))? {
                Ok(reply) => return Ok(reply),
                Err(outgrown) => needed = outgrown,
            }
        }
    }

    /// A reply with room for so many bytes of a body, and some more.
    async fn state_reply(&self, body_bytes: usize) -> Result<StateReply, BudgetError> {
        let size = body_bytes + body_bytes / 8 + 2 * FRONT_BYTES;
        let lease = match size {
            0..=SMALL_BYTES => None,
            size => {
                let holder = Holder::new("reply", self.connection.id);
                Some(lease_patiently(&self.broker.budgets.replies, size as u64 + SEND_BYTES, holder).await?)
            }
        };
        let mut bytes = Vec::with_capacity(size);
        bytes.resize(FRONT_BYTES, 0);
        Ok(StateReply { sink: Bounded::new(bytes, size), lease })
    }

    /// A reply of many items that is encoded while it is sent, so that it takes a window and the values of one item,
    /// however large it is. `encode` must write the same bytes each time it is called for a part; for each call
    /// `work_bytes` are leased.
    pub(crate) async fn reply_in_parts(
        &self,
        items: usize,
        work_bytes: usize,
        encode: impl Fn(Part, &mut dyn Sink) -> Result<(), EncodeError> + Send + Sync + 'static,
    ) -> Result<Reply, ConnectionError> {
        let broker = Arc::clone(&self.broker);
        let made_of = broker.image_changes.load(Ordering::Relaxed);
        let (work, replies) = (broker.budgets.work.clone(), broker.budgets.replies.clone());
        let work_bytes = if work_bytes > SMALL_WORK_BYTES { work_bytes as u64 } else { 0 };
        let encode = Box::new(encode);
        let head = self.head();
        let parts = Parts { broker, made_of, work, replies, head, items, body_bytes: 0, work_bytes, encode };
        parts.count().await
    }

    /// What a reply to this request begins with.
    pub(crate) fn head(&self) -> ReplyHead {
        ReplyHead {
            api: self.api,
            version: self.version,
            correlation_id: self.correlation_id,
            connection: self.connection.id,
        }
    }
}

/// Most bytes of a reply before the part that is written from changing state: size, header and a few fields.
const FRONT_BYTES: usize = 32;

/// What [`Request::try_reply`] came to.
pub(crate) enum Tried {
    /// The reply.
    Reply(Reply),
    /// There is no memory now for this many bytes.
    Needs(u64),
}

/// Takes bytes up to a limit and counts them all.
struct Bounded {
    bytes: Vec<u8>,
    limit: usize,
    wanted: usize,
    first_error: Option<i16>,
}

impl Bounded {
    fn new(bytes: Vec<u8>, limit: usize) -> Self {
        Bounded { wanted: bytes.len(), bytes, limit, first_error: None }
    }
}

/// A reply that is written from changing state, with room in front for what begins it.
struct StateReply {
    sink: Bounded,
    lease: Option<Lease>,
}

impl StateReply {
    /// The reply, or how many bytes of a body there are now, where they are more than there is room for.
    fn finish(
        self,
        head: ReplyHead,
        front: impl FnOnce(&mut dyn Sink) -> Result<(), EncodeError>,
    ) -> Result<Result<Reply, usize>, EncodeError> {
        let StateReply { sink: Bounded { mut bytes, limit, wanted, mut first_error }, lease } = self;
        if wanted > limit {
            return Ok(Err(wanted));
        }
        let body_bytes = bytes.len() - FRONT_BYTES;
        let mut fore = Vec::with_capacity(FRONT_BYTES);
        let mut watched = Watched { out: &mut fore, first_error: None };
        front(&mut watched)?;
        first_error = watched.first_error.or(first_error);
        let mut start = Vec::with_capacity(FRONT_BYTES);
        head.put(&mut start, fore.len() + body_bytes);
        start.extend_from_slice(&fore);
        debug_assert!(start.len() <= FRONT_BYTES);
        let from = FRONT_BYTES - start.len();
        bytes[from..FRONT_BYTES].copy_from_slice(&start);
        bytes.drain(..from);
        let holding = Some(Holding::Replies);
        Ok(Ok(Reply { bytes, lease, holding, first_error, ..Reply::default() }))
    }
}

impl Sink for Bounded {
    fn put(&mut self, bytes: &[u8]) {
        self.wanted += bytes.len();
        if self.wanted <= self.limit {
            self.bytes.extend_from_slice(bytes);
        }
    }

    fn put_error(&mut self, code: i16) {
        note_error(&mut self.first_error, code);
        self.put(&code.to_be_bytes());
    }
}

/// Takes bytes and notes the first error code among them.
struct Watched<'a> {
    out: &'a mut Vec<u8>,
    first_error: Option<i16>,
}

impl Sink for Watched<'_> {
    fn put(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    fn put_error(&mut self, code: i16) {
        note_error(&mut self.first_error, code);
        self.put(&code.to_be_bytes());
    }
}

fn note_error(first: &mut Option<i16>, code: i16) {
    if code != ErrorCode::NONE.0 {
        first.get_or_insert(code);
    }
}

fn count(encode: &impl Fn(&mut dyn Sink) -> Result<(), EncodeError>) -> Result<usize, EncodeError> {
    let mut count = Counter::default();
    encode(&mut count)?;
    Ok(count.0)
}

/// Longest wait of a request for more of a share than it has.
const PATIENCE: Duration = Duration::from_secs(10);

/// Leases from a share for a request that may hold some of it already. The wait is bounded: requests that hold parts of
/// the share and wait for each other's would else wait for ever.
pub(crate) async fn lease_patiently(
    share: &Budget,
    bytes: u64,
    holder: Holder,
) -> Result<Lease, BudgetError> {
    match tokio::time::timeout(PATIENCE, share.lease(bytes, holder)).await {
        Ok(leased) => leased,
        Err(_) => share.try_lease(bytes, holder),
    }
}

/// What a reply must know of its request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplyHead {
    pub(crate) api: ApiKey,
    pub(crate) version: i16,
    pub(crate) correlation_id: i32,
    pub(crate) connection: u64,
}

impl ReplyHead {
    /// Bytes of a frame's size and header.
    pub(crate) fn size_bytes(self) -> usize {
        8 + usize::from(self.api.response_header_version(self.version) >= 1)
    }

    /// Writes a frame's size and header for a body of `body_bytes`.
    pub(crate) fn put(self, out: &mut Vec<u8>, body_bytes: usize) {
        put_i32(out, (self.size_bytes() - 4 + body_bytes) as i32);
        put_i32(out, self.correlation_id);
        if self.api.response_header_version(self.version) >= 1 {
            out.push(0);
        }
    }
}

/// A part of a reply that is encoded part by part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// What stands before the items, their number included.
    Head,
    /// The item with this index.
    Item(usize),
    /// What stands behind them.
    Tail,
}

/// The parts of a reply of so many items.
fn parts(items: usize) -> impl Iterator<Item = Part> {
    std::iter::once(Part::Head).chain((0..items).map(Part::Item)).chain([Part::Tail])
}

/// Work that is done before other tasks get a turn, in bytes that are encoded.
const TURN_BYTES: usize = 64 * 1024;
/// What a part counts for beside its bytes: finding out what is to be said of it.
const PART_BYTES: usize = 1024;

/// How much was encoded since other tasks had a turn.
#[derive(Default)]
struct Turn(usize);

impl Turn {
    /// Gives others a turn where it is time for that.
    async fn took(&mut self, bytes: usize) {
        self.0 += PART_BYTES + bytes;
        if self.0 >= TURN_BYTES {
            self.0 = 0;
            tokio::task::yield_now().await;
        }
    }
}

/// How long a reply may go on once the metadata that it is made of have changed: what it holds of the old ones is in no
/// term of the plan.
const OUTDATED_PATIENCE: Duration = Duration::from_secs(5);
/// How often a reply that is not read is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Encodes the parts one by one, until there are more than `most` bytes: the lease for so many tells why.
async fn put_items(
    items: usize,
    encode: &impl Fn(Part, &mut dyn Sink) -> Result<(), EncodeError>,
    sink: &mut Bounded,
    most: u64,
) -> Result<(), EncodeError> {
    let mut turn = Turn::default();
    for part in parts(items) {
        let before = sink.wanted;
        encode(part, sink)?;
        if sink.wanted as u64 > most {
            break;
        }
        turn.took(sink.wanted - before).await;
    }
    Ok(())
}

/// Most bytes of a reply's body: with its head it must have a size.
const MOST_BYTES: usize = i32::MAX as usize - 64;
/// Bytes of a reply in parts that are held at once.
const WINDOW_BYTES: usize = 16 * 1024;

type EncodePart = Box<dyn Fn(Part, &mut dyn Sink) -> Result<(), EncodeError> + Send + Sync>;

/// A reply that is encoded while it is sent.
struct Parts {
    broker: Arc<Broker>,
    /// Which of the metadata images it is made of.
    made_of: u64,
    work: Budget,
    replies: Budget,
    head: ReplyHead,
    items: usize,
    body_bytes: usize,
    /// Memory of one call of `encode`.
    work_bytes: u64,
    encode: EncodePart,
}

/// Passes over what was sent before, takes what fits, and counts all.
struct Window<'a> {
    out: &'a mut Vec<u8>,
    skip: usize,
    room: usize,
    seen: usize,
}

impl Sink for Window<'_> {
    fn put(&mut self, bytes: &[u8]) {
        let from = self.skip.saturating_sub(self.seen).min(bytes.len());
        let to = (self.skip + self.room).saturating_sub(self.seen).clamp(from, bytes.len());
        self.out.extend_from_slice(&bytes[from..to]);
        self.seen += bytes.len();
    }
}

/// Counts bytes and notes the first error code among them.
#[derive(Default)]
struct CountedReply {
    bytes: usize,
    first_error: Option<i16>,
}

impl Sink for CountedReply {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len();
    }

    fn put_error(&mut self, code: i16) {
        note_error(&mut self.first_error, code);
        self.bytes += 2;
    }
}

impl Parts {
    fn holder(&self) -> Holder {
        Holder::new("reply", self.head.connection)
    }

    /// Leases the memory of one call of `encode`.
    async fn work(&self) -> Result<Option<Lease>, BudgetError> {
        match self.work_bytes {
            0 => Ok(None),
            bytes => self.work.lease(bytes, self.holder()).await.map(Some),
        }
    }

    /// Finds out how long the reply is and what it tells.
    async fn count(mut self) -> Result<Reply, ConnectionError> {
        let mut counted = CountedReply::default();
        {
            let _work = self.work().await?;
            let mut turn = Turn::default();
            for part in parts(self.items) {
                let before = counted.bytes;
                (self.encode)(part, &mut counted)?;
                if counted.bytes > MOST_BYTES {
                    return Err(ConnectionError::TooLarge(self.head.api));
                }
                turn.took(counted.bytes - before).await;
            }
        }
        self.body_bytes = counted.bytes;
        Ok(Reply {
            holding: Some(Holding::Replies),
            first_error: counted.first_error,
            parts: Some(Box::new(self)),
            ..Reply::default()
        })
    }

    async fn send(&self, receiver: &Receiver) -> Result<(), ConnectionError> {
        let whole = self.head.size_bytes() + self.body_bytes;
        let (mut place, mut sent) = (Place { part: 0, skip: 0 }, 0);
        let mut outdated = None;
        while sent < whole {
            // Neither is held while the other is waited for but in this order, and only the window while the peer is.
            let work = self.work().await?;
            let bytes = (whole - sent).min(WINDOW_BYTES);
            let _lease = match bytes {
                0..=SMALL_BYTES => None,
                bytes => Some(self.replies.lease(bytes as u64 + SEND_BYTES, self.holder()).await?),
            };
            let mut window = Vec::with_capacity(bytes);
            if sent == 0 {
                self.head.put(&mut window, self.body_bytes);
            }
            self.fill(&mut window, bytes, &mut place)?;
            drop(work);
            if window.is_empty() {
                return Err(ConnectionError::ReplyChanged(self.head.api));
            }
            let _owes_progress = receiver.state.holds(Holding::Replies);
            sent += window.len();
            let mut sending =
                std::pin::pin!(send_bytes(&receiver.stream, &receiver.state, &window, sent < whole));
            loop {
                match tokio::time::timeout(LOOK_EVERY, &mut sending).await {
                    Ok(result) => break result?,
                    Err(_) => self.check_age(&mut outdated)?,
                }
            }
            self.check_age(&mut outdated)?;
            tokio::task::coop::consume_budget().await;
        }
        Ok(())
    }

    /// Ends a reply that goes on although its metadata have been outdated for long.
    fn check_age(&self, outdated: &mut Option<Instant>) -> Result<(), ConnectionError> {
        if self.broker.image_changes.load(Ordering::Relaxed) == self.made_of {
            return Ok(());
        }
        match outdated.get_or_insert_with(Instant::now).elapsed() >= OUTDATED_PATIENCE {
            true => Err(ConnectionError::Outdated(self.head.api)),
            false => Ok(()),
        }
    }

    /// Encodes from `place` on into `window` until it has `most` bytes or all is written.
    fn fill(&self, window: &mut Vec<u8>, most: usize, place: &mut Place) -> Result<(), EncodeError> {
        while window.len() < most && place.part < self.items + 2 {
            let part = match place.part {
                0 => Part::Head,
                at if at <= self.items => Part::Item(at - 1),
                _ => Part::Tail,
            };
            let room = most - window.len();
            let mut sink = Window { out: window, skip: place.skip, room, seen: 0 };
            (self.encode)(part, &mut sink)?;
            if sink.seen > place.skip + room {
                place.skip += room;
            } else {
                *place = Place { part: place.part + 1, skip: 0 };
            }
        }
        Ok(())
    }
}

/// How far a reply in parts is: the part to encode next, counted from the head, and its bytes that were sent already.
struct Place {
    part: usize,
    skip: usize,
}

/// Bytes of a reply that is written while it comes about, under a lease that follows their capacity.
pub(crate) struct Growing {
    head: ReplyHead,
    bytes: Vec<u8>,
    lease: Option<Lease>,
    first_error: Option<i16>,
}

impl Growing {
    /// Begins with the frame's size, which [`Growing::finish`] sets, and the header.
    pub(crate) fn new(head: ReplyHead) -> Self {
        let mut bytes = Vec::with_capacity(FREE_REPLY_BYTES / 2);
        head.put(&mut bytes, 0);
        Growing { head, bytes, lease: None, first_error: None }
    }

    /// Whether it holds more than every connection may.
    pub(crate) fn is_leased(&self) -> bool {
        self.lease.is_some()
    }

    /// Appends what `encode` writes. Waits for memory where it needs more than it has: for the new block whole, while
    /// it still holds the old one, so the wait is bounded.
    pub(crate) async fn put(
        &mut self,
        replies: &Budget,
        encode: impl Fn(&mut dyn Sink) -> Result<(), EncodeError>,
    ) -> Result<(), ConnectionError> {
        let needed = self.bytes.len() + count(&encode)?;
        if needed > self.bytes.capacity() {
            let grown = needed.max(2 * self.bytes.capacity());
            let lease = match grown {
                0..=FREE_REPLY_BYTES => None,
                bytes => {
                    let holder = Holder::new("reply", self.head.connection);
                    Some(lease_patiently(replies, bytes as u64 + SEND_BYTES, holder).await?)
                }
            };
            self.bytes.reserve_exact(grown - self.bytes.len());
            self.lease = lease;
        }
        let mut watched = Watched { out: &mut self.bytes, first_error: self.first_error };
        encode(&mut watched)?;
        self.first_error = watched.first_error;
        Ok(())
    }

    /// The reply, with its size in front.
    pub(crate) fn finish(mut self) -> Reply {
        let size = (self.bytes.len() - 4) as i32;
        self.bytes[..4].copy_from_slice(&size.to_be_bytes());
        Reply {
            bytes: self.bytes,
            lease: self.lease,
            holding: Some(Holding::Replies),
            first_error: self.first_error,
            ..Reply::default()
        }
    }
}

/// A reply on its way: bytes, and between them file ranges that go by `sendfile`; or parts yet to be encoded.
#[derive(Default)]
pub(crate) struct Reply {
    bytes: Vec<u8>,
    parts: Option<Box<Parts>>,
    /// File ranges, each with the position in `bytes` before which it is sent; ascending.
    files: Vec<(usize, FileRange)>,
    /// Bytes that were sent already.
    sent: usize,
    lease: Option<Lease>,
    holding: Option<Holding>,
    /// The first error code in it, for the metrics.
    pub(crate) first_error: Option<i16>,
}

impl Reply {
    /// A reply that is smaller than what needs a lease.
    pub(crate) fn small(
        head: ReplyHead,
        encode: impl Fn(&mut dyn Sink) -> Result<(), EncodeError>,
    ) -> Result<Reply, ConnectionError> {
        let size = head.size_bytes() + count(&encode)?;
        debug_assert!(size <= SMALL_BYTES);
        Reply::write(head, None, size, &encode)
    }

    /// Sends what its reader takes without a wait, where it is made of bytes alone. True when that was all.
    pub(crate) fn try_send(&mut self, receiver: &Receiver) -> std::io::Result<bool> {
        if self.parts.is_some() || !self.files.is_empty() {
            return Ok(false);
        }
        self.sent = try_send(&receiver.stream, &self.bytes)?;
        receiver.state.active();
        Ok(self.sent == self.bytes.len())
    }

    /// What a reply without a lease must have to wait for its reader; where there is no memory now, the connection ends.
    pub(crate) fn lease_to_wait(
        &self,
        replies: &Budget,
        connection: u64,
    ) -> Result<Option<Lease>, BudgetError> {
        match (&self.lease, &self.parts) {
            (None, None) => {
                let bytes = self.bytes.len() as u64 + SEND_BYTES;
                replies.try_lease(bytes, Holder::new("unread reply", connection)).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Counts, leases and encodes a reply.
    pub(crate) async fn encode(
        replies: &Budget,
        head: ReplyHead,
        encode: impl Fn(&mut dyn Sink) -> Result<(), EncodeError>,
    ) -> Result<Reply, ConnectionError> {
        let size = head.size_bytes() + count(&encode)?;
        let lease = Reply::lease(replies, head, size).await?;
        Reply::write(head, lease, size, &encode)
    }

    /// Leases what a reply takes beyond what every connection may hold.
    async fn lease(replies: &Budget, head: ReplyHead, size: usize) -> Result<Option<Lease>, BudgetError> {
        if size <= SMALL_BYTES {
            return Ok(None);
        }
        let holder = Holder::new("reply", head.connection);
        lease_patiently(replies, size as u64 + SEND_BYTES, holder).await.map(Some)
    }

    fn write(
        head: ReplyHead,
        lease: Option<Lease>,
        size: usize,
        encode: &impl Fn(&mut dyn Sink) -> Result<(), EncodeError>,
    ) -> Result<Reply, ConnectionError> {
        let mut bytes = Vec::with_capacity(size);
        head.put(&mut bytes, size - head.size_bytes());
        let mut watched = Watched { out: &mut bytes, first_error: None };
        encode(&mut watched)?;
        let first_error = watched.first_error;
        Ok(Reply { bytes, lease, holding: Some(Holding::Replies), first_error, ..Reply::default() })
    }

    /// A reply made of parts; `lease` covers `bytes` and the list of files.
    pub(crate) fn with_files(
        bytes: Vec<u8>,
        files: Vec<(usize, FileRange)>,
        (lease, holding): (Option<Lease>, Holding),
        first_error: Option<i16>,
    ) -> Reply {
        Reply { bytes, files, lease, holding: Some(holding), first_error, ..Reply::default() }
    }

    /// Sends all of it; `lease` is one for the wait. Not cancel-safe: a cancelled send must end the connection.
    pub(crate) async fn send(self, receiver: &Receiver, lease: Option<Lease>) -> Result<(), ConnectionError> {
        if let Some(parts) = &self.parts {
            return parts.send(receiver).await;
        }
        let _held_until_the_end = &lease;
        let _owes_progress = self.holding.map(|holding| receiver.state.holds(holding));
        let mut sent = self.sent;
        for (before, range) in &self.files {
            send_bytes(&receiver.stream, &receiver.state, &self.bytes[sent..*before], true).await?;
            sent = *before;
            send_file(
                &receiver.stream,
                &receiver.state,
                range.file.as_fd(),
                range.position,
                u64::from(range.length),
            )
            .await?;
        }
        Ok(send_bytes(&receiver.stream, &receiver.state, &self.bytes[sent..], false).await?)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use weir_budget::{Budget, Holder};

    use super::*;

    #[test]
    fn a_reply_of_very_many_items_lets_others_have_their_turn_and_ends_when_it_can_never_fit() {
        let calls = std::cell::Cell::new(0);
        let encode = |_, w: &mut dyn Sink| -> Result<(), EncodeError> {
            calls.set(calls.get() + 1);
            w.put(&[0; 1000]);
            Ok(())
        };
        let turns = |items, most| {
            calls.set(0);
            let mut sink = Bounded::new(Vec::new(), 0);
            let mut work = std::pin::pin!(put_items(items, &encode, &mut sink, most));
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            let mut turns = 1;
            while work.as_mut().poll(&mut context).is_pending() {
                turns += 1;
            }
            turns
        };
        assert_eq!((turns(3, 10_000), calls.get()), (1, 5));
        let count = turns(1000, u64::MAX);
        assert!(count > 10, "{count}");
        assert_eq!(calls.get(), 1002);
        turns(1_000_000, 10_000);
        assert_eq!(calls.get(), 11, "one more than fit");
    }

    #[tokio::test]
    async fn work_that_goes_on_without_its_connection_keeps_its_memory() {
        let budget = Budget::root("work", 1000);
        let lease = budget.try_lease(600, Holder::new("test", 1)).unwrap();
        let (begun, begins) = mpsc::channel();
        let (go_on, goes_on) = mpsc::channel::<()>();
        let work = block_holding(lease, move || {
            begun.send(()).unwrap();
            goes_on.recv().unwrap_err();
        });
        let connection = tokio::spawn(work);
        // Not on this thread, which the connection's task needs.
        tokio::task::spawn_blocking(move || begins.recv().unwrap()).await.unwrap();
        connection.abort();
        assert!(connection.await.unwrap_err().is_cancelled());
        assert_eq!(budget.used(), 600, "the thread still works");
        drop(go_on);
        while budget.used() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}
