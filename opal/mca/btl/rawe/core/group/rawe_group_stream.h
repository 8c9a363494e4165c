/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Group delivery: what a member receives of one root. Frames are delivered in order, missing ones
 * asked for, once, and all acknowledged:
 *
 *        next       asked    nack_end      end        next + window
 *   ......|....x..x...|..x.......|...x.......|..............|
 *   delivered    x: stored       known      not sent yet
 *                - missing        for a moment only
 */
#ifndef RAWE_GROUP_STREAM_H
#define RAWE_GROUP_STREAM_H

#include "rawe_group_config.h"

struct rawe_group_stored;

struct rawe_group_stream {
    const struct rawe_group_config *config;
    uint32_t root;
    struct rawe_group_stored **stored; /**< by sequence number; NULL: no frame waits */
    uint64_t nack_ns;                  /**< next NACK; 0: none, all that is missing was asked for */
    uint32_t next;                     /**< everything before it is delivered */
    uint32_t end;                      /**< every frame before it is known to exist */
    uint32_t asked;                    /**< what is missing before it was asked for */
    uint32_t nack_end; /**< the NACK is for frames before this one: the others may only be late */
    uint32_t stored_frames; /**< that are in `stored`, all between next and end */
    uint32_t acked;         /**< acknowledged up to here, for all below */
    uint32_t total_bytes;   /**< of the message that is under way */
    uint32_t at_bytes;      /**< of it, delivered; 0: no message is under way */
    uint32_t shared_bytes;  /**< of messages that share the frame `next`, delivered */
    uint32_t ask;           /**< the tree was asked up to here */
    uint32_t children[RAWE_GROUP_CHILDREN]; /**< members below have everything before this */
    bool owes;                              /**< and has not been answered */
    bool heard;                             /**< something has come by multicast */
    bool batches;                           /**< one has come */
    bool refused;                           /**< the frame `next` is there, but was not delivered */
};

/** NULL without memory. What is pointed to stays the caller's. */
struct rawe_group_stream *rawe_group_stream_new(const struct rawe_group_config *config,
                                                uint32_t root);

/** The stream may be NULL. */
void rawe_group_stream_free(struct rawe_group_stream *stream);

/** Where the owner wants the data of this part of a batch; NULL: anywhere, or it is not next. */
uint8_t *rawe_group_stream_place(const struct rawe_group_stream *stream,
                                 const struct rawe_group_header *header);

/** A frame of the root, or frames of a batch. */
void rawe_group_stream_receive(struct rawe_group_stream *stream,
                               const struct rawe_group_header *header, const uint8_t *payload,
                               uint64_t now_ns);

/** A piece of a frame. */
void rawe_group_stream_repair(struct rawe_group_stream *stream,
                              const struct rawe_group_control *control, uint64_t now_ns);

/** The root, or the parent in its tree, says what the root has sent. */
void rawe_group_stream_status(struct rawe_group_stream *stream,
                              const struct rawe_group_control *control, uint64_t now_ns);

/** An ACK of a member, which need not be below this one in the tree of the root. */
void rawe_group_stream_acked(struct rawe_group_stream *stream, uint32_t from, uint32_t next);

/**
 * Run what is due, offer again what was not delivered; `withheld`: what seems to be missing may have
 * come.
 */
void rawe_group_stream_progress(struct rawe_group_stream *stream, bool withheld, uint64_t now_ns);

/** Progress is to be called. */
static inline bool rawe_group_stream_waits(const struct rawe_group_stream *stream)
{
    return stream->nack_ns != 0 || stream->refused;
}

#endif
