/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TCP-shaped batches: up to 64 kB of a message as one packet that looks like TCP's, cut by TCP
 * segmentation offload and merged by GRO, as every NIC and driver has them for TCP. Segmentation
 * repeats all headers and counts up the sequence number: our header lies in a TCP option of each
 * slice, and a slice's place in the message is its sequence number.
 */
#include "baseline.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/virtio_net.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>

#include "baseline_batch.h"

#define OPTION_KIND 253     /* RFC 4727: for experiments; RFC 6994: followed by an identifier */
#define OPTION_BYTES 40     /* as many as a TCP header can have */
#define OPTION_EXID 0xF100u /* as the magic of plain frames */
#define HEADERS_BYTES (sizeof(struct iphdr) + sizeof(struct tcphdr) + OPTION_BYTES)
/* A packet with its Ethernet header that is longer is cut whatever the device can (gso_max_size).
 */
#define PACKET_BYTES_MAX 65535u

/* What stands in front of the data. */
struct __attribute__((packed)) envelope {
    struct virtio_net_hdr offload;
    uint8_t mac[14];
    struct iphdr ip;
    struct tcphdr tcp;
    uint8_t option_kind;
    uint8_t option_bytes;
    uint16_t option_exid;
    uint8_t header[BASELINE_HEADER_BYTES]; /* of the whole batch */
    uint8_t option_rest[OPTION_BYTES - 4 - BASELINE_HEADER_BYTES];
};

void baseline_tcp_open(struct baseline_link *link)
{
    uint32_t slice_bytes = (uint32_t)link->mtu - HEADERS_BYTES;
    uint32_t slices = (PACKET_BYTES_MAX - 14 - HEADERS_BYTES) / slice_bytes;
    if (slices < 2) {
        fprintf(stderr, "baseline: %s: TCP-shaped batches left out: MTU %d already fills one\n",
                link->name, link->mtu);
        return;
    }
    link->ways[BASELINE_TCP].payload = slice_bytes;
    link->ways[BASELINE_TCP].pieces_max = slices;
    link->ways[BASELINE_TCP].fd = baseline_batch_socket(link, IPPROTO_TCP);
}

int64_t baseline_tcp_send(struct baseline_link *link, const struct baseline_frame *first,
                          const uint8_t *message, uint32_t left, uint32_t *pieces)
{
    const struct baseline_way_state *way = &link->ways[BASELINE_TCP];
    struct envelope envelope = {.option_kind = OPTION_KIND,
                                .option_bytes = OPTION_BYTES,
                                .option_exid = htons(OPTION_EXID)};
    struct baseline_frame batch = *first;
    struct iphdr ip;
    uint32_t most = way->payload * way->pieces_max;
    batch.length = left < most ? left : most;
    baseline_header_encode(envelope.header, &batch);
    size_t tcp_bytes = sizeof(struct tcphdr) + OPTION_BYTES + batch.length;
    uint16_t check = baseline_batch_headers(link, envelope.mac, &ip, IPPROTO_TCP, tcp_bytes);
    envelope.ip = ip;
    envelope.tcp = (struct tcphdr){.source = htons(BASELINE_PORT),
                                   .dest = htons(BASELINE_PORT),
                                   .seq = htonl(batch.offset),
                                   .doff = (sizeof(struct tcphdr) + OPTION_BYTES) / 4,
                                   .ack = 1,
                                   .check = check};
    envelope.offload.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM;
    envelope.offload.csum_start = 14 + sizeof(struct iphdr);
    envelope.offload.csum_offset = offsetof(struct tcphdr, check);
    if (batch.length > way->payload) { /* the kernel refuses a batch of one slice */
        envelope.offload.gso_type = VIRTIO_NET_HDR_GSO_TCPV4;
        envelope.offload.hdr_len = 14 + HEADERS_BYTES;
        envelope.offload.gso_size = (uint16_t)way->payload;
    }
    struct iovec parts[2] = {{&envelope, sizeof(envelope)},
                             {(void *)(message + batch.offset), batch.length}};
    struct msghdr head = {.msg_iov = parts, .msg_iovlen = 2};
    *pieces = (batch.length + way->payload - 1) / way->payload;
    return baseline_batch_sendmsg(way->fd, &head) < 0 ? -errno : (int64_t)batch.length;
}

bool baseline_tcp_receive(struct baseline_link *link, struct baseline_frame *frame, uint8_t *buffer,
                          uint32_t size, uint32_t expected, uint32_t *pieces)
{
    const struct baseline_way_state *way = &link->ways[BASELINE_TCP];
    struct envelope envelope;
    uint32_t guess = expected < size ? expected : 0;
    struct iovec parts[2] = {{&envelope, sizeof(envelope)}, {buffer + guess, size - guess}};
    struct msghdr head = {.msg_iov = parts, .msg_iovlen = 2};
    ssize_t received = recvmsg(way->fd, &head, MSG_DONTWAIT);
    if (received < (ssize_t)sizeof(envelope) || envelope.option_kind != OPTION_KIND ||
        envelope.option_exid != htons(OPTION_EXID) ||
        !baseline_header_decode(envelope.header, frame)) {
        return false;
    }
    /* Any run of slices: the headers are those of the first, the total length is GRO's. */
    uint32_t bytes = ntohs(envelope.ip.tot_len) - (uint32_t)HEADERS_BYTES;
    uint32_t place = ntohl(envelope.tcp.seq);
    if (bytes > received - sizeof(envelope) || place > size || bytes > size - place) {
        return false; /* something before it was lost, and it did not fit where it was put */
    }
    if (place != guess) {
        memmove(buffer + place, buffer + guess, bytes);
    }
    frame->value += (place - frame->offset) / way->payload;
    frame->offset = place;
    frame->length = bytes;
    *pieces = (bytes + way->payload - 1) / way->payload;
    return true;
}

void baseline_tcp_drain(struct baseline_link *link)
{
    uint8_t byte;
    while (recv(link->ways[BASELINE_TCP].fd, &byte, sizeof(byte), MSG_DONTWAIT) > 0) {
    }
}
