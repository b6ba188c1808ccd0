"""The small files beside the logs, and the metadata log: garbled, empty, missing, torn."""

import json
import random

import wire
from kit import case, check, equal
from weir import Weir, admin, checkpoint, fill, read_all, topic_of

CHECKPOINTS = ("recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint",
               "cleaner-offset-checkpoint")
GARBLED = (b"\0" * 64, b"0\n99\nt 0 5\n", b"0\n1\nt zero 5\n", b"\xff\xfe garbage \x80")


@case("small files", "checkpoints", seconds=16)
def checkpoints(test):
    server = Weir(test)
    topic = topic_of(test, server, partitions=2)
    acked = [fill(server, topic, 60, partition=p) for p in range(2)]
    for turn, content in enumerate((*GARBLED, b"", None)):
        server.kill() if turn % 2 else equal(server.stop(), 0, "exit code")
        files = [server.data / name for name in CHECKPOINTS]
        files += [server.partition(topic, p) / "leader-epoch-checkpoint" for p in range(2)]
        files += list(server.data.glob(f"{topic}-*/*.snapshot"))
        for file in files:
            file.unlink(missing_ok=True)
            if content is not None:
                file.write_bytes(content)
        server.start()
        for p in range(2):
            equal(read_all(server, topic, p), acked[p], f"records of partition {p} with {content!r}")
        if content:
            for name in (CHECKPOINTS[0], CHECKPOINTS[2], CHECKPOINTS[3]):
                check(server.said("WARN", name), f"no warning about {name} with {content!r}:\n{server.tail()}")
        acked[0] += fill(server, topic, 1, first=60 + turn)
    equal(server.stop(), 0, "exit code")
    equal(checkpoint(server, CHECKPOINTS[0])[(topic, 0)], 66, "recovery point after a clean stop")
    test.prove("all checkpoints, leader epochs and producer snapshots garbled, empty, missing, after both kinds of "
               "stop: a warning names each garbled one that is read, no record is lost")


@case("small files", "partition.metadata")
def partition_metadata(test):
    server = Weir(test)
    topic = topic_of(test, server, partitions=3)
    acked = [fill(server, topic, 30, partition=p) for p in range(3)]
    files = [server.partition(topic, p) / "partition.metadata" for p in range(3)]
    before = [file.read_text() for file in files]
    for stop in (server.stop, server.kill):
        stop()
        files[0].unlink()
        files[1].write_bytes(b"")
        files[2].write_bytes(b"\0" * 20)
        server.start()
        equal(server.dirs("*-stray"), [], "directories set aside")
        for p in range(3):
            equal(read_all(server, topic, p), acked[p], f"records of partition {p}")
            check(server.said("WARN", str(files[p])), f"no warning about {files[p]}")
        equal([file.read_text() for file in files], before, "the files, written anew")
    test.prove("missing, empty, garbled: written anew with a warning, every record is served")


@case("small files", "quorum-state")
def quorum_state(test):
    server = Weir(test)
    topic = topic_of(test, server)
    acked = fill(server, topic, 10)
    file = server.data / "__cluster_metadata-0" / "quorum-state"
    for content in (b"", b"\0" * 30, b"{\"leaderEpoch\": 99999999999}", None):
        server.kill()
        epoch = json.loads(file.read_bytes())["leaderEpoch"]
        file.unlink()
        if content is not None:
            file.write_bytes(content)
        server.start()
        equal(read_all(server, topic), acked, "records")
        equal(json.loads(file.read_bytes())["leaderEpoch"], epoch + 1, f"leader epoch after {content!r}")
    test.prove("empty, garbled, missing: the epoch is taken from the log and goes on, every topic is there")


@case("small files", "metadata log", seconds=14)
def metadata_log(test):
    server = Weir(test, overrides={"metadata.log.max.record.bytes.between.snapshots": "4000"})
    topics, here = [], server.data / "__cluster_metadata-0"
    seed = random.randrange(1 << 30)
    noise = random.Random(seed)
    for turn in range(8):
        topics.append(topic_of(test, server, f"t{turn}", partitions=3))
        acked = fill(server, topics[0], 5, first=5 * turn)
        server.kill()
        log = sorted(here.glob("*.log"))[-1]
        data = log.read_bytes()
        tail = [data[:40], b"\0" * 100, noise.randbytes(300), data[-60:], data[:-7][-90:]][turn % 5]
        log.write_bytes(data + tail)
        for junk in ("00000000000000099999-0000000009.checkpoint.part", "quorum-state.tmp",
                     "00000000000000000003-0000000001.checkpoint.deleted"):
            (here / junk).write_bytes(b"half")
        if turn % 2:
            # The newest snapshot is damaged: the log or an older one must tell the same, or the start says so.
            (here / f"{10**6:020}-0000000009.checkpoint").write_bytes(noise.randbytes(200))
        server.start()
        known = admin(server).list_topics(timeout=60).topics
        equal(sorted(t for t in topics if t not in known), [], f"topics lost in round {turn} (seed {seed})")
        for junk in here.glob("0000000000000*1000000-*"):
            junk.unlink()
        equal(len(read_all(server, topics[0])), 5 * (turn + 1), "records")
    check(list(here.glob("*.checkpoint")), "no snapshot was written")
    equal([p.name for p in here.glob("*.part")], [], "half-made snapshots")
    test.prove("torn tails, zeros and noise behind the metadata log, half-made and damaged snapshots: no topic is lost")
    check(acked, "nothing was produced")


@case("small files", "metadata log damaged inside")
def metadata_damaged(test):
    server = Weir(test)
    topics = [topic_of(test, server, f"t{n}") for n in range(4)]
    acked = fill(server, topics[3], 10)
    server.kill()
    [log] = (server.data / "__cluster_metadata-0").glob("*.log")
    good = log.read_bytes()
    places = wire.batches(good)
    middle = places[len(places) // 2]
    bad = bytearray(good)
    bad[middle[0] + 70] ^= 1
    log.write_bytes(bad)
    said = server.start_fails()
    check(str(log) in said and f"truncate -s {middle[0]}" in said, said)
    equal(log.read_bytes(), bytes(bad), "the damaged file")
    equal(server.dirs("*-stray"), [], "directories set aside")
    log.write_bytes(good)
    server.start()
    known = admin(server).list_topics(timeout=60).topics
    equal([t for t in topics if t not in known], [], "topics lost")
    equal(read_all(server, topics[3]), acked, "records")
    test.prove("a flipped byte with whole batches behind it is no torn tail: the start is refused and says where and how "
               "to mend it, nothing is cut off; on the mended file everything is there")
