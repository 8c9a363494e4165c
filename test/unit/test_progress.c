/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the glue's progress of one module, and of the progress thread, over a link that says of
 * itself how much waits.
 */
#define _GNU_SOURCE
#include "btl_rawe_group.h"
#include "btl_rawe_lock.h"
#include "btl_rawe_params.h"
#include "btl_rawe_progress.h"
#include "btl_rawe_routes.h"
#include "btl_rawe_state.h"
#include "btl_rawe_thread.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "btl_rawe_help.h"
#include "core/rawe_conn_life.h"
#include "unit_engine.h"

#define US 1000ull
#define MS 1000000ull

/** Frames of each packet of bulk. */
#define PACKET_FRAMES 44u
#define QUEUE_PACKETS 500u

struct rawe_link {
    struct rawe_link_head head;
};

struct rawe_bulk {
    struct rawe_bulk_head head;
};

/* What else the files under test need of the component. */
struct mca_btl_rawe_params mca_btl_rawe_params;
struct mca_btl_rawe_state mca_btl_rawe_state;

static mca_btl_rawe_module_t module;
static struct rawe_link link_fake;
static struct rawe_bulk bulk_fake;
static struct rawe_conn conn_fake;
static struct rawe_handle_table handles;
static uint64_t now;
static unsigned link_waits, bulk_waits;       /**< frames, packets */
static unsigned link_refill;                  /**< as many wait again after each reception */
static unsigned link_received, bulk_received; /**< frames, packets */
static bool ring_has_probe;
static uint32_t link_status, bulk_status;
static unsigned expired_calls;
static unsigned repairs;
static void (*on_bulk)(void);    /**< the same before the second packet of bulk */
static void (*on_receive)(void); /**< a callback into the PML, from inside reception; NULL: none */

uint64_t mca_btl_rawe_now_ns(void)
{
    return now;
}

static unsigned internal_errors; /**< shown, where the test allows it */
static bool internal_error_allowed;

void mca_btl_rawe_help_internal_error(const char *doing, const char *detail, const char *file,
                                      int line)
{
    internal_errors++;
    if (!internal_error_allowed) {
        fail_msg("%s: %s (%s:%d)", doing, detail, file, line);
    }
}

static enum rawe_refusal put_refused;
static unsigned puts_refused;

void mca_btl_rawe_help_put_refused(enum rawe_refusal refusal)
{
    put_refused = refusal;
    puts_refused++;
}

static unsigned routes_checks;

/* Of routes it is only of interest here when they are looked at. */
void mca_btl_rawe_routes_check(bool may_say)
{
    assert_false(may_say); /* by the thread */
    routes_checks++;
    mca_btl_rawe_state.failover.due_ns = now + 200 * MS;
    atomic_store(&mca_btl_rawe_state.carriers_changed, false);
}

void mca_btl_rawe_group_repair(void)
{
    repairs++;
    atomic_store(&mca_btl_rawe_state.group_repair, 0);
}

void rawe_responder_wake(struct rawe_responder *responder)
{
    (void)responder;
}

static void set_status(void)
{
    link_status = link_waits != 0 ? RAWE_LINK_STATUS_USER : 0;
    bulk_status = bulk_waits != 0 ? RAWE_LINK_STATUS_USER : 0;
}

static void wait_in_link(unsigned frames)
{
    link_waits = frames;
    set_status();
}

static void wait_in_bulk(unsigned packets)
{
    bulk_waits = packets;
    set_status();
}

unsigned rawe_link_receive(struct rawe_link *link, unsigned budget, rawe_link_receive_fn *receive,
                           void *context)
{
    static const uint8_t nothing[RAWE_ETH_HEADER_BYTES];
    struct rawe_engine *engine = context;
    unsigned count = link_waits < budget ? link_waits : budget;
    (void)link;
    engine->counters.probes_received += ring_has_probe && count != 0;
    for (unsigned i = 0; i < count; i++) {
        if (on_receive != NULL && i == 0) {
            on_receive();
        }
        receive(context, nothing, 0);
    }
    link_received += count;
    link_waits = link_refill != 0 ? link_refill : link_waits - count;
    set_status();
    return count;
}

