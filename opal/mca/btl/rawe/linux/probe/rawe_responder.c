/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The responder: the service thread calls it when a PING or a PONG comes; it answers the one and
 * notes the other. A flood must not make it eat the processor that the MPI process computes on, so it takes
 * a bounded number of frames a second and sleeps over the rest.
 */
#define _GNU_SOURCE
#include "rawe_responder_internal.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "../packet/rawe_socket.h"

/** What is kept of a frame, behind the Ethernet header: what follows in a PING has no content. */
#define HEAD_BYTES (RAWE_HEADER_BYTES + RAWE_PING_BYTES)

/** Rate limit, a token bucket: frames a second, and its depth. About 4 % of a processor. */
#define FRAMES_PER_S 20000u
#define FRAMES_BUCKET 2000u
#define PAUSE_MS 5

#define NS_PER_S 1000000000ull

struct rawe_responder {
    struct rawe_ring ring;
    struct rawe_ping_table pings;
    pthread_mutex_t tasks_lock;
    struct rawe_responder_task *tasks;
    int fd;
    struct rawe_service_source source;
    struct rawe_service *own_service; /**< NULL: the thread is shared with others */
    bool asked;           /**< the thread's: a PROBE has come since its duty was last called */
    uint64_t allowed;     /**< the thread's: frames in the token bucket */
    uint64_t refilled_ns; /**< the thread's: time up to which it has been filled */
    struct rawe_responder_duty duty;
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

/** The thread does not serve the responder any more, or never did. */
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

/** Turn the PING's head around where it lies, in the ring, and send it back as long as it was. */
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
    struct iovec pieces[] = {
        {frame, RAWE_ETH_HEADER_BYTES + HEAD_BYTES},
        {responder->zeros, header.payload_bytes - RAWE_PING_BYTES},
    };
    const struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2};
    uint8_t sender[RAWE_MAC_BYTES];

    memcpy(sender, frame + RAWE_MAC_BYTES, RAWE_MAC_BYTES);
    write_headers(responder, frame, sender, &header);
    const ssize_t sent = sendmsg(responder->fd, &message, MSG_DONTWAIT);
    count(sent >= 0 ? &responder->counters.pings_answered : &responder->counters.pings_unanswered);
}

/** `len_bytes` is what came; of that, the ring has the head. */
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

/** Returns after how many milliseconds to be called again, -1: no need. */
static int see_to_duties(struct rawe_responder *responder)
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

/** Handle what lies in the ring, as far as the rate allows. Returns false when it does not. */
static bool drain_ring(struct rawe_responder *responder)
{
    const uint64_t ns_per_frame = NS_PER_S / FRAMES_PER_S;
    const uint64_t gained = (rawe_responder_now_ns() - responder->refilled_ns) / ns_per_frame;

    responder->refilled_ns += gained * ns_per_frame;
    responder->allowed += gained;
    if (responder->allowed > FRAMES_BUCKET) {
        responder->allowed = FRAMES_BUCKET;
    }
    for (; responder->allowed > 0; responder->allowed--) {
        struct tpacket2_hdr *slot = rawe_ring_take(&responder->ring);
        if (slot == NULL) {
            return true;
        }
        handle_frame(responder, rawe_ring_frame(slot), slot->tp_len);
        rawe_ring_give_back(slot);
    }
    return false;
}

/** rawe_service_source.serve */
static int serve(struct rawe_service_source *source, short events)
{
    struct rawe_responder *responder =
        (struct rawe_responder *)((char *)source - offsetof(struct rawe_responder, source));
    bool pause = false;

    if ((events & POLLERR) != 0) {
        /* The interface went down: the kernel tells once. It is used again when it is up. */
        int code;
        socklen_t len_bytes = sizeof code;
        (void)getsockopt(responder->fd, SOL_SOCKET, SO_ERROR, &code, &len_bytes);
        pause = true;
    }
    if (!drain_ring(responder)) {
        count(&responder->counters.pauses);
        pause = true;
    }
    const int rest_ms = see_to_duties(responder);
    source->deaf = pause;
    return pause && (rest_ms < 0 || rest_ms > PAUSE_MS) ? PAUSE_MS : rest_ms;
}

int rawe_responder_start(struct rawe_responder **responder, const struct rawe_link_config *config,
                         const uint8_t mac[RAWE_MAC_BYTES], const struct rawe_responder_duty *duty,
                         struct rawe_service *service, struct rawe_link_error *error)
{
    struct rawe_responder *r = calloc(1, sizeof *r);
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
    r->fd = rawe_socket_open(&r->ring, config, RAWE_FILTER_FOR_RESPONDER, HEAD_BYTES,
                             RAWE_RING_RESPONDER_BYTES, error);
    if (r->fd < 0) {
        goto no_socket;
    }
    r->allowed = FRAMES_BUCKET;
    r->refilled_ns = rawe_responder_now_ns();
    r->source = (struct rawe_service_source){.serve = serve, .fd = r->fd};
    if (service == NULL) {
        if (rawe_service_start(&r->own_service, error) != 0) {
            goto no_service;
        }
        service = r->own_service;
    }
    if (rawe_service_add(service, &r->source) != 0) {
        *error = (struct rawe_link_error){"epoll_ctl", errno};
        goto no_source;
    }
    *responder = r;
    return 0;

no_source:
    rawe_service_stop(r->own_service);
no_service:
    rawe_ring_close(&r->ring);
    close(r->fd);
no_socket:
    stop_tasks(r);
no_tasks:
    rawe_ping_table_destroy(&r->pings);
no_table:
    free(r->zeros);
no_zeros:
    free(r);
    return -1;
}

int rawe_responder_reopen(struct rawe_responder *responder, const struct rawe_link_config *config,
                          struct rawe_link_error *error)
{
    rawe_service_unwatch(&responder->source);
    return rawe_socket_reopen(responder->fd, &responder->ring, config, RAWE_FILTER_FOR_RESPONDER,
                              HEAD_BYTES, RAWE_RING_RESPONDER_BYTES, error);
}

int rawe_responder_fd(const struct rawe_responder *responder)
{
    return responder->fd;
}

void rawe_responder_wake(struct rawe_responder *responder)
{
    rawe_service_wake(&responder->source);
}

void rawe_responder_detach(struct rawe_responder *responder)
{
    rawe_service_remove(&responder->source);
}

void rawe_responder_stop(struct rawe_responder *responder)
{
    if (responder == NULL) {
        return;
    }
    rawe_responder_detach(responder);
    rawe_service_stop(responder->own_service);
    rawe_ring_close(&responder->ring);
    close(responder->fd);
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
