/* SPDX-License-Identifier: BSD-3-Clause */
#include "rawe_inflow.h"

#include <stddef.h>

/** What a small switch buffers for a port, and a round trip of 20 us holds at 25 Gb/s. */
#define FIRST_BYTES 100000u

/**
 * Without a limit: more than a quarter of what comes, and some 180 frames beyond that, is too much to
 * lose. Many senders of long messages lose 30 to 50 % at one port; where hosts send to each other at
 * random, and lose up to 6 %, a limit costs up to a third of the throughput (doc/performance.md).
 */
#define LOST_MULTIPLIER 4u
#define LOST_BYTES 262144u

/** Two pieces of the shortest kind (routes/rawe_peer.c): with less, hosts idle at any rate. */
#define LEAST_BYTES 32768u

/** By a 256th for each limit's worth that comes: some 90 round trips from a loss to the next. */
#define GROWTH_DIVISOR 256u

/** Where twice as much as at the last loss passes, that loss says nothing any more. */
#define FAST_GROWTH_DIVISOR 16u

static uint64_t get(const _Atomic uint64_t *value)
{
    return atomic_load_explicit(value, memory_order_relaxed);
}

static void set(_Atomic uint64_t *value, uint64_t to)
{
    atomic_store_explicit(value, to, memory_order_relaxed);
}

/** Unless another process of the host has. */
static void begin(struct rawe_inflow_limit *limit, uint64_t first_bytes)
{
    if (get(&limit->bytes) == 0 && get(&limit->reduced_ns) == 0) {
        set(&limit->known_bytes, first_bytes);
        set(&limit->bytes, first_bytes);
    }
}

void rawe_inflow_init(struct rawe_inflow *inflow, uint64_t first_bytes)
{
    *inflow = (struct rawe_inflow){.learns = first_bytes < RAWE_INFLOW_UNLIMITED};
    inflow->limit = &inflow->own;
    begin(inflow->limit, inflow->learns ? first_bytes : 0);
}

void rawe_inflow_join(struct rawe_inflow *inflow, struct rawe_inflow_host *host, unsigned index)
{
    inflow->host = host;
    inflow->limit = &host->limit;
    inflow->share = &host->shares[index];
    begin(inflow->limit, get(&inflow->own.bytes));
    rawe_inflow_publish(inflow, 0);
}

void rawe_inflow_publish(struct rawe_inflow *inflow, uint64_t asked_bytes)
{
    if (inflow->share != NULL) {
        set(&inflow->share->asked_bytes, asked_bytes);
    }
}

void rawe_inflow_wait(struct rawe_inflow *inflow, uint64_t now_ns)
{
    inflow->progress_ns = now_ns;
}

/** What has been asked for and has not come is so much more, or less. */
static void change(struct rawe_inflow *inflow, uint64_t more, uint64_t less, uint64_t now_ns)
{
    inflow->progress_ns = now_ns;
    if (inflow->share != NULL) {
        const uint64_t asked_bytes = get(&inflow->share->asked_bytes) + more;
        set(&inflow->share->progress_ns, now_ns);
        set(&inflow->share->asked_bytes, asked_bytes > less ? asked_bytes - less : 0);
    }
}

void rawe_inflow_asked(struct rawe_inflow *inflow, uint64_t bytes, uint64_t now_ns)
{
    change(inflow, bytes, 0, now_ns);
}

struct rawe_inflow_others rawe_inflow_others(const struct rawe_inflow *inflow, uint64_t now_ns)
{
    struct rawe_inflow_others others = {0};
    for (unsigned i = 0; inflow->share != NULL && i < RAWE_INFLOW_SHARES; i++) {
        const struct rawe_inflow_share *share = &inflow->host->shares[i];
        const uint64_t bytes = get(&share->asked_bytes);
        if (share != inflow->share && bytes != 0 &&
            now_ns < get(&share->progress_ns) + RAWE_INFLOW_IDLE_NS) {
            others.bytes += bytes;
            others.count++;
        }
    }
    return others;
}

/** More may be asked for, by so much. */
static void grow(struct rawe_inflow_limit *limit, uint64_t bytes)
{
    const uint64_t limit_bytes = get(&limit->bytes);
    const bool known = limit_bytes < 2 * get(&limit->known_bytes);
    const uint64_t divisor = known ? GROWTH_DIVISOR : FAST_GROWTH_DIVISOR;
    const uint64_t grown_bytes = limit_bytes + (bytes + divisor - 1) / divisor;
    set(&limit->bytes, grown_bytes < RAWE_INFLOW_UNLIMITED ? grown_bytes : 0);
}

void rawe_inflow_arrived(struct rawe_inflow *inflow, uint64_t bytes, uint64_t now_ns)
{
    struct rawe_inflow_limit *limit = inflow->limit;
    const uint64_t excess_bytes = get(&limit->excess_bytes);
    change(inflow, 0, bytes, now_ns);
    if (get(&limit->bytes) == 0 && excess_bytes != 0) {
        set(&limit->excess_bytes, excess_bytes > bytes ? excess_bytes - bytes : 0);
    } else if (get(&limit->bytes) != 0 && inflow->limits) {
        grow(limit, bytes);
    }
}

/** No limit yet: is what is lost more than a limit costs? */
static bool loses_much(struct rawe_inflow_limit *limit, uint64_t bytes)
{
    const uint64_t excess_bytes = get(&limit->excess_bytes) + bytes * LOST_MULTIPLIER;
    const bool much = excess_bytes >= LOST_BYTES * LOST_MULTIPLIER;
    set(&limit->excess_bytes, much ? 0 : excess_bytes);
    return much;
}

void rawe_inflow_lost(struct rawe_inflow *inflow, uint64_t bytes, uint64_t asked_ns,
                      uint64_t now_ns)
{
    struct rawe_inflow_limit *limit = inflow->limit;
    if (!inflow->learns || asked_ns <= get(&limit->reduced_ns)) {
        return;
    }
    uint64_t limit_bytes = get(&limit->bytes);
    if (limit_bytes != 0) {
        limit_bytes = limit_bytes * 7 / 10;
        limit_bytes = limit_bytes > LEAST_BYTES ? limit_bytes : LEAST_BYTES;
    } else if (loses_much(limit, bytes)) {
        limit_bytes = FIRST_BYTES;
    } else {
        return;
    }
    set(&limit->reduced_ns, now_ns);
    set(&limit->known_bytes, limit_bytes);
    set(&limit->bytes, limit_bytes);
}
