/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of how rawe_packet receives batches. The test provides the ring and queue, and fills them
 * with packets as the kernel does.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/rawe_sum16.h"
#include "linux/packet/rawe_packet.h"
#include "unit_test.h"

#define SLOTS 4u
#define SLOT_BYTES 2048u
/** Offset of the Ethernet header in a slot. */
#define FRAME_AT 96u
/** Packet bytes that fit in a slot. */
#define SLOT_DATA_BYTES 1510u
#define HEAD_BYTES RAWE_ENVELOPE_HEAD_BYTES
#define DATA_BYTES_MAX 40000u

static struct rawe_packet bulk, middle;
static int far_fd;
static unsigned filled; /**< slots filled since the last reception */
static uint8_t memory[DATA_BYTES_MAX];
static bool use_memory; /**< place() returns `memory` */
static unsigned places;

/** Packets passed to packet(). */
static struct {
    uint8_t tag; /**< first byte of its batch header */
    const uint8_t *data;
    size_t data_bytes;
    bool right; /**< its data is intact */
} packets[SLOTS];
static unsigned packet_count;

static void set_up(void)
{
    int fds[2];
    memset(&bulk, 0, sizeof(bulk));
    assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM, 0, fds), 0);
    bulk.port.fd = fds[0];
    far_fd = fds[1];
    uint8_t *slots = calloc(SLOTS, SLOT_BYTES);
    assert_non_null(slots);
    bulk.ring = (struct rawe_ring){
        .next = (struct tpacket2_hdr *)(void *)slots,
        .left_in_block = SLOTS,
        .geometry = {SLOT_BYTES, SLOTS * SLOT_BYTES, SLOTS, 1},
        .memory = slots,
        .memory_bytes = (size_t)SLOTS * SLOT_BYTES,
    };
    bulk.config.use = RAWE_PORT_BULK;
    bulk.port.kind = &rawe_packet_port;
    rawe_txqueue_init(&bulk.txqueue);
    bulk.port.mask = TP_STATUS_USER;
    bulk.port.word = &bulk.ring.next->tp_status;
    filled = 0;
    use_memory = false;
    places = 0;
}

/** Attach a middle port, with a ring of its own, to the bulk port. */
static void set_up_middle(void)
{
    uint8_t *slots = calloc(SLOTS, SLOT_BYTES);
    assert_non_null(slots);
    middle = bulk;
    middle.scratch = NULL;
    middle.config.use = RAWE_PORT_MIDDLE;
    middle.ring.next = (struct tpacket2_hdr *)(void *)slots;
    middle.ring.memory = slots;
    middle.port.word = &middle.ring.next->tp_status;
    bulk.port.beside = &middle.port;
}

static void tear_down(void)
{
    close(bulk.port.fd);
    close(far_fd);
    if (bulk.port.beside != NULL) {
        free(middle.ring.memory);
    }
    free(bulk.ring.memory);
    free(bulk.scratch);
}

static uint8_t byte_at(uint8_t tag, size_t at)
{
    return (uint8_t)(tag + at + at / 251);
}

static uint8_t *place(void *context, const uint8_t *source_mac, const uint8_t *head,
                      size_t head_bytes, size_t data_bytes)
{
    assert_ptr_equal(context, &bulk);
    assert_int_equal(source_mac[5], 9);
    assert_int_equal(head_bytes, RAWE_BATCH_HEADER_BYTES);
    assert_true(data_bytes <= sizeof(memory));
    places++;
    return use_memory ? memory : NULL;
}

static void packet(void *context, const uint8_t *source_mac, const uint8_t *head, size_t head_bytes,
                   const uint8_t *data, size_t data_bytes)
{
    assert_ptr_equal(context, &bulk);
    assert_int_equal(source_mac[5], 9);
    assert_int_equal(head_bytes, RAWE_BATCH_HEADER_BYTES);
    packets[packet_count].tag = head[0];
    packets[packet_count].data = data;
    packets[packet_count].data_bytes = data_bytes;
    packets[packet_count].right = true;
    for (size_t i = 0; i < data_bytes; i++) {
        packets[packet_count].right &= data[i] == byte_at(head[0], i);
    }
    packet_count++;
}

