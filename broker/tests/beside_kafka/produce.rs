//! Produce: good batches of every codec, every way to get a batch wrong, and the sequences of idempotent producers; then
//! what is in the logs. InitProducerId and DescribeProducers with it.

use weir_protocol::messages::*;
use weir_protocol::records::{BatchBuilder, Codec};
use weir_protocol::wire::Uuid;

use crate::batch::{batch, builder, idempotent, now_ms, old_message, sized, with_body, with_header};
use crate::fetch;
use crate::pair::{Both, Pair};

const HOUR_MS: i64 = 3_600_000;

/// A topic by its name and by its ids.
#[derive(Debug, Clone)]
pub(crate) struct Topic {
    pub(crate) name: String,
    pub(crate) id: Both<Uuid>,
}

/// Creates topics and keeps their ids.
pub(crate) fn topics(pair: &mut Pair, topics: &[crate::support::NewTopic<'_>]) -> Vec<Topic> {
    let ids = pair.create(topics);
    let topic = |((name, _, _), id): (&crate::support::NewTopic<'_>, Both<Uuid>)| Topic {
        name: (*name).to_string(),
        id,
    };
    topics.iter().zip(ids).map(topic).collect()
}

/// Records for a partition of a topic.
type Part<'a> = (&'a Topic, i32, Option<Vec<u8>>);

