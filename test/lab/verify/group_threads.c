/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Group threads: under MPI_THREAD_MULTIPLE, several threads of each rank send, receive and probe at
 * the same time, over one communicator or over one per thread.
 */
#include "verify.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { THREADS = 4 };

/* The arguments of a thread. */
struct worker {
    pthread_t thread;
    int number;
    int rounds;
    MPI_Comm comm;
    void (*work)(const struct worker *);
};

static void *worker_main(void *argument)
{
    struct worker *worker = argument;

    worker->work(worker);
    return NULL;
}

/* Run `work` in all threads of this rank, on one communicator or on one per thread. */
static void run(void (*work)(const struct worker *), int rounds, bool own_comms)
{
    struct worker workers[THREADS];
    MPI_Comm shared;

    MPI_Comm_dup(verify.comm, &shared);
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.number = i, .rounds = rounds, .comm = shared, .work = work};
        if (own_comms) {
            MPI_Comm_dup(verify.comm, &workers[i].comm);
        }
    }
    for (int i = 0; i < THREADS; i++) {
        if (pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]) != 0) {
            verify_fail("cannot start thread %d: raise the limit of processes (ulimit -u)", i);
        }
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        if (own_comms) {
            MPI_Comm_free(&workers[i].comm);
        }
    }
    MPI_Comm_free(&shared);
}

/* Return the size of the message that a thread of `source` sends to all ranks in a round. */
static size_t size_of(int source, int thread, int round, size_t limit)
{
    return verify_random_size(verify_step_number() * 1000 + (uint64_t)(source * THREADS + thread),
                              (uint64_t)round, limit);
}

/* Exchange messages with the corresponding thread of every rank; the tag identifies the thread. */
static void exchange(const struct worker *worker)
{
    size_t ranks = (size_t)verify.size;
    struct verify_buffer *send = malloc(sizeof *send * ranks);
    struct verify_buffer *receive = malloc(sizeof *receive * ranks);
    MPI_Request *requests = malloc(sizeof *requests * 2 * ranks);
    MPI_Status *statuses = malloc(sizeof *statuses * 2 * ranks);
    int tag = worker->number, me = verify.rank, n = verify.size;

    for (int round = 0; round < worker->rounds; round++) {
        uint64_t sequence = (uint64_t)round;
        size_t size = size_of(me, tag, round, 150000);

        for (int i = 0; i < n; i++) {
            receive[i] = verify_buffer_new(size_of(i, tag, round, 150000));
            MPI_Irecv(receive[i].data, (int)receive[i].len, MPI_BYTE, i, tag, worker->comm,
                      &requests[i]);
        }
        for (int i = 0; i < n; i++) {
            send[i] = verify_buffer_filled(size, verify_id(me, i, tag, sequence));
            if (round % 3 == 0) {
                MPI_Issend(send[i].data, (int)size, MPI_BYTE, i, tag, worker->comm,
                           &requests[n + i]);
            } else {
                MPI_Isend(send[i].data, (int)size, MPI_BYTE, i, tag, worker->comm,
                          &requests[n + i]);
            }
        }
        MPI_Waitall(2 * n, requests, statuses);
        for (int i = 0; i < n; i++) {
            verify_status(&statuses[i], i, tag, receive[i].len);
            verify_buffer_check(&receive[i], receive[i].len, verify_id(i, me, tag, sequence));
            verify_buffer_free(&receive[i]);
            verify_buffer_sent(&send[i], verify_id(me, i, tag, sequence));
        }
    }
    free(send);
    free(receive);
    free(requests);
    free(statuses);
}

