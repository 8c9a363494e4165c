/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of group delivery: several members on a wire on which each frame can be lost or held back;
 * time is the test's.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "group/rawe_group.h"
#include "unit_alloc.h"
#include "unit_test.h"

enum {
    MEMBERS_MAX = 20,
    FRAMES_MAX = 4096,
    PAYLOAD_BYTES = 128,
    MESSAGE_BYTES_MAX = 40000,
};

#define MS 1000000ull
#define ALL UINT32_MAX

#define ID 0x0123456780000000ull
#define KEY 0x5A5A5A5Au

struct in_flight {
    uint32_t from, to; /**< to: ALL for a multicast frame */
    size_t len_bytes;
    uint8_t *bytes;
};

/** A frame, as a test decides on it. */
struct crossing {
    uint32_t receiver;
    struct rawe_group_header header;
};

static struct rawe_group group[MEMBERS_MAX];
static uint32_t members;
static uint64_t now_ns;

static struct in_flight wire[FRAMES_MAX];
static unsigned wire_first, wire_count;
static unsigned link_room; /**< frames that the links take before they are full */
static bool (*loses)(const struct crossing *crossing);
static bool absent[MEMBERS_MAX];  /**< gets nothing, sends nothing */
static bool refuses[MEMBERS_MAX]; /**< delivers nothing for now */
static unsigned sent[16][2];      /**< frames by type, unicast and multicast */
static unsigned resent;

/** What a member was given of a root: messages one after the other, and their number. */
static uint8_t got[MEMBERS_MAX][MEMBERS_MAX][MESSAGE_BYTES_MAX];
static uint32_t got_bytes[MEMBERS_MAX][MEMBERS_MAX];
static uint32_t got_messages[MEMBERS_MAX][MEMBERS_MAX];
static bool failed[MEMBERS_MAX][MEMBERS_MAX];

static unsigned done_count;
static uint8_t data[MESSAGE_BYTES_MAX];

static void put_on_wire(uint32_t from, uint32_t to, const struct rawe_bytes *frame)
{
    struct rawe_group_header header;
    assert_int_equal(rawe_group_header_decode(&header, frame->base, frame->len_bytes),
                     RAWE_DECODE_OK);
    sent[header.type][to == ALL]++;
    resent += (header.flags & RAWE_FLAG_RESENT) != 0;
    const int allocations_left = unit_allocations_left;
    unit_allocations_left = -1;
    assert_true(wire_count < FRAMES_MAX);
    struct in_flight *flight = &wire[(wire_first + wire_count++) % FRAMES_MAX];
    *flight = (struct in_flight){from, to, frame->len_bytes, malloc(frame->len_bytes)};
    memcpy(flight->bytes, frame->base, frame->len_bytes);
    unit_allocations_left = allocations_left;
    link_room--;
}

static unsigned multicast(void *context, const struct rawe_bytes *frames, unsigned count)
{
    const uint32_t from = (uint32_t)((struct rawe_group *)context - group);
    unsigned taken = 0;
    for (; taken < count && link_room != 0; taken++) {
        put_on_wire(from, ALL, &frames[taken]);
    }
    return taken;
}

static bool unicast(void *context, uint32_t member, const struct rawe_bytes *frame)
{
    if (link_room == 0) {
        return false;
    }
    put_on_wire((uint32_t)((struct rawe_group *)context - group), member, frame);
    return true;
}

static bool deliver(void *context, const struct rawe_group_part *part)
{
    const size_t self = (size_t)((struct rawe_group *)context - group);
    if (refuses[self]) {
        return false;
    }
    uint32_t *bytes = &got_bytes[self][part->root];
    assert_true(*bytes + part->len_bytes <= MESSAGE_BYTES_MAX);
    if (part->len_bytes != 0) {
        memcpy(got[self][part->root] + *bytes, part->data, part->len_bytes);
    }
    *bytes += part->len_bytes;
    got_messages[self][part->root] += part->at_bytes + part->len_bytes == part->total_bytes;
    return true;
}

static void note_failed(void *context, uint32_t member)
{
    const size_t self = (size_t)((struct rawe_group *)context - group);
    assert_false(failed[self][member]);
    failed[self][member] = true;
}

static void done(struct rawe_group_send *send)
{
    done_count++;
    free(send);
}

static struct rawe_group_config config_of(uint32_t self)
{
    return (struct rawe_group_config){
        .id = ID,
        .key = KEY,
        .members = members,
        .self = self,
        .payload_bytes = PAYLOAD_BYTES,
        .window_frames = 16,
        .stored_max = 64,
        .fail_ns = 10000 * MS,
        .deliver = deliver,
        .failed = note_failed,
        .context = &group[self],
        .output = {multicast, unicast, &group[self]},
    };
}

