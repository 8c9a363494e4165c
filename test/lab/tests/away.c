/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * away: communication while a process is outside MPI. Rank 0 sends rank 1 a burst of messages,
 * then
 *
 *   sender    rank 0 stays outside of MPI until rank 1 has received the whole burst
 *   blocking  as sender, but with MPI_Send: completed sends must not depend on further MPI calls
 *   receiver  rank 1 stays outside until all sends of rank 0 are complete, and receives afterwards
 *   put       the burst is one long message, sent by PUT. Once rank 1 has offered its memory, it
 *             stays outside until rank 0 is done
 *   posted    rank 1 posts its receives, then stays outside until all sends of rank 0 are complete
 *   matched   rank 0 calls MPI_Ssend, the first contact; rank 1 stays outside after its receive
 *   sum       rank 1 starts COUNT MPI_Iallreduce calls, and stays outside until rank 0 has the sums
 *
 * The other process creates FILE, which both must see. The process outside MPI returns when it sees
 * FILE or after SECONDS, and prints which of the two happened. Every byte is checked.
 *
 * Usage: away sender|blocking|receiver|put|posted|matched|sum FILE SECONDS COUNT BYTES
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static unsigned char expected(int message, int at)
{
    return (unsigned char)(message * 31 + at * 7 + at / 256);
}

/** Stay outside MPI until the file exists or the time is up. */
static void stay_away(const char *file, double seconds, const char *what)
{
    const struct timespec pause = {0, 1000000};
    bool there = access(file, F_OK) == 0;

    for (double waited = 0; !there && waited < seconds; waited += 1e-3) {
        nanosleep(&pause, NULL);
        there = access(file, F_OK) == 0;
    }
    printf("%s\n", there ? what : "in vain");
    fflush(stdout);
}

