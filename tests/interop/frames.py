"""Kafka frames by hand, for what must be known exactly: that an answer has arrived whole, which topic id it named, what
was on the wire. A client has one connection and one request at a time; whatever goes wrong with the connection is
Unanswered, and the request may then have been carried out or not."""

import socket
import struct


class Unanswered(Exception):
    """No answer: refused, closed, reset or late."""


# A type is the name of a primitive, [type] for an array, or a tuple of (field, type) for a structure.
_INTS = {"i8": ">b", "i16": ">h", "i32": ">i", "i64": ">q"}
TOPICS = lambda *fields: [(("name", "str"), ("partitions", [tuple(fields)]))]

# api: (key, version, flexible from here on, request, response)
APIS = {
    "Produce": (0, 8, False,
                (("transactional_id", "str"), ("acks", "i16"), ("timeout_ms", "i32"),
                 ("topics", TOPICS(("index", "i32"), ("records", "bytes")))),
                (("topics", TOPICS(("index", "i32"), ("error", "i16"), ("base_offset", "i64"), ("time_ms", "i64"),
                                   ("log_start", "i64"), ("record_errors", [(("at", "i32"), ("message", "str"))]),
                                   ("message", "str"))), ("throttle_ms", "i32"))),
    "Fetch": (1, 11, False,
              (("replica", "i32"), ("max_wait_ms", "i32"), ("min_bytes", "i32"), ("max_bytes", "i32"), ("isolation", "i8"),
               ("session", "i32"), ("epoch", "i32"),
               ("topics", TOPICS(("index", "i32"), ("leader_epoch", "i32"), ("offset", "i64"), ("log_start", "i64"),
                                 ("max_bytes", "i32"))),
               ("forgotten", [(("name", "str"), ("partitions", ["i32"]))]), ("rack", "str")),
              (("throttle_ms", "i32"), ("error", "i16"), ("session", "i32"),
               ("topics", TOPICS(("index", "i32"), ("error", "i16"), ("high_watermark", "i64"), ("stable", "i64"),
                                 ("log_start", "i64"), ("aborted", [(("producer", "i64"), ("first", "i64"))]),
                                 ("replica", "i32"), ("records", "bytes"))))),
    "ListOffsets": (2, 5, False,
                    (("replica", "i32"), ("isolation", "i8"),
                     ("topics", TOPICS(("index", "i32"), ("leader_epoch", "i32"), ("timestamp", "i64")))),
                    (("throttle_ms", "i32"),
                     ("topics", TOPICS(("index", "i32"), ("error", "i16"), ("timestamp", "i64"), ("offset", "i64"),
                                       ("leader_epoch", "i32"))))),
    "Metadata": (3, 12, True,
                 (("topics", [(("id", "uuid"), ("name", "str"))]), ("create", "bool"), ("authorized", "bool")),
                 (("throttle_ms", "i32"), ("brokers", [(("id", "i32"), ("host", "str"), ("port", "i32"), ("rack", "str"))]),
                  ("cluster", "str"), ("controller", "i32"),
                  ("topics", [(("error", "i16"), ("name", "str"), ("id", "uuid"), ("internal", "bool"),
                               ("partitions", [(("error", "i16"), ("index", "i32"), ("leader", "i32"), ("epoch", "i32"),
                                                ("replicas", ["i32"]), ("isr", ["i32"]), ("offline", ["i32"]))]),
                               ("operations", "i32"))]))),
    "OffsetCommit": (8, 6, False,
                     (("group", "str"), ("generation", "i32"), ("member", "str"),
                      ("topics", TOPICS(("index", "i32"), ("offset", "i64"), ("leader_epoch", "i32"), ("metadata", "str")))),
                     (("throttle_ms", "i32"), ("topics", TOPICS(("index", "i32"), ("error", "i16"))))),
    "OffsetFetch": (9, 5, False,
                    (("group", "str"), ("topics", [(("name", "str"), ("partitions", ["i32"]))])),
                    (("throttle_ms", "i32"),
                     ("topics", TOPICS(("index", "i32"), ("offset", "i64"), ("leader_epoch", "i32"), ("metadata", "str"),
                                       ("error", "i16"))), ("error", "i16"))),
    "FindCoordinator": (10, 0, False, (("group", "str"),),
                        (("error", "i16"), ("node", "i32"), ("host", "str"), ("port", "i32"))),
    "CreateTopics": (19, 7, True,
                     (("topics", [(("name", "str"), ("partitions", "i32"), ("replication", "i16"),
                                   ("assignments", [(("index", "i32"), ("brokers", ["i32"]))]),
                                   ("configs", [(("name", "str"), ("value", "str"))]))]),
                      ("timeout_ms", "i32"), ("validate", "bool")),
                     (("throttle_ms", "i32"),
                      ("topics", [(("name", "str"), ("id", "uuid"), ("error", "i16"), ("message", "str"),
                                   ("partitions", "i32"), ("replication", "i16"),
                                   ("configs", [(("name", "str"), ("value", "str"), ("read_only", "bool"), ("source", "i8"),
                                                 ("sensitive", "bool"))]))]))),
    "DeleteTopics": (20, 3, False, (("names", ["str"]), ("timeout_ms", "i32")),
                     (("throttle_ms", "i32"), ("topics", [(("name", "str"), ("error", "i16"))]))),
    "DeleteRecords": (21, 1, False,
                      (("topics", TOPICS(("index", "i32"), ("offset", "i64"))), ("timeout_ms", "i32")),
                      (("throttle_ms", "i32"), ("topics", TOPICS(("index", "i32"), ("low_watermark", "i64"), ("error", "i16"))))),
    "InitProducerId": (22, 1, False, (("transactional_id", "str"), ("timeout_ms", "i32")),
                       (("throttle_ms", "i32"), ("error", "i16"), ("id", "i64"), ("epoch", "i16"))),
    "DescribeConfigs": (32, 1, False,
                        (("resources", [(("type", "i8"), ("name", "str"), ("keys", ["str"]))]), ("synonyms", "bool")),
                        (("throttle_ms", "i32"),
                         ("resources", [(("error", "i16"), ("message", "str"), ("type", "i8"), ("name", "str"),
                                         ("configs", [(("name", "str"), ("value", "str"), ("read_only", "bool"), ("source", "i8"),
                                                       ("sensitive", "bool"),
                                                       ("synonyms", [(("name", "str"), ("value", "str"), ("source", "i8"))]))]))]))),
    "CreatePartitions": (37, 1, False,
                         (("topics", [(("name", "str"), ("count", "i32"), ("assignments", [(("brokers", ["i32"]),)]))]),
                          ("timeout_ms", "i32"), ("validate", "bool")),
                         (("throttle_ms", "i32"), ("topics", [(("name", "str"), ("error", "i16"), ("message", "str"))]))),
    "IncrementalAlterConfigs": (44, 0, False,
                                (("resources", [(("type", "i8"), ("name", "str"),
                                                 ("configs", [(("name", "str"), ("op", "i8"), ("value", "str"))]))]),
                                 ("validate", "bool")),
                                (("throttle_ms", "i32"),
                                 ("resources", [(("error", "i16"), ("message", "str"), ("type", "i8"), ("name", "str"))]))),
}


