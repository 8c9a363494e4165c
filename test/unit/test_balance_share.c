/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of rawe_balance_share: shares of data by speed and backlog.
 */
#include <stdlib.h>
#include <string.h>

#include "routes/rawe_balance.h"
#include "unit_test.h"

#define GRAIN 1000u

TEST(rawe_balance_share__by_speed_and_backlog)
{
    static const struct {
        unsigned count;
        uint64_t total_bytes;
        struct rawe_balance_route routes[3];
        uint64_t expected[3];
    } cases[] = {
        {1, 12345, {{.backlog_bytes = 5000000, .rate = 7}}, {12345}},
        {2, 100000, {{.rate = 1000}, {.rate = 1000}}, {50000, 50000}},
        {2, 100000, {{.rate = 100}, {.rate = 400}}, {20000, 80000}},
        {2, 100000, {{.rate = 10, .backlog_bytes = 40000}, {.rate = 10}}, {30000, 70000}},
        /* Nothing for a route that is behind. */
        {3,
         60000,
         {{.rate = 10, .backlog_bytes = 500000},
          {.rate = 10},
          {.rate = 20, .backlog_bytes = 30000}},
         {0, 30000, 30000}},
        {2, GRAIN - 1, {{.rate = 10}, {.rate = 40}}, {0, GRAIN - 1}}, /* is not divided */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rawe_balance_route routes[3];
        memcpy(routes, cases[i].routes, sizeof(routes));
        rawe_balance_share(routes, cases[i].count, cases[i].total_bytes, GRAIN);
        for (unsigned j = 0; j < cases[i].count; j++) {
            assert_int_equal(routes[j].share_bytes, cases[i].expected[j]);
        }
    }
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
