//! The split of `memory.budget.bytes`: one table of terms whose sum is the bound, and the budgets made from it.
//!
//! Method: what grows with a count is charged in full by its count's limit ([`COUNTS`]); what is left is divided between
//! the shares of [`SHARES`] by weight, each with a floor below which the server could not work. Where a count's property
//! is not set, the count is derived from the budget, or from what the properties that are set and the floors leave of it
//! where that is less, so that the defaults always fit and one raised limit lowers the others.

use weir_budget::{Budget, BudgetError, ChunkChain, Plan, PlanError};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Code, static data, the table of properties, the allocator's own structures, and [`HTTP_BYTES`] for the HTTP side.
const BASE_BYTES: u64 = 9 * MIB / 2;
/// Part of the base: documents of `http.listener` on their way. Its eight connections with their 8 KiB buffers are in
/// the rest of the base.
const HTTP_BYTES: u64 = 768 * KIB;
/// One thread: the pages of its stack that it touches, and what the allocator keeps for it.
const THREAD_BYTES: u64 = 128 * KIB;
/// Threads beside those of the runtime: the controller's, the watch over the connections, the main one, the allocator's own.
const OTHER_THREADS: u64 = 5;
/// Threads for work that blocks: syncs before an answer, look-ups by timestamp, deletions, the care for the logs.
const BLOCKING_THREADS: u64 = 8;
/// What the allocator may hold beyond live bytes, per byte of budget: 1/12.
const FRAGMENTATION_DIVISOR: u64 = 12;
/// A connection's task, socket registration and small buffer.
pub const CONNECTION_BYTES: u64 = 2368;
/// One open partition: its log with one segment, its last batches, its directory's name, its place in the tables, and
/// its lines in a checkpoint. While it is created, the records of its creation take the room of what is not open yet.
pub const PARTITION_BYTES: u64 = 2560;
/// One more segment of a partition: its sizes, its two indexes and the places of their files.
pub const SEGMENT_BYTES: u64 = 640;
/// One producer id on one partition: its last five batches.
pub const PRODUCER_ID_BYTES: u64 = 512;
/// One unit of a fetch session: a partition; `fetch_sessions` counts what else a session holds in such units.
pub const SESSION_PARTITION_BYTES: u64 = 128;
/// One fetch request that waits: its future, timer and watch. One that watches many partitions counts for several.
pub const WAITING_BYTES: u64 = 1792;
/// One open file of a log, its path included.
pub const FILE_BYTES: u64 = 512;
/// Metadata of one partition in the image: what `max.metadata.bytes` must at least have room for.
const PARTITION_METADATA_BYTES: u64 = 512;

/// What the operator's properties say about memory. `None` = not set: derived from the budget.
#[derive(Clone, Debug)]
pub struct PlanInputs {
    /// `memory.budget.bytes`.
    pub budget_bytes: u64,
    /// `max.connections`.
    pub max_connections: Option<u64>,
    /// `max.partitions`.
    pub max_partitions: Option<u64>,
    /// `max.segments`, summed over partitions, beside the active ones.
    pub max_segments: Option<u64>,
    /// `max.metadata.bytes`.
    pub max_metadata_bytes: Option<u64>,
    /// `max.producer.ids`, summed over partitions.
    pub max_producer_ids: Option<u64>,
    /// `max.fetch.session.partitions`, summed over sessions.
    pub max_session_partitions: Option<u64>,
    /// `max.waiting.requests`.
    pub max_waiting_requests: Option<u64>,
    /// `message.max.bytes`: the largest batch that must fit in the receive share.
    pub message_max_bytes: u64,
    /// Upper bound of the memory that checking one compressed batch takes.
    pub decompression_bytes: u64,
    /// Processors of the machine.
    pub processors: u64,
}

/// The counts that the plan charges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Most connections open at once.
    pub connections: u64,
    /// Most partitions.
    pub partitions: u64,
    /// Most segments beside the active ones, summed over partitions.
    pub segments: u64,
    /// Most bytes of metadata.
    pub metadata_bytes: u64,
    /// Most producer ids, summed over partitions.
    pub producer_ids: u64,
    /// Most cached partitions, summed over fetch sessions.
    pub session_partitions: u64,
    /// Most fetch requests that wait.
    pub waiting_requests: u64,
    /// Most files of logs that stay open.
    pub open_files: u64,
}

