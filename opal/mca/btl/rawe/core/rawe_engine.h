/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The engine: all connections of one process through one link. It does no I/O: the caller passes in
 * received frames and the time, frames are sent through a rawe_output, and callbacks report events.
 *
 * Not thread-safe: the caller serializes calls. Callbacks may call the engine, with two exceptions.
 * They must not receive anything or let timers expire (rawe_engine_advance), because frames being
 * handed to the link are in use. And a callback other than `failed` must not close the connection
 * for which it is called.
 */
#ifndef RAWE_ENGINE_H
#define RAWE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "conn/rawe_conn_state.h"

/** Initialize an engine. The configuration must be within bounds (assert). */
void rawe_engine_init(struct rawe_engine *engine, const struct rawe_engine_config *config,
                      const struct rawe_callbacks *callbacks, void *context,
                      const struct rawe_output *output, uint64_t now_ns);

/** Send batches on the bulk lane to the peers that they reach. */
void rawe_engine_use_batches(struct rawe_engine *engine, const struct rawe_batches *batches);

/** Set our interface's new address. Call rawe_peer_announce for each peer afterwards. */
static inline void rawe_engine_set_mac(struct rawe_engine *engine,
                                       const uint8_t mac[RAWE_MAC_BYTES])
{
    memcpy(engine->config.mac, mac, RAWE_MAC_BYTES);
}

/** Set the arrival time of the next received frame at this host, by config.arrival_clock_ns. */
static inline void rawe_engine_arriving(struct rawe_engine *engine, uint64_t arrived_ns)
{
    engine->arrived_ns = arrived_ns;
}

/** Set the port that sent the next received frame; 0: the link's frames have no such port. */
static inline void rawe_engine_sent_from(struct rawe_engine *engine, uint16_t source_port)
{
    engine->source_port = source_port;
}

/**
 * Return where to receive the data of a packet with frames of a batch; NULL: anywhere. `head` is
 * its batch header, followed by `data_bytes` of data. The packet is untrusted, but whatever it
 * contains, the result is memory that the peer may write.
 */
uint8_t *rawe_engine_place(struct rawe_engine *engine, const uint8_t *source_mac,
                           const uint8_t *head, size_t head_bytes, size_t data_bytes);

/**
 * Process a packet with a batch header at `head` (untrusted). Its data may be where
 * rawe_engine_place said, if nothing has been received since, or anywhere else.
 */
void rawe_engine_receive_batch(struct rawe_engine *engine, const uint8_t *source_mac,
                               const uint8_t *head, size_t head_bytes, const uint8_t *data,
                               size_t data_bytes, uint64_t now_ns);

/** Free an engine. All its connections must have been closed. */
void rawe_engine_free(struct rawe_engine *engine);

/** Process a frame, beginning with its Ethernet header. The bytes are untrusted. */
void rawe_engine_receive(struct rawe_engine *engine, const uint8_t *frame, size_t len_bytes,
                         uint64_t now_ns);

/** End a round of received frames: send acknowledgements and postponed frames. */
void rawe_engine_flush(struct rawe_engine *engine, uint64_t now_ns);

/** Let timers expire. Receive all waiting frames before calling it. */
void rawe_engine_advance(struct rawe_engine *engine, uint64_t now_ns);

/**
 * Note that the owner is away. Until rawe_engine_defer_end, other threads (one at a time, never
 * concurrently with the owner) serve this engine and all that share its deferral. Messages and
 * completions are kept, we give up on no peer, and `accept` refuses unknown peers.
 */
void rawe_engine_defer_begin(struct rawe_engine *engine);

/**
 * Stop delivering data: the owner of messages and sends may be gone (MPI_Finalize). Only three
 * callbacks are still called: `accept`, as after rawe_engine_defer_begin, `control`, and `silent`,
 * because another route may reach the peer. Messages are acknowledged and dropped. Peers are
 * notified, because they may continue: rawe_conn_end.h says when connections may be closed. Sends
 * continue but are never reported, not even when their connection is closed: their owner may reuse
 * them after rawe_engine_free.
 */
void rawe_engine_finalizing(struct rawe_engine *engine);

/** End the deferral: the owner is back, or may be. */
void rawe_engine_defer_end(struct rawe_engine *engine);

/**
 * Report to the owner what all engines that share the deferral have kept, messages in the order of
 * their acceptance. Anything received meanwhile is kept as well, because it must not overtake them.
 */
void rawe_engine_deliver_deferred(struct rawe_engine *engine);

/**
 * Call `done` for the sends that completed while deferring; messages stay deferred. This is for a
 * callback in which the owner waits for one of its own sends.
 */
void rawe_engine_complete_deferred(struct rawe_engine *engine);

/** Return true if any engine that shares the deferral has something to report. */
static inline bool rawe_engine_has_deferred(const struct rawe_engine *engine)
{
    return engine->deferral->pending;
}

/** Return true if rawe_engine_flush has work to do, or unfinished work while in a callback. */
static inline bool rawe_engine_pending(const struct rawe_engine *engine)
{
    return !rawe_list_empty(&engine->pending) || !rawe_list_empty(&engine->flushing) ||
           rawe_pull_pending(&engine->pull);
}

/** Return true if no timer is armed, but rawe_engine_advance must reclaim idle peers' credit. */
static inline bool rawe_engine_reclaims_credit(const struct rawe_engine *engine)
{
    return engine->timers.armed == 0 && rawe_credit_has_senders(&engine->pull.credit);
}

/** Return true if nothing is in flight, owed or held back, so the engine needs no service. */
static inline bool rawe_engine_idle(const struct rawe_engine *engine)
{
    return !rawe_engine_pending(engine) && engine->timers.armed == 0;
}

#endif
