/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A receive ring: memory shared with the kernel, which writes one frame to each slot. Frames are
 * read without a system call (TPACKET_V2; V3 reveals a frame only when its block is retired, half a
 * millisecond late).
 *
 *      block 0                       block 1
 *     | slot | slot | slot | waste | slot | slot | slot | waste | ...
 *
 * A slot has a struct tpacket2_hdr, whose first word is the status that tells who owns the slot, a
 * struct sockaddr_ll, then the frame, whose payload after the Ethernet header is 16-byte aligned.
 */
#ifndef RAWE_RING_H
#define RAWE_RING_H

#include <linux/if_packet.h>
#include <stddef.h>
#include <stdint.h>

#include "../port/rawe_port.h"

/** The division of a ring's memory. */
struct rawe_ring_geometry {
    uint32_t slot_bytes;
    uint32_t block_bytes;
    uint32_t slots_per_block;
    uint32_t block_count;
};

struct rawe_ring {
    struct tpacket2_hdr *next; /**< next slot for the kernel to fill, as seen from our side */
    uint32_t left_in_block;    /**< slots from `next` to the end of its block */
    struct rawe_ring_geometry geometry;
    uint8_t *memory;
    size_t memory_bytes;
};

/** Divide about `ring_bytes` into slots for frames of `mtu_bytes` plus Ethernet header. Pure. */
struct rawe_ring_geometry rawe_ring_divide(uint32_t mtu_bytes, size_t ring_bytes);

/** Memory of a responder's ring, which holds the heads of a thousand frames. */
#define RAWE_RING_RESPONDER_BYTES (128u << 10)

/** Usual memory of a link's ring: at MTU 1500, full windows of two senders. */
#define RAWE_RING_USUAL_BYTES (2u << 20)

/** Usual memory of the middle port's ring: its 240 slots limit what is in flight on the bulk lane. */
#define RAWE_RING_MIDDLE_BYTES (4u << 20)

/**
 * Return the default memory of a ring. With up to eight `processes` on the host it is `usual_bytes`:
 * smaller rings stay in the cache, and the kernel clears them at start and never swaps them. More
 * processes share what the link brings: each has its part of eight times that, but at least an idle
 * peer's share of the credit for each of the job's `ranks`, up to 16 MiB. The rings of all
 * processes, with `links` interfaces each, take at most 5 % of the host's memory, but a ring has at
 * least 256 KiB. Pure.
 */
size_t rawe_ring_share(size_t usual_bytes, uint64_t memory_bytes, unsigned processes,
                       unsigned ranks, unsigned links);

/** Give an unbound socket a ring, halved until memory suffices, and map it. -1: see the error. */
int rawe_ring_open(struct rawe_ring *ring, int fd, uint32_t mtu_bytes, size_t ring_bytes,
                   struct rawe_port_error *error);
void rawe_ring_close(struct rawe_ring *ring);

/**
 * A status bit that marks a slot as being read: neither owned by the kernel (exactly 0) nor a
 * waiting frame. So a receive callback may itself receive, and never sees a frame twice. The other
 * status bits stay as the kernel set them.
 */
#define RAWE_RING_HELD TP_STATUS_CSUMNOTREADY

/** Take the next frame's slot; NULL: no frame is waiting. Ours until it is given back. */
static inline struct tpacket2_hdr *rawe_ring_take(struct rawe_ring *ring)
{
    struct tpacket2_hdr *slot = ring->next;

    const uint32_t status = __atomic_load_n(&slot->tp_status, __ATOMIC_ACQUIRE);
    if ((status & TP_STATUS_USER) == 0) {
        return NULL;
    }
    __atomic_store_n(&slot->tp_status, (status & ~(uint32_t)TP_STATUS_USER) | RAWE_RING_HELD,
                     __ATOMIC_RELAXED);

    uint8_t *next = (uint8_t *)slot + ring->geometry.slot_bytes;
    if (--ring->left_in_block == 0) {
        const struct rawe_ring_geometry *g = &ring->geometry;
        next += g->block_bytes - (size_t)g->slots_per_block * g->slot_bytes;
        if (next == ring->memory + ring->memory_bytes) {
            next = ring->memory;
        }
        ring->left_in_block = g->slots_per_block;
    }
    ring->next = (struct tpacket2_hdr *)(void *)next;
    return slot;
}

/** Give the slot back to the kernel, after everything was read from it. */
static inline void rawe_ring_give_back(struct tpacket2_hdr *slot)
{
    __atomic_store_n(&slot->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
}

/** Return the frame in a slot, beginning with its Ethernet header; tp_snaplen bytes are present. */
static inline uint8_t *rawe_ring_frame(struct tpacket2_hdr *slot)
{
    return (uint8_t *)slot + slot->tp_mac;
}

#endif
