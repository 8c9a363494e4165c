/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A peer: one interface of another process, as one engine reaches it. It has a connection for each
 * lane, opened on first use, and decides which message takes which lane and how: copied or from
 * where it lies, coalesced or alone, complete when it has been acknowledged or as soon as it has
 * been transmitted.
 *
 *   message                                        lane     how
 *   up to copy_max_bytes, and one frame            express  copied; coalesced while frames fly
 *   longer, up to one frame                        express  from where it lies
 *   either, in a streak of those that coalesce     bulk     in order, several to a batch
 *   poorly
 *   longer than a frame, or ordered                bulk     from where it lies
 *   PUT data                                       bulk     from where it lies
 *   short PUT (rawe_peer_put_short), GET, ATOMIC   express  copied; coalesced while frames fly
 *   their replies, if they fit a frame             express  the same
 *   control messages                               express  the same
 *   longer replies                                 bulk     from where they lie
 */
#ifndef RAWE_PEER_H
#define RAWE_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conn/rawe_conn_finalize.h"
#include "conn/rawe_conn_state.h"
#include "routes/rawe_health.h"
#include "routes/rawe_quality.h"

/** Messages in two pieces up to this length, in bytes, are complete early: see rawe_message. */
#define RAWE_PEER_COPY_BYTES (16u * 1024u + 64u)

/** Longest control message, in bytes: it fits a frame of any path that is used. */
#define RAWE_PEER_CONTROL_BYTES 400u

/** This many messages in a row, within streak_ns, begin a streak: each takes 2 us, or more. */
#define RAWE_PEER_STREAK_MESSAGES 8u

struct rawe_peer_config {
    uint8_t mac[RAWE_MAC_BYTES];
    uint16_t port;
    uint32_t key;
    uint32_t payload_max_bytes; /**< frame payload that the path carries */
    uint8_t interface;          /**< in the peer's list, counted from 1; 0: not known */
    uint32_t speed_mbps;        /**< nominal, of the slower end; 0: not known */
    void *owner;                /**< of the connections */
};

struct rawe_peer {
    struct rawe_engine *engine;
    struct rawe_route route;            /**< to it; others of the process may be in its ring */
    struct rawe_conn *conn[RAWE_LANES]; /**< NULL until the lane is used, and at rest */
    uint32_t resting[RAWE_LANES];       /**< id of the connection at rest; 0: it is not */
    void *owner;                        /**< of the connections */
    uint32_t speed_mbps;                /**< see rawe_peer_config */
    uint64_t streak_since_ns; /**< messages that fit a frame have been sent since then... */
    uint32_t streak_count;    /**< ... on the express lane: how many */
    bool streak;              /**< the bulk lane carries such messages, no others */
    bool takes_part;          /**< carries PUTs of others' of the process: rawe_balance.h. Atomic */
    /* rawe_failover.h's */
    bool is_suspected;         /**< in its list */
    uint8_t report;            /**< enum rawe_failover_report: not reported yet */
    struct rawe_health health; /**< of the route */
    struct rawe_quality quality;
    struct rawe_peer *next_suspected;
};

/**
 * A message that is sent from where it lies. The caller sets `send.tag`, `send.ordered`, and the
 * pieces, and owns all of it until rawe_peer_send returns RAWE_PEER_COMPLETE (with
 * `completed_early`: until `release`) or `complete` is called.
 *
 * Early completion: a message that lies in memory of its own is complete for its sender once it has
 * been transmitted, and that memory stays in use until the peer has acknowledged it. A second piece
 * in memory that is not the message's own is copied behind the first, while the frames are on their
 * way: the copy takes less time than waiting for the acknowledgement. What has not been transmitted
 * is not complete, as the caller might not make progress for long.
 */
struct rawe_message {
    struct rawe_send send;
    /** Complete, after RAWE_PEER_QUEUED. `completed_early`: its own memory is still in use. */
    void (*complete)(struct rawe_message *message, enum rawe_status status);
    /** The memory of a message that completed early is free. */
    void (*release)(struct rawe_message *message);
    /** Its own memory, with room for two pieces that can be copied. NULL: no early completion. */
    uint8_t *own;
    bool completed_early;
    /* the peer's */
    uint8_t phase;
    enum rawe_status status;
};

enum rawe_peer_result {
    RAWE_PEER_COMPLETE,  /**< no `complete` will follow */
    RAWE_PEER_QUEUED,    /**< `complete` will follow */
    RAWE_PEER_FAILED,    /**< the connection has failed; nothing follows */
    RAWE_PEER_NO_MEMORY, /**< nothing was taken */
};

