/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A host: one process with an engine, a NIC that cuts batches and merges what it receives, and a
 * progress loop. Its processor takes no time; what takes time is `host_ns`, after which a frame that
 * has arrived is received, with all that have arrived meanwhile.
 */
#ifndef CLUSTER_HOST_H
#define CLUSTER_HOST_H

#include "cluster_traffic.h"
#include "rawe_engine.h"
#include "routes/rawe_peer.h"
#include "sim_random.h"

struct cluster;

/** Another host's process, as one of ours reaches it. Owner of the connections. */
struct cluster_peer {
    struct rawe_peer peer;
    struct cluster_host *host; /**< ours */
    uint32_t index;            /**< the other's */
    struct cluster_flow flow;  /**< to it */
    uint64_t received_bytes;   /**< data from it, counted once */
};

/** Context of its engine. */
struct cluster_host {
    struct cluster *cluster;
    uint32_t index;
    struct rawe_engine engine;
    struct rawe_handle_table handles;
    uint32_t payload_index; /**< handle of the memory that others GET from */
    uint64_t payload_key;
    struct cluster_peer **peers; /**< by host; NULL: nothing to do with each other yet */
    struct sim_random random;
    uint64_t wake_ns;     /**< UINT64_MAX: not before something arrives */
    uint64_t wake_number; /**< of the event that counts; earlier ones are void */
    bool expects;         /**< it wakes for the next frame that arrives, or earlier */
    bool starts;          /**< the program has messages to start when it wakes */
};

/** The progress loop of host `node` looks at what there is; `value` is its wake_number. */
#define CLUSTER_EVENT_WAKE 1u

void cluster_host_init(struct cluster_host *host, struct cluster *cluster, uint32_t index);
/** Close the connections. */
void cluster_host_close(struct cluster_host *host);
/** Free the rest. All hosts' connections are closed. */
void cluster_host_free(struct cluster_host *host);

/** The peer, made if need be. */
struct cluster_peer *cluster_host_peer(struct cluster_host *host, uint32_t index);
/** Wake it, unless it wakes earlier. */
void cluster_host_wake_by(struct cluster_host *host, uint64_t at_ns);
/** A frame is on the last link to it. */
void cluster_host_expect(struct cluster_host *host);
/** CLUSTER_EVENT_WAKE. */
void cluster_host_wake(struct cluster_host *host, uint64_t number);

#endif
