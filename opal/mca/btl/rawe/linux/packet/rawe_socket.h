/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Opening a packet socket the way both the link and the responder need it.
 */
#ifndef RAWE_SOCKET_H
#define RAWE_SOCKET_H

#include "rawe_filter.h"
#include "../port/rawe_link_config.h"
#include "rawe_ring.h"

/**
 * Open a socket that sends through `config`'s interface, and receives from it what the filter for
 * `what` lets through, into `ring`: about `ring_bytes`, in slots for `slot_data_bytes` behind the
 * Ethernet header.
 * Returns the descriptor, or -1 and the error.
 */
int rawe_socket_open(struct rawe_ring *ring, const struct rawe_link_config *config,
                     enum rawe_filter_for what, uint32_t slot_data_bytes, size_t ring_bytes,
                     struct rawe_link_error *error);

/**
 * Put a new socket and ring, with the same arguments, in the place of `fd` and `ring`: the
 * descriptor's number stays. What waits in the old ones is lost.
 * Returns 0, or -1 and the error; the old ones are as they were then.
 */
int rawe_socket_reopen(int fd, struct rawe_ring *ring, const struct rawe_link_config *config,
                       enum rawe_filter_for what, uint32_t slot_data_bytes, size_t ring_bytes,
                       struct rawe_link_error *error);

/** Index of the interface that a packet socket is bound to; negative when that is gone. */
int rawe_socket_interface(int fd);

#endif
