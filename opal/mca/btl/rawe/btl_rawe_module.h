/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A module: one link with its responder and its engine, which is used with the engines' lock held
 * (btl_rawe_lock.h). `endpoints_lock` guards the module's list of endpoints; `routes_lock` in the
 * state guards each process's list of endpoints. Open MPI is not called while either is held.
 * Several threads may be in add_procs, which takes no other lock, each holding different ones of
 * these.
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
    uint8_t mac[RAWE_MAC_BYTES]; /**< all zero: loopback */
    uint16_t port;
    uint32_t key;
    uint16_t ping_port; /**< the responder's port and key */
    uint32_t ping_key;
    uint32_t mtu_bytes;
    uint32_t speed_mbps; /**< 0: unknown */
    uint8_t index;       /**< position in the process's list */
};

/** Return the address of the process's responder. */
static inline struct rawe_ping_address mca_btl_rawe_ping_address(
    const struct mca_btl_rawe_address *address)
{
    struct rawe_ping_address to = {.port = address->ping_port, .key = address->ping_key};

    memcpy(to.mac, address->mac, RAWE_MAC_BYTES);
    return to;
}

/** How the progress thread serves a module. */
enum {
    MCA_BTL_RAWE_THREAD_IDLE = 0, /**< nothing is in flight */
    MCA_BTL_RAWE_THREAD_POLLS,
    MCA_BTL_RAWE_THREAD_POLLS_SOON, /**< part of a message is queued: poll soon, once */
    MCA_BTL_RAWE_THREAD_POLLS_FAST, /**< messages are held back: poll more often */
};

typedef struct mca_btl_rawe_module {
    mca_btl_base_module_t super;
    struct rawe_interface interface;     /**< index and MAC belong to the service thread */
    struct mca_btl_rawe_address address; /**< our published address */
    struct rawe_port *link;              /**< express frames, and bulk as plain frames */
    struct rawe_port *bulk;              /**< NULL: no batches */
    struct rawe_port *group_port;        /**< group frames; NULL: none yet */
    struct rawe_port *group_bulk;        /**< group batches; NULL: none */
    struct rawe_responder *responder;
    struct rawe_engine engine;
    struct rawe_inflow_shared *inflow; /**< shared with this host's other ranks; NULL: not shared */
    /** Open missing sockets. Returns false on failure, see mca_btl_rawe_failures_report. */
    bool (*open_sockets)(struct mca_btl_rawe_module *module);
    uint64_t open_tried_ns;           /**< time of the last attempt; 0: none. endpoints_lock held */
    uint64_t idle_ns;                 /**< interval between probes of idle peers; 0: none */
    opal_free_list_t fragments_small; /**< hold MCA_BTL_RAWE_SMALL_BYTES */
    opal_free_list_t fragments_large; /**< hold a message of max_send_size */
    struct mca_btl_rawe_module *next_finalized;
    opal_mutex_t endpoints_lock; /**< also held while sockets are opened */
    opal_list_t endpoints;
    atomic_bool open;          /**< engine, link and responder exist; cleared with the lock held */
    atomic_bool carrier;       /**< the interface's carrier, as the service thread knows it */
    _Atomic uint64_t mac;      /**< its MAC (rawe_mac_number), which may change; likewise */
    unsigned follow_attempts;  /**< service thread's: failed attempts to reopen sockets */
    bool links_in_group;       /**< they are registered; changed with endpoints_lock held */
    bool closing;              /**< not to be opened again; changed with endpoints_lock held */
    atomic_uint thread_mode;   /**< how the progress thread serves the engine */
    uint32_t thread_doublings; /**< progress thread's: doublings of its interval outside MPI */
    bool thread_listens;       /**< progress thread's: frames wake it */
    uint32_t thread_polls;     /**< progress thread's: fast polls so far */
    uint32_t serviced_rounds;  /**< responder's: see mca_btl_rawe_thread_serviced */
    uint64_t serviced_ns;      /**< responder's: likewise */
    atomic_uint failures;      /**< processes that could not be reached */
    atomic_bool reached_any;   /**< at least one process can be reached */
    bool refusal_reported;     /**< the user was told that data was refused */
    uint64_t damage_poll_ns;   /**< when damaged frames are next counted */
    uint64_t damaged_before;   /**< their number at the last count */
} mca_btl_rawe_module_t;

/** Open the module's sockets if needed. MPI's threads only. False: see the failures below. */
bool mca_btl_rawe_module_open_if_needed(mca_btl_rawe_module_t *module);

/** Open the sockets of all modules, because links are wanted. Outside the engines. */
void mca_btl_rawe_modules_open_wanted(void);

/**
 * Note that sockets could not be opened. MPI's threads report it, because Open MPI's output is safe
 * only there. `in_use`: the sockets were in use, and peers may give this process up.
 */
void mca_btl_rawe_failure_note(bool in_use, const char *interface,
                               const struct rawe_port_error *error);

/** Return true if failures remain to be reported. */
static inline bool mca_btl_rawe_failures_wait(void)
{
    return atomic_load_explicit(&mca_btl_rawe_state.failures_wait, memory_order_relaxed);
}

/** Report the noted failures. MPI's threads only, outside the engines, with no lock held. */
void mca_btl_rawe_failures_report(void);

/** End the job with the PML's error callback, if there is one. */
void mca_btl_rawe_end_job(mca_btl_base_module_t *btl, const char *text);

#endif
