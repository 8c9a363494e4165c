/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of rawe_responder_reach over a veth pair and over lo, in a network namespace of their own.
 */
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "link_fixture.h"

#include "../../../opal/mca/btl/rawe/link/rawe_responder.h"

#define SECOND_NS 1000000000ull

static struct fixture net;

static struct rawe_reach to(const struct fixture_end *end, uint32_t mtu_bytes)
{
    struct rawe_reach reach = {.port = end->port, .key = end->key, .mtu_bytes = mtu_bytes};

    memcpy(reach.mac, end->mac, sizeof reach.mac);
    return reach;
}

/** Drop what comes in at rb0 and matches; `rule` is an nft expression. */
static void drop_at_b(const char *rule)
{
    fixture_run("nft add table netdev t && nft 'add chain netdev t c { type filter hook ingress "
                "device rb0 priority 0; }' && nft 'add rule netdev t c %s drop'",
                rule);
}

static void drop_nothing(void)
{
    fixture_run("nft delete table netdev t");
}

static void reach__full_size_passes(void **state)
{
    static const uint32_t mtus[] = {1500, 9000, 65000};

    (void)state;
    for (size_t i = 0; i < sizeof mtus / sizeof mtus[0]; i++) {
        fixture_renew(&net, mtus[i]);
        struct rawe_responder *a = fixture_start(&net, &net.a);
        struct rawe_responder *b = fixture_start(&net, &net.b);
        struct rawe_reach reach = to(&net.b, mtus[i]);

        rawe_responder_reach(a, &reach, 1, 10 * SECOND_NS);
        assert_true(reach.small_passed);
        assert_int_equal(reach.mtu_passed_bytes, mtus[i]);
        /* Both may ask at the same responder. */
        reach = to(&net.a, mtus[i]);
        rawe_responder_reach(b, &reach, 1, 10 * SECOND_NS);
        assert_int_equal(reach.mtu_passed_bytes, mtus[i]);
        rawe_responder_stop(b);
        rawe_responder_stop(a);
    }
    fixture_renew(&net, 1500);
}

static void reach__over_loopback(void **state)
{
    const struct fixture veth = net;

    (void)state;
    fixture_use_loopback(&net);
    struct rawe_responder *a = fixture_start(&net, &net.a);
    struct rawe_responder *b = fixture_start(&net, &net.b);
    struct rawe_reach reach = to(&net.b, 65536);

    rawe_responder_reach(a, &reach, 1, 10 * SECOND_NS);
    assert_int_equal(reach.mtu_passed_bytes, 65536);
    rawe_responder_stop(b);
    rawe_responder_stop(a);
    net = veth;
}

/** A switch that swallows large frames silently. */
static void reach__finds_the_largest_size_that_passes(void **state)
{
    static const struct {
        const char *rule;
        uint32_t passes;
    } cases[] = {
        {"meta length > 8999", 8996}, {"meta length > 4050", 4000}, {"meta length > 1500", 1500},
        {"meta length > 1499", 1496}, {"meta length > 600", 576},
    };

    (void)state;
    fixture_renew(&net, 9000);
    struct rawe_responder *a = fixture_start(&net, &net.a);
    struct rawe_responder *b = fixture_start(&net, &net.b);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rawe_reach reach = to(&net.b, 9000);

        drop_at_b(cases[i].rule);
        rawe_responder_reach(a, &reach, 1, 30 * SECOND_NS);
        drop_nothing();
        assert_true(reach.small_passed);
        assert_int_equal(reach.mtu_passed_bytes, cases[i].passes);
    }
    rawe_responder_stop(b);
    rawe_responder_stop(a);
    fixture_renew(&net, 1500);
}

static void reach__small_only(void **state)
{
    struct rawe_responder *a = fixture_start(&net, &net.a);
    struct rawe_responder *b = fixture_start(&net, &net.b);
    struct rawe_reach reach = to(&net.b, 1500);

    (void)state;
    drop_at_b("meta length > 100");
    rawe_responder_reach(a, &reach, 1, 30 * SECOND_NS);
    drop_nothing();
    assert_true(reach.small_passed);
    assert_int_equal(reach.mtu_passed_bytes, 0);
    rawe_responder_stop(b);
    rawe_responder_stop(a);
}

