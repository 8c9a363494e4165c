/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Group neighbours: neighbourhood collectives on a line, a ring and a directed graph.
 */
#include "group_collectives.h"

#include <stdlib.h>

#define NEIGHBOURS_MAX 8

/* A communicator with a topology, and this rank's neighbours in the topology's order. */
struct topology {
    MPI_Comm comm;
    int sources[NEIGHBOURS_MAX], source_count;
    int dests[NEIGHBOURS_MAX], dest_count;
};

/* Length of the block from one rank to another, for the v and w forms. */
static int length(int source, int dest)
{
    return (int)verify_random_size(verify_step_number(), (uint64_t)source * 4096 + (uint64_t)dest,
                                   20000);
}

static bool nobody(int rank)
{
    return rank == MPI_PROC_NULL;
}

static void allgather(const struct topology *topology, bool async, int size)
{
    struct verify_id id = verify_id(verify.rank, 0, 0, 0);
    struct verify_buffer send = verify_buffer_filled((size_t)size, id);
    struct verify_buffer all = verify_buffer_new((size_t)(size * topology->source_count));

    COLLECTIVE(async, MPI_Neighbor_allgather, MPI_Ineighbor_allgather, send.data, size, MPI_BYTE,
               all.data, size, MPI_BYTE, topology->comm);
    for (int i = 0; i < topology->source_count; i++) {
        if (nobody(topology->sources[i])) {
            verify_buffer_check_untouched(&all, (size_t)(i * size), (size_t)size);
        } else {
            verify_buffer_check_part(&all, (size_t)(i * size), (size_t)size,
                                     verify_id(topology->sources[i], 0, 0, 0));
        }
    }
    verify_buffer_free(&all);
    verify_buffer_sent(&send, id);
}

static void alltoall(const struct topology *topology, bool async, int size)
{
    struct verify_buffer send = verify_buffer_new((size_t)(size * topology->dest_count));
    struct verify_buffer all = verify_buffer_new((size_t)(size * topology->source_count));

    for (int i = 0; i < topology->dest_count; i++) {
        verify_fill(send.data + i * size, (size_t)size,
                    verify_id(verify.rank, topology->dests[i], 1, 0), 0);
    }
    COLLECTIVE(async, MPI_Neighbor_alltoall, MPI_Ineighbor_alltoall, send.data, size, MPI_BYTE,
               all.data, size, MPI_BYTE, topology->comm);
    for (int i = 0; i < topology->source_count; i++) {
        if (nobody(topology->sources[i])) {
            verify_buffer_check_untouched(&all, (size_t)(i * size), (size_t)size);
        } else {
            verify_buffer_check_part(&all, (size_t)(i * size), (size_t)size,
                                     verify_id(topology->sources[i], verify.rank, 1, 0));
        }
    }
    verify_buffer_free(&all);
    verify_buffer_free(&send);
}

/* Lengths and places of blocks for one side, with gaps. Returns the room they need. */
static size_t lay_out(const int *peers, int count, bool receiving, bool to_all, int *counts,
                      int *places, MPI_Aint *wide_places, MPI_Datatype *types)
{
    size_t total = 2;

    for (int i = 0; i < count; i++) {
        int source = receiving ? peers[i] : verify.rank;
        int dest = to_all ? 0 : (receiving ? verify.rank : peers[i]);

        counts[i] = nobody(peers[i]) ? 0 : length(source, dest);
        places[i] = (int)total;
        wide_places[i] = (MPI_Aint)total;
        types[i] = MPI_BYTE;
        total += (size_t)counts[i] + 3;
    }
    return total;
}

enum form { ALLGATHERV, ALLTOALLV, ALLTOALLW, FORMS };

