/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of finalizing modules one after the other. Fakes count the resulting calls.
 */
#include "btl_rawe_lifecycle.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "btl_rawe_endpoint.h"
#include "btl_rawe_fanout.h"
#include "btl_rawe_lock.h"
#include "btl_rawe_metrics.h"
#include "btl_rawe_module.h"
#include "btl_rawe_params.h"
#include "btl_rawe_routes.h"
#include "linux/host/rawe_host_group.h"
#include "linux/packet/rawe_helper.h"
#include "linux/packet/rawe_packet.h"
#include "unit_test.h"

#define MODULES 2u
#define SEED 12345u

struct mca_btl_rawe_params mca_btl_rawe_params;
struct mca_btl_rawe_state mca_btl_rawe_state;
static unsigned lingered, groups_closed, detached;
static atomic_uint closed;
static unsigned hung_up;  /**< groups_closed when the helper was hung up on */
static unsigned unmended; /**< calls of rawe_host_group_quiesce */

/** Called after lingering, which still needs the sockets. */
void rawe_host_group_quiesce(struct rawe_host_group *group)
{
    assert_int_equal(lingered, unmended + 1);
    unmended++;
}

/** Check that no other module has been closed when this process lingers. */
void mca_btl_rawe_linger(void)
{
    assert_int_equal(mca_btl_rawe_state.module_count, MODULES - lingered);
    lingered++;
}

void mca_btl_rawe_routes_end(void)
{
}

void mca_btl_rawe_metrics_check_ring(mca_btl_rawe_module_t *module)
{
    fail_msg("a ring of %s", module->interface.name);
}

void mca_btl_rawe_metrics_report(mca_btl_rawe_module_t *module, const char *title)
{
    fail_msg("%s of %s", title, module->interface.name);
}

void mca_btl_rawe_endpoint_close(mca_btl_base_endpoint_t *endpoint)
{
    fail_msg("an endpoint %p", (void *)endpoint);
}

void mca_btl_rawe_fanout_close(void)
{
    groups_closed++;
}

/** The helper is hung up on only after the groups, which request sockets until they end. */
void rawe_helper_hang_up(void)
{
    hung_up = groups_closed;
}

/** Count sockets closed with signals blocked, after the group, which the first close breaks. */
static void note_closed(void)
{
    sigset_t blocked;

    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    if (sigismember(&blocked, SIGTERM) && groups_closed != 0) {
        atomic_fetch_add(&closed, 1);
    }
}

static void port_close(struct rawe_port *port)
{
    note_closed();
}

static const struct rawe_port_kind port_kind = {.close = port_close};
static struct rawe_port port = {.kind = &port_kind};

struct rawe_port *rawe_responder_stop(struct rawe_responder *responder)
{
    detached += responder != NULL;
    return responder != NULL ? &port : NULL;
}

/** Create a module without open sockets. */
static mca_btl_rawe_module_t *module_new(bool listed)
{
    mca_btl_rawe_module_t *module = calloc(1, sizeof(*module));

    assert_non_null(module);
    OBJ_CONSTRUCT(&module->endpoints, opal_list_t);
    OBJ_CONSTRUCT(&module->endpoints_lock, opal_mutex_t);
    OBJ_CONSTRUCT(&module->fragments_small, opal_free_list_t);
    OBJ_CONSTRUCT(&module->fragments_large, opal_free_list_t);
    if (listed) {
        mca_btl_rawe_state.modules[mca_btl_rawe_state.module_count++] = module;
    }
    return module;
}

static void set_up(void)
{
    memset(&mca_btl_rawe_state, 0, sizeof(mca_btl_rawe_state));
    rawe_handle_table_init(&mca_btl_rawe_state.handles, SEED);
    hung_up = unmended = lingered = groups_closed = detached = 0;
    atomic_store(&closed, 0);
}

static void tear_down(void)
{
    rawe_handle_table_free(&mca_btl_rawe_state.handles);
}

FIXTURE(set_up, tear_down);

