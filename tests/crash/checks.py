"""What must hold after each death of the broker: the ledger against what the broker shows now."""

import time
from array import array

import load
from load import BROKER, GROUP, IDEMPOTENT, NO_ANSWER, NO_OFFSET, PARTITIONS, PRODUCERS, SIMPLE_GROUP, TOPIC, TRIMMED
from frames import Client, Failure, Unanswered, values_of

# Records are read again from the beginning in every check up to this many; beyond it, some partitions in each check
# and all of them in the last.
READ_ALL_UP_TO = 400_000
LOADING = (14, 15, 16)


class Seen:
    """What a partition was seen to hold: once readable, a record stays as it is at its offset."""

    def __init__(self):
        self.base, self.idents = None, array("Q")
        self.highest = {}  # producer: its highest sequence in the log so far

    def end(self):
        return 0 if self.base is None else self.base + len(self.idents)


def ident(producer, sequence):
    return producer << 48 | sequence


class Checker:
    def __init__(self, ledger, bootstrap):
        self.ledger, self.bootstrap = ledger, bootstrap
        self.seen = [Seen() for _ in PARTITIONS]
        self.verified = [[0] * len(PARTITIONS) for _ in PRODUCERS]  # acks up to this sequence were compared
        self.open_acks = [[[] for _ in PARTITIONS] for _ in PRODUCERS]  # and these below it, that had no answer then
        self.records_read = 0
        self.doubled = 0  # records of plain producers that are there more than once, as retries may leave them
        self.round = 0

    def check(self, administrator, last=False):
        """Everything. The administrator pauses meanwhile; producers and members go on, unless told to hold."""
        self.round += 1
        client = Client(self.bootstrap)
        try:
            with administrator.turn:
                self.topics(client)
                self.configs(client)
                self.commits(client)
                self.records(client, last)
                self.probes(client)
        except Unanswered as e:
            raise Failure(f"no answer during a check: {e}") from None
        finally:
            client.close()

    # --- topics and configs ---------------------------------------------------------------------------------

    def topics(self, client):
        shown = client.topics()
        for topic, (count, _) in load.TOPICS.items():
            if topic not in shown or shown[topic][1] != count:
                raise Failure(f"topic {topic} with {count} partitions is shown as {shown.get(topic)}")
        for name, states in self.ledger.names.items():
            id_and_count = shown.get(name)
            fitting = [s for s in states if _fits(s, id_and_count)]
            if not fitting:
                raise Failure(f"topic {name} must be {' or '.join(map(load._short, states))}, is shown as {_shown(id_and_count)}")
            self.ledger.names[name] = fitting
            for state in fitting:
                if state is not None:
                    state.id = id_and_count[0]
            if id_and_count:
                self.filled(client, name, fitting[0])
        unknown = set(shown) - set(load.TOPICS) - set(self.ledger.names) - {load.PROBE[0], "__consumer_offsets"}
        if unknown:
            raise Failure(f"topics that nobody made: {sorted(unknown)}")

    def filled(self, client, name, state):
        """What was acknowledged of a topic that comes and goes, and nothing of one that had its name before."""
        for index in range(state.partitions):
            error, start, end, data = client.fetch(name, index, 0)
            found = dict(values_of(data))
            if error or start:
                raise Failure(f"{name}-{index}: error {error}, log start {start}")
            for offset, value in state.records.get(index, ()):
                if found.get(offset) != value:
                    raise Failure(f"{name}-{index} at {offset}: {found.get(offset)} instead of the acknowledged {value}")
            for offset, value in found.items():
                if value.split()[1] != state.id.hex().encode():
                    raise Failure(f"{name}-{index} at {offset}: {value} is of another topic than {state.id.hex()}")

    def configs(self, client):
        asked = [(TOPIC, name, list(load.CHURN_CONFIGS)) for name, states in self.ledger.names.items() if states[0] is not None]
        asked.append((BROKER, "1", list(load.BROKER_CONFIGS)))
        for kind, name, keys in asked:
            answer = client.call("DescribeConfigs", synonyms=False, resources=[{"type": kind, "name": name, "keys": keys}])["resources"][0]
            if answer["error"]:
                raise Failure(f"DescribeConfigs of {name}: error {answer['error']} {answer['message']}")
            # Sources 1: the topic's own; 3: the default that all brokers share.
            own = {c["name"]: c["value"] for c in answer["configs"] if c["source"] == (1 if kind == TOPIC else 3)}
            if kind == TOPIC:
                states = self.ledger.names[name]
                fitting = [s for s in states if s.configs == own]
                if not fitting:
                    raise Failure(f"configs of {name} must be {' or '.join(str(s.configs) for s in states)}, are {own}")
                self.ledger.names[name] = fitting[:1]
            else:
                if own not in self.ledger.broker_config:
                    raise Failure(f"the brokers' configs must be {' or '.join(map(str, self.ledger.broker_config))}, are {own}")
                self.ledger.broker_config = [own]

    # --- groups ---------------------------------------------------------------------------------------------

    def commits(self, client):
        with self.ledger.lock:
            expected = dict(self.ledger.commits)
        for group in (GROUP, SIMPLE_GROUP):
            topics = [{"name": t, "partitions": list(range(count))} for t, (count, _) in load.TOPICS.items()]
            deadline = time.monotonic() + 300
            while True:
                answer = client.call("OffsetFetch", group=group, topics=topics)
                errors = {answer["error"]} | {p["error"] for t in answer["topics"] for p in t["partitions"]}
                if not errors & set(LOADING) or time.monotonic() > deadline:
                    break
                time.sleep(0.01)
            if errors != {0}:
                raise Failure(f"OffsetFetch of {group}: errors {errors}")
            for t in answer["topics"]:
                for p in t["partitions"]:
                    least = expected.get((group, t["name"], p["index"]))
                    if least is not None and p["offset"] < least:
                        raise Failure(f"{group}: offset {p['offset']} of {t['name']}-{p['index']}, although {least} was committed")

    # --- records --------------------------------------------------------------------------------------------

    def records(self, client, last):
        # Acknowledgements first, the ends after them: what is acknowledged lies below the ends.
        taken = [[len(self.ledger.acked[p][at]) for at in range(len(PARTITIONS))] for p in range(len(PRODUCERS))]
        acks = [[self.ledger.acked[p][at][:taken[p][at]] for at in range(len(PARTITIONS))] for p in range(len(PRODUCERS))]
        starts, ends = client.offsets(PARTITIONS, -2), client.offsets(PARTITIONS, -1)
        total = sum(ends[tp] - starts[tp] for tp in PARTITIONS)
        plan = {}
        for at, tp in enumerate(PARTITIONS):
            start, end, seen = starts[tp], ends[tp], self.seen[at]
            self.log_start(tp, start)
            if end < seen.end():
                raise Failure(f"{_tp(tp)} ends at {end}, although records up to {seen.end() - 1} were read from it before")
            again = last or total <= READ_ALL_UP_TO or (at + self.round) % len(PARTITIONS) < 2
            begin = start if again else max(start, seen.end())
            if begin < end:
                plan[at] = (begin, end)
        self.read(plan)
        for p in range(len(PRODUCERS)):
            for at in range(len(PARTITIONS)):
                self.compare(p, at, acks[p][at], starts[PARTITIONS[at]])

    def log_start(self, tp, start):
        if tp[0] != TRIMMED:
            if start != 0:
                raise Failure(f"{_tp(tp)} begins at {start}, nothing was ever deleted from it")
            return
        if start < self.ledger.trims.get(tp, 0):
            raise Failure(f"{_tp(tp)} begins at {start}, although records below {self.ledger.trims[tp]} were deleted")
        if start > self.ledger.trims_asked.get(tp, 0):
            raise Failure(f"{_tp(tp)} begins at {start}, only records below {self.ledger.trims_asked.get(tp, 0)} were to be deleted")

    def read(self, plan):
        """Reads {partition number: (from, to)} with librdkafka, which checks the CRCs."""
        from confluent_kafka import Consumer, KafkaError, TopicPartition
        if not plan:
            return
        consumer = Consumer({**load.COMMON, "bootstrap.servers": self.bootstrap, "group.id": "crash-check", "enable.auto.commit": False,
                             "auto.offset.reset": "error", "check.crcs": True, "fetch.wait.max.ms": 20, "queued.max.messages.kbytes": 65536,
                             "error_cb": lambda error: None})
        number = {tp: at for at, tp in enumerate(PARTITIONS)}
        positions, missing = {at: begin for at, (begin, _) in plan.items()}, set(plan)
        try:
            consumer.assign([TopicPartition(*PARTITIONS[at], begin) for at, (begin, _) in plan.items()])
            progress = time.monotonic()
            while missing:
                messages = consumer.consume(1000, 0.05)
                if messages:
                    progress = time.monotonic()
                elif time.monotonic() - progress > 300:
                    at = min(missing)
                    raise Failure(f"{_tp(PARTITIONS[at])}: nothing comes from offset {positions[at]} on, the end is {plan[at][1]}")
                for message in messages:
                    if message.error() is not None:
                        if message.error().code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
                            continue
                        raise Failure(f"reading {message.topic()}-{message.partition()}: {message.error()}")
                    at = number[message.topic(), message.partition()]
                    if at not in missing:
                        continue
                    offset = message.offset()
                    if offset != positions[at]:
                        raise Failure(f"{_tp(PARTITIONS[at])}: offset {offset} follows {positions[at] - 1}")
                    self.record(at, offset, message.value())
                    positions[at] = offset + 1
                    if offset + 1 >= plan[at][1]:
                        missing.discard(at)
        finally:
            consumer.close()

    def record(self, at, offset, value):
        """One record: whole, the same as before, in its producer's order."""
        self.records_read += 1
        tp, seen = PARTITIONS[at], self.seen[at]
        try:
            producer, number, sequence = load.name_in(value)
        except ValueError:
            raise Failure(f"{_tp(tp)} at {offset}: not a record of ours: {value[:40]}") from None
        if number != at or value != load.value_of(producer, at, sequence):
            raise Failure(f"{_tp(tp)} at {offset}: record {sequence} of producer {producer} is not what was sent")
        if seen.base is None:
            seen.base = offset
        if offset < seen.base:
            return  # came back, see log_start
        if offset < seen.end():
            was = seen.idents[offset - seen.base]
            if was != ident(producer, sequence):
                raise Failure(f"{_tp(tp)} at {offset}: record {sequence} of producer {producer}, before it was record "
                              f"{was & (1 << 48) - 1} of producer {was >> 48}")
            return
        # A trimmed partition may be behind what was seen of it: what lay between is gone for good.
        while seen.end() < offset:
            if tp[0] != TRIMMED:
                raise Failure(f"{_tp(tp)}: offset {offset} follows {seen.end() - 1}")
            seen.idents.append(ident(999, 0))
            seen.highest.clear()
        seen.idents.append(ident(producer, sequence))
        guarantee = PRODUCERS[producer][0]
        highest = seen.highest.get(producer, -1 if seen.base == 0 and tp[0] != TRIMMED else None)
        if highest is not None:
            if guarantee == IDEMPOTENT and sequence != highest + 1:
                raise Failure(f"{_tp(tp)} at {offset}: record {sequence} of idempotent producer {producer} follows its record {highest}")
            if guarantee == load.ORDERED and sequence > highest + 1:
                raise Failure(f"{_tp(tp)} at {offset}: record {sequence} of producer {producer} overtook {highest + 1}")
            self.doubled += guarantee == load.ORDERED and sequence <= highest
        seen.highest[producer] = max(sequence, -1 if highest is None else highest)
        if sequence >= len(self.ledger.acked[producer][at]):
            raise Failure(f"{_tp(tp)} at {offset}: record {sequence} of producer {producer} was never sent")

    def compare(self, producer, at, acks, start):
        """Every acknowledged record is at the offset that it was acknowledged with."""
        seen, still_open = self.seen[at], []
        where = None
        fresh = range(self.verified[producer][at], len(acks))
        for sequence in [*self.open_acks[producer][at], *fresh]:
            offset = acks[sequence]
            if offset == NO_ANSWER:
                still_open.append(sequence)
                continue
            if offset == NO_OFFSET:
                # "You sent this before": somewhere it must be.
                if where is None:
                    where = set(seen.idents)
                if ident(producer, sequence) not in where and start == 0:
                    raise Failure(f"{_tp(PARTITIONS[at])}: acknowledged record {sequence} of producer {producer} is nowhere")
                continue
            if offset < start:
                continue  # deleted on purpose
            found = seen.idents[offset - seen.base] if seen.base is not None and seen.base <= offset < seen.end() else None
            if found != ident(producer, sequence):
                what = "nothing" if found is None else f"record {found & (1 << 48) - 1} of producer {found >> 48}"
                raise Failure(f"{_tp(PARTITIONS[at])} at {offset}: {what} instead of the acknowledged record {sequence} "
                              f"of producer {producer} ({PRODUCERS[producer][0]})")
        self.verified[producer][at] = len(acks)
        self.open_acks[producer][at] = still_open

    def probes(self, client):
        """The records that the first requests after each start wrote."""
        found, offset = {}, 0
        while True:
            error, _, end, data = client.fetch(*load.PROBE, offset)
            if error:
                raise Failure(f"fetch of {_tp(load.PROBE)}: error {error}")
            values = values_of(data)
            found.update(values)
            if not values or values[-1][0] + 1 >= end:
                break
            offset = values[-1][0] + 1
        for offset, value in self.ledger.probes:
            if found.get(offset) != value:
                raise Failure(f"{_tp(load.PROBE)} at {offset}: {found.get(offset)} instead of the acknowledged {value}")

    def all_answered(self):
        """At the end: no record is left without an answer."""
        for producer, partitions in enumerate(self.ledger.acked):
            for at, acks in enumerate(partitions):
                if NO_ANSWER in acks:
                    raise Failure(f"record {acks.index(NO_ANSWER)} of producer {producer} for {_tp(PARTITIONS[at])} was never answered")
                self.ledger.counts["acked"] += len(acks)


def _fits(state, shown):
    if state is None or shown is None:
        return state is None and shown is None
    return state.id in (None, shown[0]) and state.partitions == shown[1]


def _shown(id_and_count):
    return "absent" if id_and_count is None else f"id {id_and_count[0].hex()} with {id_and_count[1]} partitions"


def _tp(tp):
    return f"{tp[0]}-{tp[1]}"
