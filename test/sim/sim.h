/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * State of a run, and the functions that the simulator's files share. A run uses one thread and
 * virtual time, and depends neither on memory addresses nor on the real clock: a seed replays a run
 * event by event.
 *
 *   sim_app      the simulated programs             sim_submit    their sends
 *   sim_channel  connections as programs see them   sim_transfer  memory that PUTs write into
 *   sim_node     processes, progress                sim_check     invariants
 *   sim_nic      interfaces, rings, engines         sim_route     routes, failover, responders
 *   sim_batch    batches of frames                  sim_evidence  justified retransmissions
 *   sim_net      links, switch, network faults      sim_trouble   host faults, memory shortage
 *   sim_forge    forged and replayed frames         sim_lossy     a route that loses frames
 *   sim_watch    connections' behavior over time    sim_depart    nodes finalize
 *   sim_address  interfaces that change address     sim_served    no peer starves
 *   sim_event    the event queue                    sim_run       one run; trace, violations
 *   sim_access   one-sided accesses                 sim_main      command line, many runs
 *   sim_shrink   a path whose MTU shrinks
 */
#ifndef SIM_H
#define SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net_harness.h"
#include "net_ledger.h"
#include "conn/rawe_conn_state.h"
#include "rawe_engine.h"
#include "routes/rawe_peer.h"
#include "sim_event.h"
#include "sim_nic.h"
#include "sim_plan.h"
#include "sim_random.h"

struct sim;
struct sim_message;
struct sim_node;
struct sim_transfer;

/* ---- events ---- */

enum sim_event_kind {
    SIM_EVENT_SWITCH,    /**< a frame reaches the switch */
    SIM_EVENT_ARRIVE,    /**< a frame reaches a node */
    SIM_EVENT_PROGRESS,  /**< a node's program calls progress */
    SIM_EVENT_PARTITION, /**< number `value` begins */
    SIM_EVENT_DEATH,     /**< a process dies */
    SIM_EVENT_BIRTH,     /**< its successor starts */
    SIM_EVENT_SEVER,     /**< a host is cut off for a long time */
    SIM_EVENT_SUSPEND, /**< a host is suspended until `value`; 0: suspension of all hosts begins */
    SIM_EVENT_THREAD,  /**< the progress thread checks the node, in life `value` */
    SIM_EVENT_FORGE,   /**< a frame of kind `value` is forged */
    SIM_EVENT_PULL,    /**< a cable of a host is pulled; `value` decides which one and how */
    SIM_EVENT_PLUG,    /**< the cable of interface `value` is put back */
    SIM_EVENT_ADDRESS, /**< an interface of a host changes address; `value` decides which */
    SIM_EVENT_LOSSY,   /**< a route begins to lose frames */
    SIM_EVENT_SHRINK,  /**< the MTU of a path shrinks */
};

/* ---- network ---- */

struct sim_packet {
    struct sim_packet *next;
    uint32_t source, destination; /**< nodes */
    uint32_t source_nic, destination_nic;
    uint32_t len_bytes;
    uint32_t sequenced; /**< number of sequenced frames in the packet */
    uint32_t stream_id; /**< receiver's connection id to which it was sent */
    uint64_t
        order;  /**< position of its first frame among all frames sent on the connection; 0: none */
    bool batch; /**< it has a batch header */
    uint32_t damaged_bytes; /**< length before it was damaged; 0: undamaged */
    uint32_t segment_bytes; /**< data per frame except the last; 0: a single frame */
    uint64_t arrived_ns;    /**< at the receiver's interface */
    uint64_t step_ns;       /**< sim_host.step_ns at that time */
    uint8_t bytes[];
};

/** Length to which interfaces pad short frames. */
#define SIM_PADDED_BYTES 60u
#define SIM_HEARD 32u

/** A route that loses some of its frames for a long time. */
struct sim_lossy {
    struct sim_random random;
    uint64_t until_ns;    /**< 0: the losses have not begun */
    uint32_t node, other; /**< between these, ... */
    unsigned nic, far;    /**< ... and these interfaces of theirs */
    uint64_t lost;        /**< frames lost on this route */
    uint64_t others;      /**< frames lost for other reasons, ... */
    uint64_t others_ns;   /**< ... and when that count last changed */
};

/** A path whose MTU shrinks. */
struct sim_shrink {
    bool on;
    uint32_t node;
    unsigned nic;
};

