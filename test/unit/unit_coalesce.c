/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * An express lane on which short messages are held back: see unit_coalesce.h.
 */
#include "unit_coalesce.h"

void unit_set_up_coalescing(void)
{
    unit_start_with((struct unit_options){.coalesce_from_frames = COALESCE_FROM});
}

void copy(uint8_t tag, size_t len_bytes)
{
    assert_int_equal(unit_copy_message(end(0), tag, len_bytes), RAWE_STATUS_DONE);
}

void connect_busy(void)
{
    unit_connect(&net, RAWE_LANE_EXPRESS);
    for (unsigned i = 0; i < COALESCE_FROM; i++) {
        copy(200, 10);
    }
    assert_int_equal(unit_wire_count(&net), COALESCE_FROM);
}

void flush(unsigned node)
{
    rawe_engine_flush(&net.node[node].engine, net.now_ns);
}

struct net_frame *last_frame(void)
{
    struct net_frame *last = net.wire;
    while (last != NULL && last->next != NULL) {
        last = last->next;
    }
    assert_non_null(last);
    return last;
}

unsigned messages_in(const struct net_frame *frame)
{
    const uint8_t *cursor = frame->bytes + RAWE_PAYLOAD_OFFSET;
    const uint8_t *end_of_payload = cursor + frame->header.payload_bytes;
    unsigned count = 0;
    while (cursor != end_of_payload) {
        struct rawe_fragment fragment;
        assert_int_equal(rawe_fragment_decode(&fragment, &cursor, end_of_payload), RAWE_DECODE_OK);
        assert_int_equal(fragment.kind, RAWE_FRAGMENT_MESSAGE);
        assert_int_equal(fragment.id, 0);
        for (const uint8_t *pad = fragment.data + fragment.data_bytes; pad < cursor; pad++) {
            assert_int_equal(*pad, 0);
        }
        count++;
    }
    return count;
}
