// The Java clients of one Kafka release, checked from outside: producer, consumer and admin as an application
// uses them. args: bootstrap, name of the check, release. Prints "proved: ..." or ends with an AssertionError.

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.errors.*;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.serialization.*;

public final class ClientChecks {
    private static String bootstrap, release;
    /** Checks run side by side in one JVM, each in its thread. */
    private static final ThreadLocal<Admin> ADMIN = new ThreadLocal<>();

    private static Admin admin() { return ADMIN.get(); }

    public static void main(String[] args) throws Exception {
        bootstrap = args[0];
        release = args[2];
        try (Admin a = Admin.create(Map.<String, Object>of("bootstrap.servers", bootstrap))) {
            ADMIN.set(a);
            switch (args[1]) {
                case "records": records(); break;
                case "timestamps": timestamps(); break;
                case "limits": limits(); break;
                case "groups": groups(); break;
                case "static": staticMembers(); break;
                case "admin": administration(); break;
                default: throw new IllegalArgumentException(args[1]);
            }
        }
    }

    private static void proved(String what) { System.out.println("proved: " + what); }

    private static void check(boolean condition, Object... seen) {
        if (!condition) throw new AssertionError(Arrays.stream(seen).map(String::valueOf).collect(Collectors.joining(" ")));
    }

    private static void equal(Object got, Object expected, String what) {
        check(Objects.equals(got, expected), what + ": expected", expected, "got", got);
    }

    private static void until(String what, BooleanSupplier condition) throws Exception {
        long end = System.nanoTime() + 120_000_000_000L;
        while (!condition.getAsBoolean()) {
            check(System.nanoTime() < end, "not in time:", what);
            Thread.sleep(20);
        }
    }

    private static String name(String prefix) { return "java-" + prefix + "-" + UUID.randomUUID().toString().substring(0, 8); }

    private static String topic(int partitions, Map<String, String> configs) throws Exception {
        String name = name("t");
        admin().createTopics(List.of(new NewTopic(name, partitions, (short) 1).configs(configs))).all().get();
        return name;
    }

    private static KafkaProducer<byte[], byte[]> producer(Object... config) {
        return new KafkaProducer<>(config(config), new ByteArraySerializer(), new ByteArraySerializer());
    }

