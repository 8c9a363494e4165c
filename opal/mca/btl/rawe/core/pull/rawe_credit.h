/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Credit: how many frames each peer may have in flight to us, so that all of them fit the receive
 * ring, and bulk frames fit the bulk queue. Three quarters go to connections whose peers are
 * sending, a quarter to those whose peers may start. Senders are counted per lane, in 10 ms epochs.
 */
#ifndef RAWE_CREDIT_H
#define RAWE_CREDIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rawe_wire.h"

/** Frames that each connection of a lane may have in flight to us. */
struct rawe_credit_share {
    uint16_t active; /**< if its peer is sending; at least one frame, but perhaps only in turns */
    uint16_t idle;   /**< if its peer is not sending but may start at any time; may be 0 */
    uint32_t turns;  /**< an active one gets its frame in one of this many epochs; 1: always */
};

/** The first fields are used for every message. */
struct rawe_credit {
    uint32_t epoch;   /**< number of the current epoch, at least 2 */
    uint32_t version; /**< number of the current division of credit */
    uint64_t epoch_start_ns;
    struct rawe_credit_share share[RAWE_LANES];
    uint32_t window_frames;              /**< limit for one connection */
    uint32_t ring_frames;                /**< capacity of the receive ring */
    uint32_t queue_frames;               /**< capacity of the bulk queue; 0: no queue */
    uint32_t open[RAWE_LANES];           /**< open connections of the lane */
    uint32_t advertised[RAWE_LANES];     /**< sum of the credit known to the lane's peers */
    uint32_t senders_before[RAWE_LANES]; /**< connections that received data in the last epoch */
    uint32_t senders_now[RAWE_LANES];    /**< ... in this epoch */
    uint32_t joined[RAWE_LANES];         /**< ... in this epoch, but not in the last one */
    uint32_t next_turn;                  /**< number of the next connection to begin receiving */
    bool waiting; /**< a connection may be waiting for credit (rawe_credit_waits) */
};

/** A connection's share. All zero until the peer sends something. */
struct rawe_credit_member {
    uint32_t epoch;      /**< epoch when its peer last counted as a sender; 0: never */
    uint32_t turn : 31;  /**< its number among the senders, if they get credit in turns */
    uint32_t open : 1;   /**< the connection is counted in the lane's `open` */
    uint32_t version;    /**< number of the division from which `advertised` is */
    uint16_t advertised; /**< credit in the last frame sent (rawe_credit_advertise) */
    bool asked;          /**< its peer has requested credit and has not received any yet */
    bool refused;        /**< there was no memory for its data: no credit for now */
};

/** Initialize for a receive ring of `ring_frames`. */
void rawe_credit_init(struct rawe_credit *credit, uint32_t ring_frames, uint32_t window_frames,
                      uint64_t now_ns);

/** Give bulk data its own receive queue, of `queue_frames`. */
void rawe_credit_use_bulk(struct rawe_credit *credit, uint32_t queue_frames);

/** Give a connection of the lane a share. Does nothing if it already has one. */
void rawe_credit_open(struct rawe_credit *credit, unsigned lane, struct rawe_credit_member *member);
/** Take back a connection's share, so that others can use it. Does nothing if it has none. */
void rawe_credit_close(struct rawe_credit *credit, unsigned lane,
                       struct rawe_credit_member *member);

/** Slow path of rawe_credit_note. */
__attribute__((cold)) void rawe_credit_enter(struct rawe_credit *credit, unsigned lane,
                                             struct rawe_credit_member *member);

/** Note that data has arrived on the connection. */
static inline void rawe_credit_note(struct rawe_credit *credit, unsigned lane,
                                    struct rawe_credit_member *member)
{
    if (__builtin_expect(member->epoch != credit->epoch, 0)) {
        rawe_credit_enter(credit, lane, member);
    }
}

/**
 * Note that a PROBE has arrived. A peer with unused credit has nothing to send. A peer without
 * credit counts as a sender until it gets some, and need not ask again.
 */
static inline void rawe_credit_note_probe(struct rawe_credit *credit, unsigned lane,
                                          struct rawe_credit_member *member)
{
    if (member->advertised == 0 && !member->refused) {
        member->asked = true;
        rawe_credit_note(credit, lane, member);
    }
}

