/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the connection table.
 */
#include <string.h>

#include "conn/rawe_conn_state.h"
#include "base/rawe_conn_table.h"
#include "unit_alloc.h"
#include "unit_test.h"

#define INDEX_MASK 0xFFFFFu
#define GENERATION_SHIFT 20u
#define FULL (1u << GENERATION_SHIFT)

static struct rawe_conn_table table;
static struct rawe_conn conns[40];

static void set_up(void)
{
    unit_allocations_left = -1;
    memset(&table, 0, sizeof(table));
}

static void tear_down(void)
{
    unit_allocations_left = -1;
    for (uint32_t i = 0; i < table.size; i++) {
        if (table.entries[i].conn != NULL) {
            rawe_conn_table_remove(&table, table.entries[i].id);
        }
    }
    rawe_conn_table_free(&table);
}

FIXTURE(set_up, tear_down);

TEST(rawe_conn_table_add__full_at_2_20)
{
    for (uint32_t i = 0; i < FULL; i++) {
        assert_int_equal(rawe_conn_table_add(&table, &conns[0]) & INDEX_MASK, i);
    }
    assert_int_equal(rawe_conn_table_add(&table, &conns[1]), 0);
    assert_int_equal(table.size, FULL);
    uint32_t id = (FULL - 1) | 1u << GENERATION_SHIFT;
    rawe_conn_table_remove(&table, id);
    assert_int_equal(rawe_conn_table_add(&table, &conns[1]), (FULL - 1) | 2u << GENERATION_SHIFT);
    assert_int_equal(rawe_conn_table_add(&table, &conns[1]), 0);
}

TEST(rawe_conn_table_add__without_memory)
{
    unit_allocations_left = 0;
    assert_int_equal(rawe_conn_table_add(&table, &conns[0]), 0);
    assert_int_equal(table.size, 0);
    assert_null(rawe_conn_table_find(&table, 1u << GENERATION_SHIFT));
    unit_allocations_left = -1;
    for (unsigned i = 0; i < 16; i++) {
        assert_true(rawe_conn_table_add(&table, &conns[i]) != 0);
    }
    unit_allocations_left = 0;
    assert_int_equal(rawe_conn_table_add(&table, &conns[16]), 0);
    for (unsigned i = 0; i < 16; i++) {
        assert_ptr_equal(rawe_conn_table_find(&table, i | 1u << GENERATION_SHIFT), &conns[i]);
    }
    unit_allocations_left = -1;
    assert_int_equal(rawe_conn_table_add(&table, &conns[16]), 16 | 1u << GENERATION_SHIFT);
}

TEST(rawe_conn_table_renew__generations_wrap_past_0)
{
    uint32_t id = rawe_conn_table_add(&table, &conns[0]); /* at index 0, generation 0 is skipped */
    for (uint32_t generation = 2; generation <= 0xFFF; generation++) {
        id = rawe_conn_table_renew(&table, id);
        assert_int_equal(id, generation << GENERATION_SHIFT);
    }
    id = rawe_conn_table_renew(&table, id);
    assert_int_equal(id, 1u << GENERATION_SHIFT);
    assert_ptr_equal(rawe_conn_table_find(&table, id), &conns[0]);
}

TEST(rawe_conn_table_remove__lowest_index_is_used_again_first)
{
    uint32_t ids[6];
    for (unsigned i = 0; i < 6; i++) {
        ids[i] = rawe_conn_table_add(&table, &conns[i]);
    }
    rawe_conn_table_remove(&table, ids[4]);
    rawe_conn_table_remove(&table, ids[1]);
    rawe_conn_table_remove(&table, ids[3]);
    static const unsigned indices[] = {1, 3, 4, 6};
    for (unsigned i = 0; i < 4; i++) {
        uint32_t id = rawe_conn_table_add(&table, &conns[10 + i]);
        assert_int_equal(id & INDEX_MASK, indices[i]);
        assert_ptr_equal(rawe_conn_table_find(&table, id), &conns[10 + i]);
        if (i < 3) {
            assert_int_not_equal(id, ids[indices[i]]);
            assert_null(rawe_conn_table_find(&table, ids[indices[i]]));
        }
    }
    assert_ptr_equal(rawe_conn_table_find(&table, ids[0]), &conns[0]);
}

TEST(rawe_conn_table_find__ids_from_anywhere)
{
    assert_null(rawe_conn_table_find(&table, 0)); /* the table has no memory yet */
    assert_null(rawe_conn_table_find(&table, UINT32_MAX));
    uint32_t id = rawe_conn_table_add(&table, &conns[0]);
    for (uint32_t bit = 0; bit < 32; bit++) {
        assert_null(rawe_conn_table_find(&table, id ^ 1u << bit));
    }
    /* The ids of free indices find nothing. */
    for (uint32_t index = 0; index < 2 * table.size; index++) {
        assert_null(rawe_conn_table_find(&table, index));
    }
    rawe_conn_table_remove(&table, id);
    assert_null(rawe_conn_table_find(&table, id));
}

TEST(rawe_conn_table_free__ids_of_before_find_nothing)
{
    uint32_t ids[3];
    for (unsigned i = 0; i < 3; i++) {
        ids[i] = rawe_conn_table_add(&table, &conns[i]);
    }
    ids[1] = rawe_conn_table_renew(&table, ids[1]);
    for (unsigned i = 0; i < 3; i++) {
        rawe_conn_table_remove(&table, ids[i]);
    }
    rawe_conn_table_free(&table);
    assert_int_equal(table.size, 0);
    for (unsigned i = 0; i < 3; i++) {
        (void)rawe_conn_table_add(&table, &conns[i]);
        assert_null(rawe_conn_table_find(&table, ids[i]));
    }
}
