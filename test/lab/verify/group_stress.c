/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Groups flood, random and late: many senders and one receiver, a random mixture of messages, and
 * receivers that compute without calling MPI.
 */
#include "verify.h"

#include <stdlib.h>

/* Return the size of message i of a flood; some messages need a rendezvous. */
static size_t flood_size(uint64_t stream, int source, int i, size_t limit)
{
    return verify_random_size(stream * 64 + (uint64_t)source, (uint64_t)i,
                              i % 50 == 49 ? limit : limit / 20 + 1);
}

/* Let all other ranks send to one rank, which receives with wildcards and checks the order. */
static void flood(int victim, int per_rank, size_t limit)
{
    const uint64_t stream =
        verify_step("flood of rank %d, messages up to %zu bytes", victim, limit);
    if (verify.rank == victim) {
        int *next = calloc((size_t)verify.size, sizeof *next);

        for (int i = 0; i < per_rank * (verify.size - 1); i++) {
            struct verify_buffer receive = verify_buffer_new(limit);
            MPI_Status status;
            int source, number;
            size_t size;

            MPI_Recv(receive.data, (int)limit, MPI_BYTE, MPI_ANY_SOURCE, VERIFY_TAG, verify.comm,
                     &status);
            source = status.MPI_SOURCE;
            number = next[source]++;
            size = flood_size(stream, source, number, limit);
            verify_status(&status, -1, VERIFY_TAG, size);
            verify_buffer_check(&receive, size,
                                verify_id(source, victim, VERIFY_TAG, (uint64_t)number));
            verify_buffer_free(&receive);
        }
        free(next);
    } else {
        for (int i = 0; i < per_rank; i++) {
            struct verify_id id = verify_id(verify.rank, victim, VERIFY_TAG, (uint64_t)i);
            struct verify_buffer send =
                verify_buffer_filled(flood_size(stream, verify.rank, i, limit), id);

            MPI_Send(send.data, (int)send.len, MPI_BYTE, victim, VERIFY_TAG, verify.comm);
            verify_buffer_sent(&send, id);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD); /* a wildcard must not catch a message of the next step */
}

void group_flood(void)
{
    flood(0, verify_repeat(3000), 1000);
    flood(verify.size - 1, verify_repeat(400), 100000);
    flood(verify.size / 2, verify_repeat(1000), 9000);
}

/* A message of the random mixture; all ranks compute the same list. */
struct planned {
    int source, dest, tag;
    size_t size;
    int mode;    /* MPI_Isend, MPI_Issend, or MPI_Send after all others */
    bool posted; /* the receive is posted before the sends start */
};

static struct planned plan(uint64_t stream, int i, size_t limit)
{
    uint64_t r = verify_random(stream, (uint64_t)i);

    return (struct planned){
        .source = (int)(r % (uint64_t)verify.size),
        .dest = (int)((r >> 16) % (uint64_t)verify.size),
        .tag = i,
        .size = verify_random_size(stream + 1, (uint64_t)i, limit),
        .mode = (int)((r >> 32) % 3),
        .posted = (r >> 40) % 2 == 0,
    };
}

static void start_send(const struct planned *message, struct verify_buffer *buffer,
                       MPI_Request *request)
{
    *buffer = verify_buffer_filled(message->size,
                                   verify_id(message->source, message->dest, message->tag, 0));
    if (message->mode == 0) {
        MPI_Issend(buffer->data, (int)message->size, MPI_BYTE, message->dest, message->tag,
                   verify.comm, request);
    } else {
        MPI_Isend(buffer->data, (int)message->size, MPI_BYTE, message->dest, message->tag,
                  verify.comm, request);
    }
}

static void start_receive(const struct planned *message, struct verify_buffer *buffer,
                          MPI_Request *request)
{
    *buffer = verify_buffer_new(message->size);
    MPI_Irecv(buffer->data, (int)message->size, MPI_BYTE,
              message->mode == 1 ? MPI_ANY_SOURCE : message->source, message->tag, verify.comm,
              request);
}

/*
 * Send `count` messages of random sizes between random pairs, with half of the receives posted
 * late, and a reduction at the same time.
 */
static void mixture(int count, size_t limit)
{
    struct verify_buffer *send = calloc((size_t)count, sizeof *send);
    struct verify_buffer *receive = calloc((size_t)count, sizeof *receive);
    MPI_Request *requests = malloc(sizeof *requests * (2 * (size_t)count + 1));
    MPI_Status *statuses = malloc(sizeof *statuses * (2 * (size_t)count + 1));
    int mine = verify.rank + 1, sum = -1;

    const uint64_t stream = verify_step("%d messages up to %zu bytes", count, limit) * 1000;
    for (int i = 0; i < 2 * count + 1; i++) {
        requests[i] = MPI_REQUEST_NULL;
    }
    for (int i = 0; i < count; i++) {
        struct planned message = plan(stream, i, limit);

        if (message.dest == verify.rank && message.posted) {
            start_receive(&message, &receive[i], &requests[i]);
        }
    }
    for (int i = 0; i < count; i++) {
        struct planned message = plan(stream, i, limit);

        if (message.source == verify.rank) {
            start_send(&message, &send[i], &requests[count + i]);
        }
        if (i == count / 2) {
            MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, verify.comm, &requests[2 * count]);
        }
    }
    for (int i = count - 1; i >= 0; i--) {
        struct planned message = plan(stream, i, limit);

        if (message.dest == verify.rank && !message.posted) {
            start_receive(&message, &receive[i], &requests[i]);
        }
    }
    MPI_Waitall(2 * count + 1, requests, statuses);
    verify_equal(sum, (long long)verify.size * (verify.size + 1) / 2, "sum among the messages");
    for (int i = 0; i < count; i++) {
        struct planned message = plan(stream, i, limit);
        struct verify_id id = verify_id(message.source, message.dest, message.tag, 0);

        if (message.dest == verify.rank) {
            verify_status(&statuses[i], message.source, message.tag, message.size);
            verify_buffer_check(&receive[i], message.size, id);
            verify_buffer_free(&receive[i]);
        }
        if (message.source == verify.rank) {
            verify_buffer_sent(&send[i], id);
        }
    }
    free(send);
    free(receive);
    free(requests);
    free(statuses);
    MPI_Barrier(MPI_COMM_WORLD); /* a wildcard must not catch a message of the next step */
}

