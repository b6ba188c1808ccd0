#!/usr/bin/env python3
"""Kills a weir server again and again under load, and holds it to everything that it has answered.

    run.py          on a fresh directory
    --seed N        the schedule and all of the load (default: a random one, which is printed)
    --rounds N      deaths in all (default 60; with --short 14)
    --short         for every check: fewer rounds, smaller logs; under three minutes
    --only NAME     rounds, tails or old-log (may be given several times)
    --report FILE   the outcome as JSON
    --keep          keeps the scratch directory

A round: load for a moment, a rush at its end, then kill -9, or kill -9 again during the recovery, or SIGTERM and kill -9 during the stop, or
a clean stop; then a start on the same directories, and every check of checks.py with the load going on. At the end
everything is answered, read once more, stopped cleanly, and judged by Kafka's own DumpLogSegments. Exit code 1 when
a promise was broken. How fast it serves again is reported, not judged, but for a limit on a hang."""

import argparse
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "interop")]
sys.dont_write_bytecode = True
import brokers

VENV = brokers.INTEROP / "venv" / "bin" / "python"
if Path(sys.prefix) != VENV.parents[1]:
    if not VENV.exists():
        sys.exit("not set up: run tests/setup.sh")
    os.execv(VENV, [str(VENV), *sys.argv])

import checks
import load
import tails
from frames import Client, Failure, Unanswered, batch, values_of

KILL, RECOVERY, STOP, CLEAN = "kill -9", "kill -9 in recovery", "kill -9 in stop", "clean stop"
DUMP_AT_ONCE = 600  # files for one JVM
HANG = 600  # seconds until a start or a stop counts as none


