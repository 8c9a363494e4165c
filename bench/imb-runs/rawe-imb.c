/* SPDX-License-Identifier: BSD-3-Clause */
/* rawe-imb: the patterns, options and output layout of IMB-MPI1, for hosts that lack it. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "imb.h"

/* The command line of rawe-imb: the subset of IMB-MPI1's options that comparisons use. */

#define MSGLOG_LIMIT 30 /* counts are C ints */

static const char imb_help[] =
    "Usage: mpirun ... rawe-imb [options] [benchmark ...]\n"
    "Runs MPI benchmarks with the patterns, options and output layout of IMB-MPI1.\n"
    "\n"
    "  -iter N[,V]       at most N repetitions and V MB of messages for a size (1000,40)\n"
    "  -time S           at most S seconds for a size (10)\n"
    "  -msglog [A:]B     sizes 0 and 2^A ... 2^B bytes (0:22)\n"
    "  -bytes N          this size only\n"
    "  -npmin P          start with P ranks and double them up to all (2)\n"
    "  -mem G            most buffer memory of a rank in GB (1)\n"
    "  -receive_buffers N  buffers that UnibandCold and BibandCold receive into in turn (64)\n"
    "  -sleep_until FILE ranks that a benchmark leaves out sleep, outside MPI, until FILE exists;\n"
    "                    the others wait for it, too, when they are done\n"
    "  -check            verify the contents of messages; adds the column 'defects'\n"
    "  -list             list the benchmarks\n"
    "  -help             this text\n"
    "\n"
    "Without a name all benchmarks run. Uniband and Biband keep 64 messages in flight and\n"
    "receive them into one buffer, UnibandCold and BibandCold into several; Isend and SendCall\n"
    "time the call alone; Mp... are MPBench's, CacheHot and CacheCold GAMMA's ping-pong in warm\n"
    "memory and in memory that is in no cache.\n";

/* Return benchmark number `index` of both tables, or NULL after the last. */
static const struct imb_benchmark *benchmark_at(int index)
{
    if (index < imb_point_to_point_count) {
        return &imb_point_to_point[index];
    }
    index -= imb_point_to_point_count;
    return index < imb_collectives_count ? &imb_collectives[index] : NULL;
}

/* Return the benchmark of this name in any case, or NULL. */
static const struct imb_benchmark *find_benchmark(const char *name)
{
    const struct imb_benchmark *found = NULL;
    for (int i = 0; (found = benchmark_at(i)) != NULL && strcasecmp(name, found->name) != 0; i++) {
    }
    return found;
}

/* Parse a number from `low` to `high` at the start of text; *end is the text after it. */
static bool parse_integer(const char *text, long low, long high, long *value, const char **end)
{
    char *rest;
    errno = 0;
    *value = strtol(text, &rest, 10);
    *end = rest;
    return rest != text && errno == 0 && *value >= low && *value <= high;
}

static bool parse_whole(const char *text, long low, long high, int *value)
{
    long number;
    const char *end;
    if (!parse_integer(text, low, high, &number, &end) || *end != '\0') {
        return false;
    }
    *value = (int)number;
    return true;
}

/* Parse a number above 0 and below 10^9, and multiply it by `unit`. */
static bool parse_positive(const char *text, double unit, double *value)
{
    char *end;
    double number = strtod(text, &end);
    *value = number * unit;
    return end != text && *end == '\0' && number > 0 && number < 1e9;
}

static bool parse_iter(struct imb_options *options, const char *text)
{
    long number;
    const char *end;
    if (!parse_integer(text, 1, 1000000000, &number, &end)) {
        return false;
    }
    options->iterations = (int)number;
    if (*end == ',') {
        return parse_positive(end + 1, 1e6, &options->volume_bytes);
    }
    return *end == '\0';
}

static bool parse_msglog(struct imb_options *options, const char *text)
{
    long first;
    const char *end;
    if (!parse_integer(text, 0, MSGLOG_LIMIT, &first, &end)) {
        return false;
    }
    if (*end == '\0') {
        options->msglog_min = 0;
        options->msglog_max = (int)first;
        return true;
    }
    options->msglog_min = (int)first;
    return *end == ':' && parse_whole(end + 1, first, MSGLOG_LIMIT, &options->msglog_max);
}