static void unequal(const struct topology *topology, bool async, enum form form)
{
    bool to_all = form == ALLGATHERV;
    int tag = 2 + (int)form;
    int out_counts[NEIGHBOURS_MAX], out_places[NEIGHBOURS_MAX];
    int in_counts[NEIGHBOURS_MAX], in_places[NEIGHBOURS_MAX];
    MPI_Aint out_wide[NEIGHBOURS_MAX], in_wide[NEIGHBOURS_MAX];
    MPI_Datatype out_types[NEIGHBOURS_MAX], in_types[NEIGHBOURS_MAX];
    size_t out_total = lay_out(topology->dests, topology->dest_count, false, to_all, out_counts,
                               out_places, out_wide, out_types);
    size_t in_total = lay_out(topology->sources, topology->source_count, true, to_all, in_counts,
                              in_places, in_wide, in_types);
    int own = length(verify.rank, 0);
    struct verify_buffer send = verify_buffer_new(to_all ? (size_t)own : out_total);
    struct verify_buffer all = verify_buffer_new(in_total);

    if (to_all) {
        verify_fill(send.data, (size_t)own, verify_id(verify.rank, 0, tag, 0), 0);
    } else {
        for (int i = 0; i < topology->dest_count; i++) {
            verify_fill(send.data + out_places[i], (size_t)out_counts[i],
                        verify_id(verify.rank, topology->dests[i], tag, 0), 0);
        }
    }
    if (form == ALLGATHERV) {
        COLLECTIVE(async, MPI_Neighbor_allgatherv, MPI_Ineighbor_allgatherv, send.data, own,
                   MPI_BYTE, all.data, in_counts, in_places, MPI_BYTE, topology->comm);
    } else if (form == ALLTOALLV) {
        COLLECTIVE(async, MPI_Neighbor_alltoallv, MPI_Ineighbor_alltoallv, send.data, out_counts,
                   out_places, MPI_BYTE, all.data, in_counts, in_places, MPI_BYTE, topology->comm);
    } else {
        COLLECTIVE(async, MPI_Neighbor_alltoallw, MPI_Ineighbor_alltoallw, send.data, out_counts,
                   out_wide, out_types, all.data, in_counts, in_wide, in_types, topology->comm);
    }
    for (int i = 0; i < topology->source_count; i++) {
        int dest = to_all ? 0 : verify.rank;

        verify_buffer_check_part(&all, (size_t)in_places[i], (size_t)in_counts[i],
                                 verify_id(topology->sources[i], dest, tag, 0));
        verify_buffer_check_untouched(&all, (size_t)(in_places[i] + in_counts[i]), 3);
    }
    verify_buffer_free(&all);
    verify_buffer_free(&send);
}

/* A line of ranks, closed to a ring or not; without reordering the ranks stay the same. */
static void line(struct topology *topology, bool ring)
{
    int dims[1] = {verify.size}, periods[1] = {ring};

    MPI_Cart_create(verify.comm, 1, dims, periods, 0, &topology->comm);
    topology->source_count = 2;
    topology->dest_count = 2;
    MPI_Cart_shift(topology->comm, 0, 1, &topology->sources[0], &topology->sources[1]);
    topology->dests[0] = topology->sources[0];
    topology->dests[1] = topology->sources[1];
}

/* A directed graph: every rank sends to the ranks 1, 2 and 5 further on, itself if that wraps. */
static void graph(struct topology *topology)
{
    static const int steps[] = {1, 2, 5}, weights[] = {1, 1, 1};
    int n = 0;

    for (int i = 0; i < 3; i++) {
        int dest = (verify.rank + steps[i]) % verify.size;
        bool again = false;

        for (int k = 0; k < n; k++) {
            again = again || topology->dests[k] == dest;
        }
        if (!again) {
            topology->dests[n] = dest;
            topology->sources[n] = (verify.rank + verify.size * 5 - steps[i]) % verify.size;
            n++;
        }
    }
    topology->source_count = topology->dest_count = n;
    MPI_Dist_graph_create_adjacent(verify.comm, n, topology->sources, weights, n, topology->dests,
                                   weights, MPI_INFO_NULL, 0, &topology->comm);
}

static void try_topology(const struct topology *topology, bool async)
{
    static const int sizes[] = {0, 1, 1000, 1500, 9000, 70000};

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        verify_step("neighbours' blocks of %d bytes%s", sizes[i], async ? ", non-blocking" : "");
        allgather(topology, async, sizes[i]);
        alltoall(topology, async, sizes[i]);
    }
    for (int i = 0; i < verify_repeat(5); i++) {
        verify_step("neighbours' unequal blocks%s", async ? ", non-blocking" : "");
        for (int form = 0; form < FORMS; form++) {
            unequal(topology, async, (enum form)form);
        }
    }
}

void collectives_neighbouring(bool async)
{
    struct topology topology;

    line(&topology, false);
    try_topology(&topology, async);
    MPI_Comm_free(&topology.comm);
    /* In a ring of two both neighbours are one rank, and MPI-3 leaves the blocks' order open. */
    if (verify.size > 2) {
        line(&topology, true);
        try_topology(&topology, async);
        MPI_Comm_free(&topology.comm);
    }
    graph(&topology);
    try_topology(&topology, async);
    MPI_Comm_free(&topology.comm);
}

void group_neighbours(void)
{
    collectives_neighbouring(false);
}
