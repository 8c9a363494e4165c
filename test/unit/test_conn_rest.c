/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of connections at rest: which ones rest, and what wakes them.
 */
#include "unit_alloc.h"
#include "unit_rails.h"

#include <string.h>

#include "conn/rawe_conn.h"
#include "conn/rawe_conn_connect.h"
#include "conn/rawe_conn_control.h"
#include "conn/rawe_conn_finalize.h"

#define EXPRESS RAWE_LANE_EXPRESS
#define BULK RAWE_LANE_BULK
#define LONG_BYTES 5000u

static struct unit_send sent;
static uint8_t data[LONG_BYTES];
static unsigned lose; /**< frames yet to be lost */

static bool rests(unsigned host, unsigned lane)
{
    const struct rawe_peer *peer = rails_peer(host, 0);
    assert_true(peer->conn[lane] == NULL || peer->resting[lane] == 0);
    return peer->resting[lane] != 0;
}

static const struct rawe_rest *rest_of(unsigned host, unsigned lane)
{
    const struct rawe_peer *peer = rails_peer(host, 0);
    return rawe_conn_table_find_rest(peer->engine->table, peer->resting[lane]);
}

static const struct rawe_counters *counters(unsigned host)
{
    return &rails_peer(host, 0)->engine->counters;
}

static void send(unsigned host, enum rawe_lane lane)
{
    size_t len_bytes = lane == BULK ? LONG_BYTES : 100;
    unit_fill(data, len_bytes, 7);
    unit_send_message(rails_conn(host, 0, lane), &sent, 7, data, len_bytes);
}

/** Let the message through; it arrives once and whole. */
static void finish(unsigned host, enum rawe_lane lane)
{
    struct unit_node *inbox = &rails.host[1 - host].inbox;
    unit_run(&rails.net, 200 * UNIT_MS, UNIT_MS);
    assert_int_equal(sent.status, RAWE_STATUS_DONE);
    assert_int_equal(inbox->message_count, 1);
    unit_assert_message(inbox, 0, 7, lane == BULK ? LONG_BYTES : 100, 7);
    unit_forget_messages(inbox);
}

/** Idle until all connections that may rest do. */
static void pass_idle(void)
{
    unit_run(&rails.net, 3 * UNIT_S, 100 * UNIT_MS);
}

static void set_up(void)
{
    rails_init();
    rails.net.config.rest_ns = UNIT_S;
    rails_start(16);
    for (unsigned lane = 0; lane < RAWE_LANES; lane++) {
        rails_connect(lane);
        for (unsigned host = 0; host < 2; host++) {
            send(host, lane);
            finish(host, lane);
        }
    }
    lose = 0;
}

static void set_up_resting(void)
{
    set_up();
    pass_idle();
    for (unsigned host = 0; host < 2; host++) {
        assert_true(rests(host, EXPRESS) && rests(host, BULK));
    }
}

static const struct unit_fixture awake = {set_up, rails_stop};
FIXTURE(set_up_resting, rails_stop);

/** A field of a connection, or of its engine, and a value with which the connection may not rest. */
struct prevention {
    const char *field;
    size_t at, bytes;
    uint64_t value;
    bool of_engine;
};

#define OF_CONN(field_, value_)                                                                  \
    {                                                                                            \
#field_, offsetof(struct rawe_conn, field_), sizeof(((struct rawe_conn *)NULL)->field_), \
            (value_), false                                                                      \
    }
#define OF_ENGINE(field_, value_)                                        \
    {                                                                    \
#field_, offsetof(struct rawe_engine, field_),                   \
            sizeof(((struct rawe_engine *)NULL)->field_), (value_), true \
    }

#define SOME UINT64_C(8) /**< a pointer */

