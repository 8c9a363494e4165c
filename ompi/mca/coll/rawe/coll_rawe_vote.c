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
 * 5.0). So all messages are sent in MPI_COMM_WORLD, where at most one remains for each pair. A
 * process that does not take part sends and receives nothing.
 */
#include "coll_rawe.h"

#include "ompi/mca/pml/pml.h"

#include <stdlib.h>

/** Tags: in hcoll's range, which hcoll uses from the other end. */
#define HELLO_TAG (-0x72617765)
#define VERDICT_TAG (HELLO_TAG - 1)

/** What this process knows of the other process of a pair. */
enum relation { NOT_MET, KNOWN, REFUSED };

/** The relations of this process, by the other's rank in MPI_COMM_WORLD. Allocated when needed. */
static uint8_t *led_by; /**< with a member 0 */
static uint8_t *leads;  /**< with the other members where this process is member 0 */

static struct ompi_communicator_t *world(void)
{
    return &ompi_mpi_comm_world.comm;
}

static int rank_in_world(struct ompi_communicator_t *comm, int member)
{
    return (int)ompi_group_get_proc_name(comm->c_local_group, member).vpid;
}

static int send_int(int value, int to, int tag)
{
    return MCA_PML_CALL(send(&value, 1, MPI_INT, to, tag, MCA_PML_BASE_SEND_STANDARD, world()));
}

static int receive_int(int *value, int from, int tag)
{
    return MCA_PML_CALL(recv(value, 1, MPI_INT, from, tag, world(), MPI_STATUS_IGNORE));
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
static int meet(int other, bool takes_part)
{
    int knows = 0, status = MPI_SUCCESS;

    if (NOT_MET == leads[other]) {
        status = takes_part ? receive_int(&knows, other, HELLO_TAG)
                            : send_int(MCA_COLL_RAWE_UNKNOWN, other, VERDICT_TAG);
        leads[other] = 0 != knows ? KNOWN : REFUSED;
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
        const int other = rank_in_world(comm, i);
        uint64_t name = 0;
        bool knows = look_up(module, comm, i, &wait, &name);
        if (0 != i) {
            status = meet(other, knows);
            knows = KNOWN == leads[other];
        }
        module->hosts->of[i] = number_of_host(name, names, &hosts);
        *verdict = knows ? *verdict : MCA_COLL_RAWE_NO_PART;
    }
    if (MCA_COLL_RAWE_GROUP == *verdict && hosts < MCA_COLL_RAWE_HOSTS_MIN) {
        *verdict = MCA_COLL_RAWE_FEW_HOSTS;
    }
    for (int i = 1; i < members && MPI_SUCCESS == status; ++i) {
        const int other = rank_in_world(comm, i);
        status = KNOWN == leads[other] ? send_int(*verdict, other, VERDICT_TAG) : status;
    }
    return status;
}

/** Vote as another member. */
static int vote_follow(const mca_coll_rawe_module_t *module, struct ompi_communicator_t *comm,
                       int *verdict)
{
    const int leader = rank_in_world(comm, 0);
    int status = MPI_SUCCESS;
    uint64_t host;

    *verdict = MCA_COLL_RAWE_NO_PART;
    if (NOT_MET == led_by[leader]) {
        const bool knows = mca_coll_rawe_takes_part(module, comm, 0, true, &host);
        led_by[leader] = knows ? KNOWN : REFUSED;
        status = send_int(knows, leader, HELLO_TAG);
    }
    if (MPI_SUCCESS == status && KNOWN == led_by[leader]) {
        status = receive_int(verdict, leader, VERDICT_TAG);
        if (MPI_SUCCESS == status && MCA_COLL_RAWE_UNKNOWN == *verdict) {
            led_by[leader] = REFUSED;
            *verdict = MCA_COLL_RAWE_NO_PART;
        }
    }
    return status;
}

/** Return true if all members are in MPI_COMM_WORLD. Programs with sessions alone have none. */
static bool are_in_world(struct ompi_communicator_t *comm)
{
    bool in_world = NULL != world()->c_local_group;

    for (int i = 0; i < ompi_comm_size(comm) && in_world; ++i) {
        in_world =
            ompi_group_get_proc_name(comm->c_local_group, i).jobid == OPAL_PROC_MY_NAME.jobid;
    }
    return in_world;
}

int mca_coll_rawe_vote(const mca_coll_rawe_module_t *module, struct ompi_communicator_t *comm,
                       int *verdict)
{
    const int rank = ompi_comm_rank(comm);
    uint64_t host;

    *verdict = MCA_COLL_RAWE_NO_PART;
    if (!mca_coll_rawe_takes_part(module, comm, rank, true, &host) || !are_in_world(comm)) {
        return MPI_SUCCESS;
    }
    const size_t processes = (size_t)ompi_comm_size(world());
    uint64_t *names = calloc((size_t)ompi_comm_size(comm), sizeof(*names));
    led_by = NULL == led_by ? calloc(processes, 1) : led_by;
    leads = NULL == leads ? calloc(processes, 1) : leads;
    int status = OMPI_ERR_OUT_OF_RESOURCE; /* ends the job: the others are in the same call */
    if (NULL != names && NULL != led_by && NULL != leads) {
        status = 0 == rank ? vote_lead(module, comm, names, verdict)
                           : vote_follow(module, comm, verdict);
    }
    free(names);
    return status;
}

void mca_coll_rawe_vote_close(void)
{
    free(led_by);
    free(leads);
    led_by = leads = NULL;
}
