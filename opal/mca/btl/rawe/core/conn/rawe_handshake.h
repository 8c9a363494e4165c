/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Handshake: the states of a connection, and the meaning of a CONNECT frame in each of them.
 *
 *   IDLE ──send, or CONNECT from peer──> CONNECTING ──reply──> OPEN ──CLOSE──> PEER_CLOSED
 *                                            │                   │                  │
 *                                            └─> FAILED <─silence┘  send: CONNECTING <┘
 *
 * Each side connects on its own: it learns the peer's connection id only from the reply to its own
 * CONNECT. The reply carries the requester's connection id, whose generation proves that the reply
 * is not a late one. The incarnation grows with every connection that a process opens to a peer.
 */
#ifndef RAWE_HANDSHAKE_H
#define RAWE_HANDSHAKE_H

#include <stdbool.h>
#include <stdint.h>

enum rawe_conn_state {
    RAWE_CONN_IDLE,       /**< known, never used */
    RAWE_CONN_CONNECTING, /**< has asked the peer for its connection id */
    RAWE_CONN_OPEN,
    RAWE_CONN_PEER_CLOSED, /**< the peer closed it in an orderly way */
    RAWE_CONN_FAILED,      /**< the peer was silent for too long, or the owner has closed it */
};

struct rawe_handshake {
    uint64_t local_incarnation;
    uint64_t peer_incarnation; /**< newest one seen; 0: none */
    uint32_t local_id;         /**< the peer puts it into its frames to us */
    uint32_t peer_id;          /**< we put it into our frames; 0: not known yet */
    uint8_t state;             /**< enum rawe_conn_state */
};

/** The meaning of a CONNECT with this incarnation for the connection. */
enum rawe_handshake_verdict {
    RAWE_HANDSHAKE_DROP, /**< late, or the connection has failed: do not connect */
    RAWE_HANDSHAKE_SAME, /**< the known incarnation, or the first one: answer it */
    /** The peer reopened the connection; its CLOSE may be lost. Abandon, restart, then answer. */
    RAWE_HANDSHAKE_RESTART,
    /**
     * The peer restarted while we were connecting: renew the id, because late frames from before
     * the restart carry it. We have sent nothing, so keep our incarnation: a new one would make the
     * peer restart as well.
     */
    RAWE_HANDSHAKE_RENEW_ID,
};

/** Judge a CONNECT. Notes the incarnation unless the frame must be dropped. */
enum rawe_handshake_verdict rawe_handshake_judge(struct rawe_handshake *handshake,
                                                 uint64_t incarnation);

/** Take the peer's id from a reply. Returns true if that makes the connection OPEN. */
bool rawe_handshake_reply(struct rawe_handshake *handshake, uint32_t peer_id);

/** Enter a state of the diagram above, for any reason except the peer's CONNECT. */
static inline void rawe_handshake_enter(struct rawe_handshake *handshake,
                                        enum rawe_conn_state state)
{
    handshake->state = (uint8_t)state;
}

/** Restart: the peer's frames must carry this id. The peer's own id is still unknown. */
static inline void rawe_handshake_begin(struct rawe_handshake *handshake, uint32_t local_id,
                                        uint64_t incarnation)
{
    handshake->local_id = local_id;
    handshake->local_incarnation = incarnation;
    handshake->peer_id = 0;
}

/** Return true if frames from the peer are accepted in this state. */
static inline bool rawe_handshake_receives(const struct rawe_handshake *handshake)
{
    return handshake->state == RAWE_CONN_OPEN || handshake->state == RAWE_CONN_CONNECTING;
}

#endif
