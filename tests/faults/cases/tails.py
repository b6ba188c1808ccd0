"""What lies behind the recovery point after a crash: the log ends at the first batch that is not right."""

import wire
from kit import case, check, equal
from weir import Weir, fill, read_all, topic_of


@case("tail", "damaged ends", seconds=20)
def damaged_ends(test):
    server = Weir(test)
    last = wire.batch([b"forged"], base_offset=50)
    wrong = {
        "a base offset with a gap": lambda data: data + wire.batch([b"forged"], base_offset=55),
        "a base offset that goes back": lambda data: data + wire.batch([b"forged"], base_offset=20),
        "a batch written twice": lambda data: data + data[wire.batches(data)[-1][0]:],
        "a torn batch": lambda data: data + last[:-3],
        "a torn header": lambda data: data + last[:30],
        "a wrong CRC": lambda data: data + last[:-1] + b"!",
        "zeros": lambda data: data + b"\0" * 5000,
        "a damaged last batch": lambda data: data[:-5] + b"?" + data[-4:],
    }
    topic = topic_of(test, server, partitions=len(wrong))
    acked = [fill(server, topic, 50, partition=p, one_by_one=True) for p in range(len(wrong))]
    server.kill()
    for p, (what, damage) in enumerate(wrong.items()):
        file = server.segments(topic, p)[-1]
        file.write_bytes(damage(file.read_bytes()))
    server.start()
    with_wire = server.wire()
    for p, what in enumerate(wrong):
        end = 49 if "last" in what else 50
        equal(read_all(server, topic, p), acked[p][:end], f"records behind which there is {what}")
        equal(with_wire.offset_for(topic, p, -1), (0, end), f"log end with {what}")
        check(server.said("WARN", f"partition={topic}-{p}", "cutting the log"), f"nothing is said of {what}")
        equal(with_wire.produce(topic, p, wire.batch([b"next"])), (0, end), f"the next record after {what}")
        equal(read_all(server, topic, p, start=end), [(end, b"next")], f"what follows {what}")
    check(server.metric("weir_storage_truncated_bytes_total") > 5000, "the cut bytes are not counted")
    check(server.metric("weir_storage_logs_recovered_total") >= len(wrong), "the checks are not counted")
    test.prove("the tail ends at: " + ", ".join(wrong) + "; the next record follows without a gap")


@case("tail", "a batch of an idempotent producer, sent again after the crash")
def resent(test):
    server = Weir(test)
    topic = topic_of(test, server)
    one = server.wire()
    producer, epoch = one.new_producer()
    sent = [wire.batch([b"a%d" % n, b"b%d" % n], producer=(producer, epoch, 2 * n)) for n in range(6)]
    for n, data in enumerate(sent):
        equal(one.produce(topic, 0, data), (0, 2 * n), f"batch {n}")
    for stop in (server.kill, server.stop, server.kill):
        stop()
        for snapshot in server.partition(topic).glob("*.snapshot"):
            snapshot.unlink()
        server.start()
        one = server.wire()
        equal(one.produce(topic, 0, sent[-1]), (0, 10), "the last batch, sent again")
        equal(one.produce(topic, 0, sent[-2]), (0, 8), "the one before it, sent again")
        equal(one.offset_for(topic, 0, -1), (0, 12), "log end")
    gap = wire.batch([b"gap"], producer=(producer, epoch, 14))
    equal(one.produce(topic, 0, gap)[0], 45, "error of a sequence that does not follow")
    test.prove("recognised without any .snapshot, after kill -9 and after a clean stop; a gap is still refused")
