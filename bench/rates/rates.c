/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rates: messages during computation, messages of several threads, and one-sided operations.
 *
 * rates WHAT SIZE SECONDS
 *
 * sender, receiver, both: rank 0 sends a message of SIZE bytes to rank 1 without blocking.
 * Meanwhile WHAT computes for COMPUTE_S, then waits. The result is the time of the message on the
 * rank that does not compute or, if both do, the time that rank 1 waits after its computation.
 *
 * bcast, alltoall, allreduce: both ranks start the nonblocking collective, compute for as long as
 * it takes alone, then wait. The result is the overlap as IMB-NBC defines it: (alone + computing -
 * together) / min(alone, computing), with the time of the last rank in each round. Blocks of ten
 * rounds with and without computing alternate.
 *
 * threads: rank 0 sends messages of 8 bytes to rank 1 from SIZE threads. Each has its own
 * communicator, and sends WINDOW messages to the thread with its number, which answers with one.
 *
 * put, get, accumulate, fetch (MPI_Fetch_and_op, 8 bytes): rank 0 accesses SIZE bytes at a time in
 * the memory of rank 1, which waits in a barrier. The operations of a burst use different places,
 * and are then flushed together.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double COMPUTE_S = 0.04;

enum kind {
    SENDER,
    RECEIVER,
    BOTH,
    BCAST,
    ALLTOALL,
    ALLREDUCE,
    THREADS,
    PUT,
    GET,
    ACCUMULATE,
    FETCH,
    KINDS
};

static const char *const names[KINDS] = {"sender",   "receiver",   "both",    "bcast",
                                         "alltoall", "allreduce",  "threads", "put",
                                         "get",      "accumulate", "fetch"};

enum {
    BLOCK = 10,
    ROUNDS_MAX = 100 * BLOCK,
    WINDOW = 64,
    THREADS_MAX = 64,
    MESSAGE_BYTES = 8,
    ROUND_TRIPS = 16, /* per reading of the clock */
    MEMORY_BYTES = 4 << 20,
    PLACES = 32
};

static int rank;
static double seconds;

static void compute(double duration)
{
    double end = MPI_Wtime() + duration;

    while (MPI_Wtime() < end) {
    }
}

/* Start an operation. `to` and `from` have room for two messages. */
static MPI_Request start(enum kind kind, char *to, char *from, int bytes)
{
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_Request request;

    if (kind == BCAST) {
        MPI_Ibcast(to, bytes, MPI_BYTE, 0, world, &request);
    } else if (kind == ALLTOALL) {
        MPI_Ialltoall(from, bytes, MPI_BYTE, to, bytes, MPI_BYTE, world, &request);
    } else if (kind == ALLREDUCE) {
        MPI_Iallreduce(from, to, bytes / (int)sizeof(float), MPI_FLOAT, MPI_SUM, world, &request);
    } else if (rank == 0) {
        MPI_Isend(from, bytes, MPI_BYTE, 1, 0, world, &request);
    } else {
        MPI_Irecv(to, bytes, MPI_BYTE, 0, 0, world, &request);
    }
    return request;
}

