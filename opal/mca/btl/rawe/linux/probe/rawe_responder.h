/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The responder: a socket, served by a sleeping thread, that answers PING frames while the process
 * computes, and that finds out for its own process whether a peer can be reached, with
 * which frame size, and whether it is still alive. It never touches the engine.
 */
#ifndef RAWE_RESPONDER_H
#define RAWE_RESPONDER_H

#include <stdbool.h>
#include <stdint.h>

#include "../port/rawe_port.h"
#include "../sys/rawe_service.h"
#include "rawe_path.h"

struct rawe_responder;

/** Where a responder is reached. */
struct rawe_ping_address {
    uint8_t mac[RAWE_MAC_BYTES];
    uint16_t port;
    uint32_t key;
};

/** Where the PINGs of a path go, and through which interface. */
struct rawe_path_target {
    struct rawe_ping_address to;
    /** For indirect checks (rawe_path.indirect): another interface's responder. NULL: the asked. */
    struct rawe_responder *through;
};

struct rawe_responder_counters {
    uint64_t pings_answered;
    uint64_t pings_unanswered; /**< there was no room for the answer, or among those that wait */
    uint64_t probes_seen;      /**< PROBE frames, which belong to the engine, too */
    uint64_t pongs_matched;
    uint64_t pongs_unknown;  /**< answers to no PING under way: late, or forged */
    uint64_t frames_invalid; /**< passed the filter, not the decoder */
    uint64_t pauses;         /**< more frames than the rate limit came: slept instead */
};

/** What the thread does beside. */
struct rawe_responder_duty {
    /** Does the process make progress? Each PONG says so (RAWE_FLAG_SERVICED). NULL: no. */
    bool (*serviced)(void *context);
    /**
     * Called by the thread after rawe_responder_wake, after frames came, those listened for, too
     * (`asked`: a PROBE was among them), and after the milliseconds that it returned, -1: no need.
     */
    int (*service)(void *context, bool asked);
    void *context;
};

/**
 * Have a port for RAWE_PORT_RESPONDER, opened with `config`, served by `service`. It is taken over,
 * also on failure. `duty` may be NULL. Returns 0, or -1 and the error.
 */
int rawe_responder_start(struct rawe_responder **responder, struct rawe_port *wire,
                         const struct rawe_port_config *config, const uint8_t mac[RAWE_MAC_BYTES],
                         const struct rawe_responder_duty *duty, struct rawe_service *service,
                         struct rawe_port_error *error);

/** As rawe_port_reopen; only in the service thread. */
int rawe_responder_reopen(struct rawe_responder *responder, int interface_index,
                          struct rawe_port_error *error);

/** The interface has another address. From any thread. */
void rawe_responder_set_mac(struct rawe_responder *responder, const uint8_t mac[RAWE_MAC_BYTES]);

/** Its port, which stays its own. */
struct rawe_port *rawe_responder_port(struct rawe_responder *responder);

/** Have the thread see to its duty, as rawe_service_wake; from any thread. */
void rawe_responder_wake(struct rawe_responder *responder, unsigned in_us);

/** As rawe_service_listen; only in the service thread. */
void rawe_responder_listen(struct rawe_responder *responder,
                           const struct rawe_service_heard wanted[RAWE_SERVICE_HEARD_MAX]);

/** As rawe_service_shared; only in the service thread. */
bool rawe_responder_shared(const struct rawe_responder *responder);

/**
 * The thread serves it no longer, so that its duty's context may go. Returns its port, the caller's to
 * close. No other call may be under way; NULL is nothing to stop.
 */
struct rawe_port *rawe_responder_stop(struct rawe_responder *responder);

/**
 * Path discovery (rawe_path.h) over `count` paths: those to the same process stand together. Blocks
 * until everything is known in `paths` or `timeout_ns` has passed. From any thread.
 */
void rawe_responder_discover(struct rawe_responder *responder, struct rawe_path *paths,
                             const struct rawe_path_target *targets, unsigned count,
                             uint64_t timeout_ns);

/** The validation of a path in use. */
struct rawe_validation;

/** Begin to validate a path; the responder's thread does it. NULL without memory. */
struct rawe_validation *rawe_responder_validate(struct rawe_responder *responder,
                                                const struct rawe_ping_address *to,
                                                uint32_t mtu_bytes, uint64_t timeout_ns);

/** The result. False: not known yet. */
bool rawe_validation_result(const struct rawe_validation *validation, struct rawe_path *path);

/** Forget a validation, known or not. NULL is nothing to forget. */
void rawe_validation_end(struct rawe_responder *responder, struct rawe_validation *validation);

/** A peer's responder that may be sent PINGs. */
struct rawe_watch;

/**
 * Liveness watch. `watch` returns NULL without memory; `ping` sends one small PING; `last_pong_ns`
 * is when the newest answer came, `last_absent_ns` when the newest of a process that made no progress
 * (CLOCK_MONOTONIC, 0: never). These take no lock.
 */
struct rawe_watch *rawe_responder_watch(struct rawe_responder *responder,
                                        const struct rawe_ping_address *to);
/** NULL is nothing to forget. */
void rawe_responder_unwatch(struct rawe_responder *responder, struct rawe_watch *watch);
void rawe_responder_ping(struct rawe_responder *responder, struct rawe_watch *watch);
uint64_t rawe_watch_last_pong_ns(const struct rawe_watch *watch);
uint64_t rawe_watch_last_absent_ns(const struct rawe_watch *watch);
/** Where the newest answer came from: another address than was asked, if the peer's has changed. */
bool rawe_watch_answered_from(const struct rawe_watch *watch, uint8_t mac[RAWE_MAC_BYTES]);

/** A snapshot; safe from any thread. */
void rawe_responder_read_counters(const struct rawe_responder *responder,
                                  struct rawe_responder_counters *counters);

#endif
