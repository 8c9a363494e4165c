/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * State of a run, and what the simulator's files offer each other. One thread, virtual time,
 * nothing that depends on addresses or on the real clock: the same seed is the same run, event by
 * event.
 *
 *   sim_app      what the programs do               sim_submit    how they send it
 *   sim_channel  connections as programs have them  sim_transfer  memory that PUTs write into
 *   sim_node     processes, progress                sim_check     invariants
 *   sim_nic      interfaces, rings, engines         sim_route     routes, failing over, responders
 *   sim_batch    batches of frames                   sim_evidence  why frames may be sent again
 *   sim_net      links, switch, loss and the like   sim_report    trace, violations
 *   sim_memory   memory that runs out
 *   sim_trouble  what befalls hosts                 sim_run       one run from beginning to end
 *   sim_forge    forged and replayed frames          sim_campaign  many runs
 *   sim_watch    what connections do over time        sim_depart     nodes finalize
 *   sim_event    the queue of things to come        sim_lossy     a route that loses frames
 *   sim_address  interfaces that get other addresses  sim_served  no peer starves
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
    SIM_EVENT_SWITCH,    /**< a frame has come to the switch */
    SIM_EVENT_ARRIVE,    /**< a frame has come to a node */
    SIM_EVENT_PROGRESS,  /**< a node's program calls progress */
    SIM_EVENT_PARTITION, /**< number `value` begins */
    SIM_EVENT_DEATH,     /**< a process dies */
    SIM_EVENT_BIRTH,     /**< another one starts in its place */
    SIM_EVENT_SEVER,     /**< a host is cut off for long */
    SIM_EVENT_SUSPEND,   /**< a host stands still until `value`, as all do; 0: now they begin to */
    SIM_EVENT_THREAD,    /**< the progress thread looks at the node of life `value` */
    SIM_EVENT_FORGE,     /**< a frame of kind `value` is made up */
    SIM_EVENT_PULL,      /**< some cable of a host is pulled: which one and how `value` decides */
    SIM_EVENT_PLUG,      /**< the cable of interface `value` is put back */
    SIM_EVENT_ADDRESS,   /**< some interface of a host gets another address, as `value` decides */
    SIM_EVENT_LOSSY,     /**< a route begins to lose frames */
};

/* ---- network ---- */

struct sim_packet {
    struct sim_packet *next;
    uint32_t source, destination; /**< nodes */
    uint32_t source_nic, destination_nic;
    uint32_t len_bytes;
    uint32_t room_bytes;
    uint32_t sequenced;     /**< how many sequenced frames it carries */
    uint32_t stream_id;     /**< connection id of the receiver's that it was sent to */
    uint64_t order;         /**< of its first frame among those sent on the connection; 0: none */
    bool batch;             /**< it has a batch header */
    uint32_t damaged_bytes; /**< its length before it was damaged; 0: it was not */
    uint32_t segment_bytes; /**< data of each of its frames but the last; 0: it is one frame */
    uint64_t arrived_ns;    /**< at the receiver's interface */
    uint64_t step_ns;       /**< sim_host.step_ns then */
    uint8_t bytes[];
};

#define SIM_PACKET_SIZES 4u
#define SIM_HEARD 32u

/** A route that loses a part of its frames for long. */
struct sim_lossy {
    struct sim_random random;
    uint64_t until_ns;    /**< 0: it has not begun to */
    uint32_t node, other; /**< between these, ... */
    unsigned nic, far;    /**< ... and these interfaces of theirs */
    uint64_t lost;        /**< frames, by that */
    uint64_t others;      /**< that were lost for another reason, ... */
    uint64_t others_ns;   /**< ... and when the last of these was */
};

