/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Two engines connected in memory, for the tests of connections, with a simulated clock and a wire
 * on which each frame can be inspected, dropped, delayed, repeated or forged.
 *
 * Only the test advances time. A frame stays on the wire until unit_step or unit_settle delivers
 * it, or the test removes it.
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

/** A delivered message. */
struct unit_message {
    uint8_t tag;
    size_t len_bytes;
    uint8_t *data;
};

struct unit_node {
    struct net_link link;      /**< must be first: it is the engine's output */
    struct rawe_engine engine; /**< its callbacks' context is the node */
    struct rawe_handle_table handles;
    struct unit_net *net;
    unsigned index;
    bool started;
    bool paused;        /**< makes no progress; frames to it stay on the wire */
    bool refuses;       /**< accepts no connection */
    bool has_given_up;  /**< has given up the other node */
    unsigned link_room; /**< frames until the link is full */
    struct rawe_conn *conn[RAWE_LANES];
    struct rawe_route route[RAWE_LANES]; /**< route of each connection */
    struct unit_message *messages;
    unsigned message_count;
    unsigned failed_calls, given_up_calls, lost_calls;
    unsigned sent[RAWE_FRAME_TYPE_END]; /**< frames sent, by type */
    /** Called by `deliver` after it has recorded the message; may be NULL. */
    void (*on_deliver)(struct unit_node *node, struct rawe_conn *conn, uint8_t tag);
    /** Called by `failed`; may be NULL. */
    void (*on_failed)(struct unit_node *node, struct rawe_conn *conn);
};

/** Clock and wire of the nodes, or of other engines (see unit_rails.h). */
struct unit_net {
    uint64_t now_ns;
    unsigned engine_count;
    /** Returns the engine at an end of the wire, or NULL if it has no engine. */
    struct rawe_engine *(*engine_at)(struct unit_net *net, unsigned end);
    /** Called for each frame before unit_step delivers it; may be NULL. */
    void (*on_frame)(struct net_frame *frame);
    struct rawe_engine_config config; /**< for both nodes; unit_start adds the differences */
    struct unit_node node[UNIT_NODES];
    union {
        struct net_queue queue; /**< frames on the wire */
        struct net_frame *wire; /**< the first frame */
    };
    /** Called for each frame that is sent; returns false to drop it. NULL: all pass. */
    bool (*filter)(struct unit_net *net, const struct net_frame *frame);
    unsigned filter_count;   /**< for use by the filter */
    unsigned batch_number;   /**< number of the last batch sent */
    unsigned batches_placed; /**< batches received directly into place */
    bool batches_vanish;     /**< the path loses all batches */
};

/** Set net->config to defaults, which a test may change before unit_start. */
void unit_init(struct unit_net *net);
/** Start the engines of both nodes. */
void unit_start(struct unit_net *net);
/**
 * Close open connections, check that all frames and buffers are back in their pools, and free
 * everything.
 */
void unit_stop(struct unit_net *net);
/** Restart a node's engine without connections, like a restarted process with the same key. */
void unit_restart(struct unit_net *net, unsigned node);

/** Give both nodes a link that sends batches of at most `frames_max` frames. */
void unit_use_batches(struct unit_net *net, unsigned frames_max);

/** Let a node advertise `frames` frames of credit until credit is next redistributed. */
void unit_set_credit(struct unit_net *net, unsigned node, uint16_t frames);

/** Open an IDLE connection of `node` on a lane. */
struct rawe_conn *unit_open(struct unit_net *net, unsigned node, enum rawe_lane lane);
/** Close a node's connection on a lane. */
void unit_close(struct unit_net *net, unsigned node, enum rawe_lane lane);
/** Connect the nodes on a lane, until both ends are OPEN. Returns node 0's end. */
struct rawe_conn *unit_connect(struct unit_net *net, enum rawe_lane lane);
/**
 * Start the sequence numbers of both directions at `sequence`. Call before anything is sent on the
 * connection.
 */
void unit_begin_at(struct unit_net *net, enum rawe_lane lane, uint32_t sequence);

/* Frames on the wire. */

/** Deliver the frames on the wire, then flush. Returns the number of delivered frames. */
unsigned unit_step(struct unit_net *net);
/** Step until nothing changes. */
void unit_settle(struct unit_net *net);
/** Advance time in steps of `step_ns`; after each, run timers and settle. */
void unit_run(struct unit_net *net, uint64_t duration_ns, uint64_t step_ns);

