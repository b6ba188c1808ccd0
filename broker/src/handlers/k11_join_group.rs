//! JoinGroup: a member asks to be in the next generation and waits until it has formed.
//!
//! Method: the leader's reply names every member with its metadata; it is encoded from the shared byte strings of the
//! group. Where there is no memory for it at once, they are let go of during the wait and asked for again.

use std::net::IpAddr;
use std::sync::Arc;

use weir_coordinator::{Command, JoinGroup, JoinGroupReply, JoinedMember, Reply as GroupReply};
use weir_protocol::messages::k11_join_group::{JoinGroupRequest, JoinGroupResponse};
use weir_protocol::messages::{ApiKey, ErrorCode};
use weir_protocol::wire::{
    EncodeError, Sink, put_array_len, put_bool, put_bytes, put_empty_tags, put_i32, put_nullable_string,
    put_string,
};

use crate::connection::ConnectionError;
use crate::errors::group_result;
use crate::groups::kept;
use crate::request::{Reply, Request, Tried};

/// Memory of one protocol of a request beside its own bytes: decoded, as a command, as the member keeps it.
const PROTOCOL_BYTES: usize = 320;

/// Answers one member, sooner or later.
pub(crate) async fn handle(mut request: Request) -> Result<Option<Reply>, ConnectionError> {
    let asked = request.decode(JoinGroupRequest::decode)?;
    request.lease_more(work_bytes(&asked)).await?;
    let broker = Arc::clone(&request.broker);
    let version = request.version;
    let slot = match broker.groups.home_of_named(&broker, &asked.group_id) {
        Ok(slot) => slot,
        Err(code) => return refuse(&request, asked.member_id, code).await,
    };
    let group_id = kept(&asked.group_id);
    let command = command(&request, asked);
    let ran = broker.groups.run(&mut request, &slot, command).await;
    let mut reply = match ran {
        Ok(GroupReply::JoinGroup(reply)) => reply,
        Ok(_) => return refuse(&request, String::new(), ErrorCode::UNKNOWN_SERVER_ERROR).await,
        Err(code) => return refuse(&request, String::new(), code).await,
    };
    let needed = match request.try_reply(|w| encode(w, version, &reply))? {
        Tried::Reply(reply) => return Ok(Some(reply)),
        Tried::Needs(bytes) => bytes,
    };
    let generation = reply.generation_id;
    reply.members = Vec::new();
    let lease = request.lease_reply(needed + needed / 8).await?;
    let members = group_id
        .and_then(|id| broker.groups.look(&slot, |shard| shard.members_of_generation(&id, generation)));
    if let Some(members) = members {
        reply.members = members;
        if let Some(reply) = request.reply_under(lease, |w| encode(w, version, &reply))? {
            return Ok(Some(reply));
        }
    }
    // The generation that the reply is about has gone while it waited: the leader joins again.
    refuse(&request, reply.member_id.to_string(), ErrorCode::REBALANCE_IN_PROGRESS).await
}

fn work_bytes(asked: &JoinGroupRequest) -> usize {
    let each = asked.protocols.iter().map(|it| PROTOCOL_BYTES + 2 * it.name.len() + it.metadata.len());
    each.sum()
}

fn command(request: &Request, asked: JoinGroupRequest) -> Command {
    Command::JoinGroup(JoinGroup {
        api_version: request.version,
        group_id: asked.group_id,
        member_id: asked.member_id,
        group_instance_id: asked.group_instance_id,
        client_id: request.client_id.clone(),
        client_host: client_host(request.connection.peer.ip()),
        session_timeout_ms: asked.session_timeout_ms,
        rebalance_timeout_ms: asked.rebalance_timeout_ms,
        protocol_type: asked.protocol_type,
        protocols: asked.protocols.into_iter().map(|it| (it.name, it.metadata)).collect(),
        reason: asked.reason,
        fresh_id: uuid::Uuid::new_v4().as_u128(),
    })
}

/// An address as Java prints one without a name: `/127.0.0.1`, `/0:0:0:0:0:0:0:1`.
fn client_host(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(address) => format!("/{address}"),
        IpAddr::V6(address) => {
            let parts = address.segments().map(|part| format!("{part:x}"));
            format!("/{}", parts.join(":"))
        }
    }
}

async fn refuse(
    request: &Request,
    member_id: String,
    error_code: ErrorCode,
) -> Result<Option<Reply>, ConnectionError> {
    let version = request.version;
    let response = JoinGroupResponse {
        error_code,
        generation_id: -1,
        // Before version 7 the name may not be null.
        protocol_name: (version < 7).then(String::new),
        member_id,
        ..JoinGroupResponse::default()
    };
    Ok(Some(request.reply(|w| response.encode(w, version)).await?))
}

fn encode(w: &mut dyn Sink, version: i16, reply: &JoinGroupReply) -> Result<(), EncodeError> {
    let flexible = ApiKey::JoinGroup.is_flexible(version);
    if version >= 2 {
        put_i32(w, 0);
    }
    w.put_error(group_result(reply.error.as_ref()).0);
    put_i32(w, reply.generation_id);
    let protocol_name = reply.protocol_name.as_deref();
    if version >= 7 {
        put_nullable_string(w, flexible, reply.protocol_type.as_deref())?;
        put_nullable_string(w, flexible, protocol_name)?;
    } else {
        put_string(w, flexible, protocol_name.unwrap_or_default())?;
    }
    put_string(w, flexible, &reply.leader)?;
    if version >= 9 {
        put_bool(w, reply.skip_assignment);
    }
    put_string(w, flexible, &reply.member_id)?;
    put_array_len(w, flexible, Some(reply.members.len()))?;
    reply.members.iter().try_for_each(|member| encode_member(w, version, member))?;
    if flexible {
        put_empty_tags(w);
    }
    Ok(())
}

fn encode_member(w: &mut dyn Sink, version: i16, member: &JoinedMember) -> Result<(), EncodeError> {
    let flexible = ApiKey::JoinGroup.is_flexible(version);
    put_string(w, flexible, &member.member_id)?;
    if version >= 5 {
        put_nullable_string(w, flexible, member.group_instance_id.as_deref())?;
    }
    put_bytes(w, flexible, &member.metadata)?;
    if flexible {
        put_empty_tags(w);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_printed_as_java_prints_them() {
        let host = |text: &str| client_host(text.parse().unwrap());
        assert_eq!(host("127.0.0.1"), "/127.0.0.1");
        assert_eq!(host("::1"), "/0:0:0:0:0:0:0:1");
        assert_eq!(host("2001:db8::ff00:42"), "/2001:db8:0:0:0:0:ff00:42");
        // A client of IPv4 on a socket for both.
        assert_eq!(host("::ffff:10.1.2.3"), "/10.1.2.3");
    }
}
