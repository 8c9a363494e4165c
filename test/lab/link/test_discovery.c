/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of path discovery over a veth pair and over lo, in their own network namespace.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "link_fixture.h"

#include "../../../opal/mca/btl/rawe/linux/probe/rawe_responder.h"

#define SECOND_NS 1000000000ull

static struct rawe_responder *a, *b;

static void stop(void)
{
    rawe_port_close(rawe_responder_stop(b));
    rawe_port_close(rawe_responder_stop(a));
    a = b = NULL;
}

/** Recreate the veth pair with this MTU, and start a responder on each end. */
static void start_with(uint32_t mtu_bytes)
{
    stop();
    fixture_renew(&net, mtu_bytes);
    a = fixture_start(&net, &net.a);
    b = fixture_start(&net, &net.b);
}

static void start(void)
{
    start_with(1500);
}

FIXTURE(start, stop);

/** A path and its target. */
struct way {
    struct rawe_path path;
    struct rawe_path_target target;
};

static struct way to(const struct fixture_end *end, uint32_t mtu_bytes)
{
    struct way way = {
        .path = {.mtu_bytes = mtu_bytes},
        .target = {.to = {.port = end->ping_port, .key = end->ping_key}},
    };

    memcpy(way.target.to.mac, end->mac, sizeof way.target.to.mac);
    return way;
}

static void discover(struct rawe_responder *responder, struct way *ways, unsigned count,
                     uint64_t timeout_ns)
{
    struct rawe_path paths[3];
    struct rawe_path_target targets[3];

    assert_true(count <= 3);
    for (unsigned i = 0; i < count; i++) {
        paths[i] = ways[i].path;
        targets[i] = ways[i].target;
    }
    rawe_responder_discover(responder, paths, targets, count, timeout_ns);
    for (unsigned i = 0; i < count; i++) {
        ways[i].path = paths[i];
    }
}

TEST(discover__full_size_passes)
{
    static const uint32_t mtus[] = {1500, 9000, 65000};

    for (size_t i = 0; i < sizeof mtus / sizeof mtus[0]; i++) {
        start_with(mtus[i]);
        struct way way = to(&net.b, mtus[i]);

        discover(a, &way, 1, 10 * SECOND_NS);
        assert_true(way.path.reachable);
        assert_int_equal(way.path.mtu_passed_bytes, mtus[i]);
        /* Either responder may discover paths. */
        way = to(&net.a, mtus[i]);
        discover(b, &way, 1, 10 * SECOND_NS);
        assert_int_equal(way.path.mtu_passed_bytes, mtus[i]);
    }
}

TEST(discover__over_loopback)
{
    const struct fixture veth = net;

    stop();
    fixture_use_loopback(&net);
    a = fixture_start(&net, &net.a);
    b = fixture_start(&net, &net.b);
    struct way way = to(&net.b, 65536);

    discover(a, &way, 1, 10 * SECOND_NS);
    assert_int_equal(way.path.mtu_passed_bytes, 65536);
    net = veth;
}

/** An indirect check finds the process, but does not measure an MTU. */
TEST(discover__an_indirect_check)
{
    struct way ways[] = {to(&net.b, 1500), to(&net.b, 1500)};

    ways[0].target.to.mac[5] ^= 1; /* no interface has this address */
    ways[1].path.same_process = true;
    ways[1].path.indirect = true;
    ways[1].target.through = a;
    discover(a, ways, 2, 60 * SECOND_NS);
    assert_true(ways[1].path.reachable);
    assert_int_equal(ways[0].path.mtu_passed_bytes + ways[1].path.mtu_passed_bytes, 0);
}

static bool spinning;

static void *spin(void *context)
{
    while (__atomic_load_n(&spinning, __ATOMIC_RELAXED)) {
    }
    return context;
}

/** Responders must get processor time even while polling ranks occupy all processors. */
TEST(discover__full_size_on_a_crowded_host)
{
    enum { SPINNERS = 8 };
    pthread_t threads[SPINNERS];

    __atomic_store_n(&spinning, true, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < SPINNERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, spin, NULL), 0);
    }
    for (unsigned i = 0; i < 5; i++) {
        struct way way = to(&net.b, 1500);
        discover(a, &way, 1, 10 * SECOND_NS);
        assert_int_equal(way.path.mtu_passed_bytes, 1500);
    }
    __atomic_store_n(&spinning, false, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < SPINNERS; i++) {
        pthread_join(threads[i], NULL);
    }
}

/** Wait at most ten seconds for the result of a validation, and return it. */
static struct rawe_path validated(struct rawe_responder *responder)
{
    struct way way = to(&net.b, 1500);
    struct rawe_validation *validation =
        rawe_responder_validate(responder, &way.target.to, 1500, 5 * SECOND_NS);
    struct rawe_path path = {.mtu_bytes = 0};

    assert_non_null(validation);
    AWAIT(rawe_validation_result(validation, &path));
    rawe_validation_end(responder, validation);
    return path;
}

TEST(validate__follows_the_path)
{
    assert_int_equal(validated(a).mtu_passed_bytes, 1500);
    fixture_run("ip link set ra0 mtu 1300 && ip link set rb0 mtu 1300");
    assert_int_equal(validated(a).mtu_passed_bytes, 1280);
    fixture_run("ip link set ra0 mtu 1500 && ip link set rb0 mtu 1500");
    assert_int_equal(validated(a).mtu_passed_bytes, 1500);
    rawe_port_close(rawe_responder_stop(b));
    b = NULL;
    assert_false(validated(a).reachable);
    /* Stopping the responder ends a running validation. */
    struct way way = to(&net.b, 1500);
    assert_non_null(rawe_responder_validate(a, &way.target.to, 1500, 60 * SECOND_NS));
}

struct asker {
    struct rawe_responder *responder;
    struct way way;
};

static void *ask(void *context)
{
    struct asker *asker = context;

    discover(asker->responder, &asker->way, 1, 10 * SECOND_NS);
    return NULL;
}

TEST(discover__from_several_threads)
{
    enum { ASKERS = 4 };
    struct asker askers[ASKERS];
    pthread_t threads[ASKERS];

    for (unsigned i = 0; i < ASKERS; i++) {
        askers[i] = (struct asker){a, to(&net.b, 1500 - i)};
        assert_int_equal(pthread_create(&threads[i], NULL, ask, &askers[i]), 0);
    }
    for (unsigned i = 0; i < ASKERS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(askers[i].way.path.mtu_passed_bytes, 1500 - i);
    }
}
