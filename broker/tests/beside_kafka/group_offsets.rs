//! Offsets of groups: committed by members and by others, fetched, deleted.

use weir_protocol::messages::*;
use weir_protocol::wire::Uuid;

use crate::groups::{Member, member};
use crate::pair::{Both, Pair};
use crate::produce::{Topic, topics};

/// A partition to commit: index, offset, leader epoch, metadata.
type Commit<'a> = (i32, i64, i32, Option<&'a str>);

/// Who commits, and for how long.
struct Committer<'a> {
    group: &'a str,
    generation: i32,
    ids: Both<String>,
    instance: Option<&'a str>,
    retention_ms: i64,
}

fn ask_commit(pair: &mut Pair, version: i16, who: &Committer<'_>, what: &[(&Topic, &[Commit<'_>])]) {
    let request = |id: &String, pick: fn(&Both<Uuid>) -> Uuid| OffsetCommitRequest {
        group_id: who.group.to_string(),
        generation_id_or_member_epoch: who.generation,
        member_id: id.clone(),
        group_instance_id: who.instance.filter(|_| version >= 7).map(str::to_string),
        retention_time_ms: who.retention_ms,
        topics: what
            .iter()
            .map(|(topic, partitions)| OffsetCommitRequestTopic {
                name: topic.name.clone(),
                topic_id: pick(&topic.id),
                partitions: partitions
                    .iter()
                    .map(|(partition_index, offset, epoch, metadata)| OffsetCommitRequestPartition {
                        partition_index: *partition_index,
                        committed_offset: *offset,
                        committed_leader_epoch: *epoch,
                        committed_metadata: metadata.map(str::to_string),
                        ..Default::default()
                    })
                    .collect(),
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    };
    let requests =
        Both { kafka: request(&who.ids.kafka, |id| id.kafka), weir: request(&who.ids.weir, |id| id.weir) };
    pair.ask_each(version, &requests);
}

fn alone(group: &str) -> Committer<'_> {
    Committer { group, generation: -1, ids: Both::same(String::new()), instance: None, retention_ms: -1 }
}

fn by_name(name: &str) -> Topic {
    Topic { name: name.to_string(), id: Both::same(Uuid::ZERO) }
}

/// Commits an offset of a topic that exists as a member.
pub(crate) fn commit_as(pair: &mut Pair, version: i16, member: &Member) {
    let who = Committer {
        generation: member.generation,
        ids: member.ids.clone(),
        instance: member.instance.as_deref(),
        ..alone(&member.group)
    };
    pair.on(member.connection);
    ask_commit(pair, version, &who, &[(&by_name("committed"), &[(0, 3, -1, Some("m"))])]);
}

/// Commits an offset as nobody, which makes the group.
pub(crate) fn commit_alone(pair: &mut Pair, version: i16, group: &str) {
    pair.on(0).scene("commit as nobody");
    ask_commit(pair, version, &alone(group), &[(&by_name("committed"), &[(0, 3, -1, Some("m"))])]);
}

pub(crate) fn compare(pair: &mut Pair) {
    let all = topics(pair.on(0), &[("committed", 3, &[]), ("committed-too", 1, &[])]);
    for version in pair.served(ApiKey::OffsetCommit) {
        commit(pair, version, &all);
    }
    for version in pair.served(ApiKey::OffsetFetch) {
        fetch(pair, version, &all);
    }
    for version in pair.served(ApiKey::OffsetDelete) {
        delete(pair, version, &all);
    }
}

fn commit(pair: &mut Pair, version: i16, all: &[Topic]) {
    let (topic, other) = (&all[0], &all[1]);
    let group = format!("commit-v{version}");
    let unknown = Topic { name: "no-such-topic".to_string(), id: Both::same(Uuid([9; 16])) };
    let nameless = Topic { name: String::new(), id: Both::same(Uuid::ZERO) };
    let invalid = Topic { name: "a b".to_string(), id: Both::same(Uuid([8; 16])) };
    let long = "m".repeat(4097);
    let epoch = if version >= 6 { 0 } else { -1 };
    let cases: &[(&str, &[(&Topic, &[Commit<'_>])])] = &[
        ("one", &[(topic, &[(0, 5, epoch, Some("note"))])]),
        ("some", &[(topic, &[(0, 6, epoch, Some("")), (2, 0, -1, None)]), (other, &[(0, 9, -1, Some("x"))])]),
        ("nothing", &[]),
        ("no partitions", &[(topic, &[])]),
        (
            "unknown ones",
            &[
                (&unknown, &[(0, 1, -1, None)]),
                (topic, &[(9, 1, -1, None), (-1, 1, -1, None), (1, 1, -1, None)]),
            ],
        ),
        ("an invalid one", &[(&invalid, &[(0, 1, -1, None)])]),
        ("a nameless one", &[(&nameless, &[(0, 1, -1, None)])]),
        ("one twice", &[(topic, &[(0, 7, -1, None), (0, 8, -1, None)])]),
        ("a topic twice", &[(topic, &[(0, 7, -1, None)]), (topic, &[(1, 8, -1, None)])]),
        ("a negative offset", &[(topic, &[(1, -1, -1, None)])]),
        ("a very negative offset", &[(topic, &[(1, i64::MIN, -1, None)])]),
        ("long metadata", &[(topic, &[(1, 1, -1, Some(&long)), (2, 4, -1, Some(&long[1..]))])]),
    ];
    for (scene, what) in cases {
        pair.on(0).scene(format!("commit {scene}"));
        ask_commit(pair, version, &alone(&group), what);
        ask_fetch_all(pair, &group);
    }
    let one: &[(&Topic, &[Commit<'_>])] = &[(topic, &[(0, 5, -1, None)])];
    let who = |generation, id: &str, instance| Committer {
        generation,
        ids: Both::same(id.to_string()),
        instance,
        ..alone(&group)
    };
    for (generation, id) in [(0, ""), (5, "nobody"), (-1, "nobody"), (-2, ""), (1, "")] {
        pair.scene(format!("commit as {id:?} in generation {generation}"));
        ask_commit(pair, version, &who(generation, id, None), one);
        pair.scene(format!("commit as {id:?} in generation {generation} of no group"));
        ask_commit(pair, version, &Committer { group: "no-such-group", ..who(generation, id, None) }, one);
        if version >= 7 {
            pair.scene(format!("commit as {id:?} in generation {generation} by an instance"));
            ask_commit(pair, version, &who(generation, id, Some("i")), one);
        }
    }
    pair.scene("commit in a nameless group");
    ask_commit(pair, version, &alone(""), one);
    if version <= 4 {
        pair.scene("commit for a while");
        ask_commit(pair, version, &Committer { retention_ms: 100_000, ..alone(&group) }, one);
    }
    let mut joined = member(1, &format!("commit-joined-v{version}"));
    pair.scene("commit: join");
    joined.join(pair, 4);
    pair.scene("commit before the assignment");
    commit_as(pair, version.min(9), &joined);
    joined.sync(pair, 3, &[&joined]);
    pair.scene("commit as a member");
    let as_member = |pair: &mut Pair, scene: &str, generation: i32, ids: Both<String>| {
        pair.scene(format!("commit {scene}"));
        let who = Committer { generation, ids, ..alone(&joined.group) };
        ask_commit(pair.on(1), version, &who, &[(topic, &[(0, 5, -1, Some("m"))])]);
    };
    as_member(pair, "as a member", joined.generation, joined.ids.clone());
    as_member(pair, "in the last generation", joined.generation - 1, joined.ids.clone());
    as_member(pair, "in the next generation", joined.generation + 1, joined.ids.clone());
    as_member(pair, "in no generation", -1, joined.ids.clone());
    as_member(
        pair,
        "as another in a group with members",
        joined.generation,
        Both::same("nobody".to_string()),
    );
    as_member(pair, "as nobody in a group with members", -1, Both::same(String::new()));
    as_member(pair, "as nobody in a generation", joined.generation, Both::same(String::new()));
    ask_fetch_all(pair, &joined.group);
}

fn ask_fetch_all(pair: &mut Pair, group: &str) {
    let request = OffsetFetchRequest { group_id: group.to_string(), topics: None, ..Default::default() };
    pair.on(0).ask(5, &request);
}

/// Groups and what is asked of each: topics with partitions, or all.
type Wanted<'a> = &'a [(&'a str, Option<&'a [(&'a Topic, &'a [i32])]>)];

fn ask_fetch(pair: &mut Pair, version: i16, wanted: Wanted<'_>, member: (Option<&str>, i32), stable: bool) {
    let request = |pick: fn(&Both<Uuid>) -> Uuid| {
        let mut request = OffsetFetchRequest { require_stable: stable && version >= 7, ..Default::default() };
        if version < 8 {
            let (group, topics) = &wanted[0];
            request.group_id = (*group).to_string();
            request.topics = topics.map(|topics| {
                topics
                    .iter()
                    .map(|(topic, partitions)| OffsetFetchRequestTopic {
                        name: topic.name.clone(),
                        partition_indexes: partitions.to_vec(),
                        ..Default::default()
                    })
                    .collect()
            });
            return request;
        }
        request.topics = Some(Vec::new());
        request.groups = wanted
            .iter()
            .map(|(group, topics)| OffsetFetchRequestGroup {
                group_id: (*group).to_string(),
                member_id: member.0.map(str::to_string),
                member_epoch: member.1,
                topics: topics.map(|topics| {
                    topics
                        .iter()
                        .map(|(topic, partitions)| OffsetFetchRequestTopics {
                            name: topic.name.clone(),
                            topic_id: pick(&topic.id),
                            partition_indexes: partitions.to_vec(),
                            ..Default::default()
                        })
                        .collect()
                }),
                ..Default::default()
            })
            .collect();
        request
    };
    pair.on(0).ask_each(version, &Both { kafka: request(|id| id.kafka), weir: request(|id| id.weir) });
}

fn fetch(pair: &mut Pair, version: i16, all: &[Topic]) {
    let (topic, other) = (&all[0], &all[1]);
    let group = format!("fetch-offsets-v{version}");
    pair.on(0).scene("fetch offsets: commit");
    ask_commit(
        pair,
        8,
        &alone(&group),
        &[(topic, &[(0, 5, 0, Some("note")), (2, 7, -1, None)]), (other, &[(0, 1, -1, Some(""))])],
    );
    let unknown = Topic { name: "no-such-topic".to_string(), id: Both::same(Uuid([9; 16])) };
    let nameless = Topic { name: String::new(), id: Both::same(Uuid::ZERO) };
    let nobody = (None, -1);
    let cases: &[(&str, Wanted<'_>)] = &[
        ("some", &[(&group, Some(&[(topic, &[0, 1, 2]), (other, &[0])]))]),
        ("unknown ones", &[(&group, Some(&[(topic, &[9, -1]), (&unknown, &[0])]))]),
        ("a nameless one", &[(&group, Some(&[(&nameless, &[0])]))]),
        ("nothing", &[(&group, Some(&[]))]),
        ("no partitions", &[(&group, Some(&[(topic, &[])]))]),
        ("one twice", &[(&group, Some(&[(topic, &[0, 0])]))]),
        ("of no group", &[("no-such-group", Some(&[(topic, &[0])]))]),
        ("of a nameless group", &[("", Some(&[(topic, &[0])]))]),
    ];
    for (scene, wanted) in cases {
        for stable in [false, true] {
            pair.scene(format!("fetch offsets: {scene}"));
            ask_fetch(pair, version, wanted, nobody, stable);
        }
    }
    if version >= 2 {
        pair.scene("fetch offsets: all");
        ask_fetch(pair, version, &[(&group, None)], nobody, false);
        pair.scene("fetch offsets: all of no group");
        ask_fetch(pair, version, &[("no-such-group", None)], nobody, false);
    }
    if version >= 8 {
        pair.scene("fetch offsets: many groups");
        let some: Wanted<'_> = &[
            (&group, None),
            ("no-such-group", None),
            ("", None),
            ("commit-v8", Some(&[(topic, &[0])])),
            (&group, Some(&[(topic, &[2])])),
        ];
        ask_fetch(pair, version, some, nobody, true);
        pair.scene("fetch offsets: of no groups");
        ask_fetch(pair, version, &[], nobody, false);
    }
    if version >= 9 {
        for member in [(Some(""), -1), (Some("nobody"), -1), (Some("nobody"), 0), (None, 5), (Some(""), 5)] {
            pair.scene(format!("fetch offsets: as {member:?}"));
            ask_fetch(pair, version, &[(&group, Some(&[(topic, &[0])]))], member, false);
            ask_fetch(pair, version, &[("no-such-group", Some(&[(topic, &[0])]))], member, false);
        }
    }
}

fn delete(pair: &mut Pair, version: i16, all: &[Topic]) {
    let (topic, other) = (&all[0], &all[1]);
    let group = format!("delete-offsets-v{version}");
    let committed: &[(&Topic, &[Commit<'_>])] =
        &[(topic, &[(0, 5, -1, None), (1, 6, -1, None), (2, 7, -1, None)]), (other, &[(0, 1, -1, None)])];
    let ask = |pair: &mut Pair, scene: &str, group: &str, what: &[(&str, &[i32])]| {
        pair.on(0).scene(format!("delete offsets: {scene}"));
        let topic = |(name, partitions): &(&str, &[i32])| OffsetDeleteRequestTopic {
            name: (*name).to_string(),
            partitions: partitions
                .iter()
                .map(|index| OffsetDeleteRequestPartition { partition_index: *index, ..Default::default() })
                .collect(),
            ..Default::default()
        };
        let request = OffsetDeleteRequest {
            group_id: group.to_string(),
            topics: what.iter().map(topic).collect(),
            ..Default::default()
        };
        pair.ask(version, &request);
        ask_fetch_all(pair, group);
    };
    pair.on(0).scene("delete offsets: commit");
    ask_commit(pair, 8, &alone(&group), committed);
    ask(pair, "one", &group, &[("committed", &[0])]);
    ask(pair, "one that is gone", &group, &[("committed", &[0])]);
    ask(pair, "unknown ones", &group, &[("no-such-topic", &[0]), ("committed", &[9, -1, 1])]);
    ask(pair, "an invalid one", &group, &[("a b", &[0]), ("", &[0])]);
    ask(pair, "one twice", &group, &[("committed", &[2, 2])]);
    ask(pair, "nothing", &group, &[]);
    ask(pair, "no partitions", &group, &[("committed", &[])]);
    ask(pair, "of no group", "no-such-group", &[("committed", &[0])]);
    ask(pair, "of a nameless group", "", &[("committed", &[0])]);
    ask(pair, "nothing of no group", "no-such-group", &[]);
    ask(pair, "the last", &group, &[("committed-too", &[0])]);
    ask(pair, "after the last", &group, &[("committed-too", &[0])]);

    // Members that say what they are subscribed to, as consumers do, and ones that say nothing of the kind.
    for (kind, metadata) in [("subscribed", subscription("committed")), ("unreadable", b"topics".to_vec())] {
        let mut joined = member(1, &format!("delete-offsets-{kind}-v{version}"));
        joined.protocols = vec![("range", metadata)];
        pair.on(0).scene("delete offsets: join");
        ask_commit(pair, 8, &alone(&joined.group), committed);
        joined.join(pair, 4);
        ask(
            pair,
            &format!("{kind}, before the assignment"),
            &joined.group,
            &[("committed", &[0]), ("committed-too", &[0])],
        );
        pair.scene("delete offsets: sync");
        joined.sync(pair, 3, &[&joined]);
        ask(
            pair,
            &format!("{kind}, stable"),
            &joined.group,
            &[("committed", &[1]), ("committed-too", &[0]), ("no-such-topic", &[0])],
        );
        let mut connect = member(2, &format!("delete-offsets-connect-{kind}-v{version}"));
        connect.protocol_type = "connect";
        pair.on(0).scene("delete offsets: join");
        ask_commit(pair, 8, &alone(&connect.group), committed);
        connect.join(pair, 4);
        ask(pair, "of another protocol type", &connect.group, &[("committed", &[0])]);
    }
}

/// A consumer's subscription to one topic, version 0 of its protocol.
fn subscription(topic: &str) -> Vec<u8> {
    let mut bytes = vec![0, 0, 0, 0, 0, 1, 0, topic.len() as u8];
    bytes.extend_from_slice(topic.as_bytes());
    bytes.extend_from_slice(&[0xff; 4]);
    bytes
}
