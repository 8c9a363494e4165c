/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of what is remembered of the runtime's word about processes that ended. The runtime is the
 * test's own.
 */
#include "btl_rawe_departed.h"
#include "unit_test.h"

static bool fault_tolerant;
static mca_btl_rawe_compat_departed_fn *notify;

bool mca_btl_rawe_compat_fault_tolerant(void)
{
    return fault_tolerant;
}

void mca_btl_rawe_compat_departures_begin(mca_btl_rawe_compat_departed_fn *wanted)
{
    notify = wanted;
}

void mca_btl_rawe_compat_departures_end(void)
{
    notify = NULL;
}

static opal_process_name_t name(opal_jobid_t jobid, opal_vpid_t vpid)
{
    return (opal_process_name_t){.jobid = jobid, .vpid = vpid};
}

static bool departed(opal_jobid_t jobid, opal_vpid_t vpid)
{
    const opal_process_name_t asked = name(jobid, vpid);
    return mca_btl_rawe_departed(&asked);
}

static void set_up(void)
{
    fault_tolerant = true;
}

static void tear_down(void)
{
    mca_btl_rawe_departed_end();
}

FIXTURE(set_up, tear_down);

TEST(mca_btl_rawe_departed__only_who_was_named)
{
    const opal_process_name_t gone = name(7, 3);

    mca_btl_rawe_departed_begin();
    assert_false(departed(7, 3));
    notify(&gone);
    assert_true(departed(7, 3));
    assert_false(departed(7, 2));
    assert_false(departed(8, 3));
}

/** A host with all its ranks; and each is told of by several. */
TEST(mca_btl_rawe_departed__many)
{
    mca_btl_rawe_departed_begin();
    for (unsigned i = 0; i < 200; ++i) {
        const opal_process_name_t gone = name(7, i / 2 * 3);
        notify(&gone);
    }
    for (unsigned i = 0; i < 300; ++i) {
        assert_int_equal(departed(7, i), i % 3 == 0);
    }
}

/** Another job ends with the first of them, and its BTLs have nothing to add. */
TEST(mca_btl_rawe_departed_begin__not_where_a_loss_ends_the_job)
{
    fault_tolerant = false;
    mca_btl_rawe_departed_begin();
    assert_null(notify);
}

/** Open MPI may be initialized again in this process (sessions). */
TEST(mca_btl_rawe_departed_end__forgets)
{
    const opal_process_name_t gone = name(7, 3);

    mca_btl_rawe_departed_begin();
    notify(&gone);
    mca_btl_rawe_departed_end();
    assert_null(notify);
    mca_btl_rawe_departed_begin();
    assert_false(departed(7, 3));
}
