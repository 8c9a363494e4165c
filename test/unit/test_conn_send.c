/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of sending: by copy, and from the memory of the caller.
 */
#include "unit_pair.h"

#include <stdlib.h>

#include "conn/rawe_conn_send.h"
#include "conn/rawe_conn.h"

FIXTURE(unit_set_up, unit_tear_down);

TEST(rawe_conn_send_copy__one_frame_with_one_fragment)
{
    unit_connect(&net, RAWE_LANE_EXPRESS);
    assert_int_equal(rawe_conn_send_copy(end(0), 0x5A, "head", 4, "tail!", 5, net.now_ns),
                     RAWE_STATUS_DONE);
    assert_int_equal(unit_wire_count(&net), 1);
    static const uint8_t payload[] = {1,   0x5A, 0,   9,   0,   0,   0,   0,  'h',
                                      'e', 'a',  'd', 't', 'a', 'i', 'l', '!'};
    assert_int_equal(net.wire->header.payload_bytes, sizeof(payload));
    assert_memory_equal(net.wire->bytes + RAWE_PAYLOAD_OFFSET, payload, sizeof(payload));
    assert_int_equal(counters(0)->messages_sent, 1);
    assert_int_equal(counters(0)->bytes_sent, 9);
    assert_int_equal(counters(0)->frames_sent, 1);
    unit_settle(&net);
    assert_int_equal(net.node[1].messages[0].tag, 0x5A);
    assert_memory_equal(net.node[1].messages[0].data, "headtail!", 9);
}

TEST(rawe_conn_send_copy__every_length)
{
    unit_connect(&net, RAWE_LANE_EXPRESS);
    unsigned count = 0;
    for (size_t len_bytes = 0; len_bytes <= net.config.copy_max_bytes; len_bytes++) {
        unit_send_copy(end(0), (uint8_t)len_bytes, len_bytes);
        unit_run(&net, 100 * UNIT_US, 50 * UNIT_US);
        unit_assert_message(&net.node[1], count++, (uint8_t)len_bytes, len_bytes,
                            (uint8_t)len_bytes);
    }
    finish();
    assert_int_equal(counters(0)->frames_sent, net.config.copy_max_bytes + 1);
    assert_int_equal(counters(0)->frames_resent, 0);
}

TEST(rawe_conn_send_copy__nothing_at_all_is_a_message)
{
    unit_connect(&net, RAWE_LANE_EXPRESS);
    assert_int_equal(rawe_conn_send_copy(end(0), 7, NULL, 0, NULL, 0, net.now_ns),
                     RAWE_STATUS_DONE);
    unit_settle(&net);
    assert_int_equal(net.node[1].message_count, 1);
    assert_int_equal(net.node[1].messages[0].len_bytes, 0);
}

TEST(rawe_conn_send_copy__busy_behind_the_queue)
{
    static uint8_t data[60000];
    struct unit_send send = {0};
    unit_connect(&net, RAWE_LANE_EXPRESS);
    end(0)->peer_credit = 4;
    unit_send_message(end(0), &send, 1, data, sizeof(data));
    assert_non_null(end(0)->queue.first);
    assert_int_equal(unit_copy_message(end(0), 1, 1), RAWE_STATUS_BUSY);
    finish();
    unit_send_copy(end(0), 1, 1);
}

TEST(rawe_conn_send_copy__busy_without_credit)
{
    unit_connect(&net, RAWE_LANE_EXPRESS);
    end(0)->peer_credit = 5;
    for (unsigned i = 0; i < 5; i++) {
        unit_send_copy(end(0), 1, 1);
    }
    assert_int_equal(unit_copy_message(end(0), 1, 1), RAWE_STATUS_BUSY);
    assert_int_equal(unit_wire_count(&net), 5);
    finish();
    assert_int_equal(net.node[1].message_count, 5);
    unit_send_copy(end(0), 1, 1);
}

TEST(rawe_conn_send_copy__busy_without_a_frame)
{
    net.node[0].engine.frames.limit = 0; /* a slab of each size is always had */
    unit_connect(&net, RAWE_LANE_EXPRESS);
    end(0)->peer_credit = 1000;
    unit_fix_window(end(0), 1000);
    unsigned count = 0;
    while (unit_copy_message(end(0), 1, 10) == RAWE_STATUS_DONE) {
        count++;
    }
    assert_int_equal(count, 64);
    assert_int_equal(unit_copy_message(end(0), 1, 10), RAWE_STATUS_BUSY);
    finish();
    assert_int_equal(net.node[1].message_count, count);
    unit_send_copy(end(0), 1, 10);
}

