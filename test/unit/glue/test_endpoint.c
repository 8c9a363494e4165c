/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of endpoints whose peer is lost and comes back. The responder is fake and knows no process.
 */
#include "btl_rawe_endpoint.h"

#include <pthread.h>
#include <string.h>

#include "btl_rawe_deliver.h"
#include "btl_rawe_help.h"
#include "btl_rawe_lock.h"
#include "btl_rawe_module.h"
#include "btl_rawe_params.h"
#include "btl_rawe_proc.h"
#include "core/conn/rawe_conn.h"
#include "fake_ompi.h"

#define MODULES 2u
#define SILENT_NS 5000000000u

static mca_btl_rawe_module_t modules[MODULES];
static struct rawe_handle_table handles;
static opal_proc_t *proc;
static uint32_t passed_bytes;      /**< MTU of the validated path; 0: no path is validated */
static uint64_t absent_ns;         /**< time of the last answer that reported no progress */
static struct rawe_watch *watched; /**< the responder's watch; NULL: out of memory */

static uint8_t watched_mac[RAWE_MAC_BYTES]; /**< address of the last PING */

struct rawe_watch *rawe_responder_watch(struct rawe_responder *responder,
                                        const struct rawe_ping_address *to)
{
    memcpy(watched_mac, to->mac, RAWE_MAC_BYTES);
    return watched;
}

void rawe_responder_unwatch(struct rawe_responder *responder, struct rawe_watch *watch)
{
    assert_true(NULL == watch || watch == watched);
}

static unsigned pings;
static bool unanswered;

void rawe_responder_ping(struct rawe_responder *responder, struct rawe_watch *watch)
{
    assert_ptr_equal(watch, watched);
    pings++;
}

uint64_t rawe_watch_last_pong_ns(const struct rawe_watch *watch)
{
    return unanswered ? 0 : mca_btl_rawe_now_ns();
}

static uint8_t answers_from[RAWE_MAC_BYTES];

bool rawe_watch_answered_from(const struct rawe_watch *watch, uint8_t mac[RAWE_MAC_BYTES])
{
    memcpy(mac, answers_from, RAWE_MAC_BYTES);
    return !unanswered;
}

uint64_t rawe_watch_last_absent_ns(const struct rawe_watch *watch)
{
    return absent_ns;
}

struct rawe_validation *rawe_responder_validate(struct rawe_responder *responder,
                                                const struct rawe_ping_address *to,
                                                uint32_t mtu_bytes, uint64_t timeout_ns)
{
    assert_int_equal(mtu_bytes, 1500);
    return 0 == passed_bytes ? NULL : (struct rawe_validation *)&passed_bytes;
}

bool rawe_validation_result(const struct rawe_validation *validation, struct rawe_path *path)
{
    assert_ptr_equal(validation, &passed_bytes);
    path->mtu_passed_bytes = passed_bytes;
    return true;
}

void rawe_validation_end(struct rawe_responder *responder, struct rawe_validation *validation)
{
    assert_true(NULL == validation || (const void *)validation == &passed_bytes);
}

static mca_btl_base_endpoint_t *endpoint_on(unsigned index)
{
    const struct mca_btl_rawe_address address = {.mac = {2, 0, 0, 0, 0, (uint8_t)(1 + index)}};
    return mca_btl_rawe_endpoint_get(&modules[index], proc, &address, 1500);
}

/** Introduce a peer, as add_procs does once it has found a path. */
static mca_btl_base_endpoint_t *introduce_on(unsigned index)
{
    mca_btl_base_endpoint_t *endpoint = endpoint_on(index);
    assert_non_null(endpoint);
    mca_btl_rawe_endpoint_introduce(endpoint);
    return endpoint;
}

/** Fail the endpoint's connection, as when its peer has been silent for too long. */
static void give_up(mca_btl_base_endpoint_t *endpoint, unsigned lane)
{
    struct rawe_conn *conn = rawe_peer_conn(&endpoint->peer, lane);
    assert_non_null(conn);
    conn->handshake.state = RAWE_CONN_FAILED;
    mca_btl_rawe_failed(endpoint->module, conn, SILENT_NS);
}

