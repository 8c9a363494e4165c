/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the checksum on frames: where it is, and that nothing changed gets past it.
 */
#include "unit_pair.h"

#include <string.h>

static void set_up(void)
{
    unit_start_with((struct unit_options){.checksum = true});
}

static bool drop_nothing_note_flags(struct unit_net *of, const struct net_frame *frame)
{
    of->filter_count += (frame->header.flags & RAWE_FLAG_CHECKSUM) == 0;
    return true;
}

FIXTURE(set_up, unit_tear_down);

TEST(checksum__on_every_frame)
{
    static uint8_t data[20000];
    struct unit_send sends[2];
    memset(sends, 0, sizeof(sends));
    unit_fill(data, sizeof(data), 3);
    net.filter = drop_nothing_note_flags;
    unit_connect(&net, RAWE_LANE_EXPRESS);
    for (unsigned from = 0; from < UNIT_NODES; from++) {
        unit_send_message(end(from), &sends[from], 1, data, sizeof(data));
    }
    unit_run(&net, 5 * UNIT_MS, 50 * UNIT_US);
    unit_assert_message(&net.node[0], net.node[0].message_count - 1, 1, sizeof(data), 3);
    unit_assert_message(&net.node[1], net.node[1].message_count - 1, 1, sizeof(data), 3);
    unit_close(&net, 0, RAWE_LANE_EXPRESS);
    unit_settle(&net);
    assert_int_equal(net.filter_count, 0);
    assert_int_equal(end(1)->handshake.state, RAWE_CONN_PEER_CLOSED);
    assert_int_equal(counters(0)->dropped_checksum + counters(1)->dropped_checksum, 0);
}

TEST(checksum__every_changed_bit_is_found)
{
    unit_connect(&net, RAWE_LANE_EXPRESS);
    assert_int_equal(unit_copy_message(end(0), 1, 100), RAWE_STATUS_DONE);
    struct net_frame *frame = unit_wire_take(&net);
    assert_non_null(frame);
    for (size_t bit = 0; bit < 8 * (frame->len_bytes - RAWE_ETH_HEADER_BYTES); bit++) {
        struct net_frame *bad = net_frame_copy(frame);
        bad->bytes[RAWE_ETH_HEADER_BYTES + bit / 8] ^= (uint8_t)(1u << bit % 8);
        unit_receive(&net, bad);
        net_frame_free(bad);
        assert_int_equal(net.node[1].message_count, 0);
        assert_int_equal(end(1)->recvwin.acktr->next, 0);
    }
    assert_true(counters(1)->dropped_checksum > 100 * 8);
    unit_receive(&net, frame);
    net_frame_free(frame);
    assert_int_equal(net.node[1].message_count, 1);
}

TEST(checksum__cut_off)
{
    unit_connect(&net, RAWE_LANE_EXPRESS);
    assert_int_equal(unit_copy_message(end(0), 1, 10), RAWE_STATUS_DONE);
    struct net_frame *frame = unit_wire_take(&net);
    assert_non_null(frame);
    for (size_t missing = 1; missing <= RAWE_CHECKSUM_BYTES; missing++) {
        struct net_frame *bad = net_frame_copy(frame);
        bad->len_bytes -= missing;
        unit_receive(&net, bad);
        net_frame_free(bad);
        assert_int_equal(counters(1)->dropped_checksum, missing);
    }
    net_frame_free(frame);
    assert_int_equal(net.node[1].message_count, 0);
}

TEST(checksum__missing_where_it_is_demanded)
{
    static const uint8_t payload[] = {RAWE_FRAGMENT_MESSAGE, 1, 0, 4, 0, 0, 0, 0, 1, 2, 3, 4};
    unit_connect(&net, RAWE_LANE_EXPRESS);
    struct net_frame *frame =
        unit_forge(&net, 0, RAWE_LANE_EXPRESS, (struct rawe_header){.type = RAWE_FRAME_DATA},
                   payload, sizeof(payload));
    unit_receive(&net, frame);
    assert_int_equal(counters(1)->dropped_checksum, 1);
    assert_int_equal(net.node[1].message_count, 0);
    net.node[1].engine.config.checksum = false; /* a node that sends none demands none */
    unit_receive(&net, frame);
    net_frame_free(frame);
    assert_int_equal(net.node[1].message_count, 1);
    net.node[1].engine.config.checksum = true;
}

TEST(checksum__is_looked_at_even_when_not_demanded)
{
    unit_connect(&net, RAWE_LANE_EXPRESS);
    net.node[1].engine.config.checksum = false;
    assert_int_equal(unit_copy_message(end(0), 1, 10), RAWE_STATUS_DONE);
    struct net_frame *frame = unit_wire_take(&net);
    frame->bytes[RAWE_PAYLOAD_OFFSET + RAWE_FRAGMENT_MESSAGE_BYTES] ^= 1;
    unit_receive(&net, frame);
    net_frame_free(frame);
    assert_int_equal(counters(1)->dropped_checksum, 1);
    assert_int_equal(net.node[1].message_count, 0);
    net.node[1].engine.config.checksum = true;
}

static bool change_some(struct unit_net *of, const struct net_frame *frame)
{
    of->filter_count = of->filter_count * 1664525u + 1013904223u;
    if ((of->filter_count >> 16) % 6 == 0) {
        frame->bytes[RAWE_ETH_HEADER_BYTES +
                     (of->filter_count >> 8) % (frame->len_bytes - RAWE_ETH_HEADER_BYTES)] ^=
            (uint8_t)(of->filter_count >> 20 | 1);
    }
    return true;
}

TEST(checksum__a_wire_that_garbles_delivers_nothing_wrong)
{
    static uint8_t data[30000], memory[30000];
    uint32_t index;
    uint64_t key;
    unit_use_batches(&net, 10);
    unit_connect(&net, RAWE_LANE_EXPRESS);
    unit_connect(&net, RAWE_LANE_BULK);
    assert_true(rawe_handle_register(&net.node[1].handles, memory, sizeof(memory), &index, &key,
                                     RAWE_ACCESS_WRITE));
    net.filter = change_some;
    for (unsigned round = 0; round < 10; round++) {
        struct unit_send message = {0}, put = {0};
        unsigned before = net.node[1].message_count;
        unit_fill(data, sizeof(data), round);
        unit_send_message(end(0), &message, 1, data, sizeof(data));
        unit_send_put(net.node[0].conn[RAWE_LANE_BULK], &put, data, sizeof(data), index, key, 0);
        for (unsigned i = 0; i < 2000 && (message.done == 0 || put.done == 0); i++) {
            unit_run(&net, UNIT_MS, 50 * UNIT_US);
        }
        assert_int_equal(message.done + put.done, 2);
        assert_memory_equal(memory, data, sizeof(data));
        assert_int_equal(net.node[1].message_count, before + 1);
        unit_assert_message(&net.node[1], before, 1, sizeof(data), round);
    }
    assert_true(counters(1)->dropped_checksum > 10);
}
