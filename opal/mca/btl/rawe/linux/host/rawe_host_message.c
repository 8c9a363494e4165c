/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages with packet sockets. See rawe_host_message.h.
 */
#define _GNU_SOURCE
#include "rawe_host_message.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

/** Room for the descriptor beside a message. */
union control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
};

socklen_t rawe_host_message_address(const char *name, struct sockaddr_un *address)
{
    const size_t len = strnlen(name, sizeof address->sun_path - 1);

    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    /* A name that begins with 0 is in no file system, and goes with its socket. */
    memcpy(address->sun_path + 1, name, len);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len);
}

bool rawe_host_message_same_user(int fd)
{
    struct ucred peer;
    socklen_t peer_bytes = sizeof peer;

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &peer_bytes) == 0 &&
           peer.uid == geteuid();
}

bool rawe_host_message_send(int fd, const struct rawe_host_message *message)
{
    struct rawe_host_message copy = *message;
    struct iovec piece = {&copy, sizeof copy};
    union control control = {.header = {.cmsg_len = CMSG_LEN(sizeof(int)),
                                        .cmsg_level = SOL_SOCKET,
                                        .cmsg_type = SCM_RIGHTS}};
    struct msghdr header = {.msg_iov = &piece, .msg_iovlen = 1};

    if (message->leaving == 0) {
        memcpy(CMSG_DATA(&control.header), &message->member.fd, sizeof(int));
        header.msg_control = control.bytes;
        header.msg_controllen = sizeof control.bytes;
    }
    return sendmsg(fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

/** The descriptor of a message, or -1. */
static int take_descriptor(struct msghdr *header)
{
    const struct cmsghdr *part = CMSG_FIRSTHDR(header);
    int fd = -1;

    if (part != NULL && part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS &&
        part->cmsg_len == CMSG_LEN(sizeof(int))) {
        memcpy(&fd, CMSG_DATA(part), sizeof fd);
    }
    return fd;
}

enum rawe_host_message_result rawe_host_message_receive(int fd, struct rawe_host_message *message)
{
    struct iovec piece = {message, sizeof *message};
    union control control;
    struct msghdr header = {
        .msg_iov = &piece,
        .msg_iovlen = 1,
        .msg_control = control.bytes,
        .msg_controllen = CMSG_LEN(sizeof(int)), /* CMSG_SPACE would have room for a second one */
    };
    const ssize_t got = recvmsg(fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

    if (got < 0) {
        return errno == EAGAIN || errno == EINTR ? RAWE_HOST_MESSAGE_NONE
                                                 : RAWE_HOST_MESSAGE_INVALID;
    }
    const int socket_fd = take_descriptor(&header);
    if (got != (ssize_t)sizeof *message || message->version != RAWE_HOST_MESSAGE_VERSION ||
        (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 ||
        (message->leaving == 0) != (socket_fd >= 0)) {
        if (socket_fd >= 0) {
            close(socket_fd);
        }
        return RAWE_HOST_MESSAGE_INVALID;
    }
    message->member.fd = socket_fd;
    return RAWE_HOST_MESSAGE_TAKEN;
}
