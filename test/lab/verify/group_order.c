/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Groups order and unexpected: messages of a sender match in the order of sending, whatever their
 * sizes; messages stay in their communicator; thousands of messages wait for their receives.
 */
#include "verify.h"

#include <stdlib.h>

enum { TAGS = 4 };

static int tag_of(int source, int number)
{
    return (int)(verify_random(7000 + (uint64_t)source, (uint64_t)number) % TAGS);
}

static size_t size_of(uint64_t stream, int source, int number, size_t limit)
{
    return verify_random_size(stream * 64 + (uint64_t)source, (uint64_t)number, limit);
}

/* The sends of a test; message i to a rank has its own tag and size. */
struct sends {
    struct verify_buffer *buffers;
    MPI_Request *requests;
    int count; /* in all */
};

static struct sends send_all(int per_rank, uint64_t stream, size_t limit)
{
    struct sends sends;

    sends.count = per_rank * verify.size;
    sends.buffers = malloc(sizeof *sends.buffers * (size_t)sends.count);
    sends.requests = malloc(sizeof *sends.requests * (size_t)sends.count);
    for (int i = 0; i < sends.count; i++) {
        int to = i % verify.size, number = i / verify.size, tag = tag_of(verify.rank, number);
        size_t size = size_of(stream, verify.rank, number, limit);

        sends.buffers[i] =
            verify_buffer_filled(size, verify_id(verify.rank, to, tag, (uint64_t)number));
        MPI_Isend(sends.buffers[i].data, (int)size, MPI_BYTE, to, tag, verify.comm,
                  &sends.requests[i]);
    }
    return sends;
}

static void sends_finish(struct sends *sends)
{
    MPI_Waitall(sends->count, sends->requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < sends->count; i++) {
        int number = i / verify.size;

        verify_buffer_sent(
            &sends->buffers[i],
            verify_id(verify.rank, i % verify.size, tag_of(verify.rank, number), (uint64_t)number));
    }
    free(sends->buffers);
    free(sends->requests);
    MPI_Barrier(MPI_COMM_WORLD); /* a wildcard must not catch a message of the next step */
}

/* Check tag, size and bytes of message `number` of the status's source. */
static void check_number(struct verify_buffer *buffer, const MPI_Status *status, int number,
                         uint64_t stream, size_t limit)
{
    int source = status->MPI_SOURCE, tag = tag_of(source, number);
    size_t size = size_of(stream, source, number, limit);

    verify_status(status, -1, tag, size);
    verify_buffer_check(buffer, size, verify_id(source, verify.rank, tag, (uint64_t)number));
}

/* Receive with wildcards only: the numbers of each source must ascend. */
static void order_of_one_sender(int per_rank, size_t limit)
{
    int *next = calloc((size_t)verify.size, sizeof *next);
    struct sends sends;
    uint64_t stream;

    verify_step("ANY_SOURCE ANY_TAG, up to %zu bytes", limit);
    stream = verify_step_number();
    sends = send_all(per_rank, stream, limit);
    for (int i = 0; i < sends.count; i++) {
        struct verify_buffer buffer = verify_buffer_new(limit);
        MPI_Status status;

        MPI_Recv(buffer.data, (int)limit, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, verify.comm,
                 &status);
        check_number(&buffer, &status, next[status.MPI_SOURCE]++, stream, limit);
        verify_buffer_free(&buffer);
    }
    for (int source = 0; source < verify.size; source++) {
        verify_equal(next[source], per_rank, "messages received from each source");
    }
    sends_finish(&sends);
    free(next);
}

/* Receive from several communicators, with one tag, in another order than sent. */
static void communicators_are_apart(void)
{
    enum { COMMS = 4, BYTES = 5000 };
    int to = (verify.rank + 1) % verify.size;
    int from = (verify.rank + verify.size - 1) % verify.size;
    MPI_Comm comms[COMMS];
    MPI_Request requests[COMMS];
    struct verify_buffer send[COMMS];

    verify_step("several communicators");
    for (int i = 0; i < COMMS; i++) {
        MPI_Comm_dup(verify.comm, &comms[i]);
    }
    for (int i = 0; i < COMMS; i++) {
        send[i] = verify_buffer_filled(BYTES, verify_id(verify.rank, to, 9, (uint64_t)i));
        MPI_Isend(send[i].data, BYTES, MPI_BYTE, to, 9, comms[i], &requests[i]);
    }
    for (int i = COMMS - 1; i >= 0; i--) {
        struct verify_buffer receive = verify_buffer_new(BYTES);
        MPI_Status status;

        MPI_Recv(receive.data, BYTES, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, comms[i], &status);
        verify_status(&status, from, 9, BYTES);
        verify_buffer_check(&receive, BYTES, verify_id(from, verify.rank, 9, (uint64_t)i));
        verify_buffer_free(&receive);
    }
    MPI_Waitall(COMMS, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < COMMS; i++) {
        verify_buffer_sent(&send[i], verify_id(verify.rank, to, 9, (uint64_t)i));
        MPI_Comm_free(&comms[i]);
    }
}

void group_order(void)
{
    order_of_one_sender(verify_repeat(100), 2000);
    order_of_one_sender(verify_repeat(20), 300000);
    communicators_are_apart();
}

/*
 * Send `count` messages to the next rank before any rank posts a receive; by Isend, because MPI
 * does not guarantee that `count` blocking sends return.
 */
static void unexpected(int count, size_t limit, bool backwards)
{
    int to = (verify.rank + 1) % verify.size;
    int from = (verify.rank + verify.size - 1) % verify.size;
    struct verify_buffer *send = malloc(sizeof *send * (size_t)count);
    MPI_Request *requests = malloc(sizeof *requests * (size_t)count);
    uint64_t stream;

    verify_step("%d unexpected messages of up to %zu bytes%s", count, limit,
                backwards ? ", fetched backwards" : "");
    stream = verify_step_number();
    for (int i = 0; i < count; i++) {
        size_t size = size_of(stream, verify.rank, i, limit);
        int tag = backwards ? i : VERIFY_TAG;

        send[i] = verify_buffer_filled(size, verify_id(verify.rank, to, tag, (uint64_t)i));
        MPI_Isend(send[i].data, (int)size, MPI_BYTE, to, tag, verify.comm, &requests[i]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < count; i++) {
        int number = backwards ? count - 1 - i : i, tag = backwards ? number : VERIFY_TAG;
        size_t size = size_of(stream, from, number, limit);
        struct verify_buffer buffer = verify_buffer_new(size);
        MPI_Status status;

        MPI_Recv(buffer.data, (int)size, MPI_BYTE, from, tag, verify.comm, &status);
        verify_status(&status, from, tag, size);
        verify_buffer_check(&buffer, size, verify_id(from, verify.rank, tag, (uint64_t)number));
        verify_buffer_free(&buffer);
    }
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < count; i++) {
        verify_buffer_sent(&send[i],
                           verify_id(verify.rank, to, backwards ? i : VERIFY_TAG, (uint64_t)i));
    }
    free(send);
    free(requests);
}

void group_unexpected(void)
{
    unexpected(verify_repeat(10000), 64, false);
    unexpected(verify_repeat(1000), 9000, false);
    unexpected(verify_repeat(1000), 500, true);
    unexpected(verify_repeat(30), 1 << 20, true);
}
