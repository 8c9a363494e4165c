/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Bulk: batches of frames as batches. One system call hands the kernel up to 64 kB, which the
 * device cuts into frames of MTU size (or passes on whole, between virtual hosts); the receiver
 * takes them by recvmsg straight into place.
 *
 * A batch is an IPv4 + UDP packet with a virtio_net_hdr in front that asks for UDP
 * segmentation (VIRTIO_NET_HDR_GSO_UDP_L4): bridges and NICs know it. Each UDP segment is one rawe
 * frame without its Ethernet header, so what comes out of the segmentation are frames again:
 *
 *   vnet_hdr 10 | Ethernet 14 | IPv4 20 | UDP 8 | frame header 24, fragment, data | frame header ...
 *                                               |<----- segment_bytes ------->|
 *
 * The source address is one that every IP stack drops at first sight: nobody answers.
 */
#ifndef RAWE_BULK_H
#define RAWE_BULK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../core/rawe_output.h"
#include "rawe_link.h"

/** What IPv4 and UDP take from the MTU. */
#define RAWE_BULK_OVERHEAD_BYTES 28u

/** Most bytes behind the UDP header of one batch: the IPv4 length field has 16 bits. */
#define RAWE_BULK_BYTES_MAX 65507u

/** Zeros there are to fill a frame up with. */
#define RAWE_BULK_FILL_MAX_BYTES 65536u

struct rawe_bulk;

/** Where received bytes go. All functions get `context`. */
struct rawe_bulk_receiver {
    /**
     * `head` is the beginning of a packet of `total_bytes` bytes, cut every `segment_bytes`.
     * Returns true and the place when each segment's data may be received straight into place.
     */
    bool (*plan)(void *context, const uint8_t *source_mac, const uint8_t *head, size_t head_bytes,
                 size_t segment_bytes, size_t total_bytes, struct rawe_placement *placement);
    /**
     * One frame, without Ethernet header: `head_bytes` at `head`, the rest at `data` (which is
     * where `plan` said, or NULL when all of the frame is at `head`).
     */
    void (*segment)(void *context, const uint8_t *source_mac, const uint8_t *head,
                    size_t head_bytes, const uint8_t *data, size_t data_bytes);
    /**
     * Behind a segment in its place: up to `count` more, as long as planned; headers at `head` and
     * every `head_stride` bytes (those of the segment before are right before them), data at
     * `data`. Returns how many were taken; the others are given to `segment`. May be NULL.
     */
    unsigned (*predicted)(void *context, const uint8_t *source_mac, const uint8_t *head,
                          size_t head_stride, const struct rawe_placement *placement,
                          const uint8_t *data, unsigned count);
};

/**
 * Open the socket: a ring of slots for packets of one frame, beside it a queue that takes longer
 * ones whole. Errors as rawe_link_open.
 */
int rawe_bulk_open(struct rawe_bulk **bulk, const struct rawe_link_config *config,
                   struct rawe_link_error *error);
void rawe_bulk_close(struct rawe_bulk *bulk);

/** True when packets may wait in the queue: a load and a compare. */
static inline bool rawe_bulk_pending(const struct rawe_bulk *bulk);

/** Receive up to `budget` packets. Returns how many frames came. */
unsigned rawe_bulk_receive(struct rawe_bulk *bulk, unsigned budget,
                           const struct rawe_bulk_receiver *receiver, void *context);

/**
 * rawe_output.transmit; context is the bulk. No frame is longer than the first; shorter ones, but
 * for the last, are filled up with zeros to its length (by RAWE_BULK_FILL_MAX_BYTES at most). They
 * go out as one batch, or, when there is just one, as a UDP packet. Takes all or none.
 */
unsigned rawe_bulk_transmit(void *bulk, const struct rawe_frame *frames, unsigned count);

/** Frames the queue can hold at least, from its SO_RCVBUF. */
unsigned rawe_bulk_queue_frames(const struct rawe_bulk *bulk);

/**
 * True when the device cuts batches by itself (ethtool tx-udp-segmentation), or passes them
 * whole.
 */
bool rawe_bulk_offloaded(const struct rawe_bulk *bulk);

void rawe_bulk_read_counters(struct rawe_bulk *bulk, struct rawe_link_counters *counters);

#include "rawe_bulk_inline.h"

#endif
