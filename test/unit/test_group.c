/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of group delivery: as a whole, what a root does in it, and what a member receives of a root.
 */
#include "group/rawe_group_stream.h"

#include <string.h>

#include "unit_alloc.h"
#include "unit_group.h"

FIXTURE(set_up, tear_down);

TEST(rawe_group_send__to_all_members)
{
    enum { HEARTBEAT = RAWE_GROUP_HEARTBEAT, NACK = RAWE_GROUP_NACK, ACK = RAWE_GROUP_ACK };
    static const struct scenario {
        uint32_t members, len_bytes;
        uint32_t from, count, low, high; /* frames that are lost, for members low to high */
        uint8_t type;                    /* control frames that are lost, five of them */
        unsigned nacks_min, nacks_max, unicast, multicast;
    } cases[] = {
        /* Messages of several lengths, nothing lost. */
        {2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
        {4, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0},
        {4, 127, 0, 0, 0, 0, 0, 0, 0, 0, 0},
        {3, 128, 0, 0, 0, 0, 0, 0, 0, 0, 0},
        {3, 129, 0, 0, 0, 0, 0, 0, 0, 0, 0},
        {3, 4000, 0, 0, 0, 0, 0, 0, 0, 0, 0},
        /* A gap; of two members; of more. */
        {10, 1280, 3, 2, 1, 1, 0, 1, 1, 2, 0},
        {10, 1280, 3, 1, 1, 2, 0, 2, 2, 2, 0},
        {10, 1280, 3, 1, 1, 7, 0, 3, 7, 0, 1},
        {20, 3000, 3, 1, 12, 12, 0, 1, 1, 1, 0}, /* not at the top of the tree */
        /* The end, all. */
        {10, 1280, 8, 2, 1, 1, 0, 1, 1, 2, 0},
        {10, 1280, 0, 10, 1, 1, 0, 1, 1, 10, 0},
        /* Control frames, too. */
        {3, 100, 0, 1, 1, 2, HEARTBEAT, 2, 2, 2, 0},
        {3, 100, 0, 1, 1, 2, NACK, 7, 7, 2, 0},
        {3, 100, 0, 1, 1, 2, ACK, 2, 2, 2, 0},
    };
    for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(cases[0]); i++) {
        const struct scenario *wanted = &cases[i / 2];
        const unsigned frames =
            wanted->len_bytes == 0 ? 1 : (wanted->len_bytes + 127) / PAYLOAD_BYTES;
        set_up();
        config.id = i % 2 == 0 ? ID : UINT64_MAX - 4; /* numbers wrap */
        start(wanted->members);
        lose(wanted->from, wanted->count, wanted->low, wanted->high);
        net.losing_type = wanted->type;
        net.losses_left = wanted->type == 0 ? 0 : 5;
        send_bytes(0, wanted->len_bytes);
        pass(1000 * MS);
        assert_got(0, 1);
        assert_quiet();
        assert_int_equal(net.done_count, 1);
        assert_int_equal(net.losses_left, 0);
        assert_int_equal(group[0].base - FIRST, frames);
        assert_in_range(net.sent[RAWE_GROUP_NACK][0], wanted->nacks_min, wanted->nacks_max);
        assert_int_equal(net.sent[RAWE_GROUP_DATA][0], wanted->unicast);
        assert_int_equal(net.sent[RAWE_GROUP_DATA][1], frames + wanted->multicast);
        assert_int_equal(counted[0].repairs_unicast, wanted->unicast);
        assert_int_equal(counted[0].repairs_multicast, wanted->multicast);
        for (uint32_t k = 1; k < wanted->members; k++) { /* those that had it get it twice */
            assert_int_equal(counted[k].duplicates,
                             k >= wanted->low && k <= wanted->high ? 0 : wanted->multicast);
        }
        tear_down();
    }
}

TEST(rawe_group_send__longer_than_the_window)
{
    start(MEMBERS_MAX); /* two levels of the tree */
    send_bytes(3, DATA_BYTES);
    assert_int_equal(net.done_count, 0);
    assert_int_equal(counted[3].window_stalls, 1);
    arrive();
    assert_got(3, 1);
    assert_int_equal(net.done_count, 1);
    /* The window moves on by the tree alone: one ACK of each member for half a window. */
    const unsigned frames = (DATA_BYTES + PAYLOAD_BYTES - 1) / PAYLOAD_BYTES;
    assert_int_equal(net.sent[RAWE_GROUP_DATA][1], frames);
    assert_int_equal(control_frames(), net.sent[RAWE_GROUP_ACK][0]);
    assert_int_equal(net.sent[RAWE_GROUP_ACK][0] % (MEMBERS_MAX - 1), 0);
    assert_in_range(net.sent[RAWE_GROUP_ACK][0] / (MEMBERS_MAX - 1), frames / 16, frames / 8);
}

