/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Groups modes, persistent, cancel and truncation: the send modes with what they promise,
 * requests that are started again and again, receives taken back, receives that are too short.
 */
#include "verify.h"

#include <stdlib.h>

#define GO_TAG 900

static int next_rank(void)
{
    return (verify.rank + 1) % verify.size;
}

static int previous_rank(void)
{
    return (verify.rank + verify.size - 1) % verify.size;
}

/* Tells the previous rank that it may go on, and waits to be told the same by the next one. */
static void permit_previous(void)
{
    MPI_Sendrecv(NULL, 0, MPI_BYTE, previous_rank(), GO_TAG, NULL, 0, MPI_BYTE, next_rank(), GO_TAG,
                 verify.comm, MPI_STATUS_IGNORE);
}

/* The other way round: lets the next rank go on, and waits for the previous one. */
static void permit_next(void)
{
    MPI_Sendrecv(NULL, 0, MPI_BYTE, next_rank(), GO_TAG, NULL, 0, MPI_BYTE, previous_rank(), GO_TAG,
                 verify.comm, MPI_STATUS_IGNORE);
}

/* Receives the message of the previous rank and checks it. */
static void receive_and_check(size_t size, int tag, uint64_t sequence)
{
    struct verify_buffer buffer = verify_buffer_new(size);
    MPI_Status status;

    MPI_Recv(buffer.data, (int)size, MPI_BYTE, previous_rank(), tag, verify.comm, &status);
    verify_status(&status, previous_rank(), tag, size);
    verify_buffer_check(&buffer, size, verify_id(previous_rank(), verify.rank, tag, sequence));
    verify_buffer_free(&buffer);
}

/* A synchronous send must not complete before its receive is posted. */
static void synchronous(size_t size, uint64_t sequence)
{
    struct verify_id id = verify_id(verify.rank, next_rank(), VERIFY_TAG, sequence);
    struct verify_buffer send = verify_buffer_filled(size, id);
    MPI_Request request;
    int done = 0;

    MPI_Issend(send.data, (int)size, MPI_BYTE, next_rank(), VERIFY_TAG, verify.comm, &request);
    for (int i = 0; i < 20 && !done; i++) {
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    }
    verify_equal(done, 0, "synchronous send complete before its receive is posted");
    permit_next(); /* its receive may be posted now */
    receive_and_check(size, VERIFY_TAG, sequence);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    verify_buffer_sent(&send, id);

    /* Of an odd ring rank 0 and the last rank both send first; it ends nevertheless, because
     * rank 0 gets through to rank 1. */
    if (verify.size > 1) {
        struct verify_buffer blocking = verify_buffer_filled(size, id);

        if (verify.rank % 2 == 0) {
            MPI_Ssend(blocking.data, (int)size, MPI_BYTE, next_rank(), VERIFY_TAG, verify.comm);
            receive_and_check(size, VERIFY_TAG, sequence);
        } else {
            receive_and_check(size, VERIFY_TAG, sequence);
            MPI_Ssend(blocking.data, (int)size, MPI_BYTE, next_rank(), VERIFY_TAG, verify.comm);
        }
        verify_buffer_sent(&blocking, id);
    }
}

/* A ready send starts only after the receiver has said that its receive is posted. */
static void ready(size_t size, uint64_t sequence)
{
    struct verify_id ids[2];
    struct verify_buffer send[2], receive[2];
    MPI_Request requests[3];
    MPI_Status statuses[3];

    for (int i = 0; i < 2; i++) {
        ids[i] = verify_id(verify.rank, next_rank(), VERIFY_TAG + i, sequence);
        send[i] = verify_buffer_filled(size, ids[i]);
        receive[i] = verify_buffer_new(size);
        MPI_Irecv(receive[i].data, (int)size, MPI_BYTE, previous_rank(), VERIFY_TAG + i,
                  verify.comm, &requests[i]);
    }
    permit_previous();
    MPI_Irsend(send[0].data, (int)size, MPI_BYTE, next_rank(), VERIFY_TAG, verify.comm,
               &requests[2]);
    MPI_Rsend(send[1].data, (int)size, MPI_BYTE, next_rank(), VERIFY_TAG + 1, verify.comm);
    MPI_Waitall(3, requests, statuses);
    for (int i = 0; i < 2; i++) {
        verify_status(&statuses[i], previous_rank(), VERIFY_TAG + i, size);
        verify_buffer_check(&receive[i], size,
                            verify_id(previous_rank(), verify.rank, VERIFY_TAG + i, sequence));
        verify_buffer_free(&receive[i]);
        verify_buffer_sent(&send[i], ids[i]);
    }
}

