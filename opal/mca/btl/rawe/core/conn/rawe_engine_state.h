/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * State of an engine, shared by all connections of an interface.
 */
#ifndef RAWE_ENGINE_STATE_H
#define RAWE_ENGINE_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rawe_conn_table.h"
#include "base/rawe_counters.h"
#include "base/rawe_list.h"
#include "base/rawe_output.h"
#include "base/rawe_timer.h"
#include "base/rawe_wire.h"
#include "pull/rawe_pull.h"
#include "rawe_liveness.h"
#include "receive/rawe_reassembly.h"
#include "rma/rawe_handle.h"
#include "rma/rawe_operation.h"
#include "send/rawe_cc.h"
#include "send/rawe_sendwin.h"

struct rawe_conn;

/** Replies that could not be copied into frames at once. */
struct rawe_serving {
    struct rawe_link used, free;
    unsigned free_count, count; /**< `count`: used and free */
    unsigned reserved;          /**< free ones set aside for accepted, unserved requests */
};

struct rawe_callbacks {
    /** Called for each message that arrives. `data` is valid until the callback returns. */
    void (*deliver)(void *context, struct rawe_conn *conn, uint8_t tag, const uint8_t *data,
                    size_t len_bytes);
    /**
     * Called when a peer requests a connection. Return it, opened if necessary (rawe_conn_open), or
     * NULL to refuse. Unknown peers must be refused while the engine is deferring.
     */
    struct rawe_conn *(*accept)(void *context, const struct rawe_connect *from,
                                const uint8_t source_mac[RAWE_MAC_BYTES]);
    /**
     * Called for a CONNECT or PROBE from an address to which no route of the connection leads. If
     * it is another interface of the process, the callee may add a route (rawe_peer_init,
     * rawe_peer_join). If it is the new address of a known interface, and the interface answers
     * there, the callee may update the route (rawe_peer_set_mac), now or when the peer repeats the
     * frame. No other engine calls are allowed. Also called while deferring. May be NULL.
     */
    void (*unknown_source)(void *context, const struct rawe_conn *conn,
                           const struct rawe_connect *from,
                           const uint8_t source_mac[RAWE_MAC_BYTES]);
    /**
     * Find out whether a peer that owes an answer is alive (rawe_liveness_alive). Called with the
     * third and each further probe, even while deferring, when `silent_ns` does not grow.
     */
    void (*silent)(void *context, struct rawe_conn *conn, uint64_t silent_ns);
    /**
     * Called if probes are answered but the oldest frame, although retransmitted, has not arrived
     * for `stalled_ns`; 0: it may have been lost, or the peer refused it. Find out whether the path still carries its length (if not, call
     * rawe_peer_set_payload_max), and whether the process is in MPI (if not, rawe_liveness_alive).
     * Called with each further probe. May be NULL.
     */
    void (*stalled)(void *context, struct rawe_conn *conn, uint64_t stalled_ns);
    /** Called when the route in use has lost more frames: see rawe_failover_lossy. May be NULL. */
    void (*lossy)(void *context, const struct rawe_conn *conn);
    /** Called on failure: silent or stalled for peer_timeout. The sends fail afterwards. */
    void (*failed)(void *context, struct rawe_conn *conn, uint64_t silent_ns);
    /** Like `failed`, but the peer gave up on us. Not called while deferring or finalizing. */
    void (*given_up)(void *context, struct rawe_conn *conn);
    /**
     * Called if the peer ended the connection and may lack data, including copied messages. The
     * sends fail after this call. Not called if the peer is finalizing. May be NULL.
     */
    void (*lost)(void *context, struct rawe_conn *conn);
    /**
     * Called for a control message (rawe_peer_send_control), at once, even while the engine is
     * deferring or finalizing. It must not close the connection. NULL: messages are dropped.
     */
    void (*control)(void *context, struct rawe_conn *conn, uint64_t channel, const uint8_t *data,
                    size_t len_bytes);
    /** Send a long reply over bulk lanes. False or NULL: it uses the request's connection. */
    bool (*long_reply)(void *context, struct rawe_conn *conn, struct rawe_send *send);
};

/** The first fields are used for every message. */
struct rawe_engine_config {
    uint16_t port;                 /**< ours */
    uint32_t key;                  /**< ours: the session key */
    uint32_t copy_max_bytes;       /**< messages up to this length are copied when sent */
    uint32_t coalesce_from_frames; /**< coalesce with this many frames in flight; 0: never */
    uint64_t ack_delay_ns;         /**< how long an acknowledgement waits for a frame to carry it */
    /** The current time. Read while batches are sent, on arrivals, and for copied messages. */
    uint64_t (*clock_ns)(void *context);
    /** The clock of rawe_engine_arriving. NULL: arrival times are not known. */
    uint64_t (*arrival_clock_ns)(void *context);
    void *clock_context;                  /**< of both clocks */
    struct rawe_liveness_limits liveness; /**< probe_most_ns is at most peer_timeout_ns / 4 */
    uint8_t mac[RAWE_MAC_BYTES];          /**< ours */
    bool checksummed;   /**< the port's protocol (UDP) detects damage: data frames have no CRC32C */
    uint16_t ethertype; /**< host order */
    uint32_t jobid, vpid;        /**< our identity, announced in CONNECT */
    uint32_t payload_max_bytes;  /**< largest frame payload that the link carries */
    uint32_t message_max_bytes;  /**< longest message, in bytes */
    uint32_t window_frames;      /**< 16 to RAWE_WINDOW_FRAMES_MAX, a power of two */
    uint32_t receive_frames;     /**< capacity of the receive ring, in frames */
    uint32_t frames_limit;       /**< frames kept for retransmission, over all connections */
    uint32_t deferred_max_bytes; /**< memory limit of its own deferral; see `deferral` */
    uint64_t reorder_ns;         /**< by how much frames may overtake each other */
    uint64_t inflow_bytes;       /**< buffer of our switch port; 0: no limit (rawe_pull.h) */
    struct rawe_pull_host *host; /**< shared with processes of this host; NULL: none */
    unsigned host_index;         /**< index of this process in it */
    const struct rawe_cc_type *congestion; /**< NULL: the default */
    uint32_t link_mbps;                    /**< rate of the interface's link; 0: not known */
    /** Memory that peers may access, over any interface: shared by the process's engines. */
    struct rawe_handle_table *handles;
    /** Connections by id, of all the process's engines (rawe_route.h). NULL: its own table. */
    struct rawe_conn_table *table;
    /** Holds deliveries until the owner returns; shared like the table. NULL: its own deferral. */
    struct rawe_deferral *deferral;
    uint64_t streak_ns;      /**< messages this close form a streak, see rawe_peer.c; 0: none do */
    uint32_t first_sequence; /**< 0, or where numbers begin in tests */
    uint32_t overtaken_most; /**< 0: RAWE_ORDER_MOST; tests set less */
};

