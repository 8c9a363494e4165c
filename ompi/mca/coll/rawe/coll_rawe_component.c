/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The collectives, and the component: which communicators get a module. All members make the same
 * calls in the same order, and know the root of each. So a root's next message belongs to its next
 * call, and needs no number.
 *
 * All ranks must make the same choice, but a rank knows only its own handles: other ranks may use
 * other handles for a type with the same signature, or for an operation that they declare
 * non-commutative. So only MPI's own operations qualify for reductions. They commute, accept only
 * MPI's own types, and are the same in all ranks of a call. A part of a Scatter or Allgather has
 * the same length in all ranks.
 */
#include "coll_rawe.h"

#include "ompi/mca/coll/base/coll_tags.h"
#include "ompi/mca/pml/pml.h"
#include "opal/version.h"

#include <stdlib.h>
#include <string.h>

/* Open MPI 5.0 differs from 4.1: it has raised its interface's version... */
#ifdef MCA_COLL_BASE_VERSION_2_4_0
#define MCA_COLL_RAWE_COMPAT_VERSION MCA_COLL_BASE_VERSION_2_4_0
#else
#define MCA_COLL_RAWE_COMPAT_VERSION MCA_COLL_BASE_VERSION_2_0_0
#endif

/* ... and has only the general macro that makes a component's symbol visible to the loader. */
#ifndef OMPI_MODULE_DECLSPEC
#define OMPI_MODULE_DECLSPEC OMPI_DECLSPEC
#endif

/* ---- MPI_Bcast ---- */

/** Calls before a group is formed, because it costs its members about as much as these. */
#define COUNTED 8u

/** Leave the group. The other members leave after the same message. */
static void end_group(mca_coll_rawe_module_t *module, struct ompi_communicator_t *comm)
{
    MCA_COLL_RAWE_SAY(comm, "a member no longer receives multicast");
    module->offer->close(module->group, true);
    module->group = NULL;
    module->ended = true;
    mca_coll_rawe_forget_network();
    if (module->hosts->count == ompi_comm_size(comm)) {
        module->stage = MCA_COLL_RAWE_PASSES; /* all members know */
    }
}

/** Send or receive a contiguous message. */
static int message_transfer(mca_coll_rawe_module_t *module, void *data, size_t len_bytes, int root,
                            struct ompi_communicator_t *comm)
{
    const struct mca_btl_rawe_offer *offer = module->offer;
    struct mca_btl_rawe_transfer message = {
        .data = data,
        .len_bytes = len_bytes,
        .batches = module->batches && len_bytes > module->payload_bytes,
    };

    if (ompi_comm_rank(comm) != root) {
        offer->expect(module->group, (uint32_t)module->hosts->of[root], &message);
    } else if (!offer->send(module->group, &message)) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    (void)mca_coll_rawe_wait(&message, UINT64_MAX);
    if (message.last) {
        end_group(module, comm);
    }
    return MCA_BTL_RAWE_TRANSFER_DONE == atomic_load(&message.state) ? MPI_SUCCESS
                                                                     : MPI_ERR_TRUNCATE;
}

/** Send or receive a message with gaps, or on a device, through contiguous memory. */
static int transfer_packed(mca_coll_rawe_module_t *module, void *buffer, int count,
                           struct ompi_datatype_t *datatype, size_t len_bytes, int root,
                           struct ompi_communicator_t *comm)
{
    const bool is_root = ompi_comm_rank(comm) == root;
    const int packed_bytes = (int)len_bytes;
    void *packed = malloc(len_bytes);
    int status = NULL == packed ? OMPI_ERR_OUT_OF_RESOURCE : MPI_SUCCESS;

    if (MPI_SUCCESS == status && is_root) {
        status = ompi_datatype_sndrcv(buffer, count, datatype, packed, packed_bytes, MPI_PACKED);
    }
    if (MPI_SUCCESS == status) {
        status = message_transfer(module, packed, len_bytes, root, comm);
    }
    if (MPI_SUCCESS == status && !is_root) {
        status = ompi_datatype_sndrcv(packed, packed_bytes, MPI_PACKED, buffer, count, datatype);
    }
    free(packed);
    return status;
}

