/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the send queue, of the numbers of fragmented messages, and of rawe_order, which limits
 * how many messages a message may overtake.
 */
#include <string.h>

#include "send/rawe_sendqueue.h"
#include "unit_test.h"
#include "send/rawe_order.h"

#define FIRST_NUMBER (UINT32_MAX - 2) /* message numbers wrap */
#define SENDS 80u

static struct rawe_sendqueue queue, other_queue;
static struct rawe_send sends[SENDS], rests[4];
static unsigned rests_taken, rests_allowed; /**< remainders of split sends */
static uint8_t data[1000];

static void set_up(void)
{
    memset(sends, 0xEE, sizeof(sends));
    rawe_sendqueue_init(&queue, FIRST_NUMBER);
    rawe_sendqueue_init(&other_queue, 1);
    rests_taken = rests_allowed = 0;
}

/** Push sends[index] with two pieces, the second at data + 100. */
static struct rawe_send *push(unsigned index, size_t first_bytes, size_t second_bytes)
{
    struct rawe_send *send = &sends[index];
    send->pieces[0] = (struct rawe_bytes){data, first_bytes};
    send->pieces[1] = (struct rawe_bytes){data + 100, second_bytes};
    send->piece_count = 2;
    rawe_sendqueue_push(&queue, send);
    return send;
}

/** Assert that the queue holds `count` sends from sends[first] on, and can be appended to. */
static void assert_queue(unsigned first, unsigned count, uint64_t bytes)
{
    assert_int_equal(queue.count, count);
    assert_true(queue.bytes == bytes);
    struct rawe_send **link = &queue.first;
    for (unsigned i = 0; i < count; i++) {
        assert_ptr_equal(*link, &sends[first + i]);
        link = &(*link)->next;
    }
    assert_null(*link);
    assert_ptr_equal(queue.tail, link);
}

/** Queue a fragmented message and put all of it into frames; one of them refers to it. */
static struct rawe_send *framed_message(unsigned index)
{
    assert_true(rawe_sendqueue_may_number(&queue));
    struct rawe_send *send = push(index, 10, 10);
    rawe_sendqueue_number(&queue, send);
    assert_true(rawe_sendqueue_framed(&queue, 20));
    send->frames = 1;
    return send;
}

FIXTURE(set_up, NULL);

TEST(rawe_sendqueue_renumber__keeps_what_is_queued)
{
    struct rawe_send *earlier[3];
    for (unsigned i = 0; i < 3; i++) {
        earlier[i] = framed_message(i);
    }
    assert_true(rawe_sendqueue_released(&queue, earlier[2])); /* the first two are still open */
    push(3, 5, 6);
    push(4, 7, 8);
    rawe_sendqueue_renumber(&queue, 100);
    assert_queue(3, 2, 26);
    assert_int_equal(queue.message_number, 100);
    assert_int_equal(queue.messages_open, 100);
    assert_true(queue.messages_done == 0);
}

TEST(rawe_sendqueue_replaced__stays_in_its_place)
{
    push(0, 100, 50);
    push(1, 3, 4);
    push(2, 5, 6);
    sends[1].pieces[0].len_bytes = 8;
    sends[1].piece_count = 1;
    rawe_sendqueue_replaced(&queue, &sends[1]);
    assert_queue(0, 3, 169);
    assert_true(sends[1].total_bytes == 8);
    assert_false(rawe_sendqueue_framed(&queue, 120));
    sends[0].pieces[0].len_bytes = 9;
    sends[0].piece_count = 1;
    rawe_sendqueue_replaced(&queue, &sends[0]); /* its frames have arrived */
    assert_queue(0, 3, 28);
    assert_true(sends[0].framed_bytes == 0);
}

/* rawe_sendqueue_move */

#define GRAIN_BYTES 100u

static struct rawe_send *split(struct rawe_send *send)
{
    return rests_taken < rests_allowed ? &rests[rests_taken++] : NULL;
}

