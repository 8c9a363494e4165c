/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The responder: the service thread calls it when a PING or a PONG comes; it answers the one and
 * notes the other. A flood must not cost the processor that the MPI process computes on, so it
 * answers a bounded number of PINGs a second.
 */
#define _GNU_SOURCE
#include "rawe_responder.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>

/**
 * Rate limits, two token buckets of the same rate (frames a second) and depth: for PINGs, each of
 * which is answered (at the limit about 4 % of a processor), and for what is only read: PROBEs and
 * PONGs. What is read never takes an answer's place: a full port of a switch delays PROBEs by the
 * thousand, and PINGs lost behind them would look like a dead route.
 */
#define FRAMES_PER_S 20000u
#define FRAMES_BUCKET 2000u

/** Beyond the first limit it sleeps that long; beyond the second it polls that often. */
#define PAUSE_MS 5
#define POLL_MS 1

#define NS_PER_S 1000000000ull
#define NS_PER_MS 1000000ull

/** With indirect checks, answers come to other responders' tables as well: polled this often. */
#define INDIRECT_POLL_NS (2 * NS_PER_MS)

struct rawe_responder {
    struct rawe_port *wire;
    struct rawe_ping_table pings;
    pthread_mutex_t validations_lock;
    struct rawe_validation *validations; /**< the thread sees to them */
    struct rawe_service_source source;
    struct rawe_service *own_service; /**< NULL: the thread is shared with others */
    bool asked;           /**< the thread's: a PROBE has come since its duty was last called */
    uint64_t answers;     /**< the thread's: tokens for PINGs */
    uint64_t reads;       /**< the thread's: tokens for other frames */
    uint64_t refilled_ns; /**< the thread's: time up to which both have been filled */
    struct rawe_responder_duty duty;
    uint8_t mac[RAWE_MAC_BYTES]; /**< our own */
    uint16_t ethertype;
    uint16_t port; /**< our own, to be answered to; not the session's */
    uint32_t key;
    uint8_t *zeros;                          /**< what PING frames are filled up with */
    struct rawe_responder_counters counters; /**< atomic, written by the thread */
};

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
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

/** Send a frame's head with zeros behind it. Returns false: the kernel has no room. */
static bool transmit(struct rawe_responder *responder, uint8_t *head, size_t head_bytes,
                     size_t zero_bytes)
{
    const struct rawe_frame frame = {
        .pieces = {{head, head_bytes}, {responder->zeros, zero_bytes}},
        .piece_count = 2,
        .len_bytes = (uint32_t)(head_bytes + zero_bytes),
    };

    return rawe_port_transmit(responder->wire, &frame, 1) == 1;
}

/** Send a PING of this payload. What becomes of it only an answer can say. */
static void send_ping(struct rawe_responder *responder, int index, uint32_t payload_bytes)
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

    rawe_ping_table_asked(&responder->pings, index, payload_bytes);
    write_headers(responder, head, entry->to.mac, &header);
    rawe_ping_encode(head + RAWE_PAYLOAD_OFFSET, &ping);
    (void)transmit(responder, head, sizeof head, payload_bytes - RAWE_PING_BYTES);
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
    uint8_t sender[RAWE_MAC_BYTES];

    memcpy(sender, frame + RAWE_MAC_BYTES, RAWE_MAC_BYTES);
    write_headers(responder, frame, sender, &header);
    count(transmit(responder, frame, RAWE_PAYLOAD_OFFSET + RAWE_PING_BYTES,
                   header.payload_bytes - RAWE_PING_BYTES)
              ? &responder->counters.pings_answered
              : &responder->counters.pings_unanswered);
}