/* A buffered send returns at once: everybody sends all messages before anybody receives. */
static void buffered(size_t size, int messages)
{
    int room = (int)((size + MPI_BSEND_OVERHEAD) * (size_t)messages);
    void *attached = malloc((size_t)room), *detached;
    int detached_room;

    MPI_Buffer_attach(attached, room);
    for (int i = 0; i < messages; i++) {
        struct verify_buffer send = verify_buffer_filled(
            size, verify_id(verify.rank, next_rank(), VERIFY_TAG, (uint64_t)i));
        MPI_Request request;

        if (i % 2 == 0) {
            MPI_Bsend(send.data, (int)size, MPI_BYTE, next_rank(), VERIFY_TAG, verify.comm);
        } else {
            MPI_Ibsend(send.data, (int)size, MPI_BYTE, next_rank(), VERIFY_TAG, verify.comm,
                       &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        verify_buffer_reset(&send); /* the buffer is ours again; the message must not change */
        verify_buffer_free(&send);
    }
    for (int i = 0; i < messages; i++) {
        receive_and_check(size, VERIFY_TAG, (uint64_t)i);
    }
    MPI_Buffer_detach(&detached, &detached_room);
    verify_equal(detached == attached, 1, "detached buffer is the attached one");
    verify_equal(detached_room, room, "size of the detached buffer");
    free(attached);
}

/* A request freed after its start: the message arrives nevertheless. */
static void freed_request(size_t size)
{
    struct verify_id id = verify_id(verify.rank, next_rank(), VERIFY_TAG, 0);
    struct verify_buffer send = verify_buffer_filled(size, id);
    MPI_Request request;

    MPI_Isend(send.data, (int)size, MPI_BYTE, next_rank(), VERIFY_TAG, verify.comm, &request);
    MPI_Request_free(&request);
    receive_and_check(size, VERIFY_TAG, 0);
    permit_previous(); /* the next rank has received: our buffer is free again */
    verify_buffer_sent(&send, id);
}

static void status_without_freeing(size_t size)
{
    struct verify_id id = verify_id(verify.rank, next_rank(), VERIFY_TAG, 0);
    struct verify_buffer send = verify_buffer_filled(size, id), receive = verify_buffer_new(size);
    MPI_Request requests[2];
    MPI_Status status;
    int done = 0;

    MPI_Irecv(receive.data, (int)size, MPI_BYTE, previous_rank(), VERIFY_TAG, verify.comm,
              &requests[0]);
    MPI_Isend(send.data, (int)size, MPI_BYTE, next_rank(), VERIFY_TAG, verify.comm, &requests[1]);
    while (!done) {
        MPI_Request_get_status(requests[0], &done, &status);
    }
    verify_status(&status, previous_rank(), VERIFY_TAG, size);
    verify_equal(requests[0] != MPI_REQUEST_NULL, 1, "request kept by Request_get_status");
    verify_buffer_check(&receive, size, verify_id(previous_rank(), verify.rank, VERIFY_TAG, 0));
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    verify_buffer_free(&receive);
    verify_buffer_sent(&send, id);
}

void group_modes(void)
{
    size_t count;
    const size_t *sizes = verify_few_sizes(300000, &count);

    for (size_t i = 0; i < count; i++) {
        verify_step("synchronous, %zu bytes", sizes[i]);
        synchronous(sizes[i], i);
        verify_step("ready, %zu bytes", sizes[i]);
        ready(sizes[i], i);
        verify_step("buffered, %zu bytes", sizes[i]);
        buffered(sizes[i], verify_repeat(10));
        verify_step("freed request, %zu bytes", sizes[i]);
        freed_request(sizes[i]);
        verify_step("Request_get_status, %zu bytes", sizes[i]);
        status_without_freeing(sizes[i]);
    }
}

/* Starts the ring of persistent requests once and checks what came. */
static void start_ring(MPI_Request *requests, struct verify_buffer *send,
                       struct verify_buffer *receive, int pairs, int round)
{
    MPI_Status statuses[10];

    for (int i = 0; i < pairs; i++) {
        verify_fill(send[i].data, send[i].len,
                    verify_id(verify.rank, next_rank(), i, (uint64_t)round), 0);
        verify_buffer_reset(&receive[i]);
    }
    MPI_Startall(pairs, requests);
    permit_previous(); /* the ready mode demands a posted receive */
    if (round % 2 == 0) {
        MPI_Startall(pairs, requests + pairs);
    } else {
        for (int i = 0; i < pairs; i++) {
            MPI_Start(&requests[pairs + i]);
        }
    }
    MPI_Waitall(2 * pairs, requests, statuses);
    for (int i = 0; i < pairs; i++) {
        verify_status(&statuses[i], previous_rank(), i, receive[i].len);
        verify_buffer_check(&receive[i], receive[i].len,
                            verify_id(previous_rank(), verify.rank, i, (uint64_t)round));
    }
}

/*
 * Four send modes, one persistent pair each, started `rounds` times with new contents.
 *
 * Open MPI 4.1 packs a buffered message above the eager limit from freed memory when its
 * persistent request is started a second time (pml/ob1 leaves the request's convertor on the
 * attached buffer), over any BTL. So that request is made anew each time, unless --known-bugs.
 */
static void persistent(size_t size, int rounds)
{
    bool renew = size > 512 && !verify.known_bugs;
    enum { PAIRS = 4 };
    struct verify_buffer send[PAIRS], receive[PAIRS];
    MPI_Request requests[2 * PAIRS];
    /* Room for more than one: an earlier message may still lie there when the next one starts. */
    int room = 4 * ((int)size + MPI_BSEND_OVERHEAD), count = (int)size;
    void *attached = malloc((size_t)room);

    MPI_Buffer_attach(attached, room);
    for (int i = 0; i < PAIRS; i++) {
        send[i] = verify_buffer_filled(size, verify_id(verify.rank, next_rank(), i, 0));
        receive[i] = verify_buffer_new(size);
        MPI_Recv_init(receive[i].data, count, MPI_BYTE, previous_rank(), i, verify.comm,
                      &requests[i]);
    }
    MPI_Send_init(send[0].data, count, MPI_BYTE, next_rank(), 0, verify.comm, &requests[PAIRS]);
    MPI_Ssend_init(send[1].data, count, MPI_BYTE, next_rank(), 1, verify.comm,
                   &requests[PAIRS + 1]);
    MPI_Bsend_init(send[2].data, count, MPI_BYTE, next_rank(), 2, verify.comm,
                   &requests[PAIRS + 2]);
    MPI_Rsend_init(send[3].data, count, MPI_BYTE, next_rank(), 3, verify.comm,
                   &requests[PAIRS + 3]);
    for (int round = 0; round < rounds; round++) {
        if (renew && round > 0) {
            MPI_Request_free(&requests[PAIRS + 2]);
            MPI_Bsend_init(send[2].data, count, MPI_BYTE, next_rank(), 2, verify.comm,
                           &requests[PAIRS + 2]);
        }
        start_ring(requests, send, receive, PAIRS, round);
    }
    /* Detaching waits until the last buffered message has left. */
    MPI_Buffer_detach(&attached, &room);
    for (int i = 0; i < PAIRS; i++) {
        MPI_Request_free(&requests[i]);
        MPI_Request_free(&requests[PAIRS + i]);
        verify_buffer_sent(&send[i], verify_id(verify.rank, next_rank(), i, (uint64_t)rounds - 1));
        verify_buffer_free(&receive[i]);
    }
    free(attached);
}

void group_persistent(void)
{
    size_t count;
    const size_t *sizes = verify_few_sizes(SIZE_MAX, &count);

    for (size_t i = 0; i < count; i++) {
        verify_step("persistent, %zu bytes", sizes[i]);
        persistent(sizes[i], sizes[i] < 100000 ? verify_repeat(20) : 2);
    }
}

/*
 * Three receives are posted, the first and the last taken back: the two messages that come then
 * go to the one that stayed and to a receive posted afterwards.
 */
static void cancel(size_t size, int source)
{
    struct verify_id ids[2];
    struct verify_buffer receive[3], send[2];
    MPI_Request requests[3], sends[2];
    MPI_Status status;
    int cancelled;

    for (int i = 0; i < 3; i++) {
        receive[i] = verify_buffer_new(size);
        MPI_Irecv(receive[i].data, (int)size, MPI_BYTE, source, VERIFY_TAG, verify.comm,
                  &requests[i]);
    }
    for (int i = 0; i < 3; i += 2) {
        MPI_Cancel(&requests[i]);
        MPI_Wait(&requests[i], &status);
        MPI_Test_cancelled(&status, &cancelled);
        verify_equal(cancelled, 1, "cancelled flag of a receive nothing was sent to");
    }
    permit_previous(); /* the next rank has cancelled its receives too */
    for (int i = 0; i < 2; i++) {
        ids[i] = verify_id(verify.rank, next_rank(), VERIFY_TAG, (uint64_t)i);
        send[i] = verify_buffer_filled(size, ids[i]);
        MPI_Isend(send[i].data, (int)size, MPI_BYTE, next_rank(), VERIFY_TAG, verify.comm,
                  &sends[i]);
    }
    MPI_Wait(&requests[1], &status);
    MPI_Test_cancelled(&status, &cancelled);
    verify_equal(cancelled, 0, "cancelled flag of a receive that got its message");
    verify_status(&status, previous_rank(), VERIFY_TAG, size);
    verify_buffer_check(&receive[1], size, verify_id(previous_rank(), verify.rank, VERIFY_TAG, 0));
    receive_and_check(size, VERIFY_TAG, 1);
    MPI_Waitall(2, sends, MPI_STATUSES_IGNORE);
    for (int i = 0; i < 3; i++) {
        if (i != 1) {
            verify_buffer_check_untouched(&receive[i], 0, size);
            verify_buffer_check_guards(&receive[i]);
        }
        verify_buffer_free(&receive[i]);
    }
    verify_buffer_sent(&send[0], ids[0]);
    verify_buffer_sent(&send[1], ids[1]);
}

void group_cancel(void)
{
    size_t count;
    const size_t *sizes = verify_few_sizes(300000, &count);

    for (size_t i = 0; i < count; i++) {
        verify_step("cancel, %zu bytes", sizes[i]);
        cancel(sizes[i], previous_rank());
        verify_step("cancel ANY_SOURCE, %zu bytes", sizes[i]);
        cancel(sizes[i], MPI_ANY_SOURCE);
    }
}

static int error_class(int code)
{
    int class;

    MPI_Error_class(code, &class);
    return class;
}

/*
 * A message longer than the receive is an error, nothing behind the buffer is touched, and the
 * next message arrives as if nothing had been. early: the receive is posted before the message.
 * type is a byte, or one with a hole behind it; extent its length in memory.
 */
static void truncated(MPI_Comm comm, size_t size, size_t room, MPI_Datatype type, size_t extent,
                      bool early)
{
    struct verify_id ids[2];
    struct verify_buffer send[2], receive = verify_buffer_new(room * extent);
    MPI_Request requests[2], receiving = MPI_REQUEST_NULL;
    MPI_Status status;
    int code;

    if (early) {
        MPI_Irecv(receive.data, (int)room, type, previous_rank(), VERIFY_TAG, comm, &receiving);
    }
    permit_previous();
    for (int i = 0; i < 2; i++) {
        ids[i] = verify_id(verify.rank, next_rank(), VERIFY_TAG, (uint64_t)i);
        send[i] = verify_buffer_filled(size, ids[i]);
        MPI_Isend(send[i].data, (int)size, MPI_BYTE, next_rank(), VERIFY_TAG, comm, &requests[i]);
    }
    if (early) {
        code = MPI_Wait(&receiving, &status);
    } else {
        permit_next(); /* the messages are most likely here before the receive is posted */
        code = MPI_Recv(receive.data, (int)room, type, previous_rank(), VERIFY_TAG, comm, &status);
    }
    verify_equal(error_class(code), MPI_ERR_TRUNCATE, "error class of a truncated receive");
    verify_buffer_check_guards(&receive);
    for (size_t i = 1; i < receive.len; i += 2) {
        if (extent == 2) {
            verify_buffer_check_untouched(&receive, i, 1);
        }
    }
    verify_buffer_free(&receive);

    receive = verify_buffer_new(size);
    code = MPI_Recv(receive.data, (int)size, MPI_BYTE, previous_rank(), VERIFY_TAG, comm, &status);
    verify_equal(code, MPI_SUCCESS, "receive after a truncated one");
    verify_status(&status, previous_rank(), VERIFY_TAG, size);
    verify_buffer_check(&receive, size, verify_id(previous_rank(), verify.rank, VERIFY_TAG, 1));
    verify_buffer_free(&receive);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    verify_buffer_sent(&send[0], ids[0]);
    verify_buffer_sent(&send[1], ids[1]);
}

/*
 * Above the eager limit Open MPI 4.1 lets the sender put, or gets, the whole message into a
 * contiguous receive buffer that is too short for it (pml/ob1 schedules the sender's length), over
 * any BTL that has put or get. Such receives are given a type with holes, which is not placed
 * directly, unless --known-bugs.
 */
void group_truncation(void)
{
    static const struct {
        size_t size, room;
    } cases[] = {{1, 0},           {8, 7},          {500, 499},          {900, 100},
                 {1500, 1499},     {9000, 100},     {70000, 65536},      {70000, 2},
                 {300001, 300000}, {1 << 20, 1000}, {4u << 20, 3u << 20}};
    MPI_Comm comm;
    MPI_Datatype spread;

    MPI_Type_create_resized(MPI_BYTE, 0, 2, &spread);
    MPI_Type_commit(&spread);
    MPI_Comm_dup(verify.comm, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bool direct = cases[i].size < 1000 || verify.known_bugs;
        MPI_Datatype type = direct ? MPI_BYTE : spread;

        if (cases[i].size <= verify.max_bytes) {
            verify_step("%zu bytes into %zu", cases[i].size, cases[i].room);
            truncated(comm, cases[i].size, cases[i].room, type, direct ? 1 : 2, true);
            truncated(comm, cases[i].size, cases[i].room, type, direct ? 1 : 2, false);
        }
    }
    MPI_Comm_free(&comm);
    MPI_Type_free(&spread);
}
