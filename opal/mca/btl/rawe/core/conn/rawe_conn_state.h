/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * State that the files of a connection share, and that the connections of an engine share.
 */
#ifndef RAWE_CONN_STATE_H
#define RAWE_CONN_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rawe_conn_table.h"
#include "base/rawe_counters.h"
#include "base/rawe_list.h"
#include "base/rawe_output.h"
#include "base/rawe_timer.h"
#include "base/rawe_wire.h"
#include "rawe_handshake.h"
#include "rawe_liveness.h"
#include "rawe_route.h"
#include "receive/rawe_credit.h"
#include "receive/rawe_grants.h"
#include "receive/rawe_inflow.h"
#include "receive/rawe_reassembly.h"
#include "receive/rawe_recvwin.h"
#include "rma/rawe_handle.h"
#include "rma/rawe_operation.h"
#include "send/rawe_cc.h"
#include "send/rawe_loss.h"
#include "send/rawe_sendqueue.h"
#include "send/rawe_sendwin.h"

struct rawe_conn;
struct rawe_peer;

/** Replies that could not be copied into frames at once. */
struct rawe_serving {
    struct rawe_link used, free;
    unsigned free_count, count; /**< `count`: used and free */
    unsigned reserved;          /**< of those free: for requests taken, not served yet */
};

struct rawe_callbacks {
    /** A message has arrived. `data` is valid until the callback returns. */
    void (*deliver)(void *context, struct rawe_conn *conn, uint8_t tag, const uint8_t *data,
                    size_t len_bytes);
    /**
     * A peer asks for a connection. Returns it, opened if need be (rawe_conn_open), or NULL to
     * refuse, as it must refuse unknown peers while the engine defers.
     */
    struct rawe_conn *(*accept)(void *context, const struct rawe_connect *from,
                                const uint8_t source_mac[RAWE_MAC_BYTES]);
    /**
     * A CONNECT or PROBE came from an address that no route of the connection leads to. If it is
     * another interface of the process, the callee may add a route (rawe_peer_init,
     * rawe_peer_join); if it is one whose address has changed, and answers there, the route may follow
     * (rawe_peer_set_mac): now or when the peer repeats the frame. It calls nothing else of the engine.
     * Called while the engine defers, too. May be NULL.
     */
    void (*unknown_source)(void *context, const struct rawe_conn *conn,
                           const struct rawe_connect *from,
                           const uint8_t source_mac[RAWE_MAC_BYTES]);
    /**
     * The peer owes an answer: does it live (rawe_liveness_alive)? With each probe from the third on,
     * also while the engine defers, when `silent_ns` does not grow.
     */
    void (*silent)(void *context, struct rawe_conn *conn, uint64_t silent_ns);
    /**
     * Probes are answered, but the oldest frame has not arrived for `stalled_ns`, however often it
     * was sent: find out whether the path still carries its length (if not,
     * rawe_peer_set_payload_max), and whether the process is in MPI (if not, rawe_liveness_alive).
     * Called with each further probe. May be NULL.
     */
    void (*stalled)(void *context, struct rawe_conn *conn, uint64_t stalled_ns);
    /** The route in use has lost some frames more: rawe_failover_lossy. May be NULL. */
    void (*lossy)(void *context, const struct rawe_conn *conn);
    /** Silent or stalled for peer_timeout: it has failed. Its sends fail after this call. */
    void (*failed)(void *context, struct rawe_conn *conn, uint64_t silent_ns);
    /** The peer has given us up: as `failed`. Not while the engine defers, nor when it finalizes. */
    void (*given_up)(void *context, struct rawe_conn *conn);
    /**
     * The peer ended the connection, and data may be missing there, also of copied messages. The
     * sends fail after this call. Not if the peer finalizes. May be NULL.
     */
    void (*lost)(void *context, struct rawe_conn *conn);
    /**
     * A control message of the peer's owner, see rawe_peer_send_control. Called at once, also while
     * the engine defers or finalizes; it must not close the connection. NULL: they are dropped.
     */
    void (*control)(void *context, struct rawe_conn *conn, uint64_t channel, const uint8_t *data,
                    size_t len_bytes);
    /** Send a long reply by bulk lanes; false: not taken. NULL: it goes back as asked. */
    bool (*long_reply)(void *context, struct rawe_conn *conn, struct rawe_send *send);
};