/** Deliver a frame now, without a flush. The caller keeps ownership. */
void unit_receive(struct unit_net *net, const struct net_frame *frame);
/** Deliver a frame now, without a flush, and free it. */
void unit_hand_over(struct unit_net *net, struct net_frame *frame);
/** Deliver the first frame on the wire now, without a flush. There must be one. */
void unit_receive_next(struct unit_net *net);
/** Deliver all frames on the wire now, and those sent in response, without a flush. */
void unit_receive_all(struct unit_net *net);

/**
 * Forge a frame as `from`'s end of the lane would send it, with valid MAC addresses, port, key and
 * connection id, and its current credit. `header.acknowledgement` is relative to the receiver's
 * first unacknowledged frame; `header.payload_bytes` is filled in.
 */
struct net_frame *unit_forge(struct unit_net *net, unsigned from, enum rawe_lane lane,
                             struct rawe_header header, const void *payload, size_t payload_bytes);
/** The handle by which peers address registered memory. */
struct unit_memory {
    uint32_t index;
    uint64_t key;
};
/** Register a node's memory for `access` (RAWE_ACCESS_ bits). */
struct unit_memory unit_register_memory(struct unit_net *net, unsigned node, void *memory,
                                        size_t len_bytes, unsigned access);

/** Forge a frame and deliver it now, without a flush. */
void unit_receive_forged(struct unit_net *net, unsigned from, enum rawe_lane lane,
                         struct rawe_header header, const void *payload, size_t payload_bytes);
/** Encode a frame's header again after frame->header has changed. */
void unit_frame_encode(struct net_frame *frame);

/**
 * Close a node's connection after it has received everything, and deliver its CLOSE. Other frames
 * on the wire are dropped.
 */
void unit_close_having_all(struct unit_net *net, unsigned node, enum rawe_lane lane);

/* Messages. */

/** A send from the test's memory that records its completion. */
struct unit_send {
    struct rawe_send send; /**< must be first: cast back from it */
    unsigned done;
    enum rawe_status status;
    void (*on_done)(struct unit_send *send);
    void *context; /**< context for on_done */
};

/** rawe_send.done of a struct unit_send. */
void unit_send_done(struct rawe_send *send, enum rawe_status status);
/** Fill memory with bytes that depend on their position and on `seed`. */
void unit_fill(uint8_t *data, size_t len_bytes, unsigned seed);
/** Send a message from memory that must stay valid until the send is done. */
void unit_send_message(struct rawe_conn *conn, struct unit_send *send, uint8_t tag, void *data,
                       size_t len_bytes);
void unit_send_put(struct rawe_conn *conn, struct unit_send *send, void *data, size_t len_bytes,
                   uint32_t index, uint64_t key, uint64_t offset);
/** Send `count` messages with the same data and their index as tag. */
void unit_send_messages(struct rawe_conn *conn, struct unit_send *sends, unsigned count, void *data,
                        size_t len_bytes);
/** Assert that each send has completed with this status. */
void unit_assert_sent(const struct unit_send *sends, unsigned count, enum rawe_status status);
/** Act as if path discovery had found a limit on the path's payload. */
void unit_set_payload_max(struct rawe_conn *conn, uint32_t payload_max_bytes);
/** Copy a message of `len_bytes`, filled with seed `tag`, into the engine. */
enum rawe_status unit_copy_message(struct rawe_conn *conn, uint8_t tag, size_t len_bytes);
/** As unit_copy_message, and assert that the engine accepts it. */
void unit_send_copy(struct rawe_conn *conn, uint8_t tag, size_t len_bytes);
/** Send `count` copied messages, with their index as tag. */
void unit_send_copies(struct rawe_conn *conn, unsigned count, size_t len_bytes);
/** Record a message that a node received. */
void unit_note_message(struct unit_node *node, uint8_t tag, const uint8_t *data, size_t len_bytes);
/** Assert that message `index` received by `node` has the content of unit_fill(seed). */
void unit_assert_message(const struct unit_node *node, unsigned index, uint8_t tag,
                         size_t len_bytes, unsigned seed);
/** Assert that `node` received `count` messages, the last one with this content. */
void unit_assert_last(const struct unit_node *node, unsigned count, uint8_t tag, size_t len_bytes,
                      unsigned seed);
/** Assert that `node` received `count` messages, in order, with their index as tag. */
void unit_assert_messages(const struct unit_node *node, unsigned count, size_t len_bytes,
                          unsigned seed);
/** Forget all recorded messages. */
void unit_forget_messages(struct unit_node *node);
/** Fix the congestion window of a connection at `frames`, until it migrates. */
void unit_fix_window(struct rawe_conn *conn, uint32_t frames);

#endif
