/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the network in memory (test/net): it notices when an engine breaks a rule.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "net_engine.h"
#include "net_forge.h"
#include "net_harness.h"
#include "net_ledger.h"
#include "net_packet.h"
#include "base/rawe_crc32c.h"
#include "unit_test.h"

#define FRAMES 4u
#define DATA_BYTES 200u
#define SEGMENT_BYTES 50u
#define HEAD_BYTES (RAWE_PAYLOAD_OFFSET + RAWE_FRAGMENT_PART_BYTES)

static struct rawe_engine engine;
static uint8_t heads[FRAMES][HEAD_BYTES], data[DATA_BYTES];
static struct rawe_frame frames[FRAMES];
static uint8_t out[4096];
static struct rawe_header header;

static jmp_buf violated;
static const char *invariant_violated;

void net_fail(const char *invariant, const char *format, ...)
{
    invariant_violated = invariant;
    longjmp(violated, 1);
}

/** The statement violates that invariant. */
#define ASSERT_VIOLATES(invariant, statement)                 \
    do {                                                      \
        invariant_violated = "none";                          \
        if (setjmp(violated) == 0) {                          \
            statement;                                        \
        }                                                     \
        assert_string_equal(invariant_violated, (invariant)); \
    } while (0)

/** Frame `index` of a long message, with `data_bytes` of it. */
static void make_frame(unsigned index, uint32_t data_bytes)
{
    const struct rawe_peer_config to = net_peer_config(1);
    const struct rawe_header head = {
        .type = RAWE_FRAME_BULK,
        .port = to.port,
        .key = to.key,
        .sequence = 100 + index,
        .payload_bytes = (uint16_t)(RAWE_FRAGMENT_PART_BYTES + data_bytes),
    };
    const struct rawe_fragment fragment = {
        .kind = RAWE_FRAGMENT_PART,
        .data_bytes = (uint16_t)data_bytes,
        .total_bytes = 16 * 50,
        .offset = 0,
    };
    uint8_t *bytes = heads[index];
    net_frame_address(bytes, to.mac, engine.config.mac);
    rawe_header_encode(bytes + RAWE_ETH_HEADER_BYTES, &head);
    rawe_fragment_encode(bytes + RAWE_PAYLOAD_OFFSET, &fragment);
    frames[index] = (struct rawe_frame){
        .pieces = {{bytes, HEAD_BYTES}, {data, data_bytes}},
        .piece_count = 2,
        .len_bytes = HEAD_BYTES + data_bytes,
    };
}

static void set_up(void)
{
    memset(&engine, 0, sizeof(engine));
    engine.config.ethertype = RAWE_ETHERTYPE_DEFAULT;
    engine.config.payload_max_bytes = 400;
    engine.batches.bytes_max = sizeof(out);
    engine.batches.overhead_bytes = NET_BATCH_OVERHEAD_BYTES;
    net_identify(&engine.config, 0);
    net_content_fill(data, 1, 0, sizeof(data));
    for (unsigned i = 0; i < FRAMES; i++) {
        make_frame(i, DATA_BYTES);
    }
}

FIXTURE(set_up, NULL);

TEST(net_frame_linearize__lengths_and_addresses)
{
    net_frame_linearize(&engine, &frames[0], out, &header);
    assert_memory_equal(out, heads[0], HEAD_BYTES);
    assert_memory_equal(out + HEAD_BYTES, data, DATA_BYTES);
    assert_int_equal(header.sequence, 100);
    frames[0].pieces[1].len_bytes--;
    ASSERT_VIOLATES("frames add up", net_frame_linearize(&engine, &frames[0], out, &header));
    frames[0].len_bytes--; /* not what its header says */
    ASSERT_VIOLATES("frames add up", net_frame_linearize(&engine, &frames[0], out, &header));
    frames[1].pieces[1].len_bytes++;
    ASSERT_VIOLATES("frames add up", net_frame_linearize(&engine, &frames[1], out, &header));
    frames[2].piece_count = RAWE_FRAME_PIECES_MAX + 1;
    ASSERT_VIOLATES("frames add up", net_frame_linearize(&engine, &frames[2], out, &header));
    heads[3][RAWE_MAC_BYTES] ^= 1;
    ASSERT_VIOLATES("frames are addressed", net_frame_linearize(&engine, &frames[3], out, &header));
    make_frame(0, DATA_BYTES);
    engine.config.checksum = true;
    ASSERT_VIOLATES("frames add up", net_frame_linearize(&engine, &frames[0], out, &header));
    engine.config.checksum = false;
    engine.config.payload_max_bytes = 100;
    ASSERT_VIOLATES("frames fit the link", net_frame_linearize(&engine, &frames[0], out, &header));
}

