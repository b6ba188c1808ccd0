//! Levels of the feature `metadata.version`: their names, and which of them change what the log holds.

/// Name of the feature.
pub const FEATURE_NAME: &str = "metadata.version";

/// Lowest level that this server works with: the newest that Kafka 3.9 and 4.x both read.
pub const MINIMUM_LEVEL: i16 = 21;

/// Highest level whose records this server reads and writes.
pub const MAXIMUM_LEVEL: i16 = 33;

/// Level of a new log, so that Kafka 3.9 and 4.x can open the folder.
pub const DEFAULT_LEVEL: i16 = 21;

/// First level that Kafka 4.x software supports.
const FIRST_NAMED: i16 = 7;

const NAMES: [&str; 28] = [
    "3.3-IV3", "3.4-IV0", "3.5-IV0", "3.5-IV1", "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2", "3.7-IV0",
    "3.7-IV1", "3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0", "3.9-IV0", "4.0-IV0", "4.0-IV1", "4.0-IV2",
    "4.0-IV3", "4.1-IV0", "4.1-IV1", "4.2-IV0", "4.2-IV1", "4.3-IV0", "4.4-IV0", "4.4-IV1", "4.4-IV2",
    "4.5-IV0",
];

/// Levels that change what the log holds, so that going below them could lose metadata.
const CHANGING: [i16; 9] = [8, 11, 14, 15, 17, 23, 30, 32, 33];

/// Kafka's name of a level, such as `3.9-IV0`.
pub fn name(level: i16) -> Option<&'static str> {
    usize::try_from(level - FIRST_NAMED).ok().and_then(|index| NAMES.get(index)).copied()
}

/// The level of a release (`3.9`) or of a level's name (`3.9-IV0`), as `--release-version` takes it.
pub fn from_release(release: &str) -> Option<i16> {
    let parts: Vec<&str> = release.split('.').collect();
    let short = match parts.as_slice() {
        // 3.9.1 is 3.9.
        [major, minor, patch] if patch.chars().all(|c| c.is_ascii_digit()) => format!("{major}.{minor}"),
        _ => release.to_owned(),
    };
    let matches =
        |known: &&str| **known == short || known.split_once("-IV").is_some_and(|(name, _)| name == short);
    let index = NAMES.iter().rposition(matches)?;
    i16::try_from(index).ok().map(|index| index + FIRST_NAMED)
}

/// Whether going from `from` down to `to` passes a level that changes what the log holds.
pub fn downgrade_loses_metadata(from: i16, to: i16) -> bool {
    CHANGING.iter().any(|level| to < *level && *level <= from)
}

/// Whether the log of this level may hold metadata transactions (KIP-868).
pub fn has_transactions(level: i16) -> bool {
    level >= 14
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_levels_agree() {
        assert_eq!(name(21), Some("3.9-IV0"));
        assert_eq!(name(25), Some("4.0-IV3"));
        assert_eq!(name(27), Some("4.1-IV1"));
        assert_eq!(name(29), Some("4.2-IV1"));
        assert_eq!(name(33), Some("4.4-IV2"));
        assert_eq!(name(34), Some("4.5-IV0"));
        assert_eq!(name(6), None);
        assert_eq!(name(35), None);
        for level in 7..=34 {
            assert_eq!(from_release(name(level).unwrap()), Some(level));
        }
    }

    #[test]
    fn a_release_is_its_newest_level() {
        assert_eq!(from_release("3.9"), Some(21));
        assert_eq!(from_release("3.9.1"), Some(21));
        assert_eq!(from_release("4.0"), Some(25));
        assert_eq!(from_release("4.4"), Some(33));
        assert_eq!(from_release("2.8"), None);
        assert_eq!(from_release(""), None);
    }

    #[test]
    fn only_changing_levels_hold_a_downgrade_up() {
        assert!(!downgrade_loses_metadata(22, 21));
        assert!(downgrade_loses_metadata(23, 22));
        assert!(downgrade_loses_metadata(33, 21));
        assert!(!downgrade_loses_metadata(29, 23));
    }
}
