/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Contents, sizes and buffers of messages: a counter-based generator, message sizes and numbers of
 * repetitions, buffers between guard zones, and the comparison of received bytes.
 *
 * Word i of a message is mix(key + (i + 1) * GAMMA), the splitmix64 sequence from a key that is
 * derived from the identity of the message.
 */
#include "verify.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Constants of splitmix64 (Steele, Lea, Flood 2014). */
#define GAMMA 0x9E3779B97F4A7C15ull
#define MIX_1 0xBF58476D1CE4E5B9ull
#define MIX_2 0x94D049BB133111EBull

static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * MIX_1;
    z = (z ^ (z >> 27)) * MIX_2;
    return z ^ (z >> 31);
}

static uint64_t key_at_step(struct verify_id id, uint64_t step)
{
    uint64_t key = mix(verify.seed + GAMMA);

    key = mix(key ^ (step + 1) * MIX_1);
    key = mix(key ^ ((uint64_t)(uint32_t)id.source << 32 | (uint32_t)id.dest));
    key = mix(key ^ (uint64_t)(uint32_t)id.tag * MIX_2);
    return mix(key ^ (id.sequence + 1) * GAMMA);
}

static uint64_t word(uint64_t key, uint64_t index)
{
    return mix(key + (index + 1) * GAMMA);
}

uint64_t verify_random(uint64_t stream, uint64_t index)
{
    return word(mix(verify.seed ^ mix(stream + GAMMA)), index);
}

void verify_fill(void *data, size_t len, struct verify_id id, size_t offset)
{
    unsigned char *out = data;
    uint64_t key = key_at_step(id, verify_step_number());
    uint64_t index = offset / 8;
    size_t skip = offset % 8;

    while (len > 0) {
        uint64_t w = word(key, index++);
        size_t n = 8 - skip < len ? 8 - skip : len;

        memcpy(out, (unsigned char *)&w + skip, n);
        out += n;
        len -= n;
        skip = 0;
    }
}

unsigned char verify_byte(struct verify_id id, size_t offset)
{
    unsigned char byte;

    verify_fill(&byte, 1, id, offset);
    return byte;
}

size_t verify_compare(const void *data, size_t len, struct verify_id id)
{
    const unsigned char *in = data;
    uint64_t key = key_at_step(id, verify_step_number());
    size_t at = 0;

    while (at < len) {
        uint64_t expected = word(key, at / 8), got = 0;
        size_t n = len - at < 8 ? len - at : 8;

        memcpy(&got, in + at, n);
        if (memcmp(&got, &expected, n) != 0) {
            while (in[at] == ((unsigned char *)&expected)[at % 8]) {
                at++;
            }
            return at;
        }
        at += n;
    }
    return len;
}

void verify_diagnose(const void *data, size_t len, size_t bad, struct verify_id id, char *text,
                     size_t text_bytes)
{
    const unsigned char *found = data;
    size_t wrong = 0, poison = 0, zero = 0, last = bad;
    uint64_t key = key_at_step(id, verify_step_number());

    for (size_t at = bad; at < len; at++) {
        uint64_t expected = word(key, at / 8);

        if (found[at] != ((unsigned char *)&expected)[at % 8]) {
            wrong++;
            last = at;
            poison += found[at] == VERIFY_POISON;
            zero += found[at] == 0;
        }
    }
    if (poison == wrong) {
        snprintf(text, text_bytes, "%zu bytes to offset %zu never written", wrong, last);
    } else if (zero == wrong) {
        snprintf(text, text_bytes, "%zu bytes to offset %zu are zero", wrong, last);
    } else if (wrong == 1) {
        snprintf(text, text_bytes, "a single byte differs, by 0x%02x",
                 found[bad] ^ verify_byte(id, bad));
    } else {
        snprintf(text, text_bytes, "%zu bytes to offset %zu differ", wrong, last);
    }
}

#define KB ((size_t)1024)
#define MB ((size_t)1024 * 1024)

#define SIZES_MAX 256

void verify_compute(double seconds)
{
    struct timespec start, now;
    volatile double x = 1;

    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        for (int i = 0; i < 100000; i++) {
            x = x * 1.0000001 + 1e-9;
        }
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((double)(now.tv_sec - start.tv_sec) + (double)(now.tv_nsec - start.tv_nsec) * 1e-9 <
             seconds);
}

int verify_repeat(int base)
{
    double n = base * verify.scale;

    return n < 1 ? 1 : (int)n;
}