/** A batch of a long message, of `frames` frames and `short_bytes` less. */
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

TEST(net_batch_linearize__limits_and_lengths)
{
    static const char limits[] = "batches keep to their limits";
    struct rawe_frame packet = make_batch(FRAMES, 3, SEGMENT_BYTES);
    struct net_batch batch = net_batch_linearize(&engine, &packet, SEGMENT_BYTES, out);
    assert_int_equal(net_batch_frames(&batch), FRAMES);
    assert_true(net_is_batch(out, batch.len_bytes));
    ASSERT_VIOLATES(limits, (void)net_batch_linearize(&engine, &packet, SEGMENT_BYTES + 1, out));
    engine.batches.bytes_max = FRAMES * SEGMENT_BYTES - 4;
    ASSERT_VIOLATES(limits, (void)net_batch_linearize(&engine, &packet, SEGMENT_BYTES, out));
    engine.batches.bytes_max = sizeof(out);
    engine.config.payload_max_bytes = SEGMENT_BYTES + 55; /* one less than it takes */
    ASSERT_VIOLATES(limits, (void)net_batch_linearize(&engine, &packet, SEGMENT_BYTES, out));
    engine.config.payload_max_bytes = 400;
    packet = make_batch(1, 0, SEGMENT_BYTES); /* nothing to cut */
    ASSERT_VIOLATES(limits, (void)net_batch_linearize(&engine, &packet, SEGMENT_BYTES, out));
    (void)net_batch_linearize(&engine, &packet, 0, out);
    engine.config.checksum = true;
    ASSERT_VIOLATES(limits, (void)net_batch_linearize(&engine, &packet, 0, out));
    engine.config.checksum = false;
    packet = make_batch(2, 0, 0);
    ASSERT_VIOLATES("batches add up",
                    (void)net_batch_linearize(&engine, &packet, SEGMENT_BYTES, out));
    packet = make_batch(2, 0, SEGMENT_BYTES);
    ((uint8_t *)packet.pieces[0].base)[RAWE_MAC_BYTES] ^= 1;
    ASSERT_VIOLATES("frames are addressed",
                    (void)net_batch_linearize(&engine, &packet, SEGMENT_BYTES, out));
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
        frame[RAWE_ETH_HEADER_BYTES + 8] ^= 1; /* another acknowledgement */
        assert_false(net_batch_joins(merged, len_bytes, first_bytes, frame, frame_bytes));
        frame[RAWE_ETH_HEADER_BYTES + 8] ^= 1;
        len_bytes = net_batch_join(merged, len_bytes, frame, frame_bytes);
        assert_false(net_batch_joins(merged, len_bytes, first_bytes, frame, frame_bytes));
    }
    assert_int_equal(len_bytes, batch.len_bytes);
    assert_memory_equal(merged, out, len_bytes);
}

TEST(net_content_compare__finds_the_first_difference)
{
    for (unsigned at = 0; at < 40; at++) {
        net_content_fill(out, 7, 3, 40);
        assert_int_equal(net_content_compare(out, 7, 3, 40), 40);
        out[at] ^= 0x10;
        assert_int_equal(net_content_compare(out, 7, 3, 40), at);
    }
}

static unsigned ended_calls;

static void ended(struct net_message *message, enum rawe_status status, bool early)
{
    assert_true(message->completed);
    assert_int_equal(status, RAWE_STATUS_DONE);
    ended_calls += !early;
}

