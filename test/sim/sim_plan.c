/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Derives the plan from the seed. Every run makes every draw, whichever faults are enabled, so that
 * a run keeps its shape when faults are removed one by one. Settings added later have their own
 * random streams, so that runs without them do not change.
 */
#include "sim_plan.h"

#include <stdio.h>
#include <string.h>

#include "base/rawe_wire.h"
#include "sim_random.h"

const struct sim_fault_name sim_fault_names[SIM_FAULTS] = {
#define X(symbol, name, text) {name, text},
    SIM_FAULT_LIST(X)
#undef X
};

/** Longest message or transfer: several batches. Longer ones would only prolong runs. */
#define LONGEST_BYTES (1u << 18)
/** Longest transfer over several interfaces. */
#define LONGEST_TRANSFER_BYTES (1u << 19)

#define US 1000ull
#define MS 1000000ull
#define SECOND 1000000000ull

/** Maximum number of checks of an idle peer while nodes compute. */
#define IDLE_INTERVALS_MOST 1000u

/** Faults that damage frames. */
#define DAMAGING (SIM_BIT(CORRUPT) | SIM_BIT(RESIZE) | SIM_BIT(ECHO))

/** Faults that lose frames, so that a timely answer is not certain. */
#define UNCERTAIN                                                                           \
    (SIM_BIT(LOSS) | SIM_BIT(BURST) | DAMAGING | SIM_BIT(RING) | SIM_BIT(SWITCH) |          \
     SIM_BIT(PARTITION) | SIM_BIT(FULL) | SIM_BIT(UNEVEN) | SIM_BIT(JUMP) | SIM_BIT(PULL) | \
     SIM_BIT(LOSSY) | SIM_BIT(ADDRESS) | SIM_BIT(ERROR) | SIM_BIT(STRAY) | SIM_BIT(SHRINK))

/**
 * One in this many runs with several interfaces has a lossy route; it takes as long as 100 others.
 */
#define LOSSY_RARELY 24u

/** Longest message or transfer in runs with a lossy route, which have thousands of messages. */
#define LOSSY_BYTES_MOST (1u << 15)

/** Faults before this one are chosen together; each later one has its own random stream. */
#define FAULTS_TOGETHER SIM_FAULT_PULL

void sim_faults_format(uint64_t faults, char *out, size_t out_bytes)
{
    size_t used = 0;
    out[0] = '\0';
    for (unsigned fault = 0; fault < SIM_FAULTS && used < out_bytes; fault++) {
        if (faults & 1ull << fault) {
            used += (size_t)snprintf(out + used, out_bytes - used, "%s%s", used == 0 ? "" : ",",
                                     sim_fault_names[fault].name);
        }
    }
    if (used == 0) {
        snprintf(out, out_bytes, "none");
    }
}

static uint64_t choose_faults(struct sim_random *random, const struct sim_options *options)
{
    uint64_t chosen = 0;
    uint64_t style = sim_random_below(random, 8);
    uint64_t only = sim_random_below(random, FAULTS_TOGETHER);
    uint64_t percent = sim_random_scaled(random, 8, 40);
    uint64_t lie = sim_random_below(random, 32);
    for (unsigned fault = 0; fault < FAULTS_TOGETHER; fault++) {
        if (sim_random_below(random, 100) < percent) {
            chosen |= 1ull << fault;
        }
    }
    /* Only a few runs have forged but credible frames, because they prove little else. */
    chosen &= ~SIM_FAULTS_LYING;
    chosen |= lie == 0 ? SIM_BIT(HOSTILE) : 0;
    if (options->faults_exact) {
        return options->faults;
    }
    /* One run in eight has no faults, and one in eight has a single kind of fault. */
    return style == 0 ? 0 : (style == 1 ? 1ull << only : chosen) & options->faults;
}

static unsigned choose_nodes(struct sim_random *random)
{
    uint64_t style = sim_random_below(random, 100);
    unsigned few = (unsigned)sim_random_between(random, 3, 4);
    unsigned some = (unsigned)sim_random_between(random, 5, 8);
    unsigned many = (unsigned)sim_random_between(random, 9, 16);
    uint64_t rare = sim_random_below(random, 10000);
    unsigned crowd = (unsigned)sim_random_between(random, 17, 64);
    unsigned all = (unsigned)sim_random_scaled(random, 65, SIM_NODES_MAX);
    if (rare < 40) {
        return rare < 2 ? all : crowd;
    }
    return style < 45 ? 2 : style < 80 ? few : style < 94 ? some : many;
}

