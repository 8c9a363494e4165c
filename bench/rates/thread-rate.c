/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * thread-rate: messages a second from rank 0 to rank 1, sent by one thread or several.
 *
 * thread-rate THREADS BYTES SECONDS
 *
 * Each thread has its own communicator, and sends WINDOW messages to the thread with its number,
 * which answers with one. All run under MPI_THREAD_MULTIPLE.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 64, THREADS_MAX = 64, BYTES_MAX = 4096, ROUNDS = 16 };

struct worker {
    pthread_t thread;
    MPI_Comm comm;
    double messages;
    char data[WINDOW][BYTES_MAX];
};

static struct worker workers[THREADS_MAX];
static int rank, bytes;
static double seconds;

static void round_trip(struct worker *worker)
{
    MPI_Request requests[WINDOW];

    for (int i = 0; i < WINDOW; i++) {
        if (rank == 0) {
            MPI_Isend(worker->data[i], bytes, MPI_BYTE, 1, 1, worker->comm, &requests[i]);
        } else {
            MPI_Irecv(worker->data[i], bytes, MPI_BYTE, 0, 1, worker->comm, &requests[i]);
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
        for (int i = 0; i < ROUNDS; i++) {
            round_trip(worker);
        }
        worker->messages += ROUNDS * WINDOW;
        ends = MPI_Wtime() - start >= seconds; /* rank 0's clock decides */
        MPI_Bcast(&ends, 1, MPI_INT, 0, worker->comm);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int given, threads = argc == 4 ? atoi(argv[1]) : 0;
    double messages = 0, start;

    bytes = argc == 4 ? atoi(argv[2]) : 0;
    seconds = argc == 4 ? atof(argv[3]) : 0;
    if (threads < 1 || threads > THREADS_MAX || bytes < 0 || bytes > BYTES_MAX || !(seconds > 0)) {
        fprintf(stderr, "usage: thread-rate THREADS BYTES SECONDS\n");
        return 2;
    }
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &given);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (given < MPI_THREAD_MULTIPLE) {
        fprintf(stderr, "thread-rate: this MPI library has no MPI_THREAD_MULTIPLE\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (int i = 0; i < threads; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &workers[i].comm);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    for (int i = 1; i < threads; i++) {
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0) {
            fprintf(stderr, "thread-rate: cannot start thread %d\n", i);
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
    MPI_Finalize();
    return 0;
}
