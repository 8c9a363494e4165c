/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The interfaces of a node, each with an engine of the node's process behind it and links of its
 * own to and from the switch, and the routes from them to those of other processes.
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

/** Packets that wait to be received. */
struct sim_queue {
    struct sim_packet *first, **tail;
    uint32_t count;
};

void sim_queue_put(struct sim_queue *queue, struct sim_packet *packet);
/** NULL when it is empty. */
struct sim_packet *sim_queue_take(struct sim_queue *queue);

/** A host's link to the switch and back. */
struct sim_link {
    unsigned slowness;     /**< factor by which it is slower than planned */
    uint64_t wire_free_ns; /**< to the switch: free again */
    uint64_t port_free_ns; /**< from the switch: free again */
};

/** A host. Its processes share links, clock and inflow, and have an address each on a link. */
struct sim_host {
    struct sim_link links[SIM_NICS_MAX];
    struct rawe_inflow_shared inflow[SIM_NICS_MAX];
    uint64_t clock_offset_ns;
    uint64_t step_ns; /**< by which the clock of arrivals is ahead of the other */
};

/** An interface; context of its engine. */
struct sim_nic {
    struct sim_node *node;
    unsigned index;                    /**< in its node */
    uint8_t mac[RAWE_MAC_BYTES];       /**< now */
    uint8_t published[RAWE_MAC_BYTES]; /**< when the process started */
    unsigned addresses;                /**< that it has had besides its first */
    uint16_t port;                     /**< of the process that runs, as the next */
    uint32_t key;
    uint32_t payload_max_bytes;
    struct sim_random random; /**< of the first one its node's is used */
    struct sim_random full, errors, strays;
    struct rawe_engine engine;

    struct sim_queue ring;  /**< frames */
    struct sim_queue bulk;  /**< batches, and frames of batches */
    struct sim_queue stray; /**< from unknown peers: a kernel's filter would not let them through */
    bool sends_batches;
    enum sim_batch_path batch_path; /**< of all batches to this interface */
    uint64_t batches_until_ns;      /**< where that is FADING */
    bool single_frames_stay;        /**< then those of one frame pass still */

    struct sim_link *link; /**< of its host, which other processes use, too */
    uint64_t burst_until_ns;
    uint64_t full_until_ns;
    uint32_t backlog_bytes;     /**< what its queue takes at present */
    uint64_t fails_until_ns[2]; /**< its port reports errors: that of frames, that of batches */
    uint64_t strays_until_ns;   /**< frames to it come to another process of the host */
    uint64_t pulled_until_ns;   /**< its cable is pulled */
    bool pulled_in, pulled_out; /**< ... for frames of that way */
    bool carrier;               /**< as the kernel says */
    uint64_t *newest_ns;        /**< by source interface: when the frame that is due last arrives */
};

void sim_nic_init(struct sim_nic *nic, struct sim_node *node, unsigned index);
/** The rate of its link, in Mb/s; 0: the plan has it that no process knows. */
uint32_t sim_nic_link_mbps(const struct sim_nic *nic);
/** Choose what its link is like, and what becomes of batches on it. */
void sim_nic_wire(struct sim_nic *nic);
/** A process starts on the node: who it is on this interface, and its engine. */
void sim_nic_start(struct sim_nic *nic);
/** It has ended: nothing is left of it. */
void sim_nic_stop(struct sim_nic *nic);
/** What waits there is lost, without a trace. */
void sim_nic_clear(struct sim_nic *nic);
/** A frame has come to the interface. */
void sim_nic_arrive(struct sim_nic *nic, struct sim_packet *packet);
/** Take up to `budget` frames, and all batches. */
void sim_nic_receive(struct sim_nic *nic, unsigned budget);
/** Timers and what was put off, as the component does it. */
void sim_nic_service(struct sim_nic *nic);
/** Frames and batches that wait. */
static inline uint32_t sim_nic_waiting(const struct sim_nic *nic)
{
    return nic->ring.count + nic->bulk.count;
}
/** The time its engine gets: read again, or the newest that it got before. */
uint64_t sim_nic_time(const struct sim_nic *nic);

/* ---- routes ---- */

/** What a PING is for: a lane, a route as such, the address that was published, or a new one. */
#define SIM_PING_ROUTE RAWE_LANES
#define SIM_PING_HOME (RAWE_LANES + 1u)
#define SIM_PING_NEW (RAWE_LANES + 2u)
#define SIM_PING_BITS 3u

