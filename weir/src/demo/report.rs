//! What came of it: a verdict, a table, a chart.

use std::time::Duration;

use comfy_table::{ContentArrangement, Table, presets};
use serde_json::{Value, json};

use super::attack::{Attacked, Behaved, Outcome, Plan};
use super::memory::Page;
use super::{chart, page};

/// Everything that was measured.
pub(crate) struct Report {
    pub(super) plan: Plan,
    pub(super) attacked: Attacked,
    pub(super) behaved: Behaved,
    /// Seconds since the start, bytes of anonymous memory.
    pub(super) memory: Vec<(f64, u64)>,
    /// The broker's own words after the attack.
    pub(super) at_rest: Option<Page>,
    /// When the attack began and ended, seconds since the start.
    pub(super) phases: (f64, f64),
}

/// Bytes in the largest unit that leaves at least one.
pub(super) fn size(bytes: u64) -> String {
    let (value, unit) = match bytes {
        0..1024 => return format!("{bytes} B"),
        1024..1_048_576 => (bytes as f64 / 1024.0, "KiB"),
        1_048_576..1_073_741_824 => (bytes as f64 / 1_048_576.0, "MiB"),
        _ => (bytes as f64 / 1_073_741_824.0, "GiB"),
    };
    format!("{value:.1} {unit}")
}

fn time(duration: Duration) -> String {
    match duration.as_secs_f64() {
        seconds if seconds >= 1.0 => format!("{seconds:.1} s"),
        seconds => format!("{:.1} ms", seconds * 1000.0),
    }
}

impl Report {
    /// `memory.budget.bytes`; 0 when the broker was gone at the end.
    pub(super) fn limit(&self) -> u64 {
        self.at_rest.as_ref().map_or(0, |page| page.limit)
    }

