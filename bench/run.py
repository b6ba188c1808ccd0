#!/usr/bin/env python3
"""weir beside Apache Kafka 4.4.0 on this machine, in one run: records per broker-CPU-second, latency at paced
loads, peak anonymous memory, and fetches beside a bare sendfile loop. With them a bare produce server (bare.c), which
receives, checks, appends and answers and does nothing else: what a broker could reach here.

    run.py [--rounds 2] [--seconds 8] [--only TEXT]   everything; about five minutes a round
    run.py --quick                                    one round, short loads, fewer of them
    run.py --contenders weir,kafka-4.4.0              who takes part, in turns of seconds, each on a fresh directory
    run.py --report FILE                              everything as JSON

The load is librdkafka's (rdload.c) with its default linger. Absolute figures move from run to run; the ratios of
neighbouring pieces are what counts."""

import argparse
import json
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import measure
from measure import INTEROP, MIB, Peak, cpu_seconds, mib, program, rss_anon

PARTITIONS = 8
FASTEST = 1 << 30  # bytes a second that no load here exceeds
PIECE = 2  # seconds of a load in which one contender has its turn
WRITTEN = 1 << 30  # most bytes that a piece of a load writes
TOUCHED = 3 * WRITTEN  # bytes of memory touched before each piece: the load queues up to twice what it writes
# name: (arguments of rdload, seconds as a factor). Paced loads first, before the disk has much to write back.
LOADS = {
    "paced, 16 producers, 80 k/s of 1 KiB": dict(producers=16, size=1024, acks=1, rate=80000),
    "paced, 16 producers, 200 k/s of 100 B": dict(producers=16, size=100, acks=1, rate=200000),
    **{f"{n} producer{'s' if n > 1 else ''}, {'1 KiB' if size == 1024 else '100 B'}, acks={acks}": dict(producers=n, size=size, acks=acks)
       for size in (1024, 100) for n in (1, 16) for acks in ("1", "all")},
}
QUICK = ("paced", "1 producer, 1 KiB, acks=1", "16 producers, 1 KiB, acks=1", "16 producers, 100 B, acks=1")
BARE = "bare"
CONSUME = "consume, 1 KiB, cached (librdkafka)"
FETCH = "fetch, 1 KiB, cached (raw reader)"


class Contender:
    """A broker on a fresh directory, and what was measured of it: by load and figure, a value for each piece."""

    def __init__(self, kind, directory, budget):
        self.kind, self.figures = kind, {}
        self.broker = self.start(directory, budget)
        self.note("start", {"rss": rss_anon(self.broker.pid), "seconds": self.broker.start_seconds})

    def start(self, directory, budget):
        settings = {"log.segment.delete.delay.ms": "500", "num.partitions": str(PARTITIONS)}
        return measure.brokers.Broker(self.kind, directory, settings, budget=budget if self.kind == "weir" else None)

    def note(self, load, values):
        figures = self.figures.setdefault(load, {})
        for name, value in values.items():
            figures.setdefault(name, []).append(value)

    def end(self):
        self.broker.stop()
        self.broker.remove()

    def make_topic(self, topic):
        measure.make_topic(self.broker.bootstrap, topic, PARTITIONS)

    def drop_topic(self, topic):
        measure.drop_topic(self.broker.bootstrap, topic)

    def produce(self, load, topic, seconds):
        subprocess.run(["sync"], check=True)
        measure.touch_machine(TOUCHED)
        arguments = [x for k, v in load.items() for x in (f"--{k}", v)]
        before = cpu_seconds(self.broker.pid)
        with Peak(self.broker.pid) as peak:
            result = program("rdload", "produce", "--bootstrap", self.broker.bootstrap, "--topic", topic, "--seconds", seconds, *arguments)
        cpu = cpu_seconds(self.broker.pid) - before
        if result["failed"] or not result["complete"]:
            raise RuntimeError(f"{self.kind}: {result}")
        return {"records_per_cpu_second": result["records"] / max(cpu, 0.01), "peak": peak.peak,
                **{k: result[k] for k in ("records_per_second", "p50_ms", "p99_ms", "p999_ms")}}

    def consume(self, seconds, pieces):
        """Cached data, by librdkafka and by a reader that costs next to nothing, the latter in turns with a bare
        sendfile loop over the very same files."""
        broker, topic = self.broker, f"read-{time.time_ns()}"
        self.make_topic(topic)
        program("rdload", "produce", "--bootstrap", broker.bootstrap, "--topic", topic, "--seconds", 4, "--producers", 4)
        time.sleep(1)
        for _ in range(pieces):
            before = cpu_seconds(broker.pid)
            with Peak(broker.pid) as peak:
                result = program("rdload", "consume", "--bootstrap", broker.bootstrap, "--topic", topic, "--partitions", PARTITIONS)
            cpu = cpu_seconds(broker.pid) - before
            self.note(CONSUME, {"records_per_second": result["records_per_second"], "records_per_cpu_second": result["records"] / max(cpu, 0.01),
                                "peak": peak.peak})
        files = sorted(str(f) for f in broker.data.glob(f"{topic}-*/*.log"))
        for _ in range(pieces):
            at_rest = rss_anon(broker.pid)
            with Peak(broker.pid) as peak:
                own = read(broker.pid, "kafka", broker.bootstrap, seconds, "--topic", topic, "--partitions", PARTITIONS)
            loop = subprocess.Popen([str(INTEROP / "bin" / "floor"), "serve", *files], stdout=subprocess.PIPE, text=True,
                                    stdin=subprocess.DEVNULL, preexec_fn=measure.brokers.die_with_parent)
            try:
                bare = read(loop.pid, "stream", f"127.0.0.1:{loop.stdout.readline().strip()}", seconds)
            finally:
                loop.kill()
                loop.wait()
            self.note(FETCH, {"wall": own[0], "cpu": own[1], "bare_wall": bare[0], "bare_cpu": bare[1], "wall_ratio": own[0] / bare[0],
                              "cpu_ratio": own[1] / bare[1], "growth": peak.peak - at_rest})
        self.drop_topic(topic)


