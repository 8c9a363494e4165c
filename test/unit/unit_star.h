/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A hub and many spokes wired together in memory, for the tests of what connections share: the
 * hub's link and its receive ring. Each spoke has one connection to the hub, and the hub one to
 * each.
 *
 * Frames sent lie in the receiver's ring until star_receive hands them over. Time is the test's.
 */
#ifndef UNIT_STAR_H
#define UNIT_STAR_H

#include "unit_net.h"

#define STAR_SPOKES_MAX 128u

struct star;

/** A process: the hub is number `spokes`, the spokes are numbered from 0 on. */
struct star_node {
    struct star *star;
    unsigned index;
    struct rawe_engine engine;
    struct rawe_handle_table handles;
    struct net_frame *ring, **ring_tail; /**< received, not looked at yet */
    unsigned ring_frames;                /**< how many */
    unsigned ring_room;                  /**< what comes beyond is dropped */
    unsigned ring_drops;
    unsigned data_frames, data_most; /**< sequenced ones in the ring: now, at most */
    unsigned link_room;              /**< frames the link takes before it is full */
    unsigned transmit_calls;
    unsigned messages; /**< delivered */
};

struct star {
    uint64_t now_ns;
    unsigned spokes;
    enum rawe_lane lane;
    struct rawe_engine_config config; /**< for all; what differs is filled in by star_start */
    struct star_node node[STAR_SPOKES_MAX + 1];
    struct rawe_conn *up[STAR_SPOKES_MAX];   /**< from the spoke to the hub */
    struct rawe_conn *down[STAR_SPOKES_MAX]; /**< from the hub to the spoke */
};

/** Engines with the configuration of unit_init; `star->config` may be changed before star_start. */
void star_init(struct star *star, unsigned spokes, enum rawe_lane lane);
void star_start(struct star *star);
/** Have every spoke connected to the hub. */
void star_connect(struct star *star);
void star_stop(struct star *star);
struct star_node *star_hub(struct star *star);
/** A node takes at most `budget` frames out of its ring, then flushes. */
void star_receive(struct star_node *node, unsigned budget);
/** Send a message from memory that the test keeps until it is done. */
void star_send(struct star *star, struct rawe_conn *conn, struct unit_send *send, void *data,
               size_t len_bytes);
/** Copy a message of `len_bytes` zeros into the engine. */
enum rawe_status star_copy(struct star *star, struct rawe_conn *conn, size_t len_bytes);
/** All nodes receive and let timers expire, again and again, for `duration_ns`. */
void star_run(struct star *star, uint64_t duration_ns, uint64_t step_ns);

#endif
