/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Segmentation and checksums in software, as RFC 791, 768, 9293 and 1071 want the result.
 *
 *     | Ethernet | IPv4 | TCP or UDP | payload: gso_size | gso_size | ... | rest |
 *     0          14     csum_start   headers_bytes
 */
#include "wire.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#ifndef VIRTIO_NET_HDR_GSO_UDP_L4
#define VIRTIO_NET_HDR_GSO_UDP_L4 5 /* Linux 6.2; older headers do not have it */
#endif

/* Where fields lie in their headers. */
enum { IP_AT_LENGTH = 2, IP_AT_ID = 4, IP_AT_PROTOCOL = 9, IP_AT_CHECKSUM = 10, IP_AT_SOURCE = 12 };
enum { UDP_AT_LENGTH = 4, UDP_AT_CHECKSUM = 6, UDP_BYTES = 8 };
enum { TCP_AT_SEQUENCE = 4, TCP_AT_OFFSET = 12, TCP_AT_FLAGS = 13, TCP_AT_CHECKSUM = 16 };
enum { TCP_BYTES = 20, TCP_FLAG_FIN = 0x01, TCP_FLAG_PSH = 0x08, TCP_FLAG_CWR = 0x80 };

static uint16_t get16(const uint8_t *at)
{
    return (uint16_t)(at[0] << 8 | at[1]);
}

