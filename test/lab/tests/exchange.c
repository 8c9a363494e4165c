/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * exchange: ranks exchange messages, and check every byte.
 *
 *   rounds N [SALT]     N rounds around a ring, -1: endless; contents depend on SALT
 *   until FILE          rounds until rank 0 sees FILE
 *   abort               after 50 rounds, the last rank calls MPI_Abort(7)
 *   bursts COUNT BYTES WINDOW   ranks r and r + n/2 send each other COUNT / n messages, WINDOW at a
 *                       time
 *   contacts FILE RANK  rank 0 makes first contact with each other rank in turn: it sends a long
 *                       message and receives it back. Before RANK, it prints a line, awaits FILE
 *   disturbed ROUNDS    rounds of messages of many lengths; signals interrupt all calls, children are
 *                       forked while messages are in flight, one of them outlives MPI_Finalize, and
 *                       the sockets may have the numbers of stdin and stdout
 *   survivors FILE RANK...   once FILE exists, the named ranks kill themselves; the others exchange
 *                       200 rounds, print a line, and exit without MPI_Finalize (this needs
 *                       --enable-recovery)
 */
#include <mpi.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCK_BYTES 30000
#define LONG_BYTES 300000
#define ROUNDS_BEFORE_ABORT 50
#define ROUNDS_BETWEEN_LOOKS 100
#define ROUNDS_OF_SURVIVORS 200

static int rank, ranks;

static void say(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    fflush(stdout);
}

static void fail(int sender, long number, int byte)
{
    fprintf(stderr, "rank %d: message %ld of rank %d: byte %d is wrong\n", rank, number, sender,
            byte);
    MPI_Abort(MPI_COMM_WORLD, 9);
}

static void await(const char *file)
{
    while (access(file, F_OK) != 0) {
        usleep(10000);
    }
}

