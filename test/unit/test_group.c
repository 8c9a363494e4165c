/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of group delivery: the whole group, the root's side, and a member's reception.
 */
#include "group/rawe_group_stream.h"

#include <stdlib.h>
#include <string.h>

#include "base/rawe_crc32c.h"
#include "unit_alloc.h"
#include "unit_group.h"

FIXTURE(set_up, tear_down);

TEST(rawe_group_send__to_all_members)
{
    static const struct scenario {
        uint32_t members, len_bytes;
        uint32_t from, count, low, high; /* frames lost by members low to high */
        unsigned nacks, repairs;
    } cases[] = {
        /* Messages of several lengths, nothing lost. */
        {2, 0, 0, 0, 0, 0, 0, 0},
        {4, 1, 0, 0, 0, 0, 0, 0},
        {4, 127, 0, 0, 0, 0, 0, 0},
        {3, 128, 0, 0, 0, 0, 0, 0},
        {3, 129, 0, 0, 0, 0, 0, 0},
        {3, 4000, 0, 0, 0, 0, 0, 0},
        /* A gap at one member, at two, and at seven. */
        {10, 1280, 3, 2, 1, 1, 1, 2},
        {10, 1280, 3, 1, 1, 2, 2, 2},
        {10, 1280, 3, 1, 1, 7, 7, 7},
        {20, 3000, 3, 1, 12, 12, 1, 1}, /* a member deep in the tree */
        /* The last frames, or all, are lost at one member or at all; a STATUS reveals that. */
        {10, 1280, 8, 2, 1, 1, 1, 2},
        {10, 1280, 0, 10, 1, 1, 1, 10},
        {3, 0, 0, 1, 1, 2, 2, 2},
        {20, 1280, 0, 10, 0, 19, 19, 190},
        {3, 4000, 0, 100, 1, 1, 4, 32}, /* two windows */
    };
    for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(cases[0]); i++) {
        const struct scenario *wanted = &cases[i / 2];
        const unsigned frames =
            wanted->len_bytes == 0 ? 1 : (wanted->len_bytes + 127) / PAYLOAD_BYTES;
        set_up();
        config.id = i % 2 == 0 ? ID : UINT64_MAX - 4; /* sequence numbers wrap */
        start(wanted->members);
        lose(wanted->from, wanted->count, wanted->low, wanted->high);
        send_bytes(0, wanted->len_bytes);
        pass(1000 * MS);
        assert_got(0, 1);
        assert_quiet();
        assert_int_equal(net.done_count, 1);
        assert_int_equal(group[0].base - FIRST, frames);
        assert_int_equal(net.frames, frames);
        assert_int_equal(counted[0].repairs_sent, wanted->repairs);
        if (frames <= config.window_frames) {
            assert_int_equal(net.sent[RAWE_GROUP_NACK], wanted->nacks);
        }
        tear_down();
    }
}

