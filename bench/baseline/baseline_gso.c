/* SPDX-License-Identifier: BSD-3-Clause */
/* UDP batches: many segments in one sendmsg() through UDP segmentation offload, received whole. */
#include "baseline.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/virtio_net.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>

#include "baseline_batch.h"

#ifndef VIRTIO_NET_HDR_GSO_UDP_L4
#define VIRTIO_NET_HDR_GSO_UDP_L4 5 /* Linux 6.2; not in older headers */
#endif
#define IP_UDP_BYTES (sizeof(struct iphdr) + sizeof(struct udphdr))
#define IP_BYTES_MAX 65535u
#define SEGMENTS_LIMIT 64u /* the kernel's UDP_MAX_SEGMENTS before Linux 6.9 */

/* What stands in front of the first segment. */
struct __attribute__((packed)) envelope {
    struct virtio_net_hdr offload;
    uint8_t mac[14];
    struct iphdr ip;
    struct udphdr udp;
};

void baseline_gso_open(struct baseline_link *link)
{
    uint32_t segment_bytes = (uint32_t)link->mtu - IP_UDP_BYTES;
    link->ways[BASELINE_GSO].payload = segment_bytes - BASELINE_HEADER_BYTES;
    link->ways[BASELINE_GSO].pieces_max = (IP_BYTES_MAX - IP_UDP_BYTES) / segment_bytes;
    if (link->ways[BASELINE_GSO].pieces_max > SEGMENTS_LIMIT) {
        link->ways[BASELINE_GSO].pieces_max = SEGMENTS_LIMIT;
    }
    if (link->ways[BASELINE_GSO].pieces_max < 2) {
        fprintf(stderr, "baseline: %s: GSO batches left out: MTU %d already fills one\n",
                link->name, link->mtu);
        return;
    }
    link->ways[BASELINE_GSO].fd = baseline_batch_socket(link, IPPROTO_UDP);
}

static void build_envelope(const struct baseline_link *link, struct envelope *out,
                           size_t udp_payload, bool is_super)
{
    size_t udp_bytes = sizeof(struct udphdr) + udp_payload;
    struct iphdr ip;
    memset(out, 0, sizeof(*out));
    uint16_t check = baseline_batch_headers(link, out->mac, &ip, IPPROTO_UDP, udp_bytes);
    out->ip = ip;
    struct udphdr udp = {.source = htons(BASELINE_PORT),
                         .dest = htons(BASELINE_PORT),
                         .len = htons((uint16_t)udp_bytes)};
    if (is_super) {
        udp.check = check;
        out->offload.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM;
        out->offload.csum_start = 14 + sizeof(struct iphdr);
        out->offload.csum_offset = offsetof(struct udphdr, check);
        out->offload.gso_type = VIRTIO_NET_HDR_GSO_UDP_L4;
        out->offload.hdr_len = 14 + IP_UDP_BYTES;
        out->offload.gso_size =
            (uint16_t)(BASELINE_HEADER_BYTES + link->ways[BASELINE_GSO].payload);
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
    while (taken < left && count < link->ways[BASELINE_GSO].pieces_max) {
        segment.offset = first->offset + taken;
        segment.length = left - taken;
        if (segment.length > link->ways[BASELINE_GSO].payload) {
            segment.length = link->ways[BASELINE_GSO].payload;
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
    ssize_t sent = baseline_batch_sendmsg(link->ways[BASELINE_GSO].fd, &head);
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
        uint32_t length = size - at < link->ways[BASELINE_GSO].payload
                              ? size - at
                              : link->ways[BASELINE_GSO].payload;
        parts[1 + 2 * count] = (struct iovec){headers[count], BASELINE_HEADER_BYTES};
        parts[2 + 2 * count] = (struct iovec){buffer + at, length};
        at += length;
        count++;
    } while (at < size && count < link->ways[BASELINE_GSO].pieces_max);
    struct msghdr head = {.msg_iov = parts, .msg_iovlen = 1 + 2 * count};
    ssize_t received = recvmsg(link->ways[BASELINE_GSO].fd, &head, MSG_DONTWAIT);
    if (received < (ssize_t)(sizeof(envelope) + BASELINE_HEADER_BYTES) ||
        !baseline_header_decode(headers[0], frame)) {
        return false;
    }
    uint32_t bytes = (uint32_t)received - (uint32_t)sizeof(envelope);
    uint32_t segment_bytes = BASELINE_HEADER_BYTES + link->ways[BASELINE_GSO].payload;
    *pieces = (bytes + segment_bytes - 1) / segment_bytes;
    frame->length = bytes - *pieces * BASELINE_HEADER_BYTES;
    return true;
}

void baseline_gso_drain(struct baseline_link *link)
{
    uint8_t byte;
    while (recv(link->ways[BASELINE_GSO].fd, &byte, sizeof(byte), MSG_DONTWAIT) > 0) {
    }
}
