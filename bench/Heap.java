import java.io.File;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;

/**
 * A heap to be dumped. Arguments: MiB of ordinary objects, direct buffers that a list and a linked list hold, mapped files.
 * Beside them 40 threads named as a broker's, each with a cached temporary buffer. Prints READY and stays.
 */
public class Heap {
    static class Index {
        final File file;
        final ByteBuffer mmap;

        Index(File file, FileChannel channel, int size) throws Exception {
            this.file = file;
            mmap = channel.map(FileChannel.MapMode.READ_ONLY, 0, size);
        }
    }

    static final Map<Integer, Object> ORDINARY = new HashMap<>();
    static final List<Object> HELD = new ArrayList<>();
    static final LinkedList<ByteBuffer> LINKED = new LinkedList<>();

    public static void main(String[] arguments) throws Exception {
        long fill = Long.parseLong(arguments[0]) << 20;
        int buffers = Integer.parseInt(arguments[1]);
        int maps = Integer.parseInt(arguments[2]);

        // An entry of the map, its key, a text, the bytes of that, a list, its array and what is in it: 330 bytes or so.
        for (int number = 0; (long) number * 330 < fill; number++) {
            List<Object> list = new ArrayList<>(4);
            list.add("value of " + number);
            list.add(new long[] {number, number + 1});
            list.add(new Object[] {list, null, number % 7 == 0 ? new int[40] : null});
            ORDINARY.put(number, list);
        }
        for (int number = 0; number < buffers; number++) {
            if (number % 3 == 0) LINKED.add(ByteBuffer.allocateDirect(16 + number % 5));
            else HELD.add(ByteBuffer.allocateDirect(16 + number % 7));
        }
        if (maps > 0) {
            File file = File.createTempFile("heap", ".bin");
            file.deleteOnExit();
            try (RandomAccessFile access = new RandomAccessFile(file, "rw")) {
                access.setLength(4096);
                for (int number = 0; number < maps; number++) HELD.add(new Index(file, access.getChannel(), 4096));
            }
        }
        CountDownLatch done = new CountDownLatch(40);
        for (int number = 0; number < 40; number++) {
            int size = 64 + 1024 * number;
            Thread thread = new Thread(() -> {
                try (FileChannel out = FileChannel.open(Path.of("/dev/null"), StandardOpenOption.WRITE)) {
                    out.write(ByteBuffer.allocate(size));
                    done.countDown();
                    Thread.sleep(Long.MAX_VALUE);
                } catch (Exception end) {
                    end.printStackTrace();
                }
            }, number % 2 == 0 ? "data-plane-kafka-network-thread-1-ListenerName(PLAINTEXT)-PLAINTEXT-" + number
                : "data-plane-kafka-request-handler-" + number);
            thread.setDaemon(true);
            thread.start();
        }
        done.await();
        System.out.println("READY");
        System.out.flush();
        Thread.sleep(Long.MAX_VALUE);
    }
}
