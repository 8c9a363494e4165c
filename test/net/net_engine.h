/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The engine of a process in the in-memory network: its identity, its address, its start and
 * its end.
 */
#ifndef NET_ENGINE_H
#define NET_ENGINE_H

#include "rawe_engine.h"
#include "routes/rawe_peer.h"

typedef unsigned net_transmit(void *context, const struct rawe_frame *frames, unsigned count);
typedef bool net_transmit_batch(void *context, const struct rawe_frame *packet,
                                uint32_t segment_bytes);

/** Return the defaults of the component's parameters and module, with an MTU of 1500. */
struct rawe_engine_config net_component_config(void);
/** Fill in the identity of process `index`: vpid, MAC address, port, key. */
void net_identify(struct rawe_engine_config *config, uint32_t index);
/** Return the address at which peers reach process `index`. The caller adds the local settings. */
struct rawe_peer_config net_peer_config(uint32_t index);
/** Return the index of the process with this MAC address. */
uint32_t net_index_of(const uint8_t *mac);

/** Start an engine with its own handle table; callbacks and `transmit` get `context`. */
void net_engine_start(struct rawe_engine *engine, struct rawe_handle_table *handles,
                      const struct rawe_engine_config *config,
                      const struct rawe_callbacks *callbacks, net_transmit *transmit, void *context,
                      uint64_t now_ns);
/** Give an engine a link that sends batches of at most `bytes_max` bytes of data. */
void net_engine_use_batches(struct rawe_engine *engine, uint32_t bytes_max,
                            net_transmit_batch *transmit);
/** Open an IDLE connection to process `index`, and fill in `route`. NULL if out of memory. */
struct rawe_conn *net_engine_open(struct rawe_engine *engine, struct rawe_route *route,
                                  uint32_t index, unsigned lane, void *owner);
/**
 * Receive a packet. Returns true if it is a batch whose data was received directly into place,
 * because the engine knew its destination.
 */
bool net_receive(struct rawe_engine *engine, const uint8_t *bytes, uint32_t len_bytes,
                 uint64_t now_ns);
/** Free an engine whose connections are closed, and check that all pools have their memory back. */
void net_engine_stop(struct rawe_engine *engine);

#endif
