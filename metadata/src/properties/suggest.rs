//! The nearest known name for a name that is not known, by edit distance.

use super::table::{Scope, properties};

/// The known name that is fewest edits away from `name`, if it is near enough to be meant.
pub fn nearest(scope: Scope, name: &str) -> Option<&'static str> {
    // A name longer than any known one by half cannot be near; this also bounds the work for hostile names.
    if name.len() > 120 {
        return None;
    }
    let limit = (name.len() / 4).clamp(1, 6);
    properties()
        .iter()
        .filter(|row| row.scope == scope)
        .map(|row| (distance(name, row.name), row.name))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, name)| name)
}

/// Edits that turn `a` into `b`: insert, delete, replace, swap neighbours.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<u8>, Vec<u8>) =
        (a.to_ascii_lowercase().into_bytes(), b.to_ascii_lowercase().into_bytes());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut line = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let replace = last[j] + usize::from(x != y);
            let mut best = replace.min(last[j + 1] + 1).min(line[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                best = best.min(before[j - 1] + 1);
            }
            line.push(best);
        }
        before = std::mem::replace(&mut last, line);
    }
    last.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_names_find_their_property() {
        assert_eq!(nearest(Scope::Broker, "log.retention.hour"), Some("log.retention.hours"));
        assert_eq!(nearest(Scope::Broker, "memory.budget.byte"), Some("memory.budget.bytes"));
        assert_eq!(nearest(Scope::Broker, "num.partitoins"), Some("num.partitions"));
        assert_eq!(nearest(Scope::Topic, "retention.m"), Some("retention.ms"));
        assert_eq!(nearest(Scope::Broker, "my.application.setting"), None);
        assert_eq!(nearest(Scope::Broker, &"x".repeat(1 << 20)), None);
    }
}
