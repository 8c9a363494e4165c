/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * rawe-cluster: many hosts on a switch, each with the real protocol engine, in virtual time; what they
 * send is counted and timed. The same plan is the same run, event by event.
 *
 *   cluster_plan     what a run is, and what it takes at best
 *   cluster_net      links, switch, queues
 *   cluster_rank     a process: its engine, how it receives and when it wakes
 *   cluster_traffic  messages: who sends them when, as ob1 would
 *   cluster_collective  MPI_Bcast, MPI_Allreduce
 *   cluster_workload how long they are in W3 and W4
 *   cluster_fair     what the links allow flows
 *   cluster_run      a run from beginning to end, and its result
 *   cluster_report   a line for each run
 */
#ifndef CLUSTER_H
#define CLUSTER_H

#include "cluster_rank.h"
#include "cluster_net.h"
#include "cluster_plan.h"
#include "cluster_traffic.h"
#include "sim_event.h"

/** State of a run. */
struct cluster {
    struct cluster_plan plan;
    uint64_t now_ns;
    struct sim_events events;
    struct cluster_net net;
    struct cluster_rank *ranks;
    struct rawe_inflow_shared *inflows; /**< what the ranks of a host share */
    struct cluster_traffic traffic;
    struct cluster_collective collective;
    /** All messages are read from one place and written to another, by all ranks. */
    uint8_t *payload, *sink;
    bool ending; /**< connections are being closed: nothing is transmitted any more */
};

#endif
