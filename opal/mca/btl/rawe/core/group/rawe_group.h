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
 * No I/O and no clock: time comes with each call. One thread at a time; callbacks may send.
 */
#ifndef RAWE_GROUP_H
#define RAWE_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rawe_output.h"
#include "base/rawe_wire.h"

/** Members that each member of the tree acknowledges for at most, apart from those below them. */
#define RAWE_GROUP_CHILDREN 8u

/** How late a frame may come before it counts as missing, and per member, how far NACKs spread. */
#define RAWE_GROUP_NACK_NS 100000u
#define RAWE_GROUP_SPREAD_NS 1000u
/** A NACK without effect is repeated after this; the pauses double, up to the second. */
#define RAWE_GROUP_RETRY_NS 1000000u
#define RAWE_GROUP_RETRY_MAX_NS 64000000u
/** A root waits that long for NACKs of other members, then repairs up to this many frames. */
#define RAWE_GROUP_COLLECT_NS 50000u
#define RAWE_GROUP_REPAIR_FRAMES 32u
/** A NACK that comes sooner after a repair for the same member was sent before it came. */
#define RAWE_GROUP_HOLD_NS 500000u
/** Silence of a root before its first heartbeat; the pauses double, up to the last. */
#define RAWE_GROUP_HEARTBEAT_NS 1000000u
#define RAWE_GROUP_HEARTBEAT_MAX_NS 64000000u
/** Members that a heartbeat asks one by one. */
#define RAWE_GROUP_ASKED_MAX 64u
/** A member is given up after this many unanswered questions, at least, however long it is silent. */
#define RAWE_GROUP_QUESTIONS 8u

/** Part of a message, as it is delivered. */
struct rawe_group_part {
    uint32_t root;        /**< member that sent it */
    uint32_t total_bytes; /**< of the message */
    uint32_t at_bytes; /**< what lies before the part; the message is complete with its last part */
    uint32_t len_bytes;  /**< 0 only in an empty message */
    const uint8_t *data; /**< valid during the call */
};

/** Frames go out from behind their Ethernet headers, which the owner writes. No call back. */
struct rawe_group_output {
    /** To all members. Returns how many were taken; fewer when the send queue is full for now. */
    unsigned (*multicast)(void *context, const struct rawe_bytes *frames, unsigned count);
    /** To one member. False when the send queue is full for now. */
    bool (*unicast)(void *context, uint32_t member, const struct rawe_bytes *frame);
    void *context;
};

/** The same for all members, but for `self` and what is called. */
struct rawe_group_config {
    uint64_t id;            /**< random: the first sequence number comes from it as well */
    uint32_t key;           /**< random; not that of a session: a switch floods group frames */
    uint32_t members;       /**< 1 to RAWE_GROUP_NO_ROOT */
    uint32_t self;          /**< this member, counted from 0 */
    uint32_t payload_bytes; /**< of a frame, at most; 128 to UINT16_MAX */
    uint32_t window_frames; /**< a power of two, 2 to RAWE_WINDOW_FRAMES_MAX */
    uint32_t stored_max;    /**< frames that wait for earlier ones, of all roots together */
    uint64_t fail_ns;       /**< a silent member that is waited for is given up after this */
    bool checksum;          /**< send checksums, and require them */
    /**
     * The next part of a root's message. False: not now, call again at the next progress; the root
     * waits when its window is full.
     */
    bool (*deliver)(void *context, const struct rawe_group_part *part);
    /** A member is given up: nothing is delivered from it, no frame kept for it. Once a member. */
    void (*failed)(void *context, uint32_t member);
    void *context;
    struct rawe_group_output output;
};

struct rawe_group_counters {
    uint64_t messages_sent, messages_delivered;
    uint64_t frames_sent;     /**< DATA, each counted once */
    uint64_t frames_received; /**< DATA taken */
    uint64_t repairs_unicast, repairs_multicast;
    uint64_t repairs_suppressed; /**< frames that a NACK names although a repair is under way */
    uint64_t heartbeats_sent, nacks_sent, nacks_received, acks_sent, acks_received;
    uint64_t window_stalls;    /**< times a message waited for acknowledgements */
    uint64_t duplicates;       /**< DATA dropped: came before */
    uint64_t no_buffer;        /**< DATA dropped: no memory, or too many frames wait */
    uint64_t dropped_decode;   /**< too short, another version, type or flags, wrong lengths */
    uint64_t dropped_key;      /**< another key */
    uint64_t dropped_group;    /**< another group's id */
    uint64_t dropped_member;   /**< from or about a member that there is not, or that is given up */
    uint64_t dropped_checksum; /**< wrong, or missing */
    uint64_t dropped_outside;  /**< numbers outside of the window */
    uint64_t dropped_fragment; /**< DATA that contradicts the message it is part of */
    uint64_t members_failed;
};

