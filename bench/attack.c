// Loads that a broker must survive, made by hand, each a few KB or GB of traffic to one address.
//
//   attack burst   --address H:P --topic T --partitions N [--connections 80] [--hold-ms MS] [--seconds S]
//       each connection sends one produce request with one batch of 1 MiB for each partition, all at once; with
//       --hold-ms the last byte of each comes that much later. Every partition of every answer is checked.
//   attack prefix  --address H:P [--connections 1000] [--size 104857600] [--seconds S]
//       each connection promises a frame of that size, sends four bytes of it and stops
//   attack slow    --address H:P --topic T --partitions N [--connections 100] [--rate 65536] [--seconds S]
//       each connection fetches 50 MiB and reads it at that many bytes a second; one that is starved has not got what is
//       due to half of that rate within two minutes more either
//   attack idle    --address H:P [--connections 10000] [--seconds S]
//       connections that do nothing; at the end each must still answer ApiVersions
//   attack questions --address H:P --topic T --partitions N [--connections 200] [--seconds S]
//       each connection asks for everything there is, again and again, and reads no answer: metadata, configs, log
//       directories, groups, offsets, and fetches of every partition with and without a wait
//   attack greedy  --address H:P --topic T --partitions N [--connections 100] [--seconds S]
//       members with 1 MiB of metadata each, commits with 4 KiB of metadata for many partitions, topics with long
//       configs; answers are thrown away
//   attack hostile --address H:P --topic T [--seed N] [--seconds S]
//       frames of every API: valid headers with random, huge, truncated or garbled bodies; other protocols
//
// One JSON object on standard output.

#include "crc32c.h"
#include "wire.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/uio.h>

static struct sockaddr_in to;
static const char *topic = "attack";
static int connections, partitions = 79, hold_ms;
static double seconds = 60;

// A batch of exactly 1 MiB, records of 1 KiB, valid CRC, no producer id.
static bytes one_batch(size_t total) {
    bytes b = {0}, records = {0}, record = {0};
    static unsigned char value[1024];
    for (size_t i = 0; i < sizeof value; i++) value[i] = (unsigned char)(i * 2654435761u >> 11);
    int count = 0;
    while (61 + records.length < total) {
        size_t room = total - 61 - records.length, want = sizeof value;
        // The last record takes what is left; its own length is written before it.
        for (record.length = 0; want > 0; want--) {
            record.length = 0;
            put8(&record, 0), put_varint(&record, 0), put_varint(&record, count), put_varint(&record, -1);
            put_varint(&record, (int64_t)want), put(&record, value, want), put_varint(&record, 0);
            bytes length = {0};
            put_varint(&length, (int64_t)record.length);
            size_t full = length.length + record.length;
            free(length.data);
            if (full == room || (full + 16 <= room)) break;
        }
        if (want == 0) die("no record fits in %zu bytes", room);
        put_varint(&records, (int64_t)record.length);
        put(&records, record.data, record.length);
        count++;
    }
    int64_t stamp = (int64_t)time(NULL) * 1000;
    put64(&b, 0), put32(&b, (int64_t)total - 12), put32(&b, -1), put8(&b, 2), put32(&b, 0);
    put16(&b, 0), put32(&b, count - 1), put64(&b, stamp), put64(&b, stamp), put64(&b, -1), put16(&b, -1), put32(&b, -1);
    put32(&b, count);
    put(&b, records.data, records.length);
    if (b.length != total) die("a batch of %zu bytes instead of %zu", b.length, total);
    uint32_t crc = htonl(crc32c(0, b.data + 21, total - 21));
    memcpy(b.data + 17, &crc, 4);
    free(records.data), free(record.data);
    return b;
}

static void produce_head(bytes *b, int acks, int count, size_t batch) {
    begin_frame(b, 0, 7, 1);
    put16(b, -1), put16(b, acks), put32(b, 60000), put32(b, 1), put_string(b, topic), put32(b, count);
    end_frame(b, (size_t)count * (8 + batch));
}

typedef struct {
    int fd, part, answered, closed;
    size_t at, have; // bytes sent of the current part; bytes of the answer received
    double full_at;  // when all but the last byte was sent
    double whole_at; // when the last byte was sent
    uint64_t acknowledged; // bytes that the broker's system had taken before that
    unsigned char answer[8192];
} connection;

