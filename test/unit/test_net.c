/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the in-memory network (test/net): cutting and merging batches, and forged frames.
 * Planted bugs (test/sim/planted) show that the network notices an engine that breaks a rule.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "net_engine.h"
#include "net_forge.h"
#include "net_message.h"
#include "net_packet.h"
#include "base/rawe_crc32c.h"
#include "unit_test.h"

#define FRAMES 4u
#define DATA_BYTES 200u
#define SEGMENT_BYTES 50u

static struct rawe_engine engine;
static uint8_t data[DATA_BYTES], out[4096];
static struct rawe_header header;

static void set_up(void)
{
    memset(&engine, 0, sizeof(engine));
    engine.config.ethertype = RAWE_ETHERTYPE_DEFAULT;
    engine.config.payload_max_bytes = 400;
    engine.batches.bytes_max = sizeof(out);
    engine.batches.overhead_bytes = NET_BATCH_OVERHEAD_BYTES;
    net_identify(&engine.config, 0);
    net_content_fill(data, 1, 0, sizeof(data));
}

FIXTURE(set_up, NULL);

/** Make a batch of a long message: `count` frames, the last of them `short_bytes` shorter. */
static struct rawe_frame make_batch(unsigned count, uint32_t short_bytes, uint16_t segment_bytes)
{
    static uint8_t head[NET_BATCH_HEAD_BYTES];
    const struct rawe_peer_config to = net_peer_config(1);
    uint32_t data_bytes = count * SEGMENT_BYTES - short_bytes;
    const struct rawe_batch batch = {
        .header = {.type = RAWE_FRAME_BULK, .port = to.port, .key = to.key, .sequence = 100},
        .fragment = {.kind = RAWE_FRAGMENT_PART, .total_bytes = 3 * DATA_BYTES},
        .segment_bytes = segment_bytes,
        .frames = (uint8_t)count,
    };
    net_frame_address(head, to.mac, engine.config.mac);
    rawe_batch_encode(head + RAWE_ETH_HEADER_BYTES, &batch);
    return (struct rawe_frame){
        .pieces = {{head, sizeof(head)}, {data, data_bytes}},
        .piece_count = 2,
        .len_bytes = (uint32_t)sizeof(head) + data_bytes,
    };
}

TEST(net_batch_cut__merged_again)
{
    uint8_t frame[NET_BATCH_HEAD_BYTES + SEGMENT_BYTES], merged[sizeof(out)];
    struct rawe_frame packet = make_batch(FRAMES, 10, SEGMENT_BYTES);
    struct net_batch batch = net_batch_linearize(&engine, &packet, SEGMENT_BYTES, out);
    uint32_t first_bytes = net_batch_frame_bytes(&batch, 0), len_bytes = first_bytes;
    net_batch_cut(&batch, 0, merged);
    for (unsigned i = 1; i < FRAMES; i++) {
        uint32_t frame_bytes = net_batch_frame_bytes(&batch, i);
        net_batch_cut(&batch, i, frame);
        assert_true(net_batch_header(frame, frame_bytes, &header));
        assert_int_equal(header.sequence, 100 + i);
        assert_true(net_batch_joins(merged, len_bytes, first_bytes, frame, frame_bytes));
        frame[RAWE_ETH_HEADER_BYTES + 8] ^= 1; /* a different acknowledgement */
        assert_false(net_batch_joins(merged, len_bytes, first_bytes, frame, frame_bytes));
        frame[RAWE_ETH_HEADER_BYTES + 8] ^= 1;
        len_bytes = net_batch_join(merged, len_bytes, frame, frame_bytes);
        assert_false(net_batch_joins(merged, len_bytes, first_bytes, frame, frame_bytes));
    }
    assert_int_equal(len_bytes, batch.len_bytes);
    assert_memory_equal(merged, out, len_bytes);
}

