//! The dump as one function of bytes: the first byte says as which file of a log directory the rest is shown.
//!
//! Invariant: whatever the bytes are, the dump ends without an error, and in JSON every line is an object.

use super::{Options, RecordsAs, dump};

/// Names under which the dump knows a file, in the order of the first byte.
pub(super) const NAMES: [&str; 14] = [
    "t-0/00000000000000000000.log",
    "__consumer_offsets-0/00000000000000000000.log",
    "__cluster_metadata-0/00000000000000000000.log",
    "t-0/00000000000000000000.index",
    "t-0/00000000000000000000.timeindex",
    "t-0/00000000000000000000.txnindex",
    "t-0/00000000000000000007.snapshot",
    "t-0/leader-epoch-checkpoint",
    "t-0/partition.metadata",
    "__cluster_metadata-0/00000000000000000004-0000000001.checkpoint",
    "__cluster_metadata-0/quorum-state",
    "meta.properties",
    "recovery-point-offset-checkpoint",
    ".kafka_cleanshutdown",
];

/// Shows `data` as a file. Input is untrusted.
pub(super) fn fuzz_log_dump(data: &[u8]) {
    let Some((kind, bytes)) = data.split_first() else { return };
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join(NAMES[usize::from(*kind) % NAMES.len()]);
    std::fs::create_dir_all(path.parent().expect("a name in a directory")).expect("a directory");
    std::fs::write(&path, bytes).expect("a file");
    for json in [false, true] {
        let options = Options { json, deep: true, quiet: false, width: 40, records_as: RecordsAs::Auto };
        let mut out = Vec::new();
        dump(std::slice::from_ref(&path), &options, &mut out).expect("only the output can fail");
        let text = String::from_utf8(out).expect("text");
        if json {
            for line in text.lines() {
                let line: serde_json::Value = serde_json::from_str(line).expect("an object a line");
                assert!(line.is_object());
            }
        } else {
            assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "a terminal would obey: {text:?}");
        }
    }
}