fn request(version: i16, acks: i16, parts: &[Part<'_>], pick: fn(&Both<Uuid>) -> Uuid) -> ProduceRequest {
    let mut topic_data: Vec<TopicProduceData> = Vec::new();
    for (topic, index, records) in parts {
        let data = PartitionProduceData { index: *index, records: records.clone(), ..Default::default() };
        match topic_data.last_mut() {
            Some(last) if last.name == topic.name => last.partition_data.push(data),
            _ => topic_data.push(TopicProduceData {
                name: topic.name.clone(),
                topic_id: if version >= 13 { pick(&topic.id) } else { Uuid::ZERO },
                partition_data: vec![data],
                ..Default::default()
            }),
        }
    }
    // A null is not the default, which is an empty string.
    ProduceRequest { transactional_id: None, acks, timeout_ms: 5000, topic_data, ..Default::default() }
}

fn ask(pair: &mut Pair, version: i16, scene: &str, acks: i16, parts: &[Part<'_>]) {
    pair.scene(scene);
    let requests = Both {
        kafka: request(version, acks, parts, |id| id.kafka),
        weir: request(version, acks, parts, |id| id.weir),
    };
    pair.ask_each(version, &requests);
}

pub(crate) fn compare(pair: &mut Pair) {
    // The first producer ids come when somebody has asked for them.
    let request = InitProducerIdRequest { transactional_id: None, ..Default::default() };
    pair.settle(4, &Both::same(request), |answer| answer.error_code.is_ok());
    for version in pair.served(ApiKey::InitProducerId) {
        init_producer_id(pair, version);
    }
    let versions = pair.served(ApiKey::Produce);
    for version in versions.into_iter().filter(|version| *version >= 3) {
        produce(pair, version);
    }
    if pair.release == crate::pair::Release::Kafka3_9 {
        return;
    }
    idempotence(pair);
}

fn produce(pair: &mut Pair, version: i16) {
    let name = |text: &str| format!("produce-v{version}-{text}");
    let all = topics(
        pair,
        &[
            (&name("plain"), 2, &[]),
            // For batches that only one of the two takes.
            (&name("odd"), 1, &[]),
            (&name("append-time"), 1, &[("message.timestamp.type", "LogAppendTime")]),
            (&name("compact"), 1, &[("cleanup.policy", "compact")]),
            (&name("small"), 1, &[("max.message.bytes", "1000")]),
            (&name("gzip"), 1, &[("compression.type", "gzip")]),
            (&name("uncompressed"), 1, &[("compression.type", "uncompressed")]),
            (&name("small-segments"), 1, &[("segment.bytes", "1048576"), ("max.message.bytes", "2000000")]),
            (
                &name("strict-time"),
                1,
                &[
                    ("message.timestamp.before.max.ms", "1000000"),
                    ("message.timestamp.after.max.ms", "1000000"),
                ],
            ),
        ],
    );
    let [plain, odd, append_time, compact, small, gzip, uncompressed, small_segments, strict_time] = &all[..]
    else {
        unreachable!()
    };
    let unknown = Topic { name: "no-such-topic".to_string(), id: Both::same(Uuid([9; 16])) };
    let nameless = Topic { name: String::new(), id: Both::same(Uuid::ZERO) };
    let now = now_ms() - 1000;
    let good = || Some(batch(Codec::None, &[now, now + 1, now + 2]));
    let codecs = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];

    for codec in codecs {
        for acks in [1, -1] {
            ask(
                pair,
                version,
                &format!("{codec:?} acks {acks}"),
                acks,
                &[(plain, 0, Some(batch(codec, &[now, now + 5])))],
            );
        }
        for topic in [append_time, compact, gzip, uncompressed] {
            let scene = format!("{codec:?} to {}", topic.name.rsplit('-').next().unwrap());
            ask(pair, version, &scene, 1, &[(topic, 0, Some(batch(codec, &[now + 3, now])))]);
        }
        ask(pair, version, &format!("{codec:?} too large"), 1, &[(small, 0, Some(sized(codec, 3, 900)))]);
        ask(
            pair,
            version,
            &format!("{codec:?} without a key, compacted"),
            1,
            &[(compact, 0, Some(sized(codec, 3, 9)))],
        );
        ask(
            pair,
            version,
            &format!("{codec:?} too early"),
            1,
            &[(plain, 0, Some(batch(codec, &[now, now + 2 * HOUR_MS])))],
        );
        let late = Some(batch(codec, &[now, now - 2 * HOUR_MS, now + 2 * HOUR_MS]));
        ask(pair, version, &format!("{codec:?} too late and too early"), 1, &[(strict_time, 0, late)]);
    }
    let mut keyless = BatchBuilder::new(Codec::None);
    for key in [Some(&b"k"[..]), None, Some(b"k"), None] {
        keyless.append(now, key, Some(b"v"), &[]).unwrap();
    }
    ask(pair, version, "some without a key, compacted", 1, &[(compact, 0, Some(keyless.build().unwrap()))]);
    ask(
        pair,
        version,
        "larger than a segment",
        1,
        &[(small_segments, 0, Some(sized(Codec::None, 11, 100_000)))],
    );
    ask(
        pair,
        version,
        "larger than the default limit",
        1,
        &[(plain, 0, Some(sized(Codec::None, 11, 100_000)))],
    );

    ask(pair, version, "several partitions", 1, &[(plain, 0, good()), (plain, 1, good()), (gzip, 0, good())]);
    ask(pair, version, "good and bad", 1, &[(plain, 0, good()), (plain, 9, good()), (&unknown, 0, good())]);
    ask(pair, version, "partition -1", 1, &[(plain, -1, good())]);
    ask(pair, version, "an unknown topic", 1, &[(&unknown, 0, good())]);
    ask(pair, version, "an unknown topic, acks all", -1, &[(&unknown, 0, good()), (&unknown, 1, good())]);
    ask(pair, version, "a nameless topic", 1, &[(&nameless, 0, good())]);
    ask(pair, version, "twice: a partition", 1, &[(odd, 0, good()), (odd, 0, good())]);
    ask(pair, version, "twice: a topic", 1, &[(odd, 0, good()), (gzip, 0, good()), (odd, 0, good())]);
    ask(pair, version, "no topics", 1, &[]);
    for acks in [2, -2, 100] {
        ask(pair, version, &format!("acks {acks}"), acks, &[(plain, 0, good()), (plain, 9, good())]);
    }

    let plain_batch = batch(Codec::None, &[now, now + 1, now + 2]);
    let damaged = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = plain_batch.clone();
        change(&mut bytes);
        Some(bytes)
    };
    let cases: Vec<(&str, Option<Vec<u8>>)> = vec![
        ("no bytes", Some(vec![])),
        ("few bytes", damaged(&|bytes| bytes.truncate(10))),
        ("half a header", damaged(&|bytes| bytes.truncate(40))),
        ("half a batch", damaged(&|bytes| bytes.truncate(80))),
        ("bytes behind: bytes behind the batch", damaged(&|bytes| bytes.extend_from_slice(&[0; 30]))),
        ("bytes behind: few bytes behind the batch", damaged(&|bytes| bytes.extend_from_slice(&[0; 3]))),
        ("two batches", damaged(&|bytes| bytes.extend_from_within(..))),
        ("a bad CRC", damaged(&|bytes| bytes[17] ^= 1)),
        ("a damaged record", damaged(&|bytes| bytes[70] ^= 1)),
        ("magic 0", Some(old_message(0))),
        ("magic 1", Some(old_message(1))),
        ("magic 3", damaged(&|bytes| bytes[16] = 3)),
        ("magic -1", damaged(&|bytes| bytes[16] = 0xff)),
        ("a length of 0", damaged(&|bytes| bytes[8..12].fill(0))),
        ("a length of -1", damaged(&|bytes| bytes[8..12].fill(0xff))),
        ("bytes behind: a length too small", damaged(&|bytes| bytes[11] -= 1)),
        ("a base offset", Some(with_header(&plain_batch, |header| header.base_offset = 5))),
        ("a negative base offset", Some(with_header(&plain_batch, |header| header.base_offset = -1))),
        ("a leader epoch", Some(with_header(&plain_batch, |header| header.partition_leader_epoch = 77))),
        ("a wrong count", Some(with_header(&plain_batch, |header| header.record_count = 2))),
        ("a count too high", Some(with_header(&plain_batch, |header| header.record_count = 4))),
        ("a count of 0", Some(with_header(&plain_batch, |header| header.record_count = 0))),
        ("a count of -1", Some(with_header(&plain_batch, |header| header.record_count = -1))),
        (
            "a count with its last offset",
            Some(with_header(&plain_batch, |header| {
                header.record_count = 4;
                header.last_offset_delta = 3;
            })),
        ),
        ("a wrong last offset", Some(with_header(&plain_batch, |header| header.last_offset_delta = 5))),
        ("a negative last offset", Some(with_header(&plain_batch, |header| header.last_offset_delta = -1))),
        ("an empty batch", Some(BatchBuilder::new(Codec::None).build().unwrap())),
        (
            "damaged compression: an unknown codec",
            Some(with_header(&plain_batch, |header| header.attributes |= 5)),
        ),
        (
            "damaged compression: a wrong codec",
            Some(with_header(&plain_batch, |header| header.attributes |= 1)),
        ),
        (
            "a broker's header: append time of the client",
            Some(with_header(&plain_batch, |header| header.attributes |= 8)),
        ),
        ("an unknown attribute", Some(with_header(&plain_batch, |header| header.attributes |= 0x100))),
        (
            "a broker's header: a delete horizon",
            Some(with_header(&plain_batch, |header| header.set_delete_horizon(true))),
        ),
        (
            "a wrong maximum timestamp",
            Some(with_header(&plain_batch, |header| header.max_timestamp = now + 1000)),
        ),
        ("a maximum timestamp of -1", Some(with_header(&plain_batch, |header| header.max_timestamp = -1))),
        ("no timestamps", Some(batch(Codec::None, &[-1, -1]))),
        ("a timestamp of -2", Some(batch(Codec::None, &[-2, -2]))),
        ("a timestamp of 0", Some(batch(Codec::None, &[0]))),
        ("the last timestamp", Some(batch(Codec::None, &[i64::MAX]))),
        ("control", Some(with_header(&plain_batch, |header| header.set_control(true)))),
        ("transactional", Some(with_header(&plain_batch, |header| header.set_transactional(true)))),
        ("bytes behind the records", Some(with_body(&plain_batch, |body| body.extend_from_slice(&[0, 0])))),
        ("a record cut short", Some(with_body(&plain_batch, |body| body.truncate(body.len() - 3)))),
        ("a record with attributes", Some(with_body(&plain_batch, |body| body[1] = 1))),
        ("a record with a gap before it", {
            let mut gap = BatchBuilder::new(Codec::None);
            gap.append_at(0, now, None, Some(b"v"), &[]).unwrap();
            gap.append_at(2, now, None, Some(b"v"), &[]).unwrap();
            Some(gap.build().unwrap())
        }),
        ("a record with a gap before it, compressed", {
            let mut gap = BatchBuilder::new(Codec::Gzip);
            gap.append_at(0, now, None, Some(b"v"), &[]).unwrap();
            gap.append_at(2, now, None, Some(b"v"), &[]).unwrap();
            Some(gap.build().unwrap())
        }),
        (
            "a broker's header: a producer without epoch",
            Some(builder(Codec::None, &[now]).producer(900_000, -1, 0).build().unwrap()),
        ),
        (
            "a producer without sequence",
            Some(builder(Codec::None, &[now]).producer(900_001, 0, -1).build().unwrap()),
        ),
        ("a negative producer", Some(builder(Codec::None, &[now]).producer(-2, 0, 0).build().unwrap())),
        (
            "damaged compression: damaged gzip",
            Some(with_body(&batch(Codec::Gzip, &[now, now]), |body| body[12] ^= 0x55)),
        ),
        (
            "damaged compression: damaged lz4",
            Some(with_body(&batch(Codec::Lz4, &[now, now]), |body| body[5] ^= 0x55)),
        ),
    ];
    for (scene, records) in cases {
        let to = if scene.contains(": ") { odd } else { plain };
        ask(pair, version, scene, 1, &[(to, 0, records)]);
    }
    let nothing = |partition_data| ProduceRequest {
        transactional_id: None,
        acks: 1,
        timeout_ms: 5000,
        topic_data: vec![TopicProduceData { name: plain.name.clone(), partition_data, ..Default::default() }],
        ..Default::default()
    };
    if version < 13 {
        pair.scene("no partitions");
        pair.ask(version, &nothing(vec![]));
    }
    // Null records are left out: Kafka never answers them.
    // No answer is owed; the next one on the connection belongs to the next request.
    pair.scene("acks 0");
    let quiet = Both {
        kafka: request(version, 0, &[(plain, 1, good())], |id| id.kafka),
        weir: request(version, 0, &[(plain, 1, good())], |id| id.weir),
    };
    pair.send(version, &quiet);
    ask(pair, version, "after acks 0", 1, &[(plain, 1, good())]);
    for topic in all.iter().filter(|topic| topic.name != odd.name) {
        for partition in 0..2 {
            pair.scene(format!("what is in {} {partition}", topic.name.split_at(9).1));
            fetch::all_of(pair, topic, partition);
        }
    }
}

