/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Packet sockets: opening, in the one order in which no foreign frame can slip in.
 */
#define _GNU_SOURCE
#include "rawe_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rawe_helper.h"

/** Send buffer asked for: enough for a long queue on a slow port; bounded by wmem_max otherwise. */
#define SEND_BUFFER_BYTES (4 << 20)

static void widen_send_buffer(int fd)
{
    const int bytes = SEND_BUFFER_BYTES;

    /* FORCE passes wmem_max but needs CAP_NET_ADMIN; what neither grants is done without. */
    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes) != 0) {
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    }
}

/** Of each packet that is sent from now on (packet_snd). */
static int set_priority(int fd, int priority, struct rawe_link_error *error)
{
    /* Up to 6 needs no privilege (sk_setsockopt). */
    if (setsockopt(fd, SOL_SOCKET, SO_PRIORITY, &priority, sizeof priority) != 0) {
        *error = (struct rawe_link_error){"setsockopt(SO_PRIORITY)", errno};
        return -1;
    }
    return 0;
}

static int bypass_qdisc(int fd, struct rawe_link_error *error)
{
    const int one = 1;

    if (setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &one, sizeof one) != 0) {
        *error = (struct rawe_link_error){"setsockopt(PACKET_QDISC_BYPASS)", errno};
        return -1;
    }
    return 0;
}

/** Each packet, in and out, has a struct virtio_net_hdr in front: how it is to be cut. */
static int prefix_vnet_header(int fd, struct rawe_link_error *error)
{
    const int one = 1;

    if (setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof one) != 0) {
        *error = (struct rawe_link_error){"setsockopt(PACKET_VNET_HDR)", errno};
        return -1;
    }
    return 0;
}

/**
 * A packet that is too long for its slot is queued beside the ring as well, for recvmsg: the slot
 * has its beginning.
 */
static int queue_what_is_long(int fd, struct rawe_link_error *error)
{
    const int one = 1;

    if (setsockopt(fd, SOL_PACKET, PACKET_COPY_THRESH, &one, sizeof one) != 0) {
        *error = (struct rawe_link_error){"setsockopt(PACKET_COPY_THRESH)", errno};
        return -1;
    }
    return 0;
}

/** A socket with its filter: of our own, or, if we may not have any, of the helper's. */
static int open_filtered(const struct rawe_link_config *config, enum rawe_filter_for what,
                         struct rawe_link_error *error)
{
    /* With protocol 0 a packet socket receives nothing until it is bound. */
    const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        *error = (struct rawe_link_error){"socket(AF_PACKET)", errno};
        return errno == EPERM ? rawe_helper_open(what, config, error) : -1;
    }
    if (rawe_filter_attach(fd, what, config, error) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

int rawe_socket_open(struct rawe_ring *ring, const struct rawe_link_config *config,
                     enum rawe_filter_for what, uint32_t slot_data_bytes, size_t ring_bytes,
                     struct rawe_link_error *error)
{
    const int fd = open_filtered(config, what, error);

    ring->memory = NULL;
    if (fd < 0) {
        return -1;
    }
    widen_send_buffer(fd);
    /*
     * Filter and ring before the binding: the first frame already goes through both. The helper's
     * socket is bound; what it has received is dropped with its queue when it gets the ring
     * (packet_set_ring).
     */
    if ((config->priority != 0 && set_priority(fd, config->priority, error) != 0) ||
        (config->qdisc_bypass && bypass_qdisc(fd, error) != 0) ||
        (what == RAWE_FILTER_FOR_BULK &&
         (prefix_vnet_header(fd, error) != 0 || queue_what_is_long(fd, error) != 0)) ||
        rawe_ring_open(ring, fd, slot_data_bytes, ring_bytes, error) != 0 ||
        rawe_filter_bind(fd, what, config, error) != 0) {
        rawe_ring_close(ring);
        close(fd);
        return -1;
    }
    return fd;
}

int rawe_socket_reopen(int fd, struct rawe_ring *ring, const struct rawe_link_config *config,
                       enum rawe_filter_for what, uint32_t slot_data_bytes, size_t ring_bytes,
                       struct rawe_link_error *error)
{
    struct rawe_ring new_ring;
    const int new_fd =
        rawe_socket_open(&new_ring, config, what, slot_data_bytes, ring_bytes, error);

    if (new_fd < 0) {
        return -1;
    }
    if (dup3(new_fd, fd, O_CLOEXEC) < 0) {
        *error = (struct rawe_link_error){"dup3", errno};
        rawe_ring_close(&new_ring);
        close(new_fd);
        return -1;
    }
    close(new_fd);
    rawe_ring_close(ring);
    *ring = new_ring;
    return 0;
}

int rawe_socket_interface(int fd)
{
    struct sockaddr_ll address;
    socklen_t len_bytes = sizeof address;

    /* The kernel unbinds a socket from an interface that is unregistered (packet_notifier). */
    return getsockname(fd, (void *)&address, &len_bytes) == 0 ? address.sll_ifindex : -1;
}