struct sim_net {
    struct sim_packet *free[SIM_PACKET_SIZES];
    struct sim_random loss, burst, duplicate, reorder, jitter, corrupt, partition, forge;
    struct sim_lossy lossy;
    uint64_t partition_until_ns;
    uint8_t *side; /**< by node: 0 or 1 */
    bool one_way;  /**< only frames from side 0 to side 1 are lost */
    uint64_t in_flight;
    struct sim_packet *heard[SIM_HEARD]; /**< frames kept for sending them again; may be NULL */
};

/** What the network has done to frames so far: decides which invariants hold. */
struct sim_incidents {
    uint64_t lost, lost_sequenced, duplicated, overtaken, corrupted, ring_drops;
    uint64_t closed; /**< connections, before the end of the run */
    uint64_t deaths;
    uint64_t isolated; /**< hosts that stood still or were cut off for too long */
    uint64_t revoked;  /**< handles */
    uint64_t forged;
    uint64_t pulled;      /**< cables */
    uint64_t readdressed; /**< interfaces */
    uint64_t no_memory;
};

void sim_net_init(struct sim *sim);
void sim_net_free(struct sim *sim);
/** True when the interface's way out has no room. */
bool sim_net_full(struct sim *sim, struct sim_nic *nic);
/** Copy all of a packet but its memory. */
struct sim_packet *sim_packet_copy(struct sim *sim, const struct sim_packet *packet);
/** Put a frame onto the interface's wire at `at_ns` or when the wire is free. */
void sim_net_send(struct sim *sim, struct sim_nic *nic, struct sim_packet *packet, uint64_t at_ns);
/** A packet has come to the switch: lose it, spoil it, or pass it on. */
void sim_net_at_switch(struct sim *sim, struct sim_packet *packet);
/** Queue a frame at the port of its destination, `late_ns` later than others. */
void sim_net_forward(struct sim *sim, struct sim_packet *packet, uint64_t late_ns);
void sim_net_start_partition(struct sim *sim);
struct sim_packet *sim_packet_take(struct sim *sim, uint32_t len_bytes);
void sim_packet_give(struct sim *sim, struct sim_packet *packet);
/** The header of a frame, or of the first one of a batch. False: it is none. */
bool sim_packet_header(const struct sim_packet *packet, struct rawe_header *header);
/** Is it a sequenced frame, or the last slice of one? Then all of that has left. */
bool sim_packet_sequenced(const struct sim_packet *packet, const struct rawe_header *header);
/** Note that a frame is gone for good. */
void sim_packet_lose(struct sim *sim, struct sim_packet *packet, const char *why);

/* ---- troubles ---- */

/** The host's program may compute, the host may stand still, its clock may jump. */
void sim_trouble_between(struct sim *sim, struct sim_node *node);
/** The same in the middle of a progress, between receiving and the rest. */
void sim_trouble_within(struct sim *sim, struct sim_node *node);
/** Plan when processes die, cables are pulled, hosts are cut off or all of them suspended. */
void sim_trouble_plan(struct sim *sim);
/** Plan when cables are pulled, from a time on and while faults are. */
void sim_trouble_plan_pulls(struct sim *sim, struct sim_random random, uint64_t from_ns);
/** From when on each two hosts have a route between them, with the cables that are pulled now. */
uint64_t sim_trouble_plugged_ns(const struct sim *sim);
/** Cut a host off. */
void sim_trouble_sever(struct sim *sim, struct sim_node *node);
/** Pull one of a host's cables, as `choice` decides. */
void sim_trouble_pull(struct sim *sim, struct sim_node *node, uint64_t choice);
/** A cable is put back. */
void sim_trouble_plug(struct sim *sim, struct sim_nic *nic);
/** The host stands still until then; 0: all hosts will, one after the other. */
void sim_trouble_suspend(struct sim *sim, struct sim_node *node, uint64_t until_ns);

/**
 * From now on allocations may fail on behalf of the node, NULL: none does. Returns the one before.
 */
struct sim_node *sim_memory_scarce(struct sim_node *node);

/* ---- interfaces that get other addresses ---- */

