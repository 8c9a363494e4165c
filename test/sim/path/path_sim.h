/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Path discovery in virtual time, decided by a seed: one process searches for others, which answer.
 */
#ifndef PATH_SIM_H
#define PATH_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "rawe_path.h"

#define NS_PER_US UINT64_C(1000)
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S UINT64_C(1000000000)

/** The true properties of a path, which the search does not know. */
struct truth {
    unsigned process;
    bool leads;           /**< frames reach the process */
    uint32_t there_bytes; /**< MTU in each direction */
    uint32_t back_bytes;
    uint64_t round_trip_ns; /**< minimum, to which up to `jitter_ns` is added */
    /* counted */
    unsigned asked;   /**< smallest PINGs */
    unsigned sized;   /**< larger PINGs */
    unsigned between; /**< those larger than the smallest but not full-sized */
};

struct process {
    uint64_t starts_ns; /**< it answers from this time on */
    uint64_t stall_ns;  /**< its host is suspended at `stall_from_ns` for this long */
    uint64_t stall_from_ns;
    unsigned first; /**< its paths */
    unsigned paths;
};

/** One run. The seed determines all of it except the counts. */
struct plan {
    uint64_t seed;
    unsigned processes;
    unsigned paths;
    unsigned ring_frames; /**< of the searching process's responder */
    unsigned burst_pings; /**< as chosen by the responder for such a ring */
    uint64_t timeout_ns;
    uint32_t loss_ppm; /**< each way */
    uint32_t duplicate_ppm;
    uint64_t jitter_ns;
    bool late;   /**< some processes start late */
    bool stalls; /**< some hosts are suspended for a while */
    struct process *process;
    struct truth *truth;
    struct rawe_path *path;
};

/** Outcome of a run. */
struct outcome {
    uint64_t end_ns;
    uint64_t pings;
    uint64_t ring_drops;   /**< answers dropped because the responder's ring was full */
    unsigned window_pings; /**< the most in 2 ms */
    bool spins;            /**< the search asked to be woken at once but had no work */
};

/* path_main.c */
void plan_make(struct plan *plan, uint64_t seed);
void plan_free(struct plan *plan);

/* path_run.c */
void plan_run(struct plan *plan, struct outcome *outcome, bool trace);

/* path_check.c */
/** Check a run. Returns true, with the violation in `text`, if an invariant is violated. */
bool plan_check(const struct plan *plan, const struct outcome *outcome, char text[200]);

#endif
