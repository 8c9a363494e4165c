/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of coll/rawe's agreement on a group: leaders find out what the network passes. btl/rawe's
 * offer, the underlying collectives and the clock are fake.
 */
#include "ompi/mca/coll/rawe/coll_rawe.h"

#include "ompi/mca/coll/rawe/coll_rawe_agree.c"
#include "unit_test.h"

#define MEMBERS 4

static unsigned tries;       /* messages sent by this member */
static unsigned missing;     /* try in which a member's message is lost; 0: none */
static unsigned frame_from;  /* first message received by multicast; 0: never */
static unsigned batch_from;  /* first message whose batches arrive; 0: never */
static unsigned others_from; /* batch_from at another leader */
static uint32_t segment_bytes;
static unsigned reductions;
static bool closed, refuses;

/* Member 0 of a communicator with one member per host. */
static ompi_proc_t processes[MEMBERS], *proc_pointers[MEMBERS];
static struct ompi_group_t members = {.grp_proc_count = MEMBERS,
                                      .grp_proc_pointers = proc_pointers};
static struct ompi_communicator_t comm = {.c_name = "tried", .c_local_group = &members};

mca_coll_rawe_hosts_t *mca_coll_rawe_hosts_new(int count)
{
    return NULL; /* not needed by the tests */
}

int mca_coll_rawe_vote(const mca_coll_rawe_module_t *module, struct ompi_communicator_t *on,
                       int *verdict)
{
    return OMPI_ERROR; /* not needed by the tests */
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

/* A message that has not arrived never will, so waiting for it takes no real time. */
#if OPAL_MAJOR_VERSION >= 5
int opal_progress(void)
{
    return 0;
}
#else
void opal_progress(void)
{
}
#endif

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

static bool takes_part_as(opal_process_name_t name, bool wait, uint64_t *host)
{
    *host = 100 - name.vpid;
    return true;
}

static bool others_know; /* other leaders know as much about the network as this one */
static bool entered;     /* all members have reported that they entered */

static int allreduce(const void *send, void *receive, int count, struct ompi_datatype_t *datatype,
                     struct ompi_op_t *op, struct ompi_communicator_t *on,
                     mca_coll_base_module_t *module)
{
    const int mine = *(const int *)send;
    const int theirs = 0 != others_from && tries >= others_from ? PASSES_BATCHES : PASSES_FRAMES;

    if (1 != count) { /* all members have the same limits */
        memcpy(receive, send, sizeof(struct mca_btl_rawe_place));
        return MPI_SUCCESS;
    }
    assert_int_equal(closed || refuses,
                     mine == PASSES_BROKEN); /* before this member does anything else */
    if (!entered) {
        assert_int_equal(tries, 0);
        entered = true;
        *(int *)receive = others_know || mine == PASSES_BROKEN ? mine : PASSES_NOTHING;
        return MPI_SUCCESS;
    }
    reductions++;
    *(int *)receive = mine < theirs ? mine : theirs;
    return MPI_SUCCESS;
}

static const struct mca_btl_rawe_offer offer = {.takes_part = takes_part_as,
                                                .place = place,
                                                .open = open_group,
                                                .send = send_try,
                                                .expect = expect,
                                                .close = close_group};

static void name_members(void)
{
    for (unsigned i = 0; i < MEMBERS; i++) {
        processes[i].super.proc_name.vpid = i;
        proc_pointers[i] = &processes[i];
    }
}

/** Have a new communicator's members agree; the lowest rank on each host goes into `leaders`. */
static mca_coll_rawe_module_t agree_again(int *leaders)
{
    int of[MEMBERS] = {0, 1, 2, 3};
    mca_coll_rawe_hosts_t hosts = {.of = of, .leaders = leaders};
    mca_coll_rawe_module_t module = {.offer = &offer,
                                     .stage = MCA_COLL_RAWE_PASSES,
                                     .hosts = &hosts,
                                     .bcast = bcast,
                                     .allreduce = allreduce};
    name_members();
    tries = reductions = 0;
    closed = entered = false;
    assert_int_equal(group_agree(&module, &comm), MPI_SUCCESS);
    assert_true(entered);
    return module;
}

/** A batch may be lost by chance, so all members try again while one of them lacks a batch. */
TEST(group_agree__what_passes)
{
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
        /* All messages arrive, but not by multicast. */
        {1420, 0, 0, 2, 0, MCA_COLL_RAWE_PASSES, false, 2 * TRIES, TRIES, false},
        /* Batches pass, but frames do not: switches that block "unknown" multicast, but not IPv4's. */
        {1420, 0, 2, 2, 0, MCA_COLL_RAWE_PASSES, false, 2 * TRIES, TRIES, false},
        /* The missing message would be taken for a later Bcast. */
        {1420, 1, 0, 2, 3, MCA_COLL_RAWE_PASSES, false, 3, 2, false},
        {1420, 1, 2, 2, 2, MCA_COLL_RAWE_PASSES, false, 2, 1, false},
        {1420, 1, 2, 2, 1, MCA_COLL_RAWE_PASSES, false, 1, 1, false},
        {1420, 1, 2, 2, 0, MCA_COLL_RAWE_PASSES, false, 0, 0, true},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int leaders[MEMBERS];
        network_failed = false;
        mca_coll_rawe_forget_network();
        segment_bytes = cases[i].segment_bytes;
        refuses = cases[i].refuses;
        frame_from = cases[i].frame_from;
        batch_from = cases[i].batch_from;
        others_from = cases[i].others_from;
        missing = cases[i].missing;
        const mca_coll_rawe_module_t module = agree_again(leaders);
        assert_int_equal(module.stage, cases[i].stage);
        assert_int_equal(module.batches, cases[i].batches);
        assert_int_equal(tries, cases[i].tries);
        assert_int_equal(reductions, cases[i].reductions);
        assert_int_equal(network_failed, cases[i].stage == MCA_COLL_RAWE_PASSES);
        assert_int_equal(0 != proven.count, cases[i].stage == MCA_COLL_RAWE_MULTICASTS);
    }
    mca_coll_rawe_forget_network();
    network_failed = refuses = false;
}

/** If all leaders already know what passes between these hosts, no message is sent. */
TEST(group_agree__what_is_known_is_not_tried_again)
{
    int leaders[MEMBERS];
    mca_coll_rawe_forget_network();
    network_failed = refuses = false;
    missing = 0;
    frame_from = 1;
    batch_from = others_from = 2;
    segment_bytes = 1420;
    assert_int_equal(agree_again(leaders).stage, MCA_COLL_RAWE_MULTICASTS);
    assert_int_equal(tries, 2);
    others_know = true;
    assert_true(agree_again(leaders).batches);
    assert_int_equal(tries + reductions, 0);
    /* A host without batches; a leader that knows nothing; a network that has failed since. */
    segment_bytes = 0;
    assert_false(agree_again(leaders).batches);
    assert_int_equal(tries, 0);
    segment_bytes = 1420;
    others_know = false;
    assert_true(agree_again(leaders).batches);
    assert_int_equal(tries, 2);
    others_know = true;
    mca_coll_rawe_forget_network();
    assert_true(agree_again(leaders).batches);
    assert_int_equal(tries, 2);
    /* One host is not among those proven. */
    proven.hosts[2]++;
    assert_true(agree_again(leaders).batches);
    assert_int_equal(tries, 2);
    /* Frames are longer than those proven. */
    proven.payload_bytes = 1467;
    assert_true(agree_again(leaders).batches);
    assert_int_equal(tries, 2);
    others_know = false;
    mca_coll_rawe_forget_network();
}
