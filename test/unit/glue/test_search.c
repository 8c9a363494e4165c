/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the search for paths, by add_procs. bml/r2 calls it with its lock held, while a callback
 * inside an engine may be waiting for it. The responder and the records of processes are fake.
 */
#include "btl_rawe_search.h"

#include <pthread.h>
#include <string.h>
#include <sys/param.h>

#include "btl_rawe_contact.h"
#include "btl_rawe_help.h"
#include "btl_rawe_lock.h"
#include "btl_rawe_params.h"
#include "unit_callback.h"
#include "unit_contact.h"

#define TIMEOUT_MS 10000u

/* The state of the peers' host. */
static bool local;               /**< the peers are on this host */
static bool host_silent;         /**< their host has failed to answer before */
static bool host_beyond;         /**< their host has been found over UDP only */
static uint32_t heard_mtu_bytes; /**< MTU of the path that the host was heard on; 0: never heard */
static bool other_follow;        /**< another module has yet to try the peers */

bool mca_btl_rawe_endpoint_elsewhere(const mca_btl_rawe_module_t *of, opal_process_name_t name)
{
    return false;
}

bool mca_btl_rawe_module_open_if_needed(mca_btl_rawe_module_t *of)
{
    return of == &module;
}

void mca_btl_rawe_failures_report(void)
{
    fail_msg("sockets could not be opened");
}

unsigned mca_btl_rawe_proc_wait(const opal_proc_t *proc, struct mca_btl_rawe_published *out)
{
    *out = theirs;
    return theirs.count;
}

bool mca_btl_rawe_proc_is_local(const struct mca_btl_rawe_published *published)
{
    return local;
}

/** The search asks about the peers' host, as seen by its own module. */
static void assert_theirs(uint64_t host, unsigned module_index)
{
    assert_int_equal(host, THEIR_HOST);
    assert_int_equal(module_index, module.address.index);
}

bool mca_btl_rawe_proc_host_silent(uint64_t host, unsigned module_index)
{
    assert_theirs(host, module_index);
    return host_silent;
}

void mca_btl_rawe_proc_note_silent(uint64_t host, unsigned module_index)
{
    assert_int_equal(host, THEIR_HOST);
    assert_in_range(module_index, 0, mca_btl_rawe_state.module_count - 1);
    host_silent = true;
}

bool mca_btl_rawe_proc_host_beyond(uint64_t host, unsigned module_index)
{
    assert_theirs(host, module_index);
    return host_beyond;
}

void mca_btl_rawe_proc_note_beyond(uint64_t host, unsigned module_index)
{
    assert_theirs(host, module_index);
    host_beyond = true;
}

void mca_btl_rawe_proc_note_heard(uint64_t host, unsigned module_index,
                                  const uint8_t mac[RAWE_MAC_BYTES], uint32_t mtu_bytes)
{
    assert_theirs(host, module_index);
    assert_memory_equal(mac, theirs.addresses[0].mac, RAWE_MAC_BYTES);
    host_silent = false;
    heard_mtu_bytes = mtu_bytes;
}

uint32_t mca_btl_rawe_proc_heard_mtu(uint64_t host, unsigned module_index,
                                     const uint8_t mac[RAWE_MAC_BYTES])
{
    return heard_mtu_bytes;
}

void mca_btl_rawe_proc_note_tried(opal_process_name_t name, unsigned module_index, bool reached)
{
    assert_int_equal(module_index, module.address.index);
    given_up = !reached && !other_follow;
}

struct mca_btl_rawe_words mca_btl_rawe_peer_text(const opal_proc_t *proc)
{
    return (struct mca_btl_rawe_words){"rank 1"};
}

static unsigned taken_back;

void rawe_responder_take_back(struct rawe_responder *responder, const struct rawe_ping_address *to)
{
    assert_memory_equal(to->mac, theirs.addresses[0].mac, RAWE_MAC_BYTES);
    taken_back++;
}

static mca_btl_base_endpoint_t *named; /**< Open MPI has its messages, and does not know its path */

