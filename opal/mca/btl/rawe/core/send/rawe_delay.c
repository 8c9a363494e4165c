/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A window that yields to delay like Swift's (Kumar et al., SIGCOMM 2020): it shrinks before frames
 * are lost, and queues stay short. The delay of the network is the time from a frame's sending to
 * its acknowledgement, less our link's time for batches ahead of it, and the time both wait in
 * hosts. The shortest recent delay belongs to the path, the excess to queues. The shortest delay of
 * each round trip counts, because NICs that delay interrupts lengthen some. While queues are short,
 * and after losses, the window is CUBIC's.
 */
#include "rawe_cc.h"

/** A queue is too long when it exceeds half of the buffer of a small switch's port. */
#define QUEUE_BYTES 48000u

/** Shorter delays may come from hosts and NICs. */
#define QUEUE_LEAST_NS 20000u

/** A queue is too long when it exceeds this, if the rate of our link is unknown. */
#define QUEUE_UNKNOWN_NS 50000u

/**
 * A small window tolerates longer queues, by this factor over the square root of its frames.
 * Otherwise the largest of several windows takes all (Swift section 3.6).
 */
#define SMALL_WINDOW_PART 3u

/** A connection may always have this many frames in queues, because some links are slow. */
#define OWN_FRAMES 2u

/** At most two batches need to wait for our link. */
#define AHEAD_BYTES 128000u

/** Swift's multiplicative decrease: 0.8 of the excess, at most half of the window. */
#define DECREASE_TENTHS 8u
#define DECREASE_DIVISOR 2u

/** The shortest delay is that of the last two periods, because a path may become longer. */
#define PERIOD_NS 10000000000ull

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/** Return the longest delay that queues may cause for the present window. */
static uint32_t queue_most_ns(const struct rawe_cc *cc)
{
    uint32_t ns = QUEUE_UNKNOWN_NS, root = 1;
    if (cc->link_mbps != 0) {
        ns = QUEUE_BYTES * 8000u / cc->link_mbps;
        ns = ns > QUEUE_LEAST_NS ? ns : QUEUE_LEAST_NS;
    }
    while ((root + 1) * (root + 1) <= cc->window) {
        root++;
    }
    return ns + ns * SMALL_WINDOW_PART / root;
}

static void begin_round(struct rawe_cc *cc)
{
    struct rawe_delay *delay = &cc->state.delay;
    delay->round_left = cc->window;
    delay->round_ns = RAWE_CC_UNKNOWN_NS;
    delay->queue_most_ns = queue_most_ns(cc);
}

static void started(struct rawe_cc *cc)
{
    struct rawe_delay *delay = &cc->state.delay;
    rawe_cc_cubic.started(cc);
    delay->shortest_ns = delay->before_ns = RAWE_CC_UNKNOWN_NS;
    delay->period_end_ns = delay->draining = 0;
    begin_round(cc);
}

static void note(struct rawe_delay *delay, const struct rawe_ack *ack)
{
    if (ack->now_ns >= delay->period_end_ns) {
        delay->before_ns = delay->shortest_ns;
        delay->shortest_ns = RAWE_CC_UNKNOWN_NS;
        delay->period_end_ns = ack->now_ns + PERIOD_NS;
    }
    delay->shortest_ns = least(delay->shortest_ns, ack->path_ns);
    delay->round_ns = least(delay->round_ns, ack->path_ns);
}

/**
 * Return the excess of this round trip's shortest delay over the path's own. With pauses, a round
 * trip may outlast both periods, and its shortest delay may be older than either.
 */
static uint32_t queue_ns(const struct rawe_delay *delay)
{
    const uint32_t own_ns = least(delay->shortest_ns, delay->before_ns);
    return delay->round_ns == RAWE_CC_UNKNOWN_NS || delay->round_ns < own_ns
               ? 0
               : delay->round_ns - own_ns;
}

/**
 * Reduce the window if queues cause `queue_ns` of a delay of `delay_ns`, and `most_ns` are allowed.
 * Frames in flight then drain first, because they do not show the effect of the smaller window.
 */
static void yield(struct rawe_cc *cc, uint64_t queue_ns, uint64_t most_ns, uint64_t delay_ns,
                  const struct rawe_ack *ack)
{
    struct rawe_delay *delay = &cc->state.delay;
    if (queue_ns <= most_ns || cc->window * queue_ns <= OWN_FRAMES * delay_ns) {
        return;
    }
    uint64_t less = cc->window * (queue_ns - most_ns) * DECREASE_TENTHS / (10 * delay_ns) + 1;
    uint32_t most = cc->window / DECREASE_DIVISOR;
    rawe_cc_set_window(cc, cc->window - (less < most ? (uint32_t)less : most));
    rawe_cubic_resume(cc);
    delay->draining = ack->in_flight;
    rawe_cc_excuse(cc, ack->now_ns); /* the same queues cause losses until now */
}

static void acknowledged(struct rawe_cc *cc, const struct rawe_ack *ack)
{
    struct rawe_delay *delay = &cc->state.delay;
    if (delay->draining != 0) {
        delay->draining -= least(delay->draining, ack->arrived);
        return;
    }
    if (ack->path_ns != 0) {
        note(delay, ack);
    }
    const uint32_t queued_ns = queue_ns(delay), most_ns = delay->queue_most_ns;
    if (queued_ns <= most_ns) {
        rawe_cc_cubic.acknowledged(cc, ack);
    }
    if (ack->arrived < delay->round_left) {
        delay->round_left -= ack->arrived;
        return;
    }
    const uint32_t ahead_ns = rawe_cc_take_queued(cc);
    const uint32_t ahead_most_ns = cc->link_mbps == 0 ? 0 : AHEAD_BYTES * 8000u / cc->link_mbps;
    if (ahead_ns != RAWE_CC_UNKNOWN_NS && ahead_ns > ahead_most_ns) {
        yield(cc, ahead_ns, ahead_most_ns, ahead_ns, ack);
    } else {
        yield(cc, queued_ns, most_ns, delay->round_ns, ack);
    }
    begin_round(cc);
}

static void lost(struct rawe_cc *cc)
{
    struct rawe_delay *delay = &cc->state.delay;
    delay->draining = cc->window;
    rawe_cc_cubic.lost(cc);
}

static void timed_out(struct rawe_cc *cc)
{
    struct rawe_delay *delay = &cc->state.delay;
    delay->draining = 0; /* no acknowledgements of it will arrive */
    rawe_cc_cubic.timed_out(cc);
}

static void idle(struct rawe_cc *cc, uint64_t periods)
{
    rawe_cc_cubic.idle(cc, periods);
}

const struct rawe_cc_type rawe_cc_delay = {
    .name = "delay",
    .started = started,
    .acknowledged = acknowledged,
    .lost = lost,
    .timed_out = timed_out,
    .idle = idle,
};
