"""Recovery reads the unflushed tails and not the logs: counted in bytes, by weir's own counters and by the kernel's
(`rchar` of /proc/PID/io: what the process asked the file system for, page cache or not)."""

import time
import urllib.request
from pathlib import Path

from frames import Client, Failure, batch

KIB, MIB = 1 << 10, 1 << 20
# What opening a partition may read besides its tail: the ends of its files, looked up through their indexes.
PER_PARTITION = 24 * KIB


def metric(broker, name):
    with urllib.request.urlopen(f"http://{broker.http}/metrics", timeout=60) as page:
        for line in page.read().decode().splitlines():
            if line.split(" ")[0] == name:
                return int(float(line.split(" ")[1]))
    raise Failure(f"/metrics has no {name}")


def read_by(broker):
    """Bytes that the process has read since it began; 0, and a line, where the kernel does not say."""
    try:
        for line in Path(f"/proc/{broker.pid}/io").read_text().splitlines():
            if line.startswith("rchar:"):
                return int(line.split()[1])
    except OSError as e:
        print(f"this kernel does not say what a process reads, so it is not judged: {e}", flush=True)
    return 0


def size_of(broker, pattern):
    return sum(f.stat().st_size for f in broker.data.glob(pattern))


def create(client, names, partitions, configs):
    answer = client.call("CreateTopics", timeout_ms=300000, validate=False, topics=[{
        "name": name, "partitions": partitions, "replication": 1, "assignments": [],
        "configs": [{"name": k, "value": v} for k, v in configs.items()]} for name in names])
    for topic in answer["topics"]:
        if topic["error"]:
            raise Failure(f"{topic['name']}: error {topic['error']} {topic['message']}")


def send(client, batches):
    for tp, (error, _) in client.produce(batches).items():
        if error:
            raise Failure(f"produce to {tp}: error {error}")


def restart(broker, client, serving, killed=lambda: None):
    """kill -9, `killed`, start; returns (seconds until it served, bytes that checks read, bytes that the process read)."""
    broker.kill()
    client.close()
    killed()
    seconds = serving(broker, client)
    return seconds, metric(broker, "weir_storage_recovery_bytes_total"), read_by(broker)


def expect(what, got, limit, instead_of):
    if got > limit:
        raise Failure(f"{what}: {got:,} bytes, at most {limit:,} expected (there are {instead_of:,})")


def many_tails(broker, serving, short):
    """2,000 partitions, each with an old part that a clean stop made durable and a tail that only kill -9 left."""
    client, now = Client(broker.bootstrap), int(time.time() * 1000)
    names, per_topic = [f"tails-{n}" for n in range(20)], 100
    count = len(names) * per_topic
    for name in names:
        create(client, [name], per_topic, {})
    old, tail = batch([b"o" * 60_000], now), batch([b"t" * 1000], now)
    for name in names:
        send(client, {(name, p): old for p in range(per_topic)})
    client.close()
    if broker.stop() not in (0, 143):
        raise Failure(f"clean stop: exit code {broker.process.returncode}\n{broker.tail()}")
    clean_seconds = serving(broker, client)
    if metric(broker, "weir_storage_recovery_bytes_total"):
        raise Failure("bytes were checked after a clean stop")
    clean_read = read_by(broker)
    for name in names:
        send(client, {(name, p): tail for p in range(per_topic)})
    metadata = size_of(broker, "**/__cluster_metadata-0/*.log")
    seconds, checked, read = restart(broker, client, serving)
    recovered = metric(broker, "weir_storage_logs_recovered_total")
    if recovered < count:
        raise Failure(f"{recovered} logs were checked, {count} have a tail")
    tails, olds = count * len(tail), count * len(old)
    if checked < tails:
        raise Failure(f"{checked:,} bytes were checked, the tails have {tails:,}")
    expect("checked of many tails", checked, tails + metadata + 256 * KIB, tails + olds)
    expect("read at the start with many tails", read, 3 * tails + 3 * metadata + count * PER_PARTITION + 4 * MIB, tails + olds)
    for index in (0, per_topic - 1):
        for name in names:
            error, _, end, _ = client.fetch(name, index, 0, 1)
            if error or end != 2:
                raise Failure(f"{name}-{index} ends at {end} after two records, error {error}")
    client.close()
    return (f"{count:,} partitions of {olds / MIB:.0f} MiB with tails of {tails / MIB:.1f} MiB: checked {checked / MIB:.1f} MiB, read "
            f"{read / MIB:.1f} MiB ({clean_read / MIB:.1f} after the clean stop), served after {seconds:.2f} s ({clean_seconds:.2f} clean)")


