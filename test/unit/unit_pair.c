/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Common set-up of the connection tests: see unit_pair.h.
 */
#include "unit_pair.h"

#include <string.h>

#include "conn/rawe_conn.h"

struct unit_net net;
enum rawe_lane unit_lane;

void unit_start_with(struct unit_options options)
{
    struct rawe_engine_config *config = &net.config;
    if (net.node[0].started) {
        unit_stop(&net);
    }
    unit_init(&net);
    if (options.window_frames != 0) {
        config->window_frames = options.window_frames;
        config->receive_frames = 4 * options.window_frames;
    }
    if (options.payload_max_bytes != 0) {
        config->payload_max_bytes = options.payload_max_bytes;
    }
    if (options.message_max_bytes != 0) {
        config->message_max_bytes = options.message_max_bytes;
    }
    config->coalesce_from_frames = options.coalesce_from_frames;
    unit_start(&net);
    if (options.batch_frames != 0) {
        unit_use_batches(&net, options.batch_frames);
    }
}

void unit_set_up(void)
{
    unit_start_with((struct unit_options){0});
}

void unit_set_up_bulk(void)
{
    unit_lane = RAWE_LANE_BULK;
    unit_set_up();
}

void unit_set_up_wide(void)
{
    unit_lane = RAWE_LANE_BULK;
    unit_start_with((struct unit_options){.window_frames = 256});
}

void unit_tear_down(void)
{
    unit_stop(&net);
    unit_lane = RAWE_LANE_EXPRESS;
}

bool drop_all(struct unit_net *unused, const struct net_frame *frame)
{
    return false;
}

/** Returns true if node 0 has nothing in flight on any lane. */
static bool drained(void)
{
    bool all = true;
    for (unsigned lane = 0; lane < RAWE_LANES; lane++) {
        const struct rawe_conn *conn = net.node[0].conn[lane];
        all = all && (conn == NULL || rawe_conn_drained(conn));
    }
    return all;
}

void finish(void)
{
    for (unsigned i = 0; i < 2000 && !drained(); i++) {
        unit_run(&net, UNIT_MS, 20 * UNIT_US);
    }
    assert_true(drained());
    for (unsigned lane = 0; lane < RAWE_LANES; lane++) {
        const struct rawe_conn *conn = net.node[0].conn[lane];
        if (conn != NULL) {
            assert_int_equal(conn->tx.window.in_flight, 0);
            assert_int_equal(conn->tx.window.to_transmit, 0);
            assert_int_equal(conn->tx.window.sacked, 0);
            assert_int_equal(conn->tx.queue.count, 0);
            assert_int_equal(conn->tx.queue.bytes, 0);
        }
    }
}

void assert_works_both_ways(void)
{
    static uint8_t data[10000];
    unit_fill(data, sizeof(data), 3);
    for (unsigned from = 0; from < UNIT_NODES; from++) {
        struct unit_send small = {0}, large = {0};
        unsigned before = net.node[1 - from].message_count;
        unit_send_message(end(from), &small, 1, data, 100);
        unit_send_message(end(from), &large, 2, data, sizeof(data));
        unit_run(&net, 20 * UNIT_MS, 20 * UNIT_US);
        assert_int_equal(net.node[1 - from].message_count, before + 2);
        unit_assert_message(&net.node[1 - from], before, 1, 100, 3);
        unit_assert_message(&net.node[1 - from], before + 1, 2, sizeof(data), 3);
        assert_int_equal(small.done, 1);
        unit_assert_sent(&large, 1, RAWE_STATUS_DONE);
        assert_true(rawe_conn_drained(end(from)));
    }
}

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
                                             .sequence = end(1)->rx.window.next + ahead},
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
    (void)rawe_credit_advertise(&net.node[1].engine.pull.credit, RAWE_LANE_EXPRESS,
                                &net.node[1].conn[RAWE_LANE_EXPRESS]->rx.credit);
    net.node[1].engine.pull.credit.ring_frames = 16 * 4 / 3 + 1;
    assert_int_equal(counters(1)->acks_sent, 0);
}
