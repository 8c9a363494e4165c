/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The leader of a host group (rawe_host_group.h): takes the sockets of all processes, joins them to
 * groups, and sees to it that all know when one is closed.
 */
#ifndef RAWE_HOST_LEADER_H
#define RAWE_HOST_LEADER_H

#include <stdbool.h>

#include "../packet/rawe_fanout.h"
#include "../port/rawe_port.h"
#include "../sys/rawe_service.h"

struct rawe_host_leader;

/**
 * Listen under that name; `processes` are expected; `helper` is for rawe_fanout_form, and stays the
 * caller's. `source` is woken when a group is formed, by a thread of its own: the helper may take
 * long. NULL: the caller forms it. Returns 0, or -1 and the error.
 */
int rawe_host_leader_open(struct rawe_host_leader **leader, const char *name, unsigned processes,
                          const char *helper, struct rawe_service_source *source,
                          struct rawe_port_error *error);

/** NULL is nothing to close. */
void rawe_host_leader_close(struct rawe_host_leader *leader);

/** A group is being formed: it is served when that is over, and not before. */
bool rawe_host_leader_busy(const struct rawe_host_leader *leader);

/** Readable when it is to be served. */
int rawe_host_leader_fd(const struct rawe_host_leader *leader);

/**
 * Receive what there is, form groups that are ready. Returns the milliseconds after which it is to
 * be served again, -1: no need.
 */
int rawe_host_leader_serve(struct rawe_host_leader *leader);

/** Have a socket of this process join. It stays the caller's. Returns 0, or -1: it will not. */
int rawe_host_leader_register(struct rawe_host_leader *leader,
                              const struct rawe_fanout_member *member);

/** A socket in a group was closed: all others may miss frames, and all connections have ended. */
bool rawe_host_leader_broken(const struct rawe_host_leader *leader);

/**
 * Sockets of this process are out of groups again: restart. Returns false when there is to be no
 * further group: the kernel did not let all join.
 */
bool rawe_host_leader_resume(struct rawe_host_leader *leader);

/** How many sockets it has joined to groups. */
unsigned rawe_host_leader_joined(const struct rawe_host_leader *leader);

/** Wait until no process needs frames any more, `wait_ms` at most. */
void rawe_host_leader_await_others(struct rawe_host_leader *leader, unsigned wait_ms);

#endif
