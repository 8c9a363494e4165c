/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of coll/rawe's vote. Each member is a thread; they take turns, and pass the turn on while
 * they wait for a message. btl/rawe's offer and the PML are fake.
 */
#include "ompi/mca/coll/rawe/coll_rawe.h"

#include "ompi/mca/coll/rawe/coll_rawe_vote.c"
#include "unit_test.h"

#include <pthread.h>

#define MEMBERS 5
#define ROUNDS 3
#define TAGS 2

/** The members, by their rank in MPI_COMM_WORLD. */
static struct member {
    pthread_t thread;
    struct pair *pairs;
    size_t count;
    struct ompi_group_t group; /**< of the communicator that votes */
    ompi_proc_t *procs[MEMBERS];
    struct ompi_communicator_t comm;
    int status, verdict;
    bool done;
} members[MEMBERS];

/** Messages that wait, in order. */
static struct queue {
    int values[2 * ROUNDS];
    unsigned sent, received;
} queues[MEMBERS][MEMBERS][TAGS];

static ompi_proc_t processes[MEMBERS], *world_procs[MEMBERS];
static struct ompi_group_t world_group = {.grp_proc_count = MEMBERS,
                                          .grp_proc_pointers = world_procs};
static bool parts[MEMBERS];            /* takes part */
static bool unaware[MEMBERS][MEMBERS]; /* [i][j]: i was not told that j takes part */
static unsigned hosts_count;
static uint64_t answer_ns, time_ns; /* how long the runtime is silent about others */
static unsigned waits;              /* lookups that waited in vain */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static unsigned turn; /* the member that runs */
static unsigned idle; /* turns passed on since anything has happened */

static void take_turn(unsigned member)
{
    pthread_mutex_lock(&lock);
    while (turn != member) {
        pthread_cond_wait(&turned, &lock);
    }
    pthread_mutex_unlock(&lock);
    known.pairs = members[member].pairs;
    known.count = members[member].count;
}

static void pass_turn(unsigned member)
{
    members[member].pairs = known.pairs;
    members[member].count = known.count;
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < MEMBERS; i++) {
        turn = (turn + 1) % MEMBERS;
        if (!members[turn].done) {
            break;
        }
    }
    pthread_cond_broadcast(&turned);
    pthread_mutex_unlock(&lock);
}

static struct queue *queue_of(int from, int to, int tag)
{
    assert_true(tag == HELLO_TAG || tag == VERDICT_TAG);
    return &queues[from][to][HELLO_TAG - tag];
}

/** Return the number of a process with this rank in MPI_COMM_WORLD or, without it, in `on`. */
static int number_in_job(const struct ompi_communicator_t *on, int of)
{
    bool in_world = on == &ompi_mpi_comm_world.comm;

    assert_int_equal(in_world, ompi_mpi_comm_world.comm.c_local_group != NULL);
    return in_world ? of : (int)members[turn].procs[of]->super.proc_name.vpid;
}

static int fake_send(const void *buffer, size_t count, struct ompi_datatype_t *datatype, int to,
                     int tag, mca_pml_base_send_mode_t mode, struct ompi_communicator_t *on)
{
    struct queue *queue = queue_of((int)turn, number_in_job(on, to), tag);

    assert_true(parts[turn]);
    queue->values[queue->sent++ % (2 * ROUNDS)] = *(const int *)buffer;
    idle = 0;
    return MPI_SUCCESS;
}

static int fake_receive(void *buffer, size_t count, struct ompi_datatype_t *datatype, int from,
                        int tag, struct ompi_communicator_t *on, ompi_status_public_t *status)
{
    const unsigned self = turn;
    struct queue *queue = queue_of(number_in_job(on, from), (int)self, tag);

    while (queue->received == queue->sent) {
        if (++idle > MEMBERS) {
            return MPI_ERR_OTHER; /* all wait for each other */
        }
        pass_turn(self);
        take_turn(self);
    }
    *(int *)buffer = queue->values[queue->received++ % (2 * ROUNDS)];
    idle = 0;
    return MPI_SUCCESS;
}

static bool takes_part_as(opal_process_name_t name, bool wait, uint64_t *host)
{
    bool published = parts[name.vpid] && !unaware[turn][name.vpid];

    waits += wait && !published;
    time_ns += wait && !published ? answer_ns : 0;
    *host = 100 - name.vpid % hosts_count;
    return published;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    *now = (struct timespec){.tv_sec = (time_t)(time_ns / 1000000000u)};
    return 0;
}

static void *vote(void *context)
{
    static const struct mca_btl_rawe_offer offer = {.takes_part = takes_part_as};
    struct member *member = context;
    const unsigned self = (unsigned)(member - members);
    int of[MEMBERS];
    mca_coll_rawe_hosts_t hosts = {.of = of};
    const mca_coll_rawe_module_t module = {.offer = &offer, .hosts = &hosts};

    take_turn(self);
    member->status = mca_coll_rawe_vote(&module, &member->comm, &member->verdict);
    idle = 0;
    member->done = true;
    pass_turn(self);
    return NULL;
}

