//! What came of a run, for people in one look and for programs as JSON.

use std::time::Duration;

use serde_json::{Value, json};

use crate::load::latency::Latencies;

/// The parts of all latencies that are reported.
const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999)];
const MIB: f64 = (1 << 20) as f64;

/// What was measured.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(super) verb: &'static str,
    pub(super) took: Duration,
    pub(super) records: u64,
    pub(super) bytes: u64,
    pub(super) wire_bytes: u64,
    /// Of records that were sent, of requests that fetched.
    pub(super) latencies: Latencies,
    pub(super) errors: u64,
    pub(super) first_error: Option<String>,
}

pub(super) fn milliseconds(duration: Duration) -> String {
    let ms = duration.as_secs_f64() * 1000.0;
    if ms < 10.0 { format!("{ms:.2} ms") } else { format!("{ms:.1} ms") }
}

impl Report {
    fn per_second(&self, count: u64) -> f64 {
        count as f64 / self.took.as_secs_f64().max(1e-9)
    }

    /// For people, in the words of Kafka's own tools.
    pub(crate) fn text(&self) -> String {
        let mut text = format!(
            "{} records {} in {:.1} s, {:.1} records/s ({:.2} MiB/s)\n",
            self.records,
            self.verb,
            self.took.as_secs_f64(),
            self.per_second(self.records),
            self.per_second(self.bytes) / MIB,
        );
        if self.wire_bytes < self.bytes {
            let part = self.wire_bytes as f64 / self.bytes as f64;
            text.push_str(&format!(
                "compressed to {:.0} % ({:.2} MiB/s)\n",
                part * 100.0,
                self.per_second(self.wire_bytes) / MIB
            ));
        }
        let mut parts = vec![format!("avg {}", milliseconds(self.latencies.mean()))];
        parts.extend(
            QUANTILES.map(|(name, q)| format!("{name} {}", milliseconds(self.latencies.quantile(q)))),
        );
        parts.push(format!("max {}", milliseconds(self.latencies.longest())));
        text.push_str(&format!("latency of a {}: {}\n", self.of_what(), parts.join(", ")));
        text
    }

    fn of_what(&self) -> &'static str {
        if self.verb == "sent" { "record" } else { "fetch" }
    }

    /// For programs.
    pub(crate) fn json(&self) -> Value {
        let ms = |duration: Duration| duration.as_secs_f64() * 1000.0;
        let mut latency = json!({
            "of": self.of_what(),
            "count": self.latencies.count(),
            "avg": ms(self.latencies.mean()),
            "max": ms(self.latencies.longest()),
        });
        for (name, q) in QUANTILES {
            latency[name] = ms(self.latencies.quantile(q)).into();
        }
        json!({
            "records": self.records,
            "bytes": self.bytes,
            "batch_bytes": self.wire_bytes,
            "seconds": self.took.as_secs_f64(),
            "records_per_second": self.per_second(self.records),
            "mib_per_second": self.per_second(self.bytes) / MIB,
            "latency_ms": latency,
            "errors": self.errors,
            "first_error": self.first_error,
        })
    }

    /// What went wrong, if something did.
    pub(crate) fn fault(&self) -> Option<String> {
        let first = self.first_error.as_ref()?;
        Some(match self.errors {
            1 => first.clone(),
            errors => format!("{errors} errors, the first: {first}"),
        })
    }
}
