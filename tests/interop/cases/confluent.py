"""confluent-kafka, the Python face of librdkafka."""

import os
import signal
import sys
import time
from collections import defaultdict

from kit import CODECS, WAIT, case, check, equal, wait_until

CLIENT = "confluent-kafka"


def producer(t, **config):
    from confluent_kafka import Producer
    return Producer({"bootstrap.servers": t.bootstrap, **{k.replace("_", "."): v for k, v in config.items()}})


def consumer(t, group=None, **config):
    from confluent_kafka import Consumer
    return Consumer({"bootstrap.servers": t.bootstrap, "group.id": group or t.name("g"),
                     "auto.offset.reset": "earliest", "enable.auto.commit": False,
                     **{k.replace("_", "."): v for k, v in config.items()}})


def produce_all(p, topic, records):
    """records: dicts of produce() arguments. Returns the delivered messages, none of which failed."""
    delivered, errors = [], []

    def done(error, message):
        (errors.append(error) if error else delivered.append(message))
    for r in records:
        while True:
            try:
                p.produce(topic, on_delivery=done, **r)
                break
            except BufferError:
                p.poll(0.1)
        p.poll(0)
    equal(p.flush(WAIT), 0, "messages left in the queue")
    check(not errors, "delivery errors:", errors[:3])
    equal(len(delivered), len(records), "delivery reports")
    return delivered


def read(c, count, timeout=WAIT, each=None):
    """Polls `count` messages; an error event fails."""
    got, deadline = [], time.monotonic() + timeout
    while len(got) < count:
        check(time.monotonic() < deadline, f"only {len(got)} of {count} messages in {timeout} s")
        m = c.poll(0.5)
        if m is None:
            continue
        check(m.error() is None, "consumer error:", m.error())
        got.append(m)
        if each:
            each(m)
    return got


def assign_all(c, topic, partitions, offset=None):
    from confluent_kafka import OFFSET_BEGINNING, TopicPartition
    c.assign([TopicPartition(topic, p, OFFSET_BEGINNING if offset is None else offset) for p in range(partitions)])


@case(CLIENT, "round trip")
def round_trip(t):
    for codec in CODECS:
        topic = t.topic("rt", partitions=4)
        p = producer(t, compression_type=codec, acks="all", linger_ms=20)
        sent = [{"key": b"k%d" % (i % 40), "value": b"%d:" % i + b"x" * (i % 300)} for i in range(3000)]
        produce_all(p, topic, sent)
        c = consumer(t)
        assign_all(c, topic, 4)
        got = read(c, len(sent))
        equal(sorted(m.value() for m in got), sorted(r["value"] for r in sent), f"values with {codec}")
        order, offsets = defaultdict(list), defaultdict(list)
        for m in got:
            order[m.key()].append(int(m.value().split(b":")[0]))
            offsets[m.partition()].append(m.offset())
        equal(len(order), 40, "keys")
        for key, seen in order.items():
            equal(seen, sorted(seen), f"order of key {key}")
        for partition, seen in offsets.items():
            equal(seen, list(range(len(seen))), f"offsets of partition {partition}")
        c.close()
    t.prove(f"3,000 keyed records on 4 partitions, contents, order per key and dense offsets, with {', '.join(CODECS)}")