static void start(uint32_t count)
{
    members = count;
    for (uint32_t i = 0; i < members; i++) {
        const struct rawe_group_config config = config_of(i);
        rawe_group_init(&group[i], &config);
    }
}

static void set_up(void)
{
    now_ns = MS;
    link_room = UINT32_MAX;
    loses = NULL;
    wire_first = wire_count = done_count = resent = 0;
    memset(absent, 0, sizeof(absent));
    memset(refuses, 0, sizeof(refuses));
    memset(sent, 0, sizeof(sent));
    memset(got_bytes, 0, sizeof(got_bytes));
    memset(got_messages, 0, sizeof(got_messages));
    memset(failed, 0, sizeof(failed));
    for (size_t i = 0; i < sizeof(data); i++) {
        data[i] = (uint8_t)(i * 29 ^ i >> 8);
    }
}

/** All frames come to those they are for. */
static void arrive(void)
{
    while (wire_count != 0) {
        const struct in_flight flight = wire[wire_first];
        wire_first = (wire_first + 1) % FRAMES_MAX;
        wire_count--;
        for (uint32_t i = 0; i < members; i++) {
            struct crossing crossing = {i, {0}};
            assert_int_equal(
                rawe_group_header_decode(&crossing.header, flight.bytes, flight.len_bytes),
                RAWE_DECODE_OK);
            if ((flight.to == ALL ? i != flight.from : i == flight.to) && !absent[i] &&
                !absent[flight.from] && (loses == NULL || !loses(&crossing))) {
                rawe_group_receive(&group[i], flight.bytes, flight.len_bytes, now_ns);
            }
        }
        free(flight.bytes);
    }
}

/** Let time pass; each member is called when it wants to be. */
static void pass(uint64_t ns)
{
    const uint64_t end_ns = now_ns + ns;
    for (;;) {
        uint64_t next_ns = end_ns;
        arrive();
        for (uint32_t i = 0; i < members; i++) {
            const uint64_t due_ns = absent[i] ? UINT64_MAX : rawe_group_next_ns(&group[i]);
            next_ns = due_ns < next_ns ? due_ns : next_ns;
        }
        now_ns = next_ns > now_ns ? next_ns : now_ns;
        for (uint32_t i = 0; i < members; i++) {
            if (!absent[i]) {
                rawe_group_progress(&group[i], now_ns);
            }
        }
        arrive();
        if (now_ns >= end_ns) {
            return;
        }
    }
}

static void tear_down(void)
{
    unit_allocations_left = -1;
    while (wire_count != 0) {
        free(wire[wire_first].bytes);
        wire_first = (wire_first + 1) % FRAMES_MAX;
        wire_count--;
    }
    for (uint32_t i = 0; i < members; i++) {
        rawe_group_free(&group[i]);
    }
}

FIXTURE(set_up, tear_down);

static void send_bytes(uint32_t root, uint32_t from_bytes, uint32_t len_bytes)
{
    struct rawe_group_send *send = calloc(1, sizeof(*send));
    *send =
        (struct rawe_group_send){.done = done, .data = data + from_bytes, .len_bytes = len_bytes};
    assert_true(rawe_group_send(&group[root], send, now_ns));
}

/** All members have the first `len_bytes` of `data`, in `messages` messages of `root`. */
static void assert_got(uint32_t root, uint32_t len_bytes, uint32_t messages)
{
    for (uint32_t i = 0; i < members; i++) {
        if (i != root && !absent[i]) {
            assert_int_equal(got_bytes[i][root], len_bytes);
            assert_memory_equal(got[i][root], data, len_bytes);
            assert_int_equal(got_messages[i][root], messages);
        }
    }
}

static unsigned control_frames(void)
{
    return sent[RAWE_GROUP_NACK][0] + sent[RAWE_GROUP_ACK][0] + sent[RAWE_GROUP_HEARTBEAT][0] +
           sent[RAWE_GROUP_HEARTBEAT][1];
}

TEST(rawe_group_send__one_frame_to_all_members)
{
    start(4);
    send_bytes(1, 0, 100);
    assert_int_equal(done_count, 1);
    arrive();
    assert_got(1, 100, 1);
    assert_int_equal(sent[RAWE_GROUP_DATA][1], 1);
    assert_int_equal(control_frames(), 0);
}

TEST(rawe_group_send__lengths)
{
    static const uint32_t lengths[] = {0, 1, 127, 128, 129, 256, 1000, 2048};
    uint32_t at_bytes = 0;
    uint32_t messages = 0;
    start(3);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        send_bytes(0, at_bytes, lengths[i]);
        at_bytes += lengths[i];
        pass(100 * MS);
        assert_got(0, at_bytes, ++messages);
        assert_true(rawe_group_stable(&group[0]));
    }
    assert_int_equal(done_count, messages);
    assert_int_equal(sent[RAWE_GROUP_NACK][0], 0);
}

