/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of dividing long PUTs and GET replies among all routes to a process by speed and backlog.
 */
#include "unit_alloc.h"
#include "unit_rails.h"

#include <stdlib.h>
#include <string.h>

#include "net_engine.h"
#include "routes/rawe_balance.h"
#include "conn/rawe_conn_connect.h"
#include "conn/rawe_conn_record.h"
#include "conn/rawe_conn.h"

#define GRAIN_BYTES RAWE_BATCH_BYTES_MAX
#define ACCESSES_MAX 64u
#define MEMORY_BYTES (40u * GRAIN_BYTES)

struct access {
    struct rawe_operation operation; /**< must be first: cast back from it */
    unsigned done, failed;
};

static struct access accesses[ACCESSES_MAX];
static unsigned access_count;
static uint8_t *source, *target;
static uint32_t handle_index, source_index;
static uint64_t handle_key, source_key;

/** rawe_operation.done */
static void access_done(struct rawe_operation *operation, enum rawe_status status)
{
    struct access *access = (struct access *)(void *)operation;
    access->done++;
    access->failed += status != RAWE_STATUS_DONE;
    assert_int_equal(access->done, 1);
}

static struct access *begin(unsigned host, unsigned rail, const struct rawe_operation *operation)
{
    assert_in_range(access_count, 0, ACCESSES_MAX - 1);
    struct access *access = &accesses[access_count++];
    *access = (struct access){.operation = *operation};
    access->operation.done = access_done;
    assert_true(rawe_balance_operate(rails_peer(host, rail), &access->operation));
    return access;
}

/** Let host 0 PUT part of the source to the same offset in the target. */
static struct access *put(unsigned rail, size_t from_bytes, size_t len_bytes)
{
    return begin(0, rail,
                 &(struct rawe_operation){
                     .handle_index = handle_index,
                     .handle_key = handle_key,
                     .offset = from_bytes,
                     .len_bytes = len_bytes,
                     .local = source + from_bytes,
                     .kind = RAWE_FRAGMENT_PUT,
                     .spreads = true,
                 });
}

/** Let host 1 GET part of the source into the same offset in the target. */
static struct access *get(unsigned rail, size_t from_bytes, size_t len_bytes)
{
    return begin(1, rail,
                 &(struct rawe_operation){
                     .handle_index = source_index,
                     .handle_key = source_key,
                     .offset = from_bytes,
                     .len_bytes = len_bytes,
                     .local = target + from_bytes,
                     .kind = RAWE_FRAGMENT_GET,
                 });
}

static void assert_arrived(const struct access *access, size_t from_bytes, size_t len_bytes)
{
    assert_int_equal(access->done, 1);
    assert_int_equal(access->failed, 0);
    assert_memory_equal(target + from_bytes, source + from_bytes, len_bytes);
}

/** Run for 100 ms, then assert that the data has arrived. */
static void assert_arrives(const struct access *access, size_t from_bytes, size_t len_bytes)
{
    unit_run(&rails.net, 100 * UNIT_MS, 100 * UNIT_US);
    assert_arrived(access, from_bytes, len_bytes);
}

/** Start the rails with these speeds; a rail with speed 0 is not used. */
static void start(unsigned batch_frames, uint32_t first, uint32_t second, uint32_t third)
{
    const uint32_t mbps[RAILS] = {first, second, third};
    rails_start(batch_frames);
    for (unsigned rail = 0; rail < RAILS; rail++) {
        rails_peer(0, rail)->takes_part = mbps[rail] != 0;
        rails_peer(0, rail)->speed_mbps = mbps[rail];
    }
    assert_true(rawe_handle_register(rails.host[1].nic[0].engine.config.handles, target,
                                     MEMORY_BYTES, &handle_index, &handle_key, RAWE_ACCESS_WRITE));
    assert_true(rawe_handle_register(rails.host[0].nic[0].engine.config.handles, source,
                                     MEMORY_BYTES, &source_index, &source_key, RAWE_ACCESS_READ));
}

static void set_up(void)
{
    rails_init();
    source = malloc(MEMORY_BYTES);
    target = calloc(1, MEMORY_BYTES);
    assert_non_null(source);
    assert_non_null(target);
    unit_fill(source, MEMORY_BYTES, 5);
    access_count = 0;
}

