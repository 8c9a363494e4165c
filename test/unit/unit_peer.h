/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A peer between two engines of the in-memory network, and messages for it.
 */
#ifndef UNIT_PEER_H
#define UNIT_PEER_H

#include "unit_pair.h"

#include "routes/rawe_peer.h"

#define COALESCE_FROM 4u
#define STREAK_NS (40 * UNIT_US)
#define MESSAGES 64u
#define MESSAGE_BYTES 40000u

/** Fits a frame, is too long to be copied, and coalesces poorly. */
#define FRAME_BYTES 1400u
/** May be copied, and coalesces poorly. */
#define COPIED_BYTES 900u

/** Of node 0, to node 1. */
extern struct rawe_peer peer;

/** When the clock was read, and what lay on the wire at that time. */
extern unsigned clock_reads, wire_at_last_read;

/** A message of the test's, with what is known of it. */
struct sent {
    struct rawe_message message; /**< first: cast back from it */
    uint8_t own[MESSAGE_BYTES];
    uint8_t elsewhere[MESSAGE_BYTES];
    unsigned completed, released;
    enum rawe_status status;
    enum rawe_peer_result result;
};
extern struct sent sent[MESSAGES];
extern unsigned sent_count;

/** What `peer` is made of. */
struct rawe_peer_config unit_peer_config(void);
/** A peer of node 0, whose path carries batches or not. */
void unit_peer_start(bool batches);
/** A fixture, with unit_tear_down: a peer whose path carries batches. */
void unit_peer_set_up(void);
/** Open the peer's connection of a lane and bring it up at both ends. */
void unit_peer_connect_lane(enum rawe_lane lane);
/** Nothing is queued or in flight to the peer. */
bool unit_peer_drained(void);
/** Bring both lanes up. */
void unit_peer_connect(void);
/** The next message, its header of `first_bytes` in its own memory, the rest elsewhere. */
struct sent *unit_peer_make(size_t first_bytes, size_t second_bytes, bool may_complete_early);
/** Send what unit_peer_make() made. */
struct sent *unit_peer_send_made(struct sent *one);
/** Send a message in one piece. */
struct sent *unit_peer_send(size_t len_bytes, bool may_complete_early);
/** Run until the peer has nothing in flight. */
void unit_peer_finish(void);
/** Node 1 has message `index`, byte for byte. */
void unit_peer_assert_delivered(unsigned index, size_t len_bytes);
/** Data frames of node 0 in a lane. */
unsigned unit_peer_frames(enum rawe_lane lane);
/** rawe_peer_send_copy() of a header of 10 B and the rest. */
enum rawe_status unit_peer_send_copy(size_t len_bytes);

#endif
