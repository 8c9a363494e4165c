/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The kernel filter of a socket: which frames reach user space at all.
 */
#ifndef RAWE_FILTER_H
#define RAWE_FILTER_H

#include <stdint.h>

#include "../port/rawe_link_config.h"

/** Kinds of socket a process has; every frame for it goes to one, a PROBE to two. */
enum rawe_filter_for {
    RAWE_FILTER_FOR_LINK,      /**< everything but PING and PONG */
    RAWE_FILTER_FOR_RESPONDER, /**< PING and PONG to the responder's address, PROBE to the link's */
    RAWE_FILTER_FOR_BULK,      /**< what has a batch header, in an IPv4 packet */
};

/** Where the batch header begins in the packets of bulk: behind Ethernet and IPv4. */
#define RAWE_FILTER_BULK_OFFSET 34u

/** EtherType of those packets. */
#define ETHERTYPE_IPV4 0x0800u

/** EtherType that a socket for `what` is bound to. */
uint16_t rawe_filter_ethertype(enum rawe_filter_for what, const struct rawe_link_config *config);

/** Where the key lies in its packets, behind the Ethernet header. */
uint32_t rawe_filter_key_offset(enum rawe_filter_for what);

/**
 * Attach and lock the filter: only frames addressed to this host, of the EtherType of `what` and of
 * our wire version, for port and key of the configuration, and of the types of `what` pass; of IPv4
 * packets only those from the address that batches have. It does not rely on the binding. The
 * socket must not be bound yet, so that no frame slips in before.
 * Returns 0, or -1 and the error.
 */
int rawe_filter_attach(int fd, enum rawe_filter_for what, const struct rawe_link_config *config,
                       struct rawe_link_error *error);

/**
 * Bind the socket to the interface and the EtherType that frames for `what` have. Returns 0, or -1
 * and the error.
 */
int rawe_filter_bind(int fd, enum rawe_filter_for what, const struct rawe_link_config *config,
                     struct rawe_link_error *error);

#endif
