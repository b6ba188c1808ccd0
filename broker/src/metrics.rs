//! Counters of the data path; what the `/metrics` page renders besides the budgets.
//!
//! Invariant: nothing here is labelled by what a client names, so the number of series is bounded by the code.

use prometheus_client::metrics::counter::Counter;

/// All counters of the server. Cloning shares them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) messages_in: Counter,
    pub(crate) bytes_in: Counter,
    pub(crate) bytes_out: Counter,
    pub(crate) produce_batches: Counter,
    pub(crate) failed_produce: Counter,
    pub(crate) failed_fetch: Counter,
    pub(crate) fetches: Counter,
    pub(crate) requests: Counter,
    pub(crate) connections_accepted: Counter,
    pub(crate) connections_refused: Counter,
}

impl Metrics {
    pub(crate) fn produced(&self, records: u32, bytes: usize) {
        self.messages_in.inc_by(u64::from(records));
        self.bytes_in.inc_by(bytes as u64);
        self.produce_batches.inc();
    }

    pub(crate) fn failed_produce(&self) {
        self.failed_produce.inc();
    }

    pub(crate) fn fetched(&self, bytes: u64) {
        self.fetches.inc();
        self.bytes_out.inc_by(bytes);
    }

    pub(crate) fn failed_fetch(&self) {
        self.failed_fetch.inc();
    }

    pub(crate) fn accepted_connection(&self) {
        self.connections_accepted.inc();
    }

    pub(crate) fn refused_connection(&self) {
        self.connections_refused.inc();
    }
}
