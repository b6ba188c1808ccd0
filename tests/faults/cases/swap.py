"""Folders that change hands: weir, Apache Kafka 4.4.0 and 3.9.2, with idempotent producers and transactions."""

import re
import subprocess

import brokers
import wire
from kit import Failed, case, check, equal, wait_until
from weir import Weir, admin, files_of, fill, read_all, topic_of


class Hands:
    """One data directory, one server on it at a time."""

    def __init__(self, test, first, more=()):
        self.test, self.count, self.broker = test, 0, None
        self.data = test.scratch / "data"
        self.log_dirs = ",".join(map(str, (self.data, *more)))
        self.take(first)

    def take(self, kind):
        if self.broker and self.broker.process.poll() is None:
            equal(self.broker.stop() in (0, 143), True, f"clean stop of {self.broker.kind}")
        self.count += 1
        if kind == "weir":
            self.broker = Weir(self.test, f"{self.count}-weir", data=self.data, overrides={"log.dirs": self.log_dirs})
        else:
            # Features at the level that weir serves, too.
            self.broker = brokers.Broker(kind, self.test.scratch / f"{self.count}-{kind}", {"log.dirs": self.log_dirs},
                                         heap="256m", java_options=["-XX:TieredStopAtLevel=1"],
                                         format_options=["--release-version", "3.9"])
        return self.broker


def epochs(data, topic):
    return [tuple(map(int, line.split())) for line in
            (data / f"{topic}-0" / "leader-epoch-checkpoint").read_text().splitlines()[2:]]


def exchange(test, kafka):
    hands = Hands(test, "weir")
    server = hands.broker
    topic = topic_of(test, server, partitions=2, **{"segment.bytes": 1 << 20})
    records = fill(server, topic, 250, 10_000)
    one = wire.Wire(server.bootstrap)
    producer, epoch = one.new_producer()
    batch = lambda n: wire.batch([b"n%d" % n], producer=(producer, epoch, n))
    for n in range(5):
        equal(one.produce(topic, 1, batch(n)), (0, n), "a batch of the idempotent producer")
    wait_until(lambda: one.find_coordinator("group") == 0, "a coordinator")
    wait_until(lambda: one.commit("group", topic, 0, 111) == 0, "a commit")
    cluster = admin(server).list_topics(timeout=60).cluster_id

    sent = 5
    last_epoch = -1
    for turn, kind in enumerate((kafka, "weir", kafka, "weir")):
        server = hands.take(kind)
        equal(admin(server).list_topics(timeout=60).cluster_id, cluster, f"cluster id on {kind}")
        one = wire.Wire(server.bootstrap)
        equal(one.produce(topic, 1, batch(sent - 1)), (0, sent - 1), f"the last batch, sent again to {kind}")
        equal(one.produce(topic, 1, batch(sent)), (0, sent), f"the next batch on {kind}")
        sent += 1
        records += fill(server, topic, 40, 10_000, first=len(records))
        equal(read_all(server, topic), records, f"records on {kind}")
        equal(one.offset_for(topic, 0, wire.TIME + 200), (0, 200), f"offset by time on {kind}")
        wait_until(lambda: wire.Wire(server.bootstrap).committed("group", topic, 0) == (0, 111), f"the commit on {kind}")
        entries = epochs(hands.data, topic)
        check(entries and entries[-1][0] >= last_epoch and entries == sorted(entries), f"leader epochs on {kind}: {entries}")
        last_epoch = entries[-1][0]
    server.kill()
    for snapshot in (hands.data / f"{topic}-1").glob("*.snapshot"):
        snapshot.unlink()
    server.start()
    equal(server.wire().produce(topic, 1, batch(sent - 1)), (0, sent - 1), "the last batch, sent again, without snapshots")
    equal(read_all(server, topic), records, "records after kill -9")
    # The other way: kill -9 here, then Kafka.
    server.kill()
    server = hands.take(kafka)
    equal(read_all(server, topic), records, f"records on {kafka} after kill -9 of weir")
    equal(wire.Wire(server.bootstrap).produce(topic, 1, batch(sent - 1)), (0, sent - 1), f"sent again to {kafka}")
    equal(server.stop() in (0, 143), True, "clean stop")
    test.prove(f"weir, {kafka}, weir, {kafka}, weir, kill -9, {kafka}: the same records, offsets, times, epochs, commit and "
               "cluster; the last batch of the idempotent producer is recognised each time, also without .snapshot")


