/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * All metrics of a module in one list: those of the engine, the ports, the responder and the pools.
 * Read by the final report, by rawe-top, and by a debugger, which also sees connections.
 */
#include "btl_rawe_metrics.h"

#include "btl_rawe_endpoint.h"
#include "btl_rawe_help.h"
#include "btl_rawe_lock.h"
#include "btl_rawe_module.h"
#include "btl_rawe_multicast.h"
#include "btl_rawe_params.h"
#include "core/conn/rawe_conn_send.h"
#include "linux/sys/rawe_monitor.h"

#include "opal/util/output.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/** All counters of a module. */
struct counted {
    struct rawe_counters engine;
    struct rawe_port_counters link, bulk, group_bulk;
    struct rawe_responder_counters responder;
    struct rawe_group_counters groups;
    uint64_t frames_most, buffers_most, group_drops;
};

struct metric {
    const char *name;
    // cppcheck-suppress unusedStructMember ; test/lint makes a table of doc/counters.md of it
    const char *text;
    size_t offset;  /**< offset in struct counted */
    bool watermark; /**< the maximum of a quantity, instead of a count of events */
};

#define COUNT(field) offsetof(struct counted, field), false
#define MOST(field) offsetof(struct counted, field), true

static const struct metric metrics[] = {
#define X(name, text) {#name, text, COUNT(engine.name)},
    RAWE_COUNTER_LIST(X)
#undef X
        {"link_frames_sent", "plain frames handed to the kernel", COUNT(link.frames_sent)},
    {"link_frames_received", "plain frames taken out of the receive ring",
     COUNT(link.frames_received)},
    {"link_send_full", "times the kernel had no room for a plain frame", COUNT(link.send_full)},
    {"link_send_errors", "plain frames the kernel refused for good, so that they are lost",
     COUNT(link.send_errors)},
    {"link_ring_drops",
     "plain frames for this process that found its receive ring full; with UDP "
     "also damaged and foreign ones",
     COUNT(link.ring_drops)},
    {"bulk_frames_sent", "frames handed to the kernel in batches", COUNT(bulk.frames_sent)},
    {"bulk_frames_received",
     "frames received in batches, where the kernel reports how many it merged",
     COUNT(bulk.frames_received)},
    {"bulk_send_full", "times the kernel had no room for a batch", COUNT(bulk.send_full)},
    {"bulk_send_errors", "batches lost because the kernel refused them for good",
     COUNT(bulk.send_errors)},
    {"bulk_queue_drops", "batches for this process that found its queue full",
     COUNT(bulk.ring_drops)},
    {"bulk_dropped_checksum",
     "packets of batches dropped: damaged, according to TCP's checksum or their length",
     COUNT(bulk.damaged)},
    {"pings_answered", "PINGs of peers answered by the responder: the process is alive",
     COUNT(responder.pings_answered)},
    {"pings_unanswered", "PINGs of peers not answered for lack of room",
     COUNT(responder.pings_unanswered)},
    {"pongs_matched", "answers of peers to this process's PINGs", COUNT(responder.pongs_matched)},
    {"pongs_unknown", "answers that match none of this process's PINGs: late or forged",
     COUNT(responder.pongs_unknown)},
    {"pings_invalid", "PINGs and answers dropped: malformed; with UDP also wrong address or port",
     COUNT(responder.frames_invalid)},
    {"ping_pauses", "pauses of the responder because of its rate limit", COUNT(responder.pauses)},
    {"frames_unacked_most", "memory for frames kept until they are acknowledged, in frames",
     MOST(frames_most)},
    {"reassembly_buffers_most", "memory for fragmented messages, in messages", MOST(buffers_most)},
    {"multicast_messages_sent",
     "messages to a group of processes, including those that test the group",
     COUNT(groups.messages_sent)},
    {"multicast_messages_received", "messages from other members of groups",
     COUNT(groups.messages_delivered)},
    {"multicast_frames_sent", "frames to a group with data, each counted once",
     COUNT(groups.frames_sent)},
    {"multicast_batches_sent", "batches to a group, of several of these frames each",
     COUNT(groups.batches_sent)},
    {"multicast_repairs", "frames sent again, each to one member by its connection",
     COUNT(groups.repairs_sent)},
    {"multicast_asked", "messages that tell a member what was sent, or forward that",
     COUNT(groups.status_sent)},
    {"multicast_nacks_sent", "requests of this process for missing frames",
     COUNT(groups.nacks_sent)},
    {"multicast_acks_sent", "acknowledgements of frames to a group", COUNT(groups.acks_sent)},
    {"multicast_stalls", "times a message to a group waited for acknowledgements",
     COUNT(groups.window_stalls)},
    {"multicast_dropped",
     "frames of groups that were dropped: damaged, malformed, of another group, "
     "doubled, or without room",
     COUNT(group_drops)},
};