TEST(rawe_group_send__short_messages_share_frames)
{
    static const struct {
        unsigned messages;
        unsigned at_once, after_progress; /* frames */
    } cases[] = {{1, 1, 1}, {2, 2, 2}, {3, 2, 3}, {11, 2, 3}, {12, 3, 3}, {13, 3, 4}, {70, 8, 9}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        set_up();
        share(3);
        send_many(cases[i].messages);
        assert_int_equal(net.done_count, cases[i].messages);
        assert_int_equal(net.frames, cases[i].at_once);
        const bool held = cases[i].at_once != cases[i].after_progress;
        assert_int_equal(rawe_group_next_ns(&group[0]) <= net.now_ns, held);
        progress(0, net.now_ns);
        assert_int_equal(net.frames, cases[i].after_progress);
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
        uint32_t from, count, low, high; /* frames lost by members low to high */
        unsigned batches, packets, nacks, repairs;
    } cases[] = {
        {1, 16, 0, 0, 0, 0, 1, 4, 0, 0},
        {100, 16, 0, 0, 0, 0, 1, 4, 0, 0},
        {101, 16, 0, 0, 0, 0, 1, 4, 0, 0},
        {1000, 32, 0, 0, 0, 0, 1, 4, 0, 0},
        {1001, 32, 0, 0, 0, 0, 2, 8, 0, 0},     /* batches of six and five frames */
        {1000, 16, 0, 0, 0, 0, 2, 8, 0, 0},     /* a batch is at most half a window */
        {40000, 16, 0, 0, 0, 0, 50, 200, 0, 0}, /* longer than the window */
        {1000, 32, 0, 1, 1, 1, 1, 4, 1, 1},
        {1000, 32, 9, 1, 1, 1, 1, 4, 1, 1},
        {1000, 32, 3, 4, 1, 1, 1, 5, 1, 4},
        {1000, 32, 0, 10, 2, 2, 1, 3, 1, 10},
        {1000, 32, 4, 1, 1, 4, 1, 8, 4, 4},
        {1050, 32, 8, 3, 3, 3, 2, 8, 1, 3}, /* up to the short last frame */
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
        assert_int_equal(net.sent[RAWE_GROUP_NACK], cases[k].nacks);
        assert_int_equal(counted[0].repairs_sent, cases[k].repairs);
        assert_int_equal(net.frames, 0);
        tear_down();
    }
}

/** At most RAWE_GROUP_BATCHES_MAX batches are outstanding, however short they are. */
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

static void send_again(struct rawe_group_send *send)
{
    if (net.done_count++ != 40) {
        send->data += send->len_bytes;
        assert_true(rawe_group_send(&group[0], send, net.now_ns));
    }
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
    for (int left = 0; left < 3; left++) { /* allocations: members, window, frame */
        unit_allocations_left = left;
        const bool taken = try_send(0, 10);
        unit_allocations_left = -1;
        assert_int_equal(taken, left != 0);
    }
    assert_int_equal(net.done_count, 1); /* the first send has completed, the second waits */
    pass(100 * MS);
    assert_int_equal(net.done_count, 2);
    assert_got(0, 2);
}

/** A control message lost for lack of memory is replaced once the root or a member asks. */
TEST(rawe_group_ask__heals_what_was_lost)
{
    static const uint8_t types[] = {RAWE_GROUP_STATUS, RAWE_GROUP_NACK, RAWE_GROUP_REPAIR,
                                    RAWE_GROUP_ACK};
    for (size_t i = 0; i < 2 * sizeof(types); i++) {
        const bool as_root = i % 2 != 0;
        set_up();
        start(3);
        lose(0, 1, 1, 2);
        net.losing_type = types[i / 2];
        net.losses_left = 2;
        send_bytes(0, 100);
        pass(1000 * MS);
        assert_int_equal(net.losses_left, 0);
        assert_false(rawe_group_done(&group[0]));
        rawe_group_ask(&group[as_root ? 0 : 1], as_root ? RAWE_GROUP_ALL : 0);
        rawe_group_ask(&group[as_root ? 0 : 2], as_root ? RAWE_GROUP_ALL : 0);
        pass(1000 * MS);
        assert_got(0, 1);
        assert_true(rawe_group_done(&group[0]));
        tear_down();
    }
}

/** A member leaves once it is done, so it must owe an acknowledgement until it has sent it. */
TEST(rawe_group_done__not_while_an_acknowledgement_lacks_memory)
{
    start(10); /* member 9 is below member 1 in the tree */
    net.refused_type = RAWE_GROUP_ACK;
    net.refusals_left = 8;
    send_bytes(0, 100);
    pass(1000 * MS);
    assert_int_equal(net.refusals_left, 0); /* member 1 waits for member 9 */
    for (uint32_t i = 0; i < 10; i++) {
        assert_false(rawe_group_done(&group[i]));
        assert_int_equal(counted[i].acks_sent, 0);
    }
    rawe_group_ask(&group[0], RAWE_GROUP_ALL);
    pass(1000 * MS);
    assert_int_equal(net.sent[RAWE_GROUP_ACK], 9);
    assert_quiet();
}

