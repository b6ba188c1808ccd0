"""What the faults ask of a broker with frames of their own, error codes and all, and the batches in a segment's bytes."""

import struct
import time

import frames
from frames import Client

NONE, OUT_OF_RANGE, CORRUPT, NO_LEADER, NOT_COORDINATOR_YET, STORAGE = 0, 1, 2, 5, 15, 56

# What records of these tests are stamped with, plus their number: recent enough for retention.
TIME = int(time.time()) * 1000 - 3_600_000


def batch(values, base_offset=0, producer=(-1, -1, -1)):
    """A record batch as a log holds it. `producer`: id, epoch, first sequence."""
    return frames.batch(values, TIME, producer, base_offset, epoch=0)


def batches(data):
    """The batches in a segment's bytes: (position, base offset, last offset, size), until one is cut."""
    found, at = [], 0
    while at + 61 <= len(data):
        base, length = struct.unpack_from(">qi", data, at)
        last_delta = struct.unpack_from(">i", data, at + 23)[0]
        if length <= 0 or at + 12 + length > len(data):
            break
        found.append((at, base, base + last_delta, 12 + length))
        at += 12 + length
    return found


def _one(topic, partition, **fields):
    return [{"name": topic, "partitions": [{"index": partition, **fields}]}]


class Wire(Client):
    """A connection that is open from the start. Each call is about one partition."""

    def __init__(self, address, timeout=120.0):
        super().__init__(address, timeout)
        self.connect()

    def _of_one(self, api, **fields):
        return self.call(api, **fields)["topics"][0]["partitions"][0]

    def produce(self, topic, partition, data, acks=-1):
        """(error code, base offset)"""
        return super().produce({(topic, partition): data}, acks)[topic, partition]

    def fetch(self, topic, partition, offset, max_bytes=1 << 20, committed=False):
        """(error code, high watermark, last stable offset, aborted [(producer, first offset)], record bytes)"""
        p = self.fetched(topic, partition, offset, max_bytes, max_wait_ms=100, min_bytes=1, committed=committed)
        aborted = [(a["producer"], a["first"]) for a in p["aborted"] or ()]
        return p["error"], p["high_watermark"], p["stable"], aborted, p["records"] or b""

    def offset_for(self, topic, partition, timestamp):
        """(error code, offset): -1 latest, -2 earliest, else the first record that is not older."""
        p = self._of_one("ListOffsets", replica=-1, isolation=0, topics=_one(topic, partition, leader_epoch=-1, timestamp=timestamp))
        return p["error"], p["offset"]

    def new_producer(self):
        """(id, epoch)"""
        answer = self.call("InitProducerId", transactional_id=None, timeout_ms=60_000)
        assert answer["error"] == 0, answer["error"]
        return answer["id"], answer["epoch"]

    def create_topic(self, topic, partitions=1):
        """Its error code."""
        made = {"name": topic, "partitions": partitions, "replication": 1, "assignments": [], "configs": []}
        return self.call("CreateTopics", topics=[made], timeout_ms=10_000, validate=False)["topics"][0]["error"]

    def delete_records(self, topic, partition, offset):
        """(error code, low watermark)"""
        p = self._of_one("DeleteRecords", topics=_one(topic, partition, offset=offset), timeout_ms=10_000)
        return p["error"], p["low_watermark"]

    def find_coordinator(self, group):
        """Its error code. Makes the offsets topic when there is none."""
        return self.call("FindCoordinator", group=group)["error"]

    def commit(self, group, topic, partition, offset):
        """Its error code."""
        return self._of_one("OffsetCommit", group=group, generation=-1, member="",
                            topics=_one(topic, partition, offset=offset, leader_epoch=-1, metadata=""))["error"]

    def committed(self, group, topic, partition):
        """(error code, offset)"""
        answer = self.call("OffsetFetch", group=group, topics=[{"name": topic, "partitions": [partition]}])
        if not answer["topics"]:
            # One error for the whole group, which may be loading.
            return answer["error"], -1
        p = answer["topics"][0]["partitions"][0]
        return p["error"], p["offset"]
