import java.io.RandomAccessFile;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.management.BufferPoolMXBean;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.locks.LockSupport;

/** Memory of arenas of every kind (JDK 22 and later); prints what it holds as JSON, then READY. */
public class Arenas {
    static class Cache {
        final Arena arena = Arena.ofShared();
        final MemorySegment index = arena.allocate(3 << 20);
        final MemorySegment aligned = arena.allocate(1_000, 4_096);
        final ByteBuffer view = index.asSlice(4_096, 100).asByteBuffer();
        final MemorySegment slice = index.asSlice(8_192, 10);
    }

    static final Cache CACHE = new Cache();
    static final MemorySegment GLOBAL = Arena.global().allocate(500_000);
    static final MemorySegment AUTO = Arena.ofAuto().allocate(70_000);
    static final Arena ALONE = Arena.ofShared();
    static volatile MemorySegment confined;
    static MemorySegment closed;
    static MemorySegment mapped;

    static void park() {
        while (true) LockSupport.park();
    }

    public static void main(String[] arguments) throws Exception {
        ALONE.allocate(12_345);
        CountDownLatch ready = new CountDownLatch(1);
        Thread thread = new Thread(() -> {
            confined = Arena.ofConfined().allocate(6_000);
            ready.countDown();
            park();
        }, "confined");
        thread.setDaemon(true);
        thread.start();
        ready.await();
        try (Arena arena = Arena.ofConfined()) {
            closed = arena.allocate(99_999);
        }
        try (RandomAccessFile file = new RandomAccessFile(Path.of(arguments[0]).resolve("mapped").toFile(), "rw")) {
            file.setLength(20_000);
            mapped = file.getChannel().map(FileChannel.MapMode.READ_WRITE, 0, 20_000, Arena.ofShared());
        }
        StringBuilder out = new StringBuilder("{\"views\": 3, \"automatic\": {\"Arenas.AUTO\": 70000}, ");
        out.append("\"explicit\": {\"Arenas$Cache.index\": 3145728, \"Arenas$Cache.aligned\": 1000, \"Arenas.GLOBAL\": 500000, ");
        out.append("\"Arenas.ALONE\": 12345, \"Arenas.confined\": 6000}, \"map\": {\"Arenas.mapped\": 20000}");
        for (BufferPoolMXBean pool : ManagementFactory.getPlatformMXBeans(BufferPoolMXBean.class)) {
            out.append(", \"").append(pool.getName()).append("\": {\"buffers\": ").append(pool.getCount()).append(", \"bytes\": ");
            out.append(pool.getMemoryUsed()).append(", \"capacity_bytes\": ").append(pool.getTotalCapacity()).append("}");
        }
        System.out.println(out.append("}"));
        System.out.println("READY");
        System.out.flush();
        park();
    }
}
