/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The responder. The service thread calls it when a PING or PONG arrives; it answers PINGs and
 * records PONGs. It answers a limited number of PINGs per second, because a flood must not use up
 * the processor on which MPI computes.
 */
#define _GNU_SOURCE
#include "rawe_responder.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

/**
 * Rate limits: two token buckets of the same rate (frames per second) and depth. One is for PINGs,
 * which are answered (about 4 % of a processor at the limit), the other for frames that are only
 * read: PROBEs and PONGs. The latter never displace answers: a full switch port delays thousands of
 * PROBEs, and PINGs lost behind them would look like a dead route. Unanswered PINGs do not delay
 * PROBEs, because they are taken off the ring.
 */
#define FRAMES_PER_S 20000u
#define FRAMES_BUCKET 2000u

/** Maximum number of waiting PINGs, a power of two; in a flood, further PINGs are dropped. */
#define PINGS_WAITING 4096u

/** Maximum number of frames received at a time. */
#define DRAIN_FRAMES 2000u

/** Above the first limit, sleep this long; above the second, poll at this interval. */
#define PAUSE_MS 5
#define POLL_MS 1

#define NS_PER_S 1000000000ull
#define NS_PER_MS 1000000ull

/** With indirect checks, other responders receive answers, too: poll at this interval. */
#define INDIRECT_POLL_MS 2

/** An unanswered PING. */
struct waiting_ping {
    struct rawe_ping ping;
    uint16_t payload_bytes;
    uint8_t sender[RAWE_MAC_BYTES];
};

struct rawe_responder {
    struct rawe_port *wire;
    struct rawe_watch_table watches;
    pthread_mutex_t lock;             /**< for adding and removing searches */
    struct rawe_validation *searches; /**< their steps run in the thread */
    pthread_cond_t search_over;
    struct rawe_service_source source;
    bool full;  /**< the thread's: the kernel had no room for the last answer */
    bool asked; /**< the thread's: a PROBE has arrived since the last call of its duty */
    struct waiting_ping pings[PINGS_WAITING]; /**< the thread's: a ring, in order of arrival */
    uint32_t pings_first, pings_waiting;
    uint64_t answers;     /**< the thread's: tokens for PINGs */
    uint64_t reads;       /**< the thread's: tokens for PROBEs and PONGs */
    uint64_t refilled_ns; /**< the thread's: when both were last filled */
    struct rawe_responder_duty duty;
    _Atomic uint64_t mac; /**< our own, as a number; may change */
    uint16_t ethertype;
    uint16_t port; /**< our own, where answers go; not the session's */
    uint32_t key;
    uint32_t named;       /**< see address_number; PINGs and PONGs over UDP contain it. 0: none */
    uint16_t source_port; /**< the thread's: UDP port of the frame being received; 0: none */
    struct rawe_responder_counters counters; /**< atomic, written by the thread */
};

