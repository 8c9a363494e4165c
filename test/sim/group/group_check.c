/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The invariants of a run.
 */
#include <inttypes.h>

#include "group/rawe_group_stream.h"
#include "group_run.h"

void check_member(struct run *run, const struct host *host, bool progressed)
{
    const struct rawe_group *group = &host->group;
    const uint64_t next_ns = rawe_group_next_ns(group);
    if (group->next - group->base > run->plan->window_frames ||
        group->sent - group->base > group->next - group->base) {
        violate(run, "member %u: the window is %u frames", host->self, group->next - group->base);
    }
    if (group->held_ns != 0 && progressed) {
        violate(run, "member %u makes progress, and holds a frame back", host->self);
    }
    if ((group->window == NULL) != (group->base == group->next)) {
        violate(run, "member %u: the window's memory", host->self);
    }
    if (progressed && next_ns <= run->now_ns) {
        violate(run, "member %u wants to be called at once, again and again", host->self);
    }
    for (uint32_t i = 0; group->base != group->next && i < run->plan->members; i++) {
        const struct rawe_group_member *members = run->host[i].group.members;
        const struct rawe_group_stream *stream =
            members == NULL ? NULL : members[host->self].stream;
        if (stream != NULL && rawe_sequence_before(stream->next, group->base)) {
            violate(run, "member %u has released what %u has not delivered", host->self, i);
        }
        if (run->plan->members > 100) {
            break; /* checking small groups suffices */
        }
    }
}

bool check_has_all(const struct run *run, const struct host *host)
{
    uint32_t messages = 0, delivered = 0;
    for (uint32_t i = 0; i < run->plan->orders; i++) {
        messages += run->plan->order[i].root != host->self;
    }
    for (uint32_t root = 0; root < run->plan->members; root++) {
        delivered += host->delivered[root];
    }
    return delivered == messages && host->done == run->plan->orders - messages;
}

/** Check that a member has sent and received all messages and has no work left. */
static void check_member_end(struct run *run, const struct host *host)
{
    if (!rawe_group_done(&host->group) || !check_has_all(run, host)) {
        violate(run, "member %u: something is missing, or not acknowledged", host->self);
    }
    if (!host->left && rawe_group_next_ns(&host->group) != UINT64_MAX) {
        violate(run, "member %u: something is left to do", host->self);
    }
    for (uint32_t i = 0; i < run->plan->members; i++) {
        const struct rawe_group_stream *stream =
            host->group.members == NULL ? NULL : host->group.members[i].stream;
        if (stream != NULL && (stream->stored_frames != 0 || stream->stored != NULL)) {
            violate(run, "member %u keeps frames", host->self);
        }
    }
}

/** Return the time by which all messages must be delivered: see doc/simulator.md. */
static uint64_t latest_ns(const struct run *run, uint64_t frames)
{
    const struct plan *plan = run->plan;
    uint64_t calm_ns = plan->order[plan->orders - 1].at_ns;
    for (uint32_t i = 0; i < plan->members; i++) {
        const struct fate *fate = &plan->fate[i];
        const uint64_t ends[] = {fate->starts_ns, fate->pause_until_ns, fate->refuses_until_ns};
        for (unsigned k = 0; k < 3; k++) {
            calm_ns = ends[k] > calm_ns ? ends[k] : calm_ns;
        }
    }
    const uint64_t round_ns =
        RAWE_GROUP_STATUS_NS + 2 * RAWE_GROUP_NACK_NS + plan->members * RAWE_GROUP_SPREAD_NS +
        8 * plan->delay_ns + 2 * plan->jitter_ns + (plan->late_ppm != 0 ? 4 * plan->late_ns : 0) +
        (plan->full_ppm != 0 ? 2 * NS_PER_MS : 0) + (plan->refuse_ppm != 0 ? 4 * NS_PER_MS : 0);
    const uint64_t rounds = plan->orders + 2 * frames / (plan->window_frames / 2 + 1) +
                            2 * frames / RAWE_GROUP_NACK_FRAMES + 10;
    /* After a control message without memory, a root must ask. */
    return calm_ns + rounds * round_ns +
           (plan->poor_ppm == 0 ? 0 : (run->refused + 1) * (ASK_NS + round_ns));
}

void check_end(struct run *run)
{
    const struct plan *plan = run->plan;
    struct outcome *outcome = run->outcome;
    uint64_t quiet_control = 0, messages = 0, unbuffered = 0;
    for (uint32_t i = 0; i < plan->members; i++) {
        const struct host *host = &run->host[i];
        const struct rawe_group_counters *counters = &host->counters;
        outcome->frames += counters->frames_sent;
        outcome->repairs += counters->repairs_sent;
        outcome->nacks += counters->nacks_sent;
        outcome->control += counters->nacks_sent + counters->acks_sent + counters->status_sent;
        messages += counters->messages_sent;
        unbuffered += counters->no_buffer;
        /* Allow a STATUS, and an ACK from each other member, per half window and per pause. */
        quiet_control +=
            (counters->frames_sent / (plan->window_frames / 2) + 2 * counters->messages_sent +
             counters->batches_sent / (RAWE_GROUP_BATCHES_MAX / 2)) *
            2 * (plan->members - 1);
        if (!plan->dies) {
            check_member_end(run, host);
        }
    }
    if (!plan->dies && run->came_ns > latest_ns(run, outcome->frames)) {
        violate(run, "the last message comes at %" PRIu64 " us, %" PRIu64 " too late",
                run->came_ns / NS_PER_US,
                (run->came_ns - latest_ns(run, outcome->frames)) / NS_PER_US);
    }
    const bool asked = plan->asks != 0 || plan->poor_ppm != 0;
    /* Each repair or NACK must be for a missed frame; if members ask, repairs may be repeated. */
    if (!asked && (outcome->repairs > outcome->missed || outcome->nacks > outcome->missed)) {
        violate(run, "%" PRIu64 " repairs and %" PRIu64 " NACKs for %" PRIu64 " frames missed",
                outcome->repairs, outcome->nacks, outcome->missed);
    }
    if (!asked &&
        outcome->control > 4 * plan->members * (outcome->frames + messages) + outcome->missed) {
        violate(run, "%" PRIu64 " control messages for %" PRIu64 " frames", outcome->control,
                outcome->frames);
    }
    if (plan->quiet && (outcome->nacks != 0 || outcome->repairs != 0 || unbuffered != 0)) {
        violate(run, "%" PRIu64 " NACKs and %" PRIu64 " repairs, and nothing was lost",
                outcome->nacks, outcome->repairs);
    }
    if (plan->quiet && outcome->control > quiet_control) {
        violate(run, "%" PRIu64 " control messages, where %" PRIu64 " are enough", outcome->control,
                quiet_control);
    }
}
