/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of batches that a network damages, over a veth pair in their own network namespace. A
 * packet socket sends frames as they are on a wire, not verified by NIC or kernel.
 */
#define _GNU_SOURCE
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "link_fixture.h"

#include "../../../opal/mca/btl/rawe/core/base/rawe_sum16.h"

#define HEAD_BYTES RAWE_ENVELOPE_HEAD_BYTES
#define DATA_BYTES_MAX 30000u
#define MTU_BYTES 40000u

static struct rawe_port *from, *to;
static int wire_fd;
static uint8_t memory[RAWE_BATCH_BYTES_MAX];

/** The packets that the last receive() has delivered. */
static struct {
    unsigned packets;
    size_t bytes;
    bool right;
} received;

static uint8_t byte_at(size_t at)
{
    return (uint8_t)(at + at / 253);
}

static struct rawe_port *open_bulk(const struct fixture_end *end)
{
    struct rawe_port_config config = fixture_config(&net, end);
    struct rawe_port_error error = {0};
    struct rawe_port *port;

    config.use = RAWE_PORT_BULK;
    config.ring_bytes = 16 << 20; /* for all damaged frames between two calls of receive() */
    assert_int_equal(rawe_port_open(&port, &config, &error), 0);
    return port;
}

/** Set whether GRO merges, and whether the kernel leaves checksums to the device (`tx`). */
static void wire_up(const char *gro, const char *tx)
{
    fixture_run("ethtool -K rb0 gro %s >/dev/null", gro);
    fixture_run("ethtool -K ra0 tx %s tso %s gso %s >/dev/null", tx, tx, tx);
}

static void open_ports(void)
{
    fixture_renew(&net, MTU_BYTES);
    from = open_bulk(&net.a);
    to = open_bulk(&net.b);
    wire_fd = fixture_socket(net.a.index, 0);
}

static void close_ports(void)
{
    rawe_port_close(from);
    rawe_port_close(to);
    close(wire_fd);
}

FIXTURE(open_ports, close_ports);

static uint8_t *place(void *context, const uint8_t *source_mac, const uint8_t *head,
                      size_t head_bytes, size_t data_bytes)
{
    return memory;
}

static void take(void *context, const uint8_t *source_mac, const uint8_t *head, size_t head_bytes,
                 const uint8_t *data, size_t data_bytes)
{
    struct rawe_batch batch;

    assert_int_equal(rawe_batch_decode(&batch, head, head_bytes, data_bytes), RAWE_DECODE_OK);
    received.packets++;
    received.bytes += data_bytes;
    for (size_t i = 0; i < data_bytes; i++) {
        received.right &= data[i] == byte_at(batch.at_bytes + i);
    }
}

/** Receive exactly this number of bytes of data. */
static void receive(size_t bytes)
{
    static const struct rawe_port_receiver receiver = {.place = place, .packet = take};

    memset(&received, 0, sizeof received);
    received.right = true;
    AWAIT((rawe_port_receive(to, 1000, &receiver, NULL), received.bytes >= bytes));
    assert_int_equal(received.bytes, bytes);
    assert_true(received.right);
}

static uint64_t damaged(void)
{
    struct rawe_port_counters counters;

    rawe_port_read_counters(to, &counters);
    assert_int_equal(counters.ring_drops, 0);
    return counters.damaged;
}

/** Make the Ethernet and batch headers of a batch, from `at_bytes` on, and its data. */
static void make(uint8_t *head, uint8_t *data, size_t data_bytes, uint16_t segment_bytes,
                 uint32_t at_bytes, uint8_t frames)
{
    const struct rawe_batch batch = {
        .header = {.type = RAWE_FRAME_BULK, .port = net.b.port, .key = net.b.key},
        .fragment = {.kind = RAWE_FRAGMENT_PART, .total_bytes = RAWE_BATCH_BYTES_MAX},
        .at_bytes = at_bytes,
        .segment_bytes = segment_bytes,
        .frames = frames};

    memcpy(head, net.b.mac, RAWE_MAC_BYTES);
    memcpy(head + RAWE_MAC_BYTES, net.a.mac, RAWE_MAC_BYTES);
    rawe_batch_encode(head + RAWE_ETH_HEADER_BYTES, &batch);
    for (size_t i = 0; i < data_bytes; i++) {
        data[i] = byte_at(at_bytes + i);
    }
}

/** Make a frame of a batch as on a wire, with complete checksums. Returns its length. */
static size_t make_frame(uint8_t *frame, size_t data_bytes, uint32_t at_bytes, uint8_t frames)
{
    uint8_t head[RAWE_ETH_HEADER_BYTES + RAWE_BATCH_HEADER_BYTES];
    struct rawe_envelope envelope;
    const size_t len_bytes = HEAD_BYTES + data_bytes;
    uint8_t *tcp = frame + RAWE_FILTER_BULK_OFFSET;

    make(head, frame + HEAD_BYTES, data_bytes, (uint16_t)data_bytes, at_bytes, frames);
    rawe_envelope_write(&envelope, head, RAWE_BATCH_HEADER_BYTES + data_bytes, 0);
    memcpy(frame, envelope.packet, HEAD_BYTES);
    rawe_put16(tcp + RAWE_BATCH_OFFSET_CHECKSUM, (uint16_t)~rawe_sum16_fold(rawe_sum16_add(
                                                     0, tcp, len_bytes - RAWE_FILTER_BULK_OFFSET)));
    return len_bytes;
}

