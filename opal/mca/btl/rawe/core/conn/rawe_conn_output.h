/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Output of a connection: short messages share frames (coalescing) or batches (bundles), queued sends
 * become frames of the window, and these go to the link.
 */
#ifndef RAWE_CONN_OUTPUT_H
#define RAWE_CONN_OUTPUT_H

#include "rawe_conn_state.h"

/*
 * Short messages that share a frame.
 */

/**
 * The cheapest way to send: the message joins others in a frame that is held back already. False
 * when there is none, or no room in it: use rawe_conn_send_copy. Needs no time.
 */
bool rawe_conn_coalesce(struct rawe_conn *conn, uint8_t tag, const void *first, size_t first_bytes,
                        const void *second, size_t second_bytes);

/** Would so few messages of this length share a frame that a batch is better for them? */
bool rawe_conn_coalesce_poor(const struct rawe_conn *conn, size_t data_bytes);

/** A frame with one message, `more` to come. NULL without a free frame. */
struct rawe_txframe *rawe_conn_coalesce_new(struct rawe_conn *conn, uint8_t tag, const void *first,
                                            size_t first_bytes, const void *second,
                                            size_t second_bytes, bool more);
/** Should a message of this length be held back for others to join it? */
bool rawe_conn_coalesce_wanted(const struct rawe_conn *conn, size_t data_bytes);
/** Is there room for one more in a frame that was made for `more`? */
bool rawe_conn_coalesce_fits(const struct rawe_conn *conn, const struct rawe_txframe *frame,
                             size_t data_bytes);
/**
 * Should a record be held back for others to join it? A REPLY always: it is sent at the end of this
 * round of reception, which may bring more requests. An atomic operation never: its caller waits for
 * it, or releases a lock with it, and may leave MPI next. Others as soon as one frame is on its way:
 * the caller makes progress while it waits for its acknowledgement or reply.
 */
bool rawe_conn_coalesce_record_wanted(const struct rawe_conn *conn, const struct rawe_send *send);
/**
 * The same as rawe_conn_coalesce for a record that is copied. The frame still waits for the end of
 * the round.
 */
bool rawe_conn_coalesce_record(struct rawe_conn *conn, struct rawe_send *send);
/** Count a record that was copied into a frame without being queued before. */
void rawe_conn_coalesce_count_record(struct rawe_counters *counters, const struct rawe_send *send);
/** An empty frame for a record, and `more` to come. NULL without a free frame. */
struct rawe_txframe *rawe_conn_coalesce_take(struct rawe_conn *conn, const struct rawe_send *send,
                                             bool more);
/** Does a frame hold records, and is there room for one more, with `data_bytes` of data? */
bool rawe_conn_coalesce_record_fits(const struct rawe_conn *conn, const struct rawe_txframe *frame,
                                    size_t data_bytes);
/**
 * Add a record; it fits. A PUT, which must be in no list, is linked to the frame: it is complete when
 * the frame leaves the window.
 */
void rawe_conn_coalesce_add_record(struct rawe_txframe *frame, struct rawe_send *send);
/** Add a whole queued message to such a frame; it fits. */
void rawe_conn_coalesce_add(struct rawe_txframe *frame, const struct rawe_send *send);

/*
 * Bundles: queued messages that are short travel as one.
 */

/** Buffers for bundles; all given back when the connections' sends are complete. */
void rawe_conn_bundle_pool_init(struct rawe_buffer_pool *pool);

/** Longest message that is copied into one: with fewer than three in it a bundle is not worth it. */
#define RAWE_CONN_BUNDLED_BYTES_MAX (RAWE_BATCH_BYTES_MAX / 3)

/**
 * Replace the short messages at the head of the queue, as far as they fit `bytes_max` together, by
 * one bundle. They are complete when the bundle has been transmitted. Nothing happens where that
 * would be a single message, or without memory.
 */
void rawe_conn_bundle(struct rawe_conn *conn, uint32_t bytes_max);

/*
 * From queued sends to frames in the window.
 */

/**
 * Put the next bytes of the oldest queued send into a new frame of the window, or a batch. NULL
 * when there is nothing to frame, or not now. Sends that are complete because all of them was
 * copied are appended to the list that ends at `*copied_tail`. `even`: what takes several batches is
 * shared out among them; else they are filled.
 */
struct rawe_txframe *rawe_conn_frame_next(struct rawe_conn *conn, bool even,
                                          struct rawe_send ***copied_tail);

/** Frame and transmit what window, credit and link allow; not `all`: as far as batches fill. */
void rawe_conn_output_some(struct rawe_conn *conn, bool all, uint64_t now_ns);
/** Frame and transmit what window, credit and link allow. */
static inline void rawe_conn_output(struct rawe_conn *conn, uint64_t now_ns)
{
    rawe_conn_output_some(conn, true, now_ns);
}

#endif
