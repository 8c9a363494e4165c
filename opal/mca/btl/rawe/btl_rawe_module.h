/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The modules of a process, and the state they share. A module is one link with its responder and
 * its engine.
 *
 * Fields stand in parts. The comment above each part names the modules of the glue that write it,
 * and the rule by which a thread may (test/lint checks both):
 *
 *   set-up          opens or closes the component, or the module
 *   lock            holds the engines' lock (btl_rawe_lock.h)
 *   endpoints_lock  holds that lock of the module, or of the state. Open MPI is not called while one
 *   routes_lock     is held. Threads may be in add_procs, with different ones, and no other lock
 *   service         is the service thread, which is also the progress thread
 *   atomic          any thread
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

#include "core/base/rawe_conn_table.h"
#include "core/base/rawe_list.h"
#include "core/rawe_engine.h"
#include "core/receive/rawe_reassembly.h"
#include "core/rma/rawe_handle.h"
#include "core/routes/rawe_failover.h"
#include "linux/port/rawe_port.h"
#include "linux/sys/rawe_interface.h"
#include "linux/probe/rawe_responder.h"

/** Published capabilities of a process. */
#define MCA_BTL_RAWE_CAPABILITY_MULTICAST 0x01u /**< multicast is possible, and coll/rawe uses it */

/** Maximum number of modules: interfaces of a host, each for one or both kinds of port, and lo. */
#define MCA_BTL_RAWE_MODULES_MAX 16u

struct mca_btl_base_endpoint_t;
struct mca_btl_rawe_message;
struct rawe_carrier;
struct rawe_host_group;
struct rawe_service;

/** What carries an interface's frames, as published. 0: raw Ethernet. */
enum { MCA_BTL_RAWE_UDP_IPV4 = 1, MCA_BTL_RAWE_UDP_IPV6 = 2 };

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
    uint8_t
        udp; /**< MCA_BTL_RAWE_UDP_*: `mac` is as linux/udp/rawe_udp_address.h says; 0: raw frames */
};

/** Return true for the address of lo. */
static inline bool mca_btl_rawe_is_loopback(const struct mca_btl_rawe_address *address)
{
    static const uint8_t zero[RAWE_MAC_BYTES];

    return 0 == memcmp(address->mac, zero, RAWE_MAC_BYTES);
}

/** Return the address of the process's responder. */
static inline struct rawe_ping_address mca_btl_rawe_ping_address(
    const struct mca_btl_rawe_address *address)
{
    struct rawe_ping_address to = {.port = address->ping_port, .key = address->ping_key};

    memcpy(to.mac, address->mac, RAWE_MAC_BYTES);
    return to;
}

/** How the progress thread serves a module, in order of urgency. */
enum {
    MCA_BTL_RAWE_THREAD_IDLE = 0,   /**< nothing is in flight */
    MCA_BTL_RAWE_THREAD_POLLS,      /**< frames are in flight */
    MCA_BTL_RAWE_THREAD_POLLS_SOON, /**< part of a message is queued: poll soon, once */
    MCA_BTL_RAWE_THREAD_POLLS_FAST, /**< messages are held back: poll more often */
};