TEST(rawe_conn_send_copy__link_full_keeps_the_frame)
{
    unit_start_with((struct unit_options){.coalesce_from_frames = 8});
    unit_connect(&net, RAWE_LANE_EXPRESS);
    net.node[0].link_room = 0;
    unit_send_copy(end(0), 1, 700);
    assert_int_equal(counters(0)->link_stalls, 1);
    assert_int_equal(counters(0)->frames_sent, 0);
    assert_int_equal(unit_copy_message(end(0), 2, 10), RAWE_STATUS_BUSY); /* not past the first */
    assert_true(rawe_engine_pending(&net.node[0].engine));
    rawe_engine_flush(&net.node[0].engine, net.now_ns); /* still full */
    assert_true(rawe_engine_pending(&net.node[0].engine));
    assert_false(rawe_conn_drained(end(0)));
    net.node[0].link_room = UINT32_MAX;
    finish();
    unit_assert_last(&net.node[1], 1, 1, 700, 1);
    assert_int_equal(counters(0)->frames_sent, 1);
    assert_int_equal(counters(0)->frames_resent, 0);
}

/* Unless another thread transmits it, a message is not complete before. */
TEST(rawe_conn_send_copy__link_full_and_nothing_may_be_held_back)
{
    unit_connect(&net, RAWE_LANE_EXPRESS);
    net.node[0].link_room = 0;
    uint32_t next = end(0)->sendwin.next;
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(unit_copy_message(end(0), 1, 700), RAWE_STATUS_BUSY);
    }
    assert_int_equal(end(0)->sendwin.next, next);
    assert_int_equal(counters(0)->link_stalls, 1); /* tried once */
    assert_int_equal(counters(0)->messages_sent, 0);
    net.node[0].link_room = UINT32_MAX;
    unit_settle(&net);
    unit_send_copy(end(0), 2, 700);
    finish();
    unit_assert_last(&net.node[1], 1, 2, 700, 2);
}

TEST(rawe_conn_send__link_full_and_nothing_may_be_held_back)
{
    static uint8_t data[100] = {1, 2, 3};
    struct unit_send send = {0};
    unit_connect(&net, RAWE_LANE_EXPRESS);
    net.node[0].link_room = 0;
    unit_send_message(end(0), &send, 1, data, sizeof(data));
    rawe_engine_flush(&net.node[0].engine, net.now_ns);
    assert_int_equal(send.done, 0);
    net.node[0].link_room = UINT32_MAX;
    unit_settle(&net);
    assert_int_equal(send.done, 1);
    assert_int_equal(net.node[1].message_count, 1);
}

TEST(rawe_conn_send__every_kind_of_length)
{
    static uint8_t data[65536];
    unit_fill(data, sizeof(data), 2);
    unit_start_with((struct unit_options){.coalesce_from_frames = 64});
    unit_connect(&net, RAWE_LANE_EXPRESS);
    size_t frame = rawe_conn_frame_message_bytes(end(0));
    size_t segment = net.config.payload_max_bytes - RAWE_FRAGMENT_PART_BYTES;
    size_t copy = net.config.copy_max_bytes;
    const size_t lengths[] = {1,
                              2,
                              3,
                              7,
                              8,
                              9,
                              184,
                              192,
                              193,
                              copy - 1,
                              copy,
                              copy + 1,
                              segment,
                              segment + 1,
                              frame - 1,
                              frame,
                              frame + 1,
                              2 * segment,
                              2 * segment + 1,
                              10 * segment - 1,
                              32768,
                              65535,
                              65536};
    for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        struct unit_send send = {0};
        unit_send_message(end(0), &send, (uint8_t)i, data, lengths[i]);
        /* What was copied is complete at once, what is referred to when the peer has it. */
        assert_int_equal(send.done, lengths[i] <= copy);
        finish();
        unit_assert_sent(&send, 1, RAWE_STATUS_DONE);
        unit_assert_message(&net.node[1], i, (uint8_t)i, lengths[i], 2);
    }
    assert_int_equal(counters(0)->frames_resent, 0);
    assert_int_equal(counters(0)->messages_sent, sizeof(lengths) / sizeof(lengths[0]));
    assert_int_equal(counters(1)->bytes_received, counters(0)->bytes_sent);
}

TEST(rawe_conn_send__two_pieces_cut_anywhere)
{
    static uint8_t data[3000];
    unit_fill(data, sizeof(data), 5);
    unit_connect(&net, RAWE_LANE_EXPRESS);
    size_t segment = net.config.payload_max_bytes - RAWE_FRAGMENT_PART_BYTES;
    const size_t cuts[] = {
        1,           segment - 1,     segment,         segment + 1, 2 * segment - 1,
        2 * segment, 2 * segment + 1, sizeof(data) - 1};
    for (unsigned i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
        struct unit_send send = {0};
        unit_send_message(end(0), &send, 3, data, sizeof(data)); /* sets it up ... */
        finish();
        send.done = 0;
        send.send.pieces[0] = (struct rawe_bytes){data, cuts[i]};
        send.send.pieces[1] = (struct rawe_bytes){data + cuts[i], sizeof(data) - cuts[i]};
        rawe_conn_send(end(0), &send.send, net.now_ns); /* ... to be cut elsewhere */
        finish();
        assert_int_equal(send.done, 1);
        unit_assert_message(&net.node[1], 2 * i + 1, 3, sizeof(data), 5);
    }
}

