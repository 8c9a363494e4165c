/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of what connections share: a link that is full, the credit of a receive ring,
 * an engine's timers.
 */
#include "unit_net.h"
#include "net_engine.h"

#include <string.h>

#include "conn/rawe_conn_connect.h"
#include "conn/rawe_conn_send.h"
#include "conn/rawe_conn.h"
#include "conn/rawe_conn_record.h"

#define STAR_SPOKES_MAX 128u

struct star;

/** A process: the hub is number `spokes`, the spokes are numbered from 0 on. */
struct star_node {
    struct star *star;
    unsigned index;
    struct rawe_engine engine;
    struct rawe_handle_table handles;
    struct net_queue ring; /**< received, not looked at yet */
    unsigned ring_frames;  /**< how many */
    unsigned ring_room;    /**< what comes beyond is dropped */
    unsigned link_room;    /**< frames the link takes before it is full */
    unsigned transmit_calls;
    unsigned messages; /**< delivered */
};

struct star {
    uint64_t now_ns;
    unsigned spokes;
    enum rawe_lane lane;
    struct rawe_engine_config config; /**< for all; what differs is filled in by star_start */
    struct star_node node[STAR_SPOKES_MAX + 1];
    struct rawe_conn *up[STAR_SPOKES_MAX];   /**< from the spoke to the hub */
    struct rawe_conn *down[STAR_SPOKES_MAX]; /**< from the hub to the spoke */
    struct rawe_route up_route[STAR_SPOKES_MAX], down_route[STAR_SPOKES_MAX];
};

static struct star_node *star_hub(struct star *star)
{
    return &star->node[star->spokes];
}

static void put(void *context, struct net_frame *frame)
{
    struct star_node *from = context;
    struct star_node *to = &from->star->node[frame->to];
    if (to->ring_frames == to->ring_room) {
        net_frame_free(frame);
        return;
    }
    net_queue_put(&to->ring, frame);
    to->ring_frames++;
}

static unsigned transmit(void *context, const struct rawe_frame *frames, unsigned count)
{
    struct star_node *node = context;
    struct net_link link = {.engine = &node->engine, .room = &node->link_room, .put = put};
    node->transmit_calls++;
    return net_link_transmit(&link, frames, count);
}

static void deliver(void *context, struct rawe_conn *conn, uint8_t tag, const uint8_t *data,
                    size_t len_bytes)
{
    struct star_node *node = context;
    node->messages++;
}

static struct rawe_conn *open_conn(struct star_node *from, struct rawe_route *route, unsigned to)
{
    struct rawe_conn *conn = net_engine_open(&from->engine, route, to, from->star->lane, NULL);
    assert_non_null(conn);
    return conn;
}

static struct rawe_conn *accept_conn(void *context, const struct rawe_connect *from,
                                     const uint8_t source_mac[RAWE_MAC_BYTES])
{
    struct star_node *node = context;
    struct star *of = node->star;
    return node == star_hub(of) ? of->down[from->vpid] : of->up[node->index];
}

static uint64_t clock_of(void *context)
{
    const struct star *of = context;
    return of->now_ns;
}

/** Engines with the configuration of unit_init; `star->config` may be changed before star_start. */
static void star_init(struct star *star, unsigned spokes, enum rawe_lane lane)
{
    struct unit_net defaults;
    unit_init(&defaults);
    memset(star, 0, sizeof(*star));
    star->spokes = spokes;
    star->lane = lane;
    star->now_ns = defaults.now_ns;
    star->config = defaults.config;
    star->config.clock_ns = clock_of;
    star->config.clock_context = star;
}

static void star_start(struct star *star)
{
    for (unsigned i = 0; i <= star->spokes; i++) {
        struct star_node *node = &star->node[i];
        struct rawe_engine_config config = star->config;
        node->star = star;
        node->index = i;
        node->ring_room = node->link_room = UINT32_MAX;
        net_identify(&config, i);
        const struct rawe_callbacks callbacks = {.deliver = deliver, .accept = accept_conn};
        net_engine_start(&node->engine, &node->handles, &config, &callbacks, transmit, node,
                         star->now_ns);
    }
    for (unsigned i = 0; i < star->spokes; i++) {
        star->up[i] = open_conn(&star->node[i], &star->up_route[i], star->spokes);
        star->down[i] = open_conn(star_hub(star), &star->down_route[i], i);
    }
}

