/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Send path: a message is transmitted at once, held back so that others share its frame, or queued.
 * Queued messages become frames of the window, which go to the link.
 */
#ifndef RAWE_CONN_SEND_H
#define RAWE_CONN_SEND_H

#include "rawe_conn_state.h"

/** Return true if a record with `data_bytes` of data would join others in a held-back frame. */
bool rawe_conn_record_joins(const struct rawe_conn *conn, size_t data_bytes);

/** Return true if so few messages of this length share a frame that a batch suits them better. */
bool rawe_conn_coalesce_poor(const struct rawe_conn *conn, size_t data_bytes);

/**
 * Send a message of at most copy_max_bytes and one frame, by copying it. BUSY: use rawe_conn_send.
 * The clock is read only once the frame has been sent, and not at all if the message joins a
 * held-back frame.
 */
enum rawe_status rawe_conn_send_copy(struct rawe_conn *conn, uint8_t tag, const void *first,
                                     size_t first_bytes, const void *second, size_t second_bytes);

/**
 * Send a record by copying its one piece of data. RAWE_STATUS_DONE: it is in a frame, and `send` is
 * free again; that of a PUT stays in use until `done`, when the peer has the data.
 * RAWE_STATUS_BUSY: no room now; use rawe_conn_send with `copies` set, whose `done` then means that
 * the record was copied (except for a PUT).
 */
enum rawe_status rawe_conn_send_record(struct rawe_conn *conn, struct rawe_send *send,
                                       uint64_t now_ns);

/** Send from the caller's memory. `done` is always called eventually. */
void rawe_conn_send(struct rawe_conn *conn, struct rawe_send *send, uint64_t now_ns);

/** Queue a send without transmitting. False: the connection has failed, and `done` was called. */
bool rawe_conn_enqueue(struct rawe_conn *conn, struct rawe_send *send, uint64_t now_ns);

/** Transmit queued sends as far as possible, connecting first if necessary. */
void rawe_conn_start(struct rawe_conn *conn, uint64_t now_ns);

/** Frame and transmit as much as window, credit and link allow; unless `all`, full batches only. */
void rawe_conn_output(struct rawe_conn *conn, bool all, uint64_t now_ns);

/** Send the held-back frame, if any. */
void rawe_conn_coalesce_flush(struct rawe_conn *conn, uint64_t now_ns);

#endif
