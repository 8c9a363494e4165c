/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A connection: reliable transport of messages and PUT data to one peer, exactly once; in order
 * only among messages in segments.
 *
 *   IDLE ──send, or CONNECT from peer──> CONNECTING ──reply──> OPEN ──CLOSE──> PEER_CLOSED
 *                                            │                   │                  │
 *                                            └─> FAILED <─silence┘  send: CONNECTING <┘
 *
 * Each side asks for itself: only a reply to its own CONNECT tells it the peer's connection id.
 * A reply carries the asker's connection id, whose generation proves that it is not a late one.
 *
 * Send window:
 *
 *      una                          next        una + window
 *   ....|SACKED SENT LOST SENT ......|............|
 *  acked                              not used yet
 */
#ifndef RAWE_CONN_H
#define RAWE_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rawe_acktr.h"
#include "rawe_cc.h"
#include "rawe_engine.h"
#include "rawe_rtt.h"

enum rawe_conn_state {
    RAWE_CONN_IDLE,        /**< known, never used: no window allocated */
    RAWE_CONN_CONNECTING,  /**< asked the peer for its connection id */
    RAWE_CONN_OPEN,
    RAWE_CONN_PEER_CLOSED, /**< the peer ended it in good order */
    RAWE_CONN_FAILED,      /**< the peer was silent for too long */
};

/** Result of an operation, for the one who asked for it. */
enum rawe_status {
    RAWE_STATUS_DONE = 0,
    RAWE_STATUS_FAILED = -1, /**< connection failed or closed before the peer had it all */
    RAWE_STATUS_BUSY = -2,   /**< no room at the moment; nothing was taken */
};

/** Something to send that stays in the caller's memory. The caller owns it until `done`. */
struct rawe_send {
    struct rawe_send *next;
    /** The peer has it all, or (status) never will. May be called before the send call returns. */
    void (*done)(struct rawe_send *send, enum rawe_status status);
    /**
     * All of it has left (or is in a frame) but it is not acknowledged yet; NULL: do not tell. Not
     * called when `done` comes first, nor while the engine is away (see rawe_engine_defer_begin).
     */
    void (*transmitted)(struct rawe_send *send, struct rawe_conn *conn);
    struct rawe_bytes pieces[2];
    uint8_t piece_count;
    uint8_t kind; /**< RAWE_FRAGMENT_MESSAGE or RAWE_FRAGMENT_PUT */
    uint8_t tag;  /**< MESSAGE */
    bool relaxed; /**< nobody waits for `done`: its acknowledgement may ride on other frames */
    bool ordered; /**< MESSAGE: delivered in the order of sending among its like */
    uint32_t handle_index; /**< PUT */
    uint64_t handle_key;   /**< PUT */
    uint64_t offset;       /**< PUT: in the handle */
    /* the engine's */
    uint64_t total_bytes;
    uint64_t framed_bytes;   /**< how much has been put into frames */
    uint32_t frames;         /**< frames in the window that refer to it */
    uint32_t message_number; /**< valid when fragmented */
    bool fragmented;          /**< goes in PART fragments: too long for a frame, or ordered */
};

/** Probes whose answer is still understood; a power of two. */
#define RAWE_CONN_PROBES 8u

/** Does this connection send batches? */
enum rawe_batch_state {
    RAWE_BATCH_UNTRIED, /**< not yet, or the link has no way to */
    RAWE_BATCH_VALIDATING,  /**< validation frames are under way, all else waits */
    RAWE_BATCH_VALID,
    RAWE_BATCH_INVALID,     /**< they do not pass: plain frames */
};

/** Payload of a received frame: all of it at `head`, or, when `data` is set, the data there. */
struct rawe_payload {
    const uint8_t *head;
    size_t head_bytes;
    const uint8_t *data;
};

struct rawe_conn {
    struct rawe_engine *engine;
    void *owner; /**< the caller's */
    struct rawe_conn *next_pending;
    bool is_pending;
    uint8_t state; /**< enum rawe_conn_state */
    uint8_t lane;  /**< enum rawe_lane */

