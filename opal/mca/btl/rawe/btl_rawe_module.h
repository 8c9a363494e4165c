/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A module: one link with its responder and its engine. Its engine is used with the lock of the
 * engines held (btl_rawe_lock.h). `endpoints_lock` guards its list of endpoints, routes_lock of the
 * state which of them belong to a process; Open MPI is not called while either is held. Several
 * threads may be in add_procs, which takes no other lock, each with others of those locks.
 */
#ifndef MCA_BTL_RAWE_MODULE_H
#define MCA_BTL_RAWE_MODULE_H

#include "btl_rawe_compat.h"

#include "opal/class/opal_free_list.h"
#include "opal/class/opal_list.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "btl_rawe_state.h"
#include "core/rawe_engine.h"
#include "linux/port/rawe_port.h"
#include "linux/sys/rawe_interface.h"
#include "linux/probe/rawe_responder.h"

/** How to reach one interface of a process. */
struct mca_btl_rawe_address {
    uint8_t mac[RAWE_MAC_BYTES]; /**< zero: loopback */
    uint16_t port;
    uint32_t key;
    uint16_t ping_port; /**< the responder's, and its key */
    uint32_t ping_key;
    uint32_t mtu_bytes;
    uint32_t speed_mbps; /**< 0: unknown */
    uint8_t index;       /**< in the process's list */
};

/** Where the process's responder is reached. */
static inline struct rawe_ping_address mca_btl_rawe_ping_address(
    const struct mca_btl_rawe_address *address)
{
    struct rawe_ping_address to = {.port = address->ping_port, .key = address->ping_key};

    memcpy(to.mac, address->mac, RAWE_MAC_BYTES);
    return to;
}

/** How the progress thread serves a module. */
enum {
    MCA_BTL_RAWE_THREAD_IDLE = 0, /**< nothing is under way */
    MCA_BTL_RAWE_THREAD_POLLS,
    MCA_BTL_RAWE_THREAD_POLLS_SOON, /**< a part of a message waits: soon for once */
    MCA_BTL_RAWE_THREAD_POLLS_FAST, /**< messages are held back: more often */
};

typedef struct mca_btl_rawe_module {
    mca_btl_base_module_t super;
    struct rawe_interface interface;     /**< its index and MAC: the service thread's */
    struct mca_btl_rawe_address address; /**< ours, as published */
    struct rawe_port *link;              /**< express frames, and bulk as plain frames */
    struct rawe_port *bulk;              /**< NULL: no batches here */
    struct rawe_port *group_port;        /**< frames of groups; NULL: none yet */
    struct rawe_port *group_bulk;        /**< batches of groups; NULL: none */
    struct rawe_responder *responder;
    struct rawe_engine engine;
    struct rawe_inflow_shared *inflow; /**< shared with the ranks of this host; NULL: with none */
    /** Open what is not open yet. False: it failed, see mca_btl_rawe_failures_report. */
    bool (*open_sockets)(struct mca_btl_rawe_module *module);
    uint64_t open_tried_ns;           /**< when that was done last; 0: never. endpoints_lock held */
    uint64_t idle_ns;                 /**< peers that owe nothing are asked this often; 0: never */
    opal_free_list_t fragments_small; /**< hold MCA_BTL_RAWE_SMALL_BYTES */
    opal_free_list_t fragments_large; /**< hold a message of max_send_size */
    struct mca_btl_rawe_module *next_finalized;
    opal_mutex_t endpoints_lock; /**< also while sockets are opened */
    opal_list_t endpoints;
    atomic_bool open;          /**< engine, link and responder are there; ends with the lock held */
    atomic_bool carrier;       /**< the interface's, as the service thread knows it */
    _Atomic uint64_t mac;      /**< the same of its address (rawe_mac_number), which may change */
    unsigned follow_attempts;  /**< the service thread's: to reopen sockets, that failed */
    bool links_in_group;       /**< registered; changed with endpoints_lock held */
    bool closing;              /**< it is not opened any more; changed with endpoints_lock held */
    atomic_uint thread_mode;   /**< how the progress thread serves the engine */
    uint32_t thread_doublings; /**< the progress thread's: of its interval, outside MPI */
    bool thread_listens;       /**< the progress thread's: frames wake it */
    uint32_t thread_polls;     /**< the progress thread's: fast polls so far */
    uint32_t serviced_rounds;  /**< the responder's: see mca_btl_rawe_thread_serviced */
    uint64_t serviced_ns;      /**< the responder's: the same */
    atomic_uint failures;      /**< processes that could not be reached */
    atomic_bool reached_any;   /**< some process can be reached */
    bool refusal_reported;     /**< the user knows that data was refused */
    uint64_t damage_poll_ns;   /**< when damaged frames are counted next */
    uint64_t damaged_before;   /**< their number when that was done last */
} mca_btl_rawe_module_t;

/** Open its sockets, if they are not. MPI's threads only. False: see the failures below. */
bool mca_btl_rawe_module_open_if_needed(mca_btl_rawe_module_t *module);

/** The same of all modules: links are wanted. Not inside an engine. */
void mca_btl_rawe_modules_open_wanted(void);

/**
 * Note that sockets could not be opened, for MPI's threads to report: only there Open MPI's output
 * is safe. If they were `in_use`, peers may give this process up.
 */
void mca_btl_rawe_failure_note(bool in_use, const char *interface,
                               const struct rawe_port_error *error);

/** Is there something to be reported? */
static inline bool mca_btl_rawe_failures_wait(void)
{
    return atomic_load_explicit(&mca_btl_rawe_state.failures_wait, memory_order_relaxed);
}

/** Report it. MPI's threads only, not inside an engine, nor with a lock held. */
void mca_btl_rawe_failures_report(void);

/** End the job by the PML's error callback, if there is one. */
void mca_btl_rawe_end_job(mca_btl_base_module_t *btl, const char *text);

#endif