/**
 * Return true if a call that could use multicast does so. All members pass the same `could`; they
 * agree on a group in the call that makes one worthwhile. `*status`: the result of agreeing.
 */
static bool multicast_chosen(mca_coll_rawe_module_t *module, struct ompi_communicator_t *comm,
                             bool could, int *status)
{
    bool agrees = could && MCA_COLL_RAWE_COUNTS == module->stage && ++module->counted == COUNTED;

    *status = agrees ? mca_coll_rawe_agree(module, comm) : MPI_SUCCESS;
    return could && MPI_SUCCESS == *status && MCA_COLL_RAWE_MULTICASTS == module->stage;
}

/** Send up to limit_bytes from one leader to all others; called by leaders only. */
static int leaders_multicast(mca_coll_rawe_module_t *module, void *buffer, int count,
                             struct ompi_datatype_t *datatype, int root,
                             struct ompi_communicator_t *comm)
{
    opal_convertor_t convertor;
    size_t type_bytes;

    if (module->ended) {
        const mca_coll_rawe_tree_t leaders = mca_coll_rawe_hosts_leaders(module->hosts, root);
        int passed = mca_coll_rawe_tree_receive(&leaders, buffer, count, datatype, comm);
        return MPI_SUCCESS == passed
                   ? mca_coll_rawe_tree_send(&leaders, buffer, count, datatype, comm)
                   : passed;
    }
    ompi_datatype_type_size(datatype, &type_bytes);
    const size_t len_bytes = type_bytes * (size_t)count;
    OBJ_CONSTRUCT(&convertor, opal_convertor_t);
    int status = opal_convertor_copy_and_prepare_for_recv(
        ompi_mpi_local_convertor, &datatype->super, (size_t)count, buffer, 0, &convertor);
    if (OPAL_SUCCESS == status) {
        void *data;
        opal_convertor_get_current_pointer(&convertor, &data);
        status = mca_btl_rawe_compat_must_pack(&convertor)
                     ? transfer_packed(module, buffer, count, datatype, len_bytes, root, comm)
                     : message_transfer(module, data, len_bytes, root, comm);
    }
    OBJ_DESTRUCT(&convertor);
    return status;
}

/** Send up to limit_bytes from a rank to all others: to its leader, all leaders, their hosts. */
static int to_all(mca_coll_rawe_module_t *module, void *buffer, int count,
                  struct ompi_datatype_t *datatype, int rank, struct ompi_communicator_t *comm)
{
    const mca_coll_rawe_hosts_t *hosts = module->hosts;
    const mca_coll_rawe_tree_t here = mca_coll_rawe_hosts_here(hosts, rank);

    int status = mca_coll_rawe_tree_receive(&here, buffer, count, datatype, comm);
    if (MPI_SUCCESS == status && 0 == hosts->position) {
        status = leaders_multicast(module, buffer, count, datatype, hosts->leaders[hosts->of[rank]],
                                   comm);
    }
    return MPI_SUCCESS == status ? mca_coll_rawe_tree_send(&here, buffer, count, datatype, comm)
                                 : status;
}

static int bcast(void *buffer, int count, struct ompi_datatype_t *datatype, int root,
                 struct ompi_communicator_t *comm, mca_coll_base_module_t *base)
{
    mca_coll_rawe_module_t *module = (mca_coll_rawe_module_t *)base;
    size_t type_bytes;

    ompi_datatype_type_size(datatype, &type_bytes);
    const size_t len_bytes = type_bytes * (size_t)count;
    int status;
    /* Ranks that pass no elements do not get here: MPI_Bcast returns at once. */
    if (multicast_chosen(module, comm, 0 != len_bytes, &status) &&
        len_bytes <= module->limit_bytes) {
        return to_all(module, buffer, count, datatype, root, comm);
    }
    return MPI_SUCCESS != status
               ? status
               : module->bcast(buffer, count, datatype, root, comm, module->bcast_module);
}