mca_btl_base_endpoint_t *mca_btl_rawe_endpoint_named(const mca_btl_rawe_module_t *of,
                                                     opal_process_name_t name)
{
    assert_ptr_equal(of, &module);
    return named;
}

static bool shared_memory; /**< another BTL shares memory; if not, add_procs ignores no process */

bool mca_btl_rawe_compat_shared_memory(void)
{
    return shared_memory;
}

static unsigned introduced;   /**< endpoints introduced */
static bool known_elsewhere;  /**< another path leads to the process */
static uint32_t passed_bytes; /**< measured path MTU; 0: no answer */
static bool refuses;          /**< the process has given us up */
static uint32_t limit_bytes;  /**< limit set for the endpoint's frames */

void mca_btl_rawe_endpoint_introduce(mca_btl_base_endpoint_t *which)
{
    assert_ptr_equal(which, &endpoint);
    introduced++;
}

void mca_btl_rawe_endpoint_limit_mtu(mca_btl_base_endpoint_t *which, uint32_t mtu_bytes)
{
    assert_ptr_equal(which, &endpoint);
    limit_bytes = mtu_bytes;
}

static bool is_inside;           /**< another thread is in an engine */
static uint64_t searched_ns[2];  /**< how long the searches for paths wait for any answer */
static uint64_t search_limit_ns; /**< how long the last one may take */
static struct rawe_path searched[8];
static uint8_t searched_macs[8][RAWE_MAC_BYTES];
static unsigned searched_paths; /**< paths in the last search */
static unsigned searches;
static uint32_t heard_meanwhile_bytes; /**< another process of the host answers during the search */
static bool udp_answers; /**< the last path, an indirect check, leads to the process */

/** Set `*context` if another thread can send and look up an endpoint during the search. */
static void *beside_main(void *context)
{
    bool *free = context;

    *free = mca_btl_rawe_enter();
    if (*free) {
        mca_btl_rawe_unlock();
        *free = 0 == opal_mutex_trylock(&module.endpoints_lock);
    }
    if (*free) {
        opal_mutex_unlock(&module.endpoints_lock);
        *free = 0 == opal_mutex_trylock(&mca_btl_rawe_state.routes_lock);
    }
    if (*free) {
        opal_mutex_unlock(&mca_btl_rawe_state.routes_lock);
    }
    return NULL;
}

