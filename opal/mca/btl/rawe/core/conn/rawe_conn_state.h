/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * State of a connection, which its files share. Each part of it is changed by calling the module
 * that writes it.
 */
#ifndef RAWE_CONN_STATE_H
#define RAWE_CONN_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "send/rawe_cc.h"
#include "rawe_engine_state.h"
#include "rawe_handshake.h"
#include "rawe_liveness.h"
#include "receive/rawe_recvwin.h"
#include "send/rawe_reorder.h"
#include "rawe_route.h"
#include "send/rawe_rtt.h"
#include "send/rawe_sendqueue.h"
#include "send/rawe_sendwin.h"

struct rawe_peer;

/** Does this connection send batches? */
enum rawe_batch_state {
    RAWE_BATCH_UNVALIDATED, /**< not yet, or the link cannot */
    RAWE_BATCH_VALIDATING,  /**< validation frames are under way, all else waits */
    RAWE_BATCH_VALID,
    RAWE_BATCH_INVALID,  /**< they do not pass: plain frames */
    RAWE_BATCH_MIGRATED, /**< another route: plain frames, nothing new before it can be validated */
};

/** What is known of the end that MPI_Finalize makes: see rawe_conn_finalize.h. */
struct rawe_conn_finalize {
    uint8_t needs;           /**< enum rawe_needs */
    uint32_t announced_from; /**< probes with this number or a later one say that we finalize */
    bool announced;          /**< the peer has answered one of them */
    bool peer;               /**< the peer finalizes, unless a newer frame contradicts: */
    uint32_t peer_from;      /**< one that answers a probe with this number or a later one... */
    uint32_t peer_next;      /**< ... or acknowledges the frame with this number */
    bool lost;               /**< the peer has ended it before it had all, and did not finalize */
    bool heard;              /**< the peer was, since rawe_conn_finalized was called */
    uint32_t una;            /**< oldest frame in the window then */
    uint64_t asked_ns;       /**< when that was */
    uint64_t silent_ns;      /**< how long the peer has not been heard, as far as we ran... */
    uint64_t stuck_ns;       /**< ... and nothing has been acknowledged */
};

/**
 * A connection: its parts, each written by one module only. A comment above each part names it, and
 * test/lint checks it.
 */
struct rawe_conn {
    /* rawe_conn.c: what never changes */
    struct rawe_engine *engine;
    void *owner;                                            /**< the caller's */
    struct rawe_conn *(*long_lane)(struct rawe_peer *peer); /**< see rawe_conn_config */
    struct rawe_peer *peer;
    uint8_t lane; /**< enum rawe_lane */

    /* rawe_conn_path.c: where its frames go */
    uint8_t eth_header[RAWE_ETH_HEADER_BYTES];
    uint16_t peer_port;
    uint32_t peer_key;
    uint32_t payload_max_bytes;           /**< what fits both ends and the path */
    struct rawe_engine *via;              /**< whose port its frames take */
    struct rawe_engine *into;             /**< whose port the peer's frames take */
    struct rawe_engine *predicted;        /**< both, on the preferred route; elsewhere NULL */
    uint32_t preferred_payload_max_bytes; /**< payload_max_bytes on the preferred route */
    struct rawe_route *preferred;         /**< NULL: there are no others */
    struct rawe_route *route;             /**< the one used */
    struct rawe_route *back;              /**< the one that the peer uses: answers go there */
    bool astray; /**< what is being received has come by another route than the one used */
    uint8_t
        peer_interface; /**< of the peer's, counted from 1, where the preferred route ends; 0: any */

    /* rawe_conn_control.c: its turn in a round, and what the peer lets it send */
    struct rawe_conn *next_pending;
    bool is_pending;
    bool wants_credit;       /**< something could not be sent for lack of it */
    uint8_t credit_refusals; /**< answers that there is none, since something was acknowledged */
    uint32_t peer_credit;    /**< 0: nothing may be sent until the peer says otherwise */
    uint64_t no_credit_ns;   /**< when the peer last said that there is none; 0: it never did */
    uint32_t ack_requested;  /**< an acknowledgement was asked for with frames before this */

