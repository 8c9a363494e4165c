/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of rawe_envelope: writing and reading the headers that precede batches.
 */
#include <string.h>

#include "core/base/rawe_sum16.h"
#include "linux/packet/rawe_packet.h"
#include "unit_test.h"

#define DATA_BYTES 101u
#define PACKET_BYTES (RAWE_ENVELOPE_HEAD_BYTES + DATA_BYTES)
#define TCP (RAWE_FILTER_BULK_OFFSET)

static const uint8_t to[RAWE_MAC_BYTES] = {2, 0, 0, 0, 0, 2};
static const uint8_t to_group[RAWE_MAC_BYTES] = {1, 0, 0x5E, 0, 0, 0xFE};

static struct {
    struct virtio_net_hdr vnet;
    uint8_t bytes[PACKET_BYTES + 20];
} wire;

/** Build a packet as it appears on the wire from the data handed to the kernel. */
static void write(const uint8_t *destination, uint32_t segment_bytes)
{
    uint8_t head[RAWE_ETH_HEADER_BYTES + RAWE_BATCH_HEADER_BYTES];
    struct rawe_envelope envelope;
    memset(head, 0x5A, sizeof(head));
    memcpy(head, destination, RAWE_MAC_BYTES);
    memset(&wire, 0, sizeof(wire));
    rawe_envelope_write(&envelope, head, RAWE_BATCH_HEADER_BYTES + DATA_BYTES, segment_bytes);
    assert_int_equal(envelope.vnet.flags, VIRTIO_NET_HDR_F_NEEDS_CSUM);
    assert_int_equal(envelope.vnet.gso_size, segment_bytes);
    assert_int_equal(envelope.vnet.gso_type,
                     segment_bytes != 0 ? VIRTIO_NET_HDR_GSO_TCPV4 : VIRTIO_NET_HDR_GSO_NONE);
    memcpy(wire.bytes, envelope.packet, sizeof(envelope.packet));
    memset(wire.bytes + sizeof(envelope.packet), 0xC3, DATA_BYTES);
    /* Like a device (skb_checksum_help), sum all bytes from csum_start on, checksum included. */
    assert_int_equal(envelope.vnet.csum_start, TCP);
    uint8_t *checksum = wire.bytes + TCP + envelope.vnet.csum_offset;
    rawe_put16(checksum,
               (uint16_t)~rawe_sum16_fold(rawe_sum16_add(0, wire.bytes + TCP, PACKET_BYTES - TCP)));
}

static bool read(struct rawe_enveloped *packet, size_t present_bytes, size_t len_bytes)
{
    return rawe_envelope_read(packet, wire.bytes, present_bytes, len_bytes);
}

TEST(rawe_envelope_write__checksums_that_receivers_find_right)
{
    static const uint8_t *const destinations[] = {to, to_group};
    struct rawe_enveloped packet;
    for (unsigned i = 0; i < 4; i++) {
        write(destinations[i % 2], i < 2 ? 0 : 1000);
        assert_true(read(&packet, PACKET_BYTES, PACKET_BYTES));
        assert_int_equal(packet.data_bytes, DATA_BYTES);
        assert_int_equal(packet.present_bytes, DATA_BYTES);
        assert_int_equal(packet.frames, 1);
        assert_false(packet.verified);
        assert_true(rawe_envelope_intact(&packet, wire.bytes + RAWE_ENVELOPE_HEAD_BYTES));
        assert_int_equal(wire.bytes[TCP - 1], i % 2 == 0 ? 2 : 0xFE);
    }
}

/** On AMD's Zen 3, copies upwards by 1 to 31 bytes, modulo the page, are slow. */
TEST(rawe_envelope_write__places_data_so_that_copies_are_fast)
{
    uint8_t head[RAWE_ETH_HEADER_BYTES + RAWE_BATCH_HEADER_BYTES] = {0};
    struct rawe_envelope envelope;
    rawe_envelope_write(&envelope, head, 50000, 1000);
    for (unsigned buffer = 0; buffer < 512; buffer += 16) {
        /* This data is at offset 0 of a kernel's page. */
        unsigned data = buffer + envelope.vnet.hdr_len - RAWE_ENVELOPE_HEAD_BYTES;
        assert_true(data >= 32 && data < 4096 - 32);
    }
}

TEST(rawe_envelope_read__what_nic_and_kernel_say)
{
    static const struct {
        uint8_t flags, gso_type;
        uint16_t gso_size;
        bool verified;
        unsigned frames;
    } cases[] = {
        {0, VIRTIO_NET_HDR_GSO_NONE, 0, false, 1},
        {VIRTIO_NET_HDR_F_DATA_VALID, VIRTIO_NET_HDR_GSO_NONE, 0, true, 1},
        {VIRTIO_NET_HDR_F_NEEDS_CSUM, VIRTIO_NET_HDR_GSO_NONE, 0, true, 1},
        {VIRTIO_NET_HDR_F_NEEDS_CSUM, VIRTIO_NET_HDR_GSO_TCPV4, 50, true, 3},
        {0, VIRTIO_NET_HDR_GSO_TCPV4, 50, false, 3},
    };
    struct rawe_enveloped packet;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        write(to, 0);
        wire.vnet = (struct virtio_net_hdr){
            .flags = cases[i].flags, .gso_type = cases[i].gso_type, .gso_size = cases[i].gso_size};
        wire.bytes[PACKET_BYTES - 1] ^= 1;
        assert_true(read(&packet, PACKET_BYTES, PACKET_BYTES));
        assert_int_equal(packet.verified, cases[i].verified);
        assert_int_equal(packet.frames, cases[i].frames);
        assert_int_equal(rawe_envelope_intact(&packet, wire.bytes + RAWE_ENVELOPE_HEAD_BYTES),
                         cases[i].verified);
    }
}

TEST(rawe_envelope_read__refuses_what_was_cut_short_or_changed)
{
    struct rawe_enveloped packet;
    for (size_t len_bytes = RAWE_ETH_HEADER_BYTES; len_bytes < PACKET_BYTES; len_bytes++) {
        write(to, 0);
        assert_false(read(&packet, len_bytes, len_bytes));
    }
    assert_true(
        read(&packet, RAWE_ENVELOPE_HEAD_BYTES, PACKET_BYTES)); /* the rest is in the queue */
    assert_int_equal(packet.present_bytes, 0);
    assert_true(read(&packet, PACKET_BYTES + 20, PACKET_BYTES + 20)); /* padded */
    assert_int_equal(packet.data_bytes, DATA_BYTES);
    for (size_t at = RAWE_ETH_HEADER_BYTES; at < TCP; at++) {
        for (unsigned change = 1; change < 256; change++) {
            wire.bytes[at] ^= (uint8_t)change;
            assert_false(read(&packet, PACKET_BYTES, PACKET_BYTES));
            wire.bytes[at] ^= (uint8_t)change;
        }
    }
}