/** Plan when they do. */
void sim_address_plan(struct sim *sim);
/** An interface of the node gets one. */
void sim_address_change(struct sim *sim, struct sim_node *node, uint64_t choice);
/** The node sees to what the kernel has said. */
void sim_address_heed(struct sim_node *node);
/** Are both addresses of one interface, now or at different times? */
bool sim_address_same(const uint8_t one[RAWE_MAC_BYTES], const uint8_t other[RAWE_MAC_BYTES]);
/** Does the interface receive frames to the address? */
bool sim_address_takes(const struct sim_nic *nic, const uint8_t mac[RAWE_MAC_BYTES]);
/** A route leads to the address that the interface has published. */
void sim_address_begin(struct sim_peer *route, const uint8_t published[RAWE_MAC_BYTES]);
/** The peer has sent from an address that the route does not lead to. */
void sim_address_follow(struct sim_peer *route, const uint8_t mac[RAWE_MAC_BYTES]);
/** The peer is silent: has it another address? */
void sim_address_seek(struct sim_peer *route);
/** A PONG has come. */
void sim_address_answered(struct sim_peer *route, unsigned what,
                          const uint8_t from[RAWE_MAC_BYTES]);
/** A frame leaves for an address: violation unless it was validated. */
void sim_address_check(struct sim_nic *nic, const struct sim_packet *packet);

/* ---- a route that is lossy for long ---- */

/** Choose which one, and plan when it begins to lose frames. */
void sim_lossy_plan(struct sim *sim);
void sim_lossy_begin(struct sim *sim);
/** Is the packet lost by that? */
bool sim_lossy_takes(struct sim *sim, const struct sim_packet *packet);
/** After each progress of a node: it has been left, and others have not. */
void sim_lossy_check_node(struct sim_node *node);

/* ---- forged frames ---- */

enum sim_forgery {
    SIM_FORGERY_UNKNOWN_PEER, /**< by one who does not know the keys */
    SIM_FORGERY_REPLAY,       /**< a frame as it was once sent */
    SIM_FORGERY_HOSTILE,      /**< by one who knows everything */
};

/** Plan the first of each kind. */
void sim_forge_plan(struct sim *sim);
/** Make one up, send it, plan the next. */
void sim_forge(struct sim *sim, enum sim_forgery kind);
/** A frame passes that may be kept and sent again. */
void sim_forge_listen(struct sim *sim, const struct sim_packet *packet);
/** Hand the engine what unknown peers have sent, which must change nothing. */
void sim_forge_receive(struct sim *sim, struct sim_nic *nic);
void sim_forge_free(struct sim *sim);

/* ---- nodes ---- */

/** Control frames by what they are for. */
enum sim_control {
    SIM_CONTROL_ACK,    /**< unsolicited ACK */
    SIM_CONTROL_ANSWER, /**< ACK that answers a PROBE */
    SIM_CONTROL_PROBE,
    SIM_CONTROL_PING, /**< and PONG; but for those about routes */
    SIM_CONTROLS
};

/** One sending of a frame. */
struct sim_sending {
    uint64_t order; /**< among all that was sent on the connection */
    uint64_t at_ns; /**< as its engine knows it */
};

/** A connection as it was after the last progress of its node. */
struct sim_watch {
    uint32_t local_id;            /**< changes with each life of the connection */
    uint32_t cc_window, cc_first; /**< that, and the one that it began with */
    uint64_t cc_persistent;       /**< persistent congestion, counted by its engine */
    uint64_t cc_used_ns;          /**< when that window was last made use of */
    uint64_t migrations;          /**< of the node's connections, until then */
    uint32_t acked, acked_beyond; /**< what acknowledgements have said of the peer's frames */
    uint64_t
        owed_since_ns; /**< frames are not acknowledged since, by the node's clock; 0: all are */
};

