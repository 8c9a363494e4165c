/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The engine: all connections of one process through one link. It does no I/O: received frames
 * and the time are given in, frames to send go to a rawe_output, and what arrived goes to
 * callbacks.
 *
 * Not thread-safe; the caller serializes. Callbacks may call back into the engine, except that
 * nothing may be received and no timer expire (rawe_engine_advance) inside of one, as what lies in
 * the batch's buffer and on the way to the link is in use then; and that a connection must not be
 * closed from inside a callback that concerns it (`failed` excepted).
 */
#ifndef RAWE_ENGINE_H
#define RAWE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rawe_counters.h"
#include "rawe_handle.h"
#include "rawe_output.h"
#include "rawe_reassembly.h"
#include "rawe_timer.h"
#include "rawe_txframe.h"
#include "rawe_wire.h"

struct rawe_conn;
struct rawe_engine;
struct rawe_deferred;
struct rawe_send;

/**
 * Connections between two processes through one link: small things never wait behind large ones.
 */
enum rawe_lane {
    RAWE_LANE_EXPRESS, /**< messages that fit a frame */
    RAWE_LANE_BULK,    /**< longer messages and PUT data */
    RAWE_LANES
};

struct rawe_callbacks {
    /** A message has arrived. `data` is valid until the callback returns. */
    void (*deliver)(void *context, struct rawe_conn *conn, uint8_t tag, const uint8_t *data,
                    size_t len_bytes);
    /**
     * A connection request for a lane that has no connection yet. The callee checks the identity,
     * opens a connection (rawe_conn_open) and returns it, or returns the one it has, or NULL to
     * refuse. The only one called while the engine is away, too (see rawe_engine_defer_begin): it must
     * then refuse whom it does not know yet.
     */
    struct rawe_conn *(*accept)(void *context, const struct rawe_connect *from,
                                const uint8_t source_mac[RAWE_MAC_BYTES]);
    /**
     * Nothing was heard of the peer for `silent_ns` although an answer is overdue: time to ask
     * whether it lives (then rawe_conn_alive). Called with each probe from the third on.
     */
    void (*silent)(void *context, struct rawe_conn *conn, uint64_t silent_ns);
    /**
     * Probes are answered, and yet the oldest frame does not arrive, however often it is sent: for
     * `stalled_ns` already. Called with each further probe. Time to find out whether the path still
     * carries frames of its length (then rawe_conn_set_payload_max), and whether the process is in
     * MPI (if not, rawe_conn_alive). NULL: nobody wants to know.
     */
    void (*stalled)(void *context, struct rawe_conn *conn, uint64_t stalled_ns);
    /**
     * The peer was silent, or the connection stalled, for peer_timeout: the connection has failed, its sends are completed
     * with an error after this call.
     */
    void (*failed)(void *context, struct rawe_conn *conn, uint64_t silent_ns);
};

struct rawe_engine_config {
    uint8_t mac[RAWE_MAC_BYTES]; /**< ours */
    uint16_t ethertype;          /**< host order */
    uint16_t port;               /**< ours */
    uint32_t key;                /**< ours: the session key */
    uint32_t jobid, vpid;        /**< who we are, told in CONNECT */
    uint32_t payload_max_bytes;  /**< largest frame payload the link carries */
    uint32_t message_max_bytes;  /**< longest message, in bytes */
    uint32_t window_frames;      /**< 16 to RAWE_WINDOW_FRAMES_MAX, a power of two */
    uint32_t receive_frames;     /**< how many frames the receive ring holds */
    uint32_t copy_max_bytes;     /**< messages up to this length are copied when sent */
    uint32_t coalesce_from_frames;   /**< so many in flight: short messages share frames; 0: never */
    uint32_t frames_limit;       /**< frames kept for resending, over all connections */
    uint64_t ack_delay_ns;       /**< longest wait of an acknowledgement for a frame to ride on */
    uint64_t probe_least_ns;     /**< shortest silence that is asked about */
    uint64_t probe_most_ns;      /**< longest interval between probes, peer_timeout / 4 at most */
    uint64_t reorder_ns;         /**< frames may overtake each other by this much */
    uint64_t peer_timeout_ns;    /**< silence after which a peer is given up; 0: never */
    /**
     * Memory that peers may write into. It outlives the engine; those of a process share it, as a
     * peer may PUT through another interface than the one its handle came through.
     */
    struct rawe_handle_table *handles;
    uint32_t first_sequence;     /**< 0, or where tests want numbers to begin */
    bool checksum;               /**< put a CRC32C on every frame, and demand one */
};

