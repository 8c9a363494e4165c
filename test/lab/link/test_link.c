/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of rawe_packet over a veth pair and over lo, in their own network namespace.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/if_packet.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "link_fixture.h"

#include "../../../opal/mca/btl/rawe/linux/packet/rawe_ring.h"

/** The last received frame, and the number of frames received. */
struct inbox {
    struct rawe_port *link;
    unsigned frames;
    size_t len_bytes;
    uint8_t bytes[RAWE_ETH_HEADER_BYTES + 65536];
    uintptr_t header_address;
};

static struct inbox inbox;

static void keep(void *context, uint8_t *frame, size_t len_bytes)
{
    struct inbox *box = context;

    box->frames++;
    box->len_bytes = len_bytes;
    assert_true(len_bytes <= sizeof box->bytes);
    memcpy(box->bytes, frame, len_bytes);
    box->header_address = (uintptr_t)frame + RAWE_ETH_HEADER_BYTES;
}

/** Make a frame of `len_bytes` from `from` to `to` with a payload generated from `seed`. */
static void make_frame(uint8_t *frame, size_t len_bytes, const struct fixture_end *from,
                       const struct fixture_end *to, unsigned seed)
{
    const struct rawe_header header = {
        .type = RAWE_FRAME_DATA,
        .port = to->port,
        .key = to->key,
        .sequence = seed,
        .payload_bytes = (uint16_t)(len_bytes - RAWE_PAYLOAD_OFFSET),
    };

    fixture_write_head(frame, from, to, &header);
    for (size_t i = RAWE_PAYLOAD_OFFSET; i < len_bytes; i++) {
        frame[i] = (uint8_t)(seed * 31 + i * 7 + (i >> 8));
    }
}

/** Send `len_bytes` at `frame` as `pieces` pieces of about equal length. */
static unsigned transmit(struct rawe_port *link, uint8_t *frame, size_t len_bytes, unsigned pieces)
{
    struct rawe_frame out = {.piece_count = pieces, .len_bytes = (uint32_t)len_bytes};
    size_t done = 0;

    for (unsigned i = 0; i < pieces; i++) {
        const size_t end = len_bytes * (i + 1) / pieces;
        out.pieces[i] = (struct rawe_bytes){frame + done, end - done};
        done = end;
    }
    return link->kind->transmit(link, &out, 1);
}

/** Wait up to ten seconds for a frame: the kernel may deliver it from another thread. */
static void await_pending(struct rawe_port *link)
{
    AWAIT(rawe_port_pending(link));
    assert_true(rawe_port_pending(link));
}

/** Receive `count` frames, and assert that no more arrive. */
static void receive_exactly(struct rawe_port *link, unsigned count)
{
    for (unsigned received = 0; received < count;) {
        await_pending(link);
        received += rawe_port_receive(link, count - received,
                                      &(const struct rawe_port_receiver){.frame = keep}, &inbox);
    }
    assert_false(rawe_port_pending(link));
}

/* A port on each end; the ring of b holds a few hundred frames. */
static struct rawe_port *a, *b;

static void open_ports(void)
{
    a = fixture_open(&net, &net.a, 1 << 20);
    b = fixture_open(&net, &net.b, 1 << 18);
}

static void close_ports(void)
{
    rawe_port_close(a);
    rawe_port_close(b);
}

static const struct unit_fixture with_ports = {open_ports, close_ports};

static void check_sizes(const struct fixture_end *from, const struct fixture_end *to,
                        uint32_t mtu_bytes)
{
    struct rawe_port *sender = fixture_open(&net, from, 1 << 18);
    struct rawe_port *receiver = fixture_open(&net, to, 1 << 18);
    const size_t most = RAWE_ETH_HEADER_BYTES + mtu_bytes;
    uint8_t *frame = malloc(most);
    unsigned sent = 0;

    assert_non_null(frame);
    /* Every size near both limits, and a prime stride in between; enough to wrap the ring. */
    for (size_t len = RAWE_PAYLOAD_OFFSET; len <= most;
         len += len < 200 || len + 200 > most ? 1 : 61) {
        const unsigned pieces = 1 + sent % RAWE_FRAME_PIECES_MAX;
        make_frame(frame, len, from, to, sent);
        assert_false(rawe_port_pending(receiver));
        assert_int_equal(transmit(sender, frame, len, pieces), 1);
        inbox.frames = 0;
        receive_exactly(receiver, 1);
        assert_int_equal(inbox.frames, 1);
        assert_int_equal(inbox.len_bytes, len);
        assert_memory_equal(inbox.bytes, frame, len);
        assert_int_equal(inbox.header_address % 16, 0);
        sent++;
    }
    assert_true(sent > receiver->receive_frames);

    struct rawe_port_counters counters;
    rawe_port_read_counters(sender, &counters);
    assert_int_equal(counters.frames_sent, sent);
    assert_int_equal(counters.send_errors, 0);
    assert_int_equal(counters.frames_received, 0);
    rawe_port_read_counters(receiver, &counters);
    assert_int_equal(counters.frames_received, sent);
    assert_int_equal(counters.ring_drops, 0);
    free(frame);
    rawe_port_close(sender);
    rawe_port_close(receiver);
}