/* Read an option with a value. Returns false if the value is bad. */
static bool parse_valued(struct imb_options *options, const char *name, const char *value,
                         bool *is_known)
{
    *is_known = true;
    if (strcmp(name, "-iter") == 0) {
        return parse_iter(options, value);
    }
    if (strcmp(name, "-time") == 0) {
        return parse_positive(value, 1, &options->seconds);
    }
    if (strcmp(name, "-msglog") == 0) {
        return parse_msglog(options, value);
    }
    if (strcmp(name, "-bytes") == 0) {
        return parse_whole(value, 0, 1 << MSGLOG_LIMIT, &options->bytes);
    }
    if (strcmp(name, "-npmin") == 0) {
        return parse_whole(value, 1, 1000000, &options->npmin);
    }
    if (strcmp(name, "-mem") == 0) {
        return parse_positive(value, 1e9, &options->memory_bytes);
    }
    if (strcmp(name, "-receive_buffers") == 0) {
        return parse_whole(value, 2, IMB_BUFFERS_MAX, &options->receive_buffers);
    }
    *is_known = strcmp(name, "-sleep_until") == 0;
    options->sleep_until = *is_known ? value : NULL;
    return true;
}

/* Read the command line. Returns false after printing an error (on rank 0 only) or the help text;
 * *status is then the exit code. */
static bool parse_options(struct imb_options *options, int argc, char **argv, int rank, int *status)
{
    char why[512] = "";
    *options = (struct imb_options){.iterations = 1000,
                                    .volume_bytes = 40e6,
                                    .seconds = 10,
                                    .memory_bytes = 1e9,
                                    .receive_buffers = IMB_BUFFERS,
                                    .npmin = 2,
                                    .msglog_max = 22,
                                    .bytes = -1};
    size_t most = (size_t)(argc + imb_point_to_point_count + imb_collectives_count);
    options->selected = calloc(most, sizeof(*options->selected));
    *status = 2;
    if (options->selected == NULL) {
        snprintf(why, sizeof(why), "no memory for the list of benchmarks");
    }
    for (int i = 1; i < argc && why[0] == '\0'; i++) {
        if (strcmp(argv[i], "-help") == 0 || strcmp(argv[i], "--help") == 0 ||
            strcmp(argv[i], "-h") == 0) {
            *status = 0;
            if (rank == 0) {
                fputs(imb_help, stdout);
            }
            return false;
        }
        if (strcmp(argv[i], "-list") == 0) {
            *status = 0;
            for (int j = 0; rank == 0 && benchmark_at(j) != NULL; j++) {
                printf("%s\n", benchmark_at(j)->name);
            }
            return false;
        }
        if (strcmp(argv[i], "-check") == 0) {
            options->check = true;
        } else if (argv[i][0] != '-') {
            const struct imb_benchmark *benchmark = find_benchmark(argv[i]);
            if (benchmark == NULL) {
                snprintf(why, sizeof(why), "no benchmark is called '%s'; -list names them",
                         argv[i]);
            } else {
                options->selected[options->selected_count++] = benchmark;
            }
        } else if (i + 1 == argc) {
            snprintf(why, sizeof(why), "'%s' is no option or lacks its value; see -help", argv[i]);
        } else {
            bool is_known;
            if (!parse_valued(options, argv[i], argv[i + 1], &is_known)) {
                snprintf(why, sizeof(why), "'%s' is no value for %s; see -help", argv[i + 1],
                         argv[i]);
            } else if (!is_known) {
                snprintf(why, sizeof(why), "'%s' is no option; see -help", argv[i]);
            }
            i++;
        }
    }
    if (why[0] != '\0') {
        if (rank == 0) {
            fprintf(stderr, "rawe-imb: %s\n", why);
        }
        return false;
    }
    if (options->selected_count == 0) {
        for (int i = 0; benchmark_at(i) != NULL; i++) {
            options->selected[options->selected_count++] = benchmark_at(i);
        }
    }
    return true;
}

/* Output in the layout of IMB-MPI1, so that one parser reads both programs. */

static const char imb_rule[] =
    "#-----------------------------------------------------------------------------";

static void print_rule(const struct imb_benchmark *benchmark)
{
    int width = benchmark->layout == IMB_LAYOUT_PARALLEL     ? 77
                : benchmark->layout == IMB_LAYOUT_COLLECTIVE ? 64
                                                             : 51;
    printf("%.*s\n", width, imb_rule);
}

