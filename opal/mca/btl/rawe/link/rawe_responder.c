/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The responder's thread: it sleeps until a PING or a PONG comes, answers the one and notes the
 * other. A flood must not make it eat the processor that the MPI process computes on, so it takes
 * a bounded number of frames a second and sleeps over the rest.
 */
#define _GNU_SOURCE
#include "rawe_responder_internal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "rawe_socket.h"

/** Memory of the receive ring: some thirty frames on lo, hundreds at usual MTUs. */
#define RING_BYTES (1u << 20)
#define RING_BYTES_JUMBO (2u << 20)
#define JUMBO_MTU_BYTES 16000u

/** Rate limit, a token bucket: frames a second, and its depth. About 4 % of a processor. */
#define FRAMES_PER_S 20000u
#define FRAMES_BUCKET 2000u
#define PAUSE_MS 5

#define STACK_BYTES (128u << 10)
#define NS_PER_S 1000000000ull

struct rawe_responder {
    struct rawe_ring ring;
    struct rawe_ping_table pings;
    pthread_mutex_t tasks_lock;
    struct rawe_responder_task *tasks;
    int fd;
    int wake_fd;   /**< eventfd: readable when there is something to do */
    bool stopping; /**< atomic: the thread shall end */
    bool asked;    /**< the thread's: a PROBE has come since its duty was last called */
    struct rawe_responder_duty duty;
    pthread_t thread;
    uint8_t mac[RAWE_MAC_BYTES]; /**< our own */
    uint16_t ethertype;
    uint16_t port; /**< our own, to be answered to; not the session's */
    uint32_t key;
    uint8_t *zeros;                          /**< what PING frames are filled up with */
    struct rawe_responder_counters counters; /**< atomic, written by the thread */
};

uint64_t rawe_responder_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

struct rawe_ping_table *rawe_responder_ping_table(struct rawe_responder *responder)
{
    return &responder->pings;
}

void rawe_responder_task_add(struct rawe_responder *responder, struct rawe_responder_task *task)
{
    pthread_mutex_lock(&responder->tasks_lock);
    task->next = responder->tasks;
    responder->tasks = task;
    pthread_mutex_unlock(&responder->tasks_lock);
    rawe_responder_wake(responder);
}

void rawe_responder_task_remove(struct rawe_responder *responder, struct rawe_responder_task *task)
{
    pthread_mutex_lock(&responder->tasks_lock);
    struct rawe_responder_task **link = &responder->tasks;
    while (*link != task) {
        link = &(*link)->next;
    }
    *link = task->next;
    pthread_mutex_unlock(&responder->tasks_lock);
}

/** Returns the milliseconds until the first task is due, -1: none is. */
static int service_tasks(struct rawe_responder *responder)
{
    int next_ms = -1;

    pthread_mutex_lock(&responder->tasks_lock);
    for (struct rawe_responder_task *task = responder->tasks; task != NULL; task = task->next) {
        const int task_ms = task->service(task);
        if (task_ms >= 0 && (next_ms < 0 || task_ms < next_ms)) {
            next_ms = task_ms;
        }
    }
    pthread_mutex_unlock(&responder->tasks_lock);
    return next_ms;
}

/** The thread has ended, or never began. */
static void stop_tasks(struct rawe_responder *responder)
{
    while (responder->tasks != NULL) {
        struct rawe_responder_task *task = responder->tasks;
        responder->tasks = task->next;
        task->stop(task);
    }
    pthread_mutex_destroy(&responder->tasks_lock);
}

unsigned rawe_responder_paced_pings(const struct rawe_responder *responder)
{
    return rawe_path_paced_pings(rawe_ring_slots(&responder->ring), FRAMES_PER_S);
}

