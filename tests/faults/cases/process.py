"""What happens to the process: killed after a DeleteRecords, stopped for longer than sessions last, refused a thread."""

import os
import signal
import subprocess
import threading
import time

from kit import case, check, equal, wait_until
from weir import Load, SEGMENT_BYTES, Weir, fill, preloaded, read_all, topic_of


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


# Of the threads of the runtime, which the main thread starts, the first that another thread asks for is refused, as a limit
# on tasks would. The allocator has a thread of its own, which is let through.
NO_THREAD = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef void *routine(void *);
static routine *_Atomic of_runtime;
static atomic_int refused;

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, routine *run, void *arg) {
    if (syscall(SYS_gettid) == getpid()) of_runtime = run;
    else if (run == of_runtime && atomic_exchange(&refused, 1) == 0) return ENOMEM;
    int (*real)(pthread_t *, const pthread_attr_t *, routine *, void *) = dlsym(RTLD_NEXT, "pthread_create");
    return real(thread, attr, run, arg);
}
"""


@case("process", "a part of the server that panics")
def panic(test):
    server = Weir(test)
    topic = topic_of(test, server)
    acked = fill(server, topic, 50)
    equal(server.stop(), 0, "exit code of a stop")
    done = subprocess.run([*preloaded(test, NO_THREAD), *server.command], capture_output=True, text=True, timeout=300,
                          stdin=subprocess.DEVNULL)
    said = done.stdout + done.stderr
    check(done.returncode == 1, f"exit code {done.returncode}\n{said[-3000:]}")
    for words in ("panic: ", "what looks after the logs has failed", "start the server again", "stopped"):
        check(words in said, f"it does not say {words!r}:\n{said[-3000:]}")
    server.start()
    check(not server.said("after a stop that was not clean"), "the logs were not closed")
    equal(read_all(server, topic), acked, "records")
    test.prove("it says so, closes its logs and ends with exit code 1, for half a server is restarted by nobody; the next "
               "start finds a clean stop and every record")