TEST(mca_btl_rawe_finalize__one_lingers_for_all)
{
    mca_btl_rawe_module_t *modules[MODULES];

    for (unsigned i = 0; i < MODULES; ++i) {
        modules[i] = module_new(true);
    }
    assert_int_equal(mca_btl_rawe_finalize(&modules[0]->super), OPAL_SUCCESS);
    assert_int_equal(lingered, 1);
    assert_int_equal(mca_btl_rawe_state.module_count, 1);
    assert_ptr_equal(mca_btl_rawe_state.modules[0], modules[1]);
    assert_int_equal(groups_closed, 0);
    assert_int_equal(mca_btl_rawe_finalize(&modules[1]->super), OPAL_SUCCESS);
    assert_int_equal(mca_btl_rawe_state.module_count, 0);
    assert_int_equal(groups_closed, 1);
    assert_int_equal(hung_up, 1);
}

TEST(mca_btl_rawe_finalize__all_sockets_are_closed_behind_the_group)
{
    mca_btl_rawe_module_t *modules[MCA_BTL_RAWE_MODULES_MAX];

    for (unsigned i = 0; i < MCA_BTL_RAWE_MODULES_MAX; ++i) {
        modules[i] = module_new(i < MODULES);
        modules[i]->responder = (struct rawe_responder *)(void *)modules[i];
        modules[i]->link = modules[i]->bulk = &port;
    }
    for (unsigned i = 0; i < MODULES; ++i) {
        assert_int_equal(detached, 0);
        assert_int_equal(mca_btl_rawe_finalize(&modules[i]->super), OPAL_SUCCESS);
    }
    assert_int_equal(detached, MODULES);
    for (unsigned i = MODULES; i < MCA_BTL_RAWE_MODULES_MAX; ++i) {
        assert_int_equal(mca_btl_rawe_finalize(&modules[i]->super), OPAL_SUCCESS);
    }
    assert_int_equal(closed, 3 * MCA_BTL_RAWE_MODULES_MAX);
}

static unsigned items_destructed;

static void item_destruct(opal_free_list_item_t *item)
{
    items_destructed++;
}

typedef opal_free_list_item_t item_t;

static OBJ_CLASS_INSTANCE(item_t, opal_free_list_item_t, NULL, item_destruct);

/** A PUT belongs to the module it was handed to, but other modules may send parts of it. */
TEST(mca_btl_rawe_finalize__fragments_stay_until_all_engines_have_ended)
{
    mca_btl_rawe_module_t *modules[MODULES];

    items_destructed = 0;
    for (unsigned i = 0; i < MODULES; ++i) {
        modules[i] = module_new(true);
        assert_int_equal(opal_free_list_init(&modules[i]->fragments_small, sizeof(item_t),
                                             opal_cache_line_size, OBJ_CLASS(item_t), 0, 0, 1, 1, 1,
                                             NULL, 0, NULL, NULL, NULL),
                         OPAL_SUCCESS);
    }
    assert_int_equal(mca_btl_rawe_finalize(&modules[0]->super), OPAL_SUCCESS);
    assert_int_equal(items_destructed, 0);
    assert_int_equal(mca_btl_rawe_finalize(&modules[1]->super), OPAL_SUCCESS);
    assert_int_equal(items_destructed, MODULES);
}

/** The other modules keep running; in particular, memory keys must stay unguessable. */
TEST(mca_btl_rawe_finalize__one_that_was_not_opened_is_alone)
{
    mca_btl_rawe_module_t *open = module_new(true);

    assert_int_equal(mca_btl_rawe_finalize(&module_new(false)->super), OPAL_SUCCESS);
    assert_int_equal(lingered, 0);
    assert_int_equal(mca_btl_rawe_state.handles.random, SEED);
    assert_int_equal(mca_btl_rawe_state.module_count, 1);
    assert_false(open->closing);
    assert_int_equal(groups_closed, 0);
    mca_btl_rawe_state.module_count = 0;
    assert_int_equal(mca_btl_rawe_finalize(&open->super), OPAL_SUCCESS);
}

bool mca_btl_rawe_compat_fault_tolerant(void)
{
    return false;
}

static atomic_int packet_ports;   /* open ports */
static atomic_uint packets_tried; /* attempts to open one */

