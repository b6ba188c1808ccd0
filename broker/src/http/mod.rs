//! What operators see: `/metrics`, `/memory`, `/health` and a page that draws the budgets, on `http.listener`.
//!
//! Method: at most [`MAX_CONNECTIONS`] connections, each for one request with a small head, cut off after
//! [`CONNECTION_DEADLINE`]. A document is rendered into a buffer of fixed size under a lease of the `http` budget and
//! keeps a lease of its own size until its last byte is sent or its reader is cut off.
//!
//! Invariant: whatever clients of this side do, it takes no more than the base term of the plan has for it.

mod document;
mod health;
mod memory_page;
mod metrics_page;
pub(crate) mod process;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::broker::Broker;
use crate::net::listener::{SocketOptions, bind};
use crate::server::ServerError;
use document::Document;

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

async fn answer(broker: &Arc<Broker>, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut refused = plain(StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET is served here\n");
        refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refused;
    }
    match request.uri().path() {
        "/" => plain(StatusCode::OK, HTML, PAGE),
        "/metrics" => {
            rendered(broker, PROMETHEUS, |document| {
                metrics_page::render(broker, document).map(|()| StatusCode::OK)
            })
            .await
        }
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

/// Renders a document under a lease of the `http` budget.
async fn rendered(
    broker: &Broker,
    content_type: &'static str,
    render: impl FnOnce(&mut Document) -> Result<StatusCode, std::fmt::Error>,
) -> Response<Full<Bytes>> {
    let lease = tokio::time::timeout(MEMORY_PATIENCE, Document::lease(&broker.budgets.http)).await;
    let Ok(Ok(lease)) = lease else {
        let mut refused =
            plain(StatusCode::SERVICE_UNAVAILABLE, TEXT, "too many documents are on their way\n");
        refused.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        return refused;
    };
    let mut document = Document::new(lease);
    match render(&mut document) {
        Ok(status) => response(status, content_type, document.into_bytes()),
        Err(_) => {
            tracing::error!(limit = document::MAX_BYTES, "a document of http.listener is too large");
            plain(StatusCode::INTERNAL_SERVER_ERROR, TEXT, "the document is too large\n")
        }
    }
}

fn plain(status: StatusCode, content_type: &'static str, text: &'static str) -> Response<Full<Bytes>> {
    response(status, content_type, Bytes::from_static(text.as_bytes()))
}

fn response(status: StatusCode, content_type: &'static str, bytes: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(bytes));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
