import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Writes to partition 0 of a topic: every codec, idempotent and not, transactions that commit, abort and stay open. */
public class Produce {
    static Properties base(String servers, String codec) {
        Properties p = new Properties();
        p.put(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, servers);
        p.put(ProducerConfig.KEY_SERIALIZER_CLASS_CONFIG, ByteArraySerializer.class.getName());
        p.put(ProducerConfig.VALUE_SERIALIZER_CLASS_CONFIG, ByteArraySerializer.class.getName());
        p.put(ProducerConfig.COMPRESSION_TYPE_CONFIG, codec);
        p.put(ProducerConfig.LINGER_MS_CONFIG, "2");
        p.put(ProducerConfig.BATCH_SIZE_CONFIG, "8000");
        return p;
    }

    static void send(KafkaProducer<byte[], byte[]> producer, String topic, int count, long timestamp) {
        java.util.Random random = new java.util.Random(count);
        for (int n = 0; n < count; n++) {
            byte[] value = new byte[100 + n % 300];
            random.nextBytes(value);
            producer.send(new ProducerRecord<>(topic, 0, timestamp + n, ("k" + n).getBytes(), value));
        }
        producer.flush();
    }

    public static void main(String[] args) {
        String servers = args[0], topic = args[1];
        int count = Integer.parseInt(args[2]);
        boolean leaveOpen = Boolean.parseBoolean(args[3]);
        long timestamp = System.currentTimeMillis() - 3_600_000;
        for (String codec : new String[] {"none", "gzip", "snappy", "lz4", "zstd"}) {
            try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(base(servers, codec))) {
                send(producer, topic, count, timestamp += 100_000);
            }
        }
        Properties plain = base(servers, "none");
        plain.put(ProducerConfig.ENABLE_IDEMPOTENCE_CONFIG, "false");
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(plain)) {
            send(producer, topic, count, timestamp += 100_000);
        }
        Properties transactional = base(servers, "lz4");
        transactional.put(ProducerConfig.TRANSACTIONAL_ID_CONFIG, "t1");
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(transactional)) {
            producer.initTransactions();
            for (int n = 0; n < 10; n++) {
                producer.beginTransaction();
                send(producer, topic, count / 10, timestamp += 100_000);
                if (n % 3 == 0) {
                    producer.abortTransaction();
                } else {
                    producer.commitTransaction();
                }
            }
            if (leaveOpen) {
                producer.beginTransaction();
                send(producer, topic, 10, timestamp += 100_000);
                System.out.println("done");
                System.out.flush();
                // Without an end of the transaction.
                Runtime.getRuntime().halt(0);
            }
        }
        System.out.println("done");
    }
}
