/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * rawe-soak: an MPI program that exchanges messages of all sizes between all ranks for a given
 * time, in one thread or in several at once, checks every byte, and watches that memory and
 * descriptors of its processes stay as they are.
 */
#include <dirent.h>
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "options.h"

#define WARM_UP_SHARE 0.25    /* of the time: until then free lists and windows may still grow */
#define WARM_UP_ROUNDS 32     /* and of these no less, however slow the machine is just now */
#define GROWTH_LEAST_KB 8192L /* what memory may grow by afterwards: rawe stores up to 8 MiB */
#define GROWTH_PER_CENT 2L    /* and relative to what there was */
#define ROUNDS_PER_CHECK 8    /* of the clock: all ranks have to agree on the end */
#define THREADS_MAX 64

/** What one thread of a rank does: rounds with the same thread of all other ranks. */
struct soak {
    MPI_Comm comm; /* the thread's own */
    int rank, size;
    uint64_t seed;
    size_t max_bytes; /* longest message */
    uint64_t round;
    _Atomic uint64_t bytes;  /* received and checked by this thread */
    unsigned char *out, *in; /* room for size messages of max_bytes each */
};

/** Resident memory in kB and open descriptors of this process. */
struct footprint {
    long resident_kb;
    long descriptors;
};

/* The threads of this rank; the first is the main one, and reports for all. */
static struct soak threads[THREADS_MAX];
static int thread_count = 1;
static double seconds = 10, interval = 10;
static const char *end_file; /* or NULL */

static struct footprint read_footprint(void)
{
    struct footprint footprint = {0, 0};
    long pages, resident;
    FILE *file = fopen("/proc/self/statm", "r");
    DIR *directory = opendir("/proc/self/fd");