static void count(uint64_t *counter)
{
    __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

/** Write Ethernet and rawe header of a PING or PONG. */
static void write_headers(const struct rawe_responder *responder, uint8_t *frame,
                          const uint8_t mac[RAWE_MAC_BYTES], const struct rawe_header *header)
{
    memcpy(frame, mac, RAWE_MAC_BYTES);
    memcpy(frame + RAWE_MAC_BYTES, responder->mac, RAWE_MAC_BYTES);
    frame[12] = (uint8_t)(responder->ethertype >> 8);
    frame[13] = (uint8_t)responder->ethertype;
    rawe_header_encode(frame + RAWE_ETH_HEADER_BYTES, header);
}

void rawe_responder_send_ping(struct rawe_responder *responder, int index, uint32_t payload_bytes)
{
    const struct rawe_ping_entry *entry = rawe_ping_table_at(&responder->pings, index);
    const struct rawe_header header = {
        .type = RAWE_FRAME_PING,
        .port = entry->to.port,
        .key = entry->to.key,
        .payload_bytes = (uint16_t)payload_bytes,
    };
    const struct rawe_ping ping = {
        .key = responder->key,
        .port = responder->port,
        .token = entry->token,
    };
    uint8_t head[RAWE_PAYLOAD_OFFSET + RAWE_PING_BYTES];
    struct iovec pieces[] = {
        {head, sizeof head},
        {responder->zeros, payload_bytes - RAWE_PING_BYTES},
    };
    const struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2};

    rawe_ping_table_asked(&responder->pings, index, payload_bytes);
    write_headers(responder, head, entry->to.mac, &header);
    rawe_ping_encode(head + RAWE_PAYLOAD_OFFSET, &ping);
    (void)sendmsg(responder->fd, &message, MSG_DONTWAIT);
}

/** Turn the PING around where it lies, in the ring, and send it back. */
static void answer_ping(struct rawe_responder *responder, uint8_t *frame,
                        const struct rawe_header *ping_header, const struct rawe_ping *ping)
{
    const struct rawe_responder_duty *duty = &responder->duty;
    const struct rawe_header header = {
        .type = RAWE_FRAME_PONG,
        .flags = duty->serviced != NULL && duty->serviced(duty->context) ? RAWE_FLAG_SERVICED : 0,
        .port = ping->port,
        .key = ping->key,
        .payload_bytes = ping_header->payload_bytes,
    };
    uint8_t sender[RAWE_MAC_BYTES];

    memcpy(sender, frame + RAWE_MAC_BYTES, RAWE_MAC_BYTES);
    write_headers(responder, frame, sender, &header);
    const ssize_t sent = send(responder->fd, frame,
                              RAWE_PAYLOAD_OFFSET + (size_t)header.payload_bytes, MSG_DONTWAIT);
    count(sent >= 0 ? &responder->counters.pings_answered : &responder->counters.pings_unanswered);
}

static void handle_frame(struct rawe_responder *responder, uint8_t *frame, size_t len_bytes)
{
    const bool from_group = len_bytes >= RAWE_ETH_HEADER_BYTES && (frame[RAWE_MAC_BYTES] & 1) != 0;
    struct rawe_header header;
    struct rawe_ping ping;

    if (len_bytes >= RAWE_PAYLOAD_OFFSET &&
        (frame[RAWE_ETH_HEADER_BYTES + RAWE_OFFSET_VERSION_TYPE] & 0xF) == RAWE_FRAME_PROBE) {
        count(&responder->counters.probes_seen);
        responder->asked = true;
        return;
    }
    /* Nobody sends from a group address; an answer to one would go to everybody. */
    if (len_bytes < RAWE_PAYLOAD_OFFSET || from_group ||
        rawe_header_decode(&header, frame + RAWE_ETH_HEADER_BYTES,
                           len_bytes - RAWE_ETH_HEADER_BYTES) != RAWE_DECODE_OK ||
        rawe_ping_decode(&ping, frame + RAWE_PAYLOAD_OFFSET, header.payload_bytes) !=
            RAWE_DECODE_OK) {
        count(&responder->counters.frames_invalid);
        return;
    }
    if (header.type == RAWE_FRAME_PING) {
        answer_ping(responder, frame, &header, &ping);
    } else if (rawe_ping_table_answer(&responder->pings, ping.token, header.payload_bytes,
                                      (header.flags & RAWE_FLAG_SERVICED) != 0,
                                      rawe_responder_now_ns())) {
        count(&responder->counters.pongs_matched);
    } else {
        count(&responder->counters.pongs_unknown);
    }
}

