/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of long PUTs over all routes to a process.
 */
#include "unit_rails.h"

#include <stdlib.h>
#include <string.h>

#include "routes/rawe_balance.h"
#include "conn/rawe_conn.h"

#define GRAIN_BYTES RAWE_BATCH_BYTES_MAX
#define PARTS_MAX 4096u
#define MEMORY_BYTES (40u * GRAIN_BYTES)

/** A PUT, or a part of one, whose `done` counts for the whole. */
struct piece {
    struct rawe_send send; /**< first */
    struct piece *whole;
    unsigned done, failed; /**< of a whole: pieces */
    unsigned pieces;
};

static struct piece pieces[PARTS_MAX];
static unsigned pieces_taken, pieces_allowed;
static uint8_t *source, *target;
static uint32_t handle_index;
static uint64_t handle_key;

static void piece_done(struct rawe_send *send, enum rawe_status status)
{
    struct piece *piece = (struct piece *)(void *)send;
    piece->whole->done++;
    piece->whole->failed += status != RAWE_STATUS_DONE;
    assert_true(piece->whole->done <= piece->whole->pieces);
}

static struct piece *piece_take(void)
{
    if (pieces_taken >= pieces_allowed) {
        return NULL;
    }
    struct piece *piece = &pieces[pieces_taken++];
    memset(piece, 0, sizeof(*piece));
    return piece;
}

static struct rawe_send *split(struct rawe_send *send)
{
    struct piece *whole = ((struct piece *)(void *)send)->whole;
    struct piece *piece = piece_take();
    if (piece == NULL) {
        return NULL;
    }
    piece->whole = whole;
    whole->pieces++;
    return &piece->send;
}

/** Host 0 PUTs that part of the source to the same place of the target. */
static struct piece *put(unsigned rail, size_t from_bytes, size_t len_bytes)
{
    pieces_allowed++;
    struct piece *piece = piece_take();
    assert_non_null(piece);
    piece->whole = piece;
    piece->pieces = 1;
    piece->send.done = piece_done;
    piece->send.piece_count = 1;
    piece->send.pieces[0] = (struct rawe_bytes){source + from_bytes, len_bytes};
    piece->send.handle_index = handle_index;
    piece->send.handle_key = handle_key;
    piece->send.offset = from_bytes;
    assert_true(rawe_balance_put(rails_peer(0, rail), &piece->send, split));
    return piece;
}

static void assert_arrived(const struct piece *piece, size_t from_bytes, size_t len_bytes)
{
    assert_int_equal(piece->done, piece->pieces);
    assert_int_equal(piece->failed, 0);
    assert_memory_equal(target + from_bytes, source + from_bytes, len_bytes);
}

/** Rails that take part, with these speeds; 0: it does not. */
static void start(unsigned batch_frames, uint32_t first, uint32_t second, uint32_t third)
{
    const uint32_t mbps[RAILS] = {first, second, third};
    rails_start(batch_frames);
    for (unsigned rail = 0; rail < RAILS; rail++) {
        rails_peer(0, rail)->takes_part = mbps[rail] != 0;
        rails_peer(0, rail)->config.speed_mbps = mbps[rail];
    }
    assert_true(rawe_handle_register(rails.host[1].nic[0].engine.config.handles, target,
                                     MEMORY_BYTES, &handle_index, &handle_key, RAWE_ACCESS_WRITE));
}

static void set_up(void)
{
    rails_init();
    source = malloc(MEMORY_BYTES);
    target = calloc(1, MEMORY_BYTES);
    assert_non_null(source);
    assert_non_null(target);
    unit_fill(source, MEMORY_BYTES, 5);
    pieces_taken = 0;
    pieces_allowed = PARTS_MAX / 2;
}

static void tear_down(void)
{
    assert_true(rawe_handle_deregister(rails.host[1].nic[0].engine.config.handles, handle_index,
                                       handle_key));
    rails_stop();
    free(source);
    free(target);
}

/** Bytes that wait or are in flight on a rail's bulk lane. */
static uint64_t load_bytes(unsigned rail)
{
    const struct rawe_conn *conn = rails_peer(0, rail)->conn[RAWE_LANE_BULK];
    return conn == NULL
               ? 0
               : conn->queue.bytes + (uint64_t)conn->payload_max_bytes *
                                         (conn->sendwin.in_flight + conn->sendwin.to_transmit);
}

