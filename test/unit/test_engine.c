/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the engine: start and end, frames received and dropped, checksums, and frames that
 * arrive over another route or from an unknown source.
 */
#include "unit_pair.h"

#include <string.h>
#include <stdlib.h>

#include "conn/rawe_conn_tx.h"
#include "conn/rawe_conn.h"
#include "unit_rails.h"
#include "net_engine.h"
#include "conn/rawe_conn_connect.h"

static void set_up_connected(void)
{
    unit_set_up();
    unit_connect(&net, RAWE_LANE_EXPRESS);
}

FIXTURE(set_up_connected, unit_tear_down);
static const struct unit_fixture unconnected = {unit_set_up, unit_tear_down};

TEST_WITH(unconnected, rawe_engine_init__what_is_copied_fits_a_frame)
{
    unit_stop(&net);
    unit_init(&net);
    net.config.copy_max_bytes = 100000;
    unit_start(&net);
    assert_int_equal(net.node[0].engine.config.copy_max_bytes,
                     net.config.payload_max_bytes - RAWE_FRAGMENT_MESSAGE_BYTES);
    unit_connect(&net, RAWE_LANE_EXPRESS);
    unit_send_copy(end(0), 1, net.node[0].engine.config.copy_max_bytes);
    unit_settle(&net);
    assert_int_equal(net.node[1].message_count, 1);
}

/** A peer is probed several times before it is given up. */
TEST_WITH(unconnected, rawe_engine_init__probes_are_more_frequent_than_the_peer_timeout)
{
    static const uint64_t timeouts_s[] = {0, 1, 3, 60};
    static const uint64_t most_ms[] = {1000, 250, 750, 1000};
    for (unsigned i = 0; i < 4; i++) {
        unit_stop(&net);
        unit_init(&net);
        net.config.liveness.peer_timeout_ns = timeouts_s[i] * UNIT_S;
        net.config.liveness.probe_most_ns = UNIT_S;
        unit_start(&net);
        assert_true(engine(0)->config.liveness.probe_most_ns == most_ms[i] * UNIT_MS);
    }
}

TEST_WITH(unconnected, rawe_engine_init__processes_of_a_host_share_what_they_ask_for_and_grant)
{
    static struct rawe_pull_host shared;
    unit_stop(&net);
    unit_init(&net);
    net.config.host = &shared;
    net.config.host_index = 3;
    unit_start(&net);
    assert_ptr_equal(engine(0)->pull.gets.share, &shared.gets.shares[3]);
    assert_ptr_equal(engine(0)->pull.grants.budget.share, &shared.grants.shares[3]);
}

/** A process may be initialized again, and then has the same session key. */
TEST_WITH(unconnected, rawe_engine_init__later_sessions_never_reuse_the_keys_of_operations)
{
    static struct rawe_operation operations[3];
    uint64_t newest_key = 0;
    for (unsigned session = 0; session < 3; session++) {
        for (unsigned i = 0; i < 3; i++) {
            assert_true(rawe_operation_enter(&engine(0)->operations, &operations[i]));
            assert_true(operations[i].key > newest_key);
            newest_key = operations[i].key;
        }
        for (unsigned i = 0; i < 3; i++) {
            rawe_operation_remove(&operations[i]);
        }
        net.now_ns += UNIT_US;
        unit_restart(&net, 0);
    }
}

static unsigned nested_flushes;

static void flush_again(struct unit_send *send)
{
    struct unit_node *node = send->context;
    nested_flushes++;
    rawe_engine_flush(&node->engine, node->net->now_ns);
}