static bool stopping(const struct rawe_responder *responder)
{
    return __atomic_load_n(&responder->stopping, __ATOMIC_ACQUIRE);
}

/** Sleep, or end early when told to stop. Returns true when told to stop. */
static bool pause_or_stop(const struct rawe_responder *responder)
{
    struct pollfd wake = {.fd = responder->wake_fd, .events = POLLIN};

    (void)poll(&wake, 1, PAUSE_MS);
    return stopping(responder);
}

/** Returns how long to sleep at most, in milliseconds; -1: until something happens. */
static int service(struct rawe_responder *responder)
{
    const bool asked = responder->asked;
    const int task_ms = service_tasks(responder);
    int duty_ms = -1;

    responder->asked = false;
    if (responder->duty.service != NULL) {
        duty_ms = responder->duty.service(responder->duty.context, asked);
    }
    return duty_ms < 0 || (task_ms >= 0 && task_ms < duty_ms) ? task_ms : duty_ms;
}

static void *thread_main(void *context)
{
    struct rawe_responder *responder = context;
    struct pollfd waits[] = {
        {.fd = responder->wake_fd, .events = POLLIN},
        {.fd = responder->fd, .events = POLLIN},
    };
    const uint64_t ns_per_frame = NS_PER_S / FRAMES_PER_S;
    uint64_t allowed = FRAMES_BUCKET;
    uint64_t refilled_ns = rawe_responder_now_ns();
    int sleep_ms = -1;

    for (;;) {
        if (poll(waits, 2, sleep_ms) < 0) {
            continue; /* only EINTR is possible, and signals are blocked */
        }
        if (waits[0].revents != 0) {
            eventfd_t value;
            (void)eventfd_read(responder->wake_fd, &value);
        }
        if (stopping(responder)) {
            return NULL;
        }
        if ((waits[1].revents & POLLERR) != 0) {
            /* The interface went down: the kernel tells once. It is used again when it is up. */
            int code;
            socklen_t len_bytes = sizeof code;
            (void)getsockopt(responder->fd, SOL_SOCKET, SO_ERROR, &code, &len_bytes);
            if (pause_or_stop(responder)) {
                return NULL;
            }
        }

        const uint64_t gained = (rawe_responder_now_ns() - refilled_ns) / ns_per_frame;
        refilled_ns += gained * ns_per_frame;
        allowed = allowed + gained < FRAMES_BUCKET ? allowed + gained : FRAMES_BUCKET;
        for (; allowed > 0; allowed--) {
            struct tpacket2_hdr *slot = rawe_ring_take(&responder->ring);
            if (slot == NULL) {
                break;
            }
            handle_frame(responder, rawe_ring_frame(slot), slot->tp_snaplen);
            rawe_ring_give_back(slot);
        }
        if (allowed == 0) {
            count(&responder->counters.pauses);
            if (pause_or_stop(responder)) {
                return NULL;
            }
        }
        sleep_ms = service(responder);
    }
}

/** Start the thread with a small stack, all signals left to the others. Returns an errno value. */
static int start_thread(struct rawe_responder *responder)
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
    code = pthread_create(&responder->thread, &attributes, thread_main, responder);
    if (code == EINVAL) {
        /* A program with much thread-local storage needs more stack than ours. */
        code = pthread_create(&responder->thread, NULL, thread_main, responder);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (code == 0) {
        (void)pthread_setname_np(responder->thread, "rawe-responder");
    }
    return code;
}

int rawe_responder_start(struct rawe_responder **responder, const struct rawe_link_config *config,
                         const uint8_t mac[RAWE_MAC_BYTES], const struct rawe_responder_duty *duty,
                         struct rawe_link_error *error)
{
    struct rawe_responder *r = calloc(1, sizeof *r);
    const size_t ring_bytes = config->mtu_bytes > JUMBO_MTU_BYTES ? RING_BYTES_JUMBO : RING_BYTES;
    int code;

