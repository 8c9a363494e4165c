/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the send window: frames kept until acknowledged, and which frames count as lost; then
 * batches, which are entries with several numbers, some of them sent, arrived or lost. Numbers wrap
 * around 2^32 in each test. The pool of frames and the data of their segments come last.
 */
#include <string.h>

#include "send/rawe_sendwin.h"
#include "unit_test.h"

#define WINDOW 16u
#define FIRST (UINT32_MAX - 2)
#define US 1000ull
#define NOW (1000 * US)
#define REORDER (50 * US) /**< reordering window of detect() */

static struct rawe_sendwin window;
static struct rawe_txframe frames[WINDOW]; /**< frames[i] has number FIRST + i */

/** Set up a new window that begins at FIRST. */
static void set_up(void)
{
    memset(frames, 0, sizeof(frames));
    for (unsigned i = 0; i < WINDOW; i++) {
        frames[i].segments = 1;
    }
    rawe_sendwin_init(&window, WINDOW, FIRST);
}

/** Empty the window. */
static void tear_down(void)
{
    while (!rawe_sendwin_empty(&window)) {
        (void)rawe_sendwin_remove(&window);
    }
    assert_int_equal(window.in_flight, 0);
    assert_int_equal(window.to_transmit, 0);
    assert_int_equal(window.sacked, 0);
    assert_null(window.oldest);
}

/** Return the entry with a sequence number, which must be in use. */
static struct rawe_txframe *frame_at(uint32_t sequence)
{
    struct rawe_txframe *frame = window.oldest;
    while (frame != NULL && sequence - frame->sequence >= frame->segments) {
        assert_true(frame->next == NULL || frame->next->previous == frame);
        frame = frame->next;
    }
    assert_non_null(frame);
    return frame;
}

/** Enter the next `count` frames without sending them. */
static void enter(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        rawe_sendwin_enter(&window, &frames[window.next - FIRST]);
    }
}

/** Enter frames[index] as a batch of `segments` frames without sending them. */
static struct rawe_txframe *enter_batch(unsigned index, unsigned segments)
{
    struct rawe_txframe *batch = &frames[index];
    batch->segments = (uint8_t)segments;
    batch->sendings = 0;
    rawe_sendwin_enter(&window, batch);
    return batch;
}

/** Transmit all waiting frames at `sent_ns`. */
static void transmit_all(uint64_t sent_ns)
{
    struct rawe_txframe *frame;
    while ((frame = rawe_sendwin_next(&window)) != NULL) {
        rawe_sendwin_sent(&window, frame, frame->to_send, sent_ns);
    }
}

/** Enter `count` frames and send them at `sent_ns`. */
static void send_frames(unsigned count, uint64_t sent_ns)
{
    enter(count);
    transmit_all(sent_ns);
}

/** Return an acknowledgement that arrives at `now_ns` and counts as evidence of losses. */
static struct rawe_ack ack_at(uint64_t now_ns)
{
    return (struct rawe_ack){.evidence = true, .now_ns = now_ns};
}

/** SACK `count` frames from frames[index] on, while the oldest is missing. */
static void sack(unsigned index, unsigned count, struct rawe_ack *ack)
{
    uint8_t bitmap[WINDOW / 8] = {0};
    unsigned una = window.una - FIRST;
    for (unsigned i = index; i < index + count; i++) {
        bitmap[(i - una - 1) / 8] |= (uint8_t)(1u << ((i - una - 1) % 8));
    }
    rawe_sendwin_sack(&window, window.una, bitmap, sizeof(bitmap), ack);
}

/** State of a sequence number. */
enum segment_state { WAITING, SENT, SACKED, LOST };

static enum segment_state state_of(uint32_t sequence)
{
    const struct rawe_txframe *frame = frame_at(sequence);
    uint64_t segment = 1ull << (sequence - frame->sequence);
    if ((frame->to_send & segment) != 0) {
        assert_int_equal(frame->arrived & segment, 0);
        return (frame->sent & segment) != 0 ? LOST : WAITING;
    }
    assert_int_not_equal((frame->sent | frame->arrived) & segment, 0);
    return (frame->arrived & segment) != 0 ? SACKED : SENT;
}