struct rawe_engine_config {
    uint8_t mac[RAWE_MAC_BYTES];   /**< ours */
    uint16_t ethertype;            /**< host order */
    uint16_t port;                 /**< ours */
    uint32_t key;                  /**< ours: the session key */
    uint32_t jobid, vpid;          /**< our identity, announced in CONNECT */
    uint32_t payload_max_bytes;    /**< largest frame payload the link carries */
    uint32_t message_max_bytes;    /**< longest message, in bytes */
    uint32_t window_frames;        /**< 16 to RAWE_WINDOW_FRAMES_MAX, a power of two */
    uint32_t receive_frames;       /**< how many frames the receive ring holds */
    uint32_t copy_max_bytes;       /**< messages up to this length are copied when sent */
    uint32_t coalesce_from_frames; /**< in flight: then short messages share frames; 0: never */
    uint32_t frames_limit;         /**< frames kept for resending, over all connections */
    uint32_t deferred_max_bytes;   /**< memory of a deferral of its own, see `deferral` */
    uint64_t ack_delay_ns;         /**< longest wait of an acknowledgement for a frame to ride on */
    struct rawe_liveness_limits liveness; /**< probe_most_ns is peer_timeout_ns / 4 at most */
    uint64_t reorder_ns;                  /**< frames may overtake each other by this much */
    uint64_t inflow_bytes; /**< asked for by GETs of several peers, see rawe_inflow.h */
    struct rawe_inflow_shared *inflow_shared; /**< on this host; NULL: with no process */
    unsigned inflow_index;                    /**< of this process in it */
    const struct rawe_cc_type *congestion;    /**< NULL: the default */
    uint32_t link_mbps;                       /**< rate of the interface's link; 0: not known */
    /** Memory that peers may access, by any interface: shared by the process's engines. */
    struct rawe_handle_table *handles;
    /** Connections by id, of all engines of the process (rawe_route.h). NULL: an own table. */
    struct rawe_conn_table *table;
    /** What waits for the owner's return: shared as the table is. NULL: its own. */
    struct rawe_deferral *deferral;
    uint64_t rest_ns;   /**< a connection idle for this time, or up to twice, rests; 0: never */
    uint64_t streak_ns; /**< messages this close make a streak, see rawe_peer.c; 0: none do */
    /** The current time: read for batches, and for a copied message when its frame is on its way. */
    uint64_t (*clock_ns)(void *context);
    /** The clock of rawe_engine_arriving. NULL: when frames arrive is not known. */
    uint64_t (*arrival_clock_ns)(void *context);
    void *clock_context;     /**< of both */
    uint32_t first_sequence; /**< 0, or where tests want numbers to begin */
    uint32_t overtaken_most; /**< 0: RAWE_ORDER_MOST, or less for tests */
};

/** How batches of the bulk lane are sent and received: what the link says of it. */
struct rawe_batches {
    struct rawe_batch_output output; /**< transmit is NULL where there is none */
    uint32_t bytes_max;              /**< data of one batch; 0: there are none */
    uint32_t overhead_bytes;         /**< what the link puts in front of the batch header */
    uint32_t receive_frames;         /**< how many frames our own receive queue holds */
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
    struct rawe_deferral *deferral; /**< the process's, or our own */
    struct rawe_deferral own_deferral;
    struct rawe_operation_table operations; /**< ours under way */
    struct rawe_link waiting;               /**< long GETs of ours, see rawe_peer_operate */
    struct rawe_line line;                  /**< its rate, by what arrives */
    struct rawe_inflow inflow;              /**< what they may have asked for */
    struct rawe_serving serving;            /**< those of peers */
    enum rawe_refusal put_refusal;          /**< of the first PUT that was refused */
    bool finalizing;                        /**< see rawe_engine_finalizing */
    bool no_carrier;                        /**< its interface has none: see rawe_failover.h */
    struct rawe_conn_table *table;          /**< the process's, or our own */
    struct rawe_conn_table own_table;
    uint32_t connections; /**< of ours in the table */
    struct rawe_credit credit;
    struct rawe_grants grants;
    uint64_t now_ns;       /**< newest time given */
    uint64_t link_free_ns; /**< when our link will have sent all batches, by its rate */
    uint64_t arrived_ns;   /**< when what is received arrived, by arrival_clock_ns; 0: not known */
    uint64_t incarnation;  /**< of the connection opened last */
    /** Connections with an acknowledgement or frames to send, oldest first. */
    struct rawe_link pending;
    /** The rest of the list that rawe_engine_flush works on. */
    struct rawe_link flushing;
    bool link_full;    /**< `output` has refused a frame since the last flush began */
    bool batches_full; /**< the same for `batches.output` */
    /** Connections that have owed a delayed acknowledgement, that of the earliest deadline first. */
    struct rawe_link owing;
    struct rawe_timer owing_timer; /**< expires by its deadline */
    /** Connections that are not at rest, in the order in which they are looked at next. */
    struct rawe_link awake;
    uint64_t check_ns;         /**< when the first is to be looked at, or before */
    uint64_t probes_passed_on; /**< PROBEs received for connections of other engines */
};

/** What the owner's clock shows. */
static inline uint64_t rawe_engine_clock_ns(const struct rawe_engine *engine)
{
    return engine->config.clock_ns(engine->config.clock_context);
}

