/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The groups of rawe-verify, and the command line that chooses among them. It is read before MPI_Init, because the groups that are chosen
 * decide which thread level MPI is asked for.
 */
#include "verify.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct verify_group verify_groups[] = {
    {"pt2pt", "blocking and non-blocking messages of every size", 1, group_pt2pt, NULL},
    {"large", "messages above 17 MB, up to --max-bytes", 1, group_large, group_large_unfit},
    {"outstanding", "many requests at once", 1, group_outstanding, NULL},
    {"order", "the order of one sender's messages, on several communicators", 1, group_order, NULL},
    {"unexpected", "thousands of messages before a receive is posted", 1, group_unexpected, NULL},
    {"datatypes", "derived datatypes; holes stay untouched", 1, group_datatypes, NULL},
    {"threads", "MPI_THREAD_MULTIPLE", 1, group_threads, group_threads_unfit},
    {"onesided", "windows: put, get, accumulate, locks", 2, group_onesided, group_onesided_unfit},
    {"windows", "windows: every operation, computing target", 2, group_windows,
     group_onesided_unfit},
    {"spawn", "MPI_Comm_spawn and MPI_Comm_spawn_multiple", 1, group_spawn, NULL},
    {"connect", "MPI_Comm_connect and accept, again and again", 2, group_connect, NULL},
    {"flood", "many to one", 2, group_flood, NULL},
    {"random", "all to all, random sizes and modes", 1, group_random, NULL},
    {"late", "receivers that compute without MPI calls", 2, group_late, NULL},
};
const size_t verify_group_count = sizeof verify_groups / sizeof verify_groups[0];

static void usage(FILE *out)
{
    fprintf(out,
            "usage: mpirun ... rawe-verify [options]\n"
            "\n"
            "Exercises MPI and checks every byte that arrives.\n"
            "\n"
            "  --list              print the groups and exit\n"
            "  --only A,B          run only these groups\n"
            "  --skip A,B          skip these groups\n"
            "  --max-bytes N[K|M]  largest message (default 17M, with --quick 1M; at most 256M)\n"
            "  --scale F           multiply the repetitions (default 1, with --quick 0.2)\n"
            "  --quick             small sizes, few repetitions\n"
            "  --seed S            seed of contents and random choices (default 1)\n"
            "  --compute S         seconds a late receiver computes (default 0.3, quick 0.1)\n"
            "  --thread-level L    single or multiple; default: multiple when the group threads\n"
            "                      runs, otherwise single\n"
            "  --timeout S         end with exit code 124 when a group takes longer (default 300,\n"
            "                      0 is never)\n"
            "  --progress          print a line when a group starts\n"
            "  --plant N           falsify each process's Nth check, to prove that it works\n"
            "  --plant-kind K      what: byte (of a received buffer), guard (the byte behind it)\n"
            "                      or value (a count, source, tag or flag); default byte\n"
            "\n"
            "Exit code: 0 success, 1 a check failed, 2 wrong usage, 124 a group hung.\n");
}

_Noreturn static void reject(const char *option, const char *value, const char *wanted)
{
    fprintf(stderr, "rawe-verify: %s: '%s' is not %s; see --help\n", option, value, wanted);
    exit(2);
}

static double read_number(const char *option, const char *value, double least)
{
    char *end;
    double number = strtod(value, &end);

    if (end == value || *end != '\0' || !(number >= least && number <= 1e9)) {
        reject(option, value, least > 0 ? "a number above 0" : "a number from 0 on");
    }
    return number;
}

static uint64_t read_integer(const char *option, const char *value)
{
    char *end;
    unsigned long long number = strtoull(value, &end, 0);

    if (end == value || *end != '\0' || *value == '-') {
        reject(option, value, "a whole number from 0 on");
    }
    return number;
}

static size_t read_bytes(const char *option, const char *value)
{
    char *end;
    unsigned long long number = strtoull(value, &end, 0);

    if (end == value || *value == '-') {
        reject(option, value, "a number of bytes");
    }
    if (*end == 'k' || *end == 'K') {
        number <<= 10;
        end++;
    } else if (*end == 'm' || *end == 'M') {
        number <<= 20;
        end++;
    }
    if (*end != '\0' || number > (256ull << 20)) {
        reject(option, value, "a number of bytes of at most 256M");
    }
    return (size_t)number;
}

/* True when the comma-separated list contains the name. */
static bool in_list(const char *list, const char *name)
{
    size_t len = strlen(name);

    while (list != NULL && *list != '\0') {
        size_t part = strcspn(list, ",");

        if (part == len && strncmp(list, name, len) == 0) {
            return true;
        }
        list += part + (list[part] == ',');
    }
    return false;
}