/** Members that have acknowledged may have left. */
TEST(rawe_group_ask__only_those_that_have_not_acknowledged)
{
    start(10);
    net.refused_type = RAWE_GROUP_ACK;
    net.refusals_left = 1;
    send_bytes(0, 100);
    pass(1000 * MS);
    assert_true(rawe_group_done(&group[1]) && !rawe_group_done(&group[2]));
    memset(net.sent, 0, sizeof(net.sent));
    rawe_group_ask(&group[0], RAWE_GROUP_ALL);
    arrive();
    assert_int_equal(net.sent[RAWE_GROUP_STATUS], 1);
    assert_quiet();
    rawe_group_ask(&group[0], RAWE_GROUP_ALL);
    assert_int_equal(net.sent[RAWE_GROUP_STATUS], 1);
}

TEST(rawe_group_ask__whom_it_waits_for_and_the_next)
{
    start(4);
    rawe_group_ask(&group[2], 1);
    assert_int_equal(net.wire_count, 2); /* to members 1 and 3 */
    assert_int_equal(net.sent[RAWE_GROUP_WAIT], 2);
    rawe_group_ask(&group[2], 3);
    assert_int_equal(net.sent[RAWE_GROUP_WAIT], 3); /* member 3 is both awaited and next */
    arrive();
    assert_int_equal(control_messages(), 3);
    net.absent[0] = net.absent[1] = net.absent[3] = true;
    send_bytes(2, 17 * PAYLOAD_BYTES);
    memset(net.sent, 0, sizeof(net.sent));
    rawe_group_ask(&group[2], RAWE_GROUP_ALL);
    assert_int_equal(net.sent[RAWE_GROUP_WAIT], 0);
    assert_int_equal(net.sent[RAWE_GROUP_STATUS], 3);
}

