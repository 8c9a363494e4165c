/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * An endpoint: a peer's interface, seen from one module.
 */
#ifndef MCA_BTL_RAWE_ENDPOINT_H
#define MCA_BTL_RAWE_ENDPOINT_H

#include "btl_rawe_compat.h"

#include "opal/class/opal_list.h"

#include <stdatomic.h>

#include "btl_rawe_module.h"
#include "core/routes/rawe_peer.h"

typedef struct mca_btl_base_endpoint_t {
    /* btl_rawe_endpoint: set-up, when it is created */
    opal_list_item_t super; /**< in the module's list */
    mca_btl_rawe_module_t *module;
    opal_proc_t *proc;
    uint8_t published_mac[RAWE_MAC_BYTES];
    /* btl_rawe_endpoint: routes_lock */
    struct mca_btl_base_endpoint_t *older; /**< list of the process's endpoints */
    /** Carries the fragments of long messages in order, for all of the process's endpoints. */
    struct mca_btl_base_endpoint_t *in_order;
    bool named; /**< Open MPI got messages that name its module, but does not use it yet */
    /* btl_rawe_endpoint: atomic */
    atomic_bool in_use; /**< the PML uses it: from add_procs to del_procs */
    /* btl_rawe_endpoint: lock */
    struct rawe_peer peer; /**< the peer's connections */
    struct mca_btl_rawe_address address;
    uint32_t path_mtu_bytes;
    uint64_t answered_since_ns;      /**< when answers to PINGs began in a stall; 0: none */
    bool stall_reported;             /**< the user was told that the connection makes no progress */
    bool lost;                       /**< Open MPI knows, or is about to be told */
    bool given_up;                   /**< its connections have failed */
    struct rawe_watch *watch;        /**< watch of the peer's responder; NULL: none */
    uint64_t watched_ns;             /**< when the responder was last sent a PING */
    struct rawe_watch *new_watch;    /**< watch at the address it may have moved to; NULL: none */
    uint8_t new_mac[RAWE_MAC_BYTES]; /**< that address */
    struct rawe_watch *home;         /**< watch at the published address; NULL: none */
    struct rawe_validation *validation; /**< path-MTU validation in progress; NULL: none */
    uint64_t validated_ns;              /**< when a validation last began or ended; 0: never */
    const char *lost_text;              /**< why it is lost, for the error callback */
    struct mca_btl_base_endpoint_t *next_lost; /**< list of endpoints to be reported */
} mca_btl_base_endpoint_t;
/* This component's own class name, because btl/tcp's may be in the same library. */
typedef mca_btl_base_endpoint_t mca_btl_rawe_endpoint_t;
OBJ_CLASS_DECLARATION(mca_btl_rawe_endpoint_t);

/** Smallest MTU worth using: headers, and a fragment with some data. */
#define MCA_BTL_RAWE_PATH_MTU_LEAST_BYTES 512u

/** The process refused access to its memory: tell the user, and end the job. */
void mca_btl_rawe_access_refused(mca_btl_base_module_t *btl, const opal_proc_t *proc,
                                 enum rawe_refusal refusal);
/** Return the endpoint of the interface with this port and key, at any MAC address, or NULL. */
mca_btl_base_endpoint_t *mca_btl_rawe_endpoint_find(const mca_btl_rawe_module_t *module,
                                                    opal_process_name_t name, uint16_t port,
                                                    uint32_t key);
/**
 * Handle a frame that the peer's interface sent from another MAC address: ping its responder there
 * and, if it has answered by the next such frame, switch to that address. Lock held.
 */
void mca_btl_rawe_endpoint_follow(mca_btl_base_endpoint_t *endpoint,
                                  const uint8_t mac[RAWE_MAC_BYTES]);
