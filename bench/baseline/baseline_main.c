/* SPDX-License-Identifier: BSD-3-Clause */
/* The main() of both programs. Rank 0 runs the requested tests, and rank 1 answers. Between tests,
 * the ranks coordinate over MPI; measured traffic never uses MPI. */
#include <errno.h>
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "baseline.h"
#include "options.h"

#define SIZE_LIMIT (64u << 20)

double baseline_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void baseline_compute(const struct baseline_options *options)
{
    static uint8_t *memory;
    const double end = baseline_now() + options->compute_us * 1e-6;
    const size_t bytes = (size_t)options->touch_bytes;
    size_t at = 0;
    memory = memory == NULL ? baseline_buffer_new(bytes + 1) : memory;
    do {
        for (int i = 0; i < 64 && bytes != 0; i++) { /* one cache line at a time */
            memory[at]++;
            at = at + 64 < bytes ? at + 64 : 0;
        }
    } while (baseline_now() < end);
}

const char *baseline_way_name(enum baseline_way way)
{
    static const char *const names[BASELINE_WAYS] = {"frames", "tcp-gso", "tcp-ring"};
    return names[way];
}

static bool read_sizes(const struct option_row *row, const char *text)
{
    struct baseline_options *options = row->to;

    options->size_count = 0;
    while (options->size_count < BASELINE_SIZES_MAX) {
        char *end;
        errno = 0;
        unsigned long size = strtoul(text, &end, 10);
        if (end == text || errno != 0 || size < 1 || size > SIZE_LIMIT) {
            return false;
        }
        options->sizes[options->size_count++] = (uint32_t)size;
        if (*end == '\0') {
            return true;
        }
        if (*end != ',') {
            return false;
        }
        text = end + 1;
    }
    return false;
}

static bool read_way(const struct option_row *row, const char *text)
{
    struct baseline_options *options = row->to;
    bool all = strcmp(text, "all") == 0;
    bool any = false;
    for (int way = 0; way < BASELINE_WAYS; way++) {
        options->ways[way] = all || strcmp(text, baseline_way_name((enum baseline_way)way)) == 0;
        any = any || options->ways[way];
    }
    return any;
}

static void end_help(void)
{
    puts("Needs CAP_NET_RAW. Start two ranks by mpirun, one on each of two hosts. Rank 0 prints a\n"
         "line of name=value pairs for each size and way.");
}

/* Read the command line; see options_read. */
static void read_options(struct baseline_options *options, int argc, char **argv,
                         const char *purpose)
{
    const struct option_row rows[] = {
        {"interface", "NAME", "network interface (the first Ethernet one that is up)", option_text,
         .to = &options->interface},
        {"sizes", "A,B,...", "message sizes in bytes", read_sizes, .to = options,
         .want = "sizes from 1 to 67108864"},
        {"seconds", "S", "time for each size (0.1)", option_number, .to = &options->seconds, 1e-9,
         3600},
        {"wait", "S", "how long to wait for the interface or for frames (20)", option_number,
         .to = &options->wait_seconds, 1e-9, 3600},
        {"compute", "US", "microseconds of computing before each message (0)", option_number,
         .to = &options->compute_us, 0, 1e6},
        {"touch", "N", "bytes of memory that this computing touches (0)", option_number,
         .to = &options->touch_bytes, 0, 1 << 30},
        {"way", "WAY", "frames, tcp-gso, tcp-ring or all: what to send (all)", read_way,
         .to = options, .want = "frames, tcp-gso, tcp-ring or all"},
    };
    const struct option_row sizes = {.to = options};

    *options =
        (struct baseline_options){.seconds = 0.1, .wait_seconds = 20, .ways = {true, true, true}};
    read_sizes(&sizes, "1,4,16,64,256,1024,2048,4096,8192,16384,65536,262144,1048576,4194304");
    options_read(argc, argv, purpose, rows, sizeof(rows) / sizeof(rows[0]), end_help);
}

#define SPINS_PER_CLOCK 1024 /* polls between two checks for the end of a test */

/* Rank 0 announces each test to rank 1. A way of BASELINE_WAYS ends the program. */
struct test {
    uint32_t way;
    uint32_t length; /* bytes of a message */
};

