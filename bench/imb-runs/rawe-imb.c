/* SPDX-License-Identifier: BSD-3-Clause */
/* rawe-imb runs MPI benchmarks as IMB-MPI1 does; this file chooses ranks and takes times. */
#include "imb.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PAGE_BYTES 4096

/* Makes room for a buffer, its pages touched; what was in it is lost. */
static bool buffer_reserve(unsigned char **buffer, size_t *capacity, size_t bytes)
{
    if (*buffer != NULL && *capacity >= bytes) {
        return true;
    }
    free(*buffer);
    *capacity = bytes == 0 ? 1 : bytes;
    void *memory = NULL;
    if (posix_memalign(&memory, PAGE_BYTES, *capacity) != 0) {
        *buffer = NULL;
        *capacity = 0;
        return false;
    }
    memset(memory, 0, *capacity);
    *buffer = memory;
    return true;
}

/* Seconds that `repetitions` iterations take on this rank, for each iteration and leg. */
static double time_iterations(const struct imb_benchmark *benchmark, struct imb_run *run,
                              int repetitions)
{
    double elapsed = 0;
    run->root = 0;
    MPI_Barrier(run->comm);
    if (benchmark->traits & IMB_SYNC) {
        for (run->iteration = 0; run->iteration < repetitions; run->iteration++) {
            double start = MPI_Wtime();
            benchmark->iterate(run);
            elapsed += MPI_Wtime() - start;
            run->turn++;
            MPI_Barrier(run->comm);
        }
    } else {
        double start = MPI_Wtime();
        for (run->iteration = 0; run->iteration < repetitions; run->iteration++) {
            benchmark->iterate(run);
            run->turn++;
        }
        elapsed = MPI_Wtime() - start;
        if (benchmark->finish != NULL) {
            benchmark->finish(run);
            elapsed = (benchmark->traits & IMB_CALLER) ? elapsed : MPI_Wtime() - start;
        }
    }
    return elapsed / repetitions / benchmark->legs;
}

/* Seconds of one iteration on the slowest rank, from `repetitions` of them. */
static double estimate(const struct imb_benchmark *benchmark, struct imb_run *run, int repetitions)
{
    double mine = time_iterations(benchmark, run, repetitions) * benchmark->legs;
    double slowest = 0;
    MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, run->comm);
    return slowest;
}

/* How often to repeat: bounded by -iter, by volume, and by time as a few iterations measure it. */
static int choose_repetitions(const struct imb_benchmark *benchmark,
                              const struct imb_options *options, struct imb_run *run)
{
    double repetitions = options->iterations;
    /* The first iteration may open connections and says nothing about the others, except that
     * several more would take longer than -time allows. */
    double slowest = estimate(benchmark, run, 1);
    bool is_long = slowest * IMB_WARMUP > options->seconds;
    slowest = estimate(benchmark, run, is_long ? 1 : IMB_WARMUP);
    double volume = (double)run->bytes * (benchmark->traffic > 0 ? benchmark->traffic : 1);
    if (volume > 0 && options->volume_bytes / volume < repetitions) {
        repetitions = options->volume_bytes / volume;
    }
    if (slowest > 0 && options->seconds / slowest < repetitions) {
        repetitions = options->seconds / slowest;
    }
    return repetitions < 1 ? 1 : (int)repetitions;
}

static size_t check_once(const struct imb_benchmark *benchmark, struct imb_run *run)
{
    run->iteration = 0;
    benchmark->iterate(run);
    run->turn++;
    if (benchmark->finish != NULL) {
        benchmark->finish(run);
    }
    return benchmark->verify(run);
}

