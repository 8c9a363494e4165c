/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * numbered: rank r sends messages with one tag to rank r + n/2, which checks their order and every
 * byte. The receivers compute four times, first before they receive. Then all ranks reduce.
 *
 * Usage: numbered MESSAGES BYTES WINDOW AWAY_MS REDUCTIONS: messages to each receiver; their
 * length, 0 for a mixture of 4 B to 100 kB; outstanding sends; duration of a computation;
 * MPI_Reduces.
 */
#include <mpi.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIXED_BYTES 100000u

static unsigned messages, length, window, away_ms;
static int rank;

static unsigned length_of(unsigned number)
{
    static const unsigned mixed[] = {4, 200, 8, 1400, 40, 5000, 16, 64, 100, MIXED_BYTES};
    /* Few are long: most messages must be able to overtake each other. */
    return length != 0 ? length : mixed[number % (number % 100 == 9 ? 10 : 9)];
}

static void fill(uint8_t *data, unsigned number)
{
    unsigned bytes = length_of(number);
    for (unsigned i = 4; i < bytes; i++) {
        data[i] = (uint8_t)(number * 7u + i);
    }
    memcpy(data, &number, sizeof(number));
}

static void fail(const char *what, unsigned number)
{
    fprintf(stderr, "rank %d: message %u: %s\n", rank, number, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void compute(void)
{
    double end = MPI_Wtime() + away_ms / 1000.0;
    while (MPI_Wtime() < end) {
    }
}

static void *allocate(size_t bytes)
{
    void *memory = malloc(bytes);
    if (memory == NULL) {
        abort();
    }
    return memory;
}

static void send_all(int to)
{
    size_t room = length != 0 ? length : MIXED_BYTES;
    uint8_t *data = allocate(room * window);
    MPI_Request *requests = allocate(window * sizeof(*requests));
    for (unsigned number = 0; number < messages; number++) {
        unsigned slot = number % window;
        uint8_t *message = data + slot * room;
        if (number >= window) {
            MPI_Wait(&requests[slot], MPI_STATUS_IGNORE);
        }
        fill(message, number);
        MPI_Isend(message, (int)length_of(number), MPI_BYTE, to, 7, MPI_COMM_WORLD,
                  &requests[slot]);
    }
    MPI_Waitall((int)(messages < window ? messages : window), requests, MPI_STATUSES_IGNORE);
    free(requests);
    free(data);
}

static void receive_all(int from)
{
    static uint8_t data[MIXED_BYTES], right[MIXED_BYTES];
    for (unsigned number = 0; number < messages; number++) {
        MPI_Status status;
        int bytes;
        if (number % (messages / 4 + 1) == 0) {
            compute();
        }
        MPI_Recv(data, (int)sizeof(data), MPI_BYTE, from, 7, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_BYTE, &bytes);
        fill(right, number);
        if ((unsigned)bytes != length_of(number) || memcmp(data, right, (size_t)bytes) != 0) {
            fail("another came in its place, or a changed one", number);
        }
    }
}

static void reduce(unsigned reductions, int size)
{
    for (unsigned i = 0; i < reductions; i++) {
        unsigned mine = i + (unsigned)rank, sum = 0;
        MPI_Reduce(&mine, &sum, 1, MPI_UNSIGNED, MPI_SUM, 0, MPI_COMM_WORLD);
        if (rank == 0 && sum != i * (unsigned)size + (unsigned)(size * (size - 1) / 2)) {
            fail("is a wrong sum", i);
        }
    }
}

int main(int argc, char **argv)
{
    int size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc != 6 || size % 2 != 0) {
        fprintf(stderr, "numbered MESSAGES BYTES WINDOW AWAY_MS REDUCTIONS, on 2n ranks\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    messages = (unsigned)strtoul(argv[1], NULL, 10);
    length = (unsigned)strtoul(argv[2], NULL, 10);
    window = (unsigned)strtoul(argv[3], NULL, 10);
    away_ms = (unsigned)strtoul(argv[4], NULL, 10);
    /* Connect all ranks over all interfaces, before one is pulled. */
    reduce(10, size);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        printf("begins\n");
        fflush(stdout);
    }
    if (rank < size / 2) {
        send_all(rank + size / 2);
    } else {
        receive_all(rank - size / 2);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    reduce((unsigned)strtoul(argv[5], NULL, 10), size);
    MPI_Finalize();
    return 0;
}