TEST(rawe_group_send__short_messages_share_frames)
{
    static const struct {
        unsigned messages;
        unsigned at_once, after_progress; /* frames */
    } cases[] = {{1, 1, 1}, {2, 2, 2}, {3, 2, 3}, {11, 2, 3}, {12, 3, 3}, {13, 3, 4}, {70, 8, 9}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        set_up();
        config.checksum = i % 2 != 0;
        share(3);
        send_many(cases[i].messages);
        assert_int_equal(net.done_count, cases[i].messages);
        assert_int_equal(net.sent[RAWE_GROUP_DATA][1], cases[i].at_once);
        const bool held = cases[i].at_once != cases[i].after_progress;
        assert_int_equal(rawe_group_next_ns(&group[0]) <= net.now_ns, held);
        progress(0, net.now_ns);
        assert_int_equal(net.sent[RAWE_GROUP_DATA][1], cases[i].after_progress);
        pass(100 * MS);
        assert_got(0, cases[i].messages);
        assert_quiet();
        tear_down();
    }
}

TEST(rawe_group_send__in_batches)
{
    static const struct {
        uint32_t len_bytes, window_frames;
        uint32_t from, count, low, high; /* frames that are lost, for members low to high */
        unsigned batches, packets, nacks, unicast, multicast;
    } cases[] = {
        {1, 16, 0, 0, 0, 0, 1, 4, 0, 0, 0},
        {100, 16, 0, 0, 0, 0, 1, 4, 0, 0, 0},
        {101, 16, 0, 0, 0, 0, 1, 4, 0, 0, 0},
        {1000, 32, 0, 0, 0, 0, 1, 4, 0, 0, 0},
        {1001, 32, 0, 0, 0, 0, 2, 8, 0, 0, 0},     /* six frames, and five */
        {1000, 16, 0, 0, 0, 0, 2, 8, 0, 0, 0},     /* at most half of the window */
        {40000, 16, 0, 0, 0, 0, 50, 200, 0, 0, 0}, /* longer than the window */
        {1000, 32, 0, 1, 1, 1, 1, 4, 1, 1, 0},
        {1000, 32, 9, 1, 1, 1, 1, 4, 1, 1, 0},
        {1000, 32, 3, 4, 1, 1, 1, 5, 1, 4, 0},
        {1000, 32, 0, 10, 2, 2, 1, 3, 1, 10, 0},
        {1000, 32, 4, 1, 1, 4, 1, 8, 4, 0, 1},
        {1050, 32, 8, 3, 3, 3, 2, 8, 1, 3, 0}, /* the end, which is short, too */
    };
    for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(cases[0]); i++) {
        const bool wraps = i % 2 != 0;
        const size_t k = i / 2;
        set_up();
        config.id = wraps ? UINT64_MAX - 4 : ID;
        config.window_frames = cases[k].window_frames;
        batch(5);
        lose(cases[k].from, cases[k].count, cases[k].low, cases[k].high);
        send_bytes(0, cases[k].len_bytes);
        pass(1000 * MS);
        assert_got(0, 1);
        assert_quiet();
        assert_int_equal(net.done_count, 1);
        assert_int_equal(group[0].base - FIRST, (cases[k].len_bytes + 99) / SEGMENT_BYTES);
        assert_int_equal(counted[0].batches_sent, cases[k].batches);
        assert_int_equal(net.packets, cases[k].packets);
        assert_int_equal(net.sent[RAWE_GROUP_NACK][0], cases[k].nacks);
        assert_int_equal(net.sent[RAWE_GROUP_DATA][0], cases[k].unicast);
        assert_int_equal(net.sent[RAWE_GROUP_DATA][1], cases[k].multicast);
        tear_down();
    }
}

