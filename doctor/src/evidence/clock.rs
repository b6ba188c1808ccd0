//! Times that logs write, and how fast something repeats.

/// Milliseconds since 1970 of the first `2026-11-30 11:57:23,123` (or with `T` and a dot) near the start of a line. The
/// time zone is the writer's: only differences mean something.
pub(crate) fn date_ms(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let limit = bytes.len().min(96);
    (0..limit.saturating_sub(18)).find_map(|start| date_at(bytes.get(start..)?))
}

fn date_at(bytes: &[u8]) -> Option<i64> {
    let number = |from: usize, digits: usize| -> Option<i64> {
        bytes.get(from..from + digits)?.iter().try_fold(0i64, |number, byte| {
            byte.is_ascii_digit().then(|| number * 10 + i64::from(byte - b'0'))
        })
    };
    let is = |at: usize, wanted: &[u8]| bytes.get(at).is_some_and(|byte| wanted.contains(byte));
    if !(is(0, b"12") && is(4, b"-") && is(7, b"-") && is(10, b" T") && is(13, b":") && is(16, b":")) {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 2)?, number(8, 2)?);
    let (hour, minute, second) = (number(11, 2)?, number(14, 2)?, number(17, 2)?);
    if !((1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60 && second < 62) {
        return None;
    }
    let ms = if is(19, b",.") { number(20, 3).unwrap_or(0) } else { 0 };
    // Days since 1970-01-01 of the civil calendar, counted in years that begin in March.
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - 719_468;
    Some(((days * 24 + hour) * 60 + minute) * 60_000 + second * 1000 + ms)
}

/// Milliseconds since the JVM's start, from `[12.345s]` or `12.345: ` at the start of a line.
pub(crate) fn uptime_ms(text: &str) -> Option<i64> {
    let (seconds, ms) = match text.strip_prefix('[') {
        Some(rest) => {
            let stamp = rest.split_once(']')?.0;
            match stamp.strip_suffix("ms") {
                Some(ms) => return ms.parse().ok().filter(|ms| *ms >= 0),
                None => stamp.strip_suffix('s')?.split_once('.')?,
            }
        }
        None => text.split_once(':')?.0.split_once(['.', ','])?,
    };
    let seconds: u32 = seconds.parse().ok()?;
    let ms: u32 = ms.get(..3).filter(|_| ms.len() == 3)?.parse().ok()?;
    Some(i64::from(seconds) * 1000 + i64::from(ms))
}

/// Something that happened again and again: how often, when, and its longest run without a break.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Repeats {
    /// All of them.
    pub count: u64,
    /// Line of the first one.
    pub first_line: u64,
    /// Line of the last one.
    pub last_line: u64,
    /// Time of the first one in milliseconds, on the writer's clock.
    pub first_ms: Option<i64>,
    /// Time of the last one.
    pub last_ms: Option<i64>,
    /// The latest time of all, also where the clock ran backwards.
    pub latest_ms: Option<i64>,
    /// Those of the longest run in which none is more than [`Repeats::RUN_GAP_MS`] after the one before.
    pub longest_run: u64,
    /// How long that run took, in milliseconds.
    pub longest_run_ms: i64,
    run: u64,
    run_start_ms: i64,
}

impl Repeats {
    /// A pause longer than this ends a run. A failing reservation takes half a second; several threads fail in turn.
    pub const RUN_GAP_MS: i64 = 3000;

    /// One, at `line`, its time not known.
    pub(crate) fn at(line: u64) -> Self {
        let mut repeats = Self::default();
        repeats.add(line, None);
        repeats
    }

    /// Takes one.
    pub(crate) fn add(&mut self, line: u64, at_ms: Option<i64>) {
        if self.count == 0 {
            self.first_line = line;
            self.first_ms = at_ms;
        }
        self.count += 1;
        self.last_line = line;
        let Some(now) = at_ms else { return };
        self.latest_ms = self.latest_ms.max(Some(now));
        let near =
            self.last_ms.is_some_and(|last| (0..=Self::RUN_GAP_MS).contains(&now.saturating_sub(last)));
        if near {
            self.run += 1;
        } else {
            self.run = 1;
            self.run_start_ms = now;
        }
        self.last_ms = Some(now);
        if self.run > self.longest_run {
            self.longest_run = self.run;
            self.longest_run_ms = now.saturating_sub(self.run_start_ms);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_uptimes_are_read() {
        let start = date_ms("[2026-11-30 11:57:23,123] INFO x").unwrap();
        assert_eq!(start, 1_796_039_843_123);
        assert_eq!(date_ms("kafka-0 2026-11-30T11:57:24.123+0000"), Some(start + 1000));
        assert_eq!(date_ms("1970-01-01 00:00:00"), Some(0));
        assert_eq!(date_ms("2026-13-30 11:57:23,123"), None);
        assert_eq!(date_ms("short"), None);
        assert_eq!(uptime_ms("[0.886s][info][gc] x"), Some(886));
        assert_eq!(uptime_ms("[12ms][info] x"), Some(12));
        assert_eq!(uptime_ms("2.067: [Full GC (System.gc())"), Some(2067));
        assert_eq!(uptime_ms("[2026-11-30T11:57:24.123+0000] x"), None);
        assert_eq!(uptime_ms("plain: text"), None);
    }

    #[test]
    fn the_longest_run_is_found_whatever_surrounds_it() {
        let mut repeats = Repeats::default();
        for (line, at) in [(1, 0), (2, 60_000), (3, 60_500), (4, 61_000), (5, 61_600), (6, 200_000)] {
            repeats.add(line, Some(at));
        }
        repeats.add(7, None);
        assert_eq!((repeats.count, repeats.first_line, repeats.last_line), (7, 1, 7));
        assert_eq!((repeats.longest_run, repeats.longest_run_ms), (4, 1600));
    }

    #[test]
    fn a_clock_that_runs_backwards_breaks_the_run_only() {
        let mut repeats = Repeats::default();
        for at in [i64::MAX, i64::MIN, 0, 1] {
            repeats.add(1, Some(at));
        }
        assert_eq!(repeats.longest_run, 2);
        assert_eq!(repeats.latest_ms, Some(i64::MAX));
    }
}
