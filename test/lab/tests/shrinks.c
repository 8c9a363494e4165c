/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * An MPI program that goes on without processes that fail (ULFM); it needs mpirun's --with-ft.
 *
 * shrinks busy   ranks reduce over all of them, again and again, until one of them is lost
 * shrinks idle   each rank waits for a message of the next one, which never comes
 * shrinks apart FILE   the same, but the first rank finds no peer silent: it hears of the loss from
 *                the others; the last one takes 30 times as long as they do. The others, once they
 *                have gone on, stay outside of MPI until it has, too: it then makes FILE, which all
 *                have to see
 *
 * Each rank says that it works, and when it has noticed a loss what it was told. It then revokes
 * the communicator, shrinks it, exchanges some rounds with who is left, says so, and ends.
 */
#include <mpi.h>
#include <mpi-ext.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCK_BYTES 300000
#define ROUNDS 10
#define RANKS 4 /**< where they are set apart */

static unsigned char out[BLOCK_BYTES], in[BLOCK_BYTES];

static void check(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "wrong: %s\n", what);
        _exit(9);
    }
}

/** A round of a ring: a short message and a long one. */
static int exchange(MPI_Comm comm, int round)
{
    int rank, size;

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    const int previous = (rank + size - 1) % size;
    memset(out, rank + round, sizeof out);
    for (int length = 1; length <= BLOCK_BYTES; length += BLOCK_BYTES - 1) {
        int status = MPI_Sendrecv(out, length, MPI_BYTE, (rank + 1) % size, 1, in, length, MPI_BYTE,
                                  previous, 1, comm, MPI_STATUS_IGNORE);
        if (status != MPI_SUCCESS) {
            return status;
        }
        for (int i = 0; i < length; i++) {
            check(in[i] == (unsigned char)(previous + round), "a byte of a round");
        }
    }
    return MPI_SUCCESS;
}

/** The last rank is cut off, and makes the file when it has gone on alone. */
static void wait_apart(const char *file, int last)
{
    if (last) {
        FILE *made = fopen(file, "w");
        check(made != NULL && fclose(made) == 0, "making the file");
    }
    while (access(file, F_OK) != 0) {
        usleep(10000);
    }
}

/** Until a process is lost; what MPI says then. */
static int work(MPI_Comm comm, int idle, int rank, int size)
{
    int status = MPI_SUCCESS;

    while (status == MPI_SUCCESS) {
        int sum = rank;
        status = idle ? MPI_Recv(&sum, 1, MPI_INT, (rank + 1) % size, 2, comm, MPI_STATUS_IGNORE)
                      : MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, comm);
        check(status != MPI_SUCCESS || (!idle && sum == size * (size - 1) / 2), "a sum");
    }
    return status;
}

int main(int argc, char **argv)
{
    int rank, size, class, left;
    MPI_Comm comm, rest;

    check(argc == 2 || argc == 3, "one argument is needed, or two");
    const int apart = argc == 3;
    const char *number = getenv("PMIX_RANK"), *timeout = getenv("OMPI_MCA_btl_rawe_peer_timeout");
    if (apart && number != NULL && timeout != NULL) {
        const int times[RANKS] = {1800, 1, 1, 30};
        char longer[16];
        snprintf(longer, sizeof longer, "%d", times[atoi(number) % RANKS] * atoi(timeout));
        setenv("OMPI_MCA_btl_rawe_peer_timeout", longer, 1);
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    /* All talk to all: whom 5.0.7 meets for the first time when it revokes must be there. */
    int *numbers = calloc(2 * (size_t)size, sizeof *numbers);
    check(numbers != NULL && exchange(comm, 0) == MPI_SUCCESS &&
              MPI_Alltoall(numbers, 1, MPI_INT, numbers + size, 1, MPI_INT, comm) == MPI_SUCCESS,
          "the first rounds");
    free(numbers);
    printf("rank %d pid %d works\n", rank, (int)getpid());
    fflush(stdout);

    int status = work(comm, strcmp(argv[1], "busy") != 0, rank, size);
    MPI_Error_class(status, &class);
    printf("rank %d is told %s\n", rank,
           class == MPIX_ERR_PROC_FAILED ? "PROC_FAILED"
           : class == MPIX_ERR_REVOKED   ? "REVOKED"
                                         : "something else");
    fflush(stdout);
    MPIX_Comm_revoke(comm);
    check(MPIX_Comm_shrink(comm, &rest) == MPI_SUCCESS, "shrinking");
    MPI_Comm_set_errhandler(rest, MPI_ERRORS_RETURN);
    MPI_Comm_size(rest, &left);
    for (int round = 0; round < ROUNDS; round++) {
        check(exchange(rest, round) == MPI_SUCCESS, "a round of the survivors");
    }
    check(MPI_Barrier(rest) == MPI_SUCCESS, "a barrier of the survivors");
    printf("rank %d went on with %d of %d\n", rank, left, size);
    fflush(stdout);
    if (apart) {
        wait_apart(argv[2], rank == RANKS - 1);
    }
    MPI_Comm_free(&rest);
    MPI_Comm_free(&comm);
    MPI_Finalize();
    return 0;
}
