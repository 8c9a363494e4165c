/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * From queued sends to frames in the window.
 */
#ifndef RAWE_CONN_FRAME_H
#define RAWE_CONN_FRAME_H

#include "rawe_conn_state.h"

/**
 * Put the next bytes of the oldest queued send into a new frame of the window, or a batch. NULL
 * when there is nothing to frame, or not now. Sends that are complete because all of them was
 * copied are appended to the list that ends at `*copied_tail`. `even`: what takes several batches is
 * shared out among them; else they are filled.
 */
struct rawe_txframe *rawe_conn_frame_next(struct rawe_conn *conn, bool even,
                                          struct rawe_send ***copied_tail);

#endif
