"""Kafka's own command-line tools, of two releases, through their main methods."""

import json
import re
import time

from brokers import KAFKA_VERSIONS, java_command
from kit import WAIT, case, check, equal, lines_of, wait_until

GROUPS = "consumer.group.ConsumerGroupCommand"
CONSOLE_CONSUMER = "consumer.ConsoleConsumer"
REASSIGN = "reassign.ReassignPartitionsCommand"
# Tools that moved from the core into the tools module between the releases.
CONSOLE_PRODUCER = ["ConsoleProducer", "kafka.tools.ConsoleProducer"]
CONFIGS = ["ConfigCommand", "kafka.admin.ConfigCommand"]
API_VERSIONS = ["BrokerApiVersionsCommand", "kafka.admin.BrokerApiVersionsCommand"]
CLUSTER = ["ClusterTool", "kafka.tools.ClusterTool"]
FEATURES = ["FeatureCommand", "kafka.admin.FeatureCommand"]


def tools(name, seconds=0):
    """Registers a case once for each release."""
    def register(function):
        for version in KAFKA_VERSIONS:
            def run(t, version=version):
                server = ("--bootstrap-server", t.bootstrap)
                function(t, version, lambda cls, *args, **kw: t.tool(version, cls, *server, *args, **kw))
            case(f"tools-{version}", name, seconds)(run)
        return function
    return register