/// Threads of the runtime that the plan charges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threads {
    /// Threads that run tasks.
    pub workers: usize,
    /// Most threads for work that blocks.
    pub blocking: usize,
}

/// What grows with a count.
struct CountRow {
    name: &'static str,
    property: &'static str,
    bytes_each: u64,
    /// Its usual part of the budget, in 128ths.
    part: u64,
    least: u64,
    most: u64,
}

const fn row(
    name: &'static str,
    property: &'static str,
    bytes_each: u64,
    part: u64,
    (least, most): (u64, u64),
) -> CountRow {
    CountRow { name, property, bytes_each, part, least, most }
}

/// In the order of [`Counts`], in which they are printed.
const COUNTS: [CountRow; 8] = [
    row("connections", "max.connections", CONNECTION_BYTES, 47, (128, 65_536)),
    row("partitions", "max.partitions", PARTITION_BYTES, 15, (128, 100_000)),
    row("segments", "max.segments", SEGMENT_BYTES, 1, (256, 100_000)),
    row("metadata", "max.metadata.bytes", 1, 3, (256 * KIB, 64 * MIB)),
    row("producers", "max.producer.ids", PRODUCER_ID_BYTES, 3, (512, 1_000_000)),
    row("sessions", "max.fetch.session.partitions", SESSION_PARTITION_BYTES, 2, (1024, 1_000_000)),
    row("waiting", "max.waiting.requests", WAITING_BYTES, 2, (128, 20_000)),
    row("files", "memory.budget.bytes", FILE_BYTES, 1, (64, 4096)),
];

impl CountRow {
    fn derived(&self, budget: u64) -> u64 {
        (budget / 128 * self.part / self.bytes_each).clamp(self.least, self.most)
    }
}

struct Share {
    name: &'static str,
    weight: u64,
    floor: u64,
    what: &'static str,
}

/// The shares that divide what the counts leave, in the order in which they are printed.
const SHARES: [Share; 9] = [
    Share { name: "receive", weight: 52, floor: 0, what: "batches between socket and segment" },
    Share { name: "control", weight: 7, floor: 512 * KIB, what: "control requests above 1 KiB" },
    Share {
        name: "work",
        weight: 6,
        floor: 640 * KIB,
        what: "what handling them takes beside their own memory",
    },
    // A group's state must fit in a reply.
    Share { name: "replies", weight: 13, floor: 768 * KIB, what: "replies above 1 KiB" },
    Share { name: "groups", weight: 12, floor: 640 * KIB, what: "groups, members and committed offsets" },
    Share {
        name: "fetch",
        weight: 8,
        floor: 640 * KIB,
        what: "heads of fetch responses; record bytes go by sendfile",
    },
    Share {
        name: "windows",
        weight: 5,
        floor: 256 * KIB,
        what: "64 KiB read windows of running connections",
    },
    Share { name: "small", weight: 4, floor: 256 * KIB, what: "decoding of frames up to 1 KiB" },
    Share { name: "streams", weight: 3, floor: 128 * KIB, what: "produce requests between their batches" },
];

/// The plan of a server and the counts that it allows.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Every term with its reason.
    pub plan: Plan,
    /// Limits of what grows with a count.
    pub counts: Counts,
    /// Threads of the runtime.
    pub threads: Threads,
    shares: [u64; SHARES.len()],
}

