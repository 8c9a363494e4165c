/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Group delivery: the frames that a member receives from one root. They are delivered in order and
 * acknowledged; each missing frame is requested once:
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
    uint64_t nack_ns;       /**< time of the next NACK; 0: all missing frames were requested */
    uint32_t next;          /**< all frames before this one are delivered */
    uint32_t end;           /**< all frames before this one are known to exist */
    uint32_t asked;         /**< missing frames before this one were requested */
    uint32_t nack_end;      /**< the NACK names only frames before this; later ones may be late */
    uint32_t stored_frames; /**< number of frames in `stored`, all between next and end */
    uint32_t acked;         /**< acknowledged up to here, for the whole subtree */
    uint32_t total_bytes;   /**< of the message in progress */
    uint32_t at_bytes;      /**< delivered part of that message; 0: none is in progress */
    uint32_t shared_bytes;  /**< delivered part of the SHARED frame `next` */
    uint32_t ask;           /**< an acknowledgement up to here was requested along the tree */
    uint32_t children[RAWE_GROUP_CHILDREN]; /**< the subtree has all frames before this one */
    bool owes;                              /**< the acknowledgement of `ask` is still owed */
    bool heard;                             /**< a frame has arrived by multicast, not in a batch */
    bool batches;                           /**< a batch has arrived */
    bool refused;                           /**< the owner has refused the frame `next` */
};

/** Create a stream; NULL when out of memory. The caller keeps ownership of `config`. */
struct rawe_group_stream *rawe_group_stream_new(const struct rawe_group_config *config,
                                                uint32_t root);

/** Free a stream, which may be NULL. */
void rawe_group_stream_free(struct rawe_group_stream *stream);

/** Return where the owner wants this part of a batch; NULL: anywhere, or the part is not next. */
uint8_t *rawe_group_stream_place(const struct rawe_group_stream *stream,
                                 const struct rawe_group_header *header);

/** Process a frame, or frames of a batch, from the root. */
void rawe_group_stream_receive(struct rawe_group_stream *stream,
                               const struct rawe_group_header *header, const uint8_t *payload,
                               uint64_t now_ns);

/** Process a piece of a repaired frame. */
void rawe_group_stream_repair(struct rawe_group_stream *stream,
                              const struct rawe_group_control *control, uint64_t now_ns);

/** Process a STATUS from the root, or from our parent in its tree. */
void rawe_group_stream_status(struct rawe_group_stream *stream,
                              const struct rawe_group_control *control, uint64_t now_ns);

/** Process an ACK from a member, which need not be our child in the root's tree. */
void rawe_group_stream_acked(struct rawe_group_stream *stream, uint32_t from, uint32_t next);

/**
 * Run due timers, and deliver frames that the owner refused. `withheld`: the owner may hold frames
 * that seem to be missing.
 */
void rawe_group_stream_progress(struct rawe_group_stream *stream, bool withheld, uint64_t now_ns);

/** Return true if rawe_group_stream_progress must be called. */
static inline bool rawe_group_stream_waits(const struct rawe_group_stream *stream)
{
    return stream->nack_ns != 0 || stream->refused;
}

#endif
