"""The load of the kill loops, and the ledger of what the broker has answered.

Every worker is a thread that outlives the broker's deaths: librdkafka producers (idempotent ones, and plain ones with
retries), the members of a group that commit, and one that administers through raw frames. Whatever was answered goes
into the ledger, whatever was not may have happened or not."""

import random
import threading
import time
from array import array
from types import SimpleNamespace

from frames import Client, Failure, Unanswered, batch

# Partitions of the topics that the producers fill: what a record of each is called and how the topic is configured.
TOPICS = {
    "plain": (4, {}),
    "rolling": (3, {"segment.bytes": str(1 << 20), "index.interval.bytes": "512"}),
    "trimmed": (3, {"segment.bytes": str(1 << 20), "file.delete.delay.ms": "500"}),
    "flushed": (1, {"flush.messages": "1"}),
    "stamped": (2, {"message.timestamp.type": "LogAppendTime", "segment.bytes": str(1 << 20)}),
}
TRIMMED = "trimmed"
PARTITIONS = [(topic, index) for topic, (count, _) in TOPICS.items() for index in range(count)]
GROUP, SIMPLE_GROUP = "crash-members", "crash-simple"
PROBE = ("probe", 0)

NO_ANSWER, NO_OFFSET = -2, -1
IDEMPOTENT, ORDERED, FREE = "idempotent", "ordered", "free"
PRODUCERS = [
    (IDEMPOTENT, {"enable.idempotence": True, "compression.type": "lz4"}),
    (IDEMPOTENT, {"enable.idempotence": True, "linger.ms": 0}),
    (IDEMPOTENT, {"enable.idempotence": True, "compression.type": "zstd", "linger.ms": 20}),
    (IDEMPOTENT, {"enable.idempotence": True, "compression.type": "snappy", "max.in.flight": 1}),
    (ORDERED, {"acks": "all", "max.in.flight": 1}),
    (ORDERED, {"acks": 1, "max.in.flight": 1, "compression.type": "gzip"}),
    (FREE, {"acks": 1, "max.in.flight": 5}),
    (FREE, {"acks": "all", "max.in.flight": 5, "linger.ms": 0}),
]
RECORDS_PER_SECOND = 700  # of each producer, but in a rush

# Lengths of what follows the 16 bytes of a record's name: mostly small, some of many pages.
_SIZES = random.Random(1)
LENGTHS = [_SIZES.choice((0, 10, 60, 100, 200, 400)) for _ in range(1021)]
for _at in range(8):
    LENGTHS[_at * 127] = (5_000, 20_000, 9_000, 70_000, 5_000, 30_000, 120_000, 400_000)[_at]
FILLER = bytes(_SIZES.getrandbits(8) for _ in range(500_000))


def value_of(producer, at, sequence):
    """What record `sequence` of a producer for the partition number `at` says."""
    length = LENGTHS[(sequence * 31 + producer * 17 + at) % len(LENGTHS)]
    start = (sequence * 7 + producer) % 90_000
    return b"%03d%03d%010d" % (producer, at, sequence) + FILLER[start:start + length]


def name_in(value):
    """(producer, partition number, sequence) of a record."""
    return int(value[:3]), int(value[3:6]), int(value[6:16])


class Ledger:
    """What was answered. `acked[producer][partition][sequence]` is an offset, NO_OFFSET or NO_ANSWER."""

    def __init__(self, directory):
        self.directory = directory
        self.lock = threading.RLock()
        self.acked = [[array("q") for _ in PARTITIONS] for _ in PRODUCERS]
        self.counts = dict.fromkeys(("acked", "without offset", "commits", "simple commits", "trims", "created", "deleted",
                                     "configs", "partitions added", "producer ids", "unanswered", "probes"), 0)
        self.commits = {}         # (group, topic, partition): highest offset of an answered commit
        self.trims = {}           # (topic, partition): highest low watermark that was answered
        self.trims_asked = {}     # the same: highest offset that was asked for
        self.producer_ids = set()
        self.names = {}           # name of a topic that comes and goes: [states that it may be in]
        self.broker_config = [{}]  # the same for the broker's own
        self.probes = []          # (offset, value)
        self.failures = []

    def fail(self, text):
        with self.lock:
            if len(self.failures) < 50 and text not in self.failures:
                self.failures.append(text)
                print(f"       BROKEN: {text}", flush=True)

    def count(self, what, by=1):
        with self.lock:
            self.counts[what] += by


