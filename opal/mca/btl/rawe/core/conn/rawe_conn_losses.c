/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Reaction to lost frames, which rawe_sendwin.c detects.
 */
#include "rawe_conn_losses.h"

#include "rawe_conn_batch.h"
#include "rawe_conn_control.h"

/** Context of one search for losses. */
struct search {
    struct rawe_conn *conn;
    bool validating; /**< a lost validation frame is no sign of congestion */
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
        counters->losses_refused++; /* the peer refused it: no sign of congestion */
        return;
    }
    if (conn->sendwin.evidence_is_probe) {
        counters->losses_probed++;
    } else {
        counters->losses_overtaken++;
    }
    bool again = (frame->resent >> (sequence - frame->sequence) & 1) != 0;
    uint64_t sent_ns = again ? frame->again.newest_ns : frame->first.newest_ns;
    /* Do not blame this route for frames sent on another. */
    if (sent_ns >= conn->route_since_ns && rawe_route_note_lost(conn->route) &&
        conn->engine->callbacks.lossy != NULL) {
        conn->engine->callbacks.lossy(conn->engine->context, conn);
    }
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
