/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A connection's use of its send window: how much may go, what enters, what has gone.
 */
#ifndef RAWE_CONN_WINDOW_H
#define RAWE_CONN_WINDOW_H

#include "rawe_conn_state.h"

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
/** The same for a batch behind which more waits: it may use up a small window alone. */
void rawe_conn_enter_window_whole(struct rawe_conn *conn, struct rawe_txframe *frame);
/** The link has taken segments of a frame of the window. */
static inline void rawe_conn_sent(struct rawe_conn *conn, struct rawe_txframe *frame,
                                  uint64_t segments, uint64_t now_ns)
{
    struct rawe_counters *counters = &conn->engine->counters;
    if (__builtin_expect(frame->sent == 0, 1)) {
        counters->frames_sent += rawe_sendwin_count(segments);
    } else {
        uint32_t again = rawe_sendwin_count(segments & frame->sent);
        counters->frames_sent += rawe_sendwin_count(segments) - again;
        counters->frames_resent += again;
        if (again != 0) {
            rawe_reorder_resent(&conn->reorder);
        }
    }
    /* A callback may have given a later time since; what leaves later must not look older. */
    uint64_t newest_ns = conn->engine->now_ns;
    rawe_sendwin_sent(&conn->sendwin, frame, segments, now_ns > newest_ns ? now_ns : newest_ns);
}

#endif