TEST(rawe_conn_send__memory_is_read_until_done_only)
{
    unit_connect(&net, RAWE_LANE_EXPRESS);
    for (size_t len_bytes = 100; len_bytes <= 10000; len_bytes += 4900) {
        uint8_t *data = malloc(len_bytes);
        assert_non_null(data);
        unit_fill(data, len_bytes, 1);
        struct unit_send send = {0};
        unit_send_message(end(0), &send, 1, data, len_bytes);
        while (send.done == 0) {
            unit_run(&net, 20 * UNIT_US, 20 * UNIT_US);
        }
        free(data); /* the address sanitizer sees reads from here on */
        unit_run(&net, 5 * UNIT_MS, 50 * UNIT_US);
    }
    assert_int_equal(net.node[1].message_count, 3);
}

TEST(rawe_conn_send__the_last_frame_asks_for_an_acknowledgement)
{
    static uint8_t data[1400];
    struct unit_send send = {0};
    unit_connect(&net, RAWE_LANE_EXPRESS);
    unit_send_message(end(0), &send, 1, data, sizeof(data));
    assert_true((net.wire->header.flags & RAWE_FLAG_ACK_NOW) != 0);
    unit_settle(&net); /* time stands still: no delayed acknowledgement can have come */
    assert_int_equal(send.done, 1);
}

struct chain {
    struct unit_send send; /* first: cast back from it */
    unsigned left;
    uint8_t byte;
};

static void next_link(struct unit_send *send)
{
    struct chain *chain = (struct chain *)(void *)send;
    if (chain->left != 0) {
        chain->left--;
        unit_send_message(end(0), &chain->send, 1, &chain->byte, 1);
    }
}

TEST(rawe_conn_send__a_done_that_sends_again)
{
    unit_start_with((struct unit_options){.window_frames = RAWE_WINDOW_FRAMES_MAX});
    unit_connect(&net, RAWE_LANE_EXPRESS);
    end(0)->peer_credit = RAWE_WINDOW_FRAMES_MAX;
    unit_fix_window(end(0), RAWE_WINDOW_FRAMES_MAX);
    struct chain chain = {.send.on_done = next_link, .left = 4999};
    unit_send_message(end(0), &chain.send, 1, &chain.byte, 1);
    for (unsigned i = 0; i < 1000 && net.node[1].message_count < 5000; i++) {
        unit_run(&net, 100 * UNIT_US, 50 * UNIT_US);
    }
    assert_int_equal(net.node[1].message_count, 5000);
    assert_int_equal(chain.left, 0);
    finish();
}

/** A send on a failed connection completes at once, unless the owner cannot be called. */
TEST(rawe_conn_send__has_failed)
{
    static uint8_t data[100];
    struct unit_send sends[3] = {0};
    unit_connect(&net, RAWE_LANE_EXPRESS);
    end(0)->handshake.state = RAWE_CONN_FAILED;
    unit_send_put(end(0), &sends[0], data, sizeof(data), 1, 2, 0);
    assert_int_equal(sends[0].done, 1);
    rawe_engine_defer_begin(&net.node[0].engine);
    unit_send_put(end(0), &sends[1], data, sizeof(data), 1, 2, 0);
    unit_send_put(end(0), &sends[2], data, sizeof(data), 1, 2, 0);
    assert_int_equal(sends[1].done + sends[2].done, 0);
    rawe_engine_defer_end(&net.node[0].engine);
    rawe_engine_deliver_deferred(&net.node[0].engine);
    unit_assert_sent(sends, 3, RAWE_STATUS_FAILED);
}

/** A callback gives a later time than its round began with; what follows must not look older. */
TEST(rawe_conn_send_copy__time_does_not_go_back)
{
    struct rawe_conn *conn = unit_connect(&net, RAWE_LANE_EXPRESS);
    uint64_t begin_ns = net.now_ns;
    assert_int_equal(rawe_conn_send_copy(conn, 1, "a", 1, NULL, 0, begin_ns + UNIT_MS),
                     RAWE_STATUS_DONE);
    assert_int_equal(rawe_conn_send_copy(conn, 1, "b", 1, NULL, 0, begin_ns), RAWE_STATUS_DONE);
    const struct rawe_txframe *newest = conn->sendwin.newest;
    assert_true(newest->first.oldest_ns >= newest->previous->first.oldest_ns);
}
