/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * bursts: rank r and rank r + n/2 send each other windows of messages; every byte is checked.
 *
 * Usage: bursts MESSAGES BYTES WINDOW: how many in all, how long, how many in flight each way.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/** Each eight bytes differ from all others that a rank sends. */
static void fill(unsigned char *data, int bytes, int source, long long number)
{
    for (int at = 0; at < bytes; at += 8) {
        unsigned long long word =
            (unsigned long long)(number << 13 | at / 8) * 0x9E3779B97F4A7C15u +
            (unsigned long long)source * 0xD1B54A32D192ED03u;
        word ^= word >> 30;
        memcpy(data + at, &word, (size_t)(bytes - at < 8 ? bytes - at : 8));
    }
}

int main(int argc, char **argv)
{
    int rank, size;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const long long messages = atoll(argv[1]) / size;
    const int bytes = atoi(argv[2]), window = atoi(argv[3]), peer = (rank + size / 2) % size;
    unsigned char *out = malloc((size_t)window * (size_t)bytes);
    unsigned char *in = malloc((size_t)window * (size_t)bytes), *expected = malloc((size_t)bytes);
    MPI_Request *requests = malloc(2 * sizeof *requests * (size_t)window);

    for (long long done = 0; done < messages; done += window) {
        memset(in, 0xB5, (size_t)window * (size_t)bytes);
        for (int i = 0; i < window; i++) {
            MPI_Irecv(in + i * bytes, bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD, &requests[i]);
        }
        for (int i = 0; i < window; i++) {
            fill(out + i * bytes, bytes, rank, done + i);
            MPI_Isend(out + i * bytes, bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD,
                      &requests[window + i]);
        }
        MPI_Waitall(2 * window, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < window; i++) {
            fill(expected, bytes, peer, done + i);
            if (memcmp(in + i * bytes, expected, (size_t)bytes) != 0) {
                fprintf(stderr, "rank %d: message %lld is wrong\n", rank, done + i);
                MPI_Abort(MPI_COMM_WORLD, 1);
            }
        }
    }
    MPI_Finalize();
    free(out);
    free(in);
    free(expected);
    free(requests);
    return 0;
}