unsigned rawe_bulk_receive(struct rawe_bulk *bulk, unsigned budget,
                           const struct rawe_bulk_receiver *receiver, void *context)
{
    unsigned count = bulk_waits < budget ? bulk_waits : budget;
    (void)bulk;
    for (unsigned i = 0; i < count; i++) {
        if (on_bulk != NULL && i == 1) {
            on_bulk();
            on_bulk = NULL;
        }
        receiver->packet(context, NULL, NULL, 0, NULL, 0);
    }
    bulk_received += count;
    bulk_waits -= count;
    set_status();
    return count * PACKET_FRAMES;
}

static int set_up(void **state)
{
    (void)state;
    memset(&module, 0, sizeof(module));
    memset(&mca_btl_rawe_state, 0, sizeof(mca_btl_rawe_state));
    rawe_handle_table_init(&handles, 1);
    now = 1000 * MS;
    link_waits = bulk_waits = link_refill = link_received = bulk_received = 0;
    ring_has_probe = false;
    expired_calls = routes_checks = 0;
    on_receive = on_bulk = NULL;
    memset(&conn_fake, 0, sizeof(conn_fake));
    conn_fake.engine = &module.engine;
    set_status();
    link_fake.head.next_status = &link_status;
    bulk_fake.head.next_status = &bulk_status;
    module.link = &link_fake;
    module.bulk = &bulk_fake;
    module.open = true;
    unit_engine_start(&module.engine, &handles, &module, now);
    module.engine.batches.receive_frames = QUEUE_PACKETS;
    mca_btl_rawe_params.progress_thread_ms = 1;
    mca_btl_rawe_lock_init();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mca_btl_rawe_lock_destroy();
    rawe_engine_free(&module.engine);
    rawe_handle_table_free(&handles);
    return 0;
}

static void expired(struct rawe_timer *timer, uint64_t now_ns)
{
    assert_true(now_ns >= timer->deadline_ns);
    expired_calls++;
}

static struct rawe_timer timer;

static void arm(uint64_t after_ns)
{
    rawe_timer_wheel_advance(&module.engine.timers, now);
    rawe_timer_init(&timer, expired);
    rawe_timer_arm(&module.engine.timers, &timer, now + after_ns);
}

/* mca_btl_rawe_module_service */

static void service__what_waits_comes_before_timers(void **state)
{
    (void)state;
    arm(50 * US);
    wait_in_link(100); /* more than one call takes */
    now += 150 * US;
    mca_btl_rawe_module_progress(&module, true);
    assert_true(link_received < 100);
    assert_int_equal(expired_calls, 0);
    mca_btl_rawe_module_progress(&module, true);
    assert_int_equal(link_received, 100);
    assert_int_equal(expired_calls, 1);
}

static void service__overdue_timers_expire_under_steady_load(void **state)
{
    (void)state;
    arm(100 * US);
    link_refill = 1000;
    wait_in_link(1000);
    for (unsigned i = 0; i < 100; i++) {
        now += 20 * US;
        mca_btl_rawe_module_progress(&module, true);
    }
    assert_int_equal(expired_calls, 1);
    assert_true(link_received > 0);
}

/* mca_btl_rawe_module_progress */

static struct rawe_send blocking_send;
static unsigned depth, completions;

static void send_done(struct rawe_send *send, enum rawe_status status)
{
    assert_ptr_equal(send, &blocking_send);
    assert_int_equal(status, RAWE_STATUS_DONE);
    assert_false(module.engine.deferral.active); /* it may call the PML */
    completions++;
}

/** The PML waits, in a callback, for a send that an acknowledgement in the ring completes. */
static void wait_in_callback(void)
{
    if (++depth == 1) {
        assert_true(mca_btl_rawe_state.progressing);
        assert_false(module.engine.deferral.active);
        wait_in_link(1);
        for (unsigned i = 0; i < 10 && completions == 0; i++) {
            mca_btl_rawe_module_progress(&module, true);
        }
        assert_int_equal(completions, 1);
        assert_int_equal(bulk_received, 0);
    } else {
        assert_true(module.engine.deferral.active);
        rawe_conn_complete(&module.engine, &blocking_send, RAWE_STATUS_DONE);
        assert_int_equal(completions, 0);
    }
    depth--;
}