/** A connection as the program sees it; owner of a rawe_conn. */
struct sim_channel {
    struct sim_channel *next;
    struct sim_node *node;
    struct sim_peer *via;    /**< its preferred route */
    struct rawe_conn rested; /**< what the connection was, while it rests */
    uint32_t peer;
    uint32_t peer_life;
    uint8_t lane;
    bool failed;
    bool unsettled;               /**< the peer has closed or given up, and we may not know yet */
    uint32_t stream_id;           /**< peer's connection id that what follows belongs to */
    uint32_t next_sequence;       /**< of the frames seen to leave */
    uint64_t sent_order;          /**< of the frame or probe sent last */
    uint64_t arrived_order;       /**< of the newest one that the peer has taken */
    struct sim_sending *sendings; /**< by sequence number, modulo the window: the newest one */
    struct sim_sending *early;    /**< of frames that had arrived before: not evidence at once */
    uint32_t early_count, early_room;
    uint32_t credit_most;  /**< that the peer has ever advertised */
    uint32_t probe_number; /**< of the newest probe */
    struct sim_watch watch;
    uint64_t served;        /**< how far its frames have come: sim_served.c */
    uint64_t served_ns;     /**< when that last changed, or nothing was to be sent */
    uint32_t next_in_order; /**< of its net_route */
    uint64_t progress_ns;   /**< the peer replied last to an operation: it need not be asked */
};

/** The channels to send on, to one node. */
struct sim_current {
    struct sim_channel *lanes[SIM_NICS_MAX][RAWE_LANES]; /**< by our interface */
    uint64_t read;    /**< how far GETs from it have come: sim_served.c */
    uint64_t read_ns; /**< when that last changed, or there were none */
};

struct sim_app {
    struct sim_random random;
    unsigned operations_left;
    uint64_t next_ns;          /**< next burst of operations */
    unsigned open_sends;       /**< messages and PUTs handed to the engine, not completed */
    struct sim_message *retry; /**< the engine was busy and cannot queue them */
    uint64_t retry_ns;         /**< when to try these again */
    uint64_t retry_wait_ns;    /**< grows while it fails */
    unsigned closes_left;
};

struct sim_node {
    struct sim *sim;
    uint32_t index;
    uint32_t life; /**< counts the processes that have run here */
    bool alive;
    bool ending; /**< closing its connections: accepts none, sends none */
    bool muted;  /**< what it sends goes nowhere */
    struct sim_nic nics[SIM_NICS_MAX];
    unsigned nic_count;
    struct sim_host *host;
    struct sim_random random; /**< poll times, identities */
    struct sim_random pause, trouble, accesses, rest, memory, steps;
    struct sim_window *window; /**< for accesses; NULL: the run has none */

    struct rawe_handle_table handles;
    struct rawe_conn_table table;
    struct rawe_deferral deferral;         /**< of all its engines */
    struct sim_peer *peers;                /**< everybody it has known in this life */
    uint32_t routes_opened;                /**< to them, ever */
    struct rawe_failover failover;         /**< between those to the same process */
    bool carriers_changed;                 /**< the kernel has said so */
    bool addresses_changed;                /**< the same */
    struct sim_channel *channels;          /**< all of them */
    unsigned channel_count, channels_most; /**< now, and at any time of this life */
    struct sim_current *current;           /**< by peer */

    uint64_t busy_until_ns;   /**< its processor is not free before */
    uint64_t local_ns;        /**< virtual time as far as its program has got */
    uint64_t pause_until_ns;  /**< computes, does not call progress */
    uint64_t frozen_until_ns; /**< the whole host stands still */
    uint32_t thread_backoff;  /**< factor on the progress thread's planned interval */
    bool thread_mode;         /**< the progress thread has taken over in this life */
    bool in_thread;           /**< it makes progress now */
    uint64_t cut_until_ns;    /**< no frame reaches or leaves it */
    bool isolated;            /**< was silent beyond the peer timeout: peers may have given it up */
    unsigned pauses_left, freezes_left, jumps_left, steps_left;
    uint64_t
        idle_backoff_ns;  /**< wait before the next flush, grows while flushes achieve nothing */
    uint64_t wake_ns;     /**< when progress is called next; UINT64_MAX: not planned */
    uint64_t wake_number; /**< of the event that is valid */

