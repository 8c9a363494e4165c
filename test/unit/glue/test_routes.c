/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of failover's inputs from Linux and of its reports: the kernel's carrier events, answers to
 * the fake responder, and messages to the user.
 */
#include "btl_rawe_routes.h"

#include <stdio.h>
#include <string.h>

#include "btl_rawe_endpoint.h"
#include "btl_rawe_fanout.h"
#include "btl_rawe_module.h"
#include "linux/sys/rawe_interface.h"
#include "fake_ompi.h"

#define MS 1000000ull
#define NICS 2u

static mca_btl_rawe_module_t modules[NICS];
static mca_btl_base_endpoint_t endpoints[NICS]; /**< endpoints of one process, one per NIC */
static struct rawe_handle_table handles;
static opal_proc_t *proc;
static unsigned asked[NICS];
static uint64_t pong_ns[NICS];
static bool answers[NICS];
static rawe_carrier_fn *changed;
static void *changed_context;
static unsigned wakes;
static bool is_back; /**< the interface is back under another index */
static const mca_btl_rawe_module_t *followed;
static bool can_follow;
static const mca_btl_rawe_module_t *stuck; /**< the module that cannot follow; NULL: none */

void mca_btl_rawe_endpoint_ping(mca_btl_base_endpoint_t *endpoint)
{
    unsigned nic = (unsigned)(endpoint - endpoints);

    asked[nic]++;
    pong_ns[nic] = answers[nic] ? fake_ompi.now_ns + 1 : pong_ns[nic];
}

uint64_t rawe_watch_last_pong_ns(const struct rawe_watch *watch)
{
    return *(const uint64_t *)watch;
}

static uint8_t responder_mac[RAWE_MAC_BYTES];

void rawe_responder_set_mac(struct rawe_responder *responder, const uint8_t mac[RAWE_MAC_BYTES])
{
    memcpy(responder_mac, mac, RAWE_MAC_BYTES);
}

static uint8_t old_mac[RAWE_MAC_BYTES];

void rawe_interface_keep_mac(int fd, int index, const uint8_t mac[RAWE_MAC_BYTES])
{
    memcpy(old_mac, mac, RAWE_MAC_BYTES);
}

struct rawe_port *rawe_responder_port(struct rawe_responder *responder)
{
    static struct rawe_port port;

    return &port;
}

void rawe_responder_wake(struct rawe_responder *responder, unsigned in_us)
{
    wakes++;
}

int rawe_carrier_start(struct rawe_carrier **carrier, struct rawe_service *service,
                       rawe_carrier_fn *fn, void *context, struct rawe_port_error *error)
{
    *carrier = NULL;
    changed = fn;
    changed_context = context;
    return 0;
}

void rawe_carrier_stop(struct rawe_carrier *carrier)
{
    assert_null(carrier);
    changed = NULL;
}

bool rawe_interface_is_back(const struct rawe_interface *lost, const struct rawe_interface *again)
{
    return is_back && strcmp(lost->name, again->name) == 0 &&
           memcmp(lost->mac, again->mac, RAWE_MAC_BYTES) == 0;
}

bool mca_btl_rawe_fanout_follow(mca_btl_rawe_module_t *module)
{
    followed = module;
    return can_follow && stuck != module;
}

static void introduce(unsigned nic)
{
    opal_list_append(&modules[nic].endpoints, &endpoints[nic].super);
    if (!opal_list_is_empty(&modules[!nic].endpoints)) {
        rawe_peer_join(&endpoints[nic].peer, &endpoints[!nic].peer);
    }
}

static void set_up(void)
{
    fake_ompi_begin();
    memset(modules, 0, sizeof(modules));
    memset(endpoints, 0, sizeof(endpoints));
    memset(asked, 0, sizeof(asked));
    memset(pong_ns, 0, sizeof(pong_ns));
    answers[0] = answers[1] = true;
    fake_ompi.now_ns = 1000 * MS;
    wakes = 0;
    is_back = false;
    can_follow = true;
    followed = NULL;
    proc = OBJ_NEW(opal_proc_t);
    proc->proc_name = OPAL_PROC_MY_NAME;
    proc->proc_name.vpid = 3;
    rawe_handle_table_init(&handles, 1);
    for (unsigned i = 0; i < NICS; ++i) {
        const struct rawe_peer_config peer = {
            .mac = {2, 0, 0, 0, 0, (uint8_t)i},
            .payload_max_bytes = 1472,
            .owner = &endpoints[i],
        };
        mca_btl_rawe_module_t *module = &modules[i];
        OBJ_CONSTRUCT(&endpoints[i], opal_list_item_t);
        unit_module_start(module, &handles);
        snprintf(module->interface.name, sizeof(module->interface.name), "eth%u", i);
        module->interface.index = (int)(10 + i);
        module->carrier = module->open = true;
        module->mac = rawe_mac_number(module->engine.config.mac);
        module->address.mac[0] = 2;
        endpoints[i].module = module;
        endpoints[i].proc = proc;
        endpoints[i].watch = (struct rawe_watch *)&pong_ns[i];
        rawe_peer_init(&endpoints[i].peer, &module->engine, &peer);
    }
    mca_btl_rawe_routes_init();
    mca_btl_rawe_routes_begin();
}

