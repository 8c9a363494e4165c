/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Buffers between guard zones, and the comparison of what was received into them.
 */
#include "verify.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

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

/* Change the buffer for --plant, as a faulty transport might, before it is checked. */
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
