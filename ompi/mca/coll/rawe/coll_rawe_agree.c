/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The members of a communicator agree on a group, in a call that all of them make:
 *
 *   1. A vote about whether all members take part                         coll_rawe_vote.c
 *   2. Member 0 announces each member's host, and draws the id              underlying Bcast
 *   3. Each leader opens its port, and announces its limits                 underlying Allreduce
 *   4. Each leader enters the group, and announces what an earlier communicator
 *      has shown to pass to the members' hosts                              underlying Allreduce
 *   5. If that is unknown, the leaders exchange two messages: a frame, and a batch. These arrive in
 *      any case, but some networks pass no multicast, or no frames of this length, or no batches
 *   6. All leaders announce what they received by multicast                 underlying Allreduce
 *
 * Losses may be accidental, so steps 5 and 6 are repeated a few times.
 */
#include "coll_rawe.h"

#include "ompi/proc/proc.h"
#include "opal/mca/btl/rawe/linux/sys/rawe_random.h"
#include "opal/runtime/opal_progress.h"

#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

/** Frames of a tested batch: one that arrives in a batch is enough, others may be lost. */
#define TRY_FRAMES 8u

/**
 * Number of tries. One success is enough, so with a loss rate of p each of n (n - 1) pairs of
 * leaders fails with probability p^TRIES. With 4 tries, 4 leaders at 20 % failed in 1 of 50 jobs.
 */
#define TRIES 8

/** Time limit of a try's message. */
#define TRY_NS 5000000000ull

/** Rounds of progress between two readings of the clock. */
#define ROUNDS_PER_CLOCK_READ 1024u

/** The network has failed a test. Later communicators do not test if any member says so. */
static bool network_failed;

/** Results of tests of the network. BROKEN: a member has no group, or did not hear of one. */
enum { PASSES_BROKEN, PASSES_NOTHING, PASSES_FRAMES, PASSES_BATCHES };

/**
 * Longer Bcasts are left to the underlying component: more plain frames than this are slower than a
 * tree if no rate limits the link; longer batches were not measured.
 */
#define FRAMES_MOST 3
#define BATCHES_MOST_BYTES (4u << 20)

/** Hosts known to pass multicast to each other; emptied when it is lost. */
static struct {
    uint64_t *hosts; /**< ascending */
    size_t count;
    uint32_t payload_bytes; /**< of the frames tested */
    int passes;
} proven;

bool mca_coll_rawe_wait(const struct mca_btl_rawe_transfer *transfer, uint64_t most_ns)
{
    uint64_t began_ns = 0;

    for (unsigned round = 1; MCA_BTL_RAWE_TRANSFER_WAITS ==
                             atomic_load_explicit(&transfer->state, memory_order_acquire);
         ++round) {
        opal_progress();
        if (0 == round % ROUNDS_PER_CLOCK_READ) {
            const uint64_t time_ns = mca_coll_rawe_time_ns();
            began_ns = 0 == began_ns ? time_ns : began_ns;
            if (time_ns - began_ns > most_ns) {
                return false;
            }
        }
    }
    return true;
}

/**
 * Exchange `len_bytes` with every leader. Lowers `*passes` to what all of them delivered by
 * multicast. Returns false if the group is closed.
 */
static bool try_network(mca_coll_rawe_module_t *module, int self, size_t len_bytes, bool batches,
                        int *passes)
{
    const struct mca_btl_rawe_offer *offer = module->offer;
    const int members = module->hosts->count;
    uint8_t *zeros = calloc(1, len_bytes);
    struct mca_btl_rawe_transfer transfer = {
        .data = zeros, .len_bytes = len_bytes, .batches = batches};

    bool comes = NULL != zeros && offer->send(module->group, &transfer) &&
                 mca_coll_rawe_wait(&transfer, TRY_NS);
    for (int i = 1; i < members && comes; ++i) {
        offer->expect(module->group, (uint32_t)((self + i) % members), &transfer);
        comes = mca_coll_rawe_wait(&transfer, TRY_NS);
        /* Short messages are sent in frames, so batches without frames are of no use. */
        const int heard = !transfer.heard    ? PASSES_NOTHING
                          : transfer.batches ? PASSES_BATCHES
                                             : PASSES_FRAMES;
        *passes = heard < *passes ? heard : *passes;
    }
    if (!comes) { /* the group may still access the memory freed here */
        offer->close(module->group, false);
        module->group = NULL;
        *passes = PASSES_BROKEN;
    }
    free(zeros);
    return comes;
}