static void say_done(const char *file)
{
    FILE *made = fopen(file, "w");

    if (made == NULL || fclose(made) != 0) {
        fprintf(stderr, "away: %s cannot be made\n", file);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
}

static void send_burst(unsigned char *buffers, MPI_Request *requests, int count, int bytes,
                       int blocking)
{
    for (int i = 0; i < count; i++) {
        unsigned char *buffer = buffers + (size_t)i * (size_t)bytes;
        for (int k = 0; k < bytes; k++) {
            buffer[k] = expected(i, k);
        }
        if (blocking) {
            MPI_Send(buffer, bytes, MPI_BYTE, 1, 5, MPI_COMM_WORLD);
            requests[i] = MPI_REQUEST_NULL;
        } else {
            MPI_Isend(buffer, bytes, MPI_BYTE, 1, 5, MPI_COMM_WORLD, &requests[i]);
        }
    }
}

static void check(const unsigned char *buffer, int message, int bytes)
{
    for (int k = 0; k < bytes; k++) {
        if (buffer[k] != expected(message, k)) {
            fprintf(stderr, "away: message %d is wrong at byte %d\n", message, k);
            MPI_Abort(MPI_COMM_WORLD, 4);
        }
    }
}

static void receive_burst(unsigned char *buffer, int count, int bytes)
{
    for (int i = 0; i < count; i++) {
        memset(buffer, 0, (size_t)bytes);
        MPI_Recv(buffer, bytes, MPI_BYTE, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        check(buffer, i, bytes);
    }
}

/** The acknowledgement of the match uses another path than the message itself. */
static void match_at_first_contact(int rank, unsigned char *buffer, int bytes, const char *file,
                                   double seconds)
{
    if (rank == 0) {
        MPI_Ssend(buffer, bytes, MPI_BYTE, 1, 5, MPI_COMM_WORLD);
        say_done(file);
        return;
    }
    MPI_Recv(buffer, bytes, MPI_BYTE, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    stay_away(file, seconds, "matched while away");
}

/**
 * Receive messages while rank 1, which has posted its receives, makes no MPI calls. With
 * `requested`, rank 1 has already received a later short message, so it has matched the long one
 * and requested its data.
 */
static void receive_away(int rank, unsigned char *buffers, MPI_Request *requests, int count,
                         int bytes, bool requested, const char *file, double seconds)
{
    char go = 0;

    if (rank == 0) {
        MPI_Barrier(MPI_COMM_WORLD);
        send_burst(buffers, requests, count, bytes, 0);
        if (requested) {
            MPI_Send(&go, 1, MPI_CHAR, 1, 7, MPI_COMM_WORLD);
        }
        MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
        say_done(file);
        return;
    }
    memset(buffers, 0, (size_t)count * (size_t)bytes);
    for (int i = 0; i < count; i++) {
        MPI_Irecv(buffers + (size_t)i * (size_t)bytes, bytes, MPI_BYTE, 0, 5, MPI_COMM_WORLD,
                  &requests[i]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (requested) {
        MPI_Recv(&go, 1, MPI_CHAR, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    stay_away(file, seconds, "sent while away");
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < count; i++) {
        check(buffers + (size_t)i * (size_t)bytes, i, bytes);
    }
}

static void sum_away(int rank, unsigned char *buffers, MPI_Request *requests, int count, int bytes,
                     const char *file, double seconds)
{
    unsigned char *sums = calloc((size_t)count, (size_t)bytes);

    for (int i = 0; i < count; i++) {
        unsigned char *buffer = buffers + (size_t)i * (size_t)bytes;
        for (int k = 0; k < bytes; k++) {
            buffer[k] = (unsigned char)(rank == 0 ? k : k ^ expected(i, k));
        }
        MPI_Iallreduce(buffer, sums + (size_t)i * (size_t)bytes, bytes, MPI_BYTE, MPI_BXOR,
                       MPI_COMM_WORLD, &requests[i]);
    }
    if (rank == 1) {
        stay_away(file, seconds, "summed while away");
    }
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    if (rank == 0) {
        say_done(file);
    }
    for (int i = 0; i < count; i++) {
        check(sums + (size_t)i * (size_t)bytes, i, bytes);
    }
    free(sums);
}

int main(int argc, char **argv)
{
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc != 6) {
        fprintf(stderr, "usage: away sender|blocking|receiver|put|posted|matched|sum FILE "
                        "SECONDS COUNT BYTES\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    const char *mode = argv[1], *file = argv[2];
    const bool blocking = strcmp(mode, "blocking") == 0, put = strcmp(mode, "put") == 0;
    const bool sender_away = blocking || strcmp(mode, "sender") == 0;
    const double seconds = atof(argv[3]);
    const int count = atoi(argv[4]), bytes = atoi(argv[5]);
    unsigned char *buffers = malloc((size_t)count * (size_t)bytes);
    MPI_Request *requests = malloc((size_t)count * sizeof *requests);

    if (strcmp(mode, "matched") != 0) {
        /* First let the ranks connect and test batches. */
        for (int i = 0; i < 3; i++) {
            if (rank == 0) {
                send_burst(buffers, requests, 1, bytes, 0);
                MPI_Waitall(1, requests, MPI_STATUSES_IGNORE);
            } else {
                receive_burst(buffers, 1, bytes);
            }
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (strcmp(mode, "matched") == 0) {
        match_at_first_contact(rank, buffers, bytes, file, seconds);
    } else if (put || strcmp(mode, "posted") == 0) {
        receive_away(rank, buffers, requests, count, bytes, put, file, seconds);
    } else if (strcmp(mode, "sum") == 0) {
        sum_away(rank, buffers, requests, count, bytes, file, seconds);
    } else if (rank == 0) {
        send_burst(buffers, requests, count, bytes, blocking);
        if (sender_away) {
            stay_away(file, seconds, "received while away");
        }
        MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
        if (!sender_away) {
            say_done(file);
        }
    } else {
        if (!sender_away) {
            stay_away(file, seconds, "sent while away");
        }
        receive_burst(buffers, count, bytes);
        if (sender_away) {
            say_done(file);
        }
    }
    MPI_Finalize();
    free(buffers);
    free(requests);
    return 0;
}
