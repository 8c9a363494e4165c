/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Message sizes, and numbers of repetitions.
 */
#include "verify.h"

#include <stdlib.h>

#define KB ((size_t)1024)
#define MB ((size_t)1024 * 1024)

#define SIZES_MAX 256

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
    /* Sizes that are used with both neighbors: powers of two, MTUs, limits of ob1 and tcp. */
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
    /* Draw the number of bits first, so that all orders of magnitude are equally frequent. */
    size = (size_t)((r >> 16) & ((2ull << (r >> 2) % 24) - 1));
    return size <= limit ? size : size % (limit + 1);
}
