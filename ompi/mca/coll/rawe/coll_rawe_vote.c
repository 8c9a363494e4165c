/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The vote of a communicator's members about whether all of them take part in groups.
 *
 * A member that takes part and one that does not would wait for each other forever, and the runtime
 * may tell only one of two members in time that the other takes part. So member 0 decides, and each
 * pair of a member 0 and another member first finds out, once in the life of a job, whether both
 * know of each other:
 *
 *   1. At its first vote under a member 0, another member tells it whether it knows that member 0
 *      takes part (HELLO).
 *   2. Member 0 receives this from members known to take part: they do send it. It tells each of the
 *      other members once that it does not know of it.
 *   3. If both know of each other, member 0 sends its verdict in this vote, and in each later one.
 *
 * A message that a process does not expect stays unreceived. In the communicator itself it would
 * outlive it, and be taken for a message of the next communicator with the same id (ob1 of 4.1 and
 * 5.0). So all messages are sent in MPI_COMM_WORLD, where at most one remains for each pair; only
 * programs with sessions alone have none, and use the communicator. A process that does not take
 * part sends and receives nothing.
 */
#include "coll_rawe.h"

#include "ompi/mca/pml/pml.h"

#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

/** Tags: in hcoll's range, which hcoll uses from the other end. */
#define HELLO_TAG (-0x72617765)
#define VERDICT_TAG (HELLO_TAG - 1)

/** What this process knows of the other process of a pair. */
enum relation { NOT_MET, KNOWN, REFUSED };

/** The relations with another process (enum relation). */
struct pair {
    uint8_t led_by; /**< where the other is member 0 */
    uint8_t leads;  /**< where this process is member 0 */
};

/** The pairs of this process, by the other's number in the job. */
static struct {
    struct pair *pairs;
    size_t count;
} known;

static bool has_world(void)
{
    return NULL != ompi_mpi_comm_world.comm.c_local_group;
}

/** Return a member's number in the job, which is its rank in MPI_COMM_WORLD. */
static int number_of(struct ompi_communicator_t *comm, int member)
{
    return (int)ompi_group_get_proc_name(comm->c_local_group, member).vpid;
}

static int send_int(int value, struct ompi_communicator_t *comm, int member, int tag)
{
    struct ompi_communicator_t *in = has_world() ? &ompi_mpi_comm_world.comm : comm;
    const int to = has_world() ? number_of(comm, member) : member;

    return MCA_PML_CALL(send(&value, 1, MPI_INT, to, tag, MCA_PML_BASE_SEND_STANDARD, in));
}

static int receive_int(int *value, struct ompi_communicator_t *comm, int member, int tag)
{
    struct ompi_communicator_t *in = has_world() ? &ompi_mpi_comm_world.comm : comm;
    const int from = has_world() ? number_of(comm, member) : member;

    return MCA_PML_CALL(recv(value, 1, MPI_INT, from, tag, in, MPI_STATUS_IGNORE));
}

/** Return a host's number, adding new hosts. Ranks of a host are often consecutive. */
static int number_of_host(uint64_t name, uint64_t *names, int *hosts)
{
    for (int i = *hosts; i-- > 0;) {
        if (names[i] == name) {
            return i;
        }
    }
    names[*hosts] = name;
    return (*hosts)++;
}

/** As member 0, find out whether both know of each other. */
static int meet(struct ompi_communicator_t *comm, int member, bool takes_part)
{
    const int other = number_of(comm, member);
    int knows = 0, status = MPI_SUCCESS;

    if (NOT_MET == known.pairs[other].leads) {
        status = takes_part ? receive_int(&knows, comm, member, HELLO_TAG)
                            : send_int(MCA_COLL_RAWE_UNKNOWN, comm, member, VERDICT_TAG);
        known.pairs[other].leads = 0 != knows ? KNOWN : REFUSED;
    }
    return status;
}

/** A lookup that fails after this time shows that the runtime does not say what is not published. */
#define SLOW_NS 1000000000u

/**
 * Return true if a member takes part. After a lookup that was slow in vain, `*wait` is false: each
 * further one would take as long (Open MPI 5.0: 2 s).
 */
static bool look_up(const mca_coll_rawe_module_t *module, struct ompi_communicator_t *comm,
                    int member, bool *wait, uint64_t *host)
{
    const uint64_t began_ns = *wait ? mca_coll_rawe_time_ns() : 0;
    bool takes_part = mca_coll_rawe_takes_part(module, comm, member, *wait, host);

    *wait = *wait && (takes_part || mca_coll_rawe_time_ns() - began_ns < SLOW_NS);
    return takes_part;
}

