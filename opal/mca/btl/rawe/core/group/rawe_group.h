/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Group delivery: multicast messages from any member of a fixed group, the message's root, to all
 * others. Each message is delivered exactly once, in the order in which its root sent them.
 *
 * A root numbers its frames, and keeps them until all members have acknowledged them:
 *
 *        base               sent    next        base + window
 *   ......|..................|.......|...........|
 *   stable  some members lack  link    free
 *           these              was full
 *
 * Each frame is multicast once, and may be lost. Everything else uses control messages over the
 * connections between members, which are reliable. A root requests acknowledgements in a frame when
 * the window is half full, and with a STATUS after a silence. A tree collects them: each member
 * acknowledges for all below it, and a STATUS is forwarded down the same tree. A member that has
 * missed a frame for a while sends a NACK to the root, which repairs the frame over the connection.
 * A member that hears no multicast at all receives everything in this way. If it persists, the root
 * marks its next message as the group's last.
 *
 * A message of many frames is sent in batches, packets that the link cuts into frames. Lost frames
 * of a batch are repaired one by one.
 *
 * With some frames in flight, a short message may be held back so that later ones share its frame,
 * if its owner sends many. The frame is sent when it is full, when a message must not wait, or when
 * the owner makes progress.
 *
 * Without memory, a control message is not sent. The owner calls rawe_group_ask after a long wait,
 * which replaces the message.
 *
 * No member is given up on, however long it is silent: the connections detect dead processes.
 * rawe_group_ask sends something to the members that this one is waiting for.
 *
 * No I/O and no clock: each call passes in the time. One thread at a time; callbacks may send.
 *
 * A member may leave once rawe_group_done returns true: all members have its messages, and it has
 * acknowledged for its subtree, so no other member waits for it.
 */
#ifndef RAWE_GROUP_H
#define RAWE_GROUP_H

#include "rawe_group_config.h"

/** A message to send. The caller must keep it and its data until `done`, even if already sent. */
struct rawe_group_send {
    struct rawe_group_send *next;
    /** All data is in frames; its memory may be reused. Called from send, receive or progress. */
    void (*done)(struct rawe_group_send *send);
    const uint8_t *data;
    uint32_t len_bytes;
    bool batches;          /**< send it in batches; it must not be empty, nor segment_bytes 0 */
    bool may_wait;         /**< it may be held back: more messages, or progress, will follow soon */
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
    uint64_t asked_ns;    /**< when it last requested frames */
    uint32_t judged_from; /**< from this one of our frames on, ... */
    uint32_t lacked;      /**< ... it has requested this many frames, ... */
    uint32_t requested;   /**< ... all of them before this one */
    bool waiting;         /**< in the group's list */
};

struct rawe_group {
    struct rawe_group_config config;
    struct rawe_group_member *members; /**< NULL before the first frame in either direction */
    /* as root */
    struct rawe_group_frame *window;      /**< by sequence number; NULL: all frames are stable */
    struct rawe_group_send *first, *last; /**< queue of messages not yet fully in frames */
    uint32_t base, sent, next;
    uint32_t children[RAWE_GROUP_CHILDREN]; /**< the subtree has all frames before this one */
    uint32_t asked;                         /**< acknowledgements were requested up to here */
    uint32_t deaf;      /**< a member that hears no multicast; RAWE_GROUP_ALL: none */
    uint64_t status_ns; /**< next STATUS; 0: none */
    uint64_t held_ns;   /**< since when the last frame has been held back; 0: not held back */
    bool withheld;      /**< set by the owner while it keeps frames from us: no NACKs */
    bool framing;       /**< frame_messages is running */
    /* as a member that receives from other roots */
    struct rawe_group_member *waiting; /**< their streams have a timer, or something to deliver */
};

/** Initialize a group, which must not move in memory. Allocates nothing yet. */
void rawe_group_init(struct rawe_group *group, const struct rawe_group_config *config);

/** Free all memory, without calling `done` of unfinished sends. Do not call from a callback. */
void rawe_group_free(struct rawe_group *group);

/**
 * Send a message to all other members. The caller sets all fields except the internal ones. Returns
 * false, without taking the message, when out of memory.
 */
bool rawe_group_send(struct rawe_group *group, struct rawe_group_send *send, uint64_t now_ns);

/**
 * Decode a multicast frame; `bytes` begin after the Ethernet header. Returns its payload, or NULL
 * if the frame is dropped and counted.
 */
const uint8_t *rawe_group_read(struct rawe_group_header *header, const uint8_t *bytes,
                               size_t len_bytes, struct rawe_group_counters *counters);

/** Process a frame, or a packet with frames of a batch, at rawe_group_place's address or not. */
void rawe_group_receive(struct rawe_group *group, const struct rawe_group_header *header,
                        const uint8_t *payload, uint64_t now_ns);

/** Process a control message from a member. */
void rawe_group_receive_control(struct rawe_group *group, uint32_t from, const uint8_t *bytes,
                                size_t len_bytes, uint64_t now_ns);

/** Return where to receive the data of a batch's packet; NULL: anywhere. */
uint8_t *rawe_group_place(const struct rawe_group *group, const struct rawe_group_header *header);

/** Run due timers, send what the link refused, and deliver what the owner refused. */
void rawe_group_progress(struct rawe_group *group, uint64_t now_ns);

/** Return the latest time for the next call of rawe_group_progress; UINT64_MAX: none is needed. */
uint64_t rawe_group_next_ns(const struct rawe_group *group);

/**
 * Send a control message to `root`, whose message the owner awaits, and to the next member; or down
 * the tree, to those that have not acknowledged, if the owner awaits acknowledgements
 * (RAWE_GROUP_ALL). This detects dead members, and requests messages dropped for lack of memory.
 * Call it after a long wait, also for a group whose other members need only acknowledge.
 */
void rawe_group_ask(struct rawe_group *group, uint32_t root);

/** Return true if all members have our messages and none is waiting for our acknowledgement. */
bool rawe_group_done(const struct rawe_group *group);

#endif
