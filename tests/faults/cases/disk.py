"""A disk that refuses: full, limited, read-only, gone. Writes get a retriable error, reads go on, and everything
works again by itself once the fault is lifted."""

import os
import resource
import shutil
import signal
import subprocess
import time

import wire
from kit import Failed, Skipped, case, check, equal, wait_until
from weir import Load, Mount, Weir, admin, fill, read_all, topic_of

# What clients send a request again for: of a produce request, and of a group's commit.
RETRIABLE_COMMIT = (14, 15, 16)


class Everything:
    """A server with a load, a group and old records, before, during and after a fault."""

    def __init__(self, test, server):
        self.test, self.server = test, server
        self.old = topic_of(test, server, "old")
        self.records = fill(server, self.old, 300)
        self.probe = topic_of(test, server, "probe")
        self.load = Load(server, topic_of(test, server, "load", partitions=2))
        self.wire, self.commits = server.wire(), 0
        self.pid = server.pid
        self.probes = []
        wait_until(lambda: self.wire.find_coordinator("group") == 0, "a coordinator")
        wait_until(lambda: self.commit() == 0, "the first commit")
        self.load.grows()

    def commit(self):
        error = self.wire.commit("group", self.old, 0, self.commits + 1)
        self.commits += error == 0
        return error

    def produce(self, size=300):
        value = b"probe %d" % len(self.probes)
        error, base = self.wire.produce(self.probe, 0, wire.batch([value.ljust(size)]))
        if error == 0:
            self.probes.append((base, value.ljust(size)))
        return error

    def refuses(self, timeout=120):
        """Waits for the first refused append; it must be the error that producers send again for."""
        errors = []

        def refused():
            errors.append(self.produce())
            return errors[-1]
        wait_until(refused, "an append is refused", timeout, pause=0.001)
        equal(errors[-1], wire.STORAGE, "error of a refused append")

    def reads(self):
        equal(read_all(self.server, self.old), self.records, "old records during the fault")

    def commits_refused(self):
        def refused():
            error = self.commit()
            check(error in (0, *RETRIABLE_COMMIT), f"error {error} of a commit is none to send it again for")
            return error
        wait_until(refused, "a commit is refused", pause=0.001)

    def stands(self):
        """Writes are refused with errors that clients send again for, and reads go on."""
        self.refuses()
        self.commits_refused()
        self.reads()

    def works_again(self, timeout=120):
        """Everything works, without a restart."""
        began = time.monotonic()
        wait_until(lambda: self.produce() == 0, f"appends work again\n{self.server.tail()}", timeout)
        wait_until(lambda: self.commit() == 0, "commits work again", timeout)
        name = self.test.name("after")
        wait_until(lambda: self.server.wire().create_topic(name) in (0, 36), "topics can be made again", timeout)
        fill(self.server, name, 20)
        equal(self.server.pid, self.pid, "process")
        self.server.lives()
        wait_until(lambda: self.server.metric("weir_storage_read_only_logs") == 0, "no log is read-only", timeout)
        self.load.grows()
        return time.monotonic() - began

    def nothing_is_lost(self, power="kill"):
        """All that was acknowledged is there, also after a kill -9 and a start."""
        self.load.stop()
        for _ in range(2):
            self.load.verify(self.server, 2)
            found = dict(read_all(self.server, self.probe))
            equal([(o, v) for o, v in self.probes if found.get(o) != v], [], "lost answers")
            equal(self.server.wire().committed("group", self.old, 0), (0, self.commits), "committed offset")
            equal(read_all(self.server, self.old), self.records, "old records")
            getattr(self.server, power)()
            self.server.start()
            wait_until(lambda: self.server.wire().committed("group", self.old, 0)[0] == 0, "the group is loaded")


