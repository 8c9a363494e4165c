/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of what a member receives of a root: frames in order, missing ones asked for, all
 * acknowledged.
 */
#include "group/rawe_group_stream.h"

#include <string.h>

#include "unit_alloc.h"
#include "unit_group.h"

FIXTURE(set_up, tear_down);

/** Half of all numbers later, what is left of the tree's last use says nothing. */
TEST(rawe_group_stream_acked__the_tree_after_a_long_time)
{
    start(MEMBERS_MAX);
    send_bytes(0, 10);
    pass(100 * MS);
    assert_quiet();
    for (uint32_t i = 1; i < config.members; i++) {
        struct rawe_group_stream *stream = group[i].members[0].stream;
        stream->ask += 0x80000001;
        for (unsigned k = 0; k < RAWE_GROUP_CHILDREN; k++) {
            stream->children[k] += 0x80000001;
        }
    }
    memset(net.sent, 0, sizeof(net.sent));
    send_bytes(0, 8 * PAYLOAD_BYTES);
    arrive();
    assert_quiet();
    assert_int_equal(net.sent[RAWE_GROUP_ACK][0], MEMBERS_MAX - 1);
    assert_int_equal(control_frames(), MEMBERS_MAX - 1);
}

/** An acknowledgement that the link has no room for goes with the frame when there is. */
TEST(rawe_group_stream_piggyback__acknowledgements_wait_for_the_link)
{
    start(2);
    send_bytes(1, 10);
    arrive();
    net.link_room = 0;
    send_bytes(0, 10);
    net.link_room = 1;
    progress(0, net.now_ns);
    arrive();
    assert_int_equal(net.sent[RAWE_GROUP_DATA][1], 2);
    assert_true(rawe_group_stable(&group[1]));
}

TEST(rawe_group_stream_receive__without_room_for_what_comes_early)
{
    config.stored_max = 3;
    start(2);
    lose(0, 1, 1, 1);
    send_bytes(0, 10 * PAYLOAD_BYTES);
    arrive();
    assert_int_equal(group[1].stored, 3);
    assert_int_equal(counted[1].no_buffer, 6);
    pass(300 * MS);
    assert_got(0, 1);
}

/** Data goes to its place only if it is next, and nothing of it is here. */
TEST(rawe_group_stream_place__of_what_is_next)
{
    static const struct {
        bool begun; /* a part was delivered before */
        uint32_t sequence, total_bytes;
        bool placed;
    } cases[] = {
        {true, 2, 600, true},  {true, 1, 600, false}, {true, 3, 600, false}, {true, 2, 601, false},
        {true, 2, 100, false}, {false, 0, 600, true}, {false, 0, 300, true}, {false, 1, 600, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint8_t head[RAWE_BATCH_HEADER_BYTES];
        struct rawe_group_header header = {.type = RAWE_GROUP_DATA,
                                           .sender = 0,
                                           .key = config.key,
                                           .id = ID,
                                           .sequence = FIRST + cases[i].sequence,
                                           .payload_bytes = 300,
                                           .acked_root = RAWE_GROUP_NO_ROOT,
                                           .total_bytes = cases[i].total_bytes,
                                           .segment_bytes = SEGMENT_BYTES};
        set_up();
        batch(2);
        /* The heartbeat alone makes the stream. */
        lose(cases[i].begun ? 2 : 0, 6, 1, 1);
        send_bytes(0, 600);
        arrive();
        progress(0, group[0].heartbeat_ns);
        arrive();
        rawe_group_batch_encode(head, &header);
        uint8_t *where = rawe_group_place(&group[1], head, sizeof(head), 300);
        assert_int_equal(where != NULL, cases[i].placed && cases[i].total_bytes >= 300);
        tear_down();
    }
}

TEST(rawe_group_stream_receive__without_memory)
{
    start(2);
    lose(0, 1, 1, 1);
    for (int left = 0; left < 4; left++) { /* record of the members, stream, frame, ring */
        send_bytes(0, PAYLOAD_BYTES);
        unit_allocations_left = left;
        arrive();
        unit_allocations_left = -1;
    }
    assert_int_equal(counted[1].no_buffer, 2);
    pass(300 * MS);
    assert_got(0, 4);
}

/** A member that is alive, though it takes nothing: the root waits. */
TEST(rawe_group_stream_receive__not_delivered_now)
{
    static const struct {
        uint32_t stored_max, frames, stored, no_buffer;
    } cases[] = {{64, 40, 16, 0}, {3, 10, 3, 7}}; /* with room, and without */
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        set_up();
        config.stored_max = cases[i].stored_max;
        start(3);
        net.refuses[1] = true;
        send_bytes(0, cases[i].frames * PAYLOAD_BYTES);
        pass(60000 * MS);
        assert_int_equal(net.got_bytes[1][0], 0);
        assert_int_equal(group[1].stored, cases[i].stored);
        assert_int_equal(counted[1].no_buffer, cases[i].no_buffer);
        assert_int_equal(net.sent[RAWE_GROUP_NACK][0], 0); /* there is no room for a repair */
        assert_int_equal(net.done_count, cases[i].frames <= 16);
        assert_false(rawe_group_stable(&group[0]));
        net.refuses[1] = false;
        pass(1000 * MS);
        assert_got(0, 1);
        assert_quiet();
        tear_down();
    }
}

/** A repair that others asked for makes a NACK needless. */
TEST(rawe_group_stream_progress__all_others_miss_a_frame)
{
    start(MEMBERS_MAX);
    lose(0, 1, 1, MEMBERS_MAX);
    send_bytes(0, 10 * PAYLOAD_BYTES);
    arrive();
    net.now_ns += RAWE_GROUP_NACK_NS + MEMBERS_MAX * RAWE_GROUP_SPREAD_NS;
    for (uint32_t i = 1; i <= 3; i++) {
        progress(i, net.now_ns);
    }
    arrive();
    progress(0, net.now_ns + RAWE_GROUP_COLLECT_NS);
    pass(300 * MS);
    assert_got(0, 1);
    assert_int_equal(net.sent[RAWE_GROUP_NACK][0], 3);
    assert_int_equal(counted[0].repairs_multicast, 1);
}
