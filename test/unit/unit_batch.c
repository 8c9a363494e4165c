/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A bulk lane that sends batches: see unit_batch.h.
 */
#include "unit_batch.h"

#include <string.h>

uint8_t batch_data[BATCH_DATA_BYTES], batch_memory[BATCH_DATA_BYTES];
uint32_t batch_handle_index;
uint64_t batch_handle_key;

void batch_connect(unsigned frames_max)
{
    unit_use_batches(&net, frames_max);
    unit_connect(&net, RAWE_LANE_BULK);
    assert_true(rawe_handle_register(&net.node[1].handles, batch_memory, sizeof(batch_memory),
                                     &batch_handle_index, &batch_handle_key, RAWE_ACCESS_WRITE));
    memset(batch_memory, 0, sizeof(batch_memory));
}

void batch_begin_put(struct unit_send *send, size_t len_bytes)
{
    unit_send_put(end(0), send, batch_data, len_bytes, batch_handle_index, batch_handle_key, 0);
}

void batch_put(size_t len_bytes, unsigned seed)
{
    struct unit_send send = {0};
    unit_fill(batch_data, len_bytes, seed);
    batch_begin_put(&send, len_bytes);
    for (unsigned i = 0; i < 4000 && send.done == 0; i++) {
        unit_run(&net, 250 * UNIT_US, 50 * UNIT_US);
    }
    assert_int_equal(send.done, 1);
    assert_int_equal(send.status, RAWE_STATUS_DONE);
    assert_memory_equal(batch_memory, batch_data, len_bytes);
}