static const struct prevention preventions[] = {
    OF_CONN(handshake.state, RAWE_CONN_CONNECTING),
    OF_CONN(handshake.state, RAWE_CONN_FAILED),
    OF_CONN(predicted, 0),
    OF_CONN(pending.next, SOME),
    OF_CONN(queue.first, SOME),
    OF_CONN(queue.message_number, 1000000), /* a message is open */
    OF_CONN(queue.reports.first, SOME),
    OF_CONN(sendwin.held, SOME),
    OF_CONN(sendwin.next, 1000000), /* a frame is in the window */
    OF_CONN(batch, RAWE_BATCH_VALIDATING),
    OF_CONN(wants_credit, true),
    OF_CONN(recvwin.unacked_frames, 1),
    OF_CONN(recvwin.ack_deadline_ns, 1),
    OF_CONN(recvwin.ack_now, true),
    OF_CONN(recvwin.answer_probe, true),
    OF_CONN(recvwin.beyond, 1),
    OF_CONN(reassembly.first, SOME),
    OF_CONN(credit.asked, true),
    OF_CONN(credit.refused, true),
    OF_CONN(liveness.waits_since_ns, 1),
    OF_CONN(liveness.silent_since_ns, 1),
    OF_CONN(liveness.probes_unanswered, 1),
    OF_CONN(liveness.probe_deadline_ns, 1),
    OF_CONN(finalize.disowned_ns, 1),
    OF_CONN(finalize.report_loss, true),
    OF_CONN(finalize.lost, true),
    OF_ENGINE(config.liveness.idle_ns, UNIT_S),
    OF_ENGINE(finalizing, true),
    OF_ENGINE(own_deferral.active, true),
    OF_ENGINE(own_deferral.first, SOME),
    OF_ENGINE(own_deferral.pending, true),
    OF_ENGINE(waiting.next, SOME),
    OF_ENGINE(serving.used.next, SOME),
};

TEST_WITH(awake, rawe_conn_may_rest__not_while_anything_is_under_way)
{
    struct rawe_conn *conn = rails_conn(0, 0, BULK);
    unit_run(&rails.net, 200 * UNIT_MS, UNIT_MS);
    conn->batch = RAWE_BATCH_VALID;
    conn->engine->deferral = &conn->engine->own_deferral; /* one of the fields */
    assert_true(rawe_conn_may_rest(conn));
    for (unsigned i = 0; i < sizeof(preventions) / sizeof(preventions[0]); i++) {
        const struct prevention *one = &preventions[i];
        uint8_t *field = (one->of_engine ? (uint8_t *)conn->engine : (uint8_t *)conn) + one->at;
        uint64_t before;
        unit_case(one->field);
        memcpy(&before, field, one->bytes);
        memcpy(field, &one->value, one->bytes); /* its first bytes: little endian */
        assert_false(rawe_conn_may_rest(conn));
        memcpy(field, &before, one->bytes);
        assert_true(rawe_conn_may_rest(conn));
    }
}

TEST_WITH(awake, rawe_conn_check_idle__not_one_that_was_used_meanwhile)
{
    for (unsigned i = 0; i < 20; i++) {
        send(i % 2, EXPRESS);
        finish(i % 2, EXPRESS);
    }
    assert_false(rests(0, EXPRESS) || rests(1, EXPRESS));
    assert_true(rests(0, BULK) && rests(1, BULK));
}

TEST_WITH(awake, rawe_conn_check_idle__never_without_rest_ns)
{
    for (unsigned host = 0; host < 2; host++) {
        rails_peer(host, 0)->engine->config.rest_ns = 0;
    }
    unit_run(&rails.net, 2 * UNIT_S, 100 * UNIT_MS); /* planned before */
    for (unsigned host = 0; host < 2; host++) {
        for (unsigned lane = 0; lane < RAWE_LANES; lane++) {
            (void)rails_conn(host, 0, lane);
        }
    }
    pass_idle();
    assert_false(rests(0, EXPRESS) || rests(1, BULK));
}

TEST(rawe_conn_rest__is_silent)
{
    unsigned carried = rails.carried[0];
    unit_run(&rails.net, 100 * UNIT_S, 500 * UNIT_MS);
    assert_int_equal(rails.carried[0], carried);
    assert_int_equal(counters(0)->rests, RAWE_LANES);
    assert_true(rawe_list_empty(&rails_peer(0, 0)->engine->awake));
    assert_int_equal(rails_peer(0, 0)->engine->timers.armed, 0);
    assert_int_equal(rails_peer(0, 0)->engine->connections, RAWE_LANES);
}