@case(CLIENT, "headers nulls timestamps")
def headers(t):
    from confluent_kafka import TIMESTAMP_CREATE_TIME
    topic = t.topic("hd")
    now = int(time.time() * 1000)
    sent = [
        {"key": None, "value": None},
        {"key": b"", "value": b""},
        {"key": b"k", "value": None, "headers": [("a", b"1"), ("a", b"2"), ("empty", b""), ("null", None)]},
        {"key": "schlüssel".encode(), "value": "wert ☃".encode(), "headers": [("ü", "☃".encode())], "timestamp": now - 5000},
        {"key": None, "value": bytes(range(256)), "timestamp": now + 1},
    ]
    for codec in ("none", "zstd"):
        produce_all(producer(t, compression_type=codec, linger_ms=50), topic, sent)
    c = consumer(t)
    assign_all(c, topic, 1)
    got = read(c, 2 * len(sent))
    for i, m in enumerate(got):
        r = sent[i % len(sent)]
        equal(m.key(), r["key"], f"key of record {i}")
        equal(m.value(), r["value"], f"value of record {i}")
        equal(m.headers(), r.get("headers"), f"headers of record {i}")
        kind, when = m.timestamp()
        equal(kind, TIMESTAMP_CREATE_TIME, "timestamp type")
        if "timestamp" in r:
            equal(when, r["timestamp"], "timestamp")
        else:
            check(abs(when - now) < 60000, "timestamp", when)
    c.close()
    t.prove("null and empty keys and values, repeated, empty and null headers, given CreateTime timestamps come back as sent")


@case(CLIENT, "log append time")
def log_append_time(t):
    from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME
    topic = t.topic("lat", message_timestamp_type="LogAppendTime")
    before = int(time.time() * 1000)
    for codec in ("none", "lz4"):
        reports = produce_all(producer(t, compression_type=codec), topic,
                              [{"value": b"v%d" % i, "timestamp": 1000 + i} for i in range(50)])
        for m in reports:
            check(m.timestamp()[1] >= before - 1000, "delivery report's timestamp", m.timestamp())
    after = int(time.time() * 1000)
    c = consumer(t)
    assign_all(c, topic, 1)
    for m in read(c, 100):
        equal(m.timestamp()[0], TIMESTAMP_LOG_APPEND_TIME, "timestamp type")
        check(before - 1000 <= m.timestamp()[1] <= after + 1000, "timestamp", m.timestamp(), before, after)
    c.close()
    t.prove("LogAppendTime: the broker's clock in delivery reports and in fetched records, compressed or not")


@case(CLIENT, "acks")
def acks(t):
    topic = t.topic("acks")
    total = 0
    for level in ("0", "1", "all"):
        delivered = produce_all(producer(t, acks=level), topic, [{"value": b"%s %d" % (level.encode(), i)} for i in range(500)])
        if level != "0":
            equal(sorted(m.offset() for m in delivered), list(range(total, total + 500)), f"reported offsets, acks={level}")
        total += 500
        c = consumer(t)
        wait_until(lambda: c.get_watermark_offsets(_tp(topic), timeout=WAIT)[1] == total, f"{total} records with acks={level}")
        c.close()
    c = consumer(t)
    assign_all(c, topic, 1)
    equal(len({m.value() for m in read(c, total)}), total, "different records")
    c.close()
    t.prove("acks 0, 1 and all: every record there once, at the reported offset")


def _tp(topic, partition=0, offset=None):
    from confluent_kafka import TopicPartition
    return TopicPartition(topic, partition) if offset is None else TopicPartition(topic, partition, offset)


@case(CLIENT, "idempotent producer")
def idempotent(t):
    topic = t.topic("idem", partitions=3)
    p = producer(t, enable_idempotence=True, linger_ms=1, batch_num_messages=20)
    sent = [{"key": b"%d" % (i % 9), "value": b"%d" % i} for i in range(6000)]
    produce_all(p, topic, sent)
    c = consumer(t)
    assign_all(c, topic, 3)
    seen = defaultdict(list)
    for m in read(c, len(sent)):
        seen[m.key()].append(int(m.value()))
    for key, values in seen.items():
        equal(values, list(range(int(key), 6000, 9)), f"records of key {key}")
    check(c.poll(0.5) is None, "a record too many")
    c.close()
    t.prove("idempotent producer, 5 requests in flight, 6,000 records in many small batches: each once and in order")


