/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of group delivery: several members on a wire on which each frame can be lost or held back;
 * time is the test's. What the wire and members do by default is checked with each frame.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "group/rawe_group.h"
#include "group/rawe_group_stream.h"
#include "unit_alloc.h"
#include "unit_test.h"

enum {
    MEMBERS_MAX = 20,
    FRAMES_MAX = 4096,
    PAYLOAD_BYTES = 128,
    DATA_BYTES = 40000,
};

#define MS 1000000ull
#define ALL UINT32_MAX
#define ID 0x0123456780000000ull
#define FIRST ((uint32_t)config.id)

struct in_flight {
    uint32_t from, to; /**< to: ALL for a multicast frame */
    struct rawe_group_header header;
    size_t len_bytes;
    uint8_t bytes[RAWE_GROUP_HEADER_BYTES + PAYLOAD_BYTES + RAWE_CHECKSUM_BYTES];
};

static struct rawe_group_config config; /**< a test may change it before start */
static struct rawe_group group[MEMBERS_MAX];
static struct in_flight wire[FRAMES_MAX];
static uint8_t data[DATA_BYTES]; /**< each root's messages are pieces of it, one after the other */

/** What a test begins with is 0, but for what set_up sets. */
static struct {
    uint64_t now_ns;
    unsigned wire_first, wire_count;
    unsigned link_room; /**< frames that the links take before they are full */
    /** Says that a frame is lost on its way to the receiver, and may change it. NULL: none is. */
    bool (*loses)(struct in_flight *flight, uint32_t receiver);
    bool absent[MEMBERS_MAX];              /**< gets nothing, sends nothing */
    bool refuses[MEMBERS_MAX];             /**< delivers nothing for now */
    unsigned sent[RAWE_GROUP_TYPE_END][2]; /**< frames by type, unicast and multicast */
    unsigned resent;
    uint32_t sent_bytes[MEMBERS_MAX];
    /** What a member was given of a root. */
    uint32_t got_bytes[MEMBERS_MAX][MEMBERS_MAX];
    uint32_t got_messages[MEMBERS_MAX][MEMBERS_MAX];
    uint32_t got_parts[MEMBERS_MAX][MEMBERS_MAX];
    bool failed[MEMBERS_MAX][MEMBERS_MAX];
    struct rawe_group_send send[1000];
    unsigned sends, done_count;
    /** DATA that is lost when it is sent first, from a number on, for some members. */
    uint32_t losing_from, losing_count, losing_low, losing_high;
    uint8_t losing_type;  /**< control frames of this type are lost... */
    unsigned losses_left; /**< ... as often as this */
} net;

static uint32_t self_of(const void *context)
{
    return (uint32_t)((const struct rawe_group *)context - group);
}

static struct in_flight *flight_at(unsigned index)
{
    return &wire[(net.wire_first + index) % FRAMES_MAX];
}

static void put_on_wire(uint32_t from, uint32_t to, const struct rawe_bytes *frame)
{
    struct in_flight *flight = flight_at(net.wire_count++);
    assert_true(net.wire_count <= FRAMES_MAX && frame->len_bytes <= sizeof(flight->bytes));
    *flight = (struct in_flight){.from = from, .to = to, .len_bytes = frame->len_bytes};
    memcpy(flight->bytes, frame->base, frame->len_bytes);
    assert_int_equal(rawe_group_header_decode(&flight->header, flight->bytes, flight->len_bytes),
                     RAWE_DECODE_OK);
    net.sent[flight->header.type][to == ALL]++;
    net.resent += (flight->header.flags & RAWE_FLAG_RESENT) != 0;
    net.link_room--;
}

static unsigned multicast(void *context, const struct rawe_bytes *frames, unsigned count)
{
    unsigned taken = 0;
    for (; taken < count && net.link_room != 0; taken++) {
        put_on_wire(self_of(context), ALL, &frames[taken]);
    }
    return taken;
}