/** If a member misses nearly all frames for over a second, the next message is the last one. */
TEST(rawe_group_send__the_last_message_where_a_member_is_deaf)
{
    static const struct {
        uint32_t from, count; /* frames that member 2 does not receive */
        unsigned messages;
        uint64_t pause_ns;
        bool batches, last;
    } cases[] = {
        {0, 1000, 20, 100 * MS, false, true}, {0, 1000, 20, 100 * MS, true, true},
        {0, 1000, 20, 10 * MS, false, false}, {0, 1000, 5, 500 * MS, false, false},
        {0, 6, 30, 100 * MS, false, false},   {30, 1000, 60, 100 * MS, false, true},
        {0, 7, 8, 190 * MS, false, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        set_up();
        cases[i].batches ? batch(4) : start(4);
        lose(cases[i].from, cases[i].count, 2, 2);
        for (unsigned k = 0; k < cases[i].messages; k++) {
            send_bytes(0, 100);
            pass(cases[i].pause_ns);
        }
        assert_got(0, cases[i].messages);
        assert_int_equal(group[0].deaf, cases[i].last ? 2 : RAWE_GROUP_ALL);
        for (uint32_t k = 1; k < 4; k++) {
            assert_int_equal(net.got_last[k] != 0, cases[i].last);
        }
        tear_down();
    }
}

/** A member that received half of a burst, and none of the few frames sent later, is not deaf. */
TEST(rawe_group_send__no_last_message_where_the_half_is_heard)
{
    start(4);
    lose(4, 8, 2, 2);
    for (unsigned i = 0; i < 16; i++) {
        send_bytes(0, 100);
    }
    for (unsigned i = 0; i < 3; i++) {
        pass(500 * MS);
        lose(16 + i, 1, 2, 2);
        send_bytes(0, 100);
    }
    pass(100 * MS);
    assert_got(0, 19);
    assert_int_equal(group[0].deaf, RAWE_GROUP_ALL);
}

/** Member 2 keeps requesting the same frames but receives all others, so it is not deaf. */
TEST(rawe_group_send__no_last_message_where_repairs_are_lost)
{
    start(4);
    lose(4, 3, 2, 2);
    net.losing_type = RAWE_GROUP_REPAIR;
    for (unsigned i = 0; i < 12; i++) {
        send_bytes(0, 100);
    }
    for (unsigned i = 0; i < 8; i++) {
        net.losses_left = i < 7 ? 3 : 0;
        rawe_group_ask(&group[2], 0);
        pass(200 * MS);
        assert_int_equal(net.losses_left, 0);
    }
    assert_got(0, 12);
    assert_int_equal(group[0].deaf, RAWE_GROUP_ALL);
}

/** A forged frame, or a forged control message from member `from`, and the counter of its drop. */
struct forgery {
    uint32_t from; /**< 0: a frame */
    struct rawe_group_header frame;
    struct rawe_group_control control;
    size_t counter;
};

#define COUNTS(name) .counter = offsetof(struct rawe_group_counters, name)
/** A forged frame with 8 bytes of data. */
#define FRAME(flags, member, id, sequence, total_bytes, segment_bytes, name)                \
    {                                                                                       \
        .frame = {flags, member, 8, id, sequence, total_bytes, segment_bytes}, COUNTS(name) \
    }
#define CONTROL(from_, type_, root_, sequence_, name) \
    {                                                 \
        .from = (from_), COUNTS(name), .control = {   \
            .type = RAWE_GROUP_##type_,               \
            .root = (root_),                          \
            .sequence = (sequence_)                   \
        }                                             \
    }
#define REPAIR(from_, root_, sequence_, bytes_, piece_, data_bytes_, name) \
    {                                                                      \
        .from = (from_), COUNTS(name), .control = {                        \
            .type = RAWE_GROUP_REPAIR,                                     \
            .root = (root_),                                               \
            .sequence = (sequence_),                                       \
            .total_bytes = (bytes_),                                       \
            .payload_bytes = (bytes_),                                     \
            .piece = (piece_),                                             \
            .data_bytes = (data_bytes_)                                    \
        }                                                                  \
    }

/** The connection identifies the sender of a control message; the content may be forged. */
TEST(rawe_group_receive__forgeries_are_counted)
{
    const uint32_t first = FIRST;
    const struct forgery cases[] = {
        FRAME(0x80, 1, ID, first, 16, 0, dropped_decode),
        FRAME(0, 3, ID, first, 16, 0, dropped_member),
        FRAME(0, 0, ID, first, 16, 0, dropped_member),
        FRAME(0, 1, ID + 1, first, 16, 0, dropped_group),
        FRAME(0, 1, ID, first + 16, 16, 0, dropped_outside),
        FRAME(0, 1, ID, first - 1, 16, 0, duplicates),
        /* Batches of one frame. */
        FRAME(RAWE_GROUP_FLAG_SHARED, 1, ID, first, 16, 8, dropped_decode),
        FRAME(0, 1, ID, first, 7, 8, dropped_decode),
        FRAME(0, 3, ID, first, 16, 8, dropped_member),
        FRAME(0, 0, ID, first, 16, 8, dropped_member),
        FRAME(0, 1, ID + 1, first, 16, 8, dropped_group),
        FRAME(0, 1, ID, first + 16, 16, 8, dropped_outside),
        FRAME(0, 1, ID, first + 14, 16, 3, dropped_outside),
        FRAME(0, 1, ID, first - 1, 16, 8, duplicates),
        /* The first message would be 256 bytes long. */
        FRAME(RAWE_GROUP_FLAG_SHARED, 1, ID, first, 8, 0, dropped_fragment),
        {.from = 1, .control = {.type = 0}, COUNTS(dropped_decode)},
        CONTROL(1, CONTROL_END, 0, 0, dropped_decode),
        {.from = 1, .control = {.type = RAWE_GROUP_ACK, .flags = 1}, COUNTS(dropped_decode)},
        CONTROL(1, NACK, 0, first, dropped_decode),
        CONTROL(1, ACK, 3, first, dropped_member),
        CONTROL(3, ACK, 0, first, dropped_member),
        /* We have sent no frame; we are the root; member 2 is not below us in member 1's tree. */
        CONTROL(1, ACK, 0, first + 1, dropped_outside),
        {.from = 1,
         .control = {.type = RAWE_GROUP_NACK, .sequence = first, .data_bytes = 1},
         COUNTS(dropped_outside)},
        CONTROL(1, STATUS, 0, first, dropped_member),
        REPAIR(1, 0, first, 8, 0, 8, dropped_member),
        CONTROL(2, ACK, 1, first, dropped_member),
        CONTROL(2, WAIT, 1, first, dropped_member),
        CONTROL(1, STATUS, 1, first + 17, dropped_outside),
        /* REPAIRs not from the root, beyond the window, or with pieces beyond the frame's end. */
        REPAIR(2, 1, first, 8, 0, 8, dropped_member),
        REPAIR(1, 1, first + 16, 8, 0, 8, dropped_outside),
        REPAIR(1, 1, first, 8, 1, 0, dropped_decode),
        REPAIR(1, 1, first, 8, 0, 7, dropped_decode),
        REPAIR(1, 1, first, UINT16_MAX, 0, RAWE_GROUP_PIECE_BYTES, dropped_decode),
    };
    start(3);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        static const uint8_t payload[RAWE_GROUP_PIECE_BYTES] = {1};
        const uint64_t *counter = (const void *)((const uint8_t *)&counted[0] + cases[i].counter);
        const uint64_t before = *counter;
        if (cases[i].from != 0) {
            forge_control(0, cases[i].from, cases[i].control, payload);
        } else {
            forge(0, cases[i].frame, payload);
        }
        assert_int_equal(*counter, before + 1);
        assert_int_equal(net.got_bytes[0][1], 0);
    }
}

