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

/** Room for the descriptors beside a message. */
union control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(RAWE_HOST_MESSAGE_SOCKETS_MAX * sizeof(int))];
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
    union control control = {0};
    const size_t fd_bytes = message->count * sizeof(int);
    const struct msghdr header = {
        .msg_iov = &piece,
        .msg_iovlen = 1,
        .msg_control = fd_bytes == 0 ? NULL : control.bytes,
        .msg_controllen = fd_bytes == 0 ? 0 : CMSG_SPACE(fd_bytes),
    };

    control.header = (struct cmsghdr){
        .cmsg_len = CMSG_LEN(fd_bytes), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    for (unsigned i = 0; i < message->count; i++) {
        memcpy(CMSG_DATA(&control.header) + i * sizeof(int), &message->members[i].fd, sizeof(int));
    }
    return sendmsg(fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

/** The descriptors of a message, as many as there is room for. Returns how many. */
static unsigned take_descriptors(struct msghdr *header, int fds[RAWE_HOST_MESSAGE_SOCKETS_MAX])
{
    unsigned count = 0;

    for (struct cmsghdr *part = CMSG_FIRSTHDR(header); part; part = CMSG_NXTHDR(header, part)) {
        if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS) {
            const size_t bytes = part->cmsg_len - CMSG_LEN(0);
            for (size_t at = 0; at + sizeof(int) <= bytes; at += sizeof(int)) {
                int fd;
                memcpy(&fd, CMSG_DATA(part) + at, sizeof fd);
                if (count < RAWE_HOST_MESSAGE_SOCKETS_MAX) {
                    fds[count++] = fd;
                } else {
                    close(fd); /* the kernel rounds the room up */
                }
            }
        }
    }
    return count;
}

enum rawe_host_message_result rawe_host_message_receive(int fd, struct rawe_host_message *message)
{
    struct iovec piece = {message, sizeof *message};
    union control control;
    struct msghdr header = {
        .msg_iov = &piece,
        .msg_iovlen = 1,
        .msg_control = control.bytes,
        .msg_controllen = sizeof control.bytes,
    };
    int fds[RAWE_HOST_MESSAGE_SOCKETS_MAX];
    const ssize_t got = recvmsg(fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

    if (got < 0) {
        return errno == EAGAIN || errno == EINTR ? RAWE_HOST_MESSAGE_NONE
                                                 : RAWE_HOST_MESSAGE_INVALID;
    }
    const unsigned fd_count = take_descriptors(&header, fds);
    if (got != (ssize_t)sizeof *message || message->version != RAWE_HOST_MESSAGE_VERSION ||
        (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 || message->count != fd_count) {
        for (unsigned i = 0; i < fd_count; i++) {
            close(fds[i]);
        }
        return RAWE_HOST_MESSAGE_INVALID;
    }
    for (unsigned i = 0; i < fd_count; i++) {
        message->members[i].fd = fds[i];
    }
    return RAWE_HOST_MESSAGE_TAKEN;
}
