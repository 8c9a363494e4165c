/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Several members of a group on a wire on which each frame can be lost or held back, for the tests
 * of group delivery; time is the test's. What the wire and members do by default is checked with
 * each frame.
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
    uint32_t from, to; /**< to: RAWE_GROUP_ALL for a multicast frame, else a control message's */
    bool batch;
    struct rawe_group_header header;
    struct rawe_group_control control; /**< its data is in `bytes` */
    size_t len_bytes;
    uint8_t bytes[RAWE_BATCH_HEADER_BYTES + BATCH_BYTES];
};

extern struct rawe_group_config config; /**< a test may change it before start */
extern struct rawe_group group[MEMBERS_MAX];
extern struct rawe_group_counters counted[MEMBERS_MAX];
extern uint8_t data[DATA_BYTES]; /**< each root's messages are pieces of it, one after the other */

/** What a test begins with is 0, but for what set_up sets. */
struct group_net {
    uint64_t now_ns;
    unsigned wire_first, wire_count;
    unsigned link_room; /**< frames that the links take before they are full */
    /** Says that a frame is lost on its way to the receiver, and may change it. NULL: none is. */
    bool (*loses)(struct in_flight *flight, uint32_t receiver);
    bool absent[MEMBERS_MAX];              /**< gets nothing, sends nothing */
    bool refuses[MEMBERS_MAX];             /**< delivers nothing for now */
    bool may_wait;                         /**< what is sent */
    bool batches;                          /**< what is sent */
    unsigned packets;                      /**< with frames of batches that came to a member */
    uint8_t place[BATCH_BYTES];            /**< where each member wants such frames */
    bool placed;                           /**< they are received there */
    unsigned frames;                       /**< multicast */
    unsigned sent[RAWE_GROUP_CONTROL_END]; /**< control messages by type */
    uint32_t sent_bytes[MEMBERS_MAX];
    /** What a member was given of a root. */
    uint32_t got_bytes[MEMBERS_MAX][MEMBERS_MAX];
    uint32_t got_messages[MEMBERS_MAX][MEMBERS_MAX];
    uint32_t got_parts[MEMBERS_MAX][MEMBERS_MAX];
    unsigned got_last[MEMBERS_MAX]; /**< messages that were said to be the last */
    struct rawe_group_send send[1000];
    unsigned sends, done_count;
    /** DATA that is lost when it is sent first, from a number on, for some members. */
    uint32_t losing_from, losing_count, losing_low, losing_high;
    uint8_t losing_type;  /**< control messages of this type are lost, as without memory... */
    unsigned losses_left; /**< ... as often as this */
};
extern struct group_net net;

/** A fixture: the defaults in `config`, no member yet. */
void set_up(void);
/** Frees all members. */
void tear_down(void);
/** Start that many members. */
void start(uint32_t members);

/** All frames come to those they are for. */
void arrive(void);
/** The first on the wire comes. */
void arrive_one(void);
/** A member gets these bytes as a frame. */
void receive(uint32_t to, const uint8_t *bytes, size_t len_bytes);
/** A member gets a frame that none has sent, or of a batch. */
void forge(uint32_t to, struct rawe_group_header header, const uint8_t *payload);
/** A member gets a control message that none has sent. */
void forge_control(uint32_t to, uint32_t from, struct rawe_group_control control,
                   const uint8_t *payload);
/** Let a member run at a time. */
void progress(uint32_t member, uint64_t now_ns);
/** Let time pass; each member is called when it wants to be. */
void pass(uint64_t ns);
/** Lose `count` frames of DATA, from number `from` on, for members `low` to `high`. */
void lose(uint32_t from, uint32_t count, uint32_t low, uint32_t high);

/** Send the next piece of data. False: not taken. */
bool try_send(uint32_t root, uint32_t len_bytes);
/** The same; it has to be taken. */
void send_bytes(uint32_t root, uint32_t len_bytes);
/** Start members that share frames: with two in flight, ten messages of 10 bytes each. */
void share(uint32_t members);
/** Start members that send in batches of up to ten frames of 100 bytes. */
void batch(uint32_t members);
/** Member 0 sends messages of 10 bytes. */
void send_many(unsigned messages);
/** All members have all messages of `root`. */
void assert_got(uint32_t root, uint32_t messages);
/** All have acknowledged all, and nobody has anything to do. */
void assert_quiet(void);
/** Control messages sent, but repairs. */
unsigned control_messages(void);

#endif
