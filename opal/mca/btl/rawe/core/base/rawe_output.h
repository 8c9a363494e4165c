/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What core hands to a port: whole frames, and batches of frames, as lists of pieces. The two layers
 * share nothing else but the layouts.
 */
#ifndef RAWE_OUTPUT_H
#define RAWE_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Some bytes in memory; same layout as struct iovec, which core does not know. */
struct rawe_bytes {
    void *base;
    size_t len_bytes;
};

#define RAWE_FRAME_PIECES_MAX 4u

/** A frame, complete from its Ethernet header on. The memory stays the core's. */
struct rawe_frame {
    struct rawe_bytes pieces[RAWE_FRAME_PIECES_MAX];
    unsigned piece_count;
    uint32_t len_bytes; /**< sum over the pieces, Ethernet header included */
};

struct rawe_output {
    /**
     * Send `count` frames, all to the same peer and of the same lane. The link copies or hands them
     * to the kernel before it returns.
     *
     * Returns how many were taken: fewer than `count` when the send queue is full for the moment
     * (the core keeps the rest and tries again at the next progress), never negative. A frame
     * that the link cannot send for another reason counts as taken and lost: reliability is
     * the core's business.
     */
    unsigned (*transmit)(void *context, const struct rawe_frame *frames, unsigned count);
    void *context;
};

struct rawe_batch_output {
    /**
     * Send a packet: Ethernet header, batch header (rawe_wire.h), in one piece, then data. Where
     * `segment_bytes` is not 0 the data is longer, and is to be cut each time after as many.
     *
     * Returns false when the send queue is full for the moment. As above, a packet that cannot be
     * sent for another reason counts as taken and lost.
     */
    bool (*transmit)(void *context, const struct rawe_frame *packet, uint32_t segment_bytes);
    void *context;
};

#endif
