//! One connection: frames in, replies out, in order.
//!
//! Method: one task reads a frame's size and header, streams a produce request through its handler, receives any
//! other request whole under a lease, and sends the reply before it looks at the next frame, as Kafka does.
//! Invariants: a handler's future is on the heap only while it runs, so an idle connection costs its task, its socket
//! and nothing else; what waits for the peer beyond the plan's charge of a connection holds a lease.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use tokio::net::TcpStream;
use weir_budget::{BudgetError, Holder, Lease};
use weir_protocol::messages::{ApiKey, ErrorCode, RequestHeader};
use weir_protocol::wire::{DecodeError, EncodeError, Reader};

use crate::broker::Broker;
use crate::handlers::{self, Handling, k00_produce, k18_api_versions};
use crate::metrics::Took;
use crate::net::frame::{Frame, FrameError};
use crate::net::receive::{ReceiveError, Receiver, SMALL_BYTES};
use crate::net::registry::{ConnectionState, Holding, Registered};
use crate::net::sniff::foreign_protocol;
use crate::request::{FREE_REPLY_BYTES, Reply, Request, lease_bytes};

/// Lease of a produce request while it is received, beside its batches: its future, and the first of its answer.
const STREAM_BYTES: u64 = 1536 + FREE_REPLY_BYTES as u64;

