/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What can be seen from outside: counters, dump of a module's state, warning of a full ring.
 */
#include "btl_rawe.h"

#include "btl_rawe_help.h"
#include "btl_rawe_params.h"

#include "opal/util/output.h"

#include <inttypes.h>
#include <stdio.h>

/** Counters a line. */
#define PER_LINE 6u

static void report_counter(char *line, size_t line_bytes, size_t *used, unsigned *on_line,
                           const char *head, const char *name, uint64_t value)
{
    if (0 == *on_line) {
        *used = (size_t) snprintf(line, line_bytes, "%s", head);
    }
    if (*used < line_bytes) {
        *used += (size_t) snprintf(line + *used, line_bytes - *used, " %s=%" PRIu64, name, value);
    }
    if (++*on_line == PER_LINE) {
        opal_output(0, "%s", line);
        *on_line = 0;
    }
}

void mca_btl_rawe_stats_report(mca_btl_rawe_module_t *module, const char *title)
{
    struct rawe_link_counters link;
    char head[160], line[1024];
    size_t used = 0;
    unsigned on_line = 0;
    const uint64_t *values = (const uint64_t *) &module->engine.counters;

    snprintf(head, sizeof(head), "%s: host %s rank %u interface %s:", title,
             mca_btl_rawe_compat_my_hostname(), (unsigned) OPAL_PROC_MY_NAME.vpid,
             module->interface.name);
    for (unsigned i = 0; NULL != rawe_counter_descriptions[i].name; ++i) {
        report_counter(line, sizeof(line), &used, &on_line, head,
                       rawe_counter_descriptions[i].name, values[i]);
    }
    rawe_link_read_counters(module->link, &link);
    report_counter(line, sizeof(line), &used, &on_line, head, "link_frames_sent",
                   link.frames_sent);
    report_counter(line, sizeof(line), &used, &on_line, head, "link_frames_received",
                   link.frames_received);
    report_counter(line, sizeof(line), &used, &on_line, head, "link_send_full", link.send_full);
    report_counter(line, sizeof(line), &used, &on_line, head, "link_send_errors",
                   link.send_errors);
    report_counter(line, sizeof(line), &used, &on_line, head, "link_ring_drops",
                   link.ring_drops);
    if (NULL != module->bulk) {
        rawe_bulk_read_counters(module->bulk, &link);
        report_counter(line, sizeof(line), &used, &on_line, head, "bulk_frames_sent",
                       link.frames_sent);
        report_counter(line, sizeof(line), &used, &on_line, head, "bulk_frames_received",
                       link.frames_received);
        report_counter(line, sizeof(line), &used, &on_line, head, "bulk_send_full",
                       link.send_full);
        report_counter(line, sizeof(line), &used, &on_line, head, "bulk_send_errors",
                       link.send_errors);
        report_counter(line, sizeof(line), &used, &on_line, head, "bulk_queue_drops",
                       link.ring_drops);
    }
    if (0 != on_line) {
        opal_output(0, "%s", line);
    }
}

void mca_btl_rawe_stats_check_ring(mca_btl_rawe_module_t *module)
{
    struct rawe_link_counters link;

    if (module->ring_warned) {
        return;
    }
    rawe_link_read_counters(module->link, &link);
    uint64_t drops = link.ring_drops;
    if (NULL != module->bulk) {
        rawe_bulk_read_counters(module->bulk, &link);
        drops += link.ring_drops;
    }
    if (0 != drops) {
        module->ring_warned = true;
        mca_btl_rawe_help_ring_dropped(module->interface.name, drops,
                                       mca_btl_rawe_params.ring_bytes);
    }
}

static void dump_conn(const struct rawe_conn *conn)
{
    static const char *const states[] = {"idle", "connecting", "open", "peer closed", "failed"};

    opal_output(0,
                "    lane %u: %s, id 0x%08x, peer's 0x%08x, frames %" PRIu32 " to %" PRIu32
                ", in flight %" PRIu32 ", to transmit %" PRIu32 ", sacked %" PRIu32
                ", window %" PRIu32 ", credit %" PRIu32 ", rtt %" PRIu64 " ns (least %" PRIu64
                "), probes unanswered %" PRIu32 ", queue %s",
                conn->lane, states[conn->state], conn->local_id, conn->peer_id, conn->una,
                conn->next, conn->in_flight, conn->to_transmit, conn->sacked,
                conn->congestion.window, conn->peer_credit, conn->rtt.smoothed_ns,
                UINT64_MAX == conn->rtt.minimum_ns ? 0 : conn->rtt.minimum_ns,
                conn->probes_unanswered, NULL == conn->queue ? "empty" : "not empty");
    if (NULL != conn->acktr) {
        opal_output(0, "      received up to %" PRIu32 ", %" PRIu32 " beyond, %" PRIu32
                    " not acknowledged yet",
                    conn->acktr->next, conn->acktr->beyond, conn->unacked_frames);
    }
}

void mca_btl_rawe_dump(struct mca_btl_base_module_t *btl, struct mca_btl_base_endpoint_t *only,
                       int verbose)
{
    mca_btl_rawe_module_t *module = (mca_btl_rawe_module_t *) btl;
    mca_btl_base_endpoint_t *endpoint;
    char mac[18];

    mca_btl_rawe_lock();
    mca_btl_rawe_stats_report(module, "rawe dump");
    OPAL_LIST_FOREACH (endpoint, &module->endpoints, mca_btl_base_endpoint_t) {
        if (NULL != only && only != endpoint) {
            continue;
        }
        opal_output(0, "  peer rank %u on %s, %s, path MTU %" PRIu32,
                    (unsigned) endpoint->proc->proc_name.vpid,
                    mca_btl_rawe_compat_hostname(endpoint->proc),
                    mca_btl_rawe_mac_text(endpoint->address.mac, mac), endpoint->path_mtu_bytes);
        for (unsigned lane = 0; lane < RAWE_LANES && verbose >= 0; ++lane) {
            if (NULL != endpoint->conn[lane]) {
                dump_conn(endpoint->conn[lane]);
            }
        }
    }
    mca_btl_rawe_unlock();
}
