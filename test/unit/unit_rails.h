/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Two processes with several interfaces each, for the tests of migration: rail i joins interface i
 * of the one and of the other. A rail can be cut, and mended. A made-up clock; frames take no time.
 */
#ifndef UNIT_RAILS_H
#define UNIT_RAILS_H

#include "unit_net.h"

#include "routes/rawe_peer.h"

#define RAILS 3u

struct rails_host;

/** An interface of a process. */
struct rails_nic {
    struct net_link link; /**< first: it is the engine's output */
    struct rails_host *host;
    unsigned rail;
    struct rawe_engine engine; /**< its callbacks' context is the interface */
    struct rawe_peer peer;     /**< the other process's interface on the same rail */
    unsigned room;             /**< frames its link takes before it is full */
    bool joined;               /**< `peer` is among the routes to the other process */
};

struct rails_host {
    unsigned index;
    struct rawe_conn_table table;
    struct rawe_deferral deferral;
    struct rawe_handle_table handles;
    struct rails_nic nic[RAILS];
    struct unit_node inbox; /**< its messages, and the clock for unit_net.h; nothing else */
    unsigned silent_calls, failed_calls, lost_calls, unknown_calls;
    bool late;    /**< it knows the route by rail 0 only, until another is asked for */
    bool refuses; /**< ... and not then either */
    bool follows; /**< an interface of the peer's that has another address */
    /** rawe_callbacks.lossy; may be NULL. */
    void (*on_lossy)(const struct rawe_conn *conn);
    /** Called by `silent`; may be NULL. */
    void (*on_silent)(struct rails_host *host, struct rawe_conn *conn);
};

struct rails {
    union {
        struct unit_net net; /**< clock, wire, and the configuration of all; it has no nodes */
        uint64_t now_ns;     /**< the first of that */
    };
    struct rails_host host[2];
    uint32_t mtu_payload_bytes[RAILS]; /**< what a rail carries; 0: as much as any link */
    bool cut[RAILS];                   /**< what is sent there is lost */
    bool batches_cut[RAILS];           /**< the same, of batches only */
    unsigned lost_each[RAILS];         /**< one of that many frames is lost there; 0: none */
    uint32_t random;                   /**< which one */
    unsigned carried[RAILS];           /**< frames handed over, by rail */
    /** Looks at each frame before it is handed over; may be NULL. */
    void (*on_frame)(struct net_frame *frame, unsigned rail);
};

extern struct rails rails;

/** Defaults in rails.net.config and rails.mtu_payload_bytes, for the test to change. */
void rails_init(void);
/** Start all engines; batches of at most `batch_frames`, 0: none. */
void rails_start(unsigned batch_frames);
/** Close everything, check that nothing is left. */
void rails_stop(void);

/** A fixture, with rails_stop: rails without batches. */
void rails_set_up(void);

struct rawe_peer *rails_peer(unsigned host, unsigned rail);
/** The connection to the other process that prefers a rail; opened if need be. */
struct rawe_conn *rails_conn(unsigned host, unsigned rail, enum rawe_lane lane);
/** Bring up a connection that prefers rail 0, OPEN at both ends; host 0's end. */
struct rawe_conn *rails_connect(enum rawe_lane lane);
/** The rail that a connection uses. */
unsigned rails_used(const struct rawe_conn *conn);
/** How often connections of a host have moved. */
uint64_t rails_migrations(unsigned host);
/** Cut a rail: what lies on it is lost, too. */
void rails_cut(unsigned rail);

#endif