TEST(ring_divide__slots_fit_and_waste_little)
{
    static const uint32_t mtus[] = {68,    576,   1500,  4000,  9000,  9216,
                                    16000, 32000, 60000, 65000, 65535, 65536};

    for (size_t i = 0; i < sizeof mtus / sizeof mtus[0]; i++) {
        const struct rawe_ring_geometry g = rawe_ring_divide(mtus[i], 8 << 20);
        assert_true(g.slot_bytes >= sizeof(struct tpacket2_hdr) + sizeof(struct sockaddr_ll) +
                                        RAWE_ETH_HEADER_BYTES + mtus[i]);
        assert_true(g.slot_bytes < mtus[i] + 192);
        assert_int_equal(g.slot_bytes % TPACKET_ALIGNMENT, 0);
        assert_int_equal(g.block_bytes % 65536, 0);
        assert_true(g.slots_per_block >= 1);
        assert_true(g.slots_per_block * g.slot_bytes <= g.block_bytes);
        assert_true((uint64_t)g.slots_per_block * g.slot_bytes * 10 >= g.block_bytes * 9ull);
        assert_int_equal(g.block_count, (8 << 20) / g.block_bytes);
    }
    assert_int_equal(rawe_ring_divide(65536, 1).block_count, 1);
}

TEST(link_open__unknown_interface_is_an_error)
{
    struct rawe_port_config config = fixture_config(&net, &net.a);
    struct rawe_port_error error = {0};
    struct rawe_port *link = (struct rawe_port *)&config;

    config.interface_index = 4711;
    assert_int_equal(rawe_port_open(&link, &config, &error), -1);
    assert_int_equal(error.code, ENODEV);
    assert_non_null(error.step);
    assert_null(link);
}

/** Return the SO_PRIORITY of a link's socket. */
static int priority_of(const struct rawe_port *link)
{
    int priority = -1;
    socklen_t len_bytes = sizeof priority;

    assert_int_equal(getsockopt(link->fd, SOL_SOCKET, SO_PRIORITY, &priority, &len_bytes), 0);
    return priority;
}

TEST(link_open__sets_the_priority)
{
    struct rawe_port_config config = fixture_config(&net, &net.a);
    struct rawe_port_error error = {0};
    struct rawe_port *link;

    for (uint8_t priority = 0; priority <= 6; priority++) {
        config.priority = priority;
        assert_int_equal(rawe_port_open(&link, &config, &error), 0);
        assert_int_equal(priority_of(link), priority);
        assert_int_equal(rawe_port_reopen(link, net.b.index, &error), 0);
        assert_int_equal(priority_of(link), priority);
        rawe_port_close(link);
    }
}

TEST(link_transmit__every_size_arrives_unchanged)
{
    static const uint32_t mtus[] = {1500, 9000, 65000};

    for (size_t i = 0; i < sizeof mtus / sizeof mtus[0]; i++) {
        fixture_renew(&net, mtus[i]);
        check_sizes(&net.a, &net.b, mtus[i]);
        check_sizes(&net.b, &net.a, mtus[i]);
    }
    fixture_renew(&net, 1500);
}

TEST(link_transmit__every_size_arrives_over_loopback)
{
    struct fixture veth = net;

    fixture_use_loopback(&net);
    check_sizes(&net.a, &net.b, 65536);
    net = veth;
}

TEST_WITH(with_ports, link_transmit__too_long_counts_as_lost)
{
    static uint8_t frame[RAWE_ETH_HEADER_BYTES + 1501];
    struct rawe_port_counters counters;

    make_frame(frame, sizeof frame, &net.a, &net.b, 1);
    assert_int_equal(transmit(a, frame, sizeof frame, 2), 1);
    rawe_port_read_counters(a, &counters);
    assert_int_equal(counters.frames_sent, 0);
    assert_int_equal(counters.send_errors, 1);
}