#define METRICS (sizeof(metrics) / sizeof(metrics[0]))

/** Read the current values of all metrics; makes system calls. Lock held. */
static void metrics_read(mca_btl_rawe_module_t *module, uint64_t *values)
{
    struct counted counted;

    memset(values, 0, METRICS * sizeof(*values));
    if (!atomic_load_explicit(&module->open, memory_order_acquire)) {
        return;
    }
    counted.engine = module->engine.counters;
    rawe_port_read_counters(module->link, &counted.link);
    rawe_port_read_counters(module->bulk, &counted.bulk);
    rawe_port_read_counters(module->group_bulk, &counted.group_bulk);
    rawe_responder_read_counters(module->responder, &counted.responder);
    counted.groups = mca_btl_rawe_multicast_counters(module);
    const struct rawe_group_counters *groups = &counted.groups;
    counted.frames_most = module->engine.frames.allocated;
    counted.buffers_most = module->engine.reassembly_buffers.allocated;
    counted.group_drops = groups->duplicates + groups->no_buffer + groups->dropped_decode +
                          groups->dropped_source + groups->dropped_group + groups->dropped_member +
                          groups->dropped_checksum + groups->dropped_outside +
                          groups->dropped_fragment + counted.group_bulk.damaged;
    for (unsigned i = 0; i < METRICS; ++i) {
        memcpy(&values[i], (const char *)&counted + metrics[i].offset, sizeof(values[i]));
    }
}

/** Counters per line. */
#define PER_LINE 6u

/** Lines of "name=value" words, each beginning with the same head, for people and scripts. */
struct report {
    char head[160];
    char line[1024];
    size_t used;
    unsigned on_line;
};

static void report_flush(struct report *report)
{
    if (0 != report->on_line) {
        opal_output(0, "%s", report->line);
        report->on_line = 0;
    }
}

static void report_add(struct report *report, const char *name, uint64_t value)
{
    if (0 == report->on_line) {
        report->used = (size_t)snprintf(report->line, sizeof(report->line), "%s", report->head);
    }
    if (report->used < sizeof(report->line)) {
        report->used +=
            (size_t)snprintf(report->line + report->used, sizeof(report->line) - report->used,
                             " %s=%" PRIu64, name, value);
    }
    if (++report->on_line == PER_LINE) {
        report_flush(report);
    }
}

/** Return what follows an interface's name in reports: it may have a module for each kind of port. */
static const char *kind_suffix(const mca_btl_rawe_module_t *module)
{
    return module->address.udp ? "/udp" : "";
}

void mca_btl_rawe_metrics_report(mca_btl_rawe_module_t *module, const char *title)
{
    static const uint64_t none[METRICS];
    uint64_t values[METRICS];
    struct report report = {.on_line = 0};

    snprintf(report.head, sizeof(report.head), "%s: host %s rank %u interface %s%s:", title,
             mca_btl_rawe_compat_my_hostname(), (unsigned)OPAL_PROC_MY_NAME.vpid,
             module->interface.name, kind_suffix(module));
    metrics_read(module, values);
    if (0 == memcmp(values, none, sizeof(none))) {
        opal_output(0, "%s unused", report.head);
        return;
    }
    for (unsigned i = 0; i < METRICS; ++i) {
        if (0 != values[i]) {
            report_add(&report, metrics[i].name, values[i]);
        }
    }
    report_flush(&report);
    /* The non-empty buckets, named by their upper limits. */
    for (unsigned i = 0; i < RAWE_HISTOGRAM_BUCKETS; ++i) {
        char name[48] = "round_trips_longer";
        if (i + 1 < RAWE_HISTOGRAM_BUCKETS) {
            snprintf(name, sizeof(name), "round_trips_below_%" PRIu64 "ns",
                     rawe_histogram_limit_ns(i));
        }
        if (0 != module->engine.round_trips.count[i]) {
            report_add(&report, name, module->engine.round_trips.count[i]);
        }
    }
    report_flush(&report);
}