@case("disk", "full", seconds=15)
def full(test):
    with Mount(test.scratch / "disk", "-t", "tmpfs", "-o", "size=64m", "tmpfs") as disk:
        if not disk.allowed:
            raise Skipped("mounting a tmpfs is not allowed here")
        server = Weir(test, data=disk.path / "data")
        every = Everything(test, server)
        filler = disk.path / "filler"
        with open(filler, "wb", 0) as file:
            for size in (1 << 20, 4096):
                try:
                    while True:
                        file.write(b"\0" * size)
                except OSError:
                    pass
        every.stands()
        # The last page of the metadata log may have room for some.
        wait_until(lambda: every.wire.create_topic(test.name("during")) == wire.STORAGE, "a topic's creation is refused")
        check(server.metric("weir_storage_read_only_logs") > 0, "no log is read-only by the metric")
        check(server.metric("weir_storage_went_read_only_total") > 0, "not counted")
        equal(server.health(), 503, "health during the fault")
        check(server.said("ERROR", "No space left on device"), "nothing is said")
        time.sleep(1)
        filler.unlink()
        seconds = every.works_again()
        every.nothing_is_lost()
        test.prove("appends get KAFKA_STORAGE_ERROR, commits and new topics an error to retry, reads go on; all work "
                   f"again by themselves {seconds:.1f} s after there is room; nothing acknowledged is lost")


@case("disk", "file-size limit", seconds=15)
def file_size(test):
    server = Weir(test)
    every = Everything(test, server)
    # The server's own log is under the limit, too.
    server.limit(resource.RLIMIT_FSIZE, 1)
    every.stands()
    equal(every.wire.create_topic(test.name("during")), wire.STORAGE, "error of a topic's creation")
    check(server.metric("weir_storage_read_only_logs") > 0, "no log is read-only by the metric")
    time.sleep(1)
    server.lives()
    server.limit(resource.RLIMIT_FSIZE, None)
    seconds = every.works_again()
    every.nothing_is_lost()
    test.prove("SIGXFSZ does not end the process, nor does a log line that cannot be written; appends get "
               f"KAFKA_STORAGE_ERROR, reads go on; all work again {seconds:.1f} s after the limit is lifted; nothing is lost")


@case("disk", "read-only mount over the directory", seconds=15)
def read_only_mount(test):
    server = Weir(test)
    every = Everything(test, server)
    roller = topic_of(test, server, "roller", **{"segment.bytes": 1 << 20})
    doomed = topic_of(test, server, "doomed")
    with Mount(server.data, "--bind", str(server.data)) as over:
        if not over.allowed:
            every.load.stop()
            raise Skipped("bind mounts are not allowed here")
        if subprocess.run(["mount", "-o", "remount,bind,ro", str(server.data)], stdin=subprocess.DEVNULL).returncode:
            every.load.stop()
            raise Skipped("a bind mount cannot be made read-only here")
        one, errors, rolled = server.wire(), [], []
        value = wire.batch([b"r" * 300_000])

        def refused():
            errors.append(one.produce(roller, 0, value))
            rolled.extend(base for error, base in errors[-1:] if error == 0)
            return errors[-1][0]
        wait_until(refused, "an append that needs a new segment is refused")
        equal(errors[-1][0], wire.STORAGE, "error of an append that needs a new segment")
        new = test.name("new")
        code = server.wire().create_topic(new)
        check(code in (0, wire.STORAGE), f"error {code} of a topic's creation")
        if code == 0:
            equal(server.wire().produce(new, 0, wire.batch([b"x"]))[0], wire.STORAGE, "error of a partition without a log")
        equal(server.wire().fetch(new, 0, 0)[0] in (wire.STORAGE, 3), True, "error of its reads")
        admin(server).delete_topics([doomed])[doomed].result(60)
        every.reads()
        check(server.said("ERROR", "Read-only file system"), "nothing is said")
        time.sleep(1)
    every.works_again()
    wait_until(lambda: server.wire().produce(roller, 0, value)[0] == 0, "the log rolls again")
    wait_until(lambda: server.wire().create_topic(new) in (0, 36), "the new topic can be made")
    wait_until(lambda: server.wire().produce(new, 0, wire.batch([b"x"]))[0] == 0, "the new partition got its log")
    wait_until(lambda: not server.dirs(doomed + "-0"), lambda: f"the deleted partition is renamed: {server.dirs('*')}")
    equal(len(read_all(server, new)), 1, "records of the new partition")
    check(len(read_all(server, roller)) > len(rolled), "records of the rolled log")
    every.nothing_is_lost()
    equal(server.dirs("*-stray"), [], "stray directories")
    test.prove("what needs a new file gets KAFKA_STORAGE_ERROR, open logs and reads go on; afterwards segments roll, a "
               "topic made meanwhile gets its log, a topic deleted meanwhile goes, without a restart")


