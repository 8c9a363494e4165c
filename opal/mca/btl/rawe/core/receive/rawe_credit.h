/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Credit: how many frames each peer may have in flight to us, so that all of them together fit the
 * receive ring, and those of the bulk lane its queue. Three quarters go to the connections whose peers
 * send, a quarter to those that may begin. Senders are counted in epochs of 10 ms, for each lane.
 */
#ifndef RAWE_CREDIT_H
#define RAWE_CREDIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rawe_wire.h"

/** What connections of a lane may have in flight to us, in frames. */
struct rawe_credit_share {
    uint16_t active; /**< one whose peer sends; where less than a frame, each has one in turns */
    uint16_t idle;   /**< one whose peer does not, and may begin at any time; may be 0 */
    uint32_t turns;  /**< active ones have their frame in one epoch of this number; 1: always */
};

struct rawe_credit {
    struct rawe_credit_share share[RAWE_LANES];
    uint32_t window_frames;              /**< no connection gets more */
    uint32_t ring_frames;                /**< what the receive ring holds */
    uint32_t queue_frames;               /**< what the bulk queue holds; 0: there is none */
    uint32_t open[RAWE_LANES];           /**< connections of the lane */
    uint32_t advertised[RAWE_LANES];     /**< sum of what the lane's peers know as their credit */
    uint32_t senders_before[RAWE_LANES]; /**< connections that brought data in the last epoch */
    uint32_t senders_now[RAWE_LANES];    /**< ... in this epoch */
    uint32_t joined[RAWE_LANES];         /**< ... in this epoch, but not in the last one */
    uint32_t next_turn;                  /**< number of the next connection that begins to send */
    uint32_t epoch;                      /**< number of the present epoch, at least 2 */
    uint32_t version;                    /**< counts how often it was shared out */
    uint64_t epoch_start_ns;
    bool waiting; /**< some connection may wait for credit, as rawe_credit_waits */
};

/** A connection's part in it. All zero: its peer has sent nothing yet. */
struct rawe_credit_member {
    uint32_t epoch;      /**< in which it was noted last (rawe_credit_note); 0: never */
    uint32_t turn : 31;  /**< its number among those that send, where credit goes in turns */
    uint32_t open : 1;   /**< it counts among those of its lane */
    uint32_t version;    /**< of the sharing that `advertised` is from */
    uint16_t advertised; /**< credit in the last frame sent: see rawe_credit_advertise */
    bool asked;          /**< its peer has asked for credit, and has been told of none yet */
    bool refused;        /**< there was no memory for what its peer sent: no credit for now */
};

/** `ring_frames` is what the receive ring holds. */
void rawe_credit_init(struct rawe_credit *credit, uint32_t ring_frames, uint32_t window_frames,
                      uint64_t now_ns);

/** Bulk data has a receive queue of its own that holds `queue_frames`. */
void rawe_credit_use_bulk(struct rawe_credit *credit, uint32_t queue_frames);

/** A connection of the lane has a part from now on. Nothing happens if it has one. */
void rawe_credit_open(struct rawe_credit *credit, unsigned lane, struct rawe_credit_member *member);
/** ... has none: others may have what it had. Nothing happens if it had none. */
void rawe_credit_close(struct rawe_credit *credit, unsigned lane,
                       struct rawe_credit_member *member);

/** The slow path of rawe_credit_note. */
void rawe_credit_enter(struct rawe_credit *credit, unsigned lane,
                       struct rawe_credit_member *member);

/** Data has come on the connection. */
static inline void rawe_credit_note(struct rawe_credit *credit, unsigned lane,
                                    struct rawe_credit_member *member)
{
    if (member->epoch != credit->epoch) {
        rawe_credit_enter(credit, lane, member);
    }
}

/**
 * A PROBE has come. A peer that knows of credit, and does not use it, has nothing to send. One that
 * knows of none counts as a sender until it is told of some, without asking again.
 */
static inline void rawe_credit_note_probe(struct rawe_credit *credit, unsigned lane,
                                          struct rawe_credit_member *member)
{
    if (member->advertised == 0 && !member->refused) {
        member->asked = true;
        rawe_credit_note(credit, lane, member);
    }
}

/** There is no memory for what has come: no credit until rawe_credit_admit. */
static inline void rawe_credit_refuse(struct rawe_credit_member *member)
{
    member->refused = true;
    member->version = 0;
}

/** There may be memory again for what was refused: the peer is a sender. */
static inline void rawe_credit_admit(struct rawe_credit *credit, unsigned lane,
                                     struct rawe_credit_member *member)
{
    member->refused = false;
    member->version = 0;
    rawe_credit_note(credit, lane, member);
}

/** Does the peer send? It did in this epoch or in the one before. */
static inline bool rawe_credit_is_active(const struct rawe_credit *credit,
                                         const struct rawe_credit_member *member)
{
    return member->epoch != 0 && credit->epoch - member->epoch <= 1;
}

/** Does its peer send, and know of no credit? */
static inline bool rawe_credit_waits(const struct rawe_credit *credit,
                                     const struct rawe_credit_member *member)
{
    return member->advertised == 0 && !member->refused && rawe_credit_is_active(credit, member);
}

/** What the connection may advertise now, in frames; 0: the peer has to wait. */
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

/** The connection's credit as of now, for a frame to its peer, which knows it then. */
static inline uint16_t rawe_credit_advertise(struct rawe_credit *credit, unsigned lane,
                                             struct rawe_credit_member *member)
{
    if (member->version != credit->version) {
        uint16_t frames = rawe_credit_of(credit, lane, member);
        credit->advertised[lane] += (uint32_t)frames - member->advertised;
        member->advertised = frames;
        member->version = credit->version;
        member->asked = member->asked && frames == 0;
        credit->waiting |= rawe_credit_waits(credit, member);
    }
    return member->advertised;
}

/** The connection restarts: its peer knows of no credit. */
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
 * Should the peer be told its credit without another reason for a frame? If peers know of more than
 * there is, a silent one gives some back; and one that waits must know its turn.
 */
bool rawe_credit_outdated(const struct rawe_credit *credit, unsigned lane,
                          const struct rawe_credit_member *member);

/** May any connection be outdated? Then call rawe_credit_keep for each of them. */
bool rawe_credit_review(struct rawe_credit *credit);

/** A new epoch has begun: a connection that waits for credit goes on doing so. */
void rawe_credit_keep(struct rawe_credit *credit, unsigned lane, struct rawe_credit_member *member);

/** Length of an epoch in which senders are counted. */
#define RAWE_CREDIT_EPOCH_NS 10000000ull

/** The slow path of the next function. */
void rawe_credit_begin_epoch(struct rawe_credit *credit, uint64_t now_ns);

/** Time has passed. True when a new epoch has begun by that. */
static inline bool rawe_credit_advance(struct rawe_credit *credit, uint64_t now_ns)
{
    if (__builtin_expect(now_ns < credit->epoch_start_ns + RAWE_CREDIT_EPOCH_NS, 1)) {
        return false;
    }
    rawe_credit_begin_epoch(credit, now_ns);
    return true;
}

#endif
