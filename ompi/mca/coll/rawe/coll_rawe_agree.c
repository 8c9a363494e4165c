/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The members of a communicator agree on a group, by collectives of the component beneath, in a call
 * of MPI_Bcast that all of them make:
 *
 *   1. each looks at what all have published: if one does not take part, they all see it
 *   2. member 0 draws the group's id                                        Bcast beneath
 *   3. each opens its port, and says where it is                            Allgather beneath
 *   4. each sends a message to all, and receives theirs: some networks pass no multicast, or no
 *      frame of this length. It is the first message of each stream
 *   5. has everyone got all of them?                                        Allreduce beneath
 */
#include "coll_rawe.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

/** What the message of a try may take to come, and its repairs. */
#define TRY_NS 2000000000ull

/** The network has failed a try: later communicators need none, as one member says so. */
static bool network_failed;

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/** Why not all members can be in a group, by what is published; NULL: they can. */
static const char *obstacle(const mca_coll_rawe_module_t *module, struct ompi_communicator_t *comm,
                            uint64_t *hosts)
{
    int members = ompi_comm_size(comm);

    for (int i = 0; i < members; ++i) {
        if (!module->offer->takes_part(ompi_group_get_proc_name(comm->c_local_group, i),
                                       &hosts[i])) {
            return "a member takes no part in groups";
        }
    }
    qsort(hosts, (size_t)members, sizeof(*hosts), by_value);
    for (int i = 1; i < members; ++i) {
        if (hosts[i] == hosts[i - 1]) {
            return "several members are on one host";
        }
    }
    return NULL;
}

/** Make progress until the transfer does not wait, or it is too late. */
static bool wait_until(struct mca_btl_rawe_transfer *transfer, uint64_t deadline_ns)
{
    while (MCA_BTL_RAWE_TRANSFER_WAITS ==
           atomic_load_explicit(&transfer->state, memory_order_acquire)) {
        if (now_ns() > deadline_ns) {
            return false;
        }
        opal_progress();
    }
    return MCA_BTL_RAWE_TRANSFER_DONE == atomic_load(&transfer->state);
}

/** Send a frame as long as they may be, and receive those of all others. */
static bool try_network(mca_coll_rawe_module_t *module, int members, int self)
{
    const struct mca_btl_rawe_offer *offer = module->offer;
    const uint64_t deadline_ns = now_ns() + TRY_NS;
    struct mca_btl_rawe_transfer transfer = {.data = module->packed,
                                             .len_bytes = module->payload_bytes};

    memset(module->packed, 0, module->payload_bytes);
    if (!offer->send(module->group, &transfer) || !wait_until(&transfer, deadline_ns)) {
        return false;
    }
    for (int i = 1; i < members; ++i) {
        int root = (self + i) % members;
        offer->expect(module->group, (uint32_t)root, &transfer);
        if (!wait_until(&transfer, deadline_ns)) {
            offer->expect(module->group, (uint32_t)root, NULL);
            return false;
        }
    }
    return true;
}

/** Fill in the module what all members have in common. Returns false when some cannot take part. */
static bool find_payload(mca_coll_rawe_module_t *module, const struct mca_btl_rawe_place *places,
                         int members)
{
    module->payload_bytes = places[0].payload_bytes;
    for (int i = 1; i < members; ++i) {
        if (places[i].payload_bytes < module->payload_bytes) {
            module->payload_bytes = places[i].payload_bytes;
        }
    }
    return 0 != module->payload_bytes;
}

/** Step 2 to 4. `*entered`: all messages of the try have come. */
static int enter(mca_coll_rawe_module_t *module, struct ompi_communicator_t *comm,
                 struct mca_btl_rawe_place *places, int *entered)
{
    const struct mca_btl_rawe_offer *offer = module->offer;
    int members = ompi_comm_size(comm), self = ompi_comm_rank(comm);
    uint64_t id = 0;
    struct mca_btl_rawe_place place = offer->place();

    if (0 == self && sizeof(id) != getrandom(&id, sizeof(id), 0)) {
        place.payload_bytes = 0;
    }
    if (network_failed) {
        place.payload_bytes = 0;
    }
    int status = module->bcast(&id, (int)sizeof(id), MPI_BYTE, 0, comm, module->bcast_module);
    if (MPI_SUCCESS != status) {
        return status;
    }
    status = module->allgather(&place, (int)sizeof(place), MPI_BYTE, places, (int)sizeof(place),
                               MPI_BYTE, comm, module->allgather_module);
    if (MPI_SUCCESS != status || !find_payload(module, places, members)) {
        return status;
    }
    module->packed = malloc(module->payload_bytes);
    module->group = NULL == module->packed ? NULL
                                           : offer->open(id, (uint32_t)members, (uint32_t)self,
                                                         module->payload_bytes, places);
    *entered = NULL != module->group && try_network(module, members, self);
    network_failed = !*entered;
    return MPI_SUCCESS;
}

/** Steps 2 to 5. */
static int agree(mca_coll_rawe_module_t *module, struct ompi_communicator_t *comm,
                 struct mca_btl_rawe_place *places)
{
    int entered = 0, all = 0;

    int status = enter(module, comm, places, &entered);
    if (MPI_SUCCESS == status && 0 != module->payload_bytes) {
        status =
            module->allreduce(&entered, &all, 1, MPI_INT, MPI_MIN, comm, module->allreduce_module);
    }
    if (MPI_SUCCESS == status && 0 != all) {
        module->stage = MCA_COLL_RAWE_MULTICASTS;
        MCA_COLL_RAWE_COMPAT_SAY(comm, "multicasts Bcasts that fit a frame");
        return status;
    }
    if (NULL != module->group) {
        module->offer->close(module->group, false);
        module->group = NULL;
    }
    MCA_COLL_RAWE_COMPAT_SAY(comm, "a member cannot receive what is sent to groups");
    return status;
}

int mca_coll_rawe_agree(mca_coll_rawe_module_t *module, struct ompi_communicator_t *comm)
{
    size_t members = (size_t)ompi_comm_size(comm);
    struct mca_btl_rawe_place *places = calloc(members, sizeof(*places));
    uint64_t *hosts = calloc(members, sizeof(*hosts));
    int status = OMPI_ERR_OUT_OF_RESOURCE; /* ends the job: the others are in the same call */

    module->stage = MCA_COLL_RAWE_PASSES;
    if (NULL != places && NULL != hosts) {
        const char *why = obstacle(module, comm, hosts);
        status = NULL == why ? agree(module, comm, places) : MPI_SUCCESS;
        if (NULL != why) {
            MCA_COLL_RAWE_COMPAT_SAY(comm, why);
        }
    }
    free(places);
    free(hosts);
    return status;
}