struct sim_net {
    struct sim_random loss, burst, duplicate, reorder, jitter, corrupt, partition, forge;
    struct sim_lossy lossy;
    struct sim_shrink shrink;
    uint64_t partition_until_ns;
    uint8_t *side; /**< by node: 0 or 1 */
    bool one_way;  /**< only frames from side 0 to side 1 are lost */
    uint64_t in_flight;
    struct sim_packet *heard[SIM_HEARD]; /**< frames kept for replay; may be NULL */
    uint64_t given_up_forged_ns;         /**< the first forged CLOSE with GIVEN_UP; 0: none yet */
};

/** Faults that have occurred so far; they determine which invariants must hold. */
struct sim_incidents {
    uint64_t lost, lost_sequenced, duplicated, overtaken, corrupted, ring_drops;
    uint64_t closed; /**< connections closed before the end of the run */
    uint64_t deaths;
    uint64_t isolated; /**< hosts suspended or cut off for longer than the peer timeout */
    uint64_t revoked;  /**< handles revoked */
    uint64_t forged;
    uint64_t pulled;      /**< cables pulled */
    uint64_t readdressed; /**< addresses of interfaces changed */
    uint64_t no_memory;
};

void sim_net_init(struct sim *sim);
void sim_net_free(struct sim *sim);
/** Return true if the interface's send path is full. */
bool sim_net_full(struct sim *sim, struct sim_nic *nic);
/** Return a copy of a packet in its own memory. */
struct sim_packet *sim_packet_copy(struct sim *sim, const struct sim_packet *packet);
/** Transmit a frame on the interface's wire at `at_ns`, or once the wire is free. */
void sim_net_send(struct sim *sim, struct sim_nic *nic, struct sim_packet *packet, uint64_t at_ns);
/** Drop, corrupt or forward a packet that has reached the switch. */
void sim_net_at_switch(struct sim *sim, struct sim_packet *packet);
/** Queue a frame at its destination's port, delayed by `late_ns`. */
void sim_net_forward(struct sim *sim, struct sim_packet *packet, uint64_t late_ns);
void sim_net_start_partition(struct sim *sim);
/** Allocate a packet; all fields except `bytes` are 0. */
struct sim_packet *sim_packet_take(struct sim *sim, uint32_t len_bytes);
void sim_packet_give(struct sim *sim, struct sim_packet *packet);
/** Decode the header of a frame, or of a batch's first frame. Returns false if it is invalid. */
bool sim_packet_header(const struct sim_packet *packet, struct rawe_header *header);
/** Return true if the packet completes a sequenced frame: it holds all of it, or its last slice. */
bool sim_packet_sequenced(const struct sim_packet *packet, const struct rawe_header *header);
/** Record that a frame is lost, and free it. */
void sim_packet_lose(struct sim *sim, struct sim_packet *packet, const char *why);

/* ---- troubles ---- */

/** Between progress calls, maybe let the program compute, suspend the host, or step its clock. */
void sim_trouble_between(struct sim *sim, struct sim_node *node);
/** Maybe suspend the host within a progress call, after it has received frames. */
void sim_trouble_within(struct sim *sim, struct sim_node *node);
/** Plan when processes die, cables are pulled, and hosts are cut off or suspended. */
void sim_trouble_plan(struct sim *sim);
/** Plan when cables are pulled, between `from_ns` and the end of faults. */
void sim_trouble_plan_pulls(struct sim *sim, struct sim_random random, uint64_t from_ns);
/** Return when any two hosts will have a route, given the cables that are now pulled. */
uint64_t sim_trouble_plugged_ns(const struct sim *sim);
/** Cut a host off from the network. */
void sim_trouble_sever(struct sim *sim, struct sim_node *node);
/** Pull one of a host's cables; `choice` decides which. */
void sim_trouble_pull(struct sim *sim, struct sim_node *node, uint64_t choice);
/** Plug a cable in again. */
void sim_trouble_plug(struct sim *sim, struct sim_nic *nic);
/** Suspend the host until `until_ns`; 0: start suspending all hosts, one after another. */
void sim_trouble_suspend(struct sim *sim, struct sim_node *node, uint64_t until_ns);

/** From now on, let this node's allocations fail; NULL: no node's. Returns the previous node. */
struct sim_node *sim_memory_scarce(struct sim_node *node);

/* ---- interfaces that change address ---- */

