/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Frames enter the send window, and ask for acknowledgements in time.
 */
#include "rawe_conn_window.h"

/** A small window is no reason to have each frame acknowledged by a frame of its own. */
#define REQUEST_LEAST_FRAMES 2u

/**
 * Ask for an acknowledgement with every fourth part of the window, so that it slides before it is
 * used up. Not while half of it is free: an answer of the peer's will carry it then. `more` frames
 * enter with the first one.
 */
static inline void request_ack(struct rawe_conn *conn, struct rawe_txframe *frame, uint32_t more)
{
    const struct rawe_sendwin *window = &conn->sendwin;
    uint32_t limit = rawe_conn_in_flight_limit(conn);
    uint32_t part = limit / 4;
    part = part < REQUEST_LEAST_FRAMES ? REQUEST_LEAST_FRAMES : part;
    bool only_one = conn->peer_credit <= 1;
    if (only_one || (window->next + more - conn->ack_requested >= part &&
                     2 * (window->in_flight + window->to_transmit + more) >= limit)) {
        frame->flags |= RAWE_FLAG_ACK_NOW;
        conn->ack_requested = window->next + more;
    }
}

void rawe_conn_enter_window(struct rawe_conn *conn, struct rawe_txframe *frame)
{
    request_ack(conn, frame, 0);
    rawe_sendwin_enter(&conn->sendwin, frame);
}

void rawe_conn_enter_window_whole(struct rawe_conn *conn, struct rawe_txframe *frame)
{
    request_ack(conn, frame, frame->segments - 1u);
    rawe_sendwin_enter(&conn->sendwin, frame);
}
