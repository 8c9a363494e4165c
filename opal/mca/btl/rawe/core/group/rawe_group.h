/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Group delivery: messages from any member of a fixed group, the root of that message, to all
 * others by multicast. Each is delivered exactly once, in the order in which its root sent them.
 *
 * A root numbers its frames, and keeps them until all members have acknowledged them:
 *
 *        base               sent    next        base + window
 *   ......|..................|.......|...........|
 *   stable  some members lack  link    free
 *           these              was full
 *
 * Each frame is multicast once, and may be lost. Everything else uses control messages over the
 * connections between members, which are reliable. A root requests
 * acknowledgements with a frame when the window is half full, and with a STATUS when it has been
 * silent. A tree collects them: each member acknowledges for all below it, and the STATUS travels
 * down the same tree. A member that misses a frame for a while sends a NACK to the root, which
 * repairs the frame over the connection. A member that hears no multicast at all is served in this
 * way. If that lasts, the root marks its next message as the group's last.
 *
 * A message of many frames travels in batches, packets that the link cuts into frames. Losses among
 * those are repaired frame by frame.
 *
 * With some frames in flight, a short message whose owner sends many may be held back so that
 * others share its frame: until that is full, a message that must not wait is sent, or the owner
 * makes progress.
 *
 * No member is given up, however long it is silent: connections detect deaths. rawe_group_ask sends
 * something to those that a member waits for.
 *
 * No I/O and no clock: time comes with each call. One thread at a time; callbacks may send.
 *
 * A member may leave once rawe_group_done returns true: all members have its messages, and it has
 * acknowledged for its subtree, so no other member waits for it.
 */
#ifndef RAWE_GROUP_H
#define RAWE_GROUP_H

#include "rawe_group_config.h"

/** A message to send. The caller owns it and its data until `done`, maybe before it is sent. */
struct rawe_group_send {
    struct rawe_group_send *next;
    /** All of it is in frames, so its memory is free. Called from send, receive or progress. */
    void (*done)(struct rawe_group_send *send);
    const uint8_t *data;
    uint32_t len_bytes;
    bool batches;          /**< send it in batches: not empty, and the group has segment_bytes */
    bool may_wait;         /**< hold it back: more messages, or progress, are likely to follow */
    bool last;             /**< internal: the group's last message */
    uint32_t framed_bytes; /**< internal */
};

struct rawe_group_frame;
struct rawe_group_stream;

/** Another member. */
struct rawe_group_member {
    struct rawe_group_stream *stream; /**< NULL: it has sent nothing */
    struct rawe_group_member *next_waiting;
    uint64_t judged_ns;   /**< when it started to request frames; 0: at its next NACK */
    uint64_t asked_ns;    /**< when it last requested any */
    uint32_t judged_from; /**< of our frames from here on... */
    uint32_t lacked;      /**< ... it has requested this many, ... */
    uint32_t requested;   /**< ... all of them before this one */
    bool waiting;         /**< in the group's list */
};

struct rawe_group {
    struct rawe_group_config config;
    struct rawe_group_member *members; /**< NULL before the first frame in either direction */
    /* as root */
    struct rawe_group_frame *window;      /**< by sequence number; NULL: all is stable */
    struct rawe_group_send *first, *last; /**< not wholly in frames */
    uint32_t base, sent, next;
    uint32_t children[RAWE_GROUP_CHILDREN]; /**< members below have everything before this */
    uint32_t asked;                         /**< acknowledgements were requested up to here */
    uint32_t deaf;      /**< a member that hears no multicast; RAWE_GROUP_ALL: none */
    uint64_t status_ns; /**< next STATUS; 0: none */
    uint64_t held_ns;   /**< since when the last frame is held back; 0: not held back */
    bool withheld;      /**< set by the owner, who has frames not handed up: no NACKs */
    bool framing;       /**< frame_messages is running */
    /* as member of other roots' groups */
    struct rawe_group_member *waiting; /**< their streams have a timer, or something to deliver */
};

/** Initialize a group, which must not move in memory. Allocates nothing yet. */
void rawe_group_init(struct rawe_group *group, const struct rawe_group_config *config);

/** Free all memory. Does not call `done` of unfinished sends. Not to be called from a callback. */
void rawe_group_free(struct rawe_group *group);

/**
 * Send a message to all other members; the caller has set all but the internal fields. Returns
 * false, and takes nothing, when out of memory.
 */
bool rawe_group_send(struct rawe_group *group, struct rawe_group_send *send, uint64_t now_ns);

/**
 * Read a multicast frame; `bytes` begin after the Ethernet header. Returns its payload, or NULL if
 * the frame is dropped, which is counted.
 */
const uint8_t *rawe_group_read(struct rawe_group_header *header, const uint8_t *bytes,
                               size_t len_bytes, struct rawe_group_counters *counters);

/** Process a frame, or a packet with frames of a batch, placed by rawe_group_place or anywhere. */
void rawe_group_receive(struct rawe_group *group, const struct rawe_group_header *header,
                        const uint8_t *payload, uint64_t now_ns);

/** Process a control message from a member. */
void rawe_group_receive_control(struct rawe_group *group, uint32_t from, const uint8_t *bytes,
                                size_t len_bytes, uint64_t now_ns);

/** Return where to receive the data of a batch's packet; NULL: anywhere. */
uint8_t *rawe_group_place(const struct rawe_group *group, const struct rawe_group_header *header);

/** Run due timers, send what the link refused, and deliver what the owner refused. */
void rawe_group_progress(struct rawe_group *group, uint64_t now_ns);

/** Return when rawe_group_progress is next needed, at the latest; UINT64_MAX: not at all. */
uint64_t rawe_group_next_ns(const struct rawe_group *group);

/**
 * Send a control message to `root`, whose message the owner awaits, and to the next member, or down
 * the tree if the owner awaits acknowledgements (RAWE_GROUP_ALL). This detects deaths and requests
 * again what was dropped for want of memory. To be called after a long wait.
 */
void rawe_group_ask(struct rawe_group *group, uint32_t root);

/** Return true if all have what this member sent, and wait for none of its acknowledgements. */
bool rawe_group_done(const struct rawe_group *group);

#endif
