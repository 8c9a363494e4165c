/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * rawe-sim: whole networks of engines in one thread, decided by a seed. Command line.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"
#include "sim_campaign.h"

static void usage(FILE *out)
{
    fprintf(
        out,
        "Usage: rawe-sim --seed N [--trace]                 replay one run\n"
        "       rawe-sim --seeds FIRST[:COUNT] [--deadline SECONDS] [--jobs N]\n"
        "                                                   many runs\n"
        "Runs networks of nodes, each with the real protocol engine, in virtual time; the seed\n"
        "decides everything. A seed that violates an invariant is printed with the command that\n"
        "replays it, then shrunk to the smallest run that still fails.\n"
        "\n"
        "  --seed N             one run; prints what it did\n"
        "  --trace              ... and every event, one per line\n"
        "  --seeds FIRST:COUNT  COUNT runs from seed FIRST on (default 1:1000); without COUNT\n"
        "                       as many as the deadline allows\n"
        "  --deadline SECONDS   start no run after that\n"
        "  --jobs N             worker processes (default 1)\n"
        "  --failures N         stop after N failing seeds (default 5)\n"
        "  --no-shrink          do not search for smaller runs that fail\n"
        "  --nodes N            2 to %u; the seed chooses, mostly few\n"
        "  --nics N             1 to %u interfaces of each node; the seed chooses, mostly one, and\n"
        "                       whether some nodes have fewer\n"
        "  --incidents N:COUNT  let only COUNT of the incidents that faults would cause happen,\n"
        "                       from the one with number N on (counted from 0)\n"
        "  --messages N         messages, requests and transfers begun, over all nodes\n"
        "  --faults LIST        none, mild, all (default): the seed chooses among them;\n"
        "                       or exactly these, separated by commas:\n",
        SIM_NODES_MAX, SIM_NICS_MAX);
    for (unsigned fault = 0; fault < SIM_FAULTS; fault++) {
        fprintf(out, "                         %-10s %s\n", sim_fault_names[fault].name,
                sim_fault_names[fault].text);
    }
    fprintf(out, "Exit code: 0 all invariants held, 1 one was violated, 2 wrong usage.\n");
}

static _Noreturn void wrong(const char *option, const char *value, const char *want)
{
    fprintf(stderr, "rawe-sim: %s %s: want %s; see rawe-sim --help\n", option, value, want);
    exit(2);
}

static uint64_t parse_number(const char *option, const char *value, uint64_t least, uint64_t most,
                             const char *end)
{
    char *stop;
    char want[96];

    errno = 0;
    unsigned long long number = strtoull(value, &stop, 0);
    if (errno != 0 || stop == value || *value == '-' || strchr(end, *stop) == NULL ||
        number < least || number > most) {
        snprintf(want, sizeof(want), "a number from %llu to %llu", (unsigned long long)least,
                 (unsigned long long)most);
        wrong(option, value, want);
    }
    return number;
}

static void parse_faults(struct sim_options *options, const char *value)
{
    const char *name = value;

    options->faults_exact = false;
    options->faults = SIM_FAULTS_ALL;
    if (strcmp(value, "all") == 0) {
        return;
    }
    if (strcmp(value, "mild") == 0) {
        options->faults = SIM_FAULTS_MILD;
        return;
    }
    options->faults = 0;
    options->faults_exact = true;
    while (strcmp(value, "none") != 0) {
        size_t len = strcspn(name, ",");
        unsigned fault = 0;
        while (fault < SIM_FAULTS && (strncmp(sim_fault_names[fault].name, name, len) != 0 ||
                                      sim_fault_names[fault].name[len] != '\0')) {
            fault++;
        }
        if (fault == SIM_FAULTS) {
            wrong("--faults", value, "none, mild, all, or names of faults separated by commas");
        }
        options->faults |= 1u << fault;
        if (name[len] == '\0') {
            return;
        }
        name += len + 1;
    }
}

static void print_violation(struct sim *sim, const char *text)
{
    char command[512];

    sim_campaign_command(&sim->options, command, sizeof(command));
    fflush(stdout);
    fprintf(stderr, "FAILED seed %llu: %s\n  replay:  %s --trace\n",
            (unsigned long long)sim->options.seed, text, command);
}

