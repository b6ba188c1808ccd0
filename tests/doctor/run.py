#!/usr/bin/env python3
"""Drives a real Apache Kafka out of its direct memory, and holds `weir doctor` and `weir plan --jvm` against what they then
say; applies the cure that they name, does the same again, and wants to see nothing worse than a note; as with a broker at rest
on every JDK of this machine. The evidence is what `weir doctor capture` takes.
`--compare` must tell both runs apart to the byte, `--verify` must refuse the first and accept the second, and the alert rules
must be what Prometheus takes (held against promtool where it is installed).

    run.py                  needs what tests/setup.sh installs; WEIR_BIN names the binary
    --keep                  leaves the evidence where it is and says where
Ends with a line `N passed, N failed`; exit code 1 when anything failed."""

import argparse
import collections
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE.parent / "interop"), str(HERE)]
sys.dont_write_bytecode = True
import brokers
import browser

WEIR = os.environ.get("WEIR_BIN", str(ROOT / "target" / "release" / "weir"))
REQUEST = 40 << 20
LIMIT = 96 << 20
CAP = 1 << 20
NETWORK_THREADS = 4
# The first bytes of an HTTP request, taken for a size.
HTTP = f"(size = {struct.unpack('>i', b'GET ')[0]} larger than "
OPTIONS = ("-XX:MaxDirectMemorySize=96m", "-XX:NativeMemoryTracking=summary", "-XX:+HeapDumpOnOutOfMemoryError")
# What a capture asks the kernel.
KERNEL = ("/proc/self/status", "/proc/self/limits", "/proc/self/smaps_rollup", "/proc/self/cgroup", "/proc/self/maps",
          "/proc/meminfo", "/proc/sys/vm/max_map_count")
# What a capture takes, and nothing else.
TAKEN = {"proc-status.txt", "proc-limits.txt", "proc-smaps_rollup.txt", "cgroup.txt", "machine.txt", "server.properties",
         "VM.version.txt", "VM.flags.txt", "VM.flags-all.txt", "VM.command_line.txt", "VM.system_properties.txt",
         "GC.heap_info.txt", "VM.native_memory.txt", "Thread.print.txt", "GC.class_histogram.txt"}
SECRET = "not-for-others"
# The versions of the JDK whose texts the doctor knows.
JDKS = {"11", "17", "21", "25"}
# Findings about the machine that this runs on, which may have little memory or have had its processes killed for it.
OF_THE_MACHINE = {"container-limit", "map-count"}


def weir(*arguments, code=0):
    done = subprocess.run([WEIR, *map(str, arguments), "--format", "json"], capture_output=True, text=True, timeout=300)
    if done.returncode != code:
        raise SystemExit(f"weir {arguments[0]} ended with {done.returncode}, not {code}: {done.stderr}")
    return json.loads(done.stdout)


def burden(address, until, deadline=400):
    """Large requests of which only the first bytes come, requests in another language, and many small ones, which make the
    network threads look at the large ones again. Ends when `until()` holds; says whether it did."""
    host, port = address.split(":")

    def connect(payload):
        connection = socket.create_connection((host, int(port)), 60)
        connection.settimeout(60)
        connection.sendall(payload)
        return connection

    # The small ones are let go again, so that a slow machine does not run out of descriptors.
    small = collections.deque()
    held = [connect(struct.pack(">i", REQUEST) + b"\0\0\0\x09") for _ in range(8)]
    # Connections go to the threads in turn: one for each, because a thread that fails at a large request reads no other.
    held.extend(connect(b"GET / HTTP/1.1\r\n\r\n") for _ in range(NETWORK_THREADS))
    began = time.monotonic()
    try:
        while time.monotonic() - began < deadline:
            small.append(connect(struct.pack(">ihhih", 15, 18, 0, 1, 5) + b"ready"))
            if len(small) > 200:
                small.popleft().close()
            if until():
                return True
            time.sleep(0.1)
        return False
    finally:
        for connection in (*held, *small):
            connection.close()


