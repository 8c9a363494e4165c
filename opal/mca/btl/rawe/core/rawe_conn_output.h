/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Frames of the window to the link.
 */
#ifndef RAWE_CONN_OUTPUT_H
#define RAWE_CONN_OUTPUT_H

#include "rawe_conn_state.h"

/** The link has taken segments of a frame of the window. */
static inline void rawe_conn_sent(struct rawe_conn *conn, struct rawe_txframe *frame,
                                  uint64_t segments, uint64_t now_ns)
{
    uint32_t again = rawe_sendwin_count(segments & frame->sent);
    conn->engine->counters.frames_sent += rawe_sendwin_count(segments) - again;
    if (again != 0) {
        conn->engine->counters.frames_resent += again;
        rawe_reorder_resent(&conn->reorder);
    }
    /* A callback may have given a later time since; what leaves later must not look older. */
    uint64_t newest_ns = conn->engine->now_ns;
    rawe_sendwin_sent(&conn->sendwin, frame, segments, now_ns > newest_ns ? now_ns : newest_ns);
}
/** Frame and transmit what window, credit and link allow; not `all`: as far as batches fill. */
void rawe_conn_output_some(struct rawe_conn *conn, bool all, uint64_t now_ns);
/** Frame and transmit what window, credit and link allow. */
static inline void rawe_conn_output(struct rawe_conn *conn, uint64_t now_ns)
{
    rawe_conn_output_some(conn, true, now_ns);
}

#endif
