import java.lang.management.BufferPoolMXBean;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.text.SimpleDateFormat;
import java.util.Date;

/**
 * Two threads with the names of Kafka's network threads write a heap buffer of 40 MiB each, one after the other, and keep the
 * temporary direct buffer. A failure is logged as Kafka logs it. Prints its pool as metrics, then READY, and stays.
 */
public class DirectUser {
    private static final int SIZE = 40 << 20;
    static ByteBuffer held = ByteBuffer.allocateDirect(1 << 20);

    public static void main(String[] arguments) throws Exception {
        for (int number = 0; number < 2; number++) {
            Thread thread = new Thread(DirectUser::write,
                    "data-plane-kafka-network-thread-1-ListenerName(PLAINTEXT)-PLAINTEXT-" + number);
            thread.setDaemon(true);
            synchronized (DirectUser.class) {
                thread.start();
                DirectUser.class.wait();
            }
        }
        for (BufferPoolMXBean pool : ManagementFactory.getPlatformMXBeans(BufferPoolMXBean.class)) {
            String labels = "{pool=\"" + pool.getName() + "\"} ";
            System.out.println("jvm_buffer_pool_used_bytes" + labels + (double) pool.getMemoryUsed());
            System.out.println("jvm_buffer_pool_used_buffers" + labels + (double) pool.getCount());
        }
        System.out.println("# READY");
        Thread.sleep(600_000);
    }

    private static void write() {
        try (FileChannel channel = FileChannel.open(Path.of("/dev/null"), StandardOpenOption.WRITE)) {
            channel.write(ByteBuffer.allocate(SIZE));
        } catch (Throwable failure) {
            String now = new SimpleDateFormat("yyyy-MM-dd HH:mm:ss,SSS").format(new Date());
            System.err.println("[" + now + "] ERROR Processor got uncaught exception. (kafka.network.Processor)");
            failure.printStackTrace();
        }
        synchronized (DirectUser.class) {
            DirectUser.class.notifyAll();
        }
        try {
            Thread.sleep(600_000);
        } catch (InterruptedException end) {
            Thread.currentThread().interrupt();
        }
    }
}
