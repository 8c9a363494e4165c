/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The report of a module's counters, and the warning of a full ring.
 */
#include "btl_rawe_stats.h"

#include "btl_rawe_help.h"
#include "btl_rawe_metrics.h"
#include "btl_rawe_params.h"
#include "btl_rawe_state.h"

#include "opal/util/output.h"

#include <inttypes.h>
#include <stdio.h>

/** Counters a line. */
#define PER_LINE 6u

/** Lines of "name=value" words, each with the same words in front: for people and for scripts. */
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

/** Buckets in which something is, named by their upper limit. */
static void report_round_trips(struct report *report, const struct rawe_histogram *histogram)
{
    char name[48];

    for (unsigned i = 0; i < RAWE_HISTOGRAM_BUCKETS; ++i) {
        if (0 == histogram->count[i]) {
            continue;
        }
        if (i + 1 < RAWE_HISTOGRAM_BUCKETS) {
            snprintf(name, sizeof(name), "round_trips_below_%" PRIu64 "ns",
                     rawe_histogram_limit_ns(i));
        } else {
            snprintf(name, sizeof(name), "round_trips_longer");
        }
        report_add(report, name, histogram->count[i]);
    }
}

/** Has nothing at all been counted? */
static bool unused(const uint64_t *values)
{
    for (unsigned i = 0; i < mca_btl_rawe_metric_count(); ++i) {
        if (0 != values[i]) {
            return false;
        }
    }
    return true;
}

void mca_btl_rawe_stats_report(mca_btl_rawe_module_t *module, const char *title)
{
    uint64_t values[MCA_BTL_RAWE_METRICS_MAX];
    struct report report = {.on_line = 0};

    snprintf(report.head, sizeof(report.head), "%s: host %s rank %u interface %s:", title,
             mca_btl_rawe_compat_my_hostname(), (unsigned)OPAL_PROC_MY_NAME.vpid,
             module->interface.name);
    mca_btl_rawe_metrics_read(module, values);
    if (unused(values)) {
        opal_output(0, "%s unused", report.head);
        return;
    }
    for (unsigned i = 0; i < mca_btl_rawe_metric_count(); ++i) {
        report_add(&report, mca_btl_rawe_metric(i).name, values[i]);
    }
    report_flush(&report);
    report_round_trips(&report, &module->engine.round_trips);
    report_flush(&report);
}

void mca_btl_rawe_stats_check_ring(mca_btl_rawe_module_t *module)
{
    struct rawe_port_counters link;

    if (module->ring_warned) {
        return;
    }
    rawe_port_read_counters(module->link, &link);
    uint64_t drops = link.ring_drops;
    if (NULL != module->bulk) {
        rawe_port_read_counters(module->bulk, &link);
        drops += link.ring_drops;
    }
    if (0 != drops) {
        module->ring_warned = true;
        mca_btl_rawe_help_ring_dropped(module->interface.name, drops,
                                       mca_btl_rawe_state.ring_bytes);
    }
}
