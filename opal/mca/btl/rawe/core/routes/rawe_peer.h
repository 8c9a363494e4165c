/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A peer: one interface of another process, as reached by one engine. It has a connection for each
 * lane, opened on first use. It decides which lane carries a message, and whether the message is
 * copied or sent in place, coalesced or alone, complete once acknowledged or once transmitted.
 *
 *   message                                        lane     how
 *   up to copy_max_bytes, and one frame            express  copied; coalesced while frames are
 *                                                           in flight
 *   longer, up to one frame                        express  in place
 *   either, in a streak that coalesces poorly      bulk     in order, several to a batch
 *   longer than a frame, or ordered                bulk     in place
 *   PUT data                                       bulk     in place
 *   short PUT, GET, ATOMIC                         express  copied and coalesced, as above
 *   their replies, if they fit a frame             express  copied and coalesced, as above
 *   control messages                               express  copied and coalesced, as above
 *   longer replies                                 bulk     in place
 */
#ifndef RAWE_PEER_H
#define RAWE_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conn/rawe_conn_end.h"
#include "conn/rawe_conn_state.h"
#include "routes/rawe_health.h"
#include "routes/rawe_quality.h"

/** Two-piece messages of up to this many bytes complete early; see rawe_message. */
#define RAWE_PEER_COPY_BYTES (16u * 1024u + 64u)

/** Longest control message, in bytes: it fits a frame on any usable path. */
#define RAWE_PEER_CONTROL_BYTES 400u

/** This many messages in a row, within streak_ns, begin a streak: each takes 2 us or more. */
#define RAWE_PEER_STREAK_MESSAGES 8u

struct rawe_peer_config {
    uint8_t mac[RAWE_MAC_BYTES];
    uint16_t port;
    uint32_t key;
    uint32_t payload_max_bytes; /**< frame payload that the path carries */
    uint8_t interface;          /**< index in the peer's list, counted from 1; 0: not known */
    uint32_t speed_mbps;        /**< nominal speed of the slower end; 0: unknown */
    void *owner;                /**< owner of its connections */
};

struct rawe_peer {
    struct rawe_engine *engine;
    struct rawe_route route;            /**< its ring may contain other routes to the process */
    struct rawe_conn *conn[RAWE_LANES]; /**< NULL until the lane is used */
    void *owner;                        /**< of its connections */
    uint32_t speed_mbps;                /**< see rawe_peer_config */
    uint64_t streak_since_ns;           /**< start of the current run of one-frame messages... */
    uint32_t streak_count;              /**< ... on the express lane, and their number */
    bool streak;                        /**< the bulk lane carries only one-frame messages */
    bool takes_part; /**< carries other routes' PUTs as well (rawe_balance.h). Atomic */
    /* written by rawe_failover.c */
    bool is_suspected;         /**< in rawe_failover's list */
    uint8_t report;            /**< enum rawe_failover_report, not reported yet */
    struct rawe_health health; /**< of the route */
    struct rawe_quality quality;
    struct rawe_peer *next_suspected;
};

/**
 * A message sent from its own memory. The caller sets `send.tag`, `send.ordered` and the pieces,
 * and owns the memory until rawe_peer_send returns RAWE_PEER_COMPLETE (with `completed_early`:
 * until `release`) or `complete` is called.
 *
 * Early completion: a message in separate memory is complete for its sender once transmitted, but
 * its memory stays in use until the peer has acknowledged it. A second piece in other memory is
 * copied to follow the first while the frames are in flight, which takes less time than waiting for
 * the acknowledgement. An untransmitted message does not complete early, because the caller might
 * make no progress for a long time.
 */
struct rawe_message {
    struct rawe_send send;
    /** Called on completion if queued. `completed_early`: the message's memory is still in use. */
    void (*complete)(struct rawe_message *message, enum rawe_status status);
    /** Called when the memory of a message that completed early may be reused. */
    void (*release)(struct rawe_message *message);
    /** The message's own memory, with room for both pieces. NULL: no early completion. */
    uint8_t *own;
    bool completed_early;
    /* the peer's */
    uint8_t phase;
    enum rawe_status status;
};

