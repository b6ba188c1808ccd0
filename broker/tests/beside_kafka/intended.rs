//! What may differ: places whose values mean nothing to the other broker, lists without an order, and the differences
//! that are intended, each with its reason. An entry that nothing needs any more fails the test.

use weir_protocol::messages::ApiKey;

use super::value::Difference;

/// A place in the answers of an API.
#[derive(Debug)]
pub(crate) struct Place {
    api: ApiKey,
    /// Field names from the root, `[]` for each element of a list.
    pub(crate) path: &'static str,
}

impl Place {
    pub(crate) fn applies(&self, api: ApiKey) -> bool {
        self.api == api
    }
}

const fn place(api: ApiKey, path: &'static str) -> Place {
    Place { api, path }
}

/// A difference that is meant.
#[derive(Debug)]
pub(crate) struct Intended {
    api: ApiKey,
    /// Start of the scene's name.
    scene: &'static str,
    /// Field names from the root, `[]` for each element of a list; `!` behind an element that only one has. It stands
    /// for what lies below it, too; empty for the whole answer.
    path: &'static str,
    /// Start of what Kafka has there.
    kafka: &'static str,
    /// Start of what weir has there.
    weir: &'static str,
    /// Whether every run has it; times may fall together.
    pub(crate) is_certain: bool,
    #[allow(dead_code, reason = "for the reader")]
    reason: &'static str,
}

impl Intended {
    /// Whether Kafka is known not to answer.
    pub(crate) fn is_silence(&self, api: ApiKey, scene: &str) -> bool {
        self.api == api && scene.starts_with(self.scene) && self.kafka == "does not answer"
    }

    pub(crate) fn covers(&self, api: ApiKey, scene: &str, difference: &Difference) -> bool {
        let below = difference.path.strip_prefix(self.path);
        self.api == api
            && scene.starts_with(self.scene)
            && below.is_some_and(|below| self.path.is_empty() || below.is_empty() || below.starts_with('.'))
            && difference.kafka.starts_with(self.kafka)
            && difference.weir.starts_with(self.weir)
    }
}

/// Values that differ from server to server and from run to run. Only whether there is one is compared.
pub(crate) static MASKED: &[Place] = &[
    place(ApiKey::CreateTopics, "topics[].topic_id"),
    place(ApiKey::DescribeCluster, "cluster_id"),
    place(ApiKey::DescribeCluster, "brokers[].port"),
    place(ApiKey::DescribeConfigs, "results[].configs[].documentation"),
    place(ApiKey::DescribeLogDirs, "results[].total_bytes"),
    place(ApiKey::DescribeLogDirs, "results[].usable_bytes"),
    place(ApiKey::DescribeProducers, "topics[].partitions[].active_producers[].producer_id"),
    place(ApiKey::DescribeProducers, "topics[].partitions[].active_producers[].last_timestamp"),
    place(ApiKey::Fetch, "responses[].partitions[].records[].producer_id"),
    place(ApiKey::Fetch, "session_id"),
    place(ApiKey::FindCoordinator, "coordinators[].port"),
    place(ApiKey::FindCoordinator, "port"),
    place(ApiKey::InitProducerId, "producer_id"),
    place(ApiKey::Metadata, "brokers[].port"),
    place(ApiKey::Metadata, "cluster_id"),
    place(ApiKey::Produce, "responses[].partition_responses[].log_append_time_ms"),
    place(ApiKey::ApiVersions, "finalized_features_epoch"),
    place(ApiKey::DescribeQuorum, "nodes[].listeners[].port"),
    place(ApiKey::DescribeQuorum, "topics[].partitions[].high_watermark"),
    place(ApiKey::DescribeQuorum, "topics[].partitions[].current_voters[].log_end_offset"),
    place(ApiKey::DescribeQuorum, "topics[].partitions[].current_voters[].last_fetch_timestamp"),
    place(ApiKey::DescribeQuorum, "topics[].partitions[].current_voters[].last_caught_up_timestamp"),
    place(ApiKey::DescribeQuorum, "topics[].partitions[].leader_epoch"),
];

