/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the progress function of a module.
 */
#include "fake_ompi.h"
#include "unit_module.h"

#include <stdio.h>

#include "core/conn/rawe_conn_tx.h"

FIXTURE(fake_set_up, fake_tear_down);

TEST(timers_service__what_waits_comes_before_timers)
{
    fake_arm(&module.engine, 50 * US);
    fake_wait_in_link(100); /* more frames than one call processes */
    fake_ompi.now_ns += 150 * US;
    mca_btl_rawe_module_progress(&module, true);
    assert_true(fake.link_received < 100);
    assert_int_equal(fake.expired_calls, 0);
    mca_btl_rawe_module_progress(&module, true);
    assert_int_equal(fake.link_received, 100);
    assert_int_equal(fake.expired_calls, 1);
}

TEST(timers_service__overdue_timers_expire_under_steady_load)
{
    fake_arm(&module.engine, 100 * US);
    fake.link_refill = 1000;
    fake_wait_in_link(1000);
    for (unsigned i = 0; i < 100; i++) {
        fake_ompi.now_ns += 20 * US;
        mca_btl_rawe_module_progress(&module, true);
    }
    assert_int_equal(fake.expired_calls, 1);
    assert_true(fake.link_received > 0);
}

static struct rawe_send blocking_send;
static unsigned depth, completions;

static void send_done(struct rawe_send *send, enum rawe_status status)
{
    assert_ptr_equal(send, &blocking_send);
    assert_int_equal(status, RAWE_STATUS_DONE);
    assert_false(module.engine.deferral->active); /* completions may call the PML */
    completions++;
}

/**
 * In a callback, the PML waits for a send that an acknowledgement in the ring completes. The next
 * frame is a PROBE about the preceding batches.
 */
static void wait_in_callback(void)
{
    if (++depth == 1) {
        assert_true(mca_btl_rawe_state.progressing);
        assert_false(module.engine.deferral->active);
        fake_wait_in_link(1);
        fake.ring_has_probe = true;
        for (unsigned i = 0; i < 10 && completions == 0; i++) {
            mca_btl_rawe_module_progress(&module, true);
        }
        assert_int_equal(completions, 1);
        assert_int_equal(fake.bulk_received, QUEUE_PACKETS);
    } else {
        assert_true(module.engine.deferral->active);
        rawe_conn_complete(&module.engine, &blocking_send, RAWE_STATUS_DONE);
        assert_int_equal(completions, 0);
    }
    depth--;
}

TEST(module_progress__a_callback_waits_for_its_send)
{
    depth = completions = 0;
    blocking_send = (struct rawe_send){.done = send_done};
    fake_wait_in_bulk(QUEUE_PACKETS);
    fake_wait_in_link(1);
    fake.on_receive = wait_in_callback;
    mca_btl_rawe_module_progress(&module, true);
    assert_int_equal(completions, 1);
    assert_false(mca_btl_rawe_state.progressing);
}

static uint64_t received_before; /**< frames and packets received before the deferred message */
static unsigned waiting_then;    /**< frames and packets that no port had handed over by then */

static void note_delivery(void *context, struct rawe_conn *conn, uint8_t tag, const uint8_t *data,
                          size_t len_bytes)
{
    assert_int_equal(tag, 9);
    received_before = module.engine.counters.dropped_short;
    waiting_then = fake.link_waits + fake.bulk_waits;
}

/** Defer a message, as when it is received while a callback waits for something else. */
static void defer_in_callback(void)
{
    static struct rawe_conn conn;
    uint8_t payload[RAWE_FRAGMENT_MESSAGE_BYTES + 8] = {0};

    conn = (struct rawe_conn){.engine = &module.engine};
    (void)rawe_fragment_encode(
        payload, &(struct rawe_fragment){.kind = RAWE_FRAGMENT_MESSAGE, .tag = 9, .data_bytes = 8});
    assert_true(rawe_deferral_keep(module.engine.deferral, &conn, payload, sizeof(payload)));
    fake.on_receive = NULL;
}

TEST(module_progress__what_a_callback_deferred_comes_before_later_frames)
{
    module.engine.callbacks.deliver = note_delivery;
    received_before = UINT64_MAX;
    fake_wait_in_link(3);
    fake.on_receive = defer_in_callback;
    mca_btl_rawe_module_progress(&module, true);
    assert_int_equal(received_before, 1);
    assert_int_equal(waiting_then, 2);
    assert_int_equal(module.engine.counters.dropped_short, 3);
}

/** Messages deferred during a callback are also delivered before later batches. */
TEST(module_progress__and_before_later_batches)
{
    module.engine.callbacks.deliver = note_delivery;
    received_before = UINT64_MAX;
    fake_wait_in_link(1);
    fake_wait_in_bulk(2);
    fake.on_receive = NULL;
    fake.on_bulk = defer_in_callback;
    mca_btl_rawe_module_progress(&module, true);
    assert_int_equal(received_before, 2);
    assert_int_equal(waiting_then, 1);
    assert_int_equal(module.engine.counters.dropped_short, 3);
}

static unsigned delivered;

static void expect_next(void *context, struct rawe_conn *conn, uint8_t tag, const uint8_t *data,
                        size_t len_bytes)
{
    assert_int_equal(tag, delivered);
    delivered++;
}

