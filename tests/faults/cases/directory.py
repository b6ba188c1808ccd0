"""A log directory: two servers on one, its identity lost, what crashes left in it."""

import shutil
import socket
import subprocess
from pathlib import Path

import brokers
import wire
from kit import Skipped, case, check, equal, wait_until
from weir import Mount, SEGMENT_BYTES, Weir, admin, checkpoint, files_of, fill, read_all, still, topic_of


@case("directory", "a second server")
def second_server(test):
    first = Weir(test)
    topic = topic_of(test, first)
    fill(first, topic, 100)
    before = still(first.data)
    text = (first.dir / "server.properties").read_text()
    text = text.replace(str(first.port), str(brokers.free_port())).replace(f"http.listener={first.http}", "http.listener=")
    other = test.scratch / "second.properties"
    other.write_text(text)
    done = subprocess.run([first.command[0], "server", str(other)], capture_output=True, text=True, timeout=120,
                          stdin=subprocess.DEVNULL)
    check(done.returncode == 1, f"exit code {done.returncode}\n{done.stderr[-1500:]}")
    check("in use by another process" in done.stderr and str(first.data) in done.stderr, done.stderr[-1500:])
    equal(files_of(first.data), before, "files after the second server")
    test.prove("refused with exit code 1 and its reason, not one byte in the directory changed")
    fill(first, topic, 100, first=100)
    equal(first.stop(), 0, "exit code of the first server on SIGTERM")
    first.start()
    equal(len(read_all(first, topic)), 200, "records")
    test.prove("the first one goes on, stops on SIGTERM and has all records")


@case("directory", "meta.properties")
def meta_properties(test):
    server = Weir(test)
    topic = topic_of(test, server)
    acked = fill(server, topic, 50)
    cluster = admin(server).list_topics(timeout=60).cluster_id
    equal(server.stop(), 0, "exit code")
    file = server.data / "meta.properties"
    for content in (b"", b"\0" * 40, b"version=1\n", None):
        file.unlink()
        if content is not None:
            file.write_bytes(content)
        before = files_of(server.data)
        said = server.start_fails()
        mend = ("write the file again", "cluster.id=") if content is None else ("restore the file",)
        check(str(file) in said and all(word in said for word in mend), said)
        equal(files_of(server.data), before, "files")
        file.touch()
    test.prove("empty, garbled, cut or missing: refused, the message says how to mend it, nothing is written")
    file.write_text(f"version=1\nnode.id=1\ncluster.id={cluster}\n")
    server.start()
    equal(read_all(server, topic), acked, "records")
    equal(admin(server).list_topics(timeout=60).cluster_id, cluster, "cluster id")
    test.prove("mended as the message says it starts with everything")


