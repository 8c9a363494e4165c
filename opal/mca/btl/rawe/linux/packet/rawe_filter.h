/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The kernel filter of a socket: which frames reach user space at all.
 */
#ifndef RAWE_FILTER_H
#define RAWE_FILTER_H

#include <stdint.h>

#include "../port/rawe_port.h"

/** Where the batch header begins in the packets of bulk: behind Ethernet and IPv4. */
#define RAWE_FILTER_BULK_OFFSET 34u

/** The middle port's packets, Ethernet header included: above MTU 1500, to 16 KiB messages. */
#define RAWE_FILTER_MIDDLE_MIN 1515u
#define RAWE_FILTER_MIDDLE_MAX 17000u

/** EtherType of those packets. */
#define ETHERTYPE_IPV4 0x0800u

/** EtherType that a socket is bound to. */
uint16_t rawe_filter_ethertype(const struct rawe_port_config *config);

/** Where the key lies in the packets of a port of this use, behind the Ethernet header. */
uint32_t rawe_filter_key_offset(enum rawe_port_use use);

/**
 * Attach and lock the filter: only frames to this host, of the EtherType and the types of its use, of
 * our wire version, and for port and key of the configuration pass (of a group's socket: to a group or
 * to this host, of any port); of IPv4 packets only those from the address that batches have. The
 * socket must not be bound yet, so that no frame slips in before. Returns 0, or -1 and the error.
 */
int rawe_filter_attach(int fd, const struct rawe_port_config *config,
                       struct rawe_port_error *error);

/** Bind the socket to the interface and its EtherType. Returns 0, or -1 and the error. */
int rawe_filter_bind(int fd, const struct rawe_port_config *config, struct rawe_port_error *error);

#endif
