/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of rawe_balance_share: shares of data by speed and backlog.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "routes/rawe_balance.h"
#include "unit_test.h"

#define GRAIN 1000u

static void assert_shares(struct rawe_balance_route *routes, unsigned count, uint64_t total_bytes,
                          const uint64_t *expected)
{
    rawe_balance_share(routes, count, total_bytes, GRAIN);
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(routes[i].share_bytes, expected[i]);
    }
}

TEST(rawe_balance_share__one_route_gets_all)
{
    struct rawe_balance_route route = {.backlog_bytes = 5000000, .rate = 7};
    assert_shares(&route, 1, 12345, (const uint64_t[]){12345});
}

TEST(rawe_balance_share__alike_in_halves)
{
    struct rawe_balance_route routes[] = {{.rate = 1000}, {.rate = 1000}};
    assert_shares(routes, 2, 100000, (const uint64_t[]){50000, 50000});
}

TEST(rawe_balance_share__by_speed)
{
    struct rawe_balance_route routes[] = {{.rate = 100}, {.rate = 400}};
    assert_shares(routes, 2, 100000, (const uint64_t[]){20000, 80000});
}

TEST(rawe_balance_share__by_backlog)
{
    struct rawe_balance_route routes[] = {{.rate = 10, .backlog_bytes = 40000}, {.rate = 10}};
    assert_shares(routes, 2, 100000, (const uint64_t[]){30000, 70000});
}

TEST(rawe_balance_share__nothing_for_a_route_that_is_behind)
{
    struct rawe_balance_route routes[] = {
        {.rate = 10, .backlog_bytes = 500000}, {.rate = 10}, {.rate = 20, .backlog_bytes = 30000}};
    assert_shares(routes, 3, 60000, (const uint64_t[]){0, 30000, 30000});
}

TEST(rawe_balance_share__less_than_a_grain_goes_to_one)
{
    struct rawe_balance_route routes[] = {{.rate = 10}, {.rate = 40}};
    assert_shares(routes, 2, 999, (const uint64_t[]){0, 999});
}

/** Nothing is lost, all but one are multiples, and no route is done much later than the others. */
TEST(rawe_balance_share__adds_up_at_random)
{
    srand(1);
    for (unsigned i = 0; i < 20000; i++) {
        struct rawe_balance_route routes[4];
        unsigned count = 1 + (unsigned)rand() % 4;
        uint64_t total_bytes = 1 + (uint64_t)rand() % 10000000;
        uint64_t sum_bytes = 0;
        unsigned odd = 0;
        double earliest = 1e30, latest = 0;
        for (unsigned j = 0; j < count; j++) {
            routes[j] = (struct rawe_balance_route){
                .backlog_bytes = (uint64_t)(rand() % 3 == 0 ? 0 : rand() % 5000000),
                .rate = 1 + (uint64_t)rand() % 10000,
            };
        }
        rawe_balance_share(routes, count, total_bytes, GRAIN);
        for (unsigned j = 0; j < count; j++) {
            double rate = (double)routes[j].rate;
            sum_bytes += routes[j].share_bytes;
            odd += routes[j].share_bytes % GRAIN != 0;
            if (routes[j].share_bytes != 0) {
                double done = (double)(routes[j].backlog_bytes + routes[j].share_bytes) / rate;
                latest = done > latest ? done : latest;
            }
            /* What it could have had besides: two grains, for all were rounded down. */
            double could =
                (double)(routes[j].backlog_bytes + routes[j].share_bytes + 5 * GRAIN) / rate;
            earliest = could < earliest ? could : earliest;
        }
        assert_int_equal(sum_bytes, total_bytes);
        assert_true(odd <= 1);
        assert_true(latest <= earliest || count == 1 || latest - earliest < 1e-9 * latest);
    }
}
