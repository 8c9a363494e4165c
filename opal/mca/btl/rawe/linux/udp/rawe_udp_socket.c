/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Addresses as core writes them, and the system call that sends.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/socket.h>

#include "rawe_udp.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

/** First bytes of a MAC address that stands for an IPv4 address: locally administered. */
static const uint8_t mac_prefix[RAWE_MAC_BYTES - RAWE_UDP_ADDRESS_BYTES] = {0x02, 0x04};

static const uint8_t loopback_mac[RAWE_MAC_BYTES];

void rawe_udp_mac(uint8_t mac[RAWE_MAC_BYTES], const uint8_t address[RAWE_UDP_ADDRESS_BYTES])
{
    const uint32_t loopback = htonl(INADDR_LOOPBACK);

    if (memcmp(address, &loopback, sizeof loopback) == 0) {
        memcpy(mac, loopback_mac, RAWE_MAC_BYTES);
        return;
    }
    memcpy(mac, mac_prefix, sizeof mac_prefix);
    memcpy(mac + sizeof mac_prefix, address, RAWE_UDP_ADDRESS_BYTES);
}

struct sockaddr_in rawe_udp_address_of(const uint8_t mac[RAWE_MAC_BYTES], uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};

    memcpy(&address.sin_addr, mac + sizeof mac_prefix, sizeof address.sin_addr);
    if (memcmp(mac, loopback_mac, RAWE_MAC_BYTES) == 0) {
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    }
    return address;
}

struct rawe_mac_text rawe_udp_text(const uint8_t mac[RAWE_MAC_BYTES])
{
    const struct sockaddr_in address = rawe_udp_address_of(mac, 0);
    struct rawe_mac_text out;

    (void)inet_ntop(AF_INET, &address.sin_addr, out.text, sizeof out.text);
    return out;
}

unsigned rawe_udp_segments_max(size_t segment_bytes)
{
    return segment_bytes > RAWE_UDP_DATAGRAM_BYTES_MAX / RAWE_UDP_SEGMENTS_MAX
               ? (unsigned)(RAWE_UDP_DATAGRAM_BYTES_MAX / segment_bytes)
               : RAWE_UDP_SEGMENTS_MAX;
}

/** As rawe_udp_send. Returns errno, or 0. */
static int send_datagram(const struct rawe_udp *udp, struct sockaddr_in *to, struct iovec *iov,
                         size_t iov_count, uint16_t segment_bytes)
{
    _Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof segment_bytes)] = {0};
    struct msghdr message = {
        .msg_name = to, .msg_namelen = sizeof *to, .msg_iov = iov, .msg_iovlen = iov_count};

    if (segment_bytes != 0) {
        message.msg_control = control;
        message.msg_controllen = sizeof control;
        struct cmsghdr *cut = CMSG_FIRSTHDR(&message);
        *cut = (struct cmsghdr){.cmsg_level = SOL_UDP,
                                .cmsg_type = UDP_SEGMENT,
                                .cmsg_len = CMSG_LEN(sizeof segment_bytes)};
        memcpy(CMSG_DATA(cut), &segment_bytes, sizeof segment_bytes);
    }
    while (sendmsg(udp->port.fd, &message, MSG_DONTWAIT) < 0) {
        if (errno != EINTR) {
            return errno;
        }
    }
    return 0;
}

/** Add to a counter. Several threads may transmit through a responder; lost counts are harmless. */
static void count(uint64_t *counter, uint64_t by)
{
    __atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + by, __ATOMIC_RELAXED);
}

enum rawe_udp_sent rawe_udp_send(struct rawe_udp *udp, struct sockaddr_in *to, struct iovec *iov,
                                 size_t iov_count, uint16_t segment_bytes, unsigned frames)
{
    const int code = send_datagram(udp, to, iov, iov_count, segment_bytes);

    if (code == EAGAIN || code == ENOBUFS) {
        count(&udp->counters.send_full, 1);
        return RAWE_UDP_FULL;
    }
    if (segment_bytes != 0 && (code == EINVAL || code == EIO)) {
        udp->cuts = false; /* before Linux 4.18; or the device does not sum (before 6.11) */
        return RAWE_UDP_UNCUT;
    }
    count(code == 0 ? &udp->counters.frames_sent : &udp->counters.send_errors, frames);
    return RAWE_UDP_TAKEN;
}
