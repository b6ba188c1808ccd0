//! `quorum-state`: the epoch of this quorum of one, in Kafka's JSON (version 0 of a static quorum, 1 of a dynamic one).

use std::io::{self, Write};
use std::path::Path;

use weir_protocol::wire::Uuid;

/// The file's name.
pub(super) const FILE: &str = "quorum-state";

/// The fields that matter to a quorum of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QuorumState {
    /// Epoch of the last leader.
    pub(super) leader_epoch: i32,
    /// Its node id.
    pub(super) leader_id: i32,
    /// Whether the voters listed are this node alone; true where the file lists none.
    pub(super) is_alone: bool,
}

/// Reads the state; `None` when it is missing, empty or not what Kafka writes, since it can be told from the log.
/// Input is untrusted.
pub(super) fn parse(bytes: &[u8], node_id: i32) -> Option<QuorumState> {
    let json: serde_json::Value = serde_json::from_slice(bytes).ok()?;
    let number = |name: &str| json.get(name)?.as_i64().and_then(|number| i32::try_from(number).ok());
    let voters = json.get("currentVoters").and_then(|voters| voters.as_array());
    let is_alone = voters.is_none_or(|voters| {
        voters
            .iter()
            .all(|voter| voter.get("voterId").and_then(serde_json::Value::as_i64) == Some(i64::from(node_id)))
    });
    Some(QuorumState { leader_epoch: number("leaderEpoch")?, leader_id: number("leaderId")?, is_alone })
}

/// Writes the state so that after a crash the old or the new one is there.
pub(super) fn write(dir: &Path, node_id: i32, leader_epoch: i32, kraft_version: i16) -> io::Result<()> {
    let json = match kraft_version {
        0 => serde_json::json!({
            "clusterId": "", "leaderId": node_id, "leaderEpoch": leader_epoch, "votedId": -1, "appliedOffset": 0,
            "currentVoters": [{"voterId": node_id}], "data_version": 0,
        }),
        _ => serde_json::json!({
            "leaderId": node_id, "leaderEpoch": leader_epoch, "votedId": -1,
            "votedDirectoryId": Uuid::ZERO.to_string(), "data_version": 1,
        }),
    };
    let temporary = dir.join(format!("{FILE}.tmp"));
    let mut file = std::fs::File::create(&temporary)?;
    file.write_all(json.to_string().as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&temporary, dir.join(FILE))?;
    std::fs::File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_what_is_damaged_is_none() {
        let dir = tempfile::tempdir().unwrap();
        for kraft_version in [0, 1] {
            write(dir.path(), 7, 3, kraft_version).unwrap();
            let bytes = std::fs::read(dir.path().join(FILE)).unwrap();
            assert_eq!(parse(&bytes, 7), Some(QuorumState { leader_epoch: 3, leader_id: 7, is_alone: true }));
        }
        for damaged in [&b""[..], b"{", b"[]", b"{\"leaderEpoch\": 99999999999, \"leaderId\": 1}"] {
            assert_eq!(parse(damaged, 7), None);
        }
    }

    #[test]
    fn a_quorum_of_several_is_seen() {
        let text = br#"{"leaderId":2,"leaderEpoch":5,"currentVoters":[{"voterId":1},{"voterId":2}],"data_version":0}"#;
        assert!(!parse(text, 1).unwrap().is_alone);
    }
}
