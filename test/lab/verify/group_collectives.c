/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Groups collectives and nonblocking: barrier, bcast, gather, scatter, allgather, alltoall with
 * equal blocks, in place too; then all collectives non-blocking, and several of them at once.
 */
#include "group_collectives.h"

#include <stdlib.h>

/* A block that is the same for every receiver has this as its destination. */
#define EVERYBODY 0

void collective_complete(MPI_Request *request)
{
    static unsigned turn;
    int done = 0;

    if (turn++ % 2 == 0) {
        MPI_Wait(request, MPI_STATUS_IGNORE);
        return;
    }
    while (!done) {
        MPI_Test(request, &done, MPI_STATUS_IGNORE);
    }
}

static void bcast(bool async, int root, int size)
{
    struct verify_id id = verify_id(root, EVERYBODY, 0, (uint64_t)size);
    struct verify_buffer buffer = verify.rank == root ? verify_buffer_filled((size_t)size, id)
                                                      : verify_buffer_new((size_t)size);

    COLLECTIVE(async, MPI_Bcast, MPI_Ibcast, buffer.data, size, MPI_BYTE, root, verify.comm);
    verify_buffer_check(&buffer, (size_t)size, id);
    verify_buffer_free(&buffer);
}

static void gather(bool async, int root, int size, bool in_place)
{
    struct verify_id id = verify_id(verify.rank, root, 0, (uint64_t)size);
    struct verify_buffer send = verify_buffer_filled((size_t)size, id);
    struct verify_buffer all = verify_buffer_new((size_t)size * (size_t)verify.size);
    const void *from = send.data;

    if (in_place && verify.rank == root) {
        verify_fill(all.data + (size_t)root * (size_t)size, (size_t)size, id, 0);
        from = MPI_IN_PLACE;
    }
    COLLECTIVE(async, MPI_Gather, MPI_Igather, from, size, MPI_BYTE, all.data, size, MPI_BYTE, root,
               verify.comm);
    if (verify.rank == root) {
        for (int source = 0; source < verify.size; source++) {
            verify_buffer_check_part(&all, (size_t)source * (size_t)size, (size_t)size,
                                     verify_id(source, root, 0, (uint64_t)size));
        }
    } else {
        verify_buffer_check_untouched(&all, 0, all.len);
    }
    verify_buffer_free(&all);
    verify_buffer_sent(&send, id);
}

static void scatter(bool async, int root, int size, bool in_place)
{
    struct verify_buffer all = verify_buffer_new((size_t)size * (size_t)verify.size);
    struct verify_buffer mine = verify_buffer_new((size_t)size);
    bool placed = in_place && verify.rank == root;

    for (int dest = 0; dest < verify.size && verify.rank == root; dest++) {
        verify_fill(all.data + (size_t)dest * (size_t)size, (size_t)size,
                    verify_id(root, dest, 0, (uint64_t)size), 0);
    }
    COLLECTIVE(async, MPI_Scatter, MPI_Iscatter, all.data, size, MPI_BYTE,
               placed ? MPI_IN_PLACE : mine.data, size, MPI_BYTE, root, verify.comm);
    if (placed) {
        verify_buffer_check_untouched(&mine, 0, mine.len);
    } else {
        verify_buffer_check(&mine, (size_t)size, verify_id(root, verify.rank, 0, (uint64_t)size));
    }
    verify_buffer_free(&all);
    verify_buffer_free(&mine);
}

static void allgather(bool async, int size, bool in_place)
{
    struct verify_id id = verify_id(verify.rank, EVERYBODY, 0, (uint64_t)size);
    struct verify_buffer send = verify_buffer_filled((size_t)size, id);
    struct verify_buffer all = verify_buffer_new((size_t)size * (size_t)verify.size);

    if (in_place) {
        verify_fill(all.data + (size_t)verify.rank * (size_t)size, (size_t)size, id, 0);
    }
    COLLECTIVE(async, MPI_Allgather, MPI_Iallgather, in_place ? MPI_IN_PLACE : send.data, size,
               MPI_BYTE, all.data, size, MPI_BYTE, verify.comm);
    for (int source = 0; source < verify.size; source++) {
        verify_buffer_check_part(&all, (size_t)source * (size_t)size, (size_t)size,
                                 verify_id(source, EVERYBODY, 0, (uint64_t)size));
    }
    verify_buffer_free(&all);
    verify_buffer_sent(&send, id);
}

static void alltoall(bool async, int size, bool in_place)
{
    struct verify_buffer send = verify_buffer_new((size_t)size * (size_t)verify.size);
    struct verify_buffer all = verify_buffer_new((size_t)size * (size_t)verify.size);

    for (int dest = 0; dest < verify.size; dest++) {
        verify_fill((in_place ? all.data : send.data) + (size_t)dest * (size_t)size, (size_t)size,
                    verify_id(verify.rank, dest, 0, (uint64_t)size), 0);
    }
    COLLECTIVE(async, MPI_Alltoall, MPI_Ialltoall, in_place ? MPI_IN_PLACE : send.data, size,
               MPI_BYTE, all.data, size, MPI_BYTE, verify.comm);
    for (int source = 0; source < verify.size; source++) {
        verify_buffer_check_part(&all, (size_t)source * (size_t)size, (size_t)size,
                                 verify_id(source, verify.rank, 0, (uint64_t)size));
    }
    verify_buffer_free(&all);
    verify_buffer_free(&send);
}

