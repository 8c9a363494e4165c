/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of rawe_carrier over a veth pair, in a network namespace of their own.
 */
#define _GNU_SOURCE
#include <stdbool.h>
#include <unistd.h>

#include "link_fixture.h"

#include "../../../opal/mca/btl/rawe/linux/sys/rawe_interface.h"

#define WAIT_MOST_MS 10000u

/** What was reported of the two ends last; atomic. */
struct seen {
    int a, b; /**< -1: nothing yet */
    int calls;
    int refusals; /**< calls that want to be repeated */
};

static bool changed(void *context, const struct rawe_interface *interface)
{
    struct seen *seen = context;

    if (interface->index == net.a.index) {
        assert_string_equal(interface->name, "ra0");
        assert_memory_equal(interface->mac, net.a.mac, sizeof interface->mac);
        __atomic_store_n(&seen->a, interface->up, __ATOMIC_SEQ_CST);
    } else if (interface->index == net.b.index) {
        __atomic_store_n(&seen->b, interface->up, __ATOMIC_SEQ_CST);
    }
    return __atomic_fetch_add(&seen->calls, 1, __ATOMIC_SEQ_CST) >= seen->refusals;
}

static void await(struct seen *seen, int a, int b)
{
    for (unsigned waited_ms = 0; waited_ms < WAIT_MOST_MS; waited_ms++) {
        if (__atomic_load_n(&seen->a, __ATOMIC_SEQ_CST) == a &&
            __atomic_load_n(&seen->b, __ATOMIC_SEQ_CST) == b) {
            return;
        }
        usleep(1000);
    }
    fail_msg("a is %d, b is %d; wanted %d, %d", seen->a, seen->b, a, b);
}

static struct rawe_service *start(struct rawe_carrier **carrier, struct seen *seen)
{
    struct rawe_service *service;
    struct rawe_port_error error;

    assert_int_equal(rawe_service_start(&service, &error), 0);
    assert_int_equal(rawe_carrier_start(carrier, service, changed, seen, &error), 0);
    return service;
}

TEST(rawe_carrier_start__reports_what_is_there)
{
    struct seen seen = {.a = -1, .b = -1};
    struct rawe_carrier *carrier;

    fixture_renew(&net, 1500);
    fixture_run("ip link set rb0 down");
    struct rawe_service *service = start(&carrier, &seen);
    await(&seen, 0, 0);
    rawe_carrier_stop(carrier);
    rawe_service_stop(service);
}

TEST(rawe_carrier__repeats_what_could_not_be_used)
{
    struct seen seen = {.a = -1, .b = -1, .refusals = 20};
    struct rawe_carrier *carrier;

    fixture_renew(&net, 1500);
    struct rawe_service *service = start(&carrier, &seen);
    for (unsigned waited_ms = 0; waited_ms < WAIT_MOST_MS; waited_ms++) {
        if (__atomic_load_n(&seen.calls, __ATOMIC_SEQ_CST) > seen.refusals) {
            break;
        }
        usleep(1000);
    }
    assert_in_range(__atomic_load_n(&seen.calls, __ATOMIC_SEQ_CST), 20, 1000);
    rawe_carrier_stop(carrier);
    rawe_service_stop(service);
}

TEST(rawe_carrier__reports_each_change)
{
    struct seen seen = {.a = -1, .b = -1};
    struct rawe_carrier *carrier;

    fixture_renew(&net, 1500);
    struct rawe_service *service = start(&carrier, &seen);
    await(&seen, 1, 1);
    for (unsigned i = 0; i < 3; i++) {
        fixture_run("ip link set %s down", i == 1 ? "ra0" : "rb0");
        await(&seen, 0, 0); /* a veth's end has no carrier when the other is down */
        fixture_run("ip link set %s up", i == 1 ? "ra0" : "rb0");
        await(&seen, 1, 1);
    }
    rawe_carrier_stop(carrier);
    rawe_service_stop(service);
}

TEST(rawe_carrier_stop__reports_nothing_any_more)
{
    struct seen seen = {.a = -1, .b = -1};
    struct rawe_carrier *carrier;

    fixture_renew(&net, 1500);
    struct rawe_service *service = start(&carrier, &seen);
    await(&seen, 1, 1);
    rawe_carrier_stop(carrier);
    fixture_run("ip link set rb0 down");
    rawe_service_stop(service);
    assert_int_equal(seen.b, 1);
    rawe_carrier_stop(NULL);
}

/** The last one, as nothing is left then. */
TEST(rawe_carrier__reports_what_is_removed)
{
    struct seen seen = {.a = -1, .b = -1};
    struct rawe_carrier *carrier;

    fixture_renew(&net, 1500);
    struct rawe_service *service = start(&carrier, &seen);
    await(&seen, 1, 1);
    fixture_run("ip link delete ra0");
    await(&seen, 0, 0);
    rawe_carrier_stop(carrier);
    rawe_service_stop(service);
}
