/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of handles of registered memory, and of accesses through them.
 */
#include "unit_test.h"

#include <stdbool.h>
#include <string.h>

#include "rma/rawe_handle.h"

static uint8_t memory[1000];

static struct rawe_handle_table table;
static uint32_t known_index;
static uint64_t known_key;

/** Register the first `len_bytes` bytes of the memory. */
static void know(size_t len_bytes, unsigned access)
{
    assert_true(rawe_handle_register(&table, memory, len_bytes, &known_index, &known_key, access));
}

static void set_up(void)
{
    rawe_handle_table_init(&table, 7);
}

static void tear_down(void)
{
    rawe_handle_table_free(&table);
}

FIXTURE(set_up, tear_down);

TEST(rawe_handle_table_init__knows_nothing)
{
    assert_int_equal(table.in_use, 0);
    assert_null(rawe_handle_resolve(&table, 0, 0, 0, 0, RAWE_ACCESS_WRITE));
    assert_false(rawe_handle_deregister(&table, 0, 0));
}

TEST(rawe_handle_table_free__leaves_an_empty_table)
{
    know(sizeof(memory), RAWE_ACCESS_WRITE);
    rawe_handle_table_free(&table);
    assert_null(rawe_handle_resolve(&table, known_index, known_key, 0, 1, RAWE_ACCESS_WRITE));
}

TEST(rawe_handle_register__many_all_distinct)
{
    enum { COUNT = 1000 };
    uint32_t index[COUNT];
    uint64_t key[COUNT];
    for (unsigned i = 0; i < COUNT; i++) {
        assert_true(
            rawe_handle_register(&table, memory + i, 1, &index[i], &key[i], RAWE_ACCESS_WRITE));
    }
    assert_int_equal(table.in_use, COUNT);
    for (unsigned i = 0; i < COUNT; i++) {
        assert_ptr_equal(rawe_handle_resolve(&table, index[i], key[i], 0, 1, RAWE_ACCESS_WRITE),
                         memory + i);
        /* A neighbour's key does not open the handle. */
        assert_null(
            rawe_handle_resolve(&table, index[i], key[(i + 1) % COUNT], 0, 1, RAWE_ACCESS_WRITE));
    }
    for (unsigned i = 0; i < COUNT; i++) {
        assert_true(rawe_handle_deregister(&table, index[i], key[i]));
    }
    assert_int_equal(table.in_use, 0);
}

TEST(rawe_handle_register__another_seed_gives_other_keys)
{
    struct rawe_handle_table one, other;
    uint32_t index;
    uint64_t one_key, other_key;
    rawe_handle_table_init(&one, 1);
    rawe_handle_table_init(&other, 2);
    assert_true(rawe_handle_register(&one, memory, 1, &index, &one_key, RAWE_ACCESS_WRITE));
    assert_true(rawe_handle_register(&other, memory, 1, &index, &other_key, RAWE_ACCESS_WRITE));
    assert_true(one_key != other_key);
    rawe_handle_table_free(&one);
    rawe_handle_table_free(&other);
}

/** A deregistered handle never opens the next registration at its index, not even by chance. */
TEST(rawe_handle_register__a_place_has_another_generation_each_time)
{
    uint32_t first, second;
    uint64_t first_key, second_key;
    assert_true(rawe_handle_register(&table, memory, 1, &first, &first_key, RAWE_ACCESS_WRITE));
    assert_true(rawe_handle_deregister(&table, first, first_key));
    assert_true(rawe_handle_register(&table, memory, 1, &second, &second_key, RAWE_ACCESS_WRITE));
    assert_int_equal(second, first);
    assert_int_equal(second_key >> 32, (first_key >> 32) + 1);
    assert_true(rawe_handle_deregister(&table, second, second_key));
}