/** Plan when interfaces change their addresses. */
void sim_address_plan(struct sim *sim);
/** Change the address of an interface of the node; `choice` decides which one. */
void sim_address_change(struct sim *sim, struct sim_node *node, uint64_t choice);
/** Tell the node's engines and peers about addresses that have changed. */
void sim_address_heed(struct sim_node *node);
/** Return true if a single interface has or had both addresses. */
bool sim_address_same(const uint8_t one[RAWE_MAC_BYTES], const uint8_t other[RAWE_MAC_BYTES]);
/** Return true if the interface accepts frames sent to the address. */
bool sim_address_takes(const struct sim_nic *nic, const uint8_t mac[RAWE_MAC_BYTES]);
/** Let a new route use the address that the peer's interface has published. */
void sim_address_begin(struct sim_peer *route, const uint8_t published[RAWE_MAC_BYTES]);
/** Validate an address from which the peer has sent and which is not the route's. */
void sim_address_follow(struct sim_peer *route, const uint8_t mac[RAWE_MAC_BYTES]);
/** Look for a silent peer at its other addresses. */
void sim_address_seek(struct sim_peer *route);
/** Handle a PONG. */
void sim_address_answered(struct sim_peer *route, unsigned what,
                          const uint8_t from[RAWE_MAC_BYTES]);
/** Report a violation if a frame is sent to an address that was not validated. */
void sim_address_check(struct sim_nic *nic, const struct sim_packet *packet);

/* ---- a lossy route ---- */

/** Choose the lossy route, and plan when it begins to lose frames. */
void sim_lossy_plan(struct sim *sim);
void sim_lossy_begin(struct sim *sim);
/** Return true if the lossy route loses this packet. */
bool sim_lossy_takes(struct sim *sim, const struct sim_packet *packet);
/** After a node's progress, check that it has left the lossy route and no other route. */
void sim_lossy_check_node(struct sim_node *node);

/* ---- a path whose MTU shrinks ---- */

/** Choose the path, and plan when its MTU shrinks. */
void sim_shrink_plan(struct sim *sim);
void sim_shrink_begin(struct sim *sim);
/** Return true if the packet's frames are too long for its path. */
bool sim_shrink_takes(const struct sim *sim, const struct sim_packet *packet);
/** Return the longest payload, at most `payload_bytes`, for which PINGs pass on a route. */
uint32_t sim_shrink_payload_bytes(const struct sim_peer *route, uint32_t payload_bytes);
/** Validate the path of a route with a stalled connection; called repeatedly meanwhile. */
void sim_shrink_validate(struct sim_peer *route);

/* ---- forged frames ---- */

enum sim_forgery {
    SIM_FORGERY_UNKNOWN_PEER, /**< its sender does not know the keys */
    SIM_FORGERY_REPLAY,       /**< an old frame, unchanged */
    SIM_FORGERY_HOSTILE,      /**< its sender knows everything */
};

/** Plan the first forgery of each kind. */
void sim_forge_plan(struct sim *sim);
/** Forge a frame, send it, and plan the next forgery. */
void sim_forge(struct sim *sim, enum sim_forgery kind);
/** Maybe keep a copy of a passing frame for a later replay. */
void sim_forge_listen(struct sim *sim, const struct sim_packet *packet);
/** Pass frames from unknown peers to the engine, and check that they change nothing. */
void sim_forge_receive(struct sim *sim, struct sim_nic *nic);
void sim_forge_free(struct sim *sim);

/* ---- nodes ---- */

/** Purposes of control frames. */
enum sim_control {
    SIM_CONTROL_ACK,    /**< unsolicited ACK */
    SIM_CONTROL_ANSWER, /**< ACK that answers a PROBE */
    SIM_CONTROL_PROBE,
    SIM_CONTROL_PING, /**< PING or PONG, except those that check routes */
    SIM_CONTROLS
};

/** One transmission of a frame. */
struct sim_sending {
    uint64_t order; /**< number of this transmission on the connection */
    uint64_t at_ns; /**< by the sending engine's clock */
};

/** State of a connection after its node's last progress. */
struct sim_watch {
    uint32_t local_id;            /**< changes when the connection is reopened */
    uint32_t cc_window, cc_first; /**< congestion window, and its initial value */
    uint64_t cc_persistent;       /**< persistent congestion, counted by its engine */
    uint64_t cc_used_ns;          /**< when that window was last fully used */
    uint64_t migrations;          /**< of all the node's connections so far */
    uint32_t acked, acked_beyond; /**< the peer's frames acknowledged so far */
    uint64_t owed_since_ns; /**< when an acknowledgement fell due, by the node's clock; 0: none */
};