/** Assert the window's counts, and that they agree with the states of its frames. */
static void assert_counts(unsigned in_flight, unsigned to_transmit, unsigned sacked)
{
    unsigned counts[LOST + 1] = {0};
    for (uint32_t sequence = window.una; sequence != window.next; sequence++) {
        counts[state_of(sequence)]++;
    }
    assert_int_equal(counts[SENT], in_flight);
    assert_int_equal(counts[WAITING] + counts[LOST], to_transmit);
    assert_int_equal(counts[SACKED], sacked);
    assert_int_equal(window.in_flight, in_flight);
    assert_int_equal(window.to_transmit, to_transmit);
    assert_int_equal(window.sacked, sacked);
}

static unsigned lost_count;           /**< losses found by the last detect() */
static unsigned lost_indices[WINDOW]; /**< indices of the lost frames, in order */

static void note_lost(void *context, const struct rawe_txframe *frame, uint32_t sequence)
{
    assert_ptr_equal(context, &lost_count);
    assert_ptr_equal(frame, frame_at(sequence));
    assert_int_equal(state_of(sequence), LOST);
    lost_indices[lost_count++] = sequence - FIRST;
}

/** Detect losses. Returns true if it is still undecided whether some frames are lost. */
static bool detect(uint64_t now_ns)
{
    lost_count = 0;
    return rawe_sendwin_detect_losses(&window, REORDER, now_ns, note_lost, &lost_count);
}

static struct rawe_txframe *send_batch(unsigned index, unsigned segments, uint64_t sent_ns)
{
    struct rawe_txframe *batch = enter_batch(index, segments);
    rawe_sendwin_sent(&window, batch, rawe_txframe_all(batch), sent_ns);
    return batch;
}

/** Acknowledge all numbers before FIRST + index. Returns the number of completed entries. */
static unsigned acknowledge(unsigned index, struct rawe_ack *ack)
{
    unsigned whole = 0;
    while (window.una != FIRST + index) {
        whole += rawe_sendwin_acknowledge(&window, FIRST + index, ack) != NULL;
    }
    return whole;
}

FIXTURE(set_up, tear_down);

TEST(rawe_sendwin_reset__forgets_the_evidence)
{
    struct rawe_ack ack = ack_at(NOW + 10 * US);
    send_frames(1, NOW);
    (void)rawe_sendwin_acknowledge(&window, window.una + 1, &ack);
    rawe_sendwin_probe_answered(&window, NOW + US, NOW + 20 * US);
    rawe_sendwin_reset(&window, 1000);
    assert_int_equal(window.una, 1000);
    assert_int_equal(window.next, 1000);
    assert_int_equal(window.transmit_from, 1000);
    assert_false(window.evidence_is_probe);
    /* A frame sent after the reset with an older time is not overtaken by earlier deliveries. */
    rawe_sendwin_enter(&window, &frames[5]);
    assert_int_equal(frames[5].sequence, 1000);
    transmit_all(NOW - US);
    assert_false(detect(NOW + 1000 * US));
    assert_int_equal(lost_count, 0);
}

TEST(rawe_sendwin_sent__sendings_saturate)
{
    send_frames(1, NOW);
    assert_int_equal(frames[0].sendings, 1);
    frames[0].sendings = UINT8_MAX - 1;
    for (unsigned i = 0; i < 2; i++) { /* a count that wrapped to 0 would mean never sent */
        window.in_flight--;
        window.to_transmit++;
        frames[0].to_send = 1;
        rawe_sendwin_sent(&window, &frames[0], 1, NOW + 1);
        assert_int_equal(frames[0].sendings, UINT8_MAX);
    }
    assert_true(rawe_txframe_sent_ns(&frames[0]) == NOW + 1);
}

TEST(rawe_sendwin_free_numbers__one_is_promised_to_the_frame_held_back)
{
    enter(WINDOW - 2);
    rawe_sendwin_hold(&window, &frames[WINDOW - 1]);
    assert_int_equal(rawe_sendwin_free_numbers(&window), 1);
    enter(1);
    assert_int_equal(rawe_sendwin_free_numbers(&window), 0);
    rawe_sendwin_enter(&window, rawe_sendwin_take_held(&window));
    assert_counts(0, WINDOW, 0);
}

