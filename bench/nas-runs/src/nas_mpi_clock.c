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

static void count_message(int count, MPI_Datatype type)
{
    int size = 0;

    PMPI_Type_size(type, &size);
    usage.messages++;
    usage.bytes += (double)count * size;
}

int MPI_Send(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm)
{
    double start = PMPI_Wtime();
    int rc = PMPI_Send(buf, count, type, dest, tag, comm);

    usage.seconds += PMPI_Wtime() - start;
    count_message(count, type);
    return rc;
}

int MPI_Isend(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    double start = PMPI_Wtime();
    int rc = PMPI_Isend(buf, count, type, dest, tag, comm, request);

    usage.seconds += PMPI_Wtime() - start;
    count_message(count, type);
    return rc;
}

int MPI_Recv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
             MPI_Status *status)
{
    double start = PMPI_Wtime();
    int rc = PMPI_Recv(buf, count, type, source, tag, comm, status);

    usage.seconds += PMPI_Wtime() - start;
    return rc;
}

int MPI_Irecv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    double start = PMPI_Wtime();
    int rc = PMPI_Irecv(buf, count, type, source, tag, comm, request);

    usage.seconds += PMPI_Wtime() - start;
    return rc;
}

int MPI_Wait(MPI_Request *request, MPI_Status *status)
{
    double start = PMPI_Wtime();
    int rc = PMPI_Wait(request, status);

    usage.seconds += PMPI_Wtime() - start;
    return rc;
}

int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[])
{
    double start = PMPI_Wtime();
    int rc = PMPI_Waitall(count, requests, statuses);

    usage.seconds += PMPI_Wtime() - start;
    return rc;
}

int MPI_Allreduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm)
{
    double start = PMPI_Wtime();
    int rc = PMPI_Allreduce(sendbuf, recvbuf, count, type, op, comm);

    usage.seconds += PMPI_Wtime() - start;
    return rc;
}
