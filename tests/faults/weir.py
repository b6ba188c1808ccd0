"""A weir server to do harm to: its files, its log, its metrics, and what clients were promised by it."""

import hashlib
import re
import resource
import shutil
import subprocess
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import brokers
from kit import Failed, Skipped, check, equal, wait_until
from wire import TIME, Wire

SEGMENT_BYTES = 1 << 20


class Weir(brokers.Broker):
    """One server in a directory of its own; `start` after `kill` or `stop` starts it on what it left."""

    def __init__(self, test, name="weir", data=None, overrides=None, **options):
        settings = {"log.dirs": str(data)} if data else {}
        settings.update(overrides or {})
        super().__init__("weir", test.scratch / name, settings, budget="64MiB", **options)
        if data:
            self.data = Path(data)

    def start(self, timeout=180):
        self.log_before = self.log.stat().st_size if self.log.exists() else 0
        super().start(timeout)

    def start_fails(self, timeout=120):
        """Starts where it must not: returns what it said on the way out."""
        before = self.log.stat().st_size
        try:
            super().start(timeout)
        except SystemExit:
            check(self.process.returncode != 0, "a start that must fail ended with exit code 0")
            return self.log.read_text(errors="replace")[before:]
        self.kill()
        raise Failed("the server started on a directory that it must refuse")

    def wire(self):
        return Wire(self.bootstrap)

    def said(self, *words):
        """True when a line of the log since the last start holds all words."""
        text = self.log.read_bytes()[self.log_before:].decode(errors="replace")
        return any(all(word in line for word in words) for line in text.splitlines())

    def said_soon(self, *words, timeout=120):
        wait_until(lambda: self.said(*words), f"a line of the log with {words}; it ends:\n{self.tail(8)}", timeout)

    def metrics(self):
        with urllib.request.urlopen(f"http://{self.http}/metrics", timeout=60) as page:
            text = page.read().decode()
        return dict(re.findall(r"^([a-zA-Z_:]\S*|[a-zA-Z_:][^{\s]*\{.*\}) (\S+)$", text, re.M))

    def metric(self, name):
        """The sum of all series of a metric."""
        found = [float(v) for k, v in self.metrics().items() if k.split("{")[0] == name]
        check(found, f"there is no metric {name}")
        return sum(found)

    def health(self):
        try:
            with urllib.request.urlopen(f"http://{self.http}/health", timeout=60) as page:
                return page.status
        except urllib.error.HTTPError as e:
            return e.code

    def partition(self, topic, index=0):
        return self.data / f"{topic}-{index}"

    def segments(self, topic, index=0):
        return sorted(self.partition(topic, index).glob("*.log"))

    def dirs(self, pattern):
        return sorted(p.name for p in self.data.glob(pattern))

    def limit(self, kind, value):
        """Lowers a soft limit of the running process, or lifts it again (None)."""
        _, hard = resource.prlimit(self.pid, kind)
        resource.prlimit(self.pid, kind, (hard if value is None else value, hard))

    def lives(self):
        check(self.process.poll() is None, f"the server ended with {self.process.returncode}:\n{self.tail()}")


def files_of(directory):
    """Size, time and hash of every file below a directory."""
    found = {}
    for path in sorted(Path(directory).rglob("*")):
        if path.is_file():
            stat = path.stat()
            found[str(path.relative_to(directory))] = (
                stat.st_size, stat.st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest())
    return found


def still(directory, timeout=120):
    """The files of a directory once nothing in it changes any more."""
    deadline = time.monotonic() + timeout
    before = files_of(directory)
    while True:
        time.sleep(1.2)
        now = files_of(directory)
        if now == before:
            return now
        check(time.monotonic() < deadline, "the directory does not come to rest")
        before = now


def value_of(number, size=200):
    return (b"%08d " % number).ljust(size, b"x")


def fill(server, topic, count, size=200, partition=0, first=0, one_by_one=False, **config):
    """Produces `count` records with librdkafka and returns [(offset, value)] as acknowledged."""
    from confluent_kafka import Producer
    acked, failed = [], []

    def delivered(error, message):
        if error:
            failed.append(error)
        else:
            acked.append((message.offset(), message.value()))
    settings = {"bootstrap.servers": server.bootstrap, "acks": "all", "linger.ms": 5, "enable.idempotence": True}
    if one_by_one:
        settings["batch.num.messages"] = 1
    settings.update(config)
    producer = Producer(settings)
    for number in range(first, first + count):
        producer.produce(topic, value_of(number, size), partition=partition, on_delivery=delivered,
                         timestamp=TIME + number)
        producer.poll(0)
    producer.flush(120)
    check(not failed, "produce failed:", failed[:3])
    equal(len(acked), count, "acknowledged records")
    return sorted(acked)


