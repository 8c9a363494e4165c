/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * --soak: messages of all sizes between all ranks for a given time, in one or several threads.
 * Memory and descriptors of the processes must not grow.
 */
#include "verify.h"

#include <glob.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WARM_UP_SHARE 0.25    /* of the time: free lists and windows may grow in it */
#define WARM_UP_ROUNDS 32     /* the least, however slow the machine is */
#define GROWTH_LEAST_KB 8192L /* allowed growth of memory afterwards: rawe stores up to 8 MiB */
#define GROWTH_PER_CENT 2L    /* allowed growth relative to the memory before */
#define ROUNDS_PER_CHECK 8    /* rounds per check of the clock: ranks must agree on the end */

/** A thread of a rank, which communicates with the corresponding threads of all other ranks. */
struct soak {
    int number;    /* 0 is the main thread, which reports for all threads */
    MPI_Comm comm; /* communicator of this thread number */
    uint64_t round;
    unsigned char *out, *in; /* room for a message to and from each rank */
    pthread_t thread;
};

/** Resident memory in kB and open descriptors of this process. */
struct footprint {
    long resident_kb;
    long descriptors;
};

static struct footprint read_footprint(void)
{
    struct footprint footprint;
    long pages, resident;
    glob_t descriptors;
    FILE *file = fopen("/proc/self/statm", "r");

    if (file == NULL || fscanf(file, "%ld %ld", &pages, &resident) != 2 ||
        glob("/proc/self/fd/*", GLOB_NOSORT, NULL, &descriptors) != 0) {
        verify_fail("/proc/self cannot be read: is /proc mounted?");
    }
    footprint.resident_kb = resident * (sysconf(_SC_PAGESIZE) / 1024);
    footprint.descriptors = (long)descriptors.gl_pathc;
    globfree(&descriptors);
    fclose(file);
    return footprint;
}

/* Fail if the footprint has grown more than allowed since the warm-up. */
static void check_growth(const struct footprint *before)
{
    struct footprint after = read_footprint();
    long allowed_kb = before->resident_kb * GROWTH_PER_CENT / 100;

    if (allowed_kb < GROWTH_LEAST_KB) {
        allowed_kb = GROWTH_LEAST_KB;
    }
    if (after.resident_kb > before->resident_kb + allowed_kb) {
        verify_fail("resident memory has grown from %ld kB to %ld kB", before->resident_kb,
                    after.resident_kb);
    }
    if (after.descriptors > before->descriptors) {
        verify_fail("open descriptors have grown from %ld to %ld", before->descriptors,
                    after.descriptors);
    }
}

/* Return the size of this round's message. All ranks return the same. */
static size_t size_of(const struct soak *soak, int source, int dest)
{
    uint64_t ranks = (uint64_t)verify.size;

    return verify_random_size((uint64_t)soak->number,
                              (soak->round * ranks + (uint64_t)source) * ranks + (uint64_t)dest,
                              verify.max_bytes);
}

/* Exchange messages of one random size between all ranks. */
static void run_round(struct soak *soak)
{
    MPI_Request *requests = malloc(2 * sizeof(MPI_Request) * (size_t)verify.size);

    memset(soak->in, VERIFY_POISON, verify.max_bytes * (size_t)verify.size);
    for (int i = 0; i < verify.size; i++) {
        int peer = (verify.rank + i) % verify.size;
        size_t at = verify.max_bytes * (size_t)peer, out = size_of(soak, verify.rank, peer);

        verify_fill(soak->out + at, out, verify_id(verify.rank, peer, soak->number, soak->round),
                    0);
        MPI_Irecv(soak->in + at, (int)size_of(soak, peer, verify.rank), MPI_BYTE, peer, VERIFY_TAG,
                  soak->comm, &requests[2 * i]);
        MPI_Isend(soak->out + at, (int)out, MPI_BYTE, peer, VERIFY_TAG, soak->comm,
                  &requests[2 * i + 1]);
    }
    MPI_Waitall(2 * verify.size, requests, MPI_STATUSES_IGNORE);
    free(requests);
    for (int peer = 0; peer < verify.size; peer++) {
        verify_check(soak->in + verify.max_bytes * (size_t)peer, size_of(soak, peer, verify.rank),
                     verify_id(peer, verify.rank, soak->number, soak->round));
    }
    soak->round++;
}