void mca_btl_rawe_metrics_check_ring(mca_btl_rawe_module_t *module)
{
    struct rawe_port_counters link, bulk;

    rawe_port_read_counters(module->link, &link);
    rawe_port_read_counters(module->bulk, &bulk);
    /* A UDP socket counts damaged datagrams and those that found no room as one. */
    if (!module->address.udp && 0 != link.ring_drops + bulk.ring_drops) {
        MCA_BTL_RAWE_HELP_IF_ASKED(ring_dropped_frames, module->interface.name,
                                   link.ring_drops + bulk.ring_drops,
                                   mca_btl_rawe_state.ring_bytes);
    }
}

/*
 * Lines of text for rawe-top:
 *
 *     rank 3
 *     job 1234567169              its id in Open MPI's runtime
 *     interface eth0              the following lines are about this interface
 *     counter frames_sent 17
 *     most reassembly_buffers_most 2
 *     round_trips 2048 5          five took less than 2048 ns; 0 stands for the longest
 *     interface lo
 *     ...
 *
 * "busy" replaces the interfaces if MPI's thread did not leave the engines in time.
 */

static struct rawe_monitor *monitor;

static void describe_module(FILE *out, mca_btl_rawe_module_t *module)
{
    const struct rawe_histogram *histogram = &module->engine.round_trips;
    uint64_t values[METRICS];

    fprintf(out, "interface %s%s\n", module->interface.name, kind_suffix(module));
    metrics_read(module, values);
    for (unsigned i = 0; i < METRICS; ++i) {
        fprintf(out, "%s %s %" PRIu64 "\n", metrics[i].watermark ? "most" : "counter",
                metrics[i].name, values[i]);
    }
    for (unsigned i = 0; i < RAWE_HISTOGRAM_BUCKETS; ++i) {
        uint64_t limit_ns = rawe_histogram_limit_ns(i);
        if (0 != histogram->count[i]) {
            fprintf(out, "round_trips %" PRIu64 " %" PRIu64 "\n",
                    UINT64_MAX == limit_ns ? 0 : limit_ns, histogram->count[i]);
        }
    }
}

/** Describe the process to rawe-top. Called in the service thread, which claims the lock. */
static char *describe_process(void *context)
{
    struct mca_btl_rawe_state *state = &mca_btl_rawe_state;
    char *text = NULL;
    size_t len_bytes;
    FILE *out = open_memstream(&text, &len_bytes);

    if (NULL == out) {
        return NULL;
    }
    fprintf(out, "rank %u\njob %u\n", (unsigned)OPAL_PROC_MY_NAME.vpid,
            (unsigned)OPAL_PROC_MY_NAME.jobid);
    if (mca_btl_rawe_lock_claim_patiently()) {
        for (unsigned i = 0; i < state->module_count; ++i) {
            if (state->modules[i]->open || !state->modules[i]->address.udp) {
                describe_module(out, state->modules[i]);
            }
        }
        mca_btl_rawe_unlock();
    } else {
        fprintf(out, "busy\n");
    }
    (void)fclose(out);
    return text;
}

void mca_btl_rawe_metrics_monitor_open(void)
{
    struct rawe_port_error error;

    (void)rawe_monitor_open(&monitor, describe_process, NULL, mca_btl_rawe_state.service, &error);
}

void mca_btl_rawe_metrics_monitor_close(void)
{
    rawe_monitor_close(monitor);
    monitor = NULL;
}

