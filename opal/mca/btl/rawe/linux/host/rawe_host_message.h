/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the processes of a job on one host send each other over Unix sockets: their packet sockets, one a message.
 */
#ifndef RAWE_HOST_MESSAGE_H
#define RAWE_HOST_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "../packet/rawe_fanout.h"

/** Processes of different builds may send each other messages. */
#define RAWE_HOST_MESSAGE_VERSION 2u

/** The descriptor of the member comes beside it (SCM_RIGHTS). */
struct rawe_host_message {
    uint32_t version;
    uint32_t leaving; /**< 1: no socket, the process needs no more frames */
    struct rawe_fanout_member member;
};

enum rawe_host_message_result {
    RAWE_HOST_MESSAGE_NONE, /**< nothing there yet */
    RAWE_HOST_MESSAGE_TAKEN,
    RAWE_HOST_MESSAGE_INVALID, /**< something else, or the end of the connection */
};

/** The address of that name, in no file system. Returns its length. */
socklen_t rawe_host_message_address(const char *name, struct sockaddr_un *address);

/** Does the process at the other end belong to our user? */
bool rawe_host_message_same_user(int fd);

/** Without waiting. Returns false, and errno, when it was not sent. */
bool rawe_host_message_send(int fd, const struct rawe_host_message *message);

/** Without waiting. The descriptor of a message that is taken is the caller's to close. */
enum rawe_host_message_result rawe_host_message_receive(int fd, struct rawe_host_message *message);

#endif
