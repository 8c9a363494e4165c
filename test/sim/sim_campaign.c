/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Campaigns. Every run happens in a child process, so that a crash of the engine, an assertion and a
 * loop without end are failures of a seed like any other.
 */
#include "sim_campaign.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sim.h"

/** A run takes milliseconds; one that takes longer than this hangs. */
#define RUN_SECONDS_MOST 120u

#define PROGRESS_SECONDS 10

/** Acknowledgements and probes in undisturbed runs, in percent of the sequenced frames. */
#define CONTROL_PERCENT_MOST 50u

/** Fewer frames than that say nothing about it. */
#define CALM_FRAMES_LEAST 10000u

/** Runs spent on shrinking one failure. */
#define SHRINK_RUNS_MOST 200u

/** What a worker tells its parent; shared memory. */
struct report {
    uint64_t seed; /**< being run */
    uint64_t runs;
    struct sim_result sum; /**< over the runs */
    char text[512];        /**< of the violation */
};

static struct report *report_of_child;

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static struct report *share_reports(unsigned count)
{
    void *memory = mmap(NULL, count * sizeof(struct report), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        perror("rawe-sim: mmap of the memory shared with the workers");
        exit(2);
    }
    return memory;
}

static void report_violation(struct sim *sim, const char *text)
{
    (void)sim;
    snprintf(report_of_child->text, sizeof(report_of_child->text), "%s", text);
    _exit(1);
}

static void add(struct sim_result *sum, const struct sim_result *result)
{
    sum->events += result->events;
    sum->messages += result->messages;
    sum->puts += result->puts;
    sum->lost += result->lost;
    sum->frames += result->frames;
    sum->resent += result->resent;
    sum->control += result->control;
    sum->calm_frames += result->calm_frames;
    sum->calm_control += result->calm_control;
    sum->digest ^= result->digest;
}

void sim_campaign_command(const struct sim_options *options, char *out, size_t out_bytes)
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
    if (options->operations != 0) {
        snprintf(out + used, out_bytes - used, " --messages %u", options->operations);
    }
}

