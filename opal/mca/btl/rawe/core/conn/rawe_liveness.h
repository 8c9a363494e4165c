/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Liveness of a peer as seen by one connection: when to send a tail-loss probe (RFC 8985 section
 * 7), how long the peer has been silent, when to give up on it. While it owes an answer, probes are
 * sent at intervals that double up to a limit. A peer that owes nothing is probed regularly if its
 * death matters.
 */
#ifndef RAWE_LIVENESS_H
#define RAWE_LIVENESS_H

#include <stdbool.h>
#include <stdint.h>

#include "send/rawe_loss.h"

/** How many probes are remembered: the oldest, because answers arrive in order, and the newest. */
#define RAWE_LIVENESS_PROBES 8u

/** The remembered probes, oldest first. */
struct rawe_liveness_probes {
    uint64_t sent_ns[RAWE_LIVENESS_PROBES]; /**< when they were sent */
    uint32_t numbers[RAWE_LIVENESS_PROBES];
};

struct rawe_liveness_limits {
    uint64_t probe_least_ns;  /**< shortest silence that triggers a probe */
    uint64_t probe_most_ns;   /**< longest interval between probes */
    uint64_t peer_timeout_ns; /**< silence after which we give up on the peer; 0: never */
    uint64_t idle_ns;         /**< interval between probes of a peer that owes nothing; 0: never */
};

struct rawe_liveness {
    const struct rawe_rtt *rtt;                /**< the connection's */
    const struct rawe_liveness_limits *limits; /**< the engine's */
    uint64_t asked_ns;         /**< when we last probed, or tried to with the link full */
    uint64_t stalled_since_ns; /**< since when probes are answered without `stalled_una` arriving */
    struct rawe_liveness_probes *probes; /**< NULL: none is remembered */
    uint32_t stalled_una;                /**< oldest frame in flight at the previous probe */
    uint32_t probe_number;               /**< of the newest probe, counted from 1; 0: none yet */
    /* for every message */
    uint64_t probe_deadline_ns; /**< when to probe, or to check if an answer is owed; 0: never */
    uint64_t waits_since_ns;    /**< since when an acknowledgement is owed; 0: none is */
    uint64_t silent_since_ns;   /**< when the first unanswered probe was sent; 0: not silent */
    uint32_t probes_unanswered; /**< since we last heard from the peer */
    uint8_t probes_remembered;  /**< how many */
    bool idle_asked;            /**< the owed answer is to a probe of an idle peer */
};

/** Probe interval before the round trip is known, and interval between CONNECTs. */
#define RAWE_LIVENESS_FIRST_INTERVAL_NS 1000000ull

/** Initialize zeroed memory as a connection's liveness. `rtt` and `limits` must outlive it. */
static inline void rawe_liveness_init(struct rawe_liveness *liveness, const struct rawe_rtt *rtt,
                                      const struct rawe_liveness_limits *limits)
{
    liveness->rtt = rtt;
    liveness->limits = limits;
}

/** Return how long to wait for an answer before sending the next probe. */
uint64_t rawe_liveness_interval_ns(const struct rawe_liveness *liveness);

/** End the peer's silence, because it has acknowledged something or answered. */
static inline void rawe_liveness_heard(struct rawe_liveness *liveness)
{
    liveness->probes_unanswered = 0;
    liveness->silent_since_ns = 0;
}

/** Return true if a probe is unanswered and the peer has not been heard since. */
static inline bool rawe_liveness_is_silent(const struct rawe_liveness *liveness)
{
    return liveness->silent_since_ns != 0;
}

/** Discount silence before `alive_ns`, when the peer's responder answered. */
void rawe_liveness_alive(struct rawe_liveness *liveness, uint64_t alive_ns);

/** Probe at `deadline_ns`, or earlier if planned (RFC 6298 section 5.1). True: the time changed. */
static inline bool rawe_liveness_ask_by(struct rawe_liveness *liveness, uint64_t deadline_ns)
{
    if (liveness->probe_deadline_ns != 0 && deadline_ns >= liveness->probe_deadline_ns) {
        return false;
    }
    liveness->probe_deadline_ns = deadline_ns;
    return true;
}

/** Probe at `deadline_ns`, whatever was planned; 0: no answer is owed. */
static inline void rawe_liveness_ask_at(struct rawe_liveness *liveness, uint64_t deadline_ns)
{
    liveness->probe_deadline_ns = deadline_ns;
}

/** Note that an acknowledgement is owed from now on, unless one was already. */
static inline void rawe_liveness_wait(struct rawe_liveness *liveness, uint64_t now_ns)
{
    if (liveness->waits_since_ns == 0) {
        liveness->waits_since_ns = now_ns;
    }
}

/** Note the arrival of an acknowledgement. `more`: others are still owed. */
static inline void rawe_liveness_progress(struct rawe_liveness *liveness, bool more,
                                          uint64_t now_ns)
{
    liveness->waits_since_ns = more ? now_ns : 0;
}

