//! LeaveGroup: members leave, or an administrator removes them.

use std::sync::Arc;

use weir_coordinator::{Command, LeaveGroup, LeavingMember, Reply as GroupReply};
use weir_protocol::messages::ErrorCode;
use weir_protocol::messages::k13_leave_group::{LeaveGroupRequest, LeaveGroupResponse, MemberResponse};

use crate::connection::ConnectionError;
use crate::errors::{group_code, group_result};
use crate::request::{Reply, Request};

/// From this version on a request names several members.
const FIRST_WITH_MEMBERS: i16 = 3;
/// Memory of one member of a request: as a command and as an answer.
const MEMBER_BYTES: usize = 320;

/// Answers one request.
pub(crate) async fn handle(mut request: Request) -> Result<Option<Reply>, ConnectionError> {
    let asked = request.decode(LeaveGroupRequest::decode)?;
    request.lease_more(asked.members.len().saturating_mul(MEMBER_BYTES)).await?;
    let broker = Arc::clone(&request.broker);
    let version = request.version;
    let members: Vec<LeavingMember> = if version < FIRST_WITH_MEMBERS {
        vec![LeavingMember { member_id: asked.member_id, group_instance_id: None, reason: None }]
    } else {
        let each = asked.members.into_iter().map(|member| LeavingMember {
            member_id: member.member_id,
            group_instance_id: member.group_instance_id,
            reason: member.reason,
        });
        each.collect()
    };
    let outcome = match broker.groups.home_of_named(&broker, &asked.group_id) {
        Err(code) => Err(code),
        Ok(slot) => {
            let command = Command::LeaveGroup(LeaveGroup { group_id: asked.group_id, members });
            match broker.groups.run(&mut request, &slot, command).await {
                Ok(GroupReply::LeaveGroup(result)) => result.map_err(|error| group_code(&error)),
                Ok(_) => Err(ErrorCode::UNKNOWN_SERVER_ERROR),
                Err(code) => Err(code),
            }
        }
    };
    let mut response = LeaveGroupResponse::default();
    match outcome {
        Err(code) => response.error_code = code,
        Ok(members) if version < FIRST_WITH_MEMBERS => {
            let error = members.first().and_then(|member| member.error.as_ref());
            response.error_code = group_result(error);
        }
        Ok(members) => {
            let each = members.into_iter().map(|member| MemberResponse {
                error_code: group_result(member.error.as_ref()),
                member_id: member.member_id,
                group_instance_id: member.group_instance_id,
                ..MemberResponse::default()
            });
            response.members = each.collect();
        }
    }
    Ok(Some(request.reply(|w| response.encode(w, version)).await?))
}
