/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Do batches pass, and sending them.
 */
#ifndef RAWE_CONN_BATCH_H
#define RAWE_CONN_BATCH_H

#include "rawe_conn_state.h"

/** Put validation frames into the empty window, when this connection has still to find out. */
void rawe_conn_batch_validate(struct rawe_conn *conn);
/** Some or all of them have been acknowledged (`lost` is NULL), or one of them found lost. */
void rawe_conn_batch_conclude(struct rawe_conn *conn, const struct rawe_txframe *lost);
/** Transmit frames as batches, as far as they are such. Returns how many were taken. */
unsigned rawe_conn_batch_transmit(struct rawe_conn *conn, struct rawe_txframe *const *frames,
                                  const struct rawe_frame *views, unsigned count);

#endif
