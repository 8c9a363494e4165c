/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The headers before a batch's data in packets exchanged with the kernel: a virtio_net_hdr, which
 * tells the kernel how to cut the packet, or us how it was merged and whether its checksum holds;
 * then the Ethernet, IPv4 and batch headers (doc/protocol.md, section 4).
 */
#include "rawe_packet.h"

#include <netinet/in.h>
#include <string.h>

#include "../../core/base/rawe_sum16.h"

#define IPV4_BYTES RAWE_PACKET_OVERHEAD_BYTES

/** Version 4, five words. */
#define IPV4_FIRST 0x45u

/**
 * Data bytes in the linear part of the kernel's packet, after the headers. packet_snd puts hdr_len
 * bytes there, and the rest at the begin of a page. Long buffers from malloc begin at offset 16 of
 * a page, and on AMD's Zen 3 a copy ("rep movsb") whose destination is 1 to 31 bytes above its
 * source, modulo 4096, takes 20 times as long (doc/experiments/programs.md). 64 bytes in the linear
 * part keep both copies, to the kernel and from it, away from that.
 */
#define LINEAR_DATA_BYTES 64u

/** Offsets of IPv4 header fields. */
#define IPV4_LENGTH 2u
#define IPV4_CHECKSUM 10u
#define IPV4_ADDRESSES 12u

_Static_assert(sizeof(struct virtio_net_hdr) == 10, "as the kernel lays it in front of packets");
_Static_assert(sizeof(struct rawe_envelope) == 10 + RAWE_ENVELOPE_HEAD_BYTES, "no padding");

/**
 * Write the IPv4 header of a packet with `bytes` bytes after it. The receiver's IP stack drops
 * packets from the source address 255.255.255.255 (RFC 1122 section 3.2.1.3) before it looks for a
 * route (ip_route_input_slow), but after our sockets have received them. The destination of group
 * batches is 224.0.0.x, which snooping bridges and switches flood.
 */
static void write_ipv4(uint8_t *ip, const uint8_t *destination_mac, size_t bytes)
{
    uint8_t addresses[8] = {255, 255, 255, 255, 0, 0, 0, 2};

    if ((destination_mac[0] & 1) != 0) {
        addresses[4] = 224;
        addresses[7] = destination_mac[5];
    }
    memset(ip, 0, IPV4_BYTES);
    ip[0] = IPV4_FIRST;
    rawe_put16(ip + IPV4_LENGTH, (uint16_t)(IPV4_BYTES + bytes));
    ip[6] = 0x40; /* do not fragment */
    ip[8] = 1;    /* time to live: do not leave this segment */
    ip[9] = IPPROTO_TCP;
    memcpy(ip + IPV4_ADDRESSES, addresses, sizeof addresses);
    rawe_put16(ip + IPV4_CHECKSUM, (uint16_t)~rawe_sum16_fold(rawe_sum16_add(0, ip, IPV4_BYTES)));
}

void rawe_envelope_write(struct rawe_envelope *envelope, const uint8_t *head, size_t bytes,
                         uint32_t segment_bytes)
{
    uint8_t *out = envelope->packet;
    uint8_t *ip = out + RAWE_ETH_HEADER_BYTES;
    uint8_t *batch = ip + IPV4_BYTES;
    uint8_t pseudo[RAWE_PSEUDO_BYTES];

    envelope->vnet = (struct virtio_net_hdr){
        .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
        .gso_type = VIRTIO_NET_HDR_GSO_NONE,
        .csum_start = RAWE_FILTER_BULK_OFFSET,
        .csum_offset = RAWE_BATCH_OFFSET_CHECKSUM,
    };
    /* Requesting segmentation of a single segment is an error (ENOMEM). */
    if (segment_bytes != 0) {
        envelope->vnet.gso_type = VIRTIO_NET_HDR_GSO_TCPV4;
        envelope->vnet.gso_size = (uint16_t)segment_bytes;
        envelope->vnet.hdr_len = sizeof envelope->packet + LINEAR_DATA_BYTES;
    }
    memcpy(out, head, RAWE_ETH_HEADER_BYTES);
    rawe_put16(out + 12, ETHERTYPE_IPV4);
    write_ipv4(ip, head, bytes);
    memcpy(batch, head + RAWE_ETH_HEADER_BYTES, RAWE_BATCH_HEADER_BYTES);
    /* The device that cuts or sends the packet adds the headers and data to this sum. */
    rawe_pseudo_encode(pseudo, ip + IPV4_ADDRESSES, (uint16_t)bytes);
    rawe_put16(batch + RAWE_BATCH_OFFSET_CHECKSUM,
               rawe_sum16_fold(rawe_sum16_add(0, pseudo, sizeof pseudo)));
}

bool rawe_envelope_read(struct rawe_enveloped *packet, const uint8_t *frame, size_t present_bytes,
                        size_t len_bytes)
{
    const uint8_t *ip = frame + RAWE_ETH_HEADER_BYTES;
    struct virtio_net_hdr vnet;

    if (present_bytes < RAWE_ENVELOPE_HEAD_BYTES || ip[0] != IPV4_FIRST ||
        rawe_sum16_fold(rawe_sum16_add(0, ip, IPV4_BYTES)) != UINT16_MAX) {
        return false;
    }
    /* If a frame was padded to Ethernet's 60 bytes, only the IPv4 header has the length. */
    const size_t ip_bytes = (size_t)ip[IPV4_LENGTH] << 8 | ip[IPV4_LENGTH + 1];
    if (ip_bytes < RAWE_ENVELOPE_HEAD_BYTES - RAWE_ETH_HEADER_BYTES ||
        ip_bytes > len_bytes - RAWE_ETH_HEADER_BYTES) {
        return false;
    }
    memcpy(&vnet, frame - sizeof vnet, sizeof vnet);
    *packet = (struct rawe_enveloped){
        .bytes = frame,
        .present_bytes = present_bytes - RAWE_ENVELOPE_HEAD_BYTES,
        .data_bytes = ip_bytes - (RAWE_ENVELOPE_HEAD_BYTES - RAWE_ETH_HEADER_BYTES),
        .frames = 1,
        /*
         * virtio_net_hdr_from_skb: NEEDS_CSUM means CHECKSUM_PARTIAL: no device has sent the packet
         * yet, or GRO merged it from frames that it verified (tcp4_gro_receive, tcp_gro_complete).
         * DATA_VALID means CHECKSUM_UNNECESSARY: NIC or GRO verified it.
         */
        .verified = (vnet.flags & (VIRTIO_NET_HDR_F_NEEDS_CSUM | VIRTIO_NET_HDR_F_DATA_VALID)) != 0,
    };
    if (vnet.gso_type != VIRTIO_NET_HDR_GSO_NONE && vnet.gso_size != 0) {
        packet->frames = (unsigned)((packet->data_bytes + vnet.gso_size - 1) / vnet.gso_size);
    }
    return true;
}

bool rawe_envelope_intact(const struct rawe_enveloped *packet, const uint8_t *data)
{
    const uint8_t *ip = packet->bytes + RAWE_ETH_HEADER_BYTES;

    return packet->verified || rawe_sum16_right(ip + IPV4_ADDRESSES, ip + IPV4_BYTES,
                                                RAWE_BATCH_HEADER_BYTES, data, packet->data_bytes);
}
