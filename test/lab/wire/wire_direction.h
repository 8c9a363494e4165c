/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * One direction of one cable: decides for each frame whether, when, how often and how garbled it
 * comes out. It moves nothing itself; time is an argument.
 */
#ifndef WIRE_DIRECTION_H
#define WIRE_DIRECTION_H

#include "wire_frame.h"
#include "wire_settings.h"

/** Counters of one direction; all but `bytes` count frames. */
#define WIRE_COUNTERS(X)                                           \
    X(frames)        /* that came to this direction */             \
    X(bytes)         /* in them, with Ethernet header */           \
    X(lost)          /* by `loss` */                               \
    X(burst_lost)    /* by `burst` */                              \
    X(blackout_lost) /* by `blackout` */                           \
    X(too_long)      /* lost by `mtu` */                           \
    X(buffer_full)   /* lost because the rate's buffer was full */ \
    X(duplicated)    /* sent on twice */                           \
    X(reordered)     /* held back */                               \
    X(corrupted)     /* with flipped bits */                       \
    X(delivered)     /* that came out, duplicates included */      \
    X(refused)       /* that the kernel or the wire itself had no room for: not meant to happen */

struct wire_counters {
#define WIRE_COUNTER_FIELD(name) uint64_t name;
    WIRE_COUNTERS(WIRE_COUNTER_FIELD)
#undef WIRE_COUNTER_FIELD
};

struct wire_direction {
    struct wire_settings settings;
    struct wire_counters counters;
    uint64_t random;        /* state of the generator */
    uint64_t blackout_from; /* ns: when the (first) blackout began */
    uint64_t burst_until;   /* ns: end of the present burst */
    uint32_t burst_left;    /* frames that the present burst still takes */
    uint64_t busy_until;    /* ns: when all that waits for the rate will be out */
};

/** Called for each copy that leaves, at `release_ns`: now or later. The caller owns the bytes. */
typedef void wire_deliver_fn(void *context, const struct wire_frame *frame, uint64_t release_ns);

/** Begins anew: no counts, a generator decided by `seed` and `stream`, no fault. */
void wire_direction_reset(struct wire_direction *direction, uint64_t seed, uint64_t stream);

/** Another generator, everything else as it was. */
void wire_direction_seed(struct wire_direction *direction, uint64_t seed, uint64_t stream);

/** Other settings from now on. A blackout begins now if `blackout_begins`. */
void wire_direction_change(struct wire_direction *direction, const struct wire_settings *settings,
                           bool blackout_begins, uint64_t now_ns);

/** Sends a frame through. Its bytes are the same again when this returns. */
void wire_direction_pass(struct wire_direction *direction, struct wire_frame *frame,
                         uint64_t now_ns, wire_deliver_fn *deliver, void *context);

#endif