static uint32_t choose_payload(struct sim_random *random)
{
    uint64_t style = sim_random_below(random, 100);
    uint32_t tiny = (uint32_t)sim_random_between(random, 256, 700);
    uint32_t huge = (uint32_t)sim_random_between(random, 16000, 65000);
    uint32_t payload = style < 25 ? tiny : style < 70 ? 1476 : style < 90 ? 8976 : huge;
    return payload & ~7u;
}

static void plan_engine(struct sim_plan *plan, struct sim_random *random)
{
    plan->payload_max_bytes = choose_payload(random);
    plan->mixed_mtu = sim_random_below(random, 5) == 0;
    plan->window_frames = 16u << sim_random_below(random, 7);
    plan->receive_frames = (uint32_t)sim_random_scaled(random, 32, 4096);
    plan->copy_max_bytes = (uint32_t)sim_random_scaled(random, 32, 4096);
    /* Long messages in small frames would only prolong runs. */
    uint32_t longest = plan->payload_max_bytes * 32;
    longest = longest < LONGEST_BYTES ? longest : LONGEST_BYTES;
    plan->message_max_bytes = (uint32_t)sim_random_scaled(random, 1024, longest);
    plan->transfer_max_bytes = (uint32_t)sim_random_scaled(random, 64, longest);
    plan->frames_limit = (uint32_t)sim_random_scaled(random, 64, 512);
    plan->reassembly_limit = (unsigned)sim_random_between(random, 1, 8);
    plan->ack_delay_ns =
        sim_random_below(random, 8) == 0 ? 0 : sim_random_scaled(random, US, 200 * US);
    plan->probe_least_ns = sim_random_scaled(random, 20 * US, 2 * MS);
    plan->probe_most_ns = sim_random_scaled(random, 50 * MS, SECOND);
    plan->reorder_ns =
        sim_random_below(random, 8) == 0 ? 0 : sim_random_scaled(random, US, 200 * US);
    plan->peer_timeout_ns = sim_random_between(random, 20, 40) * SECOND;
}

static void plan_batches(struct sim_plan *plan, struct sim_random *random)
{
    plan->batches = sim_random_below(random, 2) == 0;
    plan->coalesce_from_frames =
        sim_random_below(random, 3) == 0 ? 0 : (uint32_t)sim_random_scaled(random, 1, 32);
    plan->batch_bytes_max = (uint32_t)sim_random_scaled(random, 1024, RAWE_BATCH_BYTES_MAX);
    plan->streak_ns = sim_random_below(random, 3) == 0 ? 0 : sim_random_scaled(random, US, 10 * MS);
    if (plan->batch_bytes_max < plan->payload_max_bytes) {
        plan->batch_bytes_max = RAWE_BATCH_BYTES_MAX;
    }
}

static void plan_network(struct sim_plan *plan, struct sim_random *random)
{
    static const uint32_t rates[] = {80, 320, 800, 8000}; /* 100, 25, 10, 1 Gb/s */

    plan->delay_ns = sim_random_scaled(random, 100, 50 * US);
    if (sim_random_below(random, 10) == 0) {
        plan->delay_ns *= 40;
    }
    plan->ps_per_byte = rates[sim_random_below(random, sizeof(rates) / sizeof(rates[0]))];
    plan->backlog_bytes = (uint32_t)sim_random_scaled(random, 1u << 17, 1u << 20);
    plan->switch_bytes = (uint32_t)sim_random_scaled(random, 1u << 13, 1u << 18);
    if (plan->switch_bytes < 3 * plan->payload_max_bytes) {
        plan->switch_bytes = 3 * plan->payload_max_bytes;
    }
    plan->ring_frames = (uint32_t)sim_random_scaled(random, 16, 256);
    plan->padding = sim_random_below(random, 2) == 0;
    plan->receive_budget = (unsigned)sim_random_scaled(random, 1, 128);
    plan->poll_ns = sim_random_scaled(random, 50, 20 * US);
    plan->receive_cost_ns = sim_random_scaled(random, 50, 1000);
    plan->transmit_cost_ns = sim_random_scaled(random, 100, 2000);
    plan->clock_per_call = sim_random_below(random, 2) == 0;
}