@case("disk", "file system gone read-only", seconds=15)
def read_only_file_system(test):
    image = test.scratch / "image"
    with open(image, "wb") as file:
        file.truncate(64 << 20)
    for tool in ("mkfs.ext4", "findmnt"):
        if not shutil.which(tool):
            raise Skipped(f"{tool} is missing")
    subprocess.run(["mkfs.ext4", "-q", "-O", "^has_journal", str(image)], check=True, stdin=subprocess.DEVNULL)
    options = ("-o", "loop,errors=remount-ro", str(image))
    with Mount(test.scratch / "disk", *options) as disk:
        if not disk.allowed:
            raise Skipped("mounting a loop device is not allowed here")
        found = subprocess.run(["findmnt", "-no", "SOURCE", str(disk.path)], capture_output=True, text=True)
        trigger = f"/sys/fs/ext4/{os.path.basename(found.stdout.strip())}/trigger_fs_error"
        if not os.access(trigger, os.W_OK):
            raise Skipped(f"there is no {trigger} to write to")
        server = Weir(test, data=disk.path / "data")
        every = Everything(test, server)
        durable = dict(every.load.acked)
        os.sync()
        with open(trigger, "w") as file:
            file.write("a test of what stands on it")
        every.stands()
        equal(every.wire.create_topic(test.name("during")), wire.STORAGE, "error of a topic's creation")
        check(server.said("ERROR", "Read-only file system"), "nothing is said")
        server.lives()
        began = time.monotonic()
        server.stop(timeout=120)
        check(server.process.returncode != -signal.SIGKILL, f"SIGTERM is not heeded within {time.monotonic() - began:.0f} s")
        every.load.stopping.set()
    with Mount(test.scratch / "disk", *options) as disk:
        server.start()
        found = {p: dict(read_all(server, every.load.topic, p)) for p in range(2)}
        lost = [place for place, value in durable.items() if found[place[0]].get(place[1]) != value]
        equal(lost, [], "records that were on the disk before")
        equal(read_all(server, every.old), every.records, "old records")
        server.kill()
    test.prove("after an error of the file system itself, which makes it read-only: KAFKA_STORAGE_ERROR, reads go on, "
               "SIGTERM ends the process, a start on the mended disk has everything that was on it")


@case("disk", "directory vanished", seconds=15)
def vanished(test):
    server = Weir(test)
    every = Everything(test, server)
    elsewhere = server.data.with_name("elsewhere")
    for _ in range(5):
        equal(every.produce(), 0, "error of an append before")
    server.data.rename(elsewhere)
    server.said_soon("ERROR", "log directory is offline", str(server.data))
    every.refuses()
    every.commits_refused()
    error, _, _, _, data = every.wire.fetch(every.probe, 0, 0)
    check(error == 0 and data, f"error {error} of a read whose file is open")
    equal(every.wire.create_topic(test.name("during")), wire.STORAGE, "error of a topic's creation")
    equal(server.metric("kafka_log_logmanager_offlinelogdirectorycount"), 1, "offline directories by the metric")
    equal(server.health(), 503, "health during the fault")
    check(not server.data.exists(), "the directory was made anew")
    time.sleep(1)
    elsewhere.rename(server.data)
    seconds = every.works_again()
    equal(server.metric("kafka_log_logmanager_offlinelogdirectorycount"), 0, "offline directories by the metric")
    every.nothing_is_lost()
    shutil.rmtree(server.data)
    one = server.wire()
    wait_until(lambda: one.produce(every.probe, 0, wire.batch([b"x"]))[0] == wire.STORAGE, "appends are refused")
    server.lives()
    check(server.stop(timeout=120) != -signal.SIGKILL, "SIGTERM is not heeded without a directory")
    test.prove("renamed away: appends, commits, new topics get an error to retry, open files are read; all work again "
               f"{seconds:.1f} s after it is back, nothing is lost; removed for good: appends are refused, SIGTERM ends it")