    if (file == NULL || directory == NULL || fscanf(file, "%ld %ld", &pages, &resident) != 2) {
        fprintf(stderr, "rawe-soak: /proc/self cannot be read: is /proc mounted?\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    fclose(file);
    footprint.resident_kb = resident * (sysconf(_SC_PAGESIZE) / 1024);
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        footprint.descriptors += entry->d_name[0] != '.';
    }
    closedir(directory);
    return footprint;
}

/* splitmix64, as a function of its arguments: the same on all ranks. */
static uint64_t draw(uint64_t seed, uint64_t a, uint64_t b)
{
    uint64_t z = seed + a * 0x9E3779B97F4A7C15ull + b * 0xD1B54A32D192ED03ull;

    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

/* Every power of two about as likely as any other, so that small messages are the most. */
static size_t draw_size(const struct soak *soak, int source, int dest)
{
    uint64_t random =
        draw(soak->seed, soak->round * 2 + 1, (uint64_t)(source * soak->size + dest) + 1);
    unsigned bits = 0;

    while (((size_t)2 << bits) <= soak->max_bytes) {
        bits++;
    }
    return (size_t)(random >> 32) % (((size_t)1 << random % (bits + 1)) + 1);
}

/* What a message holds: its words are drawn from who, to whom, when and where. */
static uint64_t word_at(const struct soak *soak, int source, int dest, size_t at)
{
    return draw(soak->seed ^ 0xC0FFEE, soak->round,
                ((uint64_t)source << 52) + ((uint64_t)dest << 40) + at);
}

static void fill(const struct soak *soak, unsigned char *message, size_t len, int dest)
{
    for (size_t at = 0; at < len; at += 8) {
        uint64_t word = word_at(soak, soak->rank, dest, at);
        memcpy(message + at, &word, len - at < 8 ? len - at : 8);
    }
}

static void check(struct soak *soak, const unsigned char *message, size_t len, int source)
{
    for (size_t at = 0; at < len; at += 8) {
        uint64_t word = word_at(soak, source, soak->rank, at);

        if (memcmp(message + at, &word, len - at < 8 ? len - at : 8) != 0) {
            fprintf(stderr,
                    "rawe-soak: FAIL round %llu: message of %zu bytes from rank %d to rank %d is "
                    "wrong in the 8 bytes from %zu on\n",
                    (unsigned long long)soak->round, len, source, soak->rank, at);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
    soak->bytes += len;
}

/* One message each way between all ranks, of sizes drawn for each round. */
static void run_round(struct soak *soak)
{
    MPI_Request *requests = malloc(2 * sizeof(MPI_Request) * (size_t)soak->size);

    memset(soak->in, 0xEE, (soak->max_bytes + 1) * (size_t)soak->size);
    for (int i = 0; i < soak->size; i++) {
        int peer = (soak->rank + i) % soak->size;
        size_t at = (soak->max_bytes + 1) * (size_t)peer, out = draw_size(soak, soak->rank, peer);

        fill(soak, soak->out + at, out, peer);
        MPI_Irecv(soak->in + at, (int)draw_size(soak, peer, soak->rank), MPI_BYTE, peer, 1,
                  soak->comm, &requests[2 * i]);
        MPI_Isend(soak->out + at, (int)out, MPI_BYTE, peer, 1, soak->comm, &requests[2 * i + 1]);
    }
    MPI_Waitall(2 * soak->size, requests, MPI_STATUSES_IGNORE);
    free(requests);
    for (int peer = 0; peer < soak->size; peer++) {
        check(soak, soak->in + (soak->max_bytes + 1) * (size_t)peer,
              draw_size(soak, peer, soak->rank), peer);
    }
    soak->round++;
}

/* A line about now; all ranks call it. */
static void report(const struct soak *soak, double elapsed)
{
    struct footprint mine = read_footprint();
    double sums[1] = {0}, total[1];
    long most[2] = {mine.resident_kb, mine.descriptors}, all[2];

    for (int i = 0; i < thread_count; i++) {
        sums[0] += (double)threads[i].bytes;
    }
    MPI_Reduce(sums, total, 1, MPI_DOUBLE, MPI_SUM, 0, soak->comm);
    MPI_Reduce(most, all, 2, MPI_LONG, MPI_MAX, 0, soak->comm);
    if (soak->rank == 0) {
        printf("rawe-soak: %.0f s, %llu rounds, %.1f MB, %.1f MB/s, at most %ld kB resident, "
               "%ld descriptors\n",
               elapsed, (unsigned long long)soak->round, total[0] / 1e6, total[0] / 1e6 / elapsed,
               all[0], all[1]);
        fflush(stdout);
    }
}

/* Compares this process with itself after the warm-up; the number of things that have grown. */
static int compare(const struct soak *soak, const struct footprint *before)
{
    struct footprint after = read_footprint();
    long allowed_kb = before->resident_kb * GROWTH_PER_CENT / 100;
    int grown = 0;

    if (allowed_kb < GROWTH_LEAST_KB) {
        allowed_kb = GROWTH_LEAST_KB;
    }
    if (after.resident_kb > before->resident_kb + allowed_kb) {
        fprintf(stderr,
                "rawe-soak: FAIL rank %d: resident memory has grown from %ld kB to %ld kB\n",
                soak->rank, before->resident_kb, after.resident_kb);
        grown++;
    }
    if (after.descriptors > before->descriptors) {
        fprintf(stderr, "rawe-soak: FAIL rank %d: open descriptors have grown from %ld to %ld\n",
                soak->rank, before->descriptors, after.descriptors);
        grown++;
    }
    return grown;
}

/* Is the time up, and the file there that is waited for? */
static int is_over(const struct soak *soak, double elapsed)
{
    return elapsed >= seconds && soak->round >= 2 * WARM_UP_ROUNDS &&
           (end_file == NULL || access(end_file, F_OK) == 0);
}

/* Rounds until the time is up; the number of things that have grown, for the main thread. */
static int run(struct soak *soak)
{
    double start, next = interval;
    struct footprint warm = {0, 0};
    int is_main = soak == threads;

    MPI_Barrier(soak->comm);
    start = MPI_Wtime();
    for (;;) {
        double elapsed = MPI_Wtime() - start;
        double state[2] = {elapsed, is_over(soak, elapsed)}; /* rank 0's decides */

        for (int i = 0; i < ROUNDS_PER_CHECK; i++) {
            run_round(soak);
        }
        MPI_Bcast(state, 2, MPI_DOUBLE, 0, soak->comm);
        elapsed = state[0];
        if (warm.descriptors == 0 && elapsed >= seconds * WARM_UP_SHARE &&
            soak->round >= WARM_UP_ROUNDS) {
            warm = read_footprint();
        }
        if (state[1] != 0) {
            break;
        }
        if (is_main && elapsed >= next) {
            report(soak, elapsed);
            next = elapsed + interval;
        }
    }
    if (!is_main) {
        return 0;
    }
    report(soak, MPI_Wtime() - start);
    return compare(soak, &warm);
}

static void *thread_main(void *soak)
{
    (void)run(soak);
    return NULL;
}

/* All threads, the first in the calling one; the number of things that have grown on this rank. */
static int run_threads(void)
{
    pthread_t others[THREADS_MAX] = {0};

    for (int i = 1; i < thread_count; i++) {
        if (pthread_create(&others[i], NULL, thread_main, &threads[i]) != 0) {
            fprintf(stderr, "rawe-soak: cannot start thread %d\n", i);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
    int grown = run(&threads[0]);
    for (int i = 1; i < thread_count; i++) {
        pthread_join(others[i], NULL);
    }
    return grown;
}

static void set_up(struct soak *soak, uint64_t seed, size_t max_bytes)
{
    *soak = (struct soak){.seed = seed, .max_bytes = max_bytes};
    MPI_Comm_dup(MPI_COMM_WORLD, &soak->comm);
    MPI_Comm_rank(soak->comm, &soak->rank);
    MPI_Comm_size(soak->comm, &soak->size);
    soak->out = malloc((max_bytes + 1) * (size_t)soak->size);
    soak->in = malloc((max_bytes + 1) * (size_t)soak->size);
    if (soak->out == NULL || soak->in == NULL) {
        fprintf(stderr, "rawe-soak: no memory for %d messages of %zu bytes\n", soak->size,
                max_bytes);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

/* Threads are only asked for where there are any: MPI takes other paths with them. */
static void init(int *argc, char ***argv)
{
    int given;

    if (thread_count == 1) {
        MPI_Init(argc, argv);
        return;
    }
    MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &given);
    if (given < MPI_THREAD_MULTIPLE) {
        fprintf(stderr, "rawe-soak: this MPI library has no MPI_THREAD_MULTIPLE\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
}

static uint64_t seed = 1;
static size_t max_bytes = 300000;

static const struct option_row rows[] = {
    {"seconds", "S", "how long (default 10)", option_number, .to = &seconds, 1e-9, 1e9,
     "a time above 0"},
    {"max-bytes", "N", "longest message (default 300000)", option_bytes, .to = &max_bytes, 1,
     4u << 20},
    {"seed", "N", "of sizes and contents (default 1)", option_u64, .to = &seed, 0, UINT64_MAX},
    {"interval", "S", "a line every S seconds (default 10)", option_number, .to = &interval, 1e-9,
     1e9, "a time above 0"},
    {"threads", "N", "threads of each rank (default 1)", option_unsigned, .to = &thread_count, 1,
     THREADS_MAX},
    {"until", "FILE", "no less than S seconds, and until there is such a file where rank 0 is",
     option_text, .to = &end_file},
};

static void end_help(void)
{
    puts("Exit code: 0 success, 1 a byte is wrong, or memory or descriptors grow, 2 wrong usage.");
}

int main(int argc, char **argv)
{
    int grown, any;

    options_read(argc, argv, "usage: mpirun ... rawe-soak [options]\n", rows,
                 sizeof(rows) / sizeof(rows[0]), end_help);
    init(&argc, &argv);
    MPI_Barrier(MPI_COMM_WORLD); /* all know each other then: no caller is unknown */
    for (int i = 0; i < thread_count; i++) {
        set_up(&threads[i], seed + (uint64_t)i * 1000003, max_bytes);
    }
    grown = run_threads();
    MPI_Allreduce(&grown, &any, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (threads[0].rank == 0 && any == 0) {
        printf("rawe-soak: OK\n");
    }
    for (int i = 0; i < thread_count; i++) {
        MPI_Comm_free(&threads[i].comm);
    }
    MPI_Finalize();
    for (int i = 0; i < thread_count; i++) {
        free(threads[i].out);
        free(threads[i].in);
    }
    return any == 0 ? 0 : 1;
}
