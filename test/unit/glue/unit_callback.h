/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A thread of MPI inside of an engine, whose callback wants a lock of Open MPI's, for tests of what
 * is called with that lock held. It must not wait for the thread.
 */
#ifndef UNIT_CALLBACK_H
#define UNIT_CALLBACK_H

#include <stdbool.h>

/** For set_up and tear_down: MPI has threads, and the engines' lock is there. */
void unit_callback_begin(void);
void unit_callback_end(void);
/** Call with Open MPI's lock held, while the callback waits for it. */
void unit_callback_beside(void (*call)(void));
/** That thread is leaving, and does the work handed over to it. */
bool unit_callback_leaving(void);

#endif
