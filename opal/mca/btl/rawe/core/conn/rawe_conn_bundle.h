/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Bundles: queued messages that are short travel as one.
 */
#ifndef RAWE_CONN_BUNDLE_H
#define RAWE_CONN_BUNDLE_H

#include "rawe_conn_state.h"

/** Buffers for bundles; all given back when the connections' sends are complete. */
void rawe_conn_bundle_pool_init(struct rawe_buffer_pool *pool);

/** Longest message that is copied into one: with fewer than three in it a bundle is not worth it. */
#define RAWE_CONN_BUNDLED_BYTES_MAX (RAWE_BATCH_BYTES_MAX / 3)

/**
 * Replace the short messages at the head of the queue, as far as they fit `bytes_max` together, by
 * one bundle. They are complete when the bundle has been transmitted. Nothing happens where that
 * would be a single message, or without memory.
 */
void rawe_conn_bundle(struct rawe_conn *conn, uint32_t bytes_max);

#endif