class Worker(threading.Thread):
    """A thread that can be told to pause: paused, it has nothing under way with the broker."""

    def __init__(self, ledger, name):
        super().__init__(name=name, daemon=True)
        self.ledger, self.stopped, self.turn = ledger, threading.Event(), threading.Lock()

    def run(self):
        try:
            while not self.stopped.is_set():
                with self.turn:
                    self.step()
                self.between()
            self.end()
        except Failure as e:
            self.ledger.fail(f"{self.name}: {e}")
        except Exception as e:  # a fault of the test itself must not pass for a quiet broker
            import traceback
            self.ledger.fail(f"{self.name}: {traceback.format_exc()}")

    def between(self):
        time.sleep(0.001)

    def end(self):
        pass


COMMON = {"log_level": 0, "reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 100, "socket.timeout.ms": 20000,
          "topic.metadata.refresh.interval.ms": 2000, "allow.auto.create.topics": False}


class Producing(Worker):
    def __init__(self, ledger, bootstrap, number, seed):
        self.guarantee, settings = PRODUCERS[number]
        super().__init__(ledger, f"producer {number} ({self.guarantee})")
        from confluent_kafka import Producer
        self.number, self.random = number, random.Random(f"{seed} {number}")
        self.sent = [0] * len(PARTITIONS)
        self.holding = self.rushing = False
        self.client = Producer({**COMMON, "bootstrap.servers": bootstrap, "linger.ms": 5, **settings,
                                "message.timeout.ms": 600_000, "retry.backoff.ms": 20, "retry.backoff.max.ms": 200,
                                "message.send.max.retries": 1_000_000, "queue.buffering.max.messages": 1500,
                                "error_cb": self.on_error})

    def on_error(self, error):
        if error.fatal():
            self.ledger.fail(f"{self.name}: fatal: {error}")

    def delivered(self, at, sequence):
        acked = self.ledger.acked[self.number][at]

        def note(error, message):
            if error:
                self.ledger.fail(f"{self.name}: record {sequence} for {PARTITIONS[at]} was given up: {error}")
            elif message.offset() is None or message.offset() < 0:
                acked[sequence] = NO_OFFSET
                self.ledger.count("without offset")
            else:
                acked[sequence] = message.offset()
        return note

    def step(self):
        from confluent_kafka import KafkaException
        if self.holding:
            self.client.poll(0.02)
            return
        # A partition gets a few at once, so that batches have several records.
        for _ in range(3):
            at = self.random.randrange(len(PARTITIONS))
            topic, index = PARTITIONS[at]
            for _ in range(self.random.randrange(1, 12)):
                sequence = self.sent[at]
                self.ledger.acked[self.number][at].append(NO_ANSWER)
                try:
                    self.client.produce(topic, value_of(self.number, at, sequence), partition=index,
                                        on_delivery=self.delivered(at, sequence))
                except BufferError:
                    self.ledger.acked[self.number][at].pop()
                    self.client.poll(0.05)
                    return
                except KafkaException as e:
                    self.ledger.acked[self.number][at].pop()
                    self.ledger.fail(f"{self.name} gave up: {e}")
                    self.holding = True
                    return
                self.sent[at] += 1
        self.client.poll(0)

    def between(self):
        time.sleep(0 if self.rushing else 18 / RECORDS_PER_SECOND)

    def flush(self, timeout):
        """Waits until everything is answered; returns what is not."""
        return self.client.flush(timeout)