/// The budgets of a running server.
#[derive(Clone, Debug)]
pub struct Budgets {
    /// The one number.
    pub root: Budget,
    /// Batches between socket and segment.
    pub receive: Budget,
    /// Control requests above 1 KiB.
    pub control: Budget,
    /// What handling requests takes beside their own memory.
    pub work: Budget,
    /// Replies above 1 KiB.
    pub replies: Budget,
    /// Group state.
    pub groups: Budget,
    /// Heads of fetch responses of few partitions: a quarter of its share, so that they need not wait for large ones.
    pub fetch: Budget,
    /// Heads of the other fetch responses.
    pub large_fetch: Budget,
    /// Read windows.
    pub windows: Budget,
    /// Decoding of frames up to 1 KiB.
    pub small: Budget,
    /// Produce requests between their batches.
    pub streams: Budget,
    /// Fetch requests that wait: the term of the plan that `max.waiting.requests` gives.
    pub waiting: Budget,
    /// Documents of the HTTP side; a part of the base.
    pub http: Budget,
}

impl PlanInputs {
    /// What is set, in the order of [`COUNTS`].
    fn set(&self) -> [Option<u64>; COUNTS.len()] {
        [
            self.max_connections,
            self.max_partitions,
            self.max_segments,
            self.max_metadata_bytes,
            self.max_producer_ids,
            self.max_session_partitions,
            self.max_waiting_requests,
            None,
        ]
    }

    /// The counts in the order of [`COUNTS`]: what is set, and for the rest what `left` bytes allow, which are there for
    /// all counts.
    fn counts(&self, left: u64) -> [u64; COUNTS.len()] {
        let mut set = self.set();
        // The metadata must have room for as many partitions as there may be.
        let [_, partitions, _, metadata_bytes, ..] = &mut set;
        if let (Some(partitions), None) = (*partitions, *metadata_bytes) {
            *metadata_bytes =
                Some((256 * KIB).saturating_add(partitions.saturating_mul(PARTITION_METADATA_BYTES)));
        }
        let (mut taken, mut parts) = (0_u64, 0);
        for (row, set) in COUNTS.iter().zip(set) {
            match set {
                Some(number) => taken = taken.saturating_add(number.saturating_mul(row.bytes_each)),
                None => parts += row.part,
            }
        }
        let usual = (left.saturating_sub(taken) / parts.max(1)).saturating_mul(128).min(self.budget_bytes);
        std::array::from_fn(|at| set[at].unwrap_or_else(|| COUNTS[at].derived(usual)))
    }

    fn threads(&self) -> Threads {
        let most = (self.budget_bytes / 64 / THREAD_BYTES).max(2);
        Threads { workers: self.processors.clamp(1, most) as usize, blocking: BLOCKING_THREADS as usize }
    }
}

/// Divides `rest` by the weights of [`SHARES`]. A share that would get less than its floor gets the floor, and the others
/// divide what is left; where not even the floors fit, they are what is returned.
fn divide(rest: u64, floors: [u64; SHARES.len()]) -> [u64; SHARES.len()] {
    let mut on_floor = [false; SHARES.len()];
    loop {
        let each = || SHARES.iter().zip(floors).zip(on_floor);
        let taken: u64 = each().filter(|(_, on)| *on).map(|((_, floor), _)| floor).sum();
        let weights: u64 = each().filter(|(_, on)| !on).map(|((share, _), _)| share.weight).sum();
        let left = rest.saturating_sub(taken);
        let shares: [u64; SHARES.len()] = std::array::from_fn(|at| match on_floor[at] {
            true => floors[at],
            // A budget may be any number of 64 bits.
            false => (u128::from(left) * u128::from(SHARES[at].weight) / u128::from(weights.max(1))) as u64,
        });
        let low = (0..SHARES.len()).find(|at| shares[*at] < floors[*at]);
        match low {
            Some(at) => on_floor[at] = true,
            None => return shares,
        }
    }
}

impl Layout {
    /// Divides the budget. Fails, naming the property to change and a budget that is enough, when the floors and counts
    /// do not fit.
    pub fn new(inputs: &PlanInputs) -> Result<Layout, PlanError> {
        Self::of(inputs).map_err(|error| PlanError { enough: Self::enough(inputs, error.needed), ..error })
    }

