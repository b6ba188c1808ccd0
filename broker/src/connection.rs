//! One connection: frames in, replies out, in order.
//!
//! Method: one task reads a frame's size and header, streams a produce request through its handler, receives any
//! other request whole under a lease, and sends the reply before it looks at the next frame, as Kafka does.
//! Invariant: a handler's future is on the heap only while it runs, so an idle connection costs its task, its socket
//! and nothing else.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use tokio::net::TcpStream;
use weir_budget::{BudgetError, Holder};
use weir_protocol::messages::{ApiKey, ErrorCode, RequestHeader};
use weir_protocol::wire::{DecodeError, EncodeError, Reader};

use crate::broker::Broker;
use crate::handlers::{self, k00_produce, k18_api_versions};
use crate::net::frame::{Frame, FrameError};
use crate::net::receive::{ReceiveError, Receiver, SMALL_BYTES};
use crate::net::registry::{Holding, Registered};
use crate::net::sniff::foreign_protocol;
use crate::request::{Reply, Request, lease_bytes};

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
    /// A reply did not come out as it was counted: our fault.
    #[error("a reply to {0:?} has another size than was told")]
    ReplyChanged(ApiKey),
}

impl From<FrameError> for ConnectionError {
    fn from(error: FrameError) -> Self {
        match error {
            FrameError::Receive(error) => ConnectionError::Receive(error),
            malformed @ FrameError::Malformed { .. } => ConnectionError::Frame(malformed),
        }
    }
}

/// Serves `stream` until it ends.
pub(crate) async fn serve(broker: Arc<Broker>, registered: Registered, stream: TcpStream) {
    let state = Arc::clone(&registered.state);
    let budgets = &broker.budgets;
    let mut receiver =
        Receiver::new(stream, Arc::clone(&state), budgets.windows.clone(), broker.pool.clone());
    let Err(error) = run(&broker, &mut receiver).await else { return };
    match error {
        ConnectionError::Receive(_) | ConnectionError::Io(_) => {
            tracing::debug!(connection = state.id, peer = %state.peer, "connection ended: {error}");
        }
        ConnectionError::Encode(_) | ConnectionError::ReplyChanged(_) => {
            tracing::error!(connection = state.id, peer = %state.peer, "closing the connection: {error}");
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

/// The loop over frames; returns when the peer has closed between two of them.
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
        receiver.consume(4);
        broker.metrics.requests.inc();
        serve_frame(broker, receiver, size as usize).await?;
    }
}

async fn serve_frame(
    broker: &Arc<Broker>,
    receiver: &mut Receiver,
    size: usize,
) -> Result<(), ConnectionError> {
    receiver.ensure(8).await?;
    let head = receiver.available();
    let key = i16::from_be_bytes([head[0], head[1]]);
    let version = i16::from_be_bytes([head[2], head[3]]);
    let correlation_id = i32::from_be_bytes([head[4], head[5], head[6], head[7]]);
    let not_served = ConnectionError::NotServed { key, version };
    let Some(api) = ApiKey::from_code(key) else { return Err(not_served) };
    let Some(range) = handlers::served(api) else { return Err(not_served) };
    if !range.contains(version) {
        if api == ApiKey::ApiVersions {
            // An unknown version may have any header and body; the answer tells the versions that are known.
            receiver.skip(size).await?;
            let reply =
                k18_api_versions::unsupported_version(broker, receiver.state.id, correlation_id).await?;
            broker.metrics.apis.answered(api, reply.first_error);
            return reply.send(receiver).await;
        }
        return Err(not_served);
    }
    let began = Instant::now();
    broker.metrics.apis.began(api, version);
    let served = serve_request(broker, receiver, api, size).await;
    broker.metrics.apis.ended(api, began.elapsed(), served.is_ok());
    served
}

/// Receives the request of `api` in a frame of `size` bytes, and answers it.
async fn serve_request(
    broker: &Arc<Broker>,
    receiver: &mut Receiver,
    api: ApiKey,
    size: usize,
) -> Result<(), ConnectionError> {
    if api == ApiKey::Produce {
        let frame = Frame::new(receiver, size);
        let reply = Box::pin(k00_produce::stream(broker, frame)).await?;
        receiver.release_if_empty();
        return answer(broker, receiver, api, reply).await;
    }
    let request = receive(broker, receiver, api, size).await?;
    receiver.release_if_empty();
    let handling = handlers::dispatch(request);
    let reply = if matches!(api, ApiKey::JoinGroup | ApiKey::SyncGroup) {
        // These wait for other members, for minutes perhaps: a member whose connection goes must not be waited for.
        tokio::select! {
            reply = handling => reply?,
            () = receiver.peer_gone() => return Err(ReceiveError::Closed.into()),
        }
    } else {
        handling.await?
    };
    receiver.state.active();
    answer(broker, receiver, api, reply).await
}

/// The property of a limit that an error code tells of.
fn limit_behind(api: ApiKey, code: i16) -> Option<&'static str> {
    match (api, ErrorCode(code)) {
        (ApiKey::Produce, ErrorCode::MESSAGE_TOO_LARGE) => Some("max.message.bytes"),
        (ApiKey::JoinGroup, ErrorCode::GROUP_MAX_SIZE_REACHED) => Some("group.max.size"),
        (ApiKey::OffsetCommit, ErrorCode::OFFSET_METADATA_TOO_LARGE) => Some("offset.metadata.max.bytes"),
        _ => None,
    }
}

/// Sends a reply, and counts what it tells.
async fn answer(
    broker: &Broker,
    receiver: &Receiver,
    api: ApiKey,
    reply: Option<Reply>,
) -> Result<(), ConnectionError> {
    let Some(reply) = reply else { return Ok(()) };
    broker.metrics.apis.answered(api, reply.first_error);
    if let Some(property) = reply.first_error.and_then(|code| limit_behind(api, code)) {
        let (id, peer) = (receiver.state.id, receiver.state.peer);
        broker.limit_reached(
            property,
            &format_args!("refused a {} request of {peer}, connection {id}", api.name()),
        );
    }
    reply.send(receiver).await
}

/// Receives a whole request under a lease and decodes its header.
async fn receive(
    broker: &Arc<Broker>,
    receiver: &mut Receiver,
    api: ApiKey,
    size: usize,
) -> Result<Request, ConnectionError> {
    let id = receiver.state.id;
    let share = if size <= SMALL_BYTES { &broker.budgets.small } else { &broker.budgets.control };
    let mut frame = Vec::new();
    let lease;
    if size <= SMALL_BYTES {
        // Complete before it is leased: the small buffer may wait for the peer, a lease may not.
        receiver.ensure(size).await?;
        lease = share.lease(lease_bytes(size), Holder::new(api.name(), id)).await?;
        frame.extend_from_slice(&receiver.available()[..size]);
        receiver.consume(size);
    } else {
        lease = share.lease(lease_bytes(size), Holder::new(api.name(), id)).await?;
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
