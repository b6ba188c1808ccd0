import java.io.File;
import java.io.InputStream;
import java.io.RandomAccessFile;
import java.lang.management.BufferPoolMXBean;
import java.lang.management.ManagementFactory;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.net.InetSocketAddress;
import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.locks.LockSupport;

/** Threads named as a broker's, with native memory of every kind; prints what it holds as JSON, then READY. */
public class Broker {
    static class KafkaThread extends Thread {
        KafkaThread(String name, Runnable work) {
            super(work, name);
            setDaemon(true);
        }
    }

    static class ShutdownableThread extends Thread {
        ShutdownableThread(String name, Runnable work) {
            super(work, name);
            setDaemon(true);
        }
    }

    static class ReplicaFetcherThread extends ShutdownableThread {
        ReplicaFetcherThread(String name, Runnable work) { super(name, work); }
    }

    /** As Kafka's indexes: a file and its map. */
    static class Index {
        final File file;
        final MappedByteBuffer mmap;

        Index(File file, int size, boolean readOnly) throws Exception {
            this.file = file;
            try (RandomAccessFile access = new RandomAccessFile(file, "rw")) {
                access.setLength(size);
                FileChannel.MapMode mode = readOnly ? FileChannel.MapMode.READ_ONLY : FileChannel.MapMode.READ_WRITE;
                mmap = access.getChannel().map(mode, 0, size);
            }
        }
    }

    static class Prefetcher {
        final Map<String, List<ByteBuffer>> chunks = new HashMap<>();
        ByteBuffer largest;
    }

    static final Prefetcher LEAK = new Prefetcher();
    static final List<Index> INDEXES = new ArrayList<>();
    static final List<Buffer> VIEWS = new ArrayList<>();
    static final Map<String, List<Integer>> CACHED = Collections.synchronizedMap(new LinkedHashMap<>());
    static final List<Object> KEPT = Collections.synchronizedList(new ArrayList<>());
    static final ThreadLocal<ByteBuffer> LOCAL = new ThreadLocal<>();
    static final String NETWORK = "data-plane-kafka-network-thread-1-ListenerName(";
    static Path directory;

    interface Work {
        void run() throws Exception;
    }

    static void park() {
        while (true) LockSupport.park();
    }

    /** What this thread's own cache keeps, read from the JDK itself. */
    static List<Integer> measure() throws Exception {
        Field field = Class.forName("sun.nio.ch.Util").getDeclaredField("bufferCache");
        field.setAccessible(true);
        Object local = field.get(null);
        Method get = local.getClass().getMethod("get");
        get.setAccessible(true);
        Object cache = get.invoke(local);
        Field buffers = cache.getClass().getDeclaredField("buffers");
        buffers.setAccessible(true);
        List<Integer> sizes = new ArrayList<>();
        for (ByteBuffer buffer : (ByteBuffer[]) buffers.get(cache)) if (buffer != null) sizes.add(buffer.capacity());
        return sizes;
    }

    static Runnable then(CountDownLatch done, Work work) {
        return () -> {
            try {
                work.run();
                CACHED.put(Thread.currentThread().getName(), measure());
            } catch (Throwable error) {
                error.printStackTrace();
                System.exit(1);
            }
            done.countDown();
            park();
        };
    }

    static Path file() { return directory.resolve(Thread.currentThread().getName().replaceAll("[^A-Za-z0-9]", "_")); }

    static void append(int... sizes) throws Exception {
        try (FileChannel channel = FileChannel.open(file(), StandardOpenOption.CREATE, StandardOpenOption.WRITE)) {
            ByteBuffer[] heap = new ByteBuffer[sizes.length];
            for (int i = 0; i < sizes.length; i++) heap[i] = ByteBuffer.allocate(sizes[i]);
            channel.write(heap);
        }
    }

    static void readRemote(int size) throws Exception {
        try (RandomAccessFile access = new RandomAccessFile(file().toFile(), "rw")) { access.setLength(size); }
        try (InputStream in = Files.newInputStream(file())) { in.read(new byte[size]); }
    }

    static void receive(int size) throws Exception {
        try (ServerSocketChannel server = ServerSocketChannel.open().bind(new InetSocketAddress("127.0.0.1", 0));
                SocketChannel peer = SocketChannel.open(server.getLocalAddress());
                SocketChannel channel = server.accept()) {
            ByteBuffer one = ByteBuffer.allocate(1);
            peer.write(one);
            channel.read(ByteBuffer.allocate(size));
        }
    }

    /** A read that gets nothing: its buffer is only on the stack. */
    static void block(int size, CountDownLatch about) throws Exception {
        ServerSocketChannel server = ServerSocketChannel.open().bind(new InetSocketAddress("127.0.0.1", 0));
        SocketChannel peer = SocketChannel.open(server.getLocalAddress());
        SocketChannel channel = server.accept();
        Collections.addAll(KEPT, server, peer, channel);
        ByteBuffer heap = ByteBuffer.allocate(size);
        about.countDown();
        channel.read(heap);
    }

    static void waitUntilBlocked(Thread thread) throws Exception {
        for (int i = 0; i < 5000; i++) {
            for (StackTraceElement frame : thread.getStackTrace()) {
                if (frame.getMethodName().equals("readIntoNativeBuffer")) return;
            }
            Thread.sleep(2);
        }
        throw new IllegalStateException("the read does not block");
    }

