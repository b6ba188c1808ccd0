//! Numbers as people read them: exact bytes with thousands marked, one named binary unit beside them.

/// Digits in groups of three.
pub fn bytes(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The same for a difference, with its sign.
pub(crate) fn signed(value: i128) -> String {
    let sign = match value {
        0 => "",
        ..0 => "-",
        _ => "+",
    };
    format!("{sign}{}", bytes(u64::try_from(value.unsigned_abs()).unwrap_or(u64::MAX)))
}

/// Bytes in the largest binary unit that leaves at least one.
pub fn size(value: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if value < 1 << 10 {
        return format!("{value} B");
    }
    let unit = ((value.ilog2() / 10) as usize).min(UNITS.len());
    let scaled = value as f64 / (1_u64 << (10 * unit)) as f64;
    format!("{scaled:.2} {}", UNITS[unit - 1])
}

/// The one unit in which a column of values reads well, and its size.
pub(super) fn unit(largest: u64) -> (&'static str, u64) {
    match largest {
        0..0x10_0000 => ("KiB", 1 << 10),
        0x10_0000..0x271_0000_0000 => ("MiB", 1 << 20),
        _ => ("GiB", 1 << 30),
    }
}

/// A moment in UTC.
pub(super) fn moment(time_ms: u64) -> String {
    let seconds = time_ms / 1000;
    let (days, second) = ((seconds / 86_400).min(10_000_000), seconds % 86_400);
    // Days to a date of the Gregorian calendar, in years that begin in March.
    let days = days as i64 + 719_468;
    let era = days / 146_097;
    let day = days % 146_097;
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let date = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{date:02} {hour:02}:{minute:02}:{second:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_exact_and_units_are_binary() {
        assert_eq!(bytes(0), "0");
        assert_eq!(bytes(999), "999");
        assert_eq!(bytes(1_000), "1,000");
        assert_eq!(bytes(5_767_168_000), "5,767,168,000");
        assert_eq!(size(5_767_168_000), "5.37 GiB");
        assert_eq!(size(1_023), "1023 B");
        assert_eq!(size(1 << 20), "1.00 MiB");
        assert_eq!(size(u64::MAX), "16777216.00 TiB");
        assert_eq!([signed(-1_234), signed(0), signed(5)], ["-1,234", "0", "+5"]);
        assert_eq!(moment(1_796_040_153_604), "2026-11-30 12:02:33 UTC");
        assert_eq!(moment(951_782_400_000), "2000-02-29 00:00:00 UTC");
        moment(u64::MAX);
    }
}
