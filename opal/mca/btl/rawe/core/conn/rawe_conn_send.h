/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Send path: a message is transmitted at once, held back for others to share its frame, or queued; and
 * what is queued becomes frames of the window, which go to the link.
 */
#ifndef RAWE_CONN_SEND_H
#define RAWE_CONN_SEND_H

#include "rawe_conn_state.h"

/**
 * The cheapest way to send: the message joins others in a frame that is held back already. False
 * when there is none, or no room in it: use rawe_conn_send_copy. Needs no time.
 */
bool rawe_conn_coalesce(struct rawe_conn *conn, uint8_t tag, const void *first, size_t first_bytes,
                        const void *second, size_t second_bytes);

/** Would a record with `data_bytes` of data join others in a frame that is held back? */
bool rawe_conn_record_joins(const struct rawe_conn *conn, size_t data_bytes);

/** Would so few messages of this length share a frame that a batch is better for them? */
bool rawe_conn_coalesce_poor(const struct rawe_conn *conn, size_t data_bytes);

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

/** Frame and transmit what window, credit and link allow. */
void rawe_conn_output(struct rawe_conn *conn, uint64_t now_ns);

/** Send the frame that is held back, if any. */
void rawe_conn_coalesce_flush(struct rawe_conn *conn, uint64_t now_ns);

#endif
