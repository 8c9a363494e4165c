/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What probing for reachability (rawe_reach.c) needs of the responder.
 */
#ifndef RAWE_RESPONDER_INTERNAL_H
#define RAWE_RESPONDER_INTERNAL_H

#include "rawe_ping_table.h"
#include "rawe_responder.h"

uint64_t rawe_responder_now_ns(void);

struct rawe_ping_table *rawe_responder_ping_table(struct rawe_responder *responder);

/** Send one PING for the probe. What becomes of it only an answer can tell. */
void rawe_responder_send_ping(struct rawe_responder *responder, int index);

/** Frames that the socket's ring can hold. */
unsigned rawe_responder_ring_frames(const struct rawe_responder *responder);

#endif