static void plan_faults(struct sim_plan *plan, struct sim_random *random)
{
    plan->faults_end_ns = sim_random_scaled(random, 500 * US, 2 * SECOND);
    plan->loss_ppm = (uint32_t)sim_random_scaled(random, 100, 300000);
    plan->burst_ppm = (uint32_t)sim_random_scaled(random, 100, 20000);
    plan->burst_ns = sim_random_scaled(random, 5 * US, 50 * MS);
    plan->duplicate_ppm = (uint32_t)sim_random_scaled(random, 1000, 200000);
    plan->reorder_ppm = (uint32_t)sim_random_scaled(random, 1000, 300000);
    plan->late_ns = sim_random_scaled(random, US, 20 * MS);
    plan->jitter_ns = sim_random_scaled(random, 100, MS);
    plan->corrupt_ppm = (uint32_t)sim_random_scaled(random, 1000, 50000);
    plan->pause_ppm = (uint32_t)sim_random_scaled(random, 1000, 100000);
    plan->pauses_most = (unsigned)sim_random_between(random, 1, 6);
    plan->pause_most_ns = sim_random_scaled(random, US, 300 * SECOND);
    plan->full_ppm = (uint32_t)sim_random_scaled(random, 1000, 100000);
    plan->full_ns = sim_random_scaled(random, US, 5 * MS);
    plan->partitions = (unsigned)sim_random_between(random, 1, 3);
    plan->partition_most_ns = sim_random_scaled(random, MS, 2 * SECOND);
    plan->close_ppm = (uint32_t)sim_random_scaled(random, 1000, 100000);
    plan->revoke_ppm = (uint32_t)sim_random_scaled(random, 10000, 300000);
    plan->deaths = (unsigned)sim_random_between(random, 1, 1 + plan->nodes / 4);
    /* Longer than one second, the time that a peer must deny a connection until it is believed. */
    uint64_t short_timeout_ns = sim_random_scaled(random, 2 * SECOND, 16 * SECOND);
    if (!(plan->faults & UNCERTAIN)) {
        plan->peer_timeout_ns = short_timeout_ns;
    }
    /* With a third of all frames lost, PINGs to the responder of a computing program get through
       sooner or later, but perhaps not within half a minute. */
    if ((plan->faults & SIM_BIT(LOSS)) != 0 && plan->loss_ppm > 50000 &&
        plan->pause_most_ns > 5 * SECOND) {
        plan->pause_most_ns = 5 * SECOND;
    }
}

static void plan_troubles(struct sim_plan *plan, struct sim_random *random)
{
    plan->freeze_ppm = (uint32_t)sim_random_scaled(random, 1000, 50000);
    plan->thread_ns = sim_random_scaled(random, 10 * US, 10 * MS);
    plan->deferred_most_bytes = (uint32_t)sim_random_scaled(random, 256, 1u << 20);
    plan->jump_ppm = (uint32_t)sim_random_scaled(random, 1000, 50000);
    plan->jump_most_ns = sim_random_scaled(random, US, 300 * SECOND);
    plan->clock_step_ns = sim_random_scaled(random, 100, MS);
    plan->first_sequence = 0u - (uint32_t)sim_random_scaled(random, 1, 128);
    plan->severances = (unsigned)sim_random_between(random, 1, 1 + plan->nodes / 4);
    plan->slowness_most = (unsigned)sim_random_between(random, 2, 20);
    plan->forge_gap_ns = sim_random_scaled(random, US, MS);
    plan->replay_gap_ns = sim_random_scaled(random, US, MS);
    plan->hostile_gap_ns = sim_random_scaled(random, US, MS);
}

static void plan_workload(struct sim_plan *plan, struct sim_random *random)
{
    plan->operations = (unsigned)sim_random_scaled(random, 4, 255);
    if (sim_random_below(random, 50) == 0) {
        plan->operations *= 10;
    }
    if (plan->operations < plan->nodes && plan->nodes > 16) {
        plan->operations = 2 * plan->nodes;
    }
    plan->pattern = sim_random_below(random, 2) == 0
                        ? SIM_PATTERN_RANDOM
                        : (enum sim_pattern)sim_random_below(random, SIM_PATTERNS);
    plan->gap_ns = sim_random_scaled(random, 100, 500 * US);
    plan->burst_most = (unsigned)sim_random_scaled(random, 1, 64);
    plan->sends_most = (unsigned)sim_random_scaled(random, 1, 512);
    if (sim_random_below(random, 8) == 0) {
        /* Programs that send few messages over a long time. */
        plan->gap_ns = (5 + plan->gap_ns % 400) * MS;
        plan->burst_most = 1;
        plan->operations += 20 * plan->nodes;
        plan->sends_most += 64;
    }
    plan->request_percent = (unsigned)sim_random_between(random, 0, 60);
    plan->transfer_percent = (unsigned)sim_random_between(random, 0, 40);
    plan->streaks = sim_random_below(random, 4) == 0;
}

