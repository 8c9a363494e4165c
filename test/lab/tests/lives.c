/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * lives: a process uses Open MPI several times, by sessions of MPI 4, one after the other. Each time,
 * messages of several sizes go round the ranks.
 *
 * Usage: lives TIMES. Each rank prints "lived" at the end.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static void live(int life)
{
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;

    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "lives", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    exchange(comm, life);
    MPI_Comm_free(&comm);
    MPI_Group_free(&group);
    MPI_Session_finalize(&session);
}

int main(int argc, char **argv)
{
    check(argc == 2, "usage: lives TIMES");
    for (int life = 0; life < atoi(argv[1]); life++) {
        live(life);
    }
    puts("lived");
    return 0;
}
