/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A bulk lane whose receiving node defers, for the tests of that.
 */
#ifndef UNIT_DEFER_H
#define UNIT_DEFER_H

#define UNIT_LANE RAWE_LANE_BULK

#include "unit_pair.h"

/** Content of messages: unit_fill with seed 7. */
extern uint8_t data[300000];

/** Let time pass. */
void run(uint64_t duration_ns);
/** An open lane; node 1 defers: the harness checks that none of its callbacks is called. */
void connect_and_defer(void);
/** Stop deferring, and deliver what was deferred. */
void resume(unsigned node);
/**
 * Send messages of `len_bytes` with tags from 0 on; only those longer than a frame are in order.
 */
void send_messages(struct unit_send *sends, unsigned count, size_t len_bytes);
/** Node 1 has the messages of send_messages, in the order of their tags. */
void assert_delivered_in_order(unsigned count, size_t len_bytes);

#endif