/** Faults that silence hosts for long; with these, short probe intervals only prolong runs. */
#define SILENCING \
    (SIM_BIT(PAUSE) | SIM_BIT(FREEZE) | SIM_BIT(SEVER) | SIM_BIT(RESTART) | SIM_BIT(KILL))

static void calm_troubles(struct sim_plan *plan)
{
    uint64_t faults = plan->faults;

    if ((faults & SILENCING) != 0 && plan->probe_most_ns < 400 * MS) {
        plan->probe_most_ns = 400 * MS;
    }

    plan->freeze_ppm = faults & SIM_BIT(FREEZE) ? plan->freeze_ppm : 0;
    plan->thread_ns = faults & SIM_BIT(THREAD) ? plan->thread_ns : 0;
    plan->jump_ppm = faults & SIM_BIT(JUMP) ? plan->jump_ppm : 0;
    plan->clock_step_ns = faults & SIM_BIT(COARSE) ? plan->clock_step_ns : 1;
    plan->first_sequence = faults & SIM_BIT(WRAP) ? plan->first_sequence : 0;
    plan->severances = faults & SIM_BIT(SEVER) ? plan->severances : 0;
    plan->slowness_most = faults & SIM_BIT(UNEVEN) ? plan->slowness_most : 1;
    plan->forge_gap_ns = faults & SIM_BIT(FORGE) ? plan->forge_gap_ns : 0;
    plan->replay_gap_ns = faults & SIM_BIT(REPLAY) ? plan->replay_gap_ns : 0;
    plan->hostile_gap_ns = faults & SIM_BIT(HOSTILE) ? plan->hostile_gap_ns : 0;
    if (plan->lying) {
        /* A run with credible forgeries ends with its faults: a deceived node may wait forever. */
        plan->faults_end_ns = plan->faults_end_ns % (20 * MS) + MS;
        plan->pause_most_ns = plan->pause_most_ns % (20 * MS) + 2000;
        plan->freeze_ppm = 0;
        plan->severances = 0;
    }
}

/** Reset the settings of disabled faults. */
static void calm(struct sim_plan *plan)
{
    uint64_t faults = plan->faults;

    plan->loss_ppm = faults & SIM_BIT(LOSS) ? plan->loss_ppm : 0;
    plan->burst_ppm = faults & SIM_BIT(BURST) ? plan->burst_ppm : 0;
    plan->duplicate_ppm = faults & SIM_BIT(DUPLICATE) ? plan->duplicate_ppm : 0;
    plan->reorder_ppm = faults & SIM_BIT(REORDER) ? plan->reorder_ppm : 0;
    plan->jitter_ns = faults & SIM_BIT(JITTER) ? plan->jitter_ns : 0;
    plan->corrupt_ppm = faults & DAMAGING ? plan->corrupt_ppm : 0;
    plan->pause_ppm = faults & SIM_BIT(PAUSE) ? plan->pause_ppm : 0;
    plan->full_ppm = faults & SIM_BIT(FULL) ? plan->full_ppm : 0;
    plan->partitions = faults & SIM_BIT(PARTITION) ? plan->partitions : 0;
    plan->close_ppm = faults & SIM_BIT(CLOSE) ? plan->close_ppm : 0;
    plan->revoke_ppm = faults & SIM_BIT(REVOKE) ? plan->revoke_ppm : 0;
    plan->lying = (faults & SIM_FAULTS_LYING) != 0;
    plan->deaths = faults & (SIM_BIT(KILL) | SIM_BIT(RESTART)) ? plan->deaths : 0;
    plan->switch_bytes = faults & SIM_BIT(SWITCH) ? plan->switch_bytes : 0;
    plan->ring_frames = faults & SIM_BIT(RING) ? plan->ring_frames : UINT32_MAX;
    if (faults & SIM_BIT(RING)) {
        plan->receive_frames = plan->ring_frames;
    }
    if (!(faults & SIM_BIT(MEMORY))) {
        plan->frames_limit = 1u << 16;
        plan->reassembly_limit = 0;
    }
}