    *responder = NULL;
    if (r == NULL) {
        *error = (struct rawe_link_error){"malloc", ENOMEM};
        return -1;
    }
    if (duty != NULL) {
        r->duty = *duty;
    }
    memcpy(r->mac, mac, RAWE_MAC_BYTES);
    r->ethertype = config->ethertype;
    r->port = config->ping_port;
    r->key = config->ping_key;
    r->zeros = calloc(1, UINT16_MAX);
    if (r->zeros == NULL) {
        *error = (struct rawe_link_error){"malloc", ENOMEM};
        goto no_zeros;
    }
    code = rawe_ping_table_init(&r->pings);
    if (code != 0) {
        *error = (struct rawe_link_error){"pthread_cond_init", code};
        goto no_table;
    }
    code = pthread_mutex_init(&r->tasks_lock, NULL);
    if (code != 0) {
        *error = (struct rawe_link_error){"pthread_mutex_init", code};
        goto no_tasks;
    }
    r->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (r->wake_fd < 0) {
        *error = (struct rawe_link_error){"eventfd", errno};
        goto no_wake_fd;
    }
    r->fd = rawe_socket_open(&r->ring, config, RAWE_FILTER_FOR_RESPONDER, config->mtu_bytes,
                             ring_bytes, error);
    if (r->fd < 0) {
        goto no_socket;
    }
    code = start_thread(r);
    if (code != 0) {
        *error = (struct rawe_link_error){"pthread_create", code};
        goto no_thread;
    }
    *responder = r;
    return 0;

no_thread:
    rawe_ring_close(&r->ring);
    close(r->fd);
no_socket:
    close(r->wake_fd);
no_wake_fd:
    stop_tasks(r);
no_tasks:
    rawe_ping_table_destroy(&r->pings);
no_table:
    free(r->zeros);
no_zeros:
    free(r);
    return -1;
}

void rawe_responder_wake(struct rawe_responder *responder)
{
    (void)eventfd_write(responder->wake_fd, 1);
}

void rawe_responder_join(struct rawe_responder *responder)
{
    if (!stopping(responder)) {
        __atomic_store_n(&responder->stopping, true, __ATOMIC_RELEASE);
        rawe_responder_wake(responder);
        pthread_join(responder->thread, NULL);
    }
}

void rawe_responder_stop(struct rawe_responder *responder)
{
    if (responder == NULL) {
        return;
    }
    rawe_responder_join(responder);
    rawe_ring_close(&responder->ring);
    close(responder->fd);
    close(responder->wake_fd);
    stop_tasks(responder);
    rawe_ping_table_destroy(&responder->pings);
    free(responder->zeros);
    free(responder);
}

int rawe_responder_watch(struct rawe_responder *responder, const struct rawe_ping_address *to)
{
    return rawe_ping_table_add(&responder->pings, to);
}

void rawe_responder_unwatch(struct rawe_responder *responder, int slot)
{
    rawe_ping_table_remove(&responder->pings, slot);
}

void rawe_responder_ping(struct rawe_responder *responder, int slot)
{
    rawe_responder_send_ping(responder, slot, RAWE_PING_BYTES);
}

uint64_t rawe_responder_last_pong_ns(const struct rawe_responder *responder, int slot)
{
    return rawe_ping_table_pong_ns(&responder->pings, slot);
}

uint64_t rawe_responder_last_absent_ns(const struct rawe_responder *responder, int slot)
{
    return rawe_ping_table_absent_ns(&responder->pings, slot);
}

void rawe_responder_read_counters(const struct rawe_responder *responder,
                                  struct rawe_responder_counters *counters)
{
    const struct rawe_responder_counters *from = &responder->counters;

    counters->pings_answered = __atomic_load_n(&from->pings_answered, __ATOMIC_RELAXED);
    counters->pings_unanswered = __atomic_load_n(&from->pings_unanswered, __ATOMIC_RELAXED);
    counters->probes_seen = __atomic_load_n(&from->probes_seen, __ATOMIC_RELAXED);
    counters->pongs_matched = __atomic_load_n(&from->pongs_matched, __ATOMIC_RELAXED);
    counters->pongs_unknown = __atomic_load_n(&from->pongs_unknown, __ATOMIC_RELAXED);
    counters->frames_invalid = __atomic_load_n(&from->frames_invalid, __ATOMIC_RELAXED);
    counters->pauses = __atomic_load_n(&from->pauses, __ATOMIC_RELAXED);
}