static void tear_down(void)
{
    mca_btl_rawe_routes_end();
    for (unsigned i = 0; i < NICS; ++i) {
        rawe_peer_close(&endpoints[i].peer);
        unit_module_stop(&modules[i]);
    }
    rawe_handle_table_free(&handles);
    OBJ_RELEASE(proc);
}

/** Check routes every 10 ms for `ns`, in MPI's progress or, if not `progress`, in the thread. */
static void pass(uint64_t ns, bool progress)
{
    for (uint64_t end_ns = fake_ompi.now_ns + ns; fake_ompi.now_ns < end_ns;
         fake_ompi.now_ns += 10 * MS) {
        mca_btl_rawe_routes_check(progress);
    }
}

/** Report a silent peer, as mca_btl_rawe_silent does. */
static void silent(unsigned nic)
{
    struct rawe_conn *conn = rawe_peer_conn(&endpoints[nic].peer, RAWE_LANE_EXPRESS);

    assert_non_null(conn);
    conn->path.liveness.silent_since_ns = fake_ompi.now_ns;
    rawe_failover_silent(&mca_btl_rawe_state.failover, conn, fake_ompi.now_ns);
}

static void carrier(unsigned nic, bool usable)
{
    const struct rawe_interface interface = {.index = modules[nic].interface.index, .up = usable};

    assert_true(changed(changed_context, &interface));
}

FIXTURE(set_up, tear_down);

TEST(mca_btl_rawe_routes_begin__not_for_lo_alone)
{
    mca_btl_rawe_routes_end();
    modules[0].interface.loopback = modules[1].interface.loopback = true;
    mca_btl_rawe_routes_begin();
    assert_null(changed);
}

/** There is no other interface to use instead. */
TEST(carrier_changed__the_only_interface_stays_in_use)
{
    modules[1].interface.loopback = true;
    carrier(0, false);
    assert_int_equal(wakes, 0);
    assert_true(modules[0].carrier);
}

/** A module for raw frames and one for UDP on an interface are one interface. */
TEST(carrier_changed__an_interface_with_both_kinds_of_port)
{
    modules[1].address.udp = true;
    modules[1].interface.index = modules[0].interface.index;
    carrier(0, false);
    assert_int_equal(wakes, 0);
    assert_true(modules[0].carrier && modules[1].carrier);

    const struct rawe_interface up = {.index = modules[0].interface.index, .up = true};
    can_follow = true;
    stuck = &modules[0];
    assert_false(changed(changed_context, &up)); /* the caller tries again */
    assert_ptr_equal(followed, &modules[1]);
    stuck = NULL;
    assert_true(changed(changed_context, &up));
}

TEST(carrier_changed__an_interface_that_is_back_under_another_index_is_followed)
{
    const struct rawe_interface other = {.name = "eth7", .index = 70, .up = true};
    const struct rawe_interface again = {.name = "eth1", .index = 71, .up = true};
    const struct rawe_interface down = {.name = "eth1", .index = 71};

    assert_true(changed(changed_context, &again)); /* the old interface still exists */
    is_back = true;
    assert_true(changed(changed_context, &other));
    assert_null(followed);
    can_follow = false; /* the caller will try again */
    assert_false(changed(changed_context, &again));
    assert_ptr_equal(followed, &modules[1]);
    assert_int_equal(modules[1].interface.index, 71);
    assert_false(modules[1].carrier); /* no frame passes yet */
    assert_int_equal(modules[0].interface.index, 10);
    is_back = false;
    can_follow = true;
    assert_true(changed(changed_context, &again));
    assert_true(modules[1].carrier);
    followed = NULL;
    assert_true(changed(changed_context, &down));
    assert_null(followed);
    assert_false(modules[1].carrier);
}

TEST(carrier_changed__only_news_wakes_the_thread)
{
    carrier(1, true);
    assert_int_equal(wakes, 0);
    modules[1].interface.loopback = true;
    carrier(1, false);
    assert_int_equal(wakes, 0);
    modules[1].interface.loopback = false;
    carrier(1, false);
    carrier(1, false);
    assert_int_equal(wakes, 1);
}