/** Bytes that a rail has carried to the other host. */
static uint64_t brought_frames(unsigned rail)
{
    return rails.host[0].nic[rail].engine.counters.frames_sent;
}

FIXTURE(set_up, tear_down);

TEST(rawe_balance_put__by_routes_alike_in_equal_shares)
{
    start(0, 1000, 1000, 1000);
    struct piece *piece = put(1, 0, 30 * GRAIN_BYTES);
    for (unsigned rail = 0; rail < RAILS; rail++) {
        assert_in_range(load_bytes(rail), 9 * GRAIN_BYTES, 11 * GRAIN_BYTES);
    }
    rails_run(100 * UNIT_MS, 100 * UNIT_US);
    assert_arrived(piece, 0, 30 * GRAIN_BYTES);
}

TEST(rawe_balance_put__by_nominal_speed_until_measured)
{
    start(0, 1000, 4000, 0);
    struct piece *piece = put(0, 0, 30 * GRAIN_BYTES);
    assert_in_range(load_bytes(0), 5 * GRAIN_BYTES, 7 * GRAIN_BYTES);
    assert_in_range(load_bytes(1), 23 * GRAIN_BYTES, 25 * GRAIN_BYTES);
    assert_int_equal(load_bytes(2), 0); /* which takes no part */
    rails_run(100 * UNIT_MS, 100 * UNIT_US);
    assert_arrived(piece, 0, 30 * GRAIN_BYTES);
}

/** Measured on the connection by that rail: so much was acknowledged in 20 ms. */
static void has_rate(unsigned rail, uint32_t mbps)
{
    struct rawe_cc *cc = &rails_conn(0, rail, RAWE_LANE_BULK)->cc;
    struct rawe_cc_ack ack = {.now_ns = rails.now_ns - 20 * UNIT_MS, .in_flight = 1};
    rawe_cc_start(cc, cc->type, cc->most, 0, rails.now_ns);
    ack.arrived_frames = 1;
    ack.frame_bytes = mbps * 2500;
    rawe_cc_acknowledged(cc, &ack);
    ack.now_ns = rails.now_ns;
    rawe_cc_acknowledged(cc, &ack);
    assert_int_equal(cc->rate_mbps, mbps);
}

TEST(rawe_balance_put__by_measured_rates)
{
    start(0, 1000, 1000, 2000);
    for (unsigned rail = 0; rail < 2; rail++) {
        has_rate(rail, rail == 0 ? 100 : 300);
    }
    /* That of the third is not known: half as fast as nominal would be 400 as well. */
    struct piece *piece = put(0, 0, 32 * GRAIN_BYTES);
    assert_in_range(load_bytes(0), 3 * GRAIN_BYTES, 5 * GRAIN_BYTES);
    assert_in_range(load_bytes(1), 11 * GRAIN_BYTES, 13 * GRAIN_BYTES);
    assert_in_range(load_bytes(2), 15 * GRAIN_BYTES, 17 * GRAIN_BYTES);
    rails_run(100 * UNIT_MS, 100 * UNIT_US);
    assert_arrived(piece, 0, 32 * GRAIN_BYTES);
}

TEST(rawe_balance_put__little_by_a_route_that_is_silent)
{
    start(0, 1000, 1000, 0);
    struct rawe_conn *silent = rails_conn(0, 0, RAWE_LANE_BULK);
    has_rate(0, 500);
    has_rate(1, 500);
    silent->liveness.probes_unanswered = 1;
    struct piece *piece = put(0, 0, 32 * GRAIN_BYTES);
    assert_in_range(load_bytes(0), 1, 3 * GRAIN_BYTES);
    silent->liveness.probes_unanswered = 0;
    rails_run(100 * UNIT_MS, 100 * UNIT_US);
    assert_arrived(piece, 0, 32 * GRAIN_BYTES);
}

TEST(rawe_balance_put__short_ones_stay_whole)
{
    start(0, 1000, 1000, 1000);
    struct piece *piece = put(2, 100, 2 * GRAIN_BYTES - 1);
    assert_int_equal(piece->pieces, 1);
    rails_run(100 * UNIT_MS, 100 * UNIT_US);
    assert_arrived(piece, 100, 2 * GRAIN_BYTES - 1);
    assert_int_equal(load_bytes(0) + load_bytes(1), 0);
    assert_int_equal(brought_frames(0) + brought_frames(1), 0);
}

