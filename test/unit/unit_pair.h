/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Common set-up of the connection tests: a network of two nodes, started for each test.
 */
#ifndef UNIT_PAIR_H
#define UNIT_PAIR_H

#include "unit_net.h"

extern struct unit_net net;
/** Lane of end(): the express lane until a fixture chooses another. */
extern enum rawe_lane unit_lane;

/** Fixture: start both nodes with the default configuration. */
void unit_set_up(void);
/** Fixture: as unit_set_up, but end() uses the bulk lane. */
void unit_set_up_bulk(void);
/** Fixture: as unit_set_up_bulk, with windows of 256 frames and rings of 1024. */
void unit_set_up_wide(void);
void unit_tear_down(void);

/** Options that differ from unit_init; 0: the default. */
struct unit_options {
    uint32_t window_frames; /**< rings are four times as large */
    uint32_t payload_max_bytes;
    uint32_t message_max_bytes;
    uint32_t coalesce_from_frames;
    uint32_t batch_frames; /**< maximum per batch, on links that send batches */
};
/** Stop the nodes if they are running, then start both with these options. */
void unit_start_with(struct unit_options options);

static inline struct rawe_engine *engine(unsigned node)
{
    return &net.node[node].engine;
}

static inline struct rawe_counters *counters(unsigned node)
{
    return &net.node[node].engine.counters;
}

/** Return a node's end of the connection. */
static inline struct rawe_conn *end(unsigned node)
{
    return net.node[node].conn[unit_lane];
}

/** Filter: drop every frame. */
bool drop_all(struct unit_net *unused, const struct net_frame *frame);

/** Advance time until all of node 0's frames are acknowledged. */
void finish(void);
/** Assert that short and fragmented messages pass on the express lane in both directions. */
void assert_works_both_ways(void);

/* Handmade frames from node 0 to node 1. */

/** Write a fragment and its `data_bytes` of data, padded, to `out`. Returns the length. */
size_t put_fragment(uint8_t *out, struct rawe_fragment fragment, unsigned seed);
/** Deliver a DATA frame to node 1, `ahead` numbers after the frame that it expects next. */
void receive_data(uint32_t ahead, uint8_t flags, const uint8_t *payload, size_t payload_bytes);
/** As receive_data, with one message of 20 bytes, filled with seed `tag`. */
void receive_message(uint32_t ahead, uint8_t flags, uint8_t tag);
/** Open a connection whose sequence numbers are about to wrap; node 1's credit is 16 frames. */
void connect_nodes(void);

#endif
