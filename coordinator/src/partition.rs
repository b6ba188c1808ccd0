//! Which partition of `__consumer_offsets` a group lives in.

/// `String.hashCode` of Java, over UTF-16 units.
pub fn java_string_hash(text: &str) -> i32 {
    text.encode_utf16().fold(0i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)))
}

/// The partition of the group, with the absolute value as Kafka takes it: `abs(i32::MIN)` is 0.
///
/// A `partition_count` below 1 is taken as 1.
pub fn partition_for(group_id: &str, partition_count: i32) -> i32 {
    let hash = java_string_hash(group_id);
    let absolute = if hash == i32::MIN { 0 } else { hash.abs() };
    absolute % partition_count.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_java() {
        assert_eq!(java_string_hash(""), 0);
        assert_eq!(java_string_hash("a"), 97);
        assert_eq!(java_string_hash("hello"), 99_162_322);
        assert_eq!(java_string_hash("console-consumer-12345"), java_reference("console-consumer-12345"));
        assert_eq!(java_string_hash("polygenelubricants"), i32::MIN);
        // U+1F600 is the surrogate pair D83D DE00: two units, not four bytes and not one character.
        assert_eq!(java_string_hash("\u{1F600}"), 0xD83D * 31 + 0xDE00);
        assert_eq!(java_string_hash("ä"), 0xE4);
    }

    fn java_reference(ascii: &str) -> i32 {
        let mut hash: i64 = 0;
        for byte in ascii.bytes() {
            hash = (hash * 31 + i64::from(byte)) & 0xffff_ffff;
        }
        hash as u32 as i32
    }

    #[test]
    fn the_absolute_value_of_the_smallest_hash_is_zero() {
        assert_eq!(partition_for("polygenelubricants", 50), 0);
        assert_eq!(partition_for("polygenelubricants", 7), 0);
    }

    #[test]
    fn a_partition_is_always_within_the_count() {
        for id in ["", "a", "orders", "\u{1F600}", "a-very-long-group-id-that-wraps-around-several-times"] {
            for count in [i32::MIN, -1, 0, 1, 2, 50, i32::MAX] {
                let partition = partition_for(id, count);
                assert!((0..count.max(1)).contains(&partition), "{id} {count} {partition}");
            }
        }
    }
}