TEST(rawe_sendwin_acknowledge__a_round_trip_is_never_0)
{
    send_frames(2, NOW);
    struct rawe_ack ack = ack_at(NOW);
    (void)rawe_sendwin_acknowledge(&window, window.una + 1, &ack);
    assert_true(ack.rtt_ns == 1);
    ack = ack_at(NOW - US); /* the clock was read before the frame was sent */
    (void)rawe_sendwin_acknowledge(&window, window.una + 1, &ack);
    assert_true(ack.rtt_ns == 1);
}

TEST(rawe_sendwin_acknowledge__no_round_trip_from_a_resent_frame)
{
    send_frames(2, NOW);
    frames[1].resent = 1;
    struct rawe_ack ack = ack_at(NOW + 10 * US);
    (void)rawe_sendwin_acknowledge(&window, window.una + 1, &ack);
    (void)rawe_sendwin_acknowledge(&window, window.una + 1, &ack);
    assert_int_equal(ack.arrived, 2);
    assert_true(ack.rtt_ns == 10 * US); /* from the first frame, which was sent once */
    send_frames(1, NOW);
    frames[2].resent = 1;
    ack = ack_at(NOW + 10 * US);
    (void)rawe_sendwin_acknowledge(&window, window.una + 1, &ack);
    assert_true(ack.rtt_ns == 0);
}

TEST(rawe_sendwin_acknowledge__a_frame_never_sent_says_nothing)
{
    enter(1);
    frames[0].first.oldest_ns = NOW; /* left over from an earlier use */
    struct rawe_ack ack = ack_at(NOW + 10 * US);
    assert_ptr_equal(rawe_sendwin_acknowledge(&window, window.una + 1, &ack), &frames[0]);
    assert_true(ack.rtt_ns == 0);
    assert_true(window.newest_delivered_ns == 0);
    assert_counts(0, 0, 0);
}

TEST(rawe_sendwin_acknowledge__of_a_first_sending_is_evidence_however_early)
{
    send_frames(1, NOW + 500 * US);
    send_frames(1, NOW);
    struct rawe_ack ack = ack_at(NOW + 501 * US);
    ack.minimum_rtt_ns = 10 * US;
    (void)rawe_sendwin_acknowledge(&window, window.una + 1, &ack);
    assert_false(detect(NOW + 501 * US));
    assert_int_equal(lost_count, 1);
}

TEST(rawe_sendwin_sack__stops_at_the_first_number_never_used)
{
    send_frames(5, NOW);
    uint8_t bitmap[136];
    memset(bitmap, 0xFF, sizeof(bitmap)); /* longer than a SACK block can be */
    struct rawe_ack ack = ack_at(NOW + 10 * US);
    rawe_sendwin_sack(&window, FIRST, bitmap, sizeof(bitmap), &ack);
    assert_int_equal(ack.arrived, 4);
    assert_counts(1, 0, 4);
}

TEST(rawe_sendwin_sack__of_a_waiting_frame_says_nothing)
{
    send_frames(3, NOW);
    enter(2);
    frames[3].first.oldest_ns = NOW + 5 * US; /* left over from an earlier use */
    struct rawe_ack ack = ack_at(NOW + 10 * US);
    sack(1, 4, &ack);
    assert_int_equal(ack.arrived, 2);
    assert_int_equal(state_of(FIRST + 3), WAITING);
    assert_counts(1, 2, 2);
    assert_true(window.newest_delivered_ns == NOW);
}

TEST(rawe_sendwin_retract__as_if_it_had_not_entered)
{
    send_frames(2, NOW);
    frames[2].segments = 3;
    rawe_sendwin_enter(&window, &frames[2]);
    rawe_sendwin_retract(&window, &frames[2]);
    assert_int_equal(window.next, FIRST + 2);
    assert_int_equal(window.in_flight, 2);
    assert_int_equal(window.to_transmit, 0);
    assert_null(rawe_sendwin_next(&window));
    frames[3].segments = 1;
    rawe_sendwin_enter(&window, &frames[3]);
    assert_int_equal(frames[3].sequence, FIRST + 2);
    assert_ptr_equal(rawe_sendwin_next(&window), &frames[3]);
}

