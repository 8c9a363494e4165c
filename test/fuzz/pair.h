/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The world of target `conn`: two processes with an engine each, a wire between them on which
 * frames lie until the script delivers, drops, repeats, garbles or forges them, and a ledger of
 * what was sent.
 *
 * What must hold always: no access outside of memory (sanitizers, guards around all that peers may
 * write), no write into memory that was taken back, each send completed once, queues and pools
 * bounded, no call that goes on for ever. What must hold until a sender that knows all keys forges
 * a frame (`ledger.lying`): every message at most once, byte-exact, on its lane, and in order where
 * it has to be; a completed PUT is in place; and, on lanes on which nothing was closed, what is
 * complete has been delivered, and all of it arrives once the script is over.
 */
#ifndef RAWE_FUZZ_PAIR_H
#define RAWE_FUZZ_PAIR_H

#include "fuzz.h"

#include "conn/rawe_conn_state.h"
#include "net_ledger.h"
#include "net_wire.h"
#include "rawe_engine.h"

#define PAIR_NODES 2u
#define PAIR_WIRE_FRAMES 4096u
#define PAIR_MESSAGES_MAX 250u
#define PAIR_US 1000ull
#define PAIR_MS 1000000ull
#define PAIR_S 1000000000ull

/** Frames one call into an engine may send at most; more is a call that goes on for ever. */
#define PAIR_FRAMES_A_CALL 20000u

struct pair;

/** A message or PUT. Its tag is its number in the ledger. */
struct pair_entry {
    struct net_message message; /**< first: cast back from it */
    struct pair *pair;
    /* PUT: the memory at the other end */
    uint8_t *region;
    size_t region_bytes;
    uint64_t offset;
};

struct pair_node {
    struct net_link link;      /**< first: it is the engine's output */
    struct rawe_engine engine; /**< context of its callbacks is the node */
    struct rawe_handle_table handles;
    struct pair *pair;
    unsigned index;
    uint32_t key;
    unsigned link_room;     /**< frames that its link takes before it is full */
    uint32_t path_bytes;    /**< longest payload that what it sends may have; 0: no limit */
    bool loses_batches;     /**< none of the batches it sends arrives */
    bool ending;            /**< opens no connection any more */
    struct rawe_peer peer;  /**< the other process */
    uint32_t next_in_order; /**< of the net_route on its bulk lane */
};

struct pair {
    uint64_t now_ns;
    struct rawe_engine_config config;
    struct pair_node node[PAIR_NODES];
    struct net_frame *wire[PAIR_WIRE_FRAMES];
    unsigned wire_count;
    unsigned batch_number;
    unsigned sent_in_call;      /**< frames, since the script's last step */
    uint32_t keys;              /**< drawn so far */
    bool unsettled[RAWE_LANES]; /**< something was closed or given up there */
    bool replies;               /**< messages are answered when delivered, followed when complete */
    bool closes_failed;         /**< `failed` closes the connection */
    bool use_batches;
    uint32_t batch_bytes; /**< data of a batch at most */
    uint64_t streak_ns;
    struct net_ledger ledger; /**< `lying` once frames were forged with valid keys */
    struct pair_entry entries[PAIR_MESSAGES_MAX];
};

/* pair.c: processes and the wire. */

/** Settings from the script's head. */
void pair_start(struct pair *pair, struct fuzz_input *head);
/** Ends both, checks that everything went back to where it came from. */
void pair_stop(struct pair *pair);
/** The other process, under the key it has now. */
struct rawe_peer *pair_peer(struct pair_node *node);
void pair_open(struct pair_node *node, enum rawe_lane lane);
void pair_close(struct pair_node *node, enum rawe_lane lane);
/** The process dies without a word and another takes its place. */
void pair_restart(struct pair_node *node);
/** Take a frame off the wire; the caller frees it. NULL when nothing lies there. */
struct net_frame *pair_take(struct pair *pair, unsigned position);
void pair_put(struct pair *pair, struct net_frame *frame);
/**
 * Hand over the frame at a position, if `whole` with those behind it that GRO merges to it. Returns
 * how many they were.
 */
unsigned pair_deliver(struct pair *pair, unsigned position, bool whole);
/** Flush and let timers expire. */
void pair_progress(struct pair_node *node);
/**
 * The owner, for which another thread has kept the engine going, is back and told what happened.
 */
void pair_come_back(struct pair_node *node);
/** No more faults: everything has to come to its end. */
void pair_settle(struct pair *pair);
/** What has to hold after every step. */
void pair_check(struct pair *pair);

/* pair_messages.c: what is sent and what arrives. */

void pair_messages_start(struct pair *pair);
/** Send a message by copying it, if the peer object can at the moment. */
void pair_send_copy(struct pair_node *node, size_t len_bytes);
struct pair_send_options {
    bool ordered;
    bool early;  /**< it may be complete before it is acknowledged */
    uint8_t cut; /**< share of the first piece, in 256ths */
};
void pair_send_message(struct pair_node *node, size_t len_bytes, struct pair_send_options options);
void pair_send_put(struct pair_node *node, size_t len_bytes, size_t offset);
/** rawe_callbacks.deliver. */
void pair_delivered(void *context, struct rawe_conn *conn, uint8_t tag, const uint8_t *data,
                    size_t len_bytes);
/** A connection is closed or given up: what is under way on its lane may be lost. */
void pair_messages_closed(struct pair_node *node, const struct rawe_conn *conn);
/** Take the memory of a PUT back. */
void pair_close_region(struct pair_entry *entry);
/** A process has died; so has the memory that was registered there. */
void pair_messages_died(const struct pair_node *node);
/** Both have ended: every send is completed. */
void pair_messages_stop(struct pair *pair);

#endif