    uint64_t frames_new, frames_again; /**< sequenced frames seen to leave, first time or not */
    uint64_t control[SIM_CONTROLS];    /**< the same of control frames */
    uint64_t end_ns;       /**< when it closes all its connections, once the run is finishing */
    unsigned departing;    /**< how far it is in that: sim_depart.c */
    uint64_t depart_ns;    /**< when it goes on with it, once nodes leave */
    uint64_t finalized_ns; /**< when it began to finalize */
    bool farewell;         /**< it has the one it waits for */

    struct sim_app app;
    uint8_t *arena; /**< memory that PUTs write into; NULL: none yet */
    uint32_t arena_bytes;
    struct sim_transfer *regions; /**< registered or kept aside, by offset */
};

void sim_node_init(struct sim *sim, struct sim_node *node, uint32_t index);
void sim_node_free(struct sim_node *node);
void sim_node_progress(struct sim *sim, struct sim_node *node);
/** The progress thread looks whether there is something to do while the program computes. */
void sim_node_thread(struct sim *sim, struct sim_node *node, uint32_t life);
void sim_node_wake(struct sim_node *node, uint64_t at_ns);
void sim_node_die(struct sim *sim, struct sim_node *node);
void sim_node_start(struct sim *sim, struct sim_node *node);
/** The process that runs on it, or was the last one to. */
static inline struct net_process sim_node_process(const struct sim_node *node)
{
    return (struct net_process){node->index, node->life};
}
/** The node's clock at `at_ns` of virtual time. */
uint64_t sim_node_clock_at(const struct sim_node *node, uint64_t at_ns);
/** Of any of its engines: frames or batches wait, acknowledgements or messages to be delivered. */
bool sim_node_waiting(const struct sim_node *node);
bool sim_node_pending(const struct sim_node *node);
/** The node's clock now. */
static inline uint64_t sim_node_clock(const struct sim_node *node)
{
    return sim_node_clock_at(node, node->local_ns);
}

/* ---- channels ---- */

extern const struct rawe_callbacks sim_channel_callbacks;

/**
 * The channel to send on from an interface, opened when there is none; NULL when the peer is not to
 * be sent to.
 */
struct sim_channel *sim_channel_get(struct sim_node *node, uint32_t peer, unsigned nic,
                                    uint8_t lane);
/** The interface by which what is to keep its order goes to a peer. */
static inline unsigned sim_channel_in_order(const struct sim_node *node, uint32_t peer)
{
    return (node->index + peer) % node->nic_count;
}
/** The channel that prefers a route, opened when there is none. */
struct sim_channel *sim_channel_at(struct sim_peer *via, uint8_t lane);
/** The channel to the same process on a lane, opened when there is none. */
static inline struct sim_channel *sim_channel_beside(const struct sim_channel *channel,
                                                     uint8_t lane)
{
    return sim_channel_at(channel->via, lane);
}
void sim_channel_close(struct sim_channel *channel);
/** Its connection, as it is, or was when it came to rest: to be looked at only. */
static inline const struct rawe_conn *sim_conn(const struct sim_channel *channel)
{
    const struct rawe_conn *conn = channel->via->peer.conn[channel->lane];
    return conn != NULL ? conn : &channel->rested;
}
/** Its connection, to be used. */
struct rawe_conn *sim_channel_wake(struct sim_channel *channel);
/** Some connections of the node that may rest do. */
void sim_channel_rest(struct sim_node *node);
/** The same connection as its peer has it; NULL: not, or not any more. */
const struct sim_channel *sim_channel_far_end(const struct sim_channel *channel);
/** The peer knows that we had closed an earlier connection: nothing is lost by that any more. */
bool sim_channel_settled(struct sim_channel *channel);
/** rawe_output.transmit; context is the interface. */
unsigned sim_channel_transmit(void *context, const struct rawe_frame *frames, unsigned count);