static void tear_down(void)
{
    assert_true(rawe_handle_deregister(rails.host[1].nic[0].engine.config.handles, handle_index,
                                       handle_key));
    (void)rawe_handle_deregister(rails.host[0].nic[0].engine.config.handles, source_index,
                                 source_key);
    rails_stop();
    free(source);
    free(target);
}

/** Return the bytes queued or in flight on a rail's bulk lane. */
static uint64_t load_bytes(unsigned rail)
{
    const struct rawe_conn *conn = rails_peer(0, rail)->conn[RAWE_LANE_BULK];
    return conn == NULL ? 0
                        : conn->tx.queue.bytes +
                              (uint64_t)conn->path.payload_max_bytes *
                                  (conn->tx.window.in_flight + conn->tx.window.to_transmit);
}

/** Return the number of frames that host 0 has sent on a rail. */
static uint64_t brought_frames(unsigned rail)
{
    return rails.host[0].nic[rail].engine.counters.frames_sent;
}

FIXTURE(set_up, tear_down);

TEST(rawe_balance_operate__by_nominal_speed_until_measured)
{
    start(0, 1000, 4000, 0);
    struct access *access = put(0, 0, 30 * GRAIN_BYTES);
    assert_in_range(load_bytes(0), 5 * GRAIN_BYTES, 7 * GRAIN_BYTES);
    assert_in_range(load_bytes(1), 23 * GRAIN_BYTES, 25 * GRAIN_BYTES);
    assert_int_equal(load_bytes(2), 0); /* its speed is 0 */
    assert_arrives(access, 0, 30 * GRAIN_BYTES);
}

/** Let the rail's connection measure a rate of `mbps` over 20 ms. */
static void has_rate(unsigned rail, uint32_t mbps)
{
    struct rawe_cc *cc = &rails_conn(0, rail, RAWE_LANE_BULK)->tx.cc;
    struct rawe_ack ack = {.now_ns = rails.now_ns - 20 * UNIT_MS, .in_flight = 1};
    rawe_cc_start(cc, cc->type, cc->most, 0, rails.now_ns);
    ack.arrived = 1;
    ack.frame_bytes = mbps * 2500;
    rawe_cc_acknowledged(cc, &ack);
    ack.now_ns = rails.now_ns;
    rawe_cc_acknowledged(cc, &ack);
    assert_int_equal(cc->rate_mbps, mbps);
}

TEST(rawe_balance_operate__by_measured_rates)
{
    start(0, 1000, 1000, 2000);
    for (unsigned rail = 0; rail < 2; rail++) {
        has_rate(rail, rail == 0 ? 100 : 300);
    }
    /* Rail 2 has no measured rate: its nominal rate, scaled like the others, is 400. */
    struct access *access = put(0, 0, 32 * GRAIN_BYTES);
    assert_in_range(load_bytes(0), 3 * GRAIN_BYTES, 5 * GRAIN_BYTES);
    assert_in_range(load_bytes(1), 11 * GRAIN_BYTES, 13 * GRAIN_BYTES);
    assert_in_range(load_bytes(2), 15 * GRAIN_BYTES, 17 * GRAIN_BYTES);
    assert_arrives(access, 0, 32 * GRAIN_BYTES);
}

TEST(rawe_balance_operate__little_by_a_route_that_is_silent)
{
    start(0, 1000, 1000, 0);
    struct rawe_conn *silent = rails_conn(0, 0, RAWE_LANE_BULK);
    has_rate(0, 500);
    has_rate(1, 500);
    silent->path.liveness.probes_unanswered = 1;
    struct access *access = put(0, 0, 32 * GRAIN_BYTES);
    assert_in_range(load_bytes(0), 1, 3 * GRAIN_BYTES);
    silent->path.liveness.probes_unanswered = 0;
    assert_arrives(access, 0, 32 * GRAIN_BYTES);
}

TEST(rawe_balance_operate__short_ones_stay_whole)
{
    start(0, 1000, 1000, 1000);
    struct access *access = put(2, 100, 2 * GRAIN_BYTES - 1);
    assert_int_equal(access->operation.parts, 1);
    assert_arrives(access, 100, 2 * GRAIN_BYTES - 1);
    assert_int_equal(load_bytes(0) + load_bytes(1), 0);
    assert_int_equal(brought_frames(0) + brought_frames(1), 0);
}

