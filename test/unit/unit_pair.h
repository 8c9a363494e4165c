/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the tests of connections begin with: one network of two nodes, started for each test.
 */
#ifndef UNIT_PAIR_H
#define UNIT_PAIR_H

#include "unit_net.h"

/** Lane that end() is about; a test defines it before it includes this. */
#ifndef UNIT_LANE
#define UNIT_LANE RAWE_LANE_EXPRESS
#endif

extern struct unit_net net;

/** A fixture: both nodes started with the default configuration. */
void unit_set_up(void);
/** The same with windows of 256 frames and rings of 1024. */
void unit_set_up_wide(void);
void unit_tear_down(void);

/** What differs from unit_init; 0: nothing does. */
struct unit_options {
    uint32_t window_frames; /**< rings are four times as large */
    uint32_t payload_max_bytes;
    uint32_t message_max_bytes;
    uint32_t coalesce_from_frames;
    uint32_t batch_frames; /**< of links that move batches */
};
/** Start both nodes; stop them before if they run. */
void unit_start_with(struct unit_options options);

static inline struct rawe_engine *engine(unsigned node)
{
    return &net.node[node].engine;
}

static inline struct rawe_counters *counters(unsigned node)
{
    return &net.node[node].engine.counters;
}

/** A node's end of the connection. */
static inline struct rawe_conn *end(unsigned node)
{
    return net.node[node].conn[UNIT_LANE];
}

/** A filter: the path loses everything. */
bool drop_all(struct unit_net *unused, const struct net_frame *frame);
/** A filter: the path loses node 1's replies to CONNECT. */
bool drop_replies_to_node_0(struct unit_net *unused, const struct net_frame *frame);

extern struct unit_send send_again;
extern uint8_t again_data[3000];
/**
 * unit_send.on_done, whose context is the connection: sends another message, `send_again`, as soon
 * as one is done, as an upper layer's pipeline does.
 */
void unit_send_again(struct unit_send *send);

/** Let time pass until node 0 has had everything acknowledged. */
void finish(void);
/** On the express lane, messages of one frame and of several get through in both directions. */
void assert_works_both_ways(void);

/* Frames made by hand, from node 0 to node 1. */

/** A fragment and `data_bytes` bytes of its data at `out`, padded. Returns the length. */
size_t put_fragment(uint8_t *out, struct rawe_fragment fragment, unsigned seed);
/** Hand node 1 a DATA frame of node 0, `ahead` of the next one it expects. */
void receive_data(uint32_t ahead, uint8_t flags, const uint8_t *payload, size_t payload_bytes);
/** The same with one message of 20 bytes, filled with seed `tag`. */
void receive_message(uint32_t ahead, uint8_t flags, uint8_t tag);
/** An open connection whose numbers are about to wrap; node 1's credit is 16 frames. */
void connect_nodes(void);

#endif