TEST_WITH(with_ports, link_transmit__down_interface_loses_and_recovers)
{
    uint8_t frame[100];
    struct rawe_port_counters counters;

    make_frame(frame, sizeof frame, &net.a, &net.b, 1);
    fixture_run("ip link set ra0 down && ip link set rb0 down");
    assert_int_equal(transmit(a, frame, sizeof frame, 1), 1);
    rawe_port_read_counters(a, &counters);
    assert_int_equal(counters.send_errors, 1);

    fixture_run("ip link set ra0 up && ip link set rb0 up");
    /* On the first use of a socket, the kernel may report the past outage once more. */
    inbox.frames = 0;
    for (unsigned i = 0; i < 1000 && inbox.frames == 0; i++) {
        assert_int_equal(transmit(a, frame, sizeof frame, 1), 1);
        rawe_port_receive(b, 100, &(const struct rawe_port_receiver){.frame = keep}, &inbox);
        usleep(1000);
    }
    assert_int_not_equal(inbox.frames, 0);
}

/** The caller keeps a refused frame, however often the kernel refuses it. */
TEST_WITH(with_ports, link_transmit__full_is_never_lost)
{
    uint8_t frame[100];
    struct rawe_port_counters counters;

    make_frame(frame, sizeof frame, &net.a, &net.b, 1);
    /* If the egress hook drops a frame, the kernel returns ENOBUFS to the sender. */
    fixture_run("nft add table netdev t && nft 'add chain netdev t c { type filter hook egress "
                "device ra0 priority 0; policy drop; }'");
    assert_int_equal(transmit(a, frame, sizeof frame, 1), 0);
    rawe_port_read_counters(a, &counters);
    assert_int_equal(counters.send_full, 1);
    assert_int_equal(counters.send_errors, 0);
    for (unsigned tries = 1; tries < 200000; tries++) {
        assert_int_equal(transmit(a, frame, sizeof frame, 1), 0);
    }
    rawe_port_read_counters(a, &counters);
    assert_int_equal(counters.frames_sent, 0);
    assert_int_equal(counters.send_full, 200000);
    assert_int_equal(counters.send_errors, 0);

    fixture_run("nft delete table netdev t");
    assert_int_equal(transmit(a, frame, sizeof frame, 1), 1);
    receive_exactly(b, 1);
}

/** Transmit a batch of ten frames that no socket receives. */
static bool transmit_batch(struct rawe_port *bulk)
{
    enum { SEGMENT_BYTES = 1400, DATA_BYTES = 10 * SEGMENT_BYTES };
    static uint8_t head[RAWE_ETH_HEADER_BYTES + RAWE_BATCH_HEADER_BYTES], data[DATA_BYTES];
    const struct rawe_frame packet = {.pieces = {{head, sizeof head}, {data, sizeof data}},
                                      .piece_count = 2,
                                      .len_bytes = sizeof head + sizeof data};

    memcpy(head, net.b.mac, 6);
    memcpy(head + 6, net.a.mac, 6);
    return bulk->kind->transmit_batch(bulk, &packet, SEGMENT_BYTES);
}

/** The qdisc can hold 64 MB. The port fills only part of it, and is writable once that is sent. */
TEST(bulk_transmit__keeps_the_qdisc_short)
{
    struct rawe_port_config config = fixture_config(&net, &net.a);
    struct rawe_port_error error = {0};
    struct rawe_port_counters counters;
    struct rawe_port *bulk;
    unsigned taken = 0;

    config.use = RAWE_PORT_BULK;
    fixture_run("tc qdisc replace dev ra0 root tbf rate 10mbit burst 20kb limit 64mb");
    assert_int_equal(rawe_port_open(&bulk, &config, &error), 0);
    assert_int_equal(bulk->batch_bytes, RAWE_BATCH_BYTES_MAX);
    while (taken < 1000 && transmit_batch(bulk)) {
        taken++;
    }
    assert_in_range(taken, 2, 2 * RAWE_BATCH_BYTES_MAX / 14000 + 2);
    /* At 1250 bytes per ms, half a second is long enough to measure the qdisc's rate. */
    for (unsigned i = 0; i < 40; i++) {
        assert_int_equal(poll(&(struct pollfd){.fd = bulk->fd, .events = POLLOUT}, 1, 10000), 1);
        while (transmit_batch(bulk)) {
        }
    }
    assert_in_range(bulk->batch_bytes, 1, RAWE_BATCH_BYTES_MAX - 1);
    rawe_port_read_counters(bulk, &counters);
    assert_int_not_equal(counters.send_full, 0);
    assert_int_equal(counters.send_errors, 0);
    rawe_port_close(bulk);
    fixture_run("tc qdisc del dev ra0 root");
}

