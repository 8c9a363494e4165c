/* SPDX-License-Identifier: BSD-3-Clause */
#include "rawe_inflow.h"

#include <stddef.h>

/** Whatever hosts do: 10 ms at 25 Gb/s. */
#define MOST_BYTES (1u << 25)

/** Request and answer take some such time. */
#define ROUND_TRIP_NS 20000u

/** Of a round trip, the time in which frames are on their way, and not in the port. */
#define IN_TRANSIT_NS 16000u

/** No link counts as busy when nothing has come for that time, however slow it seems to be. */
#define IDLE_MOST_NS 500000u

/** Peers that have sent nothing for that many times what makes the link idle do not run, or are busy. */
#define PATIENCE 15u

/** What comes makes the limit smaller by that part: where hosts send to all others, 3 % of the time idle. */
#define DECAY_DIVISOR 32u

/** The rate of a link that does not report it. */
#define UNKNOWN_MBPS 10000u

/**
 * More than a quarter of what comes, and some 180 frames beyond that, is lost only where something behind
 * the link is slower, as a virtual machine's share of a NIC is: then the link has not half of its rate.
 */
#define LOST_MULTIPLIER 4u
#define LOST_BYTES 262144u

/** When that much has come, the next higher rate is tried: if it is too high, 0.1 % of that is lost. */
#define RETRY_BYTES (1ull << 28)

static uint64_t get(const _Atomic uint64_t *value)
{
    return atomic_load_explicit(value, memory_order_relaxed);
}

static void set(_Atomic uint64_t *value, uint64_t to)
{
    atomic_store_explicit(value, to, memory_order_relaxed);
}

/** The limit while the link is busy: half of the port, and what is on its way; no more than the port. */
static uint64_t least_bytes(const struct rawe_inflow *inflow, uint64_t link_mbps)
{
    const uint64_t bytes = inflow->port_bytes / 2 + link_mbps * IN_TRANSIT_NS / 8000;
    return bytes < inflow->port_bytes ? bytes : inflow->port_bytes;
}

/** Unless another process of the host has. */
static void begin(struct rawe_inflow *inflow)
{
    struct rawe_inflow_limit *limit = inflow->limit;
    if (atomic_load_explicit(&limit->link_mbps, memory_order_acquire) == 0) {
        set(&limit->bytes, least_bytes(inflow, inflow->link_mbps));
        atomic_store_explicit(&limit->link_mbps, inflow->link_mbps, memory_order_release);
    }
}

void rawe_inflow_init(struct rawe_inflow *inflow, uint64_t port_bytes, uint32_t link_mbps)
{
    link_mbps = link_mbps != 0 ? link_mbps : UNKNOWN_MBPS;
    *inflow = (struct rawe_inflow){.port_bytes = port_bytes, .link_mbps = link_mbps};
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
    } /* others join meanwhile */
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
    set(&inflow->limit->used_ns, now_ns); /* nothing was to come before */
}

/** The time that bytes take on the link, a tenth of headers included. */
static uint64_t link_ns(const struct rawe_inflow *inflow, uint64_t bytes)
{
    return bytes * 8800 / rawe_inflow_link_mbps(inflow);
}

/**
 * The link idles if nothing comes for a round trip. On slow links frames make that longer: an eighth of
 * a port is some 8 of them. With half a port, less of W4's load arrived at 1 Gb/s.
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

/** Shares of the host that may be in use. */
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

/** The link seems to have that rate from now on. */
static void set_rate(struct rawe_inflow *inflow, uint64_t link_mbps)
{
    set(&inflow->limit->link_mbps, link_mbps);
    set(&inflow->limit->bytes, least_bytes(inflow, link_mbps));
    set(&inflow->limit->excess_bytes, 0);
    set(&inflow->limit->slow_bytes, 0);
}

/** Less than the link reports: what was in the way may be gone. */
static void try_more(struct rawe_inflow *inflow, uint64_t link_mbps, uint64_t bytes)
{
    const uint64_t slow_bytes = get(&inflow->limit->slow_bytes) + bytes;
    set(&inflow->limit->slow_bytes, slow_bytes);
    if (slow_bytes >= RETRY_BYTES) {
        set_rate(inflow, 2 * link_mbps < inflow->link_mbps ? 2 * link_mbps : inflow->link_mbps);
    }
}

void rawe_inflow_arrived(struct rawe_inflow *inflow, uint64_t bytes, uint64_t now_ns)
{
    struct rawe_inflow_limit *limit = inflow->limit;
    const uint64_t used_ns = get(&limit->used_ns);
    const uint64_t excess_bytes = get(&limit->excess_bytes);
    const uint64_t limit_bytes = get(&limit->bytes);
    const uint64_t link_mbps = rawe_inflow_link_mbps(inflow);
    const uint64_t busy_bytes = least_bytes(inflow, link_mbps);
    change(inflow, 0, bytes, now_ns);
    if (used_ns < now_ns) {
        const uint64_t until_ns = used_ns + link_ns(inflow, bytes);
        set(&limit->used_ns, until_ns < now_ns ? until_ns : now_ns);
    }
    if (excess_bytes != 0) {
        set(&limit->excess_bytes, excess_bytes > bytes ? excess_bytes - bytes : 0);
    }
    if (limit_bytes > busy_bytes) {
        const uint64_t over_bytes = limit_bytes - busy_bytes;
        const uint64_t less_bytes = bytes / DECAY_DIVISOR;
        set(&limit->bytes, limit_bytes - (less_bytes < over_bytes ? less_bytes : over_bytes));
    }
    if (link_mbps < inflow->link_mbps) {
        try_more(inflow, link_mbps, bytes);
    }
}

void rawe_inflow_ran_dry(struct rawe_inflow *inflow)
{
    grow(inflow, get(&inflow->limit->bytes) / 4);
}

void rawe_inflow_lost(struct rawe_inflow *inflow, uint64_t bytes)
{
    struct rawe_inflow_limit *limit = inflow->limit;
    const uint64_t excess_bytes = get(&limit->excess_bytes) + bytes * LOST_MULTIPLIER;
    const uint64_t link_mbps = rawe_inflow_link_mbps(inflow);
    if (excess_bytes < LOST_BYTES * LOST_MULTIPLIER) {
        set(&limit->excess_bytes, excess_bytes);
    } else if (inflow->port_bytes != 0) {
        set_rate(inflow, link_mbps > 1 ? link_mbps / 2 : 1);
    }
}