TEST_WITH(awake, rawe_conn_rest__without_memory_it_stays)
{
    unit_allocations_left = 0;
    pass_idle();
    unit_allocations_left = -1;
    assert_false(rests(0, EXPRESS) || rests(0, BULK));
    pass_idle();
    assert_true(rests(0, EXPRESS) && rests(0, BULK));
}

/** What is known of it stays, but what it might send needs no room any more. */
TEST_WITH(awake, rawe_conn_rest__the_peer_has_finalized)
{
    const struct rawe_credit *credit = &rails_peer(0, 0)->engine->credit;
    rawe_engine_finalizing(rails_peer(1, 0)->engine);
    rawe_peer_close(rails_peer(1, 0));
    pass_idle();
    assert_true(rests(0, EXPRESS) && rests(0, BULK));
    assert_int_equal(credit->open[EXPRESS] + credit->open[BULK], 0);
    assert_true(rails_conn(0, 0, EXPRESS)->finalize.peer);
    assert_int_equal(credit->open[EXPRESS], 1);
    unit_allocations_left = 0;
    rawe_peer_close(rails_peer(0, 0));
    unit_allocations_left = -1;
    assert_int_equal(credit->open[EXPRESS] + credit->open[BULK], 0);
}

/** The path carries whole frames again, and that one has come since. */
TEST_WITH(awake, rawe_conn_rest__with_half_a_frame_in_slices)
{
    const struct rawe_conn *conn = rails_conn(0, 0, EXPRESS);
    struct rawe_engine *engine = conn->engine;
    uint8_t frame[RAWE_PAYLOAD_OFFSET + RAWE_SLICE_BYTES + 64 + RAWE_CHECKSUM_BYTES] = {0};
    struct rawe_header header = {
        .type = RAWE_FRAME_SLICE,
        .port = engine->config.port,
        .key = engine->config.key,
        .connection_id = conn->handshake.local_id,
        .sequence = conn->recvwin.next - 1,
        .acknowledgement = conn->sendwin.next,
        .payload_bytes = RAWE_SLICE_BYTES + 64,
        .credit = (uint16_t)conn->peer_credit,
    };
    rawe_slice_encode(frame + RAWE_PAYLOAD_OFFSET,
                      &(struct rawe_slice){.total_bytes = 128, .type = RAWE_FRAME_DATA});
    rawe_eth_header_encode(frame, engine->config.mac, conn->preferred->mac,
                           engine->config.ethertype);
    rawe_engine_receive(engine, frame, rawe_frame_seal(frame, &header), rails.now_ns);
    assert_non_null(conn->sliced);
    pass_idle();
    assert_true(rests(0, EXPRESS));
}

static void lose_first(struct net_frame *lost, unsigned rail)
{
    if (lose != 0 && rail == 0) {
        lose--;
        memset(lost->bytes + RAWE_ETH_HEADER_BYTES, 0xFF, RAWE_HEADER_BYTES); /* no such version */
        lost->batch = 0;
    }
}

struct wake {
    unsigned host; /**< that sends */
    enum rawe_lane lane;
    unsigned lost; /**< frames */
};

TEST(rawe_conn_wake__by_a_send_and_by_a_frame)
{
    static const struct wake wakes[] = {
        {0, EXPRESS, 0}, {1, EXPRESS, 0}, {0, BULK, 0}, {1, BULK, 0}, {0, EXPRESS, 1},
        {1, EXPRESS, 3}, {0, BULK, 1},    {1, BULK, 3}, {0, BULK, 9},
    };
    for (unsigned i = 0; i < sizeof(wakes) / sizeof(wakes[0]); i++) {
        const struct wake *wake = &wakes[i];
        uint64_t connects = counters(0)->connects_sent + counters(1)->connects_sent;
        lose = wake->lost;
        rails.on_frame = lose_first;
        send(wake->host, wake->lane);
        assert_false(rests(wake->host, wake->lane));
        assert_true(rests(1 - wake->host, wake->lane));
        finish(wake->host, wake->lane);
        rails.on_frame = NULL;
        assert_int_equal(lose, 0);
        for (unsigned host = 0; host < 2; host++) {
            assert_false(rests(host, wake->lane));
            assert_true(rests(host, 1u - wake->lane));
        }
        assert_int_equal(counters(0)->connects_sent + counters(1)->connects_sent, connects);
        assert_int_equal(counters(0)->dropped_connection + counters(1)->dropped_connection, 0);
        pass_idle();
        assert_true(rests(0, wake->lane) && rests(1, wake->lane));
    }
}

