/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * rawe-sim: one run, or a campaign of many. In a campaign, worker processes try seeds, and a
 * failing seed is shrunk to a minimal run that still fails. Every run of a campaign happens in a
 * child process. So a crash of the engine, a failed assertion or an endless loop is a failure of
 * the seed like any other.
 */

#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "options.h"
#include "sim.h"

#define PROGRESS_SECONDS 10

/** Maximum number of control frames in undisturbed runs: this percentage of sequenced frames... */
#define CONTROL_PERCENT_MOST 50u

/** ... plus this many per connection, until its round-trip time is known. */
#define CONTROL_FIRST 2u

/** If there are fewer frames, the ratio is not checked. */
#define CALM_FRAMES_LEAST 10000u

/**
 * A run takes milliseconds of processor time, one in a thousand takes seconds, and ten times that
 * under the thread sanitizer. A run that takes longer than this is considered hung.
 */
#define RUN_SECONDS_MOST 120u

/** Number of runs spent on shrinking a failure. */
#define SHRINKING_RUNS_MOST 400u

/** More incidents than any run has, for runs whose number of incidents is unknown. */
#define INCIDENTS_MOST (1ull << 24)

struct campaign {
    struct sim_options options; /**< restrictions for all runs; the seed is set for each */
    uint64_t first, count;      /**< seeds; count 0: until the deadline */
    unsigned deadline_s;        /**< 0: none */
    unsigned jobs;              /**< worker processes */
    unsigned failures_most;     /**< stop when this many seeds have failed */
    bool shrink;
};

/** How a run failed; in memory shared with the process that performs the run. */
struct failure {
    uint64_t incidents; /**< until it failed; UINT64_MAX: unknown */
    char text[512];     /**< the violation; empty: the run crashed or did not end */
};

/** A worker's report to its parent, in shared memory. */
struct report {
    uint64_t seed; /**< being run */
    uint64_t runs;
    struct sim_result sum; /**< over the runs */
    struct failure failure;
};

static struct failure *failure_of_worker;

/** Write the command line that repeats a run. */
static void write_command(const struct sim_options *options, char *out, size_t out_bytes)
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
    failure_of_worker->incidents = sim->incident_count;
    snprintf(failure_of_worker->text, sizeof(failure_of_worker->text), "%s", text);
    _exit(1);
}

/**
 * Fork a process for runs. Returns its id in the parent, and 0 in the child. The child is killed
 * when its parent ends; its standard error is discarded, because the parent reports its failures.
 */
static pid_t fork_worker(void)
{
    const pid_t parent = getpid();

    fflush(NULL);
    const pid_t pid = fork();
    if (pid < 0) {
        perror("rawe-sim: fork");
        exit(2);
    }
    /* A failed assertion's message would disturb the output; the parent reports it as a crash. */
    if (pid == 0 && (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent ||
                     freopen("/dev/null", "w", stderr) == NULL)) {
        _exit(2);
    }
    return pid;
}

/** Let SIGPROF end this process once it has used another RUN_SECONDS_MOST of processor time. */
static void limit_run(void)
{
    const struct itimerval limit = {.it_value = {.tv_sec = RUN_SECONDS_MOST}};

    if (setitimer(ITIMER_PROF, &limit, NULL) != 0) {
        _exit(2);
    }
}

/** A search for the smallest failing run. */
struct search {
    struct sim_options best;
    struct failure *shared;
    unsigned runs;
};

/** Perform a run in a child process. Returns true and sets `failure` if the run fails. */
static bool fails(const struct sim_options *options, struct failure *failure)
{
    int status;
    struct sim_result result;

    *failure = (struct failure){.incidents = UINT64_MAX};
    pid_t child = fork_worker();
    if (child == 0) {
        failure_of_worker = failure;
        limit_run();
        sim_run(options, report_violation, &result);
        _exit(0);
    }
    if (waitpid(child, &status, 0) < 0) {
        perror("rawe-sim: waitpid");
        exit(2);
    }
    return status != 0;
}

/** Keep `options` if the run still fails with them. */
static bool keep_if_fails(struct search *search, const struct sim_options *options)
{
    if (search->runs >= SHRINKING_RUNS_MOST) {
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
        less.faults &= ~(1ull << fault);
        if (less.faults != search->best.faults) {
            smaller |= keep_if_fails(search, &less);
        }
    }
    return smaller;
}

/** Smaller numbers to try: half, three quarters, one less. */
#define TRIES 3u

static uint64_t try_number(uint64_t number, unsigned which)
{
    return which == 0 ? number / 2 : which == 1 ? number - number / 4 : number - 1;
}

/** Try smaller values of the option at `offset`. */
static bool shrink_number(struct search *search, size_t offset, unsigned least)
{
    for (unsigned i = 0; i < TRIES; i++) {
        struct sim_options less = search->best;
        unsigned *number = (unsigned *)((char *)&less + offset);
        unsigned fewer = (unsigned)try_number(*number, i);
        if (fewer >= least && fewer != *number) {
            *number = fewer;
            if (keep_if_fails(search, &less)) {
                return true;
            }
        }
    }
    return false;
}

