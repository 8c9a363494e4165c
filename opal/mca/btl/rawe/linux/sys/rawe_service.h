/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A thread that serves several sources: it sleeps until a source's descriptor is readable, a source
 * is woken, or its time has come. A process has one for all its interfaces.
 */
#ifndef RAWE_SERVICE_H
#define RAWE_SERVICE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "../port/rawe_port.h"

struct rawe_service;

/** A descriptor to wait for besides. */
struct rawe_service_heard {
    int fd;       /**< -1: none */
    short events; /**< POLLIN, POLLOUT */
};

#define RAWE_SERVICE_HEARD_MAX 2u

/** What a thread serves; part of its owner's struct. The owner sets the first three. */
struct rawe_service_source {
    /**
     * Called by the thread. `events` is what epoll(7) says of the descriptor, 0 when something else
     * is the reason. Returns the milliseconds after which it is called again at the latest, -1: no
     * need. It may not add or remove sources.
     */
    int (*serve)(struct rawe_service_source *source, short events);
    /** -1: none. `serve` may change it; rawe_service_unwatch comes before the old one is closed. */
    int fd;
    /** Do not wait for the descriptor until the next call; set and cleared by `serve`. */
    bool deaf;

    struct rawe_service *service; /**< NULL: in none. From here on the service's own */
    struct rawe_service_heard heard[RAWE_SERVICE_HEARD_MAX]; /**< see rawe_service_listen */
    struct rawe_service_source *next;
    uint64_t due_ns;
    short events; /**< not served yet */
    bool watched; /**< epoll has the descriptor */
    bool woken;   /**< atomic */
};

/** A thread's share of its processor. All zero: it is to be adjusted. */
struct rawe_service_share {
    uint64_t adjusted_ns; /**< when that was done last */
    uint64_t waited_ns;   /**< for how long the main thread had waited for a processor by then */
    uint64_t ran_ns;      /**< for how long the thread had run by then */
    int nice;             /**< the thread's value, until it is raised */
    bool shared;  /**< others use the main thread's processor; false where that is unknown */
    bool unknown; /**< and it stays so */
    bool raised;
    bool denied;
};

/** In `passed_ns` the main thread waited, and ours ran: do other processes use its processor? */
bool rawe_service_is_shared(uint64_t passed_ns, uint64_t waited_ns, uint64_t ran_ns);

/**
 * Have the calling thread run when it wakes although a rank computes on the same processor, as far
 * as RLIMIT_NICE or CAP_SYS_NICE permits: it takes the nice value -20. With an equal share it would
 * wait up to 5 ms for the rank once it has worked (EEVDF, a tick of 250 Hz). Returns whether it may.
 */
bool rawe_service_raise_share(void);

/**
 * Find out whether others use the main thread's processor, and have the thread do the same while they
 * do not: ranks that yield to each other got a fifth less done beside such threads (Linux 6.18, two
 * ranks a processor). Kernel threads count, too. To be called now and then, by the thread.
 */
void rawe_service_adjust_share(struct rawe_service_share *share);

/** pthread_create with signals blocked, one real-time priority up. Returns an errno value. */
int rawe_service_create_thread(pthread_t *thread, void *(*start)(void *), void *context,
                               const char *name);

/** Start a thread without sources. Returns 0, or -1 and the error. */
int rawe_service_start(struct rawe_service **service, struct rawe_port_error *error);

/** End the thread. It has no sources any more. NULL is nothing to stop. */
void rawe_service_stop(struct rawe_service *service);

/** Serve a source from now on, at once for the first time. Returns 0, or -1 and the error. */
int rawe_service_add(struct rawe_service *service, struct rawe_service_source *source,
                     struct rawe_port_error *error);

/** The thread uses neither source nor descriptor when this returns. Nothing if not added. */
void rawe_service_remove(struct rawe_service_source *source);

/** In the thread, before the descriptor is closed or replaced; a new one is watched again. */
void rawe_service_unwatch(struct rawe_service_source *source);

/** Do others use the processor of the main thread, as far as is known? Called by `serve`. */
bool rawe_service_shared(const struct rawe_service_source *source);

/**
 * In the thread: serve it when one of these is ready, too, in place of the last ones. None before one
 * of them is closed or replaced by another file, which is not waited for.
 */
void rawe_service_listen(struct rawe_service_source *source,
                         const struct rawe_service_heard wanted[RAWE_SERVICE_HEARD_MAX]);

/**
 * Have a source served within `in_us` [us], 0: soon, or earlier, with another one; without waiting.
 * From any thread if it is 0, else calls for the same service do not overlap.
 */
void rawe_service_wake(struct rawe_service_source *source, unsigned in_us);

#endif
