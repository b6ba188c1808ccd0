//! Groups over the wire: members join, sync, beat, commit, leave and come back, in every version of each API; what they
//! committed survives a restart; and whatever they do, the groups' share of memory ends at 0.

mod support;

#[path = "groups/hostile.rs"]
mod hostile;
#[path = "groups/member.rs"]
mod member;
#[path = "groups/membership.rs"]
mod membership;
#[path = "groups/offsets.rs"]
mod offsets;
#[path = "groups/restart.rs"]
mod restart;
#[path = "groups/versions.rs"]
mod versions;
