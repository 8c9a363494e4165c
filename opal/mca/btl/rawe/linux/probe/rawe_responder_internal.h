/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What path discovery (rawe_discovery.c) needs of the responder.
 */
#ifndef RAWE_RESPONDER_INTERNAL_H
#define RAWE_RESPONDER_INTERNAL_H

#include <stdint.h>

#include "rawe_responder.h"

uint64_t rawe_responder_now_ns(void);

struct rawe_ping_table *rawe_responder_ping_table(struct rawe_responder *responder);

/** Send a PING of this payload. What becomes of it only an answer can say. */
void rawe_responder_send_ping(struct rawe_responder *responder, int index, uint32_t payload_bytes);

/** PINGs that may leave per pace interval: what comes back fits ring and rate. */
unsigned rawe_responder_paced_pings(const struct rawe_responder *responder);

/** Something the responder's thread does beside answering, as long as it is in the list. */
struct rawe_responder_task {
    struct rawe_responder_task *next;
    /**
     * Called by the thread in each of its rounds, with the list locked. Returns the milliseconds
     * until the next call is due, -1: no need.
     */
    int (*service)(struct rawe_responder_task *task);
    /** Called when the responder stops, for a task that is still in the list: free it. */
    void (*stop)(struct rawe_responder_task *task);
};

/** Enter a task, which stays the caller's, and wake the thread. */
void rawe_responder_task_add(struct rawe_responder *responder, struct rawe_responder_task *task);

/** Take a task out of the list. Afterwards the thread does not use it any more. */
void rawe_responder_task_remove(struct rawe_responder *responder, struct rawe_responder_task *task);

#endif