@case(CLIENT, "large messages")
def large(t):
    from confluent_kafka import KafkaError
    topic = t.topic("large")
    limit = 1048588  # the default of message.max.bytes
    p = producer(t, message_max_bytes=64 << 20)
    near = os.urandom(limit - 100)
    produce_all(p, topic, [{"value": near}])
    errors = []
    p.produce(topic, os.urandom(limit + 1), on_delivery=lambda e, m: errors.append(e))
    p.produce(topic, os.urandom(8 << 20), on_delivery=lambda e, m: errors.append(e))
    p.flush(WAIT)
    equal([e and e.code() for e in errors], [KafkaError.MSG_SIZE_TOO_LARGE] * 2, "errors of records above the limit")
    produce_all(p, topic, [{"value": b"after"}])
    c = consumer(t)
    assign_all(c, topic, 1)
    got = read(c, 2)
    equal(got[0].value() == near, True, "the large record's contents")
    equal((got[1].value(), got[1].offset()), (b"after", 1), "the next record")
    c.close()
    t.prove("a record just below message.max.bytes passes, larger ones get MESSAGE_TOO_LARGE and the connection lives on")


@case(CLIENT, "batches of 9 MiB", properties={"message.max.bytes": str(9 << 20)})
def big(t):
    big_topic = t.topic("big", max_message_bytes=9 << 20)
    big = os.urandom(8 << 20)
    produce_all(producer(t, message_max_bytes=64 << 20), big_topic, [{"value": big}, {"value": b"small"}])
    c = consumer(t, fetch_max_bytes=1 << 20, message_max_bytes=1 << 20, max_partition_fetch_bytes=1 << 16,
                 receive_message_max_bytes=64 << 20)
    assign_all(c, big_topic, 1)
    got = read(c, 2)
    equal(got[0].value() == big, True, "the 8 MiB record's contents")
    equal(got[1].value(), b"small", "the record after it")
    c.close()
    t.prove("an 8 MiB record (message.max.bytes=9 MiB) comes through fetch limits of 1 MiB and 64 KiB")


@case(CLIENT, "offsets by time")
def offsets(t):
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import OffsetSpec
    topic = t.topic("time", partitions=2)
    base = int(time.time() * 1000) - 1000000
    for codec in ("none", "gzip"):
        produce_all(producer(t, compression_type=codec, linger_ms=100), topic,
                    [{"partition": 0, "value": b"%d" % i, "timestamp": base + (0 if codec == "none" else 500000) + i * 1000} for i in range(100)])
    c = consumer(t)
    equal(c.get_watermark_offsets(_tp(topic), timeout=WAIT), (0, 200), "watermarks")
    asked = {base - 5: 0, base: 0, base + 1: 1, base + 50000: 50, base + 50001: 51, base + 500000: 100, base + 500000 + 98001: 199}
    for when, expected in asked.items():
        equal(c.offsets_for_times([TopicPartition(topic, 0, when)], timeout=WAIT)[0].offset, expected, f"offset for base + {when - base}")
    equal(c.offsets_for_times([TopicPartition(topic, 0, base + 10**7)], timeout=WAIT)[0].offset, -1, "offset after the last record")

    def listed(spec, partition=0):
        tp = TopicPartition(topic, partition)
        return t.admin.list_offsets({tp: spec})[tp].result(WAIT)
    equal(listed(OffsetSpec.earliest()).offset, 0, "earliest")
    equal(listed(OffsetSpec.latest()).offset, 200, "latest")
    top = listed(OffsetSpec.max_timestamp())
    equal((top.offset, top.timestamp), (199, base + 500000 + 99000), "max timestamp")
    equal(listed(OffsetSpec.latest(), 1).offset, 0, "latest of an empty partition")
    c.close()
    t.prove("ListOffsets: earliest, latest, maximum timestamp, and by time to the record, also inside a compressed batch")