static int compare_hosts(const void *one, const void *other)
{
    const uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;

    return a < b ? -1 : a > b;
}

/** Return which multicast is known to pass between the leaders, in frames of this length. */
static int known_to_pass(const mca_coll_rawe_module_t *module, struct ompi_communicator_t *comm,
                         uint32_t payload_bytes)
{
    const mca_coll_rawe_hosts_t *hosts = module->hosts;
    bool known = 0 != proven.count && payload_bytes <= proven.payload_bytes;

    for (int i = 0; i < hosts->count && known; ++i) {
        uint64_t host;
        known = mca_coll_rawe_takes_part(module, comm, hosts->leaders[i], true, &host) &&
                NULL != bsearch(&host, proven.hosts, proven.count, sizeof(host), compare_hosts);
    }
    return known ? proven.passes : PASSES_NOTHING;
}

/** Remember which multicast passes between the leaders. */
static void note_proven(const mca_coll_rawe_module_t *module, struct ompi_communicator_t *comm,
                        int passes)
{
    const mca_coll_rawe_hosts_t *hosts = module->hosts;
    uint64_t *names = calloc((size_t)hosts->count, sizeof(*names));

    mca_coll_rawe_forget_network();
    for (int i = 0; i < hosts->count && NULL != names; ++i) {
        (void)mca_coll_rawe_takes_part(module, comm, hosts->leaders[i], true, &names[i]);
    }
    if (NULL != names) {
        qsort(names, (size_t)hosts->count, sizeof(*names), compare_hosts);
        proven.hosts = names;
        proven.count = (size_t)hosts->count;
        proven.payload_bytes = module->payload_bytes;
        proven.passes = passes;
    }
}

void mca_coll_rawe_forget_network(void)
{
    free(proven.hosts);
    proven.hosts = NULL;
    proven.count = 0;
}

/** Enter the group. module->group stays NULL if a member is unreachable or when out of memory. */
static void group_enter(mca_coll_rawe_module_t *module, struct ompi_communicator_t *comm,
                        uint64_t id, const struct mca_btl_rawe_place *all, int self)
{
    opal_proc_t **procs = mca_coll_rawe_hosts_introduce(module->hosts, comm);

    if (NULL != procs) {
        module->group =
            module->offer->open(id, (uint32_t)module->hosts->count, (uint32_t)self, all, procs);
    }
    free(procs);
}

/**
 * Test frames, then batches. Returns which of them pass. The second test also tells which leaders'
 * frames have arrived. It takes place in any case: the other leaders expect its message.
 */
static int try_both(mca_coll_rawe_module_t *module, const struct mca_btl_rawe_place *all, int self)
{
    int passes = NULL == module->group ? PASSES_BROKEN : PASSES_BATCHES;

    if (PASSES_BROKEN != passes && try_network(module, self, all->payload_bytes, false, &passes) &&
        0 != all->segment_bytes) {
        passes = PASSES_BATCHES;
        (void)try_network(module, self, (size_t)TRY_FRAMES * all->payload_bytes, true, &passes);
    }
    return passes;
}

/** Number of integers that hold an id. */
#define ID_INTS ((int)(sizeof(uint64_t) / sizeof(int)))

/** Step 2. An id of 0 means that no random number could be drawn. */
static int tell_hosts(mca_coll_rawe_module_t *module, struct ompi_communicator_t *comm,
                      uint64_t *id)
{
    const int members = ompi_comm_size(comm);
    int *of = module->hosts->of;
    void *behind = of + members; /* where the leaders will be noted: room for at least as many */

    if (0 == ompi_comm_rank(comm) && sizeof(*id) != getrandom(id, sizeof(*id), 0)) {
        *id = 0;
    }
    memcpy(behind, id, sizeof(*id));
    const int status = module->bcast(of, members + ID_INTS, MPI_INT, 0, comm, module->bcast_module);
    memcpy(id, behind, sizeof(*id));
    return status;
}

/** Step 3. Set `*common` to the limits of all leaders. */
static int reduce_places(mca_coll_rawe_module_t *module, struct ompi_communicator_t *comm,
                         bool takes_one, struct mca_btl_rawe_place *common)
{
    struct mca_btl_rawe_place place = {UINT32_MAX, UINT32_MAX, UINT32_MAX};

    if (0 == module->hosts->position) {
        place = takes_one && !network_failed ? module->offer->place()
                                             : (struct mca_btl_rawe_place){.payload_bytes = 0};
    }
    return module->allreduce(&place, common, (int)(sizeof(place) / sizeof(uint32_t)), MPI_UINT32_T,
                             MPI_MIN, comm, module->allreduce_module);
}

