/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What can be wrong with one direction of a cable, and how it is written: KEY=VALUE.
 */
#ifndef WIRE_SETTINGS_H
#define WIRE_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WIRE_WHY_BYTES 200 /* room for the reason why a value was refused */

/** Shares are probabilities from 0 to 1; all zero is a cable without fault. */
struct wire_settings {
    double loss;                /* share of the frames lost, each by itself */
    double burst;               /* share of the frames with which a burst of loss begins */
    uint32_t burst_frames;      /* length of a burst: frames, or */
    uint64_t burst_ns;          /* time */
    double duplicate;           /* share that arrives twice */
    double corrupt;             /* share in which one to eight bits are flipped */
    double reorder;             /* share held back, */
    uint64_t reorder_ns;        /* for this time at most */
    uint64_t delay_ns;          /* of every frame */
    uint64_t rate_bits;         /* a second; 0: no limit */
    uint64_t buffer_bytes;      /* what may wait for the rate; the rest is dropped */
    uint64_t mtu_bytes;         /* longer frames (Ethernet header not counted) vanish; 0: none */
    uint64_t blackout_ns;       /* nothing passes for this time, beginning when it is set */
    uint64_t blackout_every_ns; /* and again and again after this time; 0: once */
};

extern const struct wire_settings wire_settings_none;

/** Reads one KEY and VALUE into the settings; false, with a sentence in `why`, when it cannot. */
bool wire_settings_read(struct wire_settings *settings, const char *key, const char *value,
                        char why[WIRE_WHY_BYTES]);

/** A whole number from 0 on, nothing behind it. */
bool wire_settings_read_number(const char *text, uint64_t *number);

#endif