    /// A budget of whole mebibytes from `needed` bytes on in which the same properties fit. Some terms grow with the
    /// budget, so that what a smaller one lacked is less than what it takes.
    fn enough(inputs: &PlanInputs, needed: u64) -> u64 {
        let mut budget_bytes = needed;
        loop {
            budget_bytes = budget_bytes.checked_next_multiple_of(MIB).unwrap_or(u64::MAX);
            match Self::of(&PlanInputs { budget_bytes, ..inputs.clone() }) {
                Err(error) if budget_bytes < u64::MAX => {
                    budget_bytes = error.needed.max(budget_bytes.saturating_add(1));
                }
                _ => return budget_bytes,
            }
        }
    }

    fn of(inputs: &PlanInputs) -> Result<Layout, PlanError> {
        let budget = inputs.budget_bytes;
        let threads = inputs.threads();
        let batch = ChunkChain::lease_bytes(inputs.message_max_bytes as usize) + inputs.decompression_bytes;
        let floors = SHARES.map(|share| if share.name == "receive" { batch } else { share.floor });
        let mut plan = Plan::new(budget);
        plan.add(
            "base",
            BASE_BYTES,
            "code, runtime, allocator, 0.75 MiB for http.listener".to_string(),
            "memory.budget.bytes",
        );
        let thread_count = threads.workers as u64 + threads.blocking as u64 + OTHER_THREADS;
        plan.add(
            "threads",
            thread_count * THREAD_BYTES,
            format!("{thread_count} × {} KiB", THREAD_BYTES / KIB),
            "memory.budget.bytes",
        );
        plan.add(
            "allocator",
            budget / FRAGMENTATION_DIVISOR,
            format!("1/{FRAGMENTATION_DIVISOR} of the budget for what the allocator keeps"),
            "memory.budget.bytes",
        );
        let left = budget.saturating_sub(plan.sum()).saturating_sub(floors.iter().sum());
        let numbers = inputs.counts(left);
        for (row, number) in COUNTS.iter().zip(numbers) {
            let reason = match row.bytes_each {
                1 => "topics, partitions and configs in the image".to_string(),
                each => format!("{number} × {each} B"),
            };
            plan.add(row.name, number.saturating_mul(row.bytes_each), reason, row.property);
        }
        let shares = divide(budget.saturating_sub(plan.sum()), floors);
        for (bytes, share) in shares.iter().zip(&SHARES) {
            let property = if share.name == "receive" { "message.max.bytes" } else { "memory.budget.bytes" };
            plan.add(share.name, *bytes, share.what.to_string(), property);
        }
        plan.check()?;
        let [
            connections,
            partitions,
            segments,
            metadata_bytes,
            producer_ids,
            session_partitions,
            waiting_requests,
            open_files,
        ] = numbers;
        let counts = Counts {
            connections,
            partitions,
            segments,
            metadata_bytes,
            producer_ids,
            session_partitions,
            waiting_requests,
            open_files,
        };
        Ok(Layout { plan, counts, threads, shares })
    }

    /// Makes the budgets. The shares sum to less than the root, so this fails only where the table is wrong.
    pub fn budgets(&self) -> Result<Budgets, BudgetError> {
        let root = Budget::root("memory", self.plan.limit);
        let [receive, control, work, replies, groups, fetch, windows, small, streams] = self.shares;
        Ok(Budgets {
            receive: root.child("receive", receive)?,
            control: root.child("control", control)?,
            work: root.child("work", work)?,
            replies: root.child("replies", replies)?,
            groups: root.child("groups", groups)?,
            fetch: root.child("fetch", fetch / 4)?,
            large_fetch: root.child("large fetch", fetch - fetch / 4)?,
            windows: root.child("windows", windows)?,
            small: root.child("small", small)?,
            streams: root.child("streams", streams)?,
            waiting: root.child("waiting", self.counts.waiting_requests * WAITING_BYTES)?,
            http: root.child("http", HTTP_BYTES)?,
            root,
        })
    }

    /// The limits by their properties' names.
    pub fn limits(&self) -> [(&'static str, u64); 7] {
        let counts = &self.counts;
        let numbers = [
            counts.connections,
            counts.partitions,
            counts.segments,
            counts.metadata_bytes,
            counts.producer_ids,
            counts.session_partitions,
            counts.waiting_requests,
        ];
        std::array::from_fn(|index| (COUNTS[index].property, numbers[index]))
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
            max_segments: None,
            max_metadata_bytes: None,
            max_producer_ids: None,
            max_session_partitions: None,
            max_waiting_requests: None,
            message_max_bytes: 1_048_588,
            decompression_bytes: 5 * MIB,
            processors: 4,
        }
    }

