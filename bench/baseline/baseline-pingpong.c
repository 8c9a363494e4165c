/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * baseline-pingpong: half a message's round trip over AF_PACKET, a lower bound for any MPI. With
 * --compute it is an exchange instead: both ranks compute, then each sends a message to the other.
 */
#include "baseline.h"

#include <stdio.h>
#include <stdlib.h>

#define WARMUP 20
#define SAMPLES_MAX 50000
#define LOST_AFTER_S 0.05   /* maximum round trip */
#define LOST_IN_A_ROW 5     /* then this way does not carry the size */
#define SPINS_PER_CLOCK 256 /* polls per reading of the clock */

/* Send a whole message, and add its pieces to *pieces. Returns false on failure. */
static bool send_message(struct baseline_link *link, enum baseline_way way, uint32_t number,
                         uint64_t *pieces, const uint8_t *message, uint32_t length)
{
    struct baseline_frame cursor = {.type = BASELINE_DATA, .number = number, .value = *pieces};
    while (cursor.offset < length) {
        if (baseline_piece_send(link, way, &cursor, message, length) != 0) {
            return false;
        }
    }
    *pieces = cursor.value;
    return true;
}

/* Send a message and await another. Returns the seconds, negative if the other was lost. */
static double round_trip(struct baseline_link *link, enum baseline_way way, uint32_t number,
                         uint64_t *pieces, struct baseline_inbox *inbox, const uint8_t *message,
                         uint8_t *buffer, uint32_t length)
{
    struct baseline_frame frame;
    bool done = false;
    inbox->number = number;
    inbox->received = 0;
    inbox->next = 0;
    double start = baseline_now();
    if (!send_message(link, way, number, pieces, message, length)) {
        return -1;
    }
    for (unsigned spin = 1;; spin++) {
        baseline_message_poll(link, way, inbox, buffer, length, &frame, &done);
        if (done) {
            return baseline_now() - start;
        }
        if (spin % SPINS_PER_CLOCK == 0 && baseline_now() - start > LOST_AFTER_S) {
            return -1;
        }
    }
}

static double samples[SAMPLES_MAX];

static void initiate(struct baseline_link *link, const struct baseline_options *options,
                     enum baseline_way way, uint32_t length)
{
    struct baseline_inbox inbox = {0};
    uint8_t *message = baseline_pattern_new(length);
    uint8_t *buffer = baseline_buffer_new(length);
    uint64_t pieces = 0;
    int count = 0;
    int lost = 0;
    int lost_in_a_row = 0;
    double sum = 0;
    const bool computes = options->compute_us > 0;
    baseline_test_begin(link, way, length);
    double start = baseline_now();
    bool is_warm = false;
    for (uint32_t number = 1; count < SAMPLES_MAX && lost_in_a_row < LOST_IN_A_ROW; number++) {
        if (computes) {
            baseline_compute(options);
        }
        double time = round_trip(link, way, number, &pieces, &inbox, message, buffer, length);
        if (time < 0) {
            lost++;
            lost_in_a_row++;
        } else {
            lost_in_a_row = 0;
            if (is_warm) {
                samples[count] = computes ? time : time / 2;
                sum += samples[count++];
            }
        }
        double elapsed = baseline_now() - start;
        is_warm = number >= WARMUP || elapsed > options->seconds / 4;
        if (elapsed > options->seconds && count > 0) {
            break;
        }
    }
    struct baseline_ended ended = baseline_test_end();
    printf("baseline %s way=%s bytes=%u iterations=%d", computes ? "exchange" : "pingpong",
           baseline_way_name(way), length, count);
    if (count > 0) {
        baseline_sort(samples, count);
        printf(" min_us=%.3f median_us=%.3f mean_us=%.3f p90_us=%.3f", samples[0] * 1e6,
               samples[count / 2] * 1e6, sum / count * 1e6, samples[count * 9 / 10] * 1e6);
    }
    uint32_t wrong = lost > 0 ? 0 : ended.wrong + baseline_pattern_wrong(buffer, length);
    printf(" lost=%d wrong=%u\n", lost, wrong);
    fflush(stdout);
    free(message);
    free(buffer);
}

static void answer_with(struct baseline_answer *answer, uint32_t number)
{
    send_message(answer->link, answer->way, number, &answer->pieces, answer->message,
                 answer->length);
}

/*
 * In a ping-pong, answer each message with one of the same length. In an exchange, answer only the
 * first message; then compute as the other rank does, and send the next message without waiting.
 */
static void take(struct baseline_answer *answer, int type, const struct baseline_frame *frame,
                 bool done)
{
    const bool computes = answer->options->compute_us > 0;
    if (done && (!computes || answer->pieces == 0)) {
        answer_with(answer, answer->inbox.number);
    }
    if (done && computes) {
        baseline_compute(answer->options);
        answer_with(answer, answer->inbox.number + 1);
    }
}

int main(int argc, char **argv)
{
    const struct baseline_program program = {
        .purpose = "Half the round trip of a message in raw frames, with no protocol.\n",
        .initiate = initiate,
        .take = take};
    return baseline_main(&program, argc, argv);
}