/** Omit incidents at the end, then at the beginning. */
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

/** Make explicit all options that the seed determines, so that each can be reduced. */
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

/**
 * Find and print the smallest run that still fails, whatever invariant it violates: with fewer
 * operations, faults, nodes and interfaces, and only the incidents that the failure needs.
 * `incidents`: number in the first failing run; `shared` receives the failures of further runs.
 */
static void shrink(const struct sim_options *failing, uint64_t incidents, struct failure *shared)
{
    struct search search = {.best = *failing, .shared = shared};
    char command[512];
    bool smaller = true;

    spell_out(&search.best, incidents);
    while (smaller && search.runs < SHRINKING_RUNS_MOST) {
        smaller = shrink_number(&search, offsetof(struct sim_options, operations), 1);
        smaller |= shrink_faults(&search);
        smaller |= shrink_number(&search, offsetof(struct sim_options, nodes), 2);
        smaller |= shrink_number(&search, offsetof(struct sim_options, nics), 1);
        while (shrink_incidents(&search)) {
            smaller = true;
        }
    }
    write_command(&search.best, command, sizeof(command));
    if (fails(&search.best, shared)) {
        printf("  shrunk:  %s --trace\n           %s\n", command,
               shared->text[0] != '\0' ? shared->text : "the run crashes or hangs");
    }
}

static void add(struct sim_result *sum, const struct sim_result *result)
{
    sum->events += result->events;
    sum->messages += result->messages;
    sum->puts += result->puts;
    sum->lost += result->lost;
    sum->frames += result->frames;
    sum->resent += result->resent;
    sum->migrations += result->migrations;
    sum->calm_frames += result->calm_frames;
    for (unsigned kind = 0; kind < SIM_CONTROLS; kind++) {
        sum->calm_control[kind] += result->calm_control[kind];
    }
    sum->calm_connections += result->calm_connections;
    sum->digest ^= result->digest;
}

struct worker {
    pid_t pid; /**< 0: the worker has ended */
    uint64_t next;
};

struct state {
    const struct campaign *campaign;
    struct report *reports; /**< one for each worker, and one for shrinking */
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
    const struct campaign *campaign = state->campaign;
    struct sim_options options = campaign->options;
    struct report *report = &state->reports[index];
    uint64_t end = campaign->count == 0 ? UINT64_MAX : campaign->first + campaign->count;

    failure_of_worker = &report->failure;
    for (uint64_t seed = state->workers[index].next; seed < end && !out_of_time(state);
         seed += campaign->jobs) {
        struct sim_result result;
        report->seed = options.seed = seed;
        limit_run();
        sim_run(&options, report_violation, &result);
        report->runs++;
        add(&report->sum, &result);
    }
    _exit(0);
}

static void start_worker(struct state *state, unsigned index)
{
    state->reports[index].failure = (struct failure){.incidents = UINT64_MAX};
    pid_t pid = fork_worker();
    if (pid == 0) {
        work(state, index);
    }
    state->workers[index].pid = pid;
}

/** Handle the end of a worker, which has finished or whose seed has failed. */
static void reap(struct state *state, unsigned index, int status)
{
    const struct campaign *campaign = state->campaign;
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
    write_command(&options, command, sizeof(command));
    printf("FAILED seed %llu: ", (unsigned long long)report->seed);
    if (report->failure.text[0] != '\0') {
        printf("%s\n", report->failure.text);
    } else if (WIFSIGNALED(status)) {
        printf("%s\n",
               WTERMSIG(status) == SIGPROF ? "the run does not end" : strsignal(WTERMSIG(status)));
    } else {
        printf("exit code %d\n", WEXITSTATUS(status));
    }
    printf("  replay:  %s --trace\n", command);
    if (campaign->shrink) {
        shrink(&options, report->failure.incidents, &state->reports[campaign->jobs].failure);
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
        "%llu lost, %llu migrations; %.0f s, %.0f seeds/s%s\n",
        (unsigned long long)total.runs, (unsigned long long)total.sum.events, state->failures,
        (unsigned long long)total.sum.messages, (unsigned long long)total.sum.puts,
        (unsigned long long)total.sum.frames, (unsigned long long)total.sum.resent,
        (unsigned long long)total.sum.lost, (unsigned long long)total.sum.migrations, passed_s,
        passed_s > 0 ? (double)total.runs / passed_s : 0.0, end);
    fflush(stdout);
}

/**
 * Return true if undisturbed runs needed few acknowledgements and probes. A single run has too few
 * frames to tell, so the frames of all runs are added up.
 */
