/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of lingering in MPI_Finalize: all modules make progress until every endpoint is done.
 * Progress is fake: an endpoint of one module is done once another module has made progress.
 */
#include "btl_rawe_lifecycle.h"

#include <limits.h>
#include <string.h>
#include <time.h>

#include "btl_rawe_endpoint.h"
#include "btl_rawe_fanout.h"
#include "btl_rawe_help.h"
#include "btl_rawe_lock.h"
#include "btl_rawe_module.h"
#include "btl_rawe_multicast.h"
#include "btl_rawe_params.h"
#include "btl_rawe_proc.h"
#include "btl_rawe_progress.h"
#include "btl_rawe_routes.h"
#include "btl_rawe_send.h"
#include "fake_ompi.h"

#define MODULES 3u
#define LO 2u /**< index of lo's module, which is not open */
#define MS 1000000ull

static mca_btl_rawe_module_t modules[MODULES];
static mca_btl_base_endpoint_t endpoints[2];
static struct rawe_peer suspected; /**< a peer whose route is in doubt */
static unsigned driven[MODULES];
static unsigned asked[2];
static unsigned done_after; /**< progress calls of the second module before the peer is done */
static bool loses;          /**< the peer never acknowledges everything */
static bool receives;       /**< each progress call receives something */
static bool soon_lost;      /**< the second endpoint reports loss the first time only */
static bool fenced;         /**< the job has passed a fence in MPI_Finalize */
static enum rawe_needs needed[2];
static unsigned routes_checks, repairs;
static unsigned groups_driven; /**< progress calls for groups, before the engines finalize */
static unsigned last_repaired; /**< groups_driven at the last repair */
static opal_proc_t procs[2];
static opal_vpid_t departs;      /**< the runtime reports the end of this process ... */
static unsigned departure_after; /**< ... after this many progress calls of the second module */

void mca_btl_rawe_routes_check(bool may_say)
{
    assert_true(may_say);
    routes_checks++;
}

void mca_btl_rawe_fanout_repair(void)
{
    atomic_store(&mca_btl_rawe_state.fanout_repair, 0);
    last_repaired = groups_driven;
    repairs++;
}

bool mca_btl_rawe_compat_fenced(void)
{
    return fenced;
}

bool mca_btl_rawe_proc_died(opal_process_name_t name)
{
    return name.vpid == departs && driven[1] >= departure_after;
}

/** Fake: the first module's peer is done once data has arrived on the second module's link. */
enum rawe_finalized rawe_peer_finalized(struct rawe_peer *peer, enum rawe_needs needs,
                                        uint64_t now_ns)
{
    const mca_btl_base_endpoint_t *endpoint = &endpoints[peer != &endpoints[0].peer];

    needed[endpoint - endpoints] = needs;
    assert_int_equal(now_ns, fake_ompi.now_ns);
    asked[endpoint - endpoints]++;
    if (endpoint != &endpoints[0]) {
        return soon_lost && asked[1] == 1 ? RAWE_FINALIZED_LOST : RAWE_FINALIZED_DONE;
    }
    return driven[1] < done_after ? RAWE_FINALIZED_NOT
           : loses                ? RAWE_FINALIZED_LOST
                                  : RAWE_FINALIZED_DONE;
}

unsigned mca_btl_rawe_module_progress(mca_btl_rawe_module_t *module, bool poll_clock)
{
    assert_true(poll_clock);
    /* The PML is closed for all modules. */
    assert_true(modules[0].engine.finalizing && modules[1].engine.finalizing);
    assert_true(modules[0].engine.deferral->discards && modules[1].engine.deferral->discards);
    driven[module - modules]++;
    fake_ompi.now_ns += MS;
    return receives;
}

int __wrap_nanosleep(const struct timespec *request, struct timespec *remaining);
int __wrap_nanosleep(const struct timespec *request, struct timespec *remaining)
{
    assert_int_equal(request->tv_sec, 0);
    assert_null(remaining);
    return 0;
}

static unsigned groups_last; /**< progress calls until all groups are done */

/* Fake: all groups are done after `groups_last` progress calls. */
bool mca_btl_rawe_multicast_done(void)
{
    return groups_driven >= groups_last;
}

unsigned mca_btl_rawe_multicast_progress(const mca_btl_rawe_module_t *module, bool poll_clock,
                                         bool deferring)
{
    assert_true(module->open && deferring); /* the PML is closed */
    assert_false(module->engine.finalizing);
    groups_driven += module == &modules[0];
    fake_ompi.now_ns += 100 * MS;
    return 0;
}

bool mca_btl_rawe_module_defer(mca_btl_rawe_module_t *module, unsigned frames_max)
{
    assert_true(module->open);
    return false;
}

