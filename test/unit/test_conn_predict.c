/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of header prediction: frames of a batch are taken by comparing their headers with those of
 * the frame before; all others are left to be received singly.
 */
#define UNIT_LANE RAWE_LANE_BULK

#include "unit_pair.h"

#include <string.h>

#include "rawe_conn_receive.h"

#define FRAMES 6u
#define DATA_BYTES 1000u
#define HEAD_BYTES_MAX (RAWE_HEADER_BYTES + RAWE_FRAGMENT_BYTES_MAX)

static uint8_t memory[10000];
static uint32_t handle_index;
static uint64_t handle_key;

/** Headers of a batch to node 1, one right behind the other, whose data lie in place. */
static uint8_t heads[FRAMES * HEAD_BYTES_MAX];
static struct rawe_placement placement;
static uint8_t source_mac[RAWE_MAC_BYTES];

static int set_up(void **state)
{
    (void)unit_set_up_wide(state);
    unit_use_batches(&net, 10);
    unit_connect(&net, RAWE_LANE_BULK);
    unit_begin_at(&net, RAWE_LANE_BULK, UINT32_MAX - 1); /* the numbers wrap in each test */
    assert_true(rawe_handle_register(&net.node[1].handles, memory, sizeof(memory), &handle_index,
                                     &handle_key));
    return 0;
}

/** Headers of FRAMES frames whose data are consecutive and begin with `fragment`. */
static void make_heads(struct rawe_fragment fragment)
{
    uint8_t payload[RAWE_FRAGMENT_BYTES_MAX + DATA_BYTES] = {0};
    uint32_t fragment_bytes = rawe_fragment_header_bytes(fragment.kind);
    placement.head_bytes = RAWE_HEADER_BYTES + fragment_bytes;
    placement.data_bytes = DATA_BYTES;
    for (uint32_t i = 0; i < FRAMES; i++) {
        rawe_fragment_encode(payload, &fragment);
        struct net_frame *frame =
            unit_forge(&net, 0, RAWE_LANE_BULK,
                       (struct rawe_header){.type = RAWE_FRAME_BULK,
                                            .sequence = end(1)->recvwin.acktr->next + i},
                       payload, fragment_bytes + DATA_BYTES);
        memcpy(source_mac, frame->bytes + RAWE_MAC_BYTES, RAWE_MAC_BYTES);
        memcpy(heads + i * placement.head_bytes, frame->bytes + RAWE_ETH_HEADER_BYTES,
               placement.head_bytes);
        net_frame_free(frame);
        fragment.offset += fragment.data_bytes;
    }
}

static uint8_t *head(unsigned index)
{
    return heads + index * placement.head_bytes;
}

/** Receive frame `index`, whose data is in place, singly. */
static void receive(unsigned index)
{
    rawe_engine_receive_parts(engine(1), source_mac, head(index), placement.head_bytes,
                              placement.base + index * DATA_BYTES, DATA_BYTES, net.now_ns);
}

/** Offer `count` frames from `index` on, whose data begin `shift` behind their place. */
static unsigned predict_at(unsigned index, unsigned count, size_t shift)
{
    return rawe_engine_receive_predicted(engine(1), source_mac, head(index), placement.head_bytes,
                                         &placement, placement.base + index * DATA_BYTES + shift,
                                         count, net.now_ns);
}

static unsigned predict(unsigned index, unsigned count)
{
    return predict_at(index, count, 0);
}

/** The batch is a PUT, and its first frame has been received. */
static void begin_put(void)
{
    make_heads((struct rawe_fragment){.kind = RAWE_FRAGMENT_PUT,
                                      .data_bytes = DATA_BYTES,
                                      .id = handle_index,
                                      .key = handle_key,
                                      .offset = 8});
    placement.base = memory + 8;
    receive(0);
    assert_int_equal(counters(1)->frames_received, 1);
}

/** The batch is a message of `total_bytes`, and its first frame has been received. */
static struct rawe_fragment begin_message(uint32_t total_bytes)
{
    assert_true(rawe_conn_expect_fragments(end(1)));
    struct rawe_fragment fragment = {
        .kind = RAWE_FRAGMENT_PART, .tag = 7, .data_bytes = DATA_BYTES, .total_bytes = total_bytes};
    make_heads(fragment);
    placement.base = rawe_reassembly_place(end(1)->reassembly, &engine(1)->reassembly_buffers,
                                           &fragment, total_bytes);
    assert_non_null(placement.base);
    unit_fill(placement.base, total_bytes, 7);
    receive(0);
    return fragment;
}

