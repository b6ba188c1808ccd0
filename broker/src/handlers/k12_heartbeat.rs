//! Heartbeat: a member is alive, and hears whether its group rebalances.

use std::sync::Arc;

use weir_coordinator::{Command, Heartbeat, Reply as GroupReply};
use weir_protocol::messages::ErrorCode;
use weir_protocol::messages::k12_heartbeat::{HeartbeatRequest, HeartbeatResponse};

use crate::connection::ConnectionError;
use crate::errors::group_code;
use crate::request::{Reply, Request};

/// Answers one heartbeat.
pub(crate) async fn handle(mut request: Request) -> Result<Option<Reply>, ConnectionError> {
    let asked = request.decode(HeartbeatRequest::decode)?;
    let broker = Arc::clone(&request.broker);
    let error_code = match broker.groups.home_of_named(&broker, &asked.group_id) {
        Err(code) => code,
        Ok(slot) => {
            let command = Command::Heartbeat(Heartbeat {
                group_id: asked.group_id,
                generation_id: asked.generation_id,
                member_id: asked.member_id,
                group_instance_id: asked.group_instance_id,
            });
            match broker.groups.run(&mut request, &slot, command).await {
                Ok(GroupReply::Heartbeat(result)) => {
                    result.err().as_ref().map_or(ErrorCode::NONE, group_code)
                }
                Ok(_) => ErrorCode::UNKNOWN_SERVER_ERROR,
                Err(code) => code,
            }
        }
    };
    let response = HeartbeatResponse { error_code, ..HeartbeatResponse::default() };
    Ok(Some(request.reply(|w| response.encode(w, request.version)).await?))
}