void baseline_gone(const struct baseline_link *link, const struct baseline_options *options)
{
    fprintf(stderr,
            "baseline: %s: no frame of the other host has arrived for %.0f s; does the network "
            "pass frames of EtherType 0x%04X?\n",
            link->name, options->wait_seconds, BASELINE_ETHERTYPE);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Learn the other rank's address. Ends the job if that rank is missing or on our interface. */
static void find_peer(struct baseline_link *link)
{
    int rank;
    int size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size == 2) {
        MPI_Sendrecv(link->mac, BASELINE_MAC_BYTES, MPI_BYTE, 1 - rank, 0, link->peer,
                     BASELINE_MAC_BYTES, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    if (size != 2 || memcmp(link->mac, link->peer, BASELINE_MAC_BYTES) == 0) {
        fprintf(stderr, "baseline: start two ranks, one on each of two hosts (mpirun -np 2)\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    link->initiator = rank == 0;
}

void baseline_test_begin(struct baseline_link *link, enum baseline_way way, uint32_t length)
{
    struct test test = {way, length};
    MPI_Send(&test, sizeof(test), MPI_BYTE, 1, 0, MPI_COMM_WORLD);
    MPI_Recv(NULL, 0, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    baseline_drain(link);
}

struct baseline_ended baseline_test_end(void)
{
    struct baseline_ended ended;
    MPI_Send(NULL, 0, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
    MPI_Recv(&ended, sizeof(ended), MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return ended;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

void baseline_sort(double *samples, int count)
{
    qsort(samples, (size_t)count, sizeof(*samples), compare_doubles);
}

static void initiate(const struct baseline_program *program, struct baseline_link *link,
                     const struct baseline_options *options)
{
    const struct test none = {.way = BASELINE_WAYS};
    printf("baseline link interface=%s mtu=%d\n", link->name, link->mtu);
    for (int i = 0; i < options->size_count; i++) {
        uint32_t length = options->sizes[i];
        for (enum baseline_way way = 0; way < BASELINE_WAYS; way++) {
            /* A single-piece batch is merely a slower frame. */
            bool skipped = way != BASELINE_FRAMES && program->skips_single &&
                           options->ways[BASELINE_FRAMES] && length <= link->ways[way].payload;
            if (options->ways[way] && link->ways[way].fd >= 0 && !skipped &&
                length <= link->ways[way].message_max) {
                program->initiate(link, options, way, length);
            }
        }
    }
    MPI_Send(&none, sizeof(none), MPI_BYTE, 1, 0, MPI_COMM_WORLD);
}

/* Receive the messages of a test until it ends. */
static void answer(const struct baseline_program *program, struct baseline_link *link,
                   const struct baseline_options *options, const struct test *asked)
{
    struct baseline_answer test = {.link = link,
                                   .options = options,
                                   .way = (enum baseline_way)asked->way,
                                   .length = asked->length,
                                   .buffer = baseline_buffer_new(asked->length),
                                   .message = baseline_pattern_new(asked->length)};
    struct baseline_frame frame = {0};
    int is_over = 0;
    baseline_drain(link);
    MPI_Send(NULL, 0, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    for (unsigned spin = 1; !is_over; spin++) {
        bool done;
        int type = baseline_message_poll(link, test.way, &test.inbox, test.buffer, test.length,
                                         &frame, &done);
        if (type != 0) {
            program->take(&test, type, &frame, done);
            spin = 0;
        } else if (spin % SPINS_PER_CLOCK == 0) {
            MPI_Iprobe(0, 0, MPI_COMM_WORLD, &is_over, MPI_STATUS_IGNORE);
            sched_yield();
        }
    }
    MPI_Recv(NULL, 0, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    /* The last batches may still be in the queue for batches. */
    baseline_batches_poll(link, test.way, &test.inbox, test.buffer, test.length);
    struct baseline_ended ended = {.bytes = test.inbox.bytes,
                                   .wrong = baseline_pattern_wrong(test.buffer, test.length)};
    MPI_Send(&ended, sizeof(ended), MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    free(test.buffer);
    free(test.message);
}

int baseline_main(const struct baseline_program *program, int argc, char **argv)
{
    struct baseline_options options;
    struct baseline_link link;
    struct test test;

    read_options(&options, argc, argv, program->purpose);
    MPI_Init(&argc, &argv);
    baseline_link_open(&link, &options);
    for (enum baseline_way way = BASELINE_BATCHES; way < BASELINE_WAYS; way++) {
        if (options.ways[way]) {
            baseline_batch_open(&link, way);
        }
    }
    find_peer(&link);
    if (link.initiator) {
        initiate(program, &link, &options);
    }
    while (!link.initiator) {
        MPI_Recv(&test, sizeof(test), MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (test.way == BASELINE_WAYS) {
            break;
        }
        answer(program, &link, &options, &test);
    }
    MPI_Finalize();
    return 0;
}
