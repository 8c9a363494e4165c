/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * An express lane on which short messages are held back, for the tests of coalescing.
 */
#ifndef UNIT_COALESCE_H
#define UNIT_COALESCE_H

#include "unit_pair.h"

/** Frames in flight from which on messages are held back. */
#define COALESCE_FROM 2u

/** A fixture: both nodes started, neither connected. */
void unit_set_up_coalescing(void);
/** Send a message from node 0. */
void copy(uint8_t tag, size_t len_bytes);
/** An open lane with just enough frames under way for the next short message to be held back. */
void connect_busy(void);
/** End a node's round of reception. */
void flush(unsigned node);
/** The frame sent last; there is one. */
struct net_frame *last_frame(void);
/** Number of messages in a frame; checks that the padding between them is zero. */
unsigned messages_in(const struct net_frame *frame);

#endif
