/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A rank: a process with an engine, and a progress loop. The ranks of a host share its NIC, which
 * cuts batches and merges received frames. A frame is received `host_ns` after its arrival,
 * together with all frames that have arrived meanwhile; each one costs `frame_ns`.
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

/** Another rank, as seen by one of ours. Owner of the connections. */
struct cluster_peer {
    struct rawe_peer peer;
    struct cluster_rank *rank;                         /**< ours */
    uint32_t index;                                    /**< the other's */
    struct cluster_peer *next_due;                     /**< next peer with messages due */
    uint32_t due;                                      /**< number of messages due to it */
    struct cluster_message *messages, **messages_tail; /**< messages to it that have not arrived */
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
    struct rawe_txqueue txqueue; /**< batches that the NIC has not sent yet */
    uint32_t batch_bytes;        /**< longest batch that fits */
    struct cluster_peer **peers; /**< hash table by index; its room is a power of two */
    uint32_t peer_count, peer_room;
    struct sim_random random;
    uint64_t wake_ns;      /**< UINT64_MAX: not before something arrives */
    uint64_t wake_number;  /**< of the valid event; earlier ones are void */
    bool expects;          /**< it wakes no later than the next frame arrives */
    uint64_t next_ns;      /**< W3, W4: start of the next message; UINT64_MAX: none */
    uint64_t phase_end_ns; /**< end of the present phase of computing or progress */
    bool receives, computes;
    uint64_t free_ns;         /**< busy until then with frames: see cluster_rank_spend */
    struct cluster_part part; /**< in a collective */
    struct cluster_peer *due, **due_tail; /**< peers to which messages start when it wakes */
};

/** The progress loop of rank `node` wakes; `value` is its wake_number. */
#define CLUSTER_EVENT_WAKE 1u

void cluster_rank_init(struct cluster_rank *rank, struct cluster *cluster, uint32_t index);
/** Close the connections. */
void cluster_rank_close(struct cluster_rank *rank);
/** Free the rest. The connections of all ranks must be closed. */
void cluster_rank_free(struct cluster_rank *rank);

/** Return the peer, created if need be. */
struct cluster_peer *cluster_rank_peer(struct cluster_rank *rank, uint32_t index);
/** Wake it at `at_ns`, unless it wakes earlier. */
void cluster_rank_wake_by(struct cluster_rank *rank, uint64_t at_ns);
/** Charge a rank for sending or receiving a frame or a batch. Returns when that is done. */
uint64_t cluster_rank_spend(struct cluster_rank *rank);
/** Plan to wake a rank, to which a frame is on its last link. */
void cluster_rank_expect(struct cluster_rank *rank);
/** Handle CLUSTER_EVENT_WAKE. */
void cluster_rank_wake(struct cluster_rank *rank, uint64_t number);

#endif
