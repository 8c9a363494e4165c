/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The engine of a process in the network in memory: its identity, how others reach it, how it
 * starts and ends.
 */
#ifndef NET_ENGINE_H
#define NET_ENGINE_H

#include "rawe_engine.h"
#include "routes/rawe_peer.h"

typedef unsigned net_transmit(void *context, const struct rawe_frame *frames, unsigned count);
typedef bool net_transmit_batch(void *context, const struct rawe_frame *packet,
                                uint32_t segment_bytes);

/** The component's defaults, as its parameters and its module have them, with an MTU of 1500. */
struct rawe_engine_config net_component_config(void);
/** Fill in the identity of process `index`: vpid, MAC address, port, key. */
void net_identify(struct rawe_engine_config *config, uint32_t index);
/** Process `index` as another one reaches it. The caller adds what its side decides. */
struct rawe_peer_config net_peer_config(uint32_t index);
/** The number of the process that has this MAC address. */
uint32_t net_index_of(const uint8_t *mac);

/** Start an engine with memory of its own that peers may write; `context` is that of both. */
void net_engine_start(struct rawe_engine *engine, struct rawe_handle_table *handles,
                      const struct rawe_engine_config *config,
                      const struct rawe_callbacks *callbacks, net_transmit *transmit, void *context,
                      uint64_t now_ns);
/** Give it a link that moves batches with that much data at most. */
void net_engine_use_batches(struct rawe_engine *engine, uint32_t bytes_max,
                            net_transmit_batch *transmit);
/** A connection to process `index`, IDLE, by this route, which is set. NULL without memory. */
struct rawe_conn *net_engine_open(struct rawe_engine *engine, struct rawe_route *route,
                                  uint32_t index, unsigned lane, void *owner);
/**
 * Receive a packet, a batch straight into place where the engine can tell where that is. Returns
 * whether it could.
 */
bool net_receive(struct rawe_engine *engine, const uint8_t *bytes, uint32_t len_bytes,
                 uint64_t now_ns);
/** All connections are closed: everything went back to where it came from. Free the rest. */
void net_engine_stop(struct rawe_engine *engine);

#endif
