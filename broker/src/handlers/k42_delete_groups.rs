//! DeleteGroups: empty groups go, with their offsets.
//!
//! Method: the groups of each shard are one command; the results are put back into the order of the request.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use weir_coordinator::{Command, DeleteGroups, GroupError, Reply as GroupReply};
use weir_protocol::messages::ErrorCode;
use weir_protocol::messages::k42_delete_groups::{
    DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse,
};

use crate::connection::ConnectionError;
use crate::errors::group_code;
use crate::request::{Reply, Request};

/// Memory of one group of a request: told apart, sorted, as a command, as an answer.
const GROUP_BYTES: usize = 384;

/// Answers one request.
pub(crate) async fn handle(mut request: Request) -> Result<Option<Reply>, ConnectionError> {
    let asked = request.decode(DeleteGroupsRequest::decode)?;
    let work = asked.groups_names.iter().map(|name| GROUP_BYTES + 4 * name.len()).sum();
    request.lease_more(work).await?;
    let broker = Arc::clone(&request.broker);
    let mut seen = HashSet::new();
    let mut results: Vec<DeletableGroupResult> = Vec::new();
    let mut by_shard = BTreeMap::new();
    for group_id in asked.groups_names {
        if !seen.insert(group_id.clone()) {
            continue;
        }
        let at = results.len();
        let mut result = DeletableGroupResult { group_id, ..DeletableGroupResult::default() };
        match broker.groups.home(&broker, &result.group_id) {
            Ok(slot) => {
                let (_, positions) = by_shard.entry(slot.index()).or_insert_with(|| (slot, Vec::new()));
                positions.push(at);
            }
            Err(code) => result.error_code = code,
        }
        results.push(result);
    }
    drop(seen);
    for (slot, positions) in by_shard.into_values() {
        let group_ids = positions.iter().filter_map(|at| results.get(*at)).map(|it| it.group_id.clone());
        let command = Command::DeleteGroups(DeleteGroups { group_ids: group_ids.collect() });
        let outcome = broker.groups.run(&mut request, &slot, command).await;
        let mut codes: Vec<ErrorCode> = match outcome {
            Ok(GroupReply::DeleteGroups(answers)) => answers.iter().map(|(_, result)| code(result)).collect(),
            Ok(_) => Vec::new(),
            Err(code) => vec![code; positions.len()],
        };
        codes.resize(positions.len(), ErrorCode::UNKNOWN_SERVER_ERROR);
        for (at, code) in positions.into_iter().zip(codes) {
            if let Some(result) = results.get_mut(at) {
                result.error_code = code;
            }
        }
    }
    let response = DeleteGroupsResponse { results, ..DeleteGroupsResponse::default() };
    Ok(Some(request.reply(|w| response.encode(w, request.version)).await?))
}

fn code(result: &Result<(), GroupError>) -> ErrorCode {
    result.as_ref().err().map_or(ErrorCode::NONE, group_code)
}
