/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Handshake: the states of a connection, and what a CONNECT frame means in each.
 *
 *   IDLE ──send, or CONNECT from peer──> CONNECTING ──reply──> OPEN ──CLOSE──> PEER_CLOSED
 *                                            │                   │                  │
 *                                            └─> FAILED <─silence┘  send: CONNECTING <┘
 *
 * Each side asks for itself: only a reply to its own CONNECT tells it the peer's connection id. A
 * reply carries the asker's connection id, whose generation proves that it is not a late one. An
 * incarnation grows with every connection that a process opens to a peer.
 */
#ifndef RAWE_HANDSHAKE_H
#define RAWE_HANDSHAKE_H

#include <stdbool.h>
#include <stdint.h>

enum rawe_conn_state {
    RAWE_CONN_IDLE,       /**< known, never used */
    RAWE_CONN_CONNECTING, /**< asked the peer for its connection id */
    RAWE_CONN_OPEN,
    RAWE_CONN_PEER_CLOSED, /**< the peer ended it in good order */
    RAWE_CONN_FAILED,      /**< the peer was silent for too long, or the owner has closed it */
};

struct rawe_handshake {
    uint64_t local_incarnation;
    uint64_t peer_incarnation; /**< newest one seen; 0: none */
    uint32_t local_id;         /**< what the peer puts into its frames to us */
    uint32_t peer_id;          /**< what we put into ours; 0: not known yet */
    uint8_t state;             /**< enum rawe_conn_state */
};

/** What a CONNECT, from a peer with this incarnation, means for the connection. */
enum rawe_handshake_verdict {
    RAWE_HANDSHAKE_DROP, /**< late, or the connection has failed: ignore the frame */
    RAWE_HANDSHAKE_SAME, /**< the life we know of, or the first one: answer it */
    /** The peer has reopened it; its CLOSE may be lost. Abandon, restart, then answer. */
    RAWE_HANDSHAKE_RESTART,
    /**
     * The peer restarted while we were asking: renew the id, which late frames of its old life
     * bear. Nothing was sent, so our incarnation stays: a new one would make the peer restart, too.
     */
    RAWE_HANDSHAKE_RENEW_ID,
};

/** Judge a CONNECT and note the incarnation unless it is to be dropped. */
enum rawe_handshake_verdict rawe_handshake_judge(struct rawe_handshake *handshake,
                                                 uint64_t incarnation);

/** A reply tells the peer's id. True when the connection is OPEN by that. */
bool rawe_handshake_reply(struct rawe_handshake *handshake, uint32_t peer_id);

/** Our end takes a step of the drawing above, other than by the peer's CONNECT. */
static inline void rawe_handshake_enter(struct rawe_handshake *handshake,
                                        enum rawe_conn_state state)
{
    handshake->state = (uint8_t)state;
}

/** A life begins: the peer's frames have to bear this id, and the peer's is not known. */
static inline void rawe_handshake_begin(struct rawe_handshake *handshake, uint32_t local_id,
                                        uint64_t incarnation)
{
    handshake->local_id = local_id;
    handshake->local_incarnation = incarnation;
    handshake->peer_id = 0;
}

/** True in the states in which frames of the peer are taken. */
static inline bool rawe_handshake_receives(const struct rawe_handshake *handshake)
{
    return handshake->state == RAWE_CONN_OPEN || handshake->state == RAWE_CONN_CONNECTING;
}

#endif
