/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The kernel's programs: a socket's filter chooses the frames that reach user space; a fanout
 * group's program chooses which of its sockets they reach.
 */
#ifndef RAWE_FILTER_H
#define RAWE_FILTER_H

#include <linux/filter.h>
#include <stdint.h>

#include "../port/rawe_port.h"

/** Offset of the batch header in a batch's packets: behind Ethernet and IPv4. */
#define RAWE_FILTER_BULK_OFFSET 34u

/** The middle port's packets with Ethernet header: above MTU 1500, up to 16 KiB messages. */
#define RAWE_FILTER_MIDDLE_MIN 1515u
#define RAWE_FILTER_MIDDLE_MAX 17000u

/** EtherType of a batch's packets. */
#define ETHERTYPE_IPV4 0x0800u

/** Return the EtherType that a socket is bound to. */
uint16_t rawe_filter_ethertype(const struct rawe_port_config *config);

/** Return the key's offset behind the Ethernet header, in packets of a port of this use. */
uint32_t rawe_filter_key_offset(enum rawe_port_use use);

/**
 * Attach and lock the filter. It passes only frames to this host, of our wire version, of the
 * EtherType and the types of its use, and for the configuration's port and key (a group's socket:
 * to a group or to this host, of any port); IPv4 packets only from the address that batches have.
 * The socket must be unbound, so that no frame slips in before. A filter for certain groups is not
 * locked: attaching again replaces it. Returns 0, or -1 and the error.
 */
int rawe_filter_attach(int fd, const struct rawe_port_config *config,
                       struct rawe_port_error *error);

/** Bind the socket to the interface and its EtherType. Returns 0, or -1 and the error. */
int rawe_filter_bind(int fd, const struct rawe_port_config *config, struct rawe_port_error *error);

/* ---- fanout groups (linux/host/rawe_fanout.c) ---- */

/** Maximum members of a group: what kernels before 5.8 take, less one place for the founder. */
#define RAWE_FANOUT_MEMBERS_MAX 255u

/** Keys that frames for one socket may have: a responder has its own and the session's. */
#define RAWE_FANOUT_KEYS_MAX 2u

/** Maximum keys in a group. */
#define RAWE_FANOUT_PLACES_MAX (RAWE_FANOUT_KEYS_MAX * RAWE_FANOUT_MEMBERS_MAX)

/** A key, and the place of the member that receives its frames. */
struct rawe_fanout_place {
    uint32_t key;
    uint32_t place;
};

/** Maximum instructions of a program for `count` keys. */
#define RAWE_FANOUT_PROGRAM_MAX(count) (3u * (count) + 1u)

/**
 * Write the program that looks up a frame's key, `key_offset` bytes behind the Ethernet header,
 * among `places` (sorted by key, at least one) and returns its place; for unknown keys, some
 * member's place. Returns the number of instructions. Pure.
 */
unsigned rawe_fanout_program(struct sock_filter *program, const struct rawe_fanout_place *places,
                             unsigned count, uint32_t key_offset);

/**
 * Make the unbound packet socket `fd` the founder of a new group for sockets of that use, with the
 * program for `places`: 1 to RAWE_FANOUT_PLACES_MAX, sorted by key. The founder receives nothing;
 * from now on no process can change its filter or, through it, the program. Of `config`, use,
 * interface index and EtherType are used. Returns 0, or -1 and the error.
 */
int rawe_fanout_found(int fd, const struct rawe_port_config *config,
                      const struct rawe_fanout_place *places, unsigned count,
                      struct rawe_port_error *error);

#endif