def capture(pid, directory, *options):
    """Runs without a terminal, so without a question."""
    return subprocess.run([WEIR, "doctor", "capture", "--pid", str(pid), "-o", str(directory), *options],
                          capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=900)


def evidence_of(broker, directory, gc_log):
    """A capture with the logs beside it."""
    done = capture(broker.pid, directory, "--timeout", "300")
    if done.returncode != 0:
        raise SystemExit(f"the capture ended with {done.returncode}: {done.stdout}{done.stderr}")
    for file in (broker.log, gc_log):
        shutil.copy(file, directory)


def jmx_options(port):
    jmx = "-Dcom.sun.management.jmxremote"
    # With an address of its own, for a machine whose name nothing resolves.
    return (jmx, f"{jmx}.host=127.0.0.1", f"{jmx}.port={port}", f"{jmx}.ssl=false", f"{jmx}.authenticate=false",
            "-Djava.rmi.server.hostname=127.0.0.1")


def jmx_tool(port, *arguments):
    return ["java", "-cp", f"{brokers.INTEROP}/kafka-3.9.2/libs/*", "org.apache.kafka.tools.JmxTool",
            "--jmx-url", f"service:jmx:rmi:///jndi/rmi://127.0.0.1:{port}/jmxrmi", *arguments]


def series(port, file, rows=5, deadline=240):
    """The direct pool over time, as JmxTool writes it: one row after another until there are enough."""
    with open(file, "wb") as out:
        tool = subprocess.Popen(jmx_tool(port, "--reporting-interval", "200", "--object-name",
                                         "java.nio:type=BufferPool,name=direct"),
                                stdout=out, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
                                preexec_fn=brokers.die_with_parent)
    began = time.monotonic()
    try:
        # The head is a line, too.
        while file.read_bytes().count(b"\n") <= rows:
            if tool.poll() is not None or time.monotonic() - began > deadline:
                raise SystemExit(f"no series of the direct pool: {file.read_text()[:500]}")
            time.sleep(0.1)
    finally:
        tool.kill()
        tool.wait()
    # What was being written is no row.
    text = file.read_bytes()
    file.write_bytes(text[:text.rfind(b"\n") + 1])


def run(base, name, settings, options, until):
    """Kafka 3.9.2 under the burden; the folder with its evidence, and whether what was waited for came."""
    evidence, gc_log = base / name, base / f"{name}-gc" / "gc.log"
    gc_log.parent.mkdir()
    port = brokers.free_port()
    broker = brokers.Broker("kafka-3.9.2", base / f"{name}-broker", {"num.network.threads": str(NETWORK_THREADS), **settings}, heap="512m",
                            java_options=(*OPTIONS, *options, *jmx_options(port), f"-Xlog:gc*:file={gc_log}"))
    try:
        log = broker.log
        came = burden(broker.bootstrap, lambda: until(log.read_text(errors="replace")))
        series(port, gc_log.parent / "direct-pool")
        evidence_of(broker, evidence, gc_log)
        shutil.copy(gc_log.parent / "direct-pool", evidence)
    finally:
        broker.kill()
    return evidence, came


def jmx_text(port, directory):
    """What Kafka's own JmxTool prints in each of its formats."""
    beans = ("java.nio:type=BufferPool,name=direct", "kafka.network:type=SocketServer,name=MemoryPoolAvailable",
             "kafka.server:type=socket-server-metrics")
    for style in ("original", "properties", "csv", "tsv"):
        with open(directory / f"jmx-{style}", "wb") as out:
            subprocess.run(
                jmx_tool(port, "--one-time", "--report-format", style,
                         *(word for bean in beans for word in ("--object-name", bean))),
                stdout=out, stderr=subprocess.DEVNULL, check=True, timeout=300)