/** Time never goes back, even after a callback: a later frame must not look older, and lost. */
static inline uint64_t rawe_engine_time(struct rawe_engine *engine, uint64_t now_ns)
{
    engine->now_ns = now_ns > engine->now_ns ? now_ns : engine->now_ns;
    return engine->now_ns;
}

/**
 * A turn transmits no more than one batch after that time. Where a system call takes as long as the
 * wire does, the link is never full, and each acknowledgement that comes meanwhile makes room for more:
 * for up to 9 ms nothing else was received, and the other direction's data waited.
 */
#define RAWE_TURN_NS 200000u

static inline bool rawe_engine_turn_is_long(const struct rawe_engine *engine)
{
    return rawe_engine_clock_ns(engine) - engine->now_ns > RAWE_TURN_NS;
}

/** What a frame takes of the link beside its payload: headers, check sequence, gap. */
#define RAWE_FRAME_WIRE_BYTES 62u

/** What a frame of a batch takes of the link beside its data: headers, check sequence, gap. */
#define RAWE_BATCH_WIRE_BYTES 118u

/** The time that our link takes for a frame of a batch; 0: its rate is not known. */
static inline uint32_t rawe_engine_frame_ns(const struct rawe_engine *engine, uint32_t data_bytes)
{
    uint32_t mbps = engine->config.link_mbps;
    return mbps == 0 ? 0 : (data_bytes + RAWE_BATCH_WIRE_BYTES) * 8000u / mbps;
}

/** Batches do not wait as long (rawe_txqueue.h): if they seem to, the link is faster than it reports. */
#define RAWE_LINK_BUSY_MOST_NS 10000000u

/** A batch is transmitted at `now_ns`. Returns when our link, by its rate, is free for it. */
static inline uint64_t rawe_engine_use_link(struct rawe_engine *engine, uint32_t frames,
                                            uint32_t data_bytes, uint64_t now_ns)
{
    uint64_t begin_ns = now_ns > engine->link_free_ns ? now_ns : engine->link_free_ns;
    begin_ns = begin_ns - now_ns < RAWE_LINK_BUSY_MOST_NS ? begin_ns : now_ns;
    engine->link_free_ns = begin_ns + (uint64_t)frames * rawe_engine_frame_ns(engine, data_bytes);
    return begin_ns;
}

/** When the frame being received arrived at this host. */
static inline uint64_t rawe_engine_arrival_ns(const struct rawe_engine *engine)
{
    if (engine->config.arrival_clock_ns == NULL || engine->arrived_ns == 0) {
        return engine->now_ns;
    }
    uint64_t now_ns = engine->config.arrival_clock_ns(engine->config.clock_context);
    uint64_t waited_ns = now_ns > engine->arrived_ns ? now_ns - engine->arrived_ns : 0;
    return rawe_engine_clock_ns(engine) - waited_ns;
}

/** Does this connection send batches? */
enum rawe_batch_state {
    RAWE_BATCH_UNVALIDATED, /**< not yet, or the link cannot */
    RAWE_BATCH_VALIDATING,  /**< validation frames are under way, all else waits */
    RAWE_BATCH_VALID,
    RAWE_BATCH_INVALID,  /**< they do not pass: plain frames */
    RAWE_BATCH_MIGRATED, /**< another route: plain frames, nothing new before it can be validated */
};

/** What is known of a connection's end, by MPI_Finalize or by the peer: see rawe_conn_finalize.h. */
struct rawe_conn_finalize {
    uint32_t announced_from; /**< probes with this number or a later one say that we finalize */
    bool announced;          /**< the peer has answered one of them */
    bool peer;               /**< the peer has said that it finalizes */
    bool lost;               /**< the peer has ended it before it had all, and did not finalize */
    bool report_loss;        /**< to the owner, when it is back */
    bool given_up;           /**< the peer has ended it because it has given us up */
    bool heard;              /**< the peer was, since rawe_conn_finalized was called */
    uint32_t una;            /**< oldest frame in the window then */
    uint64_t asked_ns;       /**< when that was */
    uint64_t silent_ns;      /**< how long the peer has not been heard, as far as we ran... */
    uint64_t stuck_ns;       /**< ... and nothing has been acknowledged */
    uint64_t disowned_ns;    /**< since then the peer says that it has ended it; 0: it does not */
};

/**
 * A connection. A comment above each part names the module that writes it (test/lint); rawe_conn.c
 * puts back what was kept at rest.
 */
struct rawe_conn {
    /* rawe_conn.c: what never changes */
    struct rawe_engine *engine;
    void *owner; /**< the caller's */
    struct rawe_peer *peer;
    uint8_t lane; /**< enum rawe_lane */

