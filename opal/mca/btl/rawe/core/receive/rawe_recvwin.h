/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Receive window: which frames of a connection have come, so that each is taken once, and which
 * acknowledgement is owed for them: at once, after some more frames, or after a delay, unless a data
 * frame carries it before.
 *
 *        next                         next + span
 *   ......|x.xx.x.....................|
 *   taken   bit i of the ring = sequence number has been taken; next itself never has
 */
#ifndef RAWE_RECVWIN_H
#define RAWE_RECVWIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rawe_wire.h"

/** While something is missing, acknowledge every few frames, so that the sender learns what. */
#define RAWE_RECVWIN_EVERY_WITH_GAP 4u

/** However small the credit, a single frame's acknowledgement may wait for a frame to carry it. */
#define RAWE_RECVWIN_EVERY_LEAST 2u

struct rawe_recvwin {
    uint32_t next;           /**< smallest sequence number not taken yet */
    uint32_t beyond;         /**< how many have been taken beyond it: 0 when nothing is missing */
    uint32_t highest;        /**< largest sequence number taken, when beyond != 0 */
    uint32_t unacked_frames; /**< taken since we last acknowledged */
    uint64_t *taken; /**< ring of bits, by sequence number; given back when nothing is missing */
    uint64_t ack_deadline_ns; /**< acknowledge then at the latest; 0: no delayed one is owed */
    uint64_t arrived_ns;      /**< when the newest batch arrived at this host; 0: none has */
    uint32_t answer_number;   /**< of the probe to be answered */
    bool ack_now;             /**< acknowledge at the end of this round of reception */
    bool answer_probe;        /**< the acknowledgement answers a probe */
    bool duplicate_seen;      /**< the next acknowledgement frame reports a duplicate */
};

/** Nothing has come, nothing is owed, no memory is taken. All zero before the first call. */
void rawe_recvwin_reset(struct rawe_recvwin *window, uint32_t first_sequence);

enum rawe_recvwin_verdict {
    RAWE_RECVWIN_NEW,       /**< never seen */
    RAWE_RECVWIN_DUPLICATE, /**< taken before */
    RAWE_RECVWIN_OUTSIDE,   /**< so far ahead that no honest sender can have sent it */
};

/** What to do with a sequence number; changes nothing. */
enum rawe_recvwin_verdict rawe_recvwin_check(const struct rawe_recvwin *window, uint32_t sequence);

/** Have memory to take `sequence`, which is new. False without. */
bool rawe_recvwin_reserve(struct rawe_recvwin *window, uint32_t sequence);

/** Note that a sequence number, found RAWE_RECVWIN_NEW and reserved, has been taken. */
void rawe_recvwin_take(struct rawe_recvwin *window, uint32_t sequence);

/** Write the SACK block (RAWE_SACK_BYTES_MAX). Returns its length, 0: nothing beyond `next`. */
size_t rawe_recvwin_sack(const struct rawe_recvwin *window, uint8_t *out);

/** Some frame before one that has come is missing. */
static inline bool rawe_recvwin_has_gap(const struct rawe_recvwin *window)
{
    return window->beyond != 0;
}

/** Note that `frames`, all of them new and in order, have been taken. */
static inline void rawe_recvwin_take_in_order(struct rawe_recvwin *window, uint32_t frames)
{
    window->next += frames;
    window->unacked_frames += frames;
}

/** A batch has come, and arrived at this host then. */
static inline void rawe_recvwin_note_arrival(struct rawe_recvwin *window, uint64_t arrived_ns)
{
    window->arrived_ns = arrived_ns;
}

/** For how long the newest batch has waited, at most UINT32_MAX. */
static inline uint32_t rawe_recvwin_waited_ns(const struct rawe_recvwin *window, uint64_t now_ns)
{
    uint64_t waited_ns = now_ns - window->arrived_ns;
    return waited_ns == 0 ? 1 : waited_ns < UINT32_MAX ? (uint32_t)waited_ns : UINT32_MAX;
}

/** Owe an acknowledgement: at once, after a quarter of the credit, or later. True: now. */
static inline bool rawe_recvwin_owe(struct rawe_recvwin *window, bool at_once,
                                    uint32_t credit_frames, uint64_t delay_ns, uint64_t now_ns)
{
    uint32_t every = rawe_recvwin_has_gap(window) ? RAWE_RECVWIN_EVERY_WITH_GAP : credit_frames / 4;
    every = every < RAWE_RECVWIN_EVERY_LEAST ? RAWE_RECVWIN_EVERY_LEAST : every;
    if (at_once || window->unacked_frames >= every) {
        window->ack_now = true;
        return true;
    }
    if (window->ack_deadline_ns == 0) {
        window->ack_deadline_ns = now_ns + delay_ns;
    }
    return false;
}

/** Owe an acknowledgement at the end of this round, whatever has come. */
static inline void rawe_recvwin_owe_now(struct rawe_recvwin *window)
{
    window->ack_now = true;
}

/** A frame has come twice: the sender may have taken it for lost too early. */
static inline void rawe_recvwin_note_duplicate(struct rawe_recvwin *window)
{
    window->duplicate_seen = true;
}

/** The peer is given up: no delayed acknowledgement is owed. */
static inline void rawe_recvwin_stop(struct rawe_recvwin *window)
{
    window->ack_deadline_ns = 0;
}

/** A probe asks for an acknowledgement with its number, now. Number 0 replaces no other. */
static inline void rawe_recvwin_owe_answer(struct rawe_recvwin *window, uint32_t probe_number)
{
    if (probe_number != 0 || !window->answer_probe) {
        window->answer_number = probe_number;
    }
    window->answer_probe = true;
}

/** A data frame has carried the cumulative acknowledgement. A SACK block is still owed. */
static inline void rawe_recvwin_carried(struct rawe_recvwin *window)
{
    if (!rawe_recvwin_has_gap(window)) {
        window->unacked_frames = 0;
        window->ack_deadline_ns = 0;
        window->ack_now = false;
    }
}

/** An acknowledgement frame has been sent: nothing is owed any more. */
static inline void rawe_recvwin_acknowledged(struct rawe_recvwin *window)
{
    window->ack_now = window->answer_probe = window->duplicate_seen = false;
    window->unacked_frames = 0;
    window->ack_deadline_ns = 0;
}

/** Time has passed. Returns true when a delayed acknowledgement is due by that (ack_now is set). */
static inline bool rawe_recvwin_expire(struct rawe_recvwin *window, uint64_t now_ns)
{
    if (window->ack_deadline_ns == 0 || now_ns < window->ack_deadline_ns) {
        return false;
    }
    window->ack_deadline_ns = 0;
    window->ack_now = true;
    return true;
}

/** True when an acknowledgement frame is to be sent at the end of this round. */
static inline bool rawe_recvwin_due(const struct rawe_recvwin *window)
{
    return window->ack_now || window->answer_probe;
}

#endif