/* New contents in the send buffer, none in the receive buffer. */
static void renew_contents(const struct imb_benchmark *benchmark, struct imb_run *run)
{
    run->round++;
    memset(run->receive, 0xA5, run->receive_capacity);
    benchmark->fill(run);
    /* A message of this round must not arrive before its receiver has cleared its buffer. */
    MPI_Barrier(run->comm);
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Runs one size; rank 0 prints. Returns the wrong bytes of all ranks. */
static double run_size(const struct imb_benchmark *benchmark, const struct imb_options *options,
                       struct imb_run *run)
{
    size_t send_bytes;
    size_t receive_bytes;
    run->stride = 0;
    run->buffers = (benchmark->traits & IMB_COLD) ? options->receive_buffers : 1;
    if (options->check && benchmark->layout == IMB_LAYOUT_RATE) {
        run->stride = run->bytes;
        run->buffers = run->buffers < IMB_WINDOW ? IMB_WINDOW : run->buffers;
    }
    benchmark->space(run, &send_bytes, &receive_bytes);
    double needed = (double)send_bytes + (double)receive_bytes;
    int ready = needed <= options->memory_bytes &&
                buffer_reserve(&run->send, &run->send_capacity, send_bytes) &&
                buffer_reserve(&run->receive, &run->receive_capacity, receive_bytes);
    MPI_Allreduce(MPI_IN_PLACE, &ready, 1, MPI_INT, MPI_MIN, run->comm);
    if (!ready) {
        if (run->rank == 0) {
            imb_print_no_memory(run->bytes, needed);
        }
        return 0;
    }

    struct imb_result result = {0};
    result.repetitions = choose_repetitions(benchmark, options, run);
    double defects = 0;
    if (options->check) {
        run->root = 0;
        for (int i = 0; i < IMB_CHECK_ROUNDS; i++) {
            renew_contents(benchmark, run);
            defects += (double)check_once(benchmark, run);
        }
        renew_contents(benchmark, run);
    }
    double mine = time_iterations(benchmark, run, result.repetitions);
    if (options->check) {
        defects += (double)benchmark->verify(run);
    }
    if (benchmark->layout == IMB_LAYOUT_CALL) {
        /* Only the sender's calls are timed; the rest of the iteration makes room for them. */
        mine = 0;
        if (run->rank == 0) {
            for (int i = 0; i < result.repetitions; i++) {
                mine += run->call_seconds[i] / result.repetitions;
            }
            qsort(run->call_seconds, (size_t)result.repetitions, sizeof(double), compare_doubles);
            result.median_s = run->call_seconds[result.repetitions / 2];
        }
    }
    if ((benchmark->traits & IMB_CALLER) && run->rank != 0) {
        mine = 0;
    }
    double sum = 0;
    MPI_Reduce(&mine, &result.min_s, 1, MPI_DOUBLE, MPI_MIN, 0, run->comm);
    MPI_Reduce(&mine, &result.max_s, 1, MPI_DOUBLE, MPI_MAX, 0, run->comm);
    MPI_Reduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, run->comm);
    MPI_Allreduce(&defects, &result.defects, 1, MPI_DOUBLE, MPI_SUM, run->comm);
    result.average_s = sum / run->size;
    if (run->rank == 0) {
        imb_print_result(benchmark, options, run->size, run->bytes, &result);
    }
    return result.defects;
}

/* Size number `index` of this benchmark; false after the last. */
static bool size_at(const struct imb_benchmark *benchmark, const struct imb_options *options,
                    int index, size_t *bytes)
{
    if (benchmark->layout == IMB_LAYOUT_BARRIER) {
        *bytes = 0;
        return index == 0;
    }
    if (options->bytes >= 0) {
        *bytes = (size_t)options->bytes;
        if (benchmark->traits & IMB_REDUCTION) {
            *bytes = (*bytes + IMB_ELEMENT - 1) / IMB_ELEMENT * IMB_ELEMENT;
        }
        return index == 0;
    }
    int least = options->msglog_min;
    if ((benchmark->traits & IMB_REDUCTION) && least < 2) {
        least = 2; /* 2^2 bytes: one MPI_FLOAT */
    }
    if (index > 0 && least + index - 1 > options->msglog_max) {
        return false;
    }
    *bytes = index == 0 ? 0 : (size_t)1 << (least + index - 1);
    return true;
}

