/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Access to registered memory. The initiator turns operations into requests, which replies
 * complete; the target serves requests. Control messages are also records.
 */
#ifndef RAWE_CONN_RECORD_H
#define RAWE_CONN_RECORD_H

#include "rawe_conn_state.h"

/** Return an operation's send: its request, or a PUT's data. `copies`: may be copied to a frame. */
struct rawe_send *rawe_conn_begin_operation(struct rawe_operation *operation, bool copies);

/** Begin an operation; `done` may be called at once. A PUT must be copyable. False: not begun. */
bool rawe_conn_operate(struct rawe_conn *conn, struct rawe_operation *operation, uint64_t now_ns);

/** See rawe_peer_send_control. */
bool rawe_conn_send_control(struct rawe_conn *conn, uint64_t channel, const uint8_t *data,
                            size_t len_bytes, uint64_t now_ns);

/** Reserve replies to `count` requests, for rawe_conn_perform. Returns false when out of memory. */
bool rawe_conn_serve_reserve(struct rawe_engine *engine, unsigned count);

/** Return where to store the data of a REPLY, or NULL. */
uint8_t *rawe_conn_place_reply(const struct rawe_conn *conn, const struct rawe_fragment *fragment);

/** Process one record of an accepted frame. */
void rawe_conn_perform(struct rawe_conn *conn, const struct rawe_fragment *fragment,
                       uint64_t now_ns);

/** For rawe_conn_serve_forget: all handles. */
#define RAWE_HANDLE_ANY UINT32_MAX

/**
 * Detach all replies from a handle's memory, which is about to be freed. Unsent and unacknowledged
 * replies become refusals; an initiator that already has the data drops those as duplicates.
 */
void rawe_conn_serve_forget(struct rawe_engine *engine, uint32_t handle_index);

/** Free the reply buffers. Our connections are closed; other engines may still be sending parts. */
void rawe_conn_serve_free(struct rawe_engine *engine);

#endif