    /* addresses */
    uint8_t eth_header[RAWE_ETH_HEADER_BYTES];
    uint32_t local_id;
    uint32_t peer_id; /**< 0: not known yet */
    uint16_t peer_port;
    uint32_t peer_key;
    uint64_t local_incarnation;
    uint64_t peer_incarnation;
    uint32_t payload_max_bytes; /**< what fits both ends and the path */

    /* sending */
    struct rawe_txframe **slots; /**< window_frames of them, by sequence; allocated on first use */
    uint32_t una;                /**< oldest sequence number not acknowledged */
    uint32_t next;               /**< next sequence number */
    uint32_t in_flight;          /**< frames SENT */
    uint32_t to_transmit;        /**< frames WAITING or LOST */
    uint32_t transmit_from;      /**< no WAITING or LOST frame is before this one */
    uint32_t sacked;             /**< frames SACKED */
    uint32_t peer_credit;
    uint32_t ack_requested;      /**< an acknowledgement was asked for with frames before this */
    bool outputting;             /**< inside rawe_conn_output */
    uint8_t batch;               /**< enum rawe_batch_state */
    uint32_t validation_begin;        /**< first sequence number of the trial */
    uint32_t validation_end;          /**< one behind its last */
    uint32_t message_number;     /**< of the next fragmented message */
    uint32_t messages_open;      /**< oldest fragmented message number not completed */
    uint32_t queued_sends;       /**< how many are in `queue` */
    uint64_t messages_done;      /**< bitmap of completed ones from messages_open on */
    struct rawe_send *queue;     /**< not wholly framed yet, oldest first */
    struct rawe_send **queue_tail;
    uint64_t queued_bytes;       /**< of what is queued, not framed yet */
    struct rawe_txframe *unstamped; /**< sent just now, at a time that is told next */
    struct rawe_txframe *coalescing; /**< short messages gather here; not in the window yet */
    struct rawe_cc cc;
    struct rawe_rtt rtt;

    /* loss detection */
    uint64_t newest_delivered_ns; /**< when the newest frame known to have arrived was sent */
    uint32_t newest_delivered;    /**< its sequence number */
    uint64_t evidence_ns;         /**< when we learned of it */
    bool evidence_is_probe;       /**< the newest that arrived was a probe */
    uint64_t loss_deadline_ns;    /**< look for losses again then; 0: no need */
    uint64_t probe_deadline_ns;   /**< ask for an acknowledgement then; 0: nothing in flight */
    uint64_t probe_sent_ns[RAWE_CONN_PROBES]; /**< when the newest probes left, by number */
    uint64_t asked_ns;            /**< when we last asked or, with the link full, tried to */
    uint32_t probe_number;
    uint32_t probes_unanswered;   /**< since the peer was last heard */

    /* liveness */
    uint64_t silent_since_ns; /**< when the first unanswered probe was sent */
    uint32_t stalled_una;      /**< oldest frame when a probe was sent last */
    uint64_t stalled_since_ns; /**< it does not arrive, however often it is sent, since then; 0:
                                    not asked yet */

    /* receiving */
    struct rawe_acktr *acktr; /**< allocated when the connection opens */
    struct rawe_reassembly *reassembly; /**< allocated with the first segment */
    uint32_t unacked_frames;  /**< taken since we last acknowledged */
    bool ack_now;             /**< at the end of this round */
    bool answer_probe;
    uint32_t answer_number;
    uint64_t ack_deadline_ns; /**< 0: nothing to acknowledge */
    uint32_t receive_epoch;   /**< last epoch of the engine in which data came */

    struct rawe_timer timer;  /**< earliest of the deadlines */
};

/** Where a peer is, and who. */
struct rawe_conn_config {
    uint8_t peer_mac[RAWE_MAC_BYTES];
    uint16_t peer_port;
    uint32_t peer_key;
    uint32_t payload_max_bytes; /**< what the path to it carries */
    uint8_t lane;
    void *owner;
};

/** A new connection, IDLE; nothing is sent. NULL without memory. */
struct rawe_conn *rawe_conn_open(struct rawe_engine *engine, const struct rawe_conn_config *config);

