//! Group coordination as a pure state machine that only replays records.