/** Vote as member 0: number the hosts, decide, and tell the others. `names` has room for all. */
static int vote_lead(const mca_coll_rawe_module_t *module, struct ompi_communicator_t *comm,
                     uint64_t *names, int *verdict)
{
    int members = ompi_comm_size(comm), status = MPI_SUCCESS, hosts = 0;
    bool wait = true;

    *verdict = MCA_COLL_RAWE_GROUP;
    for (int i = 0; i < members && MPI_SUCCESS == status; ++i) {
        uint64_t name = 0;
        bool knows = look_up(module, comm, i, &wait, &name);
        if (0 != i) {
            status = meet(comm, i, knows);
            knows = KNOWN == known.pairs[number_of(comm, i)].leads;
        }
        module->hosts->of[i] = number_of_host(name, names, &hosts);
        *verdict = knows ? *verdict : MCA_COLL_RAWE_NO_PART;
    }
    if (MCA_COLL_RAWE_GROUP == *verdict && hosts < MCA_COLL_RAWE_HOSTS_MIN) {
        *verdict = MCA_COLL_RAWE_FEW_HOSTS;
    }
    for (int i = 1; i < members && MPI_SUCCESS == status; ++i) {
        if (KNOWN == known.pairs[number_of(comm, i)].leads) {
            status = send_int(*verdict, comm, i, VERDICT_TAG);
        }
    }
    return status;
}

/** Vote as another member. */
static int vote_follow(const mca_coll_rawe_module_t *module, struct ompi_communicator_t *comm,
                       int *verdict)
{
    const int leader = number_of(comm, 0);
    int status = MPI_SUCCESS;
    uint64_t host;

    *verdict = MCA_COLL_RAWE_NO_PART;
    if (NOT_MET == known.pairs[leader].led_by) {
        const bool knows = mca_coll_rawe_takes_part(module, comm, 0, true, &host);
        known.pairs[leader].led_by = knows ? KNOWN : REFUSED;
        status = send_int(knows, comm, 0, HELLO_TAG);
    }
    if (MPI_SUCCESS == status && KNOWN == known.pairs[leader].led_by) {
        status = receive_int(verdict, comm, 0, VERDICT_TAG);
        if (MPI_SUCCESS == status && MCA_COLL_RAWE_UNKNOWN == *verdict) {
            known.pairs[leader].led_by = REFUSED;
            *verdict = MCA_COLL_RAWE_NO_PART;
        }
    }
    return status;
}

/** Return how many pairs are needed; 0: a member belongs to another job. */
static size_t count_processes(struct ompi_communicator_t *comm)
{
    size_t count = known.count;

    for (int i = 0; i < ompi_comm_size(comm); ++i) {
        const opal_process_name_t name = ompi_group_get_proc_name(comm->c_local_group, i);
        if (name.jobid != OPAL_PROC_MY_NAME.jobid) {
            return 0;
        }
        count = MAX(count, (size_t)name.vpid + 1);
    }
    return count;
}

/** Make room for `count` pairs. Returns false when out of memory. */
static bool reserve(size_t count)
{
    struct pair *pairs = realloc(known.pairs, count * sizeof(*pairs));

    if (NULL == pairs) {
        return false;
    }
    memset(pairs + known.count, NOT_MET, (count - known.count) * sizeof(*pairs));
    known.pairs = pairs;
    known.count = count;
    return true;
}

int mca_coll_rawe_vote(const mca_coll_rawe_module_t *module, struct ompi_communicator_t *comm,
                       int *verdict)
{
    const int rank = ompi_comm_rank(comm);
    uint64_t host;

    *verdict = MCA_COLL_RAWE_NO_PART;
    const size_t count = count_processes(comm);
    if (0 == count || !mca_coll_rawe_takes_part(module, comm, rank, true, &host)) {
        return MPI_SUCCESS;
    }
    uint64_t *names = calloc((size_t)ompi_comm_size(comm), sizeof(*names));
    int status = OMPI_ERR_OUT_OF_RESOURCE; /* ends the job: the others are in the same call */
    if (NULL != names && reserve(count)) {
        status = 0 == rank ? vote_lead(module, comm, names, verdict)
                           : vote_follow(module, comm, verdict);
    }
    free(names);
    return status;
}

void mca_coll_rawe_vote_close(void)
{
    free(known.pairs);
    known.pairs = NULL;
    known.count = 0;
}