@case("directory", "a start that is refused")
def refused_start(test):
    server = Weir(test)
    topic = topic_of(test, server, partitions=2)
    acked = fill(server, topic, 50)
    equal(server.stop(), 0, "exit code")
    before = files_of(server.data)
    check(".kafka_cleanshutdown" in before, "the stop left no marker")
    taken = socket.create_server(("127.0.0.1", 0))
    for setting, words in ((f"listeners=PLAINTEXT://127.0.0.1:{taken.getsockname()[1]}", ("cannot listen on PLAINTEXT://",)),
                           (f"http.listener=127.0.0.1:{taken.getsockname()[1]}", ("http.listener", "another address")),
                           ("node.id=2", ("node.id",)), ("max.partitions=1", ("max.partitions",)),
                           ("memory.budget.bytes=16777216", ("memory.budget.bytes",))):
        done = subprocess.run([*server.command, "--override", setting, "--override", "controller.quorum.voters="],
                              capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
        check(done.returncode == 1, f"{setting}: exit code {done.returncode}\n{done.stderr[-1500:]}")
        check(all(word in done.stderr for word in words), f"{setting}: {done.stderr[-1500:]}")
        equal(files_of(server.data), before, f"files after a start with {setting}")
    taken.close()
    server.start()
    check(not server.said("after a stop that was not clean"), "the clean stop before the refused starts is forgotten")
    equal(read_all(server, topic), acked, "records")
    test.prove("a port in use, another node's id, more partitions than may be, too small a budget: exit code 1 and the reason, "
               "not one byte changed, and the next start finds the clean stop")


@case("directory", "an emptied mount point")
def emptied_mount_point(test):
    point, table = test.scratch / "disk", test.scratch / "fstab"
    point.mkdir()
    if not Path("/etc/fstab").exists():
        raise Skipped("there is no /etc/fstab to put another in the place of")
    table.write_text(f"# as an administrator writes it\n/dev/vdz1 {point} ext4 nofail 0 2\n")
    in_place = 'mount --bind "$0" /etc/fstab && exec "$@"'
    prefix = ["unshare", "--mount", "sh", "-c", in_place, str(table)]
    if subprocess.run([*prefix, "true"], capture_output=True, stdin=subprocess.DEVNULL).returncode != 0:
        raise Skipped("a mount namespace is not allowed here")
    with Mount(point, "-t", "tmpfs", "-o", "size=32m", "tmpfs") as disk:
        if not disk.allowed:
            raise Skipped("mounting a tmpfs is not allowed here")
        server = Weir(test, data=point / "log", prefix=prefix)
        topic = topic_of(test, server)
        acked = fill(server, topic, 50)
        equal(server.stop(), 0, "exit code")
        away = test.scratch / "away"
        shutil.copytree(point / "log", away)
    said = server.start_fails()
    check(f"{point} is a mount point in /etc/fstab on which nothing is mounted" in said, said)
    check("--override log.dirs.auto.format=true" in said, said)
    equal(list(point.iterdir()), [], "files below the mount point")
    with Mount(point, "-t", "tmpfs", "-o", "size=32m", "tmpfs"):
        shutil.copytree(away, point / "log")
        server.start()
        equal(read_all(server, topic), acked, "records")
        equal(server.stop(), 0, "exit code")
    server.command += ["--override", "log.dirs.auto.format=true"]
    server.start()
    equal(admin(server).list_topics(timeout=60).topics, {}, "topics of a first start that was asked for")
    test.prove("where /etc/fstab has a mount point above log.dirs on which nothing is mounted, a first start is refused and "
               "writes nothing; mounted again everything is there; log.dirs.auto.format=true starts all the same")


@case("directory", "leftovers")
def leftovers(test):
    server = Weir(test)
    topic = topic_of(test, server, **{"segment.bytes": SEGMENT_BYTES})
    acked = fill(server, topic, 320, size=10_000, one_by_one=True)
    server.kill()
    sealed = server.segments(topic)[0]
    stem = sealed.name[:20]
    here = server.partition(topic)
    for suffix in ("log", "index", "timeindex"):
        # As a crash leaves it between the two renames of a finished compaction: the original and its replacement.
        shutil.copy(here / f"{stem}.{suffix}", here / f"{stem}.{suffix}.swap")
    junk = [f"{'0' * 17}991.log.deleted", f"{stem}.index.deleted", f"{'0' * 17}999.log.cleaned", f"{stem}.snapshot.tmp",
            "leader-epoch-checkpoint.tmp", "partition.metadata.tmp"]
    for name in junk:
        (here / name).write_bytes(b"junk")
    for name in ("recovery-point-offset-checkpoint.tmp", "meta.properties.tmp"):
        (server.data / name).write_bytes(b"junk")
    deleted = server.data / ("gone-0." + "a" * 32 + "-delete")
    stray = server.data / ("lost-0." + "b" * 32 + "-stray")
    for directory in (deleted, stray):
        shutil.copytree(here, directory)
    server.start()
    equal(read_all(server, topic), acked, "records")
    left = [p.name for p in here.iterdir() if p.suffix in (".swap", ".deleted", ".cleaned", ".tmp")]
    equal(left, [], "leftovers in the partition's directory")
    wait_until(lambda: not deleted.exists(), "the -delete directory is removed")
    check((stray / sealed.name).exists(), "the -stray directory was touched")
    equal(server.stop(), 0, "exit code")
    server.start()
    equal(read_all(server, topic), acked, "records after a clean stop")
    test.prove(".swap finished, .deleted, .cleaned, .tmp and -delete removed, -stray kept, every record there")


@case("directory", "a topic's deletion that a crash cut off")
def cut_deletion(test):
    server = Weir(test)
    keep, gone = topic_of(test, server, "keep"), topic_of(test, server, "gone", 2)
    acked = fill(server, keep, 20)
    fill(server, gone, 20)
    for index in range(2):
        shutil.copytree(server.partition(gone, index), test.scratch / f"{gone}-{index}")
    foreign = server.data / "foreign-0"
    admin(server).delete_topics([gone])[gone].result(60)
    server.kill()
    # The removal is in the metadata log, and the crash came before the directories got their new names.
    for index in range(2):
        shutil.copytree(test.scratch / f"{gone}-{index}", server.partition(gone, index))
    shutil.copytree(test.scratch / f"{gone}-0", foreign)
    (foreign / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAw")
    server.start()
    wait_until(lambda: not server.dirs(gone + "-*") and not server.dirs("*-delete"),
               lambda: f"the deletion goes on: {server.dirs('*')}")
    equal([name[:9] for name in server.dirs("*-stray")], ["foreign-0"], "directories kept aside")
    equal(read_all(server, keep), acked, "records of the other topic")
    test.prove("the deletion goes on after the crash; a directory that no topic ever claimed is kept aside")


@case("directory", "crash loop", seconds=17)
def crash_loop(test):
    server = Weir(test)
    keep = topic_of(test, server, "keep")
    done = []
    for round_ in range(8):
        name = test.name(f"round{round_}")
        topic_of(test, server, name=name, partitions=4)
        done += fill(server, keep, 25, first=25 * round_)
        admin(server).delete_topics([name])[name].result(60)
        server.kill()
        if round_ >= 2:
            point = checkpoint(server, "recovery-point-offset-checkpoint").get((keep, 0), 0)
            check(point >= 25 * (round_ - 1), f"round {round_}: the recovery point is {point}: it never moves")
        piled = server.dirs("*-delete")
        check(len(piled) <= 8, f"round {round_}: {len(piled)} directories wait for their removal")
        server.start()
    wait_until(lambda: not server.dirs("*-delete"), lambda: f"-delete directories remain: {server.dirs('*')}")
    equal(server.dirs("*-stray"), [], "stray directories")
    equal(read_all(server, keep), sorted(done), "records")
    test.prove("8 crashes with seconds of uptime: no -delete directory left, recovery points moved each time")
    test.prove(f"serves {server.start_seconds * 1000:.0f} ms after the start that follows kill -9")



class SeveralDirectories:
    """A server with three log directories, the first of which has the metadata log, and eight partitions in them."""

    def __init__(self, test):
        self.dirs = [test.scratch / f"disk{i}" / "log" for i in range(3)]
        for path in self.dirs:
            path.parent.mkdir()
        self.server = Weir(test, data=self.dirs[0], overrides={"log.dirs": ",".join(map(str, self.dirs))})
        self.topic = topic_of(test, self.server, partitions=8)
        self.acked = {p: fill(self.server, self.topic, 20, partition=p) for p in range(8)}
        self.homes = {p: next(i for i, d in enumerate(self.dirs) if (d / f"{self.topic}-{p}").is_dir()) for p in range(8)}
        equal(len(set(self.homes.values())), 3, "directories that partitions are in")

    def reads(self, only=(0, 1, 2)):
        for partition, home in self.homes.items():
            if home in only:
                equal(read_all(self.server, self.topic, partition), self.acked[partition], f"records of partition {partition}")

    def out(self, home):
        """The partitions of a missing directory: no leader, no answer, and no second directory."""
        described = admin(self.server).list_topics(self.topic, timeout=60).topics[self.topic].partitions
        for partition in (p for p, where in self.homes.items() if where == home):
            equal((described[partition].leader, described[partition].error.code()), (-1, wire.NO_LEADER), "leader and error")
            one = self.server.wire()
            equal(one.produce(self.topic, partition, wire.batch([b"x"]))[0], wire.STORAGE, "error of an append")
            equal(one.fetch(self.topic, partition, 0)[0], wire.STORAGE, "error of a read")
            found = [d for d in self.dirs if (d / f"{self.topic}-{partition}").exists()]
            equal(found, [], f"directories of partition {partition}")
        equal(self.server.health(), 503, "health")
        equal(self.server.metric("kafka_log_logmanager_offlinelogdirectorycount"), 1, "offline directories by the metric")
        lines = [line for line in self.server.log.read_bytes()[self.server.log_before:].decode().splitlines() if " ERROR " in line]
        check(len(lines) < 6, f"{len(lines)} lines of errors: {lines[:8]}")
        check(self.server.said("ERROR", "a log directory is missing", "partitions=", f"{self.topic}-"), "nothing is said")


def emptied(path):
    for entry in path.iterdir():
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


@case("directory", "one of several is not there at the start", seconds=25)
def one_of_several(test):
    several = SeveralDirectories(test)
    server, gone = several.server, several.dirs[1]
    elsewhere = test.scratch / "elsewhere"
    for power, leaves_empty in (("stop", False), ("kill", True)):
        getattr(server, power)()
        gone.rename(elsewhere)
        if leaves_empty:
            gone.mkdir()
        server.start()
        several.reads(only=(0, 2))
        several.out(1)
        equal(gone.exists(), leaves_empty, "there is a directory in place of the missing one")
        check(not (gone / "meta.properties").exists(), "the place of the missing one was formatted")
        name = topic_of(test, server, "meanwhile", partitions=4)
        fill(server, name, 5, partition=3)
        # A second start without it knows no less than the first.
        server.kill()
        server.start()
        several.out(1)
        server.stop()
        if gone.exists():
            shutil.rmtree(gone)
        elsewhere.rename(gone)
        server.start()
        several.reads()
        equal(server.health(), 200, "health")
        equal([d for path in several.dirs for d in path.glob("*-stray")], [], "stray directories")
    test.prove("unmounted, renamed away or emptied: its partitions have no leader, KAFKA_STORAGE_ERROR, and come up nowhere "
               "else; the others serve, new topics are made; when it is back everything is there")


@case("directory", "none that can be used, or the wrong ones", seconds=15)
def no_directory(test):
    several = SeveralDirectories(test)
    server = several.server
    server.stop()
    for path in several.dirs:
        path.rename(path.with_name("away"))
    several.dirs[1].with_name("away").rename(several.dirs[1])
    said = server.start_fails()
    check("metadata log" in said and str(several.dirs[0]) in said and "mount it" in said, said)
    check(not (several.dirs[0] / "meta.properties").exists(), "the place of the metadata log was formatted")
    several.dirs[0].rmdir() if several.dirs[0].exists() else None
    for i in (0, 2):
        several.dirs[i].with_name("away").rename(several.dirs[i])
    metadata = several.dirs[0] / "__cluster_metadata-0"
    metadata.rename(test.scratch / "metadata")
    said = server.start_fails()
    check("metadata log" in said and f"{several.topic}-" in said, said)
    (test.scratch / "metadata").rename(metadata)
    server.start()
    several.reads()
    equal([d for path in several.dirs for d in path.glob("*-stray")], [], "stray directories")
    test.prove("without the directory of the metadata log, or without that log, the start is refused and says what to do")
    alone = Weir(test, name="alone", data=test.scratch / "data", overrides={"metadata.log.dir": str(test.scratch / "meta")})
    topic = topic_of(test, alone)
    acked = fill(alone, topic, 20)
    alone.stop()
    alone.data.rename(test.scratch / "away")
    said = alone.start_fails()
    check("no usable log directory" in said and str(alone.data) in said, said)
    shutil.rmtree(alone.data, ignore_errors=True)
    (test.scratch / "away").rename(alone.data)
    alone.start()
    equal(read_all(alone, topic), acked, "records")
    test.prove("a metadata log on its own disk and no other directory: refused, the directory is not made")


@case("directory", "a new one beside the old", seconds=15)
def new_directory(test):
    several = SeveralDirectories(test)
    server = several.server
    text = (server.dir / "server.properties").read_text()
    more = test.scratch / "disk3" / "log"
    old = ",".join(map(str, several.dirs))

    def restart(paths):
        server.stop()
        (server.dir / "server.properties").write_text(text.replace(old, ",".join(map(str, paths))))
        server.start()
    restart([*several.dirs, more])
    check((more / "meta.properties").exists(), "it was not formatted")
    check(not server.said("ERROR"), server.tail())
    topic_of(test, server, partitions=8)
    check(len(list(more.glob("*-[0-9]"))) >= 4, "the new directory is not filled first")
    several.reads()
    moved = next(p for p, home in several.homes.items() if home == 1)
    server.stop()
    shutil.move(several.dirs[1] / f"{several.topic}-{moved}", more)
    server.start()
    several.reads()
    server.stop()
    # Found in two places: the one that the metadata knows is it.
    shutil.copytree(more / f"{several.topic}-{moved}", several.dirs[0] / f"{several.topic}-{moved}")
    server.start()
    several.reads()
    equal(len(list(several.dirs[0].glob(f"{several.topic}-{moved}.*-stray"))), 1, "copies set aside")
    server.stop()
    home = next(p for p, where in several.homes.items() if where == 2)
    shutil.rmtree(several.dirs[2] / f"{several.topic}-{home}")
    server.start()
    check(server.said("ERROR", "directory is gone", f"{several.topic}-{home}"), "nothing is said of the lost partition")
    test.prove("a directory added to log.dirs is formatted and filled first; a partition moved by hand is found; of two "
               "directories of one partition the metadata's counts; one that was removed is complained about")
    disk = several.dirs[1]
    server.stop()
    cluster = next(line for line in (several.dirs[0] / "meta.properties").read_text().splitlines() if "cluster.id" in line)
    emptied(disk)
    server.start()
    check(server.said("ERROR", "only where it is lost for good"), "the way out is not told")
    server.stop()
    (disk / "meta.properties").write_text(f"version=1\nnode.id=1\n{cluster}\n")
    server.start()
    lost = [p for p, where in several.homes.items() if where == 1 and p != moved]
    for partition in lost:
        equal(server.wire().produce(several.topic, partition, wire.batch([b"x"]))[0], wire.STORAGE, "error of an append")
    fresh = topic_of(test, server, "fresh", partitions=12)
    check(list(disk.glob(f"{fresh}-*")), "nothing is put into the replaced directory")
    admin(server).delete_topics([several.topic])[several.topic].result(60)
    topic_of(test, server, name=several.topic, partitions=8)
    for partition in range(8):
        fill(server, several.topic, 1, partition=partition)
    equal(server.health(), 200, "health")
    test.prove("a disk lost for good is replaced by what the message says: its partitions stay out until their topic is "
               "deleted, new ones use it")
