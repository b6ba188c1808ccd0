//! The runtime of a server, with as many threads as the plan charges.

use std::io;

use tokio::runtime::{Builder, Runtime};

use crate::plan::Layout;

/// Tasks that a thread of the runtime, or a runner of the connections, runs before it looks at the sockets again. A task may hold its thread for about a
/// millisecond, the time that a batch of 1 MiB takes into the page cache: after so many of them a small request should
/// not have waited longer than a few milliseconds. The runtime's own default is 61.
pub(crate) const EVENT_INTERVAL: u32 = 5;

/// The runtime that a server of this plan runs on. Work that blocks beyond the plan's threads waits for one of them.
///
/// # Errors
/// What the system says where it gives no thread.
pub fn runtime(layout: &Layout) -> io::Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(layout.threads.workers)
        .max_blocking_threads(layout.threads.blocking)
        .event_interval(EVENT_INTERVAL)
        .enable_all()
        .build()
}
