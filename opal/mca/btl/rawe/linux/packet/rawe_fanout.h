/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Fanout groups: the sockets of many processes on one interface, behind one hook in the kernel, where
 * one program chooses the member that a frame is offered to (doc/architecture.md, "Many ranks on a
 * host"). The member's own filter still decides: nothing is delivered to the wrong one.
 *
 * The program answers with a place in the kernel's list of members, which changes when one is closed
 * or the interface goes down and up. So sockets join in the order of their creation, and none may be
 * closed while others are in use.
 */
#ifndef RAWE_FANOUT_H
#define RAWE_FANOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "rawe_filter.h"
#include "../port/rawe_port.h"

/** A packet socket, bound, with its filter. */
struct rawe_fanout_member {
    int fd;
    enum rawe_port_use use;
    int interface_index;
    uint16_t ethertype; /**< that it is bound to, host order */
    uint32_t key_count;
    uint32_t keys[RAWE_FANOUT_KEYS_MAX];
};

/** Describe the socket `fd`, which was opened with this configuration. */
struct rawe_fanout_member rawe_fanout_member(int fd, const struct rawe_port_config *config);

/** Is it a packet socket, bound as it says, and in no group? Another process described it. */
bool rawe_fanout_joinable(const struct rawe_fanout_member *member);

/** Is this packet socket in a group? */
bool rawe_fanout_is_member(int fd);

/** May the two be in one group? */
bool rawe_fanout_compatible(const struct rawe_fanout_member *a, const struct rawe_fanout_member *b);

/**
 * Join sockets that are alike, 2 to RAWE_FANOUT_MEMBERS_MAX, which changes the order of `members`.
 * `helper` opens the one more that it takes if the process may not. Frames that arrive meanwhile may
 * be lost. Returns 0, or -1 and the error: then either none has joined (`*changed` is false), or those
 * that have may miss their frames for good, and have to be opened again.
 */
int rawe_fanout_form(struct rawe_fanout_member *members, unsigned count, const char *helper,
                     bool *changed, struct rawe_port_error *error);

#endif
