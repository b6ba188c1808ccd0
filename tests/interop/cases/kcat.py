"""kcat, as a person at a terminal uses it."""

import json
import re
import time

from kit import CODECS, case, check, equal, wait_until

CLIENT = "kcat"


@case(CLIENT, "produce and consume")
def produce_consume(t):
    for codec in CODECS:
        topic = t.name("kcat")
        text = "".join(f"k{i}:value {i} {'.' * (i % 90)}\n" for i in range(1000))
        # Created on demand, by the producer.
        t.run("kcat", "-b", t.bootstrap, "-P", "-t", topic, "-K", ":", "-z", codec, "-H", "one=1", "-H", "two=ü", stdin=text)
        out = t.run("kcat", "-b", t.bootstrap, "-C", "-t", topic, "-e", "-q", "-f", "%p|%o|%k|%s|%h\n")
        lines = [line.split("|") for line in out.splitlines()]
        equal(sorted(f"{line[2]}:{line[3]}" for line in lines), sorted(text.splitlines()), f"records with {codec}")
        check(all(line[4] == "one=1,two=ü" for line in lines), "headers", lines[0])
        for partition in {line[0] for line in lines}:
            offsets = [int(line[1]) for line in lines if line[0] == partition]
            equal(offsets, list(range(len(offsets))), f"offsets of partition {partition}")
    t.prove(f"1,000 lines with keys and headers into a topic made on demand and back, with {', '.join(CODECS)}")


@case(CLIENT, "metadata and queries")
def metadata(t):
    topic = t.topic("kcat", partitions=3)
    described = json.loads(t.run("kcat", "-b", t.bootstrap, "-L", "-J", "-t", topic))
    equal(len(described["brokers"]), 1, "brokers")
    check(described["brokers"][0]["name"] == t.bootstrap, "advertised address", described["brokers"])
    equal([len(x["partitions"]) for x in described["topics"]], [3], "partitions")
    check(all(p["leader"] == described["brokers"][0]["id"] for p in described["topics"][0]["partitions"]), "leaders")
    middle = 0
    for i in range(3):
        if i == 1:
            time.sleep(0.01)
            middle = int(time.time() * 1000)
        t.run("kcat", "-b", t.bootstrap, "-P", "-t", topic, "-p", "1", stdin=f"line {i}\n")
    out = t.run("kcat", "-b", t.bootstrap, "-Q", "-t", f"{topic}:1:{middle}", "-t", f"{topic}:2:-1", "-t", f"{topic}:1:-2")
    found = dict(re.findall(r"(\[\d\]) offset (-?\d+)", out))
    check(found.get("[2]") == "0", "end of the empty partition", out)
    out = t.run("kcat", "-b", t.bootstrap, "-Q", "-t", f"{topic}:1:{middle}")
    check("offset 1" in out, "offset by time", out)
    out = t.run("kcat", "-b", t.bootstrap, "-C", "-t", topic, "-p", "1", "-o", "-1", "-e", "-q")
    equal(out, "line 2\n", "the last record")
    out = t.run("kcat", "-b", t.bootstrap, "-C", "-t", topic, "-p", "1", "-o", f"s@{middle}", "-e", "-q")
    equal(out, "line 1\nline 2\n", "records from a time on")
    t.prove("metadata as JSON, offset by time, the last record, consuming from a time on")


@case(CLIENT, "group consumer")
def group(t):
    topic, group = t.topic("kcat", partitions=4), t.name("g")
    t.run("kcat", "-b", t.bootstrap, "-P", "-t", topic, stdin="".join(f"{i}\n" for i in range(200)))
    out = t.run("kcat", "-b", t.bootstrap, "-G", group, "-q", "-e", "-X", "auto.offset.reset=earliest", topic)
    equal(sorted(map(int, out.split())), list(range(200)), "records of the group")
    t.run("kcat", "-b", t.bootstrap, "-P", "-t", topic, stdin="more\n")
    # kcat commits when it leaves; the next run starts there.
    out = wait_until(lambda: t.run("kcat", "-b", t.bootstrap, "-G", group, "-q", "-e", "-X", "auto.offset.reset=earliest", topic),
                     "the rest")
    equal(out, "more\n", "records after the commit")
    t.prove("balanced consumer (-G) reads all partitions, commits, and goes on from there")