/** The offsets of a batch's packets that have arrived. */
struct offsets {
    unsigned count;
    uint32_t at_bytes[4];
};

static void note_offset(void *context, const uint8_t *source_mac, const uint8_t *head,
                        size_t head_bytes, const uint8_t *data, size_t data_bytes)
{
    struct offsets *offsets = context;
    struct rawe_batch batch;

    assert_int_equal(rawe_batch_decode(&batch, head, head_bytes, data_bytes), RAWE_DECODE_OK);
    assert_in_range(offsets->count, 0, 3);
    offsets->at_bytes[offsets->count++] = batch.at_bytes;
}

static uint8_t *place_nowhere(void *context, const uint8_t *source_mac, const uint8_t *head,
                              size_t head_bytes, size_t data_bytes)
{
    return NULL;
}

/** Send a batch. GRO merges all of its frames except the last. */
static void send_data(struct rawe_port *from, uint32_t data_bytes, uint16_t segment_bytes)
{
    static uint8_t head[RAWE_ETH_HEADER_BYTES + RAWE_BATCH_HEADER_BYTES], data[32768] = {0};
    const struct rawe_batch batch = {
        .header = {.type = RAWE_FRAME_BULK, .port = net.b.port, .key = net.b.key},
        .fragment = {.kind = RAWE_FRAGMENT_PART, .total_bytes = data_bytes},
        .segment_bytes = segment_bytes,
        .frames = (uint8_t)((data_bytes + segment_bytes - 1) / segment_bytes)};
    const struct rawe_frame packet = {.pieces = {{head, sizeof head}, {data, data_bytes}},
                                      .piece_count = 2,
                                      .len_bytes = (uint32_t)sizeof head + data_bytes};

    memcpy(head, net.b.mac, 6);
    memcpy(head + 6, net.a.mac, 6);
    rawe_batch_encode(head + RAWE_ETH_HEADER_BYTES, &batch);
    assert_true(from->kind->transmit_batch(from, &packet, segment_bytes));
}

/** One of a batch's two packets is for the bulk port's ring, the other for the middle port's. */
TEST(bulk_receive__begins_with_the_first_packet_of_a_batch)
{
    static const struct {
        uint32_t mtu_bytes, data_bytes, first_bytes;
        uint16_t segment_bytes;
    } cases[] = {{1500, 4096, 2 * 1416, 1416}, {9000, 32768, 3 * 8912, 8912}};
    static const struct rawe_port_receiver receiver = {.place = place_nowhere,
                                                       .packet = note_offset};

    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rawe_port_error error;
        struct rawe_port *from, *to;
        fixture_renew(&net, cases[i].mtu_bytes);
        fixture_run("ethtool -K ra0 tso off && ethtool -K rb0 gro on");
        struct rawe_port_config config = fixture_config(&net, &net.a);
        config.use = RAWE_PORT_BULK;
        assert_int_equal(rawe_port_open(&from, &config, &error), 0);
        config = fixture_config(&net, &net.b);
        config.use = RAWE_PORT_BULK;
        assert_int_equal(rawe_port_open(&to, &config, &error), 0);
        for (unsigned reopened = 0; reopened <= 1; reopened++) {
            struct offsets offsets = {0};
            send_data(from, cases[i].data_bytes, cases[i].segment_bytes);
            AWAIT((rawe_port_receive(to, 10, &receiver, &offsets), offsets.count == 2));
            assert_int_equal(offsets.count, 2);
            assert_int_equal(offsets.at_bytes[0], 0);
            assert_int_equal(offsets.at_bytes[1], cases[i].first_bytes);
            assert_int_equal(rawe_port_reopen(to, net.b.index, &error), 0);
        }
        rawe_port_close(from);
        rawe_port_close(to);
    }
    fixture_renew(&net, 1500);
}

static bool refuses_bulk; /**< the kernel refuses an option that only bulk ports set */

int setsockopt(int fd, int level, int option, const void *value, socklen_t len_bytes)
{
    if (refuses_bulk && level == SOL_PACKET && option == PACKET_COPY_THRESH) {
        errno = ENOMEM;
        return -1;
    }
    return (int)syscall(SYS_setsockopt, fd, level, option, value, len_bytes);
}

