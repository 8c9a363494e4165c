/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * nic-stream: throughput of a stream of messages from rank 0 to rank 1.
 *
 * nic-stream BYTES IN_FLIGHT SECONDS
 *
 * IN_FLIGHT messages are always in flight: the receiver posts a new receive as soon as the oldest
 * is complete, without telling the sender. Every second, it prints the number of messages received,
 * and at the end the rate after the first IN_FLIGHT messages, in MB of 10^6 bytes.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define IN_FLIGHT_MAX 256

static MPI_Request requests[IN_FLIGHT_MAX];
static char *memory;
static int bytes, in_flight;

/* Send until the time is up, then send one empty message per posted receive. */
static void send_all(double seconds)
{
    double start = MPI_Wtime();
    for (int i = 0; MPI_Wtime() - start < seconds; i = (i + 1) % in_flight) {
        MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
        MPI_Isend(memory + (size_t)i * (size_t)bytes, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD,
                  &requests[i]);
    }
    MPI_Waitall(in_flight, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < in_flight; i++) {
        MPI_Send(NULL, 0, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
    }
}

static void post(int i)
{
    MPI_Irecv(memory + (size_t)i * (size_t)bytes, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD,
              &requests[i]);
}

static void receive_all(void)
{
    double start = MPI_Wtime(), said = start, begin = start, end = start;
    long count = 0;
    for (int i = 0; i < in_flight; i++) {
        post(i);
    }
    for (int i = 0, empty = 0; empty < in_flight; i = (i + 1) % in_flight) {
        MPI_Status status;
        int came;
        MPI_Wait(&requests[i], &status);
        MPI_Get_count(&status, MPI_BYTE, &came);
        if (came == 0) {
            empty++;
            continue;
        }
        end = MPI_Wtime();
        begin = ++count == in_flight ? end : begin;
        post(i);
        if (end - said >= 1) {
            said = end;
            printf("%.0f s: %ld messages\n", end - start, count);
            fflush(stdout);
        }
    }
    if (count <= in_flight) {
        printf("too few messages for a rate: %ld in %.1f s\n", count, end - start);
    } else {
        printf("rate: %.2f MB/s\n", (double)(count - in_flight) * bytes / (end - begin) / 1e6);
    }
}

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    bytes = argc == 4 ? atoi(argv[1]) : 0;
    in_flight = argc == 4 ? atoi(argv[2]) : 0;
    if (bytes < 1 || in_flight < 1 || in_flight > IN_FLIGHT_MAX || size != 2) {
        fprintf(stderr, "usage: mpirun -np 2 nic-stream BYTES IN_FLIGHT SECONDS\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    memory = calloc((size_t)in_flight, (size_t)bytes);
    if (memory == NULL) {
        fprintf(stderr, "nic-stream: no memory for %d messages of %d bytes\n", in_flight, bytes);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (int i = 0; i < in_flight; i++) {
        requests[i] = MPI_REQUEST_NULL;
    }
    if (rank == 0) {
        send_all(atof(argv[3]));
    } else {
        receive_all();
    }
    MPI_Finalize();
    free(memory);
    return 0;
}
