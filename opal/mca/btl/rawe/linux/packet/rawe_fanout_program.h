/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A fanout group's program (rawe_fanout.h), and the socket that brings it into the group.
 */
#ifndef RAWE_FANOUT_PROGRAM_H
#define RAWE_FANOUT_PROGRAM_H

#include <linux/filter.h>
#include <stdint.h>

#include "rawe_filter.h"
#include "../port/rawe_port.h"

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