def _uvarint(n):
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes(out) + bytes([n])


def _length(length, wide, flexible):
    """Length of a string, of bytes or of an array; None is null."""
    if flexible:
        return _uvarint(0 if length is None else length + 1)
    return struct.pack(">i" if wide else ">h", -1 if length is None else length)


def encode(value, kind, flexible):
    if isinstance(kind, tuple):
        return b"".join(encode(value[n], k, flexible) for n, k in kind) + (b"\0" if flexible else b"")
    if isinstance(kind, list):
        count = _length(None if value is None else len(value), True, flexible)
        return count + b"".join(encode(v, kind[0], flexible) for v in value or ())
    if kind in _INTS:
        return struct.pack(_INTS[kind], value)
    if kind == "bool":
        return b"\1" if value else b"\0"
    if kind == "uuid":
        return value
    raw = value.encode() if isinstance(value, str) else value
    return _length(None if raw is None else len(raw), kind == "bytes", flexible) + (raw or b"")


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, n):
        if n < 0 or self.at + n > len(self.data):
            raise ValueError(f"{n} bytes wanted at {self.at} of {len(self.data)}")
        self.at += n
        return self.data[self.at - n:self.at]

    def int(self, form):
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def uvarint(self):
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def varint(self):
        n = self.uvarint()
        return (n >> 1) ^ -(n & 1)

    def tags(self):
        for _ in range(self.uvarint()):
            self.uvarint()
            self.take(self.uvarint())

    def length(self, wide, flexible):
        n = self.uvarint() - 1 if flexible else self.int(">i" if wide else ">h")
        return None if n < 0 else n

    def value(self, kind, flexible):
        if isinstance(kind, tuple):
            out = {name: self.value(k, flexible) for name, k in kind}
            if flexible:
                self.tags()
            return out
        if isinstance(kind, list):
            n = self.length(True, flexible)
            return None if n is None else [self.value(kind[0], flexible) for _ in range(n)]
        if kind in _INTS:
            return self.int(_INTS[kind])
        if kind == "bool":
            return self.take(1) != b"\0"
        if kind == "uuid":
            return self.take(16)
        n = self.length(kind == "bytes", flexible)
        raw = None if n is None else self.take(n)
        return raw if raw is None or kind == "bytes" else raw.decode()