/**
 * Tell the peer, complete what is left with RAWE_STATUS_FAILED, free all. To lose nothing, wait for
 * rawe_conn_drained first.
 */
void rawe_conn_close(struct rawe_conn *conn, uint64_t now_ns);

/** True when the peer has acknowledged everything, or will not any more. */
bool rawe_conn_drained(const struct rawe_conn *conn);

/** Longest message that goes into one frame. */
static inline uint32_t rawe_conn_frame_message_bytes(const struct rawe_conn *conn)
{
    return conn->payload_max_bytes - RAWE_FRAGMENT_MESSAGE_BYTES;
}

/**
 * Send a message of at most copy_max_bytes (and one frame) by copying the two pieces.
 * RAWE_STATUS_DONE: taken. RAWE_STATUS_BUSY: no room now, use rawe_conn_send. RAWE_STATUS_FAILED:
 * connection has failed.
 */
enum rawe_status rawe_conn_send_copy(struct rawe_conn *conn, uint8_t tag, const void *first,
                                     size_t first_bytes, const void *second, size_t second_bytes,
                                     uint64_t now_ns);

/** Time for rawe_conn_send_copy that will be told by rawe_conn_stamp. */
#define RAWE_TIME_LATER 0u

/** May the time of sending be told later? Then the clock need not be read before. */
static inline bool rawe_conn_stamps_later(const struct rawe_conn *conn)
{
    return conn->state == RAWE_CONN_OPEN && conn->coalescing == NULL;
}

/**
 * Tell when the frame was sent that the last rawe_conn_send_copy, called with RAWE_TIME_LATER, may
 * have sent; before any other call for the engine.
 */
void rawe_conn_stamp(struct rawe_conn *conn, uint64_t now_ns);

/**
 * The shortest way: let the message join others in a frame that is held back already. False when
 * there is none, or no room in it: use rawe_conn_send_copy. Needs no time.
 */
bool rawe_conn_coalesce(struct rawe_conn *conn, uint8_t tag, const void *first, size_t first_bytes,
                    const void *second, size_t second_bytes);

/** Send from the caller's memory; `done` is called in the end, whatever happens. */
void rawe_conn_send(struct rawe_conn *conn, struct rawe_send *send, uint64_t now_ns);

/**
 * The data of a send that is wholly framed has been copied: `copy` holds its pieces one behind the
 * other, and is what will be sent again if need be.
 */
void rawe_conn_send_rebased(struct rawe_conn *conn, struct rawe_send *send, uint8_t *copy);

/** The peer's responder answered at `alive_ns`: it is there, but not in MPI. */
void rawe_conn_alive(struct rawe_conn *conn, uint64_t alive_ns);

/** The path carries this payload only: from now on no frame that is made is longer. */
void rawe_conn_set_payload_max(struct rawe_conn *conn, uint32_t payload_max_bytes);

/* What the files of the connection and the engine share. */

/** Keep the messages of a frame for the owner who is away. False without memory. */
bool rawe_engine_defer(struct rawe_engine *engine, struct rawe_conn *conn, const uint8_t *payload,
                      size_t len_bytes);
/** Keep the fragmented messages whose turn it is. */
void rawe_engine_defer_fragmented(struct rawe_engine *engine, struct rawe_conn *conn);
/** Deliver a message. */
void rawe_conn_deliver(struct rawe_conn *conn, uint8_t tag, const uint8_t *data, size_t len_bytes);
/** Deliver the fragments of a MESSAGE frame, one after the other. */
void rawe_conn_deliver_messages(struct rawe_conn *conn, const uint8_t *payload,
                                const uint8_t *end);
/** Deliver the fragmented messages whose turn it is. */
void rawe_conn_deliver_fragmented(struct rawe_conn *conn);
/** Keep completed sends. */
void rawe_engine_defer_completion(struct rawe_engine *engine, struct rawe_send *list,
                              enum rawe_status status);
/** Throw away what is kept for a connection that ends. */
void rawe_engine_drop_deferred(struct rawe_engine *engine, const struct rawe_conn *conn);

