/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the list of interfaces through which nobody has answered.
 */
#include "btl_rawe_unanswered.h"

#include <string.h>

#include "unit_test.h"

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

static void tear_down(void)
{
    mca_btl_rawe_unanswered_free(&unanswered);
}

FIXTURE(NULL, tear_down);

TEST(mca_btl_rawe_unanswered_has__knows_none_at_first)
{
    assert_false(mca_btl_rawe_unanswered_has(&unanswered, mac(0)));
}

TEST(mca_btl_rawe_unanswered_note__who_did_not_answer)
{
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

TEST(mca_btl_rawe_unanswered_note__who_answers_later)
{
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

TEST(mca_btl_rawe_unanswered_free__forgets)
{
    mca_btl_rawe_unanswered_note(&unanswered, mac(0), false);
    mca_btl_rawe_unanswered_free(&unanswered);
    assert_false(mca_btl_rawe_unanswered_has(&unanswered, mac(0)));
}