/** Report a silent connection to a peer whose responder answers. */
static void be_silent(mca_btl_base_endpoint_t *endpoint)
{
    struct rawe_conn *conn = rawe_peer_conn(&endpoint->peer, 0);
    assert_non_null(conn);
    watched = (struct rawe_watch *)&proc;
    mca_btl_rawe_silent(endpoint->module, conn, SILENT_NS);
    fake_ompi.now_ns += SILENT_NS;
}

/** Report losses, as progress does at its end. */
static void report(void)
{
    mca_btl_rawe_endpoints_report_lost(mca_btl_rawe_endpoints_take_lost());
}

static void set_up(void)
{
    memcpy(answers_from, (uint8_t[]){2, 0, 0, 0, 0, 1}, RAWE_MAC_BYTES); /* endpoint_on(0)'s */
    unanswered = false;
    fake_ompi_begin();
    memset(modules, 0, sizeof(modules));
    fake_ompi.fault_tolerant = true;
    fake_ompi.now_ns = 1;
    passed_bytes = 0;
    absent_ns = 0;
    watched = NULL;
    proc = OBJ_NEW(opal_proc_t);
    proc->proc_name = (opal_process_name_t){.jobid = 7, .vpid = 3};
    rawe_handle_table_init(&handles, 1);
    OBJ_CONSTRUCT(&mca_btl_rawe_state.routes_lock, opal_mutex_t);
    mca_btl_rawe_proc_open();
    for (unsigned i = 0; i < MODULES; ++i) {
        unit_module_start(&modules[i], &handles);
    }
}

static void tear_down(void)
{
    for (unsigned i = 0; i < MODULES; ++i) {
        mca_btl_rawe_module_t *module = &modules[i];
        while (!opal_list_is_empty(&module->endpoints)) {
            mca_btl_rawe_endpoint_close(
                (mca_btl_base_endpoint_t *)opal_list_get_first(&module->endpoints));
        }
        unit_module_stop(module);
    }
    mca_btl_rawe_proc_close();
    OBJ_DESTRUCT(&mca_btl_rawe_state.routes_lock);
    rawe_handle_table_free(&handles);
    /* Each reference to the process has been released exactly once. */
    assert_int_equal(proc->super.super.obj_reference_count, 1);
    OBJ_RELEASE(proc);
}

FIXTURE(set_up, tear_down);

#define TAG 77u

static unsigned received; /**< messages passed to the callback for TAG */
static bool lock_free;    /**< another thread could enter the engines during the callback */

static void *enter_main(void *context)
{
    lock_free = mca_btl_rawe_enter();
    if (lock_free) {
        mca_btl_rawe_unlock();
    }
    return NULL;
}

