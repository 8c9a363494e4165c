/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * rawe-verify: exercises MPI and checks every byte that arrives. This file lists the test groups,
 * reads the command line that selects them, runs them in turn, and prints a report. The
 * command line is read before MPI_Init, because the selected groups determine the thread level.
 */
#include "verify.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "options.h"

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

/* Returns true if the comma-separated list contains the name. */
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

static bool read_plant_kind(const struct option_row *row, const char *value)
{
    static const char *const kinds[] = {
        [VERIFY_PLANT_BYTE] = "byte",
        [VERIFY_PLANT_GUARD] = "guard",
        [VERIFY_PLANT_VALUE] = "value",
    };

    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(value, kinds[i]) == 0) {
            verify.plant_kind = (enum verify_plant_kind)i;
            return true;
        }
    }
    return false;
}

static bool read_thread_level(const struct option_row *row, const char *value)
{
    bool multiple = strcmp(value, "multiple") == 0;

    verify.thread_level = multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE;
    return multiple || strcmp(value, "single") == 0;
}

/* Set defaults that depend on other options. Unset values are negative, or 0 bytes. */
static void complete(void)
{
    const bool soaks = verify.soak_seconds > 0;

    if (verify.max_bytes == 0) {
        verify.max_bytes = soaks ? 300000 : verify.quick ? 1 << 20 : 17 << 20;
    }
    if (verify.scale < 0) {
        verify.scale = verify.quick ? 0.2 : 1.0;
    }
    if (verify.compute_seconds < 0) {
        verify.compute_seconds = verify.quick ? 0.1 : 0.3;
    }
    verify.thread_level_said = verify.thread_level >= 0;
    if (verify.thread_level < 0) {
        bool many = soaks ? verify.soak_threads > 1 : verify_options_selected("threads");

        /* Request threads only if a group uses them, because they change MPI's code paths. */
        verify.thread_level = many ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE;
    }
    check_list("--only", verify.only);
    check_list("--skip", verify.skip);
}

static const struct option_row rows[] = {
    {"list", NULL, "print the groups and exit", option_on, .to = &verify.list},
    {"only", "A,B", "run only these groups", option_text, .to = &verify.only},
    {"skip", "A,B", "skip these groups", option_text, .to = &verify.skip},
    {"max-bytes", "N[K|M]",
     "largest message (default 17M, with --quick 1M, of a soak 300000;\n"
     "at most 256M)",
     option_bytes, .to = &verify.max_bytes, 1, 256 << 20, "a number of bytes of at most 256M"},
    {"scale", "F", "multiply the repetitions (default 1, with --quick 0.2)", option_number,
     .to = &verify.scale, 1e-9, 1e9, "a number above 0"},
    {"quick", NULL, "small sizes, few repetitions", option_on, .to = &verify.quick},
    {"seed", "S", "seed of contents and random choices (default 1)", option_u64, .to = &verify.seed,
     0, UINT64_MAX},
    {"compute", "S", "seconds a late receiver computes (default 0.3, quick 0.1)", option_number,
     .to = &verify.compute_seconds, 0, 1e9},
    {"thread-level", "L",
     "single or multiple; default: multiple when the group threads\n"
     "runs, otherwise single",
     read_thread_level, .to = NULL, 0, 0, "single or multiple"},
    {"timeout", "S",
     "end with exit code 124 when a group takes longer (default 300,\n"
     "0 is never)",
     option_number, .to = &verify.timeout_seconds, 0, 1e9},
    {"progress", NULL, "print a line when a group starts", option_on, .to = &verify.progress},
    {"soak", "S",
     "no groups, but all-to-all of random sizes for S seconds, while\n"
     "memory and descriptors stay as they are",
     option_number, .to = &verify.soak_seconds, 1e-9, 1e9, "a time above 0"},
    {"interval", "S", "of a soak's lines (default 10)", option_number, .to = &verify.soak_interval,
     1e-9, 1e9, "a time above 0"},
    {"threads", "N", "of each rank in a soak (default 1)", option_unsigned,
     .to = &verify.soak_threads, 1, 64},
    {"until", "FILE", "a soak's end waits for this file, where rank 0 is", option_text,
     .to = &verify.soak_until},
    {"started", "FILE", "a soak makes this file, where rank 0 is, once all ranks have met",
     option_text, .to = &verify.soak_started},
    {"plant", "N", "falsify each process's Nth check, to prove that it works", option_u64,
     .to = &verify.plant, 0, UINT64_MAX},
    {"plant-kind", "K",
     "what: byte (of a received buffer), guard (the byte behind it)\n"
     "or value (a count, source, tag or flag); default byte",
     read_plant_kind, .to = NULL, 0, 0, "byte, guard or value"},
    {"child", "PART", NULL, option_text, .to = &verify.child},
};

static void end_help(void)
{
    puts("Exit code: 0 success, 1 a check failed, 2 wrong usage, 124 a group hung.");
}

void verify_options_read(int argc, char **argv)
{
    verify.seed = 1;
    verify.timeout_seconds = 300;
    verify.soak_interval = 10;
    verify.soak_threads = 1;
    verify.scale = verify.compute_seconds = -1;
    verify.thread_level = -1;
    options_read(argc, argv,
                 "usage: mpirun ... rawe-verify [options]\n\n"
                 "Exercises MPI and checks every byte that arrives.\n",
                 rows, sizeof rows / sizeof rows[0], end_help);
    complete();
}

