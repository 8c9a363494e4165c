/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Two processes that run the whole component, joined by rails: in-memory wires between interfaces
 * with the same index. Only the ports, the responders, Open MPI and the clock are fake.
 *
 * The component's global state belongs to the entered process; the other process's state is
 * saved. Only the test advances time.
 */
#ifndef UNIT_PROCESSES_H
#define UNIT_PROCESSES_H

#include <stdbool.h>
#include <stdint.h>

#include "btl_rawe_endpoint.h"
#include "btl_rawe_module.h"
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
    struct mca_btl_rawe_state state;               /**< saved while the other process is entered */
};

extern struct unit_process processes[PROCESSES];
extern unsigned rails;
/** Each wire loses one in this many packets; 0: none. */
extern unsigned rails_lose_each;

/** Start both processes with one module per rail, and introduce them to each other. */
void processes_start(const uint32_t *speeds_mbps, unsigned count);
/** Finalize both processes; packets on the wires are lost. */
void processes_stop(void);
/**
 * Make all calls to the component as this process from now on. Must not be called in a callback.
 */
struct unit_process *process_enter(unsigned index);
/** Call progress as Open MPI does. */
void process_progress(void);
/** Run the progress thread once for each module, as if the program were outside MPI. */
void process_serve(const struct unit_process *process);

void time_pass(uint64_t duration_ns);
/** Delay all packets of a rail until `duration_ns` have passed. */
void rail_stall(unsigned rail, uint64_t duration_ns);
/** Set the carrier of a rail's interfaces. Losing it drops the packets on the wire. */
void rail_set_carrier(unsigned rail, bool carrier);

#endif