@case(CLIENT, "seek and pause")
def seek(t):
    from confluent_kafka import OFFSET_END
    topic = t.topic("seek", partitions=2)
    produce_all(producer(t, linger_ms=20), topic, [{"partition": i % 2, "value": b"%d" % i} for i in range(400)])
    c = consumer(t)
    assign_all(c, topic, 2)
    read(c, 400)
    c.seek(_tp(topic, 0, 137))
    m = read(c, 1)[0]
    equal((m.partition(), m.offset(), m.value()), (0, 137, b"274"), "after seek")
    read(c, 200 - 138)
    c.pause([_tp(topic, 1)])
    produce_all(producer(t), topic, [{"partition": i % 2, "value": b"p%d" % i} for i in range(20)])
    got = read(c, 10)
    equal({m.partition() for m in got}, {0}, "partitions while 1 is paused")
    check(c.poll(0.7) is None, "a record of a paused partition")
    c.resume([_tp(topic, 1)])
    equal({m.partition() for m in read(c, 10)}, {1}, "partitions after resume")
    equal([p.offset for p in c.position([_tp(topic, 0), _tp(topic, 1)])], [210, 210], "positions")
    c.assign([_tp(topic, 0, OFFSET_END)])
    check(c.poll(1) is None, "a record at the end")
    c.close()
    t.prove("seek inside a batch, pause and resume, position, start at the end")


@case(CLIENT, "offset out of range")
def out_of_range(t):
    from confluent_kafka import KafkaError
    topic = t.topic("oor")
    produce_all(producer(t), topic, [{"value": b"%d" % i} for i in range(10)])
    c = consumer(t)
    c.assign([_tp(topic, 0, 5000)])
    equal(read(c, 1)[0].offset(), 0, "reset to earliest")
    c.close()
    c = consumer(t, auto_offset_reset="error")
    c.assign([_tp(topic, 0, 5000)])
    error = wait_until(lambda: (m := c.poll(0.5)) and m.error(), "an error event")
    equal(error.code(), KafkaError._AUTO_OFFSET_RESET, "error")
    c.close()
    t.prove("a fetch beyond the end: OFFSET_OUT_OF_RANGE, and auto.offset.reset acts on it")


@case(CLIENT, "auto-created topics")
def auto_create(t):
    from confluent_kafka import KafkaError
    topic = t.name("auto")
    c = consumer(t)
    c.subscribe([topic])
    error = wait_until(lambda: (m := c.poll(0.5)) and m.error(), "an error event for the unknown topic")
    equal(error.code(), KafkaError.UNKNOWN_TOPIC_OR_PART, "error")
    c.close()
    produce_all(producer(t), topic, [{"value": b"made"}])
    check(topic in t.admin.list_topics(timeout=WAIT).topics, "topic missing")
    t.prove("a producer's Metadata creates the topic; a consumer's does not and gets UNKNOWN_TOPIC_OR_PARTITION")


@case(CLIENT, "commits")
def commits(t):
    topic, group = t.topic("commit", partitions=2), t.name("g")
    produce_all(producer(t), topic, [{"partition": i % 2, "value": b"%d" % i} for i in range(200)])
    c = consumer(t, group)
    c.subscribe([topic])
    got = read(c, 50)
    at = defaultdict(int)
    for m in got:
        at[m.partition()] = m.offset() + 1
    result = c.commit(asynchronous=False)
    check(all(r.error is None for r in result), "commit errors", result)
    equal({r.partition: r.offset for r in c.committed([_tp(topic, p) for p in at], timeout=WAIT)}, dict(at), "committed offsets")
    c.close()
    c = consumer(t, group, enable_auto_commit=True, auto_commit_interval_ms=200)
    c.subscribe([topic])
    rest = read(c, 150)
    equal(len({m.value() for m in got} | {m.value() for m in rest}), 200, "records read once in all")
    wait_until(lambda: (c.poll(0.1), sum(p.offset for p in c.committed([_tp(topic, 0), _tp(topic, 1)], timeout=WAIT)) == 200)[1],
               "auto-commit of both ends")
    c.close()
    from confluent_kafka import TopicPartition
    tp = TopicPartition(topic, 0, 7, "a note")
    other = consumer(t, t.name("g"))
    other.commit(offsets=[tp], asynchronous=False)
    back = other.committed([_tp(topic, 0), _tp(topic, 1)], timeout=WAIT)
    equal([(b.offset, b.metadata) for b in back][0], (7, "a note"), "stand-alone commit with metadata")
    equal(back[1].offset, -1001, "no offset committed")
    other.close()
    t.prove("synchronous, automatic and stand-alone commits with metadata; a new member goes on where the last one stopped")


