/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Two processes with several interfaces each, for the tests of migration. Rail i connects interface
 * i of each; it can be cut and mended. The clock is simulated, and frames take no time.
 */
#ifndef UNIT_RAILS_H
#define UNIT_RAILS_H

#include "unit_net.h"

#include "routes/rawe_peer.h"

#define RAILS 3u

struct rails_host;

/** An interface of a process. */
struct rails_nic {
    struct net_link link; /**< must be first: it is the engine's output */
    struct rails_host *host;
    unsigned rail;
    struct rawe_engine engine; /**< its callbacks' context is the interface */
    struct rawe_peer peer;     /**< the other process's interface on the same rail */
    unsigned room;             /**< frames until its link is full */
    bool joined;               /**< `peer` is among the routes to the other process */
};

struct rails_host {
    unsigned index;
    struct rawe_conn_table table;
    struct rawe_deferral deferral;
    struct rawe_handle_table handles;
    struct rails_nic nic[RAILS];
    struct unit_node inbox; /**< holds only the host's messages, and the clock for unit_net.h */
    unsigned failed_calls, lost_calls, unknown_calls;
    bool late;    /**< knows only the route on rail 0 until another is needed */
    bool refuses; /**< adds no other route even then */
    bool follows; /**< accepts changed addresses of the peer's interfaces */
};

struct rails {
    union {
        struct unit_net net; /**< clock, wire, common configuration; no nodes */
        uint64_t now_ns;     /**< first member of `net` */
    };
    struct rails_host host[2];
    uint32_t mtu_payload_bytes[RAILS]; /**< limit of a rail; 0: none */
    bool cut[RAILS];                   /**< the rail loses all frames */
    unsigned carried[RAILS];           /**< delivered frames, by rail */
    /** Called for each frame before it is delivered; may be NULL. */
    void (*on_frame)(struct net_frame *frame, unsigned rail);
};

extern struct rails rails;

/** Set rails.net.config and rails.mtu_payload_bytes to defaults, which a test may change. */
void rails_init(void);
/** Start all engines, with batches of at most `batch_frames`; 0: no batches. */
void rails_start(unsigned batch_frames);
/** Close everything, and check that nothing is left. */
void rails_stop(void);

/** Fixture, with rails_stop: start rails without batches. */
void rails_set_up(void);

struct rawe_peer *rails_peer(unsigned host, unsigned rail);
/** Return the connection to the other process that prefers a rail; open it if necessary. */
struct rawe_conn *rails_conn(unsigned host, unsigned rail, enum rawe_lane lane);
/** Open a connection that prefers rail 0, until both ends are OPEN. Returns host 0's end. */
struct rawe_conn *rails_connect(enum rawe_lane lane);
/** Return the rail that a connection uses. */
unsigned rails_used(const struct rawe_conn *conn);
/** Cut a rail, and drop the frames on it. */
void rails_cut(unsigned rail);

#endif
