/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Bulk: sending, and what the device can do for it.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "rawe_bulk_internal.h"

/**
 * A batch that is refused for longer than that counts as lost. Where something drops batches before
 * they leave the host (a filter on egress; PACKET_QDISC_BYPASS without hardware that cuts them),
 * the kernel says ENOBUFS each time, and only losses make a connection go back to plain frames.
 */
#define REFUSED_MAX_NS 200000000u

#define IPV4_BYTES 20u
#define IPPROTO_TCP_NUMBER 6u

/** Sum of 16-bit words in one's complement, RFC 1071. */
static uint32_t checksum_add(uint32_t sum, const uint8_t *bytes, size_t len_bytes)
{
    for (size_t i = 0; i + 1 < len_bytes; i += 2) {
        sum += (uint32_t)bytes[i] << 8 | bytes[i + 1];
    }
    return sum;
}

static uint16_t checksum_fold(uint32_t sum)
{
    while (sum >> 16 != 0) {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    return (uint16_t)sum;
}

static void put16(uint8_t *out, size_t value)
{
    out[0] = (uint8_t)(value >> 8);
    out[1] = (uint8_t)value;
}

/**
 * IPv4 header for `bytes` bytes behind it, between Ethernet and batch header, and the beginning of
 * the TCP checksum, the pseudo-header's: who cuts the packet, or sends it as it is, computes the
 * rest. The source address, 255.255.255.255, is one that the receiver's IP stack drops (RFC 1122
 * section 3.2.1.3) before it looks for a route (ip_route_input_slow); our sockets get the packet
 * before that.
 */
static void write_headers(uint8_t *out, const uint8_t *head, size_t bytes)
{
    static const uint8_t addresses[8] = {255, 255, 255, 255, 0, 0, 0, 2};
    uint8_t *ip = out + RAWE_ETH_HEADER_BYTES;
    uint8_t *batch = ip + IPV4_BYTES;

    memcpy(out, head, RAWE_ETH_HEADER_BYTES);
    put16(out + 12, ETHERTYPE_IPV4);
    memset(ip, 0, IPV4_BYTES);
    ip[0] = 0x45; /* version 4, five words */
    put16(ip + 2, IPV4_BYTES + bytes);
    ip[6] = 0x40; /* do not fragment */
    ip[8] = 1;    /* time to live: not beyond this segment */
    ip[9] = IPPROTO_TCP_NUMBER;
    memcpy(ip + 12, addresses, sizeof addresses);
    put16(ip + 10, (uint16_t)~checksum_fold(checksum_add(0, ip, IPV4_BYTES)));
    memcpy(batch, head + RAWE_ETH_HEADER_BYTES, RAWE_BATCH_HEADER_BYTES);
    put16(batch + RAWE_BATCH_OFFSET_CHECKSUM,
          checksum_fold(
              checksum_add(IPPROTO_TCP_NUMBER + (uint32_t)bytes, addresses, sizeof addresses)));
}

/** The kernel has refused a batch just now, and nothing else since a time too long ago. */
static bool refused_too_long(struct rawe_bulk *bulk)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t now_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    if (bulk->refused_since_ns == 0) {
        bulk->refused_since_ns = now_ns;
    }
    return now_ns - bulk->refused_since_ns > REFUSED_MAX_NS;
}