TEST(rawe_sendwin_probe_answered__an_older_answer_changes_nothing)
{
    send_frames(1, NOW);
    rawe_sendwin_probe_answered(&window, NOW + 20 * US, NOW + 30 * US);
    send_frames(1, NOW + 40 * US);
    rawe_sendwin_probe_answered(&window, NOW + 10 * US, NOW + 50 * US);
    assert_true(window.evidence_is_probe);
}

TEST(rawe_sendwin_probe_answered__a_frame_behind_it_is_better_evidence)
{
    send_frames(1, NOW);
    send_frames(1, NOW + 50 * US);
    struct rawe_ack ack = ack_at(NOW + 60 * US);
    sack(1, 1, &ack);
    rawe_sendwin_probe_answered(&window, NOW + 20 * US, NOW + 70 * US);
    assert_false(window.evidence_is_probe);
    assert_int_equal(window.newest_delivered, FIRST + 1);
    assert_true(window.evidence_ns == NOW + 60 * US);
    rawe_sendwin_probe_answered(&window, NOW + 80 * US, NOW + 90 * US);
    assert_true(window.evidence_is_probe);
    send_frames(1, NOW + 100 * US);
    sack(2, 1, &ack);
    assert_false(window.evidence_is_probe);
}

TEST(rawe_sendwin_detect_losses__waits_for_the_reordering_window)
{
    send_frames(3, NOW);
    struct rawe_ack ack = ack_at(NOW + 10 * US);
    sack(2, 1, &ack);
    assert_true(detect(NOW + 10 * US));
    assert_true(detect(NOW + 10 * US + REORDER - 1));
    assert_int_equal(lost_count, 0);
    assert_counts(2, 0, 1);
    assert_false(detect(NOW + 10 * US + REORDER));
    assert_int_equal(lost_count, 2);
    assert_int_equal(lost_indices[0], 0);
    assert_int_equal(lost_indices[1], 1);
    assert_counts(0, 2, 1);
    assert_false(detect(NOW + 1000 * US)); /* each loss is found once */
    assert_int_equal(lost_count, 0);
}

TEST(rawe_sendwin_enter__the_longest_batch)
{
    struct rawe_sendwin wide;
    struct rawe_txframe batch = {.segments = RAWE_BATCH_FRAMES_MAX};
    rawe_sendwin_init(&wide, RAWE_BATCH_FRAMES_MAX, FIRST);
    rawe_sendwin_enter(&wide, &batch);
    assert_true(batch.to_send == UINT64_MAX);
    rawe_sendwin_sent(&wide, &batch, UINT64_MAX, NOW);
    assert_int_equal(wide.in_flight, RAWE_BATCH_FRAMES_MAX);
    struct rawe_ack ack = ack_at(NOW + US);
    assert_null(rawe_sendwin_acknowledge(&wide, FIRST + RAWE_BATCH_FRAMES_MAX - 1, &ack));
    assert_int_equal(wide.in_flight, 1);
    assert_ptr_equal(rawe_sendwin_acknowledge(&wide, FIRST + RAWE_BATCH_FRAMES_MAX, &ack), &batch);
    assert_int_equal(ack.arrived, RAWE_BATCH_FRAMES_MAX);
    assert_int_equal(wide.in_flight, 0);
}

/**
 * A batch's acknowledged numbers are free for other frames while the batch is still in flight.
 */
