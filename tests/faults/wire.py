"""Kafka's protocol by hand, as far as the faults need it: requests in versions without compact types, and record
batches of which every field can be set, right or wrong."""

import socket
import struct
import time

NONE, OUT_OF_RANGE, CORRUPT, NOT_COORDINATOR_YET, STORAGE = 0, 1, 2, 15, 56

# What records of these tests are stamped with, plus their number: recent enough for retention.
TIME = int(time.time()) * 1000 - 3_600_000

_TABLE = []
for _n in range(256):
    for _ in range(8):
        _n = (_n >> 1) ^ (0x82F63B78 if _n & 1 else 0)
    _TABLE.append(_n)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def _varint(value):
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value & ~0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def batch(values, base_offset=0, producer=(-1, -1, -1), timestamp=TIME, epoch=0):
    """A record batch of magic 2. `producer`: id, epoch, first sequence."""
    records = b""
    for delta, value in enumerate(values):
        body = b"\0" + _varint(0) + _varint(delta) + _varint(-1) + _varint(len(value)) + value + _varint(0)
        records += _varint(len(body)) + body
    covered = struct.pack(">hiqqqhii", 0, len(values) - 1, timestamp, timestamp, *producer, len(values)) + records
    return struct.pack(">qiibI", base_offset, 9 + len(covered), epoch, 2, crc32c(covered)) + covered


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


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def get(self, kind):
        values = struct.unpack_from(">" + kind, self.data, self.at)
        self.at += struct.calcsize(">" + kind)
        return values[0] if len(values) == 1 else values

    def bytes(self, length):
        self.at += max(length, 0)
        return None if length < 0 else self.data[self.at - length:self.at]

    def string(self):
        value = self.bytes(self.get("h"))
        return None if value is None else value.decode()

    def array(self, each):
        return [each() for _ in range(max(self.get("i"), 0))]


def _string(text):
    return struct.pack(">h", -1) if text is None else struct.pack(">h", len(text)) + text.encode()


def _one(topic, partition):
    """An array of one topic with an array of one partition, up to what follows the partition's number."""
    return struct.pack(">i", 1) + _string(topic) + struct.pack(">ii", 1, partition)


class Wire:
    """One connection. Each call sends a request and waits for its answer."""

    def __init__(self, address, timeout=15):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout)
        self.socket.settimeout(timeout)
        self.correlation = 0

    def close(self):
        self.socket.close()

    def send(self, api, version, body):
        self.correlation += 1
        frame = struct.pack(">hhi", api, version, self.correlation) + _string("faults") + body
        self.socket.sendall(struct.pack(">i", len(frame)) + frame)

    def receive(self):
        def exactly(count):
            data = b""
            while len(data) < count:
                more = self.socket.recv(count - len(data))
                if not more:
                    raise OSError("the broker closed the connection")
                data += more
            return data
        answer = Reader(exactly(struct.unpack(">i", exactly(4))[0]))
        answer.get("i")
        return answer

    def call(self, api, version, body):
        self.send(api, version, body)
        return self.receive()

    def produce(self, topic, partition, data, acks=-1):
        """(error code, base offset)"""
        body = _string(None) + struct.pack(">hi", acks, 10_000) + _one(topic, partition)
        answer = self.call(0, 7, body + struct.pack(">i", len(data)) + data)
        answer.get("i"), answer.string(), answer.get("i"), answer.get("i")
        error, base, _, _ = answer.get("hqqq")
        return error, base

    def fetch(self, topic, partition, offset, max_bytes=1 << 20, committed=False):
        """(error code, high watermark, last stable offset, aborted [(producer, first offset)], record bytes)"""
        body = struct.pack(">iiiibii", -1, 100, 1, max_bytes, int(committed), 0, -1) + _one(topic, partition)
        body += struct.pack(">iqqi", -1, offset, -1, max_bytes) + struct.pack(">i", 0) + _string("")
        answer = self.call(1, 11, body)
        answer.get("ihi")
        answer.get("i"), answer.string(), answer.get("i"), answer.get("i")
        error, high, stable, _ = answer.get("hqqq")
        aborted = answer.array(lambda: answer.get("qq"))
        answer.get("i")
        return error, high, stable, aborted, answer.bytes(answer.get("i")) or b""

    def offset_for(self, topic, partition, timestamp):
        """(error code, offset): -1 latest, -2 earliest, else the first record that is not older."""
        answer = self.call(2, 2, struct.pack(">ib", -1, 0) + _one(topic, partition) + struct.pack(">q", timestamp))
        answer.get("ii"), answer.string(), answer.get("ii")
        error, _, offset = answer.get("hqq")
        return error, offset

    def new_producer(self):
        """(id, epoch)"""
        answer = self.call(22, 1, _string(None) + struct.pack(">i", 60_000))
        _, error, producer, epoch = answer.get("ihqh")
        assert error == 0, error
        return producer, epoch

    def create_topic(self, topic, partitions=1):
        """Its error code."""
        body = struct.pack(">i", 1) + _string(topic) + struct.pack(">ihii", partitions, 1, 0, 0)
        answer = self.call(19, 4, body + struct.pack(">ib", 10_000, 0))
        answer.get("ii"), answer.string()
        return answer.get("h")

    def delete_records(self, topic, partition, offset):
        """(error code, low watermark)"""
        answer = self.call(21, 1, _one(topic, partition) + struct.pack(">qi", offset, 10_000))
        answer.get("ii"), answer.string(), answer.get("ii")
        low = answer.get("q")
        return answer.get("h"), low

    def find_coordinator(self, group):
        """Its error code. Makes the offsets topic when there is none."""
        answer = self.call(10, 0, _string(group))
        return answer.get("h")

    def commit(self, group, topic, partition, offset):
        """Its error code."""
        body = _string(group) + struct.pack(">i", -1) + _string("") + struct.pack(">q", -1)
        answer = self.call(8, 2, body + _one(topic, partition) + struct.pack(">q", offset) + _string(""))
        answer.get("i"), answer.string(), answer.get("ii")
        return answer.get("h")

    def committed(self, group, topic, partition):
        """(error code, offset)"""
        answer = self.call(9, 1, _string(group) + _one(topic, partition))
        answer.get("i"), answer.string(), answer.get("ii")
        offset = answer.get("q")
        answer.string()
        return answer.get("h"), offset