/** Fill in whom a packet is for. */
void sim_channel_address(struct sim_nic *nic, struct sim_packet *packet);

/* ---- batches ---- */

/** Data of a fragmented message that a frame of the node carries. */
uint32_t sim_batch_part_bytes(const struct sim_node *node);
/** Tell the engine of the interface that it may send batches, or only receive them. */
void sim_batch_enable(struct sim_nic *nic);
/** A batch comes to the switch: what becomes of it. */
void sim_batch_at_switch(struct sim *sim, struct sim_packet *packet);
/** What the program takes next out of a bulk queue, merged or not; NULL: nothing. */
struct sim_packet *sim_batch_take(struct sim_nic *nic);
/** Return false if a packet was damaged, as its checksum or the length in its IPv4 header says. */
bool sim_batch_intact(const struct sim_packet *packet);

/* ---- evidence ---- */

/** The channel on which a frame with this header leaves, or NULL. */
struct sim_channel *sim_evidence_channel(struct sim_node *node, const struct rawe_header *header);
/** A sequenced frame leaves in the packet: violation when it is sent again for no reason. */
void sim_evidence_sent(struct sim_channel *channel, const struct rawe_header *header,
                       struct sim_packet *packet);
/** A frame leaves: note what credit it tells the peer. */
void sim_evidence_credit(struct sim_node *node, const struct rawe_header *header,
                         uint32_t destination);
/**
 * A probe leaves: once it has arrived, what was sent before it is known to be lost. Violation when
 * an earlier one had its number, as the answer to that would say too much.
 */
void sim_evidence_asked(struct sim_node *node, const struct rawe_header *header,
                        struct sim_packet *packet);
/** The packet has been handed to the engine of the node. */
void sim_evidence_arrived(struct sim_node *node, const struct sim_packet *packet);

/* ---- what connections do over time ---- */

/** A frame leaves that acknowledges what has been taken. */
void sim_watch_sent(struct sim_node *node, const struct rawe_header *header);
/** After each progress of a node: against what was after the last one. */
void sim_watch_node(struct sim_node *node);

/* ---- no peer starves ---- */

/** After each progress of a node: what it has to send gets through in time. */
void sim_served_check_node(struct sim_node *node);

/* ---- messages: what is sent, in the ledger ---- */

enum sim_message_kind {
    SIM_MESSAGE_PLAIN,
    SIM_MESSAGE_REQUEST, /**< wants a reply of `argument` bytes */
    SIM_MESSAGE_REPLY,
    SIM_MESSAGE_OFFER,    /**< rendezvous: there is data for you */
    SIM_MESSAGE_GRANT,    /**< put it there */
    SIM_MESSAGE_PUT,      /**< not a message: a part of the data */
    SIM_MESSAGE_FINISH,   /**< it is all there */
    SIM_MESSAGE_FAREWELL, /**< the last one: see sim_depart.c */
};

struct sim_message {
    struct net_message net; /**< first: what callbacks get */
    struct sim *sim;
    enum sim_message_kind kind;
    bool queued; /**< it is not complete when sim_submit returns */
    uint32_t argument;
    struct sim_transfer *transfer; /**< it belongs to; or NULL */
    uint32_t transfer_offset;      /**< PUT */
    struct sim_message *next_retry;
};

void sim_submit_init(struct sim *sim);
/** A message or PUT that will be submitted. */
struct sim_message *sim_message_new(struct sim *sim, enum sim_message_kind kind, uint32_t source,
                                    uint32_t destination, struct sim_transfer *transfer,
                                    uint32_t len_bytes);
