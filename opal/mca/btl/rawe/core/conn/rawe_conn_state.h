/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * State of a connection, shared by its files.
 */
#ifndef RAWE_CONN_STATE_H
#define RAWE_CONN_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rawe_list.h"
#include "base/rawe_timer.h"
#include "base/rawe_wire.h"
#include "rawe_engine_state.h"
#include "rawe_handshake.h"
#include "rawe_liveness.h"
#include "rawe_route.h"
#include "pull/rawe_pull.h"
#include "receive/rawe_reassembly.h"
#include "receive/rawe_recvwin.h"
#include "send/rawe_cc.h"
#include "send/rawe_loss.h"
#include "send/rawe_order.h"
#include "send/rawe_sendqueue.h"
#include "send/rawe_sendwin.h"

struct rawe_peer;

/** Whether this connection sends batches. */
enum rawe_batch_state {
    RAWE_BATCH_UNVALIDATED, /**< not validated yet, or the link cannot send batches */
    RAWE_BATCH_VALIDATING,  /**< validation frames are in flight, everything else waits */
    RAWE_BATCH_VALID,
    RAWE_BATCH_INVALID,  /**< batches do not pass: send plain frames */
    RAWE_BATCH_MIGRATED, /**< new route: plain frames, but no new ones before validation */
};

/**
 * Sending. The comment above each part of this and the following structs names the module that
 * writes it (test/lint). The fields used for every message come first.
 */
struct rawe_conn_tx {
    /* objects, each written by its own functions */
    struct rawe_sendwin window;
    struct rawe_sendqueue queue;

    /* rawe_conn_tx.c: the peer's credit */
    uint64_t credit_wanted_ns; /**< since when data has been waiting for credit */
    uint64_t no_credit_ns;     /**< when the peer last refused frames that had arrived; 0: never */
    uint32_t peer_credit;      /**< 0: nothing may be sent until the peer grants some */
    uint32_t ack_requested;    /**< acknowledgements were requested for frames before this */
    bool wants_credit;         /**< something could not be sent for lack of credit */
    bool reported_more;        /**< the newest frame said that there is more to send */
    uint8_t credit_refusals;   /**< answers without credit since the last new acknowledgement */

    /* objects */
    struct rawe_order_member ordered; /**< among the connections to the process */
    struct rawe_cc cc;

    /* rawe_balance.c */
    /** Called when the queue is empty, to queue more. True: something was queued. May be NULL. */
    bool (*refill)(struct rawe_conn *conn);

    /* rawe_conn_batch.c: slices */
    uint32_t slices_of;    /**< number of the frame that was accepted in part by the link... */
    uint16_t slices_bytes; /**< ... and the length of that part; 0: none */

    /* objects: loss detection */
    struct rawe_rtt rtt;
    struct rawe_reorder reorder;
};

/** Receiving. */
struct rawe_conn_rx {
    /* objects, each written by its own functions */
    struct rawe_recvwin window;
    struct rawe_credit_member credit; /**< this connection's share of the advertised credit */
    struct rawe_link owing; /**< for delayed acknowledgements: in the engine's list, or in none */
    struct rawe_grants_member grant; /**< its credit while several peers have more to send */
    struct rawe_reassembly reassembly;
    struct rawe_sliced *sliced; /**< a frame received in slices; allocated on first use */
};

/** Where frames are sent, and what is known about the path and the peer. */
struct rawe_conn_path {
    /* rawe_conn_batch.c: whether batches pass */
    uint64_t plain_since_ns;   /**< since when probes have had only a plain answer... */
    uint64_t batch_verdict_ns; /**< when batches were found to pass or to fail */
    uint8_t batch_failures;    /**< how often batches were found to fail */
    uint8_t batches_lost;      /**< batches in a row that were lost whole, twice each */
    uint8_t batch;             /**< enum rawe_batch_state */
    uint32_t plain_answers;    /**< ... and the number of such probes in a row */

    /* rawe_conn_path.c: routes */
    uint8_t eth_header[RAWE_ETH_HEADER_BYTES];
    uint16_t peer_port;
    uint32_t peer_key;
    uint32_t payload_max_bytes;    /**< what both ends accept and the path carries */
    uint32_t accepted_max_bytes;   /**< what both ends accept */
    struct rawe_engine *via;       /**< its port sends our frames */
    struct rawe_engine *into;      /**< its port receives the peer's frames */
    struct rawe_engine *predicted; /**< `via` and `into` on the preferred route; NULL on another */
    struct rawe_route *route;      /**< the route in use */
    struct rawe_route *preferred;
    struct rawe_route *back; /**< the route that the peer uses: answers take it */
    uint64_t route_since_ns; /**< when `route` came into use */

