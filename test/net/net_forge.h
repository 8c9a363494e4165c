/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Frames that no receiver should believe, from attackers who may or may not know keys, ports,
 * connection ids and sequence numbers. A struct net_forgery determines a frame's content.
 */
#ifndef NET_FORGE_H
#define NET_FORGE_H

#include "conn/rawe_conn_state.h"

/** Maximum length of a forged frame. */
#define NET_FORGED_BYTES_MAX 4096u

/** The faults of a forgery besides its numbers. */
enum net_deceit {
    NET_DECEIT_NONE,
    NET_DECEIT_UNKNOWN_PEER, /**< wrong key or port: the victim must ignore the frame */
    NET_DECEIT_CONNECTION,   /**< another connection id */
    NET_DECEIT_VPID,         /**< another process */
    NET_DECEIT_KEY,          /**< key of another process */
    NET_DECEIT_PORT,
    NET_DECEIT_NOISE,  /**< the payload is arbitrary */
    NET_DECEIT_LENGTH, /**< a fragment's length differs from its header's */
    NET_DECEIT_HANDLE, /**< handle of other memory */
    NET_DECEIT_TOTAL,  /**< a message of about the maximum length */
    NET_DECEITS
};

/** The properties of a forged frame; each bit has a meaning for some kind of frame. */
struct net_forgery {
    uint16_t what;    /**< type 4 | kind of fragment 3 | flags, NET_FORGE_... 9 */
    uint32_t numbers; /**< sequence 16 | acknowledgement 16: distance from the expected ones */
    uint32_t place;   /**< offset 24, handle or message 8 */
    uint32_t lengths; /**< data 11 | whole, in 8 bytes, 11 | credit 10, also the tag */
    uint8_t deceit;   /**< enum net_deceit, modulo their number */
};
#define NET_FORGE_BATCH 0x0400u  /**< the frame has a batch header */
#define NET_FORGE_EDGE 0x1000u   /**< at the limit of a message, of memory or of a field */
#define NET_FORGE_MORE 0x2000u   /**< a second message, a wrong handle key, the last incarnation */
#define NET_FORGE_UNSENT 0x4000u /**< acknowledges unsent frames */
#define NET_FORGE_PARTLY 0x8000u /**< part of a batch or of a payload */

/** Memory of the victim that peers may write. */
struct net_memory {
    uint32_t handle_index;
    uint64_t handle_key;
};

/**
 * Write a frame with a valid header and hostile fields to `out`, as if from the peer of the
 * victim's connection. Returns its length.
 */
uint32_t net_forge(const struct rawe_conn *victim, const struct net_memory *memory,
                   const struct net_forgery *forgery, uint8_t *out);

/** Length of a CONNECT, and what net_forge_connect returns. */
#define NET_CONNECT_BYTES (RAWE_PAYLOAD_OFFSET + RAWE_CONNECT_BYTES + RAWE_CHECKSUM_BYTES)
/** Write the CONNECT of a connection's peer, which has this id, or its reply to ours. */
size_t net_forge_connect(const struct rawe_conn *victim, uint32_t connection_id, bool reply,
                         uint8_t out[NET_CONNECT_BYTES]);

/** Number of changes that net_forge_change knows, and the number of the one that cuts a frame. */
#define NET_FORGE_CHANGES 25u
#define NET_FORGE_CUT 23u
/** Change a frame and correct its checksum. Returns the new length, which may be shorter. */
uint32_t net_forge_change(uint8_t *bytes, uint32_t len_bytes, unsigned change, uint32_t value,
                          uint32_t more);

/** Flip a bit (0 to 47) of a packet's key and port, as from a sender that does not know them. */
void net_forge_strange(uint8_t *bytes, uint32_t len_bytes, const struct rawe_engine *victim,
                       unsigned bit);
/** Write arbitrary bytes that begin like a frame or a batch. */
void net_forge_noise(uint8_t *out, uint32_t len_bytes, bool batch, uint64_t seed);

#endif
