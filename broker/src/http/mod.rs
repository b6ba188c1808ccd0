//! What operators see: `/metrics`, `/memory`, `/health` and a page that draws the budgets, on `http.listener`.
//!
//! Method: at most [`MAX_CONNECTIONS`] connections, each for one request with a small head, cut off after
//! [`CONNECTION_DEADLINE`]. A document is rendered into a buffer of fixed size under a lease of the `http` budget and
//! keeps a lease of its own size until its last byte is sent or its reader is cut off; `/metrics`, which grows with the
//! partitions, is written piece by piece while it is sent.
//!
//! Invariant: whatever clients of this side do, it takes no more than the base term of the plan has for it.

mod document;
mod health;
mod memory_page;
mod metrics_page;
mod own_metrics;
pub(crate) mod process;
mod text;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use weir_budget::Holder;

use crate::broker::Broker;
use crate::net::listener::{SocketOptions, bind};
use crate::server::ServerError;
use document::Document;
use text::{PAGE_BYTES, Page};

/// Connections served at once; further ones wait in the kernel.
const MAX_CONNECTIONS: usize = 8;
/// Connections that the kernel may keep waiting.
const BACKLOG: i32 = 32;
/// Time from accept to the end of the connection.
const CONNECTION_DEADLINE: Duration = Duration::from_secs(15);
/// Time that the head of a request may take.
const HEAD_DEADLINE: Duration = Duration::from_secs(5);
/// Time that a request may wait for the memory of its document.
const MEMORY_PATIENCE: Duration = Duration::from_secs(2);
/// Bytes of a connection's buffer, the least that the library takes; a larger head is refused.
const HEAD_BYTES: usize = 8192;
/// Rest after the system refused to accept.
const REST: Duration = Duration::from_millis(100);

const PAGE: &str = include_str!("page.html");
const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";
/// Prometheus' text format.
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Opens the listener that `http.listener` names, if it names one.
pub(crate) async fn open(address: Option<(String, u16)>) -> Result<Option<TcpListener>, ServerError> {
    let Some((host, port)) = address else { return Ok(None) };
    let options = SocketOptions { backlog: BACKLOG, send_buffer_bytes: -1, receive_buffer_bytes: -1 };
    let socket = bind(&host, port, options)
        .await
        .map_err(|error| ServerError::HttpListener { address: format!("{host}:{port}"), error })?;
    Ok(Some(socket))
}

/// Serves until the task is ended.
pub(crate) async fn serve(broker: Arc<Broker>, listener: TcpListener) {
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, peer)) => {
                tokio::spawn(serve_connection(Arc::clone(&broker), stream, peer, slot));
            }
            Err(error) => {
                if let Some(unsaid) = broker.complaints.allow() {
                    tracing::error!(listener = "http.listener", unsaid, "cannot accept: {error}");
                }
                tokio::time::sleep(REST).await;
            }
        }
    }
}

async fn serve_connection(
    broker: Arc<Broker>,
    stream: TcpStream,
    peer: SocketAddr,
    _slot: OwnedSemaphorePermit,
) {
    let service = service_fn(|request| {
        let broker = Arc::clone(&broker);
        async move { Ok::<_, Infallible>(answer(&broker, &request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_DEADLINE)
        .keep_alive(false)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    match tokio::time::timeout(CONNECTION_DEADLINE, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%peer, "http connection ended: {error}"),
        Err(_) => tracing::debug!(%peer, "http connection cut off after {CONNECTION_DEADLINE:?}"),
    }
}

/// What is sent: bytes that are there, or pieces as they come.
enum Content {
    Whole(Bytes),
    Pieces(mpsc::Receiver<Bytes>),
}

impl Body for Content {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Content::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Content::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Content::Pieces(pieces) => pieces.poll_recv(context).map(|piece| Some(Ok(Frame::data(piece?)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Content::Whole(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Content::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Content::Pieces(_) => SizeHint::default(),
        }
    }
}

async fn answer(broker: &Arc<Broker>, request: &Request<Incoming>) -> Response<Content> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut refused = plain(StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET is served here\n");
        refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refused;
    }
    match request.uri().path() {
        "/" => plain(StatusCode::OK, HTML, PAGE),
        "/metrics" => metrics(broker).await,
        "/memory" => {
            rendered(broker, JSON, |document| memory_page::render(broker, document).map(|()| StatusCode::OK))
                .await
        }
        "/health" => rendered(broker, JSON, |document| health::render(broker, document)).await,
        _ => plain(
            StatusCode::NOT_FOUND,
            TEXT,
            "here are /, /metrics (Prometheus), /memory (JSON) and /health (JSON)\n",
        ),
    }
}

/// Begins to write the metrics, and sends them as they come.
async fn metrics(broker: &Arc<Broker>) -> Response<Content> {
    let lease = broker.budgets.http.lease(PAGE_BYTES, Holder::new("metrics", 0));
    let Ok(Ok(lease)) = tokio::time::timeout(MEMORY_PATIENCE, lease).await else { return too_many() };
    let (sender, pieces) = mpsc::channel(1);
    // Ends with the page, or with its reader: sending fails then.
    tokio::spawn(metrics_page::render(Arc::clone(broker), Page::new(sender, lease)));
    response(StatusCode::OK, PROMETHEUS, Content::Pieces(pieces))
}

fn too_many() -> Response<Content> {
    let text = "too many documents are on their way\n";
    let mut refused = plain(StatusCode::SERVICE_UNAVAILABLE, TEXT, text);
    refused.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    refused
}

/// Renders a document under a lease of the `http` budget.
async fn rendered(
    broker: &Broker,
    content_type: &'static str,
    render: impl FnOnce(&mut Document) -> Result<StatusCode, std::fmt::Error>,
) -> Response<Content> {
    let lease = tokio::time::timeout(MEMORY_PATIENCE, Document::lease(&broker.budgets.http)).await;
    let Ok(Ok(lease)) = lease else { return too_many() };
    let mut document = Document::new(lease);
    match render(&mut document) {
        Ok(status) => response(status, content_type, Content::Whole(document.into_bytes())),
        Err(_) => {
            tracing::error!(limit = document::MAX_BYTES, "a document of http.listener is too large");
            plain(StatusCode::INTERNAL_SERVER_ERROR, TEXT, "the document is too large\n")
        }
    }
}

fn plain(status: StatusCode, content_type: &'static str, text: &'static str) -> Response<Content> {
    response(status, content_type, Content::Whole(Bytes::from_static(text.as_bytes())))
}

fn response(status: StatusCode, content_type: &'static str, content: Content) -> Response<Content> {
    let mut response = Response::new(content);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
