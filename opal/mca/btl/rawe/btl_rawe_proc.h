/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A process: one record holds what is known of it, by its name. What it has published (the modex)
 * is asked of the runtime once, and stays; an answer is taken whenever it comes. The runtime also
 * says which processes have died, and path discovery which hosts are silent, or have been heard.
 */
#ifndef MCA_BTL_RAWE_PROC_H
#define MCA_BTL_RAWE_PROC_H

#include "btl_rawe_compat.h"

#include "btl_rawe_module.h"

/** What a process publishes. */
struct mca_btl_rawe_published {
    uint64_t host;        /**< differs between hosts, and between network namespaces of one */
    unsigned count;       /**< of addresses; 0: rawe does not reach it */
    uint8_t capabilities; /**< MCA_BTL_RAWE_CAPABILITY_* */
    struct mca_btl_rawe_address addresses[MCA_BTL_RAWE_MODULES_MAX];
};

/** Where a host is silent, or known to be there, its further processes are tried for this long. */
#define MCA_BTL_RAWE_BRIEF_MS 500u

/** The component opens: nothing is known. */
void mca_btl_rawe_proc_open(void);

/** Forget everything. Answers that come later are dropped. */
void mca_btl_rawe_proc_close(void);

/** Publish the addresses of all modules. */
int mca_btl_rawe_proc_publish(void);

/**
 * What a process that Open MPI introduces has published. The first call for a process waits for the
 * runtime, which has btl_rawe_connect_timeout_ms for the answer if no other BTL would take the
 * process, else 2 s (4.1: no limit). Tells the user once why a process is refused. Returns the
 * number of its addresses.
 */
unsigned mca_btl_rawe_proc_wait(const opal_proc_t *proc, struct mca_btl_rawe_published *out);

/** The same without waiting, nor a message: an unknown caller repeats its CONNECT. */
unsigned mca_btl_rawe_proc_find(opal_process_name_t name, struct mca_btl_rawe_published *out);

/** The capabilities of any process, and its host; 0: none, incompatible, or not told in time. */
unsigned mca_btl_rawe_proc_capabilities(opal_process_name_t name, uint64_t *host);

/** Note that a module has searched for the process, and reached it or not. */
void mca_btl_rawe_proc_note_tried(opal_process_name_t name, unsigned module_index, bool reached);

/** Return true if all modules have searched for the process, and none has reached it. Any thread. */
bool mca_btl_rawe_proc_given_up(opal_process_name_t name);

/** Head of a process's endpoints, guarded by btl_rawe_endpoint.c; NULL: no record, or memory. */
struct mca_btl_base_endpoint_t **mca_btl_rawe_proc_endpoints(opal_process_name_t name, bool make);

/** Does the process run in our network namespace, where frames to it go over lo? */
bool mca_btl_rawe_proc_is_local(const struct mca_btl_rawe_published *published);

/**
 * Return true if the host was silent for all of a search by this module, and has not been heard since.
 * That is to cost its time once, not for each process, which Open MPI introduces one by one with a
 * lock held.
 */
bool mca_btl_rawe_proc_host_silent(uint64_t host, unsigned module_index);
void mca_btl_rawe_proc_note_silent(uint64_t host, unsigned module_index);

/** Remember that a module has heard a process of this host by an interface, and the path's MTU. */
void mca_btl_rawe_proc_note_heard(uint64_t host, unsigned module_index,
                                  const uint8_t mac[RAWE_MAC_BYTES], uint32_t mtu_bytes);

/** Return the MTU noted last; 0: never heard. */
uint32_t mca_btl_rawe_proc_heard_mtu(uint64_t host, unsigned module_index,
                                     const uint8_t mac[RAWE_MAC_BYTES]);

/** Listen to the runtime for deaths, if the job survives them (ULFM). MPI's threads only. */
void mca_btl_rawe_proc_listen(void);

/** How many processes have died so far. Any thread. */
unsigned mca_btl_rawe_proc_deaths(void);

/** Has the runtime said that the process died? Any thread. */
bool mca_btl_rawe_proc_died(opal_process_name_t name);

#endif
