/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The CONNECT exchange: request a connection, and answer the peer's request. rawe_handshake.c
 * decides what a received CONNECT means.
 */
#include "rawe_conn_connect.h"

#include "rawe_conn_batch.h"
#include "rawe_conn_tx.h"
#include "rawe_conn_path.h"

static void begin_path(struct rawe_conn *conn)
{
    rawe_rtt_init(&conn->tx.rtt);
    rawe_reorder_init(&conn->tx.reorder);
    rawe_cc_start(&conn->tx.cc, conn->engine->config.congestion, conn->engine->config.window_frames,
                  conn->lane == RAWE_LANE_BULK ? conn->path.payload_max_bytes : 0,
                  conn->engine->now_ns);
}

void rawe_conn_forget_path(struct rawe_conn *conn, bool was_dead)
{
    uint32_t window = conn->tx.cc.window;
    begin_path(conn);
    rawe_conn_batch_heard(&conn->path);
    if (window < conn->tx.cc.window) {
        rawe_cc_set_window(&conn->tx.cc, window);
    }
    if (was_dead) {
        rawe_cc_excuse(&conn->tx.cc, conn->engine->now_ns);
    }
}

void rawe_conn_reset(struct rawe_conn *conn)
{
    const struct rawe_engine_config *config = &conn->engine->config;
    uint32_t first = config->first_sequence;
    rawe_conn_batch_reset(conn);
    rawe_conn_credit_reset(conn);
    rawe_credit_forget(&conn->path.into->pull.credit, conn->lane, &conn->rx.credit);
    rawe_grants_reset(&conn->path.into->pull.grants, &conn->rx.grant, first);
    rawe_sendwin_reset(&conn->tx.window, first);
    rawe_sendqueue_renumber(&conn->tx.queue, first);
    rawe_recvwin_reset(&conn->rx.window, first);
    begin_path(conn);
    rawe_liveness_reset(&conn->path.liveness);
    /* Keep complete messages that are still here because the deferral was full. */
    rawe_deferral_keep_fragmented(conn->engine->deferral, conn, &conn->rx.reassembly,
                                  &conn->engine->reassembly_buffers, true);
    if (rawe_reassembly_ready(&conn->rx.reassembly) != NULL) {
        conn->engine->counters.dropped_fragment++; /* no memory, though it was acknowledged */
    }
    rawe_reassembly_clear(&conn->rx.reassembly, &conn->engine->reassembly_buffers, first);
    rawe_sliced_free(&conn->rx.sliced); /* its number belongs to the old connection id */
}

void rawe_conn_renew(struct rawe_conn *conn, bool restart)
{
    struct rawe_engine *engine = conn->engine;
    rawe_handshake_begin(&conn->handshake,
                         rawe_conn_table_renew(engine->table, conn->handshake.local_id),
                         restart ? ++engine->incarnation : conn->handshake.local_incarnation);
    rawe_conn_reset(conn);
}

/** Write a CONNECT payload (`engine`: of the preferred route) or a PROBE payload (of the route). */
static void write_identity(const struct rawe_conn *conn, const struct rawe_engine *engine,
                           uint8_t choice, uint8_t payload[RAWE_CONNECT_BYTES])
{
    const struct rawe_engine_config *config = &engine->config;
    struct rawe_connect connect = {
        .jobid = config->jobid,
        .vpid = config->vpid,
        .connection_id = conn->handshake.local_id,
        .key = config->key,
        .port = config->port,
        .lane = conn->lane,
        .choice = choice,
        .payload_max_bytes = rawe_conn_preferred_payload_bytes(conn),
        .incarnation = conn->handshake.local_incarnation,
    };
    rawe_connect_encode(payload, &connect);
}

