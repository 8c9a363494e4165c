/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the table of operations in progress.
 */
#include <stdbool.h>

#include "pull/rawe_credit.h"
#include "pull/rawe_budget.h"
#include "rma/rawe_operation.h"
#include "unit_test.h"

#define PEER_KEY 0x11223344u
#define PEER_PORT 77u

static struct rawe_operation_table table;
static struct rawe_operation operations[RAWE_OPERATIONS_MAX + 1];
static bool began;

static void set_up(void)
{
    rawe_operation_table_init(&table, 0);
    for (unsigned i = 0; i <= RAWE_OPERATIONS_MAX; i++) {
        operations[i] = (struct rawe_operation){
            .peer_key = PEER_KEY,
            .peer_port = PEER_PORT,
        };
    }
}

static struct rawe_operation *find(const struct rawe_operation *operation)
{
    return rawe_operation_find(&table, operation->index, operation->key, PEER_KEY, PEER_PORT);
}

FIXTURE(set_up, NULL);

/** Enter the operations from `first` on as those of one peer. Returns the number of the next. */
static unsigned enter_for_one(unsigned first)
{
    unsigned next = first;
    do {
        operations[next].peer = (void *)(64 * (uintptr_t)(first + 1)); /* is not dereferenced */
    } while (rawe_operation_enter(&table, &operations[next]) && ++next <= RAWE_OPERATIONS_MAX);
    return next;
}

TEST(enter__a_peer_leaves_as_many_free_as_it_has)
{
    assert_int_equal(enter_for_one(0), 512);
    assert_int_equal(enter_for_one(512), 512 + 256);
    assert_int_equal(enter_for_one(768), 768 + 128);
    rawe_operation_remove(&operations[0]);
    assert_false(rawe_operation_enter(&table, &operations[0]));
    assert_int_equal(enter_for_one(896), 896 + 65);
}

/** With more peers than counters, some share one with the peer that has the most operations. */
TEST(enter__peers_that_share_a_counter)
{
    assert_int_equal(enter_for_one(0), 512);
    for (unsigned i = 0; i < 2 * RAWE_OPERATIONS_MAX; i++) {
        operations[512].peer = (void *)(uintptr_t)(1 + i);
        assert_true(rawe_operation_enter(&table, &operations[512]) || (1 + i) == 64);
        if (operations[512].table != NULL) {
            rawe_operation_remove(&operations[512]);
        }
    }
}

TEST(enter__up_to_the_limit)
{
    unsigned next = 0;
    while (next < RAWE_OPERATIONS_MAX) {
        next = enter_for_one(next);
    }
    assert_int_equal(enter_for_one(next), RAWE_OPERATIONS_MAX);
    assert_int_equal(table.in_use, RAWE_OPERATIONS_MAX);
    for (unsigned i = 0; i < RAWE_OPERATIONS_MAX; i++) {
        assert_ptr_equal(find(&operations[i]), &operations[i]);
    }
    rawe_operation_remove(&operations[5]);
    assert_true(rawe_operation_enter(&table, &operations[RAWE_OPERATIONS_MAX]));
}

/** A REPLY may arrive at any engine of the process, so no two engines may use the same key. */
TEST(enter__keys_follow_the_last_one_given)
{
    rawe_operation_table_init(&table, 7ull << 32);
    assert_true(rawe_operation_enter(&table, &operations[0]));
    assert_true(rawe_operation_enter(&table, &operations[1]));
    assert_true(operations[0].key == (7ull << 32) + 1);
    assert_true(operations[1].key == (7ull << 32) + 2);
}

TEST(find__only_the_right_key_of_the_right_peer)
{
    struct rawe_operation *operation = &operations[0];
    assert_null(rawe_operation_find(&table, 0, 0, PEER_KEY, PEER_PORT));
    assert_true(rawe_operation_enter(&table, operation));
    uint32_t index = operation->index;
    uint64_t key = operation->key;
    assert_ptr_equal(find(operation), operation);
    assert_null(rawe_operation_find(&table, index + 1, key, PEER_KEY, PEER_PORT));
    assert_null(rawe_operation_find(&table, UINT32_MAX, key, PEER_KEY, PEER_PORT));
    assert_null(rawe_operation_find(&table, index, key + 1, PEER_KEY, PEER_PORT));
    assert_null(rawe_operation_find(&table, index, key, PEER_KEY ^ 1, PEER_PORT));
    assert_null(rawe_operation_find(&table, index, key, PEER_KEY, PEER_PORT ^ 1));
    rawe_operation_remove(operation);
    assert_null(rawe_operation_find(&table, index, key, PEER_KEY, PEER_PORT));
    assert_true(rawe_operation_enter(&table, &operations[1]));
    assert_int_equal(operations[1].index, index);
    assert_true(operations[1].key != key);
}