@case("swap", "weir and Kafka 4.4.0", seconds=45)
def with_4_4(test):
    exchange(test, "kafka-4.4.0")


@case("swap", "weir and Kafka 3.9.2", seconds=45)
def with_3_9(test):
    exchange(test, "kafka-3.9.2")


@case("swap", "transactions that Kafka wrote", seconds=45)
def transactions(test):
    from confluent_kafka import Producer
    hands = Hands(test, "kafka-4.4.0")
    server = hands.broker
    topic = topic_of(test, server, **{"segment.bytes": 1 << 20})
    expected, number = [], 0
    producers = []
    for n in range(2):
        producers.append(Producer({"bootstrap.servers": server.bootstrap, "transactional.id": f"{topic}-{n}",
                                   "batch.num.messages": 1, "linger.ms": 0}))
        producers[-1].init_transactions(120)
    for turn in range(40):
        producer = producers[turn % 2]
        producer.begin_transaction()
        values = [(b"%05d " % (number + n)).ljust(30_000, b"t") for n in range(3)]
        number += 3
        for value in values:
            producer.produce(topic, value, partition=0)
        producer.flush(120)
        if turn % 3 == 0:
            producer.abort_transaction(120)
        else:
            producer.commit_transaction(120)
            expected += values
    everything = read_all(server, topic)
    equal([v for _, v in read_all(server, topic, committed=True)], expected, "committed records on Kafka")
    server = hands.take("weir")
    indexes = sorted((hands.data / f"{topic}-0").glob("*.txnindex"))
    indexes = [file for file in indexes if file.stat().st_size]
    check(len(indexes) >= 3 and len(server.segments(topic)) >= 4, "too few segments and transaction indexes")

    def the_same(what):
        equal(read_all(server, topic), everything, f"all records, {what}")
        equal([v for _, v in read_all(server, topic, committed=True)], expected, f"committed records, {what}")
    the_same("as Kafka left them")
    good = {file: file.read_bytes() for file in indexes}
    for damage, harm in (("short", lambda data: data[:-5]), ("zeros", lambda data: b"\0" * len(data)),
                         ("unknown version", lambda data: b"\0\7" + data[2:]), ("missing", None)):
        equal(server.stop(), 0, "exit code")
        for file, data in good.items():
            file.unlink()
            if harm:
                file.write_bytes(harm(data))
        server.start()
        if harm is None:
            # No file says that nothing was aborted: only the scrub, which begins with the server, can know better.
            wait_until(lambda: all(file.exists() for file in good), "the scrub has rebuilt them")
        the_same(damage)
        equal({file: file.read_bytes() for file in good}, good, f"transaction indexes, {damage}")
    for file in good:
        file.unlink()
    server.kill()
    server.start()
    wait_until(lambda: all(file.exists() for file in good), "rebuilt after kill -9")
    the_same("after kill -9 without any")
    server = hands.take("kafka-4.4.0")
    the_same("back on Kafka")
    test.prove(f"{len(everything)} records of 40 transactions: readers of committed records get those of the 26 committed "
               "ones; .txnindex short, zero, of unknown version or missing is rebuilt byte for byte; Kafka reads on")


@case("swap", "several directories", seconds=40)
def several_directories(test):
    more = test.scratch / "more"
    hands = Hands(test, "weir", more=[more])
    topics, records = [], {}

    def fill_new(kind):
        topics.append(topic_of(test, hands.broker, kind, partitions=4))
        for partition in range(4):
            records[topics[-1], partition] = fill(hands.broker, topics[-1], 20, partition=partition)

    def the_same(kind):
        for (topic, partition), expected in records.items():
            equal(read_all(hands.broker, topic, partition), expected, f"{topic}-{partition} on {kind}")
            places = [d for d in (hands.data, more) if (d / f"{topic}-{partition}").is_dir()]
            equal(len(places), 1, f"directories of {topic}-{partition} on {kind}")
    fill_new("weir")
    for kind in ("kafka-4.4.0", "weir", "kafka-4.4.0"):
        hands.take(kind)
        the_same(kind)
        fill_new(kind)
    check(all(len(list(d.glob(f"{topic}-[0-9]"))) == 2 for d in (hands.data, more) for topic in topics),
          "partitions are not spread over the directories")
    server = hands.take("weir")
    the_same("weir")
    server.stop()
    away = test.scratch / "away"
    more.rename(away)
    server.start()
    check(server.said("ERROR", "a log directory is missing"), "nothing is said")
    out = {(t, p) for t, p in records if (away / f"{t}-{p}").is_dir()}
    for topic, partition in out:
        equal(server.wire().produce(topic, partition, wire.batch([b"x"]))[0], wire.STORAGE, "error of an append")
    server.stop()
    away.rename(more)
    hands.take("kafka-4.4.0")
    the_same("Kafka, after a start of weir without the second directory")
    test.prove("each lets the partitions be where the other put them, by the directory ids in the metadata log; after a start "
               "of weir without one of the directories Kafka serves all")