TEST_WITH(unconnected, rawe_engine_flush__from_within_a_callback_of_a_flush)
{
    uint8_t byte = 1;
    struct unit_send sends[2] = {0};
    nested_flushes = 0;
    unit_start_with((struct unit_options){.coalesce_from_frames = 64});
    unit_connect(&net, RAWE_LANE_EXPRESS);
    unit_connect(&net, RAWE_LANE_BULK);
    net.node[0].link_room = 0;
    for (unsigned lane = 0; lane < RAWE_LANES; lane++) {
        struct rawe_conn *conn = net.node[0].conn[lane];
        unit_send_copy(conn, 1, 10); /* waits for the link */
        sends[lane].on_done = flush_again;
        sends[lane].context = &net.node[0];
        unit_fix_window(conn, 0); /* the next message is queued, not framed */
        unit_send_message(conn, &sends[lane], 2, &byte, 1);
        unit_fix_window(conn, 64);
        rawe_conn_make_pending(conn);
    }
    net.node[0].link_room = UINT32_MAX;
    rawe_engine_flush(&net.node[0].engine, net.now_ns);
    assert_int_equal(nested_flushes, 2);
    unit_run(&net, UNIT_MS, 20 * UNIT_US);
    assert_int_equal(net.node[1].message_count, 4);
    /* Both connections have left the pending list. */
    for (unsigned lane = 0; lane < RAWE_LANES; lane++) {
        struct rawe_conn *conn = net.node[0].conn[lane];
        assert_false(rawe_list_has(&conn->pending));
        rawe_conn_make_pending(conn);
        assert_ptr_equal(rawe_list_first(&net.node[0].engine.pending), &conn->pending);
        rawe_engine_flush(&net.node[0].engine, net.now_ns);
    }
}

static void close_bulk(struct unit_send *send)
{
    unit_close(&net, 0, RAWE_LANE_BULK);
}

TEST_WITH(unconnected, rawe_engine_flush__a_callback_closes_the_next_in_line)
{
    uint8_t byte = 1;
    struct unit_send send = {.on_done = close_bulk};
    unit_start_with((struct unit_options){.coalesce_from_frames = 64});
    unit_connect(&net, RAWE_LANE_EXPRESS);
    unit_connect(&net, RAWE_LANE_BULK);
    net.node[0].link_room = 0;
    unit_send_copy(end(0), 1, 10);
    unit_send_copy(net.node[0].conn[RAWE_LANE_BULK], 1, 10);
    unit_fix_window(end(0), 0);
    unit_send_message(end(0), &send, 2, &byte, 1);
    unit_fix_window(end(0), 64);
    assert_ptr_equal(rawe_list_first(&net.node[0].engine.pending),
                     &end(0)->pending); /* the bulk lane is next */
    net.node[0].link_room = UINT32_MAX;
    rawe_engine_flush(&net.node[0].engine, net.now_ns);
    assert_null(net.node[0].conn[RAWE_LANE_BULK]);
    unit_run(&net, UNIT_MS, 20 * UNIT_US);
    assert_true(rawe_conn_drained(end(0)));
    assert_int_equal(net.node[1].message_count, 2);
}

/** Forge the next valid message frame from node 0 to node 1. */
static struct net_frame *good_frame(void)
{
    uint8_t payload[RAWE_FRAGMENT_MESSAGE_BYTES + 20];
    rawe_fragment_encode(payload, &(struct rawe_fragment){
                                      .kind = RAWE_FRAGMENT_MESSAGE, .tag = 4, .data_bytes = 20});
    unit_fill(payload + RAWE_FRAGMENT_MESSAGE_BYTES, 20, 4);
    return unit_forge(
        &net, 0, RAWE_LANE_EXPRESS,
        (struct rawe_header){.type = RAWE_FRAME_DATA, .sequence = end(1)->rx.window.next}, payload,
        sizeof(payload));
}

/** Return the sum of node 1's drop counters. */
static uint64_t all_drops(void)
{
    const struct rawe_counters *all = counters(1);
    uint64_t sum = 0;
#define X(name, text) sum += strncmp(#name, "dropped_", 8) == 0 ? all->name : 0;
    RAWE_COUNTER_LIST(X)
#undef X
    return sum;
}

/** Assert that node 1 counted one drop in `counter` and is otherwise unchanged. */
static void assert_one_drop(uint64_t *counter)
{
    assert_int_equal(*counter, 1);
    assert_int_equal(all_drops(), 1);
    assert_int_equal(net.node[1].message_count, 0);
    assert_int_equal(counters(1)->frames_received, 0);
    assert_int_equal(end(1)->rx.window.next, 0);
    assert_int_equal(end(1)->rx.window.beyond, 0);
    assert_int_equal(end(1)->handshake.state, RAWE_CONN_OPEN);
    assert_false(rawe_engine_pending(&net.node[1].engine));
    assert_int_equal(net_queue_count(&net.queue), 0);
    *counter = 0;
}