/** Hand it to the peer object of its source. */
void sim_submit(struct sim *sim, struct sim_message *message);
/** What the engine delivers. NULL: a lie, where lies are to be expected. */
struct sim_message *sim_submit_delivered(struct sim_channel *channel, uint8_t tag,
                                         const uint8_t *data, size_t len_bytes);
/** What is on its way on this channel, either direction, may be lost from now on. */
void sim_submit_closed(struct sim_channel *channel);
void sim_submit_free(struct sim *sim);

/* ---- transfers: memory and PUT ---- */

struct sim_transfer {
    struct sim_transfer *next;        /**< all of the run */
    struct sim_transfer *next_region; /**< in the target's arena */
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
    bool lossy; /**< a connection it needs was closed or an end died */
    bool finished;
};

/** Register memory for the transfer at its target. False when there is no room. */
bool sim_transfer_grant(struct sim *sim, struct sim_transfer *transfer);
/** Submit the PUTs. */
void sim_transfer_put(struct sim *sim, struct sim_transfer *transfer);
/** A PUT has completed in good order. */
void sim_transfer_placed(struct sim *sim, struct sim_message *message);
/** The target has been told that all is there. */
void sim_transfer_finish(struct sim *sim, struct sim_transfer *transfer);
/** Deregister in the middle. */
void sim_transfer_revoke(struct sim *sim, struct sim_transfer *transfer);
/** Every byte of the arena outside of registered regions is as it was. */
void sim_transfer_check_arena(struct sim_node *node);
/** Deregister what is still registered (its end was lost with a connection). */
void sim_transfer_drop_all(struct sim_node *node);
void sim_transfer_free(struct sim *sim);

/* ---- accesses: one-sided ---- */

/** A process begins: it gets a window, in runs that have accesses. */
void sim_access_start(struct sim_node *node);
/** Access the window of a peer. */
void sim_access_begin(struct sim_node *node, uint32_t peer);
/** A connection between two nodes was closed or given up: what is under way may fail. */
void sim_access_closed(struct sim *sim, uint32_t one, uint32_t other);
/** A process is about to die. */
void sim_access_died(struct sim_node *node);
/** Its window is not there any more. */
void sim_access_end(struct sim_node *node);
/** How far a node's GETs from each other one have come: it changes with all that comes. 0: none. */
void sim_access_progress(const struct sim_node *node, uint64_t *progress);
/** At the quiet end: counters are what was added to them. */
void sim_access_check(const struct sim *sim);
void sim_access_free(struct sim *sim);

/* ---- program ---- */

void sim_app_init(struct sim *sim, struct sim_node *node);
void sim_app_step(struct sim *sim, struct sim_node *node);
/** A message is complete early: the program goes on, and may send the next. */
void sim_app_completed_early(struct sim *sim, struct sim_node *node);
void sim_app_delivered(struct sim *sim, struct sim_channel *channel, struct sim_message *message);
void sim_app_completed(struct sim *sim, struct sim_message *message, enum rawe_status status);
bool sim_app_idle(const struct sim_node *node);
/** Send again what the engine could not queue, when it is time. */
void sim_app_resubmit(struct sim *sim, struct sim_node *node);

/* ---- leaving ---- */

/**
 * Do nodes leave in this run? Not when one has closed an end of a connection, and its CLOSE was lost:
 * whatever the other one sends by that is lost, as in any other run.
 */
bool sim_depart_possible(const struct sim *sim);
/** All is settled: nodes finalize, one after the other. */
void sim_depart_begin(struct sim *sim);
/** A node goes on with that. True: it leaves now. */
bool sim_depart_step(struct sim *sim, struct sim_node *node);
/** A farewell has been delivered. */
void sim_depart_farewell(struct sim *sim, struct sim_node *node);
/** Its engine finalizes. */
bool sim_depart_finalizing(const struct sim_node *node);
/** When it has to go on; UINT64_MAX: with the next frame. */
uint64_t sim_depart_wake_ns(const struct sim_node *node);
/** All have left. */
bool sim_depart_over(const struct sim *sim);