/** A second way out, for batches of frames of the bulk lane: what the link says of it. */
struct rawe_batches {
    struct rawe_output output;  /**< transmit is NULL where there is none */
    uint32_t frames_max;        /**< of one batch */
    uint32_t bytes_max;         /**< of one batch, Ethernet headers left out */
    uint32_t fill_max_bytes;    /**< a message's last frame may be filled up by so much, for another
                                     message to follow in the same batch */
    uint32_t overhead_bytes;    /**< what the envelope takes from each frame's payload */
    uint32_t receive_frames;    /**< how many frames our own receive queue holds */
    uint8_t *pattern;           /**< content of validation frames, payload_max_bytes of it */
};

/**
 * A message that came in a batch with others. The batch was received into a buffer of the engine's,
 * and the message is delivered from where it lies there; what is still missing of it when the
 * buffer is needed again makes it move to one of its own.
 */
struct rawe_inplace {
    uint8_t *buffer;        /**< RAWE_INPLACE_BUFFER_BYTES; NULL until needed */
    struct rawe_conn *conn; /**< whose message it is; NULL: none */
    const uint8_t *data;    /**< the message, so far */
    uint32_t number;
    uint32_t total_bytes;
    uint32_t received_bytes;
    uint8_t tag;
};

/** Longest batch. */
#define RAWE_INPLACE_BUFFER_BYTES 65536u

struct rawe_engine {
    struct rawe_engine_config config;
    struct rawe_callbacks callbacks;
    void *context;
    struct rawe_output output;
    struct rawe_batches batches;
    struct rawe_counters counters;
    struct rawe_histogram round_trips; /**< of frames that were sent once */
    struct rawe_timer_wheel timers;
    struct rawe_txframe_pool frames;
    struct rawe_buffer_pool reassembly_buffers;
    struct rawe_inplace inplace;
    bool inplace_complete; /**< the message in it has just become complete */
    bool deferring;           /**< see rawe_engine_defer_begin */
    size_t deferred_bytes;   /**< in `kept` */
    struct rawe_deferred *deferred, **deferred_tail; /**< messages that came meanwhile, in order */
    bool fragments_wait;  /**< fragmented messages may have become whole meanwhile */
    struct rawe_send *finished[2], **finished_tail[2]; /**< sends completed: well, failed */
    struct rawe_conn **table;  /**< by index of the connection id */
    uint16_t *generations;     /**< by index: of the connection that has or had it */
    uint32_t table_size;
    uint32_t table_full_below; /**< no index below is free */
    uint32_t open_count;       /**< connections in the table */
    uint64_t now_ns;           /**< newest time told */
    uint64_t incarnation;      /**< of the connection opened last */
    bool has_deferred; /**< there is something to be told: see rawe_engine_deliver_deferred */
    struct rawe_conn *pending;  /**< connections with an acknowledgement or frames to send */
    struct rawe_conn *flushing; /**< the rest of the list that rawe_engine_flush works on */
    uint16_t credit;            /**< frames that one peer may have in flight to us */
    uint16_t credit_bulk;       /**< the same for the bulk lane */
    unsigned active_receivers;    /**< connections that received data in the epoch before */
    unsigned active_receivers_now; /**< ... in this epoch */
    uint64_t epoch_start_ns;
    uint32_t epoch;
};

/** Returns false when there is no memory. The configuration must be within its bounds (assert). */
bool rawe_engine_init(struct rawe_engine *engine, const struct rawe_engine_config *config,
                      const struct rawe_callbacks *callbacks, void *context,
                      const struct rawe_output *output, uint64_t now_ns);

/**
 * Send batches of the bulk lane through `batches->output`, to peers to which they pass. A batch is
 * frames with consecutive sequence numbers, none longer than the first, whose data are consecutive
 * too: so that the receiver can place them as one. Shorter ones in the middle (a message ends there
 * and another follows) are to be filled up to the length of the first. False without memory.
 */