/** With no connection open, a peer in use is told of the new address by a CONNECT. */
TEST(mca_btl_rawe_routes_check__another_address)
{
    struct rawe_interface interface = {
        .index = modules[1].interface.index, .mac = {2, 0, 0, 0, 0, 9}, .up = true};

    introduce(0);
    introduce(1);
    endpoints[0].in_use = endpoints[1].in_use = true;
    assert_true(changed(changed_context, &interface));
    assert_int_equal(wakes, 1);
    assert_memory_equal(responder_mac, interface.mac, RAWE_MAC_BYTES);
    assert_memory_equal(old_mac, modules[1].address.mac, RAWE_MAC_BYTES);
    pass(1, true);
    assert_memory_equal(modules[1].engine.config.mac, interface.mac, RAWE_MAC_BYTES);
    assert_int_equal(modules[1].engine.counters.connects_sent, 1);
    assert_int_equal(modules[0].engine.counters.connects_sent, 0);
    assert_true(changed(changed_context, &interface));
    memset(interface.mac, 0, RAWE_MAC_BYTES); /* as in a kernel message without an address */
    assert_true(changed(changed_context, &interface));
    assert_int_equal(wakes, 1);
    /* A peer that has only connected to us learns the address from our frames. */
    endpoints[1].in_use = false;
    interface.mac[0] = 2;
    assert_true(changed(changed_context, &interface));
    pass(1, true);
    assert_int_equal(modules[1].engine.counters.connects_sent, 2);
    assert_memory_equal(endpoints[1].peer.conn[RAWE_LANE_EXPRESS]->path.eth_header + RAWE_MAC_BYTES,
                        interface.mac, RAWE_MAC_BYTES);
}

/** A reloaded driver restores the interface's first address. */
TEST(mca_btl_rawe_routes_check__an_interface_that_is_back_with_its_first_address)
{
    const struct rawe_interface other = {
        .index = modules[1].interface.index, .mac = {2, 0, 0, 0, 0, 9}, .up = true};
    struct rawe_interface again = {.name = "eth1", .index = 71, .up = true};

    memcpy(again.mac, modules[1].address.mac, RAWE_MAC_BYTES);
    assert_true(changed(changed_context, &other));
    is_back = true;
    assert_true(changed(changed_context, &again));
    assert_int_equal(modules[1].interface.index, 71);
}

TEST(mca_btl_rawe_routes_check__a_lost_carrier)
{
    introduce(0);
    introduce(1);
    carrier(1, false);
    assert_int_equal(wakes, 1);
    assert_true(mca_btl_rawe_routes_due_ns() <= fake_ompi.now_ns);
    pass(1, true);
    assert_true(endpoints[1].peer.route.down);
    assert_false(endpoints[0].peer.route.down);
    /* Without a carrier no PING is sent; nothing is due until the kernel reports a change. */
    pass(1000 * MS, true);
    assert_int_equal(asked[1], 0);
    assert_true(UINT64_MAX == mca_btl_rawe_routes_due_ns());
    assert_int_equal(fake_ompi.said, 1);
    assert_string_equal(fake_ompi.text, "eth1 to rank 3 has lost its carrier");
    carrier(1, true);
    assert_true(mca_btl_rawe_routes_due_ns() <= fake_ompi.now_ns);
    pass(1000 * MS, true);
    assert_false(endpoints[1].peer.route.down);
    assert_int_equal(fake_ompi.said, 2);
    assert_string_equal(fake_ompi.text, "eth1 to rank 3 answers again");
    assert_false(mca_btl_rawe_routes_pending());
}

/** The engine of a module that is not open has not been started. */
TEST(mca_btl_rawe_routes_check__not_of_a_module_that_is_not_open)
{
    introduce(0);
    introduce(1);
    modules[1].open = false;
    carrier(1, false);
    pass(10 * MS, true);
    assert_false(modules[1].engine.no_carrier);
    assert_int_equal(fake_ompi.said, 0);
}

TEST(mca_btl_rawe_routes_check__silence)
{
    introduce(0);
    introduce(1);
    answers[1] = false;
    silent(1);
    pass(100 * MS, true);
    assert_true(endpoints[1].peer.route.down);
    assert_string_equal(fake_ompi.text, "eth1 to rank 3 does not answer, unlike others");
    assert_int_not_equal(asked[1], 0);
    assert_in_range(mca_btl_rawe_routes_due_ns(), fake_ompi.now_ns - 10 * MS,
                    fake_ompi.now_ns + 250 * MS);
}

/** The responder has too little memory to record the answers of all peers. */
TEST(mca_btl_rawe_routes_check__a_peer_that_is_not_watched)
{
    introduce(0);
    introduce(1);
    endpoints[1].watch = NULL;
    silent(1);
    pass(100 * MS, true);
    assert_true(endpoints[1].peer.route.down);
}

/** Only MPI's threads print: the message waits until one of them makes progress. */
TEST(mca_btl_rawe_routes_check__says_nothing_in_the_progress_thread)
{
    introduce(0);
    introduce(1);
    carrier(1, false);
    pass(100 * MS, false);
    assert_true(endpoints[1].peer.route.down);
    assert_int_equal(fake_ompi.said, 0);
    pass(10 * MS, true);
    assert_int_equal(fake_ompi.said, 1);
}
