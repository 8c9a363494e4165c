/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of connection set-up, at both ends.
 */
#include "unit_pair.h"

#include <string.h>

#include "conn/rawe_conn_connect.h"
#include "conn/rawe_conn_path.h"
#include "conn/rawe_conn.h"
#include "conn/rawe_handshake.h"

FIXTURE(unit_set_up, unit_tear_down);

TEST(rawe_conn_connect__asks_less_and_less_often)
{
    net.filter = drop_all;
    unit_open(&net, 0, RAWE_LANE_EXPRESS);
    rawe_conn_connect(end(0), net.now_ns);
    unit_run(&net, 250 * UNIT_MS, 200 * UNIT_US);
    /* Intervals in ms (and their sum): 1, 2 (3), 4 (7), 8, 16, 32, 64 (127), then 100 each. */
    assert_in_range(net.node[0].sent[RAWE_FRAME_CONNECT], 8, 10);
}

/** A grant to the peer's previous life is void: the restarted peer may have nothing to send. */
TEST(rawe_conn_reset__gives_back_its_grant)
{
    struct rawe_conn *conn = unit_connect(&net, RAWE_LANE_BULK);
    struct rawe_grants *grants = &engine(0)->pull.grants;
    rawe_line_init(&engine(0)->pull.line, 25000);
    rawe_grants_init(grants, 100000, &engine(0)->pull.line, 1500, grants->ring_frames);
    rawe_grants_expect(grants, &conn->rx.grant, net.now_ns);
    assert_int_equal(grants->senders, 1);
    rawe_conn_reset(conn);
    assert_int_equal(grants->senders, 0);
    assert_int_equal(conn->rx.grant.newest, net.config.first_sequence - 1);
}

/** Connect to a node while 20 others do; if `ends` is 2, that node also connects. */
static void connect_to_busy(unsigned ends)
{
    static uint8_t data[20000];
    static struct rawe_grants_member others[20];
    struct rawe_grants *grants = &net.node[1].engine.pull.grants;
    struct unit_send send[2];
    memset(others, 0, sizeof(others));
    memset(send, 0, sizeof(send));
    for (unsigned i = 0; i < 2; i++) {
        struct rawe_engine *engine = &net.node[i].engine;
        rawe_line_init(&engine->pull.line, 25000);
        rawe_grants_init(&engine->pull.grants, 100000, &engine->pull.line, 1500,
                         engine->pull.grants.ring_frames);
    }
    for (unsigned i = 0; i < 20; i++) {
        rawe_grants_expect(grants, &others[i], net.now_ns);
    }
    for (unsigned i = 0; i < ends; i++) {
        unit_open(&net, i, RAWE_LANE_BULK);
        unit_send_message(net.node[i].conn[RAWE_LANE_BULK], &send[i], 1, data, sizeof(data));
    }
    unit_settle(&net);
    assert_int_equal(net.node[0].conn[RAWE_LANE_BULK]->handshake.state, RAWE_CONN_OPEN);
    assert_int_equal(net.node[0].engine.pull.grants.senders, 0);
    assert_int_equal(grants->senders, 21);
    assert_int_equal(counters(0)->frames_sent, 0);
    for (unsigned i = 0; i < 20; i++) {
        rawe_grants_forget(grants, &others[i]);
    }
    finish();
    assert_int_equal(counters(0)->probes_sent, 0); /* node 0 was granted credit without a probe */
    unit_assert_sent(send, ends, RAWE_STATUS_DONE);
}

TEST(rawe_conn_connect__those_that_connect_have_something_to_send)
{
    connect_to_busy(1);
    unit_stop(&net);
    unit_set_up();
    connect_to_busy(2);
}

static struct rawe_connect sample_connect(unsigned from)
{
    return (struct rawe_connect){
        .jobid = net.config.jobid,
        .vpid = from,
        .connection_id = end(from) != NULL ? end(from)->handshake.local_id : 0x00100000,
        .key = net.node[from].engine.config.key,
        .port = net.node[from].engine.config.port,
        .lane = RAWE_LANE_EXPRESS,
        .payload_max_bytes = net.config.payload_max_bytes,
        .incarnation = end(from) != NULL ? end(from)->handshake.local_incarnation : 1,
    };
}

