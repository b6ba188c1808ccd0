//! InitProducerId: an id for an idempotent producer.
//!
//! Transactions are not served yet. A transactional producer is told UNSUPPORTED_VERSION: of the codes that clients
//! take as final it is the one that says what is true, while COORDINATOR_NOT_AVAILABLE would be tried again for ever
//! and an authorization error would send its user to look for ACLs.

use weir_protocol::messages::ErrorCode;
use weir_protocol::messages::k22_init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};

use crate::connection::ConnectionError;
use crate::request::{Reply, Request};

/// Answers with a new id of epoch 0, whatever id the producer had before, as Kafka does.
pub(crate) async fn handle(mut request: Request) -> Result<Option<Reply>, ConnectionError> {
    let asked = request.decode(InitProducerIdRequest::decode)?;
    let result = match check(&asked) {
        Ok(()) => request.broker.next_producer_id().await,
        Err(code) => Err(code),
    };
    let response = match result {
        Ok(producer_id) => {
            InitProducerIdResponse { producer_id, producer_epoch: 0, ..InitProducerIdResponse::default() }
        }
        Err(error_code) => InitProducerIdResponse {
            error_code,
            producer_id: -1,
            producer_epoch: -1,
            ..InitProducerIdResponse::default()
        },
    };
    Ok(Some(request.reply(|w| response.encode(w, request.version)).await?))
}

fn check(asked: &InitProducerIdRequest) -> Result<(), ErrorCode> {
    if (asked.producer_id == -1) != (asked.producer_epoch == -1) {
        return Err(ErrorCode::INVALID_REQUEST);
    }
    match asked.transactional_id.as_deref() {
        None => Ok(()),
        Some("") => Err(ErrorCode::INVALID_REQUEST),
        Some(_) => Err(ErrorCode::UNSUPPORTED_VERSION),
    }
}
