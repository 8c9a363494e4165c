/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Frames that no receiver should believe: of an attacker who knows keys, ports, connection ids and
 * numbers, and of one who does not. What such a frame says is a stream of choices.
 */
#ifndef NET_FORGE_H
#define NET_FORGE_H

#include "conn/rawe_conn_state.h"

/** Longest frame that is forged. */
#define NET_FORGED_BYTES_MAX 4096u

/** What is wrong apart from the numbers of a forgery. */
enum net_deceit {
    NET_DECEIT_NONE,
    NET_DECEIT_UNKNOWN_PEER, /**< key or port are not the victim's: it must change nothing */
    NET_DECEIT_CONNECTION,   /**< another connection id */
    NET_DECEIT_VPID,         /**< another process */
    NET_DECEIT_KEY,          /**< of another process */
    NET_DECEIT_PORT,
    NET_DECEIT_NOISE,  /**< the payload is any bytes */
    NET_DECEIT_LENGTH, /**< a fragment has another length than it says */
    NET_DECEIT_HANDLE, /**< of other memory */
    NET_DECEIT_TOTAL,  /**< a message about as long as any may be */
    NET_DECEITS
};

/** All that is chosen; each bit means something to some kind of frame. */
struct net_forgery {
    uint16_t what;    /**< type 4 | kind of fragment 3 | flags, NET_FORGE_... 9 */
    uint32_t numbers; /**< sequence 16 | acknowledgement 16: how far from those expected */
    uint32_t place;   /**< offset 24, handle or message 8 */
    uint32_t lengths; /**< data 11 | whole, in 8 bytes, 11 | credit 10, which are the tag, too */
    uint8_t deceit;   /**< enum net_deceit, modulo their number */
};
#define NET_FORGE_BATCH 0x0400u  /**< the frame has a batch header */
#define NET_FORGE_EDGE 0x1000u   /**< at an end: of a message, of memory, of what bits can say */
#define NET_FORGE_MORE 0x2000u   /**< a second message, a wrong handle key, the last incarnation */
#define NET_FORGE_UNSENT 0x4000u /**< acknowledges what has not been sent */
#define NET_FORGE_PARTLY 0x8000u /**< some of a batch, or not all of a payload */

/** Memory of the victim's that peers may write. */
struct net_memory {
    uint32_t handle_index;
    uint64_t handle_key;
};

/**
 * Write a frame with a valid header to `out`, as the peer of that connection would send it to its
 * owner, and hostile fields. Returns its length.
 */
uint32_t net_forge(const struct rawe_conn *victim, const struct net_memory *memory,
                   const struct net_forgery *forgery, uint8_t *out);

/** What net_forge_change can do: change a field, cut the frame short, change data. */
#define NET_FORGE_CHANGES 25u
#define NET_FORGE_CUT 23u
/**
 * Change a frame, whose checksum is set right again. It may get shorter; returns its length.
 */
uint32_t net_forge_change(uint8_t *bytes, uint32_t len_bytes, unsigned change, uint32_t value,
                          uint32_t more);

/**
 * Make a packet one of a sender that does not know the victim's key or port: bit 0 to 47 is wrong.
 */
void net_forge_strange(uint8_t *bytes, uint32_t len_bytes, const struct rawe_engine *victim,
                       unsigned bit);
/** Any bytes, with the beginning of a frame, or a batch. */
void net_forge_noise(uint8_t *out, uint32_t len_bytes, bool batch, uint64_t seed);

#endif