static void note_received(const uint8_t *data, size_t len_bytes)
{
    pthread_t thread;

    assert_int_equal(len_bytes, 3);
    assert_memory_equal(data, "abc", 3);
    received++;
    assert_int_equal(pthread_create(&thread, NULL, enter_main, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/** Deliver a message from an endpoint's process, as progress does. */
static void deliver_from(mca_btl_base_endpoint_t *endpoint)
{
    struct rawe_conn conn = {.owner = endpoint};

    received = 0;
    fake_ompi_receive(TAG, note_received);
    mca_btl_rawe_lock();
    mca_btl_rawe_deliver(endpoint->module, &conn, TAG, (const uint8_t *)"abc", 3);
    struct mca_btl_rawe_message *deferred = mca_btl_rawe_take_deferred();
    mca_btl_rawe_unlock();
    mca_btl_rawe_deliver_deferred(deferred);
    fake_ompi_receive(TAG, NULL);
    assert_int_equal(received, 1);
}

/** A reply introduces the peer; it must not wait for a thread that is introducing a silent one. */
TEST(mca_btl_rawe_deliver__holds_no_lock_for_one_that_is_not_introduced)
{
    opal_set_using_threads(true);
    deliver_from(endpoint_on(0));
    assert_true(lock_free);
    introduce_on(1);                           /* on another interface */
    assert_null(mca_btl_rawe_take_deferred()); /* no message is left for progress */
    deliver_from(endpoint_on(0));
    assert_false(lock_free);
    opal_set_using_threads(false);
}

static void deliver_on(mca_btl_base_endpoint_t *endpoint)
{
    struct rawe_conn conn = {.owner = endpoint};

    mca_btl_rawe_lock();
    mca_btl_rawe_deliver(endpoint->module, &conn, TAG, (const uint8_t *)"abc", 3);
    mca_btl_rawe_unlock();
}

/** No message overtakes deferred ones, or those that a thread is about to deliver. */
TEST(mca_btl_rawe_deliver__behind_those_that_are_deferred)
{
    opal_set_using_threads(true);
    received = 0;
    fake_ompi_receive(TAG, note_received);
    deliver_on(endpoint_on(0));
    mca_btl_base_endpoint_t *introduced = introduce_on(1);
    deliver_on(introduced);
    assert_int_equal(received, 0);
    struct mca_btl_rawe_message *two = mca_btl_rawe_take_deferred();
    deliver_on(introduced);
    assert_null(mca_btl_rawe_take_deferred()); /* the two are not delivered yet */
    assert_int_equal(received, 0);
    mca_btl_rawe_deliver_deferred(two);
    assert_int_equal(received, 2);
    deliver_on(introduced);
    assert_int_equal(received, 2);
    mca_btl_rawe_deliver_deferred(mca_btl_rawe_take_deferred());
    assert_int_equal(received, 4);
    assert_null(mca_btl_rawe_take_deferred());
    deliver_on(introduced);
    assert_int_equal(received, 5);
    fake_ompi_receive(TAG, NULL);
    opal_set_using_threads(false);
}

TEST(mca_btl_rawe_deliver__delivers_at_once_without_threads)
{
    deliver_from(endpoint_on(0));
    assert_null(mca_btl_rawe_state.deferred_tail);
}

/** ob1 ends the job if a message that it answers by GET or PUT names a module unknown for its sender. */
TEST(mca_btl_rawe_deliver__names_a_module_that_open_mpi_knows_for_the_sender)
{
    deliver_from(endpoint_on(1));
    assert_ptr_equal(fake_ompi.received_on, &modules[1].super);
    introduce_on(0);
    deliver_from(endpoint_on(1));
    assert_ptr_equal(fake_ompi.received_on, &modules[0].super);
    introduce_on(1);
    deliver_from(endpoint_on(1));
    assert_ptr_equal(fake_ompi.received_on, &modules[1].super);
}

static mca_btl_base_endpoint_t *named_on(unsigned index)
{
    return mca_btl_rawe_endpoint_named(&modules[index], proc->proc_name);
}

/** ob1 may answer an unexpected message after it has introduced the sender, over what was named. */
TEST(mca_btl_rawe_deliver__keeps_in_mind_which_module_it_named_for_an_unknown_sender)
{
    mca_btl_base_endpoint_t *endpoint = endpoint_on(1);
    assert_null(named_on(1));
    deliver_from(endpoint);
    assert_ptr_equal(named_on(1), endpoint);
    assert_null(named_on(0));
    introduce_on(1);
    assert_null(named_on(1));
    mca_btl_rawe_endpoint_withdraw(endpoint);
    assert_null(named_on(1));
    introduce_on(0);
    deliver_from(endpoint); /* names the other module */
    assert_null(named_on(1));
}

TEST(mca_btl_rawe_endpoint_named__is_not_lost)
{
    mca_btl_base_endpoint_t *endpoint = endpoint_on(0);
    deliver_from(endpoint);
    endpoint->lost = true;
    assert_null(named_on(0));
}

/** It also does for messages that were deferred before the search for their sender ended. */
TEST(mca_btl_rawe_deliver__names_a_known_module_for_what_was_deferred)
{
    opal_set_using_threads(true);
    received = 0;
    fake_ompi_receive(TAG, note_received);
    deliver_on(endpoint_on(1));
    introduce_on(0);
    mca_btl_rawe_deliver_deferred(mca_btl_rawe_take_deferred());
    assert_int_equal(received, 1);
    assert_ptr_equal(fake_ompi.received_on, &modules[0].super);
    fake_ompi_receive(TAG, NULL);
    opal_set_using_threads(false);
}

TEST(mca_btl_rawe_endpoint_get__finds_the_one_there_is)
{
    mca_btl_base_endpoint_t *endpoint = introduce_on(0);
    assert_ptr_equal(endpoint_on(0), endpoint);
    assert_true(endpoint_on(1) != endpoint);
}

TEST(mca_btl_rawe_endpoint_get__a_lost_peer_begins_again)
{
    mca_btl_base_endpoint_t *before = introduce_on(0);
    give_up(before, RAWE_LANE_EXPRESS);
    report();
    before->in_use = false; /* as by del_procs inside progress, which does not close it */
    mca_btl_base_endpoint_t *again = introduce_on(0);
    assert_true(again != before);
    assert_false(again->lost);
    assert_ptr_equal(rawe_peer_next(&again->peer), &again->peer); /* no routes of the lost one */
    assert_int_equal(rawe_peer_conn(&again->peer, RAWE_LANE_EXPRESS)->handshake.state,
                     RAWE_CONN_IDLE);
    assert_ptr_equal(mca_btl_rawe_endpoint_find(&modules[0], proc->proc_name, again->address.port,
                                                again->address.key),
                     again);
    /* A second loss is reported as well. */
    give_up(again, RAWE_LANE_EXPRESS);
    report();
    assert_int_equal(fake_ompi.errors, 2);
}

/** Return the longest payload of a frame on a path. */
static uint32_t payload_bytes(uint32_t path_mtu_bytes)
{
    return (path_mtu_bytes - RAWE_FRAME_OVERHEAD_BYTES) / 8 * 8;
}

/** A peer that reaches us only by UDP is lost, too, but no raw frame takes its route. */
TEST(mca_btl_rawe_endpoint_get__raw_frames_and_udp_share_no_routes)
{
    const struct mca_btl_rawe_address address = {.mac = {2, 4, 10, 0, 0, 1}, .udp = true};
    mca_btl_base_endpoint_t *raw = introduce_on(0);
    mca_btl_base_endpoint_t *udp = mca_btl_rawe_endpoint_get(&modules[1], proc, &address, 1472);

    assert_non_null(udp);
    assert_ptr_equal(rawe_peer_next(&raw->peer), &raw->peer);
    assert_ptr_equal(rawe_peer_next(&udp->peer), &udp->peer);
    give_up(raw, RAWE_LANE_EXPRESS);
    assert_true(raw->lost && udp->lost);
    report();
    assert_true(udp->given_up);
}

TEST(mca_btl_rawe_endpoint_limit_mtu__bounds_all_frames)
{
    mca_btl_base_endpoint_t *endpoint = endpoint_on(0);
    const struct rawe_conn *before = rawe_peer_conn(&endpoint->peer, RAWE_LANE_EXPRESS);
    assert_int_equal(before->path.payload_max_bytes, payload_bytes(1500));
    mca_btl_rawe_endpoint_limit_mtu(endpoint, 1000);
    mca_btl_rawe_endpoint_limit_mtu(endpoint, 1400); /* the limit never rises */
    assert_int_equal(endpoint->path_mtu_bytes, 1000);
    assert_int_equal(before->path.payload_max_bytes, payload_bytes(1000));
    const struct rawe_conn *after = rawe_peer_conn(&endpoint->peer, RAWE_LANE_BULK);
    assert_int_equal(after->path.payload_max_bytes, payload_bytes(1000));
}

/** A loss is reported once, however it is noticed, and only if Open MPI may wait for the peer. */
TEST(mca_btl_rawe_failed__and_other_losses__who_hears_of_it)
{
    static const struct {
        const char *name;
        void (*lose)(void *context, struct rawe_conn *conn); /**< NULL: the peer is silent */
        bool introduced, fault_tolerant, alone;
        unsigned at_once, later; /**< errors before and after report() */
        const char *topic, *text;
    } cases[] = {
        {"most jobs end", NULL, true, false, false, 1, 1, "peer_lost", " 5 s\n"},
        {"the job goes on", NULL, true, true, false, 0, 1, NULL, NULL},
        {"given up", mca_btl_rawe_given_up, true, false, false, 1, 1, "given_up", ""},
        {"given up, goes on", mca_btl_rawe_given_up, true, true, false, 0, 1, NULL, NULL},
        {"data is lost", mca_btl_rawe_lost, true, false, false, 1, 1, "internal_error", "sending"},
        {"data is lost, goes on", mca_btl_rawe_lost, true, true, false, 0, 1, NULL, NULL},
        {"not introduced", NULL, false, true, false, 0, 0, NULL, NULL},
        {"not introduced, no other BTL", NULL, false, false, true, 0, 0, NULL, NULL},
        {"not introduced, given up", mca_btl_rawe_given_up, false, true, false, 0, 0, NULL, NULL},
        /* A job that continues may wait for messages from a peer that only sends. */
        {"only sends", NULL, false, true, true, 0, 1, NULL, NULL},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
        unit_case(cases[i].name);
        tear_down();
        set_up();
        fake_ompi.fault_tolerant = cases[i].fault_tolerant;
        fake_ompi.alone = cases[i].alone;
        mca_btl_base_endpoint_t *endpoint = cases[i].introduced ? introduce_on(0) : endpoint_on(0);
        if (NULL == cases[i].lose) {
            give_up(endpoint, RAWE_LANE_BULK);
        } else {
            cases[i].lose(&modules[0], rawe_peer_conn(&endpoint->peer, RAWE_LANE_BULK));
        }
        assert_int_equal(fake_ompi.errors, cases[i].at_once);
        give_up(endpoint, RAWE_LANE_EXPRESS);
        report();
        assert_int_equal(fake_ompi.errors, cases[i].later);
        assert_ptr_equal(fake_ompi.blamed, 0 != cases[i].later ? proc : NULL);
        assert_int_equal(fake_ompi.shown, NULL != cases[i].topic);
        if (NULL != cases[i].topic) {
            fake_ompi_assert_shown(cases[i].topic, cases[i].text);
        }
        assert_null(mca_btl_rawe_state.lost);
    }
}

TEST(mca_btl_rawe_failed__is_reported_once_a_process)
{
    mca_btl_base_endpoint_t *first = introduce_on(0), *second = introduce_on(1);
    give_up(first, RAWE_LANE_EXPRESS);
    give_up(first, RAWE_LANE_BULK);
    give_up(second, RAWE_LANE_EXPRESS);
    report();
    give_up(second, RAWE_LANE_BULK);
    report();
    assert_int_equal(fake_ompi.errors, 1);
}

/** Return the state of an endpoint's connection. */
static enum rawe_conn_state state_of(mca_btl_base_endpoint_t *endpoint, unsigned lane)
{
    return rawe_peer_conn(&endpoint->peer, lane)->handshake.state;
}

TEST(mca_btl_rawe_failed__no_connection_to_the_process_is_left)
{
    mca_btl_base_endpoint_t *first = introduce_on(0), *second = introduce_on(1);
    rawe_peer_connect(&second->peer, RAWE_LANE_BULK);
    give_up(first, RAWE_LANE_EXPRESS);
    assert_int_equal(state_of(second, RAWE_LANE_BULK), RAWE_CONN_CONNECTING);
    report();
    for (unsigned lane = 0; lane < RAWE_LANES; ++lane) {
        assert_int_equal(state_of(first, lane), RAWE_CONN_FAILED);
        assert_int_equal(state_of(second, lane), RAWE_CONN_FAILED);
    }
    assert_true(mca_btl_rawe_endpoint_process_lost(proc->proc_name));
}

/** A death that the runtime has reported is not reported to Open MPI, which already knows. */
TEST(mca_btl_rawe_endpoints_take_lost__who_has_died_by_the_runtimes_word)
{
    mca_btl_base_endpoint_t *introduced = introduce_on(0), *called = endpoint_on(1);
    opal_process_name_t other = {.jobid = 7, .vpid = 4};
    mca_btl_rawe_proc_listen();
    fake_ompi.departed(&other);
    report();
    assert_int_equal(state_of(introduced, RAWE_LANE_EXPRESS), RAWE_CONN_IDLE);
    fake_ompi.departed(&proc->proc_name);
    report();
    assert_int_equal(state_of(introduced, RAWE_LANE_EXPRESS), RAWE_CONN_FAILED);
    assert_int_equal(state_of(called, RAWE_LANE_EXPRESS), RAWE_CONN_FAILED);
    assert_int_equal(fake_ompi.errors, 0);
    give_up(introduced, RAWE_LANE_EXPRESS);
    report();
    assert_int_equal(fake_ompi.errors, 0);
}

TEST(mca_btl_rawe_failed__the_endpoint_may_close_before_the_report)
{
    mca_btl_base_endpoint_t *endpoint = introduce_on(0);
    give_up(endpoint, RAWE_LANE_EXPRESS);
    mca_btl_rawe_endpoint_close(endpoint);
    report();
    assert_int_equal(fake_ompi.errors, 1);
    assert_ptr_equal(fake_ompi.blamed, proc);
}

/** In finalize the caller may be the progress thread, which must not call Open MPI. */
TEST(mca_btl_rawe_silent__is_reported_when_the_process_answers_but_in_finalize)
{
    mca_btl_base_endpoint_t *endpoint = introduce_on(0);
    mca_btl_rawe_params.peer_timeout = 4;
    mca_btl_rawe_state.finalizing = true;
    be_silent(endpoint);
    assert_int_equal(fake_ompi_shown("connection_stalled"), 0);
    mca_btl_rawe_state.finalizing = false;
    be_silent(endpoint);
    be_silent(endpoint);
    assert_int_equal(fake_ompi_shown("connection_stalled"), 1);
}

/** After an outage the responder's answer comes first, and the connection answers soon. */
TEST(mca_btl_rawe_silent__is_no_stall_when_the_responder_answers_again)
{
    mca_btl_base_endpoint_t *endpoint = introduce_on(0);
    mca_btl_rawe_params.peer_timeout = 4;
    fake_ompi.now_ns = SILENT_NS;
    for (unsigned outage = 0; outage < 3; ++outage) {
        unanswered = true;
        be_silent(endpoint);
        unanswered = false;
        be_silent(endpoint);
    }
    assert_int_equal(fake_ompi_shown("connection_stalled"), 0);
}

TEST(mca_btl_rawe_failed__after_a_stall_that_has_ended)
{
    mca_btl_base_endpoint_t *endpoint = introduce_on(0);
    fake_ompi.fault_tolerant = false;
    mca_btl_rawe_params.peer_timeout = 4;
    be_silent(endpoint);
    be_silent(endpoint);
    assert_int_equal(fake_ompi_shown("connection_stalled"), 1);
    unanswered = true;
    give_up(endpoint, RAWE_LANE_EXPRESS);
    report();
    assert_int_equal(fake_ompi_shown("peer_lost"), 1);
}

/** The job waits longer than a user would without a message. A stall is reported as such. */
TEST(mca_btl_rawe_silent__is_reported_when_nothing_answers)
{
    static const struct {
        const char *name;
        uint64_t silent_s;
        bool finalizing, stalled, introduced;
        unsigned shown;
    } cases[] = {
        {"soon", 29, false, false, true, 0},
        {"after half a minute", 30, false, false, true, 1},
        {"in finalize", 31, true, false, true, 0},
        {"a stall", 31, false, true, true, 0},
        {"not in use", 31, false, false, false, 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
        unit_case(cases[i].name);
        tear_down();
        set_up();
        mca_btl_base_endpoint_t *endpoint = cases[i].introduced ? introduce_on(0) : endpoint_on(0);
        struct rawe_conn *conn = rawe_peer_conn(&endpoint->peer, 0);
        mca_btl_rawe_params.peer_timeout = 300;
        mca_btl_rawe_state.finalizing = cases[i].finalizing;
        fake_ompi.now_ns = 100 * 1000000000u;
        unanswered = !cases[i].stalled;
        watched = (struct rawe_watch *)&proc;
        mca_btl_rawe_silent(endpoint->module, conn, cases[i].silent_s * 1000000000u);
        mca_btl_rawe_state.finalizing = false;
        assert_int_equal(fake_ompi_shown("peer_silent"), cases[i].shown);
    }
}

/** Silence counts from the time the peer was last seen computing (9 s), even for a CONNECT. */
TEST(mca_btl_rawe_silent__is_explained_by_a_process_that_computes)
{
    static const enum rawe_conn_state states[] = {RAWE_CONN_CONNECTING, RAWE_CONN_OPEN};
    mca_btl_base_endpoint_t *endpoint = introduce_on(0);
    struct rawe_conn *conn = rawe_peer_conn(&endpoint->peer, 0);
    absent_ns = 9000000000u;
    for (unsigned i = 0; i < 2; ++i) {
        conn->handshake.state = states[i];
        conn->path.liveness.silent_since_ns = 1000000000u;
        be_silent(endpoint);
        assert_int_equal(conn->path.liveness.silent_since_ns, absent_ns);
    }
}

/** Lower the path's MTU. Returns the new longest payload. */
static uint32_t shrink_path(void)
{
    mca_btl_base_endpoint_t *endpoint = introduce_on(0);
    struct rawe_conn *conn = rawe_peer_conn(&endpoint->peer, 0);
    assert_non_null(conn);
    mca_btl_rawe_params.peer_timeout = 4;
    watched = (struct rawe_watch *)&proc;
    fake_ompi.now_ns = modules[0].engine.now_ns = SILENT_NS;
    passed_bytes = 1000;
    for (unsigned i = 0; i < 2; i++) { /* probe the path, then use the result */
        mca_btl_rawe_stalled(endpoint->module, conn, SILENT_NS);
        fake_ompi.now_ns += 2000000000u;
    }
    mca_btl_rawe_params.peer_timeout = 0;
    assert_int_equal(endpoint->path_mtu_bytes, 1000);
    return conn->path.payload_max_bytes;
}

/** In finalize, neither stalls nor silence are reported. */
TEST(mca_btl_rawe_stalled__sends_what_passes)
{
    for (unsigned finalizing = 0; finalizing < 2; ++finalizing) {
        tear_down();
        set_up();
        mca_btl_rawe_state.finalizing = finalizing;
        assert_int_equal(shrink_path(), payload_bytes(1000));
        assert_int_equal(fake_ompi_shown("full_size_lost"), !finalizing);
        assert_int_equal(fake_ompi_shown("connection_stalled"), !finalizing);
    }
}

/** The stall ended before the path was measured. */
TEST(mca_btl_rawe_stalled__heeds_no_result_of_an_earlier_stall)
{
    mca_btl_base_endpoint_t *endpoint = introduce_on(0);
    struct rawe_conn *conn = rawe_peer_conn(&endpoint->peer, 0);
    assert_non_null(conn);
    fake_ompi.now_ns = SILENT_NS;
    passed_bytes = 1000;
    mca_btl_rawe_stalled(endpoint->module, conn, 1);
    fake_ompi.now_ns += 3600000000000u;
    mca_btl_rawe_stalled(endpoint->module, conn, 1);
    assert_int_equal(endpoint->path_mtu_bytes, 1500);
    mca_btl_rawe_stalled(endpoint->module, conn, 1); /* measured again */
    assert_int_equal(endpoint->path_mtu_bytes, 1000);
}

/** Frames go to the old address until the process has answered at the new one. */
TEST(mca_btl_rawe_endpoint_follow__where_the_responder_answers)
{
    static const uint8_t one[RAWE_MAC_BYTES] = {2, 0, 0, 0, 0, 7};
    static const uint8_t other[RAWE_MAC_BYTES] = {2, 0, 0, 0, 0, 8};
    mca_btl_base_endpoint_t *endpoint = introduce_on(0);

    watched = (struct rawe_watch *)&proc;
    pings = 0;
    unanswered = true;
    mca_btl_rawe_endpoint_follow(endpoint, one);
    mca_btl_rawe_endpoint_follow(endpoint, one);
    assert_int_equal(pings, 2);
    assert_memory_equal(watched_mac, one, RAWE_MAC_BYTES);
    mca_btl_rawe_endpoint_follow(endpoint, other);
    assert_memory_equal(watched_mac, other, RAWE_MAC_BYTES);
    assert_int_equal(endpoint->address.mac[5], 1);
    assert_int_equal(endpoint->peer.route.mac[5], 1);
    unanswered = false; /* the process answers, but from its old address */
    mca_btl_rawe_endpoint_follow(endpoint, other);
    assert_int_equal(pings, 4);
    assert_int_equal(endpoint->address.mac[5], 1);
    memcpy(answers_from, other, RAWE_MAC_BYTES);
    mca_btl_rawe_endpoint_follow(endpoint, other);
    assert_int_equal(pings, 4);
    assert_memory_equal(endpoint->address.mac, other, RAWE_MAC_BYTES);
    assert_memory_equal(endpoint->peer.route.mac, other, RAWE_MAC_BYTES);
    assert_ptr_equal(endpoint->watch, watched);
    assert_null(endpoint->new_watch);
    /* The endpoint is still found by its published address. */
    assert_ptr_equal(endpoint_on(0), endpoint);
}

TEST(mca_btl_rawe_endpoint_follow__without_memory)
{
    static const uint8_t one[RAWE_MAC_BYTES] = {2, 0, 0, 0, 0, 7};
    mca_btl_base_endpoint_t *endpoint = introduce_on(0);

    watched = NULL;
    mca_btl_rawe_endpoint_follow(endpoint, one);
    assert_int_equal(endpoint->address.mac[5], 1);
}

/** A route that is down has no connection whose silence would reveal the move. */
TEST(mca_btl_rawe_endpoint_ping__seeks_a_peer_that_has_moved)
{
    static const uint8_t one[RAWE_MAC_BYTES] = {2, 0, 0, 0, 0, 7};
    mca_btl_base_endpoint_t *endpoint = introduce_on(0);

    unanswered = false;
    watched = (struct rawe_watch *)&proc;
    memcpy(answers_from, one, RAWE_MAC_BYTES);
    mca_btl_rawe_endpoint_ping(endpoint);
    mca_btl_rawe_endpoint_ping(endpoint);
    assert_memory_equal(endpoint->address.mac, one, RAWE_MAC_BYTES);
}

/** Both ends changed their addresses at once: only frames to published addresses still arrive. */
TEST(mca_btl_rawe_silent__seeks_a_peer_that_has_moved)
{
    static const uint8_t one[RAWE_MAC_BYTES] = {2, 0, 0, 0, 0, 7};
    static const uint8_t other[RAWE_MAC_BYTES] = {2, 0, 0, 0, 0, 8};
    mca_btl_base_endpoint_t *endpoint = introduce_on(0);

    unanswered = false;
    memcpy(answers_from, one, RAWE_MAC_BYTES);
    be_silent(endpoint); /* the answer to the published address shows the new one */
    be_silent(endpoint);
    assert_memory_equal(endpoint->address.mac, one, RAWE_MAC_BYTES);
    /* After another move, both the published address and the one in use are pinged. */
    memcpy(answers_from, other, RAWE_MAC_BYTES);
    be_silent(endpoint);
    assert_memory_equal(endpoint->address.mac, other, RAWE_MAC_BYTES);
    assert_non_null(endpoint->home);
}
