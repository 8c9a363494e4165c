/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The processes of a job on one host, and the fanout groups (rawe_fanout.h) they receive in.
 *
 * One of them runs the leader, a thread that listens on a Unix socket. All connect, that one too, and
 * hand it duplicates of the descriptors of their packet sockets. When all have come, or none has for
 * a while, it joins them to groups.
 *
 *     leader                                 process
 *        │<──────── connect ──────────────────────│  both check the other's user
 *        │<──────── socket, keys ─────────────────│  once for each socket
 *        │   joins all of an interface            │  from now on it receives in the group
 *        │                                        │
 *        │<──────── leaving: one byte ────────────│  at its end, it waits with open sockets,
 *        │────────  end of the connection ───────>│  until all are leaving
 *
 * Until a socket is in a group, it receives as any other. When a process or the leader ends otherwise,
 * all connections end: the processes reopen their sockets (`broken`), and form another group.
 */
#ifndef RAWE_HOST_GROUP_H
#define RAWE_HOST_GROUP_H

#include <stdbool.h>

#include "../port/rawe_port.h"
#include "../sys/rawe_service.h"

struct rawe_host_group;

struct rawe_host_group_config {
    const char *name;   /**< of the Unix socket (abstract): the same for all, and only for them */
    bool leader;        /**< one of them is */
    unsigned processes; /**< of the job on this host, the leader's included */
    const char *helper; /**< of the leader's, see rawe_fanout_form; stays the caller's */
    /**
     * In the service thread: reopen the registered sockets, which may miss frames for good. Returns
     * when to call again in ms, -1: done. It may not call the group.
     */
    int (*broken)(void *context);
    void *context;
};

/** Begin. Returns 0, or -1 and the error. */
int rawe_host_group_open(struct rawe_host_group **group,
                         const struct rawe_host_group_config *config, struct rawe_service *service,
                         struct rawe_port_error *error);

/** Have a port join a group, some time, if there is room. It stays the caller's. */
void rawe_host_group_register(struct rawe_host_group *group, const struct rawe_port *port);

/** From now on nothing is sent, nor `broken` called: sockets may be closed. NULL: nothing. */
void rawe_host_group_quiesce(struct rawe_host_group *group);

/** Leave, sockets still open; wait (`wait_ms` at most) until all do. NULL: nothing to close. */
void rawe_host_group_close(struct rawe_host_group *group, unsigned wait_ms);

#endif