static int cmp_double(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Bytes that the peer's system has taken.
static uint64_t acknowledged(int fd) {
    struct tcp_info info = {0};
    socklen_t length = sizeof info;
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 ? info.tcpi_bytes_acked : 0;
}

static void burst(void) {
    bytes head = {0}, batch = one_batch(1 << 20);
    produce_head(&head, 1, partitions, batch.length);
    unsigned char (*marks)[8] = calloc((size_t)partitions, 8);
    for (int p = 0; p < partitions; p++) {
        uint32_t index = htonl((uint32_t)p), length = htonl((uint32_t)batch.length);
        memcpy(marks[p], &index, 4), memcpy(marks[p] + 4, &length, 4);
    }
    // Parts of a request: the head, then mark and batch for each partition. With a hold, the last byte is a part.
    int parts = 1 + 2 * partitions + (hold_ms ? 1 : 0);
    connection *all = calloc((size_t)connections, sizeof *all);
    int ep = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i < connections; i++) {
        if ((all[i].fd = connect_to(&to, 0)) < 0) die("connection %d: %s", i, strerror(errno));
        set_nonblocking(all[i].fd);
        struct epoll_event e = {.events = EPOLLIN | EPOLLOUT, .data.u32 = (uint32_t)i};
        epoll_ctl(ep, EPOLL_CTL_ADD, all[i].fd, &e);
    }
    double began = now(), end = began + seconds, *answer_at = calloc((size_t)connections, sizeof *answer_at);
    int open = connections, answered = 0, sent_whole = 0, cut_holding = 0, cut_sending = 0, cut_waiting = 0;
    uint64_t sent = 0, good = 0, bad = 0;
    int errors[256] = {0};
    while (open > 0 && now() < end) {
        struct epoll_event events[256];
        int n = epoll_wait(ep, events, 256, 20);
        // Those whose last byte was held back long enough may write again.
        if (hold_ms)
            for (int i = 0; i < connections; i++) {
                connection *c = &all[i];
                if (c->fd >= 0 && c->part == parts - 1 && c->full_at > 0 && now() - c->full_at >= hold_ms / 1000.0) {
                    c->full_at = -1;
                    struct epoll_event e = {.events = EPOLLIN | EPOLLOUT, .data.u32 = (uint32_t)i};
                    epoll_ctl(ep, EPOLL_CTL_MOD, c->fd, &e);
                }
            }
        for (int k = 0; k < n; k++) {
            connection *c = &all[events[k].data.u32];
            int gone = 0, quiet = 0, reset = 0;
            if (c->fd < 0) continue;
            if (events[k].events & EPOLLOUT) {
                while (c->part < parts) {
                    if (hold_ms && c->part == parts - 1 && c->full_at >= 0) {
                        if (c->full_at == 0) c->full_at = now();
                        quiet = 1;
                        break;
                    }
                    // One that was cut off before its last byte was due is not sent it: it would look like one that sent all.
                    if (hold_ms && c->part == parts - 1) {
                        char byte;
                        ssize_t seen = recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
                        if ((gone = seen == 0 || (seen < 0 && errno != EAGAIN && errno != EWOULDBLOCK))) break;
                        c->acknowledged = acknowledged(c->fd);
                    }
                    struct iovec v[32];
                    int count = 0;
                    for (int part = c->part; part < parts && count < 32; part++) {
                        if (hold_ms && part == parts - 1 && part != c->part) break;
                        const unsigned char *data;
                        size_t length;
                        if (part == 0) data = head.data, length = head.length;
                        else if (hold_ms && part == parts - 1) data = batch.data + batch.length - 1, length = 1;
                        else if (part % 2) data = marks[part / 2], length = 8;
                        else data = batch.data, length = batch.length - (hold_ms && part == parts - 2 ? 1 : 0);
                        size_t skip = part == c->part ? c->at : 0;
                        v[count++] = (struct iovec){(void *)(data + skip), length - skip};
                    }
                    struct msghdr m = {.msg_iov = v, .msg_iovlen = (size_t)count};
                    ssize_t done = sendmsg(c->fd, &m, MSG_NOSIGNAL);
                    if (done < 0) {
                        gone = errno != EAGAIN && errno != EWOULDBLOCK;
                        break;
                    }
                    sent += (uint64_t)done;
                    for (int i = 0; done > 0 && i < count; i++) {
                        if ((size_t)done >= v[i].iov_len) done -= (ssize_t)v[i].iov_len, c->part++, c->at = 0;
                        else c->at += (size_t)done, done = 0;
                    }
                }
                if (c->part == parts) quiet = 1, c->whole_at = c->whole_at > 0 ? c->whole_at : now();
            }
            if (!gone && events[k].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
                ssize_t got = recv(c->fd, c->answer + c->have, sizeof c->answer - c->have, 0);
                if (got > 0) c->have += (size_t)got;
                else if (got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK)) gone = 1, reset = got < 0;
                if (c->have >= 4 && c->have >= 4 + (size_t)get32(c->answer)) {
                    const unsigned char *p = c->answer + 4 + 4 + 4, *last = c->answer + 4 + get32(c->answer);
                    p += 2 + get16(p);
                    int count = get32(p);
                    p += 4;
                    for (int i = 0; i < count && p + 30 <= last; i++, p += 30) {
                        int error = get16(p + 4);
                        if (error == 0 && get64(p + 6) >= 0) good++;
                        else bad++, errors[error & 255]++;
                    }
                    answer_at[answered++] = now() - began;
                    c->answered = 1, gone = 1;
                }
            }
            if (gone) {
                if (!c->answered) {
                    c->closed = 1;
                    // The broker may have cut it off for its silence while the last byte was on its way: then that byte was not
                    // taken, or not read before the end. One that read all of it and ended in order owed an answer.
                    int crossed = hold_ms && (reset || acknowledged(c->fd) <= c->acknowledged) && now() - c->whole_at < 60;
                    if (c->part == parts && !crossed) cut_waiting++;
                    else if (hold_ms && c->part >= parts - 1) cut_holding++;
                    else cut_sending++;
                }
                sent_whole += c->part == parts;
                close(c->fd);
                c->fd = -1, open--;
            } else if (quiet) {
                struct epoll_event e = {.events = EPOLLIN, .data.u32 = events[k].data.u32};
                epoll_ctl(ep, EPOLL_CTL_MOD, c->fd, &e);
            }
        }
    }
    qsort(answer_at, (size_t)answered, sizeof *answer_at, cmp_double);
    printf("{\"connections\": %d, \"partitions\": %d, \"answered\": %d, \"unanswered\": %d, \"cut_while_sending\": %d, "
           "\"cut_while_holding\": %d, \"cut_after_sending\": %d, \"good_partitions\": %llu, \"bad_partitions\": %llu, \"errors\": {",
           connections, partitions, answered, open, cut_sending, cut_holding, cut_waiting, (unsigned long long)good, (unsigned long long)bad);
    for (int e = 0, first = 1; e < 256; e++)
        if (errors[e]) printf("%s\"%d\": %d", first ? "" : ", ", e, errors[e]), first = 0;
    printf("}, \"sent_bytes\": %llu, \"seconds\": %.2f, \"first_answer_s\": %.2f, \"last_answer_s\": %.2f}\n", (unsigned long long)sent,
           now() - began, answered ? answer_at[0] : 0, answered ? answer_at[answered - 1] : 0);
}

