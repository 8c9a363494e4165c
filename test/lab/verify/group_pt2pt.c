/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Groups pt2pt, large and outstanding: messages of many sizes between all pairs of ranks, and many
 * simultaneous requests, completed together, by testing, and in reverse order.
 *
 * Groups order and unexpected: a sender's messages match in the order in which they were sent,
 * whatever their sizes; messages stay in their communicator; thousands of messages arrive before
 * their receives are posted.
 */
#include "verify.h"

#include <stdlib.h>

/* The ways to send and receive a message. */
enum { IRECV_SEND, ISEND_RECV, SENDRECV, BOTH_TESTED, WAYS };

/* Wait by calling MPI_Test repeatedly, which drives the library's progress. */
static void test_until_done(MPI_Request *requests, int count, MPI_Status *statuses)
{
    int done = 0;

    while (!done) {
        MPI_Testall(count, requests, &done, statuses);
    }
}

/*
 * Send `size` bytes to the rank at this distance, and receive `size` bytes from the rank at the
 * opposite distance. At distance 0, a rank sends to itself.
 */
static void exchange(size_t size, int distance, int way, int tag, uint64_t sequence)
{
    int to = (verify.rank + distance) % verify.size;
    int from = (verify.rank - distance + verify.size) % verify.size;
    struct verify_id out = verify_id(verify.rank, to, tag, sequence);
    struct verify_id in = verify_id(from, verify.rank, tag, sequence);
    struct verify_buffer send = verify_buffer_filled(size, out);
    struct verify_buffer receive = verify_buffer_new(size);
    MPI_Request requests[2];
    MPI_Status statuses[2];
    int count = (int)size;

    switch (way) {
    case IRECV_SEND:
        MPI_Irecv(receive.data, count, MPI_BYTE, from, tag, verify.comm, &requests[0]);
        MPI_Send(send.data, count, MPI_BYTE, to, tag, verify.comm);
        MPI_Wait(&requests[0], &statuses[0]);
        break;
    case ISEND_RECV:
        MPI_Isend(send.data, count, MPI_BYTE, to, tag, verify.comm, &requests[0]);
        MPI_Recv(receive.data, count, MPI_BYTE, from, tag, verify.comm, &statuses[0]);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        break;
    case SENDRECV:
        MPI_Sendrecv(send.data, count, MPI_BYTE, to, tag, receive.data, count, MPI_BYTE, from, tag,
                     verify.comm, &statuses[0]);
        break;
    default:
        MPI_Irecv(receive.data, count, MPI_BYTE, from, tag, verify.comm, &requests[0]);
        MPI_Isend(send.data, count, MPI_BYTE, to, tag, verify.comm, &requests[1]);
        test_until_done(requests, 2, statuses);
        break;
    }
    verify_status(&statuses[0], from, tag, size);
    verify_buffer_check(&receive, size, in);
    verify_buffer_sent(&send, out);
    verify_buffer_free(&receive);
}

/* Exchange small messages over all distances, and larger ones over one distance per size. */
static void every_size(void)
{
    size_t count;
    const size_t *sizes = verify_sizes(SIZE_MAX, &count);

    for (size_t i = 0; i < count; i++) {
        verify_step("%zu bytes", sizes[i]);
        if (sizes[i] <= 20000 && !(verify.quick && verify.size > 4)) {
            for (int distance = 0; distance < verify.size; distance++) {
                exchange(sizes[i], distance, (int)(i + (size_t)distance) % WAYS, VERIFY_TAG, i);
            }
        } else {
            int distance = verify.size == 1 ? 0 : 1 + (int)i % (verify.size - 1);

            exchange(sizes[i], distance, (int)i % WAYS, VERIFY_TAG, i);
        }
    }
}

/* Receive into buffers longer than the message; the remaining bytes must not change. */
static void short_messages_in_long_buffers(void)
{
    int to = (verify.rank + 1) % verify.size;
    int from = (verify.rank + verify.size - 1) % verify.size;
    size_t count;
    const size_t *sizes = verify_few_sizes(300000, &count);

    verify_step("short message, long buffer");
    for (size_t i = 0; i < count; i++) {
        struct verify_id out = verify_id(verify.rank, to, VERIFY_TAG, i);
        struct verify_buffer send = verify_buffer_filled(sizes[i], out);
        struct verify_buffer receive = verify_buffer_new(sizes[i] + 5000);
        MPI_Request request;
        MPI_Status status;

        MPI_Irecv(receive.data, (int)receive.len, MPI_BYTE, from, VERIFY_TAG, verify.comm,
                  &request);
        MPI_Send(send.data, (int)sizes[i], MPI_BYTE, to, VERIFY_TAG, verify.comm);
        MPI_Wait(&request, &status);
        verify_status(&status, from, VERIFY_TAG, sizes[i]);
        verify_buffer_check(&receive, sizes[i], verify_id(from, verify.rank, VERIFY_TAG, i));
        verify_buffer_sent(&send, out);
        verify_buffer_free(&receive);
    }
}

void group_pt2pt(void)
{
    every_size();
    short_messages_in_long_buffers();
}

const char *group_large_unfit(void)
{
    return verify.max_bytes < (size_t)20 << 20 ? "needs --max-bytes 20M or more" : NULL;
}