/// Why a connection ends before its peer closed it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectionError {
    /// The peer closed or the socket failed.
    #[error(transparent)]
    Receive(#[from] ReceiveError),
    /// Sending failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Not Kafka's protocol.
    #[error("the peer speaks {0}, not the Kafka protocol")]
    Foreign(&'static str),
    /// The size prefix is out of range.
    #[error("a frame of {size} bytes is outside of 1..={limit} (socket.request.max.bytes)")]
    FrameSize {
        /// The prefix.
        size: i32,
        /// `socket.request.max.bytes`.
        limit: i32,
    },
    /// The request's API is not served.
    #[error("api key {key} version {version} is not served")]
    NotServed {
        /// The key in the header.
        key: i16,
        /// The version in the header.
        version: i16,
    },
    /// A streamed request is malformed.
    #[error("{0}")]
    Frame(FrameError),
    /// A request is malformed.
    #[error("{api:?} request of version {version}: {error}")]
    Decode {
        /// Which API.
        api: ApiKey,
        /// Which version.
        version: i16,
        /// What is wrong.
        error: DecodeError,
    },
    /// The header is malformed.
    #[error("request header: {0}")]
    Header(DecodeError),
    /// A batch sent with acks=0 was refused: the end of the connection is all that tells the client.
    #[error("a produce request with acks=0 was refused: {0:?}")]
    Unacknowledged(ErrorCode),
    /// A request or reply that can never fit its share, or not now where it may not wait.
    #[error("{0}; raise memory.budget.bytes or ask for less in one request")]
    Budget(#[from] BudgetError),
    /// A reply that cannot be expressed in the request's version: our fault.
    #[error("reply: {0}")]
    Encode(#[from] EncodeError),
    /// A reply that no frame can hold: the request names very often what takes much to tell.
    #[error("a reply to {0:?} would be larger than any frame; ask for less in one request")]
    TooLarge(ApiKey),
    /// A reply did not come out as it was counted: our fault.
    #[error("a reply to {0:?} has another size than was told")]
    ReplyChanged(ApiKey),
    /// A reply was made of metadata that have changed since, and its reader is slow.
    #[error("a reply to {0:?} is not read, and the metadata it is made of are outdated")]
    Outdated(ApiKey),
}

impl From<FrameError> for ConnectionError {
    fn from(error: FrameError) -> Self {
        match error {
            FrameError::Receive(error) => ConnectionError::Receive(error),
            malformed @ FrameError::Malformed { .. } => ConnectionError::Frame(malformed),
        }
    }
}

/// What a connection's task owns; dropped in this order, so that a connection counts until all else of it is gone.
struct Connection {
    receiver: Receiver,
    broker: Arc<Broker>,
    registered: Registered,
}

/// Serves `stream` until it ends. Not an `async fn`, whose future would hold its arguments twice.
pub(crate) fn serve(
    broker: Arc<Broker>,
    registered: Registered,
    stream: TcpStream,
) -> impl Future<Output = ()> + Send {
    let (windows, pool) = (broker.budgets.windows.clone(), broker.window_pool.clone());
    let receiver = Receiver::new(stream, Arc::clone(&registered.state), windows, pool);
    let mut connection = Connection { receiver, broker, registered };
    async move {
        let Connection { receiver, broker, registered } = &mut connection;
        if let Err(error) = run(broker, receiver).await {
            note_end(broker, &registered.state, error);
        }
    }
}

/// Says why a connection ends.
fn note_end(broker: &Broker, state: &ConnectionState, error: ConnectionError) {
    match error {
        ConnectionError::Receive(_) | ConnectionError::Io(_) => {
            tracing::debug!(connection = state.id, peer = %state.peer, "connection ended: {error}");
        }
        ConnectionError::Encode(_) | ConnectionError::ReplyChanged(_) => {
            // A client can bring it about by texts that an error repeats: no more lines than of other complaints.
            if let Some(unsaid) = broker.complaints.allow() {
                tracing::error!(
                    connection = state.id, peer = %state.peer, unsaid,
                    "closing the connection: {error}",
                );
            }
        }
        error @ (ConnectionError::FrameSize { .. } | ConnectionError::Budget(_)) => {
            let property = match error {
                ConnectionError::FrameSize { .. } => "socket.request.max.bytes",
                _ => "memory.budget.bytes",
            };
            let (id, peer) = (state.id, state.peer);
            broker.limit_reached(property, &format_args!("closing connection {id} of {peer}: {error}"));
        }
        error => {
            if matches!(error, ConnectionError::Foreign(_)) {
                broker.metrics.foreign_protocols.inc();
            }
            if let Some(unsaid) = broker.complaints.allow() {
                let listener = broker.listener_name(state.listener);
                tracing::warn!(
                    connection = state.id, peer = %state.peer, listener, unsaid,
                    "closing the connection: {error}",
                );
            }
        }
    }
}

/// The loop over frames; returns when the peer has closed between two of them. Its future is what an idle connection
/// costs: whatever takes more is on the heap while it runs, under a lease where it waits for the peer.
async fn run(broker: &Arc<Broker>, receiver: &mut Receiver) -> Result<(), ConnectionError> {
    let mut first = true;
    loop {
        if let Err(error) = receiver.ensure(4).await {
            return match error {
                ReceiveError::Closed if receiver.available().is_empty() => Ok(()),
                error => Err(error.into()),
            };
        }
        receiver.state.active();
        let mut prefix = [0; 4];
        prefix.copy_from_slice(&receiver.available()[..4]);
        if first && let Some(protocol) = foreign_protocol(prefix) {
            return Err(ConnectionError::Foreign(protocol));
        }
        first = false;
        let size = i32::from_be_bytes(prefix);
        let limit = broker.socket_request_max_bytes;
        if size < 8 || size > limit {
            return Err(ConnectionError::FrameSize { size, limit });
        }
        let size = size as usize;
        receiver.consume(4);
        broker.metrics.requests.inc();
        // A small frame is complete before anything is made for it: the small buffer may wait for the peer.
        receiver.ensure(if size <= SMALL_BYTES { size } else { 8 }).await?;
        let Head { api, version, correlation_id } = Head::of(receiver.available())?;
        let served = handlers::served(api).is_some_and(|range| range.contains(version));
        if !served {
            // An unknown version may have any header and body; the answer tells the versions that are known.
            receiver.skip(size).await?;
            let reply = k18_api_versions::unsupported_version(correlation_id)?;
            answer(broker, receiver, api, Some(reply)).await?;
            continue;
        }
        broker.metrics.apis.began(api, version);
        let took = match api {
            ApiKey::Produce => serve_produce(broker, receiver, size).await,
            _ => serve_request(broker, receiver, api, size).await,
        };
        broker.metrics.apis.ended(api, took.as_ref().ok().copied());
        took?;
    }
}

/// What a frame begins with.
struct Head {
    api: ApiKey,
    version: i16,
    correlation_id: i32,
}

impl Head {
    /// Of an API that is served, in a version that is served or (ApiVersions only) not.
    fn of(bytes: &[u8]) -> Result<Head, ConnectionError> {
        let &[k0, k1, v0, v1, c0, c1, c2, c3, ..] = bytes else {
            return Err(ConnectionError::Receive(ReceiveError::Closed));
        };
        let (key, version) = (i16::from_be_bytes([k0, k1]), i16::from_be_bytes([v0, v1]));
        let correlation_id = i32::from_be_bytes([c0, c1, c2, c3]);
        let api = ApiKey::from_code(key).filter(|api| {
            let range = handlers::served(*api);
            range.is_some_and(|range| range.contains(version) || *api == ApiKey::ApiVersions)
        });
        match api {
            Some(api) => Ok(Head { api, version, correlation_id }),
            None => Err(ConnectionError::NotServed { key, version }),
        }
    }
}

/// Receives a produce request in a frame of `size` bytes, and answers it.
async fn serve_produce(
    broker: &Arc<Broker>,
    receiver: &mut Receiver,
    size: usize,
) -> Result<Took, ConnectionError> {
    let began = Instant::now();
    // One that has arrived whole waits for nobody between its batches.
    let lease = match receiver.available().len() >= size {
        true => None,
        false => {
            Some(broker.budgets.streams.lease(STREAM_BYTES, Holder::new("produce", receiver.state.id)).await?)
        }
    };
    let reply = Box::pin(stream(broker, receiver, size, lease)).await?;
    receiver.release_if_empty();
    let local_us = micros(began);
    let send_us = answer(broker, receiver, ApiKey::Produce, reply).await?;
    Ok(Took { local_us, send_us, ..Took::default() })
}

/// Streams a produce request under a lease for what it takes beside its batches.
async fn stream(
    broker: &Arc<Broker>,
    receiver: &mut Receiver,
    size: usize,
    lease: Option<Lease>,
) -> Result<Option<Reply>, ConnectionError> {
    let _owes_progress = lease.is_some().then(|| receiver.state.holds(Holding::Stream));
    k00_produce::stream(broker, Frame::new(receiver, size)).await
}

/// Receives a request of `api` in a frame of `size` bytes, and answers it.
async fn serve_request(
    broker: &Arc<Broker>,
    receiver: &mut Receiver,
    api: ApiKey,
    size: usize,
) -> Result<Took, ConnectionError> {
    let began = Instant::now();
    let share = if size <= SMALL_BYTES { &broker.budgets.small } else { &broker.budgets.control };
    let lease = share.lease(lease_bytes(api, size), Holder::new(api.name(), receiver.state.id)).await?;
    let request = Box::pin(receive(broker, receiver, api, size, lease)).await?;
    receiver.release_if_empty();
    let queue_us = micros(began);
    let began = Instant::now();
    let handling = handlers::dispatch(request);
    let reply = match api {
        // These wait for members or records, for minutes perhaps: one whose peer has gone must not keep its place.
        ApiKey::JoinGroup | ApiKey::SyncGroup | ApiKey::Fetch => {
            Box::pin(unless_gone(handling, receiver)).await?
        }
        _ => handling.await?,
    };
    receiver.state.active();
    let remote_us = receiver.state.take_waited_us();
    let local_us = micros(began).saturating_sub(remote_us);
    let send_us = answer(broker, receiver, api, reply).await?;
    Ok(Took { queue_us, local_us, remote_us, send_us })
}

/// Waits for the handler, unless the peer goes before it is done.
pub(crate) async fn unless_gone(
    handling: Handling,
    receiver: &Receiver,
) -> Result<Option<Reply>, ConnectionError> {
    tokio::select! {
        // First, so that what is answered at once costs no look at the socket.
        biased;
        reply = handling => reply,
        () = receiver.peer_gone() => Err(ReceiveError::Closed.into()),
    }
}

fn micros(since: Instant) -> u32 {
    u32::try_from(since.elapsed().as_micros()).unwrap_or(u32::MAX)
}

/// The property of a limit that an error code tells of.
fn limit_behind(api: ApiKey, code: i16) -> Option<&'static str> {
    match (api, ErrorCode(code)) {
        (ApiKey::JoinGroup, ErrorCode::GROUP_MAX_SIZE_REACHED) => Some("group.max.size"),
        (ApiKey::OffsetCommit, ErrorCode::OFFSET_METADATA_TOO_LARGE) => Some("offset.metadata.max.bytes"),
        _ => None,
    }
}

/// Sends a reply, and counts what it tells. Returns the microseconds that took.
async fn answer(
    broker: &Broker,
    receiver: &Receiver,
    api: ApiKey,
    reply: Option<Reply>,
) -> Result<u32, ConnectionError> {
    let Some(mut reply) = reply else { return Ok(0) };
    note_answer(broker, receiver, api, reply.first_error);
    let began = Instant::now();
    if !reply.try_send(receiver)? {
        let lease = reply.lease_to_wait(&broker.budgets.replies, receiver.state.id)?;
        Box::pin(reply.send(receiver, lease)).await?;
    }
    Ok(micros(began))
}

fn note_answer(broker: &Broker, receiver: &Receiver, api: ApiKey, first_error: Option<i16>) {
    broker.metrics.apis.answered(api, first_error);
    if let Some(property) = first_error.and_then(|code| limit_behind(api, code)) {
        let (id, peer) = (receiver.state.id, receiver.state.peer);
        let what = format_args!("refused a {} request of {peer}, connection {id}", api.name());
        broker.limit_reached(property, &what);
    }
}

/// Receives a whole request under a lease and decodes its header.
async fn receive(
    broker: &Arc<Broker>,
    receiver: &mut Receiver,
    api: ApiKey,
    size: usize,
    lease: Lease,
) -> Result<Request, ConnectionError> {
    let mut frame = Vec::new();
    if size <= SMALL_BYTES {
        frame.extend_from_slice(&receiver.available()[..size]);
        receiver.consume(size);
    } else {
        let _owes_progress = receiver.state.holds(Holding::Control);
        receiver.read_into(&mut frame, size).await?;
    }
    let version = i16::from_be_bytes([frame[2], frame[3]]);
    let mut reader = Reader::new(&frame, SMALL_BYTES + frame.len());
    let header = RequestHeader::decode(&mut reader, api.request_header_version(version))
        .map_err(ConnectionError::Header)?;
    let body_start = reader.position();
    frame.drain(..body_start);
    let client_id = header.client_id.unwrap_or_default();
    let head = (api, version, header.correlation_id, client_id);
    Ok(Request::new(Arc::clone(broker), Arc::clone(&receiver.state), head, frame, lease))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size_of_task<A, B, C, F>(_: impl Fn(A, B, C) -> F) -> usize {
        size_of::<F>()
    }

    fn size_of_stream<'a, F>(
        _: impl Fn(&'a Arc<Broker>, &'a mut Receiver, usize, Option<Lease>) -> F,
    ) -> usize {
        size_of::<F>()
    }

    fn size_of_wait<'a, F>(_: impl Fn(Handling, &'a Receiver) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn a_connection_fits_in_its_charge() {
        // The runtime's: a task beside its future, a socket's registration. Ours: state, entry in the registry.
        const RUNTIME_BYTES: usize = 128 + 256;
        const STATE_BYTES: usize =
            size_of::<crate::net::registry::ConnectionState>() + 16 + 64 + size_of::<TcpStream>() + 16;
        let task = size_of_task(serve);
        let sum = task + RUNTIME_BYTES + STATE_BYTES + SMALL_BYTES;
        assert!(sum as u64 <= crate::plan::CONNECTION_BYTES, "task {task}, sum {sum}");
    }

    #[test]
    fn a_produce_request_between_batches_fits_in_its_lease() {
        let stream = size_of_stream(stream);
        assert!(stream + FREE_REPLY_BYTES <= STREAM_BYTES as usize, "{stream}");
    }

    #[test]
    fn a_member_that_waits_is_charged_with_the_look_at_its_peer_too() {
        let wait = size_of_wait(unless_gone);
        assert!(wait <= crate::handlers::LOOK_BYTES, "{wait}");
    }
}
