/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Atomic operations on registered memory.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "rma/rawe_handle.h"
#include "unit_test.h"

static struct rawe_handle_table table;
static uint64_t words[3];
static uint32_t word_index;
static uint64_t word_key;

static void set_up(void)
{
    rawe_handle_table_init(&table, 1);
    assert_true(rawe_handle_register(&table, words, sizeof(words), &word_index, &word_key,
                                     RAWE_ACCESS_ATOMIC));
}

static void tear_down(void)
{
    rawe_handle_table_free(&table);
}

static enum rawe_refusal execute(uint64_t offset, struct rawe_request request, void *before)
{
    return rawe_access_atomic(&table, word_index, word_key, offset, &request, before);
}

FIXTURE(set_up, tear_down);

TEST(atomic__each_operation_on_either_width)
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

TEST(atomic__refused)
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
    assert_int_equal(rawe_access_atomic(&table, word_index, word_key ^ 1, 0, &add, &before),
                     RAWE_REFUSAL_UNKNOWN);
    assert_true(rawe_handle_deregister(&table, word_index, word_key));
    assert_int_equal(execute(0, add, &before), RAWE_REFUSAL_UNKNOWN);
    assert_true(rawe_handle_register(&table, words, sizeof(words), &word_index, &word_key,
                                     RAWE_ACCESS_READ | RAWE_ACCESS_WRITE));
    assert_int_equal(execute(0, add, &before), RAWE_REFUSAL_ACCESS);
    assert_true(words[0] == 0 && words[1] == 0 && words[2] == 0 && before == 5);
}
