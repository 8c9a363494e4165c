/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * An engine whose frames go nowhere: see unit_engine.h.
 */
#include "unit_engine.h"
#include "unit_test.h"

static unsigned transmit(void *context, const struct rawe_frame *frames, unsigned count)
{
    return count;
}

void unit_engine_start(struct rawe_engine *engine, struct rawe_handle_table *handles, void *context,
                       uint64_t now_ns)
{
    static const struct rawe_callbacks none;
    const struct rawe_output output = {.transmit = transmit};
    const struct rawe_engine_config config = {
        .payload_max_bytes = 1472,
        .message_max_bytes = 65536,
        .window_frames = 64,
        .receive_frames = 256,
        .copy_max_bytes = 1024,
        .frames_limit = 256,
        .handles = handles,
    };
    rawe_engine_init(engine, &config, &none, context, &output, now_ns);
}