/** Hand the peer of `from` a CONNECT frame. */
static void receive_connect(unsigned from, const struct rawe_connect *connect, uint8_t flags,
                            uint32_t to_id)
{
    uint8_t payload[RAWE_CONNECT_BYTES];
    rawe_connect_encode(payload, connect);
    unit_receive_forged(
        &net, from, RAWE_LANE_EXPRESS,
        (struct rawe_header){.type = RAWE_FRAME_CONNECT, .flags = flags, .connection_id = to_id},
        payload, sizeof(payload));
}

TEST(rawe_conn_receive_connect__a_payload_no_peer_can_mean)
{
    unit_open(&net, 0, RAWE_LANE_EXPRESS);
    struct rawe_connect connect = sample_connect(1);
    for (uint32_t payload_bytes = 0; payload_bytes < RAWE_PAYLOAD_LEAST_BYTES; payload_bytes++) {
        connect.payload_max_bytes = payload_bytes;
        receive_connect(1, &connect, 0, 0);
    }
    connect.payload_max_bytes = UINT16_MAX + 1;
    receive_connect(1, &connect, 0, 0);
    connect.payload_max_bytes = UINT32_MAX;
    receive_connect(1, &connect, 0, 0);
    assert_int_equal(counters(0)->dropped_length, RAWE_PAYLOAD_LEAST_BYTES + 2);
    assert_int_equal(end(0)->handshake.state, RAWE_CONN_IDLE);
    assert_int_equal(net_queue_count(&net.queue), 0);
    connect.payload_max_bytes = UINT16_MAX;
    receive_connect(1, &connect, 0, 0);
    assert_int_equal(end(0)->handshake.state, RAWE_CONN_CONNECTING);
}

/** Use the smallest valid payload with batches, whose envelope takes up part of it. */
TEST(rawe_conn_receive_connect__the_least_payload_is_enough)
{
    static uint8_t data[3000], memory[3000];
    struct unit_send message = {0}, put = {0};
    unit_use_batches(&net, 10);
    unit_open(&net, 0, RAWE_LANE_BULK);
    unit_open(&net, 1, RAWE_LANE_BULK);
    struct rawe_conn *conn = net.node[0].conn[RAWE_LANE_BULK];
    rawe_conn_limit_payload(net.node[1].conn[RAWE_LANE_BULK], RAWE_PAYLOAD_LEAST_BYTES);
    unit_fill(data, sizeof(data), 4);
    const struct unit_memory known =
        unit_register_memory(&net, 1, memory, sizeof(memory), RAWE_ACCESS_WRITE);
    unit_send_message(conn, &message, 5, data, sizeof(data));
    unit_send_put(conn, &put, data, sizeof(data), known.index, known.key, 0);
    unit_settle(&net);
    assert_int_equal(conn->path.payload_max_bytes, RAWE_PAYLOAD_LEAST_BYTES);
    assert_int_equal(conn->path.batch, RAWE_BATCH_VALID);
    assert_int_equal(message.done, 1);
    assert_int_equal(put.done, 1);
    unit_assert_message(&net.node[1], 0, 5, sizeof(data), 4);
    assert_memory_equal(memory, data, sizeof(data));
}

TEST(rawe_conn_receive_connect__a_failed_connection_stays_failed)
{
    net.filter = drop_all;
    unit_open(&net, 0, RAWE_LANE_EXPRESS);
    rawe_conn_connect(end(0), net.now_ns);
    unit_run(&net, 6 * UNIT_S, 10 * UNIT_MS);
    assert_int_equal(end(0)->handshake.state, RAWE_CONN_FAILED);
    struct rawe_connect connect = sample_connect(1);
    receive_connect(1, &connect, 0, 0);
    receive_connect(1, &connect, RAWE_FLAG_REPLY, end(0)->handshake.local_id);
    assert_int_equal(end(0)->handshake.state, RAWE_CONN_FAILED);
    assert_int_equal(counters(0)->dropped_connection, 2);
}

TEST(rawe_conn_receive_connect__of_an_earlier_process_that_finalizes)
{
    unit_connect(&net, RAWE_LANE_EXPRESS);
    struct rawe_connect connect = sample_connect(1);
    connect.incarnation--;
    receive_connect(1, &connect, RAWE_FLAG_FINALIZING, 0);
    assert_int_equal(end(0)->end.state, RAWE_END_NONE);
    connect.incarnation++;
    receive_connect(1, &connect, RAWE_FLAG_FINALIZING, 0);
    assert_int_equal(end(0)->end.state, RAWE_END_PEER);
}

/* rawe_handshake: every state with an older, equal or newer incarnation. */

#define STATES (RAWE_CONN_FAILED + 1u)

