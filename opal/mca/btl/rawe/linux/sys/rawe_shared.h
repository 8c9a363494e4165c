/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory shared by a user's processes on one host: a file that each of them maps.
 */
#ifndef RAWE_SHARED_H
#define RAWE_SHARED_H

#include <stddef.h>

/**
 * Map the file; the first process creates it, all zeroes. All must pass the same length. Returns
 * NULL if this fails, the file system has no room, or the file belongs to another user. The
 * directory's owner removes the file.
 */
void *rawe_shared_map(const char *path, size_t len_bytes);

/** Unmap the file. NULL is allowed. */
void rawe_shared_unmap(void *memory, size_t len_bytes);

#endif
