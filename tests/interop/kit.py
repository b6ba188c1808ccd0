"""What every case is written with: registration, assertions that say what they saw, topics, Java tools, and
foreign programs that print what they proved."""

import json
import os
import random
import re
import socket
import string
import subprocess
import time
from pathlib import Path

from brokers import die_with_parent

HERE = Path(__file__).resolve().parent
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
OURS = {f.stem for f in (HERE / "java").glob("*.java")}
# How long a case waits for what it expects, and how long it may take in all. Both are far beyond what a starved
# machine needs: they end a hang and prove nothing.
WAIT, LIMIT = 120, 600
CASES = {}


class Case:
    def __init__(self, client, name, function, seconds, properties):
        self.client, self.name, self.function, self.seconds, self.properties = client, name, function, seconds, properties
        self.id = f"{client}/{name}"


def case(client, name, seconds=0, properties=None):
    """Registers a case. `seconds`: about how long a long one takes; the longest start first. `properties`: what its
    broker must be started with; where the suite starts the brokers, such a case gets one of its own."""
    def register(function):
        made = Case(client, name, function, seconds, properties)
        assert made.id not in CASES, made.id
        CASES[made.id] = made
        return function
    return register


class Failed(AssertionError):
    pass


class Skipped(Exception):
    """The machine does not allow what a case needs."""


def check(condition, *seen):
    if not condition:
        raise Failed(" ".join(str(s) for s in seen))


def equal(got, expected, what):
    if got != expected:
        if isinstance(got, list) and isinstance(expected, list) and max(len(got), len(expected)) > 5:
            at = next((i for i, (a, b) in enumerate(zip(got, expected)) if a != b), min(len(got), len(expected)))
            raise Failed(f"{what}: {len(got)} items, expected {len(expected)}; they differ from item {at} on: "
                         f"got {_short(got[at:at + 3])}, expected {_short(expected[at:at + 3])}")
        raise Failed(f"{what}: expected {_short(expected)}, got {_short(got)}")


def _short(value, limit=600):
    text = repr(value)
    return text if len(text) <= limit else text[:limit] + f"... ({len(text)} characters)"