static int count_closed(int *fds, int count) {
    int closed = 0;
    for (int i = 0; i < count; i++) {
        char c;
        ssize_t n = fds[i] < 0 ? 0 : recv(fds[i], &c, 1, MSG_DONTWAIT | MSG_PEEK);
        closed += n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK);
    }
    return closed;
}

static void prefix(int64_t size) {
    int *fds = calloc((size_t)connections, sizeof *fds), refused = 0;
    for (int i = 0; i < connections; i++) {
        bytes b = {0};
        put32(&b, size), put16(&b, 0), put16(&b, 7); // Produce v7
        fds[i] = connect_to(&to, 0);
        if (fds[i] < 0 || send_all(fds[i], b.data, b.length) < 0) refused++;
        free(b.data);
    }
    double began = now();
    while (now() - began < seconds) usleep(50000);
    printf("{\"connections\": %d, \"refused\": %d, \"cut\": %d, \"seconds\": %.1f}\n", connections, refused,
           count_closed(fds, connections) - refused, now() - began);
}

static void slow(double rate) {
    bytes b = {0};
    int *fds = calloc((size_t)connections, sizeof *fds);
    begin_frame(&b, 1, 4, 1);
    put32(&b, -1), put32(&b, 500), put32(&b, 1), put32(&b, 50 << 20), put8(&b, 0);
    put32(&b, 1), put_string(&b, topic), put32(&b, partitions);
    for (int p = 0; p < partitions; p++) put32(&b, p), put64(&b, 0), put32(&b, 50 << 20);
    end_frame(&b, 0);
    for (int i = 0; i < connections; i++) {
        if ((fds[i] = connect_to(&to, 16 << 10)) < 0 || send_all(fds[i], b.data, b.length) < 0) die("connection %d: %s", i, strerror(errno));
    }
    uint64_t *taken = calloc((size_t)connections, sizeof *taken), total = 0;
    static char window[16 << 10];
    double began = now();
    int cut = 0, late = 0, starved = 0;
    for (int over = 0; !over || (starved && now() - began < seconds + 120);) {
        usleep(20000);
        uint64_t due = (uint64_t)((now() - began) * rate);
        for (int i = 0; i < connections; i++)
            while (fds[i] >= 0 && taken[i] < due) {
                size_t want = due - taken[i] < sizeof window ? due - taken[i] : sizeof window;
                ssize_t n = recv(fds[i], window, want, MSG_DONTWAIT);
                if (n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK)) close(fds[i]), fds[i] = -1, cut++;
                if (n <= 0) break;
                taken[i] += (uint64_t)n, total += (uint64_t)n;
            }
        if (now() - began < seconds) continue;
        starved = 0;
        for (int i = 0; i < connections; i++) starved += (double)taken[i] < rate * seconds / 2;
        if (!over) late = starved;
        over = 1;
    }
    printf("{\"connections\": %d, \"cut\": %d, \"below_half_of_the_rate\": %d, \"starved\": %d, \"read_bytes\": %llu, \"seconds\": %.1f}\n",
           connections, cut, late, starved, (unsigned long long)total, now() - began);
}

