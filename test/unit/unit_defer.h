/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A bulk lane with a receiver that defers, for the tests of deferral.
 */
#ifndef UNIT_DEFER_H
#define UNIT_DEFER_H

#define UNIT_LANE RAWE_LANE_BULK

#include "unit_pair.h"

/** Content of messages: unit_fill with seed 7. */
extern uint8_t data[300000];

/** Advance time. */
void run(uint64_t duration_ns);
/** Open the lane and let node 1 defer; the harness checks that none of its callbacks is called. */
void connect_and_defer(void);
/** Stop deferring, and deliver all deferred messages. */
void resume(unsigned node);
/** Send messages with tags from 0 on. Only messages longer than a frame stay in order. */
void send_messages(struct unit_send *sends, unsigned count, size_t len_bytes);
/** Assert that node 1 received the messages of send_messages in the order of their tags. */
void assert_delivered_in_order(unsigned count, size_t len_bytes);

#endif