/*
 * ---- MPI_Barrier, MPI_Allreduce, MPI_Reduce_scatter ----
 *
 * The ranks on each host reduce their contributions, and each leader sends a message to rank 0,
 * which sends the result to all in one multicast frame. The order is fixed, so the result is
 * bitwise identical in all ranks and runs.
 */

/** Maximum number of hosts: rank 0 receives a frame from each. More have not been measured. */
#define HOSTS_MAX 16

/** Minimum members of a Barrier: with fewer, Open MPI's also goes via rank 0, and is as fast. */
#define BARRIER_MEMBERS_MIN 8

/** Maximum contribution of a member: at 1 Gb/s, rank 0 receives sixteen of them in 40 us. */
#define CONTRIBUTED_BYTES_MAX 256

/** The rank that reduces, or gathers for an Allgather. */
#define ROOT 0

/** Reduce all contributions into the root's `receive`, and send that to all. */
static int reduce_to_all(mca_coll_rawe_module_t *module, const void *send, void *receive, int count,
                         struct ompi_datatype_t *datatype, struct ompi_op_t *op,
                         struct ompi_communicator_t *comm)
{
    _Alignas(16) char memory[3][CONTRIBUTED_BYTES_MAX];
    void *const slots[] = {memory[0], memory[1], memory[2]};
    const mca_coll_rawe_tree_t here = mca_coll_rawe_hosts_here(module->hosts, ROOT);
    const mca_coll_rawe_tree_t leaders = mca_coll_rawe_hosts_leaders(module->hosts, ROOT);
    const void *mine = MPI_IN_PLACE == send ? receive : send;

    int status = mca_coll_rawe_tree_reduce(&here, &mine, slots, count, datatype, op, comm);
    if (MPI_SUCCESS == status && 0 == module->hosts->position) {
        status = mca_coll_rawe_tree_reduce(&leaders, &mine, slots, count, datatype, op, comm);
    }
    if (MPI_SUCCESS == status && ROOT == ompi_comm_rank(comm) && 0 != count) {
        ompi_datatype_copy_content_same_ddt(datatype, count, receive, (char *)mine);
    }
    return MPI_SUCCESS == status ? to_all(module, receive, count, datatype, ROOT, comm) : status;
}

static int barrier(struct ompi_communicator_t *comm, mca_coll_base_module_t *base)
{
    mca_coll_rawe_module_t *module = (mca_coll_rawe_module_t *)base;
    int status;

    if (multicast_chosen(module, comm, ompi_comm_size(comm) >= BARRIER_MEMBERS_MIN, &status) &&
        module->hosts->count <= HOSTS_MAX) {
        return reduce_to_all(module, NULL, NULL, 0, MPI_BYTE, MPI_OP_NULL, comm);
    }
    return MPI_SUCCESS != status ? status : module->barrier(comm, module->barrier_module);
}

/** Return true for MPI's own operations; ompi/op/op.h, which can tell, is not fully installed. */
static bool is_mpis_own(struct ompi_op_t *op)
{
    struct ompi_op_t *const all[] = {MPI_SUM,  MPI_PROD, MPI_MAX, MPI_MIN,  MPI_LAND,   MPI_LOR,
                                     MPI_LXOR, MPI_BAND, MPI_BOR, MPI_BXOR, MPI_MINLOC, MPI_MAXLOC};
    bool found = false;

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]) && !found; ++i) {
        found = op == all[i];
    }
    return found;
}

/** Return the elements' bytes in memory if the call can use multicast, otherwise 0. */
static size_t plain_bytes(size_t count, const struct ompi_datatype_t *datatype,
                          struct ompi_op_t *op)
{
    ptrdiff_t lower, extent;

    ompi_datatype_get_extent(datatype, &lower, &extent);
    return is_mpis_own(op) && ompi_datatype_is_predefined(datatype) ? (size_t)extent * count : 0;
}