class Bare(Contender):
    """The bare server: any topic exists, and nothing can be consumed."""

    class Server:
        """What a load needs to know of the server."""

        def __init__(self, data):
            self.data = data
            data.mkdir(parents=True)
            began = time.monotonic()
            self.process = subprocess.Popen([str(INTEROP / "bin" / "bare"), "--directory", str(data), "--partitions", str(PARTITIONS)],
                                            stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, preexec_fn=measure.brokers.die_with_parent)
            self.pid, self.bootstrap = self.process.pid, f"127.0.0.1:{self.process.stdout.readline().strip()}"
            self.start_seconds = time.monotonic() - began

        def stop(self):
            self.process.kill()
            self.process.wait()

        def remove(self):
            shutil.rmtree(self.data)

    def start(self, directory, budget):
        return self.Server(directory)

    def make_topic(self, topic):
        pass

    def drop_topic(self, topic):
        """A fresh server, since this one keeps the files of its topics."""
        self.end()
        self.broker = self.Server(self.broker.data)


def read(pid, how, address, seconds, *arguments):
    """MiB/s and MiB per CPU-second of the process that serves a raw reader."""
    before = cpu_seconds(pid)
    result = program("fetch", how, "--address", address, "--seconds", seconds, *arguments)
    cpu = cpu_seconds(pid) - before
    return result["bytes"] / MIB / result["seconds"], result["bytes"] / MIB / max(cpu, 0.01)


def produce(contenders, name, load, seconds):
    """A load in pieces, in which the contenders take turns, so that what else the machine does meets all of them. No
    piece and its load take more than the memory that was touched just before it."""
    topic = f"load-{time.time_ns()}"
    for c in contenders:
        c.make_topic(topic)
    piece = min(PIECE, WRITTEN / min(FASTEST, load.get("rate", FASTEST) * load["size"]))
    for number in range(max(1, round(seconds / piece))):
        for c in contenders if number % 2 == 0 else reversed(contenders):
            c.note(name, c.produce(load, topic, piece))
    for c in contenders:
        c.drop_topic(topic)
    time.sleep(1)  # its files go


def one_round(kinds, directory, loads, options):
    contenders = []
    try:
        for kind in kinds:
            contenders.append((Bare if kind == BARE else Contender)(kind, directory / kind, options.budget))
        # The same for all, though only one of them has a compiler to warm.
        for c in contenders:
            for warm in (dict(producers=16, size=1024, acks=1), dict(producers=16, size=100, acks=1, rate=100000)):
                topic = f"warm-{time.time_ns()}"
                c.make_topic(topic)
                c.produce(warm, topic, options.warm)
                c.drop_topic(topic)
        for name, load in loads.items():
            produce(contenders, name, load, options.seconds)
            for c in contenders:
                r = {k: statistics.median(v) for k, v in c.figures[name].items()}
                print(f"  {name}: {c.kind}: {r['records_per_cpu_second']:,.0f} records per broker-CPU-second, {r['records_per_second']:,.0f}/s, "
                      f"p99 {r['p99_ms']:.1f} ms, {mib(r['peak'])} MiB", flush=True)
        if not options.only or any(o in "consume fetch" for o in options.only):
            for c in (c for c in contenders if c.kind != BARE):
                c.consume(PIECE, max(1, round(options.seconds / PIECE)))
                r = {k: statistics.median(v) for k, v in c.figures[FETCH].items()}
                print(f"  {FETCH}: {c.kind}: {r['wall']:,.0f} MiB/s, {r['cpu']:,.0f} MiB per broker-CPU-second; "
                      f"bare sendfile {r['bare_wall']:,.0f} and {r['bare_cpu']:,.0f}", flush=True)
    finally:
        for c in contenders:
            c.end()
    return {c.kind: c.figures for c in contenders}