static void check_list(const char *option, const char *list)
{
    while (list != NULL && *list != '\0') {
        size_t part = strcspn(list, ","), i;

        for (i = 0; i < verify_group_count; i++) {
            if (strlen(verify_groups[i].name) == part &&
                strncmp(verify_groups[i].name, list, part) == 0) {
                break;
            }
        }
        if (i == verify_group_count) {
            fprintf(stderr, "rawe-verify: %s: there is no group '%.*s'; see --list\n", option,
                    (int)part, list);
            exit(2);
        }
        list += part + (list[part] == ',');
    }
}

bool verify_options_selected(const char *name)
{
    return (verify.only == NULL || in_list(verify.only, name)) && !in_list(verify.skip, name);
}

static enum verify_plant_kind read_plant_kind(const char *value)
{
    if (strcmp(value, "byte") == 0) {
        return VERIFY_PLANT_BYTE;
    }
    if (strcmp(value, "guard") == 0) {
        return VERIFY_PLANT_GUARD;
    }
    if (strcmp(value, "value") == 0) {
        return VERIFY_PLANT_VALUE;
    }
    reject("--plant-kind", value, "byte, guard or value");
}

static int read_thread_level(const char *value)
{
    if (strcmp(value, "single") == 0) {
        return MPI_THREAD_FUNNELED; /* the watchdog is a second thread, without MPI calls */
    }
    if (strcmp(value, "multiple") == 0) {
        return MPI_THREAD_MULTIPLE;
    }
    reject("--thread-level", value, "single or multiple");
}

/* Values that depend on others, once all are read. */
static void complete(bool bytes_said, bool scale_said, bool compute_said)
{
    if (!bytes_said) {
        verify.max_bytes = verify.quick ? 1 << 20 : 17 << 20;
    }
    if (!scale_said) {
        verify.scale = verify.quick ? 0.2 : 1.0;
    }
    if (!compute_said) {
        verify.compute_seconds = verify.quick ? 0.1 : 0.3;
    }
    verify.thread_level_said = verify.thread_level >= 0;
    if (verify.thread_level < 0) {
        verify.thread_level =
            verify_options_selected("threads") ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED;
    }
    check_list("--only", verify.only);
    check_list("--skip", verify.skip);
}

void verify_options_read(int argc, char **argv)
{
    static const struct option options[] = {
        {"list", no_argument, NULL, 'l'},
        {"only", required_argument, NULL, 'o'},
        {"skip", required_argument, NULL, 'k'},
        {"max-bytes", required_argument, NULL, 'b'},
        {"scale", required_argument, NULL, 'f'},
        {"quick", no_argument, NULL, 'q'},
        {"seed", required_argument, NULL, 's'},
        {"compute", required_argument, NULL, 'c'},
        {"thread-level", required_argument, NULL, 't'},
        {"timeout", required_argument, NULL, 'T'},
        {"progress", no_argument, NULL, 'p'},
        {"plant", required_argument, NULL, 'n'},
        {"plant-kind", required_argument, NULL, 'K'},
        {"child", required_argument, NULL, 'C'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    bool bytes_said = false, scale_said = false, compute_said = false;
    int option;

    verify.seed = 1;
    verify.timeout_seconds = 300;
    verify.thread_level = -1;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'l':
            verify.list = true;
            break;
        case 'o':
            verify.only = optarg;
            break;
        case 'k':
            verify.skip = optarg;
            break;
        case 'b':
            verify.max_bytes = read_bytes("--max-bytes", optarg);
            bytes_said = true;
            break;
        case 'f':
            verify.scale = read_number("--scale", optarg, 1e-9);
            scale_said = true;
            break;
        case 'q':
            verify.quick = true;
            break;
        case 's':
            verify.seed = read_integer("--seed", optarg);
            break;
        case 'c':
            verify.compute_seconds = read_number("--compute", optarg, 0);
            compute_said = true;
            break;
        case 't':
            verify.thread_level = read_thread_level(optarg);
            break;
        case 'T':
            verify.timeout_seconds = read_number("--timeout", optarg, 0);
            break;
        case 'p':
            verify.progress = true;
            break;
        case 'n':
            verify.plant = read_integer("--plant", optarg);
            break;
        case 'K':
            verify.plant_kind = read_plant_kind(optarg);
            break;
        case 'C':
            verify.child = optarg;
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
        fprintf(stderr, "rawe-verify: '%s' is not an option; see --help\n", argv[optind]);
        exit(2);
    }
    complete(bytes_said, scale_said, compute_said);
}