/** Deliver the result to all ranks if this call uses multicast, and set `*done` accordingly. */
static int try_allreduce(mca_coll_rawe_module_t *module, const void *send, void *receive,
                         size_t elements, struct ompi_datatype_t *datatype, struct ompi_op_t *op,
                         struct ompi_communicator_t *comm, bool *done)
{
    const size_t bytes = plain_bytes(elements, datatype, op);
    const int count = (int)elements; /* small enough to fit */

    int status;

    *done = multicast_chosen(module, comm, 0 != bytes && bytes <= CONTRIBUTED_BYTES_MAX, &status) &&
            module->hosts->count <= HOSTS_MAX && bytes <= module->payload_bytes;
    return *done ? reduce_to_all(module, send, receive, count, datatype, op, comm) : status;
}

static int allreduce(const void *send, void *receive, int count, struct ompi_datatype_t *datatype,
                     struct ompi_op_t *op, struct ompi_communicator_t *comm,
                     mca_coll_base_module_t *base)
{
    mca_coll_rawe_module_t *module = (mca_coll_rawe_module_t *)base;
    bool done;

    int status = try_allreduce(module, send, receive, (size_t)count, datatype, op, comm, &done);
    return MPI_SUCCESS != status || done ? status
                                         : module->allreduce(send, receive, count, datatype, op,
                                                             comm, module->allreduce_module);
}

/** Allreduce `whole` elements; this rank takes `count` after the first `before`. */
static int try_reduce_scatter(mca_coll_rawe_module_t *module, const void *send, void *receive,
                              size_t before, int count, size_t whole,
                              struct ompi_datatype_t *datatype, struct ompi_op_t *op,
                              struct ompi_communicator_t *comm, bool *done)
{
    _Alignas(16) char result[CONTRIBUTED_BYTES_MAX];
    const void *mine = MPI_IN_PLACE == send ? receive : send;

    int status = try_allreduce(module, mine, result, whole, datatype, op, comm, done);
    if (*done && MPI_SUCCESS == status && 0 != count) {
        const char *part = result + plain_bytes(before, datatype, op);
        ompi_datatype_copy_content_same_ddt(datatype, count, receive, (char *)part);
    }
    return status;
}

static int reduce_scatter(const void *send, void *receive, const int *counts,
                          struct ompi_datatype_t *datatype, struct ompi_op_t *op,
                          struct ompi_communicator_t *comm, mca_coll_base_module_t *base)
{
    mca_coll_rawe_module_t *module = (mca_coll_rawe_module_t *)base;
    const int members = ompi_comm_size(comm), self = ompi_comm_rank(comm);
    size_t before = 0, whole = 0;
    bool done;

    for (int i = 0; i < members; ++i) {
        before += i < self ? (size_t)counts[i] : 0;
        whole += (size_t)counts[i];
    }
    int status = try_reduce_scatter(module, send, receive, before, counts[self], whole, datatype,
                                    op, comm, &done);
    return MPI_SUCCESS != status || done
               ? status
               : module->reduce_scatter(send, receive, counts, datatype, op, comm,
                                        module->reduce_scatter_module);
}

static int reduce_scatter_block(const void *send, void *receive, int count,
                                struct ompi_datatype_t *datatype, struct ompi_op_t *op,
                                struct ompi_communicator_t *comm, mca_coll_base_module_t *base)
{
    mca_coll_rawe_module_t *module = (mca_coll_rawe_module_t *)base;
    const size_t elements = (size_t)count; /* the total over all ranks may exceed an int */
    bool done;

    int status =
        try_reduce_scatter(module, send, receive, elements * (size_t)ompi_comm_rank(comm), count,
                           elements * (size_t)ompi_comm_size(comm), datatype, op, comm, &done);
    return MPI_SUCCESS != status || done
               ? status
               : module->reduce_scatter_block(send, receive, count, datatype, op, comm,
                                              module->reduce_scatter_block_module);
}

