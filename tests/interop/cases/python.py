"""kafka-python and aiokafka."""

import asyncio
import threading
import time

from kit import CODECS, WAIT, case, check, equal, wait_until


def sent_records(count):
    return [(b"k%d" % (i % 20) if i % 11 else None, None if i % 17 == 3 and i % 11 else b"%d " % i + b"w" * (i % 150),
             [("i", b"%d" % i), ("empty", b"")], 1_700_000_000_000 + i) for i in range(count)]


def check_records(got, sent, what):
    """got: (key, value, headers, timestamp, partition, offset)"""
    equal(len(got), len(sent), f"{what}: records")
    last, offsets = {}, {}
    for key, value, headers, timestamp, partition, offset in got:
        i = int(headers[0][1])
        k, v, h, ts = sent[i]
        equal((key, value, [tuple(x) for x in headers], timestamp), (k, v, h, ts), f"{what}: record {i}")
        if k is not None:
            check(last.get(k, -1) < i, f"{what}: key {k}: {i} after {last.get(k)}")
            last[k] = i
        equal(offset, offsets.get(partition, 0), f"{what}: offset in partition {partition}")
        offsets[partition] = offset + 1


@case("kafka-python", "round trip")
def kp_round_trip(t):
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition
    for codec in CODECS:
        topic = t.topic("kp", partitions=3)
        p = KafkaProducer(bootstrap_servers=t.bootstrap, acks="all", linger_ms=20, compression_type=None if codec == "none" else codec)
        sent = sent_records(1000)
        futures = [p.send(topic, key=k, value=v, headers=h, timestamp_ms=ts) for k, v, h, ts in sent]
        p.flush(WAIT)
        for f in futures:
            check(f.get(WAIT).offset >= 0, "no offset")
        p.close()
        c = KafkaConsumer(bootstrap_servers=t.bootstrap, auto_offset_reset="earliest", enable_auto_commit=False, consumer_timeout_ms=WAIT * 1000)
        c.assign([TopicPartition(topic, n) for n in range(3)])
        got = []
        for m in c:
            got.append((m.key, m.value, m.headers, m.timestamp, m.partition, m.offset))
            if len(got) == len(sent):
                break
        c.close()
        check_records(got, sent, codec)
    t.prove(f"1,000 records on 3 partitions with null keys and values, headers, timestamps, order per key, with {', '.join(CODECS)}")


@case("kafka-python", "offsets and limits")
def kp_offsets(t):
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.errors import MessageSizeTooLargeError
    topic = t.topic("kp")
    p = KafkaProducer(bootstrap_servers=t.bootstrap, max_request_size=32 << 20, compression_type="gzip", linger_ms=50)
    for i in range(100):
        p.send(topic, b"%d" % i, timestamp_ms=1_700_000_000_000 + i * 1000)
    p.flush(WAIT)
    p.close()
    import os
    p = KafkaProducer(bootstrap_servers=t.bootstrap, max_request_size=32 << 20, retries=0)
    try:
        p.send(topic, os.urandom(3 << 20)).get(WAIT)
        check(False, "3 MiB were taken")
    except MessageSizeTooLargeError:
        pass
    equal(p.send(topic, b"after").get(WAIT).offset, 100, "offset after the refusal")
    p.close()
    c = KafkaConsumer(bootstrap_servers=t.bootstrap, enable_auto_commit=False)
    tp = TopicPartition(topic, 0)
    c.assign([tp])
    equal(c.beginning_offsets([tp])[tp], 0, "beginning")
    equal(c.end_offsets([tp])[tp], 101, "end")
    found = c.offsets_for_times({tp: 1_700_000_000_000 + 33_500})[tp]
    equal((found.offset, found.timestamp), (34, 1_700_000_034_000), "offsets_for_times")
    c.seek(tp, 60)
    first = wait_until(lambda: [m for ms in c.poll(500).values() for m in ms], "records after seek")[0]
    equal((first.offset, first.value), (60, b"60"), "first record after seek")
    c.pause(tp)
    equal(c.poll(700), {}, "records while paused")
    c.resume(tp)
    c.seek(tp, 99)
    got = wait_until(lambda: [m for ms in c.poll(500).values() for m in ms], "records after resume")
    equal(got[0].offset, 99, "first record after resume")
    c.close()
    t.prove("beginning, end and by-time offsets, seek, pause, resume; MESSAGE_TOO_LARGE, then the producer goes on")


