/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Credit: see rawe_credit.h.
 */
#include "rawe_credit.h"

#include <string.h>

#include "rawe_cc.h"

/** Length of an epoch in which senders are counted. */
#define EPOCH_NS 10000000ull

/** What one of `senders` may have in flight of a queue of `frames`. */
static uint16_t share(const struct rawe_credit *credit, uint32_t frames, uint32_t senders)
{
    /* A quarter stays free for control frames and for senders that begin. */
    uint32_t part = frames * 3 / 4 / senders;
    if (part > credit->window_frames) {
        part = credit->window_frames;
    }
    return (uint16_t)(part < RAWE_CC_LEAST_FRAMES ? RAWE_CC_LEAST_FRAMES : part);
}

static void share_out(struct rawe_credit *credit)
{
    uint32_t senders = credit->senders_before > credit->senders_now ? credit->senders_before
                                                                    : credit->senders_now;
    if (senders == 0) {
        senders = 1;
    }
    uint32_t ring_frames = credit->room[RAWE_LANE_EXPRESS];
    uint32_t bulk_frames = credit->room[RAWE_LANE_BULK];
    /* Until batches have been validated, bulk data comes into the ring as well. */
    if (bulk_frames == 0 || bulk_frames > ring_frames) {
        bulk_frames = ring_frames;
    }
    credit->frames[RAWE_LANE_EXPRESS] = share(credit, ring_frames, senders);
    credit->frames[RAWE_LANE_BULK] = share(credit, bulk_frames, senders);
}

void rawe_credit_init(struct rawe_credit *credit, uint32_t ring_frames, uint32_t window_frames,
                      uint64_t now_ns)
{
    memset(credit, 0, sizeof(*credit));
    credit->window_frames = window_frames;
    credit->room[RAWE_LANE_EXPRESS] = ring_frames;
    credit->epoch = 1;
    credit->epoch_start_ns = now_ns;
    share_out(credit);
}

void rawe_credit_use_bulk(struct rawe_credit *credit, uint32_t queue_frames)
{
    credit->room[RAWE_LANE_BULK] = queue_frames;
    share_out(credit);
}

void rawe_credit_count(struct rawe_credit *credit, uint32_t *epoch)
{
    if (*epoch == credit->epoch) {
        return;
    }
    *epoch = credit->epoch;
    credit->senders_now++;
    if (credit->senders_now > credit->senders_before) {
        share_out(credit);
    }
}

void rawe_credit_advance(struct rawe_credit *credit, uint64_t now_ns)
{
    if (now_ns - credit->epoch_start_ns >= EPOCH_NS) {
        credit->senders_before = credit->senders_now;
        credit->senders_now = 0;
        credit->epoch_start_ns = now_ns;
        credit->epoch++;
        share_out(credit);
    }
}