/** Properties of the link for sending and receiving batches on the bulk lane. */
struct rawe_batches {
    struct rawe_batch_output output; /**< transmit is NULL if the link cannot send any */
    uint32_t bytes_max;              /**< data of one batch; 0: no batches */
    uint32_t overhead_bytes;         /**< bytes that the link prepends to the batch header */
    uint32_t receive_frames;         /**< capacity of our own receive queue, in frames */
};

/** State of an engine, shared by its connections. What every message needs comes first. */
struct rawe_engine {
    struct rawe_output output;
    uint64_t now_ns;      /**< newest time passed in */
    uint64_t arrived_ns;  /**< arrival time of the current frame, by arrival_clock_ns; 0: unset */
    uint16_t source_port; /**< source UDP port of the current frame; 0: a raw frame */
    bool link_full;       /**< `output` has refused a frame since the last flush began */
    bool batches_full;    /**< `batches.output` has refused a packet since then */
    bool finalizing;      /**< see rawe_engine_finalizing */
    bool no_carrier;      /**< our interface has no carrier: rawe_failover.h */
    struct rawe_deferral *deferral; /**< the process's, or our own */
    struct rawe_conn_table *table;  /**< the process's, or our own */
    /** Connections with an acknowledgement or frames to send, oldest first. */
    struct rawe_link pending;
    /** The unprocessed part of the list that rawe_engine_flush is working on. */
    struct rawe_link flushing;
    /** Connections that owe, or owed, a delayed acknowledgement, earliest deadline first. */
    struct rawe_link owing;
    struct rawe_timer owing_timer; /**< expires at the earliest of these deadlines */
    struct rawe_txframe_pool frames;
    void *context; /**< the callbacks' */
    struct rawe_callbacks callbacks;
    struct rawe_engine_config config;
    struct rawe_counters counters;
    struct rawe_histogram round_trips; /**< of frames that were sent once */
    struct rawe_conn_table own_table;
    struct rawe_deferral own_deferral;
    struct rawe_pull pull; /**< what peers may have in flight to us */
    struct rawe_timer_wheel timers;
    struct rawe_batches batches;
    struct rawe_buffer_pool reassembly_buffers;
    struct rawe_buffer_pool bundles;
    struct rawe_serving serving;            /**< replies to the peers' operations */
    enum rawe_refusal put_refusal;          /**< for the first PUT that was refused */
    uint32_t connections;                   /**< our connections in the table */
    uint64_t incarnation;                   /**< that of the newest connection */
    uint64_t probes_passed_on;              /**< PROBEs received for connections of other engines */
    struct rawe_operation_table operations; /**< our operations in progress */
};

/** Return the owner's current time. */
static inline uint64_t rawe_engine_clock_ns(const struct rawe_engine *engine)
{
    return engine->config.clock_ns(engine->config.clock_context);
}

/** Advance the engine's time, never back: a frame sent later must not look older and thus lost. */
static inline uint64_t rawe_engine_time(struct rawe_engine *engine, uint64_t now_ns)
{
    engine->now_ns = now_ns > engine->now_ns ? now_ns : engine->now_ns;
    return engine->now_ns;
}

/**
 * After this time, a turn transmits at most one more batch. Where a system call takes as long as
 * transmission, the link never fills, and each acknowledgement that arrives makes room for more
 * frames: without a limit, nothing else was received for up to 9 ms.
 */
#define RAWE_TURN_NS 200000u

static inline bool rawe_engine_turn_is_long(const struct rawe_engine *engine)
{
    return rawe_engine_clock_ns(engine) - engine->now_ns > RAWE_TURN_NS;
}

/** Overhead of a frame on the wire: headers, check sequence, gap. */
#define RAWE_FRAME_WIRE_BYTES 62u

/** Overhead of each frame of a batch on the wire: headers, check sequence, gap. */
#define RAWE_BATCH_WIRE_BYTES 118u

/** Return when the frame being received arrived at this host. */
static inline uint64_t rawe_engine_arrival_ns(const struct rawe_engine *engine)
{
    if (engine->config.arrival_clock_ns == NULL || engine->arrived_ns == 0) {
        return engine->now_ns;
    }
    uint64_t now_ns = engine->config.arrival_clock_ns(engine->config.clock_context);
    uint64_t waited_ns = now_ns > engine->arrived_ns ? now_ns - engine->arrived_ns : 0;
    uint64_t clock_ns = rawe_engine_clock_ns(engine);
    /* The arrival clock can be set, even forward. */
    return waited_ns < clock_ns ? clock_ns - waited_ns : clock_ns;
}

#endif