/** A connection that was opened but never used would not be closed as idle. */
TEST(rawe_balance_operate__opens_no_other_route_for_what_stays_whole)
{
    start(0, 1000, 1000, 0);
    struct access *access = put(0, 0, GRAIN_BYTES - 1);
    assert_null(rails_peer(0, 1)->conn[RAWE_LANE_BULK]);
    assert_arrives(access, 0, GRAIN_BYTES - 1);
}

TEST(rawe_balance_operate__without_memory_for_parts)
{
    start(0, 1000, 1000, 0);
    rawe_conn_connect(rails_conn(0, 0, RAWE_LANE_BULK), rails.now_ns);
    rawe_conn_connect(rails_conn(0, 1, RAWE_LANE_BULK), rails.now_ns);
    unit_allocations_left = 0;
    struct access *first = put(0, 0, 10 * GRAIN_BYTES);
    struct access *second = put(0, 10 * GRAIN_BYTES, 10 * GRAIN_BYTES);
    unit_allocations_left = -1;
    assert_int_equal(first->operation.parts, 1);
    assert_int_equal(second->operation.parts, 1);
    assert_arrives(first, 0, 10 * GRAIN_BYTES);
    assert_arrived(second, 10 * GRAIN_BYTES, 10 * GRAIN_BYTES);
}

TEST(rawe_balance_operate__fails_with_its_connection)
{
    start(0, 1000, 1000, 0);
    for (unsigned rail = 0; rail < 2; rail++) {
        rails_conn(0, rail, RAWE_LANE_BULK)->handshake.state = RAWE_CONN_FAILED;
    }
    struct access *access = put(0, 0, 10 * GRAIN_BYTES);
    assert_int_equal(access->done, 1);
    assert_int_equal(access->failed, 1);
}

/** Let each link of host 0 accept `frames` more frames. */
static void give_room(unsigned frames)
{
    for (unsigned rail = 0; rail < RAILS; rail++) {
        rails.host[0].nic[rail].room = frames;
    }
}

/** Close host 0's bulk lane on a rail. */
static void close_rail(unsigned rail)
{
    struct rawe_peer *peer = rails_peer(0, rail);
    rawe_conn_close(peer->conn[RAWE_LANE_BULK], rails.now_ns);
    peer->conn[RAWE_LANE_BULK] = NULL;
}

TEST(rawe_balance_operate__fails_when_all_parts_are_over)
{
    start(0, 1000, 1000, 0);
    give_room(0);
    struct access *access = put(0, 0, 20 * GRAIN_BYTES);
    assert_int_equal(access->operation.parts, 2);
    close_rail(1);
    assert_int_equal(access->done, 0);
    give_room(UINT32_MAX);
    unit_run(&rails.net, 100 * UNIT_MS, 100 * UNIT_US);
    assert_int_equal(access->done, 1);
    assert_int_equal(access->failed, 1);
}

/** The parts' memory must still be freed; the leak sanitizer checks that it is. */
TEST(rawe_balance_operate__reports_nothing_while_the_process_finalizes)
{
    start(0, 1000, 1000, 0);
    give_room(0);
    struct access *access = put(0, 0, 20 * GRAIN_BYTES);
    assert_int_equal(access->operation.parts, 2);
    for (unsigned rail = 0; rail < RAILS; rail++) {
        rawe_engine_finalizing(&rails.host[0].nic[rail].engine);
    }
    close_rail(0);
    close_rail(1);
    assert_int_equal(access->done, 0);
}

/** Let host 1 GET from offset 0 while host 0 may send only `room` frames on each rail. */
static struct access *get_queued(size_t len_bytes, unsigned room)
{
    struct access *first = get(0, MEMORY_BYTES - 10 * GRAIN_BYTES, 9 * GRAIN_BYTES);
    unit_run(&rails.net, 100 * UNIT_MS, 100 * UNIT_US);
    assert_int_equal(first->done, 1);
    give_room(room);
    struct access *access = get(0, 0, len_bytes);
    unit_run(&rails.net, 100 * UNIT_US, 10 * UNIT_US);
    return access;
}

/** tear_down closes host 0's interfaces one by one while parts of the reply are still queued. */
TEST(rawe_balance_reply__parts_outlive_the_engine_that_served)
{
    start(16, 1000, 1000, 1000);
    const struct access *access = get_queued(30 * GRAIN_BYTES, 40);
    assert_int_equal(access->done, 0);
    assert_true(load_bytes(0) != 0 && load_bytes(1) != 0 && load_bytes(2) != 0);
}

