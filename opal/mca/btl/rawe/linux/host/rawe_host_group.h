/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The processes of a job on one host, and the fanout groups (rawe_fanout.c) in which they receive.
 *
 * One process runs the leader, a thread that listens on a Unix socket. All processes, including the
 * leader's, connect and send duplicates of their packet sockets' descriptors. When all have
 * arrived, or none has for a while, the leader joins them to groups.
 *
 *     leader                                 process
 *        │<──────── connect ──────────────────────│  both check the other's user
 *        │<──────── socket, keys ─────────────────│  once per socket
 *        │   joins all of an interface            │  from now on it receives in the group
 *        │                                        │
 *        │<──────── leaving: one byte ────────────│  at its end, it waits with open sockets,
 *        │────────  end of the connection ───────>│  until all are leaving
 *
 * Until a socket is in a group, it receives like any other. If a process or the leader ends without
 * this notice, all connections end: the processes reopen their sockets (`broken`) and form a new
 * group.
 */
#ifndef RAWE_HOST_GROUP_H
#define RAWE_HOST_GROUP_H

#include <stdbool.h>
#include <stdint.h>

#include "../packet/rawe_filter.h"
#include "../port/rawe_port.h"
#include "../sys/rawe_service.h"

struct rawe_host_group;

struct rawe_host_group_config {
    const char *name;   /**< of the Unix socket (abstract); only these processes share it */
    bool leader;        /**< true in one of these processes */
    unsigned processes; /**< number of the job's processes here, including the leader's */
    const char *helper; /**< for the leader, see rawe_fanout_form; owned by the caller */
    /**
     * Called in the service thread: reopen the registered sockets, which may miss frames forever.
     * Returns the ms after which to call again; -1: done. Must not call the group.
     */
    int (*broken)(void *context);
    void *context;
};

/** Take part in the job's groups on this host. Returns 0, or -1 and the error. */
int rawe_host_group_open(struct rawe_host_group **group,
                         const struct rawe_host_group_config *config, struct rawe_service *service,
                         struct rawe_port_error *error);

/** Let a port join a group later, if there is room. The port remains the caller's. */
void rawe_host_group_register(struct rawe_host_group *group, const struct rawe_port *port);

/** Stop sending and calling `broken`, so that sockets may be closed. NULL is allowed. */
void rawe_host_group_quiesce(struct rawe_host_group *group);

/** Leave; wait with open sockets for at most `wait_ms` until all leave. NULL is allowed. */
void rawe_host_group_close(struct rawe_host_group *group, unsigned wait_ms);

/* ---- rawe_fanout.c ---- */

/** A packet socket, bound, with its filter. */
struct rawe_fanout_member {
    int fd;
    enum rawe_port_use use;
    int interface_index;
    uint16_t ethertype; /**< the EtherType to which it is bound, in host order */
    uint32_t key_count;
    uint32_t keys[RAWE_FANOUT_KEYS_MAX];
};

/** Describe the socket `fd`, which was opened with this configuration. */
struct rawe_fanout_member rawe_fanout_member(int fd, const struct rawe_port_config *config);

/** Return true for a packet socket, bound as described (by another process), in no group. */
bool rawe_fanout_joinable(const struct rawe_fanout_member *member);

/** Return true if this packet socket is in a group. */
bool rawe_fanout_is_member(int fd);

/** Return true if two sockets may be in the same group. */
bool rawe_fanout_compatible(const struct rawe_fanout_member *a, const struct rawe_fanout_member *b);

/**
 * Form a group of 2 to RAWE_FANOUT_MEMBERS_MAX compatible sockets; reorders `members`. If the
 * process may not open the founding socket, `helper` does. Frames that arrive meanwhile may be
 * lost. Returns 0, or -1 and the error. On failure, either none has joined (`*changed` is false),
 * or those that joined may miss their frames forever and must be reopened.
 */
int rawe_fanout_form(struct rawe_fanout_member *members, unsigned count, const char *helper,
                     bool *changed, struct rawe_port_error *error);

#endif
