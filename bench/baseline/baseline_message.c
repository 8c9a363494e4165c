/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of any size as plain frames or GSO batches, and what of them has arrived. */
#include "baseline.h"

int baseline_piece_send(struct baseline_link *link, enum baseline_way way,
                        struct baseline_frame *cursor, const uint8_t *message, uint32_t length)
{
    uint32_t left = length - cursor->offset;
    if (way == BASELINE_GSO) {
        uint32_t count = 0;
        int64_t taken = baseline_gso_send(link, cursor, message, left, &count);
        if (taken < 0) {
            return (int)taken;
        }
        cursor->value += count;
        cursor->offset += (uint32_t)taken;
        return 0;
    }
    cursor->length = left < link->frame_payload ? left : link->frame_payload;
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

int baseline_message_poll(struct baseline_link *link, enum baseline_way way,
                          struct baseline_inbox *inbox, uint8_t *buffer, uint32_t length,
                          struct baseline_frame *frame, bool *done)
{
    uint32_t pieces = 1;
    *done = false;
    if (way == BASELINE_GSO &&
        baseline_gso_receive(link, frame, buffer, length, inbox->next, &pieces)) {
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
