/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * rawe-cluster: the command line, and a line for each run.
 */
#include "cluster.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"

/* ---- report ---- */

/** Print lines with commas between the values. */
static bool csv;

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
    int width, digits; /**< digits after the point */
    unsigned of;       /**< kinds of runs that have this column */
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

/** All columns, filled with the values of a run. */
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

/** Print a run's line, or without a result, the column names. */
static void report(const struct cluster_plan *plan, const struct cluster_result *result)
{
    static const struct cluster_result nothing;
    struct column columns[COLUMNS];

    fill(columns, plan, result != NULL ? result : &nothing);
    printf("%*s", csv ? 0 : -11, result != NULL ? cluster_pattern_names[plan->pattern] : "traffic");
    for (unsigned i = 0; i < COLUMNS; i++) {
        const struct column *column = &columns[i];
        const int width = csv ? 0 : column->width;
        if ((column->of & of_run(plan)) != 0 && result == NULL) {
            printf("%c%*s", csv ? ',' : ' ', width, column->name);
        } else if ((column->of & of_run(plan)) != 0) {
            printf("%c%*.*f", csv ? ',' : ' ', width, column->digits, column->value);
        }
    }
    printf("\n");
    fflush(stdout);
}

static void explain_columns(const struct cluster_plan *plan)
{
    static const struct cluster_result nothing;
    struct column columns[COLUMNS];

    fill(columns, plan, &nothing);
    for (unsigned i = 0; i < COLUMNS; i++) {
        printf("  %-8s %s\n", columns[i].name, columns[i].text);
    }
}

/* ---- command line ---- */

#define LIST_MAX 16u

/** The values of an option that takes a list. */
struct list {
    uint64_t values[LIST_MAX];
    unsigned count;
};

static struct cluster_plan wanted = {
    .pattern = CLUSTER_INCAST,
    .inflow_bytes = 100000,
    .leaf_hosts = CLUSTER_HOSTS_MAX,
    .spines = 1,
    .mtu_bytes = 1500,
    .wire_ns = 500,
    .host_ns = 5000,
    .merges = true,
};
static struct list hosts = {{9}, 1}, ranks = {{1}, 1}, sizes = {{64 * 1024}, 1},
                   buffers = {{1000000}, 1}, rates = {{25000000000}, 1}, busy = {{0}, 1},
                   loads = {{60}, 1}, seeds = {{1}, 1};
/** Rate that interfaces report, in b/s; UINT64_MAX: the rate of their links. */
static uint64_t reported = UINT64_MAX;

/** Read a number and its unit, and move `*value` past them. */
static bool read_number(const char **value, uint64_t *number)
{
    static const struct {
        const char *name;
        uint64_t times;
    } units[] = {
        {"kB", 1000},   {"MB", 1000000},   {"KiB", 1024}, {"MiB", 1024 * 1024},
        {"M", 1000000}, {"G", 1000000000}, {"us", 1000},  {"", 1},
    };
    char *end;

    errno = 0;
    *number = strtoull(*value, &end, 10);
    if (errno != 0 || end == *value || **value == '-') {
        return false;
    }
    size_t len = strcspn(end, ",");
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strlen(units[i].name) == len && strncmp(units[i].name, end, len) == 0) {
            *number *= units[i].times;
            *value = end + len;
            return *number / units[i].times < 1ull << 32;
        }
    }
    return false;
}

static bool read_list(const struct option_row *row, const char *value)
{
    struct list *list = row->to;
    const char *at = value;

    list->count = 0;
    do {
        uint64_t *next = &list->values[list->count];
        at += list->count != 0;
        if (list->count == LIST_MAX || !read_number(&at, next) || (double)*next < row->least ||
            (double)*next > row->most) {
            return false;
        }
        list->count++;
    } while (*at == ',');
    return true;
}

/** Read a number with an optional unit as uint64_t. */
static bool read_one(const struct option_row *row, const char *value)
{
    uint64_t *number = row->to;

    return read_number(&value, number) && *value == '\0' && (double)*number >= row->least &&
           (double)*number <= row->most;
}

static bool read_duration(const struct option_row *row, const char *value)
{
    if (!read_one(row, value)) {
        return false;
    }
    wanted.duration_ns *= 1000000;
    return true;
}

static bool read_traffic(const struct option_row *row, const char *value)
{
    for (unsigned i = 0; i < CLUSTER_PATTERNS; i++) {
        if (strcmp(value, cluster_pattern_names[i]) == 0) {
            wanted.pattern = (enum cluster_pattern)i;
            return true;
        }
    }
    return false;
}