def jdks():
    """One home of each version of the JDK, the one on the path first."""
    homes = [Path(shutil.which("java")).resolve().parents[1]]
    homes += sorted({java.resolve().parents[1] for java in Path("/usr/lib/jvm").glob("*/bin/jcmd")})
    by_version = {}
    for home in homes:
        release = home / "release"
        for line in release.read_text().splitlines() if release.exists() else ():
            if line.startswith("JAVA_VERSION="):
                by_version.setdefault(line.split('"')[1].split(".")[0], home)
    for version in sorted(set(by_version) - JDKS):
        print(f"skipped: JDK {version}, whose texts are not among those that the doctor knows", flush=True)
    return {version: home for version, home in by_version.items() if version in JDKS}


def healthy(base, check, version, home):
    """A broker at its defaults, at rest, on one JDK."""
    evidence, port = base / f"healthy-{version}", brokers.free_port()
    gc_log = base / f"healthy-{version}-gc" / "gc.log"
    gc_log.parent.mkdir()
    path = os.environ["PATH"]
    os.environ["PATH"] = f"{home}/bin:{path}"
    try:
        broker = brokers.Broker("kafka-3.9.2", base / f"healthy-{version}-broker", {"ssl.keystore.password": SECRET},
                                heap="512m", java_options=(f"-Xlog:gc*:file={gc_log}", *jmx_options(port),
                                                           f"-Djavax.net.ssl.keyStorePassword={SECRET}"))
    finally:
        os.environ["PATH"] = path
    try:
        refused_captures(base, check, broker, version)
        evidence_of(broker, evidence, gc_log)
        jmx_text(port, evidence)
    finally:
        broker.kill()
    names = {file.name for file in evidence.iterdir() if not file.name.startswith("jmx-")}
    check(f"JDK {version}: a capture takes what it should", names == TAKEN | {"heap.hprof", "broker.log", "gc.log"}, names)
    leaks = [file.name for file in evidence.iterdir()
             if file.name in TAKEN and SECRET in file.read_text(errors="replace")]
    check(f"JDK {version}: no password is in its texts", not leaks, leaks)
    report = weir("doctor", evidence)
    unknown = [file["path"] for file in report["files"] if not file["kinds"]]
    check(f"JDK {version}: every file is recognised", not unknown, unknown)
    problems = [(file["path"], file["problems"]) for file in report["files"] if file["problems"]]
    check(f"JDK {version}: every line of a healthy broker is understood, JMX in all formats", not problems, problems)
    kinds = [file["kinds"] for file in report["files"] if "jmx-" in file["path"]]
    check(f"JDK {version}: JMX text is recognised", kinds == [["metrics"]] * 4, kinds)
    worse = worse_than_notes(report)
    check(f"JDK {version}: a healthy broker gets nothing worse than notes", not worse, worse)


