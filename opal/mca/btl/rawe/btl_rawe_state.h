/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * State shared by all modules of a process. Changed with the engines' lock held, except the list of
 * modules while the component is initialized.
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

/** What a process can do besides carrying messages; published. */
#define MCA_BTL_RAWE_CAPABILITY_MULTICAST 0x01u /**< group delivery, and coll/rawe uses it */

/** Maximum number of modules: interfaces of a host, and lo. */
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
    mca_btl_base_module_error_cb_fn_t error_callback; /**< the PML's; NULL: not set yet */
    bool multicast_possible;                          /**< known once the modules are open */
    bool collectives;                        /**< coll/rawe is present, and wants to multicast */
    size_t ring_bytes;                       /**< of each module's receive ring */
    struct rawe_handle_table handles;        /**< registered memory */
    opal_free_list_t registrations;          /**< their items for Open MPI */
    opal_free_list_t operations;             /**< fragments without data: PUT, GET, atomic */
    struct rawe_conn_table connections;      /**< of all modules */
    struct rawe_deferral deferral;           /**< of all modules: deferred until MPI returns */
    struct rawe_service *service;            /**< thread that serves all responders */
    _Atomic(struct rawe_host_group *) group; /**< of this host's ranks; NULL: none */
    atomic_uint group_repair;                /**< which links to reopen: group.c */
    unsigned group_attempts;                 /**< service thread's: attempts to reopen sockets */
    atomic_bool links_wanted;                /**< PINGs came for modules that are not open */
    atomic_bool failures_wait;               /**< failures to be reported: btl_rawe_module.h */
    struct rawe_link complete;               /**< completed fragments, not reported yet */
    struct rawe_carrier *carrier;            /**< watches the interfaces; NULL: only lo exists */
    atomic_bool
        interfaces_changed;   /**< a module's `carrier` or `mac` has changed: routes must follow */
    opal_mutex_t routes_lock; /**< guards each process's endpoints; held while they join */
    struct rawe_failover failover;         /**< between the routes to processes */
    struct mca_btl_base_endpoint_t *lost;  /**< to be reported: see btl_rawe_endpoint.h */
    unsigned deaths;                       /**< mca_btl_rawe_proc_deaths as last handled */
    struct mca_btl_rawe_message *deferred; /**< to be delivered without the lock: likewise */
    struct mca_btl_rawe_message **deferred_tail;
    atomic_bool delivers_deferred; /**< a thread is delivering some without the lock */
    bool defers;     /**< there are or were deferred messages: all later ones follow them */
    bool finalizing; /**< modules are closing, one after the other */
    struct mca_btl_rawe_module *finalized; /**< closed modules, freed with the last one */
    atomic_bool async_active;              /**< see btl_rawe_async.h */
    bool progressing;                      /**< inside mca_btl_rawe_module_progress */
    unsigned idle_count;     /**< progress calls without work: the clock is read rarely */
    _Atomic uint32_t rounds; /**< progress calls so far, wrapping */
    uint32_t thread_entries; /**< MPI's entries to the engines, as the progress thread last saw */
    atomic_bool shared;      /**< other processes use the processor, as the progress thread found */
};

extern struct mca_btl_rawe_state mca_btl_rawe_state;

/** Return CLOCK_MONOTONIC, the engines' time, in nanoseconds. */
uint64_t mca_btl_rawe_now_ns(void);

/** rawe_engine_config.clock_ns: return mca_btl_rawe_now_ns(). */
uint64_t mca_btl_rawe_peer_now_ns(void *context);

#endif
