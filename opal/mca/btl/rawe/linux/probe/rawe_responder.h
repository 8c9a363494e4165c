/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The responder: a socket that answers PINGs while the process computes, served by a thread that
 * otherwise sleeps. For its own process, it finds out whether a peer can be reached, with what
 * frame size, and whether it is still alive. It never uses the engine.
 */
#ifndef RAWE_RESPONDER_H
#define RAWE_RESPONDER_H

#include <stdbool.h>
#include <stdint.h>

#include "../port/rawe_port.h"
#include "../sys/rawe_service.h"
#include "rawe_path.h"
#include "rawe_watch.h"

struct rawe_responder;

/** Where a path's PINGs are sent, and through which responder. */
struct rawe_path_target {
    struct rawe_ping_address to;
    /** For indirect checks (rawe_path.indirect): another interface's responder. NULL: our own. */
    struct rawe_responder *through;
};

struct rawe_responder_counters {
    uint64_t pings_answered;
    uint64_t pings_unanswered; /**< there was no room for the answer, not even in the queue */
    uint64_t probes_seen;      /**< PROBE frames; the engine receives them, too */
    uint64_t pongs_matched;
    uint64_t pongs_unknown;  /**< answers that match no outstanding PING: late, or forged */
    uint64_t frames_invalid; /**< accepted by the filter, but malformed, or from a wrong source */
    uint64_t pauses;         /**< times that the thread slept because of the rate limit */
};

/** Duties of the thread besides answering PINGs. */
struct rawe_responder_duty {
    /**
     * Returns true if the process makes progress; PONGs report it (RAWE_FLAG_SERVICED). NULL: no.
     */
    bool (*serviced)(void *context);
    /**
     * Called by the thread after rawe_responder_wake; when frames have arrived, here or where the
     * thread listens (`asked`: with a PROBE); and after as many ms as it returned; -1: no need.
     */
    int (*service)(void *context, bool asked);
    void *context;
};

/**
 * Start a responder on a port for RAWE_PORT_RESPONDER opened with `config`, served by `service`.
 * Takes over the port, even on failure. `duty` may be NULL. Returns 0, or -1 and the error.
 */
int rawe_responder_start(struct rawe_responder **responder, struct rawe_port *wire,
                         const struct rawe_port_config *config, const uint8_t mac[RAWE_MAC_BYTES],
                         const struct rawe_responder_duty *duty, struct rawe_service *service,
                         struct rawe_port_error *error);

/** Reopen the port, like rawe_port_reopen; only in the service thread. */
int rawe_responder_reopen(struct rawe_responder *responder, int interface_index,
                          struct rawe_port_error *error);

/** Tell the responder its interface's new address. From any thread. */
void rawe_responder_set_mac(struct rawe_responder *responder, const uint8_t mac[RAWE_MAC_BYTES]);

/** Return the responder's port, which it keeps. */
struct rawe_port *rawe_responder_port(struct rawe_responder *responder);

/** Make the thread perform its duty, like rawe_service_wake; from any thread. */
void rawe_responder_wake(struct rawe_responder *responder, unsigned in_us);

/** Set the descriptors to listen to, like rawe_service_listen; only in the service thread. */
void rawe_responder_listen(struct rawe_responder *responder,
                           const struct rawe_service_heard wanted[RAWE_SERVICE_HEARD_MAX]);

/** Return rawe_service_shared; only in the service thread. */
bool rawe_responder_shared(const struct rawe_responder *responder);

/**
 * Stop serving the responder. Its duty's context may be freed afterwards. Returns its port, which
 * the caller must close. No other call may be running. NULL is allowed.
 */
struct rawe_port *rawe_responder_stop(struct rawe_responder *responder);

/**
 * Run path discovery (rawe_path.h) over `count` paths, grouped by process. Blocks until `paths`
 * holds all results or `timeout_ns` has passed. From any thread.
 */
void rawe_responder_discover(struct rawe_responder *responder, struct rawe_path *paths,
                             const struct rawe_path_target *targets, unsigned count,
                             uint64_t timeout_ns);

/** Forget that a search (rawe_path.last_chance) gave up the process at this address. */
void rawe_responder_take_back(struct rawe_responder *responder, const struct rawe_ping_address *to);

/** The validation of a path in use. */
struct rawe_validation;

/** Begin to validate a path in the responder's thread. Returns NULL when out of memory. */
struct rawe_validation *rawe_responder_validate(struct rawe_responder *responder,
                                                const struct rawe_ping_address *to,
                                                uint32_t mtu_bytes, uint64_t timeout_ns);

/** Get the result of a validation. Returns false while it is unknown. */
bool rawe_validation_result(const struct rawe_validation *validation, struct rawe_path *path);

/** Forget a validation, finished or not. NULL is allowed. */
void rawe_validation_end(struct rawe_responder *responder, struct rawe_validation *validation);

/** Watch a peer's responder (rawe_watch.h). Returns NULL when out of memory. */
struct rawe_watch *rawe_responder_watch(struct rawe_responder *responder,
                                        const struct rawe_ping_address *to);
/** NULL is allowed. */
void rawe_responder_unwatch(struct rawe_responder *responder, struct rawe_watch *watch);
/** Send one small PING. */
void rawe_responder_ping(struct rawe_responder *responder, struct rawe_watch *watch);

/** Take a snapshot of the counters; from any thread. */
void rawe_responder_read_counters(const struct rawe_responder *responder,
                                  struct rawe_responder_counters *counters);

#endif