bool rawe_bulk_transmit(void *context, const struct rawe_frame *packet, uint32_t segment_bytes)
{
    struct rawe_bulk *bulk = context;
    const size_t bytes = packet->len_bytes - RAWE_ETH_HEADER_BYTES;
    const size_t data_bytes = bytes - RAWE_BATCH_HEADER_BYTES;
    const unsigned frames =
        segment_bytes == 0 ? 1 : (unsigned)((data_bytes + segment_bytes - 1) / segment_bytes);
    struct rawe_bulk_envelope envelope = {
        .vnet =
            {
                .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
                .gso_type = VIRTIO_NET_HDR_GSO_NONE,
                .csum_start = RAWE_FILTER_BULK_OFFSET,
                .csum_offset = RAWE_BATCH_OFFSET_CHECKSUM,
            },
    };
    struct iovec iov[RAWE_FRAME_PIECES_MAX] = {{&envelope, sizeof envelope}};

    write_headers(envelope.packet, packet->pieces[0].base, bytes);
    /* To ask for cutting where there is nothing to cut is an error (ENOMEM). */
    if (segment_bytes != 0) {
        envelope.vnet.gso_type = VIRTIO_NET_HDR_GSO_TCPV4;
        envelope.vnet.gso_size = (uint16_t)segment_bytes;
        envelope.vnet.hdr_len = sizeof envelope.packet;
    }
    for (unsigned i = 1; i < packet->piece_count; i++) {
        iov[i] = (struct iovec){packet->pieces[i].base, packet->pieces[i].len_bytes};
    }
    const struct msghdr message = {.msg_iov = iov, .msg_iovlen = packet->piece_count};
    while (sendmsg(bulk->fd, &message, MSG_DONTWAIT) < 0) {
        const int code = errno;
        if (code == EINTR) {
            continue;
        }
        if (code == EAGAIN || code == ENOBUFS) {
            bulk->counters.send_full++;
            if (!refused_too_long(bulk)) {
                return false;
            }
        }
        bulk->refused_since_ns = 0;
        bulk->counters.send_errors += frames;
        bulk->counters.last_send_errno = (uint64_t)code;
        return true;
    }
    bulk->refused_since_ns = 0;
    bulk->counters.frames_sent += frames;
    return true;
}

/** Index of a feature in the device's list, or -1. */
static int feature_index(int fd, struct ifreq *request, const char *name, uint32_t *features)
{
    struct {
        struct ethtool_sset_info info;
        uint32_t count;
    } set = {.info = {.cmd = ETHTOOL_GSSET_INFO, .sset_mask = 1ull << ETH_SS_FEATURES}};
    int index = -1;

    request->ifr_data = (char *)&set;
    if (ioctl(fd, SIOCETHTOOL, request) != 0 || set.info.sset_mask == 0 || set.count > 1024) {
        return -1;
    }
    memcpy(features, (char *)&set + offsetof(struct ethtool_sset_info, data), sizeof *features);
    struct ethtool_gstrings *strings =
        calloc(1, sizeof *strings + (size_t)*features * ETH_GSTRING_LEN);
    if (strings == NULL) {
        return -1;
    }
    strings->cmd = ETHTOOL_GSTRINGS;
    strings->string_set = ETH_SS_FEATURES;
    strings->len = *features;
    request->ifr_data = (char *)strings;
    if (ioctl(fd, SIOCETHTOOL, request) == 0) {
        for (uint32_t i = 0; i < *features && index < 0; i++) {
            if (strncmp((char *)strings->data + i * ETH_GSTRING_LEN, name, ETH_GSTRING_LEN) == 0) {
                index = (int)i;
            }
        }
    }
    free(strings);
    return index;
}

bool rawe_bulk_device_offloads(const char *interface)
{
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq request = {0};
    uint32_t features = 0;
    bool active = false;

    if (fd < 0) {
        return false;
    }
    strncpy(request.ifr_name, interface, IFNAMSIZ - 1);
    int index = feature_index(fd, &request, "tx-tcp-segmentation", &features);
    if (index >= 0) {
        size_t blocks = (features + 31) / 32;
        struct ethtool_gfeatures *state =
            calloc(1, sizeof *state + blocks * sizeof state->features[0]);
        if (state != NULL) {
            state->cmd = ETHTOOL_GFEATURES;
            state->size = (uint32_t)blocks;
            request.ifr_data = (char *)state;
            active = ioctl(fd, SIOCETHTOOL, &request) == 0 &&
                     (state->features[index / 32].active >> (index % 32) & 1) != 0;
            free(state);
        }
    }
    close(fd);
    return active;
}