def refused_captures(base, check, broker, version):
    """What a capture does not do, and what it does when the JVM does not answer."""
    def reason(done):
        return done.returncode, done.stderr.strip().splitlines()[-1:]

    for place in (broker.data / "capture", broker.data, broker.data / "__cluster_metadata-0" / "a" / "b"):
        before = sorted(path.name for path in broker.data.iterdir())
        done = capture(broker.pid, place)
        refused = done.returncode == 1 and ("keeps its logs" in done.stderr or "of Kafka's logs" in done.stderr)
        untouched = sorted(path.name for path in broker.data.iterdir()) == before
        check(f"JDK {version}: nothing is written to {place.name} of the broker's logs", refused and untouched, reason(done))
    full = base / f"full-{version}"
    full.mkdir()
    (full / "x").touch()
    done = capture(broker.pid, full)
    check(f"JDK {version}: a folder with something in it is refused", done.returncode == 1 and "not empty" in done.stderr,
          reason(done))
    done = capture(os.getpid(), base / f"no-jvm-{version}")
    check(f"JDK {version}: what is no JVM is left alone", done.returncode == 1 and "is no JVM" in done.stderr, reason(done))

    cheap = base / f"cheap {version}"
    done = capture(broker.pid, cheap, "--no-dump", "--timeout", "300")
    names = {file.name for file in cheap.iterdir()}
    check(f"JDK {version}: the cheap half has no dump", done.returncode == 0 and names == TAKEN, (reason(done), names))
    live = base / f"live {version}"
    done = capture(broker.pid, live, "--live", "--timeout", "300")
    check(f"JDK {version}: a path with a blank gets a dump", done.returncode == 0 and (live / "heap.hprof").exists(),
          reason(done))
    check(f"JDK {version}: the dump is warned of", "stops the JVM" in done.stderr and "passwords" in done.stderr, done.stderr)

    # A tool that cannot do one thing does the rest.
    tool = base / f"jcmd-{version}"
    tool.write_text(f"#!/bin/sh\ncase $2 in Thread.print) echo no such thing >&2; exit 7;; esac\n"
                    f"exec {os.readlink(f'/proc/{broker.pid}/exe').removesuffix('java')}jcmd \"$@\"\n")
    tool.chmod(0o755)
    part = base / f"part-{version}"
    done = capture(broker.pid, part, "--no-dump", "--jcmd", str(tool), "--timeout", "300")
    names = {file.name for file in part.iterdir()}
    check(f"JDK {version}: a call that fails does not stop the rest",
          done.returncode == 1 and names == TAKEN - {"Thread.print.txt"} | {"Thread.print.txt.failed"}
          and "Thread.print.txt.failed" in done.stderr, (reason(done), names))
    files = {Path(file["path"]).name: file for file in weir("doctor", part)["files"]}
    said = [problem["text"] for problem in files["Thread.print.txt.failed"]["problems"]]
    check(f"JDK {version}: and the report says what could not be taken", len(said) == 1 and "Thread.print" in said[0], said)

    # A process that stands still answers nothing, for certain.
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        done = capture(broker.pid, base / f"stopped-{version}", "--no-dump", "--timeout", "1")
    finally:
        os.kill(broker.pid, signal.SIGCONT)
    check(f"JDK {version}: a JVM that stands still costs the time-outs", done.returncode == 1 and "no answer within 1 s" in
          done.stderr and (base / f"stopped-{version}" / "proc-status.txt").exists(), reason(done))


class Checks:
    def __init__(self):
        self.passed = self.failed = 0

    def __call__(self, what, holds, seen=""):
        self.passed += bool(holds)
        self.failed += not holds
        print(f"{'ok  ' if holds else 'FAIL'} {what}" + ("" if holds else f": {seen}"), flush=True)


def by_id(report):
    return {finding["id"]: finding for finding in report["findings"]}


def worse_than_notes(report):
    worse = {finding["id"]: finding["title"] for finding in report["findings"] if finding["severity"] != "note"}
    for id in OF_THE_MACHINE & set(worse):
        print(f"skipped: a finding about this machine: {worse.pop(id)}", flush=True)
    return worse