TEST(rawe_engine_receive__every_length)
{
    struct net_frame *whole = good_frame();
    for (size_t len_bytes = 0; len_bytes < whole->len_bytes; len_bytes++) {
        struct net_frame *frame = net_frame_copy(whole);
        uint8_t *cut = malloc(len_bytes != 0 ? len_bytes : 1); /* of the exact length */
        assert_non_null(cut);
        memcpy(cut, frame->bytes, len_bytes);
        free(frame->bytes);
        frame->bytes = cut;
        frame->len_bytes = len_bytes;
        unit_hand_over(&net, frame);
        assert_one_drop(len_bytes < RAWE_PAYLOAD_OFFSET ? &counters(1)->dropped_short
                        : len_bytes < whole->len_bytes - RAWE_CHECKSUM_BYTES
                            ? &counters(1)->dropped_length
                            : &counters(1)->dropped_checksum);
    }
    unit_hand_over(&net, whole);
    assert_int_equal(net.node[1].message_count, 1);
    assert_int_equal(all_drops(), 0);
}

TEST(rawe_engine_receive__padding_of_the_nic_is_no_payload)
{
    struct net_frame *frame = good_frame();
    frame->bytes = realloc(frame->bytes, frame->len_bytes + 30);
    assert_non_null(frame->bytes);
    memset(frame->bytes + frame->len_bytes, 0xFF, 30);
    frame->len_bytes += 30;
    unit_hand_over(&net, frame);
    unit_assert_last(&net.node[1], 1, 4, 20, 4);
    assert_int_equal(all_drops(), 0);
}

TEST(rawe_engine_receive__wrong_version_type_and_flags)
{
    for (unsigned first = 0; first < 256; first++) {
        if (first >> 4 == RAWE_FRAME_VERSION && (first & 15) >= RAWE_FRAME_DATA &&
            (first & 15) < RAWE_FRAME_TYPE_END) {
            continue;
        }
        struct net_frame *frame = good_frame();
        frame->bytes[RAWE_ETH_HEADER_BYTES] = (uint8_t)first;
        unit_hand_over(&net, frame);
        assert_one_drop(first >> 4 != RAWE_FRAME_VERSION ? &counters(1)->dropped_version
                                                         : &counters(1)->dropped_type);
    }
    for (unsigned flags = RAWE_FLAGS_KNOWN + 1; flags < 256; flags++) {
        struct net_frame *frame = good_frame();
        frame->bytes[RAWE_ETH_HEADER_BYTES + 1] = (uint8_t)flags;
        unit_hand_over(&net, frame);
        assert_one_drop(&counters(1)->dropped_type);
    }
}

TEST_WITH(unconnected, rawe_engine_receive__a_wrong_bit_in_what_names_the_connection)
{
    static const struct {
        size_t at; /**< offset in the header */
        unsigned bits;
        size_t counter;
    } fields[] = {
        {offsetof(struct rawe_header, port), 16, offsetof(struct rawe_counters, dropped_key)},
        {offsetof(struct rawe_header, key), 32, offsetof(struct rawe_counters, dropped_key)},
        /* Bits 0 to 19 are the index, the other bits the generation. */
        {offsetof(struct rawe_header, connection_id), 32,
         offsetof(struct rawe_counters, dropped_connection)},
    };
    unit_connect(&net, RAWE_LANE_EXPRESS);
    for (unsigned i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        for (unsigned bit = 0; bit < fields[i].bits; bit++) {
            struct net_frame *frame = good_frame();
            ((uint8_t *)&frame->header)[fields[i].at + bit / 8] ^= (uint8_t)(1u << bit % 8);
            unit_frame_encode(frame);
            unit_hand_over(&net, frame);
            assert_one_drop((uint64_t *)(void *)((uint8_t *)counters(1) + fields[i].counter));
        }
    }
    static const uint32_t ids[] = {0, UINT32_MAX, 0x000FFFFF, 0xFFF00000};
    for (unsigned i = 0; i < 4; i++) {
        struct net_frame *frame = good_frame();
        frame->header.connection_id = ids[i];
        unit_frame_encode(frame);
        unit_hand_over(&net, frame);
        assert_one_drop(&counters(1)->dropped_connection);
    }
    for (unsigned change = 1; change < 6 * 256; change++) {
        struct net_frame *frame = good_frame();
        frame->bytes[RAWE_MAC_BYTES + change / 256] += (uint8_t)change;
        if (change % 256 == 0) {
            net_frame_free(frame); /* no bit differs */
            continue;
        }
        unit_hand_over(&net, frame);
        assert_one_drop(&counters(1)->dropped_source);
    }
}

