/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory that processes of a user share on one host: a file that each of them maps.
 */
#ifndef RAWE_SHARED_H
#define RAWE_SHARED_H

#include <stddef.h>

/**
 * Map the file, created by the first process with all zeroes. All have to name the same length.
 * Returns NULL when that fails, the file system has no room for it, or the file belongs to another
 * user. It is removed by its directory's owner.
 */
void *rawe_shared_map(const char *path, size_t len_bytes);

/** NULL is nothing to unmap. */
void rawe_shared_unmap(void *memory, size_t len_bytes);

#endif