TEST(rawe_group_send__longer_than_the_window)
{
    start(MEMBERS_MAX); /* two levels of the tree */
    send_bytes(3, 0, MESSAGE_BYTES_MAX);
    assert_int_equal(done_count, 0);
    assert_int_equal(group[3].counters.window_stalls, 1);
    arrive();
    assert_got(3, MESSAGE_BYTES_MAX, 1);
    assert_int_equal(done_count, 1);
    /* The window moves on by the tree alone: one ACK of each member for half a window. */
    const unsigned frames = (MESSAGE_BYTES_MAX + PAYLOAD_BYTES - 1) / PAYLOAD_BYTES;
    assert_int_equal(sent[RAWE_GROUP_DATA][1], frames);
    assert_int_equal(control_frames(), sent[RAWE_GROUP_ACK][0]);
    assert_int_equal(sent[RAWE_GROUP_ACK][0] % (MEMBERS_MAX - 1), 0);
    assert_in_range(sent[RAWE_GROUP_ACK][0] / (MEMBERS_MAX - 1), frames / 16, frames / 8);
}

TEST(rawe_group_send__all_members_at_once)
{
    start(5);
    for (uint32_t k = 0; k < 20; k++) {
        for (uint32_t i = 0; i < members; i++) {
            send_bytes(i, k * 200, 200);
        }
        arrive();
    }
    for (uint32_t i = 0; i < members; i++) {
        assert_got(i, 4000, 20);
    }
}

TEST(rawe_group_send__alone)
{
    start(1);
    send_bytes(0, 0, 1000);
    send_bytes(0, 0, 0);
    assert_int_equal(done_count, 2);
    assert_true(rawe_group_stable(&group[0]));
    assert_int_equal(rawe_group_next_ns(&group[0]), UINT64_MAX);
    assert_int_equal(control_frames() + sent[RAWE_GROUP_DATA][1], 0);
}

TEST(rawe_group_send__numbers_wrap)
{
    members = 3;
    for (uint32_t i = 0; i < members; i++) {
        struct rawe_group_config config = config_of(i);
        config.id = UINT64_MAX - 9;
        rawe_group_init(&group[i], &config);
    }
    send_bytes(0, 0, 30 * PAYLOAD_BYTES);
    pass(100 * MS);
    assert_got(0, 30 * PAYLOAD_BYTES, 1);
    assert_int_equal(group[0].base, 20);
    assert_true(rawe_group_stable(&group[0]));
    assert_int_equal(sent[RAWE_GROUP_NACK][0], 0);
}

static struct rawe_group_send *to_repeat;
static unsigned to_repeat_left;

static void send_again(struct rawe_group_send *send)
{
    if (to_repeat_left != 0) {
        to_repeat_left--;
        assert_true(rawe_group_send(&group[0], send, now_ns));
    }
}

TEST(rawe_group_send__from_done)
{
    struct rawe_group_send send = {.done = send_again, .data = data, .len_bytes = 10};
    start(2);
    to_repeat = &send;
    to_repeat_left = 40;
    assert_true(rawe_group_send(&group[0], to_repeat, now_ns));
    pass(100 * MS);
    assert_int_equal(got_messages[1][0], 41);
}

TEST(rawe_group_send__the_link_is_full)
{
    start(3);
    link_room = 2;
    send_bytes(0, 0, 5 * PAYLOAD_BYTES);
    arrive();
    assert_int_equal(sent[RAWE_GROUP_DATA][1], 2);
    link_room = UINT32_MAX;
    rawe_group_progress(&group[0], now_ns);
    arrive();
    assert_got(0, 5 * PAYLOAD_BYTES, 1);
    assert_int_equal(sent[RAWE_GROUP_DATA][1], 5);
}

TEST(rawe_group_send__without_memory)
{
    start(2);
    for (int left = 0; left < 3; left++) {
        struct rawe_group_send *send = calloc(1, sizeof(*send));
        *send = (struct rawe_group_send){.done = done, .data = data, .len_bytes = 10};
        unit_allocations_left = left;
        const bool taken = rawe_group_send(&group[0], send, now_ns);
        unit_allocations_left = -1;
        /* Record of the members, window, frame. */
        assert_int_equal(taken, left != 0);
        if (!taken) {
            free(send);
        }
    }
    assert_int_equal(done_count, 1); /* the first has waited, the second waits */
    pass(100 * MS);
    assert_int_equal(done_count, 2);
    assert_int_equal(got_messages[1][0], 2);
}

/** What is lost, the first time that it is sent. */
static struct {
    uint8_t type;
    uint32_t from_sequence, sequences; /**< counted from the first of the group */
    uint32_t below;                    /**< for members below this number... */
    uint32_t above;                    /**< ... and above this one; the root is 0 */
} losing;

