/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Two nodes, of which one finalizes: see unit_finalize.h.
 */
#include "unit_finalize.h"

#include <string.h>

struct unit_send finalize_sends[FINALIZE_SENDS];
uint8_t finalize_data[5000];
static const uint8_t *lost_destination; /**< of what lose_to loses */

void finalize_set_up(void)
{
    unit_start_with((struct unit_options){0});
    unit_connect(&net, RAWE_LANE_EXPRESS);
    unit_fill(finalize_data, sizeof(finalize_data), 3);
    memset(finalize_sends, 0, sizeof(finalize_sends));
}

bool lose_data(struct unit_net *of, const struct net_frame *frame)
{
    return frame->header.type != RAWE_FRAME_DATA;
}

bool lose_closes(struct unit_net *of, const struct net_frame *frame)
{
    return frame->header.type != RAWE_FRAME_CLOSE;
}

static bool lose_to(struct unit_net *of, const struct net_frame *frame)
{
    return memcmp(frame->bytes, lost_destination, RAWE_MAC_BYTES) != 0;
}

void finalize_send(unsigned from, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        unit_send_message(end(from), &finalize_sends[i], (uint8_t)i, finalize_data,
                          sizeof(finalize_data));
    }
}

void assert_complete(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(finalize_sends[i].done, 1);
        assert_int_equal(finalize_sends[i].status, RAWE_STATUS_DONE);
    }
}

void assert_nothing_lost(void)
{
    assert_int_equal(net.node[0].lost_calls, 0);
    assert_int_equal(net.node[0].failed_calls, 0);
}

enum rawe_finalized linger(unsigned node, uint64_t most_ns)
{
    enum rawe_finalized result = RAWE_FINALIZED_NOT;
    for (uint64_t ns = 0; ns < most_ns && result == RAWE_FINALIZED_NOT; ns += UNIT_MS) {
        unit_run(&net, UNIT_MS, UNIT_MS);
        result = rawe_conn_finalized(end(node), net.now_ns);
    }
    return result;
}

void depart(void)
{
    unit_close(&net, 1, UNIT_LANE);
    unit_settle(&net);
    lost_destination = net.node[1].engine.config.mac;
    net.filter = lose_to;
}
