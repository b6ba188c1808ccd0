//! SyncGroup: the leader brings the assignment, every member waits for its own.
//!
//! Method: as with JoinGroup, an assignment for which there is no memory at once is let go of during the wait and asked
//! for again.

use std::sync::Arc;

use weir_coordinator::{Command, Reply as GroupReply, SyncGroup, SyncGroupReply};
use weir_protocol::messages::k14_sync_group::{SyncGroupRequest, SyncGroupResponse};
use weir_protocol::messages::{ApiKey, ErrorCode};
use weir_protocol::wire::{EncodeError, Sink, put_bytes, put_empty_tags, put_i32, put_nullable_string};

use crate::connection::ConnectionError;
use crate::errors::group_result;
use crate::groups::kept;
use crate::request::{Reply, Request, Tried};

/// From this version on a member names the group's protocol.
const FIRST_WITH_PROTOCOL: i16 = 5;
/// Memory of one assignment of a request beside its own bytes.
const ASSIGNMENT_BYTES: usize = 256;

/// Answers one member, sooner or later.
pub(crate) async fn handle(mut request: Request) -> Result<Option<Reply>, ConnectionError> {
    let asked = request.decode(SyncGroupRequest::decode)?;
    request.lease_more(work_bytes(&asked)).await?;
    let broker = Arc::clone(&request.broker);
    let version = request.version;
    if version >= FIRST_WITH_PROTOCOL && (asked.protocol_type.is_none() || asked.protocol_name.is_none()) {
        return refuse(&request, ErrorCode::INCONSISTENT_GROUP_PROTOCOL).await;
    }
    let slot = match broker.groups.home_of_named(&broker, &asked.group_id) {
        Ok(slot) => slot,
        Err(code) => return refuse(&request, code).await,
    };
    let names = kept(&asked.group_id).zip(kept(&asked.member_id));
    let generation = asked.generation_id;
    let command = Command::SyncGroup(SyncGroup {
        group_id: asked.group_id,
        generation_id: generation,
        member_id: asked.member_id,
        group_instance_id: asked.group_instance_id,
        protocol_type: asked.protocol_type,
        protocol_name: asked.protocol_name,
        assignments: asked.assignments.into_iter().map(|it| (it.member_id, it.assignment)).collect(),
    });
    let mut reply = match broker.groups.run(&mut request, &slot, command).await {
        Ok(GroupReply::SyncGroup(reply)) => reply,
        Ok(_) => return refuse(&request, ErrorCode::UNKNOWN_SERVER_ERROR).await,
        Err(code) => return refuse(&request, code).await,
    };
    let needed = match request.try_reply(|w| encode(w, version, &reply))? {
        Tried::Reply(reply) => return Ok(Some(reply)),
        Tried::Needs(bytes) => bytes,
    };
    reply.assignment = Arc::from([]);
    let lease = request.lease_reply(needed).await?;
    let assignment = names.and_then(|(group_id, member_id)| {
        broker.groups.look(&slot, |shard| shard.assignment_of(&group_id, generation, &member_id))
    });
    if let Some(assignment) = assignment {
        reply.assignment = assignment;
        if let Some(reply) = request.reply_under(lease, |w| encode(w, version, &reply))? {
            return Ok(Some(reply));
        }
    }
    refuse(&request, ErrorCode::REBALANCE_IN_PROGRESS).await
}

fn work_bytes(asked: &SyncGroupRequest) -> usize {
    // The assignments are held once more as the group's, in the record and in its batch.
    asked.assignments.iter().map(|it| ASSIGNMENT_BYTES + it.member_id.len() + 4 * it.assignment.len()).sum()
}

async fn refuse(request: &Request, error_code: ErrorCode) -> Result<Option<Reply>, ConnectionError> {
    let response = SyncGroupResponse { error_code, ..SyncGroupResponse::default() };
    Ok(Some(request.reply(|w| response.encode(w, request.version)).await?))
}

fn encode(w: &mut dyn Sink, version: i16, reply: &SyncGroupReply) -> Result<(), EncodeError> {
    let flexible = ApiKey::SyncGroup.is_flexible(version);
    if version >= 1 {
        put_i32(w, 0);
    }
    w.put_error(group_result(reply.error.as_ref()).0);
    if version >= FIRST_WITH_PROTOCOL {
        put_nullable_string(w, flexible, reply.protocol_type.as_deref())?;
        put_nullable_string(w, flexible, reply.protocol_name.as_deref())?;
    }
    put_bytes(w, flexible, &reply.assignment)?;
    if flexible {
        put_empty_tags(w);
    }
    Ok(())
}