void group_large(void)
{
    static const size_t megabytes[] = {20, 32, 63, 64, 100, 128, 200, 256};

    for (size_t i = 0; i < sizeof megabytes / sizeof megabytes[0]; i++) {
        size_t size = megabytes[i] << 20;
        int distance = verify.size == 1 ? 0 : 1 + (int)i % (verify.size - 1);

        if (size > verify.max_bytes) {
            break;
        }
        /* Use sizes slightly below round ones, but also the exact limit. */
        size -= megabytes[i] == 256 ? 0 : 4093 * i;
        verify_step("%zu bytes", size);
        exchange(size, distance, (int)i % WAYS, VERIFY_TAG, i);
    }
}

/* Ways to complete an array of requests. */
enum { WAITALL, TESTALL, WAIT_BACKWARDS, COMPLETIONS };

static const char *const completion_names[] = {"Waitall", "Testall", "Wait backwards"};

static void complete(int way, MPI_Request *requests, int count, MPI_Status *statuses)
{
    if (way == WAITALL) {
        MPI_Waitall(count, requests, statuses);
    } else if (way == TESTALL) {
        test_until_done(requests, count, statuses);
    } else {
        for (int i = count - 1; i >= 0; i--) {
            MPI_Wait(&requests[i], &statuses[i]);
        }
    }
}

/* Exchange a window of messages of mixed sizes with all ranks at once, including ourselves. */
static void window(int way, int window_len, size_t largest)
{
    int count = window_len * verify.size;
    struct verify_buffer *in = malloc(sizeof *in * (size_t)count);
    struct verify_buffer *out = malloc(sizeof *out * (size_t)count);
    MPI_Request *requests = malloc(sizeof *requests * 2 * (size_t)count);
    MPI_Status *statuses = malloc(sizeof *statuses * 2 * (size_t)count);

    verify_step("%s, %d receives of up to %zu bytes", completion_names[way], count, largest);
    for (int i = 0; i < count; i++) {
        int from = i % verify.size;
        size_t size = verify_random_size(verify_step_number(), (uint64_t)i, largest);

        in[i] = verify_buffer_new(size);
        MPI_Irecv(in[i].data, (int)size, MPI_BYTE, from, i / verify.size, verify.comm,
                  &requests[i]);
    }
    for (int i = 0; i < count; i++) {
        int to = (i + verify.rank) % verify.size, k = i / verify.size;
        /* At the receiver, this message has the number k * size + our rank. */
        uint64_t number = (uint64_t)k * (uint64_t)verify.size + (uint64_t)verify.rank;
        size_t size = verify_random_size(verify_step_number(), number, largest);

        out[i] = verify_buffer_filled(size, verify_id(verify.rank, to, k, number));
        MPI_Isend(out[i].data, (int)size, MPI_BYTE, to, k, verify.comm, &requests[count + i]);
    }
    complete(way, requests, 2 * count, statuses);
    for (int i = 0; i < count; i++) {
        int from = i % verify.size, to = (i + verify.rank) % verify.size, k = i / verify.size;
        uint64_t number = (uint64_t)k * (uint64_t)verify.size + (uint64_t)verify.rank;

        verify_status(&statuses[i], from, k, in[i].len);
        verify_buffer_check(&in[i], in[i].len, verify_id(from, verify.rank, k, (uint64_t)i));
        verify_buffer_free(&in[i]);
        verify_buffer_sent(&out[i], verify_id(verify.rank, to, k, number));
    }
    free(in);
    free(out);
    free(requests);
    free(statuses);
}

void group_outstanding(void)
{
    for (int way = 0; way < COMPLETIONS; way++) {
        window(way, verify_repeat(60), 3000);
        window(way, verify_repeat(12), 200000);
    }
    window(WAITALL, verify_repeat(2000) / verify.size + 1, 64);
}

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
    int count; /* total number of sends */
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

/* Check tag, size and bytes of message `number` from the status's source. */
static void check_number(struct verify_buffer *buffer, const MPI_Status *status, int number,
                         uint64_t stream, size_t limit)
{
    int source = status->MPI_SOURCE, tag = tag_of(source, number);
    size_t size = size_of(stream, source, number, limit);

    verify_status(status, -1, tag, size);
    verify_buffer_check(buffer, size, verify_id(source, verify.rank, tag, (uint64_t)number));
}

/* Receive with wildcards only: message numbers from each source must ascend. */
static void order_of_one_sender(int per_rank, size_t limit)
{
    int *next = calloc((size_t)verify.size, sizeof *next);
    struct sends sends;

    const uint64_t stream = verify_step("ANY_SOURCE ANY_TAG, up to %zu bytes", limit);
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

/* Receive on several communicators, with one tag, in another order than the sends. */
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
 * Send `count` messages to the next rank before any rank posts a receive. Use Isend, because MPI
 * does not guarantee that `count` blocking sends would return.
 */
static void unexpected(int count, size_t limit, bool backwards)
{
    int to = (verify.rank + 1) % verify.size;
    int from = (verify.rank + verify.size - 1) % verify.size;
    struct verify_buffer *send = malloc(sizeof *send * (size_t)count);
    MPI_Request *requests = malloc(sizeof *requests * (size_t)count);

    const uint64_t stream = verify_step("%d unexpected messages of up to %zu bytes%s", count, limit,
                                        backwards ? ", fetched backwards" : "");
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