class Member:
    """A subscribed consumer that records what the group gave and took."""

    def __init__(self, t, topic, group, **config):
        self.owned, self.assigned, self.revoked, self.lost, self.values = set(), [], [], [], []
        self.incremental = config.get("partition_assignment_strategy") == "cooperative-sticky"
        self.c = consumer(t, group, session_timeout_ms=60000, heartbeat_interval_ms=300, **config)
        self.c.subscribe([topic], on_assign=self._assign, on_revoke=self._revoke, on_lost=self._lose)

    def _assign(self, c, partitions):
        new = {p.partition for p in partitions}
        self.assigned.append(new)
        self.owned = self.owned | new if self.incremental else new

    def _revoke(self, c, partitions):
        gone = {p.partition for p in partitions}
        self.revoked.append(gone)
        self.owned -= gone

    def _lose(self, c, partitions):
        self.lost.append({p.partition for p in partitions})
        self.owned -= {p.partition for p in partitions}

    def poll(self):
        m = self.c.poll(0.05)
        if m is not None:
            check(m.error() is None, "consumer error:", m.error())
            self.values.append(m.value())

    def close(self):
        self.c.close()


def settle(members, condition, what):
    def step():
        for m in members:
            m.poll()
        return condition()
    wait_until(step, lambda: f"{what}: {[(sorted(m.owned), m.assigned, m.revoked) for m in members]}", pause=0)


@case(CLIENT, "group eager")
def group_eager(t):
    for strategy in ("range", "roundrobin"):
        topic, group = t.topic("eager", partitions=6), t.name("g")
        a = Member(t, topic, group, partition_assignment_strategy=strategy)
        settle([a], lambda: len(a.owned) == 6, "one member owns all")
        b = Member(t, topic, group, partition_assignment_strategy=strategy)
        settle([a, b], lambda: len(a.owned) == len(b.owned) == 3 and a.owned.isdisjoint(b.owned), "two members share")
        equal(a.revoked[0], set(range(6)), "eager: everything is revoked first")
        produce_all(producer(t), topic, [{"partition": i % 6, "value": b"%d" % i} for i in range(600)])
        settle([a, b], lambda: len(a.values) + len(b.values) == 600, "all records arrive")
        equal(len(set(a.values) | set(b.values)), 600, "different records")
        b.close()
        settle([a], lambda: len(a.owned) == 6, "the rest goes back when a member leaves")
        a.close()
    t.prove("eager rebalance (range, roundrobin): join, share, all revoked first, leave; 600 records once each")


@case(CLIENT, "group cooperative")
def group_cooperative(t):
    topic, group = t.topic("coop", partitions=6), t.name("g")
    strategy = {"partition_assignment_strategy": "cooperative-sticky"}
    a = Member(t, topic, group, **strategy)
    settle([a], lambda: len(a.owned) == 6, "one member owns all")
    b = Member(t, topic, group, **strategy)
    settle([a, b], lambda: len(a.owned) == len(b.owned) == 3 and a.owned.isdisjoint(b.owned), "two members share")
    equal(sum(len(r) for r in a.revoked), 3, "partitions revoked from the first member")
    equal(b.revoked, [], "revocations of the second member")
    produce_all(producer(t), topic, [{"partition": i % 6, "value": b"%d" % i} for i in range(600)])
    settle([a, b], lambda: len(a.values) + len(b.values) == 600, "all records arrive")
    equal(len(set(a.values) | set(b.values)), 600, "different records")
    kept = set(a.owned)
    b.close()
    settle([a], lambda: len(a.owned) == 6, "the rest goes back when a member leaves")
    check(kept <= a.owned and sum(len(r) for r in a.revoked) == 3, "a kept partition was revoked", a.revoked)
    a.close()
    t.prove("cooperative-sticky rebalance: only the 3 partitions that move are revoked, the others are read on")


