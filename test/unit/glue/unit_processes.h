/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Two processes of the whole component, joined by rails: interface i of the one by a wire in memory to
 * interface i of the other. Only the ports, the responders, Open MPI and the clock are made up.
 *
 * The component's state is one global: the process that is entered has it, and the other one's is
 * put aside. Time stands still unless a test moves it.
 */
#ifndef UNIT_PROCESSES_H
#define UNIT_PROCESSES_H

#include <stdbool.h>
#include <stdint.h>

#include "btl_rawe_endpoint.h"
#include "btl_rawe_module.h"
#include "btl_rawe_state.h"
#include "fake_ompi.h"

#define PROCESSES 2u
#define RAILS_MAX 3u

#define US 1000ull
#define MS 1000000ull

struct unit_process {
    unsigned index;
    mca_btl_rawe_module_t *modules[RAILS_MAX];
    mca_btl_base_endpoint_t *endpoints[RAILS_MAX]; /**< the other process, on each rail */
    opal_proc_t *other;                            /**< the other process */
    struct mca_btl_rawe_state state;               /**< while another is entered */
};

extern struct unit_process processes[PROCESSES];
extern unsigned rails;
/** Each wire loses one of that many packets; 0: none. */
extern unsigned rails_lose_each;

/** Start both with one module for each rail, and introduce them to each other. */
void processes_start(const uint32_t *speeds_mbps, unsigned count);
/** Finalize both; what lies on the wires is lost. */
void processes_stop(void);
/** All calls of the component are made by this process from now on. Not inside a callback. */
struct unit_process *process_enter(unsigned index);
/** Progress as Open MPI calls it. */
void process_progress(void);
/** The program is outside MPI: the progress thread looks after each module. */
void process_serve(const struct unit_process *process);

void time_pass(uint64_t duration_ns);
/** Nothing arrives by a rail before that time is over; what is sent there waits. */
void rail_stall(unsigned rail, uint64_t duration_ns);
/** The interfaces of a rail lose their carrier, and what lies on the wire is lost; or have it again. */
void rail_set_carrier(unsigned rail, bool carrier);

#endif
