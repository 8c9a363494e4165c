/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the limit on outstanding data of long GETs, on a simulated link.
 */
#include <stdbool.h>
#include <string.h>

#include "unit_test.h"

#include "pull/rawe_budget.h"

#define MS_NS 1000000ull
#define PORT_BYTES 100000u
#define LINK_MBPS 25000u
#define ROUND_NS 20000u
/** Limit on outstanding data while the link is busy. */
#define LEAST_BYTES 100000u
/** Bytes that the link carries per round. */
#define ROUND_BYTES (ROUND_NS / 1000 * LINK_MBPS / 8 * 10 / 11)
#define PIECE_BYTES 25000u

static struct rawe_budget budget, other; /* two processes' budgets */
static struct rawe_budget_host host;
static struct rawe_line line;
static uint64_t now_ns;

static void set_up(void)
{
    now_ns = MS_NS;
    rawe_line_init(&line, LINK_MBPS);
    rawe_budget_init(&budget, PORT_BYTES, &line);
    rawe_budget_wait(&budget, now_ns);
}

FIXTURE(set_up, NULL);

/** Receive at `percent` of the link's rate for some rounds. Return the limit's growth in bytes. */
static uint64_t come(unsigned percent, unsigned rounds)
{
    uint64_t beyond_bytes = 0;
    for (unsigned i = 0; i < 10 * rounds; i++) {
        now_ns += ROUND_NS / 10;
        rawe_budget_arrived(&budget, ROUND_BYTES / 10 * percent / 100, now_ns);
        while (rawe_budget_idles(&budget, PIECE_BYTES, now_ns)) {
            beyond_bytes += PIECE_BYTES;
        }
    }
    return beyond_bytes;
}

TEST(rawe_budget_init__there_is_never_a_limit)
{
    rawe_budget_init(&budget, 0, &line);
    rawe_budget_arrived(&budget, 1000000, now_ns);
    assert_int_equal(rawe_budget_limit_bytes(&budget), 0);
}

TEST(rawe_budget_idles__not_while_the_link_is_busy)
{
    assert_int_equal(come(100, 1000), 0);
    assert_int_equal(rawe_budget_limit_bytes(&budget), LEAST_BYTES);
}

TEST(rawe_budget_idles__not_before_an_answer_can_come)
{
    assert_false(rawe_budget_idles(&budget, PIECE_BYTES, now_ns + 10000));
    assert_true(rawe_budget_idles(&budget, PIECE_BYTES, now_ns + 30000));
}

TEST(rawe_budget_idles__as_much_is_asked_for_as_does_not_come)
{
    const unsigned rounds = 100;
    assert_in_range(come(60, rounds), 36 * rounds * ROUND_BYTES / 100,
                    40 * rounds * ROUND_BYTES / 100 + PIECE_BYTES);
    assert_true(rawe_budget_limit_bytes(&budget) > 10 * LEAST_BYTES);
}

TEST(rawe_budget_idles__slow_links_take_longer)
{
    static const struct {
        uint32_t link_mbps, limit_bytes, idle_us;
    } table[] = {
        {25000, 100000, 20}, {100000, 100000, 20}, {10000, 70000, 20},
        {1000, 52000, 110},  {1, 50002, 500},
    };
    for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        rawe_line_init(&line, table[i].link_mbps);
        rawe_budget_init(&budget, PORT_BYTES, &line);
        rawe_budget_wait(&budget, now_ns);
        assert_int_equal(rawe_budget_limit_bytes(&budget), table[i].limit_bytes);
        now_ns += table[i].idle_us * 1000;
        assert_false(rawe_budget_idles(&budget, PIECE_BYTES, now_ns - 1));
        assert_true(rawe_budget_idles(&budget, PIECE_BYTES, now_ns));
    }
}

TEST(rawe_budget_idles__time_away_is_not_made_up_for)
{
    now_ns += 100 * MS_NS;
    assert_true(rawe_budget_idles(&budget, PIECE_BYTES, now_ns));
    assert_false(rawe_budget_idles(&budget, PIECE_BYTES, now_ns));
}

TEST(rawe_budget_arrived__makes_the_limit_smaller_again)
{
    (void)come(50, 100);
    (void)come(100, 2000);
    assert_int_equal(rawe_budget_limit_bytes(&budget), LEAST_BYTES);
}

TEST(rawe_budget_ran_dry__grows)
{
    for (unsigned i = 0; i < 4; i++) {
        rawe_budget_ran_dry(&budget);
    }
    assert_in_range(rawe_budget_limit_bytes(&budget), 2 * LEAST_BYTES, 3 * LEAST_BYTES);
    for (unsigned i = 0; i < 1000; i++) {
        rawe_budget_ran_dry(&budget);
    }
    assert_in_range(rawe_budget_limit_bytes(&budget), 1, 1u << 25);
}

/** Report to the line, in each window, that `frames` frames arrived and frames / 16 were lost. */
static void lose(unsigned windows, unsigned frames)
{
    for (unsigned i = 0; i < windows; i++) {
        now_ns += 2 * MS_NS;
        rawe_line_arrived(&line, (uint64_t)frames * 1500, frames, frames / 16, now_ns);
    }
}

