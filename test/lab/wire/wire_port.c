/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Reads and writes frames through packet sockets.
 */
#define _GNU_SOURCE
#include "wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define SOCKET_BYTES (32 << 20)

static _Noreturn void fail(const struct wire_port *port, const char *what)
{
    fprintf(stderr, "rawe-wire: port %s: %s: %s; is it there, and is this root?\n", port->name,
            what, strerror(errno));
    exit(1);
}

static void set_option(const struct wire_port *port, int level, int option, int value,
                       const char *name)
{
    if (setsockopt(port->fd, level, option, &value, sizeof value) != 0) {
        fail(port, name);
    }
}

void wire_port_open(struct wire_port *port)
{
    struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};

    /* With protocol 0 it receives nothing until it is bound, instead of from all interfaces. */
    port->fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (port->fd < 0) {
        fail(port, "packet socket");
    }
    set_option(port, SOL_PACKET, PACKET_IGNORE_OUTGOING, 1, "PACKET_IGNORE_OUTGOING");
    set_option(port, SOL_SOCKET, SO_RCVBUFFORCE, SOCKET_BYTES, "SO_RCVBUFFORCE");
    set_option(port, SOL_SOCKET, SO_SNDBUFFORCE, SOCKET_BYTES, "SO_SNDBUFFORCE");
    address.sll_ifindex = (int)if_nametoindex(port->name);
    if (address.sll_ifindex == 0) {
        fail(port, "interface");
    }
    if (bind(port->fd, (struct sockaddr *)&address, sizeof address) != 0) {
        fail(port, "bind");
    }
}

bool wire_port_receive(struct wire_port *port, struct wire_frame *frame)
{
    static uint8_t buffer[WIRE_FRAME_BYTES_MAX];
    ssize_t got;

    do {
        got = recv(port->fd, buffer, sizeof buffer, 0);
        /* ENETDOWN is reported once when the interface goes down or disappears; it may return. */
    } while (got < 0 && (errno == EINTR || errno == ENETDOWN));
    *frame = (struct wire_frame){buffer, (size_t)got};
    return got >= (ssize_t)WIRE_ETH_HEADER_BYTES;
}

bool wire_port_send(struct wire_port *port, const struct wire_frame *frame)
{
    ssize_t sent;

    do {
        sent = send(port->fd, frame->bytes, frame->len_bytes, 0);
    } while (sent < 0 && errno == EINTR);
    return sent >= 0;
}

uint64_t wire_port_overrun(struct wire_port *port)
{
    struct tpacket_stats statistics = {0};
    socklen_t len = sizeof statistics;

    /* Reading resets the kernel's counts. */
    if (getsockopt(port->fd, SOL_PACKET, PACKET_STATISTICS, &statistics, &len) != 0) {
        return 0;
    }
    return statistics.tp_drops;
}
