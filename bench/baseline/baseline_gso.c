/* SPDX-License-Identifier: BSD-3-Clause */
/* GSO batches: many segments in one sendmsg() through UDP segmentation offload, received whole. */
#include "baseline.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/ethernet.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef VIRTIO_NET_HDR_GSO_UDP_L4
#define VIRTIO_NET_HDR_GSO_UDP_L4 5 /* Linux 6.2; not in older headers */
#endif
/* Sources in 0.0.0.0/8 are martians: the receiver's IP stack drops them without an answer. */
#define SOURCE_ADDRESS 0x00000001u
#define DESTINATION_ADDRESS 0x00000002u
#define IP_UDP_BYTES (sizeof(struct iphdr) + sizeof(struct udphdr))
#define IP_BYTES_MAX 65535u
#define SEGMENTS_LIMIT 64u     /* the kernel's UDP_MAX_SEGMENTS before Linux 6.9 */
#define QUEUE_BYTES (32 << 20) /* receive queue; one message may be 4 MB */

/* What stands in front of the first segment. */
struct __attribute__((packed)) envelope {
    struct virtio_net_hdr offload;
    uint8_t mac[14];
    struct iphdr ip;
    struct udphdr udp;
};

static int give_up(struct baseline_link *link, int fd, const char *what)
{
    fprintf(stderr, "baseline: %s: GSO batches left out: %s: %s\n", link->name, what,
            strerror(errno));
    if (fd >= 0) {
        close(fd);
    }
    return -1;
}

static int open_socket(struct baseline_link *link)
{
    /* Only our own: IPv4, UDP, from SOURCE_ADDRESS, to our port. Offsets count from the MAC. */
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 12),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETHERTYPE_IP, 0, 7),
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 23),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 5),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 26),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SOURCE_ADDRESS, 0, 3),
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 36),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, BASELINE_UDP_PORT, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, 0x7FFFFFFF),
        BPF_STMT(BPF_RET | BPF_K, 0),
    };
    struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};
    struct sockaddr_ll address = {
        .sll_family = AF_PACKET, .sll_protocol = htons(ETHERTYPE_IP), .sll_ifindex = link->ifindex};
    int on = 1;
    int queue = QUEUE_BYTES;
    int fd = socket(AF_PACKET, SOCK_RAW, 0);
    if (fd < 0) {
        return give_up(link, fd, "opening a second packet socket");
    }
    if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) != 0) {
        return give_up(link, fd, "attaching the filter");
    }
    if (setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof(on)) != 0) {
        return give_up(link, fd, "PACKET_VNET_HDR");
    }
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &queue, sizeof(queue)) != 0 &&
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &queue, sizeof(queue)) != 0) {
        return give_up(link, fd, "enlarging the receive queue");
    }
    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
        return give_up(link, fd, "binding to the interface");
    }
    return fd;
}

void baseline_gso_open(struct baseline_link *link)
{
    uint32_t segment_bytes = (uint32_t)link->mtu - IP_UDP_BYTES;
    link->segment_payload = segment_bytes - BASELINE_HEADER_BYTES;
    link->segments_max = (IP_BYTES_MAX - IP_UDP_BYTES) / segment_bytes;
    if (link->segments_max > SEGMENTS_LIMIT) {
        link->segments_max = SEGMENTS_LIMIT;
    }
    if (link->segments_max < 2) {
        fprintf(stderr, "baseline: %s: GSO batches left out: MTU %d already fills one\n",
                link->name, link->mtu);
        return;
    }
    link->gso_fd = open_socket(link);
}

static uint32_t sum_words(const void *data, size_t bytes, uint32_t sum)
{
    const uint8_t *byte = data;
    for (size_t i = 0; i + 1 < bytes; i += 2) {
        sum += (uint32_t)byte[i] << 8 | byte[i + 1];
    }
    return sum;
}