def json_lines(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def fill(tool, topic, count):
    """`count` keyed records, so that every partition gets some."""
    tool(CONSOLE_PRODUCER, "--topic", topic, "--property", "parse.key=true",
         stdin="".join(f"k{i}\tv{i}\n" for i in range(count)))


@tools("TopicCommand")
def topics(t, version, tool):
    topic = t.name("topic")
    out = tool("TopicCommand", "--create", "--topic", topic, "--partitions", 3, "--replication-factor", 1,
               "--config", "retention.ms=111111", "--config", "cleanup.policy=compact")
    check(f"Created topic {topic}" in out, out)
    check(topic in tool("TopicCommand", "--list").split(), "the topic is not listed")
    out = tool("TopicCommand", "--describe", "--topic", topic)
    head = out.splitlines()[0]
    check(re.search(r"TopicId: [\w-]{22}\s", head), "topic id", head)
    check("PartitionCount: 3" in head and "ReplicationFactor: 1" in head, head)
    configs = dict(pair.split("=", 1) for pair in re.search(r"Configs: (\S*)", head).group(1).split(",") if "=" in pair)
    equal((configs.get("retention.ms"), configs.get("cleanup.policy")), ("111111", "compact"), "Configs: line")
    equal(len(re.findall(r"Partition: \d+\s+Leader: 1\s+Replicas: 1\s+Isr: 1", out)), 3, "partition lines")
    tool("TopicCommand", "--alter", "--topic", topic, "--partitions", 5)
    wait_until(lambda: "PartitionCount: 5" in tool("TopicCommand", "--describe", "--topic", topic), "5 partitions")
    code, out, err = tool("TopicCommand", "--alter", "--topic", topic, "--partitions", 2, ok=False)
    check(code != 0 and "InvalidPartitions" in out + err, "fewer partitions", code, out, err)
    code, out, err = tool("TopicCommand", "--create", "--topic", topic, ok=False)
    check(code != 0 and "already exists" in out + err, "the same topic again", code, out, err)
    tool("TopicCommand", "--create", "--topic", topic, "--if-not-exists")
    equal(tool("TopicCommand", "--describe", "--topic", topic, "--unavailable-partitions").strip(), "", "unavailable partitions")
    tool("TopicCommand", "--delete", "--topic", topic)
    wait_until(lambda: topic not in tool("TopicCommand", "--list").split(), "the topic is gone")
    code, out, err = tool("TopicCommand", "--describe", "--topic", topic, ok=False)
    check(code != 0 and "does not exist" in out + err, "describe of a deleted topic", code, out, err)
    t.prove("TopicCommand: create with configs, list, describe (id, Configs line, leader, ISR), more partitions, refusals, delete")


@tools("Verifiable and perf tools", seconds=10)
def verifiable(t, version, tool):
    topic, group = t.topic("verify", partitions=3), t.name("g")
    # In a JVM of its own, since it flushes when its JVM ends.
    sent = json_lines(t.run(*java_command(version), "org.apache.kafka.tools.VerifiableProducer", "--bootstrap-server", t.bootstrap,
                            "--topic", topic, "--max-messages", 2000, "--acks", "-1", "--repeating-keys", 50))
    equal(sum(e["name"] == "producer_send_success" for e in sent), 2000, "acknowledged")
    summary = [e for e in sent if e["name"] == "tool_data"][0]
    equal((summary["sent"], summary["acked"]), (2000, 2000), "tool_data")
    got = json_lines(tool("VerifiableConsumer", "--topic", topic, "--group-id", group, "--max-messages", 2000,
                          "--reset-policy", "earliest", "--verbose", "--session-timeout", "60000"))
    equal(sum(e["count"] for e in got if e["name"] == "records_consumed"), 2000, "consumed")
    equal(sorted(int(e["value"]) for e in got if e["name"] == "record_data"), list(range(2000)), "values")
    commits = [e for e in got if e["name"] == "offsets_committed"]
    check(commits and all(e["success"] for e in commits), "commits", commits)
    t.prove("VerifiableProducer: 2,000 acknowledged with acks=all; VerifiableConsumer: all 2,000 values once, commits succeed")
    perf = t.topic("perf", partitions=4)
    out = t.tool(version, "ProducerPerformance", "--topic", perf, "--num-records", 100000, "--record-size", 100,
                 "--throughput", -1, "--producer-props", f"bootstrap.servers={t.bootstrap}", "acks=1")
    check("100000 records sent" in out, out)
    out = tool("ConsumerPerformance", "--topic", perf, *(["--messages"] if version < "4" else ["--num-records"]), 100000, "--timeout", WAIT * 1000)
    fields = [f.strip() for f in out.strip().splitlines()[-1].split(",")]
    equal(int(fields[4]), 100000, "records of ConsumerPerformance")
    t.prove("ProducerPerformance and ConsumerPerformance: 100,000 records through and back")


@tools("console tools")
def console(t, version, tool):
    topic = t.name("console")
    pairs = [f"h1:a,h2:b\tkey {i}\tvalue {i} ✓" for i in range(200)]
    tool(CONSOLE_PRODUCER, "--topic", topic, "--property", "parse.key=true", "--property", "parse.headers=true",
         stdin="\n".join(pairs) + "\n")
    out = tool(CONSOLE_CONSUMER, "--topic", topic, "--from-beginning", "--max-messages", 200, "--timeout-ms", WAIT * 1000,
               "--property", "print.key=true", "--property", "print.headers=true", "--property", "print.timestamp=true",
               "--property", "print.partition=true", "--property", "print.offset=true")
    rows = [line.split("\t") for line in out.splitlines() if "\t" in line]
    equal(len(rows), 200, "lines")
    equal(sorted("\t".join(r[3:]) for r in rows), sorted(pairs), "headers, keys and values")
    check(all(re.fullmatch(r"CreateTime:\d{13}", r[0]) for r in rows), "timestamps", rows[0])
    last = tool(CONSOLE_CONSUMER, "--topic", topic, "--partition", 0, "--offset", 0, "--max-messages", 1, "--timeout-ms", WAIT * 1000)
    check(last.startswith("value "), "from an offset of a partition", last)
    t.prove("ConsoleProducer makes a topic on demand, keys and headers parsed; ConsoleConsumer prints them back with timestamps, partitions, offsets")


@tools("ConsumerGroupCommand", seconds=10)
def groups(t, version, tool):
    topic, group = t.topic("groups", partitions=2), t.name("g")
    for _ in range(2):
        fill(tool, topic, 100)
    middle = int(time.time() * 1000) + 1
    time.sleep(0.02)
    fill(tool, topic, 100)
    tool("VerifiableConsumer", "--topic", topic, "--group-id", group, "--max-messages", 300, "--reset-policy", "earliest",
         "--session-timeout", "60000")
    check(group in tool(GROUPS, "--list").split(), "the group is not listed")

    def described():
        rows = [line.split() for line in tool(GROUPS, "--describe", "--group", group, "--offsets").splitlines()]
        return {(r[1], int(r[2])): (int(r[3]), int(r[4]), int(r[5])) for r in rows if r and r[0] == group and r[3].isdigit()}
    rows = wait_until(described, "the group's offsets")
    equal(sum(r[0] for r in rows.values()), 300, "current offsets")
    equal(sum(r[2] for r in rows.values()), 0, "lag")
    state = wait_until(lambda: (s := tool(GROUPS, "--describe", "--group", group, "--state")) and "Empty" in s and s, "state Empty")
    check(group in state, state)
    listed = tool(GROUPS, "--list", "--state")
    check(re.search(rf"{group}\s+(\S+\s+)?Empty", listed), "list with states", listed)
    t.prove("ConsumerGroupCommand: list with states, describe offsets with lag, state")

    def reset(*how):
        out = tool(GROUPS, "--group", group, "--reset-offsets", "--topic", topic, *how, "--execute")
        # 3.9 prints the rows without line ends.
        rows = [int(offset) for offset in re.findall(rf"{group}\s+{topic}\s+\d+\s+(\d+)", out)]
        equal(len(rows), 2, f"rows of the reset {how}: {out}")
        return sum(rows)
    equal(reset("--to-earliest"), 0, "to the earliest")
    equal(sum(r[2] for r in described().values()), 300, "lag after the reset")
    equal(reset("--shift-by", 10), 20, "shifted")
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(middle / 1000)) + f".{middle % 1000:03d}"
    equal(reset("--to-datetime", stamp), 200, "to a time")
    equal(reset("--to-latest"), 300, "to the latest")
    equal(reset("--to-offset", 5), 10, "to an offset")
    tool(GROUPS, "--delete-offsets", "--group", group, "--topic", f"{topic}:0")
    equal([k[1] for k in described()], [1], "partitions with offsets after --delete-offsets")
    out = tool(GROUPS, "--delete", "--group", group)
    check("successful" in out, out)
    check(group not in tool(GROUPS, "--list").split(), "a deleted group is listed")
    t.prove("ConsumerGroupCommand: reset to earliest, latest, a time, an offset, by a shift; delete offsets of a partition; delete")
    member = t.spawn(*java_command(version), "org.apache.kafka.tools.VerifiableConsumer", "--bootstrap-server", t.bootstrap,
                     "--topic", topic, "--group-id", group, "--session-timeout", "60000")
    seen = lines_of(member)
    wait_until(lambda: any("partitions_assigned" in line for line in seen), "a live member")
    out = tool(GROUPS, "--describe", "--group", group, "--members", "--verbose")
    check(re.search(rf"{group}\s+\S+\s+/127\.0\.0\.1\s+\S+\s+2\s", out), "members", out)
    code, out, err = tool(GROUPS, "--group", group, "--reset-offsets", "--topic", topic, "--to-earliest", "--execute", ok=False)
    check("inactive" in out + err, "reset of a live group", code, out, err)
    code, out, err = tool(GROUPS, "--delete", "--group", group, ok=False)
    check("NonEmpty" in out + err or "not empty" in out + err, "delete of a live group", code, out, err)
    member.terminate()
    member.wait(WAIT)
    t.prove("ConsumerGroupCommand: members of a live group; reset and delete of a live group are refused")


