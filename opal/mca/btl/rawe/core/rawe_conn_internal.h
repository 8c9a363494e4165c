/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the files of a connection and the engine share, from the bottom up: each file calls only
 * those above its own in this list.
 */
#ifndef RAWE_CONN_INTERNAL_H
#define RAWE_CONN_INTERNAL_H

#include "rawe_conn.h"

/** Payload of a received frame: all of it at `head`, or, when `data` is set, the data there. */
struct rawe_payload {
    const uint8_t *head;
    size_t head_bytes;
    const uint8_t *data;
};

/** Number of a probe whose answer is no evidence, as it does not travel with the data. */
#define RAWE_PROBE_PLAIN 0u

/* rawe_conn_control.c: headers, control frames, deadlines */

/** Have rawe_conn_flush called at the end of the round or at the next progress. */
void rawe_conn_make_pending(struct rawe_conn *conn);
/** Take a connection that ends out of the lists of those. */
void rawe_conn_unlink_pending(struct rawe_conn *conn);
/** True when frames of this connection go out as batches. */
static inline bool rawe_conn_batch_used(const struct rawe_conn *conn)
{
    return conn->batch == RAWE_BATCH_VALID || conn->batch == RAWE_BATCH_VALIDATING;
}
/** Whether the link has refused data frames of this kind since the last flush began. */
static inline bool *rawe_conn_link_full(struct rawe_conn *conn)
{
    struct rawe_engine *engine = conn->engine;
    return rawe_conn_batch_used(conn) ? &engine->batches_full : &engine->link_full;
}
/**
 * The link is full: go on with the next flush. A connection that has transmitted something goes
 * behind those that have not had their turn in this one. A link that never takes a frame again is
 * noticed as silence of the peer, which is timed from here on.
 */
void rawe_conn_put_off(struct rawe_conn *conn, bool transmitted, uint64_t now_ns);
/** The link has refused a data frame. Other connections need not try it before the next flush. */
void rawe_conn_refused(struct rawe_conn *conn, bool transmitted, uint64_t now_ns);
/** Make sure that the timer expires by the earliest deadline. */
void rawe_conn_arm(struct rawe_conn *conn);
/** Owe an acknowledgement: at once, or when enough frames have come, or after the delay. */
void rawe_conn_owe_ack(struct rawe_conn *conn, bool at_once, uint64_t now_ns);
/** Fill in the headers of a frame as of now: acknowledgement, credit, flags. */
void rawe_conn_write_header(struct rawe_conn *conn, struct rawe_txframe *frame);
/** A frame as the link wants it. */
static inline void rawe_conn_view(const struct rawe_conn *conn, struct rawe_txframe *frame,
                                  struct rawe_frame *view)
{
    view->pieces[0] = (struct rawe_bytes){frame->buffer, frame->buffer_bytes};
    view->piece_count = 1 + frame->external_count;
    for (uint32_t i = 0; i < frame->external_count; i++) {
        view->pieces[1 + i] = frame->external[i];
    }
    view->len_bytes = RAWE_PAYLOAD_OFFSET + frame->payload_bytes;
    if (conn->engine->config.checksum) {
        view->pieces[view->piece_count++] =
            (struct rawe_bytes){frame->checksum, RAWE_CHECKSUM_BYTES};
        view->len_bytes += RAWE_CHECKSUM_BYTES;
    }
}
/** Send a frame without payload or with a small one, outside the window. False: link is full. */
bool rawe_conn_transmit_control(struct rawe_conn *conn, uint8_t type, uint8_t flags,
                                uint32_t sequence, const uint8_t *payload, size_t payload_bytes);
/** Frames have been transmitted: plan when to ask about them. */
void rawe_conn_await_ack(struct rawe_conn *conn, uint64_t now_ns);
/** There is something to send but no credit: ask for it, at once if that was not done just now. */
void rawe_conn_ask_credit(struct rawe_conn *conn, uint64_t now_ns);
/** Something has been acknowledged: plan anew when to ask about the rest. */
void rawe_conn_expect_ack(struct rawe_conn *conn, uint64_t now_ns);

/* rawe_conn_slice.c: frames that the path does not carry whole any more */

/** Transmit a frame of the window in slices. False: some are missing, for want of room or memory. */
bool rawe_conn_transmit_slices(struct rawe_conn *conn, struct rawe_txframe *frame);
/**
 * Take a SLICE, whose payload is untrusted. When it completes a frame, `header` becomes that
 * frame's and its payload is returned, valid until the next call; else NULL.
 */
const uint8_t *rawe_conn_take_slice(struct rawe_conn *conn, struct rawe_header *header,
                                    const uint8_t *payload);
/** Free what slices are put together in. */
void rawe_conn_drop_slices(struct rawe_conn *conn);