static bool unicast(void *context, uint32_t member, const struct rawe_bytes *frame)
{
    if (net.link_room == 0) {
        return false;
    }
    put_on_wire(self_of(context), member, frame);
    return true;
}

static bool deliver(void *context, const struct rawe_group_part *part)
{
    const uint32_t self = self_of(context);
    if (net.refuses[self]) {
        return false;
    }
    uint32_t *bytes = &net.got_bytes[self][part->root];
    assert_true(*bytes + part->len_bytes <= net.sent_bytes[part->root]);
    assert_true(part->len_bytes == 0 || memcmp(part->data, data + *bytes, part->len_bytes) == 0);
    *bytes += part->len_bytes;
    net.got_parts[self][part->root]++;
    net.got_messages[self][part->root] += part->at_bytes + part->len_bytes == part->total_bytes;
    return true;
}

static void note_failed(void *context, uint32_t member)
{
    assert_false(net.failed[self_of(context)][member]);
    net.failed[self_of(context)][member] = true;
}

static void set_up(void)
{
    memset(&net, 0, sizeof(net));
    net.now_ns = MS;
    net.link_room = UINT32_MAX;
    for (size_t i = 0; i < sizeof(data); i++) {
        data[i] = (uint8_t)(i * 29 ^ i >> 8);
    }
    config = (struct rawe_group_config){.id = ID,
                                        .key = 0x5A5A5A5A,
                                        .payload_bytes = PAYLOAD_BYTES,
                                        .window_frames = 16,
                                        .stored_max = 64,
                                        .fail_ns = 10000 * MS,
                                        .deliver = deliver,
                                        .failed = note_failed,
                                        .output = {.multicast = multicast, .unicast = unicast}};
}

static void start(uint32_t members)
{
    config.members = members;
    for (config.self = 0; config.self < members; config.self++) {
        config.context = config.output.context = &group[config.self];
        rawe_group_init(&group[config.self], &config);
    }
}

static void tear_down(void)
{
    unit_allocations_left = -1;
    for (uint32_t i = 0; i < config.members; i++) {
        rawe_group_free(&group[i]);
    }
}

FIXTURE(set_up, tear_down);

/** What a root lets go, all members that are not given up have delivered, and acknowledged. */
static void check(uint32_t root)
{
    const struct rawe_group_member *members = group[root].members;
    for (uint32_t i = 0; members != NULL && i < config.members; i++) {
        if (i != root && !net.failed[root][i]) {
            assert_true(group[root].base - FIRST <= net.got_parts[i][root]);
            assert_false(rawe_sequence_before(members[i].acked, group[root].base));
        }
    }
}

/** All frames come to those they are for. */
static void arrive(void)
{
    while (net.wire_count != 0) {
        struct in_flight flight = *flight_at(0);
        net.wire_first++;
        net.wire_count--;
        for (uint32_t i = 0; i < config.members; i++) {
            if ((flight.to == ALL ? i != flight.from : i == flight.to) && !net.absent[i] &&
                !net.absent[flight.from] && (net.loses == NULL || !net.loses(&flight, i))) {
                rawe_group_receive(&group[i], flight.bytes, flight.len_bytes, net.now_ns);
                check(i);
            }
        }
    }
}

static void forge(uint32_t to, struct rawe_group_header header, const uint8_t *payload)
{
    uint8_t bytes[RAWE_GROUP_HEADER_BYTES + PAYLOAD_BYTES];
    rawe_group_header_encode(bytes, &header);
    memcpy(bytes + RAWE_GROUP_HEADER_BYTES, payload, header.payload_bytes);
    rawe_group_receive(&group[to], bytes, RAWE_GROUP_HEADER_BYTES + header.payload_bytes,
                       net.now_ns);
}

/** Let a member run at a time. */
static void progress(uint32_t member, uint64_t now_ns)
{
    net.now_ns = now_ns;
    rawe_group_progress(&group[member], now_ns);
}

