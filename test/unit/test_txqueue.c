/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the limit on what lies in the qdisc, against a made-up one that drains at a fixed rate. That
 * the kernel keeps to the limit needs a socket: test/lab/link/test_link.c.
 */
#include <stdbool.h>
#include <stdint.h>

#include "linux/packet/rawe_txqueue.h"
#include "unit_test.h"

#include "base/rawe_wire.h"

#define US 1000u
#define MS (1000u * US)
#define LONGEST_BYTES (2u * RAWE_BATCH_BYTES_MAX)
#define LEAST_BYTES 8192u

/** Gigabits a second to bytes a microsecond. */
#define GBIT 125u

static struct rawe_txqueue queue;
static uint64_t now_ns;

/** Offer batches for a while, as soon as there is room, to a qdisc that drains as many bytes a us. */
static void offer(uint32_t bytes_per_us, uint64_t until_ns)
{
    uint64_t queued_bytes = 0;

    for (; now_ns < until_ns; now_ns += US) {
        queued_bytes -= queued_bytes < bytes_per_us ? queued_bytes : bytes_per_us;
        while (queued_bytes < queue.limit_bytes) {
            const uint32_t bytes = rawe_txqueue_batch_bytes(&queue);
            (void)rawe_txqueue_taken(&queue, bytes, now_ns);
            queued_bytes += bytes;
        }
        (void)rawe_txqueue_full(&queue, now_ns);
    }
}

static void set_up(void)
{
    rawe_txqueue_init(&queue);
    now_ns = 1000 * MS;
}

FIXTURE(set_up, NULL);

TEST(init__two_of_the_longest_batches)
{
    assert_int_equal(queue.limit_bytes, LONGEST_BYTES);
    assert_int_equal(rawe_txqueue_batch_bytes(&queue), RAWE_BATCH_BYTES_MAX);
}

TEST(full__fits_the_rate)
{
    /* The rate, bytes in the queue, and the longest batch. */
    static const struct {
        unsigned rate_mbit;
        uint32_t least_bytes, most_bytes, batch_bytes;
    } table[] = {
        {100, LEAST_BYTES, LEAST_BYTES, LEAST_BYTES / 2},
        {1000, 30000, 50000, 25000},
        {10000, 300000, 500000, RAWE_BATCH_BYTES_MAX},
    };

    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        set_up();
        offer(table[i].rate_mbit * GBIT / 1000, now_ns + 3000 * MS);
        assert_in_range(queue.limit_bytes, table[i].least_bytes, table[i].most_bytes);
        assert_in_range(rawe_txqueue_batch_bytes(&queue), 1, table[i].batch_bytes);
    }
}

/** It is looked at twice in 10 ms, and may have been empty in between. */
TEST(full__seen_too_rarely_tells_only_of_a_higher_rate)
{
    static const struct {
        uint32_t bytes;
        bool higher;
    } table[] = {{10 * RAWE_BATCH_BYTES_MAX, false}, {200 * RAWE_BATCH_BYTES_MAX, true}};

    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        set_up();
        (void)rawe_txqueue_taken(&queue, 1000, now_ns);
        assert_false(rawe_txqueue_full(&queue, now_ns));
        (void)rawe_txqueue_taken(&queue, table[i].bytes, now_ns);
        assert_int_equal(rawe_txqueue_full(&queue, now_ns + 10 * MS), table[i].higher);
        assert_int_equal(queue.limit_bytes > LONGEST_BYTES, table[i].higher);
    }
}

TEST(full__falls_slowly)
{
    (void)rawe_txqueue_taken(&queue, 1000, now_ns);
    assert_false(rawe_txqueue_full(&queue, now_ns));
    (void)rawe_txqueue_taken(&queue, 1000, now_ns);
    assert_true(rawe_txqueue_full(&queue, now_ns + 500 * US));
    assert_int_equal(queue.limit_bytes, LONGEST_BYTES - LONGEST_BYTES / 64);
}

/** The process that sends runs every other 3 ms: the queue is to last for the time between. */
TEST(taken__grows_where_it_empties_before_the_caller_is_back)
{
    offer(GBIT, now_ns + 100 * MS);
    assert_in_range(queue.limit_bytes, 30000, 50000);
    for (unsigned i = 0; i < 20; i++) {
        now_ns += 3 * MS;
        (void)rawe_txqueue_taken(&queue, 1000, now_ns);
        offer(GBIT, now_ns + 3 * MS);
    }
    assert_in_range(queue.limit_bytes, 250000, 800000);
    offer(GBIT, now_ns + 200 * MS);
    assert_in_range(queue.limit_bytes, 30000, 50000);
}

TEST(taken__a_queue_that_is_never_full_takes_longer_batches_again)
{
    offer(GBIT, now_ns + 100 * MS);
    assert_true(queue.limit_bytes < LONGEST_BYTES);
    for (unsigned i = 0; i < 1000; i++) {
        (void)rawe_txqueue_taken(&queue, 1000, now_ns);
    }
    assert_in_range(queue.limit_bytes, LONGEST_BYTES, 2 * LONGEST_BYTES);
    assert_int_equal(rawe_txqueue_batch_bytes(&queue), RAWE_BATCH_BYTES_MAX);
}
