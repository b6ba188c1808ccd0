//! A control request while it is handled, and its reply.
//!
//! Method: frame and decoded values live under one lease, taken whole before the frame is received. A reply's size is
//! counted before it is encoded, and leased when it exceeds what every connection may hold. Invariant: a handler that
//! parks (a long poll, a join) first gives its request's lease back.

use std::os::fd::AsFd;
use std::sync::Arc;

use weir_budget::{Budget, Holder, Lease};
use weir_protocol::messages::ApiKey;
use weir_protocol::wire::{Counter, DecodeError, EncodeError, Reader, Sink, put_i32};
use weir_storage::FileRange;

use crate::broker::Broker;
use crate::connection::ConnectionError;
use crate::net::receive::{Receiver, SMALL_BYTES};
use crate::net::registry::{ConnectionState, Holding};
use crate::net::send::{send_bytes, send_file};

/// What decoding a frame of up to [`SMALL_BYTES`] bytes may allocate.
const SMALL_DECODE_BYTES: u64 = 15 * 1024;
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
        Request { broker, connection, api, version, correlation_id, client_id, body, lease }
    }

    /// Decodes the body, once: the frame's bytes are dropped. Leases more where the values need it and there is room.
    pub(crate) fn decode<T>(
        &mut self,
        decode: fn(&mut Reader<'_>, i16) -> Result<T, DecodeError>,
    ) -> Result<T, ConnectionError> {
        let body = std::mem::take(&mut self.body);
        loop {
            let limit = (self.lease.bytes() as usize).saturating_sub(body.len());
            let mut reader = Reader::new(&body, limit);
            match decode(&mut reader, self.version).and_then(|value| reader.finish().map(|()| value)) {
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
    }

    /// Leases memory for work whose size follows from the server's state, not from the request.
    pub(crate) async fn lease_work(&self, bytes: u64) -> Result<Lease, ConnectionError> {
        Ok(self.broker.budgets.control.lease(bytes, Holder::new(self.api.name(), self.connection.id)).await?)
    }

    /// Encodes a reply under a lease.
    pub(crate) async fn reply(
        &self,
        encode: impl Fn(&mut dyn Sink) -> Result<(), EncodeError>,
    ) -> Result<Reply, ConnectionError> {
        Reply::encode(&self.broker.budgets.control, self.head(), encode).await
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

/// A reply on its way: bytes, and between them file ranges that go by `sendfile`.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    bytes: Vec<u8>,
    /// File ranges, each with the position in `bytes` before which it is sent; ascending.
    files: Vec<(usize, FileRange)>,
    lease: Option<Lease>,
    holding: Option<Holding>,
}

impl Reply {
    /// Counts, leases and encodes a reply.
    pub(crate) async fn encode(
        control: &Budget,
        head: ReplyHead,
        encode: impl Fn(&mut dyn Sink) -> Result<(), EncodeError>,
    ) -> Result<Reply, ConnectionError> {
        let mut count = Counter::default();
        encode(&mut count)?;
        let size = head.size_bytes() + count.0;
        let lease = match size {
            0..=SMALL_BYTES => None,
            _ => Some(control.lease(size as u64, Holder::new("reply", head.connection)).await?),
        };
        let mut bytes = Vec::with_capacity(size);
        head.put(&mut bytes, count.0);
        encode(&mut bytes)?;
        Ok(Reply { bytes, files: Vec::new(), lease, holding: Some(Holding::Control) })
    }

    /// A reply made of parts; `lease` covers `bytes` and the list of files.
    pub(crate) fn with_files(bytes: Vec<u8>, files: Vec<(usize, FileRange)>, lease: Option<Lease>) -> Reply {
        Reply { bytes, files, lease, holding: Some(Holding::Fetch) }
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