static bool read_congestion(const struct option_row *row, const char *value)
{
    const struct rawe_cc_type *const *type = rawe_cc_types;

    while (*type != NULL && strcmp((*type)->name, value) != 0) {
        type++;
    }
    wanted.congestion = *type;
    return *type != NULL;
}

static const char help[] =
    "Usage: rawe-cluster [OPTION...]\n"
    "Simulates hosts on switches, each with the real protocol engine, and prints a line for\n"
    "each run. Options with LIST take up to 16 values separated by commas: a run for each\n"
    "combination. The same options give the same lines.\n";

static const struct option_row rows[] = {
    {"traffic", "NAME",
     "incast: each host sends a message to the first one (default);\n"
     "outcast: the first one sends a message to each host;\n"
     "all-to-all: each sends one to each; permutation: each sends\n"
     "and receives one. With several ranks, all do so: in incast\n"
     "and outcast to and from the rank of the same number on the\n"
     "first host. w3, w4: messages to others at random, as long as\n"
     "those of Homa's workloads. bcast, allreduce: twenty of these,\n"
     "one after the other, of a rank a host; one byte: a barrier",
     read_traffic, .to = NULL, 0, 0,
     "incast, outcast, all-to-all, permutation, w3, w4, bcast, or allreduce"},
    {"multicast", NULL,
     "they go by multicast; else a bcast along a tree, in segments of\n"
     "64 KiB, and an allreduce in log2(hosts) rounds",
     option_on, .to = &wanted.multicast},
    {"fan-out", "COUNT", "of that tree; 1 is a chain (default 0: the tree is binomial)",
     option_unsigned, .to = &wanted.fan_out, 0, 64},
    {"loss", "PPM", "of the frames to a host, by chance, in a million (default 0)", option_unsigned,
     .to = &wanted.loss_ppm, 0, 500000},
    {"frame-cost", "NS",
     "that a process takes to send or receive a frame or a batch\n"
     "(default 0)",
     read_one, .to = &wanted.frame_ns, 0, 100000},
    {"duration", "MS",
     "messages without end, measured for that long; w3, w4: always\n"
     "(default 100 for those)",
     read_duration, .to = &wanted.duration_ns, 10, 100000},
    {"load", "LIST", "w3, w4: percent of the hosts' links (default 60)", read_list, .to = &loads, 1,
     200},
    {"hosts", "LIST", "from 2 on (default 9)", read_list, .to = &hosts, 2, CLUSTER_HOSTS_MAX},
    {"ranks", "LIST", "of each host (default 1): they share its NIC", read_list, .to = &ranks, 1,
     CLUSTER_RANKS_MAX},
    {"size", "LIST", "bytes of a message, 1 to 4MiB (default 64KiB)", read_list, .to = &sizes, 1,
     CLUSTER_MESSAGE_BYTES_MAX},
    {"leaf-hosts", "COUNT", "hosts of a leaf switch (default: there is one switch)",
     option_unsigned, .to = &wanted.leaf_hosts, 1, CLUSTER_HOSTS_MAX},
    {"spines", "COUNT", "that join the leaves (default 1)", option_unsigned, .to = &wanted.spines,
     1, CLUSTER_HOSTS_MAX},
    {"spray", NULL,
     "each frame takes a spine at random; else all of a connection\n"
     "take the same",
     option_on, .to = &wanted.sprays},
    {"rate", "LIST", "of the links in b/s: 10M to 400G (default 25G)", read_list, .to = &rates,
     10000000, 400000000000},
    {"reported", "RATE", "that interfaces report; 0: none (default: that of the links)", read_one,
     .to = &reported, 0, 400000000000},
    {"port-buffer", "LIST", "bytes that a port of the switch buffers (default 1MB)", read_list,
     .to = &buffers, 10000, 1u << 30},
    {"shared-buffer", "BYTES",
     "that the ports of a switch share: each takes no more than is\n"
     "free, and than --port-buffer",
     read_one, .to = &wanted.shared_bytes, 10000, 1u << 30},
    {"wire-delay", "NS", "delay of a link (default 500)", read_one, .to = &wanted.wire_ns, 0, 1e9},
    {"host-delay", "NS",
     "from a frame's arrival to its receipt, on average: each takes\n"
     "half of it to one and a half, by the seed (default 5000)",
     read_one, .to = &wanted.host_ns, 1, 1e9},
    {"mtu", "BYTES", "576 to 9000 (default 1500)", option_unsigned, .to = &wanted.mtu_bytes, 576,
     9000},
    {"inflow", "BYTES", "btl_rawe_inflow_bytes (default 100kB)", read_one,
     .to = &wanted.inflow_bytes, 0, 1 << 25},
    {"congestion", "NAME", "btl_rawe_congestion (default cubic)", read_congestion, .to = NULL, 0, 0,
     "the name of a congestion control"},
    {"express-first", NULL,
     "hosts send short frames before batches, as with fq_codel; the NIC\n"
     "has 64 kB that nothing overtakes",
     option_on, .to = &wanted.express_first},
    {"no-merge", NULL, "receivers do not merge frames of batches", option_off,
     .to = &wanted.merges},
    {"idle", NULL, "all pairs have exchanged a message before, and are idle", option_on,
     .to = &wanted.idle},
    {"pings", NULL,
     "without end: all that the last host does is to exchange\n"
     "messages of 1 KiB with the first one, or all by turns (w3, w4)",
     option_on, .to = &wanted.pings},
    {"busy", "LIST",
     "without end: programs that receive compute for that many ns at a\n"
     "time, and half of all time (default 0)",
     read_list, .to = &busy, 0, 1e9},
    {"seed", "LIST", "default 1", read_list, .to = &seeds, 0, UINT32_MAX},
    {"csv", NULL, "commas between the values", option_on, .to = &csv},
};

