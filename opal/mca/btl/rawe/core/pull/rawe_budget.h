/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Limits the outstanding data that the processes of a host have requested with GETs through one
 * interface, from all peers together. A second instance limits grants in the same way
 * (rawe_grants.h). Outstanding data queues in our switch port, which drops what it cannot buffer,
 * so there is a limit while the link is busy. Peers that are busy with others send their data late.
 * The link then idles, as its rate shows, and the limit grows by the data that could have arrived;
 * arrivals shrink it again.
 *
 * The receiver does for all its senders what congestion control does for one: with one window per
 * sender, even minimum windows would together exceed the port's buffer. No clock, no socket.
 *
 * Processes that share memory (struct rawe_budget_host) share the limit. Each writes only its own
 * share, and all write the limit, where a lost update matters little. A process that stops or dies
 * blocks no other process: its outstanding data counts only while some of it arrives. The memory
 * may contain anything, because another process may have corrupted it.
 */
#ifndef RAWE_BUDGET_H
#define RAWE_BUDGET_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "rawe_line.h"

/** How many processes of a host can share a limit. Further ones have their own limits. */
#define RAWE_BUDGET_SHARES 128u

/** A process's outstanding data, in its own cache line. */
struct rawe_budget_share {
    _Alignas(64) _Atomic uint64_t asked_bytes;
    _Atomic uint64_t progress_ns; /**< when data was last requested, or arrived */
    _Atomic uint64_t waits_ns;    /**< when it was last blocked with nothing outstanding */
};

/** The limit. Initially all zero. */
struct rawe_budget_limit {
    _Atomic uint64_t bytes;     /**< 0: none */
    _Atomic uint64_t used_ns;   /**< link time up to here was used, or has raised the limit */
    _Atomic uint64_t link_mbps; /**< the line's rate when the limit was last adapted */
};

/** The part of a budget that processes share. */
struct rawe_budget_host {
    struct rawe_budget_limit limit;
    _Atomic uint64_t used; /**< shares up to the last one that belongs to a process */
    struct rawe_budget_share shares[RAWE_BUDGET_SHARES];
};

struct rawe_budget_others {
    uint64_t bytes;
    unsigned count; /**< number of processes, including waiting ones */
    bool first;     /**< a process with nothing outstanding waits for a turn before ours */
};

struct rawe_budget {
    struct rawe_budget_limit *limit; /**< the host's, or `own_limit` */
    struct rawe_budget_share *share; /**< in `host`, or `own_share` */
    struct rawe_budget_host *host;   /**< NULL: not shared */
    struct rawe_budget_limit own_limit;
    struct rawe_budget_share own_share;
    uint64_t asked_bytes;   /**< our outstanding data */
    uint64_t progress_ns;   /**< when data was last requested or arrived, or began to wait */
    uint64_t port_bytes;    /**< the switch port's buffer; 0: no limit */
    struct rawe_line *line; /**< the interface's */
};

/**
 * Initialize a limit. `port_bytes` is the switch port's buffer; 0: no limit. While the link is
 * busy, the limit is half that buffer plus the data in transit at the line's rate, or the whole
 * buffer if that is less.
 */
void rawe_budget_init(struct rawe_budget *budget, uint64_t port_bytes, struct rawe_line *line);
/** Share the limit with the processes of this host, as number `index`. */
void rawe_budget_join(struct rawe_budget *budget, struct rawe_budget_host *host, unsigned index);
/** Set the number of outstanding bytes, visible to the other processes. */
void rawe_budget_set_asked(struct rawe_budget *budget, uint64_t bytes);
/** Note that a request begins to wait for its turn, and no other request is waiting. */
void rawe_budget_wait(struct rawe_budget *budget, uint64_t now_ns);
/** Claim the next turn: we have nothing outstanding, because it is another process's turn. */
void rawe_budget_await_turn(struct rawe_budget *budget, uint64_t now_ns);
/** Add requested bytes to the outstanding data. */
void rawe_budget_asked(struct rawe_budget *budget, uint64_t bytes, uint64_t now_ns);
/** Return how many other processes have outstanding data that may still arrive, and how much. */
struct rawe_budget_others rawe_budget_others(const struct rawe_budget *budget, uint64_t now_ns);
/** Return the silence after which peers count as busy or stopped, so that we ask others as well. */
uint64_t rawe_budget_patience_ns(const struct rawe_budget *budget);
/** If the link has idled since the limit was reached, raise it by `bytes` and return true. */
bool rawe_budget_idles(struct rawe_budget *budget, uint64_t bytes, uint64_t now_ns);
/** Note the link time used by arrived bytes, which stay outstanding until taken off. */
void rawe_budget_arrived(struct rawe_budget *budget, uint64_t bytes, uint64_t now_ns);
/** Note that all outstanding data arrived while more was waiting: the limit is too small. */
void rawe_budget_ran_dry(struct rawe_budget *budget);

/** Subtract bytes that have arrived, or never will, from the outstanding data. */
static inline void rawe_budget_take_off(struct rawe_budget *budget, uint64_t bytes)
{
    assert(bytes <= budget->asked_bytes);
    rawe_budget_set_asked(budget, budget->asked_bytes - bytes);
}

/** Return the limit in bytes; 0: none. */
static inline uint64_t rawe_budget_limit_bytes(const struct rawe_budget *budget)
{
    return atomic_load_explicit(&budget->limit->bytes, memory_order_relaxed);
}

#endif