TEST(net_message_conclude__once)
{
    struct net_message message = {.number = 5, .len_bytes = 30, .ended = ended};
    net_message_lay_out(&message, 10, true, true);
    assert_int_equal(message.out.send.piece_count, 2);
    assert_int_equal(message.out.send.pieces[1].len_bytes, 20);
    assert_memory_equal(message.own, &message.number, sizeof(message.number));
    net_message_conclude(&message, RAWE_PEER_QUEUED);
    assert_int_equal(ended_calls, 0);
    net_message_conclude(&message, RAWE_PEER_COMPLETE);
    assert_int_equal(ended_calls, 1);
    assert_null(message.own);
    assert_null(message.second);
    ASSERT_VIOLATES("completes once", net_message_conclude(&message, RAWE_PEER_COMPLETE));
    net_message_lay_out(&message, 30, false, true);
    message.own[30] ^= 1;
    ASSERT_VIOLATES("copies stay in their room", net_message_drop(&message));
    free(message.own);
}

/* ---- the ledger: messages from process 0 to process 1 on the bulk lane ---- */

static struct net_ledger ledger;
static struct rawe_peer peer;
static struct net_message messages[4];
static uint32_t next_in_order;
static const struct net_route route = {{0, 1}, {1, 2}, RAWE_LANE_BULK, &next_in_order};

static void note_ended(struct net_message *message, enum rawe_status status, bool early)
{
    assert_true(message->completed);
    assert_true(status == RAWE_STATUS_DONE || message->excused);
    ended_calls += !early;
}

/** They are on their way, of 3, 13, 23, 33 bytes. */
static void set_up_ledger(void)
{
    memset(&ledger, 0, sizeof(ledger));
    memset(messages, 0, sizeof(messages));
    next_in_order = 0;
    ledger.ended = note_ended;
    peer.engine = &engine;
    for (unsigned i = 0; i < 4; i++) {
        messages[i].len_bytes = 3 + 10 * i;
        messages[i].from = route.from;
        messages[i].to = route.to;
        messages[i].lane = RAWE_LANE_BULK;
        messages[i].receiver = &engine;
        messages[i].peer = &peer;
        net_ledger_add(&ledger, &messages[i], 9);
        net_ledger_submit(&ledger, &messages[i], messages[i].len_bytes, i % 2 != 0);
    }
    set_up();
}

static void tear_down_ledger(void)
{
    net_ledger_free(&ledger, NULL);
}

static const struct unit_fixture with_ledger = {set_up_ledger, tear_down_ledger};

/** Deliver what message `index` carries, with its tag and that byte changed. */
static struct net_message *deliver(unsigned index, const struct net_route *where, uint8_t tag,
                                   uint8_t change)
{
    uint8_t bytes[64];
    const struct net_message *message = &messages[index];

    net_content_fill(bytes, message->content_seed, 0, message->len_bytes);
    if (message->len_bytes >= NET_NUMBERED_BYTES) {
        memcpy(bytes, &message->number, sizeof(message->number));
    }
    bytes[message->len_bytes - 1] ^= change;
    return net_ledger_deliver(&ledger, where, tag, bytes, message->len_bytes);
}

TEST_WITH(with_ledger, net_ledger_deliver__once_exact_and_in_order)
{
    struct net_route other = route;
    assert_ptr_equal(deliver(0, &route, 0, 0), &messages[0]);
    ASSERT_VIOLATES("byte-exact", deliver(0, &route, 0, 0)); /* too short for "again" */
    assert_ptr_equal(deliver(2, &route, 0, 0), &messages[2]);
    ASSERT_VIOLATES("exactly once", deliver(2, &route, 0, 0));
    ASSERT_VIOLATES("messages are in order", deliver(1, &route, 0, 0));
    ASSERT_VIOLATES("byte-exact", deliver(3, &route, 0, 1));
    ASSERT_VIOLATES("byte-exact", deliver(3, &route, 1, 0));
    other.lane = RAWE_LANE_EXPRESS;
    ASSERT_VIOLATES("no cross-talk", deliver(3, &other, 0, 0));
    other = route;
    other.to.life++;
    ASSERT_VIOLATES("no cross-talk", deliver(3, &other, 0, 0));
    other = route;
    other.from.index++;
    ASSERT_VIOLATES("no cross-talk", deliver(3, &other, 0, 0));
    assert_int_equal(ledger.deliveries, 2);
}

