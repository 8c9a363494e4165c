/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Credit: how many frames each peer may have in flight to us, so that all of them together fit the
 * receive ring (and the bulk queue). Senders are counted in epochs of 10 ms.
 */
#ifndef RAWE_CREDIT_H
#define RAWE_CREDIT_H

#include <stdbool.h>
#include <stdint.h>

/** Connections between two processes through one link: small messages never wait for large ones. */
enum rawe_lane {
    RAWE_LANE_EXPRESS, /**< messages that fit a frame */
    RAWE_LANE_BULK,    /**< longer messages and PUT data */
    RAWE_LANES
};

struct rawe_credit {
    uint16_t frames[RAWE_LANES];   /**< what one connection of the lane may have in flight to us */
    uint32_t window_frames;        /**< no more than that */
    uint32_t room[RAWE_LANES];     /**< frames that the lane's ring or queue holds; 0: none of its own */
    uint32_t epoch;                /**< number of the present epoch, never 0 */
    uint64_t epoch_start_ns;
    unsigned senders_before;       /**< connections that sent data in the epoch before */
    unsigned senders_now;          /**< ... in this epoch */
};

/** `ring_frames` is what the receive ring holds. */
void rawe_credit_init(struct rawe_credit *credit, uint32_t ring_frames, uint32_t window_frames,
                      uint64_t now_ns);

/** Bulk data has a receive queue of its own that holds `queue_frames`. */
void rawe_credit_use_bulk(struct rawe_credit *credit, uint32_t queue_frames);

/** A connection received data; `*epoch` is the connection's own, of its last such call. */
void rawe_credit_count(struct rawe_credit *credit, uint32_t *epoch);

/** Time has passed: begin a new epoch if it is time. */
void rawe_credit_advance(struct rawe_credit *credit, uint64_t now_ns);

#endif
