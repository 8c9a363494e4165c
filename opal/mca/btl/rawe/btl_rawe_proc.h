/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Processes: one record, found by name, holds all that we know about a process. Its published data
 * (the modex) is requested from the runtime once, and kept; the answer may arrive at any time. The
 * runtime reports deaths, and path discovery reports silent hosts.
 */
#ifndef MCA_BTL_RAWE_PROC_H
#define MCA_BTL_RAWE_PROC_H

#include "btl_rawe_compat.h"

#include "btl_rawe_module.h"

/** The data that a process publishes. */
struct mca_btl_rawe_published {
    uint64_t host;        /**< differs between hosts, and between network namespaces on a host */
    unsigned count;       /**< number of addresses; 0: rawe cannot reach it */
    uint8_t capabilities; /**< MCA_BTL_RAWE_CAPABILITY_* */
    struct mca_btl_rawe_address addresses[MCA_BTL_RAWE_MODULES_MAX];
};

/** Time limit on a search for further processes of a host that is silent or was heard. */
#define MCA_BTL_RAWE_BRIEF_MS 500u

/** Start without any records, when the component opens. */
void mca_btl_rawe_proc_open(void);

/** Forget everything. Later answers are dropped. */
void mca_btl_rawe_proc_close(void);

/** Publish the addresses of all modules. */
int mca_btl_rawe_proc_publish(void);

/**
 * Get the published data of a process that Open MPI introduces. Returns its number of addresses.
 * The first call for a process waits for the runtime: btl_rawe_connect_timeout_ms if no other BTL
 * would take the process, otherwise 2 s (4.1: no limit). Tells the user once why it is refused.
 */
unsigned mca_btl_rawe_proc_wait(const opal_proc_t *proc, struct mca_btl_rawe_published *out);

/**
 * Get a process's published data, without waiting or messages: unknown callers repeat CONNECT.
 */
unsigned mca_btl_rawe_proc_find(opal_process_name_t name, struct mca_btl_rawe_published *out);

/**
 * Return any process's capabilities, and its host; 0: none, incompatible, or no answer of the
 * runtime yet (`wait`: in time).
 */
unsigned mca_btl_rawe_proc_capabilities(opal_process_name_t name, bool wait, uint64_t *host);

/** Note that a module has searched for the process, and whether it reached it. */
void mca_btl_rawe_proc_note_tried(opal_process_name_t name, unsigned module_index, bool reached);

/** Return true if all modules have searched for the process and none reached it. Any thread. */
bool mca_btl_rawe_proc_given_up(opal_process_name_t name);

/** Return the head of a process's endpoints (btl_rawe_endpoint.c); NULL: no record or no memory. */
struct mca_btl_base_endpoint_t **mca_btl_rawe_proc_endpoints(opal_process_name_t name, bool make);

/** Return true if the process is in our network namespace, where frames to it go over lo. */
bool mca_btl_rawe_proc_is_local(const struct mca_btl_rawe_published *published);

/**
 * Return true if the host was silent throughout a search by this module, and has not been heard
 * since. Only its first process should cost that time: all are introduced in turn, under a lock.
 */
bool mca_btl_rawe_proc_host_silent(uint64_t host, unsigned module_index);
void mca_btl_rawe_proc_note_silent(uint64_t host, unsigned module_index);

/**
 * Return true if a search by this module, for raw frames, found a process on the host over UDP only,
 * and the module has not heard the host since.
 */
bool mca_btl_rawe_proc_host_beyond(uint64_t host, unsigned module_index);
void mca_btl_rawe_proc_note_beyond(uint64_t host, unsigned module_index);

/** Note that a module has heard a process on this host over an interface, and the path's MTU. */
void mca_btl_rawe_proc_note_heard(uint64_t host, unsigned module_index,
                                  const uint8_t mac[RAWE_MAC_BYTES], uint32_t mtu_bytes);

/** Return the MTU noted last; 0: never heard. */
uint32_t mca_btl_rawe_proc_heard_mtu(uint64_t host, unsigned module_index,
                                     const uint8_t mac[RAWE_MAC_BYTES]);

/** Have the runtime report deaths if the job survives them (ULFM). MPI's threads only. */
void mca_btl_rawe_proc_listen(void);

/** Return the number of processes that have died so far. Any thread. */
unsigned mca_btl_rawe_proc_deaths(void);

/** Return true if the runtime has reported that the process died. Any thread. */
bool mca_btl_rawe_proc_died(opal_process_name_t name);

#endif