/** A node takes all frames out of its ring, then flushes. */
static void star_receive(struct star_node *node)
{
    uint64_t now_ns = node->star->now_ns;
    struct net_frame *frame;
    while ((frame = net_queue_take(&node->ring)) != NULL) {
        node->ring_frames--;
        rawe_engine_receive(&node->engine, frame->bytes, frame->len_bytes, now_ns);
        net_frame_free(frame);
    }
    rawe_engine_flush(&node->engine, now_ns);
}

/** Send a message from memory that the test keeps until it is done. */
static void star_send(struct star *star, struct rawe_conn *conn, struct unit_send *send, void *data,
                      size_t len_bytes)
{
    *send = (struct unit_send){.send = {.done = unit_send_done,
                                        .kind = RAWE_FRAGMENT_MESSAGE,
                                        .pieces = {{data, len_bytes}},
                                        .piece_count = 1}};
    rawe_conn_send(conn, &send->send, star->now_ns);
}

static enum rawe_status star_copy(struct rawe_conn *conn)
{
    static const uint8_t zeros[100];
    return rawe_conn_send_copy(conn, 1, zeros, sizeof(zeros), NULL, 0);
}

/** All nodes receive and let timers expire, again and again, for `duration_ns`. */
static void star_run(struct star *star, uint64_t duration_ns, uint64_t step_ns)
{
    for (uint64_t end_ns = star->now_ns + duration_ns; star->now_ns < end_ns;) {
        star->now_ns += step_ns;
        for (unsigned i = 0; i <= star->spokes; i++) {
            star_receive(&star->node[i]);
            rawe_engine_advance(&star->node[i].engine, star->now_ns);
            rawe_engine_flush(&star->node[i].engine, star->now_ns);
        }
    }
}

/** Have every spoke connected to the hub. */
static void star_connect(struct star *star)
{
    for (unsigned i = 0; i < star->spokes; i++) {
        rawe_conn_connect(star->up[i], star->now_ns);
    }
    star_run(star, UNIT_MS, UNIT_MS / 4);
    for (unsigned i = 0; i < star->spokes; i++) {
        assert_int_equal(star->up[i]->handshake.state, RAWE_CONN_OPEN);
        assert_int_equal(star->down[i]->handshake.state, RAWE_CONN_OPEN);
    }
}

static void star_stop(struct star *star)
{
    for (unsigned i = 0; i < star->spokes; i++) {
        rawe_conn_close(star->up[i], star->now_ns);
        rawe_conn_close(star->down[i], star->now_ns);
    }
    for (unsigned i = 0; i <= star->spokes; i++) {
        net_queue_clear(&star->node[i].ring);
        net_engine_stop(&star->node[i].engine);
    }
}

#define SPOKES 9u
#define SENDERS 64u

static struct star star;
static struct unit_send sends[SENDERS];
static uint8_t data[60000];

static void set_up(void)
{
    star_init(&star, SPOKES, RAWE_LANE_EXPRESS);
    star_start(&star);
    star_connect(&star);
    memset(sends, 0, sizeof(sends));
}

static void tear_down(void)
{
    star_hub(&star)->link_room = star_hub(&star)->ring_room = UINT32_MAX;
    star_stop(&star);
}

/** While nothing passes, the hub has something to send to each spoke. */
static void send_to_all(void)
{
    star_hub(&star)->link_room = 0;
    for (unsigned i = 0; i < SPOKES; i++) {
        star_send(&star, star.down[i], &sends[i], data, sizeof(data));
    }
}

FIXTURE(set_up, tear_down);