/* Print a line about the soak so far. All ranks call it. */
static void report(const struct soak *soak, double elapsed)
{
    static double bytes;
    struct footprint mine = read_footprint();
    double total;
    long most[2] = {mine.resident_kb, mine.descriptors}, all[2];

    bytes += (double)verify_counters_take().bytes;
    MPI_Reduce(&bytes, &total, 1, MPI_DOUBLE, MPI_SUM, 0, soak->comm);
    MPI_Reduce(most, all, 2, MPI_LONG, MPI_MAX, 0, soak->comm);
    if (verify.rank == 0) {
        printf("rawe-verify: %.0f s, %llu rounds, %.1f MB, %.1f MB/s, at most %ld kB resident, "
               "%ld descriptors\n",
               elapsed, (unsigned long long)soak->round, total / 1e6, total / 1e6 / elapsed, all[0],
               all[1]);
        fflush(stdout);
    }
}

/* Returns true once the time is up and the file that ends the soak, if any, exists. */
static bool is_over(const struct soak *soak, double elapsed)
{
    return elapsed >= verify.soak_seconds && soak->round >= 2 * WARM_UP_ROUNDS &&
           (verify.soak_until == NULL || access(verify.soak_until, F_OK) == 0);
}

static void say_started(const struct soak *soak)
{
    FILE *made = verify.soak_started != NULL && verify.rank == 0 && soak->number == 0
                     ? fopen(verify.soak_started, "w")
                     : NULL;

    if (made != NULL) {
        fclose(made);
    }
}

/* Run rounds until the time is up. */
static void *run(void *context)
{
    struct soak *soak = context;
    struct footprint warm = {0, 0};
    double next = verify.soak_interval, start;

    MPI_Barrier(soak->comm);
    say_started(soak);
    start = MPI_Wtime();
    for (;;) {
        double elapsed = MPI_Wtime() - start;
        double state[2] = {elapsed, is_over(soak, elapsed)}; /* rank 0's state decides */

        for (int i = 0; i < ROUNDS_PER_CHECK; i++) {
            run_round(soak);
        }
        MPI_Bcast(state, 2, MPI_DOUBLE, 0, soak->comm);
        elapsed = state[0];
        if (warm.descriptors == 0 && elapsed >= verify.soak_seconds * WARM_UP_SHARE &&
            soak->round >= WARM_UP_ROUNDS) {
            warm = read_footprint();
        }
        if (state[1] != 0) {
            break;
        }
        if (soak->number == 0 && elapsed >= next) {
            report(soak, elapsed);
            next = elapsed + verify.soak_interval;
        }
    }
    if (soak->number == 0) {
        report(soak, MPI_Wtime() - start);
        check_growth(&warm);
    }
    return NULL;
}

void verify_soak(void)
{
    struct soak *threads = calloc(verify.soak_threads, sizeof *threads);

    if (verify.soak_threads > 1 && verify.thread_level_given < MPI_THREAD_MULTIPLE) {
        verify_fail("this MPI library has no MPI_THREAD_MULTIPLE");
    }
    verify_group_enter("soak");
    alarm(0);                    /* --soak determines the duration */
    MPI_Barrier(MPI_COMM_WORLD); /* connects the ranks, so that no peer is unknown */
    for (unsigned i = 0; i < verify.soak_threads; i++) {
        threads[i].number = (int)i;
        MPI_Comm_dup(MPI_COMM_WORLD, &threads[i].comm);
        threads[i].out = malloc(verify.max_bytes * (size_t)verify.size);
        threads[i].in = malloc(verify.max_bytes * (size_t)verify.size);
        if (threads[i].out == NULL || threads[i].in == NULL) {
            verify_fail("no memory for %d messages of %zu bytes", verify.size, verify.max_bytes);
        }
    }
    for (unsigned i = 1; i < verify.soak_threads; i++) {
        if (pthread_create(&threads[i].thread, NULL, run, &threads[i]) != 0) {
            verify_fail("cannot start thread %u", i);
        }
    }
    run(&threads[0]);
    for (unsigned i = 0; i < verify.soak_threads; i++) {
        if (i > 0) {
            pthread_join(threads[i].thread, NULL);
        }
        MPI_Comm_free(&threads[i].comm);
        free(threads[i].out);
        free(threads[i].in);
    }
    free(threads);
    MPI_Barrier(MPI_COMM_WORLD);
    if (verify.rank == 0) {
        printf("rawe-verify: OK\n");
    }
}
