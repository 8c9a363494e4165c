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

/** Offset of the batch header in a batch's packets: after Ethernet and IPv4. */
#define RAWE_FILTER_BULK_OFFSET 34u

/** Lengths of the middle port's packets with Ethernet header: from MTU 1500 to 16 KiB messages. */
#define RAWE_FILTER_MIDDLE_MIN 1515u
#define RAWE_FILTER_MIDDLE_MAX 17000u

/** EtherType of a batch's packets. */
#define ETHERTYPE_IPV4 0x0800u

/** Return the EtherType to which a socket is bound. */
uint16_t rawe_filter_ethertype(const struct rawe_port_config *config);

/** Return the key's offset after the Ethernet header, in packets for a port with this use. */
uint32_t rawe_filter_key_offset(enum rawe_port_use use);

/**
 * Attach and lock the filter. It passes only frames to this host with our wire version, with the
 * EtherType and a type of its use, and for the configuration's port and key (a group's socket: to a
 * group or to this host, for any port); IPv4 packets only from the source address of batches. The
 * socket must be unbound, so that no frame arrives earlier. A filter for certain groups is not
 * locked: attaching another replaces it. Returns 0, or -1 and the error.
 */
int rawe_filter_attach(int fd, const struct rawe_port_config *config,
                       struct rawe_port_error *error);

/** Bind the socket to the interface and its EtherType. Returns 0, or -1 and the error. */
int rawe_filter_bind(int fd, const struct rawe_port_config *config, struct rawe_port_error *error);

/* ---- fanout groups (linux/host/rawe_fanout.c) ---- */

/** Maximum members of a group: the limit of kernels before 5.8, minus one place for the founder. */
#define RAWE_FANOUT_MEMBERS_MAX 255u

/** Maximum keys of one socket: a responder has its own and the session's. */
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
 * Write the program that looks up a frame's key, `key_offset` bytes after the Ethernet header, in
 * `places` (sorted by key, at least one) and returns the key's place; for unknown keys, any place.
 * Returns the number of instructions. Pure.
 */
unsigned rawe_fanout_program(struct sock_filter *program, const struct rawe_fanout_place *places,
                             unsigned count, uint32_t key_offset);

/**
 * Make the unbound packet socket `fd` the founder of a new group, with the program for `places`: 1
 * to RAWE_FANOUT_PLACES_MAX, sorted by key. The founder receives nothing; from now on no process
 * can change its filter or, through it, the program. Uses only the use, interface index and
 * EtherType of `config`. Returns 0, or -1 and the error.
 */
int rawe_fanout_found(int fd, const struct rawe_port_config *config,
                      const struct rawe_fanout_place *places, unsigned count,
                      struct rawe_port_error *error);

#endif
