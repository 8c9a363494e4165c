/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Frames and batches of frames as they cross the network in memory: what an engine sends becomes
 * bytes, and all that must hold of every frame is checked on the way. When bytes travel, and what
 * befalls them, is the harness's business.
 */
#ifndef NET_PACKET_H
#define NET_PACKET_H

#include <stdbool.h>
#include <stdint.h>

#include "rawe_engine_state.h"

/** What the envelope of a batch takes from the payload of each frame. */
#define NET_BATCH_OVERHEAD_BYTES 28u

/** A batch: one Ethernet header, behind it frames without theirs. */
struct net_batch {
    const uint8_t *bytes;
    uint32_t len_bytes;     /**< Ethernet header included */
    uint32_t segment_bytes; /**< of each frame but the last, which may be shorter */
};

/** Write a frame that the engine sends to `out`, view->len_bytes of it. */
void net_frame_linearize(const struct rawe_engine *engine, const struct rawe_frame *view,
                         uint8_t *out, struct rawe_header *header);

/** Write an Ethernet header. */
void net_frame_address(uint8_t *out, const uint8_t *destination, const uint8_t *source);
/**
 * Complete a frame that somebody sends who knows the victim's port and key: all but the payload and
 * what of the header is given. Returns its length, a checksum included where the victim wants one.
 */
uint32_t net_frame_forge(uint8_t *out, const struct rawe_engine *victim, const uint8_t *source,
                         struct rawe_header *header);

/** Length of the batch that the engine sends as these frames. */
uint32_t net_batch_measure(const struct rawe_engine *engine, const struct rawe_frame *frames,
                           unsigned count);
/** Write the batch to `out`, of the length that net_batch_measure returns. */
struct net_batch net_batch_linearize(const struct rawe_engine *engine,
                                     const struct rawe_frame *frames, unsigned count, uint8_t *out);

/** How many frames a batch is cut into: 0 when nothing is behind the Ethernet header. */
uint32_t net_batch_frames(const struct net_batch *batch);
/** Length of frame `index` with an Ethernet header of its own. */
uint32_t net_batch_frame_bytes(const struct net_batch *batch, uint32_t index);
/** The header of that frame. False: it is none. */
bool net_batch_header(const struct net_batch *batch, uint32_t index, struct rawe_header *header);
/** Write that frame to `out`. */
void net_batch_cut(const struct net_batch *batch, uint32_t index, uint8_t *out);
/** Add a frame to the batch of `len_bytes` at `out`; 0: it is the first. Returns the new length. */
uint32_t net_batch_join(uint8_t *out, uint32_t len_bytes, const uint8_t *frame,
                        uint32_t frame_bytes);

#endif
