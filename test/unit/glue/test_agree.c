/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of coll/rawe's agreement on a group: what leaders find that the network passes. The table of
 * functions that btl/rawe offers, the collectives beneath and the time are the test's own.
 */
#include "ompi/mca/coll/rawe/coll_rawe.h"

#include "ompi/mca/coll/rawe/coll_rawe_agree.c"
#include "unit_test.h"

#define MEMBERS 4

static unsigned tries;       /* messages that this member has sent */
static unsigned missing;     /* the try in which a member's message does not come; 0: none */
static unsigned frame_from;  /* the message from which on it was heard by multicast; 0: never */
static unsigned batch_from;  /* the message from which on its batches have come; 0: never */
static unsigned others_from; /* the same of another leader */
static uint32_t segment_bytes;
static unsigned reductions;
static bool closed, refuses;

/* Member 0 of a communicator whose members are on a host each. */
static struct ompi_group_t members = {.grp_proc_count = MEMBERS};
static struct ompi_communicator_t comm = {.c_name = "tried", .c_local_group = &members};

mca_coll_rawe_hosts_t *mca_coll_rawe_hosts_new(int count)
{
    return NULL; /* the tests need no more */
}

void mca_coll_rawe_hosts_arrange(mca_coll_rawe_hosts_t *hosts, int count, int self)
{
    hosts->count = count;
    for (int i = 0; i < count; i++) {
        hosts->leaders[i] = i;
    }
}

opal_proc_t **mca_coll_rawe_hosts_introduce(const mca_coll_rawe_hosts_t *hosts,
                                            struct ompi_communicator_t *on)
{
    return calloc(1, sizeof(opal_proc_t *));
}

/* A message that has not come does not come: the time that is waited for it passes at once. */
void opal_progress(void)
{
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    static time_t seconds;

    *now = (struct timespec){.tv_sec = seconds += 6};
    return 0;
}

static struct mca_btl_rawe_place place(void)
{
    return (struct mca_btl_rawe_place){.payload_bytes = 1468, .segment_bytes = segment_bytes};
}

static struct mca_btl_rawe_multicast *open_group(uint64_t id, uint32_t count, uint32_t self,
                                                 const struct mca_btl_rawe_place *all,
                                                 opal_proc_t *const *procs)
{
    static char group;

    return refuses ? NULL : (void *)&group;
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
        message->heard = 0 != frame_from && tries >= frame_from;
        message->batches = 0 != batch_from && tries >= batch_from;
        atomic_store(&message->state, tries == missing && root == 2 ? MCA_BTL_RAWE_TRANSFER_WAITS
                                                                    : MCA_BTL_RAWE_TRANSFER_DONE);
    }
}

static void close_group(struct mca_btl_rawe_multicast *group, bool complete)
{
    assert_false(complete);
    closed = true;
}

static int bcast(void *buffer, int count, struct ompi_datatype_t *datatype, int root,
                 struct ompi_communicator_t *on, mca_coll_base_module_t *module)
{
    return MPI_SUCCESS;
}

static unsigned barriers;

static int barrier(struct ompi_communicator_t *on, mca_coll_base_module_t *module)
{
    assert_int_equal(tries, 0);
    barriers++;
    return MPI_SUCCESS;
}

static int allreduce(const void *send, void *receive, int count, struct ompi_datatype_t *datatype,
                     struct ompi_op_t *op, struct ompi_communicator_t *on,
                     mca_coll_base_module_t *module)
{
    if (3 == count) { /* all can do the same */
        memcpy(receive, send, sizeof(struct mca_btl_rawe_place));
        return MPI_SUCCESS;
    }
    const int mine = *(const int *)send;
    const int theirs = 0 != others_from && tries >= others_from ? PASSES_BATCHES : PASSES_FRAMES;

    reductions++;
    assert_int_equal(closed || refuses,
                     mine == PASSES_BROKEN); /* before this member does anything else */
    *(int *)receive = mine < theirs ? mine : theirs;
    return MPI_SUCCESS;
}

/** A batch may be lost by chance, so all try several times, as long as one lacks one. */
TEST(agree__what_passes)
{
    static const struct mca_btl_rawe_offer offer = {.place = place,
                                                    .open = open_group,
                                                    .send = send_try,
                                                    .expect = expect,
                                                    .close = close_group};
    static const struct {
        uint32_t segment_bytes;
        unsigned frame_from, batch_from, others_from, missing;
        enum mca_coll_rawe_stage stage;
        bool batches;
        unsigned tries, reductions;
        bool refuses;
    } cases[] = {
        {1420, 1, 2, 2, 0, MCA_COLL_RAWE_MULTICASTS, true, 2, 1, false},
        {1420, 1, 3, 2, 0, MCA_COLL_RAWE_MULTICASTS, true, 4, 2, false},
        {1420, 1, 2, 5, 0, MCA_COLL_RAWE_MULTICASTS, true, 6, 3, false},
        {1420, 3, 4, 2, 0, MCA_COLL_RAWE_MULTICASTS, true, 4, 2, false},
        {1420, 1, 0, 2, 0, MCA_COLL_RAWE_MULTICASTS, false, 2 * TRIES, TRIES, false},
        {1420, 1, 2, 0, 0, MCA_COLL_RAWE_MULTICASTS, false, 2 * TRIES, TRIES, false},
        {0, 1, 2, 2, 0, MCA_COLL_RAWE_MULTICASTS, false, 1, 1, false},
        {0, 3, 0, 2, 0, MCA_COLL_RAWE_MULTICASTS, false, 3, 3, false},
        /* All come, but not by multicast. */
        {1420, 0, 0, 2, 0, MCA_COLL_RAWE_PASSES, false, 2 * TRIES, TRIES, false},
        /* It would come in the place of a later Bcast. */
        {1420, 1, 0, 2, 3, MCA_COLL_RAWE_PASSES, false, 3, 2, false},
        {1420, 1, 2, 2, 2, MCA_COLL_RAWE_PASSES, false, 2, 1, false},
        {1420, 1, 2, 2, 1, MCA_COLL_RAWE_PASSES, false, 1, 1, false},
        {1420, 1, 2, 2, 0, MCA_COLL_RAWE_PASSES, false, 0, 1, true},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int of[MEMBERS] = {0, 1, 2, 3}, leaders[MEMBERS];
        mca_coll_rawe_hosts_t hosts = {.of = of, .leaders = leaders};
        mca_coll_rawe_module_t module = {.offer = &offer,
                                         .stage = MCA_COLL_RAWE_PASSES,
                                         .hosts = &hosts,
                                         .bcast = bcast,
                                         .allreduce = allreduce,
                                         .barrier = barrier};
        tries = reductions = barriers = 0;
        network_failed = closed = false;
        segment_bytes = cases[i].segment_bytes;
        refuses = cases[i].refuses;
        frame_from = cases[i].frame_from;
        batch_from = cases[i].batch_from;
        others_from = cases[i].others_from;
        missing = cases[i].missing;
        assert_int_equal(agree(&module, &comm), MPI_SUCCESS);
        assert_int_equal(module.stage, cases[i].stage);
        assert_int_equal(module.batches, cases[i].batches);
        assert_int_equal(tries, cases[i].tries);
        assert_int_equal(reductions, cases[i].reductions);
        assert_int_equal(barriers, 1);
        assert_int_equal(network_failed, cases[i].stage == MCA_COLL_RAWE_PASSES);
    }
}
