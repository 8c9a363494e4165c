/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Shrinking: fewer operations, faults, nodes, interfaces, and of the faults only those few
 * incidents without which the run does not fail. Each attempt is a run in a child process.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim.h"
#include "sim_campaign.h"
#include "sim_worker.h"

/** Runs spent on shrinking one failure. */
#define RUNS_MOST 400u

/** More incidents than any run has, where their number is not known. */
#define INCIDENTS_MOST (1ull << 24)

static struct sim_failure *failure_of_child;

/** The run that has been found to be the least up to now. */
struct search {
    struct sim_options best;
    struct sim_failure *shared;
    unsigned runs;
};

void sim_shrink_command(const struct sim_options *options, char *out, size_t out_bytes)
{
    char faults[256];
    size_t used =
        (size_t)snprintf(out, out_bytes, "rawe-sim --seed %llu", (unsigned long long)options->seed);

    if (options->faults_exact || options->faults == 0) {
        sim_faults_format(options->faults, faults, sizeof(faults));
        used += (size_t)snprintf(out + used, out_bytes - used, " --faults %s", faults);
    } else if (options->faults == SIM_FAULTS_MILD) {
        used += (size_t)snprintf(out + used, out_bytes - used, " --faults mild");
    }
    if (options->nodes != 0) {
        used += (size_t)snprintf(out + used, out_bytes - used, " --nodes %u", options->nodes);
    }
    if (options->nics != 0) {
        used += (size_t)snprintf(out + used, out_bytes - used, " --nics %u", options->nics);
    }
    if (options->operations != 0) {
        used +=
            (size_t)snprintf(out + used, out_bytes - used, " --messages %u", options->operations);
    }
    if (options->incident_first != 0 || options->incident_end != UINT64_MAX) {
        snprintf(out + used, out_bytes - used, " --incidents %llu:%llu",
                 (unsigned long long)options->incident_first,
                 (unsigned long long)(options->incident_end - options->incident_first));
    }
}

static void report_violation(struct sim *sim, const char *text)
{
    failure_of_child->incidents = sim->incident_count;
    snprintf(failure_of_child->text, sizeof(failure_of_child->text), "%s", text);
    _exit(1);
}

/** Run in a child. True when it fails; `failure` then says how. */
static bool fails(const struct sim_options *options, struct sim_failure *failure)
{
    int status;
    struct sim_result result;

    *failure = (struct sim_failure){.incidents = UINT64_MAX};
    pid_t child = sim_worker_fork();
    if (child == 0) {
        failure_of_child = failure;
        sim_worker_limit(SIM_RUN_SECONDS_MOST);
        sim_run(options, report_violation, &result);
        _exit(0);
    }
    if (waitpid(child, &status, 0) < 0) {
        perror("rawe-sim: waitpid");
        exit(2);
    }
    return status != 0;
}

/** Take `options` over when the run still fails with them. */
static bool keep_if_fails(struct search *search, const struct sim_options *options)
{
    if (search->runs >= RUNS_MOST) {
        return false;
    }
    search->runs++;
    if (!fails(options, search->shared)) {
        return false;
    }
    search->best = *options;
    return true;
}

static bool shrink_faults(struct search *search)
{
    bool smaller = false;

    for (unsigned fault = 0; fault < SIM_FAULTS; fault++) {
        struct sim_options less = search->best;
        less.faults &= ~(1u << fault);
        if (less.faults != search->best.faults) {
            smaller |= keep_if_fails(search, &less);
        }
    }
    return smaller;
}

/** Smaller numbers worth trying instead of one: half, three quarters, one less. */
#define TRIES 3u

static uint64_t try_number(uint64_t number, unsigned which)
{
    return which == 0 ? number / 2 : which == 1 ? number - number / 4 : number - 1;
}

static bool shrink_operations(struct search *search)
{
    for (unsigned i = 0; i < TRIES; i++) {
        struct sim_options less = search->best;
        less.operations = (unsigned)try_number(less.operations, i);
        if (less.operations != 0 && less.operations != search->best.operations &&
            keep_if_fails(search, &less)) {
            return true;
        }
    }
    return false;
}

static bool shrink_nodes(struct search *search)
{
    for (unsigned i = 0; i < TRIES; i++) {
        struct sim_options less = search->best;
        less.nodes = (unsigned)try_number(less.nodes, i);
        if (less.nodes >= 2 && less.nodes != search->best.nodes && keep_if_fails(search, &less)) {
            return true;
        }
    }
    return false;
}

static bool shrink_nics(struct search *search)
{
    struct sim_options less = search->best;

    less.nics--;
    return less.nics != 0 && keep_if_fails(search, &less);
}

/** Leave out incidents at the end, then at the beginning. */
static bool shrink_incidents(struct search *search)
{
    for (unsigned i = 0; i < 2 * TRIES; i++) {
        struct sim_options less = search->best;
        uint64_t count = less.incident_end - less.incident_first;
        if (count == 0) {
            return false;
        }
        uint64_t fewer = try_number(count, i % TRIES);
        if (i < TRIES) {
            less.incident_end = less.incident_first + fewer;
        } else {
            less.incident_first = less.incident_end - fewer;
        }
        if (fewer != count && keep_if_fails(search, &less)) {
            return true;
        }
    }
    return false;
}

/** Everything that the seed decides, written out, so that it can be changed. */
static void spell_out(struct sim_options *options, uint64_t incidents)
{
    struct sim_plan plan;

    sim_plan_make(&plan, options);
    options->faults = plan.faults;
    options->faults_exact = true;
    options->nodes = plan.nodes;
    options->nics = plan.nics;
    options->operations = plan.operations;
    if (options->incident_end == UINT64_MAX) {
        options->incident_end = incidents < INCIDENTS_MOST ? incidents : INCIDENTS_MOST;
    }
}

void sim_shrink(const struct sim_options *failing, uint64_t incidents, struct sim_failure *shared)
{
    struct search search = {.best = *failing, .shared = shared};
    char command[512];
    bool smaller = true;

    spell_out(&search.best, incidents);
    while (smaller && search.runs < RUNS_MOST) {
        smaller = shrink_operations(&search);
        smaller |= shrink_faults(&search);
        smaller |= shrink_nodes(&search);
        smaller |= shrink_nics(&search);
        while (shrink_incidents(&search)) {
            smaller = true;
        }
    }
    sim_shrink_command(&search.best, command, sizeof(command));
    if (fails(&search.best, shared)) {
        printf("  shrunk:  %s --trace\n           %s\n", command,
               shared->text[0] != '\0' ? shared->text : "the run crashes or hangs");
    }
}
