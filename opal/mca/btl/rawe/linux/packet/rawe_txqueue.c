/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The limit on what lies in the queueing discipline. See rawe_txqueue.h.
 */
#include "rawe_txqueue.h"

#include "../../core/base/rawe_wire.h"

/** A NIC that waits before it reports what it has sent waits for 20 to 200 us. */
#define QUEUED_NS 300000u

/** A caller that does not run for some milliseconds, as others have its processor, gets more. */
#define QUEUED_MAX_NS 8400000u

/** By how much the limit falls at most each time: a hundred times in some 50 ms. */
#define DECAY_DIVISOR 64u

/** Two batches of two frames each, at an MTU of 1500. */
#define LIMIT_MIN_BYTES 8192u

/** A queue that takes two of the longest batches takes batches of any length. */
#define LIMIT_LONGEST_BYTES (2u * RAWE_BATCH_BYTES_MAX)

/** More than a window (core/send/rawe_sendwin.h) at any MTU. */
#define LIMIT_MAX_BYTES (8u << 20)

/** The queue has not been full for as many batches: the rate is not what it was. */
#define TAKEN_MAX 64u

void rawe_txqueue_init(struct rawe_txqueue *queue)
{
    *queue = (struct rawe_txqueue){.limit_bytes = LIMIT_LONGEST_BYTES};
}

static void set_limit(struct rawe_txqueue *queue, uint64_t bytes)
{
    bytes = bytes > LIMIT_MIN_BYTES ? bytes : LIMIT_MIN_BYTES;
    queue->limit_bytes = (uint32_t)(bytes < LIMIT_MAX_BYTES ? bytes : LIMIT_MAX_BYTES);
    queue->full_ns = 0; /* it has room now, or holds more than that */
    queue->drained_bytes = 0;
}

/**
 * A batch that was refused is taken only now: had the queue emptied meanwhile, as the caller did not
 * run? Then it needs more to last for.
 */
static bool has_starved(const struct rawe_txqueue *queue, uint64_t now_ns)
{
    return queue->refused && queue->base_bytes != 0 &&
           (now_ns - queue->seen_ns) * queue->base_bytes > queue->limit_bytes * (uint64_t)QUEUED_NS;
}

bool rawe_txqueue_taken(struct rawe_txqueue *queue, uint32_t bytes, uint64_t now_ns)
{
    const uint64_t most_bytes = queue->base_bytes * (uint64_t)(QUEUED_MAX_NS / QUEUED_NS);
    const bool starved = has_starved(queue, now_ns) && queue->limit_bytes < most_bytes;

    queue->refused = false;
    queue->drained_bytes += bytes;
    if (!starved && (++queue->taken < TAKEN_MAX || queue->limit_bytes >= LIMIT_LONGEST_BYTES)) {
        return false;
    }
    queue->taken = 0;
    set_limit(queue, 2 * (uint64_t)queue->limit_bytes);
    return true;
}

/** It is full, and was `elapsed_ns` ago: fit the limit to what it has drained since. */
static void fit(struct rawe_txqueue *queue, uint64_t elapsed_ns)
{
    const uint64_t bytes = queue->drained_bytes * QUEUED_NS / elapsed_ns;
    /* In the longest time that the caller had nothing for it, or did not run, it may have emptied. */
    const bool always_busy =
        queue->drained_bytes * queue->unseen_ns < queue->limit_bytes * elapsed_ns;

    if (bytes > queue->limit_bytes || always_busy) {
        const uint64_t least_bytes = queue->limit_bytes - queue->limit_bytes / DECAY_DIVISOR;
        queue->base_bytes = (uint32_t)(bytes < LIMIT_MAX_BYTES ? bytes : LIMIT_MAX_BYTES);
        set_limit(queue, bytes > least_bytes ? bytes : least_bytes);
    } else {
        queue->full_ns = 0;
    }
}

bool rawe_txqueue_full(struct rawe_txqueue *queue, uint64_t now_ns)
{
    const uint64_t unseen_ns = now_ns - queue->seen_ns;
    const uint32_t before_bytes = queue->limit_bytes;
    const bool filled = queue->taken != 0; /* it holds as much each time */

    queue->taken = 0;
    queue->refused = true;
    queue->seen_ns = now_ns;
    queue->unseen_ns = unseen_ns > queue->unseen_ns ? unseen_ns : queue->unseen_ns;
    if (filled && queue->full_ns != 0 && now_ns - queue->full_ns >= QUEUED_NS) {
        fit(queue, now_ns - queue->full_ns);
    }
    if (filled && queue->full_ns == 0 && queue->limit_bytes == before_bytes) {
        queue->full_ns = now_ns;
        queue->drained_bytes = queue->unseen_ns = 0;
    }
    return queue->limit_bytes != before_bytes;
}

uint32_t rawe_txqueue_batch_bytes(const struct rawe_txqueue *queue)
{
    const uint32_t bytes = queue->limit_bytes / 2;

    return bytes < RAWE_BATCH_BYTES_MAX ? bytes : RAWE_BATCH_BYTES_MAX;
}