def incident(base, check):
    evidence, came = run(base, "incident", {}, ("-Djdk.nio.maxCachedBufferSize=1m",),
                         lambda log: log.count("Processor got uncaught exception") >= 12 and HTTP in log)
    check("the broker fails again and again", came)
    report = weir("doctor", evidence)
    unknown = [file["path"] for file in report["files"] if not file["kinds"]]
    check("every file is recognised", not unknown, unknown)
    problems = [(file["path"], file["problems"]) for file in report["files"] if file["problems"]]
    check("every line is understood", not problems, problems)
    found = by_id(report)
    exhausted = found.get("direct-memory-exhausted", {})
    check("the failed request is named", f"{REQUEST:,} bytes" in exhausted.get("title", ""), exhausted)
    check("so are the threads", "network threads" in exhausted.get("cause", ""), exhausted)
    place = (exhausted.get("evidence") or [{"file": "", "line": 0}])[0]
    lines = (evidence / "broker.log").read_text(errors="replace").splitlines()
    cited = lines[place["line"] - 1] if 0 < place["line"] <= len(lines) else ""
    check("file and line are right", place["file"].endswith("broker.log") and "Cannot reserve" in cited, place)
    loop = found.get("failure-loop", {})
    files = {Path(proof["file"]).name for proof in loop.get("evidence", [])}
    check("the loop is seen in both logs", files == {"broker.log", "gc.log"}, files)
    foreign = found.get("foreign-protocol", {})
    check("the HTTP request is decoded", "an HTTP GET" in foreign.get("title", ""), foreign)
    check("the setting without effect is named", "cached-buffer-setting-ignored" in found, list(found))
    check("the flags that did not fire are named", found.get("oom-flags-silent", {}).get("severity") == "warning", found)
    kept = found.get("thread-buffers", {})
    says = [proof["says"] for proof in kept.get("evidence", [])]
    check("the dump names the threads and their bytes",
          any(f"network PLAINTEXT: 2 of 4 threads, {2 * REQUEST:,} bytes" in text for text in says), says)
    frees = {remedy["frees_bytes"] for remedy in kept.get("remedies", [])}
    check("and what the cure frees", 2 * REQUEST in frees, frees)
    dump = report["dumps"][0]
    check("its account is exact", dump["direct"]["exact"] and dump["conclusive"], dump["conclusions"])
    check("the limit in force is the flag", f"{LIMIT:,} bytes" in found.get("limit-in-force", {}).get("title", ""))
    browser.run([evidence], check)
    return evidence


def cured(base, check, properties):
    plan = weir("plan", "--jvm", properties, "--heap", "512m", "--direct", "96m", code=3)
    check("the plan says that it cannot fit", not plan["fits"] and plan["terms"][0]["breaks_limit"], plan)
    size = plan["fitting_socket_request_max_bytes"]
    better = weir("plan", "--jvm", properties, "--heap", "512m", "--direct", "96m",
                  "--override", f"socket.request.max.bytes={size}")
    check("with its own advice it fits", better["fits"], better)
    refused = f"Invalid receive (size = {REQUEST} larger than {size})"
    evidence, came = run(base, "cured", {"socket.request.max.bytes": str(size)},
                         (f"-Djdk.nio.maxCachedBufferSize={CAP}",), lambda log: log.count(refused) >= 8 and HTTP in log)
    check("the large requests are refused", came)
    report = weir("doctor", evidence)
    found = by_id(report)
    # Somebody still speaks HTTP to the port, and that is said.
    worse = worse_than_notes(report)
    check("nothing but the HTTP request is worse than a note", set(worse) == {"foreign-protocol"}, worse)
    return evidence