/** Over UDP, the source port must be the peer's. */
TEST_WITH(unconnected, rawe_engine_receive__source_port)
{
    unit_connect(&net, RAWE_LANE_EXPRESS);
    struct rawe_engine *engine = &net.node[1].engine;
    const uint16_t port = net.node[0].engine.config.port;
    for (unsigned bit = 0; bit < 16; bit++) {
        rawe_engine_sent_from(engine, port ^ (uint16_t)(1u << bit));
        unit_hand_over(&net, good_frame());
        assert_one_drop(&counters(1)->dropped_source);
    }
    rawe_engine_sent_from(engine, port);
    unit_hand_over(&net, good_frame());
    assert_int_equal(counters(1)->dropped_source, 0);
}

/** Hand node 1 a CONNECT whose source address differs by `mac_bits`. */
static void receive_connect(const struct rawe_connect *connect, uint8_t flags, uint32_t to_id,
                            size_t payload_bytes, uint8_t mac_bits)
{
    uint8_t payload[RAWE_CONNECT_BYTES];
    rawe_connect_encode(payload, connect);
    struct net_frame *frame = unit_forge(
        &net, 0, RAWE_LANE_EXPRESS,
        (struct rawe_header){.type = RAWE_FRAME_CONNECT, .flags = flags, .connection_id = to_id},
        payload, payload_bytes);
    frame->bytes[RAWE_MAC_BYTES] ^= mac_bits;
    unit_hand_over(&net, frame);
}

TEST(rawe_engine_receive__connect_requests_that_do_not_fit)
{
    const struct rawe_connect good = {
        .jobid = net.config.jobid,
        .vpid = 0,
        .connection_id = end(0)->handshake.local_id,
        .key = net.node[0].engine.config.key,
        .port = net.node[0].engine.config.port,
        .lane = RAWE_LANE_EXPRESS,
        .payload_max_bytes = 1462,
        .incarnation = end(0)->handshake.local_incarnation + 100,
    };
    memset(counters(1), 0, sizeof(*counters(1)));
    for (size_t len_bytes = 0; len_bytes < RAWE_CONNECT_BYTES; len_bytes++) {
        receive_connect(&good, 0, 0, len_bytes, 0);
        assert_one_drop(&counters(1)->dropped_length);
    }
    struct rawe_connect bad[] = {good, good, good, good, good};
    bad[0].jobid++;
    bad[1].key++;
    bad[2].port++;
    bad[3].connection_id = 0;
    for (unsigned i = 0; i < 4; i++) {
        receive_connect(&bad[i], 0, 0, RAWE_CONNECT_BYTES, 0);
        assert_one_drop(i == 3 ? &counters(1)->dropped_length : &counters(1)->dropped_unknown_peer);
    }
    for (unsigned lane = RAWE_LANES; lane < 256; lane++) {
        bad[4].lane = (uint8_t)lane;
        receive_connect(&bad[4], 0, 0, RAWE_CONNECT_BYTES, 0);
        assert_one_drop(&counters(1)->dropped_length);
    }
    receive_connect(&good, RAWE_FLAG_REPLY, end(1)->handshake.local_id ^ 0x00100000,
                    RAWE_CONNECT_BYTES, 0);
    assert_one_drop(&counters(1)->dropped_connection);
    bad[4].lane = RAWE_LANE_BULK; /* a reply for the wrong lane */
    receive_connect(&bad[4], RAWE_FLAG_REPLY, end(1)->handshake.local_id, RAWE_CONNECT_BYTES, 0);
    assert_one_drop(&counters(1)->dropped_unknown_peer);
    assert_int_equal(end(1)->handshake.peer_id, end(0)->handshake.local_id);
    receive_connect(&good, 0, 0, RAWE_CONNECT_BYTES, 0x40);
    assert_one_drop(&counters(1)->dropped_source);
}

