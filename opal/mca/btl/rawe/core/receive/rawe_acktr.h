/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Acknowledgement tracker: which frames of a connection have arrived. It decides that each sequence
 * number is accepted exactly once, and tells the sender by cumulative acknowledgement and SACK
 * bitmap.
 *
 *        next                         next + span
 *   ......|x.xx.x.....................|
 *   taken   bit i of the ring = sequence number has been taken; next itself never has
 */
#ifndef RAWE_ACKTR_H
#define RAWE_ACKTR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rawe_wire.h"

struct rawe_acktr {
    uint32_t next;    /**< smallest sequence number not taken yet */
    uint32_t beyond;  /**< how many have been taken beyond it: 0 when nothing is missing */
    uint32_t highest; /**< largest sequence number taken, when beyond != 0 */
    uint64_t taken[RAWE_WINDOW_FRAMES_MAX / 64]; /**< ring, indexed by sequence number */
};

void rawe_acktr_init(struct rawe_acktr *acktr);

enum rawe_acktr_verdict {
    RAWE_ACKTR_NEW,       /**< never seen */
    RAWE_ACKTR_DUPLICATE, /**< taken before */
    RAWE_ACKTR_OUTSIDE,   /**< so far ahead that no honest sender can have sent it */
};

/** What to do with a sequence number; changes nothing. */
enum rawe_acktr_verdict rawe_acktr_check(const struct rawe_acktr *acktr, uint32_t sequence);

/** Note that a sequence number, found RAWE_ACKTR_NEW, has been taken. */
void rawe_acktr_take(struct rawe_acktr *acktr, uint32_t sequence);

/**
 * Write the SACK block for the present state to `out` (RAWE_SACK_BYTES_MAX bytes).
 * Returns its length, 0 when nothing beyond `next` has been taken.
 */
size_t rawe_acktr_sack(const struct rawe_acktr *acktr, uint8_t *out);

#endif