/** A CONNECT frame for this connection. */
void rawe_conn_receive_connect(struct rawe_conn *conn, const struct rawe_connect *from, bool reply,
                               uint64_t now_ns);
/** Any other frame for this connection, header decoded, payload in the frame. */
void rawe_conn_receive(struct rawe_conn *conn, const struct rawe_header *header,
                       const struct rawe_payload *payload, uint64_t now_ns);
/** Acknowledgement fields of a frame, not beyond `next` (SACK bitmap may be empty). */
void rawe_conn_acknowledged(struct rawe_conn *conn, const struct rawe_header *header,
                            const uint8_t *sack, size_t sack_bytes, uint64_t now_ns);
/** Owe an acknowledgement: at once, or when enough frames have come, or after the delay. */
void rawe_conn_owe_ack(struct rawe_conn *conn, bool at_once, uint64_t now_ns);
/** Look for frames whose reordering window has passed. */
void rawe_conn_detect_losses(struct rawe_conn *conn, uint64_t now_ns);
/** Have a reassembly table. False without memory. */
bool rawe_conn_expect_fragments(struct rawe_conn *conn);
/** Credit that frames of this connection advertise. */
uint16_t rawe_conn_credit(const struct rawe_conn *conn);
/** Every number of the window is in use. */
bool rawe_conn_window_full(const struct rawe_conn *conn);

/** Payload of the frames that are made now: less where they travel in an envelope. */
static inline uint32_t rawe_conn_payload_limit(const struct rawe_conn *conn)
{
    uint32_t bytes = conn->payload_max_bytes;
    return conn->batch == RAWE_BATCH_VALID ? (bytes - conn->engine->batches.overhead_bytes) & ~7u
                                          : bytes;
}

/**
 * Put the next bytes of the oldest queued send into a new frame of the window. NULL when there
 * is nothing to frame, or not now. Sends that are complete because all of them was copied are
 * appended to the list that ends at `*copied_tail`.
 */
struct rawe_txframe *rawe_conn_frame_next(struct rawe_conn *conn, struct rawe_send ***copied_tail);

/**
 * The frame behind `before`, which carries the same send's bytes in the same way: made by copying
 * headers that were written in the same turn. NULL: not like that, or not now; then
 * rawe_conn_frame_next is to be used.
 */
struct rawe_txframe *rawe_conn_frame_from_template(struct rawe_conn *conn,
                                           const struct rawe_txframe *before);

/** Give a frame the next sequence number; it is WAITING until the link has taken it. */
void rawe_conn_enter_window(struct rawe_conn *conn, struct rawe_txframe *frame);
/** How many more frames may go into flight now. */
uint32_t rawe_conn_window_room(const struct rawe_conn *conn);
/** Put validation frames into the empty window, when this connection has still to find out. */
void rawe_conn_batch_validate(struct rawe_conn *conn);
/** Some or all of the trial has been acknowledged (`lost` is NULL), or a frame of it found lost. */
void rawe_conn_batch_conclude(struct rawe_conn *conn, const struct rawe_txframe *lost);
/** Transmit frames as batches, as far as they are such. Returns how many were taken. */
unsigned rawe_conn_batch_transmit(struct rawe_conn *conn, struct rawe_txframe *const *frames,
                                  const struct rawe_frame *views, unsigned count);
/**
 * The engine's buffer for a batch with several messages, free for the next one. NULL without
 * memory.
 */
uint8_t *rawe_conn_inplace_buffer(struct rawe_engine *engine);
/**
 * Take a segment whose data lies in that buffer. True when it is dealt with, and `whole` says
 * whether the message it belongs to is complete now: deliver engine->inplace.data then.
 */