static void count_shared(uint64_t *counter)
{
    __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

struct rawe_watch *rawe_responder_watch(struct rawe_responder *responder,
                                        const struct rawe_ping_address *to)
{
    return rawe_watch_begin(&responder->watches, to);
}

void rawe_responder_unwatch(struct rawe_responder *responder, struct rawe_watch *watch)
{
    rawe_watch_end(&responder->watches, watch);
}

void rawe_responder_take_back(struct rawe_responder *responder, const struct rawe_ping_address *to)
{
    rawe_watch_take_back(&responder->watches, to);
}

/* ---- frames ---- */

/** Send a PING or PONG, padded with zeros. Returns false if the kernel has no room. */
static bool transmit_ping(struct rawe_responder *responder, const uint8_t mac[RAWE_MAC_BYTES],
                          const struct rawe_header *header, const struct rawe_ping *ping)
{
    static uint8_t zeros[UINT16_MAX] = {0}; /* never written */
    uint8_t head[RAWE_PAYLOAD_OFFSET + RAWE_PING_BYTES], own[RAWE_MAC_BYTES];
    const size_t zero_bytes = header->payload_bytes - RAWE_PING_BYTES;
    const struct rawe_frame frame = {
        .pieces = {{head, sizeof head}, {zeros, zero_bytes}},
        .piece_count = 2,
        .len_bytes = (uint32_t)(sizeof head + zero_bytes),
    };

    rawe_mac_of_number(atomic_load_explicit(&responder->mac, memory_order_relaxed), own);
    rawe_eth_header_encode(head, mac, own, responder->ethertype);
    rawe_header_encode(head + RAWE_ETH_HEADER_BYTES, header);
    rawe_ping_encode(head + RAWE_PAYLOAD_OFFSET, ping);
    return responder->wire->kind->transmit(responder->wire, &frame, 1) == 1;
}

/** Send a PING with this payload length. Only an answer shows that it arrived. */
static void send_ping(struct rawe_responder *responder, struct rawe_watch *watch,
                      uint32_t payload_bytes)
{
    const struct rawe_header header = {
        .type = RAWE_FRAME_PING,
        .port = watch->to.port,
        .key = watch->to.key,
        .connection_id = responder->named,
        .payload_bytes = (uint16_t)payload_bytes,
    };
    const struct rawe_ping ping = {
        .key = responder->key,
        .port = responder->port,
        .token = watch->token,
    };

    if (payload_bytes > __atomic_load_n(&watch->asked_bytes, __ATOMIC_RELAXED)) {
        __atomic_store_n(&watch->asked_bytes, payload_bytes, __ATOMIC_RELAXED);
    }
    (void)transmit_ping(responder, watch->to.mac, &header, &ping);
}

void rawe_responder_ping(struct rawe_responder *responder, struct rawe_watch *watch)
{
    send_ping(responder, watch, RAWE_PING_BYTES);
}

/** Return a PING to its sender, with the same length. Returns false if the kernel has no room. */
static bool answer_ping(struct rawe_responder *responder, const struct waiting_ping *ping)
{
    const struct rawe_responder_duty *duty = &responder->duty;
    const bool serviced = duty->serviced != NULL && duty->serviced(duty->context);
    const struct rawe_header header = {
        .type = RAWE_FRAME_PONG,
        .flags = (serviced ? RAWE_FLAG_SERVICED : 0) |
                 (rawe_watch_pinged(&responder->watches, &ping->ping) ? RAWE_FLAG_GIVEN_UP : 0),
        .port = ping->ping.port,
        .key = ping->ping.key,
        .connection_id = responder->named,
        .payload_bytes = ping->payload_bytes,
    };

    if (!transmit_ping(responder, ping->sender, &header, &ping->ping)) {
        return false;
    }
    count_shared(&responder->counters.pings_answered);
    return true;
}

/** Answer waiting PINGs, up to the limit, and as long as the kernel has room. */
static void answer_pings(struct rawe_responder *responder)
{
    responder->full = false;
    while (responder->answers > 0 && responder->pings_waiting > 0 && !responder->full) {
        const uint32_t first = responder->pings_first % PINGS_WAITING;
        if (answer_ping(responder, &responder->pings[first])) {
            responder->pings_first++;
            responder->pings_waiting--;
            responder->answers--;
        } else {
            responder->full = true; /* over UDP the program's data fills the same buffer */
        }
    }
}

static void take_ping(struct rawe_responder *responder, const uint8_t *frame,
                      const struct rawe_header *header, const struct rawe_ping *ping)
{
    if (responder->pings_waiting == PINGS_WAITING) {
        count_shared(&responder->counters.pings_unanswered);
        return;
    }
    const uint32_t last = responder->pings_first + responder->pings_waiting++;
    struct waiting_ping *taken = &responder->pings[last % PINGS_WAITING];
    *taken = (struct waiting_ping){.ping = *ping, .payload_bytes = header->payload_bytes};
    memcpy(taken->sender, frame + RAWE_MAC_BYTES, RAWE_MAC_BYTES);
    answer_pings(responder);
}

/**
 * Return the last four bytes of an address: over UDP, the IPv4 address (0: 127.0.0.1) or the IPv6
 * address's hash.
 */
static uint32_t address_number(const uint8_t mac[RAWE_MAC_BYTES])
{
    return (uint32_t)mac[2] << 24 | (uint32_t)mac[3] << 16 | (uint32_t)mac[4] << 8 | mac[5];
}

/**
 * Return true if a PING or PONG arrived from the address that it names. Otherwise a router has
 * translated the address (NAT): other frames would not be known as this peer's.
 */
static bool is_untranslated(const struct rawe_header *header, const uint8_t *frame)
{
    return header->connection_id == 0 ||
           header->connection_id == address_number(frame + RAWE_MAC_BYTES);
}

/** rawe_port_receiver.arrived */
static void note_source(void *context, uint64_t arrived_ns, uint16_t source_port)
{
    struct rawe_responder *responder = context;

    (void)arrived_ns;
    responder->source_port = source_port;
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
        count_shared(&responder->counters.probes_seen);
        responder->reads -= responder->reads > 0;
        responder->asked = true;
        return;
    }
    /* No host sends from a group address; an answer to one would reach all hosts. */
    if (len_bytes < RAWE_PAYLOAD_OFFSET || from_group ||
        rawe_header_decode(&header, frame + RAWE_ETH_HEADER_BYTES,
                           len_bytes - RAWE_ETH_HEADER_BYTES) != RAWE_DECODE_OK ||
        rawe_ping_decode(&ping, frame + RAWE_PAYLOAD_OFFSET, header.payload_bytes) !=
            RAWE_DECODE_OK ||
        !is_untranslated(&header, frame) ||
        /* An answer goes only to the port that asked. */
        (header.type == RAWE_FRAME_PING && responder->source_port != 0 &&
         responder->source_port != ping.port)) {
        count_shared(&responder->counters.frames_invalid);
        return;
    }
    if (header.type == RAWE_FRAME_PING) {
        take_ping(responder, frame, &header, &ping);
        return;
    }
    responder->reads -= responder->reads > 0;
    count_shared(rawe_watch_answered(&responder->watches, frame + RAWE_MAC_BYTES,
                                     responder->source_port, ping.token, &header,
                                     rawe_port_clock_ns())
                     ? &responder->counters.pongs_matched
                     : &responder->counters.pongs_unknown);
}

