/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Batches: validating that they reach the peer, and sending them.
 */
#ifndef RAWE_CONN_BATCH_H
#define RAWE_CONN_BATCH_H

#include "rawe_conn_state.h"

/** Return how many data bytes each frame of a batch carries on this connection. */
uint32_t rawe_conn_segment_bytes(const struct rawe_conn *conn);
/** Return the number of frames in a full batch. */
uint32_t rawe_conn_batch_frames(const struct rawe_conn *conn);
/** Return the limit that window and free numbers set on the next batch; at least one frame. */
uint32_t rawe_conn_batch_room_bytes(const struct rawe_conn *conn);
/**
 * Return the data bytes for the next batch of a send with `left` bytes to go: an equal share if
 * `even`, otherwise as much as fits. The receiver copies one batch while the sender hands over the
 * next: the two overlap best when the batches are of equal size.
 */
uint32_t rawe_conn_batch_data_bytes(const struct rawe_conn *conn, uint64_t left, uint32_t room,
                                    bool even);
/** Slow path of rawe_conn_batch_cut_short. */
bool rawe_conn_batch_exceeds(const struct rawe_conn *conn, uint32_t room);
/**
 * Return true if the window would cut a batch short. Then wait for the acknowledgement that makes
 * room for the whole batch, because a short batch costs as much as a full one (TCP's silly window
 * syndrome, RFC 1122 section 4.2.3.4).
 */
static inline bool rawe_conn_batch_cut_short(const struct rawe_conn *conn, uint32_t room)
{
    return conn->path.batch == RAWE_BATCH_VALID && conn->tx.queue.first != NULL &&
           conn->tx.window.in_flight != 0 && conn->tx.window.to_transmit == 0 &&
           rawe_conn_batch_exceeds(conn, room);
}
/** Turn `frame` into a batch: write the fragment's header into it and set its lengths. */
void rawe_conn_batch_describe(struct rawe_conn *conn, struct rawe_txframe *frame,
                              const struct rawe_fragment *fragment);
/** Mark batches as unvalidated, because the connection is starting again. */
void rawe_conn_batch_reset(struct rawe_conn *conn);
/** Cancel a validation in progress, which the peer will not answer. */
void rawe_conn_batch_cancel(struct rawe_conn_path *path);
/** Check that batches still pass after a plain probe was answered without acknowledging more. */
void rawe_conn_batch_unheard(struct rawe_conn *conn, uint64_t now_ns);
/** Note the arrival of a packet that was sent in batch format. */
static inline void rawe_conn_batch_heard(struct rawe_conn_path *path)
{
    path->plain_answers = 0;
}
/** Note that a frame in the window has fully arrived. It is about to be released. */
static inline void rawe_conn_batch_arrived(struct rawe_conn_path *path,
                                           const struct rawe_txframe *frame)
{
    if (frame->segments != 1 && frame->resent == 0) {
        path->batches_lost = 0;
    }
}
/** After a change of route, validate batches again as soon as the window is empty. */
void rawe_conn_batch_move(struct rawe_conn *conn);
/** Return the RAWE_BATCH_BYTES_MAX bytes that validation frames contain. */
const uint8_t *rawe_conn_batch_pattern(void);
/** Put validation frames into the empty window if this connection has yet to validate batches. */
void rawe_conn_batch_validate(struct rawe_conn *conn);
/** Put a one-byte frame with MORE set into the window, if that is empty and allows one frame. */
void rawe_conn_batch_announce(struct rawe_conn *conn);
/** Return true if new frames must wait for a validation that is in progress or due. */
bool rawe_conn_batch_awaits_validation(const struct rawe_conn *conn);
/** Evaluate the validation after an acknowledgement (`lost` is NULL) or the loss of a frame. */
void rawe_conn_batch_conclude(struct rawe_conn *conn, const struct rawe_txframe *lost);
/** Transmit at most `room` due segments of a batch. Returns false if the link refused any. */
bool rawe_conn_batch_transmit(struct rawe_conn *conn, struct rawe_txframe *frame, uint32_t room,
                              uint64_t now_ns);

/* ---- frames that have become too long for the path ---- */

/** Return true if the frame needs slices: the path no longer carries it, or its batch. */
static inline bool rawe_conn_needs_slices(const struct rawe_conn *conn,
                                          const struct rawe_txframe *frame)
{
    return frame->segment_bytes == 0 ? frame->payload_bytes > conn->path.payload_max_bytes
                                     : conn->path.batch == RAWE_BATCH_INVALID ||
                                           conn->path.batch == RAWE_BATCH_MIGRATED ||
                                           frame->segment_bytes > rawe_conn_segment_bytes(conn);
}
/** Transmit at most `room` segments, whole or in slices. False: link full or out of memory. */
bool rawe_conn_transmit_slices(struct rawe_conn *conn, struct rawe_txframe *frame, uint32_t room,
                               uint64_t now_ns);

/* ---- bundles: short queued messages sent as one ---- */

/** Initialize the pool of bundle buffers. All buffers are returned once their sends complete. */
void rawe_conn_bundle_pool_init(struct rawe_buffer_pool *pool);

/** Longest message in a bundle: bundling fewer than three messages is not worth the copy. */
#define RAWE_CONN_BUNDLED_BYTES_MAX (RAWE_BATCH_BYTES_MAX / 3)

/**
 * Replace the short messages at the head of the queue, up to `bytes_max`, with one bundle. They
 * complete when it is transmitted. Does nothing for a single message or when out of memory.
 */
void rawe_conn_bundle(struct rawe_conn *conn, uint32_t bytes_max);

#endif
