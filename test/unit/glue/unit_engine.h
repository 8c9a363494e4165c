/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * An engine whose frames are discarded, for tests of the glue above it.
 */
#ifndef UNIT_ENGINE_H
#define UNIT_ENGINE_H

#include "rawe_engine.h"

/**
 * Start an engine without callbacks, whose link discards all frames. `context` is for callbacks
 * that the test adds. The caller owns the handle table, and calls rawe_engine_free at the end.
 */
void unit_engine_start(struct rawe_engine *engine, struct rawe_handle_table *handles, void *context,
                       uint64_t now_ns);

#endif