/** Plan checks of idle peers. */
static void plan_idle(struct sim_plan *plan, uint64_t seed)
{
    struct sim_random random = sim_random_stream(seed, 21);
    uint64_t idle_ns =
        sim_random_scaled(&random, plan->peer_timeout_ns / 64, plan->peer_timeout_ns / 2);

    /* While one node computes for minutes, 31 others would check each other millions of times. */
    bool often = (plan->faults & SIM_BIT(PAUSE)) != 0 &&
                 idle_ns * IDLE_INTERVALS_MOST < plan->pauses_most * plan->pause_most_ns;
    plan->idle_ns = sim_random_below(&random, 4) == 0 && !often ? idle_ns : 0;
}

/** Plan whether frames travel in datagrams with a checksum of their own. */
static void plan_checksummed(struct sim_plan *plan, uint64_t seed)
{
    struct sim_random random = sim_random_stream(seed, 53);

    plan->checksummed = sim_random_below(&random, 4) == 0;
}

/** Plan how many messages one may overtake: few, because no run has thousands between two nodes. */
static void plan_order(struct sim_plan *plan, uint64_t seed)
{
    struct sim_random random = sim_random_stream(seed, 44);
    uint64_t most = sim_random_scaled(&random, 1, 256);

    plan->overtaken_most = sim_random_below(&random, 2) == 0 ? 0 : (uint32_t)most;
}

/** Plan the suspension of the whole job for much longer than the peer timeout. */
static void plan_suspension(struct sim_plan *plan, uint64_t seed)
{
    struct sim_random random = sim_random_stream(seed, 24);
    uint64_t length_ns = 10 * plan->peer_timeout_ns;

    plan->suspended_ns =
        (plan->faults & SIM_BIT(FREEZE)) != 0 && !plan->lying && sim_random_below(&random, 4) == 0
            ? length_ns
            : 0;
}

/** Maximum number of nodes if nodes depart: each checks all others until the fence is passed. */
#define DEPARTURE_NODES_MOST 64u

/** Faults after which a node may be given up, or a frame may contain data that was never sent. */
#define UNFIT_FOR_DEPARTURE \
    (SIM_FAULTS_LYING | SIM_BIT(FREEZE) | SIM_BIT(SEVER) | SIM_BIT(RESTART) | SIM_BIT(KILL))

/** Plan that nodes end as ranks do in MPI_Finalize. */
static void plan_departure(struct sim_plan *plan, uint64_t seed)
{
    struct sim_random random = sim_random_stream(seed, 30);

    plan->depart_ns = sim_random_scaled(&random, 1000, 3000 * MS);
    plan->depart_faults_ns = sim_random_scaled(&random, 1000, 2000 * MS);
    if ((plan->faults & UNFIT_FOR_DEPARTURE) != 0 || plan->nodes > DEPARTURE_NODES_MOST ||
        sim_random_below(&random, 2) == 0) {
        plan->depart_ns = 0;
    }
    if (plan->nics > 1 && sim_random_below(&random, 2) == 0) {
        plan->depart_faults_ns += 2 * plan->depart_ns; /* until the last node finalizes, roughly */
    }
}

/** Nodes of larger networks have one interface: connections grow with the interfaces' square. */
#define SEVERAL_NICS_NODES_MAX 8u

/** Plan several interfaces, and pulled cables. */
static void plan_nics(struct sim_plan *plan, const struct sim_options *options)
{
    struct sim_random random = sim_random_stream(options->seed, 26);
    uint64_t style = sim_random_below(&random, 100);
    bool pulls = sim_random_below(&random, 2) == 0;

    plan->nics = style < 65 || plan->nodes > SEVERAL_NICS_NODES_MAX ? 1 : style < 88 ? 2 : 3;
    if (options->nics != 0) {
        plan->nics = options->nics;
    }
    plan->mixed_nics = sim_random_below(&random, 4) == 0;
    if (!options->faults_exact && (options->faults & SIM_BIT(PULL)) != 0 && plan->faults != 0 &&
        pulls && plan->nics > 1) {
        plan->faults |= SIM_BIT(PULL);
    }
    plan->pulls = (unsigned)sim_random_between(&random, 1, 4);
    plan->pull_most_ns = sim_random_scaled(&random, MS, 2 * SECOND);
    plan->pull_longest = (unsigned)sim_random_below(&random, plan->nics);
    if (plan->mixed_nics) {
        /*
         * A node with fewer interfaces learns of some of its peer's only when the peer uses them.
         */
        plan->pull_longest = SIM_NICS_MAX;
    }
    if ((plan->faults & SIM_BIT(PULL)) == 0) {
        plan->pulls = 0;
    }
}