@case(CLIENT, "static membership")
def static(t):
    from confluent_kafka import KafkaError, KafkaException
    topic, group = t.topic("static", partitions=4), t.name("g")
    a = Member(t, topic, group, group_instance_id="one")
    b = Member(t, topic, group, group_instance_id="two")
    settle([a, b], lambda: len(a.owned) == len(b.owned) == 2, "two members share")
    # The first member may have owned everything before the second came.
    seen, had = (len(a.assigned), len(a.revoked)), set(b.owned)
    b.close()  # a static member says no farewell
    b = Member(t, topic, group, group_instance_id="two")
    settle([a, b], lambda: len(b.owned) == 2, "the returning member owns again")
    equal(b.owned, had, "partitions of the returning member")
    end = time.monotonic() + 1.5
    settle([a, b], lambda: time.monotonic() > end, "time passes")
    equal((len(a.assigned), len(a.revoked)), seen, "rebalances seen by the other member")
    described = t.admin.describe_consumer_groups([group])[group].result(WAIT)
    equal(sorted(m.group_instance_id for m in described.members), ["one", "two"], "instance ids")
    usurper = Member(t, topic, group, group_instance_id="two")
    def fenced():
        usurper.poll()
        try:
            m = b.c.poll(0.1)
        except KafkaException as e:
            return e.args[0].code() in (KafkaError._FATAL, KafkaError.FENCED_INSTANCE_ID)
        return m is not None and m.error() is not None and m.error().code() in (KafkaError._FATAL, KafkaError.FENCED_INSTANCE_ID)
    wait_until(fenced, "the older of two members with one instance id is fenced", pause=0)
    usurper.close()
    a.close()
    t.prove("static membership: a member comes back to its partitions without a rebalance; a second one with its id fences it")


@case(CLIENT, "session time-out", seconds=10)
def session_timeout(t):
    topic, group = t.topic("session", partitions=4), t.name("g")
    code = ("import sys\nfrom confluent_kafka import Consumer\n"
            "c = Consumer({'bootstrap.servers': sys.argv[1], 'group.id': sys.argv[3], 'session.timeout.ms': 10000, 'heartbeat.interval.ms': 300})\n"
            "c.subscribe([sys.argv[2]], on_assign=lambda c, p: print(len(p), flush=True))\n"
            "while True: c.poll(0.1)\n")
    victim = t.spawn(sys.executable, "-c", code, t.bootstrap, topic, group)
    equal(victim.stdout.readline().strip(), "4", "partitions of the first member")
    a = Member(t, topic, group)
    settle([a], lambda: len(a.owned) == 2, "two members share")
    os.kill(victim.pid, signal.SIGKILL)
    died = time.monotonic()
    settle([a], lambda: len(a.owned) == 4, "the dead member's partitions are given away")
    took = time.monotonic() - died
    check(took > 3, f"given away after {took:.1f} s, before the session ended")
    a.close()
    t.prove("a killed member's partitions are given away when its session of 10 s has ended")