bool rawe_conn_send_probe(struct rawe_conn *conn)
{
    uint8_t payload[RAWE_CONNECT_BYTES];
    write_identity(conn, conn->path.via, 0, payload);
    if (conn->path.batch == RAWE_BATCH_VALID && conn->tx.window.in_flight != 0) {
        /* Also send a plain probe: only a plain one reaches the responder, which wakes the peer. */
        rawe_conn_transmit_control(conn, RAWE_FRAME_PROBE, 0, RAWE_PROBE_PLAIN, payload,
                                   sizeof(payload));
    }
    return rawe_conn_transmit_control(conn, RAWE_FRAME_PROBE, 0,
                                      rawe_liveness_next_probe(&conn->path.liveness), payload,
                                      sizeof(payload));
}

static void send_connect(struct rawe_conn *conn, uint32_t to_id, bool reply)
{
    uint8_t payload[RAWE_CONNECT_BYTES];
    write_identity(conn, conn->engine,
                   conn->path.route == conn->path.preferred ? 0 : conn->path.preferred->interface,
                   payload);
    rawe_conn_transmit_to(conn, to_id, RAWE_FRAME_CONNECT, reply ? RAWE_FLAG_REPLY : 0, 0, payload,
                          sizeof(payload));
    conn->engine->counters.connects_sent++;
}

void rawe_conn_send_connect(struct rawe_conn *conn)
{
    send_connect(conn, 0, false);
}

void rawe_conn_connect(struct rawe_conn *conn, uint64_t now_ns)
{
    rawe_credit_open(&conn->path.into->pull.credit, conn->lane, &conn->rx.credit);
    rawe_handshake_enter(&conn->handshake, RAWE_CONN_CONNECTING);
    rawe_conn_send_connect(conn);
    /* CONNECT tells the peer that we have something to send. */
    rawe_conn_report_more(&conn->tx, conn->lane == RAWE_LANE_BULK && conn->tx.queue.first != NULL);
    rawe_liveness_connecting(&conn->path.liveness, now_ns);
    rawe_conn_arm(conn);
}

/** The peer is back: repeat our own CONNECT soon, because its interval may have grown. */
static void ask_again_soon(struct rawe_conn *conn, uint64_t now_ns)
{
    const uint64_t soon_ns = now_ns + rawe_liveness_interval_ns(&conn->path.liveness);
    if (conn->handshake.state == RAWE_CONN_CONNECTING &&
        rawe_liveness_ask_by(&conn->path.liveness, soon_ns)) {
        rawe_conn_arm(conn);
    }
}

void rawe_conn_answer(struct rawe_conn *conn, const struct rawe_connect *from, bool reply,
                      uint64_t now_ns)
{
    const uint64_t rtt_ns = rawe_liveness_connected_ns(&conn->path.liveness, now_ns);
    rawe_liveness_heard(&conn->path.liveness);
    rawe_credit_open(&conn->path.into->pull.credit, conn->lane, &conn->rx.credit);
    if (!reply && conn->lane == RAWE_LANE_BULK && conn->handshake.state != RAWE_CONN_OPEN) {
        /* The peer may answer our CONNECT or have something to send. */
        rawe_credit_note(&conn->path.into->pull.credit, conn->lane, &conn->rx.credit);
        rawe_grants_expect(&conn->path.into->pull.grants, &conn->rx.grant, now_ns);
    }
    if (!reply) {
        send_connect(conn, from->connection_id, true);
        ask_again_soon(conn, now_ns);
    }
    if (conn->handshake.state == RAWE_CONN_IDLE) {
        rawe_conn_connect(conn, now_ns); /* again, if a reply has just renewed the id */
        return;
    }
    if (!reply || !rawe_handshake_reply(&conn->handshake, from->connection_id)) {
        return;
    }
    rawe_rtt_expect(&conn->tx.rtt, rtt_ns);
    rawe_conn_limit_payload(conn, from->payload_max_bytes);
    rawe_liveness_ask_at(&conn->path.liveness, 0);
    rawe_conn_arm_idle(conn);
    rawe_conn_make_pending(conn);
}
