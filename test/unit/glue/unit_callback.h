/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * An MPI thread inside an engine, whose callback waits for a lock of Open MPI, for tests of
 * functions that are called with that lock held: they must not wait for the thread.
 */
#ifndef UNIT_CALLBACK_H
#define UNIT_CALLBACK_H

#include <stdbool.h>

/** For set_up and tear_down: enable MPI threads and the engines' lock. */
void unit_callback_begin(void);
void unit_callback_end(void);
/** Call a function with Open MPI's lock held, while the callback waits for that lock. */
void unit_callback_beside(void (*call)(void));
/** Return true if that thread is leaving the engine and doing the work handed over to it. */
bool unit_callback_leaving(void);

#endif