/** Let time pass; each member is called when it wants to be. */
static void pass(uint64_t ns)
{
    const uint64_t end_ns = net.now_ns + ns;
    do {
        uint64_t next_ns = end_ns;
        arrive();
        for (uint32_t i = 0; i < config.members; i++) {
            const uint64_t due_ns = net.absent[i] ? UINT64_MAX : rawe_group_next_ns(&group[i]);
            next_ns = due_ns < next_ns ? due_ns : next_ns;
        }
        next_ns = next_ns > net.now_ns ? next_ns : net.now_ns;
        for (uint32_t i = 0; i < config.members; i++) {
            if (!net.absent[i]) {
                progress(i, next_ns);
            }
        }
        arrive();
    } while (net.now_ns < end_ns);
}

static void done(struct rawe_group_send *send)
{
    assert_in_range(send - net.send, 0, net.sends - 1);
    net.done_count++;
}

/** Send the next piece of data. False: not taken. */
static bool try_send(uint32_t root, uint32_t len_bytes)
{
    struct rawe_group_send *send = &net.send[net.sends++];
    *send = (struct rawe_group_send){
        .done = done, .data = data + net.sent_bytes[root], .len_bytes = len_bytes};
    net.sent_bytes[root] += len_bytes;
    const bool taken = rawe_group_send(&group[root], send, net.now_ns);
    net.sent_bytes[root] -= taken ? 0 : len_bytes;
    return taken;
}

static void send_bytes(uint32_t root, uint32_t len_bytes)
{
    assert_true(try_send(root, len_bytes));
}

/** All members have all messages of `root`. */
static void assert_got(uint32_t root, uint32_t messages)
{
    for (uint32_t i = 0; i < config.members; i++) {
        if (i != root && !net.absent[i]) {
            assert_int_equal(net.got_bytes[i][root], net.sent_bytes[root]);
            assert_int_equal(net.got_messages[i][root], messages);
        }
    }
}

/** All have acknowledged all, and nobody has anything to do. */
static void assert_quiet(void)
{
    for (uint32_t i = 0; i < config.members; i++) {
        assert_true(rawe_group_stable(&group[i]));
        assert_int_equal(group[i].stored, 0);
        assert_int_equal(rawe_group_next_ns(&group[i]), UINT64_MAX);
        assert_null(group[i].window);
    }
}

static unsigned control_frames(void)
{
    return net.sent[RAWE_GROUP_NACK][0] + net.sent[RAWE_GROUP_ACK][0] +
           net.sent[RAWE_GROUP_HEARTBEAT][0] + net.sent[RAWE_GROUP_HEARTBEAT][1];
}

static bool lose_some(struct in_flight *flight, uint32_t receiver)
{
    const struct rawe_group_header *header = &flight->header;
    if (header->type == RAWE_GROUP_DATA) {
        return (header->flags & RAWE_FLAG_RESENT) == 0 && receiver >= net.losing_low &&
               receiver <= net.losing_high &&
               header->sequence - FIRST - net.losing_from < net.losing_count;
    }
    const bool lost = header->type == net.losing_type && net.losses_left != 0;
    net.losses_left -= lost;
    return lost;
}

static void lose(uint32_t from, uint32_t count, uint32_t low, uint32_t high)
{
    net.losing_from = from;
    net.losing_count = count;
    net.losing_low = low;
    net.losing_high = high;
    net.loses = lose_some;
}

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
        assert_int_equal(group[0].counters.repairs_unicast, wanted->unicast);
        assert_int_equal(group[0].counters.repairs_multicast, wanted->multicast);
        for (uint32_t k = 1; k < wanted->members; k++) { /* those that had it get it twice */
            assert_int_equal(group[k].counters.duplicates,
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
    assert_int_equal(group[3].counters.window_stalls, 1);
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
        assert_int_equal(group[i].counters.window_stalls, 0);
    }
    assert_int_equal(control_frames(), 0);
}

