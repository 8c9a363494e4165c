/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Lines of runs: see cluster_report.h.
 */
#include "cluster_report.h"

#include <stdio.h>
#include <string.h>

enum {
    OF_MESSAGES = 1,
    OF_FLOWS = 2,
    OF_WORKLOADS = 4,
    OF_COLLECTIVES = 8, /**< and OF_MESSAGES */
    OF_ENDLESS = OF_FLOWS | OF_WORKLOADS,
    OF_PAIRS = OF_MESSAGES | OF_FLOWS,
    OF_ALL = OF_MESSAGES | OF_ENDLESS
};

struct column {
    const char *name;
    int width, digits; /**< behind the point */
    unsigned of;       /**< which runs */
    double value;
    const char *text;
};

#define COLUMNS 44u

static double micros(uint64_t ns)
{
    return (double)ns / 1000;
}

static double ratio(double part, double whole)
{
    return whole == 0 ? 0 : part / whole;
}

/** Slowdowns are given in thousandths. */
static double times(uint64_t thousandths)
{
    return (double)thousandths / 1000;
}

/** All columns, with the values of a run. */
static void fill(struct column columns[COLUMNS], const struct cluster_plan *plan,
                 const struct cluster_result *result)
{
    const struct rawe_counters *counters = &result->counters;
    const struct cluster_quantiles *slowdown = result->slowdown;
    double sent = (double)counters->frames_sent, resent = (double)counters->frames_resent;
    double control =
        (double)(counters->acks_sent + counters->probes_sent + counters->connects_sent);
    double ideal = ratio((double)result->completion_ns, (double)result->ideal_ns);
    /* clang-format off */
    const struct column filled[COLUMNS] = {
        {"hosts", 5, 0, OF_ALL, plan->hosts, "in the network, receiver and pinging host included"},
        {"ranks", 5, 0, OF_ALL, plan->ranks, "of each host"},
        {"leaves", 6, 0, OF_ALL, cluster_plan_leaf_count(plan),
         "leaf switches; 1: the only one"},
        {"spines", 6, 0, OF_ALL, plan->spines, "that join them"},
        {"size", 7, 0, OF_PAIRS, plan->size_bytes, "bytes of a message"},
        {"Mb/s", 6, 0, OF_ALL, (double)plan->rate_mbps, "rate of the links"},
        {"buffer", 7, 0, OF_ALL, (double)plan->port_bytes, "bytes that a port buffers"},
        {"busy", 6, 1, OF_ENDLESS, micros(plan->busy_ns),
         "microseconds that programs which receive compute at a time"},
        {"load", 4, 0, OF_WORKLOADS, plan->load_percent, "percent of the hosts' links"},
        {"seed", 4, 0, OF_ALL, (double)plan->seed, "of the run"},
        {"fan", 3, 0, OF_COLLECTIVES, plan->fan_out, "of a bcast's tree; 0: binomial"},
        {"multi", 5, 0, OF_COLLECTIVES, plan->multicast, "1: by multicast"},
        {"loss", 6, 0, OF_COLLECTIVES, plan->loss_ppm, "frames to a host lost by chance, in a million"},
        {"cost", 5, 0, OF_COLLECTIVES, (double)plan->frame_ns,
         "nanoseconds that a process takes for a frame or batch"},
        {"time", 10, 1, OF_MESSAGES, micros(result->completion_ns),
         "microseconds from the start of the first message to the arrival of the last; of a collective, mean"},
        {"ideal", 5, 2, OF_MESSAGES, ideal, "that time as a multiple of the ideal one"},
        {"p50", 9, 1, OF_MESSAGES, micros(result->message_ns.p50),
         "microseconds that a message, or a collective, takes: median"},
        {"p99", 9, 1, OF_MESSAGES, micros(result->message_ns.p99), "... 99 of 100, or less"},
        {"p99.9", 9, 1, OF_MESSAGES, micros(result->message_ns.p999), "... 999 of 1000, or less"},
        {"used", 5, 3, OF_ENDLESS, result->utilization,
         "data that arrives, by that of max-min fair rates; w3, w4: by that begun"},
        {"fair", 5, 3, OF_FLOWS, result->fair_part, "... what exceeds a flow's rate not counted"},
        {"Jain", 5, 3, OF_FLOWS, result->jain_index,
         "Jain's index over 10 ms of flows by their fair rates, mean"},
        {"f50", 6, 2, OF_WORKLOADS, times(slowdown[CLUSTER_SHORT].p50),
         "slowdown of messages up to a frame: median"},
        {"f99", 7, 2, OF_WORKLOADS, times(slowdown[CLUSTER_SHORT].p99), "... 99 of 100, or less"},
        {"f99.9", 7, 2, OF_WORKLOADS, times(slowdown[CLUSTER_SHORT].p999), "... 999 of 1000, or less"},
        {"e50", 6, 2, OF_WORKLOADS, times(slowdown[CLUSTER_EAGER].p50),
         "slowdown of messages up to the eager limit: median"},
        {"e99", 7, 2, OF_WORKLOADS, times(slowdown[CLUSTER_EAGER].p99), "... 99 of 100, or less"},
        {"e99.9", 7, 2, OF_WORKLOADS, times(slowdown[CLUSTER_EAGER].p999), "... 999 of 1000, or less"},
        {"l50", 6, 2, OF_WORKLOADS, times(slowdown[CLUSTER_LONG].p50),
         "slowdown of messages beyond it: median"},
        {"l99", 7, 2, OF_WORKLOADS, times(slowdown[CLUSTER_LONG].p99), "... 99 of 100, or less"},
        {"l99.9", 7, 2, OF_WORKLOADS, times(slowdown[CLUSTER_LONG].p999), "... 999 of 1000, or less"},
        {"ping50", 8, 1, OF_ENDLESS, micros(result->ping_ns.p50),
         "microseconds of half a 1 KiB round trip: median"},
        {"ping99", 8, 1, OF_ENDLESS, micros(result->ping_ns.p99), "... 99 of 100, or less"},
        {"pslow", 6, 2, OF_ENDLESS,
         ratio((double)result->ping_ns.p99, (double)result->ping_unloaded_ns),
         "... by the median when nothing else is sent"},
        {"qmax", 7, 0, OF_ALL, (double)result->queue_most_bytes, "bytes in the longest queue"},
        {"q99.9", 7, 0, OF_ALL, (double)result->queue_p999_bytes,
         "... that 999 of 1000 frames find at their port, or less"},
        {"frames", 8, 0, OF_ALL, sent, "data frames sent, each counted once"},
        {"dropped", 7, 0, OF_ALL, (double)result->dropped_frames, "frames that ports dropped"},
        {"resent", 7, 0, OF_ALL, resent, "data frames sent again"},
        {"%", 5, 2, OF_ALL, 100 * ratio(resent, sent + resent), "... of 100 data frames sent"},
        {"again", 5, 2, OF_ALL, 100 * ratio((double)counters->duplicates, sent + resent),
         "... that had arrived before"},
        {"ctl", 5, 3, OF_ALL, ratio(control, sent),
         "acknowledgements, probes and CONNECTs for each data frame"},
        {"probed", 7, 0, OF_ALL, (double)counters->losses_probed,
         "data frames found lost by a probe, after a timeout"},
        {"plain", 5, 0, OF_ALL, (double)counters->validations_failed,
         "times that a sender concluded that batches do not pass"},
    };
    /* clang-format on */
    memcpy(columns, filled, sizeof(filled));
}