void rawe_responder_discover(struct rawe_responder *responder, struct rawe_path *paths,
                             const struct rawe_path_target *targets, unsigned count,
                             uint64_t timeout_ns)
{
    pthread_t thread;
    bool free = false;

    assert_in_range(count, 1, 8);
    searched_paths = count;
    for (unsigned i = 0; i < count; ++i) {
        searched[i] = paths[i];
        memcpy(searched_macs[i], targets[i].to.mac, RAWE_MAC_BYTES);
    }
    for (unsigned i = 0; i < count; ++i) {
        paths[i].reachable = udp_answers && i == count - 1;
    }
    paths[0].reachable = paths[0].reachable || 0 != passed_bytes;
    paths[0].refused = refuses;
    heard_mtu_bytes = MAX(heard_mtu_bytes, heard_meanwhile_bytes);
    paths[0].process_known = known_elsewhere;
    paths[0].mtu_passed_bytes = passed_bytes;
    assert_in_range(searches, 0, 1);
    searched_ns[searches++] = paths[0].silence_ns;
    search_limit_ns = timeout_ns;
    assert_int_equal(pthread_create(&thread, NULL, beside_main, &free), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(free != is_inside);
}

static void set_up(void)
{
    unit_contact_begin();
    mca_btl_rawe_params.connect_timeout_ms = TIMEOUT_MS;
    mca_btl_rawe_params.peer_timeout = 5;
    local = host_silent = host_beyond = other_follow = false;
    searches = searched_paths = heard_mtu_bytes = 0;
    introduced = passed_bytes = limit_bytes = 0;
    is_inside = udp_answers = shared_memory = false;
    heard_meanwhile_bytes = 0;
    named = NULL;
}

FIXTURE(set_up, unit_contact_end);

static void add(void)
{
    opal_proc_t *proc = OBJ_NEW(opal_proc_t);
    mca_btl_base_endpoint_t *found;

    assert_int_equal(mca_btl_rawe_add_procs(&module.super, 1, &proc, &found, NULL), OPAL_SUCCESS);
    assert_null(found);
    OBJ_RELEASE(proc);
    assert_int_equal(opened, 0);
}

/** Call add_procs for a process that has published `theirs`. Returns its endpoint, or NULL. */
static mca_btl_base_endpoint_t *introduce(void)
{
    opal_proc_t *proc = &peer_proc;
    mca_btl_base_endpoint_t *found;

    endpoint.proc = proc;
    assert_int_equal(mca_btl_rawe_add_procs(&module.super, 1, &proc, &found, NULL), OPAL_SUCCESS);
    return found;
}

/** The search for a silent host holds no lock that other threads need. */
TEST(mca_btl_rawe_add_procs__holds_up_no_other_thread)
{
    mca_btl_rawe_params.connect_timeout_ms = 0;
    add();
    assert_int_equal(searches, 1);
    assert_int_equal(fake_ompi.shown, 1);
    fake_ompi_assert_shown("peer_unreachable", "1000 ms");
}

TEST(mca_btl_rawe_add_procs__names_the_ports_that_a_firewall_has_to_let_pass)
{
    module.address.udp = theirs.addresses[0].udp = MCA_BTL_RAWE_UDP_IPV4;
    mca_btl_rawe_params.udp_port_min = 40000;
    mca_btl_rawe_params.udp_port_range = 1000;
    add();
    assert_int_equal(fake_ompi.shown, 1);
    fake_ompi_assert_shown("peer_unreachable_udp", "40000 to 40999");
}

/** A module for UDP does not search for a process that has published no address for UDP. */
TEST(mca_btl_rawe_add_procs__reports_what_no_other_module_searches_for)
{
    mca_btl_rawe_state.modules[mca_btl_rawe_state.module_count++] = &lo;
    lo.address.udp = true;
    lo.address.index = 1;
    add();
    assert_int_equal(fake_ompi.shown, 1);
    fake_ompi_assert_shown("peer_unreachable", "10000 ms");
}

/** An address of another version of IP is not tried. */
TEST(mca_btl_rawe_add_procs__passes_over_the_other_version_of_ip)
{
    module.address.udp = MCA_BTL_RAWE_UDP_IPV4;
    theirs.addresses[0].udp = MCA_BTL_RAWE_UDP_IPV6;
    add();
    assert_int_equal(searches, 0);
}

/** Before ob1 answers a long message, it must know the module, or else it ends the job. */
TEST(mca_btl_rawe_add_procs__introduces_a_sender_whose_path_the_search_misses)
{
    named = &endpoint;
    taken_back = 0;
    assert_ptr_equal(introduce(), &endpoint);
    assert_int_equal(searches, 1);
    assert_int_equal(introduced, 1);
    assert_int_equal(taken_back, 1); /* it may have sent after the search began */
    assert_int_equal(fake_ompi.shown, 0);
    theirs.count = 0; /* nor does it matter why there is no search */
    assert_ptr_equal(introduce(), &endpoint);
    assert_int_equal(searches, 1);
    assert_int_equal(introduced, 2);
}

TEST(mca_btl_rawe_add_procs__tells_mpi_init_which_senders_it_introduced)
{
    opal_proc_t *proc = &peer_proc;
    mca_btl_base_endpoint_t *found;
    opal_bitmap_t reachable;

    OBJ_CONSTRUCT(&reachable, opal_bitmap_t);
    opal_bitmap_init(&reachable, 1);
    named = &endpoint;
    assert_int_equal(mca_btl_rawe_add_procs(&module.super, 1, &proc, &found, &reachable),
                     OPAL_SUCCESS);
    assert_ptr_equal(found, &endpoint);
    assert_true(opal_bitmap_is_set_bit(&reachable, 0));
    OBJ_DESTRUCT(&reachable);
}

TEST(mca_btl_rawe_add_procs__leaves_a_sender_to_shared_memory)
{
    opal_proc_t *proc = OBJ_NEW(opal_proc_t);
    mca_btl_base_endpoint_t *found;

    named = &endpoint;
    shared_memory = true;
    proc->proc_flags = OPAL_PROC_ON_NODE;
    proc->proc_name.jobid = OPAL_PROC_MY_NAME.jobid;
    assert_int_equal(mca_btl_rawe_add_procs(&module.super, 1, &proc, &found, NULL), OPAL_SUCCESS);
    assert_null(found);
    assert_int_equal(introduced, 0);
    OBJ_RELEASE(proc);
}

/** Raw frames get their time once per host, not for each process, until they pass. */
TEST(mca_btl_rawe_add_procs__remembers_a_host_that_only_udp_reaches)
{
    mca_btl_rawe_state.modules[mca_btl_rawe_state.module_count++] = &lo;
    lo.address.index = 1;
    lo.address.udp = theirs.addresses[1].udp = MCA_BTL_RAWE_UDP_IPV4;
    theirs.addresses[1].mtu_bytes = 1472;
    memcpy(theirs.addresses[1].mac, (uint8_t[]){2, 4, 10, 0, 0, 1}, RAWE_MAC_BYTES);
    theirs.count = 2;
    udp_answers = true;
    assert_null(introduce());
    assert_int_equal(searched_paths, 2);
    assert_true(searched[1].indirect && searched[1].fallback && !searched[0].deprioritized);
    assert_null(introduce());
    assert_true(searched[1].indirect && !searched[1].fallback && searched[0].deprioritized);
}

TEST(mca_btl_rawe_add_procs__remembers_no_host_that_raw_frames_reach)
{
    mca_btl_rawe_state.modules[mca_btl_rawe_state.module_count++] = &lo;
    lo.address.index = 1;
    lo.address.udp = theirs.addresses[1].udp = MCA_BTL_RAWE_UDP_IPV4;
    memcpy(theirs.addresses[1].mac, (uint8_t[]){2, 4, 10, 0, 0, 1}, RAWE_MAC_BYTES);
    theirs.count = 2;
    udp_answers = true;
    passed_bytes = 1500;
    assert_ptr_equal(introduce(), &endpoint);
    assert_false(host_beyond);
}

/** A silent host is waited for once, not once per process. */
TEST(mca_btl_rawe_add_procs__waits_for_a_silent_host_once)
{
    add();
    add();
    assert_int_equal(searched_ns[0], TIMEOUT_MS * 1000000ull);
    assert_int_equal(searched_ns[1], MCA_BTL_RAWE_BRIEF_MS * 1000000ull);
}

/** The NIC between a board and its BMC has the same MAC on many hosts, and reaches none of them. */
TEST(mca_btl_rawe_add_procs__seeks_a_host_with_a_mac_of_ours_by_its_others)
{
    theirs.count = 2;
    theirs.addresses[1] = theirs.addresses[0];
    memcpy(theirs.addresses[0].mac, module.address.mac, RAWE_MAC_BYTES);
    mca_btl_rawe_state.modules[mca_btl_rawe_state.module_count++] = &lo;
    lo.interface.loopback = true;
    add();
    assert_int_equal(searched_paths, 2);
    assert_memory_equal(searched_macs[1], theirs.addresses[1].mac, RAWE_MAC_BYTES);
    /* The search is short if another of our interfaces reaches the process. */
    assert_true(searched[0].deprioritized && searched[1].deprioritized);
    theirs.addresses[0].mac[5] ^= 0x80;
    add();
    assert_false(searched[0].deprioritized || searched[1].deprioritized);
}

TEST(mca_btl_rawe_add_procs__seeks_a_process_of_this_host_on_lo)
{
    local = true;
    theirs.addresses[0] = (struct mca_btl_rawe_address){.mtu_bytes = 65536};
    add();
    assert_int_equal(searches, 0);
    module.interface.loopback = true;
    module.address = (struct mca_btl_rawe_address){.mtu_bytes = 65536};
    /* lo itself cannot fail: a process that does not answer may be stopped. */
    assert_ptr_equal(introduce(), &endpoint);
    assert_int_equal(searches, 1);
    assert_int_equal(opened_mtu_bytes, 65536);
}

/** Open MPI would keep an endpoint without BTLs, and ob1 would dereference a null pointer. */
TEST(mca_btl_rawe_add_procs__ends_the_job_where_nothing_is_left)
{
    fake_ompi.alone = true;
    add();
    assert_int_equal(fake_ompi.shown, 1);
    fake_ompi_assert_shown("peer_unreachable", "10000 ms");
    assert_int_equal(fake_ompi.errors, 1);
    theirs.count = 0; /* the process does not use rawe */
    add();
    assert_int_equal(fake_ompi.shown, 1);
    fake_ompi_assert_shown("peer_unreachable", "10000 ms");
    assert_int_equal(fake_ompi.errors, 2);
    assert_null(fake_ompi.blamed); /* a fault-tolerant job would go on without a blamed process */
    assert_non_null(strstr(fake_ompi.error, "cannot reach rank 1 on there"));
}

TEST(mca_btl_rawe_add_procs__leaves_a_process_to_what_is_left)
{
    add(); /* another BTL may reach it */
    fake_ompi.alone = other_follow = true;
    add(); /* another of our interfaces may reach it */
    assert_int_equal(fake_ompi.errors, 0);
}

/** MPI_Init itself reports unreachable processes, so rawe does not. */
TEST(mca_btl_rawe_add_procs__tells_mpi_init_what_is_not_reached)
{
    opal_proc_t *proc = OBJ_NEW(opal_proc_t);
    mca_btl_base_endpoint_t *found;
    opal_bitmap_t reachable;

    OBJ_CONSTRUCT(&reachable, opal_bitmap_t);
    opal_bitmap_init(&reachable, 1);
    fake_ompi.alone = true;
    assert_int_equal(mca_btl_rawe_add_procs(&module.super, 1, &proc, &found, &reachable),
                     OPAL_SUCCESS);
    assert_false(opal_bitmap_is_set_bit(&reachable, 0));
    assert_int_equal(fake_ompi.errors, 0);
    OBJ_DESTRUCT(&reachable);
    OBJ_RELEASE(proc);
}

/** The host has answered before, so a silent process may be stopped, or its cable pulled. */
TEST(mca_btl_rawe_add_procs__trusts_a_path_that_its_host_was_heard_by)
{
    passed_bytes = 1500;
    assert_ptr_equal(introduce(), &endpoint);
    passed_bytes = 0;
    fake_ompi.alone = true;
    assert_ptr_equal(introduce(), &endpoint);
    assert_int_equal(introduced, 2);
    assert_int_equal(opened_mtu_bytes, 1500);
    assert_int_equal(searched_ns[1], MCA_BTL_RAWE_BRIEF_MS * 1000000ull);
    assert_int_equal(fake_ompi.errors, 0);
    assert_int_equal(fake_ompi.shown, 0);
}

/** The process answers on another path, so it is not stopped: only this path is silent. */
TEST(mca_btl_rawe_add_procs__trusts_no_path_of_a_process_that_others_reach)
{
    passed_bytes = 1500;
    assert_ptr_equal(introduce(), &endpoint);
    passed_bytes = 0;
    known_elsewhere = true;
    assert_null(introduce());
    known_elsewhere = false;
}

static uint64_t search_of_a_silent_host(void)
{
    searches = 0;
    host_silent = false;
    add();
    return searched_ns[0];
}

/**
 * Wait for the peer timeout if no other BTL could take over, or the interface has reached any peer;
 * else as the user says, or briefly.
 */
TEST(mca_btl_rawe_add_procs__has_patience_for_what_may_be_stopped)
{
    static const struct {
        uint64_t set_ms;
        bool alone, reached_others;
        uint64_t silence_ms, limit_ms;
    } cases[] = {
        {0, true, false, 30000, 30000},   {60000, true, false, 60000, 60000},
        {0, false, false, 1000, 10000},   {60000, false, false, 60000, 60000},
        {200, false, false, 200, 200},    {0, false, true, 30000, 30000},
        {200, false, true, 30000, 30000},
    };

    mca_btl_rawe_params.peer_timeout = 300;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
        mca_btl_rawe_params.connect_timeout_ms = cases[i].set_ms;
        fake_ompi.alone = cases[i].alone;
        module.reached_any = cases[i].reached_others;
        assert_int_equal(search_of_a_silent_host(), cases[i].silence_ms * 1000000);
        assert_int_equal(search_limit_ns, cases[i].limit_ms * 1000000);
    }
    assert_int_equal(fake_ompi.errors, 2);
}

