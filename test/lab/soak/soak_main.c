/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * rawe-soak: an MPI program that exchanges messages of all sizes between all ranks for a given
 * time, checks every byte, and watches that memory and descriptors of its processes stay as they
 * are.
 */
#include "soak.h"

#include <dirent.h>
#include <getopt.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define WARM_UP_SHARE 0.25    /* of the time: until then free lists and windows may still grow */
#define GROWTH_LEAST_KB 4096L /* what memory may grow by afterwards, at least */
#define GROWTH_PER_CENT 2L    /* and relative to what there was */
#define ROUNDS_PER_CHECK 8    /* of the clock: all ranks have to agree on the end */

static const char usage[] =
    "usage: mpirun ... rawe-soak [--seconds S] [--max-bytes N] [--seed N] [--interval S]\n"
    "\n"
    "  --seconds S    how long (default 10)\n"
    "  --max-bytes N  longest message (default 300000)\n"
    "  --seed N       of sizes and contents (default 1)\n"
    "  --interval S   a line every S seconds (default 10)\n"
    "\n"
    "Exit code: 0 all right, 1 a byte is wrong, or memory or descriptors grow, 2 wrong usage.\n";

struct soak_footprint soak_footprint_read(void)
{
    struct soak_footprint footprint = {0, 0};
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

/* A line about now; everybody calls it. */
static void report(const struct soak *soak, double elapsed)
{
    struct soak_footprint mine = soak_footprint_read();
    double sums[1] = {(double)soak->bytes}, total[1];
    long most[2] = {mine.resident_kb, mine.descriptors}, all[2];

    MPI_Reduce(sums, total, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(most, all, 2, MPI_LONG, MPI_MAX, 0, MPI_COMM_WORLD);
    if (soak->rank == 0) {
        printf("rawe-soak: %.0f s, %llu rounds, %.1f MB, %.1f MB/s, at most %ld kB resident, "
               "%ld descriptors\n",
               elapsed, (unsigned long long)soak->round, total[0] / 1e6, total[0] / 1e6 / elapsed,
               all[0], all[1]);
        fflush(stdout);
    }
}

/* Compares this process with itself after the warm-up; the number of things that have grown. */
static int compare(const struct soak *soak, const struct soak_footprint *before)
{
    struct soak_footprint after = soak_footprint_read();
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

/* Rounds until the time is up; the number of things that have grown on this rank. */
static int run(struct soak *soak, double seconds, double interval)
{
    double start, next = interval;
    struct soak_footprint warm = {0, 0};

    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    for (;;) {
        double elapsed = MPI_Wtime() - start;

        for (int i = 0; i < ROUNDS_PER_CHECK; i++) {
            soak_round(soak);
        }
        MPI_Bcast(&elapsed, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD); /* rank 0's clock decides */
        if (warm.descriptors == 0 && elapsed >= seconds * WARM_UP_SHARE) {
            warm = soak_footprint_read();
        }
        if (elapsed >= seconds) {
            break;
        }
        if (elapsed >= next) {
            report(soak, elapsed);
            next = elapsed + interval;
        }
    }
    report(soak, MPI_Wtime() - start);
    return compare(soak, &warm);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"seconds", required_argument, NULL, 's'}, {"max-bytes", required_argument, NULL, 'm'},
        {"seed", required_argument, NULL, 'e'},    {"interval", required_argument, NULL, 'i'},
        {"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0},
    };
    struct soak soak = {.seed = 1, .max_bytes = 300000};
    double seconds = 10, interval = 10;
    int option, grown, any;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 's':
            seconds = atof(optarg);
            break;
        case 'm':
            soak.max_bytes = strtoul(optarg, NULL, 10);
            break;
        case 'e':
            soak.seed = strtoull(optarg, NULL, 10);
            break;
        case 'i':
            interval = atof(optarg);
            break;
        default:
            fputs(usage, option == 'h' ? stdout : stderr);
            return option == 'h' ? 0 : 2;
        }
    }
    if (optind < argc || !(seconds > 0) || !(interval > 0) || soak.max_bytes < 1 ||
        soak.max_bytes > 4u << 20) {
        fprintf(stderr, "rawe-soak: times are above 0, --max-bytes is 1 to 4194304\n%s", usage);
        return 2;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &soak.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &soak.size);
    soak.out = malloc((soak.max_bytes + 1) * (size_t)soak.size);
    soak.in = malloc((soak.max_bytes + 1) * (size_t)soak.size);
    if (soak.out == NULL || soak.in == NULL) {
        fprintf(stderr, "rawe-soak: no memory for %d messages of %zu bytes\n", soak.size,
                soak.max_bytes);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    grown = run(&soak, seconds, interval);
    MPI_Allreduce(&grown, &any, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (soak.rank == 0 && any == 0) {
        printf("rawe-soak: OK\n");
    }
    MPI_Finalize();
    free(soak.out);
    free(soak.in);
    return any == 0 ? 0 : 1;
}
