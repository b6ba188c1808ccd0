//! Latencies in buckets of at most a sixteenth of their value, so that any number of them takes the same memory.

use std::time::Duration;

/// Buckets for each doubling.
const STEPS: u64 = 16;
/// Doublings: up to 2^36 µs.
const DOUBLINGS: u64 = 32;

/// A histogram of durations.
#[derive(Clone, Debug)]
pub(crate) struct Latencies {
    counts: Vec<u64>,
    count: u64,
    total_us: u128,
    longest: Duration,
}

impl Default for Latencies {
    fn default() -> Self {
        Latencies {
            counts: vec![0; (STEPS * (DOUBLINGS + 1)) as usize],
            count: 0,
            total_us: 0,
            longest: Duration::ZERO,
        }
    }
}

fn bucket(us: u64) -> usize {
    if us < STEPS {
        return us as usize;
    }
    let doubling = u64::from(us.ilog2() - STEPS.ilog2());
    let step = (us >> doubling) - STEPS;
    (STEPS * (doubling + 1) + step) as usize
}

/// The largest value of a bucket.
fn upper_us(bucket: u64) -> u64 {
    if bucket < STEPS {
        return bucket;
    }
    let (doubling, step) = (bucket / STEPS - 1, bucket % STEPS);
    ((STEPS + step + 1) << doubling) - 1
}

impl Latencies {
    /// Counts one.
    pub(crate) fn note(&mut self, took: Duration) {
        self.note_many(took, 1);
    }

    /// Counts several that took the same.
    pub(crate) fn note_many(&mut self, took: Duration, number: u64) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let last = self.counts.len() - 1;
        if let Some(count) = self.counts.get_mut(bucket(us).min(last)) {
            *count += number;
        }
        self.count += number;
        self.total_us += u128::from(us) * u128::from(number);
        self.longest = self.longest.max(took);
    }

    /// How many were counted.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Adds what another one counted.
    pub(crate) fn add(&mut self, other: &Latencies) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, more)| *count += more);
        self.count += other.count;
        self.total_us += other.total_us;
        self.longest = self.longest.max(other.longest);
    }

    /// The mean; zero without any.
    pub(crate) fn mean(&self) -> Duration {
        let mean = self.total_us.checked_div(u128::from(self.count)).unwrap_or(0);
        Duration::from_micros(u64::try_from(mean).unwrap_or(u64::MAX))
    }

    /// The longest.
    pub(crate) fn longest(&self) -> Duration {
        self.longest
    }

    /// The value that a part `q` of all does not exceed, to a sixteenth; zero without any.
    pub(crate) fn quantile(&self, q: f64) -> Duration {
        let wanted = (q * self.count as f64).ceil().max(1.0) as u64;
        let mut below = 0;
        for (index, count) in (0..).zip(&self.counts) {
            below += count;
            if *count > 0 && below >= wanted {
                return Duration::from_micros(upper_us(index)).min(self.longest);
            }
        }
        Duration::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_right_to_a_sixteenth() {
        let mut latencies = Latencies::default();
        for us in 1..=10_000 {
            latencies.note(Duration::from_micros(us));
        }
        for (q, exact) in [(0.5, 5000.0), (0.99, 9900.0), (0.001, 10.0)] {
            let found = latencies.quantile(q).as_micros() as f64;
            assert!((exact..=exact * 17.0 / 16.0).contains(&found), "{q}: {found} for {exact}");
        }
        assert_eq!(latencies.quantile(1.0), Duration::from_micros(10_000));
        assert_eq!((latencies.count(), latencies.longest()), (10_000, Duration::from_micros(10_000)));
    }

    #[test]
    fn what_several_count_adds_up() {
        let (mut one, mut other) = (Latencies::default(), Latencies::default());
        one.note_many(Duration::from_micros(10), 3);
        other.note(Duration::from_micros(50));
        one.add(&other);
        assert_eq!(
            (one.count(), one.mean(), one.longest()),
            (4, Duration::from_micros(20), Duration::from_micros(50))
        );
        assert_eq!(one.quantile(0.75), Duration::from_micros(10));
        assert_eq!(Latencies::default().mean(), Duration::ZERO);
    }

    #[test]
    fn every_duration_has_a_bucket_that_holds_it() {
        for us in (0..100_000).chain((0..36).map(|bits| 1 << bits)) {
            let index = bucket(us) as u64;
            assert!(upper_us(index) >= us && (index == 0 || upper_us(index - 1) < us), "{us}");
        }
        let mut latencies = Latencies::default();
        latencies.note(Duration::MAX);
        assert_eq!(latencies.count(), 1);
        assert_eq!(Latencies::default().quantile(0.5), Duration::ZERO);
    }
}
