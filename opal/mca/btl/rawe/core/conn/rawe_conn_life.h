/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Completing sends; one life of a connection ends, the next begins.
 */
#ifndef RAWE_CONN_LIFE_H
#define RAWE_CONN_LIFE_H

#include "rawe_conn_state.h"

/** Call `done` of a list of sends. They may send again, hence nothing may be half changed here. */
void rawe_conn_complete(struct rawe_engine *engine, struct rawe_send *list,
                        enum rawe_status status);
/**
 * Give a frame that has left the window back. Appends the sends that are complete by that to a list;
 * returns its new tail.
 */
struct rawe_send **rawe_conn_release(struct rawe_conn *conn, struct rawe_txframe *frame,
                                     struct rawe_send **tail);
/**
 * Empty the send window, and the queue too if asked for. Returns the sends that were under way, for
 * rawe_conn_complete once the connection is in its new state.
 */
struct rawe_send *rawe_conn_abandon(struct rawe_conn *conn, bool queue_too);
/**
 * Release the frames of the window that are wholly before `acknowledgement`, which is in it or one
 * behind. Returns the sends that are complete by it, for rawe_conn_complete.
 */
struct rawe_send *rawe_conn_release_before(struct rawe_conn *conn, uint32_t acknowledgement);
/**
 * Complete what rawe_conn_abandon has returned because the peer has ended the connection;
 * `data_lost`: it has not acknowledged all that was sent.
 */
void rawe_conn_complete_ended(struct rawe_conn *conn, struct rawe_send *abandoned, bool data_lost);
/** The path is another one: nothing is known of it. What is in flight was sent by the old one. */
void rawe_conn_forget_path(struct rawe_conn *conn);
/** Sending and receiving state of a connection on which nothing has been sent yet. */
void rawe_conn_reset(struct rawe_conn *conn);
/** Begin a new life under a new id. The window must be empty. */
void rawe_conn_renew(struct rawe_conn *conn);
/** Free what only a connection in use needs. Nothing has been sent or received in its life. */
void rawe_conn_free_windows(struct rawe_conn *conn);

#endif
