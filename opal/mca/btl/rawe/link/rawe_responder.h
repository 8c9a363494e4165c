/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The responder: a sleeping thread with a socket of its own that answers PING frames while the
 * process computes, and that finds out for its own process whether a peer can be reached, with
 * which frame size, and whether it is still alive. It never touches the engine.
 */
#ifndef RAWE_RESPONDER_H
#define RAWE_RESPONDER_H

#include <stdbool.h>
#include <stdint.h>

#include "../core/rawe_wire.h"
#include "rawe_link.h"

struct rawe_responder;

/** A way to a peer to be probed, and what was found out. */
struct rawe_reach {
    uint8_t mac[RAWE_MAC_BYTES]; /**< in */
    uint16_t port;               /**< in: peer's */
    uint32_t key;                /**< in: peer's */
    uint32_t mtu_bytes;          /**< in: the largest MTU worth trying, both ends' minimum */
    bool another_way;            /**< in: to the process of the entry before, and a worse one */
    bool reached_elsewhere; /**< in: some other way to the process is known already */
    /**
     * in: not NULL: through this responder, and only to find out whether the process is there. Such
     * entries stand behind the others of their process.
     */
    struct rawe_responder *witness;
    /**
     * in: how long it is tried at most once the process has been reached some other way; 0: until
     * the timeout.
     */
    uint64_t other_way_ns;
    uint32_t mtu_passed_bytes;   /**< out: largest MTU that came back; 0: none that is of use */
    bool small_passed;           /**< out: some frame came back, if only a minimal one */
};

struct rawe_responder_counters {
    uint64_t pings_answered;
    uint64_t pings_unanswered; /**< the kernel had no room for the answer */
    uint64_t probes_seen;      /**< PROBE frames, which belong to the engine, too */
    uint64_t pongs_matched;
    uint64_t pongs_unknown;  /**< answers to no probe under way: late, or forged */
    uint64_t frames_invalid; /**< passed the filter, not the decoder */
    uint64_t pauses;         /**< more frames than the rate limit came: slept instead */
};

/** What the thread does beside. */
struct rawe_responder_duty {
    /**
     * Called by the thread after rawe_responder_wake, after frames came (`asked`: a PROBE was among
     * them), and when the time has passed that it returned: milliseconds, -1: no need. NULL:
     * nothing.
     */
    int (*service)(void *context, bool asked);
    void *context;
};

/**
 * Start socket and thread; `duty` may be NULL. Same error rules as rawe_link_open; config's
 * ring_bytes is not used.
 */
int rawe_responder_start(struct rawe_responder **responder, const struct rawe_link_config *config,
                         const uint8_t mac[RAWE_MAC_BYTES], const struct rawe_responder_duty *duty,
                         struct rawe_link_error *error);

/** Have the thread tend to its duty; from any thread. */
void rawe_responder_wake(struct rawe_responder *responder);

/** End the thread, so that its duty's context may go; the socket stays. */
void rawe_responder_join(struct rawe_responder *responder);

/**
 * End the thread if it has not ended, close the socket. No other call may be under way; NULL is
 * nothing to stop.
 */
void rawe_responder_stop(struct rawe_responder *responder);

/**
 * Probe all `count` ways at the same time, small and full MTU, then, where only the small one
 * passed, usual sizes between. Frames are repeated (loss is not unreachability) until everything
 * is known or `timeout_ns` has passed; of several ways to a process those behind the first good one
 * need not be known. A peer whose small frame passes at once is not waited for
 * longer than needed: full-size trials end after a short multiple of the small one's round trip
 * (with a floor that bears a busy host). Blocks the caller; safe from any thread.
 */
void rawe_responder_reach(struct rawe_responder *responder, struct rawe_reach *peers,
                          unsigned count, uint64_t timeout_ns);

/**
 * Liveness watch, lock-free for the caller. `watch` returns a slot (or -1 when out of memory);
 * `ping` sends one small PING for it; `last_pong_ns` tells when the newest answer came
 * (CLOCK_MONOTONIC nanoseconds, 0: never).
 */
int rawe_responder_watch(struct rawe_responder *responder, const uint8_t mac[RAWE_MAC_BYTES],
                         uint16_t port, uint32_t key);
void rawe_responder_unwatch(struct rawe_responder *responder, int slot);
void rawe_responder_ping(struct rawe_responder *responder, int slot);
uint64_t rawe_responder_last_pong_ns(const struct rawe_responder *responder, int slot);

/** A snapshot; safe from any thread. */
void rawe_responder_read_counters(const struct rawe_responder *responder,
                                  struct rawe_responder_counters *counters);

#endif
