/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "rawe_service.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define NS_PER_MS 1000000ull
#define NEVER_NS UINT64_MAX

/** Delay before retrying a descriptor that epoll refused (out of memory). */
#define WATCH_AGAIN_MS 10

#define EVENTS_MAX 16

/** The lowest nice value, which is the highest priority. */
#define NICE_LEAST (-20)

/** Minimum interval between adjustments of a thread's share. */
#define ADJUST_NS (50 * NS_PER_MS)

/** Kernel threads alone never use more than 1/SHARED_PART of the main thread's processor. */
#define SHARED_PART 8u

struct rawe_service {
    pthread_mutex_t lock; /**< held while serving sources, not while sleeping */
    struct rawe_service_source *sources;
    bool stopping;
    /** Unlike poll(2), epoll does not compare the number of descriptors with RLIMIT_NOFILE. */
    int epoll_fd;
    int wake_fd;       /**< eventfd, edge-triggered: never read */
    int alarm_fd;      /**< timerfd, edge-triggered: never read */
    uint64_t alarm_ns; /**< its expiry, until the thread has served; 0: not set. Atomic */
    struct rawe_service_share share;
    pthread_t thread;
};

static const struct rawe_service_heard nothing_heard[RAWE_SERVICE_HEARD_MAX] = {{.fd = -1},
                                                                                {.fd = -1}};

static void interrupt_sleep(const struct rawe_service *service)
{
    (void)eventfd_write(service->wake_fd, 1);
}

/** Interrupt the sleep in `in_us`, unless an alarm comes earlier; calls must not overlap. */
static void set_alarm(struct rawe_service *service, unsigned in_us)
{
    const struct itimerspec timer = {
        .it_value = {.tv_sec = in_us / 1000000, .tv_nsec = in_us % 1000000 * 1000l}};
    const uint64_t due_ns = rawe_port_clock_ns() + in_us * 1000ull;
    const uint64_t alarm_ns = __atomic_load_n(&service->alarm_ns, __ATOMIC_SEQ_CST);

    if (alarm_ns == 0 || alarm_ns > due_ns) {
        __atomic_store_n(&service->alarm_ns, due_ns, __ATOMIC_RELEASE);
        (void)timerfd_settime(service->alarm_fd, 0, &timer, NULL);
    }
}

/** Watch the source's descriptor, or stop if the source is deaf. Returns false on failure. */
static bool watch_source(const struct rawe_service *service, struct rawe_service_source *source)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = source};

    if (source->fd < 0 || source->deaf) {
        rawe_service_unwatch(source);
    } else if (!source->watched) {
        source->watched = epoll_ctl(service->epoll_fd, EPOLL_CTL_ADD, source->fd, &event) == 0;
        return source->watched;
    }
    return true;
}

/** Serve all due sources. Returns the milliseconds until the next one is due; -1: none. */
static int serve_sources(struct rawe_service *service)
{
    struct epoll_event ready[EVENTS_MAX];
    const int count = epoll_wait(service->epoll_fd, ready, EVENTS_MAX, 0);
    uint64_t due_ns = NEVER_NS;

    __atomic_store_n(&service->alarm_ns, 0, __ATOMIC_SEQ_CST); /* before reading `woken` */
    /* Sources are added and removed with the lock held, so none is stale. */
    for (int i = 0; i < count; i++) {
        struct rawe_service_source *source = ready[i].data.ptr;
        if (source != NULL) {
            source->events |= (short)ready[i].events; /* a source may have several descriptors */
        }
    }
    for (struct rawe_service_source *source = service->sources; source; source = source->next) {
        const bool woken = __atomic_exchange_n(&source->woken, false, __ATOMIC_SEQ_CST);
        const short events = source->events;
        if (events != 0 || woken || source->due_ns <= rawe_port_clock_ns()) {
            source->events = 0;
            const int rest_ms = source->serve(source, events);
            source->due_ns =
                rest_ms < 0 ? NEVER_NS : rawe_port_clock_ns() + (uint64_t)rest_ms * NS_PER_MS;
        }
    }
    /* One source may have replaced another's descriptor. */
    for (struct rawe_service_source *source = service->sources; source; source = source->next) {
        if (!watch_source(service, source) && source->due_ns == NEVER_NS) {
            source->due_ns = rawe_port_clock_ns() + WATCH_AGAIN_MS * NS_PER_MS;
        }
        due_ns = source->due_ns < due_ns ? source->due_ns : due_ns;
    }
    if (due_ns == NEVER_NS) {
        return -1;
    }
    /* Round up: waking early would mean not sleeping for the last millisecond. */
    const uint64_t now = rawe_port_clock_ns();
    return due_ns <= now ? 0 : (int)((due_ns - now + NS_PER_MS - 1) / NS_PER_MS);
}

