/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * How much memory is in use: the linker puts counting functions in front of malloc and its like
 * (--wrap), for core as for all else in the program.
 */
#ifndef CLUSTER_MEMORY_H
#define CLUSTER_MEMORY_H

#include <stddef.h>

/** What malloc has given out and not got back, in bytes. */
size_t cluster_memory_bytes(void);

#endif
