/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Losses of frames, and what they say of the path.
 */
#ifndef RAWE_CONN_LOSSES_H
#define RAWE_CONN_LOSSES_H

#include "rawe_conn_state.h"

/** Look for frames whose reordering window has passed. */
void rawe_conn_detect_losses(struct rawe_conn *conn, uint64_t now_ns);

#endif