/*
 * ---- MPI_Scatter, MPI_Allgather ----
 *
 * A single multicast contains all parts of a small Scatter; each leader takes its own part, and
 * sends the other ranks on its host theirs. The underlying component gathers the parts of an
 * Allgather in rank 0, which multicasts them.
 */

/** Minimum members: with fewer, a frame to each, or Open MPI's Allgather, is as fast. */
#define MEMBERS_MIN 8

/** Limit on all parts together: one frame at MTU 1500; doc/experiments/multicast.md says why. */
#define SCATTERED_BYTES_MAX 1468
#define GATHERED_BYTES_MAX 8192

#define TAG MCA_COLL_BASE_TAG_SCATTER

/** Call multicast_chosen, according to the total length of all parts. */
static bool parts_chosen(mca_coll_rawe_module_t *module, struct ompi_communicator_t *comm,
                         size_t whole_bytes, size_t most_bytes, int *status)
{
    return multicast_chosen(module, comm,
                            ompi_comm_size(comm) >= MEMBERS_MIN && 0 != whole_bytes &&
                                whole_bytes <= most_bytes,
                            status);
}

/** As a leader, take part in the multicast of all parts; send the host's other ranks theirs. */
static int lead_scatter(mca_coll_rawe_module_t *module, char *whole, int part_bytes, int root,
                        struct ompi_communicator_t *comm)
{
    const mca_coll_rawe_hosts_t *hosts = module->hosts;
    const int self = ompi_comm_rank(comm), sender = hosts->leaders[hosts->of[root]];
    const int whole_bytes = part_bytes * ompi_comm_size(comm);
    int status = MPI_SUCCESS;

    if (sender == self && root != self) {
        status = MCA_PML_CALL(
            recv(whole, (size_t)whole_bytes, MPI_BYTE, root, TAG, comm, MPI_STATUS_IGNORE));
    }
    if (MPI_SUCCESS == status) {
        status = leaders_multicast(module, whole, whole_bytes, MPI_BYTE, sender, comm);
    }
    for (int i = 1; i < hosts->here && MPI_SUCCESS == status; ++i) {
        const int to = hosts->ranks[i];
        if (to != root) {
            status = MCA_PML_CALL(send(whole + part_bytes * to, (size_t)part_bytes, MPI_BYTE, to,
                                       TAG, MCA_PML_BASE_SEND_STANDARD, comm));
        }
    }
    return status;
}

static int scatter(const void *send, int send_count, struct ompi_datatype_t *send_type,
                   void *receive, int receive_count, struct ompi_datatype_t *receive_type, int root,
                   struct ompi_communicator_t *comm, mca_coll_base_module_t *base)
{
    mca_coll_rawe_module_t *module = (mca_coll_rawe_module_t *)base;
    const int self = ompi_comm_rank(comm), members = ompi_comm_size(comm);
    char whole[SCATTERED_BYTES_MAX];
    size_t type_bytes;

    ompi_datatype_type_size(self == root ? send_type : receive_type, &type_bytes);
    const size_t part_bytes = type_bytes * (size_t)(self == root ? send_count : receive_count);
    const size_t whole_bytes = part_bytes * (size_t)members;
    int status;
    if (!parts_chosen(module, comm, whole_bytes, SCATTERED_BYTES_MAX, &status) ||
        whole_bytes > module->payload_bytes) {
        return MPI_SUCCESS != status
                   ? status
                   : module->scatter(send, send_count, send_type, receive, receive_count,
                                     receive_type, root, comm, module->scatter_module);
    }
    const bool leads = 0 == module->hosts->position;
    const int leader = module->hosts->ranks[0];
    if (self == root) {
        status = ompi_datatype_sndrcv(send, send_count * members, send_type, whole,
                                      (int)whole_bytes, MPI_PACKED);
    } else if (!leads) {
        return MCA_PML_CALL(recv(receive, (size_t)receive_count, receive_type, leader, TAG, comm,
                                 MPI_STATUS_IGNORE));
    }
    if (MPI_SUCCESS == status) {
        status = leads ? lead_scatter(module, whole, (int)part_bytes, root, comm)
                       : MCA_PML_CALL(send(whole, whole_bytes, MPI_BYTE, leader, TAG,
                                           MCA_PML_BASE_SEND_STANDARD, comm));
    }
    return MPI_SUCCESS == status && MPI_IN_PLACE != receive
               ? ompi_datatype_sndrcv(whole + part_bytes * (size_t)self, (int)part_bytes,
                                      MPI_PACKED, receive, receive_count, receive_type)
               : status;
}