static int api_versions(int fd, int timeout_ms) {
    bytes b = {0};
    begin_frame(&b, 18, 0, 7);
    end_frame(&b, 0);
    int ok = send_all(fd, b.data, b.length) == 0;
    free(b.data);
    unsigned char answer[4096];
    size_t have = 0;
    while (ok && (have < 4 || have < 4 + (size_t)get32(answer))) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        ssize_t n = poll(&p, 1, timeout_ms) == 1 ? recv(fd, answer + have, sizeof answer - have, 0) : -1;
        if (n <= 0) return 0;
        have += (size_t)n;
    }
    return ok && get16(answer + 8) == 0;
}

static void idle(void) {
    int *fds = calloc((size_t)connections, sizeof *fds), refused = 0, alive = 0, dead = 0;
    double began = now();
    for (int i = 0; i < connections; i++)
        if ((fds[i] = connect_to(&to, 0)) < 0) refused++;
    double opened = now() - began;
    while (now() - began < seconds) usleep(50000);
    for (int i = 0; i < connections; i++)
        if (fds[i] >= 0 && dead < 20) { // twenty dead ones are enough to know
            int ok = api_versions(fds[i], 60000);
            alive += ok, dead += !ok;
        }
    printf("{\"connections\": %d, \"refused\": %d, \"alive\": %d, \"opened_in_s\": %.2f, \"seconds\": %.1f}\n", connections, refused, alive,
           opened, now() - began);
}

static uint64_t random_state;

static uint64_t dice(void) {
    random_state ^= random_state << 13, random_state ^= random_state >> 7, random_state ^= random_state << 17;
    return random_state;
}

static int pick(int below) { return (int)(dice() % (uint64_t)below); }

// A well-formed request of one of the APIs that carry most, to be garbled.
static void valid_frame(bytes *b, const bytes *batch) {
    switch (pick(6)) {
    case 0:
        produce_head(b, 1, 1, batch->length);
        put32(b, 0), put32(b, (int64_t)batch->length), put(b, batch->data, batch->length);
        return;
    case 1:
        begin_frame(b, 1, 4, 3);
        put32(b, -1), put32(b, 10), put32(b, 1), put32(b, 1 << 20), put8(b, 0), put32(b, 1), put_string(b, topic), put32(b, 1);
        put32(b, 0), put64(b, 0), put32(b, 1 << 20);
        break;
    case 2:
        begin_frame(b, 3, 4, 3);
        put32(b, 1), put_string(b, topic), put8(b, 0);
        break;
    case 3:
        begin_frame(b, 11, 5, 3);
        put_string(b, "hostile"), put32(b, 10000), put32(b, 10000), put_string(b, ""), put16(b, -1), put_string(b, "consumer");
        put32(b, 1), put_string(b, "range"), put32(b, 6), put16(b, 0), put32(b, 0);
        break;
    case 4:
        begin_frame(b, 8, 6, 3);
        put_string(b, "hostile"), put32(b, -1), put_string(b, ""), put32(b, 1), put_string(b, topic), put32(b, 1), put32(b, 0);
        put64(b, 5), put32(b, 0), put_string(b, "");
        break;
    default:
        begin_frame(b, 2, 2, 3);
        put32(b, -1), put8(b, 0), put32(b, 1), put_string(b, topic), put32(b, 1), put32(b, 0), put64(b, -1);
    }
    end_frame(b, 0);
}