    /* rawe_conn.c */
    struct rawe_order_member ordered; /**< among those to the process */

    /* rawe_conn.c: has it been idle? */
    struct rawe_link awake; /**< in the engine's list */
    uint64_t check_ns;      /**< when to look at it next */
    uint32_t checked_sent;  /**< its next sequence number at the last look... */
    uint32_t checked_taken; /**< ... and the peer's */

    /* rawe_conn_path.c: where its frames go */
    uint8_t eth_header[RAWE_ETH_HEADER_BYTES];
    uint16_t peer_port;
    uint32_t peer_key;
    uint32_t payload_max_bytes;    /**< what both ends accept and the path carries */
    uint32_t accepted_max_bytes;   /**< the same, whatever the path carries */
    struct rawe_engine *via;       /**< whose port its frames take */
    struct rawe_engine *into;      /**< whose port the peer's frames take */
    struct rawe_engine *predicted; /**< both, on the preferred route; elsewhere NULL */
    struct rawe_route *preferred;
    struct rawe_route *route; /**< the one used */
    struct rawe_route *back;  /**< the one that the peer uses: answers go there */
    uint64_t route_since_ns;  /**< `route` is used since then */

    /* rawe_conn_control.c: its turn in a round, and what the peer lets it send */
    struct rawe_link pending;  /**< in one of the engine's lists of pending ones, or none */
    bool wants_credit;         /**< something could not be sent for lack of it */
    bool reported_more;        /**< the newest frame has told that there is more to send */
    uint8_t credit_refusals;   /**< answers that there is none, since something was acknowledged */
    uint32_t peer_credit;      /**< 0: nothing may be sent until the peer says otherwise */
    uint64_t credit_wanted_ns; /**< since then there was none, and something to be sent */
    uint64_t no_credit_ns;     /**< when the peer last refused what had come; 0: it never did */
    struct rawe_link owing;    /**< in the engine's list, or not */
    uint32_t ack_requested;    /**< an acknowledgement was asked for with frames before this */

    /* rawe_conn_batch.c: do batches pass? */
    uint8_t batch;             /**< enum rawe_batch_state */
    uint8_t batch_failures;    /**< how often batches were found not to pass */
    uint8_t batches_lost;      /**< in a row, whole, twice */
    uint64_t batch_verdict_ns; /**< when they were found to pass, or not to */
    uint64_t plain_since_ns;   /**< since then... */
    uint32_t plain_answers;    /**< ... this many probes in a row had a plain answer only */
    uint32_t slices_of;        /**< frame that the link has taken a part of, by its number... */
    uint16_t slices_bytes;     /**< ... and how much; 0: none */

    /* rawe_conn_finalize.c: its end */
    struct rawe_conn_finalize finalize;

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
    struct rawe_reassembly reassembly;
    struct rawe_sliced *sliced;       /**< a frame that comes in slices; allocated with the first */
    struct rawe_credit_member credit; /**< its part in what we advertise */
    struct rawe_grants_member grant;  /**< ... while several peers have more to send */
    struct rawe_timer timer;          /**< earliest of the deadlines */
};

/** What is kept of an idle connection, which is on its preferred route, and owes nothing. */
struct rawe_rest {
    struct rawe_peer *peer;
    void *owner;
    struct rawe_handshake handshake;
    struct rawe_rtt rtt;
    struct rawe_credit_member credit;
    uint64_t batch_verdict_ns;
    uint32_t next_sequence, next_message; /**< to be sent */
    uint32_t expected, expected_message;  /**< of the peer */
    uint32_t accepted_max_bytes;
    uint32_t peer_credit;
    uint32_t probe_number;
    uint32_t rate_mbps;
    uint8_t batch, batch_failures;
    uint8_t lane;
    bool peer_finalizes;
};

/** Nothing is queued or in the window. */
static inline bool rawe_conn_idle(const struct rawe_conn *conn)
{
    return conn->queue.first == NULL && rawe_sendwin_empty(&conn->sendwin);
}

/** May a message complete before it is sent? Only where it leaves without the owner. */
static inline bool rawe_conn_may_hold_back(const struct rawe_conn *conn)
{
    return conn->engine->config.coalesce_from_frames != 0;
}

/** Longest message that goes into one frame. */
static inline uint32_t rawe_conn_frame_message_bytes(const struct rawe_conn *conn)
{
    return conn->payload_max_bytes - RAWE_FRAGMENT_MESSAGE_BYTES;
}

/** Can a record with `len_bytes` of data be copied into one frame? */
static inline bool rawe_conn_copies_record(const struct rawe_conn *conn, uint64_t len_bytes)
{
    return len_bytes <= conn->engine->config.copy_max_bytes &&
           len_bytes <= conn->payload_max_bytes - RAWE_FRAGMENT_PUT_BYTES;
}

#endif
