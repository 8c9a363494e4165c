/* SPDX-License-Identifier: BSD-3-Clause */
/* The collective benchmarks; the message size of each is defined as in IMB. */
#include "imb.h"

/* --- Buffers --------------------------------------------------------------------------------- */

/* Set the counts and displacements of equal blocks for the v-collectives. */
static void share_blocks(const struct imb_run *run)
{
    for (int i = 0; i < run->size; i++) {
        run->counts[i] = (int)run->bytes;
        run->displacements[i] = (int)((size_t)i * run->bytes);
    }
}

static void space_gathered(struct imb_run *run, size_t *send, size_t *receive)
{
    *send = run->bytes;
    *receive = run->bytes * (size_t)run->size;
    share_blocks(run);
}

static void space_scattered(struct imb_run *run, size_t *send, size_t *receive)
{
    *send = run->bytes * (size_t)run->size;
    *receive = run->bytes;
    share_blocks(run);
}

static void space_all(struct imb_run *run, size_t *send, size_t *receive)
{
    *send = run->bytes * (size_t)run->size;
    *receive = *send;
    share_blocks(run);
}

/* --- Contents -------------------------------------------------------------------------------- */

static void fill_block_for_each(struct imb_run *run)
{
    for (int to = 0; to < run->size; to++) {
        imb_pattern_fill(run->send + (size_t)to * run->bytes, run->bytes, run->rank, to,
                         run->round);
    }
}

static void fill_numbers(struct imb_run *run)
{
    imb_numbers_fill((float *)(void *)run->send, run->bytes / IMB_ELEMENT, run->rank, run->round);
}

/* Compare the blocks of all ranks; `to` is this rank, or -1 if all ranks get the same block. */
static size_t verify_blocks(const struct imb_run *run, int to)
{
    size_t wrong = 0;
    for (int from = 0; from < run->size; from++) {
        wrong += imb_pattern_compare(run->receive + (size_t)from * run->bytes, run->bytes, from, to,
                                     run->round);
    }
    return wrong;
}

static size_t verify_allgather(const struct imb_run *run)
{
    return verify_blocks(run, -1);
}

static size_t verify_gather(const struct imb_run *run)
{
    return run->rank == run->root ? verify_blocks(run, -1) : 0;
}

static size_t verify_alltoall(const struct imb_run *run)
{
    return verify_blocks(run, run->rank);
}

static size_t verify_scatter(const struct imb_run *run)
{
    return imb_pattern_compare(run->receive, run->bytes, run->root, run->rank, run->round);
}

static size_t verify_bcast(const struct imb_run *run)
{
    return run->rank == run->root
               ? 0
               : imb_pattern_compare(run->receive, run->bytes, run->root, -1, run->round);
}

static size_t verify_allreduce(const struct imb_run *run)
{
    return imb_numbers_compare((const float *)(const void *)run->receive, 0,
                               run->bytes / IMB_ELEMENT, run->size, run->round);
}

static size_t verify_reduce(const struct imb_run *run)
{
    return run->rank == run->root ? verify_allreduce(run) : 0;
}

/* --- Calls ------------------------------------------------------------------------------------ */

static void barrier(struct imb_run *run)
{
    MPI_Barrier(run->comm);
}

static void bcast(struct imb_run *run)
{
    MPI_Bcast(run->rank == run->root ? run->send : run->receive, (int)run->bytes, MPI_BYTE,
              run->root, run->comm);
}

static void allreduce(struct imb_run *run)
{
    MPI_Allreduce(run->send, run->receive, (int)(run->bytes / IMB_ELEMENT), MPI_FLOAT, MPI_SUM,
                  run->comm);
}

static void reduce(struct imb_run *run)
{
    MPI_Reduce(run->send, run->receive, (int)(run->bytes / IMB_ELEMENT), MPI_FLOAT, MPI_SUM,
               run->root, run->comm);
}

/* Divide the vector of #bytes among the ranks; the first ranks get the remainder. */
static void share_elements(const struct imb_run *run)
{
    int elements = (int)(run->bytes / IMB_ELEMENT);
    int first = 0;
    for (int i = 0; i < run->size; i++) {
        run->counts[i] = elements / run->size + (i < elements % run->size);
        run->displacements[i] = first;
        first += run->counts[i];
    }
}

static void reduce_scatter(struct imb_run *run)
{
    MPI_Reduce_scatter(run->send, run->receive, run->counts, MPI_FLOAT, MPI_SUM, run->comm);
}

static size_t verify_reduce_scatter(const struct imb_run *run)
{
    return imb_numbers_compare((const float *)(const void *)run->receive,
                               (size_t)run->displacements[run->rank],
                               (size_t)run->counts[run->rank], run->size, run->round);
}

/* Divide the vector into blocks of equal length, one per rank, and omit the remainder. */
static void reduce_scatter_block(struct imb_run *run)
{
    MPI_Reduce_scatter_block(run->send, run->receive, run->counts[run->size - 1], MPI_FLOAT,
                             MPI_SUM, run->comm);
}

