// A produce server that does nothing but the work: what a broker could reach that had no budgets, no indexes, no producer
// state, no other requests. A thread for each connection receives a request, checks the CRC-32C of its batches, walks
// their records, sets the base offset, appends to the partition's file, and answers.
//
//   bare --directory DIR --partitions N
//
// Prints its port, then serves ApiVersions, Metadata (any topic exists) and Produce until it is killed.

#define _GNU_SOURCE
#include "crc32c.h"
#include "wire.h"
#include <pthread.h>
#include <sys/prctl.h>
#include <signal.h>

enum { PRODUCE = 0, METADATA = 3, API_VERSIONS = 18, MAX_LOGS = 1024, BATCH_HEADER = 61 };

typedef struct {
    char topic[250];
    int partition, fd;
    int64_t end;
    pthread_mutex_t lock;
} log_file;

static log_file logs[MAX_LOGS];
static int log_count, partitions = 8, port;
static const char *directory;
static pthread_mutex_t logs_lock = PTHREAD_MUTEX_INITIALIZER;

static log_file *log_of(const char *topic, int partition) {
    pthread_mutex_lock(&logs_lock);
    int i = 0;
    while (i < log_count && (logs[i].partition != partition || strcmp(logs[i].topic, topic))) i++;
    if (i == log_count) {
        char path[4096];
        if (log_count == MAX_LOGS) die("too many partitions, limit %d", MAX_LOGS);
        snprintf(path, sizeof path, "%s/%s-%d.log", directory, topic, partition);
        snprintf(logs[i].topic, sizeof logs[i].topic, "%s", topic);
        logs[i].partition = partition;
        if ((logs[i].fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) < 0) die("%s: %s", path, strerror(errno));
        pthread_mutex_init(&logs[i].lock, NULL);
        log_count++;
    }
    pthread_mutex_unlock(&logs_lock);
    return &logs[i];
}

// A request's bytes, never read beyond their end.
typedef struct {
    unsigned char *at, *end;
} cursor;

static unsigned char *take(cursor *c, int64_t length) {
    if (length < 0 || length > c->end - c->at) die("malformed request: %lld of %lld bytes", (long long)length, (long long)(c->end - c->at));
    unsigned char *p = c->at;
    c->at += length;
    return p;
}

static void take_string(cursor *c, char *out, size_t room) {
    int length = get16(take(c, 2));
    if (length < 0) length = 0;
    if ((size_t)length >= room) die("string of %d bytes", length);
    memcpy(out, take(c, length), (size_t)length);
    out[length] = 0;
}

static int64_t take_varint(cursor *c) {
    uint64_t z = 0;
    for (int shift = 0;; shift += 7) {
        unsigned char byte = *take(c, 1);
        z |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) return (int64_t)(z >> 1) ^ -(int64_t)(z & 1);
    }
}

static int64_t append(log_file *log, cursor batch) {
    unsigned char *start = batch.at;
    size_t length = (size_t)(batch.end - start);
    take(&batch, BATCH_HEADER);
    if (crc32c(0, start + 21, length - 21) != (uint32_t)get32(start + 17)) die("wrong CRC");
    int count = get32(start + 57);
    for (int i = 0; i < count; i++) take(&batch, take_varint(&batch));
    pthread_mutex_lock(&log->lock);
    int64_t offset = log->end;
    log->end += count;
    for (int i = 0; i < 8; i++) start[i] = (unsigned char)(offset >> (56 - 8 * i));
    if (write(log->fd, start, length) != (ssize_t)length) die("write: %s", strerror(errno));
    pthread_mutex_unlock(&log->lock);
    return offset;
}

static void produce(cursor *c, bytes *out) {
    char topic[250];
    take_string(c, topic, sizeof topic); // transactional id
    take(c, 6);                          // acks, timeout
    int topics = get32(take(c, 4));
    put32(out, topics);
    for (int t = 0; t < topics; t++) {
        take_string(c, topic, sizeof topic);
        int count = get32(take(c, 4));
        put_string(out, topic), put32(out, count);
        for (int i = 0; i < count; i++) {
            int partition = get32(take(c, 4)), length = get32(take(c, 4));
            unsigned char *batch = take(c, length);
            int64_t offset = append(log_of(topic, partition), (cursor){batch, batch + length});
            put32(out, partition), put16(out, 0), put64(out, offset), put64(out, -1), put64(out, 0);
        }
    }
    put32(out, 0);
}

