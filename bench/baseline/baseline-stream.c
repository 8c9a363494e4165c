/* SPDX-License-Identifier: BSD-3-Clause */
/* baseline-stream: bytes and messages per second in one direction over AF_PACKET, without MPI. */
#include "baseline.h"

#include <stdio.h>
#include <stdlib.h>

#define SPINS_PER_CLOCK 256
#define CLOCK_BYTES 65536u      /* sent for each reading of the clock */
#define BATCHES_MAX 10000       /* durations kept for the median */
#define BATCH_MAX 16u           /* messages for each reading of the clock, at most */
#define WINDOW_LEAST 8u         /* pieces */
#define PROBE_AFTER_S 0.01      /* without credit for this time, send a probe */
#define WINDOW_BYTES (1u << 20) /* most in flight; half the ring is another bound */

/* Flow control at the sender. */
struct flow {
    uint64_t window; /* most pieces in flight; halved after a loss */
    uint64_t credit; /* the first piece that the receiver has not seen */
};

/* Return how many pieces in flight fit the receiver's ring, its queue and, if segmentation is done
 * in software, the kernel's backlog of 1000 frames. */
static uint64_t window_pieces(const struct baseline_link *link, enum baseline_way way)
{
    bool batches = way != BASELINE_FRAMES;
    uint64_t window = WINDOW_BYTES / link->ways[way].payload;
    uint64_t least = batches ? 2 * (uint64_t)link->ways[way].pieces_max : 16;
    const struct rawe_ring_geometry *ring = &link->ways[way].ring.geometry;
    unsigned slots = ring->slots_per_block * ring->block_count;
    uint64_t most = slots == 0 ? 512 : slots / 2;
    if (window < least) {
        window = least;
    }
    return window < most ? window : most;
}

/* Ask the receiver for credit, and report the number of pieces sent and the window. */
static void probe(struct baseline_link *link, const struct flow *flow, uint64_t sent)
{
    struct baseline_frame frame = {
        .type = BASELINE_PROBE, .length = (uint32_t)flow->window, .value = sent};
    baseline_frame_send(link, &frame, NULL);
}

/* Wait until fewer than `limit` pieces are in flight. */
static void wait_for_credit(struct baseline_link *link, const struct baseline_options *options,
                            struct flow *flow, uint64_t sent, uint64_t limit)
{
    struct baseline_frame frame;
    double start = 0; /* when the wait began; 0: clock not read yet */
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
                baseline_gone(link, options);
            } else if (now > next) {
                probe(link, flow, sent);
                next = now + PROBE_AFTER_S;
            }
        }
    }
}

static double batch_s[BATCHES_MAX];

/* Send a message, waiting for credit before each frame or batch. */
static bool send_message(struct baseline_link *link, const struct baseline_options *options,
                         enum baseline_way way, struct baseline_frame *cursor, struct flow *flow,
                         const uint8_t *message, uint32_t length)
{
    cursor->number++;
    cursor->offset = 0;
    while (cursor->offset < length) {
        wait_for_credit(link, options, flow, cursor->value, flow->window);
        if (baseline_piece_send(link, way, cursor, message, length) != 0) {
            return false;
        }
    }
    return true;
}

/* Send messages for the given time, and print how much data arrived. */
static void initiate(struct baseline_link *link, const struct baseline_options *options,
                     enum baseline_way way, uint32_t length)
{
    static struct flow flows[BASELINE_WAYS];
    struct flow *flow = &flows[way];
    uint8_t *message = baseline_pattern_new(length);
    struct baseline_frame cursor = {.type = BASELINE_DATA};
    double elapsed = 0;
    int batches = 0;
    double limit = options->seconds;
    uint32_t batch = length > CLOCK_BYTES ? 1 : CLOCK_BYTES / length;
    batch = batch > BATCH_MAX ? BATCH_MAX : batch;
    baseline_test_begin(link, way, length);
    if (flow->window == 0) {
        flow->window = window_pieces(link, way);
    }
    flow->credit = 0;
    probe(link, flow, 0); /* reports the window, which earlier tests may have halved */
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
    /* The clock stops when all data has arrived. */
    probe(link, flow, cursor.value);
    wait_for_credit(link, options, flow, cursor.value, 1);
    elapsed = baseline_now() - start;
    struct baseline_ended ended = baseline_test_end();
    baseline_sort(batch_s, batches);
    double sent_bytes = (double)cursor.number * length;
    bool lossless = ended.bytes == (uint64_t)cursor.number * length;
    printf("baseline stream way=%s bytes=%u messages=%u mbytes_per_s=%.2f "
           "messages_per_s=%.0f send_us=%.3f received=%.4f wrong=%u\n",
           baseline_way_name(way), length, cursor.number, (double)ended.bytes / elapsed / 1e6,
           (double)ended.bytes / length / elapsed, batch_s[batches / 2] / batch * 1e6,
           (double)ended.bytes / sent_bytes, lossless ? ended.wrong : 0);
    fflush(stdout);
    free(message);
}

/* Grant credit for all pieces sent before the probe; missing pieces are considered lost. Returns
 * the credit. */
static uint64_t answer_probe(struct baseline_link *link, struct baseline_inbox *inbox,
                             const struct baseline_frame *probe, uint64_t late_bytes)
{
    struct baseline_frame credit = {.type = BASELINE_CREDIT};
    credit.offset = probe->value > inbox->pieces && late_bytes == 0;
    if (probe->value > inbox->pieces) {
        inbox->pieces = probe->value;
    }
    credit.value = inbox->pieces;
    baseline_frame_send(link, &credit, NULL);
    return credit.value;
}

/* Send credit every quarter window. */
static void take(struct baseline_answer *answer, int type, const struct baseline_frame *frame,
                 bool done)
{
    if (answer->quarter == 0) {
        answer->quarter = window_pieces(answer->link, answer->way) / 4;
    }
    if (type == BASELINE_PROBE) {
        answer->quarter = frame->length / 4;
        /* The last batches may still be in the queue for batches. */
        uint64_t late_bytes = baseline_batches_poll(answer->link, answer->way, &answer->inbox,
                                                    answer->buffer, answer->length);
        answer->pieces = answer_probe(answer->link, &answer->inbox, frame, late_bytes);
    } else if (answer->inbox.pieces - answer->pieces >= answer->quarter) {
        answer->pieces = answer->inbox.pieces;
        struct baseline_frame credit = {.type = BASELINE_CREDIT, .value = answer->pieces};
        baseline_frame_send(answer->link, &credit, NULL);
    }
}

int main(int argc, char **argv)
{
    const struct baseline_program program = {
        .purpose = "Messages in one direction in raw frames, held back by the receiver's credit: "
                   "what a bare sender reaches.\n",
        .skips_single = true,
        .initiate = initiate,
        .take = take};
    return baseline_main(&program, argc, argv);
}