static void list_groups(void)
{
    for (size_t i = 0; i < verify_group_count; i++) {
        printf("%-14s %s\n", verify_groups[i].name, verify_groups[i].summary);
    }
}

/* Check that a group leaves no message behind, which would be a fault of the transport. */
static void check_nothing_left(void)
{
    int found = 0, size = 0;
    MPI_Status status;

    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, verify.comm, &found, &status);
    MPI_Barrier(MPI_COMM_WORLD); /* no rank starts the next group before all have checked */
    if (found) {
        MPI_Get_count(&status, MPI_BYTE, &size);
        verify_fail("a message that no receive matches: %d -> %d tag %d, %d bytes",
                    status.MPI_SOURCE, verify.rank, status.MPI_TAG, size);
    }
}

/* Run a group. Returns the number of checks of all ranks; valid on rank 0 only. */
static uint64_t run_group(const struct verify_group *group)
{
    struct verify_counters mine;
    uint64_t sums[3] = {0, 0, 0}, values[3];
    double start = MPI_Wtime();

    if (verify.progress && verify.rank == 0) {
        printf("%-14s starts\n", group->name);
        fflush(stdout);
    }
    verify_group_enter(group->name);
    group->run();
    verify_step("end");
    check_nothing_left();
    mine = verify_counters_take();
    values[0] = mine.checks;
    values[1] = mine.messages;
    values[2] = mine.bytes;
    MPI_Reduce(values, sums, 3, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    if (verify.rank == 0) {
        printf("%-14s ok  %9" PRIu64 " messages %13" PRIu64 " bytes %9" PRIu64 " checks %7.2f s\n",
               group->name, sums[1], sums[2], sums[0], MPI_Wtime() - start);
        fflush(stdout);
    }
    return sums[0];
}

/* Return why this group cannot run here, or NULL. All ranks return the same. */
static const char *why_not(const struct verify_group *group)
{
    static char text[64];

    if (verify.size < group->min_ranks) {
        snprintf(text, sizeof text, "needs %d ranks", group->min_ranks);
        return text;
    }
    return group->unfit != NULL ? group->unfit() : NULL;
}

/*
 * Report a run with --plant that reaches its end: it missed the planted fault, or had no check in
 * which to plant it. Returns the exit code.
 */
static int judge_plant(void)
{
    uint64_t mine = verify_plant_chances(), most = 0;

    MPI_Allreduce(&mine, &most, 1, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
    if (verify.rank == 0 && most >= verify.plant) {
        printf("rawe-verify: the planted fault was NOT detected\n");
    } else if (verify.rank == 0) {
        printf("rawe-verify: nothing planted, there were only %" PRIu64 " checks of this kind\n",
               most);
    }
    return most >= verify.plant ? 1 : 2;
}

/* Run the selected groups. Returns the exit code. */
static int run_groups(void)
{
    size_t ran = 0, skipped = 0;
    uint64_t checks = 0;

    for (size_t i = 0; i < verify_group_count; i++) {
        const struct verify_group *group = &verify_groups[i];
        const char *reason;

        if (!verify_options_selected(group->name)) {
            continue;
        }
        reason = why_not(group);
        if (reason != NULL) {
            skipped++;
            if (verify.rank == 0) {
                printf("%-14s skipped: %s\n", group->name, reason);
            }
            continue;
        }
        checks += run_group(group);
        ran++;
    }
    if (verify.plant > 0) {
        return judge_plant();
    }
    if (verify.rank == 0) {
        if (ran == 0) {
            printf("rawe-verify: no group ran, nothing was verified\n");
        } else if (skipped > 0) {
            printf("rawe-verify: %zu groups, %" PRIu64 " checks, OK (%zu skipped)\n", ran, checks,
                   skipped);
        } else {
            printf("rawe-verify: %zu groups, %" PRIu64 " checks, OK\n", ran, checks);
        }
        fflush(stdout);
    }
    return ran == 0 ? 1 : 0;
}

static const char *own_path(const char *fallback)
{
    static char path[4096];
    ssize_t len = readlink("/proc/self/exe", path, sizeof path - 1);

    if (len <= 0) {
        return fallback;
    }
    path[len] = '\0';
    return path;
}

int main(int argc, char **argv)
{
    size_t sizes;
    int code = 0;

    verify_options_read(argc, argv);
    verify_sizes(0, &sizes); /* fills the table before other threads exist */
    if (verify.list) {
        list_groups();
        return 0;
    }
    MPI_Init_thread(&argc, &argv, verify.thread_level, &verify.thread_level_given);
    MPI_Comm_rank(MPI_COMM_WORLD, &verify.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &verify.size);
    verify.program = own_path(argv[0]);
    verify_errors_install();
    verify_watchdog_install();
    if (verify.child != NULL) {
        verify_group_enter("spawn");
        group_spawn_child();
    } else if (verify.soak_seconds > 0) {
        verify_soak();
    } else {
        MPI_Comm_dup(MPI_COMM_WORLD, &verify.comm);
        code = run_groups();
        MPI_Comm_free(&verify.comm);
    }
    verify_group_enter("MPI_Finalize");
    MPI_Finalize();
    alarm(0);
    return code;
}