    private static KafkaConsumer<byte[], byte[]> consumer(Object... config) {
        Map<String, Object> all = new HashMap<>(Map.of("auto.offset.reset", "earliest", "enable.auto.commit", false));
        all.putAll(config(config));
        return new KafkaConsumer<>(all, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static Map<String, Object> config(Object... pairs) {
        Map<String, Object> all = new HashMap<>(Map.of("bootstrap.servers", bootstrap));
        for (int i = 0; i < pairs.length; i += 2) all.put((String) pairs[i], pairs[i + 1]);
        return all;
    }

    private static List<ConsumerRecord<byte[], byte[]>> read(Consumer<byte[], byte[]> c, int count) {
        List<ConsumerRecord<byte[], byte[]>> all = new ArrayList<>();
        long end = System.nanoTime() + 120_000_000_000L;
        while (all.size() < count) {
            check(System.nanoTime() < end, "only", all.size(), "of", count, "records");
            c.poll(Duration.ofMillis(200)).forEach(all::add);
        }
        return all;
    }

    private static List<TopicPartition> assignAll(Consumer<?, ?> c, String topic, int partitions) {
        List<TopicPartition> all = new ArrayList<>();
        for (int p = 0; p < partitions; p++) all.add(new TopicPartition(topic, p));
        c.assign(all);
        return all;
    }

    private static byte[] bytes(String s) { return s == null ? null : s.getBytes(StandardCharsets.UTF_8); }

    private static Throwable failure(Future<?> f) throws Exception {
        try {
            f.get(20, TimeUnit.SECONDS);
            return null;
        } catch (ExecutionException e) {
            return e.getCause();
        }
    }

    private static void fails(Future<?> f, Class<? extends Throwable> with, String what) throws Exception {
        Throwable e = failure(f);
        check(with.isInstance(e), what + ": expected", with.getSimpleName() + ", got", e);
    }

    private static void records() throws Exception {
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            String t = topic(3, Map.of());
            List<ProducerRecord<byte[], byte[]>> sent = new ArrayList<>();
            try (KafkaProducer<byte[], byte[]> p = producer("compression.type", codec, "linger.ms", 5, "acks", "all")) {
                List<Future<RecordMetadata>> futures = new ArrayList<>();
                for (int i = 0; i < 3000; i++) {
                    ProducerRecord<byte[], byte[]> r = new ProducerRecord<>(t, i % 13 == 0 ? i % 3 : null,
                        i % 13 == 0 ? null : bytes("k" + i % 30), i % 17 == 0 ? null : bytes(i + " " + "v".repeat(i % 250)));
                    r.headers().add("i", bytes("" + i)).add("null", null).add("i", bytes("again"));
                    sent.add(r);
                    futures.add(p.send(r));
                }
                for (Future<RecordMetadata> f : futures) check(f.get().hasOffset(), "no offset in the answer");
            }
            try (KafkaConsumer<byte[], byte[]> c = consumer()) {
                assignAll(c, t, 3);
                Map<String, Integer> last = new HashMap<>();
                Set<Integer> seen = new HashSet<>();
                for (ConsumerRecord<byte[], byte[]> r : read(c, sent.size())) {
                    Header[] h = r.headers().toArray();
                    int i = Integer.parseInt(new String(h[0].value()));
                    check(Arrays.equals(r.key(), sent.get(i).key()) && Arrays.equals(r.value(), sent.get(i).value()), "record", i, "differs");
                    check(h.length == 3 && h[1].value() == null && new String(h[2].value()).equals("again"), "headers of", i);
                    check(seen.add(i), "record", i, "twice");
                    Integer before = last.put(r.key() == null ? "null" + r.partition() : new String(r.key()), i);
                    check(before == null || before < i, "record", i, "after", before);
                }
            }
        }
        proved("idempotent producer (the default), acks=all: 3,000 records on 3 partitions with headers, null keys and values, order per key, five codecs");
        String t = topic(1, Map.of("compression.type", "gzip"));
        try (KafkaProducer<byte[], byte[]> p = producer("compression.type", "lz4"); KafkaConsumer<byte[], byte[]> c = consumer()) {
            for (int i = 0; i < 100; i++) p.send(new ProducerRecord<>(t, bytes("" + i)));
            p.flush();
            assignAll(c, t, 1);
            int i = 0;
            for (ConsumerRecord<byte[], byte[]> r : read(c, 100)) equal(new String(r.value()), "" + i++, "recompressed record");
        }
        proved("a topic with its own compression.type: records recompressed by the broker arrive whole");
        String compacted = topic(1, Map.of("cleanup.policy", "compact"));
        try (KafkaProducer<byte[], byte[]> p = producer()) {
            Throwable e = failure(p.send(new ProducerRecord<>(compacted, bytes("no key"))));
            check(e instanceof InvalidRecordException, "a null key on a compacted topic: got", e);
            p.send(new ProducerRecord<>(compacted, bytes("key"), bytes("value"))).get();
        }
        proved("a record without key on a compacted topic: INVALID_RECORD; the producer goes on");
    }

    private static void timestamps() throws Exception {
        String t = topic(1, Map.of()), stamped = topic(1, Map.of("message.timestamp.type", "LogAppendTime"));
        long base = System.currentTimeMillis() - 3_600_000, before = System.currentTimeMillis();
        try (KafkaProducer<byte[], byte[]> p = producer("compression.type", "snappy", "linger.ms", 100)) {
            List<Future<RecordMetadata>> futures = new ArrayList<>();
            for (int i = 0; i < 200; i++) {
                futures.add(p.send(new ProducerRecord<>(t, 0, base + i * 1000L, null, bytes("" + i))));
                futures.add(p.send(new ProducerRecord<>(stamped, 0, 1000L, null, bytes("" + i))));
            }
            for (int i = 0; i < futures.size(); i += 2) {
                equal(futures.get(i).get().timestamp(), base + i / 2 * 1000L, "CreateTime in the answer");
                check(futures.get(i + 1).get().timestamp() >= before - 1000, "LogAppendTime in the answer", futures.get(i + 1).get().timestamp());
            }
        }
        try (KafkaConsumer<byte[], byte[]> c = consumer("max.poll.records", 10)) {
            TopicPartition tp = assignAll(c, t, 1).get(0), stp = new TopicPartition(stamped, 0);
            for (ConsumerRecord<byte[], byte[]> r : read(c, 200)) {
                equal(r.timestampType(), TimestampType.CREATE_TIME, "type");
                equal(r.timestamp(), base + r.offset() * 1000L, "CreateTime");
            }
            Map<TopicPartition, OffsetAndTimestamp> at = c.offsetsForTimes(Map.of(tp, base + 77_500));
            equal(at.get(tp).offset(), 78L, "offsetsForTimes");
            equal(at.get(tp).timestamp(), base + 78_000, "its timestamp");
            check(c.offsetsForTimes(Map.of(tp, base + 10_000_000)).get(tp) == null, "an offset after the last record");
            equal(c.beginningOffsets(List.of(tp)).get(tp), 0L, "beginning");
            equal(c.endOffsets(List.of(tp)).get(tp), 200L, "end");
            c.seek(tp, 150);
            equal(c.poll(Duration.ofSeconds(120)).iterator().next().offset(), 150L, "after seek");
            c.pause(List.of(tp));
            check(c.poll(Duration.ofMillis(300)).isEmpty(), "a record while paused");
            c.resume(List.of(tp));
            check(!c.poll(Duration.ofSeconds(120)).isEmpty(), "nothing after resume");
            c.seekToEnd(List.of(tp));
            equal(c.position(tp), 200L, "position at the end");
            c.assign(List.of(stp));
            for (ConsumerRecord<byte[], byte[]> r : read(c, 200)) {
                equal(r.timestampType(), TimestampType.LOG_APPEND_TIME, "type");
                check(r.timestamp() >= before - 1000 && r.timestamp() <= System.currentTimeMillis() + 1000, "LogAppendTime", r.timestamp());
            }
        }
        TopicPartition tp = new TopicPartition(t, 0);
        ListOffsetsResult.ListOffsetsResultInfo top = admin().listOffsets(Map.of(tp, OffsetSpec.maxTimestamp())).partitionResult(tp).get();
        equal(top.offset(), 199L, "offset of the maximum timestamp");
        proved("CreateTime and LogAppendTime in answers and records; offsetsForTimes inside a compressed batch; maximum timestamp; seek, pause, resume, position");
        try (KafkaConsumer<byte[], byte[]> c = consumer("isolation.level", "read_committed")) {
            assignAll(c, t, 1);
            equal(read(c, 200).size(), 200, "read_committed");
            equal(c.endOffsets(List.of(tp)).get(tp), 200L, "last stable offset");
        }
        proved("read_committed without transactions: all records, the last stable offset is the end");
    }

    private static void limits() throws Exception {
        String t = topic(1, Map.of());
        Random random = new Random(7);
        byte[] near = new byte[1_048_588 - 100], above = new byte[1_048_588 + 1000], far = new byte[20 << 20];
        random.nextBytes(near);
        random.nextBytes(above);
        try (KafkaProducer<byte[], byte[]> p = producer("max.request.size", 64 << 20)) {
            p.send(new ProducerRecord<>(t, near)).get();
            fails(p.send(new ProducerRecord<>(t, above)), RecordTooLargeException.class, "a record above the limit");
            fails(p.send(new ProducerRecord<>(t, far)), RecordTooLargeException.class, "a record of 20 MiB");
            equal(p.send(new ProducerRecord<>(t, bytes("after"))).get().offset(), 1L, "offset of the next record");
        }
        proved("a record just below message.max.bytes passes; larger ones: RecordTooLargeException, the producer goes on");
        // A batch of records that each fit. Before 4.0 the producer splits to its own batch.size for ever.
        if (!release.startsWith("3.")) split(random);
        try (KafkaConsumer<byte[], byte[]> c = consumer("fetch.max.bytes", 1000, "max.partition.fetch.bytes", 1000)) {
            assignAll(c, t, 1);
            List<ConsumerRecord<byte[], byte[]>> got = read(c, 2);
            check(Arrays.equals(got.get(0).value(), near), "the large record's contents");
        }
        proved("a first record larger than every fetch limit is still returned");
        try (KafkaConsumer<byte[], byte[]> c = consumer("fetch.min.bytes", 1_000_000, "fetch.max.wait.ms", 700)) {
            TopicPartition tp = assignAll(c, t, 1).get(0);
            c.seek(tp, 1);
            long began = System.nanoTime();
            check(read(c, 1).size() == 1, "one record");
            long took = (System.nanoTime() - began) / 1_000_000;
            check(took >= 600, "a long poll ended after", took, "ms");
        }
        proved("a fetch below fetch.min.bytes waits fetch.max.wait.ms, then answers with what is there");
    }

    private static void split(Random random) throws Exception {
        String small = topic(1, Map.of("max.message.bytes", "20000"));
        try (KafkaProducer<byte[], byte[]> p = producer("batch.size", 200_000, "linger.ms", 300, "compression.type", "lz4"); KafkaConsumer<byte[], byte[]> c = consumer()) {
            byte[] noise = new byte[1000];
            List<Future<RecordMetadata>> futures = new ArrayList<>();
            for (int i = 0; i < 150; i++) {
                random.nextBytes(noise);
                futures.add(p.send(new ProducerRecord<>(small, noise.clone())));
            }
            for (Future<RecordMetadata> f : futures) f.get();
            assignAll(c, small, 1);
            equal(read(c, 150).size(), 150, "records after the split");
        }
        proved("MESSAGE_TOO_LARGE for a batch of many records: the producer splits it and all arrive");
    }

    private static final class Member implements Runnable, ConsumerRebalanceListener {
        final KafkaConsumer<byte[], byte[]> consumer;
        final Set<Integer> owned = ConcurrentHashMap.newKeySet();
        final Set<String> seen = ConcurrentHashMap.newKeySet();
        volatile int assigned, revoked, rebalances;
        volatile boolean stop;
        volatile Throwable failed;
        final Thread thread = new Thread(this);

        Member(String topic, String group, Object... config) {
            List<Object> all = new ArrayList<>(List.of("group.id", group, "session.timeout.ms", 60000, "heartbeat.interval.ms", 300));
            all.addAll(List.of(config));
            consumer = consumer(all.toArray());
            consumer.subscribe(List.of(topic), this);
            thread.start();
        }

        @Override public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            rebalances++;
            assigned += partitions.size();
            for (TopicPartition tp : partitions) owned.add(tp.partition());
        }

        @Override public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            revoked += partitions.size();
            for (TopicPartition tp : partitions) owned.remove(tp.partition());
        }

