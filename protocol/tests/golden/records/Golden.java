// Writes the golden batches to ./out with Kafka's own classes; with file names as arguments, checks that Kafka reads
// the batches in them as the same records. Class path: kafka-clients 4.1.0, slf4j-api, and (for the codecs) zstd-jni,
// lz4-java, snappy-java. javac -cp 'jars/*' Golden.java && java -cp 'jars/*:.' Golden
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.*;

public class Golden {
    static byte[] b(String s) { return s.getBytes(StandardCharsets.UTF_8); }
    static SimpleRecord[] records() {
        List<SimpleRecord> out = new ArrayList<>();
        out.add(new SimpleRecord(1700000000000L, b("first"), b("value-0"), new Header[] {new RecordHeader("k", b("1")), new RecordHeader("k", b("2")), new RecordHeader("n", (byte[]) null), new RecordHeader("", new byte[0])}));
        out.add(new SimpleRecord(1699999999999L, null, b("no key")));
        out.add(new SimpleRecord(1700000000005L, b("tombstone"), null));
        for (int i = 3; i < 120; i++) {
            byte[] v = new byte[(i * 37) % 700];
            for (int j = 0; j < v.length; j++) v[j] = (byte) ('a' + (i + j) % 11 + (j % 13 == 0 ? i % 5 : 0));
            out.add(new SimpleRecord(1700000000000L + i * 7, b("key-" + i), v));
        }
        return out.toArray(new SimpleRecord[0]);
    }
    static Compression of(CompressionType t) {
        switch (t) {
            case GZIP: return Compression.gzip().build();
            case SNAPPY: return Compression.snappy().build();
            case LZ4: return Compression.lz4().build();
            case ZSTD: return Compression.zstd().build();
            default: return Compression.NONE;
        }
    }
    static void write(String name, MemoryRecords r) throws Exception {
        ByteBuffer buf = r.buffer().duplicate();
        byte[] bytes = new byte[buf.remaining()];
        buf.get(bytes);
        Files.write(Paths.get("out", name), bytes);
    }
    public static void main(String[] args) throws Exception {
        if (args.length > 0) { read(args); return; }
        new java.io.File("out").mkdirs();
        for (CompressionType t : new CompressionType[] {CompressionType.NONE, CompressionType.GZIP, CompressionType.SNAPPY, CompressionType.LZ4, CompressionType.ZSTD})
            write(t.name + ".batch", MemoryRecords.withRecords(RecordBatch.MAGIC_VALUE_V2, 1000L, of(t), TimestampType.CREATE_TIME, 4711L, (short) 3, 17, 5, false, records()));
        write("transactional.batch", MemoryRecords.withTransactionalRecords(RecordBatch.MAGIC_VALUE_V2, 0L, Compression.NONE, 99L, (short) 1, 0, -1, new SimpleRecord(12L, b("k"), b("v"))));
        write("commit.batch", MemoryRecords.withEndTransactionMarker(42L, 1700000000000L, 7, 99L, (short) 1, new EndTransactionMarker(ControlRecordType.COMMIT, 13)));
        ByteBuffer e = ByteBuffer.allocate(61);
        DefaultRecordBatch.writeEmptyHeader(e, (byte) 2, 99L, (short) 1, 5, 70L, 79L, 3, TimestampType.CREATE_TIME, 1700000000000L, false, false);
        e.flip();
        byte[] eb = new byte[e.remaining()]; e.get(eb);
        Files.write(Paths.get("out", "empty.batch"), eb);
        MemoryRecordsBuilder mb = MemoryRecords.builder(ByteBuffer.allocate(4096), (byte) 2, Compression.NONE, TimestampType.LOG_APPEND_TIME, 500L, 1800000000000L, -1L, (short) -1, -1, false, false, -1);
        mb.append(1700000000000L, b("a"), b("1"));
        mb.append(1700000000001L, b("b"), b("2"));
        write("append-time.batch", mb.build());
    }
    static void read(String[] args) throws Exception {
        SimpleRecord[] want = records();
        for (String f : args) {
            MemoryRecords r = MemoryRecords.readableRecords(ByteBuffer.wrap(Files.readAllBytes(Paths.get(f))));
            int i = 0, batches = 0;
            for (MutableRecordBatch batch : r.batches()) {
                batch.ensureValid();
                batches++;
                for (org.apache.kafka.common.record.Record rec : batch) {
                    SimpleRecord got = new SimpleRecord(rec);
                    if (!got.equals(want[i])) throw new RuntimeException(f + " record " + i + ": " + got + " != " + want[i]);
                    if (rec.offset() != 1000 + i || rec.sequence() != 17 + i) throw new RuntimeException(f + " offset of record " + i);
                    i++;
                }
            }
            System.out.println(f + ": " + batches + " batch, " + i + " of " + want.length + " records equal, " + r.sizeInBytes() + " bytes");
        }
    }
}