/** Let a communicator vote whose member 0 is `leader`. */
static void vote_all(unsigned leader)
{
    turn = idle = 0;
    for (unsigned i = 0; i < MEMBERS; i++) {
        members[i].done = false;
    }
    for (unsigned i = 0; i < MEMBERS; i++) {
        struct member *member = &members[i];
        for (unsigned k = 0; k < MEMBERS; k++) {
            member->procs[k] = &processes[(leader + k) % MEMBERS];
        }
        member->group =
            (struct ompi_group_t){.grp_proc_count = MEMBERS, .grp_proc_pointers = member->procs};
        member->comm = (struct ompi_communicator_t){
            .c_local_group = &member->group, .c_my_rank = (int)((i + MEMBERS - leader) % MEMBERS)};
        assert_int_equal(pthread_create(&member->thread, NULL, vote, member), 0);
    }
    for (unsigned i = 0; i < MEMBERS; i++) {
        assert_int_equal(pthread_join(members[i].thread, NULL), 0);
    }
}

static void set_up(void)
{
    memset(queues, 0, sizeof(queues));
    memset(unaware, 0, sizeof(unaware));
    hosts_count = MEMBERS;
    answer_ns = 0;
    waits = 0;
    mca_pml.pml_send = fake_send;
    mca_pml.pml_recv = fake_receive;
    ompi_mpi_comm_world.comm.c_local_group = &world_group;
    for (unsigned i = 0; i < MEMBERS; i++) {
        processes[i].super.proc_name = OPAL_PROC_MY_NAME;
        processes[i].super.proc_name.vpid = i;
        world_procs[i] = &processes[i];
        parts[i] = true;
    }
}

static void tear_down(void)
{
    for (unsigned i = 0; i < MEMBERS; i++) {
        known.pairs = members[i].pairs;
        mca_coll_rawe_vote_close();
        members[i].pairs = NULL;
        members[i].count = 0;
    }
}

/** Return what the members of a communicator led by `leader` should agree on. */
static int expected(unsigned leader)
{
    for (unsigned i = 0; i < MEMBERS; i++) {
        if (!parts[i] || unaware[i][leader] || unaware[leader][i]) {
            return MCA_COLL_RAWE_NO_PART;
        }
    }
    return hosts_count < MCA_COLL_RAWE_HOSTS_MIN ? MCA_COLL_RAWE_FEW_HOSTS : MCA_COLL_RAWE_GROUP;
}

/**
 * All agree, and none waits forever. At most one message for each pair is never received, and none
 * where all know the same.
 */
static void vote_repeatedly(unsigned remaining_most)
{
    unsigned remaining = 0;

    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned leader = 0; leader < MEMBERS; leader++) {
            vote_all(leader);
            for (unsigned i = 0; i < MEMBERS; i++) {
                assert_int_equal(members[i].status, MPI_SUCCESS);
                assert_int_equal(members[i].verdict, expected(leader));
            }
        }
    }
    for (unsigned from = 0; from < MEMBERS; from++) {
        for (unsigned to = 0; to < MEMBERS; to++) {
            for (unsigned tag = 0; tag < TAGS; tag++) {
                const struct queue *queue = &queues[from][to][tag];
                assert_true(queue->sent - queue->received <= 1);
                remaining += queue->sent - queue->received;
            }
        }
    }
    assert_true(remaining <= remaining_most);
    tear_down();
}

TEST(vote__all_take_part)
{
    set_up();
    vote_repeatedly(0);
}

TEST(vote__hosts_are_few)
{
    set_up();
    hosts_count = MCA_COLL_RAWE_HOSTS_MIN - 1;
    vote_repeatedly(0);
}

/** As with UDP, or MPI_THREAD_MULTIPLE. */
TEST(vote__none_takes_part)
{
    set_up();
    memset(parts, 0, sizeof(parts));
    vote_repeatedly(0);
}

TEST(vote__one_takes_no_part)
{
    for (unsigned absent = 0; absent < MEMBERS; absent++) {
        set_up();
        parts[absent] = false;
        vote_repeatedly(2 * (MEMBERS - 1));
    }
}

/** The runtime told one of two members, or neither, that the other takes part. */
TEST(vote__members_were_told_different_things)
{
    for (unsigned i = 0; i < MEMBERS * MEMBERS; i++) {
        const unsigned one = i / MEMBERS, other = i % MEMBERS;
        if (one != other) {
            set_up();
            unaware[one][other] = true;
            vote_repeatedly(2);
            set_up();
            unaware[one][other] = unaware[other][one] = true;
            vote_repeatedly(4);
        }
    }
}

/** PRRTE does not answer about processes without rawe: each lookup takes 2 s, so do not repeat it. */
TEST(vote__waits_for_the_runtime_only_once)
{
    set_up();
    parts[1] = parts[2] = parts[3] = false;
    vote_all(0);
    assert_int_equal(waits, 3 + 3); /* of member 0, and of the others about themselves */
    tear_down();
    set_up();
    parts[1] = parts[2] = parts[3] = false;
    answer_ns = 2000000000u;
    vote_all(0);
    assert_int_equal(waits, 1 + 3);
    assert_int_equal(members[0].verdict, MCA_COLL_RAWE_NO_PART);
    assert_int_equal(members[4].verdict, MCA_COLL_RAWE_NO_PART);
    tear_down();
}

/** A member of another job is not in MPI_COMM_WORLD: its number there would be another process's. */
TEST(vote__not_with_another_job)
{
    set_up();
    processes[2].super.proc_name.jobid++;
    vote_all(0);
    for (unsigned i = 0; i < MEMBERS; i++) {
        assert_int_equal(members[i].status, MPI_SUCCESS);
        assert_int_equal(members[i].verdict, MCA_COLL_RAWE_NO_PART);
    }
    tear_down();
}

/** A program with sessions alone. */
TEST(vote__in_the_communicator_without_mpi_comm_world)
{
    set_up();
    ompi_mpi_comm_world.comm.c_local_group = NULL;
    vote_repeatedly(0);
}
