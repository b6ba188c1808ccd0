//! Named memory budgets: leases, recycled chunks and the plan that is their sum.
//!
//! Whoever holds bytes holds a [`Lease`] on a [`Budget`]. Budgets form a tree whose root is the one number that the
//! operator set; the limits of the children of a budget never sum to more than its own. Nothing here knows Kafka.
//!
//! Invariants: a lease releases exactly once, by type; at rest every budget reads 0; nobody waits for memory while
//! it holds a part of what it waits for ([`Budget::lease`] grants all or nothing, in arrival order).

mod account;
mod chain;
mod chunk;
mod counting;
mod lease;
mod plan;

pub use account::{Accounted, accounted_bytes};
pub use chain::ChunkChain;
pub use chunk::{Beside, CHUNK_BYTES, Chunk, ChunkPool};
pub use counting::{
    CountingAllocator, allocated_bytes, peak_allocated_bytes, peak_unaccounted_bytes, reset_peaks,
};
pub use lease::{Budget, BudgetError, BudgetReport, Holder, HolderReport, Lease, LeaseFuture, MAX_PASSES};
pub use plan::{Plan, PlanError, Term};