@tools("ConfigCommand")
def configs(t, version, tool):
    topic = t.topic("config")
    of_topic = ("--entity-type", "topics", "--entity-name", topic)
    tool(CONFIGS, "--alter", *of_topic, "--add-config", "retention.ms=222222,max.message.bytes=50000")
    out = wait_until(lambda: (o := tool(CONFIGS, "--describe", *of_topic)) and "222222" in o and o, "the altered config")
    check(re.search(r"retention\.ms=222222 sensitive=false synonyms=\{DYNAMIC_TOPIC_CONFIG:retention\.ms=222222", out), out)
    check("max.message.bytes=50000" in out, out)
    tool(CONFIGS, "--alter", *of_topic, "--delete-config", "retention.ms")
    out = wait_until(lambda: (o := tool(CONFIGS, "--describe", *of_topic)) and "retention.ms" not in o and o, "a deleted config")
    check("max.message.bytes=50000" in out, out)
    everything = tool(CONFIGS, "--describe", *of_topic, "--all")
    check("retention.ms=604800000" in everything and "segment.bytes=1073741824" in everything, everything)
    code, out, err = tool(CONFIGS, "--alter", *of_topic, "--add-config", "retention.ms=soon", ok=False)
    check(code != 0 and "retention.ms" in out + err, "a wrong value", code, out, err)
    code, out, err = tool(CONFIGS, "--alter", *of_topic, "--add-config", "no.such.thing=1", ok=False)
    check(code != 0, "an unknown config", code, out, err)
    t.prove("ConfigCommand, topics: alter, describe with synonyms, --all with defaults, delete, wrong values refused")
    broker = ("--entity-type", "brokers", "--entity-name", "1")
    out = tool(CONFIGS, "--describe", *broker, "--all")
    check("log.retention.hours=168" in out and "STATIC_BROKER_CONFIG:log.dirs" in out, out[:2000])
    # A value nobody feels, since cases run side by side.
    name = "log.cleaner.backoff.ms"
    tool(CONFIGS, "--alter", *broker, "--add-config", f"{name}=15001")
    out = wait_until(lambda: (o := tool(CONFIGS, "--describe", *broker)) and "15001" in o and o, "a dynamic broker config")
    check(re.search(r"DYNAMIC_BROKER_CONFIG:" + name + "=15001", out), out)
    default = ("--entity-type", "brokers", "--entity-default")
    tool(CONFIGS, "--alter", *default, "--add-config", f"{name}=15002")
    out = wait_until(lambda: (o := tool(CONFIGS, "--describe", *default)) and "15002" in o and o, "a cluster-wide default")
    out = tool(CONFIGS, "--describe", *broker)
    check(re.search(r"DYNAMIC_BROKER_CONFIG:\S+=15001, DYNAMIC_DEFAULT_BROKER_CONFIG:\S+=15002, DEFAULT_CONFIG", out), out)
    tool(CONFIGS, "--alter", *broker, "--delete-config", name)
    tool(CONFIGS, "--alter", *default, "--delete-config", name)
    wait_until(lambda: name not in tool(CONFIGS, "--describe", *broker), "the dynamic config is gone")
    t.prove("ConfigCommand, brokers: --all with static sources, dynamic per broker and cluster-wide with synonyms, delete")


