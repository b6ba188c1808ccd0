#!/usr/bin/env python3
"""Runs the test suites of foreign clients, as their authors wrote them, against a broker.

    run.py --start weir [--budget 64MiB]   a broker on a fresh directory for each suite; also kafka-4.4.0, kafka-3.9.2
    run.py --bootstrap HOST:PORT           a broker that runs already
    --only SUITE    franz-go, librdkafka, kafka-python (may be given several times)
    --test NAME     only this test of the chosen suites, listed or not (may be given several times)
    --logs DIR      keeps what the suites and the brokers printed
    --report FILE   the outcome as JSON; --table FILE renews the section of docs/clients.md
What runs is in SUITE.txt beside this file: a line a test, or `- NAME reason` for one that does not.
A test that fails is run once more, alone; that it passed at the second attempt is said, in the report too.
Ends with a line `N passed, N failed` and how many of them at the second attempt; exit code 1 when anything failed."""

import argparse
import concurrent.futures
import json
import re
import shlex
import shutil
import signal
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "interop"))
sys.dont_write_bytecode = True
import brokers
import runner

UPSTREAM = brokers.INTEROP / "upstream"
SECTION = "## Their own test suites"
# With more failures than this there is no second attempt: that is no race.
SECOND_ATTEMPTS = 10


class Listed:
    """SUITE.txt: the tests to run, and those left out with their reasons."""

    def __init__(self, suite):
        self.run, self.left_out = [], {}
        for line in (HERE / f"{suite}.txt").read_text().splitlines():
            line = line.split("#")[0].strip()
            if line.startswith("- "):
                name, _, reason = line[2:].strip().partition(" ")
                if not reason:
                    sys.exit(f"{suite}.txt: no reason given for leaving out {name}")
                self.left_out[name] = reason.strip()
            elif line:
                self.run.append(line)


def run(command, log, limit, env=None, cwd=None):
    """Runs a suite to its end and returns its output and whether it ended within `limit` seconds."""
    code = runner.run_to_end(command, log, limit, cwd, env)
    return Path(log).read_text(errors="replace"), code is not None


# Each suite: (tests, bootstrap, logs) -> {test: (passed, seconds, what went wrong)}. A test that did not report is missing.

def franz_go(tests, bootstrap, logs):
    # The chains of consumers move as many records as this; the authors' default of 500,000 takes ten times as long.
    env = {"KGO_SEEDS": bootstrap, "KGO_TEST_RF": "1", "KGO_TEST_RECORDS": "50000", "KGO_LOG_LEVEL": "none"}
    out, _ = run([UPSTREAM / "kgo.test", "-test.run", f"^({'|'.join(tests)})$", "-test.v", "-test.timeout", "880s", "-test.parallel", "4"],
                 logs / "franz-go.log", 900, env, logs)
    results = {}
    for state, name, seconds in re.findall(r"^--- (PASS|FAIL|SKIP): (\w+) \(([\d.]+)s\)", out, re.M):
        results[name] = (state == "PASS", float(seconds), f"{state}, see {logs / 'franz-go.log'}")
    return results


def librdkafka(tests, bootstrap, logs, scenario="default", mode=("-Q",)):
    home, conf = UPSTREAM / "librdkafka", logs / f"librdkafka-{scenario}.conf"
    # The multiplier is for a machine that is busy; a test that passes does not wait for it.
    conf.write_text(f"bootstrap.servers={bootstrap}\ntest.timeout.multiplier=3\ntest.topic.random=true\n")
    # Where the suite calls kafka-topics.sh, it gets Kafka's TopicCommand.
    script = logs / "kafka" / "bin" / "kafka-topics.sh"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(f"#!/bin/sh\nexec {shlex.join(brokers.java_command('4.4.0'))} org.apache.kafka.tools.TopicCommand \"$@\"\n")
    script.chmod(0o755)
    # With CI set the suite forgives a slow machine, and skips what no slow machine could pass; so everywhere alike.
    env = {"RDKAFKA_TEST_CONF": str(conf), "TEST_LEVEL": "1", "TEST_KAFKA_VERSION": "4.1.0", "LD_LIBRARY_PATH": f"{home / 'src'}:{home / 'src-cpp'}",
           "KAFKA_PATH": str(script.parents[1]), "BROKERS": bootstrap, "CI": "true"}

    def outcome(job):
        # A process for each, so that one that crashes or hangs takes none along. Tests are chosen by number, their parts
        # by a piece of the part's name.
        number, part = job
        out, ended = run(["./test-runner", "-p1", *mode, "-L", "-s", scenario],
                         logs / f"librdkafka-{scenario}-{number}{part}{'' if mode else '-whole'}.log", 300,
                         {**env, "TESTS": number, **({"SUBTESTS": part} if part else {})}, home / "tests")
        plain = re.sub(r"\x1b\[[0-9;]*m", "", out)
        why = " / ".join(re.findall(r"^### Test .*|^Test assertion failed: .*", plain, re.M)[:4])
        if part and not re.search(r": PASS \(", plain):
            return {}, f"no part {part} was run"
        rows = re.findall(r"^\| *(\w+) *\| *(\w+) *\| *([\d.]+)s *\|(.*)$", plain, re.M)
        # In quick mode some tests leave out all of their parts.
        idle = {name for name, state, seconds, _ in rows if state == "PASSED" and float(seconds) == 0}
        return ({name: (state == "PASSED" and name not in idle, float(seconds), "did nothing" if name in idle else f"{state}: {said.strip()} {why}")
                 for name, state, seconds, said in rows},
                "crashed" if ended else "no end within 300 s")

    jobs = list(dict.fromkeys((test[:4], test.partition("/")[2]) for test in tests))
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        outcomes = dict(zip(jobs, pool.map(outcome, jobs)))
    results = {}
    for test in tests:
        name, _, part = test.partition("/")
        rows, otherwise = outcomes[name[:4], part]
        results[test] = rows.get(name, (False, 0, otherwise))
    return results


