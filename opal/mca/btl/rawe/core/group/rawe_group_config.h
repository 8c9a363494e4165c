/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Group delivery: the configuration of a member, and its counters.
 */
#ifndef RAWE_GROUP_CONFIG_H
#define RAWE_GROUP_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rawe_output.h"
#include "base/rawe_wire.h"

/** Fan-out of the tree. Each member acknowledges for its whole subtree. */
#define RAWE_GROUP_CHILDREN 8u

/**
 * How late a frame may be before it counts as missing, and the time per member over which NACKs are
 * spread: three times as long as one takes on a 10 Gb/s link.
 */
#define RAWE_GROUP_NACK_NS 100000u
#define RAWE_GROUP_SPREAD_NS 200u
/** Limit on frames that a NACK names; the next NACK waits until they have arrived. */
#define RAWE_GROUP_NACK_FRAMES 64u
/** After this silence, a root sends a STATUS, so that the loss of its last frame is noticed. */
#define RAWE_GROUP_STATUS_NS 200000u
/** A member that lacks most frames, for this long and at least this many, hears no multicast. */
#define RAWE_GROUP_DEAF_NS 1000000000u
#define RAWE_GROUP_DEAF_FRAMES 8u

/** Limit on batches in flight: between polls, a receiver has room for this many of any length. */
#define RAWE_GROUP_BATCHES_MAX 96u

/** Part of a message, as delivered. */
struct rawe_group_part {
    uint32_t root;        /**< member that sent it */
    uint32_t total_bytes; /**< of the message */
    uint32_t at_bytes;    /**< offset of the part; the last part completes the message */
    uint32_t len_bytes;   /**< 0 only for an empty message */
    const uint8_t *data;  /**< valid during the call */
    bool heard;           /**< a frame from this root has arrived by multicast, not in a batch */
    bool batches;         /**< a batch from this root has arrived */
    bool last;            /**< in the last part: this is the group's last message */
};

/** The number that stands for all other members. */
#define RAWE_GROUP_ALL UINT32_MAX

/** How messages are sent. These functions must not call back. */
struct rawe_group_output {
    /** Multicast a frame, without its Ethernet header. It may be lost. False: queue full. */
    bool (*multicast)(void *context, const struct rawe_bytes *frame);
    /**
     * Multicast a batch; `head` is its header of RAWE_BATCH_HEADER_BYTES. See rawe_batch_output.
     */
    bool (*batch)(void *context, uint8_t *head, const struct rawe_bytes *data,
                  uint32_t segment_bytes);
    /**
     * Send a control message over the connection to a member. It is copied, and delivered once and
     * in any order. Returns false, without sending it, if there is no memory for it.
     */
    bool (*control)(void *context, uint32_t to, const uint8_t *bytes, size_t len_bytes);
    const uint32_t *batch_bytes; /**< current limit of a batch's data */
    void *context;
};

/** Identical on all members, except for `self` and the callbacks. */
struct rawe_group_config {
    uint64_t id;            /**< random; also determines the first sequence number */
    uint32_t members;       /**< 2 to UINT16_MAX */
    uint32_t self;          /**< this member, counted from 0 */
    uint32_t payload_bytes; /**< limit per frame; 128 to RAWE_GROUP_PAYLOAD_MAX */
    uint32_t segment_bytes; /**< data of a frame in a batch, at most payload_bytes; 0: no batches */
    uint32_t window_frames; /**< a power of two, 2 to RAWE_WINDOW_FRAMES_MAX */
    uint32_t share_from;    /**< frames in flight from which messages share one; 0: never */
    /**
     * Accept the next part of a root's message. False: not now; it is offered again at the next
     * progress, and the root stalls once its window is full.
     */
    bool (*deliver)(void *context, const struct rawe_group_part *part);
    /** Return where to receive this part, whose data has yet to be read; NULL: anywhere. */
    uint8_t *(*place)(void *context, const struct rawe_group_part *part);
    void *context;
    struct rawe_group_output output;
    struct rawe_group_counters *counters; /**< the owner's; several groups may share them */
};

struct rawe_group_counters {
    uint64_t messages_sent, messages_delivered;
    uint64_t frames_sent;  /**< DATA, each counted once */
    uint64_t batches_sent; /**< packets that carry such frames */
    uint64_t repairs_sent; /**< frames resent to a single member */
    uint64_t status_sent, nacks_sent, acks_sent, waits_sent;
    uint64_t window_stalls;    /**< times that a message waited for acknowledgements */
    uint64_t duplicates;       /**< DATA received before, and dropped */
    uint64_t no_buffer;        /**< frames not accepted for lack of memory */
    uint64_t dropped_decode;   /**< too short, another version, type or flags, wrong lengths */
    uint64_t dropped_group;    /**< another group's id */
    uint64_t dropped_member;   /**< from or about a member that does not exist */
    uint64_t dropped_source;   /**< not from the member's address (counted by the owner) */
    uint64_t dropped_checksum; /**< wrong CRC32C */
    uint64_t dropped_outside;  /**< sequence numbers outside the window */
    uint64_t dropped_fragment; /**< DATA that contradicts the rest of its message */
};

