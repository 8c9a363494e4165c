/* SPDX-License-Identifier: BSD-3-Clause */
/* Output in the layout of IMB-MPI1, so that one parser reads both programs. */
#include "imb.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

static const char imb_rule[] =
    "#-----------------------------------------------------------------------------";

static void print_rule(const struct imb_benchmark *benchmark)
{
    int width = benchmark->layout == IMB_LAYOUT_PARALLEL     ? 77
                : benchmark->layout == IMB_LAYOUT_COLLECTIVE ? 64
                                                             : 51;
    printf("%.*s\n", width, imb_rule);
}

void imb_print_banner(const struct imb_options *options, int argc, char **argv)
{
    struct utsname machine;
    int version;
    int subversion;
    char date[64] = "unknown";
    time_t now = time(NULL);
    struct tm *local = localtime(&now);
    if (local != NULL) {
        strftime(date, sizeof(date), "%a %b %e %H:%M:%S %Y", local);
    }
    MPI_Get_version(&version, &subversion);
    printf("#----------------------------------------------------------------\n"
           "#    rawe-imb, patterns and layout of the Intel(R) MPI Benchmarks, MPI-1 part\n"
           "#----------------------------------------------------------------\n"
           "# Date                  : %s\n",
           date);
    if (uname(&machine) == 0) {
        printf("# Machine               : %s\n# System                : %s\n"
               "# Release               : %s\n# Version               : %s\n",
               machine.machine, machine.sysname, machine.release, machine.version);
    }
    printf("# MPI Version           : %d.%d\n\n# Calling sequence was:\n\n#", version, subversion);
    for (int i = 0; i < argc; i++) {
        printf(" %s", argv[i]);
    }
    printf("\n\n# MPI_Datatype                   :   MPI_BYTE\n"
           "# MPI_Datatype for reductions    :   MPI_FLOAT\n"
           "# MPI_Op                         :   MPI_SUM\n#\n\n"
           "# List of Benchmarks to run:\n\n");
    for (int i = 0; i < options->selected_count; i++) {
        printf("# %s\n", options->selected[i]->name);
    }
    fflush(stdout);
}

void imb_print_header(const struct imb_benchmark *benchmark, const struct imb_options *options,
                      int size, int waiting)
{
    printf("\n");
    print_rule(benchmark);
    printf("# Benchmarking %s\n# #processes = %d\n", benchmark->name, size);
    if (waiting > 0) {
        printf("# ( %d additional processes waiting in MPI_Barrier )\n", waiting);
    }
    print_rule(benchmark);
    if (benchmark->layout != IMB_LAYOUT_BARRIER) {
        printf("%13s", "#bytes");
    }
    printf("%13s", "#repetitions");
    switch (benchmark->layout) {
    case IMB_LAYOUT_SINGLE:
        printf("%13s%13s", "t[usec]", "Mbytes/sec");
        break;
    case IMB_LAYOUT_PARALLEL:
        printf("%13s%13s%13s%13s", "t_min[usec]", "t_max[usec]", "t_avg[usec]", "Mbytes/sec");
        break;
    case IMB_LAYOUT_COLLECTIVE:
    case IMB_LAYOUT_BARRIER:
        printf("%13s%13s%13s", "t_min[usec]", "t_max[usec]", "t_avg[usec]");
        break;
    case IMB_LAYOUT_RATE:
        printf("%13s%13s", "Mbytes/sec", "Msg/sec");
        break;
    case IMB_LAYOUT_CALL:
        printf("%13s%16s", "t[usec]", "t_median[usec]");
        break;
    }
    printf("%s\n", options->check ? "      defects" : "");
    fflush(stdout);
}

void imb_print_result(const struct imb_benchmark *benchmark, const struct imb_options *options,
                      int size, size_t bytes, const struct imb_result *result)
{
    double pairs = (benchmark->traits & IMB_EVEN) ? (double)size / 2 : 1;
    double messages = result->max_s > 0 ? pairs * benchmark->traffic / result->max_s : 0;
    double megabytes = messages * (double)bytes / 1e6;

    if (benchmark->layout != IMB_LAYOUT_BARRIER) {
        printf("%13zu", bytes);
    }
    printf("%13d", result->repetitions);
    switch (benchmark->layout) {
    case IMB_LAYOUT_SINGLE:
        printf("%13.3f%13.2f", result->max_s * 1e6, megabytes);
        break;
    case IMB_LAYOUT_PARALLEL:
        printf("%13.3f%13.3f%13.3f%13.2f", result->min_s * 1e6, result->max_s * 1e6,
               result->average_s * 1e6, megabytes);
        break;
    case IMB_LAYOUT_COLLECTIVE:
    case IMB_LAYOUT_BARRIER:
        printf("%13.3f%13.3f%13.3f", result->min_s * 1e6, result->max_s * 1e6,
               result->average_s * 1e6);
        break;
    case IMB_LAYOUT_RATE:
        printf("%13.2f%13.0f", megabytes, messages);
        break;
    case IMB_LAYOUT_CALL:
        printf("%13.3f%16.3f", result->max_s * 1e6, result->median_s * 1e6);
        break;
    }
    if (options->check) {
        printf("%13.0f", result->defects);
    }
    printf("\n");
    fflush(stdout);
}

void imb_print_no_memory(size_t bytes, double needed_bytes)
{
    printf("%13zu out-of-mem.; needed %.3f GB for each rank; allow it with -mem\n", bytes,
           needed_bytes / 1e9);
    fflush(stdout);
}