/* ---- path discovery: passes time and PONGs to rawe_path.h, and sends its PINGs ---- */

/** The PINGs of a path, sent by one responder. */
struct line {
    struct rawe_responder *through;
    struct rawe_watch *watch; /**< NULL: out of memory */
    uint32_t seen_bytes;      /**< the longest answer passed on */
};

/** A search over a call's paths, or the validation of one path. */
struct rawe_validation {
    struct rawe_validation *next;
    struct rawe_path path; /**< the path being validated */
    struct rawe_path_search search;
    bool indirect; /**< other responders also receive answers */
    bool over;     /**< atomic: the results are final */
    struct line lines[];
};

static void take_answers(struct rawe_validation *one)
{
    for (unsigned i = 0; i < one->search.count; i++) {
        struct line *line = &one->lines[i];
        if (line->watch == NULL) {
            continue;
        }
        if (__atomic_exchange_n(&line->watch->heard, false, __ATOMIC_RELAXED)) {
            rawe_path_search_heard(&one->search, i);
        }
        if (__atomic_load_n(&line->watch->refused, __ATOMIC_RELAXED)) {
            rawe_path_search_refused(&one->search, i);
            continue;
        }
        const uint32_t pong_bytes = __atomic_load_n(&line->watch->pong_bytes, __ATOMIC_ACQUIRE);
        if (pong_bytes > line->seen_bytes) {
            line->seen_bytes = pong_bytes;
            rawe_path_search_answered(&one->search, i, pong_bytes + RAWE_HEADER_BYTES);
        }
    }
}

