#!/usr/bin/env python3
"""Drives a real Apache Kafka out of its direct memory, and holds `weir doctor` and `weir plan --jvm` against what they then
says; applies the cure that they name, does the same again, and wants to see nothing worse than a note; as with a broker at rest.

    run.py                  needs what tests/setup.sh installs; WEIR_BIN names the binary
    --keep                  leaves the evidence where it is and says where
Ends with a line `N passed, N failed`; exit code 1 when anything failed."""

import argparse
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE.parent / "interop")]
sys.dont_write_bytecode = True
import brokers

WEIR = os.environ.get("WEIR_BIN", str(ROOT / "target" / "release" / "weir"))
REQUEST = 40 << 20
LIMIT = 96 << 20
# The first bytes of an HTTP request, taken for a size.
HTTP = f"(size = {struct.unpack('>i', b'GET ')[0]} larger than "
OPTIONS = ("-XX:MaxDirectMemorySize=96m", "-XX:NativeMemoryTracking=summary", "-XX:+HeapDumpOnOutOfMemoryError")
COMMANDS = ("VM.flags", "VM.flags -all", "VM.command_line", "VM.version", "VM.system_properties",
            "VM.native_memory summary", "GC.class_histogram", "GC.heap_info", "Thread.print")


def weir(*arguments):
    done = subprocess.run([WEIR, *map(str, arguments), "--format", "json"], capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise SystemExit(f"weir {arguments[0]} ended with {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def burden(address, until, deadline=180):
    """Large requests of which only the first bytes come, one request in another language, and many small ones, which make
    the network threads look at the large ones again. Ends when `until()` holds; says whether it did."""
    host, port = address.split(":")

    def connect(payload):
        connection = socket.create_connection((host, int(port)), 60)
        connection.settimeout(60)
        connection.sendall(payload)
        return connection

    held = [connect(struct.pack(">i", REQUEST) + b"\0\0\0\x09") for _ in range(8)]
    held.append(connect(b"GET / HTTP/1.1\r\n\r\n"))
    began = time.monotonic()
    try:
        while time.monotonic() - began < deadline:
            held.append(connect(struct.pack(">ihhih", 15, 18, 0, 1, 5) + b"ready"))
            if until():
                return True
            time.sleep(0.1)
        return False
    finally:
        for connection in held:
            connection.close()


def capture(broker, directory):
    for command in COMMANDS:
        with open(directory / command.replace(" ", "_"), "wb") as out:
            subprocess.run(["jcmd", str(broker.pid), *command.split(" ", 1)], stdout=out, stderr=subprocess.STDOUT,
                           check=True, timeout=300)
    subprocess.run(["jcmd", str(broker.pid), "GC.heap_dump", str(directory / "heap.hprof")], check=True, timeout=300,
                   stdout=subprocess.DEVNULL)
    for name in ("broker.log", "server.properties"):
        (directory / name).write_bytes((broker.dir / name).read_bytes())


def run(base, name, settings, options, until):
    """Kafka 3.9.2 under the burden; the folder with its evidence, and whether what was waited for came."""
    evidence = base / name
    evidence.mkdir()
    broker = brokers.Broker("kafka-3.9.2", base / f"{name}-broker", {"num.network.threads": "4", **settings}, heap="512m",
                            java_options=(*OPTIONS, *options, f"-Xlog:gc*:file={evidence / 'gc.log'}"))
    try:
        log = broker.log
        came = burden(broker.bootstrap, lambda: until(log.read_text(errors="replace")))
        capture(broker, evidence)
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
                ["java", "-cp", f"{brokers.INTEROP}/kafka-3.9.2/libs/*", "org.apache.kafka.tools.JmxTool", "--one-time",
                 "--jmx-url", f"service:jmx:rmi:///jndi/rmi://127.0.0.1:{port}/jmxrmi", "--report-format", style,
                 *(word for bean in beans for word in ("--object-name", bean))],
                stdout=out, stderr=subprocess.DEVNULL, check=True, timeout=300)


def healthy(base, check):
    """A broker at its defaults, at rest."""
    evidence, port = base / "healthy", brokers.free_port()
    evidence.mkdir()
    jmx = "-Dcom.sun.management.jmxremote"
    broker = brokers.Broker("kafka-3.9.2", base / "healthy-broker", heap="512m",
                            java_options=(f"-Xlog:gc*:file={evidence / 'gc.log'}", f"{jmx}.port={port}", f"{jmx}.ssl=false",
                                          f"{jmx}.authenticate=false", "-Djava.rmi.server.hostname=127.0.0.1"))
    try:
        capture(broker, evidence)
        jmx_text(port, evidence)
    finally:
        broker.kill()
    report = weir("doctor", evidence)
    problems = [(file["path"], file["problems"]) for file in report["files"] if file["problems"]]
    check("every line of a healthy broker is understood, JMX in all formats", not problems, problems)
    kinds = [file["kinds"] for file in report["files"] if "jmx-" in file["path"]]
    check("JMX text is recognised", kinds == [["metrics"]] * 4, kinds)
    worse = {finding["id"]: finding["title"] for finding in report["findings"] if finding["severity"] != "note"}
    check("a healthy broker gets nothing worse than notes", not worse, worse)


class Checks:
    def __init__(self):
        self.passed = self.failed = 0

    def __call__(self, what, holds, seen=""):
        self.passed += bool(holds)
        self.failed += not holds
        print(f"{'ok  ' if holds else 'FAIL'} {what}" + ("" if holds else f": {seen}"), flush=True)


def by_id(report):
    return {finding["id"]: finding for finding in report["findings"]}


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
    return evidence / "server.properties"


def cured(base, check, properties):
    plan = weir("plan", "--jvm", properties, "--heap", "512m", "--direct", "96m")
    check("the plan says that it cannot fit", not plan["fits"] and plan["terms"][0]["breaks_limit"], plan)
    size = plan["fitting_socket_request_max_bytes"]
    better = weir("plan", "--jvm", properties, "--heap", "512m", "--direct", "96m",
                  "--override", f"socket.request.max.bytes={size}")
    check("with its own advice it fits", better["fits"], better)
    refused = f"Invalid receive (size = {REQUEST} larger than {size})"
    evidence, came = run(base, "cured", {"socket.request.max.bytes": str(size)},
                         ("-Djdk.nio.maxCachedBufferSize=1048576",), lambda log: log.count(refused) >= 8 and HTTP in log)
    check("the large requests are refused", came)
    report = weir("doctor", evidence)
    found = by_id(report)
    # Somebody still speaks HTTP to the port, and that is said.
    worse = {id: finding["title"] for id, finding in found.items() if finding["severity"] != "note"}
    check("nothing but the HTTP request is worse than a note", set(worse) == {"foreign-protocol"}, worse)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--keep", action="store_true")
    arguments = arguments.parse_args()
    check = Checks()
    base = Path(tempfile.mkdtemp(prefix="weir-doctor-"))
    try:
        healthy(base, check)
        properties = incident(base, check)
        cured(base, check, properties)
    finally:
        if arguments.keep:
            print(f"evidence in {base}")
        else:
            shutil.rmtree(base, ignore_errors=True)
    print(f"{check.passed} passed, {check.failed} failed")
    return check.failed > 0


if __name__ == "__main__":
    sys.exit(main())