fn init_producer_id(pair: &mut Pair, version: i16) {
    let ask = |pair: &mut Pair, scene: &str, id: Option<&str>, timeout, producer: (i64, i16)| {
        pair.scene(scene);
        let request = InitProducerIdRequest {
            transactional_id: id.map(str::to_string),
            transaction_timeout_ms: timeout,
            producer_id: producer.0,
            producer_epoch: producer.1,
            ..Default::default()
        };
        pair.ask(version, &request);
    };
    ask(pair, "new producer id", None, 60_000, (-1, -1));
    ask(pair, "new producer id without time", None, -1, (-1, -1));
    ask(pair, "empty transactional id", Some(""), 60_000, (-1, -1));
    if version >= 3 {
        ask(pair, "a producer id that is known", None, 60_000, (0, 0));
        ask(pair, "a producer id without epoch", None, 60_000, (5, -1));
        ask(pair, "an epoch without producer id", None, 60_000, (-1, 5));
    }
}

/// The producer ids that the two give next; the epoch is 0.
fn producer(pair: &mut Pair) -> Both<i64> {
    let request = InitProducerIdRequest {
        transactional_id: None,
        transaction_timeout_ms: 60_000,
        ..Default::default()
    };
    pair.scene("producer id");
    pair.ask(4, &request).answered().map(|answer| answer.producer_id)
}

