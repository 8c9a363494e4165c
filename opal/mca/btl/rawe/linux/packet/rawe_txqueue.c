/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Limits a bulk port's share of the queueing discipline to what is sent in 0.3 ms, but at least two
 * batches. More would only delay express frames (doc/experiments/queueing-discipline.md); less than
 * a NIC sends between completion reports would idle it. TCP does the same (tcp_small_queue_check, 1
 * ms).
 *
 * A caller whose batch was refused keeps trying. The queue's length at each try gives the rate at
 * which it drains. If it is empty, the caller did not run in time; the limit then grows to outlast
 * such a pause, up to some 8 ms, and slowly falls again. Bytes are counted as the kernel charges
 * them (SIOCOUTQ). No clock, no socket.
 */
#include "rawe_packet.h"

/** Some NICs delay their completion reports by 20 to 200 us. */
#define QUEUED_NS 300000u

/** The longest pause of the caller that the queue outlasts. */
#define PAUSE_MAX_NS 8400000u

/** The limit falls by at most 1/DECAY_DIVISOR at a time: by a factor of 100 in some 50 ms. */
#define DECAY_DIVISOR 64u

/** Two batches of two frames each, at an MTU of 1500. */
#define LIMIT_MIN_BYTES 8192u

/** A queue with room for two of the longest batches takes batches of any length. */
#define LIMIT_LONGEST_BYTES (2u * RAWE_BATCH_BYTES_MAX)

/** More than a full send window (core/send/rawe_sendwin.h) at any MTU. */
#define LIMIT_MAX_BYTES (8u << 20)

/** If the queue was not full for this many batches, the rate has changed. */
#define TAKEN_MAX 64u

/**
 * A batch dropped for longer than this counts as lost. If batches are dropped before they leave the
 * host, by an egress filter for example, the kernel returns ENOBUFS each time, but only losses make
 * a connection revert to plain frames.
 */
#define DROPPED_MAX_NS 200000000u

void rawe_txqueue_init(struct rawe_txqueue *queue)
{
    *queue = (struct rawe_txqueue){.limit_bytes = LIMIT_LONGEST_BYTES};
}

/** Set the limit within its bounds. Returns true if it has changed. */
static bool set_limit(struct rawe_txqueue *queue, uint64_t bytes)
{
    const uint32_t before_bytes = queue->limit_bytes;

    bytes = bytes > LIMIT_MIN_BYTES ? bytes : LIMIT_MIN_BYTES;
    queue->limit_bytes = (uint32_t)(bytes < LIMIT_MAX_BYTES ? bytes : LIMIT_MAX_BYTES);
    return queue->limit_bytes != before_bytes;
}

bool rawe_txqueue_taken(struct rawe_txqueue *queue)
{
    queue->refused = false;
    queue->dropped_since_ns = 0;
    if (++queue->taken < TAKEN_MAX || queue->limit_bytes >= LIMIT_LONGEST_BYTES) {
        return false;
    }
    queue->taken = 0;
    return set_limit(queue, 2 * (uint64_t)queue->limit_bytes);
}

void rawe_txqueue_full(struct rawe_txqueue *queue, uint32_t queued_bytes, uint64_t now_ns)
{
    queue->taken = 0;
    queue->refused = true;
    queue->queued_bytes = queued_bytes;
    queue->seen_ns = now_ns;
}

bool rawe_txqueue_dropped(struct rawe_txqueue *queue, uint64_t now_ns)
{
    if (queue->dropped_since_ns == 0) {
        queue->dropped_since_ns = now_ns;
    }
    if (now_ns - queue->dropped_since_ns <= DROPPED_MAX_NS) {
        return false;
    }
    queue->dropped_since_ns = 0;
    return true;
}

/** Raise the limit, because the queue became empty while the caller paused. */
static bool raise_queue_limit(struct rawe_txqueue *queue, uint64_t pause_ns)
{
    pause_ns = pause_ns < PAUSE_MAX_NS ? pause_ns : PAUSE_MAX_NS;
    const uint64_t bytes = queue->base_bytes * pause_ns / QUEUED_NS;

    return bytes > queue->limit_bytes && set_limit(queue, bytes);
}

/** Adapt the limit to the measured rate: fully at first and upwards, otherwise in part. */
static bool fit_limit(struct rawe_txqueue *queue)
{
    const uint64_t bytes = queue->drained_bytes * QUEUED_NS / queue->drained_ns;
    const uint32_t least_bytes =
        queue->base_bytes == 0 ? 0 : queue->limit_bytes - queue->limit_bytes / DECAY_DIVISOR;

    queue->base_bytes = (uint32_t)(bytes < LIMIT_MAX_BYTES ? bytes : LIMIT_MAX_BYTES);
    queue->drained_bytes = queue->drained_ns = 0;
    return set_limit(queue, bytes > least_bytes ? bytes : least_bytes);
}

bool rawe_txqueue_poll(struct rawe_txqueue *queue, uint32_t queued_bytes, uint64_t now_ns)
{
    const uint64_t elapsed_ns = now_ns - queue->seen_ns;

    queue->seen_ns = now_ns;
    if (queued_bytes == 0) {
        return raise_queue_limit(queue, elapsed_ns);
    }
    queue->drained_bytes += queue->queued_bytes - queued_bytes;
    queue->drained_ns += elapsed_ns;
    queue->queued_bytes = queued_bytes;
    /* The kernel charges for a batch until its last frame is sent, so measure several batches. */
    return queue->drained_bytes >= queue->limit_bytes && queue->drained_ns >= QUEUED_NS &&
           fit_limit(queue);
}

uint32_t rawe_txqueue_batch_bytes(const struct rawe_txqueue *queue)
{
    const uint32_t bytes = queue->limit_bytes / 2;

    return bytes < RAWE_BATCH_BYTES_MAX ? bytes : RAWE_BATCH_BYTES_MAX;
}