TEST_WITH(unit_no_fixture, rawe_handshake_judge__each_state_and_incarnation)
{
    /* A CONNECT whose incarnation is older than, equal to and newer than the known one. */
    static const enum rawe_handshake_verdict expected[STATES][3] = {
        [RAWE_CONN_IDLE] = {RAWE_HANDSHAKE_DROP, RAWE_HANDSHAKE_SAME, RAWE_HANDSHAKE_SAME},
        [RAWE_CONN_CONNECTING] = {RAWE_HANDSHAKE_DROP, RAWE_HANDSHAKE_SAME,
                                  RAWE_HANDSHAKE_RENEW_ID},
        [RAWE_CONN_OPEN] = {RAWE_HANDSHAKE_DROP, RAWE_HANDSHAKE_SAME, RAWE_HANDSHAKE_RESTART},
        [RAWE_CONN_PEER_CLOSED] = {RAWE_HANDSHAKE_DROP, RAWE_HANDSHAKE_DROP,
                                   RAWE_HANDSHAKE_RESTART},
        [RAWE_CONN_FAILED] = {RAWE_HANDSHAKE_DROP, RAWE_HANDSHAKE_DROP, RAWE_HANDSHAKE_DROP},
    };
    static const uint64_t known = 1ull << 40;
    static const uint64_t distances[] = {1, 1000, 1ull << 33};
    for (uint8_t in = 0; in < STATES; in++) {
        for (unsigned i = 0; i < 3; i++) {
            for (unsigned d = 0; d < 3; d++) {
                uint64_t incarnation = i == 0   ? known - distances[d]
                                       : i == 1 ? known
                                                : known + distances[d];
                struct rawe_handshake handshake = {.local_incarnation = 5,
                                                   .peer_incarnation = known,
                                                   .local_id = 6,
                                                   .peer_id = 7,
                                                   .state = in};
                enum rawe_handshake_verdict verdict = rawe_handshake_judge(&handshake, incarnation);
                assert_int_equal(verdict, expected[in][i]);
                assert_true(handshake.peer_incarnation ==
                            (verdict == RAWE_HANDSHAKE_DROP ? known : incarnation));
                /* Judging a CONNECT changes no other field. */
                assert_int_equal(handshake.state, in);
                assert_int_equal(handshake.local_id, 6);
                assert_int_equal(handshake.peer_id, 7);
                assert_true(handshake.local_incarnation == 5);
            }
        }
    }
}

TEST_WITH(unit_no_fixture, rawe_handshake_judge__the_first_one_seen)
{
    static const enum rawe_handshake_verdict expected[STATES] = {
        [RAWE_CONN_IDLE] = RAWE_HANDSHAKE_SAME,
        [RAWE_CONN_CONNECTING] = RAWE_HANDSHAKE_SAME, /* both ends connect: not a restart */
        [RAWE_CONN_OPEN] = RAWE_HANDSHAKE_RESTART,
        [RAWE_CONN_PEER_CLOSED] = RAWE_HANDSHAKE_RESTART,
        [RAWE_CONN_FAILED] = RAWE_HANDSHAKE_DROP,
    };
    for (uint8_t in = 0; in < STATES; in++) {
        struct rawe_handshake handshake = {.state = in};
        assert_int_equal(rawe_handshake_judge(&handshake, 3), expected[in]);
        assert_true(handshake.peer_incarnation == (in == RAWE_CONN_FAILED ? 0 : 3));
    }
}

TEST_WITH(unit_no_fixture, rawe_handshake_reply__opens_a_connection_that_asked)
{
    for (uint8_t in = 0; in < STATES; in++) {
        struct rawe_handshake handshake = {.peer_incarnation = 3, .peer_id = 7, .state = in};
        bool asked = in == RAWE_CONN_CONNECTING;
        assert_int_equal(rawe_handshake_reply(&handshake, 8), asked);
        assert_int_equal(handshake.state, asked ? RAWE_CONN_OPEN : in);
        assert_int_equal(handshake.peer_id, asked ? 8 : 7);
        assert_true(handshake.peer_incarnation == 3);
    }
}

TEST_WITH(unit_no_fixture, rawe_handshake_receives__when_open_or_about_to_be)
{
    for (uint8_t in = 0; in < STATES; in++) {
        struct rawe_handshake handshake = {.state = in};
        assert_int_equal(rawe_handshake_receives(&handshake),
                         in == RAWE_CONN_OPEN || in == RAWE_CONN_CONNECTING);
    }
}
