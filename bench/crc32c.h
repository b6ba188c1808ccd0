// CRC-32C as fast as the processor's instruction allows: three blocks at once hide its latency, and a table
// moves a block's remainder over the zeros that follow it.

#pragma once
#include <nmmintrin.h>
#include <stdint.h>
#include <string.h>

#define CRC_LANE 4096

static uint32_t crc_shift[4][256]; // remainder moved over CRC_LANE zero bytes, by byte of the remainder

static uint32_t crc_step(uint32_t crc, int bits) {
    while (bits--) crc = crc & 1 ? (crc >> 1) ^ 0x82f63b78u : crc >> 1;
    return crc;
}

static void crc32c_init(void) {
    // The move is linear, so it is enough to move each single bit.
    uint32_t bit[32];
    for (int i = 0; i < 32; i++) bit[i] = crc_step(1u << i, 8 * CRC_LANE);
    for (int byte = 0; byte < 4; byte++)
        for (int value = 0; value < 256; value++) {
            uint32_t sum = 0;
            for (int i = 0; i < 8; i++)
                if (value >> i & 1) sum ^= bit[8 * byte + i];
            crc_shift[byte][value] = sum;
        }
}

static inline uint32_t crc_move(uint32_t crc) {
    return crc_shift[0][crc & 255] ^ crc_shift[1][crc >> 8 & 255] ^ crc_shift[2][crc >> 16 & 255] ^ crc_shift[3][crc >> 24];
}

__attribute__((target("sse4.2"))) static uint32_t crc32c(uint32_t crc, const void *data, size_t length) {
    const unsigned char *p = data;
    uint64_t a = (uint32_t)~crc;
    while (length >= 3 * CRC_LANE) {
        uint64_t b = 0, c = 0;
        for (size_t i = 0; i < CRC_LANE; i += 8) {
            uint64_t x, y, z;
            memcpy(&x, p + i, 8), memcpy(&y, p + CRC_LANE + i, 8), memcpy(&z, p + 2 * CRC_LANE + i, 8);
            a = _mm_crc32_u64(a, x), b = _mm_crc32_u64(b, y), c = _mm_crc32_u64(c, z);
        }
        a = crc_move(crc_move((uint32_t)a) ^ (uint32_t)b) ^ (uint32_t)c;
        p += 3 * CRC_LANE, length -= 3 * CRC_LANE;
    }
    for (; length >= 8; p += 8, length -= 8) {
        uint64_t x;
        memcpy(&x, p, 8);
        a = _mm_crc32_u64(a, x);
    }
    uint32_t rest = (uint32_t)a;
    while (length--) rest = _mm_crc32_u8(rest, *p++);
    return ~rest;
}
