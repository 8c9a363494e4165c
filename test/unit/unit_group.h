/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Several members of a group on a wire that can lose or delay each frame, for the tests of group
 * delivery. The test sets the clock. The wire and the members check every frame by default.
 */
#ifndef UNIT_GROUP_H
#define UNIT_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "group/rawe_group.h"
#include "unit_test.h"

enum {
    MEMBERS_MAX = 20,
    PAYLOAD_BYTES = 128,
    DATA_BYTES = 40000,
    SEGMENT_BYTES = 100,
    BATCH_BYTES = 1000,
};

#define MS 1000000ull
#define ID 0x0123456780000000ull
#define FIRST ((uint32_t)config.id)

struct in_flight {
    uint32_t from, to; /**< multicast if `to` is RAWE_GROUP_ALL; otherwise a control message */
    bool batch;
    struct rawe_group_header header;
    struct rawe_group_control control; /**< the message's data is in `bytes` */
    size_t len_bytes;
    uint8_t bytes[RAWE_BATCH_HEADER_BYTES + BATCH_BYTES];
};

extern struct rawe_group_config config; /**< may be changed by a test before start() */
extern struct rawe_group group[MEMBERS_MAX];
extern struct rawe_group_counters counted[MEMBERS_MAX];
extern uint8_t data[DATA_BYTES]; /**< each root sends consecutive pieces of it */

/** A test's state: initially 0, except for fields that set_up sets. */
struct group_net {
    uint64_t now_ns;
    unsigned wire_first, wire_count;
    unsigned link_room; /**< frames until the links are full */
    /**
     * Returns true if a frame to the receiver is lost; may change the frame. NULL: none is lost.
     */
    bool (*loses)(struct in_flight *flight, uint32_t receiver);
    bool absent[MEMBERS_MAX];              /**< the member neither receives nor sends */
    bool refuses[MEMBERS_MAX];             /**< the member refuses deliveries for now */
    bool may_wait;                         /**< flag of all messages sent */
    bool batches;                          /**< flag of all messages sent */
    unsigned packets;                      /**< batch packets that members received */
    uint8_t place[BATCH_BYTES];            /**< memory that receives a batch packet in place */
    bool placed;                           /**< the current packet was received into `place` */
    unsigned frames;                       /**< multicast frames sent */
    unsigned sent[RAWE_GROUP_CONTROL_END]; /**< control messages by type */
    uint32_t sent_bytes[MEMBERS_MAX];
    /** Deliveries, by member and root. */
    uint32_t got_bytes[MEMBERS_MAX][MEMBERS_MAX];
    uint32_t got_messages[MEMBERS_MAX][MEMBERS_MAX];
    uint32_t got_parts[MEMBERS_MAX][MEMBERS_MAX];
    unsigned got_last[MEMBERS_MAX]; /**< messages flagged as the last */
    bool heard[MEMBERS_MAX];        /**< the last delivery told that frames are heard */
    struct rawe_group_send send[1000];
    unsigned sends, done_count;
    /** DATA frames whose first transmission some members lose. */
    uint32_t losing_from, losing_count, losing_low, losing_high;
    uint8_t losing_type;    /**< type of control message to lose, as for lack of memory */
    unsigned losses_left;   /**< number of such messages still to lose */
    uint8_t refused_type;   /**< type of control message for which the sender lacks memory */
    unsigned refusals_left; /**< number of such messages still to refuse */
};
extern struct group_net net;

/** Fixture: set `config` to defaults, without members. */
void set_up(void);
/** Free all members. */
void tear_down(void);
/** Start the members. */
void start(uint32_t members);

/** Deliver all frames on the wire. */
void arrive(void);
/** Deliver the first frame on the wire. */
void arrive_one(void);
/** Deliver bytes to a member as a frame. */
void receive(uint32_t to, const uint8_t *bytes, size_t len_bytes);
/** Deliver a forged frame, or a frame of a batch, to a member. */
void forge(uint32_t to, struct rawe_group_header header, const uint8_t *payload);
/** Deliver a forged control message to a member. */
void forge_control(uint32_t to, uint32_t from, struct rawe_group_control control,
                   const uint8_t *payload);
/** Run a member at the given time. */
void progress(uint32_t member, uint64_t now_ns);
/** Advance time; each member runs at the times it requests. */
void pass(uint64_t ns);
/** Lose `count` DATA frames, beginning with number `from`, for members `low` to `high`. */
void lose(uint32_t from, uint32_t count, uint32_t low, uint32_t high);

/** Send the next piece of data. Returns false if it is refused. */
bool try_send(uint32_t root, uint32_t len_bytes);
/** Send the next piece of data, and assert that it is accepted. */
void send_bytes(uint32_t root, uint32_t len_bytes);
/** Start members that share frames: two frames in flight, ten 10-byte messages per frame. */
void share(uint32_t members);
/** Start members that send in batches of up to ten frames of 100 bytes. */
void batch(uint32_t members);
/** Send messages of 10 bytes from member 0. */
void send_many(unsigned messages);
/** Assert that all members received all messages of `root`. */
void assert_got(uint32_t root, uint32_t messages);
/** Assert that everything is acknowledged, and no member has work left. */
void assert_quiet(void);
/** Return the number of control messages sent, except repairs. */
unsigned control_messages(void);

#endif