/** Send the peer's responder a PING, also at other addresses it may have. Lock held. */
void mca_btl_rawe_endpoint_ping(mca_btl_base_endpoint_t *endpoint);
/** Find the endpoint, or create it with this path. Returns NULL when out of memory. */
mca_btl_base_endpoint_t *mca_btl_rawe_endpoint_get(mca_btl_rawe_module_t *module, opal_proc_t *proc,
                                                   const struct mca_btl_rawe_address *address,
                                                   uint32_t path_mtu_bytes);
/** Limit frames to the path's MTU. Lock held. */
void mca_btl_rawe_endpoint_limit_mtu(mca_btl_base_endpoint_t *endpoint, uint32_t mtu_bytes);
/** Return true if the PML uses an endpoint for this process in another module. */
bool mca_btl_rawe_endpoint_elsewhere(const mca_btl_rawe_module_t *module, opal_process_name_t name);
/** Return true if the PML uses an endpoint with raw frames for this process. */
bool mca_btl_rawe_endpoint_is_raw(opal_process_name_t name);
/**
 * Return the endpoint to pass to Open MPI with a message that arrived over this one: an endpoint of
 * a module through which Open MPI knows the sender. The search of one process may miss a path that
 * the other one found. Open MPI then does not know the sender through the module that received the
 * message, and ob1 ends the job if it answers with GET or PUT (pml_ob1_recvreq.c, "invalid bml").
 * If Open MPI does not know the sender at all, this endpoint is marked
 * (mca_btl_rawe_endpoint_named). ob1 may keep the message until Open MPI introduces the sender, so
 * this module then claims to reach it.
 */
mca_btl_base_endpoint_t *mca_btl_rawe_endpoint_to_name(mca_btl_base_endpoint_t *endpoint);
/**
 * Return the module's endpoint for this process that was passed to Open MPI with a message. It must
 * be introduced even if no path is found, because ob1 may answer over it. NULL: none.
 */
mca_btl_base_endpoint_t *mca_btl_rawe_endpoint_named(const mca_btl_rawe_module_t *module,
                                                     opal_process_name_t name);
/** Return the process's endpoint for fragments whose order matters; NULL: the PML uses none. */
mca_btl_base_endpoint_t *mca_btl_rawe_endpoint_in_order(const opal_proc_t *proc);
/** Give the endpoint to the PML, and choose the one that carries fragments whose order matters. */
void mca_btl_rawe_endpoint_introduce(mca_btl_base_endpoint_t *endpoint);
/** Take the endpoint back from the PML. */
void mca_btl_rawe_endpoint_withdraw(mca_btl_base_endpoint_t *endpoint);
/** Close the endpoint's connections and forget it. Lock held. */
void mca_btl_rawe_endpoint_close(mca_btl_base_endpoint_t *endpoint);
/** Return true if we or the runtime have declared the process lost. */
bool mca_btl_rawe_endpoint_process_lost(opal_process_name_t name);
/**
 * In a fault-tolerant job, return the processes to report: those that we or the runtime have
 * declared lost since the last call. No working connection to them is left; if they probe, they
 * are told that they are lost. Lock held, outside the engines.
 */
mca_btl_base_endpoint_t *mca_btl_rawe_endpoints_take_lost(void);

/** Report a list of lost processes. Outside the engines, without the lock: the callback sends. */
void mca_btl_rawe_endpoints_report_lost(mca_btl_base_endpoint_t *endpoints);

/** rawe_callbacks.lossy, .silent, .stalled and .failed. */
void mca_btl_rawe_lossy(void *context, const struct rawe_conn *conn);
void mca_btl_rawe_silent(void *context, struct rawe_conn *conn, uint64_t silent_ns);
void mca_btl_rawe_stalled(void *context, struct rawe_conn *conn, uint64_t stalled_ns);
void mca_btl_rawe_failed(void *context, struct rawe_conn *conn, uint64_t silent_ns);
/** Implement rawe_callbacks.given_up. */
void mca_btl_rawe_given_up(void *context, struct rawe_conn *conn);

/** Implement rawe_callbacks.lost. */
void mca_btl_rawe_lost(void *context, struct rawe_conn *conn);

#endif
