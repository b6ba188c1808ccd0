"""A log directory: two servers on one, its identity lost, what crashes left in it."""

import shutil
import subprocess

import brokers
from kit import case, check, equal, wait_until
from weir import SEGMENT_BYTES, Weir, admin, checkpoint, files_of, fill, read_all, still, topic_of


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
    done = subprocess.run([first.command[0], "server", str(other)], capture_output=True, text=True, timeout=20,
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
    cluster = admin(server).list_topics(timeout=10).cluster_id
    equal(server.stop(), 0, "exit code")
    file = server.data / "meta.properties"
    for content in (b"", b"\0" * 40, b"version=1\n", None):
        file.unlink()
        if content is not None:
            file.write_bytes(content)
        before = {k: v for k, v in files_of(server.data).items() if k != ".kafka_cleanshutdown"}
        said = server.start_fails()
        mend = ("write the file again", "cluster.id=") if content is None else ("restore the file",)
        check(str(file) in said and all(word in said for word in mend), said)
        equal({k: v for k, v in files_of(server.data).items() if k != ".kafka_cleanshutdown"}, before, "files")
        file.touch()
    test.prove("empty, garbled, cut or missing: refused, the message says how to mend it, nothing is written")
    file.write_text(f"version=1\nnode.id=1\ncluster.id={cluster}\n")
    server.start()
    equal(read_all(server, topic), acked, "records")
    equal(admin(server).list_topics(timeout=10).cluster_id, cluster, "cluster id")
    test.prove("mended as the message says it starts with everything")


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
    admin(server).delete_topics([gone])[gone].result(10)
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
        admin(server).delete_topics([name])[name].result(10)
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