TEST(rawe_engine_flush__a_full_link_is_tried_once)
{
    struct star_node *hub = star_hub(&star);
    send_to_all();
    hub->transmit_calls = 0;
    for (unsigned rounds = 1; rounds <= 20; rounds++) {
        rawe_engine_flush(&hub->engine, star.now_ns);
        assert_int_equal(hub->transmit_calls, rounds);
    }
    assert_true(rawe_engine_pending(&hub->engine));
}

TEST(rawe_engine_flush__a_full_link_is_shared_in_turns)
{
    struct star_node *hub = star_hub(&star);
    send_to_all();
    for (unsigned round = 0; round < 4 * SPOKES; round++) {
        hub->link_room = 3;
        rawe_engine_flush(&hub->engine, star.now_ns);
        assert_int_equal(hub->link_room, 0);
    }
    for (unsigned i = 0; i < SPOKES; i++) {
        assert_int_equal(star.down[i]->sendwin.in_flight, 4 * 3);
    }
}

TEST(rawe_engine_flush__the_one_left_out_is_first_next_time)
{
    struct star_node *hub = star_hub(&star);
    send_to_all();
    /* The link takes something every second round only. */
    for (unsigned round = 0; round < 4 * SPOKES; round++) {
        hub->link_room = round % 2;
        rawe_engine_flush(&hub->engine, star.now_ns);
    }
    for (unsigned i = 0; i < SPOKES; i++) {
        assert_int_equal(star.down[i]->sendwin.in_flight, 2);
    }
}

TEST(rawe_engine_flush__acknowledgements_wait_for_their_turn_too)
{
    struct star_node *hub = star_hub(&star);
    for (unsigned i = 0; i < SPOKES; i++) {
        assert_int_equal(star_copy(star.up[i]), RAWE_STATUS_DONE);
    }
    hub->link_room = 0;
    star_receive(hub);
    star.now_ns += UNIT_MS;
    rawe_engine_advance(&hub->engine, star.now_ns); /* the acknowledgements are due */
    for (unsigned i = 0; i < SPOKES; i++) {
        hub->link_room = 1;
        rawe_engine_flush(&hub->engine, star.now_ns);
        unsigned drained = 0;
        for (unsigned k = 0; k < SPOKES; k++) {
            star_receive(&star.node[k]);
            drained += rawe_conn_drained(star.up[k]);
        }
        assert_int_equal(drained, i + 1);
    }
    assert_int_equal(hub->engine.counters.acks_sent, SPOKES);
}

/** rawe_send.transmitted: the owner makes progress, until what it waits for has been sent. */
static void wait_for_all(struct rawe_send *send, struct rawe_conn *conn)
{
    struct star_node *hub = star_hub(&star);
    assert_ptr_equal(send, &sends[0].send);
    assert_ptr_equal(conn, star.down[0]);
    assert_true(hub->engine.link_full);
    star_send(&star, star.down[SPOKES - 1], &sends[SPOKES - 1], data, 1000);
    assert_false(rawe_list_empty(&hub->engine.pending));
    assert_false(rawe_list_empty(&hub->engine.flushing));
    hub->link_room = UINT32_MAX;
    rawe_engine_flush(&hub->engine, star.now_ns);
    for (unsigned i = 0; i < SPOKES; i++) {
        assert_int_equal(star.down[i]->sendwin.in_flight, i == 0 ? 2 : 1);
    }
    assert_true(rawe_list_empty(&hub->engine.flushing));
}

TEST(rawe_engine_flush__inside_a_callback_of_itself)
{
    struct star_node *hub = star_hub(&star);
    struct unit_send second;
    hub->link_room = 0;
    for (unsigned i = 0; i < SPOKES - 1; i++) { /* the last one: by the callback */
        star_send(&star, star.down[i], &sends[i], data, 1000);
    }
    sends[0].send.transmitted = wait_for_all;
    star_send(&star, star.down[0], &second, data, 1000);
    hub->link_room = 1;
    rawe_engine_flush(&hub->engine, star.now_ns);
    star_run(&star, 10 * UNIT_MS, 20 * UNIT_US);
    for (unsigned i = 0; i < SPOKES; i++) {
        assert_int_equal(sends[i].done, 1);
        assert_int_equal(star.node[i].messages, i == 0 ? 2 : 1);
    }
    assert_int_equal(second.done, 1);
}