/** Fail to open a link because there is no memory for its ring. */
static int open_packet(struct rawe_port **out, const struct rawe_port_config *config,
                       struct rawe_port_error *error)
{
    static struct rawe_port packet = {.kind = &rawe_packet_port};

    atomic_fetch_add(&packets_tried, 1);
    if (RAWE_PORT_EXPRESS == config->use) {
        return rawe_port_failed(error, "mmap", ENOMEM);
    }
    *out = &packet;
    atomic_fetch_add(&packet_ports, 1);
    return 0;
}

static void close_packet(struct rawe_port *of)
{
    atomic_fetch_sub(&packet_ports, 1);
}

const struct rawe_port_kind rawe_packet_port = {.open = open_packet, .close = close_packet};

/** While PINGs arrive, opening is retried every second. */
TEST(open_sockets__without_a_link_none_stays_open)
{
    const struct rawe_interface lo = {.name = "lo", .loopback = true, .mtu_bytes = 65536};
    mca_btl_rawe_module_t *module = mca_btl_rawe_module_new(&lo, false);

    assert_non_null(module);
    mca_btl_rawe_params.batches = true;
    assert_false(module->open_sockets(module));
    mca_btl_rawe_params.batches = false;
    assert_int_equal(packet_ports, 0);
    assert_null(module->bulk);
    assert_int_equal(mca_btl_rawe_finalize(&module->super), OPAL_SUCCESS);
}

/** With a tiny MTU, core's assertion of room for data would fail, and no path would be usable. */
TEST(open_sockets__not_of_an_interface_with_a_tiny_mtu)
{
    const struct rawe_interface eth0 = {.name = "eth0", .mtu_bytes = 296};
    mca_btl_rawe_module_t *module = mca_btl_rawe_module_new(&eth0, false);

    assert_non_null(module);
    atomic_store(&packets_tried, 0);
    assert_false(module->open_sockets(module));
    assert_int_equal(packets_tried, 0);
    assert_true(mca_btl_rawe_failures_wait());
    assert_int_equal(mca_btl_rawe_finalize(&module->super), OPAL_SUCCESS);
}

static struct mca_btl_rawe_address address_in_a_life(const struct rawe_interface *interface)
{
    mca_btl_rawe_module_t *module = mca_btl_rawe_module_new(interface, false);

    assert_non_null(module);
    struct mca_btl_rawe_address address = module->address;
    assert_int_equal(mca_btl_rawe_finalize(&module->super), OPAL_SUCCESS);
    return address;
}

/** PMIx keeps serving the data published in Open MPI's first life to peers in later lives. */
TEST(mca_btl_rawe_module_new__an_interface_keeps_its_keys)
{
    const struct rawe_interface eth0 = {.name = "eth0", .mac = {2, 0, 0, 0, 0, 1}};
    struct rawe_interface other = eth0;

    struct mca_btl_rawe_address first = address_in_a_life(&eth0);
    other.mac[5] = 2;
    assert_int_not_equal(address_in_a_life(&other).key, first.key);
    struct mca_btl_rawe_address again = address_in_a_life(&eth0);
    assert_int_equal(again.key, first.key);
    assert_int_equal(again.ping_key, first.ping_key);
    assert_int_equal(again.port, first.port);
    assert_int_equal(again.ping_port, first.ping_port);
    for (char name = 'a'; name <= 'z'; ++name) { /* more names than modules */
        other.name[0] = name;
        (void)address_in_a_life(&other);
    }
    assert_int_equal(address_in_a_life(&eth0).key, first.key);
}

