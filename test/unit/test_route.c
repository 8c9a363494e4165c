/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of rawe_route: the ring of routes to a process.
 */
#include "conn/rawe_route.h"
#include "unit_test.h"

#define ROUTES 3u

static struct rawe_route routes[ROUTES];
static char engine_a, engine_b; /* only their addresses count */

static struct rawe_engine *engine(unsigned which)
{
    return (struct rawe_engine *)(void *)(which == 0 ? &engine_a : &engine_b);
}

/** 0 and 1 leave through engine 0, for different interfaces of the peer, 2 through engine 1. */
static void set_up(void)
{
    for (unsigned i = 0; i < ROUTES; i++) {
        routes[i] = (struct rawe_route){
            .engine = engine(i == 2),
            .mac = {2, 0, 0, 0, 0, (uint8_t)(i % 2)},
        };
        rawe_route_init(&routes[i]);
    }
}

static void join_all(void)
{
    rawe_route_join(&routes[1], &routes[0]);
    rawe_route_join(&routes[2], &routes[0]);
}

FIXTURE(set_up, NULL);

TEST(rawe_route_init__is_a_ring_of_its_own)
{
    assert_ptr_equal(rawe_route_next(&routes[0]), &routes[0]);
    assert_ptr_equal(rawe_route_best(&routes[0]), &routes[0]);
}

TEST(rawe_route_join__keeps_the_order)
{
    join_all();
    for (unsigned i = 0; i < ROUTES; i++) {
        assert_ptr_equal(rawe_route_next(&routes[i]), &routes[(i + 1) % ROUTES]);
    }
}

TEST(rawe_route_remove__leaves_the_others_together)
{
    join_all();
    rawe_route_remove(&routes[0]);
    assert_ptr_equal(rawe_route_next(&routes[0]), &routes[0]);
    assert_ptr_equal(rawe_route_next(&routes[1]), &routes[2]);
    assert_ptr_equal(rawe_route_next(&routes[2]), &routes[1]);
    rawe_route_remove(&routes[0]);
    assert_ptr_equal(rawe_route_next(&routes[0]), &routes[0]);
}

TEST(rawe_route_from__needs_address_and_link)
{
    static const uint8_t mac[RAWE_MAC_BYTES] = {2, 0, 0, 0, 0, 1};
    join_all();
    assert_ptr_equal(rawe_route_from(&routes[2], engine(0), routes[0].mac), &routes[0]);
    assert_ptr_equal(rawe_route_from(&routes[2], engine(0), mac), &routes[1]);
    assert_ptr_equal(rawe_route_from(&routes[0], engine(1), routes[2].mac), &routes[2]);
    assert_null(rawe_route_from(&routes[0], engine(1), mac));
}

TEST(rawe_route_best__is_home_or_the_next_that_is_up)
{
    join_all();
    assert_ptr_equal(rawe_route_best(&routes[1]), &routes[1]);
    routes[1].down = true;
    assert_ptr_equal(rawe_route_best(&routes[1]), &routes[2]);
    routes[2].down = true;
    assert_ptr_equal(rawe_route_best(&routes[1]), &routes[0]);
    routes[0].down = true;
    assert_null(rawe_route_best(&routes[1]));
}
