/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * rawe-abort: jobs that end badly, for tests of what is left behind. Every rank says its pid, then
 * all exchange messages round a ring until something ends them.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Exit code of a job that nobody has ended in time. */
#define EXIT_NOT_ENDED 3

enum mode { ABORT, EXIT, HANG_TRAFFIC, HANG_SILENT };

static int rank, size;

static void usage(FILE *out)
{
    fprintf(out,
            "usage: mpirun ... rawe-abort <mode> [seconds]\n"
            "\n"
            "  abort         rank 1 calls MPI_Abort with code 7 after the seconds (default 1),\n"
            "                while all others are in traffic\n"
            "  exit          rank 1 leaves with code 7 and without MPI_Finalize\n"
            "  hang-traffic  messages go round for ever: kill a rank, or Ctrl-C mpirun\n"
            "  hang-silent   after one round everybody waits for a message that nobody sends\n"
            "\n"
            "The last two give up after the seconds (default 120), with exit code 3. Each rank\n"
            "prints a line 'rank R pid P host H' before the traffic starts.\n");
}

static enum mode mode_read(const char *text)
{
    static const char *const names[] = {"abort", "exit", "hang-traffic", "hang-silent"};

    for (int i = 0; i < 4; i++) {
        if (strcmp(text, names[i]) == 0) {
            return (enum mode)i;
        }
    }
    fprintf(stderr, "rawe-abort: there is no mode '%s'; see --help\n", text);
    exit(2);
}

static double seconds_read(const char *text)
{
    char *end;
    double seconds = strtod(text, &end);

    if (end == text || *end != '\0' || !(seconds >= 0)) {
        fprintf(stderr, "rawe-abort: '%s' is not a number of seconds\n", text);
        exit(2);
    }
    return seconds;
}

static void give_up(int signal_number)
{
    (void)signal_number;
    _exit(EXIT_NOT_ENDED);
}

static void introduce(void)
{
    char host[256] = "?";

    gethostname(host, sizeof host - 1);
    printf("rank %d pid %ld host %s\n", rank, (long)getpid(), host);
    fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* One message round the ring, small, middle or large in turn; its contents are checked. */
static void ring(unsigned char *out, unsigned char *in, unsigned round)
{
    static const int sizes[] = {8, 1000, 20000, 300000};
    int len = sizes[round % 4], to = (rank + 1) % size, from = (rank + size - 1) % size;

    memset(out, (int)((unsigned)rank * 7 + round) & 0xff, (size_t)len);
    MPI_Sendrecv(out, len, MPI_BYTE, to, 1, in, len, MPI_BYTE, from, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    for (int i = 0; i < len; i++) {
        unsigned char expected = (unsigned char)((unsigned)from * 7 + round);

        if (in[i] != expected) {
            fprintf(stderr,
                    "rawe-abort: FAIL rank %d: offset %d of %d: expected 0x%02x got 0x%02x\n", rank,
                    i, len, expected, in[i]);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
}

int main(int argc, char **argv)
{
    static unsigned char out[300000], in[300000];
    enum mode mode;
    double seconds, start;

    if (argc < 2 || argc > 3 || strcmp(argv[1], "--help") == 0) {
        int asked = argc == 2;

        usage(asked ? stdout : stderr);
        return asked ? 0 : 2;
    }
    mode = mode_read(argv[1]);
    seconds = argc == 3 ? seconds_read(argv[2]) : (mode <= EXIT ? 1 : 120);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size < 2) {
        fprintf(stderr, "rawe-abort: needs 2 ranks or more\n");
        MPI_Finalize();
        return 2;
    }
    introduce();
    if (mode == HANG_SILENT) {
        ring(out, in, 0);
        signal(SIGALRM, give_up); /* in MPI_Recv there is no other way to give up */
        alarm((unsigned)seconds + 1);
        MPI_Recv(in, 1, MPI_BYTE, (rank + 1) % size, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    start = MPI_Wtime();
    for (unsigned round = 0;; round++) {
        ring(out, in, round);
        if (MPI_Wtime() - start < seconds) {
            continue;
        }
        if (mode == ABORT && rank == 1) {
            MPI_Abort(MPI_COMM_WORLD, 7);
        }
        if (mode == EXIT && rank == 1) {
            _exit(7);
        }
        if (mode == HANG_TRAFFIC) {
            fprintf(stderr, "rawe-abort: rank %d: nobody has ended this job in %.0f s\n", rank,
                    seconds);
            MPI_Abort(MPI_COMM_WORLD, EXIT_NOT_ENDED);
        }
    }
}
