/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of those that call first: what is asked of the runtime, and what becomes of its answers.
 */
#include "btl_rawe_callers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "btl_rawe_modex.h"
#include "btl_rawe_state.h"

#define ASKED_MAX 100u

/* What callers need of the component: the runtime is the test's own. */
struct mca_btl_rawe_state mca_btl_rawe_state;
static mca_btl_base_component_3_0_0_t component;
static struct {
    opal_process_name_t name;
    mca_btl_rawe_compat_modex_answer_fn *answer;
    void *context;
} asked[ASKED_MAX];
static unsigned asked_count;

int mca_btl_rawe_compat_modex_request(const mca_base_component_t *of,
                                      const opal_process_name_t *name,
                                      mca_btl_rawe_compat_modex_answer_fn *answer, void *context)
{
    (void)of;
    assert_in_range(asked_count, 0, ASKED_MAX - 1);
    asked[asked_count].name = *name;
    asked[asked_count].answer = answer;
    asked[asked_count].context = context;
    ++asked_count;
    return OPAL_SUCCESS;
}

/** What is published is the port alone. */
unsigned mca_btl_rawe_modex_parse(const opal_proc_t *proc, const void *data, size_t len_bytes,
                                  struct mca_btl_rawe_address *addresses)
{
    (void)proc;
    if (sizeof(addresses->port) != len_bytes) {
        return 0;
    }
    memcpy(&addresses->port, data, sizeof(addresses->port));
    return 1;
}

static void answer(unsigned question, uint16_t port)
{
    asked[question].answer(asked[question].context, &port, sizeof(port));
}

/** What is known of a caller: its port, or 0. */
static uint16_t find(uint32_t vpid)
{
    struct mca_btl_rawe_address addresses[MCA_BTL_RAWE_MODULES_MAX];
    const opal_process_name_t name = {.jobid = 1, .vpid = vpid};

    return 0 == mca_btl_rawe_callers_find(name, addresses) ? 0 : addresses[0].port;
}

static int set_up(void **state)
{
    (void)state;
    asked_count = 0;
    mca_btl_rawe_state.component = &component;
    mca_btl_rawe_callers_begin();
    return 0;
}

static void mca_btl_rawe_callers_find__asks_once_and_knows_later(void **state)
{
    (void)state;
    assert_int_equal(find(3), 0);
    assert_int_equal(find(3), 0);
    assert_int_equal(asked_count, 1);
    assert_int_equal(asked[0].name.vpid, 3);
    answer(0, 77);
    assert_int_equal(find(3), 77);
}

static void mca_btl_rawe_callers_begin__forgets_answers(void **state)
{
    (void)state;
    assert_int_equal(find(3), 0);
    answer(0, 77);
    mca_btl_rawe_callers_begin();
    assert_int_equal(find(3), 0); /* it is asked anew */
    assert_int_equal(asked_count, 2);
    answer(1, 78);
    assert_int_equal(find(3), 78);
}

static void mca_btl_rawe_callers_begin__late_answers_are_dropped(void **state)
{
    (void)state;
    assert_int_equal(find(3), 0);
    mca_btl_rawe_callers_begin();
    assert_int_equal(find(3), 0);
    assert_int_equal(asked_count, 2);
    answer(0, 77);
    assert_int_equal(find(3), 0);
    answer(1, 78);
    assert_int_equal(find(3), 78);
}

static void mca_btl_rawe_callers_begin__all_slots_can_be_used_again(void **state)
{
    (void)state;
    unsigned slots;

    for (uint32_t vpid = 0; vpid < ASKED_MAX; ++vpid) {
        (void)find(vpid);
    }
    slots = asked_count;
    assert_in_range(slots, 1, ASKED_MAX - 1); /* as many as there are */
    mca_btl_rawe_callers_begin();
    for (unsigned i = 0; i < slots; ++i) {
        answer(i, 77);
    }
    asked_count = 0;
    for (uint32_t vpid = 0; vpid < ASKED_MAX; ++vpid) {
        assert_int_equal(find(vpid), 0);
    }
    assert_int_equal(asked_count, slots);
    for (unsigned i = 0; i < slots; ++i) {
        answer(i, 78);
        assert_int_equal(find(i), 78);
    }
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(mca_btl_rawe_callers_find__asks_once_and_knows_later),
        TEST(mca_btl_rawe_callers_begin__forgets_answers),
        TEST(mca_btl_rawe_callers_begin__late_answers_are_dropped),
        TEST(mca_btl_rawe_callers_begin__all_slots_can_be_used_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