static int allgather(const void *send, int send_count, struct ompi_datatype_t *send_type,
                     void *receive, int receive_count, struct ompi_datatype_t *receive_type,
                     struct ompi_communicator_t *comm, mca_coll_base_module_t *base)
{
    mca_coll_rawe_module_t *module = (mca_coll_rawe_module_t *)base;
    const int members = ompi_comm_size(comm), self = ompi_comm_rank(comm);
    size_t type_bytes;
    ptrdiff_t lower, extent;

    ompi_datatype_type_size(receive_type, &type_bytes);
    const size_t whole_bytes = type_bytes * (size_t)receive_count * (size_t)members;
    int status;
    if (!parts_chosen(module, comm, whole_bytes, GATHERED_BYTES_MAX, &status) ||
        whole_bytes > module->limit_bytes) {
        return MPI_SUCCESS != status
                   ? status
                   : module->allgather(send, send_count, send_type, receive, receive_count,
                                       receive_type, comm, module->allgather_module);
    }
    if (MPI_IN_PLACE == send && ROOT != self) {
        ompi_datatype_get_extent(receive_type, &lower, &extent);
        send = (const char *)receive + extent * receive_count * self;
        send_count = receive_count;
        send_type = receive_type;
    }
    status = module->gather(send, send_count, send_type, receive, receive_count, receive_type, ROOT,
                            comm, module->gather_module);
    return MPI_SUCCESS == status
               ? to_all(module, receive, receive_count * members, receive_type, ROOT, comm)
               : status;
}

/* ---- the component ---- */

OBJ_CLASS_DECLARATION(mca_coll_rawe_module_t);

/** The component's priority; tuned has 30, han 35 since 5.0, inter 40, sync 50. */
static int priority = 45;

OMPI_MODULE_DECLSPEC extern const mca_coll_base_component_t mca_coll_rawe_component;

static int register_coll(void)
{
    return mca_base_component_var_register(
               &mca_coll_rawe_component.collm_version, "priority",
               "Priority of coll/rawe, which multicasts Bcasts, small Scatters, results of other "
               "small collectives, and the end of Barriers; negative: disabled, in all processes",
               MCA_BASE_VAR_TYPE_INT, NULL, 0, 0, OPAL_INFO_LVL_6, MCA_BASE_VAR_SCOPE_READONLY,
               &priority) < 0
               ? OMPI_ERROR
               : OMPI_SUCCESS;
}

static int init_query(bool progress_threads, bool mpi_threads)
{
    return OMPI_SUCCESS;
}

/** Return the component's offer; NULL: another component, or another version of the table. */
static const struct mca_btl_rawe_offer *offer_of(const mca_base_component_t *component)
{
    const struct mca_btl_rawe_component *rawe = (const void *)component;

    return 0 == strcmp(component->mca_component_name, "rawe") &&
                   MCA_BTL_RAWE_OFFER_MAGIC == rawe->magic &&
                   MCA_BTL_RAWE_OFFER_VERSION == rawe->offer->version
               ? rawe->offer
               : NULL;
}

/** Open, unless the user excludes coll/rawe. BTLs are open, and in 4.1 also initialized. */
static int open_coll(void)
{
    mca_base_component_list_item_t *item;

    OPAL_LIST_FOREACH(item, &opal_btl_base_framework.framework_components,
                      mca_base_component_list_item_t)
    {
        const struct mca_btl_rawe_offer *offer = offer_of(item->cli_component);
        if (priority >= 0 && NULL != offer) {
            offer->announce();
        }
    }
    return OMPI_SUCCESS;
}

