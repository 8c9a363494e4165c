/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Send path: a message is transmitted at once, held back, or queued.
 */
#ifndef RAWE_CONN_SEND_H
#define RAWE_CONN_SEND_H

#include "rawe_conn_state.h"

/**
 * Send a message of at most copy_max_bytes (and one frame) by copying the two pieces.
 * RAWE_STATUS_DONE: taken. RAWE_STATUS_BUSY: no room now, use rawe_conn_send. RAWE_STATUS_FAILED:
 * connection has failed.
 */
enum rawe_status rawe_conn_send_copy(struct rawe_conn *conn, uint8_t tag, const void *first,
                                     size_t first_bytes, const void *second, size_t second_bytes,
                                     uint64_t now_ns);

/**
 * Say when the frame was sent that the last rawe_conn_send_copy, called with RAWE_TIME_LATER, may
 * have sent; before any other call for the engine.
 */
void rawe_conn_stamp(struct rawe_conn *conn, uint64_t now_ns);

/**
 * Send a record, whose one piece of data allows that, by copying it. RAWE_STATUS_DONE: it is in a
 * frame, `send` is not in use any more; but that of a PUT is until `done`, which says that the peer
 * has it. RAWE_STATUS_BUSY: no room now, use rawe_conn_send with `copies` set: for others than PUT,
 * `done` then says that it has been copied. RAWE_STATUS_FAILED: the connection has failed.
 */
enum rawe_status rawe_conn_send_record(struct rawe_conn *conn, struct rawe_send *send,
                                       uint64_t now_ns);

/** Send from the caller's memory; `done` is called in the end, whatever happens. */
void rawe_conn_send(struct rawe_conn *conn, struct rawe_send *send, uint64_t now_ns);

/**
 * The first half of it: the send is queued, nothing is transmitted. False: the connection has failed,
 * and `done` has been called.
 */
bool rawe_conn_enqueue(struct rawe_conn *conn, struct rawe_send *send, uint64_t now_ns);

/** The second half: transmit what is queued, as far as it may go; connect if need be. */
void rawe_conn_start(struct rawe_conn *conn, uint64_t now_ns);

/**
 * The data of a send has been copied: `copy` holds its pieces one behind the other, and is what will
 * be sent from now on.
 */
void rawe_conn_send_rebased(struct rawe_conn *conn, struct rawe_send *send, uint8_t *copy);

/** The data of a reply is gone: the frames that refer to it are sent again as refusals. */
void rawe_conn_send_revoke(struct rawe_conn *conn, const struct rawe_send *send);

/** Send the frame that is held back, if any. */
void rawe_conn_coalesce_flush(struct rawe_conn *conn, uint64_t now_ns);

#endif