static void set_up(void)
{
    groups_last = groups_driven = 0;
    fake_ompi_begin();
    memset(modules, 0, sizeof(modules));
    memset(endpoints, 0, sizeof(endpoints));
    memset(driven, 0, sizeof(driven));
    memset(asked, 0, sizeof(asked));
    fake_ompi.now_ns = 1000 * MS;
    done_after = 1;
    receives = loses = soon_lost = fenced = false;
    departs = OPAL_VPID_INVALID;
    departure_after = 0;
    routes_checks = repairs = 0;
    rawe_handle_table_init(&mca_btl_rawe_state.handles, 1);
    for (unsigned i = 0; i < MODULES; ++i) {
        unit_module_start(&modules[i], &mca_btl_rawe_state.handles);
        modules[i].open = LO != i;
        memcpy(modules[i].interface.name, "eth0", 5);
    }
    for (unsigned i = 0; i < 2; ++i) {
        OBJ_CONSTRUCT(&endpoints[i], opal_list_item_t);
        endpoints[i].module = &modules[i];
        procs[i].proc_name = (opal_process_name_t){.jobid = OPAL_PROC_MY_NAME.jobid, .vpid = i};
        endpoints[i].proc = &procs[i];
        opal_list_append(&modules[i].endpoints, &endpoints[i].super);
    }
}

static void tear_down(void)
{
    for (unsigned i = 0; i < MODULES; ++i) {
        unit_module_stop(&modules[i]);
    }
    rawe_handle_table_free(&mca_btl_rawe_state.handles);
}

/** Linger as if for the first time. The peer is done after `calls` progress calls. */
static void linger(unsigned calls)
{
    mca_btl_rawe_state.finalizing = false;
    memset(driven, 0, sizeof(driven));
    done_after = calls;
    mca_btl_rawe_linger();
}

FIXTURE(set_up, tear_down);

/** A starved peer may still need data in flight, so only the endpoints' time limits apply. */
TEST(mca_btl_rawe_linger__drives_all_that_are_open_however_long)
{
    for (unsigned i = 0; i < 2; ++i) {
        receives = 0 != i; /* first nothing is received, then much */
        memset(asked, 0, sizeof(asked));
        linger(5000);
        assert_int_equal(driven[0], 5000);
        assert_int_equal(driven[1], 5000);
        assert_int_equal(driven[LO], 0);
        assert_int_equal(asked[0], 5000);
        assert_int_equal(asked[1], 5000);
        assert_int_equal(fake_ompi.shown, 0);
    }
}

TEST(mca_btl_rawe_linger__waits_for_each_of_a_module)
{
    opal_list_remove_item(&modules[1].endpoints, &endpoints[1].super);
    opal_list_append(&modules[0].endpoints, &endpoints[1].super);
    linger(5);
    assert_int_equal(driven[0], 5);
    assert_int_equal(asked[1], 5);
}

TEST(mca_btl_rawe_linger__does_not_wait_for_the_lost)
{
    endpoints[0].lost = true;
    linger(100);
    assert_int_equal(driven[0], 1);
    assert_int_equal(asked[0], 0);
}

/** After a fence, no process needs anything, unless connected jobs still exchange messages. */
TEST(mca_btl_rawe_linger__knows_what_a_fence_means)
{
    static const struct {
        bool fenced, connected;
        enum rawe_needs needed[2];
    } cases[] = {{false, false, {RAWE_NEEDS_ALL, RAWE_NEEDS_ALL}},
                 {true, false, {RAWE_NEEDS_NONE, RAWE_NEEDS_NONE}},
                 {true, true, {RAWE_NEEDS_ALL, RAWE_NEEDS_DATA}}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
        fenced = cases[i].fenced;
        procs[1].proc_name.jobid += cases[i].connected;
        linger(1);
        assert_memory_equal(needed, cases[i].needed, sizeof(needed));
    }
}

/** Other members may lack the last Bcast unless a fence shows that all have returned from it. */
TEST(mca_btl_rawe_linger__stays_for_groups_without_a_fence)
{
    static const struct {
        bool fenced;
        unsigned timeout_s, last, driven;
    } cases[] = {{true, 3, 10, 0},     {false, 3, 10, 10},    {false, 3, 0, 0},
                 {false, 3, 1000, 15}, {false, 0, 1000, 150}, {false, 300, 1000, 150}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
        tear_down();
        set_up();
        fenced = cases[i].fenced;
        groups_last = cases[i].last;
        mca_btl_rawe_params.peer_timeout = cases[i].timeout_s;
        linger(1);
        assert_int_equal(groups_driven, cases[i].driven);
        assert_int_equal(driven[0], 1);
    }
}