        @Override public void run() {
            try {
                while (!stop) {
                    ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(50));
                    records.forEach(r -> seen.add(new String(r.value())));
                    if (!records.isEmpty()) consumer.commitSync();
                }
            } catch (Throwable e) {
                failed = e;
            } finally {
                consumer.close();
            }
        }

        void leave() throws Exception {
            stop = true;
            thread.join(120_000);
            check(failed == null, "a member failed:", failed);
        }
    }

    private static void groups() throws Exception {
        for (String assignor : List.of("RangeAssignor", "StickyAssignor", "CooperativeStickyAssignor")) {
            String t = topic(6, Map.of()), group = name("g");
            Object[] config = {"partition.assignment.strategy", "org.apache.kafka.clients.consumer." + assignor};
            Member a = new Member(t, group, config);
            until(assignor + ": one owns all", () -> a.owned.size() == 6);
            Member b = new Member(t, group, config);
            until(assignor + ": two share", () -> a.owned.size() == 3 && b.owned.size() == 3 && Collections.disjoint(a.owned, b.owned));
            equal(a.revoked, assignor.startsWith("Coop") ? 3 : 6, assignor + ": partitions revoked from the first member");
            try (KafkaProducer<byte[], byte[]> p = producer()) {
                for (int i = 0; i < 600; i++) p.send(new ProducerRecord<>(t, i % 6, null, bytes("" + i)));
            }
            until(assignor + ": all records", () -> a.seen.size() + b.seen.size() == 600);
            ConsumerGroupDescription d = admin().describeConsumerGroups(List.of(group)).all().get().get(group);
            equal(d.members().size(), 2, "described members");
            b.leave();
            until(assignor + ": the rest comes back", () -> a.owned.size() == 6);
            a.leave();
            long sum = 0;
            for (OffsetAndMetadata o : admin().listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().values()) sum += o.offset();
            equal(sum, 600L, "committed in all");
        }
        proved("RangeAssignor and StickyAssignor (eager, all revoked), CooperativeStickyAssignor (only what moves is revoked): join, share, leave, 600 records once each, commits");
        String t = topic(3, Map.of()), group = name("g");
        try (KafkaProducer<byte[], byte[]> p = producer(); KafkaConsumer<byte[], byte[]> c = consumer("group.id", group)) {
            for (int i = 0; i < 30; i++) p.send(new ProducerRecord<>(t, i % 3, null, bytes("" + i)));
            p.flush();
            c.subscribe(List.of(t));
            read(c, 30);
            CountDownLatch done = new CountDownLatch(1);
            Map<TopicPartition, OffsetAndMetadata> at = Map.of(new TopicPartition(t, 1), new OffsetAndMetadata(7, "note"));
            c.commitAsync(at, (offsets, e) -> { if (e == null) done.countDown(); });
            long end = System.nanoTime() + 120_000_000_000L;
            while (done.getCount() > 0 && System.nanoTime() < end) c.poll(Duration.ofMillis(50));
            equal(c.committed(Set.of(new TopicPartition(t, 1))).get(new TopicPartition(t, 1)), new OffsetAndMetadata(7, Optional.empty(), "note"), "committed asynchronously");
            c.enforceRebalance();
            c.poll(Duration.ofSeconds(1));
            c.commitSync();
        }
        proved("asynchronous commit with metadata, enforced rebalance");
    }

    private static void staticMembers() throws Exception {
        String t = topic(4, Map.of()), group = name("g");
        Member a = new Member(t, group, "group.instance.id", "one");
        Member b = new Member(t, group, "group.instance.id", "two");
        until("two share", () -> a.owned.size() == 2 && b.owned.size() == 2);
        int before = a.rebalances;
        Set<Integer> had = Set.copyOf(b.owned);
        b.leave();
        Member again = new Member(t, group, "group.instance.id", "two");
        until("the returning member owns again", () -> again.owned.equals(had));
        Thread.sleep(1000);
        equal(a.rebalances, before, "rebalances of the other member");
        Member usurper = new Member(t, group, "group.instance.id", "two");
        until("the older of two with one instance id is fenced", () -> again.failed instanceof FencedInstanceIdException);
        usurper.stop = true;
        usurper.thread.join(120_000);
        admin().removeMembersFromConsumerGroup(group, new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("two")))).all().get();
        until("the rest comes to the other", () -> a.owned.size() == 4);
        a.leave();
        proved("static membership: return without a rebalance, FencedInstanceIdException for a double, removal by the administrator");
    }

    private static void administration() throws Exception {
        String t = topic(2, Map.of("retention.ms", "99999"));
        TopicDescription d = admin().describeTopics(List.of(t)).allTopicNames().get().get(t);
        check(!d.topicId().equals(Uuid.ZERO_UUID) && d.partitions().size() == 2, "description", d);
        equal(admin().describeTopics(TopicCollection.ofTopicIds(List.of(d.topicId()))).allTopicIds().get().get(d.topicId()).name(), t, "topic by id");
        fails(admin().createTopics(List.of(new NewTopic(t, 1, (short) 1))).all(), TopicExistsException.class, "same topic again");
        fails(admin().createTopics(List.of(new NewTopic(name("x"), 1, (short) 2))).all(), InvalidReplicationFactorException.class, "replication factor 2");
        fails(admin().createTopics(List.of(new NewTopic("a b", 1, (short) 1))).all(), InvalidTopicException.class, "a space in the name");
        fails(admin().createTopics(List.of(new NewTopic(name("x"), Map.of(0, List.of(77))))).all(), InvalidReplicaAssignmentException.class, "an unknown broker in the assignment");
        admin().createPartitions(Map.of(t, NewPartitions.increaseTo(3))).all().get();
        until("3 partitions", () -> {
            try {
                return admin().describeTopics(List.of(t)).allTopicNames().get().get(t).partitions().size() == 3;
            } catch (Exception e) {
                return false;
            }
        });
        DescribeClusterResult cluster = admin().describeCluster();
        equal(cluster.nodes().get().size(), 1, "nodes");
        int node = cluster.nodes().get().iterator().next().id();
        String dir = admin().describeLogDirs(List.of(node)).allDescriptions().get().get(node).keySet().iterator().next();
        check(!dir.isEmpty(), "no log directory");
        TopicPartition tp = new TopicPartition(t, 0);
        try (KafkaProducer<byte[], byte[]> p = producer()) {
            for (int i = 0; i < 50; i++) p.send(new ProducerRecord<>(t, 0, null, bytes("" + i)));
            p.flush();
            DescribeProducersResult.PartitionProducerState producers = admin().describeProducers(List.of(tp)).partitionResult(tp).get();
            equal(producers.activeProducers().size(), 1, "active producers");
            equal(producers.activeProducers().get(0).lastSequence(), 49, "last sequence");
        }
        equal(admin().deleteRecords(Map.of(tp, RecordsToDelete.beforeOffset(20))).lowWatermarks().get(tp).get().lowWatermark(), 20L, "low watermark");
        equal(admin().listOffsets(Map.of(tp, OffsetSpec.earliest())).partitionResult(tp).get().offset(), 20L, "earliest");
        check(admin().describeMetadataQuorum().quorumInfo().get().leaderId() >= 0, "no quorum leader");
        check(admin().describeFeatures().featureMetadata().get().finalizedFeatures().containsKey("metadata.version"), "no metadata.version");
        fails(admin().describeAcls(AclBindingFilter.ANY).values(), SecurityDisabledException.class, "ACLs without an authorizer");
        equal(admin().listPartitionReassignments().reassignments().get().size(), 0, "reassignments");
        fails(admin().electLeaders(ElectionType.PREFERRED, Set.of(tp)).all(), ElectionNotNeededException.class, "preferred election");
        equal(admin().describeClientQuotas(org.apache.kafka.common.quota.ClientQuotaFilter.all()).entities().get().size(), 0, "quotas");
        check(admin().listTopics().names().get().contains(t), "topic not listed");
        admin().deleteTopics(TopicCollection.ofTopicIds(List.of(d.topicId()))).all().get();
        until("the topic is gone", () -> {
            try {
                return !admin().listTopics().names().get().contains(t);
            } catch (Exception e) {
                return false;
            }
        });
        fails(admin().describeTopics(List.of(t)).allTopicNames(), UnknownTopicOrPartitionException.class, "a deleted topic");
        proved("Admin: topics by name and id, wrong requests get their errors, partitions, log directories, producers, DeleteRecords, quorum, features, ACLs disabled, reassignments, elections, quotas, delete by id");
    }
}