static int by_size(const void *a, const void *b)
{
    size_t x = *(const size_t *)a, y = *(const size_t *)b;

    return (x > y) - (x < y);
}

/* Return how many numbers of an ascending list are within the limit and --max-bytes. */
static size_t count_within(const size_t *list, size_t count, size_t limit)
{
    limit = limit < verify.max_bytes ? limit : verify.max_bytes;
    while (count > 0 && list[count - 1] > limit) {
        count--;
    }
    return count;
}

const size_t *verify_sizes(size_t limit, size_t *count)
{
    /* Sizes to use along with size - 1 and size + 1: powers of two, MTUs, limits of ob1 and tcp. */
    static const size_t around[] = {
        16,       32,          64,      128,          256,        512,    KB,       2 * KB,
        4 * KB,   4 * KB - 64, 8 * KB,  8 * KB - 64,  8900,       9000,   12 * KB,  16 * KB,
        24 * KB,  32 * KB,     64 * KB, 64 * KB - 64, 65000,      65507,  128 * KB, 256 * KB,
        512 * KB, MB,          2 * MB,  4 * MB + 2,   8 * MB + 5, 16 * MB};
    static size_t sizes[SIZES_MAX];
    static size_t filled;

    if (filled == 0) {
        for (size_t i = 0; i < 10; i++) {
            sizes[filled++] = i;
        }
        for (size_t i = 0; i < sizeof around / sizeof around[0]; i++) {
            sizes[filled++] = around[i] - 1;
            sizes[filled++] = around[i];
            sizes[filled++] = around[i] + 1;
        }
        for (size_t i = 1400; i <= 1500; i += verify.quick ? 9 : 1) {
            sizes[filled++] = i;
        }
        qsort(sizes, filled, sizeof sizes[0], by_size);
    }
    *count = count_within(sizes, filled, limit);
    return sizes;
}

const size_t *verify_few_sizes(size_t limit, size_t *count)
{
    static const size_t sizes[] = {0,    1,    7,     64,    256,   1000,   1472,   1500,
                                   4096, 8999, 16411, 65000, 65537, 200003, MB + 1, 4 * MB + 3};

    *count = count_within(sizes, sizeof sizes / sizeof sizes[0], limit);
    return sizes;
}

size_t verify_random_size(uint64_t stream, uint64_t index, size_t limit)
{
    uint64_t r = verify_random(stream, index);
    size_t count, size;

    limit = limit < verify.max_bytes ? limit : verify.max_bytes;
    if (r % 4 == 0) {
        const size_t *sizes = verify_sizes(limit, &count);

        return sizes[(r >> 8) % count];
    }
    /* Draw the number of bits first, so that all orders of magnitude are equally likely. */
    size = (size_t)((r >> 16) & ((2ull << (r >> 2) % 24) - 1));
    return size <= limit ? size : size % (limit + 1);
}

/* Rotates the alignment of data through 0..7, to test copies from and to odd addresses. */
static atomic_uint next_misalignment;

static struct verify_buffer allocate(size_t len, size_t misalignment)
{
    struct verify_buffer buffer;
    size_t total = len + 2 * VERIFY_GUARD_BYTES;

    buffer.allocation = malloc(total + 16);
    if (buffer.allocation == NULL) {
        verify_fail("no memory for a buffer of %zu bytes: lower --max-bytes", len);
    }
    buffer.len = len;
    buffer.data = buffer.allocation + misalignment + VERIFY_GUARD_BYTES;
    return buffer;
}

static void poison(struct verify_buffer *buffer)
{
    memset(buffer->data - VERIFY_GUARD_BYTES, VERIFY_POISON, buffer->len + 2 * VERIFY_GUARD_BYTES);
}

struct verify_buffer verify_buffer_new(size_t len)
{
    struct verify_buffer buffer = allocate(len, atomic_fetch_add(&next_misalignment, 3) % 8);

    poison(&buffer);
    return buffer;
}

struct verify_buffer verify_buffer_aligned(size_t len)
{
    struct verify_buffer buffer = allocate(len, 0);

    poison(&buffer);
    return buffer;
}

struct verify_buffer verify_buffer_filled(size_t len, struct verify_id id)
{
    struct verify_buffer buffer = allocate(len, atomic_fetch_add(&next_misalignment, 3) % 8);

    memset(buffer.data - VERIFY_GUARD_BYTES, VERIFY_POISON, VERIFY_GUARD_BYTES);
    memset(buffer.data + len, VERIFY_POISON, VERIFY_GUARD_BYTES);
    verify_fill(buffer.data, len, id, 0);
    return buffer;
}

