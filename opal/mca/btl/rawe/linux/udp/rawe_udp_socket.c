/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The system call that sends.
 */
#include <errno.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/socket.h>

#include "rawe_udp_socket.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

/**
 * How long datagrams are sent uncut after the kernel refused to cut one. It always refuses before
 * Linux 4.18, and before 6.11 if the device does not sum; for a while if the MTU has become smaller
 * (EINVAL in older kernels); for some receivers with IPsec.
 */
#define UNCUT_NS 1000000000u

unsigned rawe_udp_segments_max(size_t segment_bytes)
{
    return segment_bytes > RAWE_UDP_DATAGRAM_BYTES_MAX / RAWE_UDP_SEGMENTS_MAX
               ? (unsigned)(RAWE_UDP_DATAGRAM_BYTES_MAX / segment_bytes)
               : RAWE_UDP_SEGMENTS_MAX;
}

/** As rawe_udp_send. Returns errno, or 0. */
static int send_datagram(int fd, union rawe_udp_address *to, struct iovec *iov, size_t iov_count,
                         uint16_t segment_bytes)
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
    while (sendmsg(fd, &message, MSG_DONTWAIT) < 0) {
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

enum rawe_udp_sent rawe_udp_send(struct rawe_udp *udp, int fd, union rawe_udp_address *to,
                                 struct iovec *iov, size_t iov_count, uint16_t segment_bytes,
                                 unsigned frames)
{
    const int code = send_datagram(fd, to, iov, iov_count, segment_bytes);

    if (code == EAGAIN || code == ENOBUFS) {
        count(&udp->counters.send_full, 1);
        return RAWE_UDP_FULL;
    }
    if (segment_bytes != 0 && (code == EINVAL || code == EIO)) {
        udp->uncut_until_ns = rawe_port_clock_ns() + UNCUT_NS;
        return RAWE_UDP_UNCUT;
    }
    count(code == 0 ? &udp->counters.frames_sent : &udp->counters.send_errors, frames);
    return RAWE_UDP_TAKEN;
}
