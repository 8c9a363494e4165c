/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * btl_dump: all state of a module's endpoints, for a debugger or for the PML's own dump. Lines of
 * "name=value" words; times are given relative to now.
 */
#include "btl_rawe_dump.h"

#include "btl_rawe_endpoint.h"
#include "btl_rawe_help.h"
#include "btl_rawe_lock.h"
#include "btl_rawe_metrics.h"
#include "btl_rawe_module.h"
#include "btl_rawe_state.h"

#include "opal/util/output.h"

#include <inttypes.h>
#include <stdio.h>

static const char *const lane_names[RAWE_LANES] = {
    [RAWE_LANE_EXPRESS] = "express",
    [RAWE_LANE_BULK] = "bulk",
};

/** A point in time relative to now, in microseconds, in memory of the calling statement's block. */
struct when {
    char text[32];
};

static struct when in_us(uint64_t deadline_ns, uint64_t now_ns)
{
    struct when out;

    if (0 == deadline_ns) {
        snprintf(out.text, sizeof(out.text), "never");
    } else if (deadline_ns <= now_ns) {
        snprintf(out.text, sizeof(out.text), "due"); /* the next progress looks at it */
    } else {
        snprintf(out.text, sizeof(out.text), "%" PRIu64 "us", (deadline_ns - now_ns) / 1000);
    }
    return out;
}

static struct when ago_us(uint64_t then_ns, uint64_t now_ns)
{
    struct when out;

    if (0 == then_ns || then_ns > now_ns) {
        snprintf(out.text, sizeof(out.text), "never");
    } else {
        snprintf(out.text, sizeof(out.text), "%" PRIu64 "us", (now_ns - then_ns) / 1000);
    }
    return out;
}

static void dump_queue(const struct rawe_conn *conn, const char *head)
{
    uint64_t sends = 0, bytes = 0;

    for (const struct rawe_send *send = conn->queue.first; NULL != send; send = send->next) {
        ++sends;
        bytes += send->total_bytes - send->framed_bytes;
    }
    opal_output(0,
                "%s sending: una=%" PRIu32 " next=%" PRIu32 " in_flight=%" PRIu32
                " to_transmit=%" PRIu32 " sacked=%" PRIu32 " queued_sends=%" PRIu64
                " queued_bytes=%" PRIu64,
                head, conn->sendwin.una, conn->sendwin.next, conn->sendwin.in_flight,
                conn->sendwin.to_transmit, conn->sendwin.sacked, sends, bytes);
}

static void dump_oldest(const struct rawe_conn *conn, const char *head, uint64_t now_ns)
{
    uint32_t window_frames = conn->engine->config.window_frames;

    if (NULL == conn->sendwin.slots || conn->sendwin.una == conn->sendwin.next) {
        return;
    }
    const struct rawe_txframe *frame = conn->sendwin.slots[conn->sendwin.una & (window_frames - 1)];
    const uint64_t segment = 1ull << (conn->sendwin.una - frame->sequence);
    const char *state = "sent";

    if (0 != (frame->to_send & segment)) {
        state = 0 != (frame->sent & segment) ? "lost" : "waiting";
    } else if (0 != (frame->arrived & segment)) {
        state = "sacked";
    }
    opal_output(0,
                "%s oldest: sequence=%" PRIu32
                " frames=%u state=%s sendings=%u payload_bytes=%" PRIu32 " sent_ago=%s",
                head, frame->sequence, (unsigned)frame->segments, state, (unsigned)frame->sendings,
                frame->payload_bytes,
                0 == frame->sendings ? "never" : ago_us(rawe_txframe_sent_ns(frame), now_ns).text);
}

static void dump_limits(const struct rawe_conn *conn, const char *head)
{
    static const char *const batches[] = {
        [RAWE_BATCH_UNVALIDATED] = "unknown", [RAWE_BATCH_VALIDATING] = "validating",
        [RAWE_BATCH_VALID] = "valid",         [RAWE_BATCH_INVALID] = "invalid",
        [RAWE_BATCH_MIGRATED] = "migrated",
    };
    const struct rawe_rtt *rtt = &conn->rtt;

    opal_output(0,
                "%s limits: window=%" PRIu32 " congestion_window=%" PRIu32
                " congestion=%s credit=%" PRIu32 " payload_bytes=%" PRIu32
                " batches=%s rtt_ns=%" PRIu64 " rtt_variation_ns=%" PRIu64 " rtt_least_ns=%" PRIu64,
                head, conn->engine->config.window_frames, conn->cc.window, conn->cc.type->name,
                conn->peer_credit, conn->payload_max_bytes, batches[conn->batch], rtt->smoothed_ns,
                rtt->variation_ns, UINT64_MAX == rtt->minimum_ns ? 0 : rtt->minimum_ns);
}

