// A load made by librdkafka: producers at full speed or at a given pace, with the latency of every record from
// produce() to its delivery report, or consumers that read a topic to its end. One JSON object on standard output.
//
//   rdload produce --bootstrap H:P --topic T [--producers N] [--size BYTES] [--acks 0|1|all] [--seconds S]
//                  [--rate RECORDS_PER_SECOND] [--codec NAME] [--set PROPERTY=VALUE]...
//   rdload consume --bootstrap H:P --topic T --partitions N [--consumers N] [--set PROPERTY=VALUE]...
//
// Built with: gcc -O2 rdload.c -lrdkafka -lpthread

#define _GNU_SOURCE
#include <librdkafka/rdkafka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

// Latencies in a log-linear histogram of microseconds: 64 steps for each power of two, so within 1.6 %.
#define STEPS 64
#define BUCKETS (40 * STEPS)

typedef struct {
    uint64_t count[BUCKETS], total, max;
} histogram;

static int bucket_of(uint64_t us) {
    if (us < STEPS) return (int)us;
    int high = 63 - __builtin_clzll(us), shift = high - 6;
    int b = (shift + 1) * STEPS + (int)((us >> shift) & (STEPS - 1));
    return b < BUCKETS ? b : BUCKETS - 1;
}

static double value_of(int b) {
    if (b < STEPS) return b;
    int shift = b / STEPS - 1;
    return (double)((uint64_t)(STEPS + b % STEPS) << shift) + (double)(1ull << shift) / 2;
}

static void record(histogram *h, uint64_t us) {
    h->count[bucket_of(us)]++;
    h->total++;
    if (us > h->max) h->max = us;
}

static double percentile_ms(const histogram *h, double p) {
    uint64_t want = (uint64_t)(p * (double)h->total + 0.5), seen = 0;
    for (int b = 0; b < BUCKETS; b++) {
        seen += h->count[b];
        if (seen >= want && seen > 0) return value_of(b) / 1000.0;
    }
    return 0;
}

static uint64_t now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

static const char *bootstrap, *topic, *acks = "1", *codec = "none";
static int producers = 1, consumers = 1, partitions = 1, settings;
static const char *setting[64];
static size_t size = 1024;
static double seconds = 5, rate;
static atomic_int broken;

typedef struct {
    pthread_t thread;
    histogram latency;
    uint64_t delivered, failed, bytes, first_us, last_us;
    char error[256];
    int index;
} worker;

static void die(const char *what, const char *why) {
    fprintf(stderr, "rdload: %s: %s\n", what, why);
    exit(2);
}

static void put(rd_kafka_conf_t *conf, const char *name, const char *value) {
    char error[256];
    if (rd_kafka_conf_set(conf, name, value, error, sizeof error) != RD_KAFKA_CONF_OK) die(name, error);
}

static rd_kafka_conf_t *configuration(void) {
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    put(conf, "bootstrap.servers", bootstrap);
    for (int i = 0; i < settings; i++) {
        char name[128];
        const char *eq = strchr(setting[i], '=');
        if (!eq || (size_t)(eq - setting[i]) >= sizeof name) die("--set", setting[i]);
        memcpy(name, setting[i], (size_t)(eq - setting[i]));
        name[eq - setting[i]] = 0;
        put(conf, name, eq + 1);
    }
    return conf;
}

static void on_delivery(rd_kafka_t *rk, const rd_kafka_message_t *m, void *opaque) {
    (void)rk;
    worker *w = opaque;
    uint64_t now = now_us();
    if (m->err) {
        if (!w->failed++) snprintf(w->error, sizeof w->error, "%s", rd_kafka_err2str(m->err));
        return;
    }
    w->delivered++;
    w->bytes += m->len;
    w->last_us = now;
    record(&w->latency, now - (uint64_t)(uintptr_t)m->_private);
}

static void *produce(void *arg) {
    worker *w = arg;
    char error[256];
    rd_kafka_conf_t *conf = configuration();
    put(conf, "acks", acks);
    put(conf, "compression.codec", codec);
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    rd_kafka_conf_set_opaque(conf, w);
    rd_kafka_t *rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, error, sizeof error);
    if (!rk) die("producer", error);
    rd_kafka_topic_t *t = rd_kafka_topic_new(rk, topic, NULL);
    // Bytes that neither repeat nor compress well, different for each producer.
    char *payload = malloc(size);
    uint64_t x = 88172645463325252ull + (uint64_t)w->index;
    for (size_t i = 0; i < size; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        payload[i] = (char)x;
    }
    const struct rd_kafka_metadata *m = NULL;
    if (rd_kafka_metadata(rk, 0, t, &m, 20000)) die("metadata", "no answer");
    rd_kafka_metadata_destroy(m);

    w->first_us = now_us();
    uint64_t end = w->first_us + (uint64_t)(seconds * 1e6), sent = 0;
    double each = rate / producers / 1e6; // records per microsecond
    for (;;) {
        uint64_t now = now_us();
        if (now >= end) break;
        uint64_t due = rate > 0 ? (uint64_t)((double)(now - w->first_us) * each) : sent + 64;
        while (sent < due) {
            if (rd_kafka_produce(t, RD_KAFKA_PARTITION_UA, RD_KAFKA_MSG_F_COPY, payload, size, NULL, 0,
                                 (void *)(uintptr_t)now_us()) == 0) {
                sent++;
                continue;
            }
            if (rd_kafka_last_error() != RD_KAFKA_RESP_ERR__QUEUE_FULL) die("produce", rd_kafka_err2str(rd_kafka_last_error()));
            rd_kafka_poll(rk, 5);
            if (now_us() >= end) break;
        }
        rd_kafka_poll(rk, rate > 0 ? 1 : 0);
    }
    if (rd_kafka_flush(rk, 60000) != RD_KAFKA_RESP_ERR_NO_ERROR) atomic_store(&broken, 1);
    rd_kafka_topic_destroy(t);
    rd_kafka_destroy(rk);
    free(payload);
    return NULL;
}

