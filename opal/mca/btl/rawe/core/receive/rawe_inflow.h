/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * How much of long messages the processes of a host may have asked for through one interface, over
 * all peers that send them some; or, with a limit of its own, what they have granted (rawe_grants.h).
 * What has been asked for and has not come meets in the switch port of this host, which drops what it
 * cannot buffer. So there is a limit, as long as the link is busy.
 * Peers that are busy with others send late what they were asked for. Then the link idles, which its
 * rate tells, and the limit grows by what would have come; what comes makes it smaller again.
 *
 * The receiver does here, for all of its senders together, what congestion control does for one sender:
 * with a window for each of them, their least windows are more than a port holds. No clock, no socket.
 *
 * Processes that share memory (struct rawe_inflow_host) share the limit, too. Each writes only its own
 * share in it; the limit is written by all, and an update lost between two of them changes little. One
 * that stops, or dies, holds up no other: what it has asked for counts while some of it comes. What is
 * read there may be anything: another process may have gone wild.
 */
#ifndef RAWE_INFLOW_H
#define RAWE_INFLOW_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "rawe_line.h"

/** Processes of a host that can share. Others have limits of their own. */
#define RAWE_INFLOW_SHARES 128u

/** What a process has asked for. In a cache line of its own. */
struct rawe_inflow_share {
    _Alignas(64) _Atomic uint64_t asked_bytes;
    _Atomic uint64_t progress_ns; /**< something was asked for, or came, last */
    _Atomic uint64_t waits_ns;    /**< it had asked for nothing, and could not, last */
};

/** The limit. In all zeroes nothing is known yet. */
struct rawe_inflow_limit {
    _Atomic uint64_t bytes;     /**< 0: none */
    _Atomic uint64_t used_ns;   /**< the link's time until then was used, or the limit has grown */
    _Atomic uint64_t link_mbps; /**< the line's rate that it was last adapted to */
};

/** Memory that processes share; it begins with all zeroes. Their clock has to be the same. */
struct rawe_inflow_host {
    struct rawe_inflow_limit limit;
    _Atomic uint64_t used; /**< shares up to the last one that a process has */
    struct rawe_inflow_share shares[RAWE_INFLOW_SHARES];
};

/** The two limits, and what is known of the line that they are for. */
struct rawe_inflow_shared {
    struct rawe_inflow_host gets, grants;
    struct rawe_line_host line;
};

struct rawe_inflow_others {
    uint64_t bytes;
    unsigned count; /**< those that wait included */
    bool first;     /**< one waits with nothing, and had its turn before this process */
};

struct rawe_inflow {
    struct rawe_inflow_limit *limit; /**< the host's, or `own` */
    struct rawe_inflow_share *share; /**< in `host`; NULL: it shares with no process */
    struct rawe_inflow_host *host;
    struct rawe_inflow_limit own;
    uint64_t progress_ns;   /**< something was asked for, came, or began to wait, last */
    uint64_t port_bytes;    /**< what the switch port buffers; 0: there is never a limit */
    struct rawe_line *line; /**< the interface's */
    bool limits;            /**< more would have been asked for */
};

/**
 * `port_bytes` is what the switch port buffers, 0: no limit. While the link is busy the limit is half of
 * that, and what is on its way by the line's rate.
 */
void rawe_inflow_init(struct rawe_inflow *inflow, uint64_t port_bytes, struct rawe_line *line);
/** Share with the processes of this host, of which this one is number `index`. */
void rawe_inflow_join(struct rawe_inflow *inflow, struct rawe_inflow_host *host, unsigned index);
/** So much has been asked for and has not come, by a count of it: some may not come any more. */
void rawe_inflow_publish(struct rawe_inflow *inflow, uint64_t asked_bytes);
/** Something has begun to wait for its turn, nothing else does. */
void rawe_inflow_wait(struct rawe_inflow *inflow, uint64_t now_ns);
/** Nothing has been asked for, as it is another process's turn; the next one is this one's. */
void rawe_inflow_await_turn(struct rawe_inflow *inflow, uint64_t now_ns);
/** So much is asked for now. */
void rawe_inflow_asked(struct rawe_inflow *inflow, uint64_t bytes, uint64_t now_ns);
/** Bytes that were asked for will not come. */
void rawe_inflow_abandoned(struct rawe_inflow *inflow, uint64_t bytes);
/** What other processes have asked for and may come, and how many of them there are. */
struct rawe_inflow_others rawe_inflow_others(const struct rawe_inflow *inflow, uint64_t now_ns);
/** When nothing has come for this time, the peers do not run, or are busy: others are asked as well. */
uint64_t rawe_inflow_patience_ns(const struct rawe_inflow *inflow);
/** The limit is reached. If the link has idled meanwhile, it grows by `bytes`: true. */
bool rawe_inflow_idles(struct rawe_inflow *inflow, uint64_t bytes, uint64_t now_ns);
/** Bytes that were asked for have come. */
void rawe_inflow_arrived(struct rawe_inflow *inflow, uint64_t bytes, uint64_t now_ns);
/** All that was asked for has come while more waited: the limit is too small for this host. */
void rawe_inflow_ran_dry(struct rawe_inflow *inflow);

/** 0: there is none. */
static inline uint64_t rawe_inflow_limit_bytes(const struct rawe_inflow *inflow)
{
    return atomic_load_explicit(&inflow->limit->bytes, memory_order_relaxed);
}

#endif