static void progress__a_callback_waits_for_its_send(void **state)
{
    (void)state;
    depth = completions = 0;
    blocking_send = (struct rawe_send){.done = send_done};
    wait_in_bulk(3);
    wait_in_link(1);
    on_receive = wait_in_callback;
    mca_btl_rawe_module_progress(&module, true);
    assert_int_equal(completions, 1);
    assert_int_equal(bulk_received, 3);
    assert_false(mca_btl_rawe_state.progressing);
}

static uint64_t received_before; /**< frames and packets, when the deferred message was delivered */

static void note_delivery(void *context, struct rawe_conn *conn, uint8_t tag, const uint8_t *data,
                          size_t len_bytes)
{
    (void)context;
    (void)conn;
    (void)data;
    (void)len_bytes;
    assert_int_equal(tag, 9);
    received_before = module.engine.counters.dropped_short;
}

/** A callback waits for something, and a message comes meanwhile. */
static void defer_in_callback(void)
{
    uint8_t payload[RAWE_FRAGMENT_MESSAGE_BYTES + 8] = {0};

    (void)rawe_fragment_encode(
        payload, &(struct rawe_fragment){.kind = RAWE_FRAGMENT_MESSAGE, .tag = 9, .data_bytes = 8});
    assert_true(rawe_deferral_keep(&module.engine.deferral, &conn_fake, payload, sizeof(payload)));
    on_receive = NULL;
}

static void progress__what_a_callback_deferred_comes_before_later_frames(void **state)
{
    (void)state;
    module.engine.callbacks.deliver = note_delivery;
    received_before = UINT64_MAX;
    wait_in_link(3);
    on_receive = defer_in_callback;
    mca_btl_rawe_module_progress(&module, true);
    assert_int_equal(received_before, 0);
    assert_int_equal(module.engine.counters.dropped_short, 3);
}

/** The same of what comes in bulk. */
static void progress__and_before_later_batches(void **state)
{
    (void)state;
    module.engine.callbacks.deliver = note_delivery;
    received_before = UINT64_MAX;
    wait_in_link(1);
    wait_in_bulk(2);
    on_receive = NULL;
    on_bulk = defer_in_callback;
    mca_btl_rawe_module_progress(&module, true);
    assert_int_equal(received_before, 2);
    assert_int_equal(module.engine.counters.dropped_short, 3);
}

static unsigned errors; /**< that ended the job */

static void note_error(mca_btl_base_module_t *btl, int32_t flags, opal_proc_t *blamed, char *text)
{
    assert_ptr_equal(btl, &module.super);
    assert_int_equal(flags, MCA_BTL_ERROR_FLAGS_FATAL);
    assert_null(blamed); /* 5.0 would take it for the process that has failed, and go on */
    assert_non_null(text);
    errors++;
}

static void progress_twice(void)
{
    for (unsigned i = 0; i < 2; i++) {
        wait_in_link(1);
        mca_btl_rawe_module_progress(&module, true);
    }
}

static void progress__refused_data_ends_the_job_and_blames_nobody(void **state)
{
    (void)state;
    internal_errors = errors = 0;
    internal_error_allowed = true;
    module.error_callback = note_error;
    module.engine.counters.dropped_fragment = 1;
    progress_twice();
    internal_error_allowed = false;
    assert_int_equal(internal_errors, 1);
    assert_int_equal(errors, 1);
}

static void progress__a_refused_put_ends_the_job(void **state)
{
    (void)state;
    internal_errors = errors = puts_refused = 0;
    module.error_callback = note_error;
    module.engine.counters.dropped_handle = 1;
    module.engine.put_refusal = RAWE_REFUSAL_BOUNDS;
    progress_twice();
    assert_int_equal(puts_refused, 1);
    assert_int_equal(put_refused, RAWE_REFUSAL_BOUNDS);
    assert_int_equal(internal_errors, 0);
    assert_int_equal(errors, 1);
}

/** The progress thread received it, while the program computed, and nothing has come since. */
static void progress__a_put_that_another_thread_refused_ends_the_job_too(void **state)
{
    (void)state;
    errors = puts_refused = 0;
    module.error_callback = note_error;
    module.engine.counters.dropped_handle = 1;
    module.engine.put_refusal = RAWE_REFUSAL_UNKNOWN;
    mca_btl_rawe_module_progress(&module, true);
    mca_btl_rawe_module_progress(&module, true);
    assert_int_equal(puts_refused, 1);
    assert_int_equal(errors, 1);
}

