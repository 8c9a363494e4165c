/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * rawe-resend: many small messages both ways between pairs of ranks, every byte checked, with ranks
 * that now and then compute without MPI calls. It says nothing about frames by itself: the
 * component's counters (btl_rawe_stats) tell whether any was sent twice.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "compute.h"

#include <getopt.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The command line. */
struct options {
    uint64_t messages;      /* in all, over all ranks */
    uint64_t compute_every; /* messages of a pair between two computations; 0 is never */
    double compute_seconds;
    int window; /* messages in flight each way */
    int bytes;
};

static struct options options = {
    .messages = 1000000, .compute_every = 0, .compute_seconds = 2, .window = 64, .bytes = 64};

static int rank, size;

static void usage(FILE *out)
{
    fprintf(out,
            "usage: mpirun -np <even number> ... rawe-resend [options]\n"
            "\n"
            "Exchanges small messages between rank r and rank r + n/2 and checks each byte.\n"
            "\n"
            "  --messages N         how many in all (default 1000000)\n"
            "  --window N           in flight each way (default 64; 1 is one message a frame)\n"
            "  --bytes N            length of a message, 1 to 65536 (default 64)\n"
            "  --compute-every N    after N messages of a pair one of its ranks computes, in turn\n"
            "                       (default 0: never)\n"
            "  --compute-seconds S  for how long (default 2)\n");
}

/* Reads a whole number within bounds, or ends the program. */
static uint64_t read_integer(const char *name, const char *text, uint64_t least, uint64_t most)
{
    char *end;
    unsigned long long number = strtoull(text, &end, 10);

    if (end == text || *end != '\0' || *text == '-' || number < least || number > most) {
        fprintf(stderr, "rawe-resend: --%s: '%s' is not a whole number from %llu to %llu\n", name,
                text, (unsigned long long)least, (unsigned long long)most);
        exit(2);
    }
    return number;
}

static void options_read(int argc, char **argv)
{
    static const struct option known[] = {
        {"messages", required_argument, NULL, 'm'},
        {"window", required_argument, NULL, 'w'},
        {"bytes", required_argument, NULL, 'b'},
        {"compute-every", required_argument, NULL, 'e'},
        {"compute-seconds", required_argument, NULL, 's'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    char *end;
    int option;

    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        switch (option) {
        case 'm':
            options.messages = read_integer("messages", optarg, 1, UINT64_MAX / 4);
            break;
        case 'w':
            options.window = (int)read_integer("window", optarg, 1, 65536);
            break;
        case 'b':
            options.bytes = (int)read_integer("bytes", optarg, 1, 65536);
            break;
        case 'e':
            options.compute_every = read_integer("compute-every", optarg, 0, UINT64_MAX / 4);
            break;
        case 's':
            options.compute_seconds = strtod(optarg, &end);
            if (end == optarg || *end != '\0' || !(options.compute_seconds >= 0)) {
                fprintf(stderr, "rawe-resend: --compute-seconds: '%s' is not a number of seconds\n",
                        optarg);
                exit(2);
            }
            break;
        case 'h':
            usage(stdout);
            exit(0);
        default:
            usage(stderr);
            exit(2);
        }
    }
    if (optind < argc) {
        fprintf(stderr, "rawe-resend: '%s' is not an option; see --help\n", argv[optind]);
        exit(2);
    }
}

/* Writes message `sequence` of a source: each eight bytes differ from all others of the run. */
static void fill(unsigned char *data, int source, uint64_t sequence)
{
    for (int at = 0; at < options.bytes; at += 8) {
        uint64_t z = (sequence << 13 | (uint64_t)at / 8) * 0x9E3779B97F4A7C15ull +
                     (uint64_t)(unsigned)source * 0xD1B54A32D192ED03ull;
        size_t len = options.bytes - at < 8 ? (size_t)(options.bytes - at) : 8;

        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
        z ^= z >> 27;
        memcpy(data + at, &z, len);
    }
}

static void check(const unsigned char *got, unsigned char *expected, int source, uint64_t sequence)
{
    fill(expected, source, sequence);
    for (int at = 0; at < options.bytes; at++) {
        if (got[at] != expected[at]) {
            fprintf(stderr,
                    "rawe-resend: FAIL rank %d: message %llu of rank %d, offset %d: expected "
                    "0x%02x got 0x%02x\n",
                    rank, (unsigned long long)sequence, source, at, expected[at], got[at]);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
}

/* One window each way. busy: this rank computes while its window is under way. */
static void exchange(unsigned char *send, unsigned char *receive, unsigned char *expected,
                     MPI_Request *requests, int peer, uint64_t first, int count, int busy)
{
    for (int i = 0; i < count; i++) {
        MPI_Irecv(receive + (size_t)i * (size_t)options.bytes, options.bytes, MPI_BYTE, peer, 0,
                  MPI_COMM_WORLD, &requests[i]);
    }
    for (int i = 0; i < count; i++) {
        unsigned char *data = send + (size_t)i * (size_t)options.bytes;

        fill(data, rank, first + (uint64_t)i);
        MPI_Isend(data, options.bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD, &requests[count + i]);
    }
    if (busy) {
        compute_for(options.compute_seconds);
    }
    MPI_Waitall(2 * count, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < count; i++) {
        check(receive + (size_t)i * (size_t)options.bytes, expected, peer, first + (uint64_t)i);
    }
}

/* Does this rank's share of the messages. Returns how often it computed. */
static uint64_t run(uint64_t share)
{
    size_t room = (size_t)options.window * (size_t)options.bytes;
    unsigned char *send = malloc(room), *receive = malloc(room);
    unsigned char *expected = malloc((size_t)options.bytes);
    MPI_Request *requests = malloc(sizeof *requests * 2 * (size_t)options.window);
    uint64_t done = 0, turns = 0, computed = 0;

    if (send == NULL || receive == NULL || expected == NULL || requests == NULL) {
        fprintf(stderr, "rawe-resend: no memory for %zu bytes a window: lower --window\n", room);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    while (done < share) {
        int count = share - done < (uint64_t)options.window ? (int)(share - done) : options.window;
        /* done counts one direction, compute_every both. */
        int due = options.compute_every > 0 && 2 * done >= (turns + 1) * options.compute_every;
        int busy = due && (int)(turns % 2) == (rank >= size / 2);

        memset(receive, 0xB5, room);
        exchange(send, receive, expected, requests, (rank + size / 2) % size, done, count, busy);
        done += (uint64_t)count;
        turns += (uint64_t)due;
        computed += (uint64_t)busy;
    }
    free(send);
    free(receive);
    free(expected);
    free(requests);
    return computed;
}

int main(int argc, char **argv)
{
    uint64_t share, computed, sums = 0;
    double start;

    options_read(argc, argv);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size % 2 != 0) {
        if (rank == 0) {
            fprintf(stderr, "rawe-resend: needs an even number of ranks, not %d\n", size);
        }
        MPI_Finalize();
        return 2;
    }
    share = (options.messages + (uint64_t)size - 1) / (uint64_t)size;
    start = MPI_Wtime();
    computed = run(share);
    MPI_Reduce(&computed, &sums, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("rawe-resend: %d ranks, %llu messages of %d bytes, %llu computations, %.1f s, OK\n",
               size, (unsigned long long)(share * (uint64_t)size), options.bytes,
               (unsigned long long)sums, MPI_Wtime() - start);
    }
    MPI_Finalize();
    return 0;
}