/* Return the offset of the first byte that is not poison, or len. */
static size_t first_touched(const unsigned char *data, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (data[i] != VERIFY_POISON) {
            return i;
        }
    }
    return len;
}

static void check_guards(const struct verify_buffer *buffer, const char *kind)
{
    const unsigned char *before = buffer->data - VERIFY_GUARD_BYTES;
    const unsigned char *behind = buffer->data + buffer->len;
    size_t at;

    at = first_touched(before, VERIFY_GUARD_BYTES);
    if (at < VERIFY_GUARD_BYTES) {
        verify_fail("%s buffer of %zu bytes: guard byte %zu before it overwritten with 0x%02x",
                    kind, buffer->len, VERIFY_GUARD_BYTES - at, before[at]);
    }
    at = first_touched(behind, VERIFY_GUARD_BYTES);
    if (at < VERIFY_GUARD_BYTES) {
        verify_fail("%s buffer of %zu bytes: guard byte %zu behind it overwritten with 0x%02x",
                    kind, buffer->len, at + 1, behind[at]);
    }
}

/* Change the buffer before the check, for --plant, like a faulty transport. */
static void plant(struct verify_buffer *buffer, size_t at, size_t len)
{
    if (len > 0 && verify_planted(VERIFY_PLANT_BYTE)) {
        buffer->data[at + len / 2] ^= 0x10;
    }
    if (verify_planted(VERIFY_PLANT_GUARD)) {
        buffer->data[buffer->len] ^= 0xff;
    }
}

void verify_buffer_check_guards(const struct verify_buffer *buffer)
{
    check_guards(buffer, "receive");
}

void verify_buffer_check_untouched(struct verify_buffer *buffer, size_t at, size_t len)
{
    size_t bad = first_touched(buffer->data + at, len);

    if (bad < len) {
        verify_fail("receive buffer of %zu bytes: offset %zu must stay untouched, got 0x%02x",
                    buffer->len, at + bad, buffer->data[at + bad]);
    }
}

void verify_check(const void *data, size_t len, struct verify_id id)
{
    size_t bad = verify_compare(data, len, id);
    char text[200];

    verify_count_message(len);
    if (bad < len) {
        verify_diagnose(data, len, bad, id, text, sizeof text);
        verify_fail("%d -> %d tag %d sequence %llu, %zu bytes: offset %zu: expected 0x%02x got "
                    "0x%02x (%s)",
                    id.source, id.dest, id.tag, (unsigned long long)id.sequence, len, bad,
                    verify_byte(id, bad), ((const unsigned char *)data)[bad], text);
    }
}

void verify_buffer_check_part(struct verify_buffer *buffer, size_t at, size_t len,
                              struct verify_id id)
{
    plant(buffer, at, len);
    verify_check(buffer->data + at, len, id);
    check_guards(buffer, "receive");
}

void verify_buffer_check(struct verify_buffer *buffer, size_t len, struct verify_id id)
{
    verify_buffer_check_part(buffer, 0, len, id);
    verify_buffer_check_untouched(buffer, len, buffer->len - len);
}

void verify_buffer_expect(struct verify_buffer *buffer, const void *expected)
{
    const unsigned char *want = expected;

    plant(buffer, 0, buffer->len);
    if (buffer->len > 0 && memcmp(buffer->data, want, buffer->len) != 0) {
        size_t bad = 0;

        while (buffer->data[bad] == want[bad]) {
            bad++;
        }
        verify_fail("result of %zu bytes: offset %zu: expected 0x%02x got 0x%02x", buffer->len, bad,
                    want[bad], buffer->data[bad]);
    }
    check_guards(buffer, "receive");
    verify_count_message(buffer->len);
}

void verify_buffer_free(struct verify_buffer *buffer)
{
    free(buffer->allocation);
    buffer->allocation = NULL;
    buffer->data = NULL;
}

void verify_buffer_sent(struct verify_buffer *buffer, struct verify_id id)
{
    size_t bad = verify_compare(buffer->data, buffer->len, id);

    if (bad < buffer->len) {
        verify_fail("send buffer of %zu bytes to rank %d was changed at offset %zu: expected "
                    "0x%02x got 0x%02x",
                    buffer->len, id.dest, bad, verify_byte(id, bad), buffer->data[bad]);
    }
    check_guards(buffer, "send");
    verify_buffer_free(buffer);
}
