/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints a finished run in NPB's layout, with the verdict of its verification. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nas.h"

#ifndef NAS_VERSION
#define NAS_VERSION "1"
#endif
#ifndef NAS_COMPILE_FLAGS
#define NAS_COMPILE_FLAGS "unknown"
#endif

int nas_refuse(const char *format, ...)
{
    va_list arguments;
    int rank;

    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    va_start(arguments, format);
    if (0 == rank) {
        vfprintf(stderr, format, arguments);
    }
    va_end(arguments);
    return 0;
}

int nas_run_options(struct nas_run *run, const char *benchmark, const struct nas_class classes[4],
                    int argc, char **argv)
{
    run->benchmark = benchmark;
    for (int n = 0; n < 4 && argc >= 2 && 1 == strlen(argv[1]); n++) {
        if (classes[n].name == toupper((unsigned char)argv[1][0])) {
            run->class_data = &classes[n];
        }
    }
    if (NULL == run->class_data || argc > 3) {
        return nas_refuse("usage: %s CLASS [ITERATIONS]\n  CLASS is one of S, W, A, B%s%s\n",
                          argv[0], argc >= 2 ? "; not " : "", argc >= 2 ? argv[1] : "");
    }
    run->iterations = run->class_data->iterations;
    if (3 == argc) {
        char *end = NULL;

        errno = 0;
        long wanted = strtol(argv[2], &end, 10);

        if (0 != errno || end == argv[2] || '\0' != *end || wanted < 1 || wanted > 1000000) {
            return nas_refuse("%s: ITERATIONS is \"%s\"; it must be a number from 1 to 1000000\n",
                              argv[0], argv[2]);
        }
        run->iterations = (int)wanted;
    }
    return 1;
}

void nas_norm(const double sum[NAS_VARS], int grid_points, double norm[NAS_VARS])
{
    double inner = grid_points - 2;

    MPI_Allreduce(sum, norm, NAS_VARS, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    for (int m = 0; m < NAS_VARS; m++) {
        norm[m] = sqrt(norm[m] / (inner * inner * inner));
    }
}

/* Print a computed value beside the published one. Returns 1 if they agree; NaN never does. */
static int compare(const char *label, double value, double published)
{
    double difference = fabs((value - published) / published);
    int agrees = difference <= NAS_TOLERANCE;

    printf(" %s %4s %20.13E %20.13E %20.13E\n", agrees ? "        " : "FAILURE:", label, value,
           published, difference);
    return agrees;
}

static int compare_all(const struct nas_run *run)
{
    static const char *const label[NAS_VARS] = {"1", "2", "3", "4", "5"};
    const struct nas_class *published = run->class_data;
    int agrees = 1;

    printf("\n Verification being performed for class %c\n", published->name);
    printf(" Accuracy setting for epsilon = %20.13E\n", NAS_TOLERANCE);
    printf(" Comparison of RMS-norms of residual\n");
    for (int m = 0; m < NAS_VARS; m++) {
        agrees &= compare(label[m], run->residual[m], published->residual[m]);
    }
    printf(" Comparison of RMS-norms of solution error\n");
    for (int m = 0; m < NAS_VARS; m++) {
        agrees &= compare(label[m], run->error[m], published->error[m]);
    }
    if (0.0 != published->surface) {
        printf(" Comparison of surface integral\n");
        agrees &= compare("", run->surface, published->surface);
    }
    printf(agrees ? " Verification Successful\n" : " Verification failed\n");
    return agrees;
}

static void print_lines(const struct nas_run *run, const char *verdict, int processes,
                        double seconds)
{
    int points = run->class_data->points;
    double rate = seconds > 0.0 ? run->operations / seconds / 1e6 : 0.0;

    printf("\n\n %s Benchmark Completed.\n", run->benchmark);
    printf(" Class           =             %12c\n", run->class_data->name);
    printf(" Size            =            %4dx%4dx%4d\n", points, points, points);
    printf(" Iterations      =             %12d\n", run->iterations);
    printf(" Time in seconds =             %12.2f\n", seconds);
    printf(" Total processes =             %12d\n", processes);
    printf(" Mop/s total     =          %15.2f\n", rate);
    printf(" Mop/s/process   =          %15.2f\n", rate / processes);
    printf(" Operation type  =           floating point\n");
    printf(" Verification    =           %s\n", verdict);
    printf(" Version         =             %12s\n", "rawe-" NAS_VERSION);
    printf(" Compile options =  %s\n", NAS_COMPILE_FLAGS);
}

int nas_run_report(const struct nas_run *run)
{
    /* One reduction for each operation. The average is that of the ranks' shares. */
    double share = run->seconds > 0.0 ? 100.0 * run->usage.seconds / run->seconds : 0.0;
    double maxima[3] = {run->seconds, share, -share};
    double sums[3] = {share, (double)run->usage.messages, run->usage.bytes};
    double largest[3], total[3];
    int rank, processes, agrees = 1;

    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &processes);
    PMPI_Allreduce(maxima, largest, 3, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    PMPI_Allreduce(sums, total, 3, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (0 == rank) {
        const char *verdict = "NOT PERFORMED";

        if (run->iterations == run->class_data->iterations) {
            agrees = compare_all(run);
            verdict = agrees ? "   SUCCESSFUL" : " UNSUCCESSFUL";
        } else {
            printf("\n No norms are published for %d iterations\n", run->iterations);
        }
        print_lines(run, verdict, processes, largest[0]);
        printf(" MPI share (%%)   =          %15.2f\n", total[0] / processes);
        printf(" MPI share min   =          %15.2f\n", -largest[2]);
        printf(" MPI share max   =          %15.2f\n", largest[1]);
        printf(" Messages sent   =          %15.0f\n", total[1]);
        printf(" Bytes sent      =          %15.0f\n\n\n", total[2]);
        fflush(stdout);
    }
    PMPI_Bcast(&agrees, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return agrees;
}

/* Wrappers of the MPI calls in LU and SP, which sum up their time and the messages sent. */

static struct nas_mpi_usage usage;

void nas_mpi_clock_start(void)
{
    usage = (struct nas_mpi_usage){0};
}

struct nas_mpi_usage nas_mpi_clock_read(void)
{
    return usage;
}

/* End a wrapper with the wrapped call, whose time counts. */
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