bool rawe_conn_inplace_add(struct rawe_conn *conn, const struct rawe_fragment *fragment, bool *whole);
/** Move the message that lies in the buffer in part to one of its own. False without memory. */
bool rawe_conn_inplace_spill(struct rawe_engine *engine);
/** True when frames of this connection go out as batches. */
static inline bool rawe_conn_batch_used(const struct rawe_conn *conn)
{
    return conn->batch == RAWE_BATCH_VALID || conn->batch == RAWE_BATCH_VALIDATING;
}
/** Do so few messages of this length share a frame that they had better share a batch? */
bool rawe_conn_coalesce_poor(const struct rawe_conn *conn, size_t data_bytes);
/** Should a message of this length be held back for others to join it? */
bool rawe_conn_coalesce_wanted(const struct rawe_conn *conn, size_t data_bytes);
/** A frame with one message, `more` to come. NULL without a free frame. */
struct rawe_txframe *rawe_conn_coalesce_new(struct rawe_conn *conn, uint8_t tag, const void *first,
                                        size_t first_bytes, const void *second,
                                        size_t second_bytes, bool more);
/** Is there room for one more in a frame that was made for `more`? */
bool rawe_conn_coalesce_fits(const struct rawe_conn *conn, const struct rawe_txframe *frame,
                         size_t data_bytes);
/** Add a whole queued message to such a frame; it fits. */
void rawe_conn_coalesce_add(struct rawe_txframe *frame, const struct rawe_send *send);
/** Hold a frame back for more. */
void rawe_conn_coalesce_begin(struct rawe_conn *conn, struct rawe_txframe *frame);
/**
 * Put the frame that is held back, if any, into the window; the caller sees to its transmission.
 */
void rawe_conn_coalesce_end(struct rawe_conn *conn);
/** Send the frame that is held back, if any. */
void rawe_conn_coalesce_flush(struct rawe_conn *conn, uint64_t now_ns);
/** Throw it away. */
void rawe_conn_coalesce_drop(struct rawe_conn *conn);
/** Frame and transmit what window, credit and link allow. */
void rawe_conn_output(struct rawe_conn *conn, uint64_t now_ns);
/** Send acknowledgement and frames put off; called by rawe_engine_flush. */
void rawe_conn_flush(struct rawe_conn *conn, uint64_t now_ns);
/** Send a frame without payload or with a small one, outside the window. False: link is full. */
bool rawe_conn_transmit_control(struct rawe_conn *conn, uint8_t type, uint8_t flags,
                                uint32_t sequence, const uint8_t *payload, size_t payload_bytes);
/** Fill in the headers of a frame as of now: acknowledgement, credit, flags. */
void rawe_conn_write_header(const struct rawe_conn *conn, struct rawe_txframe *frame);
/** Have rawe_conn_flush called at the end of the round or at the next progress. */
void rawe_conn_make_pending(struct rawe_conn *conn);
/** Make sure that the timer expires by the earliest deadline. */
void rawe_conn_arm(struct rawe_conn *conn);
/**
 * Frames have been transmitted: set when to ask about them. A question due earlier is not put off
 * by that, or who keeps sending would never find out that the peer is dead (RFC 6298 5.1).
 */
void rawe_conn_await_ack(struct rawe_conn *conn, uint64_t now_ns);
/** Something has been acknowledged: set anew when to ask about the rest. */
void rawe_conn_expect_ack(struct rawe_conn *conn, uint64_t now_ns);
/** The peer was heard: silence is over. */
void rawe_conn_heard(struct rawe_conn *conn);
/** Release a frame of the window; returns its send when that is complete by this, else NULL. */
struct rawe_send *rawe_conn_release(struct rawe_conn *conn, uint32_t sequence);
/**
 * Empty the send window, and the queue too if asked for. Returns the sends that were under way, for
 * rawe_conn_complete once the connection is in its new state.
 */
struct rawe_send *rawe_conn_abandon(struct rawe_conn *conn, bool queue_too);
/** Call `done` of a list of sends. They may send again, hence nothing may be half changed here. */
void rawe_conn_complete(struct rawe_engine *engine, struct rawe_send *list,
                        enum rawe_status status);
/** Begin a new life under a new id: nothing sent, nothing received. The window must be empty. */
void rawe_conn_renew(struct rawe_conn *conn);
/** Begin asking the peer for a connection. */
void rawe_conn_connect(struct rawe_conn *conn, uint64_t now_ns);

#endif
