/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of coll/rawe's agreement on a group: what a leader finds that the network passes. The table of
 * functions that btl/rawe offers, progress and the clock are the test's own.
 */
#include "ompi/mca/coll/rawe/coll_rawe.h"

#include <time.h>

#include "unit_test.h"

static uint64_t elapsed_ns;

static int read_clock(struct timespec *now)
{
    *now = (struct timespec){.tv_sec = (time_t)(elapsed_ns / 1000000000u),
                             .tv_nsec = (long)(elapsed_ns % 1000000000u)};
    return 0;
}

#define clock_gettime(clock, now) read_clock(now)
#define opal_progress() (elapsed_ns += 1000000)
#include "ompi/mca/coll/rawe/coll_rawe_agree.c"

#define MEMBERS 4

static unsigned tries;   /* messages that this member has sent */
static unsigned missing; /* the try in which a member's message does not come; 0: none */
static bool passes_batches;

/* Of these the tests need no more. */
mca_coll_rawe_hosts_t *mca_coll_rawe_hosts_new(int members)
{
    return NULL;
}

void mca_coll_rawe_hosts_arrange(mca_coll_rawe_hosts_t *hosts, int members, int self)
{
}

static struct mca_btl_rawe_multicast *open_group(uint64_t id, uint32_t members, uint32_t self,
                                                 const struct mca_btl_rawe_place *all,
                                                 const struct mca_btl_rawe_place *places)
{
    static char group;

    return (void *)&group;
}

static bool send_try(struct mca_btl_rawe_multicast *group, struct mca_btl_rawe_transfer *message)
{
    tries++;
    atomic_store(&message->state, MCA_BTL_RAWE_TRANSFER_DONE);
    return true;
}

static void expect(struct mca_btl_rawe_multicast *group, uint32_t root,
                   struct mca_btl_rawe_transfer *message)
{
    if (NULL != message) {
        message->batches = passes_batches && tries == 2;
        atomic_store(&message->state, tries == missing && root == 2 ? MCA_BTL_RAWE_TRANSFER_WAITS
                                                                    : MCA_BTL_RAWE_TRANSFER_DONE);
    }
}

TEST(enter__what_passes)
{
    static const struct mca_btl_rawe_offer offer = {
        .open = open_group, .send = send_try, .expect = expect};
    static const struct {
        uint16_t segment_bytes;
        bool passes_batches;
        unsigned missing;
        int passes;
    } cases[] = {
        {1420, true, 0, PASSES_BATCHES}, {1420, false, 0, PASSES_FRAMES},
        {0, true, 0, PASSES_FRAMES},     {1420, true, 1, PASSES_NOTHING},
        {1420, true, 2, PASSES_NOTHING}, /* it would come in the place of a later Bcast */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        mca_coll_rawe_hosts_t hosts = {.count = MEMBERS};
        mca_coll_rawe_module_t module = {.offer = &offer, .hosts = &hosts};
        const struct mca_btl_rawe_place all = {.payload_bytes = 1468,
                                               .segment_bytes = cases[i].segment_bytes};
        tries = 0;
        passes_batches = cases[i].passes_batches;
        missing = cases[i].missing;
        assert_int_equal(enter(&module, 1, NULL, &all, 0), cases[i].passes);
    }
}