/** Lose the reply to a GET and, if `with_route`, rail 0. Returns the losses counted on host 1's line. */
static uint64_t lose_reply(bool with_route)
{
    struct rawe_engine *engine = rails_peer(1, 0)->engine;
    struct rawe_line *line = &engine->pull.line;
    rawe_line_init(line, 1000);
    engine->pull.grants.budget.port_bytes = 1 << 20; /* otherwise the line gets no reports */
    const struct access *access = get(0, 0, 20000);
    (void)unit_step(&rails.net);
    assert_in_range(net_queue_count(&rails.net.queue), 10, 20);
    rails_cut(0);
    rails.cut[0] = with_route;
    for (unsigned host = 0; host < 2 && with_route; host++) {
        rawe_peer_set_down(rails_peer(host, 0), rails.now_ns);
    }
    assert_arrives(access, 0, 20000);
    return line->host->sample_lost;
}

TEST(rawe_balance_reply__losses_of_a_failed_route_are_no_congestion)
{
    start(0, 1000, 0, 0);
    assert_arrives(get(0, 0, 20000), 0, 20000);
    assert_int_not_equal(lose_reply(false), 0);
    assert_int_equal(lose_reply(true), 0);
}

#define GRAIN 1000u

TEST_WITH(unit_no_fixture, rawe_balance_share__by_speed_and_backlog)
{
    static const struct {
        unsigned count;
        uint64_t total_bytes;
        struct rawe_balance_route routes[3];
        uint64_t expected[3];
    } cases[] = {
        {1, 12345, {{.backlog_bytes = 5000000, .rate = 7}}, {12345}},
        {2, 100000, {{.rate = 1000}, {.rate = 1000}}, {50000, 50000}},
        {2, 100000, {{.rate = 100}, {.rate = 400}}, {20000, 80000}},
        {2, 100000, {{.rate = 10, .backlog_bytes = 40000}, {.rate = 10}}, {30000, 70000}},
        /* A route whose backlog is too long gets no share. */
        {3,
         60000,
         {{.rate = 10, .backlog_bytes = 500000},
          {.rate = 10},
          {.rate = 20, .backlog_bytes = 30000}},
         {0, 30000, 30000}},
        {2, GRAIN - 1, {{.rate = 10}, {.rate = 40}}, {0, GRAIN - 1}}, /* too short to split */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rawe_balance_route routes[3];
        memcpy(routes, cases[i].routes, sizeof(routes));
        rawe_balance_share(routes, cases[i].count, cases[i].total_bytes, GRAIN);
        for (unsigned j = 0; j < cases[i].count; j++) {
            assert_int_equal(routes[j].share_bytes, cases[i].expected[j]);
        }
    }
}

/** Shares sum to the total, at most one is no multiple of the grain, and finish times are close. */
TEST_WITH(unit_no_fixture, rawe_balance_share__adds_up_at_random)
{
    srand(1);
    for (unsigned i = 0; i < 20000; i++) {
        struct rawe_balance_route routes[4];
        unsigned count = 1 + (unsigned)rand() % 4;
        uint64_t total_bytes = 1 + (uint64_t)rand() % 10000000;
        uint64_t sum_bytes = 0;
        unsigned odd = 0;
        double earliest = 1e30, latest = 0;
        for (unsigned j = 0; j < count; j++) {
            routes[j] = (struct rawe_balance_route){
                .backlog_bytes = (uint64_t)(rand() % 3 == 0 ? 0 : rand() % 5000000),
                .rate = 1 + (uint64_t)rand() % 10000,
            };
        }
        rawe_balance_share(routes, count, total_bytes, GRAIN);
        for (unsigned j = 0; j < count; j++) {
            double rate = (double)routes[j].rate;
            sum_bytes += routes[j].share_bytes;
            odd += routes[j].share_bytes % GRAIN != 0;
            if (routes[j].share_bytes != 0) {
                double done = (double)(routes[j].backlog_bytes + routes[j].share_bytes) / rate;
                latest = done > latest ? done : latest;
            }
            /* Allow five more grains, because shares are rounded to grains. */
            double could =
                (double)(routes[j].backlog_bytes + routes[j].share_bytes + 5 * GRAIN) / rate;
            earliest = could < earliest ? could : earliest;
        }
        assert_int_equal(sum_bytes, total_bytes);
        assert_true(odd <= 1);
        assert_true(latest <= earliest || count == 1 || latest - earliest < 1e-9 * latest);
    }
}