/** Recompute a deadline that has passed from the newest frame, unless a probe is unanswered. */
static inline void rawe_liveness_correct(struct rawe_liveness *liveness, uint64_t interval_ns)
{
    if (liveness->probes_unanswered == 0) {
        liveness->probe_deadline_ns =
            liveness->waits_since_ns != 0 ? liveness->waits_since_ns + interval_ns : 0;
    }
}

/**
 * Repeat the CONNECT sent at `now_ns` up to half an interval earlier. When thousands of processes
 * connect to a host at once, they lose most CONNECTs in its switch port, and would lose them each
 * time if they repeated them in step.
 */
static inline void rawe_liveness_spread(struct rawe_liveness *liveness, uint64_t now_ns)
{
    uint64_t random = (now_ns * 0x9E3779B97F4A7C15ull) >> 32; /* clocks differ by nanoseconds */
    liveness->probe_deadline_ns -= ((liveness->probe_deadline_ns - now_ns) * random) >> 33;
}

/** Plan when to repeat a first CONNECT that was just sent. */
static inline void rawe_liveness_connecting(struct rawe_liveness *liveness, uint64_t now_ns)
{
    liveness->asked_ns = now_ns;
    liveness->probe_deadline_ns = now_ns + RAWE_LIVENESS_FIRST_INTERVAL_NS;
    rawe_liveness_spread(liveness, now_ns);
}

/** Return the round trip of an answered CONNECT; 0 if repeated (Karn's rule) or we paused. */
static inline uint64_t rawe_liveness_connected_ns(const struct rawe_liveness *liveness,
                                                  uint64_t now_ns)
{
    uint64_t passed_ns = now_ns - liveness->asked_ns;
    bool once = liveness->probes_unanswered == 0 && passed_ns < RAWE_LIVENESS_FIRST_INTERVAL_NS;
    return once ? passed_ns : 0;
}

/** Reset at the start or end: nothing is owed, no probe is outstanding, no memory is used. */
void rawe_liveness_reset(struct rawe_liveness *liveness);

/** Note, if `due`, a probe of an idle peer. Returns true while the answer to one is owed. */
static inline bool rawe_liveness_ask_idle(struct rawe_liveness *liveness, bool due)
{
    liveness->idle_asked = due || (liveness->idle_asked && liveness->probes_unanswered != 0);
    return liveness->idle_asked;
}

/** Expect no answer, because none is due, or because a finalizing peer has exited. */
static inline void rawe_liveness_expect_nothing(struct rawe_liveness *liveness)
{
    liveness->probe_deadline_ns = liveness->waits_since_ns = 0;
    liveness->idle_asked = false;
    rawe_liveness_heard(liveness);
}

/** What to do when a probe is due. */
enum rawe_liveness_verdict {
    RAWE_LIVENESS_ASK,     /**< send a probe (or a CONNECT) */
    RAWE_LIVENESS_GIVE_UP, /**< silent for the peer timeout */
};

/** Decide what to do now. Time when we did not run, or were `deferring`, is not silence. */
enum rawe_liveness_verdict rawe_liveness_expire(struct rawe_liveness *liveness, bool deferring,
                                                uint64_t now_ns, uint64_t *silent_ns);

/** Probe over another route from now on. The count restarts; the peer's silence continues. */
void rawe_liveness_migrate(struct rawe_liveness *liveness, bool deferring, uint64_t now_ns);

/** After this many transmissions, chance does not explain why the oldest frame is missing. */
#define RAWE_LIVENESS_STALL_SENDINGS 4u

/**
 * Return for how long the oldest frame in flight (number `una`, sent `sendings` times; 0: none) has
 * failed to arrive although probes are answered; 0: not stalled. Time when we did not run, or the
 * owner was outside MPI, does not count.
 */
uint64_t rawe_liveness_stalled_ns(struct rawe_liveness *liveness, uint32_t una, unsigned sendings,
                                  bool deferring, uint64_t now_ns);

/** Return the number of the next probe. */
static inline uint32_t rawe_liveness_next_probe(const struct rawe_liveness *liveness)
{
    return liveness->probe_number != UINT32_MAX ? liveness->probe_number + 1 : 1;
}

/** Note that the next probe was sent. Without memory to remember it, its answer is ignored. */
void rawe_liveness_probe_sent(struct rawe_liveness *liveness, uint64_t now_ns);

/** Plan the next probe, after sending or trying to. True: the peer may be dead. */
bool rawe_liveness_asked(struct rawe_liveness *liveness, uint64_t now_ns);

/** Return when the answered probe (number untrusted) was sent, or 0. Forgets probes up to it. */
__attribute__((cold)) uint64_t rawe_liveness_probe_answered(struct rawe_liveness *liveness,
                                                            uint32_t number);

#endif