/* mca_btl_rawe_module_receive */

static void receive__the_ring_has_its_turn_between_batches(void **state)
{
    (void)state;
    wait_in_bulk(QUEUE_PACKETS);
    wait_in_link(1);
    mca_btl_rawe_module_receive(&module);
    assert_int_equal(link_received, 1);
    assert_in_range(bulk_received, 1, 32); /* 64 kB each */
    wait_in_link(1);
    unsigned before = bulk_received;
    mca_btl_rawe_module_receive(&module);
    assert_int_equal(link_received, 2);
    assert_true(bulk_received > before);
    while (bulk_waits != 0) {
        assert_int_not_equal(mca_btl_rawe_module_receive(&module), 0);
    }
    assert_int_equal(bulk_received, QUEUE_PACKETS);
}

static void receive__all_of_bulk_before_a_probe_is_answered(void **state)
{
    (void)state;
    wait_in_bulk(QUEUE_PACKETS);
    wait_in_link(1);
    ring_has_probe = true;
    mca_btl_rawe_module_receive(&module);
    assert_int_equal(bulk_received, QUEUE_PACKETS);
}

/* mca_btl_rawe_thread_service */

static void take_over(void)
{
    module.thread_mode = MCA_BTL_RAWE_THREAD_POLLS;
    module.thread_rounds = mca_btl_rawe_state.rounds;
    (void)mca_btl_rawe_thread_service(&module, false);
}

static void thread_service__takes_no_more_than_a_little(void **state)
{
    (void)state;
    wait_in_bulk(QUEUE_PACKETS);
    take_over();
    assert_int_not_equal(bulk_received, 0);
    assert_in_range(bulk_received * PACKET_FRAMES, 1, 1024);
    assert_int_equal(module.thread_mode, MCA_BTL_RAWE_THREAD_POLLS); /* there is more to do */
}

static void thread_service__goes_on_with_no_memory_left_for_messages(void **state)
{
    (void)state;
    arm(100 * US);
    module.engine.deferral.bytes = 8u << 20;
    link_refill = 1000;
    wait_in_link(1000);
    for (unsigned i = 0; i < 10; i++) {
        now += MS;
        take_over();
    }
    assert_int_not_equal(link_received, 0); /* acknowledgements are among them */
    assert_int_equal(expired_calls, 1);
    module.engine.deferral.bytes = 0;
}

static void thread_service__polls_again_after_something_came(void **state)
{
    (void)state;
    wait_in_link(1);
    take_over();
    assert_int_equal(link_received, 1);
    assert_int_equal(module.thread_mode, MCA_BTL_RAWE_THREAD_POLLS);
    take_over();
    assert_int_equal(module.thread_mode, MCA_BTL_RAWE_THREAD_IDLE);
}

static void thread_service__a_probe_wakes_it(void **state)
{
    (void)state;
    wait_in_link(1);
    assert_int_equal(mca_btl_rawe_thread_service(&module, false), -1);
    assert_int_equal(link_received, 0);
    (void)mca_btl_rawe_thread_service(&module, true);
    assert_int_equal(link_received, 1);
}

/** Nobody else may come by: the program computes. */
static void thread_service__opens_links_anew_when_the_group_broke(void **state)
{
    (void)state;
    atomic_store(&mca_btl_rawe_state.group_repair, 1);
    (void)mca_btl_rawe_thread_service(&module, false);
    assert_int_equal(repairs, 0); /* nothing is under way */
    (void)mca_btl_rawe_thread_service(&module, true);
    assert_int_equal(repairs, 1);
    (void)mca_btl_rawe_thread_service(&module, true);
    assert_int_equal(repairs, 1);
}