@case(CLIENT, "administration")
def administration(t):
    from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
    from confluent_kafka.admin import (AclBinding, AclBindingFilter, AclOperation, AclPermissionType, AlterConfigOpType,
                                       ConfigEntry, ConfigResource, NewPartitions, NewTopic, ResourcePatternType, ResourceType)
    a = t.admin

    def code(action):
        try:
            action()
        except KafkaException as e:
            return e.args[0].code()
        return None
    topic = t.topic("adm", partitions=2, retention_ms=123456)
    equal(code(lambda: a.create_topics([NewTopic(topic, 1, 1)])[topic].result(WAIT)), KafkaError.TOPIC_ALREADY_EXISTS, "same topic again")
    bad = t.name("bad") + "/"
    equal(code(lambda: a.create_topics([NewTopic(bad, 1, 1)])[bad].result(WAIT)), KafkaError.TOPIC_EXCEPTION, "invalid name")
    dry = t.name("dry")
    a.create_topics([NewTopic(dry, 1, 1)], validate_only=True)[dry].result(WAIT)
    check(dry not in a.list_topics(timeout=WAIT).topics, "validate_only made a topic")
    equal(code(lambda: a.create_topics([NewTopic(dry, 1, 3)])[dry].result(WAIT)), KafkaError.INVALID_REPLICATION_FACTOR, "replication factor 3")
    equal(code(lambda: a.create_topics([NewTopic(dry, 1, 1, config={"no.such": "1"})])[dry].result(WAIT)), KafkaError.INVALID_CONFIG, "unknown config")
    a.create_partitions([NewPartitions(topic, 5)])[topic].result(WAIT)
    wait_until(lambda: len(a.list_topics(topic, timeout=WAIT).topics[topic].partitions) == 5, "5 partitions")
    equal(code(lambda: a.create_partitions([NewPartitions(topic, 3)])[topic].result(WAIT)), KafkaError.INVALID_PARTITIONS, "fewer partitions")
    t.prove("topics: create, validate only, exists, invalid name, config and replication factor, more partitions")

    resource = ConfigResource(ResourceType.TOPIC, topic)

    def config():
        return a.describe_configs([resource])[resource].result(WAIT)
    equal(config()["retention.ms"].value, "123456", "retention.ms")
    equal(config()["cleanup.policy"].value, "delete", "cleanup.policy")
    check(config()["cleanup.policy"].is_default and not config()["retention.ms"].is_default, "is_default")
    change = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[
        ConfigEntry("retention.ms", "777777", incremental_operation=AlterConfigOpType.SET),
        ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND)])
    a.incremental_alter_configs([change])[change].result(WAIT)
    wait_until(lambda: config()["retention.ms"].value == "777777", "the altered config")
    equal(config()["cleanup.policy"].value, "delete,compact", "cleanup.policy after append")
    change = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[
        ConfigEntry("retention.ms", None, incremental_operation=AlterConfigOpType.DELETE),
        ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SUBTRACT)])
    a.incremental_alter_configs([change])[change].result(WAIT)
    wait_until(lambda: config()["retention.ms"].value == "604800000", "the default again")
    wrong = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[
        ConfigEntry("retention.ms", "soon", incremental_operation=AlterConfigOpType.SET)])
    equal(code(lambda: a.incremental_alter_configs([wrong])[wrong].result(WAIT)), KafkaError.INVALID_CONFIG, "a wrong value")
    broker = ConfigResource(ResourceType.BROKER, "1")
    check("log.retention.ms" in a.describe_configs([broker])[broker].result(WAIT), "broker configs")
    t.prove("configs: describe with sources, set, append, subtract, delete, wrong values refused, broker's configs")

    cluster = a.describe_cluster().result(WAIT)
    equal((len(cluster.nodes), cluster.controller.id), (1, cluster.nodes[0].id), "cluster")
    check(cluster.cluster_id, "cluster id")
    described = a.describe_topics(__import__("confluent_kafka").TopicCollection([topic]))[topic].result(WAIT)
    equal(len(described.partitions), 5, "described partitions")
    t.prove("DescribeCluster, DescribeTopics with topic ids")

    produce_all(producer(t), topic, [{"partition": 0, "value": b"%d" % i} for i in range(100)])
    done = a.delete_records([TopicPartition(topic, 0, 40)])
    equal([f.result(WAIT).low_watermark for f in done.values()], [40], "low watermark")
    c = consumer(t)
    equal(c.get_watermark_offsets(_tp(topic), timeout=WAIT), (40, 100), "watermarks")
    assign_all(c, topic, 1)
    equal(read(c, 60)[0].offset(), 40, "first offset after DeleteRecords")
    c.close()
    equal(code(lambda: [f.result(WAIT) for f in a.delete_records([TopicPartition(topic, 0, 5000)]).values()]),
          KafkaError.OFFSET_OUT_OF_RANGE, "DeleteRecords beyond the end")
    t.prove("DeleteRecords moves the log start; beyond the end is OFFSET_OUT_OF_RANGE")

    group = t.name("g")
    m = Member(t, topic, group)
    settle([m], lambda: len(m.owned) == 5 and len(m.values) == 60, "the member reads")
    m.c.commit(asynchronous=False)
    g = a.describe_consumer_groups([group])[group].result(WAIT)
    equal((g.state.name, len(g.members), g.partition_assignor), ("STABLE", 1, "range"), "described group")
    equal(len(g.members[0].assignment.topic_partitions), 5, "described assignment")
    check(group in {x.group_id for x in a.list_consumer_groups().result(WAIT).valid}, "group not listed")
    equal(code(lambda: a.delete_consumer_groups([group])[group].result(WAIT)), KafkaError.NON_EMPTY_GROUP, "delete of a live group")
    m.close()
    wait_until(lambda: a.describe_consumer_groups([group])[group].result(WAIT).state.name == "EMPTY", "an empty group")
    offsets = a.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(WAIT)
    equal({p.partition: p.offset for p in offsets.topic_partitions}.get(0), 100, "group's offset")
    a.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 55)])])[group].result(WAIT)
    offsets = a.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(WAIT)
    equal({p.partition: p.offset for p in offsets.topic_partitions}[0], 55, "altered offset")
    a.delete_consumer_groups([group])[group].result(WAIT)
    equal(code(lambda: a.delete_consumer_groups([group])[group].result(WAIT)), KafkaError.GROUP_ID_NOT_FOUND, "delete again")
    t.prove("groups: list, describe, list, alter offsets, NON_EMPTY_GROUP, delete")

    acl = AclBinding(ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, "User:x", "*", AclOperation.READ, AclPermissionType.ALLOW)
    equal(code(lambda: [f.result(WAIT) for f in a.create_acls([acl]).values()]), KafkaError.SECURITY_DISABLED, "CreateAcls")
    some = AclBindingFilter(ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY)
    equal(code(lambda: [f.result(WAIT) for f in a.delete_acls([some]).values()]), KafkaError.SECURITY_DISABLED, "DeleteAcls")
    equal(a.describe_user_scram_credentials().result(WAIT), {}, "SCRAM users")
    t.prove("no authorizer: ACL requests get SECURITY_DISABLED; no SCRAM users")

    a.delete_topics([topic])[topic].result(WAIT)
    wait_until(lambda: topic not in a.list_topics(timeout=WAIT).topics, "the topic is gone")
    equal(code(lambda: a.delete_topics([topic])[topic].result(WAIT)), KafkaError.UNKNOWN_TOPIC_OR_PART, "delete again")
    t.prove("topics: delete, and UNKNOWN_TOPIC_OR_PARTITION afterwards")


