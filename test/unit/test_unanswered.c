/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the list of interfaces through which nobody has answered.
 */
#include "btl_rawe_unanswered.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define MACS 100u

static struct mca_btl_rawe_unanswered unanswered;

static const uint8_t *mac(unsigned number)
{
    static uint8_t out[RAWE_MAC_BYTES];

    memset(out, 0, sizeof(out));
    out[0] = 2;
    out[5] = (uint8_t)number;
    return out;
}

static int tear_down(void **state)
{
    (void)state;
    mca_btl_rawe_unanswered_free(&unanswered);
    return 0;
}

static void mca_btl_rawe_unanswered_has__knows_none_at_first(void **state)
{
    (void)state;
    assert_false(mca_btl_rawe_unanswered_has(&unanswered, mac(0)));
}

static void mca_btl_rawe_unanswered_note__who_did_not_answer(void **state)
{
    (void)state;
    for (unsigned i = 0; i < MACS; ++i) {
        mca_btl_rawe_unanswered_note(&unanswered, mac(i), false);
        mca_btl_rawe_unanswered_note(&unanswered, mac(i), false); /* another process there */
    }
    assert_int_equal(unanswered.count, MACS);
    for (unsigned i = 0; i < MACS; ++i) {
        assert_true(mca_btl_rawe_unanswered_has(&unanswered, mac(i)));
    }
    assert_false(mca_btl_rawe_unanswered_has(&unanswered, mac(MACS)));
}

static void mca_btl_rawe_unanswered_note__who_answers_later(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; ++i) {
        mca_btl_rawe_unanswered_note(&unanswered, mac(i), false);
    }
    mca_btl_rawe_unanswered_note(&unanswered, mac(0), true);
    mca_btl_rawe_unanswered_note(&unanswered, mac(7), true); /* was never unanswered */
    assert_false(mca_btl_rawe_unanswered_has(&unanswered, mac(0)));
    assert_true(mca_btl_rawe_unanswered_has(&unanswered, mac(1)));
    assert_true(mca_btl_rawe_unanswered_has(&unanswered, mac(2)));
    assert_int_equal(unanswered.count, 2);
}

static void mca_btl_rawe_unanswered_free__forgets(void **state)
{
    (void)state;
    mca_btl_rawe_unanswered_note(&unanswered, mac(0), false);
    mca_btl_rawe_unanswered_free(&unanswered);
    assert_false(mca_btl_rawe_unanswered_has(&unanswered, mac(0)));
}

#define TEST(name) cmocka_unit_test_teardown(name, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(mca_btl_rawe_unanswered_has__knows_none_at_first),
        TEST(mca_btl_rawe_unanswered_note__who_did_not_answer),
        TEST(mca_btl_rawe_unanswered_note__who_answers_later),
        TEST(mca_btl_rawe_unanswered_free__forgets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
