/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Delivery rate of a connection: what is acknowledged in a time through which something is in
 * flight. What is in flight in a round trip says less: right behind a pause it is little, and the
 * round trip is that of the queue that was there before.
 */
#ifndef RAWE_RATE_H
#define RAWE_RATE_H

#include <stdbool.h>
#include <stdint.h>

/** Largest rate, in Mb/s, that is told apart. */
#define RAWE_RATE_MOST_MBPS (1u << 20)

/** All zero: nothing is known. */
struct rawe_rate {
    uint64_t since_ns; /**< of an acknowledgement; 0: nothing has been in flight since */
    uint64_t bytes;    /**< acknowledged since */
    uint32_t mbps;     /**< mean of the latest measurements; 0: none yet */
};

/** `bytes` have been acknowledged; `idle`: nothing more is in flight. */
void rawe_rate_acked(struct rawe_rate *rate, uint64_t bytes, bool idle, uint64_t now_ns);

#endif