@case("kafka-python", "groups")
def kp_groups(t):
    from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer, TopicPartition
    topic, group = t.topic("kp", partitions=4), t.name("g")

    class Member(ConsumerRebalanceListener):
        def __init__(self, **config):
            self.seen, self.revoked, self.stop, self.error = [], 0, False, None
            self.owned = set()
            self.c = KafkaConsumer(bootstrap_servers=t.bootstrap, group_id=group, auto_offset_reset="earliest",
                                   session_timeout_ms=60000, heartbeat_interval_ms=300, enable_auto_commit=False, **config)
            self.c.subscribe([topic], listener=self)
            self.thread = threading.Thread(target=self.run, daemon=True)
            self.thread.start()

        def on_partitions_assigned(self, assigned):
            self.owned |= {p.partition for p in assigned}

        def on_partitions_revoked(self, revoked):
            self.revoked += len(revoked)
            self.owned -= {p.partition for p in revoked}

        def run(self):
            try:
                while not self.stop:
                    got = self.c.poll(50)
                    for ms in got.values():
                        self.seen += [m.value for m in ms]
                    if got:
                        self.c.commit()
            except Exception as e:
                self.error = e
            self.c.close()

        def leave(self):
            self.stop = True
            self.thread.join(WAIT)
            check(self.error is None, "member failed:", repr(self.error))
    a = Member()
    wait_until(lambda: len(a.owned) == 4, "one owns all")
    b = Member()
    wait_until(lambda: len(a.owned) == len(b.owned) == 2, "two share")
    check(a.revoked >= 2, "revocations", a.revoked)
    p = KafkaProducer(bootstrap_servers=t.bootstrap)
    for i in range(400):
        p.send(topic, b"%d" % i, partition=i % 4)
    p.close()
    wait_until(lambda: len(a.seen) + len(b.seen) == 400, "400 records")
    equal(len(set(a.seen + b.seen)), 400, "different records")
    b.leave()
    wait_until(lambda: len(a.owned) == 4, "the rest comes back")
    a.leave()
    c = KafkaConsumer(bootstrap_servers=t.bootstrap, group_id=group)
    equal(sum(c.committed(TopicPartition(topic, n)) for n in range(4)), 400, "committed")
    c.close()
    t.prove("group: join, share, leave, 400 records once each, commits kept")


@case("kafka-python", "administration")
def kp_admin(t):
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewPartitions, NewTopic
    from kafka.errors import KafkaError
    a = KafkaAdminClient(bootstrap_servers=t.bootstrap)
    topic, group = t.name("kp"), t.name("g")
    a.create_topics([NewTopic(topic, 2, 1, topic_configs={"retention.ms": "77777"})])
    wait_until(lambda: topic in a.list_topics(), "the topic")
    try:
        a.create_topics([NewTopic(topic, 2, 1)])
        check(False, "the same topic twice")
    except KafkaError as e:
        check("TopicAlreadyExists" in type(e).__name__ or "TopicAlreadyExists" in str(e), repr(e))
    a.create_partitions({topic: NewPartitions(3)})
    described = str(a.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)]))
    check("77777" in described, described[:500])
    p = KafkaProducer(bootstrap_servers=t.bootstrap)
    for i in range(30):
        p.send(topic, b"%d" % i, partition=0)
    p.close()
    c = KafkaConsumer(topic, bootstrap_servers=t.bootstrap, group_id=group, auto_offset_reset="earliest", consumer_timeout_ms=WAIT * 1000,
                      enable_auto_commit=False)
    for n, _ in enumerate(c):
        if n == 29:
            break
    c.commit()
    c.close()
    check(group in str(a.list_groups() if hasattr(a, "list_groups") else a.list_consumer_groups()), "group not listed")
    a.delete_records({TopicPartition(topic, 0): 12})
    c = KafkaConsumer(bootstrap_servers=t.bootstrap)
    equal(c.beginning_offsets([TopicPartition(topic, 0)])[TopicPartition(topic, 0)], 12, "log start")
    c.close()
    a.delete_topics([topic])
    wait_until(lambda: topic not in a.list_topics(), "the topic is gone")
    a.close()
    t.prove("topics with configs, partitions, group listing, DeleteRecords, delete")


def run_async(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 2 * WAIT))


