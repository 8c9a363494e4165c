/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the core hands to the link: whole frames, as lists of pieces. This is the only thing the
 * two layers share, and the place where further ways of moving frames come in: a batch of equally
 * long frames to one peer may be sent one by one, or as one batch, as the link likes.
 */
#ifndef RAWE_OUTPUT_H
#define RAWE_OUTPUT_H

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

/**
 * Where the data of a batch's frames goes, for a link that can receive it straight into place:
 * frame i has `head_bytes` of headers, then data that belongs at base + i * data_bytes.
 */
struct rawe_placement {
    uint8_t *base;
    uint32_t head_bytes;
    uint32_t data_bytes; /**< of every frame but the last, which may be shorter */
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

#endif