/** Push a PUT of `len_bytes`, and put its first `framed_bytes` into frames. */
static struct rawe_send *push_put(unsigned index, size_t len_bytes, size_t framed_bytes)
{
    struct rawe_send *send = &sends[index];
    send->pieces[0] = (struct rawe_bytes){data, len_bytes};
    send->piece_count = 1;
    send->offset = 5000;
    send->split = split;
    rawe_sendqueue_push(&queue, send);
    if (framed_bytes != 0) {
        assert_ptr_equal(queue.first, send);
        assert_false(rawe_sendqueue_framed(&queue, framed_bytes));
    }
    return send;
}

/** Assert that both queues hold this many bytes, all movable, and can be appended to. */
static void assert_queues(uint64_t bytes, uint64_t other_bytes)
{
    const struct rawe_sendqueue *queues[] = {&queue, &other_queue};
    const uint64_t wanted_bytes[] = {bytes, other_bytes};
    for (unsigned i = 0; i < 2; i++) {
        struct rawe_send *const *link = &queues[i]->first;
        uint64_t found_bytes = 0;
        unsigned count = 0;
        for (; *link != NULL; link = &(*link)->next) {
            found_bytes += (*link)->total_bytes - (*link)->framed_bytes;
            count++;
        }
        assert_true(found_bytes == wanted_bytes[i]);
        assert_true(queues[i]->bytes == wanted_bytes[i]);
        assert_true(queues[i]->movable_bytes == wanted_bytes[i]);
        assert_int_equal(queues[i]->count, count);
        assert_ptr_equal(queues[i]->tail, link);
    }
}

TEST(rawe_sendqueue_move__splits_where_the_rest_begins)
{
    rests_allowed = 4;
    struct rawe_send *first = push_put(0, 1000, 300), *second = push_put(1, 500, 0);
    assert_true(rawe_sendqueue_move(&other_queue, &queue, 800, GRAIN_BYTES) == 800);
    assert_queues(400, 800);
    assert_ptr_equal(queue.first, first);
    assert_true(first->total_bytes == 700 && first->pieces[0].len_bytes == 700);
    const struct rawe_send *rest = other_queue.first;
    assert_ptr_equal(rest, &rests[0]);
    assert_ptr_equal(rest->pieces[0].base, data + 700);
    assert_true(rest->total_bytes == 300 && rest->framed_bytes == 0);
    assert_true(rest->offset == 5700);
    assert_ptr_equal(rest->next, second);
    assert_true(second->offset == 5000);
}

TEST(rawe_sendqueue_move__makes_no_short_parts)
{
    /* A part too short to move stays; a remainder too short to stay is moved as well. */
    rests_allowed = 4;
    push_put(0, 1000, 0);
    assert_true(rawe_sendqueue_move(&other_queue, &queue, 99, GRAIN_BYTES) == 0);
    assert_true(rawe_sendqueue_move(&other_queue, &queue, 901, GRAIN_BYTES) == 1000);
    assert_queues(0, 1000);
    assert_int_equal(rests_taken, 0);
}

TEST(rawe_sendqueue_move__leaves_a_rest_to_what_is_in_frames)
{
    rests_allowed = 4;
    struct rawe_send *send = push_put(0, 1000, 300);
    assert_true(rawe_sendqueue_move(&other_queue, &queue, 700, GRAIN_BYTES) == 600);
    assert_queues(100, 600);
    assert_true(send->total_bytes == 400);
    assert_true(rawe_sendqueue_move(&other_queue, &queue, 100, GRAIN_BYTES) == 0);
    assert_true(rawe_sendqueue_framed(&queue, 100));
}

TEST(rawe_sendqueue_move__passes_over_what_may_not)
{
    rests_allowed = 4;
    push_put(0, 500, 0);
    sends[1].split = NULL;
    struct rawe_send *message = push(1, 100, 100);
    push_put(2, 500, 0);
    assert_true(queue.movable_bytes == 1000);
    assert_true(rawe_sendqueue_move(&other_queue, &queue, 700, GRAIN_BYTES) == 700);
    assert_true(queue.bytes == 500 && queue.movable_bytes == 300);
    assert_ptr_equal(queue.first->next, message);
    assert_ptr_equal(queue.tail, &message->next);
    assert_int_equal(queue.count, 2);
}

