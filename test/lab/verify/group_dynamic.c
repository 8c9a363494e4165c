/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Groups spawn and connect: processes that join later. rawe-verify spawns itself with --child, and
 * two halves of the job repeatedly connect over a port and disconnect.
 */
#include "verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* First step number of both parents and children, so that they compute the same contents. */
#define SPAWN_STEPS 1000000u

static const int inter_sizes[] = {0, 1, 1500, 9000, 70000, 1000000};

/* Return the number of a process in contents: its rank, plus 1000 if it is of the `second` side. */
static int name(bool second, int rank)
{
    return second ? rank + 1000 : rank;
}

/* Exchange messages between each process of one side and each of the other. */
static void talk(MPI_Comm inter, bool second)
{
    int rank, size, remote;

    MPI_Comm_rank(inter, &rank);
    MPI_Comm_size(inter, &size);
    MPI_Comm_remote_size(inter, &remote);
    for (size_t i = 0; i < sizeof inter_sizes / sizeof inter_sizes[0]; i++) {
        int len = inter_sizes[i];

        for (int k = 0; k < size + remote; k++) {
            int peer = k - rank; /* in step k ranks a and b with a + b = k talk to each other */
            struct verify_id out = verify_id(name(second, rank), name(!second, peer), 3, i);
            struct verify_id in = verify_id(name(!second, peer), name(second, rank), 3, i);
            struct verify_buffer send, receive;
            MPI_Status status;

            if (peer < 0 || peer >= remote || (size_t)len > verify.max_bytes) {
                continue;
            }
            send = verify_buffer_filled((size_t)len, out);
            receive = verify_buffer_new((size_t)len);
            MPI_Sendrecv(send.data, len, MPI_BYTE, peer, 3, receive.data, len, MPI_BYTE, peer, 3,
                         inter, &status);
            verify_status(&status, peer, 3, (size_t)len);
            verify_buffer_check(&receive, (size_t)len, in);
            verify_buffer_sent(&send, out);
            verify_buffer_free(&receive);
        }
    }
}

/* Merge both sides into one communicator, and allgather over all processes. */
static void talk_merged(MPI_Comm inter, bool second)
{
    enum { SIZE = 3000 };
    MPI_Comm merged;
    struct verify_buffer send, all;
    int rank, size;

    MPI_Intercomm_merge(inter, second, &merged);
    MPI_Comm_rank(merged, &rank);
    MPI_Comm_size(merged, &size);
    send = verify_buffer_filled(SIZE, verify_id(rank, 0, 4, 0));
    all = verify_buffer_new(SIZE * (size_t)size);
    MPI_Allgather(send.data, SIZE, MPI_BYTE, all.data, SIZE, MPI_BYTE, merged);
    for (int i = 0; i < size; i++) {
        verify_buffer_check_part(&all, SIZE * (size_t)i, SIZE, verify_id(i, 0, 4, 0));
    }
    verify_buffer_free(&all);
    verify_buffer_sent(&send, verify_id(rank, 0, 4, 0));
    MPI_Comm_free(&merged);
}

static void adopt_errhandler(MPI_Comm comm)
{
    MPI_Errhandler handler;

    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler);
    MPI_Comm_set_errhandler(comm, handler);
    MPI_Errhandler_free(&handler);
}

/* Communicate between parents and children, and disconnect. */
static void family(MPI_Comm *inter, bool child)
{
    adopt_errhandler(*inter);
    talk(*inter, child);
    talk_merged(*inter, child);
    MPI_Comm_disconnect(inter);
    verify_equal(*inter == MPI_COMM_NULL, 1, "communicator gone after its disconnect");
}

void group_spawn_child(void)
{
    MPI_Comm parent;

    MPI_Comm_get_parent(&parent);
    if (parent == MPI_COMM_NULL) {
        verify_fail("--child is for processes that rawe-verify spawns itself");
    }
    verify_step_at(SPAWN_STEPS + strtoull(verify.child, NULL, 10), "child");
    family(&parent, true);
}

/* Explain a failed spawn, before the usual error handler is called. */
static void check_spawned(int code)
{
    char text[MPI_MAX_ERROR_STRING];
    int len;

    if (code != MPI_SUCCESS) {
        MPI_Error_string(code, text, &len);
        verify_fail("MPI_Comm_spawn: %s; mpirun must have room for 2 processes more (give it "
                    "--oversubscribe), or leave it out by --skip spawn",
                    text);
    }
}