def librdkafka_whole(tests, bootstrap, logs):
    return librdkafka(tests, bootstrap, logs, mode=())


def librdkafka_without_auto_creation(tests, bootstrap, logs):
    return librdkafka(tests, bootstrap, logs, "noautocreate", ())


def kafka_python(tests, bootstrap, logs):
    home, junit = UPSTREAM / "kafka-python", logs / "kafka-python.xml"
    files = {name: file for file in sorted((home / "test" / "integration").glob("test_*.py"))
             for name in re.findall(r"^def (test_\w+)", file.read_text(), re.M)}
    # The fixtures want a directory of a release, also for a broker that is there already.
    env = {"KAFKA_URI": f"PLAINTEXT://{bootstrap}", "KAFKA_VERSION": "4.3", "KAFKA_ROOT": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
    run([UPSTREAM / "venv" / "bin" / "python", "-m", "pytest", "-v", "-p", "no:cacheprovider", "--junitxml", junit,
         *(f"{files[t]}::{t}" for t in tests if t in files)], logs / "kafka-python.log", 900, env, home)
    results = {}
    for case in ElementTree.parse(junit).iter("testcase") if junit.exists() else ():
        wrong = [child for child in case if child.tag in ("failure", "error", "skipped")]
        said = f"{wrong[0].tag}: {wrong[0].get('message')}" if wrong else ""
        results[case.get("name")] = (not wrong, float(case.get("time") or 0), said[:1500])
    return results


# For each suite: the name of the list, what runs it, properties of its broker.
SUITES = {
    # One of its tests wants batches of 10 MiB, which at 64 MiB takes the room of connections that nobody makes.
    "franz-go": [("franz-go", franz_go, {"max.connections": "5000"})],
    # Some of its tests count on members that come together meeting in the first generation.
    "librdkafka": [("librdkafka", librdkafka, {"group.initial.rebalance.delay.ms": "1000"}),
                   ("librdkafka-whole", librdkafka_whole, {"group.initial.rebalance.delay.ms": "1000"}),
                   ("librdkafka-noautocreate", librdkafka_without_auto_creation, {"auto.create.topics.enable": "false"})],
    # Its tests place partitions on broker 0 and ask for sessions of 3 s.
    "kafka-python": [("kafka-python", kafka_python, {"node.id": "0", "group.min.session.timeout.ms": "1000"})],
}


def outcomes(tests, results):
    """{name: (passed, seconds, what went wrong)} of all tests; one with parameters reports once for each."""
    found = {}
    for test in tests:
        mine = {n: r for n, r in results.items() if n == test or n.startswith(test + "[")}
        found.update(mine or {test: (False, 0, "no outcome reported")})
    return found


def versions():
    go = (HERE.parent / "interop" / "go" / "go.mod").read_text()
    header = UPSTREAM / "librdkafka" / "src" / "rdkafka.h"
    number = re.search(r"RD_KAFKA_VERSION +0x(..)(..)(..)", header.read_text()) if header.exists() else None
    return {"franz-go": re.search(r"twmb/franz-go v(\S+)", go).group(1),
            "librdkafka": ".".join(str(int(part, 16)) for part in number.groups()) if number else "?",
            "kafka-python": re.search(r"^kafka-python==(\S+)", (HERE / "requirements.txt").read_text(), re.M).group(1)}


def table(report):
    lines = [SECTION, "", f"The clients' own tests against {report['broker']}, run by `tests/upstream/run.py`. What is left out, and why, is in the lists "
             "beside it and in [FINDINGS.md](../tests/upstream/FINDINGS.md).", "", "| suite | passed | left out |", "|---|---|---|"]
    for suite in report["suites"]:
        passed = sum(t["ok"] for t in suite["tests"])
        second = sum(t["ok"] and t["attempts"] > 1 for t in suite["tests"])
        lines.append(f"| {suite['name']} {suite['version']} | {passed} of {len(suite['tests'])}{f', {second} at the second attempt' if second else ''} | {suite['left_out']} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--start")
    parser.add_argument("--bootstrap")
    parser.add_argument("--budget", help="memory.budget.bytes for --start weir")
    parser.add_argument("--override", action="append", default=[], metavar="K=V", help="server property for --start")
    parser.add_argument("--only", action="append", default=[], choices=list(SUITES))
    parser.add_argument("--test", action="append", default=[])
    parser.add_argument("--logs")
    parser.add_argument("--report")
    parser.add_argument("--table")
    options = parser.parse_args()
    if not options.bootstrap and not options.start:
        parser.error("--bootstrap or --start is needed")
    if not (UPSTREAM / "venv").exists():
        sys.exit("not set up: run tests/setup.sh and tests/upstream/setup.sh")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    base = Path(options.logs or tempfile.mkdtemp(prefix="weir-upstream-")).resolve()
    base.mkdir(parents=True, exist_ok=True)
    report = {"broker": options.start or options.bootstrap, "suites": []}
    passed = failed = 0
    second = []
    broker = None
    try:
        for name in options.only or SUITES:
            suite = {"name": name, "version": versions()[name], "tests": [], "left_out": 0}
            report["suites"].append(suite)
            for listing, function, properties in SUITES[name]:
                listed = Listed(listing)
                tests = options.test or listed.run
                suite["left_out"] += len(listed.left_out)
                bootstrap = options.bootstrap
                if options.start:
                    properties = {**brokers.NO_RETENTION, **properties, **dict(o.split("=", 1) for o in options.override)}
                    broker = brokers.Broker(options.start, base / f"broker-{listing}", properties, budget=options.budget)
                    bootstrap = broker.bootstrap
                began = time.monotonic()
                found = outcomes(tests, function(tests, bootstrap, base))
                again = [n for n, (ok, _, _) in found.items() if not ok]
                if len(again) > SECOND_ATTEMPTS or broker and broker.process.poll() is not None:
                    again = []
                for n in again:
                    print(f"failed at the first attempt: {listing}/{n}\n       " + found[n][2].replace("\n", "\n       "), flush=True)
                    logs = base / f"second-{len(second)}"
                    logs.mkdir()
                    test = n.partition("[")[0]
                    ok, seconds, wrong = outcomes([test], function([test], bootstrap, logs)).get(n, (False, 0, "no outcome reported"))
                    second.append(f"{listing}/{n}")
                    found[n] = (ok, seconds, f"passed at the second attempt; at the first: {found[n][2]}" if ok else wrong)
                for n, (ok, seconds, wrong) in found.items():
                    twice = f"{listing}/{n}" in second
                    suite["tests"].append({"name": n, "ok": ok, "attempts": 1 + twice, "seconds": seconds, "error": wrong})
                    print(f"{'ok    ' if ok else 'FAILED'} {listing}/{n}  {seconds:.1f} s{', at the second attempt' if ok and twice else ''}", flush=True)
                    if not ok:
                        print("       " + wrong.replace("\n", "\n       "), flush=True)
                    passed, failed = passed + ok, failed + (not ok)
                print(f"{listing}: {time.monotonic() - began:.0f} s", flush=True)
                if broker:
                    died = broker.process.poll()
                    code = broker.stop()
                    if died is not None or code not in (0, 143):
                        failed += 1
                        print(f"FAILED the broker ended with {code}\n{broker.tail()}", flush=True)
                    shutil.rmtree(broker.data, ignore_errors=True)
                    broker = None
    finally:
        if broker:
            broker.kill()
        if options.logs or failed or second:
            print(f"logs are in {base}")
        else:
            shutil.rmtree(base, ignore_errors=True)
    if options.report:
        Path(options.report).write_text(json.dumps(report, indent=1) + "\n")
    if options.table:
        page = Path(options.table)
        page.write_text(page.read_text().split(SECTION)[0].rstrip() + "\n\n" + table(report))
    print(f"{passed} passed, {failed} failed; {len(second)} second attempts" + (": " + ", ".join(second) if second else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
