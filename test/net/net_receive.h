/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A batch comes to an engine, as a link that reads it in one go hands it over.
 */
#ifndef NET_RECEIVE_H
#define NET_RECEIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "net_packet.h"

struct net_receiver {
    struct rawe_engine *engine;
    uint64_t (*now_ns)(void *context); /**< read for every frame */
    /** Asked for each batch in place: every frame on its own? NULL: no, many at once. */
    bool (*singly)(void *context);
    void *context;
};

/**
 * Receive a batch: its data straight into place where the engine can tell where that is. Returns
 * whether it could.
 */
bool net_receive_batch(const struct net_receiver *receiver, const struct net_batch *batch);

#endif
