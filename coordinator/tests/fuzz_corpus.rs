//! Every fuzz entry on its committed corpus and on some thousand damaged copies of it.

mod damage;

use damage::run;
use weir_coordinator::fuzz::{fuzz_replay, fuzz_subscription};

#[test]
fn replay_survives_damaged_records() {
    run("replay", fuzz_replay);
}

#[test]
fn subscriptions_survive_damage() {
    run("subscription", fuzz_subscription);
}