/* Rank 0 of MPI_COMM_WORLD prints. */
static void print_banner(const struct imb_options *options, int argc, char **argv)
{
    struct utsname machine;
    int version;
    int subversion;
    char date[64] = "unknown";
    time_t now = time(NULL);
    struct tm *local = localtime(&now);
    if (local != NULL) {
        strftime(date, sizeof(date), "%a %b %e %H:%M:%S %Y", local);
    }
    MPI_Get_version(&version, &subversion);
    printf("#----------------------------------------------------------------\n"
           "#    rawe-imb, patterns and layout of the Intel(R) MPI Benchmarks, MPI-1 part\n"
           "#----------------------------------------------------------------\n"
           "# Date                  : %s\n",
           date);
    if (uname(&machine) == 0) {
        printf("# Machine               : %s\n# System                : %s\n"
               "# Release               : %s\n# Version               : %s\n",
               machine.machine, machine.sysname, machine.release, machine.version);
    }
    printf("# MPI Version           : %d.%d\n\n# Calling sequence was:\n\n#", version, subversion);
    for (int i = 0; i < argc; i++) {
        printf(" %s", argv[i]);
    }
    printf("\n\n# MPI_Datatype                   :   MPI_BYTE\n"
           "# MPI_Datatype for reductions    :   MPI_FLOAT\n"
           "# MPI_Op                         :   MPI_SUM\n#\n\n"
           "# List of Benchmarks to run:\n\n");
    for (int i = 0; i < options->selected_count; i++) {
        printf("# %s\n", options->selected[i]->name);
    }
    fflush(stdout);
}

/* Heads of the columns after #repetitions. */
static const char *const columns[] = {
    [IMB_LAYOUT_SINGLE] = "      t[usec]   Mbytes/sec",
    [IMB_LAYOUT_PARALLEL] = "  t_min[usec]  t_max[usec]  t_avg[usec]   Mbytes/sec",
    [IMB_LAYOUT_COLLECTIVE] = "  t_min[usec]  t_max[usec]  t_avg[usec]",
    [IMB_LAYOUT_BARRIER] = "  t_min[usec]  t_max[usec]  t_avg[usec]",
    [IMB_LAYOUT_RATE] = "   Mbytes/sec      Msg/sec",
    [IMB_LAYOUT_CALL] = "      t[usec]  t_median[usec]",
};

static void print_header(const struct imb_benchmark *benchmark, const struct imb_options *options,
                         int size, int waiting)
{
    printf("\n");
    print_rule(benchmark);
    printf("# Benchmarking %s\n# #processes = %d\n", benchmark->name, size);
    if (waiting > 0) {
        printf("# ( %d additional processes waiting in MPI_Barrier )\n", waiting);
    }
    print_rule(benchmark);
    if (benchmark->layout != IMB_LAYOUT_BARRIER) {
        printf("%13s", "#bytes");
    }
    printf("%13s%s%s\n", "#repetitions", columns[benchmark->layout],
           options->check ? "      defects" : "");
    fflush(stdout);
}

static void print_result(const struct imb_benchmark *benchmark, const struct imb_options *options,
                         int size, size_t bytes, const struct imb_result *result)
{
    double pairs = (benchmark->traits & IMB_EVEN) ? (double)size / 2 : 1;
    double messages = result->max_s > 0 ? pairs * benchmark->traffic / result->max_s : 0;
    double megabytes = messages * (double)bytes / 1e6;

    if (benchmark->layout != IMB_LAYOUT_BARRIER) {
        printf("%13zu", bytes);
    }
    printf("%13d", result->repetitions);
    switch (benchmark->layout) {
    case IMB_LAYOUT_SINGLE:
        printf("%13.3f%13.2f", result->max_s * 1e6, megabytes);
        break;
    case IMB_LAYOUT_RATE:
        printf("%13.2f%13.0f", megabytes, messages);
        break;
    case IMB_LAYOUT_CALL:
        printf("%13.3f%16.3f", result->max_s * 1e6, result->median_s * 1e6);
        break;
    default:
        printf("%13.3f%13.3f%13.3f", result->min_s * 1e6, result->max_s * 1e6,
               result->average_s * 1e6);
        if (benchmark->layout == IMB_LAYOUT_PARALLEL) {
            printf("%13.2f", megabytes);
        }
        break;
    }
    if (options->check) {
        printf("%13.0f", result->defects);
    }
    printf("\n");
    fflush(stdout);
}

static void print_no_memory(size_t bytes, double needed_bytes)
{
    printf("%13zu out-of-mem.; needed %.3f GB for each rank; allow it with -mem\n", bytes,
           needed_bytes / 1e9);
    fflush(stdout);
}

/* Contents of checked messages, made from sender, receiver and round. */

/* Return a seed whose bits all depend on every argument. */
static uint64_t pattern_seed(int from, int to, int round)
{
    uint64_t x = ((uint64_t)(uint32_t)from << 40) ^ ((uint64_t)(uint32_t)(to + 1) << 20) ^
                 (uint64_t)(uint32_t)round;
    x = (x ^ (x >> 31)) * UINT64_C(0x9E3779B97F4A7C15);
    return x ^ (x >> 29);
}