TEST(rawe_budget_arrived__on_a_slower_line_the_limit_is_that_of_its_rate)
{
    (void)come(0, 100);
    rawe_budget_arrived(&budget, 1500, now_ns);
    const uint64_t grown_bytes = rawe_budget_limit_bytes(&budget);
    assert_true(grown_bytes > 10 * PORT_BYTES);
    lose(8, 64);
    assert_true(rawe_line_mbps(&line) < LINK_MBPS / 10);
    rawe_budget_arrived(&budget, 1500, now_ns);
    assert_in_range(rawe_budget_limit_bytes(&budget), PORT_BYTES / 2, PORT_BYTES);
    assert_true(rawe_budget_patience_ns(&budget) <= 10 * MS_NS);
}

/** A limit within the port's buffer overfills no port, so the losses must occur elsewhere. */
TEST(rawe_budget_arrived__no_limit_beyond_the_port_makes_the_line_seem_slow)
{
    (void)come(100, 100);
    lose(8, 64);
    assert_int_equal(rawe_line_mbps(&line), LINK_MBPS);
}

/** Let both processes join one host's shared budget. */
static void join_both(void)
{
    memset(&host, 0, sizeof(host));
    rawe_budget_init(&budget, PORT_BYTES, &line);
    rawe_budget_init(&other, PORT_BYTES, &line);
    rawe_budget_join(&budget, &host, 0);
    rawe_budget_join(&other, &host, RAWE_BUDGET_SHARES - 1);
    rawe_budget_wait(&budget, now_ns);
}

TEST(rawe_budget_join__both_know_when_the_link_is_idle)
{
    join_both();
    now_ns += 2 * ROUND_NS;
    assert_true(rawe_budget_idles(&other, PIECE_BYTES, now_ns));
    assert_false(rawe_budget_idles(&budget, PIECE_BYTES, now_ns));
    /* A process that joins later leaves the limit unchanged. */
    rawe_budget_init(&other, PORT_BYTES, &line);
    rawe_budget_join(&other, &host, 1);
    assert_int_equal(rawe_budget_limit_bytes(&budget), LEAST_BYTES + PIECE_BYTES);
}

TEST(rawe_budget_others__what_may_come)
{
    join_both();
    rawe_budget_asked(&budget, 20000, now_ns); /* not counted: its own request */
    rawe_budget_asked(&other, 30000, now_ns);
    rawe_budget_asked(&other, 10000, now_ns);
    rawe_budget_arrived(&other, 1000, now_ns);
    rawe_budget_take_off(&other, 1000);
    struct rawe_budget_others others = rawe_budget_others(&budget, now_ns);
    assert_int_equal(others.bytes, 39000);
    assert_int_equal(others.count, 1);
    rawe_budget_set_asked(&other, 7000);
    assert_int_equal(rawe_budget_others(&budget, now_ns).bytes, 7000);
    rawe_budget_take_off(&other, 7000);
    assert_int_equal(rawe_budget_others(&budget, now_ns).count, 0);
}

TEST(rawe_budget_others__a_process_that_dies_is_forgotten)
{
    join_both();
    rawe_budget_asked(&other, 30000, now_ns);
    now_ns += rawe_budget_patience_ns(&budget) - 1;
    assert_int_equal(rawe_budget_others(&budget, now_ns).bytes, 30000);
    assert_int_equal(rawe_budget_others(&budget, now_ns + 1).bytes, 0);
}

TEST(rawe_budget_await_turn__the_one_that_had_its_turn_before_is_first)
{
    join_both();
    rawe_budget_asked(&other, 1000, now_ns - 1);
    rawe_budget_take_off(&other, 1000);
    rawe_budget_asked(&budget, 1000, now_ns);
    rawe_budget_await_turn(&other, now_ns);
    struct rawe_budget_others others = rawe_budget_others(&budget, now_ns);
    assert_int_equal(others.count, 1);
    assert_true(others.first);
    rawe_budget_take_off(&budget, 1000);
    rawe_budget_await_turn(&budget, now_ns);
    others = rawe_budget_others(&other, now_ns);
    assert_int_equal(others.count, 1);
    assert_false(others.first);
    /* Others do not wait for a process that has stopped renewing its claim. */
    assert_int_equal(rawe_budget_others(&budget, now_ns + 2 * ROUND_NS).count, 0);
}

TEST(rawe_budget_others__none_where_nothing_is_shared)
{
    rawe_budget_asked(&budget, 30000, now_ns);
    assert_int_equal(rawe_budget_others(&budget, now_ns).count, 0);
}

/** Another process may write anything to the shared memory. */
TEST(rawe_budget_others__what_is_shared_may_be_wrong)
{
    static struct {
        struct rawe_budget_host host;
        struct rawe_budget_share behind[4]; /* beyond the shares: must not be read */
    } shared;

    memset(&shared, 0, sizeof(shared));
    rawe_budget_init(&budget, PORT_BYTES, &line);
    rawe_budget_join(&budget, &shared.host, 0);
    rawe_budget_wait(&budget, now_ns);
    const uint64_t patience_ns = rawe_budget_patience_ns(&budget);
    for (unsigned i = 0; i < 4; i++) {
        shared.behind[i].asked_bytes = 1000;
        shared.behind[i].progress_ns = now_ns;
    }
    shared.host.used = RAWE_BUDGET_SHARES + 4;
    assert_int_equal(rawe_budget_others(&budget, now_ns).count, 0);
    shared.host.limit.link_mbps = UINT64_MAX;
    assert_int_equal(rawe_budget_patience_ns(&budget), patience_ns);
    rawe_budget_arrived(&budget, 10, now_ns);
    assert_int_equal(rawe_budget_limit_bytes(&budget), LEAST_BYTES);
}