/** Plan that one of several routes loses frames. If all lose frames, PINGs must still pass. */
static void plan_lossy(struct sim_plan *plan, const struct sim_options *options)
{
    struct sim_random random = sim_random_stream(options->seed, 46);
    bool loses = sim_random_below(&random, LOSSY_RARELY) == 0;
    bool alone = sim_random_below(&random, 2) == 0;

    plan->lossy = (enum sim_lossy_kind)sim_random_below(&random, SIM_LOSSY_KINDS);
    uint32_t most_ppm = plan->lossy == SIM_LOSSY_ALL || plan->mixed_nics ? 300000 : 500000;
    plan->lossy_ppm = (uint32_t)sim_random_between(&random, 100000, most_ppm);
    plan->lossy_from_ns = sim_random_scaled(&random, MS, SECOND);
    plan->lossy_until_ns = plan->lossy_from_ns + sim_random_between(&random, SECOND, 14 * SECOND);
    if (!options->faults_exact && (options->faults & SIM_BIT(LOSSY)) != 0 && plan->faults != 0 &&
        loses && plan->nics > 1) {
        plan->faults = (alone ? 0 : plan->faults) | SIM_BIT(LOSSY);
    }
    if ((plan->faults & SIM_BIT(LOSSY)) == 0 || plan->nics == 1 ||
        (plan->faults & SIM_FAULTS_LYING) != 0) {
        plan->lossy_ppm = 0;
    }
}

/** Plan changes of interfaces' addresses. */
static void plan_addresses(struct sim_plan *plan, const struct sim_options *options)
{
    struct sim_random random = sim_random_stream(options->seed, 49);
    bool change = sim_random_below(&random, 8) == 0;

    plan->readdressings = (unsigned)sim_random_between(&random, 1, 6);
    if (!options->faults_exact && (options->faults & SIM_BIT(ADDRESS)) != 0 && plan->faults != 0 &&
        change) {
        plan->faults |= SIM_BIT(ADDRESS);
    }
    if ((plan->faults & SIM_BIT(ADDRESS)) == 0 || (plan->faults & SIM_FAULTS_LYING) != 0) {
        plan->readdressings = 0;
    }
}

/** Plan failing ports, misdirected frames, and clock steps. */
static void plan_ports(struct sim_plan *plan, const struct sim_options *options)
{
    struct sim_random random = sim_random_stream(options->seed, 51);
    uint64_t chosen = 0;

    chosen |= sim_random_below(&random, 8) == 0 ? SIM_BIT(ERROR) : 0;
    chosen |= sim_random_below(&random, 4) == 0 ? SIM_BIT(STRAY) : 0;
    chosen |= sim_random_below(&random, 8) == 0 ? SIM_BIT(STEP) : 0;
    if (!options->faults_exact && plan->faults != 0) {
        plan->faults |= chosen & options->faults;
    }
    plan->error_ppm = (uint32_t)sim_random_scaled(&random, 100, 20000);
    plan->error_ns = sim_random_scaled(&random, US, 50 * MS);
    plan->stray_ppm = (uint32_t)sim_random_scaled(&random, 100, 20000);
    plan->stray_ns = sim_random_scaled(&random, US, 20 * MS);
    plan->step_ppm = (uint32_t)sim_random_scaled(&random, 1000, 50000);
    plan->step_most_ns = sim_random_scaled(&random, US, 36000 * SECOND);
    plan->error_ppm = plan->faults & SIM_BIT(ERROR) ? plan->error_ppm : 0;
    plan->stray_ppm = plan->faults & SIM_BIT(STRAY) ? plan->stray_ppm : 0;
    plan->step_ppm = plan->faults & SIM_BIT(STEP) ? plan->step_ppm : 0;
}

/** One in this many runs has a node to which others send without a pause; maximum of its nodes. */
#define STEADY_RARELY 500u
#define STEADY_NODES_MOST 8u

/** Traffic in runs with steady traffic: half a second of a link's capacity, and its messages. */
#define STEADY_BYTES 60000000u
#define STEADY_MESSAGE_BYTES (1u << 17)
#define STEADY_MEAN_BYTES 11000u
#define STEADY_PS_PER_BYTE 8000u
#define STEADY_PAYLOAD_LEAST 1472u
#define STEADY_RING_LEAST 1024u