fn idempotence(pair: &mut Pair) {
    let all =
        topics(pair, &[("idempotent", 2, &[]), ("idempotent-compact", 1, &[("cleanup.policy", "compact")])]);
    let topic = &all[0];
    let (first, second, third) = (producer(pair), producer(pair), producer(pair));
    let ask_in = |pair: &mut Pair,
                  version: i16,
                  partition,
                  producer: Both<i64>,
                  epoch: i16,
                  sequence: i32,
                  count: usize| {
        pair.scene(format!(
            "partition {partition}, epoch {epoch}, {count} from sequence {sequence}, v{version}"
        ));
        let one = |id: i64| Some(idempotent((id, epoch), sequence, count));
        let requests = Both {
            kafka: request(version, -1, &[(topic, partition, one(producer.kafka))], |id| id.kafka),
            weir: request(version, -1, &[(topic, partition, one(producer.weir))], |id| id.weir),
        };
        pair.ask_each(version, &requests);
    };
    for version in [3, 7, 11, 12, 13] {
        let fresh = producer(pair);
        let ask =
            |pair: &mut Pair, epoch, sequence, count| ask_in(pair, version, 1, fresh, epoch, sequence, count);
        ask(pair, 0, 0, 2);
        ask(pair, 0, 0, 2);
        ask(pair, 0, 2, 1);
        ask(pair, 0, 5, 1);
        ask(pair, 0, 1, 1);
        ask(pair, 1, 5, 1);
        ask(pair, 1, 0, 1);
        ask(pair, 0, 3, 1);
    }
    let ask = |pair: &mut Pair, producer, epoch, sequence, count| {
        ask_in(pair, 11, 0, producer, epoch, sequence, count)
    };
    // The first sequence that is seen may be any.
    ask(pair, first, 0, 7, 1);
    ask(pair, first, 0, 8, 3);
    ask(pair, first, 0, 8, 2);
    ask(pair, first, 0, 8, 3);
    ask(pair, first, 0, 9, 2);
    for sequence in 11..18 {
        ask(pair, first, 0, sequence, 1);
    }
    // Five batches are remembered.
    for sequence in [17, 13, 12, 11, 8, 7, 0] {
        ask(pair, first, 0, sequence, 1);
    }
    ask(pair, first, 2, 0, 1);
    ask(pair, first, 1, 18, 1);
    ask(pair, first, 1, 0, 1);
    ask(pair, first, 2, 0, 1);
    ask(pair, first, 2, 1, 1);
    ask(pair, first, i16::MAX, 0, 1);
    ask(pair, first, i16::MAX, 1, 1);
    // Sequences wrap around.
    ask(pair, second, 0, i32::MAX - 1, 2);
    ask(pair, second, 0, 0, 2);
    ask(pair, second, 0, 2, 1);
    ask(pair, third, 3, i32::MAX - 1, 4);
    ask(pair, third, 3, 2, 1);
    ask(pair, third, 3, i32::MAX - 1, 4);
    // Ids that nobody gave.
    ask(pair, Both::same(700_000), 0, 5, 1);
    ask(pair, Both::same(700_001), 5, 0, 1);
    ask(pair, Both::same(700_001), 5, 0, 1);
    ask(pair, Both::same(i64::MAX), 0, 0, 1);
    pair.scene("two batches of a producer in one request");
    let two = |id: i64| {
        vec![(topic, 0, Some(idempotent((id, 0), 0, 1))), (topic, 1, Some(idempotent((id, 0), 0, 1)))]
    };
    let fresh = producer(pair);
    let requests = Both {
        kafka: request(9, -1, &two(fresh.kafka), |id| id.kafka),
        weir: request(9, -1, &two(fresh.weir), |id| id.weir),
    };
    pair.ask_each(9, &requests);
    for partition in 0..2 {
        pair.scene("what idempotent producers wrote");
        fetch::all_of(pair, topic, partition);
    }
    for version in pair.served(ApiKey::DescribeProducers) {
        for topics in [
            &[("idempotent", &[0, 1][..])][..],
            &[("idempotent", &[1, 1, 9, -1])],
            &[("idempotent-compact", &[0])],
            &[("no-such-topic", &[0])],
            &[("a b", &[0]), ("idempotent", &[])],
            &[],
        ] {
            pair.scene(format!("describe producers of {topics:?}"));
            let topic = |(name, partitions): &(&str, &[i32])| DescribeProducersRequestTopicRequest {
                name: (*name).to_string(),
                partition_indexes: partitions.to_vec(),
                ..Default::default()
            };
            let request =
                DescribeProducersRequest { topics: topics.iter().map(topic).collect(), ..Default::default() };
            pair.ask(version, &request);
        }
    }
}
