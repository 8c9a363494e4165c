/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A message with a descriptor beside it, from one process of this host to another (SCM_RIGHTS), over
 * a Unix socket of type SOCK_SEQPACKET.
 */
#ifndef RAWE_DESCRIPTOR_H
#define RAWE_DESCRIPTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/** Does the process at the other end of a Unix socket belong to our user, or, `root_too`, to root? */
bool rawe_descriptor_is_ours(int socket_fd, bool root_too);

/** Without waiting; `fd` -1: none. Returns false, and errno, when nothing was sent. */
bool rawe_descriptor_send(int socket_fd, const void *message, size_t len_bytes, int fd);

/**
 * Without waiting. Returns the bytes received, 0: the other end is closed, or -1 and errno (EBADMSG:
 * the message is longer, or has more descriptors, or there was no room for one). `*fd` is the
 * caller's to close; -1: none.
 */
ssize_t rawe_descriptor_receive(int socket_fd, void *message, size_t len_bytes, int *fd);

#endif