static int run_one(const struct sim_options *options)
{
    struct sim_result result;
    char faults[256];

    sim_run(options, print_violation, &result);
    sim_faults_format(result.faults, faults, sizeof(faults));
    printf(
        "seed %llu: ok; %u nodes, %u interfaces, faults %s; %llu messages, %llu PUTs, %llu frames, "
        "%llu resent, %llu migrations, %llu control frames, %llu lost; %llu events in "
        "%.6f s, digest %016llx\n",
        (unsigned long long)options->seed, result.nodes, result.nics, faults,
        (unsigned long long)result.messages, (unsigned long long)result.puts,
        (unsigned long long)result.frames, (unsigned long long)result.resent,
        (unsigned long long)result.migrations, (unsigned long long)sim_control_sum(result.control),
        (unsigned long long)result.lost, (unsigned long long)result.events,
        (double)result.virtual_ns / 1e9, (unsigned long long)result.digest);
    return 0;
}

static const struct option options_known[] = {
    {"seed", required_argument, NULL, 's'},   {"seeds", required_argument, NULL, 'S'},
    {"trace", no_argument, NULL, 't'},        {"deadline", required_argument, NULL, 'd'},
    {"jobs", required_argument, NULL, 'j'},   {"failures", required_argument, NULL, 'e'},
    {"no-shrink", no_argument, NULL, 'k'},    {"nodes", required_argument, NULL, 'n'},
    {"nics", required_argument, NULL, 'i'},   {"messages", required_argument, NULL, 'm'},
    {"faults", required_argument, NULL, 'f'}, {"incidents", required_argument, NULL, 'c'},
    {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0},
};

static void parse_seeds(struct sim_campaign *campaign, const char *value)
{
    const char *colon = strchr(value, ':');

    campaign->first = parse_number("--seeds", value, 0, UINT64_MAX / 2, ":");
    campaign->count = colon == NULL ? 0 : parse_number("--seeds", colon + 1, 1, UINT64_MAX / 4, "");
}

static void parse_incidents(struct sim_options *options, const char *value)
{
    const char *colon = strchr(value, ':');

    if (colon == NULL) {
        wrong("--incidents", value, "two numbers, FIRST:COUNT");
    }
    options->incident_first = parse_number("--incidents", value, 0, UINT64_MAX / 2, ":");
    options->incident_end =
        options->incident_first + parse_number("--incidents", colon + 1, 0, UINT64_MAX / 4, "");
}

/** One option and its value. Returns true when it asks for a single run. */
static bool parse_option(struct sim_campaign *campaign, int option)
{
    struct sim_options *options = &campaign->options;

    switch (option) {
    case 's':
        options->seed = parse_number("--seed", optarg, 0, UINT64_MAX, "");
        return true;
    case 'S':
        parse_seeds(campaign, optarg);
        break;
    case 't':
        options->trace = true;
        break;
    case 'd':
        campaign->deadline_s = (unsigned)parse_number("--deadline", optarg, 1, 1u << 24, "");
        break;
    case 'j':
        campaign->jobs = (unsigned)parse_number("--jobs", optarg, 1, 1024, "");
        break;
    case 'e':
        campaign->failures_most = (unsigned)parse_number("--failures", optarg, 1, 1u << 20, "");
        break;
    case 'k':
        campaign->shrink = false;
        break;
    case 'n':
        options->nodes = (unsigned)parse_number("--nodes", optarg, 2, SIM_NODES_MAX, "");
        break;
    case 'i':
        options->nics = (unsigned)parse_number("--nics", optarg, 1, SIM_NICS_MAX, "");
        break;
    case 'm':
        options->operations = (unsigned)parse_number("--messages", optarg, 1, 1u << 24, "");
        break;
    case 'f':
        parse_faults(options, optarg);
        break;
    case 'c':
        parse_incidents(options, optarg);
        break;
    case 'h':
        usage(stdout);
        exit(0);
    default:
        usage(stderr);
        exit(2);
    }
    return false;
}

int main(int argc, char **argv)
{
    struct sim_campaign campaign = {
        .options = {.faults = SIM_FAULTS_ALL, .incident_end = UINT64_MAX},
        .first = 1,
        .count = 1000,
        .jobs = 1,
        .failures_most = 5,
        .shrink = true,
    };
    bool single = false;
    int option;

    while ((option = getopt_long(argc, argv, "", options_known, NULL)) != -1) {
        single |= parse_option(&campaign, option);
    }
    if (optind != argc) {
        wrong("argument", argv[optind], "options only");
    }
    if (single) {
        return run_one(&campaign.options);
    }
    if (campaign.count == 0 && campaign.deadline_s == 0) {
        wrong("--seeds", "without COUNT", "--deadline SECONDS too, or FIRST:COUNT");
    }
    campaign.options.trace = false;
    return sim_campaign_run(&campaign);
}