@case("aiokafka", "round trip")
def aio_round_trip(t):
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

    async def main():
        for codec in CODECS:
            topic = t.topic("aio", partitions=3)
            sent = sent_records(1000)
            async with AIOKafkaProducer(bootstrap_servers=t.bootstrap, enable_idempotence=True, linger_ms=20,
                                        compression_type=None if codec == "none" else codec) as p:
                futures = [await p.send(topic, key=k, value=v, headers=h, timestamp_ms=ts) for k, v, h, ts in sent]
                for f in futures:
                    check((await f).offset >= 0, "no offset")
            c = AIOKafkaConsumer(bootstrap_servers=t.bootstrap, enable_auto_commit=False, auto_offset_reset="earliest")
            await c.start()
            c.assign([TopicPartition(topic, n) for n in range(3)])
            got = []
            while len(got) < len(sent):
                for ms in (await c.getmany(timeout_ms=WAIT * 1000)).values():
                    check(ms, "no record came")
                    got += [(m.key, m.value, list(m.headers), m.timestamp, m.partition, m.offset) for m in ms]
            await c.stop()
            check_records(got, sent, codec)
    run_async(main())
    t.prove(f"idempotent producer, 1,000 records on 3 partitions with null keys and values, headers, timestamps, order per key, with {', '.join(CODECS)}")


@case("aiokafka", "groups")
def aio_groups(t):
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
    topic, group = t.topic("aio", partitions=4), t.name("g")

    class Member(ConsumerRebalanceListener):
        def __init__(self):
            self.owned, self.revoked, self.seen = set(), 0, []

        async def start(self):
            self.c = AIOKafkaConsumer(bootstrap_servers=t.bootstrap, group_id=group, auto_offset_reset="earliest",
                                      session_timeout_ms=60000, heartbeat_interval_ms=300, enable_auto_commit=False)
            self.c.subscribe([topic], listener=self)
            await self.c.start()
            self.task = asyncio.create_task(self.run())

        def on_partitions_assigned(self, assigned):
            self.owned |= {p.partition for p in assigned}

        def on_partitions_revoked(self, revoked):
            self.revoked += len(revoked)
            self.owned -= {p.partition for p in revoked}

        async def run(self):
            async for m in self.c:
                self.seen.append(m.value)
                await self.c.commit({TopicPartition(m.topic, m.partition): m.offset + 1})

        async def leave(self):
            await self.c.stop()
            self.task.cancel()

    async def until(condition, what):
        end = time.monotonic() + WAIT
        while not condition():
            check(time.monotonic() < end, "not in time:", what)
            await asyncio.sleep(0.05)

    async def main():
        a, b = Member(), Member()
        await a.start()
        await until(lambda: len(a.owned) == 4, "one owns all")
        await b.start()
        await until(lambda: len(a.owned) == len(b.owned) == 2, "two share")
        async with AIOKafkaProducer(bootstrap_servers=t.bootstrap) as p:
            for i in range(200):
                await p.send(topic, b"%d" % i, partition=i % 4)
        await until(lambda: len(a.seen) + len(b.seen) == 200, "200 records")
        equal(len(set(a.seen + b.seen)), 200, "different records")
        await b.leave()
        await until(lambda: len(a.owned) == 4, "the rest comes back")
        total = 0
        for n in range(4):
            total += await a.c.committed(TopicPartition(topic, n))
        await a.leave()
        equal(total, 200, "committed")
    run_async(main())
    t.prove("group: join, share, leave, 200 records once each, every offset committed")


@case("aiokafka", "offsets and administration")
def aio_admin(t):
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
    from aiokafka.admin import AIOKafkaAdminClient, NewTopic
    topic = t.name("aio")

    async def main():
        a = AIOKafkaAdminClient(bootstrap_servers=t.bootstrap)
        await a.start()
        await a.create_topics([NewTopic(topic, 2, 1)])
        async with AIOKafkaProducer(bootstrap_servers=t.bootstrap, compression_type="lz4", linger_ms=50) as p:
            futures = [await p.send(topic, b"%d" % i, partition=1, timestamp_ms=1_700_000_000_000 + i * 1000) for i in range(100)]
            await asyncio.gather(*futures)
        c = AIOKafkaConsumer(bootstrap_servers=t.bootstrap)
        await c.start()
        tp = TopicPartition(topic, 1)
        c.assign([tp])
        equal((await c.beginning_offsets([tp]))[tp], 0, "beginning")
        equal((await c.end_offsets([tp]))[tp], 100, "end")
        equal((await c.offsets_for_times({tp: 1_700_000_000_000 + 20_500}))[tp].offset, 21, "by time")
        c.seek(tp, 55)
        equal((await asyncio.wait_for(c.getone(), WAIT)).value, b"55", "after seek")
        await c.stop()
        check(topic in await a.list_topics(), "topic not listed")
        described = await a.describe_topics([topic])
        equal(len(described[0]["partitions"]), 2, "described partitions")
        await a.delete_topics([topic])
        end = time.monotonic() + WAIT
        while topic in await a.list_topics():
            check(time.monotonic() < end, "the topic is still there")
            await asyncio.sleep(0.1)
        await a.close()
    run_async(main())
    t.prove("beginning, end and by-time offsets, seek; create, list, describe and delete topics")