static void dump_receiving(const struct rawe_conn *conn, const char *head)
{
    if (NULL == conn->recvwin.acktr) {
        return;
    }
    opal_output(0,
                "%s receiving: next=%" PRIu32 " beyond=%" PRIu32 " unacknowledged=%" PRIu32
                " credit_given=%u fragmented_next=%" PRIu32,
                head, conn->recvwin.acktr->next, conn->recvwin.acktr->beyond,
                conn->recvwin.unacked_frames, (unsigned)conn->credit.advertised,
                NULL == conn->reassembly ? 0 : conn->reassembly->next);
}

static void dump_timers(const struct rawe_conn *conn, const char *head, uint64_t now_ns)
{
    opal_output(0,
                "%s timers: acknowledge_in=%s detect_losses_in=%s probe_in=%s asked_ago=%s "
                "probes_unanswered=%" PRIu32 " silent_for=%s",
                head, in_us(conn->recvwin.ack_deadline_ns, now_ns).text,
                in_us(conn->sendwin.loss_deadline_ns, now_ns).text,
                in_us(conn->liveness.probe_deadline_ns, now_ns).text,
                ago_us(conn->liveness.asked_ns, now_ns).text, conn->liveness.probes_unanswered,
                0 == conn->liveness.silent_since_ns
                    ? "0us"
                    : ago_us(conn->liveness.silent_since_ns, now_ns).text);
}

static void dump_conn(const struct rawe_conn *conn, const char *module_head, uint64_t now_ns)
{
    static const char *const states[] = {
        [RAWE_CONN_IDLE] = "idle",     [RAWE_CONN_CONNECTING] = "connecting",
        [RAWE_CONN_OPEN] = "open",     [RAWE_CONN_PEER_CLOSED] = "peer_closed",
        [RAWE_CONN_FAILED] = "failed",
    };
    char head[192];

    snprintf(head, sizeof(head), "%s lane %s", module_head, lane_names[conn->lane]);
    opal_output(0,
                "%s state: state=%s id=0x%08" PRIx32 " peer_id=0x%08" PRIx32 " incarnation=%" PRIu64
                " peer_incarnation=%" PRIu64,
                head, states[conn->handshake.state], conn->handshake.local_id,
                conn->handshake.peer_id, conn->handshake.local_incarnation,
                conn->handshake.peer_incarnation);
    dump_queue(conn, head);
    dump_oldest(conn, head, now_ns);
    dump_limits(conn, head);
    dump_receiving(conn, head);
    dump_timers(conn, head, now_ns);
}

static void dump_endpoint(const mca_btl_rawe_module_t *module,
                          const mca_btl_base_endpoint_t *endpoint, uint64_t now_ns)
{
    char head[128], mac[18];

    snprintf(head, sizeof(head),
             "rawe dump: rank %u interface %s peer rank %u:", (unsigned)OPAL_PROC_MY_NAME.vpid,
             module->interface.name, (unsigned)endpoint->proc->proc_name.vpid);
    uint64_t pong_ns =
        endpoint->watch < 0 ? 0 : rawe_responder_last_pong_ns(module->responder, endpoint->watch);
    opal_output(0, "%s host=%s mac=%s path_mtu=%" PRIu32 " in_use=%d lost=%d last_pong_ago=%s",
                head, mca_btl_rawe_compat_hostname(endpoint->proc).text,
                mca_btl_rawe_mac_text(endpoint->address.mac, mac), endpoint->path_mtu_bytes,
                endpoint->in_use, endpoint->lost, ago_us(pong_ns, now_ns).text);
    for (unsigned lane = 0; lane < RAWE_LANES; ++lane) {
        if (NULL != endpoint->peer.conn[lane]) {
            dump_conn(endpoint->peer.conn[lane], head, now_ns);
        } else {
            opal_output(0, "%s lane %s state: state=unused", head, lane_names[lane]);
        }
    }
}

void mca_btl_rawe_dump(struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *only,
                       int verbose)
{
    mca_btl_rawe_module_t *module = (mca_btl_rawe_module_t *)btl;
    mca_btl_base_endpoint_t *endpoint;
    uint64_t now_ns = mca_btl_rawe_now_ns();

    mca_btl_rawe_lock();
    /* The PML comes once for each peer; the counters are those of all peers together. */
    if (NULL == only || verbose > 0) {
        mca_btl_rawe_metrics_report(module, "rawe dump");
    }
    opal_mutex_lock(&module->endpoints_lock);
    OPAL_LIST_FOREACH(endpoint, &module->endpoints, mca_btl_base_endpoint_t)
    {
        if (NULL == only || only == endpoint) {
            dump_endpoint(module, endpoint, now_ns);
        }
    }
    opal_mutex_unlock(&module->endpoints_lock);
    mca_btl_rawe_unlock();
}
