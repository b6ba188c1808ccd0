//! Fetch: what is read, where reading ends, and sessions.

use weir_protocol::messages::*;
use weir_protocol::records::Codec;
use weir_protocol::wire::Uuid;

use crate::batch::{batch, now_ms, sized};
use crate::pair::{Both, Pair, Release};
use crate::produce::{Topic, topics};

/// A partition to fetch: topic, index, offset, current leader epoch, last fetched epoch, maximum of bytes.
#[derive(Clone)]
struct Part<'a> {
    topic: &'a Topic,
    partition: i32,
    offset: i64,
    leader_epoch: i32,
    last_epoch: i32,
    max_bytes: i32,
}

fn part(topic: &Topic, partition: i32, offset: i64) -> Part<'_> {
    Part { topic, partition, offset, leader_epoch: -1, last_epoch: -1, max_bytes: 1 << 20 }
}

/// What a request says besides its partitions.
#[derive(Clone, Copy)]
struct Terms {
    max_wait_ms: i32,
    min_bytes: i32,
    max_bytes: i32,
    isolation_level: i8,
    session: (Both<i32>, i32),
}

const TERMS: Terms = Terms {
    max_wait_ms: 0,
    min_bytes: 0,
    max_bytes: 10 << 20,
    isolation_level: 0,
    session: (Both { kafka: 0, weir: 0 }, -1),
};

