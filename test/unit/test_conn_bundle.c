/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of bundles: which queued messages share one, its layout, and when its messages complete.
 * Only the connection's queue is used; test_conn_send.c sends and receives bundles.
 */
#include <string.h>

#include "conn/rawe_conn_batch.h"
#include "unit_alloc.h"
#include "unit_test.h"

#define MESSAGES 40u
#define BUNDLES_MAX 3u

static struct rawe_engine engine;
static struct rawe_conn conn;
static struct rawe_route route;
static uint8_t content[RAWE_BATCH_BYTES_MAX + MESSAGES];

static struct message {
    struct rawe_send send; /**< must be first: cast back from it */
    unsigned done;
    enum rawe_status status;
    unsigned turn; /**< number of messages completed before this one */
} messages[MESSAGES];
static unsigned message_count, done_count;

static void set_up(void)
{
    memset(&engine, 0, sizeof(engine));
    memset(&conn, 0, sizeof(conn));
    memset(messages, 0, sizeof(messages));
    for (size_t i = 0; i < sizeof(content); i++) {
        content[i] = (uint8_t)(1 + i % 251);
    }
    engine.config.message_max_bytes = RAWE_BATCH_BYTES_MAX;
    engine.config.coalesce_from_frames = 2;
    rawe_conn_bundle_pool_init(&engine.bundles);
    engine.bundles.limit = BUNDLES_MAX;
    engine.deferral = &engine.own_deferral;
    conn.engine = &engine;
    rawe_route_init(&route);
    rawe_order_add(route.order, &conn.tx.ordered);
    rawe_sendqueue_init(&conn.tx.queue, 7);
    message_count = done_count = 0;
}

/** Assert that all bundles have been returned to the pool. */
static void tear_down(void)
{
    rawe_buffer_pool_free(&engine.bundles);
    assert_int_equal(engine.bundles.allocated, 0);
}

static void done(struct rawe_send *send, enum rawe_status status)
{
    struct message *message = (struct message *)(void *)send;
    message->done++;
    message->status = status;
    message->turn = done_count++;
}

/** Queue a message whose content starts at its number, in two pieces unless it is very short. */
static struct rawe_send *queue(size_t len_bytes)
{
    struct rawe_send *send = &messages[message_count].send;
    size_t first_bytes = len_bytes / 3;
    uint8_t *from = content + message_count;
    *send = (struct rawe_send){
        .done = done,
        .kind = RAWE_FRAGMENT_MESSAGE,
        .tag = (uint8_t)(100 + message_count),
        .ordered = true,
    };
    if (first_bytes != 0) {
        send->pieces[send->piece_count++] = (struct rawe_bytes){from, first_bytes};
    }
    send->pieces[send->piece_count++] =
        (struct rawe_bytes){from + first_bytes, len_bytes - first_bytes};
    rawe_sendqueue_push(&conn.tx.queue, send);
    message_count++;
    return send;
}

/** Bundle the queue's first messages and pop the bundle. Return NULL if none was made. */
static struct rawe_send *bundle(uint32_t bytes_max)
{
    rawe_conn_bundle(&conn, bytes_max);
    if (conn.tx.queue.first == NULL || conn.tx.queue.first->kind != RAWE_FRAGMENT_BUNDLE) {
        return NULL;
    }
    return rawe_sendqueue_pop(&conn.tx.queue);
}

/** Assert that a bundle holds `count` messages from `first` on, padded with zeros. */
static void assert_holds(const struct rawe_send *made, unsigned first, unsigned count)
{
    assert_non_null(made);
    assert_int_equal(made->piece_count, 1);
    const uint8_t *cursor = made->pieces[0].base;
    const uint8_t *end = cursor + made->total_bytes;
    assert_int_equal(made->pieces[0].len_bytes, made->total_bytes);
    for (unsigned i = first; i < first + count; i++) {
        struct rawe_fragment fragment;
        assert_true(cursor != end);
        assert_int_equal(rawe_fragment_decode(&fragment, &cursor, end), RAWE_DECODE_OK);
        assert_int_equal(fragment.kind, RAWE_FRAGMENT_MESSAGE);
        assert_int_equal(fragment.tag, messages[i].send.tag);
        assert_int_equal(fragment.data_bytes, messages[i].send.total_bytes);
        assert_memory_equal(fragment.data, content + i, fragment.data_bytes);
        for (const uint8_t *pad = fragment.data + fragment.data_bytes; pad < cursor; pad++) {
            assert_int_equal(*pad, 0);
        }
    }
    assert_ptr_equal(cursor, end);
}

FIXTURE(set_up, tear_down);

TEST(rawe_conn_bundle__not_of_a_single_message)
{
    assert_null(bundle(RAWE_BATCH_BYTES_MAX));
    struct rawe_send *only = queue(10);
    assert_null(bundle(RAWE_BATCH_BYTES_MAX));
    assert_ptr_equal(conn.tx.queue.first, only);
    struct rawe_send *put = queue(10);
    put->kind = RAWE_FRAGMENT_PUT;
    assert_null(bundle(RAWE_BATCH_BYTES_MAX));
    assert_ptr_equal(conn.tx.queue.first, only);
    assert_int_equal(conn.tx.queue.count, 2);
    assert_int_equal(engine.bundles.allocated, 0);
    assert_int_equal(engine.counters.messages_coalesced, 0);
}