/** After a valid first part, a forged second part claims to belong to another message. */
TEST(rawe_group_receive__a_part_of_another_message)
{
    const uint32_t first = FIRST;
    start(3);
    net.sent_bytes[1] = 16;
    forge(0, (struct rawe_group_header){0, 1, 8, ID, first, 16, 0}, data);
    forge(0, (struct rawe_group_header){0, 1, 8, ID, first + 1, 17, 0}, data + 8);
    forge(0, (struct rawe_group_header){RAWE_GROUP_FLAG_SHARED, 1, 8, ID, first + 1, 8, 0},
          (const uint8_t[8]){0, 6});
    assert_int_equal(counted[0].dropped_fragment, 2);
    assert_int_equal(net.got_bytes[0][1], 8);
    assert_null(group[0].members[1].stream->stored);
    /* The valid second part is still accepted. */
    forge(0, (struct rawe_group_header){0, 1, 8, ID, first + 1, 16, 0}, data + 8);
    assert_int_equal(net.got_bytes[0][1], 16);
}

TEST(rawe_group_receive_control__pieces_of_one_frame_that_tell_different_lengths)
{
    struct rawe_group_control piece = {.type = RAWE_GROUP_REPAIR,
                                       .root = 1,
                                       .sequence = FIRST,
                                       .total_bytes = 1000,
                                       .payload_bytes = 1000,
                                       .data_bytes = RAWE_GROUP_PIECE_BYTES};
    start(3);
    forge_control(0, 1, piece, data);
    piece.payload_bytes = piece.total_bytes = 2000;
    piece.piece = 4;
    forge_control(0, 1, piece, data);
    assert_int_equal(net.got_bytes[0][1], 0);
}