static bool lose_first(const struct crossing *crossing)
{
    return crossing->header.type == losing.type &&
           (crossing->header.flags & RAWE_FLAG_RESENT) == 0 &&
           crossing->header.sequence - (uint32_t)ID - losing.from_sequence < losing.sequences &&
           crossing->receiver < losing.below && crossing->receiver > losing.above;
}

/** Of ten frames, some are lost for some of the members 1 to 9. */
static void send_ten(uint32_t from_sequence, uint32_t sequences, uint32_t below)
{
    start(10);
    losing.type = RAWE_GROUP_DATA;
    losing.from_sequence = from_sequence;
    losing.sequences = sequences;
    losing.below = below;
    losing.above = 0;
    loses = lose_first;
    send_bytes(0, 0, 10 * PAYLOAD_BYTES);
    pass(300 * MS);
    assert_got(0, 10 * PAYLOAD_BYTES, 1);
    assert_true(rawe_group_stable(&group[0]));
    for (uint32_t i = 0; i < members; i++) {
        assert_int_equal(group[i].stored, 0);
        assert_int_equal(rawe_group_next_ns(&group[i]), UINT64_MAX);
        assert_int_equal(group[i].counters.duplicates, 0);
    }
}

TEST(rawe_group_receive__a_gap_is_repaired_by_unicast)
{
    send_ten(3, 2, 2);
    assert_int_equal(sent[RAWE_GROUP_NACK][0], 1);
    assert_int_equal(sent[RAWE_GROUP_DATA][0], 2);
    assert_int_equal(resent, 2);
}

TEST(rawe_group_receive__two_members_miss_it)
{
    send_ten(3, 1, 3);
    assert_int_equal(sent[RAWE_GROUP_NACK][0], 2);
    assert_int_equal(sent[RAWE_GROUP_DATA][0], 2);
    assert_int_equal(sent[RAWE_GROUP_DATA][1], 10);
}

TEST(rawe_group_receive__more_members_miss_it)
{
    start(10);
    losing.type = RAWE_GROUP_DATA;
    losing.from_sequence = 3;
    losing.sequences = 1;
    losing.below = 8;
    losing.above = 0;
    loses = lose_first;
    send_bytes(0, 0, 10 * PAYLOAD_BYTES);
    pass(300 * MS);
    assert_got(0, 10 * PAYLOAD_BYTES, 1);
    assert_int_equal(sent[RAWE_GROUP_DATA][1], 11);
    assert_int_equal(sent[RAWE_GROUP_DATA][0], 0);
    assert_int_equal(group[0].counters.repairs_multicast, 1);
    /* Those that had it got it twice. */
    assert_int_equal(group[8].counters.duplicates, 1);
    assert_int_equal(group[1].counters.duplicates, 0);
}

TEST(rawe_group_receive__the_end_is_lost)
{
    send_ten(8, 2, 2);
    assert_int_equal(sent[RAWE_GROUP_NACK][0], 1);
    assert_int_equal(resent, 2);
}

TEST(rawe_group_receive__all_is_lost)
{
    send_ten(0, 10, 2);
    assert_int_equal(sent[RAWE_GROUP_NACK][0], 1);
    assert_int_equal(resent, 10);
}

static unsigned losses_left;
static uint8_t losses_type;

static bool lose_some(const struct crossing *crossing)
{
    if (crossing->header.type != losses_type || losses_left == 0) {
        return false;
    }
    losses_left--;
    return true;
}

TEST(rawe_group_receive__a_lost_control_frame_is_sent_again)
{
    static const uint8_t types[] = {RAWE_GROUP_HEARTBEAT, RAWE_GROUP_NACK, RAWE_GROUP_ACK};
    for (size_t i = 0; i < sizeof(types); i++) {
        set_up();
        start(3);
        losses_type = RAWE_GROUP_DATA;
        losses_left = 2;
        loses = lose_some;
        send_bytes(0, 0, 100);
        arrive();
        losses_type = types[i];
        losses_left = 5;
        pass(1000 * MS);
        assert_int_equal(losses_left, 0);
        assert_got(0, 100, 1);
        assert_true(rawe_group_stable(&group[0]));
        tear_down();
    }
}

/** A repair that another member asked for makes a NACK needless. */
TEST(rawe_group_receive__a_repair_by_multicast_spares_nacks)
{
    start(MEMBERS_MAX);
    losing.type = RAWE_GROUP_DATA;
    losing.from_sequence = 0;
    losing.sequences = 1;
    losing.below = MEMBERS_MAX;
    losing.above = 0;
    loses = lose_first;
    send_bytes(0, 0, 2 * PAYLOAD_BYTES);
    pass(300 * MS);
    assert_got(0, 2 * PAYLOAD_BYTES, 1);
    assert_int_equal(group[0].counters.repairs_multicast, 1);
    assert_true(resent <= 3);
    assert_true(sent[RAWE_GROUP_NACK][0] < 2 * MEMBERS_MAX);
}

