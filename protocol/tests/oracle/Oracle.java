// Kafka's own message classes behind a line protocol on standard input and output, for tests/oracle.rs.
//
//   range NAME                   -> "ok MIN MAX", or "none" if this Kafka has no such message
//   api KEY VERSION              -> "ok NAME REQUEST-HEADER RESPONSE-HEADER", header versions for a message's version
//   error CODE                   -> "ok NAME RETRIABLE"
//   shape NAME VERSION           -> "ok SHAPE": its fields, see shape()
//   fill NAME VERSION SEED       -> "ok HEX": a random message that is legal at VERSION, as Kafka writes it
//   recode NAME FROM TO HEX      -> "ok HEX": read at FROM, with nothing left, and written at TO
// or "refused REASON" where Kafka throws; "trailing COUNT" if recode leaves bytes unread.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.lang.reflect.ParameterizedType;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.RawTaggedField;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.protocol.types.Type;

public class Oracle {
    private static final String[] PATTERNS = {
        "org.apache.kafka.common.message.%sData",
        "org.apache.kafka.common.message.%s",
        "org.apache.kafka.common.metadata.%s",
        "org.apache.kafka.coordinator.group.generated.%s",
        "org.apache.kafka.coordinator.transaction.generated.%s",
        "org.apache.kafka.coordinator.share.generated.%s",
        "org.apache.kafka.server.log.remote.metadata.storage.generated.%s",
        "org.apache.kafka.storage.internals.log.generated.%s",
        "org.apache.kafka.storage.internals.generated.%s",
        "org.apache.kafka.server.storage.log.generated.%s",
        "kafka.internals.generated.%s",
    };