/** rawe_port_receiver.frame */
static void handle_frame(void *context, uint8_t *frame, size_t len_bytes)
{
    struct rawe_responder *responder = context;
    const bool from_group = len_bytes >= RAWE_ETH_HEADER_BYTES && (frame[RAWE_MAC_BYTES] & 1) != 0;
    struct rawe_header header;
    struct rawe_ping ping;

    if (len_bytes >= RAWE_PAYLOAD_OFFSET &&
        (frame[RAWE_ETH_HEADER_BYTES + RAWE_OFFSET_VERSION_TYPE] & 0xF) == RAWE_FRAME_PROBE) {
        count(&responder->counters.probes_seen);
        responder->reads -= responder->reads > 0;
        responder->asked = true;
        return;
    }
    /* No host sends from a group address; an answer to one would go to all hosts. */
    if (len_bytes < RAWE_PAYLOAD_OFFSET || from_group ||
        rawe_header_decode(&header, frame + RAWE_ETH_HEADER_BYTES,
                           len_bytes - RAWE_ETH_HEADER_BYTES) != RAWE_DECODE_OK ||
        rawe_ping_decode(&ping, frame + RAWE_PAYLOAD_OFFSET, header.payload_bytes) !=
            RAWE_DECODE_OK) {
        count(&responder->counters.frames_invalid);
        return;
    }
    if (header.type == RAWE_FRAME_PING) {
        responder->answers -= responder->answers > 0;
        answer_ping(responder, frame, &header, &ping);
        return;
    }
    responder->reads -= responder->reads > 0;
    if (rawe_ping_table_answer(&responder->pings, ping.token, header.payload_bytes,
                               (header.flags & RAWE_FLAG_SERVICED) != 0, now_ns())) {
        count(&responder->counters.pongs_matched);
    } else {
        count(&responder->counters.pongs_unknown);
    }
}

/* ---- path discovery: moves PINGs, PONGs and the time between here and rawe_path.h ---- */

/** A path's entry in the ping table of the responder that asks. */
struct line {
    struct rawe_responder *through;
    int ping;            /**< -1: no memory for it */
    uint32_t seen_bytes; /**< the longest answer that was passed on */
};

static struct line line_open(struct rawe_responder *responder,
                             const struct rawe_path_target *target)
{
    struct line line = {.through = target->through != NULL ? target->through : responder};

    line.ping = rawe_ping_table_add(&line.through->pings, &target->to);
    return line;
}

static void line_close(struct line *line)
{
    if (line->ping >= 0) {
        rawe_ping_table_remove(&line->through->pings, line->ping);
    }
}

static void take_answers(struct rawe_path_search *search, struct line *lines)
{
    for (unsigned i = 0; i < search->count; i++) {
        struct line *line = &lines[i];
        if (line->ping < 0) {
            continue;
        }
        const uint32_t pong_bytes = rawe_ping_table_pong_bytes(&line->through->pings, line->ping);
        if (pong_bytes > line->seen_bytes) {
            line->seen_bytes = pong_bytes;
            rawe_path_search_answered(search, i, pong_bytes + RAWE_HEADER_BYTES);
        }
    }
}

/** One pass of a search. False: it is over. */
static bool step(struct rawe_path_search *search, struct line *lines)
{
    struct rawe_path_ping ping;

    take_answers(search, lines);
    if (!rawe_path_search_advance(search, now_ns())) {
        return false;
    }
    while (rawe_path_search_next(search, &ping)) {
        const struct line *line = &lines[ping.path];
        if (line->ping >= 0) {
            send_ping(line->through, line->ping, ping.mtu_bytes - RAWE_HEADER_BYTES);
        }
    }
    return true;
}

/** PINGs that may leave per pace interval: what comes back fits ring and rate. */
static unsigned paced_pings(const struct rawe_responder *responder)
{
    return rawe_path_paced_pings(responder->wire->receive_frames, FRAMES_PER_S);
}

void rawe_responder_discover(struct rawe_responder *responder, struct rawe_path *paths,
                             const struct rawe_path_target *targets, unsigned count,
                             uint64_t timeout_ns)
{
    struct rawe_ping_table *table = &responder->pings;
    struct line *lines = calloc(count + 1, sizeof *lines);
    struct rawe_path_search search;
    bool indirect = false;

    /* Without memory nothing can be asked, and no path is found. */
    rawe_path_search_begin(&search, paths, count, paced_pings(responder), now_ns(),
                           lines != NULL ? timeout_ns : 0);
    for (unsigned i = 0; i < count && lines != NULL; i++) {
        lines[i] = line_open(responder, &targets[i]);
        indirect = indirect || lines[i].through != responder;
    }
    while (lines != NULL) {
        const uint64_t seen = rawe_ping_table_answers(table);
        if (!step(&search, lines)) {
            break;
        }
        uint64_t wake_ns = search.wake_ns;
        if (indirect && search.now_ns + INDIRECT_POLL_NS < wake_ns) {
            wake_ns = search.now_ns + INDIRECT_POLL_NS;
        }
        rawe_ping_table_wait(table, seen, wake_ns);
    }
    for (unsigned i = 0; i < count && lines != NULL; i++) {
        line_close(&lines[i]);
    }
    free(lines);
}

