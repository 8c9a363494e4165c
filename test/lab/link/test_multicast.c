/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the frames that the ports of a group of hosts receive, over a veth pair in its own
 * network namespace.
 */
#include <arpa/inet.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "link_fixture.h"

#define FRAME_BYTES 120u

/** Kinds of multicast packets. */
enum kind {
    FRAME, /**< a frame to any group address */
    BATCH, /**< a batch to the Ethernet address of 224.0.0.254 */
};

static const uint8_t macs[][6] = {
    [FRAME] = {0x03, 0x72, 0x61, 0x77, 0x65, 0x01},
    [BATCH] = {0x01, 0x00, 0x5E, 0x00, 0x00, 0xFE},
};

/** Make a frame from end a to this address. */
static void make(uint8_t *frame, const uint8_t *mac)
{
    const uint16_t ethertype = htons(0x88B5);

    memset(frame, 0, FRAME_BYTES);
    memcpy(frame, mac, 6);
    memcpy(frame + 6, net.a.mac, 6);
    memcpy(frame + 12, &ethertype, sizeof ethertype);
}

static void send_frame(const uint8_t *frame)
{
    const int fd = fixture_socket(net.a.index, 0);

    assert_int_equal(send(fd, frame, FRAME_BYTES, 0), FRAME_BYTES);
    close(fd);
}

/** Stands for no group: a batch with a port and key, but sent to the group address. */
#define NO_ID (-1)

/** Send a batch that the kernel cuts into `frames` to the group whose id ends with this byte. */
static void send_batch(unsigned frames, uint16_t segment_bytes, int id)
{
    static uint8_t head[RAWE_ETH_HEADER_BYTES + RAWE_BATCH_HEADER_BYTES];
    static uint8_t data[RAWE_BATCH_BYTES_MAX] = {0};
    const uint32_t data_bytes = frames * segment_bytes;
    const struct rawe_batch batch = {
        .header = {.type = RAWE_FRAME_BULK, .port = net.b.port, .key = net.b.key},
        .fragment = {.kind = RAWE_FRAGMENT_PART, .total_bytes = data_bytes},
        .segment_bytes = segment_bytes,
        .frames = (uint8_t)frames};
    const struct rawe_frame packet = {.pieces = {{head, sizeof head}, {data, data_bytes}},
                                      .piece_count = 2,
                                      .len_bytes = (uint32_t)sizeof head + data_bytes};
    struct rawe_port_config config = fixture_config(&net, &net.a);
    struct rawe_port_error error;
    struct rawe_port *bulk;

    config.use = RAWE_PORT_BULK;
    assert_int_equal(rawe_port_open(&bulk, &config, &error), 0);
    memcpy(head, macs[BATCH], 6);
    memcpy(head + 6, net.a.mac, 6);
    rawe_batch_encode(head + RAWE_ETH_HEADER_BYTES, &batch);
    if (id != NO_ID) {
        uint8_t *group_head = head + RAWE_ETH_HEADER_BYTES;
        group_head[RAWE_BATCH_OFFSET_VERSION_TYPE] = RAWE_FRAME_VERSION << 4 | RAWE_GROUP_DATA;
        group_head[RAWE_BATCH_OFFSET_ID_BYTE] = (uint8_t)id;
    }
    assert_true(bulk->kind->transmit_batch(bulk, &packet, frames > 1 ? segment_bytes : 0));
    rawe_port_close(bulk);
}

/** Returns true if the interface's multicast list, and thus the NIC's filter, has this group. */
static bool is_listed(const struct fixture_end *end, enum kind kind)
{
    char line[256], name[32], address[64], wanted[13];
    FILE *list = fopen("/proc/self/net/dev_mcast", "re");
    bool found = false;

    assert_non_null(list);
    for (unsigned i = 0; i < 6; i++) {
        snprintf(wanted + 2 * i, 3, "%02x", macs[kind][i]);
    }
    while (fgets(line, sizeof line, list) != NULL) {
        found = found || (sscanf(line, "%*d %31s %*d %*d %63s", name, address) == 2 &&
                          strcmp(name, end->name) == 0 && strcmp(address, wanted) == 0);
    }
    fclose(list);
    return found;
}

struct tally {
    unsigned frames, packets;
};

static void count_frame(void *context, uint8_t *frame, size_t len_bytes)
{
    ((struct tally *)context)->frames++;
}

static uint8_t *place_nowhere(void *context, const uint8_t *source_mac, const uint8_t *head,
                              size_t head_bytes, size_t data_bytes)
{
    return NULL;
}

static void count_packet(void *context, const uint8_t *source_mac, const uint8_t *head,
                         size_t head_bytes, const uint8_t *data, size_t data_bytes)
{
    ((struct tally *)context)->packets++;
}

/** Receive until `wanted` frames or packets have arrived, then any others that are waiting. */
static struct tally receive(struct rawe_port *port, unsigned wanted)
{
    static const struct rawe_port_receiver receiver = {
        .frame = count_frame, .place = place_nowhere, .packet = count_packet};
    struct tally tally = {0};

    AWAIT((rawe_port_receive(port, 10, &receiver, &tally), tally.frames + tally.packets >= wanted));
    return tally;
}