/** A frame with any changed bit is dropped. */
TEST(rawe_group_receive__a_wrong_checksum)
{
    uint8_t bytes[RAWE_GROUP_HEADER_BYTES + 8 + RAWE_CHECKSUM_BYTES];
    const struct rawe_group_header header = {0, 1, 8, ID, FIRST, 8, 0};
    const size_t covered_bytes = sizeof(bytes) - RAWE_CHECKSUM_BYTES;
    start(2);
    net.sent_bytes[1] = 8;
    rawe_group_header_encode(bytes, &header);
    memcpy(bytes + RAWE_GROUP_HEADER_BYTES, data, 8);
    rawe_checksum_encode(bytes + covered_bytes, rawe_crc32c(0, bytes, covered_bytes));
    for (unsigned bit = 0; bit < 8 * sizeof(bytes); bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        receive(0, bytes, sizeof(bytes));
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_int_equal(counted[0].dropped_checksum + counted[0].dropped_decode, 8 * sizeof(bytes));
    assert_int_equal(net.got_bytes[0][1], 0);
    receive(0, bytes, sizeof(bytes));
    assert_int_equal(net.got_bytes[0][1], 8);
}

TEST(rawe_group_next_ns__nothing_to_do_once_all_is_acknowledged)
{
    start(4);
    assert_quiet();
    send_bytes(0, 100);
    assert_int_equal(rawe_group_next_ns(&group[0]), net.now_ns + RAWE_GROUP_STATUS_NS);
    assert_non_null(group[0].window);
    arrive();
    assert_false(rawe_group_done(&group[0]) || rawe_group_done(&group[1]));
    pass(100 * MS);
    assert_quiet();
    assert_int_equal(net.sent[RAWE_GROUP_STATUS], 3);
    assert_int_equal(net.sent[RAWE_GROUP_ACK], 3);
}

/** State that is half of all sequence numbers old is ignored when its tree is used again. */
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
    assert_int_equal(net.sent[RAWE_GROUP_ACK], MEMBERS_MAX - 1);
    assert_int_equal(control_messages(), MEMBERS_MAX - 1);
}

/** Data is received directly into place only if its frame is next and no part of it has arrived. */
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
        const struct rawe_group_header header = {.sender = 0,
                                                 .id = ID,
                                                 .sequence = FIRST + cases[i].sequence,
                                                 .payload_bytes = 300,
                                                 .total_bytes = cases[i].total_bytes,
                                                 .segment_bytes = SEGMENT_BYTES};
        set_up();
        batch(2);
        /* All frames are lost; the STATUS alone creates the stream. */
        lose(cases[i].begun ? 2 : 0, 6, 1, 1);
        send_bytes(0, 600);
        arrive();
        progress(0, group[0].status_ns);
        arrive();
        assert_int_equal(rawe_group_place(&group[1], &header) != NULL, cases[i].placed);
        tear_down();
    }
}

/** Some switches block frames, but not batches, which are IPv4 packets. Repairs prove nothing. */
TEST(rawe_group_stream_receive__batches_do_not_tell_that_frames_are_heard)
{
    batch(3);
    send_bytes(0, 1000);
    pass(100 * MS);
    net.batches = false;
    lose(group[0].next - FIRST, 1, 1, 1);
    for (uint32_t messages = 1; messages <= 3; messages++) {
        assert_got(0, messages);
        assert_int_equal(net.heard[1], messages == 3);
        assert_int_equal(net.heard[2], messages >= 2);
        send_bytes(0, 100);
        pass(100 * MS);
    }
}

TEST(rawe_group_stream_receive__without_memory)
{
    start(2);
    lose(0, 1, 1, 1);
    for (int left = 0; left < 4; left++) { /* allocations: members, stream, frame, ring */
        send_bytes(0, PAYLOAD_BYTES);
        unit_allocations_left = left;
        arrive();
        unit_allocations_left = -1;
    }
    assert_int_equal(counted[1].no_buffer, 2);
    pass(300 * MS);
    assert_got(0, 4);
}

/** A repair that was dropped for lack of memory is requested again. */
TEST(rawe_group_stream_repair__without_memory)
{
    config.payload_bytes = 1000;
    start(2);
    lose(0, 1, 1, 1);
    send_bytes(0, 1500);
    arrive();
    progress(1, net.now_ns + MS);
    while (net.wire_count != 3) { /* until the NACK has caused repairs */
        unit_allocations_left = -1;
        arrive_one();
    }
    unit_allocations_left = 0;
    arrive_one();
    unit_allocations_left = -1;
    pass(10 * MS);
    assert_got(0, 1);
    assert_int_equal(net.sent[RAWE_GROUP_NACK], 2);
}

