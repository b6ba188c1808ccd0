#!/usr/bin/env python3
"""How long a broker takes to serve again: with many partitions after a clean stop, and after kill -9 with data that was
never flushed. Time runs from exec to the first answered Metadata and Produce. Contenders run one after the other in one
run, each on a directory of its own:

    python3 bench/start.py                                  # weir and Apache Kafka, 10,000 partitions each
    python3 bench/start.py --only weir --budget 64MiB --check

--check fails when weir takes 3 s or more after a clean stop, when its memory exceeds the budget, or when recovery reads
more than the unflushed tail and one segment header of each partition."""

import argparse
import json
import shutil
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import measure
from frames import Client, Unanswered, batch
from measure import MIB, Peak, mib, program, rss_anon

TOPIC_PARTITIONS = 1000
# Recovery looks at every log that is not known to be whole: at a window's worth of its end at least.
SCAN_PER_PARTITION = 4096


def size(text):
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if text.endswith(unit):
            return int(float(text[:-3]) * factor)
    return int(text)


def serves(address, topic, partition):
    """True when Metadata names the topic without an error and the partition takes a record."""
    client = Client(address)
    try:
        if topic not in client.topics([topic]):
            return False
        place = topic, partition
        error, _ = client.produce({place: batch([b"first after the start"], int(time.time() * 1000))})[place]
        return error == 0
    except (Unanswered, ValueError):
        return False
    finally:
        client.close()


def start(broker, topic, timeout=600):
    """Starts the broker and returns the seconds until it serves, and the peak of its anonymous memory until then."""
    began = time.monotonic()
    broker.launch()
    with Peak(broker.pid) as peak:
        while not serves(broker.bootstrap, topic, TOPIC_PARTITIONS - 1):
            if broker.process.poll() is not None:
                raise SystemExit(f"{broker.kind} ended with {broker.process.returncode} at start:\n{broker.tail()}")
            if time.monotonic() - began > timeout:
                raise SystemExit(f"{broker.kind} did not serve within {timeout} s:\n{broker.tail()}")
            time.sleep(0.01)
    return time.monotonic() - began, peak.peak


def log_bytes(broker):
    """Record bytes of all partitions on disk."""
    return sum(f.stat().st_size for f in broker.data.glob("*/*.log"))


def metric(broker, name):
    if not broker.http:
        return None
    page = urllib.request.urlopen(f"http://{broker.http}/metrics", timeout=30).read().decode()
    return next((int(float(line.split()[1])) for line in page.splitlines() if line.startswith(name + " ")), None)


def fill(broker, topic, seconds, rate):
    program("rdload", "produce", "--bootstrap", broker.bootstrap, "--topic", topic, "--seconds", seconds, "--size", 1024, "--rate", rate,
            "--set", "sticky.partitioning.linger.ms=5")