@tools("offset tools")
def offsets(t, version, tool):
    topic = t.topic("offsets", partitions=2)
    fill(tool, topic, 100)

    def at(time_):
        out = tool("GetOffsetShell", "--topic", topic, "--time", time_)
        return {int(p): int(o) for _, p, o in (line.split(":") for line in out.split())}
    equal((sum(at(-1).values()), at(-2)), (100, {0: 0, 1: 0}), "latest and earliest")
    equal(sum(at("latest").values()), 100, "latest by name")
    top = at("max-timestamp")
    check(all(0 <= o for o in top.values()), "max-timestamp", top)
    early = at(int(time.time() * 1000) - 3_600_000)
    check(early and set(early.values()) == {0}, "by time", early)
    equal(sum(int(line.split(":")[2]) for line in
              tool("GetOffsetShell", "--topic-partitions", f"{topic}:0-2").split()), 100, "by partition range")
    t.prove("GetOffsetShell: earliest, latest, maximum timestamp, by time, by partitions")
    cut = t.scratch / "cut.json"
    cut.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 10},
                                                            {"topic": topic, "partition": 1, "offset": -1}]}))
    out = tool("DeleteRecordsCommand", "--offset-json-file", cut)
    check("low_watermark: 10" in out, out)
    equal(at(-2), {0: 10, 1: at(-1)[1]}, "earliest after the cut")
    t.prove("DeleteRecordsCommand: to an offset and to the end")


