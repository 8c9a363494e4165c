/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Receive window. It records which frames of a connection have arrived, so that each is accepted
 * once, and when an acknowledgement is owed: at once, after some more frames, or after a delay,
 * unless a data frame carries it first.
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

/** While a frame is missing, acknowledge every few frames, so that the sender learns which one. */
#define RAWE_RECVWIN_EVERY_WITH_GAP 4u

/** Even with small credit, the acknowledgement of a single frame may wait for data to carry it. */
#define RAWE_RECVWIN_EVERY_LEAST 2u

struct rawe_recvwin {
    uint32_t next;          /**< lowest sequence number not accepted yet */
    uint32_t beyond;        /**< number of frames accepted after `next`; 0: no gap */
    uint32_t highest;       /**< highest sequence number accepted, if beyond != 0 */
    uint32_t answer_number; /**< number of the probe to answer */
    uint64_t *taken;        /**< ring of bits, by sequence number; freed when nothing is missing */
    uint64_t ack_deadline_ns; /**< latest time for a delayed acknowledgement; 0: none is owed */
    uint32_t unacked_frames;  /**< accepted since our last acknowledgement */
    bool ack_now;             /**< acknowledge at the end of this round */
    bool answer_probe;        /**< the acknowledgement answers a probe */
    bool duplicate_seen;      /**< the next acknowledgement frame must report a duplicate */
};

/** Reset: nothing received or owed, no memory used. Must be all zero before the first call. */
void rawe_recvwin_reset(struct rawe_recvwin *window, uint32_t first_sequence);

enum rawe_recvwin_verdict {
    RAWE_RECVWIN_NEW,       /**< never seen */
    RAWE_RECVWIN_DUPLICATE, /**< accepted before */
    RAWE_RECVWIN_OUTSIDE,   /**< too far ahead for any honest sender */
};

/** Judge a sequence number, without changing anything. */
enum rawe_recvwin_verdict rawe_recvwin_check(const struct rawe_recvwin *window, uint32_t sequence);

/** Reserve memory to accept `sequence`, which is new. Returns false when out of memory. */
bool rawe_recvwin_reserve(struct rawe_recvwin *window, uint32_t sequence);

/** Accept a sequence number that is RAWE_RECVWIN_NEW and reserved. */
void rawe_recvwin_take(struct rawe_recvwin *window, uint32_t sequence);

/** Write the SACK block (RAWE_SACK_BYTES_MAX). Returns its length; 0: nothing beyond `next`. */
size_t rawe_recvwin_sack(const struct rawe_recvwin *window, uint8_t *out);

/** Return true if a frame is missing before one that has arrived. */
static inline bool rawe_recvwin_has_gap(const struct rawe_recvwin *window)
{
    return window->beyond != 0;
}

/** Accept `frames`, all of them new and in order. */
static inline void rawe_recvwin_take_in_order(struct rawe_recvwin *window, uint32_t frames)
{
    window->next += frames;
    window->unacked_frames += frames;
}

/** Owe an acknowledgement: at once, after a quarter of the credit, or later. True: due now. */
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

/** Owe an acknowledgement at the end of this round, unconditionally. */
static inline void rawe_recvwin_owe_now(struct rawe_recvwin *window)
{
    window->ack_now = true;
}

/** Note that a frame arrived twice: the sender may have declared it lost too early. */
static inline void rawe_recvwin_note_duplicate(struct rawe_recvwin *window)
{
    window->duplicate_seen = true;
}

/** Cancel the delayed acknowledgement, because we have given up on the peer. */
static inline void rawe_recvwin_stop(struct rawe_recvwin *window)
{
    window->ack_deadline_ns = 0;
}

/** Owe an immediate answer to a probe, with its number. Number 0 replaces no other number. */
static inline void rawe_recvwin_owe_answer(struct rawe_recvwin *window, uint32_t probe_number)
{
    if (probe_number != 0 || !window->answer_probe) {
        window->answer_number = probe_number;
    }
    window->answer_probe = true;
}

/** Return true if a data frame's cumulative acknowledgement covers everything owed. */
static inline bool rawe_recvwin_can_be_carried(const struct rawe_recvwin *window)
{
    return !rawe_recvwin_has_gap(window) && !window->answer_probe && !window->duplicate_seen;
}

/** Note that a data frame carried the cumulative acknowledgement. A SACK block is still owed. */
static inline void rawe_recvwin_carried(struct rawe_recvwin *window)
{
    if (!rawe_recvwin_has_gap(window)) {
        window->unacked_frames = 0;
        window->ack_deadline_ns = 0;
        window->ack_now = false;
    }
}

/** Note that an acknowledgement frame was sent, so nothing is owed. */
static inline void rawe_recvwin_acknowledged(struct rawe_recvwin *window)
{
    window->ack_now = window->answer_probe = window->duplicate_seen = false;
    window->unacked_frames = 0;
    window->ack_deadline_ns = 0;
}

/** Advance the time. Returns true if a delayed acknowledgement is due now (ack_now is set). */
static inline bool rawe_recvwin_expire(struct rawe_recvwin *window, uint64_t now_ns)
{
    if (window->ack_deadline_ns == 0 || now_ns < window->ack_deadline_ns) {
        return false;
    }
    window->ack_deadline_ns = 0;
    window->ack_now = true;
    return true;
}

/** Return true if an acknowledgement frame must be sent at the end of this round. */
static inline bool rawe_recvwin_due(const struct rawe_recvwin *window)
{
    return window->ack_now || window->answer_probe;
}

#endif
