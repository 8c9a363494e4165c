/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Message contents: a counter-based generator, and the comparison.
 *
 * Word i of a message is mix(key + (i + 1) * GAMMA), the splitmix64 sequence from a key that is
 * derived from the identity of the message.
 */
#include "verify.h"

#include <stdio.h>
#include <string.h>

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