def wait_until(condition, what, timeout=WAIT, pause=0.05):
    """Waits for a condition with a deadline and returns its value. `what`: text, or a function that makes it."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise Failed(f"not within {timeout} s: {what() if callable(what) else what}")
        time.sleep(pause)


class Test:
    """Handed to a case: the address, a scratch directory, and the list of what was proved."""

    def __init__(self, bootstrap, scratch, hosts):
        self.bootstrap, self.scratch, self.hosts = bootstrap, Path(scratch), hosts
        self.proved = []
        self._admin = None

    def prove(self, text):
        self.proved.append(text)

    def name(self, prefix):
        """A topic or group name of this case alone."""
        return prefix + "-" + "".join(random.choices(string.ascii_lowercase + string.digits, k=8))

    @property
    def admin(self):
        if self._admin is None:
            from confluent_kafka.admin import AdminClient
            self._admin = AdminClient({"bootstrap.servers": self.bootstrap})
        return self._admin

    def topic(self, prefix="t", partitions=1, **config):
        """Creates a topic (config names with _ for .) and waits until it has leaders."""
        from confluent_kafka.admin import NewTopic
        name = self.name(prefix)
        made = NewTopic(name, partitions, 1, config={k.replace("_", "."): str(v) for k, v in config.items()})
        self.admin.create_topics([made])[name].result(WAIT)

        def leads():
            topic = self.admin.list_topics(name, timeout=WAIT).topics[name]
            return topic.error is None and len(topic.partitions) == partitions and all(
                p.leader >= 0 for p in topic.partitions.values())
        wait_until(leads, f"leaders of {name}")
        return name

    def tool(self, version, classes, *args, stdin="", ok=True, timeout=2 * WAIT):
        """Runs a main class of one Kafka release in the shared JVM of that release. `classes`: one name, or
        several for a tool that moved. Returns its standard output; a non-zero exit fails the case unless
        ok=False, which returns (exit, out, err)."""
        if isinstance(classes, str):
            classes = [classes]
        classes = [c if c.startswith(("org.", "kafka.")) or c in OURS else "org.apache.kafka.tools." + c for c in classes]
        with socket.create_connection(("127.0.0.1", self.hosts[version]), WAIT) as s:
            s.settimeout(timeout)
            request = {"class": classes, "args": [str(a) for a in args], "stdin": stdin}
            try:
                s.sendall(json.dumps(request).encode() + b"\n")
                answer = json.loads(s.makefile().readline())
            except TimeoutError:
                raise Failed(f"{classes[-1]} {' '.join(map(str, args))}: no end within {timeout} s") from None
        if not ok:
            return answer["exit"], answer["out"], answer["err"]
        if answer["exit"] != 0:
            raise Failed(f"{classes[-1]} {' '.join(map(str, args))}: exit {answer['exit']}\n"
                         f"{answer['out'][-3000:]}{answer['err'][-3000:]}")
        return answer["out"]

    def java_driver(self, version, main, *args, timeout=2 * WAIT):
        """Runs one of our own Java mains, which print `proved: ...` lines."""
        out = self.tool(version, main, *args, timeout=timeout)
        self._collect(out)

    def run(self, *command, stdin=None, ok=True, timeout=2 * WAIT, env=None, cwd=None):
        """Runs a foreign program to its end and returns its standard output."""
        try:
            done = subprocess.run([str(c) for c in command], input=stdin, capture_output=True, timeout=timeout,
                                  text=not isinstance(stdin, bytes), cwd=cwd or self.scratch,
                                  env={**os.environ, **(env or {})}, preexec_fn=die_with_parent,
                                  **({} if stdin is not None else {"stdin": subprocess.DEVNULL}))
        except subprocess.TimeoutExpired as e:
            raise Failed(f"{command[0]}: no end within {timeout} s\n{_tail(e.stdout)}{_tail(e.stderr)}") from None
        if ok and done.returncode != 0:
            raise Failed(f"{' '.join(map(str, command))}: exit {done.returncode}\n"
                         f"{_tail(done.stdout)}{_tail(done.stderr)}")
        return done.stdout

    def driver(self, *command, timeout=2 * WAIT, env=None):
        """Runs a foreign driver, which prints `proved: ...` lines, and takes them over."""
        self._collect(self.run(*command, timeout=timeout, env=env))

    def spawn(self, *command):
        """Starts a program that the case reads from while it runs; it dies with the case."""
        log = open(self.scratch / f"{self.name('err')}.log", "wb")
        return subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=log, text=True, cwd=self.scratch, preexec_fn=die_with_parent)

    def _collect(self, out):
        found = [line[len("proved: "):].strip() for line in out.splitlines() if line.startswith("proved: ")]
        check(found, "the driver proved nothing:", out[-2000:])
        self.proved.extend(found)


def _tail(data):
    if data is None:
        return ""
    if isinstance(data, bytes):
        data = data.decode(errors="replace")
    return data[-4000:]


def lines_of(process):
    """Reads a running program's standard output in the background into a list."""
    import threading
    seen = []

    def read():
        for line in process.stdout:
            seen.append(line.rstrip("\n"))
    threading.Thread(target=read, daemon=True).start()
    return seen


def installed_versions():
    """What the clients are, for the report."""
    versions = {}
    for line in (HERE / "requirements.txt").read_text().splitlines():
        if "==" in line:
            name, version = line.split("==")
            versions[name] = version
    for line in (HERE / "go" / "go.mod").read_text().splitlines():
        parts = line.split()
        if len(parts) >= 2 and parts[0] in ("github.com/IBM/sarama", "github.com/twmb/franz-go"):
            versions["sarama" if "sarama" in parts[0] else "franz-go"] = parts[1].lstrip("v")
    versions["kafkajs"] = json.loads((HERE / "js" / "package.json").read_text())["dependencies"]["kafkajs"]
    try:
        done = subprocess.run(["kcat", "-V"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        word = re.search(r"Version (\S+)", done.stdout)
        versions["kcat"] = word.group(1) if word else "?"
    except OSError:
        pass
    return versions