/** A connection as the program sees it. It owns a rawe_conn. */
struct sim_channel {
    struct sim_channel *next;
    struct sim_node *node;
    struct sim_peer *via; /**< the connection's preferred route */
    uint32_t peer;
    uint32_t peer_life;
    uint8_t lane;
    bool failed;
    bool unsettled;         /**< the peer has closed or given up, perhaps without our knowledge */
    uint32_t stream_id;     /**< the peer's connection id, to which the next fields belong */
    uint32_t next_sequence; /**< next sequence number to be sent */
    uint64_t sent_order;    /**< order of the last frame or probe sent */
    uint64_t arrived_order; /**< order of the newest that has reached the peer's engine */
    struct sim_sending *sendings; /**< newest, by sequence number modulo the window */
    struct sim_sending *early;    /**< of frames already received: evidence only later */
    uint32_t early_count, early_room;
    uint32_t credit_most;  /**< highest credit that the peer has advertised */
    uint32_t probe_number; /**< number of the newest probe */
    struct sim_watch watch;
    uint64_t served;        /**< progress of its frames: sim_served.c */
    uint64_t served_ns;     /**< when `served` last changed, or the channel had no data */
    uint32_t next_in_order; /**< see net_route */
    uint64_t progress_ns;   /**< when the peer last replied to an operation: no PING is needed */
};

/** The channels on which to send to one node. */
struct sim_current {
    struct sim_channel *lanes[SIM_NICS_MAX][RAWE_LANES]; /**< by our interface */
    uint64_t read;    /**< progress of GETs from it: sim_served.c */
    uint64_t read_ns; /**< when `read` last changed, or no GET was pending */
};

struct sim_app {
    struct sim_random random;
    unsigned operations_left;
    uint64_t next_ns;          /**< start of the next burst of operations */
    unsigned open_sends;       /**< incomplete messages and PUTs of the engine */
    struct sim_message *retry; /**< rejected because the engine was busy */
    uint64_t retry_ns;         /**< when to retry these messages */
    uint64_t retry_wait_ns;    /**< grows while retries fail */
    unsigned closes_left;
};

struct sim_node {
    struct sim *sim;
    uint32_t index;
    uint32_t life; /**< number of processes that have run on the node */
    bool alive;
    bool ending; /**< it is closing its connections, and opens no others */
    bool muted;  /**< its frames are discarded */
    struct sim_nic nics[SIM_NICS_MAX];
    unsigned nic_count;
    struct sim_host *host;
    struct sim_random random; /**< poll times, identities */
    struct sim_random pause, trouble, accesses, memory, steps, nesting_random;
    struct sim_window *window; /**< for one-sided accesses; NULL: none in this run */

    struct rawe_handle_table handles;
    struct rawe_conn_table table;
    struct rawe_deferral deferral;         /**< shared by all its engines */
    struct sim_peer *peers;                /**< all peers encountered in this life */
    uint32_t routes_opened;                /**< in total */
    struct rawe_failover failover;         /**< between routes to the same process */
    bool carriers_changed;                 /**< the kernel has reported a change */
    bool addresses_changed;                /**< the kernel has reported a new address */
    struct sim_channel *channels;          /**< all */
    unsigned channel_count, channels_most; /**< current number, and the most in this life */
    struct sim_current *current;           /**< by peer */

    uint64_t busy_until_ns;   /**< its processor is busy until then */
    uint64_t local_ns;        /**< virtual time reached by its program */
    uint64_t pause_until_ns;  /**< until then, it computes without calling progress */
    uint64_t frozen_until_ns; /**< until then, the whole host is suspended */
    uint32_t thread_backoff;  /**< factor on the progress thread's planned interval */
    bool thread_mode;         /**< the progress thread has taken over in this life */
    bool in_thread;           /**< the progress thread is running now */
    bool progressing;         /**< the program is making progress now... */
    unsigned nesting;         /**< ... also in this many callbacks */
    uint64_t cut_until_ns;    /**< until then, no frame reaches or leaves it */
    bool
        isolated; /**< it was silent for longer than the peer timeout: peers may have given it up */
    unsigned pauses_left, freezes_left, jumps_left, steps_left;
    uint64_t idle_backoff_ns; /**< wait before the next flush; grows while flushes send nothing */
    uint64_t wake_ns;         /**< when progress is called next; UINT64_MAX: not planned */
    uint64_t wake_number;     /**< number of the valid wake event */