fn requests(
    version: i16,
    terms: Terms,
    parts: &[Part<'_>],
    forgotten: &[(&Topic, &[i32])],
) -> Both<FetchRequest> {
    let request = |session_id: i32, pick: fn(&Both<Uuid>) -> Uuid| {
        let id = |topic: &Topic| if version >= 13 { pick(&topic.id) } else { Uuid::ZERO };
        let mut asked: Vec<FetchTopic> = Vec::new();
        for part in parts {
            let one = FetchPartition {
                partition: part.partition,
                current_leader_epoch: part.leader_epoch,
                fetch_offset: part.offset,
                last_fetched_epoch: if version >= 12 { part.last_epoch } else { -1 },
                log_start_offset: -1,
                partition_max_bytes: part.max_bytes,
                ..Default::default()
            };
            match asked.last_mut() {
                Some(last) if last.topic == part.topic.name => last.partitions.push(one),
                _ => asked.push(FetchTopic {
                    topic: part.topic.name.clone(),
                    topic_id: id(part.topic),
                    partitions: vec![one],
                    ..Default::default()
                }),
            }
        }
        FetchRequest {
            max_wait_ms: terms.max_wait_ms,
            min_bytes: terms.min_bytes,
            max_bytes: terms.max_bytes,
            isolation_level: terms.isolation_level,
            session_id,
            session_epoch: terms.session.1,
            topics: asked,
            forgotten_topics_data: forgotten
                .iter()
                .map(|(topic, partitions)| FetchRequestForgottenTopic {
                    topic: topic.name.clone(),
                    topic_id: id(topic),
                    partitions: partitions.to_vec(),
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        }
    };
    Both {
        kafka: request(terms.session.0.kafka, |id| id.kafka),
        weir: request(terms.session.0.weir, |id| id.weir),
    }
}

fn ask(pair: &mut Pair, version: i16, scene: &str, terms: Terms, parts: &[Part<'_>]) -> Both<i32> {
    ask_and_forget(pair, version, scene, terms, parts, &[])
}

fn ask_and_forget(
    pair: &mut Pair,
    version: i16,
    scene: &str,
    terms: Terms,
    parts: &[Part<'_>],
    forgotten: &[(&Topic, &[i32])],
) -> Both<i32> {
    pair.scene(scene);
    let answers = pair.ask_each(version, &requests(version, terms, parts, forgotten));
    answers.map(|answer| answer.as_ref().map_or(-1, |answer| answer.session_id))
}

/// Reads all that is in a partition.
pub(crate) fn all_of(pair: &mut Pair, topic: &Topic, partition: i32) {
    pair.ask_each(11, &requests(11, TERMS, &[part(topic, partition, 0)], &[]));
}

pub(crate) fn compare(pair: &mut Pair) {
    if pair.release == Release::Kafka3_9 {
        return;
    }
    let all = topics(
        pair,
        &[
            ("fetch-a", 2, &[]),
            ("fetch-b", 1, &[]),
            ("fetch-empty", 1, &[]),
            ("fetch-cut", 1, &[]),
            ("fetch-gone", 1, &[]),
        ],
    );
    let now = now_ms() - 1000;
    for index in 0..2 {
        for codec in [Codec::None, Codec::Gzip, Codec::None] {
            pair.produce("fetch-a", index, batch(codec, &[now, now + 1, now + 2]));
        }
    }
    for _ in 0..4 {
        pair.produce("fetch-b", 0, sized(Codec::None, 2, 1000));
        pair.produce("fetch-cut", 0, sized(Codec::None, 2, 100));
    }
    pair.delete_records("fetch-cut", 0, 3);
    pair.delete_topic("fetch-gone");
    for version in pair.served(ApiKey::Fetch) {
        read(pair, version, &all);
        if version >= 7 {
            sessions(pair, version, &all);
        }
    }
}

fn read(pair: &mut Pair, version: i16, all: &[Topic]) {
    let [a, b, empty, cut, gone] = all else { unreachable!() };
    let unknown = Topic { name: "no-such-topic".to_string(), id: Both::same(Uuid([9; 16])) };
    let nameless = Topic { name: String::new(), id: Both::same(Uuid::ZERO) };
    for offset in [0, 1, 3, 4, 8, 9, 10, -1, i64::MAX, i64::MIN] {
        ask(pair, version, &format!("from {offset}"), TERMS, &[part(a, 0, offset)]);
        let committed = Terms { isolation_level: 1, ..TERMS };
        ask(pair, version, &format!("committed from {offset}"), committed, &[part(a, 0, offset)]);
        ask(pair, version, &format!("cut, from {offset}"), TERMS, &[part(cut, 0, offset)]);
    }
    ask(pair, version, "isolation level 2", Terms { isolation_level: 2, ..TERMS }, &[part(a, 0, 0)]);
    ask(pair, version, "isolation level -1", Terms { isolation_level: -1, ..TERMS }, &[part(a, 0, 0)]);
    ask(pair, version, "several", TERMS, &[part(a, 0, 0), part(a, 1, 3), part(b, 0, 2), part(empty, 0, 0)]);
    ask(pair, version, "nothing", TERMS, &[]);
    ask(pair, version, "an unknown partition", TERMS, &[part(a, 9, 0), part(a, -1, 0), part(a, 0, 9)]);
    ask(pair, version, "an unknown topic", TERMS, &[part(&unknown, 0, 0), part(a, 0, 9)]);
    ask(pair, version, "a topic that is gone", TERMS, &[part(gone, 0, 0)]);
    ask(pair, version, "a nameless topic", TERMS, &[part(&nameless, 0, 0)]);
    ask(pair, version, "one twice", TERMS, &[part(a, 0, 0), part(a, 0, 3)]);
    ask(
        pair,
        version,
        "an empty topic",
        Terms { max_wait_ms: 20, min_bytes: 1, ..TERMS },
        &[part(empty, 0, 0)],
    );
    ask(pair, version, "at the end", Terms { max_wait_ms: 20, min_bytes: 1, ..TERMS }, &[part(a, 0, 9)]);
    ask(
        pair,
        version,
        "at the end and elsewhere",
        Terms { max_wait_ms: 2000, min_bytes: 1, ..TERMS },
        &[part(a, 0, 9), part(a, 1, 3)],
    );
    ask(
        pair,
        version,
        "at the end and in error",
        Terms { max_wait_ms: 2000, min_bytes: 1, ..TERMS },
        &[part(a, 0, 9), part(a, 1, 99)],
    );
    ask(
        pair,
        version,
        "more than there is",
        Terms { max_wait_ms: 20, min_bytes: 1 << 20, ..TERMS },
        &[part(a, 0, 0)],
    );
    // Answered at once, or never in the time that a test has.
    let patient = Terms { max_wait_ms: i32::MAX, min_bytes: 1, ..TERMS };
    ask(pair, version, "nothing, with all patience", patient, &[]);
    let more = Terms { min_bytes: 1 << 20, max_bytes: 1000, ..patient };
    ask(pair, version, "less than what is wanted at least", more, &[part(b, 0, 0)]);
    ask(pair, version, "negative terms", Terms { max_wait_ms: -1, min_bytes: -1, ..TERMS }, &[part(a, 0, 0)]);
    for max_bytes in [0, 1, 61, 1500, 2100, 3000, 4300, -1] {
        ask(
            pair,
            version,
            &format!("at most {max_bytes}"),
            Terms { max_bytes, ..TERMS },
            &[part(b, 0, 0), part(a, 0, 0)],
        );
        ask(
            pair,
            version,
            &format!("at most {max_bytes}, from the middle"),
            Terms { max_bytes, ..TERMS },
            &[part(b, 0, 1)],
        );
        ask(
            pair,
            version,
            &format!("at most {max_bytes}, after an empty one"),
            Terms { max_bytes, ..TERMS },
            &[part(empty, 0, 0), part(b, 0, 3)],
        );
        let limited = Part { max_bytes, ..part(b, 0, 0) };
        ask(pair, version, &format!("at most {max_bytes} of one"), TERMS, &[limited.clone(), part(a, 0, 0)]);
        ask(pair, version, &format!("at most {max_bytes} of another"), TERMS, &[part(a, 0, 0), limited]);
    }
    if version >= 9 {
        for leader_epoch in [-1, 0, 1, 5, -2] {
            let fenced = Part { leader_epoch, ..part(a, 0, 0) };
            ask(pair, version, &format!("leader epoch {leader_epoch}"), TERMS, &[fenced]);
            let fenced = Part { leader_epoch, ..part(a, 9, 0) };
            ask(
                pair,
                version,
                &format!("leader epoch {leader_epoch} of an unknown partition"),
                TERMS,
                &[fenced],
            );
        }
    }
    if version >= 12 {
        for last_epoch in [0, 1, -2] {
            for offset in [0, 9, 20] {
                let fetched = Part { last_epoch, ..part(a, 0, offset) };
                ask(
                    pair,
                    version,
                    &format!("last fetched epoch {last_epoch} at {offset}"),
                    TERMS,
                    &[fetched],
                );
            }
        }
    }
}

fn sessions(pair: &mut Pair, version: i16, all: &[Topic]) {
    let [_, b, empty, _, gone] = all else { unreachable!() };
    let name = format!("fetch-session-v{version}");
    let grows = topics(pair, &[(&name, 2, &[])]);
    let a = &grows[0];
    for index in 0..2 {
        let now = now_ms() - 1000;
        (0..3).for_each(|_| pair.produce(&name, index, batch(Codec::None, &[now, now + 1, now + 2])));
    }
    let none = Both::same(0);
    let session = |ids: Both<i32>, epoch: i32| Terms { session: (ids, epoch), ..TERMS };
    ask(pair, version, "session 0 epoch 0 without partitions", session(none, 0), &[]);
    for (id, epoch) in [(0, 1), (1234, 1), (1234, 0), (1234, -1), (1234, 99), (0, -2), (-1, 0), (-1, 1)] {
        ask(
            pair,
            version,
            &format!("session {id} epoch {epoch}"),
            session(Both::same(id), epoch),
            &[part(a, 0, 9)],
        );
    }
    let ids = ask(
        pair,
        version,
        "a new session",
        session(none, 0),
        &[part(a, 0, 0), part(a, 1, 9), part(empty, 0, 0)],
    );
    ask(pair, version, "nothing new", session(ids, 1), &[]);
    ask(pair, version, "read to the end", session(ids, 2), &[part(a, 0, 9)]);
    ask(pair, version, "nothing new at the end", session(ids, 3), &[]);
    ask(pair, version, "added", session(ids, 4), &[part(b, 0, 6)]);
    ask(pair, version, "added and there again", session(ids, 5), &[]);
    ask(pair, version, "added in error", session(ids, 6), &[part(a, 7, 0), part(b, 0, 99)]);
    ask(pair, version, "errors again", session(ids, 7), &[]);
    ask_and_forget(pair, version, "forgotten", session(ids, 8), &[], &[(a, &[7]), (b, &[0])]);
    ask_and_forget(
        pair,
        version,
        "forgotten what was not known",
        session(ids, 9),
        &[],
        &[(a, &[44]), (gone, &[0])],
    );
    ask_and_forget(pair, version, "added and forgotten", session(ids, 10), &[part(b, 0, 0)], &[(b, &[0])]);
    ask(pair, version, "after that", session(ids, 11), &[]);
    ask(pair, version, "a wrong epoch", session(ids, 11), &[]);
    ask(pair, version, "a future epoch", session(ids, 14), &[]);
    ask(pair, version, "the right epoch", session(ids, 12), &[]);
    pair.produce(&a.name, 0, batch(Codec::None, &[now_ms() - 1000]));
    ask(pair, version, "something new", session(ids, 13), &[]);
    pair.delete_records(&a.name, 1, 3);
    ask(pair, version, "another log start", session(ids, 14), &[]);
    ask_and_forget(pair, version, "without what grows", session(ids, 15), &[], &[(a, &[0])]);
    if version >= 13 {
        // By names, which this version has, in a session that has ids.
        ask(pair, 12, "in the other mode", session(ids, 16), &[]);
    }
    ask(pair, version, "closed", session(ids, -1), &[part(a, 1, 9)]);
    ask(pair, version, "after it was closed", session(ids, 16), &[]);
    let ids = ask(pair, version, "a session that is replaced", session(none, 0), &[part(a, 1, 9)]);
    ask(pair, version, "replaced", session(ids, 0), &[part(b, 0, 8)]);
    ask(pair, version, "after it was replaced", session(ids, 1), &[]);
    let ids = ask(pair, version, "closed for good", session(none, 0), &[part(a, 1, 9)]);
    let patient = Terms { max_wait_ms: i32::MAX, min_bytes: 1, ..session(ids, -1) };
    ask(pair, version, "closed for good, with all patience", patient, &[]);
    let ids = ask(pair, version, "emptied", session(none, 0), &[part(a, 1, 9)]);
    ask_and_forget(pair, version, "forgotten all", session(ids, 1), &[], &[(a, &[1])]);
    ask(pair, version, "after all was forgotten", session(ids, 2), &[]);
}