/** If the bulk port cannot be reopened, it and its middle port receive as before. */
TEST(bulk_reopen__that_fails_loses_no_packets)
{
    static const struct rawe_port_receiver receiver = {.place = place_nowhere,
                                                       .packet = note_offset};
    struct rawe_port_config config = fixture_config(&net, &net.a);
    struct rawe_port_error error;
    struct offsets offsets = {0};
    struct rawe_port *from, *to;

    config.use = RAWE_PORT_BULK;
    assert_int_equal(rawe_port_open(&from, &config, &error), 0);
    config = fixture_config(&net, &net.b);
    config.use = RAWE_PORT_BULK;
    assert_int_equal(rawe_port_open(&to, &config, &error), 0);
    refuses_bulk = true;
    assert_int_equal(rawe_port_reopen(to, net.b.index, &error), -1);
    refuses_bulk = false;
    assert_int_equal(error.code, ENOMEM);
    send_data(from, 4096, 1416); /* of middle length */
    AWAIT((rawe_port_receive(to, 10, &receiver, &offsets), offsets.count == 1));
    assert_int_equal(offsets.count, 1);
    rawe_port_close(from);
    rawe_port_close(to);
}

/** Send many frames that must be rejected, then one that must pass: only the last is received. */
TEST_WITH(with_ports, link_receive__only_own_frames_reach_user_space)
{
    uint8_t good[100], bad[100];
    uint8_t *const header = bad + RAWE_ETH_HEADER_BYTES;

    make_frame(good, sizeof good, &net.a, &net.b, 7);
#define SEND_BAD(change)                                      \
    do {                                                      \
        memcpy(bad, good, sizeof bad);                        \
        change;                                               \
        assert_int_equal(transmit(a, bad, sizeof bad, 1), 1); \
    } while (0)
    for (unsigned bit = 0; bit < 16; bit++) {
        SEND_BAD(header[RAWE_OFFSET_PORT + bit / 8] ^= (uint8_t)(1u << bit % 8));
    }
    for (unsigned bit = 0; bit < 32; bit++) {
        SEND_BAD(header[RAWE_OFFSET_KEY + bit / 8] ^= (uint8_t)(1u << bit % 8));
    }
    for (unsigned version = 0; version < 16; version++) {
        if (version != RAWE_FRAME_VERSION) {
            SEND_BAD(header[0] = (uint8_t)(version << 4 | RAWE_FRAME_DATA));
        }
    }
    SEND_BAD(header[0] = RAWE_FRAME_VERSION << 4 | RAWE_FRAME_PING);
    SEND_BAD(header[0] = RAWE_FRAME_VERSION << 4 | RAWE_FRAME_PONG);
    SEND_BAD(bad[13] = 0xB6);       /* another EtherType */
    SEND_BAD(bad[5] ^= 1);          /* another host's address */
    SEND_BAD(memset(bad, 0xFF, 6)); /* broadcast */
    for (size_t len = RAWE_ETH_HEADER_BYTES; len < RAWE_ETH_HEADER_BYTES + RAWE_OFFSET_KEY + 4;
         len++) {
        assert_int_equal(transmit(a, good, len, 1), 1);
    }
#undef SEND_BAD
    assert_int_equal(transmit(a, good, sizeof good, 1), 1);
    receive_exactly(b, 1);
    assert_memory_equal(inbox.bytes, good, sizeof good);

    /* Only frame types of connections pass; this socket receives no multicast group frames. */
    for (unsigned type = 0; type < 16; type++) {
        good[RAWE_ETH_HEADER_BYTES] = (uint8_t)(RAWE_FRAME_VERSION << 4 | type);
        assert_int_equal(transmit(a, good, sizeof good, 1), 1);
    }
    receive_exactly(b, RAWE_FRAME_TYPE_END - RAWE_FRAME_DATA - 2);
    /* The sender has received none of its own frames. */
    assert_false(rawe_port_pending(a));
}

/** Send a frame from a to b with a VLAN tag of this priority and VLAN number. */
static void transmit_tagged(const uint8_t plain[200], uint16_t control)
{
    const uint8_t tag[4] = {0x81, 0x00, (uint8_t)(control >> 8), (uint8_t)control};
    uint8_t tagged[200 + sizeof tag];

    memcpy(tagged, plain, 12);
    memcpy(tagged + 12, tag, sizeof tag);
    memcpy(tagged + 12 + sizeof tag, plain + 12, 200 - 12);
    assert_int_equal(transmit(a, tagged, sizeof tagged, 1), 1);
}

