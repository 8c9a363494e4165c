/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Groups communicators and intercomm: messages and collectives on communicators made in every way,
 * and that messages of one never reach another.
 */
#include "verify.h"

#include <stdlib.h>

enum { SIZES = 4 };
static const int ring_sizes[SIZES] = {0, 100, 9000, 100000};

/* Sends round the ring of a communicator and sums over it; contents name the comm's own ranks. */
static void use(MPI_Comm comm, uint64_t sequence)
{
    int rank, size, to, from, sum = -1, mine;

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    to = (rank + 1) % size;
    from = (rank + size - 1) % size;
    for (int i = 0; i < SIZES; i++) {
        struct verify_id out = verify_id(rank, to, i, sequence);
        struct verify_buffer send = verify_buffer_filled((size_t)ring_sizes[i], out);
        struct verify_buffer receive = verify_buffer_new((size_t)ring_sizes[i]);
        MPI_Status status;

        MPI_Sendrecv(send.data, ring_sizes[i], MPI_BYTE, to, i, receive.data, ring_sizes[i],
                     MPI_BYTE, from, i, comm, &status);
        verify_status(&status, from, i, (size_t)ring_sizes[i]);
        verify_buffer_check(&receive, receive.len, verify_id(from, rank, i, sequence));
        verify_buffer_sent(&send, out);
        verify_buffer_free(&receive);
    }
    mine = rank + 1;
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm);
    verify_equal(sum, (long long)size * (size + 1) / 2, "sum of the ranks of a communicator");
}

/*
 * The same tag on three communicators, received in another order than sent: each message must come
 * from its own communicator.
 */
