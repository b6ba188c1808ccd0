//! ListGroups: the groups of all shards, filtered by state and type.
//!
//! Method: the groups are written one by one under their shards' locks; how many there were is put in front afterwards.

use std::sync::Arc;

use weir_coordinator::{GroupError, GroupFilter, ListedGroup};
use weir_protocol::messages::k16_list_groups::ListGroupsRequest;
use weir_protocol::messages::{ApiKey, ErrorCode};
use weir_protocol::wire::{EncodeError, Sink, put_array_len, put_empty_tags, put_i32, put_string};

use crate::connection::ConnectionError;
use crate::errors::group_code;
use crate::request::{Reply, Request};

/// Answers one request.
pub(crate) async fn handle(mut request: Request) -> Result<Option<Reply>, ConnectionError> {
    let asked = request.decode(ListGroupsRequest::decode)?;
    let broker = Arc::clone(&request.broker);
    let version = request.version;
    let flexible = ApiKey::ListGroups.is_flexible(version);
    let filter = GroupFilter::new(&asked.states_filter, &asked.types_filter);
    drop(asked);
    let body = |w: &mut dyn Sink| -> Result<(usize, ErrorCode), EncodeError> {
        let (mut count, mut code, mut written) = (0, ErrorCode::NONE, Ok(()));
        broker.groups.for_each_shard(|shard| {
            let listed = shard.visit_groups(&filter, |group| {
                count += 1;
                if written.is_ok() {
                    written = encode_group(w, version, &group);
                }
            });
            match listed {
                // Its groups are somewhere else, or nowhere for now.
                Ok(()) | Err(GroupError::NotCoordinator) => {}
                Err(error) => code = group_code(&error),
            }
        });
        written?;
        if flexible {
            put_empty_tags(w);
        }
        Ok((count, code))
    };
    let front = |w: &mut dyn Sink, (count, code): (usize, ErrorCode)| -> Result<(), EncodeError> {
        if version >= 1 {
            put_i32(w, 0);
        }
        w.put_error(code.0);
        put_array_len(w, flexible, Some(count))
    };
    Ok(Some(request.reply_of_state(body, front).await?))
}

fn encode_group(w: &mut dyn Sink, version: i16, group: &ListedGroup) -> Result<(), EncodeError> {
    let flexible = ApiKey::ListGroups.is_flexible(version);
    put_string(w, flexible, &group.group_id)?;
    put_string(w, flexible, &group.protocol_type)?;
    if version >= 4 {
        put_string(w, flexible, group.state.as_str())?;
    }
    if version >= 5 {
        put_string(w, flexible, group.group_type)?;
    }
    if flexible {
        put_empty_tags(w);
    }
    Ok(())
}