/**
 * The kernel strips a priority tag (VLAN 0); the frame must not be shifted. Frames of a VLAN that
 * this host does not belong to must not be received, even if sent to its address.
 */
TEST_WITH(with_ports, link_receive__of_tagged_frames_those_with_a_priority)
{
    uint8_t plain[200];

    make_frame(plain, sizeof plain, &net.a, &net.b, 2);
    transmit_tagged(plain, 5);
    transmit_tagged(plain, 0xA005);
    make_frame(plain, sizeof plain, &net.a, &net.b, 3);
    transmit_tagged(plain, 0xA000);
    receive_exactly(b, 1);
    assert_int_equal(inbox.len_bytes, sizeof plain);
    assert_memory_equal(inbox.bytes, plain, sizeof plain);
    assert_int_equal(inbox.header_address % 16, 0);
}

/** Wait, up to ten seconds, until the ring has dropped `drops` frames. */
static void await_drops(struct rawe_port *link, uint64_t drops)
{
    struct rawe_port_counters counters = {0};

    AWAIT((rawe_port_read_counters(link, &counters), counters.ring_drops >= drops));
    assert_int_equal(counters.ring_drops, drops);
}

TEST_WITH(with_ports, link_receive__full_ring_drops_and_counts)
{
    const unsigned slots = b->receive_frames;
    struct rawe_port_counters counters;
    uint8_t frame[100];

    for (unsigned round = 1; round <= 2; round++) {
        for (unsigned i = 0; i < slots + 10; i++) {
            make_frame(frame, sizeof frame, &net.a, &net.b, i);
            assert_int_equal(transmit(a, frame, sizeof frame, 1), 1);
        }
        await_drops(b, round * 10);
        /* The budget is respected, and the ring has kept the oldest frames in order. */
        assert_int_equal(
            rawe_port_receive(b, 5, &(const struct rawe_port_receiver){.frame = keep}, &inbox), 5);
        make_frame(frame, sizeof frame, &net.a, &net.b, 4);
        assert_memory_equal(inbox.bytes, frame, sizeof frame);
        receive_exactly(b, slots - 5);
        make_frame(frame, sizeof frame, &net.a, &net.b, slots - 1);
        assert_memory_equal(inbox.bytes, frame, sizeof frame);
        rawe_port_read_counters(b, &counters);
        assert_int_equal(counters.ring_drops, round * 10);
        assert_int_equal(counters.frames_received, round * slots);
    }
}

/** Receive all other frames from within the callback, once around the ring. */
static void receive_nested(void *context, uint8_t *frame, size_t len_bytes)
{
    struct inbox *box = context;
    uint8_t copy[100];

    memcpy(copy, frame, sizeof copy);
    assert_int_equal(len_bytes, sizeof copy);
    assert_int_equal(
        rawe_port_receive(box->link, 10000, &(const struct rawe_port_receiver){.frame = keep}, box),
        box->link->receive_frames - 1);
    /* The frame passed to this callback is neither delivered again nor overwritten. */
    assert_false(rawe_port_pending(box->link));
    assert_memory_equal(frame, copy, sizeof copy);
}

TEST_WITH(with_ports, link_receive__may_be_called_from_its_callback)
{
    const unsigned slots = b->receive_frames;
    uint8_t frame[100];

    make_frame(frame, sizeof frame, &net.a, &net.b, 1);
    for (unsigned i = 0; i < slots; i++) {
        assert_int_equal(transmit(a, frame, sizeof frame, 1), 1);
    }
    /* Send one frame more than the ring holds: once it is dropped, the others have arrived. */
    assert_int_equal(transmit(a, frame, sizeof frame, 1), 1);
    await_drops(b, 1);
    inbox.frames = 0;
    inbox.link = b;
    assert_int_equal(rawe_port_receive(
                         b, 1, &(const struct rawe_port_receiver){.frame = receive_nested}, &inbox),
                     1);
    assert_int_equal(inbox.frames, slots - 1);
    /* The ring still works afterwards. */
    for (unsigned i = 0; i < slots; i++) {
        assert_int_equal(transmit(a, frame, sizeof frame, 1), 1);
    }
    receive_exactly(b, slots);
}

/** Run on one processor, so that frames stay in order. */
__attribute__((constructor)) static void stay_on_one_processor(void)
{
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET((size_t)sched_getcpu(), &one);
    (void)sched_setaffinity(0, sizeof one, &one);
}