TEST(rawe_group_receive__the_same_nack_again)
{
    uint8_t bytes[RAWE_GROUP_HEADER_BYTES + 1];
    struct rawe_group_header nack = {.type = RAWE_GROUP_NACK,
                                     .sender = 1,
                                     .key = KEY,
                                     .id = ID,
                                     .payload_bytes = 1,
                                     .acked_root = 0,
                                     .acknowledgement = (uint32_t)ID};
    start(4);
    rawe_group_header_encode(bytes, &nack);
    bytes[RAWE_GROUP_HEADER_BYTES] = 1;
    send_bytes(0, 0, 100);
    for (unsigned i = 0; i < 3; i++) {
        rawe_group_receive(&group[0], bytes, sizeof(bytes), now_ns);
        now_ns += RAWE_GROUP_COLLECT_NS;
        rawe_group_progress(&group[0], now_ns);
    }
    assert_int_equal(resent, 1);
    assert_int_equal(group[0].counters.repairs_suppressed, 2);
    now_ns += RAWE_GROUP_HOLD_NS; /* the repair may be lost */
    rawe_group_receive(&group[0], bytes, sizeof(bytes), now_ns);
    now_ns += RAWE_GROUP_COLLECT_NS;
    rawe_group_progress(&group[0], now_ns);
    assert_int_equal(resent, 2);
    assert_int_equal(group[0].counters.repairs_unicast, 2);
}

TEST(rawe_group_receive__reordered_frames_are_not_missing)
{
    start(2);
    send_bytes(0, 0, 6 * PAYLOAD_BYTES);
    for (unsigned i = 0; i < 3; i++) { /* the last comes first */
        const struct in_flight flight = wire[(wire_first + i) % FRAMES_MAX];
        wire[(wire_first + i) % FRAMES_MAX] = wire[(wire_first + 5 - i) % FRAMES_MAX];
        wire[(wire_first + 5 - i) % FRAMES_MAX] = flight;
    }
    pass(100 * MS);
    assert_got(0, 6 * PAYLOAD_BYTES, 1);
    assert_int_equal(sent[RAWE_GROUP_NACK][0], 0);
}

/** A frame that is late only is not asked for with one that is missing. */
TEST(rawe_group_receive__a_nack_names_what_is_missing_for_long)
{
    start(2);
    losing.type = RAWE_GROUP_DATA;
    losing.from_sequence = 1;
    losing.sequences = 1;
    losing.below = 2;
    losing.above = 0;
    loses = lose_first;
    send_bytes(0, 0, 3 * PAYLOAD_BYTES);
    arrive();
    now_ns = rawe_group_next_ns(&group[1]);
    losing.from_sequence = 3; /* lost as well, a moment before the NACK */
    send_bytes(0, 3 * PAYLOAD_BYTES, 2 * PAYLOAD_BYTES);
    arrive();
    rawe_group_progress(&group[1], now_ns);
    assert_int_equal(sent[RAWE_GROUP_NACK][0], 1);
    arrive();
    now_ns += RAWE_GROUP_COLLECT_NS;
    rawe_group_progress(&group[0], now_ns);
    assert_int_equal(resent, 1);
    pass(100 * MS);
    assert_int_equal(resent, 2);
    assert_got(0, 5 * PAYLOAD_BYTES, 2);
}

TEST(rawe_group_receive__without_room_for_what_comes_early)
{
    members = 2;
    for (uint32_t i = 0; i < members; i++) {
        struct rawe_group_config config = config_of(i);
        config.stored_max = 3;
        rawe_group_init(&group[i], &config);
    }
    losing.type = RAWE_GROUP_DATA;
    losing.from_sequence = 0;
    losing.sequences = 1;
    losing.below = 2;
    losing.above = 0;
    loses = lose_first;
    send_bytes(0, 0, 10 * PAYLOAD_BYTES);
    arrive();
    assert_int_equal(group[1].stored, 3);
    assert_int_equal(group[1].counters.no_buffer, 6);
    pass(300 * MS);
    assert_got(0, 10 * PAYLOAD_BYTES, 1);
}

TEST(rawe_group_receive__without_memory)
{
    start(2);
    losing.type = RAWE_GROUP_DATA;
    losing.from_sequence = 0;
    losing.sequences = 1;
    losing.below = 2;
    losing.above = 0;
    loses = lose_first;
    for (int left = 0; left < 4; left++) {
        /* Record of the members, stream, ring, frame. */
        send_bytes(0, (uint32_t)left * PAYLOAD_BYTES, PAYLOAD_BYTES);
        unit_allocations_left = left;
        arrive();
        unit_allocations_left = -1;
    }
    assert_true(group[1].counters.no_buffer >= 2);
    pass(300 * MS);
    assert_got(0, 4 * PAYLOAD_BYTES, 4);
}