TEST(rawe_sendqueue_move__without_memory)
{
    push_put(0, 1000, 0);
    push_put(1, 1000, 0);
    assert_true(rawe_sendqueue_move(&other_queue, &queue, 1500, GRAIN_BYTES) == 1000);
    assert_queues(1000, 1000);
}

/* Long replies, and messages that overtake them. */

#define REPLY_BYTES 50000u

static struct rawe_send *push_reply(unsigned index)
{
    sends[index].kind = RAWE_FRAGMENT_REPLY;
    return push_put(index, REPLY_BYTES, 0);
}

static struct rawe_send *push_message(unsigned index, size_t len_bytes)
{
    sends[index].split = NULL;
    return push(index, len_bytes - 1, 1);
}

/** Assert that the queue holds these sends, by index and in order, and can be appended to. */
static void assert_order(const unsigned *indices, unsigned count)
{
    struct rawe_send **link = &queue.first;
    for (unsigned i = 0; i < count; i++) {
        assert_ptr_equal(*link, &sends[indices[i]]);
        link = &(*link)->next;
    }
    assert_null(*link);
    assert_ptr_equal(queue.tail, link);
}

#define ASSERT_ORDER(...)                         \
    assert_order((const unsigned[]){__VA_ARGS__}, \
                 sizeof((const unsigned[]){__VA_ARGS__}) / sizeof(unsigned))

TEST(rawe_sendqueue_push__messages_pass_long_replies)
{
    push_reply(0);
    push_reply(1);
    push_message(2, 100);
    push_message(3, 100);
    push_reply(4);
    ASSERT_ORDER(2, 3, 0, 1, 4);
    assert_true(rawe_sendqueue_framed(&queue, 100));
    assert_true(rawe_sendqueue_framed(&queue, 100));
    push_message(5, 100);
    ASSERT_ORDER(5, 0, 1, 4);
}

/** A reused connection must hold no reference to earlier sends. */
TEST(rawe_sendqueue_clear__the_queue_can_be_appended_to)
{
    push_message(0, 100);
    push_reply(1);
    assert_ptr_equal(rawe_sendqueue_clear(&queue), &sends[0]);
    push_reply(2);
    push_message(3, 100);
    ASSERT_ORDER(3, 2);
    assert_ptr_equal(sends[1].next, NULL);
}

TEST(rawe_sendqueue_push__messages_let_a_reply_pass_after_64_kib)
{
    push_reply(0);
    push_reply(1);
    push_message(2, 64 << 10);
    push_message(3, 100);
    ASSERT_ORDER(2, 0, 3, 1);
    push_message(4, REPLY_BYTES);
    push_message(5, 100);
    ASSERT_ORDER(2, 0, 3, 4, 1, 5);
}

TEST(rawe_sendqueue_push__replies_in_frames_let_messages_pass_again)
{
    push_reply(0);
    push_message(1, 64 << 10);
    assert_true(rawe_sendqueue_framed(&queue, 64 << 10));
    assert_true(rawe_sendqueue_framed(&queue, REPLY_BYTES));
    push_reply(2);
    push_message(3, 100);
    ASSERT_ORDER(3, 2);
}

TEST(rawe_sendqueue_push__not_before_what_is_half_in_frames)
{
    push_reply(0);
    assert_false(rawe_sendqueue_framed(&queue, 1000));
    push_message(1, 100);
    push_reply(2);
    push_message(3, 100);
    ASSERT_ORDER(0, 1, 3, 2);
}

TEST(rawe_sendqueue_push_first__messages_stay_behind_it)
{
    push_reply(0);
    push_message(1, 100);
    assert_ptr_equal(rawe_sendqueue_pop(&queue), &sends[1]);
    rawe_sendqueue_push_first(&queue, &sends[1]);
    push_message(2, 100);
    ASSERT_ORDER(1, 2, 0);
}