// Requests that name little and ask for much.
static void put_question(bytes *out, int which) {
    bytes b = {0};
    switch (which) {
    case 0: // Metadata of all topics
        begin_frame(&b, 3, 8, 1), put32(&b, -1), put8(&b, 0), put8(&b, 1), put8(&b, 1);
        break;
    case 1: // DescribeConfigs of a topic, many times, and of the broker, with synonyms
        begin_frame(&b, 32, 1, 2), put32(&b, 101);
        for (int i = 0; i < 100; i++) put8(&b, 2), put_string(&b, topic), put32(&b, -1);
        put8(&b, 4), put_string(&b, "1"), put32(&b, -1), put8(&b, 1);
        break;
    case 2: // DescribeLogDirs of everything
        begin_frame(&b, 35, 1, 3), put32(&b, -1);
        break;
    case 3: // ListGroups
        begin_frame(&b, 16, 2, 4);
        break;
    case 4: // OffsetFetch of everything
        begin_frame(&b, 9, 5, 5), put_string(&b, "greedy-offsets"), put32(&b, -1);
        break;
    case 5: // ListOffsets of every partition
        begin_frame(&b, 2, 2, 6), put32(&b, -1), put8(&b, 0), put32(&b, 1), put_string(&b, topic), put32(&b, partitions);
        for (int p = 0; p < partitions; p++) put32(&b, p), put64(&b, -1);
        break;
    case 6: // Fetch of every partition, without a session and without a wait
    case 7: // the same with a wait
        begin_frame(&b, 1, 11, 7), put32(&b, -1), put32(&b, which == 7 ? 60000 : 0), put32(&b, 1), put32(&b, 50 << 20), put8(&b, 0);
        put32(&b, 0), put32(&b, -1), put32(&b, 1), put_string(&b, topic), put32(&b, partitions);
        for (int p = 0; p < partitions; p++) put32(&b, p), put32(&b, -1), put64(&b, 0), put64(&b, 0), put32(&b, 1 << 20);
        put32(&b, 0), put_string(&b, "");
        break;
    default: // DescribeGroups, one many times
        begin_frame(&b, 15, 2, 8), put32(&b, 200);
        for (int i = 0; i < 200; i++) put_string(&b, "greedy-0");
    }
    end_frame(&b, 0);
    put(out, b.data, b.length), free(b.data);
}

static void put_greed(bytes *out, int which, int number) {
    static char text[1 << 20];
    memset(text, 'x', sizeof text);
    char name[96];
    bytes b = {0};
    switch (which) {
    case 0: // JoinGroup with 1 MiB of metadata
        snprintf(name, sizeof name, "greedy-%d", number);
        begin_frame(&b, 11, 3, 1), put_string(&b, name), put32(&b, 10000), put32(&b, 10000), put_string(&b, "");
        put_string(&b, "consumer"), put32(&b, 1), put_string(&b, "range"), put32(&b, sizeof text), put(&b, text, sizeof text);
        break;
    case 1: // OffsetCommit of 200 partitions with 4 KiB of metadata each
        begin_frame(&b, 8, 6, 2), put_string(&b, "greedy-offsets"), put32(&b, -1), put_string(&b, ""), put32(&b, 1), put_string(&b, topic);
        put32(&b, 200);
        for (int p = 0; p < 200; p++) put32(&b, (number * 200 + p) % partitions), put64(&b, 1), put32(&b, -1), put16(&b, 4096), put(&b, text, 4096);
        break;
    case 2: // CreateTopics with long configs
        begin_frame(&b, 19, 4, 3), put32(&b, 20);
        for (int t = 0; t < 20; t++) {
            snprintf(name, sizeof name, "greedy-%d-%d", number, t);
            put_string(&b, name), put32(&b, 1), put16(&b, 1), put32(&b, 0), put32(&b, 5);
            for (int c = 0; c < 5; c++) put_string(&b, "retention.ms"), put16(&b, 10000), put(&b, text, 10000);
        }
        put32(&b, 1000), put8(&b, 0);
        break;
    default: // Metadata of topics with long names that do not exist
        begin_frame(&b, 3, 4, 4), put32(&b, 2000);
        for (int t = 0; t < 2000; t++) snprintf(name, sizeof name, "no-%d-%060d", t, 0), put_string(&b, name);
        put8(&b, 0);
    }
    end_frame(&b, 0);
    put(out, b.data, b.length), free(b.data);
}

