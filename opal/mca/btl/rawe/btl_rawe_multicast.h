/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Groups of processes that multicast to each other (core/group) over this process's only interface
 * besides lo. All groups of a process share a group address and two ports, for frames and for
 * batches. Received frames are told apart by the groups' random ids, and must come from the address
 * of the member that they name. Frames are sent through the module's link, control messages over
 * the connections to the members' processes.
 *
 * Hold the engines' lock for everything here, except for functions that take it.
 */
#ifndef MCA_BTL_RAWE_MULTICAST_H
#define MCA_BTL_RAWE_MULTICAST_H

#include "btl_rawe_compat.h"

#include "btl_rawe_module.h"
#include "btl_rawe_offer.h"
#include "core/group/rawe_group.h"

/** Return true if this process can use multicast. Known once it has its modules; never changes. */
bool mca_btl_rawe_multicast_possible(bool mpi_threads);

/** Implement mca_btl_rawe_offer.place, .open and .expect. They take the lock. */
struct mca_btl_rawe_place mca_btl_rawe_multicast_place(void);
struct mca_btl_rawe_multicast *mca_btl_rawe_multicast_open(uint64_t id, uint32_t members,
                                                           uint32_t self,
                                                           const struct mca_btl_rawe_place *all,
                                                           opal_proc_t *const *procs);
void mca_btl_rawe_multicast_expect(struct mca_btl_rawe_multicast *group, uint32_t root,
                                   struct mca_btl_rawe_transfer *message);

/** Implement mca_btl_rawe_offer.send and .close. */
bool mca_btl_rawe_multicast_send(struct mca_btl_rawe_multicast *group,
                                 struct mca_btl_rawe_transfer *message);
void mca_btl_rawe_multicast_close(struct mca_btl_rawe_multicast *group, bool complete);

/**
 * Receive group frames through a module that has a port for them and, if the clock is read anyway,
 * run due timers. `deferring`: called by the progress thread, so copy nothing into the program's
 * memory. Returns the number of frames received.
 */
unsigned mca_btl_rawe_multicast_progress(const mca_btl_rawe_module_t *module, bool poll_clock,
                                         bool deferring);

/** Implement rawe_callbacks.control. */
void mca_btl_rawe_multicast_control(void *context, struct rawe_conn *conn, uint64_t channel,
                                    const uint8_t *data, size_t len_bytes);

/** Return true once no other process needs this one's groups, so that it may finalize. */
bool mca_btl_rawe_multicast_done(void);

/**
 * Return how the progress thread must serve the module's groups; 0: they have nothing in flight. It
 * must poll faster if a frame is held back for more messages, because the next progress sends it.
 */
unsigned mca_btl_rawe_multicast_busy(const mca_btl_rawe_module_t *module);

/** Return the counters of all groups of the module, including closed ones. */
struct rawe_group_counters mca_btl_rawe_multicast_counters(const mca_btl_rawe_module_t *module);

/** Forget the groups of a module that is closing. */
void mca_btl_rawe_multicast_end(const mca_btl_rawe_module_t *module);

#endif
