//! Sizes for people: exact bytes beside one binary unit.

/// `57671680` as `57,671,680`.
pub fn exact(bytes: u64) -> String {
    let digits = bytes.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3 + 1);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The largest binary unit that leaves at least one whole, with two digits: `5.37 GiB`.
pub fn human(bytes: u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match units.into_iter().find(|(_, shift)| bytes >> shift > 0) {
        // Below 2^53 for every size that memory has.
        Some((unit, shift)) => format!("{:.2} {unit}", bytes as f64 / (1u64 << shift) as f64),
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_exactly_and_in_one_unit() {
        assert_eq!(exact(0), "0");
        assert_eq!(exact(999), "999");
        assert_eq!(exact(57_671_680), "57,671,680");
        assert_eq!(human(5_767_168_000), "5.37 GiB");
        assert_eq!(human(57_671_680), "55.00 MiB");
        assert_eq!(human(1023), "1023 B");
        assert_eq!(human(u64::MAX), "17179869184.00 GiB");
    }
}
