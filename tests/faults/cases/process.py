"""What happens to the process: killed after a DeleteRecords, stopped for longer than sessions last."""

import signal
import os
import threading
import time

from kit import case, check, equal, wait_until
from weir import Load, SEGMENT_BYTES, Weir, fill, read_all, topic_of


@case("process", "DeleteRecords, then kill -9")
def delete_records(test):
    server = Weir(test)
    topic = topic_of(test, server, partitions=2, **{"segment.bytes": SEGMENT_BYTES})
    acked = fill(server, topic, 250, 10_000)
    for round_, start in enumerate((1, 60, 61, 180, 250)):
        equal(server.wire().delete_records(topic, 0, start), (0, start), "the answer")
        server.kill()
        server.start()
        one = server.wire()
        equal(one.offset_for(topic, 0, -2), (0, start), f"log start after kill -9, round {round_}")
        equal(one.fetch(topic, 0, start - 1)[0], 1, "error of a fetch below the log start")
        equal(read_all(server, topic, start=start), acked[start:], "records")
    equal(server.stop(), 0, "exit code")
    server.start()
    equal(server.wire().offset_for(topic, 0, -2), (0, 250), "log start after a clean stop")
    equal(server.wire().offset_for(topic, 1, -2), (0, 0), "log start of the other partition")
    test.prove("five times: the log start is the one of the answer, deleted records stay deleted")


@case("process", "SIGSTOP for longer than sessions", seconds=22)
def stopped(test):
    from confluent_kafka import Consumer
    server = Weir(test)
    topic = topic_of(test, server, partitions=4)
    load = Load(server, topic, pause=0.01)
    seen, assigned, ending = [set(), set()], [[], []], threading.Event()
    group = test.name("group")

    def consume(member):
        consumer = Consumer({
            "bootstrap.servers": server.bootstrap, "group.id": group, "auto.offset.reset": "earliest",
            "session.timeout.ms": 6000, "heartbeat.interval.ms": 1000, "socket.timeout.ms": 10_000,
            "enable.auto.commit": False})
        consumer.subscribe([topic], on_assign=lambda _, parts: assigned[member].append(len(parts)))
        while not ending.is_set():
            for message in consumer.consume(500, 0.2):
                if message.error() is None:
                    seen[member].add((message.partition(), message.offset()))
            if seen[member]:
                try:
                    consumer.commit(asynchronous=True)
                except Exception:
                    pass
        consumer.close()
    members = [threading.Thread(target=consume, args=(m,), daemon=True) for m in range(2)]
    for member in members:
        member.start()
    wait_until(lambda: all(seen), "both members consume")
    load.grows(200)
    os.kill(server.pid, signal.SIGSTOP)
    time.sleep(9)
    before = [len(s) for s in seen]
    os.kill(server.pid, signal.SIGCONT)
    load.grows(500)
    wait_until(lambda: all(len(s) > b for s, b in zip(seen, before)), "both members go on")
    load.stop()
    wait_until(lambda: len(seen[0] | seen[1]) >= len(load.acked), "everything is consumed")
    equal(sorted(set(load.acked) - (seen[0] | seen[1]))[:5], [], "records that were not consumed")
    ending.set()
    load.verify(server, 4)
    server.lives()
    test.prove("stopped for 9 s with sessions of 6 s: producer and both members go on by themselves, every record is "
               "acknowledged once, consumed and in the log once")
