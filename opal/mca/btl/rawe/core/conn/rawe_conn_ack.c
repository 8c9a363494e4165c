/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Acknowledgements of our frames are processed in three steps: update the window, measure the path,
 * and react (mark losses, plan the next probe). Then rawe_conn_ack_finish sends as much as there is
 * room for. rawe_sendwin.c detects losses.
 */
#include "rawe_conn_ack.h"

#include "rawe_conn_batch.h"
#include "rawe_conn_tx.h"
#include "rawe_conn_send.h"

/* ---- losses ---- */

/** Context of a search for losses. */
struct search {
    struct rawe_conn *conn;
    bool validating; /**< a lost validation frame is no sign of congestion */
};

/** rawe_sendwin_lost_fn */
static void count_lost(void *context, const struct rawe_txframe *frame, uint32_t sequence)
{
    const struct search *search = context;
    struct rawe_conn *conn = search->conn;
    struct rawe_counters *counters = &conn->engine->counters;
    if (search->validating) {
        counters->losses_validation++;
        if (conn->path.batch == RAWE_BATCH_VALIDATING) {
            rawe_conn_batch_conclude(conn, frame);
        }
        return;
    }
    if (rawe_conn_was_refused(&conn->tx, frame)) {
        counters->losses_refused++; /* the peer refused it: no sign of congestion */
        return;
    }
    if (conn->tx.window.evidence_is_probe) {
        counters->losses_probed++;
    } else {
        counters->losses_overtaken++;
    }
    bool again = (frame->resent >> (sequence - frame->sequence) & 1) != 0;
    uint64_t sent_ns = again ? frame->again.newest_ns : frame->first.newest_ns;
    /* Do not blame this route for frames sent on another. */
    if (sent_ns >= conn->path.route_since_ns && rawe_route_note_lost(conn->path.route) &&
        conn->engine->callbacks.lossy != NULL) {
        conn->engine->callbacks.lossy(conn->engine->context, conn);
    }
    enum rawe_cc_loss loss =
        rawe_cc_lost(&conn->tx.cc, sent_ns, again, &conn->tx.rtt, conn->engine->now_ns);
    if (loss != RAWE_CC_KNOWN) {
        counters->congestion_events++;
        counters->congestion_persistent += loss == RAWE_CC_PERSISTENT;
        rawe_reorder_recovery(&conn->tx.reorder);
    }
}

void rawe_conn_detect_losses(struct rawe_conn *conn, uint64_t now_ns)
{
    uint64_t reorder_ns =
        rawe_reorder_window_ns(&conn->tx.reorder, conn->engine->config.reorder_ns, &conn->tx.rtt);
    struct search search = {conn, conn->path.batch == RAWE_BATCH_VALIDATING};
    if (!rawe_sendwin_detect_losses(&conn->tx.window, reorder_ns, now_ns, count_lost, &search)) {
        rawe_sendwin_plan_search(&conn->tx.window, 0);
    } else {
        rawe_sendwin_plan_search(&conn->tx.window, now_ns + reorder_ns);
        rawe_conn_arm(conn);
    }
    rawe_cc_pace(&conn->tx.cc, conn->tx.window.in_flight, 0);
}

/* ---- acknowledgements ---- */

/** An acknowledgement being processed. */
struct acknowledgement {
    const struct rawe_header *header;
    bool is_ack;         /**< carried by an ACK frame */
    bool answers;        /**< answers a probe... */
    bool answers_plain;  /**< ... that did not take the path of batches */
    uint64_t probe_ns;   /**< when the answered probe was sent; 0: none, or not remembered */
    struct rawe_ack ack; /**< what it reports about our frames */
};

/** Apply the credit in an acknowledgement, and note which probe it answers. */
static void note_answer(struct rawe_conn *conn, struct acknowledgement *acked, uint64_t now_ns)
{
    const struct rawe_header *header = acked->header;
    bool refused = acked->is_ack && (header->flags & RAWE_FLAG_REFUSED) != 0;
    bool progress = header->acknowledgement != conn->tx.window.una;
    acked->answers = acked->is_ack && (header->flags & RAWE_FLAG_PROBE_ANSWER) != 0;
    acked->answers_plain = acked->answers && header->sequence == RAWE_PROBE_PLAIN;
    rawe_conn_note_credit(&conn->tx, header->credit, acked->answers, refused, progress, now_ns);
    if (__builtin_expect(acked->answers, 0)) {
        acked->probe_ns = rawe_liveness_probe_answered(&conn->path.liveness, header->sequence);
        rawe_liveness_heard(&conn->path.liveness);
    }
}

/** Remove acknowledged frames from the window, and mark those that the SACK bitmap reports. */
static void apply_ack(struct rawe_conn *conn, struct acknowledgement *acked, const uint8_t *sack,
                      size_t sack_bytes, uint64_t now_ns, struct rawe_sends *complete)
{
    struct rawe_sendwin *window = &conn->tx.window;
    uint32_t acknowledgement = acked->header->acknowledgement;
    acked->ack = (struct rawe_ack){
        /* Other frames carry no SACK, so they do not report everything that has arrived. */
        .evidence = acked->is_ack,
        /* Credit is not the limit, and half the window is in use (RFC 7661 section 4.2). */
        .limited = conn->tx.cc.window < conn->tx.peer_credit &&
                   rawe_cc_is_used(&conn->tx.cc, window->in_flight),
        .minimum_rtt_ns = conn->tx.rtt.minimum_ns,
        .frame_bytes = conn->path.payload_max_bytes,
        .now_ns = now_ns,
    };
    while (window->una != acknowledgement) {
        struct rawe_txframe *frame = rawe_sendwin_acknowledge(window, acknowledgement, &acked->ack);
        if (frame != NULL) {
            rawe_conn_batch_arrived(&conn->path, frame);
            rawe_conn_release(conn, frame, complete);
        }
    }
    rawe_conn_note_progress(conn);
    if (__builtin_expect(sack_bytes != 0, 0)) {
        rawe_sendwin_sack(window, acknowledgement, sack, sack_bytes, &acked->ack);
    }
    acked->ack.in_flight = window->in_flight;
    conn->engine->counters.frames_acknowledged += acked->ack.arrived;
    conn->path.route->arrived += acked->ack.arrived;
}