// Each connection sends a stream of requests without an end; answers are read only where `reads`.
static void ask(int kinds, void (*put_request)(bytes *, int, int), int reads) {
    typedef struct { int fd; bytes out; size_t at; } asker;
    asker *all = calloc((size_t)connections, sizeof *all);
    uint64_t sent = 0, taken = 0, closed = 0, refused = 0;
    double began = now();
    while (now() - began < seconds) {
        for (int i = 0; i < connections; i++) {
            asker *a = &all[i];
            if (!a->out.data) {
                for (int k = 0; k < kinds; k++) put_request(&a->out, (i + k) % kinds, i);
                a->fd = -1;
            }
            if (a->fd < 0) {
                if ((a->fd = connect_to(&to, 16 << 10)) < 0) {
                    refused++;
                    continue;
                }
                set_nonblocking(a->fd), a->at = 0;
            }
            ssize_t n = send(a->fd, a->out.data + a->at, a->out.length - a->at, MSG_NOSIGNAL | MSG_DONTWAIT);
            if (n > 0) sent += (uint64_t)n, a->at = (a->at + (size_t)n) % a->out.length;
            int lost = n < 0 && errno != EAGAIN && errno != EWOULDBLOCK;
            static char sink[64 << 10];
            while (reads && !lost) {
                ssize_t got = recv(a->fd, sink, sizeof sink, MSG_DONTWAIT);
                if (got == 0) lost = 1;
                if (got <= 0) break;
                taken += (uint64_t)got;
            }
            if (lost) close(a->fd), a->fd = -1, closed++;
        }
        usleep(2000);
    }
    for (int i = 0; i < connections; i++)
        if (all[i].fd >= 0) close(all[i].fd);
    int fd = connect_to(&to, 0), alive = fd >= 0 && api_versions(fd, 60000);
    printf("{\"connections\": %d, \"sent_bytes\": %llu, \"read_bytes\": %llu, \"closed_by_the_broker\": %llu, \"refused\": %llu, "
           "\"alive\": %d, \"seconds\": %.1f}\n", connections, (unsigned long long)sent, (unsigned long long)taken,
           (unsigned long long)closed, (unsigned long long)refused, alive, now() - began);
}

static void put_any_question(bytes *out, int which, int number) {
    (void)number;
    put_question(out, which);
}