bool rawe_engine_use_batches(struct rawe_engine *engine, const struct rawe_batches *batches);

/**
 * Where the data of a batch may be received straight into place. `head` is the beginning of
 * its first frame, behind the Ethernet header; the batch is `total_bytes` long, and each frame but
 * the last `frame_bytes`. False: receive it anywhere, and give it to rawe_engine_receive_parts.
 */
bool rawe_engine_plan(struct rawe_engine *engine, const uint8_t *source_mac, const uint8_t *head,
                      size_t head_bytes, size_t frame_bytes, size_t total_bytes,
                      struct rawe_placement *placement);

/**
 * A frame has arrived without its Ethernet header: headers at `head`, data (when not NULL) at
 * `data`, or all of it at `head`. Untrusted, as in rawe_engine_receive.
 */
void rawe_engine_receive_parts(struct rawe_engine *engine, const uint8_t *source_mac,
                               const uint8_t *head, size_t head_bytes, const uint8_t *data,
                               size_t data_bytes, uint64_t now_ns);

/**
 * Behind a frame given to rawe_engine_receive_parts, received in place with others: take those of
 * the following `count` frames, all of them as long as the place says, that continue it just as
 * expected. Their headers begin at `head`, `head_stride` apart, right behind those of the frame
 * before, their data at `data`. Returns how many were taken; what is left is to be given singly.
 */
unsigned rawe_engine_receive_predicted(struct rawe_engine *engine, const uint8_t *source_mac,
                                 const uint8_t *head, size_t head_stride,
                                 const struct rawe_placement *placement, const uint8_t *data,
                                 unsigned count, uint64_t now_ns);

/**
 * Complete an unsequenced frame in `buffer`, whose Ethernet header and payload are there: header,
 * and checksum if they are in use (room for it behind the payload). Returns the frame's length.
 */
size_t rawe_engine_seal(const struct rawe_engine *engine, uint8_t *buffer,
                        struct rawe_header *header);

/** Payload of a frame on a path that carries `path_bytes` of it, checksum included. */
uint32_t rawe_engine_path_payload(const struct rawe_engine *engine, uint32_t path_bytes);

/** The connection with this id of ours, or NULL. */
struct rawe_conn *rawe_engine_find(const struct rawe_engine *engine, uint32_t connection_id);

/** All connections must have been closed. */
void rawe_engine_free(struct rawe_engine *engine);

/** A frame has arrived, Ethernet header first. Untrusted bytes: anything may be in it. */
void rawe_engine_receive(struct rawe_engine *engine, const uint8_t *frame, size_t len_bytes,
                         uint64_t now_ns);

/** End of a round of received frames: send the acknowledgements and frames put off. */
void rawe_engine_flush(struct rawe_engine *engine, uint64_t now_ns);

/** Let timers expire. Call after the frames that wait have been received, not before. */
void rawe_engine_advance(struct rawe_engine *engine, uint64_t now_ns);

/**
 * The owner cannot be called for a while: somebody else (one at a time, and not at the same time as
 * the owner) keeps the engine going until rawe_engine_defer_end. Messages are kept, as are
 * completions; no peer is given up. Strangers are for `accept` to refuse.
 */
void rawe_engine_defer_begin(struct rawe_engine *engine);

/** The owner is back, or may come back. */
void rawe_engine_defer_end(struct rawe_engine *engine);

/** Tell the owner what was kept, before anything new is received. */
void rawe_engine_deliver_deferred(struct rawe_engine *engine);

/** True when there is something to be told. */
static inline bool rawe_engine_has_deferred(const struct rawe_engine *engine)
{
    return engine->has_deferred;
}

/** Nothing is in flight, owed or held back: nothing to be kept going. */
static inline bool rawe_engine_idle(const struct rawe_engine *engine)
{
    return engine->pending == NULL && engine->timers.armed == 0;
}

/** True when rawe_engine_flush has something to do. */
static inline bool rawe_engine_pending(const struct rawe_engine *engine)
{
    return engine->pending != NULL;
}

/** Share the ring out anew: the number of peers that send has changed. */
void rawe_engine_share_credit(struct rawe_engine *engine);

#endif