class Client:
    """One connection, opened when it is needed and given up on any trouble."""

    def __init__(self, address, timeout=120.0):
        host, port = address.rsplit(":", 1)
        self.address, self.timeout, self.socket, self.count = (host, int(port)), timeout, None, 0

    def connect(self):
        """Opens the connection now; OSError when that fails."""
        if self.socket is None:
            self.socket = socket.create_connection(self.address, self.timeout)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close(self):
        if self.socket:
            self.socket.close()
        self.socket = None

    def call(self, api, **fields):
        """The answer as a dictionary."""
        key, version, flexible, request, response = APIS[api]
        self.count += 1
        head = struct.pack(">hhih", key, version, self.count, 5) + b"tests" + (b"\0" if flexible else b"")
        frame = head + encode(fields, request, flexible)
        try:
            self.connect()
            self.socket.sendall(struct.pack(">i", len(frame)) + frame)
            reader = Reader(self._read(struct.unpack(">i", self._read(4))[0]))
        except OSError as e:
            self.close()
            raise Unanswered(f"{api}: {e}") from None
        if reader.int(">i") != self.count:
            raise ValueError(f"{api}: the answer to another request")
        if flexible:
            reader.tags()
        answer = reader.value(response, flexible)
        if reader.at != len(reader.data):
            raise ValueError(f"{api}: {len(reader.data) - reader.at} bytes behind the answer")
        return answer

    def _read(self, n):
        data = bytearray()
        while len(data) < n:
            more = self.socket.recv(min(1 << 20, n - len(data)))
            if not more:
                raise OSError("closed by the broker")
            data += more
        return bytes(data)

    # --- what is asked for often --------------------------------------------------------------------------

    def topics(self, names=None):
        """{name: (id, number of partitions)} of the topics that there are."""
        asked = None if names is None else [{"id": bytes(16), "name": name} for name in names]
        answer = self.call("Metadata", topics=asked, create=False, authorized=False)
        return {t["name"]: (t["id"], len(t["partitions"])) for t in answer["topics"] if t["error"] == 0}

    def offsets(self, partitions, timestamp):
        """{(topic, partition): offset}; timestamp -2 for the log starts, -1 for the ends."""
        wanted = {}
        for topic, index in partitions:
            wanted.setdefault(topic, []).append({"index": index, "leader_epoch": -1, "timestamp": timestamp})
        answer = self.call("ListOffsets", replica=-1, isolation=0,
                           topics=[{"name": t, "partitions": p} for t, p in wanted.items()])
        found = {}
        for t in answer["topics"]:
            for p in t["partitions"]:
                if p["error"]:
                    raise Failure(f"ListOffsets of {t['name']}-{p['index']}: error {p['error']}")
                found[t["name"], p["index"]] = p["offset"]
        return found

    def produce(self, batches, acks=-1):
        """{(topic, partition): (error, base offset)} for {(topic, partition): bytes of a batch}."""
        wanted = {}
        for (topic, index), records in batches.items():
            wanted.setdefault(topic, []).append({"index": index, "records": records})
        answer = self.call("Produce", transactional_id=None, acks=acks, timeout_ms=30000,
                           topics=[{"name": t, "partitions": p} for t, p in wanted.items()])
        return {(t["name"], p["index"]): (p["error"], p["base_offset"]) for t in answer["topics"] for p in t["partitions"]}

    def fetched(self, topic, index, offset, max_bytes=1 << 20, max_wait_ms=0, min_bytes=0, committed=False):
        """What a fetch of one partition answers, as a dictionary."""
        answer = self.call("Fetch", replica=-1, max_wait_ms=max_wait_ms, min_bytes=min_bytes, max_bytes=max_bytes,
                           isolation=int(committed), session=0, epoch=-1, forgotten=[], rack="",
                           topics=[{"name": topic, "partitions": [{
                               "index": index, "leader_epoch": -1, "offset": offset, "log_start": -1, "max_bytes": max_bytes}]}])
        return answer["topics"][0]["partitions"][0]

    def fetch(self, topic, index, offset, max_bytes=1 << 20):
        """(error, log start, high watermark, records as bytes)."""
        p = self.fetched(topic, index, offset, max_bytes)
        return p["error"], p["log_start"], p["high_watermark"], p["records"] or b""


