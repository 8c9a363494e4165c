/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What all modules of a process share. Changed with the lock of the engines held, but for the list
 * of modules while the component is initialized.
 */
#ifndef MCA_BTL_RAWE_STATE_H
#define MCA_BTL_RAWE_STATE_H

#include "btl_rawe_compat.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/rawe_conn_table.h"
#include "core/base/rawe_list.h"
#include "core/receive/rawe_reassembly.h"
#include "core/routes/rawe_failover.h"
#include "core/rma/rawe_handle.h"

/** What a process can do beyond carrying messages, as it publishes it. */
#define MCA_BTL_RAWE_CAPABILITY_MULTICAST 0x01u /**< group delivery, and coll/rawe uses it */

/** Modules at most: interfaces of a host, and lo. */
#define MCA_BTL_RAWE_MODULES_MAX 16u

struct mca_btl_rawe_message;
struct mca_btl_base_endpoint_t;
struct mca_btl_rawe_module;
struct rawe_carrier;
struct rawe_host_group;
struct rawe_service;

struct mca_btl_rawe_state {
    mca_btl_base_component_3_0_0_t *component; /**< ours; NULL: not open */
    struct mca_btl_rawe_module *modules[MCA_BTL_RAWE_MODULES_MAX];
    unsigned module_count;
    mca_btl_base_module_error_cb_fn_t error_callback; /**< the PML's; NULL: there is none yet */
    bool multicast_possible;                          /**< known when the modules are open */
    bool collectives;                        /**< coll/rawe is there, and wants to multicast */
    size_t ring_bytes;                       /**< of the receive ring of each module */
    struct rawe_handle_table handles;        /**< registered memory */
    opal_free_list_t registrations;          /**< what Open MPI has of it */
    opal_free_list_t operations;             /**< fragments without data: PUT, GET, atomic */
    struct rawe_conn_table connections;      /**< of all modules */
    struct rawe_deferral deferral;           /**< of all modules: what waits for MPI's return */
    struct rawe_service *service;            /**< the thread that serves all responders */
    _Atomic(struct rawe_host_group *) group; /**< of the ranks on this host; NULL: none */
    atomic_uint group_repair;                /**< which links are to be opened again: group.c */
    unsigned group_attempts;                 /**< the service thread's: to open sockets again */
    atomic_bool links_wanted;                /**< of modules that are not open: PINGs came */
    atomic_bool failures_wait;               /**< there is something to report: btl_rawe_module.h */
    struct rawe_link complete;               /**< fragments that are complete and not reported */
    struct rawe_carrier *carrier;            /**< watches the interfaces; NULL: there is only lo */
    atomic_bool interfaces_changed; /**< some `carrier` or `mac` has, and routes have to follow */
    opal_mutex_t routes_lock; /**< guards which endpoints a process has; held while they join */
    struct rawe_failover failover;         /**< between the routes to processes */
    struct mca_btl_base_endpoint_t *lost;  /**< to be reported; see btl_rawe_endpoint.h */
    unsigned deaths;                       /**< mca_btl_rawe_proc_deaths, as heeded last */
    struct mca_btl_rawe_message *deferred; /**< to be delivered without the lock; the same */
    struct mca_btl_rawe_message **deferred_tail;
    atomic_bool delivers_deferred; /**< a thread has taken some, and delivers without the lock */
    bool defers;     /**< there are some, or there were: all that comes follows them */
    bool finalizing; /**< the modules close, one after the other */
    struct mca_btl_rawe_module *finalized; /**< closed, to be freed with the last one */
    atomic_bool async_active;              /**< see btl_rawe_async.h */
    bool progressing;                      /**< inside mca_btl_rawe_module_progress */
    unsigned idle_count;     /**< progress calls that found nothing: the clock is read rarely */
    _Atomic uint32_t rounds; /**< calls of progress so far, wrapping */
    uint32_t thread_entries; /**< MPI's to the engines when the progress thread looked last */
    atomic_bool shared;      /**< others use the processor; the progress thread has found out */
};

extern struct mca_btl_rawe_state mca_btl_rawe_state;

/** CLOCK_MONOTONIC in nanoseconds: the engines' time. */
uint64_t mca_btl_rawe_now_ns(void);

/** The same, as rawe_engine_config.clock_ns. */
uint64_t mca_btl_rawe_peer_now_ns(void *context);

#endif