/** Nothing is taken, and nothing changes. */
static void assert_not_predicted(unsigned index, unsigned count)
{
    uint32_t next = end(1)->recvwin.acktr->next;
    uint64_t frames = counters(1)->frames_received;
    assert_int_equal(predict(index, count), 0);
    assert_int_equal(end(1)->recvwin.acktr->next, next);
    assert_int_equal(counters(1)->frames_received, frames);
}

static void rawe_engine_receive_predicted__all_frames_of_a_put(void **state)
{
    (void)state;
    begin_put();
    assert_int_equal(predict(1, FRAMES - 1), FRAMES - 1);
    assert_int_equal(end(1)->recvwin.acktr->next, UINT32_MAX - 1 + FRAMES);
    assert_int_equal(counters(1)->frames_received, FRAMES);
    assert_int_equal(counters(1)->bytes_received, FRAMES * DATA_BYTES);
    assert_int_equal(end(1)->recvwin.unacked_frames, FRAMES);
    assert_true(end(1)->recvwin.ack_deadline_ns != 0);
    assert_false(end(1)->recvwin.ack_now);
}

static void rawe_engine_receive_predicted__a_message_but_for_its_last_frame(void **state)
{
    (void)state;
    (void)begin_message(FRAMES * DATA_BYTES);
    assert_int_equal(predict(1, FRAMES - 1), FRAMES - 2);
    assert_int_equal(net.node[1].message_count, 0);
    receive(FRAMES - 1); /* completes it */
    assert_int_equal(net.node[1].message_count, 1);
    unit_assert_message(&net.node[1], 0, 7, FRAMES * DATA_BYTES, 7);
    assert_int_equal(counters(1)->bytes_received, FRAMES * DATA_BYTES);
}

static void rawe_engine_receive_predicted__the_last_frame_is_shorter(void **state)
{
    (void)state;
    (void)begin_message((FRAMES - 1) * DATA_BYTES + 1);
    assert_int_equal(predict(1, FRAMES - 1), FRAMES - 2);
}

static void rawe_engine_receive_predicted__up_to_the_first_other_head(void **state)
{
    (void)state;
    begin_put();
    head(3)[RAWE_HEADER_BYTES + RAWE_FRAGMENT_PUT_BYTES - 1] ^= 1;
    assert_int_equal(predict(1, FRAMES - 1), 2);
    assert_int_equal(end(1)->recvwin.acktr->next, UINT32_MAX - 1 + 3);
    assert_not_predicted(3, FRAMES - 3);
}

static void rawe_engine_receive_predicted__not_when_any_bit_differs(void **state)
{
    (void)state;
    begin_put();
    for (unsigned index = 0; index < 2; index++) { /* in the frame before, and in the next */
        for (size_t bit = 0; bit < 8 * (size_t)placement.head_bytes; bit++) {
            bool flag = bit / 8 == 1; /* the next frame may lack flags of the one before */
            bool allowed = flag && ((index == 0 && 1u << bit % 8 != RAWE_FLAG_CHECKSUM &&
                                     (1u << bit % 8 & RAWE_FLAGS_KNOWN) != 0) ||
                                    1u << bit % 8 == RAWE_FLAG_ACK_NOW);
            if (!allowed) {
                head(index)[bit / 8] ^= (uint8_t)(1u << bit % 8);
                assert_not_predicted(1, FRAMES - 1);
                head(index)[bit / 8] ^= (uint8_t)(1u << bit % 8);
            }
        }
    }
    assert_int_equal(predict(1, FRAMES - 1), FRAMES - 1); /* all as it was */
}

