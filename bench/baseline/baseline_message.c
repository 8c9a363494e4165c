/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of any size as plain frames or batches, and what of them has arrived. */
#include "baseline.h"

#include <string.h>

/* A number for each word of a message: no two places within it hold the same. */
static uint32_t pattern_word(uint32_t index)
{
    return (index + 1) * 2654435761u;
}

uint8_t *baseline_pattern_new(uint32_t bytes)
{
    uint8_t *buffer = baseline_buffer_new(bytes);
    for (uint32_t at = 0; at < bytes; at += sizeof(uint32_t)) {
        uint32_t word = pattern_word(at / sizeof(uint32_t));
        memcpy(buffer + at, &word, bytes - at < sizeof(word) ? bytes - at : sizeof(word));
    }
    return buffer;
}

uint32_t baseline_pattern_wrong(const uint8_t *buffer, uint32_t bytes)
{
    uint32_t wrong = 0;
    for (uint32_t at = 0; at < bytes; at++) {
        uint32_t word = pattern_word(at / sizeof(uint32_t));
        wrong += buffer[at] != ((const uint8_t *)&word)[at % sizeof(word)];
    }
    return wrong;
}

int baseline_piece_send(struct baseline_link *link, enum baseline_way way,
                        struct baseline_frame *cursor, const uint8_t *message, uint32_t length)
{
    uint32_t left = length - cursor->offset;
    if (way != BASELINE_FRAMES) {
        uint32_t count = 0;
        int64_t taken = baseline_batch_send(link, way, cursor, message, left, &count);
        if (taken < 0) {
            return (int)taken;
        }
        cursor->value += count;
        cursor->offset += (uint32_t)taken;
        return 0;
    }
    uint32_t most = link->ways[BASELINE_FRAMES].payload;
    cursor->length = left < most ? left : most;
    int error = baseline_frame_send(link, cursor, message + cursor->offset, link->peer);
    if (error == 0) {
        cursor->value++;
        cursor->offset += cursor->length;
    }
    return error;
}

/* Books a piece of `length` payload bytes and `pieces` segments. Returns true when it completed
 * its message. */
static bool inbox_book(struct baseline_inbox *inbox, const struct baseline_frame *frame,
                       uint32_t pieces, uint32_t length)
{
    if ((int32_t)(frame->number - inbox->number) < 0) {
        return false; /* late remains of a message that was given up */
    }
    if (frame->number != inbox->number) {
        inbox->number = frame->number;
        inbox->received = 0;
    }
    inbox->received += frame->length;
    inbox->bytes += frame->length;
    inbox->next = frame->offset + frame->length;
    if (inbox->next >= length) {
        inbox->next = 0;
    }
    if (frame->value + pieces > inbox->pieces) {
        inbox->pieces = frame->value + pieces;
    }
    return inbox->received == length;
}

uint64_t baseline_batches_poll(struct baseline_link *link, enum baseline_way way,
                               struct baseline_inbox *inbox, uint8_t *buffer, uint32_t length)
{
    struct baseline_frame frame;
    uint32_t pieces = 1;
    uint64_t before = inbox->bytes;
    while (way != BASELINE_FRAMES &&
           baseline_batch_receive(link, way, &frame, buffer, length, inbox->next, &pieces)) {
        inbox_book(inbox, &frame, pieces, length);
    }
    return inbox->bytes - before;
}

int baseline_message_poll(struct baseline_link *link, enum baseline_way way,
                          struct baseline_inbox *inbox, uint8_t *buffer, uint32_t length,
                          struct baseline_frame *frame, bool *done)
{
    uint32_t pieces = 1;
    *done = false;
    if (way != BASELINE_FRAMES &&
        baseline_batch_receive(link, way, frame, buffer, length, inbox->next, &pieces)) {
        *done = inbox_book(inbox, frame, pieces, length);
        return (int)frame->type;
    }
    if (!baseline_frame_receive(link, frame, buffer, length)) {
        return 0;
    }
    if (frame->type == BASELINE_DATA) {
        *done = inbox_book(inbox, frame, 1, length);
    }
    return (int)frame->type;
}