static void receive_inside(void *context, const uint8_t *source_mac, const uint8_t *head,
                           size_t head_bytes, const uint8_t *data, size_t data_bytes);

static const struct rawe_port_receiver receiver = {.place = place, .packet = packet};
static const struct rawe_port_receiver nested = {.place = place, .packet = receive_inside};

/** Receive the next packet from inside the callback, before recording this one. */
static void receive_inside(void *context, const uint8_t *source_mac, const uint8_t *head,
                           size_t head_bytes, const uint8_t *data, size_t data_bytes)
{
    (void)rawe_port_receive(&bulk.port, 1, &nested, &bulk);
    packet(context, source_mac, head, head_bytes, data, data_bytes);
}

static unsigned receive(unsigned budget)
{
    packet_count = 0;
    filled = 0;
    return rawe_port_receive(&bulk.port, budget, &receiver, &bulk);
}

/** A packet as the kernel leaves it in the ring and the queue. */
struct arrival {
    uint8_t tag;
    size_t data_bytes;
    uint16_t gso_size;
    int ip_lie;        /**< added to the length in the IPv4 header */
    size_t pad_bytes;  /**< padding after the packet, as in short Ethernet frames */
    bool not_queued;   /**< the queue had no room */
    bool other_queued; /**< the queue has another packet instead */
    bool unverified;   /**< neither the NIC nor the kernel has verified the checksum */
    size_t changed_at; /**< index of the byte to change, after the Ethernet header */
    uint8_t change;    /**< bits to flip in that byte after checksumming; 0: none */
};

/** Fill in the checksums of a packet that follows an envelope's virtio_net_hdr. */
static void seal(uint8_t *packet, size_t ip_bytes, size_t data_bytes)
{
    uint8_t *ip = packet + RAWE_ETH_HEADER_BYTES, *tcp = packet + RAWE_FILTER_BULK_OFFSET;
    uint8_t pseudo[RAWE_PSEUDO_BYTES];
    ip[0] = 0x45;
    memset(ip + 12, 255, 4);
    ip[19] = 2;
    rawe_put16(ip + 2, (uint16_t)ip_bytes);
    rawe_put16(ip + 10, (uint16_t)~rawe_sum16_fold(rawe_sum16_add(0, ip, 20)));
    rawe_pseudo_encode(pseudo, ip + 12, (uint16_t)(ip_bytes - 20));
    uint64_t sum = rawe_sum16_add(0, pseudo, sizeof(pseudo));
    sum = rawe_sum16_add(sum, tcp, RAWE_BATCH_HEADER_BYTES + data_bytes);
    rawe_put16(tcp + RAWE_BATCH_OFFSET_CHECKSUM, (uint16_t)~rawe_sum16_fold(sum));
}