static void sleep_ns(long duration_ns)
{
    struct timespec duration = {duration_ns / 1000000000L, duration_ns % 1000000000L};
    nanosleep(&duration, NULL);
}

/* Keeps this rank out of MPI, where it would poll. */
static void sleep_until_exists(const char *path)
{
    while (access(path, F_OK) != 0) {
        sleep_ns(IMB_SLEEP_NS);
    }
}

/* Runs one benchmark on the first `size` ranks; the others wait. */
static double run_group(const struct imb_benchmark *benchmark, const struct imb_options *options,
                        struct imb_run *run, int size)
{
    int world_rank;
    int world_size;
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    bool is_active = world_rank < size;
    double defects = 0;
    run->round = 0; /* ranks that waited during an earlier benchmark are behind */
    MPI_Comm_split(MPI_COMM_WORLD, is_active ? 0 : MPI_UNDEFINED, world_rank, &run->comm);
    if (is_active) {
        if (options->sleep_until != NULL) {
            sleep_ns(IMB_SETTLE_NS);
        }
        MPI_Comm_rank(run->comm, &run->rank);
        MPI_Comm_size(run->comm, &run->size);
        if (world_rank == 0) {
            imb_print_header(benchmark, options, size, world_size - size);
        }
        for (int i = 0; size_at(benchmark, options, i, &run->bytes); i++) {
            defects += run_size(benchmark, options, run);
        }
        MPI_Comm_free(&run->comm);
    }
    if (options->sleep_until != NULL) {
        sleep_until_exists(options->sleep_until);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return defects;
}

/* Runs one benchmark on npmin ranks, then doubles them up to all. */
static double run_benchmark(const struct imb_benchmark *benchmark,
                            const struct imb_options *options, struct imb_run *run, int world_size)
{
    double defects = 0;
    if (benchmark->traits & IMB_PAIR) {
        return world_size < 2 ? 0 : run_group(benchmark, options, run, 2);
    }
    int size = options->npmin < world_size ? options->npmin : world_size;
    for (;;) {
        if (!(benchmark->traits & IMB_EVEN) || size % 2 == 0) {
            defects += run_group(benchmark, options, run, size);
        }
        if (size == world_size) {
            return defects;
        }
        size = 2 * size < world_size ? 2 * size : world_size;
    }
}

int main(int argc, char **argv)
{
    struct imb_options options;
    struct imb_run run = {0};
    int rank;
    int size;
    int status;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (imb_options_parse(&options, argc, argv, rank, &status)) {
        size_t calls = (size_t)(options.iterations > IMB_WARMUP ? options.iterations : IMB_WARMUP);
        run.counts = calloc((size_t)size, sizeof(int));
        run.displacements = calloc((size_t)size, sizeof(int));
        run.call_seconds = calloc(calls, sizeof(double));
        if (run.counts == NULL || run.displacements == NULL || run.call_seconds == NULL) {
            fprintf(stderr, "rawe-imb: rank %d: no memory for %zu repetitions; lower -iter\n", rank,
                    calls);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        if (rank == 0) {
            imb_print_banner(&options, argc, argv);
        }
        double defects = 0;
        for (int i = 0; i < options.selected_count; i++) {
            defects += run_benchmark(options.selected[i], &options, &run, size);
        }
        if (rank == 0) {
            printf("\n\n# All processes entering MPI_Finalize\n\n");
            if (defects > 0) {
                fprintf(stderr, "rawe-imb: %.0f bytes arrived wrong; see the column 'defects'\n",
                        defects);
            }
        }
        status = defects > 0 ? 3 : 0;
    }
    free(run.send);
    free(run.receive);
    free(run.counts);
    free(run.displacements);
    free(run.call_seconds);
    free(options.selected);
    MPI_Finalize();
    return status;
}