TEST(rawe_balance_put__not_by_a_route_that_is_down)
{
    start(0, 1000, 1000, 1000);
    rails_cut(1);
    rawe_peer_set_down(rails_peer(0, 1), rails.now_ns);
    struct piece *piece = put(0, 0, 20 * GRAIN_BYTES);
    assert_int_equal(load_bytes(1), 0);
    rails_run(100 * UNIT_MS, 100 * UNIT_US);
    assert_arrived(piece, 0, 20 * GRAIN_BYTES);
    assert_int_equal(piece->pieces, 2);
}

TEST(rawe_balance_put__of_a_route_that_is_down_goes_by_the_others)
{
    start(0, 1000, 1000, 1000);
    rails_cut(0);
    rawe_peer_set_down(rails_peer(0, 0), rails.now_ns);
    struct piece *piece = put(0, 0, 20 * GRAIN_BYTES);
    assert_int_equal(load_bytes(0), 0);
    rails_run(100 * UNIT_MS, 100 * UNIT_US);
    assert_arrived(piece, 0, 20 * GRAIN_BYTES);
}

TEST(rawe_balance_put__without_memory_for_parts)
{
    pieces_allowed = 0;
    start(0, 1000, 1000, 0);
    struct piece *first = put(0, 0, 10 * GRAIN_BYTES);
    struct piece *second = put(0, 10 * GRAIN_BYTES, 10 * GRAIN_BYTES);
    assert_int_equal(pieces_taken, 2);
    rails_run(100 * UNIT_MS, 100 * UNIT_US);
    assert_arrived(first, 0, 10 * GRAIN_BYTES);
    assert_arrived(second, 10 * GRAIN_BYTES, 10 * GRAIN_BYTES);
}

TEST(rawe_balance_put__fails_with_its_connection)
{
    start(0, 1000, 1000, 0);
    for (unsigned rail = 0; rail < 2; rail++) {
        rails_conn(0, rail, RAWE_LANE_BULK)->handshake.state = RAWE_CONN_FAILED;
    }
    struct piece *piece = put(0, 0, 10 * GRAIN_BYTES);
    assert_int_equal(piece->done, 1);
    assert_int_equal(piece->failed, 1);
}

/** A share was too large: the route that is done takes over from the other. */
TEST(refill__takes_over_from_a_route_that_is_stuck)
{
    start(0, 1000, 1000, 0);
    has_rate(0, 900); /* it was so, once */
    has_rate(1, 100);
    rails.host[0].nic[0].room = 0;
    struct piece *piece = put(0, 0, 40 * GRAIN_BYTES);
    assert_true(load_bytes(0) >= 30 * GRAIN_BYTES);
    has_rate(0, 100); /* and is no more */
    rails_run(20 * UNIT_MS, 100 * UNIT_US);
    /* All but a window and a grain, which is not worth taking over. */
    assert_in_range(load_bytes(0), 1, 4 * GRAIN_BYTES);
    assert_int_equal(load_bytes(1), 0);
    assert_true(piece->done < piece->pieces);
    rails.host[0].nic[0].room = UINT32_MAX;
    rails_run(100 * UNIT_MS, 100 * UNIT_US);
    assert_arrived(piece, 0, 40 * GRAIN_BYTES);
}

/** Rails cut silently: queued data does not wait for their detection. */
TEST(refill__takes_over_from_a_route_that_is_silent)
{
    start(16, 1000, 1000, 1000);
    rails_cut(0);
    struct piece *piece = put(0, 0, 36 * GRAIN_BYTES);
    rails_run(20 * UNIT_MS, 100 * UNIT_US);
    assert_true(brought_frames(1) > 500);
    assert_true(brought_frames(2) > 500);
    /* A window, and less than a grain for each of the three. */
    assert_true(load_bytes(0) <= 5 * GRAIN_BYTES);
    rawe_peer_set_down(rails_peer(0, 0), rails.now_ns);
    rawe_peer_set_down(rails_peer(1, 0), rails.now_ns);
    rails_run(100 * UNIT_MS, 100 * UNIT_US);
    assert_arrived(piece, 0, 36 * GRAIN_BYTES);
}

