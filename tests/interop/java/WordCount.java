// A Kafka Streams word count with a state store. args: bootstrap, application id, input topic, output topic,
// state directory, words that must have been counted before the program ends (as word=count, ...).
// The count runs until the store holds them, then closes; a second run with an empty state directory
// restores the store from its changelog topic first.

import java.time.Duration;
import java.util.*;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.*;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.state.*;

public final class WordCount {
    public static void main(String[] args) throws Exception {
        Properties config = new Properties();
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, args[1]);
        config.put(StreamsConfig.STATE_DIR_CONFIG, args[4]);
        config.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        config.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        config.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 200);
        config.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        config.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        config.put(StreamsConfig.consumerPrefix("session.timeout.ms"), 10000);
        config.put(StreamsConfig.consumerPrefix("heartbeat.interval.ms"), 1000);
        Map<String, Long> wanted = new HashMap<>();
        for (String pair : args[5].split(",")) wanted.put(pair.split("=")[0], Long.parseLong(pair.split("=")[1]));

        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(args[2])
            .flatMapValues(line -> Arrays.asList(line.toLowerCase(Locale.ROOT).split("\\W+")))
            .groupBy((key, word) -> word)
            .count(Materialized.as("counts"))
            .toStream()
            .to(args[3], Produced.with(Serdes.String(), Serdes.Long()));
        long restored[] = {0};
        try (KafkaStreams streams = new KafkaStreams(builder.build(), config)) {
            streams.setGlobalStateRestoreListener(new org.apache.kafka.streams.processor.StateRestoreListener() {
                public void onRestoreStart(org.apache.kafka.common.TopicPartition tp, String store, long from, long to) { }
                public void onBatchRestored(org.apache.kafka.common.TopicPartition tp, String store, long end, long count) {
                    synchronized (restored) { restored[0] += count; }
                }
                public void onRestoreEnd(org.apache.kafka.common.TopicPartition tp, String store, long total) { }
            });
            Throwable[] failed = {null};
            streams.setUncaughtExceptionHandler(e -> {
                failed[0] = e;
                return org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
            });
            streams.start();
            Map<String, Long> counts = new TreeMap<>();
            long end = System.nanoTime() + 120_000_000_000L;
            while (true) {
                if (failed[0] != null) throw new AssertionError("a stream thread died", failed[0]);
                if (System.nanoTime() > end) throw new AssertionError("counted " + counts + ", wanted " + wanted + ", state " + streams.state());
                try {
                    ReadOnlyKeyValueStore<String, Long> store = streams.store(
                        StoreQueryParameters.fromNameAndType("counts", QueryableStoreTypes.keyValueStore()));
                    counts.clear();
                    try (KeyValueIterator<String, Long> all = store.all()) {
                        all.forEachRemaining(e -> counts.put(e.key, e.value));
                    }
                    boolean done = true;
                    for (Map.Entry<String, Long> e : wanted.entrySet()) {
                        Long got = counts.get(e.getKey());
                        if (got != null && got > e.getValue()) throw new AssertionError(e.getKey() + " counted " + got + " times, wanted " + e.getValue());
                        done &= e.getValue().equals(got);
                    }
                    if (done) break;
                } catch (org.apache.kafka.streams.errors.InvalidStateStoreException notYet) {
                    // Rebalancing or restoring.
                }
                Thread.sleep(100);
            }
            Thread.sleep(500);
            streams.close(Duration.ofSeconds(120));
        }
        synchronized (restored) { System.out.println("restored " + restored[0]); }
    }
}
