/* SPDX-License-Identifier: BSD-3-Clause */
#include "rawe_inflow.h"

#include <stddef.h>

/** The limit never exceeds this: 10 ms at 25 Gb/s. */
#define MOST_BYTES (1u << 25)

/** Typical time from a request to its answer. */
#define ROUND_TRIP_NS 20000u

/** The part of a round trip that frames spend in transit, outside the port. */
#define IN_TRANSIT_NS 16000u

/** After this long without data a link is idle, however slow it seems to be. */
#define IDLE_MOST_NS 500000u

/** Peers that send nothing for this many times idle_ns() are busy or do not run. */
#define PATIENCE 15u

/**
 * Arriving data lowers the limit by this part of its length. Where hosts send to all others, the
 * link then idles for 3 % of the time.
 */
#define DECAY_DIVISOR 32u

static uint64_t get(const _Atomic uint64_t *value)
{
    return atomic_load_explicit(value, memory_order_relaxed);
}

static void set(_Atomic uint64_t *value, uint64_t to)
{
    atomic_store_explicit(value, to, memory_order_relaxed);
}

/** Return the limit of a busy link: half of the port and the data in transit, at most the port. */
static uint64_t least_bytes(const struct rawe_inflow *inflow, uint64_t link_mbps)
{
    const uint64_t bytes = inflow->port_bytes / 2 + link_mbps * IN_TRANSIT_NS / 8000;
    return bytes < inflow->port_bytes ? bytes : inflow->port_bytes;
}

/** Set the first limit, unless another process of the host has. */
static void begin(struct rawe_inflow *inflow)
{
    struct rawe_inflow_limit *limit = inflow->limit;
    if (atomic_load_explicit(&limit->link_mbps, memory_order_acquire) == 0) {
        const uint64_t link_mbps = rawe_line_mbps(inflow->line);
        set(&limit->bytes, least_bytes(inflow, link_mbps));
        atomic_store_explicit(&limit->link_mbps, link_mbps, memory_order_release);
    }
}

void rawe_inflow_init(struct rawe_inflow *inflow, uint64_t port_bytes, struct rawe_line *line)
{
    *inflow = (struct rawe_inflow){.port_bytes = port_bytes, .line = line};
    inflow->limit = &inflow->own;
    begin(inflow);
}

void rawe_inflow_join(struct rawe_inflow *inflow, struct rawe_inflow_host *host, unsigned index)
{
    inflow->host = host;
    inflow->limit = &host->limit;
    inflow->share = &host->shares[index];
    uint64_t used = get(&host->used);
    while (used <= index && !atomic_compare_exchange_weak(&host->used, &used, index + 1)) {
    } /* others join at the same time */
    begin(inflow);
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
    set(&inflow->limit->used_ns, now_ns); /* nothing was outstanding before */
}

/** Return the time that bytes take on the link, including a tenth for headers. */
static uint64_t link_ns(const struct rawe_inflow *inflow, uint64_t bytes)
{
    return bytes * 8800 / rawe_line_mbps(inflow->line);
}

/**
 * Return the time without data after which the link is idle: a round trip, or on slow links the
 * time of 1/8 of a port, some 8 frames. With half a port, less of W4's load arrived at 1 Gb/s.
 */
static uint64_t idle_ns(const struct rawe_inflow *inflow)
{
    const uint64_t frames_ns = link_ns(inflow, inflow->port_bytes / 8);
    const uint64_t longer_ns = frames_ns > ROUND_TRIP_NS ? frames_ns : ROUND_TRIP_NS;
    return longer_ns < IDLE_MOST_NS ? longer_ns : IDLE_MOST_NS;
}

uint64_t rawe_inflow_patience_ns(const struct rawe_inflow *inflow)
{
    return PATIENCE * idle_ns(inflow);
}

static void grow(struct rawe_inflow *inflow, uint64_t bytes)
{
    const uint64_t grown_bytes = get(&inflow->limit->bytes) + bytes;
    set(&inflow->limit->bytes, grown_bytes < MOST_BYTES ? grown_bytes : MOST_BYTES);
}