static int close_coll(void)
{
    mca_coll_rawe_vote_close();
    return OMPI_SUCCESS;
}

/** Return what btl/rawe offers; NULL: it has no module, or another version. */
static const struct mca_btl_rawe_offer *current_offer(void)
{
    mca_btl_base_selected_module_t *selected;

    OPAL_LIST_FOREACH(selected, &mca_btl_base_modules_initialized, mca_btl_base_selected_module_t)
    {
        const struct mca_btl_rawe_offer *offer = offer_of(&selected->btl_component->btl_version);
        if (NULL != offer) {
            return offer;
        }
    }
    return NULL;
}

/** Enable the module, without communicating. Modules of lower priority are already installed. */
static int module_enable(mca_coll_base_module_t *base, struct ompi_communicator_t *comm)
{
    mca_coll_rawe_module_t *module = (mca_coll_rawe_module_t *)base;
    const mca_coll_base_comm_coll_t *beneath = comm->c_coll;

#define SAVE(NAME)                                         \
    if (NULL == beneath->coll_##NAME) {                    \
        return OMPI_ERROR;                                 \
    }                                                      \
    module->NAME = beneath->coll_##NAME;                   \
    module->NAME##_module = beneath->coll_##NAME##_module; \
    OBJ_RETAIN(module->NAME##_module);
    MCA_COLL_RAWE_BENEATH(SAVE)
#undef SAVE
    return NULL != beneath->coll_reduce_local ? OMPI_SUCCESS : OMPI_ERROR;
}

/** Return a module, or NULL. All choose alike, except processes whose BTL does not take part. */
static mca_coll_base_module_t *comm_query(struct ompi_communicator_t *comm, int *priority_out)
{
    const struct mca_btl_rawe_offer *offer = current_offer();

    if (priority < 0 || OMPI_COMM_IS_INTER(comm) ||
        ompi_comm_size(comm) < MCA_COLL_RAWE_HOSTS_MIN || NULL == offer) {
        return NULL;
    }
    mca_coll_rawe_module_t *module = OBJ_NEW(mca_coll_rawe_module_t);
    if (NULL == module) {
        return NULL;
    }
    module->super.coll_module_enable = module_enable;
#define INSTALL(NAME) module->super.coll_##NAME = NAME;
    MCA_COLL_RAWE_OWN(INSTALL)
#undef INSTALL
    module->offer = offer;
    *priority_out = priority;
    return &module->super;
}

static void module_construct(mca_coll_rawe_module_t *module)
{
    memset((char *)module + sizeof(module->super), 0, sizeof(*module) - sizeof(module->super));
}

static void module_destruct(mca_coll_rawe_module_t *module)
{
    /* If the BTL has ended, so have its groups. */
    if (NULL != module->group && NULL != current_offer()) {
        module->offer->close(module->group, true);
    }
    free(module->hosts);
#define RELEASE(NAME)                       \
    if (NULL != module->NAME##_module) {    \
        OBJ_RELEASE(module->NAME##_module); \
    }
    MCA_COLL_RAWE_BENEATH(RELEASE)
#undef RELEASE
}

OBJ_CLASS_INSTANCE(mca_coll_rawe_module_t, mca_coll_base_module_t, module_construct,
                   module_destruct);

const mca_coll_base_component_t mca_coll_rawe_component = {
    .collm_version =
        {
            MCA_COLL_RAWE_COMPAT_VERSION,
            .mca_component_name = "rawe",
            MCA_BASE_MAKE_VERSION(component, OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION,
                                  OMPI_RELEASE_VERSION),
            .mca_open_component = open_coll,
            .mca_close_component = close_coll,
            .mca_register_component_params = register_coll,
        },
    .collm_data =
        {
            .param_field = MCA_BASE_METADATA_PARAM_NONE,
        },
    .collm_init_query = init_query,
    .collm_comm_query = comm_query,
};
