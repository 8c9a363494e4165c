/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Frames and batches of frames as they cross the network in memory: what an engine sends becomes
 * bytes, and all that must hold of every frame is checked on the way. When bytes travel, and what
 * becomes of them, is the harness's business.
 *
 * What has a batch header carries the EtherType of IPv4, as behind the link, and no IPv4 header.
 */
#ifndef NET_PACKET_H
#define NET_PACKET_H

#include <stdbool.h>
#include <stdint.h>

#include "conn/rawe_conn_state.h"

/** What the link puts in front of a batch header. */
#define NET_BATCH_OVERHEAD_BYTES 20u

/** In front of a batch's data: Ethernet header and batch header. */
#define NET_BATCH_HEAD_BYTES (RAWE_ETH_HEADER_BYTES + RAWE_BATCH_HEADER_BYTES)

/** A packet with a batch header. */
struct net_batch {
    const uint8_t *bytes;
    uint32_t len_bytes;     /**< Ethernet header included */
    uint32_t segment_bytes; /**< data of each frame but the last; 0: it is one frame */
};

/** Write a frame that the engine sends to `out`, view->len_bytes of it. */
void net_frame_linearize(const struct rawe_engine *engine, const struct rawe_frame *view,
                         uint8_t *out, struct rawe_header *header);

/** Write an Ethernet header. */
void net_frame_address(uint8_t *out, const uint8_t *destination, const uint8_t *source);
/**
 * Complete a frame of a sender that knows the victim's port and key: all but the payload and
 * what of the header is given. Returns its length.
 */
uint32_t net_frame_forge(uint8_t *out, const struct rawe_engine *victim, const uint8_t *source,
                         struct rawe_header *header);

/** Write a batch that the engine sends to `out`, packet->len_bytes of it. */
struct net_batch net_batch_linearize(const struct rawe_engine *engine,
                                     const struct rawe_frame *packet, uint32_t segment_bytes,
                                     uint8_t *out);

/**
 * The same of its headers only, NET_BATCH_HEAD_BYTES: its data stays in the sender's memory, and of
 * what follows only net_batch_frames, net_batch_frame_bytes and net_batch_cut_head may be used.
 */
struct net_batch net_batch_describe(const struct rawe_engine *engine,
                                    const struct rawe_frame *packet, uint32_t segment_bytes,
                                    uint8_t *head);

/** Has it a batch header? */
bool net_is_batch(const uint8_t *bytes, uint32_t len_bytes);

/** How many frames a batch is cut into. */
uint32_t net_batch_frames(const struct net_batch *batch);
/** Length of frame `index` with headers of its own. */
uint32_t net_batch_frame_bytes(const struct net_batch *batch, uint32_t index);
/** Write that frame to `out`. */
void net_batch_cut(const struct net_batch *batch, uint32_t index, uint8_t *out);
/** Write its headers only. */
void net_batch_cut_head(const struct net_batch *batch, uint32_t index, uint8_t *head);
/** The header of a packet of one frame. False: it is none. */
bool net_batch_header(const uint8_t *bytes, uint32_t len_bytes, struct rawe_header *header);
/** Write TCP's checksum into a packet of one frame, as the device does that sends it. */
void net_batch_sum(uint8_t *bytes, uint32_t len_bytes);
/** Return true if that is right: for a packet that neither NIC nor kernel verified. */
bool net_batch_sum_right(const uint8_t *bytes, uint32_t len_bytes);
/**
 * Does GRO merge `frame` to the packet before it, of `len_bytes`, whose first frame had
 * `first_bytes`? The rules are those of tcp_gro_receive. Reads the headers only.
 */
bool net_batch_joins(const uint8_t *packet, uint32_t len_bytes, uint32_t first_bytes,
                     const uint8_t *frame, uint32_t frame_bytes);
/** Merge them, in memory with room for both. Returns the new length. */
uint32_t net_batch_join(uint8_t *packet, uint32_t len_bytes, const uint8_t *frame,
                        uint32_t frame_bytes);

#endif