/** Grant no credit until rawe_credit_admit, because there is no memory for received data. */
static inline void rawe_credit_refuse(struct rawe_credit_member *member)
{
    member->refused = true;
    member->version = 0;
}

/** Count the peer as a sender: there may be memory for the refused data now. */
static inline void rawe_credit_admit(struct rawe_credit *credit, unsigned lane,
                                     struct rawe_credit_member *member)
{
    member->refused = false;
    member->version = 0;
    rawe_credit_note(credit, lane, member);
}

/** Return true if the peer has sent in this or the previous epoch. */
static inline bool rawe_credit_is_active(const struct rawe_credit *credit,
                                         const struct rawe_credit_member *member)
{
    return member->epoch != 0 && credit->epoch - member->epoch <= 1;
}

/** Return true if the peer is sending and has no credit. */
static inline bool rawe_credit_waits(const struct rawe_credit *credit,
                                     const struct rawe_credit_member *member)
{
    return member->advertised == 0 && !member->refused && rawe_credit_is_active(credit, member);
}

/** Return true if any peer sent in this or the last epoch: a later epoch reclaims its credit. */
static inline bool rawe_credit_has_senders(const struct rawe_credit *credit)
{
    return (credit->senders_before[RAWE_LANE_EXPRESS] | credit->senders_before[RAWE_LANE_BULK] |
            credit->senders_now[RAWE_LANE_EXPRESS] | credit->senders_now[RAWE_LANE_BULK]) != 0;
}

/** Return the credit that the connection may advertise now, in frames; 0: the peer must wait. */
static inline uint16_t rawe_credit_of(const struct rawe_credit *credit, unsigned lane,
                                      const struct rawe_credit_member *member)
{
    const struct rawe_credit_share *share = &credit->share[lane];
    if (!member->open || member->refused) {
        return 0;
    }
    if (!rawe_credit_is_active(credit, member)) {
        return share->idle;
    }
    return share->turns == 1 || (member->turn + credit->epoch) % share->turns == 0 ? share->active
                                                                                   : 0;
}

/** Return the credit to put in a frame to the peer, and record that the peer knows it. */
static inline uint16_t rawe_credit_advertise(struct rawe_credit *credit, unsigned lane,
                                             struct rawe_credit_member *member)
{
    if (__builtin_expect(member->version != credit->version, 0)) {
        uint16_t frames = rawe_credit_of(credit, lane, member);
        credit->advertised[lane] += (uint32_t)frames - member->advertised;
        member->advertised = frames;
        member->version = credit->version;
        member->asked = member->asked && frames == 0;
        credit->waiting |= rawe_credit_waits(credit, member);
    }
    return member->advertised;
}

/** Note that the peer has no credit, because the connection is restarting. */
static inline void rawe_credit_forget(struct rawe_credit *credit, unsigned lane,
                                      struct rawe_credit_member *member)
{
    credit->advertised[lane] -= member->advertised;
    member->advertised = 0;
    member->version = 0;
    member->asked = member->refused = false;
    credit->waiting |= rawe_credit_waits(credit, member);
}

/**
 * Return true if a frame must be sent only to tell the peer its credit: the peer is silent and
 * holds credit that others need, or it is waiting and must learn that its turn has come.
 */
bool rawe_credit_outdated(const struct rawe_credit *credit, unsigned lane,
                          const struct rawe_credit_member *member);

/** Return true if any peer's credit may be outdated. Then call rawe_credit_keep for all. */
bool rawe_credit_review(struct rawe_credit *credit);

/** Note a connection that is still waiting for credit in a new epoch. */
void rawe_credit_keep(struct rawe_credit *credit, unsigned lane, struct rawe_credit_member *member);

/** Length of the epochs in which senders are counted. */
#define RAWE_CREDIT_EPOCH_NS 10000000ull

/** Slow path of rawe_credit_advance. */
__attribute__((cold)) void rawe_credit_begin_epoch(struct rawe_credit *credit, uint64_t now_ns);

/** Advance the time. Returns true if a new epoch began. */
static inline bool rawe_credit_advance(struct rawe_credit *credit, uint64_t now_ns)
{
    if (__builtin_expect(now_ns < credit->epoch_start_ns + RAWE_CREDIT_EPOCH_NS, 1)) {
        return false;
    }
    rawe_credit_begin_epoch(credit, now_ns);
    return true;
}

#endif
