//! What differs from Kafka 3.9 beside what differs from 4.4: weir has the configs and defaults of 4.4.

use weir_protocol::messages::ApiKey;

use super::intended::{Intended, WORDS, intended};

/// The differences that are meant.
pub(crate) static INTENDED_3_9: &[Intended] = &[
    intended(
        (ApiKey::CreateTopics, "create \"small-segments\""),
        "topics[].error_message",
        (WORDS, WORDS),
        "the limit of 4.4",
    ),
    intended(
        (ApiKey::DescribeConfigs, "describe "),
        "results[].configs[].is_default",
        ("false", "true"),
        "says what is a default; 3.9 never does",
    ),
    intended(
        (ApiKey::DescribeConfigs, "describe 4 \"7\""),
        "results[].configs[]!",
        ("absent", "{name: \""),
        "a config that came after 3.9",
    ),
    intended(
        (ApiKey::DescribeConfigs, "describe 4 \"7\""),
        "results[].configs[]!",
        ("{name: \"", "absent"),
        "a config that ended with 3.9 is shown where it is set",
    ),
    intended(
        (ApiKey::DescribeConfigs, "describe 2 "),
        "results[].configs[]!",
        ("absent", "{name: \""),
        "a config that came after 3.9",
    ),
    intended(
        (ApiKey::DescribeConfigs, "describe 2 "),
        "results[].configs[]!",
        ("{name: \"", "absent"),
        "a config that ended with 3.9 is shown where it is set",
    ),
    intended(
        (ApiKey::DescribeConfigs, "describe no keys"),
        "results[].configs[]!",
        ("absent", "{name: \""),
        "a config that came after 3.9",
    ),
    intended(
        (ApiKey::DescribeConfigs, "describe no keys"),
        "results[].configs[]!",
        ("{name: \"", "absent"),
        "a config that ended with 3.9 is shown where it is set",
    ),
    intended(
        (ApiKey::DescribeConfigs, "describe 4 \"7\""),
        "results[].configs[].value",
        ("\"org.apache.kafka.coordinator.group.assignor.", "\"uniform,range\""),
        "a default of 4.4",
    ),
    intended(
        (ApiKey::DescribeConfigs, "describe 4 \"7\""),
        "results[].configs[].value",
        ("\"10\"", "\"-1\""),
        "a default of 4.4",
    ),
    intended(
        (ApiKey::DescribeConfigs, "describe 4 \"7\""),
        "results[].configs[].value",
        ("\"classic\"", "\"classic,consumer,streams\""),
        "a default of 4.4",
    ),
    intended(
        (ApiKey::DescribeConfigs, "describe 4 \"7\""),
        "results[].configs[].value",
        ("\"1\"", "\"4\""),
        "a default of 4.4",
    ),
    intended(
        (ApiKey::DescribeConfigs, "describe 4 \"7\""),
        "results[].configs[].value",
        ("\"200\"", "\"2000\""),
        "a default of 4.4",
    ),
    intended(
        (ApiKey::DescribeConfigs, "describe 4 \"7\""),
        "results[].configs[].value",
        ("\"9223372036854775807\"", "\"3600000\""),
        "a default of 4.4",
    ),
    intended(
        (ApiKey::DescribeConfigs, "describe 4 \"7\""),
        "results[].configs[].value",
        ("\"\"", "\"org.apache.kafka.common.metrics.JmxReporter\""),
        "a default of 4.4",
    ),
    intended(
        (ApiKey::DescribeConfigs, "describe 4 \"7\""),
        "results[].configs[].value",
        ("\"1\"", "\"2\""),
        "a default of 4.4",
    ),
    intended(
        (ApiKey::DescribeConfigs, "describe 4 \"7\""),
        "results[].configs[].value",
        ("\"-1\"", "\"10\""),
        "a default of 4.4",
    ),
    intended(
        (ApiKey::DescribeConfigs, "describe 4 \"7\""),
        "results[].configs[].value",
        ("\"10\"", "\"2\""),
        "a default of 4.4",
    ),
    intended(
        (ApiKey::DescribeConfigs, "describe 4 \"7\""),
        "results[].configs[].value",
        ("null", "\"\""),
        "a default of 4.4",
    ),
    intended(
        (ApiKey::DescribeConfigs, "describe 2 "),
        "results[].configs[].value",
        ("\"9223372036854775807\"", "\"3600000\""),
        "a default of 4.4",
    ),
    intended(
        (ApiKey::DescribeConfigs, "describe no keys"),
        "results[].configs[].value",
        ("\"9223372036854775807\"", "\"3600000\""),
        "a default of 4.4",
    ),
    intended(
        (ApiKey::DescribeConfigs, "describe 4 \"7\""),
        "results[].configs[].read_only",
        ("true", "false"),
        "a config that may change while a server of 4.4 runs",
    ),
    intended(
        (ApiKey::DescribeConfigs, "describe 16 \"config-subscription\""),
        "results[].configs",
        ("0 elements", ""),
        "shows the defaults of a subscription, as 4.4 does",
    ),
    intended(
        (ApiKey::DescribeConfigs, "describe some keys of a subscription"),
        "results[].configs",
        ("0 elements", ""),
        "shows the defaults of a subscription, as 4.4 does",
    ),
    intended(
        (ApiKey::DescribeConfigs, "describe 32 \"config-group\""),
        "results[]",
        ("", ""),
        "groups have configs since 4.0",
    ),
    intended(
        (ApiKey::DescribeConfigs, "describe some keys of a group"),
        "results[]",
        ("", ""),
        "groups have configs since 4.0",
    ),
    intended(
        (ApiKey::DescribeConfigs, "describe 32 \"\""),
        "results[].error_message",
        (WORDS, WORDS),
        "groups have configs since 4.0",
    ),
];