/** Send a block to the next of `size` ranks in a ring, and check the block of the previous one. */
static void pass_block(const int *ring, int size, int place, int bytes, long salt)
{
    static unsigned char out[BLOCK_BYTES], in[BLOCK_BYTES];
    const int next = ring[(place + 1) % size], previous = ring[(place + size - 1) % size];

    memset(out, (int)(rank + salt), sizeof out);
    MPI_Sendrecv(out, bytes, MPI_BYTE, next, 1, in, bytes, MPI_BYTE, previous, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    for (int i = 0; i < bytes; i++) {
        if (in[i] != (unsigned char)(previous + salt)) {
            fail(previous, salt, i);
        }
    }
}

/** Returns true on all ranks if rank 0 sees the file. */
static int is_there(const char *file)
{
    int there = rank == 0 && access(file, F_OK) == 0;

    MPI_Bcast(&there, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return there;
}

/** Run rounds until `file` exists, or abort in round `abort_at`. */
static void run_rounds(const int *all, long rounds, long salt, const char *file, long abort_at)
{
    for (long round = 0; round != rounds; round++) {
        pass_block(all, ranks, rank, 20000, round + salt);
        if (round == 0) {
            say("rank %d pid %d works\n", rank, (int)getpid());
        }
        if (round == abort_at && rank == ranks - 1) {
            MPI_Abort(MPI_COMM_WORLD, 7);
        }
        if (file != NULL && round % ROUNDS_BETWEEN_LOOKS == 0 && is_there(file)) {
            return;
        }
    }
}

/** Fill a message with 8-byte words, each different from all others that this sender sends. */
static void fill(unsigned char *data, int bytes, int source, long number)
{
    for (int at = 0; at < bytes; at += 8) {
        unsigned long long word =
            (unsigned long long)(number << 13 | at / 8) * 0x9E3779B97F4A7C15u +
            (unsigned long long)source * 0xD1B54A32D192ED03u;
        word ^= word >> 30;
        memcpy(data + at, &word, (size_t)(bytes - at < 8 ? bytes - at : 8));
    }
}

static void run_bursts(long messages, int bytes, int window)
{
    const int peer = (rank + ranks / 2) % ranks;
    const size_t len = (size_t)bytes;
    unsigned char *out = malloc((size_t)window * len), *in = malloc((size_t)window * len);
    unsigned char *expected = malloc(len);
    MPI_Request *requests = malloc(2 * sizeof *requests * (size_t)window);

    for (long done = 0; done < messages; done += window) {
        memset(in, 0xB5, (size_t)window * len);
        for (int i = 0; i < window; i++) {
            MPI_Irecv(in + i * len, bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD, &requests[i]);
        }
        for (int i = 0; i < window; i++) {
            fill(out + i * len, bytes, rank, done + i);
            MPI_Isend(out + i * len, bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD,
                      &requests[window + i]);
        }
        MPI_Waitall(2 * window, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < window; i++) {
            fill(expected, bytes, peer, done + i);
            if (memcmp(in + i * len, expected, len) != 0) {
                fail(peer, done + i, 0);
            }
        }
    }
    free(out);
    free(in);
    free(expected);
    free(requests);
}

static void do_nothing(int signal_number)
{
    (void)signal_number;
}

/** Have a timer's signals interrupt system calls, and free the descriptors 0 and 1. */
static void disturb(void)
{
    const struct itimerval often = {{0, 200}, {0, 200}};
    const struct sigaction action = {.sa_handler = do_nothing}; /* no SA_RESTART */

    sigaction(SIGPROF, &action, NULL);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_PROF, &often, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    close(0);
    close(1);
}

/** Fork a child that writes to this memory of its own, and then ends. */
static void fork_child(unsigned char *data, size_t len)
{
    const pid_t child = fork();

    if (child == 0) {
        memset(data, 0xEE, len);
        _exit(0);
    }
    while (waitpid(child, NULL, 0) < 0) {
    }
}

/** Fork a child that has all of the process's descriptors, for as long as it is not killed. */
static pid_t fork_companion(void)
{
    const pid_t child = fork();

    while (child == 0) {
        pause();
    }
    return child;
}

static void run_disturbed(long rounds)
{
    static const int lengths[] = {8, 1000, 5000, 30000, 70000, LONG_BYTES};
    static unsigned char out[LONG_BYTES], in[LONG_BYTES], expected[LONG_BYTES];
    const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;

    for (long round = 0; round < rounds; round++) {
        const int bytes = lengths[round % (sizeof lengths / sizeof *lengths)];
        MPI_Request requests[2];
        fill(out, bytes, rank, round);
        memset(in, 0xB5, sizeof in);
        MPI_Irecv(in, bytes, MPI_BYTE, previous, 0, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(out, bytes, MPI_BYTE, next, 0, MPI_COMM_WORLD, &requests[1]);
        fork_child(out, sizeof out);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        fill(expected, bytes, previous, round);
        if (memcmp(in, expected, (size_t)bytes) != 0) {
            fail(previous, round, 0);
        }
    }
}

/** Send a long message from rank 0 to another rank, which returns it with each byte incremented. */
static void run_contacts(const char *file, int before)
{
    static unsigned char data[LONG_BYTES];

    say("rank %d pid %d ready\n", rank, (int)getpid());
    for (int peer = 1; rank == 0 && peer < ranks; peer++) {
        if (peer == before) {
            say("next is rank %d\n", peer);
            await(file);
        }
        memset(data, peer, LONG_BYTES);
        MPI_Send(data, LONG_BYTES, MPI_BYTE, peer, 1, MPI_COMM_WORLD);
        memset(data, 0, LONG_BYTES);
        MPI_Recv(data, LONG_BYTES, MPI_BYTE, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 0; i < LONG_BYTES; i++) {
            if (data[i] != (unsigned char)(peer + 1)) {
                fail(peer, 0, i);
            }
        }
    }
    if (rank != 0) {
        MPI_Recv(data, LONG_BYTES, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 0; i < LONG_BYTES; i++) {
            data[i]++;
        }
        MPI_Send(data, LONG_BYTES, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
    }
}

/** Pass a short and a long block. */
static void pass_both(const int *ring, int size, int place, long salt)
{
    pass_block(ring, size, place, 1, salt);
    pass_block(ring, size, place, BLOCK_BYTES, salt);
}

static _Noreturn void run_survivors(const int *all, const char *file, char **dying, int dying_count)
{
    int *ring = malloc((size_t)ranks * sizeof *ring), place = 0, survivors = 0, dies = 0;

    for (int i = 0; i < ranks; i++) {
        int one_dies = 0;
        for (int k = 0; k < dying_count; k++) {
            one_dies = one_dies || atoi(dying[k]) == i;
        }
        if (i == rank) {
            place = survivors;
            dies = one_dies;
        }
        ring[survivors] = i;
        survivors += !one_dies;
    }
    pass_both(all, ranks, rank, 0);
    /* Connect the survivors now, so that no two make first contact after ranks have died. */
    if (!dies) {
        pass_both(ring, survivors, place, 1);
    }
    say("rank %d works\n", rank);
    await(file);
    if (dies) {
        raise(SIGKILL);
    }
    for (int round = 0; round < ROUNDS_OF_SURVIVORS; round++) {
        pass_both(ring, survivors, place, round);
    }
    say("rank %d went on\n", rank);
    /* Retransmit the last messages if they were lost. */
    for (int i = 0; i < 200; i++) {
        int flag;
        MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        usleep(10000);
    }
    _exit(0);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    pid_t companion = 0;
    if (strcmp(mode, "disturbed") == 0) {
        disturb();
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int *all = malloc((size_t)ranks * sizeof *all);
    for (int i = 0; i < ranks; i++) {
        all[i] = i;
    }
    if (strcmp(mode, "rounds") == 0 && argc > 2) {
        run_rounds(all, atol(argv[2]), argc > 3 ? atol(argv[3]) : 0, NULL, -1);
    } else if (strcmp(mode, "until") == 0 && argc > 2) {
        run_rounds(all, -1, 0, argv[2], -1);
    } else if (strcmp(mode, "abort") == 0) {
        run_rounds(all, -1, 0, NULL, ROUNDS_BEFORE_ABORT);
    } else if (strcmp(mode, "bursts") == 0 && argc > 4) {
        run_bursts(atol(argv[2]) / ranks, atoi(argv[3]), atoi(argv[4]));
    } else if (strcmp(mode, "disturbed") == 0 && argc > 2) {
        companion = fork_companion();
        run_disturbed(atol(argv[2]));
    } else if (strcmp(mode, "contacts") == 0 && argc > 3) {
        run_contacts(argv[2], atoi(argv[3]));
    } else if (strcmp(mode, "survivors") == 0 && argc > 3) {
        run_survivors(all, argv[2], argv + 3, argc - 3);
    } else {
        fprintf(stderr, "usage: see exchange.c\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    free(all);
    MPI_Finalize();
    if (companion > 0) {
        kill(companion, SIGKILL);
    }
    return 0;
}
