/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Group probes: Probe, Iprobe, Mprobe, Improbe, with and without wildcards, and that a message
 * taken by Mprobe is out of reach for everybody else.
 */
#include "verify.h"

#include <stdlib.h>

enum { PROBE, IPROBE, MPROBE, IMPROBE, KINDS };

static const char *const kind_names[] = {"Probe", "Iprobe", "Mprobe", "Improbe"};

static size_t bytes_of(const MPI_Status *status)
{
    int count;

    MPI_Get_count((MPI_Status *)status, MPI_BYTE, &count);
    verify_equal(count != MPI_UNDEFINED, 1, "byte count of a probed message is defined");
    return (size_t)count;
}

/* Waits for a message by one of the four calls. */
static void find(int kind, int source, int tag, MPI_Message *message, MPI_Status *status)
{
    int found = 0;

    switch (kind) {
    case PROBE:
        MPI_Probe(source, tag, verify.comm, status);
        break;
    case MPROBE:
        MPI_Mprobe(source, tag, verify.comm, message, status);
        break;
    case IPROBE:
        while (!found) {
            MPI_Iprobe(source, tag, verify.comm, &found, status);
        }
        break;
    default:
        while (!found) {
            MPI_Improbe(source, tag, verify.comm, &found, message, status);
        }
        break;
    }
}

/* Fetches the message that `found` describes into a buffer of just its size, and checks it. */
static void fetch(int kind, MPI_Message *message, const MPI_Status *found, uint64_t sequence,
                  size_t expected)
{
    size_t size = bytes_of(found);
    struct verify_buffer buffer = verify_buffer_new(size);
    MPI_Status status;

    verify_equal((long long)size, (long long)expected, "size of the probed message");
    if (kind == PROBE || kind == IPROBE) {
        MPI_Recv(buffer.data, (int)size, MPI_BYTE, found->MPI_SOURCE, found->MPI_TAG, verify.comm,
                 &status);
    } else if (sequence % 2 == 0) {
        MPI_Mrecv(buffer.data, (int)size, MPI_BYTE, message, &status);
    } else {
        MPI_Request request;

        MPI_Imrecv(buffer.data, (int)size, MPI_BYTE, message, &request);
        MPI_Wait(&request, &status);
    }
    verify_status(&status, found->MPI_SOURCE, found->MPI_TAG, size);
    verify_buffer_check(&buffer, size,
                        verify_id(found->MPI_SOURCE, verify.rank, found->MPI_TAG, sequence));
    verify_buffer_free(&buffer);
}

/* Every rank sends every rank `rounds` messages whose sizes only the probe tells. */
static void probe_all(int kind, bool any_source, bool any_tag, int rounds)
{
    int count = rounds * verify.size;
    struct verify_buffer *send = malloc(sizeof *send * (size_t)count);
    MPI_Request *requests = malloc(sizeof *requests * (size_t)count);
    int *seen = calloc((size_t)verify.size, sizeof *seen);
    uint64_t stream;

    verify_step("%s%s%s", kind_names[kind], any_source ? " ANY_SOURCE" : "",
                any_tag ? " ANY_TAG" : "");
    stream = verify_step_number();
    for (int i = 0; i < count; i++) {
        int to = i % verify.size, round = i / verify.size;
        size_t size = verify_random_size(stream + (uint64_t)verify.rank, (uint64_t)round, 100000);

        send[i] = verify_buffer_filled(size, verify_id(verify.rank, to, 5, (uint64_t)round));
        MPI_Isend(send[i].data, (int)size, MPI_BYTE, to, 5, verify.comm, &requests[i]);
    }
    for (int i = 0; i < count; i++) {
        int source = any_source ? MPI_ANY_SOURCE : i % verify.size, round;
        MPI_Message message;
        MPI_Status found;

        find(kind, source, any_tag ? MPI_ANY_TAG : 5, &message, &found);
        verify_equal(found.MPI_TAG, 5, "tag of the probed message");
        if (!any_source) {
            verify_equal(found.MPI_SOURCE, source, "source of the probed message");
        }
        round = seen[found.MPI_SOURCE]++;
        fetch(kind, &message, &found, (uint64_t)round,
              verify_random_size(stream + (uint64_t)found.MPI_SOURCE, (uint64_t)round, 100000));
    }
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < count; i++) {
        verify_buffer_sent(&send[i],
                           verify_id(verify.rank, i % verify.size, 5, (uint64_t)(i / verify.size)));
    }
    free(send);
    free(requests);
    free(seen);
    MPI_Barrier(MPI_COMM_WORLD); /* a wildcard must not catch a message of the next step */
}

