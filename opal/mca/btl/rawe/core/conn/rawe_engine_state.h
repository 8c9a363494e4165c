/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the connections of an engine share: configuration, callbacks, pools, timers, counters. The
 * engine's functions are in rawe_engine.h.
 */
#ifndef RAWE_ENGINE_STATE_H
#define RAWE_ENGINE_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rawe_conn_table.h"
#include "base/rawe_counters.h"
#include "receive/rawe_credit.h"
#include "receive/rawe_deferral.h"
#include "rma/rawe_handle.h"
#include "rawe_liveness.h"
#include "rma/rawe_operation.h"
#include "base/rawe_output.h"
#include "receive/rawe_reassembly.h"
#include "base/rawe_timer.h"
#include "send/rawe_cc.h"
#include "send/rawe_txframe.h"
#include "base/rawe_wire.h"

struct rawe_conn;
struct rawe_served;

/** Replies that could not be copied into frames at once. */
struct rawe_serving {
    struct rawe_served *used, *free;
    unsigned free_count, count; /**< `count`: used and free */
    unsigned reserved;          /**< of those free: for requests taken, not served yet */
};

struct rawe_callbacks {
    /** A message has arrived. `data` is valid until the callback returns. */
    void (*deliver)(void *context, struct rawe_conn *conn, uint8_t tag, const uint8_t *data,
                    size_t len_bytes);
    /**
     * A connection request for a lane that has no connection yet. The callee checks the identity,
     * opens a connection (rawe_conn_open) and returns it, or returns the one it has, or NULL to
     * refuse. Called while the engine defers, too (see rawe_engine_defer_begin): it must then
     * refuse peers that it does not know yet.
     */
    struct rawe_conn *(*accept)(void *context, const struct rawe_connect *from,
                                const uint8_t source_mac[RAWE_MAC_BYTES]);
    /**
     * A CONNECT or PROBE for a connection has come from an address that no route of it leads to. If
     * that is another interface of the same process, the callee may add a route there
     * (rawe_peer_init, rawe_peer_join), now or when the peer repeats the frame. It calls nothing
     * else of the engine's. Called while the engine defers, too, as `accept`. May be NULL.
     */
    void (*unknown_source)(void *context, const struct rawe_conn *conn,
                           const uint8_t source_mac[RAWE_MAC_BYTES]);
    /**
     * Nothing was heard of the peer for `silent_ns` although an answer is overdue: time to ask
     * whether it lives (then rawe_conn_alive). Called with each probe from the third on; while the
     * engine defers, too: the route may be dead. `silent_ns` does not grow then.
     */
    void (*silent)(void *context, struct rawe_conn *conn, uint64_t silent_ns);
    /**
     * Probes are answered, and yet the oldest frame does not arrive, however often it is sent: for
     * `stalled_ns` already. Called with each further probe. Time to find out whether the path still
     * carries frames of its length (then rawe_conn_set_payload_max), and whether the process is in
     * MPI (if not, rawe_conn_alive). May be NULL.
     */
    void (*stalled)(void *context, struct rawe_conn *conn, uint64_t stalled_ns);
    /**
     * The peer was silent, or the connection stalled, for peer_timeout: the connection has failed,
     * its sends are completed with an error after this call.
     */
    void (*failed)(void *context, struct rawe_conn *conn, uint64_t silent_ns);
    /**
     * The peer has ended the connection without having acknowledged all that was sent: data may be
     * missing there, also of messages that were copied. The sends concerned are completed with an
     * error after this call, which does not close the connection. Not of a peer that finalizes: what
     * it has not acknowledged it does not need. May be NULL.
     */
    void (*lost)(void *context, struct rawe_conn *conn);
};

