/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A frame or a batch comes to an engine, as a link hands it over.
 */
#ifndef NET_RECEIVE_H
#define NET_RECEIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "rawe_engine.h"

/**
 * Receive a packet, a batch straight into place where the engine can tell where that is. Returns
 * whether it could.
 */
bool net_receive(struct rawe_engine *engine, const uint8_t *bytes, uint32_t len_bytes,
                 uint64_t now_ns);

#endif
