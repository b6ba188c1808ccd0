//! The nearest known name for a name that is not known, by edit distance.

use super::table::{Scope, properties};

/// The known name that is fewest edits away from `name`, if it is near enough to be meant.
pub fn nearest(scope: Scope, name: &str) -> Option<&'static str> {
    // A name longer than any known one by half cannot be near; this also bounds the work for hostile names.
    if name.len() > 120 {
        return None;
    }
    let limit = (name.len() / 4).clamp(1, 6);
    let wanted = name.to_ascii_lowercase();
    // Its last words were left out, and only one name goes on like it.
    let whole = wanted.clone() + ".";
    let mut longer = properties().iter().filter(|row| row.scope == scope && row.name.starts_with(&whole));
    let longer = longer.next().filter(|_| longer.next().is_none());
    let near = properties()
        .iter()
        .filter(|row| row.scope == scope && row.name.len().abs_diff(name.len()) <= limit)
        .filter_map(|row| Some((distance(wanted.as_bytes(), row.name.as_bytes(), limit)?, row.name)))
        .min()
        .map(|(_, name)| name);
    near.or(longer.map(|row| row.name))
}

/// Edits that turn `a` into `b`: insert, delete, replace, swap neighbours. `None` for more than `limit`.
fn distance(a: &[u8], b: &[u8], limit: usize) -> Option<usize> {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut line = Vec::with_capacity(b.len() + 1);
        line.push(i + 1);
        for (j, y) in b.iter().enumerate() {
            let replace = last[j] + usize::from(x != y);
            let mut best = replace.min(last[j + 1] + 1).min(line[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                best = best.min(before[j - 1] + 1);
            }
            line.push(best);
        }
        // What is far by now stays far.
        if line.iter().chain(&last).min().is_none_or(|nearest| *nearest > limit) {
            return None;
        }
        before = std::mem::replace(&mut last, line);
    }
    last.last().copied().filter(|edits| *edits <= limit)
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
        assert_eq!(nearest(Scope::Broker, "memory.budget"), Some("memory.budget.bytes"));
        assert_eq!(nearest(Scope::Broker, "ssl"), None);
        assert_eq!(nearest(Scope::Broker, "my.application.setting"), None);
        assert_eq!(nearest(Scope::Broker, &"x".repeat(1 << 20)), None);
    }
}
