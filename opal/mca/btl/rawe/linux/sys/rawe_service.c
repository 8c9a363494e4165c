/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The service thread. See rawe_service.h.
 */
#define _GNU_SOURCE
#include "rawe_service.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

/**
 * Of which glibc takes the program's thread-local storage; the deepest calls (those that ask the
 * helper for a group's sockets) need some 60 KiB.
 */
#define STACK_BYTES (1u << 20)
#define NS_PER_S 1000000000ull
#define NS_PER_MS 1000000ull
#define NEVER_NS UINT64_MAX

struct rawe_service {
    pthread_mutex_t lock; /**< held while sources are served, not while the thread sleeps */
    pthread_cond_t rounds_changed;
    uint64_t rounds; /**< of the thread: each begins with a new list of descriptors */
    struct rawe_service_source *sources;
    unsigned source_count;
    bool stopping;
    int wake_fd; /**< eventfd */
    pthread_t thread;
};

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static void interrupt_sleep(const struct rawe_service *service)
{
    (void)eventfd_write(service->wake_fd, 1);
}

/** List what to wait for. Returns how many; `timeout_ms`: for how long. */
static nfds_t list_descriptors(struct rawe_service *service, struct pollfd *waits, int *timeout_ms)
{
    const uint64_t now = now_ns();
    uint64_t due_ns = NEVER_NS;
    nfds_t count = 0;

    waits[count++] = (struct pollfd){.fd = service->wake_fd, .events = POLLIN};
    for (struct rawe_service_source *source = service->sources; source; source = source->next) {
        source->index = (int)count;
        /* poll(2) ignores what is negative. */
        waits[count++] = (struct pollfd){.fd = source->deaf ? -1 : source->fd, .events = POLLIN};
        due_ns = source->due_ns < due_ns ? source->due_ns : due_ns;
    }
    if (due_ns == NEVER_NS) {
        *timeout_ms = -1;
    } else {
        /* Rounded up: not a moment too early, or it would not sleep for the last millisecond. */
        *timeout_ms = due_ns <= now ? 0 : (int)((due_ns - now + NS_PER_MS - 1) / NS_PER_MS);
    }
    return count;
}

static void serve(struct rawe_service *service, const struct pollfd *waits)
{
    const uint64_t now = now_ns();

    for (struct rawe_service_source *source = service->sources; source; source = source->next) {
        const short events = (short)(source->index < 0 ? 0 : waits[source->index].revents);
        const bool woken = __atomic_exchange_n(&source->woken, false, __ATOMIC_ACQUIRE);
        if (events != 0 || woken || source->due_ns <= now) {
            const int rest_ms = source->serve(source, events);
            source->due_ns = rest_ms < 0 ? NEVER_NS : now_ns() + (uint64_t)rest_ms * NS_PER_MS;
        }
    }
}

static void *thread_main(void *context)
{
    struct rawe_service *service = context;
    struct pollfd waits[1 + RAWE_SERVICE_SOURCES_MAX];

    pthread_mutex_lock(&service->lock);
    while (!service->stopping) {
        int timeout_ms;
        const nfds_t count = list_descriptors(service, waits, &timeout_ms);
        service->rounds++;
        pthread_cond_broadcast(&service->rounds_changed);
        pthread_mutex_unlock(&service->lock);
        while (poll(waits, count, timeout_ms) < 0) {
            /* Only EINTR is possible, of a debugger: signals are blocked. */
        }
        if (waits[0].revents != 0) {
            eventfd_t value;
            (void)eventfd_read(service->wake_fd, &value);
        }
        pthread_mutex_lock(&service->lock);
        serve(service, waits);
    }
    pthread_mutex_unlock(&service->lock);
    return NULL;
}

/** With a small stack, all signals left to the others. Returns an errno value. */
static int start_thread(struct rawe_service *service)
{
    pthread_attr_t attributes;
    sigset_t all, before;
    int code = pthread_attr_init(&attributes);

    if (code != 0) {
        return code;
    }
    (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    code = pthread_create(&service->thread, &attributes, thread_main, service);
    if (code == EINVAL) {
        /* A program with much thread-local storage needs more stack than ours. */
        code = pthread_create(&service->thread, NULL, thread_main, service);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (code == 0) {
        (void)pthread_setname_np(service->thread, "rawe-service");
    }
    return code;
}

int rawe_service_start(struct rawe_service **out, struct rawe_link_error *error)
{
    struct rawe_service *service = calloc(1, sizeof *service);
    int code;

    *out = NULL;
    if (service == NULL) {
        *error = (struct rawe_link_error){"malloc", ENOMEM};
        return -1;
    }
    code = pthread_mutex_init(&service->lock, NULL);
    if (code != 0) {
        *error = (struct rawe_link_error){"pthread_mutex_init", code};
        goto no_lock;
    }
    code = pthread_cond_init(&service->rounds_changed, NULL);
    if (code != 0) {
        *error = (struct rawe_link_error){"pthread_cond_init", code};
        goto no_condition;
    }
    service->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (service->wake_fd < 0) {
        *error = (struct rawe_link_error){"eventfd", errno};
        goto no_wake_fd;
    }
    code = start_thread(service);
    if (code != 0) {
        *error = (struct rawe_link_error){"pthread_create", code};
        goto no_thread;
    }
    *out = service;
    return 0;

no_thread:
    close(service->wake_fd);
no_wake_fd:
    pthread_cond_destroy(&service->rounds_changed);
no_condition:
    pthread_mutex_destroy(&service->lock);
no_lock:
    free(service);
    return -1;
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
    close(service->wake_fd);
    pthread_cond_destroy(&service->rounds_changed);
    pthread_mutex_destroy(&service->lock);
    free(service);
}

int rawe_service_add(struct rawe_service *service, struct rawe_service_source *source)
{
    int status = -1;

    pthread_mutex_lock(&service->lock);
    if (service->source_count < RAWE_SERVICE_SOURCES_MAX) {
        source->service = service;
        source->due_ns = 0;
        source->index = -1;
        __atomic_store_n(&source->woken, false, __ATOMIC_RELAXED);
        source->next = service->sources;
        service->sources = source;
        service->source_count++;
        status = 0;
    }
    pthread_mutex_unlock(&service->lock);
    interrupt_sleep(service);
    return status;
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
    service->source_count--;
    source->service = NULL;
    /* While it sleeps on the descriptor it holds the file, which a close elsewhere does not end. */
    const uint64_t rounds = service->rounds;
    interrupt_sleep(service);
    while (service->rounds == rounds) {
        pthread_cond_wait(&service->rounds_changed, &service->lock);
    }
    pthread_mutex_unlock(&service->lock);
}

void rawe_service_wake(struct rawe_service_source *source)
{
    struct rawe_service *service = source->service;

    if (service != NULL) {
        __atomic_store_n(&source->woken, true, __ATOMIC_RELEASE);
        interrupt_sleep(service);
    }
}
