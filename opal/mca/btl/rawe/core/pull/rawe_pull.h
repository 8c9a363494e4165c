/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Pull: the receiver decides what peers may have in flight to this process. Frames in flight queue
 * in two places, each with its own limit:
 *
 *   receive ring   credit divides it among the peers of this process (rawe_credit.h)
 *   switch port    budgets divide it among the processes of this host (rawe_budget.h): one for
 *                  long GETs, which fetch all long messages, and one for grants to several peers
 *                  that have more to send (rawe_grants.h). The line's rate tells both when the
 *                  port runs empty (rawe_line.h)
 *
 * A frame to a peer carries the smaller of its credit and its grant.
 *
 * GETs from several peers request pieces in turns, so that a busy peer delays only the pieces
 * requested from it. A single peer cannot fill the port, so its GETs request everything at once. No
 * clock, no socket.
 */
#ifndef RAWE_PULL_H
#define RAWE_PULL_H

#include "rawe_budget.h"
#include "rawe_credit.h"
#include "rawe_grants.h"
#include "rawe_line.h"
#include "rma/rawe_operation.h"

/** Memory shared by the processes of a host, initially zero. They must use the same clock. */
struct rawe_pull_host {
    struct rawe_budget_host gets, grants;
    struct rawe_line_host line;
};

struct rawe_pull_config {
    uint64_t port_bytes;         /**< the switch port's buffer; 0: no limit */
    uint32_t link_mbps;          /**< rate that the interface reports; 0: none */
    uint32_t frame_bytes;        /**< bytes of the port's buffer that a full frame uses */
    uint32_t ring_frames;        /**< capacity of the receive ring */
    uint32_t window_frames;      /**< maximum in flight on one connection */
    struct rawe_pull_host *host; /**< NULL: not shared */
    unsigned host_index;         /**< index of this process in it */
    const struct rawe_operation_table *operations; /**< our operations in progress */
};

struct rawe_pull {
    struct rawe_link waiting; /**< long GETs with more to request, in order of their turns */
    struct rawe_link parked;  /**< those whose peers owe as much as they may */
    struct rawe_credit credit;
    struct rawe_line line;
    struct rawe_grants grants;
    struct rawe_budget gets;
    bool limited; /**< the budget has blocked one of the waiting GETs */
    const struct rawe_operation_table *operations;
};

/** Initialize, without peers. `pull` must not move in memory afterwards. */
void rawe_pull_init(struct rawe_pull *pull, const struct rawe_pull_config *config, uint64_t now_ns);
/**
 * Return true if an operation, whose `peer` is set, may begin now and request everything. Sets
 * `budget` for a long GET, whose data counts as outstanding.
 */
bool rawe_pull_may_begin(struct rawe_pull *pull, struct rawe_operation *operation, uint64_t now_ns);
/** Queue a long GET that may not begin until its turn. `asked_bytes` must be set. */
void rawe_pull_wait(struct rawe_pull *pull, struct rawe_operation *operation, uint64_t now_ns);
/**
 * Remove the GET that has the next turn from the list. Request its next `len_bytes`; if that fails
 * or more is left, queue it again. Returns NULL if none is queued, or all must wait.
 */
struct rawe_operation *rawe_pull_next(struct rawe_pull *pull, uint64_t *len_bytes, uint64_t now_ns);
/** Return true if rawe_pull_next or rawe_grants_next may return something. */
static inline bool rawe_pull_pending(const struct rawe_pull *pull)
{
    return !rawe_list_empty(&pull->waiting) || !rawe_list_empty(&pull->parked) ||
           pull->grants.waits;
}

#endif
