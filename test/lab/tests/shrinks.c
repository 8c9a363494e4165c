/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * An MPI program that continues without failed processes (ULFM); needs mpirun --with-ft.
 *
 * shrinks busy   all ranks reduce repeatedly, until one of them is lost
 * shrinks idle   each rank waits for a message from the next, which never arrives
 * shrinks apart FILE   as idle, but the first rank's timeout never expires, so it learns of the
 *                loss from the others, and the last rank's timeout is 30 times theirs. When the
 *                others have continued, they stay outside MPI until the last rank has continued,
 *                too, and has created FILE, which all must see
 *
 * Each rank prints that it is working, and after a loss, the error class. It then revokes and
 * shrinks the communicator, exchanges some rounds with the survivors, prints a line, and ends.
 */
#include <mpi.h>
#include <mpi-ext.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCK_BYTES 300000
#define ROUNDS 10
#define RANKS 4 /**< number of ranks in `apart` */

static unsigned char out[BLOCK_BYTES], in[BLOCK_BYTES];

static void check(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "wrong: %s\n", what);
        _exit(9);
    }
}

/** Send a short message and a long one around the ring. */
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

/** Wait for the file that the last rank creates once it has continued alone. */
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

/** Communicate until a process is lost. Returns the error code of the failed call. */
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
    /* Connect all pairs: during a revoke, 5.0.7 cannot make first contact with a failed peer. */
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
