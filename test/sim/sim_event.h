/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The event queue of the simulators.
 */
#ifndef SIM_EVENT_H
#define SIM_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sim_packet;

struct sim_event {
    uint64_t at_ns;
    uint64_t order; /**< among events of the same time */
    uint32_t kind;  /**< defined by the simulator */
    uint32_t node;
    union {
        struct sim_packet *packet;
        uint64_t value;
    };
};

/** Binary heap, earliest event first. */
struct sim_events {
    struct sim_event *heap;
    size_t count, room;
    uint64_t order;
};

void sim_events_push(struct sim_events *events, struct sim_event event);
/** Remove the earliest event. Returns false if the queue is empty. */
bool sim_events_pop(struct sim_events *events, struct sim_event *event);
void sim_events_free(struct sim_events *events);

#endif