static void *serve_in_thread(void *context)
{
    struct rawe_service *service = context;

    pthread_mutex_lock(&service->lock);
    while (!service->stopping) {
        const int timeout_ms = serve_sources(service);
        struct epoll_event event;
        pthread_mutex_unlock(&service->lock);
        (void)epoll_wait(service->epoll_fd, &event, 1, timeout_ms);
        rawe_service_adjust_share(&service->share);
        pthread_mutex_lock(&service->lock);
    }
    pthread_mutex_unlock(&service->lock);
    return NULL;
}

/**
 * Raise the thread's priority by one, if permitted. Under SCHED_FIFO or SCHED_RR, a polling rank
 * never yields to a thread with its own priority or under SCHED_OTHER, and would wait forever for a
 * lock that this thread holds. The thread sleeps most of the time, and never waits for the rank.
 */
static void raise_priority(pthread_t thread)
{
    struct sched_param parameters;
    int policy;

    if (pthread_getschedparam(thread, &policy, &parameters) == 0 &&
        (policy == SCHED_FIFO || policy == SCHED_RR) &&
        parameters.sched_priority < sched_get_priority_max(policy)) {
        parameters.sched_priority++;
        (void)pthread_setschedparam(thread, policy, &parameters);
    }
}

bool rawe_service_raise_share(void)
{
    return setpriority(PRIO_PROCESS, 0, NICE_LEAST) == 0; /* on Linux, this thread only */
}

bool rawe_service_is_shared(uint64_t passed_ns, uint64_t waited_ns, uint64_t ran_ns)
{
    return waited_ns > ran_ns && waited_ns - ran_ns > passed_ns / SHARED_PART;
}

/** Read how long a thread ran and waited for a processor; false if the kernel does not count. */
static bool read_times(const char *path, uint64_t *ran_ns, uint64_t *waited_ns)
{
    FILE *file = fopen(path, "re");
    const bool read = file != NULL && fscanf(file, "%" SCNu64 " %" SCNu64, ran_ns, waited_ns) == 2;

    if (file != NULL) {
        fclose(file);
    }
    return read;
}

void rawe_service_adjust_share(struct rawe_service_share *share)
{
    const struct rawe_service_share before = *share;
    const uint64_t now_ns = rawe_port_clock_ns();
    uint64_t ignored;

    if (before.unknown || now_ns - before.adjusted_ns < ADJUST_NS) {
        return;
    }
    share->adjusted_ns = now_ns;
    if (!read_times("/proc/self/schedstat", &ignored, &share->waited_ns) ||
        !read_times("/proc/thread-self/schedstat", &share->ran_ns, &ignored)) {
        share->unknown = true; /* no CONFIG_SCHED_INFO, or no descriptors */
        share->shared = false;
        if (before.raised) {
            (void)setpriority(PRIO_PROCESS, 0, share->nice);
        }
        return;
    }
    if (before.adjusted_ns == 0) {
        share->nice = getpriority(PRIO_PROCESS, 0);
        return;
    }
    share->shared =
        rawe_service_is_shared(now_ns - before.adjusted_ns, share->waited_ns - before.waited_ns,
                               share->ran_ns - before.ran_ns);
    if (!share->denied && share->raised == share->shared) {
        share->raised = !share->shared;
        share->denied = share->raised ? !rawe_service_raise_share()
                                      : setpriority(PRIO_PROCESS, 0, share->nice) != 0;
    }
}

bool rawe_service_shared(const struct rawe_service_source *source)
{
    return source->service->share.shared;
}

int rawe_service_create_thread(pthread_t *thread, void *(*start)(void *), void *context,
                               const char *name)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int code = pthread_create(thread, NULL, start, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code == 0) {
        (void)pthread_setname_np(*thread, name);
        raise_priority(*thread);
    }
    return code;
}

static void destroy_service(struct rawe_service *service)
{
    if (service->alarm_fd >= 0) {
        close(service->alarm_fd);
    }
    if (service->wake_fd >= 0) {
        close(service->wake_fd);
    }
    if (service->epoll_fd >= 0) {
        close(service->epoll_fd);
    }
    pthread_mutex_destroy(&service->lock);
    free(service);
}

