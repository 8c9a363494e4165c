/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Frames of the window to the link.
 */
#ifndef RAWE_CONN_OUTPUT_H
#define RAWE_CONN_OUTPUT_H

#include "rawe_conn_state.h"

/** Frame and transmit what window, credit and link allow; not `all`: as far as batches fill. */
void rawe_conn_output_some(struct rawe_conn *conn, bool all, uint64_t now_ns);
/** Frame and transmit what window, credit and link allow. */
static inline void rawe_conn_output(struct rawe_conn *conn, uint64_t now_ns)
{
    rawe_conn_output_some(conn, true, now_ns);
}

#endif