/*
 * Two messages with the same tag; the first is taken by Mprobe, then the second is received in the
 * ordinary way, then the first is fetched.
 */
static void matched_message_is_ours(size_t size)
{
    int to = (verify.rank + 1) % verify.size;
    int from = (verify.rank + verify.size - 1) % verify.size;
    struct verify_id ids[2];
    struct verify_buffer send[2], receive;
    MPI_Request requests[2];
    MPI_Message message;
    MPI_Status status, found;

    verify_step("Mprobe hides its message, %zu bytes", size);
    for (int i = 0; i < 2; i++) {
        ids[i] = verify_id(verify.rank, to, 6, (uint64_t)i);
        send[i] = verify_buffer_filled(size, ids[i]);
        MPI_Isend(send[i].data, (int)size, MPI_BYTE, to, 6, verify.comm, &requests[i]);
    }
    MPI_Mprobe(from, 6, verify.comm, &message, &found);
    receive = verify_buffer_new(size);
    MPI_Recv(receive.data, (int)size, MPI_BYTE, from, 6, verify.comm, &status);
    verify_status(&status, from, 6, size);
    verify_buffer_check(&receive, size, verify_id(from, verify.rank, 6, 1));
    verify_buffer_free(&receive);
    fetch(MPROBE, &message, &found, 0, size);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    verify_buffer_sent(&send[0], ids[0]);
    verify_buffer_sent(&send[1], ids[1]);
}

/* Nothing is found where nothing was sent: a tag that is not there, a communicator not used. */
static void nothing_there(void)
{
    int to = (verify.rank + 1) % verify.size;
    int from = (verify.rank + verify.size - 1) % verify.size;
    struct verify_id id = verify_id(verify.rank, to, 7, 0);
    struct verify_buffer send;
    MPI_Request request;
    MPI_Message message;
    MPI_Status status;
    MPI_Comm other;
    int found;

    verify_step("nothing to find");
    send = verify_buffer_filled(500, id);
    MPI_Comm_dup(verify.comm, &other);
    MPI_Isend(send.data, 500, MPI_BYTE, to, 7, verify.comm, &request);
    MPI_Probe(from, 7, verify.comm, &status);
    MPI_Iprobe(from, 8, verify.comm, &found, &status);
    verify_equal(found, 0, "Iprobe of a tag nobody sent");
    MPI_Improbe(MPI_ANY_SOURCE, 8, verify.comm, &found, &message, &status);
    verify_equal(found, 0, "Improbe of a tag nobody sent");
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, other, &found, &status);
    verify_equal(found, 0, "Iprobe on a communicator without traffic");
    MPI_Mprobe(from, 7, verify.comm, &message, &status);
    fetch(MPROBE, &message, &status, 0, 500);
    MPI_Iprobe(from, 7, verify.comm, &found, &status);
    verify_equal(found, 0, "Iprobe after the message was fetched");
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    verify_buffer_sent(&send, id);
    MPI_Mprobe(MPI_PROC_NULL, 7, verify.comm, &message, &status);
    verify_equal(message == MPI_MESSAGE_NO_PROC, 1, "Mprobe of MPI_PROC_NULL");
    MPI_Mrecv(NULL, 0, MPI_BYTE, &message, &status);
    MPI_Comm_free(&other);
}

void group_probes(void)
{
    size_t count;
    const size_t *sizes = verify_few_sizes(300000, &count);

    for (int kind = 0; kind < KINDS; kind++) {
        probe_all(kind, false, false, verify_repeat(20));
        probe_all(kind, true, false, verify_repeat(20));
        probe_all(kind, true, true, verify_repeat(20));
    }
    for (size_t i = 0; i < count; i++) {
        matched_message_is_ours(sizes[i]);
    }
    nothing_there();
}