/** A process that is left to another BTL must be told, or ends the job when it connects. */
TEST(mca_btl_rawe_add_procs__gives_up_where_another_btl_is_left)
{
    static const struct {
        const char *name;
        bool alone, heard, named, other_module;
        bool last_chance;
    } cases[] = {
        {"another BTL", false, false, false, false, true},
        {"no other BTL", true, false, false, false, false},
        {"used without an answer", false, true, false, false, false},
        {"has sent messages", false, false, true, false, false},
        {"another module follows", false, false, false, true, false},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
        unit_case(cases[i].name);
        fake_ompi.alone = cases[i].alone;
        heard_mtu_bytes = cases[i].heard ? 1500 : 0;
        named = cases[i].named ? &endpoint : NULL;
        lo.address.index = 1;
        mca_btl_rawe_state.modules[1] = &lo;
        mca_btl_rawe_state.module_count = cases[i].other_module ? 2 : 1;
        searches = 0;
        (void)introduce();
        assert_int_equal(searched[0].last_chance, cases[i].last_chance);
    }
}

/** The responder has already told it, so it will not use the path. */
TEST(mca_btl_rawe_add_procs__trusts_no_path_of_a_process_that_it_gives_up)
{
    heard_meanwhile_bytes = 1500;
    assert_null(introduce());
    assert_true(searched[0].last_chance);
    heard_mtu_bytes = 0;
    fake_ompi.alone = true; /* no process is given up */
    assert_ptr_equal(introduce(), &endpoint);
}

