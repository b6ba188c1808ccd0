"""What the attacks and the benchmarks measure a broker with: its CPU time and its anonymous memory from /proc,
our C programs, topics, and the machine's memory touched before anything is timed."""

import json
import mmap
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "interop"))
import brokers
from brokers import INTEROP

VENV = INTEROP / "venv" / "bin" / "python"
TICK = os.sysconf("SC_CLK_TCK")
MIB = 1 << 20


def in_venv():
    """Starts this script again with the Python that has the clients."""
    if not VENV.exists():
        sys.exit("not set up: run tests/setup.sh")
    if Path(sys.prefix) != VENV.parents[1]:
        os.execv(VENV, [str(VENV), *sys.argv])


def cpu_seconds(pid):
    """User and system time that a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def rss_anon(pid):
    """Anonymous memory in bytes, 0 when the process has gone."""
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    except (FileNotFoundError, ProcessLookupError):
        pass
    return 0


class Peak:
    """Samples RssAnon every 20 ms while it is open; `peak` in bytes."""

    def __init__(self, pid):
        self.pid, self.peak, self.samples, self._stop = pid, rss_anon(pid), 0, threading.Event()

    def __enter__(self):
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def _run(self):
        while not self._stop.wait(0.02):
            self.peak = max(self.peak, rss_anon(self.pid))
            self.samples += 1

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()


def program(name, *args, timeout=600):
    """Runs one of our C programs and returns the JSON object it prints."""
    done = subprocess.run([str(INTEROP / "bin" / name), *map(str, args)], capture_output=True, text=True, timeout=timeout,
                          stdin=subprocess.DEVNULL, preexec_fn=brokers.die_with_parent)
    if not done.stdout.startswith("{"):
        raise RuntimeError(f"{name} {' '.join(map(str, args))}: exit {done.returncode}: {done.stderr[-2000:]}")
    result = json.loads(done.stdout)
    if done.stderr:
        result["stderr"] = done.stderr[-2000:]
    return result


def admin(bootstrap):
    from confluent_kafka.admin import AdminClient
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


def make_topic(bootstrap, name, partitions, **config):
    """Creates a topic and waits until each partition takes a record (and keeps it: offset 0)."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import NewTopic
    settings = {k.replace("_", "."): str(v) for k, v in config.items()}
    client = admin(bootstrap)
    client.create_topics([NewTopic(name, partitions, 1, config=settings)])[name].result(300)
    p = Producer({"bootstrap.servers": bootstrap, "acks": "all", "message.timeout.ms": 300000, "log_level": 0})
    failed = []
    for i in range(partitions):
        p.produce(name, b"first", partition=i, on_delivery=lambda e, m: e and failed.append(e))
    if p.flush(300) or failed:
        raise RuntimeError(f"the partitions of {name} take no records: {failed[:1]}")


def drop_topic(bootstrap, name):
    client = admin(bootstrap)
    try:
        client.delete_topics([name])[name].result(300)
    except Exception as e:  # a broker that an attack has ended
        return str(e)


def touch_machine(size):
    """Takes `size` bytes of memory, touches them, and gives them back: the first touch of a virtual machine's memory is
    dearer than the second, and the first contender must not pay for all."""
    with mmap.mmap(-1, size) as memory:
        for page in range(0, size, mmap.PAGESIZE):
            memory[page] = 1


def mib(value):
    return f"{value / MIB:.0f}"


def print_table(rows):
    """Rows of strings, the first one the heading, as Markdown."""
    widths = [max(len(str(r[i])) for r in rows) for i in range(len(rows[0]))]
    for n, row in enumerate(rows):
        print("| " + " | ".join(str(c).ljust(w) for c, w in zip(row, widths)) + " |")
        if n == 0:
            print("|" + "|".join("-" * (w + 2) for w in widths) + "|")
    sys.stdout.flush()