    static String quote(String text) { return '"' + text.replace("\\", "\\\\").replace("\"", "\\\"") + '"'; }

    public static void main(String[] arguments) throws Exception {
        directory = Path.of(arguments[0]);
        List<Thread> threads = new ArrayList<>();
        CountDownLatch done = new CountDownLatch(12), about = new CountDownLatch(1);
        for (int i = 0; i < 3; i++) {
            int size = 79_409 + 64 * i;
            threads.add(new KafkaThread(NETWORK + "SASL_PLAINTEXT)-SASL_PLAINTEXT-" + i, then(done, () -> receive(size))));
        }
        threads.add(new KafkaThread(NETWORK + "INTERNAL)-PLAINTEXT-3", then(done, () -> receive(33_001))));
        for (int i = 0; i < 3; i++) {
            int size = 79_345 + i;
            threads.add(new KafkaThread("data-plane-kafka-request-handler-" + i, then(done, () -> append(size))));
        }
        threads.add(new KafkaThread("data-plane-kafka-request-handler-3", then(done, () -> append(12_288, 6_145, 3_073))));
        threads.add(new KafkaThread("remote-log-reader10", then(done, () -> readRemote(57_671))));
        threads.add(new KafkaThread("remote-log-reader11", then(done, () -> readRemote(57_669))));
        threads.add(new KafkaThread("kafka-log-cleaner-thread-0", then(done, () -> append(8_192))));
        threads.add(new ReplicaFetcherThread("ReplicaFetcherThread-0-2", then(done, () -> receive(10_485))));
        int inFlight = 20_971;
        Thread blocked = new ReplicaFetcherThread("ReplicaFetcherThread-1-2", () -> {
            try {
                block(inFlight, about);
            } catch (Exception error) {
                error.printStackTrace();
            }
        });
        threads.add(blocked);
        // A buffer of the application that only a thread's own variable holds.
        CountDownLatch set = new CountDownLatch(1);
        threads.add(new KafkaThread("plugin-worker-1", () -> {
            LOCAL.set(ByteBuffer.allocateDirect(4_321));
            set.countDown();
            park();
        }));
        for (Thread thread : threads) thread.start();
        done.await();
        about.await();
        set.await();
        waitUntilBlocked(blocked);

        LEAK.largest = ByteBuffer.allocateDirect(48_005);
        for (int i = 0; i < 4; i++) {
            LEAK.chunks.computeIfAbsent("topic-" + i % 2, key -> new ArrayList<>()).add(ByteBuffer.allocateDirect(4_096 + i));
        }
        ByteBuffer parent = ByteBuffer.allocateDirect(16_384);
        VIEWS.add(parent);
        ByteBuffer slice = parent.duplicate().position(8).slice();
        Collections.addAll(VIEWS, slice, slice.slice(), parent.asReadOnlyBuffer(), parent.asLongBuffer());
        VIEWS.add(parent.asReadOnlyBuffer().asIntBuffer());
        // Nothing but a view of it holds this one.
        VIEWS.add(ByteBuffer.allocateDirect(2_049).slice());
        for (int i = 0; i < 3; i++) {
            INDEXES.add(new Index(directory.resolve(String.format("%020d.index", i)).toFile(), 10_240 + i, i == 2));
        }
        VIEWS.add(INDEXES.get(0).mmap.duplicate());

        int[] garbage = {7_001, 7_002, 7_003};
        System.gc();
        Thread.sleep(200);
        System.gc();
        Thread.sleep(200);
        for (int size : garbage) ByteBuffer.allocateDirect(size);

        StringBuilder out = new StringBuilder("{\"java\": " + quote(System.getProperty("java.version")) + ", \"threads\": {");
        String comma = "";
        for (Map.Entry<String, List<Integer>> entry : CACHED.entrySet()) {
            out.append(comma).append(quote(entry.getKey())).append(": ").append(entry.getValue());
            comma = ", ";
        }
        out.append("}, \"in_flight\": {\"thread\": ").append(quote(blocked.getName())).append(", \"bytes\": ").append(inFlight);
        out.append("}, \"held\": {\"Broker$Prefetcher.largest\": [48005], \"Broker$Prefetcher.chunks\": [4096, 4097, 4098, 4099]");
        out.append(", \"Broker.VIEWS\": [16384, 2049], \"local\": [4321]}, \"views\": 7, \"maps\": {");
        comma = "";
        for (Index index : INDEXES) {
            out.append(comma).append(quote(index.file.getPath())).append(": ").append(index.mmap.capacity());
            comma = ", ";
        }
        out.append("}, \"garbage\": [7001, 7002, 7003]");
        for (BufferPoolMXBean pool : ManagementFactory.getPlatformMXBeans(BufferPoolMXBean.class)) {
            out.append(", ").append(quote(pool.getName())).append(": {\"buffers\": ").append(pool.getCount()).append(", \"bytes\": ");
            out.append(pool.getMemoryUsed()).append(", \"capacity_bytes\": ").append(pool.getTotalCapacity()).append("}");
        }
        System.out.println(out.append("}"));
        System.out.println("READY");
        System.out.flush();
        park();
    }
}