TEST_WITH(unconnected, rawe_engine_receive__no_answer_to_a_group_address_or_another_port)
{
    uint8_t identity[RAWE_CONNECT_BYTES]; /* of a connection that only the sender still has */
    const struct rawe_engine_config *sender = &net.node[0].engine.config;
    rawe_connect_encode(identity, &(struct rawe_connect){.connection_id = 5u | 1u << 20,
                                                         .key = sender->key,
                                                         .port = sender->port});
    unit_connect(&net, RAWE_LANE_EXPRESS);
    struct net_frame *frame =
        unit_forge(&net, 0, RAWE_LANE_EXPRESS, (struct rawe_header){.type = RAWE_FRAME_PROBE},
                   identity, sizeof(identity));
    frame->header.connection_id = 77u | 1u << 20; /* no such connection */
    unit_frame_encode(frame);
    unit_receive(&net, frame);
    assert_int_equal(net_queue_count(&net.queue), 1);
    net_queue_clear(&net.queue);
    rawe_engine_sent_from(&net.node[1].engine, sender->port + 1);
    unit_receive(&net, frame);
    assert_int_equal(net_queue_count(&net.queue), 0);
    rawe_engine_sent_from(&net.node[1].engine, sender->port);
    unit_receive(&net, frame);
    assert_int_equal(net_queue_count(&net.queue), 1);
    net_queue_clear(&net.queue);
    frame->bytes[RAWE_MAC_BYTES] |= 1;
    unit_receive(&net, frame);
    assert_int_equal(net_queue_count(&net.queue), 0);
    net_frame_free(frame);
}

TEST(rawe_engine_receive__a_probe_that_cannot_be_answered)
{
    memset(counters(1), 0, sizeof(*counters(1)));
    uint8_t payload[RAWE_CONNECT_BYTES] = {0};
    for (size_t len_bytes = 0; len_bytes < RAWE_CONNECT_BYTES; len_bytes++) {
        struct net_frame *frame =
            unit_forge(&net, 0, RAWE_LANE_EXPRESS, (struct rawe_header){.type = RAWE_FRAME_PROBE},
                       payload, len_bytes);
        frame->header.connection_id ^= 0x00100000;
        unit_frame_encode(frame);
        unit_hand_over(&net, frame);
        assert_one_drop(&counters(1)->dropped_connection); /* and no reply was sent */
    }
}

TEST(rawe_engine_receive__a_false_probe_closes_no_connection)
{
    const struct rawe_conn *conn = end(0);
    struct rawe_connect identity = {
        .connection_id = conn->handshake.local_id,
        .key = net.node[0].engine.config.key,
        .port = net.node[0].engine.config.port,
        .lane = RAWE_LANE_EXPRESS,
        .incarnation = conn->handshake.local_incarnation,
    };
    uint8_t payload[RAWE_CONNECT_BYTES];
    rawe_connect_encode(payload, &identity);
    struct net_frame *frame =
        unit_forge(&net, 0, RAWE_LANE_EXPRESS, (struct rawe_header){.type = RAWE_FRAME_PROBE},
                   payload, sizeof(payload));
    frame->header.connection_id ^= 0x00100000;
    unit_frame_encode(frame);
    unit_hand_over(&net, frame);
    unit_run(&net, 5 * UNIT_MS, 50 * UNIT_US);
    assert_int_equal(end(0)->handshake.state, RAWE_CONN_OPEN);
    assert_int_equal(end(1)->handshake.state, RAWE_CONN_OPEN);
}

/** A peer's credit is reclaimed in the epochs after its last message; then the engine is idle. */
TEST(rawe_engine_reclaims_credit__until_silent_peers_know_of_less_credit)
{
    struct rawe_credit *credit = &engine(1)->pull.credit;
    unit_send_copy(end(0), 1, 10);
    unit_run(&net, 5 * UNIT_MS, UNIT_MS);
    uint32_t before = end(0)->tx.peer_credit;
    credit->ring_frames = credit->queue_frames = 4;
    assert_true(rawe_engine_reclaims_credit(engine(1)));
    unit_run(&net, 50 * UNIT_MS, UNIT_MS);
    assert_int_not_equal(counters(1)->credit_updates, 0);
    assert_true(end(0)->tx.peer_credit < before);
    assert_int_equal(end(0)->tx.peer_credit, end(1)->rx.credit.advertised);
    assert_false(rawe_engine_reclaims_credit(engine(1)));
    assert_true(rawe_engine_idle(engine(1)));
}