static void duplicates_are_apart(void)
{
    enum { COMMS = 4 };
    int to = (verify.rank + 1) % verify.size;
    int from = (verify.rank + verify.size - 1) % verify.size;
    MPI_Comm comms[COMMS] = {verify.comm};
    MPI_Request requests[COMMS];
    struct verify_buffer send[COMMS];
    int relation;

    verify_step("duplicates");
    MPI_Comm_dup(verify.comm, &comms[1]);
    MPI_Comm_idup(verify.comm, &comms[2], &requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Comm_dup(comms[2], &comms[3]);
    MPI_Comm_compare(verify.comm, comms[3], &relation);
    verify_equal(relation, MPI_CONGRUENT, "relation of a communicator and its duplicate");
    for (int i = 0; i < COMMS; i++) {
        send[i] = verify_buffer_filled(5000, verify_id(verify.rank, to, 9, (uint64_t)i));
        MPI_Isend(send[i].data, 5000, MPI_BYTE, to, 9, comms[i], &requests[i]);
    }
    for (int k = 0; k < COMMS; k++) {
        int i = (k * 3 + 2) % COMMS;
        struct verify_buffer receive = verify_buffer_new(5000);
        MPI_Status status;

        MPI_Recv(receive.data, 5000, MPI_BYTE, k % 2 ? MPI_ANY_SOURCE : from,
                 k < 2 ? MPI_ANY_TAG : 9, comms[i], &status);
        verify_status(&status, from, 9, 5000);
        verify_buffer_check(&receive, 5000, verify_id(from, verify.rank, 9, (uint64_t)i));
        verify_buffer_free(&receive);
    }
    MPI_Waitall(COMMS, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < COMMS; i++) {
        verify_buffer_sent(&send[i], verify_id(verify.rank, to, 9, (uint64_t)i));
    }
    for (int i = 1; i < COMMS; i++) {
        use(comms[i], 100 + (uint64_t)i);
        MPI_Comm_free(&comms[i]);
    }
}

static void splits(void)
{
    MPI_Comm comm;
    int rank, size;

    verify_step("split by parity, reversed");
    MPI_Comm_split(verify.comm, verify.rank % 2, -verify.rank, &comm);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    verify_equal(size, (verify.size + 1 - verify.rank % 2) / 2, "size after a split by parity");
    verify_equal(rank, size - 1 - verify.rank / 2, "rank after a split with reversed keys");
    use(comm, 0);
    MPI_Comm_free(&comm);

    verify_step("split that leaves rank 0 out");
    MPI_Comm_split(verify.comm, verify.rank == 0 ? MPI_UNDEFINED : 3, 0, &comm);
    verify_equal(comm == MPI_COMM_NULL, verify.rank == 0, "no communicator for rank 0 only");
    if (comm != MPI_COMM_NULL) {
        use(comm, 1);
        MPI_Comm_free(&comm);
    }

    verify_step("split by shared memory");
    MPI_Comm_split_type(verify.comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &comm);
    use(comm, 2);
    MPI_Comm_free(&comm);
}

/* Groups of ranks: the upper half, every other one, and one made by its members alone. */
static void creations(void)
{
    MPI_Group all, some;
    MPI_Comm comm;
    int half[1][3] = {{verify.size / 2, verify.size - 1, 1}};
    int other[1][3] = {{0, verify.size - 1, 2}};
    int in, translated, zero = 0;

    MPI_Comm_group(verify.comm, &all);
    verify_step("create from the upper half");
    MPI_Group_range_incl(all, 1, half, &some);
    MPI_Group_translate_ranks(some, 1, &zero, all, &translated);
    verify_equal(translated, verify.size / 2, "rank 0 of the upper half");
    MPI_Comm_create(verify.comm, some, &comm);
    verify_equal(comm != MPI_COMM_NULL, verify.rank >= verify.size / 2, "member of the half");
    if (comm != MPI_COMM_NULL) {
        use(comm, 3);
        MPI_Comm_free(&comm);
    }
    MPI_Group_free(&some);

    verify_step("create_group by its members");
    MPI_Group_range_incl(all, 1, other, &some);
    MPI_Group_rank(some, &in);
    verify_equal(in != MPI_UNDEFINED, verify.rank % 2 == 0, "member of every other rank");
    if (in != MPI_UNDEFINED) {
        MPI_Comm_create_group(verify.comm, some, 77, &comm);
        use(comm, 4);
        MPI_Comm_free(&comm);
    }
    MPI_Group_free(&some);
    MPI_Group_free(&all);
}

static void grids(void)
{
    int dims[2] = {0, 0}, periods[2] = {1, 0}, place[2], keep[2] = {0, 1}, rank, row_size;
    MPI_Comm grid, row;

    verify_step("grid and its rows");
    MPI_Dims_create(verify.size, 2, dims);
    MPI_Cart_create(verify.comm, 2, dims, periods, 1, &grid);
    MPI_Comm_rank(grid, &rank);
    MPI_Cart_coords(grid, rank, 2, place);
    verify_equal(place[0] * dims[1] + place[1], rank, "rank at a place of the grid");
    use(grid, 5);
    MPI_Cart_sub(grid, keep, &row);
    MPI_Comm_size(row, &row_size);
    verify_equal(row_size, dims[1], "length of a row of the grid");
    use(row, 6);
    MPI_Comm_free(&row);
    MPI_Comm_free(&grid);
}

/* Made and freed again and again: contexts are reused, nothing of an earlier one may turn up. */
static void again_and_again(int rounds)
{
    verify_step("%d times made and freed", rounds);
    for (int i = 0; i < rounds; i++) {
        MPI_Comm comm;

        MPI_Comm_split(verify.comm, verify.rank % (1 + i % 3), i % 2 ? verify.rank : -verify.rank,
                       &comm);
        use(comm, 1000 + (uint64_t)i);
        MPI_Comm_free(&comm);
    }
}

void group_communicators(void)
{
    duplicates_are_apart();
    splits();
    creations();
    grids();
    again_and_again(verify_repeat(30));
}

/* Two halves of the ranks and what connects them. */
struct halves {
    MPI_Comm local, inter;
    bool upper;
    int rank, size, remote_size;
};

static struct halves halves_new(int cut)
{
    struct halves halves;

    halves.upper = verify.rank >= cut;
    MPI_Comm_split(verify.comm, halves.upper, verify.rank, &halves.local);
    MPI_Intercomm_create(halves.local, 0, verify.comm, halves.upper ? 0 : cut, 5, &halves.inter);
    MPI_Comm_rank(halves.inter, &halves.rank);
    MPI_Comm_size(halves.inter, &halves.size);
    MPI_Comm_remote_size(halves.inter, &halves.remote_size);
    verify_equal(halves.remote_size, halves.upper ? cut : verify.size - cut,
                 "ranks on the other side");
    return halves;
}

/* Contents name a rank of the upper half as 1000 more than its number there. */
static int name(bool upper, int rank)
{
    return upper ? rank + 1000 : rank;
}

static void inter_messages(const struct halves *halves, int size, uint64_t sequence)
{
    int me = name(halves->upper, halves->rank);

    /* In step k rank r talks to rank (k - r): a pairing, if the other half has that rank. */
    for (int k = 0; k < halves->size + halves->remote_size; k++) {
        int peer = k - halves->rank;
        int other = name(!halves->upper, peer);
        struct verify_buffer send, receive;
        MPI_Status status;

        if (peer < 0 || peer >= halves->remote_size) {
            continue;
        }
        send = verify_buffer_filled((size_t)size, verify_id(me, other, 3, sequence));
        receive = verify_buffer_new((size_t)size);
        MPI_Sendrecv(send.data, size, MPI_BYTE, peer, 3, receive.data, size, MPI_BYTE, peer, 3,
                     halves->inter, &status);
        verify_status(&status, peer, 3, (size_t)size);
        verify_buffer_check(&receive, (size_t)size, verify_id(other, me, 3, sequence));
        verify_buffer_sent(&send, verify_id(me, other, 3, sequence));
        verify_buffer_free(&receive);
    }
}

/* Rank 0 of one half is the root, the other half receives. */
static void inter_bcast(const struct halves *halves, bool from_upper, int size)
{
    struct verify_id id = verify_id(name(from_upper, 0), 0, 4, (uint64_t)size);
    bool sending = halves->upper == from_upper;
    struct verify_buffer buffer = sending && halves->rank == 0
                                      ? verify_buffer_filled((size_t)size, id)
                                      : verify_buffer_new((size_t)size);
    int root = sending ? (halves->rank == 0 ? MPI_ROOT : MPI_PROC_NULL) : 0;

    MPI_Bcast(buffer.data, size, MPI_BYTE, root, halves->inter);
    if (!sending) {
        verify_buffer_check(&buffer, (size_t)size, id);
    }
    verify_buffer_free(&buffer);
}

static void inter_allgather(const struct halves *halves, int size)
{
    struct verify_id id = verify_id(name(halves->upper, halves->rank), 0, 5, (uint64_t)size);
    struct verify_buffer send = verify_buffer_filled((size_t)size, id);
    struct verify_buffer all = verify_buffer_new((size_t)size * (size_t)halves->remote_size);

    MPI_Allgather(send.data, size, MPI_BYTE, all.data, size, MPI_BYTE, halves->inter);
    for (int i = 0; i < halves->remote_size; i++) {
        verify_buffer_check_part(&all, (size_t)i * (size_t)size, (size_t)size,
                                 verify_id(name(!halves->upper, i), 0, 5, (uint64_t)size));
    }
    verify_buffer_free(&all);
    verify_buffer_sent(&send, id);
}

static void inter_alltoall(const struct halves *halves, int size)
{
    int me = name(halves->upper, halves->rank);
    struct verify_buffer send = verify_buffer_new((size_t)size * (size_t)halves->remote_size);
    struct verify_buffer all = verify_buffer_new((size_t)size * (size_t)halves->remote_size);

    for (int i = 0; i < halves->remote_size; i++) {
        verify_fill(send.data + i * size, (size_t)size,
                    verify_id(me, name(!halves->upper, i), 6, (uint64_t)size), 0);
    }
    MPI_Alltoall(send.data, size, MPI_BYTE, all.data, size, MPI_BYTE, halves->inter);
    for (int i = 0; i < halves->remote_size; i++) {
        verify_buffer_check_part(&all, (size_t)i * (size_t)size, (size_t)size,
                                 verify_id(name(!halves->upper, i), me, 6, (uint64_t)size));
    }
    verify_buffer_free(&all);
    verify_buffer_free(&send);
}

/* Each half gets the sum over the other. */
static void inter_allreduce(const struct halves *halves)
{
    long mine = name(halves->upper, halves->rank), sum = -1, expected = 0;

    MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, halves->inter);
    for (int i = 0; i < halves->remote_size; i++) {
        expected += name(!halves->upper, i);
    }
    verify_equal(sum, expected, "sum over the other half");
}

