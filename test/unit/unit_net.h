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
    struct net_link link;      /**< first: it is the engine's output */
    struct rawe_engine engine; /**< context of its callbacks is the node */
    struct rawe_handle_table handles;
    struct unit_net *net;
    unsigned index;
    bool started;
    bool paused;        /**< its progress is not called; its frames stay on the wire */
    bool refuses;       /**< accepts no connection */
    bool has_given_up;  /**< the other node */
    unsigned link_room; /**< frames the link takes before it is full */
    struct rawe_conn *conn[RAWE_LANES];
    struct rawe_route route[RAWE_LANES]; /**< of each of them */
    struct unit_message *messages;
    unsigned message_count;
    unsigned silent_calls, failed_calls, given_up_calls, lost_calls;
    uint64_t silent_ns;                 /**< given to the last of them */
    unsigned sent[RAWE_FRAME_TYPE_END]; /**< frames put on the wire, by type */
    /** Called by `deliver` after the message was noted; may be NULL. */
    void (*on_deliver)(struct unit_node *node, struct rawe_conn *conn, uint8_t tag);
    /** Called by `failed`; may be NULL. */
    void (*on_failed)(struct unit_node *node, struct rawe_conn *conn);
};

/** The nodes' clock and wire, or those of other engines: see unit_rails.h. */
struct unit_net {
    uint64_t now_ns;
    unsigned engine_count;
    /** The engine that receives at an end of the wire; NULL: it is not there. */
    struct rawe_engine *(*engine_at)(struct unit_net *net, unsigned end);
    /** Looks at each frame before it is handed over by unit_step; may be NULL. */
    void (*on_frame)(struct net_frame *frame);
    struct rawe_engine_config config; /**< for both; what differs is filled in by unit_start */
    struct unit_node node[UNIT_NODES];
    union {
        struct net_queue queue; /**< what lies on the wire */
        struct net_frame *wire; /**< the first frame of that */
    };
    /** Looks at each frame when it is sent: false drops it. NULL: all pass. */
    bool (*filter)(struct unit_net *net, const struct net_frame *frame);
    unsigned filter_count;   /**< the filter's own */
    unsigned batch_number;   /**< of the batch sent last */
    unsigned batches_placed; /**< batches received straight into place */
    bool batches_vanish;     /**< the path loses each of them */
};

/** Defaults in net->config, for the test to change before unit_start. */
void unit_init(struct unit_net *net);
/** Start the engines of both nodes. */
void unit_start(struct unit_net *net);
/**
 * Close what is open, check that every frame and buffer went back to its pool, free all.
 */
void unit_stop(struct unit_net *net);
/** Start a node's engine again, with no connections, as a restarted process of the same key. */
void unit_restart(struct unit_net *net, unsigned node);

/** Give both nodes a link that moves batches, of at most `frames_max` frames. */
void unit_use_batches(struct unit_net *net, unsigned frames_max);

/** Have a node advertise so much credit, until it is shared out again. */
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

/* Frames on the wire. */

/** Hand over the frames that lie on the wire, then flush. Returns how many were handed over. */
unsigned unit_step(struct unit_net *net);
/** Step until nothing moves any more. */
void unit_settle(struct unit_net *net);
/** Let time pass in steps of `step_ns`; after each, timers and whatever follows from them. */
void unit_run(struct unit_net *net, uint64_t duration_ns, uint64_t step_ns);

/** Hand a frame over now, without a flush; it stays the caller's. */
void unit_receive(struct unit_net *net, const struct net_frame *frame);
/** The same; the frame is freed. */
void unit_hand_over(struct unit_net *net, struct net_frame *frame);
/** Hand the first frame on the wire over now, without a flush. There has to be one. */
void unit_receive_next(struct unit_net *net);
/** The same with all frames, and those that they cause. */
void unit_receive_all(struct unit_net *net);

/**
 * A frame as `from`'s end of the lane would send it: MAC addresses, port, key and connection id
 * right, credit as of now. The header's acknowledgement is given relative to what the receiver has
 * had acknowledged; its `payload_bytes` is set from the length.
 */
