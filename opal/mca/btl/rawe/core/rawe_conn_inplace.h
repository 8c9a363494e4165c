/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages delivered from the buffer that their batch was received into.
 */
#ifndef RAWE_CONN_INPLACE_H
#define RAWE_CONN_INPLACE_H

#include "rawe_conn_state.h"

/**
 * The engine's buffer for a batch with several messages, free for the next one. NULL without
 * memory.
 */
uint8_t *rawe_conn_inplace_buffer(struct rawe_engine *engine);
/**
 * Take a fragment whose data lies in that buffer. True when it is dealt with, and `whole` says
 * whether the message it belongs to is complete now: deliver engine->inplace.data then.
 */
bool rawe_conn_inplace_add(struct rawe_conn *conn, const struct rawe_fragment *fragment,
                           bool *whole);
/** Spill: move the message that lies in the buffer in part to one of its own. False: no memory. */
bool rawe_conn_inplace_spill(struct rawe_engine *engine);

#endif