/** Sends that cannot move stay: PUTs that must not be split, messages. */
TEST(refill__leaves_alone_what_is_not_spread)
{
    static struct unit_send message;
    static uint8_t data[60000];
    start(0, 1000, 1000, 0);
    rails.host[0].nic[0].room = 0;
    unit_fill(data, sizeof(data), 9);
    unit_send_message(rails_conn(0, 0, RAWE_LANE_BULK), &message, 1, data, sizeof(data));
    struct piece *piece = put(1, 0, 20 * GRAIN_BYTES);
    rails_run(20 * UNIT_MS, 100 * UNIT_US);
    assert_int_equal(rails.host[1].inbox.message_count, 0);
    rails.host[0].nic[0].room = UINT32_MAX;
    rails_run(100 * UNIT_MS, 100 * UNIT_US);
    assert_int_equal(rails.host[1].inbox.message_count, 1);
    unit_assert_message(&rails.host[1].inbox, 0, 1, sizeof(data), 9);
    assert_arrived(piece, 0, 20 * GRAIN_BYTES);
}

/* Many of all that, at random */

static unsigned long random_state;

static unsigned draw(unsigned below)
{
    random_state = random_state * 6364136223846793005ul + 1442695040888963407ul;
    return (unsigned)(random_state >> 33) % below;
}

/** A rail is cut or mended, or its link gets full or not; hosts learn of the former. */
static void trouble(void)
{
    unsigned rail = draw(RAILS);
    struct rails_nic *nic = &rails.host[0].nic[rail];
    if (draw(2) == 0) {
        nic->room = nic->room == 0 ? UINT32_MAX : 0;
    } else if (rails.cut[rail]) {
        rails.cut[rail] = false;
        for (unsigned host = 0; host < 2; host++) {
            rawe_peer_set_up(rails_peer(host, rail), rails.now_ns);
        }
    } else {
        rails_cut(rail);
        for (unsigned host = 0; host < 2; host++) {
            rawe_peer_set_down(rails_peer(host, rail), rails.now_ns);
        }
    }
}

static void one_bad_day(unsigned seed)
{
    enum { PUTS = 60 };
    struct piece *put_of[PUTS];
    size_t from_bytes[PUTS], len_bytes[PUTS];
    random_state = seed * 2654435761ul + 1;
    set_up();
    start(draw(2) != 0 ? 16 : 0, 1 + draw(10000), 1 + draw(10000), draw(10000));
    for (unsigned i = 0; i < PUTS; i++) {
        /* Each to a place of its own. */
        from_bytes[i] = i * (MEMORY_BYTES / PUTS);
        len_bytes[i] = 1 + draw(MEMORY_BYTES / PUTS);
        if (draw(8) == 0 && i + 8 < PUTS) {
            len_bytes[i] = 8 * (MEMORY_BYTES / PUTS);
        }
        put_of[i] = put(draw(RAILS), from_bytes[i], len_bytes[i]);
        if (draw(6) == 0) {
            pieces_allowed = pieces_taken + draw(4);
        }
        if (draw(4) == 0) {
            trouble();
        }
        rails_run(draw(3) == 0 ? draw(20) * UNIT_MS : 100 * UNIT_US, 100 * UNIT_US);
    }
    for (unsigned rail = 0; rail < RAILS; rail++) {
        rails.host[0].nic[rail].room = UINT32_MAX;
        rails.cut[rail] = false;
        for (unsigned host = 0; host < 2; host++) {
            rawe_peer_set_up(rails_peer(host, rail), rails.now_ns);
        }
    }
    rails_run(3 * UNIT_S, UNIT_MS);
    for (unsigned i = 0; i < PUTS; i++) {
        assert_arrived(put_of[i], from_bytes[i], len_bytes[i]);
    }
    tear_down();
}

TEST_WITH(unit_no_fixture, balance__loses_nothing_at_random)
{
    const char *seeds = getenv("RAWE_BALANCE_SEEDS");
    unsigned count = seeds != NULL ? (unsigned)strtoul(seeds, NULL, 10) : 20;
    for (unsigned seed = 1; seed <= count; seed++) {
        one_bad_day(seed);
    }
}