/** What a receiver has room for: short batches are counted, not their frames. */
TEST(rawe_group_send__many_short_batches)
{
    config.window_frames = 512;
    batch(2);
    unsigned sent = 0;
    for (; net.done_count == sent; sent++) {
        send_bytes(0, 200);
    }
    assert_int_equal(sent - 1, RAWE_GROUP_BATCHES_MAX);
    pass(100 * MS);
    assert_got(0, sent);
    assert_quiet();
}

TEST(rawe_group_send__a_batch_waits_for_the_link_and_for_memory)
{
    batch(2);
    for (int left = 0; left < 2; left++) { /* window, batch */
        unit_allocations_left = left + (left == 0);
        assert_true(try_send(0, 300));
        unit_allocations_left = -1;
        assert_int_equal(net.wire_count, 0);
        net.link_room = 0;
        progress(0, net.now_ns);
        assert_int_equal(net.wire_count, 0);
        net.link_room = UINT32_MAX;
        pass(100 * MS);
        assert_got(0, 1 + (uint32_t)left);
    }
    assert_quiet();
}

/** With no memory for the copy, a frame is repaired later. */
TEST(rawe_group_receive__a_nack_for_a_frame_of_a_batch_without_memory)
{
    batch(2);
    lose(2, 1, 1, 1);
    send_bytes(0, 500);
    arrive();
    progress(1, net.now_ns + MS / 2);
    arrive();
    unit_allocations_left = 0;
    progress(0, net.now_ns + MS / 2);
    unit_allocations_left = -1;
    assert_int_equal(net.sent[RAWE_GROUP_DATA][0], 0);
    pass(100 * MS);
    assert_got(0, 1);
}

TEST(rawe_group_send__behind_messages_that_share_a_frame)
{
    static const struct {
        uint32_t len_bytes;
        bool may_wait;
        unsigned frames; /* with the two in flight */
    } cases[] = {
        {10, true, 2},   {10, false, 3}, {62, true, 3}, /* there is no room for another one */
        {100, false, 4}, {100, true, 4}, {300, true, 6}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        set_up();
        share(2);
        send_many(5);
        net.may_wait = cases[i].may_wait;
        send_bytes(0, cases[i].len_bytes);
        assert_int_equal(net.sent[RAWE_GROUP_DATA][1], cases[i].frames);
        pass(100 * MS);
        assert_got(0, 6);
        tear_down();
    }
}

static void send_again(struct rawe_group_send *send)
{
    if (net.done_count++ != 40) {
        send->data += send->len_bytes;
        assert_true(rawe_group_send(&group[0], send, net.now_ns));
    }
}

/** A frame is what comes in: it may ask for an answer, and the program has let the group run. */
TEST(rawe_group_receive__sends_what_is_held_back)
{
    share(3);
    send_many(5);
    send_bytes(2, 10);
    net.absent[1] = net.absent[2] = true; /* their answers do not count */
    arrive();
    assert_int_equal(net.sent[RAWE_GROUP_DATA][1], 3);
    net.absent[1] = net.absent[2] = false;
    send_bytes(1, 10);
    arrive();
    assert_int_equal(net.sent[RAWE_GROUP_DATA][1], 5);
}

/** Each member's frames acknowledge the others': nothing else is needed to keep windows open. */
TEST(rawe_group_send__all_members_at_once)
{
    start(4);
    for (unsigned k = 0; k < 200; k++) {
        for (uint32_t i = 0; i < config.members; i++) {
            send_bytes(i, 100);
        }
        arrive();
    }
    for (uint32_t i = 0; i < config.members; i++) {
        assert_got(i, 200);
        assert_int_equal(counted[i].window_stalls, 0);
    }
    assert_int_equal(control_frames(), 0);
}

TEST(rawe_group_send__from_done)
{
    struct rawe_group_send send = {.done = send_again, .data = data, .len_bytes = 10};
    start(2);
    net.sent_bytes[0] = 41 * 10;
    assert_true(rawe_group_send(&group[0], &send, net.now_ns));
    pass(100 * MS);
    assert_got(0, 41);
}

TEST(rawe_group_send__without_memory)
{
    start(2);
    for (int left = 0; left < 3; left++) { /* record of the members, window, frame */
        unit_allocations_left = left;
        const bool taken = try_send(0, 10);
        unit_allocations_left = -1;
        assert_int_equal(taken, left != 0);
    }
    assert_int_equal(net.done_count, 1); /* the first has waited, the second waits */
    pass(100 * MS);
    assert_int_equal(net.done_count, 2);
    assert_got(0, 2);
}

