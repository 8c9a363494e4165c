/* SPDX-License-Identifier: BSD-3-Clause */
/* Wraps the MPI calls LU and SP use and adds up the time spent in them and the messages sent. */
#include <mpi.h>

#include "nas_mpi_clock.h"

static struct nas_mpi_usage usage;

void nas_mpi_clock_start(void)
{
    usage = (struct nas_mpi_usage){0};
}

struct nas_mpi_usage nas_mpi_clock_read(void)
{
    return usage;
}

/* Ends a function by the call it stands for, whose time counts. */
#define RETURN_TIMED(call)                     \
    do {                                       \
        double start = PMPI_Wtime();           \
        int rc = (call);                       \
        usage.seconds += PMPI_Wtime() - start; \
        return rc;                             \
    } while (0)

static void count_message(int count, MPI_Datatype type)
{
    int size = 0;

    PMPI_Type_size(type, &size);
    usage.messages++;
    usage.bytes += (double)count * size;
}

int MPI_Send(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm)
{
    count_message(count, type);
    RETURN_TIMED(PMPI_Send(buf, count, type, dest, tag, comm));
}

int MPI_Isend(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    count_message(count, type);
    RETURN_TIMED(PMPI_Isend(buf, count, type, dest, tag, comm, request));
}

int MPI_Recv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
             MPI_Status *status)
{
    RETURN_TIMED(PMPI_Recv(buf, count, type, source, tag, comm, status));
}

int MPI_Irecv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    RETURN_TIMED(PMPI_Irecv(buf, count, type, source, tag, comm, request));
}

int MPI_Wait(MPI_Request *request, MPI_Status *status)
{
    RETURN_TIMED(PMPI_Wait(request, status));
}

int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[])
{
    RETURN_TIMED(PMPI_Waitall(count, requests, statuses));
}

int MPI_Allreduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm)
{
    RETURN_TIMED(PMPI_Allreduce(sendbuf, recvbuf, count, type, op, comm));
}
