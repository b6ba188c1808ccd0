"""Starts and stops the brokers under test: Apache Kafka (a single combined node) or weir, each in a fresh
directory on free ports with the same server.properties. A broker never outlives the process that started it."""

import ctypes
import fcntl
import functools
import os
import random
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
INTEROP = Path(os.environ.get("WEIR_INTEROP_DIR", ROOT / "target" / "interop"))
JAVA = Path(__file__).resolve().parent / "java"
KAFKA_VERSIONS = ("4.4.0", "3.9.2")

# Some tests write records of long ago, which retention would take from them when a round of it falls among them.
NO_RETENTION = {"log.initial.task.delay.ms": "86400000"}
# What kafka-run-class.sh passes when nobody says otherwise.
JVM_PERFORMANCE = ["-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
                   "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true"]
_LIBC = ctypes.CDLL(None, use_errno=True)


def die_with_parent():
    """Runs in the child between fork and exec: the kernel kills it when the parent thread ends."""
    _LIBC.prctl(1, signal.SIGKILL)


# The ports of this process, and the file whose bytes are locked for them.
_OURS, _LOCKS = set(), []


def free_port():
    """A port that nobody listens on and that is this process's until it ends, also while its server is down: a lock says so
    to the cases beside this one. Outside the range that outgoing connections are given theirs from, where there is room."""
    try:
        first_given = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except OSError:
        first_given = 32768
    if not _LOCKS:
        _LOCKS.append(os.open(Path(tempfile.gettempdir(), f"weir-ports-{os.getuid()}"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    while True:
        port = random.randrange(15000, first_given if first_given > 17000 else 60000)
        try:
            fcntl.lockf(_LOCKS[0], fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
            with socket.socket() as s:
                s.bind(("127.0.0.1", port))
        except OSError:
            continue
        if port not in _OURS:
            _OURS.add(port)
            return port


@functools.cache
def descriptors(wanted):
    """How many descriptors a process may have here: as many as `wanted`, or what the hard limit of this machine leaves."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard == resource.RLIM_INFINITY or hard >= wanted:
        return wanted
    raised = subprocess.run(["prlimit", f"--nofile={wanted}:{wanted}", "true"], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if raised.returncode == 0:
        return wanted
    print(f"not all of it: {wanted} descriptors are wanted, this machine allows {hard}", flush=True)
    return hard


def java_command(version, heap="256m", extra=(), part="kafka"):
    """`java` with the classes of one Kafka release and ours, up to and without the main class."""
    home = INTEROP / f"{part}-{version}"
    return ["java", f"-Xmx{heap}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *extra,
            f"-Dlog4j2.configurationFile={JAVA / 'log4j2.properties'}",
            f"-Dlog4j.configuration=file:{JAVA / 'log4j.properties'}",
            "-cp", f"{home / 'classes'}:{home / 'libs'}/*"]


def _exchange(address, api_key, api_version, body, timeout=10.0):
    host, port = address.rsplit(":", 1)
    header = struct.pack(">hhih", api_key, api_version, 1, 5) + b"ready"
    with socket.create_connection((host, int(port)), timeout) as s:
        s.settimeout(timeout)
        s.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
        answer = b""
        while len(answer) < 4 or len(answer) < 4 + struct.unpack(">i", answer[:4])[0]:
            more = s.recv(65536)
            if not more:
                raise OSError("closed")
            answer += more
        return answer[8:]


def is_ready(address):
    """True when the broker names itself in Metadata: then it serves."""
    try:
        answer = _exchange(address, 3, 1, struct.pack(">i", 0))
        return struct.unpack(">i", answer[:4])[0] >= 1
    except (OSError, struct.error):
        return False


class Broker:
    """A running broker. `bootstrap` is its address, `pid` the process to measure."""

    def __init__(self, kind, directory, overrides=None, heap="1g", budget=None, java_options=(), nofile=None,
                 prefix=(), format_options=(), ports=None, dynamic_quorum=False):
        """`prefix`: a command that runs the one behind it. `ports`: the broker's and the controller's."""
        self.kind, self.dir = kind, Path(directory)
        self.dir.mkdir(parents=True, exist_ok=True)
        self.port, controller = ports or (free_port(), free_port())
        self.bootstrap = f"127.0.0.1:{self.port}"
        self.log = self.dir / "broker.log"
        self.data = self.dir / "data"
        self.properties = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": str(self.data),
            "num.partitions": "4",
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "8",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
        }
        self.http = None
        if kind == "weir":
            self.http = f"127.0.0.1:{free_port()}"
            self.properties["http.listener"] = self.http
            if budget:
                self.properties["memory.budget.bytes"] = str(budget)
        self.properties.update(overrides or {})
        if dynamic_quorum:
            self.properties["controller.quorum.bootstrap.servers"] = f"127.0.0.1:{controller}"
        else:
            self.properties["controller.quorum.voters"] = f"{self.properties['node.id']}@127.0.0.1:{controller}"
        file = self.dir / "server.properties"
        file.write_text("".join(f"{k}={v}\n" for k, v in self.properties.items()))
        if kind == "weir":
            binary = Path(os.environ.get("WEIR_BIN", ROOT / "target" / "release" / "weir"))
            if not binary.exists():
                raise SystemExit(f"{binary} is missing: cargo build --release, or set WEIR_BIN")
            command = [str(binary), "server", str(file)]
        elif kind.startswith("kafka-") and kind[6:] in KAFKA_VERSIONS:
            version = kind[6:]
            # A directory that another server left is taken as it is.
            if not Path(self.properties["log.dirs"].split(",")[0], "meta.properties").exists():
                done = subprocess.run(
                    [*java_command(version), "kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qg",
                     "-c", str(file), *format_options], capture_output=True, text=True, stdin=subprocess.DEVNULL)
                if done.returncode != 0:
                    raise SystemExit(f"format of {kind} failed:\n{done.stdout}{done.stderr}")
            home = INTEROP / f"kafka-{version}"
            command = ["java", f"-Xmx{heap}", f"-Xms{heap}", *JVM_PERFORMANCE, *java_options,
                       f"-Dlog4j2.configurationFile={JAVA / 'log4j2.properties'}",
                       f"-Dlog4j.configuration=file:{JAVA / 'log4j.properties'}",
                       "-cp", f"{home / 'libs'}/*", "kafka.Kafka", str(file)]
        else:
            raise SystemExit(f"unknown broker {kind}: weir, " + ", ".join(f"kafka-{v}" for v in KAFKA_VERSIONS))
        if nofile:
            nofile = descriptors(nofile)
            command = ["prlimit", f"--nofile={nofile}:{nofile}", *command]
        self.command = [*prefix, *command]
        self.process = None
        self.start()

    def start(self, timeout=180):
        """Starts (or starts again) on the same directory and waits until it serves."""
        self.launch()
        began = time.monotonic()
        while not is_ready(self.bootstrap):
            if self.process.poll() is not None:
                raise SystemExit(f"{self.kind} ended with {self.process.returncode} at start:\n{self.tail()}")
            if time.monotonic() - began > timeout:
                self.kill()
                raise SystemExit(f"{self.kind} did not serve within {timeout} s:\n{self.tail()}")
            time.sleep(0.05)
        self.start_seconds = time.monotonic() - began

    def launch(self):
        """Starts (or starts again) on the same directory and waits for nothing."""
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            cwd=self.dir, preexec_fn=die_with_parent, start_new_session=True)

    @property
    def pid(self):
        return self.process.pid

    def tail(self, lines=30):
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def stop(self, timeout=120):
        """SIGTERM and wait; SIGKILL when that is not heeded. Returns the exit code."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()
        return self.process.returncode

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def remove(self):
        shutil.rmtree(self.dir, ignore_errors=True)


if __name__ == "__main__":
    # For a look by hand: brokers.py KIND DIRECTORY, until interrupted.
    broker = Broker(sys.argv[1], sys.argv[2], dict(a.split("=", 1) for a in sys.argv[3:]))
    print(f"{broker.kind} serves on {broker.bootstrap}, pid {broker.pid}, up in {broker.start_seconds:.1f} s", flush=True)
    try:
        signal.sigwait([signal.SIGINT, signal.SIGTERM])
    finally:
        print("stopped with", broker.stop())