/* rawe_conn_life.c: completing sends; one life of the connection ends, the next begins */

/** Call `done` of a list of sends. They may send again, hence nothing may be half changed here. */
void rawe_conn_complete(struct rawe_engine *engine, struct rawe_send *list,
                        enum rawe_status status);
/** Give a frame that has left the window back; returns its send if that is complete, else NULL. */
struct rawe_send *rawe_conn_release(struct rawe_conn *conn, struct rawe_txframe *frame);
/**
 * Empty the send window, and the queue too if asked for. Returns the sends that were under way, for
 * rawe_conn_complete once the connection is in its new state.
 */
struct rawe_send *rawe_conn_abandon(struct rawe_conn *conn, bool queue_too);
/**
 * Release the frames of the window before `acknowledgement`, which is in it or one behind. Returns
 * the sends that are complete by it, for rawe_conn_complete.
 */
struct rawe_send *rawe_conn_release_before(struct rawe_conn *conn, uint32_t acknowledgement);
/**
 * Complete what rawe_conn_abandon has returned because the peer has ended the connection;
 * `data_lost`: it has not acknowledged all that was sent.
 */
void rawe_conn_complete_ended(struct rawe_conn *conn, struct rawe_send *abandoned, bool data_lost);
/** Sending and receiving state of a connection on which nothing has been sent yet. */
void rawe_conn_reset(struct rawe_conn *conn);
/** Begin a new life under a new id. The window must be empty. */
void rawe_conn_renew(struct rawe_conn *conn);

/* rawe_conn_connect.c: asking for a connection, and answering */

/** Send a tail-loss probe. False: link is full. */
bool rawe_conn_send_probe(struct rawe_conn *conn);
/** Ask the peer for a connection, for the first time or again. */
void rawe_conn_send_connect(struct rawe_conn *conn);
/** Begin asking the peer for a connection. */
void rawe_conn_connect(struct rawe_conn *conn, uint64_t now_ns);
/** A CONNECT frame for this connection. */
void rawe_conn_receive_connect(struct rawe_conn *conn, const struct rawe_connect *from, bool reply,
                               uint64_t now_ns);

/* rawe_conn_coalesce.c: short messages that share a frame */

/** A frame with one message, `more` to come. NULL without a free frame. */
struct rawe_txframe *rawe_conn_coalesce_new(struct rawe_conn *conn, uint8_t tag, const void *first,
                                            size_t first_bytes, const void *second,
                                            size_t second_bytes, bool more);
/** Should a message of this length be held back for others to join it? */
bool rawe_conn_coalesce_wanted(const struct rawe_conn *conn, size_t data_bytes);
/** Is there room for one more in a frame that was made for `more`? */
bool rawe_conn_coalesce_fits(const struct rawe_conn *conn, const struct rawe_txframe *frame,
                             size_t data_bytes);
/** Add a whole queued message to such a frame; it fits. */
void rawe_conn_coalesce_add(struct rawe_txframe *frame, const struct rawe_send *send);

/* rawe_conn_frame.c: from queued sends to frames in the window */

/** Payload of the frames that are made now: less where they travel in an envelope. */
static inline uint32_t rawe_conn_payload_limit(const struct rawe_conn *conn)
{
    uint32_t bytes = conn->payload_max_bytes;
    return conn->batch == RAWE_BATCH_VALID ? (bytes - conn->engine->batches.overhead_bytes) & ~7u
                                           : bytes;
}
/** Is a frame of the window too long for the path? */
static inline bool rawe_conn_needs_slices(const struct rawe_conn *conn,
                                          const struct rawe_txframe *frame)
{
    return frame->payload_bytes > rawe_conn_payload_limit(conn);
}
/** Every number of the window is in use. */
static inline bool rawe_conn_window_full(const struct rawe_conn *conn)
{
    uint32_t used = rawe_sendwin_used(&conn->sendwin) + (conn->coalescing != NULL ? 1 : 0);
    return used > conn->sendwin.mask;
}
/** Frames that may be in flight: what the network bears, and what the peer takes. */
static inline uint32_t rawe_conn_in_flight_limit(const struct rawe_conn *conn)
{
    return conn->cc.window < conn->peer_credit ? conn->cc.window : conn->peer_credit;
}
/** How many more frames may go into flight now. */
static inline uint32_t rawe_conn_window_room(const struct rawe_conn *conn)
{
    uint32_t allowed = rawe_conn_in_flight_limit(conn);
    uint32_t in_flight = conn->sendwin.in_flight;
    return in_flight < allowed ? allowed - in_flight : 0;
}
/** Give a frame the next sequence number; it is WAITING until the link has taken it. */
void rawe_conn_enter_window(struct rawe_conn *conn, struct rawe_txframe *frame);
/**
 * Put the next bytes of the oldest queued send into a new frame of the window. NULL when there
 * is nothing to frame, or not now. Sends that are complete because all of them was copied are
 * appended to the list that ends at `*copied_tail`.
 */