static void send_data(const uint8_t *mac)
{
    const struct rawe_header header = {
        .type = RAWE_FRAME_DATA, .port = net.b.port, .key = net.b.key, .payload_bytes = 10};
    uint8_t frame[FRAME_BYTES];

    make(frame, mac);
    rawe_header_encode(frame + RAWE_ETH_HEADER_BYTES, &header);
    send_frame(frame);
}

TEST(port__of_a_group_gets_what_is_sent_to_it_alone)
{
    struct rawe_port_config config = fixture_config(&net, &net.b);
    struct rawe_port_error error;
    struct rawe_port *express, *bulk;

    memcpy(config.group, macs[BATCH], sizeof config.group);
    assert_int_equal(rawe_port_open(&express, &config, &error), 0);
    config.use = RAWE_PORT_BULK;
    assert_int_equal(rawe_port_open(&bulk, &config, &error), 0);
    assert_true(is_listed(&net.b, BATCH));
    send_data(net.b.mac);
    send_data(macs[BATCH]);
    assert_int_equal(receive(express, 1).frames, 1);
    send_batch(40, 1400, NO_ID);
    assert_int_equal(receive(bulk, 1).packets, 1);
    assert_int_equal(receive(express, 0).frames, 0);
    rawe_port_close(express);
    rawe_port_close(bulk);
    assert_false(is_listed(&net.b, BATCH));
}

/** Send a DATA frame of a group to this address. */
static void send_group_data(const uint8_t *mac, uint64_t id)
{
    const struct rawe_group_header header = {.id = id, .payload_bytes = 10};
    uint8_t frame[FRAME_BYTES];

    make(frame, mac);
    rawe_group_header_encode(frame + RAWE_ETH_HEADER_BYTES, &header);
    send_frame(frame);
}

TEST(port__of_group_delivery_gets_what_is_sent_to_the_group_alone)
{
    static const uint32_t groups[RAWE_PORT_GROUP_WORDS] = {0xE};
    struct rawe_port_config config = fixture_config(&net, &net.b);
    struct rawe_port_error error;
    struct rawe_port *port;

    config.use = RAWE_PORT_GROUP;
    config.groups = groups;
    memcpy(config.group, macs[FRAME], sizeof config.group);
    assert_int_equal(rawe_port_open(&port, &config, &error), 0);
    assert_true(is_listed(&net.b, FRAME));
    send_data(net.b.mac);
    send_group_data(net.b.mac, 1);
    send_group_data(macs[FRAME], 2);
    assert_int_equal(receive(port, 1).frames, 1);
    fixture_run("ip link set rb0 down && ip link set rb0 up");
    assert_int_equal(rawe_port_reopen(port, net.b.index, &error), 0);
    assert_true(is_listed(&net.b, FRAME));
    send_group_data(macs[FRAME], 3);
    assert_int_equal(receive(port, 1).frames, 1);
    rawe_port_close(port);
    assert_false(is_listed(&net.b, FRAME));
}

/** Send a frame, or a batch of `frames`, to a group whose id ends with this byte. */
static void send_to_group(unsigned frames, uint8_t id)
{
    if (frames == 0) {
        send_group_data(macs[FRAME], 0x1234567890ABCD00u | id);
    } else {
        send_batch(frames, 1400, id);
    }
}

/** The filter selects groups by the last byte of their ids, and can be replaced. */
TEST(port__of_certain_groups_gets_no_others)
{
    static const struct {
        enum kind kind;
        enum rawe_port_use use;
        unsigned frames; /* per batch; the middle port receives batches of two */
    } cases[] = {{FRAME, RAWE_PORT_GROUP, 0},
                 {BATCH, RAWE_PORT_BULK, 1},
                 {BATCH, RAWE_PORT_BULK, 2},
                 {BATCH, RAWE_PORT_BULK, 40}};
    static const uint8_t ids[] = {0, 31, 32, 77, 255};

    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rawe_port_config config = fixture_config(&net, &net.b);
        uint32_t groups[RAWE_PORT_GROUP_WORDS] = {0};
        struct rawe_port_error error;
        struct rawe_port *port;

        config.use = cases[i].use;
        config.groups = groups;
        memcpy(config.group, macs[cases[i].kind], sizeof config.group);
        assert_int_equal(rawe_port_open(&port, &config, &error), 0);
        for (unsigned k = 0; k < sizeof ids; k++) {
            send_to_group(cases[i].frames, ids[k]);
            groups[ids[k] / 32] |= UINT32_C(1) << ids[k] % 32;
            assert_int_equal(rawe_port_renew_filter(port, &error), 0);
            send_to_group(cases[i].frames, ids[k] ^ 1);
            send_to_group(cases[i].frames, ids[k]);
            const struct tally tally = receive(port, 1);
            assert_int_equal(tally.frames + tally.packets, 1);
        }
        assert_int_equal(rawe_port_reopen(port, net.b.index, &error), 0);
        send_to_group(cases[i].frames, 76);
        send_to_group(cases[i].frames, 77);
        struct tally tally = receive(port, 1);
        assert_int_equal(tally.frames + tally.packets, 1);
        memset(groups, 0xFF, sizeof groups);
        assert_int_equal(rawe_port_renew_filter(port, &error), 0);
        send_to_group(cases[i].frames, 76);
        tally = receive(port, 1);
        assert_int_equal(tally.frames + tally.packets, 1);
        tally = receive(port, 0);
        assert_int_equal(tally.frames + tally.packets, 0);
        rawe_port_close(port);
    }
}
