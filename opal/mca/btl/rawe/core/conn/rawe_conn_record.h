/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Accesses to registered memory: at the initiator, operations become requests, and replies complete
 * them; at the target, requests are served. And control messages, which travel like these.
 */
#ifndef RAWE_CONN_RECORD_H
#define RAWE_CONN_RECORD_H

#include "rawe_conn_state.h"

/** What an operation sends: its request, or the data of a PUT, `copies`: into a frame. */
struct rawe_send *rawe_conn_begin_operation(struct rawe_operation *operation, bool copies);

/** Begin an operation; `done` may come at once. A PUT must be copyable. False: not taken. */
bool rawe_conn_operate(struct rawe_conn *conn, struct rawe_operation *operation, uint64_t now_ns);

/** See rawe_peer_send_control. */
bool rawe_conn_send_control(struct rawe_conn *conn, uint64_t channel, const uint8_t *data,
                            size_t len_bytes, uint64_t now_ns);

/** Reserve replies to `count` requests, for rawe_conn_perform. False without memory. */
bool rawe_conn_serve_reserve(struct rawe_engine *engine, unsigned count);

/** Where the data of a REPLY goes; NULL: nowhere. */
uint8_t *rawe_conn_place_reply(const struct rawe_conn *conn, const struct rawe_fragment *fragment);

/** A record of a frame that was taken. */
void rawe_conn_perform(struct rawe_conn *conn, const struct rawe_fragment *fragment,
                       uint64_t now_ns);

/** rawe_conn_serve_forget: of all handles. */
#define RAWE_HANDLE_ANY UINT32_MAX

/**
 * The memory of a handle goes: no reply refers to it any more. What is unsent, or would be resent,
 * is refused; initiators that have it drop that as duplicates.
 */
void rawe_conn_serve_forget(struct rawe_engine *engine, uint32_t handle_index);

/** Free what rawe_conn_serve_reserve has got. Its connections are closed; others may send parts. */
void rawe_conn_serve_free(struct rawe_engine *engine);

#endif