    /* objects, each written by its own functions */
    struct rawe_liveness liveness;
};

/** Progress of the two processes through MPI_Finalize; drawn in rawe_conn_end.h. */
enum rawe_end_state {
    RAWE_END_NONE,           /**< neither is finalizing */
    RAWE_END_ANNOUNCING,     /**< ours is finalizing, and probes until the peer knows */
    RAWE_END_ANNOUNCED,      /**< ours is finalizing, and the peer knows */
    RAWE_END_PEER,           /**< the peer is finalizing */
    RAWE_END_BOTH,           /**< both are finalizing, and ours probes until the peer knows */
    RAWE_END_BOTH_ANNOUNCED, /**< both are finalizing, and know */
};

/** The peer's statement about the connection; it takes effect later. Drawn in rawe_conn_end.h. */
enum rawe_disowned {
    RAWE_DISOWNED_NOT,      /**< nothing, or it has since sent other frames */
    RAWE_DISOWNED_ENDED,    /**< it has ended the connection, or does not know it */
    RAWE_DISOWNED_GIVEN_UP, /**< it has ended the connection because it has given up on us */
};

/** The end of a connection. */
struct rawe_conn_end {
    /* rawe_conn_end.c */
    uint32_t announced_from; /**< probes from this number on announce that we finalize */
    uint8_t state;           /**< enum rawe_end_state */
    uint8_t disowned;        /**< enum rawe_disowned */
    bool lost;               /**< the peer closed with our data missing; not reported yet */
    bool heard;              /**< the peer was heard since rawe_conn_finalized was last called */
    uint32_t una;            /**< oldest frame in the window at that call */
    uint64_t asked_ns;       /**< time of that call */
    uint64_t silent_ns;      /**< how long the peer was silent while we were running... */
    uint64_t stuck_ns;       /**< ... and how long nothing was acknowledged */
    uint64_t disowned_ns;    /**< since when the peer has disowned the connection */
};

/** A connection. */
struct rawe_conn {
    /* rawe_conn.c: never changes */
    struct rawe_engine *engine;
    void *owner; /**< the caller's */
    struct rawe_peer *peer;
    uint8_t lane; /**< enum rawe_lane */

    /* objects, each written by its own functions */
    struct rawe_link pending; /**< in the engine's list `pending` or `flushing`, or in none */
    struct rawe_handshake handshake;
    struct rawe_conn_tx tx;
    struct rawe_conn_path path;
    struct rawe_conn_rx rx;
    struct rawe_conn_end end;
    struct rawe_timer timer; /**< earliest of the deadlines */
};

/** Schedule rawe_conn_flush for the end of the round, or for the next progress call. */
static inline void rawe_conn_make_pending(struct rawe_conn *conn)
{
    if (!rawe_list_has(&conn->pending)) {
        rawe_list_append(&conn->engine->pending, &conn->pending);
    }
}

/** Return true if nothing is queued or in the window. */
static inline bool rawe_conn_idle(const struct rawe_conn *conn)
{
    return conn->tx.queue.first == NULL && rawe_sendwin_empty(&conn->tx.window);
}

/** Return true once the peer has acknowledged everything, or never will. */
static inline bool rawe_conn_drained(const struct rawe_conn *conn)
{
    return conn->handshake.state == RAWE_CONN_FAILED ||
           (rawe_conn_idle(conn) && conn->tx.window.held == NULL);
}

/** Return true while probing whether the peer knows that we are finalizing, or disowns us. */
static inline bool rawe_conn_end_asks(const struct rawe_conn_end *end)
{
    return end->state == RAWE_END_ANNOUNCING || end->state == RAWE_END_BOTH ||
           end->disowned != RAWE_DISOWNED_NOT;
}

/** Return true if messages may complete before they are sent: frames leave without the owner. */
static inline bool rawe_conn_may_hold_back(const struct rawe_conn *conn)
{
    return conn->engine->config.coalesce_from_frames != 0;
}

/** Return the length of the longest message that fits one frame, in bytes. */
static inline uint32_t rawe_conn_frame_message_bytes(const struct rawe_conn *conn)
{
    return conn->path.payload_max_bytes - RAWE_FRAGMENT_MESSAGE_BYTES;
}

/** Return true if a record with `len_bytes` of data can be copied into one frame. */
static inline bool rawe_conn_copies_record(const struct rawe_conn *conn, uint64_t len_bytes)
{
    return len_bytes <= conn->engine->config.copy_max_bytes &&
           len_bytes <= conn->path.payload_max_bytes - RAWE_FRAGMENT_PUT_BYTES;
}

#endif
