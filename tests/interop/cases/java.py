"""kafka-clients, Kafka Streams and Kafka Connect; the programs are in java/."""

import time

from brokers import KAFKA_VERSIONS, free_port, java_command
from kit import WAIT, case, check, equal, lines_of, wait_until

CONNECT_VERSIONS = ("4.3.1", "3.9.2")

for version in KAFKA_VERSIONS:
    for what in ("records", "timestamps", "limits", "groups", "static", "admin"):
        def clients(t, version=version, what=what):
            t.java_driver(version, "ClientChecks", t.bootstrap, what, version)
        case(f"java-{version}", what)(clients)


def word_count(t, version):
    source, sink, app = t.topic("words", partitions=3), t.topic("counts", partitions=2), t.name("app")
    lines = ["the quick brown fox", "jumps over the lazy dog", "The end"] * 20
    console = ["kafka.tools.ConsoleProducer", "org.apache.kafka.tools.ConsoleProducer"]
    t.tool(version, console, "--bootstrap-server", t.bootstrap, "--topic", source, stdin="\n".join(lines) + "\n")
    # A JVM of its own: its consumers must be gone when it ends.
    def run(state, wanted):
        return t.run(*java_command(version, "256m"), "WordCount", t.bootstrap, app, source, sink, t.scratch / state, wanted)
    equal(run("first", "the=60,fox=20,end=20,dog=20").strip(), "restored 0", "the first run")
    t.tool(version, console, "--bootstrap-server", t.bootstrap, "--topic", source, stdin="the fox again\n")
    out = run("second", "the=61,fox=21,again=1,end=20")
    check(int(out.split()[-1]) >= 9, "restored from the changelog:", out)
    from confluent_kafka import Consumer, OFFSET_BEGINNING, TopicPartition
    c = Consumer({"bootstrap.servers": t.bootstrap, "group.id": t.name("g")})
    c.assign([TopicPartition(sink, p, OFFSET_BEGINNING) for p in range(2)])
    wanted = {"the": 61, "fox": 21, "again": 1, "dog": 20, "end": 20}
    last, end = {}, time.monotonic() + WAIT
    while last != last | wanted:
        check(time.monotonic() < end, "counts in the output topic:", last)
        m = c.poll(0.5)
        if m is not None and m.error() is None:
            last[m.key().decode()] = int.from_bytes(m.value(), "big")
    c.close()
    topics = t.admin.list_topics(timeout=WAIT).topics
    for suffix in ("-counts-changelog", "-counts-repartition"):
        check(f"{app}{suffix}" in topics, f"internal topic {suffix} missing")
    t.prove("word count with a state store: repartition and compacted changelog topics, exact counts; a second run on an "
            "empty directory restores the store from the changelog and goes on")


def connect(t, version):
    source, sink, topic = t.scratch / "in.txt", t.scratch / "out.txt", t.name("connect")
    # ASCII only: the file source of 3.9 takes characters for bytes when it stores its position.
    first = [f"line {i}" for i in range(500)]
    source.write_text("".join(line + "\n" for line in first))
    (t.scratch / "worker.properties").write_text(
        f"bootstrap.servers={t.bootstrap}\nkey.converter=org.apache.kafka.connect.storage.StringConverter\n"
        "value.converter=org.apache.kafka.connect.storage.StringConverter\n"
        f"offset.storage.file.filename={t.scratch}/offsets\noffset.flush.interval.ms=1000\n"
        f"listeners=http://127.0.0.1:{free_port()}\nplugin.discovery=service_load\n")
    (t.scratch / "source.properties").write_text(
        f"name=source\nconnector.class=FileStreamSource\ntasks.max=1\nfile={source}\ntopic={topic}\n")
    (t.scratch / "sink.properties").write_text(
        f"name=sink\nconnector.class=FileStreamSink\ntasks.max=1\nfile={sink}\ntopics={topic}\n"
        "consumer.override.session.timeout.ms=60000\n")

    def read():
        return sink.read_text().splitlines() if sink.exists() else []
    command = [*java_command(version, "256m", part="connect"), "org.apache.kafka.connect.cli.ConnectStandalone",
               "worker.properties", "source.properties", "sink.properties"]
    p = t.spawn(*command)
    lines_of(p)
    try:
        wait_until(lambda: len(read()) >= 500, "500 lines in the sink's file")
        equal(read(), first, "the sink's file")
        with source.open("a") as f:
            f.write("one more\n")
        wait_until(lambda: len(read()) == 501, "the line appended later")
    finally:
        p.terminate()
        p.wait(WAIT)
    # Again: the source goes on at its stored position, the sink at its committed offset.
    with source.open("a") as f:
        f.write("after the restart\n")
    p = t.spawn(*command)
    lines_of(p)
    try:
        wait_until(lambda: len(read()) >= 502, "the line after the restart")
    finally:
        p.terminate()
        p.wait(WAIT)
    equal(read(), first + ["one more", "after the restart"], "the sink's file")
    t.prove("stand-alone worker: file source and sink move 502 lines once and in order, across a restart of the worker")


for version in KAFKA_VERSIONS:
    case(f"streams-{version}", "word count", seconds=20)(lambda t, version=version: word_count(t, version))
for version in CONNECT_VERSIONS:
    case(f"connect-{version}", "file source and sink", seconds=15)(lambda t, version=version: connect(t, version))
