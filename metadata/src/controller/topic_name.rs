//! Names of topics: which are legal, and which are Kafka's own.

use super::ApiError;
use weir_protocol::messages::ErrorCode;

/// Longest name: with `-` and a partition number it still is a file name.
const MAX_NAME_LENGTH: usize = 249;

/// Most bytes of a client's name that an error repeats where each of many partitions has the error.
const SHOWN_BYTES: usize = 300;

/// A name for the text of an error: whole where a topic may have it.
pub(super) fn shown(name: &str) -> &str {
    name.get(..name.floor_char_boundary(SHOWN_BYTES)).unwrap_or(name)
}

/// The topic of the metadata log.
pub(super) const CLUSTER_METADATA_TOPIC: &str = "__cluster_metadata";

/// Whether a topic is one that brokers keep their own state in.
pub fn is_internal_topic(name: &str) -> bool {
    matches!(name, "__consumer_offsets" | "__transaction_state" | "__share_group_state")
}

/// Checks a name. Input is untrusted.
///
/// # Errors
/// INVALID_TOPIC_EXCEPTION with the rule that it breaks.
pub fn validate_topic_name(name: &str) -> Result<(), ApiError> {
    let reason = if name.is_empty() {
        "the empty string is not allowed".to_owned()
    } else if name == "." {
        "'.' is not allowed".to_owned()
    } else if name == ".." {
        "'..' is not allowed".to_owned()
    } else if name.encode_utf16().count() > MAX_NAME_LENGTH {
        format!("the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}")
    } else if !name.bytes().all(|c| c.is_ascii_alphanumeric() || b"._-".contains(&c)) {
        format!("'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'")
    } else {
        return Ok(());
    };
    Err(ApiError::new(ErrorCode::INVALID_TOPIC_EXCEPTION, format!("Topic name is invalid: {reason}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_as_kafka_checks_them() {
        for name in ["a", "A.b_c-9", &"x".repeat(249), "...", "__consumer_offsets"] {
            assert!(validate_topic_name(name).is_ok(), "{name}");
        }
        for (name, part) in [
            ("", "empty string"),
            (".", "'.' is not allowed"),
            ("..", "'..' is not allowed"),
            (&"x".repeat(250), "max allowed length 249"),
            ("a b", "ASCII alphanumerics"),
            ("a/b", "ASCII alphanumerics"),
            ("caf\u{e9}", "ASCII alphanumerics"),
            ("a\0", "ASCII alphanumerics"),
        ] {
            let error = validate_topic_name(name).unwrap_err();
            assert_eq!(error.code, ErrorCode::INVALID_TOPIC_EXCEPTION);
            assert!(error.message.contains(part), "{name}: {}", error.message);
        }
    }
}