/* Encoding of control messages and of shared frames: base/rawe_wire.c. */

TEST_WITH(unit_no_fixture, rawe_group_control_encode__bytes)
{
    const struct rawe_group_control control = {.type = RAWE_GROUP_REPAIR,
                                               .flags = RAWE_GROUP_FLAG_ASK,
                                               .root = 0x1234,
                                               .sequence = 0xFFFFFFFE,
                                               .total_bytes = 0x00ABCDEF,
                                               .payload_bytes = 0x0302,
                                               .piece = 2};
    uint8_t bytes[RAWE_GROUP_CONTROL_BYTES_MAX] = {0}, again[RAWE_GROUP_CONTROL_BYTES_MAX];
    struct rawe_group_control decoded;
    rawe_group_control_encode(bytes, &control);
    assert_memory_equal(bytes, "\x04\x01\x12\x34\xFF\xFF\xFF\xFE\x00\xAB\xCD\xEF\x03\x02\x00\x02",
                        RAWE_GROUP_CONTROL_HEADER_BYTES);
    assert_int_equal(
        rawe_group_control_decode(&decoded, bytes, RAWE_GROUP_CONTROL_HEADER_BYTES + 2),
        RAWE_DECODE_OK);
    assert_ptr_equal(decoded.data, bytes + RAWE_GROUP_CONTROL_HEADER_BYTES);
    assert_int_equal(decoded.data_bytes, 2);
    rawe_group_control_encode(again, &decoded);
    assert_memory_equal(again, bytes, RAWE_GROUP_CONTROL_HEADER_BYTES);
}

/** Initializer of a REPAIR that carries a piece of a frame. */
#define PIECE_OF(total, payload, number, data)                                                 \
    {                                                                                          \
        .type = REPAIR, .total_bytes = (total), .payload_bytes = (payload), .piece = (number), \
        .data_bytes = (data)                                                                   \
    }

TEST_WITH(unit_no_fixture, rawe_group_control_decode__types_flags_and_lengths)
{
    enum { ACK = RAWE_GROUP_ACK, NACK, STATUS, REPAIR, WAIT };
    enum { PIECE = RAWE_GROUP_PIECE_BYTES, MOST = RAWE_GROUP_PAYLOAD_MAX };
    static const struct {
        struct rawe_group_control control;
        enum rawe_decode_result result;
    } cases[] = {
        {{.type = 0}, RAWE_DECODE_TYPE},
        {{.type = RAWE_GROUP_CONTROL_END}, RAWE_DECODE_TYPE},
        {{.type = ACK}, RAWE_DECODE_OK},
        {{.type = ACK, .data_bytes = 1}, RAWE_DECODE_LENGTH},
        {{.type = ACK, .flags = 1}, RAWE_DECODE_TYPE},
        {{.type = NACK}, RAWE_DECODE_LENGTH},
        {{.type = NACK, .data_bytes = 1}, RAWE_DECODE_OK},
        {{.type = NACK, .data_bytes = 128}, RAWE_DECODE_OK},
        {{.type = NACK, .data_bytes = 129}, RAWE_DECODE_LENGTH},
        {{.type = STATUS, .flags = RAWE_GROUP_FLAG_AGAIN}, RAWE_DECODE_OK},
        {{.type = STATUS, .flags = 2}, RAWE_DECODE_TYPE},
        {{.type = WAIT}, RAWE_DECODE_OK},
        {{.type = WAIT, .data_bytes = 1}, RAWE_DECODE_LENGTH},
        {{.type = REPAIR}, RAWE_DECODE_OK},
        {{.type = REPAIR, .piece = 1}, RAWE_DECODE_LENGTH},
        {{.type = REPAIR, .flags = 4}, RAWE_DECODE_TYPE},
        {PIECE_OF(400, 400, 0, PIECE), RAWE_DECODE_OK},
        {PIECE_OF(400, 400, 0, PIECE - 1), RAWE_DECODE_LENGTH},
        {PIECE_OF(400, 400, 1, 16), RAWE_DECODE_OK},
        {PIECE_OF(400, 400, 2, 0), RAWE_DECODE_LENGTH},
        {PIECE_OF(399, 400, 1, 16), RAWE_DECODE_LENGTH},
        {PIECE_OF(MOST, MOST, RAWE_GROUP_PIECES_MAX - 1, PIECE), RAWE_DECODE_OK},
        {PIECE_OF(MOST + 1, MOST + 1, 0, PIECE), RAWE_DECODE_LENGTH},
        {{.type = REPAIR, .data_bytes = PIECE + 1}, RAWE_DECODE_SHORT},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint8_t bytes[RAWE_GROUP_CONTROL_BYTES_MAX + 1] = {0};
        struct rawe_group_control decoded;
        rawe_group_control_encode(bytes, &cases[i].control);
        assert_int_equal(rawe_group_control_decode(&decoded, bytes,
                                                   RAWE_GROUP_CONTROL_HEADER_BYTES +
                                                       cases[i].control.data_bytes),
                         cases[i].result);
    }
    for (size_t len_bytes = 0; len_bytes < RAWE_GROUP_CONTROL_HEADER_BYTES; len_bytes++) {
        uint8_t *bytes = calloc(1, len_bytes + (len_bytes == 0)); /* of the exact length */
        struct rawe_group_control decoded;
        bytes[0] = ACK;
        assert_int_equal(rawe_group_control_decode(&decoded, bytes, len_bytes), RAWE_DECODE_SHORT);
        free(bytes);
    }
}

