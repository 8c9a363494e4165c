/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of what is offered to coll/rawe: who takes part. What processes have published is the test's
 * own.
 */
#include "btl_rawe_offer.h"

#include "btl_rawe_module.h"
#include "btl_rawe_proc.h"
#include "fake_ompi.h"

extern struct mca_btl_rawe_component mca_btl_rawe_component;

static unsigned published, capabilities;

int mca_btl_rawe_proc_publish(void)
{
    published++;
    return OPAL_SUCCESS;
}

unsigned mca_btl_rawe_proc_capabilities(opal_process_name_t name, uint64_t *host)
{
    *host = name.vpid;
    return capabilities;
}

static void set_up(void)
{
    fake_ompi_begin();
    published = capabilities = 0;
}

FIXTURE(set_up, NULL);

TEST(announce_collectives__publishes_again_what_was_published_without_it)
{
    mca_btl_rawe_component.offer->announce(); /* 5.0: the modules are opened later */
    assert_true(mca_btl_rawe_state.collectives);
    assert_int_equal(published, 0);
    mca_btl_rawe_state.multicast_possible = true;
    mca_btl_rawe_component.offer->announce();
    assert_int_equal(published, 1);
}

TEST(takes_part__as_published_by_processes_of_this_job)
{
    opal_process_name_t name = {.jobid = OPAL_PROC_MY_NAME.jobid, .vpid = 7};
    uint64_t host = 0;

    assert_false(mca_btl_rawe_component.offer->takes_part(name, &host));
    capabilities = MCA_BTL_RAWE_CAPABILITY_MULTICAST;
    assert_true(mca_btl_rawe_component.offer->takes_part(name, &host));
    assert_int_equal(host, 7);
    name.jobid++;
    assert_false(mca_btl_rawe_component.offer->takes_part(name, &host));
}
