/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Frames that the path does not carry whole any more.
 */
#ifndef RAWE_CONN_SLICE_H
#define RAWE_CONN_SLICE_H

#include "rawe_conn_batch.h"
#include "rawe_conn_state.h"

/**
 * Does a frame of the window have to go in another form than the one it was made for? The path may
 * have been found to carry less since, or no batches.
 */
static inline bool rawe_conn_needs_slices(const struct rawe_conn *conn,
                                          const struct rawe_txframe *frame)
{
    return frame->segment_bytes == 0
               ? frame->payload_bytes > conn->payload_max_bytes
               : conn->batch == RAWE_BATCH_INVALID || conn->batch == RAWE_BATCH_MIGRATED ||
                     frame->segment_bytes > rawe_conn_segment_bytes(conn);
}
/**
 * Transmit what is to be transmitted of a frame of the window, `room` frames of a batch at most, as
 * plain frames, or, where the path does not carry those, in slices. False: not all of that, for
 * want of room or memory.
 */
bool rawe_conn_transmit_slices(struct rawe_conn *conn, struct rawe_txframe *frame, uint32_t room,
                               uint64_t now_ns);

#endif