static void metadata(cursor *c, bytes *out) {
    char topic[250];
    int count = get32(take(c, 4));
    put32(out, 0), put32(out, 1), put32(out, 1), put_string(out, "127.0.0.1"), put32(out, port), put16(out, -1);
    put_string(out, "bare"), put32(out, 1), put32(out, count < 0 ? 0 : count);
    for (int t = 0; t < count; t++) {
        take_string(c, topic, sizeof topic);
        put16(out, 0), put_string(out, topic), put8(out, 0), put32(out, partitions);
        for (int p = 0; p < partitions; p++) {
            put16(out, 0), put32(out, p), put32(out, 1);
            for (int set = 0; set < 2; set++) put32(out, 1), put32(out, 1); // replicas, in sync
        }
    }
}

static void api_versions(int version, bytes *out) {
    static const int served[][3] = {{PRODUCE, 3, 7}, {1, 0, 4}, {METADATA, 0, 4}, {API_VERSIONS, 0, 3}};
    put16(out, 0);
    if (version >= 3) put8(out, 5);
    else put32(out, 4);
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < 3; k++) put16(out, served[i][k]);
        if (version >= 3) put8(out, 0);
    }
    if (version >= 1) put32(out, 0);
    if (version >= 3) put8(out, 0);
}

static void *serve(void *argument) {
    int fd = (int)(intptr_t)argument;
    size_t room = 64 << 10, start = 0, have = 0;
    unsigned char *buffer = malloc(room);
    bytes out = {0};
    for (;;) {
        size_t need = have - start < 4 ? 4 : 4 + (size_t)get32(buffer + start);
        if (need > 128 << 20) die("frame of %zu bytes", need);
        if (have - start < need) {
            // What comes is read in one go; the frame is moved to the front only where it does not fit behind.
            if (start + need > room) memmove(buffer, buffer + start, have - start), have -= start, start = 0;
            if (need > room && !(buffer = realloc(buffer, room = need))) die("out of memory");
            ssize_t n = recv(fd, buffer + have, room - have, 0);
            if (n <= 0) break;
            have += (size_t)n;
            continue;
        }
        cursor c = {buffer + start + 4, buffer + start + need};
        int key = get16(take(&c, 2)), version = get16(take(&c, 2)), correlation = get32(take(&c, 4));
        char client[1024];
        take_string(&c, client, sizeof client);
        out.length = 0;
        put32(&out, 0), put32(&out, correlation);
        if (key == PRODUCE) produce(&c, &out);
        else if (key == METADATA) metadata(&c, &out);
        else if (key == API_VERSIONS) api_versions(version, &out);
        else die("api key %d is not served", key);
        end_frame(&out, 0);
        if (send_all(fd, out.data, out.length) < 0) break;
        if ((start += need) == have) start = have = 0;
    }
    free(buffer);
    free(out.data);
    close(fd);
    return NULL;
}

int main(int argc, char **argv) {
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--directory")) directory = argv[i + 1];
        else if (!strcmp(argv[i], "--partitions")) partitions = atoi(argv[i + 1]);
        else die("unknown option %s", argv[i]);
    }
    if (!directory) die("usage: bare --directory DIR --partitions N");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGPIPE, SIG_IGN);
    crc32c_init();
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    if (listener < 0 || bind(listener, (struct sockaddr *)&at, sizeof at) < 0 || listen(listener, 128) < 0 ||
        getsockname(listener, (struct sockaddr *)&at, &length) < 0)
        die("listen: %s", strerror(errno));
    printf("%d\n", port = ntohs(at.sin_port));
    fflush(stdout);
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0) die("accept: %s", strerror(errno));
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        pthread_t thread;
        if (pthread_create(&thread, NULL, serve, (void *)(intptr_t)fd)) die("no thread");
        pthread_detach(thread);
    }
}