/** As long as a cable is pulled, there is little to do for it. */
static void thread_service__sleeps_until_a_route_is_to_be_asked(void **state)
{
    (void)state;
    mca_btl_rawe_state.failover.doubted_count = 1;
    int rest_ms = mca_btl_rawe_thread_service(&module, false);
    assert_int_equal(routes_checks, 1);
    assert_in_range(rest_ms, 200, 210);
    assert_int_equal(module.thread_mode, MCA_BTL_RAWE_THREAD_IDLE);
    /* Woken for something else it goes on to sleep. */
    now += 100 * MS;
    assert_in_range(mca_btl_rawe_thread_service(&module, false), 100, 110);
    assert_int_equal(routes_checks, 1);
    now += 110 * MS;
    rest_ms = mca_btl_rawe_thread_service(&module, false);
    assert_int_equal(routes_checks, 2);
    assert_in_range(rest_ms, 200, 210);
}

/** Its carrier is lost: nothing can be asked, and the kernel will say when it is there again. */
static void thread_service__sleeps_until_a_carrier_changes(void **state)
{
    (void)state;
    mca_btl_rawe_state.failover.doubted_count = 1;
    mca_btl_rawe_state.failover.due_ns = UINT64_MAX;
    assert_int_equal(mca_btl_rawe_thread_service(&module, false), -1);
    assert_int_equal(routes_checks, 0);
    atomic_store(&mca_btl_rawe_state.carriers_changed, true);
    assert_in_range(mca_btl_rawe_thread_service(&module, false), 200, 210);
    assert_int_equal(routes_checks, 1);
}

/** A connection of another module has left the route, and its peer is to learn of it. */
static void thread_service__serves_those_that_left_a_route(void **state)
{
    (void)state;
    static mca_btl_rawe_module_t other;

    memset(&other, 0, sizeof(other));
    rawe_timer_wheel_init(&other.engine.timers, now);
    rawe_timer_init(&timer, expired);
    rawe_timer_arm(&other.engine.timers, &timer, now + MS);
    other.open = true;
    mca_btl_rawe_state.modules[mca_btl_rawe_state.module_count++] = &module;
    mca_btl_rawe_state.modules[mca_btl_rawe_state.module_count++] = &other;
    atomic_store(&mca_btl_rawe_state.carriers_changed, true);
    (void)mca_btl_rawe_thread_service(&module, false);
    assert_int_equal(routes_checks, 1);
    assert_int_equal(other.thread_mode, MCA_BTL_RAWE_THREAD_POLLS);
    assert_int_equal(module.thread_mode, MCA_BTL_RAWE_THREAD_IDLE);
}

/** Routes that it cannot see to do not wake it either. */
static void thread_service__leaves_routes_to_modules_that_are_open(void **state)
{
    (void)state;
    module.open = false;
    mca_btl_rawe_state.failover.doubted_count = 1;
    assert_int_equal(mca_btl_rawe_thread_service(&module, false), -1);
    assert_int_equal(routes_checks, 0);
}

/* mca_btl_rawe_thread_enabled */

static void thread_enabled__not_when_off(void **state)
{
    (void)state;
    assert_true(mca_btl_rawe_thread_enabled());
    mca_btl_rawe_params.progress_thread_ms = 0;
    assert_false(mca_btl_rawe_thread_enabled());
    assert_int_equal(mca_btl_rawe_thread_service(&module, true), -1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(service__what_waits_comes_before_timers),
        TEST(service__overdue_timers_expire_under_steady_load),
        TEST(progress__a_callback_waits_for_its_send),
        TEST(progress__what_a_callback_deferred_comes_before_later_frames),
        TEST(progress__and_before_later_batches),
        TEST(progress__refused_data_ends_the_job_and_blames_nobody),
        TEST(progress__a_refused_put_ends_the_job),
        TEST(progress__a_put_that_another_thread_refused_ends_the_job_too),
        TEST(receive__the_ring_has_its_turn_between_batches),
        TEST(receive__all_of_bulk_before_a_probe_is_answered),
        TEST(thread_service__takes_no_more_than_a_little),
        TEST(thread_service__goes_on_with_no_memory_left_for_messages),
        TEST(thread_service__polls_again_after_something_came),
        TEST(thread_service__a_probe_wakes_it),
        TEST(thread_service__opens_links_anew_when_the_group_broke),
        TEST(thread_service__sleeps_until_a_route_is_to_be_asked),
        TEST(thread_service__sleeps_until_a_carrier_changes),
        TEST(thread_service__serves_those_that_left_a_route),
        TEST(thread_service__leaves_routes_to_modules_that_are_open),
        TEST(thread_enabled__not_when_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