static size_t verify_reduce_scatter_block(const struct imb_run *run)
{
    size_t count = (size_t)run->counts[run->size - 1];
    return imb_numbers_compare((const float *)(const void *)run->receive, count * (size_t)run->rank,
                               count, run->size, run->round);
}

static void space_shared(struct imb_run *run, size_t *send, size_t *receive)
{
    imb_space_one(run, send, receive);
    share_elements(run);
}

static void allgather(struct imb_run *run)
{
    int count = (int)run->bytes;
    MPI_Allgather(run->send, count, MPI_BYTE, run->receive, count, MPI_BYTE, run->comm);
}

static void allgatherv(struct imb_run *run)
{
    MPI_Allgatherv(run->send, (int)run->bytes, MPI_BYTE, run->receive, run->counts,
                   run->displacements, MPI_BYTE, run->comm);
}

static void gather(struct imb_run *run)
{
    int count = (int)run->bytes;
    MPI_Gather(run->send, count, MPI_BYTE, run->receive, count, MPI_BYTE, run->root, run->comm);
}

static void gatherv(struct imb_run *run)
{
    MPI_Gatherv(run->send, (int)run->bytes, MPI_BYTE, run->receive, run->counts, run->displacements,
                MPI_BYTE, run->root, run->comm);
}

static void scatter(struct imb_run *run)
{
    int count = (int)run->bytes;
    MPI_Scatter(run->send, count, MPI_BYTE, run->receive, count, MPI_BYTE, run->root, run->comm);
}

static void scatterv(struct imb_run *run)
{
    MPI_Scatterv(run->send, run->counts, run->displacements, MPI_BYTE, run->receive,
                 (int)run->bytes, MPI_BYTE, run->root, run->comm);
}

static void alltoall(struct imb_run *run)
{
    int count = (int)run->bytes;
    MPI_Alltoall(run->send, count, MPI_BYTE, run->receive, count, MPI_BYTE, run->comm);
}

static void alltoallv(struct imb_run *run)
{
    MPI_Alltoallv(run->send, run->counts, run->displacements, MPI_BYTE, run->receive, run->counts,
                  run->displacements, MPI_BYTE, run->comm);
}

/* Columns: layout, traits, legs, traffic. MPBench's benchmarks do not synchronize between calls. */
#define SYNC IMB_LAYOUT_COLLECTIVE, IMB_SYNC, 1, 1
#define SYNC_REDUCTION IMB_LAYOUT_COLLECTIVE, IMB_SYNC | IMB_REDUCTION, 1, 1
#define MPBENCH IMB_LAYOUT_COLLECTIVE, 0, 1, 1
#define MPBENCH_REDUCTION IMB_LAYOUT_COLLECTIVE, IMB_REDUCTION, 1, 1

const struct imb_benchmark imb_collectives[] = {
    {"Bcast", SYNC, imb_space_one, bcast, imb_fill_one, verify_bcast, NULL},
    {"Allreduce", SYNC_REDUCTION, imb_space_one, allreduce, fill_numbers, verify_allreduce, NULL},
    {"Reduce", SYNC_REDUCTION, imb_space_one, reduce, fill_numbers, verify_reduce, NULL},
    {"Reduce_scatter", SYNC_REDUCTION, space_shared, reduce_scatter, fill_numbers,
     verify_reduce_scatter, NULL},
    {"Reduce_scatter_block", SYNC_REDUCTION, space_shared, reduce_scatter_block, fill_numbers,
     verify_reduce_scatter_block, NULL},
    {"Allgather", SYNC, space_gathered, allgather, imb_fill_one, verify_allgather, NULL},
    {"Allgatherv", SYNC, space_gathered, allgatherv, imb_fill_one, verify_allgather, NULL},
    {"Gather", SYNC, space_gathered, gather, imb_fill_one, verify_gather, NULL},
    {"Gatherv", SYNC, space_gathered, gatherv, imb_fill_one, verify_gather, NULL},
    {"Scatter", SYNC, space_scattered, scatter, fill_block_for_each, verify_scatter, NULL},
    {"Scatterv", SYNC, space_scattered, scatterv, fill_block_for_each, verify_scatter, NULL},
    {"Alltoall", SYNC, space_all, alltoall, fill_block_for_each, verify_alltoall, NULL},
    {"Alltoallv", SYNC, space_all, alltoallv, fill_block_for_each, verify_alltoall, NULL},
    {"Barrier", IMB_LAYOUT_BARRIER, 0, 1, 0, imb_space_one, barrier, imb_fill_one, verify_bcast,
     NULL},
    {"MpBroadcast", MPBENCH, imb_space_one, bcast, imb_fill_one, verify_bcast, barrier},
    {"MpReduce", MPBENCH_REDUCTION, imb_space_one, reduce, fill_numbers, verify_reduce, barrier},
    {"MpAllreduce", MPBENCH_REDUCTION, imb_space_one, allreduce, fill_numbers, verify_allreduce,
     barrier},
    {"MpAlltoall", MPBENCH, space_all, alltoall, fill_block_for_each, verify_alltoall, barrier},
};
const int imb_collectives_count = sizeof(imb_collectives) / sizeof(imb_collectives[0]);