/** A lost frame is asked about as soon as on a connection that did not rest. */
TEST(rawe_conn_wake__the_round_trip_is_known)
{
    const struct rawe_rtt before = rest_of(0, EXPRESS)->rtt;
    assert_int_not_equal(before.smoothed_ns, 0);
    rails.cut[0] = true;
    send(0, EXPRESS);
    const struct rawe_conn *conn = rails_conn(0, 0, EXPRESS);
    assert_memory_equal(&conn->rtt, &before, sizeof(before));
    rails.cut[0] = false;
    finish(0, EXPRESS);
}

TEST(rawe_conn_wake__the_path_may_carry_less_now)
{
    rawe_peer_set_payload_max(rails_peer(0, 0), 600);
    assert_int_equal(rails_conn(0, 0, EXPRESS)->payload_max_bytes, 600);
}

/** ... and asked for; a question without an answer is no CLOSE. */
TEST(rawe_conn_wake__without_memory_the_frame_is_sent_again)
{
    send(0, EXPRESS);
    unit_allocations_left = 0;
    unit_settle(&rails.net);
    assert_true(rests(1, EXPRESS));
    assert_null(rails_conn(1, 0, EXPRESS));
    unit_allocations_left = -1;
    struct rawe_conn *conn = rails_conn(0, 0, EXPRESS);
    assert_true(rawe_conn_send_probe(conn));
    unit_allocations_left = 0;
    unit_settle(&rails.net);
    unit_allocations_left = -1;
    assert_true(conn->finalize.disowned_ns == 0);
    finish(0, EXPRESS);
    assert_false(rests(1, EXPRESS));
}

/** Another rank of that host asks, about one that has gone; all of them chose the same id for theirs. */
TEST(rawe_conn_wake__not_by_a_question_of_another_process)
{
    struct rawe_engine *engine = rails_peer(1, 0)->engine;
    uint8_t frame[RAWE_PAYLOAD_OFFSET + RAWE_CONNECT_BYTES + RAWE_CHECKSUM_BYTES];
    const struct rawe_connect from = {
        .connection_id = rest_of(1, EXPRESS)->handshake.peer_id,
        .key = rails_peer(1, 0)->route.key + 1000,
        .port = 7,
    };
    struct rawe_header header = {
        .type = RAWE_FRAME_PROBE,
        .port = engine->config.port,
        .key = engine->config.key,
        .connection_id = 77u | 1u << 20, /* no such connection */
        .payload_bytes = RAWE_CONNECT_BYTES,
    };
    rawe_eth_header_encode(frame, engine->config.mac, rails_peer(1, 0)->route.mac,
                           engine->config.ethertype);
    rawe_connect_encode(frame + RAWE_PAYLOAD_OFFSET, &from);
    rawe_engine_receive(engine, frame, rawe_frame_seal(frame, &header), rails.now_ns);
    assert_int_equal(net_queue_count(&rails.net.queue), 1); /* it is told */
    assert_true(rests(1, EXPRESS));
}

TEST(rawe_conn_wake__its_route_has_failed_meanwhile)
{
    rails_cut(0);
    rawe_peer_set_down(rails_peer(0, 0), rails.now_ns);
    assert_true(rests(0, EXPRESS) && rests(0, BULK)); /* nothing to be sent: nothing moves */
    for (unsigned lane = 0; lane < RAWE_LANES; lane++) {
        send(0, lane);
        assert_int_not_equal(rails_used(rails_conn(0, 0, lane)), 0);
        finish(0, lane);
    }
    rails.cut[0] = false;
    rawe_peer_set_up(rails_peer(0, 0), rails.now_ns);
    pass_idle();
    assert_true(rests(0, EXPRESS) && rests(0, BULK));
}

