"""Damage below the recovery point: indexes, holes, flipped bytes, zeros, the transaction index."""

import random
import shutil
import struct

import wire
from kit import Failed, case, check, equal, wait_until
from weir import SEGMENT_BYTES, Weir, fill, read_all, topic_of

COUNT, SIZE = 330, 10_000


def sealed_topic(test, server, partitions=1):
    """Partitions of three sealed segments and an active one; one record a batch."""
    topic = topic_of(test, server, partitions=partitions, **{"segment.bytes": SEGMENT_BYTES})
    acked = [fill(server, topic, COUNT, SIZE, p, one_by_one=True) for p in range(partitions)]
    for p in range(partitions):
        check(len(server.segments(topic, p)) >= 4, "too few segments")
    return topic, acked


@case("flushed segment", "indexes", seconds=14)
def indexes(test):
    server = Weir(test)
    seed = random.randrange(1 << 30)
    noise = random.Random(seed)

    def shifted(data):
        entries = [struct.unpack_from(">ii", data, at) for at in range(0, len(data) - 7, 8)]
        return b"".join(struct.pack(">ii", offset, entries[(i + 7) % len(entries)][1])
                        for i, (offset, _) in enumerate(entries))
    harm = {
        "noise": lambda data: noise.randbytes(len(data)),
        "zeros": lambda data: b"\0" * len(data),
        "half": lambda data: data[:len(data) // 16 * 8],
        "half an entry more": lambda data: data + b"\0\0\1",
        "positions of others": shifted,
        "nothing": lambda data: b"",
        "missing": None,
    }
    topic, acked = sealed_topic(test, server, len(harm))
    equal(server.stop(), 0, "exit code")
    for p, damage in enumerate(harm.values()):
        for file in server.segments(topic, p)[:-1]:
            for suffix in (".index", ".timeindex"):
                index = file.with_suffix(suffix)
                data = index.read_bytes()
                index.unlink()
                if damage is not None:
                    index.write_bytes(damage(data))
    server.start()
    one = server.wire()
    for p, what in enumerate(harm):
        for offset in (0, 1, 57, 104, 105, 106, 150, 207, 300, COUNT - 1):
            error, _, _, _, data = one.fetch(topic, p, offset, 1)
            check(error == 0 and data, f"offset {offset} of a segment with an index of {what} (seed {seed}): error {error}")
            equal(struct.unpack_from(">q", data)[0], offset, f"what a fetch of {offset} begins with, {what}, seed {seed}")
            equal(one.offset_for(topic, p, wire.TIME + offset), (0, offset), f"offset by time, {what}, seed {seed}")
        equal(read_all(server, topic, p), acked[p], f"records with an index of {what} (seed {seed})")
    check(server.metric("weir_storage_index_rebuilds_total") > 0, "no index was rebuilt")
    check(server.said("WARN", "rebuilding it from the log"), "nothing is said of it")
    test.prove("indexes of " + ", ".join(harm) + f": every one of {COUNT} records read, every offset and time found")


@case("flushed segment", "cut short")
def cut_short(test):
    server = Weir(test)
    topic, [acked] = sealed_topic(test, server)
    equal(server.stop(), 0, "exit code")
    first, second = server.segments(topic)[:2]
    hole_end = int(second.name[:20])
    whole = wire.batches(first.read_bytes())
    cut = whole[len(whole) // 2]
    with open(first, "r+b") as file:
        file.truncate(cut[0] + 100)
    server.start()
    hole = cut[1]
    check(server.said("ERROR", f"{topic}-0", first.name, "records are missing"), f"the start says nothing:\n{server.tail()}")
    check(server.metric("weir_storage_gaps_found_total") >= 1, "the hole is not counted")
    one = server.wire()
    for offset in range(hole, hole_end, 7):
        error, *_, data = one.fetch(topic, 0, offset)
        equal((error, data), (wire.CORRUPT, b""), f"a fetch of {offset}, which is in the hole")
    errors = []
    found = read_all(server, topic, errors=errors, timeout=120)
    equal(found, acked[:hole], f"records before the hole, where the consumer is told {errors}")
    check(errors, "the consumer was not told of the hole")
    equal(read_all(server, topic, start=hole_end), acked[hole_end:], "records behind the hole")
    test.prove(f"the start names it in the log and in a metric; a consumer is told ({errors[0].name()}) and does not "
               "step over it; what lies before and behind is read")


@case("flushed segment", "a flipped byte, and zeros")
def flipped(test):
    server = Weir(test)
    topic, acked = sealed_topic(test, server, 3)
    equal(server.stop(), 0, "exit code")
    bad = []
    for p in range(2):
        file = server.segments(topic, p)[1]
        at, base, _, size = wire.batches(file.read_bytes())[20]
        data = bytearray(file.read_bytes())
        if p == 0:
            data[at + 200] ^= 1
        else:
            data[at:at + 2 * size] = bytes(2 * size)
        file.write_bytes(data)
        bad.append(base)
    server.start()
    for p in range(2):
        server.said_soon("ERROR", f"partition={topic}-{p}", "a batch on disk is damaged")
    check(not server.said("ERROR", f"partition={topic}-2"), "a sound partition is called damaged")
    check(server.metric("weir_storage_corrupt_batches_total") >= 2, "the damage is not counted")
    one = server.wire()
    for p in range(2):
        equal(one.fetch(topic, p, bad[p])[0], wire.CORRUPT, "a fetch of the damaged batch")
        before = one.fetch(topic, p, bad[p] - 3)
        equal([b for _, b, _, _ in wire.batches(before[4])], list(range(bad[p] - 3, bad[p])),
              "what a fetch from before the damage holds")
        errors = []
        equal(read_all(server, topic, p, errors=errors), acked[p][:bad[p]], "records before the damage")
        check(errors, "the consumer was not told")
        behind = bad[p] + 1 + p
        equal(read_all(server, topic, p, start=behind), acked[p][behind:], "records behind the damage")
    equal(read_all(server, topic, 2), acked[2], "records of the sound partition")
    test.prove("the scrub names both in the log and in a metric; then a read gets CORRUPT_MESSAGE at the batch, and what "
               "lies before and behind is read")


@case("flushed segment", "zeros where a read looks for a batch")
def zeros_on_the_path(test):
    server = Weir(test, overrides={"scrub.bytes.per.second": "0"})
    topic, _ = sealed_topic(test, server)
    equal(server.stop(), 0, "exit code")
    file = server.segments(topic)[1]
    data = bytearray(file.read_bytes())
    at, base, _, size = wire.batches(bytes(data))[30]
    data[at:at + size] = bytes(size)
    file.write_bytes(data)
    server.start()
    one = server.wire()
    equal(one.fetch(topic, 0, base)[0], wire.CORRUPT, "a fetch of the zeros, without a scrub")
    check(server.said("ERROR", f"{topic}-0", "damaged"), "nothing is said")
    test.prove("a fetch that looks for a batch and finds zeros gets CORRUPT_MESSAGE, without any scrub")


@case("flushed segment", "a transaction index of nothing")
def transaction_index(test):
    server = Weir(test)
    topic, [acked] = sealed_topic(test, server)
    equal(server.stop(), 0, "exit code")
    junk = [b"\0" * 10, b"\0" * 34, b"\0\7" + b"\1" * 32, b""]
    for file, content in zip(server.segments(topic), junk):
        file.with_suffix(".txnindex").write_bytes(content)
    server.start()
    equal(read_all(server, topic, committed=True), acked, "records, committed ones only")
    test.prove("short, zero, of unknown version, empty: the server starts and every record is read")