/* ---- checks ---- */

/** A frame leaves, in the packet. */
void sim_check_frame(struct sim_node *node, const struct rawe_header *header,
                     struct sim_packet *packet);
/** After each progress of a node. */
void sim_check_node(struct sim_node *node);
/** A connection was given up. */
void sim_check_failed(struct sim_channel *channel, uint64_t silent_ns);
void sim_check_given_up(struct sim_channel *channel);
/** Everything sent has been settled, everybody is quiet. */
bool sim_check_quiet(struct sim *sim);
/** Nothing has happened for too long? */
void sim_check_stalled(struct sim *sim);
/** At the quiet end: counters. */
void sim_check_counters(struct sim *sim);

/* ---- report ---- */

/** The run of this process, whose violations net_fail reports. */
extern struct sim *sim_running;
void sim_trace_line(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define sim_trace(sim, ...)                   \
    do {                                      \
        if ((sim)->options.trace) {           \
            sim_trace_line(sim, __VA_ARGS__); \
        }                                     \
    } while (0)
/** A frame in words. */
const char *sim_trace_frame(const struct sim_packet *packet, char *out, size_t out_bytes);

/* ---- run ---- */

struct sim_result {
    uint64_t events, virtual_ns, messages, puts, lost;
    uint64_t frames, resent, migrations;
    uint64_t control[SIM_CONTROLS];
    uint64_t incidents; /**< of all faults together */
    uint64_t calm_connections;
    uint64_t calm_frames;                /**< the same, when nothing has disturbed the run */
    uint64_t calm_control[SIM_CONTROLS]; /**< the same */
    uint64_t digest;                     /**< of all that happened */
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
    uint64_t incident_count; /**< happened, or kept from happening by the options */
    uint64_t digest;
    uint64_t activity_ns;  /**< when something was last submitted, delivered or completed */
    uint64_t disturbed_ns; /**< last known end of a pause or partition */
    uint64_t faults_end_ns;
    bool calm;      /**< no frame lost, doubled or late, no connection ended, no pause */
    bool finishing; /**< everything has been settled; nodes end one by one */
    bool departing; /**< the same, by finalizing: sim_depart.c */
    bool fence_passed;
    unsigned unborn; /**< processes that are still to start */
    struct sim_events events;
    struct sim_net net;
    struct sim_incidents incidents;
    struct sim_node *nodes;
    struct sim_host *hosts;
    struct net_ledger ledger;
    uint64_t puts; /**< complete in good order */
    struct sim_access *accesses;
    uint32_t accesses_count, accesses_open;
    struct sim_transfer *transfers;
    uint32_t transfer_count;
    struct sim_result retired; /**< counters of processes that have died */
    /** Told of a violation before the process ends; text is one line. */
    void (*on_violation)(struct sim *sim, const char *text);
};

/** When the route that loses frames is good again, or was; 0: none is lossy. */
static inline uint64_t sim_lossy_until_ns(const struct sim *sim)
{
    return sim->net.lossy.until_ns;
}

static inline bool sim_faults_on(const struct sim *sim)
{
    return sim->now_ns < sim->faults_end_ns;
}

/** Something is about to go wrong. False when the options want it not to. */
static inline bool sim_incident(struct sim *sim)
{
    uint64_t number = sim->incident_count++;
    return number >= sim->options.incident_first && number < sim->options.incident_end;
}

/** Chance strikes, in `ppm` of a million cases. */
static inline bool sim_strikes(struct sim *sim, struct sim_random *random, uint32_t ppm)
{
    return sim_random_chance(random, ppm) && sim_incident(sim);
}

/** One whole run. Returns when all is well. */
void sim_run(const struct sim_options *options, void (*on_violation)(struct sim *, const char *),
             struct sim_result *result);

#endif
