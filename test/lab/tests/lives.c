/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * lives: each process uses Open MPI several times, in successive MPI sessions. In each session, the
 * ranks send messages of several sizes around a ring.
 *
 * Usage: lives TIMES [BCASTS FILE]. With BCASTS, that many Bcasts from all roots in turn follow;
 * then each rank prints "waits". Once FILE exists, BCASTS more follow, and one from rank 0 as the
 * last call of the session. Each rank prints "lived" at the end.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BYTES_MOST = 300000 };

static void check(int condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "lives: %s\n", what);
        abort();
    }
}

static void exchange(MPI_Comm comm, int life)
{
    static unsigned char mine[BYTES_MOST], theirs[BYTES_MOST];
    static const int sizes[] = {1, 3000, BYTES_MOST};
    int rank, size;

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int left = (rank + size - 1) % size;
        memset(mine, rank * 16 + life, sizeof mine);
        memset(theirs, 255, sizeof theirs);
        MPI_Sendrecv(mine, sizes[i], MPI_BYTE, (rank + 1) % size, 1, theirs, sizes[i], MPI_BYTE,
                     left, 1, comm, MPI_STATUS_IGNORE);
        for (int k = 0; k < sizes[i]; k++) {
            check(theirs[k] == left * 16 + life, "a byte is wrong");
        }
    }
}

static void bcast(MPI_Comm comm, int root, int value)
{
    int rank, received;

    MPI_Comm_rank(comm, &rank);
    received = rank == root ? value : -1;
    MPI_Bcast(&received, 1, MPI_INT, root, comm);
    check(received == value, "a Bcast is wrong");
}

/** Broadcast, with no Barrier after the last Bcast. */
static void bcasts(MPI_Comm comm, int count, const char *file)
{
    int size;

    MPI_Comm_size(comm, &size);
    for (int i = 0; i < 2 * count; i++) {
        if (i == count) {
            puts("waits");
            fflush(stdout);
        }
        while (i == count && access(file, F_OK) != 0) {
            usleep(10000);
        }
        bcast(comm, i % size, i);
    }
    MPI_Barrier(comm);
    bcast(comm, 0, count);
}

static void live(int life, int count, const char *file)
{
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;

    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "lives", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    exchange(comm, life);
    if (count != 0) {
        bcasts(comm, count, file);
    }
    MPI_Comm_free(&comm);
    MPI_Group_free(&group);
    MPI_Session_finalize(&session);
}

int main(int argc, char **argv)
{
    check(argc == 2 || argc == 4, "usage: lives TIMES [BCASTS FILE]");
    for (int life = 0; life < atoi(argv[1]); life++) {
        live(life, argc == 4 ? atoi(argv[2]) : 0, argv[argc - 1]);
    }
    puts("lived");
    return 0;
}
