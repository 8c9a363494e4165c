/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Frames made by hand: see unit_receive.h.
 */
#include "unit_receive.h"

#include <string.h>

size_t put_fragment(uint8_t *out, struct rawe_fragment fragment, unsigned seed)
{
    size_t header_bytes = rawe_fragment_encode(out, &fragment);
    unit_fill(out + header_bytes, fragment.data_bytes, seed);
    size_t len_bytes = header_bytes + fragment.data_bytes;
    memset(out + len_bytes, 0, rawe_fragment_pad(len_bytes) - len_bytes);
    return rawe_fragment_pad(len_bytes);
}

void receive_data(uint32_t ahead, uint8_t flags, const uint8_t *payload, size_t payload_bytes)
{
    unit_receive_forged(&net, 0, RAWE_LANE_EXPRESS,
                        (struct rawe_header){.type = RAWE_FRAME_DATA,
                                             .flags = flags,
                                             .sequence = end(1)->recvwin.acktr.next + ahead},
                        payload, payload_bytes);
}

void receive_message(uint32_t ahead, uint8_t flags, uint8_t tag)
{
    uint8_t payload[64];
    size_t len_bytes = put_fragment(
        payload,
        (struct rawe_fragment){.kind = RAWE_FRAGMENT_MESSAGE, .tag = tag, .data_bytes = 20}, tag);
    receive_data(ahead, flags, payload, len_bytes);
}

void connect_nodes(void)
{
    unit_connect(&net, RAWE_LANE_EXPRESS);
    unit_begin_at(&net, RAWE_LANE_EXPRESS, UINT32_MAX - 1);
    unit_set_credit(&net, 1, 16);
    (void)rawe_credit_advertise(&net.node[1].engine.credit, RAWE_LANE_EXPRESS,
                                &net.node[1].conn[RAWE_LANE_EXPRESS]->credit);
    net.node[1].engine.credit.ring_frames = 16 * 4 / 3 + 1;
    assert_int_equal(counters(1)->acks_sent, 0);
}
