/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Credit: see rawe_credit.h.
 */
#include "rawe_credit.h"

#include <string.h>

/** Length of an epoch in which senders are counted. */
#define EPOCH_NS 10000000ull

/** Credit of a peer that does not send, at most: what its congestion window begins with. */
#define IDLE_CREDIT_MAX 64u

static uint16_t at_most(uint32_t credit, uint32_t most)
{
    return (uint16_t)(credit < most ? credit : most);
}

/** Share out a queue of `frames` among `senders` and the rest of `open` connections. */
static struct rawe_credit_share share(const struct rawe_credit *credit, uint32_t frames,
                                      uint32_t senders, uint32_t open)
{
    uint32_t window = credit->window_frames;
    uint32_t idle_most = window < IDLE_CREDIT_MAX ? window : IDLE_CREDIT_MAX;
    uint32_t others = open > senders ? open - senders : 1;
    uint32_t for_senders = frames * 3 / 4;
    for_senders = for_senders != 0 ? for_senders : 1;
    struct rawe_credit_share result = {
        .active = at_most(for_senders / senders, window),
        .idle = at_most((frames - for_senders) / others, idle_most),
        .turns = 1,
    };
    if (result.active == 0) {
        result.active = 1;
        /* Frames of those before may still be there when the next ones begin. */
        result.turns = (2 * senders + for_senders - 1) / for_senders;
    }
    return result;
}

static void share_out(struct rawe_credit *credit)
{
    uint32_t senders = credit->senders_before + credit->joined;
    credit->version += 1 + (credit->version == UINT32_MAX); /* 0, in a connection, is none */
    if (senders == 0) {
        senders = 1;
    }
    uint32_t ring_frames = credit->room[RAWE_LANE_EXPRESS];
    uint32_t bulk_frames = credit->room[RAWE_LANE_BULK];
    uint32_t open_bulk = credit->open[RAWE_LANE_BULK];
    uint32_t open = credit->open[RAWE_LANE_EXPRESS] + open_bulk;
    /* Until batches have been validated, bulk data comes into the ring as well. */
    bool queue_limits = bulk_frames != 0 && bulk_frames < ring_frames;
    credit->share[RAWE_LANE_EXPRESS] = share(credit, ring_frames, senders, open);
    credit->share[RAWE_LANE_BULK] = queue_limits ? share(credit, bulk_frames, senders, open_bulk)
                                                 : credit->share[RAWE_LANE_EXPRESS];
}

void rawe_credit_init(struct rawe_credit *credit, uint32_t ring_frames, uint32_t window_frames,
                      uint64_t now_ns)
{
    memset(credit, 0, sizeof(*credit));
    credit->window_frames = window_frames;
    credit->room[RAWE_LANE_EXPRESS] = ring_frames;
    credit->epoch = 2; /* 0, in a connection, is never; and not the one before */
    credit->epoch_start_ns = now_ns;
    share_out(credit);
}

void rawe_credit_use_bulk(struct rawe_credit *credit, uint32_t queue_frames)
{
    credit->room[RAWE_LANE_BULK] = queue_frames;
    share_out(credit);
}

void rawe_credit_open(struct rawe_credit *credit, unsigned lane)
{
    credit->open[lane]++;
    share_out(credit);
}

void rawe_credit_close(struct rawe_credit *credit, unsigned lane,
                       const struct rawe_credit_member *member)
{
    credit->open[lane]--;
    credit->advertised[lane] -= member->advertised;
    if (rawe_credit_is_active(credit, member)) {
        /* Which of the two counted it makes no difference: both are anew with the next epoch. */
        if (credit->joined != 0) {
            credit->joined--;
        } else if (credit->senders_before != 0) {
            credit->senders_before--;
        }
        credit->senders_now -= member->epoch == credit->epoch;
    }
    share_out(credit);
}

void rawe_credit_enter(struct rawe_credit *credit, struct rawe_credit_member *member)
{
    if (member->epoch + 1 != credit->epoch) {
        member->turn = credit->next_turn++;
        credit->joined++;
    }
    member->epoch = credit->epoch;
    credit->waiting |= rawe_credit_waits(credit, member);
    credit->senders_now++;
    share_out(credit);
}

/** Do peers together know of more credit than the lane's queue holds? */
static bool promised_too_much(const struct rawe_credit *credit, unsigned lane)
{
    uint32_t bulk = credit->advertised[RAWE_LANE_BULK];
    uint32_t all = credit->advertised[RAWE_LANE_EXPRESS] + bulk;
    uint32_t bulk_frames = credit->room[RAWE_LANE_BULK];
    return all > credit->room[RAWE_LANE_EXPRESS] ||
           (lane == RAWE_LANE_BULK && bulk_frames != 0 && bulk > bulk_frames);
}

bool rawe_credit_outdated(const struct rawe_credit *credit, unsigned lane,
                          const struct rawe_credit_member *member)
{
    uint16_t frames = rawe_credit_of(credit, lane, member);
    return (member->advertised > frames && promised_too_much(credit, lane)) ||
           (member->advertised == 0 && frames != 0 && rawe_credit_is_active(credit, member));
}

bool rawe_credit_review(struct rawe_credit *credit)
{
    bool waiting = credit->waiting;
    credit->waiting = false;
    return waiting || promised_too_much(credit, RAWE_LANE_EXPRESS) ||
           promised_too_much(credit, RAWE_LANE_BULK);
}

void rawe_credit_keep(struct rawe_credit *credit, struct rawe_credit_member *member)
{
    if (rawe_credit_waits(credit, member)) {
        credit->waiting = true;
        if (member->asked) {
            rawe_credit_note(credit, member);
        }
    }
}

bool rawe_credit_advance(struct rawe_credit *credit, uint64_t now_ns)
{
    if (now_ns < credit->epoch_start_ns + EPOCH_NS) {
        return false;
    }
    credit->senders_before = credit->senders_now;
    credit->senders_now = credit->joined = 0;
    credit->epoch_start_ns = now_ns;
    credit->epoch++;
    share_out(credit);
    return true;
}
