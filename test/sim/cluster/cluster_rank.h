/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A rank: a process with an engine, and a progress loop. The ranks of a host share its NIC, which
 * cuts batches and merges what it receives. What takes time is `host_ns`, after which a frame that has
 * arrived is received, with all that have arrived meanwhile, and `frame_ns` of each.
 */
#ifndef CLUSTER_RANK_H
#define CLUSTER_RANK_H

#include "cluster_collective.h"
#include "cluster_traffic.h"
#include "rawe_engine.h"
#include "rawe_txqueue.h"
#include "routes/rawe_peer.h"
#include "sim_random.h"

struct cluster;

/** Another rank, as one of ours reaches it. Owner of the connections. */
struct cluster_peer {
    struct rawe_peer peer;
    struct cluster_rank *rank;                         /**< ours */
    uint32_t index;                                    /**< the other's */
    struct cluster_peer *next_due;                     /**< messages to it are due, too */
    uint32_t due;                                      /**< messages to it that are */
    struct cluster_message *messages, **messages_tail; /**< to it, that have not arrived */
    uint64_t received_bytes;                           /**< data from it, counted once */
};

/** Context of its engine. */
struct cluster_rank {
    struct cluster *cluster;
    uint32_t index;
    struct rawe_engine engine;
    struct rawe_handle_table handles;
    uint32_t payload_index; /**< handle of the memory that others GET from */
    uint64_t payload_key;
    struct rawe_txqueue txqueue; /**< of what the NIC still has in batches */
    uint32_t batch_bytes;        /**< longest batch that fits */
    struct cluster_peer **peers; /**< hash table by index; its room is a power of two */
    uint32_t peer_count, peer_room;
    struct sim_random random;
    uint64_t wake_ns;      /**< UINT64_MAX: not before something arrives */
    uint64_t wake_number;  /**< of the event that counts; earlier ones are void */
    bool expects;          /**< it wakes for the next frame that arrives, or earlier */
    uint64_t next_ns;      /**< W3, W4: when the next message begins; UINT64_MAX: none does */
    uint64_t phase_end_ns; /**< until then the program computes, or serves its engine */
    bool receives, computes;
    uint64_t free_ns;         /**< until then it sends and receives: see cluster_rank_spend */
    struct cluster_part part; /**< in a collective */
    struct cluster_peer *due, **due_tail; /**< to which messages start when it wakes */
};

/** The progress loop of rank `node` looks at what there is; `value` is its wake_number. */
#define CLUSTER_EVENT_WAKE 1u

void cluster_rank_init(struct cluster_rank *rank, struct cluster *cluster, uint32_t index);
/** Close the connections. */
void cluster_rank_close(struct cluster_rank *rank);
/** Free the rest. All ranks' connections are closed. */
void cluster_rank_free(struct cluster_rank *rank);

/** The peer, made if need be. */
struct cluster_peer *cluster_rank_peer(struct cluster_rank *rank, uint32_t index);
/** Wake it, unless it wakes earlier. */
void cluster_rank_wake_by(struct cluster_rank *rank, uint64_t at_ns);
/** It sends or receives a frame, or a batch: when it has done so. */
uint64_t cluster_rank_spend(struct cluster_rank *rank);
/** A frame is on the last link to it. */
void cluster_rank_expect(struct cluster_rank *rank);
/** CLUSTER_EVENT_WAKE. */
void cluster_rank_wake(struct cluster_rank *rank, uint64_t number);

#endif
