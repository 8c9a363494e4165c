/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of rawe_carrier over a veth pair, in their own network namespace.
 */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdbool.h>

#include "link_fixture.h"

#include "../../../opal/mca/btl/rawe/linux/sys/rawe_interface.h"

/** Last carrier state reported for each end; -1: no report. */
static atomic_int seen_a, seen_b;
static atomic_int calls;
static int refusals; /**< number of callback calls that fail and must be repeated */

static struct rawe_service *service;
static struct rawe_carrier *carrier;

static bool changed(void *context, const struct rawe_interface *interface)
{
    if (interface->index == net.a.index) {
        assert_string_equal(interface->name, "ra0");
        assert_memory_equal(interface->mac, net.a.mac, sizeof interface->mac);
        seen_a = interface->up;
    } else if (interface->index == net.b.index) {
        seen_b = interface->up;
    }
    return calls++ >= refusals;
}

static void await(int a, int b)
{
    AWAIT(seen_a == a && seen_b == b);
    assert_int_equal(seen_a, a);
    assert_int_equal(seen_b, b);
}

static void set_up(void)
{
    fixture_renew(&net, 1500);
    seen_a = seen_b = -1;
    calls = refusals = 0;
}

static void start(void)
{
    struct rawe_port_error error;

    assert_int_equal(rawe_service_start(&service, &error), 0);
    assert_int_equal(rawe_carrier_start(&carrier, service, changed, NULL, &error), 0);
}

static void tear_down(void)
{
    rawe_carrier_stop(carrier);
    rawe_service_stop(service);
}

FIXTURE(set_up, tear_down);

TEST(rawe_carrier_start__reports_what_is_there)
{
    fixture_run("ip link set rb0 down");
    start();
    await(0, 0);
}

TEST(rawe_carrier__repeats_what_could_not_be_used)
{
    refusals = 20;
    start();
    AWAIT(calls > refusals);
    assert_in_range(calls, 20, 1000);
}

TEST(rawe_carrier__reports_each_change)
{
    start();
    await(1, 1);
    for (unsigned i = 0; i < 3; i++) {
        fixture_run("ip link set %s down", i == 1 ? "ra0" : "rb0");
        await(0, 0); /* an end of a veth pair has no carrier while the other is down */
        fixture_run("ip link set %s up", i == 1 ? "ra0" : "rb0");
        await(1, 1);
    }
}

TEST(rawe_carrier_stop__reports_nothing_any_more)
{
    start();
    await(1, 1);
    rawe_carrier_stop(carrier);
    carrier = NULL; /* tear_down() may stop it a second time */
    fixture_run("ip link set rb0 down");
    rawe_service_stop(service);
    service = NULL;
    assert_int_equal(seen_b, 1);
}

/** This must be the last test, because it removes the veth pair. */
TEST(rawe_carrier__reports_what_is_removed)
{
    start();
    await(1, 1);
    fixture_run("ip link delete ra0");
    await(0, 0);
}
