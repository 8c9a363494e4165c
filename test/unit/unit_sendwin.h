/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A send window alone, for its tests. Its numbers wrap around 2^32 in each of them.
 */
#ifndef UNIT_SENDWIN_H
#define UNIT_SENDWIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "send/rawe_sendwin.h"
#include "unit_test.h"

#define WINDOW 16u
#define FIRST (UINT32_MAX - 2)
#define US 1000ull
#define NOW (1000 * US)
#define REORDER (50 * US) /**< reordering window of detect() */

extern struct rawe_sendwin window;
extern struct rawe_txframe frames[WINDOW]; /**< frames[i] has number FIRST + i */

/** A fixture: a new window that begins at FIRST. */
void set_up(void);
/** Empties the window. */
void tear_down(void);

/** What becomes of a sequence number. */
enum segment_state { WAITING, SENT, SACKED, LOST };
enum segment_state state_of(uint32_t sequence);

/** The frame with a number that is in use. */
struct rawe_txframe *frame_at(uint32_t sequence);

/** Let the next `count` frames enter; none is sent. */
void enter(unsigned count);
/** frames[index] enters the window as a batch of `segments` frames; none is sent. */
struct rawe_txframe *enter_batch(unsigned index, unsigned segments);
/** Transmit all that is to be transmitted at `sent_ns`. */
void transmit_all(uint64_t sent_ns);
/** Let `count` frames enter and be sent at `sent_ns`. */
void send_frames(unsigned count, uint64_t sent_ns);
/** An acknowledgement that is evidence and comes at `now_ns`. */
struct rawe_ack ack_at(uint64_t now_ns);
/** SACK of the `count` frames from frames[index] on, while the oldest is missing. */
void sack(unsigned index, unsigned count, struct rawe_ack *ack);
/** The window's counts are these, and are those of its frames' states. */
void assert_counts(unsigned in_flight, unsigned to_transmit, unsigned sacked);

/** Find losses; returns true when some are undecided. */
bool detect(uint64_t now_ns);
extern unsigned lost_count;           /**< frames found by the last detect() */
extern unsigned lost_indices[WINDOW]; /**< which of `frames` they are, in order */

#endif