class Rounds:
    def __init__(self, options, base):
        self.options, self.random = options, random.Random(options.seed)
        self.dirs = [base / "broker" / "data" / name for name in ("a", "b")]
        overrides = {
            "log.dirs": ",".join(map(str, self.dirs)),
            "log.retention.check.interval.ms": "1000",
            "log.initial.task.delay.ms": "0",
            "offsets.topic.segment.bytes": str(1 << 20),
            # Snapshots of the metadata, while things die.
            "metadata.log.max.record.bytes.between.snapshots": "30000",
            "auto.create.topics.enable": "false",
        }
        self.broker = brokers.Broker("weir", base / "broker", overrides, budget=options.budget)
        self.client = Client(self.broker.bootstrap)
        self.ledger = load.Ledger(base)
        self.checker = checks.Checker(self.ledger, self.broker.bootstrap)
        self.starts, self.stops, self.served = [0.1], [0.05], []
        self.deaths = dict.fromkeys((KILL, RECOVERY, STOP, CLEAN), 0)
        self.load = None

    def schedule(self):
        """Every kind in turn, in a random order, so that a short run has them all."""
        while True:
            kinds = [KILL, KILL, RECOVERY, RECOVERY, STOP, STOP, CLEAN]
            self.random.shuffle(kinds)
            yield from kinds

    def run(self):
        tails.create(self.client, [load.PROBE[0]], 1, {})
        for topic, (count, configs) in load.TOPICS.items():
            tails.create(self.client, [topic], count, configs)
        self.load = load.Load(self.ledger, self.broker.bootstrap, self.options.seed)
        for number, kind in zip(range(1, self.options.rounds + 1), self.schedule()):
            began = time.monotonic()
            time.sleep(self.random.uniform(0.3, 2.0))
            self.load.rush(True)
            time.sleep(self.random.uniform(0.02, 0.25))
            how = self.die(kind)
            self.load.rush(False)
            seconds = serving(self.broker, self.client, self.ledger)
            self.served.append(seconds)
            self.starts.append(seconds)
            read = self.checker.records_read
            self.checker.check(self.load.admin)
            print(f"round {number:3}: {how}; serves after {seconds * 1000:.0f} ms; {self.checker.records_read - read:,} records "
                  f"read back; {time.monotonic() - began:.1f} s", flush=True)
            if self.ledger.failures:
                raise Failure(self.ledger.failures[0])
        self.finish()

    def die(self, kind):
        broker = self.broker
        if broker.process.poll() is not None:
            raise Failure(f"the broker ended by itself with {broker.process.returncode}:\n{broker.tail()}")
        self.deaths[kind] += 1
        if kind == CLEAN:
            began = time.monotonic()
            code = broker.stop(HANG)
            self.stops.append(time.monotonic() - began)
            if code != 0:
                raise Failure(f"clean stop: exit code {code}\n{broker.tail()}")
            return f"{kind} in {self.stops[-1] * 1000:.0f} ms"
        if kind == STOP:
            pause = self.random.uniform(0, 1.1 * statistics.median(self.stops))
            broker.process.terminate()
            time.sleep(pause)
            state = "was still stopping" if broker.process.poll() is None else "had stopped"
            broker.kill()
            return f"{kind} after {pause * 1000:.0f} ms ({state})"
        broker.kill()
        if kind == KILL:
            return kind
        pauses = []
        for _ in range(self.random.choice((1, 1, 2, 3))):
            broker.launch()
            pauses.append(self.random.uniform(0, 1.2 * statistics.median(self.starts)))
            time.sleep(pauses[-1])
            if broker.process.poll() is not None:
                raise Failure(f"the broker ended with {broker.process.returncode} at its start:\n{broker.tail()}")
            broker.kill()
        return f"{kind} after " + ", ".join(f"{p * 1000:.0f} ms" for p in pauses)

    def finish(self):
        self.load.finish(300)
        self.checker.check(self.load.admin, last=True)
        self.checker.all_answered()
        if self.ledger.failures:
            raise Failure(self.ledger.failures[0])
        self.die(CLEAN)
        serving(self.broker, self.client, self.ledger)
        self.checker.check(self.load.admin, last=True)
        self.no_leftovers()
        self.die(CLEAN)
        said = [line for line in self.broker.log.read_text(errors="replace").splitlines() if "panic" in line or " ERROR " in line]
        if said:
            raise Failure("the log has errors:\n" + "\n".join(said[:10]))
        self.files = dump(self.dirs)

    def no_leftovers(self):
        """Folders of partitions that there are, and of no others: what was to be deleted is deleted in the end."""
        shown = self.client.topics()
        wanted = {f"{topic}-{p}" for topic, (_, count) in shown.items() for p in range(count)} | {"__cluster_metadata-0"}
        deadline = time.monotonic() + 300
        while True:
            there = {entry.name for d in self.dirs for entry in d.iterdir() if entry.is_dir()}
            if there == wanted:
                return
            if time.monotonic() > deadline:
                raise Failure(f"folders left over: {sorted(there - wanted)[:10]}, missing: {sorted(wanted - there)[:10]}")
            time.sleep(0.2)

    def summary(self):
        served = sorted(s * 1000 for s in self.served)
        return {"deaths": self.deaths, "answered": self.ledger.counts, "records read": self.checker.records_read,
                "doubled by plain producers": self.checker.doubled,
                "dumped files": getattr(self, "files", 0),
                "serving again, ms": {"min": round(served[0]), "median": round(statistics.median(served)), "max": round(served[-1])}
                if served else None}


def serving(broker, client, ledger=None):
    """Starts the broker; returns the seconds from exec until Metadata, Produce (acks=all) and Fetch have succeeded."""
    client.close()
    broker.launch()
    began = time.monotonic()
    value = b"probe %d" % time.time_ns()
    while True:
        if broker.process.poll() is not None:
            raise Failure(f"the broker ended with {broker.process.returncode} at its start:\n{broker.tail()}")
        if time.monotonic() - began > HANG:
            raise Failure(f"the broker does not serve within {HANG} s:\n{broker.tail()}")
        try:
            if load.PROBE[0] not in client.topics([load.PROBE[0]]):
                raise Unanswered("no topic yet")
            error, offset = client.produce({load.PROBE: batch([value], int(time.time() * 1000))})[load.PROBE]
            if error:
                raise Unanswered(f"produce: error {error}")
            error, _, _, data = client.fetch(*load.PROBE, offset)
            if error:
                raise Unanswered(f"fetch: error {error}")
            if (offset, value) not in values_of(data):
                raise Failure(f"{load.PROBE} does not have at {offset} what was just acknowledged there")
            if ledger:
                ledger.probes.append((offset, value))
                ledger.count("probes")
            return time.monotonic() - began
        except Unanswered:
            client.close()
            time.sleep(0.002)


