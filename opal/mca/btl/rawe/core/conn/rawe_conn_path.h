/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The path of a connection: where its frames go, through whose link, and how long they may be. It
 * has a preferred route, and may use another one meanwhile: rawe_conn_move.h decides.
 */
#ifndef RAWE_CONN_PATH_H
#define RAWE_CONN_PATH_H

#include "rawe_conn_state.h"

/** Number of a probe whose answer is no evidence, as it does not travel with the data. */
#define RAWE_PROBE_PLAIN 0u

/** The path of a new connection, to one interface of the peer's; no route is known yet. */
void rawe_conn_path_open(struct rawe_conn *conn, struct rawe_engine *engine,
                         const uint8_t peer_mac[RAWE_MAC_BYTES], uint16_t peer_port,
                         uint32_t peer_key, uint8_t peer_interface, uint32_t payload_max_bytes);
/** The connection's preferred route, which outlives it; rawe_conn_path_use follows. */
void rawe_conn_path_begin(struct rawe_conn *conn, struct rawe_route *preferred);
/** From now on frames are addressed to the far end of this route. */
void rawe_conn_path_use(struct rawe_conn *conn, struct rawe_route *route);
/** Another life of the connection begins: no migration has happened in it. */
void rawe_conn_path_reset(struct rawe_conn *conn);
/** The connection has moved; `decided`: this end has decided so, and its number is the newest. */
void rawe_conn_path_migrated(struct rawe_conn *conn, bool decided, uint64_t now_ns);
/** The peer has to learn of that: the next questions to it say so. */
void rawe_conn_path_confirm_next(struct rawe_conn *conn);
/** It has, or needs not. */
void rawe_conn_path_confirmed(struct rawe_conn *conn);
/**
 * The path was found to carry frame payload of `payload_max_bytes` only (RAWE_PAYLOAD_LEAST_BYTES
 * at least, and RAWE_CHECKSUM_ROOM_BYTES more where frames have checksums). New frames are no
 * longer than that, and longer ones that are lost are sent in slices.
 */
void rawe_conn_set_payload_max(struct rawe_conn *conn, uint32_t payload_max_bytes);
/** A route of the process carries less now: heeded where it is preferred, or used as long as it is. */
void rawe_conn_path_shrunk(struct rawe_conn *conn, const struct rawe_route *route);
/** Neither the preferred route nor the one in use carries more than that. */
static inline void rawe_conn_limit_payload(struct rawe_conn *conn, uint32_t payload_max_bytes)
{
    if (payload_max_bytes < conn->preferred_payload_max_bytes) {
        conn->preferred_payload_max_bytes = payload_max_bytes;
    }
    if (payload_max_bytes < conn->payload_max_bytes) {
        conn->payload_max_bytes = payload_max_bytes;
    }
}
/** Is it a PROBE that has not come before, nor any after it? Not if it has no number. */
static inline bool rawe_conn_newest_probe(const struct rawe_conn *conn, uint32_t number)
{
    return number != RAWE_PROBE_PLAIN && (conn->newest_probe == RAWE_PROBE_PLAIN ||
                                          rawe_sequence_before(conn->newest_probe, number));
}
/**
 * A PROBE carries the number of the newest migration that its sender knows of; our next one has to
 * be newer. The number has 8 bits and wraps, so repeated PROBEs are ignored.
 */
static inline void rawe_conn_note_migration(struct rawe_conn *conn, uint32_t number,
                                            const uint8_t *payload, size_t payload_bytes)
{
    struct rawe_connect from;
    if (!rawe_conn_newest_probe(conn, number) ||
        rawe_connect_decode(&from, payload, payload_bytes) != RAWE_DECODE_OK ||
        from.connection_id != conn->handshake.peer_id) {
        return;
    }
    conn->newest_probe = number;
    if ((int8_t)(from.choice - conn->migration) > 0) {
        conn->migration = from.choice;
    }
}
/** A question is due: does the peer still have to learn that we have moved? */
static inline bool rawe_conn_confirm(struct rawe_conn *conn)
{
    if (conn->liveness.probes_unanswered == 0) {
        conn->confirming = 0; /* it was heard since */
    }
    if (conn->confirming != 0) {
        conn->confirming--;
        return true;
    }
    return false;
}

#endif
