/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The interfaces of a node, each with an engine of the node's process and its own links to and
 * from the switch, and the routes from them to the interfaces of other processes.
 */
#ifndef SIM_NIC_H
#define SIM_NIC_H

#include "rawe_engine.h"
#include "routes/rawe_failover.h"
#include "routes/rawe_peer.h"
#include "sim_plan.h"
#include "sim_random.h"

struct sim;
struct sim_node;
struct sim_packet;

/** A queue of packets waiting to be received. */
struct sim_queue {
    struct sim_packet *first, **tail;
    uint32_t count;
};

void sim_queue_put(struct sim_queue *queue, struct sim_packet *packet);
/** Remove and return the first packet, or NULL if the queue is empty. */
struct sim_packet *sim_queue_take(struct sim_queue *queue);

/** A host's link to the switch and back. */
struct sim_link {
    unsigned slowness;     /**< factor by which it is slower than planned */
    uint64_t wire_free_ns; /**< to the switch: free again */
    uint64_t port_free_ns; /**< from the switch: free again */
};

/** A host. Its processes share links, clock and pulls; each has its own address on every link. */
struct sim_host {
    struct sim_link links[SIM_NICS_MAX];
    struct rawe_pull_host pull[SIM_NICS_MAX];
    uint64_t clock_offset_ns;
    uint64_t step_ns; /**< lead of the arrival clock over the host's clock */
};

/** An interface, which is the context of its engine's callbacks. */
struct sim_nic {
    struct sim_node *node;
    unsigned index;                    /**< in its node */
    uint8_t mac[RAWE_MAC_BYTES];       /**< current address */
    uint8_t published[RAWE_MAC_BYTES]; /**< address when the process started */
    unsigned addresses;                /**< number of address changes so far */
    uint16_t port;                     /**< port of the running process, like `key` */
    uint32_t key;
    uint32_t payload_max_bytes;
    struct sim_random random; /**< unused by interface 0, which has its node's */
    struct sim_random full, errors, strays;
    struct rawe_engine engine;

    struct sim_queue ring;  /**< frames */
    struct sim_queue bulk;  /**< batches, and frames of batches */
    struct sim_queue stray; /**< from unknown peers: a real kernel's filter would drop them */
    bool sends_batches;
    enum sim_batch_path batch_path; /**< of all batches to this interface */
    uint64_t batches_until_ns;      /**< if that is FADING */
    bool single_frames_stay;        /**< packets of a single frame still pass afterwards */

    struct sim_link *link; /**< link of its host, shared with the host's other processes */
    uint64_t burst_until_ns;
    uint64_t full_until_ns;
    uint32_t backlog_bytes;     /**< current size of its queue */
    uint64_t fails_until_ns[2]; /**< its port reports errors: for frames, for batches */
    uint64_t strays_until_ns;   /**< its frames reach another process of the host */
    uint64_t pulled_until_ns;   /**< its cable is pulled */
    bool pulled_in, pulled_out; /**< ... in that direction */
    bool carrier;               /**< as the kernel reports it */
    uint64_t *newest_ns;        /**< by source interface: arrival of the frame due last */
};

void sim_nic_init(struct sim_nic *nic, struct sim_node *node, unsigned index);
/** Return the rate of its link in Mb/s; 0 if the plan keeps it from processes. */
uint32_t sim_nic_link_mbps(const struct sim_nic *nic);
/** Choose the properties of an interface's link, and how the link treats batches. */
void sim_nic_wire(struct sim_nic *nic);
/** Give a starting process its identity and engine on this interface. */
void sim_nic_start(struct sim_nic *nic);
/** Remove all state of a process that has ended. */
void sim_nic_stop(struct sim_nic *nic);
/** Discard the waiting packets without counting them as lost. */
void sim_nic_clear(struct sim_nic *nic);
/** Handle a frame that arrives at the interface. */
void sim_nic_arrive(struct sim_nic *nic, struct sim_packet *packet);
/** Receive up to `budget` frames, and all batches. */
void sim_nic_receive(struct sim_nic *nic, unsigned budget);
/** Run expired timers and deferred work, like the component. */
void sim_nic_service(struct sim_nic *nic);
/** Return the number of waiting frames and batches. */
static inline uint32_t sim_nic_waiting(const struct sim_nic *nic)
{
    return nic->ring.count + nic->bulk.count;
}
/** Return the time for calls of its engine: the clock's, or the last one that the engine got. */
uint64_t sim_nic_time(const struct sim_nic *nic);

/* ---- routes ---- */

/** Purpose of a PING: a lane, or a route, the published address, or a new address. */
#define SIM_PING_ROUTE RAWE_LANES
#define SIM_PING_HOME (RAWE_LANES + 1u)
#define SIM_PING_NEW (RAWE_LANES + 2u)
#define SIM_PING_BITS 3u

