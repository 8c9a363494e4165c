/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A thread that sleeps until a source's descriptor is readable or the source is woken or due, and
 * then serves it. A process has one such thread for all its interfaces.
 */
#ifndef RAWE_SERVICE_H
#define RAWE_SERVICE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "../port/rawe_port.h"

struct rawe_service;

/** An additional descriptor to wait for. */
struct rawe_service_heard {
    int fd;       /**< -1: none */
    short events; /**< POLLIN, POLLOUT */
};

#define RAWE_SERVICE_HEARD_MAX 2u

/** A source of work, part of its owner's struct. The owner sets the first three members. */
struct rawe_service_source {
    /**
     * Called by the thread. `events` is what epoll(7) reports for the descriptor, or 0 if called
     * for another reason. Returns the maximum milliseconds until the next call; -1: no limit. Must
     * not add or remove sources.
     */
    int (*serve)(struct rawe_service_source *source, short events);
    /** -1: none. `serve` may change it; call rawe_service_unwatch before closing the old one. */
    int fd;
    /** Ignore the descriptor until the next call; set and cleared by `serve`. */
    bool deaf;

    struct rawe_service *service; /**< NULL: none. This and the rest belong to the service */
    struct rawe_service_heard heard[RAWE_SERVICE_HEARD_MAX]; /**< see rawe_service_listen */
    struct rawe_service_source *next;
    uint64_t due_ns;
    short events; /**< not served yet */
    bool watched; /**< epoll has the descriptor */
    bool woken;   /**< atomic */
};

/** A thread's share of its processor. Initially all zero. */
struct rawe_service_share {
    uint64_t adjusted_ns; /**< when it was last adjusted */
    uint64_t waited_ns;   /**< how long the main thread had waited for a processor by then */
    uint64_t ran_ns;      /**< how long the thread had run by then */
    int nice;             /**< the thread's nice value before the share was raised */
    bool shared;          /**< others use the main thread's processor; false if unknown */
    bool unknown;         /**< the times cannot be read, so nothing is adjusted */
    bool raised;
    bool denied;
};

/** Return true if other processes use the main thread's processor, according to these times. */
bool rawe_service_is_shared(uint64_t passed_ns, uint64_t waited_ns, uint64_t ran_ns);

/**
 * Let the calling thread run as soon as it wakes, even if a rank is computing on the same
 * processor: use nice value -20, if RLIMIT_NICE or CAP_SYS_NICE permits. With an equal share, it
 * would wait up to 5 ms for the rank after having worked (EEVDF, 250 Hz tick). Returns true if
 * permitted.
 */
bool rawe_service_raise_share(void);

/**
 * Find out whether other threads, even kernel threads, use the main thread's processor, and raise
 * this thread's share while they do not. Ranks that yield to each other got a fifth less done
 * beside threads with a raised share (Linux 6.18, two ranks per processor). Call this in the thread
 * from time to time.
 */
void rawe_service_adjust_share(struct rawe_service_share *share);

/** Create a thread with signals blocked and real-time priority raised by one. Returns an errno. */
int rawe_service_create_thread(pthread_t *thread, void *(*start)(void *), void *context,
                               const char *name);

/** Start a thread without sources. Returns 0, or -1 and the error. */
int rawe_service_start(struct rawe_service **service, struct rawe_port_error *error);

/** End the thread, which must have no sources. NULL is allowed. */
void rawe_service_stop(struct rawe_service *service);

/** Serve a source from now on, for the first time at once. Returns 0, or -1 and the error. */
int rawe_service_add(struct rawe_service *service, struct rawe_service_source *source,
                     struct rawe_port_error *error);

/** Stop serving a source; its descriptor is unused when this returns. Ignored if not added. */
void rawe_service_remove(struct rawe_service_source *source);

/** Stop waiting for the descriptor, in the thread, before it is closed or replaced. */
void rawe_service_unwatch(struct rawe_service_source *source);

/** Return true if other threads are known to use the main thread's processor. For `serve`. */
bool rawe_service_shared(const struct rawe_service_source *source);

/**
 * Also serve the source when one of these descriptors is ready; they replace the previous ones.
 * Called in the thread. Pass none before closing or replacing one, which would go unnoticed.
 */
void rawe_service_listen(struct rawe_service_source *source,
                         const struct rawe_service_heard wanted[RAWE_SERVICE_HEARD_MAX]);

/**
 * Have a source served within `in_us` us (0: soon), or earlier, together with another. Does not
 * wait. Any thread may pass 0; other calls for the same service must not be concurrent.
 */
void rawe_service_wake(struct rawe_service_source *source, unsigned in_us);

#endif
