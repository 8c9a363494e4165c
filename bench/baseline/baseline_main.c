/* SPDX-License-Identifier: BSD-3-Clause */
/* What the programs between two hosts do: find the other end, run the tests there are, or answer them. */
#include "baseline.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

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
    baseline_peer_ended(link, start->number, test.inbox.bytes,
                        baseline_pattern_wrong(test.buffer, test.length));
    free(test.buffer);
    free(test.message);
}

int baseline_main(const struct baseline_program *program, int argc, char **argv)
{
    struct baseline_options options;
    struct baseline_link link;

    baseline_options_read(&options, argc, argv, program->purpose);
    baseline_link_open(&link, &options);
    for (enum baseline_way way = BASELINE_BATCHES; way < BASELINE_WAYS; way++) {
        if (options.ways[way]) {
            baseline_batch_open(&link, way);
        }
    }
    baseline_peer_find(&link, &options);
    if (link.initiator) {
        initiate(program, &link, &options);
    } else {
        struct baseline_frame start;
        while (baseline_peer_serve(&link, &options, &start)) {
            answer(program, &link, &options, &start);
        }
    }
    baseline_link_close(&link);
    return 0;
}
