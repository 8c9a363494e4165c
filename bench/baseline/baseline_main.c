/* SPDX-License-Identifier: BSD-3-Clause */
/* What both programs do: find the other end, run the tests that were asked for, or answer them. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "baseline.h"
#include "options.h"

/* Command line and clock of the baseline programs. */

#define SIZE_LIMIT (64u << 20)

double baseline_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
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
    puts(
        "Needs CAP_NET_RAW. Started on both hosts at about the same time: they find each other by a\n"
        "broadcast on the interface; one prints a line of name=value pairs for each size and way.");
}

/* Reads the command line; see options_read. */
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
        {"wait", "S", "how long to wait for other hosts (20)", option_number,
         .to = &options->wait_seconds, 1e-9, 3600},
        {"way", "WAY", "frames, tcp-gso, tcp-ring or all: what to send (all)", read_way,
         .to = options, .want = "frames, tcp-gso, tcp-ring or all"},
    };
    const struct option_row sizes = {.to = options};

    *options =
        (struct baseline_options){.seconds = 0.1, .wait_seconds = 20, .ways = {true, true, true}};
    read_sizes(&sizes, "1,4,16,64,256,1024,2048,4096,8192,16384,65536,262144,1048576,4194304");
    options_read(argc, argv, purpose, rows, sizeof(rows) / sizeof(rows[0]), end_help);
}

/* Two baseline programs find each other and agree on which test runs. */

#define HELLO_INTERVAL_S 0.01
#define REQUEST_INTERVAL_S 0.02

void baseline_peer_gone(const struct baseline_link *link, const struct baseline_options *options)
{
    fprintf(stderr,
            "baseline: %s: the other host has been silent for %.0f s; see there why it stopped\n",
            link->name, options->wait_seconds);
    exit(1);
}

/* Finds the other end by broadcasts and settles which end initiates; exits with a message when
 * there is no answer in time. */
static void find_peer(struct baseline_link *link, const struct baseline_options *options)
{
    struct baseline_frame mine = {.type = BASELINE_HELLO};
    struct baseline_frame heard = {0};
    bool is_known = false;
    bool is_mutual = false;
    double start = baseline_now();
    double next = 0;
    if (getrandom(&mine.number, sizeof(mine.number), 0) != sizeof(mine.number)) {
        mine.number = (uint32_t)(start * 1e9);
    }
    mine.number |= 1; /* 0 means: no one heard yet */
    while (!is_mutual) {
        double now = baseline_now();
        if (now - start > options->wait_seconds) {
            fprintf(stderr,
                    "baseline: %s: no answer for %.0f s; start the same program on a second "
                    "host of this Ethernet segment, on the interface that faces it (--interface)\n",
                    link->name, options->wait_seconds);
            exit(1);
        }
        if (now >= next) {
            int error = baseline_frame_send(link, &mine, NULL, NULL);
            if (error != 0) {
                fprintf(stderr, "baseline: %s: cannot send: %s; is the interface up?\n", link->name,
                        strerror(-error));
                exit(1);
            }
            next = now + HELLO_INTERVAL_S;
        }
        if (!baseline_frame_receive(link, &heard, NULL, 0)) {
            struct timespec pause = {.tv_nsec = 100000};
            nanosleep(&pause, NULL);
            continue;
        }
        /* A START means that the other end has heard us and is ahead. */
        if (heard.type == BASELINE_HELLO && (!is_known || heard.offset == mine.number)) {
            memcpy(link->peer, heard.from, BASELINE_MAC_BYTES);
            mine.offset = heard.number;
            is_known = true;
            is_mutual = heard.offset == mine.number;
            next = 0;
        } else if (heard.type == BASELINE_START && is_known) {
            is_mutual = memcmp(heard.from, link->peer, BASELINE_MAC_BYTES) == 0;
        }
    }
    /* The last hello confirms to the other end that it was heard. */
    baseline_frame_send(link, &mine, NULL, NULL);
    link->initiator = memcmp(link->mac, link->peer, BASELINE_MAC_BYTES) < 0;
}

static bool is_from_peer(const struct baseline_link *link, const struct baseline_frame *frame)
{
    return memcmp(frame->from, link->peer, BASELINE_MAC_BYTES) == 0;
}

void baseline_peer_request(struct baseline_link *link, const struct baseline_options *options,
                           const struct baseline_frame *request, enum baseline_type reply_type,
                           struct baseline_frame *reply)
{
    double start = baseline_now();
    double next = 0;
    for (;;) {
        double now = baseline_now();
        if (now - start > options->wait_seconds) {
            baseline_peer_gone(link, options);
        }
        if (now >= next) {
            baseline_frame_send(link, request, NULL, link->peer);
            next = now + REQUEST_INTERVAL_S;
        }
        if (!baseline_frame_receive(link, reply, NULL, 0)) {
            sched_yield();
            continue;
        }
        if (reply->type == reply_type && reply->number == request->number &&
            is_from_peer(link, reply)) {
            return;
        }
        if (reply->type == BASELINE_HELLO && is_from_peer(link, reply)) {
            /* It has not seen our last hello: confirm it again. */
            struct baseline_frame hello = {
                .type = BASELINE_HELLO, .offset = reply->number, .number = reply->offset};
            baseline_frame_send(link, &hello, NULL, link->peer);
        }
    }
}

