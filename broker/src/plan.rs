//! The split of `memory.budget.bytes`: one table of shares whose sum is the bound, and the budgets made from it.
//!
//! Method: counts with a property of their own (connections, partitions, producer ids, ...) are charged in full; what
//! is left is divided between the shares of [`SHARES`] by weight, each with a floor below which the server could not
//! work. Where a count's property is not set, the count is derived from the budget so that the defaults always fit.

use weir_budget::{Budget, BudgetError, ChunkChain, Plan, PlanError};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Code, static data, runtime threads, the allocator's own structures, and [`HTTP_BYTES`] for the HTTP side.
const BASE_BYTES: u64 = 6 * MIB;
/// Part of the base: documents of `http.listener` that are rendered or on their way to a slow reader. Its eight
/// connections with their 8 KiB buffers are in the rest of the base.
const HTTP_BYTES: u64 = 768 * KIB;
/// What the allocator may hold beyond live bytes, per byte of budget: 1/12.
const FRAGMENTATION_DIVISOR: u64 = 12;
/// A connection's task, socket registration and small buffer.
pub const CONNECTION_BYTES: u64 = 2 * KIB;
/// One open partition: its log, epochs, indexes' pending entries and its place in the image.
pub const PARTITION_BYTES: u64 = 2 * KIB;
/// One producer id on one partition: its last five batches.
pub const PRODUCER_ID_BYTES: u64 = 256;
/// One cached partition of an incremental fetch session.
pub const SESSION_PARTITION_BYTES: u64 = 128;

/// What the operator's properties say about memory. `None` = not set: derived from the budget.
#[derive(Clone, Debug)]
pub struct PlanInputs {
    /// `memory.budget.bytes`.
    pub budget_bytes: u64,
    /// `max.connections`.
    pub max_connections: Option<u64>,
    /// `max.partitions`.
    pub max_partitions: Option<u64>,
    /// `max.producer.ids`, summed over partitions.
    pub max_producer_ids: Option<u64>,
    /// `max.fetch.session.partitions`, summed over sessions.
    pub max_session_partitions: Option<u64>,
    /// `message.max.bytes`: the largest batch that must fit in the receive share.
    pub message_max_bytes: u64,
    /// Upper bound of the memory that checking one compressed batch takes.
    pub decompression_bytes: u64,
}

/// The counts that the plan charges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Most connections open at once.
    pub connections: u64,
    /// Most partitions.
    pub partitions: u64,
    /// Most producer ids, summed over partitions.
    pub producer_ids: u64,
    /// Most cached partitions, summed over fetch sessions.
    pub session_partitions: u64,
}

struct Share {
    name: &'static str,
    weight: u64,
    floor: u64,
    what: &'static str,
}

/// The shares that divide what the counts leave, in the order in which they are printed.
const SHARES: [Share; 6] = [
    Share { name: "receive", weight: 54, floor: 0, what: "batches between socket and segment" },
    Share { name: "control", weight: 14, floor: 2 * MIB, what: "control requests and replies above 1 KiB" },
    Share { name: "groups", weight: 14, floor: MIB, what: "groups, members and committed offsets" },
    Share {
        name: "fetch",
        weight: 9,
        floor: MIB,
        what: "heads of fetch responses; record bytes go by sendfile",
    },
    Share {
        name: "windows",
        weight: 5,
        floor: 512 * KIB,
        what: "16 KiB read windows of running connections",
    },
    Share { name: "small", weight: 4, floor: 512 * KIB, what: "decoding of frames up to 1 KiB" },
];

/// The plan of a server and the counts that it allows.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Every term with its reason.
    pub plan: Plan,
    /// Limits of what grows with a count.
    pub counts: Counts,
    shares: [u64; SHARES.len()],
}

/// The budgets of a running server.
#[derive(Clone, Debug)]
pub struct Budgets {
    /// The one number.
    pub root: Budget,
    /// Batches between socket and segment.
    pub receive: Budget,
    /// Control requests and replies above 1 KiB.
    pub control: Budget,
    /// Group state.
    pub groups: Budget,
    /// Heads of fetch responses.
    pub fetch: Budget,
    /// Read windows.
    pub windows: Budget,
    /// Decoding of frames up to 1 KiB.
    pub small: Budget,
    /// Documents of the HTTP side; a part of the base.
    pub http: Budget,
}

fn derived(budget: u64, eighths: u64, each: u64, least: u64, most: u64) -> u64 {
    (budget * eighths / 64 / each).clamp(least, most)
}

