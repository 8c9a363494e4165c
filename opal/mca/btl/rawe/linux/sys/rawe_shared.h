/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Sharing between processes on one host: memory, in a file that each process maps; and descriptors,
 * sent with a message (SCM_RIGHTS) over a Unix socket of type SOCK_SEQPACKET.
 */
#ifndef RAWE_SHARED_H
#define RAWE_SHARED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/**
 * Map the file. The first process creates it, filled with zeros. All must pass the same length.
 * Returns NULL on failure, also if the file system is full or another user owns the file. The
 * directory's owner removes the file.
 */
void *rawe_shared_map(const char *path, size_t len_bytes);

/** Unmap the file. NULL is allowed. */
void rawe_shared_unmap(void *memory, size_t len_bytes);

/** Return true if the peer of a Unix socket runs as our user or, with `root_too`, as root. */
bool rawe_descriptor_is_ours(int socket_fd, bool root_too);

/** Send without waiting; `fd` -1: none. Returns false and errno if nothing was sent. */
bool rawe_descriptor_send(int socket_fd, const void *message, size_t len_bytes, int fd);

/**
 * Receive without waiting. Returns the bytes received, 0 if the peer has closed the socket, or -1
 * and errno (EBADMSG: the message is too long, has too many descriptors, or there was no room for a
 * descriptor). The caller closes `*fd`; -1: none.
 */
ssize_t rawe_descriptor_receive(int socket_fd, void *message, size_t len_bytes, int *fd);

/**
 * Wait until a message can be received, or the peer has closed the socket. Signals do not end the
 * wait. Returns false if neither happens by `until_ns`, a time of rawe_port_clock_ns.
 */
bool rawe_descriptor_await(int socket_fd, uint64_t until_ns);

#endif