TEST(rawe_group_receive__late_joiner)
{
    start(4);
    absent[2] = true;
    send_bytes(0, 0, 12 * PAYLOAD_BYTES);
    send_bytes(0, 12 * PAYLOAD_BYTES, 12 * PAYLOAD_BYTES);
    pass(5000 * MS);
    assert_int_equal(done_count, 1);
    assert_int_equal(group[0].next - group[0].base, 16); /* kept, and not more than the window */
    absent[2] = false;
    pass(500 * MS);
    assert_got(0, 24 * PAYLOAD_BYTES, 2);
    assert_int_equal(done_count, 2);
    assert_true(rawe_group_stable(&group[0]));
    assert_false(failed[0][2]);
}

TEST(rawe_group_receive__not_delivered_now)
{
    start(3);
    refuses[1] = true;
    send_bytes(0, 0, 40 * PAYLOAD_BYTES);
    pass(60000 * MS); /* alive, though it takes nothing: the root waits */
    assert_int_equal(got_bytes[1][0], 0);
    assert_int_equal(group[1].stored, 16);
    assert_int_equal(done_count, 0);
    assert_false(failed[0][1]);
    assert_int_equal(sent[RAWE_GROUP_NACK][0], 0);
    refuses[1] = false;
    pass(1000 * MS);
    assert_got(0, 40 * PAYLOAD_BYTES, 1);
    assert_int_equal(group[1].stored, 0);
}

TEST(rawe_group_receive__not_delivered_now_and_no_room)
{
    members = 2;
    for (uint32_t i = 0; i < members; i++) {
        struct rawe_group_config config = config_of(i);
        config.stored_max = 3;
        rawe_group_init(&group[i], &config);
    }
    refuses[1] = true;
    send_bytes(0, 0, 10 * PAYLOAD_BYTES);
    pass(1000 * MS);
    assert_int_equal(group[1].stored, 3);
    assert_int_equal(group[1].counters.no_buffer, 7);
    assert_int_equal(sent[RAWE_GROUP_NACK][0], 0); /* there is no room for a repair */
    refuses[1] = false;
    pass(1000 * MS);
    assert_got(0, 10 * PAYLOAD_BYTES, 1);
}

TEST(rawe_group_progress__a_member_that_dies)
{
    start(4);
    send_bytes(0, 0, 100);
    pass(100 * MS);
    absent[3] = true;
    send_bytes(0, 100, 40 * PAYLOAD_BYTES);
    pass(9000 * MS);
    assert_int_equal(done_count, 1);
    pass(4000 * MS);
    assert_true(failed[0][3]);
    assert_int_equal(group[0].counters.members_failed, 1);
    assert_int_equal(done_count, 2);
    assert_got(0, 100 + 40 * PAYLOAD_BYTES, 2);
    assert_true(rawe_group_stable(&group[0]));
    assert_int_equal(rawe_group_next_ns(&group[0]), UINT64_MAX);
    /* The others go on without it. */
    send_bytes(0, 100 + 40 * PAYLOAD_BYTES, 40 * PAYLOAD_BYTES);
    pass(1000 * MS);
    assert_got(0, 100 + 80 * PAYLOAD_BYTES, 3);
}

TEST(rawe_group_progress__all_others_die)
{
    start(3);
    absent[1] = absent[2] = true;
    send_bytes(0, 0, 100 * PAYLOAD_BYTES);
    pass(20000 * MS);
    assert_true(failed[0][1] && failed[0][2]);
    assert_int_equal(done_count, 1);
    assert_true(rawe_group_stable(&group[0]));
}

TEST(rawe_group_progress__a_root_that_dies)
{
    struct rawe_group_send never_done = {.data = data, .len_bytes = 20 * PAYLOAD_BYTES};
    start(3);
    losing.type = RAWE_GROUP_DATA;
    losing.from_sequence = 2;
    losing.sequences = 1;
    losing.below = 2;
    losing.above = 0;
    loses = lose_first;
    assert_true(rawe_group_send(&group[0], &never_done, now_ns));
    while (wire_count > 6) { /* the rest is never sent */
        free(wire[(wire_first + --wire_count) % FRAMES_MAX].bytes);
    }
    arrive();
    absent[0] = true;
    pass(9000 * MS);
    assert_false(failed[1][0] || failed[2][0]);
    pass(2000 * MS);
    assert_true(failed[1][0]); /* misses a frame */
    assert_true(failed[2][0]); /* misses the rest of a message */
    assert_int_equal(group[1].stored, 0);
    assert_int_equal(rawe_group_next_ns(&group[1]), UINT64_MAX);
}