TEST(rawe_sendqueue_move__messages_stay_behind_those_that_are_left)
{
    push_message(0, 100);
    push_put(1, 500, 0);
    push_reply(2);
    assert_true(rawe_sendqueue_move(&other_queue, &queue, 500 + REPLY_BYTES, GRAIN_BYTES) ==
                500 + REPLY_BYTES);
    push_reply(3);
    push_message(4, 100);
    ASSERT_ORDER(0, 4, 3);
}

TEST(rawe_sendqueue_framed__a_long_reply_ends_where_messages_wait)
{
    rests_allowed = 1;
    struct rawe_send *reply = push_reply(0);
    push_reply(1);
    push_message(2, 100);
    push_message(3, 100);
    assert_true(rawe_sendqueue_framed(&queue, 100));
    assert_true(rawe_sendqueue_framed(&queue, 100));
    assert_false(rawe_sendqueue_framed(&queue, 31 << 10));
    push_message(4, 100);
    assert_false(rawe_sendqueue_framed(&queue, 1023));
    assert_true(rawe_sendqueue_framed(&queue, 1));
    assert_true(reply->total_bytes == 32 << 10);
    assert_ptr_equal(queue.first, &sends[4]);
    const struct rawe_send *rest = queue.first->next;
    assert_ptr_equal(rest, &rests[0]);
    assert_true(rest->total_bytes == REPLY_BYTES - (32 << 10) && rest->framed_bytes == 0);
    assert_true(rest->offset == 5000 + (32 << 10));
    assert_ptr_equal(rest->next, &sends[1]);
    assert_true(queue.bytes == 100 + rest->total_bytes + REPLY_BYTES);
    assert_int_equal(queue.count, 3);
}

TEST(rawe_sendqueue_framed__a_long_reply_goes_on_where_none_wait)
{
    rests_allowed = 1;
    push_reply(0);
    push_reply(1);
    assert_false(rawe_sendqueue_framed(&queue, REPLY_BYTES - 1));
    assert_int_equal(rests_taken, 0);
}

TEST(rawe_sendqueue_framed__a_long_reply_goes_on_without_memory)
{
    push_reply(0);
    assert_false(rawe_sendqueue_framed(&queue, 1));
    push_message(1, 100);
    assert_false(rawe_sendqueue_framed(&queue, 32 << 10));
    assert_true(rawe_sendqueue_framed(&queue, REPLY_BYTES - 1 - (32 << 10)));
    ASSERT_ORDER(1);
}

TEST(rawe_sendqueue_framed__off_the_queue_with_its_last_byte)
{
    push(0, 100, 50);
    push(1, 3, 4);
    assert_false(rawe_sendqueue_framed(&queue, 1));
    assert_false(rawe_sendqueue_framed(&queue, 148));
    assert_queue(0, 2, 8);
    assert_true(sends[0].framed_bytes == 149);
    assert_true(rawe_sendqueue_framed(&queue, 1));
    assert_true(sends[0].framed_bytes == sends[0].total_bytes);
    assert_queue(1, 1, 7);
    assert_true(rawe_sendqueue_framed(&queue, 7));
    assert_queue(0, 0, 0);
}

TEST(rawe_sendqueue_framed__more_than_4_gib)
{
    push(0, 3ull << 30, 3ull << 30);
    assert_queue(0, 1, 6ull << 30);
    assert_false(rawe_sendqueue_framed(&queue, 5ull << 30));
    assert_queue(0, 1, 1ull << 30);
    assert_true(rawe_sendqueue_framed(&queue, 1ull << 30));
    assert_queue(0, 0, 0);
}