/** If another rank of this host exits first, the fanout group breaks and frames stop arriving. */
TEST(mca_btl_rawe_linger__repairs_sockets_while_groups_are_driven)
{
    groups_last = 10;
    mca_btl_rawe_params.peer_timeout = 3;
    atomic_store(&mca_btl_rawe_state.fanout_repair, 1);
    last_repaired = UINT_MAX;
    linger(1);
    assert_int_equal(repairs, 1);
    assert_int_equal(last_repaired, 0);
}

/** The runtime reports the process's end before rawe itself notices the loss. */
TEST(mca_btl_rawe_linger__does_not_wait_for_a_process_that_departs)
{
    departs = 0;
    departure_after = 3;
    linger(100);
    assert_int_equal(driven[0], 3);
    assert_int_equal(asked[0], 2);
    assert_int_equal(fake_ompi.shown, 0);
}

/** A fault-tolerant program learns of losses from errors; a live peer notices our silence. */
TEST(mca_btl_rawe_linger__reports_no_loss_in_a_fault_tolerant_job)
{
    loses = fake_ompi.fault_tolerant = true;
    mca_btl_rawe_linger();
    assert_int_equal(fake_ompi.shown, 0);
    assert_int_equal(fake_ompi.said, 1);
    assert_non_null(strstr(fake_ompi.text, "has not acknowledged"));
}

TEST(mca_btl_rawe_linger__says_what_may_be_lost)
{
    loses = true;
    mca_btl_rawe_linger();
    assert_int_equal(fake_ompi.shown, 1);
    fake_ompi_assert_shown("finalize_incomplete", "eth0");
    fake_ompi_assert_shown("finalize_incomplete", "rank 0");
    mca_btl_rawe_linger();
    assert_int_equal(fake_ompi.shown, 1);
}

/** Messages may still be acknowledged while rawe waits for another endpoint. */
TEST(mca_btl_rawe_linger__says_only_what_is_lost_in_the_end)
{
    soon_lost = true;
    linger(3);
    assert_int_equal(asked[1], 3);
    assert_int_equal(fake_ompi.shown, 0);
}

/** Ranks of this host may exit meanwhile, which breaks the fanout group that they share. */
TEST(mca_btl_rawe_linger__repairs_the_group)
{
    linger(5);
    assert_int_equal(repairs, 0);
    atomic_store(&mca_btl_rawe_state.fanout_repair, 1);
    linger(5);
    assert_int_equal(repairs, 1);
}

/** MPI_Finalize has freed any remaining windows, so PUTs must no longer write to them. */
TEST(mca_btl_rawe_linger__places_nothing_any_more)
{
    uint8_t memory[64];
    uint32_t index;
    uint64_t key;

    assert_true(rawe_handle_register(&mca_btl_rawe_state.handles, memory, sizeof(memory), &index,
                                     &key, RAWE_ACCESS_WRITE));
    assert_non_null(rawe_handle_resolve(&mca_btl_rawe_state.handles, index, key, 0, sizeof(memory),
                                        RAWE_ACCESS_WRITE));
    mca_btl_rawe_linger();
    assert_null(rawe_handle_resolve(&mca_btl_rawe_state.handles, index, key, 0, sizeof(memory),
                                    RAWE_ACCESS_WRITE));
}

TEST(mca_btl_rawe_linger__reports_nothing_any_more)
{
    mca_btl_rawe_fragment_t fragment;

    rawe_list_append(&mca_btl_rawe_state.complete, &fragment.complete);
    mca_btl_rawe_linger();
    assert_true(rawe_list_empty(&mca_btl_rawe_state.complete));
}

TEST(mca_btl_rawe_linger__has_none_opened_any_more)
{
    mca_btl_rawe_linger();
    for (unsigned i = 0; i < MODULES; ++i) {
        assert_true(modules[i].closing);
    }
}

/** A cable may have been pulled just before MPI_Finalize, so the routes are still checked. */
TEST(mca_btl_rawe_linger__leaves_routes_that_are_down)
{
    linger(3);
    assert_int_equal(routes_checks, 0);
    mca_btl_rawe_state.failover.suspected = &suspected;
    linger(3);
    assert_int_equal(routes_checks, 3);
}

static unsigned performed;

/** Stand in for a send, which must run before the engines are finalizing. */
static void perform(struct mca_btl_rawe_work *work)
{
    assert_false(modules[0].engine.finalizing);
    performed++;
}

/** A thread that entered alone does not check for handed-over work, so lingering must. */
TEST(mca_btl_rawe_linger__begins_with_what_was_handed_over)
{
    struct mca_btl_rawe_work work = {.perform = perform};

    performed = 0;
    mca_btl_rawe_lock();
    mca_btl_rawe_lock_hand_over(&work);
    mca_btl_rawe_unlock();
    mca_btl_rawe_linger();
    assert_int_equal(performed, 1);
}
