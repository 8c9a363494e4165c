/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Limits the outstanding data that the processes of a host have requested with GETs through one
 * interface, from all peers together. A second instance limits grants in the same way
 * (rawe_grants.h). Outstanding data queues in our switch port, which drops what it cannot buffer,
 * so there is a limit while the link is busy. Peers that are busy with others send their data late.
 * Then the link idles, which is known from its rate, and the limit grows by as much as could have
 * arrived; arrivals shrink it again.
 *
 * The receiver does here for all its senders what congestion control does for one: with a window
 * per sender, their smallest windows together exceed the port's buffer. No clock, no socket.
 *
 * Processes that share memory (struct rawe_budget_host) share the limit. Each writes only its own
 * share, and all write the limit, where a lost update changes little. A process that stops or dies
 * blocks no other: its outstanding data counts only while some of it arrives. The memory may
 * contain anything, because another process may have run wild.
 */
#ifndef RAWE_BUDGET_H
#define RAWE_BUDGET_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "rawe_line.h"

/** Processes of a host that can share. Further ones have limits of their own. */
#define RAWE_BUDGET_SHARES 128u

/** A process's outstanding data, in a cache line of its own. */
struct rawe_budget_share {
    _Alignas(64) _Atomic uint64_t asked_bytes;
    _Atomic uint64_t progress_ns; /**< when something was last requested, or arrived */
    _Atomic uint64_t waits_ns;    /**< when it was last blocked with nothing outstanding */
};

/** The limit. All zero: nothing is known yet. */
struct rawe_budget_limit {
    _Atomic uint64_t bytes;     /**< 0: none */
    _Atomic uint64_t used_ns;   /**< the link's time until then was used, or grew the limit */
    _Atomic uint64_t link_mbps; /**< the line's rate to which it was last adapted */
};

/** What processes share of a budget. */
struct rawe_budget_host {
    struct rawe_budget_limit limit;
    _Atomic uint64_t used; /**< shares up to the last one that belongs to a process */
    struct rawe_budget_share shares[RAWE_BUDGET_SHARES];
};

struct rawe_budget_others {
    uint64_t bytes;
    unsigned count; /**< including those that wait */
    bool first;     /**< one waits with nothing outstanding, and its turn is before ours */
};

struct rawe_budget {
    struct rawe_budget_limit *limit; /**< the host's, or `own_limit` */
    struct rawe_budget_share *share; /**< in `host`, or `own_share` */
    struct rawe_budget_host *host;   /**< NULL: shared with no process */
    struct rawe_budget_limit own_limit;
    struct rawe_budget_share own_share;
    uint64_t asked_bytes;   /**< our outstanding data */
    uint64_t progress_ns;   /**< when something was last requested, arrived, or began to wait */
    uint64_t port_bytes;    /**< the switch port's buffer; 0: there is never a limit */
    struct rawe_line *line; /**< the interface's */
};

/**
 * Initialize a limit. `port_bytes` is the switch port's buffer; 0: no limit. While the link is
 * busy, the limit is half the port plus the data in transit at the line's rate.
 */
void rawe_budget_init(struct rawe_budget *budget, uint64_t port_bytes, struct rawe_line *line);
/** Share with the processes of this host, as number `index`. */
void rawe_budget_join(struct rawe_budget *budget, struct rawe_budget_host *host, unsigned index);
/** Set the number of outstanding bytes, which the other processes see. */
void rawe_budget_set_asked(struct rawe_budget *budget, uint64_t bytes);
/** A request begins to wait for its turn, and no other does. */
void rawe_budget_wait(struct rawe_budget *budget, uint64_t now_ns);
/** Nothing is outstanding, because it is another process's turn; ours is the next one. */
void rawe_budget_await_turn(struct rawe_budget *budget, uint64_t now_ns);
/** Add requested bytes to the outstanding data. */
void rawe_budget_asked(struct rawe_budget *budget, uint64_t bytes, uint64_t now_ns);
/** Return how much other processes have outstanding that may arrive, and how many they are. */
struct rawe_budget_others rawe_budget_others(const struct rawe_budget *budget, uint64_t now_ns);
/** Return after which silence peers are not running, or busy, so that others are asked as well. */
uint64_t rawe_budget_patience_ns(const struct rawe_budget *budget);
/** The limit is reached. If the link has idled meanwhile, it grows by `bytes`, and returns true. */
bool rawe_budget_idles(struct rawe_budget *budget, uint64_t bytes, uint64_t now_ns);
/** Bytes have arrived, and used the link's time. They remain outstanding until taken off. */
void rawe_budget_arrived(struct rawe_budget *budget, uint64_t bytes, uint64_t now_ns);
/** Everything outstanding arrived while more was waiting: the limit is too small for this host. */
void rawe_budget_ran_dry(struct rawe_budget *budget);

/** Take bytes that have arrived, or never will, off the outstanding data. */
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