impl Layout {
    /// Divides the budget. Fails, naming the property to change, when the floors and counts do not fit.
    pub fn new(inputs: &PlanInputs) -> Result<Layout, PlanError> {
        let budget = inputs.budget_bytes;
        let counts = Counts {
            connections: inputs.max_connections.unwrap_or(derived(budget, 21, CONNECTION_BYTES, 256, 65_536)),
            partitions: inputs.max_partitions.unwrap_or(derived(budget, 6, PARTITION_BYTES, 128, 100_000)),
            producer_ids: inputs.max_producer_ids.unwrap_or(derived(
                budget,
                2,
                PRODUCER_ID_BYTES,
                1024,
                1_000_000,
            )),
            session_partitions: inputs.max_session_partitions.unwrap_or(derived(
                budget,
                1,
                SESSION_PARTITION_BYTES,
                1024,
                1_000_000,
            )),
        };
        let mut plan = Plan::new(budget);
        plan.add(
            "base",
            BASE_BYTES,
            "code, runtime, allocator, 0.75 MiB for http.listener".to_string(),
            "memory.budget.bytes",
        );
        plan.add(
            "allocator",
            budget / FRAGMENTATION_DIVISOR,
            format!("1/{FRAGMENTATION_DIVISOR} of the budget for what the allocator keeps"),
            "memory.budget.bytes",
        );
        let mut count = |name, number: u64, each: u64, property| {
            plan.add(name, number.saturating_mul(each), format!("{number} × {each} B"), property);
        };
        count("connections", counts.connections, CONNECTION_BYTES, "max.connections");
        count("partitions", counts.partitions, PARTITION_BYTES, "max.partitions");
        count("producers", counts.producer_ids, PRODUCER_ID_BYTES, "max.producer.ids");
        count("sessions", counts.session_partitions, SESSION_PARTITION_BYTES, "max.fetch.session.partitions");
        let rest = budget.saturating_sub(plan.sum());
        let weights: u64 = SHARES.iter().map(|share| share.weight).sum();
        let batch = ChunkChain::lease_bytes(inputs.message_max_bytes as usize) + inputs.decompression_bytes;
        let mut shares = [0; SHARES.len()];
        for (bytes, share) in shares.iter_mut().zip(&SHARES) {
            let floor = if share.name == "receive" { batch } else { share.floor };
            *bytes = (rest * share.weight / weights).max(floor);
            let property = if share.name == "receive" { "message.max.bytes" } else { "memory.budget.bytes" };
            plan.add(share.name, *bytes, share.what.to_string(), property);
        }
        plan.check()?;
        Ok(Layout { plan, counts, shares })
    }

    /// Makes the budgets. The shares sum to less than the root, so this fails only where the table is wrong.
    pub fn budgets(&self) -> Result<Budgets, BudgetError> {
        let root = Budget::root("memory", self.plan.limit);
        let [receive, control, groups, fetch, windows, small] = self.shares;
        Ok(Budgets {
            receive: root.child("receive", receive)?,
            control: root.child("control", control)?,
            groups: root.child("groups", groups)?,
            fetch: root.child("fetch", fetch)?,
            windows: root.child("windows", windows)?,
            small: root.child("small", small)?,
            http: root.child("http", HTTP_BYTES)?,
            root,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs(budget_bytes: u64) -> PlanInputs {
        PlanInputs {
            budget_bytes,
            max_connections: None,
            max_partitions: None,
            max_producer_ids: None,
            max_session_partitions: None,
            message_max_bytes: 1_048_588,
            decompression_bytes: 2 * MIB,
        }
    }

    #[test]
    fn the_defaults_fit_every_sensible_budget_and_the_sum_never_exceeds_it() {
        for budget in [48 * MIB, 64 * MIB, 100 * MIB, 256 * MIB, 1024 * MIB, 64 * 1024 * MIB] {
            let layout = Layout::new(&inputs(budget)).unwrap();
            assert!(layout.plan.sum() <= budget, "{}", layout.plan);
            assert_eq!(layout.budgets().unwrap().receive.limit(), layout.shares[0]);
        }
    }

    #[test]
    fn sixty_four_mebibytes_hold_ten_thousand_connections_and_ten_batches() {
        let layout = Layout::new(&inputs(64 * MIB)).unwrap();
        assert!(layout.counts.connections >= 10_200, "{:?}", layout.counts);
        assert!(layout.shares[0] >= 10 * MIB, "{}", layout.plan);
    }

    #[test]
    fn a_count_that_does_not_fit_is_refused_with_its_property() {
        let error =
            Layout::new(&PlanInputs { max_connections: Some(1_000_000), ..inputs(64 * MIB) }).unwrap_err();
        assert_eq!((error.property, error.bytes), ("max.connections", 1_000_000 * CONNECTION_BYTES));
        assert!(error.to_string().contains("lower max.connections"), "{error}");
    }

    #[test]
    fn a_batch_that_does_not_fit_is_refused_with_its_property() {
        let error = Layout::new(&PlanInputs { message_max_bytes: 1 << 30, ..inputs(64 * MIB) }).unwrap_err();
        assert_eq!(error.property, "message.max.bytes");
    }
}
