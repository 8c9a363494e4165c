/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A peer between two engines: see unit_peer.h.
 */
#include "unit_peer.h"

#include <string.h>

#include "net_engine.h"
#include "conn/rawe_conn.h"
#include "conn/rawe_conn_connect.h"

struct rawe_peer peer;

unsigned clock_reads, wire_at_last_read;

static uint64_t read_clock(void *context)
{
    assert_ptr_equal(context, &net);
    clock_reads++;
    wire_at_last_read = net_queue_count(&net.queue);
    return net.now_ns;
}

struct sent sent[MESSAGES];
unsigned sent_count;

struct rawe_peer_config unit_peer_config(void)
{
    struct rawe_peer_config config = net_peer_config(1);
    config.payload_max_bytes = net.config.payload_max_bytes;
    config.owner = &net.node[0];
    return config;
}

void unit_peer_start(bool batches)
{
    unit_start_with(
        (struct unit_options){.window_frames = 256, .coalesce_from_frames = COALESCE_FROM});
    if (batches) {
        unit_use_batches(&net, 16);
    }
    const struct rawe_peer_config config = unit_peer_config();
    engine(0)->config.streak_ns = STREAK_NS;
    engine(0)->config.clock_ns = read_clock;
    engine(0)->config.clock_context = &net;
    rawe_peer_init(&peer, &net.node[0].engine, &config);
    memset(sent, 0, sizeof(sent));
    sent_count = clock_reads = 0;
}

void unit_peer_set_up(void)
{
    unit_peer_start(true);
}

void unit_peer_connect_lane(enum rawe_lane lane)
{
    net.node[0].conn[lane] = rawe_peer_conn(&peer, lane);
    assert_non_null(net.node[0].conn[lane]);
    rawe_conn_connect(net.node[0].conn[lane], net.now_ns);
    unit_settle(&net);
    assert_int_equal(net.node[0].conn[lane]->handshake.state, RAWE_CONN_OPEN);
}

void unit_peer_connect(void)
{
    unit_peer_connect_lane(RAWE_LANE_EXPRESS);
    unit_peer_connect_lane(RAWE_LANE_BULK);
}

static void completed(struct rawe_message *message, enum rawe_status status)
{
    struct sent *one = (struct sent *)(void *)message;
    assert_int_equal(one->result, RAWE_PEER_QUEUED);
    assert_int_equal(one->completed, 0);
    one->completed++;
    one->status = status;
}

static void released(struct rawe_message *message)
{
    struct sent *one = (struct sent *)(void *)message;
    assert_true(message->completed_early);
    assert_int_equal(one->completed, one->result == RAWE_PEER_QUEUED);
    assert_int_equal(one->released, 0);
    one->released++;
}

struct sent *unit_peer_make(size_t first_bytes, size_t second_bytes, bool may_complete_early)
{
    struct sent *one = &sent[sent_count];
    unit_fill(one->elsewhere, first_bytes + second_bytes, sent_count);
    memcpy(one->own, one->elsewhere, first_bytes);
    one->message.complete = completed;
    one->message.release = released;
    one->message.own = may_complete_early ? one->own : NULL;
    one->message.send.tag = (uint8_t)sent_count++;
    one->message.send.piece_count = second_bytes != 0 ? 2 : 1;
    one->message.send.pieces[0] = (struct rawe_bytes){one->own, first_bytes};
    one->message.send.pieces[1] = (struct rawe_bytes){one->elsewhere + first_bytes, second_bytes};
    return one;
}

struct sent *unit_peer_send_made(struct sent *one)
{
    one->result = RAWE_PEER_QUEUED;
    one->result = rawe_peer_send(&peer, &one->message);
    return one;
}

struct sent *unit_peer_send(size_t len_bytes, bool may_complete_early)
{
    return unit_peer_send_made(unit_peer_make(len_bytes, 0, may_complete_early));
}

bool unit_peer_drained(void)
{
    bool drained = true;
    for (unsigned lane = 0; lane < RAWE_LANES; lane++) {
        drained = drained && (peer.conn[lane] == NULL || rawe_conn_drained(peer.conn[lane]));
    }
    return drained;
}

void unit_peer_finish(void)
{
    for (unsigned i = 0; i < 2000 && !unit_peer_drained(); i++) {
        unit_run(&net, UNIT_MS, 50 * UNIT_US);
    }
    assert_true(unit_peer_drained());
}

void unit_peer_assert_delivered(unsigned index, size_t len_bytes)
{
    for (unsigned i = 0; i < net.node[1].message_count; i++) {
        if (net.node[1].messages[i].tag == index) {
            unit_assert_message(&net.node[1], i, (uint8_t)index, len_bytes, index);
            return;
        }
    }
    fail_msg("message %u has not been delivered", index);
}

unsigned unit_peer_frames(enum rawe_lane lane)
{
    return net.node[0].sent[lane == RAWE_LANE_BULK ? RAWE_FRAME_BULK : RAWE_FRAME_DATA];
}

enum rawe_status unit_peer_send_copy(size_t len_bytes)
{
    static uint8_t data[MESSAGE_BYTES];
    return rawe_peer_send_copy(&peer, 200, data, 10, data + 10, len_bytes - 10);
}
