//! The controller of a quorum of one: a thread that decides, appends, syncs, publishes and then answers.
//!
//! Method: handlers send closures that turn the committed image into records and a reply. The thread takes what waits,
//! appends each command's records as one batch, replays them, publishes the new image and only then lets the replies
//! go. Invariants: a reply that says "done" is durable and visible; a command that panics has changed nothing, and a panic
//! at any later step ends the server ([`Failure`](crate::failure::Failure)).

mod log;
mod snapshot;
mod state;
#[cfg(test)]
mod tests;
mod voters;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};
use weir_metadata::VersionedRecord;
use weir_metadata::controller::{Controller, ControllerResult, LimitReached};
use weir_metadata::image::MetadataImage;
use weir_metadata::properties::BrokerConfig;

use crate::failure;

pub(crate) use log::{MetadataLog, MetadataLogError, OpenOptions, TOPIC};
pub(crate) use voters::Voter;

/// Commands that may wait; more wait in their handlers.
const QUEUE: usize = 64;

/// Why a command was not carried out.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum ControllerError {
    /// The metadata log refused the records.
    #[error("the metadata log takes no records: {0}")]
    Log(String),
    /// The server stops.
    #[error("the controller is stopping")]
    Stopping,
    /// Deciding the command panicked; nothing was done.
    #[error("the command failed by a fault of the server: {0}")]
    Panicked(String),
}

type Done = Box<dyn FnOnce(Result<(), ControllerError>) + Send>;
type Decided = (Vec<VersionedRecord>, Vec<LimitReached>, Done);
type Decide = Box<dyn FnOnce(&MetadataImage, &BrokerConfig) -> Decided + Send>;

enum Job {
    Decide(Decide),
    Stop(oneshot::Sender<()>),
}

/// How handlers reach the controller.
#[derive(Clone, Debug)]
pub(crate) struct ControllerHandle(mpsc::Sender<Job>);

/// The other end, for the controller's thread.
#[derive(Debug)]
pub(crate) struct ControllerQueue(mpsc::Receiver<Job>);

/// A handle and the queue behind it.
pub(crate) fn channel() -> (ControllerHandle, ControllerQueue) {
    let (sender, receiver) = mpsc::channel(QUEUE);
    (ControllerHandle(sender), ControllerQueue(receiver))
}

impl ControllerHandle {
    /// Lets the controller decide, and returns its reply once the records are durable and published.
    pub(crate) async fn run<R: Send + 'static>(
        &self,
        decide: impl FnOnce(Controller<'_>) -> ControllerResult<R> + Send + 'static,
    ) -> Result<R, ControllerError> {
        self.run_holding((), decide).await
    }

    /// As [`ControllerHandle::run`] for somebody who may go before the controller is done: `held` is dropped after the last
    /// of what the command made.
    pub(crate) async fn run_holding<R: Send + 'static>(
        &self,
        held: impl Send + 'static,
        decide: impl FnOnce(Controller<'_>) -> ControllerResult<R> + Send + 'static,
    ) -> Result<R, ControllerError> {
        let (sender, receiver) = oneshot::channel();
        let job: Decide = Box::new(move |image, config| {
            let decided = catch_unwind(AssertUnwindSafe(|| decide(Controller::new(image, config))));
            let ControllerResult { records, reply, limits, .. } = match decided {
                Ok(result) => result,
                // Decisions are pure: what was half done is gone with the stack.
                Err(payload) => {
                    let error = ControllerError::Panicked(failure::message(&*payload).to_owned());
                    let done: Done = Box::new(move |_| drop(sender.send(Err(error))));
                    return (Vec::new(), Vec::new(), done);
                }
            };
            let done: Done = Box::new(move |outcome| {
                // Nobody listens any more when the client has gone; the records stand all the same.
                drop(sender.send(outcome.map(|()| reply)));
                drop(held);
            });
            (records, limits, done)
        });
        self.0.send(Job::Decide(job)).await.map_err(|_| ControllerError::Stopping)?;
        receiver.await.map_err(|_| ControllerError::Stopping)?
    }

    /// Ends the controller after everything that waits.
    pub(crate) async fn stop(&self) {
        let (sender, receiver) = oneshot::channel();
        if self.0.send(Job::Stop(sender)).await.is_ok() {
            let _ = receiver.await;
        }
    }
}

/// When the controller makes snapshots by itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SnapshotPolicy {
    /// `metadata.log.max.record.bytes.between.snapshots`.
    pub(crate) max_bytes: u64,
    /// `metadata.log.max.snapshot.interval.ms`; `None` for never.
    pub(crate) max_interval: Option<Duration>,
}