TEST(rawe_engine_advance__a_link_full_for_ever_is_a_dead_peer)
{
    send_to_all();
    star_run(&star, star.config.liveness.peer_timeout_ns + UNIT_S, UNIT_MS);
    for (unsigned i = 0; i < SPOKES; i++) {
        assert_int_equal(star.down[i]->handshake.state, RAWE_CONN_FAILED);
    }
    unit_assert_sent(sends, SPOKES, RAWE_STATUS_FAILED);
}

static const struct unit_fixture with_senders = {NULL, tear_down};

/** SENDERS, and a receive ring of `frames` at the hub. */
static void start_senders(uint32_t frames)
{
    star_init(&star, SENDERS, RAWE_LANE_BULK);
    star.config.window_frames = 512;
    star.config.receive_frames = frames;
    star_start(&star);
    star_connect(&star);
    memset(sends, 0, sizeof(sends));
}

/** Idle peers are probed for life, and probe. */
TEST_WITH(with_senders, rawe_conn_receive__a_probe_makes_no_sender)
{
    start_senders(1000);
    star_run(&star, 50 * UNIT_MS, 100 * UNIT_US);
    for (unsigned i = 1; i < SENDERS; i++) {
        assert_true(rawe_conn_send_probe(star.up[i]));
    }
    star_send(&star, star.up[0], &sends[0], data, sizeof(data));
    star_run(&star, 5 * UNIT_MS, 100 * UNIT_US);
    assert_int_equal(sends[0].done, 1);
    assert_int_equal(star.up[0]->peer_credit, star.config.window_frames);
}

TEST_WITH(with_senders, rawe_conn_output__waiting_for_a_turn_probes_less_and_less)
{
    start_senders(8);
    for (unsigned i = 0; i < SENDERS; i++) {
        star_send(&star, star.up[i], &sends[i], data, sizeof(data));
    }
    star_run(&star, 100 * UNIT_MS, 50 * UNIT_US);
    for (unsigned i = 0; i < SENDERS; i++) {
        /* Few: they have told that there is more, and are told in time. */
        assert_in_range(star.node[i].engine.counters.probes_sent, 0, 10);
    }
    star_run(&star, 30000 * UNIT_MS, 100 * UNIT_US);
    assert_int_equal(star_hub(&star)->messages, SENDERS);
}

static unsigned operations_done;

static void operation_done(struct rawe_operation *operation, enum rawe_status status)
{
    assert_int_equal(status, RAWE_STATUS_FAILED);
    operations_done++;
}

TEST_WITH(unit_no_fixture, timer_expired__a_peer_that_owes_no_reply_is_not_probed)
{
    uint64_t word;
    struct rawe_operation operation = {
        .done = operation_done,
        .len_bytes = sizeof(word),
        .local = (uint8_t *)&word,
        .kind = RAWE_FRAGMENT_GET,
    };
    star_init(&star, 2, RAWE_LANE_EXPRESS);
    star_start(&star);
    star_connect(&star);
    operations_done = 0;
    star.node[0].ring_room = 0; /* the request never arrives */
    assert_true(rawe_conn_operate(star.down[0], &operation, star.now_ns));
    /* A peer to which there is none, and with which a timer has run. */
    assert_int_equal(star_copy(star.down[1]), RAWE_STATUS_DONE);
    assert_int_equal(star_copy(star.up[1]), RAWE_STATUS_DONE);
    star_run(&star, 2 * UNIT_S, 100 * UNIT_US);
    assert_int_equal(operations_done, 0);
    assert_true(star_hub(&star)->engine.counters.probes_sent > 10);
    assert_int_equal(star.node[1].engine.counters.probes_received, 0);
    star_stop(&star);
    assert_int_equal(operations_done, 1);
}