static inline uint32_t rawe_group_first_sequence(const struct rawe_group_config *config)
{
    return (uint32_t)config->id;
}

/** Return a member's position in a root's tree. The root is 0; below p are 8 p + 1 to 8 p + 8. */
static inline uint32_t rawe_group_position(const struct rawe_group_config *config, uint32_t member,
                                           uint32_t root)
{
    return (member + config->members - root) % config->members;
}

/** Return the position of this member's first child in a root's tree, which need not exist. */
static inline uint32_t rawe_group_first_child(const struct rawe_group_config *config, uint32_t root)
{
    return rawe_group_position(config, config->self, root) * RAWE_GROUP_CHILDREN + 1;
}

/**
 * Send a control message with `data_bytes` of data. Returns false if there is no memory for it. The
 * caller must remember an ACK that was not sent. rawe_group_ask replaces all others.
 */
static inline bool rawe_group_send_control(const struct rawe_group_config *config, uint32_t to,
                                           const struct rawe_group_control *control,
                                           const uint8_t *data)
{
    uint8_t bytes[RAWE_GROUP_CONTROL_BYTES_MAX];
    rawe_group_control_encode(bytes, control);
    if (control->data_bytes != 0) {
        memcpy(bytes + RAWE_GROUP_CONTROL_HEADER_BYTES, data, control->data_bytes);
    }
    return config->output.control(config->output.context, to, bytes,
                                  RAWE_GROUP_CONTROL_HEADER_BYTES + control->data_bytes);
}

/**
 * Return how far an acknowledgement is beyond `low`. A root has at most two windows in flight from
 * there; an acknowledgement so old that numbers have wrapped gives 0.
 */
static inline uint32_t rawe_group_beyond(const struct rawe_group_config *config, uint32_t low,
                                         uint32_t acknowledged)
{
    const uint32_t distance = acknowledged - low;
    return distance <= 2 * config->window_frames ? distance : 0;
}

/**
 * Send a STATUS to this member's children in a root's tree. Leave out those whose subtree has
 * acknowledged everything before `sequence`, because they may have left.
 */
static inline void rawe_group_send_down(const struct rawe_group_config *config, uint32_t root,
                                        const uint32_t *children, uint32_t low, uint8_t flags,
                                        uint32_t sequence)
{
    const struct rawe_group_control control = {
        .type = RAWE_GROUP_STATUS, .flags = flags, .root = (uint16_t)root, .sequence = sequence};
    const uint32_t child = rawe_group_first_child(config, root);
    for (uint32_t i = 0; i < RAWE_GROUP_CHILDREN && child + i < config->members; i++) {
        if (rawe_group_beyond(config, low, children[i]) <
            rawe_group_beyond(config, low, sequence)) {
            config->counters->status_sent++;
            (void)rawe_group_send_control(config, (root + child + i) % config->members, &control,
                                          NULL);
        }
    }
}

/**
 * Record in `children` that a child of this member in a root's tree has acknowledged, for its whole
 * subtree, the frames before `next`. Returns false, and counts it, if `from` is not a child.
 */
static inline bool rawe_group_acked(const struct rawe_group_config *config, uint32_t root,
                                    uint32_t *children, uint32_t low, uint32_t from, uint32_t next)
{
    const uint32_t child =
        rawe_group_position(config, from, root) - rawe_group_first_child(config, root);
    if (child >= RAWE_GROUP_CHILDREN) {
        config->counters->dropped_member++;
        return false;
    }
    if (rawe_group_beyond(config, low, children[child]) < rawe_group_beyond(config, low, next)) {
        children[child] = next;
    }
    return true;
}

/** Return the frame, from `low` to `high`, before which the whole subtree has all frames. */
static inline uint32_t rawe_group_least(const struct rawe_group_config *config, uint32_t root,
                                        const uint32_t *children, uint32_t low, uint32_t high)
{
    const uint32_t child = rawe_group_first_child(config, root);
    uint32_t least = high - low;
    for (uint32_t i = 0; i < RAWE_GROUP_CHILDREN && child + i < config->members; i++) {
        const uint32_t has = rawe_group_beyond(config, low, children[i]);
        least = has < least ? has : least;
    }
    return low + least;
}

/** Return the earlier of two deadlines; a_ns 0: none. */
static inline uint64_t rawe_group_earlier(uint64_t a_ns, uint64_t b_ns)
{
    return a_ns != 0 && a_ns < b_ns ? a_ns : b_ns;
}

#endif