struct rawe_validation {
    struct rawe_validation *next;
    struct rawe_path path;
    struct rawe_path_search search;
    struct line line;
    bool over; /**< atomic: `path` holds the result */
};

/** Returns the milliseconds until it is to be seen to again, -1: no need. */
static int validation_service(struct rawe_validation *validation)
{
    if (validation->over) {
        return -1;
    }
    if (!step(&validation->search, &validation->line)) {
        __atomic_store_n(&validation->over, true, __ATOMIC_RELEASE);
        return -1;
    }
    const uint64_t now = now_ns(), wake_ns = validation->search.wake_ns;
    return wake_ns > now ? (int)((wake_ns - now) / NS_PER_MS) + 1 : 0;
}

/** Returns the milliseconds until the first is due, -1: none is. */
static int service_validations(struct rawe_responder *responder)
{
    int next_ms = -1;

    pthread_mutex_lock(&responder->validations_lock);
    for (struct rawe_validation *one = responder->validations; one != NULL; one = one->next) {
        const int one_ms = validation_service(one);
        if (one_ms >= 0 && (next_ms < 0 || one_ms < next_ms)) {
            next_ms = one_ms;
        }
    }
    pthread_mutex_unlock(&responder->validations_lock);
    return next_ms;
}

static void validation_free(struct rawe_validation *validation)
{
    line_close(&validation->line);
    free(validation);
}

struct rawe_validation *rawe_responder_validate(struct rawe_responder *responder,
                                                const struct rawe_ping_address *to,
                                                uint32_t mtu_bytes, uint64_t timeout_ns)
{
    const struct rawe_path_target target = {.to = *to};
    struct rawe_validation *validation = calloc(1, sizeof *validation);

    if (validation == NULL) {
        return NULL;
    }
    validation->path.mtu_bytes = mtu_bytes;
    validation->line = line_open(responder, &target);
    rawe_path_search_begin(&validation->search, &validation->path, 1, paced_pings(responder),
                           now_ns(), timeout_ns);
    pthread_mutex_lock(&responder->validations_lock);
    validation->next = responder->validations;
    responder->validations = validation;
    pthread_mutex_unlock(&responder->validations_lock);
    rawe_responder_wake(responder);
    return validation;
}

bool rawe_validation_result(const struct rawe_validation *validation, struct rawe_path *path)
{
    if (!__atomic_load_n(&validation->over, __ATOMIC_ACQUIRE)) {
        return false;
    }
    *path = validation->path;
    return true;
}

void rawe_validation_end(struct rawe_responder *responder, struct rawe_validation *validation)
{
    if (validation != NULL) {
        pthread_mutex_lock(&responder->validations_lock);
        struct rawe_validation **link = &responder->validations;
        while (*link != validation) {
            link = &(*link)->next;
        }
        *link = validation->next;
        pthread_mutex_unlock(&responder->validations_lock);
        validation_free(validation);
    }
}

/* ---- the service thread ---- */

/** Returns after how many milliseconds to be called again, -1: no need. */
static int see_to_duties(struct rawe_responder *responder)
{
    const bool asked = responder->asked;
    const int task_ms = service_validations(responder);
    int duty_ms = -1;

    responder->asked = false;
    if (responder->duty.service != NULL) {
        duty_ms = responder->duty.service(responder->duty.context, asked);
    }
    return duty_ms < 0 || (task_ms >= 0 && task_ms < duty_ms) ? task_ms : duty_ms;
}

static uint64_t filled(uint64_t tokens, uint64_t gained)
{
    return tokens + gained < FRAMES_BUCKET ? tokens + gained : FRAMES_BUCKET;
}