class Member(Worker):
    """A member of the group: reads, and commits explicitly now and then."""

    def __init__(self, ledger, bootstrap, number, seed):
        super().__init__(ledger, f"member {number}")
        from confluent_kafka import Consumer
        self.random, self.positions = random.Random(f"{seed} member {number}"), {}
        self.client = Consumer({**COMMON, "bootstrap.servers": bootstrap, "group.id": GROUP, "enable.auto.commit": False,
                                "auto.offset.reset": "earliest", "session.timeout.ms": 45000, "heartbeat.interval.ms": 500,
                                "fetch.wait.max.ms": 100, "error_cb": lambda error: None})
        self.client.subscribe([t for t in TOPICS], on_revoke=self.forget, on_lost=self.forget)

    def forget(self, *_):
        self.positions.clear()

    def step(self):
        from confluent_kafka import KafkaException, TopicPartition
        for message in self.client.consume(300, 0.1):
            if message.error() is None:
                self.positions[message.topic(), message.partition()] = message.offset() + 1
        if not self.positions or self.random.random() > 0.4:
            return
        asked = [TopicPartition(t, p, offset) for (t, p), offset in self.positions.items()]
        try:
            answered = self.client.commit(offsets=asked, asynchronous=False)
        except KafkaException:
            return
        ledger = self.ledger
        with ledger.lock:
            for one in answered:
                if one.error is not None:
                    continue
                key = (GROUP, one.topic, one.partition)
                if one.offset < ledger.commits.get(key, 0):
                    ledger.fail(f"{self.name} came to offset {one.offset} of {one.topic}-{one.partition} after "
                                f"{ledger.commits[key]} was committed: it had been given an older offset")
                ledger.commits[key] = max(ledger.commits.get(key, 0), one.offset)
                ledger.counts["commits"] += 1

    def end(self):
        self.client.close()


TOPIC, BROKER = 2, 4
# Answers of a broker that is on its way up or down: the request may have been carried out or not.
PASSING = (5, 6, 7, 14, 15, 16, 41)
CHURN_CONFIGS = {"retention.ms": lambda r: str(r.randrange(10**9, 10**10)), "max.message.bytes": lambda r: str(r.randrange(10**6, 2 * 10**6)),
                 "segment.bytes": lambda r: str(r.randrange(1 << 20, 1 << 24)), "cleanup.policy": lambda r: r.choice(("delete", "compact")),
                 "min.insync.replicas": lambda r: "1", "flush.ms": lambda r: str(r.randrange(10**6, 10**8))}
BROKER_CONFIGS = {"message.max.bytes": lambda r: str(r.randrange(1_100_000, 2_000_000)),
                  "log.retention.ms": lambda r: str(r.randrange(10**9, 10**10))}
SET, DELETE = 0, 1


