#!/usr/bin/env python3
"""weir beside Apache Kafka 4.4.0 on this machine, in one run: records per broker-CPU-second, latency at paced
loads, peak anonymous memory, and fetches beside a bare sendfile loop.

    run.py [--rounds 2] [--seconds 8] [--only TEXT]   everything; about four minutes a round and contender
    run.py --quick                                    one round, short loads, fewer of them
    run.py --contenders weir,kafka-4.4.0              who takes part, in turns, each on a fresh directory
    run.py --report FILE                              everything as JSON

The load is librdkafka's (rdload.c) with its default linger. Absolute figures move from run to run; the ratios of
one run are what counts. Medians over the rounds."""

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
TOUCHED = 1 << 30  # bytes of memory touched before each piece of a load; a host may soon take back what lies free beyond it
# name: (arguments of rdload, seconds as a factor). Paced loads first, before the disk has much to write back.
LOADS = {
    "paced, 16 producers, 80 k/s of 1 KiB": dict(producers=16, size=1024, acks=1, rate=80000),
    "paced, 16 producers, 200 k/s of 100 B": dict(producers=16, size=100, acks=1, rate=200000),
    **{f"{n} producer{'s' if n > 1 else ''}, {'1 KiB' if size == 1024 else '100 B'}, acks={acks}": dict(producers=n, size=size, acks=acks)
       for size in (1024, 100) for n in (1, 16) for acks in ("1", "all")},
}
QUICK = ("paced", "1 producer, 1 KiB, acks=1", "16 producers, 1 KiB, acks=1", "16 producers, 100 B, acks=1")
CONSUME = "consume, 1 KiB, cached (librdkafka)"
FETCH = "fetch, 1 KiB, cached (raw reader)"


def produce(broker, load, seconds):
    """A load in pieces, none of which writes more than the memory that was touched just before it."""
    topic = f"load-{time.time_ns()}"
    measure.make_topic(broker.bootstrap, topic, PARTITIONS)
    arguments = [x for k, v in load.items() for x in (f"--{k}", v)]
    piece = min(seconds, TOUCHED / min(FASTEST, load.get("rate", FASTEST) * load["size"]))
    cpu, pieces = 0, []
    with Peak(broker.pid) as peak:
        for _ in range(round(seconds / piece)):
            subprocess.run(["sync"], check=True)
            measure.touch_machine(broker.data, TOUCHED)
            before = cpu_seconds(broker.pid)
            result = program("rdload", "produce", "--bootstrap", broker.bootstrap, "--topic", topic, "--seconds", piece, *arguments)
            cpu += cpu_seconds(broker.pid) - before
            if result["failed"] or not result["complete"]:
                raise RuntimeError(f"{broker.kind}: {result}")
            pieces.append(result)
    measure.drop_topic(broker.bootstrap, topic)
    time.sleep(1)  # its files go
    return {"records_per_cpu_second": sum(r["records"] for r in pieces) / max(cpu, 0.01), "peak": peak.peak,
            **{k: statistics.median(r[k] for r in pieces) for k in ("records_per_second", "p50_ms", "p99_ms", "p999_ms")}}


def consume(broker, seconds):
    """Cached data, by librdkafka and by a reader that costs next to nothing; then a bare sendfile loop over the
    very same files."""
    topic = f"read-{time.time_ns()}"
    measure.make_topic(broker.bootstrap, topic, PARTITIONS)
    program("rdload", "produce", "--bootstrap", broker.bootstrap, "--topic", topic, "--seconds", 4, "--producers", 4)
    time.sleep(1)
    out = {}
    before = cpu_seconds(broker.pid)
    with Peak(broker.pid) as peak:
        result = program("rdload", "consume", "--bootstrap", broker.bootstrap, "--topic", topic, "--partitions", PARTITIONS)
    cpu = cpu_seconds(broker.pid) - before
    out[CONSUME] = {"records_per_second": result["records_per_second"], "records_per_cpu_second": result["records"] / max(cpu, 0.01), "peak": peak.peak}
    before, at_rest = cpu_seconds(broker.pid), rss_anon(broker.pid)
    with Peak(broker.pid) as peak:
        result = program("fetch", "kafka", "--address", broker.bootstrap, "--topic", topic, "--partitions", PARTITIONS, "--seconds", seconds)
    cpu = cpu_seconds(broker.pid) - before
    out[FETCH] = {"mib_per_second": result["bytes"] / MIB / result["seconds"], "mib_per_cpu_second": result["bytes"] / MIB / max(cpu, 0.01),
                  "peak": peak.peak, "growth": peak.peak - at_rest}
    files = sorted(str(f) for f in broker.data.glob(f"{topic}-*/*.log"))
    server = subprocess.Popen([str(INTEROP / "bin" / "floor"), "serve", *files], stdout=subprocess.PIPE, text=True,
                              stdin=subprocess.DEVNULL, preexec_fn=measure.brokers.die_with_parent)
    try:
        port = server.stdout.readline().strip()
        before = cpu_seconds(server.pid)
        result = program("fetch", "stream", "--address", f"127.0.0.1:{port}", "--seconds", seconds)
        cpu = cpu_seconds(server.pid) - before
    finally:
        server.kill()
        server.wait()
    out[FETCH].update(floor_mib_per_second=result["bytes"] / MIB / result["seconds"], floor_mib_per_cpu_second=result["bytes"] / MIB / max(cpu, 0.01))
    measure.drop_topic(broker.bootstrap, topic)
    return out


