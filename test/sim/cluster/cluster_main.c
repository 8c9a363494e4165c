/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * rawe-cluster: many hosts on a switch, in virtual time. Command line.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster_plan.h"
#include "cluster_report.h"
#include "cluster_run.h"

#define LIST_MAX 16u

/** Values of an option that takes several. */
struct list {
    uint64_t values[LIST_MAX];
    unsigned count;
};

struct command {
    struct cluster_plan plan;
    struct list hosts, ranks, sizes, buffers, rates, busy, loads, seeds;
    enum cluster_form form;
};

static void usage(FILE *out)
{
    fprintf(
        out,
        "Usage: rawe-cluster [OPTION...]\n"
        "Simulates hosts on switches, each with the real protocol engine, and prints a line for\n"
        "each run. Options with LIST take values separated by commas: a run for each\n"
        "combination. The same options give the same lines.\n"
        "\n"
        "  --traffic NAME        incast: each host sends a message to the first one (default);\n"
        "                        outcast: the first one sends a message to each host;\n"
        "                        all-to-all: each sends one to each; permutation: each sends\n"
        "                        and receives one. With several ranks, all do so: in incast\n"
        "                        and outcast to and from the rank of the same number on the\n"
        "                        first host. w3, w4: messages to others at random, as long as\n"
        "                        those of Homa's workloads\n"
        "  --duration MS         messages without end, measured for that long; w3, w4: always\n"
        "                        (default 100 for those)\n"
        "  --load LIST           w3, w4: percent of the hosts' links (default 60)\n"
        "  --hosts LIST          2 to %u (default 9)\n"
        "  --ranks LIST          of each host, 1 to %u (default 1): they share its NIC\n"
        "  --size LIST           bytes of a message, 1 to 4MiB (default 64KiB)\n"
        "  --leaf-hosts COUNT    hosts of a leaf switch (default: there is one switch)\n"
        "  --spines COUNT        that join the leaves (default 1)\n"
        "  --spray               each frame takes a spine at random; else all of a connection\n"
        "                        take the same\n"
        "  --rate LIST           of the links in b/s: 10M to 400G (default 25G)\n"
        "  --port-buffer LIST    bytes that a port of the switch buffers (default 1MB)\n"
        "  --shared-buffer BYTES that the ports of a switch share: each takes no more than is\n"
        "                        free, and than --port-buffer\n"
        "  --wire-delay NS       delay of a link (default 500)\n"
        "  --host-delay NS       from a frame's arrival to its receipt, on average: each takes\n"
        "                        half of it to one and a half, by the seed (default 5000)\n"
        "  --mtu BYTES           576 to 9000 (default 1500)\n"
        "  --inflow BYTES        btl_rawe_inflow_bytes (default 0)\n"
        "  --congestion NAME     btl_rawe_congestion (default cubic)\n"
        "  --express-first       hosts send short frames before batches, as with fq_codel; the NIC\n"
        "                        has 64 kB that nothing overtakes\n"
        "  --no-merge            receivers do not merge frames of batches\n"
        "  --idle                all pairs have exchanged a message before, and rest\n"
        "  --pings               without end: all that the last host does is to exchange\n"
        "                        messages of 1 KiB with the first one, or all by turns (w3, w4)\n"
        "  --busy LIST           without end: programs that receive compute for that many ns at a\n"
        "                        time, and half of all time (default 0)\n"
        "  --seed LIST           default 1\n"
        "  --csv                 commas between the values\n"
        "\n"
        "Values may have a unit: kB, MB, KiB, MiB for bytes; M, G for rates; us for ns.\n"
        "Exit code: 0 all messages have arrived, 1 some have not, 2 wrong usage.\n",
        CLUSTER_HOSTS_MAX, CLUSTER_RANKS_MAX);
}

static _Noreturn void wrong(const char *option, const char *value, const char *want)
{
    fprintf(stderr, "rawe-cluster: --%s %s: want %s; see rawe-cluster --help\n", option, value,
            want);
    exit(2);
}

/** A number and its unit; `*value` is moved behind them. */
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