/** A damaged frame is dropped and leaves the receive window unchanged, whichever bit differs. */
TEST(rawe_engine_receive__drops_a_frame_with_any_bit_changed)
{
    unit_send_copy(end(0), 1, 10);
    struct net_frame *frame = net_queue_take(&net.queue);
    const uint32_t expected = end(1)->rx.window.next;
    for (size_t bit = 0; bit < 8 * (frame->len_bytes - RAWE_ETH_HEADER_BYTES); bit++) {
        uint8_t *byte = &frame->bytes[RAWE_ETH_HEADER_BYTES + bit / 8];
        *byte ^= (uint8_t)(1u << bit % 8);
        struct net_frame *damaged = net_frame_copy(frame);
        *byte ^= (uint8_t)(1u << bit % 8);
        unit_hand_over(&net, damaged);
    }
    assert_true(counters(1)->dropped_checksum > 200);
    assert_int_equal(net.node[1].message_count, 0);
    assert_int_equal(end(1)->rx.window.next, expected);
    unit_hand_over(&net, frame);
    assert_int_equal(net.node[1].message_count, 1);
}

/** Over UDP, whose checksum detects damage, data frames have none. */
TEST(rawe_engine_receive__checksummed_frames_have_no_crc)
{
    static uint8_t long_message[3000] = {1, 2, 3};
    struct unit_send send = {.on_done = NULL};
    engine(0)->config.checksummed = engine(1)->config.checksummed = true;
    unit_send_copy(end(0), 1, 10);
    const struct net_frame *frame = net.queue.first;
    assert_int_equal(rawe_checksum_decode(frame->bytes + frame->len_bytes - RAWE_CHECKSUM_BYTES),
                     0);
    unit_send_message(end(0), &send, 2, long_message, sizeof(long_message));
    unit_run(&net, 5 * UNIT_MS, UNIT_MS);
    assert_int_equal(net.node[1].message_count, 2);
    assert_int_equal(counters(1)->dropped_checksum, 0);
    /* The other end expects checksums. */
    engine(1)->config.checksummed = false;
    unit_send_copy(end(0), 3, 10);
    unit_hand_over(&net, net_queue_take(&net.queue));
    assert_int_equal(counters(1)->dropped_checksum, 1);
}

TEST(rawe_engine_receive__drops_a_frame_cut_short)
{
    unit_send_copy(end(0), 1, 10);
    struct net_frame *frame = net_queue_take(&net.queue);
    struct net_frame *shorter = net_frame_copy(frame), *longer = net_frame_new(2000);
    shorter->len_bytes--; /* cut within the checksum */
    unit_hand_over(&net, shorter);
    assert_int_equal(counters(1)->dropped_checksum, 1);
    assert_int_equal(net.node[1].message_count, 0);
    memcpy(longer->bytes, frame->bytes, frame->len_bytes); /* trailing padding is not damage */
    longer->from = frame->from;
    longer->to = frame->to;
    net_frame_free(frame);
    unit_hand_over(&net, longer);
    assert_int_equal(net.node[1].message_count, 1);
}

static const struct unit_fixture with_rails = {rails_set_up, rails_stop};

/**
 * A CONNECT restarts the connection while callbacks are deferred. The copied message in flight is
 * reported as lost once deferral ends.
 */
