/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A peer between two engines of the in-memory network, and messages to it.
 */
#ifndef UNIT_PEER_H
#define UNIT_PEER_H

#include "unit_pair.h"

#include "routes/rawe_peer.h"

#define COALESCE_FROM 4u
#define STREAK_NS (40 * UNIT_US)
#define MESSAGES 64u
#define MESSAGE_BYTES 40000u

/** A length that fits a frame, is too long to be copied and coalesces poorly. */
#define FRAME_BYTES 1400u
/** A length that may be copied and coalesces poorly. */
#define COPIED_BYTES 900u

/** Node 0's peer object for node 1. */
extern struct rawe_peer peer;

/** Number of clock reads, and of frames on the wire at the last one. */
extern unsigned clock_reads, wire_at_last_read;

/** A test message and its state. */
struct sent {
    struct rawe_message message; /**< must be first: cast back from it */
    uint8_t own[MESSAGE_BYTES];
    uint8_t elsewhere[MESSAGE_BYTES];
    unsigned completed, released;
    enum rawe_status status;
    enum rawe_peer_result result;
};
extern struct sent sent[MESSAGES];
extern unsigned sent_count;

/** Return the configuration of `peer`. */
struct rawe_peer_config unit_peer_config(void);
/** Start `peer`; `batches`: its path carries batches. */
void unit_peer_start(bool batches);
/** Fixture, with unit_tear_down: start a peer whose path carries batches. */
void unit_peer_set_up(void);
/** Open the peer's connection on a lane, until both ends are OPEN. */
void unit_peer_connect_lane(enum rawe_lane lane);
/** Return true if nothing is queued or in flight to the peer. */
bool unit_peer_drained(void);
/** Open the connections of both lanes. */
void unit_peer_connect(void);
/**
 * Make the next message, with a header of `first_bytes` in its own memory and the rest elsewhere.
 */
struct sent *unit_peer_make(size_t first_bytes, size_t second_bytes, bool may_complete_early);
/** Send a message made by unit_peer_make(). */
struct sent *unit_peer_send_made(struct sent *one);
/** Send a message in one piece. */
struct sent *unit_peer_send(size_t len_bytes, bool may_complete_early);
/** Run until nothing is in flight to the peer. */
void unit_peer_finish(void);
/** Assert that node 1 received message `index`, byte for byte. */
void unit_peer_assert_delivered(unsigned index, size_t len_bytes);
/** Return the number of data frames that node 0 sent on a lane. */
unsigned unit_peer_frames(enum rawe_lane lane);
/** Call rawe_peer_send_copy() with a 10-byte header and the remaining data. */
enum rawe_status unit_peer_send_copy(size_t len_bytes);

#endif
