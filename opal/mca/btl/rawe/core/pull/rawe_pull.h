/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Pull: what peers may have in flight to this process, decided at the receiver. Frames in flight
 * wait in two places, each with a limit of its own:
 *
 *   receive ring   credit divides it among the peers of this process (rawe_credit.h)
 *   switch port    budgets divide it among the processes of this host (rawe_budget.h). One is for
 *                  long GETs, which request pieces by turns (routes/rawe_peer.c). The other is for
 *                  grants to several peers that have more to send (rawe_grants.h). The line's rate
 *                  tells both when the port runs empty (rawe_line.h)
 *
 * A frame to a peer carries the lesser of its credit and its grant. No clock, no socket.
 */
#ifndef RAWE_PULL_H
#define RAWE_PULL_H

#include "rawe_budget.h"
#include "rawe_credit.h"
#include "rawe_grants.h"
#include "rawe_line.h"

/** Memory that the processes of a host share, initially zero. They must use the same clock. */
struct rawe_pull_host {
    struct rawe_budget_host gets, grants;
    struct rawe_line_host line;
};

struct rawe_pull_config {
    uint64_t port_bytes;         /**< the switch port's buffer; 0: it limits nothing */
    uint32_t link_mbps;          /**< rate that the interface reports; 0: none */
    uint32_t frame_bytes;        /**< what a full frame takes of the port */
    uint32_t ring_frames;        /**< capacity of the receive ring */
    uint32_t window_frames;      /**< most in flight on one connection */
    struct rawe_pull_host *host; /**< NULL: shared with no process */
    unsigned host_index;         /**< of this process in it */
};

struct rawe_pull {
    struct rawe_credit credit;
    struct rawe_line line;
    struct rawe_budget gets;
    struct rawe_grants grants;
};

/** Initialize without peers. `pull` must not move afterwards. */
void rawe_pull_init(struct rawe_pull *pull, const struct rawe_pull_config *config, uint64_t now_ns);

#endif
