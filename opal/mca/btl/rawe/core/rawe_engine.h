/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The engine: all connections of one process through one link. It does no I/O: received frames
 * and the time are given in, frames to send go to a rawe_output, and what arrived goes to
 * callbacks.
 *
 * Not thread-safe; the caller serializes. Callbacks may call back into the engine, except that
 * nothing may be received and no timer expire (rawe_engine_advance) inside of one, as what is on the
 * way to the link is in use then; and that a connection must not be
 * closed from inside a callback that concerns it (`failed` excepted).
 */
#ifndef RAWE_ENGINE_H
#define RAWE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "conn/rawe_conn_state.h"

/** The configuration must be within its bounds (assert). */
void rawe_engine_init(struct rawe_engine *engine, const struct rawe_engine_config *config,
                      const struct rawe_callbacks *callbacks, void *context,
                      const struct rawe_output *output, uint64_t now_ns);

/** Send batches of the bulk lane, to peers to which they pass. */
void rawe_engine_use_batches(struct rawe_engine *engine, const struct rawe_batches *batches);

/** Our interface has another address; rawe_peer_announce follows for each peer. */
static inline void rawe_engine_set_mac(struct rawe_engine *engine,
                                       const uint8_t mac[RAWE_MAC_BYTES])
{
    memcpy(engine->config.mac, mac, RAWE_MAC_BYTES);
}

/** The frame that is received next arrived at this host then, by config.arrival_clock_ns. */
static inline void rawe_engine_arriving(struct rawe_engine *engine, uint64_t arrived_ns)
{
    engine->arrived_ns = arrived_ns;
}

/**
 * Where the data of a packet with frames of a batch belongs, so that it may be received there.
 * `head` is its batch header; `data_bytes` are behind it. NULL: receive it anywhere. Untrusted:
 * whatever the packet says, the place is memory that the peer may write.
 */
uint8_t *rawe_engine_place(struct rawe_engine *engine, const uint8_t *source_mac,
                           const uint8_t *head, size_t head_bytes, size_t data_bytes);

/**
 * A packet with a batch header at `head` (untrusted). Its data is where rawe_engine_place said, if
 * nothing was received since, or anywhere.
 */
void rawe_engine_receive_batch(struct rawe_engine *engine, const uint8_t *source_mac,
                               const uint8_t *head, size_t head_bytes, const uint8_t *data,
                               size_t data_bytes, uint64_t now_ns);

/** All connections must have been closed. */
void rawe_engine_free(struct rawe_engine *engine);

/** A frame has arrived, Ethernet header first. Untrusted bytes: anything may be in it. */
void rawe_engine_receive(struct rawe_engine *engine, const uint8_t *frame, size_t len_bytes,
                         uint64_t now_ns);

/** End of a round of received frames: send the acknowledgements and frames put off. */
void rawe_engine_flush(struct rawe_engine *engine, uint64_t now_ns);

/** Let timers expire. Call after the frames that wait have been received, not before. */
void rawe_engine_advance(struct rawe_engine *engine, uint64_t now_ns);

/**
 * The owner cannot be called for a while: another thread (one at a time, and not at the same time as
 * the owner) keeps the engine going until rawe_engine_defer_end, and with it all engines that share
 * its deferral. Messages are kept, as are completions; no peer is given up. `accept` refuses unknown
 * peers meanwhile.
 */
void rawe_engine_defer_begin(struct rawe_engine *engine);

/**
 * From now on no data is taken, and the owner of messages and sends may be gone (MPI_Finalize):
 * none of its functions is called any more but `accept`, as in rawe_engine_defer_begin, `control`, and
 * `silent`, as peers may be reached by another route. Messages are acknowledged and dropped. Peers are told, as
 * they may go on: rawe_conn_finalize.h says when connections may be closed. Sends go on, but are
 * never reported, not even when their connection is closed: they are their owner's again when
 * rawe_engine_free has been called.
 */
void rawe_engine_finalizing(struct rawe_engine *engine);

/** The owner is back, or may come back. */
void rawe_engine_defer_end(struct rawe_engine *engine);

/**
 * Tell the owner what was kept, of all engines that share the deferral: messages in the order in which
 * they were taken. What is received before that is kept, too, as nothing may pass them.
 */
void rawe_engine_deliver_deferred(struct rawe_engine *engine);

/**
 * Call `done` of the sends that were completed meanwhile; messages stay deferred. For a callback of
 * the owner's that waits for a send of its own: what arrives then is received deferring.
 */
void rawe_engine_complete_deferred(struct rawe_engine *engine);

/** True when there is something to be reported, of any engine that shares the deferral. */
static inline bool rawe_engine_has_deferred(const struct rawe_engine *engine)
{
    return engine->deferral->pending;
}

/** True when rawe_engine_flush has something to do, or something left in a callback of it. */
static inline bool rawe_engine_pending(const struct rawe_engine *engine)
{
    return !rawe_list_empty(&engine->pending) || !rawe_list_empty(&engine->flushing) ||
           !rawe_list_empty(&engine->waiting) || engine->grants.waits;
}

/** Nothing is to be kept going, but connections may be idle: call rawe_engine_advance now and then. */
static inline bool rawe_engine_may_rest(const struct rawe_engine *engine)
{
    return engine->timers.armed == 0 && !rawe_list_empty(&engine->awake);
}

/** Nothing is in flight, owed or held back: nothing to be kept going. */
static inline bool rawe_engine_idle(const struct rawe_engine *engine)
{
    return !rawe_engine_pending(engine) && engine->timers.armed == 0;
}

#endif