TEST(rawe_conn_bundle__not_what_has_to_go_alone)
{
    struct rawe_send *first = queue(10);
    (void)queue(10);
    first->kind = RAWE_FRAGMENT_PUT;
    assert_null(bundle(RAWE_BATCH_BYTES_MAX));
    first->kind = RAWE_FRAGMENT_BUNDLE;
    rawe_conn_bundle(&conn, RAWE_BATCH_BYTES_MAX);
    assert_ptr_equal(conn.tx.queue.first, first);
    first->kind = RAWE_FRAGMENT_MESSAGE;
    first->fragmented = true; /* part of it has been sent */
    assert_null(bundle(RAWE_BATCH_BYTES_MAX));
    assert_ptr_equal(conn.tx.queue.first, first);
}

TEST(rawe_conn_bundle__not_with_coalescing_off)
{
    engine.config.coalesce_from_frames = 0;
    (void)queue(10);
    (void)queue(10);
    assert_null(bundle(RAWE_BATCH_BYTES_MAX));
    assert_int_equal(conn.tx.queue.count, 2);
}

TEST(rawe_conn_bundle__longest_message)
{
    (void)queue(RAWE_CONN_BUNDLED_BYTES_MAX);
    (void)queue(10);
    (void)queue(RAWE_CONN_BUNDLED_BYTES_MAX + 1);
    (void)queue(10);
    struct rawe_send *made = bundle(RAWE_BATCH_BYTES_MAX);
    assert_holds(made, 0, 2);
    made->done(made, RAWE_STATUS_DONE);
    assert_null(bundle(RAWE_BATCH_BYTES_MAX));
    assert_ptr_equal(conn.tx.queue.first, &messages[2].send);
}

/** Three 98-byte messages take 3 * 102 bytes, plus 2 * 2 bytes of padding between them. */
TEST(rawe_conn_bundle__fills_what_there_is_to_the_byte)
{
    for (unsigned i = 0; i < 7; i++) {
        (void)queue(98);
    }
    struct rawe_send *made = bundle(310);
    assert_holds(made, 0, 3);
    assert_int_equal(made->total_bytes, 310);
    made->done(made, RAWE_STATUS_DONE);
    made = bundle(309);
    assert_holds(made, 3, 2);
    made->done(made, RAWE_STATUS_DONE);
    assert_null(bundle(205)); /* two messages take 206 bytes */
    assert_int_equal(conn.tx.queue.count, 2);
    engine.config.message_max_bytes = 205;
    assert_null(bundle(310));
    engine.config.message_max_bytes = 206;
    made = bundle(310);
    assert_holds(made, 5, 2);
    made->done(made, RAWE_STATUS_DONE);
}

TEST(rawe_conn_bundle__a_whole_batch)
{
    size_t len_bytes = RAWE_BATCH_BYTES_MAX / 32 - RAWE_FRAGMENT_MESSAGE_BYTES;
    for (unsigned i = 0; i < 33; i++) {
        (void)queue(len_bytes);
    }
    struct rawe_send *made = bundle(UINT32_MAX);
    assert_holds(made, 0, 32);
    assert_int_equal(made->total_bytes, RAWE_BATCH_BYTES_MAX);
    made->done(made, RAWE_STATUS_DONE);
}

TEST(rawe_conn_bundle__while_there_are_buffers)
{
    struct rawe_send *made[BUNDLES_MAX];
    for (unsigned i = 0; i < BUNDLES_MAX; i++) {
        (void)queue(10);
        (void)queue(20);
        made[i] = bundle(RAWE_BATCH_BYTES_MAX);
        assert_holds(made[i], 2 * i, 2);
    }
    struct rawe_send *left = queue(10);
    (void)queue(20);
    assert_null(bundle(RAWE_BATCH_BYTES_MAX)); /* no buffer: the messages are sent singly */
    assert_ptr_equal(conn.tx.queue.first, left);
    assert_int_equal(conn.tx.queue.count, 2);
    assert_int_equal(engine.counters.messages_coalesced, 2 * BUNDLES_MAX);
    made[1]->done(made[1], RAWE_STATUS_DONE);
    struct rawe_send *again = bundle(RAWE_BATCH_BYTES_MAX);
    assert_ptr_equal(again, made[1]); /* the buffer is reused */
    assert_holds(again, 2 * BUNDLES_MAX, 2);
    made[0]->done(made[0], RAWE_STATUS_DONE);
    made[2]->done(made[2], RAWE_STATUS_DONE);
    again->done(again, RAWE_STATUS_DONE);
}

TEST(rawe_conn_bundle__not_without_memory)
{
    struct rawe_send *first = queue(10);
    (void)queue(20);
    unit_allocations_left = 0;
    assert_null(bundle(RAWE_BATCH_BYTES_MAX));
    unit_allocations_left = -1;
    assert_ptr_equal(conn.tx.queue.first, first);
    assert_int_equal(conn.tx.queue.count, 2);
    struct rawe_send *made = bundle(RAWE_BATCH_BYTES_MAX);
    assert_holds(made, 0, 2);
    made->done(made, RAWE_STATUS_DONE);
}
