//! Every fuzz entry on its committed corpus and on some thousand damaged copies of it.

#[path = "../../coordinator/tests/damage/mod.rs"]
mod damage;

use damage::run;
use weir_broker::fuzz::{fuzz_quorum_state, fuzz_snapshot};

#[test]
fn snapshots_survive_damage() {
    run("snapshot", fuzz_snapshot);
}

#[test]
fn quorum_states_survive_damage() {
    run("quorum_state", fuzz_quorum_state);
}