def compared(before, after, check):
    """What `--compare` says against the accounts of both dumps, one by one."""
    accounts = [weir("doctor", side)["dumps"][0] for side in (before, after)]
    found = weir("doctor", "--compare", before, after)

    def differ(rows, fields, key, of):
        """Numbers that are not those of the accounts, in either direction."""
        sides = [{key(row): row for row in account[of]} for account in accounts]
        wrong = [key(row) for row in rows for field in fields for side, name in zip(sides, ("before", "after"))
                 if row[field][name] != side.get(key(row), {}).get(field, 0)]
        missing = (set(sides[0]) | set(sides[1])) - {key(row) for row in rows}
        return wrong + sorted(missing)

    by_name = lambda row: row["name"]
    numbers = ("threads", "threads_with_bytes", "buffers", "sum_bytes", "max_bytes")
    wrong = differ(found["groups"], numbers, by_name, "groups")
    check("every group of threads compares as the two accounts have it", found["groups"] and not wrong, wrong)
    wrong = differ(found["kinds"], ("bytes", "buffers"), lambda row: (row["kind"], row["books"]), "lines")
    check("so does every kind", found["kinds"] and not wrong, wrong)
    threads = {}
    for account, side in zip(accounts, ("before", "after")):
        for thread in account["thread_buffers"]:
            of = threads.setdefault(thread["name"], {"before": 0, "after": 0})
            of[side] += thread["cached_bytes"] + thread["in_flight_bytes"]
    told = {row["name"]: {side: row["cached_bytes"][side] + row["in_flight_bytes"][side] for side in ("before", "after")}
            for row in found["threads"]}
    check("so does every thread", told == threads, (told, threads))
    unsigned = [row for name in ("figures",) for row in found[name] if row["change"] != row["after"] - row["before"]]
    check("changes are after less before", not unsigned, unsigned)
    changes = [abs(row["sum_bytes"]["change"]) for row in found["groups"]]
    check("the largest change comes first", changes == sorted(changes, reverse=True), changes)
    network = next(row for row in found["groups"] if row["name"] == "network PLAINTEXT")
    check("the network threads gave back what they kept",
          network["sum_bytes"]["before"] >= 2 * REQUEST and network["max_bytes"]["after"] <= CAP, network)
    figures = {row["id"]: row for row in found["figures"]}
    pools = [account["direct"]["counted_by_jvm"]["bytes"] for account in accounts]
    check("the pool's change is that of the JVM's own counters",
          figures["direct_bytes"]["change"] == pools[1] - pools[0], (figures["direct_bytes"], pools))
    settings = {row["name"]: (row["before"], row["after"]) for row in found["settings"]}
    check("the settings of the cure are named", settings.get("jdk.nio.maxCachedBufferSize") == ("1m", str(CAP))
          and settings.get("socket.request.max.bytes", ("",))[0] is None, settings)
    fates = {row["id"]: row["change"] for row in found["findings"]}
    wanted = {"direct-memory-exhausted": "gone", "failure-loop": "gone", "cached-buffer-setting-ignored": "gone",
              "foreign-protocol": "remains", "limit-in-force": "remains"}
    check("what ailed the broker is gone", {id: fates.get(id) for id in wanted} == wanted, fates)
    text = subprocess.run([WEIR, "doctor", "--compare", before, after], capture_output=True, text=True, timeout=300, check=True)
    change = f"{network['sum_bytes']['change']:,}"
    check("the text has the same change and fits its page",
          change in text.stdout and max(map(len, text.stdout.splitlines())) <= 100, text.stdout)


def verified(before, after, check):
    outcomes = lambda found: {row["id"]: row["outcome"] for row in found["checks"]}
    found = weir("doctor", "--verify", before, code=3)
    failed = {id for id, outcome in outcomes(found).items() if outcome == "fails"}
    wanted = {"direct-pool-below-70", "direct-pool-below-80", "no-reservation-failures", "cached-buffer-setting",
              "kept-fits-limit"}
    check("before the cure the checks fail that must", failed >= wanted, outcomes(found))
    found = weir("doctor", "--verify", after, "--require", "all")
    check("after it every check passes", set(outcomes(found).values()) == {"passes"}, outcomes(found))
    check("the series was judged", found["values_over_time"] >= 5 and found["ordered_by"] == "timestamps", found["ordered_by"])
    size = next(row for row in found["checks"] if row["id"] == "thread-buffer-size")["numbers"]
    check("the cap is the one in force", size["cap_bytes"] == CAP and size["largest_bytes"] <= CAP, size)
    found = weir("doctor", "--verify", after / "direct-pool", code=4)
    check("metrics without a limit are too little", found["verdict"] == "too_little_evidence", found["verdict"])
    found = weir("doctor", "--verify", after / "direct-pool", "--limit", LIMIT)
    check("with it they are enough", found["failed"] == 0 and found["passed"] == 5, outcomes(found))


