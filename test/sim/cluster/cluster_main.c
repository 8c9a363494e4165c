/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * rawe-cluster: many hosts on a switch, in virtual time. Command line.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster_plan.h"
#include "cluster_report.h"
#include "cluster_run.h"
#include "options.h"

#define LIST_MAX 16u

/** The values of an option with a list. */
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
static bool csv;
/** Rate that interfaces report, in b/s; UINT64_MAX: that of their links. */
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

/** Read a number, perhaps with a unit, as uint64_t. */
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
static bool run(enum cluster_form form, const struct cluster_plan *plan)
{
    struct cluster_result result = cluster_run(plan);

    cluster_report_run(form, plan, &result);
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
static unsigned run_all(enum cluster_form form)
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
        incomplete += !run(form, &plan);
    }
    return incomplete;
}

static void end_help(void)
{
    puts("Values may have a unit: kB, MB, KiB, MiB for bytes; M, G for rates; us for ns.\n"
         "Exit code: 0 all messages have arrived, 1 some have not, 2 wrong usage.\n\n"
         "Columns:");
    cluster_report_explain(&wanted);
}

int main(int argc, char **argv)
{
    options_read(argc, argv, help, rows, sizeof(rows) / sizeof(rows[0]), end_help);
    enum cluster_form form = csv ? CLUSTER_FORM_CSV : CLUSTER_FORM_TABLE;
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
    cluster_report_head(form, &wanted);
    return run_all(form) == 0 ? 0 : 1;
}