/* ---- btl_dump: endpoints and connections as lines, for a debugger ---- */

struct when {
    char text[32];
};

/** Format the time since then; 0: never. */
static struct when ago_us(uint64_t then_ns, uint64_t now_ns)
{
    struct when out = {"never"};

    if (0 != then_ns && then_ns <= now_ns) {
        snprintf(out.text, sizeof(out.text), "%" PRIu64 "us", (now_ns - then_ns) / 1000);
    }
    return out;
}

static void dump_conn(const struct rawe_conn *conn, const char *head, uint64_t now_ns)
{
    static const char *const states[] = {
        [RAWE_CONN_IDLE] = "idle",     [RAWE_CONN_CONNECTING] = "connecting",
        [RAWE_CONN_OPEN] = "open",     [RAWE_CONN_PEER_CLOSED] = "peer_closed",
        [RAWE_CONN_FAILED] = "failed",
    };
    static const char *const reasons[RAWE_BLOCKED_BY_COUNT] = {
        [RAWE_BLOCKED_BY_NOTHING] = "nothing", [RAWE_BLOCKED_BY_PORT] = "port",
        [RAWE_BLOCKED_BY_CREDIT] = "credit",   [RAWE_BLOCKED_BY_CONGESTION] = "congestion",
        [RAWE_BLOCKED_BY_WINDOW] = "window",   [RAWE_BLOCKED_BY_PEER] = "peer",
    };
    const struct rawe_sendwin *window = &conn->tx.window;
    uint64_t queued_bytes = 0;

    for (const struct rawe_send *send = conn->tx.queue.first; NULL != send; send = send->next) {
        queued_bytes += send->total_bytes - send->framed_bytes;
    }
    opal_output(0,
                "%s lane=%s state=%s blocked_by=%s id=0x%08" PRIx32 " peer_id=0x%08" PRIx32
                " una=%" PRIu32 " next=%" PRIu32 " in_flight=%" PRIu32 " to_transmit=%" PRIu32
                " queued_bytes=%" PRIu64 " congestion_window=%" PRIu32 " credit=%" PRIu32
                " rtt_ns=%" PRIu64 " expected=%" PRIu32 " asked_ago=%s silent_for=%s",
                head, RAWE_LANE_BULK == conn->lane ? "bulk" : "express",
                states[conn->handshake.state], reasons[rawe_conn_blocked_by(conn)],
                conn->handshake.local_id, conn->handshake.peer_id, window->una, window->next,
                window->in_flight, window->to_transmit, queued_bytes, conn->tx.cc.window,
                conn->tx.peer_credit, conn->tx.rtt.smoothed_ns, conn->rx.window.next,
                ago_us(conn->path.liveness.asked_ns, now_ns).text,
                ago_us(conn->path.liveness.silent_since_ns, now_ns).text);
}

static void dump_endpoint(const mca_btl_rawe_module_t *module,
                          const mca_btl_base_endpoint_t *endpoint, uint64_t now_ns)
{
    uint64_t pong_ns = NULL == endpoint->watch ? 0 : rawe_watch_last_pong_ns(endpoint->watch);
    char head[128];

    snprintf(head, sizeof(head),
             "rawe dump: rank %u interface %s%s peer rank %u:", (unsigned)OPAL_PROC_MY_NAME.vpid,
             module->interface.name, kind_suffix(module), (unsigned)endpoint->proc->proc_name.vpid);
    opal_output(0, "%s host=%s mac=%s path_mtu=%" PRIu32 " in_use=%d lost=%d last_pong_ago=%s",
                head, mca_btl_rawe_compat_hostname(endpoint->proc).text,
                mca_btl_rawe_address_text(&endpoint->address).text, endpoint->path_mtu_bytes,
                endpoint->in_use, endpoint->lost, ago_us(pong_ns, now_ns).text);
    for (unsigned lane = 0; lane < RAWE_LANES; ++lane) {
        if (NULL != endpoint->peer.conn[lane]) {
            dump_conn(endpoint->peer.conn[lane], head, now_ns);
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
    /* The PML calls this once per peer; the counters cover all peers. */
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
