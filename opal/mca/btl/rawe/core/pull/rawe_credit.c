/* SPDX-License-Identifier: BSD-3-Clause */
#include "rawe_credit.h"

#include <string.h>

/** Largest credit of an idle peer: the initial window of its congestion control. */
#define IDLE_CREDIT_MAX 64u

/** A new member's 0 is neither this epoch nor the previous one. */
#define EPOCH_FIRST 2u

static uint32_t at_most(uint32_t frames, uint32_t most)
{
    return frames < most ? frames : most;
}

static bool has_queue(const struct rawe_credit *credit)
{
    return credit->queue_frames != 0;
}

/**
 * Return the number of frames that a lane may queue on this host. The bulk lane, whose frames also
 * arrive in the ring until batches are validated, gets at most half of the ring.
 */
static uint32_t room(const struct rawe_credit *credit, unsigned lane)
{
    uint32_t bulk = at_most(credit->queue_frames, credit->ring_frames / 2);
    return lane == RAWE_LANE_BULK ? bulk : credit->ring_frames - bulk;
}

/** Divide a queue of `frames` among `senders` and the other `open` connections. */
static struct rawe_credit_share share(const struct rawe_credit *credit, uint32_t frames,
                                      uint32_t senders, uint32_t open)
{
    uint32_t window = credit->window_frames;
    uint32_t idle_most = window < IDLE_CREDIT_MAX ? window : IDLE_CREDIT_MAX;
    uint32_t others = open > senders ? open - senders : 1;
    uint32_t for_senders = frames * 3 / 4;
    for_senders = for_senders != 0 ? for_senders : 1;
    senders = senders != 0 ? senders : 1;
    struct rawe_credit_share result = {
        .active = (uint16_t)at_most(for_senders / senders, window),
        .idle = (uint16_t)at_most((frames - at_most(for_senders, frames)) / others, idle_most),
        .turns = 1,
    };
    if (result.active == 0) {
        result.active = 1;
        /* Frames of one turn may still be queued when the next turn begins. */
        result.turns = (2 * senders + for_senders - 1) / for_senders;
    }
    return result;
}

static void divide_credit(struct rawe_credit *credit)
{
    const uint32_t *open = credit->open;
    uint32_t senders[RAWE_LANES];
    credit->version += 1 + (credit->version == UINT32_MAX); /* 0 means no version */
    for (unsigned lane = 0; lane < RAWE_LANES; lane++) {
        senders[lane] = credit->senders_before[lane] + credit->joined[lane];
    }
    if (has_queue(credit)) {
        for (unsigned lane = 0; lane < RAWE_LANES; lane++) {
            credit->share[lane] = share(credit, room(credit, lane), senders[lane], open[lane]);
        }
    } else {
        credit->share[RAWE_LANE_EXPRESS] = credit->share[RAWE_LANE_BULK] =
            share(credit, credit->ring_frames, senders[RAWE_LANE_EXPRESS] + senders[RAWE_LANE_BULK],
                  open[RAWE_LANE_EXPRESS] + open[RAWE_LANE_BULK]);
    }
}

void rawe_credit_init(struct rawe_credit *credit, uint32_t ring_frames, uint32_t window_frames,
                      uint64_t now_ns)
{
    memset(credit, 0, sizeof(*credit));
    credit->window_frames = window_frames;
    credit->ring_frames = ring_frames;
    credit->epoch = EPOCH_FIRST;
    credit->epoch_start_ns = now_ns;
    divide_credit(credit);
}

void rawe_credit_use_bulk(struct rawe_credit *credit, uint32_t queue_frames)
{
    credit->queue_frames = queue_frames;
    divide_credit(credit);
}

void rawe_credit_open(struct rawe_credit *credit, unsigned lane, struct rawe_credit_member *member)
{
    if (!member->open) {
        member->open = 1;
        credit->open[lane]++;
        divide_credit(credit);
    }
}

void rawe_credit_close(struct rawe_credit *credit, unsigned lane, struct rawe_credit_member *member)
{
    if (!member->open) {
        return;
    }
    credit->open[lane]--;
    credit->advertised[lane] -= member->advertised;
    if (rawe_credit_is_active(credit, member)) {
        /* Either counter may include the connection. The next epoch recomputes both. */
        if (credit->joined[lane] != 0) {
            credit->joined[lane]--;
        } else if (credit->senders_before[lane] != 0) {
            credit->senders_before[lane]--;
        }
        credit->senders_now[lane] -= member->epoch == credit->epoch;
    }
    divide_credit(credit);
    *member = (struct rawe_credit_member){0};
}

void rawe_credit_enter(struct rawe_credit *credit, unsigned lane, struct rawe_credit_member *member)
{
    if (member->epoch + 1 != credit->epoch) {
        member->turn = credit->next_turn++;
        credit->joined[lane]++;
    }
    member->epoch = credit->epoch;
    credit->waiting |= rawe_credit_waits(credit, member);
    credit->senders_now[lane]++;
    divide_credit(credit);
}

/** Return true if peers have been granted more credit than the lane's queue can hold. */
static bool promised_too_much(const struct rawe_credit *credit, unsigned lane)
{
    const uint32_t *advertised = credit->advertised;
    return has_queue(credit)
               ? advertised[lane] > room(credit, lane)
               : advertised[RAWE_LANE_EXPRESS] + advertised[RAWE_LANE_BULK] > credit->ring_frames;
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

void rawe_credit_keep(struct rawe_credit *credit, unsigned lane, struct rawe_credit_member *member)
{
    if (rawe_credit_waits(credit, member)) {
        credit->waiting = true;
        if (member->asked) {
            rawe_credit_note(credit, lane, member);
        }
    }
}

void rawe_credit_begin_epoch(struct rawe_credit *credit, uint64_t now_ns)
{
    for (unsigned lane = 0; lane < RAWE_LANES; lane++) {
        credit->senders_before[lane] = credit->senders_now[lane];
        credit->senders_now[lane] = credit->joined[lane] = 0;
    }
    credit->epoch_start_ns = now_ns;
    credit->epoch = credit->epoch != UINT32_MAX ? credit->epoch + 1 : EPOCH_FIRST;
    divide_credit(credit);
}
