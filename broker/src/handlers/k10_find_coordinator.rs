//! FindCoordinator: where a group's coordinator is, which on one broker is here.
//!
//! Method: the first look-up creates `__consumer_offsets`; every one waits a little for the group's partition to be
//! loaded, so that a client that is told of the coordinator finds it ready.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_protocol::messages::k10_find_coordinator::{
    Coordinator, FindCoordinatorRequest, FindCoordinatorResponse,
};
use weir_protocol::messages::{ApiKey, ErrorCode};
use weir_protocol::wire::{EncodeError, Sink, put_array_len, put_empty_tags, put_i32};

use crate::connection::ConnectionError;
use crate::groups::OFFSETS_TOPIC;
use crate::request::{Part, Reply, Request};

/// From this version on a request names several keys.
const FIRST_WITH_KEYS: i16 = 4;
/// Key type of a group.
const GROUP: i8 = 0;
/// Key type of a transactional id.
const TRANSACTION: i8 = 1;
/// Key type of a share group's partition.
const SHARE: i8 = 2;
/// Longest wait for partitions that are being loaded; after it their groups answer that they are loading.
const LOADING_PATIENCE: Duration = Duration::from_secs(2);

/// Answers one request.
pub(crate) async fn handle(mut request: Request) -> Result<Option<Reply>, ConnectionError> {
    let asked = request.decode(FindCoordinatorRequest::decode)?;
    let version = request.version;
    let broker = Arc::clone(&request.broker);
    let keys = if version < FIRST_WITH_KEYS {
        std::slice::from_ref(&asked.key)
    } else {
        asked.coordinator_keys.as_slice()
    };
    if asked.key_type == GROUP && !keys.is_empty() {
        make_ready(&mut request, keys).await;
    }
    let (host, port) = broker.advertised(request.connection.listener);
    let find = |key: &str| -> Found {
        match asked.key_type {
            GROUP => match broker.groups.home(&broker, key) {
                Ok(_) => Found { code: ErrorCode::NONE, message: None },
                Err(_) => Found { code: ErrorCode::COORDINATOR_NOT_AVAILABLE, message: None },
            },
            // Not retriable: a client that waits for transactions would wait in vain.
            TRANSACTION => Found {
                code: ErrorCode::INVALID_REQUEST,
                message: Some("this broker does not serve transactions"),
            },
            // Shares are not served; their requests get no text, unlike those of types that nobody knows.
            SHARE => Found { code: ErrorCode::INVALID_REQUEST, message: None },
            _ => {
                let code = ErrorCode::INVALID_REQUEST;
                Found { code, message: Some(text_of(code)) }
            }
        }
    };
    let coordinator = |key: &str| {
        let found = find(key);
        let is_here = found.code.is_ok();
        Coordinator {
            key: key.to_string(),
            node_id: if is_here { broker.node_id } else { -1 },
            host: if is_here { host.clone() } else { String::new() },
            port: if is_here { port } else { -1 },
            error_code: found.code,
            error_message: Some(found.message.unwrap_or_default().to_string()),
            ..Coordinator::default()
        }
    };
    if version < FIRST_WITH_KEYS {
        let found = coordinator(&asked.key);
        let message = match found.error_message {
            Some(message) if !message.is_empty() => message,
            _ if found.error_code.is_ok() => "NONE".to_string(),
            _ => text_of(found.error_code).to_string(),
        };
        let response = FindCoordinatorResponse {
            error_code: found.error_code,
            error_message: Some(message),
            node_id: found.node_id,
            host: found.host,
            port: found.port,
            ..FindCoordinatorResponse::default()
        };
        return Ok(Some(request.reply(|w| response.encode(w, version)).await?));
    }
    // Coordinator by coordinator: each repeats host and port, and a request may name very many.
    let flexible = ApiKey::FindCoordinator.is_flexible(version);
    let encode = |part, w: &mut dyn Sink| -> Result<(), EncodeError> {
        match part {
            Part::Head => {
                put_i32(w, 0);
                put_array_len(w, flexible, Some(keys.len()))
            }
            Part::Item(index) => keys.get(index).map_or(Ok(()), |key| coordinator(key).encode(w, version)),
            Part::Tail => {
                put_empty_tags(w);
                Ok(())
            }
        }
    };
    Ok(Some(request.reply_of_items(keys.len(), encode).await?))
}

struct Found {
    code: ErrorCode,
    message: Option<&'static str>,
}

/// What Kafka's clients print for the errors above.
fn text_of(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::COORDINATOR_NOT_AVAILABLE => "The coordinator is not available.",
        _ => {
            "This most likely occurs because of a request being malformed by the client library or the message was \
             sent to an incompatible broker. See the broker logs for more details."
        }
    }
}

/// Creates the offsets topic if it is not there, and waits for the partitions of the groups, where that keeps no other
/// request from its memory.
async fn make_ready(request: &mut Request, groups: &[String]) {
    let broker = Arc::clone(&request.broker);
    if broker.image().topics().by_name(OFFSETS_TOPIC).is_none() {
        broker.create_topics_on_demand(BTreeSet::from([OFFSETS_TOPIC.to_string()]), ()).await;
    }
    if broker.groups.are_loading(&broker, groups) && request.may_wait() {
        broker.groups.wait_loaded(&broker, groups, Instant::now() + LOADING_PATIENCE).await;
    }
}