/** Plan steady traffic to one node, without other faults. */
static void plan_steady(struct sim_plan *plan, const struct sim_options *options)
{
    struct sim_random random = sim_random_stream(options->seed, 52);
    bool chosen = sim_random_below(&random, STEADY_RARELY) == 0;
    unsigned nodes = (unsigned)sim_random_between(&random, 3, STEADY_NODES_MOST);

    if (!options->faults_exact && chosen && plan->faults != 0 &&
        (options->faults & SIM_BIT(STEADY)) != 0) {
        plan->faults = SIM_BIT(STEADY);
    }
    if ((plan->faults & SIM_FAULTS_LYING) != 0) {
        plan->faults &= ~SIM_BIT(STEADY);
    }
    if ((plan->faults & SIM_BIT(STEADY)) != 0 && options->nodes == 0) {
        plan->nodes = nodes;
    }
}

/** Plan the programs of runs with steady traffic. */
static void plan_steady_workload(struct sim_plan *plan, const struct sim_options *options)
{
    if ((plan->faults & SIM_BIT(STEADY)) == 0) {
        return;
    }
    plan->pattern = SIM_PATTERN_INCAST;
    plan->ps_per_byte = STEADY_PS_PER_BYTE;
    plan->slowness_most = 1;
    plan->gap_ns = 10 * US;
    plan->burst_most = 16;
    plan->sends_most = 64;
    plan->streaks = false;
    plan->message_max_bytes = plan->transfer_max_bytes = STEADY_MESSAGE_BYTES;
    plan->mixed_mtu = false;
    if (plan->receive_frames < STEADY_RING_LEAST) {
        plan->receive_frames = STEADY_RING_LEAST; /* with fewer, frames wait for each other */
    }
    if (plan->payload_max_bytes < STEADY_PAYLOAD_LEAST) {
        plan->payload_max_bytes = STEADY_PAYLOAD_LEAST;
    }
    if (options->operations == 0) {
        plan->operations = STEADY_BYTES / STEADY_MEAN_BYTES;
    }
}

/** One in this many runs has a path whose MTU shrinks; the fault is rarely combined with all. */
#define SHRINK_RARELY 16u
#define SHRINK_LEAST_BYTES 256u

/** Plan that the MTU of a path shrinks. */
static void plan_shrink(struct sim_plan *plan, const struct sim_options *options)
{
    struct sim_random random = sim_random_stream(options->seed, 54);

    if (!options->faults_exact && sim_random_below(&random, SHRINK_RARELY) == 0 &&
        plan->faults != 0 && (options->faults & SIM_BIT(SHRINK)) != 0) {
        plan->faults |= SIM_BIT(SHRINK);
    }
    if ((plan->faults & (SIM_FAULTS_LYING | SIM_BIT(STEADY))) != 0) {
        plan->faults &= ~SIM_BIT(SHRINK);
    }
}

/** Plan the smaller MTU. */
static void plan_shrunk(struct sim_plan *plan, uint64_t seed)
{
    struct sim_random random = sim_random_stream(seed, 56);

    if ((plan->faults & SIM_BIT(SHRINK)) == 0 || plan->payload_max_bytes <= SHRINK_LEAST_BYTES) {
        return;
    }
    plan->shrink = (enum sim_shrink_kind)sim_random_below(&random, SIM_SHRINK_KINDS);
    plan->shrink_bytes =
        (uint32_t)sim_random_between(&random, SHRINK_LEAST_BYTES, plan->payload_max_bytes - 8u) &
        ~7u;
    plan->shrink_from_ns = sim_random_scaled(&random, 10 * US, plan->faults_end_ns);
}

/** One in this many runs has callbacks that make progress. */
#define NEST_RARELY 8u

/** Plan that callbacks make progress. */
static void plan_nesting(struct sim_plan *plan, const struct sim_options *options)
{
    struct sim_random random = sim_random_stream(options->seed, 58);
    unsigned every = (unsigned)sim_random_scaled(&random, 1, 64);

    if (!options->faults_exact && sim_random_below(&random, NEST_RARELY) == 0 &&
        plan->faults != 0) {
        plan->faults |= options->faults & SIM_BIT(NEST);
    }
    plan->nest_every = (plan->faults & SIM_BIT(NEST)) != 0 ? every : 0;
}