TEST(rawe_group_receive__the_same_nack_again)
{
    static const struct {
        uint64_t pause_ns;
        unsigned resent;
    } cases[] = {{0, 1}, {0, 1}, {0, 1}, {RAWE_GROUP_HOLD_NS, 2}}; /* it may be lost */
    start(4);
    send_bytes(0, 100);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        net.now_ns += cases[i].pause_ns;
        forge(
            0,
            (struct rawe_group_header){RAWE_GROUP_NACK, 0, 1, config.key, ID, 0, 1, 0, FIRST, 0, 0},
            (const uint8_t[]){1});
        progress(0, net.now_ns + RAWE_GROUP_COLLECT_NS);
        assert_int_equal(net.resent, cases[i].resent);
        assert_int_equal(counted[0].repairs_unicast, cases[i].resent);
    }
}

/** One field of a frame that member 0 would take is changed. */
TEST(rawe_group_receive__forged_frames)
{
    enum { DATA = RAWE_GROUP_DATA, NACK = RAWE_GROUP_NACK, NONE = RAWE_GROUP_NO_ROOT };
    const uint32_t key = config.key, first = FIRST;
    struct rawe_group_counters *counters = &counted[0];
    const struct {
        struct rawe_group_header header;
        const uint64_t *counter;
    } cases[] = {
        {{DATA, 0x80, 1, key, ID, first, 8, NONE, 0, 16, 0}, &counters->dropped_decode},
        {{DATA, RAWE_FLAG_CHECKSUM, 1, key, ID, first, 8, NONE, 0, 16, 0},
         &counters->dropped_checksum},
        {{DATA, 0, 3, key, ID, first, 8, NONE, 0, 16, 0}, &counters->dropped_member},
        {{DATA, 0, 0, key, ID, first, 8, NONE, 0, 16, 0}, &counters->dropped_member},
        {{DATA, 0, 1, key + 1, ID, first, 8, NONE, 0, 16, 0}, &counters->dropped_key},
        {{DATA, 0, 1, key, ID + 1, first, 8, NONE, 0, 16, 0}, &counters->dropped_group},
        {{DATA, 0, 1, key, ID, first + 16, 8, NONE, 0, 16, 0}, &counters->dropped_outside},
        {{DATA, 0, 1, key, ID, first - 1, 8, NONE, 0, 16, 0}, &counters->duplicates},
        {{DATA, RAWE_GROUP_FLAG_SHARED, 1, key, ID, first, 8, NONE, 0, 8, 0},
         &counters->dropped_decode}, /* the first message would be 256 bytes */
        /* We have sent nothing. */
        {{DATA, 0, 1, key, ID, first, 8, 0, first + 1, 16, 0}, &counters->dropped_outside},
        {{NACK, 0, 1, key, ID, 0, 1, 0, first, 0, 0}, &counters->dropped_outside},
        {{NACK, 0, 1, key, ID, 0, 1, 2, first, 0, 0}, &counters->dropped_member}, /* not for us */
        {{RAWE_GROUP_ACK, 0, 1, key, ID, 0, 0, 3, first, 0, 0}, &counters->dropped_member},
        {{RAWE_GROUP_HEARTBEAT, 0, 1, key, ID, first + 17, 0, NONE, 0, 0, 0},
         &counters->dropped_outside},
        /* Batches of a frame. */
        {{DATA, RAWE_GROUP_FLAG_SHARED, 1, key, ID, first, 8, NONE, 0, 16, 8},
         &counters->dropped_decode},
        {{DATA, 0, 1, key, ID, first, 8, NONE, 0, 7, 8}, &counters->dropped_decode},
        {{DATA, 0, 3, key, ID, first, 8, NONE, 0, 16, 8}, &counters->dropped_member},
        {{DATA, 0, 0, key, ID, first, 8, NONE, 0, 16, 8}, &counters->dropped_member},
        {{DATA, 0, 1, key + 1, ID, first, 8, NONE, 0, 16, 8}, &counters->dropped_key},
        {{DATA, 0, 1, key, ID + 1, first, 8, NONE, 0, 16, 8}, &counters->dropped_group},
        {{DATA, 0, 1, key, ID, first + 16, 8, NONE, 0, 16, 8}, &counters->dropped_outside},
        {{DATA, 0, 1, key, ID, first + 14, 8, NONE, 0, 16, 3}, &counters->dropped_outside},
        {{DATA, 0, 1, key, ID, first - 1, 8, NONE, 0, 16, 8}, &counters->duplicates},
    };
    start(3);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const uint64_t before = *cases[i].counter;
        forge(0, cases[i].header, (const uint8_t[8]){1});
        assert_int_equal(*cases[i].counter, before + 1);
        assert_int_equal(net.got_bytes[0][1], 0);
        assert_int_equal(group[0].repair_ns, 0);
    }
    /* One that is taken; the second part then claims to be of another message. */
    net.sent_bytes[1] = 16;
    forge(0, (struct rawe_group_header){DATA, 0, 1, key, ID, first, 8, NONE, 0, 16, 0}, data);
    forge(0, (struct rawe_group_header){DATA, 0, 1, key, ID, first + 1, 8, NONE, 0, 17, 0},
          data + 8);
    assert_int_equal(counters->dropped_fragment, 1);
    forge(0,
          (struct rawe_group_header){DATA, RAWE_GROUP_FLAG_SHARED, 1, key, ID, first + 1, 8, NONE,
                                     0, 8, 0},
          (const uint8_t[8]){0, 6});
    assert_int_equal(counters->dropped_fragment, 2);
    assert_int_equal(net.got_bytes[0][1], 8);
    assert_int_equal(group[0].stored, 0);
}

