/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * From queued sends to frames in the window.
 */
#ifndef RAWE_CONN_FRAME_H
#define RAWE_CONN_FRAME_H

#include "rawe_conn_batch.h"
#include "rawe_conn_state.h"

/**
 * Does a frame of the window have to go in another form than the one it was made for? The path may
 * have been found to carry less since, or no batches.
 */
static inline bool rawe_conn_needs_slices(const struct rawe_conn *conn,
                                          const struct rawe_txframe *frame)
{
    return frame->segment_bytes == 0 ? frame->payload_bytes > conn->payload_max_bytes
                                     : conn->batch == RAWE_BATCH_INVALID ||
                                           frame->segment_bytes > rawe_conn_segment_bytes(conn);
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
/** Give a frame the next sequence numbers; it is WAITING until the link has taken it. */
void rawe_conn_enter_window(struct rawe_conn *conn, struct rawe_txframe *frame);
/** Write the fragment's header into a frame that is to be a batch of its data. */
void rawe_conn_frame_batch(struct rawe_conn *conn, struct rawe_txframe *frame,
                           const struct rawe_fragment *fragment);
/**
 * Put the next bytes of the oldest queued send into a new frame of the window, or a batch. NULL
 * when there is nothing to frame, or not now. Sends that are complete because all of them was
 * copied are appended to the list that ends at `*copied_tail`.
 */
struct rawe_txframe *rawe_conn_frame_next(struct rawe_conn *conn, struct rawe_send ***copied_tail);

#endif