/** Put a packet into the ring's next free slot, after the `in_ring` filled ones. */
static struct tpacket2_hdr *arrive_in(const struct rawe_ring *ring, unsigned in_ring,
                                      struct arrival arrival)
{
    static uint8_t bytes[sizeof(struct rawe_envelope) + DATA_BYTES_MAX];
    const size_t vnet_bytes = sizeof(struct virtio_net_hdr);
    struct rawe_envelope envelope = {
        .vnet = {.flags = arrival.unverified      ? 0
                          : arrival.gso_size != 0 ? VIRTIO_NET_HDR_F_NEEDS_CSUM
                                                  : VIRTIO_NET_HDR_F_DATA_VALID,
                 .gso_type = arrival.gso_size != 0 ? VIRTIO_NET_HDR_GSO_TCPV4 : 0,
                 .gso_size = arrival.gso_size},
    };
    const size_t ip_bytes = (size_t)((int)(HEAD_BYTES - RAWE_ETH_HEADER_BYTES) +
                                     (int)arrival.data_bytes + arrival.ip_lie);
    struct tpacket2_hdr *slot =
        (struct tpacket2_hdr *)(void *)((uint8_t *)ring->next + in_ring * (size_t)SLOT_BYTES);
    if ((uint8_t *)slot >= ring->memory + ring->memory_bytes) {
        slot = (struct tpacket2_hdr *)(void *)((uint8_t *)slot - ring->memory_bytes);
    }
    envelope.packet[RAWE_MAC_BYTES + 5] = 9;
    envelope.packet[RAWE_FILTER_BULK_OFFSET] = arrival.tag;
    memcpy(bytes, &envelope, sizeof(envelope));
    for (size_t i = 0; i < arrival.data_bytes; i++) {
        bytes[sizeof(envelope) + i] = byte_at(arrival.tag, i);
    }
    memset(bytes + sizeof(envelope) + arrival.data_bytes, 0, arrival.pad_bytes);
    seal(bytes + vnet_bytes, ip_bytes, arrival.data_bytes);
    bytes[vnet_bytes + RAWE_ETH_HEADER_BYTES + arrival.changed_at] ^= arrival.change;
    const size_t len_bytes = HEAD_BYTES + arrival.data_bytes + arrival.pad_bytes;
    const bool whole = len_bytes <= SLOT_DATA_BYTES;
    slot->tp_mac = FRAME_AT;
    slot->tp_len = (uint32_t)len_bytes;
    slot->tp_snaplen = (uint32_t)(whole ? len_bytes : SLOT_DATA_BYTES);
    memcpy((uint8_t *)slot + FRAME_AT - vnet_bytes, bytes, vnet_bytes + slot->tp_snaplen);
    const bool queued = !whole && !arrival.not_queued;
    if (queued) {
        bytes[vnet_bytes + RAWE_FILTER_BULK_OFFSET + 1] ^= arrival.other_queued;
        assert_int_equal(send(far_fd, bytes, vnet_bytes + len_bytes, 0), vnet_bytes + len_bytes);
    }
    slot->tp_status = TP_STATUS_USER | (queued ? TP_STATUS_COPY : 0);
    return slot;
}

static void arrive(struct arrival arrival)
{
    arrive_in(&bulk.ring, filled++, arrival);
}

/** Assert that exactly one packet was received, with its data intact. */
static void assert_handed_up(uint8_t tag, size_t data_bytes)
{
    assert_int_equal(packet_count, 1);
    assert_int_equal(packets[0].tag, tag);
    assert_int_equal(packets[0].data_bytes, data_bytes);
    assert_true(packets[0].right);
}

/** Assert that the next packet is received: ring and queue are still in step. */
static void assert_goes_on(void)
{
    arrive((struct arrival){.tag = 77, .data_bytes = 9000, .gso_size = 1000});
    assert_int_equal(receive(8), 9);
    assert_handed_up(77, 9000);
    assert_false(rawe_port_pending(&bulk.port));
}

FIXTURE(set_up, tear_down);

TEST(rawe_packet_receive__nothing_waits)
{
    assert_false(rawe_port_pending(&bulk.port));
    assert_int_equal(receive(8), 0);
    assert_int_equal(packet_count, 0);
}

TEST(rawe_packet_receive__all_of_a_packet_and_nothing_else)
{
    static const struct {
        struct arrival arrival;
        unsigned frames, places;
        bool in_place;
    } cases[] = {
        {{.tag = 1, .data_bytes = 1000}, 1, 0, false}, /* fits the slot */
        {{.tag = 2, .data_bytes = 3, .pad_bytes = 20}, 1, 0, false},
        {{.tag = 3, .data_bytes = 3000, .pad_bytes = 4}, 1, 1, false},
        {{.tag = 4, .data_bytes = 2801, .gso_size = 1400}, 3, 1, false},
        {{.tag = 5, .data_bytes = DATA_BYTES_MAX, .gso_size = 1400}, 29, 1, true},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        use_memory = cases[i].in_place;
        places = 0;
        arrive(cases[i].arrival);
        assert_true(rawe_port_pending(&bulk.port));
        assert_int_equal(receive(8), cases[i].frames);
        assert_handed_up(cases[i].arrival.tag, cases[i].arrival.data_bytes);
        assert_int_equal(packets[0].data == memory, cases[i].in_place);
        assert_int_equal(places, cases[i].places);
        assert_goes_on();
    }
}

