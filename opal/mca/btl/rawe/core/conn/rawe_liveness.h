/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Liveness of a peer as one connection sees it: when to send a tail-loss probe (RFC 8985 section
 * 7), how long the peer has been silent, when to give it up. Probes are sent while an answer is
 * owed, at intervals that double up to a limit; where the death of a peer that owes nothing
 * matters, regularly.
 */
#ifndef RAWE_LIVENESS_H
#define RAWE_LIVENESS_H

#include <stdbool.h>
#include <stdint.h>

#include "send/rawe_loss.h"

/** Probes that are remembered: the oldest, as answers come in order, and the newest. */
#define RAWE_LIVENESS_PROBES 8u

/** Probes that are remembered, oldest first. */
struct rawe_liveness_probes {
    uint64_t sent_ns[RAWE_LIVENESS_PROBES]; /**< when they left */
    uint32_t numbers[RAWE_LIVENESS_PROBES];
};

struct rawe_liveness_limits {
    uint64_t probe_least_ns;  /**< shortest silence that is asked about */
    uint64_t probe_most_ns;   /**< longest interval between probes */
    uint64_t peer_timeout_ns; /**< silence after which the peer is given up; 0: never */
    uint64_t idle_ns;         /**< a peer that owes nothing is asked this often; 0: never */
};

struct rawe_liveness {
    const struct rawe_rtt *rtt;                /**< the connection's */
    const struct rawe_liveness_limits *limits; /**< the engine's */
    uint64_t probe_deadline_ns; /**< ask, or see whether an answer is owed, then; 0: no */
    uint64_t waits_since_ns;    /**< an acknowledgement is owed, and nothing came; 0: none is */
    uint64_t asked_ns;          /**< when we last asked or, with the link full, tried to */
    uint64_t silent_since_ns;   /**< when the first unanswered probe was sent; 0: not silent */
    uint64_t stalled_since_ns; /**< since then probes come back but `stalled_una` does not arrive */
    struct rawe_liveness_probes *probes; /**< NULL: none is remembered */
    uint32_t stalled_una;                /**< oldest frame in flight at the probe before */
    uint32_t probe_number;      /**< of the newest probe; the first one has number 1, none has 0 */
    uint32_t probes_unanswered; /**< since the peer was last heard */
    uint8_t probes_remembered;  /**< how many */
    bool idle_asked;            /**< asked although it owed nothing: that answer it owes */
};

/** The interval before there is a round trip to compute it from; also between CONNECTs. */
#define RAWE_LIVENESS_FIRST_INTERVAL_NS 1000000ull

/** Of a connection with that round trip; all zero before. Both outlive it. */
static inline void rawe_liveness_init(struct rawe_liveness *liveness, const struct rawe_rtt *rtt,
                                      const struct rawe_liveness_limits *limits)
{
    liveness->rtt = rtt;
    liveness->limits = limits;
}

/** How long to wait for an answer before the next question. */
uint64_t rawe_liveness_interval_ns(const struct rawe_liveness *liveness);

/** The peer has acknowledged something, or answered: silence is over. */
static inline void rawe_liveness_heard(struct rawe_liveness *liveness)
{
    liveness->probes_unanswered = 0;
    liveness->silent_since_ns = 0;
}

/** Has a question not been answered yet, nor anything else been heard since? */
static inline bool rawe_liveness_is_silent(const struct rawe_liveness *liveness)
{
    return liveness->silent_since_ns != 0;
}

/** The peer's responder has answered at `alive_ns`: silence before that does not count. */
void rawe_liveness_alive(struct rawe_liveness *liveness, uint64_t alive_ns);

/** Ask at `deadline_ns`, or earlier if planned (RFC 6298 section 5.1). True: it has changed. */
static inline bool rawe_liveness_ask_by(struct rawe_liveness *liveness, uint64_t deadline_ns)
{
    if (liveness->probe_deadline_ns != 0 && deadline_ns >= liveness->probe_deadline_ns) {
        return false;
    }
    liveness->probe_deadline_ns = deadline_ns;
    return true;
}

/** Ask at `deadline_ns`, whatever was planned; 0: no answer is owed. */
static inline void rawe_liveness_ask_at(struct rawe_liveness *liveness, uint64_t deadline_ns)
{
    liveness->probe_deadline_ns = deadline_ns;
}

/** An acknowledgement is owed from now on, if none was before. */
static inline void rawe_liveness_wait(struct rawe_liveness *liveness, uint64_t now_ns)
{
    if (liveness->waits_since_ns == 0) {
        liveness->waits_since_ns = now_ns;
    }
}

/** One has come; `more` are owed. */
static inline void rawe_liveness_progress(struct rawe_liveness *liveness, bool more,
                                          uint64_t now_ns)
{
    liveness->waits_since_ns = more ? now_ns : 0;
}

