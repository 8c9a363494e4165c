/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The messages to the user, one typed function for each topic of help-mpi-btl-rawe.txt. Each names
 * this host by itself, and is shown once by a process however often it is called; Open MPI merges
 * those of all processes. For MPI's threads only: Open MPI's output is not safe among others.
 *
 * A job that does not name rawe in its selection of BTLs did not ask for it: it sees only what ends
 * it. The rest is shown when it asks what the BTLs do (--mca btl_base_verbose 1).
 */
#ifndef MCA_BTL_RAWE_HELP_H
#define MCA_BTL_RAWE_HELP_H

#include "core/base/rawe_wire.h"

#include <stdint.h>

/** A life of the component begins: nothing has been shown, and what the job asked for is read. */
void mca_btl_rawe_help_begin(void);

/* All strings may be NULL, which reads "unknown". None of these functions fails. */

/**
 * socket() was refused for want of CAP_NET_RAW, and the program `helper` has not helped. `reason`:
 * the step of the error, see rawe_helper.h.
 */
void mca_btl_rawe_help_no_capability(const char *interface, const char *helper, const char *reason);

/** Nothing to send through. `tried`: what was looked at and why not, e.g. "lo (loopback)". */
void mca_btl_rawe_help_no_usable_interface(const char *tried);

/** `entry` of btl_rawe_<parameter> ("if_include", "if_exclude") fits no interface. */
void mca_btl_rawe_help_unknown_interface(const char *parameter, const char *entry);

/** if_include and if_exclude are both set. */
void mca_btl_rawe_help_include_and_exclude(const char *include, const char *exclude);

/** A parameter (name without btl_rawe_) has a value outside of its range. */
void mca_btl_rawe_help_parameter_out_of_range(const char *name, const char *value,
                                              const char *range);

/** An interface that the user named is down or without carrier. */
void mca_btl_rawe_help_interface_down(const char *interface);

/** An interface that the user named is not Ethernet. */
void mca_btl_rawe_help_not_ethernet(const char *interface);

/** Link could not be opened: the step and errno out of struct rawe_port_error. */
void mca_btl_rawe_help_link_failed(const char *interface, const char *step, int code);

/** The same, of a link that was in use: the job is not going on. */
void mca_btl_rawe_help_link_lost(const char *interface, const char *step, int code);

/** The receive ring could not be allocated. */
void mca_btl_rawe_help_ring_not_allocated(const char *interface, uint64_t ring_bytes, int code);

/** The ring was full when frames arrived. */
void mca_btl_rawe_help_ring_dropped(const char *interface, uint64_t frames, uint64_t ring_bytes);

/** The two ends' interfaces are set to different MTUs; the smaller one is used. */
void mca_btl_rawe_help_mtu_mismatch(const char *interface, unsigned mtu_bytes,
                                    const char *peer_host, unsigned peer_mtu_bytes);

/** Small frames pass, full ones do not: `passed_bytes` is used instead of `mtu_bytes`. */
void mca_btl_rawe_help_full_size_lost(const char *interface, const char *peer_host,
                                      const char *peer_mac, unsigned mtu_bytes,
                                      unsigned passed_bytes);

/** No frame got through at first contact. `peer`: e.g. "rank 3" or a process name. */
void mca_btl_rawe_help_peer_unreachable(const char *interface, const char *peer,
                                        const char *peer_host, const char *peer_mac,
                                        uint64_t timeout_ms);

/** A peer was there and is silent now; the job is going to end. */
void mca_btl_rawe_help_peer_lost(const char *interface, const char *peer, const char *peer_host,
                                 const char *peer_mac, uint64_t silent_s);

/**
 * The peer's process is there and makes progress, its connection does not: `seen` is what is seen
 * of it. `timeout_s` is btl_rawe_peer_timeout.
 */
void mca_btl_rawe_help_connection_stalled(const char *interface, const char *peer,
                                          const char *peer_host, const char *peer_mac,
                                          const char *seen, uint64_t stalled_s, uint64_t timeout_s);

/** The peer speaks another version of the wire protocol or another EtherType. */
void mca_btl_rawe_help_peer_incompatible(const char *peer, const char *peer_host, const char *what,
                                         const char *ours, const char *theirs);

/** Built for one Open MPI, loaded into another. */
void mca_btl_rawe_help_wrong_version(const char *built, const char *running);

/** The component, or a module, could not be opened. Arguments as below. */
void mca_btl_rawe_help_not_opened(const char *doing, const char *detail, const char *file,
                                  int line);

/** A process of this host cannot be reached for accesses to windows. `peer`: as above. */
void mca_btl_rawe_help_window_unreachable(const char *peer);

/** A peer has refused an access to its registered memory. */
void mca_btl_rawe_help_access_refused(const char *peer, const char *peer_host,
                                      enum rawe_refusal refusal);

/** This process has refused a PUT to its registered memory. */
void mca_btl_rawe_help_put_refused(enum rawe_refusal refusal);

/** MPI_Finalize returns although a peer has not acknowledged all that was sent to it. */
void mca_btl_rawe_help_finalize_incomplete(const char *interface, const char *peer,
                                           const char *peer_mac);

/** What should not happen. `doing`: what was being done, `detail`: what went wrong. */
void mca_btl_rawe_help_internal_error(const char *doing, const char *detail, const char *file,
                                      int line);

/** A MAC address for a message: "02:00:00:00:00:01" into `out` (18 bytes). */
const char *mca_btl_rawe_mac_text(const uint8_t mac[6], char out[18]);

#endif