TEST_WITH(with_ledger, net_ledger_deliver__lies)
{
    ledger.lying = true;
    assert_null(deliver(3, &route, 0, 1));
    assert_ptr_equal(deliver(3, &route, 0, 0), &messages[3]);
    assert_null(deliver(3, &route, 0, 0));
    assert_ptr_equal(deliver(1, &route, 0, 0), &messages[1]);
    assert_int_equal(ledger.undelivered, 2);
}

TEST_WITH(with_ledger, net_ledger_ended__complete_means_delivered)
{
    ASSERT_VIOLATES("complete means delivered",
                    net_message_conclude(&messages[1], RAWE_PEER_COMPLETE));
    engine.deferral.bytes = 1;
    net_message_conclude(&messages[0], RAWE_PEER_COMPLETE);
    engine.deferral.bytes = 0;
    (void)deliver(2, &route, 0, 0);
    net_message_conclude(&messages[2], RAWE_PEER_COMPLETE);
    ASSERT_VIOLATES("sends to the living succeed",
                    net_message_conclude(&messages[3], RAWE_PEER_FAILED));
    assert_int_equal(ledger.open, 2);
    ASSERT_VIOLATES("everything finishes", net_ledger_check_ended(&ledger));
    ASSERT_VIOLATES("everything finishes", net_ledger_check_arrived(&ledger));
    assert_false(net_ledger_is_quiet(&ledger));
}

TEST_WITH(with_ledger, net_ledger_closed__excuses_both_ways)
{
    const struct net_route back = {route.to, route.from, RAWE_LANE_BULK, NULL};
    (void)deliver(1, &route, 0, 0);
    ASSERT_VIOLATES("acknowledged means delivered", net_ledger_closed(&ledger, &back, &peer, true));
    assert_int_equal(ledger.undelivered, 3);
    messages[0].peer = NULL; /* not handed over: it waits for the next connection */
    net_ledger_closed(&ledger, &back, &peer, false);
    assert_false(messages[0].excused);
    assert_int_equal(ledger.undelivered, 1);
    net_ledger_closed(&ledger, &route, NULL, false); /* the receiver closes */
    assert_true(messages[0].excused);
    net_ledger_check_arrived(&ledger);
    for (unsigned i = 0; i < 4; i++) {
        net_message_conclude(&messages[i], RAWE_PEER_FAILED);
    }
    net_ledger_check_ended(&ledger);
    assert_true(net_ledger_is_quiet(&ledger));
}

TEST_WITH(with_ledger, net_ledger_died__sender_or_receiver)
{
    bool whole_excused = false;
    messages[0].whole_excused = &whole_excused;
    net_ledger_withdraw(&messages[1]);
    net_ledger_died(&ledger, (struct net_process){2, 0});
    assert_int_equal(ledger.undelivered, 3);
    net_ledger_died(&ledger, route.to);
    assert_true(whole_excused);
    assert_null(messages[2].receiver);
    assert_int_equal(ledger.undelivered, 0);
    assert_int_equal(ledger.open, 3);
    net_ledger_died(&ledger, route.from);
    assert_int_equal(ledger.open, 0);
    net_message_conclude(&messages[0], RAWE_PEER_FAILED);
    assert_true(net_ledger_is_quiet(&ledger));
}

/** The owner of a packet's port and key. */
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
    const struct rawe_conn conn = {.engine = &engine, .peer_key = 5};
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
    engine.config.checksum = true;
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
            (header.flags & RAWE_FLAG_CHECKSUM) != 0 && header.payload_bytes <= payload_bytes) {
            size_t covered_bytes = RAWE_HEADER_BYTES + (size_t)header.payload_bytes;
            assert_int_equal(rawe_checksum_decode(head + covered_bytes),
                             rawe_crc32c(0, head, covered_bytes));
            right++;
        }
    }
    assert_in_range(right, NET_FORGE_CHANGES / 2, NET_FORGE_CHANGES - 1);
}

TEST(net_engine_stop__nothing_leaks)
{
    engine.timers.armed = 1;
    ASSERT_VIOLATES("nothing leaks", net_engine_stop(&engine));
    engine.timers.armed = 0;
    engine.frames.taken = 1;
    ASSERT_VIOLATES("nothing leaks", net_engine_stop(&engine));
    engine.frames.taken = 0;
    engine.bundles.allocated = 1;
    ASSERT_VIOLATES("nothing leaks", net_engine_stop(&engine));
}