static void put16(uint8_t *at, size_t value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

/* RFC 1071: the sum of 16-bit words, not folded. */
static uint64_t sum(const uint8_t *bytes, size_t len_bytes, uint64_t so_far)
{
    size_t i = 0;

    for (; i + 4 <= len_bytes; i += 4) {
        uint32_t word;
        memcpy(&word, bytes + i, sizeof word);
        so_far += ntohl(word);
    }
    for (; i + 2 <= len_bytes; i += 2) {
        so_far += get16(bytes + i);
    }
    return i < len_bytes ? so_far + (uint64_t)bytes[i] * 256 : so_far;
}

static uint16_t fold(uint64_t value)
{
    while (value > 0xFFFF) {
        value = (value & 0xFFFF) + (value >> 16);
    }
    return (uint16_t)~value;
}

/* The checksum field holds the sum of the pseudo header already (virtio 1.2, section 5.1.6.2). */
static bool complete_checksum(struct wire_frame *frame)
{
    size_t start = frame->vnet.csum_start;
    size_t field = start + frame->vnet.csum_offset;
    uint16_t checksum;

    if (field + 2 > frame->len_bytes) {
        return false;
    }
    checksum = fold(sum(frame->bytes + start, frame->len_bytes - start, 0));
    put16(frame->bytes + field, checksum != 0 ? checksum : 0xFFFF);
    return true;
}

/* Where the parts of a batch lie. */
struct layout {
    size_t ip, transport, headers_bytes;
    bool is_tcp;
};

static bool find_layout(const struct wire_frame *frame, struct layout *layout)
{
    unsigned gso_type = frame->vnet.gso_type & ~(unsigned)VIRTIO_NET_HDR_GSO_ECN;
    size_t least;

    layout->is_tcp = gso_type == VIRTIO_NET_HDR_GSO_TCPV4;
    if (!layout->is_tcp && gso_type != VIRTIO_NET_HDR_GSO_UDP_L4) {
        return false;
    }
    layout->ip = WIRE_ETH_HEADER_BYTES;
    least = layout->is_tcp ? TCP_BYTES : UDP_BYTES;
    if (frame->len_bytes < layout->ip + 20 || frame->bytes[layout->ip] >> 4 != 4) {
        return false;
    }
    layout->transport = layout->ip + (frame->bytes[layout->ip] & 15u) * 4;
    if (frame->len_bytes < layout->transport + least || layout->transport < layout->ip + 20) {
        return false;
    }
    layout->headers_bytes =
        layout->transport +
        (layout->is_tcp ? (frame->bytes[layout->transport + TCP_AT_OFFSET] >> 4) * 4u : UDP_BYTES);
    return layout->headers_bytes >= layout->transport + least &&
           layout->headers_bytes < frame->len_bytes && frame->vnet.gso_size > 0;
}

/* The headers of the segment that holds `payload_bytes` from `offset` on. */
static void finish_headers(uint8_t *bytes, const struct layout *layout, const uint8_t *original,
                           size_t number, size_t offset, size_t payload_bytes, bool is_last)
{
    uint8_t *ip = bytes + layout->ip, *transport = bytes + layout->transport;
    size_t transport_bytes = layout->headers_bytes - layout->transport + payload_bytes;
    size_t field = layout->is_tcp ? TCP_AT_CHECKSUM : UDP_AT_CHECKSUM;
    uint16_t checksum;

    put16(ip + IP_AT_LENGTH, layout->transport - layout->ip + transport_bytes);
    put16(ip + IP_AT_ID, get16(original + layout->ip + IP_AT_ID) + number);
    put16(ip + IP_AT_CHECKSUM, 0);
    put16(ip + IP_AT_CHECKSUM, fold(sum(ip, layout->transport - layout->ip, 0)));

    if (layout->is_tcp) {
        uint32_t sequence;
        memcpy(&sequence, original + layout->transport + TCP_AT_SEQUENCE, sizeof sequence);
        sequence = htonl(ntohl(sequence) + (uint32_t)offset);
        memcpy(transport + TCP_AT_SEQUENCE, &sequence, sizeof sequence);
        if (!is_last) {
            transport[TCP_AT_FLAGS] &= (uint8_t) ~(TCP_FLAG_FIN | TCP_FLAG_PSH);
        }
        if (number > 0) {
            transport[TCP_AT_FLAGS] &= (uint8_t)~TCP_FLAG_CWR;
        }
    } else {
        put16(transport + UDP_AT_LENGTH, transport_bytes);
    }
    put16(transport + field, 0);
    checksum = fold(sum(transport, transport_bytes,
                        sum(ip + IP_AT_SOURCE, 8, ip[IP_AT_PROTOCOL] + (uint64_t)transport_bytes)));
    put16(transport + field, checksum != 0 ? checksum : 0xFFFF);
}

static bool cut_batch(struct wire_frame *frame, wire_segment_fn *emit, void *context)
{
    static uint8_t scratch[WIRE_FRAME_BYTES_MAX];
    struct layout layout;
    size_t payload_bytes, number = 0;

    if (!find_layout(frame, &layout)) {
        return false;
    }
    payload_bytes = frame->len_bytes - layout.headers_bytes;
    for (size_t offset = 0; offset < payload_bytes; offset += frame->vnet.gso_size, number++) {
        size_t rest = payload_bytes - offset;
        size_t part = rest < frame->vnet.gso_size ? rest : frame->vnet.gso_size;
        struct wire_frame segment = {.bytes = scratch, .len_bytes = layout.headers_bytes + part};

        memcpy(scratch, frame->bytes, layout.headers_bytes);
        memcpy(scratch + layout.headers_bytes, frame->bytes + layout.headers_bytes + offset, part);
        finish_headers(scratch, &layout, frame->bytes, number, offset, part, part == rest);
        emit(context, &segment);
    }
    return true;
}

size_t wire_cut_longest_bytes(const struct wire_frame *frame)
{
    struct layout layout;

    if (frame->vnet.gso_type == VIRTIO_NET_HDR_GSO_NONE || !find_layout(frame, &layout)) {
        return frame->len_bytes;
    }
    return layout.headers_bytes + frame->vnet.gso_size;
}

bool wire_cut(struct wire_frame *frame, wire_segment_fn *emit, void *context)
{
    if (frame->vnet.gso_type != VIRTIO_NET_HDR_GSO_NONE) {
        return cut_batch(frame, emit, context);
    }
    if ((frame->vnet.flags & VIRTIO_NET_HDR_F_NEEDS_CSUM) != 0 && !complete_checksum(frame)) {
        return false;
    }
    memset(&frame->vnet, 0, sizeof frame->vnet);
    emit(context, frame);
    return true;
}
