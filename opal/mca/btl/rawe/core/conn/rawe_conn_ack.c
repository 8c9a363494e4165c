/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the peer has: acknowledgements of our frames, and which of them are lost.
 * How losses are found is in rawe_sendwin.c. Silence leads to a probe, and the answer to the probe
 * is the later frame that has arrived.
 */
#include "rawe_conn_ack.h"

#include "rawe_conn_batch.h"
#include "rawe_conn_control.h"
#include "rawe_conn_send.h"

/**
 * May the congestion window grow? Not when credit is smaller, nor when half of it is free: then
 * something else holds the sender back, and what is acknowledged says nothing of a larger window
 * (RFC 7661 section 4.2).
 */
static bool window_limits(const struct rawe_conn *conn)
{
    return conn->cc.window < conn->peer_credit &&
           rawe_cc_is_used(&conn->cc, conn->sendwin.in_flight);
}

void rawe_conn_acknowledged(struct rawe_conn *conn, const struct rawe_header *header,
                            const uint8_t *sack, size_t sack_bytes, uint64_t now_ns)
{
    struct rawe_engine *engine = conn->engine;
    struct rawe_sendwin *window = &conn->sendwin;
    uint32_t acknowledgement = header->acknowledgement;
    if (rawe_sequence_before(acknowledgement, window->una)) {
        return; /* overtaken by a later acknowledgement */
    }
    bool is_ack = header->type == RAWE_FRAME_ACK;
    bool answers = is_ack && (header->flags & RAWE_FLAG_PROBE_ANSWER) != 0;
    rawe_conn_note_credit(conn, header->credit, answers, acknowledgement != window->una, now_ns);
    bool answers_plain = answers && header->sequence == RAWE_PROBE_PLAIN;
    uint64_t probe_ns =
        answers ? rawe_liveness_probe_answered(&conn->liveness, header->sequence) : 0;
    if (answers) {
        rawe_liveness_heard(&conn->liveness);
    }
    if (acknowledgement == window->una && sack_bytes == 0 && probe_ns == 0) {
        if (answers_plain) {
            rawe_conn_batch_unheard(conn, now_ns);
        }
        if (conn->queue.first != NULL || window->to_transmit != 0) {
            rawe_conn_output(conn, now_ns); /* the credit may have grown */
        }
        return;
    }
    bool limited = window_limits(conn);
    struct rawe_send *complete = NULL;
    struct rawe_send **tail = &complete;
    struct rawe_sendwin_ack ack = {
        /* Other frames carry no SACK: the peer may have frames beyond that it has not told of. */
        .evidence = is_ack,
        .minimum_rtt_ns = conn->rtt.minimum_ns,
        .now_ns = now_ns,
    };
    while (window->una != acknowledgement) {
        struct rawe_txframe *frame = rawe_sendwin_acknowledge(window, acknowledgement, &ack);
        if (frame != NULL) {
            rawe_conn_batch_arrived(conn, frame);
            tail = rawe_conn_release(conn, frame, tail);
        }
    }
    *tail = NULL;
    if (sack_bytes != 0) {
        rawe_sendwin_sack(window, acknowledgement, sack, sack_bytes, &ack);
    }
    engine->counters.frames_acknowledged += ack.arrived;
    if (ack.arrived != 0) {
        rawe_liveness_heard(&conn->liveness);
    }
    if (ack.arrived != 0 || probe_ns != 0) {
        rawe_conn_batch_heard(conn);
    } else if (answers_plain) {
        rawe_conn_batch_unheard(conn, now_ns);
    }
    /* What is acknowledged only when the peer is asked has waited for the peer, not for the path. */
    if (ack.rtt_ns != 0 && probe_ns == 0) {
        rawe_rtt_sample(&conn->rtt, ack.rtt_ns);
        rawe_histogram_add(&engine->round_trips, ack.rtt_ns);
    }
    if (probe_ns != 0) {
        rawe_rtt_probed(&conn->rtt, now_ns > probe_ns ? now_ns - probe_ns : 0);
        rawe_sendwin_probe_answered(window, probe_ns, now_ns);
        engine->counters.probes_answered++;
    }
    rawe_cc_acknowledged(&conn->cc, &(struct rawe_cc_ack){
                                        .now_ns = now_ns,
                                        .rtt_ns = ack.rtt_ns,
                                        .rtt = &conn->rtt,
                                        .arrived_frames = ack.arrived,
                                        .frame_bytes = conn->payload_max_bytes,
                                        .in_flight = window->in_flight,
                                        .limited = limited,
                                    });
    if (conn->batch == RAWE_BATCH_VALIDATING) {
        rawe_conn_batch_conclude(conn, NULL);
    }
    bool more = !rawe_sendwin_empty(window);
    if (!more) {
        rawe_sendwin_plan_search(window, 0);
    } else if (window->sacked != 0 || probe_ns != 0) {
        rawe_conn_detect_losses(conn, now_ns);
    }
    if (ack.arrived != 0 || probe_ns != 0) {
        rawe_liveness_progress(&conn->liveness, more, now_ns);
        if (more) {
            rawe_conn_plan_probe(conn, now_ns);
        }
    }
    rawe_cc_pace(&conn->cc, window->in_flight, ack.arrived);
    if (conn->queue.first != NULL || window->to_transmit != 0 ||
        (conn->refill != NULL && conn->refill(conn))) {
        rawe_conn_output(conn, now_ns);
    }
    if (complete != NULL) {
        rawe_conn_complete(engine, complete, RAWE_STATUS_DONE);
    }
}