TEST(rawe_sendwin_acknowledge__leaves_the_new_owner_of_its_numbers)
{
    struct rawe_ack ack = ack_at(NOW + 10 * US);
    (void)send_batch(0, WINDOW, NOW);
    assert_int_equal(acknowledge(3, &ack), 0);
    assert_int_equal(rawe_sendwin_free_numbers(&window), 3);
    struct rawe_txframe *later = send_batch(1, 2, NOW);
    assert_int_equal(acknowledge(WINDOW, &ack), 1);
    assert_ptr_equal(frame_at(FIRST + WINDOW), later);
    assert_ptr_equal(frame_at(FIRST + WINDOW + 1), later);
    assert_counts(2, 0, 0);
    assert_int_equal(acknowledge(WINDOW + 2, &ack), 1);
}

TEST(rawe_sendwin_acknowledge__of_what_is_waiting)
{
    struct rawe_ack ack = ack_at(NOW + 10 * US);
    struct rawe_txframe *batch = enter_batch(0, 4);
    rawe_sendwin_sent(&window, batch, 0x1, NOW);
    assert_int_equal(acknowledge(3, &ack), 0);
    assert_int_equal(ack.arrived, 3);
    assert_true(ack.rtt_ns == 10 * US);
    assert_counts(0, 1, 0);
    assert_true(batch->to_send == 0x8);
}

/** Only segments that were sent once give an RTT sample (Karn's algorithm). */
TEST(rawe_sendwin_acknowledge__of_segments_sent_once_beside_others)
{
    struct rawe_ack ack = ack_at(NOW + 10 * US);
    struct rawe_txframe *batch = send_batch(0, 4, NOW);
    sack(1, 1, &ack);
    assert_false(detect(NOW + 10 * US + REORDER));
    assert_int_equal(lost_count, 1);
    rawe_sendwin_sent(&window, batch, 0x1, NOW + 100 * US);
    ack = ack_at(NOW + 130 * US);
    assert_int_equal(acknowledge(4, &ack), 1);
    assert_int_equal(ack.arrived, 3);
    assert_true(ack.rtt_ns == 130 * US);
}

#define COPY_MAX_BYTES 4000u

static struct rawe_txframe_pool pool;

/** Take all frames of a size and link them by `next`. Returns their number. */
static unsigned drain(size_t payload_bytes, struct rawe_txframe **list)
{
    unsigned count = 0;
    struct rawe_txframe *frame;
    while ((frame = rawe_txframe_take(&pool, payload_bytes)) != NULL) {
        frame->next = *list;
        *list = frame;
        count++;
    }
    return count;
}

static void give_all(struct rawe_txframe *list)
{
    while (list != NULL) {
        struct rawe_txframe *next = list->next;
        rawe_txframe_give(&pool, list);
        list = next;
    }
}

static void set_up_pool(void)
{
    rawe_txframe_pool_init(&pool, COPY_MAX_BYTES, 1000);
}

static void tear_down_pool(void)
{
    rawe_txframe_pool_free(&pool);
    assert_int_equal(pool.allocated, 0);
}

static const struct unit_fixture with_pool = {set_up_pool, tear_down_pool};

/** Advance the clock, and trim the pool as an engine does. */
static void seconds(unsigned count)
{
    for (uint64_t end_ns = pool.trim_ns + count * 1000000000ull; pool.trim_ns < end_ns;) {
        rawe_txframe_pool_trim(&pool, pool.trim_ns);
    }
}

/** Memory taken for a burst to many slow peers is freed after a while. */
TEST_WITH(with_pool, rawe_txframe_pool_trim__gives_back_what_a_burst_took)
{
    static const size_t sizes[] = {10, COPY_MAX_BYTES};
    rawe_txframe_pool_init(&pool, COPY_MAX_BYTES, 100000);
    for (unsigned rounds = 0; rounds < 3; rounds++) {
        struct rawe_txframe *most = NULL, *some = NULL;
        for (unsigned i = 0; i < 5000; i++) {
            struct rawe_txframe *frame = rawe_txframe_take(&pool, sizes[i % 2]);
            assert_non_null(frame);
            struct rawe_txframe **list = &most;
            if (i % 500 == 0) {
                list = &some;
            }
            frame->next = *list;
            *list = frame;
        }
        seconds(10);
        assert_true(pool.allocated >= 5000);
        give_all(most);
        assert_true(pool.allocated >= 5000); /* another burst may follow soon */
        seconds(5);
        /* Each frame in use keeps its slab allocated. */
        assert_in_range(pool.allocated, 10, 10 * 64);
        give_all(some);
        seconds(5);
        assert_true(pool.allocated <= 1024);
    }
}

