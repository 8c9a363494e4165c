/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * An engine whose frames go nowhere, for tests of the glue above it.
 */
#ifndef UNIT_ENGINE_H
#define UNIT_ENGINE_H

#include "rawe_engine.h"

/**
 * Start an engine without callbacks, whose link takes all frames and loses them. `context` is that
 * of callbacks that the test adds. The handle table stays the caller's; rawe_engine_free at the end.
 */
void unit_engine_start(struct rawe_engine *engine, struct rawe_handle_table *handles, void *context,
                       uint64_t now_ns);

#endif
