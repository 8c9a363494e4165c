/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The state of a run, and the invariants that are checked during and after it.
 */
#ifndef GROUP_RUN_H
#define GROUP_RUN_H

#include "group_sim.h"
#include "sim_event.h"
#include "sim_random.h"

struct host {
    struct run *run;
    uint32_t self;
    struct rawe_group group;
    struct rawe_group_counters counters;
    bool started;
    bool left;              /**< it has left with all its data, or has died */
    uint64_t wake_ns;       /**< when an event will wake it */
    uint64_t full_until_ns; /**< its link is full until then */
    uint32_t burst_left;    /**< following frames to lose, for at most a second */
    uint64_t burst_until_ns;
    uint32_t *delivered; /**< number of messages, by root */
    uint32_t *at_bytes;  /**< bytes received of the current message, by root */
    struct known known;
    uint32_t sends, done;
    uint8_t place[UINT16_MAX]; /**< destination of a batch's data */
};

struct run {
    const struct plan *plan;
    struct outcome *outcome;
    struct sim_random random;
    struct sim_events events;
    uint64_t now_ns;
    struct host *host;
    uint64_t came_ns; /**< time of the last delivery */
    uint32_t refused; /**< control messages for which there was no memory */
    bool trace;
};

/* group_run.c */
/** Record a violation; a run reports its first. */
void violate(struct run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* group_check.c */
/** Check a member after a call. The member's next progress must send any frame held back. */
void check_member(struct run *run, const struct host *host, bool progressed);
/** Return true if a member has received and sent all its messages. */
bool check_has_all(const struct run *run, const struct host *host);
/** Check that all messages arrived in time, with no superfluous repairs or control messages. */
void check_end(struct run *run);

#endif
