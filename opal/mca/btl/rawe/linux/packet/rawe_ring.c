/* SPDX-License-Identifier: BSD-3-Clause */
#include "rawe_ring.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/param.h>
#include <sys/socket.h>

#include "../../core/base/rawe_wire.h"

#define CACHE_LINE_BYTES 64u
#define BLOCK_BYTES_MIN (64u << 10)
#define BLOCK_BYTES_MAX (1u << 20)

/** The rings of all processes may take up to 1/MEMORY_DIVISOR of a host's memory. */
#define MEMORY_DIVISOR 20u

/** Limits of a link's ring. */
#define SHARE_BYTES_MAX (16u << 20)
#define SHARE_BYTES_MIN (256u << 10)

/** More processes than this on a host share the memory of this many. */
#define PROCESSES_MAX 8u

/** Idle peers share a quarter of the slots (core/pull/rawe_credit.h): four of MTU 1500. */
#define RANK_BYTES (8u << 10)

/** A block may leave up to 1/WASTE_DIVISOR of it unused; otherwise use a larger one. */
#define WASTE_DIVISOR 16u

/**
 * Offset of the bytes after the Ethernet header (tpacket_rcv in af_packet.c): the kernel's header
 * and address, and room for a MAC header of 16 bytes, aligned.
 */
#define ALIGN_UP(bytes, unit) (((uint32_t)(bytes) + (unit)-1) / (unit) * (unit))
#define NETWORK_OFFSET \
    ALIGN_UP(ALIGN_UP(sizeof(struct tpacket2_hdr), 16u) + sizeof(struct sockaddr_ll) + 16u, 16u)

struct rawe_ring_geometry rawe_ring_divide(uint32_t mtu_bytes, size_t ring_bytes)
{
    /* Whole cache lines, but not a power of two, so that successive frames use other cache sets. */
    const uint32_t slot_bytes = ALIGN_UP(NETWORK_OFFSET + mtu_bytes, CACHE_LINE_BYTES);
    uint32_t block_bytes = BLOCK_BYTES_MIN;

    /* The kernel allocates each block in powers of two. */
    while (block_bytes < slot_bytes || (block_bytes < BLOCK_BYTES_MAX &&
                                        block_bytes % slot_bytes > block_bytes / WASTE_DIVISOR)) {
        block_bytes *= 2;
    }

    size_t block_count = ring_bytes / block_bytes;
    if (block_count == 0) {
        block_count = 1;
    } else if (block_count > UINT32_MAX / block_bytes) {
        block_count = UINT32_MAX / block_bytes; /* the kernel's own limit */
    }
    return (struct rawe_ring_geometry){
        .slot_bytes = slot_bytes,
        .block_bytes = block_bytes,
        .slots_per_block = block_bytes / slot_bytes,
        .block_count = (uint32_t)block_count,
    };
}

size_t rawe_ring_share(size_t usual_bytes, uint64_t memory_bytes, unsigned processes,
                       unsigned ranks, unsigned links)
{
    const uint64_t share_bytes = memory_bytes / MEMORY_DIVISOR / processes / links;
    const uint64_t rings_bytes =
        share_bytes > RAWE_RING_RESPONDER_BYTES ? share_bytes - RAWE_RING_RESPONDER_BYTES : 0;
    const uint64_t affordable = rings_bytes / 3; /* for link, bulk and middle port */
    const uint64_t useful = MAX(usual_bytes * PROCESSES_MAX / MAX(processes, PROCESSES_MAX),
                                (uint64_t)ranks * RANK_BYTES);

    return (size_t)MAX(MIN(MIN(affordable, useful), SHARE_BYTES_MAX), SHARE_BYTES_MIN);
}

int rawe_ring_open(struct rawe_ring *ring, int fd, uint32_t mtu_bytes, size_t ring_bytes,
                   struct rawe_port_error *error)
{
    const int version = TPACKET_V2;
    struct rawe_ring_geometry g = rawe_ring_divide(mtu_bytes, ring_bytes);

    if (rawe_port_set_option(fd, SOL_PACKET, PACKET_VERSION, &version, sizeof version,
                             "setsockopt(PACKET_VERSION, TPACKET_V2)", error) != 0) {
        return -1;
    }
    for (;; g.block_count /= 2) {
        const struct tpacket_req request = {
            .tp_block_size = g.block_bytes,
            .tp_block_nr = g.block_count,
            .tp_frame_size = g.slot_bytes,
            .tp_frame_nr = g.slots_per_block * g.block_count,
        };
        if (setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &request, sizeof request) == 0) {
            break;
        }
        if (errno != ENOMEM || g.block_count == 1) {
            return rawe_port_failed(error, "setsockopt(PACKET_RX_RING)", errno);
        }
    }

    /* The kernel maps every page here (packet_mmap), so MAP_POPULATE would add nothing. */
    const size_t memory_bytes = (size_t)g.block_bytes * g.block_count;
    void *memory = mmap(NULL, memory_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
        return rawe_port_failed(error, "mmap(receive ring)", errno);
    }
    /* Child processes do not need the ring; failure is harmless. */
    (void)madvise(memory, memory_bytes, MADV_DONTFORK);

    *ring = (struct rawe_ring){
        .next = memory,
        .left_in_block = g.slots_per_block,
        .geometry = g,
        .memory = memory,
        .memory_bytes = memory_bytes,
    };
    return 0;
}

void rawe_ring_close(struct rawe_ring *ring)
{
    if (ring->memory != NULL) {
        munmap(ring->memory, ring->memory_bytes);
        ring->memory = NULL;
    }
}