/** Read the port and key that a packet is addressed to. */
static void read_addressee(const uint8_t *bytes, uint32_t len_bytes, uint16_t *port, uint32_t *key)
{
    bool batch = net_is_batch(bytes, len_bytes);
    const uint8_t *head = bytes + RAWE_ETH_HEADER_BYTES;
    const uint8_t *port_at = head + (batch ? RAWE_BATCH_OFFSET_PORT : RAWE_OFFSET_PORT);
    const uint8_t *key_at = head + (batch ? RAWE_BATCH_OFFSET_KEY : RAWE_OFFSET_KEY);

    *port = (uint16_t)(port_at[0] << 8 | port_at[1]);
    *key = 0;
    for (unsigned i = 0; i < 4; i++) {
        *key = *key << 8 | key_at[i];
    }
}

TEST(net_forge__only_unknown_peers_lack_the_key)
{
    const struct rawe_conn conn = {.engine = &engine, .path.peer_key = 5};
    const struct net_memory memory = {3, 4};
    struct net_forgery forgery = {.numbers = 2, .place = 7, .lengths = 100};
    uint16_t port;
    uint32_t key;
    for (unsigned i = 0; i < 16 * 8 * 2 * NET_DECEITS; i++) {
        forgery.what = (uint16_t)(i % 128 | (i / 128 % 2) * NET_FORGE_BATCH);
        forgery.deceit = (uint8_t)(i / 256);
        uint32_t len_bytes = net_forge(&conn, &memory, &forgery, out);
        assert_in_range(len_bytes, RAWE_PAYLOAD_OFFSET, NET_FORGED_BYTES_MAX);
        read_addressee(out, len_bytes, &port, &key);
        assert_int_equal(key == engine.config.key && port == engine.config.port,
                         forgery.deceit != NET_DECEIT_UNKNOWN_PEER);
        if (!net_is_batch(out, len_bytes) && i % 16 != 0 && i % 16 < RAWE_FRAME_TYPE_END) {
            assert_int_equal(rawe_header_decode(&header, out + RAWE_ETH_HEADER_BYTES,
                                                len_bytes - RAWE_ETH_HEADER_BYTES),
                             RAWE_DECODE_OK);
            assert_int_equal(header.type, i % 16);
        }
    }
}

TEST(net_forge_change__keeps_the_checksum_right)
{
    const struct rawe_conn conn = {.engine = &engine};
    const struct net_memory memory = {0, 0};
    const struct net_forgery forgery = {.what = RAWE_FRAME_BULK | RAWE_FRAGMENT_PUT << 4,
                                        .lengths = 100};
    const uint32_t payload_bytes = RAWE_FRAGMENT_PUT_BYTES + 100;
    const uint8_t *head = out + RAWE_ETH_HEADER_BYTES;
    uint8_t before[NET_FORGED_BYTES_MAX];
    unsigned right = 0;
    for (unsigned change = 0; change < NET_FORGE_CHANGES; change++) {
        uint32_t len_bytes = net_forge(&conn, &memory, &forgery, out);
        memcpy(before, out, len_bytes);
        uint32_t left_bytes = net_forge_change(out, len_bytes, change, 85, 1);
        if (change == NET_FORGE_CUT) {
            assert_int_equal(left_bytes, 85);
            continue;
        }
        assert_int_equal(left_bytes, len_bytes);
        assert_memory_not_equal(before, out, len_bytes);
        if (rawe_header_decode(&header, head, len_bytes - RAWE_ETH_HEADER_BYTES) ==
                RAWE_DECODE_OK &&
            header.payload_bytes <= payload_bytes) {
            size_t covered_bytes = RAWE_HEADER_BYTES + (size_t)header.payload_bytes;
            assert_int_equal(rawe_checksum_decode(head + covered_bytes),
                             rawe_crc32c(0, head, covered_bytes));
            right++;
        }
    }
    assert_in_range(right, NET_FORGE_CHANGES / 2, NET_FORGE_CHANGES - 1);
}