/** Run a plan and report it. Returns true if all messages have arrived. */
static bool run(const struct cluster_plan *plan)
{
    struct cluster_result result = cluster_run(plan);

    report(plan, &result);
    if (!result.complete) {
        fprintf(stderr, "rawe-cluster: some messages have not arrived within %.3f s\n",
                (double)result.completion_ns / 1e9);
    }
    return result.complete;
}

/**
 * Return a run's value of a list; `*number` is the run's number among the remaining combinations.
 */
static uint64_t pick(const struct list *list, unsigned *number)
{
    unsigned at = *number % list->count;

    *number /= list->count;
    return list->values[at];
}

/** Run each combination; the seed changes fastest. Returns the number of incomplete runs. */
static unsigned run_all(void)
{
    struct cluster_plan plan = wanted;
    unsigned runs = hosts.count * ranks.count * sizes.count * rates.count * buffers.count *
                    busy.count * loads.count * seeds.count;
    unsigned incomplete = 0;

    for (unsigned i = 0; i < runs; i++) {
        unsigned number = i;
        plan.seed = pick(&seeds, &number);
        plan.port_bytes = pick(&buffers, &number);
        plan.busy_ns = pick(&busy, &number);
        plan.load_percent = (uint32_t)pick(&loads, &number);
        plan.rate_mbps = pick(&rates, &number) / 1000000;
        plan.claim_mbps = reported != UINT64_MAX ? reported / 1000000 : plan.rate_mbps;
        plan.ranks = (uint32_t)pick(&ranks, &number);
        plan.hosts = (uint32_t)pick(&hosts, &number);
        plan.size_bytes = (uint32_t)pick(&sizes, &number);
        incomplete += !run(&plan);
    }
    return incomplete;
}

static void end_help(void)
{
    puts("Values may have a unit: kB, MB, KiB, MiB for bytes; M, G for rates; us for ns.\n"
         "Exit code: 0 all messages have arrived, 1 some have not, 2 wrong usage.\n\n"
         "Columns:");
    explain_columns(&wanted);
}

int main(int argc, char **argv)
{
    options_read(argc, argv, help, rows, sizeof(rows) / sizeof(rows[0]), end_help);
    if (cluster_plan_is_workload(&wanted) && wanted.duration_ns == 0) {
        wanted.duration_ns = 100000000;
    }
    for (unsigned i = 0; wanted.pings && i < hosts.count; i++) {
        if (wanted.duration_ns == 0 || hosts.values[i] < 3) {
            fputs("rawe-cluster: --pings wants --duration, and 3 hosts or more\n", stderr);
            return 2;
        }
    }
    bool collective = cluster_plan_is_collective(&wanted);
    if (collective ? wanted.duration_ns != 0 || ranks.count != 1 || ranks.values[0] != 1
                   : wanted.multicast) {
        fputs("rawe-cluster: --multicast wants --traffic bcast or allreduce, and these one rank a\n"
              "host, and no --duration\n",
              stderr);
        return 2;
    }
    report(&wanted, NULL);
    return run_all() == 0 ? 0 : 1;
}