/** The refusal says nothing about other processes on the host. */
TEST(mca_btl_rawe_add_procs__keeps_a_host_of_which_a_process_refuses)
{
    theirs.addresses[1] = theirs.addresses[0];
    theirs.count = 2;
    refuses = true;
    add();
    refuses = false;
    assert_int_equal(searched_paths, 2);
    assert_false(host_silent);
    assert_int_equal(fake_ompi.shown, 0);
}

/** Introduce a process that already has an endpoint because it connected first. */
static void add_caller(void)
{
    passed_bytes = 1000;
    assert_ptr_equal(introduce(), &endpoint);
    assert_int_equal(limit_bytes, is_inside ? 0 : 1000);
}

/** The peer may have announced a larger MTU than the path carries. */
TEST(mca_btl_rawe_add_procs__heeds_the_path_of_one_that_called_before)
{
    add_caller();
}

TEST(mca_btl_rawe_add_procs__hands_over_what_it_has_measured)
{
    is_inside = true;
    unit_callback_beside(add_caller);
    assert_int_equal(limit_bytes, 1000);
}

/** Their CONNECTs are refused while the process is given up: see mca_btl_rawe_accept. */
TEST(mca_btl_rawe_add_procs__notes_whom_it_has_reached)
{
    add();
    assert_true(given_up);
    add_caller();
    assert_false(given_up);
}
