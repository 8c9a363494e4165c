/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Message contents: a counter-based generator, the comparison, and the search that tells where
 * wrong bytes came from.
 *
 * Word i of a message is mix(key + (i + 1) * GAMMA), the splitmix64 sequence started at a key made
 * of everything that names the message. mix() is a bijection: from eight bytes found in the wrong
 * place the word's index is computed back for each candidate key, so no search over offsets is
 * needed.
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

/* Multiplicative inverse of an odd number modulo 2^64, by Newton's iteration. */
static uint64_t inverse(uint64_t odd)
{
    uint64_t x = odd; /* right in the lowest 3 bits; each turn doubles them */

    for (int i = 0; i < 5; i++) {
        x *= 2 - odd * x;
    }
    return x;
}

static uint64_t unshift(uint64_t z, int shift)
{
    uint64_t x = z;

    for (int known = shift; known < 64; known += shift) {
        x = z ^ (x >> shift);
    }
    return x;
}

static uint64_t unmix(uint64_t z)
{
    z = unshift(z, 31) * inverse(MIX_2);
    z = unshift(z, 27) * inverse(MIX_1);
    return unshift(z, 30);
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

/* Looks eight found bytes up among the words of one message. Returns its offset or -1. */
static long long find_word(uint64_t unmixed, uint64_t key, uint64_t gamma_inverse)
{
    uint64_t index = (unmixed - key) * gamma_inverse - 1;

    return index < (1ull << 28) ? (long long)(index * 8) : -1;
}

/* Searches the messages of this and the last steps that ranks near in sequence could have sent. */
static bool find_origin(const unsigned char *found, size_t len, size_t bad, struct verify_id id,
                        char *text, size_t text_bytes)
{
    uint64_t gamma_inverse = inverse(GAMMA);
    uint64_t now = verify_step_number();
    uint64_t first = id.sequence > 64 ? id.sequence - 64 : 0;

    for (size_t at = bad; at < bad + 16 && at + 8 <= len; at++) {
        uint64_t got, unmixed;

        memcpy(&got, found + at, 8);
        unmixed = unmix(got);
        for (uint64_t back = 0; back < 4 && back <= now; back++) {
            for (int pair = 0; pair < verify.size * verify.size; pair++) {
                for (uint64_t sequence = first; sequence <= id.sequence + 64; sequence++) {
                    struct verify_id other = {pair / verify.size, pair % verify.size, id.tag,
                                              sequence};
                    uint64_t key = key_at_step(other, now - back);
                    long long offset = find_word(unmixed, key, gamma_inverse);
                    bool in_place = offset == (long long)at && back == 0 &&
                                    other.source == id.source && other.dest == id.dest &&
                                    sequence == id.sequence;

                    if (offset >= 0 && !in_place) {
                        snprintf(text, text_bytes,
                                 "at offset %zu lie bytes %lld.. of message source %d dest %d "
                                 "sequence %llu%s",
                                 at, offset, other.source, other.dest, (unsigned long long)sequence,
                                 back > 0 ? " of an earlier step" : "");
                        return true;
                    }
                }
            }
        }
    }
    return false;
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
    } else if (find_origin(found, len, bad, id, text, text_bytes)) {
        return;
    } else if (wrong == 1) {
        snprintf(text, text_bytes, "a single byte differs, by 0x%02x",
                 found[bad] ^ verify_byte(id, bad));
    } else {
        snprintf(text, text_bytes, "%zu bytes to offset %zu differ, of unknown origin", wrong,
                 last);
    }
}