struct net_frame *unit_forge(struct unit_net *net, unsigned from, enum rawe_lane lane,
                             struct rawe_header header, const void *payload, size_t payload_bytes);
/** Memory that peers may access, and what they address it by. */
struct unit_memory {
    uint32_t index;
    uint64_t key;
};
/** Register memory of a node, for `access`: bits of RAWE_ACCESS_. */
struct unit_memory unit_register_memory(struct unit_net *net, unsigned node, void *memory,
                                        size_t len_bytes, unsigned access);

/** Forge a frame and hand it over now, without a flush. */
void unit_receive_forged(struct unit_net *net, unsigned from, enum rawe_lane lane,
                         struct rawe_header header, const void *payload, size_t payload_bytes);
/** Write the header of a frame again after a change in frame->header. */
void unit_frame_encode(struct net_frame *frame);

/**
 * A node closes its connection, having received everything: the other end gets its CLOSE. All that
 * was on the wire is gone.
 */
void unit_close_having_all(struct unit_net *net, unsigned node, enum rawe_lane lane);

/* Messages. */

/** A send from the test's memory that notes its completion. */
struct unit_send {
    struct rawe_send send; /**< first: cast back from it */
    unsigned done;
    enum rawe_status status;
    void (*on_done)(struct unit_send *send);
    void *context; /**< of on_done */
};

/** rawe_send.done of a struct unit_send. */
void unit_send_done(struct rawe_send *send, enum rawe_status status);
/** Bytes that depend on their place and on `seed`. */
void unit_fill(uint8_t *data, size_t len_bytes, unsigned seed);
/** Send a message from memory that the test keeps until it is done. */
void unit_send_message(struct rawe_conn *conn, struct unit_send *send, uint8_t tag, void *data,
                       size_t len_bytes);
void unit_send_put(struct rawe_conn *conn, struct unit_send *send, void *data, size_t len_bytes,
                   uint32_t index, uint64_t key, uint64_t offset);
/** Send `count` of them, all of the same data, and with their number as tag. */
void unit_send_messages(struct rawe_conn *conn, struct unit_send *sends, unsigned count, void *data,
                        size_t len_bytes);
/** Each has been completed with this status. */
void unit_assert_sent(const struct unit_send *sends, unsigned count, enum rawe_status status);
/** The path is found to carry only payload of that length. */
void unit_set_payload_max(struct rawe_conn *conn, uint32_t payload_max_bytes);
/** Copy a message of `len_bytes` filled with seed `tag` into the engine. */
enum rawe_status unit_copy_message(struct rawe_conn *conn, uint8_t tag, size_t len_bytes);
/** The same; the engine has to take it. */
void unit_send_copy(struct rawe_conn *conn, uint8_t tag, size_t len_bytes);
/** Send `count` of them, with their number as tag. */
void unit_send_copies(struct rawe_conn *conn, unsigned count, size_t len_bytes);
/** Note a message that a node gets. */
void unit_note_message(struct unit_node *node, uint8_t tag, const uint8_t *data, size_t len_bytes);
/** Message `index` that `node` got is as unit_fill(seed) made it. */
void unit_assert_message(const struct unit_node *node, unsigned index, uint8_t tag,
                         size_t len_bytes, unsigned seed);
/** `node` got `count` messages, and the last one is like that. */
void unit_assert_last(const struct unit_node *node, unsigned count, uint8_t tag, size_t len_bytes,
                      unsigned seed);
/** `node` got `count` messages, with their number as tag, in this order. */
void unit_assert_messages(const struct unit_node *node, unsigned count, size_t len_bytes,
                          unsigned seed);
/** Forget all that were noted. */
void unit_forget_messages(struct unit_node *node);
/** From now on the congestion window of a connection has `frames`, until it changes its path. */
void unit_fix_window(struct rawe_conn *conn, uint32_t frames);

#endif