class Administering(Worker):
    """Creates, changes and deletes topics, trims partitions, commits for a group without members, takes producer ids."""

    def __init__(self, ledger, bootstrap, seed):
        super().__init__(ledger, "administrator")
        self.random, self.client = random.Random(f"{seed} admin"), Client(bootstrap)
        self.simple = 0
        for n in range(8):
            ledger.names[f"comes-and-goes-{n}"] = [None]

    def between(self):
        time.sleep(self.random.uniform(0.0, 0.02))

    def end(self):
        self.client.close()

    def step(self):
        name = self.random.choice(list(self.ledger.names))
        known = self.ledger.names[name]
        # What is not certain is left alone until the next check has looked at it.
        if len(known) > 1:
            op = self.other
        elif known[0] is None:
            op = self.random.choice((self.create, self.other))
        else:
            op = self.random.choice((self.delete, self.alter, self.alter, self.fill, self.fill, self.grow, self.other))
        try:
            op(name)
        except Unanswered:
            self.ledger.count("unanswered")
            time.sleep(0.02)

    def other(self, name):
        self.random.choice((self.trim, self.trim, self.commit, self.commit, self.producer_id, self.alter_broker))(name)

    def passing(self, error):
        if error in PASSING:
            raise Unanswered(f"error {error}")

    def outcome(self, name, before, after, answered, error, message=""):
        """Notes a change of a topic from `before` to `after`: certain when it was answered."""
        self.passing(error)
        if error:
            raise Failure(f"{name} in state {_short(before)} answers error {error} {message or ''} on the way to {_short(after)}")
        self.ledger.names[name] = [after] if answered else [before, after]

    def create(self, name):
        count = self.random.randrange(1, 5)
        keys = self.random.sample(list(CHURN_CONFIGS), self.random.randrange(0, 4))
        configs = {k: CHURN_CONFIGS[k](self.random) for k in keys}
        after = SimpleNamespace(id=None, partitions=count, configs=configs, records={})
        self.outcome(name, None, after, False, 0)
        answer = self.client.call("CreateTopics", timeout_ms=30000, validate=False, topics=[{
            "name": name, "partitions": count, "replication": 1, "assignments": [],
            "configs": [{"name": k, "value": v} for k, v in configs.items()]}])["topics"][0]
        after.id = answer["id"]
        self.outcome(name, None, after, True, answer["error"], answer["message"])
        self.ledger.count("created")

    def delete(self, name):
        before = self.ledger.names[name][0]
        self.outcome(name, before, None, False, 0)
        answer = self.client.call("DeleteTopics", names=[name], timeout_ms=30000)["topics"][0]
        self.outcome(name, before, None, True, answer["error"])
        self.ledger.count("deleted")

    def _change(self, configs, table):
        changed, ops = dict(configs), []
        for key in self.random.sample(list(table), self.random.randrange(1, 3)):
            if key in changed and self.random.random() < 0.4:
                del changed[key]
                ops.append({"name": key, "op": DELETE, "value": None})
            else:
                changed[key] = table[key](self.random)
                ops.append({"name": key, "op": SET, "value": changed[key]})
        return changed, ops

    def alter(self, name):
        before = self.ledger.names[name][0]
        configs, ops = self._change(before.configs, CHURN_CONFIGS)
        after = SimpleNamespace(id=before.id, partitions=before.partitions, configs=configs, records=before.records)
        self.outcome(name, before, after, False, 0)
        answer = self.client.call("IncrementalAlterConfigs", validate=False,
                                  resources=[{"type": TOPIC, "name": name, "configs": ops}])["resources"][0]
        self.outcome(name, before, after, True, answer["error"], answer["message"])
        self.ledger.count("configs")

    def alter_broker(self, _):
        known = self.ledger.broker_config
        if len(known) > 1:
            return
        after, ops = self._change(known[0], BROKER_CONFIGS)
        self.ledger.broker_config = [known[0], after]
        answer = self.client.call("IncrementalAlterConfigs", validate=False,
                                  resources=[{"type": BROKER, "name": "", "configs": ops}])["resources"][0]
        self.passing(answer["error"])
        if answer["error"]:
            raise Failure(f"broker configs {ops}: error {answer['error']} {answer['message']}")
        self.ledger.broker_config = [after]
        self.ledger.count("configs")

    def grow(self, name):
        before = self.ledger.names[name][0]
        if before.partitions >= 8:
            return
        after = SimpleNamespace(id=before.id, partitions=before.partitions + 1, configs=before.configs, records=before.records)
        self.outcome(name, before, after, False, 0)
        answer = self.client.call("CreatePartitions", timeout_ms=30000, validate=False,
                                  topics=[{"name": name, "count": after.partitions, "assignments": None}])["topics"][0]
        self.outcome(name, before, after, True, answer["error"], answer["message"])
        self.ledger.count("partitions added")

    def fill(self, name):
        """A few records, so that a topic of the same name that is made later has something to show by mistake."""
        state = self.ledger.names[name][0]
        if state.configs.get("cleanup.policy") == "compact":
            return  # wants keys
        index = self.random.randrange(state.partitions)
        values = [b"%s %s %d" % (name.encode(), state.id.hex().encode(), self.random.getrandbits(60)) for _ in range(self.random.randrange(1, 5))]
        records = state.records.setdefault(index, [])
        answer = self.client.produce({(name, index): batch(values, int(time.time() * 1000))})
        error, base = answer[name, index]
        self.passing(error)
        if error:
            raise Failure(f"produce to {name}-{index}: error {error}")
        records.extend((base + n, value) for n, value in enumerate(values))

    def trim(self, _):
        """DeleteRecords to somewhere behind the log start, now and then to the end."""
        index = self.random.randrange(TOPICS[TRIMMED][0])
        key = (TRIMMED, index)
        end = self.client.offsets([key], -1)[key]
        low = self.ledger.trims_asked.get(key, 0)
        if end - low < 50:
            return
        asked = self.random.choice((low + 1, low + (end - low) // 4, self.random.randrange(low, end)))
        if self.random.random() < 0.02:
            asked = end
        self.ledger.trims_asked[key] = max(low, asked)
        answer = self.client.call("DeleteRecords", timeout_ms=30000, topics=[{
            "name": TRIMMED, "partitions": [{"index": index, "offset": asked}]}])["topics"][0]["partitions"][0]
        self.passing(answer["error"])
        if answer["error"] or answer["low_watermark"] < asked:
            raise Failure(f"DeleteRecords of {key} to {asked}: error {answer['error']}, low watermark {answer['low_watermark']}")
        self.ledger.trims[key] = max(self.ledger.trims.get(key, 0), answer["low_watermark"])
        self.ledger.count("trims")

    def commit(self, _):
        """Offsets that only grow, for a group without members."""
        self.simple += 1
        topic, index = self.random.choice(PARTITIONS)
        answer = self.client.call("OffsetCommit", group=SIMPLE_GROUP, generation=-1, member="", topics=[{
            "name": topic, "partitions": [{"index": index, "offset": self.simple, "leader_epoch": -1, "metadata": "m" * 40}]}])
        error = answer["topics"][0]["partitions"][0]["error"]
        self.passing(error)
        if error:
            raise Failure(f"OffsetCommit for {SIMPLE_GROUP}: error {error}")
        self.ledger.commits[SIMPLE_GROUP, topic, index] = self.simple
        self.ledger.count("simple commits")

    def producer_id(self, _):
        answer = self.client.call("InitProducerId", transactional_id=None, timeout_ms=30000)
        self.passing(answer["error"])
        if answer["error"]:
            raise Failure(f"InitProducerId: error {answer['error']}")
        got = (answer["id"], answer["epoch"])
        if got in self.ledger.producer_ids:
            raise Failure(f"producer id {got} was given out twice")
        self.ledger.producer_ids.add(got)
        self.ledger.count("producer ids")


def _short(state):
    return "absent" if state is None else f"present ({state.partitions} partitions, {state.configs})"


class Load:
    """All workers."""

    def __init__(self, ledger, bootstrap, seed):
        self.ledger = ledger
        self.producers = [Producing(ledger, bootstrap, n, seed) for n in range(len(PRODUCERS))]
        self.members = [Member(ledger, bootstrap, n, seed) for n in range(2)]
        self.admin = Administering(ledger, bootstrap, seed)
        for worker in self.all():
            worker.start()

    def all(self):
        return [*self.producers, *self.members, self.admin]

    def rush(self, rushing):
        """Producers send as fast as they can, or at their pace: in a rush there is always something under way, so that a
        death comes between an append and its answer."""
        for producer in self.producers:
            producer.rushing = rushing

    def hold(self, held):
        """Producers stop making records, or go on; what they hold is delivered all the same."""
        for producer in self.producers:
            producer.holding = held

    def finish(self, patience):
        """Lets everything be answered, then ends all workers. Fails the ledger for what stays unanswered."""
        self.hold(True)
        for producer in self.producers:
            left = producer.flush(patience)
            if left:
                self.ledger.fail(f"{producer.name}: {left} records are still unanswered after {patience} s")
        for worker in self.all():
            worker.stopped.set()
        for worker in self.all():
            worker.join(patience)
            if worker.is_alive():
                self.ledger.fail(f"{worker.name} does not end within {patience} s")