TEST(rawe_group_send__alone)
{
    start(1);
    send_bytes(0, 1000);
    send_bytes(0, 0);
    assert_int_equal(net.done_count, 2);
    assert_quiet();
    assert_int_equal(control_frames() + net.sent[RAWE_GROUP_DATA][1], 0);
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

TEST(rawe_group_send__the_link_is_full)
{
    start(3);
    net.link_room = 2;
    send_bytes(0, 5 * PAYLOAD_BYTES);
    arrive();
    assert_int_equal(net.sent[RAWE_GROUP_DATA][1], 2);
    net.link_room = UINT32_MAX;
    rawe_group_progress(&group[0], net.now_ns);
    arrive();
    assert_got(0, 1);
    assert_int_equal(net.sent[RAWE_GROUP_DATA][1], 5);
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
        unsigned resent, suppressed;
    } cases[] = {{0, 1, 0}, {0, 1, 1}, {0, 1, 2}, {RAWE_GROUP_HOLD_NS, 2, 2}}; /* it may be lost */
    start(4);
    send_bytes(0, 100);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        net.now_ns += cases[i].pause_ns;
        forge(0,
              (struct rawe_group_header){RAWE_GROUP_NACK, 0, 1, config.key, ID, 0, 1, 0, FIRST, 0},
              (const uint8_t[]){1});
        progress(0, net.now_ns + RAWE_GROUP_COLLECT_NS);
        assert_int_equal(net.resent, cases[i].resent);
        assert_int_equal(group[0].counters.repairs_unicast, cases[i].resent);
        assert_int_equal(group[0].counters.repairs_suppressed, cases[i].suppressed);
    }
}

TEST(rawe_group_receive__reordered_frames_are_not_missing)
{
    start(2);
    send_bytes(0, 6 * PAYLOAD_BYTES);
    for (unsigned i = 0; i < 3; i++) { /* the last comes first */
        const struct in_flight flight = *flight_at(i);
        *flight_at(i) = *flight_at(5 - i);
        *flight_at(5 - i) = flight;
    }
    pass(100 * MS);
    assert_got(0, 1);
    assert_int_equal(net.sent[RAWE_GROUP_NACK][0], 0);
}

/** A frame that is late only is not asked for with one that is missing. */
TEST(rawe_group_receive__a_nack_names_what_is_missing_for_long)
{
    start(2);
    lose(1, 1, 1, 1);
    send_bytes(0, 3 * PAYLOAD_BYTES);
    arrive();
    net.now_ns = rawe_group_next_ns(&group[1]);
    lose(3, 1, 1, 1); /* as well, a moment before the NACK */
    send_bytes(0, 2 * PAYLOAD_BYTES);
    arrive();
    progress(1, net.now_ns);
    assert_int_equal(net.sent[RAWE_GROUP_NACK][0], 1);
    arrive();
    progress(0, net.now_ns + RAWE_GROUP_COLLECT_NS);
    assert_int_equal(net.resent, 1);
    pass(100 * MS);
    assert_int_equal(net.resent, 2);
    assert_got(0, 2);
}

/** A repair that others asked for makes a NACK needless. */
TEST(rawe_group_receive__all_others_miss_a_frame)
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
    assert_int_equal(group[0].counters.repairs_multicast, 1);
}

TEST(rawe_group_receive__without_room_for_what_comes_early)
{
    config.stored_max = 3;
    start(2);
    lose(0, 1, 1, 1);
    send_bytes(0, 10 * PAYLOAD_BYTES);
    arrive();
    assert_int_equal(group[1].stored, 3);
    assert_int_equal(group[1].counters.no_buffer, 6);
    pass(300 * MS);
    assert_got(0, 1);
}

TEST(rawe_group_receive__without_memory)
{
    start(2);
    lose(0, 1, 1, 1);
    for (int left = 0; left < 4; left++) { /* record of the members, stream, frame, ring */
        send_bytes(0, PAYLOAD_BYTES);
        unit_allocations_left = left;
        arrive();
        unit_allocations_left = -1;
    }
    assert_int_equal(group[1].counters.no_buffer, 2);
    pass(300 * MS);
    assert_got(0, 4);
}

