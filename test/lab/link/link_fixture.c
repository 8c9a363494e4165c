/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The network namespace, the veth pair and the ports that the link tests use.
 */
#define _GNU_SOURCE
#include "link_fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define SKIPPED 77

struct fixture net = {
    .a = {.port = 0x1234, .key = 0xA1B2C3D4u, .ping_port = 0x4321, .ping_key = 0x0A2B3C4Du},
    .b = {.port = 0x5678, .key = 0x0F0E0D0Cu, .ping_port = 0x8765, .ping_key = 0xF1E2D3C4u},
};

void fixture_run(const char *format, ...)
{
    char command[1024];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    const int status = system(command);
    if (status != 0) {
        fprintf(stderr, "command failed with status %d: %s\n", status, command);
        fail();
    }
}

static void read_end(struct fixture_end *end, const char *name)
{
    struct ifreq request = {0};
    const int fd = socket(AF_INET, SOCK_DGRAM, 0);

    snprintf(end->name, sizeof end->name, "%s", name);
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    assert_true(fd >= 0);
    assert_int_equal(ioctl(fd, SIOCGIFINDEX, &request), 0);
    end->index = request.ifr_ifindex;
    assert_int_equal(ioctl(fd, SIOCGIFHWADDR, &request), 0);
    memcpy(end->mac, request.ifr_hwaddr.sa_data, sizeof end->mac);
    close(fd);
}

void fixture_renew(struct fixture *fixture, uint32_t mtu_bytes)
{
    if (fixture->mtu_bytes != 0) {
        fixture_run("ip link del ra0");
    }
    fixture_run("ip link set lo up");
    /* Disable IPv6, because the tests would count its frames. */
    fixture_run("ip link add ra0 mtu %u type veth peer name rb0 mtu %u", mtu_bytes, mtu_bytes);
    fixture_run("ip link set ra0 addrgenmode none up && ip link set rb0 addrgenmode none up");
    fixture->mtu_bytes = mtu_bytes;
    read_end(&fixture->a, "ra0");
    read_end(&fixture->b, "rb0");
}

__attribute__((constructor)) static void enter(void)
{
    if (unshare(CLONE_NEWNET) != 0) {
        fprintf(stderr, "skipped: no network namespace of our own (%s); run as root\n",
                strerror(errno));
        exit(SKIPPED);
    }
    fixture_renew(&net, 1500);
}

void fixture_use_loopback(struct fixture *fixture)
{
    read_end(&fixture->a, "lo");
    read_end(&fixture->b, "lo");
}

struct rawe_port_config fixture_config(const struct fixture *fixture, const struct fixture_end *end)
{
    const bool loopback = strcmp(end->name, "lo") == 0;

    return (struct rawe_port_config){
        .kind = &rawe_packet_port,
        .use = RAWE_PORT_EXPRESS,
        .interface = end->name,
        .interface_index = end->index,
        .loopback = loopback,
        .ethertype = 0x88B5,
        .port = end->port,
        .key = end->key,
        .ping_port = end->ping_port,
        .ping_key = end->ping_key,
        .mtu_bytes = loopback ? 65536 : fixture->mtu_bytes,
        .ring_bytes = 1 << 20,
    };
}

struct rawe_port *fixture_open(const struct fixture *fixture, const struct fixture_end *end,
                               size_t ring_bytes)
{
    struct rawe_port_config config = fixture_config(fixture, end);
    struct rawe_port_error error = {0};
    struct rawe_port *link;

    config.ring_bytes = ring_bytes;
    if (rawe_port_open(&link, &config, &error) != 0) {
        fprintf(stderr, "%s on %s: %s\n", error.step, end->name, strerror(error.code));
        fail();
    }
    return link;
}

struct rawe_responder *fixture_try_start(const struct rawe_port_config *config,
                                         const struct fixture_end *end,
                                         const struct rawe_responder_duty *duty,
                                         struct rawe_port_error *error)
{
    static struct rawe_service *service; /* runs until the process ends */
    struct rawe_port_config own = *config;
    struct rawe_responder *responder;
    struct rawe_port *port;

    own.use = RAWE_PORT_RESPONDER;
    return (service != NULL || rawe_service_start(&service, error) == 0) &&
                   rawe_port_open(&port, &own, error) == 0 &&
                   rawe_responder_start(&responder, port, &own, end->mac, duty, service, error) == 0
               ? responder
               : NULL;
}

struct rawe_responder *fixture_start(const struct fixture *fixture, const struct fixture_end *end)
{
    const struct rawe_port_config config = fixture_config(fixture, end);
    struct rawe_port_error error = {0};
    struct rawe_responder *responder = fixture_try_start(&config, end, NULL, &error);

    if (responder == NULL) {
        fprintf(stderr, "%s on %s: %s\n", error.step, end->name, strerror(error.code));
        fail();
    }
    return responder;
}

void fixture_write_head(uint8_t *frame, const struct fixture_end *from,
                        const struct fixture_end *to, const struct rawe_header *header)
{
    memcpy(frame, to->mac, 6);
    memcpy(frame + 6, from->mac, 6);
    frame[12] = 0x88;
    frame[13] = 0xB5;
    rawe_header_encode(frame + RAWE_ETH_HEADER_BYTES, header);
}

void fixture_send(struct rawe_port *port, uint8_t *frame, size_t len_bytes)
{
    const struct rawe_frame out = {
        .pieces = {{frame, len_bytes}}, .piece_count = 1, .len_bytes = (uint32_t)len_bytes};

    assert_int_equal(port->kind->transmit(port, &out, 1), 1);
}

static void count_frame(void *context, uint8_t *frame, size_t len_bytes)
{
    ++*(unsigned *)context;
}

unsigned fixture_receive(struct rawe_port *port)
{
    unsigned count = 0;

    (void)rawe_port_receive(port, 100, &(const struct rawe_port_receiver){.frame = count_frame},
                            &count);
    return count;
}

int fixture_socket(int interface_index, uint16_t protocol)
{
    const struct sockaddr_ll address = {
        .sll_family = AF_PACKET, .sll_protocol = htons(protocol), .sll_ifindex = interface_index};
    const struct timeval patience = {.tv_sec = 10};
    const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof address), 0);
    return fd;
}