/** No connection is opened yet. The engine must outlive the peer; it must not be moved in memory. */
void rawe_peer_init(struct rawe_peer *peer, struct rawe_engine *engine,
                    const struct rawe_peer_config *config);

/** Close its connections; what is left fails. Others' that use its route move. */
void rawe_peer_close(struct rawe_peer *peer);

/** Open or wake the connection of a lane; NULL without memory. Use rawe_peer_conn. */
struct rawe_conn *rawe_peer_open(struct rawe_peer *peer, unsigned lane);

/** The connection of a lane, opened or woken if need be; NULL without memory. */
static inline struct rawe_conn *rawe_peer_conn(struct rawe_peer *peer, unsigned lane)
{
    struct rawe_conn *conn = peer->conn[lane];
    return __builtin_expect(conn != NULL, 1) ? conn : rawe_peer_open(peer, lane);
}

/** Ask the peer for the connection of a lane, if that is new, before anything is sent by it. */
void rawe_peer_connect(struct rawe_peer *peer, unsigned lane);

/** The same as rawe_peer_conn, but not opened: NULL, too, when it never was. */
static inline struct rawe_conn *rawe_peer_awake(struct rawe_peer *peer, unsigned lane)
{
    return peer->resting[lane] != 0 ? rawe_peer_open(peer, lane) : peer->conn[lane];
}

/** A connection of a peer's comes to rest: see rawe_conn_rest. False without memory. */
bool rawe_peer_rest(struct rawe_conn *conn);

/** The process behind the peer is lost: its connections fail, and tell it so whenever it asks. */
void rawe_peer_give_up(struct rawe_peer *peer);

/** The path was found to carry frame payload of that length only. */
void rawe_peer_set_payload_max(struct rawe_peer *peer, uint32_t payload_max_bytes);

/** The peer's interface has another MAC address. */
void rawe_peer_set_mac(struct rawe_peer *peer, const uint8_t mac[RAWE_MAC_BYTES], uint64_t now_ns);

/**
 * Our interface has another MAC address (rawe_engine_set_mac): the peer, which learns of it by a frame,
 * is sent one. `opens`: if there is no connection, by one that is opened for that.
 */
void rawe_peer_announce(struct rawe_peer *peer, bool opens, uint64_t now_ns);

/**
 * Peers of a process share routes from now on. Engines may be in use, but not for messages to this
 * process; calls may not overlap.
 */
void rawe_peer_join(struct rawe_peer *peer, struct rawe_peer *other);

/** The route is down: connections move to another, if any, until rawe_peer_set_up. */
void rawe_peer_set_down(struct rawe_peer *peer, uint64_t now_ns);

/** The route is there again: the peer's connections return, as do others that had no other. */
void rawe_peer_set_up(struct rawe_peer *peer, uint64_t now_ns);

/** The peer object whose route a connection uses. */
struct rawe_peer *rawe_peer_used(const struct rawe_conn *conn);

/** The next peer object of the same process; the same one when there is no other. */
struct rawe_peer *rawe_peer_next(struct rawe_peer *peer);

/** rawe_conn_finalized of all its connections: the worst. */
enum rawe_finalized rawe_peer_finalized(struct rawe_peer *peer, enum rawe_needs needs,
                                        uint64_t now_ns);

/** Send a short message by copying it: complete. RAWE_STATUS_BUSY: use rawe_peer_send. */
enum rawe_status rawe_peer_send_copy(struct rawe_peer *peer, uint8_t tag, const void *first,
                                     size_t first_bytes, const void *second, size_t second_bytes);

/** Send a message in one or two pieces; see struct rawe_message. */
enum rawe_peer_result rawe_peer_send(struct rawe_peer *peer, struct rawe_message *message);

/**
 * Send a control message of up to RAWE_PEER_CONTROL_BYTES, by copying it: the peer's owner is given it
 * once, by rawe_callbacks.control; they may overtake each other. For the owners of engines themselves,
 * not for the upper layer. False: the connection has failed, or there is no memory.
 */
bool rawe_peer_send_control(struct rawe_peer *peer, uint64_t channel, const uint8_t *data,
                            size_t len_bytes);

/** GET, ATOMIC, or a PUT that can be copied; else false. A long GET may have to wait. */
bool rawe_peer_operate(struct rawe_peer *peer, struct rawe_operation *operation);
/** Begin the GETs that have waited for their turn; called in each round. */
void rawe_peer_begin_waiting(struct rawe_engine *engine);

#endif
