#!/usr/bin/env python3
"""The memory attacks, with a well-behaved producer and group member beside them.

    attack.py --start weir [--budget 64MiB]      on a broker of its own; also kafka-4.4.0, kafka-3.9.2
    attack.py --bootstrap HOST:PORT --pid PID    on one that runs
    --only NAME      burst, burst-held, held-few, prefix, slow, idle, questions, greedy, hostile (may be given several times)
    --short          smaller and shorter variants, for every check
    --check          one process through all attacks, and weir's contract: peak within the budget, no errors, answers as they must be; exit code 1 if not
    --report FILE    everything as JSON

For each attack: peak anonymous memory (RssAnon, every 20 ms), what the attacker saw, errors and progress of the
well-behaved, and how long after it the memory was back at its base."""

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import measure
from measure import MIB, Peak, mib, program, rss_anon

# What the well-behaved wait for before they call it an error: far more than they need on a starved machine.
PATIENCE = {"api.version.request.timeout.ms": 120000, "socket.timeout.ms": 120000, "socket.connection.setup.timeout.ms": 120000}
DESCRIPTORS = 20000


def size(text):
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if text.endswith(unit):
            return int(text[:-3]) * factor
    return int(text)


class WellBehaved:
    """A producer of 50 records a second and a member of a group that reads them. Everything that is not as it
    should be is an error: a failed delivery, a lost or revoked partition, an error event, a record missing."""

    def __init__(self, bootstrap):
        from confluent_kafka import Consumer, Producer
        self.errors, self.sent, self.delivered, self.read = [], 0, 0, 0
        self.slowest, self.rebalances, self.stop = 0.0, 0, threading.Event()
        self.topic = f"well-behaved-{time.time_ns()}"
        measure.make_topic(bootstrap, self.topic, 1)

        def note(what):
            return lambda error, *_: self.errors.append(f"{what}: {error}")
        self.producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 5, "message.timeout.ms": 120000,
                                  **PATIENCE, "error_cb": note("producer"), "log_level": 0})
        self.consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": self.topic, "session.timeout.ms": 45000,
                                  **PATIENCE, "heartbeat.interval.ms": 1000, "auto.offset.reset": "earliest", "enable.auto.commit": False,
                                  "error_cb": note("member"), "log_level": 0})
        self.assigned = threading.Event()
        self.consumer.subscribe([self.topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked)
        self.threads = [threading.Thread(target=f, daemon=True) for f in (self._produce, self._consume)]
        for thread in self.threads:
            thread.start()
        if not self.assigned.wait(120):
            raise RuntimeError("the well-behaved member got no partition")

    def _assigned(self, consumer, partitions):
        self.assigned.set()
        self.rebalances += 1

    def _revoked(self, consumer, partitions):
        if not self.stop.is_set():
            self.errors.append(f"member: partitions revoked: {len(partitions)}")

    def _produce(self):
        def delivered(began):
            def done(error, message):
                if error:
                    self.errors.append(f"delivery: {error}")
                else:
                    self.delivered += 1
                    self.slowest = max(self.slowest, time.monotonic() - began)
            return done
        while not self.stop.is_set():
            try:
                self.producer.produce(self.topic, b"%d" % self.sent, on_delivery=delivered(time.monotonic()))
                self.sent += 1
            except BufferError:
                pass
            self.producer.poll(0.02)

    def _consume(self):
        commits = time.monotonic()
        while not self.stop.is_set():
            m = self.consumer.poll(0.1)
            if m is not None and m.error():
                self.errors.append(f"member: {m.error()}")
            elif m is not None:
                self.read += 1
            if self.read and time.monotonic() - commits > 1:
                commits = time.monotonic()
                try:
                    self.consumer.commit(asynchronous=False)
                except Exception as e:
                    self.errors.append(f"commit: {e}")

    def finish(self):
        """Stops producing; waits for what is on its way; returns the account."""
        deadline = time.monotonic() + 120
        self.threads_stop()
        self.producer.flush(max(1, deadline - time.monotonic()))
        last = -1
        while self.read < self.delivered and time.monotonic() < deadline:
            m = self.consumer.poll(1)
            if m is not None and not m.error():
                self.read += 1
            elif last == self.read and m is None and time.monotonic() > deadline - 60:
                break
            last = self.read
        if self.delivered < self.sent:
            self.errors.append(f"{self.sent - self.delivered} of {self.sent} records not delivered")
        if self.read < self.delivered:
            self.errors.append(f"{self.delivered - self.read} of {self.delivered} records not read")
        if self.rebalances != 1:
            self.errors.append(f"{self.rebalances} assignments instead of 1")
        # Leaving a group of a broker that does not answer would wait for ever.
        closing = threading.Thread(target=self.consumer.close, daemon=True)
        closing.start()
        closing.join(15)
        return {"sent": self.sent, "delivered": self.delivered, "read": self.read, "slowest_delivery_s": round(self.slowest, 3),
                "errors": len(self.errors), "first_errors": self.errors[:5]}

    def threads_stop(self):
        self.stop.set()
        for thread in self.threads:
            thread.join(60)


def burst(bootstrap, short, hold=0, few=None):
    count = few or (24 if short else 80)
    measure.make_topic(bootstrap, "attack", 79)
    try:
        seen = program("attack", "burst", "--address", bootstrap, "--topic", "attack", "--partitions", 79, "--connections", count,
                       "--hold-ms", hold, "--seconds", 540)
    finally:
        measure.drop_topic(bootstrap, "attack")
    cut = seen["cut_while_sending"] + seen["cut_while_holding"] + seen["cut_after_sending"]
    wrong = []
    if seen["bad_partitions"] or seen["good_partitions"] != seen["answered"] * 79:
        wrong.append(f"partitions: {seen['good_partitions']} good, errors {seen['errors']}")
    if seen["unanswered"]:
        wrong.append(f"{seen['unanswered']} connections neither answered nor closed")
    if seen["cut_after_sending"]:
        wrong.append(f"{seen['cut_after_sending']} closed without an answer after the whole request")
    if cut and not (hold and not few):
        wrong.append(f"{cut} connections cut")
    what = f"{seen['answered']} of {count} answered in {seen['last_answer_s']:.1f} s, {cut} cut, errors {seen['errors'] or 'none'}"
    return seen, what, wrong


def connections(count):
    """As many as that, or as this machine has descriptors for: the broker gives about half of its own to connections."""
    allowed = measure.brokers.descriptors(DESCRIPTORS)
    return count if allowed == DESCRIPTORS else min(count, allowed // 2 - 64)


def prefix(bootstrap, short):
    count = connections(1000)
    seen = program("attack", "prefix", "--address", bootstrap, "--connections", count, "--seconds", 5 if short else 20)
    wrong = [f"{seen['refused']} refused"] if seen["refused"] else []
    return seen, f"{count} promises of 100 MiB, {seen['cut']} cut", wrong


def slow(bootstrap, short):
    count = 50 if short else 100
    measure.make_topic(bootstrap, "attack", 4)
    try:
        loaded = program("rdload", "produce", "--bootstrap", bootstrap, "--topic", "attack", "--seconds", 1, "--size", 1024,
                         "--rate", 100000, "--set", "sticky.partitioning.linger.ms=5")
        seen = program("attack", "slow", "--address", bootstrap, "--topic", "attack", "--partitions", 4, "--connections", count,
                       "--seconds", 5 if short else 20)
    finally:
        measure.drop_topic(bootstrap, "attack")
    seen["loaded_bytes"] = loaded["bytes"]
    wrong = [f"{seen[k]} readers: {k}" for k in ("cut", "starved") if seen[k]]
    late = f" ({seen['below_half_of_the_rate']} of them late)" if seen["below_half_of_the_rate"] else ""
    return seen, f"{count} readers at 64 KiB/s{late}, {seen['cut']} cut, {seen['starved']} starved", wrong


def idle(bootstrap, short):
    count = connections(2000 if short else 10000)
    seen = program("attack", "idle", "--address", bootstrap, "--connections", count, "--seconds", 3 if short else 10)
    wrong = [f"{count - seen['alive']} of {count} connections dead"] if seen["alive"] != count else []
    return seen, f"{seen['alive']} of {count} alive", wrong


def questions(bootstrap, short):
    partitions = 1000 if short else 2500
    measure.make_topic(bootstrap, "attack", partitions)
    try:
        seen = program("attack", "questions", "--address", bootstrap, "--topic", "attack", "--partitions", partitions,
                       "--seconds", 6 if short else 20)
    finally:
        measure.drop_topic(bootstrap, "attack")
    wrong = [] if seen["alive"] else ["the broker does not answer ApiVersions afterwards"]
    return seen, f"{seen['connections']} connections that read nothing, {seen['closed_by_the_broker']} closed", wrong


def greedy(bootstrap, short):
    partitions = 1000
    measure.make_topic(bootstrap, "attack", partitions)
    try:
        seen = program("attack", "greedy", "--address", bootstrap, "--topic", "attack", "--partitions", partitions,
                       "--connections", 30 if short else 100, "--seconds", 6 if short else 20)
    finally:
        measure.drop_topic(bootstrap, "attack")
    wrong = [] if seen["alive"] else ["the broker does not answer ApiVersions afterwards"]
    return seen, f"{seen['sent_bytes'] >> 20} MiB of requests, {seen['closed_by_the_broker']} closed", wrong


def hostile(bootstrap, short, seed):
    measure.make_topic(bootstrap, "attack", 4)
    try:
        seen = program("attack", "hostile", "--address", bootstrap, "--topic", "attack", "--seed", seed, "--seconds", 5 if short else 20)
    finally:
        measure.drop_topic(bootstrap, "attack")
    wrong = [] if seen["alive"] else ["the broker does not answer ApiVersions afterwards"]
    return seen, f"{seen['frames']} frames, {seen['answers']} answers, {seen['closed_by_the_broker']} closed", wrong


def attacks(bootstrap, short, seed, hold_ms):
    return {
        "burst": ("one request of 79 × 1 MiB a connection, at once", lambda: burst(bootstrap, short)),
        "burst-held": (f"the same, last byte held back {hold_ms / 1000:g} s", lambda: burst(bootstrap, short, hold_ms)),
        "held-few": ("the same on 4 connections: nothing waits for memory, none is cut", lambda: burst(bootstrap, short, hold_ms, 4)),
        "prefix": ("size prefix of 100 MiB and four bytes, then a stall", lambda: prefix(bootstrap, short)),
        "slow": ("slow readers of 50 MiB fetches", lambda: slow(bootstrap, short)),
        "idle": ("idle connections", lambda: idle(bootstrap, short)),
        "questions": ("everything asked for, no answer read", lambda: questions(bootstrap, short)),
        "greedy": ("members of 1 MiB, commits of 4 KiB a partition, topics with long configs", lambda: greedy(bootstrap, short)),
        "hostile": ("hostile frames of every API", lambda: hostile(bootstrap, short, seed)),
    }


def back_at_base(pid, base, seconds=120):
    """Seconds until the memory is within a tenth and 4 MiB of its base; None when it does not come back."""
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        if rss_anon(pid) <= base * 1.1 + 4 * MIB:
            return round(time.monotonic() - began, 1)
        time.sleep(0.1)
    return None


def run(name, what, attack, bootstrap, pid, budget, base):
    before = rss_anon(pid)
    result = {"attack": name, "what": what, "before": before, "wrong": []}
    with Peak(pid) as peak:
        try:
            good = WellBehaved(bootstrap)
        except Exception as e:
            result.update(wrong=[f"the broker does not serve: {e}"], peak=peak.peak, seen="", well_behaved=None, back_after_s=None)
            return result
        time.sleep(1)
        began = time.monotonic()
        try:
            result["attacker"], result["seen"], wrong = attack()
            result["wrong"] += wrong
        except Exception as e:
            result["seen"] = f"{type(e).__name__}: {e}"[:300]
            result["wrong"].append(result["seen"])
        result["seconds"] = round(time.monotonic() - began, 1)
        result["well_behaved"] = good.finish()
    result["peak"] = peak.peak
    if result["well_behaved"]["errors"]:
        result["wrong"].append(f"the well-behaved had {result['well_behaved']['errors']} errors: {result['well_behaved']['first_errors']}")
    if budget and peak.peak > budget:
        result["wrong"].append(f"peak of {mib(peak.peak)} MiB is above the budget of {mib(budget)} MiB")
    result["back_after_s"] = back_at_base(pid, base)
    result["after"] = rss_anon(pid)
    if budget and result["back_after_s"] is None:
        result["wrong"].append(f"{mib(result['after'])} MiB afterwards, base {mib(base)} MiB")
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--start")
    parser.add_argument("--budget", default="64MiB")
    parser.add_argument("--override", action="append", default=[], metavar="K=V")
    parser.add_argument("--bootstrap")
    parser.add_argument("--pid", type=int)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--hold-ms", type=int, default=15000, help="longer than receive.stall.timeout.ms")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--report")
    options = parser.parse_args()
    if not options.start and not (options.bootstrap and options.pid):
        parser.error("--start, or --bootstrap with --pid")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    directory = Path(tempfile.mkdtemp(prefix="weir-attack-"))
    broker, results, ended = None, [], None
    budget = size(options.budget) if options.check else None
    try:
        def start(number):
            overrides = {"log.segment.delete.delay.ms": "1000", "socket.listen.backlog.size": "2000", **dict(o.split("=", 1) for o in options.override)}
            made = measure.brokers.Broker(options.start, directory / f"broker-{number}", overrides, budget=size(options.budget), nofile=DESCRIPTORS)
            options.bootstrap, options.pid = made.bootstrap, made.pid
            return made
        if options.start:
            broker = start(0)
        print(f"{options.start or options.bootstrap}, seed {options.seed}" + (f", budget {options.budget}" if options.start == "weir" else ""), flush=True)
        # The base: after one well-behaved pass, so that lazy parts exist.
        WellBehaved(options.bootstrap).finish()
        time.sleep(1)
        base = rss_anon(options.pid)
        if not base:
            print("this kernel does not say RssAnon: the memory is not judged", flush=True)
            budget = None
        print(f"base: {mib(base)} MiB", flush=True)
        todo = attacks(options.bootstrap, options.short, options.seed, options.hold_ms)
        for name in [n for n in todo if not options.only or n in options.only]:
            what, attack = todo[name]
            r = run(name, what, attack, options.bootstrap, options.pid, budget, base)
            results.append(r)
            good = r["well_behaved"]
            print(f"{'ok    ' if not r['wrong'] else 'FAILED' if options.check else 'hurt  '} {name}: peak {mib(r['peak'])} MiB; {r['seen']}; "
                  + (f"well-behaved: {good['delivered']} of {good['sent']} delivered, {good['errors']} errors, slowest {good['slowest_delivery_s']} s; " if good else "")
                  + (f"back at base after {r['back_after_s']} s" if r["back_after_s"] is not None else "not back at base"), flush=True)
            for w in r["wrong"]:
                print(f"       {w}", flush=True)
            if broker and not options.check and r["wrong"]:
                # A broker that an attack has hurt would say nothing about the next one.
                broker.kill()
                broker.remove()
                broker = start(len(results))
                todo = attacks(options.bootstrap, options.short, options.seed, options.hold_ms)
            elif broker and broker.process.poll() is not None:
                ended = broker.process.returncode
                print(f"FAILED the broker ended with {ended}\n{broker.tail()}", flush=True)
                break
        if broker and ended is None:
            code = broker.stop()
            if code not in (0, 143):
                ended = code
                print(f"FAILED the broker stopped with {code}\n{broker.tail()}")
    finally:
        if broker:
            broker.kill()
        shutil.rmtree(directory, ignore_errors=True)
    rows = [("attack", "peak RssAnon, MiB", "what the attacker saw", "well-behaved: delivered, errors, slowest", "back at base")]
    for r in results:
        good = r["well_behaved"] or {"delivered": 0, "sent": 0, "errors": "all", "slowest_delivery_s": "-"}
        rows.append((r["what"], mib(r["peak"]), r["seen"], f"{good['delivered']} of {good['sent']}, {good['errors']}, {good['slowest_delivery_s']} s",
                     f"{r['back_after_s']} s" if r["back_after_s"] is not None else "no"))
    print()
    measure.print_table(rows)
    if options.report:
        Path(options.report).write_text(json.dumps({"broker": options.start or options.bootstrap, "base": base, "attacks": results, "ended": ended}, indent=1) + "\n")
    failed = sum(bool(r["wrong"]) for r in results) + (ended is not None)
    if options.check:
        print(f"\n{len(results) - sum(bool(r['wrong']) for r in results)} passed, {failed} failed")
        return 1 if failed else 0
    return 0


if __name__ == "__main__":
    measure.in_venv()
    code = main()
    sys.stdout.flush()
    os._exit(code)  # clients of brokers that are gone are not waited for