    #[test]
    fn the_defaults_fit_every_sensible_budget_and_the_sum_never_exceeds_it() {
        for budget in [32 * MIB, 48 * MIB, 64 * MIB, 100 * MIB, 256 * MIB, 1024 * MIB, 64 * 1024 * MIB] {
            let layout = Layout::new(&inputs(budget)).unwrap();
            assert!(layout.plan.sum() <= budget, "{}", layout.plan);
            assert_eq!(layout.budgets().unwrap().receive.limit(), layout.shares[0]);
        }
    }

    #[test]
    fn sixty_four_mebibytes_hold_ten_thousand_connections_and_seven_batches() {
        let layout = Layout::new(&inputs(64 * MIB)).unwrap();
        assert!(layout.counts.connections >= 10_200, "{:?}", layout.counts);
        assert!(layout.shares[0] >= 7 * MIB, "{}", layout.plan);
    }

    #[test]
    fn a_raised_limit_lowers_those_that_are_not_set() {
        let usual = Layout::new(&inputs(64 * MIB)).unwrap();
        let raised = PlanInputs { max_partitions: Some(10_000), ..inputs(64 * MIB) };
        let layout = Layout::new(&raised).unwrap();
        assert!(layout.plan.sum() <= 64 * MIB, "{}", layout.plan);
        assert_eq!(layout.counts.partitions, 10_000);
        assert!(layout.counts.connections < usual.counts.connections);
        assert!(layout.counts.metadata_bytes >= 10_000 * PARTITION_METADATA_BYTES, "{}", layout.plan);
    }

    #[test]
    fn a_machine_with_many_processors_gets_as_many_threads_as_the_budget_has_room_for() {
        let threads =
            |budget| Layout::new(&PlanInputs { processors: 192, ..inputs(budget) }).unwrap().threads.workers;
        assert_eq!((threads(64 * MIB), threads(256 * MIB), threads(4096 * MIB)), (8, 32, 192));
    }

    #[test]
    fn a_count_that_does_not_fit_is_refused_with_its_property() {
        let error =
            Layout::new(&PlanInputs { max_connections: Some(1_000_000), ..inputs(64 * MIB) }).unwrap_err();
        assert_eq!((error.property, error.bytes), ("max.connections", 1_000_000 * CONNECTION_BYTES));
        assert!(error.to_string().contains("lower max.connections"), "{error}");
    }

    #[test]
    fn the_budget_that_a_refusal_names_is_enough() {
        for refused in [
            inputs(16 * MIB),
            PlanInputs { processors: 192, ..inputs(20 * MIB) },
            PlanInputs { max_partitions: Some(1_000_000), ..inputs(256 * MIB) },
            PlanInputs { message_max_bytes: 1 << 30, ..inputs(64 * MIB) },
            PlanInputs { max_metadata_bytes: Some(i64::MAX as u64), ..inputs(64 * MIB) },
        ] {
            let error = Layout::new(&refused).unwrap_err();
            assert!(error.enough > refused.budget_bytes && error.enough.is_multiple_of(MIB), "{error}");
            Layout::new(&PlanInputs { budget_bytes: error.enough, ..refused }).unwrap();
        }
    }

    #[test]
    fn the_largest_budget_is_divided_too() {
        let layout = Layout::new(&inputs(i64::MAX as u64)).unwrap();
        let sum: u64 = layout.shares.iter().sum();
        assert!(sum > i64::MAX as u64 / 16 * 14 && layout.plan.sum() <= i64::MAX as u64, "{}", layout.plan);
    }

    #[test]
    fn a_batch_that_does_not_fit_is_refused_with_its_property() {
        let error = Layout::new(&PlanInputs { message_max_bytes: 1 << 30, ..inputs(64 * MIB) }).unwrap_err();
        assert_eq!(error.property, "message.max.bytes");
    }
}
