/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the network in memory (test/net): it notices when an engine breaks a rule.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "net_engine.h"
#include "net_harness.h"
#include "net_message.h"
#include "net_packet.h"

#define FRAMES 4u
#define DATA_BYTES 200u
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
    (void)format;
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

static int set_up(void **state)
{
    (void)state;
    memset(&engine, 0, sizeof(engine));
    engine.config.ethertype = RAWE_ETHERTYPE_DEFAULT;
    engine.config.payload_max_bytes = 400;
    engine.config.coalesce_from_frames = 1;
    engine.batches.frames_max = FRAMES;
    engine.batches.bytes_max = sizeof(out);
    engine.batches.overhead_bytes = NET_BATCH_OVERHEAD_BYTES;
    net_identify(&engine.config, 0);
    net_content_fill(data, 1, 0, sizeof(data));
    for (unsigned i = 0; i < FRAMES; i++) {
        make_frame(i, DATA_BYTES);
    }
    return 0;
}

static void net_frame_linearize__lengths_and_addresses(void **state)
{
    (void)state;
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

static void net_batch_measure__limits(void **state)
{
    static const char limits[] = "batches keep to their limits";
    (void)state;
    uint32_t frame_bytes = HEAD_BYTES + DATA_BYTES - RAWE_ETH_HEADER_BYTES;
    assert_int_equal(net_batch_measure(&engine, frames, FRAMES),
                     RAWE_ETH_HEADER_BYTES + FRAMES * frame_bytes);
    ASSERT_VIOLATES(limits, (void)net_batch_measure(&engine, frames, FRAMES + 1));
    engine.batches.bytes_max = FRAMES * frame_bytes - 1;
    ASSERT_VIOLATES(limits, (void)net_batch_measure(&engine, frames, FRAMES));
    make_frame(1, DATA_BYTES - 1);
    ASSERT_VIOLATES(limits, (void)net_batch_measure(&engine, frames + 1, 2));
    engine.config.payload_max_bytes = RAWE_FRAGMENT_PART_BYTES + DATA_BYTES;
    ASSERT_VIOLATES(limits, (void)net_batch_measure(&engine, frames, 2));
}

static void net_batch_linearize__filled_up_in_order_to_one_peer(void **state)
{
    static const char limits[] = "batches keep to their limits";
    (void)state;
    static const uint8_t zeros[50];
    memset(out, 0xFF, sizeof(out));
    make_frame(1, DATA_BYTES - 50); /* a sixteenth of its message */
    struct net_batch batch = net_batch_linearize(&engine, frames, 3, out);
    assert_memory_equal(out + RAWE_ETH_HEADER_BYTES + 2 * batch.segment_bytes - 50, zeros, 50);
    engine.config.coalesce_from_frames = 0;
    ASSERT_VIOLATES(limits, (void)net_batch_linearize(&engine, frames, 3, out));
    engine.config.coalesce_from_frames = 1;
    make_frame(1, DATA_BYTES - 51);
    ASSERT_VIOLATES(limits, (void)net_batch_linearize(&engine, frames, 3, out));
    engine.batches.fill_max_bytes = 51;
    (void)net_batch_linearize(&engine, frames, 3, out);
    struct rawe_frame gap[] = {frames[0], frames[2]};
    ASSERT_VIOLATES("batches are in order", (void)net_batch_linearize(&engine, gap, 2, out));
    heads[1][0] ^= 4;
    ASSERT_VIOLATES("frames are addressed", (void)net_batch_linearize(&engine, frames, 2, out));
}

static void net_batch_cut__joined_again(void **state)
{
    (void)state;
    uint8_t frame[HEAD_BYTES + DATA_BYTES], joined[sizeof(out)];
    make_frame(FRAMES - 1, 10);
    struct net_batch batch = net_batch_linearize(&engine, frames, FRAMES, out);
    uint32_t len_bytes = 0;
    assert_int_equal(net_batch_frames(&batch), FRAMES);
    for (unsigned i = 0; i < FRAMES; i++) {
        assert_int_equal(net_batch_frame_bytes(&batch, i), frames[i].len_bytes);
        assert_true(net_batch_header(&batch, i, &header));
        assert_int_equal(header.sequence, 100 + i);
        net_batch_cut(&batch, i, frame);
        assert_memory_equal(frame, heads[i], HEAD_BYTES);
        len_bytes = net_batch_join(joined, len_bytes, frame, frames[i].len_bytes);
    }
    assert_int_equal(len_bytes, batch.len_bytes);
    assert_memory_equal(joined, out, len_bytes);
    batch.len_bytes = RAWE_ETH_HEADER_BYTES;
    assert_int_equal(net_batch_frames(&batch), 0);
}

static void net_content_compare__finds_the_first_difference(void **state)
{
    (void)state;
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

static void net_message_conclude__once(void **state)
{
    (void)state;
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

static void net_engine_stop__nothing_leaks(void **state)
{
    (void)state;
    engine.timers.armed = 1;
    ASSERT_VIOLATES("nothing leaks", net_engine_stop(&engine));
    engine.timers.armed = 0;
    engine.frames.allocated = 1;
    ASSERT_VIOLATES("nothing leaks", net_engine_stop(&engine));
    engine.frames.allocated = 0;
    static struct rawe_conn conn;
    engine.inplace.conn = &conn;
    ASSERT_VIOLATES("nothing leaks", net_engine_stop(&engine));
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(net_frame_linearize__lengths_and_addresses),
        TEST(net_batch_measure__limits),
        TEST(net_batch_linearize__filled_up_in_order_to_one_peer),
        TEST(net_batch_cut__joined_again),
        TEST(net_content_compare__finds_the_first_difference),
        TEST(net_message_conclude__once),
        TEST(net_engine_stop__nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
