/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "rawe_shared.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../port/rawe_port.h"

#define NS_PER_MS 1000000u

/** Return true if this user owns the file, which must be empty or of this length. */
static bool is_our_file(int fd, size_t len_bytes)
{
    struct stat status;

    return fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid() &&
           (status.st_size == 0 || (size_t)status.st_size == len_bytes);
}

/** Allocate the file's blocks: in a full file system, writing to the mapping raises SIGBUS. */
static bool allocate_file(int fd, size_t len_bytes)
{
    return fallocate(fd, 0, 0, (off_t)len_bytes) == 0 ||
           (errno == EOPNOTSUPP && ftruncate(fd, (off_t)len_bytes) == 0);
}

void *rawe_shared_map(const char *path, size_t len_bytes)
{
    const int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    void *memory = MAP_FAILED;

    if (fd < 0) {
        return NULL;
    }
    if (is_our_file(fd, len_bytes) && allocate_file(fd, len_bytes)) {
        memory = mmap(NULL, len_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    close(fd);
    return memory != MAP_FAILED ? memory : NULL;
}

void rawe_shared_unmap(void *memory, size_t len_bytes)
{
    if (memory != NULL) {
        munmap(memory, len_bytes);
    }
}

union control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
};

bool rawe_descriptor_is_ours(int socket_fd, bool root_too)
{
    struct ucred peer;
    socklen_t peer_bytes = sizeof peer;

    return getsockopt(socket_fd, SOL_SOCKET, SO_PEERCRED, &peer, &peer_bytes) == 0 &&
           (peer.uid == geteuid() || (root_too && peer.uid == 0));
}

bool rawe_descriptor_send(int socket_fd, const void *message, size_t len_bytes, int fd)
{
    struct iovec piece = {(void *)(uintptr_t)message, len_bytes};
    union control control = {.header = {.cmsg_len = CMSG_LEN(sizeof fd),
                                        .cmsg_level = SOL_SOCKET,
                                        .cmsg_type = SCM_RIGHTS}};
    struct msghdr header = {.msg_iov = &piece, .msg_iovlen = 1};

    if (fd >= 0) {
        memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
        header.msg_control = control.bytes;
        header.msg_controllen = sizeof control.bytes;
    }
    return sendmsg(socket_fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

ssize_t rawe_descriptor_receive(int socket_fd, void *message, size_t len_bytes, int *fd)
{
    struct iovec piece = {message, len_bytes};
    union control control;
    struct msghdr header = {
        .msg_iov = &piece,
        .msg_iovlen = 1,
        .msg_control = control.bytes,
        .msg_controllen = CMSG_LEN(sizeof *fd), /* CMSG_SPACE might fit a second one */
    };
    const ssize_t got = recvmsg(socket_fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

    *fd = -1;
    if (got < 0) {
        return -1;
    }
    const struct cmsghdr *part = CMSG_FIRSTHDR(&header);
    if (part != NULL && part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS &&
        part->cmsg_len == CMSG_LEN(sizeof *fd)) {
        memcpy(fd, CMSG_DATA(part), sizeof *fd);
    }
    if ((header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
        if (*fd >= 0) {
            close(*fd);
            *fd = -1;
        }
        errno = EBADMSG;
        return -1;
    }
    return got;
}

bool rawe_descriptor_await(int socket_fd, uint64_t until_ns)
{
    for (;;) {
        struct pollfd wait = {.fd = socket_fd, .events = POLLIN};
        const uint64_t now_ns = rawe_port_clock_ns();
        const int rest_ms = now_ns < until_ns ? (int)((until_ns - now_ns) / NS_PER_MS) : 0;
        const int ready = poll(&wait, 1, rest_ms);
        if (ready > 0) {
            return true;
        }
        if (ready == 0 || errno != EINTR) {
            return false;
        }
    }
}
