/* SPDX-License-Identifier: BSD-3-Clause */
#include "rawe_handshake.h"

enum rawe_handshake_verdict rawe_handshake_judge(struct rawe_handshake *handshake,
                                                 uint64_t incarnation)
{
    uint64_t known = handshake->peer_incarnation;
    uint8_t state = handshake->state;
    if (state == RAWE_CONN_FAILED || incarnation < known ||
        (state == RAWE_CONN_PEER_CLOSED && incarnation == known)) {
        return RAWE_HANDSHAKE_DROP;
    }
    handshake->peer_incarnation = incarnation;
    if (incarnation == known) {
        return RAWE_HANDSHAKE_SAME;
    }
    if (state == RAWE_CONN_OPEN || state == RAWE_CONN_PEER_CLOSED) {
        return RAWE_HANDSHAKE_RESTART;
    }
    return state == RAWE_CONN_CONNECTING && known != 0 ? RAWE_HANDSHAKE_RENEW_ID
                                                       : RAWE_HANDSHAKE_SAME;
}

bool rawe_handshake_reply(struct rawe_handshake *handshake, uint32_t peer_id)
{
    if (handshake->state != RAWE_CONN_CONNECTING) {
        return false; /* a second copy of the reply */
    }
    handshake->peer_id = peer_id;
    handshake->state = RAWE_CONN_OPEN;
    return true;
}
