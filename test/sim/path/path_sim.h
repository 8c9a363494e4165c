/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Path discovery in virtual time: one process searches, the others answer, a seed decides how.
 */
#ifndef PATH_SIM_H
#define PATH_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "rawe_path.h"

#define NS_PER_US UINT64_C(1000)
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S UINT64_C(1000000000)

/** What is true of a path, unknown to the search. */
struct truth {
    unsigned process;
    bool leads;           /**< frames get to the process at all */
    uint32_t there_bytes; /**< MTU in each direction */
    uint32_t back_bytes;
    uint64_t round_trip_ns; /**< the least; `jitter_ns` at most comes on top */
    /* counted */
    unsigned asked;   /**< smallest PINGs */
    unsigned sized;   /**< larger PINGs */
    unsigned between; /**< of these, those neither smallest nor full */
};

struct process {
    uint64_t starts_ns; /**< it answers from then on */
    uint64_t stall_ns;  /**< its host stands still from `stall_from_ns` on, for this long */
    uint64_t stall_from_ns;
    unsigned first; /**< its paths */
    unsigned paths;
};

/** One run. All of it but the counts follows from the seed. */
struct plan {
    uint64_t seed;
    unsigned processes;
    unsigned paths;
    unsigned ring_frames; /**< of the searching process's responder */
    unsigned burst_pings; /**< as the responder chooses it for such a ring */
    uint64_t timeout_ns;
    uint32_t loss_ppm; /**< each way */
    uint32_t duplicate_ppm;
    uint64_t jitter_ns;
    bool late;   /**< some processes start late */
    bool stalls; /**< some hosts stand still for a while */
    struct process *process;
    struct truth *truth;
    struct rawe_path *path;
};

/** What happened in a run. */
struct outcome {
    uint64_t end_ns;
    uint64_t pings;
    uint64_t ring_drops;   /**< answers that found the responder's ring full */
    unsigned window_pings; /**< the most in 2 ms */
    bool spins;            /**< the search asked to be woken at once, with nothing to do */
};

/* path_plan.c */
void plan_make(struct plan *plan, uint64_t seed);
void plan_free(struct plan *plan);

/* path_run.c */
void plan_run(struct plan *plan, struct outcome *outcome, bool trace);

/* path_check.c */
/** Writes what is wrong into `text`; false: nothing. */
bool plan_check(const struct plan *plan, const struct outcome *outcome, char text[200]);

#endif