    uint64_t frames_new, frames_again; /**< sequenced frames sent for the first time, and resent */
    uint64_t control[SIM_CONTROLS];    /**< control frames sent */
    uint64_t end_ns;       /**< when it closes all its connections, once the run is finishing */
    unsigned departing;    /**< stage of its departure: sim_depart.c */
    uint64_t depart_ns;    /**< when it continues, once nodes leave */
    uint64_t finalized_ns; /**< when it began to finalize */
    bool farewell;         /**< it has received the farewell that it awaited */

    struct sim_app app;
    uint8_t *arena; /**< memory that PUTs write into; NULL: none yet */
    uint32_t arena_bytes;
    struct sim_transfer *regions; /**< registered or reserved, by offset */
};

void sim_node_init(struct sim *sim, struct sim_node *node, uint32_t index);
void sim_node_free(struct sim_node *node);
void sim_node_progress(struct sim *sim, struct sim_node *node);
/** Called in each callback: as planned, it makes progress, as callbacks of osc/pt2pt do. */
void sim_node_nest(struct sim *sim, struct sim_node *node);
/** Let the progress thread check for work while the program is computing. */
void sim_node_thread(struct sim *sim, struct sim_node *node, uint32_t life);
void sim_node_wake(struct sim_node *node, uint64_t at_ns);
void sim_node_die(struct sim *sim, struct sim_node *node);
void sim_node_start(struct sim *sim, struct sim_node *node);
/** Return the node's current or most recent process. */
static inline struct net_process sim_node_process(const struct sim_node *node)
{
    return (struct net_process){node->index, node->life};
}
/** Return the node's clock at `at_ns` of virtual time. */
uint64_t sim_node_clock_at(const struct sim_node *node, uint64_t at_ns);
/** Return true if packets wait at an interface, or (pending) acknowledgements or deliveries. */
bool sim_node_waiting(const struct sim_node *node);
bool sim_node_pending(const struct sim_node *node);
/** Return the node's clock now. */
static inline uint64_t sim_node_clock(const struct sim_node *node)
{
    return sim_node_clock_at(node, node->local_ns);
}

/* ---- channels ---- */

extern const struct rawe_callbacks sim_channel_callbacks;

/**
 * Return the channel on which an interface sends to a peer, opening it if necessary, or NULL if
 * sending to that peer is not allowed.
 */
struct sim_channel *sim_channel_get(struct sim_node *node, uint32_t peer, unsigned nic,
                                    uint8_t lane);
/** Return the interface for messages to a peer that must stay in order. */
static inline unsigned sim_channel_in_order(const struct sim_node *node, uint32_t peer)
{
    return (node->index + peer) % node->nic_count;
}
/** Return the channel that prefers a route, opening it if necessary. */
struct sim_channel *sim_channel_at(struct sim_peer *via, uint8_t lane);
/** Return a route's channel on another lane, opening it if necessary. */
static inline struct sim_channel *sim_channel_beside(const struct sim_channel *channel,
                                                     uint8_t lane)
{
    return sim_channel_at(channel->via, lane);
}
void sim_channel_close(struct sim_channel *channel);
/** Return the channel's connection. */
static inline struct rawe_conn *sim_conn(const struct sim_channel *channel)
{
    return channel->via->peer.conn[channel->lane];
}
/** Return the channel at the peer's end of the connection, or NULL if the peer has none. */
const struct sim_channel *sim_channel_far_end(const struct sim_channel *channel);
/** Return true once the peer knows that an earlier connection was closed: nothing more is lost. */
bool sim_channel_settled(struct sim_channel *channel);
/** rawe_output.transmit; `context` is the interface. */
unsigned sim_channel_transmit(void *context, const struct rawe_frame *frames, unsigned count);

/** Fill in the destination of a packet. */
void sim_channel_address(struct sim_nic *nic, struct sim_packet *packet);

/* ---- batches ---- */

