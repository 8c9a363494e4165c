/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Group delivery: messages from any member of a fixed group, the root of that message, to all the
 * others by multicast, each exactly once and in the order of sending of each root.
 *
 * A root numbers its frames, and keeps them until all members have acknowledged them:
 *
 *        base               sent    next        base + window
 *   ......|..................|.......|...........|
 *   stable  some members lack  link    free
 *           these              was full
 *
 * A member that misses a frame sends a NACK to the root, after a delay that differs between members:
 * a repair that another member asked for may make it needless. The root repairs a frame by unicast
 * for one or two members, by multicast for more (scalable reliable multicast: Floyd et al. 1997).
 * Acknowledgements ride on the frames that a member sends anyway. Where these are too few, because
 * the window is half full or the root has been silent, the root asks: first by a tree, in which each
 * member acknowledges for all below it, then those that lag one by one.
 *
 * A message of many frames goes in batches, packets that the link cuts into frames; what is lost of
 * them is repaired frame by frame.
 *
 * With some frames in flight a short message whose owner sends many may wait, so that others share its
 * frame: until that is full, a message that must not wait is sent, or the owner makes progress.
 *
 * No member is given up, however long it is silent: the owner hears of deaths by other means.
 *
 * No I/O and no clock: time comes with each call. One thread at a time; callbacks may send.
 *
 * The end: rawe_group_stable says that all have what this member has sent. It still answers others,
 * whose last acknowledgement may have been lost. So wait until it is stable, then until all others
 * say by other means (a barrier by unicast) that theirs are, and free it then.
 */
#ifndef RAWE_GROUP_H
#define RAWE_GROUP_H

#include "rawe_group_config.h"

/** A message to send. The caller owns it, and its data, until `done`, which may be before it leaves. */
struct rawe_group_send {
    struct rawe_group_send *next;
    /** All of it is in frames: the memory is free. Called from send, receive or progress. */
    void (*done)(struct rawe_group_send *send);
    const uint8_t *data;
    uint32_t len_bytes;
    bool batches;          /**< it goes in batches: not empty, and the group has segment_bytes */
    bool may_wait;         /**< more are likely to follow, or progress */
    uint32_t framed_bytes; /**< the group's */
};

struct rawe_group_frame;
struct rawe_group_stream;

/** What is known of a member. */
struct rawe_group_member {
    struct rawe_group_stream *stream; /**< NULL: it has sent nothing */
    struct rawe_group_member *next_waiting;
    uint32_t acked; /**< it has all of our frames before this one */
    bool waiting;   /**< is in the group's list */
};

struct rawe_group {
    struct rawe_group_config config;
    struct rawe_group_member *members; /**< NULL before the first frame in either direction */
    /* as root */
    struct rawe_group_frame *window;      /**< by sequence number; NULL: all is stable */
    struct rawe_group_send *first, *last; /**< not wholly in frames */
    uint32_t base, sent, next;
    uint32_t slowest;      /**< member that had acknowledged up to base only */
    uint32_t tree_asked;   /**< the tree was asked up to here... */
    uint32_t tree_repeats; /**< ... by this many heartbeats */
    uint32_t ask_cursor;   /**< member to begin with when members are asked one by one */
    uint32_t ack_cursor;   /**< member whose stream is acknowledged next */
    uint32_t heartbeats;   /**< since data was sent last */
    uint64_t heartbeat_ns; /**< next one; 0: none, all is stable */
    uint64_t repair_ns;    /**< next repair; 0: none is due */
    uint64_t held_ns;      /**< since when the last frame waits for more messages; 0: it does not */
    bool withheld;         /**< the owner's: frames have come that it has not handed up: no NACKs */
    bool framing;          /**< a call of frame_messages is under way */
    /* as member of other roots' groups */
    struct rawe_group_member *waiting; /**< their streams have a timer, or are to be delivered */
    uint32_t stored;                   /**< frames that wait, of all streams */
};

/** No memory is taken yet. The group stays where it is. */
void rawe_group_init(struct rawe_group *group, const struct rawe_group_config *config);

/** Give all memory back. `done` of sends under way is not called. Not from a callback. */
void rawe_group_free(struct rawe_group *group);

/**
 * Send a message to all other members; the fields but the group's are set. False without memory:
 * nothing was taken.
 */
bool rawe_group_send(struct rawe_group *group, struct rawe_group_send *send, uint64_t now_ns);

/** A frame has come, multicast or unicast; `bytes` begin behind the Ethernet header. */
void rawe_group_receive(struct rawe_group *group, const uint8_t *bytes, size_t len_bytes,
                        uint64_t now_ns);

/** A packet with frames of a batch has come, its data where rawe_group_place said, or anywhere. */
void rawe_group_receive_batch(struct rawe_group *group, const uint8_t *head, size_t head_bytes,
                              const uint8_t *data, size_t data_bytes, uint64_t now_ns);

/** Where to receive the data of a packet with this header; NULL: anywhere. */
uint8_t *rawe_group_place(const struct rawe_group *group, const uint8_t *head, size_t head_bytes,
                          size_t data_bytes);

/** Run what is due, send what the link had no room for, offer again what was not delivered. */
void rawe_group_progress(struct rawe_group *group, uint64_t now_ns);

/** When rawe_group_progress has something to do at the latest; UINT64_MAX: nothing. */
uint64_t rawe_group_next_ns(const struct rawe_group *group);

/** All that was sent is acknowledged by all members. */
static inline bool rawe_group_stable(const struct rawe_group *group)
{
    return group->base == group->next && group->first == NULL;
}

#endif