static bool control_frames_few(const struct state *state)
{
    struct report total = sum_up(state);
    uint64_t frames = total.sum.calm_frames;
    const uint64_t *kinds = total.sum.calm_control;
    uint64_t control = sim_control_sum(kinds);
    uint64_t allowed =
        frames * CONTROL_PERCENT_MOST / 100 + total.sum.calm_connections * CONTROL_FIRST;

    if (frames < CALM_FRAMES_LEAST) {
        return true;
    }
    printf(
        "undisturbed runs: %llu control frames for %llu frames on %llu connections, %llu "
        "allowed; %llu acknowledgements, %llu answers to %llu probes, %llu PINGs and PONGs\n",
        (unsigned long long)control, (unsigned long long)frames,
        (unsigned long long)total.sum.calm_connections, (unsigned long long)allowed,
        (unsigned long long)kinds[SIM_CONTROL_ACK], (unsigned long long)kinds[SIM_CONTROL_ANSWER],
        (unsigned long long)kinds[SIM_CONTROL_PROBE], (unsigned long long)kinds[SIM_CONTROL_PING]);
    return control <= allowed;
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

/** Run a campaign. Returns the exit code: 0 if no seed failed. */
static int run_campaign(const struct campaign *campaign)
{
    struct state state = {.campaign = campaign, .start_s = seconds_now()};
    double reported_s = state.start_s;

    state.workers = calloc(campaign->jobs, sizeof(*state.workers));
    if (state.workers == NULL) {
        perror("rawe-sim: calloc");
        return 2;
    }
    state.reports = share_reports(campaign->jobs + 1);
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
        if (seconds_now() - reported_s >= PROGRESS_SECONDS) {
            reported_s = seconds_now();
            print_sum(&state, " so far");
        }
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
    print_sum(&state, "");
    if (!control_frames_few(&state)) {
        printf("FAILED: too many control frames\n");
        state.failures++;
    }
    unsigned failures = state.failures;
    munmap(state.reports, (campaign->jobs + 1) * sizeof(struct report));
    free(state.workers);
    return failures == 0 ? 0 : 1;
}

/* ---- command line ---- */

static struct campaign wanted = {
    .options = {.faults = SIM_FAULTS_ALL, .incident_end = UINT64_MAX},
    .first = 1,
    .count = 1000,
    .jobs = 1,
    .failures_most = 5,
    .shrink = true,
};

static bool single; /**< perform one run, not a campaign */

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

    wanted.count = 0;
    return read_pair(row, value, &wanted.first, &wanted.count, &counted) &&
           (!counted || wanted.count != 0);
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

    write_command(&sim->options, command, sizeof(command));
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
    {"seed", "N", "one run; prints what it did", read_seed, .to = &wanted.options.seed, 0,
     UINT64_MAX},
    {"trace", NULL, "... and every event, one per line", option_on, .to = &wanted.options.trace},
    {"seeds", "FIRST:COUNT",
     "COUNT runs from seed FIRST on (default 1:1000); without COUNT\n"
     "as many as the deadline allows",
     read_seeds, .to = NULL, 0, (double)(UINT64_MAX / 4)},
    {"deadline", "SECONDS", "start no run after that", option_unsigned, .to = &wanted.deadline_s, 1,
     1u << 24},
    {"jobs", "N", "worker processes (default 1)", option_unsigned, .to = &wanted.jobs, 1, 1024},
    {"failures", "N", "stop after N failing seeds (default 5)", option_unsigned,
     .to = &wanted.failures_most, 1, 1u << 20},
    {"no-shrink", NULL, "do not search for smaller runs that fail", option_off,
     .to = &wanted.shrink},
    {"nodes", "N", "from 2 on; the seed chooses, mostly few", option_unsigned,
     .to = &wanted.options.nodes, 2, SIM_NODES_MAX},
    {"nics", "N",
     "interfaces of each node; the seed chooses, mostly one, and whether\n"
     "some nodes have fewer",
     option_unsigned, .to = &wanted.options.nics, 1, SIM_NICS_MAX},
    {"incidents", "N:COUNT",
     "let only COUNT of the incidents that faults would cause happen,\n"
     "from the one with number N on (counted from 0)",
     read_incidents, .to = &wanted.options, 0, (double)(UINT64_MAX / 4),
     "two numbers, FIRST:COUNT"},
    {"messages", "N", "messages, requests and transfers begun, over all nodes", option_unsigned,
     .to = &wanted.options.operations, 1, 1u << 24},
    {"faults", "LIST",
     "none, mild, all (default): the seed chooses among them;\n"
     "or exactly some, separated by commas",
     read_faults, .to = &wanted.options, 0, 0,
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
        return run_one(&wanted.options);
    }
    if (wanted.count == 0 && wanted.deadline_s == 0) {
        fputs("rawe-sim: --seeds without COUNT wants --deadline SECONDS\n", stderr);
        return 2;
    }
    wanted.options.trace = false;
    return run_campaign(&wanted);
}