/** Return how many bytes of a fragmented message one frame of the node carries. */
uint32_t sim_batch_part_bytes(const struct sim_node *node);
/** Set whether the interface's engine sends batches or only receives them. */
void sim_batch_enable(struct sim_nic *nic);
/** Handle a batch that reaches the switch. */
void sim_batch_at_switch(struct sim *sim, struct sim_packet *packet);
/** Take the next packet from a bulk queue, merged or not; NULL if it is empty. */
struct sim_packet *sim_batch_take(struct sim_nic *nic);
/** Return true if the packet's checksum and its IPv4 header's length show no damage. */
bool sim_batch_intact(const struct sim_packet *packet);

/* ---- evidence ---- */

/** Return the channel that sends a frame with this header, or NULL. */
struct sim_channel *sim_evidence_channel(struct sim_node *node, const struct rawe_header *header);
/** Record that a sequenced frame is sent. Resending it without a reason is a violation. */
void sim_evidence_sent(struct sim_channel *channel, const struct rawe_header *header,
                       struct sim_packet *packet);
/** Record the credit that a frame advertises to the peer. */
void sim_evidence_credit(struct sim_node *node, const struct rawe_header *header,
                         uint32_t destination);
/**
 * Record that a probe is sent: once it arrives, missing frames sent before it are known to be lost.
 * Report a violation if its number was used before, because an answer to the earlier probe would
 * seem to answer this one.
 */
void sim_evidence_asked(struct sim_node *node, const struct rawe_header *header,
                        struct sim_packet *packet);
/** Record that the node's engine has received the packet. */
void sim_evidence_arrived(struct sim_node *node, const struct sim_packet *packet);

/* ---- connections over time ---- */

/** Record the acknowledgement that a sent frame carries. */
void sim_watch_sent(struct sim_node *node, const struct rawe_header *header);
/** After a node's progress, compare its connections with their state after the previous one. */
void sim_watch_node(struct sim_node *node);

/* ---- no peer starves ---- */

/** After a node's progress, check that its data gets through in time. */
void sim_served_check_node(struct sim_node *node);

/* ---- messages, as recorded in the ledger ---- */

enum sim_message_kind {
    SIM_MESSAGE_PLAIN,
    SIM_MESSAGE_REQUEST, /**< requests a reply of `argument` bytes */
    SIM_MESSAGE_REPLY,
    SIM_MESSAGE_OFFER,    /**< rendezvous: the sender has data */
    SIM_MESSAGE_GRANT,    /**< rendezvous: memory for the data */
    SIM_MESSAGE_PUT,      /**< not a message: a PUT of a part of the data */
    SIM_MESSAGE_FINISH,   /**< rendezvous: all data was put */
    SIM_MESSAGE_FAREWELL, /**< the last message: see sim_depart.c */
};

struct sim_message {
    struct net_message net; /**< must be first: callbacks get it */
    struct sim *sim;
    enum sim_message_kind kind;
    bool queued; /**< incomplete when sim_submit returned */
    uint32_t argument;
    struct sim_transfer *transfer; /**< the transfer it belongs to, or NULL */
    uint32_t transfer_offset;      /**< PUT */
    struct sim_message *next_retry;
};

void sim_submit_init(struct sim *sim);
/** Create a message or PUT for sim_submit. */
struct sim_message *sim_message_new(struct sim *sim, enum sim_message_kind kind, uint32_t source,
                                    uint32_t destination, struct sim_transfer *transfer,
                                    uint32_t len_bytes);
/** Pass a message to its source's peer object. */
void sim_submit(struct sim *sim, struct sim_message *message);
/** Return the message that the engine delivers, or NULL if it is forged. */
struct sim_message *sim_submit_delivered(struct sim_channel *channel, uint8_t tag,
                                         const uint8_t *data, size_t len_bytes);
/** Allow the loss of all data in flight on this channel, in both directions. */
void sim_submit_closed(struct sim_channel *channel);
void sim_submit_free(struct sim *sim);

/* ---- transfers: memory and PUT ---- */

struct sim_transfer {
    struct sim_transfer *next;        /**< all transfers of the run */
    struct sim_transfer *next_region; /**< in the target's arena, by offset */
    uint32_t number;
    uint32_t source, target;
    uint32_t source_life, target_life;
    uint32_t len_bytes;
    uint32_t offset; /**< of the region in the arena */
    uint32_t handle_index;
    uint64_t handle_key;
    uint64_t content_seed;
    unsigned parts_open; /**< PUTs not completed */
    bool registered;
    bool revoked;
    bool lossy; /**< a connection that it needs has closed, or a process has died */
    bool finished;
};