TEST_WITH(with_rails, elsewhere__a_copied_message_is_lost_while_the_owner_defers)
{
    struct rawe_engine *owner = &rails.host[1].nic[0].engine;
    struct rawe_conn *conn = rails_connect(RAWE_LANE_EXPRESS);
    struct rawe_engine *receiver = &rails.host[1].nic[1].engine;
    rails_cut(0);
    unit_send_copy(rails_conn(1, 0, RAWE_LANE_EXPRESS), 7, 100);
    rawe_conn_close(conn, rails.now_ns);
    rails_peer(0, 0)->conn[RAWE_LANE_EXPRESS] = NULL;
    rawe_peer_set_down(rails_peer(0, 0), rails.now_ns);
    rawe_conn_connect(rails_conn(0, 0, RAWE_LANE_EXPRESS), rails.now_ns);
    rawe_engine_defer_begin(receiver);
    unit_settle(&rails.net);
    rawe_engine_defer_end(receiver);
    assert_int_equal(rails.host[1].lost_calls, 0);
    assert_true(rawe_engine_has_deferred(owner));
    rawe_engine_deliver_deferred(owner);
    assert_int_equal(rails.host[1].lost_calls, 1);
}

TEST_WITH(with_rails, elsewhere__counts_probes_for_the_link_that_received_them)
{
    struct rawe_conn *conn = rails_connect(RAWE_LANE_EXPRESS);
    rawe_conn_move(conn, &rails_peer(0, 1)->route, rails.now_ns);
    unit_settle(&rails.net);
    assert_int_equal(rails.host[1].nic[1].engine.probes_passed_on, 1);
    assert_int_equal(rails.host[1].nic[0].engine.probes_passed_on, 0);
}

TEST_WITH(with_rails, elsewhere__time_does_not_go_back)
{
    struct rawe_conn *conn = rails_connect(RAWE_LANE_EXPRESS);
    struct rawe_engine *owner = &rails.host[1].nic[0].engine;
    rawe_conn_move(conn, &rails_peer(0, 1)->route, rails.now_ns);
    unit_run(&rails.net, UNIT_MS, 100 * UNIT_US);
    /* During a receive round, a callback reads the clock again and sends at that later time. */
    uint64_t later_ns = rails.now_ns + 30 * UNIT_US;
    owner->now_ns = later_ns;
    unit_send_copy(conn, 3, 100);
    unit_receive(&rails.net, rails.net.wire);
    assert_int_equal(rails.host[1].inbox.message_count, 1);
    assert_true(owner->now_ns == later_ns);
    struct rawe_conn *other = rails_conn(0, 0, RAWE_LANE_BULK);
    unit_settle(&rails.net);
    owner->now_ns = later_ns;
    rawe_conn_move(other, &rails_peer(0, 1)->route, rails.now_ns);
    rawe_conn_connect(other, rails.now_ns);
    unit_receive(&rails.net, rails.net.wire);
    assert_int_equal(owner->counters.connects_received, 3);
    assert_true(owner->now_ns == later_ns);
}

static unsigned probes;

static void count_probes(struct net_frame *frame, unsigned rail)
{
    probes += rail == 1 && frame->header.type == RAWE_FRAME_PROBE;
}

/** Start both hosts; host 1 knows only one of host 0's interfaces. */
static void set_up_late(void)
{
    rails_init();
    rails.host[1].late = true;
    rails_start(0);
    probes = 0;
    rails.on_frame = count_probes;
}

static struct rawe_conn *connect_lane(void)
{
    struct rawe_conn *conn = rails_conn(0, 0, RAWE_LANE_EXPRESS);
    rawe_conn_connect(conn, rails.now_ns);
    unit_settle(&rails.net);
    assert_int_equal(conn->handshake.state, RAWE_CONN_OPEN);
    return conn;
}

static uint64_t dropped(unsigned rail)
{
    return rails.host[1].nic[rail].engine.counters.dropped_source;
}

static const struct unit_fixture with_unknown = {set_up_late, rails_stop};

/** Only PROBEs from an unknown source are reported to the owner, which refuses this route. */
TEST_WITH(with_unknown, rawe_engine_receive__nothing_by_a_route_that_is_refused)
{
    struct rawe_conn *conn = connect_lane();
    rails.host[1].refuses = true;
    rawe_conn_move(conn, &rails_peer(0, 1)->route, rails.now_ns);
    unit_send_copy(conn, 7, 100);
    unit_run(&rails.net, 20 * UNIT_MS, 100 * UNIT_US);
    assert_int_not_equal(probes, 0);
    assert_int_equal(rails.host[1].unknown_calls, probes);
    assert_int_equal(dropped(1), rails.carried[1]);
    assert_true(rails.carried[1] > probes);
    assert_int_equal(rails.host[1].inbox.message_count, 0);
    assert_int_equal(rails_used(rails_conn(1, 0, RAWE_LANE_EXPRESS)), 0);
}