static void send_frame(const uint8_t *frame, size_t len_bytes)
{
    assert_int_equal(send(wire_fd, frame, len_bytes, 0), len_bytes);
}

/** The checksum is valid with all combinations of offloads of sender and receiver. */
TEST(bulk_receive__batches_in_every_wiring)
{
    static const char *const wirings[][2] = {
        {"off", "on"}, {"on", "on"}, {"off", "off"}, {"on", "off"}};
    static const uint32_t batch_bytes[] = {1, 777, 1400, 1401, 14000, 60001};
    static uint8_t head[RAWE_ETH_HEADER_BYTES + RAWE_BATCH_HEADER_BYTES], data[60001];

    for (size_t w = 0; w < sizeof wirings / sizeof wirings[0]; w++) {
        wire_up(wirings[w][0], wirings[w][1]);
        for (size_t i = 0; i < sizeof batch_bytes / sizeof batch_bytes[0]; i++) {
            const struct rawe_frame packet = {
                .pieces = {{head, sizeof head}, {data, batch_bytes[i]}},
                .piece_count = 2,
                .len_bytes = (uint32_t)sizeof head + batch_bytes[i]};
            make(head, data, batch_bytes[i], 1400, 0, (uint8_t)((batch_bytes[i] + 1399) / 1400));
            assert_true(
                from->kind->transmit_batch(from, &packet, batch_bytes[i] > 1400 ? 1400 : 0));
            receive(batch_bytes[i]);
        }
    }
    assert_int_equal(damaged(), 0);
}

/** For a slot of the bulk ring, of the middle ring, and for the queue. */
static const size_t sizes[] = {1, 100, 1400, 8000, DATA_BYTES_MAX};

TEST(bulk_receive__drops_a_frame_with_a_changed_byte)
{
    static uint8_t frame[HEAD_BYTES + DATA_BYTES_MAX];
    uint64_t expected = 0;

    for (unsigned w = 0; w < 2; w++) {
        wire_up(w == 0 ? "off" : "on", "on");
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            const size_t len_bytes = make_frame(frame, sizes[i], 0, 1);
            /* Change the bytes that the filter checks last: such frames may not arrive at all. */
            for (size_t at = RAWE_FILTER_BULK_OFFSET + 36; at < len_bytes;
                 at += at < HEAD_BYTES ? 1 : 997) {
                frame[at] ^= (uint8_t)(1 + at % 255);
                send_frame(frame, len_bytes);
                frame[at] ^= (uint8_t)(1 + at % 255);
                expected++;
            }
            send_frame(frame, len_bytes);
            receive(sizes[i]);
            assert_int_equal(damaged(), expected);
            for (size_t at = RAWE_ETH_HEADER_BYTES; at < RAWE_FILTER_BULK_OFFSET + 36; at++) {
                frame[at] ^= (uint8_t)(1 + at % 255);
                send_frame(frame, len_bytes);
                frame[at] ^= (uint8_t)(1 + at % 255);
            }
            send_frame(frame, len_bytes);
            receive(sizes[i]);
            assert_true(damaged() > expected);
            expected = damaged();
        }
    }
}

TEST(bulk_receive__drops_what_was_cut_short_and_takes_what_was_padded)
{
    static uint8_t frame[HEAD_BYTES + DATA_BYTES_MAX + 100];

    wire_up("off", "on");
    for (size_t i = 1; i < sizeof sizes / sizeof sizes[0]; i++) {
        const size_t len_bytes = make_frame(frame, sizes[i], 0, 1);
        const uint64_t before = damaged();
        send_frame(frame, len_bytes - 1);
        send_frame(frame, len_bytes - sizes[i] / 2);
        send_frame(frame, HEAD_BYTES);
        memset(frame + len_bytes, 0xEE, 100);
        send_frame(frame, len_bytes + 1);
        send_frame(frame, len_bytes + 100);
        receive(2 * sizes[i]);
        assert_int_equal(damaged(), before + 3);
    }
}

/** GRO merges the undamaged frames. */
TEST(bulk_receive__drops_only_the_damaged_frame_of_a_batch)
{
    enum { FRAMES = 10, SEGMENT_BYTES = 1400 };
    static uint8_t frame[HEAD_BYTES + SEGMENT_BYTES];

    wire_up("on", "on");
    for (unsigned bad = 0; bad < FRAMES; bad++) {
        for (unsigned i = 0; i < FRAMES; i++) {
            const size_t len_bytes = make_frame(frame, SEGMENT_BYTES, i * SEGMENT_BYTES, FRAMES);
            frame[HEAD_BYTES + 700] ^= (uint8_t)(i == bad ? 0x40 : 0);
            send_frame(frame, len_bytes);
        }
        receive((FRAMES - 1) * SEGMENT_BYTES);
        assert_int_equal(damaged(), bad + 1);
    }
}
