//! The account: every allocation of a heap once, by what it is and who has it, beside what the JVM itself counted.
//!
//! Nothing is estimated. Where the sums of the dump's objects and the JVM's own counters differ, the difference is a line of
//! the account. What a damaged dump cannot prove is said in [`Account::conclusions`].

mod attribution;
mod conclusions;

use std::collections::HashMap;

use crate::heap::{Allocation, Books, Heap, Held, Pool};

pub use attribution::{Group, Spread, ThreadUse};
pub use conclusions::{Conclusion, Holds};

/// What an allocation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// A temporary buffer that a thread keeps for its next I/O through a heap buffer.
    Cached,
    /// A temporary buffer of an I/O call that is under way.
    InFlight,
    /// Held by objects.
    Held,
    /// Held by nothing: comes back when its cleaner runs, which takes a collection.
    Garbage,
    /// No holder was found, in a dump that cannot prove there is none.
    Unknown,
    /// A mapped file.
    Mapped,
    /// The JDK's own image of its classes.
    Image,
    /// Memory that something else than the JDK allocated, or will free; segments of `java.lang.foreign`.
    Foreign,
}

impl Class {
    /// All of them, in the order of reports.
    pub const ALL: [Self; 8] = [
        Self::Cached,
        Self::InFlight,
        Self::Held,
        Self::Garbage,
        Self::Unknown,
        Self::Mapped,
        Self::Image,
        Self::Foreign,
    ];

    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cached => "cached",
            Self::InFlight => "in_flight",
            Self::Held => "held",
            Self::Garbage => "garbage",
            Self::Unknown => "unknown",
            Self::Mapped => "mapped",
            Self::Image => "image",
            Self::Foreign => "foreign",
        }
    }

    /// What an allocation is.
    pub fn of(allocation: &Allocation) -> Self {
        match (&allocation.held, allocation.books) {
            (_, Books::Mapped) => Self::Mapped,
            (Held::Cached(_), _) => Self::Cached,
            (Held::InFlight(..), _) => Self::InFlight,
            (Held::Objects(holder), Books::None) if holder.owner.starts_with("jdk.internal.jimage.") => {
                Self::Image
            }
            // An arena frees it, so it is there whether a holder was found or not.
            (Held::Unknown, Books::None) if !is_segment(allocation) => Self::Unknown,
            (_, Books::None) => Self::Foreign,
            (Held::Objects(_), Books::Direct) if is_segment(allocation) => Self::Foreign,
            (Held::Objects(_), Books::Direct) => Self::Held,
            (Held::Garbage, Books::Direct) => Self::Garbage,
            (Held::Unknown, Books::Direct) => Self::Unknown,
        }
    }
}

fn is_segment(allocation: &Allocation) -> bool {
    allocation.class.starts_with("jdk.internal.foreign.")
}

/// A sum of allocations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sum {
    /// Bytes.
    pub bytes: u64,
    /// Bytes that can be used.
    pub capacity_bytes: u64,
    /// Allocations.
    pub count: u64,
}

impl Sum {
    fn add(&mut self, allocation: &Allocation) {
        self.bytes += allocation.bytes;
        self.capacity_bytes += allocation.capacity;
        self.count += 1;
    }
}

/// A line of the account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line {
    /// What the allocations are.
    pub class: Class,
    /// Where the JVM counts them.
    pub books: Books,
    /// How many, and how large.
    pub sum: Sum,
}

/// What the dump's objects add up to, beside what the JVM counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reconciled {
    /// The sum of the objects.
    pub found: Sum,
    /// The JVM's own counters, if the dump has them.
    pub counted: Option<Pool>,
}

impl Reconciled {
    /// Counted less found: bytes, capacity, buffers. None without counters.
    pub fn difference(&self) -> Option<(i128, i128, i128)> {
        let counted = self.counted?;
        let less = |one: u64, other: u64| i128::from(one) - i128::from(other);
        Some((
            less(counted.used_bytes, self.found.bytes),
            less(counted.capacity_bytes, self.found.capacity_bytes),
            less(counted.count, self.found.count),
        ))
    }

    /// Whether both agree to the byte.
    pub fn is_exact(&self) -> bool {
        self.difference().is_some_and(|(bytes, _, count)| bytes == 0 && count == 0)
    }
}

/// Memory that one field of one class holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// `class.field`.
    pub name: String,
    /// What it holds.
    pub class: Class,
    /// How many, and how large.
    pub sum: Sum,
    /// The largest of them.
    pub largest_bytes: u64,
    /// The way down to the largest.
    pub path: Vec<String>,
    /// Whether that begins at a root.
    pub complete: bool,
}