/** A VM's or cloud's limit is below the rate the driver reports, if it reports one. */
TEST(mca_btl_rawe_module_new__the_user_may_know_the_rate)
{
    static const struct {
        uint32_t set, driver; /* Mb/s; 0: unknown */
        bool loopback;
        uint32_t speed, bandwidth;
    } cases[] = {
        {0, 25000, false, 25000, 25000}, {0, 0, false, 0, 1000},   {200, 10000, false, 200, 200},
        {5000, 0, false, 5000, 5000},    {5000, 0, true, 0, 1000},
    };
    const mca_btl_base_module_t as_built = mca_btl_rawe_module_template;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
        const struct rawe_interface interface = {
            .name = "eth0", .loopback = cases[i].loopback, .speed_mbps = cases[i].driver};
        mca_btl_rawe_module_template.btl_bandwidth = cases[i].set;
        mca_btl_rawe_module_t *module = mca_btl_rawe_module_new(&interface, false);
        assert_non_null(module);
        assert_int_equal(module->address.speed_mbps, cases[i].speed);
        assert_int_equal(module->super.btl_bandwidth, cases[i].bandwidth);
        assert_int_equal(mca_btl_rawe_finalize(&module->super), OPAL_SUCCESS);
    }
    mca_btl_rawe_module_template = as_built;
}

/** Users may set limits that exceed the length field on the wire, or memory. */
TEST(mca_btl_rawe_module_new__bounds_the_limits_that_users_set)
{
    static const struct {
        size_t eager, rendezvous, most;          /* values set */
        size_t eager_is, rendezvous_is, most_is; /* the module's values */
    } cases[] = {
        {4096, 1024, 65536, 4096, 1024, 65536},
        {0, 1024, 0, 256, 256, 256},
        {SIZE_MAX, 1024, 65536, 16 << 20, 1024, 16 << 20},
        {4096, 1024, SIZE_MAX, 4096, 1024, 16 << 20},
    };
    const struct rawe_interface lo = {.name = "lo", .loopback = true};
    const mca_btl_base_module_t as_built = mca_btl_rawe_module_template;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
        mca_btl_rawe_module_template.btl_eager_limit = cases[i].eager;
        mca_btl_rawe_module_template.btl_rndv_eager_limit = cases[i].rendezvous;
        mca_btl_rawe_module_template.btl_max_send_size = cases[i].most;
        mca_btl_rawe_module_t *module = mca_btl_rawe_module_new(&lo, false);
        assert_non_null(module);
        assert_int_equal(module->super.btl_eager_limit, cases[i].eager_is);
        assert_int_equal(module->super.btl_rndv_eager_limit, cases[i].rendezvous_is);
        assert_int_equal(module->super.btl_max_send_size, cases[i].most_is);
        assert_int_equal(mca_btl_rawe_finalize(&module->super), OPAL_SUCCESS);
    }
    mca_btl_rawe_module_template = as_built;
}

/** Start no responder: both ports are already open. */
int rawe_responder_start(struct rawe_responder **responder, struct rawe_port *wire,
                         const struct rawe_port_config *config, const uint8_t mac[RAWE_MAC_BYTES],
                         const struct rawe_responder_duty *duty, struct rawe_service *service,
                         struct rawe_port_error *error)
{
    rawe_port_close(wire);
    return rawe_port_failed(error, "not in this test", EINVAL);
}

/** A UDP port is no secret: /proc/net/udp shows it, and other hosts can scan for it. */
TEST(mca_btl_rawe_module_open_responder__a_udp_port_does_not_tell_the_key)
{
    const unsigned tries = 12, min = 32768, range = 28000; /* the defaults */
    unsigned guessed = 0;

    mca_btl_rawe_params.udp_port_min = min;
    mca_btl_rawe_params.udp_port_range = range;
    for (unsigned i = 0; i < tries; ++i) {
        struct rawe_interface lo = {.name = "udp-a", .loopback = true, .mtu_bytes = 16384};
        lo.name[4] = (char)('a' + i);
        mca_btl_rawe_module_t *module = mca_btl_rawe_module_new(&lo, true);
        assert_non_null(module);
        assert_false(mca_btl_rawe_module_open_responder(module));
        assert_in_range(module->address.port, min, min + range - 1);
        guessed += module->address.port - min == module->address.key % (range - 1);
        rawe_port_close(module->link);
        module->link = NULL;
        assert_int_equal(mca_btl_rawe_finalize(&module->super), OPAL_SUCCESS);
    }
    /* By chance, one in 27999 ports would be right. */
    assert_in_range(guessed, 0, 1);
}
