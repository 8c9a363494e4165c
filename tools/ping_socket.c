/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * rawe-ping: a socket for PING and PONG, with rawe's filter and ring, and the signals that
 * interrupt waiting for it.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "ping.h"

#define RING_BYTES (1u << 20)
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

void ping_open(struct ping_socket *one, const struct rawe_interface *interface,
               const struct ping_options *options, const uint8_t *group)
{
    struct rawe_port_error error;
    uint16_t port = PING_PORT;
    uint32_t key = options->key;

    if (!options->listen) {
        ping_random(&port, sizeof port);
        ping_random(&key, sizeof key);
    }
    memset(one, 0, sizeof *one);
    one->config = (struct rawe_port_config){
        .kind = &rawe_packet_port,
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
    if (group != NULL) {
        memcpy(one->config.group, group, RAWE_MAC_BYTES);
    }
    memcpy(one->mac, interface->mac, RAWE_MAC_BYTES);
    one->fd =
        rawe_packet_open_socket(&one->ring, &one->config, interface->mtu_bytes, RING_BYTES, &error);
    if (one->fd < 0) {
        ping_open_failed(interface->name, &error);
    }
    one->frame = calloc(1, RAWE_PAYLOAD_OFFSET + UINT16_MAX);
    if (one->frame == NULL) {
        ping_die("there is no memory left");
    }
}

void ping_close(struct ping_socket *one)
{
    rawe_ring_close(&one->ring);
    close(one->fd);
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
    return send(one->fd, one->frame, RAWE_PAYLOAD_OFFSET + (size_t)header->payload_bytes, 0) >= 0;
}

void ping_question(struct ping_socket *one, const uint8_t to[RAWE_MAC_BYTES], uint32_t key,
                   uint64_t token, uint16_t payload_bytes)
{
    const struct rawe_header header = {
        .type = RAWE_FRAME_PING,
        .port = PING_PORT,
        .key = key,
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

bool ping_receive(struct ping_socket *one, struct ping_frame *out, uint64_t until_ns, bool spin)
{
    if (one->held != NULL) {
        rawe_ring_give_back(one->held);
        one->held = NULL;
    }
    for (;;) {
        struct tpacket2_hdr *slot = rawe_ring_take(&one->ring);
        if (slot != NULL) {
            if (decode(rawe_ring_frame(slot), slot->tp_snaplen, out)) {
                one->held = slot;
                return true;
            }
            rawe_ring_give_back(slot);
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