void group_random(void)
{
    for (int i = 0; i < verify_repeat(10); i++) {
        mixture(50 * verify.size, 20000);
        mixture(8 * verify.size, 1 << 20);
    }
}

enum { LATE_MESSAGES = 300 };

static size_t late_size(uint64_t stream, int i)
{
    return i % 60 == 59 ? 1000000 % (verify.max_bytes + 1)
                        : verify_random_size(stream, (uint64_t)i, i % 10 == 9 ? 100000 : 2000);
}

/*
 * Send messages around the ring while the odd ranks, the even ranks, or all ranks are computing.
 * With `post_first`, receives are posted before the computation.
 */
static void compute_amid(bool post_first, bool odd, bool even)
{
    int to = (verify.rank + 1) % verify.size, from = (verify.rank + verify.size - 1) % verify.size;
    struct verify_buffer send[LATE_MESSAGES], receive[LATE_MESSAGES];
    MPI_Request requests[2 * LATE_MESSAGES];
    MPI_Status statuses[2 * LATE_MESSAGES];
    bool busy = verify.rank % 2 ? odd : even;

    const uint64_t stream = verify_step("%s%s%s compute, receives posted %s", odd ? "odd" : "",
                                        odd && even ? " and " : "", even ? "even" : "",
                                        post_first ? "before" : "after");
    for (int i = 0; i < LATE_MESSAGES; i++) {
        receive[i] = verify_buffer_new(late_size(stream, i));
        send[i] = verify_buffer_filled(late_size(stream, i), verify_id(verify.rank, to, i, 0));
        if (post_first) {
            MPI_Irecv(receive[i].data, (int)receive[i].len, MPI_BYTE, from, i, verify.comm,
                      &requests[i]);
        }
    }
    MPI_Barrier(verify.comm);
    if (busy && !post_first) {
        verify_compute(verify.compute_seconds);
    }
    for (int i = 0; i < LATE_MESSAGES; i++) {
        MPI_Isend(send[i].data, (int)send[i].len, MPI_BYTE, to, i, verify.comm,
                  &requests[LATE_MESSAGES + i]);
    }
    if (busy) {
        verify_compute(verify.compute_seconds);
    }
    for (int i = 0; i < LATE_MESSAGES && !post_first; i++) {
        MPI_Irecv(receive[i].data, (int)receive[i].len, MPI_BYTE, from, i, verify.comm,
                  &requests[i]);
    }
    MPI_Waitall(2 * LATE_MESSAGES, requests, statuses);
    for (int i = 0; i < LATE_MESSAGES; i++) {
        verify_status(&statuses[i], from, i, receive[i].len);
        verify_buffer_check(&receive[i], receive[i].len, verify_id(from, verify.rank, i, 0));
        verify_buffer_free(&receive[i]);
        verify_buffer_sent(&send[i], verify_id(verify.rank, to, i, 0));
    }
}

void group_late(void)
{
    compute_amid(false, true, false);
    compute_amid(true, false, true);
    compute_amid(true, true, true);
}
