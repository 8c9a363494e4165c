/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Grants: how many frames of the bulk lane each of several peers may have in flight to us. Frames say
 * whether their sender has more to send (RAWE_FLAG_MORE); one that connects has, too. What several
 * such senders have in flight meets in the switch port of this host. So together they are granted
 * what the port takes and what keeps the link busy (rawe_inflow.h), each the same, by turns. One
 * sender alone is not limited, nor is more granted than the receive ring has for a peer
 * (rawe_credit.h). Processes of a host grant together what the port takes, each as much as another.
 * No clock, no socket.
 *
 * A grant is used up by the frames that come, in whatever order: it is what a sender may have in
 * flight. As senders that have nothing more are not counted, it goes to those that can use it.
 */
#ifndef RAWE_GRANTS_H
#define RAWE_GRANTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rawe_list.h"
#include "rawe_inflow.h"

/** A peer's part, in its connection. All zero: it has no more to send. */
struct rawe_grants_member {
    struct rawe_link link; /**< in the list of those that have more, or not */
    uint64_t heard_ns;     /**< frames came, or were granted, last */
    uint32_t newest;       /**< sequence number of the newest frame that has come */
    uint32_t frames;       /**< granted, and not come */
    bool begins;           /**< nothing has come of what it was granted first */
    bool limited;          /**< it was told of less than the ring has for it */
};

struct rawe_grants {
    struct rawe_inflow inflow;   /**< limit on what is granted at a time */
    struct rawe_link peers;      /**< that have more, that of the next turn first */
    uint32_t senders;            /**< how many these are */
    uint32_t frames;             /**< granted to them, and not come */
    uint32_t held_back;          /**< part of the limit, until that many frames have come */
    uint32_t frame_bytes;        /**< what a frame takes of the port */
    uint32_t ranks;              /**< processes of this host that grant, this one included */
    const uint16_t *ring_frames; /**< what the ring has for each peer that sends */
    uint64_t waited_ns[2]; /**< longest wait of frames in this host: in this period, in the last */
    uint64_t period_ns;    /**< when this period began */
    bool waits;            /**< rawe_grants_next may have something to grant */
};

/** `port_bytes` and `line` as for rawe_inflow_init; `ring_frames` changes meanwhile. */
void rawe_grants_init(struct rawe_grants *grants, uint64_t port_bytes, struct rawe_line *line,
                      uint32_t frame_bytes, const uint16_t *ring_frames);
/** The connection begins again: `first_sequence` is the next number to come. */
void rawe_grants_reset(struct rawe_grants *grants, struct rawe_grants_member *member,
                       uint32_t first_sequence);
/** Nothing more is expected of the peer here. */
void rawe_grants_forget(struct rawe_grants *grants, struct rawe_grants_member *member);
/** The peer connects, as it has something to send: it is granted some now, or when it is its turn. */
void rawe_grants_expect(struct rawe_grants *grants, struct rawe_grants_member *member,
                        uint64_t now_ns);
/** New frames have come after a time in this host, the first with that number; `more` with it. */
void rawe_grants_arrived(struct rawe_grants *grants, struct rawe_grants_member *member,
                         uint32_t sequence, uint32_t frames, bool more, uint64_t waited_ns,
                         uint64_t now_ns);
/** A PROBE has come, which took time of the link. */
void rawe_grants_probed(struct rawe_grants *grants, uint64_t now_ns);
/** Grant something to a peer, which has to be told. NULL: there is nothing to tell any. */
struct rawe_grants_member *rawe_grants_next(struct rawe_grants *grants, uint64_t now_ns);
/** What a peer is told, for which the ring has `frames`. */
uint16_t rawe_grants_credit(const struct rawe_grants *grants, struct rawe_grants_member *member,
                            uint16_t frames);

#endif