/** One slab of each size may exceed the limit, even after all slabs of that size were freed. */
TEST_WITH(with_pool, rawe_txframe_pool_trim__a_size_that_was_given_back_is_had_again)
{
    struct rawe_txframe *small = NULL, *large = NULL;
    rawe_txframe_pool_init(&pool, COPY_MAX_BYTES, 2048);
    assert_true(drain(COPY_MAX_BYTES, &large) >= 2048);
    give_all(large);
    seconds(10);
    assert_true(drain(10, &small) >= 1024);
    struct rawe_txframe *frame = rawe_txframe_take(&pool, COPY_MAX_BYTES);
    assert_non_null(frame);
    rawe_txframe_give(&pool, frame);
    give_all(small);
}

TEST_WITH(with_pool, rawe_txframe_pool_trim__keeps_what_is_used_often)
{
    rawe_txframe_pool_init(&pool, COPY_MAX_BYTES, 5000);
    for (unsigned rounds = 0; rounds < 10; rounds++) {
        struct rawe_txframe *list = NULL;
        assert_true(drain(10, &list) >= 5000);
        seconds(1);
        give_all(list);
        seconds(2);
        assert_true(pool.allocated >= 5000);
    }
}

TEST_WITH(with_pool, rawe_txframe_pool_grow__stops_at_the_limit)
{
    rawe_txframe_pool_init(&pool, COPY_MAX_BYTES, 200);
    struct rawe_txframe *list = NULL;
    unsigned count = drain(10, &list);
    /* The pool grows by slabs and exceeds the limit by less than one. */
    assert_in_range(count, 200, 200 + 63);
    assert_int_equal(pool.allocated, count);
    assert_false(rawe_txframe_pool_grow(&pool, false));
    struct rawe_txframe *one = list;
    list = list->next;
    rawe_txframe_give(&pool, one);
    assert_ptr_equal(rawe_txframe_take(&pool, 10), one);
    rawe_txframe_give(&pool, one);
    give_all(list);
}

TEST_WITH(with_pool, rawe_txframe_pool_grow__one_size_cannot_starve_the_other)
{
    for (unsigned large_first = 0; large_first < 2; large_first++) {
        struct rawe_txframe *list = NULL, *others = NULL;
        rawe_txframe_pool_init(&pool, COPY_MAX_BYTES, 100);
        drain(large_first ? COPY_MAX_BYTES : 10, &list);
        unsigned count = drain(large_first ? 10 : COPY_MAX_BYTES, &others);
        assert_true(count > 0);
        assert_false(rawe_txframe_pool_grow(&pool, false));
        assert_false(rawe_txframe_pool_grow(&pool, true));
        give_all(list);
        give_all(others);
        rawe_txframe_pool_free(&pool);
    }
}

TEST_WITH(with_pool, rawe_txframe_take__buffer_holds_what_was_asked_for)
{
    static const size_t sizes[] = {0, 1, RAWE_TXFRAME_SMALL_BYTES, RAWE_TXFRAME_SMALL_BYTES + 1,
                                   COPY_MAX_BYTES};
    enum { EACH = 150 }; /* more than two slabs */
    static struct rawe_txframe *taken[sizeof(sizes) / sizeof(sizes[0])][EACH];
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        for (unsigned i = 0; i < EACH; i++) {
            struct rawe_txframe *frame = rawe_txframe_take(&pool, sizes[s]);
            assert_non_null(frame);
            assert_int_equal(frame->large, sizes[s] > RAWE_TXFRAME_SMALL_BYTES);
            assert_int_equal((uintptr_t)(frame->buffer + RAWE_ETH_HEADER_BYTES) % 8, 0);
            frame->sequence = (uint32_t)(s * EACH + i);
            memset(frame->buffer, (int)(s * 50 + i), RAWE_PAYLOAD_OFFSET + sizes[s]);
            taken[s][i] = frame;
        }
    }
    /* No two frames overlap. */
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        for (unsigned i = 0; i < EACH; i++) {
            const struct rawe_txframe *frame = taken[s][i];
            assert_int_equal(frame->sequence, s * EACH + i);
            for (size_t at = 0; at < RAWE_PAYLOAD_OFFSET + sizes[s]; at++) {
                assert_int_equal(frame->buffer[at], (uint8_t)(s * 50 + i));
            }
            rawe_txframe_give(&pool, taken[s][i]);
        }
    }
}

