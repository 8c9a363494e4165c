/* SPDX-License-Identifier: BSD-3-Clause */
/* baseline-stream: bytes and messages per second in one direction over AF_PACKET, without MPI. */
#include "baseline.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#define SPINS_PER_CLOCK 256
#define CLOCK_BYTES 65536u      /* sent between two looks at the clock */
#define BATCHES_MAX 10000       /* whose duration is kept, for the median */
#define BATCH_MAX 16u           /* messages sent between two looks at the clock */
#define WINDOW_LEAST 8u         /* pieces */
#define PROBE_AFTER_S 0.01      /* without a credit for this time, ask for one */
#define WINDOW_BYTES (1u << 20) /* in flight with credit; also bounded by half the ring */

static const uint32_t default_sizes[] = {1,    4,     16,    64,     256,     1024,
                                         4096, 16384, 65536, 262144, 1048576, 4194304};

/* What holds a sender back. */
struct flow {
    uint64_t window; /* most pieces in flight; halved when a queue on the way proves shorter */
    uint64_t credit; /* the first piece that the receiver has not seen */
};

/* Pieces in flight that neither the receiver's ring nor its queue nor, with segmentation done in
 * software, the kernel's backlog of 1000 frames loses. */
static uint64_t window_pieces(const struct baseline_link *link, enum baseline_way way)
{
    bool batches = way != BASELINE_FRAMES;
    uint64_t window = WINDOW_BYTES / link->ways[way].payload;
    uint64_t least = batches ? 2 * (uint64_t)link->ways[way].pieces_max : 16;
    uint64_t most = batches ? 512 : link->slot_count / 2;
    if (window < least) {
        window = least;
    }
    return window < most ? window : most;
}

static uint32_t pieces_of(const struct baseline_link *link, enum baseline_way way, uint32_t length)
{
    return (length + link->ways[way].payload - 1) / link->ways[way].payload;
}

/* Asks the receiver how far it is; reports how many pieces were sent, and the window. */
static void probe(struct baseline_link *link, const struct flow *flow, uint64_t sent)
{
    struct baseline_frame frame = {
        .type = BASELINE_PROBE, .length = (uint32_t)flow->window, .value = sent};
    baseline_frame_send(link, &frame, NULL, link->peer);
}

/* Waits until fewer than `limit` pieces are in flight. */
static void wait_for_credit(struct baseline_link *link, const struct baseline_options *options,
                            struct flow *flow, uint64_t sent, uint64_t limit)
{
    struct baseline_frame frame;
    double start = 0; /* of the waiting; 0: not yet known */
    double next = 0;  /* when the next probe is due */
    for (unsigned spin = 1; sent - flow->credit >= limit; spin++) {
        if (baseline_frame_receive(link, &frame, NULL, 0)) {
            if (frame.type == BASELINE_CREDIT && frame.value > flow->credit &&
                frame.value <= sent) {
                flow->credit = frame.value;
                if (frame.offset != 0 && flow->window > WINDOW_LEAST) {
                    flow->window /= 2;
                    limit = limit < flow->window ? limit : flow->window;
                }
            }
            continue;
        }
        if (spin % SPINS_PER_CLOCK == 0) {
            double now = baseline_now();
            if (start == 0) {
                start = now;
                next = now + PROBE_AFTER_S;
            } else if (now - start > options->wait_seconds) {
                baseline_peer_gone(link, options);
            } else if (now > next) {
                probe(link, flow, sent);
                next = now + PROBE_AFTER_S;
            }
        }
    }
}

static double batch_s[BATCHES_MAX];

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sends one message; with a window, waits for credit before each frame or GSO batch. */
static bool send_message(struct baseline_link *link, const struct baseline_options *options,
                         enum baseline_way way, struct baseline_frame *cursor, struct flow *flow,
                         const uint8_t *message, uint32_t length)
{
    cursor->number++;
    cursor->offset = 0;
    while (cursor->offset < length) {
        if (flow != NULL) {
            wait_for_credit(link, options, flow, cursor->value, flow->window);
        }
        if (baseline_piece_send(link, way, cursor, message, length) != 0) {
            return false;
        }
    }
    return true;
}

/* Sends message after message for the given time and prints what arrived. */
static void initiate(struct baseline_link *link, const struct baseline_options *options,
                     enum baseline_way way, struct flow *flow, uint32_t test, uint32_t length)
{
    struct baseline_frame request = {.type = BASELINE_START,
                                     .number = test,
                                     .offset = way,
                                     .length = length,
                                     .value =
                                         flow != NULL ? BASELINE_STREAM_CREDIT : BASELINE_STREAM};
    struct baseline_frame reply;
    uint8_t *message = baseline_pattern_new(length);
    struct baseline_frame cursor = {.type = BASELINE_DATA};
    double elapsed = 0;
    int batches = 0;
    double limit = options->seconds;
    uint32_t batch = length > CLOCK_BYTES ? 1 : CLOCK_BYTES / length;
    batch = batch > BATCH_MAX ? BATCH_MAX : batch;
    baseline_peer_request(link, options, &request, BASELINE_STARTED, &reply);
    if (flow != NULL) {
        flow->credit = 0;
        probe(link, flow, 0); /* reports the window that earlier tests have left */
    }
    double start = baseline_now();
    do {
        for (uint32_t i = 0; i < batch; i++) {
            if (!send_message(link, options, way, &cursor, flow, message, length)) {
                limit = 0;
                break;
            }
        }
        double now = baseline_now();
        if (batches < BATCHES_MAX) {
            batch_s[batches++] = now - start - elapsed;
        }
        elapsed = now - start;
    } while (elapsed < limit);
    if (flow != NULL) {
        /* All of it has to be there before the clock stops. */
        probe(link, flow, cursor.value);
        wait_for_credit(link, options, flow, cursor.value, 1);
        elapsed = baseline_now() - start;
    }
    request.type = BASELINE_END;
    baseline_peer_request(link, options, &request, BASELINE_ENDED, &reply);
    qsort(batch_s, (size_t)batches, sizeof(double), compare_doubles);
    double sent_bytes = (double)cursor.number * length;
    bool lossless = reply.value == (uint64_t)cursor.number * length;
    printf("baseline stream way=%s window=%s bytes=%u messages=%u mbytes_per_s=%.2f "
           "messages_per_s=%.0f send_us=%.3f received=%.4f wrong=%u\n",
           baseline_way_name(way), flow != NULL ? "credit" : "unlimited", length, cursor.number,
           (double)reply.value / elapsed / 1e6, (double)reply.value / length / elapsed,
           batch_s[batches / 2] / batch * 1e6, (double)reply.value / sent_bytes,
           lossless ? reply.offset : 0);
    fflush(stdout);
    free(message);
}

