/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Grants: how many bulk-lane frames each of several peers may have in flight to us. A frame tells
 * whether its sender has more to send (RAWE_FLAG_MORE); a connecting peer has more as well. The
 * frames of several such senders queue in our switch port. So together they are granted as much as
 * the port holds and keeps the link busy (rawe_budget.h), in equal shares, in turns. A lone sender
 * is not limited, and no grant exceeds a peer's share of the receive ring (rawe_credit.h). The
 * processes of a host each grant an equal part of the port. No clock, no socket.
 *
 * A grant limits the frames in flight: each arrival uses up part of it, in any order. Senders with
 * nothing more to send do not count, so the capacity goes to those that can use it.
 */
#ifndef RAWE_GRANTS_H
#define RAWE_GRANTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rawe_list.h"
#include "rawe_budget.h"

/** A peer's state, stored in its connection. Initially all zero: the peer has no more to send. */
struct rawe_grants_member {
    struct rawe_link link; /**< in the list of peers with more to send, or in none */
    uint64_t heard_ns;     /**< when frames last arrived or were granted */
    uint32_t newest;       /**< highest sequence number that has arrived */
    uint32_t frames;       /**< granted and outstanding */
    bool begins;           /**< none of its first grant has arrived */
    bool limited;          /**< its credit was less than its share of the ring */
};

struct rawe_grants {
    struct rawe_budget budget;   /**< limit on outstanding grants */
    struct rawe_link peers;      /**< list of peers with more to send, in order of turns */
    uint32_t senders;            /**< length of that list */
    uint32_t frames;             /**< granted to them and outstanding */
    uint32_t held_back;          /**< part of the limit, held back until as many frames arrive */
    uint32_t frame_bytes;        /**< bytes of the port's buffer that a frame uses */
    uint32_t ranks;              /**< processes of this host that grant, including this one */
    const uint16_t *ring_frames; /**< the ring's share for each sending peer */
    uint64_t waited_ns[2]; /**< longest wait of a frame in this host, this period and the last */
    uint64_t period_ns;    /**< when this period began */
    bool waits;            /**< rawe_grants_next may have something to grant */
};

/** Initialize; `port_bytes` and `line` as for rawe_budget_init. `ring_frames` may change later. */
void rawe_grants_init(struct rawe_grants *grants, uint64_t port_bytes, struct rawe_line *line,
                      uint32_t frame_bytes, const uint16_t *ring_frames);
/** Reset a restarting connection, whose next frame has number `first_sequence`. */
void rawe_grants_reset(struct rawe_grants *grants, struct rawe_grants_member *member,
                       uint32_t first_sequence);
/** Expect no more frames from the peer on this connection. */
void rawe_grants_forget(struct rawe_grants *grants, struct rawe_grants_member *member);
/** Grant a connecting peer that has something to send frames now, or in its turn. */
void rawe_grants_expect(struct rawe_grants *grants, struct rawe_grants_member *member,
                        uint64_t now_ns);
/** Note new frames, from `sequence` on, that waited in this host. `more`: their flag. */
void rawe_grants_arrived(struct rawe_grants *grants, struct rawe_grants_member *member,
                         uint32_t sequence, uint32_t frames, bool more, uint64_t waited_ns,
                         uint64_t now_ns);
/** Note the arrival of a PROBE, which used link time. */
void rawe_grants_probed(struct rawe_grants *grants, uint64_t now_ns);
/** Grant the next peer a share. Returns that peer, which must be told; NULL: none. */
struct rawe_grants_member *rawe_grants_next(struct rawe_grants *grants, uint64_t now_ns);
/** Return the credit to advertise to a peer whose share of the ring is `frames`. */
uint16_t rawe_grants_credit(const struct rawe_grants *grants, struct rawe_grants_member *member,
                            uint16_t frames);

#endif
