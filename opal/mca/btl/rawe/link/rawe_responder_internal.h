/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What responder and path discovery (rawe_discovery.c) need of each other.
 */
#ifndef RAWE_RESPONDER_INTERNAL_H
#define RAWE_RESPONDER_INTERNAL_H

#include "rawe_responder.h"

uint64_t rawe_responder_now_ns(void);

struct rawe_ping_table *rawe_responder_ping_table(struct rawe_responder *responder);

/** Send a PING of this payload. What becomes of it only an answer can say. */
void rawe_responder_send_ping(struct rawe_responder *responder, int index, uint32_t payload_bytes);

/** PINGs that may leave per pace interval: what comes back fits ring and rate. */
unsigned rawe_responder_burst_pings(const struct rawe_responder *responder);

/** The path validations of one responder. */
struct rawe_validations {
    pthread_mutex_t lock;
    struct rawe_validation *first;
};

/** Returns 0 or an errno value. */
int rawe_validations_init(struct rawe_validations *validations);
/** Ends those that are left. */
void rawe_validations_destroy(struct rawe_responder *responder);
struct rawe_validations *rawe_responder_validations(struct rawe_responder *responder);
/** The thread's: take answers, send what is due. Returns milliseconds to the next call, -1: none. */
int rawe_validations_serve(struct rawe_responder *responder);

#endif
