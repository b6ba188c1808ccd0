// Kafka frames made by hand: just what the raw reader and the attacks need.

#pragma once
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static void die(const char *format, ...) {
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\n");
    exit(2);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static struct sockaddr_in address_of(const char *text) {
    char host[64];
    const char *colon = strrchr(text, ':');
    if (!colon || (size_t)(colon - text) >= sizeof host) die("not an address: %s", text);
    memcpy(host, text, (size_t)(colon - text));
    host[colon - text] = 0;
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(colon + 1))};
    if (inet_pton(AF_INET, host, &a.sin_addr) != 1) die("not an IPv4 address: %s", host);
    return a;
}

// A connected socket, or -1. receive_buffer: bytes, 0 for the system's own choice.
static int connect_to(const struct sockaddr_in *to, int receive_buffer) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    if (fd < 0) return -1;
    if (receive_buffer) setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(fd, (const struct sockaddr *)to, sizeof *to) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static void set_nonblocking(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

typedef struct {
    unsigned char *data;
    size_t length, room;
} bytes;

static void put(bytes *b, const void *data, size_t length) {
    if (b->length + length > b->room) {
        b->room = (b->length + length) * 2 + 64;
        if (!(b->data = realloc(b->data, b->room))) die("out of memory");
    }
    memcpy(b->data + b->length, data, length);
    b->length += length;
}

static void put8(bytes *b, int v) { unsigned char x = (unsigned char)v; put(b, &x, 1); }
static void put16(bytes *b, int v) { uint16_t x = htons((uint16_t)v); put(b, &x, 2); }
static void put32(bytes *b, int64_t v) { uint32_t x = htonl((uint32_t)v); put(b, &x, 4); }
static void put64(bytes *b, int64_t v) { put32(b, v >> 32); put32(b, v); }
static void put_string(bytes *b, const char *s) { put16(b, (int)strlen(s)); put(b, s, strlen(s)); }

static void put_varint(bytes *b, int64_t v) {
    uint64_t z = ((uint64_t)v << 1) ^ (uint64_t)(v >> 63);
    for (; z >= 0x80; z >>= 7) put8(b, (int)(z & 0x7f) | 0x80);
    put8(b, (int)z);
}

static int16_t get16(const unsigned char *p) { return (int16_t)(p[0] << 8 | p[1]); }
static int32_t get32(const unsigned char *p) { return (int32_t)((uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3]); }
static int64_t get64(const unsigned char *p) { return (int64_t)((uint64_t)(uint32_t)get32(p) << 32 | (uint32_t)get32(p + 4)); }

// Size prefix (set later by end_frame) and request header v1.
static void begin_frame(bytes *b, int api_key, int version, int correlation) {
    b->length = 0;
    put32(b, 0);
    put16(b, api_key);
    put16(b, version);
    put32(b, correlation);
    put_string(b, "bench");
}

static void end_frame(bytes *b, size_t more) {
    uint32_t size = htonl((uint32_t)(b->length - 4 + more));
    memcpy(b->data, &size, 4);
}

static int send_all(int fd, const void *data, size_t length) {
    for (const char *p = data; length > 0;) {
        ssize_t n = send(fd, p, length, MSG_NOSIGNAL);
        if (n < 0) return -1;
        p += n, length -= (size_t)n;
    }
    return 0;
}