/** The deadline has come, which frames did not move: compute the real one, if unasked. */
static inline void rawe_liveness_correct(struct rawe_liveness *liveness, uint64_t interval_ns)
{
    if (liveness->probes_unanswered == 0) {
        liveness->probe_deadline_ns =
            liveness->waits_since_ns != 0 ? liveness->waits_since_ns + interval_ns : 0;
    }
}

/**
 * A CONNECT was sent at `now_ns`, and its repetition planned: have it up to half as long earlier.
 * Thousands of processes that connect to a host at a time lose most of their CONNECTs in a port of
 * its switch; repeated in step, they would lose them each time.
 */
static inline void rawe_liveness_spread(struct rawe_liveness *liveness, uint64_t now_ns)
{
    uint64_t random = (now_ns * 0x9E3779B97F4A7C15ull) >> 32; /* clocks differ by nanoseconds */
    liveness->probe_deadline_ns -= ((liveness->probe_deadline_ns - now_ns) * random) >> 33;
}

/** A CONNECT was sent, the first of its life: when to repeat it. */
static inline void rawe_liveness_connecting(struct rawe_liveness *liveness, uint64_t now_ns)
{
    liveness->asked_ns = now_ns;
    liveness->probe_deadline_ns = now_ns + RAWE_LIVENESS_FIRST_INTERVAL_NS;
    rawe_liveness_spread(liveness, now_ns);
}

/** The CONNECT is answered: the round trip. 0: it was repeated (Karn's rule), or we were away. */
static inline uint64_t rawe_liveness_connected_ns(const struct rawe_liveness *liveness,
                                                  uint64_t now_ns)
{
    uint64_t passed_ns = now_ns - liveness->asked_ns;
    bool once = liveness->probes_unanswered == 0 && passed_ns < RAWE_LIVENESS_FIRST_INTERVAL_NS;
    return once ? passed_ns : 0;
}

/** A life begins or ends: nothing is owed, no probe is under way, no memory is taken. */
void rawe_liveness_reset(struct rawe_liveness *liveness);

/** A peer that owes nothing is asked now (`due`), or it was, and owes that answer. */
static inline bool rawe_liveness_ask_idle(struct rawe_liveness *liveness, bool due)
{
    liveness->idle_asked = due || (liveness->idle_asked && liveness->probes_unanswered != 0);
    return liveness->idle_asked;
}

/** A peer that finalizes has left: it is not expected to answer. */
static inline void rawe_liveness_gone(struct rawe_liveness *liveness)
{
    liveness->probe_deadline_ns = liveness->waits_since_ns = 0;
    liveness->idle_asked = false;
    rawe_liveness_heard(liveness);
}

/** What a question found due means. */
enum rawe_liveness_verdict {
    RAWE_LIVENESS_ASK,     /**< send a probe (or a CONNECT) */
    RAWE_LIVENESS_GIVE_UP, /**< silent for the peer timeout */
};

/** A question is due. Time in which we did not run, or `deferring`, is no silence. */
enum rawe_liveness_verdict rawe_liveness_expire(struct rawe_liveness *liveness, bool deferring,
                                                uint64_t now_ns, uint64_t *silent_ns);

/** The peer is asked by another route from now on: questions restart, its silence does not. */
void rawe_liveness_migrate(struct rawe_liveness *liveness, bool deferring, uint64_t now_ns);

/** Sendings of the oldest frame after which it is not chance any more that it does not arrive. */
#define RAWE_LIVENESS_STALL_SENDINGS 4u

/**
 * How long has the oldest frame in flight (number `una`, sent `sendings` times; 0: none is) not
 * arrived although probes are answered? 0: not stalled. Time in which we did not run, or the owner
 * was outside MPI, does not count.
 */
uint64_t rawe_liveness_stalled_ns(struct rawe_liveness *liveness, uint32_t una, unsigned sendings,
                                  bool deferring, uint64_t now_ns);

/** Number of the next probe. */
static inline uint32_t rawe_liveness_next_probe(const struct rawe_liveness *liveness)
{
    return liveness->probe_number != UINT32_MAX ? liveness->probe_number + 1 : 1;
}

/** The next probe has left. Without memory for it, its answer will not be understood. */
void rawe_liveness_probe_sent(struct rawe_liveness *liveness, uint64_t now_ns);

/** Asked, or tried to: plan the next question. True: enough are unanswered to doubt. */
bool rawe_liveness_asked(struct rawe_liveness *liveness, uint64_t now_ns);

/** When the answered probe (number untrusted) was sent, or 0; forgets it and earlier ones. */
uint64_t rawe_liveness_probe_answered(struct rawe_liveness *liveness, uint32_t number);

#endif
