/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of short PUTs, which are copied into frames.
 */
#include "unit_record.h"

#include <string.h>

FIXTURE(record_set_up, record_tear_down);

TEST(put_short__gather_behind_the_first)
{
    uint64_t word = 5;
    unsigned before = net.node[0].sent[RAWE_FRAME_DATA];
    unsigned acknowledgements = net.node[1].sent[RAWE_FRAME_ACK];
    for (unsigned i = 0; i < 10; i++) {
        assert_true(record_put(i, &word, 8, 8 * i));
        assert_int_equal(net.node[0].sent[RAWE_FRAME_DATA] - before, 1);
    }
    record_run();
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(record_puts[i].done, 1);
    }
    assert_int_equal(net.node[0].sent[RAWE_FRAME_DATA] - before, 2);
    assert_true(net.node[1].sent[RAWE_FRAME_ACK] - acknowledgements <= 2);
}

TEST(put_short__is_complete_when_acknowledged)
{
    uint64_t words[64];
    for (unsigned i = 0; i < 64; i++) {
        words[i] = i * 0x0101010101010101;
        assert_true(record_put(i, &words[i], 8, 8 * i));
        assert_int_equal(record_puts[i].done, 0);
        words[i] ^= UINT64_MAX; /* it has been copied */
    }
    unsigned frames = net.node[0].sent[RAWE_FRAME_DATA];
    record_run();
    for (unsigned i = 0; i < 64; i++) {
        uint64_t word;
        memcpy(&word, record_memory + 8 * i, sizeof(word));
        assert_true(word == i * 0x0101010101010101);
        assert_int_equal(record_puts[i].done, 1);
        assert_int_equal(record_puts[i].status, RAWE_STATUS_DONE);
    }
    assert_true(net.node[0].sent[RAWE_FRAME_DATA] - frames < 8);
    assert_int_equal(counters(0)->puts_sent, 64);
    assert_null(net.node[0].conn[RAWE_LANE_BULK]);
}

/** Those that have waited for the link. */
TEST(put_short__an_acknowledgement_is_asked_for)
{
    uint64_t word = 5;
    net.node[0].link_room = 0;
    for (unsigned i = 0; i < 4; i++) {
        assert_true(record_put(i, &word, 8, 8 * i));
    }
    net.node[0].link_room = UINT32_MAX;
    rawe_engine_flush(engine(0), net.now_ns);
    while (net.wire != NULL) { /* no time passes */
        unit_receive_next(&net);
        rawe_engine_flush(engine(1), net.now_ns);
    }
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(record_puts[i].done, 1);
    }
}

TEST(put_short__not_when_it_fits_no_frame)
{
    uint32_t most = unit_peer_end(RAWE_LANE_EXPRESS)->payload_max_bytes - RAWE_FRAGMENT_PUT_BYTES;
    most = most < engine(0)->config.copy_max_bytes ? most : engine(0)->config.copy_max_bytes;
    assert_false(record_put(0, record_result, most + 1, 0));
    assert_true(record_put(0, record_result, most, 0));
    record_run();
    assert_int_equal(record_puts[0].done, 1);
}

TEST(put_short__loss_and_a_full_window)
{
    static uint8_t data[RECORD_ACCESSES * 600];
    unit_fill(data, sizeof(data), 9);
    net.filter = record_lose_some;
    for (unsigned i = 0; i < RECORD_ACCESSES; i++) {
        assert_true(record_put(i, data + 600 * i, 600, 600 * i));
    }
    record_run();
    for (unsigned i = 0; i < RECORD_ACCESSES; i++) {
        assert_int_equal(record_puts[i].done, 1);
        assert_int_equal(record_puts[i].status, RAWE_STATUS_DONE);
    }
    assert_memory_equal(record_memory, data, sizeof(data));
}