    private static Class<?> find(String name) {
        for (String pattern : PATTERNS) {
            try {
                return Class.forName(String.format(pattern, name));
            } catch (ClassNotFoundException | NoClassDefFoundError e) {
                // The next package.
            }
        }
        return null;
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String answer;
            try {
                answer = answer(line.split(" ", -1));
            } catch (Throwable t) {
                answer = "refused " + String.valueOf(t).replaceAll("\\s+", " ");
            }
            out.println(answer);
            out.flush();
        }
    }

    private static String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "api": {
                ApiKeys key = ApiKeys.forId(Integer.parseInt(words[1]));
                short version = Short.parseShort(words[2]);
                return "ok " + key.name + " " + key.requestHeaderVersion(version) + " "
                    + key.responseHeaderVersion(version);
            }
            case "error": {
                for (Errors error : Errors.values()) {
                    if (error.code() == Short.parseShort(words[1])) {
                        return "ok " + error.name() + " " + (error.exception() instanceof RetriableException);
                    }
                }
                return "none";
            }
            default:
                break;
        }
        Class<?> type = find(words[1]);
        if (type == null) {
            return "none";
        }
        Message message = (Message) type.getConstructor().newInstance();
        switch (words[0]) {
            case "range":
                return "ok " + message.lowestSupportedVersion() + " " + message.highestSupportedVersion();
            case "shape": {
                Schema[] schemas = (Schema[]) type.getField("SCHEMAS").get(null);
                StringBuilder shape = new StringBuilder();
                shape(schemas[Short.parseShort(words[2])], shape);
                return "ok " + shape;
            }
            case "fill": {
                short version = Short.parseShort(words[2]);
                Schema[] schemas = (Schema[]) type.getField("SCHEMAS").get(null);
                new Filler(new Random(Long.parseLong(words[3]))).fill(message, schemas[version], 0);
                return "ok " + write(message, version);
            }
            case "recode": {
                ByteBuffer bytes = ByteBuffer.wrap(HexFormat.of().parseHex(words[4]));
                message.read(new ByteBufferAccessor(bytes), Short.parseShort(words[2]));
                if (bytes.hasRemaining()) {
                    return "trailing " + bytes.remaining();
                }
                return "ok " + write(message, Short.parseShort(words[3]));
            }
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    /** Fields in wire order, tagged ones as TAG#NAME at the end; "?" nullable, "[]" a list, "{}" a struct. */
    private static void shape(Schema schema, StringBuilder out) throws Exception {
        out.append('{');
        for (BoundField bound : schema.fields()) {
            if (bound.def.type instanceof TaggedFields) {
                for (var tagged : tagged(bound.def.type).entrySet()) {
                    out.append(tagged.getKey()).append('#');
                    shape(tagged.getValue().name, tagged.getValue().type, out);
                }
            } else {
                shape(bound.def.name, bound.def.type, out);
            }
        }
        out.append('}');
    }

    private static void shape(String name, Type type, StringBuilder out) throws Exception {
        out.append(name.replace("_", "")).append(':');
        if (type.isArray()) {
            out.append(type.isNullable() ? "?[" : "[");
            shape("", type.arrayElementType().get(), out);
            out.append(']');
        } else if (type instanceof Schema) {
            out.append(type.isNullable() ? "?" : "");
            shape((Schema) type, out);
        } else {
            String base = type.toString().replace("COMPACT_", "");
            out.append(base.contains("RECORDS") ? "BYTES" : base.replace("NULLABLE_", "?")).append(' ');
        }
    }

    /** The map is private in older releases. */
    @SuppressWarnings("unchecked")
    private static Map<Integer, org.apache.kafka.common.protocol.types.Field> tagged(Type type) throws Exception {
        Field known = TaggedFields.class.getDeclaredField("fields");
        known.setAccessible(true);
        return (Map<Integer, org.apache.kafka.common.protocol.types.Field>) known.get(type);
    }

    private static String write(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        int size = message.size(cache, version);
        ByteBuffer bytes = ByteBuffer.allocate(size);
        message.write(new ByteBufferAccessor(bytes), cache, version);
        if (bytes.hasRemaining()) {
            throw new IllegalStateException("size " + size + " but wrote " + bytes.position());
        }
        return HexFormat.of().formatHex(bytes.array());
    }

    /** Sets by reflection what the schema of a version has. */
    private static final class Filler {
        private final Random random;

        Filler(Random random) {
            this.random = random;
        }

        void fill(Message target, Schema schema, int depth) throws Exception {
            for (BoundField bound : schema.fields()) {
                if (bound.def.type instanceof TaggedFields) {
                    for (var field : tagged(bound.def.type).values()) {
                        set(target, field.name, field.type, depth);
                    }
                    if (random.nextInt(8) == 0) {
                        byte[] raw = new byte[random.nextInt(5)];
                        random.nextBytes(raw);
                        target.unknownTaggedFields().add(new RawTaggedField(100 + random.nextInt(1000), raw));
                    }
                } else {
                    set(target, bound.def.name, bound.def.type, depth);
                }
            }
        }

        private void set(Message target, String name, Type type, int depth) throws Exception {
            Field field = field(target.getClass(), name);
            // The types of records do not tell whether the field may be null.
            boolean isRecords = field.getType().getSimpleName().equals("BaseRecords");
            if (!isRecords && random.nextInt(5) == 0) {
                return;
            }
            if (!isRecords && type.isNullable() && random.nextInt(3) == 0) {
                field.set(target, null);
                return;
            }
            if (type.isArray()) {
                Type element = type.arrayElementType().get();
                int count = random.nextInt(depth > 2 ? 2 : 4);
                Class<?> elementClass = elementClass(field);
                Collection<Object> list = emptyList(field);
                for (int i = 0; i < count; i++) {
                    list.add(value(elementClass, element, depth + 1));
                }
                field.set(target, list);
            } else {
                field.set(target, value(field.getType(), type, depth));
            }
        }

        @SuppressWarnings("unchecked")
        private static Collection<Object> emptyList(Field field) throws Exception {
            if (field.getType() == List.class) {
                return new ArrayList<>();
            }
            return (Collection<Object>) field.getType().getConstructor().newInstance();
        }

        private static Class<?> elementClass(Field field) {
            java.lang.reflect.Type generic = field.getType() == List.class
                ? field.getGenericType()
                : field.getType().getGenericSuperclass();
            return (Class<?>) ((ParameterizedType) generic).getActualTypeArguments()[0];
        }

        private Object value(Class<?> java, Type type, int depth) throws Exception {
            boolean small = random.nextBoolean();
            if (java == boolean.class) return random.nextBoolean();
            if (java == byte.class || java == Byte.class) return (byte) random.nextInt();
            if (java == short.class || java == Short.class) return (short) random.nextInt(small ? 5 : 1 << 16);
            if (java == int.class || java == Integer.class) {
                if (type == Type.UINT16) return random.nextInt(1 << 16);
                return small ? random.nextInt(5) - 2 : random.nextInt();
            }
            if (java == long.class || java == Long.class) {
                if (type == Type.UNSIGNED_INT32) return random.nextLong() & 0xffffffffL;
                return small ? random.nextInt(5) - 2L : random.nextLong();
            }
            if (java == double.class) return random.nextGaussian();
            if (java == String.class) return text();
            if (java == Uuid.class) return new Uuid(random.nextLong(), random.nextLong());
            if (java == byte[].class) return bytes();
            if (java == ByteBuffer.class) return ByteBuffer.wrap(bytes());
            if (java.getSimpleName().equals("BaseRecords")) return records(bytes());
            Message nested = (Message) java.getConstructor().newInstance();
            fill(nested, (Schema) type, depth);
            return nested;
        }

        /** Record fields hold any bytes here. The class moved to another package between releases. */
        private static Object records(byte[] bytes) throws Exception {
            Class<?> type;
            try {
                type = Class.forName("org.apache.kafka.common.record.internal.MemoryRecords");
            } catch (ClassNotFoundException e) {
                type = Class.forName("org.apache.kafka.common.record.MemoryRecords");
            }
            return type.getMethod("readableRecords", ByteBuffer.class).invoke(null, ByteBuffer.wrap(bytes));
        }

        private String text() {
            String alphabet = "abcXYZ019.-_ äß€";
            int length = random.nextInt(20) == 0 ? 140 : random.nextInt(9);
            StringBuilder text = new StringBuilder();
            for (int i = 0; i < length; i++) {
                text.append(alphabet.charAt(random.nextInt(alphabet.length())));
            }
            return text.toString();
        }

        private byte[] bytes() {
            byte[] bytes = new byte[random.nextInt(20)];
            random.nextBytes(bytes);
            return bytes;
        }

        private static Field field(Class<?> type, String snake) {
            String wanted = snake.replace("_", "");
            for (Field field : type.getDeclaredFields()) {
                if (!Modifier.isStatic(field.getModifiers()) && field.getName().equalsIgnoreCase(wanted)) {
                    field.setAccessible(true);
                    return field;
                }
            }
            throw new IllegalStateException(type + " has no field " + snake);
        }
    }
}
