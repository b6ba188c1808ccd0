//! Fuzz entries: each takes bytes from outside and must neither panic nor allocate beyond what they can justify.

use std::sync::Arc;

use crate::config::{GroupConfig, Limits, Usage};
use crate::shard::Shard;
use crate::subscription::visit_subscription_topics;

/// A stream of records as length-prefixed keys and values, replayed into a shard that is then served and recounted.
pub fn fuzz_replay(data: &[u8]) {
    let limits = Limits { state_bytes: 4 << 20, ..Limits::default() };
    let mut shard =
        Shard::new(Arc::new(GroupConfig::default()), Arc::new(limits), Arc::new(Usage::default()));
    let mut rest = data;
    while let Some((key, after)) = take_prefixed(rest) {
        let (value, after) = match take_prefixed(after) {
            Some((value, after)) => (Some(value), after),
            None => (None, &[][..]),
        };
        // An empty value stands for a tombstone here.
        let _ = shard.replay(key, value.filter(|value| !value.is_empty()));
        rest = after;
    }
    assert!(shard.is_consistent());
    drop(shard.loaded(1_000));
    drop(shard.tick(10_000_000_000));
    assert!(shard.is_consistent());
}

fn take_prefixed(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = data.split_first_chunk::<2>()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))
}

/// Metadata that a member of a consumer group joined with.
pub fn fuzz_subscription(data: &[u8]) {
    let mut bytes = 0;
    visit_subscription_topics(data, |topic| bytes += topic.len());
    assert!(bytes <= data.len());
}