static void reach__nobody_there(void **state)
{
    struct rawe_responder *a = fixture_start(&net, &net.a);
    struct rawe_responder *b = fixture_start(&net, &net.b);
    struct rawe_reach peers[] = {to(&net.b, 1500), to(&net.b, 1500), to(&net.b, 1500)};

    (void)state;
    peers[0].mac[5] ^= 1;
    peers[1].key ^= 1;
    peers[2].port ^= 1;
    rawe_responder_reach(a, peers, 3, SECOND_NS / 5);
    for (unsigned i = 0; i < 3; i++) {
        assert_false(peers[i].small_passed);
        assert_int_equal(peers[i].mtu_passed_bytes, 0);
    }
    rawe_responder_reach(a, peers, 0, SECOND_NS);
    rawe_responder_stop(b);
    rawe_responder_stop(a);
}

/** A way that leads nowhere. */
static struct rawe_reach nowhere(void)
{
    struct rawe_reach reach = to(&net.b, 1500);

    reach.mac[5] ^= 1;
    return reach;
}

/** Probe; false when the timeout was waited out. */
static bool known_soon(struct rawe_responder *responder, struct rawe_reach *ways, unsigned count)
{
    const time_t patience_s = 60;
    struct timespec before, after;

    clock_gettime(CLOCK_MONOTONIC, &before);
    rawe_responder_reach(responder, ways, count, (uint64_t)patience_s * SECOND_NS);
    clock_gettime(CLOCK_MONOTONIC, &after);
    return after.tv_sec - before.tv_sec < patience_s;
}

static void reach__one_way_to_a_process_is_enough(void **state)
{
    struct rawe_responder *a = fixture_start(&net, &net.a);
    struct rawe_responder *b = fixture_start(&net, &net.b);

    (void)state;
    /* The better one passes. */
    struct rawe_reach first[] = {to(&net.b, 1500), nowhere(), to(&net.b, 1500), nowhere()};
    first[1].another_way = first[3].another_way = true;
    assert_true(known_soon(a, first, 4));
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(first[i].mtu_passed_bytes, i % 2 == 0 ? 1500 : 0);
    }
    /* A worse one: the better one is tried for a while. */
    struct rawe_reach second[] = {nowhere(), to(&net.b, 1500)};
    second[1].another_way = true;
    second[0].other_way_ns = SECOND_NS / 20;
    assert_true(known_soon(a, second, 2));
    assert_int_equal(second[0].mtu_passed_bytes, 0);
    assert_int_equal(second[1].mtu_passed_bytes, 1500);
    /* Ways of other processes mean nothing for this one. */
    second[1].another_way = false;
    rawe_responder_reach(a, second, 2, SECOND_NS / 5);
    assert_int_equal(second[0].mtu_passed_bytes, 0);
    assert_int_equal(second[1].mtu_passed_bytes, 1500);
    rawe_responder_stop(b);
    rawe_responder_stop(a);
}

static void reach__a_process_known_to_be_there_is_not_waited_for(void **state)
{
    struct rawe_responder *a = fixture_start(&net, &net.a);
    struct rawe_responder *b = fixture_start(&net, &net.b);
    struct rawe_reach ways[] = {nowhere(), to(&net.b, 1500)};

    (void)state;
    ways[0].other_way_ns = SECOND_NS / 20;
    ways[0].reached_elsewhere = true;
    assert_true(known_soon(a, ways, 1));
    assert_int_equal(ways[0].mtu_passed_bytes, 0);
    /* A witness tells that it is there, and nothing else. */
    ways[0].reached_elsewhere = false;
    ways[1].another_way = true;
    ways[1].witness = a;
    assert_true(known_soon(a, ways, 2));
    assert_true(ways[1].small_passed);
    assert_int_equal(ways[0].mtu_passed_bytes + ways[1].mtu_passed_bytes, 0);
    /* And is not asked any longer than the others. */
    ways[0] = to(&net.b, 1500);
    ways[1] = nowhere();
    ways[1].another_way = true;
    ways[1].witness = a;
    assert_true(known_soon(a, ways, 2));
    assert_int_equal(ways[0].mtu_passed_bytes, 1500);
    rawe_responder_stop(b);
    rawe_responder_stop(a);
}

