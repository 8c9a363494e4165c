/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The bulk link without a packet socket: see batch_link.h. Its ring is a single slot in our memory,
 * its queue a pair of sockets.
 */
#include "core/base/rawe_sum16.h"
#include "batch_link.h"

#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

#include "fuzz.h"
#include "linux/packet/rawe_packet.h"

/** Offset of the Ethernet header in a slot, after the kernel's own header and the virtio header. */
#define SLOT_FRAME_AT 96u
/** Bytes of a packet in a slot, for an MTU of 1500. */
#define SLOT_DATA_BYTES 1510u

static uint64_t slot_memory[(SLOT_FRAME_AT + SLOT_DATA_BYTES + 7) / 8];
static struct rawe_packet bulk;
static int far_fd = -1;

/** Set the link up like rawe_port_open. */
static void open_link(void)
{
    static uint8_t scratch[RAWE_PACKET_SCRATCH_BYTES];
    int fds[2];
    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, fds) == 0, "no pair of sockets");
    far_fd = fds[1];
    bulk.port.fd = fds[0];
    bulk.scratch = scratch;
    bulk.ring = (struct rawe_ring){
        .next = (struct tpacket2_hdr *)(void *)slot_memory,
        .left_in_block = 1,
        .geometry = {sizeof(slot_memory), sizeof(slot_memory), 1, 1},
        .memory = (uint8_t *)slot_memory,
        .memory_bytes = sizeof(slot_memory),
    };
    bulk.config.use = RAWE_PORT_BULK;
    bulk.port.kind = &rawe_packet_port;
    rawe_txqueue_init(&bulk.txqueue);
    bulk.port.word = &bulk.ring.next->tp_status;
    bulk.port.mask = TP_STATUS_USER;
}

static void put16(uint8_t *out, size_t value)
{
    out[0] = (uint8_t)(value >> 8);
    out[1] = (uint8_t)value;
}

/**
 * Write all headers before the data. The EtherType is right because of the filter, the other fields
 * of the envelope because of the kernel.
 */
static void write_envelope(struct rawe_envelope *envelope, const struct batch_link_packet *packet)
{
    uint8_t *ip = envelope->packet + RAWE_ETH_HEADER_BYTES;
    *envelope = (struct rawe_envelope){
        .vnet = {.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
                 .gso_type = packet->gso_type,
                 .gso_size = packet->gso_size},
    };
    memcpy(envelope->packet, packet->destination, RAWE_MAC_BYTES);
    memcpy(envelope->packet + RAWE_MAC_BYTES, packet->source, RAWE_MAC_BYTES);
    put16(envelope->packet + 2 * RAWE_MAC_BYTES, ETHERTYPE_IPV4);
    ip[0] = 0x45;
    put16(ip + 2, RAWE_PACKET_OVERHEAD_BYTES + RAWE_BATCH_HEADER_BYTES + packet->data_bytes +
                      packet->ip_lie);
    put16(ip + 10, (uint16_t)~rawe_sum16_fold(rawe_sum16_add(0, ip, RAWE_PACKET_OVERHEAD_BYTES)));
    memcpy(envelope->packet + RAWE_FILTER_BULK_OFFSET, packet->head, RAWE_BATCH_HEADER_BYTES);
}

void batch_link_receive(const struct batch_link_packet *packet,
                        const struct rawe_port_receiver *receiver, void *context)
{
    static uint8_t whole[sizeof(struct rawe_envelope) + BATCH_LINK_BYTES_MAX];
    const size_t vnet_bytes = offsetof(struct rawe_envelope, packet);
    struct rawe_envelope envelope;
    if (far_fd < 0) {
        open_link();
    }
    FUZZ_CHECK(packet->data_bytes <= BATCH_LINK_BYTES_MAX, "the fuzzer's own packet is too long");
    write_envelope(&envelope, packet);
    memcpy(whole, &envelope, sizeof(envelope));
    memcpy(whole + sizeof(envelope), packet->data, packet->data_bytes);
    size_t len_bytes = sizeof(envelope) - vnet_bytes + packet->data_bytes;
    /* No packet is shorter than its Ethernet header. */
    len_bytes -= packet->cut_bytes % (len_bytes - RAWE_ETH_HEADER_BYTES + 1);
    bool truncated = len_bytes > SLOT_DATA_BYTES;
    bool queued = truncated && !packet->no_room;
    struct tpacket2_hdr *slot = bulk.ring.next;
    slot->tp_mac = SLOT_FRAME_AT;
    slot->tp_len = (uint32_t)len_bytes;
    slot->tp_snaplen = (uint32_t)(truncated ? SLOT_DATA_BYTES : len_bytes);
    memcpy((uint8_t *)slot + SLOT_FRAME_AT - vnet_bytes, whole, vnet_bytes + slot->tp_snaplen);
    if (queued) {
        ssize_t sent = send(far_fd, whole, vnet_bytes + len_bytes, MSG_DONTWAIT);
        FUZZ_CHECK(sent == (ssize_t)(vnet_bytes + len_bytes), "the socket pair took no packet");
    }
    slot->tp_status = TP_STATUS_USER | (queued ? TP_STATUS_COPY : 0);
    rawe_port_receive(&bulk.port, 2, receiver, context);
    FUZZ_CHECK(slot->tp_status == TP_STATUS_KERNEL, "a slot was not given back");
    FUZZ_CHECK(recv(bulk.port.fd, whole, sizeof(whole), MSG_DONTWAIT) < 0,
               "the bulk link left a packet in its queue");
}