static void rawe_engine_receive_predicted__not_when_all_differ_alike(void **state)
{
    (void)state;
    begin_put();
    for (size_t bit = 0; bit < 8 * 16; bit++) { /* version to sequence number */
        uint8_t mask = (uint8_t)(1u << bit % 8);
        if (bit / 8 == 1 && mask != RAWE_FLAG_CHECKSUM) {
            continue; /* other flags are no matter of the frames' content */
        }
        for (unsigned i = 0; i < FRAMES; i++) {
            head(i)[bit / 8] ^= mask;
        }
        assert_not_predicted(1, FRAMES - 1);
        for (unsigned i = 0; i < FRAMES; i++) {
            head(i)[bit / 8] ^= mask;
        }
    }
    end(1)->handshake.state = RAWE_CONN_CONNECTING;
    assert_not_predicted(1, FRAMES - 1);
    end(1)->handshake.state = RAWE_CONN_OPEN;
    assert_int_equal(predict(1, FRAMES - 1), FRAMES - 1);
}

static void rawe_engine_receive_predicted__no_more_than_is_missing_of_a_message(void **state)
{
    (void)state;
    struct rawe_fragment fragment = begin_message(FRAMES * DATA_BYTES);
    make_heads(fragment); /* a hostile sender repeats the beginning under a new number */
    receive(0);
    assert_int_equal(predict(1, FRAMES - 1), FRAMES - 3);
}

static void rawe_engine_receive_predicted__one_asks_for_an_acknowledgement(void **state)
{
    (void)state;
    begin_put();
    head(3)[1] |= RAWE_FLAG_ACK_NOW;
    assert_int_equal(predict(1, FRAMES - 1), FRAMES - 1);
    assert_true(end(1)->recvwin.ack_now);
    assert_true(rawe_engine_pending(engine(1)));
}

static void rawe_engine_receive_predicted__only_data_in_place(void **state)
{
    (void)state;
    begin_put();
    assert_int_equal(predict_at(1, FRAMES - 1, 8), 0);
    unit_tear_down(state);
    set_up(state);
    (void)begin_message(FRAMES * DATA_BYTES);
    assert_int_equal(predict_at(1, FRAMES - 1, 8), 0);
    assert_int_equal(predict(1, 2), 2);
}

static void rawe_engine_receive_predicted__only_memory_the_peer_may_write(void **state)
{
    (void)state;
    begin_put();
    assert_not_predicted(1, sizeof(memory) / DATA_BYTES);
    assert_true(rawe_handle_deregister(&net.node[1].handles, handle_index, handle_key));
    assert_not_predicted(1, 1);
}

static void rawe_engine_receive_predicted__only_right_behind_the_frame_before(void **state)
{
    (void)state;
    begin_put();
    assert_not_predicted(2, 1); /* the one before it has not been received */
    receive(2);                 /* leaves a gap */
    assert_not_predicted(1, 1);
    assert_not_predicted(3, 1);
    receive(1);
    assert_not_predicted(2, 1); /* received already */
    assert_int_equal(predict(3, 3), 3);
}

static void rawe_engine_receive_predicted__not_from_elsewhere_nor_while_deferring(void **state)
{
    (void)state;
    begin_put();
    source_mac[5] ^= 1;
    assert_not_predicted(1, 1);
    source_mac[5] ^= 1;
    rawe_engine_defer_begin(engine(1));
    assert_not_predicted(1, 1);
    rawe_engine_defer_end(engine(1));
    placement.head_bytes = HEAD_BYTES_MAX + 1;
    assert_int_equal(predict(1, 1), 0);
    placement.head_bytes = RAWE_HEADER_BYTES + RAWE_FRAGMENT_PUT_BYTES;
    assert_not_predicted(1, 0);
    assert_int_equal(predict(1, 1), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, unit_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rawe_engine_receive_predicted__all_frames_of_a_put),
        TEST(rawe_engine_receive_predicted__a_message_but_for_its_last_frame),
        TEST(rawe_engine_receive_predicted__the_last_frame_is_shorter),
        TEST(rawe_engine_receive_predicted__up_to_the_first_other_head),
        TEST(rawe_engine_receive_predicted__not_when_any_bit_differs),
        TEST(rawe_engine_receive_predicted__not_when_all_differ_alike),
        TEST(rawe_engine_receive_predicted__no_more_than_is_missing_of_a_message),
        TEST(rawe_engine_receive_predicted__one_asks_for_an_acknowledgement),
        TEST(rawe_engine_receive_predicted__only_data_in_place),
        TEST(rawe_engine_receive_predicted__only_memory_the_peer_may_write),
        TEST(rawe_engine_receive_predicted__only_right_behind_the_frame_before),
        TEST(rawe_engine_receive_predicted__not_from_elsewhere_nor_while_deferring),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