/// Lists whose order means nothing: Kafka's comes from its hash tables.
pub(crate) static UNORDERED: &[Place] = &[
    place(ApiKey::CreatePartitions, "results"),
    place(ApiKey::CreateTopics, "topics"),
    place(ApiKey::DeleteTopics, "responses"),
    place(ApiKey::DescribeLogDirs, "results[].topics"),
    place(ApiKey::DescribeLogDirs, "results[].topics[].partitions"),
    place(ApiKey::DescribeProducers, "topics[].partitions[].active_producers"),
    place(ApiKey::DeleteGroups, "results"),
    place(ApiKey::DeleteRecords, "topics"),
    place(ApiKey::DeleteRecords, "topics[].partitions"),
    place(ApiKey::Fetch, "responses"),
    place(ApiKey::Fetch, "responses[].partitions"),
    place(ApiKey::DescribeGroups, "groups[].members"),
    place(ApiKey::JoinGroup, "members"),
    place(ApiKey::ListConfigResources, "config_resources"),
    place(ApiKey::ListGroups, "groups"),
    place(ApiKey::ListOffsets, "topics"),
    place(ApiKey::ListOffsets, "topics[].partitions"),
    place(ApiKey::Metadata, "topics"),
    place(ApiKey::OffsetDelete, "topics"),
    place(ApiKey::OffsetDelete, "topics[].partitions"),
    place(ApiKey::OffsetFetch, "groups[].topics"),
    place(ApiKey::OffsetFetch, "groups[].topics[].partitions"),
    place(ApiKey::OffsetFetch, "topics"),
    place(ApiKey::OffsetFetch, "topics[].partitions"),
    place(ApiKey::Produce, "responses"),
    place(ApiKey::Produce, "responses[].partition_responses"),
    place(ApiKey::DescribeUserScramCredentials, "results"),
    place(ApiKey::ElectLeaders, "replica_election_results"),
];

/// A message in other words.
pub(crate) const WORDS: &str = "\"";