struct rawe_txframe *rawe_conn_frame_next(struct rawe_conn *conn, struct rawe_send ***copied_tail);
/**
 * The frame behind `before`, which carries the same send's bytes in the same way, made by copying
 * headers that were written in the same turn. NULL: not like that, or not now; then
 * rawe_conn_frame_next is to be used.
 */
struct rawe_txframe *rawe_conn_frame_from_template(struct rawe_conn *conn,
                                                   const struct rawe_txframe *before);

/* rawe_conn_batch.c: do batches pass, and sending them */

/** Put validation frames into the empty window, when this connection has still to find out. */
void rawe_conn_batch_validate(struct rawe_conn *conn);
/** Some or all of them have been acknowledged (`lost` is NULL), or one of them found lost. */
void rawe_conn_batch_conclude(struct rawe_conn *conn, const struct rawe_txframe *lost);
/** Transmit frames as batches, as far as they are such. Returns how many were taken. */
unsigned rawe_conn_batch_transmit(struct rawe_conn *conn, struct rawe_txframe *const *frames,
                                  const struct rawe_frame *views, unsigned count);

/* rawe_conn_output.c: frames to the link */

/** The link has taken a frame of the window. */
static inline void rawe_conn_sent(struct rawe_conn *conn, struct rawe_txframe *frame,
                                  uint64_t now_ns)
{
    if (frame->sendings == 0) {
        conn->engine->counters.frames_sent++;
    } else {
        conn->engine->counters.frames_resent++;
        rawe_reorder_resent(&conn->reorder);
    }
    /* A callback may have given a later time since; what leaves later must not look older. */
    uint64_t newest_ns = conn->engine->now_ns;
    rawe_sendwin_sent(&conn->sendwin, frame, now_ns > newest_ns ? now_ns : newest_ns);
}
/** Frame and transmit what window, credit and link allow; not `all`: as far as batches fill. */
void rawe_conn_output_some(struct rawe_conn *conn, bool all, uint64_t now_ns);
/** Frame and transmit what window, credit and link allow. */
static inline void rawe_conn_output(struct rawe_conn *conn, uint64_t now_ns)
{
    rawe_conn_output_some(conn, true, now_ns);
}

/* rawe_conn_send.c */

/** Send the frame that is held back, if any. */
void rawe_conn_coalesce_flush(struct rawe_conn *conn, uint64_t now_ns);

/* rawe_conn_ack.c */

/** Acknowledgement fields of a frame, not beyond `next` (SACK bitmap may be empty). */
void rawe_conn_acknowledged(struct rawe_conn *conn, const struct rawe_header *header,
                            const uint8_t *sack, size_t sack_bytes, uint64_t now_ns);
/** Look for frames whose reordering window has passed. */
void rawe_conn_detect_losses(struct rawe_conn *conn, uint64_t now_ns);

/* rawe_conn_inplace.c: messages delivered from the buffer their batch was received into */

/**
 * The engine's buffer for a batch with several messages, free for the next one. NULL without
 * memory.
 */
uint8_t *rawe_conn_inplace_buffer(struct rawe_engine *engine);
/**
 * Take a fragment whose data lies in that buffer. True when it is dealt with, and `whole` says
 * whether the message it belongs to is complete now: deliver engine->inplace.data then.
 */
bool rawe_conn_inplace_add(struct rawe_conn *conn, const struct rawe_fragment *fragment,
                           bool *whole);
/** Spill: move the message that lies in the buffer in part to one of its own. False: no memory. */
bool rawe_conn_inplace_spill(struct rawe_engine *engine);

/* rawe_conn_receive.c: frames to messages and placed data */

/** Have a reassembly table. False without memory. */
bool rawe_conn_expect_fragments(struct rawe_conn *conn);
/** Deliver a message. */
void rawe_conn_deliver(struct rawe_conn *conn, uint8_t tag, const uint8_t *data, size_t len_bytes);
/** Deliver the fragments of a MESSAGE frame, one after the other. */
void rawe_conn_deliver_messages(struct rawe_conn *conn, const uint8_t *payload, const uint8_t *end);
/** Deliver the fragmented messages whose turn it is. */
void rawe_conn_deliver_fragmented(struct rawe_conn *conn);
/** Any frame but CONNECT for this connection, header decoded, payload in the frame. */
void rawe_conn_receive(struct rawe_conn *conn, const struct rawe_header *header,
                       const struct rawe_payload *payload, uint64_t now_ns);

/* rawe_conn.c */

/** Send acknowledgement and frames put off; called by rawe_engine_flush. */
void rawe_conn_flush(struct rawe_conn *conn, uint64_t now_ns);

#endif