static void hostile(uint64_t seed) {
    random_state = seed * 2654435761u + 88172645463325252ull;
    bytes batch = one_batch(8192), b = {0};
    uint64_t frames = 0, answers = 0, closes = 0, silences = 0, refused = 0;
    static unsigned char sink[1 << 16];
    int fd = -1;
    double began = now();
    while (now() - began < seconds) {
        if (fd < 0 && (fd = connect_to(&to, 0)) < 0) {
            refused++;
            usleep(10000);
            continue;
        }
        int hangs_up = 0, kind = pick(10);
        if (kind < 5) { // a header that may be valid, and a body that is not
            begin_frame(&b, pick(12) ? pick(93) : (int)(dice() & 0xffff), pick(8) ? pick(14) : (int)(dice() & 0xffff), 5);
            if (pick(2)) put8(&b, 0); // tagged fields of header v2
            int length = pick(4) ? pick(200) : pick(20000), style = pick(5);
            for (int i = 0; i < length; i++)
                switch (style) {
                case 0: put8(&b, (int)dice()); break;
                case 1: put32(&b, 0x7fffffff); break; // arrays of two thousand million elements
                case 2: put8(&b, 0xff); break;        // varints that never end
                case 3: put8(&b, 0); break;
                default: put8(&b, i % 3 ? 1 : 0x7f);
                }
            end_frame(&b, 0);
        } else if (kind < 8) { // a valid request with some bytes changed
            valid_frame(&b, &batch);
            for (int flips = 1 + pick(6); flips > 0; flips--) {
                size_t at = 4 + dice() % (pick(2) && b.length > 80 ? 76 : b.length - 4);
                b.data[at] = (unsigned char)(pick(3) ? dice() : pick(2) ? 0xff : 0x7f);
            }
        } else if (kind == 8) { // a promise that is not kept
            valid_frame(&b, &batch);
            uint32_t sizes[] = {0, 0xffffffff, 0x7fffffff, 0x80000000, 104857600, 3};
            uint32_t size = htonl(sizes[pick(6)]);
            if (pick(3)) memcpy(b.data, &size, 4);
            if (b.length > 12) b.length -= (size_t)pick((int)b.length - 8);
            hangs_up = 1;
        } else { // not Kafka at all
            const char *other[] = {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "SSH-2.0-OpenSSH_9.2\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "\x00\x00\x00\x00"};
            const char *text = other[pick(4)];
            b.length = 0;
            put(&b, text, text[0] ? strlen(text) : 4);
            hangs_up = 1;
        }
        frames++;
        int lost = send_all(fd, b.data, b.length) < 0;
        if (!lost) {
            struct pollfd p = {.fd = fd, .events = POLLIN};
            if (poll(&p, 1, hangs_up ? 5 : 30) == 1) {
                ssize_t n = recv(fd, sink, sizeof sink, 0);
                if (n > 0) answers++;
                else lost = 1;
            } else {
                silences++;
                hangs_up = 1;
            }
        }
        closes += (uint64_t)lost;
        if (lost || hangs_up) close(fd), fd = -1;
    }
    if (fd >= 0) close(fd);
    if ((fd = connect_to(&to, 0)) < 0) refused++;
    int alive = fd >= 0 && api_versions(fd, 60000);
    printf("{\"seed\": %llu, \"frames\": %llu, \"answers\": %llu, \"closed_by_the_broker\": %llu, \"silences\": %llu, \"refused\": %llu, "
           "\"alive\": %d, \"seconds\": %.1f}\n", (unsigned long long)seed, (unsigned long long)frames, (unsigned long long)answers,
           (unsigned long long)closes, (unsigned long long)silences, (unsigned long long)refused, alive, now() - began);
}

int main(int argc, char **argv) {
    const char *mode = argc >= 2 ? argv[1] : "", *address = NULL;
    int64_t size = 100 << 20;
    double rate = 64 << 10;
    uint64_t seed = 1;
    for (int i = 2; i + 1 < argc; i += 2) {
        const char *o = argv[i], *v = argv[i + 1];
        if (!strcmp(o, "--address")) address = v;
        else if (!strcmp(o, "--topic")) topic = v;
        else if (!strcmp(o, "--partitions")) partitions = atoi(v);
        else if (!strcmp(o, "--connections")) connections = atoi(v);
        else if (!strcmp(o, "--hold-ms")) hold_ms = atoi(v);
        else if (!strcmp(o, "--seconds")) seconds = atof(v);
        else if (!strcmp(o, "--size")) size = atoll(v);
        else if (!strcmp(o, "--rate")) rate = atof(v);
        else if (!strcmp(o, "--seed")) seed = strtoull(v, NULL, 10);
        else die("unknown option %s", o);
    }
    if (!address) die("--address is missing");
    to = address_of(address);
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    crc32c_init();
    int defaults[] = {80, 1000, 100, 10000, 200, 100};
    const char *modes[] = {"burst", "prefix", "slow", "idle", "questions", "greedy"};
    for (int i = 0; i < 6; i++)
        if (!connections && !strcmp(mode, modes[i])) connections = defaults[i];
    if (!strcmp(mode, "burst")) burst();
    else if (!strcmp(mode, "prefix")) prefix(size);
    else if (!strcmp(mode, "slow")) slow(rate);
    else if (!strcmp(mode, "idle")) idle();
    else if (!strcmp(mode, "questions")) ask(9, put_any_question, 0);
    else if (!strcmp(mode, "greedy")) ask(4, put_greed, 1);
    else if (!strcmp(mode, "hostile")) hostile(seed);
    else die("unknown mode %s: burst, prefix, slow, idle, questions, greedy, hostile", mode);
    return 0;
}
