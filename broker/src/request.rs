//! A control request while it is handled, and its reply.
//!
//! Method: frame and decoded values live under one lease, taken whole before the frame is received. A reply's size is
//! counted before it is encoded, and leased when it exceeds what every connection may hold. Invariant: a handler that
//! parks (a long poll, a join) first gives its request's lease back.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use weir_budget::{Budget, BudgetError, Holder, Lease};
use weir_protocol::messages::{ApiKey, ErrorCode};
use weir_protocol::wire::{Counter, DecodeError, EncodeError, Reader, Sink, put_i32};
use weir_storage::FileRange;

use crate::broker::Broker;
use crate::connection::ConnectionError;
use crate::net::receive::{Receiver, SMALL_BYTES};
use crate::net::registry::{ConnectionState, Holding};
use crate::net::send::{send_bytes, send_file};

/// What decoding a frame of up to [`SMALL_BYTES`] bytes may allocate.
const SMALL_DECODE_BYTES: u64 = 15 * 1024;
/// What handling a request may take beside its decoded values without a lease of its own.
const SMALL_WORK_BYTES: usize = 8 * 1024;
/// What decoding may allocate for each byte of a larger frame; more is leased where an API needs it.
const DECODE_FACTOR: u64 = 6;

/// Bytes to lease for a frame and what is decoded from it.
pub(crate) fn lease_bytes(frame_bytes: usize) -> u64 {
    if frame_bytes <= SMALL_BYTES {
        SMALL_BYTES as u64 + SMALL_DECODE_BYTES
    } else {
        (frame_bytes as u64).saturating_mul(1 + DECODE_FACTOR) + SMALL_DECODE_BYTES
    }
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
    /// The client's name for itself; empty if it gave none.
    pub(crate) client_id: String,
    body: Vec<u8>,
    lease: Lease,
    work: Option<Lease>,
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
        Request { broker, connection, api, version, correlation_id, client_id, body, lease, work: None }
    }

    /// Decodes the body, once: the frame's bytes are dropped. Leases more where the values need it and there is room.
    /// Bytes behind the message are passed over, as in Kafka: librdkafka sends some in Metadata requests of version 13.
    pub(crate) fn decode<T>(
        &mut self,
        decode: fn(&mut Reader<'_>, i16) -> Result<T, DecodeError>,
    ) -> Result<T, ConnectionError> {
        let body = std::mem::take(&mut self.body);
        loop {
            let limit = (self.lease.bytes() as usize).saturating_sub(body.len());
            let mut reader = Reader::new(&body, limit);
            // What may follow the last field is passed over, as Kafka does: librdkafka's request for the metadata of all
            // topics ends with three bytes too many.
            match decode(&mut reader, self.version) {
                Ok(value) => return Ok(value),
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

    /// Gives the request's memory back before a wait. The decoded value must be gone or leased otherwise by then.
    pub(crate) fn park(&mut self) {
        self.lease.shrink_to(0);
        self.work = None;
    }

    /// Leases memory for work whose size follows from the server's state, not from the request. Waits for as long as
    /// [`PATIENCE`].
    pub(crate) async fn lease_work(&self, bytes: u64) -> Result<Lease, ConnectionError> {
        let holder = Holder::new(self.api.name(), self.connection.id);
        Ok(lease_patiently(&self.broker.budgets.control, bytes, holder).await?)
    }

    /// Leases memory for work that follows from the request, until it is answered or parked; a little needs no lease
    /// beside the request's own.
    pub(crate) async fn lease_more(&mut self, bytes: usize) -> Result<(), ConnectionError> {
        if bytes > SMALL_WORK_BYTES {
            self.work = Some(self.lease_work(bytes as u64).await?);
        }
        Ok(())
    }

    /// Encodes a reply under a lease.
    pub(crate) async fn reply(
        &self,
        encode: impl Fn(&mut dyn Sink) -> Result<(), EncodeError>,
    ) -> Result<Reply, ConnectionError> {
        Reply::encode(&self.broker.budgets.control, self.head(), encode).await
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
            match self.broker.budgets.control.try_lease(size as u64, Holder::new("reply", head.connection)) {
                Ok(lease) => Some(lease),
                Err(_) => return Ok(Tried::Needs(size as u64)),
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
        let head = self.head();
        let mut counter = Counter::default();
        body(&mut counter)?;
        loop {
            let room = counter.0 + counter.0 / 8 + FRONT_BYTES;
            let lease = match FRONT_BYTES + room {
                0..=SMALL_BYTES => None,
                size => {
                    let holder = Holder::new("reply", head.connection);
                    Some(lease_patiently(&self.broker.budgets.control, size as u64, holder).await?)
                }
            };
            let mut bytes = Vec::with_capacity(FRONT_BYTES + room);
            bytes.resize(FRONT_BYTES, 0);
            let mut sink =
                Bounded { bytes, limit: FRONT_BYTES + room, wanted: FRONT_BYTES, first_error: None };
            let told = body(&mut sink)?;
            if sink.wanted > sink.limit {
                counter.0 = sink.wanted;
                continue;
            }
            let Bounded { mut bytes, mut first_error, .. } = sink;
            let body_bytes = bytes.len() - FRONT_BYTES;
            let mut fore = Vec::with_capacity(FRONT_BYTES);
            let mut watched = Watched { out: &mut fore, first_error: None };
            front(&mut watched, told)?;
            first_error = watched.first_error.or(first_error);
            let mut start = Vec::with_capacity(FRONT_BYTES);
            head.put(&mut start, fore.len() + body_bytes);
            start.extend_from_slice(&fore);
            debug_assert!(start.len() <= FRONT_BYTES);
            let from = FRONT_BYTES - start.len();
            bytes[from..FRONT_BYTES].copy_from_slice(&start);
            bytes.drain(..from);
            let holding = Some(Holding::Control);
            return Ok(Reply { bytes, files: Vec::new(), lease, holding, first_error });
        }
    }

    /// Encodes a reply part by part under a lease, as [`Reply::encode_parts`] does.
    pub(crate) async fn reply_in_parts(
        &self,
        items: usize,
        encode: impl Fn(Part, &mut dyn Sink) -> Result<(), EncodeError>,
    ) -> Result<Reply, ConnectionError> {
        Reply::encode_parts(&self.broker.budgets.control, self.head(), items, encode).await
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

/// Longest wait of a request for more of the control share than it has.
const PATIENCE: Duration = Duration::from_secs(10);

/// Leases from the control share for a request that may hold some of it already. The wait is bounded: requests that
/// hold parts of the share and wait for each other's would else wait for ever.
pub(crate) async fn lease_patiently(
    control: &Budget,
    bytes: u64,
    holder: Holder,
) -> Result<Lease, BudgetError> {
    match tokio::time::timeout(PATIENCE, control.lease(bytes, holder)).await {
        Ok(leased) => leased,
        Err(_) => control.try_lease(bytes, holder),
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

/// Items that are encoded before other tasks get a turn.
const ITEMS_IN_A_ROW: usize = 16;

async fn walk_parts<S: Sink>(
    items: usize,
    encode: &impl Fn(Part, &mut dyn Sink) -> Result<(), EncodeError>,
    sink: &mut S,
) -> Result<(), EncodeError> {
    encode(Part::Head, sink)?;
    for item in 0..items {
        if item % ITEMS_IN_A_ROW == ITEMS_IN_A_ROW - 1 {
            tokio::task::yield_now().await;
        }
        encode(Part::Item(item), sink)?;
    }
    encode(Part::Tail, sink)
}

/// A reply on its way: bytes, and between them file ranges that go by `sendfile`.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    bytes: Vec<u8>,
    /// File ranges, each with the position in `bytes` before which it is sent; ascending.
    files: Vec<(usize, FileRange)>,
    lease: Option<Lease>,
    holding: Option<Holding>,
    /// The first error code in it, for the metrics.
    pub(crate) first_error: Option<i16>,
}

impl Reply {
    /// Counts, leases and encodes a reply.
    pub(crate) async fn encode(
        control: &Budget,
        head: ReplyHead,
        encode: impl Fn(&mut dyn Sink) -> Result<(), EncodeError>,
    ) -> Result<Reply, ConnectionError> {
        let size = head.size_bytes() + count(&encode)?;
        let lease = Reply::lease(control, head, size).await?;
        Reply::write(head, lease, size, &encode)
    }

    /// As [`Reply::encode`] under a lease that is held already, where it is large enough.
    pub(crate) async fn encode_under(
        control: &Budget,
        head: ReplyHead,
        held: Option<Lease>,
        encode: impl Fn(&mut dyn Sink) -> Result<(), EncodeError>,
    ) -> Result<Reply, ConnectionError> {
        let size = head.size_bytes() + count(&encode)?;
        let lease = match held {
            Some(held) if held.bytes() >= size as u64 => Some(held),
            _ => Reply::lease(control, head, size).await?,
        };
        Reply::write(head, lease, size, &encode)
    }

    /// Leases what a reply takes beyond what every connection may hold.
    async fn lease(control: &Budget, head: ReplyHead, size: usize) -> Result<Option<Lease>, BudgetError> {
        if size <= SMALL_BYTES {
            return Ok(None);
        }
        lease_patiently(control, size as u64, Holder::new("reply", head.connection)).await.map(Some)
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
        Ok(Reply { bytes, files: Vec::new(), lease, holding: Some(Holding::Control), first_error })
    }

    /// As [`Reply::encode`], for replies that are made of many items, each described while it is encoded: memory is that
    /// of the encoded bytes and of one item, and other tasks get their turn between items. `encode` must write the same
    /// bytes each time it is called for a part.
    pub(crate) async fn encode_parts(
        control: &Budget,
        head: ReplyHead,
        items: usize,
        encode: impl Fn(Part, &mut dyn Sink) -> Result<(), EncodeError>,
    ) -> Result<Reply, ConnectionError> {
        let mut count = Counter::default();
        walk_parts(items, &encode, &mut count).await?;
        let size = head.size_bytes() + count.0;
        let lease = Reply::lease(control, head, size).await?;
        let mut bytes = Vec::with_capacity(size);
        head.put(&mut bytes, count.0);
        let mut watched = Watched { out: &mut bytes, first_error: None };
        walk_parts(items, &encode, &mut watched).await?;
        let first_error = watched.first_error;
        Ok(Reply { bytes, files: Vec::new(), lease, holding: Some(Holding::Control), first_error })
    }

    /// A reply made of parts; `lease` covers `bytes` and the list of files.
    pub(crate) fn with_files(
        bytes: Vec<u8>,
        files: Vec<(usize, FileRange)>,
        lease: Option<Lease>,
        first_error: Option<i16>,
    ) -> Reply {
        Reply { bytes, files, lease, holding: Some(Holding::Fetch), first_error }
    }

    /// Sends all of it. Not cancel-safe: a cancelled send must end the connection.
    pub(crate) async fn send(self, receiver: &Receiver) -> std::io::Result<()> {
        let _owes_progress = match (&self.lease, self.holding) {
            (Some(_), Some(holding)) => Some(receiver.state.holds(holding)),
            _ => None,
        };
        let mut sent = 0;
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
        send_bytes(&receiver.stream, &receiver.state, &self.bytes[sent..], false).await
    }
}
