/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A bulk lane whose receiving node defers: see unit_defer.h.
 */
#include "unit_defer.h"

#include <string.h>

uint8_t data[300000];

void run(uint64_t duration_ns)
{
    unit_run(&net, duration_ns, 50 * UNIT_US);
}

void connect_and_defer(void)
{
    unit_connect(&net, RAWE_LANE_BULK);
    unit_fill(data, sizeof(data), 7);
    rawe_engine_defer_begin(engine(1));
}

void resume(unsigned node)
{
    unsigned before = net.node[node].message_count;
    rawe_engine_defer_end(engine(node));
    assert_int_equal(net.node[node].message_count, before); /* not yet */
    rawe_engine_deliver_deferred(engine(node));
    assert_false(rawe_engine_has_deferred(engine(node)));
    assert_int_equal(engine(node)->deferral->bytes, 0);
}

void send_messages(struct unit_send *sends, unsigned count, size_t len_bytes)
{
    memset(sends, 0, count * sizeof(*sends));
    unit_send_messages(end(0), sends, count, data, len_bytes);
}

void assert_delivered_in_order(unsigned count, size_t len_bytes)
{
    unit_assert_messages(&net.node[1], count, len_bytes, 7);
    assert_int_equal(engine(1)->counters.messages_received, count);
    assert_int_equal(engine(1)->counters.bytes_received, count * len_bytes);
}