typedef struct mca_btl_rawe_module {
    /* btl_rawe_lifecycle: set-up */
    mca_btl_base_module_t super;
    struct mca_btl_rawe_address address; /**< our published address */
    struct rawe_responder *responder;
    /** Open missing sockets. Returns false on failure, see mca_btl_rawe_failures_report. */
    bool (*open_sockets)(struct mca_btl_rawe_module *module);
    uint64_t idle_ns;                 /**< interval between probes of idle peers; 0: none */
    opal_free_list_t fragments_small; /**< hold MCA_BTL_RAWE_SMALL_BYTES */
    opal_free_list_t fragments_large; /**< hold a message of max_send_size */
    struct rawe_pull_host *host;      /**< shared with this host's other ranks; NULL: not shared */
    struct mca_btl_rawe_module *next_finalized;
    /* btl_rawe_lifecycle, btl_rawe_routes: set-up; then service, index and MAC */
    struct rawe_interface interface;
    /* btl_rawe_lifecycle: endpoints_lock until `open` is set; then lock */
    struct rawe_port *link; /**< express frames, and bulk as plain frames */
    struct rawe_port *bulk; /**< NULL: no batches */
    /* btl_rawe_lifecycle, btl_rawe_progress, btl_rawe_deliver: lock; by core's functions, except
       its clock and a counter */
    struct rawe_engine engine;
    /* btl_rawe_lifecycle: atomic; set with endpoints_lock, cleared with lock */
    atomic_bool open; /**< engine, link and responder exist */
    /* btl_rawe_module, btl_rawe_fanout, btl_rawe_lifecycle: endpoints_lock */
    uint64_t open_tried_ns; /**< time of the last attempt; 0: none */
    bool links_in_fanout;   /**< the fanout group knows the links */
    bool closing;           /**< not to be opened again */
    /* btl_rawe_endpoint: endpoints_lock, also held while sockets are opened */
    opal_mutex_t endpoints_lock;
    opal_list_t endpoints;
    /* btl_rawe_multicast: lock */
    struct rawe_port *group_port; /**< group frames; NULL: none yet */
    struct rawe_port *group_bulk; /**< group batches; NULL: none */
    /* btl_rawe_routes, btl_rawe_lifecycle: atomic */
    atomic_bool carrier;  /**< the interface's carrier, as the service thread knows it */
    _Atomic uint64_t mac; /**< the interface's MAC (rawe_mac_number), as that thread knows it */
    /* btl_rawe_fanout: service */
    unsigned follow_attempts; /**< failed attempts to reopen sockets */
    /* btl_rawe_thread, btl_rawe_async, btl_rawe_fanout: atomic */
    atomic_uint thread_mode; /**< how the progress thread serves the engine */
    /* btl_rawe_thread, btl_rawe_fanout: service */
    bool thread_listens;       /**< frames wake the progress thread */
    bool thread_served;        /**< since it last left the module to the asynchronous thread */
    uint32_t thread_doublings; /**< doublings of the thread's interval outside MPI */
    uint32_t thread_polls;     /**< fast polls so far */
    uint32_t serviced_rounds;  /**< see mca_btl_rawe_thread_serviced */
    uint64_t serviced_ns;      /**< likewise */
    /* btl_rawe_module, btl_rawe_thread: atomic */
    atomic_bool wanted; /**< PINGs arrived, but it is not open */
    /* btl_rawe_search: atomic */
    atomic_uint failures;    /**< processes that could not be reached */
    atomic_bool reached_any; /**< at least one process can be reached */
    /* btl_rawe_progress: lock */
    bool refusal_reported;   /**< the user was told that data was refused */
    uint64_t damage_poll_ns; /**< when damaged frames are next counted */
    uint64_t damaged_before; /**< number of damaged frames at the last count */
} mca_btl_rawe_module_t;