TEST(rawe_conn_wake__the_peer_begins_another_life)
{
    rails.cut[0] = rails.cut[1] = rails.cut[2] = true; /* its CLOSE is lost */
    rawe_peer_close(rails_peer(1, 0));
    rails.cut[0] = rails.cut[1] = rails.cut[2] = false;
    rails_peer(1, 0)->route.down = false;
    rawe_peer_join(rails_peer(1, 0), rails_peer(1, 1));
    send(1, EXPRESS);
    finish(1, EXPRESS);
    assert_false(rests(0, EXPRESS));
    send(0, EXPRESS);
    finish(0, EXPRESS);
}

TEST(rawe_conn_wake__the_peer_is_told_of_less_credit)
{
    struct rawe_credit *credit = &rails_peer(0, 0)->engine->credit;
    uint16_t before = rest_of(0, EXPRESS)->credit.advertised;
    credit->ring_frames = credit->queue_frames = 4;
    unit_run(&rails.net, 50 * UNIT_MS, UNIT_MS);
    assert_false(rests(0, EXPRESS));
    assert_true(counters(0)->credit_updates != 0);
    assert_true(rails_conn(0, 0, EXPRESS)->credit.advertised < before);
    assert_int_equal(rails_conn(1, 0, EXPRESS)->peer_credit,
                     rails_conn(0, 0, EXPRESS)->credit.advertised);
}

TEST(rawe_engine_finalizing__peers_are_told)
{
    rawe_engine_finalizing(rails_peer(0, 0)->engine);
    assert_false(rests(0, EXPRESS) || rests(0, BULK));
    assert_int_equal(rawe_peer_finalized(rails_peer(0, 0), RAWE_NEEDS_ALL, rails.now_ns),
                     RAWE_FINALIZED_NOT);
    unit_run(&rails.net, 100 * UNIT_MS, UNIT_MS);
    assert_int_equal(rawe_peer_finalized(rails_peer(0, 0), RAWE_NEEDS_ALL, rails.now_ns),
                     RAWE_FINALIZED_DONE);
    assert_true(rawe_conn_peer_finalizing(rails_conn(1, 0, EXPRESS)));
}

TEST(rawe_peer_finalized__wakes_what_there_was_no_memory_for)
{
    unit_allocations_left = 0;
    rawe_engine_finalizing(rails_peer(0, 0)->engine);
    unit_allocations_left = -1;
    assert_true(rests(0, EXPRESS) && rests(0, BULK));
    assert_int_equal(rawe_peer_finalized(rails_peer(0, 0), RAWE_NEEDS_DATA, rails.now_ns),
                     RAWE_FINALIZED_NOT);
    assert_false(rests(0, EXPRESS) || rests(0, BULK));
}

TEST(rawe_peer_close__the_peer_is_told)
{
    rawe_peer_close(rails_peer(0, 0));
    unit_settle(&rails.net);
    for (unsigned lane = 0; lane < RAWE_LANES; lane++) {
        assert_int_equal(rails_conn(1, 0, lane)->handshake.state, RAWE_CONN_PEER_CLOSED);
    }
    pass_idle();
    assert_true(rests(1, EXPRESS) && rests(1, BULK)); /* such a one may rest as well */
}

TEST(rawe_conn_forget_rest__without_memory)
{
    unit_allocations_left = 0;
    rawe_peer_close(rails_peer(0, 0));
    unit_allocations_left = -1;
    const struct rawe_engine *engine = rails_peer(0, 0)->engine;
    assert_int_equal(engine->connections, 0);
    assert_int_equal(engine->credit.open[EXPRESS] + engine->credit.open[BULK], 0);
    assert_int_equal(engine->credit.advertised[EXPRESS] + engine->credit.advertised[BULK], 0);
}