/** Losses found in one search. */
struct search {
    struct rawe_conn *conn;
    bool validating; /**< losses of validation frames say nothing of congestion */
};

/** rawe_sendwin_lost_fn */
static void lost(void *context, const struct rawe_txframe *frame, uint32_t sequence)
{
    const struct search *search = context;
    struct rawe_conn *conn = search->conn;
    struct rawe_counters *counters = &conn->engine->counters;
    if (search->validating) {
        counters->losses_validation++;
        if (conn->batch == RAWE_BATCH_VALIDATING) {
            rawe_conn_batch_conclude(conn, frame);
        }
        return;
    }
    if (rawe_conn_was_refused(conn, frame)) {
        counters->losses_refused++; /* by the peer: that says nothing of the path */
        return;
    }
    if (conn->sendwin.evidence_is_probe) {
        counters->losses_probed++;
    } else {
        counters->losses_overtaken++;
    }
    bool again = (frame->resent >> (sequence - frame->sequence) & 1) != 0;
    uint64_t sent_ns = again ? frame->again.newest_ns : frame->first.newest_ns;
    enum rawe_cc_loss loss =
        rawe_cc_lost(&conn->cc, sent_ns, again, &conn->rtt, conn->engine->now_ns);
    if (loss != RAWE_CC_KNOWN) {
        counters->congestion_events++;
        counters->congestion_persistent += loss == RAWE_CC_PERSISTENT;
        rawe_reorder_recovery(&conn->reorder);
    }
}

void rawe_conn_detect_losses(struct rawe_conn *conn, uint64_t now_ns)
{
    uint64_t reorder_ns =
        rawe_reorder_window_ns(&conn->reorder, conn->engine->config.reorder_ns, &conn->rtt);
    struct search search = {conn, conn->batch == RAWE_BATCH_VALIDATING};
    if (!rawe_sendwin_detect_losses(&conn->sendwin, reorder_ns, now_ns, lost, &search)) {
        rawe_sendwin_plan_search(&conn->sendwin, 0);
    } else {
        rawe_sendwin_plan_search(&conn->sendwin, now_ns + reorder_ns);
        rawe_conn_arm(conn);
    }
    rawe_cc_pace(&conn->cc, conn->sendwin.in_flight, 0);
}