/*
 * Place the children of spawn `number` on the last rank's host and the first rank's in turn. With
 * any BTL, Debian's Open MPI 4.1 cannot start children on more than one host: they fail in MPI_Init
 * because the hosts' daemons do not exchange the children's addresses.
 */
static MPI_Info placement(int number)
{
    char host[MPI_MAX_PROCESSOR_NAME] = "";
    MPI_Info info = MPI_INFO_NULL;
    MPI_Comm node;
    int len, node_size;

    MPI_Comm_split_type(verify.comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &node_size);
    MPI_Comm_free(&node);
    MPI_Get_processor_name(host, &len);
    MPI_Bcast(host, sizeof host, MPI_CHAR, number % 2 == 0 ? verify.size - 1 : 0, verify.comm);
    if (node_size < verify.size) {
        MPI_Info_create(&info);
        MPI_Info_set(info, "host", host);
    }
    return info;
}

/* Spawn children with one command or two; they run the same exchange as their parents. */
static void spawn(int number, int children, bool multiple)
{
    char number_text[16], seed_text[32], bytes_text[32], timeout_text[32];
    char *arguments[] = {"--child",  number_text, "--seed",     seed_text, "--max-bytes",
                         bytes_text, "--timeout", timeout_text, NULL};
    uint64_t step = verify_step_number();
    MPI_Info info = placement(number);
    MPI_Comm spawning, inter;
    int code;

    snprintf(number_text, sizeof number_text, "%d", number);
    snprintf(seed_text, sizeof seed_text, "%llu", (unsigned long long)verify.seed);
    snprintf(bytes_text, sizeof bytes_text, "%zu", verify.max_bytes);
    snprintf(timeout_text, sizeof timeout_text, "%.0f", verify.timeout_seconds);
    MPI_Comm_dup(verify.comm, &spawning);
    MPI_Comm_set_errhandler(spawning, MPI_ERRORS_RETURN);
    verify_step_at(SPAWN_STEPS + (uint64_t)number, multiple ? "spawn_multiple" : "spawn");
    if (multiple) {
        char *commands[] = {(char *)verify.program, (char *)verify.program};
        char **argument_lists[] = {arguments, arguments};
        int counts[] = {1, children - 1};
        MPI_Info infos[] = {info, info};

        code = MPI_Comm_spawn_multiple(2, commands, argument_lists, counts, infos, 0, spawning,
                                       &inter, MPI_ERRCODES_IGNORE);
    } else {
        code = MPI_Comm_spawn(verify.program, arguments, children, info, 0, spawning, &inter,
                              MPI_ERRCODES_IGNORE);
    }
    check_spawned(code);
    family(&inter, false);
    MPI_Comm_free(&spawning);
    if (info != MPI_INFO_NULL) {
        MPI_Info_free(&info);
    }
    verify_step_at(step + 1, "parted");
}

void group_spawn(void)
{
    for (int i = 0; i < (verify.quick ? 1 : 3); i++) {
        spawn(i, 2, i % 2 == 1);
    }
}

/* Split the job, connect the halves over a port, communicate, and disconnect. */
static void connect_once(int round)
{
    /* Each round cuts the job at another rank, and the accepting side alternates. */
    int cut = 1 + round % (verify.size - 1);
    bool upper = verify.rank >= cut, accepting = upper == (round % 2 == 0);
    int opener = round % 2 == 0 ? cut : 0; /* rank 0 of the accepting half */
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm half, inter;

    verify_step("connection %d, cut at rank %d", round, cut);
    MPI_Comm_split(verify.comm, upper, verify.rank, &half);
    if (verify.rank == opener) {
        MPI_Open_port(MPI_INFO_NULL, port);
    }
    MPI_Bcast(port, sizeof port, MPI_CHAR, opener, verify.comm);
    if (accepting) {
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, half, &inter);
    } else {
        MPI_Comm_connect(port, MPI_INFO_NULL, 0, half, &inter);
    }
    adopt_errhandler(inter);
    talk(inter, upper);
    talk_merged(inter, upper);
    MPI_Comm_disconnect(&inter);
    if (verify.rank == opener) {
        MPI_Close_port(port);
    }
    MPI_Comm_free(&half);
}

void group_connect(void)
{
    for (int round = 0; round < verify_repeat(5); round++) {
        connect_once(round);
    }
}