TEST(rawe_packet_receive__a_budget_of_packets)
{
    for (uint8_t i = 0; i < SLOTS; i++) {
        arrive((struct arrival){.tag = i, .data_bytes = i % 2 == 0 ? 100 : 3000});
    }
    assert_int_equal(receive(3), 3);
    assert_int_equal(packet_count, 3);
    assert_true(packets[0].right && packets[1].right && packets[2].right);
    assert_true(rawe_port_pending(&bulk.port));
    assert_int_equal(receive(3), 1);
    assert_handed_up(3, 3000);
    assert_goes_on();
}

/** osc/pt2pt waits, and so receives, inside a callback. */
TEST(rawe_packet_receive__from_inside_a_callback)
{
    for (uint8_t i = 0; i < SLOTS; i++) {
        arrive((struct arrival){.tag = i, .data_bytes = i == 1 ? 100 : 3000 + i});
    }
    packet_count = 0;
    assert_int_equal(rawe_port_receive(&bulk.port, 1, &nested, &bulk), 1);
    assert_int_equal(packet_count, SLOTS);
    for (unsigned i = 0; i < SLOTS; i++) {
        assert_int_equal(packets[i].tag, SLOTS - 1 - i);
        assert_true(packets[i].right);
    }
    assert_goes_on();
}

TEST(rawe_packet_receive__shorter_than_its_headers)
{
    arrive((struct arrival){.tag = 1, .data_bytes = 0});
    ((struct tpacket2_hdr *)(void *)bulk.ring.memory)->tp_snaplen = HEAD_BYTES - 1;
    ((struct tpacket2_hdr *)(void *)bulk.ring.memory)->tp_len = HEAD_BYTES - 1;
    assert_int_equal(receive(8), 0);
    assert_int_equal(packet_count, 0);
    assert_goes_on();
}

/** A packet that contradicts itself or the queue is dropped, and removed from the queue. */
TEST(rawe_packet_receive__not_what_contradicts_itself_or_the_queue)
{
    static const struct {
        struct arrival arrival;
        unsigned drops;
    } cases[] = {
        /* The length in the header is too long or too short. */
        {{.tag = 1, .data_bytes = 1000, .ip_lie = 1}, 0},
        {{.tag = 2, .data_bytes = 20, .ip_lie = -21}, 0},
        {{.tag = 3, .data_bytes = 3000, .gso_size = 1000, .ip_lie = 1}, 0},
        {{.tag = 4, .data_bytes = 3000, .gso_size = 1000, .ip_lie = -3001}, 0},
        /* The queue has another packet, or had no room for this one. */
        {{.tag = 5, .data_bytes = 3000, .gso_size = 1000, .other_queued = true}, 1},
        {{.tag = 6, .data_bytes = 3000, .gso_size = 1000, .not_queued = true}, 1},
    };
    unsigned drops = 0;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rawe_port_counters counters;
        places = 0;
        arrive(cases[i].arrival);
        assert_int_equal(receive(8), 0);
        assert_int_equal(packet_count, 0);
        assert_true(places == 0 || !cases[i].arrival.not_queued);
        rawe_port_read_counters(&bulk.port, &counters);
        drops += cases[i].drops;
        assert_int_equal(counters.ring_drops, drops);
        assert_goes_on();
    }
}

/** Lengths that fit in a slot, and lengths that also need the queue. */
static const size_t sizes[] = {1, 100, 1001, 3000, 20000};

TEST(rawe_packet_receive__verifies_what_neither_nic_nor_kernel_has)
{
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        use_memory = true;
        places = 0;
        arrive((struct arrival){.tag = 9, .data_bytes = sizes[i], .unverified = true});
        assert_int_equal(receive(8), 1);
        assert_handed_up(9, sizes[i]);
        assert_int_equal(places, 0); /* the packet is verified before it is placed */
    }
}