/** Register all memory, starting at MPI_BOTTOM. */
TEST(rawe_handle_register__memory_from_address_0_on)
{
    uint32_t index;
    uint64_t key;
    assert_true(rawe_handle_register(&table, NULL, UINT64_MAX, &index, &key, RAWE_ACCESS_READ));
    assert_ptr_equal(rawe_handle_resolve(&table, index, key, (uintptr_t)memory, sizeof(memory),
                                         RAWE_ACCESS_READ),
                     memory);
    assert_int_equal(rawe_handle_refusal(&table, index, key, RAWE_ACCESS_WRITE),
                     RAWE_REFUSAL_ACCESS);
    assert_true(rawe_handle_deregister(&table, index, key));
    assert_int_equal(table.in_use + table.readable, 0);
}

TEST(rawe_handle_deregister__only_the_right_key_and_once)
{
    know(sizeof(memory), RAWE_ACCESS_WRITE);
    assert_false(rawe_handle_deregister(&table, known_index, known_key ^ 1));
    assert_false(rawe_handle_deregister(&table, known_index + 1, known_key));
    assert_false(rawe_handle_deregister(&table, UINT32_MAX, known_key));
    assert_non_null(rawe_handle_resolve(&table, known_index, known_key, 0, 1, RAWE_ACCESS_WRITE));
    assert_int_equal(table.readable, 0);
    assert_true(rawe_handle_deregister(&table, known_index, known_key));
    know(sizeof(memory), RAWE_ACCESS_READ);
    assert_int_equal(table.readable, 1);
    assert_true(rawe_handle_deregister(&table, known_index, known_key));
    assert_int_equal(table.readable, 0);
    assert_false(rawe_handle_deregister(&table, known_index, known_key));
    assert_null(rawe_handle_resolve(&table, known_index, known_key, 0, 1, RAWE_ACCESS_WRITE));
    assert_null(rawe_handle_resolve(&table, known_index, known_key, 0, 0, RAWE_ACCESS_WRITE));
}

TEST(rawe_handle_resolve__bounds)
{
    know(100, RAWE_ACCESS_WRITE);
    static const struct {
        uint64_t offset, len_bytes;
        bool good;
    } cases[] = {
        {0, 100, true},
        {0, 101, false},
        {99, 1, true},
        {99, 2, false},
        {100, 0, true},
        {100, 1, false},
        {101, 0, false},
        {UINT64_MAX, 1, false},
        {UINT64_MAX, 2, false},      /* offset + length wraps to 1 */
        {UINT64_MAX - 9, 10, false}, /* wraps to 0 */
        {1, UINT64_MAX, false},
        {1ull << 32, 1, false}, /* would fit if truncated to 32 bits */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_ptr_equal(rawe_handle_resolve(&table, known_index, known_key, cases[i].offset,
                                             cases[i].len_bytes, RAWE_ACCESS_WRITE),
                         cases[i].good ? memory + cases[i].offset : NULL);
    }
    assert_null(rawe_handle_resolve(&table, known_index, known_key ^ (1ull << 32), 0, 1,
                                    RAWE_ACCESS_WRITE));
    assert_null(rawe_handle_resolve(&table, known_index, known_key ^ 1, 0, 1, RAWE_ACCESS_WRITE));
    assert_null(rawe_handle_resolve(&table, known_index, 0, 0, 1, RAWE_ACCESS_WRITE));
    assert_null(rawe_handle_resolve(&table, known_index + 1, known_key, 0, 1, RAWE_ACCESS_WRITE));
    assert_null(rawe_handle_resolve(&table, UINT32_MAX, known_key, 0, 1, RAWE_ACCESS_WRITE));
}

static uint64_t words[3];

/** Register `words`. */
static void know_words(unsigned access)
{
    assert_true(
        rawe_handle_register(&table, words, sizeof(words), &known_index, &known_key, access));
}

static void set_up_words(void)
{
    set_up();
    know_words(RAWE_ACCESS_ATOMIC);
}

