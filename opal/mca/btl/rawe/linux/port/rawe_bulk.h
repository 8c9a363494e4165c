/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Bulk: batches of frames as single packets. One system call hands the kernel up to 64 kB, which
 * the device cuts into frames of MTU size (or passes on whole, between virtual hosts); the receiver
 * takes what its kernel has merged of them by recvmsg, straight into place.
 *
 * A batch is an IPv4 packet that looks like TCP, with a virtio_net_hdr in front that asks for
 * TCP segmentation (VIRTIO_NET_HDR_GSO_TCPV4): practically every NIC can do that, and GRO, which
 * comes before packet sockets, merges such frames again:
 *
 *   vnet_hdr 10 | Ethernet 14 | IPv4 20 | batch header 60 (a TCP header) | data
 *
 * The source address is one that every IP stack drops at first sight: nobody answers.
 */
#ifndef RAWE_BULK_H
#define RAWE_BULK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../core/base/rawe_output.h"
#include "rawe_link.h"

/** What IPv4 takes from the MTU, beside the batch header. */
#define RAWE_BULK_OVERHEAD_BYTES 20u

struct rawe_bulk;

/** Where received packets go. All functions get `context`. */
struct rawe_bulk_receiver {
    /**
     * `head` is a batch header, with `data_bytes` behind it that wait in the queue. Returns where
     * they are to be received, or NULL: anywhere.
     */
    uint8_t *(*place)(void *context, const uint8_t *source_mac, const uint8_t *head,
                      size_t head_bytes, size_t data_bytes);
    /** A packet: its data is where `place` said, or anywhere. */
    void (*packet)(void *context, const uint8_t *source_mac, const uint8_t *head, size_t head_bytes,
                   const uint8_t *data, size_t data_bytes);
};

/**
 * Open the socket: a ring of slots for packets of one frame, beside it a queue that takes longer
 * ones whole. Errors as rawe_link_open.
 */
int rawe_bulk_open(struct rawe_bulk **bulk, const struct rawe_link_config *config,
                   struct rawe_link_error *error);
void rawe_bulk_close(struct rawe_bulk *bulk);

/** As rawe_link_reopen. */
int rawe_bulk_reopen(struct rawe_bulk *bulk, const struct rawe_link_config *config,
                     struct rawe_link_error *error);

/** As rawe_link_fd. */
int rawe_bulk_fd(const struct rawe_bulk *bulk);

/** True when packets may wait in the queue: a load and a compare. */
static inline bool rawe_bulk_pending(const struct rawe_bulk *bulk);

/** Receive up to `budget` packets. Returns how many frames came. */
unsigned rawe_bulk_receive(struct rawe_bulk *bulk, unsigned budget,
                           const struct rawe_bulk_receiver *receiver, void *context);

/** rawe_batch_output.transmit; context is the bulk. */
bool rawe_bulk_transmit(void *bulk, const struct rawe_frame *packet, uint32_t segment_bytes);

/** Frames the queue can hold at least, from its SO_RCVBUF. */
unsigned rawe_bulk_queue_frames(const struct rawe_bulk *bulk);

/**
 * True when the device cuts batches by itself (ethtool tx-tcp-segmentation), or passes them whole.
 */
bool rawe_bulk_offloaded(const struct rawe_bulk *bulk);

/** Does the device cut batches, or pass them whole (ethtool's tx-tcp-segmentation)? */
bool rawe_bulk_device_offloads(const char *interface);

void rawe_bulk_read_counters(struct rawe_bulk *bulk, struct rawe_link_counters *counters);

#include "rawe_bulk_inline.h"

#endif
