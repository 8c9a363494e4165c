/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages as ob1 sends them over rawe: at once up to the eager limit; longer ones are announced
 * (RTS), transferred by one GET of the receiver, and concluded by its FIN. Receives are always
 * posted.
 */
#ifndef CLUSTER_TRAFFIC_H
#define CLUSTER_TRAFFIC_H

#include <stdbool.h>
#include <stdint.h>

#include "cluster_plan.h"
#include "cluster_samples.h"
#include "cluster_workload.h"

struct cluster;
struct cluster_rank;
struct cluster_peer;

/** Ranks. */
struct cluster_pair {
    uint32_t from, to;
};

/** A message that has not arrived; the sender's cluster_peer has a list, oldest first. */
struct cluster_message {
    struct cluster_message *next;
    uint64_t began_ns;
    uint32_t size_bytes;
    bool announced;
};

/** Length classes of W3 and W4: at most a frame, sent at once, or announced. */
enum cluster_class { CLUSTER_SHORT, CLUSTER_EAGER, CLUSTER_LONG, CLUSTER_CLASSES };

struct cluster_traffic {
    struct cluster_pair *pairs; /**< senders and receivers */
    uint32_t pair_count;
    uint32_t started;          /**< pairs; cluster_traffic_warm starts them one after the other */
    uint64_t begun, delivered; /**< messages */
    uint64_t begun_bytes;
    uint32_t size_bytes;                               /**< of due messages */
    bool endless;                                      /**< each message is followed by another */
    uint32_t pinger;                                   /**< rank yet to begin; UINT32_MAX: none */
    uint32_t pings;                                    /**< sent */
    uint64_t ping_ns;                                  /**< when the last ping was sent */
    struct cluster_samples times_ns;                   /**< of messages */
    uint64_t unloaded_ns[CLUSTER_WORKLOAD_SIZES_MAX];  /**< W3, W4: in an idle network; or 0 */
    struct cluster_samples slowdowns[CLUSTER_CLASSES]; /**< in thousandths of that time */
    struct cluster_samples ping_half_ns;               /**< half round trips of pings */
};

void cluster_traffic_init(struct cluster *cluster);
void cluster_traffic_free(struct cluster *cluster);

/** Warm up: send one message per pair, each after the last one has arrived, or one collective. */
void cluster_traffic_warm(struct cluster *cluster);
/** Start a message. */
void cluster_traffic_send(struct cluster *cluster, struct cluster_pair pair, uint32_t size_bytes);
/** Start the pings. */
void cluster_traffic_ping(struct cluster *cluster);
/** Send a message of the current collective. */
void cluster_traffic_put(struct cluster_peer *to, uint32_t len_bytes);
/** Start all messages of the plan. */
void cluster_traffic_begin(struct cluster *cluster);
/** Return true if all started messages have arrived. */
bool cluster_traffic_done(const struct cluster *cluster);
/** Reset counts and times. */
void cluster_traffic_reset(struct cluster *cluster);

/** Start the due messages of a rank that is awake. */
void cluster_traffic_start(struct cluster_rank *rank);
/** Receive a message from a peer. */
void cluster_traffic_deliver(struct cluster_peer *from, uint8_t tag, uint32_t len_bytes);
/** Free the list of messages to a peer. */
void cluster_traffic_forget(struct cluster_peer *to);

#endif
