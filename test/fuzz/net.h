/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The world of target `conn`: two processes with an engine each, a wire between them on which
 * frames lie until the script delivers, drops, repeats, garbles or forges them, and a ledger of
 * what was sent.
 *
 * What must hold always: no access outside of memory (sanitizers, guards around all that peers may
 * write), no write into memory that was taken back, each send completed once, queues and pools
 * bounded, no call that goes on for ever. What must hold until the first forged frame (`tainted`):
 * every message at most once, byte-exact, on its lane, and in order where it has to be; a completed
 * PUT is in place; and, on lanes on which nothing was closed, what is complete has been delivered,
 * and all of it arrives once the script is over.
 */
#ifndef RAWE_FUZZ_NET_H
#define RAWE_FUZZ_NET_H

#include "fuzz.h"

#include "rawe_conn_state.h"
#include "net_message.h"
#include "net_wire.h"
#include "rawe_engine.h"

#define NET_NODES 2u
#define NET_WIRE_FRAMES 4096u
#define NET_MESSAGES_MAX 250u
#define NET_US 1000ull
#define NET_MS 1000000ull
#define NET_S 1000000000ull

/** Frames one call into an engine may send at most; more is a call that goes on for ever. */
#define NET_FRAMES_A_CALL 20000u

struct net;

/** Ledger entry. The tag of a message is its number here. */
struct net_entry {
    struct net_message message; /**< first: cast back from it */
    struct net *net;
    uint8_t from, lane;
    bool put;
    bool in_order; /**< does not overtake others that are */
    bool accepted; /**< the engine has taken it */
    bool failed;   /**< completed with an error */
    unsigned delivered;
    /* PUT: the memory at the other end */
    uint8_t *region;
    size_t region_bytes;
    uint32_t handle_index;
    uint64_t handle_key;
    uint64_t offset;
};

struct net_node {
    struct rawe_engine engine; /**< context of its callbacks is the node */
    struct rawe_handle_table handles;
    struct net *net;
    unsigned index;
    uint32_t key;
    unsigned link_room;    /**< frames that its link takes before it is full */
    uint32_t path_bytes;   /**< longest payload that what it sends may have; 0: no limit */
    bool loses_batches;    /**< none of the batches it sends arrives */
    bool ending;           /**< opens no connection any more */
    struct rawe_peer peer; /**< the other process */
};

struct net {
    uint64_t now_ns;
    struct rawe_engine_config config;
    struct net_node node[NET_NODES];
    struct net_frame *wire[NET_WIRE_FRAMES];
    unsigned wire_count;
    unsigned batch_number;
    unsigned sent_in_call;      /**< frames, since the script's last step */
    uint32_t keys;              /**< drawn so far */
    bool tainted;               /**< frames were forged with valid keys */
    bool unsettled[RAWE_LANES]; /**< something was closed or given up there */
    bool replies;               /**< messages are answered when delivered, followed when complete */
    bool closes_failed;         /**< `failed` closes the connection */
    bool use_batches;
    uint32_t batch_bytes; /**< data of a batch at most */
    uint64_t streak_ns;
    struct net_entry entries[NET_MESSAGES_MAX];
    unsigned entry_count;
    unsigned in_order_next[NET_NODES]; /**< by sender: messages in order before it are too late */
};

/* net.c: processes and the wire. */

/** Settings from the script's head. */
void net_start(struct net *net, struct fuzz_input *head);
/** Ends both, checks that everything went back to where it came from. */
void net_stop(struct net *net);
/** The other process, under the key it has now. */
struct rawe_peer *net_peer(struct net_node *node);
void net_open(struct net_node *node, enum rawe_lane lane);
void net_close(struct net_node *node, enum rawe_lane lane);
/** The process dies without a word and another takes its place. */
void net_restart(struct net_node *node);
/** Take a frame off the wire; the caller frees it. NULL when nothing lies there. */
struct net_frame *net_take(struct net *net, unsigned position);
void net_put(struct net *net, struct net_frame *frame);
/**
 * Hand over the frame at a position, if `whole` with those behind it that GRO merges to it. Returns
 * how many they were.
 */
unsigned net_deliver(struct net *net, unsigned position, bool whole);
/** Flush and let timers expire. */
void net_progress(struct net_node *node);
/** The owner, for whom somebody else has kept the engine going, is back and told what happened. */
void net_come_back(struct net_node *node);
/** No more faults: everything has to come to its end. */
void net_settle(struct net *net);
/** What has to hold after every step. */
void net_check(struct net *net);

/* net_ledger.c: what is sent and what arrives. */

/** Send a message by copying it, if the peer object can at the moment. */
void net_send_copy(struct net_node *node, size_t len_bytes);
struct net_send_options {
    bool ordered;
    bool early;  /**< it may be complete before it is acknowledged */
    uint8_t cut; /**< share of the first piece, in 256ths */
};
void net_send_message(struct net_node *node, size_t len_bytes, struct net_send_options options);
void net_send_put(struct net_node *node, size_t len_bytes, size_t offset, uint8_t cut);
/** rawe_callbacks.deliver. */
void net_delivered(void *context, struct rawe_conn *conn, uint8_t tag, const uint8_t *data,
                   size_t len_bytes);
/** Take the memory of a PUT back. */
void net_ledger_close_region(struct net *net, unsigned id);
/** The memory of a process that died. */
void net_ledger_died(const struct net_node *node);
/** Everything has arrived that must have. */
void net_ledger_check_all(const struct net *net);
/** Every send is completed. */
void net_ledger_check_none(const struct net *net);

/* net_forge.c: what an attacker does who knows all keys. */

/** Change a field of the frame at a position, and set its checksum right again. */
void net_mutate(struct net *net, unsigned position, unsigned field, uint32_t value, uint32_t more);

/** The 14 bytes of a script's record behind operation and place. */
struct net_forgery {
    uint16_t what;
    uint32_t numbers, place, lengths;
};
/** In `what`: the frame has a batch header. */
#define NET_FORGE_BATCH 0x0400u
/** A frame with a valid header, as the peer on that lane would send it, and hostile fields. */
void net_forge(struct net_node *victim, enum rawe_lane lane, const struct net_forgery *forgery);

#endif