TEST(rawe_group_receive__checksums)
{
    config.checksum = true;
    start(2);
    forge(0,
          (struct rawe_group_header){RAWE_GROUP_DATA, 0, 1, config.key, ID, FIRST, 8,
                                     RAWE_GROUP_NO_ROOT, 0, 16, 0},
          data);
    assert_int_equal(counted[0].dropped_checksum, 1);
}

TEST(rawe_group_next_ns__nothing_to_do_once_all_is_stable)
{
    start(4);
    assert_quiet();
    send_bytes(0, 100);
    assert_int_equal(rawe_group_next_ns(&group[0]), net.now_ns + RAWE_GROUP_ANNOUNCE_NS);
    assert_non_null(group[0].window);
    pass(100 * MS);
    assert_quiet();
    assert_int_equal(net.sent[RAWE_GROUP_HEARTBEAT][1], 2); /* says what there is, asks */
    assert_int_equal(net.sent[RAWE_GROUP_ACK][0], 3);
}

/** Loses the first ACK of the last member, which is a leaf of the tree. No member is asked by name. */
static bool lose_first_ack_of_leaf(struct in_flight *flight, uint32_t receiver)
{
    const bool heartbeat = flight->header.type == RAWE_GROUP_HEARTBEAT;
    const bool ack = flight->header.type == RAWE_GROUP_ACK;
    assert_false(heartbeat && flight->header.payload_bytes != 0);
    return ack && flight->from == MEMBERS_MAX - 1 && net.losses_left-- == 1;
}

/** An ACK that is lost keeps back those above it: the whole tree is asked again, at once. */
TEST(rawe_group_progress__asks_the_tree_again)
{
    start(MEMBERS_MAX);
    net.losses_left = 1;
    net.loses = lose_first_ack_of_leaf;
    send_bytes(0, 100);
    pass(RAWE_GROUP_ANNOUNCE_NS + 3 * RAWE_GROUP_HEARTBEAT_NS);
    assert_quiet();
    assert_int_equal(net.sent[RAWE_GROUP_HEARTBEAT][1], 3);
}

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

/** ... and what is missing is asked for, without a heartbeat. */
TEST(rawe_group_stream_receive__a_gap_after_a_long_time)
{
    start(2);
    send_bytes(0, 10);
    pass(100 * MS);
    group[1].members[0].stream->nack_end += 0x7FFFFFFF;
    send_bytes(0, 10);
    pass(100 * MS);
    lose(2, 1, 1, 1);
    send_bytes(0, 3 * PAYLOAD_BYTES);
    memset(net.sent, 0, sizeof(net.sent));
    pass(RAWE_GROUP_NACK_NS + 2 * RAWE_GROUP_SPREAD_NS);
    assert_int_equal(counted[1].nacks_sent, 1);
    assert_int_equal(net.sent[RAWE_GROUP_HEARTBEAT][1], 0);
    pass(100 * MS);
    assert_got(0, 3);
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
