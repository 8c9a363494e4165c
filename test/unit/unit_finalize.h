/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Two nodes with a connection, of which node 1 finalizes, for the tests of that.
 */
#ifndef UNIT_FINALIZE_H
#define UNIT_FINALIZE_H

#include "unit_pair.h"

#include "conn/rawe_conn_finalize.h"

#define TIMEOUT_NS (5 * UNIT_S) /* as unit_init has it */
#define FINALIZE_SENDS 3u

extern struct unit_send finalize_sends[FINALIZE_SENDS];
/** Content of messages: unit_fill with seed 3. */
extern uint8_t finalize_data[5000];

/** A fixture. */
void finalize_set_up(void);
/** Filters. */
bool lose_data(struct unit_net *of, const struct net_frame *frame);
bool lose_closes(struct unit_net *of, const struct net_frame *frame);
/** Send messages of four frames each. */
void finalize_send(unsigned from, unsigned count);
/** Sends are complete, in good order. */
void assert_complete(unsigned count);
/** Node 0 has not been told that anything was lost. */
void assert_nothing_lost(void);
/** Wait until a node may close its connection, or for `most_ns`. */
enum rawe_finalized linger(unsigned node, uint64_t most_ns);
/** Node 1 closes its connection and is not there any more. */
void depart(void);

#endif