/** Steps 4 to 6. Set `*all` to what passes between all leaders. */
static int find_out(mca_coll_rawe_module_t *module, struct ompi_communicator_t *comm, uint64_t id,
                    const struct mca_btl_rawe_place *common, int *all)
{
    const int self = module->hosts->of[ompi_comm_rank(comm)];
    const bool leads = 0 == module->hosts->position;
    const int best = 0 != common->segment_bytes ? PASSES_BATCHES : PASSES_FRAMES;
    int passes = best, tries = 0;

    if (leads) {
        group_enter(module, comm, id, common, self);
        const int known = known_to_pass(module, comm, common->payload_bytes);
        passes = NULL == module->group ? PASSES_BROKEN : MIN(known, best);
    }
    /* Frames that arrive before a member has entered are lost: it would wait long, then ask. */
    int status =
        module->allreduce(&passes, all, 1, MPI_INT, MPI_MIN, comm, module->allreduce_module);
    const bool known = *all > PASSES_NOTHING;
    /* All members have the same information, so they agree about another try. */
    for (bool again = !known; MPI_SUCCESS == status && PASSES_BROKEN != *all && again;) {
        passes = leads ? try_both(module, common, self) : PASSES_BATCHES;
        status =
            module->allreduce(&passes, all, 1, MPI_INT, MPI_MIN, comm, module->allreduce_module);
        again = *all < best && ++tries < TRIES;
    }
    if (MPI_SUCCESS == status && leads && !known && *all > PASSES_NOTHING) {
        note_proven(module, comm, *all);
    }
    network_failed = network_failed || (MPI_SUCCESS == status && *all <= PASSES_NOTHING);
    return status;
}

/** Steps 2 to 6. */
static int group_agree(mca_coll_rawe_module_t *module, struct ompi_communicator_t *comm)
{
    struct mca_btl_rawe_place common = {.payload_bytes = 0};
    int all = PASSES_BROKEN;
    uint64_t id = 0;

    int status = tell_hosts(module, comm, &id);
    if (MPI_SUCCESS == status) {
        mca_coll_rawe_hosts_arrange(module->hosts, ompi_comm_size(comm), ompi_comm_rank(comm));
        status = reduce_places(module, comm, 0 != id, &common);
    }
    module->payload_bytes = common.payload_bytes;
    if (MPI_SUCCESS == status && 0 != common.payload_bytes) {
        status = find_out(module, comm, id, &common, &all);
    }
    if (MPI_SUCCESS == status && all > PASSES_NOTHING) {
        module->stage = MCA_COLL_RAWE_MULTICASTS;
        module->limit_bytes = PASSES_BATCHES == all ? BATCHES_MOST_BYTES
                                                    : (size_t)FRAMES_MOST * module->payload_bytes;
        module->batches = PASSES_BATCHES == all;
        MCA_COLL_RAWE_SAY(comm, module->batches
                                    ? "multicasts what fits a frame, and more in batches"
                                    : "multicasts what fits a frame, or a few");
        return status;
    }
    if (NULL != module->group) {
        module->offer->close(module->group, false);
        module->group = NULL;
    }
    MCA_COLL_RAWE_SAY(comm, "a member cannot receive what is sent to groups");
    return status;
}

int mca_coll_rawe_agree(mca_coll_rawe_module_t *module, struct ompi_communicator_t *comm)
{
    int status = OMPI_ERR_OUT_OF_RESOURCE; /* ends the job: the others are in the same call */
    int verdict;

    module->stage = MCA_COLL_RAWE_PASSES;
    module->hosts = mca_coll_rawe_hosts_new(ompi_comm_size(comm));
    if (NULL != module->hosts) {
        status = mca_coll_rawe_vote(module, comm, &verdict);
        if (MPI_SUCCESS == status && MCA_COLL_RAWE_GROUP == verdict) {
            status = group_agree(module, comm);
        } else {
            MCA_COLL_RAWE_SAY(comm, MCA_COLL_RAWE_FEW_HOSTS == verdict
                                        ? "its members are on fewer than four hosts"
                                        : "a member takes no part in groups");
        }
    }
    if (MCA_COLL_RAWE_MULTICASTS != module->stage) {
        free(module->hosts);
        module->hosts = NULL;
    }
    return status;
}
