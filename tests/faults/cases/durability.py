"""Answers after the sync (log.flush.interval.messages=1), group commit, and a sync that fails. The sync itself is made
slow or made to fail by a small library loaded into the process, which does what a file says."""

import threading
import time

import wire
from kit import case, check, equal, wait_until
from weir import Weir, admin, preloaded, read_all, topic_of

SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* SYNC_CONTROL names a file: empty or missing, or milliseconds to wait, or -1 to fail. */
static int control(void) {
    const char *path = getenv("SYNC_CONTROL");
    FILE *file = path ? fopen(path, "r") : NULL;
    int value = 0;
    if (file) {
        if (fscanf(file, "%d", &value) != 1) value = 0;
        fclose(file);
    }
    if (value > 0) usleep(value * 1000);
    return value;
}

static int sync_with(const char *name, int fd) {
    if (control() < 0) { errno = EIO; return -1; }
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    return real(fd);
}

int fdatasync(int fd) { return sync_with("fdatasync", fd); }
int fsync(int fd) { return sync_with("fsync", fd); }
"""


class Syncs:
    def __init__(self, test):
        self.file = test.scratch / "control"
        self.prefix = preloaded(test, SOURCE, SYNC_CONTROL=self.file)
        self.set(0)

    def set(self, value):
        new = self.file.with_suffix(".new")
        new.write_text(str(value))
        new.rename(self.file)

    def server(self, test, **overrides):
        return Weir(test, overrides=overrides, prefix=self.prefix)


@case("durability", "answers follow the sync, one sync serves many")
def group_commit(test):
    syncs = Syncs(test)
    server = syncs.server(test, **{"log.flush.interval.messages": "1"})
    topic = topic_of(test, server)
    producers, each, delay_ms = 16, 6, 400
    syncs.set(delay_ms)
    counted = "kafka_log_logflushstats_logflushrateandtimems_count"
    before, took, bases, failed = server.metric(counted), [], [], []

    def produce(number):
        try:
            one = server.wire()
            for n in range(each):
                data = wire.batch([b"%d-%d" % (number, n)])
                began = time.monotonic()
                error, base = one.produce(topic, 0, data)
                took.append(time.monotonic() - began)
                check(error == 0, f"error {error}")
                bases.append(base)
        except BaseException as e:
            failed.append(e)
    threads = [threading.Thread(target=produce, args=(n,)) for n in range(producers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check(not failed, failed[:1])
    equal(sorted(bases), list(range(producers * each)), "offsets")
    check(min(took) * 1000 >= delay_ms, f"an answer came after {min(took) * 1000:.1f} ms, a sync takes {delay_ms} ms")
    flushes = server.metric(counted) - before
    check(0 < flushes <= producers * each / 2, f"{flushes:.0f} syncs for {producers * each} answers")
    check(server.metric("weir_storage_flushes_joined_total") > 0, "no flush was served by another's sync")
    quantiles = {k: float(v) for k, v in server.metrics().items() if k.startswith("kafka_log_logflushstats") and 'quantile="0.99"' in k}
    check(quantiles and min(quantiles.values()) >= delay_ms / 2, f"LogFlushRateAndTimeMs says {quantiles}")
    equal(server.metric("kafka_log_log_logendoffset") >= producers * each, True, "log end by the metric")
    syncs.set(0)
    test.prove(f"{producers * each} answers of {producers} producers, none before its sync of {delay_ms} ms, by {flushes:.0f} syncs")


@case("durability", "without it answers do not wait")
def no_flush(test):
    syncs = Syncs(test)
    server = syncs.server(test)
    topic = topic_of(test, server)
    syncs.set(100_000)
    one = server.wire()
    began = time.monotonic()
    for n in range(5):
        equal(one.produce(topic, 0, wire.batch([b"x"])), (0, n), "answer")
    check(time.monotonic() - began < 60, "answers waited for a sync that nobody asked for")
    syncs.set(0)
    test.prove("by default an answer comes from the page cache, as in Kafka")


@case("durability", "a sync that fails")
def failing_sync(test):
    syncs = Syncs(test)
    server = syncs.server(test, **{"log.flush.interval.messages": "1"})
    topic = topic_of(test, server)
    one = server.wire()
    producer, epoch = one.new_producer()
    equal(one.produce(topic, 0, wire.batch([b"a"], producer=(producer, epoch, 0))), (0, 0), "before")
    wait_until(lambda: one.find_coordinator("group") == 0, "a coordinator")
    wait_until(lambda: one.commit("group", topic, 0, 7) == 0, "a commit before")
    syncs.set(-1)
    again = wire.batch([b"b"], producer=(producer, epoch, 1))
    for _ in range(3):
        equal(one.produce(topic, 0, again)[0], wire.STORAGE, "error of an append that cannot be synced")
    names = [test.name("during") for _ in range(3)]
    for name in names:
        equal(one.create_topic(name), wire.STORAGE, "error of a creation that cannot be synced")
        check(name not in admin(server).list_topics(timeout=60).topics, "a refused topic is shown")
    check(one.commit("group", topic, 0, 8) in (14, 15, 16), "error of a commit that cannot be synced")
    check(server.said("ERROR", "Input/output error"), "nothing is said")
    server.lives()
    syncs.set(0)
    wait_until(lambda: one.produce(topic, 0, again) == (0, 1), "the batch, sent again, is acknowledged at its offset")
    for name in names[:2]:
        wait_until(lambda: one.create_topic(name) in (0, 36), "the topic can be made")
    wait_until(lambda: one.commit("group", topic, 0, 9) == 0, "commits work")
    following = wire.batch([b"c"], producer=(producer, epoch, 2))
    wait_until(lambda: one.produce(topic, 0, following) == (0, 2), "the next batch")
    for stop in (server.kill, server.stop):
        stop()
        server.start()
        equal([v for _, v in read_all(server, topic)], [b"a", b"b", b"c"], "records")
        wait_until(lambda: server.wire().committed("group", topic, 0) == (0, 9), "the commit")
        topics = admin(server).list_topics(timeout=60).topics
        equal([name in topics for name in names], [True, True, False], "topics")
        for name in names[:2]:
            equal(server.wire().produce(name, 0, wire.batch([b"x"]))[0], 0, "the topic takes records")
    test.prove("append, commit and new topic are refused, what was refused is not shown and does not come back with the "
               "next start; sent again it is there once; all work again by themselves")
