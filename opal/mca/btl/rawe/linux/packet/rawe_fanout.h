/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Fanout groups: many processes' sockets on one interface, behind one hook in the kernel, where one
 * program chooses the member to which a frame is offered (doc/architecture.md, "Many ranks on a
 * host"). The member's own filter still applies, so no frame reaches the wrong process.
 *
 * The program returns an index into the kernel's list of members, which changes when a member is
 * closed or the interface goes down and up. Therefore sockets join in the order of their creation,
 * and none may be closed while others are in use.
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
    uint16_t ethertype; /**< that it is bound to, in host order */
    uint32_t key_count;
    uint32_t keys[RAWE_FANOUT_KEYS_MAX];
};

/** Describe the socket `fd`, which was opened with this configuration. */
struct rawe_fanout_member rawe_fanout_member(int fd, const struct rawe_port_config *config);

/** Return true if it is a packet socket, bound as described (by another process), in no group. */
bool rawe_fanout_joinable(const struct rawe_fanout_member *member);

/** Return true if this packet socket is in a group. */
bool rawe_fanout_is_member(int fd);

/** Return true if the two may be in one group. */
bool rawe_fanout_compatible(const struct rawe_fanout_member *a, const struct rawe_fanout_member *b);

/**
 * Form a group of 2 to RAWE_FANOUT_MEMBERS_MAX compatible sockets; reorders `members`. If the
 * process may not open the additional socket needed, `helper` does. Frames that arrive meanwhile
 * may be lost. Returns 0, or -1 and the error. On failure either none has joined (`*changed` is
 * false), or those that joined may miss their frames for good, and must be reopened.
 */
int rawe_fanout_form(struct rawe_fanout_member *members, unsigned count, const char *helper,
                     bool *changed, struct rawe_port_error *error);

#endif
