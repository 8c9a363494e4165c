/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Code shared by all congestion control algorithms; see rawe_cc.h.
 */
#include "rawe_cc.h"

/**
 * Initial window of the bulk lane: half the port buffer of a small switch, or 21 frames at MTU
 * 1500; RFC 9002 section 7.2 allows 10. Frames of the express lane are short.
 */
#define FIRST_BYTES 32000u
#define FIRST_LEAST_FRAMES 4u
#define FIRST_MOST_FRAMES 64u

/** RFC 9002 section 7.2: kMinimumWindow. */
#define LEAST_FRAMES 2u

/** After losses, this many frames may be sent in addition to those released by acknowledgements. */
#define REFILL_FRAMES 10u

/** Persistent congestion: RFC 9002 section 7.6.1, kPersistentCongestionThreshold. */
#define PERSISTENT_TIMEOUTS 3u

/** An unused window is kept no longer than this, whatever the round-trip estimate. */
#define UNUSED_MOST_NS 1000000000ull

/**
 * Minimum time and bytes of a rate measurement: acknowledgements arrive in bursts, each for a
 * quarter of the window, and shapers release frames in bursts as well.
 */
#define RATE_LEAST_NS 2000000ull
#define RATE_LEAST_BYTES 65536u

/** Weight of a measurement in the mean: 1/RATE_PART. */
#define RATE_PART 4u

const struct rawe_cc_type *const rawe_cc_types[] = {&rawe_cc_cubic, NULL};

void rawe_cc_start(struct rawe_cc *cc, const struct rawe_cc_type *type, uint32_t most,
                   uint32_t frame_bytes, uint64_t now_ns)
{
    uint32_t first = frame_bytes != 0 ? FIRST_BYTES / frame_bytes : FIRST_MOST_FRAMES;
    first = first < FIRST_LEAST_FRAMES ? FIRST_LEAST_FRAMES : first;
    first = first > FIRST_MOST_FRAMES ? FIRST_MOST_FRAMES : first;
    *cc = (struct rawe_cc){
        .type = type,
        .least = LEAST_FRAMES,
        .most = most,
        .first = first < most ? first : most,
        .refill = UINT32_MAX,
        .used_ns = now_ns,
    };
    type->started(cc);
}

void rawe_cc_forget(struct rawe_cc *cc, const struct rawe_rtt *rtt, uint64_t now_ns)
{
    uint64_t period_ns = rawe_rtt_overdue(rtt, RAWE_CC_UNUSED_NS, UNUSED_MOST_NS);
    uint64_t periods = (now_ns - cc->used_ns) / period_ns;
    if (periods != 0) {
        cc->type->idle(cc, periods);
        cc->used_ns += periods * period_ns;
    }
}

/**
 * Measure the rate of acknowledged bytes while frames are continuously in flight. Frames in flight
 * divided by the round trip would mislead: after a pause, few frames are in flight, but the round
 * trip still includes the old queue.
 */
void rawe_cc_measure_rate(struct rawe_cc *cc, const struct rawe_ack *ack)
{
    /* The first acknowledgement begins a measurement and does not count: its start is unknown. */
    if (cc->rate_from_ns == 0) {
        cc->rate_from_ns = ack->now_ns;
        cc->rate_bytes = 0;
    } else {
        cc->rate_bytes += (uint64_t)ack->arrived * ack->frame_bytes;
    }
    uint64_t took_ns = ack->now_ns > cc->rate_from_ns ? ack->now_ns - cc->rate_from_ns : 0;
    if (took_ns >= RATE_LEAST_NS && cc->rate_bytes >= RATE_LEAST_BYTES) {
        uint64_t mbps = cc->rate_bytes * 8000 / took_ns;
        mbps = mbps < RAWE_CC_RATE_MOST_MBPS ? mbps : RAWE_CC_RATE_MOST_MBPS;
        mbps = cc->rate_mbps == 0 ? mbps : (cc->rate_mbps * (RATE_PART - 1) + mbps) / RATE_PART;
        cc->rate_mbps = mbps != 0 ? (uint32_t)mbps : 1;
        cc->rate_bytes = 0;
        cc->rate_from_ns = ack->now_ns;
    }
    if (ack->in_flight == 0) {
        cc->rate_from_ns = 0;
    }
}

enum rawe_cc_loss rawe_cc_lost(struct rawe_cc *cc, uint64_t sent_ns, bool again,
                               const struct rawe_rtt *rtt, uint64_t now_ns)
{
    /* The time is constant within a turn, in which losses are found and resent after sending. */
    if (sent_ns < cc->recovery_ns || (sent_ns == cc->recovery_ns && !again)) {
        return RAWE_CC_KNOWN;
    }
    cc->recovery_ns = now_ns;
    cc->refill = REFILL_FRAMES;
    cc->type->lost(cc);
    if (cc->lost_ns == 0) {
        cc->lost_ns = now_ns;
    }
    uint64_t timeout_ns = rawe_rtt_overdue(rtt, 0, UNUSED_MOST_NS);
    if (sent_ns < cc->lost_ns + PERSISTENT_TIMEOUTS * timeout_ns) {
        return RAWE_CC_CONGESTION;
    }
    cc->type->timed_out(cc);
    return RAWE_CC_PERSISTENT;
}

void rawe_cc_refill(struct rawe_cc *cc, uint32_t in_flight, uint32_t arrived_frames)
{
    uint32_t frames = in_flight + 2 * arrived_frames + REFILL_FRAMES;
    cc->refill = frames < cc->window ? frames : UINT32_MAX;
}
