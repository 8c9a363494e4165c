/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Send path: a message is transmitted at once, held back for others to share its frame, or queued.
 * What is queued becomes frames of the window, and these go to the link.
 */
#ifndef RAWE_CONN_SEND_H
#define RAWE_CONN_SEND_H

#include "rawe_conn_state.h"

/** Would a record with `data_bytes` of data join others in a frame that is held back? */
bool rawe_conn_record_joins(const struct rawe_conn *conn, size_t data_bytes);

/** Would so few messages of this length share a frame that a batch is better for them? */
bool rawe_conn_coalesce_poor(const struct rawe_conn *conn, size_t data_bytes);

/**
 * Send a message, copy_max_bytes and a frame at most, by copying. BUSY: use rawe_conn_send. The clock
 * is read when the frame is on its way, and not at all if the message joins one that is held back.
 */
enum rawe_status rawe_conn_send_copy(struct rawe_conn *conn, uint8_t tag, const void *first,
                                     size_t first_bytes, const void *second, size_t second_bytes);

/**
 * Send a record by copying its one piece of data. RAWE_STATUS_DONE: it is in a frame, and `send` is
 * free, but for a PUT: that is in use until `done`, when the peer has it. RAWE_STATUS_BUSY: no room
 * now; use rawe_conn_send with `copies` set, whose `done` then says (PUT aside) that it was copied.
 */
enum rawe_status rawe_conn_send_record(struct rawe_conn *conn, struct rawe_send *send,
                                       uint64_t now_ns);

/** Send from the caller's memory; `done` is called in the end, whatever happens. */
void rawe_conn_send(struct rawe_conn *conn, struct rawe_send *send, uint64_t now_ns);

/** The first half: queue the send. False: the connection has failed, `done` was called. */
bool rawe_conn_enqueue(struct rawe_conn *conn, struct rawe_send *send, uint64_t now_ns);

/** The second half: transmit what may go; connect if need be. */
void rawe_conn_start(struct rawe_conn *conn, uint64_t now_ns);

/** Frame and transmit what window, credit and link allow; not `all`: as far as batches fill. */
void rawe_conn_output(struct rawe_conn *conn, bool all, uint64_t now_ns);

/** Send the frame that is held back, if any. */
void rawe_conn_coalesce_flush(struct rawe_conn *conn, uint64_t now_ns);

#endif
