/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A hub and its peers in memory: one engine with a connection to each of many other engines, a
 * simulated clock, and a wire without loss, to measure the cost of the core alone.
 *
 * Frames from the hub wait in `to_peers` for core_net_run_peers, frames from the peers in `to_hub`
 * for core_net_run_hub.
 */
#ifndef CORE_NET_H
#define CORE_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conn/rawe_conn_state.h"
#include "rawe_engine.h"
#include "routes/rawe_peer.h"

#define CORE_NET_FRAME_BYTES 1536u
#define CORE_NET_QUEUE_FRAMES 4096u

struct core_net;

/* One process: the hub, or one of its peers. */
struct core_node {
    struct core_net *net;
    uint32_t index; /* 0: the hub; peers count from 1 */
    struct rawe_engine engine;
    struct rawe_handle_table handles;
    struct rawe_peer hub; /* this node's view of the hub */
    uint64_t delivered;   /* messages */
    bool answers;         /* answers each message with one of its length */
};

struct core_frame {
    uint32_t node; /* the frame's receiver */
    uint32_t len_bytes;
    uint8_t bytes[CORE_NET_FRAME_BYTES];
};

struct core_queue {
    struct core_frame *frames;
    uint32_t count;
};

struct core_net {
    uint64_t now_ns;
    uint32_t peers;
    struct core_node *nodes; /* peers + 1 of them */
    struct rawe_peer *peer;  /* the hub's view of each */
    struct core_queue to_hub, to_peers;
};

/* Create a hub that knows `peers` peers, without connections. Ends the program if out of memory. */
void core_net_init(struct core_net *net, uint32_t peers);

/* Return the hub's connection to a peer (from 1) on the express lane. A new one is IDLE. */
struct rawe_conn *core_net_open(struct core_net *net, uint32_t peer);
/* Connect hub and peer, and run both until nothing changes. */
void core_net_connect(struct core_net *net, uint32_t peer);

/* Let the peers receive the frames in flight to them, and answer. */
void core_net_run_peers(struct core_net *net);
/* Deliver frames to the hub, like a progress call. */
void core_net_run_hub(struct core_net *net);
/* Run expired timers and deferred work, like the end of a progress call. */
void core_net_finish_turn(struct core_node *node);
/* Run peers and hub in turn until nothing changes. */
void core_net_settle(struct core_net *net);

/* Send a message as btl_sendi does. Ends the program if it is refused. */
void core_net_send(struct rawe_peer *peer, size_t len_bytes);

/* rawe_output.transmit of the hub; `context` is its node. */
unsigned core_net_transmit(void *context, const struct rawe_frame *frames, unsigned count);

/* End the program with a message. */
_Noreturn void core_net_fail(const char *what);

#endif
