/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Allocations that fail when a test says so. A program that uses this is linked with
 * $(failing_allocations).
 */
#ifndef UNIT_ALLOC_H
#define UNIT_ALLOC_H

/** How many more allocations succeed; those after them fail. -1: none fails. */
extern int unit_allocations_left;

#endif