/** A packet with flipped bits in its headers, data or checksum is dropped and not copied. */
TEST(rawe_packet_receive__drops_what_was_changed)
{
    uint64_t damaged = 0;
    struct rawe_port_counters counters;
    use_memory = true;
    memset(memory, 0xAA, sizeof(memory));
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        const size_t end = HEAD_BYTES - RAWE_ETH_HEADER_BYTES + sizes[i];
        for (size_t at = 0; at < end; at += at < 90 ? 1 : 61) {
            arrive((struct arrival){.tag = 9,
                                    .data_bytes = sizes[i],
                                    .gso_size = i % 2 == 0 ? 0 : 1000,
                                    .unverified = true,
                                    .changed_at = at,
                                    .change = (uint8_t)(1 + at * 7 % 255)});
            assert_int_equal(receive(8), 0);
            assert_int_equal(packet_count, 0);
            rawe_port_read_counters(&bulk.port, &counters);
            assert_int_equal(counters.damaged, ++damaged);
        }
        assert_goes_on();
        memset(memory, 0xAA, sizeof(memory));
    }
    assert_int_equal(memory[0], 0xAA);
    assert_int_equal(counters.ring_drops, 0);
}

/** Verified packets are not checked again: after GRO the checksum may be for another length. */
TEST(rawe_packet_receive__trusts_nic_and_kernel)
{
    arrive((struct arrival){.tag = 9,
                            .data_bytes = 3000,
                            .gso_size = 1000,
                            .changed_at = 20 + 16,
                            .change = 1}); /* flips a checksum bit */
    assert_int_equal(receive(8), 3);
    assert_handed_up(9, 3000);
    arrive((struct arrival){.tag = 9, .data_bytes = 900, .changed_at = 20 + 16, .change = 1});
    assert_int_equal(receive(8), 1);
    assert_handed_up(9, 900);
    /* The IPv4 header is still checked, because the kernel checks each one. */
    arrive((struct arrival){.tag = 9, .data_bytes = 900, .changed_at = 3, .change = 8});
    assert_int_equal(receive(8), 0);
}

/** Packets from two rings are received in order of arrival: by tp_sec, then tp_nsec. */
TEST(rawe_packet_receive__two_rings_in_order)
{
    static const struct {
        bool in_middle;
        uint32_t sec, nsec;
    } came[] = {{true, 7, 999}, {false, 8, 5}, {false, 8, 6}, {true, 9, 1}};
    unsigned in_ring[2] = {0, 0};

    set_up_middle();
    for (uint8_t i = 0; i < SLOTS; i++) {
        const struct rawe_ring *ring = came[i].in_middle ? &middle.ring : &bulk.ring;
        struct tpacket2_hdr *slot = arrive_in(ring, in_ring[came[i].in_middle]++,
                                              (struct arrival){.tag = i, .data_bytes = 100});
        slot->tp_sec = came[i].sec;
        slot->tp_nsec = came[i].nsec;
    }
    assert_int_equal(receive(8), 4);
    for (uint8_t i = 0; i < SLOTS; i++) {
        assert_int_equal(packets[i].tag, i);
        assert_true(packets[i].right);
    }
    assert_false(rawe_port_pending(&bulk.port));
}

TEST(rawe_packet_receive__something_beside)
{
    struct rawe_port_counters counters;

    set_up_middle();
    assert_int_equal(receive(8), 0);
    arrive_in(&middle.ring, 0, (struct arrival){.tag = 1, .data_bytes = 1000, .gso_size = 500});
    assert_true(rawe_port_pending(&bulk.port));
    assert_int_equal(receive(8), 2);
    assert_handed_up(1, 1000);
    rawe_port_read_counters(&bulk.port, &counters);
    assert_int_equal(counters.frames_received, 2);
    assert_goes_on();
}

/** The middle port's filter accepts no packet this long: the bulk port's queue would lack it. */
TEST(rawe_packet_receive__too_long_beside)
{
    struct rawe_port_counters counters;

    set_up_middle();
    arrive_in(&middle.ring, 0, (struct arrival){.tag = 1, .data_bytes = 3000, .not_queued = true});
    assert_int_equal(receive(8), 0);
    assert_int_equal(packet_count, 0);
    rawe_port_read_counters(&bulk.port, &counters);
    assert_int_equal(counters.ring_drops, 1);
    assert_goes_on();
}
