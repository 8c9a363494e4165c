/* SPDX-License-Identifier: BSD-3-Clause */
/* Contents of checked messages: made from sender, receiver and round, and compared again. */
#include "imb.h"

#include <stdint.h>

/* A start value in which any change of an argument changes all bits. */
static uint64_t imb_pattern_seed(int from, int to, int round)
{
    uint64_t x = ((uint64_t)(uint32_t)from << 40) ^ ((uint64_t)(uint32_t)(to + 1) << 20) ^
                 (uint64_t)(uint32_t)round;
    x = (x ^ (x >> 31)) * UINT64_C(0x9E3779B97F4A7C15);
    return x ^ (x >> 29);
}

/* The byte at an offset; depends on all of the offset so that a shifted block is noticed. */
static inline unsigned char imb_pattern_byte(uint64_t seed, size_t offset)
{
    uint64_t x = (seed + offset) * UINT64_C(0xD6E8FEB86659FD93);
    return (unsigned char)(x >> 56);
}

void imb_pattern_fill(unsigned char *buffer, size_t bytes, int from, int to, int round)
{
    uint64_t seed = imb_pattern_seed(from, to, round);
    for (size_t i = 0; i < bytes; i++) {
        buffer[i] = imb_pattern_byte(seed, i);
    }
}

size_t imb_pattern_compare(const unsigned char *buffer, size_t bytes, int from, int to, int round)
{
    uint64_t seed = imb_pattern_seed(from, to, round);
    size_t wrong = 0;
    for (size_t i = 0; i < bytes; i++) {
        wrong += buffer[i] != imb_pattern_byte(seed, i);
    }
    return wrong;
}

/* At most 97 · (number of ranks)² / 2, exact in a float's 24 bits up to 500 ranks. */
static inline float imb_number(size_t index, int round)
{
    return (float)((index + (size_t)round * 13) % 97);
}

void imb_numbers_fill(float *buffer, size_t count, int rank, int round)
{
    for (size_t i = 0; i < count; i++) {
        buffer[i] = imb_number(i, round) * (float)(rank + 1);
    }
}

size_t imb_numbers_compare(const float *buffer, size_t first, size_t count, int size, int round)
{
    float ranks = (float)((long)size * (size + 1) / 2);
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++) {
        if (buffer[i] != imb_number(first + i, round) * ranks) {
            wrong += sizeof(float);
        }
    }
    return wrong;
}