/** Register memory for the transfer at its target. Returns false if the arena has no room. */
bool sim_transfer_grant(struct sim *sim, struct sim_transfer *transfer);
/** Submit the PUTs of a transfer. */
void sim_transfer_put(struct sim *sim, struct sim_transfer *transfer);
/** Handle the successful completion of a PUT. */
void sim_transfer_placed(struct sim *sim, struct sim_message *message);
/** Handle FINISH at the target, whose memory must now hold all data. */
void sim_transfer_finish(struct sim *sim, struct sim_transfer *transfer);
/** Deregister a transfer's memory, which PUTs may still be accessing. */
void sim_transfer_revoke(struct sim *sim, struct sim_transfer *transfer);
/** Check that no byte of the arena has changed outside the registered regions. */
void sim_transfer_check_arena(struct sim_node *node);
/** Deregister the remaining regions: their FINISH was lost with a connection. */
void sim_transfer_drop_all(struct sim_node *node);
void sim_transfer_free(struct sim *sim);

/* ---- one-sided accesses ---- */

/** Give a starting process a window if the run has accesses. */
void sim_access_start(struct sim_node *node);
/** Access the window of a peer. */
void sim_access_begin(struct sim_node *node, uint32_t peer);
/** Allow pending accesses between two nodes to fail: a connection was closed or given up. */
void sim_access_closed(struct sim *sim, uint32_t one, uint32_t other);
/** Allow a process's accesses to fail because it is about to die. */
void sim_access_died(struct sim_node *node);
/** Deregister and free the window of a process. */
void sim_access_end(struct sim_node *node);
/** Sum a node's GET progress by target. The sum changes when data arrives; 0: no GET. */
void sim_access_progress(const struct sim_node *node, uint64_t *progress);
/** Once no access is pending, check that each counter holds the sum of all additions. */
void sim_access_check(const struct sim *sim);
void sim_access_free(struct sim *sim);

/* ---- program ---- */

void sim_app_init(struct sim *sim, struct sim_node *node);
void sim_app_step(struct sim *sim, struct sim_node *node);
/** Handle the early completion of a message: the program may send its next message. */
void sim_app_completed_early(struct sim *sim, struct sim_node *node);
void sim_app_delivered(struct sim *sim, struct sim_channel *channel, struct sim_message *message);
void sim_app_completed(struct sim *sim, struct sim_message *message, enum rawe_status status);
bool sim_app_idle(const struct sim_node *node);
/** Retry messages that the engine could not queue, if they are due. */
void sim_app_resubmit(struct sim *sim, struct sim_node *node);

/* ---- leaving ---- */

/**
 * Return true if nodes finalize in this run. They do not if a CLOSE was lost, because everything
 * that the peer then sends on that connection is lost.
 */
bool sim_depart_possible(const struct sim *sim);
/** Once all operations are settled, let nodes finalize one by one. */
void sim_depart_begin(struct sim *sim);
/** Continue the departure of a node. Returns true if it leaves now. */
bool sim_depart_step(struct sim *sim, struct sim_node *node);
/** Record the delivery of a farewell. */
void sim_depart_farewell(struct sim *sim, struct sim_node *node);
/** Return true while the node's engine is finalizing. */
bool sim_depart_finalizing(const struct sim_node *node);
/** Return when the node's departure continues; UINT64_MAX: when the next frame arrives. */
uint64_t sim_depart_wake_ns(const struct sim_node *node);
/** Return true once all nodes have left. */
bool sim_depart_over(const struct sim *sim);

/* ---- checks ---- */

/** Check a frame that a node sends in a packet. */
void sim_check_frame(struct sim_node *node, const struct rawe_header *header,
                     struct sim_packet *packet);
/** Check a node after its progress. */
void sim_check_node(struct sim_node *node);
/** Check that giving up a connection after `silent_ns` of silence is justified. */
void sim_check_failed(struct sim_channel *channel, uint64_t silent_ns);
/** When a node learns that its peer gave up a connection, check that the peer had a reason. */
void sim_check_given_up(struct sim_channel *channel);
/** Return true if all messages sent are settled and all nodes are quiet. */
bool sim_check_quiet(struct sim *sim);
/** Report a violation if there has been no activity for too long. */
void sim_check_stalled(struct sim *sim);
/** Check the counters at the end of the run, when all nodes are quiet. */
void sim_check_counters(struct sim *sim);

