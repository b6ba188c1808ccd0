//! What a heap dump says of native memory: every allocation that a Java object knows of, and who holds it.
//!
//! [`Heap::read`] makes a few passes over the dump: the classes (up to the first object), all objects once, then as many as a
//! way up from the buffers to their roots takes, each over the chunks that can have something of it; names last, from the
//! front. Memory follows the objects of interest (threads, buffers, what holds them), not the dump. Input is untrusted.

mod assemble;
mod chunks;
mod classes;
mod collect;
mod files;
mod holders;
mod ids;
mod name;
mod naming;
mod natives;
mod pass;
mod read;
mod search;
mod segments;
mod symbols;
mod text;

use std::path::PathBuf;

use crate::hprof::Problem;
use crate::language::Text;

pub use name::Name;
pub use natives::{Pool, Statics};
pub use pass::Progress;

/// How a dump is read.
#[derive(Debug, Clone)]
pub struct Options {
    /// Threads that read; 0 = as many as there are processors.
    pub threads: usize,
    /// Passes that follow ways up to roots.
    pub max_levels: usize,
    /// Bytes of objects of interest that are kept; beyond it the account is incomplete and says so.
    pub limit_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { threads: 0, max_levels: 12, limit_bytes: 256 << 20 }
    }
}

/// The dump as a file, and what of it could not be read.
#[derive(Debug, Clone, Default)]
pub struct Condition {
    /// The file.
    pub path: PathBuf,
    /// Bytes of the file.
    pub stored_bytes: u64,
    /// Bytes of the dump.
    pub size_bytes: u64,
    /// Members of a gzip file; 0: plain.
    pub gzip_members: usize,
    /// The last number of the format's version 1.0.x.
    pub version: u8,
    /// Bytes of an object's id.
    pub id_bytes: usize,
    /// When the dump was begun, milliseconds since 1970.
    pub time_ms: u64,
    /// Whether the dump ends inside of a record; bytes that are missing at least.
    pub truncated: Option<u64>,
    /// A dump in segments that lacks its last record, or one that lacks all of its objects.
    pub end_missing: bool,
    /// Records that could not be read.
    pub problems: Vec<Problem>,
    /// Problems beyond those kept.
    pub more_problems: u64,
    /// What is wrong with the gzip data.
    pub gzip_problem: Option<Text>,
    /// Roots of all kinds.
    pub roots: u64,
    /// Roots that are threads.
    pub thread_roots: usize,
    /// Whether stacks are missing that the JVM had: all of them, or those of virtual threads that do not run (JDK 21 and before).
    pub stacks_missing: bool,
    /// Whether all names of threads are gone, as a redacted dump has them.
    pub names_redacted: bool,
    /// Whether all numbers are gone.
    pub numbers_redacted: bool,
    /// More objects of interest than the limit allows, or more referrers.
    pub overflow: bool,
    /// Classes that stood behind objects and cost one more pass.
    pub late_classes: bool,
    /// Passes over the dump or over parts of it, names aside.
    pub passes: usize,
    /// Bytes of the dump that all passes read.
    pub bytes_read: u64,
}

impl Condition {
    /// Whether every object of the dump was seen. Without that, what was not found proves nothing.
    pub fn is_complete(&self) -> bool {
        self.truncated.is_none()
            && !self.end_missing
            && self.problems.is_empty()
            && self.gzip_problem.is_none()
            && !self.overflow
    }

    /// Whether what nothing was found to hold is garbage.
    pub fn proves_garbage(&self) -> bool {
        self.is_complete() && !self.stacks_missing
    }
}

/// A platform thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    /// Its object.
    pub id: u64,
    /// Its name, if the dump has it.
    pub name: Option<String>,
    /// Its class.
    pub class: String,
    /// Caches of temporary buffers that it has: one with traces of I/O through heap buffers, empty or not.
    pub caches: u32,
}

/// Where the JVM counts an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Books {
    /// In the pool `direct`, under its limit.
    Direct,
    /// In the pool `mapped`.
    Mapped,
    /// Nowhere: temporary buffers of JDK 24 and later, memory of native code, the JDK's own image.
    None,
}

/// How an allocation is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Held {
    /// In the cache of a thread (index), or of one that was not found.
    Cached(Option<usize>),
    /// A temporary buffer of an I/O call that is under way in a thread (index): class and method of the frame.
    InFlight(Option<usize>, String),
    /// By objects of the application or of the JDK.
    Objects(Holder),
    /// By nothing: its memory comes back when its cleaner runs.
    Garbage,
    /// Nothing that holds it was found, in a dump that cannot prove there is nothing.
    Unknown,
}

/// Who holds an allocation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Holder {
    /// `class.field` of the nearest holder that is no collection and no part of the JDK, else of the nearest one.
    pub owner: Name,
    /// Steps from the root down to the buffer, of the largest buffer of each owner; of the others empty.
    pub path: Vec<String>,
    /// Whether the first step is a root.
    pub complete: bool,
    /// The thread (index) at the top of the path.
    pub thread: Option<usize>,
}

/// Native memory that a Java object stands for. Each is here once, whatever views there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocation {
    /// The buffer; of garbage whose buffer is gone, its cleaner.
    pub id: u64,
    /// Class of the buffer.
    pub class: Name,
    /// Bytes as the JVM counts them.
    pub bytes: u64,
    /// Bytes that can be used.
    pub capacity: u64,
    /// The buffer's limit: of a cached temporary buffer the bytes of its last use.
    pub limit: u64,
    /// The buffer's position.
    pub position: u64,
    /// Where the memory begins.
    pub address: u64,
    /// Slices, duplicates and other views of it.
    pub views: u64,
    /// Where the JVM counts it.
    pub books: Books,
    /// How it is held.
    pub held: Held,
    /// Name of the mapped file, where the dump has it.
    pub file: Option<String>,
}

/// Buffers without a cleaner that nothing holds. Temporary buffers of JDK 24 and later that were given back look so until the
/// next collection. If the memory of one is still there, no Java object knows of it: none of them is an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Unheld {
    /// Buffers.
    pub count: u64,
    /// Their capacities.
    pub bytes: u64,
}

/// See the module.
#[derive(Debug, Clone, Default)]
pub struct Heap {
    /// The dump as a file.
    pub condition: Condition,
    /// Objects in the dump.
    pub objects: u64,
    /// Classes in the dump.
    pub classes: usize,
    /// Platform threads.
    pub threads: Vec<Thread>,
    /// Virtual threads, which have no caches of their own.
    pub virtual_threads: u64,
    /// Threads' caches of temporary buffers, empty ones included.
    pub caches: u64,
    /// Caches that belong to no thread that was found.
    pub lost_caches: u64,
    /// Caches whose own count differs from the buffers found in them.
    pub torn_caches: u64,
    /// Every allocation, in the order of the dump.
    pub allocations: Vec<Allocation>,
    /// What looks like an allocation and is none.
    pub unheld: Unheld,
    /// Views of allocations, which hold no bytes of their own.
    pub views: u64,
    /// Views whose buffer the dump does not have.
    pub lost_views: u64,
    /// What the JDK's static fields say.
    pub statics: Statics,
}
