/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The link of a node: see unit_link.h.
 */
#include "unit_link.h"

#include <stdlib.h>
#include <string.h>

#include "unit_wire.h"

/** Every frame an engine sends is checked here for what must hold of all of them. */
static struct unit_frame *frame_sent(struct unit_node *node, const struct rawe_frame *view)
{
    struct unit_frame *frame = calloc(1, sizeof(*frame));
    assert_non_null(frame);
    assert_in_range(view->piece_count, 1, RAWE_FRAME_PIECES_MAX);
    assert_true(view->len_bytes >= RAWE_PAYLOAD_OFFSET);
    assert_true(view->len_bytes <= RAWE_PAYLOAD_OFFSET + node->net->config.payload_max_bytes);
    frame->bytes = malloc(view->len_bytes);
    assert_non_null(frame->bytes);
    for (unsigned i = 0; i < view->piece_count; i++) {
        assert_true(frame->len_bytes + view->pieces[i].len_bytes <= view->len_bytes);
        memcpy(frame->bytes + frame->len_bytes, view->pieces[i].base, view->pieces[i].len_bytes);
        frame->len_bytes += view->pieces[i].len_bytes;
    }
    assert_int_equal(frame->len_bytes, view->len_bytes);
    uint8_t mac[RAWE_MAC_BYTES];
    unit_node_mac(node->index, mac);
    assert_memory_equal(frame->bytes + RAWE_MAC_BYTES, mac, RAWE_MAC_BYTES);
    unit_node_mac(1 - node->index, mac);
    assert_memory_equal(frame->bytes, mac, RAWE_MAC_BYTES);
    assert_int_equal(frame->bytes[12] << 8 | frame->bytes[13], RAWE_ETHERTYPE_DEFAULT);
    assert_int_equal(rawe_header_decode(&frame->header, frame->bytes + RAWE_ETH_HEADER_BYTES,
                                        frame->len_bytes - RAWE_ETH_HEADER_BYTES),
                     RAWE_DECODE_OK);
    assert_int_equal(
        RAWE_PAYLOAD_OFFSET + frame->header.payload_bytes +
            ((frame->header.flags & RAWE_FLAG_CHECKSUM) != 0 ? RAWE_CHECKSUM_BYTES : 0),
        frame->len_bytes);
    assert_int_equal(frame->header.port, unit_node_port(1 - node->index));
    assert_int_equal(frame->header.key, unit_node_key(1 - node->index));
    frame->from = node->index;
    frame->to = 1 - node->index;
    return frame;
}

/** With zeros, as rawe_bulk_transmit does it in the middle of a batch. */
static void fill_up(struct unit_frame *frame, size_t len_bytes)
{
    frame->bytes = realloc(frame->bytes, len_bytes);
    assert_non_null(frame->bytes);
    memset(frame->bytes + frame->len_bytes, 0, len_bytes - frame->len_bytes);
    frame->len_bytes = len_bytes;
}

static unsigned put_on_wire(struct unit_node *node, const struct rawe_frame *frames, unsigned count,
                            unsigned batch)
{
    unsigned taken = 0;
    while (taken < count && node->link_room != 0) {
        struct unit_frame *frame = frame_sent(node, &frames[taken++]);
        frame->batch = batch;
        if (batch != 0 && taken < count) {
            fill_up(frame, frames[0].len_bytes);
        }
        if (node->link_room != UINT32_MAX) {
            node->link_room--;
        }
        node->sent[frame->header.type]++;
        if (batch != 0 && node->net->batches_vanish) {
            unit_frame_free(frame);
            continue;
        }
        if (node->net->filter != NULL && !node->net->filter(node->net, frame)) {
            unit_frame_free(frame);
        } else {
            unit_wire_put(node->net, frame);
        }
    }
    return taken;
}

unsigned unit_transmit(void *context, const struct rawe_frame *frames, unsigned count)
{
    return put_on_wire(context, frames, count, 0);
}

/** By how much a frame may be filled up: more, when it is a long message's last. */
static uint32_t fill_most_bytes(const struct rawe_batches *batches, const struct rawe_frame *frame)
{
    const uint8_t *cursor = (const uint8_t *)frame->pieces[0].base + RAWE_PAYLOAD_OFFSET;
    uint8_t bytes[RAWE_FRAGMENT_PART_BYTES];
    struct rawe_fragment fragment;
    memcpy(bytes, cursor, sizeof(bytes));
    bytes[2] = bytes[3] = 0; /* its data is elsewhere */
    cursor = bytes;
    if (bytes[0] != RAWE_FRAGMENT_PART ||
        rawe_fragment_decode(&fragment, &cursor, bytes + sizeof(bytes)) != RAWE_DECODE_OK) {
        return 0;
    }
    uint32_t part_bytes = fragment.total_bytes / 16;
    return part_bytes > batches->fill_max_bytes ? part_bytes : batches->fill_max_bytes;
}

/** Takes a batch as a whole or not at all, and checks what makes frames a batch. */
unsigned unit_transmit_batch(void *context, const struct rawe_frame *frames, unsigned count)
{
    struct unit_node *node = context;
    const struct rawe_batches *batches = &node->engine.batches;
    uint32_t bytes = 0;
    assert_in_range(count, 1, batches->frames_max);
    for (unsigned i = 0; i < count; i++) {
        assert_true(frames[i].len_bytes <= frames[0].len_bytes);
        assert_true(i + 1 == count || frames[0].len_bytes - frames[i].len_bytes <=
                                          fill_most_bytes(batches, &frames[i]));
        assert_true(frames[i].len_bytes <= RAWE_PAYLOAD_OFFSET +
                                               node->net->config.payload_max_bytes -
                                               batches->overhead_bytes);
        bytes += frames[i + 1 == count ? i : 0].len_bytes - RAWE_ETH_HEADER_BYTES;
    }
    assert_true(bytes <= batches->bytes_max);
    if (node->link_room < count) {
        return 0;
    }
    return put_on_wire(node, frames, count, ++node->net->batch_number);
}