/** Update the liveness of peer and batches, the round-trip time, and the congestion window. */
static void measure_path(struct rawe_conn *conn, struct acknowledgement *acked, uint64_t now_ns)
{
    struct rawe_ack *ack = &acked->ack;
    uint64_t probe_ns = acked->probe_ns;
    if (ack->arrived != 0) {
        rawe_liveness_heard(&conn->path.liveness);
    }
    if (ack->arrived != 0 || probe_ns != 0) {
        rawe_conn_batch_heard(&conn->path);
    } else if (__builtin_expect(acked->answers_plain, 0)) {
        rawe_conn_batch_unheard(conn, now_ns);
    }
    /* If a probe had to elicit the acknowledgement, the delay was the peer's, not the path's. */
    if (ack->rtt_ns != 0 && probe_ns == 0) {
        rawe_rtt_sample(&conn->tx.rtt, ack->rtt_ns);
        rawe_histogram_add(&conn->engine->round_trips, ack->rtt_ns);
    }
    if (__builtin_expect(probe_ns != 0, 0)) {
        rawe_rtt_probed(&conn->tx.rtt, now_ns > probe_ns ? now_ns - probe_ns : 0);
        rawe_sendwin_probe_answered(&conn->tx.window, probe_ns, now_ns);
        conn->engine->counters.probes_answered++;
    }
    rawe_cc_acknowledged(&conn->tx.cc, ack);
}

/** Mark losses, and plan the next probe. */
static void react(struct rawe_conn *conn, const struct acknowledgement *acked, uint64_t now_ns)
{
    struct rawe_sendwin *window = &conn->tx.window;
    uint32_t arrived = acked->ack.arrived;
    uint64_t probe_ns = acked->probe_ns;
    if (__builtin_expect(conn->path.batch == RAWE_BATCH_VALIDATING, 0)) {
        rawe_conn_batch_conclude(conn, NULL);
    }
    bool more = !rawe_sendwin_empty(window);
    if (!more) {
        rawe_sendwin_plan_search(window, 0);
    } else if (__builtin_expect(window->sacked != 0 || probe_ns != 0, 0)) {
        rawe_conn_detect_losses(conn, now_ns);
    }
    if (arrived != 0 || probe_ns != 0 || !more) {
        rawe_liveness_progress(&conn->path.liveness, more, now_ns);
        if (more) {
            rawe_conn_plan_probe(conn, now_ns);
        }
    }
    rawe_cc_pace(&conn->tx.cc, window->in_flight, arrived);
}

__attribute__((hot)) void rawe_conn_ack_process(struct rawe_conn *conn,
                                                const struct rawe_header *header,
                                                const uint8_t *sack, size_t sack_bytes,
                                                uint64_t now_ns, struct rawe_conn_ack *left)
{
    const struct rawe_sendwin *window = &conn->tx.window;
    if (rawe_sequence_before(header->acknowledgement, window->una)) {
        return; /* overtaken by a later acknowledgement */
    }
    struct acknowledgement acked = {.header = header, .is_ack = header->type == RAWE_FRAME_ACK};
    left->waits = true; /* even without progress, the credit may have grown */
    note_answer(conn, &acked, now_ns);
    if (header->acknowledgement != window->una || sack_bytes != 0 || acked.probe_ns != 0) {
        apply_ack(conn, &acked, sack, sack_bytes, now_ns, &left->sends);
        measure_path(conn, &acked, now_ns);
        react(conn, &acked, now_ns);
    } else if (acked.answers_plain) {
        rawe_conn_batch_unheard(conn, now_ns);
    }
}

/** Send more if there is room. Late in a turn, batches must wait until the turn ends. */
static void send_more(struct rawe_conn *conn, uint64_t now_ns)
{
    if (rawe_conn_batch_used(conn) && rawe_engine_turn_is_long(conn->engine)) {
        rawe_conn_make_pending(conn);
    } else {
        rawe_conn_output(conn, true, now_ns);
    }
}

__attribute__((hot)) void rawe_conn_ack_finish(struct rawe_conn *conn, uint32_t id,
                                               const struct rawe_conn_ack *left, uint64_t now_ns)
{
    struct rawe_engine *engine = conn->engine;
    now_ns = rawe_engine_time(engine, now_ns); /* callbacks may have read the clock */
    if (conn->handshake.local_id == id &&
        (conn->tx.queue.first != NULL || conn->tx.window.to_transmit != 0 ||
         (conn->tx.refill != NULL && conn->tx.refill(conn)))) {
        send_more(conn, now_ns);
    }
    if (left->sends.first != NULL) {
        rawe_conn_complete(engine, left->sends.first, RAWE_STATUS_DONE);
    }
}
