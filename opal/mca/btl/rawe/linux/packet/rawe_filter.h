/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The kernel's programs: a socket's filter, which frames reach user space at all; and a fanout
 * group's, which of its sockets they reach.
 */
#ifndef RAWE_FILTER_H
#define RAWE_FILTER_H

#include <linux/filter.h>
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
 * socket must not be bound yet, so that no frame slips in before. A filter for certain groups is not
 * locked: attached again, it is replaced. Returns 0, or -1 and the error.
 */
int rawe_filter_attach(int fd, const struct rawe_port_config *config,
                       struct rawe_port_error *error);

/** Bind the socket to the interface and its EtherType. Returns 0, or -1 and the error. */
int rawe_filter_bind(int fd, const struct rawe_port_config *config, struct rawe_port_error *error);

/* ---- fanout groups (rawe_fanout.h) ---- */

/** Members of a group at most: what kernels before 5.8 take, less one place to set it up. */
#define RAWE_FANOUT_MEMBERS_MAX 255u

/** Keys that frames for one socket may have: a responder has its own and the session's. */
#define RAWE_FANOUT_KEYS_MAX 2u

/** Keys in a group at most. */
#define RAWE_FANOUT_PLACES_MAX (RAWE_FANOUT_KEYS_MAX * RAWE_FANOUT_MEMBERS_MAX)

/** A key, and the place of the member that its frames are for. */
struct rawe_fanout_place {
    uint32_t key;
    uint32_t place;
};

/** Instructions of a program for `count` keys, at most. */
#define RAWE_FANOUT_PROGRAM_MAX(count) (3u * (count) + 1u)

/**
 * Write the program that finds a frame's key among `places` (sorted by key, at least one) and
 * answers with the place; for any other key with the place of some member. The key is
 * `key_offset` bytes behind the Ethernet header. Returns the number of instructions. Pure.
 */
unsigned rawe_fanout_program(struct sock_filter *program, const struct rawe_fanout_place *places,
                             unsigned count, uint32_t key_offset);

/**
 * Make the packet socket `fd`, not bound yet, the founder of a new group of sockets of that use, with
 * the program for `places`: 1 to RAWE_FANOUT_PLACES_MAX, sorted by key. The founder itself receives
 * nothing; from then on no process can change its filter, nor through it the program. Of `config`, the
 * use, the interface's index and the EtherType are used. Returns 0, or -1 and the error.
 */
int rawe_fanout_found(int fd, const struct rawe_port_config *config,
                      const struct rawe_fanout_place *places, unsigned count,
                      struct rawe_port_error *error);

#endif