TEST(rawe_sendqueue_may_number__until_64_are_open)
{
    for (unsigned i = 0; i < RAWE_REASSEMBLY_MESSAGES; i++) {
        assert_int_equal(framed_message(i)->message_number, FIRST_NUMBER + i);
        assert_true(sends[i].fragmented);
    }
    assert_false(rawe_sendqueue_may_number(&queue));
    for (unsigned i = RAWE_REASSEMBLY_MESSAGES; i-- > 1;) {
        assert_true(rawe_sendqueue_released(&queue, &sends[i]));
        assert_false(rawe_sendqueue_may_number(&queue)); /* the oldest is still open */
    }
    assert_true(rawe_sendqueue_released(&queue, &sends[0]));
    assert_int_equal(queue.messages_open, FIRST_NUMBER + RAWE_REASSEMBLY_MESSAGES);
    assert_true(queue.messages_done == 0);
    for (unsigned i = 0; i < RAWE_REASSEMBLY_MESSAGES; i++) {
        (void)framed_message(i);
    }
    assert_false(rawe_sendqueue_may_number(&queue));
}

TEST(rawe_sendqueue_released__complete_with_the_last_frame)
{
    struct rawe_send *send = push(0, 100, 50);
    assert_false(rawe_sendqueue_framed(&queue, 90));
    send->frames = 2;
    assert_false(rawe_sendqueue_released(&queue, send));
    assert_false(rawe_sendqueue_released(&queue, send)); /* the rest of it is still queued */
    assert_true(rawe_sendqueue_framed(&queue, 60));
    send->frames = 2;
    assert_false(rawe_sendqueue_released(&queue, send));
    assert_true(rawe_sendqueue_released(&queue, send));
    assert_int_equal(queue.messages_open, FIRST_NUMBER); /* the send had no number */
    assert_true(queue.messages_done == 0);
}

TEST(rawe_sendqueue_released__messages_out_of_order)
{
    for (unsigned i = 0; i < 6; i++) {
        (void)framed_message(i);
    }
    static const unsigned indices[] = {1, 0, 5, 3, 2, 4};
    static const unsigned open[] = {0, 2, 2, 2, 4, 6}; /* across the wrap of the numbers */
    for (unsigned i = 0; i < 6; i++) {
        assert_true(rawe_sendqueue_released(&queue, &sends[indices[i]]));
        assert_int_equal(queue.messages_open, FIRST_NUMBER + open[i]);
    }
    assert_true(queue.messages_done == 0);
}

TEST(rawe_send_rebase__one_piece)
{
    static uint8_t copy[10];
    struct rawe_send *send = push(0, 10, 20);
    send->piece_count = 1;
    assert_ptr_equal(rawe_send_rebase(send, data + 5, copy), copy + 5);
    assert_null(rawe_send_rebase(send, data + 10, copy));
}

#define ORDER_MOST 64u

static struct rawe_order order;

static void set_up_order(void)
{
    rawe_order_init(&order, ORDER_MOST);
}

static const struct unit_fixture with_order = {set_up_order, NULL};

TEST_WITH(with_order, rawe_order_allows__so_many_from_the_first)
{
    assert_int_equal(order.next, 1);
    assert_true(rawe_order_allows(&order, ORDER_MOST));
    assert_false(rawe_order_allows(&order, ORDER_MOST + 1));
}

TEST_WITH(with_order, rawe_order_raise__by_a_part_at_least)
{
    unsigned least = ORDER_MOST / RAWE_ORDER_STEPS + 1;
    assert_false(rawe_order_raise(&order, least));
    assert_false(rawe_order_allows(&order, ORDER_MOST + 1));
    assert_true(rawe_order_raise(&order, least + 1));
    assert_true(rawe_order_allows(&order, least + ORDER_MOST));
    assert_false(rawe_order_allows(&order, least + ORDER_MOST + 1));
}

TEST_WITH(with_order, rawe_order_merge__connections_go_on_with_the_higher_numbers)
{
    struct rawe_order other;
    struct rawe_order_member member = {0};
    rawe_order_init(&other, ORDER_MOST);
    rawe_order_add(&other, &member);
    other.next = 40;
    rawe_order_merge(&order, &other);
    assert_int_equal(order.next, 40);
    assert_ptr_equal(member.order, &order);
    assert_ptr_equal(rawe_list_first(&order.members), &member.link);
    assert_true(rawe_list_empty(&other.members));
    rawe_order_remove(&member);
    assert_true(rawe_list_empty(&order.members));
}