@case("swap", "as Kafka's storage tool formats it", seconds=60)
def dynamic_quorum(test):
    """With `--standalone` and `controller.quorum.bootstrap.servers`, as Kafka's quick start does: the voters are in the log."""
    data, ports = test.scratch / "data", (brokers.free_port(), brokers.free_port())
    options = {"ports": ports, "dynamic_quorum": True}
    # So that each start leaves a snapshot, which must hold the voters.
    snapshots = {"metadata.log.max.record.bytes.between.snapshots": "1000"}
    tool = lambda kind, broker, *arguments: subprocess.run(
        [*brokers.java_command(kind), "org.apache.kafka.tools.FeatureCommand", "--bootstrap-server", broker.bootstrap,
         *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL)

    def kafka(number):
        return brokers.Broker("kafka-4.4.0", test.scratch / f"{number}-kafka", {"log.dirs": str(data)}, heap="256m",
                              java_options=["-XX:TieredStopAtLevel=1"], format_options=["--standalone"], **options)
    server = kafka(1)
    topics = [topic_of(test, server, "kafka")]
    records = fill(server, topics[0], 100)
    check(server.stop() in (0, 143), "clean stop of Kafka")
    before = files_of(data)
    try:
        Weir(test, "refused", data=data, overrides=snapshots, **options)
        raise Failed("features that are not served were accepted")
    except SystemExit as e:
        said = str(e)
    told = re.search(r"downgrade( --feature [a-z.]+=0)+", said)
    check(told and "group.version at level 1" in said, said)
    equal({k: v for k, v in files_of(data).items() if k != ".lock"}, {k: v for k, v in before.items() if k != ".lock"}, "files")
    test.prove("the features of a 4.4 that weir does not serve: refused, not one byte changed")
    server.start()
    done = tool("4.4.0", server, *told.group().split())
    check(done.returncode == 0, done.stdout + done.stderr)
    check(server.stop() in (0, 143), "clean stop of Kafka")
    for turn in range(2):
        server = Weir(test, f"weir-{turn}", data=data, overrides=snapshots, **options)
        equal(read_all(server, topics[0]), records, "records on weir")
        for _ in range(8):
            topics.append(topic_of(test, server, "weir"))
        wait_until(lambda: list((data / "__cluster_metadata-0").glob("*[1-9]*-*.checkpoint")), "a snapshot")
        equal(server.stop(), 0, "exit code")
        server = kafka(2 + turn)
        equal(read_all(server, topics[0]), records, "records on Kafka")
        found = set(admin(server).list_topics(timeout=60).topics)
        check(found >= set(topics), f"topics that are lost: {set(topics) - found}")
        topics.append(topic_of(test, server, "kafka"))
        check(server.stop() in (0, 143), "clean stop of Kafka")
    test.prove("with the features taken back as the message says: weir, kafka, weir, kafka on snapshots of weir, every topic "
               "and record there")
    data = test.scratch / "ours"
    server = Weir(test, "ours", data=data, **options)
    topic = topic_of(test, server)
    records = fill(server, topic, 100)
    equal(server.stop(), 0, "exit code")
    server = kafka(9)
    equal(read_all(server, topic), records, "records of a directory that weir formatted, on Kafka")
    check(server.stop() in (0, 143), "clean stop of Kafka")
    test.prove("a directory that weir formats for a file with controller.quorum.bootstrap.servers serves Kafka with that file")
