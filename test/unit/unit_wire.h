/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Frames on the wire between two nodes: handed over in steps, taken off, held back, forged.
 */
#ifndef UNIT_WIRE_H
#define UNIT_WIRE_H

#include "unit_net.h"

/** Hand over the frames that lie on the wire, then flush. Returns how many were handed over. */
unsigned unit_step(struct unit_net *net);
/** Step until nothing moves any more. */
void unit_settle(struct unit_net *net);
/** Let time pass in steps of `step_ns`; after each, timers and whatever follows from them. */
void unit_run(struct unit_net *net, uint64_t duration_ns, uint64_t step_ns);

/** Take the first frame off the wire; NULL when there is none. Free it with net_frame_free. */
struct net_frame *unit_wire_take(struct unit_net *net);
/** Put a frame (back) on the wire, behind the others. */
void unit_wire_put(struct unit_net *net, struct net_frame *frame);
unsigned unit_wire_count(const struct unit_net *net);
void unit_wire_clear(struct unit_net *net);
/** Hand a frame over now, without a flush; it stays the caller's. */
void unit_receive(struct unit_net *net, const struct net_frame *frame);
/** Hand the first frame on the wire over now, without a flush. There has to be one. */
void unit_receive_next(struct unit_net *net);

/**
 * A frame as `from`'s end of the lane would send it: MAC addresses, port, key and connection id
 * right, credit as of now. The header's acknowledgement is given relative to what the receiver has
 * had acknowledged; its `payload_bytes` is set from the length.
 */
struct net_frame *unit_forge(struct unit_net *net, unsigned from, enum rawe_lane lane,
                             struct rawe_header header, const void *payload, size_t payload_bytes);
/** Forge a frame and hand it over now, without a flush. */
void unit_receive_forged(struct unit_net *net, unsigned from, enum rawe_lane lane,
                         struct rawe_header header, const void *payload, size_t payload_bytes);
/** Write the header of a frame anew after a change in frame->header. */
void unit_frame_encode(struct net_frame *frame);

/**
 * A node closes its connection, having received everything: the other end gets its CLOSE. All that
 * was on the wire is gone.
 */
void unit_close_having_all(struct unit_net *net, unsigned node, enum rawe_lane lane);

#endif