def read_rules(text):
    """The rules of a file as [{key: value}], by the little of YAML that rule files need; anything else is an error."""
    rules, block = [], None
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.lstrip(" ")
        indent = len(line) - len(bare)
        if block is not None:
            if indent >= 10:
                rules[-1][block] += ("\n" if rules[-1][block] else "") + line[10:]
                continue
            block = None
        if not bare or bare.startswith("#"):
            continue
        if (indent, bare) in ((0, "groups:"), (2, "- name: weir-kafka-direct-memory"), (4, "rules:")):
            continue
        key, _, value = bare.removeprefix("- ").partition(": ")
        if indent == 6 and bare.startswith("- alert: "):
            rules.append({"alert": value})
        elif indent == 8 and bare == "expr: |-":
            block = "expr"
            rules[-1]["expr"] = ""
        elif indent == 8 and bare in ("labels:", "annotations:"):
            pass
        elif indent == 8 and key == "for" or indent == 10 and key == "severity":
            rules[-1][key] = value
        elif indent == 10 and key in ("summary", "description") and value[0] == value[-1] == "'":
            inside = value[1:-1]
            if "'" in inside.replace("''", ""):
                raise ValueError(f"line {number}: an open quote")
            rules[-1][key] = inside.replace("''", "'")
        else:
            raise ValueError(f"line {number} is no part of a rule file: {line!r}")
    return rules


def alerts(base, evidence, check):
    for language in ("en", "zh"):
        file = base / f"alerts-{language}.yml"
        subprocess.run([WEIR, "doctor", evidence, "--alerts", file, "--lang", language, "-o", base / "report.txt"],
                       check=True, timeout=300)
        text = file.read_text()
        rules = read_rules(text)
        levels = {rule["expr"].split()[-1]: rule["severity"] for rule in rules if "Percent" in rule["alert"]}
        check(f"the alert rules have the three levels ({language})",
              levels == {"0.7": "info", "0.8": "warning", "0.9": "critical"}, levels)
        check(f"their limit is the one in force ({language})", all(str(LIMIT) in rule["expr"] for rule in rules[:4]), rules)
        whole = {"alert", "expr", "for", "severity", "summary", "description"}
        check(f"each rule is whole ({language})", all(set(rule) == whole for rule in rules), rules)
        try:
            import yaml
        except ImportError:
            yaml = None
        if yaml:
            read = [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]
            flat = [{**{k: v for k, v in rule.items() if k not in ("labels", "annotations")}, **rule["labels"],
                     **rule["annotations"]} for rule in read]
            check(f"as YAML they are the same ({language})", flat == rules, flat)
        if promtool := shutil.which("promtool"):
            done = subprocess.run([promtool, "check", "rules", file], capture_output=True, text=True, timeout=300)
            check(f"promtool takes them ({language})", done.returncode == 0, done.stdout + done.stderr)


def fired(base, check):
    """What the rules do over time, by promtool: with a limit as a number, and with that of the heap's metric."""
    promtool = shutil.which("promtool")
    if not promtool:
        print("--   promtool is not installed: the rules were not run")
        return
    for name, limit in (("number", ("--limit", "1000m")), ("metric", ())):
        rules, test = base / f"rules-{name}.yml", base / f"test-{name}.yml"
        subprocess.run([WEIR, "doctor", "--alerts", rules, *limit], check=True, timeout=300)
        test.write_text((HERE / "alert-rules-test.yml").read_text().replace("RULES", rules.name))
        done = subprocess.run([promtool, "test", "rules", test.name], cwd=base, capture_output=True, text=True, timeout=300)
        check(f"the rules fire when they must and only then (limit as a {name})", done.returncode == 0, done.stdout + done.stderr)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--keep", action="store_true")
    arguments = arguments.parse_args()
    check = Checks()
    if untold := [file for file in KERNEL if not os.access(file, os.R_OK)]:
        print(f"skipped: this kernel does not tell {', '.join(untold)}: no capture is whole here")
        print("0 passed, 0 failed")
        return 0
    base = Path(tempfile.mkdtemp(prefix="weir-doctor-"))
    try:
        for version, home in jdks().items():
            healthy(base, check, version, home)
        before = incident(base, check)
        after = cured(base, check, before / "server.properties")
        compared(before, after, check)
        verified(before, after, check)
        alerts(base, before, check)
        fired(base, check)
    finally:
        if arguments.keep:
            print(f"evidence in {base}")
        else:
            shutil.rmtree(base, ignore_errors=True)
    print(f"{check.passed} passed, {check.failed} failed")
    return check.failed > 0


if __name__ == "__main__":
    sys.exit(main())
