/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * rawe-ping: a socket for PING and PONG, with rawe's filter and ring; the signals that interrupt
 * waiting for it; and batches. The asker sends a batch of VALIDATION frames; the listener counts
 * those that arrive unchanged, and answers when it has all of them. In their header:
 *
 *   connection id = number of the batch, acknowledgement = frames of the batch
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "linux/sys/rawe_random.h"
#include "ping.h"

#define RING_BYTES (1u << 20)
#define UDP_PORT_MIN 32768u
#define UDP_PORT_TRIES 20u
#define SLEEP_MOST_NS 100000000u

volatile sig_atomic_t ping_stopped;

static void stop(int number)
{
    ping_stopped = 1;
}

void ping_catch_stop(void)
{
    const struct sigaction action = {.sa_handler = stop};

    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

void ping_die(const char *format, ...)
{
    va_list arguments;

    fputs("rawe-ping: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(PING_CANNOT);
}

void ping_random(void *out, size_t len_bytes)
{
    if (getrandom(out, len_bytes, 0) != (ssize_t)len_bytes) {
        ping_die("getrandom: %s", strerror(errno));
    }
}

void ping_open_failed(const char *interface, const struct rawe_port_error *error)
{
    if (error->code == EPERM || error->code == EACCES) {
        ping_die("Linux lets only processes with the capability CAP_NET_RAW send raw frames.\n"
                 "Run it as root, or as doc/security.md of rawe says.");
    }
    ping_die("%s: %s: %s", interface, error->step, strerror(error->code));
}

struct rawe_mac_text ping_text(const struct ping_options *options,
                               const uint8_t address[RAWE_MAC_BYTES])
{
    return options->udp ? rawe_udp_text(address) : rawe_mac_text(address);
}

/** Return a random port number from which to ask. */
static uint16_t draw_port(bool udp)
{
    uint16_t port;

    ping_random(&port, sizeof port);
    return udp ? (uint16_t)(UDP_PORT_MIN + port % (PING_UDP_PORT - UDP_PORT_MIN)) : port;
}

struct rawe_port_config ping_config(const struct rawe_interface *interface,
                                    const struct ping_options *options)
{
    uint16_t port = options->udp ? PING_UDP_PORT : PING_PORT;
    uint32_t key = options->key;

    if (!options->listen) {
        port = draw_port(options->udp);
        ping_random(&key, sizeof key);
    }
    struct rawe_port_config config = {
        .kind = options->udp ? &rawe_udp_port : &rawe_packet_port,
        .use = RAWE_PORT_RESPONDER,
        .interface = interface->name,
        .interface_index = interface->index,
        .ethertype = options->ethertype,
        .port = port,
        .key = key,
        .ping_port = port,
        .ping_key = key,
        .mtu_bytes = interface->mtu_bytes,
        .ring_bytes = RING_BYTES,
    };
    if (options->udp) {
        memcpy(config.address, interface->mac, RAWE_MAC_BYTES);
    }
    return config;
}

int ping_open_port(struct rawe_port **port, struct rawe_port_config *config,
                   const struct ping_options *options, struct rawe_port_error *error)
{
    int code = rawe_port_open(port, config, error);

    for (unsigned i = 1; i < UDP_PORT_TRIES && code != 0 && error->code == EADDRINUSE &&
                         options->udp && !options->listen;
         i++) {
        config->port = config->ping_port = draw_port(true);
        code = rawe_port_open(port, config, error);
    }
    return code;
}

/** Over UDP, a listener answers from the port below, as processes do. Returns 0, or -1. */
static int open_link(struct ping_socket *one, struct rawe_port_error *error)
{
    struct rawe_port_config config = one->config;

    config.use = RAWE_PORT_EXPRESS;
    config.port--;
    one->config.link = NULL;
    if (rawe_port_open(&one->link, &config, error) != 0) {
        return -1;
    }
    one->config.link = one->link;
    return 0;
}

void ping_open(struct ping_socket *one, const struct rawe_interface *interface,
               const struct ping_options *options, const uint8_t *group)
{
    struct rawe_port_error error;

    memset(one, 0, sizeof *one);
    one->config = ping_config(interface, options);
    if (group != NULL) {
        memcpy(one->config.group, group, RAWE_MAC_BYTES);
    }
    memcpy(one->mac, interface->mac, RAWE_MAC_BYTES);
    one->listener_port = options->udp ? PING_UDP_PORT : PING_PORT;
    if (options->udp) {
        const bool opened = (!options->listen || open_link(one, &error) == 0) &&
                            ping_open_port(&one->udp, &one->config, options, &error) == 0;
        one->fd = opened ? one->udp->fd : -1;
    } else {
        one->fd = rawe_packet_open_socket(&one->ring, &one->config, interface->mtu_bytes,
                                          RING_BYTES, &error);
    }
    if (one->fd < 0) {
        ping_open_failed(interface->name, &error);
    }
    one->frame = calloc(1, RAWE_PAYLOAD_OFFSET + UINT16_MAX);
    one->received = calloc(1, RAWE_PAYLOAD_OFFSET + UINT16_MAX);
    if (one->frame == NULL || one->received == NULL) {
        ping_die("there is no memory left");
    }
}

void ping_close(struct ping_socket *one)
{
    if (one->udp != NULL) {
        rawe_port_close(one->udp);
        rawe_port_close(one->link);
    } else {
        rawe_ring_close(&one->ring);
        close(one->fd);
    }
    free(one->received);
    free(one->frame);
}

void ping_headers(const struct ping_socket *one, uint8_t *out, const uint8_t to[RAWE_MAC_BYTES],
                  const struct rawe_header *header)
{
    rawe_eth_header_encode(out, to, one->mac, one->config.ethertype);
    rawe_header_encode(out + RAWE_ETH_HEADER_BYTES, header);
}

bool ping_send(struct ping_socket *one, const uint8_t to[RAWE_MAC_BYTES],
               const struct rawe_header *header, const struct rawe_ping *ping)
{
    ping_headers(one, one->frame, to, header);
    if (ping != NULL) {
        rawe_ping_encode(one->frame + RAWE_PAYLOAD_OFFSET, ping);
    }
    const size_t len_bytes = RAWE_PAYLOAD_OFFSET + (size_t)header->payload_bytes;
    const struct rawe_frame frame = {
        .pieces = {{one->frame, len_bytes}}, .piece_count = 1, .len_bytes = (uint32_t)len_bytes};
    return one->udp != NULL ? one->udp->kind->transmit(one->udp, &frame, 1) == 1
                            : send(one->fd, one->frame, len_bytes, 0) >= 0;
}

uint32_t ping_named(const struct ping_socket *one, const uint8_t address[RAWE_MAC_BYTES])
{
    uint32_t named;

    memcpy(&named, address + 2, sizeof named);
    return one->udp != NULL ? ntohl(named) : 0;
}

void ping_question(struct ping_socket *one, const uint8_t to[RAWE_MAC_BYTES], uint32_t key,
                   uint64_t token, uint16_t payload_bytes)
{
    const struct rawe_header header = {
        .type = RAWE_FRAME_PING,
        .port = one->listener_port,
        .key = key,
        .connection_id = ping_named(one, one->mac),
        .payload_bytes = payload_bytes,
    };
    const struct rawe_ping ping = {
        .key = one->config.key, .port = one->config.port, .token = token};

    (void)ping_send(one, to, &header, &ping);
}

/** Decode a frame; false unless it is a valid PING or PONG. */
static bool decode(const uint8_t *frame, size_t len_bytes, struct ping_frame *out)
{
    if (len_bytes < RAWE_PAYLOAD_OFFSET ||
        rawe_header_decode(&out->header, frame + RAWE_ETH_HEADER_BYTES,
                           len_bytes - RAWE_ETH_HEADER_BYTES) != RAWE_DECODE_OK ||
        rawe_ping_decode(&out->ping, frame + RAWE_PAYLOAD_OFFSET, out->header.payload_bytes) !=
            RAWE_DECODE_OK) {
        return false;
    }
    memcpy(out->source, frame + RAWE_MAC_BYTES, RAWE_MAC_BYTES);
    out->payload = frame + RAWE_PAYLOAD_OFFSET;
    return true;
}

static void sleep_until(const struct ping_socket *one, uint64_t until_ns)
{
    const uint64_t now_ns = rawe_port_clock_ns();
    struct pollfd wait = {.fd = one->fd, .events = POLLIN};
    uint64_t left_ns = until_ns > now_ns ? until_ns - now_ns : 0;
    /* A signal may arrive just before: check for it at intervals. */
    left_ns = left_ns < SLEEP_MOST_NS ? left_ns : SLEEP_MOST_NS;
    const struct timespec timeout = {
        .tv_sec = (time_t)(left_ns / 1000000000u),
        .tv_nsec = (long)(left_ns % 1000000000u),
    };

    if (ppoll(&wait, 1, &timeout, NULL) > 0 && (wait.revents & POLLERR) != 0) {
        int code = 0;
        socklen_t len_bytes = sizeof code;
        (void)getsockopt(one->fd, SOL_SOCKET, SO_ERROR, &code, &len_bytes);
        if (code == ENETDOWN) {
            ping_die("%s went down. `ip link show %s` tells its state.", one->config.interface,
                     one->config.interface);
        }
    }
}

/** rawe_port_receiver.frame */
static void keep(void *context, uint8_t *frame, size_t len_bytes)
{
    struct ping_socket *one = context;

    if (len_bytes <= RAWE_PAYLOAD_OFFSET + UINT16_MAX) {
        memcpy(one->received, frame, len_bytes);
        one->received_bytes = len_bytes;
    }
}

/** Receive the next frame over UDP. Returns true if it is a PING or PONG; `any`: there was one. */
static bool receive_datagram(struct ping_socket *one, struct ping_frame *out, bool *any)
{
    static const struct rawe_port_receiver receiver = {.frame = keep};

    one->received_bytes = 0;
    *any = rawe_port_receive(one->udp, 1, &receiver, one) != 0;
    return decode(one->received, one->received_bytes, out);
}

/** Receive the next frame from the ring, which holds it until the next call. As above. */
static bool receive_raw(struct ping_socket *one, struct ping_frame *out, bool *any)
{
    struct tpacket2_hdr *slot = rawe_ring_take(&one->ring);

    *any = slot != NULL;
    if (slot != NULL && decode(rawe_ring_frame(slot), slot->tp_snaplen, out)) {
        one->held = slot;
        return true;
    }
    if (slot != NULL) {
        rawe_ring_give_back(slot);
    }
    return false;
}

bool ping_receive(struct ping_socket *one, struct ping_frame *out, uint64_t until_ns, bool spin)
{
    if (one->held != NULL) {
        rawe_ring_give_back(one->held);
        one->held = NULL;
    }
    for (;;) {
        bool any;
        if (one->udp != NULL ? receive_datagram(one, out, &any) : receive_raw(one, out, &any)) {
            return true;
        }
        if (any) {
            continue;
        }
        if (ping_stopped || rawe_port_clock_ns() >= until_ns) {
            return false;
        }
        if (!spin) {
            sleep_until(one, until_ns);
        }
    }
}

bool ping_padding_right(const struct ping_frame *frame)
{
    for (size_t i = RAWE_PING_BYTES; i < frame->header.payload_bytes; i++) {
        if (frame->payload[i] != 0) {
            return false;
        }
    }
    return true;
}

#define TRIES 4u
#define ANSWER_WAIT_NS 500000000ull
#define LOOK_EVERY_US 200u

/** Return byte `i` of a VALIDATION fragment's data (doc/protocol.md, section 2). */
static uint8_t pattern(uint64_t i)
{
    return (uint8_t)(i ^ 29u * (i / 256u));
}

/** A batch under construction: its headers, and the data. */
struct batch {
    uint8_t head[RAWE_ETH_HEADER_BYTES + RAWE_BATCH_HEADER_BYTES];
    uint8_t data[RAWE_BATCH_BYTES_MAX];
    uint32_t segment_bytes;
    struct rawe_frame packet;
};

static void build_batch(struct batch *batch, const struct ping_socket *one,
                        const uint8_t to[RAWE_MAC_BYTES], uint32_t key, uint32_t mtu_bytes,
                        uint32_t number)
{
    uint32_t segment_bytes = mtu_bytes - RAWE_PACKET_OVERHEAD_BYTES - RAWE_BATCH_HEADER_BYTES;
    uint32_t frames = RAWE_BATCH_BYTES_MAX / segment_bytes;
    uint8_t headers[RAWE_PAYLOAD_OFFSET];

    frames = frames < RAWE_BATCH_FRAMES_MAX ? frames : RAWE_BATCH_FRAMES_MAX;
    frames = frames != 0 ? frames : 1;
    segment_bytes = segment_bytes < RAWE_BATCH_BYTES_MAX ? segment_bytes : RAWE_BATCH_BYTES_MAX;
    const uint32_t data_bytes = frames * segment_bytes;
    const struct rawe_batch content = {
        .header =
            {
                .type = RAWE_FRAME_BULK,
                .port = PING_PORT,
                .key = key,
                .connection_id = number,
                .acknowledgement = frames,
            },
        .fragment =
            {
                .kind = RAWE_FRAGMENT_VALIDATION,
                .data_bytes = (uint16_t)data_bytes,
                .total_bytes = data_bytes,
            },
        .segment_bytes = (uint16_t)segment_bytes,
        .frames = (uint8_t)frames,
    };
    for (uint32_t i = 0; i < data_bytes; i++) {
        batch->data[i] = pattern(i);
    }
    ping_headers(one, headers, to, &content.header);
    memcpy(batch->head, headers, RAWE_ETH_HEADER_BYTES);
    rawe_batch_encode(batch->head + RAWE_ETH_HEADER_BYTES, &content);
    batch->segment_bytes = frames > 1 ? segment_bytes : 0;
    batch->packet = (struct rawe_frame){
        .pieces = {{batch->head, sizeof batch->head}, {batch->data, data_bytes}},
        .piece_count = 2,
        .len_bytes = (uint32_t)sizeof batch->head + data_bytes,
    };
}

/** The answers that the asker waits for. */
struct answer {
    uint32_t number;
    struct ping_host *hosts;
    unsigned count;
    unsigned missing; /**< hosts that have not answered yet */
};

static void take_answer(void *context, uint8_t *frame, size_t len_bytes)
{
    struct answer *answer = context;
    struct rawe_header header;

    if (len_bytes >= RAWE_ETH_HEADER_BYTES &&
        rawe_header_decode(&header, frame + RAWE_ETH_HEADER_BYTES,
                           len_bytes - RAWE_ETH_HEADER_BYTES) == RAWE_DECODE_OK &&
        header.type == RAWE_FRAME_ACK && header.connection_id == answer->number) {
        for (unsigned i = 0; i < answer->count; i++) {
            struct ping_host *host = &answer->hosts[i];
            if (!host->gets_batch &&
                memcmp(host->mac, frame + RAWE_MAC_BYTES, RAWE_MAC_BYTES) == 0) {
                host->gets_batch = true;
                answer->missing--;
            }
        }
    }
}

enum ping_batch ping_batch_try(const struct ping_socket *one, const uint8_t to[RAWE_MAC_BYTES],
                               uint32_t key, uint32_t mtu_bytes, struct ping_host *hosts,
                               unsigned count)
{
    static const struct rawe_port_receiver receiver = {.frame = take_answer};
    static struct batch batch;
    struct answer answer = {.hosts = hosts, .count = count, .missing = count};
    struct rawe_port_error error;
    struct rawe_port_config config = one->config;
    struct rawe_port *bulk, *link;
    enum ping_batch result = PING_BATCH_LOST;

    config.use = RAWE_PORT_BULK;
    if (rawe_port_open(&bulk, &config, &error) != 0) {
        return PING_BATCH_NOT_OFFERED;
    }
    config.use = RAWE_PORT_EXPRESS;
    if (rawe_port_open(&link, &config, &error) != 0) {
        ping_open_failed(one->config.interface, &error);
    }
    for (unsigned i = 0; i < TRIES && answer.missing != 0 && !ping_stopped; i++) {
        ping_random(&answer.number, sizeof answer.number);
        build_batch(&batch, one, to, key, mtu_bytes, answer.number);
        (void)bulk->kind->transmit_batch(bulk, &batch.packet, batch.segment_bytes);
        const uint64_t until_ns = rawe_port_clock_ns() + ANSWER_WAIT_NS;
        while (answer.missing != 0 && rawe_port_clock_ns() < until_ns && !ping_stopped) {
            if (rawe_port_receive(link, 16, &receiver, &answer) == 0) {
                usleep(LOOK_EVERY_US);
            }
        }
    }
    if (answer.missing == 0) {
        result = bulk->offloaded ? PING_BATCH_PASSES : PING_BATCH_CUT_BY_KERNEL;
    }
    rawe_port_close(link);
    rawe_port_close(bulk);
    return result;
}

struct ping_batch_listener {
    struct ping_socket *one;
    struct rawe_port *bulk;
    const struct ping_asker *askers; /**< valid during ping_batch_answer */
    unsigned asker_count;
    uint32_t number;  /**< number of the batch being received */
    uint32_t arrived; /**< frames of that batch that arrived unchanged */
};

struct ping_batch_listener *ping_batch_listen(struct ping_socket *one, const uint8_t *group)
{
    struct ping_batch_listener *listener = calloc(1, sizeof *listener);
    struct rawe_port_config config = one->config;
    struct rawe_port_error error;

    config.use = RAWE_PORT_BULK;
    if (group != NULL) {
        memcpy(config.group, group, RAWE_MAC_BYTES);
    }
    if (listener == NULL || rawe_port_open(&listener->bulk, &config, &error) != 0) {
        free(listener);
        return NULL;
    }
    listener->one = one;
    return listener;
}

void ping_batch_close(struct ping_batch_listener *listener)
{
    if (listener != NULL) {
        rawe_port_close(listener->bulk);
        free(listener);
    }
}

static uint8_t *place_nowhere(void *context, const uint8_t *source_mac, const uint8_t *head,
                              size_t head_bytes, size_t data_bytes)
{
    return NULL;
}

/** Return true for unchanged data of a batch of VALIDATION frames. */
static bool has_pattern(const struct rawe_batch *batch, const uint8_t *data)
{
    const struct rawe_fragment *fragment = &batch->fragment;

    if (batch->header.type != RAWE_FRAME_BULK || fragment->kind != RAWE_FRAGMENT_VALIDATION) {
        return false;
    }
    for (uint32_t i = 0; i < fragment->data_bytes; i++) {
        if (data[i] != pattern(fragment->offset + i)) {
            return false;
        }
    }
    return true;
}

static void take_packet(void *context, const uint8_t *source_mac, const uint8_t *head,
                        size_t head_bytes, const uint8_t *data, size_t data_bytes)
{
    struct ping_batch_listener *listener = context;
    struct rawe_batch batch;

    if (rawe_batch_decode(&batch, head, head_bytes, data_bytes) != RAWE_DECODE_OK ||
        !has_pattern(&batch, data)) {
        return;
    }
    const struct rawe_header *header = &batch.header;
    if (header->connection_id != listener->number) {
        listener->number = header->connection_id;
        listener->arrived = 0;
    }
    listener->arrived += batch.frames;
    if (listener->arrived != header->acknowledgement) {
        return;
    }
    for (unsigned i = 0; i < listener->asker_count; i++) {
        const struct ping_asker *asker = &listener->askers[i];
        if (memcmp(asker->mac, source_mac, RAWE_MAC_BYTES) == 0) {
            const struct rawe_header answer = {
                .type = RAWE_FRAME_ACK,
                .port = asker->port,
                .key = asker->key,
                .connection_id = header->connection_id,
                .acknowledgement = listener->arrived,
            };
            (void)ping_send(listener->one, source_mac, &answer, NULL);
        }
    }
}

void ping_batch_answer(struct ping_batch_listener *listener, const struct ping_asker *askers,
                       unsigned count)
{
    static const struct rawe_port_receiver receiver = {
        .place = place_nowhere,
        .packet = take_packet,
    };

    if (listener == NULL || !rawe_port_pending(listener->bulk)) {
        return;
    }
    listener->askers = askers;
    listener->asker_count = count;
    (void)rawe_port_receive(listener->bulk, 64, &receiver, listener);
}