def dump(dirs):
    """Kafka's own reader over every file. Returns how many it read."""
    partitions = sorted(d for top in dirs for d in top.iterdir() if d.is_dir())
    files = {suffix: [f for d in partitions if d.name != "__cluster_metadata-0" for f in sorted(d.glob("*" + suffix))]
             for suffix in (".log", ".index", ".timeindex", ".txnindex", ".snapshot")}
    metadata = [d for d in partitions if d.name == "__cluster_metadata-0"]
    decoded = [f for d in metadata for pattern in ("*.log", "*.checkpoint") for f in sorted(d.glob(pattern))]
    indexes = files[".index"] + files[".timeindex"]
    offsets = [f for f in files[".log"] if f.parent.name.startswith("__consumer_offsets-")]
    jobs = [(["--deep-iteration"], files[".log"]), (["--verify-index-only"], indexes), (["--index-sanity-check"], indexes),
            ([], files[".snapshot"] + files[".txnindex"]), (["--cluster-metadata-decoder"], decoded), (["--offsets-decoder"], offsets)]
    count = 0
    for options, names in jobs:
        for at in range(0, len(names), DUMP_AT_ONCE):
            some = names[at:at + DUMP_AT_ONCE]
            done = subprocess.run([*brokers.java_command("4.4.0", "512m"), "org.apache.kafka.tools.DumpLogSegments", *options,
                                   "--files", ",".join(map(str, some))], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                                  preexec_fn=brokers.die_with_parent, timeout=600)
            complaints = [line for line in done.stderr.splitlines() if line.strip() and not known(line)]
            complaints += [line for line in done.stdout.splitlines() if "isvalid: false" in line or "invalid" in line.lower()
                           or "could not" in line.lower() or "not found" in line.lower() or "mismatch" in line.lower()]
            if done.returncode or complaints:
                raise Failure(f"DumpLogSegments {' '.join(options)} exits with {done.returncode}:\n" + "\n".join(complaints[:10]))
            count += len(some)
    return count


def known(line):
    """Complaints of 4.4.0 that are false or none: the first offset of a segment that does not begin at 0, loggers."""
    return line.startswith(("Non-consecutive offsets in", "SLF4J", "WARNING:")) or "-1 is followed by" in line or "StatusLogger" in line


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--only", action="append", choices=("rounds", "tails", "old-log"))
    parser.add_argument("--budget", default="64MiB", help="memory.budget.bytes of weir")
    parser.add_argument("--report")
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    options.rounds = options.rounds or (14 if options.short else 60)
    wanted = options.only or ["rounds", "tails", "old-log"]

    base = Path(tempfile.mkdtemp(prefix="weir-crash-"))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    began, report, failed, running = time.monotonic(), {"seed": options.seed}, [], []
    print(f"seed {options.seed}, {options.rounds} rounds, in {base}", flush=True)
    try:
        if "rounds" in wanted:
            rounds = Rounds(options, base / "rounds")
            running.append(rounds.broker)
            try:
                rounds.run()
            except Failure as e:
                failed.append(f"rounds: {e}")
            report["rounds"] = rounds.summary()
            for what, value in report["rounds"].items():
                print(f"{what}: " + (", ".join(f"{k} {v:,}" for k, v in value.items()) if isinstance(value, dict) else f"{value:,}"))
            rounds.broker.kill()
        for name, function in (("tails", tails.many_tails), ("old-log", tails.old_log)):
            if name not in wanted:
                continue
            # A budget that has room for the batches of 2,000 partitions and their logs.
            broker = brokers.Broker("weir", base / name, budget="128MiB")
            running.append(broker)
            client = Client(broker.bootstrap)
            try:
                tails.create(client, [load.PROBE[0]], 1, {})
                report[name] = function(broker, serving, options.short)
                print(f"{name}: {report[name]}", flush=True)
            except (Failure, Unanswered) as e:
                failed.append(f"{name}: {e}")
            broker.kill()
            if not options.keep:
                shutil.rmtree(broker.data, ignore_errors=True)
    finally:
        for broker in running:
            broker.kill()
        if options.keep or failed or sys.exc_info()[0]:
            print(f"files are in {base}")
        else:
            shutil.rmtree(base, ignore_errors=True)
    report.update(seconds=round(time.monotonic() - began), failed=failed)
    if options.report:
        Path(options.report).write_text(json.dumps(report, indent=1) + "\n")
    for text in failed:
        print(f"FAILED {text}")
    print(f"{report['seconds']} s; " + (f"{len(failed)} failed" if failed else "every promise was kept"), flush=True)
    sys.stdout.flush()
    os._exit(1 if failed else 0)  # clients' threads are not waited for


if __name__ == "__main__":
    main()
