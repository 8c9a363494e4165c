/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Two engines wired together in memory, for the tests of connections: a made-up clock, and a
 * wire on which each frame can be looked at, dropped, held back, repeated or forged.
 *
 * Time stands still unless a test moves it. A frame sent lies on the wire until unit_step or
 * unit_settle hands it over, or the test takes it off.
 */
#ifndef UNIT_NET_H
#define UNIT_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net_wire.h"
#include "conn/rawe_conn_state.h"
#include "rawe_engine.h"
#include "base/rawe_wire.h"
#include "unit_test.h"

#define UNIT_NODES 2u
#define UNIT_US 1000ull
#define UNIT_MS 1000000ull
#define UNIT_S 1000000000ull

struct unit_net;

/** A message that was delivered. */
struct unit_message {
    uint8_t tag;
    size_t len_bytes;
    uint8_t *data;
};

struct unit_node {
    struct rawe_engine engine; /**< context of its callbacks is the node */
    struct rawe_handle_table handles;
    struct unit_net *net;
    unsigned index;
    bool started;
    bool paused;        /**< nobody calls its progress; its frames stay on the wire */
    bool refuses;       /**< accepts no connection */
    unsigned link_room; /**< frames the link takes before it is full */
    struct rawe_conn *conn[RAWE_LANES];
    struct unit_message *messages;
    unsigned message_count;
    unsigned silent_calls, failed_calls, lost_calls;
    uint64_t silent_ns;                 /**< given to the last of them */
    unsigned sent[RAWE_FRAME_TYPE_END]; /**< frames put on the wire, by type */
    /** Called by `deliver` after the message was noted; may be NULL. */
    void (*on_deliver)(struct unit_node *node, struct rawe_conn *conn, uint8_t tag);
    /** Called by `failed`; may be NULL. */
    void (*on_failed)(struct unit_node *node, struct rawe_conn *conn);
};

struct unit_net {
    uint64_t now_ns;
    struct rawe_engine_config config; /**< for both; what differs is filled in by unit_start */
    struct unit_node node[UNIT_NODES];
    struct net_frame *wire, **wire_tail;
    /** Looks at each frame when it is sent: false drops it. NULL: all pass. */
    bool (*filter)(struct unit_net *net, const struct net_frame *frame);
    unsigned filter_count;       /**< the filter's own */
    unsigned batch_number;       /**< of the batch sent last */
    unsigned batches_placed;     /**< batches received straight into place */
    unsigned batches_not_placed; /**< batches received elsewhere */
    bool batches_vanish;         /**< the path loses each of them */
};

/** Defaults in net->config, for the test to change before unit_start. */
void unit_init(struct unit_net *net);
/** Start the engines of both nodes. */
void unit_start(struct unit_net *net);
/**
 * Close what is open, check that every frame and buffer went back to its pool, free all.
 */
void unit_stop(struct unit_net *net);
/** Start a node's engine anew, with no connections, as a restarted process of the same key. */
void unit_restart(struct unit_net *net, unsigned node);

/** Give both nodes a link that moves batches, of at most `frames_max` frames. */
void unit_use_batches(struct unit_net *net, unsigned frames_max);

/** Have a node advertise so much credit, until it is shared out anew. */
void unit_set_credit(struct unit_net *net, unsigned node, uint16_t frames);

/** Known to `node`, IDLE, on that lane. */
struct rawe_conn *unit_open(struct unit_net *net, unsigned node, enum rawe_lane lane);
/** Close a node's connection on that lane. */
void unit_close(struct unit_net *net, unsigned node, enum rawe_lane lane);
/** Bring up a connection between the nodes on that lane, OPEN at both ends; node 0's end. */
struct rawe_conn *unit_connect(struct unit_net *net, enum rawe_lane lane);
/**
 * Number the frames from node 0 to node 1 from `sequence` on, and those the other way as well.
 * For connections on which nothing has been sent yet.
 */
void unit_begin_at(struct unit_net *net, enum rawe_lane lane, uint32_t sequence);

#endif
