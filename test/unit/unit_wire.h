/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What tests of the wire format have in common.
 */
#ifndef UNIT_WIRE_H
#define UNIT_WIRE_H

#include "unit_test.h"

#include <stdlib.h>
#include <string.h>

#include "base/rawe_wire.h"

/**
 * Initializers of a header each of whose bytes is known by its place; payload_bytes is left out.
 */
#define UNIT_SAMPLE_HEADER                                                                  \
    .type = RAWE_FRAME_BULK, .flags = RAWE_FLAG_ACK_NOW | RAWE_FLAG_RESENT, .port = 0x1234, \
    .key = 0x89ABCDEF, .connection_id = 0xFFF00001, .sequence = 0xFFFFFFFE,                 \
    .acknowledgement = 0x80000001, .credit = 0x0405

/** A copy of `bytes` with nothing behind it; free it. */
static inline uint8_t *unit_exactly(const uint8_t *bytes, size_t len_bytes)
{
    uint8_t *copy = malloc(len_bytes != 0 ? len_bytes : 1);

    assert_non_null(copy);
    if (len_bytes != 0) {
        memcpy(copy, bytes, len_bytes);
    }
    return copy;
}

#endif