/* Return the byte at an offset. It depends on all of the offset, which reveals shifted blocks. */
static inline unsigned char pattern_byte(uint64_t seed, size_t offset)
{
    uint64_t x = (seed + offset) * UINT64_C(0xD6E8FEB86659FD93);
    return (unsigned char)(x >> 56);
}

void imb_pattern_fill(unsigned char *buffer, size_t bytes, int from, int to, int round)
{
    uint64_t seed = pattern_seed(from, to, round);
    for (size_t i = 0; i < bytes; i++) {
        buffer[i] = pattern_byte(seed, i);
    }
}

size_t imb_pattern_compare(const unsigned char *buffer, size_t bytes, int from, int to, int round)
{
    uint64_t seed = pattern_seed(from, to, round);
    size_t wrong = 0;
    for (size_t i = 0; i < bytes; i++) {
        wrong += buffer[i] != pattern_byte(seed, i);
    }
    return wrong;
}

/* At most 97 · (number of ranks)² / 2, exact in a float's 24 bits up to 500 ranks. */
static inline float pattern_number(size_t index, int round)
{
    return (float)((index + (size_t)round * 13) % 97);
}

void imb_numbers_fill(float *buffer, size_t count, int rank, int round)
{
    for (size_t i = 0; i < count; i++) {
        buffer[i] = pattern_number(i, round) * (float)(rank + 1);
    }
}

size_t imb_numbers_compare(const float *buffer, size_t first, size_t count, int size, int round)
{
    float ranks = (float)((long)size * (size + 1) / 2);
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++) {
        if (buffer[i] != pattern_number(first + i, round) * ranks) {
            wrong += sizeof(float);
        }
    }
    return wrong;
}

/* Choice of ranks, and timing. */

#define PAGE_BYTES 4096

/* Grow a buffer and touch its pages. Discards its contents. */
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

/* Return the seconds for each iteration and leg on this rank. */
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

/* Return the seconds of one iteration on the slowest rank, measured over `repetitions`. */
static double estimate(const struct imb_benchmark *benchmark, struct imb_run *run, int repetitions)
{
    double mine = time_iterations(benchmark, run, repetitions) * benchmark->legs;
    double slowest = 0;
    MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, run->comm);
    return slowest;
}

/* Return the number of repetitions, bounded by -iter, volume, and the time of a few of them. */
static int choose_repetitions(const struct imb_benchmark *benchmark,
                              const struct imb_options *options, struct imb_run *run)
{
    double repetitions = options->iterations;
    /* The first iteration may open connections, so it only tells whether several more would exceed
     * -time. */
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

/* Fill the send buffer with new contents, and clear the receive buffer. */
static void renew_contents(const struct imb_benchmark *benchmark, struct imb_run *run)
{
    run->round++;
    memset(run->receive, 0xA5, run->receive_capacity);
    benchmark->fill(run);
    /* The receiver must clear its buffer before a message of this round arrives. */
    MPI_Barrier(run->comm);
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Run one size; rank 0 prints. Returns the wrong bytes of all ranks. */
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
            print_no_memory(run->bytes, needed);
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
        /* Only the sender's calls are timed. */
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
        print_result(benchmark, options, run->size, run->bytes, &result);
    }
    return result.defects;
}

/* Set *bytes to size number `index` of this benchmark. Returns false after the last. */
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

/* Sleep outside MPI, which would poll. */
static void sleep_until_exists(const char *path)
{
    while (access(path, F_OK) != 0) {
        sleep_ns(IMB_SLEEP_NS);
    }
}

/* Run one benchmark on the first `size` ranks; the others wait. */
static double run_group(const struct imb_benchmark *benchmark, const struct imb_options *options,
                        struct imb_run *run, int size)
{
    int world_rank;
    int world_size;
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    bool is_active = world_rank < size;
    double defects = 0;
    run->round = 0; /* equal on all ranks, also those that waited during an earlier benchmark */
    MPI_Comm_split(MPI_COMM_WORLD, is_active ? 0 : MPI_UNDEFINED, world_rank, &run->comm);
    if (is_active) {
        if (options->sleep_until != NULL) {
            sleep_ns(IMB_SETTLE_NS);
        }
        MPI_Comm_rank(run->comm, &run->rank);
        MPI_Comm_size(run->comm, &run->size);
        if (world_rank == 0) {
            print_header(benchmark, options, size, world_size - size);
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

/* Run one benchmark on npmin ranks, then on twice as many, up to all. */
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
    if (parse_options(&options, argc, argv, rank, &status)) {
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
            print_banner(&options, argc, argv);
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
    MPI_Finalize();
    return status;
}