struct rawe_engine_config {
    uint8_t mac[RAWE_MAC_BYTES]; /**< ours */
    uint16_t ethertype;          /**< host order */
    uint16_t port;               /**< ours */
    uint32_t key;                /**< ours: the session key */
    uint32_t jobid, vpid;        /**< our identity, announced in CONNECT */
    uint32_t payload_max_bytes;  /**< largest frame payload the link carries */
    uint32_t message_max_bytes;  /**< longest message, in bytes */
    uint32_t window_frames;      /**< 16 to RAWE_WINDOW_FRAMES_MAX, a power of two */
    uint32_t receive_frames;     /**< how many frames the receive ring holds */
    uint32_t copy_max_bytes;     /**< messages up to this length are copied when sent */
    uint32_t
        coalesce_from_frames; /**< with this many in flight short messages share frames; 0: never */
    uint32_t frames_limit;    /**< frames kept for resending, over all connections */
    uint32_t deferred_max_bytes; /**< memory for messages that wait for the owner's return */
    uint64_t ack_delay_ns;       /**< longest wait of an acknowledgement for a frame to ride on */
    struct rawe_liveness_limits liveness;  /**< probe_most_ns is peer_timeout_ns / 4 at most */
    uint64_t reorder_ns;                   /**< frames may overtake each other by this much */
    const struct rawe_cc_type *congestion; /**< NULL: the default */
    /**
     * Memory that peers may write into. It outlives the engine; those of a process share it, as a
     * peer may PUT through another interface than the one its handle came through.
     */
    struct rawe_handle_table *handles;
    /**
     * Connections by id. It outlives the engine; those of a process share it, as frames of a
     * connection may come through another's link (rawe_route.h). NULL: this one has its own.
     */
    struct rawe_conn_table *table;
    uint32_t first_sequence; /**< 0, or where tests want numbers to begin */
    bool checksum;           /**< put a CRC32C on every frame, and demand one */
};

/** How batches of the bulk lane are sent and received: what the link says of it. */
struct rawe_batches {
    struct rawe_batch_output output; /**< transmit is NULL where there is none */
    uint32_t bytes_max;              /**< data of one batch */
    uint32_t overhead_bytes;         /**< what the link puts in front of the batch header */
    uint32_t receive_frames;         /**< how many frames our own receive queue holds */
    uint8_t *pattern;                /**< content of validation frames, RAWE_BATCH_BYTES_MAX */
};

/** State of an engine that its connections share. */
struct rawe_engine {
    struct rawe_engine_config config;
    struct rawe_callbacks callbacks;
    void *context; /**< the callbacks' */
    struct rawe_output output;
    struct rawe_batches batches;
    struct rawe_counters counters;
    struct rawe_histogram round_trips; /**< of frames that were sent once */
    struct rawe_timer_wheel timers;
    struct rawe_txframe_pool frames;
    struct rawe_buffer_pool reassembly_buffers;
    struct rawe_buffer_pool bundles;
    struct rawe_deferral deferral;
    struct rawe_operation_table operations; /**< ours under way */
    struct rawe_serving serving;            /**< those of peers */
    enum rawe_refusal put_refusal;          /**< of the first PUT that was refused */
    bool losses_wait; /**< connections have lost data meanwhile: see rawe_callbacks.lost */
    bool finalizing;  /**< see rawe_engine_finalizing */
    bool no_carrier;  /**< its interface has none: see rawe_failover.h */
    struct rawe_conn_table *table; /**< the process's, or our own */
    struct rawe_conn_table own_table;
    uint32_t connections; /**< of ours in the table */
    struct rawe_credit credit;
    uint64_t now_ns;      /**< newest time given */
    uint64_t incarnation; /**< of the connection opened last */
    /** Connections with an acknowledgement or frames to send, oldest first. */
    struct rawe_conn *pending, **pending_tail;
    /** The rest of the list that rawe_engine_flush works on. */
    struct rawe_conn *flushing, **flushing_tail;
    bool link_full;            /**< `output` has refused a frame since the last flush began */
    bool batches_full;         /**< the same for `batches.output` */
    uint64_t probes_passed_on; /**< PROBEs received for connections of other engines */
};

/**
 * Time never goes back: a callback may have given a later one than the round that it belongs to began
 * with. What is sent behind that must not look older than what was sent before it, and lost.
 */
static inline uint64_t rawe_engine_time(struct rawe_engine *engine, uint64_t now_ns)
{
    engine->now_ns = now_ns > engine->now_ns ? now_ns : engine->now_ns;
    return engine->now_ns;
}

#endif