static void reach__many_peers_at_once(void **state)
{
    enum { PEERS = 400 };
    static struct rawe_reach peers[PEERS];
    struct rawe_responder *a = fixture_start(&net, &net.a);
    struct rawe_responder *b = fixture_start(&net, &net.b);

    (void)state;
    for (unsigned i = 0; i < PEERS; i++) {
        peers[i] = to(&net.b, 1500);
        peers[i].key += i % 4 == 3;
    }
    rawe_responder_reach(a, peers, PEERS, 2 * SECOND_NS);
    for (unsigned i = 0; i < PEERS; i++) {
        assert_int_equal(peers[i].mtu_passed_bytes, i % 4 == 3 ? 0 : 1500);
        assert_int_equal(peers[i].small_passed, i % 4 != 3);
    }
    rawe_responder_stop(b);
    rawe_responder_stop(a);
}

static void reach__full_size_despite_loss(void **state)
{
    enum { PEERS = 100 };
    static struct rawe_reach peers[PEERS];
    struct rawe_responder *a = fixture_start(&net, &net.a);
    struct rawe_responder *b = fixture_start(&net, &net.b);

    (void)state;
    drop_at_b("numgen random mod 100 < 10");
    fixture_run("nft 'add chain netdev t d { type filter hook ingress device ra0 priority 0; }' && "
                "nft 'add rule netdev t d numgen random mod 100 < 10 drop'");
    for (unsigned i = 0; i < PEERS; i++) {
        peers[i] = to(&net.b, 1500);
    }
    rawe_responder_reach(a, peers, PEERS, 10 * SECOND_NS);
    drop_nothing();
    for (unsigned i = 0; i < PEERS; i++) {
        assert_int_equal(peers[i].mtu_passed_bytes, 1500);
    }
    rawe_responder_stop(b);
    rawe_responder_stop(a);
}

static bool spinning;

static void *spin(void *context)
{
    while (__atomic_load_n(&spinning, __ATOMIC_RELAXED)) {
    }
    return context;
}

/** Ranks that poll take every processor; responders must still get their turn. */
static void reach__full_size_on_a_crowded_host(void **state)
{
    enum { SPINNERS = 8 };
    struct rawe_responder *a = fixture_start(&net, &net.a);
    struct rawe_responder *b = fixture_start(&net, &net.b);
    pthread_t threads[SPINNERS];

    (void)state;
    __atomic_store_n(&spinning, true, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < SPINNERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, spin, NULL), 0);
    }
    for (unsigned i = 0; i < 5; i++) {
        struct rawe_reach reach = to(&net.b, 1500);
        rawe_responder_reach(a, &reach, 1, 10 * SECOND_NS);
        assert_int_equal(reach.mtu_passed_bytes, 1500);
    }
    __atomic_store_n(&spinning, false, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < SPINNERS; i++) {
        pthread_join(threads[i], NULL);
    }
    rawe_responder_stop(b);
    rawe_responder_stop(a);
}

struct asker {
    struct rawe_responder *responder;
    struct rawe_reach reach;
};

static void *ask(void *context)
{
    struct asker *asker = context;

    rawe_responder_reach(asker->responder, &asker->reach, 1, 10 * SECOND_NS);
    return NULL;
}

static void reach__from_several_threads(void **state)
{
    enum { ASKERS = 4 };
    struct rawe_responder *a = fixture_start(&net, &net.a);
    struct rawe_responder *b = fixture_start(&net, &net.b);
    struct asker askers[ASKERS];
    pthread_t threads[ASKERS];

    (void)state;
    for (unsigned i = 0; i < ASKERS; i++) {
        askers[i] = (struct asker){a, to(&net.b, 1500 - i)};
        assert_int_equal(pthread_create(&threads[i], NULL, ask, &askers[i]), 0);
    }
    for (unsigned i = 0; i < ASKERS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(askers[i].reach.mtu_passed_bytes, 1500 - i);
    }
    rawe_responder_stop(b);
    rawe_responder_stop(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reach__full_size_passes),
        cmocka_unit_test(reach__over_loopback),
        cmocka_unit_test(reach__finds_the_largest_size_that_passes),
        cmocka_unit_test(reach__small_only),
        cmocka_unit_test(reach__nobody_there),
        cmocka_unit_test(reach__one_way_to_a_process_is_enough),
        cmocka_unit_test(reach__a_process_known_to_be_there_is_not_waited_for),
        cmocka_unit_test(reach__many_peers_at_once),
        cmocka_unit_test(reach__full_size_despite_loss),
        cmocka_unit_test(reach__full_size_on_a_crowded_host),
        cmocka_unit_test(reach__from_several_threads),
    };

    fixture_enter(&net);
    fixture_renew(&net, 1500);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
