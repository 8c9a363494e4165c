/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * An MPI program that looks at the rawe BTL from outside, for the tests of what can be seen of it.
 *
 * rawe-watch pvars N FILE   rank 0 sends N messages to rank 1; rank 0 prints each performance
 *                           variable
 * rawe-watch dump N FILE    rank 1 stays outside of MPI while N messages of rank 0 are on the way;
 *                           rank 0 has the PML dump its state, then both do after all has been
 *                           received
 *
 * Rank 0 makes FILE, which both have to see, to call rank 1 back.
 */
#include <mpi.h>

#include "opal_config.h"

#include "ompi/mca/pml/pml.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MESSAGE_BYTES 1000
#define VARIABLES_MAX 512
#define ELEMENTS_MAX 64

static int rank, size;
static const char *path;

static void fail(const char *what)
{
    fprintf(stderr, "rawe-watch: rank %d: %s failed\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 2);
}

static void call_back(void)
{
    FILE *file = fopen(path, "w");

    if (file == NULL || fclose(file) != 0) {
        fail("making the file");
    }
}

static void stay_away(void)
{
    while (access(path, F_OK) != 0) {
        usleep(1000);
    }
}

/** A performance variable of rawe's with a handle on it. */
struct variable {
    char name[128];
    int var_class, bind, readonly, continuous, text_length, count;
    MPI_Datatype type;
    MPI_T_enum enumeration;
    MPI_T_pvar_handle handle;
};

static struct variable variables[VARIABLES_MAX];
static int variable_count;

/** Handles on all variables whose name begins with btl_rawe_. */
static void find_variables(MPI_T_pvar_session session)
{
    int all;

    if (MPI_T_pvar_get_num(&all) != MPI_SUCCESS) {
        fail("MPI_T_pvar_get_num");
    }
    for (int i = 0; i < all && variable_count < VARIABLES_MAX; i++) {
        struct variable *one = &variables[variable_count];
        char text[512];
        int name_length = sizeof one->name, text_length = sizeof text, verbosity, atomic;

        if (MPI_T_pvar_get_info(i, one->name, &name_length, &verbosity, &one->var_class, &one->type,
                                &one->enumeration, text, &text_length, &one->bind, &one->readonly,
                                &one->continuous, &atomic) != MPI_SUCCESS ||
            strncmp(one->name, "btl_rawe_", 9) != 0) {
            continue;
        }
        one->text_length = (int)strlen(text);
        if (MPI_T_pvar_handle_alloc(session, i, NULL, &one->handle, &one->count) != MPI_SUCCESS ||
            one->count > ELEMENTS_MAX) {
            fail("MPI_T_pvar_handle_alloc");
        }
        variable_count++;
    }
}

static const char *class_name(int var_class)
{
    return var_class == MPI_T_PVAR_CLASS_COUNTER         ? "counter"
           : var_class == MPI_T_PVAR_CLASS_HIGHWATERMARK ? "highwatermark"
           : var_class == MPI_T_PVAR_CLASS_STATE         ? "state"
                                                         : "other";
}

static void print_variable(MPI_T_pvar_session session, const struct variable *one)
{
    unsigned long values[ELEMENTS_MAX] = {0};

    if (MPI_T_pvar_read(session, one->handle, values) != MPI_SUCCESS) {
        fail("MPI_T_pvar_read");
    }
    printf("pvar %s %s bind=%s readonly=%d continuous=%d text=%d :", one->name,
           class_name(one->var_class), one->bind == MPI_T_BIND_NO_OBJECT ? "none" : "object",
           one->readonly, one->continuous, one->text_length);
    for (int i = 0; i < one->count; i++) {
        if (one->type == MPI_INT) {
            char item[64] = "";
            int length = sizeof item, value;
            if (MPI_T_enum_get_item(one->enumeration, ((int *)values)[i], &value, item, &length) !=
                MPI_SUCCESS) {
                fail("MPI_T_enum_get_item");
            }
            printf(" %s", item);
        } else {
            printf(" %lu", values[i]);
        }
    }
    printf("\n");
}

static void send_all(int count)
{
    static char block[MESSAGE_BYTES];

    for (int i = 0; i < count; i++) {
        MPI_Send(block, MESSAGE_BYTES, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
    }
}

static void receive_all(int from, int count)
{
    static char block[MESSAGE_BYTES];

    for (int i = 0; i < count; i++) {
        MPI_Recv(block, MESSAGE_BYTES, MPI_BYTE, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

static void watch_pvars(int count)
{
    MPI_T_pvar_session session;

    if (MPI_T_pvar_session_create(&session) != MPI_SUCCESS) {
        fail("MPI_T_pvar_session_create");
    }
    find_variables(session);
    if (rank == 0) {
        send_all(count);
        receive_all(1, 1); /* when it has come, they have arrived */
        for (int i = 0; i < variable_count; i++) {
            print_variable(session, &variables[i]);
        }
    } else if (rank == 1) {
        static char block[MESSAGE_BYTES];
        receive_all(0, count);
        MPI_Send(block, MESSAGE_BYTES, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
    }
    for (int i = 0; i < variable_count; i++) {
        if (MPI_T_pvar_handle_free(session, &variables[i].handle) != MPI_SUCCESS) {
            fail("MPI_T_pvar_handle_free");
        }
    }
    if (MPI_T_pvar_session_free(&session) != MPI_SUCCESS) {
        fail("MPI_T_pvar_session_free");
    }
}

/**
 * What the PML knows of all its peers, and their BTLs of them, between two marks in FILE.dump.RANK:
 * on the way through mpirun's pipes, parts of as much as that are lost (4.1.4).
 */
static void dump(const char *mark)
{
    char name[4096];

    snprintf(name, sizeof name, "%s.dump.%d", path, rank);
    const int file = open(name, O_WRONLY | O_CREAT | O_APPEND, 0644), before = dup(STDERR_FILENO);
    if (file < 0 || before < 0 || dup2(file, STDERR_FILENO) < 0) {
        fail("opening the file for the dump");
        return;
    }
    fprintf(stderr, "begin of %s\n", mark);
    mca_pml.pml_dump((struct ompi_communicator_t *)MPI_COMM_WORLD, 1);
    fprintf(stderr, "end of %s\n", mark);
    (void)dup2(before, STDERR_FILENO);
    close(before);
    close(file);
}

static void watch_dump(int count)
{
    MPI_Barrier(MPI_COMM_WORLD); /* both know each other */
    if (rank == 0) {
        send_all(count);
        dump("dump while the peer is away");
        call_back();
        receive_all(1, 1);
    } else if (rank == 1) {
        static char block[MESSAGE_BYTES];
        stay_away();
        receive_all(0, count);
        MPI_Send(block, MESSAGE_BYTES, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    dump("dump after all");
    MPI_Barrier(MPI_COMM_WORLD); /* neither asks the other to close meanwhile */
}

int main(int argc, char **argv)
{
    const char *what = argc == 4 ? argv[1] : "";
    const int count = argc == 4 ? atoi(argv[2]) : 0;
    int provided;

    path = argc == 4 ? argv[3] : "";
    MPI_Init(&argc, &argv);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (count <= 0 || size < 2) {
        fail("reading the arguments (two ranks and: pvars|dump NUMBER FILE)");
    }
    if (strcmp(what, "pvars") == 0) {
        watch_pvars(count);
    } else if (strcmp(what, "dump") == 0) {
        watch_dump(count);
    } else {
        fail("reading the arguments (pvars or dump)");
    }
    MPI_T_finalize(); /* Open MPI 4.1.4 crashes when this comes last, whatever the BTL */
    MPI_Finalize();
    return 0;
}
