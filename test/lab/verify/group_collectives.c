/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Group collectives: the traffic patterns one to all, all to one and all to all, barriers, and many
 * non-blocking collectives at once among plain messages.
 */
#include "verify.h"

#include <stdlib.h>

/* A block that is the same forevery receiver has this as its destination. */
#define EVERYBODY 0

static void bcast(int root, int size)
{
    struct verify_id id = verify_id(root, EVERYBODY, 0, (uint64_t)size);
    struct verify_buffer buffer = verify.rank == root ? verify_buffer_filled((size_t)size, id)
                                                      : verify_buffer_new((size_t)size);

    MPI_Bcast(buffer.data, size, MPI_BYTE, root, verify.comm);
    verify_buffer_check(&buffer, (size_t)size, id);
    verify_buffer_free(&buffer);
}

static void gather(int root, int size)
{
    struct verify_id id = verify_id(verify.rank, root, 0, (uint64_t)size);
    struct verify_buffer send = verify_buffer_filled((size_t)size, id);
    struct verify_buffer all = verify_buffer_new((size_t)size * (size_t)verify.size);

    MPI_Gather(send.data, size, MPI_BYTE, all.data, size, MPI_BYTE, root, verify.comm);
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

static void alltoall(int size)
{
    struct verify_buffer send = verify_buffer_new((size_t)size * (size_t)verify.size);
    struct verify_buffer all = verify_buffer_new((size_t)size * (size_t)verify.size);

    for (int dest = 0; dest < verify.size; dest++) {
        verify_fill(send.data + (size_t)dest * (size_t)size, (size_t)size,
                    verify_id(verify.rank, dest, 0, (uint64_t)size), 0);
    }
    MPI_Alltoall(send.data, size, MPI_BYTE, all.data, size, MPI_BYTE, verify.comm);
    for (int source = 0; source < verify.size; source++) {
        verify_buffer_check_part(&all, (size_t)source * (size_t)size, (size_t)size,
                                 verify_id(source, verify.rank, 0, (uint64_t)size));
    }
    verify_buffer_free(&all);
    verify_buffer_free(&send);
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

void group_collectives(void)
{
    size_t count;
    const size_t *sizes = verify_few_sizes(verify.quick ? 70000 : (size_t)4 << 20, &count);

    for (size_t i = 0; i < count; i++) {
        int size = (int)sizes[i];
        int block = size / (sizes[i] > 5000 ? verify.size : 1); /* large sizes are totals */

        verify_step("blocks of %d bytes", size);
        for (int root = 0; root < verify.size; root++) {
            if (sizes[i] <= 5000 || root == (int)i % verify.size) {
                bcast(root, size);
                gather(root, block);
            }
        }
        alltoall(block);
    }
    verify_step("Barrier, many");
    for (int i = 0; i < verify_repeat(200); i++) {
        MPI_Barrier(verify.comm);
    }
    many_at_once(verify_repeat(20));
}