/* Let half of the threads wait in MPI_Recv while the other half send. */
static void blocking(const struct worker *worker)
{
    int pair = worker->number / 2, me = verify.rank;
    int to = (me + 1) % verify.size, from = (me + verify.size - 1) % verify.size;

    for (int round = 0; round < worker->rounds * 4; round++) {
        uint64_t sequence = (uint64_t)round;

        if (worker->number % 2 == 0) {
            struct verify_id id = verify_id(me, to, pair, sequence);
            struct verify_buffer send = verify_buffer_filled(size_of(me, pair, round, 70000), id);

            MPI_Send(send.data, (int)send.len, MPI_BYTE, to, pair, worker->comm);
            verify_buffer_sent(&send, id);
        } else {
            size_t size = size_of(from, pair, round, 70000);
            struct verify_buffer receive = verify_buffer_new(size);
            MPI_Status status;

            MPI_Recv(receive.data, (int)size, MPI_BYTE, from, pair, worker->comm, &status);
            verify_status(&status, from, pair, size);
            verify_buffer_check(&receive, size, verify_id(from, me, pair, sequence));
            verify_buffer_free(&receive);
        }
    }
}

/* One bit for each (source, tag) of the race below. */
static atomic_uchar *taken;

/*
 * Receive with wildcards in all threads of a rank, on one communicator. Any thread may receive a
 * message, but each message must be received exactly once. The tag identifies the message.
 */
static void race(const struct worker *worker)
{
    int n = verify.size, me = verify.rank, tags = worker->rounds * THREADS;
    int count = worker->rounds * n;
    struct verify_buffer *send = malloc(sizeof *send * (size_t)count);
    MPI_Request *requests = malloc(sizeof *requests * (size_t)count);

    for (int i = 0; i < count; i++) {
        int to = i % n, tag = i / n * THREADS + worker->number;

        send[i] = verify_buffer_filled(size_of(me, 0, tag, 20000), verify_id(me, to, tag, 0));
        MPI_Isend(send[i].data, (int)send[i].len, MPI_BYTE, to, tag, worker->comm, &requests[i]);
    }
    for (int i = 0; i < count; i++) {
        struct verify_buffer receive;
        MPI_Message message;
        MPI_Status status;
        int source, tag, size;

        MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, worker->comm, &message, &status);
        source = status.MPI_SOURCE;
        tag = status.MPI_TAG;
        MPI_Get_count(&status, MPI_BYTE, &size);
        verify_equal(tag >= 0 && tag < tags, 1, "tag of a probed message in range");
        verify_equal(size, (long long)size_of(source, 0, tag, 20000), "size of a probed message");
        receive = verify_buffer_new((size_t)size);
        MPI_Mrecv(receive.data, size, MPI_BYTE, &message, &status);
        verify_buffer_check(&receive, (size_t)size, verify_id(source, me, tag, 0));
        verify_buffer_free(&receive);
        verify_equal(atomic_exchange(&taken[source * tags + tag], 1), 0,
                     "times a message was taken before");
    }
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < count; i++) {
        verify_buffer_sent(&send[i], verify_id(me, i % n, i / n * THREADS + worker->number, 0));
    }
    free(send);
    free(requests);
}

static void race_for_messages(int rounds)
{
    taken = calloc((size_t)(rounds * THREADS * verify.size), sizeof *taken);
    run(race, rounds, false);
    for (int i = 0; i < rounds * THREADS * verify.size; i++) {
        verify_equal(taken[i], 1, "every message was taken");
    }
    free(taken);
}

const char *group_threads_unfit(void)
{
    if (verify.thread_level != MPI_THREAD_MULTIPLE) {
        return "needs --thread-level multiple";
    }
    return verify.thread_level_given < MPI_THREAD_MULTIPLE
               ? "this MPI library has no MPI_THREAD_MULTIPLE"
               : NULL;
}

void group_threads(void)
{
    verify_step("exchange, one communicator");
    run(exchange, verify_repeat(25), false);
    verify_step("exchange, a communicator each");
    run(exchange, verify_repeat(25), true);
    verify_step("blocking calls");
    run(blocking, verify_repeat(25), false);
    verify_step("race for messages");
    race_for_messages(verify_repeat(50));
}