static void parse_list(struct list *list, const char *option, const char *value, uint64_t least,
                       uint64_t most)
{
    const char *at = value;
    char want[96];

    list->count = 0;
    snprintf(want, sizeof(want), "at most %u values from %llu to %llu", LIST_MAX,
             (unsigned long long)least, (unsigned long long)most);
    do {
        at += list->count != 0;
        if (list->count == LIST_MAX || !read_number(&at, &list->values[list->count]) ||
            list->values[list->count] < least || list->values[list->count] > most) {
            wrong(option, value, want);
        }
        list->count++;
    } while (*at == ',');
}

static uint64_t parse_one(const char *option, const char *value, uint64_t least, uint64_t most)
{
    struct list list;

    parse_list(&list, option, value, least, most);
    if (list.count != 1) {
        wrong(option, value, "one value");
    }
    return list.values[0];
}

static enum cluster_pattern parse_traffic(const char *value)
{
    for (unsigned i = 0; i < CLUSTER_PATTERNS; i++) {
        if (strcmp(value, cluster_pattern_names[i]) == 0) {
            return (enum cluster_pattern)i;
        }
    }
    wrong("traffic", value, "incast, outcast, all-to-all, permutation, w3, or w4");
}

static const struct option options_known[] = {
    {"traffic", required_argument, NULL, 't'},
    {"hosts", required_argument, NULL, 'n'},
    {"ranks", required_argument, NULL, 'R'},
    {"leaf-hosts", required_argument, NULL, 'l'},
    {"spines", required_argument, NULL, 'P'},
    {"spray", no_argument, NULL, 'y'},
    {"busy", required_argument, NULL, 'B'},
    {"load", required_argument, NULL, 'L'},
    {"size", required_argument, NULL, 's'},
    {"rate", required_argument, NULL, 'r'},
    {"port-buffer", required_argument, NULL, 'b'},
    {"shared-buffer", required_argument, NULL, 'H'},
    {"wire-delay", required_argument, NULL, 'w'},
    {"host-delay", required_argument, NULL, 'd'},
    {"mtu", required_argument, NULL, 'm'},
    {"inflow", required_argument, NULL, 'I'},
    {"congestion", required_argument, NULL, 'C'},
    {"express-first", no_argument, NULL, 'E'},
    {"no-merge", no_argument, NULL, 'M'},
    {"idle", no_argument, NULL, 'i'},
    {"pings", no_argument, NULL, 'p'},
    {"duration", required_argument, NULL, 'D'},
    {"seed", required_argument, NULL, 'S'},
    {"csv", no_argument, NULL, 'c'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static const struct rawe_cc_type *parse_congestion(const char *name)
{
    for (const struct rawe_cc_type *const *type = rawe_cc_types; *type != NULL; type++) {
        if (strcmp((*type)->name, name) == 0) {
            return *type;
        }
    }
    fprintf(stderr, "rawe-cluster: no congestion control is named '%s'\n", name);
    exit(2);
}

static void parse_option(struct command *command, int option)
{
    struct cluster_plan *plan = &command->plan;

    switch (option) {
    case 't':
        plan->pattern = parse_traffic(optarg);
        break;
    case 'n':
        parse_list(&command->hosts, "hosts", optarg, 2, CLUSTER_HOSTS_MAX);
        break;
    case 'R':
        parse_list(&command->ranks, "ranks", optarg, 1, CLUSTER_RANKS_MAX);
        break;
    case 'l':
        plan->leaf_hosts = (uint32_t)parse_one("leaf-hosts", optarg, 1, CLUSTER_HOSTS_MAX);
        break;
    case 'P':
        plan->spines = (uint32_t)parse_one("spines", optarg, 1, CLUSTER_HOSTS_MAX);
        break;
    case 'y':
        plan->sprays = true;
        break;
    case 'B':
        parse_list(&command->busy, "busy", optarg, 0, 1000000000);
        break;
    case 'L':
        parse_list(&command->loads, "load", optarg, 1, 200);
        break;
    case 's':
        parse_list(&command->sizes, "size", optarg, 1, CLUSTER_MESSAGE_BYTES_MAX);
        break;
    case 'r':
        parse_list(&command->rates, "rate", optarg, 10000000, 400000000000);
        break;
    case 'b':
        parse_list(&command->buffers, "port-buffer", optarg, 10000, 1u << 30);
        break;
    case 'H':
        plan->shared_bytes = parse_one("shared-buffer", optarg, 10000, 1u << 30);
        break;
    case 'w':
        plan->wire_ns = parse_one("wire-delay", optarg, 0, 1000000000);
        break;
    case 'd':
        plan->host_ns = parse_one("host-delay", optarg, 1, 1000000000);
        break;
    case 'm':
        plan->mtu_bytes = (uint32_t)parse_one("mtu", optarg, 576, 9000);
        break;
    case 'I':
        plan->inflow_bytes = parse_one("inflow", optarg, 0, 1 << 30);
        break;
    case 'C':
        plan->congestion = parse_congestion(optarg);
        break;
    case 'E':
        plan->express_first = true;
        break;
    case 'M':
        plan->merges = false;
        break;
    case 'i':
        plan->idle = true;
        break;
    case 'p':
        plan->pings = true;
        break;
    case 'D':
        plan->duration_ns = parse_one("duration", optarg, 10, 100000) * 1000000;
        break;
    case 'S':
        parse_list(&command->seeds, "seed", optarg, 0, UINT32_MAX);
        break;
    case 'c':
        command->form = CLUSTER_FORM_CSV;
        break;
    case 'h':
        usage(stdout);
        printf("\nColumns:\n");
        cluster_report_explain(plan);
        exit(0);
    default:
        usage(stderr);
        exit(2);
    }
}

/** One run. Returns whether all messages have arrived. */
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

/** Take the value of a list that a run has; `*number` counts the runs of those not taken yet. */
static uint64_t pick(const struct list *list, unsigned *number)
{
    unsigned at = *number % list->count;

    *number /= list->count;
    return list->values[at];
}

/** A run for each combination; the seed changes first. Returns how many were not complete. */
static unsigned run_all(const struct command *command)
{
    struct cluster_plan plan = command->plan;
    unsigned runs = command->hosts.count * command->ranks.count * command->sizes.count *
                    command->rates.count * command->buffers.count * command->busy.count *
                    command->loads.count * command->seeds.count;
    unsigned incomplete = 0;

    for (unsigned i = 0; i < runs; i++) {
        unsigned number = i;
        plan.seed = pick(&command->seeds, &number);
        plan.port_bytes = pick(&command->buffers, &number);
        plan.busy_ns = pick(&command->busy, &number);
        plan.load_percent = (uint32_t)pick(&command->loads, &number);
        plan.rate_mbps = pick(&command->rates, &number) / 1000000;
        plan.ranks = (uint32_t)pick(&command->ranks, &number);
        plan.hosts = (uint32_t)pick(&command->hosts, &number);
        plan.size_bytes = (uint32_t)pick(&command->sizes, &number);
        incomplete += !run(command->form, &plan);
    }
    return incomplete;
}

int main(int argc, char **argv)
{
    struct command command = {
        .plan = {.pattern = CLUSTER_INCAST,
                 .leaf_hosts = CLUSTER_HOSTS_MAX,
                 .spines = 1,
                 .mtu_bytes = 1500,
                 .wire_ns = 500,
                 .host_ns = 5000,
                 .merges = true},
        .hosts = {{9}, 1},
        .ranks = {{1}, 1},
        .sizes = {{64 * 1024}, 1},
        .buffers = {{1000000}, 1},
        .busy = {{0}, 1},
        .loads = {{60}, 1},
        .rates = {{25000000000}, 1},
        .seeds = {{1}, 1},
    };
    struct cluster_plan *plan = &command.plan;
    int option;

    while ((option = getopt_long(argc, argv, "", options_known, NULL)) != -1) {
        parse_option(&command, option);
    }
    if (optind != argc) {
        wrong("", argv[optind], "options only");
    }
    if (cluster_plan_is_workload(plan) && plan->duration_ns == 0) {
        plan->duration_ns = 100000000;
    }
    for (unsigned i = 0; plan->pings && i < command.hosts.count; i++) {
        if (plan->duration_ns == 0 || command.hosts.values[i] < 3) {
            wrong("pings", "", "--duration, and 3 hosts or more");
        }
    }
    cluster_report_head(command.form, plan);
    return run_all(&command) == 0 ? 0 : 1;
}