TEST_WITH(unit_no_fixture, rawe_group_shared_next__messages_fill_the_payload)
{
    static const struct {
        uint32_t payload_bytes, total_bytes;
        const char *payload;
        unsigned messages; /* 0: refused */
    } cases[] = {
        {2, 2, "\0\0", 1},    {5, 5, "\0\3abc", 1},   {10, 10, "\0\3abc\0\0\0\1d", 3},
        {1, 1, "\0", 0},      {5, 6, "\0\3abc", 0},   {5, 5, "\0\4abc", 0},
        {5, 5, "\1\3abc", 0}, {6, 6, "\0\3abc\0", 0}, {7, 7, "\0\3abc\0\1", 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint8_t bytes[RAWE_GROUP_HEADER_BYTES + 10 + RAWE_CHECKSUM_BYTES] = {0};
        const struct rawe_group_header header = {.flags = RAWE_GROUP_FLAG_SHARED,
                                                 .payload_bytes = (uint16_t)cases[i].payload_bytes,
                                                 .total_bytes = cases[i].total_bytes};
        struct rawe_group_header decoded;
        uint8_t *payload = bytes + RAWE_GROUP_HEADER_BYTES;
        rawe_group_header_encode(bytes, &header);
        memcpy(payload, cases[i].payload, cases[i].payload_bytes);
        assert_int_equal(rawe_group_header_decode(&decoded, bytes,
                                                  RAWE_GROUP_HEADER_BYTES + cases[i].payload_bytes +
                                                      (size_t)RAWE_CHECKSUM_BYTES) ==
                                 RAWE_DECODE_OK &&
                             rawe_group_shared_fits(payload, cases[i].payload_bytes),
                         cases[i].messages != 0);
        uint8_t again[10];
        uint32_t at_bytes = 0, end_bytes = 0, len_bytes;
        const uint8_t *message;
        for (unsigned k = 0; k < cases[i].messages; k++) {
            message =
                rawe_group_shared_next(payload, cases[i].payload_bytes, &at_bytes, &len_bytes);
            assert_non_null(message);
            end_bytes = rawe_group_shared_add(again, end_bytes, message, len_bytes);
            assert_int_equal(end_bytes, at_bytes);
        }
        assert_int_equal(end_bytes, cases[i].messages == 0 ? 0 : cases[i].payload_bytes);
        assert_memory_equal(again, payload, end_bytes);
    }
}
