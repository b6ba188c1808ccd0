//! Panics, which are faults of ours: what they end alone, and what the whole server must end with.
//!
//! A panic in a request's handler ends its connection, one in a command's decision is that command's error. One in a part
//! that the whole server needs (the controller, an accept loop, a background task) ends the server: half of one is worse
//! than none, for nobody restarts it.

use std::any::Any;
use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// Panics of this process since [`log_panics`].
static PANICS: AtomicU64 = AtomicU64::new(0);

/// From now on each panic of the process is counted, and is a line of the log instead of text on standard error.
pub fn log_panics() {
    std::panic::set_hook(Box::new(|info: &PanicHookInfo<'_>| {
        PANICS.fetch_add(1, Ordering::Relaxed);
        let thread = std::thread::current();
        tracing::error!(
            thread = thread.name().unwrap_or("?"),
            location = %info.location().map_or_else(|| "?".to_owned(), ToString::to_string),
            "panic: {}; this is a fault of the program\n{}",
            message(info.payload()),
            std::backtrace::Backtrace::capture()
        );
    }));
}

/// What a panic said.
pub(crate) fn message(payload: &(dyn Any + Send)) -> &str {
    match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (None, Some(text)) => text,
        (None, None) => "no message",
    }
}

/// Panics so far.
pub(crate) fn panics() -> u64 {
    PANICS.load(Ordering::Relaxed)
}

/// Whether a part has failed without which the server must not go on.
#[derive(Debug, Default)]
pub(crate) struct Failure {
    part: OnceLock<&'static str>,
    told: Notify,
}

impl Failure {
    /// Notes that `part` is gone; only the first counts.
    pub(crate) fn note(&self, part: &'static str) {
        if self.part.set(part).is_ok() {
            tracing::error!("{part} has failed: the server stops, so that it is not left serving in part");
            self.told.notify_one();
        }
    }

    /// Which part has failed.
    pub(crate) fn part(&self) -> Option<&'static str> {
        self.part.get().copied()
    }

    /// Waits until one has.
    pub(crate) async fn wait(&self) -> &'static str {
        loop {
            if let Some(part) = self.part() {
                return part;
            }
            self.told.notified().await;
        }
    }

    /// Runs a task that ends only by being aborted; if it panics, the server has failed.
    pub(crate) fn watch(
        self: &Arc<Self>,
        part: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> JoinHandle<()> {
        let watched = Watched { failure: Arc::clone(self), part };
        tokio::spawn(async move {
            let _watched = watched;
            task.await;
        })
    }
}

struct Watched {
    failure: Arc<Failure>,
    part: &'static str,
}

impl Drop for Watched {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.failure.note(self.part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_panics_is_told_of_and_one_that_is_aborted_is_not() {
        let failure = Arc::new(Failure::default());
        let aborted = failure.watch("the first", std::future::pending());
        aborted.abort();
        assert!(aborted.await.unwrap_err().is_cancelled());
        assert_eq!(failure.part(), None);
        let panicked = failure.watch("the second", async {
            tokio::task::yield_now().await;
            panic!("as the test wants");
        });
        assert_eq!(failure.wait().await, "the second");
        assert!(panicked.await.unwrap_err().is_panic());
        // Whoever asks later is told, too.
        assert_eq!(failure.wait().await, "the second");
    }
}