/* Tells a credit for all that was sent before the probe: what has not arrived by now is lost.
 * Returns it. */
static uint64_t answer_probe(struct baseline_link *link, struct baseline_inbox *inbox,
                             const struct baseline_frame *probe, uint64_t late_bytes)
{
    struct baseline_frame credit = {.type = BASELINE_CREDIT};
    credit.offset = probe->value > inbox->pieces && late_bytes == 0;
    if (probe->value > inbox->pieces) {
        inbox->pieces = probe->value;
    }
    credit.value = inbox->pieces;
    baseline_frame_send(link, &credit, NULL, link->peer);
    return credit.value;
}

/* Receives into one buffer until the test ends; credit, where wanted, every quarter window. */
static void answer(struct baseline_link *link, const struct baseline_options *options,
                   const struct baseline_frame *start)
{
    enum baseline_way way = (enum baseline_way)start->offset;
    bool has_credit = start->value == BASELINE_STREAM_CREDIT;
    uint32_t length = start->length;
    struct baseline_frame frame;
    struct baseline_inbox inbox = {0};
    uint8_t *buffer = baseline_buffer_new(length);
    uint64_t quarter = window_pieces(link, way) / 4;
    uint64_t told = 0;
    bool done;
    double last = baseline_now();
    for (unsigned spin = 1;; spin++) {
        int type = baseline_message_poll(link, way, &inbox, buffer, length, &frame, &done);
        if (type == BASELINE_PROBE) {
            quarter = frame.length / 4;
            /* Batches come through another queue: the last ones may still lie there. */
            uint64_t late_bytes = baseline_batches_poll(link, way, &inbox, buffer, length);
            told = answer_probe(link, &inbox, &frame, late_bytes);
        } else if (has_credit && type != 0 && inbox.pieces - told >= quarter) {
            told = inbox.pieces;
            baseline_peer_answer(link, BASELINE_CREDIT, 0, told);
        } else if (type == BASELINE_START && frame.number == start->number) {
            baseline_peer_answer(link, BASELINE_STARTED, start->number, 0);
        } else if (type == BASELINE_END && frame.number == start->number) {
            baseline_batches_poll(link, way, &inbox, buffer, length);
            break;
        }
        if (type != 0) {
            spin = 0;
        } else if (spin % (1u << 16) == 0) {
            if (spin == 1u << 16) {
                last = baseline_now();
            } else if (baseline_now() - last > options->wait_seconds) {
                baseline_peer_gone(link, options);
            }
            sched_yield();
        }
    }
    baseline_peer_ended(link, start->number, inbox.bytes, baseline_pattern_wrong(buffer, length));
    free(buffer);
}

int main(int argc, char **argv)
{
    struct baseline_options options;
    struct baseline_link link;
    int status;
    if (!baseline_options_parse(
            &options, argc, argv,
            "Messages in one direction in raw frames: what a bare sender reaches, "
            "with a window and without.",
            default_sizes, sizeof(default_sizes) / sizeof(default_sizes[0]), &status)) {
        return status;
    }
    baseline_link_open(&link, &options);
    baseline_ways_open(&link, &options);
    baseline_peer_find(&link, &options);
    if (link.initiator) {
        uint32_t test = 0;
        struct flow flows[BASELINE_WAYS] = {0};
        printf("baseline link interface=%s mtu=%d\n", link.name, link.mtu);
        for (int i = 0; i < options.size_count; i++) {
            for (int way = BASELINE_FRAMES; way < BASELINE_WAYS; way++) {
                if (!baseline_way_usable(&link, &options, (enum baseline_way)way)) {
                    continue;
                }
                /* A batch for a message of one piece would only be a slower frame. */
                if (way != BASELINE_FRAMES && options.ways[BASELINE_FRAMES] &&
                    pieces_of(&link, (enum baseline_way)way, options.sizes[i]) == 1) {
                    continue;
                }
                if (flows[way].window == 0) {
                    flows[way].window = window_pieces(&link, (enum baseline_way)way);
                }
                if (options.credit) {
                    initiate(&link, &options, (enum baseline_way)way, &flows[way], ++test,
                             options.sizes[i]);
                }
                if (options.unlimited) {
                    initiate(&link, &options, (enum baseline_way)way, NULL, ++test,
                             options.sizes[i]);
                }
            }
        }
        baseline_peer_bye(&link);
    } else {
        struct baseline_frame start;
        while (baseline_peer_serve(&link, &options, &start)) {
            answer(&link, &options, &start);
        }
    }
    baseline_link_close(&link);
    return 0;
}
