/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Groups of processes that multicast to each other (core/group), over the one interface that this
 * process has beside lo. All groups of a process share two ports, for frames and for batches, and a group
 * address; what is received is told apart by the groups' ids, which are random, and is to come from the
 * address of the member that it names. Frames are sent through the module's link, control messages over
 * the connections to the members' processes.
 *
 * All of it is used with the lock of the engines held.
 */
#ifndef MCA_BTL_RAWE_MULTICAST_H
#define MCA_BTL_RAWE_MULTICAST_H

#include "btl_rawe_compat.h"

#include "btl_rawe_module.h"
#include "btl_rawe_offer.h"
#include "core/group/rawe_group.h"

/** Has this process what it takes? Known when its modules are; the same as long as it lives. */
bool mca_btl_rawe_multicast_possible(bool mpi_threads);

/** mca_btl_rawe_offer.place */
struct mca_btl_rawe_place mca_btl_rawe_multicast_place(void);

/** mca_btl_rawe_offer.open, .send, .expect and .close */
struct mca_btl_rawe_multicast *mca_btl_rawe_multicast_open(uint64_t id, uint32_t members,
                                                           uint32_t self,
                                                           const struct mca_btl_rawe_place *all,
                                                           opal_proc_t *const *procs);
bool mca_btl_rawe_multicast_send(struct mca_btl_rawe_multicast *group,
                                 struct mca_btl_rawe_transfer *message);
void mca_btl_rawe_multicast_expect(struct mca_btl_rawe_multicast *group, uint32_t root,
                                   struct mca_btl_rawe_transfer *message);
void mca_btl_rawe_multicast_close(struct mca_btl_rawe_multicast *group, bool complete);

/**
 * Receive frames of groups through a module that has a port for them, and when the clock is read
 * anyway, run what is due. `deferring`: for the progress thread, nothing is copied to where a program
 * expects it. Returns frames received.
 */
unsigned mca_btl_rawe_multicast_progress(const mca_btl_rawe_module_t *module, bool poll_clock,
                                         bool deferring);

/** rawe_callbacks.control */
void mca_btl_rawe_multicast_control(void *context, struct rawe_conn *conn, uint64_t channel,
                                    const uint8_t *data, size_t len_bytes);

/** True once no other process needs anything of this one's groups: it may finalize. */
bool mca_btl_rawe_multicast_done(void);

/** Does a frame wait for more messages? The next progress, of MPI's or the thread's, sends it. */
bool mca_btl_rawe_multicast_holding(void);

/** Have groups something under way through this module? */
bool mca_btl_rawe_multicast_busy(const mca_btl_rawe_module_t *module);

/** What all groups of the module have counted, those that were closed included. */
struct rawe_group_counters mca_btl_rawe_multicast_counters(const mca_btl_rawe_module_t *module);

/** The module ends: forget its groups. */
void mca_btl_rawe_multicast_end(const mca_btl_rawe_module_t *module);

#endif
