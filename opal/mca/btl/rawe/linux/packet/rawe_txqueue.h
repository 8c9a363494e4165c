/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Limits a bulk port's share of the queueing discipline to what that sends in 0.3 ms, but at least
 * two batches. More would only delay express frames (doc/experiments/queueing-discipline.md); less
 * than a NIC sends before it reports completions would idle it. TCP does the same
 * (tcp_small_queue_check, 1 ms).
 *
 * A caller whose batch was refused keeps trying. The queue's length at each try gives the rate at
 * which it drains. If it is empty, the caller did not run in time; then the limit grows to outlast
 * such a pause, up to some 8 ms, and falls again slowly. All bytes are as charged by the kernel
 * (SIOCOUTQ). No clock, no socket.
 */
#ifndef RAWE_TXQUEUE_H
#define RAWE_TXQUEUE_H

#include <stdbool.h>
#include <stdint.h>

struct rawe_txqueue {
    uint32_t limit_bytes;   /**< see above */
    uint32_t base_bytes;    /**< bytes sent in 0.3 ms; 0: unknown */
    uint32_t taken;         /**< consecutive batches that found room */
    bool refused;           /**< the last one found none: call rawe_txqueue_poll before the next */
    uint32_t queued_bytes;  /**< its length at the last poll... */
    uint64_t seen_ns;       /**< ... and the time of that poll */
    uint64_t drained_bytes; /**< bytes drained between polls in this measurement... */
    uint64_t drained_ns;    /**< ... and the time that took */
    uint64_t dropped_since_ns; /**< all batches since then were dropped; 0: the last one was not */
};

/** Begin with an unknown rate, and room for two of the longest batches. */
void rawe_txqueue_init(struct rawe_txqueue *queue);
/** Note that a batch found room. Returns true if the limit has changed. */
bool rawe_txqueue_taken(struct rawe_txqueue *queue);
/** Note that a batch found no room, with `queued_bytes` in the queue. */
void rawe_txqueue_full(struct rawe_txqueue *queue, uint32_t queued_bytes, uint64_t now_ns);
/** Note that a batch was dropped (ENOBUFS). Returns true if none was taken for long: it is lost. */
bool rawe_txqueue_dropped(struct rawe_txqueue *queue, uint64_t now_ns);
/** Prepare to retry a refused batch. Returns true if the limit has changed. */
bool rawe_txqueue_poll(struct rawe_txqueue *queue, uint32_t queued_bytes, uint64_t now_ns);
/** Return the longest batch of which the limit holds two. */
uint32_t rawe_txqueue_batch_bytes(const struct rawe_txqueue *queue);

#endif