class Failure(AssertionError):
    """The broker broke a promise."""


def _crc_table():
    table = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
        table.append(n)
    return table


_CRC = _crc_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _CRC[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def _varint(n):
    return _uvarint((n << 1) ^ (n >> 63))


def batch(values, timestamp_ms, producer=(-1, -1, -1), base_offset=0, epoch=-1):
    """An uncompressed batch v2. `producer`: id, epoch, first sequence; `epoch`: the leader's."""
    records = bytearray()
    for delta, value in enumerate(values):
        record = b"\0" + _varint(0) + _varint(delta) + _varint(-1) + _varint(len(value)) + value + _varint(0)
        records += _varint(len(record)) + record
    covered = struct.pack(">hiqqqhii", 0, len(values) - 1, timestamp_ms, timestamp_ms, *producer, len(values)) + records
    return struct.pack(">qiibI", base_offset, 4 + 1 + 4 + len(covered), epoch, 2, crc32c(covered)) + covered


def values_of(data):
    """[(offset, value)] of the whole uncompressed batches in what a fetch returned."""
    found, at = [], 0
    while at + 61 <= len(data):
        base, length = struct.unpack(">qi", data[at:at + 12])
        if at + 12 + length > len(data):
            break
        reader = Reader(data[:at + 12 + length])
        reader.at = at + 57
        for _ in range(reader.int(">i")):
            reader.varint()
            reader.take(1)
            reader.varint()
            delta = reader.varint()
            key = reader.varint()
            reader.take(max(0, key))
            value = reader.take(reader.varint())
            for _ in range(reader.varint()):
                reader.take(reader.varint())
                reader.take(max(0, reader.varint()))
            found.append((base + delta, value))
        at += 12 + length
    return found
