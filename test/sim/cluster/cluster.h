/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * rawe-cluster: many hosts on a switch, each with the real protocol engine, in virtual time. Their
 * messages are counted and timed. A plan determines a run event by event.
 *
 *   cluster_plan     parameters of a run, and its ideal time
 *   cluster_net      links, switch, queues
 *   cluster_rank     a process: its engine, reception and wake-ups
 *   cluster_traffic  messages, sent as ob1 would send them
 *   cluster_collective  MPI_Bcast, MPI_Allreduce
 *   cluster_workload lengths of messages in W3 and W4
 *   cluster_fair     fair rates of flows
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
    struct rawe_pull_host *hosts; /**< shared by the ranks of a host */
    struct cluster_traffic traffic;
    struct cluster_collective collective;
    /** The data of all messages of all ranks is read from `payload` and written to `sink`. */
    uint8_t *payload, *sink;
    bool ending; /**< connections are being closed: transmission has stopped */
};

#endif