/**
 * Give up the processes that a search has not found: from now on, answers to them say so. PINGs
 * are answered in this thread, too, so a process is either told or, if it asked before, waited for.
 */
static void give_up_absent(struct rawe_validation *one)
{
    for (unsigned i = 0; i < one->search.count; i++) {
        struct rawe_watch *watch = one->lines[i].watch;
        if (watch != NULL && rawe_path_search_gives_up(&one->search, i)) {
            rawe_watch_give_up(&one->lines[i].through->watches, watch);
            one->lines[i].watch = NULL;
        }
    }
}

/** Take a step of a search. Returns the milliseconds until the next step; -1: it is over. */
static int step_validation(struct rawe_validation *one)
{
    struct rawe_path_ping ping;

    take_answers(one);
    if (!rawe_path_search_advance(&one->search, rawe_port_clock_ns())) {
        give_up_absent(one);
        return -1;
    }
    while (rawe_path_search_next(&one->search, &ping)) {
        const struct line *line = &one->lines[ping.path];
        if (line->watch != NULL) {
            send_ping(line->through, line->watch, ping.mtu_bytes - RAWE_HEADER_BYTES);
        }
    }
    const uint64_t now = rawe_port_clock_ns(), wake_ns = one->search.wake_ns;
    const int rest_ms = wake_ns > now ? (int)((wake_ns - now) / NS_PER_MS) + 1 : 0;
    return one->indirect && rest_ms > INDIRECT_POLL_MS ? INDIRECT_POLL_MS : rest_ms;
}

/** Take due steps of all searches. Returns the milliseconds until the next is due; -1: none. */
static int step_searches(struct rawe_responder *responder)
{
    int next_ms = -1;

    pthread_mutex_lock(&responder->lock);
    for (struct rawe_validation *one = responder->searches; one != NULL; one = one->next) {
        const int one_ms = one->over ? -1 : step_validation(one);
        if (one_ms >= 0) {
            next_ms = next_ms < 0 || one_ms < next_ms ? one_ms : next_ms;
        } else if (!one->over) {
            __atomic_store_n(&one->over, true, __ATOMIC_RELEASE);
            pthread_cond_broadcast(&responder->search_over);
        }
    }
    pthread_mutex_unlock(&responder->lock);
    return next_ms;
}

/** Begin a search; `paths` NULL: over its own path, with this MTU. NULL when out of memory. */
static struct rawe_validation *begin_search(struct rawe_responder *responder,
                                            struct rawe_path *paths, uint32_t mtu_bytes,
                                            const struct rawe_path_target *targets, unsigned count,
                                            uint64_t timeout_ns)
{
    struct rawe_validation *one = calloc(1, sizeof *one + count * sizeof one->lines[0]);

    if (one == NULL) {
        return NULL;
    }
    for (unsigned i = 0; i < count; i++) {
        struct line *line = &one->lines[i];
        line->through = targets[i].through != NULL ? targets[i].through : responder;
        line->watch = rawe_watch_seek(&line->through->watches, &targets[i].to);
        one->indirect = one->indirect || line->through != responder;
    }
    one->path.mtu_bytes = mtu_bytes;
    paths = paths != NULL ? paths : &one->path;
    for (unsigned i = 0; i < count; i++) {
        paths[i].overhead_bytes = responder->wire->overhead_bytes;
    }
    /* Ring and rate must suffice for the answers to the PINGs of one pace interval. */
    rawe_path_search_begin(&one->search, paths, count,
                           rawe_path_paced_pings(responder->wire->receive_frames, FRAMES_PER_S),
                           rawe_port_clock_ns(), timeout_ns);
    pthread_mutex_lock(&responder->lock);
    one->next = responder->searches;
    responder->searches = one;
    pthread_mutex_unlock(&responder->lock);
    rawe_responder_wake(responder, 0);
    return one;
}