/* Nobody may leave a barrier that one rank, whose turn it is to be late, has not entered. */
static void barrier_holds(int late)
{
    MPI_Request request;
    int done = 0;

    verify_step("Ibarrier, rank %d late", late);
    if (verify.rank == late) {
        for (int i = 1; i < verify.size; i++) {
            MPI_Recv(NULL, 0, MPI_BYTE, MPI_ANY_SOURCE, VERIFY_TAG, verify.comm, MPI_STATUS_IGNORE);
        }
        MPI_Ibarrier(verify.comm, &request);
    } else {
        MPI_Ibarrier(verify.comm, &request);
        for (int i = 0; i < 20 && !done; i++) {
            MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        }
        verify_equal(done, 0, "barrier complete before all have entered it");
        MPI_Send(NULL, 0, MPI_BYTE, late, VERIFY_TAG, verify.comm);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

void collectives_equal(bool async)
{
    size_t count;
    const size_t *sizes = verify_few_sizes(verify.quick ? 70000 : (size_t)4 << 20, &count);

    for (size_t i = 0; i < count; i++) {
        int size = (int)sizes[i];
        bool all_roots = sizes[i] <= 5000;

        verify_step("equal blocks of %d bytes%s", size, async ? ", non-blocking" : "");
        for (int root = 0; root < verify.size; root++) {
            if (all_roots || root == (int)i % verify.size) {
                bcast(async, root, size);
                gather(async, root, size / (all_roots ? 1 : verify.size), false);
                gather(async, root, size / (all_roots ? 1 : verify.size), true);
                scatter(async, root, size / (all_roots ? 1 : verify.size), false);
                scatter(async, root, size / (all_roots ? 1 : verify.size), true);
            }
        }
        /* Larger ones are totals, or n ranks would move n times n blocks of them. */
        size /= sizes[i] > 5000 ? verify.size : 1;
        allgather(async, size, false);
        allgather(async, size, true);
        alltoall(async, size, false);
        alltoall(async, size, true);
    }
}

void group_collectives(void)
{
    collectives_equal(false);
    for (int late = 0; late < verify.size; late++) {
        barrier_holds(late);
    }
    verify_step("Barrier, many");
    for (int i = 0; i < verify_repeat(200); i++) {
        MPI_Barrier(verify.comm);
    }
}

/* Many collectives and plain messages in flight on one communicator, completed in one go. */
static void many_at_once(int rounds)
{
    enum { SIZE = 3000 };
    size_t ranks = (size_t)verify.size;
    int to = (verify.rank + 1) % verify.size;
    int from = (verify.rank + verify.size - 1) % verify.size;
    struct verify_buffer *bcasts = malloc(sizeof *bcasts * (size_t)rounds);
    struct verify_buffer *alls = malloc(sizeof *alls * (size_t)rounds);
    struct verify_buffer *blocks = malloc(sizeof *blocks * (size_t)rounds);
    struct verify_buffer *sends = malloc(sizeof *sends * (size_t)rounds);
    struct verify_buffer *receives = malloc(sizeof *receives * (size_t)rounds);
    MPI_Request *requests = malloc(sizeof *requests * 5 * (size_t)rounds);

    verify_step("%d collectives at once", 3 * rounds);
    for (int i = 0; i < rounds; i++) {
        int root = i % verify.size;
        struct verify_id mine = verify_id(verify.rank, EVERYBODY, 2, (uint64_t)i);

        bcasts[i] = verify.rank == root
                        ? verify_buffer_filled(SIZE, verify_id(root, EVERYBODY, 1, (uint64_t)i))
                        : verify_buffer_new(SIZE);
        alls[i] = verify_buffer_new(SIZE * ranks);
        blocks[i] = verify_buffer_filled(SIZE, mine);
        sends[i] = verify_buffer_filled(SIZE, verify_id(verify.rank, to, 3, (uint64_t)i));
        receives[i] = verify_buffer_new(SIZE);
        MPI_Ibcast(bcasts[i].data, SIZE, MPI_BYTE, root, verify.comm, &requests[5 * i]);
        MPI_Isend(sends[i].data, SIZE, MPI_BYTE, to, 3, verify.comm, &requests[5 * i + 1]);
        MPI_Iallgather(blocks[i].data, SIZE, MPI_BYTE, alls[i].data, SIZE, MPI_BYTE, verify.comm,
                       &requests[5 * i + 2]);
        MPI_Irecv(receives[i].data, SIZE, MPI_BYTE, from, 3, verify.comm, &requests[5 * i + 3]);
        MPI_Ibarrier(verify.comm, &requests[5 * i + 4]);
    }
    MPI_Waitall(5 * rounds, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < rounds; i++) {
        verify_buffer_check(&bcasts[i], SIZE,
                            verify_id(i % verify.size, EVERYBODY, 1, (uint64_t)i));
        for (int source = 0; source < verify.size; source++) {
            verify_buffer_check_part(&alls[i], SIZE * (size_t)source, SIZE,
                                     verify_id(source, EVERYBODY, 2, (uint64_t)i));
        }
        verify_buffer_check(&receives[i], SIZE, verify_id(from, verify.rank, 3, (uint64_t)i));
        verify_buffer_free(&bcasts[i]);
        verify_buffer_free(&alls[i]);
        verify_buffer_free(&receives[i]);
        verify_buffer_sent(&blocks[i], verify_id(verify.rank, EVERYBODY, 2, (uint64_t)i));
        verify_buffer_sent(&sends[i], verify_id(verify.rank, to, 3, (uint64_t)i));
    }
    free(bcasts);
    free(alls);
    free(blocks);
    free(sends);
    free(receives);
    free(requests);
}

void group_nonblocking(void)
{
    collectives_equal(true);
    collectives_unequal(true);
    collectives_reducing(true);
    collectives_neighbouring(true);
    many_at_once(verify_repeat(20));
}
