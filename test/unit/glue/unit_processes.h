/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Two processes of the whole component, joined by rails: wires in memory between their interfaces
 * of the same index. Only the ports, the responders, Open MPI and the clock are fake.
 *
 * The component's state is one global: it belongs to the entered process, while the other's is
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
    struct mca_btl_rawe_state state;               /**< saved while the other one is entered */
};

extern struct unit_process processes[PROCESSES];
extern unsigned rails;
/** Each wire loses one in this many packets; 0: none. */
extern unsigned rails_lose_each;

/** Start both with one module per rail, and introduce them to each other. */
void processes_start(const uint32_t *speeds_mbps, unsigned count);
/** Finalize both; packets on the wires are lost. */
void processes_stop(void);
/**
 * Let this process make all calls of the component from now on. Must not be called in a callback.
 */
struct unit_process *process_enter(unsigned index);
/** Call progress as Open MPI does. */
void process_progress(void);
/** Let the progress thread serve each module, as while the program is outside MPI. */
void process_serve(const struct unit_process *process);

void time_pass(uint64_t duration_ns);
/** Delay all packets of a rail until `duration_ns` have passed. */
void rail_stall(unsigned rail, uint64_t duration_ns);
/** Set the carrier of a rail's interfaces. Losing it drops the packets on the wire. */
void rail_set_carrier(unsigned rail, bool carrier);

#endif