/// What the controller's thread needs of its surroundings.
pub(crate) trait Publisher: Send {
    /// The configuration under which commands are decided.
    fn config(&self) -> Arc<BrokerConfig>;
    /// Makes the server follow the metadata from `old` to `new`.
    fn publish(&mut self, old: &MetadataImage, new: &MetadataImage);
    /// Records of what publishing has made known, some at a time; empty when there is nothing more.
    fn follow_up(&mut self, image: &MetadataImage) -> Vec<VersionedRecord>;
    /// Hears that a limit refused a part of a command.
    fn limit_reached(&self, limit: &LimitReached);
    /// The wall clock in milliseconds.
    fn now_ms(&self) -> i64;
    /// Hears that the controller is gone, and why the server must not go on without it.
    fn failed(&self);
}

/// The controller's loop; ends with [`ControllerHandle::stop`], or when a step behind the decision panics: what waits is
/// refused then, and the server told.
pub(crate) fn run(
    log: MetadataLog,
    queue: ControllerQueue,
    mut publisher: impl Publisher,
    policy: SnapshotPolicy,
) {
    if catch_unwind(AssertUnwindSafe(|| serve(log, queue, &mut publisher, policy))).is_err() {
        publisher.failed();
    }
}

fn serve(
    mut log: MetadataLog,
    queue: ControllerQueue,
    publisher: &mut impl Publisher,
    policy: SnapshotPolicy,
) {
    let mut last_snapshot = Instant::now();
    let ControllerQueue(mut queue) = queue;
    follow_up(&mut log, publisher);
    while let Some(job) = queue.blocking_recv() {
        match job {
            Job::Decide(decide) => {
                let before = log.image().clone();
                let (records, limits, done) = decide(&before, &publisher.config());
                limits.iter().for_each(|limit| publisher.limit_reached(limit));
                let outcome = log.append(&records, publisher.now_ms());
                let count = records.len();
                // Gone before what they make is made: a partition's records and its log share the partition's charge.
                drop(records);
                if let Err(error) = &outcome {
                    tracing::error!("cannot append {count} metadata records: {error}");
                } else if count > 0 {
                    publisher.publish(&before, log.image());
                }
                follow_up(&mut log, publisher);
                done(outcome.map_err(|error| ControllerError::Log(error.to_string())));
            }
            Job::Stop(stopped) => {
                let _ = stopped.send(());
                return;
            }
        }
        let due_by_time = policy.max_interval.is_some_and(|interval| last_snapshot.elapsed() >= interval);
        let bytes = log.bytes_since_snapshot();
        if bytes >= policy.max_bytes || (due_by_time && bytes > 0) {
            match log.snapshot(publisher.now_ms()) {
                Ok(()) => last_snapshot = Instant::now(),
                Err(error) => tracing::error!("cannot write a metadata snapshot: {error}"),
            }
        }
    }
}

fn follow_up(log: &mut MetadataLog, publisher: &mut impl Publisher) {
    loop {
        let before = log.image().clone();
        let records = publisher.follow_up(&before);
        if records.is_empty() {
            return;
        }
        if let Err(error) = log.append(&records, publisher.now_ms()) {
            // The next start finds it out again.
            tracing::error!("cannot append {} metadata records: {error}", records.len());
            return;
        }
        publisher.publish(&before, log.image());
    }
}

/// Writes the `bootstrap.checkpoint` of a newly formatted directory, as Kafka's storage tool does.
pub(crate) fn write_bootstrap(dir: &Path, records: &[VersionedRecord], now_ms: i64) -> std::io::Result<()> {
    let static_quorum = voters::Quorum::default();
    let path = dir.join("bootstrap.checkpoint");
    snapshot::write_file(&path, records.iter().cloned(), &static_quorum, 0, 0, now_ms)
}

/// For [`crate::fuzz`]: a snapshot, and `quorum-state`.
pub(crate) mod untrusted {
    use std::io::IoSlice;

    use weir_protocol::records::{BatchHeader, HEADER_SIZE_BYTES, crc_of};

    use super::{snapshot, state};

    /// Reads a snapshot as it is and with its checksums made right, without which hardly any damage would be looked at;
    /// what was read of the quorum can be written again.
    pub(crate) fn snapshot(data: &[u8]) {
        for data in [data, &with_right_checksums(data)] {
            if let Ok((_, quorum)) = snapshot::parse(&mut &*data, data.len() as u64, "fuzz", (1000, 1)) {
                assert!(quorum.records().is_ok());
                quorum.is_alone(1);
            }
        }
    }

    fn with_right_checksums(data: &[u8]) -> Vec<u8> {
        let mut data = data.to_vec();
        let mut rest = data.as_mut_slice();
        while let Some((head, behind)) = rest.split_first_chunk_mut::<HEADER_SIZE_BYTES>() {
            let Ok(header) = BatchHeader::parse(head) else { break };
            let Some((body, next)) = behind.split_at_mut_checked(header.body_size_bytes()) else { break };
            head[17..21].copy_from_slice(&crc_of(&header, &[IoSlice::new(body)]).to_be_bytes());
            rest = next;
        }
        data
    }

    /// Reads a `quorum-state`.
    pub(crate) fn quorum_state(data: &[u8]) {
        let _ = state::parse(data, 1);
    }
}