def read_all(server, topic, partition=0, start=0, committed=False, timeout=120, errors=None):
    """Reads a partition to its end with librdkafka: [(offset, value)]. An error fails the case, unless a list for
    errors is given, where it ends the read."""
    from confluent_kafka import Consumer, KafkaError, TopicPartition
    consumer = Consumer({
        "bootstrap.servers": server.bootstrap, "group.id": "none", "enable.auto.commit": False,
        "auto.offset.reset": "error", "enable.partition.eof": True, "check.crcs": True,
        "isolation.level": "read_committed" if committed else "read_uncommitted"})
    consumer.assign([TopicPartition(topic, partition, start)])
    found, deadline = [], time.monotonic() + timeout
    try:
        while True:
            check(time.monotonic() < deadline, f"no end of {topic}-{partition} within {timeout} s, {len(found)} read")
            for message in consumer.consume(1000, 0.5):
                if message.error() is None:
                    found.append((message.offset(), message.value()))
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    return found
                elif errors is None:
                    raise Failed(f"reading {topic}-{partition} after {len(found)} records: {message.error()}")
                else:
                    errors.append(message.error())
                    return found
    finally:
        consumer.close()


def admin(server):
    """A client that is kept with the server: its answers come only while it lives."""
    from confluent_kafka.admin import AdminClient
    if not hasattr(server, "admin"):
        server.admin = AdminClient({"bootstrap.servers": server.bootstrap, "reconnect.backoff.max.ms": 200})
    return server.admin


def checkpoint(server, name):
    """An offset checkpoint: {(topic, partition): offset}."""
    lines = (server.data / name).read_text().splitlines()[2:]
    return {(line.split()[0], int(line.split()[1])): int(line.split()[2]) for line in lines}


def topic_of(test, server, prefix="t", partitions=1, name=None, **config):
    from confluent_kafka.admin import NewTopic
    name = name or test.name(prefix)
    client = admin(server)
    made = NewTopic(name, partitions, 1, config={k: str(v) for k, v in config.items()})
    client.create_topics([made])[name].result(120)
    wait_until(lambda: len(client.list_topics(name, timeout=120).topics[name].partitions) == partitions, f"leaders of {name}")
    return name


class Load:
    """An idempotent producer that goes on through a fault, with what it was promised."""

    def __init__(self, server, topic, pause=0.004, size=500):
        from confluent_kafka import Producer
        self.topic, self.acked, self.errors, self.sent = topic, {}, [], 0
        self.stopping = threading.Event()
        self.producer = Producer({
            "bootstrap.servers": server.bootstrap, "acks": "all", "enable.idempotence": True, "linger.ms": 5,
            "delivery.timeout.ms": 120_000, "retry.backoff.ms": 50, "retry.backoff.max.ms": 200,
            "reconnect.backoff.max.ms": 500, "socket.timeout.ms": 30_000})
        self.thread = threading.Thread(target=self._run, args=(pause, size), daemon=True)
        self.thread.start()

    def _run(self, pause, size):
        while not self.stopping.is_set():
            try:
                self.producer.produce(self.topic, value_of(self.sent, size), on_delivery=self._delivered)
                self.sent += 1
            except BufferError:
                pass
            self.producer.poll(pause)

    def _delivered(self, error, message):
        if error:
            self.errors.append(error)
        else:
            self.acked[(message.partition(), message.offset())] = message.value()

    def grows(self, by=100, timeout=120):
        """Waits until so many more were acknowledged."""
        goal = len(self.acked) + by
        wait_until(lambda: len(self.acked) >= goal, f"{by} more acknowledgements; errors {self.errors[:3]}", timeout)

    def stop(self):
        self.stopping.set()
        self.thread.join()
        left = self.producer.flush(120)
        check(left == 0 and not self.errors, f"{left} records were not delivered, errors {self.errors[:3]}")
        equal(len(self.acked), self.sent, "acknowledged records")

    def verify(self, server, partitions):
        """Everything acknowledged is where it was acknowledged, and nothing is there twice."""
        found = {}
        for partition in range(partitions):
            for offset, value in read_all(server, self.topic, partition):
                found[(partition, offset)] = value
        lost = [place for place, value in self.acked.items() if found.get(place) != value]
        check(not lost, f"{len(lost)} acknowledged records are lost or moved, the first at {sorted(lost)[:3]}")
        equal(len(set(found.values())), len(found), "records without duplicates")
        return len(found)


class Mount:
    """A file system of its own below the scratch directory; goes with the case."""

    def __init__(self, path, *options):
        self.path = Path(path)
        self.path.mkdir(parents=True, exist_ok=True)
        self.allowed = _mount(*options, str(self.path))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.allowed:
            subprocess.run(["umount", "-l", str(self.path)], stdin=subprocess.DEVNULL)


def preloaded(test, source, **environment):
    """A prefix for a server with a library loaded into it, which is made of this C code."""
    code, library = test.scratch / "preload.c", test.scratch / "preload.so"
    code.write_text(source)
    done = subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", str(library), str(code), "-ldl"],
                          capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise Skipped(f"gcc: {done.stderr}")
    return ["env", f"LD_PRELOAD={library}", *(f"{name}={value}" for name, value in environment.items())]


def _mount(*arguments):
    try:
        done = subprocess.run(["mount", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    except OSError as e:
        print(f"mount: {e}", flush=True)
        return False
    if done.returncode != 0:
        print(f"mount {' '.join(arguments)}: {done.stderr.strip()}", flush=True)
    return done.returncode == 0


def copy(source, target):
    shutil.copytree(source, target, symlinks=True)