/** Handle the frames that wait. Returns false when there are more PINGs than may be answered. */
static bool drain(struct rawe_responder *responder)
{
    static const struct rawe_port_receiver receiver = {.frame = handle_frame};
    const uint64_t ns_per_frame = NS_PER_S / FRAMES_PER_S;
    const uint64_t gained = (now_ns() - responder->refilled_ns) / ns_per_frame;
    unsigned received = 0;

    responder->refilled_ns += gained * ns_per_frame;
    responder->answers = filled(responder->answers, gained);
    responder->reads = filled(responder->reads, gained);
    /* All of a call may be PINGs. No more calls than a full ring takes: others want the thread. */
    while (responder->answers > 0 && received < responder->wire->receive_frames) {
        const unsigned budget = (unsigned)responder->answers;
        const unsigned got = rawe_port_receive(responder->wire, budget, &receiver, responder);
        received += got;
        if (got < budget) {
            return true;
        }
    }
    return responder->answers > 0;
}

/** rawe_service_source.serve */
static int serve(struct rawe_service_source *source, short events)
{
    struct rawe_responder *responder =
        (struct rawe_responder *)((char *)source - offsetof(struct rawe_responder, source));
    int pause_ms = -1;

    if ((events & EPOLLERR) != 0) {
        /* The interface went down: the kernel tells once. It is used again when it is up. */
        int code;
        socklen_t len_bytes = sizeof code;
        (void)getsockopt(source->fd, SOL_SOCKET, SO_ERROR, &code, &len_bytes);
        pause_ms = PAUSE_MS;
    }
    if (!drain(responder)) {
        count(&responder->counters.pauses);
        pause_ms = PAUSE_MS;
    } else if (responder->reads == 0) {
        pause_ms = POLL_MS;
    }
    const int rest_ms = see_to_duties(responder);
    source->deaf = pause_ms >= 0;
    return source->deaf && (rest_ms < 0 || rest_ms > pause_ms) ? pause_ms : rest_ms;
}

int rawe_responder_start(struct rawe_responder **responder, const struct rawe_port_config *config,
                         const uint8_t mac[RAWE_MAC_BYTES], const struct rawe_responder_duty *duty,
                         struct rawe_service *service, struct rawe_port_error *error)
{
    struct rawe_port_config own = *config;
    struct rawe_responder *r = calloc(1, sizeof *r);
    int code;

    *responder = NULL;
    if (r == NULL) {
        *error = (struct rawe_port_error){"malloc", ENOMEM};
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
        *error = (struct rawe_port_error){"malloc", ENOMEM};
        goto no_zeros;
    }
    code = rawe_ping_table_init(&r->pings);
    if (code != 0) {
        *error = (struct rawe_port_error){"pthread_cond_init", code};
        goto no_table;
    }
    code = pthread_mutex_init(&r->validations_lock, NULL);
    if (code != 0) {
        *error = (struct rawe_port_error){"pthread_mutex_init", code};
        goto no_lock;
    }
    own.use = RAWE_PORT_RESPONDER;
    if (rawe_port_open(&r->wire, &own, error) != 0) {
        goto no_port;
    }
    r->answers = r->reads = FRAMES_BUCKET;
    r->refilled_ns = now_ns();
    r->source = (struct rawe_service_source){.serve = serve, .fd = r->wire->fd};
    if (service == NULL) {
        if (rawe_service_start(&r->own_service, error) != 0) {
            goto no_service;
        }
        service = r->own_service;
    }
    if (rawe_service_add(service, &r->source) != 0) {
        *error = (struct rawe_port_error){"epoll_ctl", errno};
        goto no_source;
    }
    *responder = r;
    return 0;

no_source:
    rawe_service_stop(r->own_service);
no_service:
    rawe_port_close(r->wire);
no_port:
    pthread_mutex_destroy(&r->validations_lock);
no_lock:
    rawe_ping_table_destroy(&r->pings);
no_table:
    free(r->zeros);
no_zeros:
    free(r);
    return -1;
}

int rawe_responder_reopen(struct rawe_responder *responder, int interface_index,
                          struct rawe_port_error *error)
{
    rawe_service_unwatch(&responder->source); /* another file is under the descriptor then */
    return rawe_port_reopen(responder->wire, interface_index, error);
}

struct rawe_port *rawe_responder_port(struct rawe_responder *responder)
{
    return responder->wire;
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
    while (responder->validations != NULL) {
        struct rawe_validation *validation = responder->validations;
        responder->validations = validation->next;
        validation_free(validation);
    }
    pthread_mutex_destroy(&responder->validations_lock);
    rawe_port_close(responder->wire);
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
    send_ping(responder, slot, RAWE_PING_BYTES);
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