/// A difference that is meant.
pub(crate) const fn intended(
    (api, scene): (ApiKey, &'static str),
    path: &'static str,
    (kafka, weir): (&'static str, &'static str),
    reason: &'static str,
) -> Intended {
    Intended { api, scene, path, kafka, weir, reason, is_certain: true }
}

/// A difference that hangs on time, so that a run may be without it.
const fn at_times(
    subject: (ApiKey, &'static str),
    path: &'static str,
    sides: (&'static str, &'static str),
    reason: &'static str,
) -> Intended {
    let mut intended = intended(subject, path, sides, reason);
    intended.is_certain = false;
    intended
}

/// The differences that are meant.
pub(crate) static INTENDED: &[Intended] = &[
    intended(
        (ApiKey::CreateTopics, "create \"many-partitions\""),
        "topics[].error_message",
        (WORDS, WORDS),
        "names the limit",
    ),
    intended(
        (ApiKey::CreateTopics, "create \"very-many-partitions\""),
        "topics[].error_message",
        (WORDS, WORDS),
        "names the limit",
    ),
    intended(
        (ApiKey::CreateTopics, "create \"two-replicas\""),
        "topics[].error_message",
        (WORDS, WORDS),
        "a single node has no cordoned directories",
    ),
    intended(
        (ApiKey::CreateTopics, "create \"three-replicas\""),
        "topics[].error_message",
        (WORDS, WORDS),
        "a single node has no cordoned directories",
    ),
    intended(
        (ApiKey::CreateTopics, "create \"int-overflow\""),
        "topics[].error_message",
        (WORDS, WORDS),
        "names the limit",
    ),
    intended(
        (ApiKey::CreateTopics, "create \"bad-throttled\""),
        "topics[].error_message",
        (WORDS, WORDS),
        "shows the value as it was written",
    ),
    intended(
        (ApiKey::CreateTopics, "create \"format-version\""),
        "topics[]",
        ("", ""),
        "a topic config that 3.9 knows is taken without effect, so that its tools work",
    ),
    intended(
        (ApiKey::Metadata, "created by being asked for"),
        "topics[]",
        ("", ""),
        "the topic is there before the answer; Kafka has the client ask again",
    ),
    at_times(
        (ApiKey::Metadata, "a name that collides, created by being asked for"),
        "topics[]",
        ("", ""),
        "as above",
    ),
    intended(
        (ApiKey::CreatePartitions, "extend to far too many"),
        "results[].error_message",
        (WORDS, WORDS),
        "names the limit",
    ),
    intended(
        (ApiKey::CreatePartitions, "extend to the most"),
        "results[].error_message",
        (WORDS, WORDS),
        "names the limit",
    ),
    intended(
        (ApiKey::Produce, ""),
        "responses[].partition_responses[].error_message",
        ("null", WORDS),
        "says what is wrong, where Kafka leaves it at the code",
    ),
    intended(
        (ApiKey::Produce, ""),
        "responses[].partition_responses[].error_message",
        (WORDS, WORDS),
        "names the record, the value and the limit",
    ),
    intended(
        (ApiKey::Produce, ""),
        "responses[].partition_responses[].record_errors[].batch_index_error_message",
        (WORDS, WORDS),
        "names the value and the limit",
    ),
    intended(
        (ApiKey::Produce, "damaged compression: "),
        "responses[].partition_responses[].error_code",
        ("UNKNOWN_SERVER_ERROR", ""),
        "Kafka falls over what cannot be inflated; weir names it",
    ),
    intended(
        (ApiKey::Produce, "bytes behind: "),
        "responses[].partition_responses[].error_code",
        ("", "INVALID_RECORD"),
        "a partition's field holds one batch and nothing else; Kafka drops the start of a second one in silence, and takes other bytes for damage that is worth sending again",
    ),
    intended(
        (ApiKey::Produce, "bytes behind: "),
        "responses[].partition_responses[].base_offset",
        ("", "-1"),
        "as above",
    ),
    intended(
        (ApiKey::Produce, "bytes behind: "),
        "responses[].partition_responses[].log_start_offset",
        ("0", "-1"),
        "as above",
    ),
    intended(
        (ApiKey::Produce, "a broker's header: "),
        "responses[].partition_responses[].error_code",
        ("NONE", "INVALID_RECORD"),
        "what only brokers write into a header is refused: stored as it is, it would mean something else",
    ),
    intended(
        (ApiKey::Produce, "a broker's header: "),
        "responses[].partition_responses[].base_offset",
        ("", "-1"),
        "as above",
    ),
    intended(
        (ApiKey::Produce, "twice: "),
        "responses[].partition_responses",
        ("", ""),
        "both batches are appended and answered; Kafka keeps one and drops the other in silence",
    ),
    intended((ApiKey::Produce, "twice: "), "responses", ("", ""), "as above"),
    intended(
        (ApiKey::Produce, "damaged compression: an unknown codec"),
        "responses[].partition_responses[].log_start_offset",
        ("-1", "0"),
        "Kafka looks at the codec before the log in old versions only",
    ),
    intended(
        (ApiKey::DeleteRecords, "delete records of a partition twice"),
        "topics[].partitions",
        ("1 ", "2 "),
        "each entry of a list is answered",
    ),
    intended(
        (ApiKey::DeleteRecords, "delete records of no partitions"),
        "topics",
        ("0 ", "1 "),
        "each entry of a list is answered",
    ),
    intended(
        (ApiKey::ListOffsets, "a partition twice"),
        "topics[].partitions",
        ("2 ", "3 "),
        "each entry of a list is answered",
    ),
    intended(
        (ApiKey::ListOffsets, "a topic twice"),
        "topics",
        ("1 ", "2 "),
        "each entry of a list is answered",
    ),
    intended(
        (ApiKey::ListOffsets, "no partitions"),
        "topics",
        ("0 ", "1 "),
        "each entry of a list is answered",
    ),
    intended(
        (ApiKey::ListOffsets, "isolation level 2"),
        "topics[]",
        ("", ""),
        "an unknown isolation level reads uncommitted; Kafka fails with UNKNOWN_SERVER_ERROR",
    ),
    at_times(
        (ApiKey::ListOffsets, "offsets-append-time at "),
        "topics[].partitions[].timestamp",
        ("17", "17"),
        "two servers do not append in the same millisecond",
    ),
    intended(
        (ApiKey::DeleteGroups, "what refused joins leave"),
        "results[]",
        ("NONE", "GROUP_ID_NOT_FOUND"),
        "a refused join leaves no empty group behind",
    ),
    intended(
        (ApiKey::ListOffsets, "offsets-cut at -3"),
        "topics[].partitions[].offset",
        ("2", "5"),
        "never a record that was deleted",
    ),
    intended(
        (ApiKey::Produce, "no partitions"),
        "responses",
        ("0 ", "1 "),
        "each entry of a list is answered",
    ),
    intended(
        (ApiKey::Fetch, "one twice"),
        "responses[].partitions",
        ("1 ", "2 "),
        "each entry of a list is answered",
    ),
    intended(
        (ApiKey::Fetch, "isolation level "),
        "",
        ("", ""),
        "an unknown isolation level reads uncommitted; Kafka fails with UNKNOWN_SERVER_ERROR",
    ),
    intended(
        (ApiKey::Fetch, "at most -1"),
        "responses[]",
        ("", ""),
        "a limit below 0 counts as 0; Kafka fails with UNKNOWN_SERVER_ERROR",
    ),
    intended(
        (ApiKey::Metadata, "by name and by id"),
        "topics",
        ("1 ", "2 "),
        "all that is asked for is answered; Kafka forgets the names where it finds an id",
    ),
    intended(
        (ApiKey::Metadata, "by nothing"),
        "",
        ("", ""),
        "a topic without name and id is unknown; Kafka fails with UNKNOWN_SERVER_ERROR",
    ),
    intended(
        (ApiKey::DescribeTopicPartitions, "describe invalid ones"),
        "",
        ("", ""),
        "one invalid name does not spoil the others; Kafka fails with UNKNOWN_SERVER_ERROR",
    ),
    intended(
        (ApiKey::FindCoordinator, "find "),
        "",
        ("", ""),
        "transactions are not served yet, so nobody coordinates them",
    ),
    intended(
        (ApiKey::DescribeConfigs, "describe 4 \"7\""),
        "results[].configs[]!",
        ("absent", "{name: \"http.listener"),
        "a property of weir's own",
    ),
    intended(
        (ApiKey::DescribeConfigs, "describe 4 \"7\""),
        "results[].configs[]!",
        ("absent", "{name: \"max."),
        "a property of weir's own",
    ),
    intended(
        (ApiKey::DescribeConfigs, "describe 4 \"7\""),
        "results[].configs[]!",
        ("absent", "{name: \"memory.budget.bytes"),
        "a property of weir's own",
    ),
    intended(
        (ApiKey::DescribeConfigs, "describe 4 \"7\""),
        "results[].configs[]!",
        ("absent", "{name: \"receive.stall.timeout.ms"),
        "a property of weir's own",
    ),
    intended(
        (ApiKey::DescribeConfigs, "describe 4 \"7\""),
        "results[].configs[]!",
        ("absent", "{name: \"scrub.bytes.per.second"),
        "a property of weir's own",
    ),
    intended(
        (ApiKey::DescribeConfigs, "describe 4 \"7\""),
        "results[].configs[]!",
        ("absent", "{name: \"log.dirs.auto.format"),
        "a property of weir's own",
    ),
    intended(
        (ApiKey::DescribeConfigs, "describe 4 \"7\""),
        "results[].configs[].value",
        ("\"50\"", "\"1024\""),
        "socket.listen.backlog.size has a default that clients which all come back at once fit in",
    ),
    intended(
        (ApiKey::DescribeConfigs, "describe 4 \"7\""),
        "results[].configs[].synonyms[].value",
        ("\"50\"", "\"1024\""),
        "as above",
    ),
    intended(
        (ApiKey::DescribeConfigs, "describe 4 \"7\""),
        "results[].configs[].value",
        ("\"2147483647\"", "\""),
        "max.connections has the default that the memory budget has room for",
    ),
    intended(
        (ApiKey::DescribeConfigs, "describe 4 \"7\""),
        "results[].configs[].synonyms[].value",
        ("\"2147483647\"", "\""),
        "as above",
    ),
    intended(
        (ApiKey::DescribeConfigs, "describe 4 \"7\""),
        "results[].configs[].value",
        ("\"102400\"", "\"-1\""),
        "the system grows the window of a connection with its traffic: socket.receive.buffer.bytes",
    ),
    intended(
        (ApiKey::DescribeConfigs, "describe 4 \"7\""),
        "results[].configs[].synonyms[].value",
        ("\"102400\"", "\"-1\""),
        "as above",
    ),
    intended(
        (ApiKey::DescribeConfigs, "describe 4 \"7\""),
        "results[].configs[].synonyms",
        ("1 elements", "2 elements, only here: [{name: \"node.id\""),
        "node.id has a default, so that a server starts without a file",
    ),
    intended(
        (ApiKey::DescribeConfigs, "describe 4 \"7\""),
        "results[].configs[].synonyms",
        ("1 elements", "2 elements, only here: [{name: \"controller.listener.names\""),
        "as above",
    ),
    intended(
        (ApiKey::DescribeConfigs, "describe 4 \"7\""),
        "results[].configs[].synonyms",
        ("1 elements", "2 elements, only here: [{name: \"process.roles\""),
        "as above",
    ),
    intended(
        (ApiKey::DescribeConfigs, "describe 4 \"7\""),
        "results[].configs[].value",
        ("\"7@127.0.0.1:", "\"7@127.0.0.1:"),
        "ports",
    ),
    intended(
        (ApiKey::DescribeConfigs, "describe 4 \"7\""),
        "results[].configs[].value",
        ("\"PLAINTEXT://127.0.0.1:", "\"PLAINTEXT://127.0.0.1:"),
        "ports",
    ),
    intended(
        (ApiKey::DescribeConfigs, "describe 4 \"7\""),
        "results[].configs[].synonyms[].value",
        ("\"7@127.0.0.1:", "\"7@127.0.0.1:"),
        "ports",
    ),
    intended(
        (ApiKey::DescribeConfigs, "describe 4 \"7\""),
        "results[].configs[].synonyms[].value",
        ("\"PLAINTEXT://127.0.0.1:", "\"PLAINTEXT://127.0.0.1:"),
        "ports",
    ),
    intended(
        (ApiKey::DescribeConfigs, "describe 4 \"7\""),
        "results[].configs[].read_only",
        ("false", "true"),
        "only a restart changes listeners",
    ),
    intended(
        (ApiKey::DescribeConfigs, "describe 8 \"7\""),
        "results[].configs[]!",
        ("{name: \"", "absent"),
        "there is one log level for the whole server",
    ),
    intended(
        (ApiKey::DescribeConfigs, "describe 8 \"7\""),
        "results[].configs[].read_only",
        ("false", "true"),
        "log levels are given at the start",
    ),
    intended(
        (ApiKey::DescribeConfigs, "describe 8 \"7\""),
        "results[].configs[].value",
        ("\"ERROR\"", "\"OFF\""),
        "no log is written in this test",
    ),
    intended(
        (ApiKey::DescribeConfigs, "describe the unknown kind "),
        "results[].error_message",
        (WORDS, WORDS),
        "names the kind",
    ),
    intended(
        (ApiKey::AlterConfigs, "alter one twice"),
        "",
        ("does not answer", ""),
        "each resource is refused; Kafka never answers",
    ),
    intended(
        (ApiKey::IncrementalAlterConfigs, "increment: an unknown operation"),
        "responses[]",
        ("", ""),
        "names the operation; Kafka fails with UNKNOWN_SERVER_ERROR",
    ),
    intended(
        (ApiKey::IncrementalAlterConfigs, "increment: a negative operation"),
        "responses[]",
        ("", ""),
        "as above",
    ),
    intended(
        (ApiKey::IncrementalAlterConfigs, "increment broker \"7\": set what is not dynamic"),
        "responses[]",
        ("", ""),
        "a config that 3.9 knows is told from one that nobody knows",
    ),
    intended(
        (ApiKey::IncrementalAlterConfigs, "increment broker \"\": set what is per broker for all"),
        "responses[].error_message",
        (WORDS, WORDS),
        "only a restart changes listeners",
    ),
    intended(
        (ApiKey::IncrementalAlterConfigs, "increment: append to a subscription"),
        "responses[]",
        ("", ""),
        "its lists grow; Kafka does not know that they are lists",
    ),
    intended(
        (ApiKey::IncrementalAlterConfigs, "increment: set a subscription too low"),
        "responses[].error_message",
        (WORDS, WORDS),
        "the words of every other number that is too low",
    ),
    intended(
        (ApiKey::IncrementalAlterConfigs, "increment: worse match of a subscription"),
        "responses[]",
        ("", ""),
        "Java's regular expressions are not read",
    ),
    intended(
        (ApiKey::IncrementalAlterConfigs, "increment: logger: "),
        "responses[]",
        ("", ""),
        "log levels are given at the start and cannot be altered",
    ),
    intended(
        (ApiKey::ApiVersions, ""),
        "api_keys",
        ("77 elements", "4"),
        "not all APIs are served yet, and some in versions that only 3.9 has",
    ),
    intended(
        (ApiKey::ApiVersions, ""),
        "supported_features",
        ("7 elements", "1 elements"),
        "a feature is listed when it is served",
    ),
    intended(
        (ApiKey::ApiVersions, "software "),
        "supported_features[].min_version",
        ("7", "21"),
        "served from 3.9 on",
    ),
    intended(
        (ApiKey::DescribeQuorum, ""),
        "nodes[].listeners[].name",
        ("\"CONTROLLER\"", "\"PLAINTEXT\""),
        "the controller is in this process and has no listener of its own",
    ),
    intended(
        (ApiKey::UpdateFeatures, "update features [(\"metadata.version\", 999, 1)]"),
        "error_message",
        (WORDS, WORDS),
        "served from 3.9 on",
    ),
    intended(
        (ApiKey::UpdateFeatures, "update features [(\"metadata.version\", 1, 1)]"),
        "error_message",
        (WORDS, WORDS),
        "served from 3.9 on",
    ),
    intended(
        (ApiKey::UpdateFeatures, "update features [(\"metadata.version\", 0, 3)]"),
        "error_message",
        (WORDS, WORDS),
        "served from 3.9 on",
    ),
    intended(
        (ApiKey::UpdateFeatures, "update features "),
        "results[].error_message",
        ("\"NONE\"", "null"),
        "no error has no message",
    ),
    intended(
        (ApiKey::UpdateFeatures, "update features one twice: "),
        "",
        ("", ""),
        "a feature that is given twice is refused; Kafka takes one of them",
    ),
];