TEST(rawe_group_receive__late_joiner)
{
    start(4);
    net.absent[2] = true;
    send_bytes(0, 12 * PAYLOAD_BYTES);
    send_bytes(0, 12 * PAYLOAD_BYTES);
    pass(5000 * MS);
    assert_int_equal(net.done_count, 1);
    assert_int_equal(group[0].next - group[0].base, 16); /* kept, and not more than the window */
    net.absent[2] = false;
    pass(500 * MS);
    assert_got(0, 2);
    assert_int_equal(net.done_count, 2);
    assert_quiet();
    assert_false(net.failed[0][2]);
}

/** A member that is alive, though it takes nothing: the root waits. */
TEST(rawe_group_receive__not_delivered_now)
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
        assert_int_equal(group[1].counters.no_buffer, cases[i].no_buffer);
        assert_int_equal(net.sent[RAWE_GROUP_NACK][0], 0); /* there is no room for a repair */
        assert_int_equal(net.done_count, cases[i].frames <= 16);
        assert_false(rawe_group_stable(&group[0]) || net.failed[0][1]);
        net.refuses[1] = false;
        pass(1000 * MS);
        assert_got(0, 1);
        assert_quiet();
        tear_down();
    }
}

/** One field of a frame that member 0 would take is changed. */
TEST(rawe_group_receive__forged_frames)
{
    enum { DATA = RAWE_GROUP_DATA, NACK = RAWE_GROUP_NACK, NONE = RAWE_GROUP_NO_ROOT };
    const uint32_t key = config.key, first = FIRST;
    struct rawe_group_counters *counters = &group[0].counters;
    const struct {
        struct rawe_group_header header;
        const uint64_t *counter;
    } cases[] = {
        {{DATA, 0x80, 1, key, ID, first, 8, NONE, 0, 16}, &counters->dropped_decode},
        {{DATA, RAWE_FLAG_CHECKSUM, 1, key, ID, first, 8, NONE, 0, 16},
         &counters->dropped_checksum},
        {{DATA, 0, 3, key, ID, first, 8, NONE, 0, 16}, &counters->dropped_member},
        {{DATA, 0, 0, key, ID, first, 8, NONE, 0, 16}, &counters->dropped_member},
        {{DATA, 0, 1, key + 1, ID, first, 8, NONE, 0, 16}, &counters->dropped_key},
        {{DATA, 0, 1, key, ID + 1, first, 8, NONE, 0, 16}, &counters->dropped_group},
        {{DATA, 0, 1, key, ID, first + 16, 8, NONE, 0, 16}, &counters->dropped_outside},
        {{DATA, 0, 1, key, ID, first - 1, 8, NONE, 0, 16}, &counters->duplicates},
        /* We have sent nothing. */
        {{DATA, 0, 1, key, ID, first, 8, 0, first + 1, 16}, &counters->dropped_outside},
        {{NACK, 0, 1, key, ID, 0, 1, 0, first, 0}, &counters->dropped_outside},
        {{NACK, 0, 1, key, ID, 0, 1, 2, first, 0}, &counters->dropped_member}, /* not for us */
        {{RAWE_GROUP_ACK, 0, 1, key, ID, 0, 0, 3, first, 0}, &counters->dropped_member},
        {{RAWE_GROUP_HEARTBEAT, 0, 1, key, ID, first + 17, 0, NONE, 0, 0},
         &counters->dropped_outside},
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
    forge(0, (struct rawe_group_header){DATA, 0, 1, key, ID, first, 8, NONE, 0, 16}, data);
    forge(0, (struct rawe_group_header){DATA, 0, 1, key, ID, first + 1, 8, NONE, 0, 17}, data + 8);
    assert_int_equal(counters->dropped_fragment, 1);
    assert_int_equal(net.got_bytes[0][1], 8);
    assert_int_equal(group[0].stored, 0);
}

static bool flip_a_bit(struct in_flight *flight, uint32_t receiver)
{
    (void)receiver;
    if (flight->header.type == RAWE_GROUP_DATA && net.losses_left != 0) {
        net.losses_left--;
        flight->bytes[net.losses_left % flight->len_bytes] ^= 4;
    }
    return false;
}

TEST(rawe_group_receive__checksums)
{
    config.checksum = true;
    start(2);
    net.loses = flip_a_bit;
    net.losses_left = 100;
    for (unsigned i = 0; i < 10; i++) {
        send_bytes(0, 1000);
        pass(1000 * MS);
    }
    assert_int_equal(net.losses_left, 0);
    assert_got(0, 10);
    struct rawe_group_counters *counters = &group[1].counters;
    assert_int_equal(counters->dropped_checksum + counters->dropped_key + counters->dropped_group +
                         counters->dropped_decode,
                     100);
    counters = &group[0].counters;
    forge(0,
          (struct rawe_group_header){RAWE_GROUP_HEARTBEAT, 0, 1, config.key, ID, FIRST, 0,
                                     RAWE_GROUP_NO_ROOT, 0, 0},
          data);
    assert_int_equal(counters->dropped_checksum, 1);
}

/** A member that was given up is told so when it speaks; nothing is repaired for it. */
TEST(rawe_group_receive__the_member_was_given_up)
{
    start(3);
    net.absent[2] = true;
    send_bytes(0, 5 * PAYLOAD_BYTES);
    pass(20000 * MS);
    assert_true(net.failed[0][2]);
    net.absent[2] = false;
    send_bytes(0, PAYLOAD_BYTES);
    pass(1000 * MS);
    assert_true(net.failed[2][0]);
    assert_int_equal(net.got_bytes[2][0], 0);
    assert_true(group[0].counters.dropped_member > 0);
    assert_int_equal(net.got_bytes[1][0], net.sent_bytes[0]);
    assert_int_equal(rawe_group_next_ns(&group[2]), UINT64_MAX);
}

TEST(rawe_group_progress__members_that_die)
{
    for (uint32_t dead = 1; dead <= 3; dead++) { /* one, two, all others */
        set_up();
        start(4);
        send_bytes(0, 100);
        pass(100 * MS);
        memset(net.absent + 4 - dead, true, dead);
        send_bytes(0, 40 * PAYLOAD_BYTES);
        pass(9000 * MS);
        assert_int_equal(net.done_count, 1);
        pass(4000 * MS);
        assert_int_equal(net.failed[0][1], dead == 3);
        assert_true(net.failed[0][3]);
        assert_int_equal(group[0].counters.members_failed, dead);
        assert_int_equal(net.done_count, 2);
        send_bytes(0, 40 * PAYLOAD_BYTES); /* the others go on */
        pass(1000 * MS);
        assert_got(0, 3);
        assert_quiet();
        tear_down();
    }
}

TEST(rawe_group_progress__a_root_that_dies)
{
    start(3);
    lose(2, 1, 1, 1);
    send_bytes(0, 20 * PAYLOAD_BYTES);
    net.wire_count = 6; /* the rest is never sent */
    arrive();
    net.absent[0] = true;
    pass(9000 * MS);
    assert_false(net.failed[1][0] || net.failed[2][0]);
    pass(2000 * MS);
    assert_true(net.failed[1][0]); /* misses a frame */
    assert_true(net.failed[2][0]); /* misses the rest of a message */
    assert_int_equal(group[1].stored, 0);
    assert_int_equal(rawe_group_next_ns(&group[1]), UINT64_MAX);
}

/** The silence of others while the program itself was not there does not count. */
TEST(rawe_group_progress__after_a_pause)
{
    start(3);
    net.absent[2] = true;
    send_bytes(0, 100);
    pass(5000 * MS);
    net.absent[2] = false;
    net.absent[0] = true;
    pass(60000 * MS);
    net.absent[0] = false;
    pass(1000 * MS);
    assert_false(net.failed[0][2] || net.failed[2][0]);
    assert_got(0, 1);
    assert_quiet();
}

TEST(rawe_group_next_ns__nothing_to_do_once_all_is_stable)
{
    start(4);
    assert_quiet();
    send_bytes(0, 100);
    assert_int_equal(rawe_group_next_ns(&group[0]), net.now_ns + RAWE_GROUP_HEARTBEAT_NS);
    assert_non_null(group[0].window);
    pass(100 * MS);
    assert_quiet();
    assert_int_equal(net.sent[RAWE_GROUP_HEARTBEAT][1], 2); /* says what there is, asks */
    assert_int_equal(net.sent[RAWE_GROUP_ACK][0], 3);
}

TEST(rawe_group_alive__a_silent_member_is_not_given_up)
{
    start(3);
    net.absent[2] = true;
    send_bytes(0, 100);
    for (unsigned i = 0; i < 10; i++) {
        pass(5000 * MS);
        rawe_group_alive(&group[0], 2, net.now_ns);
    }
    assert_false(net.failed[0][2]);
    pass(20000 * MS);
    assert_true(net.failed[0][2]);
}

TEST(rawe_group_free__with_frames_that_wait)
{
    start(3);
    lose(0, 1, 1, 2);
    send_bytes(0, 5 * PAYLOAD_BYTES);
    arrive();
    assert_int_equal(group[1].stored, 4);
    rawe_group_free(&group[1]);
    assert_null(group[1].members);
    assert_int_equal(group[1].stored, 0);
}

/** An acknowledgement that the link has no room for goes with the frame when there is. */
TEST(rawe_group_send__acknowledgements_wait_for_the_link)
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

/** Half of all numbers later, what is left of the tree's last use says nothing. */
TEST(rawe_group_receive__the_tree_after_a_long_time)
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

/** Nobody is given up for what was never asked, as the link was full. */
TEST(rawe_group_progress__the_link_is_full_for_long)
{
    start(3);
    lose(0, 1, 1, 1);
    send_bytes(0, 4 * PAYLOAD_BYTES);
    arrive();
    net.link_room = 0;
    pass(60000 * MS);
    assert_false(net.failed[0][1] || net.failed[0][2] || net.failed[1][0]);
    net.link_room = UINT32_MAX;
    pass(1000 * MS);
    assert_got(0, 1);
    assert_quiet();
}

/** What a member has asked for is not sent once it is given up. */
TEST(rawe_group_dead__a_repair_is_due)
{
    start(3);
    send_bytes(0, 10);
    forge(0, (struct rawe_group_header){RAWE_GROUP_NACK, 0, 1, config.key, ID, 0, 1, 0, FIRST, 0},
          (const uint8_t[]){1});
    rawe_group_dead(&group[0], 1, net.now_ns);
    rawe_group_dead(&group[0], 1, net.now_ns);
    assert_true(net.failed[0][1]);
    progress(0, net.now_ns + RAWE_GROUP_COLLECT_NS);
    assert_int_equal(net.resent, 0);
    net.absent[1] = true;
    pass(100 * MS);
    assert_got(0, 1);
    assert_true(rawe_group_stable(&group[0]));
}

/** Before anything was sent, and while a message waits for another one. */
TEST(rawe_group_dead__nothing_waits_for_it)
{
    start(3);
    net.absent[1] = true;
    rawe_group_dead(&group[0], 1, net.now_ns);
    assert_true(net.failed[0][1]);
    send_bytes(0, 40 * PAYLOAD_BYTES);
    pass(100 * MS);
    assert_got(0, 1);
    assert_true(rawe_group_stable(&group[0]));
    net.absent[2] = true;
    send_bytes(0, 40 * PAYLOAD_BYTES);
    assert_int_equal(net.done_count, 1);
    rawe_group_dead(&group[0], 2, net.now_ns);
    assert_int_equal(net.done_count, 2);
}
