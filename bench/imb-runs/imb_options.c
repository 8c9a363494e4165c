/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of rawe-imb: the subset of IMB-MPI1's options that comparisons use. */
#include "imb.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

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

/* Benchmark number `index` of both tables; NULL after the last. */
static const struct imb_benchmark *benchmark_at(int index)
{
    if (index < imb_point_to_point_count) {
        return &imb_point_to_point[index];
    }
    index -= imb_point_to_point_count;
    return index < imb_collectives_count ? &imb_collectives[index] : NULL;
}

/* The benchmark of this name, upper or lower case; NULL when there is none. */
static const struct imb_benchmark *find_benchmark(const char *name)
{
    const struct imb_benchmark *found = NULL;
    for (int i = 0; (found = benchmark_at(i)) != NULL && strcasecmp(name, found->name) != 0; i++) {
    }
    return found;
}

/* A whole number from `low` to `high` at the start of text; *end is what follows it. */
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

static bool parse_positive(const char *text, double *value)
{
    char *end;
    *value = strtod(text, &end);
    return end != text && *end == '\0' && *value > 0 && *value < 1e9;
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
        double megabytes;
        if (!parse_positive(end + 1, &megabytes)) {
            return false;
        }
        options->volume_bytes = megabytes * 1e6;
        return true;
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

/* One option that takes a value. Returns 1 when read, 0 when unknown, -1 when the value is bad. */
static int parse_valued(struct imb_options *options, const char *name, const char *value, char *why,
                        size_t why_size)
{
    double number = 0;
    bool good = true;
    if (strcmp(name, "-iter") == 0) {
        good = parse_iter(options, value);
    } else if (strcmp(name, "-time") == 0) {
        good = parse_positive(value, &options->seconds);
    } else if (strcmp(name, "-msglog") == 0) {
        good = parse_msglog(options, value);
    } else if (strcmp(name, "-bytes") == 0) {
        good = parse_whole(value, 0, 1 << MSGLOG_LIMIT, &options->bytes);
    } else if (strcmp(name, "-npmin") == 0) {
        good = parse_whole(value, 1, 1000000, &options->npmin);
    } else if (strcmp(name, "-mem") == 0) {
        good = parse_positive(value, &number);
        options->memory_bytes = number * 1e9;
    } else if (strcmp(name, "-receive_buffers") == 0) {
        good = parse_whole(value, 2, IMB_BUFFERS_MAX, &options->receive_buffers);
    } else if (strcmp(name, "-sleep_until") == 0) {
        options->sleep_until = value;
    } else {
        return 0;
    }
    if (!good) {
        snprintf(why, why_size, "'%s' is no value for %s; see -help", value, name);
    }
    return good ? 1 : -1;
}

bool imb_options_parse(struct imb_options *options, int argc, char **argv, int rank, int *status)
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
            int read = parse_valued(options, argv[i], argv[i + 1], why, sizeof(why));
            if (read == 0) {
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