static uint16_t fold(uint32_t sum)
{
    while (sum >> 16) {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    return htons((uint16_t)sum);
}

static void build_envelope(const struct baseline_link *link, struct envelope *out,
                           size_t udp_payload, bool is_super)
{
    uint16_t ethertype = htons(ETHERTYPE_IP);
    size_t udp_bytes = sizeof(struct udphdr) + udp_payload;
    memset(out, 0, sizeof(*out));
    memcpy(out->mac, link->peer, BASELINE_MAC_BYTES);
    memcpy(out->mac + 6, link->mac, BASELINE_MAC_BYTES);
    memcpy(out->mac + 12, &ethertype, 2);
    struct iphdr ip = {.version = 4,
                       .ihl = 5,
                       .ttl = 1,
                       .protocol = IPPROTO_UDP,
                       .tot_len = htons((uint16_t)(sizeof(ip) + udp_bytes)),
                       .frag_off = htons(IP_DF),
                       .saddr = htonl(SOURCE_ADDRESS),
                       .daddr = htonl(DESTINATION_ADDRESS)};
    ip.check = (uint16_t)~fold(sum_words(&ip, sizeof(ip), 0));
    out->ip = ip;
    struct udphdr udp = {.source = htons(BASELINE_UDP_PORT),
                         .dest = htons(BASELINE_UDP_PORT),
                         .len = htons((uint16_t)udp_bytes)};
    if (is_super) {
        /* The device completes the checksum of each segment: it starts from the pseudo header's. */
        uint32_t sum = sum_words(&ip.saddr, 8, IPPROTO_UDP + (uint32_t)udp_bytes);
        udp.check = fold(sum);
        out->offload.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM;
        out->offload.csum_start = 14 + sizeof(struct iphdr);
        out->offload.csum_offset = offsetof(struct udphdr, check);
        out->offload.gso_type = VIRTIO_NET_HDR_GSO_UDP_L4;
        out->offload.hdr_len = 14 + IP_UDP_BYTES;
        out->offload.gso_size = (uint16_t)(BASELINE_HEADER_BYTES + link->segment_payload);
    }
    out->udp = udp;
}

int64_t baseline_gso_send(struct baseline_link *link, const struct baseline_frame *first,
                          const uint8_t *message, uint32_t left, uint32_t *pieces)
{
    struct envelope envelope;
    uint8_t headers[SEGMENTS_LIMIT][BASELINE_HEADER_BYTES];
    struct iovec parts[1 + 2 * SEGMENTS_LIMIT];
    struct baseline_frame segment = *first;
    uint32_t taken = 0;
    uint32_t count = 0;
    parts[0] = (struct iovec){&envelope, sizeof(envelope)};
    while (taken < left && count < link->segments_max) {
        segment.offset = first->offset + taken;
        segment.length = left - taken;
        if (segment.length > link->segment_payload) {
            segment.length = link->segment_payload;
        }
        segment.value = first->value + count;
        baseline_header_encode(headers[count], &segment);
        parts[1 + 2 * count] = (struct iovec){headers[count], BASELINE_HEADER_BYTES};
        parts[2 + 2 * count] = (struct iovec){(void *)(message + segment.offset), segment.length};
        taken += segment.length;
        count++;
    }
    build_envelope(link, &envelope, taken + (size_t)count * BASELINE_HEADER_BYTES, count > 1);
    struct msghdr head = {.msg_iov = parts, .msg_iovlen = 1 + 2 * count};
    ssize_t sent;
    do {
        sent = sendmsg(link->gso_fd, &head, 0);
    } while (sent < 0 && (errno == ENOBUFS || errno == EINTR));
    *pieces = count;
    return sent < 0 ? -errno : (int64_t)taken;
}

bool baseline_gso_receive(struct baseline_link *link, struct baseline_frame *frame, uint8_t *buffer,
                          uint32_t size, uint32_t expected, uint32_t *pieces)
{
    struct envelope envelope;
    uint8_t headers[SEGMENTS_LIMIT][BASELINE_HEADER_BYTES];
    struct iovec parts[1 + 2 * SEGMENTS_LIMIT];
    uint32_t count = 0;
    uint32_t at = expected < size ? expected : 0;
    parts[0] = (struct iovec){&envelope, sizeof(envelope)};
    do {
        uint32_t length = size - at < link->segment_payload ? size - at : link->segment_payload;
        parts[1 + 2 * count] = (struct iovec){headers[count], BASELINE_HEADER_BYTES};
        parts[2 + 2 * count] = (struct iovec){buffer + at, length};
        at += length;
        count++;
    } while (at < size && count < link->segments_max);
    struct msghdr head = {.msg_iov = parts, .msg_iovlen = 1 + 2 * count};
    ssize_t received = recvmsg(link->gso_fd, &head, MSG_DONTWAIT);
    if (received < (ssize_t)(sizeof(envelope) + BASELINE_HEADER_BYTES) ||
        !baseline_header_decode(headers[0], frame)) {
        return false;
    }
    uint32_t bytes = (uint32_t)received - (uint32_t)sizeof(envelope);
    uint32_t segment_bytes = BASELINE_HEADER_BYTES + link->segment_payload;
    *pieces = (bytes + segment_bytes - 1) / segment_bytes;
    frame->length = bytes - *pieces * BASELINE_HEADER_BYTES;
    return true;
}

uint64_t baseline_gso_drain(struct baseline_link *link)
{
    uint8_t start[sizeof(struct envelope) + BASELINE_HEADER_BYTES];
    uint64_t bytes = 0;
    for (;;) {
        ssize_t received = recv(link->gso_fd, start, sizeof(start), MSG_DONTWAIT | MSG_TRUNC);
        if (received < (ssize_t)sizeof(start)) {
            return bytes;
        }
        size_t carried = (size_t)received - sizeof(struct envelope);
        size_t segment_bytes = BASELINE_HEADER_BYTES + link->segment_payload;
        size_t pieces = (carried + segment_bytes - 1) / segment_bytes;
        bytes += carried - pieces * BASELINE_HEADER_BYTES;
    }
}