    /// Most anonymous memory.
    pub(super) fn peak(&self) -> u64 {
        self.memory.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0)
    }

    fn memory_at(&self, at: f64) -> u64 {
        let before = self.memory.iter().take_while(|(sampled, _)| *sampled <= at).last();
        before.or(self.memory.first()).map_or(0, |(_, bytes)| *bytes)
    }

    /// Bytes of huge requests per second.
    fn bytes_per_second(&self) -> u64 {
        let bytes = self.attacked.floods.answered * self.plan.request_bytes();
        (bytes as f64 / self.attacked.took.as_secs_f64().max(0.001)) as u64
    }

    /// What went wrong, if anything did.
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.at_rest.is_none() {
            faults.push("the broker did not answer at the end".to_string());
        } else if self.peak() > self.limit() {
            faults.push(format!("the bound was broken: {} of {}", size(self.peak()), size(self.limit())));
        }
        for (who, outcome) in [
            ("a huge request", &self.attacked.floods),
            ("the producer", &self.behaved.producer),
            ("the consumer", &self.behaved.consumer),
        ] {
            if let Some(error) = &outcome.first_error {
                faults.push(format!("{} errors of {who}, the first: {error}", outcome.errors));
            }
        }
        if self.attacked.floods.answered == 0 || self.behaved.producer.answered == 0 {
            faults.push("nothing was answered".to_string());
        }
        if self.behaved.missing > 0 {
            faults
                .push(format!("{} acknowledged records were not seen by the consumer", self.behaved.missing));
        }
        faults
    }

    /// One sentence.
    pub(crate) fn verdict(&self) -> String {
        let faults = self.faults();
        if faults.is_empty() {
            format!(
                "the bound held: at most {} of {} while {} were asked for at once, every request answered",
                size(self.peak()),
                size(self.limit()),
                size(self.plan.asked_bytes()),
            )
        } else {
            faults.join("; ")
        }
    }

    /// Rows of the table: what, how much, outcome, speed.
    pub(super) fn rows(&self) -> Vec<[String; 4]> {
        let Report { plan, attacked, behaved, .. } = self;
        let floods = &attacked.floods;
        let quantiles = |latencies: &crate::load::latency::Latencies| match latencies.count() {
            0 => "nothing was answered".to_string(),
            _ => format!(
                "p50 {}, p99 {}, longest {}",
                time(latencies.quantile(0.5)),
                time(latencies.quantile(0.99)),
                time(latencies.longest())
            ),
        };
        let page = self.at_rest.clone().unwrap_or_default();
        vec![
            [
                format!(
                    "{} connections, each a request of {} at once",
                    plan.floods,
                    size(plan.request_bytes())
                ),
                format!("{} sent, {} answered", floods.sent, floods.answered),
                format!("{} errors", floods.errors),
                format!("{}/s; {}", size(self.bytes_per_second()), quantiles(&floods.latencies)),
            ],
            [
                format!(
                    "{} connections that promise {} and stall",
                    plan.promises,
                    size(plan.promised_bytes as u64)
                ),
                format!("{} held open", attacked.promises_open),
                "cost no memory".to_string(),
                String::new(),
            ],
            [
                "a producer beside them, 1,000 records/s".to_string(),
                format!("{} sent, {} answered", behaved.producer.sent, behaved.producer.answered),
                format!("{} errors", behaved.producer.errors),
                quantiles(&behaved.producer.latencies),
            ],
            [
                "a consumer beside them".to_string(),
                format!("{} records", behaved.consumer.answered),
                format!("{} errors, {} missing", behaved.consumer.errors, behaved.missing),
                format!("end to end {}", quantiles(&behaved.consumer.latencies)),
            ],
            [
                "anonymous memory of the broker".to_string(),
                format!("peak {} of {}", size(self.peak()), size(page.limit)),
                format!("{} asked for at once", size(plan.asked_bytes())),
                format!(
                    "{} before, {} after; {} still leased",
                    size(self.memory_at(self.phases.0)),
                    size(self.memory.last().map_or(0, |(_, bytes)| *bytes)),
                    size(page.leased)
                ),
            ],
            [
                "the share that receives batches".to_string(),
                size(page.receive_limit),
                format!("{} waits for it", page.receive_waited),
                format!("{} connections cut off", page.stalled),
            ],
        ]
    }

    /// Table, chart and verdict for a terminal of so many columns.
    pub(crate) fn text(&self, columns: usize, colours: bool) -> String {
        let mut table = Table::new();
        table.load_style(presets::UTF8_FULL_CONDENSED);
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(u16::try_from(columns).unwrap_or(u16::MAX));
        table.set_header(["", "how much", "outcome", "speed"]);
        table.add_rows(self.rows());
        let mark = if self.faults().is_empty() { "✔" } else { "✘" };
        format!(
            "{table}\n\n{}\n{mark} {}\n",
            chart::draw(&self.memory, self.limit(), self.phases, columns, colours),
            self.verdict()
        )
    }

    /// For programs.
    pub(crate) fn json(&self) -> Value {
        let ms = |duration: Duration| duration.as_secs_f64() * 1000.0;
        let outcome = |outcome: &Outcome| {
            json!({
                "sent": outcome.sent,
                "answered": outcome.answered,
                "errors": outcome.errors,
                "first_error": outcome.first_error,
                "latency_ms": {
                    "p50": ms(outcome.latencies.quantile(0.5)),
                    "p99": ms(outcome.latencies.quantile(0.99)),
                    "max": ms(outcome.latencies.longest()),
                },
            })
        };
        let Report { plan, attacked, behaved, .. } = self;
        let page = self.at_rest.clone().unwrap_or_default();
        json!({
            "held": self.faults().is_empty(),
            "faults": self.faults(),
            "memory_bytes": {
                "budget": self.limit(),
                "peak": self.peak(),
                "before": self.memory_at(self.phases.0),
                "after": self.memory.last().map_or(0, |(_, bytes)| *bytes),
                "leased_after": page.leased,
                "asked_for_at_once": plan.asked_bytes(),
            },
            "huge_requests": {
                "connections": plan.floods,
                "bytes": plan.request_bytes(),
                "bytes_per_second": self.bytes_per_second(),
                "outcome": outcome(&attacked.floods),
            },
            "promises": { "connections": plan.promises, "held_open": attacked.promises_open },
            "producer": outcome(&behaved.producer),
            "consumer": { "outcome": outcome(&behaved.consumer), "missing": behaved.missing },
            "cut_off": page.stalled,
        })
    }

    /// The same as one page without anything outside of it.
    pub(crate) fn html(&self) -> String {
        page::render(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(peak: u64, flood_errors: u64) -> Report {
        let mut latencies = crate::load::latency::Latencies::default();
        latencies.note(Duration::from_millis(3));
        let outcome = Outcome { sent: 5, answered: 5, latencies, ..Outcome::default() };
        let failed = Outcome {
            errors: flood_errors,
            first_error: (flood_errors > 0).then(|| "a <b> \"reason\"".to_string()),
            ..outcome.clone()
        };
        Report {
            plan: Plan {
                floods: 80,
                batches: 79,
                batch_bytes: 1 << 20,
                promises: 200,
                promised_bytes: 100 << 20,
                seconds: 1,
            },
            attacked: Attacked { floods: failed, took: Duration::from_secs(2), promises_open: 200 },
            behaved: Behaved { producer: outcome.clone(), consumer: outcome, missing: 0 },
            memory: (0..100).map(|n| (f64::from(n) / 10.0, if n == 50 { peak } else { 1 << 20 })).collect(),
            at_rest: Some(Page { limit: 64 << 20, ..Page::default() }),
            phases: (2.0, 8.0),
        }
    }

    #[test]
    fn a_bound_that_held_is_said_so_and_one_that_broke_is_a_fault() {
        let held = report(64 << 20, 0);
        assert_eq!(held.faults(), Vec::<String>::new());
        let text = held.text(200, false);
        assert!(text.contains("✔ the bound held: at most 64.0 MiB of 64.0 MiB"), "{text}");
        assert!(text.contains("197.5 MiB/s") && text.contains("p50 3.0 ms"), "{text}");
        for columns in [40, 80, 140] {
            let text = held.text(columns, false);
            let (verdict, rest) = text.trim_end().rsplit_once('\n').map(|(rest, last)| (last, rest)).unwrap();
            assert!(verdict.starts_with('✔'), "{text}");
            let widest = rest.lines().map(|line| line.chars().count()).max();
            assert!(widest <= Some(columns), "{widest:?} of {columns}:\n{text}");
        }
        let broken = report((64 << 20) + 1, 0);
        assert_eq!(broken.faults(), ["the bound was broken: 64.0 MiB of 64.0 MiB"]);
        assert_eq!(report(1, 3).faults().len(), 1);
        assert_eq!(held.json()["held"], true);
        assert_eq!(report(1, 3).json()["huge_requests"]["outcome"]["errors"], 3);
        let mut gone = report(1, 0);
        gone.at_rest = None;
        assert_eq!(gone.faults(), ["the broker did not answer at the end"]);
    }

    #[test]
    fn the_page_stands_alone_and_escapes_what_it_shows() {
        let html = report(30 << 20, 3).html();
        assert!(html.contains("<svg ") && html.contains("a &lt;b&gt; &quot;reason&quot;"), "{html}");
        for outside in ["http:", "https:", "<script", "url(", "@import"] {
            assert!(!html.contains(outside), "{outside}");
        }
        let lines = html.matches("stroke-dasharray").count();
        assert_eq!(lines, 1, "one line at the limit");
    }
}
