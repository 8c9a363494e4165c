/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the limit on bytes in the qdisc, here a simulated one that drains at a fixed rate. For
 * its effect in the kernel, which needs a socket, see test/lab/link/test_link.c.
 */
#include "linux/packet/rawe_packet.h"
#include "unit_test.h"

#include "base/rawe_wire.h"

#define US 1000u
#define MS (1000u * US)
#define LONGEST_BYTES (2u * RAWE_BATCH_BYTES_MAX)
#define LEAST_BYTES 8192u

/** 1 Gb/s in bytes per microsecond. */
#define GBIT 125u

static struct rawe_txqueue queue;
static uint64_t now_ns;

/** Bytes in the qdisc. */
static uint64_t queued_bytes;

/** Let the qdisc drain for `ns`. */
static void drain(uint32_t bytes_per_us, uint64_t ns)
{
    const uint64_t bytes = bytes_per_us * ns / US;
    now_ns += ns;
    queued_bytes -= queued_bytes < bytes ? queued_bytes : bytes;
}

/** Offer batches every microsecond until `until_ns`, to a qdisc that drains at `bytes_per_us`. */
static void offer(uint32_t bytes_per_us, uint64_t until_ns)
{
    for (; now_ns < until_ns; drain(bytes_per_us, US)) {
        if (queue.refused) {
            (void)rawe_txqueue_poll(&queue, (uint32_t)queued_bytes, now_ns);
        }
        while (queued_bytes < queue.limit_bytes) {
            queued_bytes += rawe_txqueue_batch_bytes(&queue);
            (void)rawe_txqueue_taken(&queue);
        }
        if (!queue.refused) {
            rawe_txqueue_full(&queue, (uint32_t)queued_bytes, now_ns);
        }
    }
}

static void set_up(void)
{
    rawe_txqueue_init(&queue);
    now_ns = 1000 * MS;
    queued_bytes = 0;
}

FIXTURE(set_up, NULL);

TEST(init__two_of_the_longest_batches)
{
    assert_int_equal(queue.limit_bytes, LONGEST_BYTES);
    assert_int_equal(rawe_txqueue_batch_bytes(&queue), RAWE_BATCH_BYTES_MAX);
}

TEST(poll__fits_the_rate)
{
    /* The qdisc's rate, the expected range of the limit, and the longest batch allowed. */
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

/** Nothing is measured if data was accepted between two polls, or if the queue is not full. */
TEST(poll__measures_between_two_polls_with_nothing_taken)
{
    rawe_txqueue_full(&queue, 200000, now_ns);
    assert_false(rawe_txqueue_poll(&queue, 200000, now_ns + 400 * US));
    assert_false(rawe_txqueue_poll(&queue, 120000, now_ns + 500 * US));
    assert_false(rawe_txqueue_taken(&queue));
    rawe_txqueue_full(&queue, 240000, now_ns + 9000 * US);
    assert_true(rawe_txqueue_poll(&queue, 170000, now_ns + 9250 * US));
    assert_int_equal(queue.base_bytes, 60000); /* 150 kB in 0.75 ms */
    assert_int_equal(queue.limit_bytes, 60000);
}

TEST(poll__falls_slowly_from_the_second_measurement_on)
{
    rawe_txqueue_full(&queue, 300000, now_ns);
    assert_true(rawe_txqueue_poll(&queue, 100000, now_ns + 600 * US));
    assert_int_equal(queue.limit_bytes, 100000);
    rawe_txqueue_full(&queue, 110000, now_ns + 1000 * US);
    assert_true(rawe_txqueue_poll(&queue, 10000, now_ns + 4000 * US));
    assert_int_equal(queue.base_bytes, 10000);
    assert_int_equal(queue.limit_bytes, 100000 - 100000 / 64);
    rawe_txqueue_full(&queue, 900000, now_ns + 5000 * US);
    assert_true(rawe_txqueue_poll(&queue, 300000, now_ns + 5300 * US));
    assert_int_equal(queue.limit_bytes, 600000);
}

TEST(poll__without_a_rate_an_empty_queue_says_nothing)
{
    rawe_txqueue_full(&queue, 200000, now_ns);
    assert_false(rawe_txqueue_poll(&queue, 0, now_ns + 9 * MS));
    assert_int_equal(queue.limit_bytes, LONGEST_BYTES);
}

/** The sender runs for 3 ms, then pauses for 3 ms; the queue should last through the pause. */
TEST(poll__grows_where_it_empties_before_the_caller_is_back)
{
    offer(GBIT, now_ns + 100 * MS);
    assert_in_range(queue.limit_bytes, 30000, 50000);
    for (unsigned i = 0; i < 20; i++) {
        drain(GBIT, 3 * MS);
        offer(GBIT, now_ns + 3 * MS);
    }
    assert_in_range(queue.limit_bytes, 300000, 400000);
    offer(GBIT, now_ns + 200 * MS);
    assert_in_range(queue.limit_bytes, 30000, 50000);
}

/** A single pause of a second does not justify filling the qdisc. */
TEST(poll__lasts_for_some_milliseconds_at_most)
{
    offer(GBIT, now_ns + 100 * MS);
    drain(GBIT, 1000 * MS);
    assert_true(rawe_txqueue_poll(&queue, 0, now_ns));
    assert_in_range(queue.limit_bytes, 1000000, 1100000);
}

TEST(taken__a_queue_that_is_never_full_takes_longer_batches_again)
{
    offer(GBIT, now_ns + 100 * MS);
    assert_true(queue.limit_bytes < LONGEST_BYTES);
    for (unsigned i = 0; i < 1000; i++) {
        (void)rawe_txqueue_taken(&queue);
    }
    assert_in_range(queue.limit_bytes, LONGEST_BYTES, 2 * LONGEST_BYTES);
    assert_int_equal(rawe_txqueue_batch_bytes(&queue), RAWE_BATCH_BYTES_MAX);
}

TEST(dropped__for_longer_than_200_ms)
{
    for (unsigned round = 0; round < 2; round++) {
        assert_false(rawe_txqueue_dropped(&queue, now_ns));
        assert_false(rawe_txqueue_dropped(&queue, now_ns + 200 * MS));
        assert_true(rawe_txqueue_dropped(&queue, now_ns + 200 * MS + 1));
        now_ns += 500 * MS;
    }
    assert_false(rawe_txqueue_dropped(&queue, now_ns));
    (void)rawe_txqueue_taken(&queue);
    assert_false(rawe_txqueue_dropped(&queue, now_ns + 300 * MS)); /* no drop since then */
}