/* Return the seconds that one round takes; for a collective, on the slowest rank. */
static double round_of(enum kind kind, double compute_s, char *to, char *from, int bytes)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    MPI_Request request = start(kind, to, from, bytes);
    if (compute_s > 0) {
        compute(compute_s);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    double mine = MPI_Wtime() - begin, longest = mine;
    if (kind >= BCAST) {
        MPI_Allreduce(&mine, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    }
    return longest;
}

static int by_value(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;

    return (left > right) - (left < right);
}

static double median(double *times, int rounds)
{
    qsort(times, (size_t)rounds, sizeof(double), by_value);
    return times[rounds / 2];
}

static void run_overlap(enum kind kind, int bytes)
{
    static double times[2][ROUNDS_MAX];
    int rounds = 0, go = 1;

    char *to = calloc(2, (size_t)bytes), *from = calloc(2, (size_t)bytes);
    int judge = kind == RECEIVER ? 0 : 1;
    int computes = kind >= BOTH || rank == (int)kind;
    double compute_s = COMPUTE_S;
    for (int i = 0; i < 20; i++) {
        times[0][i] = round_of(kind, 0, to, from, bytes); /* open connections */
    }
    if (kind >= BCAST) {
        compute_s = median(times[0], 20); /* equal on both ranks */
    }
    double end = MPI_Wtime() + seconds;
    while (go) {
        for (int computing = 0; computing < 2; computing++) {
            double pause_s = computing && computes ? compute_s : 0;
            for (int i = rounds; i < rounds + BLOCK; i++) {
                times[computing][i] = round_of(kind, pause_s, to, from, bytes);
            }
        }
        rounds += BLOCK;
        go = rounds < ROUNDS_MAX && MPI_Wtime() < end;
        MPI_Bcast(&go, 1, MPI_INT, judge, MPI_COMM_WORLD);
    }
    if (rank == judge) {
        double alone = median(times[0], rounds), together = median(times[1], rounds);
        if (kind >= BCAST) {
            double overlap =
                (alone + compute_s - together) / (alone < compute_s ? alone : compute_s);
            overlap = overlap < 0 ? 0 : overlap > 1 ? 1 : overlap;
            printf("waiting: %.1f us\noverlap: %.3f us\n", alone * 1e6, overlap);
        } else {
            double before = computes ? compute_s : 0;
            printf("waiting: %.1f us\ncomputing: %.1f us, at most %.1f\n", alone * 1e6,
                   (together - before) * 1e6, (times[1][rounds - 1] - before) * 1e6);
        }
    }
    free(to);
    free(from);
}

struct worker {
    pthread_t thread;
    MPI_Comm comm;
    double messages;
    char data[WINDOW][MESSAGE_BYTES];
};

static struct worker workers[THREADS_MAX];

static void round_trip(struct worker *worker)
{
    MPI_Request requests[WINDOW];

    for (int i = 0; i < WINDOW; i++) {
        if (rank == 0) {
            MPI_Isend(worker->data[i], MESSAGE_BYTES, MPI_BYTE, 1, 1, worker->comm, &requests[i]);
        } else {
            MPI_Irecv(worker->data[i], MESSAGE_BYTES, MPI_BYTE, 0, 1, worker->comm, &requests[i]);
        }
    }
    MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
    if (rank == 0) {
        MPI_Recv(NULL, 0, MPI_BYTE, 1, 2, worker->comm, MPI_STATUS_IGNORE);
    } else {
        MPI_Send(NULL, 0, MPI_BYTE, 0, 2, worker->comm);
    }
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    double start = MPI_Wtime();
    int ends = 0;

    while (!ends) {
        for (int i = 0; i < ROUND_TRIPS; i++) {
            round_trip(worker);
        }
        worker->messages += ROUND_TRIPS * WINDOW;
        ends = MPI_Wtime() - start >= seconds; /* rank 0's clock decides */
        MPI_Bcast(&ends, 1, MPI_INT, 0, worker->comm);
    }
    return NULL;
}

static void run_threads(int threads)
{
    double messages = 0;

    for (int i = 0; i < threads; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &workers[i].comm);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (int i = 1; i < threads; i++) {
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0) {
            fprintf(stderr, "rates: cannot start thread %d\n", i);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
    work(&workers[0]);
    for (int i = 0; i < threads; i++) {
        if (i != 0) {
            pthread_join(workers[i].thread, NULL);
        }
        messages += workers[i].messages;
        MPI_Comm_free(&workers[i].comm);
    }
    if (rank == 0) {
        printf("messages a second: %.0f\n", messages / (MPI_Wtime() - start));
    }
}

/* Return the number of operations between two flushes. */
static int burst_of(enum kind operation, int bytes)
{
    int burst = bytes > 4096 ? 16 : 256;

    return operation == PUT || operation == GET ? burst : burst / 8 + 2;
}

static void operate(enum kind operation, int bytes, int number, char *data, MPI_Win win)
{
    MPI_Aint at = (MPI_Aint)(number % PLACES) * 2 * bytes % (MEMORY_BYTES - bytes);

    switch (operation) {
    case PUT:
        MPI_Put(data + at, bytes, MPI_BYTE, 1, at, bytes, MPI_BYTE, win);
        break;
    case GET:
        MPI_Get(data + at, bytes, MPI_BYTE, 1, at, bytes, MPI_BYTE, win);
        break;
    case ACCUMULATE:
        MPI_Accumulate(data + at, bytes / 8, MPI_INT64_T, 1, at, bytes / 8, MPI_INT64_T, MPI_SUM,
                       win);
        break;
    default:
        MPI_Fetch_and_op(data, data + 64, MPI_INT64_T, 1, 0, MPI_SUM, win);
        break;
    }
}

/* Return the number of operations per second. */
static double measure(enum kind operation, int bytes, double duration, char *data, MPI_Win win)
{
    int burst = burst_of(operation, bytes);
    double done = 0, begin, passed;

    MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win);
    begin = MPI_Wtime();
    do {
        for (int i = 0; i < burst; i++) {
            operate(operation, bytes, i, data, win);
        }
        MPI_Win_flush(1, win);
        done += burst;
        passed = MPI_Wtime() - begin;
    } while (passed < duration);
    MPI_Win_unlock(1, win);
    return done / passed;
}

static void run_operation(enum kind operation, int bytes)
{
    char *memory;
    MPI_Win win;

    MPI_Win_allocate(MEMORY_BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    memset(memory, 0, MEMORY_BYTES);
    char *data = calloc(1, MEMORY_BYTES);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        (void)measure(operation, bytes, seconds / 4, data, win); /* open connections */
        printf("operations a second: %.0f\n", measure(operation, bytes, seconds, data, win));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    free(data);
    MPI_Win_free(&win);
}

int main(int argc, char **argv)
{
    int ranks, given = 0;
    enum kind kind = 0;

    while (argc > 1 && kind < KINDS && strcmp(argv[1], names[kind]) != 0) {
        kind++;
    }
    MPI_Init_thread(&argc, &argv, kind == THREADS ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE,
                    &given);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int size = argc > 2 ? atoi(argv[2]) : 0;
    int most = kind < THREADS ? INT32_MAX : kind == THREADS ? THREADS_MAX : MEMORY_BYTES / 2;
    seconds = argc > 3 ? atof(argv[3]) : 0;
    if (argc != 4 || ranks != 2 || kind == KINDS || size < 1 || size > most || !(seconds > 0) ||
        (kind > THREADS && size % 8 != 0)) {
        fprintf(stderr, "usage: mpirun -np 2 rates WHAT SIZE SECONDS; WHAT is one of");
        for (int i = 0; i < KINDS; i++) {
            fprintf(stderr, " %s", names[i]);
        }
        fprintf(stderr, "\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    if (kind == THREADS && given < MPI_THREAD_MULTIPLE) {
        fprintf(stderr, "rates: this MPI library has no MPI_THREAD_MULTIPLE\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (kind < THREADS) {
        run_overlap(kind, size);
    } else if (kind == THREADS) {
        run_threads(size);
    } else {
        run_operation(kind, size);
    }
    MPI_Finalize();
    return 0;
}
