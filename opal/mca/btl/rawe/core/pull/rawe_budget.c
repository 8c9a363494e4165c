/* SPDX-License-Identifier: BSD-3-Clause */
#include "rawe_budget.h"

#include <stddef.h>

/** The limit never exceeds this: 10 ms at 25 Gb/s. */
#define MOST_BYTES (1u << 25)

/** Typical time from a request to its answer. */
#define ROUND_TRIP_NS 20000u

/** The part of a round trip that frames spend in transit rather than in the port. */
#define IN_TRANSIT_NS 16000u

/** After this long without data, a link is idle even if it seems to be very slow. */
#define IDLE_MOST_NS 500000u

/** Peers that send nothing for this many times idle_ns() are busy or not running. */
#define PATIENCE 15u

/**
 * Arriving data lowers the limit by its length divided by this. If every host sends to all others,
 * the link then idles for 3 % of the time.
 */
#define DECAY_DIVISOR 32u

static uint64_t load_value(const _Atomic uint64_t *value)
{
    return atomic_load_explicit(value, memory_order_relaxed);
}

static void put_value(_Atomic uint64_t *value, uint64_t to)
{
    atomic_store_explicit(value, to, memory_order_relaxed);
}

/** Return the limit for a busy link: half the buffer plus data in transit, at most the buffer. */
static uint64_t least_bytes(const struct rawe_budget *budget, uint64_t link_mbps)
{
    const uint64_t bytes = budget->port_bytes / 2 + link_mbps * IN_TRANSIT_NS / 8000;
    return bytes < budget->port_bytes ? bytes : budget->port_bytes;
}

/** Set the initial limit, unless another process of the host has already done so. */
static void begin_limit(struct rawe_budget *budget)
{
    struct rawe_budget_limit *limit = budget->limit;
    if (atomic_load_explicit(&limit->link_mbps, memory_order_acquire) == 0) {
        const uint64_t link_mbps = rawe_line_mbps(budget->line);
        put_value(&limit->bytes, least_bytes(budget, link_mbps));
        atomic_store_explicit(&limit->link_mbps, link_mbps, memory_order_release);
    }
}

void rawe_budget_init(struct rawe_budget *budget, uint64_t port_bytes, struct rawe_line *line)
{
    *budget = (struct rawe_budget){.port_bytes = port_bytes, .line = line};
    budget->limit = &budget->own_limit;
    budget->share = &budget->own_share;
    begin_limit(budget);
}

void rawe_budget_join(struct rawe_budget *budget, struct rawe_budget_host *host, unsigned index)
{
    budget->host = host;
    budget->limit = &host->limit;
    budget->share = &host->shares[index];
    uint64_t used = load_value(&host->used);
    while (used <= index && !atomic_compare_exchange_weak(&host->used, &used, index + 1)) {
    } /* other processes may join at the same time */
    begin_limit(budget);
    rawe_budget_set_asked(budget, 0);
}

void rawe_budget_set_asked(struct rawe_budget *budget, uint64_t bytes)
{
    budget->asked_bytes = bytes;
    put_value(&budget->share->asked_bytes, bytes);
}

void rawe_budget_wait(struct rawe_budget *budget, uint64_t now_ns)
{
    budget->progress_ns = now_ns;
    put_value(&budget->limit->used_ns, now_ns); /* nothing was outstanding before */
}

/** Return the time that bytes take on the link, plus a tenth for headers. */
static uint64_t link_ns(const struct rawe_budget *budget, uint64_t bytes)
{
    return bytes * 8800 / rawe_line_mbps(budget->line);
}

/**
 * Return the time without data after which the link is idle: a round trip, or on slow links the
 * time for 1/8 of the buffer, some 8 frames. With half of it, less of W4's load arrived at 1 Gb/s.
 */
static uint64_t idle_ns(const struct rawe_budget *budget)
{
    const uint64_t frames_ns = link_ns(budget, budget->port_bytes / 8);
    const uint64_t longer_ns = frames_ns > ROUND_TRIP_NS ? frames_ns : ROUND_TRIP_NS;
    return longer_ns < IDLE_MOST_NS ? longer_ns : IDLE_MOST_NS;
}

uint64_t rawe_budget_patience_ns(const struct rawe_budget *budget)
{
    return PATIENCE * idle_ns(budget);
}