TEST_WITH(with_pool, rawe_txframe_take__comes_clean)
{
    struct rawe_txframe *frame = rawe_txframe_take(&pool, 10);
    assert_non_null(frame);
    frame->send = (struct rawe_send *)(void *)&pool;
    frame->external_count = 2;
    frame->sendings = 7;
    frame->flags = RAWE_FLAG_ACK_NOW;
    frame->segments = RAWE_BATCH_FRAMES_MAX;
    frame->segment_bytes = 1000;
    rawe_txframe_give(&pool, frame);
    assert_ptr_equal(rawe_txframe_take(&pool, 10), frame);
    assert_null(frame->send);
    assert_int_equal(frame->external_count, 0);
    assert_int_equal(frame->sendings, 0);
    assert_int_equal(frame->flags, 0);
    assert_int_equal(frame->segments, 1); /* not a batch */
    assert_int_equal(frame->segment_bytes, 0);
    rawe_txframe_give(&pool, frame);
}

TEST_WITH(with_pool, rawe_txframe_in_flight__sent_and_neither_arrived_nor_lost)
{
    const struct rawe_txframe frame = {
        .segments = 6, .sent = 0x1F, .arrived = 0x05, .to_send = 0x28, /* bit 3 lost, 5 unsent */
    };
    assert_true(rawe_txframe_in_flight(&frame) == 0x12);
}

TEST_WITH(with_pool, rawe_txframe_sent_ns__of_the_newest_sending)
{
    struct rawe_txframe frame = {.segments = 4, .first = {10, 20}, .again = {30, 40}};
    assert_true(rawe_txframe_sent_ns(&frame) == 20); /* nothing was retransmitted in this use */
    frame.resent = 1;
    assert_true(rawe_txframe_sent_ns(&frame) == 40);
    frame.first.newest_ns = 50;
    assert_true(rawe_txframe_sent_ns(&frame) == 50);
}

/** Assert that rawe_bytes_range finds exactly the data of each range of two such pieces. */
static void check_ranges(size_t first_bytes, size_t second_bytes)
{
    uint8_t first[8];
    uint8_t second[8];
    size_t total_bytes = first_bytes + second_bytes;
    struct rawe_txframe frame = {.external = {{first, first_bytes}, {second, second_bytes}}};
    frame.external_count = second_bytes != 0 ? 2 : first_bytes != 0;
    for (size_t at = 0; at <= total_bytes; at++) {
        for (size_t len_bytes = 0; at + len_bytes <= total_bytes; len_bytes++) {
            struct rawe_bytes pieces[2];
            unsigned count =
                rawe_bytes_range(frame.external, frame.external_count, at, len_bytes, pieces);
            size_t found_bytes = 0;
            for (unsigned i = 0; i < count; i++) {
                assert_int_not_equal(pieces[i].len_bytes, 0);
                for (size_t k = 0; k < pieces[i].len_bytes; k++, found_bytes++) {
                    size_t index = at + found_bytes;
                    assert_ptr_equal((uint8_t *)pieces[i].base + k,
                                     index < first_bytes ? &first[index]
                                                         : &second[index - first_bytes]);
                }
            }
            assert_int_equal(found_bytes, len_bytes);
        }
    }
}

TEST_WITH(with_pool, rawe_bytes_range__every_range_of_two_pieces)
{
    check_ranges(0, 0);
    for (size_t first_bytes = 1; first_bytes <= 5; first_bytes++) {
        for (size_t second_bytes = 0; second_bytes <= 5; second_bytes++) {
            check_ranges(first_bytes, second_bytes);
        }
    }
}