@case(CLIENT, "recreated topic")
def recreated(t):
    from confluent_kafka import TopicCollection
    from confluent_kafka.admin import NewTopic
    topic = t.topic("again")
    first = t.admin.describe_topics(TopicCollection([topic]))[topic].result(WAIT).topic_id
    p = producer(t)
    produce_all(p, topic, [{"value": b"old %d" % i} for i in range(10)])
    t.admin.delete_topics([topic])[topic].result(WAIT)
    wait_until(lambda: topic not in t.admin.list_topics(timeout=WAIT).topics, "the topic is gone")

    def make():
        try:
            t.admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(WAIT)
            return True
        except Exception:
            return False
    wait_until(make, "the topic is made again")
    wait_until(lambda: topic in t.admin.list_topics(timeout=WAIT).topics, "the topic is there again")
    second = t.admin.describe_topics(TopicCollection([topic]))[topic].result(WAIT).topic_id
    check(str(first) != str(second), "the same topic id twice", first)
    produce_all(producer(t), topic, [{"value": b"new"}])
    c = consumer(t)
    assign_all(c, topic, 1)
    m = read(c, 1)[0]
    equal((m.value(), m.offset()), (b"new", 0), "first record of the new topic")
    c.close()
    t.prove("a topic deleted and made again has a new id and starts at offset 0")