static unsigned of_run(const struct cluster_plan *plan)
{
    return cluster_plan_is_workload(plan)     ? OF_WORKLOADS
           : plan->duration_ns != 0           ? OF_FLOWS
           : cluster_plan_is_collective(plan) ? OF_MESSAGES | OF_COLLECTIVES
                                              : OF_MESSAGES;
}

void cluster_report_head(enum cluster_form form, const struct cluster_plan *plan)
{
    static const struct cluster_result nothing;
    bool csv = form == CLUSTER_FORM_CSV;
    struct column columns[COLUMNS];

    fill(columns, plan, &nothing);
    printf("%*s", csv ? 0 : -11, "traffic");
    for (unsigned i = 0; i < COLUMNS; i++) {
        if ((columns[i].of & of_run(plan)) != 0) {
            printf("%c%*s", csv ? ',' : ' ', csv ? 0 : columns[i].width, columns[i].name);
        }
    }
    printf("\n");
}

void cluster_report_run(enum cluster_form form, const struct cluster_plan *plan,
                        const struct cluster_result *result)
{
    bool csv = form == CLUSTER_FORM_CSV;
    struct column columns[COLUMNS];

    fill(columns, plan, result);
    printf("%*s", csv ? 0 : -11, cluster_pattern_names[plan->pattern]);
    for (unsigned i = 0; i < COLUMNS; i++) {
        if ((columns[i].of & of_run(plan)) != 0) {
            printf("%c%*.*f", csv ? ',' : ' ', csv ? 0 : columns[i].width, columns[i].digits,
                   columns[i].value);
        }
    }
    printf("\n");
    fflush(stdout);
}

void cluster_report_explain(const struct cluster_plan *plan)
{
    static const struct cluster_result nothing;
    struct column columns[COLUMNS];

    fill(columns, plan, &nothing);
    for (unsigned i = 0; i < COLUMNS; i++) {
        printf("  %-8s %s\n", columns[i].name, columns[i].text);
    }
}
