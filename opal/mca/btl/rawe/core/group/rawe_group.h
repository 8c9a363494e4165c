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
 * Multicast carries the frames, each once, and may lose them. All else goes by control messages over
 * the connections that members have to each other, which are reliable: so nothing is repeated here. A
 * root asks for acknowledgements with a frame when the window is half full, and by a STATUS when it has
 * been silent. Both are answered by a tree, in which each member acknowledges for all below it; the
 * STATUS goes down the same tree. A member that misses a frame for a while sends a NACK to the root,
 * which repairs the frame over the connection: one that hears no multicast at all is served like this.
 * If that lasts, the root says with its next message that it is the group's last.
 *
 * A message of many frames goes in batches, packets that the link cuts into frames; what is lost of
 * them is repaired frame by frame.
 *
 * With some frames in flight a short message whose owner sends many may wait, so that others share its
 * frame: until that is full, a message that must not wait is sent, or the owner makes progress.
 *
 * No member is given up, however long it is silent: connections find deaths. rawe_group_ask sends
 * something to those that a member waits for.
 *
 * No I/O and no clock: time comes with each call. One thread at a time; callbacks may send.
 *
 * The end: a member may leave once rawe_group_done. Then all have what it has sent, and what it has
 * received is acknowledged for all below it: no other member waits for it.
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
    bool last;             /**< the group's: it is the last message */
    uint32_t framed_bytes; /**< the group's */
};

struct rawe_group_frame;
struct rawe_group_stream;

/** What is known of a member. */
struct rawe_group_member {
    struct rawe_group_stream *stream; /**< NULL: it has sent nothing */
    struct rawe_group_member *next_waiting;
    uint64_t judged_ns;   /**< when it began to ask for frames; 0: at its next NACK */
    uint64_t asked_ns;    /**< when it asked for some last */
    uint32_t judged_from; /**< of our frames from here on... */
    uint32_t lacked;      /**< ... it has asked for this many */
    bool waiting;         /**< is in the group's list */
};

struct rawe_group {
    struct rawe_group_config config;
    struct rawe_group_member *members; /**< NULL before the first frame in either direction */
    /* as root */
    struct rawe_group_frame *window;      /**< by sequence number; NULL: all is stable */
    struct rawe_group_send *first, *last; /**< not wholly in frames */
    uint32_t base, sent, next;
    uint32_t children[RAWE_GROUP_CHILDREN]; /**< members below have everything before this */
    uint32_t asked;                         /**< the tree was asked up to here */
    uint32_t deaf;      /**< a member that hears no multicast; RAWE_GROUP_ALL: none is known */
    uint64_t status_ns; /**< next STATUS; 0: none */
    uint64_t held_ns;   /**< since when the last frame waits for more messages; 0: it does not */
    bool withheld;      /**< the owner's: frames have come that it has not handed up: no NACKs */
    bool framing;       /**< a call of frame_messages is under way */
    /* as member of other roots' groups */
    struct rawe_group_member *waiting; /**< their streams have a timer, or are to be delivered */
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

/**
 * Read a multicast frame; `bytes` begin behind the Ethernet header. Returns its payload, or NULL, and
 * counts that it is dropped.
 */
const uint8_t *rawe_group_read(struct rawe_group_header *header, const uint8_t *bytes,
                               size_t len_bytes, struct rawe_group_counters *counters);

/** Such a frame has come, or a packet with frames of a batch, placed by rawe_group_place or anywhere. */
void rawe_group_receive(struct rawe_group *group, const struct rawe_group_header *header,
                        const uint8_t *payload, uint64_t now_ns);

/** A control message of a member has come. */
void rawe_group_receive_control(struct rawe_group *group, uint32_t from, const uint8_t *bytes,
                                size_t len_bytes, uint64_t now_ns);

/** Where to receive the data of a packet of a batch; NULL: anywhere. */
uint8_t *rawe_group_place(const struct rawe_group *group, const struct rawe_group_header *header);

/** Run what is due, send what the link had no room for, offer again what was not delivered. */
void rawe_group_progress(struct rawe_group *group, uint64_t now_ns);

/** When rawe_group_progress has something to do at the latest; UINT64_MAX: nothing. */
uint64_t rawe_group_next_ns(const struct rawe_group *group);

/**
 * The owner waits for long: send something to `root`, whose message it waits for, and to the next
 * member, or with RAWE_GROUP_ALL, for acknowledgements, down the tree, so that each death is noticed.
 * It also heals what a lack of memory has lost.
 */
void rawe_group_ask(struct rawe_group *group, uint32_t root);

/** All have what this member has sent, and no other waits for an acknowledgement that it passes on. */
bool rawe_group_done(const struct rawe_group *group);

#endif