    /* rawe_conn_batch.c: do batches pass? */
    uint8_t batch;             /**< enum rawe_batch_state */
    uint8_t batch_failures;    /**< how often batches were found not to pass */
    uint64_t batch_verdict_ns; /**< when they were found to pass, or not to */
    uint8_t batches_lost;      /**< in a row, whole, twice */
    uint32_t validation_begin; /**< first sequence number of the validation frames */
    uint32_t validation_end;   /**< one behind the last */
    uint32_t plain_answers;    /**< to probes, in a row... */
    uint64_t plain_since_ns;   /**< ... since then */

    /* rawe_conn_connect.c: its life */
    uint64_t disowned_since_ns; /**< the peer has ended it, or says that there is none; 0: no */

    /* rawe_conn_finalize.c: its end */
    struct rawe_conn_finalize finalize;
    bool data_lost; /**< to be reported when the owner is back */

    /* rawe_balance.c */
    /** Nothing is queued: queue something, if there is (true). NULL: there is nothing, ever. */
    bool (*refill)(struct rawe_conn *conn);

    /* objects, each written by its own functions */
    struct rawe_handshake handshake;
    struct rawe_sendqueue queue;
    struct rawe_sendwin sendwin;
    struct rawe_cc cc;
    struct rawe_rtt rtt;
    struct rawe_reorder reorder;
    struct rawe_liveness liveness;
    struct rawe_recvwin recvwin;
    struct rawe_reassembly *reassembly; /**< allocated with the first fragment */
    struct rawe_sliced *sliced;       /**< a frame that comes in slices; allocated with the first */
    struct rawe_credit_member credit; /**< its part in what we advertise */
    struct rawe_timer timer;          /**< earliest of the deadlines */
};

/** Nothing is queued or in the window. */
static inline bool rawe_conn_idle(const struct rawe_conn *conn)
{
    return conn->queue.first == NULL && rawe_sendwin_empty(&conn->sendwin);
}

/**
 * May a message be complete before it has been transmitted? Only where it leaves without the
 * owner's help.
 */
static inline bool rawe_conn_may_hold_back(const struct rawe_conn *conn)
{
    return conn->engine->config.coalesce_from_frames != 0;
}

/** Longest message that goes into one frame. */
static inline uint32_t rawe_conn_frame_message_bytes(const struct rawe_conn *conn)
{
    return conn->payload_max_bytes - RAWE_FRAGMENT_MESSAGE_BYTES;
}

/** Key and port of the peer's interface that it belongs to, by whatever route its frames go. */
static inline uint32_t rawe_conn_preferred_key(const struct rawe_conn *conn)
{
    return conn->preferred != NULL ? conn->preferred->key : conn->peer_key;
}
static inline uint16_t rawe_conn_preferred_port(const struct rawe_conn *conn)
{
    return conn->preferred != NULL ? conn->preferred->port : conn->peer_port;
}

/** Can a record with `len_bytes` of data be copied into one frame? */
static inline bool rawe_conn_copies_record(const struct rawe_conn *conn, uint64_t len_bytes)
{
    return len_bytes <= conn->engine->config.copy_max_bytes &&
           len_bytes <= conn->payload_max_bytes - RAWE_FRAGMENT_PUT_BYTES;
}

/** Time for rawe_conn_send_copy that will be given by rawe_conn_stamp. */
#define RAWE_TIME_LATER 0u

/** May the time of sending be given later? Then the clock need not be read before. */
static inline bool rawe_conn_stamps_later(const struct rawe_conn *conn)
{
    return conn->handshake.state == RAWE_CONN_OPEN && conn->sendwin.held == NULL;
}

/** The peer's responder answered at `alive_ns`: it is there, but not in MPI. */
static inline void rawe_conn_alive(struct rawe_conn *conn, uint64_t alive_ns)
{
    rawe_liveness_alive(&conn->liveness, alive_ns);
}

#endif