/** Where the peer of a route is: btl_rawe_endpoint.c's seek and follow. All 0: where it was. */
struct sim_address {
    uint8_t published[RAWE_MAC_BYTES];
    uint8_t answered[RAWE_MAC_BYTES];      /**< from where, when asked where it is thought to be */
    uint8_t home_answered[RAWE_MAC_BYTES]; /**< the same, at the published address */
    uint8_t asked[RAWE_MAC_BYTES];         /**< it is being validated */
    bool asks, validated;                  /**< that is so; and it has answered */
    uint64_t known;                        /**< those that have been, one bit for each */
};

/** An interface of another process, as one of ours reaches it; owner of a rawe_peer. */
struct sim_peer {
    struct sim_peer *next;
    struct sim_nic *nic; /**< ours */
    unsigned far;        /**< number of the peer's */
    uint32_t node, life;
    uint32_t number; /**< among those of our process */
    bool is_used;    /**< the program sends by it; or else it has only been called by it */
    uint64_t opened_ns;
    uint64_t lost_first_ns, lost_last_ns; /**< frames by it while it is lossy: sim_lossy.c */
    unsigned mistakes;                    /**< how often it was left while all else went well */
    unsigned times_down;                  /**< ever */
    uint64_t down_ns;                     /**< since when it is; 0: it is up */
    bool was_down;                        /**< sim_lossy.c: at the last look */
    struct sim_address address;
    uint64_t pong_ns;               /**< newest answer of its responder, in the node's clock */
    uint64_t absent_ns[RAWE_LANES]; /**< ... that said that its program computes */
    struct rawe_peer peer;
};

/**
 * The route that begins at an interface of ours, to the process that runs on a node now, or was the
 * last one to; introduced with all others if need be.
 */
struct sim_peer *sim_route_get(struct sim_node *node, uint32_t index, unsigned nic);
/**
 * The interface that a CONNECT is meant for, which has come to this one: who has left the route says
 * which one, and calls from another.
 */
unsigned sim_route_meant(const struct sim_nic *nic, const struct rawe_connect *from);
/**
 * The route between two interfaces, by which we are called; NULL: no process that runs calls, or one
 * that who finalizes does not know.
 */
struct sim_peer *sim_route_called(struct sim_nic *nic, const struct rawe_connect *from,
                                  const uint8_t *source_mac);
/** rawe_callbacks.unknown_source: a peer has found a route that we have not. */
void sim_route_unknown_source(void *context, const struct rawe_conn *conn,
                              const struct rawe_connect *from,
                              const uint8_t source_mac[RAWE_MAC_BYTES]);
/** The route that has this rawe_peer. */
static inline struct sim_peer *sim_route_of(const struct rawe_peer *peer)
{
    return peer->owner;
}
/** The route between two interfaces, to the process that runs on a node; NULL: not opened yet. */
struct sim_peer *sim_route_find(const struct sim_node *node, uint32_t index, unsigned nic,
                                unsigned far);
/** Do frames get through on it, in both directions? */
bool sim_route_carries(const struct sim_peer *route);
/** Send a PING by a route to an address. */
void sim_route_ask(struct sim_peer *route, unsigned what, uint16_t port, uint32_t key,
                   const uint8_t mac[RAWE_MAC_BYTES]);
/** How many routes to the process of a route there are. */
unsigned sim_route_count(struct sim_peer *route);
/** Close an interface's routes, and their channels, as the component does when it finalizes. */
void sim_route_close(struct sim_nic *nic);
/** Forget the processes that the node has known; all routes are closed. */
void sim_route_forget(struct sim_node *node);

/** rawe_callbacks.lossy, .silent and .stalled */
void sim_route_lossy(void *context, const struct rawe_conn *conn);
void sim_route_silent(void *context, struct rawe_conn *conn, uint64_t silent_ns);
void sim_route_stalled(void *context, struct rawe_conn *conn, uint64_t stalled_ns);
/** A PING or PONG has come to the responder of an interface. */
void sim_route_answer(struct sim_nic *nic, const struct rawe_header *header,
                      const struct sim_packet *packet);

/** A process starts on the node: it sees its carriers, and doubts no route. */
void sim_route_start(struct sim_node *node);
/** The kernel says that the carrier of an interface is lost, or there. */
void sim_route_carrier(struct sim_nic *nic, bool carrier);
/** As progress does it, or (not `may_say`) the progress thread. True when there was something. */
bool sim_route_check(struct sim_node *node, bool may_say);
/** When that is to be done next, in virtual time; UINT64_MAX: not before something happens. */
uint64_t sim_route_due_ns(const struct sim_node *node);
/** After each progress of a node: connections are where they ought to be. */
void sim_route_check_node(const struct sim_node *node);

#endif
