/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * How much a bulk port may have in the queueing discipline: what that sends in 0.3 ms, and two batches
 * at least. More would only lie in front of express frames (doc/performance.md); less than it takes a
 * NIC to say what it has sent would idle it. TCP does the same (tcp_small_queue_check, 1 ms).
 *
 * A caller whose batch was refused tries again all the time. What the queue holds at each try gives the
 * rate at which it drains. If it is empty, the caller did not run in time: then the limit grows to what
 * lasts for such a pause, up to some 8 ms; it falls again slowly. All bytes are as the kernel charges
 * them (SIOCOUTQ). No clock, no socket.
 */
#ifndef RAWE_TXQUEUE_H
#define RAWE_TXQUEUE_H

#include <stdbool.h>
#include <stdint.h>

struct rawe_txqueue {
    uint32_t limit_bytes;  /**< see above */
    uint32_t base_bytes;   /**< what it sends in 0.3 ms; 0: not known */
    uint32_t taken;        /**< batches in a row that found room */
    bool refused;          /**< the last one found none: call rawe_txqueue_poll before the next */
    uint32_t queued_bytes; /**< what it held when it was polled last... */
    uint64_t seen_ns;      /**< ... and when that was */
    uint64_t
        drained_bytes;   /**< between two polls with nothing taken, since the rate is measured... */
    uint64_t drained_ns; /**< ... and the time that took */
    uint64_t dropped_since_ns; /**< since then each batch was dropped; 0: the last one was not */
};

/** The rate is unknown: two of the longest batches. */
void rawe_txqueue_init(struct rawe_txqueue *queue);
/** A batch found room. Returns true when the limit has changed. */
bool rawe_txqueue_taken(struct rawe_txqueue *queue);
/** A batch found none; `queued_bytes` lie there. */
void rawe_txqueue_full(struct rawe_txqueue *queue, uint32_t queued_bytes, uint64_t now_ns);
/** A batch was dropped instead (ENOBUFS). True: none was taken for long; it counts as lost. */
bool rawe_txqueue_dropped(struct rawe_txqueue *queue, uint64_t now_ns);
/** A batch that was refused is about to be tried again. Returns true when the limit has changed. */
bool rawe_txqueue_poll(struct rawe_txqueue *queue, uint32_t queued_bytes, uint64_t now_ns);
/** Longest batch of which the limit holds two. */
uint32_t rawe_txqueue_batch_bytes(const struct rawe_txqueue *queue);

#endif
