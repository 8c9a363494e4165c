/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of coll/rawe's collectives: which calls count towards a group. The agreement, the trees and
 * the underlying collectives are fake.
 */
#include "ompi/mca/coll/rawe/coll_rawe.h"

#include "ompi/mca/coll/rawe/coll_rawe_component.c"
#include "unit_test.h"

static unsigned agreements, beneath; /* calls */

int mca_coll_rawe_agree(mca_coll_rawe_module_t *module, struct ompi_communicator_t *comm)
{
    module->stage = MCA_COLL_RAWE_PASSES;
    agreements++;
    return MPI_SUCCESS;
}

void mca_coll_rawe_vote_close(void)
{
}

void mca_coll_rawe_forget_network(void)
{
}

bool mca_coll_rawe_wait(const struct mca_btl_rawe_transfer *transfer, uint64_t most_ns)
{
    return true;
}

mca_coll_rawe_tree_t mca_coll_rawe_hosts_here(const mca_coll_rawe_hosts_t *hosts, int rank)
{
    return (mca_coll_rawe_tree_t){.count = 1};
}

mca_coll_rawe_tree_t mca_coll_rawe_hosts_leaders(const mca_coll_rawe_hosts_t *hosts, int rank)
{
    return (mca_coll_rawe_tree_t){.count = 1};
}

int mca_coll_rawe_tree_receive(const mca_coll_rawe_tree_t *tree, void *buffer, int count,
                               struct ompi_datatype_t *datatype, struct ompi_communicator_t *comm)
{
    return MPI_SUCCESS;
}

int mca_coll_rawe_tree_send(const mca_coll_rawe_tree_t *tree, void *buffer, int count,
                            struct ompi_datatype_t *datatype, struct ompi_communicator_t *comm)
{
    return MPI_SUCCESS;
}

int mca_coll_rawe_tree_reduce(const mca_coll_rawe_tree_t *tree, const void **mine,
                              void *const slots[3], int count, struct ompi_datatype_t *datatype,
                              struct ompi_op_t *op, struct ompi_communicator_t *comm)
{
    return MPI_SUCCESS;
}

static int bcast_beneath(void *buffer, int count, struct ompi_datatype_t *datatype, int root,
                         struct ompi_communicator_t *comm, mca_coll_base_module_t *module)
{
    beneath++;
    return MPI_SUCCESS;
}

/**
 * MPI_Bcast of no elements returns before it reaches the component. A rank may pass one element of
 * an empty type instead. All ranks must vote in the same call.
 */
TEST(bcast__without_data_is_not_counted)
{
    struct ompi_datatype_t byte = {.super = {.size = 1}}, empty = {.super = {.size = 0}};
    mca_coll_rawe_module_t module = {.bcast = bcast_beneath};
    char data[8];

    for (unsigned i = 1; i < COUNTED; i++) {
        assert_int_equal(bcast(data, 8, &byte, 0, NULL, &module.super), MPI_SUCCESS);
    }
    assert_int_equal(bcast(data, 1, &empty, 0, NULL, &module.super), MPI_SUCCESS);
    assert_int_equal(bcast(data, 0, &byte, 0, NULL, &module.super), MPI_SUCCESS);
    assert_int_equal(beneath, COUNTED + 1);
    assert_int_equal(agreements, 0);
    assert_int_equal(bcast(data, 8, &byte, 0, NULL, &module.super), MPI_SUCCESS);
    assert_int_equal(agreements, 1);
}
