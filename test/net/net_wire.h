/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Single frames, for harnesses that inspect, drop, delay or repeat each one: a batch is cut into
 * frames when it is sent, and the frames are merged again when they are received.
 */
#ifndef NET_WIRE_H
#define NET_WIRE_H

#include "net_packet.h"
#include "net_engine.h"

/** A frame on the wire, in memory of exactly its length. */
struct net_frame {
    struct net_frame *next;
    unsigned from, to; /**< processes */
    unsigned batch;    /**< frames with the same number were sent as one batch; 0: alone */
    size_t len_bytes;
    struct rawe_header header; /**< as sent */
    uint8_t *bytes;
};

/** Allocate a frame; all fields except `bytes` are 0. */
struct net_frame *net_frame_new(size_t len_bytes);
struct net_frame *net_frame_copy(const struct net_frame *frame);
void net_frame_free(struct net_frame *frame);

/** An engine's output; must be the first member of the engine's context. */
struct net_link {
    struct rawe_engine *engine; /**< the sender */
    unsigned *room;             /**< frames until the link is full; UINT_MAX: unlimited */
    unsigned *batch_number;     /**< counts batches of all links */
    /** Takes ownership of a frame. */
    void (*put)(void *context, struct net_frame *frame);
};

/** Send frames while there is room. `put` gets the engine's context. */
unsigned net_link_transmit(void *link, const struct rawe_frame *frames, unsigned count);
/** Send a batch as a whole or not at all. */
bool net_link_transmit_batch(void *link, const struct rawe_frame *packet, uint32_t segment_bytes);

/** A FIFO of frames; `end` is NULL before the first put. */
struct net_queue {
    struct net_frame *first, **end;
};

void net_queue_put(struct net_queue *queue, struct net_frame *frame);
/** Take the first frame; NULL if the queue is empty. */
struct net_frame *net_queue_take(struct net_queue *queue);
void net_queue_clear(struct net_queue *queue);
unsigned net_queue_count(const struct net_queue *queue);
/**
 * Merge frames as GRO would, beginning with the first, and receive them as one packet; `placed` is
 * set if the data was received directly into place. Returns the number of merged frames.
 */
unsigned net_frames_receive(struct rawe_engine *engine, struct net_frame *const *frames,
                            unsigned count, uint64_t now_ns, bool *placed);

#endif
