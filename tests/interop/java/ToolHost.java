// One JVM that runs Kafka's own command-line tools one after the other, or side by side, so that a suite of a
// hundred tool calls pays for one JVM start. Each line of a connection is a job {"class": [..], "args": [..],
// "stdin": ".."}; the answer is {"exit": n, "out": "..", "err": ".."}. A job runs in a thread group of its own:
// what any of its threads prints, and the exit code that it asks for, belong to that job.

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.*;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.net.*;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;

public final class ToolHost {
    static final PrintStream REAL_ERR = System.err;

    /** What a tool's call of exit becomes: the end of its thread, not of the JVM. */
    static final class ExitCalled extends Error {
        ExitCalled(int code) { super("exit " + code, null, false, false); }
    }

    static final class Job extends ThreadGroup {
        final ByteArrayOutputStream out = new ByteArrayOutputStream(), err = new ByteArrayOutputStream();
        final InputStream in;
        final List<Runnable> hooks = new CopyOnWriteArrayList<>();
        volatile Integer exit;

        Job(ThreadGroup parent, String name, byte[] stdin) {
            super(parent, name);
            in = new ByteArrayInputStream(stdin);
        }

        static Job current() {
            for (ThreadGroup g = Thread.currentThread().getThreadGroup(); g != null; g = g.getParent())
                if (g instanceof Job) return (Job) g;
            return null;
        }

        synchronized void exits(int code) { if (exit == null) exit = code; }

        @Override public void uncaughtException(Thread t, Throwable e) {
            if (!(e instanceof ExitCalled)) e.printStackTrace();
        }
    }

    static final class Switch extends OutputStream {
        final boolean err;
        Switch(boolean err) { this.err = err; }
        private OutputStream target() {
            Job job = Job.current();
            return job == null ? REAL_ERR : err ? job.err : job.out;
        }
        @Override public void write(int b) throws IOException { target().write(b); }
        @Override public void write(byte[] b, int off, int len) throws IOException { target().write(b, off, len); }
        @Override public void flush() throws IOException { target().flush(); }
    }

    static final class SwitchIn extends InputStream {
        private InputStream target() {
            Job job = Job.current();
            return job == null ? InputStream.nullInputStream() : job.in;
        }
        @Override public int read() throws IOException { return target().read(); }
        @Override public int read(byte[] b, int off, int len) throws IOException { return target().read(b, off, len); }
        @Override public int available() throws IOException { return target().available(); }
    }

    public static void main(String[] args) throws Exception {
        PrintStream realOut = System.out;
        System.setOut(new PrintStream(new Switch(false), true));
        System.setErr(new PrintStream(new Switch(true), true));
        System.setIn(new SwitchIn());
        InvocationHandler leave = (proxy, method, a) -> leave((int) a[0], (String) a[1]);
        exitHook("setExitProcedure", leave);
        exitHook("setHaltProcedure", leave);
        exitHook("setShutdownHookAdder", (proxy, method, a) -> {
            Job job = Job.current();
            if (job != null) job.hooks.add((Runnable) a[1]);
            return null;
        });

        ServerSocket server = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        realOut.println(server.getLocalPort());
        realOut.flush();
        ObjectMapper json = new ObjectMapper();
        for (int n = 0; ; n++) {
            Socket socket = server.accept();
            String name = "connection-" + n;
            Thread thread = new Thread(() -> serve(json, socket, name), name);
            thread.setDaemon(true);
            thread.start();
        }
    }

    /** Kafka's own switch for what exit means; its class moved between releases. */
    private static void exitHook(String setter, InvocationHandler handler) throws Exception {
        Class<?> exit;
        try {
            exit = Class.forName("org.apache.kafka.common.utils.internals.Exit");
        } catch (ClassNotFoundException older) {
            exit = Class.forName("org.apache.kafka.common.utils.Exit");
        }
        for (Method method : exit.getMethods()) {
            if (method.getName().equals(setter)) {
                Class<?> type = method.getParameterTypes()[0];
                method.invoke(null, Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, handler));
                return;
            }
        }
        throw new NoSuchMethodException(setter);
    }

    private static Object leave(int code, String message) {
        Job job = Job.current();
        if (job != null) job.exits(code);
        if (message != null) System.err.println(message);
        throw new ExitCalled(code);
    }

    private static void serve(ObjectMapper json, Socket socket, String name) {
        try (socket) {
            BufferedReader lines = new BufferedReader(
                new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8));
            OutputStream answers = socket.getOutputStream();
            for (String line; (line = lines.readLine()) != null; ) {
                ObjectNode request = (ObjectNode) json.readTree(line);
                String[] classes = json.convertValue(request.get("class"), String[].class);
                String[] args = json.convertValue(request.get("args"), String[].class);
                byte[] stdin = request.path("stdin").asText("").getBytes(StandardCharsets.UTF_8);
                Job job = new Job(Thread.currentThread().getThreadGroup(), name, stdin);
                Thread thread = new Thread(job, () -> run(job, classes, args), classes[0]);
                thread.setDaemon(true);
                thread.start();
                thread.join();
                ObjectNode answer = json.createObjectNode();
                answer.put("exit", job.exit == null ? 0 : job.exit);
                answer.put("out", job.out.toString(StandardCharsets.UTF_8));
                answer.put("err", job.err.toString(StandardCharsets.UTF_8));
                answers.write((json.writeValueAsString(answer) + "\n").getBytes(StandardCharsets.UTF_8));
                answers.flush();
            }
        } catch (IOException | InterruptedException gone) {
            // The case was given up; its job ends with the JVM.
        }
    }

    private static void run(Job job, String[] classes, String[] args) {
        try {
            Class<?> tool = null;
            for (String name : classes) {
                try {
                    tool = Class.forName(name);
                    break;
                } catch (ClassNotFoundException older) {
                    // A tool that moved between releases: the next name.
                }
            }
            if (tool == null) throw new ClassNotFoundException(String.join(", ", classes));
            tool.getMethod("main", String[].class).invoke(null, (Object) args);
        } catch (InvocationTargetException e) {
            if (!(e.getCause() instanceof ExitCalled)) {
                e.getCause().printStackTrace();
                job.exits(1);
            }
        } catch (Throwable e) {
            e.printStackTrace();
            job.exits(1);
        }
        // What the tool wanted to do at the end of its JVM: VerifiableProducer flushes there.
        for (Runnable hook : job.hooks) {
            try {
                hook.run();
            } catch (Throwable e) {
                if (!(e instanceof ExitCalled)) e.printStackTrace();
            }
        }
        System.out.flush();
        System.err.flush();
    }
}