static void *consume(void *arg) {
    worker *w = arg;
    char error[256];
    rd_kafka_conf_t *conf = configuration();
    put(conf, "group.id", "rdload");
    put(conf, "enable.auto.commit", "false");
    put(conf, "enable.partition.eof", "true");
    rd_kafka_t *rk = rd_kafka_new(RD_KAFKA_CONSUMER, conf, error, sizeof error);
    if (!rk) die("consumer", error);
    rd_kafka_poll_set_consumer(rk);
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(partitions);
    int left = 0;
    for (int p = w->index; p < partitions; p += consumers, left++)
        rd_kafka_topic_partition_list_add(list, topic, p)->offset = RD_KAFKA_OFFSET_BEGINNING;
    rd_kafka_assign(rk, list);
    rd_kafka_topic_partition_list_destroy(list);
    rd_kafka_queue_t *queue = rd_kafka_queue_get_consumer(rk);
    rd_kafka_message_t *batch[1000];
    uint64_t deadline = now_us() + (uint64_t)(seconds * 1e6);
    while (left > 0 && now_us() < deadline) {
        ssize_t n = rd_kafka_consume_batch_queue(queue, 500, batch, 1000);
        for (ssize_t i = 0; i < n; i++) {
            rd_kafka_message_t *m = batch[i];
            if (m->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
                left--;
            } else if (m->err) {
                if (!w->failed++) snprintf(w->error, sizeof w->error, "%s", rd_kafka_err2str(m->err));
            } else {
                if (!w->first_us) w->first_us = now_us();
                w->delivered++;
                w->bytes += m->len + m->key_len;
            }
            rd_kafka_message_destroy(m);
        }
        w->last_us = now_us();
    }
    if (left > 0) atomic_store(&broken, 1);
    rd_kafka_queue_destroy(queue);
    rd_kafka_consumer_close(rk);
    rd_kafka_destroy(rk);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc < 2) die("usage", "rdload produce|consume --bootstrap H:P --topic T ...");
    int consuming = !strcmp(argv[1], "consume");
    if (!consuming && strcmp(argv[1], "produce")) die("unknown mode", argv[1]);
    if (consuming) seconds = 120;
    for (int i = 2; i + 1 < argc; i += 2) {
        const char *o = argv[i], *v = argv[i + 1];
        if (!strcmp(o, "--bootstrap")) bootstrap = v;
        else if (!strcmp(o, "--topic")) topic = v;
        else if (!strcmp(o, "--producers")) producers = atoi(v);
        else if (!strcmp(o, "--consumers")) consumers = atoi(v);
        else if (!strcmp(o, "--partitions")) partitions = atoi(v);
        else if (!strcmp(o, "--size")) size = (size_t)atol(v);
        else if (!strcmp(o, "--acks")) acks = v;
        else if (!strcmp(o, "--codec")) codec = v;
        else if (!strcmp(o, "--seconds")) seconds = atof(v);
        else if (!strcmp(o, "--rate")) rate = atof(v);
        else if (!strcmp(o, "--set") && settings < 64) setting[settings++] = v;
        else die("unknown option", o);
    }
    if (!bootstrap || !topic) die("missing", "--bootstrap and --topic");
    int count = consuming ? consumers : producers;
    worker *workers = calloc((size_t)count, sizeof *workers);
    for (int i = 0; i < count; i++) {
        workers[i].index = i;
        pthread_create(&workers[i].thread, NULL, consuming ? consume : produce, &workers[i]);
    }
    worker all = {0};
    for (int i = 0; i < count; i++) {
        worker *w = &workers[i];
        pthread_join(w->thread, NULL);
        all.delivered += w->delivered, all.failed += w->failed, all.bytes += w->bytes;
        if (w->first_us && (!all.first_us || w->first_us < all.first_us)) all.first_us = w->first_us;
        if (w->last_us > all.last_us) all.last_us = w->last_us;
        if (w->error[0]) memcpy(all.error, w->error, sizeof all.error);
        for (int b = 0; b < BUCKETS; b++) all.latency.count[b] += w->latency.count[b];
        all.latency.total += w->latency.total;
        if (w->latency.max > all.latency.max) all.latency.max = w->latency.max;
    }
    double took = all.last_us > all.first_us ? (double)(all.last_us - all.first_us) / 1e6 : 0;
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    printf("{\"records\": %llu, \"failed\": %llu, \"error\": \"%s\", \"complete\": %s, \"bytes\": %llu, \"seconds\": %.3f, "
           "\"records_per_second\": %.0f, \"client_cpu_seconds\": %.2f",
           (unsigned long long)all.delivered, (unsigned long long)all.failed, all.error, atomic_load(&broken) ? "false" : "true",
           (unsigned long long)all.bytes, took, took > 0 ? (double)all.delivered / took : 0,
           (double)used.ru_utime.tv_sec + (double)used.ru_stime.tv_sec + (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6);
    if (!consuming)
        printf(", \"p50_ms\": %.3f, \"p99_ms\": %.3f, \"p999_ms\": %.3f, \"max_ms\": %.3f",
               percentile_ms(&all.latency, 0.50), percentile_ms(&all.latency, 0.99), percentile_ms(&all.latency, 0.999),
               (double)all.latency.max / 1000.0);
    printf("}\n");
    return all.failed || atomic_load(&broken) ? 1 : 0;
}