/** A member that was given up is told so when it speaks; nothing is repaired for it. */
TEST(rawe_group_receive__the_member_was_given_up)
{
    start(3);
    absent[2] = true;
    send_bytes(0, 0, 5 * PAYLOAD_BYTES);
    pass(20000 * MS);
    assert_true(failed[0][2]);
    absent[2] = false;
    send_bytes(0, 5 * PAYLOAD_BYTES, PAYLOAD_BYTES);
    pass(1000 * MS);
    assert_true(failed[2][0]);
    assert_int_equal(got_bytes[2][0], 0);
    assert_true(group[0].counters.dropped_member > 0);
    assert_int_equal(got_bytes[1][0], 6 * PAYLOAD_BYTES);
    assert_int_equal(rawe_group_next_ns(&group[2]), UINT64_MAX);
}

TEST(rawe_group_alive__a_silent_member_is_not_given_up)
{
    start(3);
    absent[2] = true;
    send_bytes(0, 0, 100);
    for (unsigned i = 0; i < 10; i++) {
        pass(5000 * MS);
        rawe_group_alive(&group[0], 2, now_ns);
    }
    assert_false(failed[0][2]);
    pass(20000 * MS);
    assert_true(failed[0][2]);
}

/** The silence of others while the program itself was not there does not count. */
TEST(rawe_group_progress__after_a_pause)
{
    start(3);
    absent[2] = true;
    send_bytes(0, 0, 100);
    pass(5000 * MS);
    absent[2] = false;
    absent[0] = true;
    pass(60000 * MS);
    absent[0] = false;
    pass(1000 * MS);
    assert_false(failed[0][2] || failed[2][0]);
    assert_got(0, 100, 1);
    assert_true(rawe_group_stable(&group[0]));
}

TEST(rawe_group_next_ns__nothing_to_do_once_all_is_stable)
{
    start(4);
    assert_int_equal(rawe_group_next_ns(&group[0]), UINT64_MAX);
    send_bytes(0, 0, 100);
    assert_int_equal(rawe_group_next_ns(&group[0]), now_ns + RAWE_GROUP_HEARTBEAT_NS);
    assert_non_null(group[0].window);
    pass(100 * MS);
    assert_int_equal(rawe_group_next_ns(&group[0]), UINT64_MAX);
    assert_null(group[0].window);
    assert_int_equal(sent[RAWE_GROUP_HEARTBEAT][1], 2); /* says what there is, asks */
    assert_int_equal(sent[RAWE_GROUP_ACK][0], 3);
}

/** Each member's frames acknowledge the others': nothing else is needed to keep windows open. */
TEST(rawe_group_send__acknowledgements_ride_on_data)
{
    start(4);
    for (unsigned i = 0; i < 200; i++) {
        for (uint32_t k = 0; k < members; k++) {
            send_bytes(k, 0, 8);
        }
        arrive();
    }
    assert_int_equal(control_frames(), 0);
    assert_int_equal(group[0].counters.window_stalls, 0);
}

/** One field of a frame that member 0 would take is changed. */
TEST(rawe_group_receive__forged_frames)
{
    const struct rawe_group_header good = {.type = RAWE_GROUP_DATA,
                                           .sender = 1,
                                           .key = KEY,
                                           .id = ID,
                                           .sequence = (uint32_t)ID,
                                           .payload_bytes = 8,
                                           .acked_root = RAWE_GROUP_NO_ROOT,
                                           .total_bytes = 16};
    struct rawe_group_header forged[12];
    const uint64_t *counter[12];
    const struct rawe_group_counters *counters = &group[0].counters;
    start(3);
    for (unsigned i = 0; i < 12; i++) {
        forged[i] = good;
    }
    forged[0].key++, counter[0] = &counters->dropped_key;
    forged[1].id++, counter[1] = &counters->dropped_group;
    forged[2].sender = 3, counter[2] = &counters->dropped_member;
    forged[3].sender = 0, counter[3] = &counters->dropped_member;
    forged[4].sequence += 16, counter[4] = &counters->dropped_outside;
    forged[5].sequence--, counter[5] = &counters->duplicates;
    forged[6].flags = 0x80, counter[6] = &counters->dropped_decode;
    forged[7].flags = RAWE_FLAG_CHECKSUM, counter[7] = &counters->dropped_checksum;
    forged[8].acked_root = 0, forged[8].acknowledgement = (uint32_t)ID + 1;
    counter[8] = &counters->dropped_outside; /* we have sent nothing */
    forged[9].type = RAWE_GROUP_HEARTBEAT, forged[9].sequence += 17;
    counter[9] = &counters->dropped_outside;
    forged[10].type = RAWE_GROUP_NACK, forged[10].acked_root = 2; /* not for us */
    counter[10] = &counters->dropped_member;
    forged[11].type = RAWE_GROUP_ACK, forged[11].payload_bytes = 0, forged[11].acked_root = 3;
    counter[11] = &counters->dropped_member;
    for (unsigned i = 0; i < 12; i++) {
        uint8_t bytes[RAWE_GROUP_HEADER_BYTES + 8] = {0};
        const uint64_t before = *counter[i];
        rawe_group_header_encode(bytes, &forged[i]);
        rawe_group_receive(&group[0], bytes, sizeof(bytes), now_ns);
        assert_int_equal(*counter[i], before + 1);
        assert_int_equal(got_bytes[0][1], 0);
    }
    uint8_t bytes[RAWE_GROUP_HEADER_BYTES + 8] = {0};
    rawe_group_header_encode(bytes, &good);
    rawe_group_receive(&group[0], bytes, sizeof(bytes), now_ns);
    assert_int_equal(got_bytes[0][1], 8);
    /* The second part of the message claims to be of another one. */
    struct rawe_group_header other = good;
    other.sequence++;
    other.total_bytes = 17;
    rawe_group_header_encode(bytes, &other);
    rawe_group_receive(&group[0], bytes, sizeof(bytes), now_ns);
    assert_int_equal(counters->dropped_fragment, 1);
    assert_int_equal(got_bytes[0][1], 8);
    assert_int_equal(group[0].stored, 0);
}

