// A reader that costs as little as a reader can, so that a broker's fetch path is what is measured.
//
//   fetch kafka --address H:P --topic T --partitions N --seconds S [--max-bytes B] [--partition-bytes B]
//       reads all partitions from their start to their end, again and again, one request at a time
//   fetch stream --address H:P --seconds S
//       reads whatever a server sends (the bare sendfile loop of floor.c)
//
// One JSON object on standard output: bytes of records, seconds, bytes per second.

#include "wire.h"

static unsigned char *window;
static size_t window_room = 256 << 10, window_have, window_at;
static int fd;
static uint64_t received;

static void fill(void) {
    ssize_t n = recv(fd, window, window_room, 0);
    if (n <= 0) die("fetch: connection closed: %s", n < 0 ? strerror(errno) : "end of stream");
    window_have = (size_t)n, window_at = 0, received += (size_t)n;
}

static void take(void *to, size_t length) {
    for (char *p = to; length > 0;) {
        if (window_at == window_have) fill();
        size_t n = window_have - window_at < length ? window_have - window_at : length;
        if (p) memcpy(p, window + window_at, n), p += n;
        window_at += n, length -= n;
    }
}

static void skip(size_t length) { take(NULL, length); }
static int16_t take16(void) { unsigned char b[2]; take(b, 2); return get16(b); }
static int32_t take32(void) { unsigned char b[4]; take(b, 4); return get32(b); }

int main(int argc, char **argv) {
    if (argc < 2) die("usage: fetch kafka|stream --address H:P ...");
    const char *address = NULL, *topic = NULL;
    int partitions = 1, max_bytes = 50 << 20, partition_bytes = 1 << 20;
    double seconds = 5;
    for (int i = 2; i + 1 < argc; i += 2) {
        const char *o = argv[i], *v = argv[i + 1];
        if (!strcmp(o, "--address")) address = v;
        else if (!strcmp(o, "--topic")) topic = v;
        else if (!strcmp(o, "--partitions")) partitions = atoi(v);
        else if (!strcmp(o, "--seconds")) seconds = atof(v);
        else if (!strcmp(o, "--max-bytes")) max_bytes = atoi(v);
        else if (!strcmp(o, "--partition-bytes")) partition_bytes = atoi(v);
        else die("unknown option %s", o);
    }
    if (!address) die("--address is missing");
    struct sockaddr_in to = address_of(address);
    if ((fd = connect_to(&to, 0)) < 0) die("cannot connect to %s: %s", address, strerror(errno));
    if (!(window = malloc(window_room))) die("out of memory");
    double began = now(), end = began + seconds;
    uint64_t records_bytes = 0, batches = 0, requests = 0, passes = 0;

    if (!strcmp(argv[1], "stream")) {
        while (now() < end) fill();
        records_bytes = received;
    } else {
        if (!topic) die("--topic is missing");
        int64_t *next = calloc((size_t)partitions, sizeof *next);
        bytes b = {0};
        while (now() < end) {
            begin_frame(&b, 1, 4, (int)requests++);
            put32(&b, -1), put32(&b, 100), put32(&b, 1), put32(&b, max_bytes), put8(&b, 0);
            put32(&b, 1), put_string(&b, topic), put32(&b, partitions);
            // The first partition of a request changes, as in a client, so that each has its turn.
            for (int i = 0; i < partitions; i++) {
                int p = (int)((requests + (uint64_t)i) % (uint64_t)partitions);
                put32(&b, p), put64(&b, next[p]), put32(&b, partition_bytes);
            }
            end_frame(&b, 0);
            if (send_all(fd, b.data, b.length) < 0) die("send: %s", strerror(errno));
            skip(4 + 4 + 4);
            uint64_t before = records_bytes;
            for (int topics = take32(); topics > 0; topics--) {
                skip((size_t)take16());
                for (int count = take32(); count > 0; count--) {
                    int p = take32(), error = take16();
                    if (error || p < 0 || p >= partitions) die("partition %d: error code %d", p, error);
                    skip(16);
                    for (int aborted = take32(); aborted > 0; aborted--) skip(16);
                    int32_t length = take32();
                    if (length > 0) records_bytes += (uint64_t)length;
                    while (length > 0) {
                        unsigned char h[27];
                        if (length < 27) {
                            skip((size_t)length);
                            break;
                        }
                        take(h, 27);
                        length -= 27;
                        int64_t rest = (int64_t)get32(h + 8) + 12 - 27;
                        if (rest < 0) die("a batch of length %d", get32(h + 8));
                        if (rest > length) { // cut by the limit: it comes again
                            skip((size_t)length);
                            break;
                        }
                        skip((size_t)rest);
                        length -= (int32_t)rest;
                        next[p] = get64(h) + get32(h + 23) + 1;
                        batches++;
                    }
                }
            }
            if (records_bytes == before) {
                if (!batches) die("the topic is empty");
                passes++;
                memset(next, 0, (size_t)partitions * sizeof *next);
            }
        }
    }
    double took = now() - began;
    printf("{\"bytes\": %llu, \"seconds\": %.3f, \"mib_per_second\": %.0f, \"batches\": %llu, \"requests\": %llu, \"passes\": %llu}\n",
           (unsigned long long)records_bytes, took, (double)records_bytes / took / 1048576, (unsigned long long)batches,
           (unsigned long long)requests, (unsigned long long)passes);
    return 0;
}
