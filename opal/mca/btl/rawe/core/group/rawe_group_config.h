/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Group delivery: what the owner of a member configures, what is counted, and what all frames have
 * in common.
 */
#ifndef RAWE_GROUP_CONFIG_H
#define RAWE_GROUP_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rawe_output.h"
#include "base/rawe_wire.h"

/** Members that each member of the tree acknowledges for at most, apart from those below them. */
#define RAWE_GROUP_CHILDREN 8u

/**
 * How late a frame may come before it counts as missing, and per member, how far NACKs spread: three
 * times what one takes on a link of 10 Gb/s.
 */
#define RAWE_GROUP_NACK_NS 100000u
#define RAWE_GROUP_SPREAD_NS 200u
/** A root waits that long for NACKs of other members, then repairs up to this many frames. */
#define RAWE_GROUP_COLLECT_NS 50000u
#define RAWE_GROUP_REPAIR_FRAMES 32u
/** A NACK that comes sooner after a repair for the same member was sent before it came. */
#define RAWE_GROUP_HOLD_NS 500000u
/** Silence of a root before it says what there is: a frame that is lost last is missed then. */
#define RAWE_GROUP_ANNOUNCE_NS 200000u
/** Pause before its next heartbeat; the pauses double, up to the last. */
#define RAWE_GROUP_HEARTBEAT_NS 1000000u
#define RAWE_GROUP_HEARTBEAT_MAX_NS 64000000u
/** Members that a heartbeat asks one by one. */
#define RAWE_GROUP_ASKED_MAX 64u

/** Batches in flight: a receiver has room for as many, however short, before it looks. */
#define RAWE_GROUP_BATCHES_MAX 96u

/** Part of a message, as it is delivered. */
struct rawe_group_part {
    uint32_t root;        /**< member that sent it */
    uint32_t total_bytes; /**< of the message */
    uint32_t at_bytes; /**< what lies before the part; the message is complete with its last part */
    uint32_t len_bytes;  /**< 0 only in an empty message */
    const uint8_t *data; /**< valid during the call */
    bool batches;        /**< a batch of this root has come, now or before */
};

/** In place of a member: all others. */
#define RAWE_GROUP_ALL UINT32_MAX

/** Frames go out from behind their Ethernet headers, which the owner writes. No call back. */
struct rawe_group_output {
    /** To a member, or RAWE_GROUP_ALL. False when the send queue is full for now. */
    bool (*transmit)(void *context, uint32_t to, const struct rawe_bytes *frame);
    /** A batch to all members, behind its header, RAWE_BATCH_HEADER_BYTES; as rawe_batch_output. */
    bool (*batch)(void *context, uint8_t *head, const struct rawe_bytes *data,
                  uint32_t segment_bytes);
    const uint32_t *batch_bytes; /**< data of a batch, now */
    void *context;
};

/** The same for all members, but for `self` and what is called. */
struct rawe_group_config {
    uint64_t id;            /**< random: the first sequence number comes from it as well */
    uint32_t key;           /**< random; not that of a session: a switch floods group frames */
    uint32_t members;       /**< 2 to RAWE_GROUP_NO_ROOT */
    uint32_t self;          /**< this member, counted from 0 */
    uint32_t payload_bytes; /**< of a frame, at most; 128 to UINT16_MAX */
    uint32_t segment_bytes; /**< of a frame in a batch, at most payload_bytes; 0: no batches */
    uint32_t window_frames; /**< a power of two, 2 to RAWE_WINDOW_FRAMES_MAX */
    uint32_t share_from;    /**< frames in flight: then messages may wait to share one; 0: never */
    uint32_t stored_max;    /**< frames that wait for earlier ones, of all roots together */
    bool checksum;          /**< send checksums, and require them */
    /**
     * The next part of a root's message. False: not now, call again at the next progress; the root
     * waits when its window is full.
     */
    bool (*deliver)(void *context, const struct rawe_group_part *part);
    /** Where the owner wants this part, whose data has not been received yet; NULL: anywhere. */
    uint8_t *(*place)(void *context, const struct rawe_group_part *part);
    void *context;
    struct rawe_group_output output;
    struct rawe_group_counters *counters; /**< the owner's; several groups may have the same */
};

struct rawe_group_counters {
    uint64_t messages_sent, messages_delivered;
    uint64_t frames_sent;  /**< DATA, each counted once */
    uint64_t batches_sent; /**< packets with some of these */
    uint64_t repairs_unicast, repairs_multicast;
    uint64_t heartbeats_sent, nacks_sent, acks_sent;
    uint64_t window_stalls;    /**< times a message waited for acknowledgements */
    uint64_t duplicates;       /**< DATA dropped: came before */
    uint64_t no_buffer;        /**< frames or messages not taken: no memory, too many wait */
    uint64_t dropped_decode;   /**< too short, another version, type or flags, wrong lengths */
    uint64_t dropped_key;      /**< another key */
    uint64_t dropped_group;    /**< another group's id */
    uint64_t dropped_member;   /**< from or about a member that there is not */
    uint64_t dropped_checksum; /**< wrong, or missing */
    uint64_t dropped_outside;  /**< numbers outside of the window */
    uint64_t dropped_fragment; /**< DATA that contradicts the message it is part of */
};

/** Room for any frame but DATA. */
#define RAWE_GROUP_CONTROL_BYTES_MAX \
    (RAWE_GROUP_HEADER_BYTES + RAWE_GROUP_NACK_BYTES_MAX + RAWE_CHECKSUM_BYTES)

/** Write header and checksum of a frame whose payload is in its place. Returns all of it. */
struct rawe_bytes rawe_group_seal(const struct rawe_group_config *config, uint8_t *bytes,
                                  struct rawe_group_header *header);

/** Read the header of a frame of another member of this group. False: dropped, the reason counted. */
bool rawe_group_open(const struct rawe_group_config *config, struct rawe_group_header *header,
                     const uint8_t *bytes, size_t len_bytes);

/** The same of a batch, whose header this is. */
bool rawe_group_open_batch(const struct rawe_group_config *config, struct rawe_group_header *header,
                           const uint8_t *head, size_t head_bytes, size_t data_bytes);

/** Write this member, as the sender, and the group into a header. */
void rawe_group_sign(const struct rawe_group_config *config, struct rawe_group_header *header);

static inline bool rawe_group_transmit(const struct rawe_group_config *config, uint32_t to,
                                       const struct rawe_bytes *frame)
{
    return config->output.transmit(config->output.context, to, frame);
}

static inline uint32_t rawe_group_first_sequence(const struct rawe_group_config *config)
{
    return (uint32_t)config->id;
}

/** Position in the tree of a root, which itself is at 0: those below p are 8 p + 1 to 8 p + 8. */
static inline uint32_t rawe_group_position(const struct rawe_group_config *config, uint32_t member,
                                           uint32_t root)
{
    return (member + config->members - root) % config->members;
}

/** The earlier one of two deadlines; 0: a is none. */
static inline uint64_t rawe_group_earlier(uint64_t a_ns, uint64_t b_ns)
{
    return a_ns != 0 && a_ns < b_ns ? a_ns : b_ns;
}

#endif