TEST(rawe_group_receive__a_nack_for_what_was_never_sent)
{
    uint8_t bytes[RAWE_GROUP_HEADER_BYTES + 2] = {0};
    const struct rawe_group_header nack = {.type = RAWE_GROUP_NACK,
                                           .sender = 1,
                                           .key = KEY,
                                           .id = ID,
                                           .payload_bytes = 2,
                                           .acked_root = 0,
                                           .acknowledgement = (uint32_t)ID};
    start(3);
    send_bytes(0, 0, 2 * PAYLOAD_BYTES);
    rawe_group_header_encode(bytes, &nack);
    bytes[RAWE_GROUP_HEADER_BYTES + 1] = 1; /* the ninth */
    rawe_group_receive(&group[0], bytes, sizeof(bytes), now_ns);
    assert_int_equal(group[0].counters.dropped_outside, 1);
    assert_int_equal(group[0].repair_ns, 0);
}

static bool flip_a_bit(const struct crossing *crossing)
{
    struct in_flight *flight =
        &wire[(wire_first + FRAMES_MAX - 1) % FRAMES_MAX]; /* the one that arrives */
    if (crossing->header.type == RAWE_GROUP_DATA && losses_left != 0) {
        losses_left--;
        flight->bytes[losses_left % flight->len_bytes] ^= 4;
    }
    return false;
}

TEST(rawe_group_receive__checksums)
{
    members = 2;
    for (uint32_t i = 0; i < members; i++) {
        struct rawe_group_config config = config_of(i);
        config.checksum = true;
        rawe_group_init(&group[i], &config);
    }
    loses = flip_a_bit;
    losses_left = 100;
    for (unsigned i = 0; i < 10; i++) {
        send_bytes(0, i * 1000, 1000);
        pass(1000 * MS);
    }
    assert_int_equal(losses_left, 0);
    assert_got(0, 10000, 10);
    const struct rawe_group_counters *counters = &group[1].counters;
    assert_int_equal(counters->dropped_checksum + counters->dropped_key + counters->dropped_group +
                         counters->dropped_decode,
                     100);
    /* A frame without a checksum is refused. */
    uint8_t bytes[RAWE_GROUP_HEADER_BYTES] = {0};
    const struct rawe_group_header plain = {.type = RAWE_GROUP_DATA,
                                            .key = KEY,
                                            .id = ID,
                                            .sequence = group[0].next,
                                            .acked_root = RAWE_GROUP_NO_ROOT};
    const uint64_t before = counters->dropped_checksum;
    rawe_group_header_encode(bytes, &plain);
    rawe_group_receive(&group[1], bytes, sizeof(bytes), now_ns);
    assert_int_equal(counters->dropped_checksum, before + 1);
}

TEST(rawe_group_free__with_frames_that_wait)
{
    start(3);
    losing.type = RAWE_GROUP_DATA;
    losing.from_sequence = 0;
    losing.sequences = 1;
    losing.below = 3;
    losing.above = 0;
    loses = lose_first;
    send_bytes(0, 0, 5 * PAYLOAD_BYTES);
    arrive();
    assert_int_equal(group[1].stored, 4);
    rawe_group_free(&group[1]);
    assert_null(group[1].members);
    assert_int_equal(group[1].stored, 0);
}