TEST(progress_ns__the_newest_of_that_peer)
{
    assert_int_equal(rawe_operation_progress_ns(&table, PEER_KEY, PEER_PORT, &began), 0);
    for (unsigned i = 0; i < 4; i++) {
        assert_true(rawe_operation_enter(&table, &operations[i]));
        operations[i].progress_ns = 10 - i;
        operations[i].len_bytes = 8;
        operations[i].left_bytes = 8 - i % 2;
    }
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(rawe_operation_progress_ns(&table, PEER_KEY, PEER_PORT, &began), 10 - i);
        assert_int_equal(began, i % 2 == 0);
        assert_int_equal(rawe_operation_progress_ns(&table, PEER_KEY, PEER_PORT + 1, &began), 0);
        assert_int_equal(rawe_operation_progress_ns(&table, PEER_KEY + 1, PEER_PORT, &began), 0);
        rawe_operation_remove(&operations[i]);
    }
    assert_int_equal(rawe_operation_progress_ns(&table, PEER_KEY, PEER_PORT, &began), 0);
}

TEST(place__within_what_is_left)
{
    static uint8_t memory[100];
    struct rawe_operation operation = {.local = memory, .len_bytes = 100, .left_bytes = 60};
    assert_ptr_equal(rawe_operation_place(&operation, 0, 60), memory);
    assert_ptr_equal(rawe_operation_place(&operation, 40, 60), memory + 40);
    assert_null(rawe_operation_place(&operation, 41, 60));
    assert_null(rawe_operation_place(&operation, 0, 61));
    assert_null(rawe_operation_place(&operation, 101, 0));
    assert_null(rawe_operation_place(&operation, UINT64_MAX, 2));
    assert_null(rawe_operation_place(&operation, 2, UINT64_MAX));
}

TEST(abandon__those_to_one_peer_whose_requests_have_gone)
{
    struct rawe_sends list = {NULL};
    for (unsigned i = 0; i < 4; i++) {
        assert_true(rawe_operation_enter(&table, &operations[i]));
    }
    operations[1].peer_port++;                                   /* belongs to another peer */
    operations[2].request.send.total_bytes = RAWE_REQUEST_BYTES; /* not framed yet */
    operations[3].request.send.total_bytes = RAWE_REQUEST_BYTES;
    operations[3].request.send.framed_bytes = RAWE_REQUEST_BYTES;
    rawe_operation_abandon(&table, PEER_KEY, PEER_PORT, RAWE_LANE_EXPRESS, &list);
    assert_ptr_equal(list.first, &operations[0].completion.send);
    assert_ptr_equal(list.first->next, &operations[3].completion.send);
    assert_null(list.first->next->next);
    assert_null(find(&operations[0]));
    assert_ptr_equal(find(&operations[2]), &operations[2]);
    assert_int_equal(table.in_use, 2);
}

TEST(abandon__with_the_bulk_lane_only_what_may_be_answered_there)
{
    struct rawe_sends list = {NULL};
    for (unsigned i = 0; i < 2; i++) {
        operations[i].len_bytes = RAWE_OPERATION_SHORT_BYTES + i;
        assert_true(rawe_operation_enter(&table, &operations[i]));
    }
    rawe_operation_abandon(&table, PEER_KEY, PEER_PORT, RAWE_LANE_BULK, &list);
    assert_ptr_equal(list.first, &operations[1].completion.send);
    assert_null(list.first->next);
    assert_ptr_equal(find(&operations[0]), &operations[0]);
}

TEST(rawe_operation_remove__other_processes_see_that_the_rest_will_not_come)
{
    static struct rawe_budget_host host;
    struct rawe_line line;
    struct rawe_budget budget;
    rawe_line_init(&line, 25000);
    rawe_budget_init(&budget, 100000, &line);
    rawe_budget_join(&budget, &host, 0);
    operations[0].budget = &budget;
    operations[0].left_bytes = 3000;
    assert_true(rawe_operation_enter(&table, &operations[0]));
    rawe_budget_asked(&budget, 5000, 1);
    rawe_operation_remove(&operations[0]);
    assert_int_equal(budget.share->asked_bytes, 2000);
}