/** Addresses of a route's peer, as for btl_rawe_endpoint.c's seek and follow. All 0: unchanged. */
struct sim_address {
    uint8_t published[RAWE_MAC_BYTES];
    uint8_t answered[RAWE_MAC_BYTES]; /**< sender of its answer to a PING to the route's address */
    uint8_t home_answered[RAWE_MAC_BYTES]; /**< ... to a PING to the published address */
    uint8_t asked[RAWE_MAC_BYTES];         /**< address under validation */
    bool asks, validated;                  /**< `asked` is set; it has answered */
    uint64_t known;                        /**< validated addresses, one bit each */
};

/** A route from one of our interfaces to one of another process. It owns a rawe_peer. */
struct sim_peer {
    struct sim_peer *next;
    struct sim_nic *nic; /**< ours */
    unsigned far;        /**< index of the peer's */
    uint32_t node, life;
    uint32_t number; /**< number among our process's routes */
    bool is_used;    /**< the program sends on it; false: only the peer uses it */
    uint64_t opened_ns;
    uint64_t lost_first_ns, lost_last_ns; /**< frames lost while it is lossy: sim_lossy.c */
    unsigned mistakes;                    /**< times it was left without a reason */
    unsigned times_down;                  /**< total number of times */
    uint64_t down_ns;                     /**< when it went down; 0: it is up */
    bool was_down;                        /**< at the last check: sim_lossy.c */
    uint64_t validated_ns;                /**< when path discovery began: sim_shrink.c */
    struct sim_address address;
    uint64_t pong_ns;               /**< last answer of its responder, by the node's clock */
    uint64_t absent_ns[RAWE_LANES]; /**< ... that reported its program as computing */
    struct rawe_peer peer;
};

/**
 * Return the route from one of our interfaces to a node's current or most recent process, creating
 * all routes to that process if necessary.
 */
struct sim_peer *sim_route_get(struct sim_node *node, uint32_t index, unsigned nic);
/**
 * Return the interface for which a CONNECT received on `nic` is meant: a peer that has left a route
 * names the route's interface, but connects from another.
 */
unsigned sim_route_meant(const struct sim_nic *nic, const struct rawe_connect *from);
/**
 * Return the route on which a peer connects; NULL if the peer is not a running process, or if we
 * are finalizing and do not know the peer.
 */
struct sim_peer *sim_route_called(struct sim_nic *nic, const struct rawe_connect *from,
                                  const uint8_t *source_mac);
/** rawe_callbacks.unknown_source: a peer uses a route that we do not know. */
void sim_route_unknown_source(void *context, const struct rawe_conn *conn,
                              const struct rawe_connect *from,
                              const uint8_t source_mac[RAWE_MAC_BYTES]);
/** Return the route that owns this rawe_peer. */
static inline struct sim_peer *sim_route_of(const struct rawe_peer *peer)
{
    return peer->owner;
}
/** Return the route between two interfaces to a node's running process, or NULL if not open. */
struct sim_peer *sim_route_find(const struct sim_node *node, uint32_t index, unsigned nic,
                                unsigned far);
/** Return true if frames get through in both directions. */
bool sim_route_carries(const struct sim_peer *route);
/** Send a PING on a route to an address. */
void sim_route_ask(struct sim_peer *route, unsigned what, uint16_t port, uint32_t key,
                   const uint8_t mac[RAWE_MAC_BYTES]);
/** Return the number of routes to the process that a route leads to. */
unsigned sim_route_count(struct sim_peer *route);
/** Close an interface's routes and their channels, like the component in MPI_Finalize. */
void sim_route_close(struct sim_nic *nic);
/** Forget all processes known to the node. All routes must be closed. */
void sim_route_forget(struct sim_node *node);

/** rawe_callbacks.lossy, .silent and .stalled */
void sim_route_lossy(void *context, const struct rawe_conn *conn);
void sim_route_silent(void *context, struct rawe_conn *conn, uint64_t silent_ns);
void sim_route_stalled(void *context, struct rawe_conn *conn, uint64_t stalled_ns);
/** Handle a PING or PONG at the responder of an interface. */
void sim_route_answer(struct sim_nic *nic, const struct rawe_header *header,
                      const struct sim_packet *packet);

/** Let a starting process read the carrier of its interfaces. It suspects no route. */
void sim_route_start(struct sim_node *node);
/** Report a change of an interface's carrier, like the kernel. */
void sim_route_carrier(struct sim_nic *nic, bool carrier);
/** Check routes, as progress does, or (not `may_say`) the progress thread. True if any was due. */
bool sim_route_check(struct sim_node *node, bool may_say);
/** Return the virtual time of the next route check; UINT64_MAX: not until an event occurs. */
uint64_t sim_route_due_ns(const struct sim_node *node);
/** After a node's progress, check that its connections use the right routes. */
void sim_route_check_node(const struct sim_node *node);

#endif
