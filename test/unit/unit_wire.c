/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Frames on the wire: see unit_wire.h.
 */
#include "unit_wire.h"

#include <stdlib.h>
#include <string.h>

#include "net_engine.h"

/** More steps than any test needs to come to rest. */
#define STEPS_MAX 100000u

/**
 * Merge the frames of a batch, and receive them as one. Returns how many frames, from the first on,
 * that were.
 */
static unsigned receive_batch(struct unit_net *net, struct net_frame *first)
{
    struct net_frame *frames[RAWE_BATCH_FRAMES_MAX];
    unsigned count = 0;
    bool placed;
    for (struct net_frame *frame = first;
         frame != NULL && frame->batch == first->batch && frame->to == first->to;
         frame = frame->next) {
        assert_true(count < RAWE_BATCH_FRAMES_MAX);
        frames[count++] = frame;
    }
    count = net_frames_receive(&net->node[first->to].engine, frames, count, net->now_ns, &placed);
    net->batches_placed += placed;
    net->batches_not_placed += !placed;
    return count;
}

unsigned unit_step(struct unit_net *net)
{
    struct net_frame *round = net->wire;
    unsigned count = 0;
    net->wire = NULL;
    net->wire_tail = &net->wire;
    unsigned received = 0; /* frames of a batch that were received with the first of them */
    while (round != NULL) {
        struct net_frame *next = round->next;
        if (received == 0 && net->node[round->to].paused) {
            unit_wire_put(net, round);
            round = next;
            continue;
        }
        if (received == 0 && round->batch != 0) {
            received = receive_batch(net, round);
        } else if (received == 0) {
            unit_receive(net, round);
        }
        received -= received != 0;
        net_frame_free(round);
        count++;
        round = next;
    }
    for (unsigned i = 0; i < UNIT_NODES; i++) {
        if (net->node[i].started && !net->node[i].paused) {
            rawe_engine_flush(&net->node[i].engine, net->now_ns);
        }
    }
    return count;
}

void unit_settle(struct unit_net *net)
{
    /* A connection may wait for something that only time or the test brings: it stays pending. */
    unsigned idle = 0;
    for (unsigned steps = 0; steps < STEPS_MAX; steps++) {
        unsigned before = unit_wire_count(net);
        bool progressed = unit_step(net) != 0 || unit_wire_count(net) != before;
        idle = progressed ? 0 : idle + 1;
        if (idle == 2) {
            return;
        }
    }
    fail_msg("the network does not come to rest");
}

void unit_run(struct unit_net *net, uint64_t duration_ns, uint64_t step_ns)
{
    uint64_t end_ns = net->now_ns + duration_ns;
    while (net->now_ns < end_ns) {
        net->now_ns = end_ns - net->now_ns > step_ns ? net->now_ns + step_ns : end_ns;
        unit_settle(net);
        for (unsigned i = 0; i < UNIT_NODES; i++) {
            if (net->node[i].started && !net->node[i].paused) {
                rawe_engine_advance(&net->node[i].engine, net->now_ns);
            }
        }
        unit_settle(net);
    }
}

struct net_frame *unit_wire_take(struct unit_net *net)
{
    struct net_frame *frame = net->wire;
    if (frame != NULL) {
        net->wire = frame->next;
        if (net->wire == NULL) {
            net->wire_tail = &net->wire;
        }
        frame->next = NULL;
    }
    return frame;
}

void unit_wire_put(struct unit_net *net, struct net_frame *frame)
{
    frame->next = NULL;
    *net->wire_tail = frame;
    net->wire_tail = &frame->next;
}

unsigned unit_wire_count(const struct unit_net *net)
{
    unsigned count = 0;
    for (const struct net_frame *frame = net->wire; frame != NULL; frame = frame->next) {
        count++;
    }
    return count;
}

void unit_wire_clear(struct unit_net *net)
{
    struct net_frame *frame;
    while ((frame = unit_wire_take(net)) != NULL) {
        net_frame_free(frame);
    }
}

void unit_receive(struct unit_net *net, const struct net_frame *frame)
{
    if (net->node[frame->to].started) {
        (void)net_receive(&net->node[frame->to].engine, frame->bytes, (uint32_t)frame->len_bytes,
                          net->now_ns);
    }
}

void unit_receive_next(struct unit_net *net)
{
    struct net_frame *frame = unit_wire_take(net);
    assert_non_null(frame);
    unit_receive(net, frame);
    net_frame_free(frame);
}

void unit_frame_encode(struct net_frame *frame)
{
    assert_false(net_is_batch(frame->bytes, (uint32_t)frame->len_bytes));
    rawe_header_encode(frame->bytes + RAWE_ETH_HEADER_BYTES, &frame->header);
}

struct net_frame *unit_forge(struct unit_net *net, unsigned from, enum rawe_lane lane,
                             struct rawe_header header, const void *payload, size_t payload_bytes)
{
    struct net_frame *frame = net_frame_new(RAWE_PAYLOAD_OFFSET + payload_bytes);
    const struct rawe_peer_config receiver = net_peer_config(1 - from);
    net_frame_address(frame->bytes, receiver.mac, net_peer_config(from).mac);
    header.port = receiver.port;
    header.key = receiver.key;
    header.payload_bytes = (uint16_t)payload_bytes;
    const struct rawe_conn *peer = net->node[1 - from].conn[lane];
    if (peer != NULL && header.type != RAWE_FRAME_CONNECT) {
        header.connection_id = peer->handshake.local_id;
        header.acknowledgement += peer->sendwin.una; /* given relative to what is acknowledged */
        header.credit = net->node[from].engine.credit.share[lane].active;
    }
    frame->header = header;
    frame->from = from;
    frame->to = 1 - from;
    unit_frame_encode(frame);
    if (payload_bytes != 0) {
        memcpy(frame->bytes + RAWE_PAYLOAD_OFFSET, payload, payload_bytes);
    }
    return frame;
}

void unit_receive_forged(struct unit_net *net, unsigned from, enum rawe_lane lane,
                         struct rawe_header header, const void *payload, size_t payload_bytes)
{
    struct net_frame *frame = unit_forge(net, from, lane, header, payload, payload_bytes);
    unit_receive(net, frame);
    net_frame_free(frame);
}

void unit_close_having_all(struct unit_net *net, unsigned node, enum rawe_lane lane)
{
    const struct rawe_conn *peer = net->node[1 - node].conn[lane];
    struct rawe_header header = {.type = RAWE_FRAME_CLOSE};
    header.acknowledgement = rawe_sendwin_used(&peer->sendwin);
    struct net_frame *close = unit_forge(net, node, lane, header, NULL, 0);
    unit_close(net, node, lane);
    unit_wire_clear(net);
    unit_receive(net, close);
    net_frame_free(close);
}
