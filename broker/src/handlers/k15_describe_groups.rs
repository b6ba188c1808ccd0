//! DescribeGroups: state and members of groups.
//!
//! Method: the reply is encoded straight from the shards, group by group under the shard's lock.

use std::sync::Arc;

use weir_coordinator::{GroupError, GroupView, MemberView};
use weir_protocol::messages::k15_describe_groups::{
    DescribeGroupsRequest, DescribeGroupsResponseDescribedGroup,
};
use weir_protocol::messages::{ApiKey, ErrorCode};
use weir_protocol::wire::{
    EncodeError, Sink, put_array_len, put_bytes, put_empty_tags, put_i32, put_nullable_string, put_string,
};

use crate::connection::ConnectionError;
use crate::errors::{group_code, group_result};
use crate::handlers::k03_metadata::OPERATIONS_NOT_ASKED;
use crate::request::{Part, Reply, Request};

/// From this version on an error has a text.
const FIRST_WITH_MESSAGE: i16 = 6;
/// All operations on a group, as Kafka lists them where nothing is forbidden (AclOperation codes as bits): read, delete,
/// describe, describe and alter configs.
const GROUP_OPERATIONS: i32 = 0b1101_0100_1000;

/// Answers one request.
pub(crate) async fn handle(mut request: Request) -> Result<Option<Reply>, ConnectionError> {
    let asked = request.decode(DescribeGroupsRequest::decode)?;
    let broker = Arc::clone(&request.broker);
    let version = request.version;
    let describe = |w: &mut dyn Sink, group_id: &String| -> Result<(), EncodeError> {
        let slot = match broker.groups.home(&broker, group_id) {
            Ok(slot) => slot,
            Err(code) => return refused(group_id, code).encode(w, version),
        };
        broker.groups.look(&slot, |shard| match shard.view_group(group_id, version) {
            Ok(group) => encode_group(w, version, &group, asked.include_authorized_operations),
            Err(error) => refused(group_id, group_code(&error)).encode(w, version),
        })
    };
    let flexible = ApiKey::DescribeGroups.is_flexible(version);
    let encode = |part, w: &mut dyn Sink| -> Result<(), EncodeError> {
        match part {
            Part::Head => {
                if version >= 1 {
                    put_i32(w, 0);
                }
                put_array_len(w, flexible, Some(asked.groups.len()))
            }
            Part::Item(index) => asked.groups.get(index).map_or(Ok(()), |group_id| describe(w, group_id)),
            Part::Tail => {
                if flexible {
                    put_empty_tags(w);
                }
                Ok(())
            }
        }
    };
    Ok(Some(request.reply_of_items(asked.groups.len(), encode).await?))
}

fn refused(group_id: &str, error_code: ErrorCode) -> DescribeGroupsResponseDescribedGroup {
    DescribeGroupsResponseDescribedGroup {
        error_code,
        group_id: group_id.to_string(),
        ..DescribeGroupsResponseDescribedGroup::default()
    }
}

fn encode_group(
    w: &mut dyn Sink,
    version: i16,
    group: &GroupView<'_>,
    asks_operations: bool,
) -> Result<(), EncodeError> {
    let flexible = ApiKey::DescribeGroups.is_flexible(version);
    let error = group.error();
    w.put_error(group_result(error.as_ref()).0);
    if version >= FIRST_WITH_MESSAGE {
        let text = error.as_ref().map(|error| match error {
            GroupError::GroupIdNotFound { group_id } => format!("Group {group_id} not found."),
            other => other.to_string(),
        });
        put_nullable_string(w, flexible, text.as_deref())?;
    }
    put_string(w, flexible, group.group_id())?;
    put_string(w, flexible, group.state().as_str())?;
    put_string(w, flexible, group.protocol_type())?;
    put_string(w, flexible, group.protocol())?;
    put_array_len(w, flexible, Some(group.member_count()))?;
    group.members().try_for_each(|member| encode_member(w, version, member))?;
    if version >= 3 {
        let told = asks_operations && error.is_none();
        put_i32(w, if told { GROUP_OPERATIONS } else { OPERATIONS_NOT_ASKED });
    }
    if flexible {
        put_empty_tags(w);
    }
    Ok(())
}

fn encode_member(w: &mut dyn Sink, version: i16, member: MemberView<'_>) -> Result<(), EncodeError> {
    let flexible = ApiKey::DescribeGroups.is_flexible(version);
    put_string(w, flexible, member.member_id)?;
    if version >= 4 {
        put_nullable_string(w, flexible, member.group_instance_id.map(|id| &**id))?;
    }
    put_string(w, flexible, member.client_id)?;
    put_string(w, flexible, member.client_host)?;
    put_bytes(w, flexible, member.metadata)?;
    put_bytes(w, flexible, member.assignment)?;
    if flexible {
        put_empty_tags(w);
    }
    Ok(())
}