static enum rawe_refusal execute(uint64_t offset, struct rawe_request request, void *before)
{
    return rawe_access_atomic(&table, known_index, known_key, offset, &request, before);
}

static const struct unit_fixture with_words = {set_up_words, tear_down};

TEST_WITH(with_words, atomic__each_operation_on_either_width)
{
    static const struct {
        enum rawe_atomic what;
        uint32_t operand, compare, after;
    } cases[] = {
        {RAWE_ATOMIC_ADD, 3, 0, 1},
        {RAWE_ATOMIC_AND, 0xF0, 0, 0xF0},
        {RAWE_ATOMIC_OR, 1, 0, 0xFFFFFFFF},
        {RAWE_ATOMIC_XOR, 0xFF, 0, 0xFFFFFF01},
        {RAWE_ATOMIC_SWAP, 9, 0, 9},
        {RAWE_ATOMIC_COMPARE_SWAP, 9, 0xFFFFFFFE, 9},
        {RAWE_ATOMIC_COMPARE_SWAP, 9, 0xFFFFFFFF, 0xFFFFFFFE},
    };
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rawe_request request = {
            .atomic = (uint8_t)cases[i].what,
            .word_bytes = 4,
            .operand = cases[i].operand,
            .compare = cases[i].compare,
        };
        uint32_t four[2] = {0xFFFFFFFE, 0x12345678}, before = 0;
        memcpy(&words[1], four, sizeof(four));
        assert_int_equal(execute(8, request, &before), RAWE_REFUSAL_NONE);
        memcpy(four, &words[1], sizeof(four));
        assert_int_equal(before, 0xFFFFFFFE);
        assert_int_equal(four[0], cases[i].after);
        assert_int_equal(four[1], 0x12345678);

        uint64_t eight = 0;
        request.word_bytes = 8;
        words[1] = 0xFFFFFFFE;
        assert_int_equal(execute(8, request, &eight), RAWE_REFUSAL_NONE);
        assert_true(eight == 0xFFFFFFFE);
        assert_true(words[1] == (cases[i].what == RAWE_ATOMIC_ADD ? 0x100000001 : cases[i].after));
    }
    assert_true(words[0] == 0 && words[2] == 0);
}

TEST_WITH(with_words, atomic__refused)
{
    const struct rawe_request add = {.atomic = RAWE_ATOMIC_ADD, .word_bytes = 8, .operand = 1};
    struct rawe_request other = add;
    uint64_t before = 5;
    words[0] = words[1] = words[2] = 0;
    assert_int_equal(execute(4, add, &before), RAWE_REFUSAL_ALIGNMENT);
    assert_int_equal(execute(24, add, &before), RAWE_REFUSAL_BOUNDS);
    assert_int_equal(execute(20, add, &before), RAWE_REFUSAL_BOUNDS);
    other.word_bytes = 2;
    assert_int_equal(execute(0, other, &before), RAWE_REFUSAL_OPERATION);
    other = add;
    other.atomic = 0;
    assert_int_equal(execute(0, other, &before), RAWE_REFUSAL_OPERATION);
    other.atomic = RAWE_ATOMIC_COMPARE_SWAP + 1;
    assert_int_equal(execute(0, other, &before), RAWE_REFUSAL_OPERATION);
    assert_int_equal(rawe_access_atomic(&table, known_index, known_key ^ 1, 0, &add, &before),
                     RAWE_REFUSAL_UNKNOWN);
    assert_true(rawe_handle_deregister(&table, known_index, known_key));
    assert_int_equal(execute(0, add, &before), RAWE_REFUSAL_UNKNOWN);
    know_words(RAWE_ACCESS_READ | RAWE_ACCESS_WRITE);
    assert_int_equal(execute(0, add, &before), RAWE_REFUSAL_ACCESS);
    assert_true(words[0] == 0 && words[1] == 0 && words[2] == 0 && before == 5);
}
