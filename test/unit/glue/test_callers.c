/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of those that call first: what is asked of the runtime, and what becomes of its answers.
 */
#include "btl_rawe_callers.h"

#include <string.h>

#include "btl_rawe_modex.h"
#include "btl_rawe_params.h"
#include "btl_rawe_state.h"
#include "unit_test.h"

#define CALLERS 100u /* more than are remembered */
#define ASKED_MAX (4u * CALLERS)
#define MS 1000000ull
#define PROBE_MAX_MS 1000u

/* What callers need of the component: the runtime is the test's own. */
struct mca_btl_rawe_params mca_btl_rawe_params;
struct mca_btl_rawe_state mca_btl_rawe_state;
static mca_btl_base_component_3_0_0_t component;
static uint64_t now_ns;
static struct {
    opal_process_name_t name;
    mca_btl_rawe_compat_modex_answer_fn *answer;
    void *context;
} asked[ASKED_MAX];
static unsigned asked_count;
static bool nobody; /**< the runtime says at once that there is nothing */
static unsigned nobodies;

static void (*at_clock)(void); /**< called once when the clock has been read */

uint64_t mca_btl_rawe_now_ns(void)
{
    uint64_t read_ns = now_ns;
    void (*call)(void) = at_clock;

    at_clock = NULL;
    if (NULL != call) {
        call();
    }
    return read_ns;
}

int mca_btl_rawe_compat_modex_request(const mca_base_component_t *of,
                                      const opal_process_name_t *name,
                                      mca_btl_rawe_compat_modex_answer_fn *answer, void *context)
{
    if (nobody) {
        nobodies++;
        answer(context, NULL, 0);
        return OPAL_SUCCESS;
    }
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

static void set_up(void)
{
    asked_count = nobodies = 0;
    nobody = false;
    now_ns = 1000000 * MS;
    mca_btl_rawe_params.probe_max_ms = PROBE_MAX_MS;
    mca_btl_rawe_state.component = &component;
    mca_btl_rawe_callers_begin();
}

FIXTURE(set_up, NULL);

TEST(mca_btl_rawe_callers_find__asks_once_and_knows_later)
{
    assert_int_equal(find(3), 0);
    assert_int_equal(find(3), 0);
    assert_int_equal(asked_count, 1);
    assert_int_equal(asked[0].name.vpid, 3);
    answer(0, 77);
    assert_int_equal(find(3), 77);
}

/** Answers come at once, and each caller asks again when all others have. */
TEST(mca_btl_rawe_callers_find__serves_more_callers_in_step_than_are_remembered)
{
    uint16_t found[CALLERS] = {0};

    for (unsigned round = 0; round < 4; ++round) {
        for (uint16_t vpid = 0; vpid < CALLERS; ++vpid) {
            unsigned before = asked_count;
            found[vpid] = 0 == found[vpid] ? find(vpid) : found[vpid];
            if (asked_count != before) {
                answer(before, (uint16_t)(vpid + 1));
            }
        }
        now_ns += PROBE_MAX_MS * MS;
    }
    for (unsigned vpid = 0; vpid < CALLERS; ++vpid) {
        assert_int_equal(found[vpid], vpid + 1);
    }
}

/** Ask about as many callers as are remembered; returns how many. */
static unsigned ask_all(void)
{
    for (uint32_t vpid = 0; vpid < CALLERS; ++vpid) {
        assert_int_equal(find(vpid), 0);
    }
    assert_in_range(asked_count, 1, CALLERS - 1);
    return asked_count;
}

TEST(mca_btl_rawe_callers_find__forgets_who_does_not_come_back)
{
    unsigned slots = ask_all();

    for (unsigned i = 0; i < slots; ++i) {
        answer(i, 77);
    }
    now_ns += 2 * PROBE_MAX_MS * MS - 1;
    assert_int_equal(find(CALLERS), 0);
    assert_int_equal(asked_count, slots);
    now_ns += 1;
    assert_int_equal(find(CALLERS), 0);
    assert_int_equal(asked_count, slots + 1);
    answer(slots, 78);
    assert_int_equal(find(CALLERS), 78);
}

/** The runtime's thread, which reads the clock, too, and later. */
static void answer_the_last_one(void)
{
    now_ns += 1;
    answer(asked_count - 1, 77);
}

TEST(mca_btl_rawe_callers_find__keeps_an_answer_that_comes_meanwhile)
{
    unsigned slots = ask_all();

    for (unsigned i = 0; i < slots - 1; ++i) {
        answer(i, 77);
    }
    at_clock = answer_the_last_one;
    assert_int_equal(find(CALLERS), 0);
    assert_null(at_clock);
    assert_int_equal(asked_count, slots);
    assert_int_equal(find(slots - 1), 77);
}

TEST(mca_btl_rawe_callers_find__forgets_who_has_published_nothing)
{
    unsigned slots = ask_all();

    for (unsigned i = 0; i < slots; ++i) {
        if (i != 5) {
            answer(i, 77);
        }
    }
    asked[5].answer(asked[5].context, NULL, 0);
    assert_int_equal(find(CALLERS), 0);
    assert_int_equal(asked_count, slots + 1);
    answer(slots, 78);
    assert_int_equal(find(CALLERS), 78);
}

/** The runtime may remember each name that it is asked about: invented ones are not to fill it. */
TEST(mca_btl_rawe_callers_find__gives_up_on_invented_names)
{
    const uint32_t most = 65536;

    nobody = true;
    for (uint32_t vpid = 0; vpid < most + 2 * CALLERS; ++vpid) {
        assert_int_equal(find(vpid), 0);
    }
    assert_in_range(nobodies, most, most + CALLERS);
}

TEST(mca_btl_rawe_callers_begin__forgets_answers)
{
    assert_int_equal(find(3), 0);
    answer(0, 77);
    mca_btl_rawe_callers_begin();
    assert_int_equal(find(3), 0); /* it is asked anew */
    assert_int_equal(asked_count, 2);
    answer(1, 78);
    assert_int_equal(find(3), 78);
}

TEST(mca_btl_rawe_callers_begin__late_answers_are_dropped)
{
    assert_int_equal(find(3), 0);
    mca_btl_rawe_callers_begin();
    assert_int_equal(find(3), 0);
    assert_int_equal(asked_count, 2);
    answer(0, 77);
    assert_int_equal(find(3), 0);
    answer(1, 78);
    assert_int_equal(find(3), 78);
}

TEST(mca_btl_rawe_callers_begin__all_slots_can_be_used_again)
{
    unsigned slots = ask_all();

    mca_btl_rawe_callers_begin();
    for (unsigned i = 0; i < slots; ++i) {
        answer(i, 77);
    }
    asked_count = 0;
    for (uint32_t vpid = 0; vpid < CALLERS; ++vpid) {
        assert_int_equal(find(vpid), 0);
    }
    assert_int_equal(asked_count, slots);
    for (unsigned i = 0; i < slots; ++i) {
        answer(i, 78);
        assert_int_equal(find(i), 78);
    }
}
