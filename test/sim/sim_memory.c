/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory shortage: while an engine receives or runs its timers, its allocations may fail, by the
 * linker's --wrap. The simulator's own do not.
 */
#include <stdlib.h>

#include "sim.h"

/** Node whose engine's allocations may fail; NULL: all succeed. */
static struct sim_node *scarce;

void *__real_malloc(size_t len_bytes);
void *__real_calloc(size_t count, size_t len_bytes);
void *__real_aligned_alloc(size_t alignment, size_t len_bytes);
void *__wrap_malloc(size_t len_bytes);
void *__wrap_calloc(size_t count, size_t len_bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t len_bytes);

struct sim_node *sim_memory_scarce(struct sim_node *node)
{
    struct sim_node *before = scarce;

    scarce = node;
    return before;
}

static bool runs_out(void)
{
    struct sim *sim = scarce != NULL ? scarce->sim : NULL;

    if (sim == NULL || sim->plan.no_memory_ppm == 0 || !sim_faults_on(sim) ||
        !sim_strikes(sim, &scarce->memory, sim->plan.no_memory_ppm)) {
        return false;
    }
    sim->incidents.no_memory++;
    sim_trace(sim, "n%u gets no memory", scarce->index);
    return true;
}

void *__wrap_malloc(size_t len_bytes)
{
    return runs_out() ? NULL : __real_malloc(len_bytes);
}

void *__wrap_calloc(size_t count, size_t len_bytes)
{
    return runs_out() ? NULL : __real_calloc(count, len_bytes);
}

void *__wrap_aligned_alloc(size_t alignment, size_t len_bytes)
{
    return runs_out() ? NULL : __real_aligned_alloc(alignment, len_bytes);
}

void *net_new(size_t len_bytes)
{
    void *memory = __real_malloc(len_bytes != 0 ? len_bytes : 1);

    if (memory == NULL) {
        abort();
    }
    return memory;
}
