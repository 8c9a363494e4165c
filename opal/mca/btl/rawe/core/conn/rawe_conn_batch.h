/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Batches: do they pass, and sending them.
 */
#ifndef RAWE_CONN_BATCH_H
#define RAWE_CONN_BATCH_H

#include "rawe_conn_state.h"

/** Data that each frame of a batch carries on this connection. */
uint32_t rawe_conn_segment_bytes(const struct rawe_conn *conn);
/** Frames that fill a batch. */
uint32_t rawe_conn_batch_frames(const struct rawe_conn *conn);
/** Data of the next batch at most: as many frames as window and numbers allow now, at least one. */
uint32_t rawe_conn_batch_room_bytes(const struct rawe_conn *conn);
/**
 * Data of the next batch of a send with `left` bytes to go: `even` shares, or as much as fits.
 * While one batch is handed to the link the receiver copies the one before: best when they are
 * alike.
 */
uint32_t rawe_conn_batch_data_bytes(const struct rawe_conn *conn, uint64_t left, uint32_t room,
                                    bool even);
/**
 * Would the window cut a batch short? An acknowledgement will make room for all of it: short
 * batches cost as much as whole ones (TCP's silly window syndrome, RFC 1122 section 4.2.3.4).
 */
bool rawe_conn_batch_cut_short(const struct rawe_conn *conn, uint32_t room);
/** Write the fragment's header into a frame that is to be a batch of its data. */
void rawe_conn_batch_describe(struct rawe_conn *conn, struct rawe_txframe *frame,
                              const struct rawe_fragment *fragment);
/** Another life of the connection begins: whether batches pass is to be found out. */
void rawe_conn_batch_reset(struct rawe_conn *conn);
/** Validation, if it is under way, will not be answered. */
void rawe_conn_batch_cancel(struct rawe_conn *conn);
/** A plain probe was answered, and nothing new was acknowledged: do batches still pass? */
void rawe_conn_batch_unheard(struct rawe_conn *conn, uint64_t now_ns);
/** Something that was sent like batches has arrived. */
static inline void rawe_conn_batch_heard(struct rawe_conn *conn)
{
    conn->plain_answers = 0;
}
/** A frame of the window has arrived whole; it is about to be released. */
static inline void rawe_conn_batch_arrived(struct rawe_conn *conn, const struct rawe_txframe *frame)
{
    if (frame->segments != 1 && frame->resent == 0) {
        conn->batches_lost = 0;
    }
}
/** The route has changed: validate batches again, as soon as the window is empty. */
void rawe_conn_batch_move(struct rawe_conn *conn);
/** Content of validation frames, RAWE_BATCH_BYTES_MAX: what is sent, and must arrive. */
const uint8_t *rawe_conn_batch_pattern(void);
/** Put validation frames into the empty window, when this connection has still to find out. */
void rawe_conn_batch_validate(struct rawe_conn *conn);
/** Put a frame of next to no data into the empty window: it tells MORE, where one frame may go. */
void rawe_conn_batch_announce(struct rawe_conn *conn);
/** Must new frames wait, as validation is under way, or comes when the window is empty? */
bool rawe_conn_batch_awaits_validation(const struct rawe_conn *conn);
/** Some or all of them have been acknowledged (`lost` is NULL), or one of them found lost. */
void rawe_conn_batch_conclude(struct rawe_conn *conn, const struct rawe_txframe *lost);
/** Transmit what is due of a batch, `room` frames at most. False: the link has refused some. */
bool rawe_conn_batch_transmit(struct rawe_conn *conn, struct rawe_txframe *frame, uint32_t room,
                              uint64_t now_ns);

/* ---- frames that the path no longer carries whole ---- */

/** Must the frame go in another form, as the path carries less since, or no batches? */
static inline bool rawe_conn_needs_slices(const struct rawe_conn *conn,
                                          const struct rawe_txframe *frame)
{
    return frame->segment_bytes == 0
               ? frame->payload_bytes > conn->payload_max_bytes
               : conn->batch == RAWE_BATCH_INVALID || conn->batch == RAWE_BATCH_MIGRATED ||
                     frame->segment_bytes > rawe_conn_segment_bytes(conn);
}
/** Transmit `room` frames of it, plain or in slices. False: the link is full, or no memory. */
bool rawe_conn_transmit_slices(struct rawe_conn *conn, struct rawe_txframe *frame, uint32_t room,
                               uint64_t now_ns);

/* ---- bundles: short queued messages travel as one ---- */

/** Buffers for bundles; all given back when the connections' sends are complete. */
void rawe_conn_bundle_pool_init(struct rawe_buffer_pool *pool);

/** Longest message in a bundle: one with fewer than three is not worth it. */
#define RAWE_CONN_BUNDLED_BYTES_MAX (RAWE_BATCH_BYTES_MAX / 3)

/**
 * Replace the short messages at the head of the queue, as far as they fit `bytes_max`, by one
 * bundle. They complete when it is transmitted. Not for a single message, nor without memory.
 */
void rawe_conn_bundle(struct rawe_conn *conn, uint32_t bytes_max);

#endif