@case("descriptors", "too few while it runs", seconds=15)
def descriptors(test):
    server = Weir(test)
    every = Everything(test, server)
    new = [test.name("new") for _ in range(3)]
    server.limit(resource.RLIMIT_NOFILE, 16)
    codes = [every.wire.create_topic(name) for name in new]
    check(all(code in (0, wire.STORAGE) for code in codes), f"errors {codes} of creations")
    for name, code in zip(new, codes):
        if code == 0:
            error = every.wire.produce(name, 0, wire.batch([b"x"]))[0]
            check(error in (0, wire.STORAGE), f"error {error} of an append without descriptors")
    error, _, _, _, data = every.wire.fetch(every.old, 0, 0)
    check(error in (0, wire.STORAGE) and bool(data) == (error == 0), f"error {error} of a read")
    for _ in range(100):
        check(every.produce() in (0, wire.STORAGE), "error of an append")
    time.sleep(2)
    server.lives()
    server.limit(resource.RLIMIT_NOFILE, None)
    seconds = every.works_again()
    for name in new:
        wait_until(lambda: server.wire().create_topic(name) in (0, 36), "the topic can be made")
        wait_until(lambda: server.wire().produce(name, 0, wire.batch([b"x"]))[0] == 0, "its partition takes records")
    every.nothing_is_lost()
    test.prove("without a free descriptor: appends and reads work or get KAFKA_STORAGE_ERROR, the process lives; "
               f"{seconds:.1f} s after there are some, all works, topics made meanwhile too; nothing is lost")


@case("descriptors", "exhausted by connections", seconds=15)
def connections(test):
    server = Weir(test, prefix=["prlimit", "--nofile=256:256"])
    every = Everything(test, server)
    held = []
    try:
        for _ in range(400):
            try:
                held.append(server.wire())
            except OSError:
                pass
        wait_until(lambda: server.metric("weir_connections_refused_total") > 50, "connections are refused")
    except OSError as e:
        raise Failed(f"the metrics cannot be read any more: {e}")
    many = test.name("many")
    equal(every.wire.create_topic(many, 60), 0, "error of a topic with 60 partitions")
    for p in range(60):
        equal(every.wire.produce(many, p, wire.batch([b"x"]))[0], 0, f"error of an append to partition {p}")
    for p in range(60):
        equal(every.wire.fetch(many, p, 0)[0], 0, f"error of a read of partition {p}")
    every.load.grows()
    check(server.said("refused 127.0.0.1", "max.connections = 128"), "nothing is said")
    for connection in held:
        connection.close()
    every.works_again()
    every.nothing_is_lost()
    test.prove("400 connections where 256 descriptors are: the ones too many are refused with the limit named, logs keep "
               "theirs: 60 new partitions are made, written and read, the load goes on without an error")


@case("descriptors", "too few to start")
def start_with_few(test):
    server = Weir(test)
    topic = topic_of(test, server)
    acked = fill(server, topic, 10)
    server.stop()
    command = server.command
    server.command = ["prlimit", "--nofile=64:64", *command]
    said = server.start_fails()
    check("open descriptors is 64" in said and "ulimit -n" in said, said)
    server.command = command
    server.start()
    equal(read_all(server, topic), acked, "records")
    test.prove("refused with the limit, what is needed and how to raise it")