static void raise_budget(struct rawe_budget *budget, uint64_t bytes)
{
    const uint64_t grown_bytes = load_value(&budget->limit->bytes) + bytes;
    put_value(&budget->limit->bytes, grown_bytes < MOST_BYTES ? grown_bytes : MOST_BYTES);
}

bool rawe_budget_idles(struct rawe_budget *budget, uint64_t bytes, uint64_t now_ns)
{
    const uint64_t least_ns = idle_ns(budget);
    if (now_ns < load_value(&budget->limit->used_ns) + least_ns) {
        return false;
    }
    put_value(&budget->limit->used_ns, now_ns - least_ns + link_ns(budget, bytes));
    raise_budget(budget, bytes);
    return true;
}

static void note_progress(struct rawe_budget *budget, uint64_t now_ns)
{
    budget->progress_ns = now_ns;
    put_value(&budget->share->progress_ns, now_ns);
}

void rawe_budget_asked(struct rawe_budget *budget, uint64_t bytes, uint64_t now_ns)
{
    note_progress(budget, now_ns);
    rawe_budget_set_asked(budget, budget->asked_bytes + bytes);
}

void rawe_budget_await_turn(struct rawe_budget *budget, uint64_t now_ns)
{
    put_value(&budget->share->waits_ns, now_ns);
}

/** Return the number of the host's shares that may be in use. */
static uint64_t shares_used(const struct rawe_budget *budget)
{
    const uint64_t used = budget->host != NULL ? load_value(&budget->host->used) : 0;
    return used < RAWE_BUDGET_SHARES ? used : RAWE_BUDGET_SHARES;
}

struct rawe_budget_others rawe_budget_others(const struct rawe_budget *budget, uint64_t now_ns)
{
    struct rawe_budget_others others = {0};
    const uint64_t used = shares_used(budget);
    for (uint64_t i = 0; i < used; i++) {
        const struct rawe_budget_share *share = &budget->host->shares[i];
        const uint64_t bytes = load_value(&share->asked_bytes);
        const uint64_t progress_ns = load_value(&share->progress_ns);
        if (share == budget->share) {
            continue;
        }
        if (bytes != 0 && now_ns < progress_ns + rawe_budget_patience_ns(budget)) {
            others.bytes += bytes;
            others.count++;
        } else if (bytes == 0 && now_ns < load_value(&share->waits_ns) + idle_ns(budget)) {
            others.count++;
            others.first = others.first || progress_ns < load_value(&budget->share->progress_ns);
        }
    }
    return others;
}

/** Lower the limit by a fraction of the arrived bytes, down to the limit for a busy link. */
static void lower_limit(struct rawe_budget *budget, uint64_t bytes, uint64_t now_ns)
{
    struct rawe_budget_limit *limit = budget->limit;
    const uint64_t link_mbps = rawe_line_mbps(budget->line);
    const uint64_t limit_bytes = load_value(&limit->bytes);
    const uint64_t busy_bytes = least_bytes(budget, link_mbps);
    if (link_mbps < load_value(&limit->link_mbps)) {
        put_value(&limit->bytes, busy_bytes); /* the limit grew while the rate was too high */
    } else if (limit_bytes > busy_bytes) {
        const uint64_t over_bytes = limit_bytes - busy_bytes;
        const uint64_t less_bytes = bytes / DECAY_DIVISOR;
        put_value(&limit->bytes, limit_bytes - (less_bytes < over_bytes ? less_bytes : over_bytes));
        if (limit_bytes > budget->port_bytes) {
            rawe_line_overfull(budget->line, now_ns);
        }
    }
    put_value(&limit->link_mbps, link_mbps);
}

void rawe_budget_arrived(struct rawe_budget *budget, uint64_t bytes, uint64_t now_ns)
{
    const uint64_t used_ns = load_value(&budget->limit->used_ns);
    note_progress(budget, now_ns);
    if (used_ns < now_ns) {
        const uint64_t until_ns = used_ns + link_ns(budget, bytes);
        put_value(&budget->limit->used_ns, until_ns < now_ns ? until_ns : now_ns);
    }
    lower_limit(budget, bytes, now_ns);
}

void rawe_budget_ran_dry(struct rawe_budget *budget)
{
    raise_budget(budget, load_value(&budget->limit->bytes) / 4);
}
