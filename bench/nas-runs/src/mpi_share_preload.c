/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A preloaded library that measures NPB's own Fortran programs' share of time in MPI.
 *
 * NPB's LU and SP call MPI_Barrier right before they start their clock, and again, or MPI_Finalize,
 * soon after they stop it: the longest stretch without a barrier is the one that is timed. Rank 0
 * prints its share in the form the project's own programs use.
 *
 * Fortran's calls arrive at mpi_send_ and so on; each wrapper passes them on to the next library.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include <mpi.h>

struct stretch {
    double started, whole; /* seconds */
    double inside;         /* seconds in MPI calls */
    double messages, bytes;
};
static struct stretch current, longest;

static void *next(const char *name)
{
    void *function = dlsym(RTLD_NEXT, name);

    if (NULL == function) {
        fprintf(stderr,
                "mpi_share_preload: no %s behind this library. Preload it only into MPI programs "
                "written in Fortran.\n",
                name);
        abort();
    }
    return function;
}

static void count_message(const int *count, const int *type)
{
    int size = 0;

    PMPI_Type_size(PMPI_Type_f2c(*type), &size);
    current.messages += 1.0;
    current.bytes += (double)*count * size;
}

/* Ends the current stretch, keeps it if it is the longest so far, and starts the next. */
static void turn(void)
{
    double now = PMPI_Wtime();

    current.whole = current.started > 0.0 ? now - current.started : 0.0;
    if (current.whole >= longest.whole) {
        longest = current;
    }
    current = (struct stretch){.started = now};
}

/* PARAMETERS and ARGUMENTS: the Fortran routine's, every one of them a pointer. */
#define WRAP(NAME, PARAMETERS, ARGUMENTS, EXTRA) \
    void NAME PARAMETERS;                        \
    void NAME PARAMETERS                         \
    {                                            \
        static void(*real) PARAMETERS;           \
        double start = PMPI_Wtime();             \
                                                 \
        if (NULL == real) {                      \
            *(void **)&real = next(#NAME);       \
        }                                        \
        real ARGUMENTS;                          \
        current.inside += PMPI_Wtime() - start;  \
        EXTRA;                                   \
    }

WRAP(mpi_send_, (void *buf, int *count, int *type, int *dest, int *tag, int *comm, int *rc),
     (buf, count, type, dest, tag, comm, rc), count_message(count, type))
WRAP(mpi_isend_,
     (void *buf, int *count, int *type, int *dest, int *tag, int *comm, int *request, int *rc),
     (buf, count, type, dest, tag, comm, request, rc), count_message(count, type))
WRAP(mpi_recv_,
     (void *buf, int *count, int *type, int *source, int *tag, int *comm, int *status, int *rc),
     (buf, count, type, source, tag, comm, status, rc), (void)0)
WRAP(mpi_irecv_,
     (void *buf, int *count, int *type, int *source, int *tag, int *comm, int *request, int *rc),
     (buf, count, type, source, tag, comm, request, rc), (void)0)
WRAP(mpi_wait_, (int *request, int *status, int *rc), (request, status, rc), (void)0)
WRAP(mpi_waitall_, (int *count, int *requests, int *statuses, int *rc),
     (count, requests, statuses, rc), (void)0)
WRAP(mpi_bcast_, (void *buf, int *count, int *type, int *root, int *comm, int *rc),
     (buf, count, type, root, comm, rc), (void)0)
WRAP(mpi_allreduce_, (void *from, void *to, int *count, int *type, int *op, int *comm, int *rc),
     (from, to, count, type, op, comm, rc), (void)0)
WRAP(mpi_reduce_,
     (void *from, void *to, int *count, int *type, int *op, int *root, int *comm, int *rc),
     (from, to, count, type, op, root, comm, rc), (void)0)
WRAP(mpi_barrier_, (int *comm, int *rc), (comm, rc), turn())

static void report(void)
{
    double share = longest.whole > 0.0 ? 100.0 * longest.inside / longest.whole : 0.0;
    double mine[3] = {share, longest.messages, longest.bytes}, sums[3];
    double edges[2] = {share, -share}, extreme[2];
    int rank, processes;

    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &processes);
    PMPI_Reduce(mine, sums, 3, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    PMPI_Reduce(edges, extreme, 2, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (0 == rank) {
        printf(" MPI share (%%)   =          %15.2f\n", sums[0] / processes);
        printf(" MPI share min   =          %15.2f\n", -extreme[1]);
        printf(" MPI share max   =          %15.2f\n", extreme[0]);
        printf(" Messages sent   =          %15.0f\n", sums[1]);
        printf(" Bytes sent      =          %15.0f\n", sums[2]);
        fflush(stdout);
    }
}

void mpi_finalize_(int *rc);
void mpi_finalize_(int *rc)
{
    void (*real)(int *);

    *(void **)&real = next("mpi_finalize_");
    turn();
    report();
    real(rc);
}
