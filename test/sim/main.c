/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * rawe-sim: whole networks of engines in one thread, decided by a seed. Command line.
 */
#include <stdio.h>
#include <string.h>

#include "options.h"
#include "sim.h"
#include "sim_campaign.h"

static struct sim_campaign campaign = {
    .options = {.faults = SIM_FAULTS_ALL, .incident_end = UINT64_MAX},
    .first = 1,
    .count = 1000,
    .jobs = 1,
    .failures_most = 5,
    .shrink = true,
};

static bool single; /**< one run, not a campaign */

static bool read_seed(const struct option_row *row, const char *value)
{
    single = true;
    return option_u64(row, value);
}

/** Read "FIRST" or "FIRST:COUNT"; sets `*colon` to whether a count is given. */
static bool read_pair(const struct option_row *row, const char *value, uint64_t *first,
                      uint64_t *count, bool *colon)
{
    const char *end = option_whole(row, value, ":", first);

    *colon = end != NULL && *end == ':';
    return *colon ? option_whole(row, end + 1, "", count) != NULL : end != NULL;
}

static bool read_seeds(const struct option_row *row, const char *value)
{
    bool counted;

    campaign.count = 0;
    return read_pair(row, value, &campaign.first, &campaign.count, &counted) &&
           (!counted || campaign.count != 0);
}

static bool read_incidents(const struct option_row *row, const char *value)
{
    struct sim_options *options = row->to;
    uint64_t count;
    bool counted;

    if (!read_pair(row, value, &options->incident_first, &count, &counted) || !counted) {
        return false;
    }
    options->incident_end = options->incident_first + count;
    return true;
}

static bool read_faults(const struct option_row *row, const char *value)
{
    struct sim_options *options = row->to;
    const char *name = value;

    options->faults_exact = false;
    options->faults = SIM_FAULTS_ALL;
    if (strcmp(value, "all") == 0) {
        return true;
    }
    if (strcmp(value, "mild") == 0) {
        options->faults = SIM_FAULTS_MILD;
        return true;
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
            return false;
        }
        options->faults |= 1ull << fault;
        if (name[len] == '\0') {
            break;
        }
        name += len + 1;
    }
    return true;
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

static const char help[] =
    "Usage: rawe-sim --seed N [--trace]                 replay one run\n"
    "       rawe-sim --seeds FIRST[:COUNT] [--deadline SECONDS] [--jobs N]\n"
    "                                                   many runs\n"
    "Runs networks of nodes, each with the real protocol engine, in virtual time; the seed\n"
    "decides everything. A seed that violates an invariant is printed with the command that\n"
    "replays it, then shrunk to the smallest run that still fails.\n";

static const struct option_row rows[] = {
    {"seed", "N", "one run; prints what it did", read_seed, .to = &campaign.options.seed, 0,
     UINT64_MAX},
    {"trace", NULL, "... and every event, one per line", option_on, .to = &campaign.options.trace},
    {"seeds", "FIRST:COUNT",
     "COUNT runs from seed FIRST on (default 1:1000); without COUNT\n"
     "as many as the deadline allows",
     read_seeds, .to = NULL, 0, (double)(UINT64_MAX / 4)},
    {"deadline", "SECONDS", "start no run after that", option_unsigned, .to = &campaign.deadline_s,
     1, 1u << 24},
    {"jobs", "N", "worker processes (default 1)", option_unsigned, .to = &campaign.jobs, 1, 1024},
    {"failures", "N", "stop after N failing seeds (default 5)", option_unsigned,
     .to = &campaign.failures_most, 1, 1u << 20},
    {"no-shrink", NULL, "do not search for smaller runs that fail", option_off,
     .to = &campaign.shrink},
    {"nodes", "N", "from 2 on; the seed chooses, mostly few", option_unsigned,
     .to = &campaign.options.nodes, 2, SIM_NODES_MAX},
    {"nics", "N",
     "interfaces of each node; the seed chooses, mostly one, and whether\n"
     "some nodes have fewer",
     option_unsigned, .to = &campaign.options.nics, 1, SIM_NICS_MAX},
    {"incidents", "N:COUNT",
     "let only COUNT of the incidents that faults would cause happen,\n"
     "from the one with number N on (counted from 0)",
     read_incidents, .to = &campaign.options, 0, (double)(UINT64_MAX / 4),
     "two numbers, FIRST:COUNT"},
    {"messages", "N", "messages, requests and transfers begun, over all nodes", option_unsigned,
     .to = &campaign.options.operations, 1, 1u << 24},
    {"faults", "LIST",
     "none, mild, all (default): the seed chooses among them;\n"
     "or exactly some, separated by commas",
     read_faults, .to = &campaign.options, 0, 0,
     "none, mild, all, or names of faults separated by commas"},
};

static void end_help(void)
{
    puts("Faults:");
    for (unsigned fault = 0; fault < SIM_FAULTS; fault++) {
        printf("  %-10s %s\n", sim_fault_names[fault].name, sim_fault_names[fault].text);
    }
    puts("Exit code: 0 all invariants held, 1 one was violated, 2 wrong usage.");
}

int main(int argc, char **argv)
{
    options_read(argc, argv, help, rows, sizeof(rows) / sizeof(rows[0]), end_help);
    if (single) {
        return run_one(&campaign.options);
    }
    if (campaign.count == 0 && campaign.deadline_s == 0) {
        fputs("rawe-sim: --seeds without COUNT wants --deadline SECONDS\n", stderr);
        return 2;
    }
    campaign.options.trace = false;
    return sim_campaign_run(&campaign);
}