bool rawe_inflow_idles(struct rawe_inflow *inflow, uint64_t bytes, uint64_t now_ns)
{
    const uint64_t least_ns = idle_ns(inflow);
    if (now_ns < get(&inflow->limit->used_ns) + least_ns) {
        return false;
    }
    set(&inflow->limit->used_ns, now_ns - least_ns + link_ns(inflow, bytes));
    grow(inflow, bytes);
    return true;
}

/** Note progress: `more` bytes were requested, `less` bytes arrived. */
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

void rawe_inflow_abandoned(struct rawe_inflow *inflow, uint64_t bytes)
{
    if (inflow->share != NULL) {
        const uint64_t asked_bytes = get(&inflow->share->asked_bytes);
        set(&inflow->share->asked_bytes, asked_bytes > bytes ? asked_bytes - bytes : 0);
    }
}

void rawe_inflow_await_turn(struct rawe_inflow *inflow, uint64_t now_ns)
{
    if (inflow->share != NULL) {
        set(&inflow->share->waits_ns, now_ns);
    }
}

/** Return the number of the host's shares that may be in use. */
static uint64_t shares_used(const struct rawe_inflow *inflow)
{
    const uint64_t used = inflow->share != NULL ? get(&inflow->host->used) : 0;
    return used < RAWE_INFLOW_SHARES ? used : RAWE_INFLOW_SHARES;
}

struct rawe_inflow_others rawe_inflow_others(const struct rawe_inflow *inflow, uint64_t now_ns)
{
    struct rawe_inflow_others others = {0};
    const uint64_t used = shares_used(inflow);
    for (uint64_t i = 0; i < used; i++) {
        const struct rawe_inflow_share *share = &inflow->host->shares[i];
        const uint64_t bytes = get(&share->asked_bytes);
        const uint64_t progress_ns = get(&share->progress_ns);
        if (share == inflow->share) {
            continue;
        }
        if (bytes != 0 && now_ns < progress_ns + rawe_inflow_patience_ns(inflow)) {
            others.bytes += bytes;
            others.count++;
        } else if (bytes == 0 && now_ns < get(&share->waits_ns) + idle_ns(inflow)) {
            others.count++;
            others.first = others.first || progress_ns < get(&inflow->share->progress_ns);
        }
    }
    return others;
}

/** Lower the limit by a part of the arrived bytes, down to that of a busy link. */
static void decay(struct rawe_inflow *inflow, uint64_t bytes, uint64_t now_ns)
{
    struct rawe_inflow_limit *limit = inflow->limit;
    const uint64_t link_mbps = rawe_line_mbps(inflow->line);
    const uint64_t limit_bytes = get(&limit->bytes);
    const uint64_t busy_bytes = least_bytes(inflow, link_mbps);
    if (link_mbps < get(&limit->link_mbps)) {
        set(&limit->bytes, busy_bytes); /* it grew with too high a rate */
    } else if (limit_bytes > busy_bytes) {
        const uint64_t over_bytes = limit_bytes - busy_bytes;
        const uint64_t less_bytes = bytes / DECAY_DIVISOR;
        set(&limit->bytes, limit_bytes - (less_bytes < over_bytes ? less_bytes : over_bytes));
        if (limit_bytes > inflow->port_bytes) {
            rawe_line_overfull(inflow->line, now_ns);
        }
    }
    set(&limit->link_mbps, link_mbps);
}

void rawe_inflow_arrived(struct rawe_inflow *inflow, uint64_t bytes, uint64_t now_ns)
{
    const uint64_t used_ns = get(&inflow->limit->used_ns);
    change(inflow, 0, bytes, now_ns);
    if (used_ns < now_ns) {
        const uint64_t until_ns = used_ns + link_ns(inflow, bytes);
        set(&inflow->limit->used_ns, until_ns < now_ns ? until_ns : now_ns);
    }
    decay(inflow, bytes, now_ns);
}

void rawe_inflow_ran_dry(struct rawe_inflow *inflow)
{
    grow(inflow, get(&inflow->limit->bytes) / 4);
}