/** Plan enough traffic that a lossy route is left, and used again after it has recovered. */
static void plan_lossy_workload(struct sim_plan *plan, const struct sim_options *options)
{
    struct sim_random random = sim_random_stream(options->seed, 47);
    uint64_t gap_ns = sim_random_between(&random, 10 * MS, 80 * MS);
    unsigned burst_most = (unsigned)sim_random_between(&random, 1, 3);
    uint64_t end_ns = plan->lossy_until_ns + sim_random_between(&random, 0, 14 * SECOND);

    if (plan->lossy_ppm == 0) {
        return;
    }
    plan->gap_ns = gap_ns;
    plan->burst_most = burst_most;
    plan->sends_most += 64;
    plan->streaks = false;
    if (options->operations == 0) {
        plan->operations = (unsigned)(end_ns * (burst_most + 1) / gap_ns) * plan->nodes;
    }
    if (plan->message_max_bytes > LOSSY_BYTES_MOST) {
        plan->message_max_bytes = LOSSY_BYTES_MOST;
    }
    if (plan->transfer_max_bytes > LOSSY_BYTES_MOST) {
        plan->transfer_max_bytes = LOSSY_BYTES_MOST;
    }
    if (plan->pause_most_ns > 5 * SECOND) {
        plan->pause_most_ns = 5 * SECOND; /* only its responder answers: see plan_faults */
    }
}

/** Plan transfers of several batches, so that they can be balanced between routes. */
static void plan_long_transfers(struct sim_plan *plan, uint64_t seed)
{
    struct sim_random random = sim_random_stream(seed, 28);
    bool longer = sim_random_below(&random, 2) == 0;
    uint32_t longest = plan->payload_max_bytes * 512;

    longest = longest < LONGEST_TRANSFER_BYTES ? longest : LONGEST_TRANSFER_BYTES;
    if (plan->nics > 1 && longer) {
        plan->transfer_max_bytes =
            (uint32_t)sim_random_scaled(&random, RAWE_BATCH_BYTES_MAX, longest);
    }
}

/** Plan how much data GETs from several peers request at a time. */
static void plan_inflow(struct sim_plan *plan, uint64_t seed)
{
    struct sim_random random = sim_random_stream(seed, 41);
    uint64_t inflow_bytes = sim_random_scaled(&random, 4096, 200000);

    plan->inflow_bytes = sim_random_below(&random, 2) == 0 ? inflow_bytes : 0;
}

/** Plan several processes per host, and which facts engines know about their links. */
static void plan_hosts(struct sim_plan *plan, uint64_t seed)
{
    struct sim_random random = sim_random_stream(seed, 44);
    unsigned several = (unsigned)sim_random_between(&random, 2, SIM_PROCESSES_MAX);

    plan->processes = sim_random_below(&random, 3) == 0 ? several : 1;
    plan->rates_known = sim_random_below(&random, 2) == 0;
    plan->arrivals_known = sim_random_below(&random, 2) == 0;
}

/** Plan how often memory runs out. */
static void plan_memory(struct sim_plan *plan, uint64_t seed)
{
    struct sim_random random = sim_random_stream(seed, 43);
    uint32_t no_memory_ppm = (uint32_t)sim_random_scaled(&random, 100, 300000);

    plan->no_memory_ppm = (plan->faults & SIM_BIT(MEMORY)) != 0 ? no_memory_ppm : 0;
}

void sim_plan_make(struct sim_plan *plan, const struct sim_options *options)
{
    struct sim_random random = sim_random_stream(options->seed, 0);

    memset(plan, 0, sizeof(*plan));
    plan->faults = choose_faults(&random, options);
    plan->nodes = choose_nodes(&random);
    if (options->nodes != 0) {
        plan->nodes = options->nodes;
    }
    plan_nics(plan, options);
    plan_lossy(plan, options);
    plan_addresses(plan, options);
    plan_ports(plan, options);
    plan_steady(plan, options);
    plan_shrink(plan, options);
    plan_nesting(plan, options);
    plan_engine(plan, &random);
    plan_network(plan, &random);
    plan_faults(plan, &random);
    plan_workload(plan, &random);
    plan_batches(plan, &random);
    plan_troubles(plan, &random);
    if (options->operations != 0) {
        plan->operations = options->operations;
    }
    calm(plan);
    calm_troubles(plan);
    plan_shrunk(plan, options->seed);
    plan_long_transfers(plan, options->seed);
    plan_lossy_workload(plan, options);
    plan_steady_workload(plan, options);
    plan_idle(plan, options->seed);
    plan_suspension(plan, options->seed);
    plan_order(plan, options->seed);
    plan_checksummed(plan, options->seed);
    plan_departure(plan, options->seed);
    plan_inflow(plan, options->seed);
    plan_hosts(plan, options->seed);
    plan_memory(plan, options->seed);
}