def contender(kind, options, directory, report):
    partitions = options.partitions if kind == "weir" else options.kafka_partitions or options.partitions
    overrides = {"log.segment.bytes": str(256 * MIB), "log.retention.ms": "-1", **dict(o.split("=", 1) for o in options.override)}
    if kind == "weir":
        # What is above the topics' own: the offsets topic and those of the load.
        overrides.setdefault("max.partitions", str(partitions + 100))
    print(f"{kind}: {partitions} partitions", flush=True)
    broker = measure.brokers.Broker(kind, directory, overrides, budget=size(options.budget), nofile=20000 if kind == "weir" else None)
    result = {"broker": kind, "partitions": partitions}
    report.append(result)
    try:
        topics = [f"start-{n}" for n in range(partitions // TOPIC_PARTITIONS)]
        began = time.monotonic()
        with Peak(broker.pid) as peak:
            for topic in topics:
                measure.make_topic(broker.bootstrap, topic, TOPIC_PARTITIONS)
            measure.make_topic(broker.bootstrap, "tail", 8)
            fill(broker, "tail", options.seconds, options.rate)
            # Until housekeeping has run over the logs.
            time.sleep(3)
        result.update(make_seconds=time.monotonic() - began, make_peak=peak.peak, open_anon=rss_anon(broker.pid))

        began = time.monotonic()
        code = broker.stop(timeout=300)
        if code not in (0, 143):
            raise SystemExit(f"{kind} stopped with {code}:\n{broker.tail()}")
        result["stop_seconds"] = time.monotonic() - began
        result["log_bytes"] = log_bytes(broker)

        result["clean_seconds"], result["clean_peak"] = start(broker, topics[-1])
        result["clean_scanned"] = metric(broker, "weir_storage_recovery_bytes_total")
        time.sleep(2)
        result["clean_anon"] = rss_anon(broker.pid)

        fill(broker, "tail", options.seconds, options.rate)
        broker.kill()
        result["tail_bytes"] = log_bytes(broker) - result["log_bytes"]
        result["killed_seconds"], result["killed_peak"] = start(broker, topics[-1])
        result["killed_scanned"] = metric(broker, "weir_storage_recovery_bytes_total")
        time.sleep(2)
        result["killed_anon"] = rss_anon(broker.pid)

        # Killed again before anything was flushed: the tail is as long as before.
        broker.kill()
        result["again_seconds"], _ = start(broker, topics[-1])
        result["again_scanned"] = metric(broker, "weir_storage_recovery_bytes_total")
        broker.stop(timeout=300)
    finally:
        broker.kill()
        broker.remove()
    return result


def wrong_with(result, options):
    wrong = []
    if result["clean_seconds"] >= 3:
        wrong.append(f"{result['clean_seconds']:.1f} s after a clean stop, the limit is 3")
    if result["clean_scanned"]:
        wrong.append(f"{result['clean_scanned']} bytes read after a clean stop, where nothing needs a check")
    limit = result["tail_bytes"] + result["partitions"] * SCAN_PER_PARTITION
    if result["killed_scanned"] > limit:
        wrong.append(f"{result['killed_scanned']} bytes read after kill -9, the tail allows for {limit}")
    for when in ("make_peak", "clean_peak", "killed_peak"):
        if result[when] > size(options.budget):
            wrong.append(f"{when}: {mib(result[when])} MiB is above the budget of {options.budget}")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--partitions", type=int, default=10000, help=f"a multiple of {TOPIC_PARTITIONS}")
    parser.add_argument("--kafka-partitions", type=int, help="fewer for Apache Kafka")
    parser.add_argument("--budget", default="256MiB", help="memory.budget.bytes of weir")
    parser.add_argument("--seconds", type=int, default=4, help="how long data is written before the stop and before the kill")
    parser.add_argument("--rate", type=int, default=50000, help="records of 1 KiB a second")
    parser.add_argument("--override", action="append", default=[], metavar="K=V")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--dir", help="where the brokers' directories are made")
    parser.add_argument("--report")
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="weir-start-", dir=options.dir))
    report = []
    try:
        for kind in options.only or ["weir", "kafka-4.4.0"]:
            contender(kind, options, directory / kind, report)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        if options.report:
            Path(options.report).write_text(json.dumps(report, indent=1) + "\n")
    rows = [("", *[r["broker"] for r in report])]
    scanned = lambda value: "" if value is None else f", {value / MIB:.1f} MiB read"
    for what, cell in [
        ("partitions", lambda r: r["partitions"]),
        ("start after a clean stop, s", lambda r: f"{r['clean_seconds']:.2f}{scanned(r['clean_scanned'])}"),
        ("log, MiB", lambda r: mib(r["log_bytes"])),
        ("unflushed tail, MiB", lambda r: mib(r["tail_bytes"])),
        ("start after kill -9 with that tail, s", lambda r: f"{r['killed_seconds']:.2f}{scanned(r['killed_scanned'])}"),
        ("start after kill -9 at once again, s", lambda r: f"{r['again_seconds']:.2f}{scanned(r['again_scanned'])}"),
        ("clean stop, s", lambda r: f"{r['stop_seconds']:.2f}"),
        ("RssAnon with all partitions made, MiB", lambda r: mib(r["open_anon"])),
        ("RssAnon after the clean start, MiB (peak)", lambda r: f"{mib(r['clean_anon'])} ({mib(r['clean_peak'])})"),
        ("RssAnon after the recovery, MiB (peak)", lambda r: f"{mib(r['killed_anon'])} ({mib(r['killed_peak'])})"),
    ]:
        rows.append((what, *[cell(r) for r in report]))
    print()
    measure.print_table(rows)
    wrong = [w for r in report if r["broker"] == "weir" for w in wrong_with(r, options)]
    for line in wrong:
        print(f"FAILED weir: {line}")
    return 1 if options.check and wrong else 0


if __name__ == "__main__":
    measure.in_venv()
    sys.exit(main())