/** A message to send. The caller owns it, and its data, until `done`. */
struct rawe_group_send {
    struct rawe_group_send *next;
    /** All of it is in frames: the memory is free. Called from send, receive or progress. */
    void (*done)(struct rawe_group_send *send);
    const uint8_t *data;
    uint32_t len_bytes;
    uint32_t framed_bytes; /**< the group's */
};

/** A frame of the window. */
struct rawe_group_frame {
    uint8_t *bytes; /**< header, payload, room for a checksum */
    struct rawe_group_header header;
    uint64_t repaired_ns;  /**< 0: never */
    uint16_t nack_from[2]; /**< the first that asked for it */
    uint8_t nack_count;    /**< how many did, up to 3 */
    uint8_t due;           /**< bit i: repair for nack_from[i] */
    bool due_all;          /**< repair for all */
    bool repaired_all;     /**< the last repair was multicast */
};

struct rawe_group_stream;

/** What is known of a member. */
struct rawe_group_member {
    struct rawe_group_stream *stream; /**< NULL: it has sent nothing */
    uint64_t asked_ns;                /**< when the first unanswered question was sent */
    uint32_t acked;                   /**< it has all of our frames before this one */
    uint8_t questions;                /**< unanswered */
    bool failed;
};

struct rawe_group {
    struct rawe_group_config config;
    struct rawe_group_counters counters;
    struct rawe_group_member *members; /**< NULL before the first frame in either direction */
    uint32_t alive;                    /**< members that are not given up, this one included */
    /* as root */
    struct rawe_group_frame *window;      /**< by sequence number; NULL: all is stable */
    struct rawe_group_send *first, *last; /**< not wholly in frames */
    uint32_t base, sent, next;
    uint32_t at_base;      /**< members that have acknowledged up to base only */
    uint32_t tree_asked;   /**< the tree was asked up to here */
    uint32_t ask_cursor;   /**< member to begin with when members are asked one by one */
    uint32_t ack_cursor;   /**< member whose stream is acknowledged next */
    uint32_t heartbeats;   /**< since data was sent last */
    uint64_t heartbeat_ns; /**< next one; 0: none, all is stable */
    uint64_t repair_ns;    /**< next repair; 0: none is due */
    bool framing;          /**< a call of frame_messages is under way */
    /* as member of other roots' groups */
    struct rawe_group_stream *waiting; /**< streams that have a timer, or are to be delivered */
    uint32_t stored;                   /**< frames that wait, of all streams */
};

/** No memory is taken yet. */
void rawe_group_init(struct rawe_group *group, const struct rawe_group_config *config);

/** Give all memory back. `done` of sends under way is not called. Not from a callback. */
void rawe_group_free(struct rawe_group *group);

/**
 * Send a message to all other members; `data`, `len_bytes` and `done` are set. False without memory:
 * nothing was taken.
 */
bool rawe_group_send(struct rawe_group *group, struct rawe_group_send *send, uint64_t now_ns);

/** A frame has come, multicast or unicast; `bytes` begin behind the Ethernet header. */
void rawe_group_receive(struct rawe_group *group, const uint8_t *bytes, size_t len_bytes,
                        uint64_t now_ns);

/** Run what is due, send what the link had no room for, offer again what was not delivered. */
void rawe_group_progress(struct rawe_group *group, uint64_t now_ns);

/** When rawe_group_progress has something to do at the latest; UINT64_MAX: nothing. */
uint64_t rawe_group_next_ns(const struct rawe_group *group);

/** The owner knows that the member lives, though it does not answer: it is not given up yet. */
void rawe_group_alive(struct rawe_group *group, uint32_t member, uint64_t now_ns);

/** All that was sent is acknowledged by all members that are not given up. */
static inline bool rawe_group_stable(const struct rawe_group *group)
{
    return group->base == group->next && group->first == NULL;
}

#endif