static void inter_merge(const struct halves *halves)
{
    MPI_Comm merged, duplicate;
    int rank;

    MPI_Intercomm_merge(halves->inter, !halves->upper, &merged);
    MPI_Comm_rank(merged, &rank);
    verify_equal(rank, halves->upper ? halves->rank : halves->remote_size + halves->rank,
                 "rank after a merge with the upper half first");
    use(merged, 50);
    MPI_Comm_free(&merged);
    MPI_Comm_dup(halves->inter, &duplicate);
    MPI_Barrier(duplicate);
    MPI_Comm_free(&duplicate);
}

void group_intercommunicators(void)
{
    static const int sizes[] = {0, 1, 1500, 20000, 200000};

    for (int cut = 1; cut < verify.size; cut += 1 + cut / 2) {
        struct halves halves;

        verify_step("intercommunicator, cut at rank %d", cut);
        halves = halves_new(cut);
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            inter_messages(&halves, sizes[i], i);
            inter_bcast(&halves, false, sizes[i]);
            inter_bcast(&halves, true, sizes[i]);
            inter_allgather(&halves, sizes[i]);
            inter_alltoall(&halves, sizes[i]);
        }
        inter_allreduce(&halves);
        inter_merge(&halves);
        MPI_Comm_free(&halves.inter);
        MPI_Comm_free(&halves.local);
    }
}