/// See the module.
#[derive(Debug, Clone, Default)]
pub struct Account {
    /// Sums by what the allocations are; no empty ones.
    pub lines: Vec<Line>,
    /// The pool `direct`.
    pub direct: Reconciled,
    /// The pool `mapped`.
    pub mapped: Reconciled,
    /// The limit of the pool `direct`, if the dump has it.
    pub limit_bytes: Option<u64>,
    /// What the next allocation could take: the limit less the pool's capacity.
    pub left_bytes: Option<u64>,
    /// Temporary buffers, cached or in flight, that the JVM counts nowhere.
    pub uncounted_temporary: Sum,
    /// All that threads and objects hold, counted or not: the whole of which groups have shares.
    pub whole_bytes: u64,
    /// Threads by role, those with most bytes first.
    pub groups: Vec<Group>,
    /// Threads that have temporary buffers, those with most bytes first.
    pub threads: Vec<ThreadUse>,
    /// Who holds what no thread's cache does, those with most bytes first.
    pub owners: Vec<Owner>,
    /// Indexes of the heap's allocations that are no mapped files, largest first.
    pub largest: Vec<usize>,
    /// What can be concluded from this dump, and what not.
    pub conclusions: Vec<Conclusion>,
}

impl Account {
    /// Makes the account of a heap.
    pub fn of(heap: &Heap) -> Self {
        let mut sums: HashMap<(Class, Books), Sum> = HashMap::new();
        let mut owners: HashMap<(&str, Class), Owner> = HashMap::new();
        let mut account = Self {
            direct: Reconciled { counted: heap.statics.direct, ..Reconciled::default() },
            mapped: Reconciled { counted: heap.statics.mapped, ..Reconciled::default() },
            limit_bytes: heap.statics.max_direct_bytes,
            ..Self::default()
        };
        for allocation in &heap.allocations {
            let class = Class::of(allocation);
            sums.entry((class, allocation.books)).or_default().add(allocation);
            match allocation.books {
                Books::Direct => account.direct.found.add(allocation),
                Books::Mapped => account.mapped.found.add(allocation),
                Books::None if matches!(class, Class::Cached | Class::InFlight) => {
                    account.uncounted_temporary.add(allocation);
                }
                Books::None => {}
            }
            let Held::Objects(holder) = &allocation.held else { continue };
            let owner = owners.entry((holder.owner.as_str(), class)).or_insert_with(|| Owner {
                name: holder.owner.to_string(),
                class,
                sum: Sum::default(),
                largest_bytes: 0,
                path: Vec::new(),
                complete: false,
            });
            owner.sum.add(allocation);
            owner.largest_bytes = owner.largest_bytes.max(allocation.bytes);
            if !holder.path.is_empty() && (owner.path.is_empty() || allocation.bytes >= owner.largest_bytes) {
                owner.path.clone_from(&holder.path);
                owner.complete = holder.complete;
            }
        }
        let whole = sums.iter().filter(|((class, books), _)| {
            *books == Books::Direct || matches!(class, Class::Cached | Class::InFlight | Class::Foreign)
        });
        account.whole_bytes = whole.map(|(_, sum)| sum.bytes).sum();
        for class in Class::ALL {
            for books in [Books::Direct, Books::Mapped, Books::None] {
                let sum = sums.get(&(class, books)).copied();
                account.lines.extend(sum.map(|sum| Line { class, books, sum }));
            }
        }
        let used =
            account.direct.counted.map_or(account.direct.found.capacity_bytes, |pool| pool.capacity_bytes);
        account.left_bytes = account.limit_bytes.map(|limit| limit.saturating_sub(used));
        account.owners = owners.into_values().collect();
        account.owners.sort_by(|one, other| {
            (other.sum.bytes, &one.name, one.class).cmp(&(one.sum.bytes, &other.name, other.class))
        });
        let largest = heap
            .allocations
            .iter()
            .enumerate()
            .filter(|(_, allocation)| !matches!(Class::of(allocation), Class::Mapped | Class::Image));
        account.largest = largest.map(|(index, _)| index).collect();
        account.largest.sort_by_key(|index| {
            (std::cmp::Reverse(heap.allocations.get(*index).map_or(0, |allocation| allocation.bytes)), *index)
        });
        (account.threads, account.groups) = attribution::attribute(heap, account.whole_bytes);
        account.conclusions = conclusions::conclude(heap, &account);
        account
    }

    /// The sum of one class, whoever counts it.
    pub fn sum(&self, class: Class) -> Sum {
        let mut sum = Sum::default();
        for line in self.lines.iter().filter(|line| line.class == class) {
            sum.bytes += line.sum.bytes;
            sum.capacity_bytes += line.sum.capacity_bytes;
            sum.count += line.sum.count;
        }
        sum
    }
}
