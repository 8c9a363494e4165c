/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * away: what happens while a process is outside of MPI. Rank 0 sends rank 1 a burst of messages,
 * then
 *
 *   sender    rank 0 stays away from MPI for SECONDS; rank 1 says whether it had the whole
 *             burst before rank 0 came back. Both must be on one machine, whose clock they ask.
 *   blocking  the same after MPI_Send of each message: what is complete must not depend on MPI
 *   receiver  rank 1 stays away, and receives the burst afterwards
 *   put       the burst is one long message, which is PUT. Rank 1 stays away once it has named the
 *             memory for it, and says whether rank 0 was done before rank 1 came back
 *
 * Usage: away sender|blocking|receiver|put SECONDS COUNT BYTES. Every byte is checked.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static unsigned char expected(int message, int at)
{
    return (unsigned char)(message * 31 + at * 7 + at / 256);
}

static void stay_away(double seconds)
{
    struct timespec pause = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};

    while (nanosleep(&pause, &pause) != 0) {
    }
}

/** Seconds on the machine's clock. */
static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void send_burst(unsigned char *buffers, MPI_Request *requests, int count, int bytes,
                       int blocking)
{
    for (int i = 0; i < count; i++) {
        unsigned char *buffer = buffers + (size_t)i * (size_t)bytes;
        for (int k = 0; k < bytes; k++) {
            buffer[k] = expected(i, k);
        }
        if (blocking) {
            MPI_Send(buffer, bytes, MPI_BYTE, 1, 5, MPI_COMM_WORLD);
            requests[i] = MPI_REQUEST_NULL;
        } else {
            MPI_Isend(buffer, bytes, MPI_BYTE, 1, 5, MPI_COMM_WORLD, &requests[i]);
        }
    }
}

static void check(const unsigned char *buffer, int message, int bytes)
{
    for (int k = 0; k < bytes; k++) {
        if (buffer[k] != expected(message, k)) {
            fprintf(stderr, "away: message %d is wrong at byte %d\n", message, k);
            MPI_Abort(MPI_COMM_WORLD, 4);
        }
    }
}

static void receive_burst(unsigned char *buffer, int count, int bytes)
{
    for (int i = 0; i < count; i++) {
        memset(buffer, 0, (size_t)bytes);
        MPI_Recv(buffer, bytes, MPI_BYTE, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        check(buffer, i, bytes);
    }
}

/** Rank 1 has matched the long message and asked for its data once it has the short one behind. */
static void put_to_receiver_away(int rank, unsigned char *buffer, int bytes, double seconds)
{
    MPI_Request request;
    double done, back;
    char go = 0;

    if (rank == 0) {
        send_burst(buffer, &request, 1, bytes, 0);
        MPI_Send(&go, 1, MPI_CHAR, 1, 7, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        done = now();
        MPI_Send(&done, 1, MPI_DOUBLE, 1, 6, MPI_COMM_WORLD);
        return;
    }
    memset(buffer, 0, (size_t)bytes);
    MPI_Irecv(buffer, bytes, MPI_BYTE, 0, 5, MPI_COMM_WORLD, &request);
    MPI_Recv(&go, 1, MPI_CHAR, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    stay_away(seconds);
    back = now();
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    check(buffer, 0, bytes);
    MPI_Recv(&done, 1, MPI_DOUBLE, 0, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    printf("sent %s the receiver was back\n", done < back ? "before" : "after");
}

int main(int argc, char **argv)
{
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc != 5) {
        fprintf(stderr, "usage: away sender|blocking|receiver|put SECONDS COUNT BYTES\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    const int blocking = strcmp(argv[1], "blocking") == 0;
    const int sender_away = blocking || strcmp(argv[1], "sender") == 0;
    const double seconds = atof(argv[2]);
    const int count = atoi(argv[3]), bytes = atoi(argv[4]);
    unsigned char *buffers = malloc((size_t)count * (size_t)bytes);
    MPI_Request *requests = malloc((size_t)count * sizeof *requests);

    /* Connections are made, and batches tried, before it matters. */
    for (int i = 0; i < 3; i++) {
        if (rank == 0) {
            send_burst(buffers, requests, 1, bytes, 0);
            MPI_Waitall(1, requests, MPI_STATUSES_IGNORE);
        } else {
            receive_burst(buffers, 1, bytes);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (strcmp(argv[1], "put") == 0) {
        put_to_receiver_away(rank, buffers, bytes, seconds);
    } else if (rank == 0) {
        send_burst(buffers, requests, count, bytes, blocking);
        if (sender_away) {
            stay_away(seconds);
        }
        const double back = now();
        MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
        MPI_Send(&back, 1, MPI_DOUBLE, 1, 6, MPI_COMM_WORLD);
    } else {
        double back;
        if (!sender_away) {
            stay_away(seconds);
        }
        receive_burst(buffers, count, bytes);
        const double complete = now();
        MPI_Recv(&back, 1, MPI_DOUBLE, 0, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        printf("received %s the sender was back\n", complete < back ? "before" : "after");
    }
    MPI_Finalize();
    free(buffers);
    free(requests);
    return 0;
}