static void set_up_batches(void)
{
    rails_init();
    rails_start(16);
}

static const struct unit_fixture with_batches = {set_up_batches, rails_stop};

/** Unverified data is placed only if its source is known: an unknown source may have the keys. */
TEST_WITH(with_batches, rawe_engine_place__by_any_route_of_the_peer_and_no_other)
{
    static uint8_t source[30000], memory[sizeof(source)];
    struct unit_send first = {0}, send = {0};
    struct rawe_handle_table *handles = &rails.host[1].handles;
    uint32_t index;
    uint64_t key;
    struct rawe_conn *conn = rails_connect(RAWE_LANE_BULK);
    unit_fill(source, sizeof(source), 3);
    assert_true(
        rawe_handle_register(handles, memory, sizeof(memory), &index, &key, RAWE_ACCESS_WRITE));
    unit_send_put(conn, &first, source, sizeof(source), index, key, 0); /* validates batches */
    unit_run(&rails.net, 10 * UNIT_MS, 100 * UNIT_US);
    assert_int_equal(first.done, 1);
    assert_int_equal(conn->path.batch, RAWE_BATCH_VALID);
    memset(memory, 0, sizeof(memory));
    unit_send_put(conn, &send, source, sizeof(source), index, key, 0);
    struct net_frame *frame = net_frame_copy(rails.net.wire);
    assert_int_not_equal(frame->batch, 0);
    struct rawe_engine *engine = &rails.host[1].nic[0].engine;
    frame->bytes[RAWE_MAC_BYTES + 5] ^= 0x80;
    assert_false(net_receive(engine, frame->bytes, (uint32_t)frame->len_bytes, rails.now_ns));
    assert_int_equal(engine->counters.dropped_source, 1);
    for (unsigned i = 0; i < sizeof(memory); i++) {
        assert_int_equal(memory[i], 0);
    }
    net_frame_free(frame);
    unit_run(&rails.net, 10 * UNIT_MS, 100 * UNIT_US);
    assert_memory_equal(memory, source, sizeof(memory));
    rawe_conn_move(conn, &rails_peer(0, 1)->route, rails.now_ns);
    unit_run(&rails.net, 10 * UNIT_MS, 100 * UNIT_US);
    memset(memory, 0, sizeof(memory));
    const unsigned placed = rails.net.batches_placed;
    unit_send_put(conn, &first, source, sizeof(source), index, key, 0);
    unit_run(&rails.net, 10 * UNIT_MS, 100 * UNIT_US);
    assert_true(rails.net.batches_placed > placed);
    assert_memory_equal(memory, source, sizeof(memory));
    assert_true(rawe_handle_deregister(handles, index, key));
}

/* ---- an address that changes ---- */

TEST_WITH(with_rails, rawe_peer_announce__opens_none_where_that_is_not_wanted)
{
    rawe_peer_announce(rails_peer(0, 0), false, rails.now_ns);
    assert_null(rails_peer(0, 0)->conn[RAWE_LANE_EXPRESS]);
}

TEST_WITH(with_rails, rawe_engine_receive__a_probe_that_does_not_know_the_connection_moves_nothing)
{
    static const uint8_t new_mac[RAWE_MAC_BYTES] = {2, 9, 0, 0, 0, 0};
    struct rawe_conn *conn = rails_connect(RAWE_LANE_EXPRESS);
    rails.host[1].follows = true;
    conn->handshake.local_id++;
    rawe_engine_set_mac(&rails.host[0].nic[0].engine, new_mac);
    rawe_peer_announce(rails_peer(0, 0), true, rails.now_ns);
    unit_run(&rails.net, UNIT_MS, 100 * UNIT_US);
    conn->handshake.local_id--;
    assert_int_equal(rails.host[1].unknown_calls, 0);
    assert_int_equal(rails_peer(1, 0)->route.mac[1], 0);
    assert_int_not_equal(dropped(0), 0);
}
