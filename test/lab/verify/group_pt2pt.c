/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Groups pt2pt, large and outstanding: messages of all sizes between all pairs of ranks, and many
 * requests at once, completed together, by testing, and in reverse.
 */
#include "verify.h"

#include <stdlib.h>

/* The ways to send and receive a message. */
enum { IRECV_SEND, ISEND_RECV, SENDRECV, BOTH_TESTED, WAYS };

/* Wait by testing, which calls the library's progress repeatedly. */
static void test_until_done(MPI_Request *requests, int count, MPI_Status *statuses)
{
    int done = 0;

    while (!done) {
        MPI_Testall(count, requests, &done, statuses);
    }
}

/*
 * Send `size` bytes to the rank at this distance, and receive as many from the opposite one.
 * Distance 0 is a message to itself.
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

/* Exchange small sizes over all distances, larger ones over one distance each. */
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

/* Receive into longer buffers, whose rest must not change. */
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
        /* Use odd sizes below the round ones, but the limit itself. */
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

/* Exchange a window of messages of mixed sizes with all ranks at once, including itself. */
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
        /* The receiver knows this message as its number k * size + our rank. */
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