/** Several modules' messages are delivered in order of arrival, whichever module makes progress. */
TEST(module_progress__what_all_modules_deferred_comes_in_order)
{
    static struct rawe_engine second;
    static struct rawe_handle_table handles;
    struct rawe_engine *engines[] = {&module.engine, &second};
    struct rawe_conn conns[2];

    rawe_handle_table_init(&handles, 2);
    unit_engine_start(&second, &handles, NULL);
    second.deferral = module.engine.deferral; /* all modules of a process share it */
    delivered = 0;
    for (unsigned i = 0; i < 100; i++) {
        unsigned which = i * i % 3 != 0;
        uint8_t payload[RAWE_FRAGMENT_MESSAGE_BYTES + 8] = {0};
        conns[which] = (struct rawe_conn){.engine = engines[which]};
        engines[which]->callbacks.deliver = expect_next;
        (void)rawe_fragment_encode(payload, &(struct rawe_fragment){.kind = RAWE_FRAGMENT_MESSAGE,
                                                                    .tag = (uint8_t)i,
                                                                    .data_bytes = 8});
        assert_true(rawe_deferral_keep(second.deferral, &conns[which], payload, sizeof(payload)));
    }
    mca_btl_rawe_module_progress(&module, true);
    assert_int_equal(delivered, 100);
    assert_false(rawe_engine_has_deferred(&second));
    rawe_engine_free(&second);
    rawe_handle_table_free(&handles);
}

/** Receive damaged frames and packets, advance the clock and make progress. */
static void damage(unsigned frames, unsigned packets, unsigned seconds)
{
    module.engine.counters.dropped_checksum += frames;
    fake.damaged += packets;
    fake_ompi.now_ns += seconds * 1000 * MS;
    fake_wait_in_link(1);
    mca_btl_rawe_module_progress(&module, true);
}

TEST(module_progress__tells_of_damaged_frames)
{
    snprintf(module.interface.name, sizeof(module.interface.name), "eth7");
    damage(0, 0, 1);
    for (unsigned i = 0; i < 10; i++) {
        damage(3, 2, 5); /* ten in ten seconds */
    }
    damage(2, 2, 3);
    assert_int_equal(fake_ompi.shown, 0);
    damage(6, 5, 9);
    assert_int_equal(fake_ompi.shown, 1);
    fake_ompi_assert_shown("frames_damaged", "eth7");
}

TEST(check_damage__at_the_end_too)
{
    damage(0, 0, 1);
    damage(6, 5, 1);
    assert_int_equal(fake_ompi.shown, 0);
    mca_btl_rawe_module_check_damage(&module);
    assert_int_equal(fake_ompi.shown, 1);
}

TEST(module_progress__refused_data_ends_the_job_and_blames_no_process)
{
    static const struct {
        const char *name;
        unsigned fragments, puts; /* numbers refused */
        enum rawe_refusal refusal;
        unsigned comes; /* frames received meanwhile */
        bool finalizing;
        const char *topic, *text; /* message shown; NULL: none, and the job goes on */
    } cases[] = {
        {"a fragment", 1, 0, RAWE_REFUSAL_NONE, 1, false, "internal_error", ""},
        {"a PUT", 0, 1, RAWE_REFUSAL_BOUNDS, 1, false, "put_refused",
         "reaches beyond the registered memory"},
        /* Refused by the progress thread while the program computed. */
        {"a PUT, by another thread", 0, 1, RAWE_REFUSAL_UNKNOWN, 0, false, "put_refused", ""},
        /* The target memory is no longer registered, and no process waits for the data. */
        {"a PUT in finalize", 0, 1, RAWE_REFUSAL_BOUNDS, 1, true, NULL, NULL},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        unit_case(cases[i].name);
        if (i != 0) {
            fake_tear_down();
            fake_set_up();
        }
        fake.internal_errors = cases[i].fragments;
        module.engine.finalizing = cases[i].finalizing;
        module.engine.counters.dropped_fragment = cases[i].fragments;
        module.engine.counters.dropped_handle = cases[i].puts;
        module.engine.put_refusal = cases[i].refusal;
        for (unsigned round = 0; round < 2; round++) {
            fake_wait_in_link(cases[i].comes);
            mca_btl_rawe_module_progress(&module, true);
        }
        assert_int_equal(fake_ompi.shown, cases[i].topic != NULL);
        assert_int_equal(fake_ompi.errors, cases[i].topic != NULL);
        assert_null(fake_ompi.blamed); /* 5.0 would go on without a blamed process */
        if (cases[i].topic != NULL) {
            fake_ompi_assert_shown(cases[i].topic, cases[i].text);
        }
    }
}

TEST(receive__the_ring_has_its_turn_between_batches)
{
    fake_wait_in_bulk(QUEUE_PACKETS);
    fake_wait_in_link(1);
    mca_btl_rawe_module_receive(&module);
    assert_int_equal(fake.link_received, 1);
    assert_in_range(fake.bulk_received, 1, 32); /* packets of 64 kB */
    fake_wait_in_link(1);
    unsigned before = fake.bulk_received;
    mca_btl_rawe_module_receive(&module);
    assert_int_equal(fake.link_received, 2);
    assert_true(fake.bulk_received > before);
    while (fake.bulk_waits != 0) {
        assert_int_not_equal(mca_btl_rawe_module_receive(&module), 0);
    }
    assert_int_equal(fake.bulk_received, QUEUE_PACKETS);
}

TEST(receive__all_of_bulk_before_a_probe_is_answered)
{
    fake_wait_in_bulk(QUEUE_PACKETS);
    fake_wait_in_link(1);
    fake.ring_has_probe = true;
    mca_btl_rawe_module_receive(&module);
    assert_int_equal(fake.bulk_received, QUEUE_PACKETS);
}