/* Ends a test: reports the payload bytes received, and how many of the last message are wrong. */
static void end_test(struct baseline_link *link, uint32_t number, uint64_t bytes, uint32_t wrong)
{
    struct baseline_frame answer = {
        .type = BASELINE_ENDED, .number = number, .offset = wrong, .value = bytes};
    link->ended_bytes = bytes;
    link->ended_wrong = wrong;
    baseline_frame_send(link, &answer, NULL, link->peer);
}

/* Other end: waits for the next test. Returns false if there is none. */
static bool serve_peer(struct baseline_link *link, const struct baseline_options *options,
                       struct baseline_frame *start)
{
    double begin = baseline_now();
    while (baseline_now() - begin <= options->wait_seconds) {
        if (!baseline_frame_receive(link, start, NULL, 0)) {
            sched_yield();
            continue;
        }
        if (!is_from_peer(link, start)) {
            continue;
        }
        if (start->type == BASELINE_START) {
            baseline_batch_drain(link);
            baseline_peer_answer(link, BASELINE_STARTED, start->number, 0);
            return true;
        }
        if (start->type == BASELINE_BYE) {
            return false;
        }
        if (start->type == BASELINE_END) {
            /* The answer to the end of the last test was lost. */
            end_test(link, start->number, link->ended_bytes, link->ended_wrong);
        }
    }
    baseline_peer_gone(link, options);
    return false;
}

void baseline_peer_answer(struct baseline_link *link, enum baseline_type type, uint32_t number,
                          uint64_t value)
{
    struct baseline_frame answer = {.type = type, .number = number, .value = value};
    baseline_frame_send(link, &answer, NULL, link->peer);
}

/* What the programs between two hosts do: find the other end, run the tests there are, or answer them. */

#define FAREWELLS 3                /* BYE has no reply; a lost one costs the other end its wait */
#define SPINS_PER_CLOCK (1u << 16) /* milliseconds */

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
    uint32_t test = 0;
    printf("baseline link interface=%s mtu=%d\n", link->name, link->mtu);
    for (int i = 0; i < options->size_count; i++) {
        uint32_t length = options->sizes[i];
        for (enum baseline_way way = 0; way < BASELINE_WAYS; way++) {
            /* A batch for a message of one piece would only be a slower frame. */
            bool skipped = way != BASELINE_FRAMES && program->skips_single &&
                           options->ways[BASELINE_FRAMES] && length <= link->ways[way].payload;
            if (options->ways[way] && link->ways[way].fd >= 0 && !skipped &&
                length <= link->ways[way].message_max) {
                program->initiate(link, options, way, ++test, length);
            }
        }
    }
    for (int i = 0; i < FAREWELLS; i++) {
        baseline_peer_answer(link, BASELINE_BYE, 0, 0);
    }
}

/* Receives the messages of a test until it ends. */
static void answer(const struct baseline_program *program, struct baseline_link *link,
                   const struct baseline_options *options, const struct baseline_frame *start)
{
    struct baseline_answer test = {.link = link,
                                   .way = (enum baseline_way)start->offset,
                                   .length = start->length,
                                   .buffer = baseline_buffer_new(start->length),
                                   .message = baseline_pattern_new(start->length)};
    struct baseline_frame frame = {0};
    double last = baseline_now();
    int type = 0;
    for (unsigned spin = 1; type != BASELINE_END || frame.number != start->number; spin++) {
        bool done;
        type = baseline_message_poll(link, test.way, &test.inbox, test.buffer, test.length, &frame,
                                     &done);
        if (type == BASELINE_START && frame.number == start->number) {
            baseline_peer_answer(link, BASELINE_STARTED, start->number, 0);
        } else if (type != 0) {
            program->take(&test, type, &frame, done);
        }
        if (type != 0) {
            spin = 0;
        } else if (spin % SPINS_PER_CLOCK == 0) {
            /* Silent for milliseconds: look how long, counted from the first such moment. */
            if (spin == SPINS_PER_CLOCK) {
                last = baseline_now();
            } else if (baseline_now() - last > options->wait_seconds) {
                baseline_peer_gone(link, options);
            }
            sched_yield();
        }
    }
    /* Batches come through another queue: the last ones may still lie there. */
    baseline_batches_poll(link, test.way, &test.inbox, test.buffer, test.length);
    end_test(link, start->number, test.inbox.bytes,
             baseline_pattern_wrong(test.buffer, test.length));
    free(test.buffer);
    free(test.message);
}

int baseline_main(const struct baseline_program *program, int argc, char **argv)
{
    struct baseline_options options;
    struct baseline_link link;

    read_options(&options, argc, argv, program->purpose);
    baseline_link_open(&link, &options);
    for (enum baseline_way way = BASELINE_BATCHES; way < BASELINE_WAYS; way++) {
        if (options.ways[way]) {
            baseline_batch_open(&link, way);
        }
    }
    find_peer(&link, &options);
    if (link.initiator) {
        initiate(program, &link, &options);
    } else {
        struct baseline_frame start;
        while (serve_peer(&link, &options, &start)) {
            answer(program, &link, &options, &start);
        }
    }
    baseline_link_close(&link);
    return 0;
}