def floor(directory, size):
    out = {}
    for mode in ("receive", "crc", "append"):
        measure.touch_machine(2 * size)
        out[mode] = program("floor", mode, "--bytes", size, "--file", directory / "floor")
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--contenders", default="kafka-4.4.0,weir,bare")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--budget", default="64MiB", help="memory.budget.bytes of weir")
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--report")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds = 1, 4
    options.warm = 5
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    loads = {n: v for n, v in LOADS.items() if (not options.quick or n.startswith(QUICK)) and (not options.only or any(o in n for o in options.only))}
    contenders = options.contenders.split(",")
    rounds, floors = [], []
    directory = Path(tempfile.mkdtemp(prefix="weir-bench-"))
    try:
        for number in range(options.rounds):
            print(f"round {number + 1}", flush=True)
            floors.append(floor(directory, WRITTEN))
            rounds.append(one_round(contenders, directory / str(number), loads, options))
    finally:
        shutil.rmtree(directory, ignore_errors=True)

    def values(kind, load, what):
        return [v for r in rounds for v in r[kind].get(load, {}).get(what, ())]

    def median(kind, load, what):
        return statistics.median(values(kind, load, what))
    peer = next((c for c in contenders if c.startswith("kafka")), None)
    ours = "weir" if "weir" in contenders else None
    bare = BARE if BARE in contenders else None

    def ratio(load, what, one, other, inverse=False):
        """Of the pieces that ran one after the other: their median, the least and the most."""
        pairs = list(zip(values(one, load, what), values(other, load, what))) if one and other else []
        if not pairs:
            return "-"
        all_of_them = sorted(b / a if inverse else a / b for a, b in pairs)
        return f"{statistics.median(all_of_them):.2f} ({all_of_them[0]:.2f}-{all_of_them[-1]:.2f})"
    print("\nProduce and consume, medians")
    heading = ["load"]
    for c in contenders:
        heading += [f"{c}: records/s", "per broker-CPU-s", "p50 / p99 / p99.9, ms", "peak RssAnon, MiB"]
    rows = [heading]
    ratios = [["load", "weir × Kafka", "weir × bare", "bare × Kafka", "weir × Kafka, lower p99"]]
    for n in [n for n in [*loads, CONSUME] if values(contenders[0], n, "records_per_second")]:
        row = [n]
        for c in contenders:
            if not values(c, n, "records_per_second"):
                row += ["-"] * 4
                continue
            latency = " / ".join(f"{median(c, n, k):.1f}" if values(c, n, k) else "-" for k in ("p50_ms", "p99_ms", "p999_ms"))
            row += [f"{median(c, n, 'records_per_second'):,.0f}", f"{median(c, n, 'records_per_cpu_second'):,.0f}", latency, mib(max(values(c, n, "peak")))]
        rows.append(row)
        ratios.append([n, *(ratio(n, "records_per_cpu_second", *pair) for pair in ((ours, peer), (ours, bare), (bare, peer))),
                       ratio(n, "p99_ms", ours, peer, True) if n.startswith("paced") else "-"])
    measure.print_table(rows)
    print("\nRatios of records per broker-CPU-second in neighbouring pieces: their median, the least and the most")
    measure.print_table(ratios)
    if values(contenders[0], FETCH, "wall"):
        print("\nPlaintext fetch of cached data, in turns with a bare sendfile loop over the same files")
        rows = [["who", "MiB/s", "sendfile loop, MiB/s", "ratio", "MiB per CPU-s", "sendfile loop, per CPU-s", "ratio", "growth of RssAnon, MiB"]]
        for c in (c for c in contenders if values(c, FETCH, "wall")):
            m = {k: median(c, FETCH, k) for k in ("wall", "bare_wall", "wall_ratio", "cpu", "bare_cpu", "cpu_ratio")}
            rows.append([c, f"{m['wall']:,.0f}", f"{m['bare_wall']:,.0f}", f"{m['wall_ratio']:.2f}", f"{m['cpu']:,.0f}", f"{m['bare_cpu']:,.0f}",
                         f"{m['cpu_ratio']:.2f}", f"{max(values(c, FETCH, 'growth')) / MIB:.1f}"])
        measure.print_table(rows)
    print("\nThe machine's floor, one thread")
    rows = [["work", "MiB/s", "MiB per CPU-second"]]
    for mode, what in (("receive", "receive in windows of 256 KiB"), ("crc", "+ CRC-32C"), ("append", "+ append to a file")):
        rows.append([what, *(f"{statistics.median(f[mode][k] for f in floors):,.0f}" for k in ("mib_per_second", "mib_per_cpu_second"))])
    measure.print_table(rows)
    for c in contenders:
        print(f"{c}: serves after {median(c, 'start', 'seconds'):.2f} s with {mib(median(c, 'start', 'rss'))} MiB")
    if options.report:
        Path(options.report).write_text(json.dumps({"rounds": rounds, "floors": floors}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    measure.in_venv()
    sys.exit(main())
