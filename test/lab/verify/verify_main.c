/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * rawe-verify: exercises MPI and checks every byte that arrives. This file runs the groups one
 * after the other and reports them.
 */
#include "verify.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void list_groups(void)
{
    for (size_t i = 0; i < verify_group_count; i++) {
        printf("%-14s %s\n", verify_groups[i].name, verify_groups[i].summary);
    }
}

/* Check that no message is left over after a group, which would be a fault of the transport. */
static void check_nothing_left(void)
{
    int found = 0, size = 0;
    MPI_Status status;

    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, verify.comm, &found, &status);
    MPI_Barrier(MPI_COMM_WORLD); /* no rank starts the next group before all have looked */
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

/* Return why this group cannot run here, or NULL; the same on all ranks. */
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
 * Judge a run with --plant that reaches its end: it has missed the planted fault, or had no check
 * to plant it in. Returns the exit code.
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
    verify_sizes(0, &sizes); /* fills the table while there is one thread */
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