/** Run in a child. True when it fails; `text` then says how. */
static bool fails(const struct sim_options *options, struct report *report)
{
    int status;
    struct sim_result result;

    report->text[0] = '\0';
    fflush(NULL);
    pid_t child = fork();
    if (child < 0) {
        perror("rawe-sim: fork");
        exit(2);
    }
    if (child == 0) {
        report_of_child = report;
        alarm(RUN_SECONDS_MOST);
        if (freopen("/dev/null", "w", stderr) == NULL) {
            _exit(2);
        }
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
static bool keep_if_fails(struct sim_options *best, const struct sim_options *options,
                          struct report *report, unsigned *runs)
{
    if (++*runs > SHRINK_RUNS_MOST || !fails(options, report)) {
        return false;
    }
    *best = *options;
    return true;
}

static bool shrink_faults(struct sim_options *best, struct report *report, unsigned *runs)
{
    bool smaller = false;

    for (unsigned fault = 0; fault < SIM_FAULTS; fault++) {
        struct sim_options less = *best;
        less.faults &= ~(1u << fault);
        if (less.faults != best->faults) {
            smaller |= keep_if_fails(best, &less, report, runs);
        }
    }
    return smaller;
}

/** Try half, three quarters, one less. */
static bool shrink_number(struct sim_options *best, unsigned *number, unsigned least,
                          struct report *report, unsigned *runs)
{
    const unsigned before = *number;
    const unsigned tries[] = {before / 2, before - before / 4, before - 1};
    ptrdiff_t at = (char *)number - (char *)best;

    for (unsigned i = 0; i < 3; i++) {
        struct sim_options less = *best;
        if (tries[i] >= least && tries[i] < before) {
            memcpy((char *)&less + at, &tries[i], sizeof(tries[i]));
            if (keep_if_fails(best, &less, report, runs)) {
                return true;
            }
        }
    }
    return false;
}

/** Print the least run that still fails, whatever the invariant. */
static void shrink(const struct sim_options *failing, struct report *report)
{
    struct sim_plan plan;
    struct sim_options best = *failing;
    unsigned runs = 0;
    bool smaller = true;
    char command[512];

    sim_plan_make(&plan, failing);
    best.faults = plan.faults;
    best.faults_exact = true;
    best.nodes = plan.nodes;
    best.operations = plan.operations;
    while (smaller && runs < SHRINK_RUNS_MOST) {
        smaller = shrink_number(&best, &best.operations, 1, report, &runs);
        smaller |= shrink_faults(&best, report, &runs);
        smaller |= shrink_number(&best, &best.nodes, 2, report, &runs);
    }
    sim_campaign_command(&best, command, sizeof(command));
    if (fails(&best, report)) {
        printf("  shrunk:  %s --trace\n           %s\n", command,
               report->text[0] != '\0' ? report->text : "the run crashes or hangs");
    }
}

struct worker {
    pid_t pid; /**< 0: has ended */
    uint64_t next;
};

struct state {
    const struct sim_campaign *campaign;
    struct report *reports; /**< one a worker, and one for shrinking */
    struct worker *workers;
    double start_s;
    unsigned failures;
};

static bool out_of_time(const struct state *state)
{
    unsigned deadline_s = state->campaign->deadline_s;
    return deadline_s != 0 && seconds_now() - state->start_s >= deadline_s;
}

static void work(const struct state *state, unsigned index)
{
    const struct sim_campaign *campaign = state->campaign;
    struct sim_options options = campaign->options;
    struct report *report = report_of_child = &state->reports[index];
    uint64_t end = campaign->count == 0 ? UINT64_MAX : campaign->first + campaign->count;

    /* The engine's assertions would be heard out of place; they are told as crashes. */
    if (freopen("/dev/null", "w", stderr) == NULL) {
        _exit(2);
    }
    for (uint64_t seed = state->workers[index].next; seed < end && !out_of_time(state);
         seed += campaign->jobs) {
        struct sim_result result;
        report->seed = options.seed = seed;
        alarm(RUN_SECONDS_MOST);
        sim_run(&options, report_violation, &result);
        report->runs++;
        add(&report->sum, &result);
    }
    _exit(0);
}

static void start_worker(struct state *state, unsigned index)
{
    fflush(NULL);
    state->reports[index].text[0] = '\0';
    pid_t pid = fork();
    if (pid < 0) {
        perror("rawe-sim: fork");
        exit(2);
    }
    if (pid == 0) {
        work(state, index);
    }
    state->workers[index].pid = pid;
}

/** A worker has ended: done, or its seed has failed. */
static void reap(struct state *state, unsigned index, int status)
{
    const struct sim_campaign *campaign = state->campaign;
    struct report *report = &state->reports[index];
    struct sim_options options = campaign->options;
    char command[512];

    state->workers[index].pid = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        return;
    }
    state->failures++;
    report->runs++;
    options.seed = report->seed;
    sim_campaign_command(&options, command, sizeof(command));
    printf("FAILED seed %llu: ", (unsigned long long)report->seed);
    if (report->text[0] != '\0') {
        printf("%s\n", report->text);
    } else if (WIFSIGNALED(status)) {
        printf("%s\n",
               WTERMSIG(status) == SIGALRM ? "the run does not end" : strsignal(WTERMSIG(status)));
    } else {
        printf("exit code %d\n", WEXITSTATUS(status));
    }
    printf("  replay:  %s --trace\n", command);
    if (campaign->shrink) {
        shrink(&options, &state->reports[campaign->jobs]);
    }
    fflush(stdout);
    if (state->failures < campaign->failures_most) {
        state->workers[index].next = report->seed + campaign->jobs;
        start_worker(state, index);
    }
}

static struct report sum_up(const struct state *state)
{
    struct report total;

    memset(&total, 0, sizeof(total));
    for (unsigned i = 0; i < state->campaign->jobs; i++) {
        total.runs += state->reports[i].runs;
        add(&total.sum, &state->reports[i].sum);
    }
    return total;
}

static void print_sum(const struct state *state, const char *end)
{
    struct report total = sum_up(state);
    double passed_s = seconds_now() - state->start_s;

    printf(
        "%llu seeds, %llu events, %u failed; %llu messages, %llu PUTs, %llu frames, %llu resent, "
        "%llu lost; %.0f s, %.0f seeds/s%s\n",
        (unsigned long long)total.runs, (unsigned long long)total.sum.events, state->failures,
        (unsigned long long)total.sum.messages, (unsigned long long)total.sum.puts,
        (unsigned long long)total.sum.frames, (unsigned long long)total.sum.resent,
        (unsigned long long)total.sum.lost, passed_s,
        passed_s > 0 ? (double)total.runs / passed_s : 0.0, end);
    fflush(stdout);
}

/**
 * Acknowledgements and probes are few where nothing goes wrong. Single runs of a few frames say
 * little about that, hence all of them together.
 */
static bool control_frames_few(const struct state *state)
{
    struct report total = sum_up(state);
    uint64_t frames = total.sum.calm_frames;
    uint64_t control = total.sum.calm_control;

    if (frames < CALM_FRAMES_LEAST) {
        return true;
    }
    printf("undisturbed runs: %llu acknowledgements and probes for %llu frames, %.0f %% of %u %% "
           "allowed\n",
           (unsigned long long)control, (unsigned long long)frames,
           100.0 * (double)control / (double)frames, CONTROL_PERCENT_MOST);
    return control * 100 <= frames * CONTROL_PERCENT_MOST;
}

static bool any_working(const struct state *state)
{
    for (unsigned i = 0; i < state->campaign->jobs; i++) {
        if (state->workers[i].pid != 0) {
            return true;
        }
    }
    return false;
}

int sim_campaign_run(const struct sim_campaign *campaign)
{
    struct state state = {.campaign = campaign, .start_s = seconds_now()};
    double told_s = state.start_s;

    state.reports = share_reports(campaign->jobs + 1);
    state.workers = calloc(campaign->jobs, sizeof(*state.workers));
    if (state.workers == NULL) {
        perror("rawe-sim: calloc");
        return 2;
    }
    for (unsigned i = 0; i < campaign->jobs; i++) {
        state.workers[i].next = campaign->first + i;
        start_worker(&state, i);
    }
    while (any_working(&state)) {
        for (unsigned i = 0; i < campaign->jobs; i++) {
            int status;
            if (state.workers[i].pid != 0 &&
                waitpid(state.workers[i].pid, &status, WNOHANG) == state.workers[i].pid) {
                reap(&state, i, status);
            }
        }
        if (seconds_now() - told_s >= PROGRESS_SECONDS) {
            told_s = seconds_now();
            print_sum(&state, " so far");
        }
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
    print_sum(&state, "");
    if (!control_frames_few(&state)) {
        printf("FAILED: too many acknowledgements and probes\n");
        state.failures++;
    }
    unsigned failures = state.failures;
    munmap(state.reports, (campaign->jobs + 1) * sizeof(struct report));
    free(state.workers);
    return failures == 0 ? 0 : 1;
}