struct mca_btl_rawe_state {
    /* btl_rawe_component, btl_rawe_lifecycle, btl_rawe_routes: set-up */
    mca_btl_base_component_3_0_0_t *component; /**< ours; NULL: not open */
    mca_btl_rawe_module_t *modules[MCA_BTL_RAWE_MODULES_MAX];
    unsigned module_count;
    bool several_interfaces;          /**< UDP uses several: each sends through its own */
    mca_btl_rawe_module_t *finalized; /**< closed modules, freed with the last one */
    mca_btl_base_module_error_cb_fn_t error_callback; /**< the PML's; NULL: not set yet */
    bool multicast_possible;                          /**< known once the modules are open */
    bool collectives;               /**< coll/rawe is present, and wants to multicast */
    size_t ring_bytes;              /**< size of each module's receive ring */
    size_t middle_ring_bytes;       /**< size of each module's ring for packets of middle length */
    opal_free_list_t registrations; /**< items of `handles` for Open MPI */
    opal_free_list_t operations;    /**< fragments without data: PUT, GET, atomic */
    struct rawe_service *service;   /**< thread that serves all responders */
    struct rawe_carrier *carrier;   /**< watches the interfaces; NULL: only lo exists */
    /* btl_rawe_lifecycle: set-up; read with lock */
    bool finalizing; /**< modules are closing, one by one */
    /* btl_rawe_component: lock */
    struct rawe_handle_table handles;   /**< registered memory */
    struct rawe_conn_table connections; /**< connections of all modules */
    struct rawe_deferral deferral;      /**< of all modules: deferred until MPI returns */
    struct rawe_link complete;          /**< completed fragments, not reported yet */
    struct rawe_failover failover;      /**< failover between the routes to each process */
    /* btl_rawe_endpoint: routes_lock, which guards each process's endpoints */
    opal_mutex_t routes_lock;
    /* btl_rawe_endpoint: lock */
    struct mca_btl_base_endpoint_t *lost; /**< endpoints to be reported: see btl_rawe_endpoint.h */
    unsigned deaths;                      /**< mca_btl_rawe_proc_deaths as last handled */
    /* btl_rawe_deliver: lock */
    struct mca_btl_rawe_message *deferred; /**< messages to be delivered without the lock */
    struct mca_btl_rawe_message **deferred_tail;
    bool defers; /**< there are or were deferred messages: all later ones follow them */
    /* btl_rawe_deliver: atomic */
    atomic_bool delivers_deferred; /**< a thread is delivering deferred messages without the lock */
    /* btl_rawe_fanout: atomic */
    _Atomic(struct rawe_host_group *) fanout; /**< group of this host's ranks; NULL: none */
    atomic_uint fanout_repair;                /**< which links to reopen: btl_rawe_fanout.c */
    /* btl_rawe_fanout: service */
    unsigned fanout_attempts; /**< attempts to reopen sockets */
    /* btl_rawe_module, btl_rawe_thread: atomic */
    atomic_bool links_wanted;  /**< a module is `wanted` */
    atomic_bool failures_wait; /**< failures to be reported, see below */
    /* btl_rawe_routes: atomic */
    atomic_bool interfaces_changed; /**< a module's `carrier` or `mac` changed: update routes */
    /* btl_rawe_progress: lock */
    bool progressing; /**< inside mca_btl_rawe_module_progress */
    /* btl_rawe_component, btl_rawe_async, btl_rawe_thread: atomic */
    _Atomic uint32_t rounds;   /**< progress calls so far, wrapping */
    atomic_bool async_active;  /**< the asynchronous progress thread exists */
    atomic_bool async_patient; /**< it leaves progress to the progress thread */
    atomic_bool shared;        /**< other processes use the processor, as the thread found */
    atomic_uint early_polls;   /**< how often the thread may still be woken early */
    /* btl_rawe_thread: service */
    uint32_t thread_entries;   /**< MPI's entries to the engines, as the thread last saw */
    uint64_t thread_active_ns; /**< when the thread last saw new entries; 0: never */
};

extern struct mca_btl_rawe_state mca_btl_rawe_state;

/** Return CLOCK_MONOTONIC, the engines' time, in nanoseconds. */
uint64_t mca_btl_rawe_now_ns(void);

/** rawe_engine_config.clock_ns: return mca_btl_rawe_now_ns(). */
uint64_t mca_btl_rawe_peer_now_ns(void *context);

/** Format an interface's address for messages: MAC or IP. */
struct rawe_mac_text mca_btl_rawe_address_text(const struct mca_btl_rawe_address *address);

/** Count the modules for lo, or those for other interfaces, and store the last one, if any. */
unsigned mca_btl_rawe_modules_count(bool loopback, mca_btl_rawe_module_t **last);

/** Open the module's sockets if needed. MPI's threads only. False: see the failures below. */
bool mca_btl_rawe_module_open_if_needed(mca_btl_rawe_module_t *module);

/** Open the sockets of the wanted modules. Outside the engines. */
void mca_btl_rawe_modules_open_wanted(void);

/**
 * Note that sockets could not be opened. MPI's threads report it, because only they may call Open
 * MPI's output. `in_use`: the sockets were in use, and peers may give this process up.
 */
void mca_btl_rawe_failure_note(bool in_use, const char *interface,
                               const struct rawe_port_error *error);

/** Return true if failures remain to be reported. */
static inline bool mca_btl_rawe_failures_wait(void)
{
    return atomic_load_explicit(&mca_btl_rawe_state.failures_wait, memory_order_relaxed);
}

/** Forget the noted failures, which are only said at a verbose level: there is another way. */
void mca_btl_rawe_failures_drop(void);

/** Report the noted failures. MPI's threads only, outside the engines, with no lock held. */
void mca_btl_rawe_failures_report(void);

/** End the job with the PML's error callback, if there is one. */
void mca_btl_rawe_end_job(mca_btl_base_module_t *btl, const char *text);

#endif