void rawe_responder_discover(struct rawe_responder *responder, struct rawe_path *paths,
                             const struct rawe_path_target *targets, unsigned count,
                             uint64_t timeout_ns)
{
    struct rawe_validation *one = begin_search(responder, paths, 0, targets, count, timeout_ns);

    if (one == NULL) {
        /* Without memory, no PING can be sent and no path is found. */
        struct rawe_path_search none;
        rawe_path_search_begin(&none, paths, count, 1, 0, 0);
        return;
    }
    pthread_mutex_lock(&responder->lock);
    while (!one->over) {
        pthread_cond_wait(&responder->search_over, &responder->lock);
    }
    pthread_mutex_unlock(&responder->lock);
    rawe_validation_end(responder, one);
}

struct rawe_validation *rawe_responder_validate(struct rawe_responder *responder,
                                                const struct rawe_ping_address *to,
                                                uint32_t mtu_bytes, uint64_t timeout_ns)
{
    const struct rawe_path_target target = {.to = *to};

    return begin_search(responder, NULL, mtu_bytes, &target, 1, timeout_ns);
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
    if (validation == NULL) {
        return;
    }
    pthread_mutex_lock(&responder->lock);
    struct rawe_validation **link = &responder->searches;
    while (*link != validation) {
        link = &(*link)->next;
    }
    *link = validation->next;
    pthread_mutex_unlock(&responder->lock);
    for (unsigned i = 0; i < validation->search.count; i++) {
        struct line *line = &validation->lines[i];
        rawe_watch_unseek(&line->through->watches, line->watch);
    }
    free(validation);
}

/* ---- the service thread ---- */

static uint64_t fill_bucket(uint64_t tokens, uint64_t gained)
{
    return tokens + gained < FRAMES_BUCKET ? tokens + gained : FRAMES_BUCKET;
}

/** Handle received frames. Returns false while PINGs still wait for an answer. */
static bool drain_port(struct rawe_responder *responder)
{
    static const struct rawe_port_receiver receiver = {.frame = handle_frame,
                                                       .arrived = note_source};
    const uint64_t ns_per_frame = NS_PER_S / FRAMES_PER_S;
    const uint64_t gained = (rawe_port_clock_ns() - responder->refilled_ns) / ns_per_frame;
    unsigned received = 0;

    responder->refilled_ns += gained * ns_per_frame;
    responder->answers = fill_bucket(responder->answers, gained);
    responder->reads = fill_bucket(responder->reads, gained);
    answer_pings(responder);
    /* Receive at most one ring's worth of frames, because the thread also serves other sources. */
    while (received < responder->wire->receive_frames) {
        const unsigned got = rawe_port_receive(responder->wire, DRAIN_FRAMES, &receiver, responder);
        received += got;
        if (got < DRAIN_FRAMES) {
            break;
        }
    }
    return responder->pings_waiting == 0;
}

/** rawe_service_source.serve */
static int serve_responder(struct rawe_service_source *source, short events)
{
    struct rawe_responder *responder =
        (struct rawe_responder *)((char *)source - offsetof(struct rawe_responder, source));
    int pause_ms = -1;

    if ((events & EPOLLERR) != 0) {
        /* The interface went down, which the kernel reports once; it is used again once up. */
        int code;
        socklen_t len_bytes = sizeof code;
        (void)getsockopt(source->fd, SOL_SOCKET, SO_ERROR, &code, &len_bytes);
        pause_ms = PAUSE_MS;
    }
    if (!drain_port(responder)) {
        count_shared(&responder->counters.pauses);
        pause_ms = responder->full ? POLL_MS : PAUSE_MS;
    } else if (responder->reads == 0) {
        pause_ms = POLL_MS;
    }
    const bool asked = responder->asked;
    int rest_ms = step_searches(responder);
    responder->asked = false;
    if (responder->duty.service != NULL) {
        const int duty_ms = responder->duty.service(responder->duty.context, asked);
        rest_ms = duty_ms >= 0 && (rest_ms < 0 || duty_ms < rest_ms) ? duty_ms : rest_ms;
    }
    source->deaf = pause_ms >= 0;
    return source->deaf && (rest_ms < 0 || rest_ms > pause_ms) ? pause_ms : rest_ms;
}

