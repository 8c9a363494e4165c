/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Allocations that fail on a test's request. Link programs that use this with
 * $(failing_allocations).
 */
#ifndef UNIT_ALLOC_H
#define UNIT_ALLOC_H

/** Number of allocations that still succeed; later ones fail. -1: none fails. */
extern int unit_allocations_left;

#endif