def contend(kind, directory, loads, options):
    """One contender on a fresh directory: warmed up, then every load."""
    broker = measure.brokers.Broker(kind, directory / "broker", {"log.segment.delete.delay.ms": "500", "num.partitions": str(PARTITIONS)},
                                    budget=options.budget if kind == "weir" else None)
    results = {"start": {"rss": rss_anon(broker.pid), "seconds": broker.start_seconds}}
    try:
        # The same for both, though only one of them has a compiler to warm.
        for warm in (dict(producers=16, size=1024, acks=1), dict(producers=16, size=100, acks=1, rate=100000)):
            produce(broker, warm, options.warm)
        for name, load in loads.items():
            results[name] = produce(broker, load, options.seconds)
            r = results[name]
            print(f"  {kind}: {name}: {r['records_per_cpu_second']:,.0f} records per broker-CPU-second, {r['records_per_second']:,.0f}/s, "
                  f"p99 {r['p99_ms']:.1f} ms, {mib(r['peak'])} MiB", flush=True)
        if not options.only or any(o in "consume fetch" for o in options.only):
            results.update(consume(broker, options.seconds))
            r = results[FETCH]
            print(f"  {kind}: {FETCH}: {r['mib_per_cpu_second']:,.0f} MiB per broker-CPU-second, {r['mib_per_second']:,.0f} MiB/s; "
                  f"bare sendfile {r['floor_mib_per_cpu_second']:,.0f} and {r['floor_mib_per_second']:,.0f}", flush=True)
    finally:
        broker.stop()
        broker.remove()
    return results


def floor(directory, size):
    out = {}
    for mode in ("receive", "crc", "append"):
        measure.touch_machine(directory, size)
        out[mode] = program("floor", mode, "--bytes", size, "--file", directory / "floor")
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--contenders", default="kafka-4.4.0,weir")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--budget", default="64MiB", help="memory.budget.bytes of weir")
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--report")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds = 1, 4
    options.warm = 5 if options.quick else 10
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    loads = {n: v for n, v in LOADS.items() if (not options.quick or n.startswith(QUICK)) and (not options.only or any(o in n for o in options.only))}
    contenders = options.contenders.split(",")
    rounds, floors = {c: [] for c in contenders}, []
    directory = Path(tempfile.mkdtemp(prefix="weir-bench-"))
    try:
        for number in range(options.rounds):
            floors.append(floor(directory, TOUCHED))
            for kind in contenders if number % 2 == 0 else reversed(contenders):
                print(f"round {number + 1}, {kind}", flush=True)
                rounds[kind].append(contend(kind, directory, loads, options))
    finally:
        shutil.rmtree(directory, ignore_errors=True)

    def median(kind, load, what):
        values = [r[load][what] for r in rounds[kind] if load in r and what in r[load]]
        return statistics.median(values) if values else None
    peer = next((c for c in contenders if c.startswith("kafka")), None)
    ours = "weir" if "weir" in contenders else None

    def ratio(load, what, inverse=False):
        if not (peer and ours):
            return "-"
        a, b = median(ours, load, what), median(peer, load, what)
        return f"{(b / a if inverse else a / b):.2f}" if a and b else "-"
    print("\nProduce and consume, medians of", options.rounds, "rounds" if options.rounds > 1 else "round")
    heading = ["load"]
    for c in contenders:
        heading += [f"{c}: records/s", "per broker-CPU-s", "p50 / p99 / p99.9, ms", "peak RssAnon, MiB"]
    rows = [heading + ["× per CPU-s", "× lower p99"]]
    names = [n for n in [*loads, CONSUME] if any(median(c, n, "records_per_second") for c in contenders)]
    for n in names:
        row = [n]
        for c in contenders:
            latency = " / ".join(f"{median(c, n, k):.1f}" if median(c, n, k) is not None else "-" for k in ("p50_ms", "p99_ms", "p999_ms"))
            row += [f"{median(c, n, 'records_per_second'):,.0f}", f"{median(c, n, 'records_per_cpu_second'):,.0f}", latency, mib(median(c, n, "peak"))]
        rows.append(row + [ratio(n, "records_per_cpu_second"), ratio(n, "p99_ms", True) if n.startswith("paced") else "-"])
    measure.print_table(rows)
    if any(median(c, FETCH, "mib_per_second") for c in contenders):
        print("\nPlaintext fetch of cached data beside a bare sendfile loop over the same files")
        rows = [["who", "MiB/s", "sendfile loop, MiB/s", "ratio", "MiB per CPU-s", "sendfile loop, per CPU-s", "ratio", "growth of RssAnon, MiB"]]
        for c in contenders:
            values = [median(c, FETCH, k) for k in ("mib_per_second", "floor_mib_per_second", "mib_per_cpu_second", "floor_mib_per_cpu_second", "growth")]
            wall, floor_wall, cpu, floor_cpu, growth = values
            rows.append([c, f"{wall:,.0f}", f"{floor_wall:,.0f}", f"{wall / floor_wall:.2f}", f"{cpu:,.0f}", f"{floor_cpu:,.0f}", f"{cpu / floor_cpu:.2f}", f"{growth / MIB:.1f}"])
        measure.print_table(rows)
    print("\nThe machine's floor, one thread")
    rows = [["work", "MiB/s", "MiB per CPU-second"]]
    for mode, what in (("receive", "receive in windows of 256 KiB"), ("crc", "+ CRC-32C"), ("append", "+ append to a file")):
        rows.append([what, *(f"{statistics.median(f[mode][k] for f in floors):,.0f}" for k in ("mib_per_second", "mib_per_cpu_second"))])
    measure.print_table(rows)
    for c in contenders:
        starts = [r["start"] for r in rounds[c]]
        print(f"{c}: serves after {statistics.median(s['seconds'] for s in starts):.2f} s with {mib(statistics.median(s['rss'] for s in starts))} MiB")
    if options.report:
        Path(options.report).write_text(json.dumps({"rounds": rounds, "floors": floors}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    measure.in_venv()
    sys.exit(main())