int rawe_responder_start(struct rawe_responder **responder, struct rawe_port *wire,
                         const struct rawe_port_config *config, const uint8_t mac[RAWE_MAC_BYTES],
                         const struct rawe_responder_duty *duty, struct rawe_service *service,
                         struct rawe_port_error *error)
{
    struct rawe_responder *r = calloc(1, sizeof *r);

    *responder = NULL;
    *error = (struct rawe_port_error){"malloc", ENOMEM};
    if (r == NULL) {
        rawe_port_close(wire);
        return -1;
    }
    r->wire = wire;
    if (duty != NULL) {
        r->duty = *duty;
    }
    atomic_init(&r->mac, rawe_mac_number(mac));
    r->ethertype = config->ethertype;
    r->port = config->ping_port;
    r->key = config->ping_key;
    r->named = address_number(config->address);
    rawe_watch_table_init(&r->watches);
    (void)pthread_mutex_init(&r->lock, NULL);
    (void)pthread_cond_init(&r->search_over, NULL);
    r->answers = r->reads = FRAMES_BUCKET;
    r->refilled_ns = rawe_port_clock_ns();
    r->source = (struct rawe_service_source){.serve = serve_responder, .fd = r->wire->fd};
    *responder = r; /* the thread immediately calls its duty, which may use it */
    if (rawe_service_add(service, &r->source, error) != 0) {
        *responder = NULL;
        rawe_port_close(rawe_responder_stop(r));
        return -1;
    }
    return 0;
}

int rawe_responder_reopen(struct rawe_responder *responder, int interface_index,
                          struct rawe_port_error *error)
{
    rawe_service_unwatch(&responder->source); /* the descriptor will refer to another file */
    return rawe_port_reopen(responder->wire, interface_index, error);
}

void rawe_responder_set_mac(struct rawe_responder *responder, const uint8_t mac[RAWE_MAC_BYTES])
{
    atomic_store_explicit(&responder->mac, rawe_mac_number(mac), memory_order_relaxed);
}

struct rawe_port *rawe_responder_port(struct rawe_responder *responder)
{
    return responder->wire;
}

void rawe_responder_wake(struct rawe_responder *responder, unsigned in_us)
{
    rawe_service_wake(&responder->source, in_us);
}

void rawe_responder_listen(struct rawe_responder *responder,
                           const struct rawe_service_heard wanted[RAWE_SERVICE_HEARD_MAX])
{
    rawe_service_listen(&responder->source, wanted);
}

bool rawe_responder_shared(const struct rawe_responder *responder)
{
    return rawe_service_shared(&responder->source);
}

struct rawe_port *rawe_responder_stop(struct rawe_responder *responder)
{
    if (responder == NULL) {
        return NULL;
    }
    struct rawe_port *wire = responder->wire;
    rawe_service_remove(&responder->source);
    while (responder->searches != NULL) {
        rawe_validation_end(responder, responder->searches);
    }
    rawe_watch_table_destroy(&responder->watches);
    pthread_cond_destroy(&responder->search_over);
    pthread_mutex_destroy(&responder->lock);
    free(responder);
    return wire;
}

void rawe_responder_read_counters(const struct rawe_responder *responder,
                                  struct rawe_responder_counters *counters)
{
    const uint64_t *from = (const uint64_t *)&responder->counters;
    uint64_t *to = (uint64_t *)counters;

    for (size_t i = 0; i < sizeof *counters / sizeof *to; i++) {
        to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
    }
}
