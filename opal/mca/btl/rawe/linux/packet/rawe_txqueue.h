/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * How much a bulk port may have in the queueing discipline: what that sends in 0.3 ms, and two batches
 * at least. More would only lie in front of express frames: with a whole window there, the request for
 * one direction waits behind the data of the other, and MPI_Alltoall of 1 MiB over 1 Gb/s took 18 ms
 * in place of 9. Less than it takes a NIC to say what it has sent would idle it. TCP does the same
 * (tcp_small_queue_check, 1 ms), and so do drivers for what is behind the qdisc (lib/dynamic_queue_limits.c).
 *
 * The rate is that at which the queue drains while it is full. Where a process shares its processor, and
 * the queue has emptied before it came back, the limit is doubled, up to some 8 ms; it falls again
 * slowly. No clock, no socket.
 */
#ifndef RAWE_TXQUEUE_H
#define RAWE_TXQUEUE_H

#include <stdbool.h>
#include <stdint.h>

struct rawe_txqueue {
    uint32_t limit_bytes;   /**< see above */
    uint32_t base_bytes;    /**< what it sent in 0.3 ms; 0: not known */
    uint32_t taken;         /**< batches in a row that found room */
    bool refused;           /**< the last one found none */
    uint64_t full_ns;       /**< the rate is measured since then, when it was full; 0: it is not */
    uint64_t seen_ns;       /**< when it was found full last */
    uint64_t unseen_ns;     /**< the longest time between, since the rate is measured */
    uint64_t drained_bytes; /**< taken since, or since the limit changed */
};

/** The rate is unknown: two of the longest batches. */
void rawe_txqueue_init(struct rawe_txqueue *queue);
/** It had room for a batch. Returns true when the limit has changed. */
bool rawe_txqueue_taken(struct rawe_txqueue *queue, uint32_t bytes, uint64_t now_ns);
/** It had none. Returns true when the limit has changed. */
bool rawe_txqueue_full(struct rawe_txqueue *queue, uint64_t now_ns);
/** Longest batch of which the limit holds two. */
uint32_t rawe_txqueue_batch_bytes(const struct rawe_txqueue *queue);

#endif
