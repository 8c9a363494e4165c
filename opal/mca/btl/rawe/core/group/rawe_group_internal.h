/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the two halves of group delivery share: rawe_group.c, which sends as root and sorts what comes
 * in, and below it rawe_group_stream.c, which receives what other roots send.
 */
#ifndef RAWE_GROUP_INTERNAL_H
#define RAWE_GROUP_INTERNAL_H

#include "rawe_group.h"

struct rawe_group_stored;

/** The frames of a root, as a member receives them. */
struct rawe_group_stream {
    struct rawe_group_stream *next_waiting;
    struct rawe_group_stored **stored; /**< by sequence number; NULL: no frame waits */
    uint64_t heard_ns;                 /**< when a frame of the root came last */
    uint64_t nack_ns;  /**< next NACK, or look at a root that is silent; 0: nothing is missing */
    uint64_t retry_ns; /**< from one NACK to the next */
    uint32_t root;
    uint32_t next;     /**< everything before it is delivered */
    uint32_t end;      /**< every frame before it is known to exist */
    uint32_t nack_end; /**< the NACK is for frames before this one: later ones may only be late */
    uint32_t stored_frames;                 /**< that are in `stored`, all between next and end */
    uint32_t acked;                         /**< what was acknowledged last */
    uint32_t total_bytes;                   /**< of the message that is under way */
    uint32_t at_bytes;                      /**< of it, delivered; 0: no message is under way */
    uint32_t ask;                           /**< the tree was asked up to here */
    uint32_t children[RAWE_GROUP_CHILDREN]; /**< members below have everything before this */
    uint8_t tries;                          /**< NACKs, or looks, since the root was heard */
    bool asked;                             /**< and has not been answered */
    bool gap;                               /**< nack_ns is for missing frames */
    bool refused;                           /**< the frame `next` is there, but was not delivered */
    bool waiting;                           /**< is in the group's list */
};

static inline uint32_t rawe_group_first_sequence(const struct rawe_group *group)
{
    return (uint32_t)group->config.id;
}

/** The earlier one of two deadlines; 0: a is none. */
static inline uint64_t rawe_group_earlier(uint64_t a_ns, uint64_t b_ns)
{
    return a_ns != 0 && a_ns < b_ns ? a_ns : b_ns;
}

/** Room for any frame but DATA. */
#define RAWE_GROUP_CONTROL_BYTES_MAX \
    (RAWE_GROUP_HEADER_BYTES + RAWE_GROUP_NACK_BYTES_MAX + RAWE_CHECKSUM_BYTES)

_Static_assert(RAWE_GROUP_ASKED_MAX * 2 <= RAWE_GROUP_NACK_BYTES_MAX, "the list has room");

/** Write header and checksum of a frame whose payload is in its place. Returns all of it. */
struct rawe_bytes rawe_group_seal(const struct rawe_group *group, uint8_t *bytes,
                                  struct rawe_group_header *header);

/** Position in the tree of a root, which itself is at 0: those below p are 8 p + 1 to 8 p + 8. */
uint32_t rawe_group_position(const struct rawe_group *group, uint32_t member, uint32_t root);

/** Free a member's stream, if there is one. */
void rawe_group_stream_free(struct rawe_group *group, uint32_t root);

/** DATA or HEARTBEAT of a root. */
void rawe_group_stream_receive(struct rawe_group *group, const struct rawe_group_header *header,
                               const uint8_t *payload, uint64_t now_ns);

/** An ACK from below, in the tree of another root. */
void rawe_group_stream_acked(struct rawe_group *group, const struct rawe_group_header *header,
                             uint64_t now_ns);

/**
 * Run what is due, and offer again what was not delivered. The stream has been taken out of the list
 * of those that wait, and enters it again if need be. False: the root is to be given up.
 */
bool rawe_group_stream_progress(struct rawe_group *group, struct rawe_group_stream *stream,
                                uint64_t now_ns);

#endif