def old_log(broker, serving, short):
    """One partition with a log of gigabytes that is on the disk, and a small tail that is not. Once by rolled segments
    alone, once with flush.ms, where the tail begins within a segment."""
    said = []
    for name, segment, old, configs in (
            ("rolled", 64 * MIB if short else 256 * MIB, 256 * MIB if short else 3 << 30, {}),
            ("flushed", 1 << 30, 200 * MIB if short else 3 << 30, {"flush.ms": "1000"})):
        client, now = Client(broker.bootstrap), int(time.time() * 1000)
        create(client, [name], 1, {"segment.bytes": str(segment), **configs})
        # Every batch has its own offset and the same bytes; its CRC does not cover the offset.
        large = batch([b"L" * 900_000], now)
        sent = 0
        while sent * len(large) < old:
            send(client, {(name, 0): large})
            sent += 1
        least = durable(broker, name, sent if configs else (sent // (segment // len(large))) * (segment // len(large)))
        tail = batch([b"t" * 100_000], now)
        for _ in range(10):
            send(client, {(name, 0): tail})
        metadata, points = size_of(broker, "**/__cluster_metadata-0/*.log"), []
        # The tail may have come to the disk, too, before the death: what counts is what the checkpoint says then.
        seconds, checked, read = restart(broker, client, serving, lambda: points.append(recovery_point(broker, name)))
        point = points[0]
        if point < least:
            raise Failure(f"{name}: the recovery point went back from {least} to {point}")
        unflushed = max(0, sent - point) * len(large) + (sent + 10 - max(sent, point)) * len(tail)
        if checked < unflushed:
            raise Failure(f"{name}: {checked:,} bytes were checked, {unflushed:,} are not known to be on the disk")
        expect(f"{name}: checked of an old log", checked, unflushed + metadata + 64 * KIB, sent * len(large))
        # The tail once with its CRCs, its headers for the producers, and what leads to it.
        expect(f"{name}: read at the start with an old log", read, 2 * unflushed + 3 * metadata + 24 * MIB, sent * len(large))
        error, start, end, _ = client.fetch(name, 0, sent, 1)
        if error or (start, end) != (0, sent + 10):
            raise Failure(f"{name}: {start} to {end} after {sent + 10} records, error {error}")
        client.call("DeleteTopics", names=[name], timeout_ms=30000)
        client.close()
        said.append(f"{name}: {sent * len(large) / MIB:,.0f} MiB with an unflushed tail of {unflushed / MIB:.1f} MiB: checked "
                    f"{checked / MIB:.1f} MiB, read {read / MIB:.1f} MiB, served after {seconds:.2f} s")
    return "; ".join(said)


def recovery_point(broker, topic):
    """Up to which offset everything is on the disk, by the checkpoint."""
    point = 0
    for file in broker.data.glob("**/recovery-point-offset-checkpoint"):
        for line in file.read_text().splitlines():
            if line.startswith(f"{topic} 0 "):
                point = int(line.split()[2])
    return point


def durable(broker, topic, offset):
    """Waits until the checkpoint says that everything below `offset` is on the disk; returns what it says."""
    deadline = time.monotonic() + 300
    while (point := recovery_point(broker, topic)) < offset:
        if time.monotonic() > deadline:
            raise Failure(f"{topic}: the recovery point is {point} 300 s after the last append, {offset} records are in sealed segments")
        time.sleep(0.1)
    return point