@tools("cluster tools")
def cluster(t, version, tool):
    topic = t.topic("cluster", partitions=2)
    out = tool(API_VERSIONS)
    check(f"{t.bootstrap} (id: 1 rack: null" in out, out[:500])
    for api in ("Produce(0): ", "Fetch(1): ", "JoinGroup(11): ", "ApiVersions(18): ", "CreateTopics(19): ",
                "IncrementalAlterConfigs(44): ", "DescribeTopicPartitions(75): "):
        line = [line for line in out.splitlines() if api in line]
        check(line and "UNSUPPORTED" not in line[0] and "[usable: " in line[0], "ApiVersions:", line, out if not line else "")
    t.prove("BrokerApiVersionsCommand lists every API with a usable version")
    out = t.tool(version, CLUSTER, "cluster-id", "--bootstrap-server", t.bootstrap)
    check(re.search(r"Cluster ID: [\w-]{10,}", out), out)
    if version >= "4":
        out = t.tool(version, CLUSTER, "list-endpoints", "--bootstrap-server", t.bootstrap)
        check("127.0.0.1" in out, out)
    t.prove("ClusterTool: cluster id" + (", end points" if version >= "4" else ""))
    def hosted():
        dirs = json_lines(tool("LogDirsCommand", "--describe", "--topic-list", topic))[-1]["brokers"][0]["logDirs"]
        equal([d["error"] for d in dirs], [None], "errors of log directories")
        return sorted(p["partition"] for d in dirs for p in d["partitions"]) == [f"{topic}-0", f"{topic}-1"]
    wait_until(hosted, "both partitions in the log directory")
    t.prove("LogDirsCommand: both partitions, no error")
    out = t.tool(version, FEATURES, "--bootstrap-server", t.bootstrap, "describe")
    check(re.search(r"Feature: metadata\.version\s+SupportedMinVersion: [^\t]+\s+SupportedMaxVersion: [^\t]+\s+FinalizedVersionLevel: [^\t]+", out), out)
    t.prove("FeatureCommand: metadata.version is finalized")
    out = t.tool(version, "MetadataQuorumCommand", "--bootstrap-server", t.bootstrap, "describe", "--status")
    check(re.search(r"LeaderId:\s+1\b", out) and re.search(r"ClusterId:\s+\S+", out) and "HighWatermark" in out, out)
    out = t.tool(version, "MetadataQuorumCommand", "--bootstrap-server", t.bootstrap, "describe", "--replication")
    check(re.search(r"^1\s.*Leader", out, re.M), out)
    t.prove("MetadataQuorumCommand: status and replication name node 1 as the leader")
    out = tool("LeaderElectionCommand", "--election-type", "preferred", "--topic", topic, "--partition", 0)
    check("already" in out and topic in out, out)
    out = tool("LeaderElectionCommand", "--election-type", "preferred", "--all-topic-partitions")
    check("Error" not in out, out)
    t.prove("LeaderElectionCommand: the preferred leader leads already")
    check("No partition reassignments found." in tool(REASSIGN, "--list"), "reassignments")
    plan = t.scratch / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": p, "replicas": [1]} for p in range(2)]}))
    out = tool(REASSIGN, "--reassignment-json-file", plan, "--execute")
    check("Successfully started partition reassignments" in out or "Successfully started" in out, out)
    out = wait_until(lambda: (o := tool(REASSIGN, "--reassignment-json-file", plan, "--verify")) and "still in progress" not in o and o, "verify")
    equal(len(re.findall(r"completed|is complete", out)), 2, "completed reassignments: " + out)
    t.prove("ReassignPartitionsCommand: list, and a plan that changes nothing")


@tools("rebalance", seconds=25)
def rebalance(t, version, tool):
    """Two VerifiableConsumers in JVMs of their own; the second is told to stop."""
    for strategy in ("RangeAssignor", "CooperativeStickyAssignor"):
        topic, group = t.topic("rebalance", partitions=4), t.name("g")

        def member():
            p = t.spawn(*java_command(version), "org.apache.kafka.tools.VerifiableConsumer", "--bootstrap-server", t.bootstrap,
                        "--topic", topic, "--group-id", group, "--session-timeout", "60000", "--reset-policy", "earliest",
                        "--assignment-strategy", f"org.apache.kafka.clients.consumer.{strategy}")
            return p, lines_of(p)

        def owned(lines):
            mine = set()
            for e in json_lines("\n".join(list(lines))):
                if e["name"] == "partitions_assigned":
                    mine |= {p["partition"] for p in e["partitions"]}
                elif e["name"] == "partitions_revoked":
                    mine -= {p["partition"] for p in e["partitions"]}
            return mine
        a, seen_a = member()
        wait_until(lambda: len(owned(seen_a)) == 4, "one owns all")
        b, seen_b = member()
        wait_until(lambda: len(owned(seen_a)) == len(owned(seen_b)) == 2, "two share")
        revoked = sum(len(e["partitions"]) for e in json_lines("\n".join(seen_a)) if e["name"] == "partitions_revoked")
        equal(revoked, 4 if strategy.startswith("Range") else 2, f"{strategy}: partitions revoked from the first")
        fill(tool, topic, 500)

        def count():
            return sum(e["count"] for s in (seen_a, seen_b) for e in json_lines("\n".join(list(s))) if e["name"] == "records_consumed")
        wait_until(lambda: count() == 500, "500 records")
        b.terminate()
        equal(b.wait(WAIT) in (0, 143), True, f"exit code {b.returncode}")
        wait_until(lambda: len(owned(seen_a)) == 4, "the rest comes back")
        a.terminate()
        a.wait(WAIT)
        commits = [e for s in (seen_a, seen_b) for e in json_lines("\n".join(s)) if e["name"] == "offsets_committed"]
        check(commits and all(e["success"] for e in commits), "commits", commits[-3:])
    t.prove("two VerifiableConsumers, RangeAssignor and CooperativeStickyAssignor: join, share, SIGTERM, take over; 500 records once, every commit succeeds")