/* ---- trace ---- */

/** The current run, for which net_fail reports violations. */
extern struct sim *sim_running;
void sim_trace_line(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define sim_trace(sim, ...)                   \
    do {                                      \
        if ((sim)->options.trace) {           \
            sim_trace_line(sim, __VA_ARGS__); \
        }                                     \
    } while (0)
/** Describe a frame in words. Returns `out`. */
const char *sim_trace_frame(const struct sim_packet *packet, char *out, size_t out_bytes);

/* ---- run ---- */

struct sim_result {
    uint64_t events, virtual_ns, messages, puts, lost;
    uint64_t frames, resent, migrations;
    uint64_t control[SIM_CONTROLS];
    uint64_t incidents; /**< number of faults of all kinds */
    uint64_t calm_connections;
    uint64_t calm_frames;                /**< frames of undisturbed runs */
    uint64_t calm_control[SIM_CONTROLS]; /**< control frames of undisturbed runs */
    uint64_t digest;                     /**< digest of all events */
    unsigned nodes, nics;
    uint64_t faults;
};

static inline uint64_t sim_control_sum(const uint64_t control[SIM_CONTROLS])
{
    uint64_t sum = 0;

    for (unsigned kind = 0; kind < SIM_CONTROLS; kind++) {
        sum += control[kind];
    }
    return sum;
}

struct sim {
    struct sim_options options;
    struct sim_plan plan;
    uint64_t now_ns;
    uint64_t event_count;
    uint64_t channels_opened;
    uint64_t incident_count; /**< including those that the options prevented */
    uint64_t digest;
    uint64_t activity_ns;  /**< when a message was last submitted, delivered or completed */
    uint64_t disturbed_ns; /**< last known end of a pause or partition */
    uint64_t faults_end_ns;
    bool calm;      /**< no frame lost, duplicated or late, no connection ended, no pause */
    bool finishing; /**< all messages are settled; nodes end one by one */
    bool departing; /**< as `finishing`, but nodes finalize: sim_depart.c */
    bool fence_passed;
    unsigned unborn; /**< processes yet to start */
    struct sim_events events;
    struct sim_net net;
    struct sim_incidents incidents;
    struct sim_node *nodes;
    struct sim_host *hosts;
    struct net_ledger ledger;
    uint64_t puts; /**< PUTs completed successfully */
    struct sim_access *accesses;
    uint32_t accesses_count, accesses_open;
    struct sim_transfer *transfers;
    uint32_t transfer_count;
    struct sim_result retired; /**< counters of processes that have died */
    /** Called for a violation before the process ends; `text` is one line. */
    void (*on_violation)(struct sim *sim, const char *text);
};

/** Return when the lossy route recovers, or recovered; 0: the run has none. */
static inline uint64_t sim_lossy_until_ns(const struct sim *sim)
{
    return sim->net.lossy.until_ns;
}

static inline bool sim_faults_on(const struct sim *sim)
{
    return sim->now_ns < sim->faults_end_ns;
}

/** Count an incident that is about to happen. Returns false if the options prevent it. */
static inline bool sim_incident(struct sim *sim)
{
    uint64_t number = sim->incident_count++;
    return number >= sim->options.incident_first && number < sim->options.incident_end;
}

/** With probability `ppm` per million, count an incident and return true. */
static inline bool sim_strikes(struct sim *sim, struct sim_random *random, uint32_t ppm)
{
    return sim_random_chance(random, ppm) && sim_incident(sim);
}

/** Plan an event that has no packet. */
static inline void sim_plan_event(struct sim *sim, enum sim_event_kind kind, uint64_t at_ns,
                                  uint32_t node, uint64_t value)
{
    sim_events_push(&sim->events,
                    (struct sim_event){.at_ns = at_ns, .kind = kind, .node = node, .value = value});
}

/** Extend the disturbed time to `at_ns`. */
static inline void sim_disturb(struct sim *sim, uint64_t at_ns)
{
    sim->disturbed_ns = sim->disturbed_ns < at_ns ? at_ns : sim->disturbed_ns;
}

/** Simulate one entire run. Returns only if no invariant was violated. */
void sim_run(const struct sim_options *options, void (*on_violation)(struct sim *, const char *),
             struct sim_result *result);

#endif
