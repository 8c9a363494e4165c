/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * An MPI thread inside an engine, whose callback waits for an Open MPI lock. Functions called with
 * that lock held must not wait for the thread.
 */
#ifndef UNIT_CALLBACK_H
#define UNIT_CALLBACK_H

#include <stdbool.h>

/** For set_up and tear_down: enable MPI threads and the engines' lock. */
void unit_callback_begin(void);
void unit_callback_end(void);
/** Call a function while holding the Open MPI lock that the callback waits for. */
void unit_callback_beside(void (*call)(void));
/** Return true while the MPI thread, on leaving the engine, does the work handed over to it. */
bool unit_callback_leaving(void);

#endif
