/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The path of a connection: the address and port for its frames, and their maximum length. While
 * the preferred route is down, the connection uses another. Each end chooses its own route, accepts
 * frames from any route, and answers over the route of the request.
 */
#ifndef RAWE_CONN_PATH_H
#define RAWE_CONN_PATH_H

#include "rawe_conn_state.h"

/* ---- routes ---- */

/** Initialize the path of a new connection. It uses its preferred route, which must outlive it. */
void rawe_conn_path_open(struct rawe_conn *conn, struct rawe_route *preferred);
/** Address frames to the far end of this route from now on. */
void rawe_conn_path_use(struct rawe_conn *conn, struct rawe_route *route);
/** Answer over this route: the peer's request arrived there, and other routes may not work. */
void rawe_conn_path_asked(struct rawe_conn *conn, struct rawe_route *route);
/** Return the longest payload that the preferred route carries and both ends accept. */
uint32_t rawe_conn_preferred_payload_bytes(const struct rawe_conn *conn);
/**
 * Adapt to a route that now carries less, but at least RAWE_PAYLOAD_LEAST_BYTES. New frames fit
 * both the route in use and the preferred one; lost longer frames are resent in slices.
 */
void rawe_conn_path_fit(struct rawe_conn *conn);
/** Set the longest payload that the peer accepts. */
void rawe_conn_limit_payload(struct rawe_conn *conn, uint32_t payload_max_bytes);

/* ---- transmission ---- */

/** Return the credit to advertise: the number of frames that the peer may have in flight to us. */
static inline uint16_t rawe_conn_advertise(struct rawe_conn *conn)
{
    struct rawe_pull *pull = &conn->path.into->pull;
    uint16_t frames = rawe_credit_advertise(&pull->credit, conn->lane, &conn->rx.credit);
    return conn->lane == RAWE_LANE_BULK ? rawe_grants_credit(&pull->grants, &conn->rx.grant, frames)
                                        : frames;
}
/** Return true if frames of this connection are sent in batches. */
static inline bool rawe_conn_batch_used(const struct rawe_conn *conn)
{
    return conn->path.batch == RAWE_BATCH_VALID || conn->path.batch == RAWE_BATCH_VALIDATING;
}
/** Return the flag that tells if the link has refused a frame of our kind since the last flush. */
static inline bool *rawe_conn_link_full(const struct rawe_conn *conn)
{
    struct rawe_engine *engine = conn->path.via;
    return rawe_conn_batch_used(conn) ? &engine->batches_full : &engine->link_full;
}
/**
 * Continue at the next flush, because the link is full: behind other connections if something was
 * transmitted. The peer's silence starts counting, so that a link which never accepts a frame is
 * noticed.
 */
__attribute__((cold)) void rawe_conn_put_off(struct rawe_conn *conn, bool transmitted,
                                             uint64_t now_ns);
/** Note that the link refused a data frame: other connections need not try before the flush. */
__attribute__((cold)) void rawe_conn_refused(struct rawe_conn *conn, bool transmitted,
                                             uint64_t now_ns);
/** Add header and checksum to a frame whose payload is in `buffer`. Returns its length. */
size_t rawe_frame_seal(uint8_t *buffer, const struct rawe_header *header);
/** Seal a frame and transmit it through `via`'s port. Returns false if the link is full. */
bool rawe_conn_transmit_sealed(struct rawe_engine *via, uint8_t *buffer,
                               const struct rawe_header *header);

/** Number of a probe that is not sent like data, so its answer is no evidence of loss. */
#define RAWE_PROBE_PLAIN 0u
/** Send a control frame to the peer's connection `peer_id`. Returns false if the link is full. */
bool rawe_conn_transmit_to(struct rawe_conn *conn, uint32_t peer_id, uint8_t type, uint8_t flags,
                           uint32_t sequence, const uint8_t *payload, size_t payload_bytes);
/** Send a control frame to the peer's connection. Returns false if the link is full. */
static inline bool rawe_conn_transmit_control(struct rawe_conn *conn, uint8_t type, uint8_t flags,
                                              uint32_t sequence, const uint8_t *payload,
                                              size_t payload_bytes)
{
    return rawe_conn_transmit_to(conn, conn->handshake.peer_id, type, flags, sequence, payload,
                                 payload_bytes);
}

/* ---- deadlines, and the peer's silence: rawe_liveness.h ---- */

/** Arm the timer for the earliest deadline. If only one is new, arming for that is enough. */
void rawe_conn_arm(struct rawe_conn *conn);
/** Slow path of rawe_conn_idle_deadline_ns. */
__attribute__((cold)) uint64_t rawe_conn_idle_question_ns(const struct rawe_conn *conn);
/**
 * Return when to probe a peer that owes no acknowledgement: to get a reply, because we are
 * finalizing, or because it seems to have ended the connection; 0: never.
 */
static inline uint64_t rawe_conn_idle_deadline_ns(const struct rawe_conn *conn)
{
    const struct rawe_engine *engine = conn->engine;
    bool any = engine->config.liveness.idle_ns != 0 || engine->operations.in_use != 0 ||
               rawe_conn_end_asks(&conn->end);
    return any ? rawe_conn_idle_question_ns(conn) : 0;
}
/** Arm the timer for the idle deadline, after it has expired or for the first time. */
void rawe_conn_arm_idle(struct rawe_conn *conn);
/** Arm the timer for the first probe of the target of an operation that starts now. */
void rawe_conn_await_reply(struct rawe_conn *conn, uint64_t now_ns);
/** Plan a probe one interval from now, unless an earlier one is planned. */
void rawe_conn_plan_probe(struct rawe_conn *conn, uint64_t now_ns);
/** Plan the probe for the acknowledgement of frames just transmitted. */
void rawe_conn_await_ack(struct rawe_conn *conn, uint64_t now_ns);
/** Recompute the probe deadline, which newer frames did not postpone. The timer has expired. */
void rawe_conn_correct_probe(struct rawe_conn *conn, uint64_t now_ns);

#endif
