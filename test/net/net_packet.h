/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Frames and batches as they cross the in-memory network: the engine's output becomes bytes, and
 * the invariants of every frame are checked. The harness decides which bytes are delivered,
 * and when.
 *
 * A packet with a batch header has the EtherType of IPv4 but, as above the link, no IPv4 header.
 */
#ifndef NET_PACKET_H
#define NET_PACKET_H

#include <stdbool.h>
#include <stdint.h>

#include "conn/rawe_conn_state.h"

/** Bytes that the link inserts before a batch header. */
#define NET_BATCH_OVERHEAD_BYTES 20u

/** Bytes before a batch's data: Ethernet header and batch header. */
#define NET_BATCH_HEAD_BYTES (RAWE_ETH_HEADER_BYTES + RAWE_BATCH_HEADER_BYTES)

/** A packet with a batch header. */
struct net_batch {
    const uint8_t *bytes;
    uint32_t len_bytes;     /**< Ethernet header included */
    uint32_t segment_bytes; /**< data per frame except the last; 0: a single frame */
};

/** Write a frame that the engine sends to `out`: view->len_bytes bytes. */
void net_frame_linearize(const struct rawe_engine *engine, const struct rawe_frame *view,
                         uint8_t *out, struct rawe_header *header);

/** Write an Ethernet header. */
void net_frame_address(uint8_t *out, const uint8_t *destination, const uint8_t *source);
/**
 * Complete a frame from a sender that knows the victim's port and key, given the payload and
 * `header`. Returns the frame's length.
 */
uint32_t net_frame_forge(uint8_t *out, const struct rawe_engine *victim, const uint8_t *source,
                         struct rawe_header *header);

/** Write a batch that the engine sends to `out`: packet->len_bytes bytes. */
struct net_batch net_batch_linearize(const struct rawe_engine *engine,
                                     const struct rawe_frame *packet, uint32_t segment_bytes,
                                     uint8_t *out);

/**
 * Write only the NET_BATCH_HEAD_BYTES of a batch's headers; its data stays in the sender's memory.
 * Pass the result only to net_batch_frames, net_batch_frame_bytes and net_batch_cut_head.
 */
struct net_batch net_batch_describe(const struct rawe_engine *engine,
                                    const struct rawe_frame *packet, uint32_t segment_bytes,
                                    uint8_t *head);

/** Return true if the packet has a batch header. */
bool net_is_batch(const uint8_t *bytes, uint32_t len_bytes);

/** Return the number of frames in a batch. */
uint32_t net_batch_frames(const struct net_batch *batch);
/** Return the length of frame `index` with its own headers. */
uint32_t net_batch_frame_bytes(const struct net_batch *batch, uint32_t index);
/** Write frame `index` to `out`. */
void net_batch_cut(const struct net_batch *batch, uint32_t index, uint8_t *out);
/** Write only the headers of frame `index`. */
void net_batch_cut_head(const struct net_batch *batch, uint32_t index, uint8_t *head);
/** Decode the header of a one-frame packet. Returns false if the header is invalid. */
bool net_batch_header(const uint8_t *bytes, uint32_t len_bytes, struct rawe_header *header);
/** Write the TCP checksum into a one-frame packet, like the sending device. */
void net_batch_sum(uint8_t *bytes, uint32_t len_bytes);
/** Return true if the TCP checksum is right, for packets that neither NIC nor kernel verified. */
bool net_batch_sum_right(const uint8_t *bytes, uint32_t len_bytes);
/**
 * Return true if GRO would merge `frame` into the preceding packet of `len_bytes`, whose first
 * frame had `first_bytes`. The rules are those of tcp_gro_receive. Reads only the headers.
 */
bool net_batch_joins(const uint8_t *packet, uint32_t len_bytes, uint32_t first_bytes,
                     const uint8_t *frame, uint32_t frame_bytes);
/** Append a frame to a packet, whose memory must have room for it. Returns the new length. */
uint32_t net_batch_join(uint8_t *packet, uint32_t len_bytes, const uint8_t *frame,
                        uint32_t frame_bytes);

#endif