int rawe_service_start(struct rawe_service **out, struct rawe_port_error *error)
{
    struct rawe_service *service = calloc(1, sizeof *service);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = NULL};

    *out = NULL;
    if (service == NULL) {
        return rawe_port_failed(error, "malloc", ENOMEM);
    }
    (void)pthread_mutex_init(&service->lock, NULL);
    service->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    service->alarm_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    service->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (service->wake_fd < 0 || service->alarm_fd < 0 || service->epoll_fd < 0 ||
        epoll_ctl(service->epoll_fd, EPOLL_CTL_ADD, service->wake_fd, &event) != 0 ||
        epoll_ctl(service->epoll_fd, EPOLL_CTL_ADD, service->alarm_fd, &event) != 0) {
        *error = (struct rawe_port_error){"epoll", errno};
        destroy_service(service);
        return -1;
    }
    const int code =
        rawe_service_create_thread(&service->thread, serve_in_thread, service, "rawe-service");
    if (code != 0) {
        *error = (struct rawe_port_error){"pthread_create", code};
        destroy_service(service);
        return -1;
    }
    *out = service;
    return 0;
}

void rawe_service_stop(struct rawe_service *service)
{
    if (service == NULL) {
        return;
    }
    pthread_mutex_lock(&service->lock);
    service->stopping = true;
    pthread_mutex_unlock(&service->lock);
    interrupt_sleep(service);
    pthread_join(service->thread, NULL);
    destroy_service(service);
}

int rawe_service_add(struct rawe_service *service, struct rawe_service_source *source,
                     struct rawe_port_error *error)
{
    pthread_mutex_lock(&service->lock);
    source->service = service;
    source->due_ns = 0;
    source->events = 0;
    source->watched = false;
    memcpy(source->heard, nothing_heard, sizeof source->heard);
    __atomic_store_n(&source->woken, false, __ATOMIC_RELAXED);
    if (!watch_source(service, source)) {
        source->service = NULL;
        (void)rawe_port_failed(error, "epoll_ctl", errno);
        pthread_mutex_unlock(&service->lock);
        return -1;
    }
    source->next = service->sources;
    service->sources = source;
    pthread_mutex_unlock(&service->lock);
    interrupt_sleep(service);
    return 0;
}

void rawe_service_unwatch(struct rawe_service_source *source)
{
    if (source->watched) {
        (void)epoll_ctl(source->service->epoll_fd, EPOLL_CTL_DEL, source->fd, NULL);
        source->watched = false;
    }
    source->events = 0;
}

void rawe_service_listen(struct rawe_service_source *source,
                         const struct rawe_service_heard wanted[RAWE_SERVICE_HEARD_MAX])
{
    for (unsigned i = 0; i < RAWE_SERVICE_HEARD_MAX; i++) {
        struct rawe_service_heard *heard = &source->heard[i];
        struct epoll_event event = {.events = (uint32_t)wanted[i].events, .data.ptr = source};
        if (heard->fd == wanted[i].fd && heard->events == wanted[i].events) {
            continue;
        }
        if (heard->fd >= 0) {
            /* Fails if the descriptor was closed: then epoll has already forgotten it. */
            (void)epoll_ctl(source->service->epoll_fd, EPOLL_CTL_DEL, heard->fd, NULL);
        }
        if (wanted[i].fd >= 0) {
            (void)epoll_ctl(source->service->epoll_fd, EPOLL_CTL_ADD, wanted[i].fd, &event);
        }
        *heard = wanted[i];
    }
}

void rawe_service_remove(struct rawe_service_source *source)
{
    struct rawe_service *service = source->service;

    if (service == NULL) {
        return;
    }
    pthread_mutex_lock(&service->lock);
    struct rawe_service_source **link = &service->sources;
    while (*link != source) {
        link = &(*link)->next;
    }
    *link = source->next;
    rawe_service_unwatch(source);
    rawe_service_listen(source, nothing_heard);
    source->service = NULL;
    pthread_mutex_unlock(&service->lock);
}

void rawe_service_wake(struct rawe_service_source *source, unsigned in_us)
{
    struct rawe_service *service = source->service;

    if (service != NULL) {
        __atomic_store_n(&source->woken, true, __ATOMIC_SEQ_CST);
        if (in_us == 0) {
            interrupt_sleep(service);
        } else {
            set_alarm(service, in_us);
        }
    }
}