enum rawe_peer_result {
    RAWE_PEER_COMPLETE,  /**< no `complete` will follow */
    RAWE_PEER_QUEUED,    /**< `complete` will follow */
    RAWE_PEER_FAILED,    /**< the connection has failed; no callback follows */
    RAWE_PEER_NO_MEMORY, /**< the message was not accepted */
};

/** Initialize a peer, which must not move in memory. Opens nothing. The engine must outlive it. */
void rawe_peer_init(struct rawe_peer *peer, struct rawe_engine *engine,
                    const struct rawe_peer_config *config);

/** Close the peer's connections and fail their sends. Other connections move off its route. */
void rawe_peer_close(struct rawe_peer *peer);

/** Open the connection of a lane; NULL when out of memory. Use rawe_peer_conn. */
__attribute__((cold)) struct rawe_conn *rawe_peer_open(struct rawe_peer *peer, unsigned lane);

/** Return the connection of a lane, opened if necessary; NULL when out of memory. */
static inline struct rawe_conn *rawe_peer_conn(struct rawe_peer *peer, unsigned lane)
{
    struct rawe_conn *conn = peer->conn[lane];
    return __builtin_expect(conn != NULL, 1) ? conn : rawe_peer_open(peer, lane);
}

/** Connect a lane that was never used, before anything is sent on it. */
void rawe_peer_connect(struct rawe_peer *peer, unsigned lane);

/** Fail the connections to a lost process. They report the failure if it ever probes them. */
void rawe_peer_give_up(struct rawe_peer *peer);

/** Set the largest frame payload that the path was found to carry. */
void rawe_peer_set_payload_max(struct rawe_peer *peer, uint32_t payload_max_bytes);

/** Use the new MAC address of the peer's interface. */
void rawe_peer_set_mac(struct rawe_peer *peer, const uint8_t mac[RAWE_MAC_BYTES], uint64_t now_ns);

/**
 * Send a frame from which the peer learns our interface's new MAC address (rawe_engine_set_mac).
 * `opens`: open a connection for this frame if necessary.
 */
void rawe_peer_announce(struct rawe_peer *peer, bool opens, uint64_t now_ns);

/**
 * Make two peers of a process share routes. Engines may be in use, but not for messages to this
 * process. Calls must not be concurrent.
 */
void rawe_peer_join(struct rawe_peer *peer, struct rawe_peer *other);

/** Set the route down: connections use another one, if any, until rawe_peer_set_up. */
void rawe_peer_set_down(struct rawe_peer *peer, uint64_t now_ns);

/** Set the route up: its connections return, and so do others that had no working route. */
void rawe_peer_set_up(struct rawe_peer *peer, uint64_t now_ns);

/** Return the peer object whose route a connection uses. */
struct rawe_peer *rawe_peer_used(const struct rawe_conn *conn);

/** Return the next peer object of the same process; `peer` itself if it is the only one. */
struct rawe_peer *rawe_peer_next(struct rawe_peer *peer);

/** Return the worst result of rawe_conn_finalized for all the peer's connections. */
enum rawe_finalized rawe_peer_finalized(struct rawe_peer *peer, enum rawe_needs needs,
                                        uint64_t now_ns);

/** Send a short message by copying, which completes it. RAWE_STATUS_BUSY: use rawe_peer_send. */
enum rawe_status rawe_peer_send_copy(struct rawe_peer *peer, uint8_t tag, const void *first,
                                     size_t first_bytes, const void *second, size_t second_bytes);

/** Send a message in one or two pieces; see struct rawe_message. */
enum rawe_peer_result rawe_peer_send(struct rawe_peer *peer, struct rawe_message *message);

/**
 * Send a control message of up to RAWE_PEER_CONTROL_BYTES by copying it. The peer's owner receives
 * it once, through rawe_callbacks.control; control messages may overtake each other. They are for
 * the owners of engines, not for the upper layer. Returns false if the connection has failed or
 * when out of memory.
 */
bool rawe_peer_send_control(struct rawe_peer *peer, uint64_t channel, const uint8_t *data,
                            size_t len_bytes);

/** Begin a GET, ATOMIC, or copyable PUT; a long GET may have to wait. False: not begun. */
bool rawe_peer_operate(struct rawe_peer *peer, struct rawe_operation *operation);
/** Begin the GETs whose turn has come. Called in each round. */
void rawe_peer_begin_waiting(struct rawe_engine *engine);

#endif
